# SPDX-License-Identifier: Apache-2.0
"""
What a model cannot read of a text: its end, unknown words, another language; and texts unlike those that it was trained on. Needs neither
torch nor transformers.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain
from typing import Annotated, Any, NamedTuple, NotRequired

import numpy as np
from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12


logger = logging.getLogger(__name__)

# With MiniLM's tokenizer fewer than 0.5 % of GoEmotions' validation comments have a larger share of unknown letters.
LARGE_SHARE = 0.3
FRAGMENT = 3  # letters
MULTILINGUAL = 100_000  # pieces: BERT and RoBERTa for English have 30,000 to 50,000, encoders of many languages 120,000 to 256,000


class Counts(NamedTuple):
    """How many texts are cut, hold much that is unknown, are in another language, are unlike the training texts, and how many there are."""

    truncated: int = 0
    unknown: int = 0
    foreign: int = 0
    unlike: int = 0
    total: int = 0

    @classmethod
    def added(cls, parts: Iterable["Counts"]) -> "Counts":
        """The counts of several parts together."""
        return cls(*map(sum, zip(cls(), *parts, strict=True)))


class Doc(str):
    """What a field of a result means: `Annotated[type, Doc("...")]`. Types inherit it, and the schemas of pydantic hold it."""

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        return handler(core_schema) | {"description": str(self)}


class Readable(TypedDict):
    """How much of a text the model could read."""

    truncated: Annotated[bool, Doc("Whether the text was cut: the model has not read all of it.")]
    unknown: Annotated[float, Doc("Share of the text that the tokenizer does not know, in [0, 1].")]
    language: Annotated[
        str | None, Doc("ISO 639-1 code of the language that the text is probably in, if the model does not read it.")
    ]
    unlike: NotRequired[
        Annotated[
            bool, Doc("Whether the text is unlike those that the model was trained on; only of models that can tell.")
        ]
    ]


class Unread(NamedTuple):
    """
    What a model cannot read of N texts.

    Attributes:
        truncated: (N,) bool, whether a part is cut: the end, or of a context that a reply answers the beginning.
        unknown: (N,) float64, the share in [0, 1] that `unknown_shares` gives.
        language: (N,) object, the ISO 639-1 code of the language that a text is probably in, if the model does not read it; else None.
        unlike: (N,) object, whether a text is unlike the training texts; None of models that cannot tell.
    """

    truncated: np.ndarray
    unknown: np.ndarray
    language: np.ndarray
    unlike: np.ndarray

    @classmethod
    def nothing(cls, count: int) -> "Unread":
        """The value for texts that are read whole."""
        return cls(np.zeros(count, bool), np.zeros(count), *(np.full(count, None, object) for _ in range(2)))

    @property
    def counts(self) -> Counts:
        unknown = self.unknown > LARGE_SHARE
        of_each = (self.truncated, unknown, self.language, self.unlike)
        cut, strange, foreign, unlike = (int(np.count_nonzero(values)) for values in of_each)
        return Counts(cut, strange, foreign, unlike, len(unknown))

    def take(self, rows: Sequence[int] | np.ndarray) -> "Unread":
        """The values of these texts."""
        return Unread(*(values[rows] for values in self))

    def put(self, rows: slice | Sequence[int] | np.ndarray, other: "Unread") -> None:
        """Set the values of these texts."""
        for values, new in zip(self, other, strict=True):
            values[rows] = new

    def each(self) -> list[Readable]:
        """For each text its values, ready for JSON."""
        *rows, unlike = (values.tolist() for values in self)
        found = [Readable(truncated=cut, unknown=share, language=code) for cut, share, code in zip(*rows, strict=True)]
        for one, told in zip(found, unlike, strict=True):
            if told is not None:
                one["unlike"] = told
        return found


COLUMNS = Unread._fields[:3]  # which every model can tell


def unknown_shares(tokenizer: Any, texts: Sequence[str], encoded: Any) -> np.ndarray:
    """
    For each text the share of its letters, (N,) float64 with four digits, that are in words which the tokenizer does not know. Such a word
    - becomes the unknown token,
    - or has more pieces than characters, as bytes of emoji and of other scripts do,
    - or falls into fragments: several pieces with letters, of at most `FRAGMENT` letters on average. A Han, kana or Hangul
      character carries as much as that many letters, so only pieces of one character are fragments. The longest fragmented
      word does not count: a name or a typing error is not another language. A tokenizer of many languages (`MULTILINGUAL`) knows
      its fragments, so there this does not count.

    U+FFFD, which a text read in the wrong encoding is full of, and characters for private use count as unknown where the tokenizer
    drops them. Letters are a to z and all characters beyond ASCII, emoji too. For tokenizers that are not fast it is the share of unknown
    tokens. `encoded`: what the tokenizer gives for the texts, or for pairs that begin with them, without cutting.
    """
    count, encodings = len(texts), encoded.encodings
    if encodings is None:
        ids = encoded["input_ids"]
        return np.array([row.count(tokenizer.unk_token_id) / max(1, len(row)) for row in ids]).round(4)
    of_all = lambda name: list(chain.from_iterable(getattr(encoding, name) for encoding in encodings))  # noqa: E731
    # One entry for each token.
    rows = np.repeat(np.arange(count), [len(encoding) for encoding in encodings])
    words = np.array(of_all("word_ids"), dtype=np.float64)  # NaN for special tokens
    in_text = ~np.isnan(words)
    if encodings and encodings[0].n_sequences > 1:
        in_text &= np.array(of_all("sequence_ids"), dtype=np.float64) == 0
    # Characters of all texts, one text after the other.
    start = np.cumsum([0, *map(len, texts)])
    codes = np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32)
    damaged_before = np.cumsum(np.r_[0, (codes == 0xFFFD) | (codes >= 0xE000) & (codes <= 0xF8FF)])
    damaged = np.diff(damaged_before[start])
    if not in_text.any():
        return (damaged > 0).astype(np.float64)
    rows, words = rows[in_text], words[in_text]
    unknown = np.array(of_all("ids"))[in_text] == tokenizer.unk_token_id
    spans = np.array(of_all("offsets"))[in_text] + start[rows, None]
    shown = np.bincount(rows, damaged_before[spans[:, 1]] - damaged_before[spans[:, 0]], count)
    damaged = np.maximum(damaged - shown, 0)  # bytes of one character share its span
    is_letter = (codes > 127) | (codes >= 65) & (codes <= 90) | (codes >= 97) & (codes <= 122)
    letters_before = np.cumsum(np.r_[0, is_letter])
    dense = (codes >= 0x3040) & (codes <= 0x9FFF)  # kana and Han
    dense |= (codes >= 0xAC00) & (codes <= 0xD7FF) | (codes >= 0x20000) & (codes <= 0x3FFFF)  # Hangul, rare Han
    size_before = np.cumsum(np.r_[0, is_letter + (FRAGMENT - 1) * dense])
    # One entry for each word.
    first = np.flatnonzero(np.r_[True, (np.diff(rows) != 0) | (np.diff(words) != 0)])
    pieces = np.diff(np.r_[first, len(rows)])
    last = first + pieces - 1
    row, begin, end = rows[first], spans[first, 0], spans[last, 1]
    letters = letters_before[end] - letters_before[begin]
    lost = np.logical_or.reduceat(unknown, first) | (pieces > end - begin)
    # SentencePiece gives a word the punctuation that follows it: only pieces with letters are fragments.
    fragments = np.add.reduceat(letters_before[spans[:, 1]] > letters_before[spans[:, 0]], first)
    broken = ~lost & (fragments > 1) & (size_before[end] - size_before[begin] <= FRAGMENT * fragments)
    broken &= len(tokenizer) < MULTILINGUAL
    free = np.zeros(count)
    np.maximum.at(free, row, letters * broken)
    total = np.bincount(row, letters, count) + damaged
    lost_letters = np.bincount(row, letters * (lost | broken), count) - free + damaged
    return (lost_letters / np.maximum(total, 1)).round(4)


def are_unlike(scores: np.ndarray, ids: Sequence[Sequence[int]], documents: Iterable[int]) -> np.ndarray:
    """
    (N,) object: whether the mean of `scores` (vocabulary,) over a text's tokens is negative. `ids`: the tokens of W rows; `documents` (W,): the
    number of each row's text, from 0 without gaps.
    """
    text_of = np.repeat(np.asarray(documents), [len(row) for row in ids])
    sums = np.bincount(text_of, scores[np.fromiter(chain.from_iterable(ids), np.int64)])
    return (sums < 0).astype(object)


_said: ContextVar[set[str] | None] = ContextVar("said", default=None)


@contextmanager
def said_once() -> Iterator[None]:
    """In this block, and in those within it, each kind of warning comes once: a training reads the same texts for each seed."""
    token = _said.set(set() if _said.get() is None else _said.get())
    try:
        yield
    finally:
        _said.reset(token)


def is_new(kind: str, of: Any = None) -> bool:
    """
    Whether to give a kind of warning: always, but within `said_once`, or for one object `of` (a predictor that is called text by text), only
    the first time.
    """
    said = _said.get()
    if said is None:
        if of is None:
            return True
        said = vars(of).setdefault("_warned", set())
    new = kind not in said
    said.add(kind)
    return new


def warn_unknown(unknown: int, total: int, what: str = "texts", of: Any = None) -> None:
    """Warn once for all texts with a share above `LARGE_SHARE`, with their number; `of`: see `is_new`."""
    if unknown and is_new("unknown", of):
        logger.warning(
            "%d of %d %s have over %d %% of their letters in words that the tokenizer does not know: the results for them mean little; "
            "use a model whose encoder reads that language",
            *(unknown, total, what, round(100 * LARGE_SHARE)),
        )


def warn_unread(
    counts: Counts, limit: str, languages: Sequence[str] = (), what: str = "texts", of: Any = None, other: str = ""
) -> None:
    """
    Warn, with numbers, of texts that were cut to `limit`, hold much that is unknown, are in none of the model's `languages`, or are unlike its
    training texts. For one text the predictor `of` warns only the first time. `other`: what names a model that reads more languages.
    """
    of = of if counts.total == 1 else None
    if counts.truncated and is_new("cut", of):
        logger.warning("%d of %d %s are longer than %s and were cut", counts.truncated, counts.total, what, limit)
    warn_unknown(counts.unknown, counts.total, what, of)
    if counts.foreign and is_new("language", of):
        logger.warning(
            "%d of %d %s are probably not in the model's languages (%s): the results for them mean little; translate them, or use a model "
            "that reads their language%s",
            *(counts.foreign, counts.total, what, ", ".join(languages), other),
        )
    if counts.unlike and is_new("unlike", of):
        logger.warning(
            "%d of %d %s are unlike the texts that the model was trained on: the results for them mean little",
            *(counts.unlike, counts.total, what),
        )
