# SPDX-License-Identifier: Apache-2.0
"""Builds classifiers of texts, with or without aspects, and encodes rows for their training."""

import logging
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from datasets import Dataset, DatasetDict, List, Value
from tokenizers import processors
from transformers import (
    CONFIG_MAPPING,
    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING,
    AutoModelForSequenceClassification,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

import hf_emotion.modeling  # noqa: F401 - registers the Auto classes

from .. import metrics
from ..data.splits import label_names, map_rows
from ..data.votes import COLUMN as VOTES
from ..data.votes import votes_of
from ..gold import Gold
from ..io.names import did_you_mean
from ..modeling.common import classification_loss
from ..modeling.text_processing import TfidfGate, usable_positions
from ..recipes import Recipe
from ..run_report import Contexts
from ..runtime.base_models import base_to_build_on, finding, load_base_tokenizer
from ..runtime.batching import INPUT_NAMES, encode_texts, pad_rows
from ..runtime.checkpoints import values_of
from ..runtime.emoji_names import with_emoji_names
from ..runtime.languages import languages_of, set_languages
from ..runtime.loading import read_config, read_model
from ..runtime.unread import COLUMNS, Unread, warn_unread
from ..runtime.windows import Windowing
from .base import MainProcessFirst, Prepared
from .corpus_metrics import single_label
from .rows import gold_of


logger = logging.getLogger(__name__)


# Fields that decide what weights a head has.
HEAD = ("label_attention", "label_embedding_size", "tie_head", "head_hidden_size")


def build_classifier(
    base_model: str,
    model_type: str | None,
    model_config: dict,
    tokenizer: PreTrainedTokenizerBase,
    label_names: list[str],
    multi_label: bool,
    class_counts: list[int],
    label_texts: Mapping[str, str] | None = None,
    contexts: Contexts | None = None,
    frequencies: Sequence[float] | None = None,
) -> PreTrainedModel:
    """
    A classifier over a pretrained encoder, in float32, with the labels' names in its config; label vectors start from
    the names.

    Args:
        base_model: an encoder, or a trained classifier. A classifier with the same labels (and aspects, and model type) is
            trained further as a whole; from any other classifier only the encoder is kept.
        model_type: one of our model types, or None for the stock class of the base model.
        multi_label: whether a row may have several labels; regression does not ask.
        class_counts: training rows per label, for the class-balanced loss.
        label_texts: words for labels whose names mean nothing to the tokenizer.
        frequencies: share of the training rows with each label (for each label vector of aspects: among the rows with it or "none"), or the
            mean of each value; the head's bias may start from it.
    """
    names = dict(enumerate(label_names))
    fields = {
        **model_config,
        "id2label": names,
        "label2id": {name: i for i, name in names.items()},
        "problem_type": model_config.get("problem_type")
        or ("multi_label_classification" if multi_label else "single_label_classification"),
    }
    for name in ("aspects", "targets", "target_texts", "num_contexts"):
        if name in model_config:
            raise ValueError(f"`model_config.{name}` comes from the corpus: leave it out.")
    with finding(base_model):
        head = {name: model_config[name] for name in HEAD if name in model_config}
        with base_to_build_on(base_model, model_type, names, contexts, head) as path:
            base = read_config(path)
            if model_type is None:
                model = _stock_classifier(path, base, fields, model_config, contexts)
                if base_model == "minilm" and contexts is None:
                    renew_pooler(model)
                _start_values(model, base, frequencies)
                return model
            config_class = CONFIG_MAPPING[model_type]
            any_encoder = "encoder_config" in config_class.__dataclass_fields__ and base.model_type != model_type
            try:
                if not any_encoder:
                    config_class.from_dict({"model_type": base.model_type})
            except ValueError as error:
                raise ValueError(
                    f"`base_model` {base_model!r} does not fit `model_type` {model_type!r}: {error}"
                ) from error
            defaults = config_class()
            fields.update(contexts or {})
            if hasattr(defaults, "class_counts"):
                fields["class_counts"] = class_counts
            # What a trained base model has for its own corpus and its own training.
            plain = {"tfidf_gating": "none", "class_balanced_beta": None, "class_balanced_normalize": False}
            fields = {name: value for name, value in plain.items() if hasattr(defaults, name)} | fields
            if any_encoder:
                model = read_model(
                    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING[config_class],
                    path,
                    "from_encoder_pretrained",
                    dtype=torch.float32,
                    **fields,
                )
            else:
                config = read_config(path, config_class, **fields)
                model = read_model(AutoModelForSequenceClassification, path, config=config, dtype=torch.float32)
    if hasattr(model, "init_label_embeddings") and base.model_type != model_type:
        _start_labels(model, tokenizer, label_texts or {}, frequencies)
    _start_values(model, base, frequencies)
    return model


@torch.no_grad()
def _start_values(model: PreTrainedModel, base: PreTrainedConfig, means: Sequence[float] | None) -> None:
    """
    Start the bias of a regression's head at the mean of each value, or, if it has one for all, at the mean of these. A head that learnt
    values already goes on from its own.
    """
    if means is None or model.config.problem_type != "regression" or base.problem_type == "regression":
        return
    named = [
        (name, own) for name, own in model.named_parameters() if not name.startswith(model.base_model_prefix + ".")
    ]
    biases = [own for name, own in named if name.endswith("bias") and own.numel() in (1, len(means))]
    if biases:
        start = torch.tensor(means)
        biases[-1].copy_(start if biases[-1].numel() == len(means) else start.mean())


def _start_labels(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    label_texts: Mapping[str, str],
    frequencies: Sequence[float] | None,
) -> None:
    """Set the start of the label vectors and of the head's bias, as the model's configuration says."""
    config = model.config
    names = config.vector_names
    unknown = sorted(set(label_texts) - set(names))
    if unknown:
        raise ValueError(f"`label_texts` names labels that the corpus does not have: {unknown}.")
    if config.label_embedding_size == model.label_start_size:
        model.init_label_embeddings(tokenizer, [label_texts.get(name, name) for name in names])
    else:
        logger.warning(
            "the label vectors start at random: `label_embedding_size` is %d, and words (states) have %d dimensions",
            *(config.label_embedding_size, model.label_start_size),
        )
    if config.head_bias_init == "prior" and config.problem_type != "regression" and frequencies is not None:
        model.init_head_bias(frequencies)


def _stock_classifier(
    path: str, base: PreTrainedConfig, fields: dict[str, Any], model_config: dict, contexts: Contexts | None
) -> PreTrainedModel:
    """The stock classifier of a base model; contexts and gate are stored in its config as extra fields."""
    kept: dict[str, Any] = {} if contexts is None else {**contexts, "auxiliary_sentence": False}
    kept["tfidf_gating"] = "none"
    if fields["problem_type"] == "regression":
        kept |= {"value_range": None, "regression_loss": "mse", "ordinal_slope": 3.0}
    kept |= {name: fields.pop(name) for name in kept if name in fields}
    allowed = ["none", "filter"] if contexts is None else ["none"]  # removing words could remove targets
    if kept["tfidf_gating"] not in allowed:
        raise ValueError(f"`model_config.tfidf_gating` must be one of {allowed}, got {kept['tfidf_gating']!r}.")
    unknown = [name for name in model_config if name in fields and not hasattr(base, name)]
    if unknown:
        raise ValueError(
            f"a {base.model_type!r} model has no `model_config.{unknown[0]}`.{did_you_mean(unknown[0], base.to_dict())}"
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
    Give BERT's pooler a new start: weights N(0, 1/d), which keep the variance of their input, and bias 0.

    The packaged MiniLM was trained with mean pooling. Its pooler is untrained; the weights have a standard deviation of 0.009
    (1/√d is 0.051), so the stock classifier after it sees values near 0 and hardly learns GoEmotions. Models of aspects do
    learn with this pooler (QACG-BERT better than with a new one, on one seed of SentiHood) and keep it.
    """
    generator = torch.Generator().manual_seed(torch.initial_seed())  # random numbers drawn after this do not change
    dense = model.bert.pooler.dense
    torch.nn.init.normal_(dense.weight, std=dense.in_features**-0.5, generator=generator)
    torch.nn.init.zeros_(dense.bias)


def tokenize(
    dataset: Dataset,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    config: PreTrainedConfig,
    gate: TfidfGate | None = None,
    windows: Windowing | None = None,
) -> Dataset:
    """
    The columns `length` and, if there are any, `labels` and `votes`, and the model's inputs: those of
    `encode_texts`, with the auxiliary sentence as second segment if the config asks for it, and `context_ids`. Texts are cut to
    `max_length` tokens, or read in `windows`; then each value is a list with an entry for each window. Warnings count the texts that
    the model cannot read in full.
    """
    auxiliary = ["auxiliary"] if getattr(config, "auxiliary_sentence", False) else []

    def encode(batch: dict) -> dict:
        encoded, unread = encode_texts(
            tokenizer, [batch[name] for name in ("text", *auxiliary)], max_length, gate, config, windows
        )
        if hasattr(config, "num_contexts"):
            encoded["context_ids"] = batch["context_id"]
        lengths = [len(ids) for ids in encoded["input_ids"]]
        if windows is not None:
            documents = encoded.pop("documents", list(range(len(lengths))))
            encoded.setdefault("pooling_mask", [[1] * length for length in lengths])
            encoded = {name: _grouped(rows, documents) for name, rows in encoded.items()}
            lengths = [sum(map(len, parts)) for parts in encoded["input_ids"]]
        language = np.array([code or "" for code in unread.language])  # a column of None has no type
        told = unread._replace(language=language)._asdict()
        return {**encoded, "length": lengths, **{name: told[name] for name in COLUMNS}}

    columns = [name for name in dataset.column_names if name not in ("labels", VOTES)]
    dataset = map_rows(dataset, encode, batched=True, remove_columns=columns, desc="tokenizing")
    unread = Unread.nothing(len(dataset))._replace(**{name: np.array(dataset[name][:]) for name in COLUMNS})
    most = "" if windows is None else f"{windows.most} windows (`max_windows`) of "
    warn_unread(unread.counts, f"{most}{max_length} tokens (`max_length`)", languages_of(config))
    return dataset.remove_columns(list(COLUMNS))


def _grouped(rows: Sequence[list], documents: Sequence[int]) -> list[list[list]]:
    """Group the rows of windows by their text."""
    grouped: list[list[list]] = [[] for _ in range(documents[-1] + 1)]
    for row, document in zip(rows, documents, strict=True):
        grouped[document].append(row)
    return grouped


def make_collator(tokenizer: PreTrainedTokenizerBase) -> Callable[[list[dict]], dict]:
    """
    A collator that pads to the longest row of the batch. `labels` are as `Gold.targets`, or (B, A) int64 for the labels of A aspects. Rows with
    votes also give `votes` (B, C) float32, which are for the loss and not for the model. Rows in windows become rows of windows, with
    `document_ids`.
    """

    def collate(rows: list[dict]) -> dict:
        # The Trainer counts rows by the first column.
        batch = {name: torch.tensor([row[name] for row in rows]) for name in ("labels", VOTES) if name in rows[0]}
        names = [name for name in (*INPUT_NAMES, "context_ids") if name in rows[0]]
        if "pooling_mask" in names:
            windows = [len(row["input_ids"]) for row in rows]
            batch["document_ids"] = torch.arange(len(rows)).repeat_interleave(torch.tensor(windows))
            columns = {name: [part for row in rows for part in row[name]] for name in names}
        else:
            columns = {name: [row[name] for row in rows] for name in names}
        return batch | {name: torch.from_numpy(array) for name, array in pad_rows(tokenizer, columns).items()}

    return collate


def prepare_classifier(
    recipe: Recipe,
    splits: DatasetDict,
    first: MainProcessFirst,
    contexts: Contexts | None = None,
    gate: TfidfGate | None = None,
    alone: bool = False,
    check: Callable[..., None] = lambda *arguments: None,
    windows: Windowing | None = None,
    joined: Callable[[Dataset, PreTrainedConfig], Dataset] | None = None,
    frequencies: Sequence[float] | None = None,
) -> Prepared:
    """
    What the training of a classifier needs.

    Args:
        alone: whether the rows belong to a single context, for which the metrics of the corpus are not defined.
        check: (tokenizer, configuration, max_length); raises ValueError if they do not fit.
        windows: how texts that are longer than `max_length` are trained on; None: they are cut.
        joined: (rows, configuration) -> the rows that the model reads, each with the labels of several, -100 for none.
        frequencies: see `build_classifier`; default: those of rows with several labels.
    """
    golds = {split: gold_of(splits[split]) for split in ("train", "validation")}
    names, gold = label_names(splits["train"]), golds["train"]
    tokenizer = base_tokenizer(recipe)
    model = build_classifier(
        recipe.base_model,
        recipe.model_type,
        _with_problem_type(recipe.model_config, gold),
        tokenizer,
        names,
        not gold.single_label,
        gold.counts(len(names)).tolist(),
        recipe.label_texts,
        contexts,
        _means(gold) if frequencies is None and not gold.single_label else frequencies,
    )
    set_languages(model.config, recipe.languages)
    text_config = model.config.get_text_config()
    if getattr(text_config, "pad_token_id", None) is None:  # decoder-only models read it to find a row's last token
        text_config.pad_token_id = tokenizer.pad_token_id
    check_length(recipe, usable_positions(model.config))
    check(tokenizer, model.config, recipe.max_length)
    if joined is not None:
        splits = DatasetDict({split: joined(splits[split], model.config) for split in ("train", "validation")})
    dev_votes = votes_of(splits["validation"])
    if not recipe.soft_labels and dev_votes is not None:
        splits = DatasetDict({split: splits[split].remove_columns(VOTES) for split in ("train", "validation")})
    with first(desc="tokenization"):
        encoded = {
            split: tokenize(splits[split], tokenizer, recipe.max_length, model.config, gate, windows)
            for split in ("train", "validation")
        }
    if not gold.single_label:
        floats = List(Value("float32"))
        for split, rows in encoded.items():
            others = rows.select_columns([name for name in rows.column_names if name != "labels"])
            encoded[split] = others.add_column("labels", golds[split].targets.tolist(), feature=floats)

    def measure(logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
        if gold.regression:
            return metrics.regression(labels, values_of(logits, model.config), names)
        if joined is not None:
            logits, labels = logits[labels != -100], labels[labels != -100]
        values = torch.from_numpy(logits).float()
        scores = (values.sigmoid() if gold.multi_label else values.softmax(-1)).numpy()
        if alone:
            return metrics.classification(labels, scores, names)
        # The first rows, if not all are measured.
        soft = {} if dev_votes is None else metrics.against_votes(dev_votes[: len(scores)], scores, gold.multi_label)
        if gold.multi_label:
            return metrics.goemotions(np.nan_to_num(labels, nan=-1), scores, recipe.threshold, names) | soft
        return single_label(recipe.dataset, labels, scores, names) | soft

    own_loss = gold.regression or not all(one.complete for one in golds.values())
    return Prepared(
        model=model,
        tokenizer=tokenizer,
        train=encoded["train"],
        validation=encoded["validation"],
        collate=make_collator(tokenizer),
        measure=measure,
        loss=stock_loss(model.config) if recipe.model_type is None and own_loss else None,
        settings={} if gate is None else {"gate": gate},
    )


def _with_problem_type(fields: dict[str, Any], gold: Gold) -> dict[str, Any]:
    """The fields of a configuration, for values (N, C) with the problem type and the range; ValueError where they do not fit the rows."""
    regression = gold.regression
    if (fields.get("problem_type", "regression" if regression else None) == "regression") is not regression:
        held = (
            "values, and no labels"
            if regression
            else "labels, and no values (in own files `targets` names their columns)"
        )
        raise ValueError(f"`model_config.problem_type` {fields['problem_type']!r}: the rows have {held}.")
    if not regression:
        return fields
    ends = [float(np.nanmin(gold.values)), float(np.nanmax(gold.values))]
    low, high = fields.get("value_range") or ends
    if not low <= ends[0] <= ends[1] <= high:
        raise ValueError(
            f"`model_config.value_range` {[low, high]}: the training rows have values from {ends[0]} to {ends[1]}."
        )
    return {**fields, "problem_type": "regression", "value_range": [low, high]}


def _means(gold: Gold) -> list[float]:
    """(C,) means of the values, or shares of the rows with a label, among the rows where it was annotated."""
    values = np.where(gold.annotated, gold.values, 0)
    return (values.sum(axis=0) / np.maximum(gold.annotated.sum(axis=0), 1)).tolist()


def stock_loss(config: PreTrainedConfig) -> Callable[..., torch.Tensor]:
    """`classification_loss`, which knows labels that were not annotated, and regression, for a stock model with this configuration."""
    names = ("problem_type", "value_range", "regression_loss", "ordinal_slope")
    fields = SimpleNamespace(class_balanced_beta=None, **{name: getattr(config, name, None) for name in names})

    def loss(outputs: Any, labels: torch.Tensor, num_items_in_batch: torch.Tensor | int | None = None) -> torch.Tensor:
        mean = classification_loss(outputs["logits"], labels, fields)
        own = (~labels.isnan()).sum()
        return mean if num_items_in_batch is None else mean * own / torch.as_tensor(num_items_in_batch).clamp(min=1)

    return loss


def base_tokenizer(recipe: Recipe) -> PreTrainedTokenizerBase:
    """
    The tokenizer of a recipe's base model. It keeps the recipe's `max_length`, so that predictions cut texts as the training
    did, and it puts a token between two texts.
    """
    tokenizer = load_base_tokenizer(recipe.base_model)
    if recipe.emoji_names:
        tokenizer = with_emoji_names(tokenizer)
    tokenizer.model_max_length = recipe.max_length
    _separate_pairs(tokenizer)
    return tokenizer


def _separate_pairs(tokenizer: PreTrainedTokenizerBase) -> None:
    """The tokenizers of many decoder-only models put nothing between two texts: here the token that ends a text."""
    separator = tokenizer.sep_token or tokenizer.eos_token
    if separator is None or tokenizer.num_special_tokens_to_add(pair=True) or not tokenizer.is_fast:
        return
    between = processors.TemplateProcessing(
        single="$A",
        pair=f"$A {separator} $B:1",
        special_tokens=[(separator, tokenizer.convert_tokens_to_ids(separator))],
    )
    backend = tokenizer.backend_tokenizer
    own = backend.post_processor
    backend.post_processor = between if own is None else processors.Sequence([own, between])


def check_length(recipe: Recipe, limit: int) -> None:
    if recipe.max_length > limit:
        raise ValueError(f"`max_length` is {recipe.max_length}, but {recipe.base_model} has {limit} positions.")
