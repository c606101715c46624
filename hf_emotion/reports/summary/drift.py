# SPDX-License-Identifier: Apache-2.0
"""How predictions and words differ from those of a reference."""

import re
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from .reading import Rows


WORDS_SHOWN, FEWEST_TEXTS = 20, 5
STABLE = 0.1  # of the population stability index
WORD = re.compile(r"[^\W\d_]{3,}")


def drift(rows: Rows, past: Rows, wanted: Sequence[str]) -> dict[str, Any]:
    """
    The population stability index Σ (a − b) ln(a / b) over the reference's tenths of a label's probability, or over chosen or not, with half a row
    more in each bin (Siddiqi, 2006, "Credit Risk Scorecards": below 0.1 stable, above 0.25 a large change); and the words with the largest z of
    the log odds ratio (Monroe et al., 2008, "Fightin' Words", eq. 15 and 16 without a prior) between the share of texts that hold them, where it is
    significant at 5 % with Bonferroni's correction for all words in at least `FEWEST_TEXTS` texts.
    """
    from scipy.stats import norm

    sides = (rows, past)
    stability = {}
    for label in rows.chosen:
        values: list[Any] = [side.chosen.get(label, np.zeros(len(side.about))) for side in sides]
        edges = np.array([0.5])
        if rows.scores is not None and past.scores is not None and label in past.scores:
            values = [rows.scores[label], past.scores[label]]
            edges = np.unique(np.quantile(values[1], np.arange(1, 10) / 10))
        bins = [np.bincount(np.searchsorted(edges, own, side="right"), minlength=len(edges) + 1) for own in values]
        a, b = ((own + 0.5) / (own.sum() + 0.5 * len(own)) for own in bins)
        stability[label] = float(((a - b) * np.log(a / b)).sum())
    now, then = (
        Counter(word for text in side.about["text"].dropna() for word in set(WORD.findall(str(text).lower())))
        for side in sides
    )
    words: list[dict[str, Any]] = []
    asked = {word: texts for word, texts in now.items() if texts >= FEWEST_TEXTS}
    least = norm.isf(0.025 / max(1, len(asked)))
    for word, texts in asked.items():
        cells = np.array([texts, len(rows.about) - texts, then[word], len(past.about) - then[word]]) + 0.5
        z = float(np.log(cells[0] * cells[3] / cells[1] / cells[2]) / np.sqrt((1 / cells).sum()))
        if z > least:
            words.append({"word": word, "texts": texts, "before": then[word], "z": z})
    words.sort(key=lambda word: -word["z"])
    shares = _shares(rows, past, wanted)
    return {"reference_rows": len(past.about), "shares": shares, "stability": stability, "words": words[:WORDS_SHOWN]}


def drift_notes(rows: Rows, past: Rows) -> list[str]:
    """What the index reaches by chance, if that is not little: (1 / n + 1 / m) χ² (Yurdakul and Naranjo, 2020, J. Risk Model Validation 14)."""
    from scipy.stats import chi2

    bins = 2 if rows.scores is None or past.scores is None else 10
    reached = chi2.isf(0.05, bins - 1) * (1 / len(rows.about) + 1 / len(past.about))
    if reached < STABLE:
        return []
    return [f"Of so few texts 5 % of the stability indices are above {reached:.2f} where nothing has changed."]


def _shares(rows: Rows, past: Rows, wanted: Sequence[str]) -> list[dict[str, Any]]:
    """
    Each wanted label's plain share (mean) then and now, the largest difference first; of shares with Newcombe's interval and Fisher's exact test,
    of means with Welch's t-test, and p-values with Holm's correction.
    """
    from scipy.stats import fisher_exact, ttest_ind
    from statsmodels.stats.multitest import multipletests
    from statsmodels.stats.proportion import confint_proportions_2indep

    found: list[dict[str, Any]] = []
    for label in wanted:
        tables: list[Any] = [one.scores if rows.values else one.chosen for one in (rows, past)]
        sides = [table.get(label) for table in tables]
        now, before = (
            np.zeros(len(one.about)) if side is None else side.to_numpy(float)
            for side, one in zip(sides, (rows, past), strict=True)
        )
        apart = now.mean() - before.mean()
        if rows.values:
            with warnings.catch_warnings(action="ignore"):  # of one value, and of values that are all alike
                test = ttest_ind(now, before, equal_var=False)
                low, high = test.confidence_interval()
            p = np.nan_to_num(test.pvalue, nan=1.0)
        else:
            (a, n), (b, m) = ((int(side.sum()), len(side)) for side in (now, before))
            low, high = confint_proportions_2indep(a, n, b, m, method="newcomb")
            p = fisher_exact([(a, n - a), (b, m - b)]).pvalue
        values = {
            "before": before.mean(),
            "share": now.mean(),
            "difference": apart,
            "low": low,
            "high": high,
            "p_value": p,
        }
        found.append({"label": label} | {name: float(value) for name, value in values.items()})
    for one, p in zip(found, multipletests([one["p_value"] for one in found], method="holm")[1], strict=True):
        one["p_holm"] = float(p)
    return sorted(found, key=lambda one: -abs(one["difference"]))
