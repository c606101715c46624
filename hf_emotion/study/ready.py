# SPDX-License-Identifier: Apache-2.0
"""
Measures ready models, to choose them and for their cards.

    hf-emotion study ready runs/ready_goemotions --output hf_emotion/ready/goemotions --notes docs/ready/goemotions.yaml
"""

import tempfile
from pathlib import Path
from typing import Any

from ..inference import load_predictor
from ..io.files import sha256_of, write_json, write_text
from ..runs.evaluate import evaluate
from ..runtime.ready import CARD, FACTS, ReadyModel, write_exported
from ..tasks.base import Task
from ..tasks.emotion_classification.predictor import Predictor
from .transfer import identity_terms, transfer


PARTS = ("validation", "test")
# Corpora with the labels of GoEmotions, and corpora that are measured through the groups of Ekman.
OWN_LABELS = ("goemotions", "quickstart", "everyday")
THROUGH_EKMAN = ("emotion6", "meld")
KEPT = {"own": ("macro_f1", "micro_f1", "top1_accuracy"), "ekman": ("macro_f1", "accuracy", "majority", "rows")}


def measure_everywhere(predictor: Predictor, data_dir: str | Path | None = None) -> dict[str, Any]:
    """
    Measure a classifier with GoEmotions' labels on all corpora.

    Returns:
        {"corpora": {corpus: {part: figures}}, "chosen_by", "identity_terms"}. Figures: macro-F1, micro-F1 and top-1 accuracy
        at the tuned thresholds, or macro-F1 and accuracy over the groups of Ekman; "chosen_by": the mean macro-F1 of the
        validation parts, by which the model was chosen.
    """
    corpora: dict[str, dict[str, Any]] = {}
    for name in (*OWN_LABELS, *THROUGH_EKMAN):
        corpora[name] = {}
        for part in PARTS:
            if name in OWN_LABELS:
                figures, kept = evaluate(predictor, name, part, data_dir)["metrics"]["tuned"], KEPT["own"]
            else:
                figures, kept = transfer(predictor, name, data_dir, part), KEPT["ekman"]
            corpora[name][part] = {metric: figures[metric] for metric in kept}
    chosen_by = [parts["validation"]["macro_f1"] for parts in corpora.values()]
    return {
        "corpora": corpora,
        "chosen_by": sum(chosen_by) / len(chosen_by),
        "identity_terms": identity_terms(predictor),
    }


def measure_ready(model: ReadyModel, data_dir: str | Path | None = None) -> dict[str, Any]:
    """
    Measure a ready model with onnxruntime after it was packed, and write the figures into its ready.json and its card. A model for
    another task is measured on the packaged corpora of that task.
    """
    facts = dict(model.facts)
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
                    part: _floats(evaluate(predictor, name, part)["metrics"]) for part in PARTS
                }
            text = _table(facts["figures"]["corpora"])
    card = (model.folder / CARD).read_text(encoding="utf-8").rstrip()
    write_text(model.folder / CARD, f"{card}\n\n{text}\n")
    facts["files"] = {name: sha256_of(model.folder / name) for name in facts["files"]}
    write_json(model.folder / FACTS, facts)
    return facts["figures"]


def packaged_corpora(task: Task) -> list[str]:
    return [corpus.name for corpus in task.corpora if corpus.packaged]


def _floats(values: dict[str, Any]) -> dict[str, float]:
    """The plain figures of an evaluation."""
    inner = next(iter(values.values())) if all(isinstance(value, dict) for value in values.values()) else values
    return {name: value for name, value in inner.items() if isinstance(value, float)}


def _table(corpora: dict[str, dict[str, dict[str, Any]]]) -> str:
    lines = ["| corpus | part | macro-F1 | other figures |", "|---|---|---:|---|"]
    for name, parts in corpora.items():
        for part, figures in parts.items():
            others = ", ".join(
                f"{metric} {value:.3f}"
                for metric, value in figures.items()
                if metric != "macro_f1" and isinstance(value, float)
            )
            lines.append(f"| {name} | {part} | {figures['macro_f1']:.3f} | {others} |")
    return "\n".join(lines)


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
            "goemotions, quickstart and everyday by their own 28 labels at the tuned thresholds; emotion6 and meld through the groups of "
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
