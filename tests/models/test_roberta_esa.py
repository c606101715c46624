# SPDX-License-Identifier: Apache-2.0
"""RoBERTa with emotion-specific attention against its formulas, computed a second time with loops."""

import math

import numpy as np
import pytest
import torch
from hf_emotion.modeling import (
    RobertaESAConfig,
    RobertaESAModel,
    RobertaWithESA,
    RobertaWithESAForSequenceClassification,
)
from model_cases import (
    LABEL_NAMES,
    LABELS,
    TEXTS,
    TINY_BERT,
    asymmetric_,
    classifier_inputs,
    encoder_inputs,
)
from torch import nn
from torch.testing import assert_close
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    CamembertConfig,
    RobertaConfig,
    RobertaModel,
    Trainer,
    TrainingArguments,
    XLMRobertaConfig,
    pipeline,
)


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
EACH_FORM = pytest.mark.parametrize("form", list(FORMS))


def make_config(**config) -> RobertaESAConfig:
    return RobertaESAConfig(**{**TINY_ROBERTA, **LABEL_NAMES, "classifier_dropout": 0.0, **config})


def build(implementation: str = "sdpa", **config) -> RobertaWithESAForSequenceClassification:
    """A model with asymmetric weights, in eval mode."""
    model = RobertaWithESAForSequenceClassification._from_config(
        make_config(**config), attn_implementation=implementation
    )
    return asymmetric_(model).eval()


def stock_roberta(model: RobertaWithESAForSequenceClassification) -> RobertaModel:
    """transformers' own model with the weights of the encoder."""
    stock = RobertaModel(RobertaConfig(**TINY_ROBERTA), add_pooling_layer=False).to(model.dtype).eval()
    names = set(stock.state_dict())
    stock.load_state_dict({name: value for name, value in model.roberta.state_dict().items() if name in names})
    return stock


def masked_inputs() -> dict[str, torch.Tensor]:
    """Rows with padding on the right, on the left and within."""
    inputs = encoder_inputs(4, 6, seed=21)
    inputs["attention_mask"][2] = torch.tensor([0, 0, 1, 1, 1, 1])
    inputs["attention_mask"][3] = torch.tensor([1, 1, 0, 1, 0, 1])
    return inputs


# The formulas once more: one row, one head and one position after the other, in float64.


def naive_positions(w: dict, config, length: int) -> list[torch.Tensor]:
    size = config.hidden_size
    if config.esa_position_embedding == "none":
        return [torch.zeros(size, dtype=torch.float64)] * length
    if config.esa_position_embedding == "learned":
        return [w["roberta.score.position_embeddings"][j] for j in range(length)]
    rows = []
    for j in range(length):
        angles = [j / 10000 ** (2 * (k // 2) / size) for k in range(size)]
        values = [math.sin(a) if k % 2 == 0 else math.cos(a) for k, a in enumerate(angles)]
        rows.append(torch.tensor(values, dtype=torch.float64))
    return rows


def naive_linear(w: dict, name: str, x: torch.Tensor) -> torch.Tensor:
    bias = w.get(f"{name}.bias")
    return w[f"{name}.weight"] @ x if bias is None else w[f"{name}.weight"] @ x + bias


def naive_esa(w: dict, config, e: torch.Tensor, real: list[bool]) -> tuple[torch.Tensor, torch.Tensor]:
    """E (L, d) of one row -> Z_final (L, d), attention (h, L, L)."""
    length, size = len(e), config.hidden_size // config.esa_num_attention_heads
    # The position of a token counts the real ones before it.
    table, p = naive_positions(w, config, length), []
    for j in range(length):
        p.append(table[max(sum(real[: j + 1]) - 1, 0)])
    e_in = [e[j] + p[j] for j in range(length)]
    q, k, v = ([naive_linear(w, f"roberta.score.{name}", x) for x in e_in] for name in ("query", "key", "value"))
    heads = [slice(start, start + size) for start in range(0, config.hidden_size, size)]
    attention = torch.zeros(len(heads), length, length, dtype=torch.float64)
    rows = []
    for i in range(length):
        parts = []
        for number, head in enumerate(heads):
            powers = [math.exp(q[i][head] @ k[j][head] / math.sqrt(size)) if real[j] else 0.0 for j in range(length)]
            for j in range(length):
                attention[number, i, j] = powers[j] / sum(powers)
            parts.append(sum(attention[number, i, j] * v[j][head] for j in range(length)))
        z = torch.cat(parts)
        if config.esa_output_projection:
            z = naive_linear(w, "roberta.score.out_proj", z)
        rows.append(z * w["roberta.score.scale"] + p[i])
    return torch.stack(rows), attention


def naive_pool(config, z: torch.Tensor, real: list[bool]) -> torch.Tensor:
    mean = sum(z[j] for j in range(len(z)) if real[j]) / sum(real)
    first = z[real.index(True)]
    return {"mean": mean, "cls": first, "cls_mean": torch.cat([first, mean])}[config.esa_pooling]


def naive_head(w: dict, config, pooled: torch.Tensor) -> torch.Tensor:
    if config.head_hidden_size is None:
        return naive_linear(w, "classifier.1", pooled)
    return naive_linear(w, "classifier.4", naive_linear(w, "classifier.1", pooled).tanh())


@pytest.mark.parametrize(
    "head",
    [{}, {"esa_pooling": "cls"}, {"esa_pooling": "cls_mean", "head_hidden_size": 12}, {"head_hidden_size": 7}],
    ids=["mean", "cls", "cls-mean-hidden", "mean-hidden"],
)
@EACH_FORM
@torch.no_grad()
def test_model_equals_the_formulas(form, head):
    model = build(**FORMS[form], **head).double()
    w, inputs = model.state_dict(), masked_inputs()
    hidden = stock_roberta(model)(**inputs).last_hidden_state
    expected = {"logits": [], "pooled_output": [], "last_hidden_state": [], "esa_attentions": []}
    for e, mask in zip(hidden, inputs["attention_mask"], strict=True):
        real = mask.bool().tolist()
        z, attention = naive_esa(w, model.config, e, real)
        pooled = naive_pool(model.config, z, real)
        row = (naive_head(w, model.config, pooled), pooled, z, attention)
        for name, value in zip(expected, row, strict=True):
            expected[name].append(value)
    # The model computes sines in float32.
    tolerance = 1e-6 if "sinusoidal" in form else 1e-9
    for implementation in ("sdpa", "eager"):
        model.set_attn_implementation(implementation)
        for output_attentions in (False, True):
            found = {
                **model.roberta(**inputs, output_attentions=output_attentions),
                **model(**inputs, output_attentions=output_attentions),
            }
            assert ("esa_attentions" in found) == output_attentions
            for name in set(expected) & set(found):
                assert_close(found[name], torch.stack(expected[name]), rtol=tolerance, atol=tolerance)


@EACH_IMPLEMENTATION
@pytest.mark.parametrize("heads", [1, 2, 4])
@torch.no_grad()
def test_attention_equals_torch_multihead_attention_from_the_same_weights(heads, implementation):
    model = build(implementation, esa_num_attention_heads=heads).double()
    inputs, esa = masked_inputs(), model.roberta.score
    stock = nn.MultiheadAttention(16, heads, batch_first=True, dtype=torch.float64)
    stock.in_proj_weight.copy_(torch.cat([esa.query.weight, esa.key.weight, esa.value.weight]))
    stock.in_proj_bias.copy_(torch.cat([esa.query.bias, esa.key.bias, esa.value.bias]))
    stock.out_proj.load_state_dict(esa.out_proj.state_dict())
    positions = esa.position_embeddings[(inputs["attention_mask"].cumsum(dim=1) - 1).clamp(min=0)]
    e_in = stock_roberta(model)(**inputs).last_hidden_state + positions
    padding = inputs["attention_mask"] == 0
    z, attention = stock(e_in, e_in, e_in, key_padding_mask=padding, average_attn_weights=False)
    outputs = model.roberta(**inputs, output_attentions=True)
    for found in (outputs, model.roberta(**inputs)):
        assert_close(found.last_hidden_state, z * esa.scale + positions, rtol=1e-6, atol=1e-6)
    assert_close(outputs.esa_attentions, attention, rtol=1e-6, atol=1e-6)


@EACH_FORM
@EACH_IMPLEMENTATION
def test_no_attention_falls_on_padding(form, implementation):
    model, inputs = build(implementation, **FORMS[form]), masked_inputs()
    for attention in (
        model(**inputs, output_attentions=True).esa_attentions,
        model.half()(**inputs, output_attentions=True).esa_attentions,
    ):
        padding = (inputs["attention_mask"] == 0)[:, None, None].expand_as(attention)
        assert padding.any() and (attention[padding] == 0).all()
        assert_close(attention.float().sum(-1), torch.ones(attention.shape[:-1]), rtol=1e-2, atol=1e-2)


@EACH_IMPLEMENTATION
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("pooling", ["mean", "cls_mean", "cls"])
def test_a_row_of_padding_leaves_the_others_alone(pooling, dtype, implementation):
    model, inputs = build(implementation, esa_pooling=pooling).to(dtype), classifier_inputs(3, 9, 3, multi_label=False)
    expected = model(**inputs).logits
    inputs["attention_mask"][1] = 0
    outputs = model(**inputs)
    assert outputs.loss.isfinite() and torch.equal(outputs.logits[::2], expected[::2])
    outputs.loss.backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


@EACH_IMPLEMENTATION
def test_without_a_mask_every_token_is_real(implementation):
    model = build(implementation, esa_pooling="cls_mean").double()
    inputs = masked_inputs()
    inputs["attention_mask"] = torch.ones_like(inputs["attention_mask"])
    expected = model(**inputs, output_attentions=True)
    del inputs["attention_mask"]
    found = model(**inputs, output_attentions=True)
    for name in ("logits", "esa_attentions"):
        assert_close(found[name], expected[name], rtol=1e-9, atol=1e-9)


@EACH_IMPLEMENTATION
def test_hidden_states_and_attentions_are_those_of_roberta(implementation):
    model, inputs = build(implementation), masked_inputs()
    stock = stock_roberta(model)
    stock.set_attn_implementation(implementation)
    expected = stock(**inputs, output_hidden_states=True, output_attentions=True)
    found = model(**inputs, output_hidden_states=True, output_attentions=True)
    assert len(found.hidden_states) == 3
    for name in ("hidden_states", "attentions"):
        assert_close(found[name], expected[name], rtol=1e-6, atol=1e-6)


@EACH_IMPLEMENTATION
def test_maps_and_scale_are_there_on_request_only(implementation):
    model, inputs = build(implementation), masked_inputs()
    for part in (model, model.roberta):
        assert not {"esa_attentions", "esa_scale"} & set(part(**inputs))
        outputs = part(**inputs, output_attentions=True)
        assert outputs.esa_attentions.shape == (4, 2, 6, 6)
        assert outputs.esa_scale is model.roberta.score.scale


def test_maps_asked_for_in_the_config_stay_out_of_predictions(tmp_path):
    model = asymmetric_(RobertaWithESAForSequenceClassification(make_config(output_attentions=True))).eval()
    inputs = classifier_inputs(3, 6, 4, multi_label=False)
    assert model(**inputs).esa_attentions.shape == (3, 2, 6, 6)
    arguments = TrainingArguments(str(tmp_path), report_to="none", disable_tqdm=True, use_cpu=True)
    rows = [{name: value[i] for name, value in inputs.items()} for i in range(3)]
    predictions = Trainer(model=model, args=arguments).predict(rows).predictions
    assert isinstance(predictions, np.ndarray) and predictions.shape == (3, 5)


# Padding on either side


def padding_moved(inputs: dict, order) -> dict:
    """The same rows with their padding elsewhere: `order` maps a row's mask to the new order of its places."""
    orders = torch.stack([order(mask) for mask in inputs["attention_mask"]])
    return {name: value.gather(1, orders) for name, value in inputs.items()}


def padding_in_front(mask: torch.Tensor) -> torch.Tensor:
    return torch.argsort(mask, stable=True)


def padding_on_both_sides(mask: torch.Tensor) -> torch.Tensor:
    padding = len(mask) - int(mask.sum())
    return torch.arange(len(mask)).roll(padding // 2)


@EACH_IMPLEMENTATION
@pytest.mark.parametrize("pooling", ["mean", "cls_mean", "cls"])
@pytest.mark.parametrize("order", [padding_in_front, padding_on_both_sides])
@pytest.mark.parametrize("form", ["default", "one-head-sinusoidal", "four-heads-no-positions"])
@torch.no_grad()
def test_padding_may_stand_on_either_side(form, order, pooling, implementation):
    model = build(implementation, **FORMS[form], esa_pooling=pooling, tfidf_gating="scale").double()
    inputs = encoder_inputs(3, 9, seed=5)
    inputs["token_gates"] = torch.rand(3, 9, generator=torch.Generator().manual_seed(1))
    moved = padding_moved(inputs, order)
    assert (moved["attention_mask"] != inputs["attention_mask"]).any()
    expected, found = (model(**one, output_attentions=True) for one in (inputs, moved))
    assert_close(found.logits, expected.logits, rtol=1e-9, atol=1e-9)
    assert_close(model(**moved).logits, expected.logits, rtol=1e-9, atol=1e-9)
    for row, (one, other) in enumerate(
        zip(inputs["attention_mask"].bool(), moved["attention_mask"].bool(), strict=True)
    ):
        maps = (expected.esa_attentions[row][:, one][..., one], found.esa_attentions[row][:, other][..., other])
        assert_close(*maps, rtol=1e-9, atol=1e-9)
    # Word vectors have no ids from which RoBERTa could tell padding: the mask tells it.
    for one in (inputs, moved):
        words = model.get_input_embeddings()(one["input_ids"])
        embedded = {**{name: value for name, value in one.items() if name != "input_ids"}, "inputs_embeds": words}
        assert_close(model(**embedded).logits, expected.logits, rtol=1e-9, atol=1e-9)


# How it starts


def test_scale_starts_at_one_and_positions_are_small():
    torch.manual_seed(0)
    esa = RobertaWithESA(make_config(initializer_range=0.3)).score
    assert_close(esa.scale, torch.ones(16), rtol=0, atol=0)
    assert esa.position_embeddings.shape == (32, 16)
    assert 0.015 < esa.position_embeddings.std() < 0.025


@pytest.mark.parametrize("position_embedding", ["sinusoidal", "none"])
def test_without_a_table_there_is_none(position_embedding):
    names = set(RobertaWithESA(make_config(esa_position_embedding=position_embedding)).state_dict())
    assert not [name for name in names if name.startswith("score.position")]
    assert "score.scale" in names


def test_plain_checkpoint_gives_its_hidden_states(tmp_path):
    stock = asymmetric_(RobertaModel(RobertaConfig(**TINY_ROBERTA)), seed=3).eval()
    stock.save_pretrained(tmp_path)
    model, info = RobertaWithESAForSequenceClassification.from_pretrained(
        tmp_path, config=RobertaESAConfig.from_pretrained(tmp_path, **LABEL_NAMES), output_loading_info=True
    )
    assert all(name.startswith(("roberta.score.", "classifier.")) for name in info["missing_keys"])
    assert len(info["missing_keys"]) == 12
    inputs = masked_inputs()
    found = model.eval()(**inputs, output_hidden_states=True).hidden_states
    assert_close(found, stock(**inputs, output_hidden_states=True).hidden_states, rtol=1e-6, atol=1e-6)
    assert_close(model.roberta.score.scale, torch.ones(16), rtol=0, atol=0)


@pytest.mark.parametrize("saved", ["base", "with-a-head"])
@pytest.mark.parametrize("kin", [XLMRobertaConfig, CamembertConfig], ids=lambda config: config.model_type)
def test_checkpoints_of_robertas_kin_fit(kin, saved, tmp_path):
    config = kin(**{**TINY_ROBERTA, "pad_token_id": 1, "type_vocab_size": 1})
    stock = asymmetric_((AutoModel if saved == "base" else AutoModelForMaskedLM).from_config(config), seed=3).eval()
    stock.save_pretrained(tmp_path / "stock")
    model, info = RobertaWithESAForSequenceClassification.from_pretrained(
        tmp_path / "stock", **LABEL_NAMES, output_loading_info=True
    )
    assert all(name.startswith(("roberta.score.", "classifier.")) for name in info["missing_keys"])
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
    config = make_config()
    assert config.problem_type == "single_label_classification"
    assert config.esa_num_attention_heads == config.num_attention_heads == 2
    assert RobertaESAConfig().classifier_dropout == 0.3
    assert RobertaESAModel is RobertaWithESA
    dropouts = [m.p for m in build(classifier_dropout=0.4, head_hidden_size=3).classifier if isinstance(m, nn.Dropout)]
    assert dropouts == [0.4, 0.4]
    assert build(classifier_dropout=None, hidden_dropout_prob=0.2).classifier[0].p == 0.2


def test_parameters_that_weight_decay_spares():
    model = build()
    spared = [
        name for name, _ in model.named_parameters() if any(part in name for part in model._no_weight_decay_parameters)
    ]
    assert sorted(spared) == ["roberta.score.position_embeddings", "roberta.score.scale"]
    assert model.accepts_loss_kwargs is False


# Gates


def test_gates_of_one_change_nothing():
    inputs = masked_inputs()
    gates = torch.ones(inputs["input_ids"].shape)
    expected = build()(**inputs).logits
    assert_close(build(tfidf_gating="scale")(**inputs, token_gates=gates).logits, expected, rtol=0, atol=0)


def test_a_model_that_was_trained_with_gates_is_not_run_without():
    model, inputs = build(tfidf_gating="scale"), encoder_inputs(3, 6, seed=2)
    for part in (model, model.roberta):
        with pytest.raises(ValueError, match="`token_gates` are missing.*`tfidf_gating` is 'scale'.*ones"):
            part(**inputs)
        part(**inputs, token_gates=torch.ones(3, 6))


def test_gates_leave_positions_alone_on_padded_rows():
    # Positions are counted over ids that are not padding: with padding on the left too, and with gates as without.
    model, plain = build(tfidf_gating="scale").double(), build().double()
    inputs = masked_inputs()
    inputs["input_ids"] = inputs["input_ids"].clamp(min=5) * inputs["attention_mask"]
    gates = torch.rand(inputs["input_ids"].shape, generator=torch.Generator().manual_seed(1)).double()
    assert_close(model(**inputs, token_gates=gates**0).logits, plain(**inputs).logits, rtol=1e-12, atol=1e-12)
    found = model(**inputs, token_gates=gates).logits
    words = model.get_input_embeddings()(inputs["input_ids"]) * gates[..., None]
    stock = model.roberta.embeddings.create_position_ids_from_input_ids(inputs["input_ids"], 0)
    del inputs["input_ids"]
    assert_close(plain(**inputs, inputs_embeds=words, position_ids=stock).logits, found, rtol=1e-12, atol=1e-12)
    assert_close(plain(**inputs, inputs_embeds=words).logits, found, rtol=1e-12, atol=1e-12)


def test_gates_scale_the_word_embeddings_and_nothing_else():
    model, plain = build(tfidf_gating="scale").double(), build().double()
    inputs = encoder_inputs(3, 6, seed=2)
    gates = torch.rand(3, 6, generator=torch.Generator().manual_seed(1))
    found = model(**inputs, token_gates=gates).logits
    assert (found - plain(**inputs).logits).abs().max() > 1e-3
    words = model.get_input_embeddings()(inputs.pop("input_ids"))
    assert_close(model(**inputs, inputs_embeds=words, token_gates=gates).logits, found, rtol=1e-12, atol=1e-12)
    scaled = words * gates[..., None].double()
    assert_close(plain(**inputs, inputs_embeds=scaled).logits, found, rtol=1e-12, atol=1e-12)


def test_gates_of_explicit_positions():
    model = build(tfidf_gating="scale").double()
    inputs = {**encoder_inputs(3, 6, seed=2), "position_ids": torch.arange(9, 15).repeat(3, 1)}
    expected = build().double()(**inputs).logits
    assert_close(model(**inputs, token_gates=torch.ones(3, 6)).logits, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("gating", ["none", "filter"])
def test_gates_need_scaling(gating):
    with pytest.raises(ValueError, match=f"`tfidf_gating` is '{gating}': it must be 'scale'"):
        build(tfidf_gating=gating)(**encoder_inputs(3, 6, seed=2), token_gates=torch.ones(3, 6))


@pytest.mark.parametrize("shape", [(6,), (3, 5), (3, 6, 16), (1, 6)])
def test_gates_of_another_shape_are_refused(shape):
    with pytest.raises(ValueError, match=r"`token_gates` must have shape .* \(3, 6\), got "):
        build(tfidf_gating="scale")(**encoder_inputs(3, 6, seed=2), token_gates=torch.ones(shape))


# Loss and thresholds


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("multi_label", [False, True])
@torch.no_grad()
def test_class_balanced_loss_by_hand(multi_label, normalize):
    counts, beta = [3, 40, 7, 1, 12], 0.9
    weights = [(1 - beta) / (1 - beta**count) for count in counts]
    if normalize:
        weights = [weight / (sum(weights) / 5) for weight in weights]
    problem = "multi_label_classification" if multi_label else "single_label_classification"
    model = build(
        problem_type=problem,
        class_balanced_beta=beta,
        class_balanced_normalize=normalize,
        class_counts=counts,
    ).double()
    inputs = classifier_inputs(6, 5, 3, multi_label=multi_label)
    outputs = model(**inputs)
    terms = []
    for row, label in zip(outputs.logits.tolist(), inputs["labels"].tolist(), strict=True):
        if multi_label:
            for weight, z, y in zip(weights, row, label, strict=True):
                p = 1 / (1 + math.exp(-z))
                terms.append(-weight * (y * math.log(p) + (1 - y) * math.log(1 - p)))
        else:
            terms.append(-weights[label] * (row[label] - math.log(sum(map(math.exp, row)))))
    assert outputs.loss.item() == pytest.approx(sum(terms) / len(terms), rel=1e-6)


def test_labels_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"`labels` must have shape \(3,\)"):
        build()(**classifier_inputs(3, 6, 1, multi_label=True))


def test_pipeline_uses_the_thresholds(tokenizer):
    thresholds = [0.65, 0.5, 0.7, 0.6, 0.66]
    model = build(problem_type="multi_label_classification", thresholds=thresholds)
    results = pipeline("emotion-classification", model=model, tokenizer=tokenizer, device="cpu")(list(TEXTS))
    sizes = []
    for text, result in zip(TEXTS, results, strict=True):
        with torch.no_grad():
            scores = model(**tokenizer(text, return_tensors="pt")).logits[0].sigmoid().tolist()
        passed = {name: score for name, score, limit in zip(LABELS, scores, thresholds, strict=True) if score > limit}
        assert {item["label"]: item["score"] for item in result} == pytest.approx(passed, rel=1e-5)
        sizes.append(len(passed))
    assert min(sizes) < 5 and max(sizes) > 0, "some labels have to pass, and some not"


@pytest.mark.parametrize("arguments", [{}, {"input_ids": True, "inputs_embeds": True}])
def test_needs_exactly_one_of_ids_and_embeddings(arguments):
    values = {"input_ids": torch.ones(1, 2, dtype=torch.long), "inputs_embeds": torch.ones(1, 2, 16)}
    with pytest.raises(ValueError, match="exactly one of `input_ids` and `inputs_embeds`"):
        build()(**{name: values[name] for name in arguments})
