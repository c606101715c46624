# SPDX-License-Identifier: Apache-2.0
"""Chooses the number type in which a service's models answer fastest on this processor."""

import logging
import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..inference import load_predictor
from ..tasks.predictor import LabelPredictor


logger = logging.getLogger(__name__)

FAST = "bfloat16"
SECONDS = 1.0  # of a measurement
WORDS = "We waited for an hour, and then they told us that our table was gone.".split()
TEXTS = [" ".join(WORDS[: 3 + i % 12]) for i in range(32)]
WORTH = 1.1  # times as fast: below that the scores stay as they are


def fastest(checkpoints: Sequence[str], **loading: Any) -> str | None:
    """
    "bfloat16" if every model of texts answers at least `WORTH` times as fast with it, else None: as they are stored. Each reads `TEXTS` for
    `SECONDS`, in both types in turn. What was found is logged, with how far the scores moved.

    Raises:
        ValueError: no model of texts, so nothing to measure.
    """
    gains = []
    for name in checkpoints:
        stored = load_predictor(name, **loading)
        if not isinstance(stored, LabelPredictor) or stored.units != "texts":
            continue
        both = [stored, load_predictor(name, dtype=FAST, **loading)]
        target = (getattr(stored.model.config, "targets", None) or [""])[0]  # of which a text must speak
        texts = [f"{target} {text}".strip() for text in TEXTS]
        scores = [predictor.probabilities(texts) for predictor in both]  # which warms up
        times: list[list[float]] = [[], []]
        until = time.perf_counter() + SECONDS
        while not times[1] or time.perf_counter() < until:
            for predictor, own in zip(both, times, strict=True):
                start = time.perf_counter()
                predictor.probabilities(texts)
                own.append(time.perf_counter() - start)
        gains.append(statistics.median(a / b for a, b in zip(*times, strict=True)))
        moved = np.abs(scores[0] - scores[1]).max()
        logger.warning("%s: %s is %.2f times as fast here; scores move by up to %.3f", name, FAST, gains[-1], moved)
    if not gains:
        raise ValueError("--dtype fastest measures models of texts, and there is none: choose a type.")
    chosen = FAST if min(gains) >= WORTH else None
    logger.warning("number type: %s", chosen or "as stored")
    return chosen
