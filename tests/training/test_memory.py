# SPDX-License-Identifier: Apache-2.0
import platform
import subprocess
import sys

import pytest


PROGRAM = """
import resource
import torch
from hf_emotion.training.fit import freed_memory_kept

def faults(times):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(times):
        torch.ones(16 * 2**20)  # 64 MiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() / 2**20

outside = faults(5)
with freed_memory_kept():
    faults(20)  # small leftovers of aligned blocks first fill a cache
    inside, kept = faults(5), resident()
print(outside, inside, kept - resident(), faults(5))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only with glibc")
def test_freed_memory_is_used_again_inside_and_given_back_after():
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    outside, inside, given_back, after = (float(number) for number in run.stdout.split())
    assert outside >= 5 * 32  # pages of 4 KiB, or huge ones of 2 MiB
    assert inside < outside / 20
    assert given_back > 50  # MiB
    assert after >= 5 * 32
