# SPDX-License-Identifier: Apache-2.0
"""The model card of a generator of replies."""

import json
from typing import Any

from ...recipes import Recipe
from ...run_report import RunReport, SeedRun
from ..cards import MODEL, Card, base_names, code, configuration, generator_card, plain


MODULATED = {
    "residual": "x̂ = (γ₀ + Δγ(c)) · (x − μ)/√(var + ε) + β₀ + Δβ(c), with the checkpoint's own γ₀ and β₀",
    "replace": "x̂ = γ(c) · (x − μ)/√(var + ε) + β(c)",
}


def card(recipe: Recipe, report: RunReport, best: SeedRun) -> Card:
    emotions = list(report.class_counts)
    return generator_card(
        recipe,
        report,
        best,
        corpora=[recipe.dataset],
        about=_about(recipe),
        use=[
            code(
                "from transformers import pipeline\n\n"
                f'reply = pipeline("emotional-response", model="{MODEL}", trust_remote_code=True)\n'
                f'print(reply(("I lost my keys again.", {json.dumps(emotions[0], ensure_ascii=False)})))'
            ),
            "The pipeline returns a list of replies; an emotion may also be a mixture, {name: weight}.",
        ],
        measured="perplexity per token of the human replies",
        each="context and reply",
        sections={"Emotions": [", ".join(map(plain, emotions))]},
    )


def _about(recipe: Recipe) -> str:
    base = base_names(recipe)[1]
    if recipe.model_type == "emotion-modulated":
        return " ".join([*_language_model(recipe, base), configuration(recipe)])
    fields: dict[str, Any] = {
        "modulate_encoder": True,
        "modulate_decoder": True,
        "modulation": "residual",
        **recipe.model_config,
    }
    sides = [side for side in ("encoder", "decoder") if fields[f"modulate_{side}"]]
    told = "The model does not get the emotion as an input."
    if sides:
        told = (
            f"The norms of the {' and the '.join(sides)} follow the emotion c: {MODULATED[fields['modulation']]}, where the "
            "modulations are W₂ SiLU(W₁ c), with a bias in that of β (eqs. 1-3)."
        )
    if recipe.emotion_tokens:
        told = "The emotion is told by a special token in front of the context." + (f" {told}" if sides else "")
    return f"An encoder-decoder, both sides of which started as `{base}`; cross-attention is new. {told} {configuration(recipe)}"


def _language_model(recipe: Recipe, base: str) -> list[str]:
    fields: dict[str, Any] = {
        "shift": True,
        "emotion_prompt": None,
        "freeze_language_model": True,
        **recipe.model_config,
    }
    modulated = fields.get("modulated_norms") != []
    what = [f"The decoder-only language model `{base}`"]
    if recipe.adapter:
        what[0] += ", with a LoRA adapter that is merged into its weights."
    elif not fields["freeze_language_model"]:
        what[0] += ", whose weights were trained further."
    else:
        what[0] += ", whose weights are unchanged: only the modulators of its norms were trained."
    if modulated:
        shift = fields["shift"]
        what.append(
            "The norms of its layers follow the emotion c: "
            f"x̂ = (1 + Δγ(c)) · norm(x){' + Δβ(c)' if shift else ''}, where {'both modulations are' if shift else 'Δγ(c) is'} "
            "W₂ SiLU(W₁ c) with weights of each norm's own (Liu et al. 2021, eqs. 2 and 3, without the bias). Without an emotion the norms are "
            "the language model's own."
        )
        if not shift:
            what.append("`hf-emotion fold` writes it under one emotion as an ordinary checkpoint.")
    if fields["emotion_prompt"]:
        what.append(f"The emotion is told in words, by the system message “{plain(fields['emotion_prompt'])}”.")
    if not modulated and not fields["emotion_prompt"]:
        what.append("The model does not get the emotion as an input.")
    return what
