# SPDX-License-Identifier: Apache-2.0
"""
Runs benchmarks in turn, each in a process of its own, keeps their rows in a results.json, and writes RESULTS.md beside it from that file and
peers.json.

    python -m benchmarks.run_all                            # all, small sizes: make bench
    python -m benchmarks.run_all many_texts replies --full --data-dir DATA --checkpoint runs/goemotions_laa_ce
    python -m benchmarks.run_all --table                    # only writes RESULTS.md anew
"""

import importlib
import inspect
import multiprocessing
import sys
import traceback
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from benchmarks.measuring import figure, keep, machine, recorded
from hf_emotion.io.files import write_json, write_text
from hf_emotion.tasks.cards import table as markdown_table


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


SAID = yaml.safe_load(Path(__file__).with_name("results.yaml").read_text(encoding="utf-8"))
TOPICS, RESULTS = SAID["topics"], Path(__file__).with_name("results.json")


def run_one(name: str, full: bool, threads: int, inputs: dict[str, Any]) -> dict[str, Any]:
    """The machine and the rows of a benchmark; it gets those of the inputs that it takes."""
    import torch

    torch.set_num_threads(threads)
    module, *sizes = BENCHMARKS[name]
    function = getattr(importlib.import_module(f"benchmarks.{module}"), name)
    taken = inspect.signature(function).parameters
    given = {key: value for key, value in inputs.items() if key in taken and value is not None}
    rows = function(**sizes[full] | given)
    return {"machine": machine(threads), "rows": rows}


def main(
    names: Annotated[list[str] | None, typer.Argument(help=f"of {', '.join(BENCHMARKS)}; default: all")] = None,
    full: Annotated[bool, typer.Option("--full", help="the sizes of the goals; all take hours")] = False,
    data_dir: Annotated[str | None, typer.Option(help="folder with the corpora")] = None,
    checkpoint: Annotated[str | None, typer.Option(help="a classifier of texts; default: untrained")] = None,
    targeted: Annotated[str | None, typer.Option(help="a model over SentiHood; default: untrained")] = None,
    causal_lm: Annotated[str | None, typer.Option(help="of `language_model`; default: untrained")] = None,
    pairs: Annotated[int | None, typer.Option(help="measurements of each side")] = None,
    threads: Annotated[int, typer.Option(help="of torch")] = 2,
    results: Annotated[Path, typer.Option(help="rows of others stay")] = RESULTS,
    only_table: Annotated[bool, typer.Option("--table", help="measure nothing")] = False,
) -> None:
    kept, failed = recorded(results), []
    models = {"checkpoint": checkpoint, "targeted": targeted, "causal_lm": causal_lm}
    for name in [] if only_table else names or BENCHMARKS:
        print(f"\n{name}", flush=True)
        try:
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
                inputs = {"data_dir": data_dir, "pairs": pairs, **models}
                own = process.submit(run_one, name, full, threads, inputs).result()
        except Exception:  # also if the process is killed
            traceback.print_exc()
            failed.append(name)
            continue
        shown = ["--full"] * full + ["--data-dir DATA"] * bool(data_dir)
        shown += [f"--{key.replace('_', '-')} {key.upper()}" for key, model in models.items() if model]
        keep(kept, " ".join(["run_all.py", name, *shown]), own)
        write_json(results, kept)  # after each, so that an interrupted run keeps its results
    write_text(results.with_name("RESULTS.md"), table(kept, recorded(results.with_name("peers.json"))))
    if failed:
        sys.exit("failed: " + "; ".join(failed))


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
        heads, found = [*heads, "goal", "the worst", "measured", "on"], []
        for cells, each in groups.items():
            row, setting = max(each, key=lambda one: _distance(one[0]))
            kind = setting["machine"].partition(", load")[0].replace("(R)", "") + ")"
            place = machines.setdefault(kind, "ABCDEFGH"[len(machines)])
            worst = row["work"].removesuffix(f" beside {row.get('peer')}") + f" (of {len(each)})" * (len(each) > 1)
            value = figure(row)
            if row["met"] is False:
                behind[": ".join(cells[:-1])] = None
                value = f"**{value}**"
            if before := SAID["before"].get(": ".join([*cells[:-1], row["work"]])):
                value += f"; before {before}"
            found.append([cell.replace("|", "/") for cell in (*cells, worst, value, place)])
        return [markdown_table(heads, found, len(heads)), ""]

    page = [SAID["legend"]]
    if works := peers.get("works"):
        others = [((work, row["peer"]), row, own) for work, own in works.items() for row in own["rows"]]
        page += ["## Beside other tools", "", *lines(["work", "peer"], others)]
        page += [f"Behind the goal: {'; '.join(behind) or 'nothing'}.", "", SAID["tried"]]
        page += [f"Not measured: {name} ({why}).\n" for name, why in peers["not measured"].items()]
        for work, own in works.items():
            tools = "; ".join(dict.fromkeys(row["versions"] for row in own["rows"]))
            page.append(f"- {work} ({tools}). {own['tried']}")
        page.append("")
    own = [((row["topic"],), row, one) for one in results.values() for row in one["rows"]]
    missed = {cells for cells, row, _ in own if row["met"] is False}
    shown = [one for one in own if one[1]["met"] is False or one[0] not in missed]
    page += [SAID["stock"], *lines(["work"], sorted(shown, key=lambda row: TOPICS.index(row[0][0])))]
    page += [SAID["words"], f"Machines: {'; '.join(f'{letter}: {kind}' for kind, letter in machines.items())}.", ""]
    return "\n".join(page)


def _distance(row: dict) -> float:
    """How far a row is behind its goal; negative before it."""
    sign, goal = row["target"].split()
    return (row["median"] - float(goal)) * (1 if sign == "≤" else -1) / (float(goal) or 1)


if __name__ == "__main__":
    typer.run(main)
