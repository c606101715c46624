# SPDX-License-Identifier: Apache-2.0
"""Mistakes that users make: each ends in a message, or is said in a warning, where it once gave a wrong answer without a word."""

import io
import json
import re
import shutil
import socket
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas
import pyarrow
import pytest
import torch
import transformers
from datasets import ClassLabel, Dataset, DatasetDict, Features, List, Value
from hf_emotion.modeling import DialogueEmotionPipeline, EmotionClassificationPipeline, TargetedSentimentPipeline
from hf_emotion.modeling.pipeline_emotional_response import emotion_vector
from hf_emotion.modeling.text_processing import check_text, read_turn, targets_in, temperature_of
from huggingface_hub import constants
from model_cases import BY_ID, LABEL_NAMES, LABELS, TINY_BERT, asymmetric_
from toolkit_helpers import recipe_for, seed_run, targeted_recipe, write_csv
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

import hf_emotion.runs.train as train_module
from hf_emotion import DialoguePredictor, Predictor, load_dataset_for, load_recipe, metrics, train
from hf_emotion.cli import main
from hf_emotion.data.rows import Rows
from hf_emotion.data.splits import label_names
from hf_emotion.metrics import macro_f1, mcnemar, paired_bootstrap
from hf_emotion.recipes import make_recipe
from hf_emotion.run_report import best_run
from hf_emotion.runtime.ready import cache_folder
from hf_emotion.serving.bulk import predict_file
from hf_emotion.tasks.dialogue_emotion.building import encode_dialogues
from hf_emotion.tasks.emotional_response.building import build_generator
from hf_emotion.tasks.held_out import one_answer
from hf_emotion.tasks.loading import load_split
from hf_emotion.training.fit import training_arguments
from hf_emotion.training.progress import EvaluationLines
from hf_emotion.training.recipe_checks import check_parts
from hf_emotion.training.seeds import EmotionTrainer, SeedTraining


pytest_plugins = ["toolkit_fixtures"]


NAMES = ["anger", "joy", "neutral"]  # 4 rows, 3 labels
IDS = np.array([0, 1, 2, 1])
MULTI_HOT = np.eye(3, dtype=int)[IDS]
SCORES = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.5, 0.3, 0.2]])
LOGITS = np.log(SCORES)


def test_probabilities_are_no_decisions():
    with pytest.raises(ValueError, match="`decisions`.*0 and 1"):
        metrics.goemotions(MULTI_HOT, SCORES, label_names=NAMES, decisions=SCORES)
    calls = [lambda: paired_bootstrap(macro_f1, MULTI_HOT, SCORES, SCORES[::-1], samples=2)]
    for labels in (MULTI_HOT, IDS):  # rounded down, or true wherever they are not 0
        calls += [lambda y=labels: macro_f1(y, SCORES), lambda y=labels: mcnemar(y, SCORES, SCORES[::-1])]
    for call in calls:
        with pytest.raises(ValueError, match="decisions"):
            call()
    chosen = SCORES > 0.4  # decisions may be numbers of any type
    for form in (bool, int, float, np.float32):
        assert macro_f1(MULTI_HOT, chosen.astype(form)) == macro_f1(MULTI_HOT, chosen)
        assert mcnemar(MULTI_HOT, chosen.astype(form), MULTI_HOT) == mcnemar(MULTI_HOT, chosen, MULTI_HOT)
    assert macro_f1(IDS, IDS.astype(float)) == 1


WORDS = np.array(["joy"] * 4)
WIDER = np.hstack([SCORES, np.full((4, 1), 0.9)])  # whose argmax is never right


def checked(**values):
    return check_parts(make_recipe({"name": "tiny", **values}))


def arguments_of(folder="out", **changes):
    own = make_recipe({"name": "tiny", "training_arguments": {"use_cpu": True, "bf16": False, **changes}})
    return training_arguments(TrainingArguments, own, Path(folder), 1, metric_for_best_model="macro_f1")


BALANCED = {"model_type": "label-aware-bert", "model_config": {"class_balanced_beta": 0.9}}
SMOOTHED = {**BALANCED, "training_arguments": {"label_smoothing_factor": 0.1}}  # which takes the place of the loss
RANGES = dict.fromkeys(("num_train_epochs", "gradient_accumulation_steps", "per_device_train_batch_size"), 0)
RANGES |= dict.fromkeys(("learning_rate", "weight_decay", "max_grad_norm"), -1.0)
RANGES |= {"per_device_eval_batch_size": 0, "label_smoothing_factor": 2.0}
TEMPERATURES = [SimpleNamespace(calibration_temperature=t) for t in (0, -1.0, 1e-300, np.inf, np.nan, "2", True)]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.threshold_curve(LOGITS[:, 0], SCORES[:, 0]), "`labels`"),  # swapped
        *((lambda t=t: metrics.temperature_scaled(SCORES, t, False), "`temperature`") for t in (0.0, -1.0, np.nan)),
        (lambda: metrics.classification(IDS, WIDER, NAMES), r"\(4, 3\).*\(4, 4\)"),  # a column without a name
        *((lambda y=y: metrics.classification(y, SCORES, NAMES), "`labels`.*class ids") for y in (IDS + 0.5, WORDS)),
        (lambda: metrics.classification(IDS, IDS, NAMES), r"`probabilities`.*\(4, 3\)"),
        *(
            (partial(call, wrong), r"`probabilities`.*\[0, 1\]")
            for wrong in (LOGITS, 100 * SCORES, SCORES * np.nan)  # logits and percents
            for call in (
                *(partial(metrics.reliability, labels) for labels in (IDS, MULTI_HOT)),
                partial(metrics.fit_temperature, IDS),
                lambda scores: metrics.temperature_scaled(scores, 2.0, multi_label=False),
                lambda scores: metrics.threshold_curve(MULTI_HOT[:, 0], scores[:, 0]),
            )
        ),
        (partial(checked, **SMOOTHED), "`label_smoothing_factor`.*class_balanced_beta`"),
        (partial(checked, label_texts={"joy": "happiness"}), "`label_texts` is for label attention.*None"),
        *((partial(checked, early_stopping_patience=n), f"`early_stopping_patience`.*{n}") for n in (0, -1)),
        *((partial(arguments_of, **{k: n}), f"`training_arguments.{k}`.*{n}") for k, n in RANGES.items()),
        *((partial(train, own, Path("run")), "load_recipe|make_recipe") for own in ("quickstart", {"name": "x"})),
        *((partial(temperature_of, own), "`config.calibration_temperature` must be a posi") for own in TEMPERATURES),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


@pytest.mark.parametrize("name", ["type_token_ratio", "average_length", "stop_word_share", "repetition_rate"])
def test_one_reply_is_no_list_of_replies(name):
    more = (1,) if name == "type_token_ratio" else ()
    metric = getattr(metrics, name)
    with pytest.raises(ValueError, match="list"):
        metric("so so happy", *more)  # which is a list of letters
    assert metric(["so so happy"], *more) == metric(["So so happy"], *more)


HAPPY, FUNCTION = "I am so happy today!", "function_to_apply"
SENTIHOOD, SEMEVAL, QUICKSTART = ("sentihood", {}), ("semeval2014", {"validation_fraction": 0.5}), ("quickstart", {})


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
    with pytest.raises(ValueError, match=r"`taxonomy` must be one of .*got \['ekman'\]"):
        Predictor(stock_model(), tokenizer, taxonomy=["ekman"])
    for languages in (5, [5, "de"], "german"):  # a field of another program
        model.config.languages = languages
        assert Predictor(model, tokenizer)([HAPPY])


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


@pytest.mark.parametrize("use_cpu", [True, False])
def test_a_training_on_the_processor_is_none_of_the_gpu(tmp_path, monkeypatch, use_cpu):
    for name, value in {"is_available": True, "is_bf16_supported": True, "get_device_name": "a GPU"}.items():
        monkeypatch.setattr(f"torch.cuda.{name}", lambda value=value: value)
    own = vars(TrainingArguments(tmp_path, use_cpu=True))
    recipe = make_recipe({"name": "tiny", "training_arguments": {"use_cpu": use_cpu}})
    found = training_arguments(lambda **values: SimpleNamespace(**own | values), recipe, tmp_path, 1)
    assert found.bf16 is found.dataloader_pin_memory is not use_cpu
    assert train_module.environment(use_cpu)["device"] == ("CPU" if use_cpu else "a GPU")


@pytest.mark.parametrize("metric", ["macro_f1", "eval_accuracy", "eval_loss", "perplexity", "neutral_to_other"])
def test_the_best_epoch_is_not_the_one_with_the_largest_loss(tmp_path, metric):
    greater = metric in ("macro_f1", "eval_accuracy")
    assert arguments_of(tmp_path, metric_for_best_model=metric).greater_is_better is greater
    assert arguments_of(tmp_path, metric_for_best_model=metric, greater_is_better=greater).greater_is_better is greater
    plateau = arguments_of(tmp_path, metric_for_best_model=metric, lr_scheduler_type="reduce_lr_on_plateau")
    assert plateau.lr_scheduler_kwargs["mode"] == ("max" if greater else "min")
    values = {1: float("nan"), 2: 0.1, 3: 0.2, 4: None}
    runs = [seed_run(seed=seed, selected_by=metric, best_dev_metric=value) for seed, value in values.items()]
    assert best_run(runs).seed == (3 if greater else 2)
    measured = {seed: {"teacher_forcing": {"perplexity": value}} for seed, value in values.items()}
    assert best_run([seed_run(seed=seed, validation=figures) for seed, figures in measured.items()]).seed == 2


@pytest.mark.parametrize(
    ("metric", "near", "corpus"),
    [
        *((metric, "macro_f1", None) for metric in ("kappa", "macro_fi", "eval_perplexity")),
        # Defined for whole groups alone: of 4 rows in SentiHood, of 5 in SemEval-2014
        *(("strict_acuracy", "strict_accuracy", SENTIHOOD), ("acuracy_4way", "accuracy_4way", SEMEVAL)),
    ],
)
def test_a_metric_that_is_not_measured(tmp_path, aspect_bert, corpora, metric, near, corpus, monkeypatch):
    monkeypatch.setattr(Trainer, "train", lambda *arguments, **options: pytest.fail("trained"))
    make, (dataset, options), data = (targeted_recipe, corpus, corpora) if corpus else (recipe_for, QUICKSTART, None)
    wrong = f"`metric_for_best_model` '{metric}'.*'{near}'"
    for name, kind, said in ((metric, ValueError, wrong), (near, pytest.fail.Exception, "trained")):
        recipe = make(aspect_bert, {"metric_for_best_model": name}, dataset=dataset, dataset_options=options)
        with pytest.raises(kind, match=said):
            train(recipe, tmp_path / name, data_dir=data)
    assert not (tmp_path / metric).exists()


def test_a_training_that_collapses(tmp_path, caplog):
    for losses, said in (
        ([0.18, 0.17, 0.14, 0.12, 0.11, 0.11, 0.16, 0.16, 0.15, 0.15, 0.15, 0.15], True),
        ([0.18, 0.17, 0.14, 0.12, 0.11, 0.16, 0.10, 0.09, 0.09, 0.09, 0.08, 0.09], False),  # a spike that passes
        ([0.18, 0.17, 0.16, 0.17, 0.18, 0.17, 0.18, 0.17, 0.16, 0.17, 0.18, 0.17], False),  # nothing was learnt
        ([0.18, 0.11, 0.16], False),
    ):
        lines = EvaluationLines(tmp_path / "train.log", {})
        history = [{"loss": loss, "step": step} for step, loss in enumerate(losses, 1)]
        at = {"epoch": 1.0, "global_step": len(losses), "max_steps": 20, "num_train_epochs": 2}
        state = transformers.TrainerState(**at, log_history=history)
        arguments = TrainingArguments(tmp_path, metric_for_best_model="loss", use_cpu=True)
        for _ in range(2):
            lines.on_evaluate(arguments, state, transformers.TrainerControl(), metrics={"eval_loss": 0.2})
        assert caplog.text.count("learning_rate") == said
        caplog.clear()


@pytest.mark.parametrize("balance", [{}, {"class_balanced_beta": 0.9, "class_counts": [1, 2, 3, 4, 5]}])
def test_rows_without_a_label_do_not_thin_the_loss(balance):
    model = BY_ID["label-aware-single-label"].build(**balance)
    inputs = BY_ID["label-aware-single-label"].make_inputs(3, 9, 5)
    first = {name: values[:2] for name, values in inputs.items()}
    inputs["labels"][2] = -100
    torch.testing.assert_close(model(**inputs).loss, model(**first).loss)


def test_a_mixture_in_percent(caplog):
    config = BY_ID["gpt2-mod-ln"].make_config(num_emotions=2, emotions=["joy", "anger"])
    assert emotion_vector({"joy": 3, "anger": -1}, config) == [3, -1] and not caplog.records
    emotion_vector({"joy": 70, "anger": 30}, config)
    (record,) = caplog.records
    assert "70" in record.getMessage() and "100" in record.getMessage()


def test_a_target_is_a_word():
    for targets, text, found in (
        (["bar", "app", "pool"], "the app's bar-pool", ["bar", "app", "pool"]),
        (["bar", "pool", "sun"], "Two pools and “bar”, not barbarous, nor a carpool on Sunday.", ["bar", "pool"]),
        # A longer target that only begins to match hides no other.
        (["iPhone", "iPhone 1"], "The iPhone 11 is great", ["iPhone"]),
        (["hotel", "hotel bar"], "The hotel barman was rude", ["hotel"]),
        (["hotel", "hotel bar", "bar"], "The hotel bars were loud", ["hotel bar"]),
        # Scripts without blanks, and marks, which belong to the letters before them.
        (["酒店", "水"], "这家酒店很好", ["酒店"]),
        (["ห้อง"], "ห้องน้ำสะอาด", ["ห้อง"]),
        (["राम", "यण"], "रामायण अच्छी है", []),
        (["राम"], "राम अच्छा है", ["राम"]),
        (["cafe", "q"], "the cafe\u0301 is nice, q\u0301", []),
        (["caf\xe9"], "the cafe\u0301s are nice", ["caf\xe9"]),
        (["\u2764"], "\u2764\ufe0f you", ["\u2764"]),  # the mark chooses the picture
    ):
        assert targets_in(SimpleNamespace(targets=targets, target_texts=None), text) == found, text


@pytest.fixture
def speakers(tokenizer) -> DialoguePredictor:
    return DialoguePredictor(BY_ID["dialogue-model"].build(), tokenizer)


@pytest.mark.parametrize("names", [("Ann", "Bo", "Ann"), ("Ann", "Bo"), ("user", "user")])
def test_turns_as_lists_are_no_dialogues(speakers, tokenizer, names):
    turns = [[name, "I am so happy"] for name in names]  # as JSON has them
    pipeline = DialogueEmotionPipeline(model=speakers.model, tokenizer=tokenizer)
    for call in (speakers, pipeline):
        with pytest.raises(ValueError, match=r"\(speaker, utterance\).*'utterance'"):
            call(turns)  # each was a dialogue of two utterances, the name the first
    assert [turn["speaker"] for turn in pipeline(list(map(tuple, turns)))] == [*names]


def test_turns_without_a_speaker_are_said(speakers, tokenizer, caplog):
    pipeline = DialogueEmotionPipeline(model=speakers.model, tokenizer=tokenizer)
    for call in (lambda turns: speakers([turns]), pipeline):
        caplog.clear()
        call([("Ann", "I am so happy"), ("Bo", "fear")])
        assert not caplog.records
        for _ in range(1 if call is pipeline else 2):  # of a file that comes in parts it is said once
            call([("Ann", "I am so happy"), "fear", "anger"])
        (record,) = caplog.records
        assert "2 of 3" in record.getMessage() and "`num_speakers`" in record.getMessage()


def dialogue_rows(*turns: tuple[str, str]) -> DatasetDict:
    lists = {"utterances": Value("string"), "speakers": Value("string"), "labels": ClassLabel(names=list(LABELS))}
    features = Features(id=Value("string"), **{name: List(kind) for name, kind in lists.items()})
    speakers, utterances = map(list, zip(*turns, strict=True))
    rows = {"id": ["1"], "utterances": [utterances], "speakers": [speakers], "labels": [[0] * len(turns)]}
    return DatasetDict({"train": Dataset.from_dict(rows, features=features)})


def test_what_a_dialogue_model_in_training_does_not_see(speakers, tokenizer, caplog):
    rows = dialogue_rows(("", "I am so happy"), ("", "fear"))
    with pytest.raises(ValueError, match="`model_config.num_speakers`.*speaker_column"):
        encode_dialogues(rows, speakers.model, tokenizer, 16)
    rows = dialogue_rows(("Ann", "sun " * 20), ("Bo", "fear"))
    encode_dialogues(rows, BY_ID["dialogue-words"].build(), tokenizer, 16)
    assert "1 of 2 utterances are longer than 16 tokens" in caplog.text


def files_with(folder, rows: list[list[str]], header=("text", "label"), **options) -> DatasetDict:
    return load_dataset_for("files", write_csv(folder / "train.csv", list(header), rows), **options)


TWO_LABELS = [["a day", "joy"], ["home", "anger"], ["the sun", "joy|anger"]] * 4
LISTS = [["a day", "['joy']"], ["home", "['anger']"], ["the sun", "['joy' 'anger']"]] * 4  # as pandas writes lists
NUMBERS = [[("happy", "sad")[i % 2], f"{i / 7}"] for i in range(40)]  # swapped columns, or a regression's
PUNCTUATION = [["a day", "n/a, other"], ["home", "anger"], ["the sun", "fear/terror"]] * 4
COLUMNS = [["happy", "joy", "1", "0"], ["sad", "anger", "0", "1"]] * 4


def test_columns_that_hold_something_else(tmp_path):
    for rows, columns, options, message in (
        (TWO_LABELS, (), {}, r"'joy\|anger'.*label_separator.*labels"),
        (TWO_LABELS, (), {"label_separator": ","}, r"'joy\|anger'.*label_separator.*labels"),
        (LISTS, (), {"label_separator": ","}, "label_separator"),
        ([["a day", "joy"], ["the sun", "{'joy': 1}"]] * 4, (), {}, "{'joy': 1}.*label_separator"),
        (NUMBERS, (), {}, "'label'.*40 different labels in 40 rows.*label_column"),
        (TWO_LABELS, (), {"text_column": "label"}, "`text_column` and `label_column`.*'label'"),
        (COLUMNS, ("joy", "anger"), {"labels": ["joy", "joy"]}, "`labels`.*different names"),
        (COLUMNS, ("joy", "anger"), {"label_columns": ["joy", "joy"]}, "`label_columns`.*different names"),
    ):
        with pytest.raises(ValueError, match=message):
            files_with(tmp_path, rows, ("text", "label", *columns), **options)


def test_labels_that_are_right(tmp_path):
    many = [[f"the day of {i}", f"emotion {i % 30}"] for i in range(90)]
    for rows, options, names in (
        (TWO_LABELS, {"labels": ["joy", "anger", "joy|anger"]}, ["joy", "anger", "joy|anger"]),  # on one's word
        (PUNCTUATION, {}, ["anger", "fear/terror", "n/a, other"]),
        (many, {}, sorted(f"emotion {i}" for i in range(30))),
    ):
        assert label_names(files_with(tmp_path, rows, **options)["train"]) == names


def test_the_header_once_more(tmp_path, predictor):
    rows = [["happy", "joy"], ["text", "label"], ["sad", "grief"]] * 4  # cat a.csv b.csv
    skipped = files_with(tmp_path, rows, on_bad_rows="skip", validation_fraction=0)
    assert label_names(skipped["train"]) == ["grief", "joy"]
    marked = [["\ufefftext" if text == "text" else text, label] for text, label in rows]  # of b.csv
    for call in (
        lambda: files_with(tmp_path, rows),
        lambda: predict_file(predictor, tmp_path / "train.csv", tmp_path / "out.csv"),
        lambda: files_with(tmp_path, marked),  # a row with the label "label"
    ):
        with pytest.raises(ValueError, match="line 3.*header"):
            call()


def test_one_file_has_no_parts(tmp_path, caplog):
    path = write_csv(tmp_path / "mine.csv", ["text", "label"], [["happy", "joy"], ["sad", "grief"]] * 4)
    assert len(load_split("files", "test", path)) == 8 and not caplog.records
    assert len(load_split("files", "validation", path)) == 8
    assert all(word in caplog.text for word in ("mine.csv", "whole", "validation"))


@pytest.mark.parametrize("command", [("predict",), ("explain",), ("generate", "-e", "joy")], ids=" ".join)
def test_a_file_is_no_text(argv, single_run, tmp_path, command):
    path = write_csv(tmp_path / "comments.csv", ["text"], [[HAPPY]])
    # For `generate` a folder that is no model: what is typed is looked at first.
    done = argv(command[0], tmp_path if "-e" in command else single_run, path, *command[1:])
    assert done.code == 1 and str(path) in done.err and "--input" in done.err
    assert argv("predict", single_run, "comments.csv").code == 0  # no file here


def test_a_password_in_the_name_of_the_output_is_not_printed(argv, single_run, tmp_path):
    source = write_csv(tmp_path / "in.csv", ["text"], [[HAPPY]])
    done = argv("predict", single_run, "--input", source, "--output", "memory://me:secret@host/o.csv")
    assert done.code == 0 and "o.csv" in done.out and "secret" not in done.out + done.err


def test_a_separator_of_a_file_without_columns(argv, single_run, tmp_path):
    (tmp_path / "in.jsonl").write_text(json.dumps({"text": HAPPY}) + "\n")
    files = ("--input", tmp_path / "in.jsonl", "--output", tmp_path / "out.jsonl")
    done = argv("predict", single_run, "--separator", ";", *files)
    assert done.code == 1 and "separator" in done.err and "in.jsonl" in done.err and not files[-1].exists()


@pytest.mark.parametrize("command", ["predict", "predict --json", "explain"])
def test_a_character_that_the_console_lacks(single_run, monkeypatch, command):
    name, *options = command.split()
    more = ["home"] if command == "predict" else []  # of several texts it prints each
    monkeypatch.setattr("sys.argv", ["hf-emotion", name, str(single_run), f"{HAPPY} \U0001f600", *more, *options])
    console = io.TextIOWrapper(io.BytesIO(), encoding="cp1252")
    monkeypatch.setattr("sys.stdout", console)
    with pytest.raises(SystemExit) as end:
        main()
    console.flush()
    shown = console.buffer.getvalue().decode("cp1252")
    assert not end.value.code and (options or "\\U0001f600" in shown)
    assert not options or json.loads(shown)["text"] == f"{HAPPY} \U0001f600"


def test_a_line_that_is_no_text(argv, single_run, monkeypatch, caplog):
    content = b"so happy\n\xe2\x80\x8b\nthat\xff sun\nhome\n"  # the second one holds nothing that is seen

    def read(*options):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))
        done = argv("predict", single_run, "--json", *options)
        return done, [json.loads(line)["text"] for line in done.out.splitlines()]

    done, texts = read()
    assert done.code == 1 and texts == ["so happy"]
    assert "stdin, line 3 is not utf-8 text" in done.err and "--on-bad-rows skip" in done.err
    assert read("--on-bad-rows", "skip")[1] == ["so happy", "home"]
    assert "1 lines are not utf-8 text and are left out, first line 3" in caplog.text


def test_a_label_in_another_spelling(tied_run):
    for names in (["Anger"], ["pride", "Pride"], ["anger "]):
        with pytest.raises(ValueError, match="--label.*(differs from|must be new)"):
            Predictor(tied_run, device="cpu", add_labels=names)


def test_characters_of_windows(single_run, tmp_path, caplog):
    predictor = Predictor(single_run, device="cpu")
    wrong, right = "that\x92s so happy\x85", "that\u2019s so happy\u2026"
    assert predictor([wrong]) == predictor([right])
    texts = files_with(tmp_path, [[wrong, "joy"], ["home\x81", "joy"], ["the sun", "anger"]] * 2)["train"]["text"]
    assert right in texts and "home\x81" in texts
    for said in ("1 of 1 texts hold control characters", "train.csv: 2 of 6 texts hold control characters"):
        assert said in caplog.text


def test_a_model_that_gives_one_answer(base_bert, single_label, tmp_path, caplog, no_plots, monkeypatch):
    shutil.copytree(single_label, data := tmp_path / "data")
    shutil.copy(data / "train.csv", data / "validation.csv")
    always = lambda self, rows, progress=False: np.tile(np.float32([0.2, 0.5, 0.3]), (len(rows), 1))  # noqa: E731
    monkeypatch.setattr(Predictor, "of_rows", always)
    recipe = recipe_for(base_bert, {"num_train_epochs": 1}, dataset="files", train_fraction=1.0)
    (run,) = train(recipe, tmp_path / "run", data_dir=data).runs
    found = run.one_answer
    assert found["labels"] == ["joy"] and found["share"] == 1 and found["gold_share"] < 0.6
    for text in ((tmp_path / "run" / "README.md").read_text(encoding="utf-8"), caplog.text):
        assert "The model gives joy to 100%" in text and "learned hardly anything" in text


def test_a_model_that_gives_several_answers():
    pick = np.eye(2, dtype=bool)
    names, gold, always, mixed = ["anger", "joy"], pick[[0] * 19 + [1]], pick[[0] * 20], pick[[0, 1] * 10]
    assert one_answer(gold, gold, names) is None  # nearly all rows are like that
    assert one_answer(mixed, always, names) == {"labels": ["anger"], "share": 1.0, "gold_share": 0.5}
    assert one_answer(mixed[:10], always[:10], names) is None  # too few to tell
    assert one_answer(gold, np.zeros((20, 2), bool), names)["labels"] == []


@pytest.fixture
def no_network(monkeypatch):
    """The Hub does not answer, and nothing is asked for twice."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{closed.getsockname()[1]}")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setattr("time.sleep", lambda seconds: pytest.fail("asked for again"))


@pytest.mark.parametrize("model_type", ["gpt2-mod-ln", "emotion-modulated", "bert-mod-ln"])
def test_no_network(no_network, model_type):
    values = {"name": "replies", "base_model": "nobody/no-model", "dataset": "mojitalk", "model_type": model_type}
    with pytest.raises(OSError, match="'nobody/no-model' cannot be loaded.*to work offline, name a folder"):
        build_generator(make_recipe(values), ["joy", "anger"])
    assert not constants.HF_HUB_OFFLINE


def stop(*arguments) -> None:
    raise InterruptedError


def test_a_checkpoint_goes_not_on_with_other_rows(single_run, single_label, tmp_path, no_plots, monkeypatch):
    data = shutil.copytree(single_label, tmp_path / "data")
    job = partial(train, load_recipe(single_run / "recipe.yaml"), tmp_path / "run", data_dir=data)
    with monkeypatch.context() as patch, pytest.raises(InterruptedError):
        save = EmotionTrainer._save_checkpoint
        patch.setattr(EmotionTrainer, "_save_checkpoint", lambda *arguments: stop(save(*arguments)))
        job()
    rows = (data / "train.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    (data / "train.csv").write_text("".join(rows[:-3]), encoding="utf-8")
    with pytest.raises(ValueError, match="--resume.*other rows"):
        job(resume=True)
    (data / "train.csv").write_text("".join(rows), encoding="utf-8")
    assert job(resume=True).runs[0].resumed


def test_many_seeds_are_counted(single_label, base_bert, tmp_path, caplog, monkeypatch):
    """`--seeds 42` is 42 runs, and not the seed 42."""
    recipe = recipe_for(base_bert, dataset="files", train_fraction=1.0, seeds=list(range(42, 84)))
    monkeypatch.setattr(SeedTraining, "run", stop)
    with pytest.raises(InterruptedError):
        train(recipe, tmp_path / "run", data_dir=single_label)
    assert "seed 42, 1 of 42" in caplog.text


def test_two_runs_in_one_folder(single_run, single_label, tmp_path, no_plots, monkeypatch):
    output = tmp_path / "run"
    job = partial(train, load_recipe(single_run / "recipe.yaml"), output, data_dir=single_label)

    def meanwhile(*arguments):  # another process gives the same command
        for resume in (False, True):
            with pytest.raises(FileExistsError, match=re.escape(f"another process trains in {output}")):
                job(resume=resume)
        stop()

    with monkeypatch.context() as patch, pytest.raises(InterruptedError):
        patch.setattr(SeedTraining, "run", meanwhile)
        job()
    assert not output.exists()
    job()
    job(resume=True)


def test_the_folder_of_the_user_in_variables(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HF_EMOTION_CACHE", "~/cache")
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.setenv("HF_EMOTION_DATA", "~/data")
    with pytest.raises(FileNotFoundError, match=f"{tmp_path}/data"):
        load_dataset_for("goemotions")
