# SPDX-License-Identifier: Apache-2.0
"""The columns of a table that people fill in: what `sample` writes, and `label` and `summarize` read."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..data.own_files import check_different, folded, name_of
from ..io.names import did_you_mean
from .predicted_columns import CSV_SEPARATOR, NO, YES


NUMBER = "row"  # the row's number in the table that it was drawn from, from 0
WEIGHT = "weight"  # 1 / the probability that it was drawn
LABEL, EACH = "label", "label:"  # one column with the labels, or one with 0 or 1 for each label
CHOICES = "choices"  # beside LABEL: the labels to choose from
CANNOT_TELL, NONE = "?", "none"
Answer: TypeAlias = list[str] | str | None  # the labels; CANNOT_TELL; None: nobody has answered yet


def check_labels(labels: Sequence[str]) -> None:
    """ValueError for names that the columns cannot hold."""
    check_different("labels", labels)
    for name in labels:
        if name in ("", CANNOT_TELL) or CSV_SEPARATOR in name:
            raise ValueError(
                f"no label can be called {name!r}: `{CSV_SEPARATOR}` stands between labels, `?` for cannot tell."
            )


@dataclass(frozen=True)
class LabelColumns:
    """
    The columns with the answers of a table.

    Attributes:
        labels: the labels to choose from; none: any.
        each: whether each label has a column.
    """

    labels: Sequence[str]
    each: bool = False
    known: dict[str, str] = field(init=False)  # by its folded form

    def __post_init__(self) -> None:
        check_labels(self.labels)
        object.__setattr__(self, "known", {folded(name): name for name in self.labels})

    @classmethod
    def of(cls, columns: Sequence[str], labels: Sequence[str]) -> "LabelColumns":
        """Those of a table; ValueError if it has none."""
        if each := [name.removeprefix(EACH) for name in columns if name.startswith(EACH)]:
            return cls(each, each=True)
        if LABEL not in columns:
            raise ValueError(f"no column {LABEL!r}: `hf-emotion sample` makes a table with one, or add it, empty.")
        return cls(labels)

    @property
    def names(self) -> list[str]:
        return [EACH + name for name in self.labels] if self.each else [LABEL]

    @property
    def nothing(self) -> str:
        """What the answer is called that none of the labels fits."""
        return next((self.known[name] for name in ("neutral", NONE) if name in self.known), NONE)

    def read(self, row: dict[str, Any]) -> Answer:
        """The answer in a row; ValueError for a word that is none."""
        cells = [name_of(row.get(name)) for name in self.names]
        if "" in cells or CANNOT_TELL in cells:
            return CANNOT_TELL if CANNOT_TELL in cells else None
        if self.each:
            words = [cell.lower() for cell in cells]
            for name, word in zip(self.names, words, strict=True):
                if word not in (*YES, *NO):
                    raise ValueError(f"the column {name!r} takes 0, 1 or ?, not {word!r}.")
            return [name for name, word in zip(self.labels, words, strict=True) if word in YES]
        if folded(cells[0]) == NONE and NONE not in self.known:
            return []
        return [self.named(word) for word in cells[0].split(CSV_SEPARATOR)]

    def read_all(self, rows: Iterable[tuple[str, dict[str, Any]]]) -> list[Answer]:
        """The answers of rows that each have the name of their place, with which an error begins."""
        answers = []
        for place, row in rows:
            try:
                answers.append(self.read(row))
            except ValueError as error:
                raise ValueError(f"{place}: {error}") from error
        return answers

    def named(self, word: str) -> str:
        """The label that somebody wrote; ValueError if there is none."""
        if not self.labels:
            return word.strip()
        if (name := self.known.get(folded(word))) is None:
            raise ValueError(
                f"{word!r} is not a label.{did_you_mean(folded(word), self.known)} The labels are {list(self.labels)}; "
                f"`{CSV_SEPARATOR}` stands between several, `{CANNOT_TELL}` for cannot tell."
            )
        return name

    def cells(self, answer: Answer) -> dict[str, str]:
        """The cells that say it."""
        if answer is None or isinstance(answer, str):
            return dict.fromkeys(self.names, answer or "")
        if self.each:
            return {EACH + name: str(int(name in answer)) for name in self.labels}
        return {LABEL: CSV_SEPARATOR.join(answer) or NONE}
