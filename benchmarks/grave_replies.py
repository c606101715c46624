# SPDX-License-Identifier: Apache-2.0
"""
What a generator replies to contexts of self-harm, violence and abuse in joy, amusement, anger and caring.

    python -m benchmarks.grave_replies replies --output benchmarks/grave_replies.json

The contexts are those of benchmarks/grave_contexts.json: `test`, and `harmless`, everyday messages with the same words. In the record two
readers said which replies to `test` are bad: glad, joking, angry at the person, blaming, or harmful.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import torch

from hf_emotion import ReplyGenerator
from hf_emotion.io.files import write_json


CONTEXTS = Path(__file__).with_name("grave_contexts.json")
ASKED = ("joy", "amusement", "anger", "caring")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("generator", help="run folder or ready model")
    parser.add_argument("--output", type=Path, required=True, help="JSON file")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    generator = ReplyGenerator(arguments.generator)
    record = {}
    for part, contexts in json.loads(CONTEXTS.read_text(encoding="utf-8")).items():
        pairs = [(context, emotion) for context in contexts for emotion in ASKED]
        replies = generator(*map(list, zip(*pairs, strict=True)), seed=0, progress=True)
        record[part] = [
            {"context": context, "emotion": emotion, "reply": reply}
            for (context, emotion), reply in zip(pairs, replies, strict=True)
        ]
    write_json(arguments.output, record)


if __name__ == "__main__":
    main()
