# SPDX-License-Identifier: Apache-2.0
"""Files as table programs want them: wide columns, all scores, Excel, other encodings, and results as pandas has them."""

import json
import logging

import numpy as np
import pandas as pd
import pytest
from endurance.small_model import draw_texts, save_small_classifier
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator
from toolkit_helpers import invoke
from typer.testing import CliRunner

from hf_emotion import EmotionFeatures, Predictor, summarize
from hf_emotion.cli import app
from hf_emotion.inference import load_predictor
from hf_emotion.runtime.ready import for_prediction
from hf_emotion.serving.bulk import predict_file


pytest_plugins = ["endurance.fixtures"]


@pytest.fixture(scope="module")
def texts(predictor) -> list[str]:
    return draw_texts(predictor, 40)


@pytest.fixture
def source(tmp_path, texts):
    path = tmp_path / "in.csv"
    pd.DataFrame({"text": texts}).to_csv(path, index=False)
    return path


class TestWideFiles:
    @pytest.mark.parametrize("ending", ["csv", "parquet", "xlsx", "jsonl"])
    def test_a_column_for_each_label(self, predictor, texts, source, tmp_path, ending):
        output = tmp_path / f"out.{ending}"
        predict_file(predictor, source, output, layout="wide", prefix="p_", rows_per_part=16, progress=False)
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
        predict_file(values, source, tmp_path / "out.parquet", layout="wide", progress=False)
        found = pd.read_parquet(tmp_path / "out.parquet")
        columns = [f"value_{label}" for label in values.labels]
        assert found.columns.tolist() == ["text", *columns, "truncated", "unknown", "predicted_language"]
        np.testing.assert_allclose(found[columns], values.probabilities(texts), atol=1e-5)
        for data in (tmp_path / "out.parquet", texts):
            means = summarize(data, values).to_frame().set_index("label")["mean"]
            np.testing.assert_allclose(means[values.labels], values.probabilities(texts).mean(axis=0), atol=1e-5)

    def test_all_scores(self, predictor, texts, source, tmp_path):
        predict_file(predictor, source, tmp_path / "out.csv", all_scores=True, progress=False)
        rows = pd.read_csv(tmp_path / "out.csv")["all_scores"].map(json.loads)
        found = [[row[label] for label in predictor.labels] for row in rows]
        np.testing.assert_allclose(found, predictor.probabilities(texts), atol=1e-4)

    def test_a_skipped_row_has_empty_cells(self, predictor, tmp_path):
        (tmp_path / "in.jsonl").write_text('{"text": "good day"}\n{"text": null}\n', encoding="utf-8")
        options = {"on_bad_rows": "skip", "layout": "wide", "progress": False}
        predict_file(predictor, tmp_path / "in.jsonl", tmp_path / "out.parquet", **options)
        found = pd.read_parquet(tmp_path / "out.parquet")
        assert found["probability_joy"].isna().tolist() == [False, True]

    def test_a_taken_name_asks_for_a_prefix(self, predictor, source, tmp_path):
        first = tmp_path / "first.csv"
        predict_file(predictor, source, first, progress=False)
        with pytest.raises(ValueError, match="--prefix"):
            predict_file(predictor, first, tmp_path / "second.csv", progress=False)
        predict_file(predictor, first, tmp_path / "second.csv", prefix="new_", progress=False)
        found = pd.read_csv(tmp_path / "second.csv")
        assert found["new_predicted_labels"].equals(found["predicted_labels"])

    def test_overwrites_only_when_asked(self, predictor, source, tmp_path):
        output = tmp_path / "out.csv"
        output.write_text("old")
        with pytest.raises(FileExistsError):
            predict_file(predictor, source, output, progress=False)
        assert output.read_text() == "old"
        predict_file(predictor, source, output, overwrite=True, progress=False)
        assert len(pd.read_csv(output)) == 40

    def test_another_encoding(self, predictor, tmp_path):
        (tmp_path / "in.csv").write_bytes("text\nthe day is “good”\n".encode("cp1252"))
        with pytest.raises(ValueError, match="--encoding cp1252"):
            predict_file(predictor, tmp_path / "in.csv", tmp_path / "out.csv", progress=False)
        predict_file(predictor, tmp_path / "in.csv", tmp_path / "out.csv", encoding="cp1252", progress=False)
        assert "“good”" in (tmp_path / "out.csv").read_text(encoding="utf-8")
        with pytest.raises(ValueError, match="`encoding` 'nonsense' is unknown"):
            predict_file(predictor, tmp_path / "in.csv", tmp_path / "no.csv", encoding="nonsense", progress=False)

    def test_excel_keeps_texts_that_look_like_formulas(self, predictor, tmp_path):
        openpyxl = pytest.importorskip("openpyxl")
        (tmp_path / "in.jsonl").write_text('{"text": "=1+1 good day", "n": 7}\n', encoding="utf-8")
        predict_file(predictor, tmp_path / "in.jsonl", tmp_path / "mid.xlsx", progress=False)
        cell = openpyxl.load_workbook(tmp_path / "mid.xlsx").active["A2"]
        assert (cell.value, cell.data_type) == ("=1+1 good day", "s")
        predict_file(predictor, tmp_path / "mid.xlsx", tmp_path / "out.jsonl", prefix="b_", progress=False)
        row = json.loads((tmp_path / "out.jsonl").read_text())
        assert row["n"] == 7 and row["text"] == "=1+1 good day"

    def test_a_file_that_is_no_workbook(self, predictor, tmp_path):
        (tmp_path / "in.xlsx").write_text("text\nhello\n")
        with pytest.raises(ValueError, match="cannot be read"):
            predict_file(predictor, tmp_path / "in.xlsx", tmp_path / "out.csv", progress=False)


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

    def test_says_what_it_is(self, predictor, checkpoint):
        assert repr(predictor) == f"Predictor({str(checkpoint)!r}: 5 labels, several at once; max_length=32)"


class TestSummary:
    def test_labels_of_a_taxonomy_are_not_corrected(self):
        found = summarize(["I love it", "I hate it"], load_predictor(for_prediction("goemotions"), "sentiment"))
        assert found.method == "plain" and "(a taxonomy, added labels)" in found.notes[0]
        assert {one["label"]: one["chosen"] for one in found.shares if one["chosen"]} == {"positive": 1, "negative": 1}

    def test_says_what_the_model_could_not_read(self, checkpoint, caplog):
        with caplog.at_level(logging.WARNING):
            summarize(["good day " * 40], Predictor(checkpoint, device="cpu", max_windows=1))
        assert "1 of 1 texts" in caplog.text


class TestEmotionFeatures:
    def test_is_an_estimator(self, checkpoint):
        estimator = EmotionFeatures(str(checkpoint))
        check_estimator(estimator)
        assert clone(estimator).get_params() == estimator.get_params()

    def test_in_a_pipeline_and_a_grid_search(self, checkpoint, predictor, texts):
        labels = predictor.probabilities(texts).argmax(axis=1) > 1
        pipeline = make_pipeline(EmotionFeatures(str(checkpoint)), LogisticRegression(C=1e6))
        search = GridSearchCV(pipeline, {"emotionfeatures__max_length": [8, 32]}, cv=2).fit(pd.Series(texts), labels)
        assert search.best_score_ > 0.6
        features = search.best_estimator_[:1]
        assert features.get_feature_names_out().tolist() == predictor.labels
        np.testing.assert_allclose(pipeline[0].transform(texts), predictor.probabilities(texts), atol=1e-6)
