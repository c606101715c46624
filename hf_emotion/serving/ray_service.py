# SPDX-License-Identifier: Apache-2.0
"""The service past one machine: replicas of it under Ray Serve, which spreads requests, starts lost replicas again and scales."""

import logging
import os
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..io.extras import require
from ..runtime.ready import find_ready
from .settings import Settings
from .web import listen, url_of


NAME = "hf-emotion"


def run(
    settings: Settings, host: str, port: int, min_replicas: int, max_replicas: int, max_ongoing_requests: int
) -> None:
    """
    Serve on the Ray cluster that RAY_ADDRESS names, or on one that is started on this machine, until SIGINT or SIGTERM. Each replica holds
    all models, and gets `max_ongoing_requests` at once; `settings.max_queue_size` more wait in the proxy, others get 503.

    Raises:
        ModuleNotFoundError: Ray Serve is not installed.
        OSError: the port is not free.
        RuntimeError: the replicas do not start.
    """
    require("ray", "`--engine ray`", "ray,serve")
    import ray
    from ray import serve

    with listen(host, port) as free:  # Ray would try again for ever
        port = free.getsockname()[1]
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would report the use to its makers
    ray.init(logging_level=logging.ERROR, include_dashboard=False)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # after Ray has set its own
    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    try:
        resources = ray.cluster_resources()
        share = {name: min(1.0, resources.get(name, 0) / max_replicas) for name in ("CPU", "GPU")}
        scaling: dict[str, Any] = {"num_replicas": min_replicas}
        if min_replicas < max_replicas:
            aim = max(1, max_ongoing_requests // 2)
            limits = {"min_replicas": min_replicas, "max_replicas": max_replicas, "target_ongoing_requests": aim}
            scaling = {"autoscaling_config": limits}
        deployment = serve.deployment(
            serve.ingress(_builder(settings))(),
            name="models",
            ray_actor_options={"num_cpus": share["CPU"], "num_gpus": share["GPU"]},
            max_ongoing_requests=max_ongoing_requests,
            max_queued_requests=settings.max_queue_size,
            health_check_period_s=2,  # a lost replica is started again after so long
            graceful_shutdown_timeout_s=settings.timeout + 1,
            **scaling,
        )
        quiet = {"log_level": "WARNING", "enable_access_log": False}  # the service writes its own log
        http = {"host": host, "port": port, "request_timeout_s": settings.timeout + 1}
        serve.start(http_options=http, logging_config=quiet)
        serve.run(deployment.bind(), name=NAME, route_prefix="/", logging_config=quiet)
        print(f"{url_of(host, port)} (Ctrl+C ends it)", flush=True)
        threading.Event().wait()
    except KeyboardInterrupt:
        serve.delete(NAME)  # which waits for requests in flight, and leaves what others serve on the cluster
    finally:
        ray.shutdown()


def _builder(settings: Settings) -> Any:
    """Builds the application in the replica: a function, because Ray treats functions and applications differently."""
    # Another process, maybe in another folder. A folder with data may have the name of a ready model.
    found = [
        str(Path(name).resolve()) if find_ready(name) is None and Path(name).exists() else name
        for name in settings.checkpoints
    ]
    settings = replace(settings, checkpoints=found)

    def application() -> Any:
        from .service import build
        from .web import log_with_time

        logging.basicConfig(level=logging.WARNING)
        log_with_time(settings.log_format)
        logging.getLogger("hf_emotion.serve").setLevel(logging.INFO)
        return build(settings, replicated=True)

    return application
