# SPDX-License-Identifier: Apache-2.0
"""The benchmarks: what they report is what they measured, each of them runs, and RESULTS.md is made from the records."""

import asyncio
import inspect
import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch
from toolkit_helpers import ASPECT_WORDS, ROOT, save_base_bert

from benchmarks import growth, measuring, peers, plain, predicting, run_all, training
from hf_emotion.taxonomies import GOEMOTIONS


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> str:
    """A tiny BERT with room for the longest text and its auxiliary sentence."""
    return str(save_base_bert(tmp_path_factory.mktemp("base") / "tiny-bert", ASPECT_WORDS, max_position_embeddings=96))


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
    row = measuring.ratio("topic", "work", ours=b, peer=a, at_most=2)
    assert row["median"] == 2.0 and row["quartiles"] == [1.9375, 2.125] and row["met"]
    assert (row["ours"], row["peer"], row["target"], row["pairs"]) == (12, 6, "≤ 2", 3)
    assert not measuring.ratio("topic", "work", ours=b, peer=a, at_most=1.99)["met"]
    faster = measuring.ratio("topic", "work", ours=[1, 1, 1], peer=[3, 5, 4], at_least=4)
    assert faster["median"] == 4 and faster["met"] and faster["target"] == "≥ 4"
    without = measuring.ratio("topic", "work", ours=[1, 1, 1], peer=[3, 5, 4])
    assert without["met"] is None and without["median"] == 0.25 and without["target"] == ""


def test_synthetic_texts_are_as_long_as_goemotions():
    lengths = [2 + len(text.split()) for text in predicting.synthetic_texts(4000)]
    assert abs(sum(lengths) / 4000 - 19.3) < 0.4 and min(lengths) >= 3 and max(lengths) <= 47
    assert predicting.synthetic_texts(10) == predicting.synthetic_texts(10) != predicting.synthetic_texts(10, seed=1)


ATTENTIONS = set("label-aware attention,emotion-specific attention,quasi-attention,context guidance".split(","))
RUNS = [  # function, sizes, topics of its rows
    (training.classifiers, {"size": "tiny"}, ATTENTIONS),
    (training.any_encoder, {"size": "tiny"}, {"label-aware attention over any encoder"}),
    (training.replies, {"size": "smallest"}, {"replies with emotions", "all emotions at once"}),
    (training.language_model, {"size": "tiny", "train_shape": "2x5"}, {"language model with emotions"}),
    (predicting.many_texts, {"rows": 70}, {"many texts"}),
    (predicting.targets_and_aspects, {"rows": 30}, {"targets and aspects"}),
    (predicting.start_of_the_program, {}, {"start of the program"}),
]


@pytest.mark.parametrize(("function", "sizes", "topics"), RUNS, ids=lambda value: getattr(value, "__name__", None))
def test_a_benchmark_runs(function, sizes, topics, base, monkeypatch):
    monkeypatch.setitem(training.GREEDY, "max_new_tokens", 2)
    monkeypatch.setitem(training.GREEDY, "min_new_tokens", 2)
    monkeypatch.setattr(predicting, "STARTS", {"nothing": (["-I", "-S", "-c", ""], 60)})
    taken = inspect.signature(function).parameters
    others = {"pairs": 1} | ({"base_model": base} if "rows" in sizes else {"shape": "2x8", "shapes": ["2x8"]})
    rows = function(**sizes, **{name: value for name, value in others.items() if name in taken})
    assert {row["topic"] for row in rows} == topics <= set(run_all.TOPICS)
    assert all(row["median"] > 0 and row["pairs"] >= 1 for row in rows)


@pytest.mark.parametrize("sweep", ["labels", "tokens", "aspects"])
def test_how_cost_grows(sweep, tmp_path, base, monkeypatch):
    monkeypatch.setitem(training.SIZES, "minilm", training.SIZES["tiny"])
    untrained = growth.save_untrained
    monkeypatch.setattr(growth, "save_untrained", lambda place, _, *more: untrained(place, base, *more))
    output, other = tmp_path / "growth.json", {"rows": [{"work": "what nobody measured again"}]}
    output.write_text(json.dumps({"other": other}))
    growth.main([sweep], values=[4, 8], pairs=1, threads=torch.get_num_threads(), output=output)
    kept, own = json.loads(output.read_text()).values()
    assert kept == other and [row["work"].partition(":")[0] for row in own["rows"]] == [f"{sweep} 4", f"{sweep} 8"]


def test_a_file_takes_longer_than_its_forward_passes(base, tmp_path):
    model = predicting.save_untrained(tmp_path / "model", base, "label-aware-bert")
    source = predicting.write_texts(tmp_path / "texts.parquet", 5)
    predicting.predict_timed(*map(str, (model, source, tmp_path / "found.parquet", tmp_path / "record")))
    took = measuring.recorded(tmp_path / "record")
    assert 0 < took["passes"] < took["whole"] and 100 < took["peak"] < 100_000


def test_a_row_replaces_that_of_an_older_command():
    """The pages name rows by their `work`, which must be one row's alone."""
    found = {"a.py --old": {"rows": [{"work": "x", "median": 1}]}, "b.py": {"rows": [{"work": "x"}, {"work": "y"}]}}
    measuring.keep(found, "a.py", {"rows": [{"work": "x", "median": 2}]})
    assert found == {"b.py": {"rows": [{"work": "y"}]}, "a.py": {"rows": [{"work": "x", "median": 2}]}}


def test_the_clients_of_the_service():
    """Each sends the next text when it has its answer; what fails is counted; the seconds are those of the requests."""
    seen, closed = [], asyncio.Semaphore(0)

    async def answer(reader, writer):
        while head := await reader.read(2**16):
            text = json.loads(head.partition(b"\r\n\r\n")[2])["inputs"]
            seen.append(text)
            await asyncio.sleep(0.02)
            status = b"500 No" if text == "b" else b"200 OK"
            writer.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 2\r\n\r\n{}")
        writer.close()
        await writer.wait_closed()
        closed.release()

    async def both():
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        bodies = [json.dumps({"inputs": text}).encode() for text in "ab"]
        found = await peers.load(server.sockets[0].getsockname()[1], "/predict", bodies, clients=3, seconds=0.3)
        for _ in range(3):  # what is still open when its loop ends warns in a later test
            await closed.acquire()
        server.close()
        return found

    latencies, failures, wall = asyncio.run(both())
    assert len(latencies) == len(seen) and failures == seen.count("b") > 0
    assert min(latencies) >= 0.02 and 0.3 <= wall < 5
    assert abs(seen.count("a") - seen.count("b")) <= 1


def test_sides_run_in_turn_and_those_that_fail_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(peers, "FAILED", {})
    says = "log = open(place, 'a')\ndef run():\n    log.write(name); log.flush(); print('noise')\n    return [[value]]"
    sides = {
        "o": peers.Side(says, {"name": "o", "value": 0.5}),
        "p": peers.Side(says, {"name": "p", "value": 0.25}, "o"),
        "q": peers.Side("raise SystemExit(3)", {}, "o"),
    }
    shared = {"place": str(tmp_path / "log")}
    [row] = peers.compared("bulk", "2 texts", sides, shared, pairs=2, threads=1, at_least=1.1)
    assert (tmp_path / "log").read_text() == "opopop"  # the first round warms up
    assert (row["peer"], row["pairs"], row["largest_difference"], row["target"]) == ("p", 2, 0.25, "≥ 1.1")
    assert peers.FAILED == {"q": "the process ended with 3"}


def rows_of(*medians: float, topic: str = "service", **goal) -> list[dict]:
    return [measuring.result(topic, f"work {median} | x", [median] * 3, "×", **goal) for median in medians]


def test_results_are_kept_and_the_table_shows_the_worst_row(tmp_path, monkeypatch):
    results, medians = tmp_path / "results.json", {"many_texts": [2.5, 2.0], "start_of_the_program": [0.2]}

    def run_here(name, full, threads, inputs) -> dict:
        topic, goal = (name.replace("_", " "), {"at_least": 2.2} if name == "many_texts" else {"at_most": 0.3})
        setting = {"machine": "CPU (2 CPUs, 2 threads, load 1.0)"}
        return {"machine": setting, "rows": rows_of(*medians[name], topic=topic, **goal)}

    monkeypatch.setattr(run_all, "ProcessPoolExecutor", lambda *_: ThreadPoolExecutor(1))
    monkeypatch.setattr(run_all, "run_one", run_here)
    rows = [*rows_of(1.1, 1.3, at_least=1.2), *rows_of(0.9, at_most=1)]
    service = {"command": "python -m benchmarks.peers service", "tried": "Tried: batches."}
    service |= {"rows": [row | {"peer": "litserve", "versions": "litserve 0.2.19"} for row in rows]}
    service |= {"machine": {"machine": "Other (8 CPUs, 2 threads, load 0.1)"}}
    found = {"works": {"service": service}, "not measured": {"bulk: x": "it ended with 1"}}
    (tmp_path / "peers.json").write_text(json.dumps(found))
    with pytest.raises(SystemExit, match="failed: long_file$"):
        run_all.main(["many_texts", "start_of_the_program", "long_file"], results=results)
    assert list(json.loads(results.read_text())) == ["run_all.py many_texts", "run_all.py start_of_the_program"]
    medians["start_of_the_program"] = [0.4]
    run_all.main(["start_of_the_program"], results=results)
    table = (tmp_path / "RESULTS.md").read_text().splitlines()
    tool = "| service | litserve |"
    assert set(table) > {
        "| many texts | ≥ 2.2 | work 2.0 / x | **2.000× [2.000, 2.000]** | B |",
        "| start of the program | ≤ 0.3 | work 0.4 / x | **0.400× [0.400, 0.400]** | B |",
        f"{tool} ≥ 1.2 | work 1.1 / x (of 2) | **1.100× [1.100, 1.100]** | A |",
        f"{tool} ≤ 1 | work 0.9 / x | 0.900× [0.900, 0.900] | A |",
        "Behind the goal: service: litserve.",
        "Not measured: bulk: x (it ended with 1).",
        "- service (litserve 0.2.19). Tried: batches.",
    }


def test_the_committed_table_is_up_to_date_and_short():
    table = run_all.table(*(measuring.recorded(ROOT / "benchmarks" / name) for name in ("results.json", "peers.json")))
    assert table == (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    assert len(table.encode()) <= 8192


def test_every_benchmark_takes_its_sizes():
    for name, (module, small, full) in run_all.BENCHMARKS.items():
        function = getattr({"training": training, "predicting": predicting}[module], name)
        assert set(small) | set(full) <= set(run_all.inspect.signature(function).parameters), name


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
    assert {command: one["passed"] for command, one in record.items()} == {
        **{"kill_training --kills 10": True, "bulk --rows 20000 --kills 1 --processes 2": True, "bulk --rows 7": True},
        **{"soak --minutes 3 --threads 16": False, "service --minutes 2": True, "fuzz --cases 200": True},
    }
    assert record["fuzz --cases 200"]["found"] == {"words": ["--cases", "200"]}


def test_plain_sentences_have_answers_and_stand_in_no_corpus():
    known = {"goemotions": set(GOEMOTIONS), "reviews": {"positive", "negative", "neutral", "none"}}
    known["aspects"] = known["reviews"] - {"none"} | {"any"}
    sentences = [
        (model, *one) for model, kinds in plain.SENTENCES.items() for of in kinds.values() for one in of.items()
    ]
    for model, text, answer in sentences:
        sides = {"": answer.split("/")} if model == "goemotions" else plain.items(answer)
        assert set().union(*sides.values()) <= known[model], text
        assert model != "reviews" or sides.keys() <= {"price", "quality", "service", "location", "comfort", "speed"}
        assert model != "aspects" or all(term.casefold() in text.casefold() for term in sides), text
    texts = {" ".join(re.findall(r"\w+", text.casefold())): text for _, text, _ in sentences}
    assert len(texts) == len(sentences) >= 300
    rows = (json.loads(row) for path in (ROOT / "hf_emotion" / "data").rglob("*.jsonl") for row in path.open())
    values = (value for row in rows for value in row.values() if isinstance(value, str))
    assert not texts.keys() & {" ".join(re.findall(r"\w+", value.casefold())) for value in values}


def labels(*names: str, **fields: str) -> list[dict]:
    return [{"label": name, "score": 0.9, **fields} for name in names]


@pytest.mark.parametrize(
    "model, found, answer, right, polarity",
    [
        ("goemotions", labels("joy", "anger"), "relief/joy", True, "positive"),
        ("goemotions", labels("anger", "joy"), "relief/joy", False, "negative"),
        ("goemotions", [], "neutral", False, "neutral"),
        ("reviews", labels("none", aspect="speed"), "quality positive/none", True, "neutral"),
        ("reviews", labels("negative", aspect="speed"), "speed negative", True, "negative"),
        ("reviews", labels("negative", aspect="speed"), "price negative", False, "negative"),
        ("aspects", labels("negative", start=6, end=11) + labels("neutral", start=0, end=4), "soups negative, cold any", True, "negative"),
        ("aspects", labels("negative", start=0, end=4), "soups negative, cold any", False, "negative"),
        ("aspects", labels("positive", start=5, end=10), "soups negative", False, "positive"),
        ("aspects", labels("negative", start=5, end=10) + labels("negative", start=0, end=4), "soups negative", False, "negative"),
    ],
)  # fmt: skip
def test_when_a_plain_answer_is_right(model, found, answer, right, polarity):
    assert plain.is_right(model, found, answer, "Cold soups") is right
    assert plain.polarity(model, found) == polarity
