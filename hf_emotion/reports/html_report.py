# SPDX-License-Identifier: Apache-2.0
"""Writes the pages of a run: `report.html`, the list of errors, and two runs side by side. They need no other file or network."""

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from ..io.files import write_text
from ..io.version import __version__
from ..metrics.significance import mean_std, over_seeds
from ..run_report import RunReport
from ..tasks import Task, task_of_run
from .certainty import Calibration


SURE_ERRORS = 20  # in report.html

_environment = jinja2.Environment(
    loader=jinja2.PackageLoader("hf_emotion.reports", "templates"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.filters["share"] = lambda value: "–" if value is None or value != value else f"{100 * value:.1f} %"
_environment.filters["number"] = lambda value: "–" if value is None or value != value else f"{value:.4f}"
_environment.filters["mean_std"] = mean_std
_environment.globals["version"] = __version__


def write_report(
    folder: Path,
    report: RunReport,
    analysis: Mapping[str, Any] | None = None,
    figures: Mapping[str, str] | None = None,
    groups: Sequence[Mapping[str, Any]] = (),
    examples: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    calibration: Calibration | None = None,
) -> None:
    """
    Write `report.html` into a run folder.

    Args:
        folder: the run folder; its own pictures are used unless `figures` has one of the same name.
        report: content of metrics.json.
        analysis, figures, groups: the result of `analyze`, SVG by name, the errors by (gold, predicted); None: a page without them.
        examples: right and wrong rows, from `finished_runs.examples`.
        calibration: from `certainty.calibrated`; default: that of `analysis`.
    """
    pictures = {path.stem: _data_uri(path.read_bytes(), "png") for path in folder.glob("*.png")}
    pictures |= {name: _data_uri(svg.encode(), "svg+xml") for name, svg in (figures or {}).items()}
    split = report.measured_split
    sure = sorted((row for group in groups for row in group["rows"]), key=lambda row: -row["predicted"][0][1])
    task = task_of_run(report)
    page = render(
        "report.html",
        title=report.name,
        report=report,
        task=task,
        headline=_headline(task, report, split),
        examples=examples,
        examples_of=analysis["split"] if analysis else split,
        best=report.best,
        metrics=[(part, *_metrics(report, part)) for part in report.splits],
        labels=_labels(report, split),
        split=split,
        analysis=analysis,
        calibration=(analysis or {}).get("calibration", calibration),
        pictures=pictures,
        sure=sure[:SURE_ERRORS],
    )
    write_text(folder / "report.html", page)


def write_errors(path: Path, analysis: Mapping[str, Any], groups: Sequence[Mapping[str, Any]], most: int) -> None:
    """Write the errors in foldable groups, at most the `most` surest ones."""
    rows = sorted((row["predicted"][0][1] for group in groups for row in group["rows"]), reverse=True)
    least = rows[most - 1] if len(rows) > most else -1.0
    shown = [{**group, "shown": [row for row in group["rows"] if row["predicted"][0][1] >= least]} for group in groups]
    page = render("errors.html", title=f"{analysis['name']}: errors", analysis=analysis, groups=shown, total=len(rows))
    write_text(path, page)


def render(template: str, **values: Any) -> str:
    """The text of a page; what is filled in is escaped."""
    return _environment.get_template(template).render(**values)


def _data_uri(content: bytes, kind: str) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def _headline(task: Task, report: RunReport, split: str) -> list[str]:
    """The three figures that matter most, under the last decision rule, as "NAME FIGURE (RULE)"."""
    title, values = list(report.decisions(split).items())[-1]
    names = task.main_figures(values, report.runs[0].selected_by, report.published)
    return [f"{name} {mean_std(values[name])} ({title})" for name in names[:3]]


def _metrics(report: RunReport, split: str) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table of a split: mean ± std over the seeds, and for the test part the published score."""
    kinds = report.decisions(split)
    published = report.published if split == "test" else {}
    header = ["metric", *kinds]
    rows = []
    for name in dict.fromkeys(metric for values in kinds.values() for metric in values):
        row = [name, *(mean_std(values.get(name)) for values in kinds.values())]
        rows.append([*row, str(published.get(name, ""))] if published else row)
    return [*header, "published"] if published else header, rows


def _labels(report: RunReport, split: str) -> list[list[str]]:
    """Label, rows, precision, recall and F1 (mean ± std over the seeds) under the last decision rule; nothing for generators."""
    kind = list(report.runs[0].figures(split))[-1]
    rows = []
    for name, own in report.per_label(split, kind).items():
        scores = ([one["precision"] for one in own], [one["recall"] for one in own], [one["f1"] for one in own])
        rows.append([name, str(own[0]["support"]), *(mean_std(over_seeds(score), digits=3) for score in scores)])
    return rows
