# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion mcp`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from ..io.extras import require
from .options import Checkpoints
from .serve import check


def mcp(
    checkpoints: Checkpoints,
    folder: Annotated[
        Path, typer.Option(exists=True, file_okay=False, help="Folder of the tables that may be read.")
    ] = Path("."),
) -> None:
    """
    Offer models to an assistant as tools, over the Model Context Protocol on standard input and output. A model for emotions gives the
    tools `emotions` and `summarize_table`, one for terms `aspects`.
    """
    require("mcp", "`hf-emotion mcp`", "mcp")
    check(checkpoints)
    from ..integrations.mcp_server import build

    server = build(checkpoints, folder)
    print("waits for a client on standard input; Ctrl+C ends", file=sys.stderr)
    server.run()
