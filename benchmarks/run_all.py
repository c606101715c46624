# SPDX-License-Identifier: Apache-2.0
"""
Runs all benchmarks in turn, each in its own process, and writes RESULTS.md from their results.

    python benchmarks/run_all.py                    # small sizes: make bench
    python benchmarks/run_all.py --full --data-dir DATA --checkpoint runs/goemotions_laa_ce
    python benchmarks/run_all.py --before ../old    # and the same in another checkout, side by side
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measuring import figure, recorded

from hf_emotion.io.files import write_json, write_text


FOLDER = Path(__file__).parent
PER_HEAD = """--options '{"context_heads": "per_head", "gate_bias": true}'"""  # the setting of the authors' code
SMALL = [  # meant for 10 minutes on two cores
    "model_step.py --model label-aware-bert --size minilm --kind step --kind memory --pairs 7",
    "model_step.py --model roberta-esa --size minilm --kind step --pairs 7",
    "model_step.py --model qacg-bert --size minilm --shape 8x64 --kind forward --kind backward --pairs 7",
    "model_step.py --model cg-bert --size minilm --shape 8x64 --kind forward --kind backward --pairs 7",
    "wrapper_step.py --encoder mpnet --encoder modernbert --shape 4x32 --kind forward --pairs 7",
    "dialogue_step.py --batches 3 --pairs 3",
    "reply_generation.py --size tiny --pairs 7",
    "modulated_language_model.py --size tiny --pairs 7",
    "epoch.py --rows 1024 --pairs 1",
    "bulk_prediction.py --rows 2000 --pairs 3",
    "targeted_pairs.py --rows 128 --pairs 7",
    "bulk_memory.py --rows 2000 50000",
    "startup.py --pairs 7",
    "first_answer.py --pairs 3",
    "service.py --pairs 1 --seconds 5",
    "gpu.py",
]
FULL = [
    "model_step.py --model label-aware-bert --size base --naive",
    "model_step.py --model label-aware-bert --size minilm --naive",
    "model_step.py --model roberta-esa",
    "model_step.py --model qacg-bert --naive",
    f"model_step.py --model qacg-bert --kind forward --kind backward --naive {PER_HEAD}",
    "model_step.py --model cg-bert --naive",
    "wrapper_step.py",
    "dialogue_step.py --dataset meld",
    "reply_generation.py --size small --naive",
    "modulated_language_model.py",
    "epoch.py --pairs 3",
    "bulk_prediction.py --rows 20000",
    "targeted_pairs.py --rows 512",
    "bulk_memory.py --rows 10000 1000000",
    "startup.py --pairs 15",
    "first_answer.py",
    "service.py",
    "time_to_quality.py",
    "gpu.py",
    "growth.py",
]


def commands(arguments: argparse.Namespace) -> list[str]:
    """The commands to run, with the words DATA, CHECKPOINT and TARGETED instead of paths, which RESULTS.md must not show."""
    data = " --data-dir DATA" if arguments.data_dir else ""
    own = {
        "dialogue_step.py": data,
        "epoch.py": data,
        "time_to_quality.py": data,
        "bulk_prediction.py": (" CHECKPOINT" if arguments.checkpoint else "") + data,
        "service.py": (" --checkpoint CHECKPOINT" if arguments.checkpoint else "") + data,
        "targeted_pairs.py": f" TARGETED{data}" if arguments.targeted else "",
    }
    chosen = [command + own.get(command.split()[0], "") for command in FULL] if arguments.full else SMALL
    return [command for command in chosen if arguments.only is None or command.startswith(arguments.only)]


def words(command: str, arguments: argparse.Namespace) -> list[str]:
    """Script and options, with the real paths."""
    places = {"DATA": arguments.data_dir, "CHECKPOINT": arguments.checkpoint, "TARGETED": arguments.targeted}
    return [places.get(word, word) for word in shlex.split(command)]


def package_of(checkout: Path, folder: Path) -> Path:
    """
    Put a checkout's package into a folder, as links, in the places where it is installed. An editable install would take `modeling`
    and `configs`, which lie beside `hf_emotion` in a checkout, from its own one.
    """
    package = folder / "hf_emotion"
    package.mkdir()
    for part in [*(checkout / "hf_emotion").iterdir(), checkout / "modeling", checkout / "configs"]:
        (package / part.name).symlink_to(part.resolve())
    return folder


def run_in(checkout: Path, command: str, arguments: argparse.Namespace) -> dict | None:
    """What a checkout's benchmark measured with that checkout's code; None if it failed."""
    with tempfile.TemporaryDirectory() as temporary:
        output = Path(temporary) / "rows.json"
        script, *options = words(command, arguments)
        call = [sys.executable, checkout / "benchmarks" / script, *options, "--output", output]
        code = subprocess.call(call, env={**os.environ, "PYTHONPATH": str(package_of(checkout, Path(temporary)))})
        return None if code or not output.is_file() else json.loads(output.read_text(encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="the sizes of the targets; takes hours")
    parser.add_argument("--data-dir", help="folder with the corpora, for --full")
    parser.add_argument("--checkpoint", help="a model of emotions, for --full")
    parser.add_argument("--targeted", help="a model of targeted sentiment over SentiHood, for --full")
    parser.add_argument(
        "--only", help="run only benchmarks whose command starts like this; the results of the others are kept"
    )
    parser.add_argument(
        "--before",
        type=Path,
        help="another checkout: each benchmark runs there first, and its figures stand in a column of their own",
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=FOLDER / "results.json",
        help="results file; RESULTS.md is written beside it, with NOTES.md at its end",
    )
    arguments = parser.parse_args()
    kept = {} if arguments.only is None else recorded(arguments.results)
    failed = []
    if arguments.before:
        git = ["git", "-C", arguments.before, "rev-parse", "--short", "HEAD"]
        commit = subprocess.run(git, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    for command in commands(arguments):
        print(f"\npython benchmarks/{command}", flush=True)
        start = time.monotonic()
        before = run_in(arguments.before.resolve(), command, arguments) if arguments.before else None
        here = run_in(FOLDER.parent, command, arguments)
        if here is None:
            failed.append(command)
            continue
        kept[command] = here if before is None else {**here, "before": {"commit": commit, "rows": before["rows"]}}
        print(f"{time.monotonic() - start:.0f} s")
        write_json(arguments.results, kept)  # saved after each benchmark, so that an interrupted run keeps its results
        write_text(arguments.results.with_name("RESULTS.md"), table(kept, arguments.results.with_name("NOTES.md")))
    if failed:
        sys.exit("failed: " + "; ".join(failed))


def table(results: dict[str, dict], notes: Path) -> str:
    """RESULTS.md: the table and, if there are any, the notes, which are written by hand and say where the time goes."""
    ordered = sorted(results.items(), key=lambda item: _question(item[1]))
    lines = [
        "# Measured",
        "",
        "Medians of paired ratios, runs interleaved in one process, with quartiles in brackets. “≤”: time (memory) of ours divided by",
        "the peer's; “≥”: how many times as fast as the peer. Written by `benchmarks/run_all.py`.",
        "",
    ]
    compared = any("before" in measured for measured in results.values())
    if compared:
        lines += [
            "“Before”: the same benchmark in an older checkout, run just before; its commit stands beside the command.",
            "",
        ]
    columns = ["#", "work", "target", *["before"] * compared, "measured", "", "pairs"]
    lines += [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for _, measured in ordered:
        before = {row["work"]: figure(row) for row in measured.get("before", {}).get("rows", [])}
        for row in measured["rows"]:
            work = row["work"].replace("|", "/")
            met = {True: "met", False: "**missed**", None: ""}[row["met"]]
            earlier = [before.get(row["work"], "")] * compared
            cells = [row["question"], work, row["target"], *earlier, figure(row), met, str(row["pairs"])]
            lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "Commands, and what they ran on:", ""]
    for command, measured in ordered:
        setting = ", ".join(f"{name} {value}" for name, value in measured["machine"].items())
        before = f"; before: {measured['before']['commit']}" if "before" in measured else ""
        lines.append(f"- `python benchmarks/{command}`: {setting}{before}")
    written = "\n\n" + notes.read_text(encoding="utf-8") if notes.is_file() else "\n"
    return "\n".join(lines) + written


def _question(measured: dict) -> int:
    """Sort key: P1 before P10, other names after them."""
    name = measured["rows"][0]["question"] if measured["rows"] else ""
    return int(name[1:]) if name[1:].isdigit() else 99


if __name__ == "__main__":
    main()
