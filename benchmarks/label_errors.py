# SPDX-License-Identifier: Apache-2.0
"""
How well `check-labels` finds wrong labels: 5 % of the rows of a corpus get one, and each ranking of the rows is asked how many of its first k
(k/2) rows are among them, k being their number. Single-label rows get another label at random. Multi-label rows lose a label and get
another one, get one more, or lose one, a third each.

    python benchmarks/label_errors.py quickstart emotion6 --encoder minilm --data-dir DATA --output benchmarks/label_errors.json
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import DatasetDict, concatenate_datasets
from measuring import machine, recorded

from hf_emotion import Predictor, load_dataset_for, load_recipe, train
from hf_emotion.data.splits import label_names
from hf_emotion.io.files import write_json
from hf_emotion.reports.label_errors import (
    MAX_LENGTH,
    STRENGTH,
    fold_numbers,
    load_encoder,
    logistic_regression,
    mean_vectors,
    out_of_fold,
    rank,
    tfidf,
)
from hf_emotion.tasks.rows import label_matrix


SHARE = 0.05


def plant(gold: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(the labels with errors, the rows that have one)."""
    generator, wrong = np.random.default_rng(seed), gold.copy()
    rows = generator.permutation(len(gold))[: round(SHARE * len(gold))]
    if gold.ndim == 1:
        classes = gold.max() + 1
        wrong[rows] = (gold[rows] + generator.integers(1, classes, len(rows))) % classes
        return wrong, rows
    for number, row in enumerate(rows):
        kind = ("replace", "add", "drop")[number % 3]
        if kind != "add" and gold[row].any():
            wrong[row, generator.choice(np.flatnonzero(gold[row]))] = 0
        if kind != "drop":
            wrong[row, generator.choice(np.flatnonzero(gold[row] == 0))] = 1
    return wrong, rows


def losses(gold: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """(N,) cross-entropy; of several labels the sum of the binary ones."""
    inside = np.clip(probabilities, 1e-9, 1 - 1e-9)
    if gold.ndim == 1:
        return -np.log(inside[np.arange(len(gold)), gold])
    return -np.where(gold > 0, np.log(inside), np.log1p(-inside)).sum(axis=1)


def in_sample(features: Any, gold: np.ndarray) -> np.ndarray:
    """(N, C) probabilities of the classifier of `check_labels`, fitted to the very rows that it judges."""
    return logistic_regression(STRENGTH, gold.ndim == 2).fit(features, gold).predict_proba(features)


def precision(order: np.ndarray, planted: np.ndarray) -> dict[str, float]:
    found = np.isin(order, planted)
    return {"k": float(found[: len(planted)].mean()), "half_k": float(found[: len(planted) // 2].mean())}


def with_labels(rows: Any, gold: np.ndarray) -> Any:
    labels = gold.tolist() if gold.ndim == 1 else [np.flatnonzero(row).tolist() for row in gold]
    columns = {**{name: list(rows[name]) for name in rows.column_names}, "labels": labels}
    return type(rows).from_dict(columns, features=rows.features)


def fine_tuned(recipe: str, overrides: list[str], rows: Any, validation: Any, asked: Any) -> np.ndarray:
    """Probabilities of a model that was trained on `rows`, for the rows `asked`."""
    with tempfile.TemporaryDirectory() as folder:
        train(load_recipe(recipe, overrides), f"{folder}/run", splits=DatasetDict(train=rows, validation=validation))
        return Predictor(f"{folder}/run").of_rows(asked)


def measure(corpus: str, encoder: str, arguments: argparse.Namespace) -> dict[str, Any]:
    splits = load_dataset_for(corpus, arguments.data_dir)
    rows = concatenate_datasets([splits[part] for part in arguments.parts])
    if arguments.rows:
        rows = rows.select(np.sort(np.random.default_rng(0).permutation(len(rows))[: arguments.rows]))
    names, texts, gold = label_names(rows), list(rows["text"]), label_matrix(rows)
    cache = arguments.cache / f"{encoder}-{corpus}-{'-'.join(arguments.parts)}-{len(rows)}.npy"
    if cache.is_file():
        vectors = np.load(cache)
    else:
        vectors = mean_vectors(texts, *load_encoder(encoder), MAX_LENGTH)
        np.save(cache, vectors)
    words, found, spread = tfidf(texts), {}, []
    for seed in arguments.draws:
        wrong, planted = plant(gold, seed)
        parts = fold_numbers(texts, wrong, names, 5)
        start = time.process_time()
        each = {name: out_of_fold([matrix], wrong, parts) for name, matrix in (("vectors", vectors), ("words", words))}
        seconds = time.process_time() - start
        each["both"] = (each["vectors"] + each["words"]) / 2
        orders = {f"out_of_fold_loss_{name}": np.argsort(-losses(wrong, each[name])) for name in each}
        fitted = np.mean([in_sample(matrix, wrong) for matrix in (vectors, words)], axis=0)
        orders["in_sample_loss_both"] = np.argsort(-losses(wrong, fitted))
        scores, _, suggested = rank(wrong, each["both"])
        given = wrong > 0 if gold.ndim == 2 else wrong[:, None] == np.arange(len(names))
        right = gold > 0 if gold.ndim == 2 else gold[:, None] == np.arange(len(names))
        flagged = (given != suggested).any(axis=1)
        orders["check_labels"] = np.lexsort((scores, ~flagged))
        orders["random"] = np.random.default_rng(1000 + seed).permutation(len(rows))
        if arguments.recipe:
            overrides, noisy = list(arguments.set), with_labels(rows, wrong)
            recipe, validation = arguments.recipe, splits["validation"]
            orders["in_sample_loss_fine_tuned"] = np.argsort(
                -losses(wrong, fine_tuned(recipe, overrides, noisy, validation, noisy))
            )
            if arguments.retrain:
                scored = np.zeros(given.shape)
                for part in range(5):
                    inside, outside = np.flatnonzero(parts == part), np.flatnonzero(parts != part)
                    scored[inside] = fine_tuned(
                        recipe, overrides, noisy.select(outside), validation, noisy.select(inside)
                    )
                orders["out_of_fold_loss_fine_tuned"] = np.argsort(-losses(wrong, scored))
        for name, order in orders.items():
            found.setdefault(name, []).append(precision(order, planted))
        best = each["both"].argmax(axis=1)
        spread.append(
            {
                "planted": len(planted),
                "flagged": int(flagged.sum()),
                "planted_flagged": int(flagged[planted].sum()),
                "right_suggestions": int((suggested[planted] == right[planted]).all(axis=1).sum()),
                "accuracy": float(right[np.arange(len(right)), best].mean()),
                "fit_processor_seconds": seconds,
            }
        )
        print(corpus, encoder, seed, spread[-1], {name: each[-1] for name, each in found.items()}, flush=True)
    figures = {
        name: {
            key: {
                "mean": float(np.mean([one[key] for one in each])),
                "std": float(np.std([one[key] for one in each], ddof=1)) if len(each) > 1 else None,
            }
            for key in ("k", "half_k")
        }
        for name, each in found.items()
    }
    means = {key: float(np.mean([one[key] for one in spread])) for key in spread[0]}
    return {"rows": len(rows), "labels": len(names), "draws": arguments.draws, "precision": figures, **means}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", nargs="+")
    parser.add_argument("--encoder", action="append", default=[])
    parser.add_argument("--data-dir")
    parser.add_argument("--draws", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument(
        "--parts",
        nargs="+",
        default=["train"],
        choices=["train", "validation", "test"],
        help="parts of the corpora; an encoder that was trained on one of them knows its labels",
    )
    parser.add_argument("--rows", type=int, help="size of a random sample of the rows; default: all")
    parser.add_argument("--recipe", help="also the loss of a model that this recipe trained on the same rows")
    parser.add_argument("--set", action="append", default=[], help="of the recipe")
    parser.add_argument(
        "--retrain", action="store_true", help="also the loss of models that the recipe trained fold by fold"
    )
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()), help="folder for vectors")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, required=True, help="JSON file; entries of other names stay")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    for corpus in arguments.corpora:
        for encoder in arguments.encoder or ["minilm"]:
            found = measure(corpus, encoder, arguments)
            record = recorded(arguments.output)
            name = "-".join(
                [
                    corpus,
                    encoder,
                    *(arguments.parts if arguments.parts != ["train"] else []),
                    *([f"{found['rows']}-rows"] if arguments.rows else []),
                    *(["fine-tuned"] if arguments.recipe else []),
                ]
            )
            record[name] = {**found, "machine": machine(arguments.threads)}
            write_json(arguments.output, record)


if __name__ == "__main__":
    main()
