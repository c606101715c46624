# SPDX-License-Identifier: Apache-2.0
"""What `predict` prints about the emotions of a dialogue, and the page of the service."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import cycle
from string import ascii_letters, digits
from typing import Any

from ...runtime.names import METHODS
from ..base import Answer, Marked, Page, Table
from .predictor import DialoguePredictor, speaker_and_utterance


MAX_TURNS = 100  # the heat map has a row and a column for each
TURNS_IN_LINE = 60
NO_NAME = "(no name)"
# Black letters have a contrast above 7 on each; the first is that of neutral.
COLOURS = ("#c8ccd2", "#f4c95d", "#7fd4d0", "#8fb8ec", "#c9a3e0", "#f3b9a4", "#f0906a", "#a5c882")
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
    methods = [method] if config.context_turns else METHODS
    return Page(box, EXAMPLES, partial(table, predictor), methods, method, lines=4, read=turns)


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


def signs(labels: Sequence[str]) -> dict[str, tuple[str, str]]:
    """A letter and a colour for each label: its first letter that is free in the order of the alphabet, as in fear F, frustration R."""
    letters: dict[str, str] = {}
    for label in sorted(labels):
        taken = letters.values()
        free = (one for one in f"{label}{ascii_letters}{digits}".upper() if one.isalnum() and one not in taken)
        letters[label] = "-" if label == "neutral" else next(free, "?")
    colours = dict(zip((label for label in labels if label != "neutral"), cycle(COLOURS[1:]), strict=False))
    return {label: (letters[label], colours.get(label, COLOURS[0])) for label in labels}


def strips(turns: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> list[str | Marked]:
    """A line of letters for each speaker, a column for each turn, coloured by the emotion; below them what the letters mean."""
    from rich.cells import cell_len, set_cell_size

    sign, speakers = signs(labels), list(dict.fromkeys(turn["speaker"] or NO_NAME for turn in turns))
    width = min(max(map(cell_len, ["turn", *speakers])), 20)
    parts: list[str | Marked] = []
    for start in range(0, len(turns), TURNS_IN_LINE):
        own = turns[start : start + TURNS_IN_LINE]
        numbers = "".join(f"{start + i + 1:<10}" for i in range(0, len(own), 10))
        parts.append(f"{'turn':<{width}}  {numbers}".rstrip())
        for speaker in speakers:
            row, marks = set_cell_size(speaker, width) + "  ", []
            for turn in own:
                says = (turn["speaker"] or NO_NAME) == speaker
                if says:
                    marks.append((len(row), len(row) + 1, f"black on {sign[turn['label']][1]}"))
                row += sign[turn["label"]][0] if says else " "
            parts.append(Marked(row.rstrip(), marks))
    seen = {turn["label"] for turn in turns}
    parts.append(", ".join(f"{sign[label][0]} {label}" for label in labels if label in seen))
    return parts
