# SPDX-License-Identifier: Apache-2.0
"""
Checkpoints that hold only what is new over a base model: `base_model_name_or_path` in config.json names the one with the other
weights, and `base_model_revision` its commit.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from huggingface_hub import ModelCard, snapshot_download
from huggingface_hub.utils import validate_repo_id
from safetensors import safe_open

import hf_emotion.modeling  # noqa: F401 - registers the Auto classes

from ..io.files import write_json
from ..runtime.base_models import hub_id
from ..runtime.loading import auto_class_of, read_config, read_model


BASE, REVISION = "base_model_name_or_path", "base_model_revision"
FILES = ("*.json", "*.safetensors")  # of a base model, without the same weights in other formats


def complete(checkpoint: Path, weight_files: Sequence[str], merge: bool, base_model: str | None) -> None:
    """
    Make a copy of a checkpoint fit for others.

    Args:
        checkpoint: the folder, which is changed.
        weight_files: patterns of the names of files with weights.
        merge: write all weights into it.
        base_model: the Hub id that config.json will name.

    Raises:
        ValueError: the base model is a folder of this machine; the checkpoint is whole; `base_model` has other weights.
    """
    config = _config(checkpoint)
    base = config.get(BASE)
    if (merge and base_model is not None) or (base is None and (merge or base_model is not None)):
        raise ValueError("leave out --merge or --base-model, and both for a run that holds all weights of its model.")
    if base is None:
        return
    if merge:
        model = read_model(getattr(transformers, auto_class_of(read_config(checkpoint), "AutoModel")), checkpoint)
        for pattern in weight_files:
            for path in checkpoint.glob(pattern):
                path.unlink()
        model.config.forget_base_model()
        model.save_pretrained(checkpoint)
    elif base_model is not None:
        validate_repo_id(base_model)
        found = _downloaded(base_model, None)
        if Path(base).is_dir():
            _refuse_other_weights(Path(base), base_model, found)
        write_json(checkpoint / "config.json", {**config, BASE: base_model, REVISION: found.name})
    elif hub_id(base) is None:
        raise ValueError(
            f"the run holds only what is new over the folder {base}: publish all weights with --merge, or name its Hub id with --base-model."
        )


def with_base(card: str, folder: Path) -> str:
    """The card of a folder, which names the base model that the checkpoint lacks in its metadata."""
    base = _config(folder).get(BASE)
    if base is None:
        return card
    changed = ModelCard(card)
    changed.data.base_model, changed.data.base_model_relation = base, "adapter"
    return str(changed)


def place_bases(folders: Sequence[Path], cache: Path) -> None:
    """Put the base models that checkpoints lack into another cache of the Hub; ValueError: one is not found."""
    for path in (path for folder in folders for path in folder.rglob("config.json")):
        config = _config(path.parent)
        if config.get(BASE) is not None:
            repository = _downloaded(config[BASE], config.get(REVISION)).parents[1]
            cache.mkdir(exist_ok=True)
            if not (cache / repository.name).exists():
                os.symlink(repository, cache / repository.name, target_is_directory=True)


def _config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"  # a run of one model for each target and aspect has none at its top
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _refuse_other_weights(folder: Path, base_model: str, found: Path) -> None:
    """ValueError unless a model of the Hub, which lies in `found`, has the weights of a folder, in whatever dtype."""
    own, theirs = _tensors(folder), _tensors(found)
    if own.keys() != theirs.keys() or not all(
        torch.equal(_tensor(path, name).float(), _tensor(theirs[name], name).float()) for name, path in own.items()
    ):
        raise ValueError(f"`--base-model` {base_model!r} has other weights than {folder}: name the same model.")


def _downloaded(base_model: str, revision: str | None) -> Path:
    """The folder with a model of the Hub, in this machine's cache; its name is the commit."""
    try:
        return Path(snapshot_download(base_model, revision=revision, allow_patterns=FILES))
    except (OSError, ValueError) as error:
        raise ValueError(
            f"the base model {base_model!r} cannot be read from the Hub ({str(error).splitlines()[0]}): check its name and the network."
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
