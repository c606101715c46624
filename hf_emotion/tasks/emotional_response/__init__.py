# SPDX-License-Identifier: Apache-2.0
"""Replies to contexts in chosen emotions."""

from ..base import Task, later
from .corpora import CORPORA


TASK = Task(
    name="emotional-response",
    reads="replies",
    corpora=CORPORA,
    columns=frozenset({"context", "reply"}),
    selects_labels=False,
    model_types=("gpt2-mod-ln", "bert-mod-ln", "emotion-modulated"),
    headline=("perplexity",),
    recipe_fields=frozenset({"emotion_tokens"}),
    auto_class="AutoModelForSeq2SeqLM",
    predictor_class="ReplyGenerator",
    command="generate",
    owns=lambda config: hasattr(config, "modulated_norms"),
    texts=later(__name__, "rows.texts"),
    held_out_texts=later(__name__, "rows.held_out_texts"),
    gold=later(__name__, "rows.gold"),
    units=later(__name__, "rows.units"),
    as_texts=later(__name__, "rows.as_texts"),
    arguments=later(__name__, "building.arguments"),
    prepare=later(__name__, "building.prepare"),
    finish=later("hf_emotion.tasks", "perplexity.finish"),
    card=later(__name__, "card.card"),
    predictor=later(__name__, "predictor.ReplyGenerator"),
    loader_options=later(__name__, "evaluating.loader_options"),
    evaluate=later(__name__, "evaluating.evaluate_replies"),
    settings=frozenset({"judges", "contexts", "bertscore_model", "intensity", "seed"}),
    figures=later(__name__, "showing.figures"),
    explains=frozenset({"emotions", "reply"}),
    explain=later(__name__, "explaining.explain"),
    page=later(__name__, "page.page"),
    service=later(__name__, "service.service"),
    exporter=later(__name__, "exporting.exporter"),
    respond=later(__name__, "hub_programs.respond"),
)
