# SPDX-License-Identifier: Apache-2.0
"""ONNX export of classifiers of texts (one graph, and the TF-IDF gate beside it), and their Inference Endpoint."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..exporting import EXAMPLE, Exporter, classifier_exporter, write_classifier
from .predictor import Predictor
from .showing import EXAMPLES
from .unlike import TOKEN_SCORES


def exporter() -> Exporter:
    return classifier_exporter(Predictor, run, write, write_browser=write_browser, examples=EXAMPLES)


def run(predictor: Predictor, texts: Sequence[str], progress: bool) -> np.ndarray:
    return predictor.label_probabilities(list(texts), progress)


def write(predictor: Predictor, folder: Path, *more: str) -> list[Path]:
    """`more`: further outputs of a graph with label attention."""
    if predictor.gate is not None:
        predictor.gate.save_pretrained(folder)
    if predictor.token_scores is not None:
        np.save(folder / TOKEN_SCORES, predictor.token_scores.astype(np.float32))
    if not hasattr(predictor.model.config, "label_attention"):
        return write_classifier(predictor, folder, run, [EXAMPLE] * 3)
    # Inputs and outputs for long texts, whose windows are made and joined outside the graph.
    return write_classifier(
        predictor,
        folder,
        run,
        [EXAMPLE] * 3,
        lambda inputs: {**inputs, "pooling_mask": inputs["attention_mask"]},
        ["logits", "label_attention_lse", *more],
    )


def write_browser(predictor: Predictor, folder: Path) -> list[Path]:
    """With the attention over the tokens, which costs the graph nothing: it computes that anyway."""
    if predictor.gate is not None or predictor.regression:
        raise ValueError("a page in the browser takes no TF-IDF gate and no regression: use `serve`.")
    return write(predictor, folder, "label_attentions")


# This function becomes part of the handler.py of an Inference Endpoint, and imports nothing.
def respond(run, inputs, parameters: dict) -> list:
    """For a text a list of {"label", "score"}, for several texts a list of such lists; `parameters`: `top_k` and others of the pipeline."""
    if run.task == "text-classification":
        # That of transformers, which fails at long texts; ours reads them in windows.
        parameters = {"truncation": True, **parameters}
    return run(inputs, **parameters)
