# SPDX-License-Identifier: Apache-2.0
"""
P13: the first answer. Processor seconds of the whole command `hf-emotion predict MODEL TEXT`, for a checkpoint and for its exported
folder, against a program that imports torch, loads the same checkpoint by AutoModelForSequenceClassification and runs it. They run
in turn, each in its own process, with cached bytecode. Also the memory, and the heavy modules that only the command imports.

    python benchmarks/first_answer.py
    python benchmarks/first_answer.py --checkpoint runs/goemotions_laa_ce --exported runs/goemotions_laa_ce-onnx
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from measuring import Spent, parse, ratio, result, save, spent
from texts import save_untrained


TEXT = "I am so happy that you are here today."
# The least that an answer with torch needs. The checkpoint's own code replaces `hf_emotion.modeling`.
FLOOR = """
import sys
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
checkpoint, text = sys.argv[1:]
model = AutoModelForSequenceClassification.from_pretrained(checkpoint, trust_remote_code=True).eval()
tokenizer = AutoTokenizer.from_pretrained(checkpoint)
with torch.inference_mode():
    print(model(**tokenizer(text, return_tensors="pt")).logits.sigmoid().tolist())
"""
HEAVY = ("datasets", "matplotlib", "pandas", "pyarrow", "scipy", "sklearn", "torch", "transformers")
# Runs its arguments as `python` would (-m MODULE or -c CODE), then prints the imported modules.
MODULES = """
import json, runpy, sys
how, what, *rest = sys.argv[1:]
sys.argv = ["-m" if how == "-m" else "-c", *rest]
try:
    if how == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "-c", "exec"), {"__name__": "__main__"})
except SystemExit as end:
    if end.code:
        raise
print(json.dumps(sorted(name for name in sys.modules if "." not in name)), file=sys.stderr)
"""


def heavy_modules(command: Sequence[str]) -> list[str]:
    """Which of `HEAVY` a Python command, `-m MODULE ...` or `-c CODE ...`, has imported when it ends."""
    command = [sys.executable, "-c", MODULES, *command]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return sorted(set(HEAVY) & set(json.loads(done.stderr.splitlines()[-1])))


def main(argv: Sequence[str] | None = None) -> list[dict]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", help="a classifier of texts; default: an untrained one over --base-model")
    parser.add_argument("--exported", help="its exported folder; default: it is exported here")
    parser.add_argument("--base-model", default="minilm")
    arguments = parse(parser, argv)
    with tempfile.TemporaryDirectory() as name:
        checkpoint = arguments.checkpoint
        if checkpoint is None:
            checkpoint = str(save_untrained(Path(name) / "model", arguments.base_model, "label-aware-bert"))
        exported = arguments.exported
        if exported is None:
            exported = f"{name}/exported"
            command = [sys.executable, "-m", "hf_emotion", "export", checkpoint, "--output", exported]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        rows = compare(checkpoint, exported, arguments.pairs, arguments.threads)
    save(arguments, rows)
    return rows


def compare(checkpoint: str, exported: str, pairs: int, threads: int) -> list[dict]:
    sides = {
        "the program": ["-c", FLOOR, checkpoint, TEXT],
        "the checkpoint": ["-m", "hf_emotion", "predict", checkpoint, TEXT],
        "the exported folder": ["-m", "hf_emotion", "predict", exported, TEXT],
    }
    # The first run of each writes bytecode and prints the modules.
    modules = {name: heavy_modules(command) for name, command in sides.items()}
    runs: dict[str, list[Spent]] = {name: [] for name in sides}
    for _ in range(pairs):
        for name, command in sides.items():
            runs[name].append(spent([sys.executable, *command], OMP_NUM_THREADS=str(threads)))
    processor = {name: [run.processor for run in series] for name, series in runs.items()}
    floor = processor["the program"]
    rows = []
    for name, at_most in (("the checkpoint", 1.05), ("the exported folder", 0.3)):
        work = f"processor time of predict with {name}, to that of torch and the model alone"
        rows.append(ratio("P13", work, processor[name], floor, at_most=at_most))
    wall = [run.wall for run in runs["the exported folder"]]
    rows.append(result("P13", "predict with the exported folder, wall time", wall, "s", at_most=1.5))
    for name, series in runs.items():
        rows.append(result("P13", f"memory of {name}", [run.memory for run in series], "MiB"))
    # An exported model needs no heavy module.
    for name, allowed in (("the checkpoint", modules["the program"]), ("the exported folder", [])):
        more = [module for module in modules[name] if module not in allowed]
        work = f"heavy modules too many with {name}: {', '.join(more) or 'none'}"
        rows.append(result("P13", work, [len(more)], "modules", at_most=0))
    return rows


if __name__ == "__main__":
    main()
