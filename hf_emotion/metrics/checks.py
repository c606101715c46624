# SPDX-License-Identifier: Apache-2.0
"""Checks of what the metrics get: each raises a ValueError that names the argument."""

import numpy as np


def check_shape(name: str, values: np.ndarray, shape: tuple[int, ...]) -> None:
    """ValueError unless an array has this shape."""
    if values.shape != shape:
        raise ValueError(f"`{name}` must have the shape {shape}, got {values.shape}.")


def check_finite(name: str, values: np.ndarray) -> None:
    """ValueError for NaN and infinity."""
    if not np.isfinite(values).all():
        raise ValueError(f"`{name}` must be finite, got NaN or infinity.")


def check_probabilities(values: np.ndarray, name: str = "probabilities") -> None:
    """ValueError unless all values lie in [0, 1]."""
    if values.size and not (0 <= values.min() and values.max() <= 1):  # NaN is neither
        raise ValueError(
            f"`{name}` must lie in [0, 1], got {values.min():.4g} to {values.max():.4g}: apply sigmoid or softmax."
        )


def check_sums(name: str, values: np.ndarray) -> None:
    """ValueError unless each row of probabilities or shares sums to 1."""
    if not np.allclose(values.sum(axis=1, dtype=np.float64), 1, atol=1e-3):
        raise ValueError(f"`{name}` must sum to 1 in every row.")


def check_ids(labels: np.ndarray, classes: int) -> None:
    """ValueError unless labels are class ids, one per row."""
    whole = np.issubdtype(labels.dtype, np.number) and not (labels % 1).any()
    if labels.ndim != 1 or not whole or (labels.size and not (0 <= labels.min() and labels.max() < classes)):
        raise ValueError(
            f"`labels` must be class ids from 0 to {classes - 1}, one per row, got {np.unique(labels)[:9]}."
        )


def check_decisions(values: np.ndarray, name: str) -> None:
    """ValueError unless all values are 0 or 1: probabilities would all count as decided."""
    if values.ndim > 1 and np.issubdtype(values.dtype, np.floating) and not np.isin(values, (0, 1)).all():
        raise ValueError(f"`{name}` must be decisions, of 0 and 1: compare probabilities with their thresholds first.")
