# SPDX-License-Identifier: Apache-2.0
"""The reproduction study (from the root of the repository): plans, records, tables, figures of documents, measurements, ready models."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
import yaml

from hf_emotion.cli.options import DataDir
from hf_emotion.cli.printing import quiet, show, visible
from hf_emotion.io.files import write_text


app = typer.Typer(
    help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
)
Output = Annotated[Path, typer.Option("--output", "-o", help="File or run folder to write.")]
PLAN, RECORDS = Path("benchmarks/study.yaml"), Path("benchmarks/reproduction")


@app.command()
def leakage(
    recipe: Annotated[str, typer.Argument(help="A recipe for single-label texts.")] = "emotion6/esa",
    output: Output = Path("runs/leakage"),
    data_dir: DataDir = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="key=value, as in `hf-emotion train`.")] = None,
) -> None:
    """Train a recipe on splits that were made after oversampling, and print how high its accuracy seems."""
    from hf_emotion.metrics.significance import mean_std
    from hf_emotion.training.recipe_checks import load_recipe

    from .leakage import measure_leakage

    found = measure_leakage(load_recipe(recipe, set_ or []), output, data_dir)
    share = f"{found['in_train']:.1%} of {found['test_rows']} test rows stand in train"
    print(f"{found['recipe']}, oversampled before splitting: {share}; accuracy {mean_std(found['accuracy'])}")


@app.command()
def transfer(
    checkpoint: Annotated[str, typer.Argument(help="A classifier of texts.")],
    dataset: Annotated[list[str] | None, typer.Option(help="Corpora; default: the terms of identity.")] = None,
    data_dir: DataDir = None,
    split: Annotated[str, typer.Option(help="Part of the corpora.")] = "test",
) -> None:
    """Measure a classifier on other corpora, labels mapped to Ekman's emotions, or on terms of identity. Prints JSON lines."""
    from hf_emotion.inference import load_predictor
    from hf_emotion.tasks.emotion_classification import TASK

    from . import transfer as measuring

    predictor = load_predictor(checkpoint)
    if predictor.task is not TASK:
        raise typer.BadParameter(f"{checkpoint} reads {predictor.task.reads}: transfer is for classifiers of texts.")
    if not dataset:
        for kind, figures in measuring.identity_terms(predictor).items():
            print(json.dumps({"terms": kind, **figures}))
    for name in dataset or []:
        print(json.dumps(measuring.transfer(predictor, name, data_dir, split)))


@app.command()
def run(
    plan: Annotated[Path, typer.Argument(help="Questions, and runs that answer them.")] = PLAN,
    list_: Annotated[bool, typer.Option("--list", help="Only list the runs, and how long they take.")] = False,
    data_dir: DataDir = None,
    encoder: Annotated[list[str] | None, typer.Option(help="NAME=FOLDER: an encoder that is not on the Hub.")] = None,
) -> None:
    """Run a plan of the study: what is on record is not run again, and an interrupted run goes on where it stopped."""
    quiet()
    from . import plan as plans

    if wrong := [text for text in encoder or [] if not all(text.partition("=")[::2])]:
        raise typer.BadParameter(f"--encoder must be NAME=FOLDER, got {wrong[0]!r}.")
    runs = plans.read_plan(plan, dict(text.split("=", 1) for text in encoder or []))
    show([plans.table(runs)])
    print(plans.left(runs), flush=True)
    if not list_:
        plans.run_plan(runs, data_dir)


@app.command()
def collect(
    table: Annotated[str, typer.Argument(help="The table that the runs belong to.")],
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Finished runs of recipes of the table.")],
    records: Annotated[Path, typer.Option(help="Folder of the JSON records, one per run.")] = RECORDS,
    encoder: Annotated[str | None, typer.Option(help="Name of the base model; default: its id or folder.")] = None,
) -> None:
    """Write the records of finished runs. What `evaluate --json` said of a generator is taken from its evaluation.json."""
    from . import records as study

    print(*(path for run in runs for path in study.collect(table, run, records, encoder)), sep="\n")


@app.command()
def tables(output: Output = RECORDS / "TABLES.md") -> None:
    """Write all tables of the study from the records."""
    from .tables import document

    write_text(output, document(RECORDS))
    print(output)


@app.command()
def figures(
    documents: Annotated[list[Path], typer.Argument(metavar="FILE...")],
    check: Annotated[bool, typer.Option("--check", help="Change nothing; exit code 1 if a number differs.")] = False,
) -> None:
    """Write the numbers of documents anew from the JSON records that they name, in Markdown (NUMBER<!--= RECORD PATH [FORMAT] -->) or in YAML."""
    from .figures import renew_figures

    count, differing = renew_figures(documents, check)
    print(*differing, f"{count} figures, {len(differing)} {'differ' if check else 'changed'}", sep="\n")
    if check and differing:
        raise typer.Exit(1)


@app.command()
def ready(
    run: Annotated[Path, typer.Argument(help="A run folder that a recipe with `adapter` wrote.")],
    output: Output,
    notes: Annotated[Path, typer.Option(help="YAML: description, terms, card, perhaps intensity and generation.")],
    data_dir: DataDir = None,
    rows: Annotated[int | None, typer.Option(help="Of BRIGHTER, the most rows of each language and part.")] = None,
) -> None:
    """Turn a finished run into a ready model in a new folder, its name: adapter in float16, graph without weights, card and figures."""
    from .ready import measure_ready, pack

    said = yaml.safe_load(notes.read_text(encoding="utf-8"))
    if missing := [key for key in ("description", "terms", "card") if not isinstance(said, dict) or key not in said]:
        raise ValueError(f"{notes} must be a YAML file with description, terms and card; it lacks {missing}.")
    print(json.dumps(measure_ready(pack(run, output, **said), data_dir, rows), indent=1))


def main() -> None:
    """One line for what is wrong with files and arguments, a traceback for anything else."""
    try:
        app()
    except (ValueError, OSError, ImportError) as error:
        print(visible(f"error: {error}"), file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
