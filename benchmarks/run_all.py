# SPDX-License-Identifier: Apache-2.0
"""
Runs benchmarks in turn, each in a process of its own, keeps their rows in a results.json, and writes RESULTS.md beside it from that file and
peers.json.

    python -m benchmarks.run_all                            # all, small sizes: make bench
    python -m benchmarks.run_all many_texts replies --full --data-dir DATA --checkpoint runs/goemotions_laa_ce
    python -m benchmarks.run_all --table                    # only writes RESULTS.md anew
"""

import argparse
import importlib
import inspect
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.measuring import figure, keep, machine, recorded
from hf_emotion.io.files import write_json, write_text


FOLDER = Path(__file__).parent
# Name of the function in training.py or predicting.py -> its small and its full sizes; the small ones take ten minutes on two cores.
TRAINING: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "classifiers": ({"size": "minilm", "pairs": 7, "shapes": ["8x64"], "kinds": ["forward", "backward", "step"]}, {}),
    "any_encoder": ({"encoders": ["mpnet", "modernbert"], "shape": "4x32", "kinds": ["forward"]}, {}),
    "replies": ({"size": "tiny", "pairs": 7}, {}),
    "language_model": ({"size": "tiny", "pairs": 7}, {}),
    "gpu": ({}, {}),
}
PREDICTING: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "many_texts": ({"rows": 2000}, {"rows": 20_000}),
    "targets_and_aspects": ({"rows": 128}, {"rows": 512}),
    "long_file": ({}, {"rows": [10_000, 1_000_000]}),
    "start_of_the_program": ({"pairs": 7}, {}),
}
NAMES = [*TRAINING, *PREDICTING]


def run_one(name: str, arguments: argparse.Namespace) -> list[dict]:
    """Run a benchmark here; it gets those of the inputs that it takes."""
    import torch

    torch.set_num_threads(arguments.threads)
    module, sizes = ("training", TRAINING) if name in TRAINING else ("predicting", PREDICTING)
    function = getattr(importlib.import_module(f"benchmarks.{module}"), name)
    inputs = {
        "data_dir": arguments.data_dir,
        "checkpoint": arguments.checkpoint,
        "targeted": arguments.targeted,
        "pairs": arguments.pairs,
    }
    taken = inspect.signature(function).parameters
    given = {key: value for key, value in inputs.items() if value is not None and key in taken}
    return function(**{**sizes[name][arguments.full], **given})


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *NAMES], help="default: all")
    parser.add_argument("--full", action="store_true", help="the sizes of the goals; all take hours")
    parser.add_argument("--data-dir", help="folder with the corpora")
    parser.add_argument("--checkpoint", help="a classifier of texts; default: an untrained one")
    parser.add_argument("--targeted", help="a model of targeted sentiment over SentiHood; default: an untrained one")
    parser.add_argument("--pairs", type=int, help="measurements of each side")
    parser.add_argument("--threads", type=int, default=2, help="threads of torch (default: %(default)s)")
    parser.add_argument("--results", type=Path, default=FOLDER / "results.json", help="the rows of others stay")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    parser.add_argument("--here", type=Path, help=argparse.SUPPRESS)  # how each runs in a process of its own
    words = list(sys.argv[1:] if argv is None else argv)
    arguments = parser.parse_args(words)
    if arguments.here is not None:
        rows = run_one(arguments.names[0], arguments)
        write_json(arguments.here, {"machine": machine(arguments.threads), "rows": rows})
        return
    kept, failed = recorded(arguments.results), []
    names = [] if arguments.table else arguments.names or NAMES
    options = [word for word in words if word not in arguments.names]
    for name in names:
        own = arguments.results.with_name(f"{name}.part.json")
        print(f"\n{name}", flush=True)
        if subprocess.call([sys.executable, "-m", "benchmarks.run_all", name, *options, "--here", str(own)]):
            failed.append(name)
            continue
        shown = ["--full"] * arguments.full + ["--data-dir DATA"] * bool(arguments.data_dir)
        shown += [f"--{key} {key.upper()}" for key in ("checkpoint", "targeted") if getattr(arguments, key)]
        keep(kept, " ".join(["run_all.py", name, *shown]), json.loads(own.read_text(encoding="utf-8")))
        own.unlink()
        write_json(arguments.results, kept)  # after each, so that an interrupted run keeps its results
    peers = recorded(arguments.results.with_name("peers.json"))
    write_text(arguments.results.with_name("RESULTS.md"), table(kept, peers))
    if failed:
        sys.exit("failed: " + "; ".join(failed))


LEGEND = """\
# Speed

Each figure is the median of paired runs, with the quartiles in brackets; both sides run in turn in one command. A goal with "≤": our time (memory,
bytes) divided by the other's. With "≥": how many times as fast we are. **Bold**: we are behind the goal. Of rows with one goal the worst is shown.
"""
WORDS = """\
*base*, *minilm*: size of the encoder (12 layers of width 768, 6 of 384). *8x64*: 8 texts of 64 tokens. *backward*: forward and backward pass;
*step*: with AdamW. Classifiers run beside the stock BERT or RoBERTa of transformers. Where the time goes: NOTES.md. All rows, and what they
ran on: results.json, peers.json; epyc and avx2 are other machines.
"""


def table(results: dict[str, dict], peers: dict[str, Any]) -> str:
    """RESULTS.md: what has a goal in peers.json and results.json, the worst row of each goal."""
    machines: dict[str, str] = {}
    behind: dict[str, None] = {}

    def lines(heads: Sequence[str], rows: list[tuple[tuple[str, ...], dict, dict]]) -> list[str]:
        """(cells, row, machine) of each row; of those with equal cells and goal the worst."""
        groups: dict[tuple, list[tuple[dict, dict]]] = {}
        for cells, row, setting in rows:
            if row["target"] and row["unit"]:  # what has no unit is not a speed
                groups.setdefault((*cells, row["target"]), []).append((row, setting))
        found = [[*heads, "goal", "the worst", "measured", "on"]]
        for cells, each in groups.items():
            row, setting = max(each, key=lambda one: _distance(one[0]))
            kind = setting["machine"].partition(", load")[0].replace("(R)", "") + ")"
            place = machines.setdefault(kind, "ABCDEFGH"[len(machines)])
            value, worst = figure(row), row["work"] + f" (of {len(each)})" * (len(each) > 1)
            if row["met"] is False:
                behind[": ".join(cells[:-1])] = None
                value = f"**{value}**"
            found.append([*cells, worst, value, place])
        texts = [f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |" for cells in found]
        return [texts[0], "|---" * len(found[0]) + "|", *texts[1:], ""]

    page = [LEGEND]
    if works := peers.get("works"):
        others = [((work, row["peer"]), row, own["machine"]) for work, own in works.items() for row in own["rows"]]
        page += ["## Beside other tools", "", *lines(["work", "peer"], others)]
        page += [f"Behind the goal: {'; '.join(behind) or 'nothing'}.", ""]
        page += ["What was tried to make the others fast: `python -m benchmarks.peers WORK --data-dir DATA`", ""]
        page += [f"Not measured: {name} ({why}).\n" for name, why in peers["not measured"].items()]
        for work, own in works.items():
            found = dict.fromkeys(row["versions"] for row in own["rows"])
            page.append(f"- {work} ({'; '.join(found)}). {own['tried']}")
        page.append("")
    page.append(
        "## Beside stock transformers, and beside ourselves\n\nOf a work that misses a goal the missed ones alone are shown. `python -m benchmarks.run_all NAME --full`\n"
    )
    own = [((row["topic"],), row, one["machine"]) for one in results.values() for row in one["rows"]]
    missed = {cells for cells, row, _ in own if row["met"] is False}
    own = [one for one in own if one[1]["met"] is False or one[0] not in missed]
    page += lines(["work"], sorted(own, key=lambda row: TOPICS.index(row[0][0])))
    page += [WORDS, "Machines: " + "; ".join(f"{letter}: {kind}" for kind, letter in machines.items()) + ".", ""]
    return "\n".join(page)


TOPICS = [
    *("many texts", "service", "first answer", "start of the program", "a long file", "targets and aspects"),
    *("training, an epoch", "time to quality", "dialogues", "label-aware attention"),
    *("label-aware attention over any encoder", "emotion-specific attention", "quasi-attention", "context guidance"),
    *("replies with emotions", "all emotions at once", "language model with emotions", "training on a GPU", "growth"),
]


def _distance(row: dict) -> float:
    """How far a row is behind its goal; negative before it."""
    sign, goal = row["target"].split()
    return (row["median"] - float(goal)) * (1 if sign == "≤" else -1) / (float(goal) or 1)


if __name__ == "__main__":
    main()
