# SPDX-License-Identifier: Apache-2.0
"""Measures a classifier with GoEmotions' labels in six languages."""

from typing import Any

from hf_emotion.modeling.text_processing import temperature_of

from hf_emotion.tasks import corpus_of
from hf_emotion.tasks.base import Table
from hf_emotion.tasks.classifier_evaluating import result_of, rows_for
from hf_emotion.tasks.emotion_classification.predictor import Predictor
from hf_emotion.tasks.loading import CorpusSplit


CORPUS = "languages"
ENGLISH = "en"
# figure -> (kind of thresholds, metric)
FIGURES = {
    "macro_f1_stored": ("tuned", "macro_f1"),
    "macro_f1_fixed": ("fixed", "macro_f1"),
    "macro_average_precision": ("fixed", "macro_average_precision"),
}


def measure_languages(predictor: Predictor) -> dict[str, dict[str, Any]]:
    """
    Language -> "rows", "macro_f1_stored" (at the model's own thresholds), "macro_f1_fixed" (at 0.3), "macro_average_precision" and
    "unknown" (texts that hold much that the tokenizer does not know), on the packaged sentences.
    """
    found = {}
    for language in corpus_of(CORPUS).languages:
        rows, names, gold = rows_for(predictor, CorpusSplit(CORPUS, options={"language": language}))
        order = [predictor.labels.index(name) for name in names]
        encoded = predictor.encode(rows["text"])
        own = predictor.label_probabilities(encoded)
        kinds = result_of(
            CORPUS,
            gold,
            own[:, order],
            names,
            decisions=predictor.decide(own)[:, order],
            temperature=temperature_of(predictor.model.config),
        )["metrics"]
        figures = {name: kinds[kind][metric] for name, (kind, metric) in FIGURES.items()}
        found[language] = {"rows": len(rows), **figures, "unknown": encoded.unread.counts.unknown}
    return found


def table(models: dict[str, dict[str, dict[str, Any]]]) -> Table:
    """A row for each model and language, with the differences to English in brackets."""
    rows = [
        [
            model,
            language,
            *(
                f"{found[name]:.3f}" + ("" if language == ENGLISH else f" ({found[name] - of[ENGLISH][name]:+.3f})")
                for name in FIGURES
            ),
            f"{found['unknown']} of {found['rows']}",
        ]
        for model, of in models.items()
        for language, found in of.items()
    ]
    titles = ["macro-F1, own thresholds", "macro-F1 at 0.3", "average precision", "much unknown"]
    return Table(["model", "language", *titles], rows)
