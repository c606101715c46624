# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion analyze`: its figures against hand-made predictions, its pages, and runs that lack something."""

import base64
import html
import itertools
import json
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from html_page import Page
from scipy.special import expit, softmax
from sklearn.metrics import f1_score, precision_score, recall_score
from toolkit_helpers import drawn_pictures, files_in, invoke, run_report, seed_run, write_csv, write_dialogues

from hf_emotion import Predictor, load_dataset_for, load_recipe, metrics
from hf_emotion.reports import analyze as module
from hf_emotion.reports.analyze import analyze, analyze_pair
from hf_emotion.reports.certainty import calibrated, label_correlation
from hf_emotion.reports.compare import compare
from hf_emotion.reports.finished_runs import examples, read_predictions
from hf_emotion.run_report import RunReport
from hf_emotion.tasks.held_out import AT_BOUND, _write_predictions, held_out, labelled_units
from hf_emotion.tasks.rows import gold_of as gold_of_rows
from hf_emotion.tasks.targeted_sentiment.guidance import histogram


pytest_plugins = ["toolkit_fixtures"]

HOSTILE = "<script>alert(1)</script>"
A, J, N, H = NAMES = ["anger", "joy", "neutral", f"$x^2 {HOSTILE}"]
# (id, gold labels, probabilities): confusions neutral → joy twice, joy → neutral and joy → H once; of the rows with several
# labels the first is right (both in the top 3) and the second wrong (H is the fourth).
TEST = [
    ("t1", [N], [0.1, 0.8, 0.3, 0.1]), ("t2", [N], [0.1, 0.6, 0.3, 0.2]), ("t3", [J], [0.1, 0.2, 0.7, 0.1]),
    ("t4", [J], [0.1, 0.2, 0.1, 0.9]), ("t5", [A], [0.9, 0.2, 0.1, 0.3]), ("t6", [N], [0.2, 0.1, 0.6, 0.3]),
    ("t7", [A, N], [0.5, 0.7, 0.2, 0.1]), ("t8", [J, H], [0.5, 0.7, 0.2, 0.1]), ("t9", [], [0.1, 0.1, 0.1, 0.1]),
]  # fmt: skip
# The other run has t1 and t3 right, t5 and t7 wrong, the rest as it is.
CHANGED = {"t1": [0.1, 0.2, 0.8, 0.1], "t3": [0.1, 0.8, 0.1, 0.1]}
CHANGED |= {"t5": [0.1, 0.2, 0.7, 0.3], "t7": [0.1, 0.7, 0.2, 0.3]}
OTHER = [(row, gold, CHANGED.get(row, scores)) for row, gold, scores in TEST]
THRESHOLDS = {A: 0.4, J: 0.5, N: 0.45, H: 0.25}
TEMPERATURE = 1.5


def gold_of(rows) -> np.ndarray:
    return np.array([[name in labels for name in NAMES] for _, labels, _ in rows])


def scores_of(rows) -> np.ndarray:
    return np.array([scores for *_, scores in rows])


def dev_rows(seed=0, rows=60):
    generator = np.random.default_rng(seed)
    found = []
    for number in range(rows):
        gold = [NAMES[number % 4]] + ([NAMES[(number + 1) % 4]] if number % 5 == 0 else [])
        scores = generator.random(4) * 0.6 + 0.35 * np.isin(NAMES, gold)
        found.append((f"d{number}", gold, scores.tolist()))
    return found


def write_run(folder: Path, parts=None, name="hand-made", multi_label=True, names=NAMES, seeds=(3,), **changes):
    parts = {"validation": dev_rows(), "test": TEST} if parts is None else parts
    kinds = ("fixed", "tuned") if multi_label else ("argmax",)
    per_label = {label: {"precision": 0.5, "recall": 0.25, "f1": 0.4, "support": 3} for label in names}
    figures = {kind: {"macro_f1": 0.4, "per_label": per_label} for kind in kinds}
    own = {**dict.fromkeys(parts, figures), "thresholds": THRESHOLDS if multi_label else None}
    runs = [seed_run(seed=seed, best_dev_metric=-1 / seed, temperature=TEMPERATURE, **own) for seed in seeds]
    folder.mkdir(parents=True)
    fields = {
        "name": name, "base_model": "tiny", "dataset": "files",
        "dataset_options": {"id_column": "id", "label_separator": "|", "labels": NAMES} if multi_label else {},
        "rows": {split: len(rows) for split, rows in parts.items()}, "published": {"macro_f1": 0.46},
        "summary": {split: {kind: {"macro_f1": {"mean": 0.4, "std": None}} for kind in kinds} for split in parts},
        "runs": runs, "environment": {"device": "CPU", "threads": 1, "torch": "2", "transformers": "5"},
    }  # fmt: skip
    run_report(**fields | changes).write(folder)
    (folder / "config.json").write_text(json.dumps({"thresholds": [0.4], "model_type": "bert"}), encoding="utf-8")
    write_predictions(folder, parts, names)
    return folder


def write_predictions(folder: Path, parts, names=NAMES) -> None:
    folder.mkdir(exist_ok=True)
    rows = [(split, *row) for split, own in parts.items() for row in own]
    columns = dict(zip(("split", "id", "labels", "probabilities"), map(list, zip(*rows, strict=True)), strict=True))
    table = pyarrow.table(columns).replace_schema_metadata({"label_names": json.dumps(names)})
    pyarrow.parquet.write_table(table, folder / "predictions.parquet")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """The rows of `write_run`; rows without a label cannot be told from an empty cell, so t9 has none."""
    folder = tmp_path_factory.mktemp("corpus")
    for name, rows in (("train", dev_rows(1, 8)), ("dev", dev_rows()), ("test", TEST)):
        table = [[row, f'{row} says {HOSTILE} & "so"', "|".join(gold)] for row, gold, _ in rows]
        write_csv(folder / f"{name}.csv", ["id", "text", "label"], table)
    return folder


@pytest.fixture(scope="module")
def analyzed(tmp_path_factory, corpus):
    run = write_run(tmp_path_factory.mktemp("hand") / "run", name=f"run {HOSTILE}")
    with drawn_pictures():
        return run, analyze(run, data_dir=corpus)


@pytest.fixture
def no_figures(monkeypatch):
    monkeypatch.setattr(module, "_figures", lambda *arguments: {})


def page(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


class TestCalibration:
    def test_ece_by_hand(self):
        # Confidences .95 right, .85 wrong, .65 and .61 right
        scores = np.array([[0.95, 0.05], [0.85, 0.15], [0.35, 0.65], [0.61, 0.39]])
        found = metrics.reliability(np.array([0, 1, 1, 0]), scores, bins=10)
        assert found["ece"] == pytest.approx(0.25 * 0.05 + 0.25 * 0.85 + 0.5 * 0.37)
        assert [entry["count"] for entry in found["bins"]] == [0, 0, 0, 0, 0, 0, 2, 0, 1, 1]
        assert found["bins"][6]["confidence"] == pytest.approx(0.63) and found["bins"][6]["accuracy"] == 1

    def test_edges_and_no_rows(self):
        found = metrics.reliability(np.array([[1, 0, 1]]), np.array([[1.0, 0.0, 0.5]]), bins=2)
        assert [entry["count"] for entry in found["bins"]] == [2, 1]  # (lower, upper], and 0 in the first
        assert np.isnan(metrics.reliability(np.zeros(0, int), np.zeros((0, 3)))["ece"])
        sure = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
        assert np.isfinite(metrics.temperature_scaled(sure, 3.0, True)).all()

    @pytest.mark.parametrize("factor", [0.4, 1.0, 3.0])
    def test_the_temperature_of_scaled_logits_is_found(self, factor):
        generator = np.random.default_rng(1)
        logits = 2 * generator.normal(size=(20_000, 5))
        right = softmax(logits, axis=1)
        labels = np.array([generator.choice(5, p=row) for row in right])
        sure = softmax(factor * logits, axis=1).astype(np.float32)
        assert metrics.fit_temperature(labels, sure) == pytest.approx(factor, rel=0.05)
        mended = metrics.temperature_scaled(sure, factor, multi_label=False)
        np.testing.assert_allclose(mended, right, atol=1e-4)
        assert (mended.argmax(axis=1) == sure.argmax(axis=1)).all()
        before, after = (metrics.reliability(labels, scores)["ece"] for scores in (sure, mended))
        assert factor == 1 or after < 0.02 < before

    def test_the_temperature_of_several_labels(self):
        generator = np.random.default_rng(2)
        logits = generator.normal(size=(20_000, 3)) - 1
        labels, sure = (generator.random(logits.shape) < expit(logits)).astype(np.int8), expit(2 * logits)
        assert metrics.fit_temperature(labels, sure) == pytest.approx(2, rel=0.05)
        np.testing.assert_allclose(metrics.temperature_scaled(sure, 2, True), expit(logits), atol=1e-6)

    def test_few_rows_move_probabilities_little(self):
        """20 rows count as much as the 20 that agree with the model: it ends halfway between .659 and right in every case."""
        labels, scores = np.arange(20) % 2, np.where(np.eye(2)[np.arange(20) % 2] > 0, 0.659, 0.341)
        for several in (False, True):
            gold = np.eye(2, dtype=int)[labels] if several else labels
            shown = metrics.temperature_scaled(scores, metrics.fit_temperature(gold, scores), several)
            np.testing.assert_allclose(shown.max(axis=1), (0.659 + 1) / 2, atol=1e-3)
        assert metrics.fit_temperature(labels[:1], scores[:1]) == 1  # there is no other row to measure it on

    def test_a_temperature_that_does_not_help_on_other_rows_is_not_kept(self):
        scores = np.full((20, 2), [0.75, 0.25])
        assert (
            metrics.fit_temperature((np.arange(20) % 4 == 0).astype(int), scores) == 1
        )  # 15 of 20: what four folds fit is wrong for the fifth

    def test_a_bound_of_the_search_is_said(self, tiny_run, tmp_path, caplog):
        labels = np.arange(2000) % 2
        wrong_half = np.eye(2)[labels * (np.arange(2000) % 4 > 1)]
        assert metrics.at_bound(metrics.fit_temperature(labels, wrong_half)) and not metrics.at_bound(19.0)
        (run,) = RunReport.read(tiny_run).runs
        splits = load_dataset_for("quickstart")
        absurd = {
            part: np.where(gold_of_rows(splits[part]).values > 0, 1e-30, 1 - 1e-7) for part in ("validation", "test")
        }
        held_out(load_recipe(tiny_run / "recipe.yaml"), run, absurd, splits, tmp_path / "run")
        assert run.temperature_at_bound and AT_BOUND in caplog.text


def test_right_is_the_top_1_of_one_label_and_the_top_3_of_several():
    right, predicted = metrics.paper_errors(gold_of(TEST).astype(np.int8), scores_of(TEST))
    assert right.tolist() == [False, False, False, False, True, True, True, False, False]
    assert predicted.tolist()[:8] == [1, 1, 2, 3, 0, 2, 1, 1]
    right, predicted = metrics.paper_errors(np.array([0, 1]), np.array([[0.4, 0.6], [0.1, 0.9]]))  # class ids
    assert right.tolist() == [False, True] and predicted.tolist() == [1, 1]


def test_threshold_curve_against_scikit_learn():
    generator = np.random.default_rng(0)
    gold, scores = generator.random(80) < 0.3, generator.random(80).round(2)
    at = [0.0, 0.13, 0.5, 0.77, 1.0]
    curve = metrics.threshold_curve(gold, scores, at)
    for number, threshold in enumerate(at):
        for name, score in (("precision", precision_score), ("recall", recall_score), ("f1", f1_score)):
            assert curve[name][number] == pytest.approx(score(gold, scores > threshold, zero_division=0))


class TestOneRun:
    def test_confusions(self, analyzed):
        _, result = analyzed
        columns = ("gold", "predicted", "rows", "mean", "std")
        found = [tuple(pair[name] for name in columns) for pair in result["confusions"]]
        assert found == [(N, J, 2, 2, None), (J, N, 1, 1, None), (J, H, 1, 1, None)]
        assert list(result["rows"].values()) == [6, 2, 1] and list(result["errors"].values()) == [4, 1]
        assert result["top1_accuracy"]["mean"] == pytest.approx(2 / 6) and result["top3_accuracy"]["mean"] == 0.5

    def test_neutral_on_its_own(self, analyzed):
        (name, kinds), *others = analyzed[1]["background"].items()
        assert name == "neutral" and not others
        for kind, rows in (("to_other", 2), ("from_other", 1)):
            assert [kinds[kind][field] for field in ("rows", "of", "labels")] == [rows, 3, {J: rows}]
        assert kinds["to_other"]["share"]["mean"] == pytest.approx(2 / 3)

    def test_the_stored_probabilities_are_calibrated_ones(self, analyzed):
        run, result = analyzed
        assert result["calibration"]["temperature"] == TEMPERATURE
        gold, scores = gold_of(TEST), scores_of(TEST)
        raw = expit(TEMPERATURE * np.log(scores / (1 - scores)))
        for kind, values in (("before", raw), ("after", scores)):
            assert result["calibration"][kind]["ece"] == pytest.approx(metrics.reliability(gold, values)["ece"])
        config = json.loads((run / "config.json").read_text())
        assert config == {"model_type": "bert", "thresholds": [0.4]}  # as the training wrote it

    def test_threshold_curves_are_those_of_dev(self, analyzed):
        _, result = analyzed
        curves = result["threshold_curves"]
        gold, scores = gold_of(dev_rows()), scores_of(dev_rows())
        at = curves["thresholds"].index(0.5)
        expected = [f1_score(gold[:, i], scores[:, i] > 0.5) for i in range(4)]
        assert [curves["labels"][name]["f1"][at] for name in NAMES] == pytest.approx(expected)
        assert curves["macro"]["f1"][at] == pytest.approx(np.mean(expected))
        assert curves["labels"][A]["tuned_f1"] == pytest.approx(f1_score(gold[:, 0], scores[:, 0] > THRESHOLDS[A]))

    def test_the_files(self, analyzed):
        run, result = analyzed
        names = "confusion_matrix label_correlation label_thresholds per_label_f1 reliability risk_coverage thresholds".split()
        assert set(files_in(run / "analysis")) == {"analysis.json", "errors.html", *(f"{name}.svg" for name in names)}
        stored = json.loads((run / "analysis" / "analysis.json").read_text(encoding="utf-8"))
        assert stored["confusions"] == result["confusions"] and result["left_out"] == {}
        for name in names:
            figure = ElementTree.parse(run / "analysis" / f"{name}.svg").getroot()
            texts = " ".join(filter(None, (text.text for text in figure.iter("{http://www.w3.org/2000/svg}text"))))
            assert "hand" not in texts and HOSTILE in texts  # shown as it is: neither a tag nor a formula

    def test_errors_are_listed_with_texts_by_confusion(self, analyzed):
        run, _ = analyzed
        found, path = page(run / "analysis" / "errors.html"), run / "analysis" / "errors.html"
        summaries = map(html.unescape, re.findall("<summary>(.*?)</summary>", path.read_text(encoding="utf-8")))
        assert list(summaries) == [f"{N} → {J}: 2", f"{J} → {H}: 1", f"{J} → {N}: 1", "several labels: 1"]
        assert f't1 says {HOSTILE} & "so"' in found.text and "joy (0.800)" in found.text
        assert found.text.index("t1 says") < found.text.index("t2 says")  # the surer one first
        assert "t5 says" not in found.text and "t7 says" not in found.text and "t8 says" in found.text

    def test_pages_hold_no_script_and_load_nothing(self, analyzed):
        run, _ = analyzed
        for path in (run / "report.html", run / "analysis" / "errors.html"):
            found = page(path)
            assert "script" not in found.tags and HOSTILE in found.text and "<script" not in path.read_text()
            loaded = [value for name, value in found.attributes if name in ("src", "href", "srcset", "action", "data")]
            assert all(re.match("data:image/(svg\\+xml|png);base64,|analysis/errors.html$", value) for value in loaded)
            text = path.read_text(encoding="utf-8")
            assert "http://" not in text and "https://" not in text and "@import" not in text and "url(" not in text
            for picture in re.findall('base64,([^"]+)', text):
                assert b"<script" not in base64.b64decode(picture)

    def test_the_report(self, analyzed):
        found = page(analyzed[0] / "report.html")
        for word in ("How good it is", "Examples", "published", "0.46", "Calibration", "Thresholds", "t4 says"):
            assert word in found.text
        assert found.text.index("Right") < found.text.index("Wrong") < found.text.index("All figures")
        predictions, texts = read_predictions(analyzed[0], "test", True), [row[0] for row in TEST]
        shown = examples(predictions, texts, {A: 0.4, J: 0.65, N: 0.5, H: 0.25})
        assert [row["text"] for row in shown["right"]] == ["t9"]
        wrong = {row["text"]: [name for name, _ in row["predicted"]] for row in shown["wrong"]}
        decided = {"t1": [J], "t2": [], "t3": [N], "t4": [H], "t5": [A, H], "t6": [N, H], "t7": [J, A], "t8": [J, A]}
        assert len(wrong) == 5 and wrong.items() <= decided.items()
        assert found.tags.count("img") == 7
        assert all(value for name, value in found.attributes if name == "alt")
        text = (analyzed[0] / "report.html").read_text(encoding="utf-8")
        assert "prefers-color-scheme: dark" in text and 'name="viewport"' in text


def spread(values) -> dict:
    return {"mean": pytest.approx(np.mean(values)), "std": pytest.approx(np.std(values, ddof=1))}


@pytest.mark.usefixtures("no_figures")
class TestLess:
    def test_seeds(self, tmp_path):
        run = write_run(tmp_path / "run", seeds=(2, 5))
        for seed, rows in ((2, TEST), (5, OTHER)):
            write_predictions(run / f"seed-{seed}", {"validation": dev_rows(seed), "test": rows})
        report = RunReport.read(run)
        report.runs[1].temperature = 2.0
        report.write(run)
        result = analyze(run)
        assert result["best_seed"] == 2 and result["top1_accuracy"] == spread([2 / 6, 3 / 6])
        confusion = result["confusions"][0]
        assert (confusion["gold"], confusion["rows"], confusion["mean"]) == (N, 2, 1.5)
        assert confusion["std"] == pytest.approx(0.5**0.5)
        assert result["calibration"]["temperature"] == TEMPERATURE
        assert result["calibration"]["temperature_over_seeds"] == spread([TEMPERATURE, 2])
        assert "1.5000 ± 0.7071" in page(run / "report.html").text
        shutil.rmtree(run / "seed-5")
        again = analyze(run)
        assert "seed-5" in again["left_out"]["spread over the seeds"] and again["top1_accuracy"]["std"] is None

    def test_a_folder_without_dev_predictions(self, tmp_path):
        run = write_run(tmp_path / "run", {"test": TEST}, summary={"test": {"fixed": {}}})
        result = analyze(run)
        assert result["calibration"]["temperature"] == TEMPERATURE  # of the run's report
        assert result["threshold_curves"] is None
        assert result["selective"]["abstention"] is None and result["selective"]["aurc"]["mean"] > 0
        said = [result["left_out"][what] for what in ("abstention and prediction sets", "threshold curves")]
        assert all("no rows of the split 'validation'" in text for text in (*said, page(run / "report.html").text))

    def test_without_the_corpus_the_errors_have_ids(self, tmp_path, monkeypatch):
        monkeypatch.delenv("HF_EMOTION_DATA", raising=False)
        run = write_run(tmp_path / "run")
        assert "--data-dir" in analyze(run)["left_out"]["texts of the errors"]
        text = page(run / "analysis" / "errors.html").text
        assert "t4" in text and "says" not in text

    def test_one_label_per_row(self, tmp_path):
        rows = [("1", ["b"], [0.6, 0.4]), ("2", ["a"], [0.9, 0.1]), ("3", ["b"], [0.2, 0.8]), ("4", ["b"], [0.7, 0.3])]
        run = write_run(tmp_path / "run", {"validation": rows, "test": rows}, multi_label=False, names=["a", "b"])
        result = analyze(run, split="validation")
        assert [(pair["gold"], pair["predicted"], pair["rows"]) for pair in result["confusions"]] == [("b", "a", 2)]
        assert "thresholds" in result["left_out"]["threshold curves"] and result["background"] == {}
        assert not result["calibration"]["fitted_on_other_rows"]
        assert "the same rows that are measured here" in page(run / "report.html").text

    @pytest.mark.parametrize("absent", ["none", "None"])
    def test_aspects(self, tmp_path, absent):
        names = [absent, "positive", "negative"]
        none, good, bad = np.eye(3).tolist()
        rows = [
            ("1/price", [absent], good), ("1/a b", ["positive"], none), ("2/price", ["positive"], bad),
            ("2/a b", [absent], none), ("3/price", ["negative"], bad), ("3/a b", ["negative"], none),
        ]  # fmt: skip
        parts = {"validation": rows, "test": rows}
        contexts = {"aspects": ["price", "a b"], "targets": None, "target_texts": None}
        result = analyze(write_run(tmp_path / "run", parts, multi_label=False, names=names, contexts=contexts))
        assert [list(values.values()) for values in result["aspects"].values()] == [
            [3, pytest.approx(1 / 3), 0, 1, 1], [3, pytest.approx(1 / 3), 2, 0, 0],
        ]  # fmt: skip
        assert result["background"][absent]["from_other"]["labels"] == {"positive": 1, "negative": 1}

    @pytest.mark.parametrize("best", [4, 10])
    def test_seeds_with_different_numbers_of_rows(self, tmp_path, best):
        """With `shots` and without a test part; the curve is that of the best seed, from its surest row to all of them."""
        rows = {best: dev_rows()[:best], 14 - best: dev_rows()[: 14 - best]}
        run = write_run(tmp_path / "run", {"validation": rows[best]}, seeds=(2, 1), shots=3)
        for seed, own in zip((1, 2), rows.values(), strict=True):
            write_predictions(run / f"seed-{seed}", {"validation": own})
        result = analyze(run)
        shares = [
            np.mean([NAMES[int(np.argmax(scores))] == gold[0] for _, gold, scores in own if len(gold) == 1])
            for own in rows.values()
        ]
        assert result["top1_accuracy"]["mean"] == pytest.approx(np.mean(shares)) and shares[0] != shares[1]
        curve = result["selective"]["curve"]
        assert curve["coverage"] == pytest.approx([(row + 1) / best for row in range(best)])
        assert len(curve["risk"]) == len(curve["best"]) == best

    @pytest.mark.parametrize("targets", [None, ["bar", "drink"]])
    def test_aspects_that_end_alike(self, tmp_path, targets):
        """All rows about "price" are right, all about "drink/price" are wrong."""
        scores, asked = {"price": [0.0, 1.0], "drink/price": [1.0, 0.0]}, []
        for number, target in itertools.product("123", [""] if targets is None else [f"{one}/" for one in targets]):
            asked += [(f"{number}/{target}{aspect}", ["positive"], own) for aspect, own in scores.items()]
        contexts = {"aspects": list(scores), "targets": targets, "target_texts": targets}
        parts, names = {"validation": asked, "test": asked}, ["none", "positive"]
        run = write_run(tmp_path / "run", parts, multi_label=False, names=names, contexts=contexts)
        found, rows = analyze(run)["aspects"], len(asked) // 2
        assert [(found[aspect]["rows"], found[aspect]["accuracy"]) for aspect in found] == [(rows, 1.0), (rows, 0.0)]

    def test_many_errors_are_cut_and_counted(self, tmp_path, monkeypatch):
        monkeypatch.setattr(module, "ERRORS", 2)
        run = write_run(tmp_path / "run")
        analyze(run)
        text = " ".join(page(run / "analysis" / "errors.html").text.split())
        assert "5 wrong of 8 rows" in text and "The 2 surest" in text
        assert "t4" in text and "t1" in text and "t2" not in text

    def test_a_generator(self, tmp_path):
        figures = {"teacher_forcing": {"perplexity": 8.5, "tokens": 7}}
        summary = {"test": {"teacher_forcing": {"perplexity": {"mean": 8.5, "std": None}}}}
        runs = [seed_run(validation=figures, test=figures)]
        run = write_run(tmp_path / "run", model_type="gpt2-mod-ln", runs=runs, summary=summary)
        assert "hf-emotion evaluate" in analyze(run)["left_out"]["analysis"]
        assert "8.5000" in page(run / "report.html").text


class TestTwoRuns:
    @pytest.fixture(scope="class")
    def pair(self, tmp_path_factory, corpus):
        folder = tmp_path_factory.mktemp("pair")
        first = write_run(folder / "first", name=f"base/line {HOSTILE}")
        second = write_run(folder / "second", {"validation": dev_rows(), "test": OTHER}, name="ours")
        return first, second, analyze_pair(first, second, data_dir=corpus)

    def test_pairs(self, pair):
        *_, result = pair
        found = result["only_second"]
        assert found["rows"] == 2 and found["several_labels"] == 0
        assert [(p["gold"], p["predicted"], p["rows"]) for p in found["pairs"]] == [(J, N, 1), (N, J, 1)]
        assert [row["id"] for row in found["sentences"]] == ["t1", "t3"]  # the surest first
        assert found["sentences"][0]["predicted"] == [(J, 0.8)] and "t1 says" in found["sentences"][0]["text"]
        found = result["only_first"]
        assert found["rows"] == 2 and found["several_labels"] == 1
        assert [(p["gold"], p["predicted"], p["rows"]) for p in found["pairs"]] == [(A, N, 1)]
        assert result["rows"] == 8 and result["mcnemar"] == {"only_first": 2, "only_second": 2, "p_value": 1.0}
        assert [each["neutral"]["to_other"]["rows"] for each in result["background"]] == [2, 1]
        assert [test["decision"] for test in result["tests"]] == ["fixed", "tuned"]

    def test_the_page(self, pair):
        _, second, result = pair
        path = Path(result["page"])
        assert path.parent == second / "analysis" and re.fullmatch(r"against_base_line_[\w.-]+\.html", path.name)
        found = page(path)
        assert "script" not in found.tags and HOSTILE in found.text and "t5 says" in found.text
        assert not [value for name, value in found.attributes if name in ("src", "href")]

    def test_runs_that_do_not_differ(self, pair, argv):
        first = str(pair[0])
        result = argv("analyze", first, first)
        found = page(next(pair[0].glob("analysis/against_*.html")))
        assert result.code == 0 and "predicted" not in result.out  # no table without rows
        assert found.text.count("There is no row that") == 2 and found.tags.count("table") == 2

    def test_runs_of_one_recipe(self, pair, tmp_path):
        parts = {"validation": dev_rows(), "test": OTHER}
        runs = [write_run(tmp_path / "a", name="ml")]
        runs += [write_run(tmp_path / where, parts, name="ml") for where in ("b", "deep/b")]
        results = [analyze_pair(runs[0], runs[1]), analyze_pair(runs[1], runs[2])]
        assert [(result["first"], result["second"]) for result in results] == [("a", "b"), tuple(map(str, runs[1:]))]
        assert [(test["first"], test["second"]) for test in results[0]["tests"]] == [("a", "b")] * 2
        assert [row[0] for row in compare([pair[1], *runs[:2]])["table"]] == ["ours", "a", "b"]
        other = write_run(tmp_path / "c", parts, name="other")
        pages = [Path(analyze_pair(run, other)["page"]).name for run in runs[:2]]
        assert pages == ["against_ml-a.html", "against_ml-b.html"]


def seeded_run(folder: Path, shares: dict[int, float], parts=("validation", "test"), names=NAMES[:3]) -> Path:
    """Wrong in this share of the rows of each seed, of which the first is the best. Labels after the third never occur."""
    gold, rows = np.random.default_rng(0).integers(0, 3, 300), {}
    for seed, share in shares.items():
        draw = np.random.default_rng((seed, round(1000 * share)))
        found = np.where(draw.random(300) < share, (gold + draw.integers(1, 3, 300)) % 3, gold)
        scores = 0.2 + 0.4 * (found[:, None] == np.arange(len(names)))
        own = [(f"t{i}", [names[label]], scores[i].tolist()) for i, label in enumerate(gold)]
        rows[seed] = dict.fromkeys(parts, own)
    f1 = [metrics.classification(gold, scores_of(own[parts[-1]]), names)["macro_f1"] for own in rows.values()]
    summary = dict.fromkeys(parts, {"argmax": {"macro_f1": {"mean": float(np.mean(f1)), "std": None}}})
    runs = [seed_run(seed=seed, best_dev_metric=-1 / number) for number, seed in enumerate(shares, 1)]
    options = {"multi_label": False, "names": names, "runs": runs, "summary": summary, "name": folder.name}
    run = write_run(folder, rows[runs[0].seed], **options)
    for seed, own in rows.items() if len(shares) > 1 else ():
        write_predictions(run / f"seed-{seed}", own, names)
    return run


class TestCompareOverSeeds:
    SHARES = {1: 0.10, 2: 0.32, 3: 0.30}, {1: 0.22, 2: 0.21, 3: 0.20}

    @pytest.fixture
    def pair(self, tmp_path):
        return [seeded_run(tmp_path / name, shares) for name, shares in zip("ab", self.SHARES, strict=True)]

    def means(self, result):
        return [float(row[-1]) for row in result["table"]]

    def test_the_test_agrees_with_the_table(self, pair):
        """The best seeds say the opposite of the means: it is these that are tested."""
        result = compare(pair)
        (test,) = result["tests"]
        first, second = self.means(result)
        assert second > first + 0.01 and test["difference"] == pytest.approx(second - first, abs=1e-4)
        assert test["low"] < 0 < test["high"] and test["p_value"] > 0.05
        assert (test["first_seeds"], test["second_seeds"], test["paired_seeds"]) == ([1, 2, 3], [1, 2, 3], True)
        assert (test["metric"], test["split"], test["rows"], test["samples"]) == ("macro_f1", "test", 300, 10_000)
        assert test["only_first"] is test["only_second"] is test["mcnemar_p_value"] is None
        for part in ("macro-F1", "3 seeds", "paired", "300 rows", "test", "10000 samples"):
            assert part in test["tested"]
        output = invoke("compare", *pair)
        assert test["tested"] in output
        (line,) = [line for line in output.splitlines() if line.startswith("b vs a (argmax)")]
        assert f"{test['difference']:+.4f}" in line and f"p = {test['p_value']:.3f}" in line and "None" not in line

    @pytest.mark.parametrize("seeds", [1, 3])
    def test_labels_that_never_occur_count_as_in_the_table(self, tmp_path, seeds):
        names = [*NAMES[:3], "fear", "love"]
        shares = [dict(list(own.items())[:seeds]) for own in self.SHARES]
        runs = [seeded_run(tmp_path / name, own, names=names) for name, own in zip("ab", shares, strict=True)]
        plain = [seeded_run(tmp_path / f"plain-{name}", own) for name, own in zip("ab", shares, strict=True)]
        result = compare(runs)
        (test,), (same,) = result["tests"], compare(plain)["tests"]
        first, second = self.means(result)
        assert test["difference"] == pytest.approx(second - first, abs=1e-4)
        for figure in ("difference", "low", "high"):
            assert test[figure] == pytest.approx(3 / 5 * same[figure])
        assert test["mcnemar_p_value"] == same["mcnemar_p_value"]

    def test_seeds_are_matched_by_their_numbers(self, pair, tmp_path):
        """The runs list the same seeds in another order, and all are equal seed by seed."""
        (test,) = compare([pair[0], seeded_run(tmp_path / "c", dict(reversed(self.SHARES[0].items())))])["tests"]
        assert test["paired_seeds"] and test["second_seeds"] == [1, 2, 3]
        assert (test["difference"], test["low"], test["high"], test["p_value"]) == (0, 0, 0, 1)

    @pytest.mark.parametrize("shares", [{4: 0.2, 5: 0.2, 6: 0.2}, {1: 0.2, 2: 0.3}, {1: 0.2}])
    def test_other_seeds_are_not_paired(self, pair, tmp_path, shares):
        (test,) = compare([pair[0], seeded_run(tmp_path / "c", shares)])["tests"]
        assert not test["paired_seeds"] and test["second_seeds"] == list(shares) and test["mcnemar_p_value"] is None
        for said in ("not paired", f"{len(shares)} seeds") if len(shares) > 1 else ("spread over seeds of c is not",):
            assert said in test["tested"] and ("two seeds hardly" in test["tested"]) is (len(shares) == 2)

    def test_one_seed_each_is_the_paired_bootstrap(self, tmp_path):
        runs = [seeded_run(tmp_path / name, {seed: share}) for name, seed, share in (("a", 1, 0.3), ("b", 2, 0.2))]
        (test,) = compare(runs)["tests"]
        first, second = (read_predictions(run, "test", False) for run in runs)
        decisions = [found.probabilities.argmax(axis=1) for found in (first, second)]
        expected = metrics.paired_bootstrap(metrics.macro_f1, first.gold.values, *decisions, samples=10_000)
        assert {name: test[name] for name in expected} == pytest.approx(expected, abs=1e-9)
        assert test["mcnemar_p_value"] == metrics.mcnemar(first.gold.values, *decisions)["p_value"]
        assert test["only_second"] > test["only_first"] > 0 and "one seed each" in test["tested"]

    def test_thresholds_of_each_seed(self, tmp_path):
        runs = []
        for name, parts in (("a", TEST), ("b", OTHER)):
            run = write_run(tmp_path / name, name=name, seeds=(1, 2))
            for seed in (1, 2):
                write_predictions(run / f"seed-{seed}", {"validation": dev_rows(), "test": parts})
            report = RunReport.read(run)
            report.runs[1].thresholds = dict.fromkeys(NAMES, 0.65)
            report.threshold = 0.15  # 0.239 after the temperature: scores of 0.2 lie between
            report.write(run)
            runs.append(run)
        odds = report.threshold / (1 - report.threshold)  # of what the model says before its temperature
        limits = {
            "fixed": [1 / (1 + odds ** (-1 / TEMPERATURE))] * 2,
            "tuned": [list(THRESHOLDS.values()), [0.65] * 4],
        }
        for test in compare(runs)["tests"]:
            f1 = lambda rows, limit: metrics.macro_f1(gold_of(rows), scores_of(rows) > limit)  # noqa: E731
            differences = [f1(OTHER, limit) - f1(TEST, limit) for limit in limits[test["decision"]]]
            assert test["difference"] == pytest.approx(np.mean(differences)) != 0

    def test_seeds_without_predictions(self, pair):
        shutil.rmtree(pair[1] / "seed-2")
        result = compare(pair)
        (test,) = result["tests"]
        assert (test["first_seeds"], test["second_seeds"]) == ([1], [1]) and test["mcnemar_p_value"] is not None
        (note,) = result["notes"]
        assert str(pair[1]) in note and "seed-2" in note and "best" in note

    def test_one_label_beside_several(self, tmp_path):
        rows = [("1", ["joy"], [0.6, 0.2, 0.1, 0.1]), ("2", ["anger"], [0.7, 0.1, 0.1, 0.1])]
        parts = {"validation": rows, "test": rows}
        runs = [write_run(tmp_path / str(kind), parts, multi_label=kind) for kind in (True, False)]
        for test in (compare, lambda pair: analyze_pair(*pair)):
            for two in (runs, runs[::-1]):
                with pytest.raises(ValueError, match="no paired test is possible"):
                    test(two)

    def test_a_run_without_a_test_part(self, pair, tmp_path, argv):
        dev_only = seeded_run(tmp_path / "c", self.SHARES[1], parts=("validation",))
        result = compare([pair[0], dev_only])
        assert result["split"] == "validation" and result["tests"][0]["split"] == "validation"
        (note,) = result["notes"]
        assert str(dev_only) in note and "validation" in note
        done = argv("compare", pair[0], dev_only)
        assert done.code == 0 and note in " ".join(done.out.split()) and "rows of the validation part" in done.out
        done = argv("compare", pair[0], dev_only, "--split", "test")
        assert done.code == 1 and "no figures for the split 'test': it has ['validation']" in done.err
        assert analyze_pair(pair[0], dev_only)["split"] == "validation"


@pytest.mark.usefixtures("own_verbosity")
class TestCommand:
    def test_another_corpus(self, argv, tmp_path, corpus):
        shutil.copytree(corpus, tmp_path / "corpus")
        write_csv(tmp_path / "corpus" / "test.csv", ["id", "text", "label"], [["t1", "so", "joy"]])
        before = files_in(run := write_run(tmp_path / "run"))
        result = argv("analyze", run, "--data-dir", tmp_path / "corpus")
        assert result.code == 1 and "the test rows of files are not those" in result.err and files_in(run) == before

    def test_what_is_missing(self, argv, tmp_path):
        (write_run(tmp_path / "run") / "predictions.parquet").unlink()
        result = argv("analyze", tmp_path / "run")
        assert result.code == 1 and "has no predictions.parquet: `hf-emotion train" in result.err
        assert argv("analyze", *[tmp_path / "run"] * 3).code == 2


@pytest.mark.usefixtures("single_thread")
def test_a_training_writes_the_report_and_the_temperature(tiny_run, tmp_path):
    run = shutil.copytree(tiny_run, tmp_path / "run")
    first = page(run / "report.html")
    assert "hf-emotion analyze" in first.text and "macro_f1" in first.text and first.tags.count("img") == 3
    stored = json.loads((run / "config.json").read_text())["calibration_temperature"]
    (trained,) = RunReport.read(run).runs
    assert stored == trained.temperature
    before, after = re.search(r"rows\): (\d\.\d+)\s+without a temperature, (\d\.\d+) at", first.text).groups()
    output = invoke("analyze", run)
    assert "report: " in output
    assert f"expected calibration error: {before}, at temperature {stored:.3f} {after}" in output
    assert Predictor(run).model.config.calibration_temperature == stored  # not taken for an argument of `generate`
    second = page(run / "report.html")
    assert second.tags.count("img") == 8 and "hf-emotion analyze with" not in second.text
    result = json.loads((run / "analysis" / "analysis.json").read_text())
    for name, values in result["threshold_curves"]["labels"].items():
        tuned = trained.validation["tuned"]["per_label"][name]
        assert values["tuned_f1"] == pytest.approx(tuned["f1"]) and values["support"] == tuned["support"]
    assert result["confusions"][0]["rows"] == trained.test["tuned"]["confusions"][0]["rows"]
    errors = page(run / "analysis" / "errors.html").text
    assert any(text in errors for text in load_dataset_for("quickstart")["test"]["text"])


def test_zero_is_an_edge_of_a_histogram_and_nothing_is_lost():
    values = np.random.default_rng(0).normal(0.3, 0.2, 5000).astype(np.float32)
    found = histogram([values[:2000], values[2000:]])
    edges = np.array(found["edges"])
    assert sum(found["counts"]) == 5000 and np.abs(edges).min() < 1e-12 and (np.diff(edges) > 0).all()
    assert np.array(found["counts"])[edges[1:] <= 1e-12].sum() == (values < 0).sum()
    for few in ([0.5, 0.5], [0.0, 1.0], [-1.0, -0.5], [-1e-7, 1.0]):
        assert sum(histogram([np.array(few)])["counts"]) == 2


def test_texts_of_dialogues_stand_in_the_order_of_the_predictions(tmp_path):
    rows = load_dataset_for("dialogue_files", write_dialogues(tmp_path / "data"))["test"]
    gold, names = gold_of_rows(rows).values, [f"l{i}" for i in range(28)]
    scores = np.random.default_rng(0).random((len(gold), len(names)))
    _write_predictions(tmp_path / "predictions.parquet", {"test": rows}, {"test": scores}, names)
    ids, _, texts, _ = labelled_units(rows)
    assert read_predictions(tmp_path, "test", multi_label=False).ids == ids and len(texts) == len(ids)
    turn = next(i for i, label in enumerate(rows["labels"][1]) if label >= 0)
    place = ids.index(f"{rows['id'][1]}/{turn + 1}")
    assert texts[place] == f"{rows['speakers'][1][turn]}: {rows['utterances'][1][turn]}"
    assert len(ids) == (gold >= 0).sum() < len(gold)


def test_labels_that_were_not_annotated_are_no_decisions(tmp_path):
    rng = np.random.default_rng(0)
    probabilities, hidden = rng.uniform(0.1, 0.9, (40, 3)), rng.random((40, 3)) < 0.4
    gold = (rng.random((40, 3)) < probabilities) & ~hidden
    named = lambda flags: [[name for name, flag in zip("abc", row, strict=True) if flag] for row in flags]  # noqa: E731
    lists = {"labels": named(gold), "unannotated": named(hidden)}
    columns = {name: pyarrow.array(own, pyarrow.list_(pyarrow.string())) for name, own in lists.items()}
    columns |= {"id": [*map(str, range(40))], "split": ["test"] * 40, "probabilities": probabilities.tolist()}
    table = pyarrow.table(columns).replace_schema_metadata({"label_names": json.dumps(list("abc"))})
    pyarrow.parquet.write_table(table, tmp_path / "predictions.parquet")
    found = read_predictions(tmp_path, "test", multi_label=True)
    report = run_report(runs=[seed_run(temperature=1.5, thresholds=dict.fromkeys("abc", 0.5))])
    after = calibrated(report, "test", [found])["after"]
    sure, bins = probabilities[~hidden], len(after["bins"])
    bin_of = np.ceil(sure * bins)
    misses = [(gold[~hidden] - sure)[bin_of == number].sum() for number in range(1, bins + 1)]
    expected = np.abs(misses).sum() / len(sure)
    assert after["ece"] == pytest.approx(expected) and sum(part["count"] for part in after["bins"]) == len(sure)
    both = ~hidden[:, 0] & ~hidden[:, 2]
    r = np.corrcoef(probabilities[both, 0], probabilities[both, 2])[0, 1]
    assert label_correlation(found, {})["matrix"][0][2] == pytest.approx(r)
