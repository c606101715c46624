# SPDX-License-Identifier: Apache-2.0
"""Loads checkpoints for the predictors, both those with weights and exported ones. Imports torch only if a checkpoint needs it."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .exported import ExportedTokenizer, Kind, is_light, read_exported_config
from .onnx import OnnxClassifier, is_exported
from .plain import text_processing
from .ready import for_prediction


if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

logger = logging.getLogger(__name__)

DTYPES = ("float32", "bfloat16", "float16")


def device_name(device: "str | int | torch.device | None") -> str | None:
    """The name of a device; a number is the one of a GPU, and -1 the CPU, as `pipeline` takes them."""
    if isinstance(device, int):
        return "cpu" if device == -1 else f"cuda:{device}"
    return None if device is None else str(device)


def load_checkpoint(
    checkpoint: "str | Path | PreTrainedModel | OnnxClassifier",
    tokenizer: "PreTrainedTokenizerBase | None",
    device: "str | int | torch.device | None",
    dtype: str | None,
    kind_of: Callable[[Any], Kind],
) -> tuple[Any, Any]:
    """A model with its head, and its tokenizer. A model object stays where and as it is. `kind_of` gives the kind for a configuration."""
    if dtype is not None and dtype not in DTYPES:
        raise ValueError(f"`dtype` must be one of {list(DTYPES)}, got {dtype!r}.")
    device = device_name(device)
    if not isinstance(checkpoint, str | Path):
        moved = device is not None and device.partition(":")[0] != checkpoint.device.type
        if tokenizer is None or dtype is not None or moved:
            raise ValueError(
                "pass `tokenizer` together with a model object, and neither `dtype` nor another `device`: see `model.to`."
            )
        return checkpoint, tokenizer
    checkpoint = for_prediction(checkpoint, device, dtype)
    folder = Path(checkpoint)
    if folder.exists() and not (folder / "config.json").is_file():
        raise OSError(f"{checkpoint} is not a checkpoint: it has no config.json.")
    if is_exported(checkpoint):
        if dtype is not None or (device or "cpu").partition(":")[0] != "cpu":
            raise ValueError(
                f"{checkpoint} is an exported model, which runs on the CPU as it is: leave `device` and `dtype` out."
            )
        model = kind_of(read_exported_config(folder)).exported(folder)
        return model, tokenizer or getattr(model, "tokenizer", None) or _exported_tokenizer(folder)
    from .torch_models import load_weights

    return load_weights(checkpoint, tokenizer, device, dtype, kind_of)


# How many rows more the embeddings may have than the tokenizer: sizes are rounded up for speed and leave room for new words.
ROUNDED_UP = 128


def check_vocabulary(config: Any, tokenizer: Any) -> None:
    """Warn of a tokenizer that cannot be the model's: its ids would stand for other words, without any error."""
    rows = getattr(getattr(config, "encoder_config", None) or config, "vocab_size", None)
    if rows is not None and not rows - ROUNDED_UP <= len(tokenizer) <= rows:
        logger.warning(
            "the tokenizer knows %d tokens and the model %d: take the tokenizer that the model was trained with, otherwise the "
            "labels mean nothing",
            len(tokenizer),
            rows,
        )


def _exported_tokenizer(folder: Path) -> Any:
    if is_light(folder):
        return ExportedTokenizer(folder)
    from .loading import read_tokenizer

    return read_tokenizer(folder)


def model_probabilities(
    model: Any, inputs: dict[str, np.ndarray], multi_label: bool, temperature: float = 1.0
) -> np.ndarray:
    """Probabilities (float32) of a batch that `pad_rows` or `pad_dialogues` made, from a torch model or an exported one."""
    return to_probabilities(model_logits(model, inputs), multi_label, temperature)


def model_logits(model: Any, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """Logits of a batch, float32; the arguments of `model_probabilities`."""
    if not getattr(model, "takes_arrays", False):
        from .torch_models import torch_logits

        return torch_logits(model, inputs)
    return _finite(model(**inputs).logits)


def values_of(logits: np.ndarray, config: Any) -> np.ndarray:
    """The values, float32, that a regression predicts, of the same shape as the logits."""
    return np.vectorize(lambda logit: text_processing.value_of(logit, config), otypes=[np.float32])(logits)


def scores_of(logits: np.ndarray, predictor: Any, raw: bool = False) -> np.ndarray:
    """(N, C) what a predictor's model says: probabilities, `raw`: without its temperature, or the values of a regression."""
    config = predictor.model.config
    if config.problem_type == "regression":
        return values_of(logits, config)
    return to_probabilities(logits, predictor.multi_label, 1.0 if raw else text_processing.temperature_of(config))


def window_logits(model: Any, inputs: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Logits (W, C) of windows of texts, and the weight of each window in its text, (W, C) or (W, 1), see `join_windows`."""
    if not getattr(model, "takes_arrays", False):
        from .torch_models import torch_window_logits

        return torch_window_logits(model, inputs)
    counted = inputs["pooling_mask"].sum(axis=1, keepdims=True)
    if "pooling_mask" not in model.reads:
        inputs = {name: value for name, value in inputs.items() if name != "pooling_mask"}
    outputs = model(**inputs)
    return _finite(outputs.logits), getattr(outputs, "label_attention_lse", np.log(counted))


def _finite(logits: np.ndarray) -> np.ndarray:
    text_processing.check_finite(bool(np.isfinite(logits).all()))
    return logits


def to_probabilities(logits: np.ndarray, multi_label: bool, temperature: float = 1.0) -> np.ndarray:
    """The sigmoid of each logit / temperature, or the softmax over the last dimension."""
    if temperature != 1:
        logits = logits / np.float32(temperature)
    if multi_label:
        # The smaller of the two exponentials, so that none overflows.
        small = np.exp(-np.abs(logits))
        return np.where(logits >= 0, 1, small) / (1 + small)
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)
