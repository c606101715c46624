# SPDX-License-Identifier: Apache-2.0
"""The plots of a run folder (extra `plots`)."""

import importlib.util
import logging
from pathlib import Path
from typing import Any

from .files import replacing


logger = logging.getLogger(__name__)


def write_plots(folder: Path, report: dict[str, Any], run: dict[str, Any]) -> None:
    """
    Write `training_curve.png` and, of classifiers, `per_label_f1.png` of one seed; without matplotlib, say so and go on.

    Args:
        folder: the run folder.
        report: content of metrics.json.
        run: the entry of `report["runs"]` to draw.
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
        figure.savefig(temporary, dpi=120)
    if name == "perplexity":
        return

    last = run[split][kinds[-1]]["per_label"]
    names = sorted(last, key=lambda name: last[name]["f1"])
    figure = Figure(figsize=(7, 1.5 + 0.3 * len(names)), layout="constrained")
    axes = figure.subplots()
    height = 0.8 / len(kinds)
    for number, kind in enumerate(kinds):
        values = [run[split][kind]["per_label"][name]["f1"] for name in names]
        label = {"fixed": f"threshold {report['threshold']}", "tuned": "thresholds tuned on dev"}.get(kind, kind)
        axes.barh(
            [i + (number - (len(kinds) - 1) / 2) * height for i in range(len(names))], values, height, label=label
        )
    axes.set_yticks(range(len(names)), [f"{name} ({last[name]['support']})" for name in names])
    axes.set(xlabel="F1", xlim=(0, 1), title=f"{report['name']}: F1 per label on {split} (rows in brackets)")
    axes.margins(y=0.01)
    axes.legend(loc="lower right")
    with replacing(folder / "per_label_f1.png") as temporary:
        figure.savefig(temporary, dpi=120)
