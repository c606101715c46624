# SPDX-License-Identifier: Apache-2.0
"""
Typing errors in training texts (`augmentation` of a recipe). The generator is another one than that of benchmarks/typos.py, which measures
what they cost: other kinds of errors, at other places, in another number.
"""

import math
import random
import re
from bisect import bisect_right

import torch
from datasets import Dataset, Features, concatenate_datasets

from ..recipes import Recipe
from ..runtime.plain import text_processing


MOST_COPIES = 10
KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
NEIGHBOURS = {
    key: [KEYS[i][j] for i in range(3) for j in range(len(KEYS[i])) if 0 < abs(i - row) + abs(j - place) <= 1]
    for row, keys in enumerate(KEYS)
    for place, key in enumerate(keys)
}
# "[NAME]" is a word that GoEmotions puts for a name; it stays, and so do numbers.
_PARTS = re.compile(r"\[\w+\]|[^\W\d_]+|(?<=[^\W\d_])['’](?=[^\W\d_])")


def _wrong(word: str, draw: random.Random) -> str:
    """A word with one error, which is still one word."""
    i, kind = draw.randrange(len(word)), draw.choice(("swap", "drop", "double", "key", "stretch"))
    before, letter, after = word[:i], word[i], word[i + 1 :]
    if kind == "swap":
        return before + after[:1] + letter + after[1:]
    if kind == "drop":
        return before + after
    if kind == "key":
        return before + draw.choice(NEIGHBOURS.get(letter.lower(), [letter])) + after
    return before + letter * (2 if kind == "double" else draw.randint(3, 5)) + after


def misspell(text: str, share: float, draw: random.Random) -> tuple[str, list[int]]:
    """
    A copy of a text, a third of the copies in lower case, in which `share` of the words of three letters or more and half of the apostrophes are
    wrong; and the place in the text of each of its characters, for those of a word the word's beginning.
    """
    lower = draw.random() < 1 / 3
    found, places, end = "", [], 0
    for part in _PARTS.finditer(text):
        new = part[0].lower() if lower and part[0][0] != "[" else part[0]
        if new in "'’":
            new = draw.choice((new, ""))
        elif len(new) >= 3 and new[0] != "[" and draw.random() < share:
            new = _wrong(new, draw)
        found += text[end : part.start()] + new
        places += [*range(end, part.start()), *[part.start()] * len(new)]
        end = part.end()
    return found + text[end:], [*places, *range(end, len(text))]


def copies_for_epochs(recipe: Recipe, rows: Dataset) -> Dataset:
    """The training rows once for each epoch (at most `MOST_COPIES` times), one copy after the other, each with errors of its own."""
    options, seed = recipe.augmentation, torch.initial_seed()

    def one(text: str, words: list | None, tags: list | None, draw: random.Random) -> tuple:
        if draw.random() >= options["misspelt_texts"]:
            return text, words, tags
        new, places = misspell(text, options["misspelt_words"], draw)
        if words is None or tags is None:
            return new, None, None
        starts, moved = [start for start, _ in words], text_processing.term_words(new)
        return new, moved, [tags[bisect_right(starts, places[start]) - 1] for start, _ in moved]

    columns = ["text", "words", "labels"] if "words" in rows.column_names else ["text"]
    nothing = [None] * len(rows)
    values = [rows[name][:] if name in columns else nothing for name in ("text", "words", "labels")]

    def copy(epoch: int) -> Dataset:
        each = [
            one(text, words, tags, random.Random(f"{seed} {epoch} {number}"))
            for number, (text, words, tags) in enumerate(zip(*values, strict=True))
        ]
        made = Dataset.from_dict(
            dict(zip(columns, zip(*each, strict=True), strict=False)),
            features=Features({name: rows.features[name] for name in columns}),
        )
        return concatenate_datasets([rows.remove_columns(columns), made], axis=1).select_columns(rows.column_names)

    epochs = math.ceil(recipe.training_arguments.get("num_train_epochs", 3))
    return concatenate_datasets([copy(epoch) for epoch in range(min(MOST_COPIES, epochs))])
