# SPDX-License-Identifier: Apache-2.0
"""Targeted aspect sentiment: whole runs of tiny models, prediction, commands, and what contexts do inside a model."""

import json
import math
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple
from unittest.mock import Mock

import numpy as np
import pytest
import toolkit_helpers as kit
import torch
from authors_weights import ABSA_SIZES, absa_weights, save_reference
from huggingface_hub import ModelCard
from toolkit_fixtures import trained_run
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertForSequenceClassification,
    pipeline,
)

from hf_emotion import (
    CGBertForSequenceClassification,
    LabelAwareBertConfig,
    QACGBertForSequenceClassification,
    TargetedPredictor,
    load_dataset_for,
    load_recipe,
    metrics,
    train,
)
from hf_emotion.recipes import make_recipe
from hf_emotion.reports.analyze import analyze
from hf_emotion.reports.card import write_card
from hf_emotion.run_report import RunReport
from hf_emotion.runs.evaluate import evaluate
from hf_emotion.tasks import task_of_rows
from hf_emotion.tasks.sequence_classification import make_collator, tokenize
from hf_emotion.tasks.targeted_sentiment import TASK
from hf_emotion.tasks.targeted_sentiment.building import all_aspects, shares
from hf_emotion.tasks.targeted_sentiment.guidance import collect, describe
from hf_emotion.training.seeds import EmotionTrainer, Fitted, SeedTraining


pytest_plugins = ["toolkit_fixtures"]
pytestmark = pytest.mark.usefixtures("single_thread")
LOCATIONS = ["LOCATION1", "LOCATION2"]
LOCATION_TEXTS = ["location - 1", "location - 2"]
HOOD_ASPECTS, FOOD_ASPECTS = list(kit.SENTIHOOD_CUES), list(kit.SEMEVAL_CUES)
FILES = {"dataset": "aspect_files", "dataset_options": {"target_column": "target"}}
STOCK = {"model_type": None, "model_config": {"initializer_range": 1.0}}


def context_guidance(*arguments, **options):
    return describe(*collect(*arguments, **options))


@pytest.fixture
def run(request) -> Path:
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def qacg(qacg_run) -> TargetedPredictor:
    return TargetedPredictor(qacg_run, device="cpu")


@pytest.fixture(scope="module")
def cg(cg_run) -> TargetedPredictor:
    return TargetedPredictor(cg_run, device="cpu")


EACH_CORPUS = pytest.mark.parametrize("run", ["qacg_run", "pair_run", "cg_run", "at_once_run"], indirect=True)


def bare_text(text: str) -> str:
    """A sentence of the corpus with the targets as the model reads them; glued placeholders get their blank."""
    for name, words in zip(LOCATIONS, LOCATION_TEXTS, strict=True):
        text = text.replace(f"in{name}", f"in {words}").replace(name, words)
    return text


def role_text(text: str, target: str) -> str:
    """A sentence of the corpus as label-aware attention reads it for a target."""
    for name in LOCATIONS:
        words = "this one" if name == target else "another one"
        text = text.replace(f"in{name}", f"in {words}").replace(name, words)
    return text


class Question(NamedTuple):
    id: str
    text: str  # as it is typed
    segments: list[str]  # as the tokenizer gets them
    context: int
    label: str


def questions(run: Path, part: str = "test") -> list[Question]:
    """The rows of a part, from the sentences of the corpus."""
    if run.parent.name.startswith("cg"):
        return [
            Question(f"{number}/{aspect}", text, [text], context, labels.get(aspect, "none"))
            for number, text, labels in kit.semeval2014_sentences(*kit.SEMEVAL_PARTS["Test_Gold"])
            for context, aspect in enumerate(FOOD_ASPECTS)
        ]
    texts = {str(s["id"]): s["text"] for s in kit.sentihood_sentences(*kit.SENTIHOOD_PARTS[part])}
    if run.parent.name.startswith("at_once"):
        return [
            Question(
                *(f"{number}/{target}/{aspect}", texts[number], [role_text(texts[number], target)]),
                *(HOOD_ASPECTS.index(aspect), label),
            )
            for number, target, aspect, label in kit.sentihood_gold(part)
        ]
    return [
        Question(
            *(f"{number}/{target}/{aspect}", texts[number]),
            [bare_text(texts[number]), f"location - {target[-1]} - {aspect}"],
            *(4 * LOCATIONS.index(target) + HOOD_ASPECTS.index(aspect), label),
        )
        for number, target, aspect, label in kit.sentihood_gold(part)
    ]


def plain_outputs(run: Path, asked: list[Question], **options) -> list:
    """What the plain model gives, one row and no padding at a time."""
    model = AutoModelForSequenceClassification.from_pretrained(run).eval()
    tokenizer, found = AutoTokenizer.from_pretrained(run), []
    for question in asked:
        inputs = tokenizer(*question.segments, return_tensors="pt")
        if not isinstance(model, BertForSequenceClassification):
            inputs["context_ids"] = torch.tensor([question.context])
        with torch.no_grad():
            found.append(model(**inputs, **options))
    return found


class TestRunFolder:
    @pytest.mark.parametrize(
        ("run", "model_class", "aspects", "targets", "texts", "auxiliary"),
        [
            ("qacg_run", QACGBertForSequenceClassification, HOOD_ASPECTS, LOCATIONS, LOCATION_TEXTS, True),
            ("pair_run", BertForSequenceClassification, HOOD_ASPECTS, LOCATIONS, LOCATION_TEXTS, True),
            ("cg_run", CGBertForSequenceClassification, FOOD_ASPECTS, None, None, False),
            ("places_run", QACGBertForSequenceClassification, ["calm", "food"], *[["home", "sun"]] * 2, True),
        ],
        indirect=["run"],
    )
    def test_the_checkpoint_knows_its_contexts(self, run, model_class, aspects, targets, texts, auxiliary):
        model = AutoModelForSequenceClassification.from_pretrained(run)
        assert type(model) is model_class and model.dtype == torch.float32
        config = model.config
        assert (config.aspects, config.targets, config.target_texts) == (aspects, targets, texts)
        assert config.auxiliary_sentence is auxiliary
        assert config.problem_type == "single_label_classification"
        contexts = None if model_class is BertForSequenceClassification else len(aspects) * len(targets or [None])
        assert getattr(config, "num_contexts", None) == contexts
        assert kit.report_of(run)["contexts"] == {"aspects": aspects, "targets": targets, "target_texts": texts}

    @EACH_CORPUS
    def test_figures_of_the_corpus_follow_from_the_predictions(self, run):
        report = kit.report_of(run)
        names = list(report["class_counts"])
        function = {"sentihood": metrics.sentihood, "semeval2014": metrics.semeval2014}[report["dataset"]]
        for split in ("validation", "test"):
            found = report["runs"][0][split]["argmax"]
            gold = np.array([names.index(row["labels"][0]) for row in kit.predictions_of(run, split)])
            scores = kit.probabilities_of(run, split)
            np.testing.assert_allclose(scores.sum(axis=1), 1, atol=1e-5)
            expected = function(gold, scores) | metrics.classification(gold, scores, names)
            assert found.pop("per_label") == expected.pop("per_label")
            assert found == pytest.approx(expected, abs=1e-9)
            assert not any(math.isnan(value) for value in expected.values())


def test_the_stock_pipeline_does_not_answer_without_an_aspect(pair_run):
    with pytest.raises(ValueError, match="trust_remote_code"):
        pipeline("text-classification", str(pair_run), device="cpu")
    text = kit.sentihood_sentences(*kit.SENTIHOOD_PARTS["test"])[0]["text"]
    (found,) = pipeline("text-classification", str(pair_run), trust_remote_code=True, device="cpu")([text])
    assert {entry["aspect"] for entry in found} == set(HOOD_ASPECTS)


@EACH_CORPUS
def test_probabilities_of_the_run_by_the_plain_model_and_from_typed_sentences(run):
    expected = {row["id"]: row["probabilities"] for row in kit.predictions_of(run, "test")}
    assert np.std(list(expected.values()), axis=0).mean() > 0.01  # an order that is lost would show
    asked = questions(run)
    texts = {question.id.partition("/")[0]: question.text for question in asked}
    found = {
        "/".join([number, *([item["target"]] if "target" in item else []), item["aspect"]]): item["scores"]
        for number, items in zip(texts, TargetedPredictor(run, device="cpu")(list(texts.values())), strict=True)
        for item in items
    }
    assert found.keys() == expected.keys()
    temperature = kit.report_of(run)["runs"][0]["temperature"]
    for question, outputs in zip(asked, plain_outputs(run, asked), strict=True):
        scores = pytest.approx(expected[question.id], abs=1e-5)
        assert list(found[question.id].values()) == scores
        assert (outputs.logits[0] / temperature).softmax(-1).tolist() == scores


@pytest.fixture(scope="module")
def aspect_tokenizer(aspect_bert):
    return AutoTokenizer.from_pretrained(aspect_bert)


@pytest.fixture(scope="module")
def hood(corpora):
    return load_dataset_for("sentihood", corpora)["validation"]


def tokens_of(tokenizer, rows, column: str = "input_ids") -> list[list[str]]:
    return [tokenizer.convert_ids_to_tokens(ids) for ids in rows[column]]


class TestInputs:
    def test_auxiliary_sentences_are_the_second_segment(self, hood, aspect_tokenizer):
        encoded = tokenize(hood, aspect_tokenizer, 40, SimpleNamespace(auxiliary_sentence=True, num_contexts=8))
        assert set(encoded.column_names) == {*("input_ids", "token_type_ids", "context_ids", "length", "labels")}
        texts = {str(s["id"]): bare_text(s["text"]) for s in kit.sentihood_sentences(*kit.SENTIHOOD_PARTS["dev"])}
        tokens = tokens_of(aspect_tokenizer, encoded)
        gold = kit.sentihood_gold("dev")
        for found, row, (number, target, aspect, label) in zip(tokens, encoded, gold, strict=True):
            first = ["[CLS]", *aspect_tokenizer.tokenize(texts[number]), "[SEP]"]
            second = ["location", "-", target[-1], "-", *re.findall(r"\w+|-", aspect), "[SEP]"]
            assert found == first + second and "[UNK]" not in second
            assert row["token_type_ids"] == [0] * len(first) + [1] * len(second)
            assert row["length"] == len(found)
            assert row["context_ids"] == 4 * LOCATIONS.index(target) + HOOD_ASPECTS.index(aspect)
            assert row["labels"] == kit.SENTIHOOD_LABELS.index(label)
        rows = [encoded[i] for i in (0, 5, 9, 30)]
        batch = make_collator(aspect_tokenizer)(rows)
        width = max(row["length"] for row in rows)
        assert len({row["length"] for row in rows}) > 2
        assert set(batch) == {"input_ids", "token_type_ids", "attention_mask", "context_ids", "labels"}
        for i, row in enumerate(rows):
            padding = [0] * (width - row["length"])
            for name, values in (row | {"attention_mask": [1] * row["length"]}).items():
                if isinstance(values, list):
                    assert batch[name][i].tolist() == values + padding
        for name in ("context_ids", "labels"):
            assert batch[name].dtype == torch.int64 and batch[name].tolist() == [row[name] for row in rows]

    def test_without_auxiliary_sentence_there_is_one_segment(self, hood, aspect_tokenizer):
        encoded = tokenize(hood, aspect_tokenizer, 40, SimpleNamespace(num_contexts=8))
        for found, text in zip(tokens_of(aspect_tokenizer, encoded), hood["text"], strict=True):
            assert found == ["[CLS]", *aspect_tokenizer.tokenize(text), "[SEP]"]
        stock = tokenize(hood, aspect_tokenizer, 40, SimpleNamespace(auxiliary_sentence=True))
        collate = make_collator(aspect_tokenizer)
        for rows, own in ((encoded, "context_ids"), (stock, "token_type_ids")):  # a stock model gets no context
            assert set(collate([rows[0], rows[8]])) == {"input_ids", "attention_mask", "labels", own}

    @pytest.mark.parametrize("limit", [16, 12])  # 12: an auxiliary sentence may be longer than its text
    def test_the_text_alone_is_cut(self, limit, hood, aspect_tokenizer, caplog):
        config = SimpleNamespace(auxiliary_sentence=True)
        whole, cut = (tokenize(hood, aspect_tokenizer, length, config) for length in (40, limit))
        for full, found in zip(*(tokens_of(aspect_tokenizer, rows) for rows in (whole, cut)), strict=True):
            end = full.index("[SEP]")
            text, auxiliary = full[1:end], full[end:]
            assert found == ["[CLS]", *text[: limit - 1 - len(auxiliary)], *auxiliary]
        assert cut["length"][:] == [min(length, limit) for length in whole["length"]]
        too_long = sum(length > limit for length in whole["length"])
        (message,) = [record.getMessage() for record in caplog.records if "longer than" in record.getMessage()]
        told = f"{too_long} of {len(hood)} texts are longer than {limit} tokens (`max_length`) and were cut"
        assert message == told and too_long > 0


class TestTargetedPredictor:
    def test_given_targets_replace_those_in_the_text(self, qacg):
        classify = pipeline("targeted-sentiment", model=qacg.model, tokenizer=qacg.tokenizer, device="cpu")
        texts = [
            "so happy",
            "LOCATION1 is so happy",
            "the sun of LOCATION2 is very sad , today inLOCATION1 a day of joy",
        ]
        for targets in (["LOCATION2"], ["LOCATION2", "LOCATION1"]):
            for text, items in zip(texts, qacg(texts, targets=targets), strict=True):
                kit.assert_close(items, classify(text, targets=targets))
                assert [item["target"] for item in items] == [name for name in targets for _ in range(4)]

    def test_errors_name_what_is_known(self, qacg):
        message = r"text 2 names none of the model's targets \['LOCATION1', 'LOCATION2'\].*'no place'.*pass `targets`"
        with pytest.raises(ValueError, match=message):
            qacg(["LOCATION1", "no place"])
        for targets, message in (
            (["LOCATION1", "LOCATION3"], r"unknown target 'LOCATION3': .*\['LOCATION1', 'LOCATION2'\]"),
            ("LOCATION1", "`targets` must be a list of names"),  # as the pipeline says
            ([], "`targets` must be a list of names, at least one"),
        ):
            with pytest.raises(ValueError, match=message):
                qacg("LOCATION1 is so happy", targets=targets)

    def test_a_length_without_room_for_the_text(self, qacg_run, cg_run, aspect_bert, corpora, tmp_path):
        # [CLS] . [SEP] location - 1 - transit - location [SEP]
        message = "`max_length` must be at least 1[12], for the auxiliary sentence and a word; got 10"
        with pytest.raises(ValueError, match=message):
            TargetedPredictor(qacg_run, device="cpu", max_length=10)
        with pytest.raises(ValueError, match=message):
            train(kit.targeted_recipe(aspect_bert, max_length=10), tmp_path / "run", data_dir=corpora)
        assert not (tmp_path / "run").exists()
        assert len(TargetedPredictor(qacg_run, device="cpu", max_length=12)("LOCATION1 is so happy")[0]) == 4
        # Without an auxiliary sentence any length will do.
        assert len(TargetedPredictor(cg_run, device="cpu", max_length=3)("this is happy")[0]) == 5


class TestKindsOfModels:
    def test_a_model_that_gives_a_number(self, pair_run):
        """Its one output has the probability 1 whatever the text says."""
        model = AutoModelForSequenceClassification.from_pretrained(pair_run)
        model.config.problem_type = "regression"
        with pytest.raises(ValueError, match="a number and no label .*'regression'.*set `config.problem_type`"):
            TargetedPredictor(model, AutoTokenizer.from_pretrained(pair_run))

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"model_type": None, "model_config": {"auxiliary_sentence": True, "no_such_field": 1}}, "no_such_field"),
            ({"model_type": None, "model_config": {"aspects": ["a"]}}, "`?model_config.aspects`?"),
            ({"model_config": {"aspects": ["a"]}}, "`?model_config.aspects`?"),  # they come from the corpus
            ({"dataset": "quickstart", **STOCK, "one_model_per_context": True}, "one_model_per_context"),
            ({"one_model_per_context": True}, "`one_model_per_context` is for stock models.*'qacg-bert'"),
            ({"dataset": "quickstart", **STOCK, "model_config": {"auxiliary_sentence": True}}, "auxiliary_sentence"),
        ],
    )
    def test_fields_that_do_not_fit(self, changes, message, tmp_path, aspect_bert, corpora):
        with pytest.raises((TypeError, ValueError), match=message):
            train(kit.targeted_recipe(aspect_bert, **changes), tmp_path / "run", data_dir=corpora)
        assert not (tmp_path / "run").exists()


class TestItems:
    """What a file gets of each text: what is not none."""

    TEXTS = (
        "LOCATION2 is so happy today today today today not",
        "so happy and not a place",
        "the fear of LOCATION2 is joy , xLOCATION1 is very sad",
        "the home of location - 2 is sick happy",
    )

    @pytest.mark.parametrize("none", ["none", "None"])  # in the spelling of the corpus
    def test_targets_and_aspects(self, pair_run, none, monkeypatch):
        predictor = TargetedPredictor(pair_run, device="cpu")
        expected = []
        for text in self.TEXTS:
            items = predictor(text)[0] if "ocation" in text.lower() else []
            kept = [item for item in items if item["label"] != "none"]
            expected.append([(f"{item['target']}/{item['aspect']}/{item['label']}", item["score"]) for item in kept])
        assert expected[0] and sum(map(len, expected)) < 4 * 4  # some of the pairs are none, and some are not
        monkeypatch.setattr(predictor, "labels", [none if name == "none" else name for name in predictor.labels])
        for items, row in zip(predictor.of_items(self.TEXTS)[0], expected, strict=True):
            assert [item["label"] for item in items] == [name for name, _ in row]
            assert [item["score"] for item in items] == pytest.approx([score for _, score in row], abs=1e-5)
        assert predictor.of_items(["so happy", "a day"])[0] == [[], []]  # no text names a target

    def test_aspects_alone(self, cg):
        texts = ["this is happy & not a fear", "a day", "this is sad & not a fear"]
        found = [[item["label"] for item in items] for items in cg.of_items(texts)[0]]
        named = [[f"{i['aspect']}/{i['label']}" for i in items if i["label"] != "none"] for items in cg(texts)]
        assert found == named and any(found)


class TestPredictCommand:
    TEXTS = ("LOCATION2 is so happy , not LOCATION1", "rain inLOCATION1")

    def cells_of(self, items: list[dict]) -> list[list[str]]:
        """The table that is expected for the results of a text."""
        rows: dict[str, list[str]] = {}
        for item in items:
            rows.setdefault(item.get("target", ""), []).append(f"{item['label']} {item['score']:.2f}")
        return [[target, *row] for target, row in rows.items()]

    def test_a_table_of_targets_and_aspects_for_each_text(self, qacg_run, qacg):
        tables = [[["target", *HOOD_ASPECTS], *self.cells_of(items)] for items in qacg(list(self.TEXTS))]
        alone = kit.invoke("predict", qacg_run, self.TEXTS[0], terminal=True)
        assert kit.cells(alone) == tables[0] and self.TEXTS[0] not in alone
        output = kit.invoke("predict", qacg_run, *self.TEXTS, terminal=True)
        first, second = output.split(self.TEXTS[1])
        assert first.startswith(self.TEXTS[0]) and [kit.cells(first), kit.cells(second)] == tables
        lines = f"{self.TEXTS[0]}\n\n{self.TEXTS[1]}\n"
        assert kit.invoke("predict", qacg_run, stdin=lines, terminal=True) == output

    def test_in_a_pipe_each_target_of_a_text_has_a_line(self, qacg_run, qacg, cg_run):
        lines = []
        for text, items in zip(self.TEXTS, qacg(list(self.TEXTS)), strict=True):
            for target in dict.fromkeys(item["target"] for item in items):
                own = (item for item in items if item["target"] == target)
                found = ", ".join(f"{item['aspect']} {item['label']} {item['score']:.2f}" for item in own)
                lines.append(f"{text}\t{target}\t{found}")
        assert kit.invoke("predict", qacg_run, *self.TEXTS).splitlines() == lines
        assert kit.invoke("predict", qacg_run, self.TEXTS[1]).splitlines() == lines[-1:]
        # Without targets; a tab would be one more column.
        (line,) = kit.invoke("predict", cg_run, "this is\thappy").splitlines()
        assert line.split("\t")[0] == "this is happy" and line.count("\t") == 1

    def test_aspects_alone(self, cg_run, cg):
        (items,) = cg("this is happy & not a fear")
        table = kit.cells(kit.invoke("predict", cg_run, "this is happy & not a fear", terminal=True))
        assert table == [FOOD_ASPECTS, self.cells_of(items)[0][1:]]

    def test_targets_can_be_given(self, qacg_run, qacg):
        (items,) = qacg("so happy", targets=["LOCATION2", "LOCATION1"])
        options = ("--target", "LOCATION2", "--target", "LOCATION1")
        table = kit.cells(kit.invoke("predict", qacg_run, "so happy", *options, terminal=True))
        assert table[1:] == self.cells_of(items)


class TestEvaluate:
    def test_the_table(self, places_run, places):
        options = ("--dataset", "aspect_files", "--data-dir", places, "--option", "target_column=target", "--all")
        rows = kit.cells(kit.invoke("evaluate", places_run, *options))
        expected = kit.report_of(places_run)["runs"][0]["test"]["argmax"]
        del expected["per_label"]
        assert rows == [["aspect_files test (16 rows)", "argmax"], *([n, f"{v:.4f}"] for n, v in expected.items())]
        assert "macro_f1" in expected and not set(expected) & {"strict_accuracy", "accuracy_2way", "precision"}

    def test_a_threshold(self, qacg, corpora):
        with pytest.raises(ValueError, match="`threshold` 0.5 .*leave it out"):
            evaluate(qacg, "sentihood", data_dir=corpora, threshold=0.5)

    def test_own_files(self, places_run, tmp_path):
        # Part of the labels, aspects and targets, and other column names.
        rows = [row for row in kit.places_rows(40) if row[1:3] == ["sun", "food"]]
        for name in ("train", "test"):
            kit.write_csv(tmp_path / f"{name}.csv", ["review", "place", "about", "label"], rows)
        columns = ["text_column=review", "target_column=place", "aspect_column=about"]
        options = ["--dataset", "aspect_files", "--data-dir", tmp_path, *(f"--option={one}" for one in columns)]
        result = json.loads(kit.invoke("evaluate", places_run, *options, "--json"))
        assert result["rows"] == len(rows) == 10 and result["labels"] == ["bad", "good"]
        predictor = TargetedPredictor(places_run, device="cpu")
        right = 0
        for text, target, aspect, label in rows:
            (item,) = [item for item in predictor(text, targets=[target])[0] if item["aspect"] == aspect]
            right += item["label"] == label
        assert result["metrics"]["argmax"]["accuracy"] == pytest.approx(right / 10)

    def test_other_aspects_or_targets_are_named(self, argv, places_run, tmp_path):
        for column, row in ((2, ["so happy", "home", "price", "good"]), (1, ["so happy", "garden", "food", "good"])):
            folder = tmp_path / str(column)
            for name in ("train", "test"):
                kit.write_csv(folder / f"{name}.csv", kit.PLACES_HEADER, [*kit.places_rows(8), row])
            result = argv("evaluate", places_run, "--dataset", "aspect_files", "--data-dir", folder)
            assert result.code == 1
            assert f"train.csv, line 10: unknown {kit.PLACES_HEADER[column]} '{row[column]}'" in result.err


def test_runs_are_compared_by_the_metrics_of_their_corpus(qacg_run, cg_run):
    hood = ["strict_accuracy", "aspect_macro_f1", "aspect_auc", "sentiment_accuracy", "sentiment_auc", "accuracy"]
    food = ["precision", "recall", "f1", "accuracy_2way", "accuracy_3way", "accuracy_4way", "accuracy"]
    for run, names in ((qacg_run, hood), (cg_run, food)):
        result = json.loads(kit.invoke("compare", run, run, "--json"))
        assert result["metrics"] == [f"{name} (argmax)" for name in [*names, "macro_f1", "weighted_f1"]]


def test_a_converted_checkpoint_predicts(tmp_path):
    settings = {name: value for name, value in ABSA_SIZES.items() if name not in ("num_labels", "num_contexts")}
    weights = absa_weights("shared", dtype=torch.float32)
    reference = save_reference(tmp_path / "theirs" / "best.bin", weights, settings, "bert_config.json")
    vocabulary = "[PAD] [UNK] [CLS] [SEP] [MASK] sun happy home - joy fear calm".split()
    (reference.parent / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    names = ["aspects=[joy, fear, calm]", "targets=[home, sun]", "auxiliary_sentence=true"]
    output = kit.invoke("convert", reference, tmp_path / "ours", *(part for name in names for part in ("--set", name)))
    assert len(output.splitlines()) == 1  # the tokenizer is there
    rows = kit.cells(kit.invoke("predict", tmp_path / "ours", "happy sun - home", terminal=True))
    assert rows[0] == ["target", "joy", "fear", "calm"] and [row[0] for row in rows[1:]] == ["home", "sun"]
    # The second target, the second aspect.
    (outputs,) = plain_outputs(tmp_path / "ours", [Question("", "", ["happy sun - home", "sun - fear"], 4, "")])
    best = int(outputs.logits[0].argmax())
    label = AutoConfig.from_pretrained(tmp_path / "ours").id2label[best]
    assert rows[2][2] == f"{label} {outputs.logits[0].softmax(-1)[best]:.2f}"


class Captured(Exception):
    pass


@pytest.mark.parametrize("balanced", [True, False])
def test_inverse_frequency_sampling(balanced, aspect_bert, corpora, tmp_path, monkeypatch):
    """Each class is drawn as often as another, and the rows of a class equally often; by default each row comes once."""
    trainers = []

    def stop(self, *arguments, **keywords):
        trainers.append(self)
        raise Captured

    monkeypatch.setattr(EmotionTrainer, "train", stop)
    recipe = kit.targeted_recipe(aspect_bert, inverse_frequency_sampling=balanced)
    with pytest.raises(Captured):
        train(recipe, tmp_path / "run", data_dir=corpora)
    (trainer,) = trainers
    labels = np.array(trainer.train_dataset["labels"][:])
    epochs = [list(trainer._get_train_sampler()) for _ in range(200 if balanced else 1)]
    assert {len(rows) for rows in epochs} == {len(labels)}
    drawn, sizes = np.bincount(np.concatenate(epochs), minlength=len(labels)), np.bincount(labels)
    if not balanced:
        assert set(drawn) == {1}
        return
    assert max(sizes) > 2 * min(sizes)
    for label in range(3):
        own = drawn[labels == label]
        assert own.sum() / drawn.sum() == pytest.approx(1 / 3, abs=0.015)  # three deviations: 0.009
        assert own.min() > 0.6 * own.mean() and own.max() < 1.5 * own.mean()
    # The batches are drawn so; the development part is not.
    loader = trainer.get_train_dataloader()
    labels = torch.cat([batch["labels"] for _ in range(20) for batch in loader])
    assert (torch.bincount(labels) / len(labels)).tolist() == pytest.approx([1 / 3] * 3, abs=0.04)
    rows = trainer.eval_dataset
    assert list(trainer._get_eval_sampler(rows)) == list(range(len(rows)))
    assert rows["length"][:] == sorted(rows["length"][:])


def contexts_recipe(base: Path, arguments: dict | None = None, **changes):
    return kit.targeted_recipe(base, arguments, **{**STOCK, "one_model_per_context": True, **changes})


# One stock classifier for each target and aspect of one's own files.
QUICK = {"num_train_epochs": 2}
contexts_run = trained_run("aspect_bert", contexts_recipe, QUICK, data="places", name="single", **FILES)
PART_FILES = kit.CHECKPOINT | kit.travelling("pipeline_targeted_sentiment") | {"run.json", "train.log"}


def example_of(run: Path) -> tuple[str, list]:
    """The code of the card, and what it prints first."""
    (code,) = re.findall(r"```python\n(.*?)```", (run / "README.md").read_text("utf-8"), flags=re.DOTALL)
    printed: list = []
    exec(code.replace("PATH_OR_REPO", str(run)), {"print": printed.append})
    return code, printed[0]


class TestOneModelPerContext:
    CONTEXTS = ["home-calm", "home-food", "sun-calm", "sun-food"]

    def test_each_row_is_predicted_by_the_model_of_its_context(self, contexts_run):
        files = {path.name for path in contexts_run.iterdir() if path.is_file()}
        folders = [contexts_run / name for name in self.CONTEXTS]
        assert files == kit.RESULTS - {"train.log"} and {*folders} == {p for p in contexts_run.iterdir() if p.is_dir()}
        assert all(set(kit.files_in(folder)) == PART_FILES for folder in folders)
        models = {path.name: AutoModelForSequenceClassification.from_pretrained(path).eval() for path in folders}
        tokenizer = AutoTokenizer.from_pretrained(folders[0])
        # The models have no temperature of their own: that of the run is one over the rows of all.
        temperature = kit.report_of(contexts_run)["runs"][0]["temperature"]
        assert not any(hasattr(model.config, "calibration_temperature") for model in models.values())
        differing = 0.0
        for split, part in (("validation", "dev"), ("test", "test")):
            given = kit.places_rows(*kit.PLACES_PARTS[part])
            for row, (text, target, aspect, label) in zip(kit.predictions_of(contexts_run, split), given, strict=True):
                inputs = tokenizer(text, return_tensors="pt")
                with torch.no_grad():
                    logits = {name: model(**inputs).logits[0] for name, model in models.items()}
                found = {name: (own / temperature).softmax(-1).tolist() for name, own in logits.items()}
                expected = found.pop(f"{target}-{aspect}")
                assert row["probabilities"] == pytest.approx(expected, abs=1e-5) and row["labels"] == [label]
                differing += min(np.abs(np.subtract(expected, other)).max() for other in found.values())
        assert differing > 1  # rows of another model would show

    def test_figures(self, contexts_run):
        report = kit.report_of(contexts_run)
        (run,) = report["runs"]
        names, parts = ("bad", "good"), run["contexts"]
        right = lambda rows: [[names[int(np.argmax(row["probabilities"]))]] == row["labels"] for row in rows]  # noqa: E731
        for split in ("validation", "test"):
            expected = np.mean(right(kit.predictions_of(contexts_run, split)))
            assert run[split]["argmax"]["accuracy"] == pytest.approx(expected)
        assert parts == [json.loads((contexts_run / n / "run.json").read_text()) for n in self.CONTEXTS]
        assert [part["seed"] for part in parts] == [42] * 4 and report["contexts"]["aspects"] == ["calm", "food"]
        assert run["train_minutes"] == pytest.approx(sum(part["train_minutes"] for part in parts))
        assert [part["history"][-1]["step"] for part in parts] == [2 * 2] * 4  # each on its 12 rows, in batches of 8
        # Each chooses its epoch by the metric on its own rows, which are those of the run.
        mean = np.mean([part["best_dev_metric"] for part in parts])
        assert run["selected_by"] == "accuracy" and run["best_dev_metric"] == pytest.approx(mean)
        kept = kit.predictions_of(contexts_run, "validation")
        for name, part in zip(self.CONTEXTS, parts, strict=True):
            rows = [row for row in kept if row["id"].endswith(name.replace("-", "/"))]
            dev = [entry["eval_accuracy"] for entry in part["history"] if "eval_loss" in entry]
            assert part["best_dev_metric"] == max(dev) == pytest.approx(np.mean(right(rows))) and len(dev) == 2

    def test_predict_reads_a_folder(self, contexts_run):
        """A model knows its context alone."""
        text = "the home is so happy , not the sun"
        ((item,),) = TargetedPredictor(contexts_run / "home-calm", device="cpu")(text)
        rows = kit.cells(kit.invoke("predict", contexts_run / "home-calm", text, terminal=True))
        assert rows == [["target", "calm"], ["home", f"{item['label']} {item['score']:.2f}"]]

    def test_card(self, contexts_run):
        text = (contexts_run / "README.md").read_text(encoding="utf-8")
        assert "stock sequence classifier of transformers over `tiny-bert`, one for each target and aspect." in text
        code, found = example_of(contexts_run)
        assert f'"subfolder": "{self.CONTEXTS[0]}"' in code and found[0]["label"] in ("bad", "good")

    def test_resume_keeps_finished_contexts(self, contexts_run, aspect_bert, places, tmp_path, steps, no_plots):
        fit, output, calls = SeedTraining.fit, tmp_path / "run", []
        recipe = contexts_recipe(aspect_bert, QUICK, name="single", **FILES)

        def fail_at_the_third(*arguments):
            calls.append(1)
            if len(calls) == 3:
                raise Captured
            return fit(*arguments)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SeedTraining, "fit", fail_at_the_third)
            with pytest.raises(Captured):
                train(recipe, output, data_dir=places)
        assert len(steps) == 8 and not (output / "metrics.json").exists()  # 12 rows in batches of 8, two epochs, twice
        finished = {name: content for name, content in kit.files_in(output).items() if "/" in name}
        assert {name.split("/")[0] for name in finished} == {"home-calm", "home-food"}
        train(recipe, output, data_dir=places, resume=True)
        assert len(steps) == 16
        after = kit.files_in(output)
        assert finished.items() <= after.items()
        assert set(after) == set(kit.files_in(contexts_run)) - {"training_curve.png", "per_label_f1.png", *kit.REPORTS}
        for split in ("validation", "test"):
            found, expected = (kit.probabilities_of(run, split) for run in (output, contexts_run))
            np.testing.assert_allclose(found, expected, atol=1e-5)
        assert kit.report_of(output)["summary"] == kit.report_of(contexts_run)["summary"]

    @pytest.mark.parametrize("part", ["train", "dev"])
    def test_a_context_without_rows(self, part, aspect_bert, tmp_path, no_plots):
        data = kit.write_places(tmp_path / "data")
        rows = [row for row in kit.places_rows(*kit.PLACES_PARTS[part]) if row[1:3] != ["sun", "calm"]]
        kit.write_csv(data / f"{part}.csv", kit.PLACES_HEADER, rows)
        split = {"dev": "validation"}.get(part, part)
        with pytest.raises(ValueError, match=f"`one_model_per_context`: no {split} row for sun-calm"):
            train(contexts_recipe(aspect_bert, {"max_steps": 1}, **FILES), tmp_path / "run", data_dir=data)
        assert not (tmp_path / "run").exists()

    @pytest.mark.parametrize("missing", [False, True])
    def test_the_metric_of_all_contexts(self, places, tmp_path, monkeypatch, missing):
        """Seeds are compared by the mean; if one model was never measured by a number, there is none."""
        values = [0.5, None if missing else 0.9, 0.1, 0.2]

        def fit(training):
            return Fitted(Mock(), Mock(), kit.seed_run(best_dev_metric=values.pop(0)))

        monkeypatch.setattr(SeedTraining, "fit", fit)
        recipe = make_recipe({"name": "contexts", "one_model_per_context": True, **FILES})
        splits = load_dataset_for("aspect_files", places, **recipe.dataset_options)
        places_of = {"folder": tmp_path, "recipe_file": tmp_path / "recipe.yaml"}
        training = SeedTraining(
            task=task_of_rows(splits["train"]),
            recipe=recipe,
            splits=splits,
            seed=3,
            **places_of,
            resume=False,
            main_process=False,
        )
        run, _ = training.run()
        assert values == [] and run.selected_by == "loss"
        assert run.best_dev_metric == (None if missing else pytest.approx(0.425))

    @pytest.mark.slow
    def test_several_seeds(self, aspect_bert, places, tmp_path, no_plots):
        recipe = contexts_recipe(aspect_bert, {"max_steps": 1}, seeds=[3, 8], **FILES)
        output = tmp_path / "run"
        report = train(recipe, output, data_dir=places).to_dict()
        assert [run["seed"] for run in report["runs"]] == [3, 8]
        assert {path.name for path in output.iterdir() if path.is_dir()} == {"seed-3", "seed-8"}
        for seed in (3, 8):
            folders = {path for path in (output / f"seed-{seed}").iterdir() if path.is_dir()}
            assert {path.name for path in folders} == set(self.CONTEXTS)
            assert all(set(kit.files_in(folder)) == PART_FILES for folder in folders)
            assert [run["seed"] for run in kit.report_of(output / f"seed-{seed}")["runs"]] == [seed]
        assert '"PATH_OR_REPO", "subfolder": "home-calm"' in (output / "README.md").read_text()

    @pytest.mark.slow
    def test_contexts_whose_names_meet(self, aspect_bert, tmp_path, no_plots):
        contexts = [(target, aspect) for target in ("sun", "sun-day") for aspect in ("calm", "day-calm")]
        for name in ("train", "dev", "test"):
            rows = [["so happy", *context, label] for context in contexts for label in ("good", "bad")]
            kit.write_csv(tmp_path / "data" / f"{name}.csv", kit.PLACES_HEADER, rows)
        train(contexts_recipe(aspect_bert, {"max_steps": 1}, **FILES), tmp_path / "run", data_dir=tmp_path / "data")
        assert len(list((tmp_path / "run").glob("*/config.json"))) == 4
        np.testing.assert_allclose(kit.probabilities_of(tmp_path / "run", "test").sum(axis=1), 1, atol=1e-6)


class TestCard:
    def test_what_was_done(self, qacg_run):
        card = ModelCard.load(qacg_run / "README.md")
        assert {"aspect-based-sentiment-analysis", "hf-emotion", "qacg-bert"} == set(card.data.tags)
        assert card.data.pipeline_tag == "text-classification"
        for text in (
            "Aspects: general, price, safety, transit-location\n\nTargets: LOCATION1, LOCATION2\n",
            "adds a quasi-attention that can subtract",
            "It reads pairs: the text, and target and aspect in words.",
            "Saeidi et al. 2016",
            "It knows the aspects above and no others.",
            "the sentiments that annotators read",
            "Texts are cut to 40 tokens",
        ):
            assert text in card.text, text

    def test_what_differs_for_other_models(self, pair_run, cg_run):
        pair, cg = ((run / "README.md").read_text() for run in (pair_run, cg_run))
        assert "stock sequence classifier" in pair and "It reads pairs" in pair and "Targets: LOCATION1" in pair
        assert "guides the queries and keys" in cg and "It reads pairs" not in cg
        assert "Aspects: price, anecdotes, food, ambience, service\n" in cg and "Targets:" not in cg
        assert "Pontiki et al. 2014" in cg

    def test_the_example_runs(self, cg_run, cg):
        """That of a model without targets; one with targets is run in test_tasks_shared.py."""
        code, found = example_of(cg_run)
        (text,) = re.findall(r'^print\(classify\("(.*?)"', code, flags=re.MULTILINE)
        kit.assert_close(found, cg(text)[0])

    def test_figures_that_are_undefined(self, cg_run, tmp_path):
        report = RunReport.read(cg_run)
        report.summary["test"]["argmax"]["precision"] = {"mean": float("nan"), "std": None}
        write_card(tmp_path, load_recipe(cg_run / "recipe.yaml"), report, report.runs[0])
        assert "value: .nan" not in (tmp_path / "README.md").read_text()
        names = {result.metric_name for result in ModelCard.load(tmp_path / "README.md").data.eval_results}
        assert "recall (argmax)" in names and "precision (argmax)" not in names


def described(values: torch.Tensor) -> dict:
    own = values.double().numpy()
    return {
        "mean": pytest.approx(own.mean(), abs=1e-6),
        "std": pytest.approx(own.std(), abs=1e-6),
        "negative": pytest.approx((own < 0).mean(), abs=1e-9),
        "quartiles": pytest.approx(np.quantile(own, [0.25, 0.5, 0.75]).tolist(), abs=1e-5),
    }


class TestContextGuidance:
    def outputs_with_opinions(self, run: Path, part: str = "test") -> list:
        asked = [question for question in questions(run, part) if question.label != "none"]
        return plain_outputs(run, asked, output_attentions=True)

    NAMES = ("context_gate", "attention", "quasi_attention", "combined_attention")

    def check(self, result: dict, layers: dict[str, list[torch.Tensor]], gates: set[str]) -> None:
        """`layers`: the values of each layer."""
        assert set(result) == {"rows", "by_layer", *layers}
        for name, parts in layers.items():
            values = torch.cat(parts)
            expected = described(values)
            if name == "quasi_attention":
                inside = [0.25 <= value <= 0.5 for value in values.tolist()]
                expected["between_0.25_and_0.5"] = pytest.approx(sum(inside) / len(inside), abs=1e-9)
                assert 0 < sum(inside) < len(inside)
            assert result[name] == expected, name
        short = lambda values: {part: described(values)[part] for part in ("mean", "negative")}  # noqa: E731
        assert result["by_layer"] == {name: [short(layer) for layer in layers[name]] for name in gates}

    def test_quasi_attention(self, qacg_run, corpora):
        result = context_guidance(qacg_run, "sentihood", corpora, split="validation", rows=1000)
        outputs = self.outputs_with_opinions(qacg_run, "dev")
        assert result["rows"] == len(outputs) == sum(row[3] != "none" for row in kit.sentihood_gold("dev"))
        layers = {
            name: [torch.cat([output[f"{name}s"][layer].flatten() for output in outputs]) for layer in range(2)]
            for name in self.NAMES
        }
        self.check(result, layers, {"context_gate"})
        first, second = result["by_layer"]["context_gate"]
        assert first["mean"] != second["mean"]

    def test_gates_of_queries_and_keys(self, cg_run, corpora):
        result = context_guidance(cg_run, "semeval2014", corpora, rows=1000)
        gates = [outputs.context_gates for outputs in self.outputs_with_opinions(cg_run)]
        assert result["rows"] == len(gates)
        layers = {
            name: [torch.cat([row[layer][..., i].flatten() for row in gates]) for layer in range(2)]
            for i, name in enumerate(["query_gate", "key_gate"])
        }
        self.check(result, layers, set(layers))
        assert result["query_gate"]["mean"] != pytest.approx(result["key_gate"]["mean"], abs=1e-3)

    def test_a_sample_has_rows_with_an_opinion_only(self, qacg_run, corpora):
        """Which ones depends on the seed."""
        of_seed = lambda seed: context_guidance(qacg_run, "sentihood", corpora, rows=5, seed=seed)  # noqa: E731
        first, other, again = map(of_seed, (0, 1, 0))
        assert first == again != other and first["rows"] == 5

    def test_in_the_report(self, qacg_run, corpora, tmp_path, monkeypatch):
        run = shutil.copytree(qacg_run, tmp_path / "run")
        monkeypatch.delenv("HF_EMOTION_DATA", raising=False)
        result = analyze(run, data_dir=corpora)
        guidance = result["context_guidance"]
        assert set(guidance["histograms"]) == set(self.NAMES)
        for name, values in guidance["histograms"].items():
            edges, counts = np.array(values["edges"]), np.array(values["counts"])
            assert len(edges) == 51 and len(counts) == 50
            assert counts[edges[1:] <= 0].sum() / counts.sum() == pytest.approx(guidance[name]["negative"], abs=1e-3)
        assert set(result["aspects"]) == set(kit.SENTIHOOD_CUES)
        assert (run / "analysis" / "context_guidance.svg").is_file()
        assert "Gates and attentions" in (run / "report.html").read_text(encoding="utf-8")
        monkeypatch.setattr("hf_emotion.reports.analyze._figures", lambda *arguments: {})
        assert "--data-dir" in analyze(run)["left_out"]["gates and attentions"]
        assert not list((run / "analysis").glob("*.svg"))  # those of an analysis with more are gone

    def test_other_models(self, pair_run, corpora):
        with pytest.raises(ValueError, match="has no gates: it is neither a CG-BERT nor a QACG-BERT"):
            context_guidance(pair_run, "sentihood", corpora)

    def test_no_opinions(self, qacg_run, corpora, tmp_path):
        shutil.copytree(corpora / "sentihood", tmp_path / "sentihood")
        sentences = [{"id": 1, "text": "a day in LOCATION1", "opinions": []}]
        (tmp_path / "sentihood" / "sentihood-test.json").write_text(json.dumps(sentences))
        with pytest.raises(ValueError, match="sentihood test has no row with an opinion"):
            context_guidance(qacg_run, "sentihood", tmp_path)


class TestAllAspectsAtOnce:
    """Label-aware attention, which reads the rows of a text and target as one."""

    def test_rows_of_a_text_and_target(self, tmp_path, caplog):
        said = [
            *(
                ("Ann: sun", "Ann", "food", "good"),
                ("Bo and Ann", "Ann", "calm", "bad"),
                ("Ann: sun", "Ann", "calm", "None"),
            ),
            *(
                ("Bo and Ann", "Bo", "calm", "good"),
                ("Ann: sun", "Ann", "food", "bad"),
                ("rain, Ann", "Ann", "food", "None"),
            ),
        ]
        kit.write_csv(tmp_path / "train.csv", ["text", "target", "aspect", "label"], said)
        options = {"target_column": "target", "labels": ["good", "None", "bad"], "validation_fraction": 0}
        rows = load_dataset_for("aspect_files", tmp_path, **options)["train"]  # the aspects: calm, food
        config = LabelAwareBertConfig(**TASK.contexts(rows), problem_type="single_label_classification")
        assert all_aspects(rows, config).to_list() == [
            {"text": "this one: sun", "labels": [1, 0]},
            {"text": "another one and this one", "labels": [2, -100]},
            {"text": "this one and another one", "labels": [0, -100]},
            {"text": "this one: sun", "labels": [-100, 2]},  # the same question again
            {"text": "rain, this one", "labels": [-100, 1]},
        ]
        assert not caplog.records
        all_aspects(rows.map(lambda row: {"text": row["text"].replace("Bo", "She")}), config)
        assert "1 of 5 texts do not name their target" in caplog.text
        # Of calm: one row each is good, bad and None; of food: too.
        assert shares(rows) == [1 / 2] * 4

    def test_a_text_and_target_is_read_once(self, at_once_run, monkeypatch):
        predictor = TargetedPredictor(at_once_run, device="cpu")
        texts = ["LOCATION1 is cheap", "LOCATION2 is far from LOCATION1"]
        read, forward = [], predictor.model.forward
        monkeypatch.setattr(
            predictor.model, "forward", lambda **inputs: read.append(len(inputs["input_ids"])) or forward(**inputs)
        )
        found = predictor(texts)
        assert sum(read) == 3 and [len(items) for items in found] == [4, 8]
        scores = [list(item["scores"].values()) for items in found for item in items]
        np.testing.assert_allclose(np.sum(scores, axis=1), 1, atol=1e-5)
        np.testing.assert_allclose(predictor.probabilities(predictor.encode(texts)), scores, atol=1e-5)
        assert predictor.of_items(["no place", texts[0]])[0][0] == []
        classify = pipeline("targeted-sentiment", model=predictor.model, tokenizer=predictor.tokenizer, device="cpu")
        for ours, theirs in zip(found[1], classify(texts[1]), strict=True):
            assert theirs["scores"] == pytest.approx(ours["scores"], abs=1e-5)

    def test_rows_have_no_single_label_to_draw_them_by(self, tmp_path, aspect_bert, places, no_plots):
        recipe = make_recipe(
            {**FILES, "name": "drawn", "base_model": str(aspect_bert), "model_type": "label-aware-bert"}
            | {"inverse_frequency_sampling": True}
        )
        with pytest.raises(ValueError, match="`inverse_frequency_sampling` draws rows by their label"):
            train(recipe, tmp_path / "run", places)
