# SPDX-License-Identifier: Apache-2.0
"""Context-guided BERT and its quasi-attention sister against their formulas, computed a second time row by row."""

import itertools
import re

import pytest
import torch
import transformers
from hf_emotion.modeling import QACGBertForSequenceClassification
from model_cases import ASPECTS, BY_ID, SENTIMENT_NAMES, TINY_BERT, asymmetric_, encoder_inputs, targeted_inputs
from model_equations import MAPS, masked_inputs, naive_model
from peft import LoraConfig, get_peft_model
from torch.testing import assert_close
from transformers import AutoModelForSequenceClassification, BertConfig
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS


CONTEXTS = 7
EACH_FAMILY = pytest.mark.parametrize("family", ["cg", "qacg"])
EACH_IMPLEMENTATION = pytest.mark.parametrize("implementation", ["sdpa", "eager"])
ALL_MAPS = {name for names in MAPS.values() for name in names}
GATES, HEADS = {"gate_heads": "per_head"}, {"context_heads": "per_head"}
BIAS, NEG_L1 = {"gate_bias": True}, {"quasi_similarity": "neg_l1"}
FACTORS = {"quasi_alpha": 0.7, "quasi_beta": 1.3, "quasi_gamma": 0.6}


def fresh(family: str, implementation: str = "sdpa", **config):
    """A model as it starts, in eval mode."""
    config = {**TINY_BERT, **SENTIMENT_NAMES, "num_contexts": CONTEXTS, **config}
    config = BY_ID[family].config_class(**config)
    return AutoModelForSequenceClassification.from_config(config, attn_implementation=implementation).eval()


def build(family: str, implementation: str = "sdpa", **config):
    """A model with asymmetric weights, in eval mode."""
    return asymmetric_(fresh(family, implementation, **config))


def guided_inputs(left: bool = True) -> dict[str, torch.Tensor]:
    """`masked_inputs`, each row with a context of its own."""
    return {**masked_inputs(left), "context_ids": torch.tensor([4, 0, 6, 3])}


def assert_equals_formula(family: str, **config) -> None:
    """Values and every gradient, with both attention implementations, with the maps and without them."""
    model = build(family, **config).double()
    inputs = guided_inputs()
    input_ids = inputs.pop("input_ids")
    coefficients = torch.randn(4, 5, generator=torch.Generator().manual_seed(5), dtype=torch.float64)

    w = {name: value.detach().clone().requires_grad_() for name, value in model.named_parameters()}
    word_vectors = w["bert.embeddings.word_embeddings.weight"][input_ids]
    logits, hidden_states, maps, pooled = naive_model(family, w, model.config, word_vectors, inputs)
    derivatives = torch.autograd.grad((coefficients * logits).sum(), [*w.values(), word_vectors])
    gradients = dict(zip([*w, "inputs_embeds"], derivatives, strict=True))
    for name, value in gradients.items():
        assert value.abs().max() > 1e-5, f"{name} has no gradient to compare"

    tolerance = {"rtol": 1e-9, "atol": 1e-9}
    for implementation, output_attentions in itertools.product(("sdpa", "eager"), (False, True)):
        model.set_attn_implementation(implementation)
        model.zero_grad()
        inputs_embeds = model.get_input_embeddings().weight[input_ids]
        inputs_embeds.retain_grad()
        arguments = {**inputs, "inputs_embeds": inputs_embeds, "output_attentions": output_attentions}
        outputs = model(**arguments, output_hidden_states=True)
        assert_close(outputs.logits, logits, **tolerance)
        assert_close(list(outputs.hidden_states), hidden_states, **tolerance)
        base, wanted = model.bert(**arguments), set(MAPS[family]) if output_attentions else set()
        assert ALL_MAPS & set(outputs) == ALL_MAPS & set(base) == wanted, "maps that nobody asked for"
        for number, name in enumerate(MAPS[family]):
            if output_attentions:
                assert_close(list(outputs[name]), [layer[number] for layer in maps], **tolerance)
        (coefficients * outputs.logits).sum().backward()
        found = {name: value.grad for name, value in model.named_parameters()} | {"inputs_embeds": inputs_embeds.grad}
        for name, value in gradients.items():
            assert_close(found[name], value, **tolerance, msg=lambda text, name=name: f"gradient of {name}: {text}")
        assert_close(base.last_hidden_state, hidden_states[-1], **tolerance)
        assert_close(base.pooler_output, pooled, **tolerance)


@pytest.mark.parametrize(("gate_heads", "use_pooler"), [("shared", True), ("per_head", False)])
@pytest.mark.parametrize("gate_activation", ["tanh", "sigmoid"])
def test_cg_equals_the_formulas(gate_activation, gate_heads, use_pooler):
    assert_equals_formula("cg", gate_activation=gate_activation, gate_heads=gate_heads, use_pooler=use_pooler)


@pytest.mark.parametrize(
    "config", [{}, GATES | NEG_L1, HEADS | BIAS, HEADS | GATES, HEADS | NEG_L1, BIAS | GATES], ids=str
)
def test_qacg_equals_the_formulas(config):
    assert_equals_formula("qacg", **(FACTORS | config if config else {"use_pooler": False}))


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*deprecated:FutureWarning")
@EACH_FAMILY
def test_maps_are_complete_with_gradient_checkpointing(family):
    model = build(family).train()
    inputs = targeted_inputs(3, 6, seed=4, num_contexts=CONTEXTS)
    expected = model(**inputs, output_attentions=True)
    model.gradient_checkpointing_enable()
    outputs = model(**inputs, output_attentions=True)
    outputs.loss.backward()
    for name in MAPS[family]:
        assert_close(outputs[name], expected[name])


@EACH_FAMILY
def test_a_model_without_layers_has_no_maps(family):
    outputs = build(family, num_hidden_layers=0)(**guided_inputs(), output_attentions=True)
    assert outputs.logits.isfinite().all() and all(outputs[name] == () for name in MAPS[family])


@torch.no_grad()
@EACH_FAMILY
def test_attentions_in_training_are_those_that_the_docstrings_name(family):
    model, inputs = build(family, attention_probs_dropout_prob=0.4).train(), guided_inputs()
    del inputs["attention_mask"]
    attentions = torch.stack(model(**inputs, output_attentions=True).attentions)
    assert ((attentions == 0).float().mean() > 0.2) == (family == "cg")  # after dropout, or before it
    assert family == "cg" or (attentions.sum(-1) - 1).abs().max() < 1e-5


@torch.no_grad()
def test_padding_without_a_mask_is_warned_of_where_ids_have_values(monkeypatch):
    model, asked = build("cg"), []
    monkeypatch.setattr(model.bert, "warn_if_padding_and_no_attention_mask", lambda *given: asked.append(given))
    inputs = {"input_ids": torch.tensor([[5, 6, 0]]), "context_ids": torch.tensor([0])}
    model(**inputs)
    model.to("meta")(**{name: value.to("meta") for name, value in inputs.items()})
    assert len(asked) == 1


@EACH_FAMILY
def test_without_its_new_weights_the_model_is_bert(family):
    model = fresh(family, context_initializer_range=0)
    stock = transformers.BertForSequenceClassification(BertConfig(**TINY_BERT, **SENTIMENT_NAMES)).eval()
    names = set(stock.state_dict())
    assert all((p == 0).all() for name, p in model.named_parameters() if name not in names)
    stock.load_state_dict({name: value for name, value in model.state_dict().items() if name in names})
    inputs = guided_inputs(left=False)
    logits = model(**inputs).logits
    del inputs["context_ids"]
    assert_close(logits, stock(**inputs).logits, rtol=0, atol=1e-6)


def test_contexts_of_another_shape_are_refused():
    model = build("cg", num_contexts=None, aspects=list(ASPECTS), targets=["sun", "rain"])
    assert model.config.num_contexts == 6
    for given in (None, 1, [1], [[1], [2]], [1, 2, 0]):
        contexts = {} if given is None else {"context_ids": torch.tensor(given)}
        for part in (model, model.bert):
            with pytest.raises(ValueError, match=r"`context_ids` must have shape \(2,\), one id in \[0, 6\) .* got"):
                part(**encoder_inputs(2, 5, seed=0), **contexts)


def test_loss_is_the_mean_over_the_labelled_rows():
    inputs, model = {**encoder_inputs(3, 5, seed=0), "context_ids": torch.tensor([1, 0, 1])}, build("qacg")
    found = model(**inputs, labels=torch.tensor([1, -100, 0]))
    rows = found.logits.log_softmax(-1)
    assert found.loss.item() == pytest.approx(-(rows[0, 1] + rows[2, 0]).item() / 2, rel=1e-5)
    for labels in (torch.tensor([1]), torch.tensor([[1], [2], [0]]), torch.zeros(3)):
        with pytest.raises(ValueError, match=r"`labels` must be class ids, whole numbers of shape \(3,\) for"):
            model(**inputs, labels=labels)


def test_qacg_takes_the_encoder_of_a_cg_checkpoint(tmp_path):
    given = fresh("cg")
    given.save_pretrained(tmp_path)
    # Context queries and keys have other sizes, and start anew.
    model = QACGBertForSequenceClassification.from_pretrained(tmp_path, ignore_mismatched_sizes=True)
    assert (model.config.gate_activation, model.config.num_contexts) == ("sigmoid", CONTEXTS)
    layers = (found.bert.encoder.layer[1].attention.self.query.weight for found in (model, given))
    assert torch.equal(*layers)


@EACH_FAMILY
def test_an_adapter_trains_a_pooler_that_the_checkpoint_lacks(family, tmp_path):
    """Sentence encoders have none. It would be neither trained nor saved, and start anew at each loading."""
    transformers.BertForMaskedLM(BertConfig(**TINY_BERT)).save_pretrained(tmp_path)
    inputs = targeted_inputs(2, 5, seed=3, num_contexts=CONTEXTS)

    def adapted(**fields):
        model = BY_ID[family].model_class.from_pretrained(tmp_path, num_contexts=CONTEXTS, **SENTIMENT_NAMES)
        return get_peft_model(model, LoraConfig(task_type="SEQ_CLS", target_modules=["query"], **fields))

    new = ["context_embeddings", "guidance", "pooler"]
    with pytest.raises(ValueError, match=re.escape(f"save it before), and name {new} in the `modules_to_save`")):
        adapted().train()
    model = adapted(modules_to_save=new).train()  # PEFT adds "classifier"
    model(**inputs).loss.backward()
    assert all(p.grad is not None for name, p in model.named_parameters() if "modules_to_save" in name)


@EACH_FAMILY
def test_contexts_are_counted_again_for_names_given_at_loading(family, tmp_path):
    build(family).save_pretrained(tmp_path)
    arguments = {"aspects": ["price", "safety"], "targets": ["LOCATION1", "LOCATION2"], "num_contexts": None}
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path, **arguments, ignore_mismatched_sizes=True)
    assert model.config.num_contexts == len(model.bert.context_embeddings.weight) == 4


def attention_of(family: str, implementation: str, p: float, **config):
    """The first self-attention, and arguments for one row with a padding token."""
    model = build(family, implementation, attention_probs_dropout_prob=p, **config).double()
    generator = torch.Generator().manual_seed(8)
    hidden_states = torch.randn(1, 5, TINY_BERT["hidden_size"], generator=generator, dtype=torch.float64)
    real = torch.tensor([True, True, False, True, True])
    key_bias = torch.zeros(1, 1, 5, dtype=torch.float64).masked_fill(~real, torch.finfo(torch.float64).min)
    arguments = {
        "hidden_states": hidden_states,
        "context_embeds": model.bert.context_embeddings.weight[2:3].detach(),
        "attention_mask": key_bias[:, None] if implementation == "eager" else real[None, None, None],
        "key_bias": key_bias,
    }
    return model.bert.encoder.layer[0].attention.self, arguments


@torch.no_grad()
@EACH_IMPLEMENTATION
@pytest.mark.parametrize(
    ("family", "config"),
    [
        *(("cg", {}), ("qacg", {}), ("qacg", {"context_heads": "per_head", "gate_bias": True})),
        ("qacg", {"quasi_similarity": "neg_l1", "quasi_alpha": 20, "gate_heads": "per_head"}),
    ],
)
def test_dropout_changes_no_mean_and_draws_the_masks_that_the_docstring_names(family, config, implementation):
    p, rows = 0.4, 10_000
    attention, arguments = attention_of(family, implementation, p, **config)
    if family == "qacg":
        # With context_heads="per_head" the contexts have a dropout of their own: not what is measured here.
        shape = (1, 5, 2, TINY_BERT["hidden_size"] // 2)
        contexts = attention.guidance.project(arguments["hidden_states"], arguments["context_embeds"], shape)
        attention.guidance.project = lambda *_: tuple(c.expand(rows, -1, -1, -1) for c in contexts)
    many, maps = {name: value.expand(rows, *value.shape[1:]) for name, value in arguments.items()}, []
    expected, _ = attention(**(many if family == "qacg" else arguments))
    attention(**(many if family == "qacg" else arguments), maps=maps)
    value = attention.value(arguments["hidden_states"]).view(1, 5, 2, -1).transpose(1, 2)  # (1, h, L, d_h)
    if family == "cg":
        terms = [maps[0][0][:1]]
    else:
        own, quasi, gate, combined = (kind[:1] for kind in maps[0])
        alpha = attention.config.quasi_alpha
        # "eager": one mask for Â. Otherwise one for each term.
        terms = [combined] if implementation == "eager" else [own, alpha * gate * quasi]
    variance = sum(p / (1 - p) * (term**2 @ value**2) for term in terms).transpose(1, 2).reshape(5, -1)
    assert_close(sum(term @ value for term in terms).transpose(1, 2).reshape(5, -1), expected[0])

    torch.manual_seed(0)
    outputs, _ = attention.train()(**many)
    error = (variance / rows) ** 0.5
    assert ((outputs.mean(dim=0) - expected[0]).abs() < 5 * error).all()
    assert_close(outputs.var(dim=0), variance, rtol=0.1, atol=1e-9)
    if family == "qacg" and implementation == "sdpa":
        quasi_part = (terms[1] @ value).transpose(1, 2).reshape(5, -1)
        assert (p * quasi_part.abs() > 20 * error).any(), "a quasi part of the wrong size would not show"


@torch.no_grad()
@EACH_FAMILY
@EACH_IMPLEMENTATION
def test_dropout_of_every_weight_leaves_no_attention(family, implementation):
    attention, arguments = attention_of(family, implementation, 1.0)
    assert (attention.train()(**arguments)[0] == 0).all()


def test_contexts_have_their_own_dropout_with_heads_of_their_own_only():
    for context_heads, p in itertools.product(("shared", "per_head"), (0.0, 0.5)):
        attention, arguments = attention_of("qacg", "sdpa", p, context_heads=context_heads)
        arguments = arguments["hidden_states"], arguments["context_embeds"], (1, 5, 2, TINY_BERT["hidden_size"] // 2)
        expected = torch.cat(attention.guidance.project(*arguments))
        torch.manual_seed(0)
        found = torch.cat(attention.train().guidance.project(*arguments))
        if context_heads == "shared" or p == 0:
            assert_close(found, expected)
        else:
            dropped = found == 0
            assert 0.3 < dropped.double().mean() < 0.7
            assert_close(found[~dropped], expected[~dropped] / (1 - p))


@pytest.mark.parametrize("p", [0.0, 0.3])
@pytest.mark.parametrize("context_heads", ["shared", "per_head"])
@pytest.mark.parametrize(("quasi_similarity", "kept"), [("dot", 1), ("neg_l1", 2)])  # torch.cdist keeps the distances
def test_backward_keeps_one_quasi_map_per_layer(quasi_similarity, kept, context_heads, p, monkeypatch):
    # On this device the stock attention keeps maps of its own: without it, every map that is kept is ours.
    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, "sdpa", lambda module, q, k, v, *_, **__: (v.transpose(1, 2), None))
    config = {"quasi_similarity": quasi_similarity, "context_heads": context_heads, "hidden_dropout_prob": p}
    model = build("qacg", **config, attention_probs_dropout_prob=p).train()
    length, groups = 11, 1 if context_heads == "shared" else 2
    inputs = targeted_inputs(3, length, seed=9, num_contexts=CONTEXTS)
    maps = {}

    def keep(tensor):
        if tensor.is_floating_point() and tensor.shape[-2:] == (length, length):
            maps[tensor.untyped_storage().data_ptr()] = tensor.numel()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = model(**inputs).loss
    assert sorted(maps.values()) == [3 * groups * length**2] * kept * model.config.num_hidden_layers
    loss.backward()
