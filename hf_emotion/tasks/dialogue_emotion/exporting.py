# SPDX-License-Identifier: Apache-2.0
"""
ONNX export of models of dialogues (a graph that encodes utterances, and one that reads their vectors), and their Inference Endpoint.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ...runtime.graphs import write_graph
from ...runtime.onnx import ENCODER
from ..exporting import EXAMPLE, Exporter, classifier_exporter, write_classifier
from .predictor import DialoguePredictor, dialogues_of, speaker_and_utterance


Turns = Sequence[tuple[str | None, str]]


def exporter() -> Exporter:
    return classifier_exporter(
        DialoguePredictor, run, write, of_rows=dialogues_of, of_texts=dialogues_from, of_lines=read_lines
    )


def run(predictor: DialoguePredictor, dialogues: Sequence[Turns], progress: bool) -> np.ndarray:
    return predictor.probabilities(dialogues, progress)


def write(predictor: DialoguePredictor, folder: Path) -> list[Path]:
    graphs = write_classifier(predictor, folder, run, [[("A", EXAMPLE), ("B", EXAMPLE)]] * 3)
    tokens = predictor.tokenizer([EXAMPLE] * 3, return_tensors="pt", return_token_type_ids=False)
    example = {name: tokens[name] for name in ("input_ids", "attention_mask")}
    if predictor.model.config.context_turns:
        example["turn_mask"] = tokens["attention_mask"]
    encode = predictor.model.dialogue.encode_utterances
    encoder = write_graph(folder / ENCODER, predictor.model, lambda inputs: encode(**inputs), example, ["vectors"])
    return [*graphs, encoder]


def dialogues_from(texts: list[str]) -> list[Turns]:
    """Split texts into the turns of dialogues with 1, 2, ... 12 turns, and again from 1."""
    rest = iter(texts)
    made: list[Turns] = []
    while turns := [(("A", "B")[i % 2], text) for i, text in zip(range(len(made) % 12 + 1), rest, strict=False)]:
        made.append(turns)
    return made


def read_lines(lines: Sequence[str]) -> list[Turns]:
    """
    Dialogues from lines: one turn per line, "SPEAKER: UTTERANCE" or just the utterance, and an empty line between
    dialogues.
    """
    groups = itertools.groupby(lines, key=bool)
    return [[speaker_and_utterance(line) for line in group] for filled, group in groups if filled]


# This function becomes part of the handler.py of an Inference Endpoint, and imports nothing.
def respond(run, inputs, parameters: dict) -> list:
    """
    For a dialogue, a list of turns, a list with an entry for each turn; for a list of dialogues a list of such lists. A turn is an utterance
    or {"speaker": ..., "utterance": ...}; a single text is a dialogue of one turn.
    """
    return run([inputs] if isinstance(inputs, str) else inputs, **parameters)
