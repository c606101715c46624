# SPDX-License-Identifier: Apache-2.0
"""The benchmarks: what they compare has one result, what they report is what they measured, and each of them runs."""

import asyncio
import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from model_cases import BY_ID
from sklearn.metrics import f1_score
from sklearn.model_selection import RepeatedKFold
from toolkit_helpers import ASPECT_WORDS, ROOT, save_base_bert, write_sentihood
from torch.testing import assert_close


BENCHMARKS = ROOT / "benchmarks"
sys.path.append(str(BENCHMARKS))

import bulk_prediction  # noqa: E402
import dialogue_step  # noqa: E402
import epoch  # noqa: E402
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
    faster = measuring.ratio("P0", "work", ours=[1, 1, 1], peer=[3, 5, 4], at_least=4)
    assert faster["median"] == 4 and faster["met"] and faster["target"] == "≥ 4"
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


def test_synthetic_texts_are_as_long_as_goemotions():
    lengths = [2 + len(text.split()) for text in texts.synthetic_texts(4000)]
    assert abs(sum(lengths) / 4000 - 19.3) < 0.4 and min(lengths) >= 3 and max(lengths) <= 47
    assert texts.synthetic_texts(10) == texts.synthetic_texts(10) != texts.synthetic_texts(10, seed=1)


# Each of them runs


TINY = ["--size", "tiny", "--shape", "2x8"]
OVER_A_BASE = ["--base-model", "BASE"]
RUNS = [  # module, arguments, the questions that its rows answer
    (model_step, [*TINY, "--kind", "step", "--kind", "forward", "--kind", "backward", "--naive"], "P1 P2 P3 P4"),
    (wrapper_step, TINY, "P16"),
    (reply_generation, ["--size", "smallest", "--shape", "2x4", "--naive"], "P5 P6"),
    (modulated_language_model, ["--size", "tiny", "--shape", "2x4", "--train-shape", "2x5"], "P17"),
    (bulk_prediction, [*OVER_A_BASE, "--rows", "70", "--no-onnx"], "P8"),
    (targeted_pairs, [*OVER_A_BASE, "--rows", "30"], "P9"),
    (epoch, [*OVER_A_BASE, "--rows", "96", "--lengths", "60", "50"], "P7"),
    (dialogue_step, [*OVER_A_BASE, "--batch-size", "4", "--batches", "2"], "dialogues"),
    (startup, [], "P11"),
]


@pytest.mark.parametrize(("module", "arguments", "asked"), RUNS, ids=lambda value: getattr(value, "__name__", None))
def test_a_benchmark_runs(module, arguments, asked, base, tmp_path, monkeypatch):
    monkeypatch.setitem(reply_generation.SIZES, "smallest", {**reply_generation.SIZES["smallest"], "num_emotions": 4})
    for other in (reply_generation, modulated_language_model):
        monkeypatch.setattr(other, "NEW_TOKENS", 2)
    monkeypatch.setattr(startup, "COMMANDS", {"nothing": ([sys.executable, "-I", "-S", "-c", ""], 60)})
    output = tmp_path / "rows.json"
    words = [str(base) if word == "BASE" else word for word in arguments]
    rows = module.main([*words, *ONE, "--output", str(output)])
    written = json.loads(output.read_text())
    assert written["rows"] == rows and written["machine"]["torch"] == torch.__version__
    assert {row["question"] for row in rows} == set(asked.split())
    assert all(row["median"] > 0 and row["pairs"] >= 1 for row in rows)


def test_memory_of_a_step_is_that_above_the_imports(monkeypatch):
    def run_here(command) -> float:
        """In this process, for a new one takes seconds to start."""
        assert command[:2] == [sys.executable, model_step.__file__]
        assert model_step.main(command[2:]) == []
        return {"imports": 100, "stock": 300, "ours": 310, "naive": 500}[command[-1]]

    monkeypatch.setattr(model_step, "peak_memory", run_here)
    rows = model_step.main([*TINY, "--model", "cg-bert", "--kind", "memory", "--naive", *ONE])
    assert [row["median"] for row in rows] == [1.05, 2.0]


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


def test_the_clients_of_the_service():
    """Each sends the next text when it has its answer; what fails is counted; the seconds are those of the requests."""
    seen = []

    async def answer(reader, writer):
        while head := await reader.read(2**16):
            text = json.loads(head.partition(b"\r\n\r\n")[2])["inputs"]
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


# All of them


class Parsed(Exception):
    pass


@pytest.mark.parametrize("full", [False, True], ids=["small", "full"])
def test_every_command_is_understood(full, monkeypatch):
    arguments = SimpleNamespace(full=full, data_dir="my data", checkpoint="a b", targeted="t", only=None)
    commands = run_all.commands(arguments)
    # Neither what the others share nor what measures models instead of speed.
    others = "abstention against_language_model measuring naive texts run_all published_sizes replies starts thresholds".split()
    others += ["grave_replies", "reply_reading"]
    others += ["brighter", "few_shot", "few_shot_setfit", "label_errors", "sweep", "variants", "votes_and_weights"]
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


def test_another_checkout_stands_beside(tmp_path, monkeypatch):
    other, here = tmp_path / "other", run_all.FOLDER.parent
    for package in ("hf_emotion", "modeling", "configs"):
        (other / package).mkdir(parents=True)
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


# What measures models


@pytest.mark.slow
def test_a_recipe_at_its_size_trains_some_steps(monkeypatch, tmp_path):
    small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    size = "google-bert/bert-base-uncased"
    monkeypatch.setitem(published_sizes.SIZES, size, published_sizes.BertConfig(**small))
    trained, train = [], published_sizes.train

    def noting(recipe, folder, splits):
        trained.append((recipe.training_arguments["max_steps"], {name: len(part) for name, part in splits.items()}))
        report = train(recipe, folder, splits=splits)
        report.runs[0].train_minutes = 0.05  # of its own it may take less than can be told
        return report

    monkeypatch.setattr(published_sizes, "train", noting)
    output = tmp_path / "sizes.json"
    output.write_text(json.dumps([{"recipe": name, "size of": "x"} for name in ("kept", "sentihood/qacg_aux")]))
    command = ["--recipe", "sentihood/qacg_aux", "--data-dir", str(write_sentihood(tmp_path)), "--size", size]
    published_sizes.main([*command, "--steps", "1", "--rows", "16", "--set", "use_cpu=true", "--output", str(output)])
    [(steps, rows)] = trained
    assert steps == 1 and rows["train"] > 16 and rows["validation"] == rows["test"] == 16
    written = json.loads(output.read_text())
    assert [(row["recipe"], row["size of"]) for row in written] == [
        *(("kept", "x"), ("sentihood/qacg_aux", "x"), ("sentihood/qacg_aux", size))
    ]
    assert written[-1]["batch"] > 0 and written[-1]["seconds"] == 3.0


def test_rules_are_compared_on_rows_they_did_not_see(monkeypatch):
    generator = np.random.default_rng(0)
    logits = generator.normal([-1, -3, -5], 1.5, (800, 3))
    gold = (generator.random((800, 3)) < 1 / (1 + np.exp(-logits))).astype(int)
    scores, seen = 1 / (1 + np.exp(-logits / 2)), []
    monkeypatch.setitem(thresholds.RULES, "0.3 for all", lambda gold, scores: seen.append(len(gold)) or [0.3] * 3)
    found = thresholds.compare(gold, scores)
    assert seen == [600] * 12 and {len(folds) for folds in found.values()} == {12}
    left = [rows for _, rows in RepeatedKFold(n_splits=4, n_repeats=3, random_state=0).split(gold)]
    assert found["0.3 for all"] == pytest.approx(
        [f1_score(gold[rows], scores[rows] > 0.3, average="macro", zero_division=0) for rows in left]
    )
    assert np.mean(found["calibrated probabilities"]) > np.mean(found["the model's probabilities"])


@pytest.mark.slow
def test_variants(monkeypatch, tmp_path):
    """All of them run; each layer learns at its own rate, and a distilled model sees half labels, half its teacher."""
    optimizers, targets = [], []
    layerwise, towards = variants.layerwise_optimizer, variants.towards

    def noting(trainer, decay):
        optimizers.append((trainer.model, layerwise(trainer, decay)))
        return optimizers[-1][1]

    monkeypatch.setattr(variants, "layerwise_optimizer", noting)
    monkeypatch.setattr(variants, "towards", lambda collate, v: [targets.append(v), towards(collate, v)][1])
    # A word that the tokenizer has.
    monkeypatch.setattr(variants, "DESCRIPTIONS", dict.fromkeys(variants.DESCRIPTIONS, "joy"))
    base = str(save_base_bert(tmp_path / "base", ["emotion"]))
    command = [
        "--base-model",
        base,
        "--seeds",
        "1",
        "--train-fraction",
        "0.2",
        "--output",
        str(tmp_path / "rows.json"),
    ]
    options = "dataset=quickstart max_steps=1 max_length=20 learning_rate=0.5 weight_decay=0.1 use_cpu=true"
    command += [word for option in options.split() for word in ("--set", option)]
    rows = variants.main(command)
    assert json.loads((tmp_path / "rows.json").read_text()) == rows
    names = ["plain", "mean of the seeds", "distilled", "label descriptions", "layer-wise rates", "two stages"]
    assert [row["variant"] for row in rows] == names and rows[0]["macro_f1"] == rows[1]["macro_f1"]  # of one seed
    [values] = targets
    assert ((values - values.round()).abs() < 0.5).all() and values.round().any(dim=1).all()
    [(model, optimizer)] = optimizers
    rates = {id(p): group["initial_lr"] for group in optimizer.param_groups for p in group["params"]}
    layers = model.config.num_hidden_layers
    for part, below in (
        (model.bert.embeddings, layers + 1),
        (model.bert.encoder.layer[0], layers),
        (model.classifier, 0),
    ):
        assert all(rates[id(parameter)] == pytest.approx(0.5 * 0.8**below) for parameter in part.parameters())


def test_the_record_of_faults(tmp_path, monkeypatch):
    """Each fault leaves what it printed, failed or not; another size of it takes the place of the first, and the others stay."""
    from endurance import __main__ as faults

    def ran(command, **options):
        return SimpleNamespace(stdout=json.dumps({"words": command[3:]}), returncode=int("soak" in command[2]))

    monkeypatch.setattr(faults, "subprocess", SimpleNamespace(run=ran, PIPE=subprocess.PIPE))
    output = tmp_path / "record.json"
    with pytest.raises(SystemExit, match="failed: soak --minutes 3 --threads 16$"):
        faults.main(["--output", str(output)])
    monkeypatch.setattr(faults, "FAULTS", ("bulk --rows 7", "fuzz --cases 7"))
    faults.main(["--only", "bulk", "--output", str(output)])
    record = json.loads(output.read_text())
    passed = {command: one["passed"] for command, one in record.items()}
    assert passed == {
        **{"kill_training --kills 10": True, "bulk --rows 20000 --kills 1 --processes 2": True, "bulk --rows 7": True},
        **{"soak --minutes 3 --threads 16": False, "service --minutes 2": True, "fuzz --cases 200": True},
    }
    assert record["fuzz --cases 200"]["found"] == {"words": ["--cases", "200"]}
