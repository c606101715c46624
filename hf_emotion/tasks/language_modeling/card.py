# SPDX-License-Identifier: Apache-2.0
"""The model card of a language model."""

from ...recipes import SCRATCH, Recipe
from ...run_report import RunReport, SeedRun
from ..cards import MODEL, Card, base_names, code, configuration, generator_card
from .loading import DEFAULT_CORPORA


def card(recipe: Recipe, report: RunReport, best: SeedRun) -> Card:
    base = base_names(recipe)[1]
    start = "trained from the start" if base == SCRATCH else f"trained further from `{base}`"
    return generator_card(
        recipe,
        report,
        best,
        corpora=recipe.dataset_options.get("corpora", DEFAULT_CORPORA),
        about=f"A stock causal language model of transformers, {start}. `<|endoftext|>` stands between turns. {configuration(recipe)}",
        use=[
            code(
                f'from transformers import pipeline\n\nwrite = pipeline("text-generation", model="{MODEL}")\n'
                'print(write("<|endoftext|>how are you ?<|endoftext|>", max_new_tokens=20))'
            )
        ],
        measured="perplexity per token",
        each="block",
    )
