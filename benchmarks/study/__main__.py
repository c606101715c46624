# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.study`, from the root of the repository: the commands of the reproduction study."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from hf_emotion.cli.options import AsJson, BaseModel, DataDir
from hf_emotion.cli.printing import figure_or_dash, print_json, print_table, quiet, show, visible
from hf_emotion.io.paths import refuse_existing


app = typer.Typer(
    help="The reproduction study: plans, records, tables and figures of documents, baselines, ensembles, leakage, transfer, languages, "
    "long texts, labels by name, gates, human evaluation, ready models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
human = typer.Typer(
    help="Human evaluation of replies: blinded rating sheets out, ratings in.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(human, name="human-eval")

Output = Annotated[Path | None, typer.Option("--output", "-o", help="JSON file to write.")]
Records = Annotated[Path, typer.Option(help="Folder of the small JSON records, one per run.")]
RECORDS = Path("benchmarks/reproduction")


@app.command()
def ensemble(
    runs: Annotated[
        list[str], typer.Argument(help="Finished run folders of classifiers of texts, all of one corpus.")
    ],
) -> None:
    """Average the stored probabilities of several runs and measure the mean as one run. Prints JSON, one line per decision."""
    from .ensemble import ensemble as run

    for split, kinds in run(runs).items():
        for kind, values in kinds.items():
            shown = {name: value for name, value in values.items() if isinstance(value, float)}
            print(json.dumps({"split": split, "thresholds": kind, **shown}))


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
    """
    Measure a classifier on other corpora, with the labels mapped to Ekman's emotions, or on terms of identity. Prints JSON,
    one line each.
    """
    from hf_emotion.inference import load_predictor
    from hf_emotion.tasks.emotion_classification import TASK

    from .transfer import identity_terms
    from .transfer import transfer as run

    predictor = load_predictor(checkpoint)
    if predictor.task is not TASK:
        raise typer.BadParameter(
            f"{checkpoint} reads {predictor.task.reads}: transfer is measured for classifiers of texts."
        )
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
def long_texts(
    checkpoint: Annotated[str, typer.Argument(help="A multi-label classifier of texts.")],
    dataset: Annotated[str, typer.Option(help="The corpus whose rows the documents are made of.")] = "goemotions",
    data_dir: DataDir = None,
    documents: Annotated[int, typer.Option(min=1, help="Number of documents.")] = 200,
    seed: Annotated[int, typer.Option(help="Random seed for the rows of the documents.")] = 0,
    output: Output = None,
) -> None:
    """Measure a classifier on documents of 5 to 40 rows of its corpus, once read in windows and once cut."""
    quiet()
    from hf_emotion.io.files import write_json
    from hf_emotion.runtime.ready import with_weights

    from .long_texts import measure_long_texts, table

    refuse_existing(output)
    result = measure_long_texts(with_weights(checkpoint), dataset, data_dir, documents, seed)
    if output:
        write_json(output, result)
    show([table(result)])


@app.command()
def zero_shot(
    run: Annotated[str, typer.Argument(help="Run folder of a label-aware model.")],
    dataset: Annotated[str, typer.Option(help="The corpus of the run.")] = "goemotions",
    data_dir: DataDir = None,
    base_encoder: Annotated[str, typer.Option(help="Encoder for the cosine of text and label name.")] = "minilm",
    epochs: Annotated[
        int, typer.Option(min=1, help="Number of epochs in which the label vectors and the head are trained.")
    ] = 2,
    train_fraction: Annotated[float, typer.Option(help="Share of the training rows, in (0, 1].")] = 1.0,
    seed: Annotated[int, typer.Option(help="Random seed for the order of the rows and the new weights.")] = 0,
    output: Output = None,
) -> None:
    """Leave out each label in turn, add it by its name alone, and measure it by AUROC and F1 beside two controls."""
    from hf_emotion.io.files import write_json

    from .zero_shot import zero_shot as measure

    result = measure(run, data_dir, dataset, base_encoder, epochs=epochs, seed=seed, train_fraction=train_fraction)
    kinds = ("added_by_name", "shuffled_name", "cosine", "trained")
    print(f"{'AUROC':16}{'by name':>9}{'shuffled':>10}{'cosine':>8}{'trained':>9}{'rows':>6}")
    for name, row in result["labels"].items():
        auroc = [row[kind] for kind in kinds]
        print(f"{name:16}{auroc[0]:9.3f}{auroc[1]:10.3f}{auroc[2]:8.3f}{auroc[3]:9.3f}{row['rows']:6d}")
    means = [result["over_labels"][kind]["mean"] for kind in kinds]
    print(f"{'mean':16}{means[0]:9.3f}{means[1]:10.3f}{means[2]:8.3f}{means[3]:9.3f}")
    f1 = result["over_labels"]["f1"]
    print(f"\n{'mean F1 at':16}{'by name':>9}{'shuffled':>10}{'cosine':>8}{'trained':>9}")
    for rule in dict.fromkeys(rule for rules in f1.values() for rule in rules):
        found = [f"{f1[kind][rule]:.3f}" if rule in f1[kind] else "" for kind in kinds]
        print(f"{rule:16}{found[0]:>9}{found[1]:>10}{found[2]:>8}{found[3]:>9}".rstrip())
    if output:
        write_json(output, result)


@app.command()
def context_guidance(
    checkpoint: Annotated[str, typer.Argument(help="A CG-BERT or QACG-BERT model.")],
    dataset: Annotated[str, typer.Option(help="A corpus with aspects.")] = "sentihood",
    data_dir: DataDir = None,
    split: Annotated[str, typer.Option(help="Part of the corpus.")] = "test",
    rows: Annotated[int, typer.Option(min=1, help="Size of the random sample of rows with an opinion.")] = 200,
    seed: Annotated[int, typer.Option(help="Random seed for the sample.")] = 0,
    output: Output = None,
) -> None:
    """Measure the distributions of the gates (for QACG-BERT also of the attentions) over a sample of rows with an opinion."""
    from hf_emotion.io.files import write_json
    from hf_emotion.tasks.targeted_sentiment.guidance import collect, describe

    result = describe(*collect(checkpoint, dataset, data_dir, split, rows, seed))
    print(f"{result['rows']} rows\n{'':20}{'mean':>9}{'std':>9}{'< 0':>9}{'25 %':>9}{'50 %':>9}{'75 %':>9}")
    for name, row in result.items():
        if isinstance(row, dict) and "mean" in row:
            numbers = [row["mean"], row["std"], row["negative"], *row["quartiles"]]
            print(f"{name:20}" + "".join(f"{number:9.4f}" for number in numbers))
    if "quasi_attention" in result:
        print(f"quasi-attention between 0.25 and 0.5: {result['quasi_attention']['between_0.25_and_0.5']:.3f}")
    if output:
        write_json(output, result)


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
def baselines(
    table: Annotated[str, typer.Argument(help="The table whose corpus is read.")],
    base_model: BaseModel = None,
    data_dir: DataDir = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="key=value, as in `hf-emotion train`.")] = None,
    records: Records = RECORDS,
) -> None:
    """Measure logistic regression over TF-IDF and over frozen vectors, and write the records."""
    quiet()
    from .records import run_baselines

    for path in run_baselines(table, base_model, data_dir, set_ or [], records):
        print(path)


@app.command()
def tables(
    document: Annotated[
        Path, typer.Argument(help="Markdown file with the marks `<!-- table NAME -->` and `<!-- end -->`.")
    ],
    records: Records = RECORDS,
) -> None:
    """Write the tables of a document anew from the records."""
    from .tables import write_document

    print(f"{document}: {write_document(document, records)} tables")


@app.command()
def figures(
    documents: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Markdown files with NUMBER<!--= RECORD PATH [FORMAT] -->.")
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


@app.command("ready-counts")
def ready_counts(
    folder: Annotated[Path, typer.Argument(help="Folder of a ready model, hf_emotion/ready/NAME.")],
    data_dir: DataDir = None,
) -> None:
    """Put a ready model's errors on the validation part of its corpus into its metrics.json, for `hf-emotion summarize`."""
    from hf_emotion.runtime.ready import ReadyModel

    from .ready import keep_validation_counts

    counts = keep_validation_counts(ReadyModel(folder), data_dir)
    print(json.dumps({name: counts[name] for name in ("labels", "rows", "chosen")}))


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


@human.command()
def export(
    replies: Annotated[
        list[Path],
        typer.Argument(
            help="JSONL files with context, emotion and reply, one per source, with the same rows in each. The file's name names the source."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="New or empty folder.")],
    raters: Annotated[int, typer.Option(min=1, help="Number of raters.")],
    seed: Annotated[int, typer.Option(help="Random seed for the ids and for each rater's order.")] = 0,
) -> None:
    """Write a blinded sheet for each rater (CSV, and HTML to print), and the key that tells the sources."""
    from .human_eval import KEY, export_sheets, read_replies

    sheets = export_sheets(*read_replies(replies), output, raters, seed)
    print(f"{len(sheets)} sheets written to {sheets[0].parent}; keep {output / KEY} from the raters")


@human.command()
def analyze(
    folder: Annotated[Path, typer.Argument(help="The folder that `export` wrote, with the sheets filled in.")],
    as_json: AsJson = False,
) -> None:
    """Analyze the ratings: mean ± standard error per source, Cronbach's alpha, repeated-measures ANOVA and paired tests."""
    from .human_eval import HIGHEST, LOWEST, analyze_ratings

    result = analyze_ratings(folder)
    if as_json:
        print_json(result)
        return
    items = list(next(iter(result["sources"].values())))
    print(f"{result['raters']} raters, {result['replies']} replies; {LOWEST} = worst, {HIGHEST} = best; mean (SE)")
    print_table(
        ["source", *items],
        [
            [source, *(f"{values[item]['mean']:.2f} ({figure_or_dash(values[item]['se'], '.2f')})" for item in items)]
            for source, values in result["sources"].items()
        ],
    )
    print(f"Cronbach's alpha of the readability items: {figure_or_dash(result['cronbach_alpha'], '.2f')}")
    for measure, test in result["anova"].items():
        print(
            f"ANOVA of {measure}: F({test['df_sources']}, {test['df_error']}) = {figure_or_dash(test['f'], '.2f')}, "
            f"p = {figure_or_dash(test['p_value'], '.3g')}"
        )
    print_table(
        ["measure", "first", "second", "difference", "t", "df", "p", "p (Holm)"],
        [
            [
                *(
                    test["measure"],
                    test["first"],
                    test["second"],
                    f"{test['difference']:+.2f}",
                    figure_or_dash(test["t"], ".2f"),
                ),
                *(
                    str(test["df"]),
                    figure_or_dash(test["p_value"], ".3g"),
                    figure_or_dash(test["p_value_holm"], ".3g"),
                ),
            ]
            for test in result["post_hoc"]
        ],
    )


def main() -> None:
    """One line for what is wrong with files and arguments, a traceback for anything else."""
    try:
        app()
    except (ValueError, OSError, ImportError) as error:
        print(visible(f"error: {error}"), file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
