# SPDX-License-Identifier: Apache-2.0
"""What rows are labelled with: the only file that asks an array of gold labels for its kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .io.lazily import numpy as np


@dataclass(frozen=True, eq=False)
class Gold:
    """
    The gold labels of N rows among C, or their values.

    Attributes:
        values: single label: (N,) class ids, negative for a row without a label. Multi-label: (N, C) of 0 and 1, -1 for a label that was
            not annotated. Regression: (N, C) floats, NaN for a value that was not annotated.
    """

    values: np.ndarray

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> Gold:
        """Some of the rows; with a second index some of the labels."""
        return Gold(self.values[rows])

    @property
    def single_label(self) -> bool:
        """Whether each row has one label at most."""
        return self.values.ndim == 1

    @property
    def regression(self) -> bool:
        """Whether rows have values and no labels."""
        return self.values.dtype.kind == "f"

    @property
    def multi_label(self) -> bool:
        """Whether a row may have several labels."""
        return not self.single_label and not self.regression

    @property
    def labelled(self) -> np.ndarray:
        """(N,) bool: rows that count; only a row without its one label does not."""
        return self.values >= 0 if self.single_label else np.ones(len(self), bool)

    @property
    def annotated(self) -> np.ndarray:
        """(N,) or (N, C) bool, the shape of `values`: what somebody annotated."""
        return ~np.isnan(self.values) if self.regression else self.values >= 0

    @property
    def complete(self) -> bool:
        """Whether somebody annotated every label and value."""
        return self.single_label or bool(self.annotated.all())

    @property
    def targets(self) -> np.ndarray:
        """What a model learns: (N,) class ids, or (N, C) float32, NaN for what was not annotated."""
        return self.values if self.single_label else np.where(self.annotated, self.values, np.nan).astype(np.float32)

    def has(self, classes: int) -> np.ndarray:
        """(N, C) bool: which labels each row has."""
        return one_hot(self.values, classes) if self.single_label else self.values > 0

    def counts(self, classes: int) -> np.ndarray:
        """(C,): how many rows have each label, or a value."""
        return (self.annotated if self.regression else self.has(classes)).sum(axis=0)

    def decided(self, probabilities: np.ndarray, thresholds: Sequence[float] | np.ndarray | None) -> np.ndarray:
        """(N, C) bool: the labels above their thresholds, or the most probable one of rows with one label."""
        if self.single_label:
            return one_hot(probabilities.argmax(axis=1), probabilities.shape[1])
        return probabilities > np.asarray(thresholds)


def one_hot(ids: np.ndarray, classes: int) -> np.ndarray:
    """Class ids of any shape -> (..., C) bool; all False for a negative id."""
    return ids[..., None] == np.arange(classes)
