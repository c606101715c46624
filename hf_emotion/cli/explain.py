# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion explain`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from .options import Checkpoint, MaxLength
from .printing import console, print_json, quiet, say
from .reading import emotion_or_mixture, given_or_stdin, refuse_files


def explain(
    checkpoint: Checkpoint,
    texts: Annotated[list[str] | None, typer.Argument(help="A text, or a dialogue's turns; default: stdin.")] = None,
    label: Annotated[list[str] | None, typer.Option(help="Label; repeatable; default: most probable.")] = None,
    target: Annotated[list[str] | None, typer.Option(help="Target; repeatable; default: those in the text.")] = None,
    aspect: Annotated[list[str] | None, typer.Option(help="Aspect; repeatable; default: all aspects.")] = None,
    emotion: Annotated[
        list[str] | None,
        typer.Option("--emotion", "-e", help="Generators: emotion of the reply, then those to compare; default: all."),
    ] = None,
    reply: Annotated[
        str | None, typer.Option(help="Generators: explain this reply instead of generating one.")
    ] = None,
    method: Annotated[
        Literal["attention", "gradient", "integrated-gradients", "occlusion"] | None,
        typer.Option(help="Default: attention."),
    ] = None,
    merge: Annotated[
        Literal["sum", "max", "none"],
        typer.Option(help="How to combine the scores of a word's pieces; none: show each piece."),
    ] = "sum",
    layer: Annotated[int | None, typer.Option(help="CG-BERT and QACG-BERT: the layer; default: 0, the first.")] = None,
    head: Annotated[int | None, typer.Option(help="CG-BERT and QACG-BERT: the head; default: 0, the first.")] = None,
    max_length: MaxLength = None,
    format_: Annotated[Literal["terminal", "json"], typer.Option("--format", help="How to print it.")] = "terminal",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write: .html or .json.")] = None,
) -> None:
    """Show what a checkpoint looked at: which words (utterances) drove which label, and how emotions move a reply."""
    if output is not None and output.suffix.lower() not in (".html", ".json"):
        raise typer.BadParameter(f"--output must end in .html or .json, got {output}.")
    refuse_files(texts)
    quiet()
    from ..inference.explain import explain as run

    lines = given_or_stdin(texts, "text")
    explanation = run(
        checkpoint,
        lines if len(lines) > 1 else lines[0],
        labels=label,
        targets=target,
        aspects=aspect,
        emotions=None if emotion is None else [emotion_or_mixture(name) for name in emotion],
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
        say(f"{explanation.method} written to {output} ({explanation.seconds:.2f} s)")
    elif format_ == "json":
        print_json(explanation.to_dict())
    else:
        from ..reports.explain_views import print_explanation

        print_explanation(explanation, console())
