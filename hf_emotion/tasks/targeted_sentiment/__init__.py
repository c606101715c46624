# SPDX-License-Identifier: Apache-2.0
"""Sentiment towards the aspects of targets in texts."""

from ..base import FileColumns, Task, later
from .corpora import CORPORA


TASK = Task(
    name="targeted-sentiment",
    reads="texts with aspects",
    corpora=CORPORA,
    columns=frozenset({"aspect", "auxiliary", "context_id"}),
    model_types=("cg-bert", "qacg-bert"),
    recipe_fields=frozenset({"one_model_per_context"}),
    stock=True,
    auto_class="AutoModelForSequenceClassification",
    predictor_class="TargetedPredictor",
    owns=lambda config: getattr(config, "aspects", None) is not None,
    ran=lambda report: report["contexts"] is not None,
    file_columns=FileColumns(),
    texts=later(__name__, "rows.texts"),
    counted_texts=later(__name__, "rows.counted_texts"),
    gold=later(__name__, "rows.gold"),
    units=later(__name__, "rows.units"),
    contexts=later(__name__, "rows.contexts"),
    complete=later(__name__, "building.complete"),
    check_recipe=later(__name__, "building.check_recipe"),
    warn=later(__name__, "building.warn"),
    arguments=later(__name__, "building.arguments"),
    parts=later(__name__, "building.parts"),
    prepare=later(__name__, "building.prepare"),
    finish=later(__name__, "building.finish"),
    card=later(__name__, "card.card"),
    predictor=later(__name__, "predictor.TargetedPredictor"),
    answer=later(__name__, "showing.answer"),
    options=frozenset({"targets"}),
    loader_options=later(__name__, "evaluating.loader_options"),
    evaluate=later("hf_emotion.tasks", "classifier_evaluating.evaluate_single"),
    figures=later("hf_emotion.tasks", "classifier_evaluating.figures"),
    aspect_errors=later(__name__, "evaluating.aspect_errors"),
    explains=frozenset({"labels", "targets", "aspects", "method", "layer", "head"}),
    explain=later(__name__, "explaining.explain"),
    row_questions=later(__name__, "explaining.row_questions"),
    word_scores=later(__name__, "explaining.word_scores"),
    guidance=later(__name__, "guidance.of_run"),
    page=later(__name__, "page.page"),
    exporter=later(__name__, "exporting.exporter"),
    ask=later(__name__, "space.ask"),
)
