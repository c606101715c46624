# SPDX-License-Identifier: Apache-2.0
"""
Bulk prediction: SIGKILL at random moments, several processes, remote paths, Ray; every row once, in its place. And files as table
programs want them: wide columns, all scores, Excel, other encodings, and results as pandas has them.
"""

import contextlib
import datetime
import errno
import gzip
import json
import logging
import multiprocessing
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import fsspec
import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
from endurance import bulk as endurance
from endurance.small_model import draw_texts, save_small_classifier
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator
from toolkit_helpers import files_in, invoke, write_csv, write_jsonl
from typer.testing import CliRunner

from hf_emotion import EmotionFeatures, Predictor, summarize
from hf_emotion.cli import app
from hf_emotion.data.files import read_rows
from hf_emotion.inference import load_predictor
from hf_emotion.io.files import locking
from hf_emotion.io.paths import shown
from hf_emotion.runtime.ready import for_prediction
from hf_emotion.serving import bulk
from hf_emotion.tasks.results import Results


pytest_plugins = ["toolkit_fixtures", "endurance.fixtures"]
pytestmark = pytest.mark.usefixtures("single_thread")

forks = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork on this system")
FAULTS = ("lost", "double", "disordered", "different")
PARTS = {"rows_per_part": 50}
predict_file = partial(bulk.predict_file, progress=False)


@pytest.fixture(scope="module")
def texts(predictor) -> list[str]:
    return draw_texts(predictor, 199)


@pytest.fixture
def memory():
    files = fsspec.filesystem("memory")
    files.store.clear()
    yield files
    files.store.clear()


@pytest.fixture
def source(texts, tmp_path) -> Path:
    return write_csv(tmp_path / "in.csv", ["text"], [[text] for text in texts])


def assert_whole(predictor, source: Path, output: Path) -> None:
    """It holds what a job in one part writes. Scores differ in the last bits with the batch that a text is in."""
    predict_file(predictor, source, output.with_name("whole.csv"))
    for (_, one), (_, other) in zip(read_rows(output), read_rows(output.with_name("whole.csv")), strict=True):
        assert one.keys() == other.keys()
        for name in ("predicted_scores", "rejection_score"):
            ours, theirs = ([float(score) for score in row.pop(name, "").split("|") if score] for row in (one, other))
            assert ours == pytest.approx(theirs, abs=2e-4)
        assert one == other


@contextlib.contextmanager
def stopped(before: str):
    """A job that is killed before it joins or removes its parts."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(f"hf_emotion.serving.bulk._Parts.{before}", lambda *arguments: 1 / 0)
        yield


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(endurance, "ROWS_PER_PART", 500)
    monkeypatch.setattr(endurance, "predict_file", partial(predict_file, rows_per_part=500))


@forks
@pytest.mark.parametrize("processes", [1, (2, 3, 1)], ids=["one", "several"])
def test_every_row_once_whatever_is_killed(processes, small_parts, caplog):
    caplog.set_level(logging.ERROR, "hf_emotion")
    found = endurance.run(4000, 2, processes, forked=True, seed=4)
    assert found["exit_code"] == 0 and found["kills"]
    assert [found[name] for name in FAULTS] == [0, 0, 0, 0] and found["files_left"] == []


@forks
def test_two_processes_write_what_one_does(predictor, texts, tmp_path, small_parts, caplog):
    source = endurance.write_source(tmp_path / "in.csv", texts, 3000)
    predict_file(predictor, source, tmp_path / "one.csv", on_bad_rows="skip")
    (message,) = [record.getMessage() for record in caplog.records if "no valid text" in record.getMessage()]
    assert message.startswith("3 of 3000 rows are malformed or have no valid text and stay without a prediction")
    assert message.endswith("the first: line 2001")  # two lines a row, and the header
    for code in (0, 1):  # both fail together where an output stands
        forked = endurance.Forked(predictor, source, tmp_path / "two.csv", processes=2)
        for process in forked.processes:
            process.join(120)
        assert [process.exitcode for process in forked.processes] == [code] * 2
        assert (tmp_path / "two.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()
        assert set(files_in(tmp_path)) == {"in.csv", "one.csv", "two.csv"}


def test_a_job_that_still_runs(predictor, source, texts, tmp_path):
    """Its launcher was killed, it was not: a second start must not meet it."""
    with stopped("join"):
        predict_file(predictor, source, tmp_path / "out.csv", **PARTS)
    with locking(tmp_path / "out.csv.parts", "taken"):
        with pytest.raises(FileExistsError, match="another process works on .*out.csv.parts: wait"):
            predict_file(predictor, source, tmp_path / "out.csv", **PARTS)
    assert predict_file(predictor, source, tmp_path / "out.csv", **PARTS)["rows"] == len(texts)


class TestEnds:
    def test_killed_between_the_output_and_the_removal_of_the_parts(self, predictor, source, tmp_path):
        with stopped("remove"):
            predict_file(predictor, source, tmp_path / "out.csv")
        written = (tmp_path / "out.csv").read_bytes()
        assert predict_file(predictor, source, tmp_path / "out.csv")["rows"] == 199
        assert (tmp_path / "out.csv").read_bytes() == written
        assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", "out.csv"]

    def test_an_output_beside_parts_that_are_not_all(self, predictor, source, tmp_path):
        with stopped("join"):
            predict_file(predictor, source, tmp_path / "out.csv", **PARTS)
        (tmp_path / "out.csv.parts" / "000002.parquet").unlink()
        (tmp_path / "out.csv").write_text("mine")
        with pytest.raises(FileExistsError, match="the output .* exists: .*--overwrite"):
            predict_file(predictor, source, tmp_path / "out.csv", **PARTS)
        assert (tmp_path / "out.csv").read_text() == "mine"

    def test_an_output_that_appears_during_the_job(self, predictor, source, tmp_path):
        output, warn = tmp_path / "out.csv", type(predictor).warn_unread
        for _ in range(2):  # the second call must not take it for its own
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(type(predictor), "warn_unread", lambda *a: (output.write_text("mine"), warn(*a)))
                with pytest.raises(FileExistsError, match=r"out\.csv (appeared meanwhile|exists)"):
                    predict_file(predictor, source, output, rows_per_part=50)
            assert output.read_text() == "mine"
        output.unlink()
        assert predict_file(predictor, source, output, rows_per_part=50)["rows"] == 199
        assert not (tmp_path / "out.csv.parts").exists()

    def test_a_label_with_the_separator_of_labels(self, checkpoint, source, tmp_path):
        """Two labels and one label of two words looked alike in CSV."""
        own = Predictor(checkpoint, device="cpu")
        own.labels[0] = "joy|love"
        with pytest.raises(ValueError, match=r"a label holds '\|'.*\.jsonl"):
            predict_file(own, source, tmp_path / "out.csv")
        predict_file(own, source, tmp_path / "out.jsonl")

    @pytest.mark.parametrize("step", ["pyarrow.parquet.write_table", "hf_emotion.serving.bulk._merge"])
    def test_a_full_disk(self, predictor, source, tmp_path, monkeypatch, step):
        full = mock.Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
        with mock.patch(step, full), pytest.raises(OSError, match="No space left") as caught:
            predict_file(predictor, source, tmp_path / "out.csv", **PARTS)
        assert caught.value.errno == errno.ENOSPC and not (tmp_path / "out.csv").exists()
        predict_file(predictor, source, tmp_path / "out.csv", **PARTS)
        assert_whole(predictor, source, tmp_path / "out.csv")

    def test_a_damaged_part_is_predicted_again(self, predictor, source, tmp_path, caplog):
        with stopped("join"):
            predict_file(predictor, source, tmp_path / "out.csv", **PARTS)
        part = tmp_path / "out.csv.parts" / "000001.parquet"
        part.write_bytes(part.read_bytes()[:100])
        predict_file(predictor, source, tmp_path / "out.csv", **PARTS)
        assert "000001.parquet is damaged" in caplog.text
        assert_whole(predictor, source, tmp_path / "out.csv")

    def test_other_files_where_parts_go(self, predictor, source, tmp_path):
        (tmp_path / "out.csv.parts").mkdir()
        (tmp_path / "out.csv.parts" / "mine.txt").write_text("mine")
        with pytest.raises(FileExistsError, match="out.csv.parts holds other files"):
            predict_file(predictor, source, tmp_path / "out.csv")
        assert (tmp_path / "out.csv.parts" / "mine.txt").read_text() == "mine"


class TestOutputs:
    def test_formulas_are_escaped_where_this_is_asked_for(self, predictor, tmp_path, argv, checkpoint):
        source = write_jsonl(tmp_path / "in.jsonl", [{"text": "sun", "=a": "=1+1"}, {"text": "day", "=a": "-2"}])
        written = []
        for more in ([], ["--escape-formulas", "--overwrite"]):
            done = argv("predict", checkpoint, "--input", source, "--output", tmp_path / "out.csv", *more)
            assert done.code == 0, done.err
            written.append((tmp_path / "out.csv").read_text())
        plain, safe = written
        assert "'" not in plain and all(cell in safe for cell in ("'=a", "'=1+1", "'-2"))

    def test_lists_and_objects_in_csv_are_json(self, predictor, tmp_path):
        rows = [
            {"text": "sun", "tags": ["a", None], "by": {"name": "Zoë", "old": True}},
            {"text": "day", "tags": [], "by": None},
        ]
        predict_file(predictor, write_jsonl(tmp_path / "in.jsonl", rows), tmp_path / "out.csv")
        found = [row for _, row in read_rows(tmp_path / "out.csv")]
        assert [json.loads(found[0][name]) for name in ("tags", "by")] == [["a", None], {"name": "Zoë", "old": True}]
        assert [found[1][name] for name in ("tags", "by")] == ["[]", ""]

    def test_excel_loses_nothing(self, predictor, tmp_path):
        """Ids of 19 digits became equal; zones, bytes and half characters ended the job after all predictions."""
        zoned = datetime.datetime(2026, 11, 2, 0, 30, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))
        rows = [
            {"text": "sun", "id": 2**62, "at": zoned, "day": datetime.date(1850, 1, 2), "raw": b"\xff"},
            {"text": "day\uffff", "id": 2**62 + 1, "at": None, "day": datetime.date(2026, 1, 2), "raw": None},
        ]
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "in.parquet")
        predict_file(predictor, tmp_path / "in.parquet", tmp_path / "out.xlsx")
        found = [[*row.values()][:5] for _, row in read_rows(tmp_path / "out.xlsx")]
        assert found == [
            ["sun", str(2**62), "2026-11-02T00:30:00+01:00", "1850-01-02", "b'\\xff'"],
            ["day\ufffd", str(2**62 + 1), None, datetime.datetime(2026, 1, 2), None],
        ]

    def test_what_excel_does_not_hold(self, predictor, tmp_path, monkeypatch):
        monkeypatch.setattr(predictor, "of_items", lambda *arguments: 1 / 0)
        monkeypatch.setattr("hf_emotion.serving.file_rows.MOST_ROWS", 3)
        long, many = [{"text": "sun", "note": "x" * 32_768}], [{"text": "sun"}] * 3
        wide = [{"text": "sun", **dict.fromkeys(map(str, range(2**14 - 1)))}]
        for rows, message in ((long, "line 1: .*32,767 characters"), (many, "line 3: .*2 rows"), (wide, "16,384 col")):
            with pytest.raises(ValueError, match=message):
                predict_file(predictor, write_jsonl(tmp_path / "in.jsonl", rows), tmp_path / "out.xlsx")

    @pytest.mark.parametrize("overwrite", [False, True])
    def test_a_folder(self, predictor, source, tmp_path, monkeypatch, overwrite):
        monkeypatch.setattr(predictor, "of_items", lambda *arguments: 1 / 0)
        (tmp_path / "out.csv").mkdir()
        with pytest.raises(IsADirectoryError, match="the output .*out.csv is a folder: name a file"):
            predict_file(predictor, source, tmp_path / "out.csv", overwrite=overwrite)


class TestSurrogates:
    ROWS = ['{"text": "sun"}', '{"text": "\\ud800"}', '{"text": "day", "note": "\\ud800"}']

    @pytest.fixture
    def source(self, tmp_path) -> Path:
        (tmp_path / "in.jsonl").write_text("\n".join(self.ROWS) + "\n")
        return tmp_path / "in.jsonl"

    def test_in_a_text(self, predictor, source, tmp_path):
        output = tmp_path / "out.jsonl"
        with pytest.raises(ValueError, match="in.jsonl, line 2: the text is empty or no string"):
            predict_file(predictor, source, output)
        assert predict_file(predictor, source, output, on_bad_rows="skip")["skipped"] == 1
        rows = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
        given = list(map(json.loads, self.ROWS))
        assert [{k: row[k] for k in own} for row, own in zip(rows, given, strict=True)] == given
        assert rows[1]["predicted_labels"] is None and rows[2]["predicted_labels"] is not None

    @pytest.mark.parametrize("ending", ["csv", "parquet"])
    def test_in_what_the_output_cannot_hold(self, predictor, source, tmp_path, ending):
        with pytest.raises(ValueError, match="in.jsonl"):
            predict_file(predictor, source, tmp_path / f"out.{ending}", on_bad_rows="skip")
        assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


class TestRemote:
    @pytest.mark.parametrize("ending", ["jsonl", "parquet", "csv.gz"])
    def test_from_and_to(self, predictor, texts, memory, tmp_path, ending):
        frame, local = pd.DataFrame({"text": texts, "n": [*map(str, range(199))]}), tmp_path / f"in.{ending}"
        if ending == "parquet":
            frame.to_parquet(local)
        elif ending == "jsonl":
            frame.to_json(local, orient="records", lines=True)
        else:
            frame.to_csv(local, index=False)
        memory.put_file(str(local), f"/data/in.{ending}")
        predict_file(predictor, local.as_uri(), tmp_path / f"out.{ending}")
        predict_file(predictor, f"memory://data/in.{ending}", f"memory://data/out.{ending}")
        contents = memory.cat_file(f"/data/out.{ending}"), (tmp_path / f"out.{ending}").read_bytes()
        first, second = map(gzip.decompress, contents) if ending.endswith(".gz") else contents  # gzip keeps the time
        assert first == second
        assert sorted(memory.find("/")) == [f"/data/in.{ending}", f"/data/out.{ending}"]
        with pytest.raises(FileExistsError, match="the output memory://data/out"):
            predict_file(predictor, local, f"memory://data/out.{ending}")

    def test_goes_on_from_remote_parts(self, predictor, source, memory, tmp_path, caplog):
        memory.put_file(str(source), "/data/in.csv")
        job = partial(predict_file, predictor, "memory://data/in.csv", "memory://data/out.csv", **PARTS)
        with stopped("join"):
            job()
        memory.rm("/data/out.csv.parts/000001.parquet")
        job()
        assert "resuming: 149 of 199 rows" in caplog.text
        predict_file(predictor, source, tmp_path / "out.csv", **PARTS)
        assert memory.cat_file("/data/out.csv") == (tmp_path / "out.csv").read_bytes()

    @pytest.mark.parametrize("words", [1, 100_000])
    def test_a_source_that_changed_in_secret(self, predictor, tmp_path, monkeypatch, words):
        """Its size and its time are the same."""
        source, output = tmp_path / "in.jsonl", tmp_path / "out.csv"
        source.write_text(json.dumps({"text": "sun " * words}) + "\n")
        time = source.stat().st_mtime_ns
        monkeypatch.setattr("hf_emotion.serving.bulk.predict_rows", lambda *arguments: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            predict_file(predictor, source, output)
        source.write_text(json.dumps({"text": "day " * words}) + "\n")
        os.utime(source, ns=(time, time))
        with pytest.raises(FileExistsError, match="parts of another job"):
            predict_file(predictor, source, output)

    def test_a_source_on_the_web_that_changed(self, tmp_path):
        """fsspec's key of an address never changes."""
        found = []
        for tag in ("one", "two"):
            info = {"size": 9, "ETag": tag}
            fs = SimpleNamespace(info=lambda path, info=info: info, ukey=lambda path: "same")
            with mock.patch("hf_emotion.serving.bulk.filesystem", lambda path, fs=fs: (fs, path)):
                found.append(bulk._identity("https://example.org/in.csv"))
        assert found[0] != found[1]

    @pytest.mark.parametrize("remote", [False, True])
    def test_a_source_that_changes_during_the_job(self, predictor, memory, tmp_path, monkeypatch, remote):
        """Its rows would get the predictions of others."""
        place = "memory:/" if remote else tmp_path
        source, output = f"{place}/in.csv", f"{place}/out.csv"
        write = (lambda text: memory.pipe_file("/in.csv", text)) if remote else Path(source).write_bytes
        write(b"text\nsun\nday\n")
        compute = predictor.of_items

        def replaced(*arguments):
            write(b"text\nday\nsun !\n")
            return compute(*arguments)

        monkeypatch.setattr(predictor, "of_items", replaced)
        with pytest.raises(ValueError, match="in.csv changed while it was predicted"):
            predict_file(predictor, source, output)
        assert not (memory.exists("/out.csv") if remote else Path(output).exists())

    @pytest.mark.parametrize("content", [b"text\nday\nsun\n", b"text\nday\n"])
    def test_a_source_that_changes_while_parts_are_joined(self, predictor, tmp_path, monkeypatch, content):
        source, output, merge = tmp_path / "in.csv", tmp_path / "out.csv", bulk._merge
        source.write_bytes(b"text\nsun\nday\n")
        monkeypatch.setattr(bulk, "_merge", lambda *arguments: (source.write_bytes(content), merge(*arguments)))
        with pytest.raises(ValueError, match="in.csv changed while it was predicted"):
            predict_file(predictor, source, output)
        assert not output.exists()

    @pytest.mark.parametrize("name", ["~/out.csv", "a::b.csv"])
    def test_names_that_mean_something_elsewhere(self, predictor, tmp_path, monkeypatch, name):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        (tmp_path / "~").mkdir()
        assert predict_file(predictor, write_csv(tmp_path / "in.csv", ["text"], [["sun"]]), name)["rows"] == 1
        assert Path(name).is_file() and not Path(f"{name}.parts").exists() and not (tmp_path / "home").exists()

    def test_errors(self, predictor, memory, tmp_path, monkeypatch):
        with pytest.raises(FileNotFoundError, match="no such file: memory://data/in.csv"):
            next(read_rows("memory://data/in.csv"))
        (tmp_path / "in.parquet").mkdir()  # as Spark writes it
        with pytest.raises(FileNotFoundError, match="no such file: .*in.parquet"):
            predict_file(predictor, tmp_path / "in.parquet", tmp_path / "out.csv")
        with pytest.raises(ValueError, match="Protocol not known: nonsense"):
            next(read_rows("nonsense://x/in.csv"))
        monkeypatch.setitem(sys.modules, "s3fs", None)
        monkeypatch.delitem(fsspec.registry.target if hasattr(fsspec.registry, "target") else {}, "s3", raising=False)
        with pytest.raises(ModuleNotFoundError, match="s3://bucket/in.csv needs another package: .*s3fs"):
            predict_file(predictor, "s3://bucket/in.csv", tmp_path / "out.csv")

    def test_no_secret_in_messages(self):
        assert shown("https://user:secret@host/in.csv?token=secret") == "https://host/in.csv"


@pytest.mark.slow
def test_torchrun(checkpoint, predictor, texts, tmp_path):
    source = endurance.write_source(tmp_path / "in.csv", texts, 9000)
    launcher = [sys.executable, *"-m torch.distributed.run --standalone --nproc-per-node 2 -m hf_emotion".split()]
    command = ["predict", checkpoint, "--input", source, "--output", tmp_path / "two.csv", "--on-bad-rows", "skip"]
    done = subprocess.run([*launcher, *map(str, command)], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"9000 rows written to {tmp_path / 'two.csv'}, 9 without a prediction"]
    predict_file(predictor, source, tmp_path / "one.csv", on_bad_rows="skip")
    assert (tmp_path / "two.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()


class TestRay:
    def test_only_torch_models_go_to_the_gpu(self, monkeypatch):
        from hf_emotion.serving.ray_engine import _Worker

        monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(get=lambda reference: reference))
        monkeypatch.setattr("torch.cuda.is_available", lambda: True)
        for predictor in (SimpleNamespace(model=SimpleNamespace(takes_arrays=True)), SimpleNamespace()):
            assert _Worker([predictor], None, None, "error", "in.csv").predictor is predictor

    def test_without_ray(self, checkpoint, tmp_path, argv, monkeypatch):
        write_csv(tmp_path / "in.csv", ["text"], [["sun"]])
        for name in ("ray", "ray.data"):
            monkeypatch.setitem(sys.modules, name, None)
        files = ("--input", tmp_path / "in.csv", "--output", tmp_path / "out.csv")
        for arguments, code, said in (
            ((*files, "--engine", "ray"), 1, "pip install 'hf-emotion[ray]'"),
            ((*files, "--workers", "2"), 2, "--workers"),
            (("sun", "--engine", "ray"), 2, "--engine ray needs --input"),
        ):
            done = argv("predict", checkpoint, *arguments)
            assert done.code == code and said in done.err


class TestWideFiles:
    @pytest.mark.parametrize("ending", ["csv", "parquet", "xlsx", "jsonl"])
    def test_a_column_for_each_label(self, predictor, texts, source, tmp_path, ending):
        output = tmp_path / f"out.{ending}"
        predict_file(predictor, source, output, layout="wide", prefix="p_", rows_per_part=16)
        readers = {"csv": pd.read_csv, "parquet": pd.read_parquet, "xlsx": pd.read_excel}
        found = pd.read_json(output, lines=True) if ending == "jsonl" else readers[ending](output)
        columns = [f"p_probability_{label}" for label in predictor.labels]
        np.testing.assert_allclose(found[columns].to_numpy(float), predictor.probabilities(texts), atol=1e-4)
        expected = [[one["label"] for one in result] for result in predictor(texts)]
        decisions = found[[f"p_decision_{label}" for label in predictor.labels]].to_numpy(bool)
        chosen = [[label for label, flag in zip(predictor.labels, row, strict=True) if flag] for row in decisions]
        assert list(map(set, chosen)) == list(map(set, expected))
        assert "p_predicted_labels" not in found and not found["p_truncated"].all()

    def test_a_regression_has_a_column_for_each_value(self, texts, source, tmp_path):
        folder = save_small_classifier(tmp_path / "values", problem_type="regression", value_range=[0, 3])
        values = Predictor(folder, device="cpu")
        predict_file(values, source, tmp_path / "out.parquet", layout="wide")
        found = pd.read_parquet(tmp_path / "out.parquet")
        columns = [f"value_{label}" for label in values.labels]
        assert found.columns.tolist() == ["text", *columns, "truncated", "unknown", "predicted_language"]
        np.testing.assert_allclose(found[columns], values.probabilities(texts), atol=1e-5)
        for data in (tmp_path / "out.parquet", texts):
            means = summarize(data, values).to_frame().set_index("label")["mean"]
            np.testing.assert_allclose(means[values.labels], values.probabilities(texts).mean(axis=0), atol=1e-5)

    def test_all_scores(self, predictor, texts, source, tmp_path):
        predict_file(predictor, source, tmp_path / "out.csv", all_scores=True)
        rows = pd.read_csv(tmp_path / "out.csv")["all_scores"].map(json.loads)
        found = [[row[label] for label in predictor.labels] for row in rows]
        np.testing.assert_allclose(found, predictor.probabilities(texts), atol=1e-4)

    def test_a_skipped_row_has_empty_cells(self, predictor, tmp_path):
        (tmp_path / "in.jsonl").write_text('{"text": "good day"}\n{"text": null}\n', encoding="utf-8")
        output = tmp_path / "out.parquet"
        predict_file(predictor, tmp_path / "in.jsonl", output, on_bad_rows="skip", layout="wide")
        assert pd.read_parquet(output)["probability_joy"].isna().tolist() == [False, True]

    def test_a_taken_name_asks_for_a_prefix(self, predictor, source, tmp_path):
        first = tmp_path / "first.csv"
        predict_file(predictor, source, first)
        with pytest.raises(ValueError, match="--prefix"):
            predict_file(predictor, first, tmp_path / "second.csv")
        predict_file(predictor, first, tmp_path / "second.csv", prefix="new_")
        found = pd.read_csv(tmp_path / "second.csv")
        assert found["new_predicted_labels"].equals(found["predicted_labels"])

    def test_another_encoding(self, predictor, tmp_path):
        (tmp_path / "in.csv").write_bytes("text\nthe day is “good”\n".encode("cp1252"))
        with pytest.raises(ValueError, match="--encoding cp1252"):
            predict_file(predictor, tmp_path / "in.csv", tmp_path / "out.csv")
        predict_file(predictor, tmp_path / "in.csv", tmp_path / "out.csv", encoding="cp1252")
        assert "“good”" in (tmp_path / "out.csv").read_text(encoding="utf-8")
        with pytest.raises(ValueError, match="`encoding` 'nonsense' is unknown"):
            predict_file(predictor, tmp_path / "in.csv", tmp_path / "no.csv", encoding="nonsense")

    def test_excel_keeps_texts_that_look_like_formulas(self, predictor, tmp_path):
        openpyxl = pytest.importorskip("openpyxl")
        (tmp_path / "in.jsonl").write_text('{"text": "=1+1 good day", "n": 7}\n', encoding="utf-8")
        predict_file(predictor, tmp_path / "in.jsonl", tmp_path / "mid.xlsx")
        cell = openpyxl.load_workbook(tmp_path / "mid.xlsx").active["A2"]
        assert (cell.value, cell.data_type) == ("=1+1 good day", "s")
        predict_file(predictor, tmp_path / "mid.xlsx", tmp_path / "out.jsonl", prefix="b_")
        row = json.loads((tmp_path / "out.jsonl").read_text())
        assert row["n"] == 7 and row["text"] == "=1+1 good day"


class TestCommand:
    def rows(self, checkpoint, source, *options) -> list[list[str]]:
        return [line.split(",") for line in invoke("predict", checkpoint, "--input", source, *options).splitlines()]

    def test_writes_to_standard_output(self, checkpoint, source, predictor, texts):
        rows = self.rows(checkpoint, source)
        assert rows[0][:2] == ["text", "predicted_labels"]
        expected = ["|".join(one["label"] for one in result) for result in predictor(texts)]
        assert [row[1] for row in rows[1:]] == expected

    def test_thresholds(self, checkpoint, source, predictor, texts):
        rows = self.rows(checkpoint, source, "--threshold", "joy=0.9", "--threshold", "0.1", "--columns", "wide")
        scores = predictor.probabilities(texts)
        for label, limit in (("joy", 0.9), ("fear", 0.1)):
            column = rows[0].index(f"decision_{label}")
            found = [row[column] == "true" for row in rows[1:]]
            assert found == (scores[:, predictor.labels.index(label)] > limit).tolist()

    def test_thresholds_are_those_of_the_labels_below_a_taxonomy(self):
        model = ["predict", "goemotions", "I am so happy", "--taxonomy", "ekman"]
        assert "joy" in invoke(*model) and "joy" not in invoke(*model, "--threshold", "joy=1", "--threshold", "0.9")

    @pytest.mark.parametrize("threshold", ["joyy=0.3", "high", "joy=1.5"])
    def test_wrong_thresholds(self, checkpoint, source, threshold):
        done = CliRunner().invoke(app, ["predict", str(checkpoint), "--input", str(source), "--threshold", threshold])
        assert done.exit_code == 2 and "--threshold" in done.output


class TestPython:
    def test_missing_texts_may_be_skipped(self, predictor, caplog):
        series = pd.Series(["good day", None, float("nan"), " "], index=list("abcd"))
        with pytest.raises(ValueError, match="text 2 of 4"):
            predictor(series)
        with caplog.at_level(logging.WARNING):
            found = predictor(series, on_bad="skip")
        assert found == [predictor(["good day"])[0], None, None, None]
        assert "3 of 4 texts" in caplog.text
        frame = found.to_frame()
        assert frame.index.tolist() == list("abcd") and frame["labels"].isna().tolist() == [False, True, True, True]

    def test_all_scores_are_ready_for_json(self, predictor, texts):
        found = json.loads(json.dumps(predictor(texts, all_scores=True)))
        scores = [[one["scores"][label] for label in predictor.labels] for one in found]
        np.testing.assert_allclose(scores, predictor.probabilities(texts))
        assert [one["labels"] for one in found] == predictor(texts)
        assert set(found[0]) == {"labels", "scores", "truncated", "unknown", "language"}
        frame = predictor(texts, all_scores=True).to_frame()
        assert len(frame) == len(texts) and set(predictor.labels) < set(frame.columns)

    def test_a_table_has_every_field_of_a_label(self):
        labels = [{"label": "joy", "score": 0.9, "rank": 1}, {"label": "love", "score": 0.4, "rank": 2}]
        frame = Results.of([[], labels, None], ["a", "b", "c"], of_labels=True).to_frame()
        assert frame["labels"].tolist() == [[], ["joy", "love"], None] and frame["ranks"].tolist() == [
            [],
            [1, 2],
            None,
        ]

    def test_labels_of_a_taxonomy_are_not_corrected(self):
        found = summarize(["I love it", "I hate it"], load_predictor(for_prediction("goemotions"), "sentiment"))
        assert found.method == "plain" and "(a taxonomy, added labels)" in found.notes[0]
        assert {one["label"]: one["chosen"] for one in found.shares if one["chosen"]} == {"positive": 1, "negative": 1}

    def test_says_what_the_model_could_not_read(self, checkpoint, caplog):
        with caplog.at_level(logging.WARNING):
            summarize(["good day " * 40], Predictor(checkpoint, device="cpu", max_windows=1))
        assert "1 of 1 texts" in caplog.text

    def test_is_an_estimator(self, checkpoint):
        estimator = EmotionFeatures(str(checkpoint))
        check_estimator(estimator)
        assert clone(estimator).get_params() == estimator.get_params()

    def test_in_a_pipeline_and_a_grid_search(self, checkpoint, predictor, texts):
        labels = predictor.probabilities(texts).argmax(axis=1) > 1
        pipeline = make_pipeline(EmotionFeatures(str(checkpoint)), LogisticRegression(C=1e6))
        search = GridSearchCV(pipeline, {"emotionfeatures__max_length": [8, 32]}, cv=2).fit(pd.Series(texts), labels)
        assert search.best_score_ > 0.6
        assert search.best_estimator_[:1].get_feature_names_out().tolist() == predictor.labels
        np.testing.assert_allclose(pipeline[0].transform(texts), predictor.probabilities(texts), atol=1e-6)
