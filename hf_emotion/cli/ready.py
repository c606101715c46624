# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion ready`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from .printing import print_table, say


def ready(
    name: Annotated[str | None, typer.Argument(help="Name of a ready model; default: list them all.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="New folder for a checkpoint of it.")] = None,
) -> None:
    """List the ready models, or write one as a checkpoint. Commands take their names in place of a checkpoint."""
    import yaml

    from ..run_report import RunReport
    from ..runtime.ready import built_models, ready_models, write_ready
    from ..tasks import task_of_pipeline, task_of_run

    if (name is None) != (output is None):
        raise typer.BadParameter("a name and --output go together; without both the models are listed.")
    if name is not None and output is not None:
        write_ready(name, output)
        say(f"checkpoint written to {output}")
        return
    rows = []
    for model in ready_models():
        facts = model.facts
        size = sum(path.stat().st_size for path in model.folder.iterdir()) / 1e6
        metric = RunReport.read(model.folder).runs[0].selected_by
        measured = {corpus: parts["test"][metric] for corpus, parts in facts["figures"]["corpora"].items()}
        labels = task_of_pipeline(facts["task"]).labels(facts["labels"])
        known = [model.name, facts["description"], str(len(labels)), _shown(metric, measured), f"{size:.1f} MB"]
        rows.append([*known, facts["encoder"]["id"], facts["terms"]])
    for folder in built_models():
        recipe = yaml.safe_load((folder / "recipe.yaml").read_text(encoding="utf-8"))
        report = RunReport.read(folder)
        metric = report.runs[0].selected_by
        found = next(iter(report.summary.get(report.measured_split, {}).values()), {})
        mean = found[metric]["mean"] if metric in found else None
        shown = "" if mean is None else _shown(metric, {report.dataset: mean})
        size = sum(path.stat().st_size for path in folder.iterdir() if path.is_file()) / 1e6
        labels = task_of_run(report).labels(list(report.class_counts))
        rows.append(
            [folder.name, recipe["description"], str(len(labels)), shown, f"{size:.1f} MB", recipe["base_model"], ""]
        )
    print_table(["model", "what it does", "labels", "figure on test parts", "size", "encoder", "terms"], rows)


def _shown(metric: str, measured: Mapping[str, float]) -> str:
    """The figure that a model was chosen by, for each corpus."""
    return f"{metric}: " + ", ".join(f"{corpus} {value:.3f}" for corpus, value in measured.items())
