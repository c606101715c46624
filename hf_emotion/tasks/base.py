# SPDX-License-Identifier: Apache-2.0
"""
The records in which tasks and corpora describe themselves.

A task is a record of functions. Its folder holds them in files that have the same names in every folder; everything outside
`hf_emotion/tasks` calls them and never asks for the kind of a model, a corpus or a run. The records import only the standard
library: `later` names a function, whose file is imported with the first call.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable


if TYPE_CHECKING:
    import numpy as np
    import torch
    from datasets import Dataset
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from ..recipes import Recipe
    from ..runtime.attribution import Explained
    from ..runtime.unread import Counts, Unread
    from .cards import Card
    from .exporting import Exporter
    from .service import Service


class later:
    """
    A function of another file, imported when it is first called.

    >>> load = later("hf_emotion.tasks.dialogue_emotion", "loading.load_meld")
    """

    def __init__(self, package: str, where: str):
        self._place = package, *where.rsplit(".", 1)

    @cached_property
    def __wrapped__(self) -> Callable[..., Any]:
        """The function itself; `inspect.signature` looks here."""
        package, file, name = self._place
        return getattr(importlib.import_module(f"{package}.{file}"), name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)

    def __reduce__(self):
        package, file, name = self._place
        return later, (package, f"{file}.{name}")


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """
    A corpus.

    Attributes:
        name: its name in recipes and commands.
        loader: (data_dir, **options) -> `datasets.DatasetDict`.
        hub_id: the data set on the Hub; None if it is not on the Hub.
        languages: codes of its languages; empty if they are not known.
        terms: licence or terms of use, and who published it.
        metrics: the functions of `hf_emotion.metrics` that measure single-label predictions. Each takes (gold, probabilities,
            label names) or (gold, probabilities), and adds its figures to those before it.
        selection_metric: the metric on the validation part that chooses the epoch.
        example: a text for the model card; None: a placeholder.
        packaged: whether it comes with hf-emotion and needs no `data_dir`.
        own_files: whether it holds the user's own data, read from the files in `data_dir`.
        clean_reply: (reply, label names) -> the part of a generated reply that is measured.
        published: figures of generated replies, row of the paper -> metric -> figure.
    """

    name: str
    loader: Callable[..., Any]
    hub_id: str | None = None
    languages: tuple[str, ...] = ("en",)
    terms: str
    metrics: tuple[str, ...] = ("classification",)
    selection_metric: str = "macro_f1"
    example: str | None = None
    packaged: bool = False
    own_files: bool = False
    clean_reply: Callable[[str, Sequence[str]], str] | None = None
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


OWN_TERMS = "the user's own files: name their terms here before publishing (`data_license`, `data_terms` in a recipe)"


@dataclass(kw_only=True)
class Prepared:
    """
    What a training needs.

    Attributes:
        model, tokenizer: the ones that the recipe asks for; the model in float32.
        train, validation: encoded rows.
        collate: rows -> a batch.
        measure: (predictions, labels) of the validation part, in its order -> figures. Predictions are the logits, or the
            result of `reduce_logits`.
        reduce_logits: (logits, labels) of a batch -> what to keep of the logits.
        rest: anything that `finish` needs from `prepare`.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    train: Dataset
    validation: Dataset
    collate: Callable[[list[dict]], dict[str, Any]]
    measure: Callable[[np.ndarray, np.ndarray], dict[str, float]]
    reduce_logits: Callable[..., torch.Tensor] | None = None
    rest: Any = None


@dataclass(frozen=True)
class Part:
    """
    Some rows of a corpus that get their own model.

    Attributes:
        name: name of the model's folder.
        rows: split -> numbers of the rows.
        fields: extra fields of the model's configuration.
    """

    name: str
    rows: dict[str, np.ndarray]
    fields: dict[str, Any]


@dataclass(frozen=True)
class HeldOut:
    """
    What a seed predicted for the validation and the test part.

    Attributes:
        names: C label names.
        gold: part -> (N,) class ids, -1 for no label; or (N, C) of 0 and 1 if a row may have several labels.
        probabilities: part -> (N, C).
        thresholds: the threshold of each label, tuned on the validation part; None if each row has one label.
    """

    names: list[str]
    gold: dict[str, np.ndarray]
    probabilities: dict[str, np.ndarray]
    thresholds: list[float] | None


@dataclass(frozen=True)
class Table:
    """Rows of text, and the names of their columns."""

    header: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class Answer:
    """
    A predictor's answer to the lines that a command was given.

    Attributes:
        rows: one JSON object per text (turn), without the fields of `unread`.
        unread: what the model could not read of each text.
        shown: tables and lines for a terminal.
    """

    rows: list[dict[str, Any]]
    unread: Unread
    shown: list[Table | str]


@dataclass(frozen=True)
class FileColumns:
    """
    How a file holds the items to predict.

    Attributes:
        text: the column with the texts, unless a command names another.
        grouped: whether an item has several rows, one after the other (the turns of a dialogue), or a list of them in one row.
    """

    text: str = "text"
    grouped: bool = False


METHODS = ("attention", "gradient", "integrated-gradients", "occlusion")  # of `explain`


@dataclass(frozen=True)
class Page:
    """
    What the page of the service shows of a model.

    Attributes:
        box: label of the box for the text.
        examples: texts to try.
        table: (text, chosen emotions, chosen seed) -> `Table` with the model's answer. Without such a choice on the page the
            emotions are empty and the seed is None.
        question: (text, method, emotions) -> the text in the form that `explain` takes, and the other arguments of `explain`.
        methods: names of the methods for heat maps.
        method: the method that is chosen at first; None: no heat map.
        lines: height of the box.
        button: label of the button.
        emotions: the emotions to choose from, with a seed; None: no such choice.
    """

    box: str
    examples: Sequence[str]
    table: Callable[[str, Sequence[str], int | None], Table]
    question: Callable[[str, str, Sequence[str]], tuple[Any, dict[str, Any]]]
    methods: Sequence[str]
    method: str | None
    lines: int = 2
    button: str = "Predict"
    emotions: Sequence[str] | None = None


@runtime_checkable
class AnyPredictor(Protocol):
    """
    What all predictors have. Only for types: predictors inherit nothing from each other.

    Attributes:
        task: the task of the model.
        model: a model of transformers, or an exported one.
        tokenizer: the tokenizer of the model.
        max_length: the maximum number of tokens read at once.
    """

    task: Task
    model: Any
    tokenizer: Any
    max_length: int

    def predict(self, *args: Any, **kwargs: Any) -> tuple[list[Any], Unread]:
        """The results, and what the model could not read of each text."""


@runtime_checkable
class LabelPredictor(AnyPredictor, Protocol):
    """
    What all predictors have whose models choose among C labels. An item is what a model reads: a text or a dialogue. Its units are
    what gets labels: the text itself, its targets and aspects, or its turns. N counts units.

    Attributes:
        labels: C names.
        multi_label: whether a unit may have several labels.
    """

    labels: list[str]
    multi_label: bool

    def encode(self, items: Any, /) -> Any:
        """The items as the model reads them."""

    def probabilities(self, items: Any, /) -> np.ndarray:
        """(N, C) float32 for items, or for what `encode` returned; those of the package take `raw`: without the temperature."""

    def present(self, probabilities: np.ndarray, *args: Any, **kwargs: Any) -> list[Any]:
        """The results from probabilities."""

    def of_rows(self, rows: Dataset, progress: bool = False) -> np.ndarray:
        """(N, C) float32 for the rows of a corpus."""

    def of_items(self, items: Sequence[Any], /, top_k: int | None = None) -> tuple[list[Any], Unread]:
        """The results for the items of a file, at most `top_k` for each unit."""

    def check_top_k(self, top_k: int | None, /) -> None:
        """ValueError for a `top_k` that `of_items` does not take."""

    def warn_unread(self, counts: Counts) -> None:
        """Warn, with these counts, of what the model cannot read."""


def _none(*args: Any, **kwargs: Any) -> Any:
    """The default of functions that a task need not have."""


def _nothing(*args: Any, **kwargs: Any) -> dict[str, Any]:
    return {}


@dataclass(frozen=True, kw_only=True)
class Task:
    """
    A task: what its models read and return, and the functions that train, run and publish them.

    Attributes:
        name: name of the task and of its pipeline.
        reads: what a model reads and a corpus holds, a word in the plural ("texts").
        corpora: its corpora. The rows of one's own files may belong to a more special task, see `columns`.
        columns: columns that all its rows have and rows of more general tasks lack.
        labelled: whether the rows have labels.
        selects_labels: whether its models choose labels (and do not write in a given emotion).
        model_types: the model types that recipes may name.
        recipe_fields: fields of a recipe that only this task uses.
        headline: figures that tables show, the most used first. The metric that selects and published ones come before them.
        stock: whether a recipe without `model_type` trains the base model's own classifier on these rows.
        auto_class: the class of transformers that loads a checkpoint, unless its configuration names another one.
        predictor_class: the name of its predictor in `hf_emotion`; None: its models predict nothing here.
        owns: a model's configuration -> whether a model with this configuration belongs to this task (later tasks are asked
            first).
        ran: metrics.json of a run of a stock model -> whether that run is of this task (later tasks are asked first).
        file_columns: how files hold its items; None if `predict` reads no files for it.
        command: the command that runs its models.
        predictor_options: the arguments that only its predictor takes ("taxonomy", "add_labels").
        options: the arguments that `answer` takes ("top_k", "targets").
        settings: the arguments that `evaluate` takes.

    Rows (`rows.py`; N counts what is predicted: rows, or the turns of dialogues):
        texts: rows -> the whole text of each.
        counted_texts: rows -> {text: how often it occurs}, to find duplicates; None: each row counts.
        groups: rows -> for each row the group that it is measured with, so that a sample must not tear it; None: each row is alone.
        held_out_texts: rows -> for each row the text that no training row may share after `dedupe`; None: the whole text.
        gold: rows -> (N, C) int8 of 0 and 1 if a row may have several labels, else (N,) int64 class ids, -1 for no label; None for
            rows without labels.
        units: rows -> the N ids and texts.
        as_texts: rows -> rows that a classifier of texts reads; None: a classifier cannot read them.
        contexts: rows -> the entry "contexts" of metrics.json.

    Training (`building.py`, `card.py`):
        complete: recipe -> fields of `model_config` that the recipe gets unless it sets them.
        check_recipe: (recipe); raises ValueError for fields that do not fit each other.
        over_base_model: recipe -> the recipe, with the model type that fits its base model.
        warn: (training rows, label names, which of them occur); logs problems of the rows.
        arguments: recipe -> fields of TrainingArguments besides those of every run; default: the corpus' metric selects the epoch.
        parts: (recipe, splits) -> a `Part` for each model of the run; None: one model, on all rows.
        prepare: (recipe, splits, fields of the part, first) -> `Prepared`; `first` is `TrainingArguments.main_process_first`.
        finish: (recipe, run, trainer, prepared, splits, folder) -> `HeldOut`, or None. All processes call it; the first one
            writes the checkpoint into `folder`, which is None in the others. It adds figures to `run`.
        card: (run folder, recipe, metrics.json, the entry of its best seed) -> `Card`.

    Prediction (`predictor.py`, `showing.py`, `evaluating.py`):
        predictor: (model, tokenizer, max_length=..., **predictor_options) -> its predictor, a `LabelPredictor` if its models
            choose labels.
        exported: folder -> the exported model of a predictor.
        answer: (predictor, lines, **options) -> `Answer`; None: it has another command than `predict`. Unless its items are
            grouped, it also takes `stream`: more lines will follow, so the layout must not depend on their number, and no
            warning is given.
        loader_options: (predictor, corpus) -> options that the corpus' loader gets unless they are given.
        evaluate: (predictor, corpus name, split, data_dir, options of the loader, **settings) -> figures.
        figures: (this task, figures, corpus name, split, all_figures) -> lines and tables for a terminal: all figures, or the
            headline.
        aspect_errors: (metrics.json, row ids, label names, (N,) gold and (N,) predicted class ids) -> the entry "aspects" in
            the analysis of a run; None: the rows have no aspects.

    Explanation (`explaining.py`, `guidance.py`, `page.py`):
        explains: the arguments of `explain` that it takes.
        explain: (predictor, text, merge=..., the given ones of these arguments) -> `Explained`; None: no explanations here.
        row_questions: (predictor, rows) -> a list with a `Question` for each row whose words `faithfulness` may rank.
        word_scores: (predictor, reading, label, method) -> (words,) scores for such a question; None: it ranks no words.
        guidance: metrics.json of a run -> a function (run, split, data_dir) -> the entry "context_guidance" of its analysis; None:
            contexts do not guide its model.
        page: predictor -> `Page`; None: `serve` does not serve its models.
        remote: (`hf_emotion.runtime.remote.Client`, taxonomy=...) -> what `predict` asks in the place of a predictor; `taxonomy` only where
            `predictor_options` has it. None: no command asks a service for it.
        service: predictor -> `hf_emotion.tasks.service.Service`; None: `serve` does not serve its models.

    Publishing (`exporting.py`, `hub_programs.py`):
        exporter: () -> the `Exporter` of its checkpoints; None: they are not exported.
        respond: (pipeline, inputs, parameters) -> what an Inference Endpoint answers to JSON. The source of this function becomes part of
            the handler of its repository. None: there is no endpoint for its models.
    """

    name: str
    reads: str
    corpora: tuple[Corpus, ...]
    columns: frozenset[str]
    labelled: bool = True
    selects_labels: bool = True
    model_types: tuple[str, ...]
    recipe_fields: frozenset[str] = frozenset()
    headline: tuple[str, ...]
    stock: bool = False
    auto_class: str
    predictor_class: str | None
    command: str = "predict"
    owns: Callable[[Any], bool]
    ran: Callable[[dict[str, Any]], bool] = lambda report: False
    file_columns: FileColumns | None = None
    predictor_options: frozenset[str] = frozenset()
    options: frozenset[str] = frozenset()
    settings: frozenset[str] = frozenset()

    texts: Callable[..., list[str]]
    counted_texts: Callable[..., Counter[str]] | None = None
    groups: Callable[..., Sequence[Any] | None] = _none
    held_out_texts: Callable[..., list[str]] | None = None
    gold: Callable[..., Any]
    units: Callable[..., Any] = _none
    as_texts: Callable[..., Any] = _none
    contexts: Callable[..., dict[str, Any] | None] = _none

    complete: Callable[..., dict[str, Any]] = _nothing
    check_recipe: Callable[..., None] = _none
    over_base_model: Callable[[Recipe], Recipe] = lambda recipe: recipe
    warn: Callable[..., None] = _none
    arguments: Callable[..., dict[str, Any]] = later(__package__, "corpus_metrics.selected_by_corpus")
    parts: Callable[..., list[Part] | None] = _none
    prepare: Callable[..., Prepared]
    finish: Callable[..., HeldOut | None]
    card: Callable[..., Card]

    predictor: Callable[..., AnyPredictor] = _none
    exported: Callable[..., Any] = later("hf_emotion.runtime", "onnx.OnnxClassifier")
    answer: Callable[..., Answer] | None = None
    loader_options: Callable[..., dict[str, Any]] = _nothing
    evaluate: Callable[..., dict[str, Any]] = _none
    figures: Callable[..., list[Table | str]] = _none
    aspect_errors: Callable[..., dict[str, Any] | None] = _none

    explains: frozenset[str] = frozenset()
    explain: Callable[..., Explained] | None = None
    row_questions: Callable[..., Any] = _none
    word_scores: Callable[..., np.ndarray] | None = None
    guidance: Callable[..., Callable[..., dict[str, Any]] | None] = _none
    page: Callable[..., Page] | None = None
    remote: Callable[..., Any] | None = None
    service: Callable[..., Service] | None = None
    exporter: Callable[[], Exporter] | None = None
    respond: Callable[..., list[Any]] | None = None
