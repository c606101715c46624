# SPDX-License-Identifier: Apache-2.0
"""Numbers over rows, also over no rows."""

from collections.abc import Sequence

import numpy as np


def mean(values: Sequence[float] | np.ndarray) -> float:
    """NaN without values."""
    return float(np.mean(values)) if len(values) else float("nan")
