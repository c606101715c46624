# SPDX-License-Identifier: Apache-2.0
"""
What typing errors cost: each ready classifier on the test part of its corpus, clean and with a tenth of the words misspelt.

    python -m benchmarks.typos --data-dir DATA --run before --output benchmarks/typos.json
"""

import itertools
import random
import re
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from datasets import Dataset

from benchmarks.measuring import machine, recorded
from hf_emotion.data.rows import Rows
from hf_emotion.data.splits import label_names
from hf_emotion.inference import load_predictor
from hf_emotion.io.files import write_json
from hf_emotion.runtime.plain import text_processing
from hf_emotion.tasks.aspect_extraction.loading import add_text, to_dataset
from hf_emotion.tasks.loading import CorpusSplit


SHARE, SEEDS = 0.1, 3
# The corpus of each model, and what is kept of its figures: by decision rule ("fixed": one threshold, 0.3).
MEASURED = {
    "goemotions": ("goemotions", {"tuned": ["macro_f1", "micro_f1"], "fixed": ["macro_f1", "micro_f1"]}),
    "reviews": ("reviews", {"argmax": ["macro_f1", "accuracy"]}),
    "aspects": ("review_terms", {"argmax": ["pair_f1", "term_f1", "polarity_accuracy"]}),
}

# "[NAME]" is a word that GoEmotions puts for a name; it stays.
_WORD = re.compile(r"\[\w+\]|\w+(?:['’]\w+)*")


def misspell(text: str, share: float, draw: random.Random) -> str:
    """
    A copy of a text in which `share` of the words on average (at most those of three letters or more) have one error: two letters swapped, one
    dropped, doubled or repeated twice, or the apostrophe dropped. The first letter stays, and so does all that lies between words. (textnoisr
    changes any character, blanks too, and nlpaug splits "can't" and takes blanks away: neither keeps to words.)
    """
    words = list(_WORD.finditer(text))
    long = [word for word in words if len(letters := re.sub("['’]", "", word[0])) >= 3 and letters.isalpha()]
    chosen = draw.sample(long, min(len(long), int(share * len(words) + draw.random())))
    for found in sorted(chosen, key=lambda word: word.start(), reverse=True):
        word, places = found[0], range(1, len(found[0]))
        kinds = [
            [word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in places[:-1]],
            [word[:i] + word[i + 1 :] for i in places],
            *(
                [word[: i + 1] + word[i] * more + word[i + 1 :] for i in places if word[i].isalpha()]
                for more in (1, 2)
            ),
            *([re.sub("['’]", "", word)] for mark in "'’" if mark in word),
        ]
        wrong = draw.choice([kept for kind in kinds if (kept := [one for one in kind if one != word])])
        text = text[: found.start()] + draw.choice(wrong) + text[found.end() :]
    return text


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
        return to_dataset(found, text_processing.tag_labels(names))

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
