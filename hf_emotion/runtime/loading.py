# SPDX-License-Identifier: Apache-2.0
"""
Reads checkpoints, other people's too: safetensors only; code beside the weights is never run; if a file cannot be read, the
error names the checkpoint.

Every checkpoint that the toolkit reads goes through these functions.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from safetensors import safe_open
from transformers import AutoConfig, AutoTokenizer, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

import hf_emotion.modeling  # noqa: F401 - registers the Auto classes

from .hub import asking_once


# While transformers loads or makes a model, functions of torch and of its own models are replaced in the whole process.
loading = threading.RLock()
if hasattr(os, "register_at_fork"):  # not on Windows
    # A forked child lacks the thread that may hold the lock.
    os.register_at_fork(before=loading.acquire, after_in_parent=loading.release, after_in_child=loading.release)

PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


def auto_class_of(config: PreTrainedConfig, stock: str) -> str:
    """The name of the Auto class of a model with its head; `stock` for a stock model, whose configuration does not name one."""
    names = getattr(config, "auto_map", None) or {}
    return next((name for name in names if name.startswith("AutoModelFor")), stock)


def read_config(
    checkpoint: str | Path, config_class: type[PreTrainedConfig] = AutoConfig, **fields: Any
) -> PreTrainedConfig:
    """
    The configuration of a checkpoint.

    Args:
        checkpoint: a local folder or a Hub id.
        config_class: the class that reads it.
        fields: entries that replace those in the file.

    Raises:
        OSError: no such checkpoint.
        ValueError: a damaged configuration, or one whose class is code beside it.
    """
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
    """
    The tokenizer of a checkpoint.

    Raises:
        OSError: no such checkpoint.
        ValueError: damaged files, or a tokenizer whose class is code beside them.
    """
    with reading(checkpoint, "tokenizer"):
        tokenizer = AutoTokenizer.from_pretrained(checkpoint, trust_remote_code=False)
    most = tokenizer.model_max_length
    if not isinstance(most, int | float) or not most > 0:  # a wrong value would only fail later, with every text
        raise ValueError(
            f"the checkpoint {str(checkpoint)!r} cannot be loaded: `model_max_length` in its tokenizer_config.json must be a number above 0, "
            f"got {most!r}. Copy the file anew, or save the tokenizer again."
        )
    return tokenizer


def read_model(auto_class: type, checkpoint: str | Path, method: str = "from_pretrained", **arguments: Any) -> Any:
    """
    A model, from safetensors alone.

    Args:
        auto_class: a class with `from_pretrained`.
        checkpoint: a local folder or a Hub id.
        method: the method of `auto_class` that loads it, if not `from_pretrained`.
        arguments: arguments of the method.

    Raises:
        OSError: no such checkpoint, or one without safetensors.
        ValueError: damaged weights, weights of other shapes than the configuration says, a model whose class is code beside them.
    """
    folder = Path(checkpoint)
    if folder.is_dir():
        safe = [path.name for path in folder.glob("*.safetensors")]
        pickles = sorted(path.name for pattern in PICKLES for path in folder.glob(pattern))
        if not safe and pickles:
            raise OSError(
                f"{checkpoint} has no model.safetensors, and {pickles[0]} is not read, because a pickle can run code: let whoever "
                "made it save the model again with `save_pretrained`, which writes safetensors."
            )
    if "config" not in arguments:
        read_config(checkpoint)  # for its checks
    with reading(checkpoint, "weights"):
        loaded = getattr(auto_class, method)(checkpoint, use_safetensors=True, trust_remote_code=False, **arguments)
    _refuse_whole_numbers(folder, loaded[0] if isinstance(loaded, tuple) else loaded)
    return loaded


def _refuse_whole_numbers(folder: Path, model: Any) -> None:
    """ValueError if weights of a folder are whole numbers, which would be read as if they were the weights themselves."""
    if not isinstance(model, PreTrainedModel) or getattr(model.config, "quantization_config", None) is not None:
        return
    own = {name for name, _ in model.named_parameters()}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            for name in own.intersection(file.keys()):
                if (kind := file.get_slice(name).get_dtype()).startswith(("I", "U", "BOOL")):
                    raise ValueError(
                        f"the weights {name!r} in {path} are whole numbers ({kind}), of which nothing in config.json says how they were "
                        "rounded: take the weights in float32, bfloat16 or float16."
                    )


@contextmanager
def reading(checkpoint: str | Path, what: str) -> Iterator[None]:
    """
    Turn errors of the libraries that read `what` of a checkpoint into a ValueError that names both; OSError and ImportError
    stay. Threads wait for each other.
    """
    try:
        with loading, asking_once(checkpoint):
            yield
    except (OSError, ImportError) as error:  # the callers say what to do if there is no such checkpoint
        _refuse_pointers(checkpoint, error)
        raise
    except (
        Exception
    ) as error:  # on a damaged file transformers, tokenizers and safetensors raise errors of many classes
        _refuse_pointers(checkpoint, error)
        reason = " ".join(str(error).split())[:500]
        start = f"the checkpoint {str(checkpoint)!r} cannot be loaded"
        if "trust_remote_code" in reason or "contains custom code" in reason:
            raise ValueError(
                f"{start}: its {what} names a class that only code beside the weights has, and hf-emotion runs no such code. If "
                "you trust it, load model and tokenizer yourself with `trust_remote_code=True` and pass both to the predictor."
            ) from error
        if isinstance(error, ValueError | StrictDataclassError):
            raise ValueError(f"{start} ({what}): {reason}") from error
        raise ValueError(
            f"{start}, its {what} {'are' if what == 'weights' else 'is'} damaged or of another kind ({type(error).__name__}: {reason}): copy the files anew, or save "
            "the model again."
        ) from error


def _refuse_pointers(checkpoint: str | Path, cause: Exception) -> None:
    """ValueError if a folder that cannot be read holds pointers of Git LFS, which stand for files that were not downloaded."""
    for path in sorted(Path(checkpoint).glob("*")) if Path(checkpoint).is_dir() else ():
        if path.is_file() and path.stat().st_size < 1000 and path.read_bytes().startswith(b"version https://git-lfs"):
            raise ValueError(
                f"the checkpoint {str(checkpoint)!r} cannot be loaded: its {path.name} is a pointer of Git LFS and not the file itself. Run "
                "`git lfs pull` in the folder, or download the files."
            ) from cause
