# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion serve`."""

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ..io.key import KEY, read_key
from ..io.names import given
from ..serving.settings import Settings
from .options import Aggregation, Checkpoints, MaxLength, Port, Stride, checked
from .printing import quiet


MOST_SECONDS = 1_000_000


def serve(
    checkpoints: Checkpoints,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Port = 8000,
    api_key_file: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help=f"File with the key for requests; default: ${KEY}."),
    ] = None,
    cors_origin: Annotated[
        list[str] | None, typer.Option(help="Website that may send requests, or *; repeatable.")
    ] = None,
    max_batch_size: Annotated[int, typer.Option(min=1, help="Most texts that the model reads together.")] = 64,
    batch_wait_timeout: Annotated[
        float, typer.Option(min=0, max=MOST_SECONDS, help="Seconds that an incomplete batch waits for more texts.")
    ] = 0.0,
    max_queue_size: Annotated[
        int, typer.Option(min=1, help="Most texts that may wait; further ones get status 429.")
    ] = 1024,
    timeout: Annotated[float, typer.Option(min=0.001, max=MOST_SECONDS, help="Seconds until status 504.")] = 30.0,
    max_body_bytes: Annotated[int, typer.Option(min=1, help="A larger request gets status 413.")] = 2**18,
    max_inputs: Annotated[int, typer.Option(min=1, help="A request with more texts gets status 422.")] = 256,
    max_connections: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Most connections; a new one closes the longest idle one, or gets status 503. Default: 1000, or fewer by ulimit -n.",
        ),
    ] = None,
    max_length: MaxLength = None,
    stride: Stride = None,
    max_windows: Annotated[
        int | None,
        typer.Option(
            min=1, help=f"Windows to read of a text; default: all, and status 422 beyond {Settings.max_windows}."
        ),
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="More tokens get status 422.")] = Settings.max_tokens,
    aggregation: Aggregation = None,
    dtype: Annotated[
        Literal["float32", "bfloat16", "float16", "fastest"] | None,
        typer.Option(
            help="Number type of the weights; default: the checkpoint's. With 16 bits scores differ slightly. "
            "fastest: bfloat16 if a second's measurement finds it faster here."
        ),
    ] = None,
    log: Annotated[
        Literal["errors", "requests", "texts"], typer.Option(help="Errors, a line per request, or also its texts.")
    ] = "requests",
    log_format: Annotated[
        Literal["text", "json"], typer.Option(help="Lines of text, or a JSON object per line.")
    ] = "text",
    engine: Annotated[Literal["local", "ray"], typer.Option(help="This process, or replicas under Ray.")] = "local",
    num_replicas: Annotated[int | None, typer.Option(min=1, help="With --engine ray: replicas; default: 1.")] = None,
    min_replicas: Annotated[int | None, typer.Option(min=1, help="With --max-replicas: fewest replicas.")] = None,
    max_replicas: Annotated[int | None, typer.Option(min=1, help="With --engine ray: most replicas.")] = None,
    max_ongoing_requests: Annotated[
        int | None, typer.Option(min=1, help="Requests at once per Ray replica; default: 128.")
    ] = None,
) -> None:
    """Answer over HTTP: emotions of texts and dialogues, sentiment, replies. The page at / tries it; /openapi.json describes it."""
    least = num_replicas or min_replicas or 1
    most = max_replicas or least
    of_ray = {num_replicas, min_replicas, max_replicas, max_ongoing_requests} != {None}
    if (engine != "ray" and of_ray) or (num_replicas is not None and max_replicas is not None) or most < least:
        raise typer.BadParameter(
            "with --engine ray give --num-replicas, or --max-replicas and at most as many --min-replicas; without it none of them."
        )
    check(checkpoints, "bfloat16" if dtype == "fastest" else dtype, (host, port) if engine == "local" else None)
    key = read_key(api_key_file)
    if key is None and host not in ("127.0.0.1", "localhost", "::1"):
        print(f"warning: {host} is open to all: set ${KEY} or --api-key-file", file=sys.stderr)
    number_type: str | None = dtype
    if dtype == "fastest":
        from ..serving.fastest import fastest

        number_type = fastest(checkpoints, **given(max_length=max_length))
    settings = Settings(
        checkpoints=checkpoints,
        loading=given(
            max_length=max_length,
            stride=stride,
            max_windows=max_windows,
            aggregation_strategy=aggregation,
            dtype=number_type,
        ),
        max_batch_size=max_batch_size,
        batch_wait_timeout=batch_wait_timeout,
        max_queue_size=max_queue_size,
        timeout=timeout,
        max_body_bytes=max_body_bytes,
        max_inputs=max_inputs,
        max_tokens=max_tokens,
        api_key=key,
        cors_origins=tuple(cors_origin or ()),
        log=log,
        log_format=log_format,
    )
    if engine == "ray":
        from ..serving.ray_service import run as run_with_ray

        run_with_ray(settings, host, port, least, most, max_ongoing_requests or 128)
        return
    serve_here(settings, host, port, max_connections)


def check(checkpoints: list[str], dtype: str | None = None, address: tuple[str, int] | None = None) -> None:
    """Check names and an address before models are loaded, which takes seconds; transformers is imported only where a model needs it."""
    for checkpoint in checkpoints:
        checked(checkpoint)
    from ..runtime.exported import is_light
    from ..runtime.ready import for_prediction

    quiet(needs_transformers=not all(is_light(Path(for_prediction(name, dtype=dtype))) for name in checkpoints))
    if address is not None:
        from ..serving.web import listen

        listen(*address).close()


def serve_here(
    settings: Settings,
    host: str,
    port: int,
    max_connections: int | None = None,
    show: Callable[[str], Any] | None = None,
) -> None:
    """Serve from this process until Ctrl+C. `show` gets the address."""
    from ..serving.service import build
    from ..serving.web import run

    logging.getLogger("hf_emotion.serve").setLevel(logging.WARNING if settings.log == "errors" else logging.INFO)
    run(build(settings), host, port, settings.timeout, settings.log_format, max_connections, show)
