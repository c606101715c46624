# SPDX-License-Identifier: Apache-2.0
"""Measures ready models, to choose them and for their cards."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hf_emotion.modeling.text_processing import temperature_of

from hf_emotion import metrics
from hf_emotion.data.splits import label_names
from hf_emotion.inference import load_predictor
from hf_emotion.io.files import sha256_of, write_json, write_text
from hf_emotion.run_report import RunReport
from hf_emotion.runs.evaluate import evaluate
from hf_emotion.runtime.ready import CARD, FACTS, ReadyModel, write_checkpoint, write_exported
from hf_emotion.tasks.aspect_extraction.predictor import AspectPredictor
from hf_emotion.tasks.base import Task
from hf_emotion.tasks.cards import table as markdown_table
from hf_emotion.tasks.classifier_evaluating import rows_for
from hf_emotion.tasks.emotion_classification.predictor import Predictor
from hf_emotion.tasks.emotional_response.predictor import ReplyGenerator
from hf_emotion.tasks.loading import CorpusSplit, load_split
from hf_emotion.tasks.targeted_sentiment.predictor import TargetedPredictor

from .transfer import identity_terms, transfer


PARTS = ("validation", "test")
# Corpora with the labels of GoEmotions, and corpora that are measured through the groups of Ekman.
OWN_LABELS = ("goemotions", "quickstart", "everyday", "messages")
THROUGH_EKMAN = ("emotion6", "meld")
# What the aspects of other corpora are among those of the ready model `reviews`; the rest has no counterpart.
ASPECT_OF = {
    "semeval2014": {"food": "quality", "service": "service", "ambience": "comfort", "price": "price"},
    "sentihood": {"price": "price", "transit-location": "location"},
}
TERMS_ELSEWHERE = "semeval2014_terms"
OWN = "macro_f1 micro_f1 top1_accuracy fixed_macro_f1 tuned_here_macro_f1 ece_without_temperature ece"
KEPT = {"own": tuple(OWN.split()), "ekman": ("macro_f1", "accuracy", "majority", "rows")}


def measure_everywhere(predictor: Predictor, data_dir: str | Path | None = None) -> dict[str, Any]:
    """
    Measure a classifier with GoEmotions' labels on all corpora.
    {"corpora": {corpus: {part: figures}}, "chosen_by" (the mean macro-F1 of the validation parts), "identity_terms"}. Figures are those
    at the tuned thresholds, or those over the groups of Ekman.
    """
    corpora: dict[str, dict[str, Any]] = {}
    for name in (*OWN_LABELS, *THROUGH_EKMAN):
        corpora[name] = {}
        for part in PARTS if name != "messages" else ("test",):  # it has no other part
            if name in OWN_LABELS:
                figures, kept = measure_own(predictor, name, part, data_dir), KEPT["own"]
            else:
                figures, kept = transfer(predictor, name, data_dir, part), KEPT["ekman"]
            corpora[name][part] = {metric: figures[metric] for metric in kept}
    chosen_by = [parts["validation"]["macro_f1"] for parts in corpora.values() if "validation" in parts]
    return {
        "corpora": corpora,
        "chosen_by": sum(chosen_by) / len(chosen_by),
        "identity_terms": identity_terms(predictor),
    }


def measure_own(predictor: Predictor, name: str, part: str, data_dir: str | Path | None = None) -> dict[str, float]:
    """The figures at the stored thresholds, macro-F1 at 0.3 and at thresholds tuned on these very rows, and the calibration error."""
    result = evaluate(predictor, name, part, data_dir)["metrics"]
    gold, scores = scored(predictor, name, part, data_dir)
    here = np.array([best_f1(gold[:, i], scores[:, i]) for i in range(gold.shape[1])])
    return {
        **result["tuned"],
        "fixed_macro_f1": result["fixed"]["macro_f1"],
        "tuned_here_macro_f1": float(here.mean()),
        **calibration_error(predictor, gold, scores),
    }


def best_f1(gold: np.ndarray, scores: np.ndarray) -> float:
    """The largest F1 that a threshold reaches on these rows."""
    order = np.argsort(-scores, kind="stable")
    hits, ranked = np.cumsum(gold[order]), scores[order]
    last = np.append(ranked[1:] != ranked[:-1], True)  # equal scores pass together
    return float((2 * hits / (np.arange(1, len(gold) + 1) + gold.sum()))[last].max())


def measure_aspects(
    predictor: TargetedPredictor, dataset: str, split: str, data_dir: str | Path | None = None
) -> dict[str, float]:
    """
    Measure a model of `reviews` on a corpus that it never trained on, whose aspects are mapped by `ASPECT_OF`.
    "polarity_accuracy" of the pairs whose gold label is positive, negative or (SemEval-2014) neutral, among these labels, as the
        three-way accuracy of SemEval-2014; "aspect_f1" of the pairs that are found, whatever the label; "rows": the number of pairs.
    """
    rows = load_split(dataset, split, data_dir)
    names, aspects = label_names(rows), rows.features["aspect"].names
    mapped = [i for i, aspect in enumerate(rows["aspect"]) if aspects[aspect] in ASPECT_OF[dataset]]
    rows = rows.select(mapped)
    asked = [ASPECT_OF[dataset][aspects[aspect]] for aspect in rows["aspect"]]
    gold = np.array([names[label] for label in rows["labels"]])
    known = predictor.model.config.aspects
    texts = list(dict.fromkeys(rows["text"]))
    of_pair = predictor.probabilities(texts).reshape(len(texts), len(known), -1)
    scores = np.stack(
        [of_pair[texts.index(text), known.index(a)] for text, a in zip(rows["text"], asked, strict=True)]
    )
    sentiments = [name for name in ("positive", "neutral", "negative") if name in names]
    columns = [predictor.labels.index(name) for name in sentiments]
    opinion = np.isin(gold, sentiments)
    polarity = np.array(sentiments)[scores[:, columns].argmax(axis=1)]
    found, named = scores.argmax(axis=1) != predictor.labels.index("none"), gold != "none"
    return {
        "polarity_accuracy": float((polarity == gold)[opinion].mean()),
        "aspect_f1": float(2 * (found & named).sum() / (found.sum() + named.sum())),
        "rows": len(rows),
    }


def measure_ready(model: ReadyModel, data_dir: str | Path | None = None) -> dict[str, Any]:
    """
    Measure a ready model with onnxruntime after it was packed, and write the figures into its ready.json and its card. A model for
    another task is measured on the packaged corpora of that task.
    """
    facts = dict(model.facts)
    report = RunReport.read(model.folder)
    if not model.is_graph:  # replies are judged by benchmarks/replies.py
        facts["figures"] = {"corpora": {report.dataset: measure_generator(model, report.dataset)}}
        write_json(model.folder / FACTS, facts)
        return facts["figures"]
    metric = report.best.selected_by
    with tempfile.TemporaryDirectory() as place:
        write_exported(model, Path(place))
        predictor = load_predictor(place)
        if isinstance(predictor, Predictor):
            facts["figures"] = measure_everywhere(predictor, data_dir)
            text = _card_of_emotions(facts["figures"])
        else:
            facts["figures"] = {"corpora": {}}
            for name in packaged_corpora(predictor.task):
                facts["figures"]["corpora"][name] = {
                    part: _floats(evaluate(predictor, name, part)["metrics"])
                    | calibration_error(predictor, *scored(predictor, name, part))
                    for part in PARTS
                }
            text = _table(facts["figures"]["corpora"], metric)
            if isinstance(predictor, AspectPredictor):
                figures = _floats(evaluate(predictor, TERMS_ELSEWHERE, "test", data_dir)["metrics"])
                facts["figures"]["elsewhere"] = {TERMS_ELSEWHERE: figures}
                elsewhere = _table({TERMS_ELSEWHERE: {"test": figures}}, metric)
                text += f"\n\n## On other corpora\n\nNever trained on.\n\n{elsewhere}"
            else:
                facts["figures"]["elsewhere"] = {
                    name: measure_aspects(predictor, name, "test", data_dir) for name in ASPECT_OF
                }
                text += "\n\n" + _elsewhere(facts["figures"]["elsewhere"])
    card = (model.folder / CARD).read_text(encoding="utf-8").rstrip()
    write_text(model.folder / CARD, f"{card}\n\n{text}\n")
    facts["files"] = {name: sha256_of(model.folder / name) for name in facts["files"]}
    write_json(model.folder / FACTS, facts)
    keep_validation_counts(ReadyModel(model.folder), data_dir)
    return facts["figures"]


def measure_generator(model: ReadyModel, dataset: str) -> dict[str, dict[str, float]]:
    """The perplexity per token of the human replies, by part."""
    with tempfile.TemporaryDirectory() as place:
        write_checkpoint(model, Path(place))
        generator = ReplyGenerator(place)
    found = {}
    for part in PARTS:
        rows = load_split(dataset, part)
        emotions = [generator.emotions[label] for label in rows["labels"]]
        losses = generator.token_losses(rows["context"], rows["reply"], emotions, batch_size=32, progress=True)
        found[part] = {"perplexity": float(np.exp(losses.mean()))}
    return found


def keep_validation_counts(model: ReadyModel, data_dir: str | Path | None = None) -> dict[str, Any]:
    """
    Measure a ready model's errors on the validation part of its corpus with onnxruntime, put them into its metrics.json, for `summarize`, and
    write the new SHA-256 into its ready.json.
    """
    report = RunReport.read(model.folder)
    with tempfile.TemporaryDirectory() as place:
        write_exported(model, Path(place))
        predictor = load_predictor(place)
        rows, names, gold = rows_for(predictor, CorpusSplit(report.dataset, "validation", data_dir))
        scores = predictor.of_rows(rows)[:, [predictor.labels.index(name) for name in names]]
    thresholds = None
    if predictor.multi_label:
        thresholds = [float(predictor.thresholds[predictor.labels.index(name)]) for name in names]
    report.best.validation_counts = metrics.ValidationCounts.of(gold, scores, names, thresholds).to_dict()
    report.write(model.folder)
    files = {name: sha256_of(model.folder / name) for name in model.facts["files"]}
    write_json(model.folder / FACTS, {**model.facts, "files": files})
    return report.best.validation_counts


def scored(
    predictor: Any, dataset: str, split: str, data_dir: str | Path | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The gold labels and the probabilities (N, C) of a corpus, in the order of its labels."""
    rows, names, gold = rows_for(predictor, CorpusSplit(dataset, split, data_dir))
    return gold, predictor.of_rows(rows)[:, [predictor.labels.index(name) for name in names]]


def calibration_error(predictor: Any, gold: np.ndarray, scores: np.ndarray) -> dict[str, float]:
    """The expected calibration error of `scored`, without and with the model's temperature."""
    temperature = temperature_of(predictor.model.config)
    raw = metrics.temperature_scaled(scores, 1 / temperature, predictor.multi_label)
    return {
        "ece_without_temperature": metrics.reliability(gold, raw)["ece"],
        "ece": metrics.reliability(gold, scores)["ece"],
    }


def packaged_corpora(task: Task) -> list[str]:
    return [corpus.name for corpus in task.corpora if corpus.packaged]


def _floats(values: dict[str, Any]) -> dict[str, float]:
    """The plain figures of an evaluation."""
    inner = next(iter(values.values())) if all(isinstance(value, dict) for value in values.values()) else values
    return {name: value for name, value in inner.items() if isinstance(value, float)}


def _table(corpora: dict[str, dict[str, dict[str, Any]]], metric: str = "macro_f1") -> str:
    """Figures by corpus and part, the one that the model was chosen by first."""
    lines = [f"| corpus | part | {metric} | other figures |", "|---|---|---:|---|"]
    for name, parts in corpora.items():
        for part, figures in parts.items():
            others = ", ".join(
                f"{other} {value:.3f}"
                for other, value in figures.items()
                if other != metric and isinstance(value, float)
            )
            lines.append(f"| {name} | {part} | {figures[metric]:.3f} | {others} |")
    return "\n".join(lines)


def _elsewhere(figures: dict[str, dict[str, float]]) -> str:
    rows = []
    for name, found in figures.items():
        aspects = ", ".join(f"{theirs} as {ours}" for theirs, ours in ASPECT_OF[name].items())
        rows.append([name, aspects, f"{found['polarity_accuracy']:.3f}", f"{found['aspect_f1']:.3f}"])
    return "\n".join(
        [
            "## On other corpora",
            "",
            "Never trained on. Polarity: accuracy where the aspect is gold. Found: F1 of the aspects, whatever the sentiment.",
            "",
            markdown_table(["corpus, test part", "aspects", "polarity", "found"], rows, names=2),
        ]
    )


def _card_of_emotions(figures: dict[str, Any]) -> str:
    identity = [
        f"| {kind} | {found['mean_range']:.3f} | {found['largest']['range']:.3f} ({found['largest']['label']}, "
        f"{found['largest']['template']!r}: {found['largest']['terms'][0]} against {found['largest']['terms'][1]}) | {found['changed']:.0%} |"
        for kind, found in figures["identity_terms"].items()
    ]
    return "\n".join(
        [
            "## On other texts",
            "",
            "goemotions, quickstart, everyday and messages by their own 28 labels at the tuned thresholds; emotion6 and meld through the groups of "
            "Ekman. The model was chosen by the mean macro-F1 of the validation parts.",
            "",
            _table(figures["corpora"]),
            "",
            "## Terms of identity",
            "",
            "How much a probability moves where only a term of identity changes in a neutral sentence.",
            "",
            "| terms | mean range of a probability | largest | sentences whose labels change |",
            "|---|---:|---|---:|",
            *identity,
        ]
    )
