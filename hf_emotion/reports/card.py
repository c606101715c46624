# SPDX-License-Identifier: Apache-2.0
"""The model card of a run, from the run's own numbers, and that of several models."""

from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData

from .. import __version__
from ..io.files import write_text
from ..recipes import Recipe
from ..tasks import corpora, corpus_of, task_of_run
from ..tasks.cards import Card, base_names, languages_of, measured_split, plain, table


def write_card(folder: Path, recipe: Recipe, report: dict[str, Any], best: dict[str, Any]) -> None:
    """
    Write README.md: metadata for the Hub (with a model index), and what the task says of the run.

    Args:
        folder: the run folder.
        recipe: what was run.
        report: content of metrics.json.
        best: the seed whose weights lie in the folder.
    """
    card = task_of_run(report).card(folder, recipe, report, best)
    paper = [f"The model: {recipe.paper}."] if recipe.paper else []
    software = f"The software: The hf-emotion developers: hf-emotion {__version__}, Apache License 2.0."
    blocks = [
        f"---\n{_metadata(card, recipe, report).to_yaml()}\n---",
        f"# {plain(recipe.name)}",
        f"{plain(recipe.description or recipe.name)}.",
        card.about,
    ]
    for title, paragraphs in {**card.sections, "Citation": [*paper, software]}.items():
        blocks += [f"## {title}", *paragraphs]
    write_text(folder / "README.md", "\n\n".join(blocks) + "\n")


def _metadata(card: Card, recipe: Recipe, report: dict[str, Any]) -> ModelCardData:
    own = [corpus_of(name) for name in card.corpora]
    return ModelCardData(
        model_name=recipe.name,
        license="apache-2.0",
        language=languages_of(own),
        library_name="transformers",
        pipeline_tag=card.pipeline_tag,
        base_model=base_names(recipe)[0],
        datasets=[corpus.hub_id for corpus in own if corpus.hub_id] or None,
        tags=list(card.tags),
        metrics=list(card.metrics),
        eval_results=[
            EvalResult(
                task_type=card.task_type,
                dataset_type=own[0].hub_id or recipe.dataset,
                dataset_name=recipe.dataset,
                dataset_split=measured_split(report),
                metric_type=figure.type,
                metric_name=figure.name,
                metric_value=round(figure.value, 4),
            )
            for figure in card.figures
        ],
    )


def write_collection_card(folder: Path, names: list[str], namespace: str | None) -> None:
    """Write README.md of a folder with the published folders `names`: a table of their models, from their cards."""
    rows = []
    terms, known = {}, corpora()
    for name in names:
        data = ModelCard.load(folder / name / "README.md").data
        corpus = data.eval_results[0].dataset_name
        terms[corpus] = known[corpus].terms if corpus in known else "see the cards"
        results = ", ".join(f"{result.metric_name} {result.metric_value}" for result in data.eval_results)
        link = f"[{name}](https://huggingface.co/{namespace}/{name})" if namespace else name
        rows.append([link, corpus, results])
    sources = "\n".join(f"- {corpus}: {text}" for corpus, text in terms.items())
    models = table(["model", "corpus", "results on its test part"], rows, names=3)
    text = f"# Models of hf-emotion\n\n{models}\n\n## Training data\n\n{sources}\n\n"
    write_text(
        folder / "README.md",
        f"{text}The models are under the Apache License 2.0. Each card says how its model was trained, its figures over the "
        "seeds, and its limits.\n",
    )
