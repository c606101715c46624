# SPDX-License-Identifier: Apache-2.0
"""How many dialogues end worse than they began."""

from typing import Any

import numpy as np
from typing_extensions import TypedDict

from ...io.names import listed
from ...metrics.prediction_powered import jeffreys
from ...tasks import predicted_columns as written
from ...taxonomies import NEGATIVE
from .counting import FEW
from .reading import Rows


MARGIN = 0.1  # of a probability: what is less counts as the same
MOST = 10  # speakers, and dialogues that are named
ALL = "(all turns)"


class Endings(TypedDict):
    """
    `negative`: the labels that count. `rows`: of all turns, then of each speaker in several dialogues, the number of `dialogues`, the shares of them
    that end `worse` and `better`, with 95 % intervals, how many are `short` (a third is one turn) and how many are `left_out` (they have one turn).
    `worst`: dialogues that end worse, and their change.
    """

    negative: list[str]
    margin: float
    rows: list[dict[str, Any]]
    worst: list[tuple[str, float]]


def only_speaker(rows: Rows, speaker: str) -> None:
    """Leave out the turns of all others."""
    written.check_column(list(rows.table), "speaker")
    names = rows.table["speaker"].loc[rows.about.index].astype(str)
    kept = (names == speaker).to_numpy()
    if not kept.any():
        raise ValueError(f"no turn has the speaker {speaker!r}, only {listed(names.unique())}.")
    rows.chosen, rows.about = rows.chosen[kept], rows.about[kept]
    rows.scores = None if rows.scores is None else rows.scores[kept]


def endings(rows: Rows) -> Endings | None:
    """None for rows that are no dialogues, or that lack the probabilities of negative emotions."""
    negative = (
        [] if rows.scores is None or rows.values else [name for name in rows.scores if name.casefold() in NEGATIVE]
    )
    if "dialogue" not in rows.table or rows.scores is None or not negative:
        return None
    turns = rows.table.loc[rows.about.index, ["dialogue"]].astype(str)
    turns["negative"] = rows.scores[negative].sum(axis=1).clip(upper=1)
    turns["speaker"] = rows.table["speaker"].fillna("").astype(str) if "speaker" in rows.table else ""

    def change(own: np.ndarray) -> float:
        third = max(1, len(own) // 3)
        return float(own[-third:].mean() - own[:third].mean()) if len(own) > 1 else np.nan

    def of(speaker: str) -> tuple[dict[str, Any], dict[str, float]]:
        own = turns if speaker == ALL else turns[turns["speaker"] == speaker]
        groups = {name: part["negative"].to_numpy() for name, part in own.groupby("dialogue", sort=False)}
        changes = {str(name): found for name, part in groups.items() if (found := change(part)) == found}
        values, count = np.array([*changes.values()]), len(changes)
        about: dict[str, Any] = {"speaker": speaker, "dialogues": count, "left_out": len(groups) - count}
        about["short"] = sum(len(groups[name]) < 6 for name in changes)
        for name, hit in (("worse", values > MARGIN), ("better", values < -MARGIN)):
            share = float(hit.mean()) if count else np.nan
            low, high = jeffreys(share, count)
            about |= {name: share, f"{name}_low": float(low), f"{name}_high": float(high)}
        return about, changes

    whole, changes = of(ALL)
    in_dialogues = turns.groupby("speaker")["dialogue"].nunique().drop("", errors="ignore")
    if len(in_dialogues) == 1:  # the one that was asked for
        whole["speaker"] = str(in_dialogues.index[0])
        in_dialogues = in_dialogues[:0]
    several = in_dialogues[in_dialogues > 1].sort_values(ascending=False, kind="stable").index[:MOST]
    worst = sorted(((name, found) for name, found in changes.items() if found > MARGIN), key=lambda one: -one[1])[
        :MOST
    ]
    speakers = [of(str(name))[0] for name in several]
    return Endings(negative=negative, margin=MARGIN, rows=[whole, *speakers], worst=worst)


def endings_notes(found: Endings) -> list[str]:
    """What the shares mean, and where they may not hold."""
    whole = found["rows"][0]
    names = ", ".join(found["negative"])
    notes = [
        f"A dialogue ends worse if the probability of a negative emotion ({names}) over the last third of its turns (at least one) is more than "
        f"{found['margin']} above that over the first third; better if it is as much below. The intervals hold for dialogues drawn at random; they "
        "do not hold the model's errors: read some of the dialogues."
    ]
    if whole["dialogues"] < FEW:
        notes.append(f"There are only {whole['dialogues']} such dialogues: the intervals are wide.")
    if whole["short"]:
        notes.append(f"In {whole['short']} of {whole['dialogues']} dialogues a third is one turn: one turn decides.")
    if whole["left_out"]:
        notes.append(f"Dialogues left out: {whole['left_out']}, because they have only one turn.")
    return notes
