# SPDX-License-Identifier: Apache-2.0
"""
How cost grows: train steps with labels and length beside the stock peer; predictions with the tokens of a text, threads that share a
predictor, rows of a file, and Ray's workers. docs/pictures/speed.py draws those beside a peer from benchmarks/results.json.

    python -m benchmarks.growth labels tokens --pairs 5 --output benchmarks/results.json
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from benchmarks.measuring import interleaved, keep, machine, ratio, recorded, result, spent
from benchmarks.predicting import small_model, write_texts
from benchmarks.texts import WORDS, save_untrained, synthetic_texts
from benchmarks.training import inputs_for, pair, step_of
from hf_emotion import Predictor
from hf_emotion.io.files import write_json


Sides = dict[str, Callable[[], object]]  # name -> what to time; the second one, if any, is the stock peer
CALLS = 256  # of all threads together


def steps(model_type: str, batch_size: int = 8, length: int = 64, **fields) -> Sides:
    models = pair(model_type, "minilm", **fields)
    both = [step_of(model, inputs_for(model.config, batch_size, length)) for model in models]
    return dict(zip((model_type, "stock BERT"), both, strict=True))


class Predictions:
    """The sweeps over predictions, with an untrained label-aware model over MiniLM in a folder."""

    def __init__(self, folder: Path):
        self.folder = folder

    def checkpoint(self) -> Path:
        place = self.folder / "model"
        return place if place.is_dir() else save_untrained(place, "minilm", "label-aware-bert")

    def tokens(self, number: int) -> Sides:
        """64 texts; longer ones than the model's maximum are read in windows."""
        predictor = Predictor(self.checkpoint(), device="cpu")
        texts = [" ".join(WORDS[(row + i) % len(WORDS)] for i in range(number - 2)) for row in range(64)]
        return {"Predictor": lambda: predictor(texts)}

    def callers(self, number: int) -> Sides:
        """`CALLS` texts, each a call of its own, from threads that share a predictor."""
        texts, predictor = synthetic_texts(CALLS), Predictor(self.checkpoint(), device="cpu")

        def call() -> None:
            with ThreadPoolExecutor(number) as pool:
                list(pool.map(predictor, texts))

        return {"Predictor": call}

    def file(self, rows: int, *options: str) -> Sides:
        """`predict --input` with a small model, in a process of its own."""
        place = self.folder / "checkpoint"
        place = place if place.is_dir() else small_model(self.folder)
        source, output = write_texts(self.folder / f"{rows}.csv", rows), self.folder / "output.jsonl"
        command = [sys.executable, "-m", "hf_emotion", "predict", place, "--input", source, "--output", output]
        return {"predict --input": lambda: (output.unlink(missing_ok=True), spent([*command, *options]))}

    def workers(self, number: int) -> Sides:
        return self.file(200_000, "--engine", "ray", "--workers", str(number))


def sweeps(folder: Path) -> dict[str, tuple[list[int], Callable[[int], Sides]]]:
    """Name -> values, function from a value to what to time."""
    predictions = Predictions(folder)
    return {
        "labels": ([2, 28, 100, 300, 1000], lambda n: steps("label-aware-bert", num_labels=n)),
        "length": ([32, 64, 128, 256, 512], lambda n: steps("qacg-bert", length=n)),
        "tokens": ([8, 32, 128, 512, 1024, 4096], predictions.tokens),
        "callers": ([1, 2, 4, 8, 16, 64], predictions.callers),
        "file": ([10_000, 100_000, 1_000_000], predictions.file),
        "workers": ([1, 2, 4], predictions.workers),
    }


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweeps", nargs="*", choices=[[], *sweeps(Path())], help="default: all")
    parser.add_argument("--values", type=int, nargs="+", help="instead of those of the sweep")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, help="results.json, whose rows of other sweeps stay")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    found = recorded(arguments.output)
    with tempfile.TemporaryDirectory() as name:
        known = sweeps(Path(name))
        for sweep in arguments.sweeps or known:
            values, sides_at = known[sweep]
            rows = []
            for value in arguments.values or values:
                sides = sides_at(value)
                training = len(sides) == 2
                warm_up = int(sweep not in ("file", "workers"))  # each of them is a process of its own
                times = interleaved(list(sides.values()), arguments.pairs, warm_up, keep_memory=training)
                work = f"{sweep} {value}: {' against '.join(sides)}"
                rows.append(ratio("growth", work, *times) if training else result("growth", work, *times, unit="s"))
            command = f"growth.py {sweep} --pairs {arguments.pairs}"
            keep(found, command, {"machine": machine(arguments.threads), "rows": rows})
            if arguments.output is not None:
                write_json(arguments.output, found)


if __name__ == "__main__":
    main()
