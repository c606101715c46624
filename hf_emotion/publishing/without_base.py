# SPDX-License-Identifier: Apache-2.0
"""
Checkpoints that hold only what is new over a base model: `base_model_name_or_path` in config.json names the one with the other
weights, and `base_model_revision` its commit.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from huggingface_hub import snapshot_download
from huggingface_hub.utils import validate_repo_id
from safetensors import safe_open

import hf_emotion.modeling  # noqa: F401 - registers the Auto classes

from ..runtime.base_models import hub_id
from ..runtime.loading import auto_class_of, read_config, read_model


BASE, REVISION = "base_model_name_or_path", "base_model_revision"
FILES = ("*.json", "*.safetensors")  # of a base model, without the same weights in other formats


def base_of(checkpoint: Path) -> str | None:
    """The base model that a checkpoint lacks; None if it is whole."""
    return json.loads((checkpoint / "config.json").read_text(encoding="utf-8")).get(BASE)


def base_to_publish(checkpoint: Path, merge: bool, base_model: str | None) -> dict[str, Any]:
    """
    The entries of config.json that name the base model for others.

    Args:
        merge: the base model's weights are published, too.
        base_model: the Hub id of the base model.

    Raises:
        ValueError: the base model is a folder of this machine; the checkpoint is whole; `base_model` has other weights.
    """
    config = read_config(checkpoint)
    base, revision = getattr(config, BASE, None), getattr(config, REVISION, None)
    if merge and base_model is not None:
        raise ValueError(
            "--merge publishes the base model's weights, and --base-model says where others find them: leave out one."
        )
    if base is None and (merge or base_model is not None):
        option = "--merge" if merge else "--base-model"
        raise ValueError(f"{checkpoint} holds all weights of its model and needs no base model: leave out {option}.")
    if merge or base is None:
        return {BASE: None, REVISION: None}
    if base_model is not None:
        validate_repo_id(base_model)
        if Path(base).is_dir():
            refuse_other_weights(base, base_model)
        return {BASE: base_model, REVISION: None}
    if hub_id(base) is None:
        raise ValueError(
            f"{checkpoint} holds only what is new over its base model, and that is a folder of this machine, {base}: publish all "
            "weights with --merge, or name the same model on the Hub with --base-model OWNER/NAME."
        )
    return {BASE: base, REVISION: revision}


def write_merged(checkpoint: Path, folder: Path) -> None:
    """Write a checkpoint with all weights, those of its base model too: configuration, weights and code."""
    auto_class = getattr(transformers, auto_class_of(read_config(checkpoint), "AutoModel"))
    model = read_model(auto_class, checkpoint)
    setattr(model.config, BASE, None)
    setattr(model.config, REVISION, None)
    model.save_pretrained(folder)


def place_base(checkpoint: Path, cache: Path) -> None:
    """
    Put the base model of a checkpoint, from the Hub or this machine's cache of it, into another cache.

    Raises:
        ValueError: it is not found.
    """
    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    repository = _downloaded(config[BASE], config.get(REVISION)).parents[1]
    cache.mkdir(exist_ok=True)
    if not (cache / repository.name).exists():
        os.symlink(repository, cache / repository.name, target_is_directory=True)


def refuse_other_weights(folder: str, base_model: str) -> None:
    """ValueError unless a model on the Hub has the weights of a folder, in whatever dtype."""
    own, theirs = _tensors(Path(folder)), _tensors(_downloaded(base_model, None))
    if own.keys() != theirs.keys() or not all(
        torch.equal(_tensor(path, name).float(), _tensor(theirs[name], name).float()) for name, path in own.items()
    ):
        raise ValueError(
            f"`--base-model` {base_model!r} has other weights than {folder}, over which the model was trained: name the same model, "
            "or publish all weights with --merge."
        )


def _downloaded(base_model: str, revision: str | None) -> Path:
    try:
        return Path(snapshot_download(base_model, revision=revision, allow_patterns=FILES))
    except (OSError, ValueError) as error:
        raise ValueError(
            f"the base model {base_model!r} is found neither on the Hub nor in this machine's cache "
            f"({str(error).splitlines()[0]}): check its name and the network, or publish all weights with --merge."
        ) from error


def _tensors(folder: Path) -> Mapping[str, Path]:
    """Name of a tensor -> the file that holds it."""
    found: dict[str, Path] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            found |= dict.fromkeys(file.keys(), path)
    return found


def _tensor(path: Path, name: str) -> torch.Tensor:
    with safe_open(path, "pt") as file:
        return file.get_tensor(name)


__all__ = ["BASE", "base_of", "base_to_publish", "place_base", "write_merged"]
