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
import multiprocessing
import sys
import traceback
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.measuring import figure, keep, machine, recorded
from hf_emotion.io.files import write_json, write_text


# Function -> its module, its small and its full sizes; the small ones take ten minutes on two cores.
BENCHMARKS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "classifiers": ("training", {"size": "minilm", "pairs": 7, "shapes": ["8x64"]}, {}),
    "any_encoder": ("training", {"encoders": ["mpnet", "modernbert"], "shape": "4x32", "kinds": ["forward"]}, {}),
    "replies": ("training", {"size": "tiny", "pairs": 7}, {}),
    "language_model": ("training", {"size": "tiny", "pairs": 7}, {}),
    "gpu": ("training", {}, {}),
    "many_texts": ("predicting", {"rows": 2000}, {"rows": 20_000}),
    "targets_and_aspects": ("predicting", {"rows": 128}, {"rows": 512}),
    "long_file": ("predicting", {}, {"rows": [10_000, 1_000_000]}),
    "start_of_the_program": ("predicting", {"pairs": 7}, {}),
}


def run_one(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """The machine and the rows of a benchmark; it gets those of the inputs that it takes."""
    import torch

    torch.set_num_threads(arguments.threads)
    module, *sizes = BENCHMARKS[name]
    function = getattr(importlib.import_module(f"benchmarks.{module}"), name)
    taken = inspect.signature(function).parameters
    given = {key: value for key, value in vars(arguments).items() if key in taken and value is not None}
    rows = function(**sizes[arguments.full] | given)
    return {"machine": machine(arguments.threads), "rows": rows}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *BENCHMARKS], help="default: all")
    parser.add_argument("--full", action="store_true", help="the sizes of the goals; all take hours")
    parser.add_argument("--data-dir", help="folder with the corpora")
    parser.add_argument("--checkpoint", help="a classifier of texts; default: an untrained one")
    parser.add_argument("--targeted", help="a model of targeted sentiment over SentiHood; default: an untrained one")
    parser.add_argument("--causal-lm", help="language model of `language_model`; default: an untrained one")
    parser.add_argument("--pairs", type=int, help="measurements of each side")
    parser.add_argument("--threads", type=int, default=2, help="threads of torch (default: %(default)s)")
    parser.add_argument(
        "--results", type=Path, default=Path(__file__).with_name("results.json"), help="the rows of others stay"
    )
    parser.add_argument("--table", action="store_true", help="measure nothing")
    arguments = parser.parse_args(argv)
    kept, failed = recorded(arguments.results), []
    for name in [] if arguments.table else arguments.names or BENCHMARKS:
        print(f"\n{name}", flush=True)
        try:
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
                own = process.submit(run_one, name, arguments).result()
        except Exception:  # also if the process is killed
            traceback.print_exc()
            failed.append(name)
            continue
        shown = ["--full"] * arguments.full + ["--data-dir DATA"] * bool(arguments.data_dir)
        models = ("checkpoint", "targeted", "causal_lm")
        shown += [f"--{key.replace('_', '-')} {key.upper()}" for key in models if getattr(arguments, key)]
        keep(kept, " ".join(["run_all.py", name, *shown]), own)
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
TRIED = "What was tried to make the others fast: `python -m benchmarks.peers WORK --data-dir DATA`\n"
STOCK = """\
## Beside stock transformers, and beside ourselves

Of a work that misses a goal the missed ones alone are shown. `python -m benchmarks.run_all NAME --full`
"""
WORDS = """\
*base*, *minilm*: size of the encoder (12 layers of width 768, 6 of 384). *8x64*: 8 texts of 64 tokens. *backward*: forward and backward pass;
*step*: with AdamW. Classifiers run beside the stock BERT or RoBERTa of transformers. Where the time goes: NOTES.md. All rows, and what they
ran on: results.json, peers.json; epyc and avx2 are other machines.
"""
TOPICS = [
    *("many texts", "service", "first answer", "start of the program", "a long file", "targets and aspects"),
    *("training, an epoch", "time to quality", "dialogues", "label-aware attention"),
    *("label-aware attention over any encoder", "emotion-specific attention", "quasi-attention", "context guidance"),
    *("replies with emotions", "all emotions at once", "language model with emotions", "training on a GPU", "growth"),
]


def table(results: dict[str, dict], peers: dict[str, Any]) -> str:
    """RESULTS.md: what has a goal in peers.json and results.json, the worst row of each goal."""
    machines: dict[str, str] = {}
    behind: dict[str, None] = {}

    def lines(heads: Sequence[str], rows: list[tuple[tuple[str, ...], dict, dict]]) -> list[str]:
        """(cells, row, measured) of each row; of those with equal cells and goal the worst."""
        groups: dict[tuple, list[tuple[dict, dict]]] = {}
        for cells, row, measured in rows:
            if row["target"] and row["unit"]:  # what has no unit is not a speed
                groups.setdefault((*cells, row["target"]), []).append((row, measured["machine"]))
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
        others = [((work, row["peer"]), row, own) for work, own in works.items() for row in own["rows"]]
        page += ["## Beside other tools", "", *lines(["work", "peer"], others)]
        page += [f"Behind the goal: {'; '.join(behind) or 'nothing'}.", "", TRIED]
        page += [f"Not measured: {name} ({why}).\n" for name, why in peers["not measured"].items()]
        for work, own in works.items():
            tools = "; ".join(dict.fromkeys(row["versions"] for row in own["rows"]))
            page.append(f"- {work} ({tools}). {own['tried']}")
        page.append("")
    own = [((row["topic"],), row, one) for one in results.values() for row in one["rows"]]
    missed = {cells for cells, row, _ in own if row["met"] is False}
    shown = [one for one in own if one[1]["met"] is False or one[0] not in missed]
    page += [STOCK, *lines(["work"], sorted(shown, key=lambda row: TOPICS.index(row[0][0])))]
    page += [WORDS, "Machines: " + "; ".join(f"{letter}: {kind}" for kind, letter in machines.items()) + ".", ""]
    return "\n".join(page)


def _distance(row: dict) -> float:
    """How far a row is behind its goal; negative before it."""
    sign, goal = row["target"].split()
    return (row["median"] - float(goal)) * (1 if sign == "≤" else -1) / (float(goal) or 1)


if __name__ == "__main__":
    main()
