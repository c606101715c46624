# SPDX-License-Identifier: Apache-2.0
"""
Convert the authors' own checkpoints to ours, from state dicts (`quasi_attention_absa`, `label_aware_attention`) and from files;
and a BERT encoder to a RoBERTa one.
"""

import json
import pickle
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors.torch import load_file
from transformers import BertTokenizerFast, PreTrainedConfig, PreTrainedTokenizerBase

from ..io.files import filling, read_object, refuse_taken
from ..modeling import CGBertConfig
from ..tasks.checkpoints import save_model
from .roberta import bert_to_roberta
from .state_dicts import (
    DEAD,
    GATE_BIAS,
    label_aware_attention,
    quasi_attention_absa,
    without_prefix,
)


@dataclass(frozen=True)
class Conversion:
    """
    Attributes:
        model_class: name of our class.
        read: number of the authors' tensors that the model was read from.
        ignored: names of the tensors that were left out, because no output depends on them.
        tokenizer: whether a tokenizer was saved with the model.
    """

    model_class: str
    read: int
    ignored: list[str]
    tokenizer: bool


CONFIG_FILES = ("config.json", "bert_config.json")


def convert_checkpoint(
    reference: str | Path, output: str | Path, config: str | Path | None = None, **overrides: Any
) -> Conversion:
    """
    Convert a file with the state dict of the authors' label-aware, CG-BERT or QACG-BERT classifier to a checkpoint that
    `AutoModel` can load, with the code of the model, and its tokenizer if `vocab.txt` or `tokenizer.json` lies beside it.

    Args:
        reference: a file; only its tensors are loaded, and no code is run.
        output: a new or empty folder.
        config: the JSON file of the model's configuration; default: `config.json`, else `bert_config.json`, beside the reference.
        overrides: configuration entries that replace those of the file, see `quasi_attention_absa` and `label_aware_attention`.

    Raises:
        OSError: a file that is missing, or an `output` that is not empty.
        ValueError: the file holds more than tensors, belongs to no known family, or does not fit configuration or tokenizer.
    """
    reference, output = Path(reference), Path(output)
    refuse_taken(output)
    state_dict = without_prefix(_load(reference))
    settings = {**_read_config(reference, config), **overrides}
    if "label_embds" in state_dict:
        read, sizes = label_aware_attention, {"num_labels": "label_embds"}
    elif any("encoder.context_layer." in name for name in state_dict):
        read = quasi_attention_absa
        sizes = {"num_labels": "classifier.weight", "num_contexts": "bert.context_embeddings.weight"}
    else:
        raise ValueError(f"{reference} belongs to no known family: neither label-aware attention nor CG-BERT.")
    for size, name in sizes.items():
        if settings.get(size) is None and name in state_dict:
            settings[size] = next(iter(state_dict[name].shape), None)
    try:
        model = read(state_dict, settings)
    except StrictDataclassError as error:
        raise ValueError(f"the configuration does not fit: {error.__cause__ or error}") from error
    dead = f"{DEAD}|{GATE_BIAS}" if model.config.model_type == CGBertConfig.model_type else DEAD
    ignored = [name for name in state_dict if re.fullmatch(dead, name)]
    tokenizer = _load_tokenizer(reference.parent, model.config)
    with filling(output) as folder:
        if tokenizer is None:
            model.save_pretrained(folder)
        else:
            save_model(model, tokenizer, folder)
    return Conversion(type(model).__name__, len(state_dict) - len(ignored), ignored, tokenizer is not None)


def _load(path: Path) -> Mapping[str, torch.Tensor]:
    """The state dict in a file."""
    if path.suffix == ".safetensors":
        return load_file(path)
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ValueError(
            f"{path} holds more than tensors, which could run code, or is damaged: save only the model's `state_dict()`."
        ) from error


def _read_config(reference: Path, config: str | Path | None) -> dict[str, Any]:
    candidates = [reference.parent / name for name in CONFIG_FILES] if config is None else [Path(config)]
    path = next((path for path in candidates if path.is_file()), candidates[0])
    return read_object(path, "take the file that came with the checkpoint")


def _load_tokenizer(folder: Path, config: PreTrainedConfig) -> PreTrainedTokenizerBase | None:
    """The tokenizer in a folder, which lower-cases if its vocabulary does; None if there is none."""
    if not any((folder / name).is_file() for name in ("vocab.txt", "tokenizer.json")):
        return None
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    tokenizer = BertTokenizerFast.from_pretrained(folder)
    if len(tokenizer) > config.vocab_size:
        raise ValueError(f"the tokenizer in {folder} has {len(tokenizer)} words, the model only {config.vocab_size}.")
    defaults = {
        # Without this argument BertTokenizerFast lower-cases, whatever tokenizer.json says.
        "do_lower_case": not any(
            re.search("[A-Z]", word) for word in set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens)
        ),
        "model_max_length": config.max_position_embeddings,
    }
    return BertTokenizerFast.from_pretrained(
        folder, **{name: value for name, value in defaults.items() if name not in settings}
    )


__all__ = ["Conversion", "bert_to_roberta", "convert_checkpoint", "label_aware_attention", "quasi_attention_absa"]
