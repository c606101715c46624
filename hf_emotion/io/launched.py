# SPDX-License-Identifier: Apache-2.0
"""How many processes a launcher has started."""

import os


def processes() -> int:
    """The number of processes that torchrun or `accelerate launch` has started, 1 without them; ValueError if it is no number."""
    value = os.environ.get("WORLD_SIZE", "").strip() or "1"
    if not value.isdecimal() or int(value) < 1:
        raise ValueError(f"$WORLD_SIZE must be the number of processes, which torchrun sets; got {value!r}: unset it.")
    return int(value)
