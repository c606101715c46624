# SPDX-License-Identifier: Apache-2.0
"""
What readers hear who see replies and their contexts, shuffled, without the emotions asked for: their accuracy, and how far they agree.

    python -m benchmarks.reply_reading KEY READER1 READER2 --output benchmarks/replies.json

KEY is a JSON list of {context, emotion, reply} in the order that the readers saw; a reader's file is a JSON object {"1": emotion, ...}.
"""

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sklearn.metrics import cohen_kappa_score

from benchmarks.measuring import recorded
from hf_emotion.io.files import write_json


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("key", type=Path)
    parser.add_argument("readers", type=Path, nargs=2)
    parser.add_argument("--output", type=Path, required=True, help="JSON file; its `reading` is written")
    arguments = parser.parse_args(argv)
    key = json.loads(arguments.key.read_text(encoding="utf-8"))
    asked = np.array([row["emotion"] for row in key])
    read = []
    for path in arguments.readers:
        said = json.loads(path.read_text(encoding="utf-8"))
        read.append(np.array([said[str(number)] for number in range(1, len(key) + 1)]))
    right = np.array([own == asked for own in read])
    of_reply = right.mean(axis=0)
    found = {
        "replies": len(key),
        "chance": 1 / len(set(asked)),
        "accuracy": float(right.mean()),
        "accuracy_se": float(of_reply.std(ddof=1) / math.sqrt(len(key))),
        "accuracy_of_readers": right.mean(axis=1).tolist(),
        "agreement": float((read[0] == read[1]).mean()),
        "kappa": float(cohen_kappa_score(*read)),
        "per_emotion": {name: float(right[:, asked == name].mean()) for name in sorted(set(asked))},
        "rows": [{**row, "heard": [str(own[number]) for own in read]} for number, row in enumerate(key)],
    }
    write_json(arguments.output, {**recorded(arguments.output), "reading": found})
    print(json.dumps({name: value for name, value in found.items() if name != "rows"}, indent=1))


if __name__ == "__main__":
    main()
