# SPDX-License-Identifier: Apache-2.0
"""What `predict` prints about the emotions of a dialogue, and the page of the service."""

from collections.abc import Sequence
from functools import partial

from ...runtime.names import METHODS
from ..base import Answer, Page, Table
from .predictor import DialoguePredictor, speaker_and_utterance


MAX_TURNS = 100  # the heat map has a row and a column for each
EXAMPLES = (
    "Ana: I got the job!\nBen: No way! Congratulations!\nAna: It starts on Monday, and I still have to tell my boss.",
    "Kim: Where is my bike?\nLou: I lent it to Max.\nKim: Without asking me?\nLou: Sorry. I thought you were away.",
)


def answer(predictor: DialoguePredictor, lines: list[str], top_k: int | None = None) -> Answer:
    """Answer for lines that are the turns of one dialogue."""
    (turns,), unread = predictor.predict([[speaker_and_utterance(line) for line in lines]])
    cells = []
    for turn in turns:
        best = sorted(turn["scores"].items(), key=lambda item: -item[1])[: top_k or 1]
        cells.append([turn["speaker"] or "", turn["utterance"], ", ".join(f"{name} {p:.2f}" for name, p in best)])
    return Answer(turns, unread, [Table(["speaker", "utterance", "emotion"], cells)], cells)


def page(predictor: DialoguePredictor) -> Page:
    config = predictor.model.config
    method = METHODS[0] if config.num_attention_heads and not config.context_turns else "occlusion"
    box = "Dialogue, one turn per line: SPEAKER: UTTERANCE"
    return Page(
        box,
        EXAMPLES,
        partial(table, predictor),
        [method] if config.context_turns else METHODS,
        method,
        lines=4,
        read=turns,
    )


def table(predictor: DialoguePredictor, text: str, emotions: Sequence[str], seed: int | None) -> Table:
    """A row for each turn."""
    (items,), unread = predictor.predict_quietly([turns(text)])
    rows = [[item["speaker"] or "", item["label"], f"{item['score']:.3f}", item["utterance"]] for item in items]
    return Table(["speaker", "emotion", "probability", "utterance"], rows, unread.each())


def turns(text: str) -> list[tuple[str | None, str]]:
    """Speaker and utterance of each line."""
    found = [speaker_and_utterance(line) for line in text.splitlines() if line.strip()]
    if len(found) > MAX_TURNS:
        raise ValueError(f"The dialogue has {len(found)} turns, more than {MAX_TURNS}: shorten it.")
    return found
