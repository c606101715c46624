# SPDX-License-Identifier: Apache-2.0
"""A BERT encoder in RoBERTa's architecture computes the same; and how many positions such models have."""

from functools import partial
from pathlib import Path

import pytest
import torch
import transformers
from hf_emotion.modeling.text_processing import usable_positions
from model_cases import SPECIAL_TOKENS, TINY_BERT, WORDS, asymmetric_, make_tokenizer
from toolkit_helpers import files_in, invoke
from torch.testing import assert_close
from transformers import (
    AutoModel,
    AutoTokenizer,
    BertConfig,
    BertModel,
    BertTokenizerFast,
    RobertaConfig,
    RobertaModel,
)

from hf_emotion import Predictor, modeling
from hf_emotion.convert import bert_to_roberta


pytest_plugins = ["toolkit_fixtures"]

TEXTS = ("i am so happy today", "rain", "this day is not very calm and i feel fear of the sun")
POSITIONS = 40
PADDING_LAST = ("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]")
LONG = "i am so happy this day is not rain and sun"  # 13 tokens


def save_bert(folder: Path, first: tuple[str, ...] = SPECIAL_TOKENS, **config) -> Path:
    """A tiny BERT and its tokenizer, whose special tokens come in the order `first`."""
    make_tokenizer(folder, (*first, *WORDS)).save_pretrained(folder)
    (folder / "vocab.txt").unlink()
    sizes = {**TINY_BERT, "pad_token_id": first.index("[PAD]"), "max_position_embeddings": POSITIONS, **config}
    asymmetric_(BertModel(BertConfig(**sizes)), seed=5).save_pretrained(folder)
    return folder


def all_states(model, inputs) -> tuple[torch.Tensor, ...]:
    with torch.no_grad():
        outputs = model(**inputs, output_hidden_states=True)
    states = [state[inputs["attention_mask"].bool()] for state in (*outputs.hidden_states, outputs.last_hidden_state)]
    return (*states, outputs.pooler_output)


def assert_same_function(bert: Path, roberta, inputs) -> None:
    expected = all_states(AutoModel.from_pretrained(bert).double().eval(), inputs)
    found = all_states(roberta.double().eval(), inputs)
    assert len(found) == len(expected) == TINY_BERT["num_hidden_layers"] + 3  # embeddings, layers, last, pooled
    assert_close(found, expected, rtol=0, atol=1e-10)


@pytest.fixture(scope="module")
def bert(tmp_path_factory) -> Path:
    return save_bert(tmp_path_factory.mktemp("base") / "bert")


@pytest.mark.parametrize(
    ("first", "config"),
    [
        (SPECIAL_TOKENS, {}),
        (PADDING_LAST, {"layer_norm_eps": 0.05, "hidden_act": "relu"}),
        (SPECIAL_TOKENS, {"type_vocab_size": 5, "num_attention_heads": 4}),
    ],
    ids=["default", "padding is 3", "token types"],
)
def test_all_hidden_states_are_the_same(tmp_path, first, config):
    bert = save_bert(tmp_path / "bert", first, **config)
    roberta = bert_to_roberta(bert)
    assert type(roberta) is RobertaModel
    tokenizer = AutoTokenizer.from_pretrained(bert)
    for seconds in (None, list(reversed(TEXTS))):
        inputs = tokenizer(list(TEXTS), seconds, padding=True, padding_side="right", return_tensors="pt")
        assert (inputs["attention_mask"] == 0).any() and inputs["token_type_ids"].any() == (seconds is not None)
        assert (inputs["input_ids"][inputs["attention_mask"] == 0] == first.index("[PAD]")).all()
        if config.get("type_vocab_size"):
            inputs["token_type_ids"] = torch.arange(inputs["input_ids"].numel()).view(inputs["input_ids"].shape) % 5
        assert_same_function(bert, roberta, inputs)
    # Up to the last position.
    ids = 5 + torch.arange(2 * POSITIONS).view(2, POSITIONS) % len(WORDS)
    assert_same_function(bert, roberta, {"input_ids": ids, "attention_mask": torch.ones_like(ids)})
    assert roberta.config.max_position_embeddings == POSITIONS + first.index("[PAD]") + 1
    assert len(roberta.embeddings.position_embeddings.weight) == roberta.config.max_position_embeddings
    assert usable_positions(roberta.config) == POSITIONS


def test_a_classifier_gives_its_encoder_in_evaluation_and_in_float32(tmp_path):
    bert = save_bert(tmp_path / "bert", hidden_dropout_prob=0.5)
    transformers.BertForSequenceClassification.from_pretrained(bert, num_labels=3).bfloat16().save_pretrained(bert)
    roberta = bert_to_roberta(bert)
    assert not roberta.training and roberta.dtype == torch.float32 and roberta.config.hidden_dropout_prob == 0.5
    inputs = AutoTokenizer.from_pretrained(bert)(list(TEXTS), padding=True, return_tensors="pt")
    assert_same_function(bert, roberta, inputs)


def test_an_encoder_without_a_pooler(bert, monkeypatch):
    load = AutoModel.from_pretrained
    monkeypatch.setattr(AutoModel, "from_pretrained", lambda *a, **kw: load(*a, add_pooling_layer=False, **kw))
    assert bert_to_roberta(bert).pooler is None


def test_the_folder_and_the_command(bert, tmp_path, own_verbosity):
    folder = tmp_path / "new" / "roberta"
    expected = bert_to_roberta(bert, folder)
    assert set(files_in(folder)) == {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    loaded = AutoModel.from_pretrained(folder)
    assert type(loaded) is RobertaModel
    assert_close(loaded.state_dict(), expected.state_dict(), rtol=0, atol=0)
    ids = [loaded.config.pad_token_id, loaded.config.bos_token_id, loaded.config.eos_token_id]
    assert ids == [SPECIAL_TOKENS.index(token) for token in ("[PAD]", "[CLS]", "[SEP]")]
    own, theirs = AutoTokenizer.from_pretrained(folder), AutoTokenizer.from_pretrained(bert)
    texts = [*TEXTS, "Nervousness, HOMESICK unheard-of!"]
    assert own(texts).data == theirs(texts).data
    assert own(texts, texts[::-1]).data == theirs(texts, texts[::-1]).data
    assert own.pad_token_id == theirs.pad_token_id and own.mask_token == "[MASK]"
    (tmp_path / "out").mkdir()  # an empty folder will do
    printed = invoke("convert", bert, tmp_path / "out", "--to-roberta")
    assert printed == f"RobertaModel written to {tmp_path / 'out'}, with the tokenizer of {bert}\n"
    assert files_in(tmp_path / "out") == files_in(folder)


def test_what_is_no_bert_encoder_leaves_nothing(bert, tmp_path):
    unpadded = BertConfig(**TINY_BERT)
    unpadded.pad_token_id = None
    others = [transformers.DistilBertConfig(**TINY_BERT), RobertaConfig(**TINY_BERT)]
    others += [modeling.LabelAwareBertConfig(**TINY_BERT), BertConfig(**TINY_BERT, is_decoder=True)]
    for config in (*others, unpadded):
        message = "BERT encoder with a padding token" if config is unpadded else "must be a BERT encoder"
        AutoModel.from_config(config).save_pretrained(tmp_path / "other")
        AutoTokenizer.from_pretrained(bert).save_pretrained(tmp_path / "other")
        with pytest.raises(ValueError, match=message):
            bert_to_roberta(tmp_path / "other", tmp_path / "out")
    AutoModel.from_pretrained(bert).save_pretrained(tmp_path / "bare")
    assert type(bert_to_roberta(tmp_path / "bare")) is RobertaModel
    for place in (tmp_path / "bare", "nobody/no-such-bert"):  # no tokenizer; nothing
        with pytest.raises((OSError, ValueError)):
            bert_to_roberta(place, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_with_files_stays_and_none_is_half_written(bert, tmp_path, monkeypatch):
    (tmp_path / "mine.txt").write_text("mine")
    for output in (tmp_path, tmp_path / "mine.txt"):
        with pytest.raises(FileExistsError, match="exists and is not an empty folder: give another one"):
            bert_to_roberta(bert, output)
    assert files_in(tmp_path) == {"mine.txt": b"mine"}

    def fail(*arguments, **keywords):
        raise OSError("disk full")

    monkeypatch.setattr(BertTokenizerFast, "save_pretrained", fail)
    with pytest.raises(OSError, match="disk full"):
        bert_to_roberta(bert, tmp_path / "out")
    assert not (tmp_path / "out").exists() or not any((tmp_path / "out").iterdir())


def test_the_command_takes_no_options_of_other_conversions(argv, bert, tmp_path, own_verbosity):
    for option in (("--set", "hidden_act=relu"), ("--config", "config.json")):
        done = argv("convert", bert, tmp_path / "out", "--to-roberta", *option)
        assert done.code == 2 and "leave out --config and --set" in " ".join(done.err.replace("│", " ").split())
        assert not (tmp_path / "out").exists()
    done = argv("convert", "nobody/no-such-bert", tmp_path / "out", "--to-roberta")
    assert done.code == 1 and "--base-model" not in done.err  # which is no option of this command


@pytest.mark.parametrize("config_class", [RobertaConfig, modeling.RobertaESAConfig])
def test_a_long_text_is_cut_to_the_positions_behind_the_padding(config_class, tmp_path):
    """A model with 8 positions and padding at 3, and a tokenizer that knows no limit."""
    folder = save_bert(tmp_path / "bert", PADDING_LAST)
    sizes = {**TINY_BERT, "max_position_embeddings": 12, "pad_token_id": 3, "num_labels": 3}
    config = config_class(**sizes, problem_type="single_label_classification")
    model = asymmetric_(transformers.AutoModelForSequenceClassification.from_config(config), seed=3).eval()
    tokenizer, pipe = AutoTokenizer.from_pretrained(folder), partial(transformers.pipeline, "emotion-classification")
    ids = tokenizer(LONG)["input_ids"]
    assert tokenizer.model_max_length > 10**6 and len(ids) == 13
    with torch.no_grad():
        expected = model(torch.tensor([[*ids[:7], ids[-1]]])).logits.softmax(-1)[0]
    predictor = Predictor(model, tokenizer, device="cpu", max_windows=1)
    assert predictor.max_length == 8
    assert_close(torch.from_numpy(predictor.probabilities([LONG, "rain"])[0]), expected, rtol=0, atol=1e-5)
    with pytest.raises(ValueError, match="`max_length` must be .* between 3 and the model's 8 positions, got 9"):
        Predictor(model, tokenizer, max_length=9)
    classify = pipe(model=model, tokenizer=tokenizer, device="cpu")
    found = {item["label"]: item["score"] for item in classify([LONG], top_k=None, max_windows=1)[0]}
    assert found == pytest.approx({model.config.id2label[i]: float(p) for i, p in enumerate(expected)}, abs=1e-5)
    # The tokenizer's own limit holds where it is less.
    tokenizer = AutoTokenizer.from_pretrained(folder, model_max_length=5)
    assert Predictor(model, tokenizer, device="cpu").max_length == 5
    windows = list(pipe(model=model, tokenizer=tokenizer, device="cpu").preprocess(LONG))
    assert len(windows) > 1 and all(window["input_ids"].shape == (1, 5) for window in windows)
