# SPDX-License-Identifier: Apache-2.0
"""The command line, one file per command. Exit codes: 0 done, 1 the work failed, 2 wrong usage."""

import gc
import logging
import sys
from collections.abc import Callable
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
    label,
    mcp,
    predict,
    push,
    ready,
    recipes,
    release,
    reproduce,
    sample,
    serve,
    summarize,
    sweep,
    train,
)
from .help import Command, Group
from .printing import VisibleFormatter, visible


# The commands import everything heavier inside their functions: `--help` must not wait for torch.

app = typer.Typer(
    cls=Group,
    help="Emotions in texts, opinions in reviews, moods of dialogues: ready models, and training of your own.",
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
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
def _common(context: typer.Context, debug: Debug = False, version: Version = False) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(VisibleFormatter("%(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    if context.invoked_subcommand is None:
        print(context.get_help())


COMMANDS: dict[str, dict[Callable[..., None], str]] = {  # in the order of `--help`
    "Use a model": {
        predict.predict: "Emotions, aspects or terms of texts, lines, a file",
        summarize.summarize: "Shares of labels in a table, as a page with charts",
        sample.sample: "Draw rows of a table to label",
        label.label: "Label them in the browser; merge answers",
        explain.explain: "Which words led to which label",
        generate.generate: "Reply in a chosen emotion",
        ready.ready: "List the models that come with the package",
    },
    "Train and measure": {
        recipes.recipes: "List the recipes, or show one",
        train.train: "Train a recipe, on a corpus or on your own files",
        evaluate.evaluate: "Measure a model on a corpus or on your own files",
        analyze.analyze: "Confusions, calibration and errors of a run",
        compare.compare: "A table of runs, with tests",
        check_labels.check_labels: "Find rows whose labels are probably wrong",
        sweep.sweep: "Search for better settings",
    },
    "Serve and publish": {
        demo.demo: "Try models in the browser",
        serve.serve: "Answer over HTTP",
        mcp.mcp: "Be a tool of an assistant (MCP)",
        export.export: "Write a model as ONNX",
        push.push: "Publish a run on the Hub",
        release.release: "Build folders to publish from several runs",
    },
    "Research": {
        reproduce.reproduce: "Train the rows of a published table",
        faithfulness.faithfulness: "Measure the methods of `explain`",
        convert.convert: "Convert checkpoints of the authors' code",
        fold.fold: "Write one emotion of a reply model as a checkpoint",
    },
}
for title, commands in COMMANDS.items():
    for command, about in commands.items():
        app.command(cls=Command, short_help=about, rich_help_panel=title)(command)


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
