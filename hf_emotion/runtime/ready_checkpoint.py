# SPDX-License-Identifier: Apache-2.0
"""Writes a ready model as an ordinary checkpoint, with all its weights."""

import json
import shutil
import tempfile
from pathlib import Path

import torch
import transformers

from .loading import read_config, read_tokenizer
from .ready import CARD, METRICS, ReadyModel


def write_checkpoint(model: ReadyModel, folder: Path) -> None:
    """
    Write the merged model with its tokenizer, card and code into a folder, as `save_pretrained` does.

    Raises:
        OSError, ValueError: see `ReadyModel.weights`.
    """
    weights = {name: torch.from_numpy(value) for name, value in model.weights().items()}
    config = read_config(model.folder)
    merged = getattr(transformers, model.facts["auto_class"]).from_config(config)
    own = merged.state_dict().keys()
    merged.load_state_dict({name: value for name, value in weights.items() if name in own})
    merged.save_pretrained(folder)
    with tempfile.TemporaryDirectory() as place:
        shutil.copyfile(model.encoder_files["tokenizer.json"], Path(place) / "tokenizer.json")
        shutil.copyfile(model.folder / "tokenizer_config.json", Path(place) / "tokenizer_config.json")
        # Saved beside the model's configuration, which names the tokenizer's class.
        (Path(place) / "config.json").write_text(json.dumps({"model_type": "bert"}), encoding="utf-8")
        read_tokenizer(place).save_pretrained(folder)
    for name in (CARD, METRICS):
        shutil.copyfile(model.folder / name, folder / name)
