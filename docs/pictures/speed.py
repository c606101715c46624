# SPDX-License-Identifier: Apache-2.0
"""
How cost grows with labels, length, tokens, aspects, turns and clients, from benchmarks/results.json: python docs/pictures/speed.py
"""

import json
import re

from matplotlib.ticker import LogLocator, NullFormatter
from style import HERE, OURS, THEIRS, plt, save


SWEEPS = {
    "labels": "labels\n(a train step)",
    "length": "tokens\n(a train step of QACG-BERT)",
    "tokens": "tokens per text\n(64 texts)",
    "aspects": "aspects in one pass\n(16 texts)",
    "turns": "turns of a dialogue",
    "clients": "clients of a service\n(256 requests)",
}

if __name__ == "__main__":
    records = json.loads((HERE.parents[1] / "benchmarks" / "results.json").read_text(encoding="utf-8"))
    points: dict[str, list[tuple[int, float, float | None]]] = {name: [] for name in SWEEPS}
    for run in records.values():
        for row in run["rows"]:
            name, size = re.match(r"(\w+)(?: (\d+):)?", row["work"]).groups()
            if row["topic"] == "growth" and name in points:
                points[name].append((int(size), row.get("ours", row["median"]), row.get("peer")))
    figure, all_axes = plt.subplots(2, 3, figsize=(9.5, 5.4))
    for axes, (name, title) in zip(all_axes.flat, SWEEPS.items(), strict=True):
        sizes, ours, theirs = zip(*sorted(points[name]), strict=True)
        if None not in theirs:
            axes.plot(
                sizes, theirs, color=THEIRS, marker="s", markersize=4, linestyle="--", label="stock transformers"
            )
        axes.plot(sizes, ours, color=OURS, marker="o", markersize=4, label="hf-emotion")
        axes.set(xlabel=title, xscale="log")
        axes.set_xticks(sizes, [str(size) for size in sizes], fontsize=9)
        axes.minorticks_off()
        if max(ours) < 4 * min(ours):
            axes.set_ylim(0, 1.1 * max(ours))
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
