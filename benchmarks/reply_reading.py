# SPDX-License-Identifier: Apache-2.0
"""
What readers hear who see replies and their contexts, shuffled, without the emotions asked for: their accuracy, and how far they agree.

    python -m benchmarks.reply_reading KEY READER1 READER2 --output benchmarks/replies.json

KEY is a JSON list of {context, emotion, reply} in the order that the readers saw; a reader's file is a JSON object {"1": emotion, ...}.
"""

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from scipy.stats import sem
from sklearn.metrics import cohen_kappa_score

from benchmarks.measuring import recorded
from hf_emotion.io.files import write_json


def main(key: Path, readers: tuple[Path, Path], output: Annotated[Path, typer.Option()]) -> None:
    """Write `reading` of a JSON file, whose other entries stay."""
    rows = recorded(key)
    asked = np.array([row["emotion"] for row in rows])
    read = np.array([[said[str(number + 1)] for number in range(len(rows))] for said in map(recorded, readers)])
    right = read == asked
    found = {
        "replies": len(rows),
        "chance": 1 / len(set(asked)),
        "accuracy": float(right.mean()),
        "accuracy_se": float(sem(right.mean(axis=0))),
        "accuracy_of_readers": right.mean(axis=1).tolist(),
        "agreement": float((read[0] == read[1]).mean()),
        "kappa": float(cohen_kappa_score(*read)),
        "per_emotion": {name: float(right[:, asked == name].mean()) for name in sorted(set(asked))},
        "rows": [{**row, "heard": heard} for row, heard in zip(rows, read.T.tolist(), strict=True)],
    }
    write_json(output, {**recorded(output), "reading": found})
    print(json.dumps({name: value for name, value in found.items() if name != "rows"}, indent=1))


if __name__ == "__main__":
    typer.run(main)
