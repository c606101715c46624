# SPDX-License-Identifier: Apache-2.0
"""The TF-IDF gate (Scientific Reports 15, s41598-025-99515-6): it chooses which words of a text a model reads, or how strongly.

`hf_emotion.tasks.emotion_classification.building` fits it; it is stored as JSON beside the weights, where pipelines find it.
"""

import json
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path


GATE_FILE = "tfidf_gate.json"

# Marks behind a character that choose its picture. By their category they would be parts of words.
_PICTURE_MARKS = {*map(chr, range(0xFE00, 0xFE10)), "\u20e3"}


def find_words(text: str) -> list[tuple[int, int, str]]:
    """
    (start, end, word) of each run of characters between blanks. The word is in lower case, NFC, without punctuation at its edges;
    a run of only punctuation or emojis is a word as it is.
    """
    found = []
    for match in re.finditer(r"\S+", text):
        word = unicodedata.normalize("NFC", match.group().lower())
        inner = [i for i, c in enumerate(word) if unicodedata.category(c)[0] in "LMN" and c not in _PICTURE_MARKS]
        found.append((*match.span(), word[inner[0] : inner[-1] + 1] if inner else word))
    return found


@dataclass(frozen=True)
class TfidfGate:
    """
    Attributes:
        idf: inverse document frequency of each word of the training texts, ln((1 + n) / (1 + df)) + 1 for n texts.
        unseen_idf: inverse document frequency of all other words, df = 0.
        threshold: words whose tf·idf (not normalised) lies below are removed; the article has 3.5.
        min_words: at least this many of a text's best words are kept in any case; the article has 4.
    """

    idf: dict[str, float]
    unseen_idf: float
    threshold: float = 3.5
    min_words: int = 4

    def scores(self, words: Sequence[str]) -> list[float]:
        """tf·idf of each word of one text."""
        counts = Counter(words)
        return [counts[word] * self.idf.get(word, self.unseen_idf) for word in words]

    def filter(self, text: str) -> str:
        """The text without its words of low tf·idf; a text of at most `min_words` words does not change."""
        words = find_words(text)
        if len(words) <= self.min_words:
            return text
        scores = self.scores([word for _, _, word in words])
        best = sorted(range(len(words)), key=lambda i: -scores[i])[: self.min_words]
        kept = {i for i, score in enumerate(scores) if score >= self.threshold}.union(best)
        return " ".join(text[start:end] for i, (start, end, _) in enumerate(words) if i in kept)

    def token_gates(self, text: str, offsets: Sequence[tuple[int, int]]) -> list[float]:
        """
        Factors for the word embeddings: tf·idf of a token's word, divided by the text's largest; 1 for tokens without characters
        (special tokens).

        Args:
            text: the text.
            offsets: (start, end) of each token in it.
        """
        words = find_words(text)
        scores = self.scores([word for _, _, word in words])
        largest = max(scores, default=1.0)
        gates, word = [], 0
        for start, end in offsets:
            if start == end or not words:
                gates.append(1.0)
                continue
            while word + 1 < len(words) and words[word][1] <= start:
                word += 1
            gates.append(scores[word] / largest)
        return gates

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n"

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the gate into a checkpoint's folder."""
        (Path(folder) / GATE_FILE).write_text(self.to_json(), encoding="utf-8")


def load_gate(config) -> TfidfGate | None:
    """
    Load the gate beside the weights of the model with this configuration; None for a model without TF-IDF gating.

    Raises:
        OSError: the checkpoint has no gate.
        ValueError: the file does not hold a gate.
    """
    if getattr(config, "tfidf_gating", "none") == "none":
        return None
    path = None
    if config._name_or_path and (Path(config._name_or_path) / GATE_FILE).is_file():
        path = Path(config._name_or_path) / GATE_FILE
    elif config._name_or_path:
        from transformers.utils import cached_file  # imported here, because the gate itself needs no transformers

        path = cached_file(
            config._name_or_path,
            GATE_FILE,
            revision=getattr(config, "_commit_hash", None),
            _raise_exceptions_for_missing_entries=False,
        )
    if path is None:
        raise OSError(
            f"the model gates its input by TF-IDF (`tfidf_gating={config.tfidf_gating!r}`), and {GATE_FILE} is not beside its "
            f"weights ({config._name_or_path or 'a model that was not loaded'}): copy it there from the run folder, or pass the "
            "gate as `gate`."
        )
    return _read_gate(Path(path))


def _read_gate(path: Path) -> TfidfGate:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        known = [field.name for field in fields(TfidfGate)]
        if not isinstance(values, dict) or not {"idf", "unseen_idf"} <= set(values) <= set(known):
            raise ValueError(f"it must hold an object with some of {known}, at least the first two")
        if not isinstance(values["idf"], dict):
            raise ValueError(f"`idf` must map words to numbers, got {type(values['idf']).__name__}")
        for name, number in {**values["idf"], "unseen_idf": values["unseen_idf"]}.items():
            if not _is_number(number) or number <= 0:
                raise ValueError(f"the idf of {name!r} must be a finite number above 0, got {number!r}")
        if not _is_number(values.get("threshold", 0)):
            raise ValueError(f"`threshold` must be a finite number, got {values['threshold']!r}")
        if type(values.get("min_words", 0)) is not int or values.get("min_words", 0) < 0:
            raise ValueError(f"`min_words` must be a whole number from 0, got {values['min_words']!r}")
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path} is not a TF-IDF gate: {error}. Copy {GATE_FILE} from the run folder anew."
        ) from error
    return TfidfGate(**values)


def _is_number(value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


__all__ = ["GATE_FILE", "TfidfGate", "find_words", "load_gate"]
