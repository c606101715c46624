# SPDX-License-Identifier: Apache-2.0
"""The columns that predictions add to files: what writes them and what reads them again, also after other programs saved them."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, get_type_hints

import numpy as np

from ..runtime.plain import text_processing
from ..runtime.unread import COLUMNS, Readable


if TYPE_CHECKING:
    import pandas
    import pyarrow


# The columns that predictions add to files. Many files have a column `language` of their own.
UNREAD = tuple("predicted_language" if name == "language" else name for name in COLUMNS)
UNLIKE = "unlike"  # of a model that can tell
LABELS, SCORES, ALL_SCORES = "predicted_labels", "predicted_scores", "all_scores"
PLACES = ("predicted_terms", "predicted_starts", "predicted_ends")  # where what is found has a place in the text
ROW = "source_row"  # beside them: the number of the text's row in the input, from 1
PROBABILITY, DECISION, VALUE = "probability_", "decision_", "value_"  # before a label, in wide files
TERMS, TRUNCATED, UNKNOWN, LANGUAGE = PLACES[0], *UNREAD
CSV_SEPARATOR = "|"
Predicted: TypeAlias = "tuple[pandas.DataFrame, pandas.DataFrame | None]"  # chosen labels and scores, see `read`
MOST_TERMS = 50  # that are read
BETWEEN = "\0"  # stands between the labels of a row: a label may hold the "|" of CSV files
# Spreadsheets write true and false in the language of their user.
YES = "true 1 1.0 yes wahr ja vrai oui verdadero verdadeiro vero waar prawda pravda sant sand sann tosi igaz doğru истина".split()
NO = "false 0 0.0 no falsch nein faux non falso onwaar fałsz nepravda falskt falsk usann epätosi hamis yanliş ложь".split()
EMPTY = ["", "nan"]


@dataclass(frozen=True)
class Added:
    """
    The columns that predictions add.

    Attributes:
        prefix: stands before their names in the output.
        wide: the labels (aspects) with a column of probability and one of decision each; None: joined cells.
        decision: "bool" (a label: yes or no), "string" (an aspect: its label), or None (the values of a regression: one column each).
        scores: the labels in the column `all_scores`; None: no such column.
        nested: whether a row has one prediction for each of its turns.
        places: whether there is a row for each find, with its place in the text.
        unlike: whether there is a column for texts unlike the training texts.
    """

    prefix: str = ""
    wide: tuple[str, ...] | None = None
    decision: str | None = "bool"
    scores: tuple[str, ...] | None = None
    nested: bool = False
    places: bool = False
    unlike: bool = False

    @property
    def of_labels(self) -> "list[tuple[str, pyarrow.DataType]]":
        """The columns without those of `Unread`, and their types."""
        import pyarrow

        score = pyarrow.float32()
        if self.wide is not None:
            kinds = {VALUE: score}
            if self.decision is not None:
                kinds = {PROBABILITY: score, DECISION: pyarrow.type_for_alias(self.decision)}
            return [(begin + name, kind) for begin, kind in kinds.items() for name in self.wide]
        columns = [(LABELS, pyarrow.list_(pyarrow.string())), (SCORES, pyarrow.list_(score))]
        if self.scores is not None:
            columns.append((ALL_SCORES, pyarrow.struct([(name, score) for name in self.scores])))
        return columns

    @cached_property
    def schema(self) -> "pyarrow.Schema":
        """One value per row, or with `nested` one per turn."""
        import pyarrow

        kinds = {bool: pyarrow.bool_(), int: pyarrow.int64(), float: pyarrow.float64()}
        read = get_type_hints(Readable)
        unread = [kinds.get(read[name], pyarrow.string()) for name in COLUMNS]
        if self.nested:
            unread = [pyarrow.list_(kind) for kind in unread]
        found = pyarrow.list_(pyarrow.string()), *[pyarrow.list_(pyarrow.int64())] * 2
        places = zip(PLACES, found, strict=True) if self.places else ()
        unlike = [(UNLIKE, pyarrow.bool_())] if self.unlike else []
        return pyarrow.schema([*self.of_labels, *zip(UNREAD, unread, strict=True), *unlike, *places])

    @cached_property  # each row is asked for them
    def names(self) -> list[str]:
        """The names of the predictions in the output."""
        return [self.prefix + name for name in self.schema.names]

    @cached_property
    def written(self) -> list[str]:
        """All new columns of the output."""
        return [self.prefix + ROW] * self.places + self.names


def csv_cell(value: Any) -> Any:
    """What a CSV holds of a prediction."""
    if isinstance(value, list):
        return CSV_SEPARATOR.join(str(csv_cell(one)) for one in value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return {name: None if score is None else round(score, 4) for name, score in value.items()}
    return "" if value is None else f"{value:.4f}" if isinstance(value, float) else value


def own_columns(columns: Sequence[Any]) -> list[str]:
    """The columns that no prediction added, for messages."""
    return [name for name in map(str, columns) if not re.search("(probability|decision|predicted)_", name)]


def check_column(columns: Sequence[Any], name: str) -> None:
    """ValueError if there is no such column."""
    if name not in columns:
        raise ValueError(f"no column {name!r}; the columns are {own_columns(columns)}.")


def form_of(columns: Sequence[Any], prefix: str) -> str:
    """How the columns of predictions begin: `DECISION`, `LABELS` or `VALUE`; "" if there are none."""
    for begin in (DECISION, LABELS, VALUE):
        own = begin == VALUE and prefix + TRUNCATED not in columns  # a column `value_...` of the file itself
        if not own and any(str(name).startswith(prefix + begin) for name in columns):
            return begin
    return ""


def of_predictions(columns: Sequence[str], prefix: str) -> list[str]:
    """Those of the columns that a prediction added; none in a table without predictions."""
    if not (form := form_of(columns, prefix)):
        return []
    names = {LABELS, SCORES, ALL_SCORES, ROW, *UNREAD, UNLIKE, *PLACES} - (
        {LABELS, SCORES} if form != LABELS else set()
    )
    begins = (prefix + PROBABILITY, prefix + form) if form != LABELS else ()
    return [name for name in columns if name.removeprefix(prefix) in names or name.startswith(begins)]


def read(frame: "pandas.DataFrame", prefix: str) -> Predicted:
    """
    The predictions of the N rows that have one: (N, C) bool, whether a label is chosen (all values of a regression are), and (N, C) float64,
    its score; None where only the chosen labels are known. An aspect or term has a label for each of its sentiments.
    """

    def part(begin: str) -> "pandas.DataFrame":
        begin = prefix + begin
        names = [name for name in map(str, frame) if name.startswith(begin)]
        return frame[names].rename(columns=lambda name: name.removeprefix(begin))

    form = form_of(list(frame), prefix)
    if form == LABELS:
        return _joined(frame, prefix)
    if form == DECISION:
        return _wide(part(DECISION), part(PROBABILITY))
    scores = _numbers(part(VALUE)).dropna()
    return scores.notna(), scores


def _numbers(cells: "pandas.DataFrame") -> "pandas.DataFrame":
    """The cells as float64; those with a decimal comma, too, which spreadsheets write."""
    import pandas

    def numbers(own: "pandas.Series") -> "pandas.Series":
        texts = own
        if own.dtype.kind not in "biuf":
            texts = own.map(lambda cell: cell.replace(",", ".") if isinstance(cell, str) else cell)
        found = pandas.to_numeric(texts, errors="coerce").astype(float)
        if (bad := found.isna() & own.notna()).any():
            raise ValueError(
                f"the predicted {own.name!r} is not a number in row {bad.idxmax() + 1}: {own[bad.idxmax()]!r}."
            )
        return found

    return cells.apply(numbers)


def _wide(decisions: "pandas.DataFrame", scores: "pandas.DataFrame") -> Predicted:
    import pandas

    cells: dict[str, tuple[np.ndarray, list[str]]] = {}  # the number of each cell's word, and the words
    for name, own in decisions.items():
        codes, distinct = own.factorize()
        cells[str(name)] = codes, [*(str(word).lower() for word in distinct), ""]  # the last: no cell

    def among(words: list[str]) -> "pandas.DataFrame":
        marked = {name: np.isin(own, words)[codes] for name, (codes, own) in cells.items()}
        return pandas.DataFrame(marked, decisions.index)

    rows = ~among(EMPTY).all(axis=1)
    if all({*own} <= {*YES, *NO, *EMPTY} for _, own in cells.values()):
        known = set(cells) <= set(scores)  # somebody may have left these columns out
        return among(YES)[rows], _numbers(scores.loc[rows, list(cells)]) if known else None
    words = {name: np.array(own, object)[codes] for name, (codes, own) in cells.items()}
    words |= decisions.select_dtypes(bool)  # stay labels
    pairs = pandas.get_dummies(pandas.DataFrame(words, decisions.index)[rows], prefix_sep="/", dtype=bool)
    return pairs[[name for name in pairs if not name.endswith(("/none", "/nan", "/"))]], None


def _joined(frame: "pandas.DataFrame", prefix: str) -> Predicted:
    import pandas

    def labels(cell: Any, between: str = BETWEEN) -> str:
        if isinstance(cell, str):
            return cell.replace(between, BETWEEN)
        if not hasattr(cell, "__iter__"):  # None, NaN
            return ""
        if any(not isinstance(label, str) for label in cell):
            raise ValueError("the rows hold whole dialogues: predict a file with one row for each turn.")
        return BETWEEN.join(cell)

    if prefix + TRUNCATED in frame:  # it is empty in rows without a prediction
        frame = frame[~frame[prefix + TRUNCATED].astype(str).str.lower().fillna("").isin(["", "nan", "none", "<na>"])]
    if prefix + TERMS in frame:  # a row for each term, or for a text without a term
        check_column(list(frame), prefix + ROW)
        own = frame[prefix + LABELS].map(labels)
        cells = (frame[prefix + TERMS].map(labels).str.lower() + "/" + own).where(own != "", "")
        once = cells[(cells != "") & ~frame[[prefix + ROW]].assign(pair=cells).duplicated()]
        cells = cells.where(cells.isin(once.value_counts().index[:MOST_TERMS]), "")
    else:
        cells = frame[prefix + LABELS].map(lambda cell: labels(cell, CSV_SEPARATOR))
    if prefix + TRUNCATED not in frame:
        cells = cells[cells != ""]
    codes, distinct = pandas.factorize(cells)
    if len(distinct) == 1 < len(cells) and BETWEEN in distinct[0]:
        raise ValueError(
            "all rows have the same labels (values of a regression, or all labels by `top_k`): predict with --columns wide."
        )
    table = pandas.Series(distinct, dtype=object).str.get_dummies(BETWEEN).astype(bool)
    table = table.drop(columns=["", text_processing.ABSTAINED], errors="ignore")
    if prefix + TERMS in frame and prefix + SCORES in frame:  # of equally frequent ones the surer come first
        sure = pandas.to_numeric(frame[prefix + SCORES].explode(), errors="coerce").groupby(cells).mean()
        table = table[sorted(table, key=lambda pair: -sure[pair])]
    chosen, scores = table.iloc[codes].set_axis(cells.index), None
    if prefix + ALL_SCORES in frame:
        objects = [json.loads(cell) if isinstance(cell, str) else cell for cell in frame[prefix + ALL_SCORES]]
        scores = pandas.DataFrame(objects, cells.index, dtype=float)
        chosen = chosen.reindex(columns=scores.columns, fill_value=False)
    return chosen, scores
