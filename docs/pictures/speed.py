# SPDX-License-Identifier: Apache-2.0
"""
How cost grows with labels, length, batch, layers, emotions and texts, from benchmarks/results.json: python docs/pictures/speed.py
"""

import json
import re

from matplotlib.ticker import LogLocator, NullFormatter
from style import HERE, OURS, THEIRS, plt, save


SWEEPS = {
    "labels": "labels\n(label-aware attention)",
    "length": "tokens per text\n(QACG-BERT)",
    "batch": "texts per batch\n(QACG-BERT)",
    "layers": "layers\n(QACG-BERT)",
    "emotions": "emotions\n(GPT-2 Mod-LN)",
    "rows": "texts\n(prediction)",
}

if __name__ == "__main__":
    records = json.loads((HERE.parents[1] / "benchmarks" / "results.json").read_text(encoding="utf-8"))
    points: dict[str, list[tuple[int, float, float]]] = {name: [] for name in SWEEPS}
    for run in records.values():
        for row in run["rows"]:
            if row["topic"] == "growth" and "peer" in row:
                name, size = re.match(r"(\w+) (\d+):", row["work"]).groups()
                points[name].append((int(size), row["ours"], row["peer"]))
    figure, all_axes = plt.subplots(2, 3, figsize=(9.5, 5.4))
    for axes, (name, title) in zip(all_axes.flat, SWEEPS.items(), strict=True):
        sizes, ours, theirs = zip(*sorted(points[name]), strict=True)
        axes.plot(sizes, theirs, color=THEIRS, marker="s", markersize=4, linestyle="--", label="stock transformers")
        axes.plot(sizes, ours, color=OURS, marker="o", markersize=4, label="hf-emotion")
        axes.set(xlabel=title, xscale="log")
        axes.set_xticks(sizes, [str(size) for size in sizes], fontsize=9)
        axes.minorticks_off()
        if max(ours + theirs) < 4 * min(ours + theirs):
            axes.set_ylim(0, 1.1 * max(ours + theirs))
        else:
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_formatter(NullFormatter())
        axes.grid()
    for row in all_axes:
        row[0].set_ylabel("seconds")
    all_axes[0, 0].legend(fontsize=9)
    save(figure, "speed")
