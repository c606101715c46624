# SPDX-License-Identifier: Apache-2.0
"""Writes the model card of a run from the run's own numbers, and the card of a collection of models."""

import re
from collections.abc import Sequence
from pathlib import Path

from huggingface_hub import EvalResult, ModelCard, ModelCardData

from ..io.files import write_text
from ..io.names import visible
from ..io.version import __version__
from ..recipes import Recipe
from ..run_report import RunReport, SeedRun
from ..tasks import corpora, corpus_of, task_of_run
from ..tasks.cards import Card, base_names, languages_of, plain, table
from ..tasks.corpus import Corpus


# The licences of data that the Hub's list has; the metadata call any other one "other".
HUB_LICENSES = {
    *("apache-2.0", "mit", "isc", "bsd-2-clause", "bsd-3-clause", "unlicense", "wtfpl", "zlib", "mpl-2.0", "afl-3.0"),
    *("cc0-1.0", "cc-by-2.0", "cc-by-2.5", "cc-by-3.0", "cc-by-4.0", "cc-by-sa-3.0", "cc-by-sa-4.0", "cc-by-nd-4.0"),
    *("cc-by-nc-2.0", "cc-by-nc-3.0", "cc-by-nc-4.0", "cc-by-nc-sa-2.0", "cc-by-nc-sa-3.0", "cc-by-nc-sa-4.0"),
    *("cc-by-nc-nd-3.0", "cc-by-nc-nd-4.0", "cdla-sharing-1.0", "cdla-permissive-1.0", "cdla-permissive-2.0"),
    *("odc-by", "odbl", "pddl", "c-uda", "etalab-2.0", "eupl-1.1", "eupl-1.2", "gfdl", "ofl-1.1", "other"),
    *("gpl-2.0", "gpl-3.0", "agpl-3.0", "lgpl-2.1", "lgpl-3.0"),
}


def write_card(folder: Path, recipe: Recipe, report: RunReport, best: SeedRun) -> None:
    """Write README.md: metadata for the Hub (with a model index), and the task's text about the run, whose best seed is `best`."""
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
    write_text(folder / "README.md", visible("\n\n".join(blocks)) + "\n")


def renew_section(folder: Path, title: str, paragraphs: Sequence[str], before: str) -> None:
    """Replace a section of README.md, if there is one, or put it before the section `before`; without paragraphs, remove it."""
    path = folder / "README.md"
    if not path.is_file():
        return
    old = path.read_text(encoding="utf-8")
    text = re.sub(rf"^## {re.escape(title)}\n.*?(?=^## |\Z)", "", old, flags=re.MULTILINE | re.DOTALL)
    if paragraphs:
        new = "\n\n".join([f"## {title}", *paragraphs, ""])
        head, found, rest = text.partition(f"## {before}\n")
        text = f"{head}{new}\n{found}{rest}" if found else f"{text.rstrip()}\n\n{new}"
    if text != old:
        write_text(path, text)


def _metadata(card: Card, recipe: Recipe, report: RunReport) -> ModelCardData:
    used = [corpus_of(name) for name in card.corpora]
    return ModelCardData(
        model_name=recipe.name,
        **_licence(recipe, used),
        language=languages_of(used),
        library_name="transformers",
        pipeline_tag=card.pipeline_tag,
        base_model=base_names(recipe)[0],
        datasets=[corpus.hub_id for corpus in used if corpus.hub_id] or None,
        tags=list(card.tags),
        metrics=list(card.metrics),
        eval_results=[
            EvalResult(
                task_type=card.task_type,
                dataset_type=used[0].hub_id or recipe.dataset,
                dataset_name=recipe.dataset,
                dataset_split=report.measured_split,
                metric_type=figure.type,
                metric_name=figure.name,
                metric_value=round(figure.value, 4),
            )
            for figure in card.figures
        ],
    )


def _licence(recipe: Recipe, corpora: list[Corpus]) -> dict[str, str]:
    """The licence for the metadata: the one that the recipe names, if the corpora do not leave it open; else the terms of a corpus are "other"."""
    if all(corpus.is_free for corpus in corpora):
        return {"license": "apache-2.0"}
    own = any(corpus.own_files for corpus in corpora)
    return licence_fields(recipe.data_license, recipe.data_terms if own else "those of the corpora")


def licence_fields(name: str | None, terms: str | None) -> dict[str, str]:
    """The entries of a licence in the metadata; empty without a name and terms."""
    name = (name or "").lower()
    if name in HUB_LICENSES:
        return {"license": name}
    return {"license": "other", "license_name": name or "terms-of-the-training-data"} if name or terms else {}


def write_collection_card(folder: Path, names: list[str], namespace: str | None) -> None:
    """Write the README.md of a folder with the published folders `names`: a table of their models, from their cards."""
    rows = []
    terms, known, licences = {}, corpora(), set()
    for name in names:
        data = ModelCard.load(folder / name / "README.md").data
        corpus = data.eval_results[0].dataset_name
        licences.add(data.license)
        terms[corpus] = known[corpus].terms if corpus in known and not known[corpus].own_files else "see the cards"
        results = ", ".join(f"{result.metric_name} {result.metric_value}" for result in data.eval_results)
        split = data.eval_results[0].dataset_split
        results += "" if split == "test" else f" ({split} part)"
        link = f"[{name}](https://huggingface.co/{namespace}/{name})" if namespace else name
        rows.append([link, corpus, results])
    sources = "\n".join(f"- {corpus}: {text}" for corpus, text in terms.items())
    licence = "The models are under the Apache License 2.0."
    if licences != {"apache-2.0"}:
        licence = "Each card names the licence of its model."
    models = table(["model", "corpus", "results on the test part"], rows, names=3)
    text = f"# Models of hf-emotion\n\n{models}\n\n## Training data\n\n{sources}\n\n"
    write_text(
        folder / "README.md",
        f"{text}{licence} Each card says how its model was trained, its figures over the seeds, and its limits.\n",
    )
