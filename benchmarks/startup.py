# SPDX-License-Identifier: Apache-2.0
"""
P11: seconds from start to end of `python -c "import hf_emotion"` and `hf-emotion --help`, run in turn in their own processes.

    python benchmarks/startup.py --pairs 15
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence

from measuring import interleaved, parse, result, save


COMMANDS = {
    'python -c "import hf_emotion"': ([sys.executable, "-c", "import hf_emotion"], 0.3),
    "hf-emotion --help": ([sys.executable, "-m", "hf_emotion", "--help"], 0.6),
    'python -c ""': ([sys.executable, "-c", ""], None),
}


def main(argv: Sequence[str] | None = None) -> list[dict]:
    arguments = parse(argparse.ArgumentParser(description=__doc__), argv, pairs=11)
    actions = [
        lambda command=command: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        for command, _ in COMMANDS.values()
    ]
    rows = []
    for (name, (_, at_most)), series in zip(COMMANDS.items(), interleaved(actions, arguments.pairs), strict=True):
        rows.append(result("P11", name, series, "s", at_most=at_most))
    save(arguments, rows)
    return rows


if __name__ == "__main__":
    main()
