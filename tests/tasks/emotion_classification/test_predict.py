# SPDX-License-Identifier: Apache-2.0
"""Prediction: lists of texts against the plain model, and files of any format with interruptions."""

import copy
import csv
import gzip
import itertools
import json
import random
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow
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
from toolkit_helpers import files_in, invoke, one_thread, recipe_for, write_csv, write_jsonl
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
)

import hf_emotion.runtime.classifying as predictor_module
import hf_emotion.serving.bulk as bulk
from hf_emotion import Predictor, load_dataset_for, metrics, train
from hf_emotion.io.paths import open_file
from hf_emotion.runtime import batching
from hf_emotion.runtime.batching import token_budget_batches
from hf_emotion.serving.bulk import predict_file
from hf_emotion.serving.file_rows import PREDICTED
from hf_emotion.taxonomies import EKMAN, GOEMOTIONS, SENTIMENT


pytest_plugins = ["toolkit_fixtures"]


@pytest.fixture(autouse=True)
def single_thread():
    with one_thread():
        yield


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Sentences of one to thirty words, in no order of length."""
    sentences = load_dataset_for("quickstart")["test"]["text"][:40]
    return [" ".join(sentence.split()[: 1 + 7 * i % 30]) for i, sentence in enumerate(sentences)]


@pytest.fixture(scope="module")
def plain(tiny_run, texts) -> np.ndarray:
    """Probabilities of `texts`, one text and no padding at a time."""
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

    @pytest.mark.parametrize(("tokens", "chunk"), [(1, 4096), (60, 4096), (60, 7), (4096, 1)])
    def test_whatever_the_batches(self, predictor, texts, plain, monkeypatch, tokens, chunk):
        monkeypatch.setattr(predictor_module, "TOKENS_PER_BATCH", tokens)
        monkeypatch.setattr(batching, "CHUNK", chunk)
        np.testing.assert_allclose(predictor.probabilities(texts), plain, atol=1e-5)

    def test_texts_are_tokenized_a_number_of_characters_at_once(self, predictor, texts, plain, monkeypatch):
        characters = []
        encode = predictor_module.encode_rows

        def watched(predictor, rows, windows):
            characters.append(list(map(len, rows.texts)))
            return encode(predictor, rows, windows)

        monkeypatch.setattr(predictor_module, "encode_rows", watched)
        monkeypatch.setattr(batching, "CHARACTERS", 2 * max(map(len, texts)))
        np.testing.assert_allclose(predictor.probabilities(texts), plain, atol=1e-5)
        assert sum(characters, []) == list(map(len, texts))
        assert 1 < len(characters) < len(texts) and max(map(sum, characters)) <= batching.CHARACTERS

    def test_batches_keep_the_budget(self, predictor, texts, monkeypatch):
        sizes = []
        forward = predictor_module.model_logits
        monkeypatch.setattr(predictor_module, "TOKENS_PER_BATCH", 80)

        def watched(model, batch):
            sizes.append(batch["attention_mask"].sum(axis=1).tolist())
            return forward(model, batch)

        monkeypatch.setattr(predictor_module, "model_logits", watched)
        predictor.probabilities(texts)
        assert sum(map(len, sizes)) == len(texts)
        assert 1 < len(sizes) < len(texts)
        assert all(max(lengths) * len(lengths) <= 80 for lengths in sizes)

    def test_in_half_precision(self, middling, texts, plain):
        predictor = Predictor(middling, device="cpu", dtype="bfloat16")
        assert {parameter.dtype for parameter in predictor.model.parameters()} == {torch.bfloat16}
        found = predictor.probabilities(texts)
        assert found.dtype == np.float32
        difference = np.abs(found - plain)
        assert difference.mean() < 0.01 and difference.max() > 1e-5  # another precision, the same model
        assert Predictor(middling, device="cpu").model.dtype == torch.float32

    def test_dtypes_that_are_refused(self, middling, predictor):
        with pytest.raises(
            ValueError, match=r"`dtype` must be one of \['float32', 'bfloat16', 'float16'\], got 'int8'"
        ):
            Predictor(middling, dtype="int8")
        with pytest.raises(
            ValueError,
            match="pass `tokenizer` together with a model object, and neither `dtype` nor another `device`:",
        ):
            Predictor(predictor.model, predictor.tokenizer, dtype="float16")

    def test_of_a_single_label_model(self, single_run):
        texts = ["so happy", "i am not calm today", "the day", "a home of the sun and the rain"]
        predictor = Predictor(single_run, device="cpu")
        found = predictor.probabilities(texts)
        np.testing.assert_allclose(found, plain_probabilities(single_run, texts), atol=1e-5)
        np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)
        for row, labels in zip(found, predictor(texts), strict=True):
            assert labels == [{"label": predictor.labels[row.argmax()], "score": pytest.approx(row.max(), abs=1e-6)}]

    def test_a_single_label_model_gives_one_label(self, single_run):
        predictor = Predictor(single_run, device="cpu")
        assert len(predictor.present(np.array([[0.4, 0.4, 0.2]]))[0]) == 1

    def test_of_a_model_object(self, tiny_run, texts, plain):
        model = AutoModelForSequenceClassification.from_pretrained(tiny_run).train()
        tokenizer = AutoTokenizer.from_pretrained(tiny_run)
        np.testing.assert_allclose(Predictor(model, tokenizer).probabilities(texts), plain, atol=1e-5)
        assert not model.training
        with pytest.raises(ValueError, match="pass `tokenizer` together with a model object"):
            Predictor(model)

    def test_of_a_new_classifier_over_a_language_model(self, tiny_run, tmp_path, texts):
        """Until it is saved, its configuration names the class of the language model."""
        tokenizer = AutoTokenizer.from_pretrained(tiny_run)
        sizes = {"n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 40}
        config = GPT2Config(vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, **sizes)
        GPT2LMHeadModel(config).save_pretrained(tmp_path)
        model = AutoModelForSequenceClassification.from_pretrained(tmp_path, num_labels=3)
        assert model.config.architectures == ["GPT2LMHeadModel"]
        assert Predictor(model, tokenizer).probabilities(texts).shape == (40, 3)
        assert model.config.architectures == ["GPT2LMHeadModel"]

    def test_a_language_model_without_a_padding_id_is_trained(self, tiny_run, tmp_path, texts, no_plots):
        """Its classifier reads a row's last token, which it finds by the padding."""
        base, run = tmp_path / "base", tmp_path / "run"
        tokenizer = AutoTokenizer.from_pretrained(tiny_run)
        tokenizer.save_pretrained(base)
        sizes = {"n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 40}
        model = asymmetric_(GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), **sizes)), seed=6)
        assert model.config.pad_token_id is None
        model.save_pretrained(base)
        train(recipe_for(base, {"max_steps": 2}, model_type=None, model_config={}), run)
        predictor = Predictor(run)
        assert predictor.model.config.pad_token_id == tokenizer.pad_token_id
        together = predictor.probabilities(texts[:8])
        alone = np.concatenate([predictor.probabilities([text]) for text in texts[:8]])
        np.testing.assert_allclose(together, alone, atol=1e-5)
        assert np.std(alone, axis=0).mean() > 1e-4

    def test_no_texts(self, predictor):
        assert predictor([]) == []
        assert predictor.probabilities([]).shape == (0, 28)

    def test_one_string_is_one_text(self, predictor, texts):
        assert predictor(texts[5]) == predictor([texts[5]])
        assert len(predictor(texts[5])) == 1

    def test_of_a_generator_of_texts(self, predictor, texts, plain):
        np.testing.assert_allclose(predictor.probabilities(text for text in texts), plain, atol=1e-5)


class TestLabels:
    def test_those_above_their_thresholds_most_probable_first(self, predictor, middling, texts, plain):
        limits = AutoModelForSequenceClassification.from_pretrained(middling).config.thresholds
        for labels, row in zip(predictor(texts), plain, strict=True):
            expected = [
                (score, name) for score, limit, name in zip(row, limits, GOEMOTIONS, strict=True) if score > limit
            ]
            # The median of two probabilities is neither of them: no score lies at its limit.
            assert [item["label"] for item in labels] == [name for _, name in sorted(expected, reverse=True)]
            assert [item["score"] for item in labels] == pytest.approx(
                [s for s, _ in sorted(expected, reverse=True)], abs=1e-5
            )
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
            assert [item["label"] for item in labels] == [
                GOEMOTIONS[i] for i in sorted(range(28), key=lambda i: -row[i])[:3]
            ]
        assert [len(labels) for labels in predictor(texts[:2], top_k=100)] == [28, 28]

    @pytest.mark.parametrize("top_k", [0, -1])
    def test_top_k_of_none(self, predictor, top_k):
        with pytest.raises(ValueError, match=f"`top_k` must be a whole number of at least 1, got {top_k}"):
            predictor(["x"], top_k=top_k)

    def test_without_stored_thresholds_one_half(self, tmp_path, tiny_run, texts, plain):
        model = AutoModelForSequenceClassification.from_pretrained(tiny_run)
        model.config.thresholds = None
        predictor = Predictor(model, AutoTokenizer.from_pretrained(tiny_run))
        chosen = [{item["label"] for item in labels} for labels in predictor(texts)]
        assert chosen == [{name for name, score in zip(GOEMOTIONS, row, strict=True) if score > 0.5} for row in plain]
        assert any(chosen)


class TestTaxonomies:
    @pytest.mark.parametrize(("taxonomy", "groups"), [("ekman", EKMAN), ("sentiment", SENTIMENT)])
    def test_roll_up(self, middling, texts, plain, taxonomy, groups):
        predictor = Predictor(middling, device="cpu", taxonomy=taxonomy)
        assert predictor.labels == list(groups)
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

    def test_own_labels_stay_available(self, middling, texts, plain):
        predictor = Predictor(middling, device="cpu", taxonomy="ekman")
        np.testing.assert_allclose(predictor.label_probabilities(texts), plain, atol=1e-5)

    def test_the_finest(self, middling, texts):
        assert Predictor(middling, device="cpu", taxonomy="goemotions").labels == GOEMOTIONS

    def test_sums_for_a_single_label_model(self, tiny_run, texts):
        model = AutoModelForSequenceClassification.from_pretrained(tiny_run)
        model.config.problem_type = "single_label_classification"
        tokenizer = AutoTokenizer.from_pretrained(tiny_run)
        fine = Predictor(model, tokenizer).probabilities(texts)
        coarse = Predictor(model, tokenizer, taxonomy="sentiment").probabilities(texts)
        for row, groups in zip(fine, coarse, strict=True):
            of = dict(zip(GOEMOTIONS, row, strict=True))
            assert groups.tolist() == pytest.approx(
                [sum(of[n] for n in names) for names in SENTIMENT.values()], abs=1e-5
            )
        assert coarse.sum(axis=1) == pytest.approx(1, abs=1e-5)

    def test_other_labels(self, single_run):
        with pytest.raises(ValueError, match="taxonomy 'ekman' groups the 28 GoEmotions labels"):
            Predictor(single_run, taxonomy="ekman")

    def test_unknown_name(self, middling):
        with pytest.raises(ValueError, match="`taxonomy` must be one of .*'ekman'.* got 'plutchik'"):
            Predictor(middling, taxonomy="plutchik")


class TestAddedLabels:
    NAMES = ("sun", "the rain")

    @pytest.fixture(scope="class")
    def model(self, tied_run):
        """Its labels pass their thresholds in 1, 2, ..., 10 (and again 1) of ten texts; the median is 5."""
        model = AutoModelForSequenceClassification.from_pretrained(tied_run)
        scores = plain_probabilities(tied_run, load_dataset_for("quickstart")["validation"]["text"])
        rates = [0.1 * (1 + i % 10) for i in range(27)] + [0.0]
        model.config.thresholds = [
            float(np.quantile(column, 1 - rate)) for column, rate in zip(scores.T, rates, strict=True)
        ]
        return model

    @pytest.fixture(scope="class")
    def tokenizer(self, tied_run):
        return AutoTokenizer.from_pretrained(tied_run)

    def test_they_come_after_the_old_ones_which_stay(self, model, tokenizer, tied_run, texts):
        config, vectors = model.config.to_dict(), model.bert.score.label_embeddings
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

    def test_they_are_given_as_often_as_the_median_label(self, model, tokenizer):
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

    @pytest.mark.parametrize(
        ("run", "names", "message"),
        [
            ("tied_run", ["sun", " "], "`add_labels`.*text 2 of 2 is empty or no string"),
            ("tied_run", ["x\udc80"], "`add_labels`"),
            ("tied_run", ["sun", "joy"], "new names.*'joy'"),
            ("tied_run", ["sun", "sun"], "each once.*'sun'"),
            ("tied_run", ["xylophone"], "'xylophone'"),
            ("tiny_run", ["sun"], "a tied head.*tie_head=False"),
            ("stock_run", ["sun"], "this is a BertForSequenceClassification"),
            ("single_run", ["sun"], "single_label_classification"),
        ],
    )
    def test_what_cannot_be_added(self, run, names, message, request):
        with pytest.raises(ValueError, match=message):
            Predictor(request.getfixturevalue(run), device="cpu", add_labels=names)

    def test_no_groups(self, tied_run):
        with pytest.raises(ValueError, match="`taxonomy` 'ekman' has no group"):
            Predictor(tied_run, taxonomy="ekman", add_labels=["sun"])


class TestLongTexts:
    def test_cut_with_one_counted_warning(self, predictor, caplog, monkeypatch):
        monkeypatch.setattr(batching, "CHUNK", 4)  # counted over all chunks
        texts = ["sun " * (60 if i % 3 == 0 else 5) for i in range(20)]
        predictor = Predictor(predictor.model, predictor.tokenizer, max_windows=1)
        predictor(texts)
        messages = [record.getMessage() for record in caplog.records]
        assert messages == ["7 of 20 texts are longer than 32 tokens (`max_length`) and were cut"]

    @pytest.mark.parametrize("max_length", [None, 40])
    def test_what_is_cut_is_the_end(self, middling, max_length):
        """By default as in training, at 32 tokens; at most at the model's 40. [CLS] and [SEP] are two of them."""
        predictor = Predictor(middling, device="cpu", max_length=max_length, max_windows=1)
        words = ["sun", "rain", "day"] * 20
        kept = (max_length or 32) - 2
        found = predictor.probabilities([" ".join(words), " ".join(words[:kept])])
        np.testing.assert_allclose(found[0], found[1], atol=1e-6)
        assert np.abs(found[0] - predictor.probabilities([" ".join(words[: kept - 1])])[0]).max() > 1e-4

    def test_a_length_of_one_s_own(self, middling, caplog):
        predictor = Predictor(middling, device="cpu", max_length=10, max_windows=1)
        found = predictor.probabilities(["sun rain day " * 5, "sun rain day sun rain day sun rain"])
        np.testing.assert_allclose(found[0], found[1], atol=1e-6)
        assert "1 of 2 texts are longer than 10 tokens" in caplog.text

    def test_a_text_of_just_the_length(self, predictor, caplog):
        predictor(["sun " * 30])
        assert caplog.records == []

    @pytest.mark.parametrize("max_length", [2, 41, 0, -1])
    def test_lengths_that_cannot_be(self, middling, max_length):
        with pytest.raises(
            ValueError,
            match=f"`max_length` must be a whole number between 3 and the model's 40 positions, got {max_length}",
        ):
            Predictor(middling, max_length=max_length)


class TestWrongInput:
    @pytest.mark.parametrize("text", ["", "  \n", None, 3, float("nan")])
    def test_empty_text(self, predictor, text):
        with pytest.raises(ValueError, match=f"text 2 of 3 is empty or no string: {re.escape(repr(text))}"):
            predictor(["fine", text, "fine"])

    @pytest.mark.parametrize("given", [None, 5, {"fine": "fine"}])
    def test_no_list(self, predictor, given):
        with pytest.raises(TypeError, match=f"texts must be a string or a list.*got {type(given).__name__}"):
            predictor(given)

    @pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
    @pytest.mark.parametrize("device", ["cuda", 0, "cuda:7", 7, torch.device("cuda")])
    def test_no_gpu(self, tiny_run, device, monkeypatch):
        monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
        with pytest.raises(ValueError, match="`device` 'cuda.* is not there"):
            Predictor(tiny_run, device=device)

    @pytest.mark.parametrize("device", ["gpu", True, -2])
    def test_no_device(self, tiny_run, device):
        with pytest.raises(ValueError, match="`device`"):
            Predictor(tiny_run, device=device)

    def test_the_cpu_as_pipelines_name_it(self, tiny_run):
        assert Predictor(tiny_run, device=-1).model.device.type == "cpu"

    def test_a_model_object_elsewhere(self, tiny_run):
        predictor = Predictor(tiny_run, device="cpu")
        with pytest.raises(
            ValueError,
            match="pass `tokenizer` together with a model object, and neither `dtype` nor another `device`:",
        ):
            Predictor(predictor.model, predictor.tokenizer, device=0)

    def test_no_tokenizer(self, tmp_path, tiny_run):
        shutil.copytree(tiny_run, tmp_path / "model", ignore=shutil.ignore_patterns("tokenizer*"))
        with pytest.raises(OSError, match="model' has no tokenizer: save the one"):
            Predictor(tmp_path / "model")

    def test_no_checkpoint(self, tmp_path):
        with pytest.raises(OSError, match="is not a checkpoint: it has no config.json"):
            Predictor(tmp_path)

    def test_no_weights(self, tmp_path, tiny_run):
        shutil.copytree(tiny_run, tmp_path / "model", ignore=shutil.ignore_patterns("model.safetensors"))
        with pytest.raises(OSError, match="the checkpoint '.*model' cannot be loaded"):
            Predictor(tmp_path / "model")

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

    def test_nothing_there(self, tmp_path, monkeypatch):
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        for name in ("nobody/no-such-model", str(tmp_path / "nowhere")):
            with pytest.raises(OSError, match=f"the checkpoint {re.escape(repr(name))} cannot be loaded") as caught:
                Predictor(name)
            assert "\n" not in str(caught.value)

    def test_a_base_model_is_no_classifier(self, base_bert):
        with pytest.raises((OSError, ValueError)):
            Predictor(base_bert)


class TestBatches:
    @pytest.mark.parametrize("seed", range(4))
    @pytest.mark.parametrize("tokens", [1, 20, 64, 1000])
    def test_properties(self, seed, tokens):
        draw = random.Random(seed)
        lengths = [draw.randint(1, 30) for _ in range(50)]
        batches = token_budget_batches(lengths, tokens)
        assert sorted(row for batch in batches for row in batch) == list(range(50))  # every row once
        for batch in batches:
            assert len(batch) == 1 or max(lengths[row] for row in batch) * len(batch) <= tokens
        order = [lengths[row] for batch in batches for row in batch]
        assert order == sorted(lengths, reverse=True)  # longest first: memory runs out at once or never

    @pytest.mark.parametrize("seed", range(8))
    def test_no_other_borders_cost_less(self, seed):
        draw = random.Random(seed)
        tokens = draw.choice([16, 40, 96])
        lengths = sorted((draw.randint(1, 20) for _ in range(9)), reverse=True)

        def cost(batches):
            return sum(max(batch) * len(batch) + tokens / 32 for batch in batches)

        def allowed(batches):
            return all(len(batch) == 1 or max(batch) * len(batch) <= tokens for batch in batches)

        every = []
        for borders in itertools.product([False, True], repeat=len(lengths) - 1):
            batches = [[lengths[0]]]
            for length, border in zip(lengths[1:], borders, strict=True):
                if border:
                    batches.append([length])
                else:
                    batches[-1].append(length)
            every.append(batches)
        least = min(cost(batches) for batches in every if allowed(batches))
        ours = [[lengths[row] for row in batch] for batch in token_budget_batches(lengths, tokens)]
        assert cost(ours) == pytest.approx(least)

    def test_none(self):
        assert token_budget_batches([], 10) == []


ROWS = [
    ["1", "so happy, so calm", "None"],
    ["2", "two\nlines", ""],
    ["3", 'a "quoted" word', "NA"],
    ["4", "tab\there", "x|y"],
    ["5", "caf\xe9 \N{FIRE} \u2028 sun", "007"],
    *([str(number), f"the day {'sun ' * (number % 7)}", f"n{number}"] for number in range(6, 26)),
]
HEADER = ["id", "text", "note"]


@pytest.fixture
def source(tmp_path) -> Path:
    return write_csv(tmp_path / "in.csv", HEADER, ROWS)


@pytest.fixture(scope="module")
def expected(predictor) -> list[list[dict]]:
    return predictor([row[1] for row in ROWS])


def run_file(predictor, source: Path, output: Path, **options) -> dict:
    return predict_file(predictor, source, output, rows_per_part=10, progress=False, **options)


def read_table(path: Path, delimiter: str = ",") -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter=delimiter, strict=True))


def cased_tokenizer() -> PreTrainedTokenizerFast:
    """One that tells an accent in a character from one behind it, as byte-level tokenizers do."""
    words = Tokenizer(WordLevel({"[PAD]": 0, "[UNK]": 1, "caf\u00e9": 2, "is": 3}, unk_token="[UNK]"))
    words.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]", pad_token="[PAD]")


def test_composed_characters(predictor):
    """A text is read as the loaders give it to the training, in NFC."""
    plain = Predictor(predictor.model, cased_tokenizer(), device="cpu")
    composed, separate = "caf\u00e9 is", "cafe\u0301 is"
    assert plain.encode([separate]).inputs["input_ids"][0] == [2, 3]
    np.testing.assert_array_equal(plain.probabilities([composed]), plain.probabilities([separate]))
    own = EmotionClassificationPipeline(model=predictor.model, tokenizer=cased_tokenizer(), device="cpu")
    assert own(separate, top_k=None) == own(composed, top_k=None)


class TestFiles:
    def check_lists(self, rows: list[dict], expected: list[list[dict]]):
        assert len(rows) == len(expected) == 25
        for row, labels, original in zip(rows, expected, ROWS, strict=True):
            assert [row[name] for name in HEADER] == original
            assert row["predicted_labels"] == [item["label"] for item in labels]
            assert row["predicted_scores"] == pytest.approx([item["score"] for item in labels], abs=1e-5)

    @pytest.mark.parametrize(("ending", "delimiter"), [("csv", ","), ("tsv", "\t")])
    def test_csv_to_csv(self, predictor, source, expected, tmp_path, ending, delimiter):
        output = tmp_path / f"out.{ending}"
        assert run_file(predictor, source, output) == {"rows": 25, "skipped": 0}
        rows = read_table(output, delimiter)
        assert list(rows[0]) == [
            *HEADER,
            "predicted_labels",
            "predicted_scores",
            "truncated",
            "unknown",
            "predicted_language",
        ]
        for row, labels, original in zip(rows, expected, ROWS, strict=True):
            assert [row[name] for name in HEADER] == original
            assert row["predicted_labels"] == "|".join(item["label"] for item in labels)
            scores = [float(score) for score in row["predicted_scores"].split("|") if score]
            assert scores == pytest.approx([item["score"] for item in labels], abs=1e-4)

    def test_csv_to_jsonl(self, predictor, source, expected, tmp_path):
        run_file(predictor, source, tmp_path / "out.jsonl")
        lines = (tmp_path / "out.jsonl").read_text(encoding="utf-8").split("\n")
        assert lines.pop() == ""
        self.check_lists([json.loads(line) for line in lines], expected)

    def test_tsv_to_parquet_to_jsonl_to_parquet(self, predictor, expected, tmp_path):
        write_csv(tmp_path / "in.tsv", HEADER, ROWS, delimiter="\t")
        run_file(predictor, tmp_path / "in.tsv", tmp_path / "a.parquet")
        table = pyarrow.parquet.read_table(tmp_path / "a.parquet")
        self.check_lists(table.to_pylist(), expected)
        assert table.schema.field("predicted_scores").type == pyarrow.list_(pyarrow.float32())

        plain_rows = table.select(HEADER)
        pyarrow.parquet.write_table(plain_rows, tmp_path / "in.parquet", row_group_size=7)
        run_file(predictor, tmp_path / "in.parquet", tmp_path / "b.jsonl")
        rows = [json.loads(line) for line in (tmp_path / "b.jsonl").read_text(encoding="utf-8").split("\n") if line]
        self.check_lists(rows, expected)

        write_jsonl(tmp_path / "in.jsonl", plain_rows.to_pylist())
        run_file(predictor, tmp_path / "in.jsonl", tmp_path / "c.parquet")
        self.check_lists(pyarrow.parquet.read_table(tmp_path / "c.parquet").to_pylist(), expected)

    def test_types_of_parquet_stay(self, predictor, tmp_path):
        table = pyarrow.table(
            {
                "text": ["sun", "rain"],
                "n": pyarrow.array([1, None], pyarrow.int16()),
                "when": pyarrow.array([0, 10**6], pyarrow.timestamp("us")),
                "words": pyarrow.array([["a"], []], pyarrow.list_(pyarrow.string())),
            }
        )
        pyarrow.parquet.write_table(table, tmp_path / "in.parquet")
        run_file(predictor, tmp_path / "in.parquet", tmp_path / "out.parquet")
        found = pyarrow.parquet.read_table(tmp_path / "out.parquet")
        assert found.select(table.column_names).equals(table)

    def test_a_json_row_without_a_text(self, predictor, tmp_path):
        rows = [{"text": "sun"}, {"id": 7}, {"text": "rain"}]
        write_jsonl(tmp_path / "in.jsonl", rows)
        with pytest.raises(ValueError, match="line 2: no column 'text'"):
            run_file(predictor, tmp_path / "in.jsonl", tmp_path / "out.jsonl")
        done = run_file(predictor, tmp_path / "in.jsonl", tmp_path / "out.jsonl", on_bad_rows="skip")
        found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
        assert done == {"rows": 3, "skipped": 1} and [row["predicted_labels"] is None for row in found] == [0, 1, 0]
        assert found[1]["id"] == 7
        write_jsonl(tmp_path / "other.jsonl", [{"body": "sun"}, {"body": "rain"}])
        with pytest.raises(ValueError, match="no column 'text'"):
            run_file(predictor, tmp_path / "other.jsonl", tmp_path / "other-out.jsonl", on_bad_rows="skip")

    def test_json_values_stay(self, predictor, tmp_path):
        rows = [{"text": "sun", "n": 1, "deep": {"a": [None, 1.5]}}, {"text": "rain", "other": True}]
        write_jsonl(tmp_path / "in.jsonl", rows)
        run_file(predictor, tmp_path / "in.jsonl", tmp_path / "out.jsonl")
        found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
        assert [{k: v for k, v in row.items() if k not in PREDICTED} for row in found] == rows

    def test_top_k_and_another_column(self, predictor, tmp_path):
        write_jsonl(tmp_path / "in.jsonl", [{"comment": "sun", "text": ""}, {"comment": "rain day", "text": None}])
        run_file(predictor, tmp_path / "in.jsonl", tmp_path / "out.jsonl", text_column="comment", top_k=2)
        rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
        expected = predictor(["sun", "rain day"], top_k=2)
        assert [row["predicted_labels"] for row in rows] == [[item["label"] for item in row] for row in expected]

    def test_groups(self, middling, source, tmp_path):
        predictor = Predictor(middling, device="cpu", taxonomy="ekman")
        run_file(predictor, source, tmp_path / "out.csv")
        expected = ["|".join(item["label"] for item in row) for row in predictor([row[1] for row in ROWS])]
        assert [row["predicted_labels"] for row in read_table(tmp_path / "out.csv")] == expected

    def test_nothing_else_is_left(self, predictor, source, tmp_path):
        before = source.read_bytes()
        run_file(predictor, source, tmp_path / "out.csv")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", "out.csv"]
        assert source.read_bytes() == before

    @pytest.mark.parametrize("rows_per_part", [1, 7, 25, 1000])
    def test_whatever_the_parts(self, predictor, source, tmp_path, rows_per_part):
        predict_file(predictor, source, tmp_path / "one.jsonl", rows_per_part=10, progress=False)
        predict_file(predictor, source, tmp_path / "two.jsonl", rows_per_part=rows_per_part, progress=False)
        one, two = ([json.loads(line) for line in (tmp_path / f"{n}.jsonl").open()] for n in ("one", "two"))
        assert [row["predicted_labels"] for row in one] == [row["predicted_labels"] for row in two]

    def test_cut_texts_are_counted_once(self, predictor, tmp_path, caplog):
        write_csv(tmp_path / "in.csv", ["text"], [["sun " * (60 if i % 5 == 0 else 2)] for i in range(25)])
        predictor = Predictor(predictor.model, predictor.tokenizer, max_windows=1)
        run_file(predictor, tmp_path / "in.csv", tmp_path / "out.csv")
        messages = [record.getMessage() for record in caplog.records]
        assert messages == ["5 of 25 texts are longer than 32 tokens (`max_length`) and were cut"]

    def test_progress(self, predictor, source, tmp_path, capsys, monkeypatch):
        predict_file(predictor, source, tmp_path / "no-terminal.csv")
        assert "/25" not in capsys.readouterr().err
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        predict_file(predictor, source, tmp_path / "out.csv")
        assert "/25" in capsys.readouterr().err

    def test_undefined_numbers_in_jsonl(self, predictor, tmp_path):
        table = pyarrow.table({"text": ["sun"], "x": [float("nan")]})
        pyarrow.parquet.write_table(table, tmp_path / "in.parquet")
        run_file(predictor, tmp_path / "in.parquet", tmp_path / "out.jsonl")
        assert "NaN" not in (tmp_path / "out.jsonl").read_text()

    def test_carriage_returns_in_csv(self, predictor, tmp_path):
        write_jsonl(tmp_path / "in.jsonl", [{"text": "sun\rrain", "n": "1"}])
        run_file(predictor, tmp_path / "in.jsonl", tmp_path / "out.csv")
        (row,) = read_table(tmp_path / "out.csv")
        assert row["text"] == "sun\rrain" and row["n"] == "1"

    def test_columns_of_later_rows_in_parquet(self, predictor, tmp_path):
        write_jsonl(tmp_path / "in.jsonl", [{"text": "sun"}, {"text": "rain", "note": "keep me"}])
        run_file(predictor, tmp_path / "in.jsonl", tmp_path / "out.parquet")
        rows = pyarrow.parquet.read_table(tmp_path / "out.parquet").to_pylist()
        assert rows[1]["note"] == "keep me"

    @pytest.mark.parametrize("ending", ["csv", "parquet"])
    def test_a_file_without_rows(self, predictor, tmp_path, ending):
        pyarrow.parquet.write_table(
            pyarrow.table({"text": pyarrow.array([], pyarrow.string())}), tmp_path / "in.parquet"
        )
        with pytest.raises(ValueError, match="has no rows: nothing is predicted and no file is written"):
            run_file(predictor, tmp_path / "in.parquet", tmp_path / f"out.{ending}")
        assert not (tmp_path / f"out.{ending}").exists()

    def test_nameless_columns_of_csv(self, predictor, tmp_path):
        (tmp_path / "in.csv").write_text("text,x,,\nsun,1,,\nrain,2,,\n")
        run_file(predictor, tmp_path / "in.csv", tmp_path / "out.csv")
        assert [(row["text"], row["x"]) for row in read_table(tmp_path / "out.csv")] == [("sun", "1"), ("rain", "2")]

    @pytest.mark.parametrize(("separator", "output"), [(";", "out.csv"), ("\t", "out.csv.gz"), (";", "out.tsv.gz")])
    def test_separators_and_compressed_files(self, predictor, tmp_path, separator, output):
        """An output of the same format has the separator of the input, a TSV file has tabs."""
        source = write_csv(tmp_path / "in.csv.gz", ["text", "n"], [["sun, moon", "1"], ["rain", "2"]], separator)
        run_file(predictor, source, tmp_path / output)
        with open_file(tmp_path / output, "r", encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t" if ".tsv" in output else separator))
        assert [(row["text"], row["n"]) for row in rows] == [("sun, moon", "1"), ("rain", "2")]
        assert list(rows[0]) == ["text", "n", *PREDICTED]

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"body;n\nsun, moon;1\n", r"no column 'text'.*--text-column.*--separator"),
        ],
    )
    def test_a_header_that_says_no_separator(self, predictor, tmp_path, content, message):
        (tmp_path / "in.csv").write_bytes(content)
        with pytest.raises(ValueError, match=message):
            run_file(predictor, tmp_path / "in.csv", tmp_path / "out.csv")
        run_file(predictor, tmp_path / "in.csv", tmp_path / "out.csv", separator=";", text_column=content[:4].decode())
        assert [path.name for path in tmp_path.iterdir() if "out" in path.name] == ["out.csv"]

    def test_one_column_needs_no_separator(self, predictor, tmp_path):
        (tmp_path / "in.csv").write_text('text\nsun; rain\n"moon, too"\n')
        run_file(predictor, tmp_path / "in.csv", tmp_path / "out.csv")
        assert [row["text"] for row in read_table(tmp_path / "out.csv")] == ["sun; rain", "moon, too"]

    def test_a_file_that_is_cut_off(self, predictor, tmp_path):
        path = write_csv(tmp_path / "in.csv.gz", ["text"], [[f"sun {number}"] for number in range(99)])
        path.write_bytes(path.read_bytes()[:-20])
        with pytest.raises(
            ValueError, match=r"in\.csv\.gz cannot be read \(Compressed file ended before the end-of-stream marker was"
        ):
            run_file(predictor, path, tmp_path / "out.csv")
        assert [path.name for path in tmp_path.iterdir()] == ["in.csv.gz"]

    def test_columns_of_later_rows_in_csv(self, predictor, tmp_path):
        write_jsonl(tmp_path / "in.jsonl", [{"text": "sun"}, {"text": "rain", "note": "keep me"}])
        with pytest.raises(ValueError, match="the rows have different columns.*note.*write .jsonl"):
            run_file(predictor, tmp_path / "in.jsonl", tmp_path / "out.csv")
        assert not (tmp_path / "out.csv").exists()

    @pytest.mark.parametrize(
        "values",
        [(1, "one"), (2**70, 1), ({}, {})],
        ids=["types", "beyond 64 bits", "objects without keys"],
    )
    def test_what_parquet_cannot_hold_is_said_before_the_prediction(self, predictor, tmp_path, monkeypatch, values):
        monkeypatch.setattr("hf_emotion.serving.file_rows.ROWS_PER_CHUNK", 1)
        rows = [{"text": "sun", "n": value} for value in values]
        write_jsonl(tmp_path / "in.jsonl", rows)
        with pytest.raises(ValueError, match="in.jsonl.*write .jsonl"):
            run_file(predictor, tmp_path / "in.jsonl", tmp_path / "out.parquet")
        assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]
        run_file(predictor, tmp_path / "in.jsonl", tmp_path / "out.jsonl")
        written = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
        assert [json.loads(line)["n"] for line in written] == list(values)


class Interruption(Exception):
    pass


class TestInterruption:
    @pytest.fixture
    def counted(self, predictor, monkeypatch):
        """Texts that the model was asked for, and after how many calls it fails."""
        state = SimpleNamespace(texts=[], fail_at=None)
        original = predictor.of_items

        def watched(texts, *arguments):
            if state.fail_at is not None and len(state.texts) >= state.fail_at:
                raise Interruption
            state.texts.extend(texts)
            return original(texts, *arguments)

        monkeypatch.setattr(predictor, "of_items", watched)
        return state

    @pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "csv.gz"])
    def test_goes_on_behind_the_last_part(self, predictor, source, tmp_path, counted, ending, caplog):
        whole, output = tmp_path / f"whole.{ending}", tmp_path / f"out.{ending}"
        run_file(predictor, source, whole)
        counted.texts.clear()
        counted.fail_at = 10  # in the second part of ten rows
        with pytest.raises(Interruption):
            run_file(predictor, source, output)
        assert not output.exists()
        assert sorted(path.name for path in (tmp_path / f"{output.name}.parts").iterdir()) == [
            "000000.parquet",
            "job.json",
        ]
        assert len(counted.texts) == 10
        counted.fail_at = None
        counted.texts.clear()
        assert run_file(predictor, source, output) == {"rows": 25, "skipped": 0}
        assert counted.texts == [row[1] for row in ROWS[10:]]
        assert "resuming: 10 of 25 rows are predicted already" in caplog.text
        contents = [path.read_bytes() for path in (output, whole)]  # gzip keeps the time
        first, second = map(gzip.decompress, contents) if ending.endswith(".gz") else contents
        assert first == second
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["in.csv", whole.name, output.name])

    def test_interrupted_while_the_parts_are_joined(self, predictor, source, tmp_path, counted, monkeypatch):
        output = tmp_path / "out.csv"

        def stop(*arguments):
            raise Interruption

        with monkeypatch.context() as patch:
            patch.setattr(bulk, "_merge", stop)
            with pytest.raises(Interruption):
                run_file(predictor, source, output)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", "out.csv.parts"]
        counted.texts.clear()
        run_file(predictor, source, output)
        assert counted.texts == [] and len(read_table(output)) == 25

    @pytest.fixture
    def interrupted(self, predictor, source, tmp_path, counted) -> Path:
        counted.fail_at = 10
        with pytest.raises(Interruption):
            run_file(predictor, source, tmp_path / "out.csv")
        counted.fail_at = None
        return tmp_path / "out.csv"

    @pytest.mark.parametrize("change", ["top_k", "rows", "source", "model", "taxonomy", "max_length", "thresholds"])
    def test_parts_of_another_job(self, interrupted, predictor, middling, tiny_run, source, change):
        parts = interrupted.with_name("out.csv.parts")
        before = files_in(parts)
        options = {"rows_per_part": 10, "progress": False}
        if change == "top_k":
            options["top_k"] = 3
        elif change == "rows":
            options["rows_per_part"] = 5
        elif change == "source":
            with source.open("a", encoding="utf-8") as file:
                file.write("26,one more,x\n")
        elif change == "model":
            model = AutoModelForSequenceClassification.from_pretrained(middling)
            with torch.no_grad():
                model.classifier.out_proj.bias += 1e-3
            predictor = Predictor(model, AutoTokenizer.from_pretrained(middling))
        elif change == "taxonomy":
            predictor = Predictor(middling, device="cpu", taxonomy="ekman")
        elif change == "max_length":
            predictor = Predictor(middling, device="cpu", max_length=20)
        else:
            predictor = Predictor(middling, device="cpu")
            predictor.thresholds = predictor.thresholds.copy()
            predictor.thresholds[0] += 0.01
        with pytest.raises(FileExistsError, match="out.csv.parts holds parts of another job"):
            predict_file(predictor, source, interrupted, **options)
        assert files_in(parts) == before and not interrupted.exists()

    def test_the_same_model_from_another_process_goes_on(self, interrupted, middling, source):
        predict_file(Predictor(middling, device="cpu"), source, interrupted, rows_per_part=10, progress=False)
        assert len(read_table(interrupted)) == 25

    def test_a_gap_is_filled(self, predictor, source, tmp_path, counted, monkeypatch):
        output = tmp_path / "out.csv"
        with monkeypatch.context() as patch:
            patch.setattr(bulk, "_merge", lambda *arguments: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                run_file(predictor, source, output)
        (tmp_path / "out.csv.parts" / "000001.parquet").unlink()
        counted.texts.clear()
        run_file(predictor, source, output)
        assert counted.texts == [row[1] for row in ROWS[10:20]]
        assert [row["id"] for row in read_table(output)] == [row[0] for row in ROWS]


class TestBadFiles:
    @pytest.fixture
    def never(self, predictor, monkeypatch):
        def fail(*arguments):
            raise AssertionError("something was predicted")

        monkeypatch.setattr(predictor, "of_items", fail)
        return predictor

    def check_untouched(self, never, tmp_path, source, output, error, message, **options):
        before = files_in(tmp_path)
        with pytest.raises(error, match=message):
            run_file(never, source, output, **options)
        assert files_in(tmp_path) == before
        assert not output.with_name(output.name + ".parts").exists()

    def test_existing_output(self, never, source, tmp_path):
        (tmp_path / "out.csv").write_text("mine")
        self.check_untouched(
            never, tmp_path, source, tmp_path / "out.csv", FileExistsError, "the output .*out.csv exists"
        )

    def test_the_source_as_output(self, never, source, tmp_path):
        self.check_untouched(never, tmp_path, source, source, FileExistsError, "exists")

    @pytest.mark.parametrize("text", ["", "   "])
    def test_an_empty_text_before_anything_is_predicted(self, never, tmp_path, text):
        source = write_csv(tmp_path / "in.csv", HEADER, [*ROWS, ["26", text, "x"]])
        line = len(source.read_text(encoding="utf-8").split("\n")) - 1
        message = f"in.csv, line {line}: the text is empty or no string: '{text}' .*on_bad_rows='skip'"
        self.check_untouched(never, tmp_path, source, tmp_path / "out.csv", ValueError, message)

    def test_a_text_that_is_no_string(self, never, tmp_path):
        source = write_jsonl(tmp_path / "in.jsonl", [{"text": "sun"}, {"text": None}])
        message = "in.jsonl, line 2: the text is empty or no string: None"
        self.check_untouched(never, tmp_path, source, tmp_path / "out.csv", ValueError, message)

    def test_a_malformed_row_before_anything_is_predicted(self, never, tmp_path):
        source = tmp_path / "in.jsonl"
        source.write_text('{"text": "sun"}\n' * 15 + "{text}\n")
        self.check_untouched(
            never, tmp_path, source, tmp_path / "out.csv", ValueError, "in.jsonl, line 16: no valid JSON"
        )

    @pytest.mark.parametrize("to", ["jsonl", "csv", "parquet"])
    @pytest.mark.parametrize(
        ("name", "content", "kept"),
        [
            (
                "in.jsonl",
                '{text}\n{"text": "sun"}\n[1]\n{"text": "rain"}\n{"text": "a',
                [None, "sun", None, "rain", None],
            ),
            ("in.csv", "text\nsun\nrain,and more\nwind\n", ["sun", "rain", "wind"]),
            ("in.tsv", "text\tn\nsun\t1\nrain\nwind\t2\n", ["sun", "rain", "wind"]),
        ],
        ids=["jsonl", "more values", "fewer values"],
    )
    def test_malformed_rows_keep_their_places(self, predictor, tmp_path, caplog, name, content, kept, to):
        source, output = tmp_path / name, tmp_path / f"out.{to}"
        source.write_text(content)
        counts = predict_file(predictor, source, output, on_bad_rows="skip", top_k=1, progress=False)
        good = [number for number, text in enumerate(kept) if text in ("sun", "rain" if "jsonl" in name else "wind")]
        assert counts == {"rows": len(kept), "skipped": len(kept) - 2}
        if to == "csv":
            rows = [{**row, "predicted_labels": row["predicted_labels"] or None} for row in read_table(output)]
        elif to == "parquet":
            rows = pyarrow.parquet.read_table(output).to_pylist()
        else:
            rows = [json.loads(line) for line in output.read_text().splitlines()]
        assert [row.get("text") or None for row in rows] == kept
        assert [number for number, row in enumerate(rows) if row["predicted_labels"]] == good
        for number, items in zip(good, predictor([kept[number] for number in good], top_k=1), strict=True):
            label = rows[number]["predicted_labels"]
            assert label == (items[0]["label"] if to == "csv" else [items[0]["label"]])
        line = {"in.jsonl": 1, "in.csv": 3, "in.tsv": 3}[name]
        assert f"stay without a prediction; the first: line {line}" in caplog.text

    @pytest.mark.parametrize(
        ("ending", "rows"),
        [
            ("csv", [{"text": "sun"}, {"text": "rain", "note": "x"}]),
            ("parquet", [{"text": "sun", "n": 1}, {"text": "rain", "n": "one"}]),
        ],
    )
    def test_what_the_output_cannot_hold_before_anything_is_predicted(self, never, tmp_path, ending, rows):
        source = write_jsonl(tmp_path / "in.jsonl", rows)
        output = tmp_path / f"out.{ending}"
        self.check_untouched(never, tmp_path, source, output, ValueError, "write .jsonl")

    def test_no_such_column(self, never, source, tmp_path):
        message = r"in.csv, line 2: no column 'comment'; the columns are \['id', 'note', 'text'\]"
        output = tmp_path / "out.csv"
        self.check_untouched(never, tmp_path, source, output, ValueError, message, text_column="comment")

    @pytest.mark.parametrize("name", ["predicted_labels", "predicted_scores"])
    def test_a_column_of_ours(self, never, tmp_path, name):
        source = write_csv(tmp_path / "in.csv", ["text", name], [["sun", "x"]])
        message = f"has a column '{name}' already"
        self.check_untouched(never, tmp_path, source, tmp_path / "out.csv", ValueError, message)

    def test_unknown_endings(self, never, source, tmp_path):
        output = tmp_path / "out.xls"
        self.check_untouched(
            never, tmp_path, source, output, ValueError, "`output` must end in one of .* got 'out.xls'"
        )
        (tmp_path / "in.txt").write_text("sun")
        message = "in.txt: the file name must end in one of"
        self.check_untouched(never, tmp_path, tmp_path / "in.txt", tmp_path / "out.csv", ValueError, message)

    def test_no_such_file(self, never, tmp_path):
        message = "no such file: .*nowhere.csv"
        self.check_untouched(
            never, tmp_path, tmp_path / "nowhere.csv", tmp_path / "out.csv", FileNotFoundError, message
        )

    def test_wrong_options(self, never, source, tmp_path):
        output = tmp_path / "out.csv"
        self.check_untouched(never, tmp_path, source, output, ValueError, "`on_bad_rows` must be", on_bad_rows="drop")
        self.check_untouched(
            never, tmp_path, source, output, ValueError, "`top_k` must be a whole number of at least 1", top_k=0
        )

    def test_skip_keeps_the_row(self, predictor, tmp_path, caplog):
        rows = [{"text": "sun"}, {"text": ""}, {"text": None}, {"text": "rain"}, {"text": 3}]
        source = write_jsonl(tmp_path / "in.jsonl", rows)
        assert run_file(predictor, source, tmp_path / "out.jsonl", on_bad_rows="skip") == {"rows": 5, "skipped": 3}
        found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
        expected = predictor(["sun", "rain"])
        assert [row["text"] for row in found] == [row["text"] for row in rows]
        assert [row["predicted_labels"] for row in found] == [
            [item["label"] for item in expected[0]],
            None,
            None,
            [item["label"] for item in expected[1]],
            None,
        ]
        assert [row["predicted_scores"] is None for row in found] == [False, True, True, False, True]

    def test_skip_in_csv(self, predictor, tmp_path):
        source = write_csv(tmp_path / "in.csv", ["text", "n"], [["sun", "1"], ["", "2"]])
        run_file(predictor, source, tmp_path / "out.csv", on_bad_rows="skip", top_k=1)
        rows = read_table(tmp_path / "out.csv")
        assert [row["n"] for row in rows] == ["1", "2"]
        assert rows[0]["predicted_labels"] and (rows[1]["predicted_labels"], rows[1]["predicted_scores"]) == ("", "")


class TestOtherPeoplesCheckpoints:
    """A stock classifier with GoEmotions' labels and no thresholds, as the Hub has many."""

    @pytest.fixture
    def checkpoint(self, base_bert, tmp_path):
        torch.manual_seed(3)
        model = BertForSequenceClassification.from_pretrained(
            base_bert,
            num_labels=28,
            id2label=dict(enumerate(GOEMOTIONS)),
            label2id={name: i for i, name in enumerate(GOEMOTIONS)},
            problem_type="multi_label_classification",
        )
        model.classifier.weight.data *= 20
        model.save_pretrained(tmp_path / "theirs")
        AutoTokenizer.from_pretrained(base_bert).save_pretrained(tmp_path / "theirs")
        return tmp_path / "theirs"

    def test_evaluate_tunes_thresholds_on_the_validation_part(self, checkpoint, caplog):
        found = json.loads(invoke("evaluate", checkpoint, "--dataset", "quickstart", "--threshold", "0.5", "--json"))
        assert "no thresholds: they are tuned on the validation part of quickstart" in caplog.text
        predictor, splits = Predictor(checkpoint), load_dataset_for("quickstart")
        scores = {split: predictor.probabilities(splits[split]["text"]) for split in ("validation", "test")}
        gold = {
            split: np.array([[i in row for i in range(28)] for row in splits[split]["labels"]]) for split in scores
        }
        thresholds = metrics.tune_thresholds(gold["validation"].astype(int), scores["validation"])
        expected = f1_score(gold["test"], scores["test"] > np.array(thresholds), average="macro", zero_division=0)
        assert found["metrics"]["tuned"]["macro_f1"] == pytest.approx(expected)
        fixed = f1_score(gold["test"], scores["test"] > 0.5, average="macro", zero_division=0)
        assert found["metrics"]["fixed"]["macro_f1"] == pytest.approx(fixed)
        assert expected != pytest.approx(fixed)
