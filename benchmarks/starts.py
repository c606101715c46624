# SPDX-License-Identifier: Apache-2.0
"""
Where label-aware models start: each start trained on the same rows and measured on the validation part, which chooses the defaults.
"stock head" is the classifier of transformers over the same encoder, for comparison.

    python benchmarks/starts.py --base-model minilm --data-dir DATA --output benchmarks/starts.json
"""

import argparse
import dataclasses
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from measuring import recorded

from hf_emotion import load_recipe, train
from hf_emotion.io.files import write_json


PRIOR = {"model_config.head_bias_init": "prior"}
STARTS = {
    "words, bias 0": {"model_config.head_bias_init": "zeros"},
    "words, prior": PRIOR,
    "contextual, prior": {**PRIOR, "model_config.label_embedding_init": "contextual"},
    "words, W normal, prior": {**PRIOR, "model_config.label_attention_init": "normal"},
    "stock head": {"model_type": "null", "model_config": "{}"},
}
# name -> the recipe, and what differs from it
WORKS = {
    "quickstart": ("quickstart", []),
    "goemotions": (
        "goemotions/laa_ce",
        ["num_train_epochs=2", "per_device_train_batch_size=32", "train_fraction=0.25", "max_eval_rows=2000"],
    ),
}
ENOUGH = 0.5  # average precision on the validation part


def measure(work: str, fields: dict[str, str], seed: int, arguments: argparse.Namespace) -> dict:
    """Train once; returns average precision on the validation part after each epoch, and the figures of the best epoch."""
    name, changes = WORKS[work]
    changes = [*changes, f"seeds=[{seed}]", f"base_model={arguments.base_model}", *arguments.set]
    if work != "quickstart":
        changes.append(f"learning_rate={arguments.learning_rate}")
    recipe = load_recipe(name, [*changes, *(f"{key}={value}" for key, value in fields.items())])
    start = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        run = train(dataclasses.replace(recipe, name="start"), Path(folder, "run"), arguments.data_dir).runs[0]
    precision = [
        entry["eval_macro_average_precision"] for entry in run.history if "eval_macro_average_precision" in entry
    ]
    return {
        "seed": seed,
        "settings": [change for change in changes if not change.startswith(("seeds=", "base_model="))],
        "processor_minutes": (time.process_time() - start) / 60,
        "average_precision": precision,
        "epochs_to_enough": next((epoch for epoch, value in enumerate(precision, 1) if value >= ENOUGH), None),
        "validation": {kind: run.figures("validation")[kind]["macro_f1"] for kind in ("fixed", "tuned")},
        "test": {kind: run.figures("test")[kind]["macro_f1"] for kind in ("fixed", "tuned")},
    }


def main(argv: Sequence[str] | None = None) -> dict:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base-model", default="minilm")
    parser.add_argument("--work", action="append", choices=WORKS, help="default: all")
    parser.add_argument("--start", action="append", choices=STARTS, help="default: the first three")
    parser.add_argument("--seeds", type=int, nargs="+", default=[42, 43])
    parser.add_argument("--learning-rate", type=float, default=1e-4, help="of GoEmotions")
    parser.add_argument("--set", action="append", default=[], help="key=value, as in `hf-emotion train`")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--output", type=Path, help="JSON file; results that it already holds are kept")
    arguments = parser.parse_args(argv)
    name = Path(arguments.base_model).name
    rows = recorded(arguments.output)
    for seed in arguments.seeds:
        for work in arguments.work or WORKS:
            for start in arguments.start or list(STARTS)[:3]:
                known = rows.setdefault(name, {}).setdefault(work, {}).setdefault(start, [])
                if any(row["seed"] == seed for row in known):
                    continue
                known.append(measure(work, STARTS[start], seed, arguments))
                print(json.dumps({"work": work, "start": start, **known[-1]}))
                if arguments.output:
                    write_json(arguments.output, rows)
    return rows


if __name__ == "__main__":
    main()
