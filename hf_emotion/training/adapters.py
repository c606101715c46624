# SPDX-License-Identifier: Apache-2.0
"""Trains a LoRA adapter over a model instead of all its weights (Hu et al. 2022), with PEFT."""

import inspect
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import PreTrainedModel
from transformers.utils.versions import require_version

from ..io.extras import require
from ..io.files import creating, write_json
from ..modeling.common import new_modules
from ..recipes import check_key
from ..runtime.loading import read_model
from ..runtime.ready import HUB_IDS


FOLDER = "adapter"  # subfolder of a run folder: beside config.json and model.safetensors transformers would attach it to the merged model
TASK_TYPES = {
    "AutoModelForSequenceClassification": "SEQ_CLS",
    "AutoModelForTokenClassification": "TOKEN_CLS",
    "AutoModelForSeq2SeqLM": "SEQ_2_SEQ_LM",
    "AutoModelForCausalLM": "CAUSAL_LM",
}


def with_adapter(model: PreTrainedModel, fields: Mapping[str, Any], auto_class: str) -> Any:
    """
    The model, changed in place, with a new LoRA adapter: its own weights stay as they are, the adapter and the new modules are trained.

    Args:
        fields: the fields of `peft.LoraConfig` (r, lora_alpha, target_modules, ...); all linear layers are adapted unless some are
            named, and new modules are trained in full. Also `start_from`: a run folder that a training of all weights of the same
            model wrote, see `start_from`.
        auto_class: the class of transformers that loads the model.
    """
    require("peft", "`adapter` in a recipe", "peft")
    require_version("peft>=0.21.2", "Older ones do not fit transformers 5.24: pip install 'hf-emotion[peft]'")
    import peft

    fields = dict(fields)
    run = fields.pop("start_from", None)
    known = [name for name in inspect.signature(peft.LoraConfig).parameters if name not in ("peft_type", "task_type")]
    for name in fields:
        check_key(name, known, "adapter.")
    if not {"target_modules", "target_parameters"} & fields.keys():
        fields["target_modules"] = "all-linear"
    if new := new_modules(model).keys() - {"classifier", "score"}:  # these PEFT adds itself
        fields["modules_to_save"] = sorted({*(fields.get("modules_to_save") or ()), *new})
    try:
        adapted = peft.get_peft_model(model, peft.LoraConfig(task_type=TASK_TYPES[auto_class], **fields))
    except (ValueError, TypeError) as error:
        raise ValueError(f"`adapter` {fields!r} does not fit the model: {' '.join(str(error).split())}") from error
    if run is not None:
        start_from(adapted, read_model(getattr(transformers, auto_class), run).state_dict(), run)
    return adapted


@torch.no_grad()
def start_from(adapted: Any, trained: Mapping[str, torch.Tensor], run: str) -> None:
    """Start an adapter from the change of a training of all weights, by truncated SVD (Eckart and Young 1936). ValueError: other model."""
    (name,) = adapted.active_adapters
    state = adapted.get_base_model().state_dict()
    plain = {key.replace(".base_layer.", ".").replace(f".modules_to_save.{name}.", "."): key for key in state}
    if not all(key in plain and state[plain[key]].shape == value.shape for key, value in trained.items()):
        raise ValueError(f"`adapter.start_from` {run!r} is a training of another model.")
    for path, module in adapted.get_base_model().named_modules():
        if name not in getattr(module, "lora_A", {}) and name not in getattr(module, "lora_embedding_A", {}):
            continue
        embedding = name in module.lora_embedding_A
        change = (trained[f"{path}.weight"] - module.get_base_layer().weight).float()
        inputs_first = embedding or module.fan_in_fan_out  # so do GPT-2's `Conv1D`
        left, values, right = torch.linalg.svd(change.T if inputs_first else change, full_matrices=False)
        first = module.lora_embedding_A[name] if embedding else module.lora_A[name].weight  # (r, inputs)
        second = module.lora_embedding_B[name] if embedding else module.lora_B[name].weight  # (outputs, r)
        roots = (values[: len(first)] / module.scaling[name]).sqrt()
        first.copy_(roots[:, None] * right[: len(first)])
        second.copy_(left[:, : len(first)] * roots)
    for key, parameter in adapted.get_base_model().named_parameters():
        if parameter.requires_grad and ".lora_" not in key:
            parameter.copy_(trained[key.replace(".base_layer.", ".").replace(f".modules_to_save.{name}.", ".")])


def is_adapted(model: Any) -> bool:
    """Whether a model is a PEFT model with an adapter."""
    return hasattr(model, "merge_and_unload")


def save_adapter(model: Any, folder: Path, base_model: str) -> None:
    """Write the adapter, with its new modules, and the model's config.json; adapter_config.json names the base model."""
    shutil.rmtree(folder, ignore_errors=True)  # left by an interrupted run
    with creating(folder) as temporary:
        model.save_pretrained(temporary)
        model.get_base_model().config.save_pretrained(temporary)
        (temporary / "README.md").unlink(missing_ok=True)  # PEFT's card, which says nothing
        config = json.loads((temporary / "adapter_config.json").read_text(encoding="utf-8"))
        config["base_model_name_or_path"] = HUB_IDS.get(base_model, base_model)  # PEFT names a folder of this machine
        write_json(temporary / "adapter_config.json", config)
