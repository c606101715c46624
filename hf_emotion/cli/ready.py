# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion ready`."""

from pathlib import Path
from typing import Annotated

import typer

from .printing import print_table


def ready(
    name: Annotated[str | None, typer.Argument(help="Name of a ready model; default: list them all.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="New folder for a checkpoint of it.")] = None,
) -> None:
    """List the ready models, whose names commands take where they take a checkpoint, or write one of the package as a checkpoint."""
    import yaml

    from ..run_report import RunReport
    from ..runtime.ready import built_models, ready_models, write_ready

    if (name is None) != (output is None):
        raise typer.BadParameter("a name and --output go together; without both the models are listed.")
    if name is not None and output is not None:
        write_ready(name, output)
        print(f"checkpoint written to {output}")
        return
    rows = []
    for model in ready_models():
        facts = model.facts
        size = sum(path.stat().st_size for path in model.folder.iterdir()) / 1e6
        measured = facts["figures"]["corpora"].items()
        figures = ", ".join(f"{corpus} {parts['test']['macro_f1']:.3f}" for corpus, parts in measured)
        known = [model.name, facts["description"], str(len(facts["labels"])), figures, f"{size:.1f} MB"]
        rows.append([*known, facts["encoder"]["id"], facts["terms"]])
    for folder in built_models():
        recipe = yaml.safe_load((folder / "recipe.yaml").read_text(encoding="utf-8"))
        report = RunReport.read(folder)
        found = next(iter(report.summary.get(report.measured_split, {}).values()), {})
        shown = f"{report.dataset} {found['macro_f1']['mean']:.3f}" if "macro_f1" in found else ""
        size = sum(path.stat().st_size for path in folder.iterdir() if path.is_file()) / 1e6
        classes = str(len(report.class_counts))
        rows.append([folder.name, recipe["description"], classes, shown, f"{size:.1f} MB", recipe["base_model"], ""])
    print_table(["model", "what it does", "labels", "macro-F1 on test parts", "size", "encoder", "terms"], rows)
