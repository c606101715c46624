# SPDX-License-Identifier: Apache-2.0
"""Typing errors in training texts, so that a model reads misspelt words."""

from __future__ import annotations

import itertools
import random
import re
from typing import Any

from ..io.lazily import datasets


# "[NAME]" is a word that GoEmotions puts for a name; it stays.
_WORD = re.compile(r"\[\w+\]|\w+(?:['’]\w+)*")
SHARE_OF_WORDS = 0.15


def misspell(text: str, share: float, draw: random.Random) -> str:
    """
    A copy of a text in which `share` of the words on average (at most those of three letters or more) have one error: two letters swapped, one
    dropped, doubled or repeated twice, or the apostrophe dropped. The first letter stays, and so does all that lies between words. (textnoisr
    changes any character, blanks too, and nlpaug splits "can't" and takes blanks away: neither keeps to words.)
    """
    words = list(_WORD.finditer(text))
    long = [word for word in words if len(letters := re.sub("['’]", "", word[0])) >= 3 and letters.isalpha()]
    chosen = draw.sample(long, min(len(long), int(share * len(words) + draw.random())))
    for found in sorted(chosen, key=lambda word: word.start(), reverse=True):
        word, places = found[0], range(1, len(found[0]))
        kinds = [
            [word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in places[:-1]],
            [word[:i] + word[i + 1 :] for i in places],
            *(
                [word[: i + 1] + word[i] * more + word[i + 1 :] for i in places if word[i].isalpha()]
                for more in (1, 2)
            ),
            *([re.sub("['’]", "", word)] for mark in "'’" if mark in word),
        ]
        wrong = draw.choice([kept for kind in kinds if (kept := [one for one in kind if one != word])])
        text = text[: found.start()] + draw.choice(wrong) + text[found.end() :]
    return text


def misspell_rows(rows: datasets.Dataset, share: float) -> datasets.Dataset:
    """
    The rows, a `share` of them with typing errors in 0.15 of their words, and half of these in lower case. A row's id decides (rows of
    aspects: the text), so each seed of a training reads the same ones. `words`, [start, end] of each, move with their letters.
    """
    return rows.map(
        lambda row: _misspelt(row, share), features=rows.features, load_from_cache_file=False, desc="misspelling"
    )


def _misspelt(row: dict[str, Any], share: float) -> dict[str, Any]:
    draw = random.Random(row["text" if "context_id" in row else "id"])
    if draw.random() >= share:
        return {}
    lower, found = draw.random() < 0.5, misspell_row(row, SHARE_OF_WORDS, draw)
    text = found["text"].lower()
    return found | {"text": text} if lower and ("words" not in found or len(text) == len(found["text"])) else found


def misspell_row(row: dict[str, Any], share_of_words: float, draw: random.Random) -> dict[str, Any]:
    """`text` and, where the row has them, `words` with errors."""
    if "words" not in row:
        return {"text": misspell(row["text"], share_of_words, draw)}
    borders = [0, *itertools.chain(*row["words"]), len(row["text"])]
    pieces = [misspell(row["text"][a:b], share_of_words, draw) for a, b in itertools.pairwise(borders)]
    ends = [*itertools.accumulate(map(len, pieces))]
    return {"text": "".join(pieces), "words": [[ends[2 * i], ends[2 * i + 1]] for i in range(len(row["words"]))]}
