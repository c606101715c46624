# SPDX-License-Identifier: Apache-2.0
"""Metrics of predicted values, such as intensities or valence."""

from collections.abc import Sequence

import numpy as np

from .checks import check_finite, check_shape
from .numbers import mean


def regression(values: np.ndarray, predicted: np.ndarray, names: Sequence[str]) -> dict:
    """
    Metrics of C predicted values for each of N rows.

    Args:
        values: (N, C) gold values, NaN for one that was not annotated.
        predicted: (N, C).
        names: C names.

    Returns:
        `pearson`: Pearson's r, `ccc`: Lin's concordance correlation coefficient (1989), `mae`: the mean absolute error, each the mean over the
        C names; and `per_target`: {name: {pearson, ccc, mae, rows}}. A correlation is NaN where all gold values are equal, and left out of
        the mean; r is 0 where all predictions are equal.
    """
    values, predicted = np.asarray(values, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    check_shape("predicted", predicted, (len(values), len(names)))
    check_shape("values", values, predicted.shape)
    check_finite("predicted", predicted)
    figures = {}
    for name, gold, own in zip(names, values.T, predicted.T, strict=True):
        known = ~np.isnan(gold)
        figures[name] = _one(gold[known], own[known]) | {"rows": int(known.sum())}
    means = {}
    for metric in ("pearson", "ccc", "mae"):
        found = np.array([own[metric] for own in figures.values()])
        means[metric] = mean(found[~np.isnan(found)])
    return {**means, "per_target": figures}


def _one(gold: np.ndarray, own: np.ndarray) -> dict[str, float]:
    mae = mean(np.abs(gold - own))
    if not len(gold) or not gold.std() > 0:
        return {"pearson": float("nan"), "ccc": float("nan"), "mae": mae}
    covariance = float(np.mean((gold - gold.mean()) * (own - own.mean())))
    pearson = covariance / (gold.std() * own.std()) if own.std() > 0 else 0.0
    ccc = 2 * covariance / (gold.var() + own.var() + (gold.mean() - own.mean()) ** 2)
    return {"pearson": float(pearson), "ccc": float(ccc), "mae": mae}
