# SPDX-License-Identifier: Apache-2.0
"""
What a task is.

A task is a class, and its folder holds what its methods need. Everything outside `hf_emotion/tasks` calls these methods and never asks for
the kind of a model, a corpus or a run.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ..gold import Gold
from ..io.lazily import numpy as np


if TYPE_CHECKING:
    import torch
    from datasets import Dataset, DatasetDict
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from ..recipes import Fields, Recipe
    from ..run_report import Contexts, RunReport, SeedRun
    from ..runtime.remote import Client
    from ..runtime.unread import Readable, Unread
    from .cards import Card
    from .corpus import Corpus
    from .exporting import Exporter

Guidance: TypeAlias = Callable[[Path, str, "str | Path | None"], dict[str, Any]]


class MainProcessFirst(Protocol):
    """`TrainingArguments.main_process_first`."""

    def __call__(self, *, desc: str) -> AbstractContextManager[None]: ...


# A function of a pipeline, whose source becomes part of a program: (pipeline, inputs, parameters) -> what it answers.
PipelineFunction: TypeAlias = Callable[[Any, Any, dict], list]


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
        loss: the Trainer's `compute_loss_func`, in the place of a model's own loss that does not fit; None: it does.
        settings: arguments of the trained model's predictor, and of the pipeline that is saved with it.
        held_out: split -> encoded rows whose perplexity is measured in the end.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    train: Dataset
    validation: Dataset
    collate: Callable[[list[dict]], dict[str, Any]]
    measure: Callable[[np.ndarray, np.ndarray], dict[str, float]]
    reduce_logits: Callable[[Any, torch.Tensor], torch.Tensor] | None = None
    loss: Callable[..., torch.Tensor] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    held_out: Mapping[str, Dataset] = field(default_factory=dict)


@dataclass(frozen=True)
class Fitted:
    """The Trainer with the best weights, what was prepared for it, and the facts of the training."""

    trainer: Any
    prepared: Prepared
    run: SeedRun


@dataclass(frozen=True)
class Part:
    """
    Some rows of a corpus that get their own model.

    Attributes:
        name: name of the model's folder.
        rows: split -> numbers of the rows.
        contexts: those of its model.
    """

    name: str
    rows: dict[str, np.ndarray]
    contexts: Contexts


@dataclass(frozen=True)
class HeldOut:
    """
    What a seed predicted for the validation and the test part.

    Attributes:
        names: C label names.
        gold: part -> N rows.
        probabilities: part -> (N, C).
        thresholds: the threshold of each label, tuned on the validation part; None if each row has one label.
    """

    names: list[str]
    gold: dict[str, Gold]
    probabilities: dict[str, np.ndarray]
    thresholds: list[float] | None


@dataclass(frozen=True)
class Table:
    """Rows of text, the names of their columns, and what the model could not read of the texts (turns) behind them."""

    header: list[str]
    rows: list[list[str]]
    unread: Sequence[Readable] = ()


@dataclass(frozen=True)
class Marked:
    """A text and the parts of it to colour: (start, end, name of a colour)."""

    text: str
    marks: Sequence[tuple[int, int, str]]


@dataclass(frozen=True)
class Answer:
    """
    A predictor's answer to the lines that a command was given.

    Attributes:
        rows: one JSON object per text (turn), without the fields of `unread`.
        unread: what the model could not read of each text.
        shown: tables, lines and coloured texts for a terminal.
        cells: the same for a pipe: lines of cells, of one form whatever the number of texts.
    """

    rows: Sequence[Mapping[str, Any]]
    unread: Unread
    shown: Sequence[Table | str | Marked]
    cells: Sequence[Sequence[str]]


@dataclass(frozen=True)
class FileColumns:
    """
    How a file holds the items to predict.

    Attributes:
        text: the column with the texts, unless a command names another.
        grouped: whether an item has several rows, one after the other (the turns of a dialogue), or a list of them in one row.
        places: whether what is found has a place in the text: then the output has a row for each find.
    """

    text: str = "text"
    grouped: bool = False
    places: bool = False


@dataclass(frozen=True)
class Page:
    """
    What the page of the service shows of a model.

    Attributes:
        box: label of the box for the text.
        examples: texts to try.
        table: (text, chosen emotions, chosen seed) -> `Table` with the model's answer. Without such a choice on the page the
            emotions are empty and the seed is None.
        methods: names of the methods for heat maps.
        method: the method that is chosen at first; None: no heat map.
        lines: height of the box.
        button: label of the button.
        emotions: the emotions to choose from, with a seed; None: no such choice.
        read: text -> the text in the form that `explain` takes.
        arguments: (method, emotions) -> the other arguments of `explain`.
    """

    box: str
    examples: Sequence[str]
    table: Callable[[str, Sequence[str], int | None], Table]
    methods: Sequence[str]
    method: str | None
    lines: int = 2
    button: str = "Predict"
    emotions: Sequence[str] | None = None
    read: Callable[[str], Any] = str
    arguments: Callable[[str, Sequence[str]], Mapping[str, Any]] = lambda method, emotions: {"method": method}


class Task:
    """
    A task: what its models read and return, and how they are trained, run and published.

    A task sets the attributes and writes the methods that have no default here, and those of what its models can do besides. The defaults of
    many call the function of a file of its folder, such as `exporter` in `exporting.py`, with their own arguments. Methods import what they
    need when they are called, since listing the tasks must stay cheap.

    Attributes:
        name: name of the task and of its pipeline.
        reads: what a model reads and a corpus holds, a word in the plural ("texts").
        columns: columns that all its rows have, besides `id` and the labels.
        labelled: whether the rows have labels.
        selects_labels: whether its models choose labels (and do not write in a given emotion).
        model_types: the model types that recipes may name.
        recipe_fields: fields of a recipe that only this task uses.
        headline: figures that tables show, the most used first. The metric that selects and published ones come before them.
        stock: whether a recipe without `model_type` trains the base model's own classifier on these rows.
        auto_class: the class of transformers that loads a checkpoint, unless its configuration names another one.
        predictor_class: the name of its predictor in `hf_emotion`; None: its models predict nothing here.
        file_columns: how files hold its items; None if `predict` reads no files for it.
        command: the command that runs its models.
        predictor_options: the arguments that only its predictor takes ("taxonomy", "add_labels").
        options: the arguments that `answer` takes ("top_k", "targets").
        settings: the arguments that `evaluate` takes.
        explains: the arguments of `explain` that it takes; empty: no explanations here.
        ranks_words: whether it has `word_scores`.
    """

    name: str
    reads: str
    columns: frozenset[str]
    labelled = True
    selects_labels = True
    model_types: tuple[str, ...] = ()
    recipe_fields: frozenset[str] = frozenset()
    headline: tuple[str, ...]
    stock = False
    auto_class: str
    predictor_class: str | None
    file_columns: FileColumns | None = None
    command = "predict"
    predictor_options: frozenset[str] = frozenset()
    options: frozenset[str] = frozenset()
    settings: frozenset[str] = frozenset()
    explains: frozenset[str] = frozenset()
    ranks_words = False

    def file(self, name: str, use: str = "used") -> Any:
        """A file of its folder, imported when it is needed; ValueError, that its models cannot be `use`, if there is none."""
        path = f"{type(self).__module__}.{name}"
        try:
            return importlib.import_module(path)
        except ModuleNotFoundError as error:
            if error.name != path:  # what the file needs is missing
                raise
        raise self.cannot(use)

    def cannot(self, use: str) -> ValueError:
        return ValueError(f"models for {self.name} cannot be {use}.")

    @property
    def corpora(self) -> tuple[Corpus, ...]:
        """Its corpora; prediction needs none of them."""
        return self.file("loading").CORPORA

    # Which models, runs and rows are its own

    def trains(self, model_type: str | None) -> bool:
        """Whether a recipe with this `model_type` trains it; None: the base model's own classifier."""
        return self.stock if model_type is None else model_type in self.model_types

    def owns(self, config: Any) -> bool:
        """Whether a model with this configuration belongs to this task."""
        return False

    def labels(self, names: Sequence[str]) -> list[str]:
        """The labels that its results have, from the names of a model's classes."""
        return list(names)

    def main_figures(
        self, names: Iterable[str], selected_by: str | None = None, published: Iterable[str] = ()
    ) -> list[str]:
        """At most four of these figures, in this order: the one that selected the epoch, published ones, the `headline`."""
        present = list(names)
        first = () if selected_by is None else (selected_by,)
        return [name for name in dict.fromkeys((*first, *published, *self.headline)) if name in present][:4]

    # Rows. N counts what is predicted: rows, or the turns of dialogues.

    def texts(self, rows: Dataset) -> list[str]:
        """The whole text of each row."""
        return list(rows["text"])

    def counted_texts(self, rows: Dataset) -> Counter[str]:
        """Text -> how often it occurs, to find duplicates."""
        return Counter(self.texts(rows))

    def groups(self, rows: Dataset) -> Sequence[Any] | None:
        """The group of each row. Sampling keeps or drops a group as a whole. None: each row is a group."""
        return None

    def held_out_texts(self, rows: Dataset) -> list[str]:
        """For each row the text that no training row may share after `dedupe`."""
        return self.texts(rows)

    def gold(self, rows: Dataset) -> Gold:
        """What N units are labelled with; ValueError without labels."""
        if not self.labelled:
            raise ValueError(f"the rows have no labels: they have the columns {rows.column_names}.")
        return Gold(np.asarray(rows["labels"], dtype=np.int64))

    def units(self, rows: Dataset) -> tuple[list[str], list[str]]:
        """The N ids and texts."""
        return list(rows["id"]), self.texts(rows)

    def as_texts(self, rows: Dataset) -> Dataset | None:
        """Rows that a classifier of texts reads; None: it cannot read them."""
        return None

    def contexts(self, rows: Dataset) -> Contexts | None:
        """The entry "contexts" of metrics.json."""
        return None

    # Training

    def complete(self, recipe: Recipe) -> Fields:
        """Fields of `model_config` that the recipe gets unless it sets them."""
        return {}

    def check_recipe(self, recipe: Recipe) -> None:
        """ValueError for fields that do not fit each other."""

    def over_base_model(self, recipe: Recipe) -> Recipe:
        """The recipe, with the model type that fits its base model."""
        return recipe

    def warn(self, train: Dataset, names: list[str], has_label: np.ndarray) -> None:
        """Log problems of the training rows, with C label names, and (C,) which of them occur."""

    def arguments(self, recipe: Recipe, train: Dataset) -> Fields:
        """Fields of TrainingArguments besides those of every run, for the training rows."""
        raise NotImplementedError

    def methods(self, recipe: Recipe, train: Dataset) -> list[str]:
        """Methods for few rows that are tried on the training rows; the validation part chooses. Empty: an ordinary training."""
        return []

    def parts(self, recipe: Recipe, splits: DatasetDict) -> list[Part] | None:
        """A `Part` for each model of the run; None: one model, on all rows."""
        return None

    def prepare(self, recipe: Recipe, splits: DatasetDict, first: MainProcessFirst, part: Contexts | None) -> Prepared:
        """What the training needs. `first`: `TrainingArguments.main_process_first`. `part`: the contexts of a `Part`."""
        return self.file("building").prepare(recipe, splits, first, part)

    def finish(self, recipe: Recipe, fitted: Fitted, splits: DatasetDict, folder: Path | None) -> HeldOut | None:
        """
        Predict, write the checkpoint into `folder` and add figures to `fitted.run`. All processes call it; the first one writes, and `folder`
        is None in the others.
        """
        raise NotImplementedError

    def trained_predictor(self, model: Any, tokenizer: Any, **options: Any) -> Any:
        """The predictor that `finish` measures a model with."""
        return self.predictor(model, tokenizer, **options)

    def card(self, folder: Path, recipe: Recipe, report: RunReport, best: SeedRun) -> Card:
        """The card of a run folder; `best` is the entry of metrics.json for its best seed."""
        return self.file("card").card(recipe, report, best)

    # Prediction

    def predictor(self, model: Any, tokenizer: Any, **options: Any) -> Any:
        """Its predictor, with `max_length` and the `predictor_options`; a `LabelPredictor` if its models choose labels."""
        return getattr(self.file("predictor"), str(self.predictor_class))(model, tokenizer, **options)

    def exported(self, folder: Path) -> Any:
        """The exported model of a predictor."""
        from ..runtime.onnx import OnnxClassifier

        return OnnxClassifier(folder)

    def figures(self, result: Mapping[str, Any], dataset: str, split: str, all_figures: bool) -> list[Table | str]:
        """Lines and tables for a terminal: all figures of `evaluate`, or the headline."""
        raise NotImplementedError

    def aspect_errors(
        self, report: RunReport, ids: list[str], names: list[str], gold: np.ndarray, predicted: np.ndarray
    ) -> dict[str, dict[str, float]] | None:
        """
        The entry "aspects" in the analysis of a run, from metrics.json, row ids, label names, (N,) gold and (N,) predicted class ids; None: the
        rows have no aspects.
        """
        return None

    # Analysis

    def guidance(self, report: RunReport) -> Guidance | None:
        """A function (run, split, data_dir) -> the entry "context_guidance" of a run's analysis; None: contexts do not guide its model."""
        return None

    # Serving

    def remote(self, client: Client, **options: Any) -> Any:
        """What `predict` asks in the place of a predictor; `taxonomy` only where `predictor_options` has it."""
        return self.file("remote", "asked through a service by this command").RemotePredictor(client, **options)

    # Publishing

    def exporter(self) -> Exporter:
        """How its checkpoints are exported."""
        return self.file("exporting", "exported").exporter()

    def respond(self) -> PipelineFunction:
        """(pipeline, inputs, parameters) -> what an Inference Endpoint answers to JSON; its source becomes part of the handler."""
        return self.file("exporting", "answered for by an Inference Endpoint").respond


class ClassificationTask(Task):
    """A task whose models choose labels."""

    def arguments(self, recipe: Recipe, train: Dataset) -> Fields:
        """The metric of the corpus selects the epoch."""
        from . import corpus_of

        return {"metric_for_best_model": corpus_of(recipe.dataset).selection_metric}

    def finish(self, recipe: Recipe, fitted: Fitted, splits: DatasetDict, folder: Path | None) -> HeldOut | None:
        from .held_out import finish_classifier

        return finish_classifier(self, recipe, fitted, splits, folder)

    def figures(self, result: Mapping[str, Any], dataset: str, split: str, all_figures: bool) -> list[Table | str]:
        from .classifier_evaluating import figures

        return figures(self, result, dataset, split, all_figures)


class GenerationTask(Task):
    """A task whose models write."""

    selects_labels = False
    headline = ("perplexity",)

    def arguments(self, recipe: Recipe, train: Dataset) -> Fields:
        return {"metric_for_best_model": "perplexity"}

    def finish(self, recipe: Recipe, fitted: Fitted, splits: DatasetDict, folder: Path | None) -> None:
        from .perplexity import finish

        finish(fitted, folder)
