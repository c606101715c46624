# SPDX-License-Identifier: Apache-2.0
"""Emotions of texts: one label or several for each."""

from ..base import FileColumns, Task, later
from .corpora import CORPORA


TASK = Task(
    name="emotion-classification",
    reads="texts",
    corpora=CORPORA,
    columns=frozenset({"text"}),
    model_types=("label-aware-bert", "label-aware", "roberta-esa"),
    headline=("macro_f1", "accuracy", "micro_f1", "weighted_f1", "macro_average_precision"),
    recipe_fields=frozenset(
        {
            "label_texts",
            "max_windows",
            "languages",
            "shots",
            "few_shot",
            "class_weights",
            "positive_weights",
            "soft_labels",
            "teachers",
            "abstain",
            "prediction_sets",
        }
    ),
    stock=True,
    auto_class="AutoModelForSequenceClassification",
    predictor_class="Predictor",
    owns=lambda config: True,
    ran=lambda report: True,
    file_columns=FileColumns(),
    texts=later(__name__, "rows.texts"),
    gold=later(__name__, "rows.gold"),
    units=later(__name__, "rows.units"),
    check_recipe=later(__name__, "building.check_recipe"),
    over_base_model=later(__name__, "building.over_base_model"),
    arguments=later(__name__, "few_shot.arguments"),
    prepare=later(__name__, "building.prepare"),
    finish=later(__name__, "building.finish"),
    card=later(__name__, "card.card"),
    predictor=later(__name__, "predictor.Predictor"),
    answer=later(__name__, "showing.answer"),
    predictor_options=frozenset({"taxonomy", "stride", "max_windows", "aggregation_strategy", "add_labels"}),
    options=frozenset({"top_k"}),
    loader_options=later(__name__, "evaluating.loader_options"),
    evaluate=later(__name__, "evaluating.evaluate"),
    figures=later("hf_emotion.tasks", "classifier_evaluating.figures"),
    settings=frozenset({"threshold"}),
    explains=frozenset({"labels", "method"}),
    explain=later(__name__, "explaining.explain"),
    row_questions=later(__name__, "explaining.row_questions"),
    word_scores=later(__name__, "explaining.word_scores"),
    page=later(__name__, "page.page"),
    service=later(__name__, "service.service"),
    remote=later(__name__, "remote.RemotePredictor"),
    exporter=later(__name__, "exporting.exporter"),
    respond=later(__name__, "hub_programs.respond"),
)
