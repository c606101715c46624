# SPDX-License-Identifier: Apache-2.0
"""
What a task writes into the model card of a run, the text that all cards share, and that of generators. `hf_emotion.reports.card`
writes the file.
"""

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hf_emotion.modeling

from ..io.names import visible
from ..metrics.significance import mean_std
from ..recipes import SCRATCH, Recipe
from ..run_report import RunReport, SeedRun
from ..runtime.base_models import hub_id
from . import corpus_of
from .corpus import Corpus


MODEL = "PATH_OR_REPO"  # stands for the model's name until it is published


@dataclass(frozen=True)
class Figure:
    """A figure for the Hub's index: the Hub's type for the metric, its name and its value."""

    type: str
    name: str
    value: float


@dataclass(frozen=True, kw_only=True)
class Card:
    """
    A task's text about a run.

    Attributes:
        pipeline_tag, tags, metrics: for the Hub.
        corpora: names of the corpora that the model was trained on.
        task_type: the task of the figures, as the Hub names it.
        figures: the figures of the part that `measured_split` names.
        about: a paragraph on what the model is.
        sections: title -> paragraphs, tables and code, in Markdown.
    """

    pipeline_tag: str
    tags: Sequence[str]
    metrics: Sequence[str]
    corpora: Sequence[str]
    task_type: str
    figures: Sequence[Figure]
    about: str
    sections: dict[str, Sequence[str]]


def languages_of(corpora: Iterable[Corpus]) -> str | list[str] | None:
    """The languages of a model trained on these corpora, for the metadata of a card; None if a corpus does not name its own."""
    found = [corpus.languages for corpus in corpora]
    if not all(found):
        return None
    codes = sorted({code for languages in found for code in languages})
    return codes[0] if len(codes) == 1 else codes


def base_names(recipe: Recipe) -> tuple[str | None, str]:
    """The base model's Hub id (None if it is not on the Hub), and its name for readers."""
    if recipe.base_model == SCRATCH:
        return None, SCRATCH
    base = hub_id(recipe.base_model)
    return base, base or Path(recipe.base_model).name


def terms_of(recipe: Recipe, corpus: Corpus) -> str:
    """The terms of a corpus; for your own files the terms that the recipe names."""
    named = named_terms(recipe.data_license, recipe.data_terms)
    return named if named and corpus.own_files else corpus.terms


def named_terms(licence: str | None, terms: str | None) -> str:
    """A licence and terms in words; empty without both."""
    return "; ".join([*([f"licence {licence}"] if licence else []), *([plain(terms)] if terms else [])])


def plain(name: str) -> str:
    """A name from a corpus or a recipe, escaped for a card: no HTML, no new column or line, nothing that a terminal obeys."""
    return " ".join(html.escape(visible(name), quote=False).replace("|", "\\|").split())


def inline(values: dict[str, Any]) -> str:
    """Fields and their values, as code."""
    return ", ".join(f"`{key}={value}`" for key, value in values.items())


def configuration(recipe: Recipe) -> str:
    return f"Configuration: {inline(recipe.model_config) or 'default'}."


def table(header: Sequence[str], rows: Iterable[Sequence[str]], names: int = 1) -> str:
    """A table; its first columns hold names, and the others numbers."""
    marks = "|---" * names + "|---:" * (len(header) - names) + "|"
    lines = [f"| {' | '.join(row)} |" for row in (header, *rows)]
    return "\n".join((lines[0], marks, *lines[1:]))


def code(lines: str) -> str:
    return f"```python\n{lines}\n```"


def spread(report: RunReport) -> str:
    seeds = len(report.runs)
    return "One seed: no spread is known." if seeds == 1 else f"Mean ± standard deviation over {seeds} seeds."


def training(
    recipe: Recipe,
    report: RunReport,
    best: SeedRun,
    *,
    data: str,
    repeated: str,
    start: str,
    chosen: str | None,
    cut: str,
) -> list[str]:
    """
    The paragraphs on the training. `best` is the seed whose weights lie in the folder; `data` names the corpus, `repeated` what counts as a
    duplicate; `chosen` is the epoch that the validation part chose, None for the last weights.
    """
    rows = ", ".join(f"{split} {rows:,}" for split, rows in report.rows.items())
    share = f" (a share of {recipe.train_fraction} of the training part)" if recipe.train_fraction < 1 else ""
    if recipe.shots is not None:
        share += f" (at least {recipe.shots} of each label for training and for validation, drawn for each seed)"
    if recipe.max_eval_rows is not None:
        share += f" (at most {recipe.max_eval_rows:,} of the validation and of the test part, drawn at a fixed seed)"
    duplicates = ", ".join(f"{name}: {count}" for name, count in report.duplicates.items() if count) or "none"
    seeds = ", ".join(str(run.seed) for run in report.runs)
    weights = f"{chosen} on the validation part" if chosen else "after the last step of its training"
    if not chosen and len(report.runs) > 1 and best.best_dev_metric is not None:
        weights += ", the best seed on the validation part"
    return [
        f"{data} {rows}{share}. {repeated} that stand in two splits or twice in one: {duplicates}.",
        f"{start}. Seeds: {seeds}; the weights are those of seed {best.seed}, {weights}. {cut}. "
        f"Training arguments: {inline(recipe.training_arguments)}. Minutes of training per seed: {_time_and_machine(report)}.",
        *_without_decay(recipe.model_type),
    ]


def _without_decay(model_type: str | None) -> list[str]:
    """A paragraph on the parameters that weight decay leaves out, if the model names some."""
    spared = {
        value.config_class.model_type: value._no_weight_decay_parameters
        for value in vars(hf_emotion.modeling).values()
        if hasattr(value, "_no_weight_decay_parameters")
    }
    if model_type not in spared:
        return []
    names = ", ".join(f"`{name}`" for name in spared[model_type])
    return [
        f"Weight decay left out the parameters whose names hold {names}: 0 has no meaning for them. transformers' own `Trainer` does not "
        "leave them out. To train the model further with it, set `weight_decay=0`, or override `get_decay_parameter_names`."
    ]


def chose_an_epoch(run: SeedRun) -> bool:
    """Whether the weights of a seed are those of an epoch (or step) that the validation part chose, and not just the last ones."""
    return any(model.best_step is not None for model in run.contexts or [run])


def _time_and_machine(report: RunReport) -> str:
    minutes = ", ".join(f"{run.train_minutes:.1f}" for run in report.runs)
    machine = report.environment
    return (
        f"{minutes} ({machine['device']}, {machine['threads']} threads, Python {machine['python']}, torch {machine['torch']}, "
        f"transformers {machine['transformers']})"
    )


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
                f"{spread(report)} The tokens are those of the model's own tokenizer: do not compare perplexities across tokenizers.",
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
