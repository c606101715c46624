# SPDX-License-Identifier: Apache-2.0
"""
How cost grows: train steps with labels and length beside the stock peer; predictions with the tokens of a text, its aspects in one pass, the
turns of a dialogue, threads that share a predictor, clients of a service, rows of a file, and Ray's workers. docs/pictures/speed.py draws those
beside a peer from benchmarks/results.json. "× linear": the time over that of the first value, to the value over the first one.

    python -m benchmarks.growth labels tokens aspects turns clients --pairs 5 --output benchmarks/results.json
"""

import itertools
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated

import torch
import typer

from benchmarks.measuring import interleaved, keep, machine, ratio, recorded, result
from benchmarks.peers import Server, started
from benchmarks.predicting import WORDS, save_untrained, small_model, synthetic_texts, write_texts
from benchmarks.training import inputs_for, pair, step_of
from hf_emotion import Predictor
from hf_emotion.io.files import write_json
from hf_emotion.runtime.base_models import load_base_tokenizer
from hf_emotion.tasks.dialogue_emotion.building import build_dialogue_model
from hf_emotion.tasks.dialogue_emotion.predictor import DialoguePredictor
from hf_emotion.tasks.targeted_sentiment.predictor import TargetedPredictor


Timed = tuple[str, list[Callable[[], object]]]  # in words; the action, and the stock peer's if there is one


def sweeps(folder: Path, closing: ExitStack) -> dict[str, tuple[list[int], Callable[[int], Timed]]]:
    """Name -> values, function from a value to what is timed; models and files are made in the folder."""

    def steps(model_type: str, length: int = 64, **fields) -> Timed:
        models = pair(model_type, "minilm", **fields)
        both = [step_of(model, inputs_for(model.config, 8, length)) for model in models]
        return f"{model_type} against stock BERT", both

    def predictor() -> Predictor:
        return Predictor(save_untrained(folder / "model", "minilm", "label-aware-bert"), device="cpu")

    def tokens(number: int) -> Timed:
        """64 texts; longer ones than the model's maximum are read in windows."""
        texts = [" ".join(WORDS[(row + i) % len(WORDS)] for i in range(number - 2)) for row in range(64)]
        return "Predictor", [partial(predictor(), texts)]

    def callers(number: int) -> Timed:
        """256 texts, each a call of its own, from threads that share a predictor."""
        texts, shared = synthetic_texts(256), predictor()

        def call() -> None:
            with ThreadPoolExecutor(number) as pool:
                list(pool.map(shared, texts))

        return "Predictor", [call]

    def aspects(number: int) -> Timed:
        """16 texts, each about so many aspects, which a label-aware model reads in one pass."""
        contexts = {"aspects": [f"{word} {row}" for row, word in zip(range(number), itertools.cycle(WORDS))]}
        contexts |= {"targets": None, "target_texts": None}
        place = save_untrained(folder / f"aspects{number}", "minilm", "label-aware-bert", contexts)
        return "TargetedPredictor", [partial(TargetedPredictor(place, device="cpu"), synthetic_texts(16))]

    def turns(number: int) -> Timed:
        """A dialogue of so many turns, its encoder frozen."""
        tokenizer = load_base_tokenizer("minilm")
        model = build_dialogue_model("minilm", {}, tokenizer, ["joy", "anger", "neutral"])
        dialogue = [("AB"[row % 2], text) for row, text in enumerate(synthetic_texts(number))]
        return "DialoguePredictor", [partial(DialoguePredictor(model.eval(), tokenizer), [dialogue])]

    def clients(number: int) -> Timed:
        """256 texts, each a request, from clients that wait for their answers, to a service of the ready model goemotions."""
        words = "-m hf_emotion serve goemotions --log errors --port"
        server = Server([sys.executable, *words.split()])
        closing.enter_context(started(server, torch.get_num_threads()))
        return "service", [partial(server.load, synthetic_texts(256), number, 0)]

    def file(rows: int, *options: str) -> Timed:
        """`predict --input` with a small model, in a process of its own."""
        source = write_texts(folder / f"{rows}.parquet", rows)
        output = folder / ("output.jsonl" if options else "output.parquet")
        words = ["-m", "hf_emotion", "predict", small_model(folder), "--input", source, "--output", output, *options]

        def run() -> None:
            output.unlink(missing_ok=True)
            subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)

        return "predict --input", [run]

    return {
        "labels": ([2, 28, 100, 300, 1000], lambda n: steps("label-aware-bert", num_labels=n)),
        "length": ([32, 64, 128, 256, 512], lambda n: steps("qacg-bert", length=n)),
        "tokens": ([16, 64, 256, 512, 1024, 4096], tokens),
        "aspects": ([6, 12, 30, 60], aspects),
        "turns": ([10, 50, 100, 500], turns),
        "clients": ([1, 4, 16, 64, 256], clients),
        "callers": ([1, 2, 4, 8, 16, 64], callers),
        "file": ([10_000, 100_000, 1_000_000], file),
        "workers": ([1, 2, 4], lambda n: file(200_000, "--engine", "ray", "--workers", str(n))),
    }


def main(
    names: Annotated[list[str] | None, typer.Argument(metavar="SWEEP...", help="default: all")] = None,
    values: Annotated[list[int] | None, typer.Option(help="instead of those of the sweep")] = None,
    pairs: int = 5,
    threads: int = 2,
    output: Annotated[Path | None, typer.Option(help="results.json, whose rows of other sweeps stay")] = None,
) -> None:
    torch.set_num_threads(threads)
    found = recorded(output)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as closing:
        known = sweeps(Path(folder), closing)
        for sweep in names or known:
            own_values, timed_at = known[sweep]
            rows: list[dict] = []
            for value in values or own_values:
                what, actions = timed_at(value)
                training = len(actions) == 2
                warm_up = int(sweep not in ("file", "workers"))  # each of them is a process of its own
                times = interleaved(actions, pairs, warm_up, keep_memory=training)
                work = f"{sweep} {value}: {what}"
                rows.append(ratio("growth", work, *times) if training else result("growth", work, *times, unit="s"))
                first, last = (row.get("ours", row["median"]) for row in (rows[0], rows[-1]))
                rows[-1]["to_linear"] = last / first / (value / (values or own_values)[0])
                print(f"  {rows[-1]['to_linear']:.2f} × linear")
                closing.close()  # a service
            keep(found, f"growth.py {sweep} --pairs {pairs}", {"machine": machine(threads), "rows": rows})
            if output is not None:
                write_json(output, found)


if __name__ == "__main__":
    typer.run(main)
