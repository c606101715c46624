# SPDX-License-Identifier: Apache-2.0
"""
What the results of all tasks have. Each task's `results.py` says what its models answer: predictors return it, files and the command line
show it, and the service takes its schema from it. They are dictionaries, so that they are ready for JSON.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import numpy as np
from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from ..runtime.unread import Doc, Readable


if TYPE_CHECKING:
    import pandas


class Label(TypedDict):
    """A label and its score."""

    label: Annotated[str, Doc("The label.")]
    score: Annotated[float, Doc("Its probability in [0, 1], or its value in the range of a regression.")]


class Scored(NamedTuple):
    """
    What wide files hold of N texts and K labels (aspects).

    Attributes:
        probabilities: (N, K) float32.
        decisions: (N, K) bool: whether a text gets the label; of aspects object: the label that it gets.
    """

    probabilities: np.ndarray
    decisions: np.ndarray

    @classmethod
    def of(cls, results: Sequence[Sequence[Label]], probabilities: np.ndarray, labels: Sequence[str]) -> "Scored":
        """The probabilities, and as decisions the labels of the results."""
        number_of = {label: number for number, label in enumerate(labels)}
        decisions = np.zeros(probabilities.shape, bool)
        for row, result in enumerate(results):
            decisions[row, [number_of[one["label"]] for one in result if one["label"] in number_of]] = True
        return cls(probabilities, decisions)


Answer = TypeVar("Answer")


class Results(list[Answer]):
    """The results of texts in their order, a list that is ready for JSON; None stands for a text that was skipped."""

    index: Any = None  # of the Series that the texts came in
    of_labels = False  # each result holds labels of the text itself, and not its turns, aspects or terms

    @classmethod
    def of(cls, results: Sequence[Answer], texts: Any, of_labels: bool = False) -> "Results[Answer]":
        found, index = cls(results), getattr(texts, "index", None)
        found.of_labels = of_labels
        if not callable(index):  # as that of a list, which finds an item
            found.index = index
        return found

    def to_frame(self, wide: bool = False) -> "pandas.DataFrame":
        """
        One row for each text (turn, aspect, term): "labels", "scores", other fields of labels, and with `all_scores` a column for each label.
        `wide`: instead the columns "probability_LABEL" and "decision_LABEL", as in wide files, which `summarize` reads; ValueError for results
        without `all_scores`.
        """
        import pandas

        found: list[Any] = list(self)
        if wide:
            known = [one for one in found if one is not None]
            if not all(isinstance(one, dict) and {"labels", "scores"} <= set(one) for one in known):
                raise ValueError(
                    "wide columns need each label's probability: call the predictor with `all_scores=True`."
                )
            chosen = [one and {label["label"] for label in one["labels"]} for one in found]
            names = list(known[0]["scores"]) if known else []
            columns = {f"probability_{name}": [one and one["scores"][name] for one in found] for name in names}
            columns |= {f"decision_{name}": [None if own is None else name in own for own in chosen] for name in names}
            return pandas.DataFrame(columns, index=self.index)
        rows: list[dict[str, Any]] = []
        numbers: list[int] = []
        parts = not self.of_labels and any(isinstance(result, list) and result for result in found)
        lists = [result["labels"] if isinstance(result, dict) else result for result in found]
        fields = next((tuple(labels[0]) for labels in lists if labels), ("label", "score"))
        for number, (result, labels) in enumerate(zip(found, lists, strict=True)):
            more: dict[str, Any] = {}
            if parts:
                rows += [{name: value for name, value in entry.items() if name != "scores"} for entry in result]
                numbers += [number] * len(result)
                continue
            if isinstance(result, dict):
                more = {name: value for name, value in result.items() if name not in ("labels", "scores")}
                more |= result["scores"]
            own = {f"{name}s": None if labels is None else [one[name] for one in labels] for name in fields}
            rows.append(own | more)
            numbers.append(number)
        return pandas.DataFrame(rows, index=numbers if self.index is None else self.index[numbers])


__all__ = ["Doc", "Label", "Readable", "Results", "Scored"]
