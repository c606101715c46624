# SPDX-License-Identifier: Apache-2.0
"""Label-aware attention over any encoder: what the shared suite does not ask. Formulas are computed from the encoder's states."""

import numpy as np
import pytest
import torch
import transformers
from hf_emotion.modeling import LabelAwareConfig, LabelAwareForSequenceClassification, LabelAwareModel
from hf_emotion.modeling.common import UNFIT
from huggingface_hub.errors import StrictDataclassError
from model_cases import BY_ID, LABEL_NAMES, LABELS, TINY_BERT, TINY_GPT2, asymmetric_, make_tokenizer
from model_equations import naive_label_aware
from peft import PromptTuningConfig, get_peft_model
from torch.testing import assert_close
from transformers import AutoConfig, AutoModel, BertConfig

from hf_emotion import Predictor


@pytest.mark.parametrize(("encoder", "kind"), [("xlm-roberta", "mean"), ("deberta", "first"), ("qwen3", "last")])
def test_logits_are_those_of_the_equations(encoder, kind):
    case = BY_ID[f"any-{encoder}"]
    model = case.build(sentence_representation=kind).double()
    inputs = case.make_inputs(3, 9, 5)
    outputs = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
    for row, length in enumerate(inputs["attention_mask"].sum(1)):
        alone = inputs["input_ids"][row : row + 1, :length]
        states = model.model.encoder(input_ids=alone).last_hidden_state[0]
        sentence = {"mean": states.mean(0), "first": states[0], "last": states[-1]}[kind]
        expected, *_ = naive_label_aware(model.state_dict(), "model", model.config, states, sentence)
        assert_close(outputs.logits[row], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("case_id", ["any-xlm-roberta", "label-aware"])
def test_windows_of_a_document_are_read_by_one_attention_over_all_their_tokens(case_id):
    case = BY_ID[case_id]
    model = case.build().double()
    inputs = case.make_inputs(3, 6, 7)
    ids, mask = inputs["input_ids"], torch.ones(3, 6, dtype=torch.long)
    pooling = mask.clone()
    pooling[0, 4:] = 0  # the overlap of the first two, each token of which is counted once
    pooling[1, :1] = 0
    given = {"input_ids": ids, "attention_mask": mask, "pooling_mask": pooling}
    outputs = model(**given, document_ids=torch.tensor([0, 0, 1]), labels=inputs["labels"][:2])
    assert outputs.logits.shape == (2, len(LABELS)) and outputs.loss.isfinite()
    states = model.base_model(input_ids=ids).last_hidden_state
    kept = [states[row][pooling[row].bool()] for row in range(2)]
    # The sentence vector of each window, at every token that it counts: attended by the same weights.
    own = [window[0] if case_id == "label-aware" else window.mean(0) for window in states[:2]]
    sentences = torch.cat([sentence.expand_as(k) for sentence, k in zip(own, kept, strict=True)])
    w, base = model.state_dict(), model.base_model_prefix
    expected, *_ = naive_label_aware(w, base, model.config, torch.cat(kept), sentences)
    assert_close(outputs.logits[0], expected, rtol=1e-9, atol=1e-9)
    alone = model(input_ids=ids[2:], attention_mask=mask[2:])
    assert_close(outputs.logits[1:], alone.logits, rtol=1e-9, atol=1e-9)
    # Padding stays padding, whatever the pooling mask says.
    shorter = model(input_ids=ids[2:, :4])
    mask[2, 4:] = 0
    everything = model(input_ids=ids[2:], attention_mask=mask[2:], pooling_mask=torch.ones(1, 6))
    assert_close(everything.logits, shorter.logits, rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match=r"`document_ids` must have shape \(3,\), got \(2,\)"):
        model(**given, document_ids=torch.tensor([0, 0]))
    with pytest.raises(ValueError, match=r"`pooling_mask` must have shape \(3, 6\), got \(3, 5\)"):
        model(input_ids=ids, pooling_mask=pooling[:, :5])


@torch.no_grad()
def test_documents_of_windows_are_exported():
    case = BY_ID["label-aware"]
    model, inputs = case.build(), case.make_inputs(3, 6, 7)
    given = {"input_ids": inputs["input_ids"], "document_ids": torch.tensor([0, 0, 1])}
    program = torch.export.export(model, (), given).module()
    for documents in ([0, 0, 1], [0, 1, 2]):
        given["document_ids"] = torch.tensor(documents, dtype=torch.long)
        assert_close(program(**given).logits, model(**given).logits)
    given["document_ids"] = given["document_ids"].int()
    assert_close(model(**given).logits, model(input_ids=inputs["input_ids"]).logits)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """Plain encoders: an MPNet, a BERT with a pooler, and one that lacks a layer."""
    folder = tmp_path_factory.mktemp("encoders")
    for name in ("mpnet", "bert"):
        model = asymmetric_(AutoModel.from_config(AutoConfig.for_model(name, **TINY_BERT)), seed=3)
        model.save_pretrained(folder / name)
    weights = {name: value for name, value in model.state_dict().items() if "layer.1.output" not in name}
    model.save_pretrained(folder / "damaged", state_dict=weights)
    return folder


@pytest.mark.parametrize("name", ["mpnet", "bert"])
@pytest.mark.parametrize("model_class", [LabelAwareModel, LabelAwareForSequenceClassification])
def test_from_encoder_pretrained_takes_every_weight_of_the_encoder(model_class, name, checkpoints, tmp_path):
    model = model_class.from_encoder_pretrained(checkpoints / name, **LABEL_NAMES, leam_radius=3).eval()
    stock = AutoModel.from_pretrained(checkpoints / name).eval()
    ids = torch.randint(5, 30, (2, 7), generator=torch.Generator().manual_seed(1))
    assert_close(model.base_model(ids).last_hidden_state, stock(ids).last_hidden_state, rtol=0, atol=0)
    assert model.config.num_labels == len(LABELS) and model.config.leam_radius == 3
    assert not any("pooler" in parameter for parameter, _ in model.named_parameters())
    assert str(checkpoints) not in model.config.to_json_string()
    # In float32 whatever the encoder was saved in: half precision does not train.
    stock.half().save_pretrained(tmp_path)
    halved = model_class.from_encoder_pretrained(tmp_path, **LABEL_NAMES)
    assert {parameter.dtype for parameter in halved.parameters()} == {torch.float32}


def test_an_encoder_stays_on_its_devices_and_quantized(checkpoints, tmp_path, monkeypatch):
    def load(**arguments):
        torch.manual_seed(0)
        folder = checkpoints / "bert"
        return LabelAwareForSequenceClassification.from_encoder_pretrained(folder, **LABEL_NAMES, **arguments)

    ids = torch.tensor([[5, 6, 7, 8]])
    expected = load().eval()(ids).logits
    places = {"embeddings": "disk", "encoder.layer.0": "cpu", "encoder.layer.1": "disk"}
    model = load(device_map=places, offload_folder=tmp_path)
    assert (
        model.training
        and model.model.encoder.training
        and model.hf_device_map["model.encoder.encoder.layer.1"] == "disk"
    )
    assert model.get_input_embeddings().weight.is_meta and not model.classifier.out_proj.weight.is_meta
    assert_close(model.eval()(ids).logits, expected, rtol=1e-6, atol=1e-6)

    class Quantized(torch.nn.Module):  # whose weights are no parameters of the stock model
        def forward(self, states):
            return torch.zeros_like(states)

    loads, asked = transformers.BertModel.from_pretrained, transformers.BitsAndBytesConfig(load_in_8bit=True)

    def quantize(*arguments, quantization_config=None, **others):
        encoder, report = loads(*arguments, **others)
        assert quantization_config.load_in_8bit
        encoder.encoder.layer[0].attention.output.dense, encoder.is_quantized = Quantized(), True
        return encoder, report

    monkeypatch.setattr(transformers.BertModel, "from_pretrained", quantize)
    model = load(quantization_config=asked)
    assert model.is_quantized and isinstance(model.model.encoder.encoder.layer[0].attention.output.dense, Quantized)
    assert (model.eval()(ids).logits - expected).abs().max() > 1e-4


def test_prompts_of_peft_are_as_wide_as_the_encoder(checkpoints):
    model = LabelAwareForSequenceClassification.from_encoder_pretrained(checkpoints / "mpnet", **LABEL_NAMES)
    ids, labels = torch.tensor([[5, 6, 7], [8, 9, 10]]), torch.eye(5)[:2]
    tuned = get_peft_model(model, PromptTuningConfig(task_type="SEQ_CLS", num_virtual_tokens=3))
    tuned(input_ids=ids, attention_mask=torch.ones_like(ids), labels=labels).loss.backward()
    assert tuned.prompt_encoder["default"].embedding.weight.grad.abs().sum() > 0
    config = LabelAwareConfig.from_dict(model.config.to_dict())
    assert config.hidden_size == 16 and config.to_dict() == model.config.to_dict()


def test_from_encoder_pretrained_refuses_what_is_no_encoder(checkpoints, tmp_path):
    BY_ID["any-mpnet"].build().save_pretrained(tmp_path / "ours")
    transformers.ViTConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2).save_pretrained(
        tmp_path / "vit"
    )
    for folder, fields, message in (
        (checkpoints / "damaged", {}, "damaged.*lacks weights.*layer"),
        (tmp_path / "ours", {}, "'label-aware', which transformers itself does not have"),
        (tmp_path / "vit", {}, "'vit'.*`input_ids`"),
        (checkpoints / "bert", {"tie_haed": True}, "tie_haed"),
    ):
        with pytest.raises((TypeError, ValueError, StrictDataclassError), match=f"(?s){message}"):
            LabelAwareForSequenceClassification.from_encoder_pretrained(folder, num_labels=3, **fields)
    for kind in UNFIT:
        with pytest.raises(ValueError, match=f"'{kind}'.* into states"), torch.device("meta"):
            LabelAwareModel(LabelAwareConfig(encoder_config={"model_type": kind}))
    with pytest.raises(ValueError, match="`hidden_size` is that of the encoder, 16"):
        LabelAwareConfig(encoder_config=BertConfig(**TINY_BERT), hidden_size=24)
    with pytest.raises(ValueError, match="one of 'label-aware', got one of 'bert': .*from_encoder_pretrained"):
        LabelAwareForSequenceClassification.from_pretrained(checkpoints / "bert")


def test_an_encoder_in_half_precision_computes_what_it_computes_alone_at_far_positions(tmp_path):
    sizes = {**TINY_BERT, "max_position_embeddings": 512, "head_dim": 8, "num_key_value_heads": 2}
    AutoModel.from_config(transformers.Qwen3Config(**sizes)).bfloat16().save_pretrained(tmp_path)
    stock = AutoModel.from_pretrained(tmp_path, dtype=torch.bfloat16).eval()
    ids = torch.randint(5, 30, (1, 400), generator=torch.Generator().manual_seed(1))
    for dtype in ("auto", torch.bfloat16):
        model = LabelAwareForSequenceClassification.from_encoder_pretrained(tmp_path, dtype=dtype, **LABEL_NAMES)
        assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
        assert model.base_model.get_encoder().rotary_emb.inv_freq.dtype == torch.float32
        assert torch.equal(model.eval().base_model(ids).last_hidden_state, stock(ids).last_hidden_state)
    # A predictor of the model in float32, too.
    model.float().save_pretrained(tmp_path / "run")
    make_tokenizer(tmp_path / "tokenizer").save_pretrained(tmp_path / "run")
    model = Predictor(tmp_path / "run", device="cpu", dtype="bfloat16").model
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert torch.equal(model.base_model(ids).last_hidden_state, stock(ids).last_hidden_state)


def test_the_precision_that_an_encoders_config_records_is_not_that_of_a_new_model():
    model = over(BertConfig(**TINY_BERT, dtype="bfloat16"))
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert model(torch.tensor([[5, 6, 7]])).logits.dtype == torch.float32


def over(encoder, **config) -> LabelAwareForSequenceClassification:
    config = LabelAwareConfig(encoder_config=encoder, **LABEL_NAMES, **config)
    return LabelAwareForSequenceClassification(config).eval()


WIDER = {**TINY_BERT, "max_position_embeddings": 64}
# Without a vocabulary.
CANINE = transformers.CanineConfig(**{k: v for k, v in WIDER.items() if k != "vocab_size"}, num_hash_buckets=64)


def test_an_encoder_without_a_vocabulary_reads_any_character():
    model = asymmetric_(over(CANINE))
    ids = torch.tensor([[ord(character) for character in "so happy today \N{FACE WITH TEARS OF JOY}!"]])
    states = model.base_model.get_encoder()(ids, attention_mask=torch.ones_like(ids)).last_hidden_state
    assert torch.equal(model.base_model(ids, attention_mask=torch.ones_like(ids)).last_hidden_state, states)


@torch.no_grad()
@pytest.mark.parametrize("encoder", [CANINE, transformers.LongformerConfig(**WIDER, attention_window=4)], ids=type)
def test_maps_of_encoders_that_are_not_as_long_as_the_text(encoder):
    model = over(encoder, output_attentions=True)
    ids, mask = torch.full((2, 16), 7), torch.ones(2, 16, dtype=torch.long)
    mask[0, :4] = 0
    outputs = model(ids, attention_mask=mask, output_hidden_states=True, output_attentions=None)
    stock = model.base_model.encoder(ids, attention_mask=mask, output_hidden_states=True, output_attentions=True)
    for name in ("hidden_states", "attentions"):
        assert [x.shape for x in outputs[name]] == [x.shape for x in stock[name]]
        for found, expected in zip(outputs[name], stock[name], strict=True):
            assert_close(found[1], expected[1])  # without padding
    assert any(x.shape[-1] != 16 for x in outputs.attentions)


class Tokenizer:
    """One that tells the beginning of a text from the middle of a sentence, as byte-pair tokenizers do."""

    unk_token_id, all_special_ids = 1, [1, 2, 3]
    words = {"joy": [9], " joy": [7, 8], " anger": [10], " nervousness": [11, 12, 13], " optimism": [14]}
    words |= {" neutral": [15], " calm": [20, 21]}

    def __call__(self, text, add_special_tokens=True):
        ids = self.words[text]
        return {"input_ids": [2, *ids, 3] if add_special_tokens else ids}


@pytest.mark.parametrize("kind", ["words identity", "contextual identity", "contextual normal"])
def test_label_vectors_start_from_names_as_they_stand_in_a_sentence(kind):
    start, matrix = kind.split()
    model = BY_ID["any-mpnet"].build(label_embedding_init=start, label_attention_init=matrix).train()
    weight = model.model.score.weight.detach().clone()
    assert model.init_label_embeddings(Tokenizer()) is model and model.training
    model.eval()
    pieces = [Tokenizer.words[f" {name}"] for name in LABELS]
    if start == "words":
        expected = torch.stack([model.get_input_embeddings().weight[row].mean(0) for row in pieces])
    else:
        states = [model.model.encoder(torch.tensor([[2, *row, 3]])).last_hidden_state[0] for row in pieces]
        expected = torch.stack([state.mean(0) for state in states])
        expected = expected - expected.mean(0)
        spread = np.mean([np.std((torch.cat(states) @ vector).tolist(), ddof=1) for vector in expected.detach()])
        scale = 3 / spread
        if matrix == "identity":  # short vectors; the scale is in W
            length = expected.norm(dim=1).mean()
            weight = torch.eye(len(weight)) * scale * length.detach()
            scale = 1 / length
        expected = expected * scale
    assert_close(model.model.score.weight, weight, rtol=1e-5, atol=1e-5)
    assert_close(model.model.score.label_embeddings, expected, rtol=1e-5, atol=1e-5)
    again = model.model.score.weight.detach().clone()
    model.init_label_embeddings(Tokenizer())
    assert_close(model.model.score.weight, again, rtol=0, atol=0)
    if start == "contextual":  # an added label lies among the others as if it had been there, as long as they are now
        with torch.no_grad():
            model.model.score.label_embeddings.mul_(0.5)
        before = model.model.score.label_embeddings.detach().clone()
        model.add_labels(["calm"], Tokenizer())
        means = torch.stack([state.mean(0) for state in states])
        new = model.model.encoder(torch.tensor([[2, 20, 21, 3]])).last_hidden_state[0].mean(0) - means.mean(0)
        scale = before.norm(dim=1).mean() / (means - means.mean(0)).norm(dim=1).mean()
        assert_close(model.model.score.label_embeddings, torch.cat([before, new[None] * scale]), rtol=1e-5, atol=1e-5)


def test_added_labels_lie_beside_the_texts_from_which_the_others_started(tmp_path):
    names = {"id2label": {0: "\N{BROKEN HEART}", 1: "LABEL_1"}, "label_embedding_init": "contextual"}
    model, found = BY_ID["any-mpnet"].build(**names), []
    model.init_label_embeddings(Tokenizer(), ["joy", "anger"])
    with pytest.raises(ValueError, match="`label_texts` must differ .* got .*anger"):
        model.init_label_embeddings(Tokenizer(), ["anger", "anger"])
    assert model.config.label_texts == ["joy", "anger"]
    other = BY_ID["any-mpnet"].build(**{**names, "id2label": {0: "joy", 1: "anger"}})
    other.init_label_embeddings(Tokenizer())
    assert other.config.label_texts is None
    for one in (model, other):
        found.append(one.add_labels(["neutral"], Tokenizer()).base_model.score.label_embeddings)
    assert torch.equal(*found) and model.config.label_texts == ["joy", "anger", "neutral"]
    model.save_pretrained(tmp_path)
    assert LabelAwareConfig.from_pretrained(tmp_path).label_texts == model.config.label_texts
    assert LabelAwareConfig.from_pretrained(tmp_path, num_labels=2).label_texts is None
    # A vector of another precision or device joins the others.
    half = model.bfloat16().base_model.score
    half.append(torch.zeros(1, half.label_embeddings.shape[1]))
    assert half.label_embeddings.dtype == torch.bfloat16 and len(half.label_embeddings) == 4


def test_reading_texts_leaves_every_mode_as_it_was():
    model = BY_ID["any-mpnet"].build(label_embedding_init="contextual").train()
    part = model.base_model.encoder.encoder.eval()
    model.init_label_embeddings(Tokenizer())
    part.forward = None
    with pytest.raises(TypeError):
        model.init_label_embeddings(Tokenizer())
    assert model.base_model.encoder.training and not any(module.training for module in part.modules())


def test_words_of_another_size_than_the_states_need_label_vectors_of_that_size(tmp_path):
    model = BY_ID["any-electra"].build()
    model.init_label_embeddings(make_tokenizer(tmp_path))
    assert model.model.score.label_embeddings.shape == (len(LABELS), 8)
    with pytest.raises(ValueError, match="`label_embedding_init` .*size 8.*`label_embedding_size` is 16: set it to 8"):
        BY_ID["any-electra"].build(label_embedding_size=16).init_label_embeddings(make_tokenizer(tmp_path))


@pytest.mark.parametrize("start", ["words", "contextual"])
def test_an_encoder_whose_last_states_are_narrower_than_its_layers(start, tokenizer):
    encoder = transformers.OPTConfig(**TINY_BERT, word_embed_proj_dim=8, ffn_dim=24, pad_token_id=0)
    model = over(encoder, label_embedding_init=start).init_label_embeddings(tokenizer)
    ids, mask = torch.tensor([[0, 0, 7, 8], [9, 7, 8, 6]]), torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])
    outputs = model.base_model(ids, attention_mask=mask, output_hidden_states=True)
    assert outputs.last_hidden_state.shape == (2, 4, 8) and outputs.label_representations.shape == (2, 5, 16)
    assert_close(model(ids, attention_mask=mask).logits[:1], model(ids[:1, 2:]).logits)


def test_an_encoder_whose_configuration_knows_no_padding():
    encoder = transformers.CodeGenConfig(**{**TINY_GPT2, "n_head": 4}, n_ctx=32, rotary_dim=4)
    assert not hasattr(encoder, "pad_token_id")
    model = over(encoder)
    ids = torch.tensor([[7, 8, 9]])
    padded = model(torch.tensor([[7, 8, 9, 9]]), attention_mask=torch.tensor([[1, 1, 1, 0]]))
    assert_close(model(ids).logits, padded.logits)


@pytest.mark.parametrize(("case_id", "tied"), [("any-mpnet", True), ("any-deberta", False), ("leam", False)])
def test_head_bias_starts_at_the_log_odds(case_id, tied):
    model = BY_ID[case_id].build()
    shares = [0.3, 0.1, 0.02, 0.05, 0.4]
    model.init_head_bias(shares)
    bias = [value for name, value in model.classifier.named_parameters() if name.endswith("bias")][-1]
    odds = [np.mean(shares)] if tied else shares
    assert_close(bias.detach().double().numpy(), np.log(np.array(odds) / (1 - np.array(odds))), rtol=1e-5, atol=1e-6)
    for wrong in ([0.5], [0.1] * 4 + [1.2]):
        with pytest.raises(ValueError, match=r"`frequencies` must be 5 shares in \[0, 1\]"):
            model.init_head_bias(wrong)


def test_position_ids_and_token_types_go_to_the_encoders_that_read_them():
    case = BY_ID["any-xlm-roberta"]
    model, inputs = case.build(), case.make_inputs(2, 6, 1)
    ids = inputs["input_ids"][:1]
    plain = model(ids).logits
    assert (model(ids, token_type_ids=torch.ones_like(ids)).logits - plain).abs().max() > 1e-4
    assert (model(ids, position_ids=torch.arange(12, 18)[None]).logits - plain).abs().max() > 1e-4
    other = BY_ID["any-distilbert"].build()
    assert_close(other(ids, token_type_ids=torch.ones_like(ids)).logits, other(ids).logits)


def test_position_ids_of_one_row_stand_for_all_rows_also_with_padding_on_the_left():
    model = BY_ID["any-xlm-roberta"].build()
    ids, positions = torch.tensor([[1, 1, 5, 6], [7, 8, 9, 10]]), torch.arange(12, 16)[None]
    mask = (ids != 1).long()
    found = model(ids, attention_mask=mask, position_ids=positions).logits
    assert_close(found, model(ids, attention_mask=mask, position_ids=positions.expand(2, 4)).logits)
    alone = model(ids[:1, 2:], position_ids=positions[:, 2:]).logits
    assert_close(found[:1], alone, rtol=1e-4, atol=1e-5)


def test_default_encoder_is_berts_and_a_live_config_stays_as_it_is():
    assert type(LabelAwareConfig().encoder_config) is BertConfig
    model = transformers.BertModel(BertConfig(**TINY_BERT), add_pooling_layer=False)
    before = model.config._attn_implementation
    config = LabelAwareConfig(encoder_config=model.config, num_labels=3)
    LabelAwareForSequenceClassification(config)
    assert model.config._attn_implementation == before and config.encoder_config is not model.config
    assert config.hidden_size == TINY_BERT["hidden_size"] and config.get_text_config() is config.encoder_config


@pytest.mark.parametrize("balance", [{}, {"class_balanced_beta": 0.9, "class_counts": [1, 2, 3, 4, 5]}])
def test_rows_without_a_label_do_not_thin_the_loss(balance):
    model = BY_ID["label-aware-single-label"].build(**balance)
    inputs = BY_ID["label-aware-single-label"].make_inputs(3, 9, 5)
    first = {name: values[:2] for name, values in inputs.items()}
    inputs["labels"][2] = -100
    torch.testing.assert_close(model(**inputs).loss, model(**first).loss)
