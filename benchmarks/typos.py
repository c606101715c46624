# SPDX-License-Identifier: Apache-2.0
"""
What typing errors cost: each ready classifier on the test part of its corpus, clean and with a tenth of the words misspelt.

    python -m benchmarks.typos --data-dir DATA --run before --output benchmarks/typos.json
"""

import itertools
import random
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from datasets import Dataset

from benchmarks.measuring import machine, recorded
from hf_emotion.data.misspelling import misspell
from hf_emotion.data.rows import Rows
from hf_emotion.data.splits import label_names
from hf_emotion.inference import load_predictor
from hf_emotion.io.files import write_json
from hf_emotion.runtime.plain import text_processing
from hf_emotion.tasks.aspect_extraction.loading import add_text, to_dataset
from hf_emotion.tasks.corpus import mark
from hf_emotion.tasks.loading import CorpusSplit


SHARE, SEEDS = 0.1, 3
# The corpus of each model, and what is kept of its figures: by decision rule ("fixed": one threshold, 0.3).
MEASURED = {
    "goemotions": ("goemotions", {"tuned": ["macro_f1", "micro_f1"], "fixed": ["macro_f1", "micro_f1"]}),
    "reviews": ("reviews", {"argmax": ["macro_f1", "accuracy"]}),
    "aspects": ("review_terms", {"argmax": ["pair_f1", "term_f1", "polarity_accuracy"]}),
}


@dataclass(frozen=True)
class Misspelt(CorpusSplit):
    """A split with typing errors; rows with the same text have the same ones. The terms of a text move with their letters."""

    seed: int = 0

    def load(self) -> Dataset:
        rows = super().load()
        if "words" not in rows.column_names:
            return rows.map(
                lambda row: {"text": misspell(row["text"], SHARE, self._draw(row))}, load_from_cache_file=False
            )
        names, found = label_names(rows), Rows(self.dataset, "error")
        one_hot = np.eye(len(names))
        for line, row in enumerate(rows, 1):
            terms = text_processing.find_terms(one_hot[row["labels"]].tolist(), names)
            places = [(row["words"][first][0], row["words"][last - 1][1], label) for first, last, label, *_ in terms]
            borders = [0, *itertools.chain(*(place[:2] for place in places)), len(row["text"])]
            draw = self._draw(row)
            pieces = [misspell(row["text"][a:b], SHARE, draw) for a, b in itertools.pairwise(borders)]
            ends = [*itertools.accumulate(map(len, pieces))]
            moved = [(ends[2 * i], ends[2 * i + 1], place[2]) for i, place in enumerate(places)]
            add_text(found, line, "".join(pieces), moved, row["id"])
        return mark(to_dataset(found, text_processing.tag_labels(names)), rows.info.config_name)

    def _draw(self, row: dict[str, Any]) -> random.Random:
        return random.Random(f"{self.seed} {row['text']}")


def figures(predictor: Any, of: CorpusSplit, kept: dict[str, list[str]]) -> dict[str, float]:
    found = predictor.evaluate(of)["metrics"]
    return {f"{rule} {metric}": found[rule][metric] for rule, metrics in kept.items() for metric in metrics}


def main(
    run: Annotated[str, typer.Option(help='name of the figures in the record, "before"')],
    output: Annotated[Path, typer.Option(help="typos.json, whose other runs stay")],
    data_dir: Path | None = None,
    threads: int = 2,
) -> None:
    """Write and print the figures on clean texts, the mean over the seeds on misspelt ones, and what is lost, in points."""
    torch.set_num_threads(threads)
    models = {}
    for model, (corpus, kept) in MEASURED.items():
        predictor = load_predictor(model)
        clean = figures(predictor, CorpusSplit(corpus, data_dir=data_dir), kept)
        drawn = [figures(predictor, Misspelt(corpus, data_dir=data_dir, seed=seed), kept) for seed in range(SEEDS)]
        misspelt = {name: statistics.fmean(one[name] for one in drawn) for name in clean}
        lost = {name: 100 * (clean[name] - misspelt[name]) for name in clean}
        models[model] = {"corpus": corpus, "clean": clean, "misspelt": misspelt, "points_lost": lost}
        for name in clean:
            print(
                f"{model}, {name}: clean {clean[name]:.3f}, misspelt {misspelt[name]:.3f}, {lost[name]:.1f} points lost"
            )
    record = recorded(output)
    record[run] = {"machine": machine(threads), "share_of_words": SHARE, "seeds": SEEDS, "models": models}
    write_json(output, record)


if __name__ == "__main__":
    typer.run(main)
