# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.study`, from the root of the repository: the commands of the reproduction study."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from hf_emotion.cli.options import BaseModel, DataDir
from hf_emotion.cli.printing import quiet, show, visible
from hf_emotion.io.paths import refuse_existing


app = typer.Typer(
    help="The reproduction study: plans, records, tables and figures of documents, leakage, transfer, languages, "
    "shares, ready models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
Output = Annotated[Path | None, typer.Option("--output", "-o", help="JSON file to write.")]
Records = Annotated[Path, typer.Option(help="Folder of the small JSON records, one per run.")]
RECORDS = Path("benchmarks/reproduction")


@app.command()
def leakage(
    recipe: Annotated[str, typer.Argument(help="A recipe for single-label texts.")] = "emotion6/esa",
    output: Annotated[Path, typer.Option("--output", "-o", help="Run folder.")] = Path("runs/leakage"),
    base_model: BaseModel = None,
    data_dir: DataDir = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds, counted from the recipe's first.")] = 1,
    set_: Annotated[list[str] | None, typer.Option("--set", help="key=value, as in `hf-emotion train`.")] = None,
) -> None:
    """Train a recipe on splits that were made after oversampling, and print how high its accuracy seems."""
    from hf_emotion.training.recipe_checks import load_recipe

    from .leakage import measure_leakage

    overrides = [*(set_ or []), *([f"base_model={json.dumps(base_model)}"] if base_model else [])]
    first = load_recipe(recipe, overrides).seeds[0]
    checked = load_recipe(recipe, [*overrides, f"seeds={[first + i for i in range(seeds)]}"])
    result = measure_leakage(checked, output, data_dir)
    std = result["accuracy"]["std"]
    print(
        f"{checked.name}, oversampled before splitting: {result['in_train']:.1%} of {result['test_rows']} test rows stand in train; "
        f"accuracy {result['accuracy']['mean']:.4f}" + ("" if std is None else f" ± {std:.4f}")
    )


@app.command()
def transfer(
    checkpoint: Annotated[str, typer.Argument(help="A classifier of texts.")],
    dataset: Annotated[
        list[str] | None, typer.Option(help="A corpus, may be repeated; default: the terms of identity.")
    ] = None,
    data_dir: DataDir = None,
    split: Annotated[str, typer.Option(help="Part of the corpora.")] = "test",
) -> None:
    """Measure a classifier on other corpora, labels mapped to Ekman's emotions, or on terms of identity. Prints JSON lines."""
    from hf_emotion.inference import load_predictor
    from hf_emotion.tasks.emotion_classification import TASK

    from .transfer import identity_terms
    from .transfer import transfer as run

    predictor = load_predictor(checkpoint)
    if predictor.task is not TASK:
        raise typer.BadParameter(f"{checkpoint} reads {predictor.task.reads}: transfer is for classifiers of texts.")
    if not dataset:
        for kind, figures in identity_terms(predictor).items():
            print(json.dumps({"terms": kind, **figures}))
    for name in dataset or []:
        print(json.dumps(run(predictor, name, data_dir, split)))


@app.command()
def languages(
    models: Annotated[list[str], typer.Argument(metavar="MODEL...", help="Classifiers with GoEmotions' 28 labels.")],
    output: Output = None,
) -> None:
    """Measure classifiers on the packaged sentences in six languages, beside English."""
    quiet()
    from hf_emotion.inference import load_predictor
    from hf_emotion.io.files import write_json

    from .languages import measure_languages, table

    refuse_existing(output)
    found = {model: measure_languages(load_predictor(model)) for model in models}
    if output:
        write_json(output, found)
    show([table(found)])


@app.command()
def run(
    plan: Annotated[Path, typer.Argument(help="YAML file that lists questions and the runs that answer them.")] = Path(
        "benchmarks/study.yaml"
    ),
    list_: Annotated[bool, typer.Option("--list", help="Only list the runs, and how long they take.")] = False,
    data_dir: DataDir = None,
    encoder: Annotated[
        list[str] | None, typer.Option(help="NAME=FOLDER: where an encoder of the plan is, instead of on the Hub.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the run folders.")] = Path(
        "runs/reproduction"
    ),
    records: Records = RECORDS,
) -> None:
    """Run a plan of the study: what is on record is not run again, and an interrupted run goes on where it stopped."""
    quiet()
    from .plan import left, read_plan, run_plan
    from .plan import table as as_table

    if wrong := [text for text in encoder or [] if not all(text.partition("=")[::2])]:
        raise typer.BadParameter(f"--encoder must be NAME=FOLDER, got {wrong[0]!r}.")
    runs = read_plan(plan, dict(text.split("=", 1) for text in encoder or []), output, records)
    show([as_table(runs)])
    print(left(runs), flush=True)
    if not list_:
        run_plan(runs, data_dir)


@app.command()
def collect(
    table: Annotated[str, typer.Argument(help="The table that the runs belong to.")],
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Finished run folders of recipes of the table.")
    ],
    records: Records = RECORDS,
    encoder: Annotated[
        str | None, typer.Option(help="What to call the base model; default: its id, or the name of its folder.")
    ] = None,
) -> None:
    """Write the records of finished runs. What `evaluate --json` said of a generator is taken from its evaluation.json."""
    from .records import collect as take

    for run_folder in runs:
        for path in take(table, run_folder, records, encoder):
            print(path)


@app.command()
def tables(
    output: Annotated[Path, typer.Option("--output", "-o", help="Markdown file to write.")] = RECORDS / "TABLES.md",
    records: Records = RECORDS,
) -> None:
    """Write all tables of the study from the records."""
    from hf_emotion.io.files import write_text

    from .tables import document

    write_text(output, document(records))
    print(output)


@app.command()
def figures(
    documents: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Markdown files with NUMBER<!--= RECORD PATH [FORMAT] -->, or YAML files that name the words around the numbers.",
        ),
    ],
    check: Annotated[bool, typer.Option("--check", help="Change nothing; exit code 1 if a number differs.")] = False,
) -> None:
    """Write the numbers of documents anew from the JSON records that they name."""
    from .figures import renew_figures

    count, differing = renew_figures(documents, check)
    for line in differing:
        print(line)
    print(f"{count} figures, {len(differing)} {'differ' if check else 'changed'}")
    if check and differing:
        raise typer.Exit(1)


@app.command()
def quantification(
    model: Annotated[str, typer.Argument(help="Ready model or run folder with GoEmotions' labels.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="JSON file to write.")],
    data_dir: DataDir = None,
) -> None:
    """Measure the shares of `hf-emotion summarize` on test rows that are drawn at other prevalences."""
    from hf_emotion.io.files import write_json

    from .quantification import measure

    write_json(output, measure(model, data_dir))


@app.command()
def ready(
    run: Annotated[Path, typer.Argument(help="A run folder that a recipe with `adapter` wrote.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="New folder; the ready model gets its name.")],
    notes: Annotated[
        Path, typer.Option(help="YAML file: description, terms, card (Markdown), perhaps intensity and generation.")
    ],
    data_dir: DataDir = None,
) -> None:
    """Turn a finished run into a ready model: adapter in float16, graph without weights, card and figures."""
    import yaml

    from .pack import pack
    from .ready import measure_ready

    said = yaml.safe_load(notes.read_text(encoding="utf-8"))
    keys = said if isinstance(said, dict) else {}
    if missing := [key for key in ("description", "terms", "card") if key not in keys]:
        raise ValueError(f"{notes} must be a YAML file with description, terms and card; it lacks {missing}.")
    optional = {key: keys[key] for key in ("intensity", "generation") if key in keys}
    model = pack(run, output, said["description"], said["terms"], said["card"], **optional)
    print(json.dumps(measure_ready(model, data_dir), indent=1))


def main() -> None:
    """One line for what is wrong with files and arguments, a traceback for anything else."""
    try:
        app()
    except (ValueError, OSError, ImportError) as error:
        print(visible(f"error: {error}"), file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
