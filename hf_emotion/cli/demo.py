# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion demo`."""

import sys
from typing import Annotated

import typer

from .options import checked
from .printing import quiet


def demo(
    checkpoints: Annotated[
        list[str],
        typer.Argument(help="Run folders, local folders or Hub ids, all of one kind; compared side by side."),
    ],
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 7860,
) -> None:
    """Serve a page to try checkpoints in a browser: predictions, heat maps, replies. Needs no network."""
    for checkpoint in checkpoints:
        checked(checkpoint)
    quiet()
    from ..serving.demo import serve

    if host not in ("127.0.0.1", "localhost", "::1"):
        print(f"warning: whoever reaches {host}:{port} can use the page, there is no login", file=sys.stderr)
    serve(checkpoints, host, port)
