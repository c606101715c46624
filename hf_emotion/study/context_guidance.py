# SPDX-License-Identifier: Apache-2.0
"""
Measures what contexts do inside a trained CG-BERT or QACG-BERT.

hf-emotion study context-guidance RUN --dataset sentihood --data-dir DATA --output gates.json
"""

from pathlib import Path
from typing import Any

from ..tasks.targeted_sentiment.guidance import collect, describe


def context_guidance(
    checkpoint: str | Path,
    dataset: str,
    data_dir: str | Path | None = None,
    split: str = "test",
    rows: int = 200,
    seed: int = 0,
) -> dict[str, Any]:
    """
    Distributions of the gates (for QACG-BERT also of the attentions) over a random sample of rows with an opinion: `describe`
    of the values from `collect`, with the arguments and errors of `collect`.
    """
    return describe(*collect(checkpoint, dataset, data_dir, split, rows, seed))


__all__ = ["context_guidance"]
