# SPDX-License-Identifier: Apache-2.0
"""
Every fault in turn, each in a process of its own, in about twenty minutes: `python -m tests.endurance`. What they found and the
commands, which have other sizes, go into benchmarks/dependability.json; a page of the book is made from it.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from measuring import machine  # noqa: E402

from hf_emotion.io.files import write_json  # noqa: E402


FAULTS = (
    "kill_training --kills 10",
    "bulk --rows 50000 --kills 4",
    "bulk --rows 20000 --kills 1 --processes 2",
    "soak --minutes 3 --threads 16",
    "service --minutes 2",
    "fuzz --cases 200",
)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="the faults whose command starts so; other findings are kept")
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks" / "dependability.json")
    options = parser.parse_args(argv)
    record, failed = {}, []
    if options.only and options.output.is_file():
        record = json.loads(options.output.read_text(encoding="utf-8"))
    for command in (command for command in FAULTS if command.startswith(options.only)):
        print(f"python -m tests.endurance.{command}", flush=True)
        script, *words = command.split()
        call = [sys.executable, "-m", f"tests.endurance.{script}", *words]
        done = subprocess.run(call, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        failed += [command] if done.returncode else []
        try:
            found = json.loads(done.stdout)
        except ValueError:
            print(done.stdout, file=sys.stderr)
            continue
        kind = script, "--processes" in words  # of which the record holds one size
        record = {old: kept for old, kept in record.items() if (old.split()[0], "--processes" in old) != kind}
        record[command] = {"passed": not done.returncode, "machine": machine(1), "found": found}
        write_json(options.output, record)
    if failed:
        sys.exit(f"failed: {'; '.join(failed)}")


if __name__ == "__main__":
    main()
