# SPDX-License-Identifier: Apache-2.0
"""RoBERTa with emotion-specific attention against its formulas, computed a second time row by row."""

import pytest
import torch
import transformers
from hf_emotion.modeling import RobertaESAConfig, RobertaWithESAForSequenceClassification, classification_loss
from model_cases import BY_ID, LABEL_NAMES, TINY_BERT, asymmetric_, classifier_inputs, encoder_inputs
from model_equations import linear, masked_inputs, naive_attention, naive_positions
from torch import nn
from torch.testing import assert_close
from transformers import AutoModelForSequenceClassification, RobertaModel


# The padding of the tests' vocabulary is 0.
TINY_ROBERTA = {**TINY_BERT, "pad_token_id": 0, "type_vocab_size": 2}
EACH_IMPLEMENTATION = pytest.mark.parametrize("implementation", ["sdpa", "eager"])
ONE_HEAD = {"esa_num_attention_heads": 1, "esa_bias": False, "esa_output_projection": False}
FORMS = {
    "default": {},
    "one-head": ONE_HEAD,
    "one-head-sinusoidal": {**ONE_HEAD, "esa_position_embedding": "sinusoidal"},
    "four-heads-no-positions": {"esa_num_attention_heads": 4, "esa_position_embedding": "none"},
    "no-bias": {"esa_bias": False},
    "no-output-projection": {"esa_output_projection": False},
}


build = BY_ID["esa"].build
HEADS = [{}, {"esa_pooling": "cls"}, {"esa_pooling": "cls_mean", "head_hidden_size": 12}, {"head_hidden_size": 7}]


def stock_roberta(model) -> RobertaModel:
    """transformers' own model with the weights of the encoder."""
    config = transformers.RobertaConfig(**TINY_ROBERTA)
    stock = RobertaModel(config, add_pooling_layer=False).to(model.dtype).eval()
    names = set(stock.state_dict())
    stock.load_state_dict({name: value for name, value in model.roberta.state_dict().items() if name in names})
    return stock


# The formulas once more: one row and one head after the other, in float64.
def esa_positions(w: dict, config, length: int) -> torch.Tensor:
    if config.esa_position_embedding == "sinusoidal":
        return naive_positions(length, config.hidden_size)
    learned = config.esa_position_embedding == "learned"
    return (
        w["roberta.emotion_attention.position_embeddings"][:length]
        if learned
        else torch.zeros(length, config.hidden_size)
    )


def naive_esa(w: dict, config, e: torch.Tensor, real: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """E (L, d) of one row -> Z_final (L, d), attention (h, L, L)."""
    # The position of a token counts the real ones before it.
    p = esa_positions(w, config, len(e))[(real.cumsum(dim=0) - 1).clamp(min=0)]
    q, k, v = (linear(w, f"roberta.emotion_attention.{name}", e + p) for name in ("query", "key", "value"))
    z, attention = naive_attention(q, k, v, config.esa_num_attention_heads, real)
    if config.esa_output_projection:
        z = linear(w, "roberta.emotion_attention.out_proj", z)
    return z * w["roberta.emotion_attention.scale"] + p, attention


def naive_pool(config, z: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    first, mean = z[real][0], z[real].mean(dim=0)
    return {"mean": mean, "cls": first, "cls_mean": torch.cat([first, mean])}[config.esa_pooling]


def naive_head(w: dict, config, pooled: torch.Tensor) -> torch.Tensor:
    hidden = linear(w, "classifier.1", pooled)
    return hidden if config.head_hidden_size is None else linear(w, "classifier.4", hidden.tanh())


@pytest.mark.parametrize(
    ("form", "head"),
    [*((form, HEADS[number % 4]) for number, form in enumerate(FORMS)), ("default", HEADS[3]), ("no-bias", HEADS[2])],
    ids=str,
)
@torch.no_grad()
def test_model_equals_the_formulas(form, head):
    model = build(**FORMS[form], **head).double()
    w, inputs = model.state_dict(), masked_inputs()
    hidden = stock_roberta(model)(**inputs).last_hidden_state
    names, rows = ("logits", "pooled_output", "last_hidden_state", "esa_attentions"), []
    for e, mask in zip(hidden, inputs["attention_mask"], strict=True):
        real = mask.bool()
        z, attention = naive_esa(w, model.config, e, real)
        pooled = naive_pool(model.config, z, real)
        rows.append((naive_head(w, model.config, pooled), pooled, z, attention))
    expected = {name: torch.stack(values) for name, *values in zip(names, *rows, strict=True)}
    # The model computes sines in float32.
    tolerance = 1e-6 if "sinusoidal" in form else 1e-9
    for implementation in ("sdpa", "eager"):
        model.set_attn_implementation(implementation)
        for output_attentions in (False, True):
            inputs["output_attentions"] = output_attentions
            found = {**model.roberta(**inputs), **model(**inputs)}
            assert ("esa_attentions" in found) == ("esa_scale" in found) == output_attentions
            assert not output_attentions or found["esa_scale"] is model.roberta.emotion_attention.scale
            for name in set(expected) & set(found):
                assert_close(found[name], expected[name], rtol=tolerance, atol=tolerance)


@EACH_IMPLEMENTATION
def test_no_attention_falls_on_padding_in_half_precision(implementation):
    model, inputs = build(attn_implementation=implementation).half(), masked_inputs()
    attention = model(**inputs, output_attentions=True).esa_attentions
    padding = (inputs["attention_mask"] == 0)[:, None, None].expand_as(attention)
    assert (attention[padding] == 0).all()
    assert_close(attention.float().sum(-1), torch.ones(attention.shape[:-1]), rtol=1e-2, atol=1e-2)


@EACH_IMPLEMENTATION
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("pooling", ["mean", "cls_mean", "cls"])
def test_a_row_of_padding_leaves_the_others_alone(pooling, dtype, implementation):
    inputs = classifier_inputs(3, 9, 3, multi_label=False)
    model = build(attn_implementation=implementation, esa_pooling=pooling).to(dtype)
    expected = model(**inputs).logits
    inputs["attention_mask"][1] = 0
    outputs = model(**inputs)
    assert outputs.loss.isfinite() and torch.equal(outputs.logits[::2], expected[::2])
    outputs.loss.backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


@EACH_IMPLEMENTATION
def test_hidden_states_and_attentions_are_those_of_roberta(implementation):
    model, inputs = build(attn_implementation=implementation), masked_inputs()
    stock = stock_roberta(model)
    stock.set_attn_implementation(implementation)
    expected = stock(**inputs, output_hidden_states=True, output_attentions=True)
    found = model(**inputs, output_hidden_states=True, output_attentions=True)
    assert len(found.hidden_states) == 3
    for name in ("hidden_states", "attentions"):
        assert_close(found[name], expected[name], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("saved", ["base", "with-a-head"])
@pytest.mark.parametrize("kin", ["xlm-roberta", "camembert"])
def test_checkpoints_of_robertas_kin_fit(kin, saved, tmp_path):
    config = transformers.AutoConfig.for_model(kin, **TINY_BERT, pad_token_id=1, type_vocab_size=1)
    auto_class = transformers.AutoModel if saved == "base" else transformers.AutoModelForMaskedLM
    stock = asymmetric_(auto_class.from_config(config), seed=3).eval()
    stock.save_pretrained(tmp_path / "stock")
    fields = {**LABEL_NAMES, "output_loading_info": True}
    model, info = RobertaWithESAForSequenceClassification.from_pretrained(tmp_path / "stock", **fields)
    assert all(name.startswith(("roberta.emotion_attention.", "classifier.")) for name in info["missing_keys"])
    assert len(info["missing_keys"]) == 12
    assert model.config.pad_token_id == 1 and model.config.num_labels == 5
    inputs = {"input_ids": torch.randint(5, 40, (2, 7), generator=torch.Generator().manual_seed(1))}
    inputs["attention_mask"] = torch.tensor([[1] * 7, [0] * 3 + [1] * 4])
    inputs["input_ids"][1, :3] = 1
    expected = stock(**inputs, output_hidden_states=True).hidden_states
    assert_close(model.eval()(**inputs, output_hidden_states=True).hidden_states, expected, rtol=1e-6, atol=1e-6)
    model.save_pretrained(tmp_path / "tuned")
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path / "tuned")
    assert type(loaded) is RobertaWithESAForSequenceClassification
    assert_close(loaded(**inputs).logits, model(**inputs).logits, rtol=1e-6, atol=1e-6)


def test_defaults():
    assert RobertaESAConfig(num_attention_heads=2).esa_num_attention_heads == 2
    assert RobertaESAConfig().classifier_dropout == 0.3
    dropouts = [m.p for m in build(classifier_dropout=0.4, head_hidden_size=3).classifier if isinstance(m, nn.Dropout)]
    assert dropouts == [0.4, 0.4]
    assert build(classifier_dropout=None, hidden_dropout_prob=0.2).classifier[0].p == 0.2


def test_gates_that_are_missing_or_do_not_fit_are_refused():
    model, inputs = build(tfidf_gating="scale"), encoder_inputs(3, 6, seed=2)
    for part in (model, model.roberta):
        with pytest.raises(ValueError, match="`token_gates` are missing.*`tfidf_gating` is 'scale'.*ones"):
            part(**inputs)
        part(**inputs, token_gates=torch.ones(3, 6))
    for shape in ((6,), (3, 5), (3, 6, 16), (1, 6)):
        with pytest.raises(ValueError, match=r"`token_gates` must have shape \(3, 6\), got "):
            model(**inputs, token_gates=torch.ones(shape))
    for gating in ("none", "filter"):
        with pytest.raises(ValueError, match=f"`tfidf_gating` is '{gating}'"):
            build(tfidf_gating=gating)(**inputs, token_gates=torch.ones(3, 6))


def test_gates_scale_the_word_embeddings_and_nothing_else():
    # Positions are counted over ids that are not padding: with padding on the left too, and with gates as without.
    model, plain = build(tfidf_gating="scale").double(), build().double()
    inputs = masked_inputs()
    inputs["input_ids"] = inputs["input_ids"].clamp(min=5) * inputs["attention_mask"]
    gates = torch.rand(inputs["input_ids"].shape, generator=torch.Generator().manual_seed(1)).double()
    assert_close(model(**inputs, token_gates=gates**0).logits, plain(**inputs).logits, rtol=1e-12, atol=1e-12)
    found = model(**inputs, token_gates=gates).logits
    assert (found - plain(**inputs).logits).abs().max() > 1e-3
    stock = model.roberta.embeddings.create_position_ids_from_input_ids(inputs["input_ids"], 0)
    moved, ones = {**inputs, "position_ids": torch.arange(9, 15).repeat(4, 1)}, torch.ones_like(gates)
    assert_close(model(**moved, token_gates=ones).logits, plain(**moved).logits, rtol=1e-12, atol=1e-12)
    words = model.get_input_embeddings()(inputs.pop("input_ids"))
    assert_close(model(**inputs, inputs_embeds=words, token_gates=gates).logits, found, rtol=1e-12, atol=1e-12)
    words = words * gates[..., None]
    assert_close(plain(**inputs, inputs_embeds=words, position_ids=stock).logits, found, rtol=1e-12, atol=1e-12)
    assert_close(plain(**inputs, inputs_embeds=words).logits, found, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("multi_label", [False, True])
def test_the_loss_is_class_balanced(multi_label):
    """Its formulas and messages: test_label_aware_bert.py."""
    problem = f"{'multi' if multi_label else 'single'}_label_classification"
    model = build(problem_type=problem, class_balanced_beta=0.9, class_counts=[3, 40, 7, 1, 12])
    inputs = classifier_inputs(6, 5, 3, multi_label)
    outputs = model(**inputs)
    assert_close(outputs.loss, classification_loss(outputs.logits, inputs["labels"], model.config))
    with pytest.raises(ValueError, match="`labels` must"):
        model(**classifier_inputs(6, 5, 3, not multi_label))
