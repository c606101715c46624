# SPDX-License-Identifier: Apache-2.0
"""What a classifier of texts takes, and what it refuses: texts, models and tokenizers of other kinds, arguments of the pipeline."""

import re
from types import SimpleNamespace

import numpy as np
import pandas
import pyarrow
import pytest
import torch
from hf_emotion.modeling import EmotionClassificationPipeline, TargetedSentimentPipeline
from hf_emotion.modeling.text_processing import check_text, read_turn, temperature_of
from model_cases import BY_ID, LABEL_NAMES, LABELS, TINY_BERT, asymmetric_
from transformers import BertConfig, BertForSequenceClassification

from hf_emotion import Predictor
from hf_emotion.data.rows import Rows


pytest_plugins = ["toolkit_fixtures"]


HAPPY, FUNCTION = "I am so happy today!", "function_to_apply"


def tiny_model(multi_label: bool = True, **config):
    kind = "multi_label_classification" if multi_label else "single_label_classification"
    return BY_ID["label-aware"].build(**{**LABEL_NAMES, "problem_type": kind, **config})


def stock_model(**config) -> BertForSequenceClassification:
    return asymmetric_(BertForSequenceClassification(BertConfig(**{**TINY_BERT, **LABEL_NAMES, **config})), 0).eval()


@pytest.fixture
def predictor(tokenizer) -> Predictor:
    return Predictor(tiny_model(multi_label=False), tokenizer)


def test_lists_of_texts_in_other_forms(predictor):
    expected = predictor([HAPPY, "anger"])
    frame = pandas.DataFrame({"text": [HAPPY, "anger"]})
    chunks = pyarrow.chunked_array([[HAPPY], ["anger"]])
    for texts in (frame["text"], frame["text"].to_numpy(), (HAPPY, "anger"), iter([HAPPY, "anger"]), chunks):
        assert predictor(texts) == expected
    with pytest.raises(TypeError, match="list of strings, got DataFrame"):
        predictor(frame)  # whose elements are the names of its columns


@pytest.mark.parametrize("text", ["", "\u200b", "\u202e\x00\ufeff", None, b"anger", "half \ud800"], ids=repr)
def test_texts_with_nothing_to_read(predictor, text, tokenizer):
    emotions = EmotionClassificationPipeline(model=predictor.model, tokenizer=tokenizer)
    sentiments = TargetedSentimentPipeline(model=BY_ID["cg"].build(), tokenizer=tokenizer)
    for visible in ("\u200bhappy", "❤️", "5"):
        assert predictor([visible])[0] and emotions(visible)
    for call in (
        lambda: predictor([HAPPY, text]),
        lambda: emotions([HAPPY, text]),
        lambda: emotions(text),
        lambda: sentiments([text]),
        lambda: read_turn(("Ann", text), 1),
        lambda: Rows("mine.csv", "error").add(2, text, [0], "1"),
        lambda: check_text(text),
    ):
        with pytest.raises(ValueError, match="half" if text == "half \ud800" else re.escape(repr(text))):
            call()


def test_a_model_in_training_predicts_without_dropout(tokenizer):
    model = tiny_model(hidden_dropout_prob=0.5)
    predictor = Predictor(model, tokenizer)
    expected = predictor.probabilities([HAPPY])
    model.train()  # as a loop does that predicts between two epochs
    np.testing.assert_array_equal(predictor.probabilities([HAPPY]), expected)


@pytest.mark.parametrize("multi_label", [True, False])
def test_nan_is_no_answer(tokenizer, multi_label):
    model = tiny_model(multi_label)
    with torch.no_grad():
        model.bert.encoder.layer[0].output.dense.weight[0, 0] = float("nan")
    # No label passes its threshold, or the first one has the highest score of all that are NaN.
    for call in (Predictor(model, tokenizer), EmotionClassificationPipeline(model=model, tokenizer=tokenizer)):
        with pytest.raises(ValueError, match="NaN.*float32"):
            call([HAPPY])


FIVE, TURNED = dict(enumerate("abcde")), dict(zip("edcba", range(5), strict=True))


ONE = {"id2label": {0: "score"}, "label2id": {"score": 0}, "num_labels": 1}


def test_fields_of_a_stock_model(tokenizer):
    for fields, message in (
        *(({"thresholds": own}, r"thresholds`.*5.*\[0, 1\]") for own in ([30.0] * 5, [0.3], [np.nan] * 5, "0.305")),
        *(({"id2label": own}, "id2label`") for own in (dict(enumerate("abcde", 1)), dict(enumerate("aabcd")))),
        ({"id2label": {**FIVE, 0: None}}, "id2label`"),
        ({"id2label": FIVE, "label2id": TURNED}, "config.id2label` and `config.label"),  # the first one decided
        *(({**ONE, "problem_type": kind}, "`problem_type`.*sigmoid") for kind in (None, "regression")),  # always 1
    ):
        model = stock_model(problem_type="multi_label_classification")
        for name, value in fields.items():
            setattr(model.config, name, value)
        with pytest.raises(ValueError, match=message):
            Predictor(model, tokenizer)


def test_labels_may_be_numbers_or_one_and_languages_anything(tokenizer):
    model = stock_model()
    model.config.id2label, model.config.label2id = dict(enumerate(range(5))), {str(n): n for n in range(5)}
    assert Predictor(model, tokenizer).labels == list("01234")
    one = stock_model(problem_type="multi_label_classification", **ONE)
    assert 0 < Predictor(one, tokenizer).probabilities([HAPPY])[0, 0] < 1
    with pytest.raises(ValueError, match=r"groups of labels are written as .*got \['ekman'\]"):
        Predictor(stock_model(), tokenizer, taxonomy=["ekman"])
    for languages in (5, [5, "de"], "german"):  # a field of another program
        model.config.languages = languages
        assert Predictor(model, tokenizer)([HAPPY])


@pytest.mark.parametrize("temperature", [0, -1.0, 1e-300, np.inf, np.nan, "2", True])
def test_a_temperature_that_is_none(temperature):
    with pytest.raises(ValueError, match="`config.calibration_temperature` must be a posi"):
        temperature_of(SimpleNamespace(calibration_temperature=temperature))


def test_tokenizer_of_another_encoder(tokenizer, caplog):
    size = len(tokenizer)
    for vocab_size in (size, size + 63, size + 2000, size - 1):  # 63: rounded up for speed
        caplog.clear()
        Predictor(stock_model(vocab_size=vocab_size), tokenizer)
        said = [record.getMessage() for record in caplog.records]
        assert len(said) == (vocab_size not in (size, size + 63))
        assert all(str(vocab_size) in message and str(size) in message for message in said)


def test_arguments_of_the_pipeline(tokenizer):
    of = {many: EmotionClassificationPipeline(model=tiny_model(many), tokenizer=tokenizer) for many in (True, False)}
    for multi_label, arguments, error, message in (
        (False, {"threshold": 0.999}, ValueError, "`threshold`.*one label"),
        (True, {"threshold": 0.99, "top_k": 3}, ValueError, "`threshold`.*`top_k`"),
        (True, {"function_to_apply": "sigmod"}, ValueError, "`function_to_apply`.*sigmod"),
        (True, {"treshold": 0.1}, TypeError, "unknown argument `treshold`"),
        *((True, {"top_k": k}, ValueError, f"`top_k` must be a whole.*got {k!r}") for k in (-1, 1.5, "3", True)),
        # Thresholds are of sigmoids.
        *((True, {FUNCTION: name}, ValueError, f"`{FUNCTION}`.*'{name}'.*`top_k`") for name in ("softmax", "none")),
    ):
        with pytest.raises(error, match=message):
            of[multi_label](HAPPY, **arguments)
    for pipeline in of.values():
        assert pipeline(HAPPY, max_length=8, truncation=True, top_k=None)
        for function in ("softmax", "none"):
            assert len(pipeline(HAPPY, function_to_apply=function, top_k=None)) == len(LABELS)
    assert of[True](HAPPY, function_to_apply="sigmoid") == of[True](HAPPY)


def test_a_label_in_another_spelling(tied_run):
    for names in (["Anger"], ["pride", "Pride"], ["anger "]):
        with pytest.raises(ValueError, match="--label.*(differs from|must be new)"):
            Predictor(tied_run, device="cpu", add_labels=names)
