# SPDX-License-Identifier: Apache-2.0
"""glibc returns large freed blocks to the system: every step would get new pages to map and clear (benchmarks/NOTES.md)."""

import contextlib
import ctypes
import platform
from collections.abc import Iterator


# glibc's mallopt(3): parameters, and what their values come to in a process that used large blocks.
TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4
AFTERWARDS = {MMAP_MAX: 65536, MMAP_THRESHOLD: 32 * 2**20, TRIM_THRESHOLD: 64 * 2**20}


@contextlib.contextmanager
def freed_memory_kept() -> Iterator[None]:
    """In this block glibc, if it is there, keeps freed memory for the next use; the peak rises little."""
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
