# SPDX-License-Identifier: Apache-2.0
"""Loads and runs torch models for the predictors."""

import os
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from .exported import Kind
from .loading import auto_class_of, read_config, read_model, read_tokenizer
from .plain import text_processing
from .ready import encoder_folder


_process = os.getpid()
_NUMBER = re.compile(r"\.\d+\.")


def use_one_thread_after_fork() -> None:
    """Called once in a forked process: OpenMP would wait for ever for its threads, which stayed behind in the parent."""
    global _process
    if os.getpid() != _process:
        torch.set_num_threads(1)
        _process = os.getpid()


def load_weights(
    checkpoint: str | Path,
    tokenizer: PreTrainedTokenizerBase | None,
    device: str | None,
    dtype: str | None,
    kind_of: Callable[[Any], Kind],
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """See `load_checkpoint`, which calls this for a checkpoint with weights."""
    place = _place(device)
    try:
        config = read_config(checkpoint)
        auto_class = getattr(transformers, auto_class_of(config, kind_of(config).auto_class))
        # Given here and not to `to`, which would also round what models keep in float32, such as rotary frequencies.
        dtypes = {} if dtype is None else {"dtype": getattr(torch, dtype)}
        base = getattr(config, "base_model_name_or_path", None)  # only modulators
        if base and (folder := encoder_folder(base)) is not None:
            config.base_model_name_or_path = str(folder)
        model, loading = read_model(auto_class, checkpoint, config=config, output_loading_info=True, **dtypes)
        if base:
            model.config.base_model_name_or_path = base  # the name that other machines find
    except OSError as error:
        raise OSError(
            f"the checkpoint {str(checkpoint)!r} cannot be loaded, neither from a local folder nor from the Hub: "
            f"{str(error).splitlines()[0]}"
        ) from error
    unused = _unused(model, loading["unexpected_keys"])
    if loading["missing_keys"] or unused:
        raise ValueError(
            f"{checkpoint} lacks weights of its config.json, {sorted(loading['missing_keys'])[:3]}, or has others, {unused[:3]}: train it "
            "first, or copy both files again from one place."
        )
    return model.to(place), tokenizer or read_tokenizer(checkpoint)


def _place(device: str | None) -> torch.device:
    """A device by its name; default: the GPU if there is one. ValueError if it is not there."""
    try:
        place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(
            f"`device` {device!r} is not there ({str(error).splitlines()[0]}): write 'cpu', or 'cuda:0' with the number of a GPU."
        ) from error
    return place


def _unused(model: PreTrainedModel, names: Collection[str]) -> list[str]:
    """The unused weights that matter: all for our models, those of layers for stock ones (others often hold a head of pretraining)."""
    if type(model).__module__.startswith("hf_emotion."):
        return sorted(names)
    kinds = {_NUMBER.sub(".N.", name) for name in model.state_dict()}
    return sorted(name for name in names if _NUMBER.search(name) and _NUMBER.sub(".N.", name) in kinds)


@torch.inference_mode()
def torch_logits(model: PreTrainedModel, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """See `model_logits`."""
    return _logits(model, inputs).cpu().numpy()


def _logits(model: PreTrainedModel, inputs: dict[str, np.ndarray]) -> torch.Tensor:
    use_one_thread_after_fork()
    logits = model(**to_tensors(inputs, model)).logits.float()
    text_processing.check_finite(bool(logits.isfinite().all()))
    return logits


@torch.inference_mode()
def torch_window_logits(model: PreTrainedModel, inputs: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """See `window_logits`."""
    use_one_thread_after_fork()
    tensors = to_tensors(inputs, model)
    labels_attend = hasattr(model.config, "label_attention")
    counted = tensors["pooling_mask"] if labels_attend else tensors.pop("pooling_mask")
    outputs = model(**tensors)
    lse = outputs.label_attention_lse if labels_attend else counted.sum(dim=1, keepdim=True).log()
    text_processing.check_finite(bool(outputs.logits.isfinite().all()))
    return outputs.logits.float().cpu().numpy(), lse.float().cpu().numpy()


def torch_utterance_encoder(model: PreTrainedModel) -> Callable[..., np.ndarray]:
    """A function from the inputs of `encode_utterances`, (N, L) each, to the vectors (N, D) float32 of N utterances."""
    use_one_thread_after_fork()
    encode = getattr(model, "dialogue", model).encode_utterances

    @torch.inference_mode()
    def run(**inputs: np.ndarray) -> np.ndarray:
        return encode(**to_tensors(inputs, model)).float().cpu().numpy()

    return run


def to_tensors(inputs: dict[str, Any], model: PreTrainedModel) -> dict[str, Any]:
    """Arrays as tensors on the model's device; vectors of utterances get the model's dtype. What is no array stays."""
    tensors = {
        name: torch.from_numpy(value).to(model.device) if isinstance(value, np.ndarray) else value
        for name, value in inputs.items()
    }
    if "utterance_embeds" in tensors:
        tensors["utterance_embeds"] = tensors["utterance_embeds"].to(model.dtype)
    return tensors
