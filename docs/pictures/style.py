# SPDX-License-Identifier: Apache-2.0
"""One look for the plots of this folder: transparent, with mid-tones that read on a light and on a dark page."""

from pathlib import Path

import matplotlib
from matplotlib import pyplot as plt


INK = "#84898f"  # text, axes and grid
OURS, THEIRS, THIRD = "#2f86cf", "#d9782d", "#3d9970"
HERE = Path(__file__).parent

matplotlib.use("Agg")
plt.rcParams.update(
    {
        "font.size": 11,
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "axes.titlecolor": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "text.color": INK,
        "legend.labelcolor": INK,
        "legend.frameon": False,
        "grid.color": INK,
        "grid.alpha": 0.3,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "savefig.transparent": True,
        "svg.hashsalt": "hf-emotion",  # the same file from the same data
        "figure.constrained_layout.use": True,
    }
)


def save(figure, name: str) -> None:
    """Write NAME.svg beside the scripts."""
    figure.savefig(HERE / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)
