# SPDX-License-Identifier: Apache-2.0
"""Arguments and options that several commands have."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

import typer

from .. import taxonomies
from ..runtime.names import check_local


def checked(checkpoint: str) -> str:
    """Check the checkpoint's name before the command's imports, which take seconds."""
    check_local(checkpoint, "the checkpoint")
    return checkpoint


def ready_names() -> list[str]:
    """For the completion of a shell."""
    from ..runtime.ready import built_models, ready_models

    return [*(model.name for model in ready_models()), *(folder.name for folder in built_models())]


def recipe_names() -> list[str]:
    """For the completion of a shell."""
    from ..recipes import packaged_recipes, recipe_name

    return [recipe_name(path) for path in packaged_recipes()]


# arguments of functions that options name otherwise
NAMES = {
    "targets": "--target",
    "add_labels": "--label",
    "layout": "--columns",
    "all_scores": "--scores",
    "judges": "--judge",
}


def named(arguments: Iterable[str]) -> str:
    """The options of arguments, for messages."""
    return ", ".join(NAMES.get(name, f"--{name.replace('_', '-')}") for name in arguments)


Checkpoint = Annotated[
    str,
    typer.Argument(
        help="Run folder, local folder, Hub id or ready model.", callback=checked, autocompletion=ready_names
    ),
]
Checkpoints = Annotated[
    list[str], typer.Argument(help="Run folders, local folders, Hub ids or ready models.", autocompletion=ready_names)
]
Recipe = Annotated[
    str,
    typer.Argument(help="A recipe: its name (see `recipes`) or the path of a YAML file.", autocompletion=recipe_names),
]
BaseModel = Annotated[str | None, typer.Option(help="Hub id, local folder, ready model, or minilm (extra `offline`).")]
DataDir = Annotated[Path | None, typer.Option(help="Folder of the corpora; default: $HF_EMOTION_DATA, else the Hub.")]
Split = Annotated[Literal["train", "validation", "test"], typer.Option(help="Part of the corpus.")]
LoaderOption = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="Argument of the loader of the corpus; repeatable.")
]
TrainFraction = Annotated[float | None, typer.Option(help="Share of the training rows, in (0, 1].")]
Groups = Annotated[
    Path | None, typer.Option(help="Your own groups of labels, YAML: `upset: [anger, sadness]`, one line per group.")
]
Taxonomy = Annotated[taxonomies.Taxonomy | None, typer.Option(help="Roll the 28 GoEmotions labels up to groups.")]
MaxLength = Annotated[int | None, typer.Option(help="Tokens that are read at once; default: as in training.")]
Stride = Annotated[int | None, typer.Option(help="Tokens that two windows of a long text share; default: a quarter.")]
MaxWindows = Annotated[
    int | None, typer.Option(help="Most windows read of a long text; 1 cuts it. Default: no limit.")
]
Dtype = Annotated[
    Literal["float32", "bfloat16", "float16"] | None,
    typer.Option(help="Number type of the weights; default: the checkpoint's. With 16 bits scores differ slightly."),
]
TrustRemoteCode = Annotated[
    bool,
    typer.Option("--trust-remote-code", help="Let the checks run code and examples that hf-emotion did not write."),
]
TextColumn = Annotated[str | None, typer.Option(help="Column of the texts; default: text or utterance.")]
Separator = Annotated[str | None, typer.Option(help="CSV separator. Default: detected from the header.")]
InputEncoding = Annotated[str | None, typer.Option(help="Encoding of the input, such as cp1252; default: UTF-8.")]
Encoding = Annotated[str | None, typer.Option(help="Encoding of text files, such as cp1252; default: UTF-8.")]
Prefix = Annotated[str, typer.Option(help="The --prefix of `predict`.")]
EscapeFormulas = Annotated[
    bool, typer.Option("--escape-formulas", help="Put an apostrophe before cells of the CSV that look like formulas.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an output that exists.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any that is free.")]
NoBrowser = Annotated[bool, typer.Option("--no-browser", help="Print the address, but open no browser.")]
AllFigures = Annotated[bool, typer.Option("--all", help="Show every figure, not only the four most important ones.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print every figure as JSON.")]
Aggregation = Annotated[
    Literal["average", "max"] | None,
    typer.Option(
        "--aggregation-strategy",
        help="How windows are combined: average (default), or max: emotions that occur anywhere.",
    ),
]
