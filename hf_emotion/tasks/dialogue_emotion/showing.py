# SPDX-License-Identifier: Apache-2.0
"""What `predict` prints about the emotions of a dialogue."""

from ..base import Answer, Table
from .predictor import DialoguePredictor, speaker_and_utterance


def answer(predictor: DialoguePredictor, lines: list[str], top_k: int | None = None) -> Answer:
    """Answer for lines that are the turns of one dialogue."""
    (turns,), unread = predictor.predict([[speaker_and_utterance(line) for line in lines]])
    cells = []
    for turn in turns:
        best = sorted(turn["scores"].items(), key=lambda item: -item[1])[: top_k or 1]
        cells.append([turn["speaker"] or "", turn["utterance"], ", ".join(f"{name} {p:.2f}" for name, p in best)])
    return Answer(turns, unread, [Table(["speaker", "utterance", "emotion"], cells)], cells)
