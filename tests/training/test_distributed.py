# SPDX-License-Identifier: Apache-2.0
"""Two processes train as one does with the same global batch: weights, losses, metrics, what is written, and how they end."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml
from endurance.fork_server import ForkServer
from safetensors.torch import load_file
from toolkit_helpers import feelings_rows, files_in, report_of, save_base_bert, write_csv
from torch.utils.data import RandomSampler

from hf_emotion.training.trainer import EpochOrder, SharedBatches


SIZES = {"train": (45, 0), "dev": (13, 45), "test": (9, 58)}  # 45 rows: a last batch of 5 for 8, one of 1 for 4
REPLIES = {"anger": "that is anger", "joy": "so happy today , happy sun", "neutral": "a day"}
ARGUMENTS = {
    **{"num_train_epochs": 2, "optim": "sgd", "learning_rate": 0.3, "max_grad_norm": 1.0, "logging_steps": 1},
    **{"per_device_eval_batch_size": 4, "use_cpu": True, "bf16": False},
}
LAUNCHERS = ("accelerate.commands.launch --multi_gpu --num_processes", "torch.distributed.run --nproc-per-node")
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
KINDS = {
    "single-label": {"dataset": "files", "model_type": None},
    "multi-label": {
        **{"dataset": "files", "dataset_options": {"label_separator": "|"}, "model_type": "label-aware-bert"},
        "model_config": {"class_balanced_beta": 0.9, "initializer_range": 0.2},
    },
    "generation": {"dataset": "reply_files", "model_type": "bert-mod-ln"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A base model, and for each kind of training its corpus and recipe."""
    folder = tmp_path_factory.mktemp("distributed")
    base = save_base_bert(folder / "base", **NO_DROPOUT)
    for kind, values in KINDS.items():
        for part, sizes in SIZES.items():
            header, rows = ["text", "label"], feelings_rows(*sizes, multi_label=kind == "multi-label")
            if kind == "generation":
                header = ["context", "reply", "emotion"]
                rows = [[text, REPLIES[label], label] for text, label in rows]
            write_csv(folder / kind / f"{part}.csv", header, rows)
        recipe = {"name": kind, "base_model": str(base), "max_length": 24, "training_arguments": ARGUMENTS, **values}
        (folder / f"{kind}.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = ForkServer(tmp_path_factory.mktemp("server") / "cache", plots=False)
    yield server
    server.close()


def command(folder: Path, kind: str, output: Path, batch: int, *options: str) -> list[str]:
    command = ["train", str(folder / f"{kind}.yaml"), "--data-dir", str(folder / kind), "--output", str(output)]
    return [*command, "--set", f"per_device_train_batch_size={batch}", *options]


@pytest.fixture(scope="module")
def single(folder, server):
    """single(kind): the run folder of one process, trained once."""
    runs = {}

    def run(kind: str) -> Path:
        if kind not in runs:
            runs[kind], log = folder / f"one-{kind}", folder / f"one-{kind}.log"
            assert server.run(command(folder, kind, runs[kind], 8), log) == 0, log.read_text()
        return runs[kind]

    return run


def assert_equal_runs(found: Path, expected: Path) -> None:
    assert files_in(found).keys() == files_in(expected).keys()  # no leftovers, and nothing from the other process
    weights, others = (load_file(path / "model.safetensors") for path in (found, expected))
    for name, weight in others.items():
        torch.testing.assert_close(weights[name], weight, rtol=0, atol=1e-6, msg=name)
    (one,), (other,) = (report_of(path)["runs"] for path in (found, expected))
    for split in ("validation", "test"):
        for kind, values in other[split].items():
            for name, value in values.items():
                if isinstance(value, float | int):
                    assert one[split][kind][name] == pytest.approx(value, rel=1e-5, nan_ok=True), (split, kind, name)
    assert len(one["history"]) == len(other["history"])
    for entry, reference in zip(one["history"], other["history"], strict=True):
        for name, value in reference.items():
            measured = name.endswith(("runtime", "per_second", "preparation_time"))
            # The stock `eval_loss` counts the rows with which the last batch is filled up.
            if not measured and name != "eval_loss":
                assert entry[name] == pytest.approx(value, rel=1e-5, abs=1e-6, nan_ok=True), (name, entry["step"])


@pytest.mark.parametrize("kind", ["multi-label", "generation"])
def test_two_processes_train_as_one(kind, folder, server, single):
    output, log = folder / f"two-{kind}", folder / f"two-{kind}.log"
    assert server.run_distributed(command(folder, kind, output, 4), log) == [0, 0], Path(f"{log}.0").read_text()
    assert_equal_runs(output, single(kind))
    start, end = load_file(folder / "base" / "model.safetensors"), load_file(output / "model.safetensors")
    moved = [(end[name] - start[key]).abs().max() for name in end for key in start if name.endswith(key)]
    assert max(moved) > 1e-2  # 1e-6 says something
    assert "run folder" in Path(f"{log}.0").read_text()
    said = Path(f"{log}.1").read_text().splitlines()
    assert [line for line in said if "find_unused_parameters" not in line] == []  # only the first one prints


def test_told_to_end_both_save_and_a_resume_ends_like_one_process(folder, server, single):
    """SIGTERM reaches one of them alone; they stop at the same step."""
    output, log = folder / "told", folder / "told.log"
    started = server.start_distributed(command(folder, "single-label", output, 4), log)
    while not (output / "checkpoints" / "checkpoint-6" / "trainer_state.json").exists():
        time.sleep(0.005)
    os.kill(started[1], signal.SIGTERM)
    ended = [server.wait(process) for process in started]
    if ended == [0, 0]:
        pytest.skip("the training ended before the signal came")
    assert ended == [143, 143]
    said = Path(f"{log}.0").read_text()
    assert "told to end (SIGTERM): saved step" in said and "told to end" not in Path(f"{log}.1").read_text()
    assert server.run_distributed(command(folder, "single-label", output, 4, "--resume"), log) == [0, 0]
    assert_equal_runs(output, single("single-label"))


@pytest.mark.slow
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_launchers(launcher, folder, single, tmp_path):
    options = command(folder, "multi-label", tmp_path / "run", 4)
    start = [sys.executable, "-m", *launcher.split(), "2", "-m", "hf_emotion", *options]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(start, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("run folder") == 1
    for pattern in ("*.png", "c*_*.txt"):  # which the server's processes do not draw
        for path in (tmp_path / "run").glob(pattern):
            path.unlink()
    assert_equal_runs(tmp_path / "run", single("multi-label"))
    # An error of the first process (the folder is taken) ends the other too.
    failed = subprocess.run(start, env=environment, capture_output=True, text=True, timeout=120)
    assert failed.returncode == 1 and "exists and is not empty" in failed.stderr


class TestBatches:
    @pytest.mark.parametrize("rows", [8, 13, 17])
    @pytest.mark.parametrize("processes", [1, 2, 3])
    def test_together_they_are_those_of_one(self, rows, processes):
        whole = list(SharedBatches(range(rows), 2 * processes, False))
        shares = [list(SharedBatches(range(rows), 2, False, processes, i)) for i in range(processes)]
        assert {len(share) for share in shares} == {len(whole)}
        for batch, *parts in zip(whole, *shares, strict=True):
            assert min(map(len, parts)) >= 1 and max(map(len, parts)) - min(map(len, parts)) <= 1
            together = [row for part in parts for row in part]
            assert together == batch or (len(batch) < processes and set(together) == set(batch))
        assert list(SharedBatches(range(9), 2, True, 2, 1)) == [[2, 3], [6, 7]]  # whole batches alone

    def test_an_order_is_that_of_the_seed_and_the_epoch(self):
        def order(seed: int, epoch: int) -> list[int]:
            torch.rand(epoch + 3)  # whatever else draws random numbers
            found = EpochOrder(RandomSampler(range(50)), seed)
            found.set_epoch(epoch)
            return list(found)

        orders = [order(seed, epoch) for seed in (0, 1, 42) for epoch in range(3)]
        assert orders == [order(seed, epoch) for seed in (0, 1, 42) for epoch in range(3)]
        assert len({json.dumps(order) for order in orders}) == 9
        assert all(sorted(order) == list(range(50)) for order in orders)
