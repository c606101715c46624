# SPDX-License-Identifier: Apache-2.0
"""How many dialogues end worse than they began."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ...metrics.prediction_powered import jeffreys
from ...taxonomies import NEGATIVE
from .counting import FEW
from .reading import Rows


if TYPE_CHECKING:
    import pandas


MARGIN = 0.1  # of a probability: what is less counts as the same
MOST = 10  # speakers, and dialogues that are named
ALL = "(all turns)"


def endings(rows: Rows) -> dict[str, Any] | None:
    """
    "rows": of all turns, then of each speaker in several dialogues, the number of `dialogues` and the shares of them that end `worse` and `better`,
    with 95 % intervals. "worst": (dialogue, its change), the largest first. "notes": what that means, and where it may not hold. None for rows that
    are no dialogues of several turns, or that lack the probabilities of negative emotions.
    """
    negative = [name for name in rows.scores if name.casefold() in NEGATIVE] if rows.scores is not None else []
    if "dialogue" not in rows.table or rows.scores is None or rows.values or not negative:
        return None
    turns = rows.table.reindex(columns=["dialogue", "speaker"]).loc[rows.about.index].fillna("").astype(str)
    turns["negative"] = rows.scores[negative].sum(axis=1).clip(upper=1)
    turns = turns[turns["dialogue"] != ""]  # rows that name none are no dialogue together
    changes = {ALL: _changes(turns)}
    if changes[ALL].empty:
        return None
    changes |= {str(name): _changes(own) for name, own in turns[turns["speaker"] != ""].groupby("speaker")}
    several = sorted((name for name, found in changes.items() if len(found) > 1), key=lambda name: -len(changes[name]))
    whole = changes[ALL].sort_values(ascending=False, kind="stable")
    lengths = turns["dialogue"].value_counts()
    short = int((lengths[lengths > 1] < 6).sum())
    by_one_turn = f"In {short} of {len(whole)} dialogues a third is one turn: one turn decides. " if short else ""
    notes = [
        f"A dialogue ends worse if the probability of a negative emotion ({', '.join(negative)}) over the last third of its turns (at least one) is "
        f"more than {MARGIN} above that over the first third; better if it is as much below. Dialogues of one turn do not count. {by_one_turn}"
        "The intervals hold for dialogues drawn at random; they leave out the model's errors: read some of the dialogues."
    ]
    if len(whole) < FEW:
        notes.append(f"There are only {len(whole)} such dialogues: the intervals are wide.")
    return {
        "rows": [_row(name, changes[name]) for name in dict.fromkeys([ALL, *several[: MOST + 1]])],
        "worst": [(str(name), change) for name, change in whole[whole > MARGIN][:MOST].items()],
        "notes": notes,
    }


def _changes(turns: "pandas.DataFrame") -> "pandas.Series":
    """By dialogue, how much more probable a negative emotion is in the last third of the turns than in the first."""

    def change(own: "pandas.Series") -> float:
        third = max(1, len(own) // 3)
        return own[-third:].mean() - own[:third].mean() if len(own) > 1 else np.nan

    return turns.groupby("dialogue", sort=False)["negative"].agg(change).dropna()


def _row(speaker: str, changes: "pandas.Series") -> dict[str, Any]:
    row: dict[str, Any] = {"speaker": speaker, "dialogues": len(changes)}
    for name, hit in (("worse", changes > MARGIN), ("better", changes < -MARGIN)):
        low, high = jeffreys(hit.mean(), len(hit))
        row |= {name: float(hit.mean()), f"{name}_low": float(low), f"{name}_high": float(high)}
    return row
