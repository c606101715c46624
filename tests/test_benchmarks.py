# SPDX-License-Identifier: Apache-2.0
"""The benchmarks: what they compare has one result, what they report is what they measured, and each of them runs."""

import asyncio
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from families import SIZES
from model_cases import BY_ID
from sklearn.metrics import f1_score
from sklearn.model_selection import RepeatedKFold
from toolkit_helpers import ASPECT_WORDS, ROOT, invoke, save_base_bert, write_sentihood
from torch.testing import assert_close
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    DistilBertModel,
)

from hf_emotion.runtime.base_models import load_base_tokenizer


BENCHMARKS = ROOT / "benchmarks"
sys.path.append(str(BENCHMARKS))

import bulk_memory  # noqa: E402
import bulk_prediction  # noqa: E402
import dialogue_step  # noqa: E402
import epoch  # noqa: E402
import first_answer  # noqa: E402
import gpu  # noqa: E402
import growth  # noqa: E402
import measuring  # noqa: E402
import model_step  # noqa: E402
import modulated_language_model  # noqa: E402
import published_sizes  # noqa: E402
import reply_generation  # noqa: E402
import run_all  # noqa: E402
import service  # noqa: E402
import startup  # noqa: E402
import targeted_pairs  # noqa: E402
import texts  # noqa: E402
import thresholds  # noqa: E402
import time_to_quality  # noqa: E402
import variants  # noqa: E402
import wrapper_step  # noqa: E402
from naive import naive  # noqa: E402


ONE = ["--pairs", "1", "--threads", "1"]


@pytest.fixture(autouse=True)
def threads():
    """`--threads` sets them for the whole process."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    """A tiny BERT with room for the longest text and its auxiliary sentence."""
    return save_base_bert(tmp_path_factory.mktemp("base") / "tiny-bert", ASPECT_WORDS, max_position_embeddings=96)


# The naive formulas


@pytest.mark.parametrize(
    "case_id, options",
    [
        ("label-aware", {}),
        ("cg", {}),
        ("cg", {"gate_heads": "per_head", "gate_activation": "sigmoid"}),
        ("qacg", {"quasi_alpha": 0.7, "quasi_beta": 1.3, "quasi_gamma": 0.6}),
        ("qacg", {"context_heads": "per_head", "gate_bias": True, "gate_heads": "per_head"}),
        ("gpt2-mod-ln", {}),
        ("gpt2-mod-ln", {"modulation": "replace"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(map(str, value.values())) or "default",
)
def test_the_naive_formulas_have_our_result_and_gradients(case_id, options):
    case = BY_ID[case_id]
    ours = case.build(**options).double()
    theirs = naive(ours)
    assert any(type(module).__module__ == "naive" for module in theirs.modules())
    inputs = case.make_inputs(3, 9, 5)
    outputs = [model(**inputs) for model in (ours, theirs)]
    tolerance = {"rtol": 1e-9, "atol": 1e-9}
    assert_close(outputs[1].logits, outputs[0].logits, **tolerance)
    for output in outputs:
        output.logits.square().sum().backward()
    found = {name: parameter.grad for name, parameter in theirs.named_parameters()}
    for name in [name for name in found if name.endswith("both_weight")]:
        left, right = found.pop(name).chunk(2, dim=1)
        found |= {name.replace("both", "context"): left, name.replace("both", "hidden"): right}
    expected = {name: parameter.grad for name, parameter in ours.named_parameters()}
    assert set(found) == set(expected)
    for name, gradient in expected.items():
        assert_close(found[name], gradient, **tolerance, msg=lambda text, name=name: f"{name}: {text}")


# Measuring


def test_runs_are_interleaved_and_ratios_are_of_pairs(monkeypatch):
    clock, log = SimpleNamespace(now=0.0), []
    monkeypatch.setattr(measuring.time, "perf_counter", lambda: clock.now)

    def action(name: str, cost: float):
        def run() -> None:
            log.append(name)
            clock.now += cost * (1 + len(log) // 2)  # the machine becomes slower with every round

        return run

    a, b = measuring.interleaved([action("a", 2), action("b", 3)], pairs=3, warm_up=1)
    assert log == ["a", "b"] * 4
    assert a == [4, 6, 8] and b == [9, 12, 15]
    row = measuring.ratio("P0", "work", ours=b, peer=a, at_most=2)
    assert row["median"] == 2.0 and row["quartiles"] == [1.9375, 2.125] and row["met"]
    assert (row["ours"], row["peer"], row["target"], row["pairs"]) == (12, 6, "≤ 2", 3)
    assert not measuring.ratio("P0", "work", ours=b, peer=a, at_most=1.99)["met"]


def test_a_speed_up_is_the_peer_over_ours():
    row = measuring.ratio("P0", "work", ours=[1, 1, 1], peer=[3, 5, 4], at_least=4)
    assert row["median"] == 4 and row["met"] and row["target"] == "≥ 4"
    assert not measuring.ratio("P0", "work", ours=[1, 1, 1], peer=[3, 5, 4], at_least=4.1)["met"]
    without = measuring.ratio("P0", "work", ours=[1, 1, 1], peer=[3, 5, 4])
    assert without["met"] is None and without["median"] == 0.25 and without["target"] == ""


def test_peak_memory_is_that_of_the_command_alone():
    held = bytearray(b"x" * 2**28)  # a process starts with the peak of the one that starts it
    command = [sys.executable, "-I", "-S", "-c"]
    small = measuring.peak_memory([*command, "pass"])
    large = measuring.peak_memory([*command, "print(len(b'x' * 2**27))"])
    assert 2 < small < 100 and 120 < large - small < 140
    assert len(held) == 2**28
    with pytest.raises(subprocess.CalledProcessError):
        measuring.peak_memory([*command, "raise SystemExit(3)"])


def test_results_are_written_with_the_machine(tmp_path):
    arguments = SimpleNamespace(output=tmp_path / "rows.json", threads=1)
    row = measuring.result("P0", "work", [1.0, 2.0], "s")
    measuring.save(arguments, [row])
    written = json.loads(arguments.output.read_text())
    assert written["rows"] == [row]
    assert written["machine"]["torch"] == torch.__version__ and "date" in written["machine"]


def test_synthetic_texts_are_as_long_as_goemotions(base):
    lengths = [2 + len(text.split()) for text in texts.synthetic_texts(4000)]
    assert sum(texts.LENGTHS.values()) == 43410
    assert abs(sum(lengths) / 4000 - 19.3) < 0.4 and min(lengths) >= 3 and max(lengths) <= 47
    assert texts.synthetic_texts(10) == texts.synthetic_texts(10) != texts.synthetic_texts(10, seed=1)


# Each of them runs


def questions(rows: list[dict]) -> list[str]:
    assert all(row["median"] == row["median"] and row["pairs"] >= 1 for row in rows)
    return [row["question"] for row in rows]


def test_model_step_measures_every_model_and_kind(tmp_path, monkeypatch):
    trained = []

    def run_here(command) -> float:
        """In this process, for a new one takes seconds to start."""
        assert command[:2] == [sys.executable, model_step.__file__]
        assert model_step.main(command[2:]) == []
        trained.append(command[-1])
        return {"imports": 100, "stock": 300, "ours": 310, "naive": 500}[command[-1]]

    monkeypatch.setattr(model_step, "peak_memory", run_here)
    output = tmp_path / "rows.json"
    rows = model_step.main(["--size", "tiny", "--shape", "2x8", "--naive", *ONE, "--output", str(output)])
    assert json.loads(output.read_text())["rows"] == rows
    assert questions(rows) == ["P1"] * 8 + ["P2"] * 4 + ["P3"] * 8 + ["P4"] * 8
    assert trained[:4] == ["imports", "stock", "ours", "naive"]
    memory = [row for row in rows if row["work"].startswith("memory")]
    assert [row["median"] for row in memory] == [1.05, 2.0, 1.05, 1.05, 2.0, 1.05, 2.0]
    targets = {row["work"].split(",")[0]: row["target"] for row in rows if "formulas" not in row["work"]}
    assert targets["step of label-aware-bert"] == targets["memory of label-aware-bert"] == "≤ 1.03"
    assert targets["step of roberta-esa"] == "≤ 1.08" and targets["step of cg-bert"] == ""
    assert targets["forward of qacg-bert"] == "≤ 1.13" and targets["backward of qacg-bert"] == "≤ 1.16"
    assert targets["forward of cg-bert"] == targets["backward of cg-bert"] == "≤ 1.12"


def test_model_step_has_no_target_for_other_options():
    command = ["--model", "qacg-bert", "--size", "tiny", "--shape", "2x8", "--kind", "forward", *ONE]
    (row,) = model_step.main([*command, "--options", '{"context_heads": "per_head"}'])
    assert row["target"] == "" and "context_heads=per_head" in row["work"]


def test_wrapper_step():
    rows = wrapper_step.main(["--size", "tiny", "--shape", "2x8", *ONE])
    assert questions(rows) == ["P16"] * 8 and {row["target"] for row in rows} == {"≤ 1.03"}
    assert [row["work"].split(",")[0] for row in rows[:2]] == [
        "forward of label-aware over mpnet",
        "step of label-aware over mpnet",
    ]


def test_reply_generation(monkeypatch):
    monkeypatch.setitem(reply_generation.SIZES, "smallest", {**reply_generation.SIZES["smallest"], "num_emotions": 4})
    monkeypatch.setattr(reply_generation, "NEW_TOKENS", 2)
    rows = reply_generation.main(["--size", "smallest", "--shape", "2x4", "--naive", *ONE])
    assert questions(rows) == ["P5"] * 8 + ["P6"] * 2
    assert {row["target"] for row in rows} == {"≤ 1.05", "≥ 0.97", "≥ 8", ""}


def test_modulated_language_model(monkeypatch):
    monkeypatch.setattr(modulated_language_model, "NEW_TOKENS", 2)
    rows = modulated_language_model.main(["--size", "tiny", "--shape", "2x4", "--train-shape", "2x5", *ONE])
    assert questions(rows) == ["P17"] * 10
    assert [row["target"] for row in rows[:5]] == ["", "", "≥ 0.97", "≥ 1", "≤ 1.05"]
    modulators, lora = (row["median"] for row in rows[:2])
    assert lora == pytest.approx(modulators, rel=0.2)


def test_epoch_pads_to_the_longest_or_to_a_fixed_length(base, monkeypatch):
    shapes: dict[int | None, set] = {}
    train_epoch, current = epoch.train_epoch, []
    forward = torch.nn.Embedding.forward

    def noted(recipe, splits, length) -> None:
        current[:] = [length]
        train_epoch(recipe, splits, length)

    def looked_at(self, ids):
        if ids.dim() == 2 and self.num_embeddings > 1000:
            shapes.setdefault(current[0], set()).add(ids.shape[1])
        return forward(self, ids)

    monkeypatch.setattr(epoch, "train_epoch", noted)
    monkeypatch.setattr(torch.nn.Embedding, "forward", looked_at)
    rows = epoch.main(["--base-model", str(base), "--rows", "96", "--lengths", "60", "50", *ONE])
    assert questions(rows) == ["P7", "P7"] and [row["target"] for row in rows] == ["≥ 1", "≥ 2"]
    assert shapes[60] == {60} and shapes[50] == {50}
    assert len(shapes[None]) > 2 and max(shapes[None]) <= 50


def test_bulk_prediction(base):
    row, share = bulk_prediction.main(["--base-model", str(base), "--rows", "70", "--no-onnx", *ONE])
    assert row["question"] == "P8" and row["target"] == "≥ 2" and "70 synthetic texts" in row["work"]
    assert share["target"] == "≥ 0.7" and share["median"] > 0


def test_the_share_of_the_matrix_peak(monkeypatch):
    """Two products of matrices of half the size, in a twentieth of the time of a whole one: a quarter of its operations."""
    monkeypatch.setattr(bulk_prediction, "interleaved", lambda actions, pairs, warm_up: [[0.05], [1.0]])
    half = torch.ones(bulk_prediction.MATRIX // 2, bulk_prediction.MATRIX // 2)
    (share,) = bulk_prediction.share_of_peak(torch.float32, lambda: half @ half @ half, 1)
    assert share == pytest.approx(0.25 / 0.05)


def test_memory_given_back_has_no_target():
    options = ["--model", "cg-bert", "--size", "tiny", "--shape", "2x8", "--kind", "backward", *ONE]
    (kept,), (given_back,) = model_step.main(options), model_step.main([*options, "--default-memory"])
    assert kept["target"] == "≤ 1.12" and given_back["target"] == ""
    assert given_back["work"] == kept["work"] + ", freed memory given back"


def test_bulk_prediction_refuses_to_compare_other_results():
    ours = [[{"label": "joy", "score": 0.5}, {"label": "fear", "score": 0.4}]]
    bulk_prediction._check_equal(ours, [ours[0][::-1]])
    with pytest.raises(AssertionError):
        bulk_prediction._check_equal(ours, [[{"label": "joy", "score": 0.4}, {"label": "fear", "score": 0.5}]])


def test_targeted_pairs(base):
    rows = targeted_pairs.main(["--base-model", str(base), "--rows", "30", *ONE])
    assert [row["target"] for row in rows] == ["≥ 3", "≥ 1.3", "≥ 1"]


def test_dialogue_step(base):
    (row,) = dialogue_step.main(["--base-model", str(base), "--batch-size", "4", "--batches", "2", *ONE])
    assert row["target"] == "≥ 1" and row["median"] > 0


def test_time_to_quality_trains_both(base, tmp_path):
    folder = tmp_path / "goemotions"
    folder.mkdir()
    for part, count in (("train", 96), ("dev", 16), ("test", 1)):
        rows = (
            f"{number} {'fine' if number % 2 else 'bad'}\t{number % 28}\t{part}{number}\n" for number in range(count)
        )
        (folder / f"{part}.tsv").write_text("".join(rows), encoding="utf-8")
    options = ["--base-model", str(base), "--data-dir", str(tmp_path), "--epochs", "1", "--threads", "1"]
    rows = time_to_quality.main(options)
    assert [row["target"] for row in rows] == ["≥ 3", "≥ 3"] and all(row["median"] >= 0 for row in rows)


def test_time_to_quality_compares_the_first_moment_with_the_best(monkeypatch):
    figures = {
        "goemotions/baseline": [(10, 0.2, 0.5), (20, 0.4, 0.4), (30, 0.3, 0.3)],
        "goemotions/laa_ce": [(2, 0.1, 0.1), (4, 0.4, 0.2), (5, 0.6, 0.4)],
    }
    monkeypatch.setattr(
        time_to_quality,
        "trained",
        lambda name, *_: [
            (time, dict(zip(time_to_quality.METRICS, both, strict=True))) for time, *both in figures[name]
        ],
    )
    assert [row["median"] for row in time_to_quality.main(ONE)] == [20 / 4, 0]  # the second metric never gets there


def test_time_to_quality_counts_steps_alone(monkeypatch):
    clock, now = time_to_quality.Clock(), [100.0]
    monkeypatch.setattr(time_to_quality.time, "process_time", lambda: now[0])

    def after(seconds, event, **arguments):
        now[0] += seconds
        event(None, None, None, **arguments)

    metrics = {f"eval_{name}": 0.5 for name in time_to_quality.METRICS}
    clock.on_train_begin(None, None, None)
    after(3, clock.on_step_end)
    after(50, clock.on_evaluate, metrics=metrics)
    after(70, clock.on_save)
    after(4, clock.on_step_end)
    after(50, clock.on_evaluate, metrics=metrics)
    assert [seconds for seconds, _ in clock.measured] == [3, 7]


def test_bulk_memory(base, monkeypatch):
    def run_here(command) -> float:
        assert command[1:4] == ["-m", "hf_emotion", "predict"]
        invoke(*command[3:])
        return 500.0 + 10 * ("80.csv" in str(command[6]))

    monkeypatch.setattr(bulk_memory, "peak_memory", run_here)
    short, more = bulk_memory.main(["--base-model", str(base), "--rows", "20", "80", "--threads", "1"])
    assert more["median"] == 10 and more["unit"] == "MiB" and more["met"]
    assert short["median"] == 500 and "20 rows" in short["work"]


def test_startup(monkeypatch):
    assert [at_most for _, at_most in startup.COMMANDS.values()] == [0.3, 0.6, None]
    monkeypatch.setattr(startup, "COMMANDS", {"nothing": ([sys.executable, "-I", "-S", "-c", ""], 60)})
    (row,) = startup.main(ONE)
    assert 0 < row["median"] < 60 and row["met"]


@pytest.fixture(scope="module")
def stock_folders(tmp_path_factory, tokenizer) -> tuple[str, str]:
    """A stock classifier, and what it is exported to."""
    root = tmp_path_factory.mktemp("stock")
    labels = dict(enumerate(["anger", "joy", "sadness"]))
    config = BertConfig(**SIZES, vocab_size=len(tokenizer), id2label=labels, problem_type="multi_label_classification")
    BertForSequenceClassification(config).save_pretrained(root / "checkpoint")
    tokenizer.save_pretrained(root / "checkpoint")
    invoke("export", root / "checkpoint", "--output", root / "exported")
    return str(root / "checkpoint"), str(root / "exported")


def test_first_answer(monkeypatch, capsys, stock_folders):
    """Both programs run as they stand; of what they take, and of their modules, the sides are told apart."""
    checkpoint, exported = stock_folders
    seen = []

    def run_here(command, **variables) -> measuring.Spent:
        assert variables == {"OMP_NUM_THREADS": "1"}
        how, what, *rest = command[1:]
        seen.append((how, *rest))
        if how == "-m":
            assert what == "hf_emotion" and "joy" in invoke(*rest, "--top-k", 3)
            return measuring.Spent(6.0, 7.0, 500.0) if rest[1] == checkpoint else measuring.Spent(1.0, 1.25, 100.0)
        monkeypatch.setattr(sys, "argv", ["-c", *rest])
        capsys.readouterr()
        exec(what, {"__name__": "__main__"})
        assert len(json.loads(capsys.readouterr().out)[0]) == 3
        return measuring.Spent(5.0, 5.5, 400.0)

    def modules(command) -> list[str]:
        more = ["datasets", "scipy"] if command[:3] == ["-m", "hf_emotion", "predict"] else []
        return ["torch", "transformers", *more]

    monkeypatch.setattr(first_answer, "spent", run_here)
    monkeypatch.setattr(first_answer, "heavy_modules", modules)
    rows = first_answer.main(["--checkpoint", checkpoint, "--exported", exported, *ONE])
    assert [rest[:2] for rest in seen] == [("-c", checkpoint), ("-m", "predict"), ("-m", "predict")]
    assert [(row["median"], row["target"], row["met"]) for row in rows] == [
        (1.2, "≤ 1.05", False),
        (0.2, "≤ 0.3", True),
        (1.25, "≤ 1.5", True),
        (400, "", None),
        (500, "", None),
        (100, "", None),
        (2, "≤ 0", False),  # datasets and scipy, which the program does not import
        (4, "≤ 0", False),
    ]
    assert rows[-2]["work"].endswith(": datasets, scipy")


def test_modules_of_a_command():
    assert first_answer.heavy_modules(["-c", "import pyarrow, json; raise SystemExit"]) == ["pyarrow"]
    assert first_answer.heavy_modules(["-m", "platform"]) == []
    with pytest.raises(subprocess.CalledProcessError):
        first_answer.heavy_modules(["-c", "raise SystemExit(1)"])


def test_the_clients_of_the_service():
    """Each sends the next text when it has its answer; what fails is counted; the seconds are those of the requests."""
    seen = []

    async def answer(reader, writer):
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:  # the client has all its answers
                return
            length = int(head.lower().split(b"content-length: ")[1].split()[0])
            text = json.loads(await reader.readexactly(length))["inputs"]
            seen.append(text)
            await asyncio.sleep(0.02)
            status = b"500 No" if text == "b" else b"200 OK"
            writer.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 2\r\n\r\n{}")

    async def both():
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        found = await service.load(server.sockets[0].getsockname()[1], ["a", "b"], clients=3, seconds=0.3)
        server.close()
        return found

    latencies, failures, wall = asyncio.run(both())
    assert len(latencies) == len(seen) and failures == seen.count("b") > 0
    assert min(latencies) >= 0.02 and 0.3 <= wall < 5
    assert abs(seen.count("a") - seen.count("b")) <= 1


def test_the_service_against_the_stock_pipeline(monkeypatch, stock_folders):
    checkpoint, exported = stock_folders
    found = service.sides(checkpoint, exported, None)
    for name, side in found.items():
        stock = name == "the stock pipeline"
        side.per_request = [0.02] if stock else [0.01] if "without" in name else [0.005]
        side.median, side.slow = ([100.0], [200.0]) if stock else ([20.0], [50.0])
    monkeypatch.setattr(service.Side, "memory", lambda self: 300.0)
    monkeypatch.setattr(service, "distance", lambda side, texts, expected: 2e-7 + 0 * len(expected[0]))
    rows = {row["work"]: row for row in service.compare(found, checkpoint, ["so happy"])}
    assert rows["requests per second, the service, ONNX"]["median"] == 200
    ours = rows["requests per second, the service, torch, to those of the stock pipeline"]
    assert (ours["median"], ours["target"], ours["met"]) == (4.0, "≥ 3", True)
    assert rows["95th percentile, the service, torch, to that of the stock pipeline"]["median"] == 0.25
    assert rows["largest difference to the predictor alone, the service, ONNX"]["met"]


def test_growth_draws_a_sweep(base, tmp_path):
    command = ["--size", "tiny", "--quick", "--sweep", "labels", "--sweep", "rows", "--base-model", str(base)]
    rows = growth.main([*command, "--folder", str(tmp_path), *ONE])
    works = ["labels 28:", "labels 100:", "rows 8:", "rows 16:"]
    assert [" ".join(row["work"].split()[:2]) for row in rows] == works
    assert {path.name for path in tmp_path.iterdir()} == {"growth-labels.png", "growth-rows.png"}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")
def test_gpu_says_that_there_is_none(capsys):
    assert gpu.main(ONE) == [] and "no CUDA device" in capsys.readouterr().out


# All of them


class Parsed(Exception):
    pass


@pytest.mark.parametrize("full", [False, True], ids=["small", "full"])
def test_every_command_is_understood(full, monkeypatch):
    arguments = SimpleNamespace(full=full, data_dir="my data", checkpoint="a b", targeted="t", only=None)
    commands = run_all.commands(arguments)
    # Neither what the others share nor what measures models instead of speed.
    others = "abstention against_language_model measuring naive texts run_all published_sizes replies starts thresholds".split()
    others += ["few_shot", "few_shot_setfit", "label_errors", "sweep", "variants", "votes_and_weights"]
    scripts = {path.name for path in BENCHMARKS.glob("*.py") if path.stem not in others}
    long = set() if full else {"growth.py", "time_to_quality.py"}
    assert {command.split()[0] for command in commands} == scripts - long
    assert ("my data" in [word for command in commands for word in run_all.words(command, arguments)]) == full
    assert "my data" not in " ".join(commands)

    def parse_and_stop(*arguments, **options):
        measuring.parse(*arguments, **options)
        raise Parsed

    for command in commands:
        script, *options = run_all.words(command, arguments)
        module = importlib.import_module(script.removesuffix(".py"))
        monkeypatch.setattr(module, "parse", parse_and_stop)
        with pytest.raises(Parsed):
            module.main(options)


def test_run_all_writes_a_table_and_keeps_what_is_not_run_again(tmp_path, monkeypatch):
    results, medians = tmp_path / "results.json", {"startup.py": 0.2, "gpu.py": 0.5}

    def run_here(command, env) -> int:
        script, output = Path(command[1]).name, Path(command[-1])
        if script not in medians:
            return 1
        rows = [measuring.result("P11", f"{script} | x", [medians[script]] * 3, "s", at_most=0.3)]
        output.write_text(json.dumps({"machine": {"machine": "M", "date": "D"}, "rows": rows}))
        return 0

    monkeypatch.setattr(run_all.subprocess, "call", run_here)
    monkeypatch.setattr(sys, "argv", ["run_all.py", "--results", str(results)])
    with pytest.raises(SystemExit, match="failed: model_step.py"):
        run_all.main()
    assert {command.split()[0] for command in json.loads(results.read_text())} == {"startup.py", "gpu.py"}
    medians["gpu.py"] = 0.1
    (tmp_path / "NOTES.md").write_text("## Where the time goes\n")
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--only", "gpu"])
    run_all.main()
    table = (tmp_path / "RESULTS.md").read_text()
    assert "| P11 | startup.py / x | ≤ 0.3 | 0.200 s [0.200, 0.200] | met | 3 |" in table
    assert "| P11 | gpu.py / x | ≤ 0.3 | 0.100 s [0.100, 0.100] | met | 3 |" in table
    assert table.endswith("- `python benchmarks/gpu.py`: machine M, date D\n\n## Where the time goes\n")


def write_checkout(folder: Path) -> None:
    for package in ("hf_emotion", "modeling", "configs"):
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").write_text(f"PLACE = {str(folder)!r}\n")


def test_a_checkout_is_measured_with_all_of_its_own_package(tmp_path):
    """The package that is installed may be an editable one, which has `modeling` and `configs` outside `hf_emotion`."""
    write_checkout(tmp_path / "old")
    (tmp_path / "links").mkdir()
    places = run_all.package_of(tmp_path / "old", tmp_path / "links")
    code = (
        "import hf_emotion as h, hf_emotion.modeling as m, hf_emotion.configs as c; print(h.PLACE, m.PLACE, c.PLACE)"
    )
    call = [sys.executable, "-c", code]
    env = {**os.environ, "PYTHONPATH": str(places)}
    said = subprocess.run(call, env=env, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert said.split() == [str(tmp_path / "old")] * 3


def test_another_checkout_stands_beside(tmp_path, monkeypatch):
    other, here = tmp_path / "other", run_all.FOLDER.parent
    write_checkout(other)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(other)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "old"], check=True)
    commit = subprocess.run([*git, "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True).stdout
    calls = []

    def run(command, env) -> int:
        checkout = Path(command[1]).parents[1]
        assert (Path(env["PYTHONPATH"]) / "hf_emotion" / "modeling").resolve() == checkout / "modeling"
        calls.append((Path(command[1]).name, checkout))
        rows = [measuring.result("P9", "both", [2.0 if checkout == other else 1.0], "s")]
        if checkout == here:
            rows.append(measuring.result("P9", "new alone", [3.0], "s"))
        Path(command[-1]).write_text(json.dumps({"machine": {"machine": "M"}, "rows": rows}))
        return 0

    monkeypatch.setattr(run_all.subprocess, "call", run)
    results = tmp_path / "results.json"
    monkeypatch.setattr(
        sys, "argv", ["run_all.py", "--only", "gpu", "--results", str(results), "--before", str(other)]
    )
    run_all.main()
    assert calls == [("gpu.py", other), ("gpu.py", here)]
    table = (tmp_path / "RESULTS.md").read_text()
    assert "| # | work | target | before | measured |  | pairs |" in table
    assert "| P9 | both |  | 2 s (one measurement) | 1 s (one measurement) |  | 1 |" in table
    assert "| P9 | new alone |  |  | 3 s (one measurement) |  | 1 |" in table
    assert table.rstrip().endswith(f"machine M; before: {commit.strip()}")


# Published sizes


def test_published_sizes_are_those_of_the_hub():
    """Parameters of the encoders as their cards give them, in millions."""
    with torch.device("meta"):
        found = {
            name: sum(p.numel() for p in published_sizes.AutoModel.from_config(config).parameters()) / 1e6
            for name, config in published_sizes.SIZES.items()
        }
    assert {name: round(millions) for name, millions in found.items()} == {
        "google-bert/bert-base-cased": 108,
        "google-bert/bert-base-uncased": 109,
        "google-bert/bert-large-uncased": 335,
        "FacebookAI/roberta-base": 125,
        "albert/albert-base-v2": 12,
        "distilbert/distilbert-base-uncased": 66,
        "openai-community/gpt2": 124,
        "openai-community/gpt2-medium": 355,
    }


def test_a_recipe_at_its_size_trains_some_steps(monkeypatch, tmp_path):
    corpora = write_sentihood(tmp_path)
    small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = published_sizes.BertConfig(**small)
    monkeypatch.setitem(published_sizes.SIZES, "google-bert/bert-base-uncased", config)
    trained = []
    original = published_sizes.train

    def noting(recipe, folder, splits):
        trained.append((recipe, {name: len(part) for name, part in splits.items()}))
        report = original(recipe, folder, splits=splits)
        report.runs[0].train_minutes = 0.05  # of its own it may take less than can be told
        return report

    monkeypatch.setattr(published_sizes, "train", noting)
    monkeypatch.setattr(published_sizes, "ALSO", [("sentihood/qacg_aux", "google-bert/bert-large-uncased")])
    output = tmp_path / "sizes.json"
    output.write_text(
        json.dumps([{"recipe": "kept", "size of": "x"}, {"recipe": "sentihood/qacg_aux", "size of": "y"}])
    )
    published_sizes.main(
        ["--recipe", "sentihood/qacg_aux", "--data-dir", str(corpora), "--steps", "1", "--rows", "16"]
        + ["--size", "google-bert/bert-base-uncased", "--set", "use_cpu=true", "--output", str(output)]
    )
    [(recipe, rows)] = trained
    packaged = published_sizes.load_recipe("sentihood/qacg_aux").training_arguments
    assert recipe.training_arguments == {
        **packaged, "max_steps": 1, "logging_steps": 1, "report_to": "none", "use_cpu": True
    }  # fmt: skip
    assert rows["train"] > 16 and rows["validation"] == rows["test"] == 16
    written = json.loads(output.read_text())
    assert [(row["recipe"], row["size of"]) for row in written] == [
        ("kept", "x"),
        ("sentihood/qacg_aux", "y"),
        ("sentihood/qacg_aux", "google-bert/bert-base-uncased"),
    ]
    assert written[-1]["batch"] == packaged["per_device_train_batch_size"] and written[-1]["seconds"] == 3.0


# Thresholds


def test_rules_are_compared_on_rows_they_did_not_see(monkeypatch, capsys):
    generator = np.random.default_rng(0)
    logits = generator.normal([-1, -3, -5], 1.5, (800, 3))
    gold = (generator.random((800, 3)) < 1 / (1 + np.exp(-logits))).astype(int)
    scores = 1 / (1 + np.exp(-logits / 2))
    predictions = SimpleNamespace(gold=gold, probabilities=scores)
    monkeypatch.setattr(thresholds, "read_predictions", lambda run, split, multi_label: predictions)
    seen = []
    monkeypatch.setitem(thresholds.RULES, "0.3 for all", lambda gold, scores: seen.append(len(gold)) or [0.3] * 3)
    found = thresholds.compare(gold, scores)
    assert seen == [600] * 12 and {len(folds) for folds in found.values()} == {12}
    left = [rows for _, rows in RepeatedKFold(n_splits=4, n_repeats=3, random_state=0).split(gold)]
    assert found["0.3 for all"] == pytest.approx(
        [f1_score(gold[rows], scores[rows] > 0.3, average="macro", zero_division=0) for rows in left]
    )
    # What a rule sees fits it best: no rule beats the labels themselves on them.
    for rule, choose in thresholds.RULES.items():
        own = f1_score(gold, scores > np.array(choose(gold, scores)), average="macro", zero_division=0)
        best = f1_score(gold, scores > np.array(thresholds.RULES["labels"](gold, scores)), average="macro")
        assert own <= best + 1e-12, rule
    assert np.mean(found["calibrated probabilities"]) > np.mean(found["the model's probabilities"])
    thresholds.main(["runs/one", "runs/two"])
    header, _, one, two = capsys.readouterr().out.splitlines()
    assert header.split("|")[2:-1] == [f" {rule} " for rule in thresholds.RULES]
    assert one.split("|")[1].strip() == "one" and one.split("|")[2:] == two.split("|")[2:]


# Variants


def test_two_stages_multiply_the_probability_of_an_emotion_with_that_of_the_label(monkeypatch):
    train = variants.rows_of(
        ["a", "b", "c", "d"], ["joy", "neutral", "fear"], np.array([[1, 0, 0], [0, 1, 0], [0, 1, 1], [1, 0, 1]])
    )
    seen = []

    def fit(recipe, rows, texts, seed):
        seen.append((rows["text"][:], rows["labels"][:], rows.features["labels"].feature.names))
        return {"validation": np.array([[0.8, 0.3]] if len(seen) == 1 else [[0.5, 0.25]])}

    monkeypatch.setattr(variants, "fit", fit)
    scores = variants.two_stages(None, train, {"validation": ["x"]}, 0)["validation"]
    np.testing.assert_allclose(scores, [[0.4, 0.3, 0.2]], rtol=1e-6)
    assert seen == [
        (["a", "b", "c", "d"], [[0], [1], [0, 1], [0]], ["emotion", "neutral"]),
        (["a", "c", "d"], [[0], [1], [0, 1]], ["joy", "fear"]),
    ]


def test_variants_over_an_encoder_that_is_no_bert(tmp_path):
    """The packaged recipe is BERT's; the model that is trained reads the encoder at hand."""
    base = save_base_bert(tmp_path / "base", ["emotion"])
    config = DistilBertConfig(
        vocab_size=len(load_base_tokenizer(str(base))), dim=32, hidden_dim=32, n_layers=1, n_heads=2
    )
    DistilBertModel(config).save_pretrained(base)
    options = ["dataset=quickstart", "max_steps=1", "max_length=20", "use_cpu=true", "seeds=[7]"]
    command = ["--base-model", str(base), "--variant", "two stages", "--seeds", "1", "--train-fraction", "0.2"]
    [row] = variants.main([*command, *(part for option in options for part in ("--set", option))])
    assert (row["variant"], row["encoder"], row["seed"], row["settings"]) == ("two stages", "base", 7, options)


def test_layerwise_rates_of_an_encoder_that_is_no_bert():
    config = DistilBertConfig(vocab_size=9, dim=8, hidden_dim=8, n_layers=2, n_heads=2)
    model = DistilBertForSequenceClassification(config)
    arguments = SimpleNamespace(
        learning_rate=0.5, weight_decay=0.0, adam_beta1=0.9, adam_beta2=0.99, adam_epsilon=1e-8
    )
    trainer = SimpleNamespace(args=arguments, model=model, get_decay_parameter_names=lambda _: [])
    optimizer = variants.layerwise_optimizer(trainer, 0.8)
    rates = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
    layers = model.distilbert.transformer.layer
    parts = [model.classifier, layers[1], layers[0], model.distilbert.embeddings]
    for below, part in enumerate(parts):
        assert [rates[id(parameter)] for parameter in part.parameters()] == pytest.approx(
            [0.5 * 0.8**below] * len(list(part.parameters()))
        )


def test_variants(monkeypatch, tmp_path):
    """All of them run; each layer learns at its own rate, and a distilled model sees half labels, half its teacher."""
    optimizers, targets, texts_of_labels = [], [], []
    layerwise, towards, build = variants.layerwise_optimizer, variants.towards, variants.build_classifier

    def noting(trainer, decay):
        optimizers.append((trainer.model, layerwise(trainer, decay)))
        return optimizers[-1][1]

    monkeypatch.setattr(variants, "layerwise_optimizer", noting)
    monkeypatch.setattr(variants, "towards", lambda collate, v: [targets.append(v), towards(collate, v)][1])
    monkeypatch.setattr(variants, "build_classifier", lambda *a: [texts_of_labels.append(a[-1]), build(*a)][1])
    known = dict.fromkeys(variants.DESCRIPTIONS, "joy")  # a word that the tokenizer has
    monkeypatch.setattr(variants, "DESCRIPTIONS", known)
    base = str(save_base_bert(tmp_path / "base", ["emotion"]))
    command = [
        "--base-model",
        base,
        "--output",
        str(tmp_path / "rows.json"),
        "--seeds",
        "1",
        "--train-fraction",
        "0.2",
    ]
    for (
        option
    ) in "dataset=quickstart max_steps=1 max_length=20 learning_rate=0.5 weight_decay=0.1 use_cpu=true".split():
        command += ["--set", option]
    rows = variants.main(command)
    assert json.loads((tmp_path / "rows.json").read_text()) == rows
    assert [row["variant"] for row in rows] == [
        "plain", "mean of the seeds", "distilled", "label descriptions", "layer-wise rates", "two stages"
    ]  # fmt: skip
    assert rows[0]["macro_f1"] == rows[1]["macro_f1"]  # of one seed
    assert [bool(texts) for texts in texts_of_labels] == [False, False, True, False, False, False]
    [values] = targets
    assert values.shape == (rows[0]["train_rows"], 28)
    labels = values.round()  # a teacher lies between 0 and 1
    assert ((values - labels).abs() < 0.5).all() and labels.any(dim=1).all()
    [(model, optimizer)] = optimizers
    group_of = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    parameters = dict(model.named_parameters())
    assert len(group_of) == len(parameters)
    layers = model.config.num_hidden_layers
    for name, below in {
        "bert.embeddings.word_embeddings.weight": layers + 1,
        "bert.encoder.layer.0.output.dense.weight": layers,
        f"bert.encoder.layer.{layers - 1}.output.dense.bias": 1,
        "bert.score.label_embeddings": 0,
        "classifier.out_proj.weight": 0,
    }.items():
        group = group_of[id(parameters[name])]
        assert group["initial_lr"] == pytest.approx(0.5 * 0.8**below)
        if ".dense." in name:
            assert group["weight_decay"] == (0.1 if name.endswith("weight") else 0.0)
    assert [row["variant"] for row in variants.main([*command, "--variant", "layer-wise rates"])] == [
        "layer-wise rates"
    ]


def test_the_record_of_faults(tmp_path, monkeypatch):
    """Each fault leaves what it printed, failed or not; another size of it takes the place of the first, and the others stay."""
    from endurance import __main__ as faults

    def ran(command, **options):
        return SimpleNamespace(stdout=json.dumps({"words": command[3:]}), returncode=int("soak" in command[2]))

    monkeypatch.setattr(faults, "subprocess", SimpleNamespace(run=ran, PIPE=subprocess.PIPE))
    output = tmp_path / "record.json"
    with pytest.raises(SystemExit, match="failed: soak --minutes 10 --threads 16$"):
        faults.main(["--output", str(output)])
    faults.main(["--small", "--only", "bulk", "--output", str(output)])
    record = json.loads(output.read_text())
    others = [command for command in faults.FULL if not command.startswith("bulk")]
    assert sorted(record) == sorted([*others, *(command for command in faults.SMALL if command.startswith("bulk"))])
    assert [command for command, one in record.items() if not one["passed"]] == ["soak --minutes 10 --threads 16"]
    assert record["fuzz --cases 5000"]["found"] == {"words": ["--cases", "5000"]}
