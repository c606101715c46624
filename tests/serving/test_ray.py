# SPDX-License-Identifier: Apache-2.0
"""Ray: files, and the service with two replicas, of which one is killed."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from contextlib import contextmanager

import pyarrow
import pyarrow.parquet
import pytest
from endurance import bulk as endurance
from endurance.small_model import draw_texts
from toolkit_helpers import write_csv, write_jsonl

from hf_emotion.data.files import read_rows
from hf_emotion.inference import load_predictor
from hf_emotion.runtime.ready import for_prediction
from hf_emotion.runtime.unread import Counts
from hf_emotion.serving import ray_engine
from hf_emotion.serving.bulk import predict_file
from hf_emotion.serving.file_rows import Columns
from hf_emotion.serving.ray_engine import predict_with_ray
from hf_emotion.serving.settings import Settings
from hf_emotion.tasks.predicted_columns import Added


pytest_plugins = ["toolkit_fixtures", "endurance.fixtures"]

TEXTS = [f"I got the job{end}, {rest}" for end in "!?." for rest in ("finally", "and I am scared", "they say")]
KEY = "a-key-of-the-test"


def ask(url, body):
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers), timeout=30) as answer:
        return json.load(answer)


def wait_until(true, seconds=60):
    begin = time.monotonic()
    while not true():
        assert time.monotonic() - begin < seconds
        time.sleep(0.1)
    return time.monotonic() - begin


def test_turns_that_were_cut_are_counted_among_turns(tmp_path):
    """Of rows that hold a dialogue each: one of three turns, and one of one turn."""
    dialogues = [[{"speaker": "Ana", "utterance": "hm"}] * count for count in (3, 1)]
    cut = {
        "truncated": [[True] * 3, [False]],
        "unknown": [[0.0] * 3, [0.0]],
        "predicted_language": [[None] * 3, [None]],
    }
    answers = {"predicted_labels": [["joy"] * 3, ["joy"]], "predicted_scores": [[0.5] * 3, [0.5]], **cut}
    added, counts = Added(nested=True), {"rows": 0, "skipped": 0}
    block = pyarrow.table({"turns": dialogues}).append_column("n", [[1, 2]])
    for name, kind in zip(added.schema.names, added.schema.types, strict=True):
        block = block.append_column(name, pyarrow.array(answers[name], kind))
    source = write_jsonl(tmp_path / "in.jsonl", [{"turns": turns} for turns in dialogues])
    columns = Columns("utterance", nested=True)
    found = ray_engine._write(iter([block]), source, tmp_path / "out.jsonl", counts, columns, added, False)
    assert found == Counts(truncated=3, total=4) and counts == {"rows": 2, "skipped": 0}


def test_a_folder_with_data_may_have_the_name_of_a_ready_model(tmp_path, monkeypatch):
    from hf_emotion.serving.ray_service import _builder

    for name in ("goemotions", "run"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    asked = []
    monkeypatch.setattr(
        "hf_emotion.serving.service.build", lambda settings, replicated: asked.extend(settings.checkpoints)
    )
    _builder(Settings(checkpoints=["goemotions", "run", "someone/model"]))()
    assert asked == ["goemotions", str(tmp_path / "run"), "someone/model"]


@pytest.fixture(scope="module")
def cluster():
    """The address of a Ray cluster, and a function that lists the processes of its replicas."""
    pytest.importorskip("ray.serve", reason="Ray Serve is not installed: pip install 'hf-emotion[ray,serve]'")
    import ray

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_worker_niceness"] = "0"  # its workers would give way to everything else
    address = ray.init(num_cpus=2, log_to_driver=False, include_dashboard=False).address_info["gcs_address"]

    def replicas():
        lines = subprocess.check_output(["ps", "-ww", "-eo", "pid=,ppid=,args="], text=True).splitlines()
        rows = [line.split(None, 2) for line in lines]
        (raylet,) = [pid for pid, parent, name in rows if parent == str(os.getpid()) and "raylet/raylet" in name]
        return [int(pid) for pid, parent, name in rows if parent == raylet and name.startswith("ray::ServeReplica")]

    yield address, replicas
    ray.shutdown()


@contextmanager
def served(address, *options):
    command = [sys.executable, "-m", "hf_emotion", "serve", "goemotions", "--engine", "ray", "--port", "0", *options]
    variables = {"RAY_ADDRESS": address, "HF_EMOTION_API_KEY": KEY}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | variables) as process:
        try:
            yield process, process.stdout.readline().split()[0]
            process.terminate()
            assert process.wait(60) == 0
        finally:
            process.kill()


@pytest.mark.ray
def test_a_replica_is_killed(cluster):
    address, replicas = cluster
    from ray import serve

    def running():
        return serve.status().applications["hf-emotion"].deployments["models"].replica_states.get("RUNNING", 0)

    expected = load_predictor(for_prediction("goemotions")).predict(TEXTS, top_k=28)[0]
    counts, end = [Counter() for _ in range(8)], threading.Event()
    count = lambda kind: sum(own[kind] for own in counts)  # noqa: E731
    with served(address, "--num-replicas", "2") as (_, url):
        route = f"{url}/v1/emotion-classification"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"{url}/v1/models")

        def client(number):
            own = counts[number]
            while not end.is_set():
                which = number = (number + 1) % len(TEXTS)
                try:
                    (result,) = ask(route, {"inputs": TEXTS[which], "top_k": 28})["results"]
                except OSError:  # of the connection, and answers of 500 and more
                    own["errors"] += 1
                    time.sleep(0.05)
                    continue
                right = {item["label"]: item["score"] for item in expected[which]}
                found = {item["label"]: item["score"] for item in result["labels"]}
                own["wrong"] += found != pytest.approx(right, abs=1e-5)
                own["requests"] += 1

        threads = [threading.Thread(target=client, args=(number,), daemon=True) for number in range(8)]
        for thread in threads:
            thread.start()
        wait_until(lambda: count("requests") > 100)
        before = replicas()
        os.kill(before[0], signal.SIGKILL)
        back = wait_until(lambda: running() == 2 and len(after := replicas()) == 2 and before[0] not in after)
        again = count("requests")
        wait_until(lambda: count("requests") > again + 100)
        end.set()
        for thread in threads:
            thread.join()
    print(f"\n{sum(counts, Counter())}, two replicas again after {back:.1f} s")
    assert len(before) == 2 and count("wrong") == 0
    assert count("errors") <= 16  # those in flight at the replica that was killed
    assert "hf-emotion" not in serve.status().applications  # after SIGTERM


def test_options_of_replicas(argv, monkeypatch):
    both = ("--engine", "ray", "--max-replicas")
    for options in (("--num-replicas", 2), (*both, 3, "--num-replicas", 2), (*both, 2, "--min-replicas", 3)):
        assert argv("serve", "goemotions", *options).code == 2, options
    monkeypatch.setitem(sys.modules, "ray", None)
    done = argv("serve", "goemotions", "--engine", "ray")
    assert done.code == 1 and "pip install 'hf-emotion[ray,serve]'" in done.err


@pytest.mark.ray
@pytest.mark.timeout(600)
def test_files_are_written_as_by_the_local_engine(cluster, predictor, tmp_path):
    source = endurance.write_source(tmp_path / "in.csv", draw_texts(predictor, 199), 9000)
    counts = predict_file(predictor, source, tmp_path / "local.csv", on_bad_rows="skip", progress=False)
    assert predict_with_ray(predictor, source, tmp_path / "ray.csv", workers=2, on_bad_rows="skip") == counts
    assert (tmp_path / "ray.csv").read_bytes() == (tmp_path / "local.csv").read_bytes()

    predict_file(predictor, source, tmp_path / "in.parquet", on_bad_rows="skip", top_k=1, progress=False)
    table = pyarrow.parquet.read_table(tmp_path / "in.parquet").select(["id", "text", "note"])
    table = table.append_column("day", pyarrow.array(["2026-01-31"] * len(table)))  # Arrow would read a time
    pyarrow.parquet.write_table(table, tmp_path / "in.parquet")
    write_jsonl(tmp_path / "in.jsonl", table.to_pylist())
    for ending in ("parquet", "jsonl"):
        options = {"on_bad_rows": "skip", "top_k": 2}
        predict_file(predictor, tmp_path / f"in.{ending}", tmp_path / f"a.{ending}", progress=False, **options)
        predict_with_ray(predictor, tmp_path / f"in.{ending}", tmp_path / f"b.{ending}", **options)
        a, b = ([row for _, row in read_rows(tmp_path / f"{name}.{ending}")] for name in "ab")
        scores = [[score for row in rows for score in row.pop("predicted_scores") or []] for rows in (a, b)]
        assert a == b
        assert scores[0] == pytest.approx(scores[1], abs=1e-6)  # other batches


@pytest.mark.ray
@pytest.mark.timeout(600)
def test_errors_of_files(cluster, predictor, tmp_path):
    source = write_csv(tmp_path / "in.csv", ["text", "n"], [["sun", "1"], ["", "2"]])
    (tmp_path / "in.xlsx").touch()
    output = tmp_path / "out.csv"
    for error, message, places, options in (
        (ValueError, "in.csv: the text is empty or no string: ''", (source, output), {}),
        (ValueError, "no column 'comment'; the columns are", (source, output), {"text_column": "comment"}),
        (ValueError, "Ray reads no Excel files: save .*in.xlsx as CSV", (tmp_path / "in.xlsx", output), {}),
        (FileExistsError, "the output .*in.csv exists", (source, source), {}),
        (FileNotFoundError, "no such file", (tmp_path / "no.csv", output), {}),
    ):
        with pytest.raises(error, match=message):
            predict_with_ray(predictor, *places, **options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", "in.xlsx"]
