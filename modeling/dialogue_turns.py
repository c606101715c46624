# SPDX-License-Identifier: Apache-2.0
"""Turns of dialogues as a model reads them. Needs neither torch nor transformers."""

import logging
import sys
from collections.abc import Sequence

from .readable import is_readable, normalized
from .usable_positions import usable_positions


logger = logging.getLogger(__name__)


def number_speakers(speakers: Sequence[str | None], limit: int) -> list[int]:
    """Number speakers by their first turn; speakers beyond the model's limit share the last number."""
    numbers: dict[str, int] = {}
    return [min(numbers.setdefault(_name(speaker), len(numbers)), limit - 1) for speaker in speakers]


def _name(speaker) -> str:
    """A speaker's name in the form that the training data has; "" for none."""
    return normalized("" if speaker is None else str(speaker))


def encoder_positions(config) -> int:
    """The most tokens of an utterance that a model takes: its encoder's positions; a BiLSTM over words has no limit."""
    return sys.maxsize if config.encoder_config is None else usable_positions(config.encoder_config)


def read_turn(turn, number: int) -> tuple[str | None, str]:
    """(speaker or None, utterance) of one turn."""
    speaker, utterance = None, turn
    if isinstance(turn, dict):
        speaker, utterance = turn.get("speaker"), turn.get("utterance")
    elif isinstance(turn, tuple) and len(turn) == 2:
        speaker, utterance = turn
    if not is_readable(utterance):
        raise ValueError(
            f"turn {number} must be (speaker, utterance), a dictionary with these keys, or an utterance, a string that is "
            f"not empty and holds no halves of characters; got {turn!r}."
        )
    return speaker, utterance


def warn_of_speakers(speakers: Sequence[str | None], limit: int) -> bool:
    """Whether some turns name no speaker; then also warn, for a model that tells speakers apart."""
    unnamed = sum(not _name(speaker) for speaker in speakers)
    if unnamed and len(speakers) > 1:
        logger.warning(
            "%d of %d turns name no speaker and count as one person's, and the model tells %d speakers apart (`num_speakers`): write "
            "(speaker, utterance)",
            *(unnamed, len(speakers), limit),
        )
    return unnamed > 0 and len(speakers) > 1


def refuse_turns(dialogues: Sequence) -> None:
    """
    ValueError for turns written as lists [speaker, utterance], as in JSON: each would be read as a dialogue of two
    utterances.
    """
    pairs = [item for item in dialogues if isinstance(item, list) and list(map(type, item)) == [str, str]]
    first = [item[0].strip() for item in pairs]
    names = all(0 < len(text.split()) <= 3 and text[-1] not in ".?!…" for text in first)
    again = len(set(first)) < len(first) or all(text[:1].isupper() for text in first)
    if 1 < len(pairs) == len(dialogues) and names and again:
        raise ValueError(
            f"{pairs[0]!r} and the others look like turns of one dialogue, and a list of lists holds several dialogues: write the turns as "
            "pairs (speaker, utterance). For dialogues of two utterances write {'utterance': ...} for each."
        )


__all__ = ["encoder_positions", "number_speakers", "read_turn", "refuse_turns", "warn_of_speakers"]
