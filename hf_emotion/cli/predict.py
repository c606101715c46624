# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion predict`."""

import os
import shutil
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..io.names import given
from .options import (
    Aggregation,
    Dtype,
    Groups,
    InputEncoding,
    MaxLength,
    MaxWindows,
    Overwrite,
    Separator,
    Stride,
    Taxonomy,
    TextColumn,
    checked,
    named,
    ready_names,
)
from .printing import in_terminal, print_json_lines, quiet, say, show, tab_separated
from .reading import (
    given_or_stdin,
    read_groups,
    read_thresholds,
    refuse_columns,
    refuse_files,
    stdin_lines,
    thresholds_of,
)


if TYPE_CHECKING:
    from ..tasks.base import Answer

# Arguments of `predict_file`.
BY_DIALOGUE = ("dialogue_column", "speaker_column")
OF_TABLES = ("text_column", *BY_DIALOGUE, "separator")
NOT_WITH_RAY = {*BY_DIALOGUE, "layout", "all_scores", "prefix", "encoding", "overwrite"}


def predict(
    checkpoint: Annotated[
        str,
        typer.Argument(
            help="Run folder, Hub id or ready model; with --url, a model of that service.", autocompletion=ready_names
        ),
    ],
    texts: Annotated[list[str] | None, typer.Argument(help="Texts; default, without --input: lines of stdin.")] = None,
    # Strings: a Path would spoil a URL.
    input_: Annotated[
        str | None,
        typer.Option(
            "--input",
            help="File or URL: CSV, TSV, JSONL, Parquet, Excel. Conversations (.vtt, .srt, WhatsApp's .txt, .json): also a folder.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="File or URL to write; default: standard output. Conversations: also a page, .html.",
        ),
    ] = None,
    engine: Annotated[Literal["local", "ray"], typer.Option(help="For a file: this process, or Ray Data.")] = "local",
    workers: Annotated[int | None, typer.Option(min=1, help="Actors of Ray; default: all GPUs, or CPUs.")] = None,
    text_column: TextColumn = None,
    separator: Separator = None,
    dialogue_column: Annotated[str | None, typer.Option(help="Column of the dialogues; default: dialogue.")] = None,
    speaker_column: Annotated[str | None, typer.Option(help="Column of the speakers; default: speaker.")] = None,
    mask_speakers: Annotated[
        bool,
        typer.Option(
            "--mask-speakers",
            help="Conversations: write Speaker 1, Speaker 2 for the speakers' names, also in the turns. Other or misspelled names stay.",
        ),
    ] = False,
    strip: Annotated[
        bool, typer.Option("--strip", help="Conversations: a strip of emotions for each speaker, instead of a table.")
    ] = False,
    taxonomy: Taxonomy = None,
    groups: Groups = None,
    target: Annotated[list[str] | None, typer.Option(help="A target, instead of those in the text.")] = None,
    label: Annotated[list[str] | None, typer.Option(help="Label to add for this call (label-aware models).")] = None,
    sentiment_model: Annotated[
        str | None, typer.Option(help="Terms: a model of text-term pairs that decides the sentiment.")
    ] = None,
    group: Annotated[bool, typer.Option("--group", help="Terms: join those of one aspect, over all texts.")] = False,
    url: Annotated[
        str | None, typer.Option(help="Ask this service (`hf-emotion serve`) instead; its key: $HF_EMOTION_API_KEY.")
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(min=1, help="The k most probable labels, whatever the thresholds.")
    ] = None,
    max_length: MaxLength = None,
    stride: Stride = None,
    max_windows: MaxWindows = None,
    aggregation: Aggregation = None,
    dtype: Dtype = None,
    on_bad_rows: Annotated[
        Literal["error", "skip"] | None,
        typer.Option(
            help="Rows and lines that are malformed or lack a text: error (default) stops; skip gives them no prediction."
        ),
    ] = None,
    columns: Annotated[
        Literal["joined", "wide"] | None,
        typer.Option(
            help="joined (default): one column with the chosen labels, one with their scores. wide: for each label (aspect) a "
            "column with its probability and one with the decision; for each value one column."
        ),
    ] = None,
    scores: Annotated[
        Literal["chosen", "all"] | None,
        typer.Option(help="chosen (default), or all: one column with the probabilities of all labels, as JSON."),
    ] = None,
    prefix: Annotated[str | None, typer.Option(help="Prefix of the new columns.")] = None,
    encoding: InputEncoding = None,
    overwrite: Overwrite = False,
    threshold: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[LABEL=]NUMBER", help="Another threshold: 0.4 for all labels, joy=0.6 for one; repeatable."
        ),
    ] = None,
    thresholds: Annotated[
        Path | None,
        typer.Option(help="File of thresholds, from `summarize --write-thresholds`. --threshold overrides it."),
    ] = None,
    escape_formulas: Annotated[
        bool,
        typer.Option("--escape-formulas", help="Put an apostrophe before cells of a CSV that look like formulas."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per text.")] = False,
) -> None:
    """
    Predict emotions, terms, or the sentiment towards targets and aspects, of texts, lines of stdin, or a file of any length (resumable).

    For a model of dialogues the texts (lines) are the turns of one dialogue: "SPEAKER: UTTERANCE", or only the utterance.
    """
    of_file = given(
        text_column=text_column,
        dialogue_column=dialogue_column,
        speaker_column=speaker_column,
        separator=separator,
        on_bad_rows=on_bad_rows,
        escape_formulas=escape_formulas or None,
        layout=columns,
        all_scores=scores and scores == "all",
        prefix=prefix,
        encoding=encoding,
        overwrite=overwrite or None,
    )
    loading = given(
        max_length=max_length,
        stride=stride,
        max_windows=max_windows,
        aggregation_strategy=aggregation,
        dtype=dtype,
        add_labels=label,
        sentiment_model=sentiment_model,
    )
    asked = given(top_k=top_k, targets=target, group=group or None)
    refuse_files(texts)
    if (input_ is None and output is not None) or (input_ is not None and (texts or target or group or as_json)):
        raise typer.BadParameter("--output needs --input, and --input takes no texts, --target, --group or --json.")
    if (engine == "ray" and (input_ is None or of_file.keys() & NOT_WITH_RAY)) or (workers and engine != "ray"):
        raise typer.BadParameter(
            "--engine ray needs --input and --output, and takes no --dialogue-column, --speaker-column (a dialogue is a row with "
            "`turns`), --columns, --scores, --prefix, --encoding or --overwrite. --workers needs --engine ray: start other processes by "
            "torchrun or accelerate launch."
        )
    misplaced = [name for name in of_file if input_ is None and (texts or name != "on_bad_rows")]
    if misplaced:
        raise typer.BadParameter(f"{named(misplaced)}: for files; give --input and --output, or leave it out.")
    if (mask_speakers or strip) and input_ is None:
        raise typer.BadParameter("--mask-speakers and --strip are for conversations in files: give --input.")
    conversations = None
    page = output is not None and output.lower().endswith(".html")
    if input_ is not None:
        from ..data.conversations import COLUMNS, are_conversations, as_table, read_conversations
        from ..io.paths import refuse_existing
    if input_ is not None and (mask_speakers or strip or page or are_conversations(input_)):
        if engine == "ray" or (strip and output is not None):
            raise typer.BadParameter("conversations go without --engine ray, and --strip without --output.")
        if are_conversations(input_):
            refuse_columns(input_, **{name: of_file.get(name) for name in OF_TABLES})
        for_reader = {*OF_TABLES, "encoding"} & of_file.keys()
        conversations = read_conversations(input_, mask_speakers, **{name: of_file.pop(name) for name in for_reader})
        unfit = [*(given(top_k=top_k) | of_file).keys() - {"overwrite"}]
        if (strip or page) and unfit:
            raise typer.BadParameter(f"{named(unfit)}: for a table, not for --strip or a page; leave it out.")
        if page and not overwrite:
            refuse_existing(output, "--overwrite")
        of_file["text_column"] = COLUMNS[-1]
    state = _processes() if input_ is not None and engine != "ray" else None
    if groups is not None:
        if taxonomy is not None or url is not None:
            raise typer.BadParameter("--groups does not go with --taxonomy or --url.")
        loading["taxonomy"] = read_groups(groups)
    elif url is None:
        loading["taxonomy"] = taxonomy
    if url is None:
        # Ray sends the model to its workers, maybe on other machines: an exported one is a file of this machine.
        predictor = _loaded(checkpoint, engine == "ray", _device_of(state), **loading)
    elif loading:
        raise typer.BadParameter(f"{named(loading)}: the service decides that. Leave it out with --url.")
    else:
        predictor = _behind(url, checkpoint, taxonomy)
    _check_fit(predictor, checkpoint, asked, of_file)
    if group:
        quiet()  # an encoder of transformers joins the terms, whatever runs the model
    if thresholds is not None:
        threshold = [*thresholds_of(thresholds), *(threshold or ())]
    if threshold:
        if predictor.thresholds is None or not predictor.multi_label:
            raise typer.BadParameter("--threshold is for multi-label models without --url: leave it out.")
        predictor.use_thresholds(read_thresholds(threshold, predictor))
    if conversations is not None and (strip or page):
        _picture(predictor, checkpoint, conversations, output)
    elif input_ is not None:
        options = given(workers=workers, top_k=top_k) | of_file
        with as_table(conversations) if conversations is not None else nullcontext(input_) as source:
            _predict_file(predictor, source, output, state, engine, options)
    elif texts or predictor.task.file_columns.grouped or group:  # all lines together are one item
        _print(predictor.answer(given_or_stdin(texts, "text", on_bad_rows), **asked), as_json)
    else:
        _answer_as_lines_come(predictor, asked, as_json, on_bad_rows)


def _check_fit(predictor: Any, checkpoint: str, asked: dict[str, Any], of_file: dict[str, Any]) -> None:
    """An error for a model of another command, and for options that its task does not take."""
    task = predictor.task
    if task.command != "predict":
        raise ValueError(f"{checkpoint} is a model for {task.name}: use `hf-emotion {task.command}`.")
    unfit = [*(asked.keys() - task.options)]
    if not task.file_columns.grouped and of_file.keys() & BY_DIALOGUE:
        unfit += BY_DIALOGUE
    if unfit:
        raise typer.BadParameter(f"{named(unfit)} does not go with a model for {task.name}: leave it out.")


def _picture(predictor: Any, model: str, conversations: dict[str, list[Any]], output: str | None) -> None:
    """Strips of conversations: in the terminal, or on a page."""
    from ..reports.conversations import write_page
    from ..tasks.dialogue_emotion.showing import strips

    if not predictor.task.file_columns.grouped:
        raise typer.BadParameter(f"--strip and pages are for models of dialogues, not for {predictor.task.name}.")
    answers, _ = predictor.predict([*conversations.values()])
    for (name, turns), own in zip(conversations.items(), answers, strict=True):
        for turn, answer in zip(turns, own, strict=True):
            turn.update(answer)
        if output is None:
            show([name, *strips(turns, predictor.labels)])
    if output is not None:
        write_page(Path(output), conversations, predictor.labels, Path(model).name)
        say(f"page of the conversations ({len(conversations)}): {output}")


def _predict_file(
    predictor: Any, source: str, output: str | None, state: Any, engine: str, options: dict[str, Any]
) -> None:
    """Predict a file into another one, or, without `output`, to standard output."""
    from ..data.files import format_of
    from ..io.paths import check_file, ending, shown

    target = output
    if target is None:  # a job writes a file, which is whole or is not there
        if state is not None:
            raise typer.BadParameter("several processes write a file: name it with --output.")
        check_file(source)
        format_of(source)  # which the output gets, too
        place = tempfile.TemporaryDirectory()
        suffix = ending(source) if ending(source) not in (".parquet", ".xlsx") else ".csv"
        target = str(Path(place.name) / f"output{suffix.removesuffix('.gz')}")
    if engine == "ray":
        from ..serving.ray_engine import predict_with_ray

        done = predict_with_ray(predictor, source, target, **options)
    else:
        from ..serving.bulk import predict_file

        done = predict_file(predictor, source, target, state=state, **options)
    if output is None:
        with open(target, "rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.flush()
    elif state is None or state.is_main_process:
        say(
            f"{done['rows']} rows written to {shown(target)}"
            + (f", {done['skipped']} without a prediction" if done["skipped"] else "")
        )


def _behind(url: str, model: str, taxonomy: str | None) -> Any:
    """What stands for a predictor where a service has the model."""
    from ..runtime.remote import Client
    from ..tasks import task_of_pipeline

    client = Client(url, model)
    task = task_of_pipeline(client.about["task"])
    if taxonomy is None:
        return task.remote(client)
    if "taxonomy" not in task.predictor_options:
        raise typer.BadParameter(f"--taxonomy does not go with a model for {task.name}: leave it out.")
    return task.remote(client, taxonomy=taxonomy)


def _loaded(checkpoint: str, weights: bool, device: str | None, **options: Any) -> Any:
    """The predictor of a checkpoint, of a ready model with its weights if they are asked for; options of `load_predictor`."""
    from ..runtime.exported import is_light
    from ..runtime.onnx import is_exported
    from ..runtime.ready import for_prediction, with_weights

    checked(checkpoint)
    if weights or "add_labels" in options:
        checkpoint = with_weights(checkpoint)
    else:
        checkpoint = for_prediction(checkpoint, device, options.get("dtype"))
    if is_exported(checkpoint):
        device = None  # it runs on the processor
    quiet(needs_transformers=not is_light(Path(checkpoint)))
    from ..inference import load_predictor

    return load_predictor(checkpoint, device=device, **options)


def _print(answer: "Answer", as_json: bool) -> None:
    if as_json:
        print_json_lines(answer.rows, answer.unread)
    else:
        show(answer.shown if in_terminal() else [*map(tab_separated, answer.cells)])


def _answer_as_lines_come(predictor: Any, settings: dict[str, Any], as_json: bool, on_bad_rows: str | None) -> None:
    """Answer the lines of stdin as they come, in batches of what is ready. What the model could not read is said once."""
    from ..runtime.unread import Counts

    counts = Counts()
    for lines in stdin_lines("text", on_bad_rows):
        answer = predictor.answer(lines, stream=True, **settings)
        _print(answer, as_json)
        sys.stdout.flush()
        counts = Counts.added([counts, answer.unread.counts])
    predictor.warn_unread(counts)


def _processes():
    """Accelerate's state if torchrun or `accelerate launch` has started several processes, else None."""
    if int(os.environ.get("WORLD_SIZE") or 1) == 1:
        return None
    from datetime import timedelta

    from accelerate import PartialState

    # On the CPU, because they only wait for one another.
    return PartialState(cpu=True, timeout=timedelta(minutes=10))


def _device_of(state) -> str | None:
    """Each process on its own GPU."""
    if state is None:
        return None
    import torch

    return f"cuda:{state.local_process_index}" if torch.cuda.is_available() else None
