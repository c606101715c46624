# SPDX-License-Identifier: Apache-2.0
"""What `predict` prints about the emotions of a dialogue, and the page of the service."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ...runtime.names import METHODS
from ...taxonomies import EKMAN
from ..base import Answer, Marked, Page, Table
from .predictor import DialoguePredictor, speaker_and_utterance


MAX_TURNS = 100  # the heat map has a row and a column for each
TURNS_IN_LINE = 60
NO_NAME = "(no name)"
# Black letters have a contrast above 7 on each of them; the names of several corpora.
COLOURS = {
    "#f0906a": "anger angry mad",
    "#f3b9a4": "frustration frustrated",
    "#a5c882": "disgust disgusted",
    "#c9a3e0": "fear scared worry",
    "#f4c95d": "joy happiness happy joyful excited relief gratitude satisfaction",
    "#8fb8ec": "sadness sad",
    "#7fd4d0": "surprise surprised",
}
OTHER = "#c8ccd2"
EXAMPLES = (
    "Ana: I got the job!\nBen: No way! Congratulations!\nAna: It starts on Monday, and I still have to tell my boss.",
    "Kim: Where is my bike?\nLou: I lent it to Max.\nKim: Without asking me?\nLou: Sorry. I thought you were away.",
)


def answer(predictor: DialoguePredictor, lines: list[str], top_k: int | None = None, strip: bool = False) -> Answer:
    """Answer for lines that are the turns of one dialogue; `strip`: as a strip for each speaker."""
    (turns,), unread = predictor.predict([[speaker_and_utterance(line) for line in lines]])
    if strip:
        shown = strips(turns, predictor.labels)
        return Answer(turns, unread, shown, [[part if isinstance(part, str) else part.text] for part in shown])
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


def letters(labels: Sequence[str]) -> dict[str, str]:
    """A letter for each label, its first one that is free in the order of the alphabet: fear F, frustration R."""
    found: dict[str, str] = {}
    for label in sorted(labels):
        free = (one for one in f"{label}abcdefghijklmnopqrstuvwxyz0123456789".upper() if one.isalnum())
        found[label] = (
            "-" if label.casefold() == "neutral" else next((one for one in free if one not in found.values()), "?")
        )
    return found


def colour_of(label: str) -> str:
    """The colour of a label, or of the group of GoEmotions that it belongs to."""
    label = label.casefold()
    group = next((group for group, members in EKMAN.items() if label in members), label)
    return next((colour for colour, names in COLOURS.items() if {label, group} & set(names.split())), OTHER)


def strips(turns: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> list[str | Marked]:
    """A line of letters for each speaker, a column for each turn, coloured by the emotion; below them what the letters mean."""
    from rich.cells import cell_len, set_cell_size

    letter, speakers = letters(labels), list(dict.fromkeys(turn["speaker"] or NO_NAME for turn in turns))
    width = min(max(map(cell_len, ["turn", *speakers])), 20)
    parts: list[str | Marked] = []
    for start in range(0, len(turns), TURNS_IN_LINE):
        own = turns[start : start + TURNS_IN_LINE]
        numbers = "".join(f"{start + number + 1:<10}" for number in range(0, len(own), 10))
        parts.append(f"{'turn'.ljust(width)}  {numbers}".rstrip())
        for speaker in speakers:
            says = [(turn["speaker"] or NO_NAME) == speaker for turn in own]
            row = "".join(
                letter[turn["label"]] if said else " " for turn, said in zip(own, says, strict=True)
            ).rstrip()
            name = set_cell_size(speaker, width) + "  "
            marks = [(i, i + 1, f"black on {colour_of(turn['label'])}") for i, turn in enumerate(own) if says[i]]
            parts.append(Marked(name + row, [(len(name) + i, len(name) + end, colour) for i, end, colour in marks]))
    seen = {turn["label"] for turn in turns}
    parts.append(", ".join(f"{letter[label]} {label}" for label in labels if label in seen))
    return parts
