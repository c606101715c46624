# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion generate`."""

from pathlib import Path
from typing import Annotated

import typer

from ..io.names import given
from ..io.paths import refuse_existing
from .options import checked
from .printing import print_json_lines, print_table, quiet, say, with_unread, write_jsonl
from .reading import emotion_or_mixture, given_or_stdin, refuse_files


def generate(
    checkpoint: Annotated[str, typer.Argument(help="Run folder or Hub id of a reply generator.", callback=checked)],
    contexts: Annotated[list[str] | None, typer.Argument(help="Messages; without --input: lines of stdin.")] = None,
    emotion: Annotated[
        list[str] | None,
        typer.Option("--emotion", "-e", help="Name, emoji or mixture, e.g. joy=0.7,surprise=0.3; one reply for each."),
    ] = None,
    all_emotions: Annotated[bool, typer.Option("--all-emotions", help="Reply in every emotion of the model.")] = False,
    input_: Annotated[Path | None, typer.Option("--input", help="Table with the columns context and emotion.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="JSONL file to write, with context, emotion and reply.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed for sampling.")] = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="Always take the most probable token.")] = False,
    num_beams: Annotated[
        int | None, typer.Option(min=1, help="Beam search with this many beams, no sampling.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(min=1, help="Sample from the k likeliest tokens.")] = None,
    top_p: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Sample from the likeliest tokens whose probabilities add up to this."),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(min=0.01, max=100, help="Sample more freely above 1, less below 1; default: the model's."),
    ] = None,
    max_new_tokens: Annotated[int | None, typer.Option(min=1, help="Most tokens in a reply; default: 40.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Reply to messages (contexts) in chosen emotions."""
    of_file = input_ is not None
    if of_file != (output is not None) or bool(emotion) + all_emotions + of_file != 1 or (of_file and contexts):
        raise typer.BadParameter("give contexts with --emotion or --all-emotions, or only --input and --output.")
    searches = greedy or (num_beams or 1) > 1  # and samples nothing
    if (searches and (top_k or top_p or temperature)) or (greedy and num_beams):
        raise typer.BadParameter("give one of --greedy, --num-beams, and sampling (--top-k, --top-p, --temperature).")
    if output is not None and (as_json or output.suffix != ".jsonl"):
        raise typer.BadParameter("--output writes JSON lines: name a .jsonl file, and leave out --json.")
    refuse_files(contexts)
    refuse_existing(output)
    settings = given(
        do_sample=False if greedy else None,
        top_k=top_k,
        top_p=top_p,
        temperature=temperature,
        num_beams=num_beams,
        max_new_tokens=max_new_tokens,
    )
    quiet()
    from .. import ReplyGenerator
    from ..tasks.emotional_response.predictor import decoding

    options = decoding(settings)
    generator = ReplyGenerator(checkpoint)
    names = list(emotion or generator.emotions)
    if input_ is not None:
        rows = _read_table(input_)
    else:
        rows = [(line, emotion_or_mixture(name)) for line in given_or_stdin(contexts, "context") for name in names]
    asked, mixtures = [context for context, _ in rows], [mixture for _, mixture in rows]
    replies, unread = generator.predict(asked, mixtures, seed=seed, progress=of_file or len(rows) > 1000, **options)
    answers = [
        {"context": context, "emotion": mixture, "reply": reply}
        for (context, mixture), reply in zip(rows, replies, strict=True)
    ]
    if output is not None:
        write_jsonl(output, list(with_unread(answers, unread)))
        say(f"{len(rows)} replies written to {output}")
    elif as_json:
        print_json_lines(answers, unread)
    elif len(rows) == 1:
        say(replies[0])
    else:
        for start in range(0, len(rows), len(names)):
            own = zip(names, replies[start : start + len(names)], strict=True)
            print_table(["emotion", asked[start]], [list(row) for row in own])


def _read_table(path: Path) -> list[tuple[str, str | dict[str, float]]]:
    """The contexts of a table, each with its emotion."""
    from ..data.files import read_rows

    rows = []
    for number, row in read_rows(path, ("context", "emotion")):
        if not all(isinstance(row.get(name), str) and row[name].strip() for name in ("context", "emotion")):
            raise ValueError(f"{path}, line {number}: `context` and `emotion` must be texts that are not empty.")
        rows.append((row["context"], emotion_or_mixture(row["emotion"])))
    return rows
