# SPDX-License-Identifier: Apache-2.0
"""
What each label attends to, and what each word adds to it: python docs/pictures/heat_map.py

Both maps come from `hf_emotion.explain` and the ready model `goemotions`; no network is needed with the extra `offline`.
"""

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from style import INK, OURS, THEIRS, plt, save

from hf_emotion import explain


TEXT = "I miss him every day, but his letters still make me laugh."
METHODS = {
    "attention": "attention of each label",
    "integrated-gradients": "what each word adds (integrated gradients)",
}
LABELS = ["amusement", "sadness", "grief"]

if __name__ == "__main__":
    figure, all_axes = plt.subplots(2, 1, figsize=(9, 4.4))
    # Transparent where a word counts for nothing, so that the page shows through.
    steps = [
        (0, THEIRS),
        (0.32, THEIRS + "D8"),
        (0.5, THEIRS + "00"),
        (0.5, OURS + "00"),
        (0.68, OURS + "D8"),
        (1, OURS),
    ]
    colours = LinearSegmentedColormap.from_list("signed", steps)
    for axes, (method, title) in zip(all_axes, METHODS.items(), strict=True):
        explanation = explain("goemotions", TEXT, method=method, labels=LABELS)
        rows = {name: row for heat in explanation.maps for name, row in zip(heat.rows, heat.values, strict=True)}
        words = list(explanation.maps[0].columns)
        values = np.array(list(rows.values()), dtype=float)
        largest = np.abs(values).max()
        axes.imshow(values, cmap=colours, vmin=-largest, vmax=largest, aspect="auto")
        axes.set_xticks(range(len(words)), words, rotation=35, ha="right")
        axes.set_yticks(range(len(rows)), list(rows))
        axes.set_title(title, loc="left", fontsize=11)
        axes.tick_params(length=0)
        for x in range(len(words) + 1):
            axes.axvline(x - 0.5, color=INK, linewidth=0.3)
        for y in range(len(rows)):
            for x in range(len(words)):
                if abs(values[y, x]) > 0.08 * largest:
                    ink = "white" if abs(values[y, x]) > 0.3 * largest else INK
                    axes.text(x, y, f"{values[y, x]:.2f}", ha="center", va="center", fontsize=9, color=ink)
    save(figure, "heat_map")
