# SPDX-License-Identifier: Apache-2.0
"""Writes ready models as ordinary checkpoints."""

import difflib
from pathlib import Path

from ..io.files import creating, refuse_taken
from ..runtime.ready import PLACE, ReadyModel, ready_models
from ..runtime.ready_checkpoint import write_checkpoint


def write_ready(name: str, output: str | Path) -> None:
    """
    Write a ready model into a new or empty folder, as a checkpoint that `AutoModel` loads and `push` publishes.

    Raises:
        FileExistsError: `output` is not empty.
        ValueError: no such model; damaged files.
        OSError: the encoder cannot be found.
    """
    known = [model.name for model in ready_models()]
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        raise ValueError(
            f"no ready model {name!r}{f': did you mean {near[0]!r}?' if near else f'; there are {known}.'}"
        )
    output = Path(output)
    refuse_taken(output)
    with creating(output) as folder:
        write_checkpoint(ReadyModel(PLACE / name), folder)
