# SPDX-License-Identifier: Apache-2.0
"""The command line. Exit codes: 0 done, 1 the work failed, 2 wrong usage."""

import json
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .. import taxonomies
from ..study.published import TABLES
from ..tasks import LABELLED
from .study import app as study


if TYPE_CHECKING:
    from ..runtime.unread import Unread

# Everything heavier is imported inside the commands: `--help` must not wait for torch.

app = typer.Typer(
    help="Emotion and aspect-sentiment models: train, evaluate, predict, generate, explain, analyze, compare, convert, export, publish.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

DataDir = Annotated[
    Path | None, typer.Option(help="Folder with the corpora; default: $HF_EMOTION_DATA, else the Hub.")
]
Taxonomy = Annotated[
    taxonomies.Taxonomy | None,
    typer.Option(help="Roll the 28 GoEmotions labels up."),
]
Dtype = Annotated[
    Literal["float32", "bfloat16", "float16"] | None,
    typer.Option(
        help="Of the weights; default: the checkpoint's. Half the memory and often faster, with slightly other scores."
    ),
]
TrustRemoteCode = Annotated[
    bool,
    typer.Option(
        "--trust-remote-code",
        help="Run code beside the weights, and examples of the card, that hf-emotion did not write, to check them.",
    ),
]
human_eval = typer.Typer(
    help="Human evaluation of replies: blinded rating sheets out, ratings in.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(human_eval, name="human-eval")
app.add_typer(study, name="study")

Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]


@app.callback()
def _common(debug: Debug = False) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)


@app.command()
def recipes() -> None:
    """List the recipes of the package: paper, table row, base model, published score."""
    import yaml

    from ..recipes import packaged_recipes, recipe_name

    rows = []
    for path in packaged_recipes():
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
        published = ", ".join(f"{name} {value}" for name, value in values.get("published", {}).items())
        rows.append(
            [
                recipe_name(path),
                values.get("description", ""),
                values.get("paper") or "-",
                values.get("table_row") or "-",
                values.get("base_model", ""),
                published or "-",
            ]
        )
    _print_table(["recipe", "what it trains", "paper", "table row", "base model", "published"], rows)


@app.command()
def train(
    recipe: Annotated[str, typer.Argument(help="A recipe: its name (see `recipes`) or the path of a YAML file.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Run folder; default: runs/NAME.")] = None,
    base_model: Annotated[
        str | None,
        typer.Option(help="Encoder or trained model: Hub id, local folder, or minilm (extra `offline`)."),
    ] = None,
    data_dir: DataDir = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of seeds, counted from the recipe's first.")] = None,
    train_fraction: Annotated[float | None, typer.Option(help="Share of the training rows, in (0, 1].")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="key=value, e.g. learning_rate=1e-4 or dataset_options.taxonomy=ekman."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an interrupted run from its last checkpoint.")
    ] = False,
) -> None:
    """Train a recipe, evaluate it on dev and test, and write a run folder that AutoModel can load."""
    from ..training.recipe_checks import load_recipe

    overrides = list(set_ or [])
    if base_model is not None:
        overrides.append(f"base_model={json.dumps(base_model)}")
    if train_fraction is not None:
        overrides.append(f"train_fraction={train_fraction:.10f}")  # YAML takes 1e-05 for a string
    checked = load_recipe(recipe, overrides)
    if seeds is not None:
        checked = load_recipe(recipe, [*overrides, f"seeds={[checked.seeds[0] + i for i in range(seeds)]}"])
    _quiet()
    from ..runs.train import train as run

    output = output or Path("runs") / checked.name
    report = run(checked, output, data_dir=data_dir, resume=resume)
    if int(os.environ.get("RANK", "0")) == 0:  # of several processes the first one speaks
        _print_report(report)
        print(f"\nrun folder: {output}")


@app.command()
def reproduce(
    table: Annotated[
        str,
        typer.Argument(help=f"{', '.join(list(TABLES)[:-1])} or {list(TABLES)[-1]}."),
    ],
    base_model: Annotated[str | None, typer.Option(help="Hub id, local folder, or minilm (extra `offline`).")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each recipe, counted from its first seed.")] = 3,
    data_dir: DataDir = None,
    recipe: Annotated[
        list[str] | None, typer.Option(help="Only this row of the table, may be repeated; e.g. goemotions/laa_cb.")
    ] = None,
    train_fraction: Annotated[float | None, typer.Option(help="Share of the training rows, in (0, 1].")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="key=value for every recipe.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the run folders.")] = Path(
        "runs/reproduction"
    ),
    records: Annotated[Path, typer.Option(help="Folder of the small JSON records, one per run.")] = Path(
        "benchmarks/reproduction"
    ),
    judge: Annotated[
        list[str] | None, typer.Option(help="Generators: a classifier of replies, as in `evaluate`.")
    ] = None,
    contexts: Annotated[int, typer.Option(min=1, help="Generators: size of the fixed sample of contexts.")] = 1000,
    bertscore_model: Annotated[str | None, typer.Option(help="Generators: encoder for BERTScore.")] = None,
    collect: Annotated[
        list[Path] | None,
        typer.Option(help="Take the record of this finished run folder instead of training; may be repeated."),
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="With --collect: what to call the base model; default: its id or folder.")
    ] = None,
) -> None:
    """
    Run the recipes of a published table and print it beside the published figures. Finished runs are not run again.
    """
    _quiet()
    from ..study.reproduce import collect as take
    from ..study.reproduce import reproduce as run
    from ..study.reproduce import table_rows

    if encoder is not None and not collect:
        raise typer.BadParameter("--encoder goes with --collect.")
    if collect:
        for folder in collect:
            take(table, folder, records, encoder)
    else:
        run(
            table,
            base_model,
            seeds,
            data_dir,
            recipe,
            set_ or [],
            train_fraction,
            output,
            records,
            judge or [],
            contexts,
            bertscore_model,
        )
    _print_table(*table_rows(table, records))


@app.command()
def evaluate(
    checkpoint: Annotated[str, typer.Argument(help="Run folder, local folder or Hub id.")],
    dataset: Annotated[
        str,
        typer.Option(help=f"{', '.join(LABELLED[:-1])} or {LABELLED[-1]}."),
    ],
    split: Annotated[Literal["train", "validation", "test"], typer.Option(help="Part of the corpus.")] = "test",
    data_dir: DataDir = None,
    taxonomy: Taxonomy = None,
    option: Annotated[list[str] | None, typer.Option(help="Argument of the dataset's loader, key=value.")] = None,
    threshold: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Multi-label models: fixed threshold, beside the tuned ones; default: 0.3."),
    ] = None,
    max_length: Annotated[int | None, typer.Option(help="Tokens per text; default: as many as in training.")] = None,
    dtype: Dtype = None,
    judge: Annotated[
        list[str] | None,
        typer.Option(help="Generators: a classifier of replies that tells their emotion; may be given several times."),
    ] = None,
    contexts: Annotated[int, typer.Option(min=1, help="Generators: size of the fixed sample of contexts.")] = 1000,
    bertscore_model: Annotated[
        str | None, typer.Option(help="Generators: encoder for BERTScore, a Hub id, folder or minilm.")
    ] = None,
    replies: Annotated[
        Path | None, typer.Option(help="Generators: JSONL file for context, emotion and reply.")
    ] = None,
    intensity: Annotated[
        float | None, typer.Option(help="Generators: weight of the emotion; 1, as in training, unless given.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print every figure as JSON.")] = False,
) -> None:
    """
    Measure a checkpoint on a split of a corpus: a classifier at the fixed and at the stored thresholds; a generator of replies
    as in Tables 1-3 of its paper.
    """
    _quiet()
    from ..inference import load_predictor
    from ..runs.evaluate import evaluate as run
    from ..tasks.emotional_response.predictor import ReplyGenerator

    _refuse_existing(replies)
    predictor = load_predictor(checkpoint, taxonomy, max_length, dtype=dtype)
    if isinstance(predictor, ReplyGenerator):
        from ..tasks.emotional_response.measuring import evaluate_replies

        result = evaluate_replies(
            predictor,
            dataset,
            split,
            data_dir,
            judge or [],
            contexts,
            bertscore_model,
            _options(option),
            intensity=1.0 if intensity is None else intensity,
        )
        if replies is not None:
            _write_jsonl(
                replies, [{key: row[key] for key in ("context", "emotion", "reply")} for row in result["replies"]]
            )
        if as_json:
            _print_json({key: value for key, value in result.items() if key != "replies"})
        else:
            _print_reply_tables(result)
        return
    if judge or bertscore_model or replies or intensity is not None:
        raise typer.BadParameter(
            "--judge, --bertscore-model, --replies and --intensity go with a generator of replies."
        )

    result = run(predictor, dataset, split, data_dir, options=_options(option), threshold=threshold)
    if as_json:
        _print_json(result)
        return
    kinds = {
        kind: {name: value for name, value in values.items() if isinstance(value, float)}
        for kind, values in result["metrics"].items()
    }
    names = list(next(iter(kinds.values())))
    _print_table(
        [f"{dataset} {split} ({result['rows']} rows)", *kinds],
        [[name, *(f"{values[name]:.4f}" for values in kinds.values())] for name in names],
    )


@app.command()
def predict(
    checkpoint: Annotated[str, typer.Argument(help="Run folder, local folder or Hub id.")],
    texts: Annotated[
        list[str] | None, typer.Argument(help="Texts; without any, and without --input: lines of stdin.")
    ] = None,
    # Strings: a Path would spoil a URL.
    input_: Annotated[
        str | None, typer.Option("--input", help="CSV, TSV, JSONL or Parquet file, or a URL (s3://, hf://, ...).")
    ] = None,
    output: Annotated[
        str | None, typer.Option(help="File or URL to write; its ending gives the format. With --engine ray a folder.")
    ] = None,
    engine: Annotated[
        Literal["local", "ray"], typer.Option(help="Who predicts a file: this process, or actors of Ray Data.")
    ] = "local",
    workers: Annotated[
        int | None, typer.Option(min=1, help="With --engine ray: actors; default: one for each GPU, else each CPU.")
    ] = None,
    text_column: Annotated[
        str | None, typer.Option(help="Column with the texts; default: text, of dialogues utterance.")
    ] = None,
    dialogue_column: Annotated[str, typer.Option(help="Column that tells dialogues apart.")] = "dialogue",
    speaker_column: Annotated[str, typer.Option(help="Column with the speakers of dialogues.")] = "speaker",
    taxonomy: Taxonomy = None,
    target: Annotated[
        list[str] | None, typer.Option(help="Targeted sentiment: ask for this target instead of those in the text.")
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(min=1, help="The k most probable labels, whatever the thresholds.")
    ] = None,
    max_length: Annotated[int | None, typer.Option(help="Tokens per text; default: as many as in training.")] = None,
    dtype: Dtype = None,
    on_bad_rows: Annotated[
        Literal["error", "skip"],
        typer.Option(help="Malformed rows and empty texts in a file: error, or skip (kept without prediction)."),
    ] = "error",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per text.")] = False,
) -> None:
    """
    Predict emotions, or sentiment towards targets and aspects: for texts, lines of stdin, or a file of any length (resumable).

    A model of dialogues takes the texts (lines) as the turns of one dialogue, "SPEAKER: UTTERANCE" or the utterance alone.
    """
    if (input_ is None) != (output is None):
        raise typer.BadParameter("--input and --output go together.")
    if input_ is not None and texts:
        raise typer.BadParameter("give texts or --input, not both.")
    if engine == "ray" and input_ is None:
        raise typer.BadParameter("--engine ray goes with --input and --output.")
    if workers is not None and engine != "ray":
        raise typer.BadParameter("--workers goes with --engine ray; several processes: torchrun, accelerate launch.")
    _refuse_files(texts)
    from ..runtime.exported import is_light

    _quiet(needs_transformers=not is_light(Path(checkpoint)))
    from ..inference import load_predictor
    from ..tasks.dialogue_emotion.predictor import DialoguePredictor
    from ..tasks.emotion_classification.predictor import Predictor
    from ..tasks.targeted_sentiment.predictor import TargetedPredictor

    state = _processes() if input_ is not None else None
    if state is not None and engine == "ray":
        raise typer.BadParameter("--engine ray starts its processes itself: without torchrun or accelerate launch.")
    predictor = load_predictor(checkpoint, taxonomy, max_length, _device_of(state), dtype)
    if not isinstance(predictor, Predictor | DialoguePredictor):
        raise ValueError(f"{checkpoint} generates replies: use `hf-emotion generate`.")
    targeted = isinstance(predictor, TargetedPredictor)
    if targeted and top_k is not None:
        raise typer.BadParameter(
            "--top-k is for emotions: targeted sentiment has one label for each target and aspect."
        )
    if target is not None and (not targeted or input_ is not None):
        raise typer.BadParameter("--target goes with texts and a model of targeted sentiment.")
    if input_ is not None and output is not None:
        options: dict[str, Any] = {"text_column": text_column, "top_k": top_k, "on_bad_rows": on_bad_rows}
        if engine == "ray":
            from ..serving.ray_engine import predict_with_ray

            done = predict_with_ray(predictor, input_, output, workers=workers, **options)
        else:
            from ..serving.bulk import predict_file

            options |= {"dialogue_column": dialogue_column, "speaker_column": speaker_column}
            done = predict_file(predictor, input_, output, state=state, **options)
        if state is None or state.is_main_process:
            print(
                f"{done['rows']} rows written to {output}"
                + (f", {done['skipped']} without a prediction" if done["skipped"] else "")
            )
        return
    lines = _given_or_stdin(texts, "text")
    if isinstance(predictor, DialoguePredictor):
        from ..tasks.dialogue_emotion.predictor import speaker_and_utterance

        (turns,), unread = predictor.predict([[speaker_and_utterance(line) for line in lines]])
        if as_json:
            _print_json_lines(turns, unread)
        else:
            _print_dialogue(turns, top_k or 1)
        return
    results: list[list[dict[str, Any]]]
    if isinstance(predictor, TargetedPredictor):
        results, unread = predictor.predict(lines, targets=target, progress=len(lines) > 1000)
    else:
        results, unread = predictor.predict(lines, top_k=top_k, progress=len(lines) > 1000)
    if as_json:
        name = "sentiments" if targeted else "labels"
        _print_json_lines([{"text": text, name: items} for text, items in zip(lines, results, strict=True)], unread)
    elif targeted:
        _print_sentiments(lines, results)
    elif len(lines) == 1:
        _print_table(["label", "probability"], [[item["label"], f"{item['score']:.3f}"] for item in results[0]])
        if not results[0]:
            print("no label passes its threshold (--top-k 3 shows the most probable)")
    else:
        for text, labels in zip(lines, results, strict=True):
            found = ", ".join(f"{item['label']} {item['score']:.3f}" for item in labels)
            print(f"{text}\t{found or '-'}")


def _refuse_files(given: list[str] | None) -> None:
    """A file's or folder's name among the texts is not what is to be read."""
    for text in given or ():
        if os.path.isfile(text):
            raise ValueError(
                f"{text} is a file, and texts are meant here: --input {text} --output FILE reads a table (where the command has it), "
                f"< {text} a text for each line."
            )
        if "/" in text and os.path.isdir(text):
            raise ValueError(f"{text} is a folder, and texts are meant here: give one checkpoint, then the texts.")


def _refuse_existing(output: Path | None) -> None:
    """Before the work begins: what lies there may be the input."""
    if output is not None and output.exists():
        raise FileExistsError(f"the output {output} exists: choose another name or remove it.")


def _given_or_stdin(given: list[str] | None, what: str) -> list[str]:
    if not given and sys.stdin.isatty():
        print(f"reading {what}s from the keyboard, one a line; Ctrl+D ends them", file=sys.stderr)
    lines = given or [line for line in sys.stdin.read().removeprefix("\ufeff").split("\n") if line.strip()]
    if not lines:
        raise ValueError(f"no {what}: give {what}s as arguments, lines on stdin, or --input with --output.")
    return lines


def _with_unread(rows: list[dict[str, Any]], unread: "Unread") -> Iterator[dict[str, Any]]:
    """Rows with `truncated` and `unknown`, what the model cannot read of each text."""
    for row, *own in zip(rows, *(values.tolist() for values in unread), strict=True):
        yield row | dict(zip(unread._fields, own, strict=True))


def _print_json_lines(rows: list[dict[str, Any]], unread: "Unread") -> None:
    for row in _with_unread(rows, unread):
        print(json.dumps(row, ensure_ascii=False))


def _print_dialogue(turns: list[dict[str, Any]], top_k: int) -> None:
    rows = []
    for turn in turns:
        best = sorted(turn["scores"].items(), key=lambda item: -item[1])[:top_k]
        rows.append([turn["speaker"] or "", turn["utterance"], ", ".join(f"{name} {p:.2f}" for name, p in best)])
    _print_table(["speaker", "utterance", "emotion"], rows)


def _print_sentiments(texts: list[str], results: list[list[dict[str, Any]]]) -> None:
    """A target × aspect table for each text."""
    for text, items in zip(texts, results, strict=True):
        if len(texts) > 1:
            print(text)
        aspects = list(dict.fromkeys(item["aspect"] for item in items))
        rows: dict[str, list[str]] = {}
        for item in items:
            rows.setdefault(item.get("target", ""), []).append(f"{item['label']} {item['score']:.2f}")
        if "target" in items[0]:
            _print_table(["target", *aspects], [[target, *cells] for target, cells in rows.items()])
        else:
            _print_table(aspects, list(rows.values()))


@app.command()
def generate(
    checkpoint: Annotated[str, typer.Argument(help="Run folder, local folder or Hub id of a generator of replies.")],
    contexts: Annotated[
        list[str] | None, typer.Argument(help="Contexts; without any, and without --input: lines of stdin.")
    ] = None,
    emotion: Annotated[
        list[str] | None,
        typer.Option(
            "--emotion",
            "-e",
            help="Name or emoji of an emotion, or a mixture, e.g. joy=0.7,surprise=0.3; several give a reply each.",
        ),
    ] = None,
    all_emotions: Annotated[
        bool, typer.Option("--all-emotions", help="A reply in every emotion of the model.")
    ] = False,
    input_: Annotated[
        Path | None,
        typer.Option("--input", help="CSV, TSV, JSONL or Parquet file with the columns context and emotion."),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="JSONL file for context, emotion and reply.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the sampling.")] = None,
    greedy: Annotated[
        bool, typer.Option("--greedy", help="The most probable token each time, not a sampled one.")
    ] = False,
    num_beams: Annotated[int | None, typer.Option(min=1, help="Beams, instead of sampling.")] = None,
    top_k: Annotated[
        int | None, typer.Option(min=1, help="Sample from this many tokens; default: the checkpoint's, 10.")
    ] = None,
    top_p: Annotated[
        float | None, typer.Option(min=0, max=1, help="Sample from this share of the probability.")
    ] = None,
    max_new_tokens: Annotated[int | None, typer.Option(min=1, help="Length of a reply; default: 40.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Reply to contexts in chosen emotions."""
    if (input_ is None) != (output is None):
        raise typer.BadParameter("--input and --output go together.")
    if input_ is not None and (contexts or emotion or all_emotions):
        raise typer.BadParameter(
            "--input brings contexts and emotions: leave out CONTEXTS, --emotion and --all-emotions."
        )
    if input_ is None and bool(emotion) == all_emotions:
        raise typer.BadParameter("give --emotion, once or several times, or --all-emotions.")
    if greedy and (top_k or top_p or (num_beams or 1) > 1):
        raise typer.BadParameter("--greedy goes without --top-k, --top-p and --num-beams.")
    if (num_beams or 1) > 1 and (top_k or top_p):
        raise typer.BadParameter(
            "--num-beams takes the most probable replies and samples none: leave out --top-k and --top-p."
        )
    _refuse_files(contexts)
    _refuse_existing(output)
    options: dict[str, Any] = {
        "top_k": top_k,
        "top_p": top_p,
        "num_beams": num_beams,
        "max_new_tokens": max_new_tokens,
    }
    options = {name: value for name, value in options.items() if value is not None}
    if greedy or (num_beams or 1) > 1:
        options["do_sample"] = False
    if top_p is not None and top_k is None:
        options["top_k"] = 0  # else the checkpoint's would cut first
    _quiet()
    from ..tasks.emotional_response.predictor import ReplyGenerator

    generator = ReplyGenerator(checkpoint)
    if input_ is not None and output is not None:
        from ..data.files import read_rows

        rows = []
        for number, row in read_rows(input_):
            if not all(isinstance(row.get(name), str) and row[name].strip() for name in ("context", "emotion")):
                raise ValueError(
                    f"{input_}, line {number}: `context` and `emotion` must be texts that are not empty, got {row}."
                )
            rows.append((row["context"], _emotion(row["emotion"])))
        replies, unread = generator.predict(
            [row[0] for row in rows], [row[1] for row in rows], seed=seed, progress=True, **options
        )
        found = [
            {"context": context, "emotion": mixture, "reply": reply}
            for (context, mixture), reply in zip(rows, replies, strict=True)
        ]
        _write_jsonl(output, list(_with_unread(found, unread)))
        print(f"{len(rows)} replies written to {output}")
        return
    lines = _given_or_stdin(contexts, "context")
    asked = [_emotion(name) for name in emotion or generator.emotions]
    repeated = [line for line in lines for _ in asked]
    flat, unread = generator.predict(repeated, asked * len(lines), seed=seed, progress=len(repeated) > 1000, **options)
    if as_json:
        each = zip(repeated, asked * len(lines), flat, strict=True)
        _print_json_lines(
            [{"context": line, "emotion": mixture, "reply": reply} for line, mixture, reply in each], unread
        )
        return
    names = list(emotion or generator.emotions)
    for number, line in enumerate(lines):
        if len(asked) == 1 and len(lines) == 1:
            print(flat[0])
        else:
            replies = flat[number * len(asked) : (number + 1) * len(asked)]
            _print_table(["emotion", line], [list(row) for row in zip(names, replies, strict=True)])


@app.command()
def explain(
    checkpoint: Annotated[str, typer.Argument(help="Run folder, local folder or Hub id.")],
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            help="A text, a context of a generator, or the turns of a dialogue; without any: lines of stdin."
        ),
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(help="Label, may be repeated; default: the most probable ones.")
    ] = None,
    target: Annotated[
        list[str] | None, typer.Option(help="Targeted sentiment; default: the targets in the text.")
    ] = None,
    aspect: Annotated[list[str] | None, typer.Option(help="Targeted sentiment; default: all aspects.")] = None,
    emotion: Annotated[
        list[str] | None,
        typer.Option(
            "--emotion", "-e", help="Generators: the reply is in the first, compared with the others, or with all."
        ),
    ] = None,
    reply: Annotated[str | None, typer.Option(help="Generators: a given reply, instead of a generated one.")] = None,
    method: Annotated[
        Literal["attention", "gradient", "integrated-gradients", "occlusion"] | None,
        typer.Option(help="Default: attention."),
    ] = None,
    merge: Annotated[
        Literal["sum", "max", "none"], typer.Option(help="What the pieces of a word give; none: show the pieces.")
    ] = "sum",
    layer: Annotated[int | None, typer.Option(help="CG-BERT and QACG-BERT, from 0; default: 0.")] = None,
    head: Annotated[int | None, typer.Option(help="CG-BERT and QACG-BERT, from 0; default: 0.")] = None,
    max_length: Annotated[int | None, typer.Option(help="Tokens per text; default: as many as in training.")] = None,
    format_: Annotated[
        Literal["terminal", "png", "html", "json"] | None,
        typer.Option("--format", help="Default: by the ending of --output, else terminal."),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write: .png, .html or .json.")] = None,
) -> None:
    """Show what a checkpoint looked at: which words (utterances) drove which label, and how emotions move a reply."""
    endings = (".png", ".html", ".json")
    if output is not None:
        if output.suffix.lower() not in endings or format_ not in (None, output.suffix.lower()[1:]):
            raise typer.BadParameter(f"--output must end in {', '.join(endings)}, the same as --format; got {output}.")
        format_ = output.suffix.lower()[1:]  # type: ignore[assignment]  # one of `endings`, as was checked
    elif format_ in ("png", "html"):
        raise typer.BadParameter(f"--format {format_} goes with --output FILE.{format_}.")
    _refuse_files(texts)
    _quiet()
    from ..inference.explain import explain as run

    lines = _given_or_stdin(texts, "text")
    explanation = run(
        checkpoint,
        lines if len(lines) > 1 else lines[0],
        labels=label,
        targets=target,
        aspects=aspect,
        emotions=None if emotion is None else [_emotion(name) for name in emotion],
        reply=reply,
        method=method,
        merge=merge,
        layer=layer,
        head=head,
        max_length=max_length,
    )
    if output is not None:
        from ..reports.explain_views import write_explanation

        write_explanation(explanation, output)
        print(f"{explanation.method} written to {output} ({explanation.seconds:.2f} s)")
    elif format_ == "json":
        _print_json(explanation.to_dict())
    else:
        from ..reports.explain_views import print_explanation

        print_explanation(explanation, _console())


@app.command()
def demo(
    checkpoints: Annotated[
        list[str],
        typer.Argument(help="Run folders, local folders or Hub ids, all of one kind; compared side by side."),
    ],
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 7860,
) -> None:
    """Serve a page to try checkpoints in a browser: predictions, heat maps, replies. Needs no network."""
    _quiet()
    from ..serving.demo import serve

    if host not in ("127.0.0.1", "localhost", "::1"):
        print(f"warning: whoever reaches {host}:{port} can use the page, there is no login", file=sys.stderr)
    serve(checkpoints, host, port)


@app.command()
def faithfulness(
    checkpoint: Annotated[str, typer.Argument(help="Run folder, local folder or Hub id of a classifier of texts.")],
    dataset: Annotated[str, typer.Option(help="As in `evaluate`.")],
    split: Annotated[Literal["train", "validation", "test"], typer.Option(help="Part of the corpus.")] = "test",
    data_dir: DataDir = None,
    rows: Annotated[int, typer.Option(min=1, help="Size of the random sample.")] = 100,
    method: Annotated[
        list[str] | None, typer.Option(help="One of `explain`'s, may be repeated; default: all four.")
    ] = None,
    random_rankings: Annotated[int, typer.Option(min=1, help="Rankings by chance for each text.")] = 5,
    seed: Annotated[int, typer.Option(help="Of the sample and of the random rankings.")] = 0,
    option: Annotated[list[str] | None, typer.Option(help="Argument of the dataset's loader, key=value.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print every figure as JSON.")] = False,
) -> None:
    """Comprehensiveness and sufficiency (ERASER) of the methods of `explain`, against random rankings of the words."""
    _quiet()
    from ..inference.explain import METHODS
    from ..study.faithfulness import faithfulness as run

    result = run(
        checkpoint,
        dataset,
        data_dir,
        split,
        rows,
        method or METHODS,
        random_rankings,
        seed,
        _options(option),
        progress=True,
    )
    if as_json:
        _print_json(result)
        return
    table = []
    for name, values in result["methods"].items():
        cells = [
            f"{values[figure]:+.4f} ({_figure(values[f'{figure}_std_error'], '.4f')})"
            for figure in ("comprehensiveness", "sufficiency")
        ]
        table.append([name, *cells, f"{values['above_random']:.0%}" if "above_random" in values else ""])
    title = f"{dataset} {split} ({result['rows']} texts)"
    _print_table([title, "comprehensiveness ↑ (SE)", "sufficiency ↓ (SE)", "above random"], table)
    shares = ", ".join(f"{share:.0%}" for share in result["bins"])
    print(
        f"means over rationales of {shares} of the words; random: {result['random_rankings']} rankings for each text"
    )


def _emotion(text: str) -> str | dict[str, float]:
    """A name, or a mixture "joy=0.7,surprise=0.3"."""
    if "=" not in text:
        return text
    mixture = {}
    for part in text.split(","):
        name, _, weight = part.rpartition("=")
        try:
            mixture[name.strip()] = float(weight)
        except ValueError:
            raise ValueError(f"a mixture of emotions has the form joy=0.7,surprise=0.3, got {text!r}.") from None
    if len(mixture) < len(text.split(",")):
        raise ValueError(f"a mixture names each emotion once, got {text!r}.")
    return mixture


def _write_jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    from ..io.files import write_text

    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def _print_reply_tables(result: dict[str, Any]) -> None:
    """Tables 1-3 of the paper: hits of each judge, shape of the replies, likeness to human ones."""
    rows, published = result["rows"], result["published"]
    ks = (1, 3, 5)
    hits = [(f"{prefix}hits@{k}", "%") for prefix in ("", "macro_") for k in ks]
    print(f"{result['contexts']} contexts, {len(result['emotions'])} emotions, {result['settings']}")
    printed = [(f"published: {row}", values) for row, values in published.items()]
    for judge in next(iter(rows.values()))["judges"]:
        judged = [
            (f"{row}, {kind.replace('_', ' ')}", figures)
            for row, values in rows.items()
            for kind, figures in values["judges"][judge].items()
        ]
        titles = [f"Table 1, % by {judge}", *(f"Hits@{k}" for k in ks), *(f"macro @{k}" for k in ks)]
        _print_table(titles, _figure_rows([*judged, *printed], hits))
    shape = [("ttr_1", ".3f"), ("ttr_2", ".2f"), ("average_length", ".1f")]
    shape += [(name, "%") for name in ("stop_words", "repetition_rate", "identical_share")]
    likeness = [(f"bertscore_{name}", "%") for name in ("precision", "recall", "f1")]
    likeness = [("perplexity", ".1f"), *likeness, ("token_perplexity", ".1f"), ("token_perplexity_ngram", ".1f")]
    for title, columns in (("Table 2", shape), ("Table 3", likeness)):
        names = (f"{name}{', %' if form == '%' else ''}" for name, form in columns)
        _print_table([title, *names], _figure_rows([*rows.items(), *printed], columns))
    print(f"perplexity: 5-gram, backend {rows['model']['perplexity_backend']}")


def _figure_rows(rows: list[tuple[str, dict[str, Any]]], columns: list[tuple[str, str]]) -> list[list[str]]:
    """The rows that have any of the columns; a column is a name and a format, "%" for percent with one digit."""
    table = []
    for row, values in rows:
        found = [(values.get(name), form) for name, form in columns]
        if any(value is not None for value, _ in found):
            cells = (
                "" if value is None else f"{100 * value:.1f}" if form == "%" else format(value, form)
                for value, form in found
            )
            table.append([row, *cells])
    return table


@app.command()
def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run folders of one corpus; the first is the baseline.")],
    split: Annotated[
        Literal["validation", "test"] | None,
        typer.Option(help="Part of the corpus; default: test, or validation where a run has no other."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print every figure as JSON.")] = False,
) -> None:
    """
    Table of runs, mean ± std over their seeds; and each run against the first: the difference of these means of macro-F1, by a
    bootstrap of seeds and rows. With one seed each also McNemar's test.
    """
    from ..reports.compare import compare as run

    result = run(runs, split)
    if as_json:
        _print_json(result)
        return
    _print_table(["run", "encoder", "seeds", *result["metrics"]], result["table"])
    for note in result["notes"]:
        print(f"note: {note}")
    for number, row in enumerate(result["tests"]):
        line = (
            f"{row['second']} vs {row['first']} ({row['decision']}): macro-F1 difference {row['difference']:+.4f}, 95 % interval "
            f"[{row['low']:+.4f}, {row['high']:+.4f}], bootstrap p = {row['p_value']:.3f}"
        )
        if row["mcnemar_p_value"] is not None:
            line += (
                f"; rows wholly right in one run alone: {row['only_second']} vs {row['only_first']}, McNemar p = "
                f"{row['mcnemar_p_value']:.3g}"
            )
        print(line)
        following = result["tests"][number + 1 : number + 2]
        if not following or following[0]["second"] != row["second"]:
            print(f"  tested: {row['tested']}")


@app.command()
def analyze(
    runs: Annotated[
        list[Path], typer.Argument(help="A run folder; or two over the same rows, the first the baseline.")
    ],
    split: Annotated[
        Literal["validation", "test"] | None, typer.Option(help="Part of the corpus; default: test, if there is one.")
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Folder with the corpora, for the texts of the errors; default: $HF_EMOTION_DATA."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print every figure as JSON.")] = False,
) -> None:
    """
    Confusions, calibration, threshold curves, label correlations and errors of a run, into its report.html; of two runs what one
    has right and the other not.
    """
    if len(runs) > 2:
        raise typer.BadParameter("give one run, or two; `hf-emotion compare` takes more.")
    _quiet()
    from ..reports.analyze import analyze as run_one
    from ..reports.analyze import analyze_pair

    if len(runs) == 2:
        result = analyze_pair(runs[0], runs[1], split, data_dir)
        _print_json(result) if as_json else _print_pair(result)
        return
    result = run_one(runs[0], split, data_dir)
    if as_json:
        _print_json(result)
        return
    if "confusions" in result:
        _print_analysis(result)
    for what, why in result["left_out"].items():
        print(f"left out, {what}: {why}")
    print(f"\nreport: {runs[0] / 'report.html'}")


def _print_analysis(result: dict[str, Any]) -> None:
    from ..metrics.significance import mean_std

    of = f"{result['dataset']} {result['split']}"
    pairs = [[pair["gold"], pair["predicted"], str(pair["rows"])] for pair in result["confusions"][:10]]
    _print_table([f"{of}: gold", "predicted", "rows"], pairs)
    print(f"rows with one label right (top 1): {mean_std(result['top1_accuracy'])}")
    if result["rows"]["with several gold labels"]:
        print(f"rows with several labels right (all in the top 3): {mean_std(result['top3_accuracy'])}")
    _print_background([("", result["background"])])
    if calibration := result["calibration"]:
        print(
            f"expected calibration error: {mean_std(calibration['before']['ece_over_seeds'])}, at temperature "
            f"{calibration['temperature']:.3f} {mean_std(calibration['after']['ece_over_seeds'])}"
        )


def _print_background(runs: list[tuple[str, dict[str, Any]]]) -> None:
    for run, background in runs:
        for name, kinds in background.items():
            parts = (
                f"{label}: {kinds[kind]['rows']} of {kinds[kind]['of']} ({_figure(100 * kinds[kind]['share']['mean'], '.1f')} %)"
                for kind, label in (("to_other", f"{name} → other"), ("from_other", f"other → {name}"))
            )
            print(f"{run}{', '.join(parts)}")


def _print_pair(result: dict[str, Any]) -> None:
    names = result["second"], result["first"]
    for right, wrong, found in (
        (*names, result["only_second"]),
        (*reversed(names), result["only_first"]),
    ):
        pairs = [[pair["gold"], pair["predicted"], str(pair["rows"])] for pair in found["pairs"][:10]]
        print(f"right in {right} alone: {found['rows']} rows, {found['several_labels']} of them with several labels")
        _print_table(["gold", f"{wrong} predicted", "rows"], pairs)
    test = result["mcnemar"]
    print(
        f"{result['rows']} rows; right in one run alone: {test['only_second']} vs {test['only_first']}, McNemar p = "
        f"{test['p_value']:.3g}"
    )
    _print_background(
        [(f"{result[run]}: ", own) for run, own in zip(("first", "second"), result["background"], strict=True)]
    )
    for what, why in result["left_out"].items():
        print(f"left out, {what}: {why}")
    print(f"\nreport: {result['page']}")


@app.command()
def push(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run, or one that `release` built.")],
    repo_id: Annotated[str, typer.Option(help="NAMESPACE/NAME on the Hub; NAME alone: in the token's own namespace.")],
    private: Annotated[bool, typer.Option("--private", help="Make a new repository private.")] = False,
    revision: Annotated[str | None, typer.Option(help="Branch, made from main when it is missing.")] = None,
    create_pr: Annotated[bool, typer.Option("--create-pr", help="Open a pull request against main.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, list the files, send nothing.")
    ] = False,
    tag: Annotated[str | None, typer.Option(help="New tag on the commit.")] = None,
    space: Annotated[
        Path | None, typer.Option(help="Also write the files of a Gradio Space for the model into this new folder.")
    ] = None,
    trust_remote_code: TrustRemoteCode = False,
) -> None:
    """Publish a run on the Hub: model, code, card, metrics and plots, once they load without hf-emotion."""
    from ..publishing.hub import push as run_push

    done = run_push(
        run, repo_id, private, revision, create_pr, tag, dry_run, space, trust_remote_code=trust_remote_code
    )
    _print_sizes(done["files"])
    if space is not None:
        print(f"Space written to {space}; publish it with: hf upload REPO {space} . --repo-type space")
    if dry_run:
        print("dry run: nothing was sent")
    elif done["changed"]:
        print(f"published: {done['url']}")
    else:
        print(f"nothing to do: {done['url']} holds these files already")


@app.command()
def release(
    runs: Annotated[list[Path], typer.Argument(help="Folders of finished runs.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="New or empty folder.")],
    namespace: Annotated[str | None, typer.Option(help="Account on the Hub that will hold the models.")] = None,
    trust_remote_code: TrustRemoteCode = False,
) -> None:
    """Build the folders to publish from finished runs, checked, with a card of the collection and SHA-256 sums."""
    from ..publishing.release import SUMS
    from ..publishing.release import release as run_release

    for name, files in run_release(runs, output, namespace, trust_remote_code).items():
        print(f"{output / name}: {len(files)} files, {sum(files.values()):,} bytes")
    print(f"check with: cd {output} && sha256sum --check {SUMS}")


def _print_sizes(files: dict[str, int]) -> None:
    for path, size in files.items():
        print(f"{size:>14,}  {path}")
    print(f"{sum(files.values()):>14,}  bytes in {len(files)} files")


@app.command()
def convert(
    reference: Annotated[
        str,
        typer.Argument(
            help="The authors' state dict: .bin, .pt, .pth or .safetensors; with --to-roberta a BERT model."
        ),
    ],
    output: Annotated[Path, typer.Argument(help="New or empty folder.")],
    config: Annotated[
        Path | None,
        typer.Option(help="JSON with the sizes; default: config.json or bert_config.json beside REFERENCE."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="key=value of the configuration, e.g. aspects=[price,safety]."),
    ] = None,
    to_roberta: Annotated[
        bool,
        typer.Option(
            "--to-roberta", help="Put a BERT encoder (folder, Hub id or minilm) into RoBERTa's architecture."
        ),
    ] = False,
) -> None:
    """Convert a checkpoint of the authors' label-aware, CG-BERT or QACG-BERT code to one that AutoModel can load; or BERT to RoBERTa."""
    _quiet()
    from ..convert import bert_to_roberta, convert_checkpoint

    if to_roberta:
        if config is not None or set_:
            raise typer.BadParameter("--to-roberta takes everything from the model: leave out --config and --set.")
        bert_to_roberta(reference, output)
        print(f"RobertaModel written to {output}, with the tokenizer of {reference}")
        return
    done = convert_checkpoint(reference, output, config, **_options(set_, "--set"))
    ignored = f", {len(done.ignored)} without effect on any output left out" if done.ignored else ""
    print(f"{done.model_class} written to {output}: {done.read} tensors read{ignored}")
    if not done.tokenizer:
        print("no tokenizer beside the checkpoint: save the one it was trained with into the folder before `predict`")


@app.command()
def export(
    checkpoint: Annotated[str, typer.Argument(help="Run folder, local folder or Hub id.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="New or empty folder; default: CHECKPOINT-onnx.")
    ] = None,
    format_: Annotated[Literal["onnx"], typer.Option("--format", help="What to write.")] = "onnx",
    quantize: Annotated[
        Literal["int8", "uint8"] | None,
        typer.Option(
            help="8-bit weights: smaller, with other logits; int8 is fast on processors with VNNI and on ARM, and loses accuracy "
            "on others, uint8 is slower and right on all."
        ),
    ] = None,
    texts: Annotated[
        Path | None,
        typer.Option(
            help="Texts to compare with torch, one a line; of dialogues one turn a line, and an empty line between two. "
            "Default: those of --dataset, else the test part of the quickstart corpus."
        ),
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="Corpus to compare on, and with --quantize to measure before and after.")
    ] = None,
    split: Annotated[Literal["train", "validation", "test"], typer.Option(help="Part of the corpus.")] = "test",
    data_dir: DataDir = None,
    option: Annotated[list[str] | None, typer.Option(help="Argument of the dataset's loader, key=value.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Write a classifier or a reply generator as ONNX, compared with torch; `predict` and `evaluate` read the folder."""
    _quiet()
    from ..publishing.export import export_onnx, read_texts

    output = output or Path(
        f"{checkpoint.rstrip('/')}-onnx" if Path(checkpoint).is_dir() else f"{checkpoint.split('/')[-1]}-onnx"
    )
    report = export_onnx(
        checkpoint,
        output,
        quantize,
        None if texts is None else read_texts(texts, checkpoint),
        dataset,
        split,
        data_dir,
        _options(option),
    )
    if as_json:
        _print_json(report)
        return
    rows = [
        [kind, *(str(values[name]) for name in ("texts", "rows", "labels")), f"{values['max_logit_difference']:.2g}"]
        + [str(values["other_decisions"])]
        for kind, values in ((kind, report[kind]) for kind in ("float32", quantize) if kind in report)
    ]
    _print_table(["weights", "texts", "rows", "logits per row", "largest difference", "other decisions"], rows)
    if quantize is not None and "metrics" in report:
        rows = [
            [name, f"{values['torch']:.4f}", f"{values[quantize]:.4f}", f"{values[quantize] - values['torch']:+.4f}"]
            for name, values in report["metrics"].items()
        ]
        _print_table([f"{dataset} {split}", "torch", quantize, "change"], rows)
    speed = report["speed"]
    low, high = speed["quartiles"]
    print(
        f"{speed['times_as_fast_as_torch']:.2f} times as fast as torch (quartiles {low:.2f} and {high:.2f}), "
        f"{speed['threads']} threads\n\nexported to {output}"
    )


@human_eval.command("export")
def human_eval_export(
    replies: Annotated[
        list[Path],
        typer.Argument(
            help="JSONL files with context, emotion and reply, the same rows in each; one per source, named after it."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="New or empty folder.")],
    raters: Annotated[int, typer.Option(min=1, help="Number of raters.")],
    seed: Annotated[int, typer.Option(help="Of the ids and of each rater's order.")] = 0,
) -> None:
    """Write for each rater a blinded sheet (CSV) and the same as a form to print (HTML), and the key of the sources."""
    from ..study.human_eval import KEY, export_sheets, read_replies

    sheets = export_sheets(*read_replies(replies), output, raters, seed)
    print(f"{len(sheets)} sheets written to {sheets[0].parent}; keep {output / KEY} from the raters")


@human_eval.command("analyze")
def human_eval_analyze(
    folder: Annotated[Path, typer.Argument(help="Folder of `export`, with the sheets filled in.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print every figure as JSON.")] = False,
) -> None:
    """Mean ± standard error per source, Cronbach's alpha, repeated-measures ANOVA and paired tests of the ratings."""
    from ..study.human_eval import HIGHEST, LOWEST, analyze_ratings

    result = analyze_ratings(folder)
    if as_json:
        _print_json(result)
        return
    items = list(next(iter(result["sources"].values())))
    print(f"{result['raters']} raters, {result['replies']} replies; {LOWEST} = worst, {HIGHEST} = best; mean (SE)")
    _print_table(
        ["source", *items],
        [
            [source, *(f"{values[item]['mean']:.2f} ({_figure(values[item]['se'], '.2f')})" for item in items)]
            for source, values in result["sources"].items()
        ],
    )
    print(f"Cronbach's alpha of the readability items: {_figure(result['cronbach_alpha'], '.2f')}")
    for measure, test in result["anova"].items():
        print(
            f"ANOVA of {measure}: F({test['df_sources']}, {test['df_error']}) = {_figure(test['f'], '.2f')}, "
            f"p = {_figure(test['p_value'], '.3g')}"
        )
    _print_table(
        ["measure", "first", "second", "difference", "t", "df", "p", "p (Holm)"],
        [
            [
                *(
                    test["measure"],
                    test["first"],
                    test["second"],
                    f"{test['difference']:+.2f}",
                    _figure(test["t"], ".2f"),
                ),
                *(str(test["df"]), _figure(test["p_value"], ".3g"), _figure(test["p_value_holm"], ".3g")),
            ]
            for test in result["post_hoc"]
        ],
    )


def _figure(value: float, form: str) -> str:
    return "-" if value != value else format(value, form)


def _options(pairs: list[str] | None, name: str = "--option") -> dict[str, Any]:
    from ..recipes import read_value

    options = {}
    for pair in pairs or []:
        key, separator, value = pair.partition("=")
        if not separator:
            raise typer.BadParameter(f"{name} has the form key=value, got {pair!r}.")
        try:
            options[key] = read_value(value)
        except ValueError as error:
            raise typer.BadParameter(f"{name} {pair!r} has no valid YAML value: {error}") from error
    return options


def _print_report(report: dict[str, Any]) -> None:
    from ..metrics.significance import mean_std

    split = "test" if "test" in report["summary"] else "validation"
    kinds = report["summary"][split]
    titles = {"fixed": f"threshold {report['threshold']}", "tuned": "tuned on dev", "argmax": "argmax"}
    titles["teacher_forcing"] = "teacher forcing"
    rows = []
    for name in next(iter(kinds.values())):
        cells = [mean_std(values.get(name)) for values in kinds.values()]
        published = report["published"].get(name)
        rows.append([name, *cells, "" if published is None else str(published)])
    _print_table([f"{report['name']}, {split}", *(titles[kind] for kind in kinds), "published"], rows)


def _print_table(header: list[str], rows: list[list[str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for number, name in enumerate(header):
        table.add_column(Text(name), overflow="fold", no_wrap=number == 0)
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))  # Text: brackets in names are no markup
    _console().print(table)


def _console():
    from rich.console import Console

    # A pipe or a file has no width of its own: do not fold there.
    return Console(width=None if sys.stdout.isatty() else 200, highlight=False)


def _print_json(value: Any) -> None:
    from ..io.files import without_nan

    print(json.dumps(without_nan(value), indent=2, ensure_ascii=False))


def _quiet(needs_transformers: bool = True) -> None:
    """Our commands say what matters themselves; no progress bars in a file or a pipe."""
    if needs_transformers:
        from huggingface_hub.utils import disable_progress_bars
        from transformers.utils import logging as transformers_logging

        transformers_logging.set_verbosity_error()
        transformers_logging.disable_progress_bar()  # of loading and saving weights
        if not sys.stderr.isatty():
            disable_progress_bars()
    if not sys.stderr.isatty():
        if sys.modules.get("datasets"):
            import datasets

            datasets.disable_progress_bars()
        else:  # read when it is imported: not every command needs it
            os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")


def _processes():
    """Accelerate's state where torchrun or `accelerate launch` has started several processes, else None."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return None
    from datetime import timedelta

    from accelerate import PartialState

    # On the CPU: they only wait for one another.
    return PartialState(cpu=True, timeout=timedelta(minutes=10))


def _device_of(state) -> str | None:
    """Each process on its own GPU."""
    if state is None:
        return None
    import torch

    return f"cuda:{state.local_process_index}" if torch.cuda.is_available() else None


def main() -> None:
    """Entry point: one line per error, and a traceback only with --debug."""
    try:
        app()
    except Exception as error:
        if "--debug" in sys.argv:
            raise
        expected = isinstance(error, (ValueError, OSError, ImportError, MemoryError, FloatingPointError)) and str(
            error
        )
        hint = "" if expected else f" ({type(error).__name__}; hf-emotion --debug COMMAND shows where)"
        print(f"error: {error}{hint}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
