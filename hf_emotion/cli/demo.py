# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion demo`."""

from ..serving.settings import Settings
from .options import Checkpoints, Dtype, NoBrowser, Port
from .serve import check, serve_here


def demo(checkpoints: Checkpoints, port: Port = 0, dtype: Dtype = None, no_browser: NoBrowser = False) -> None:
    """Try models in the browser: opens the page of `serve`, for this machine only. Needs no network."""
    import webbrowser

    host = "127.0.0.1"
    check(checkpoints, dtype, (host, port))
    settings = Settings(checkpoints=checkpoints, loading={"dtype": dtype} if dtype else {}, log="errors")
    serve_here(settings, host, port, show=None if no_browser else webbrowser.open)
