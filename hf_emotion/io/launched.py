# SPDX-License-Identifier: Apache-2.0
"""How many processes a launcher has started."""

import os


def processes() -> int:
    """The number of processes that torchrun or `accelerate launch` has started, 1 without them."""
    return int(os.environ.get("WORLD_SIZE") or 1)
