# SPDX-License-Identifier: Apache-2.0
"""Runs an exported model of dialogues with onnxruntime. Needs neither torch nor transformers."""

from pathlib import Path

import numpy as np

from ...runtime.onnx import ENCODER, OnnxClassifier, Session


class OnnxDialogueClassifier(OnnxClassifier):
    """An exported classifier of the turns of dialogues; a second graph encodes the utterances."""

    def __init__(self, folder: str | Path):
        super().__init__(folder)
        self.encoder = Session(self.folder / ENCODER)

    def encode_utterances(self, input_ids: np.ndarray, attention_mask: np.ndarray) -> np.ndarray:
        """Token ids and mask, (N, L) int64 each -> vectors (N, D) float32."""
        return self.encoder({"input_ids": input_ids, "attention_mask": attention_mask})[0]
