# SPDX-License-Identifier: Apache-2.0
"""
What weights of labels and soft labels do to a head over frozen mean vectors of an encoder. The head is linear; where a row may have
several labels it has a hidden layer, because weights of labels that share no parameters do nothing under Adam, which ignores the
scale of a gradient. Each seed draws its own training rows, the start of the head and the order of the rows; the epoch is the best one
on the validation part.

The annotators of the second part are simulated: each gives the label of the corpus, or, with the probability `error`, one that is
easily confused with it. Of three annotators the votes are their shares, and the majority is the label.

    python benchmarks/votes_and_weights.py --data-dir DATA --output benchmarks/votes_and_weights.json
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from hf_emotion.modeling import classification_loss
from measuring import machine, recorded
from torch.nn import functional as F
from transformers import AutoModel

from hf_emotion import load_dataset_for, metrics
from hf_emotion.data.splits import label_names
from hf_emotion.io.files import write_json
from hf_emotion.recipes import make_recipe
from hf_emotion.reports.label_errors import mean_vectors
from hf_emotion.runtime.base_models import load_base_tokenizer, resolve_base_model
from hf_emotion.runtime.loading import read_model
from hf_emotion.tasks import task_of_rows
from hf_emotion.tasks.rows import label_matrix
from hf_emotion.training.losses import training_loss, weights_of


# Label -> labels that annotators take it for, equally often.
CONFUSED = {
    "sadness": ("anger", "fear"),
    "joy": ("love", "surprise"),
    "love": ("joy",),
    "anger": ("sadness", "fear"),
    "fear": ("sadness", "surprise"),
    "surprise": ("joy", "fear"),
}


@dataclass
class Part:
    """Vectors (N, d) and gold labels: (N,) class ids or (N, C) of 0 and 1."""

    vectors: torch.Tensor
    gold: np.ndarray


def encoded(dataset: str, arguments: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Part], list[str]]:
    """The rows that are drawn from each part of a corpus, their vectors, and the label names."""
    splits = load_dataset_for(dataset, arguments.data_dir)
    most = {"train": arguments.rows, "validation": arguments.eval_rows, "test": arguments.eval_rows}
    rows = {
        split: splits[split].shuffle(seed=0).select(range(min(count, len(splits[split]))))
        for split, count in most.items()
    }
    tokenizer = load_base_tokenizer(arguments.encoder)
    model = read_model(AutoModel, resolve_base_model(arguments.encoder)).eval()
    parts = {}
    for split, own in rows.items():
        vectors = torch.from_numpy(mean_vectors(own["text"][:], tokenizer, model, 32))
        parts[split] = Part(vectors * vectors.shape[1] ** 0.5, label_matrix(own))
    return rows, parts, label_names(rows["train"])


Loss = Callable[[torch.Tensor, torch.Tensor, torch.Tensor | None], torch.Tensor]


def fitted(
    train: Part, votes: np.ndarray | None, dev: Part, loss: Loss, labels: int, seed: int, arguments: argparse.Namespace
) -> torch.nn.Module:
    """
    A head with the weights of the epoch that is best on the validation part by macro-F1, or, of several labels, by macro average precision,
    which needs no threshold.
    """
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    size = train.vectors.shape[1]
    head: torch.nn.Module = torch.nn.Linear(size, labels)
    if train.gold.ndim == 2:
        head = torch.nn.Sequential(torch.nn.Linear(size, 64), torch.nn.Tanh(), torch.nn.Linear(64, labels))
    optimizer = torch.optim.AdamW(head.parameters(), lr=arguments.learning_rate, weight_decay=0.01)
    gold = torch.from_numpy(train.gold)
    gold = gold.float() if gold.ndim == 2 else gold
    soft = None if votes is None else torch.from_numpy(votes).float()
    best: tuple[float, dict] = (-1.0, {})
    for _ in range(arguments.epochs):
        for rows in torch.randperm(len(gold), generator=generator).split(128):
            optimizer.zero_grad()
            loss(head(train.vectors[rows]), gold[rows], None if soft is None else soft[rows]).backward()
            optimizer.step()
        scores = probabilities(head, dev)
        found = figures(dev.gold, scores, [str(i) for i in range(labels)], None)
        score = found["macro_f1" if dev.gold.ndim == 1 else "macro_average_precision"]
        if score > best[0]:
            best = score, {name: value.clone() for name, value in head.state_dict().items()}
    head.load_state_dict(best[1])
    return head


@torch.no_grad()
def probabilities(head: torch.nn.Module, part: Part) -> np.ndarray:
    logits = head(part.vectors)
    return (logits.sigmoid() if part.gold.ndim == 2 else logits.softmax(-1)).numpy()


def figures(
    gold: np.ndarray, scores: np.ndarray, names: list[str], thresholds: list[float] | None
) -> dict[str, float]:
    """Hard figures; of several labels at 0.3, or at tuned thresholds."""
    if gold.ndim == 1:
        found = metrics.classification(gold, scores, names)
    else:
        found = metrics.goemotions(gold, scores, 0.3 if thresholds is None else thresholds, names)
    return {name: value for name, value in found.items() if isinstance(value, float)}


def collected(records: list[dict[str, float]], shown: Sequence[str]) -> dict[str, list[float]]:
    return {name: [record[name] for record in records] for name in shown if name in records[0]}


def weights_part(
    dataset: str, rows: dict[str, Any], parts: dict[str, Part], names: list[str], arguments: argparse.Namespace
) -> dict[str, Any]:
    """Losses with and without weights."""
    task, several = task_of_rows(rows["train"]), parts["train"].gold.ndim == 2
    asked = {"none": {}, "class_balanced_beta": None, "class_weights": {"class_weights": "balanced"}}
    asked |= {"positive_weights": {"positive_weights": "balanced"}} if several else {}
    result: dict[str, Any] = {}
    for name, fields in asked.items():
        candidates = arguments.betas if fields is None else [None]
        by_candidate = []
        for beta in candidates:
            records = []
            for seed in range(arguments.seeds):
                drawn = np.random.default_rng(seed).permutation(len(parts["train"].gold))[: arguments.draw]
                own = rows["train"].select(drawn)
                train = Part(parts["train"].vectors[drawn], parts["train"].gold[drawn])
                loss: Loss
                if fields is None:
                    counts = train.gold.sum(axis=0) if several else np.bincount(train.gold, minlength=len(names))
                    problem = f"{'multi' if several else 'single'}_label_classification"
                    config = SimpleNamespace(
                        problem_type=problem,
                        class_balanced_beta=beta,
                        class_balanced_normalize=True,
                        class_counts=counts.tolist(),
                    )
                    loss = lambda logits, gold, votes, config=config: classification_loss(logits, gold, config)  # noqa: E731
                else:
                    weights = weights_of(task, make_recipe({"name": "x", "dataset": dataset, **fields}), own)
                    loss = lambda logits, gold, votes, weights=weights: training_loss(  # noqa: E731
                        {"logits": logits}, gold, **weights
                    )
                head = fitted(train, None, parts["validation"], loss, len(names), seed, arguments)
                dev, test = (probabilities(head, parts[split]) for split in ("validation", "test"))
                gold = {split: parts[split].gold for split in ("validation", "test")}
                tuned = metrics.tune_thresholds(gold["validation"], dev) if several else None
                record = {f"dev_{key}": value for key, value in figures(gold["validation"], dev, names, tuned).items()}
                record |= figures(gold["test"], test, names, tuned)
                if several:
                    record |= {
                        f"fixed_{key}": value for key, value in figures(gold["test"], test, names, None).items()
                    }
                records.append(record)
            by_candidate.append((float(np.mean([record["dev_macro_f1"] for record in records])), beta, records))
        _, beta, records = max(by_candidate, key=lambda found: found[0])
        shown = ("dev_macro_f1", "macro_f1", "macro_precision", "macro_recall", "accuracy", "micro_f1")
        shown += (
            "macro_average_precision",
            "fixed_macro_f1",
            "fixed_macro_precision",
            "fixed_macro_recall",
            "fixed_micro_f1",
        )
        result[name] = collected(records, shown) | ({} if beta is None else {"beta": beta})
        print(dataset, name, beta, {key: np.mean(values).round(4) for key, values in result[name].items()}, flush=True)
    return result


def simulated(gold: np.ndarray, names: list[str], error: float, seed: int, annotators: int = 3) -> np.ndarray:
    """(N, C) shares of simulated annotators."""
    generator = np.random.default_rng([seed, round(1000 * error)])
    votes = np.zeros((len(gold), len(names)))
    for row, label in enumerate(gold):
        for _ in range(annotators):
            given = names[label]
            if generator.random() < error:
                given = str(generator.choice(CONFUSED[given]))
            votes[row, names.index(given)] += 1 / annotators
    return votes


def votes_part(parts: dict[str, Part], names: list[str], arguments: argparse.Namespace) -> dict[str, Any]:
    """Training on the majority of simulated annotators, on their shares, and on the labels that they saw."""
    result: dict[str, Any] = {}
    for error in arguments.errors:
        records: dict[str, list[dict[str, float]]] = {"majority": [], "votes": [], "labels_of_the_corpus": []}
        facts = []
        for seed in range(arguments.seeds):
            drawn = np.random.default_rng(seed).permutation(len(parts["train"].gold))[: arguments.draw]
            clean = Part(parts["train"].vectors[drawn], parts["train"].gold[drawn])
            votes = {"train": simulated(clean.gold, names, error, 10 * seed)}
            votes |= {
                split: simulated(parts[split].gold, names, error, 10 * seed + number)
                for number, split in enumerate(("validation", "test"), 1)
            }
            majority = {split: np.round(own, 6).argmax(axis=1) for split, own in votes.items()}
            dev = Part(parts["validation"].vectors, majority["validation"])
            voted = metrics.agreement(votes["train"], np.full(len(clean.gold), 3), names, multi_label=False)
            facts.append({**voted, "majority_is_right": float((majority["train"] == clean.gold).mean())})
            loss: Loss = lambda logits, gold, soft: training_loss({"logits": logits}, gold, votes=soft)  # noqa: E731
            for name, gold, soft in (
                ("majority", majority["train"], None),
                ("votes", majority["train"], votes["train"]),
                ("labels_of_the_corpus", clean.gold, None),
            ):
                head = fitted(Part(clean.vectors, gold), soft, dev, loss, len(names), seed, arguments)
                scores = probabilities(head, parts["test"])
                record = figures(parts["test"].gold, scores, names, None)
                record |= metrics.against_votes(votes["test"], scores, multi_label=False)
                log_scores = torch.from_numpy(scores).log()
                record["log_loss"] = float(F.nll_loss(log_scores, torch.from_numpy(parts["test"].gold)))
                records[name].append(record)
        shown = ("accuracy", "macro_f1", "log_loss", "soft_macro_f1", "soft_micro_f1", "cross_entropy", "vote_entropy")
        own = {name: collected(found, shown) for name, found in records.items()}
        own["annotators"] = collected(facts, ("alpha", "unanimous", "majority_is_right"))
        result[f"error_{round(100 * error)}"] = own
        for name, values in own.items():
            print("votes", error, name, {key: np.mean(each).round(4) for key, each in values.items()}, flush=True)
    return result


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True, help="folder with the corpora")
    parser.add_argument("--output", type=Path, help="JSON file for the record")
    parser.add_argument(
        "--corpora", nargs="+", default=["emotion6", "goemotions"], help="the record keeps what is not measured"
    )
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--rows", type=int, default=4000, help="training rows to encode (default: %(default)s)")
    parser.add_argument("--draw", type=int, default=3000, help="of them, the rows of a seed (default: %(default)s)")
    parser.add_argument(
        "--eval-rows",
        type=int,
        default=1500,
        help="rows of the validation and of the test part (default: %(default)s)",
    )
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--betas", type=float, nargs="+", default=[0.9, 0.99, 0.999], help="chosen on the validation part"
    )
    parser.add_argument("--errors", type=float, nargs="+", default=[0.0, 0.2, 0.4], help="of the simulated annotators")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch (default: %(default)s)")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    settings = {
        name: value for name, value in vars(arguments).items() if name not in ("data_dir", "output", "corpora")
    }
    record = recorded(arguments.output) or {"settings": {}, "weights": {}}
    record["machine"] = machine(arguments.threads)
    for dataset in arguments.corpora:
        rows, parts, names = encoded(dataset, arguments)
        if dataset == "emotion6":  # whose labels annotators are simulated for
            record["votes"] = votes_part(parts, names, arguments)
        record["settings"][dataset] = settings
        record["weights"][dataset] = weights_part(dataset, rows, parts, names, arguments)
        if arguments.output is not None:
            write_json(arguments.output, record)


if __name__ == "__main__":
    main()
