# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion serve`."""

import logging
import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from .options import Aggregation, Dtype, MaxLength, MaxWindows, Stride, checked
from .printing import quiet


KEY = "HF_EMOTION_API_KEY"


def serve(
    checkpoints: Annotated[
        list[str], typer.Argument(help="Run folders, local folders, Hub ids or ready models, for any tasks.")
    ],
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any that is free.")] = 8000,
    api_key_file: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help=f"File with the key that requests must bring; default: ${KEY}, else no key.",
        ),
    ] = None,
    cors_origin: Annotated[
        list[str] | None,
        typer.Option(help="Site whose pages may ask the service, e.g. https://example.org; * for all; repeat it."),
    ] = None,
    max_batch_size: Annotated[int, typer.Option(min=1, help="Texts that the model reads together at most.")] = 64,
    batch_wait_timeout: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for more texts before a batch that is not full runs.")
    ] = 0.0,
    max_queue_size: Annotated[
        int, typer.Option(min=1, help="Texts that may wait; then requests get status 429.")
    ] = 1024,
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds after which a request gets status 504.")] = 30.0,
    max_body_bytes: Annotated[int, typer.Option(min=1, help="A larger request gets status 413.")] = 2**18,
    max_inputs: Annotated[int, typer.Option(min=1, help="A request with more texts gets status 422.")] = 256,
    max_length: MaxLength = None,
    stride: Stride = None,
    max_windows: MaxWindows = None,
    aggregation: Aggregation = None,
    dtype: Dtype = None,
    log: Annotated[
        Literal["errors", "requests", "texts"],
        typer.Option(help="What the log holds: errors, a line per request without its texts, or with them."),
    ] = "requests",
) -> None:
    """Answer over HTTP: emotions of texts and dialogues, sentiment, replies. A page at / tries it; /openapi.json describes it."""
    for checkpoint in checkpoints:
        checked(checkpoint)
    quiet()
    from ..serving.settings import Settings, read_key

    key = read_key(api_key_file) if api_key_file else os.environ.get(KEY) or None
    if key is None and host not in ("127.0.0.1", "localhost", "::1"):
        print(
            f"warning: whoever reaches {host}:{port} can use the service: set ${KEY} or --api-key-file",
            file=sys.stderr,
        )
    loading = {
        "max_length": max_length,
        "stride": stride,
        "max_windows": max_windows,
        "aggregation_strategy": aggregation,
        "dtype": dtype,
    }
    settings = Settings(
        checkpoints=checkpoints,
        loading={name: value for name, value in loading.items() if value is not None},
        max_batch_size=max_batch_size,
        batch_wait_timeout=batch_wait_timeout,
        max_queue_size=max_queue_size,
        timeout=timeout,
        max_body_bytes=max_body_bytes,
        max_inputs=max_inputs,
        api_key=key,
        cors_origins=tuple(cors_origin or ()),
        log=log,
    )
    from ..serving.service import build
    from ..serving.web import run

    logging.getLogger("hf_emotion.serve").setLevel(logging.INFO)
    run(build(settings), host, port, timeout)
