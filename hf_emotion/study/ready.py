# SPDX-License-Identifier: Apache-2.0
"""
A classifier of GoEmotions' labels on everything that a ready model is chosen and described by: the corpora with its labels, and
others through the groups of Ekman.

    hf-emotion study ready runs/ready_goemotions --data-dir DATA
"""

from pathlib import Path
from typing import Any

from ..runs.evaluate import evaluate
from ..tasks.emotion_classification.predictor import Predictor
from .transfer import identity_terms, transfer


OWN_LABELS = {
    "goemotions": ("validation", "test"),
    "quickstart": ("validation", "test"),
    "everyday": ("validation", "test"),
}
THROUGH_EKMAN = {"emotion6": ("validation", "test"), "meld": ("validation", "test")}
SHOWN = ("macro_f1", "micro_f1", "top1_accuracy")


def measure_everywhere(predictor: Predictor, data_dir: str | Path | None = None) -> dict[str, Any]:
    """
    Returns:
        {"corpora": {corpus: {part: figures}}, "chosen_by", "identity_terms"}. Figures: macro-F1, micro-F1 and top-1 accuracy at the
        tuned thresholds, or accuracy and macro-F1 over the groups of Ekman; "chosen_by" is the mean macro-F1 of the development parts,
        by which a model is chosen.
    """
    corpora: dict[str, dict[str, Any]] = {}
    for name, parts in OWN_LABELS.items():
        for part in parts:
            tuned = evaluate(predictor, name, part, data_dir)["metrics"]["tuned"]
            corpora.setdefault(name, {})[part] = {metric: tuned[metric] for metric in SHOWN}
    for name, parts in THROUGH_EKMAN.items():
        for part in parts:
            figures = transfer(predictor, name, data_dir, part)
            kept = ("accuracy", "macro_f1", "majority", "rows", "groups")
            corpora.setdefault(name, {})[part] = {metric: figures[metric] for metric in kept}
    chosen_by = [parts["validation"]["macro_f1"] for parts in corpora.values() if "validation" in parts]
    return {
        "corpora": corpora,
        "chosen_by": sum(chosen_by) / len(chosen_by),
        "identity_terms": identity_terms(predictor),
    }


__all__ = ["measure_everywhere"]
