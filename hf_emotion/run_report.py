# SPDX-License-Identifier: Apache-2.0
"""What a run reports, metrics.json. Nobody else knows its keys."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from .io.files import read_object, write_json
from .runtime.names import METRICS


if TYPE_CHECKING:
    from .metrics.significance import Spread


class LabelFigures(TypedDict):
    """Figures of a label; NaN if it was annotated in no row."""

    precision: float
    recall: float
    f1: float
    support: int


class ValueFigures(TypedDict):
    """Figures of a value of a regression."""

    pearson: float
    ccc: float
    mae: float
    rows: int


# "argmax", "fixed", "tuned", "values" or "teacher_forcing" -> metric -> figure, and what `SeedRun.per_label` and `per_value` read
Figures: TypeAlias = dict[str, dict[str, Any]]
Summary: TypeAlias = "dict[str, dict[str, dict[str, Spread]]]"  # split -> kind of decision -> metric


def decision_title(kind: str, *thresholds: float) -> str:
    """What a kind of decision is called in every table and picture, for runs with these fixed thresholds."""
    same = f"threshold {thresholds[0]}" if len(set(thresholds)) == 1 else "fixed threshold"
    return {"fixed": same, "tuned": "tuned thresholds"}.get(kind, kind.replace("_", " "))


class Environment(TypedDict, total=False):
    """Versions and hardware of a run."""

    python: str
    torch: str
    transformers: str
    device: str
    threads: int


class FewShot(TypedDict):
    """The methods for few rows: the one that is kept, and of each its metric on the validation part and its minutes."""

    chosen: str
    tried: dict[str, dict[str, float | None]]


class Contexts(TypedDict):
    """The aspects and targets of targeted sentiment, as corpora name them, and what a model reads for the targets; None without targets."""

    aspects: list[str]
    targets: list[str] | None
    target_texts: list[str] | None


class OneAnswer(TypedDict):
    """The labels that a model gives to a `share` of the validation rows, and the share that has them; see `tasks.held_out.one_answer`."""

    labels: list[str]
    share: float
    gold_share: float


@dataclass
class Record:
    """Something that JSON holds as an object; fields that are None by default are left out where they are None."""

    @classmethod
    def from_dict(cls, values: Any, where: str) -> Any:
        """ValueError, which names `where`, for an object that lacks a field or has unknown ones."""
        try:
            return cls(**values)
        except TypeError as error:
            raise ValueError(
                f"{where} is not whole, or of another version ({error}): take the file of the finished run."
            ) from error

    def to_dict(self) -> dict[str, Any]:
        """What JSON holds."""
        own = {one.name: getattr(self, one.name) for one in fields(self)}
        optional = {one.name for one in fields(self) if one.default is None}
        return {name: value for name, value in own.items() if value is not None or name not in optional}


@dataclass
class SeedRun(Record):
    """
    What the training with one seed gave.

    Attributes:
        seed: the seed.
        train_minutes: without evaluation after the training.
        resumed: whether it was interrupted and went on.
        data: a fingerprint of the rows that it was trained on.
        epochs: as many as were trained.
        best_dev_metric: the metric `selected_by` on the validation part; None: it was not a number.
        best_step: the optimizer step whose weights were kept; None: the last.
        history: the Trainer's log entries with losses and evaluations.
        few_shot: {"chosen", "tried"}: the methods for few rows.
        class_weights, positive_weights: label -> weight, where the recipe asks for them.
        contexts: one entry for each model, where each target and aspect has its own.
        parameters: of models that write.
        temperature: what logits are divided by, fitted on the validation part; 1 if none made the probabilities better.
        temperature_at_bound: true if it is a bound of the search: the best one lies beyond it.
        thresholds: label -> threshold, tuned on the validation part, if a row may have several labels.
        one_answer: one for nearly all rows.
        answers: split -> figures of the rule of `abstain` or `prediction_sets`.
        validation_counts: its errors on the validation part, see `metrics.quantification.ValidationCounts`.
        validation, test: figures; None: there is no such part.
    """

    seed: int
    train_minutes: float
    resumed: bool
    data: str
    epochs: float
    best_dev_metric: float | None
    selected_by: str
    best_step: int | None
    history: list[dict[str, float]]
    few_shot: FewShot | None = None
    class_weights: dict[str, float] | None = None
    positive_weights: dict[str, float] | None = None
    contexts: list[SeedRun] | None = None
    parameters: int | None = None
    temperature: float | None = None
    temperature_at_bound: bool | None = None
    thresholds: dict[str, float] | None = None
    one_answer: OneAnswer | None = None
    answers: dict[str, Any] | None = None
    validation_counts: dict[str, Any] | None = None
    validation: Figures | None = None
    test: Figures | None = None

    @property
    def multi_label(self) -> bool:
        """Whether a row may have several labels."""
        return self.thresholds is not None

    def figures(self, split: str) -> Figures:
        """The figures of a split, none without it."""
        return getattr(self, split) or {}

    def metrics(self, split: str, kind: str) -> dict[str, float | None]:
        """The plain figures of a kind of decision; None: a NaN that was read back from JSON."""
        return {name: value for name, value in self.figures(split)[kind].items() if isinstance(value, float | None)}

    def per_label(self, split: str, kind: str) -> dict[str, LabelFigures]:
        """The figures of each label; none where labels are not measured."""
        return self.figures(split)[kind].get("per_label", {})

    def per_value(self, split: str) -> dict[str, ValueFigures]:
        """The figures of each value of a regression."""
        return self.figures(split)["values"]["per_target"]

    def record(self, split: str, figures: Figures) -> None:
        """Keep the figures of the validation or the test part."""
        if split == "test":
            self.test = figures
        else:
            self.validation = figures

    @classmethod
    def from_dict(cls, values: Any, where: str) -> SeedRun:
        run = super().from_dict(values, where)
        if not isinstance(run.seed, int):  # it becomes part of a path
            raise ValueError(f"`seed` must be an integer, got {run.seed!r}, in {where}.")
        if run.contexts is not None:
            run.contexts = [SeedRun.from_dict(own, where) for own in run.contexts]
        return run

    def to_dict(self) -> dict[str, Any]:
        own = super().to_dict()
        return own if self.contexts is None else own | {"contexts": [run.to_dict() for run in self.contexts]}


@dataclass
class RunReport(Record):
    """
    What a run says of itself.

    Attributes:
        task: the name of its task.
        name ... max_eval_rows: those of the recipe; `threshold` and `published`, too.
        rows: split -> number of rows.
        duplicates: of these rows, see `duplicates_between_splits`.
        class_counts: label -> training rows with it; empty without labels.
        agreement: split -> agreement of the annotators, where there are votes.
        contexts: those of targeted sentiment; None elsewhere.
        summary: split -> thresholds -> metric -> {"mean", "std"} over the seeds.
        runs: one entry for each seed.
        environment: versions and hardware.
    """

    task: str
    name: str
    model_type: str | None
    base_model: str | None
    dataset: str
    dataset_options: dict[str, Any]
    train_fraction: float
    shots: int | None
    max_eval_rows: int | None
    rows: dict[str, int]
    duplicates: dict[str, int]
    class_counts: dict[str, int]
    agreement: dict[str, dict]
    contexts: Contexts | None
    threshold: float
    published: dict[str, float]
    summary: Summary
    runs: list[SeedRun]
    environment: Environment = field(default_factory=lambda: Environment())

    @classmethod
    def read(cls, folder: Path) -> RunReport:
        """The report of a run folder; FileNotFoundError if it is not finished."""
        path = folder / METRICS
        if not path.is_file():
            raise FileNotFoundError(
                f"{folder} is not a finished run folder: it has no {METRICS}. `hf-emotion train RECIPE --output {folder}` writes it, with "
                "--resume if it was interrupted."
            )
        return cls.from_dict(read_object(path, "take the file of the finished run"), str(path))

    @classmethod
    def from_dict(cls, values: Any, where: str = METRICS) -> RunReport:
        report = super().from_dict(values, where)
        if not isinstance(report.runs, list) or not report.runs:
            raise ValueError(f"{where} has no entry in `runs`: take the file of the finished run.")
        report.runs = [SeedRun.from_dict(own, f"`runs` in {where}") for own in report.runs]
        return report

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"runs": [run.to_dict() for run in self.runs]}

    def write(self, folder: Path) -> None:
        write_json(folder / METRICS, self.to_dict())

    @property
    def best(self) -> SeedRun:
        """The seed whose weights stand for the run, see `best_run`."""
        return best_run(self.runs)

    @property
    def multi_label(self) -> bool:
        """Whether a row may have several labels."""
        return self.runs[0].multi_label

    @property
    def splits(self) -> list[str]:
        """The parts with figures."""
        return [split for split in ("test", "validation") if split in self.summary]

    @property
    def measured_split(self) -> str:
        """The part whose figures stand for the run."""
        return "test" if "test" in self.summary else "validation"

    def decisions(self, split: str) -> dict[str, dict[str, Spread]]:
        """The figures of a part by the titles of its kinds of decision."""
        return {decision_title(kind, self.threshold): values for kind, values in self.summary[split].items()}

    def per_label(self, split: str, kind: str) -> dict[str, list[LabelFigures]]:
        """The figures of each label, one for each seed; none where labels are not measured."""
        runs = [run.per_label(split, kind) for run in self.runs]
        return {label: [run[label] for run in runs] for label in runs[0]}


def best_run(runs: Iterable[SeedRun]) -> SeedRun:
    """The seed that was best on the validation part (generators: by perplexity), else the first; never one without a number."""
    from .metrics import sign_of  # with its libraries; who reads a report need not wait for them

    def value(run: SeedRun) -> float:
        written = run.figures("validation").get("teacher_forcing")
        metric, found = ("perplexity", written["perplexity"]) if written else (run.selected_by, run.best_dev_metric)
        return -math.inf if found is None or not math.isfinite(found) else sign_of(metric) * found

    return max(runs, key=value)  # the first of equals
