# SPDX-License-Identifier: Apache-2.0
"""Turns of dialogues as a model reads them. Needs neither torch nor transformers."""

import sys
from collections.abc import Sequence

from .readable import is_readable
from .usable_positions import usable_positions


def number_speakers(speakers: Sequence[str | None], limit: int) -> list[int]:
    """Speakers numbered by their first turn; those beyond the model's number share the last one."""
    numbers: dict[str | None, int] = {}
    return [min(numbers.setdefault(speaker, len(numbers)), limit - 1) for speaker in speakers]


def encoder_positions(config) -> int:
    """Tokens of an utterance that a model takes: the positions of its encoder; a BiLSTM over words has no limit."""
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
            f"turn {number} must be (speaker, utterance), a dictionary with these keys, or an utterance, which is a string "
            f"that is not empty and holds no halves of characters; got {turn!r}."
        )
    return speaker, utterance


__all__ = ["encoder_positions", "number_speakers", "read_turn"]
