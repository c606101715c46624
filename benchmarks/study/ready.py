# SPDX-License-Identifier: Apache-2.0
"""Turns a finished run with an adapter into the files of a ready model, and measures it, to choose it and for its card."""

import dataclasses
import json
import shutil
import tempfile
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import onnx
import torch
from hf_emotion.modeling.text_processing import temperature_of
from onnx import external_data_helper, numpy_helper
from safetensors.numpy import load_file, save_file

from hf_emotion import metrics
from hf_emotion.data.splits import label_names
from hf_emotion.inference import load_predictor
from hf_emotion.io.files import creating, refuse_taken, sha256_of, write_json, write_text
from hf_emotion.run_report import RunReport
from hf_emotion.runs.evaluate import evaluate
from hf_emotion.runtime import ready
from hf_emotion.runtime.exported import write_exported_config, write_tokenizer_facts
from hf_emotion.runtime.loading import auto_class_of, read_config, read_tokenizer
from hf_emotion.runtime.ready import CARD, FACTS, ReadyModel
from hf_emotion.tasks import task_of
from hf_emotion.tasks.aspect_extraction.predictor import AspectPredictor
from hf_emotion.tasks.cards import table as markdown_table
from hf_emotion.tasks.classifier_evaluating import rows_for
from hf_emotion.tasks.dialogue_emotion.predictor import DialoguePredictor
from hf_emotion.tasks.emotion_classification.predictor import Predictor
from hf_emotion.tasks.emotional_response.predictor import ReplyGenerator
from hf_emotion.tasks.loading import CorpusSplit, load_split
from hf_emotion.tasks.targeted_sentiment.predictor import TargetedPredictor
from hf_emotion.training.adapters import FOLDER

from . import languages
from .transfer import WORDS, identity_terms, transfer


ENCODER = "model.safetensors"
OF_GENERATOR = ("config.json", "generation_config.json", "chat_template.jinja")
LARGEST_TOKENIZER = 5e6  # bytes; a larger one stays with the encoder
LARGEST_IN_GRAPH = 1024  # bytes; larger constants are stored beside the graph
LARGEST_OF_NONE = 8192  # bytes; up to this a graph keeps what is no parameter: both biases of an LSTM are one constant
PARTS = ("validation", "test")
# Corpora with the labels of GoEmotions, and corpora that are measured through the groups of Ekman; and what is kept of their figures.
OWN_LABELS = ("goemotions", "quickstart", "everyday", "messages")
OWN = tuple("macro_f1 micro_f1 top1_accuracy fixed_macro_f1 tuned_here_macro_f1 ece_without_temperature ece".split())
THROUGH_EKMAN = ("emotion6", "meld")
EKMAN = ("macro_f1", "accuracy", "majority", "rows")
ASPECT_OF, EMOTIONS_OF = WORDS["aspects"], WORDS["emotions"]
TERMS_ELSEWHERE = "semeval2014_terms"


def pack(
    run: Path, output: Path, description: str, terms: str, card: str, intensity: float = 1.0, generation: Mapping = {}
) -> ReadyModel:
    """
    Write the files of a ready model into a new or empty folder, whose name becomes the model's: the adapter in float16, of a classifier the
    graph without weights, and the facts about both. `run`: of a recipe with `adapter`, over one of `ready.HUB_IDS`. `card`: Markdown, below the
    run's. `intensity`: of modulated norms, the weight in the run that is 1 in the ready model. `generation`: settings that replace the run's.
    """
    refuse_taken(output)
    adapter = run / FOLDER
    if not (adapter / ready.ADAPTER).is_file():
        raise OSError(f"{run} has no adapter: train it from a recipe with `adapter`.")
    adapter_config = json.loads((adapter / ready.ADAPTER_CONFIG).read_text(encoding="utf-8"))
    encoder = adapter_config["base_model_name_or_path"]
    if encoder not in ready.HUB_IDS.values():
        raise ValueError(
            f"{run} is an adapter over {encoder!r}; ready models need one of {[*ready.HUB_IDS.values()]}."
        )
    report = RunReport.read(run)
    config = read_config(run)
    task = task_of(config)
    with creating(output) as folder:
        weights = load_file(adapter / ready.ADAPTER)
        for name in weights:
            if name.endswith("emotion_modulation.input_weight"):  # W₁, so that (intensity W₁) c = W₁ (intensity c)
                weights[name] *= intensity
        # Eight significant bits, as bfloat16 has, are enough, and what is left of float16 is a sixth smaller in the wheel.
        half = {name: torch.from_numpy(value).bfloat16().half().numpy() for name, value in weights.items()}
        save_file(half, folder / ready.ADAPTER, metadata={"format": "pt"})
        write_json(folder / ready.ADAPTER_CONFIG, adapter_config)
        config.name_or_path = ""  # a folder of this machine
        generates = (run / "generation_config.json").is_file()
        for name in ("tokenizer_config.json", *(OF_GENERATOR if generates else ())):
            shutil.copyfile(run / name, folder / name)
        large = (run / "tokenizer.json").stat().st_size > LARGEST_TOKENIZER
        if not large:
            pieces = json.loads((run / "tokenizer.json").read_text(encoding="utf-8"))
            write_text(folder / "tokenizer.json", json.dumps(pieces, ensure_ascii=False, separators=(",", ":")))
        if generates:
            settings = json.loads((run / "generation_config.json").read_text(encoding="utf-8"))
            write_json(folder / "generation_config.json", {**settings, **generation})
            prefix, labels = "language_model.", config.emotions
        else:
            write_exported_config(config, folder)
            write_tokenizer_facts(read_tokenizer(run), folder)
            inside = next(name for name in half if ".encoder.layer." in name).removeprefix("base_model.model.")
            prefix, labels = inside.partition("encoder.layer.")[0], [*config.id2label.values()]
        # A model from a package that holds 4 bits is never the Hub's to the byte.
        in_bits = encoder in (ready.HUB_IDS["smollm2"], ready.HUB_IDS["e5"])
        digest = None if in_bits else sha256_of(ready.encoder_file(encoder, ENCODER))
        above = (run / CARD).read_text(encoding="utf-8").replace(f"# {report.name}\n", f"# {output.name}\n")
        write_text(folder / CARD, f"{above.rstrip()}\n\n{card.strip()}\n")
        dataclasses.replace(report, name=output.name).write(folder)
        facts: dict[str, Any] = {
            "description": description,
            "task": task.name,
            "auto_class": auto_class_of(config, task.auto_class),
            "model_type": config.model_type,
            "encoder": {"id": encoder, "files": {ENCODER: digest} | ({"tokenizer.json": None} if large else {})},
            "prefix": prefix,
            "labels": labels,
            "terms": terms,
            "files": {},
            "weights": [],
        }
        write_json(folder / FACTS, facts)
        if not generates:
            facts["weights"] = _write_graph(task, ReadyModel(folder), run)
        facts["files"] = {path.name: sha256_of(path) for path in sorted(folder.iterdir()) if path.name != FACTS}
        write_json(folder / FACTS, facts)
    return ReadyModel(output)


def _write_graph(task: Any, model: ReadyModel, run: Path) -> list[tuple[str, bool | str]]:
    """Write the graphs without their weights. Returns the parameters that they are, in order, each with its order, see `ready.in_order`."""
    exporter = task.exporter()
    predictor = exporter.load(run)
    weights = model.weights()
    own = predictor.model.state_dict()
    missing = sorted(own.keys() - weights.keys())
    if missing:
        raise ValueError(f"neither the encoder nor the adapter has {missing}: name them in `adapter.modules_to_save`.")
    weights = {name: weights[name] for name in own}
    predictor.model.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    predictor.model.float().cpu().eval()
    exporter.write(predictor, model.folder)
    by_bytes: dict[bytes, tuple[str, bool | str]] = {}
    for order in ("lstm", True, False):  # a square matrix fits both ways: not transposed
        for name, value in weights.items():
            if order != "lstm" or ".weight_" in name:
                by_bytes[ready.in_order(value, order).tobytes()] = (name, order)
    found, offset = [], 0
    for name, written in ready.GRAPHS.items():  # of dialogues two, else one
        if not (model.folder / written).is_file():
            continue
        graph = onnx.load(model.folder / written)
        for tensor in graph.graph.initializer:
            value = numpy_helper.to_array(tensor)
            content = value.tobytes()
            largest = LARGEST_IN_GRAPH if content in by_bytes else LARGEST_OF_NONE
            if len(content) <= largest or value.dtype != np.float32:
                continue
            if content not in by_bytes:
                raise ValueError(f"the graph has {tensor.name}, {len(content)} bytes that are not a parameter.")
            found.append(by_bytes[content])
            external_data_helper.set_external_data(tensor, ready.WEIGHTS, offset, len(content))
            tensor.ClearField("raw_data")
            offset += len(content)
        (model.folder / name).write_bytes(graph.SerializeToString())
        (model.folder / written).unlink()
    return found


def measure_ready(model: ReadyModel, data_dir: Path | None = None, rows: int | None = None) -> dict[str, Any]:
    """
    Measure a ready model, a classifier with onnxruntime, and write the figures into its ready.json and its card, and the errors on the validation
    part of its corpus, for `summarize`, into its metrics.json. `rows`: of BRIGHTER, the most of each language and part.
    """
    facts, report = dict(model.facts), RunReport.read(model.folder)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (ready.write_exported if model.is_graph else ready.write_checkpoint)(model, place)
        if not model.is_graph:  # replies are judged by benchmarks/replies.py
            figures = {"corpora": {report.dataset: measure_generator(ReplyGenerator(place), report.dataset)}}
        elif report.dataset == "brighter":
            own, counts = languages.with_language_thresholds(place, data_dir, rows)
            config = shutil.copyfile(place / "config.json", model.folder / "config.json")
            facts["languages"] = sorted(json.loads(config.read_text(encoding="utf-8"))["thresholds_by_language"])
            figures = languages.measure(place, own, data_dir, rows)
            text = languages.card(figures)
        else:
            predictor = load_predictor(place)
            figures, text = measure_classifier(predictor, report, data_dir)
            names, gold, scores = scored(predictor, report.dataset, "validation", data_dir)
            thresholds = None
            if predictor.multi_label:
                thresholds = [float(predictor.thresholds[predictor.labels.index(one)]) for one in names]
            counts = metrics.ValidationCounts.of(gold, scores, names, thresholds)
    if model.is_graph:
        report.best.validation_counts = counts.to_dict()
        report.write(model.folder)
        card = (model.folder / CARD).read_text(encoding="utf-8").rstrip()
        write_text(model.folder / CARD, f"{card}\n\n{text}\n")
        facts["files"] = {name: sha256_of(model.folder / name) for name in facts["files"]}
    write_json(model.folder / FACTS, facts | {"figures": figures})
    return figures


def measure_classifier(predictor: Any, report: RunReport, data_dir: Path | None) -> tuple[dict[str, Any], str]:
    """Figures, and what the card says of them."""
    if isinstance(predictor, Predictor):
        figures, terms = measure_everywhere(predictor, data_dir), []
        for kind, found in figures["identity_terms"].items():
            far, (one, other) = found["largest"], found["largest"]["terms"]
            largest = f"{far['range']:.3f} ({far['label']}, {far['template']!r}: {one} against {other})"
            terms.append(f"| {kind} | {found['mean_range']:.3f} | {largest} | {found['changed']:.0%} |")
        return figures, languages.CARDS["emotions"].format(corpora=_table(figures["corpora"]), terms="\n".join(terms))
    metric, rows = report.best.selected_by, []
    corpora: dict[str, dict[str, dict[str, float]]] = {}
    for name, part in product((one.name for one in predictor.task.corpora if one.packaged), PARTS):
        error = calibration_error(predictor, *scored(predictor, name, part)[1:])
        corpora.setdefault(name, {})[part] = _floats(evaluate(predictor, name, part)["metrics"]) | error
    if isinstance(predictor, DialoguePredictor):
        card, elsewhere = "dialogues", {name: measure_dialogues(predictor, name, data_dir) for name in EMOTIONS_OF}
    elif isinstance(predictor, AspectPredictor):
        found = _floats(evaluate(predictor, TERMS_ELSEWHERE, "test", data_dir)["metrics"])
        card, elsewhere = "terms", {TERMS_ELSEWHERE: found}
    else:
        card, elsewhere = "aspects", {name: measure_aspects(predictor, name, data_dir) for name in ASPECT_OF}
        for name, found in elsewhere.items():
            aspects = ", ".join(f"{theirs} as {ours}" for theirs, ours in ASPECT_OF[name].items())
            rows.append([name, aspects, f"{found['polarity_accuracy']:.3f}", f"{found['aspect_f1']:.3f}"])
    shown = markdown_table(["corpus, test part", "aspects", "polarity", "found"], rows, 2)
    shown = shown if rows else _table({name: {"test": found} for name, found in elsewhere.items()}, metric)
    text = languages.CARDS[card].format(corpora=_table(corpora, metric), elsewhere=shown)
    return {"corpora": corpora, "elsewhere": elsewhere}, text


def measure_everywhere(predictor: Predictor, data_dir: Path | None = None) -> dict[str, Any]:
    """Figures of a classifier with GoEmotions' labels on all corpora, and the mean macro-F1 of the validation parts, by which it is chosen."""
    corpora: dict[str, dict[str, Any]] = {}
    for name, part in product((*OWN_LABELS, *THROUGH_EKMAN), PARTS):
        if (name, part) == ("messages", "validation"):  # there is none
            continue
        if name in OWN_LABELS:
            figures, kept = measure_own(predictor, name, part, data_dir), OWN
        else:
            figures, kept = transfer(predictor, name, data_dir, part), EKMAN
        corpora.setdefault(name, {})[part] = {metric: figures[metric] for metric in kept}
    chosen_by = fmean(parts["validation"]["macro_f1"] for parts in corpora.values() if "validation" in parts)
    return {"corpora": corpora, "chosen_by": chosen_by, "identity_terms": identity_terms(predictor)}


def measure_own(predictor: Predictor, name: str, part: str, data_dir: Path | None = None) -> dict[str, float]:
    """The figures at the stored thresholds, macro-F1 at 0.3 and at thresholds tuned on these very rows, and the calibration error."""
    result = evaluate(predictor, name, part, data_dir)["metrics"]
    _, gold, scores = scored(predictor, name, part, data_dir)
    here = [metrics.threshold_curve(*column)["f1"].max() for column in zip(gold.T, scores.T, strict=True)]
    f1 = {"fixed_macro_f1": result["fixed"]["macro_f1"], "tuned_here_macro_f1": float(np.mean(here))}
    return result["tuned"] | f1 | calibration_error(predictor, gold, scores)


def measure_aspects(predictor: TargetedPredictor, dataset: str, data_dir: Path | None) -> dict[str, float]:
    """
    Measure a model of `reviews` on a corpus that it never trained on, by `ASPECT_OF`: accuracy of the polarity (as the three-way one of
    SemEval-2014) where the gold label is one, and F1 of the pairs that are found, whatever the label.
    """
    rows = load_split(dataset, "test", data_dir)
    names, aspects = label_names(rows), rows.features["aspect"].names
    rows = rows.select([i for i, aspect in enumerate(rows["aspect"]) if aspects[aspect] in ASPECT_OF[dataset]])
    asked = [ASPECT_OF[dataset][aspects[aspect]] for aspect in rows["aspect"]]
    gold = np.array([names[label] for label in rows["labels"]])
    known = predictor.model.config.aspects
    texts = list(dict.fromkeys(rows["text"]))
    of_pair = predictor.probabilities(texts).reshape(len(texts), len(known), -1)
    pairs = [(texts.index(text), known.index(aspect)) for text, aspect in zip(rows["text"], asked, strict=True)]
    scores = of_pair[tuple(np.transpose(pairs))]
    sentiments = [name for name in ("positive", "neutral", "negative") if name in names]
    opinion = np.isin(gold, sentiments)
    best = scores[:, [predictor.labels.index(name) for name in sentiments]].argmax(axis=1)
    found, named = scores.argmax(axis=1) != predictor.labels.index("none"), gold != "none"
    polarity = float((np.array(sentiments)[best] == gold)[opinion].mean())
    f1 = float(2 * (found & named).sum() / (found.sum() + named.sum()))
    return {"polarity_accuracy": polarity, "aspect_f1": f1, "rows": len(rows)}


def measure_dialogues(predictor: DialoguePredictor, dataset: str, data_dir: Path | None) -> dict[str, float]:
    """Measure a model of `dialogues` on a corpus that it never trained on, by `EMOTIONS_OF`."""
    rows = load_split(dataset, "test", data_dir)
    scores, names = predictor.of_rows(rows), label_names(rows)
    theirs = np.zeros((len(scores), len(names)))
    for ours, name in EMOTIONS_OF[dataset].items():
        theirs[:, names.index(name)] += scores[:, predictor.labels.index(ours)]
    return _floats(metrics.dialogue(np.concatenate(rows["labels"]), theirs, names))


def measure_generator(generator: ReplyGenerator, dataset: str) -> dict[str, dict[str, float]]:
    """The perplexity per token of the human replies, by part."""
    found = {}
    for part in PARTS:
        rows = load_split(dataset, part)
        emotions = [generator.emotions[label] for label in rows["labels"]]
        losses = generator.token_losses(rows["context"], rows["reply"], emotions, batch_size=32, progress=True)
        found[part] = {"perplexity": float(np.exp(losses.mean()))}
    return found


def scored(
    predictor: Any, dataset: str, split: str, data_dir: Path | None = None
) -> tuple[list, np.ndarray, np.ndarray]:
    """The labels of a corpus, the gold ones of its rows, and the probabilities (N, C)."""
    rows, names, gold = rows_for(predictor, CorpusSplit(dataset, split, data_dir))
    return names, gold.values, predictor.of_rows(rows)[:, [predictor.labels.index(name) for name in names]]


def calibration_error(predictor: Any, gold: np.ndarray, scores: np.ndarray) -> dict[str, float]:
    """The expected calibration error of `scored`, without and with the model's temperature."""
    raw = metrics.temperature_scaled(scores, 1 / temperature_of(predictor.model.config), predictor.multi_label)
    both = {"ece_without_temperature": raw, "ece": scores}
    return {name: metrics.reliability(gold, values)["ece"] for name, values in both.items()}


def _floats(values: Mapping[str, Any]) -> dict[str, float]:
    """The plain figures of an evaluation."""
    inner = next(iter(values.values())) if all(isinstance(value, dict) for value in values.values()) else values
    return {name: value for name, value in inner.items() if isinstance(value, float)}


def _table(corpora: dict[str, dict[str, dict[str, Any]]], metric: str = "macro_f1") -> str:
    """Figures by corpus and part, the one that the model was chosen by first."""
    lines = [f"| corpus | part | {metric} | other figures |", "|---|---|---:|---|"]
    for name, parts in corpora.items():
        for part, figures in parts.items():
            others = [f"{k} {v:.3f}" for k, v in figures.items() if k != metric and isinstance(v, float)]
            lines.append(f"| {name} | {part} | {figures[metric]:.3f} | {', '.join(others)} |")
    return "\n".join(lines)
