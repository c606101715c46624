# SPDX-License-Identifier: Apache-2.0
"""The model card of a model of targets and aspects."""

from pathlib import Path

from ...recipes import Recipe
from ...run_report import RunReport, SeedRun
from .. import corpus_of
from ..cards import MODEL, Card, base_names, code, configuration, plain
from ..classifier_cards import CORPUS_SHOWN, INDEXED, classifier_card
from . import LABEL_AWARE


ABOUT = {
    "cg-bert": "A context, the target and the aspect, guides the queries and keys of every layer: q̂ = (1−λ_Q) q + λ_Q ĉ_Q, and k̂ "
    "likewise; ĉ_Q is a projection of C = W_c [E_c ‖ X] + b + E_c, with the context's vector E_c and the layer's input X, and "
    "λ_Q = g(v_q·q + v_c·ĉ_Q).",
    **dict.fromkeys(
        LABEL_AWARE,
        "Each aspect with each label (but none) has a vector e that attends to the tokens H of the encoder, α = softmax(e W Hᵀ); its "
        "logit is FFN([α H ‖ s]), with one FFN for all and the sentence s. The labels of an aspect share a softmax, in which none has "
        "the logit 0. One pass over a text answers for all aspects of a target.",
    ),
    "qacg-bert": "A context, the target and the aspect, adds a quasi-attention that can subtract to the attention of every "
    "layer: Â = softmax(q kᵀ/√d_h) + λ_A σ(c_Q c_Kᵀ/√d_h), with λ_A = 1 − (λ_Q + λ_K) in [−1, 1]; c_Q and c_K are projections of "
    "C = W_c [E_c ‖ X] + b + E_c, with the context's vector E_c and the layer's input X.",
}


def card(folder: Path, recipe: Recipe, report: RunReport, best: SeedRun) -> Card:
    contexts = report.contexts
    assert contexts is not None
    named = {"Aspects": contexts["aspects"], "Targets": contexts["targets"]}
    return classifier_card(
        recipe,
        report,
        best,
        about=_about(recipe),
        use=_use(folder, recipe, best.seed, contexts["targets"]),
        tag="aspect-based-sentiment-analysis",
        indexed=dict.fromkeys(INDEXED, CORPUS_SHOWN),
        gives="sentiments",
        contexts=[f"{what}: {', '.join(map(plain, names))}" for what, names in named.items() if names],
        limit=" It knows the aspects above and no others.",
    )


def _about(recipe: Recipe) -> str:
    base = base_names(recipe)[1]
    pairs = ""
    if recipe.model_config.get("auxiliary_sentence"):
        pairs = " It reads pairs: the text, and target and aspect in words."
    if recipe.model_type is None:
        each = ", one for each target and aspect" if recipe.one_model_per_context else ""
        return f"The stock sequence classifier of transformers over `{base}`{each}.{pairs}"
    return f"{ABOUT[recipe.model_type]}{pairs} Encoder: `{base}`. {configuration(recipe)}"


def _use(folder: Path, recipe: Recipe, seed: int, targets: list[str] | None) -> list[str]:
    text = corpus_of(recipe.dataset).example or "TEXT"
    # With one model for each context each lies in its own folder.
    models = sorted([*folder.glob("*/run.json"), *folder.glob(f"seed-{seed}/*/run.json")])
    if models:
        return [
            "One model for each target and aspect, each in a folder of its own.",
            code(
                "from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline\n\n"
                f'place = {{"pretrained_model_name_or_path": "{MODEL}", "subfolder": "{models[0].parent.name}"}}\n'
                "model = AutoModelForSequenceClassification.from_pretrained(**place)\n"
                'classify = pipeline("text-classification", model=model, tokenizer=AutoTokenizer.from_pretrained(**place))\n'
                f'print(classify("{text}"))'
            ),
        ]
    call = f'"{text}", targets={targets[:1]}' if targets else f'"{text}"'
    return [
        code(
            "from transformers import pipeline\n\n"
            f'classify = pipeline("targeted-sentiment", model="{MODEL}", trust_remote_code=True)\nprint(classify({call}))'
        ),
        "The pipeline returns for every target in the text and every aspect the label with its probability.",
    ]
