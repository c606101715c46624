# SPDX-License-Identifier: Apache-2.0
"""Labels that were not annotated, and values in the place of labels: corpora, losses, metrics, and whole runs of tiny models."""

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
import torch
from hf_emotion.modeling.common import classification_loss
from hf_emotion.modeling.configuration_label_aware import LabelAwareConfig
from hf_emotion.modeling.text_processing import value_of
from huggingface_hub.errors import StrictDataclassError
from model_cases import BY_ID, TINY_BERT
from safetensors.torch import load_file
from served import running
from sklearn.metrics import f1_score
from toolkit_helpers import assert_close, invoke, recipe_for, write_csv
from transformers import BertConfig, BertForSequenceClassification, pipeline

from hf_emotion import Predictor, load_dataset_for, metrics
from hf_emotion.data.splits import label_names
from hf_emotion.runs.train import train
from hf_emotion.runtime.remote import Client
from hf_emotion.tasks.emotion_classification import TASK
from hf_emotion.tasks.emotion_classification.remote import RemotePredictor
from hf_emotion.tasks.rows import class_counts, gold_of
from hf_emotion.tasks.sequence_classification import build_classifier, stock_loss


pytest_plugins = ["toolkit_fixtures"]
pytestmark = pytest.mark.usefixtures("single_thread")

LABELLED = {"label_columns": ["joy", "anger"]}
NAN = math.nan
ENGLISH, GERMAN = "joy,anger|1,0|0,1", "anger,disgust,joy|1,1,0|0,0,1"
BRIGHTER = {"a/train/eng": ENGLISH, "a/dev/eng": ENGLISH, "a/train/deu": GERMAN, "a/dev/deu": GERMAN}
BRIGHTER |= {"a/test/eng": "joy,anger|,|,", "c/test/eng": "joy,anger|0,1|1,0"}
BRIGHTER |= {"c/dev/zul": "fear|1", "b/train/eng": "joy,anger|3,0|1,2"}


EKMAN_SIX = ("anger", "disgust", "fear", "joy", "sadness", "surprise")


@pytest.fixture
def brighter(tmp_path) -> Path:
    """Two languages with other emotions, one without a test part; the labels of the English test part stand in track C."""
    for place, content in BRIGHTER.items():
        track, part, language = place.split("/")
        header, *cells = [line.split(",") for line in content.split("|")]
        rows = [[f"{track}{i}", f'a "{part}" day,\nnumber {i}', *own] for i, own in enumerate(cells)]
        write_csv(tmp_path / "brighter" / f"track_{track}" / part / f"{language}.csv", ["id", "text", *header], rows)
    return tmp_path


class TestBrighter:
    def test_labels_that_a_language_lacks_are_missing(self, brighter):
        splits = load_dataset_for("brighter", brighter, languages=["eng", "deu"])
        train = splits["train"]
        assert train.features["labels"].feature.names == ["anger", "disgust", "joy"]
        assert gold_of(train).values.tolist() == [[0, -1, 1], [1, -1, 0], [1, 1, 0], [0, 0, 1]]
        assert train["language"] == ["eng", "eng", "deu", "deu"] and train["id"][2] == "deu:a0"
        assert class_counts(TASK, train) == {"anger": 2, "disgust": 1, "joy": 2}
        # Of German there is no test part; the English labels are found by their texts.
        assert gold_of(splits["test"]).values.tolist() == [[1, -1, 0], [0, -1, 1]]
        assert splits["test"]["id"] == ["eng:a0", "eng:a1"]

    def test_options(self, brighter):
        alone = load_dataset_for("brighter", brighter, languages=["eng"])["train"]
        assert alone.features["labels"].feature.names == ["anger", "joy"] and "unannotated" not in alone.features
        named = load_dataset_for("brighter", brighter, languages=["eng"], labels=["joy", "surprise"])["train"]
        assert gold_of(named).values.tolist() == [[1, -1], [0, -1]]
        assert list(load_dataset_for("brighter", brighter, languages=["zul"])) == ["validation"]
        strong = load_dataset_for("brighter", brighter, languages=["eng"], track="intensities")["train"]
        assert strong["targets"][0] == {"anger": 0.0, "joy": 3.0}
        for options, found in (
            ({"languages": ["ger"]}, "`languages` must be of"),
            ({"track": "b"}, "track.* must be"),
            ({"languages": ["zul"], "track": "intensities"}, "`languages`"),
            ({"languages": ["fra"]}, "`languages`"),
            ({"languages": ["swe"]}, "the folder `brighter`"),
        ):
            with pytest.raises((ValueError, FileNotFoundError), match=found):
                load_dataset_for("brighter", brighter, **options)

    def test_fewer_rows_of_a_language_and_plain_sentences(self, brighter):
        plain = load_dataset_for("plain_sentences")
        options = {"languages": ["eng", "deu"], "rows_per_language": 1}
        alone = load_dataset_for("brighter", brighter, **options)
        assert alone["train"]["language"] == ["eng", "deu"] and len(alone["test"]) == 2
        added = load_dataset_for("brighter", brighter, **options, plain_copies=2)
        assert added["test"]["id"] == alone["test"]["id"]  # in training alone
        train, sentences = added["train"], plain["train"]
        assert len(train) == 2 + 2 * len(sentences) and [*train["text"]][2:] == [*sentences["text"]] * 2
        assert label_names(train) == label_names(sentences) == [*EKMAN_SIX]
        assert [*train["labels"]][2:] == [*sentences["labels"]] * 2
        assert [*train["unannotated"]][2:] == [[]] * 2 * len(sentences)
        for wrong in ({"plain_copies": -1}, {"plain_copies": 1, "track": "intensities"}):
            with pytest.raises(ValueError, match="`plain_copies` must be 0 or more"):
                load_dataset_for("brighter", brighter, languages=["eng"], **wrong)

    def test_damaged_files(self, brighter):
        path = brighter / "brighter" / "track_a" / "train" / "deu.csv"
        path.write_text(path.read_text().replace("1,1,0", "1,2,0"))
        with pytest.raises(ValueError, match=r"deu.csv, line 3: malformed .*emotions must be 0 or 1"):
            load_dataset_for("brighter", brighter, languages=["deu"])


def test_the_plain_sentences():
    """As many of each emotion, and of none, in every language; none is trained and measured on."""
    train, test = (load_dataset_for("plain_sentences")[part] for part in ("train", "test"))
    counts = Counter((code, tuple(labels)) for code, labels in zip(test["language"], test["labels"], strict=True))
    assert set(counts.values()) == {3} and len(counts) == 10 * (6 + 1)
    assert not set(train["text"]) & set(test["text"])
    assert len(load_dataset_for("plain_sentences", language="pol")["test"]) == 21


def test_emobank(tmp_path):
    rows = ["a|train|3|2.5|4|so, calm", "b|dev|1|2|3|sad", "c|test|5|4|3|joy"]
    header = ["id", "split", "V", "A", "D", "text"]
    write_csv(tmp_path / "emobank" / "emobank.csv", header, [row.split("|") for row in rows])
    splits = load_dataset_for("emobank", tmp_path)
    assert splits["train"]["targets"] == [{"valence": 3.0, "arousal": 2.5, "dominance": 4.0}]
    assert [splits[part]["id"] for part in splits] == [["a"], ["b"], ["c"]]


class TestOwnFiles:
    def test_an_empty_cell_was_not_annotated(self, tmp_path):
        def load(*rows: list[str], **options):
            write_csv(tmp_path / "train.csv", ["text", "anger", "joy"], list(rows))
            options |= {"label_columns": ["joy", "anger"], "validation_fraction": 0.0}
            return gold_of(load_dataset_for("files", tmp_path, **options)["train"]).values.tolist()

        assert load(["a", "1", ""], ["b", "0", "1"], ["c", "", "0"]) == [[-1, 1], [1, 0], [0, -1]]
        assert load(["a", "1", ""], ["b", "0", "0"], labels=["anger"]) == [[1], [0]]
        with pytest.raises(ValueError, match="line 3: all label columns are empty"):
            load(["a", "1", "0"], ["b", "", ""])

    def test_columns_of_numbers(self, tmp_path):
        cells = [["x", "1.5", ""], ["y", "-2", "3"], ["z", "0", "1"]]
        path = write_csv(tmp_path / "own.csv", ["text", "v", "a"], cells)
        splits = load_dataset_for("files", path, targets=["a", "v"], validation_fraction=0.34)
        found = [*splits["train"]["targets"], *splits["validation"]["targets"]]
        assert len(splits["validation"]) == 2 and {"a": None, "v": 1.5} in found and {"a": 3.0, "v": -2.0} in found
        for cells, options, message in (
            (["x", "many", "1"], {}, r"line 2: 'v' must hold a number"),
            (["x", "", ""], {}, r"line 2: at least one of the columns"),
            (["x", "1", "1"], {"label_columns": ["a"]}, "`targets` are numbers, and `label_columns` is for labels"),
        ):
            write_csv(path, ["text", "v", "a"], [cells])
            with pytest.raises(ValueError, match=message):
                load_dataset_for("files", path, targets=["v", "a"], **options)


class TestLoss:
    LOGITS = [[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]]

    def loss_and_gradient(self, labels, **fields) -> tuple[float, torch.Tensor]:
        logits = torch.tensor(self.LOGITS, requires_grad=True)
        names = {"id2label": dict(enumerate("abc")), "label2id": {name: i for i, name in enumerate("abc")}}
        loss = classification_loss(logits, torch.tensor(labels), LabelAwareConfig(**names, **fields))
        loss.backward()
        return loss.item(), logits.grad

    def test_labels_that_were_not_annotated_change_nothing(self):
        labels = [[1.0, NAN, 0.0], [NAN, NAN, 1.0]]
        loss, gradient = self.loss_and_gradient(labels)
        sure = [1 / (1 + math.exp(-logit)) for logit in (0.5, 2.0, -0.75)]
        each = [-math.log(sure[0]), -math.log(1 - sure[1]), -math.log(sure[2])]
        assert loss == pytest.approx(sum(each) / 3, rel=1e-5)
        assert (gradient != 0).tolist() == [[True, False, True], [False, False, True]]
        nothing, gradient = self.loss_and_gradient([[NAN] * 3] * 2)
        assert nothing == 0 and not gradient.any()

    def test_values(self):
        fields = {"problem_type": "regression", "value_range": [0, 3]}
        values = [[3.0, NAN, 1.0], [0.0, NAN, NAN]]
        loss, gradient = self.loss_and_gradient(values, **fields)
        assert loss == pytest.approx(((0.5 - 3) ** 2 + (2 - 1) ** 2 + 1.5**2) / 3)
        assert not gradient[:, 1].any()
        ordinal, gradient = self.loss_and_gradient(values, **fields, regression_loss="ordinal", ordinal_slope=2.0)
        each = []
        for logit, value in ((0.5, 3), (2.0, 1), (1.5, 0)):
            for cut in (0.5, 1.5, 2.5):
                above = 1 / (1 + math.exp(-2 * (logit - cut)))
                each.append(-math.log(above if value > cut else 1 - above))
        assert ordinal == pytest.approx(sum(each) / 9, rel=1e-5) and not gradient[:, 1].any()

    def test_predicted_values(self):
        config = LabelAwareConfig(problem_type="regression", value_range=[1, 3])
        assert [value_of(logit, config) for logit in (0.5, 1.25, 7.0)] == [1, 1.25, 3]
        config.regression_loss = "ordinal"
        steps = [1 / (1 + math.exp(-3 * (2.1 - cut))) for cut in (1.5, 2.5)]
        assert value_of(2.1, config) == pytest.approx(1 + sum(steps))
        assert value_of(-1e9, config) == pytest.approx(1) and value_of(1e9, config) == pytest.approx(3)

    def test_configuration(self):
        for fields, message in (
            ({}, "regression needs `value_range`"),
            ({"value_range": [3, 0]}, "regression needs `value_range`"),
            ({"value_range": [0, 2.5], "regression_loss": "ordinal"}, "needs whole numbers"),
        ):
            with pytest.raises(StrictDataclassError, match=message):
                LabelAwareConfig(problem_type="regression", **fields)

    @pytest.mark.parametrize("case_id", ["label-aware-untied", "esa-multi-label-thresholds", None], ids=str)
    def test_no_weight_of_a_label_moves(self, case_id):
        """Of every kind of model: the head's rows of a label that no row annotates get no gradient."""
        fields = {"num_labels": 5, "problem_type": "multi_label_classification"}
        model = BY_ID[case_id].build() if case_id else BertForSequenceClassification(BertConfig(**TINY_BERT, **fields))
        ids, labels = torch.tensor([[5, 6, 7], [7, 8, 9]]), torch.tensor([[1, NAN, 0, 0, 1], [0, NAN, NAN, 1, 0]])
        loss = model(ids, labels=labels).loss if case_id else stock_loss(model.config)(model(ids), labels)
        loss.backward()
        assert loss.isfinite()
        own = {name: part for name, part in model.named_parameters() if not name.startswith(model.base_model_prefix)}
        head = {name: part.grad for name, part in own.items() if part.shape[0] == 5}
        assert head
        for name, gradient in head.items():
            moved = gradient.reshape(5, -1).abs().sum(dim=1) > 0
            assert moved.tolist() == [True, False, True, True, True], name


class TestMetrics:
    def test_f1_of_what_was_annotated(self):
        generator = np.random.default_rng(0)
        labels, scores = generator.integers(-1, 2, (60, 4)), generator.random((60, 4))
        labels[:, 3] = -1
        found = metrics.goemotions(labels, scores, 0.4, ["a", "b", "c", "d"])
        annotated = [labels[:, i] >= 0 for i in range(3)]
        each = [f1_score(labels[rows, i], scores[rows, i] > 0.4) for i, rows in enumerate(annotated)]
        assert found["macro_f1"] == pytest.approx(np.mean(each))
        assert [found["per_label"][name]["f1"] for name in "abc"] == pytest.approx(each)
        assert math.isnan(found["per_label"]["d"]["f1"]) and found["per_label"]["d"]["support"] == 0

    def test_thresholds_and_temperature_ignore_the_rest(self):
        generator = np.random.default_rng(1)
        labels, scores = generator.integers(0, 2, (80, 2)), generator.random((80, 2))
        more = np.concatenate([labels, np.full((40, 2), -1)])
        wild = np.concatenate([scores, generator.random((40, 2)) ** 8])
        assert metrics.tune_thresholds(more, wild) == pytest.approx(metrics.tune_thresholds(labels, scores))
        assert metrics.fit_temperature(more, wild) == pytest.approx(metrics.fit_temperature(labels, scores), rel=1e-3)
        assert metrics.row_losses(np.array([[1, -1]]), np.array([[1, 1]])).tolist() == [0.0]

    def test_values(self):
        generator = np.random.default_rng(2)
        gold = generator.normal(size=(50, 2))
        own = gold * [[0.5, 1]] + generator.normal(size=(50, 2)) + [[1, 0]]
        gold[:10, 1] = np.nan
        found = metrics.regression(gold, own, ["x", "y"])
        r, ccc = [], []
        for x, y in ((gold[:, 0], own[:, 0]), (gold[10:, 1], own[10:, 1])):
            r.append(np.corrcoef(x, y)[0, 1])
            ccc.append(2 * r[-1] * x.std() * y.std() / (x.std() ** 2 + y.std() ** 2 + (x.mean() - y.mean()) ** 2))
        assert [found["per_target"][name]["pearson"] for name in "xy"] == pytest.approx(r)
        assert [found["per_target"][name]["ccc"] for name in "xy"] == pytest.approx(ccc)
        assert found["pearson"] == pytest.approx(np.mean(r)) and found["per_target"]["y"]["rows"] == 40
        assert found["per_target"]["x"]["mae"] == pytest.approx(np.abs(gold[:, 0] - own[:, 0]).mean())
        equal = metrics.regression(np.array([[1.0, 2.0], [2.0, 2.0]]), np.array([[1.0, 1.0], [1.0, 2.0]]), ["x", "y"])
        assert equal["per_target"]["x"]["pearson"] == 0 and math.isnan(equal["per_target"]["y"]["pearson"])
        assert equal["pearson"] == 0


def values_recipe(base: Path, arguments: dict | None = None, **changes):
    values = {"name": "values", "dataset": "files", "dataset_options": {"targets": ["joy", "anger"]}}
    values |= {"train_fraction": 1, "model_config": {"value_range": [0, 3], "tie_head": False}}
    learning = {"num_train_epochs": 6, "learning_rate": 5e-3, **(arguments or {})}
    return recipe_for(base, learning, **{**values, **changes})


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """Texts whose words tell a joy from 0 to 3; every third has no anger."""
    joy, folder = ("the day", "a calm day", "i am so happy", "joy of the sun"), tmp_path_factory.mktemp("values")
    for part, count in (("train", 48), ("dev", 16), ("test", 16)):
        rows = [[f"{joy[i % 4]}", str(i % 4), "" if i % 3 == 0 else str(3 - i % 4)] for i in range(count)]
        write_csv(folder / f"{part}.csv", ["text", "joy", "anger"], rows)
    return folder


@pytest.fixture(scope="module")
def values_run(tmp_path_factory, base_bert, data) -> Path:
    output = tmp_path_factory.mktemp("runs") / "values"
    train(values_recipe(base_bert), output, data_dir=data)
    return output


def write_labels(folder: Path, cells: list[list[str]], parts=("train", "dev")) -> Path:
    for part in parts:
        rows = [[f"the day {'sun ' * i}", *own] for i, own in enumerate(cells)]
        write_csv(folder / f"{part}.csv", ["text", "joy", "anger"], rows)
    return folder


class TestRuns:
    def test_report(self, values_run):
        report = json.loads((values_run / "metrics.json").read_text())
        (run,) = report["runs"]
        assert run["selected_by"] == "pearson" and run["test"]["values"]["pearson"] > 0.8
        assert "thresholds" not in run and set(run["test"]["values"]["per_target"]) == {"joy", "anger"}
        table = pyarrow.parquet.read_table(values_run / "values.parquet").to_pylist()
        assert len(table) == 32 and table[0]["gold"][0] == 0 and math.isnan(table[0]["gold"][1])
        found = Predictor(values_run).probabilities("the day")[0]
        assert table[0]["values"] == pytest.approx(found.tolist(), abs=1e-4)
        assert "| joy |" in (values_run / "README.md").read_text()

    def test_one_answer_everywhere(self, values_run, tmp_path):
        texts = ["the day", "joy of the sun"]
        expected = Predictor(values_run)(texts)
        assert [[item["label"] for item in own] for own in expected] == [["joy", "anger"]] * 2
        assert expected[0][0]["score"] < expected[1][0]["score"]
        assert all(0 <= item["score"] <= 3 for own in expected for item in own)
        invoke("export", values_run, "--output", tmp_path / "onnx")
        piped = pipeline("emotion-classification", model=str(values_run), trust_remote_code=True)
        with running([values_run]) as (address, _):
            served = RemotePredictor(Client(address)).predict(texts)[0]
        for found in (Predictor(tmp_path / "onnx")(texts), piped(texts), served):
            assert_close(found, expected, abs=1e-3)
        assert piped(texts[1], top_k=1)[0]["label"] == "joy"
        with pytest.raises(ValueError, match="takes neither `threshold`"):
            piped(texts, threshold=0.5)

    def test_over_a_base_of_labels_with_the_same_names(self, base_bert, data, tmp_path):
        labelled = write_labels(tmp_path / "data", [[str(i % 2), str((i + 1) % 2)] for i in range(48)])
        fields = {"model_config": {"tie_head": False}, "dataset_options": LABELLED, "abstain": {"coverage": 0.5}}
        train(values_recipe(base_bert, **fields), tmp_path / "labels", data_dir=labelled)
        assert Predictor(tmp_path / "labels").model.config.abstention is not None
        train(values_recipe(tmp_path / "labels"), tmp_path / "values", data_dir=data)
        config = Predictor(tmp_path / "values").model.config
        assert (config.thresholds, config.abstention, config.calibration_temperature) == (None, None, None)

    def test_commands(self, values_run, data):
        shown = invoke("predict", values_run, "joy of the sun", terminal=True)
        assert "value" in shown and "probability" not in shown
        assert "value" in invoke("explain", values_run, "joy of the sun")
        assert "pearson" in invoke("evaluate", values_run, "--data-dir", data)

    @pytest.mark.parametrize("model_config", [{}, {"regression_loss": "ordinal"}], ids=["mse", "ordinal"])
    def test_stock_models(self, model_config, base_bert, data, tmp_path, no_plots):
        recipe = values_recipe(base_bert, model_type=None, model_config={"value_range": [0, 3], **model_config})
        report = train(recipe, tmp_path / "run", data_dir=data)
        assert report.summary["test"]["values"]["pearson"]["mean"] > 0.5
        predictor = Predictor(tmp_path / "run")
        assert predictor.model.config.regression_loss == model_config.get("regression_loss", "mse")
        fields = {**recipe.model_config, "problem_type": "regression"}
        given = (str(tmp_path / "run"), None, fields, predictor.tokenizer, ["joy", "anger"], True, [1, 1])
        trained_further = build_classifier(*given, frequencies=[2.0, 2.0])
        assert torch.equal(trained_further.classifier.bias, predictor.model.classifier.bias)

    def test_what_does_not_fit(self, base_bert, data, tmp_path):
        for changes, message in (
            ({"abstain": {"coverage": 0.9}}, "`abstain` is for labels"),
            ({"class_weights": "balanced"}, "`class_weights` is for labels"),
            ({"model_config": {"problem_type": "multi_label_classification"}}, "the rows have values"),
            ({"model_config": {"value_range": [0, 2]}}, "values from 0.0 to 3.0"),
        ):
            with pytest.raises(ValueError, match=message):
                train(values_recipe(base_bert, **changes), tmp_path / "run", data_dir=data)

    @pytest.mark.parametrize("model_type", [None, "label-aware-bert"], ids=["stock", "label-aware"])
    def test_accumulated_batches_are_one_large_batch(self, model_type, base_bert, tmp_path, no_plots):
        """The last of the small batches has one annotated label, and the first many."""
        cells = [["1" if i % 2 else "0", "" if i > 3 else "01"[i % 2]] for i in range(12)]
        labelled, found = write_labels(tmp_path / "data", cells), []
        config = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0)
        config |= {} if model_type is None else {"classifier_dropout": 0.0, "tie_head": False}
        for batch, steps in ((12, 1), (4, 3)):
            arguments = {
                "per_device_train_batch_size": batch,
                "gradient_accumulation_steps": steps,
                "max_grad_norm": 0.0,
            }
            arguments |= {"optim": "sgd", "learning_rate": 0.5, "lr_scheduler_type": "constant"}
            arguments |= {"num_train_epochs": 1, "load_best_model_at_end": False}
            fields = {"model_type": model_type, "model_config": config, "dataset_options": LABELLED}
            train(values_recipe(base_bert, arguments, **fields), tmp_path / f"run-{batch}", data_dir=labelled)
            found.append(load_file(tmp_path / f"run-{batch}" / "model.safetensors"))
        torch.testing.assert_close(*found, rtol=1e-3, atol=1e-5)

    @pytest.mark.parametrize("train_cells", [["0", "1"], ["", "1"]], ids=["all-in-training", "masked-in-training"])
    def test_the_validation_loss_is_a_mean_over_what_was_annotated(self, train_cells, base_bert, tmp_path):
        """Of a stock model, even where its training rows have every label."""
        for part, cells in (("train", train_cells), ("dev", ["", "1"])):
            write_labels(tmp_path / "data", [[str(i % 2), cells[i % 2]] for i in range(8)], [part])
        arguments = {"num_train_epochs": 1, "learning_rate": 0.0, "load_best_model_at_end": False}
        recipe = values_recipe(base_bert, arguments, model_type=None, model_config={}, dataset_options=LABELLED)
        report = train(recipe, tmp_path / "run", data_dir=tmp_path / "data")
        dev = load_dataset_for("files", tmp_path / "data", **LABELLED)["validation"]
        scores, gold = Predictor(tmp_path / "run").probabilities(dev["text"], raw=True), gold_of(dev).values
        each = -np.log(np.where(gold == 1, scores, 1 - scores))[gold >= 0]
        (found,) = [entry["eval_loss"] for entry in report.runs[0].history if "eval_loss" in entry]
        assert found == pytest.approx(each.mean(), rel=1e-4)
