# SPDX-License-Identifier: Apache-2.0
"""Writes a ready model as an ordinary checkpoint, with all its weights."""

import shutil
from pathlib import Path

import torch
import transformers

from .loading import loading, read_config, read_tokenizer
from .ready import CARD, METRICS, ReadyModel


def write_checkpoint(model: ReadyModel, folder: Path) -> None:
    """Write the merged model with its tokenizer, card and code into a folder, as a training does."""
    weights = {name: torch.from_numpy(value) for name, value in model.weights().items()}
    with loading:
        merged = getattr(transformers, model.facts["auto_class"]).from_config(read_config(model.folder))
    names = merged.state_dict().keys()
    merged.load_state_dict({name: value for name, value in weights.items() if name in names})
    tokenizer = read_tokenizer(model.folder)
    transformers.pipeline(model.facts["task"], model=merged, tokenizer=tokenizer).save_pretrained(folder)
    for name in (CARD, METRICS):
        shutil.copyfile(model.folder / name, folder / name)
