# SPDX-License-Identifier: Apache-2.0
"""
Draws the figures (extra `plots`) of a run folder as PNG, and of `hf-emotion analyze` as SVG. Letters stay letters in the SVG,
so that a browser shows any script.
"""

import importlib.util
import io
import logging
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..io.files import replacing
from ..run_report import RunReport, SeedRun, decision_title


logger = logging.getLogger(__name__)

DPI = 120
LONGEST_SIDE = 30  # inches of cells: 3600 pixels, and what is left to 4000 for names and title
LONGEST_NAME = 30  # characters, in pictures
MOST_NUMBERED = 60  # classes; a larger matrix has colours but no numbers
# Okabe and Ito's colours, which colour-blind people can tell apart; lines differ in their dashes too.
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#666666"
LINES = {"precision": (BLUE, "--"), "recall": (ORANGE, ":"), "f1": ("black", "-")}
NEGATIVE = -0.05  # cells with a correlation of at most this get a minus sign


def can_draw() -> bool:
    """Whether matplotlib is installed; a warning if it is not."""
    found = importlib.util.find_spec("matplotlib") is not None
    if not found:
        logger.warning("no pictures: matplotlib is not installed (pip install 'hf-emotion[plots]')")
    return found


def write_plots(folder: Path, report: RunReport, run: SeedRun) -> None:
    """Write `training_curve.png` of a seed, and, if labels are measured, `per_label_f1.png` over all; nothing without matplotlib."""
    if not can_draw():
        return
    from matplotlib.figure import Figure  # without pyplot: no window system, no global state

    figure = Figure(figsize=(7, 4), layout="constrained")
    losses = [(one["step"], one["loss"]) for one in run.history if "loss" in one]
    split = "validation" if run.test is None else "test"
    labelled = bool(run.per_label(split, list(run.figures(split))[-1]))
    metric = "macro_f1" if any("eval_macro_f1" in one for one in run.history) else run.selected_by
    name = "macro-F1" if metric == "macro_f1" else metric
    dev = [(one["step"], one["eval_loss"], one[f"eval_{metric}"]) for one in run.history if "eval_loss" in one]
    left = figure.subplots()
    left.plot(*zip(*losses, strict=True) if losses else ([], []), label="training loss", color="tab:blue", alpha=0.6)
    steps, dev_losses, scores = zip(*dev, strict=True) if dev else ((), (), ())
    left.plot(steps, dev_losses, "o-", label="validation loss", color="tab:blue")
    left.set(xlabel="step", ylabel="loss", title=f"{drawn(report.name)}, seed {run.seed}")
    right = left.twinx()
    right.plot(steps, scores, "s-", color="tab:orange", label=f"validation {name}")
    right.set(ylabel=name, ylim=(0, 1) if labelled else None)
    figure.legend(loc="outside lower center", ncols=3)
    with replacing(folder / "training_curve.png") as temporary:
        save_figure(figure, temporary)
    if labelled:
        with replacing(folder / "per_label_f1.png") as temporary:
            save_figure(per_label_figure(report, split), temporary)


def per_label_figure(report: RunReport, split: str):
    """Bars of F1 per label, the mean over the seeds with their standard deviation (n-1) as a whisker."""
    from matplotlib.figure import Figure

    kinds = list(report.runs[0].figures(split))
    found = {kind: report.per_label(split, kind) for kind in kinds}
    support = {name: own[0]["support"] for name, own in found[kinds[-1]].items()}
    names = sorted(support, key=lambda name: sum(one["f1"] for one in found[kinds[-1]][name]))
    figure = Figure(figsize=(7, 1.5 + 0.3 * len(names)), layout="constrained")
    axes = figure.subplots()
    height = 0.8 / len(kinds)
    for number, (kind, hatch) in enumerate(zip(kinds, ("", "//"), strict=False)):
        values = np.array([[one["f1"] for one in found[kind][name]] for name in names])  # (labels, seeds)
        spread = values.std(axis=1, ddof=1) if values.shape[1] > 1 else None
        label = decision_title(kind, report.threshold)
        y = np.arange(len(names)) + (number - (len(kinds) - 1) / 2) * height
        axes.barh(
            y, values.mean(axis=1), height, xerr=spread, label=label, hatch=hatch, edgecolor="white", linewidth=0
        )
    axes.set_yticks(range(len(names)), [f"{drawn(name)} ({support[name]})" for name in names])
    over = "" if len(report.runs) == 1 else f", mean ± std of {len(report.runs)} seeds"
    axes.set(
        xlabel="F1", xlim=(0, 1), ylabel="label", title=f"{drawn(report.name)}: F1 on {split} (rows in brackets){over}"
    )
    axes.margins(y=0.01)
    axes.legend(loc="lower right")
    return figure


def matrix_figure(title: str, matrix: np.ndarray, names: Sequence[str]):
    """Counts (C, C), [gold, predicted], coloured by their share of the gold row."""
    from matplotlib.figure import Figure  # without pyplot: no window system, no global state

    side = float(np.clip(0.42 * len(names), 3.2, LONGEST_SIDE))  # side of all cells together, in inches
    cell = 72 * side / len(names)  # side of a cell, in points
    size = min(9, 0.75 * cell)
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    figure = Figure(figsize=(side + 2.8, side + 2.2), layout="constrained")
    figure.suptitle(textwrap.fill(title, int(11 * (side + 2.8))).replace("$", r"\$"), fontsize=10)
    axes = figure.subplots()
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    figure.colorbar(image, label="share of the gold row", shrink=0.8, fraction=0.06, aspect=30)
    axes.set_xlabel("predicted")
    axes.set_ylabel("gold")
    shown = [drawn(name) for name in names]
    axes.set_xticks(range(len(names)), shown, rotation=90, fontsize=size)
    axes.set_yticks(range(len(names)), shown, fontsize=size)
    if len(names) <= MOST_NUMBERED:
        size = min(9, 1.2 * cell / len(str(matrix.max())))
        for y, row in enumerate(matrix):
            for x, count in enumerate(row):
                colour = "white" if shares[y, x] > 0.6 else "black" if count else "silver"
                # Left out of the layout, which would measure each of thousands of texts.
                axes.text(x, y, str(count), ha="center", va="center", color=colour, fontsize=size, in_layout=False)
    return figure


def write_sweep(path: Path, result: Mapping[str, Any], fields: Sequence[tuple[str, bool]]) -> None:
    """Draw the trials of a sweep, one after the other and over each field: its key, and whether its axis is logarithmic."""
    if not can_draw():
        return
    figure = _figure(3.2 * (1 + len(fields)), 3.4, result["name"])
    panels = figure.subplots(1, 1 + len(fields), sharey=True, squeeze=False)[0]
    trials = [trial for trial in result["trials"] if trial["dev"] is not None]
    kinds = {"complete": ("o", BLUE), "pruned": ("x", GREY)}
    for axes, (key, log) in zip(panels, [("trial", False), *fields], strict=True):
        values = [trial["number"] if key == "trial" else trial["values"][key] for trial in trials]
        numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
        names = sorted({str(value) for value in values})
        places = values if numbers else [names.index(str(value)) for value in values]
        for state, (marker, colour) in kinds.items():
            own = [i for i, trial in enumerate(trials) if trial["state"] == state]
            axes.plot([places[i] for i in own], [trials[i]["dev"] for i in own], marker, color=colour, label=state)
        best = [i for i, trial in enumerate(trials) if trial["number"] == result["best"]]
        axes.plot([places[i] for i in best], [trials[i]["dev"] for i in best], "*", color=ORANGE, ms=14, label="best")
        axes.set_xlabel(drawn(key))
        if log:
            axes.set_xscale("log")
        if not numbers:
            axes.set_xticks(range(len(names)), [drawn(name) for name in names])
    panels[0].set_ylabel(f"validation {_shown(result['metric'])}")
    panels[0].legend(fontsize=8)
    with replacing(path) as temporary:
        save_figure(figure, temporary)


def to_svg(figure) -> str:
    """The SVG text of a figure; equal figures give equal texts."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "hf-emotion"}):
        save_figure(figure, buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def reliability_figure(title: str, states: Mapping[str, Mapping[str, Any]], unit: str):
    """Accuracy over confidence for each state (before and after scaling), and how many decisions each bin has."""
    from matplotlib.ticker import NullFormatter

    figure = _figure(4.2 * len(states), 5.6, title)
    axes = figure.subplots(2, len(states), sharex=True, sharey="row", squeeze=False, height_ratios=(3, 1.4))
    for (state, values), (upper, lower) in zip(states.items(), axes.T, strict=True):
        used = [entry for entry in values["bins"] if entry["count"]]
        width = 1 / len(values["bins"])
        centres = [entry["upper"] - width / 2 for entry in used]
        upper.bar(
            centres, [entry["accuracy"] for entry in used], width, color=BLUE, edgecolor="white", label="share right"
        )
        upper.plot(
            [entry["confidence"] for entry in used], [entry["accuracy"] for entry in used], "D", color="black", ms=4,
            label="mean confidence of the bin",
        )  # fmt: skip
        upper.plot([0, 1], [0, 1], "--", color=ORANGE, label="share right = confidence")
        upper.set(title=f"{state}: ECE {values['ece']:.4f}", xlim=(0, 1), ylim=(0, 1))
        lower.bar(centres, [entry["count"] for entry in used], width, color=GREY, edgecolor="white", log=True)
        lower.set_xlabel("confidence (probability)")
        lower.yaxis.set_minor_formatter(NullFormatter())
    axes[0, 0].set_ylabel("share right (0 to 1)")
    axes[1, 0].set_ylabel(f"{unit} (log)")
    axes[0, 0].legend(loc="upper left", fontsize=8)
    return figure


def risk_figure(title: str, selective: Mapping[str, Any]):
    """Risk over coverage, and that of the best possible order of the rows."""
    figure = _figure(7, 4, title)
    axes = figure.subplots()
    curve = selective["curve"]
    axes.plot(curve["coverage"], curve["risk"], "-", color=BLUE, label="the least sure rows are refused first")
    axes.plot(curve["coverage"], curve["best"], "--", color=GREY, label="the best order: the largest loss first")
    axes.set(
        xlabel="coverage (share of rows that are answered)",
        ylabel="risk (mean loss, 0 to 1)",
        xlim=(0, 1),
        ylim=(0, None),
    )
    axes.legend()
    return figure


def threshold_figure(title: str, curves: Mapping[str, Any]):
    """Macro precision, recall and F1 over one threshold for all labels."""
    figure = _figure(7, 4, title)
    axes = figure.subplots()
    for name, (colour, style) in LINES.items():
        axes.plot(curves["thresholds"], curves["macro"][name], style, color=colour, label=f"macro {_shown(name)}")
    best = int(np.argmax(curves["macro"]["f1"]))
    axes.plot(curves["thresholds"][best], curves["macro"]["f1"][best], "o", color="black")
    axes.set(xlabel="threshold (probability), one for all labels", ylabel="score (0 to 1)", xlim=(0, 1), ylim=(0, 1))
    axes.legend()
    return figure


def label_threshold_figure(title: str, curves: Mapping[str, Any]):
    """A small panel for each label: precision, recall and F1 over its threshold; a dot marks the tuned threshold."""
    from matplotlib.figure import Figure

    columns, labels = 4, curves["labels"]
    rows = -(-len(labels) // columns)
    height = 1.6 + 1.7 * rows  # in inches; no layout engine, which takes seconds for so many panels
    figure = Figure(figsize=(10, height))
    figure.subplots_adjust(0.08, 1.1 / height, 0.98, 1 - 0.8 / height, wspace=0.08, hspace=0.3)
    figure.suptitle(title.replace("$", r"\$"), fontsize=10, y=1 - 0.2 / height)
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axes, (label, values) in zip(panels.flat, labels.items(), strict=False):
        for name, (colour, style) in LINES.items():
            axes.plot(curves["thresholds"], values[name], style, color=colour, label=_shown(name), linewidth=1)
        axes.axvline(values["tuned"], color=GREY, linewidth=0.8)
        axes.plot(values["tuned"], values["tuned_f1"], "o", color="black", ms=4, label="tuned threshold")
        axes.set_title(f"{drawn(label)} ({values['support']})", fontsize=9, pad=3)
    for axes in panels.flat[len(labels) :]:
        axes.remove()
    panels[0, 0].set(xlim=(0, 1), ylim=(0, 1), xticks=(0.2, 0.5, 0.8), yticks=(0, 0.5, 1))
    figure.supxlabel("threshold (probability)", fontsize=10, y=0.55 / height)
    figure.supylabel("score (0 to 1)", fontsize=10, x=0.01)
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="lower center", ncols=4)
    return figure


def correlation_figure(title: str, correlation: np.ndarray, linkage: np.ndarray, names: Sequence[str]):
    """A dendrogram of the labels, and next to it the heat map of their correlations, in the order of its leaves."""
    from scipy.cluster.hierarchy import dendrogram

    side = float(np.clip(0.28 * len(names), 3, 18))
    figure = _figure(side + 5, side + 2.4, title)
    tree, axes = figure.subplots(1, 2, width_ratios=(1.6, side))
    leaves = dendrogram(
        linkage, orientation="left", ax=tree, no_labels=True, color_threshold=0, above_threshold_color="black"
    )["leaves"]
    tree.set_xlabel("distance, 1 − r")
    tree.set_yticks([])
    for edge in ("top", "right", "left"):
        tree.spines[edge].set_visible(False)
    ordered = correlation[np.ix_(leaves, leaves)]
    # The first leaf lies at the bottom of the tree.
    image = axes.imshow(
        ordered, cmap="PuOr_r", vmin=-1, vmax=1, origin="lower", aspect="auto", interpolation="nearest"
    )
    size = float(np.clip(72 * side / len(names) * 0.6, 4, 9))
    for y, row in enumerate(ordered):
        for x, value in enumerate(row):
            if value <= NEGATIVE:
                axes.text(x, y, "−", ha="center", va="center", fontsize=size, in_layout=False)
    shown = [drawn(names[leaf]) for leaf in leaves]
    axes.set_xticks(range(len(names)), shown, rotation=90, fontsize=size)
    axes.set_yticks(range(len(names)), shown, fontsize=size)
    axes.yaxis.tick_right()
    axes.set(xlabel="label", ylabel="label")
    label = f"correlation r (− in a cell: r ≤ {NEGATIVE})".replace("-0", "−0")
    figure.colorbar(image, label=label, location="bottom", shrink=0.6, aspect=30)
    return figure


GUIDANCE = {  # name of `context_guidance` -> symbol, whether the counts are drawn on a log axis
    "combined_attention": ("combined attention Â", True),
    "context_gate": ("gate λ_A", False),
    "attention": ("self-attention A_self", True),
    "quasi_attention": ("quasi-attention A_quasi", True),
    "query_gate": ("gate λ_Q", False),
    "key_gate": ("gate λ_K", False),
}


def guidance_figure(title: str, histograms: Mapping[str, Mapping[str, Any]]):
    """Histograms of attentions and gates over all layers and heads (figure 4 of the paper)."""
    names = [name for name in GUIDANCE if name in histograms]
    figure = _figure(9, 3.2 * -(-len(names) // 2) + 0.4, title)
    for axes, name in zip(np.ravel(figure.subplots(-(-len(names) // 2), 2)), names, strict=True):
        label, log = GUIDANCE[name]
        edges, counts = np.array(histograms[name]["edges"]), np.array(histograms[name]["counts"])
        below = edges[1:] <= 0
        for part, hatch, colour in ((below, "///", ORANGE), (~below, "", BLUE)):
            if part.any():
                axes.bar(
                    edges[:-1][part], counts[part], np.diff(edges)[part], align="edge", color=colour, hatch=hatch,
                    edgecolor="white", linewidth=0.3, label="below 0" if hatch else "0 and above", log=log,
                )  # fmt: skip
        axes.set(xlabel=f"{label} (no unit)", ylabel=f"values{' (log)' if log else ''}")
        if below.any():
            axes.legend(fontsize=8)
    return figure


def drawn(name: str) -> str:
    """A name for a picture, shortened, in which `$` does not start a formula."""
    short = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
    return short.replace("$", r"\$")


def save_figure(figure, target, **options) -> None:
    """As `figure.savefig`, without a warning for a letter that the font lacks (an emoji); it becomes a box."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph .* missing from|Matplotlib currently does not support")
        figure.savefig(target, dpi=DPI, **options)


def _shown(name: str) -> str:
    return "F1" if name == "f1" else name


def _figure(width: float, height: float, title: str):
    from matplotlib.figure import Figure  # without pyplot: no window system, no global state

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(title.replace("$", r"\$"), fontsize=10, wrap=True)
    return figure
