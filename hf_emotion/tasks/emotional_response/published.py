# SPDX-License-Identifier: Apache-2.0
"""Published figures of generated replies."""

from collections.abc import Sequence


def _row(
    hits: Sequence[float] | None, ttr: Sequence[float], length: float, stop: float, scores: Sequence[float] | None
) -> dict[str, float]:
    row = {f"hits@{k}": value / 100 for k, value in zip((1, 3, 5), hits or (), strict=False)}
    row |= {"ttr_1": ttr[0], "ttr_2": ttr[1], "average_length": length, "stop_words": stop / 100}
    if scores is not None:
        row["perplexity"] = scores[0]
        names = ("bertscore_precision", "bertscore_recall", "bertscore_f1")
        row |= {name: value / 100 for name, value in zip(names, scores[1:], strict=True)}
    return {name: round(value, 4) for name, value in row.items()}


# Tables 1-3 of Liu et al. (2021); only Table 2 has the human replies. The names are those of `reply_metrics`.
MOJITALK_PUBLISHED: dict[str, dict[str, float]] = {
    "human": _row(None, (0.059, 0.43), 11.7, 50.4, None),
    "R-CVAE, 10 %": _row((13.4, 27.1, 33.6), (0.034, 0.24), 8.6, 60.1, (121.18, 74.9, 83.0, 76.7)),
    "R-CVAE, 100 %": _row((26.2, 44.2, 53.4), (0.051, 0.33), 9.2, 59.3, (92.64, 80.8, 80.8, 80.8)),
    "Mod-LN BERT, 10 %": _row((20.5, 47.4, 59.1), (0.054, 0.43), 18.2, 49.3, (79.24, 78.4, 80.1, 78.8)),
    "Mod-LN BERT, 100 %": _row((33.6, 56.8, 72.2), (0.059, 0.39), 14.3, 49.2, (50.72, 82.9, 84.1, 83.5)),
    "Mod-LN GPT-2, 10 %": _row((27.9, 43.4, 64.1), (0.056, 0.38), 15.9, 48.7, (51.55, 83.7, 80.7, 83.2)),
    "Mod-LN GPT-2, 100 %": _row((34.4, 60.3, 82.5), (0.057, 0.40), 12.5, 48.5, (36.31, 84.7, 86.2, 85.4)),
}
