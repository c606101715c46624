# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion demo`."""

from typing import Annotated

import typer

from ..serving.settings import Settings
from .options import Checkpoints, Dtype
from .serve import check, serve_here


def demo(
    checkpoints: Checkpoints,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any that is free.")] = 0,
    dtype: Dtype = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address, but open no browser.")] = False,
) -> None:
    """Try models in the browser: opens the page of `serve`, which only this machine reaches. Needs no network."""
    import webbrowser

    check(checkpoints, dtype)
    settings = Settings(checkpoints=checkpoints, loading={"dtype": dtype} if dtype else {}, log="errors")
    serve_here(settings, "127.0.0.1", port, show=None if no_browser else webbrowser.open)
