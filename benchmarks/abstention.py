# SPDX-License-Identifier: Apache-2.0
"""
What a classifier gains if it may refuse texts or give sets of labels: coverage wanted and got, risk, areas under the risk-coverage curve, and
size and coverage of prediction sets. All thresholds come from the validation part. Systems: the ready model goemotions on GoEmotions, and with the
same thresholds on packaged corpora of another kind; linear heads on frozen MiniLM embeddings of emotion6, one for each seed, which draws the training
rows; and finished runs.

    python benchmarks/abstention.py --data-dir DATA --run emotion6_minilm=RUN --output benchmarks/abstention.json
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from measuring import machine, recorded
from sklearn.linear_model import LogisticRegression
from transformers import AutoModel, AutoTokenizer

from hf_emotion import Predictor, load_dataset_for, metrics
from hf_emotion.data.splits import multi_hot
from hf_emotion.io.files import write_json
from hf_emotion.reports.finished_runs import read_predictions
from hf_emotion.run_report import RunReport
from hf_emotion.runtime.base_models import resolve_base_model
from hf_emotion.tasks.selective import choose_rules, losses, sets_of


COVERAGES = (95, 90, 80, 50)  # in per cent: keys of the record have no points
SETS = (80, 90, 95)
RESAMPLES = 200
OTHERS = ("everyday", "quickstart")  # other texts than GoEmotions
TRAIN_ROWS = 4000  # of a head


class Part(NamedTuple):
    gold: np.ndarray
    probabilities: np.ndarray


def thresholds(dev: Part, limits: Any) -> dict[str, dict[str, float]]:
    """The thresholds of all rules, from the validation part."""
    return {
        "abstention": {
            str(percent): choose_rules({"coverage": percent / 100}, None, *dev, limits)["abstention"]["threshold"]
            for percent in COVERAGES
        },
        "prediction_sets": {str(percent): metrics.set_threshold(*dev, percent / 100) for percent in SETS},
    }


def figures(
    chosen: dict[str, dict[str, float]], test: Part, sure: np.ndarray, lost: np.ndarray, names: Sequence[str]
) -> dict[str, Any]:
    """All figures of a test part whose rows have these confidences and losses."""
    curve = metrics.risk_coverage(sure, lost)
    found: dict[str, Any] = {"risk": float(lost.mean()), "aurc": curve["aurc"], "e_aurc": curve["e_aurc"]}
    found |= {"abstention": {}, "prediction_sets": {}}
    gold = test.gold > 0 if test.gold.ndim == 2 else test.gold[:, None] == np.arange(len(names))
    for percent, threshold in chosen["abstention"].items():
        answered = (gold & (sure >= threshold)[:, None]).sum(axis=0) / np.maximum(gold.sum(axis=0), 1)
        found["abstention"][percent] = {
            **metrics.answered(sure, lost, threshold),
            "least_answered_label": float(answered[gold.any(axis=0)].min()),
            "most_answered_label": float(answered.max()),
        }
    for percent, threshold in chosen["prediction_sets"].items():
        sets = sets_of(test.probabilities, threshold, test.gold.ndim == 2)
        own = metrics.prediction_sets(test.gold, sets, names)
        labels = [share for share in own["labels"].values() if share == share]
        found["prediction_sets"][percent] = {
            **{name: own[name] for name in ("coverage", "size", "empty")},
            "worst_label": min(labels),
            "labels_below": sum(share < int(percent) / 100 for share in labels),
        }
    return found


def measured(dev: Part, test: Part, limits: Any, names: Sequence[str], resamples: int = 0) -> list[dict[str, Any]]:
    """The figures of the test part, and then those of resampled rows."""
    chosen = thresholds(dev, limits)
    sure = test.probabilities.max(axis=1)
    lost = losses(test.gold, test.probabilities, limits)
    generator, all_rows = np.random.default_rng(0), np.arange(len(lost))
    draws = [all_rows, *(generator.choice(all_rows, len(all_rows)) for _ in range(resamples))]
    return [figures(chosen, Part(*(part[rows] for part in test)), sure[rows], lost[rows], names) for rows in draws]


def with_errors(dev: Part, test: Part, limits: Any, names: Sequence[str]) -> dict[str, Any]:
    """The figures, and beside each as NAME_se its standard error over resampled test rows."""
    value, *draws = measured(dev, test, limits, names, RESAMPLES)
    return joined([value], draws, "se")


def joined(values: Sequence[Any], draws: Sequence[Any], suffix: str) -> dict[str, Any]:
    """The mean of figures over `values`, and beside each as NAME_SUFFIX the standard deviation over `draws`."""
    result: dict[str, Any] = {}
    for name, first in values[0].items():
        own, others = [each[name] for each in values], [each[name] for each in draws]
        if isinstance(first, dict):
            result[name] = joined(own, others, suffix)
        else:
            result |= {name: float(np.mean(own)), f"{name}_{suffix}": float(np.std(others, ddof=1))}
    return result


def candidates(part: Part, limits: np.ndarray) -> dict[str, float]:
    """AURC of three confidences of a multi-label model."""
    scores, lost = part.probabilities, losses(part.gold, part.probabilities, limits)
    each = {
        "mean_certainty": np.maximum(scores, 1 - scores).mean(axis=1),
        "least_margin": np.abs(scores - limits).min(axis=1),
        "largest_probability": scores.max(axis=1),
    }
    return {name: metrics.risk_coverage(sure, lost)["aurc"] for name, sure in each.items()}


def ready(data_dir: str | None, record: dict[str, Any]) -> None:
    predictor = Predictor("goemotions", device="cpu")
    limits, names = predictor.thresholds, predictor.labels

    def part(dataset: str, split: str) -> Part:
        rows = load_dataset_for(dataset, data_dir)[split]
        own = rows.features["labels"].feature.names
        gold = multi_hot(rows["labels"], len(own))[:, [own.index(name) for name in names]]
        return Part(gold, predictor.of_rows(rows, progress=True).astype(np.float64))

    dev, test = part("goemotions", "validation"), part("goemotions", "test")
    record["confidences"] = {"goemotions": {"validation": candidates(dev, limits), "test": candidates(test, limits)}}
    record["systems"]["goemotions"] = with_errors(dev, test, limits, names)
    sure, lost = dev.probabilities.max(axis=1), losses(dev.gold, dev.probabilities, limits)
    reached = {}
    for percent in (60, 70, 80, 90, 95):
        try:
            threshold = metrics.abstention_threshold(sure, lost, {"accuracy": percent / 100})
        except ValueError:
            reached[str(percent)] = None
            continue
        on_test = (test.probabilities.max(axis=1), losses(test.gold, test.probabilities, limits))
        reached[str(percent)] = metrics.answered(*on_test, threshold)
    record["systems"]["goemotions"]["accuracy"] = reached
    for name in OTHERS:
        own = part(name, "validation"), part(name, "test")
        record["confidences"][name] = {"validation": candidates(own[0], limits), "test": candidates(own[1], limits)}
        record["systems"][f"goemotions_on_{name}"] = with_errors(dev, own[1], limits, names)
        record["systems"][f"{name}_own_dev"] = with_errors(*own, limits, names)
    each = [found["validation"] for found in record["confidences"].values()]
    record["confidences"]["mean_of_validations"] = {
        name: float(np.mean([found[name] for found in each])) for name in each[0]
    }


def heads(data_dir: str | None, seeds: Sequence[int], record: dict[str, Any]) -> None:
    splits = load_dataset_for("emotion6", data_dir, dedupe=True)
    names = splits["train"].features["labels"].names
    folder = resolve_base_model("minilm")
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()

    def embed(texts: Sequence[str]) -> np.ndarray:
        vectors = np.empty((len(texts), model.config.hidden_size), np.float32)
        order = np.argsort([len(text) for text in texts])
        for start in range(0, len(texts), 64):
            rows = order[start : start + 64]
            inputs = tokenizer(
                [texts[row] for row in rows], padding=True, truncation=True, max_length=64, return_tensors="pt"
            )
            with torch.inference_mode():
                states = model(**inputs).last_hidden_state
            mask = inputs["attention_mask"].unsqueeze(-1)
            vectors[rows] = ((states * mask).sum(1) / mask.sum(1)).numpy()
        return vectors

    rows = np.random.default_rng(0).permutation(len(splits["train"]))[: 2 * TRAIN_ROWS]
    train = splits["train"].select(rows.tolist())
    vectors = {
        "train": embed(train["text"]),
        **{split: embed(splits[split]["text"]) for split in ("validation", "test")},
    }
    gold = {
        "train": np.array(train["labels"]),
        **{split: np.array(splits[split]["labels"]) for split in ("validation", "test")},
    }
    each, accuracies = [], []
    for seed in seeds:
        own = np.random.default_rng(seed).permutation(len(train))[:TRAIN_ROWS]
        head = LogisticRegression(C=10, max_iter=2000).fit(vectors["train"][own], gold["train"][own])
        dev, test = (Part(gold[split], head.predict_proba(vectors[split])) for split in ("validation", "test"))
        each += measured(dev, test, None, names)
        accuracies.append(1 - each[-1]["risk"])
        print("head", seed, accuracies[-1], flush=True)
    record["systems"]["emotion6_heads"] = joined(each, each, "std")


def finished(name: str, run: Path, record: dict[str, Any]) -> None:
    report = RunReport.read(run)
    limits = report.runs[0].thresholds
    found = {split: read_predictions(run, split, report.multi_label) for split in ("validation", "test")}
    dev, test = (Part(own.gold, own.probabilities) for own in found.values())
    record["systems"][name] = with_errors(
        dev, test, None if limits is None else list(limits.values()), found["test"].names
    )


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", action="append", default=[], help="NAME=RUN of a finished run")
    parser.add_argument("--skip", action="append", default=[], choices=["ready", "heads"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--data-dir")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, required=True, help="JSON file; entries of other names stay")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    record = recorded(arguments.output) or {"systems": {}}
    record["settings"] = {"resamples": RESAMPLES, "train_rows": TRAIN_ROWS, "seeds": arguments.seeds}
    if "ready" not in arguments.skip:
        ready(arguments.data_dir, record)
    if "heads" not in arguments.skip:
        heads(arguments.data_dir, arguments.seeds, record)
    for given in arguments.run:
        name, _, run = given.partition("=")
        finished(name, Path(run), record)
    record["machine"] = machine(arguments.threads)
    write_json(arguments.output, record)


if __name__ == "__main__":
    main()
