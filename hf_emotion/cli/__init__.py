# SPDX-License-Identifier: Apache-2.0
"""The command line, one file per command. Exit codes: 0 done, 1 the work failed, 2 wrong usage."""

import gc
import importlib
import logging
import sys
from typing import Annotated, Any

import typer

from ..io.version import __version__
from .help import Command, Group
from .printing import VisibleFormatter, visible


Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"hf-emotion {__version__}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")]


def _common(context: typer.Context, debug: Debug = False, version: Version = False) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(VisibleFormatter("%(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    if context.invoked_subcommand is None:
        print(context.get_help())


COMMANDS: dict[str, dict[str, str]] = {  # in the order of `--help`; a file and a function for each
    "Use a model": {
        "predict": "Emotions, aspects or terms of texts, lines, a file",
        "summarize": "Shares of labels in a table, as a page with charts",
        "sample": "Draw rows of a table to label",
        "label": "Label them in the browser; merge answers",
        "explain": "Which words led to which label",
        "generate": "Reply in a chosen emotion",
        "ready": "List the models that come with the package",
    },
    "Train and measure": {
        "recipes": "List the recipes, or show one",
        "train": "Train a recipe, on a corpus or on your own files",
        "evaluate": "Measure a model on a corpus or on your own files",
        "analyze": "Confusions, calibration and errors of a run",
        "compare": "A table of runs, with tests",
        "check_labels": "Find rows whose labels are probably wrong",
        "sweep": "Search for better settings",
    },
    "Serve and publish": {
        "demo": "Try models in the browser",
        "serve": "Answer over HTTP",
        "mcp": "Be a tool of an assistant (MCP)",
        "export": "Write a model as ONNX",
        "push": "Publish a run on the Hub",
        "release": "Build folders to publish from several runs",
    },
    "Research": {
        "reproduce": "Train the rows of a published table",
        "faithfulness": "Measure the methods of `explain`",
        "convert": "Convert checkpoints of the authors' code",
        "fold": "Write one emotion of a reply model as a checkpoint",
    },
}


def program(asked: str | None = None) -> typer.Typer:
    """
    The program with all commands, or with the one that is asked for: the other files take as long as an answer. A command imports what is
    heavier inside its function, because `--help` must not wait for torch.
    """
    found = typer.Typer(
        cls=Group,
        help="Emotions in texts, opinions in reviews, moods of dialogues: ready models, and training of your own.",
        invoke_without_command=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    found.callback()(_common)
    names = [name for commands in COMMANDS.values() for name in commands]
    asked = (asked or "").replace("-", "_")
    for title, commands in COMMANDS.items():
        for name, about in commands.items():
            if name == asked or asked not in names:
                function = getattr(importlib.import_module(f".{name}", __name__), name)
                found.command(cls=Command, short_help=about, rich_help_panel=title)(function)
    return found


def __getattr__(name: str) -> Any:
    if name != "app":  # the program with all commands
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return program()


def main() -> None:
    """Entry point: one line per error, and a traceback only with --debug."""
    # Importing torch and transformers makes hundreds of thousands of objects that stay; Python would search them for garbage many times.
    gc.set_threshold(10_000)
    if getattr(sys.stdout, "errors", None) == "strict":  # a character that the console lacks is shown escaped
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # a text stream, as it has `errors`
    try:
        program(next((word for word in sys.argv[1:] if word != "--debug"), None))()
    except Exception as error:
        if "--debug" in sys.argv:
            raise
        expected = isinstance(error, (ValueError, OSError, ImportError, MemoryError, FloatingPointError)) and str(
            error
        )
        hint = "" if expected else f" ({type(error).__name__}; hf-emotion --debug COMMAND shows where)"
        print(visible(f"error: {error}{hint}"), file=sys.stderr)
        sys.exit(1)
