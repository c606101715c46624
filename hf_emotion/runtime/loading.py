# SPDX-License-Identifier: Apache-2.0
"""Reads checkpoints, other people's too: safetensors only, and code beside the weights is never run. All reading goes through here."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

import hf_emotion.modeling  # noqa: F401 - registers the Auto classes

from .hub import asking_once
from .sharing import free_after_forks


# While transformers loads or makes a model, functions of torch and of its own models are replaced in the whole process.
loading = free_after_forks(threading.RLock())


def auto_class_of(config: PreTrainedConfig, stock: str) -> str:
    """The name of the Auto class of a model with its head; `stock` for a stock model, whose configuration does not name one."""
    names = getattr(config, "auto_map", None) or {}
    return next((name for name in names if name.startswith("AutoModelFor")), stock)


def read_config(
    checkpoint: str | Path, config_class: type[PreTrainedConfig] = AutoConfig, **fields: Any
) -> PreTrainedConfig:
    """The configuration of a checkpoint, a local folder or a Hub id, read by `config_class`; `fields` replace entries of the file."""
    with reading(checkpoint, "config.json"):
        config = config_class.from_pretrained(checkpoint, trust_remote_code=False, **fields)
    # If the name of an attention holds a "/", transformers would download and run its code.
    if "/" in str(getattr(config, "_attn_implementation", None)):
        raise ValueError(
            f"the checkpoint {str(checkpoint)!r} is not loaded: its config.json asks for the attention "
            f"{config._attn_implementation!r}, code of a repository: remove the entry."
        )
    return config


def read_tokenizer(checkpoint: str | Path) -> PreTrainedTokenizerBase:
    """The tokenizer of a checkpoint, a local folder or a Hub id."""
    folder, tokenizer = Path(checkpoint), None
    files = [path for name in ("tokenizer*", "vocab*", "*.model", "spiece*") for path in folder.glob(name)]
    if files or not folder.is_dir():
        with reading(checkpoint, "tokenizer"):
            tokenizer = AutoTokenizer.from_pretrained(checkpoint, trust_remote_code=False)
    if tokenizer is None or not set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens):
        raise OSError(
            f"the checkpoint {str(checkpoint)!r} has no tokenizer: save the one it was trained with into it."
        )
    return tokenizer


def read_model(auto_class: type, checkpoint: str | Path, method: str = "from_pretrained", **arguments: Any) -> Any:
    """A model, only from safetensors, by a method of `auto_class`, which gets the other arguments. `checkpoint`: a folder or Hub id."""
    pickles = [] if any(Path(checkpoint).glob("*.safetensors")) else sorted(Path(checkpoint).glob("*.bin"))
    if pickles:
        raise OSError(
            f"{checkpoint} has no model.safetensors, and {pickles[0].name} is not read, because a pickle can run code: let whoever "
            "made it save the model again with `save_pretrained`."
        )
    if "config" not in arguments:
        read_config(checkpoint)  # for its checks
    with reading(checkpoint, "weights"):
        return getattr(auto_class, method)(checkpoint, use_safetensors=True, trust_remote_code=False, **arguments)


def read_gguf(file: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The language model, float32, and the tokenizer of a GGUF file."""
    arguments: dict[str, Any] = {"gguf_file": file.name, "trust_remote_code": False}
    with reading(file.parent, file.name):
        tokenizer = AutoTokenizer.from_pretrained(file.parent, **arguments)
        weights = AutoModelForCausalLM.from_pretrained(file.parent, dtype=torch.float32, **arguments).state_dict()
        # What was read counts as quantized, which is not saved.
        model = AutoModelForCausalLM.from_config(
            AutoConfig.from_pretrained(file.parent, **arguments), dtype=torch.float32
        )
    model.load_state_dict(weights)
    return model, tokenizer


@contextmanager
def reading(checkpoint: str | Path, what: str) -> Iterator[None]:
    """Turn what libraries raise for `what` of a checkpoint into a ValueError; OSError and ImportError stay. Threads wait."""
    try:
        with loading, asking_once(checkpoint):
            yield
    except (OSError, ImportError):  # the callers say what to do if there is no such checkpoint
        raise
    except Exception as error:  # transformers, tokenizers and safetensors raise errors of many classes
        reason = " ".join(str(error).split())[:500]
        remedy = "copy the files again, or save the model again."
        if "trust_remote_code" in reason or "contains custom code" in reason:
            remedy = (
                "its class is code beside the weights, and hf-emotion runs no such code. If you trust it, load model and tokenizer "
                "yourself with `trust_remote_code=True` and pass both to the predictor."
            )
        raise ValueError(
            f"the checkpoint {str(checkpoint)!r} cannot be loaded ({what}: {type(error).__name__}: {reason}): {remedy}"
        ) from error
