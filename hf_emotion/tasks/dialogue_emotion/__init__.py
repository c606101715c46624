# SPDX-License-Identifier: Apache-2.0
"""The emotion of every turn of a dialogue."""

from ..base import FileColumns, Task, later
from .corpora import CORPORA


TASK = Task(
    name="dialogue-emotion",
    reads="dialogues",
    corpora=CORPORA,
    columns=frozenset({"utterances", "speakers"}),
    model_types=("dialogue-bilstm",),
    recipe_fields=frozenset({"class_weights", "languages"}),
    headline=("weighted_f1", "accuracy", "macro_f1", "micro_f1_without_neutral"),
    auto_class="AutoModelForTokenClassification",
    predictor_class="DialoguePredictor",
    owns=lambda config: config.model_type == "dialogue-bilstm",
    file_columns=FileColumns(text="utterance", grouped=True),
    texts=later(__name__, "rows.texts"),
    gold=later(__name__, "rows.gold"),
    units=later(__name__, "rows.units"),
    prepare=later(__name__, "building.prepare"),
    finish=later(__name__, "building.finish"),
    card=later(__name__, "card.card"),
    predictor=later(__name__, "predictor.DialoguePredictor"),
    exported=later(__name__, "onnx_model.OnnxDialogueClassifier"),
    answer=later(__name__, "showing.answer"),
    options=frozenset({"top_k"}),
    loader_options=later(__name__, "evaluating.loader_options"),
    evaluate=later("hf_emotion.tasks", "classifier_evaluating.evaluate_single"),
    figures=later("hf_emotion.tasks", "classifier_evaluating.figures"),
    explains=frozenset({"labels", "method"}),
    explain=later(__name__, "explaining.explain"),
    page=later(__name__, "page.page"),
    service=later(__name__, "service.service"),
    remote=later(__name__, "remote.RemotePredictor"),
    exporter=later(__name__, "exporting.exporter"),
    respond=later(__name__, "hub_programs.respond"),
)
