# SPDX-License-Identifier: Apache-2.0
"""A BERT encoder in RoBERTa's architecture computes the same; and how many positions such models have."""

from pathlib import Path

import pytest
import torch
from hf_emotion.modeling import (
    EmotionClassificationPipeline,
    LabelAwareBertConfig,
    LabelAwareBertModel,
    RobertaESAConfig,
)
from hf_emotion.modeling.text_processing import usable_positions
from model_cases import SPECIAL_TOKENS, TINY_BERT, WORDS, asymmetric_
from toolkit_helpers import files_in, invoke
from torch.testing import assert_close
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    BertTokenizerFast,
    DistilBertConfig,
    DistilBertModel,
    RobertaConfig,
    RobertaModel,
    XLMRobertaConfig,
)

from hf_emotion import Predictor
from hf_emotion.convert import bert_to_roberta


pytest_plugins = ["toolkit_fixtures"]

TEXTS = ("i am so happy today", "rain", "this day is not very calm and i feel fear of the sun")
POSITIONS = 40


def save_bert(folder: Path, first: tuple[str, ...] = SPECIAL_TOKENS, **config) -> Path:
    """A tiny BERT and its tokenizer, whose special tokens come in the order `first`."""
    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("\n".join([*first, *WORDS]) + "\n", encoding="utf-8")
    BertTokenizerFast.from_pretrained(folder).save_pretrained(folder)
    (folder / "vocab.txt").unlink()
    sizes = {**TINY_BERT, "pad_token_id": first.index("[PAD]"), "max_position_embeddings": POSITIONS, **config}
    asymmetric_(BertModel(BertConfig(**sizes)), seed=5).save_pretrained(folder)
    return folder


def all_states(model, inputs) -> tuple[torch.Tensor, ...]:
    with torch.no_grad():
        outputs = model(**inputs, output_hidden_states=True)
    pooled = () if outputs.pooler_output is None else (outputs.pooler_output,)
    return (*outputs.hidden_states, outputs.last_hidden_state, *pooled)


def assert_same_function(bert: Path, roberta, inputs) -> None:
    expected = all_states(AutoModel.from_pretrained(bert).double().eval(), inputs)
    found = all_states(roberta.double().eval(), inputs)
    assert len(found) == len(expected) == TINY_BERT["num_hidden_layers"] + 3  # embeddings, layers, last, pooled
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        if a.dim() == 3:
            mask = inputs["attention_mask"].bool()
            a, b = a[mask], b[mask]
        assert_close(a, b, rtol=0, atol=1e-10, msg=lambda message, i=i: f"state {i}: {message}")


@pytest.fixture(scope="module")
def bert(tmp_path_factory) -> Path:
    return save_bert(tmp_path_factory.mktemp("base") / "bert")


PADDING_LAST = ("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]")


class TestSameFunction:
    @pytest.mark.parametrize(
        ("first", "config"),
        [
            (SPECIAL_TOKENS, {}),
            (PADDING_LAST, {}),
            (SPECIAL_TOKENS, {"layer_norm_eps": 0.05}),
            (SPECIAL_TOKENS, {"hidden_act": "relu"}),
            (SPECIAL_TOKENS, {"type_vocab_size": 5}),
            (SPECIAL_TOKENS, {"num_attention_heads": 4}),
        ],
        ids=["default", "padding is 3", "eps", "activation", "token types", "heads"],
    )
    @pytest.mark.parametrize("pairs", [False, True])
    def test_all_hidden_states(self, tmp_path, first, config, pairs):
        bert = save_bert(tmp_path / "bert", first, **config)
        roberta = bert_to_roberta(bert)
        tokenizer = AutoTokenizer.from_pretrained(bert)
        inputs = tokenizer(
            list(TEXTS),
            list(reversed(TEXTS)) if pairs else None,
            padding=True,
            padding_side="right",
            return_tensors="pt",
        )
        assert (inputs["attention_mask"] == 0).any() and inputs["token_type_ids"].any() == pairs
        assert (inputs["input_ids"][inputs["attention_mask"] == 0] == first.index("[PAD]")).all()
        if config.get("type_vocab_size"):
            inputs["token_type_ids"] = torch.arange(inputs["input_ids"].numel()).view(inputs["input_ids"].shape) % 5
        assert type(roberta) is RobertaModel
        assert_same_function(bert, roberta, inputs)

    @pytest.mark.parametrize("first", [SPECIAL_TOKENS, PADDING_LAST], ids=["padding is 0", "padding is 3"])
    def test_up_to_the_last_position(self, tmp_path, first):
        bert = save_bert(tmp_path / "bert", first)
        roberta = bert_to_roberta(bert)
        ids = 5 + torch.arange(2 * POSITIONS).view(2, POSITIONS) % len(WORDS)
        assert_same_function(bert, roberta, {"input_ids": ids, "attention_mask": torch.ones_like(ids)})
        padding = first.index("[PAD]")
        assert roberta.config.max_position_embeddings == POSITIONS + padding + 1
        assert roberta.embeddings.position_embeddings.weight.shape[0] == POSITIONS + padding + 1
        assert usable_positions(roberta.config) == POSITIONS

    def test_without_pooler(self, bert, monkeypatch):
        load = AutoModel.from_pretrained
        monkeypatch.setattr(AutoModel, "from_pretrained", lambda *a, **kw: load(*a, add_pooling_layer=False, **kw))
        assert bert_to_roberta(bert).pooler is None

    def test_a_classifier_gives_its_encoder(self, tmp_path):
        bert = save_bert(tmp_path / "bert")
        model = BertForSequenceClassification.from_pretrained(bert, num_labels=3)
        model.save_pretrained(bert)
        inputs = AutoTokenizer.from_pretrained(bert)(list(TEXTS), padding=True, return_tensors="pt")
        assert_same_function(bert, bert_to_roberta(bert), inputs)

    def test_in_evaluation_and_in_float32(self, tmp_path):
        bert = save_bert(tmp_path / "bert", hidden_dropout_prob=0.5)
        AutoModel.from_pretrained(bert).bfloat16().save_pretrained(bert)
        roberta = bert_to_roberta(bert)
        assert not roberta.training and roberta.dtype == torch.float32
        assert roberta.config.hidden_dropout_prob == 0.5


class TestFolder:
    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory, bert) -> Path:
        output = tmp_path_factory.mktemp("out") / "new" / "roberta"
        bert_to_roberta(bert, output)
        return output

    def test_files(self, folder):
        assert set(files_in(folder)) == {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}

    def test_the_model_is_the_returned_one(self, bert, folder):
        loaded = AutoModel.from_pretrained(folder)
        assert type(loaded) is RobertaModel
        assert_close(loaded.state_dict(), bert_to_roberta(bert).state_dict(), rtol=0, atol=0)
        inputs = AutoTokenizer.from_pretrained(folder)(list(TEXTS), padding=True, return_tensors="pt")
        assert_same_function(bert, loaded, inputs)

    def test_the_configuration(self, folder):
        config = AutoModel.from_pretrained(folder).config
        ids = [config.pad_token_id, config.bos_token_id, config.eos_token_id]
        assert ids == [SPECIAL_TOKENS.index(token) for token in ("[PAD]", "[CLS]", "[SEP]")]

    def test_the_tokenizer(self, bert, folder):
        own, expected = AutoTokenizer.from_pretrained(folder), AutoTokenizer.from_pretrained(bert)
        texts = [*TEXTS, "Nervousness, HOMESICK unheard-of!"]
        assert own(texts).data == expected(texts).data
        assert own(texts, texts[::-1]).data == expected(texts, texts[::-1]).data
        assert own.pad_token_id == expected.pad_token_id and own.mask_token == "[MASK]"

    def test_an_empty_folder_will_do(self, bert, tmp_path):
        bert_to_roberta(bert, tmp_path)
        assert (tmp_path / "model.safetensors").is_file()

    def test_the_command(self, bert, folder, tmp_path, own_verbosity):
        printed = invoke("convert", bert, tmp_path / "out", "--to-roberta")
        assert printed == f"RobertaModel written to {tmp_path / 'out'}, with the tokenizer of {bert}\n"
        assert files_in(tmp_path / "out") == files_in(folder)


class TestErrors:
    def test_output_is_not_empty(self, bert, tmp_path):
        (tmp_path / "mine.txt").write_text("mine")
        for output in (tmp_path, tmp_path / "mine.txt"):
            with pytest.raises(FileExistsError, match="exists and is not an empty folder: give another one"):
                bert_to_roberta(bert, output)
        assert files_in(tmp_path) == {"mine.txt": b"mine"}

    @pytest.mark.parametrize(
        ("model", "kind"),
        [
            (lambda: DistilBertModel(DistilBertConfig(vocab_size=9, dim=8, n_layers=1, n_heads=2)), "distilbert"),
            (lambda: RobertaModel(RobertaConfig(**TINY_BERT)), "roberta"),
            (lambda: LabelAwareBertModel(LabelAwareBertConfig(**TINY_BERT)), "label-aware-bert"),
            (lambda: BertModel(BertConfig(**TINY_BERT, is_decoder=True)), "bert"),
        ],
        ids=["distilbert", "roberta", "label-aware", "decoder"],
    )
    def test_not_a_bert_encoder(self, bert, tmp_path, model, kind):
        model().save_pretrained(tmp_path / "other")
        AutoTokenizer.from_pretrained(bert).save_pretrained(tmp_path / "other")
        with pytest.raises(ValueError, match="other must be a BERT encoder"):
            bert_to_roberta(tmp_path / "other", tmp_path / "out")
        assert not (tmp_path / "out").exists()

    def test_no_padding_token(self, tmp_path):
        bert = save_bert(tmp_path / "bert")
        model = AutoModel.from_pretrained(bert)
        model.config.pad_token_id = None
        model.save_pretrained(bert)
        with pytest.raises(ValueError, match="BERT encoder with a padding token"):
            bert_to_roberta(bert, tmp_path / "out")
        assert not (tmp_path / "out").exists()

    def test_no_such_model(self, tmp_path):
        with pytest.raises(OSError, match="connect|offline|nobody"):
            bert_to_roberta("nobody/no-such-bert", tmp_path / "out")
        assert not (tmp_path / "out").exists()

    def test_the_remedy_is_one_of_this_command(self, argv, tmp_path, own_verbosity):
        done = argv("convert", "nobody/no-such-bert", tmp_path / "out", "--to-roberta")
        assert done.code == 1
        assert "--base-model" not in done.err

    def test_no_tokenizer_where_a_folder_is_to_be_written(self, bert, tmp_path):
        AutoModel.from_pretrained(bert).save_pretrained(tmp_path / "bare")
        assert type(bert_to_roberta(tmp_path / "bare")) is RobertaModel
        with pytest.raises((OSError, ValueError)):
            bert_to_roberta(tmp_path / "bare", tmp_path / "out")
        assert not (tmp_path / "out").exists()

    def test_nothing_half_written(self, bert, tmp_path, monkeypatch):
        def fail(*arguments, **keywords):
            raise OSError("disk full")

        monkeypatch.setattr(BertTokenizerFast, "save_pretrained", fail)
        with pytest.raises(OSError, match="disk full"):
            bert_to_roberta(bert, tmp_path / "out")
        assert not (tmp_path / "out").exists() or not any((tmp_path / "out").iterdir())

    @pytest.mark.parametrize("option", [("--set", "hidden_act=relu"), ("--config", "config.json")])
    def test_options_of_other_conversions(self, argv, bert, tmp_path, own_verbosity, option):
        done = argv("convert", bert, tmp_path / "out", "--to-roberta", *option)
        assert done.code == 2 and "leave out --config and --set" in " ".join(done.err.replace("│", " ").split())
        assert not (tmp_path / "out").exists()


class TestPositions:
    @pytest.fixture(scope="class", params=["roberta", "xlm-roberta", "roberta-esa"])
    def classifier(self, request, tmp_path_factory):
        """A model with 8 positions and padding at 3, and a tokenizer that knows no limit."""
        folder = save_bert(tmp_path_factory.mktemp("long") / "bert", PADDING_LAST)
        sizes = {**TINY_BERT, "max_position_embeddings": 12, "pad_token_id": 3, "num_labels": 3}
        kinds = {"roberta": RobertaConfig, "xlm-roberta": XLMRobertaConfig, "roberta-esa": RobertaESAConfig}
        config = kinds[request.param](**sizes, problem_type="single_label_classification")
        model = asymmetric_(AutoModelForSequenceClassification.from_config(config), seed=3).eval()
        tokenizer = AutoTokenizer.from_pretrained(folder)
        assert tokenizer.model_max_length > 10**6
        return model, tokenizer

    LONG = "i am so happy this day is not rain and sun"  # 13 tokens

    def expected(self, model, tokenizer) -> torch.Tensor:
        ids = tokenizer(self.LONG)["input_ids"]
        assert len(ids) == 13
        with torch.no_grad():
            assert torch.isfinite(model(torch.tensor([ids[:8]])).logits).all()  # the last position is there
            return model(torch.tensor([[*ids[:7], ids[-1]]])).logits.softmax(-1)[0]

    def test_a_long_text_is_cut_by_the_predictor(self, classifier):
        model, tokenizer = classifier
        predictor = Predictor(model, tokenizer, device="cpu", max_windows=1)
        assert predictor.max_length == 8
        found = torch.from_numpy(predictor.probabilities([self.LONG, "rain"])[0])
        assert_close(found, self.expected(model, tokenizer), rtol=0, atol=1e-5)
        with pytest.raises(
            ValueError, match="`max_length` must be a whole number between 3 and the model's 8 positions, got 9"
        ):
            Predictor(model, tokenizer, max_length=9)

    def test_a_long_text_is_cut_by_the_pipeline(self, classifier):
        model, tokenizer = classifier
        classify = EmotionClassificationPipeline(model=model, tokenizer=tokenizer, device="cpu")
        found = {item["label"]: item["score"] for item in classify([self.LONG], top_k=None, max_windows=1)[0]}
        expected = {model.config.id2label[i]: float(p) for i, p in enumerate(self.expected(model, tokenizer))}
        assert found == pytest.approx(expected, abs=1e-5)

    def test_the_tokenizer_s_own_limit_holds_where_it_is_less(self, classifier):
        model, tokenizer = classifier
        tokenizer = AutoTokenizer.from_pretrained(tokenizer.name_or_path, model_max_length=5)
        assert Predictor(model, tokenizer, device="cpu").max_length == 5
        classify = EmotionClassificationPipeline(model=model, tokenizer=tokenizer, device="cpu")
        windows = list(classify.preprocess(self.LONG))
        assert len(windows) > 1 and all(window["input_ids"].shape == (1, 5) for window in windows)
