# SPDX-License-Identifier: Apache-2.0
"""Language models of conversations, from which generators of replies start."""

from ..base import Task, later
from .corpora import CORPORA


TASK = Task(
    name="language-modeling",
    reads="conversations",
    corpora=CORPORA,
    columns=frozenset({"turns"}),
    labelled=False,
    selects_labels=False,
    model_types=("gpt2",),
    headline=("perplexity",),
    auto_class="AutoModelForCausalLM",
    predictor_class=None,
    owns=lambda config: any(name.endswith("LMHeadModel") for name in getattr(config, "architectures", None) or []),
    texts=later(__name__, "rows.texts"),
    gold=later(__name__, "rows.gold"),
    arguments=later(__name__, "building.arguments"),
    prepare=later(__name__, "building.prepare"),
    finish=later("hf_emotion.tasks", "perplexity.finish"),
    card=later(__name__, "card.card"),
)
