# SPDX-License-Identifier: Apache-2.0
"""Arguments and options that several commands have."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from .. import taxonomies
from ..runtime.names import check_local


def checked(checkpoint: str) -> str:
    """Check the checkpoint's name before the command's imports, which take seconds."""
    check_local(checkpoint, "the checkpoint")
    return checkpoint


Checkpoint = Annotated[str, typer.Argument(help="Run folder, local folder, Hub id or ready model.", callback=checked)]
BaseModel = Annotated[str | None, typer.Option(help="Hub id, local folder, ready model, or minilm (extra `offline`).")]
DataDir = Annotated[Path | None, typer.Option(help="Folder of the corpora; default: $HF_EMOTION_DATA, else the Hub.")]
Split = Annotated[Literal["train", "validation", "test"], typer.Option(help="Part of the corpus.")]
LoaderOption = Annotated[list[str] | None, typer.Option(help="Argument of the dataset's loader, key=value.")]
TrainFraction = Annotated[float | None, typer.Option(help="Share of the training rows, in (0, 1].")]
Taxonomy = Annotated[taxonomies.Taxonomy | None, typer.Option(help="Roll the 28 GoEmotions labels up to groups.")]
MaxLength = Annotated[
    int | None,
    typer.Option(
        help="Number of tokens that are read at once; default: as in training. Emotions of texts: longer texts are read in windows."
    ),
]
Stride = Annotated[
    int | None,
    typer.Option(help="Emotions of texts: number of tokens that two windows share; default: a quarter of the window."),
]
MaxWindows = Annotated[
    int | None,
    typer.Option(
        help="Emotions of texts: maximum number of windows per text; 1 cuts the text after the first. Default: no limit."
    ),
]
Dtype = Annotated[
    Literal["float32", "bfloat16", "float16"] | None,
    typer.Option(
        help="Number type of the weights; default: the checkpoint's. The 16-bit types take half the memory and are often "
        "faster, with slightly other scores."
    ),
]
TrustRemoteCode = Annotated[
    bool,
    typer.Option(
        "--trust-remote-code", help="Allow the checks to run code and card examples that hf-emotion did not write."
    ),
]
AllFigures = Annotated[bool, typer.Option("--all", help="Show every figure, not only the four that matter most.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print every figure as JSON.")]
Aggregation = Annotated[
    Literal["average", "max"] | None,
    typer.Option(
        "--aggregation-strategy",
        help="Emotions of texts: how the windows of a text are combined; average: what the text is about; max: every emotion that occurs "
        "somewhere. Default: average.",
    ),
]
