# SPDX-License-Identifier: Apache-2.0
"""
Memory of a training on the processor. The C library returns large freed blocks to the operating system, so that every step of a
training gets its activations and gradients as new pages, which the system must map and clear
(figures: benchmarks/NOTES.md).
"""

import contextlib
import ctypes
import platform
from collections.abc import Iterator


# glibc's mallopt(3): parameters, and what their values come to in a process that used large blocks.
TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4
AFTERWARDS = {MMAP_MAX: 65536, MMAP_THRESHOLD: 32 * 2**20, TRIM_THRESHOLD: 64 * 2**20}


@contextlib.contextmanager
def freed_memory_kept() -> Iterator[None]:
    """
    In this block the process keeps freed memory for its next use; at its end the memory goes back to the system. Only with glibc
    (most Linux systems); elsewhere it does nothing. The peak rises little (9 % with an embedding of 250,000 words).
    """
    if platform.libc_ver()[0] != "glibc":
        yield
        return
    libc = ctypes.CDLL(None)
    libc.mallopt(MMAP_MAX, 0)
    libc.mallopt(TRIM_THRESHOLD, -1)  # never
    try:
        yield
    finally:
        for parameter, value in AFTERWARDS.items():
            libc.mallopt(parameter, value)
        libc.malloc_trim(0)
