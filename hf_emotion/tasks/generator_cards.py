# SPDX-License-Identifier: Apache-2.0
"""The text that the cards of generators share."""

import math
from collections.abc import Mapping, Sequence

from ..metrics.significance import mean_std
from ..recipes import Recipe
from ..run_report import RunReport, SeedRun
from . import corpus_of
from .cards import Card, Figure, chose_an_epoch, inline, spread, table, terms_of, training


def generator_card(
    recipe: Recipe,
    report: RunReport,
    best: SeedRun,
    *,
    corpora: Sequence[str],
    about: str,
    use: Sequence[str],
    measured: str,
    each: str,
    sections: Mapping[str, Sequence[str]] = {},
) -> Card:
    """
    The card of a generator, which is measured by its perplexity; `measured` names it for the Hub. `best` is the seed whose weights lie in
    the folder, `each` what is cut to `max_length`.
    """
    perplexity = report.summary[report.measured_split]["teacher_forcing"]["perplexity"]["mean"] or math.nan
    rows = [[name, mean_std(kinds["teacher_forcing"]["perplexity"])] for name, kinds in report.summary.items()]
    terms = "; ".join(f"{name} ({terms_of(recipe, corpus_of(name))})" for name in corpora)
    return Card(
        pipeline_tag="text-generation",
        tags=["emotion", "hf-emotion", "dialogue", str(recipe.model_type)],
        metrics=["perplexity"],
        corpora=corpora,
        task_type="text-generation",
        figures=[Figure("perplexity", measured, perplexity)],
        about=about,
        sections={
            "Use": use,
            "Results": [
                table(["split", "perplexity per token"], rows),
                f"{spread(report)} The tokens are those of the model's own tokenizer: compare no perplexities across tokenizers.",
            ],
            "Training": training(
                recipe,
                report,
                best,
                data=f"Corpora: {terms}. Options: {inline(recipe.dataset_options) or 'none'}. Rows:",
                repeated="Rows",
                start=f"Parameters: {best.parameters:,}",
                chosen=f"the epoch with the lowest {best.selected_by}" if chose_an_epoch(best) else None,
                cut=f"At most {recipe.max_length} tokens for each {each}",
            ),
            **sections,
            "Limits": [
                "The model writes what people wrote in the corpora above, with their profanity, their prejudices and their "
                "mistakes, and it states things that are not true. It understands no one: do not let it counsel people, and do not "
                "present its replies as those of a person."
            ],
        },
    )
