# SPDX-License-Identifier: Apache-2.0
"""The model card of a generator of replies."""

import json
from pathlib import Path
from typing import Any

from ...recipes import Recipe
from ..cards import MODEL, Card, base_names, code, configuration, plain
from ..generator_cards import generator_card


MODULATED = {
    "residual": "x̂ = (γ₀ + Δγ(c)) · (x − μ)/√(var + ε) + β₀ + Δβ(c), with the checkpoint's own γ₀ and β₀",
    "replace": "x̂ = γ(c) · (x − μ)/√(var + ε) + β(c)",
}


def card(folder: Path, recipe: Recipe, report: dict[str, Any], best: dict[str, Any]) -> Card:
    emotions = list(report["class_counts"])
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
    base = base_names(recipe)[1]
    return f"An encoder-decoder, both sides of which started as `{base}`; cross-attention is new. {told} {configuration(recipe)}"
