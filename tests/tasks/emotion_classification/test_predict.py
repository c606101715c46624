# SPDX-License-Identifier: Apache-2.0
"""Prediction: lists of texts against the plain model, and files; what all predictors do is in ../test_predictors_shared.py."""

import copy
import csv
import itertools
import json
import random
import shutil
import sys
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pyarrow.parquet
import pytest
import torch
from hf_emotion.modeling import EmotionClassificationPipeline
from model_cases import asymmetric_
from safetensors.torch import load_file, save_file
from sklearn.metrics import f1_score
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from toolkit_helpers import files_in, invoke, recipe_for, write_csv, write_jsonl
from transformers import AutoModelForSequenceClassification, AutoTokenizer, GPT2LMHeadModel, PreTrainedTokenizerFast

import hf_emotion.runtime.classifying as predictor_module
from hf_emotion import Predictor, evaluate, load_dataset_for, metrics, train
from hf_emotion.data.files import read_rows
from hf_emotion.io.paths import open_file
from hf_emotion.runtime import batching
from hf_emotion.runtime.batching import token_budget_batches
from hf_emotion.serving.bulk import predict_file
from hf_emotion.serving.file_rows import PREDICTED
from hf_emotion.taxonomies import EKMAN, GOEMOTIONS, SENTIMENT


pytest_plugins = ["toolkit_fixtures"]
pytestmark = pytest.mark.usefixtures("single_thread")


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Sentences of one to thirty words, in no order of length."""
    sentences = load_dataset_for("quickstart")["test"]["text"][:40]
    return [" ".join(sentence.split()[: 1 + 7 * i % 30]) for i, sentence in enumerate(sentences)]


@pytest.fixture(scope="module")
def plain(tiny_run, texts) -> np.ndarray:
    return plain_probabilities(tiny_run, texts)


def plain_probabilities(folder: Path, texts: list[str]) -> np.ndarray:
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    rows = []
    with torch.no_grad():
        for text in texts:
            logits = model(**tokenizer(text, return_tensors="pt")).logits[0].double()
            logits /= model.config.calibration_temperature
            multi_label = model.config.problem_type == "multi_label_classification"
            rows.append([1 / (1 + np.exp(-x)) for x in logits.tolist()] if multi_label else logits.softmax(0).tolist())
    return np.array(rows)


@pytest.fixture(scope="module")
def middling(tmp_path_factory, tiny_run, plain) -> Path:
    """The tiny run's model with thresholds that half of `texts` pass."""
    folder = tmp_path_factory.mktemp("middling") / "model"
    model = AutoModelForSequenceClassification.from_pretrained(tiny_run)
    model.config.thresholds = [float(np.median(column)) for column in plain.T]
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_run).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def predictor(middling) -> Predictor:
    return Predictor(middling, device="cpu")


class TestProbabilities:
    def test_against_the_plain_model_one_text_at_a_time(self, predictor, texts, plain):
        found = predictor.probabilities(texts)
        assert found.shape == (40, 28) and found.dtype == np.float32
        np.testing.assert_allclose(found, plain, atol=1e-5)
        assert plain.std(axis=0).mean() > 0.01  # an order that is lost would show
        assert predictor(texts[5]) == predictor([texts[5]])

    def test_texts_are_tokenized_a_number_of_characters_at_once(self, predictor, texts, plain, monkeypatch):
        watched = Mock(wraps=predictor_module.encode_rows)
        monkeypatch.setattr(predictor_module, "encode_rows", watched)
        monkeypatch.setattr(batching, "CHARACTERS", 2 * max(map(len, texts)))
        np.testing.assert_allclose(predictor.probabilities(texts), plain, atol=1e-5)
        characters = [list(map(len, call.args[1].texts)) for call in watched.call_args_list]
        assert sum(characters, []) == list(map(len, texts))
        assert 1 < len(characters) < len(texts) and max(map(sum, characters)) <= batching.CHARACTERS

    def test_of_a_single_label_model(self, single_run):
        texts = ["so happy", "i am not calm today", "the day", "a home of the sun and the rain"]
        predictor = Predictor(single_run, device="cpu")
        found = predictor.probabilities(texts)
        np.testing.assert_allclose(found, plain_probabilities(single_run, texts), atol=1e-5)
        np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)
        for row, labels in zip(found, predictor(texts), strict=True):
            assert labels == [{"label": predictor.labels[row.argmax()], "score": pytest.approx(row.max(), abs=1e-6)}]
        assert len(predictor.present(np.array([[0.4, 0.4, 0.2]]))[0]) == 1  # of equal ones, too

    def test_of_a_classifier_over_a_language_model(self, tiny_run, tmp_path, texts, no_plots):
        """Without a padding id, by which it finds a row's last token. Until it is saved, its config names the language model."""
        base, run = tmp_path / "base", tmp_path / "run"
        tokenizer = AutoTokenizer.from_pretrained(tiny_run)
        tokenizer.save_pretrained(base)
        config = GPT2LMHeadModel.config_class(vocab_size=len(tokenizer), n_embd=8, n_layer=1, n_head=2, n_positions=40)
        assert config.pad_token_id is None
        asymmetric_(GPT2LMHeadModel(config), seed=6).save_pretrained(base)
        fields = {"num_labels": 3, "pad_token_id": tokenizer.pad_token_id}
        new = AutoModelForSequenceClassification.from_pretrained(base, **fields)
        assert Predictor(new, tokenizer).probabilities(texts).shape == (40, 3)
        assert new.config.architectures == ["GPT2LMHeadModel"]
        train(recipe_for(base, {"max_steps": 2}, model_type=None, model_config={}), run)
        predictor = Predictor(run)
        assert predictor.model.config.pad_token_id == tokenizer.pad_token_id
        together = predictor.probabilities(texts[:8])
        alone = np.concatenate([predictor.probabilities([text]) for text in texts[:8]])
        np.testing.assert_allclose(together, alone, atol=1e-5)
        assert np.std(alone, axis=0).mean() > 1e-4

    def test_composed_characters(self, predictor):
        """A text is read as the loaders give it to the training, in NFC, by tokenizers too that tell the two forms apart."""
        words = Tokenizer(WordLevel({"[PAD]": 0, "[UNK]": 1, "caf\u00e9": 2, "is": 3}, unk_token="[UNK]"))
        words.pre_tokenizer = WhitespaceSplit()
        cased = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]", pad_token="[PAD]")
        plain = Predictor(predictor.model, cased, device="cpu")
        composed, separate = "caf\u00e9 is", "cafe\u0301 is"
        assert plain.encode([separate]).inputs["input_ids"][0] == [2, 3]
        np.testing.assert_array_equal(plain.probabilities([composed]), plain.probabilities([separate]))
        own = EmotionClassificationPipeline(model=predictor.model, tokenizer=cased, device="cpu")
        assert own(separate, top_k=None) == own(composed, top_k=None)


class TestLabels:
    def test_those_above_their_thresholds_most_probable_first(self, predictor, middling, texts, plain):
        limits = AutoModelForSequenceClassification.from_pretrained(middling).config.thresholds
        for labels, row in zip(predictor(texts), plain, strict=True):
            passing = [(s, name) for s, limit, name in zip(row, limits, GOEMOTIONS, strict=True) if s > limit]
            # The median of two probabilities is neither of them: no score lies at its limit.
            assert [item["label"] for item in labels] == [name for _, name in sorted(passing, reverse=True)]
            scores = sorted((score for score, _ in passing), reverse=True)
            assert [item["score"] for item in labels] == pytest.approx(scores, abs=1e-5)
        assert min(map(len, predictor(texts))) < 14 < max(map(len, predictor(texts)))

    def test_the_threshold_itself_does_not_pass(self, predictor):
        limits = np.asarray(predictor.thresholds)
        above = limits.copy()
        above[3] = np.nextafter(limits[3], 1)
        decided = predictor.decide(np.stack([limits, above]))
        assert decided.sum(axis=1).tolist() == [0, 1] and decided[1, 3]
        assert predictor.present(limits[None]) == [[]]

    def test_top_k_whatever_the_thresholds(self, predictor, texts, plain):
        for labels, row in zip(predictor(texts, top_k=3), plain, strict=True):
            best = sorted(range(28), key=lambda i: -row[i])[:3]
            assert [item["label"] for item in labels] == [GOEMOTIONS[i] for i in best]
        assert [len(labels) for labels in predictor(texts[:2], top_k=100)] == [28, 28]

    def test_without_stored_thresholds_one_half(self, tiny_run, texts, plain):
        model = AutoModelForSequenceClassification.from_pretrained(tiny_run)
        model.config.thresholds = None
        predictor = Predictor(model, AutoTokenizer.from_pretrained(tiny_run))
        chosen = [{item["label"] for item in labels} for labels in predictor(texts)]
        assert chosen == [{name for name, score in zip(GOEMOTIONS, row, strict=True) if score > 0.5} for row in plain]
        assert any(chosen)


class TestTaxonomies:
    @pytest.mark.parametrize(("taxonomy", "groups"), [("ekman", EKMAN), ("sentiment", SENTIMENT)])
    def test_roll_up(self, middling, texts, plain, taxonomy, groups):
        predictor = Predictor(middling, device=-1, taxonomy=taxonomy)
        assert predictor.labels == list(groups) and predictor.model.device.type == "cpu"
        limits = dict(zip(GOEMOTIONS, predictor.thresholds, strict=True))
        found = predictor.probabilities(texts)
        outside_the_maximum = 0
        for row, scores, labels in zip(plain, found, predictor(texts), strict=True):
            of = dict(zip(GOEMOTIONS, row, strict=True))
            expected = {group: max(of[name] for name in members) for group, members in groups.items()}
            assert dict(zip(groups, scores, strict=True)) == pytest.approx(expected, abs=1e-5)
            # A group is chosen where one of its labels passes its own threshold, be it the most probable one or not.
            passing = {group for group, members in groups.items() if any(of[name] > limits[name] for name in members)}
            assert {item["label"] for item in labels} == passing
            assert [item["score"] for item in labels] == sorted((item["score"] for item in labels), reverse=True)
            for group in passing:
                best = max(groups[group], key=of.__getitem__)
                outside_the_maximum += of[best] <= limits[best]
        assert outside_the_maximum > 0
        np.testing.assert_allclose(predictor.label_probabilities(texts), plain, atol=1e-5)
        assert Predictor(middling, device="cpu", taxonomy="goemotions").labels == GOEMOTIONS

    def test_sums_for_a_single_label_model(self, tiny_run, texts):
        model = AutoModelForSequenceClassification.from_pretrained(tiny_run)
        model.config.problem_type = "single_label_classification"
        tokenizer = AutoTokenizer.from_pretrained(tiny_run)
        fine = Predictor(model, tokenizer).probabilities(texts)
        coarse = Predictor(model, tokenizer, taxonomy="sentiment").probabilities(texts)
        for row, groups in zip(fine, coarse, strict=True):
            of = dict(zip(GOEMOTIONS, row, strict=True))
            sums = [sum(of[name] for name in names) for names in SENTIMENT.values()]
            assert groups.tolist() == pytest.approx(sums, abs=1e-5)
        assert coarse.sum(axis=1) == pytest.approx(1, abs=1e-5)


class TestAddedLabels:
    NAMES = ("sun", "the rain")

    @pytest.fixture(scope="class")
    def model(self, tied_run):
        """Its labels pass their thresholds in 1, 2, ..., 10 (and again 1) of ten texts; the median is 5."""
        model = AutoModelForSequenceClassification.from_pretrained(tied_run)
        scores = plain_probabilities(tied_run, load_dataset_for("quickstart")["validation"]["text"])
        rates = [0.1 * (1 + i % 10) for i in range(27)] + [0.0]
        limits = [float(np.quantile(column, 1 - rate)) for column, rate in zip(scores.T, rates, strict=True)]
        model.config.thresholds = limits
        return model

    def test_they_come_after_the_old_ones_which_stay(self, model, tied_run, texts):
        config, vectors = model.config.to_dict(), model.bert.score.label_embeddings
        tokenizer = AutoTokenizer.from_pretrained(tied_run)
        model.train()
        predictor = Predictor(model, tokenizer, add_labels=self.NAMES)
        assert predictor.labels == [*GOEMOTIONS, *self.NAMES]
        found = predictor.probabilities(texts)
        np.testing.assert_allclose(found[:, :28], plain_probabilities(tied_run, texts), atol=1e-5)
        assert found[:, 28:].std(axis=0).min() > 1e-4 and np.abs(found[:, 28] - found[:, 29]).max() > 1e-4
        assert predictor.thresholds[:28].tolist() == config["thresholds"]
        # The model of the caller, whom others may share it with, is as it was.
        assert model.training and model.config.to_dict() == config and model.bert.score.label_embeddings is vectors
        by_hand = copy.deepcopy(model).eval().add_labels(list(self.NAMES), tokenizer)
        np.testing.assert_allclose(found, Predictor(by_hand, tokenizer).probabilities(texts), atol=1e-6)

    def test_they_are_given_as_often_as_the_median_label(self, model, tied_run):
        tokenizer = AutoTokenizer.from_pretrained(tied_run)
        predictor = Predictor(model, tokenizer, add_labels=self.NAMES)
        given = predictor.decide(predictor.probabilities(load_dataset_for("quickstart")["validation"]["text"]))
        median = np.median(given[:, :28].sum(axis=0))
        assert 60 < median < 90 and given[:, 28:].sum(axis=0) == pytest.approx([median] * 2, abs=1)
        # Where the known labels are never given, one text in all.
        model = copy.deepcopy(model)
        model.config.thresholds = [1.0] * 28
        predictor = Predictor(model, tokenizer, add_labels=["sun"])
        scores = predictor.probabilities(load_dataset_for("quickstart")["validation"]["text"])
        assert predictor.decide(scores).sum() == 1
        assert predictor.model.config.thresholds == predictor.thresholds.tolist()  # what saving the model keeps

    def test_what_cannot_be_added(self, request):
        for run, names, message in (
            ("tied_run", ["sun", np.nan], "`add_labels`.*text 2 of 2 is empty or no string: nan.*dropna"),
            ("tied_run", ["x\udc80"], "`add_labels`"),
            ("tied_run", ["sun", "joy"], "new names.*'joy'"),
            ("tied_run", ["sun", "sun"], "each once.*'sun'"),
            ("tied_run", ["xylophone"], "'xylophone'"),
            ("tiny_run", ["sun"], "a tied head.*tie_head=False"),
            ("stock_run", ["sun"], "this is a BertForSequenceClassification"),
            ("single_run", ["sun"], "single_label_classification"),
        ):
            with pytest.raises(ValueError, match=message):
                Predictor(request.getfixturevalue(run), device="cpu", add_labels=names)


class TestWrongInput:
    def test_options(self, tied_run, predictor):
        gpus = () if torch.cuda.is_available() else (0, "cuda:7", torch.device("cuda"))
        for options, message in (
            *(({"device": device}, "`device` 'cuda.* is not there") for device in gpus),
            *(({"device": device}, "`device`") for device in ("gpu", True, -2)),
            ({"dtype": "int8"}, r"`dtype` must be one of \['float32', 'bfloat16', 'float16'\], got 'int8'"),
            ({"taxonomy": "ekman", "add_labels": ["sun"]}, "`taxonomy` 'ekman' has no group"),
        ):
            with pytest.raises(ValueError, match=message):
                Predictor(tied_run, **options)
        for options in ({"dtype": "float16"}, {"device": 0}):
            with pytest.raises(ValueError, match="with a model object, and neither `dtype` nor another `device`:"):
                Predictor(predictor.model, predictor.tokenizer, **options)

    def test_a_file_is_missing(self, tmp_path, tiny_run):
        for left_out, message in (
            ("tokenizer*", "' has no tokenizer: save the one"),
            ("config.json", "is not a checkpoint: it has no config.json"),
            ("model.safetensors", "the checkpoint '.*' cannot be loaded"),
        ):
            folder = tmp_path / left_out.strip("*")
            shutil.copytree(tiny_run, folder, ignore=shutil.ignore_patterns(left_out))
            with pytest.raises(OSError, match=message):
                Predictor(folder)

    @pytest.mark.parametrize("kind", ["tiny_run", "stock_run"])
    def test_weights_that_the_configuration_does_not_use(self, kind, tmp_path, request):
        shutil.copytree(request.getfixturevalue(kind), run := tmp_path / "run")
        config = json.loads((run / "config.json").read_text())
        inner = config.get("encoder_config") or config
        inner["num_hidden_layers"] -= 1
        (run / "config.json").write_text(json.dumps(config))
        with pytest.raises(ValueError, match=r"config\.json.*has others.*layer\.\d"):
            Predictor(run)

    def test_a_head_of_pretraining_is_left_alone(self, stock_run, tmp_path):
        shutil.copytree(stock_run, run := tmp_path / "run")
        weights = load_file(run / "model.safetensors")
        save_file({**weights, "cls.predictions.bias": torch.zeros(3)}, run / "model.safetensors", {"format": "pt"})
        found, expected = (Predictor(folder, device="cpu").probabilities(["sun"]) for folder in (run, stock_run))
        np.testing.assert_allclose(found, expected, atol=1e-6)

    def test_a_base_model_is_no_classifier(self, base_bert):
        with pytest.raises((OSError, ValueError)):
            Predictor(base_bert)


class TestBatches:
    @pytest.mark.parametrize(("seed", "tokens"), [(0, 1), (1, 20), (2, 64), (3, 1000)])
    def test_properties(self, seed, tokens):
        draw = random.Random(seed)
        lengths = [draw.randint(1, 30) for _ in range(50)]
        batches = token_budget_batches(lengths, tokens)
        assert sorted(row for batch in batches for row in batch) == list(range(50))  # every row once
        for batch in batches:
            assert len(batch) == 1 or max(lengths[row] for row in batch) * len(batch) <= tokens
        order = [lengths[row] for batch in batches for row in batch]
        assert order == sorted(lengths, reverse=True)  # longest first: memory runs out at once or never

    @pytest.mark.parametrize("seed", range(4))
    def test_no_other_borders_cost_less(self, seed):
        draw = random.Random(seed)
        tokens = draw.choice([16, 40, 96])
        lengths = sorted((draw.randint(1, 20) for _ in range(9)), reverse=True)
        costs = []
        for borders in itertools.product([False, True], repeat=8):
            cuts = [0, *itertools.compress(range(1, 9), borders), 9]
            batches = [lengths[start:end] for start, end in itertools.pairwise(cuts)]
            if all(len(batch) == 1 or max(batch) * len(batch) <= tokens for batch in batches):
                costs.append(sum(max(batch) * len(batch) + tokens / 32 for batch in batches))
        ours = [[lengths[row] for row in batch] for batch in token_budget_batches(lengths, tokens)]
        assert sum(max(batch) * len(batch) + tokens / 32 for batch in ours) == pytest.approx(min(costs))


@pytest.fixture
def source(tmp_path) -> Path:
    return write_csv(tmp_path / "in.csv", ["text"], [[f"the day {'sun ' * (number % 7)}"] for number in range(25)])


def run_file(predictor, source: Path, output: Path, **options) -> dict:
    return predict_file(predictor, source, output, rows_per_part=10, progress=False, **options)


def through(predictor, source, output: Path, **options) -> list[dict]:
    """The rows that a job writes for a table, the rows of a JSONL file, or the content of a CSV file."""
    path = output.with_name("in.csv" if isinstance(source, str) else "in.jsonl")
    if isinstance(source, pyarrow.Table):
        pyarrow.parquet.write_table(source, path := path.with_suffix(".parquet"))
    elif isinstance(source, str):
        path.write_bytes(source.encode())
    else:
        write_jsonl(path, source)
    output.unlink(missing_ok=True)
    run_file(predictor, path, output, **options)
    return [row for _, row in read_rows(output)]


class TestFiles:
    def test_types_of_parquet_stay(self, predictor, tmp_path):
        columns = {"text": ["sun", "rain"], "n": pyarrow.array([1, None], pyarrow.int16())}
        columns |= {"when": pyarrow.array([0, 10**6], pyarrow.timestamp("us"))}
        table = pyarrow.table({**columns, "words": pyarrow.array([["a"], []], pyarrow.list_(pyarrow.string()))})
        through(predictor, table, tmp_path / "out.parquet")
        found = pyarrow.parquet.read_table(tmp_path / "out.parquet")
        assert found.select(table.column_names).equals(table)
        assert found.schema.field("predicted_scores").type == pyarrow.list_(pyarrow.float32())
        nan = pyarrow.table({"text": ["sun"], "x": [float("nan")]})
        assert through(predictor, nan, tmp_path / "out.jsonl")[0]["x"] is None  # JSON has no NaN

    def test_a_json_row_without_a_text(self, predictor, tmp_path):
        rows = [{"text": "sun"}, {"id": 7}, {"text": "rain"}]
        with pytest.raises(ValueError, match="line 2: no column 'text'"):
            through(predictor, rows, tmp_path / "out.jsonl")
        found = through(predictor, rows, tmp_path / "out.jsonl", on_bad_rows="skip")
        assert [row["predicted_labels"] is None for row in found] == [0, 1, 0] and found[1]["id"] == 7
        with pytest.raises(ValueError, match="no column 'text'"):
            through(predictor, [{"body": "sun"}], tmp_path / "other.jsonl", on_bad_rows="skip")

    def test_values_and_columns_of_later_rows_stay(self, predictor, tmp_path):
        rows = [{"text": "sun", "n": 1, "deep": {"a": [None, 1.5]}}, {"text": "rain", "other": True}]
        found = through(predictor, rows, tmp_path / "out.jsonl")
        assert [{k: v for k, v in row.items() if k not in PREDICTED} for row in found] == rows
        rows = [{"text": "sun"}, {"text": "rain", "note": "keep me"}]
        assert through(predictor, rows, tmp_path / "out.parquet")[1]["note"] == "keep me"

    def test_progress(self, predictor, source, tmp_path, capsys, monkeypatch):
        predict_file(predictor, source, tmp_path / "no-terminal.csv")
        assert "/25" not in capsys.readouterr().err
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        predict_file(predictor, source, tmp_path / "out.csv")
        assert "/25" in capsys.readouterr().err

    def test_csv(self, predictor, tmp_path):
        for source, rows in (
            ([{"text": "sun\rrain", "n": "1"}], [("sun\rrain", "1")]),
            ("text,n,,\nsun,1,,\nrain,2,,\n", [("sun", "1"), ("rain", "2")]),  # nameless columns
            ('text\nsun; rain\n"moon, too"\n', [("sun; rain", None), ("moon, too", None)]),
        ):
            found = through(predictor, source, tmp_path / "out.csv")
            assert [(row["text"], row.get("n")) for row in found] == rows

    @pytest.mark.parametrize(("separator", "output"), [(";", "out.csv"), ("\t", "out.csv.gz"), (";", "out.tsv.gz")])
    def test_separators_and_compressed_files(self, predictor, tmp_path, separator, output):
        """An output of the same format has the separator of the input, a TSV file has tabs."""
        source = write_csv(tmp_path / "in.csv.gz", ["text", "n"], [["sun, moon", "1"], ["rain", "2"]], separator)
        run_file(predictor, source, tmp_path / output)
        with open_file(tmp_path / output, "r", encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t" if ".tsv" in output else separator))
        assert [(row["text"], row["n"]) for row in rows] == [("sun, moon", "1"), ("rain", "2")]

    def test_a_header_that_says_no_separator(self, predictor, tmp_path):
        for content, message in (
            ("text;n,text\nsun;1,moon\n", r"in.csv.*\[',', ';'\].*--separator"),
            ("body;n\nsun, moon;1\n", r"no column 'text'.*--text-column.*--separator"),
        ):
            with pytest.raises(ValueError, match=message):
                through(predictor, content, tmp_path / "out.csv")
            options = {"separator": ";", "text_column": content[:4]}
            run_file(predictor, tmp_path / "in.csv", tmp_path / f"{content[:4]}.csv", **options)

    @pytest.mark.parametrize("values", [(1, "one"), (2**70, 1), ({}, {})], ids=["types", "65 bits", "empty objects"])
    def test_what_parquet_cannot_hold_is_said_before_the_prediction(self, predictor, tmp_path, monkeypatch, values):
        monkeypatch.setattr("hf_emotion.serving.file_rows.ROWS_PER_CHUNK", 1)
        rows = [{"text": "sun", "n": value} for value in values]
        with monkeypatch.context() as patch, pytest.raises(ValueError, match="in.jsonl.*write .jsonl"):
            patch.setattr(predictor, "of_items", None)
            through(predictor, rows, tmp_path / "out.parquet")
        assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]
        assert [row["n"] for row in through(predictor, rows, tmp_path / "out.jsonl")] == list(values)

    def test_parts_of_another_job(self, predictor, middling, source, tmp_path, monkeypatch):
        with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
            patch.setattr("hf_emotion.serving.bulk._merge", lambda *arguments: 1 / 0)
            run_file(predictor, source, tmp_path / "out.csv")
        tuned = Predictor(middling, device="cpu")
        tuned.thresholds = tuned.thresholds + 0.01
        for other in (tuned, Predictor(middling, device="cpu", taxonomy="ekman")):
            with pytest.raises(FileExistsError, match="out.csv.parts holds parts of another job"):
                run_file(other, source, tmp_path / "out.csv")


class TestBadFiles:
    @pytest.mark.parametrize(
        ("content", "output", "options", "message"),
        [
            ("text\nsun\n", "taken.csv", {}, "the output .*taken.csv exists"),
            ("text\nsun\n", "in.csv", {}, "exists"),
            ("text\nsun\n", "out.xls", {}, "`output` must end in one of .* got 'out.xls'"),
            ("text\nsun\n", "out.csv", {"on_bad_rows": "drop"}, "`on_bad_rows` must be"),
            ("text,predicted_labels\nsun,x\n", "out.csv", {}, "'predicted_labels' already"),
            ("text,predicted_scores\nsun,x\n", "out.csv", {}, "'predicted_scores' already"),
            ('{"text": "sun"}\n{text}\n', "out.csv", {}, "in.jsonl, line 2: no valid JSON"),
            ('{"text": "sun"}\n{"text": "a", "note": "x"}\n', "out.csv", {}, "different columns.*note.*write .jsonl"),
            (None, "out.csv", {}, "no such file: .*in.jsonl"),
        ],
    )
    def test_said_before_the_prediction(self, predictor, tmp_path, monkeypatch, content, output, options, message):
        (tmp_path / "taken.csv").write_text("mine")
        source = tmp_path / ("in.csv" if content and content.startswith("text") else "in.jsonl")
        if content is not None:
            source.write_text(content)
        before = files_in(tmp_path)
        monkeypatch.setattr(predictor, "of_items", None)
        error = FileExistsError if "exists" in message else ValueError if content else FileNotFoundError
        with pytest.raises(error, match=message):
            run_file(predictor, source, tmp_path / output, **options)
        assert files_in(tmp_path) == before and not list(tmp_path.glob("*.parts"))

    def test_a_file_that_is_cut_off(self, predictor, tmp_path):
        path = write_csv(tmp_path / "in.csv.gz", ["text"], [[f"sun {number}"] for number in range(99)])
        path.write_bytes(path.read_bytes()[:-20])
        message = r"in\.csv\.gz cannot be read \(Compressed file ended before the end-of-stream marker was"
        with pytest.raises(ValueError, match=message):
            run_file(predictor, path, tmp_path / "out.csv")
        assert [path.name for path in tmp_path.iterdir()] == ["in.csv.gz"]

    @pytest.mark.parametrize(
        ("content", "kept", "line", "to"),
        [
            ('{text}\n{"text": "sun"}\n[1]\n{"text": "a', [None, "sun", None, None], 1, "csv"),
            ("text\nsun\nrain,and more\nwind\n", ["sun", "rain", "wind"], 3, "parquet"),
            ("text\tn\nsun\t1\nrain\nwind\t2\n", ["sun", "rain", "wind"], 3, "jsonl"),
        ],
        ids=["jsonl", "csv", "tsv"],
    )
    def test_malformed_rows_keep_their_places(self, predictor, tmp_path, caplog, request, content, kept, line, to):
        source, output = tmp_path / f"in.{request.node.callspec.id}", tmp_path / f"out.{to}"
        source.write_text(content)
        good = [number for number, text in enumerate(kept) if text in ("sun", "wind")]
        counts = run_file(predictor, source, output, on_bad_rows="skip", top_k=1)
        assert counts == {"rows": len(kept), "skipped": len(kept) - len(good)}
        rows = [row for _, row in read_rows(output)]
        assert [row.get("text") or None for row in rows] == kept
        found = [row["predicted_labels"] or None for row in rows]
        expected = [items[0]["label"] for items in predictor([kept[number] for number in good], top_k=1)]
        assert [found[number] for number in good] == (expected if to == "csv" else [[label] for label in expected])
        assert [number for number, labels in enumerate(found) if labels is not None] == good
        assert f"stay without a prediction; the first: line {line}" in caplog.text


def test_evaluate_tunes_thresholds_that_a_checkpoint_lacks(stock_run, tmp_path, caplog):
    """As those that the Hub has, on the validation part."""
    model = AutoModelForSequenceClassification.from_pretrained(stock_run)
    model.config.thresholds = model.config.calibration_temperature = None
    tokenizer = AutoTokenizer.from_pretrained(stock_run)
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path)
    found = json.loads(invoke("evaluate", tmp_path, "--dataset", "quickstart", "--threshold", "0.5", "--json"))
    assert "no thresholds: they are tuned on the validation part of quickstart" in caplog.text
    predictor, splits, scores, gold = Predictor(model, tokenizer), load_dataset_for("quickstart"), {}, {}
    for split in ("validation", "test"):
        scores[split] = predictor.probabilities(splits[split]["text"])
        gold[split] = np.array([[int(i in row) for i in range(28)] for row in splits[split]["labels"]])
    tuned = np.array(metrics.tune_thresholds(gold["validation"], scores["validation"]))
    f1 = [f1_score(gold["test"], scores["test"] > limits, average="macro", zero_division=0) for limits in (tuned, 0.5)]
    assert [found["metrics"][kind]["macro_f1"] for kind in ("tuned", "fixed")] == pytest.approx(f1)
    assert f1[0] != pytest.approx(f1[1])
    # A file alone is no validation part: tuned on the rows that are measured, thresholds would be too good.
    rows = [[row["text"], "|".join(predictor.labels[i] for i in row["labels"])] for row in splits["test"]]
    file = write_csv(tmp_path / "data" / "mine.csv", ["text", "label"], rows)
    alone = evaluate(predictor, "files", data_dir=file, options={"label_separator": "|"})
    assert alone["metrics"]["tuned"]["macro_f1"] == pytest.approx(f1[1])
