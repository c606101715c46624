# SPDX-License-Identifier: Apache-2.0
"""The classification report, the confusion matrix, the curves of a training and the model card as files."""

import re
import struct
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from huggingface_hub import ModelCard
from matplotlib.axes import Axes
from rich.cells import cell_len
from sklearn.metrics import precision_recall_fscore_support
from toolkit_helpers import drawn_pictures, files_in, run_report, seed_run

from hf_emotion.gold import Gold
from hf_emotion.recipes import make_recipe
from hf_emotion.reports import card, classification
from hf_emotion.reports import figures as plots
from hf_emotion.tasks import corpus_of
from hf_emotion.tasks.cards import Card, Figure, table


pytestmark = pytest.mark.filterwarnings("error")

TEXTS = {"classification_report.txt", "confusion_matrix.txt"}
PICTURES = {"confusion_matrix.png"}
NAMES = ["anger", "joy", "mixed feelings", "surprise"]


def write_reports(folder, title, gold, *more) -> None:
    classification.write_reports(folder, title, Gold(np.asarray(gold)), *more)


def single_label_case(rows=200, classes=4, seed=0):
    """Gold ids with -1 and -100 among them and without the last class, and probabilities."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, classes - 1, rows)
    probabilities = rng.random((rows, classes))
    probabilities[np.arange(rows), gold] += 0.4
    gold[::7], gold[3::11] = -1, -100
    return gold, probabilities / probabilities.sum(axis=1, keepdims=True)


def multi_label_case(rows=200, seed=0):
    rng = np.random.default_rng(seed)
    gold = (rng.random((rows, 4)) < [0.4, 0.3, 0.2, 0.1]).astype(np.int8)  # 0 to 4 labels a row
    return gold, np.clip(0.3 * gold + 0.7 * rng.random((rows, 4)), 0, 1)


def read_report(folder):
    text = (folder / "classification_report.txt").read_text(encoding="utf-8")
    assert text.endswith("\n") and not text.endswith("\n\n")
    lines = [re.split(" {2,}", line.strip()) for line in text.splitlines()[2:] if line.strip()]
    assert lines[0] == ["precision", "recall", "f1-score", "support"]
    return {line[0]: line[1:] for line in lines[1:]}


def read_matrix(folder):
    """The header line, the names of the columns, {name of the row: counts}."""
    text = (folder / "confusion_matrix.txt").read_text(encoding="utf-8")
    assert text.endswith("\n") and not text.endswith("\n\n")
    header, blank, *lines = text.splitlines()
    assert blank == ""
    assert len({cell_len(line) for line in lines}) == 1  # in columns
    lines = [re.split(" {2,}", line.strip()) for line in lines]
    return header, lines[0], {line[0]: [int(count) for count in line[1:]] for line in lines[1:]}


def png_size(path):
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n" and content[12:16] == b"IHDR" and content[-8:-4] == b"IEND"
    return struct.unpack(">II", content[16:24])


def check_report(lines, gold, predicted, averages):
    """The figures are those of scikit-learn for these rows."""
    figures = partial(precision_recall_fscore_support, gold, predicted, labels=range(4), zero_division=0)
    expected = dict(zip(NAMES, np.transpose(figures()), strict=True))
    written = {name: [*(f"{value:.3f}" for value in own[:3]), f"{own[3]:.0f}"] for name, own in expected.items()}
    assert list(lines) == [*NAMES, *averages] and written.items() <= lines.items()
    for name in averages:
        kind, _, average = name.partition(" ")
        assert not average or lines[name][:3] == [f"{value:.3f}" for value in figures(average=kind)[:3]]
    assert {lines[name][-1] for name in averages} == {f"{sum(own[3] for own in expected.values()):.0f}"}


class TestSingleLabel:
    def test_figures(self, tmp_path):
        gold, probabilities = single_label_case()
        with drawn_pictures():
            write_reports(tmp_path / "run", "a title", gold, probabilities, NAMES)
        assert set(files_in(tmp_path / "run")) == TEXTS | PICTURES
        pairs = [(g, max(range(4), key=row.__getitem__)) for g, row in zip(gold, probabilities, strict=True) if g >= 0]
        assert len(pairs) < len(gold) and not any(g == 3 for g, _ in pairs) and any(p == 3 for _, p in pairs)
        lines = read_report(tmp_path / "run")
        check_report(lines, *zip(*pairs, strict=True), ["accuracy", "macro avg", "weighted avg"])
        right = sum(1 for g, p in pairs if g == p)
        assert lines["accuracy"] == [f"{right / len(pairs):.3f}", str(len(pairs))]

        header, columns, rows = read_matrix(tmp_path / "run")
        assert header == (
            "a title: confusion matrix, rows = gold, columns = predicted (the most probable class), "
            f"{len(pairs)} of 200 rows (those with a label)"
        )
        assert columns == NAMES
        assert rows == {NAMES[i]: [sum(1 for g, p in pairs if g == i and p == j) for j in range(4)] for i in range(4)}
        assert rows["surprise"] == [0, 0, 0, 0]

    def test_gold_is_in_the_rows(self, tmp_path, monkeypatch):
        drawn, draw = [], Axes.imshow
        monkeypatch.setattr(Axes, "imshow", lambda self, X, **kw: drawn.append((self, X)) or draw(self, X, **kw))
        gold, predicted = [0, 0, 0, 1, 2], [1, 1, 0, 1, 1]
        write_reports(tmp_path, "t", np.array(gold), np.eye(4)[predicted], NAMES)
        counts = [[1, 2, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
        assert read_matrix(tmp_path)[2] == dict(zip(NAMES, counts, strict=True))
        axes, shares = drawn[-1]
        assert shares.tolist() == [[1 / 3, 2 / 3, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
        assert (axes.get_ylabel(), axes.get_xlabel()) == ("gold", "predicted")
        numbers = {(text.get_position()[1], text.get_position()[0]): text.get_text() for text in axes.texts}
        assert len(numbers) == 16 and (numbers[0, 1], numbers[1, 0]) == ("2", "0")
        assert axes.get_ylim() == (3.5, -0.5)  # the first class is on top, as in the text

    def test_more_classes_than_half_of_the_rows(self, tmp_path):
        gold = np.arange(30)
        write_reports(tmp_path, "t", gold, np.eye(30), [f"label {i}" for i in gold])
        assert read_report(tmp_path)["accuracy"] == ["1.000", "30"]


class TestMultiLabel:
    def test_figures(self, tmp_path):
        gold, probabilities = multi_label_case()
        thresholds = [0.3, 0.4, 0.5, 0.6]
        write_reports(tmp_path, "t", gold, probabilities, NAMES, thresholds)
        assert set(files_in(tmp_path)) == TEXTS | PICTURES
        averages = ["micro avg", "macro avg", "weighted avg", "samples avg"]
        check_report(read_report(tmp_path), gold, probabilities > thresholds, averages)
        header, columns, rows = read_matrix(tmp_path)
        one = [(list(g).index(1), int(p.argmax())) for g, p in zip(gold, probabilities, strict=True) if sum(g) == 1]
        assert 0 < len(one) < len(gold)
        assert "rows = gold, columns = predicted" in header
        assert header.endswith(f"{len(one)} of 200 rows (those with exactly one gold label)")
        assert columns == NAMES
        assert rows == {NAMES[i]: [one.count((i, j)) for j in range(4)] for i in range(4)}

    def test_thresholds_are_strict(self, tmp_path):
        gold, probabilities = np.array([[1, 0], [1, 1]]), np.array([[0.5, 0.25], [0.75, 0.5]])
        write_reports(tmp_path, "t", gold, probabilities, ["a", "b"], [0.5, 0.25])
        assert read_report(tmp_path)["a"] == ["1.000", "0.500", "0.667", "2"]
        assert read_report(tmp_path)["b"] == ["1.000", "1.000", "1.000", "1"]

    def test_no_row_with_one_label_and_one_label(self, tmp_path):
        write_reports(tmp_path, "t", np.array([[1, 1], [0, 0]]), np.full((2, 2), 0.9), ["a", "b"], [0.5, 0.5])
        header, _, rows = read_matrix(tmp_path)
        assert "0 of 2 rows" in header and rows == {"a": [0, 0], "b": [0, 0]}
        assert set(files_in(tmp_path)) == TEXTS | PICTURES
        write_reports(tmp_path, "t", np.array([[1], [0], [1]]), np.array([[0.9], [0.8], [0.1]]), ["a"], [0.5])
        assert read_report(tmp_path)["a"] == ["0.500", "0.500", "0.500", "2"]
        assert read_matrix(tmp_path)[2] == {"a": [2]}


class TestNames:
    @pytest.mark.parametrize("classes", [2, *(pytest.param(many, marks=pytest.mark.slow) for many in (60, 300))])
    def test_pictures_and_columns(self, tmp_path, monkeypatch, classes):
        written, write = [], Axes.text
        monkeypatch.setattr(Axes, "text", lambda self, *a, **kw: written.append(self) or write(self, *a, **kw))
        kinds = ["🫠🫡", "$x_{$", r"\$\frac{a}$ [b] (c)", "悲しい", "m$n$ %s {}", "W" * 70, "two\nlines\tand a tab"]
        names = [f"{kinds[i % 7]} {i}" for i in range(classes)]
        gold = np.arange(3 * classes) % classes
        with drawn_pictures():
            write_reports(tmp_path, "🫠 $x^{$ " + "long " * 30, gold, np.eye(classes)[gold[::-1]], names)
        _, columns, rows = read_matrix(tmp_path)
        assert columns == list(rows) == [" ".join(name.split()) for name in names]
        assert all(len(counts) == classes for counts in rows.values())
        sizes = [png_size(tmp_path / name) for name in sorted(PICTURES)]
        assert all(300 < side < 4000 for size in sizes for side in size)
        assert sum(axes.get_ylabel() == "gold" for axes in written) == (classes**2 if classes <= 60 else 0)

    def test_names_that_are_equal(self, tmp_path):
        write_reports(tmp_path, "t", np.array([0, 1, 2, 3]), np.eye(4), ["accuracy", "macro avg", "macro avg", "0"])
        text = (tmp_path / "classification_report.txt").read_text(encoding="utf-8")
        assert text.count("macro avg") == 3 and text.count("accuracy") == 2
        assert set(files_in(tmp_path)) == TEXTS | PICTURES


def test_without_matplotlib(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("importlib.util.find_spec", lambda *arguments: None)
    write_reports(tmp_path, "t", *single_label_case(), NAMES)
    assert set(files_in(tmp_path)) == TEXTS
    assert len(caplog.records) == 1 and "pip install 'hf-emotion[plots]'" in caplog.text


def test_nothing_half_written(tmp_path, monkeypatch):
    def interrupted(self, path, **options):
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    (tmp_path / "confusion_matrix.png").write_bytes(b"old")
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_reports(tmp_path, "t", *single_label_case(), NAMES)
    assert set(files_in(tmp_path)) == TEXTS | PICTURES and files_in(tmp_path)["confusion_matrix.png"] == b"old"


def test_a_card_holds_what_the_task_says(tmp_path, monkeypatch):
    sections = {"Use": ["Ask it."], "Results": [table(["part", "BLEU"], [["test", "0.12"]]), "No spread."]}
    said = Card(
        **{"pipeline_tag": "fill-mask", "task_type": "fill-mask", "tags": ["weather"], "metrics": ["bleu"]},
        **{"corpora": ["goemotions", "meld"], "about": "It foretells the weather.", "sections": sections},
        figures=[Figure("bleu", "BLEU of the forecasts", 0.123456)],
    )
    asked = []
    task = SimpleNamespace(card=lambda *given: asked.append(given) or said)
    monkeypatch.setattr(card, "task_of_run", lambda report: task)
    recipe = make_recipe({"name": "a|b", "base_model": "some/base", "dataset": "goemotions", "paper": "Frost 1999"})
    report, best = run_report(summary={"validation": {}}), seed_run(seed=3)
    card.write_card(tmp_path, recipe, report, best)
    assert asked == [(tmp_path, recipe, report, best)]
    written = ModelCard.load(tmp_path / "README.md")
    data, body = written.data, written.text.strip()
    assert (data.pipeline_tag, data.tags, data.metrics) == ("fill-mask", ["weather"], ["bleu"])
    assert (data.language, data.base_model) == ("en", "some/base")
    assert data.datasets == ["google-research-datasets/go_emotions"]
    (figure,) = data.eval_results
    assert (figure.metric_type, figure.metric_name, figure.metric_value) == ("bleu", "BLEU of the forecasts", 0.1235)
    assert (figure.task_type, figure.dataset_name, figure.dataset_split) == ("fill-mask", "goemotions", "validation")
    parts = body.split("\n\n")
    assert parts[0] == "# a\\|b" and parts[2] == said.about
    lines = "| part | BLEU |\n|---|---:|\n| test | 0.12 |"
    assert parts[3:9] == ["## Use", "Ask it.", "## Results", lines, "No spread.", "## Citation"]
    assert "Frost 1999" in parts[9]


@pytest.mark.parametrize(
    ("corpora", "named", "expected"),
    [
        (["goemotions", "quickstart"], None, "apache-2.0"),
        (["meld"], None, "other"),  # GPL-3.0
        (["goemotions", "daily_dialog"], None, "other"),  # not commercial
        (["meld"], "GPL-3.0", "gpl-3.0"),
        (["files"], None, None),
        (["files"], "MIT", "mit"),
    ],
)
def test_the_licence_is_that_of_the_training_data_where_it_has_terms(corpora, named, expected):
    recipe = make_recipe(
        {"name": "a", "base_model": "some/base", "dataset": corpora[0]} | ({"data_license": named} if named else {})
    )
    found = card._licence(recipe, [corpus_of(name) for name in corpora])
    assert found.get("license") == expected and ("license_name" in found) == (expected == "other")


@pytest.mark.parametrize("several", [True, False])
def test_curves_of_a_training(several, tmp_path, monkeypatch):
    measured = {"argmax": {"per_label": {"joy": {"f1": 0.5, "support": 2}}}}
    evaluated = {"eval_loss": 1.5, "eval_perplexity": 8.0} | ({"eval_macro_f1": 0.25} if several else {})
    fields = {"history": [{"step": 1, "loss": 2.0}, {"step": 1, **evaluated}], "selected_by": "perplexity"}
    run = seed_run(validation=measured if several else {"teacher_forcing": {"perplexity": 3.0}}, **fields)
    drawn, save = [], plots.save_figure
    monkeypatch.setattr(plots, "save_figure", lambda figure, *rest: drawn.append(figure) or save(figure, *rest))
    plots.write_plots(tmp_path, run_report(runs=[run]), run)
    assert len(files_in(tmp_path)) == len(drawn) == 1 + several
    axes = drawn[0].axes[1]
    shown = (axes.get_ylabel(), axes.lines[0].get_ydata().tolist())
    assert shown == (("macro-F1", [0.25]) if several else ("perplexity", [8.0]))
