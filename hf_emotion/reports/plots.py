# SPDX-License-Identifier: Apache-2.0
"""The plots of a run folder (extra `plots`)."""

import importlib.util
import logging
from pathlib import Path
from typing import Any

import numpy as np

from ..io.files import replacing
from .classification import drawn, save_figure


logger = logging.getLogger(__name__)


def write_plots(folder: Path, report: dict[str, Any], run: dict[str, Any]) -> None:
    """
    Write `training_curve.png` of one seed and, of classifiers, `per_label_f1.png` of all; without matplotlib, say so and go on.

    Args:
        folder: the run folder.
        report: content of metrics.json.
        run: the entry of `report["runs"]` whose training is drawn.
    """
    if importlib.util.find_spec("matplotlib") is None:
        logger.warning("no plots: matplotlib is not installed (pip install 'hf-emotion[plots]')")
        return
    from matplotlib.figure import Figure  # without pyplot: no window system, no global state

    figure = Figure(figsize=(7, 4), layout="constrained")
    losses = [(entry["step"], entry["loss"]) for entry in run["history"] if "loss" in entry]
    split = "test" if "test" in run else "validation"
    kinds = list(run[split])
    metric, name = ("eval_macro_f1", "macro-F1")
    if "teacher_forcing" in kinds:
        metric, name = ("eval_perplexity", "perplexity")
    dev = [(entry["step"], entry["eval_loss"], entry[metric]) for entry in run["history"] if "eval_loss" in entry]
    left = figure.subplots()
    left.plot(*zip(*losses, strict=True) if losses else ([], []), label="training loss", color="tab:blue", alpha=0.6)
    left.plot([step for step, _, _ in dev], [loss for _, loss, _ in dev], "o-", label="dev loss", color="tab:blue")
    left.set(xlabel="step", ylabel="loss", title=f"{report['name']}, seed {run['seed']}")
    right = left.twinx()
    right.plot([step for step, *_ in dev], [value for *_, value in dev], "s-", color="tab:orange", label=f"dev {name}")
    right.set(ylabel=name, ylim=(0, 1) if name == "macro-F1" else None)
    figure.legend(loc="outside lower center", ncols=3)
    with replacing(folder / "training_curve.png") as temporary:
        save_figure(figure, temporary)
    if name == "perplexity":
        return

    with replacing(folder / "per_label_f1.png") as temporary:
        save_figure(per_label_figure(report, split), temporary)


def per_label_figure(report: dict[str, Any], split: str):
    """Bars of F1 per label, the mean over the seeds with their standard deviation (n-1) as a whisker."""
    from matplotlib.figure import Figure

    kinds = list(report["runs"][0][split])
    scores = {
        kind: {
            name: [run[split][kind]["per_label"][name]["f1"] for run in report["runs"]]
            for name in report["runs"][0][split][kind]["per_label"]
        }
        for kind in kinds
    }
    support = report["runs"][0][split][kinds[-1]]["per_label"]
    names = sorted(support, key=lambda name: sum(scores[kinds[-1]][name]))
    figure = Figure(figsize=(7, 1.5 + 0.3 * len(names)), layout="constrained")
    axes = figure.subplots()
    height = 0.8 / len(kinds)
    for number, (kind, hatch) in enumerate(zip(kinds, ("", "//"), strict=False)):
        values = np.array([scores[kind][name] for name in names])  # (labels, seeds)
        spread = values.std(axis=1, ddof=1) if values.shape[1] > 1 else None
        label = {"fixed": f"threshold {report['threshold']}", "tuned": "thresholds tuned on dev"}.get(kind, kind)
        y = np.arange(len(names)) + (number - (len(kinds) - 1) / 2) * height
        axes.barh(
            y, values.mean(axis=1), height, xerr=spread, label=label, hatch=hatch, edgecolor="white", linewidth=0
        )
    axes.set_yticks(range(len(names)), [f"{drawn(name)} ({support[name]['support']})" for name in names])
    over = "" if len(report["runs"]) == 1 else f", mean ± std of {len(report['runs'])} seeds"
    axes.set(
        xlabel="F1",
        xlim=(0, 1),
        ylabel="label",
        title=f"{drawn(report['name'])}: F1 on {split} (rows in brackets){over}",
    )
    axes.margins(y=0.01)
    axes.legend(loc="lower right")
    return figure
