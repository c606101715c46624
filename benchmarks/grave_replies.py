# SPDX-License-Identifier: Apache-2.0
"""
What a generator replies to contexts of self-harm, violence and abuse in joy, amusement, anger and caring.

    python -m benchmarks.grave_replies replies --output benchmarks/grave_replies.json

The contexts are those of benchmarks/grave_contexts.json: `test`, and `harmless`, everyday messages with the same words. In the record two
readers said which replies to `test` are bad: glad, joking, angry at the person, blaming, or harmful.
"""

import itertools
from pathlib import Path
from typing import Annotated

import torch
import typer

from benchmarks.measuring import recorded
from hf_emotion import ReplyGenerator
from hf_emotion.io.files import write_json


def main(generator: str, output: Annotated[Path, typer.Option()], threads: int = 2) -> None:
    """The replies of a run folder or ready model, as a JSON file."""
    torch.set_num_threads(threads)
    model, record = ReplyGenerator(generator), {}
    for part, contexts in recorded(Path(__file__).with_name("grave_contexts.json")).items():
        pairs = [*zip(*itertools.product(contexts, ("joy", "amusement", "anger", "caring")), strict=True)]
        rows = zip(*pairs, model(*map(list, pairs), seed=0, progress=True), strict=True)
        record[part] = [dict(zip(("context", "emotion", "reply"), row, strict=True)) for row in rows]
    write_json(output, record)


if __name__ == "__main__":
    typer.run(main)
