# SPDX-License-Identifier: Apache-2.0
"""The command line, one file per command. Exit codes: 0 done, 1 the work failed, 2 wrong usage."""

import gc
import logging
import sys
from typing import Annotated

import typer

from ..io.version import __version__

# The modules, not their functions: `hf_emotion.cli.train` stays the module.
from . import (
    analyze,
    check_labels,
    compare,
    convert,
    demo,
    evaluate,
    explain,
    export,
    faithfulness,
    fold,
    generate,
    predict,
    push,
    ready,
    recipes,
    release,
    reproduce,
    serve,
    summarize,
    sweep,
    train,
)
from .printing import visible


# The commands import everything heavier inside their functions: `--help` must not wait for torch.

app = typer.Typer(
    help="Emotion and aspect-sentiment models: train, evaluate, predict, generate, explain, serve, analyze, compare, convert, export, fold, publish.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"hf-emotion {__version__}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")]


@app.callback()
def _common(debug: Debug = False, version: Version = False) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)


for command in (  # in the order of `--help`
    recipes.recipes,
    train.train,
    sweep.sweep,
    reproduce.reproduce,
    evaluate.evaluate,
    predict.predict,
    summarize.summarize,
    ready.ready,
    generate.generate,
    explain.explain,
    demo.demo,
    serve.serve,
    faithfulness.faithfulness,
    compare.compare,
    analyze.analyze,
    check_labels.check_labels,
    push.push,
    release.release,
    convert.convert,
    export.export,
    fold.fold,
):
    app.command()(command)


def main() -> None:
    """Entry point: one line per error, and a traceback only with --debug."""
    # Importing torch and transformers makes hundreds of thousands of objects that stay; Python would search them for garbage many times.
    gc.set_threshold(10_000)
    if getattr(sys.stdout, "errors", None) == "strict":  # a character that the console lacks is shown escaped
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # a text stream, as it has `errors`
    try:
        app()
    except Exception as error:
        if "--debug" in sys.argv:
            raise
        expected = isinstance(error, (ValueError, OSError, ImportError, MemoryError, FloatingPointError)) and str(
            error
        )
        hint = "" if expected else f" ({type(error).__name__}; hf-emotion --debug COMMAND shows where)"
        print(visible(f"error: {error}{hint}"), file=sys.stderr)
        sys.exit(1)
