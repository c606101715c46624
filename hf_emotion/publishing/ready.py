# SPDX-License-Identifier: Apache-2.0
"""Writes ready models as ordinary checkpoints."""

from pathlib import Path

from ..io.files import creating, refuse_taken
from ..io.names import did_you_mean
from ..runtime.ready import PLACE, ReadyModel, ready_models, write_checkpoint


def write_ready(name: str, output: str | Path) -> None:
    """Write a ready model into a new folder, as a checkpoint; FileExistsError, ValueError: no such model, OSError: no encoder."""
    known = [model.name for model in ready_models()]
    if name not in known:
        raise ValueError(f"no ready model {name!r}: there are {known}.{did_you_mean(name, known)}")
    output = Path(output)
    refuse_taken(output)
    with creating(output) as folder:
        write_checkpoint(ReadyModel(PLACE / name), folder)
