# SPDX-License-Identifier: Apache-2.0
"""The dialogue BiLSTM against its equations, computed a second time without padding, and its pipeline."""

import math
from functools import partial

import pytest
import torch
import transformers
from hf_emotion.modeling import DialogueBiLSTMConfig, DialogueBiLSTMForEmotionRecognition
from hf_emotion.modeling.common import masked_mean
from model_cases import BY_ID, LABELS, TINY_BERT, TINY_GPT2, VOCABULARY, asymmetric_, dialogue_inputs, make_tokenizer
from model_equations import layer_norm, linear, naive_attention, naive_positions  # eqs. 7 and 8
from peft import LoraConfig, get_peft_model
from torch import nn
from torch.testing import assert_close
from transformers import AutoConfig, AutoModel, BertConfig, pipeline
from transformers.modeling_layers import GradientCheckpointingLayer

from hf_emotion.training.losses import training_loss


# The new names are not in transformers 5.18.
OLD_CHECKPOINTING_NAMES = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*deprecated:FutureWarning")
MODEL = {"utterance_encoder": "model", "utterance_size": 16, "encoder_config": BertConfig(**TINY_BERT)}
WORDS = {"utterance_encoder": "bilstm", "vocab_size": len(VOCABULARY)}
FORMS = {
    "default": {},
    "no-positions": {"positional_encoding": "none"},
    "positions-at-attention": {"positional_encoding_at": "attention"},
    "causal": {"causal": True},
    "causal-two-layers-speakers": {"causal": True, "num_hidden_layers": 2, "num_speakers": 3},
    "two-layers": {"num_hidden_layers": 2},
    "no-lstm": {"num_hidden_layers": 0, "num_attention_heads": 5},
    "no-attention": {"num_attention_heads": 0},
    "no-residual-one-head": {"attention_residual": False, "num_attention_heads": 1},
    "speakers": {"num_speakers": 3},
    "model": MODEL,
    "words": WORDS,
}
EACH_FORM = pytest.mark.parametrize("form", list(FORMS))


build = BY_ID["dialogue"].build
UTTERANCES = ("I am so happy today!", "anger", "this is not a very calm day, I feel nervousness and fear.")
SPEAKERS = ("Ann", "Bob", "Ann")


def make_inputs(model, batch: int = 3, length: int = 7, seed: int = 1, labels: bool = False) -> dict:
    """Inputs of the model's kind in its precision; row 0 is full, the others are shorter."""
    config = model.config
    inputs = dialogue_inputs(batch, length, seed, config.utterance_encoder, config.num_speakers)
    if not labels:
        del inputs["labels"]
    return {name: value.to(model.dtype) if value.is_floating_point() else value for name, value in inputs.items()}


# The equations once more, in float64, one dialogue after the other without its padding. The recurrent part is torch's own
# bidirectional LSTM, which the model does not use.


def naive_lstm(w: dict, name: str, x: torch.Tensor, causal: bool = False) -> torch.Tensor:
    """Eqs. 1-3 for one row without padding, (T, D) -> (T, 2H) or (T, H)."""
    size = w[f"{name}.forward_lstm.weight_hh_l0"].shape[1]
    lstm = nn.LSTM(x.shape[1], size, bidirectional=not causal, dtype=torch.float64)
    state = {}
    for direction, suffix in (("forward", ""), ("backward", "_reverse"))[: 1 if causal else 2]:
        for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            state[f"{part}_l0{suffix}"] = w[f"{name}.{direction}_lstm.{part}_l0"]
    lstm.load_state_dict(state)
    return lstm(x)[0]


def naive_self_attention(w: dict, config, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Eqs. 4-6 for one row without padding, (U, S) -> (U, S), attention (heads, U, U)."""
    name, seen = "dialogue.context.attention", torch.ones(len(x), len(x)).bool()
    q, k, v = (linear(w, f"{name}.{part}", x, "_") for part in ("query", "key", "value"))
    y, maps = naive_attention(q, k, v, config.num_attention_heads, seen.tril() if config.causal else seen)
    y = linear(w, f"{name}.out_proj", y, "_")
    return (layer_norm(w, f"{name}.LayerNorm", y + x, config.layer_norm_eps) if config.attention_residual else y), maps


def naive_utterances(model, w: dict, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
    """(U, L) twice -> (U, D), each utterance alone without its padding."""
    if model.config.utterance_encoder == "model":
        bert = transformers.BertModel(BertConfig(**TINY_BERT), add_pooling_layer=False).double().eval()
        bert.load_state_dict(model.dialogue.utterance_encoder.state_dict())
    vectors = []
    for ids, mask in zip(input_ids, attention_mask, strict=True):
        ids = ids[: mask.sum()]
        if model.config.utterance_encoder == "model":
            states = bert(ids[None]).last_hidden_state[0]
        else:
            words = w["dialogue.utterance_encoder.word_embeddings.weight"][ids]
            states = naive_lstm(w, "dialogue.utterance_encoder.lstm", words)
        vectors.append(states.mean(dim=0))
    return torch.stack(vectors)


def naive_dialogue(model, inputs: dict, row: int) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Logits (U, C) and attention (heads, U, U) of one dialogue."""
    config, w = model.config, model.state_dict()
    inputs = {name: value[row, : inputs["utterance_mask"][row].sum()] for name, value in inputs.items()}
    if config.utterance_encoder == "vectors":
        x = inputs["utterance_embeds"]
    else:
        x = naive_utterances(model, w, inputs["input_ids"], inputs["attention_mask"])
    if config.num_speakers:
        x = x + w["dialogue.context.speaker_embeddings.weight"][inputs["speaker_ids"]]
    encoded_at = config.positional_encoding_at if config.positional_encoding == "sinusoidal" else None
    if encoded_at == "input":
        x = x + naive_positions(*x.shape)
    for layer in range(config.num_hidden_layers):
        x = naive_lstm(w, f"dialogue.context.layers.{layer}", x, config.causal)
    maps = None
    if config.num_attention_heads:
        if encoded_at == "attention":
            x = x + naive_positions(*x.shape)
        x, maps = naive_self_attention(w, config, x)
    return linear(w, "classifier", x), maps


@EACH_FORM
@torch.no_grad()
def test_model_equals_the_equations(form):
    model = build(**FORMS[form]).double()
    inputs = make_inputs(model)
    for implementation in ("sdpa", "eager"):
        model.set_attn_implementation(implementation)
        for output_attentions in (False, True):
            outputs = model(**inputs, output_attentions=output_attentions)
            for row, length in enumerate(inputs["utterance_mask"].sum(dim=1).tolist()):
                logits, maps = naive_dialogue(model, inputs, row)
                # The model computes sines in float32.
                assert_close(outputs.logits[row, :length], logits, rtol=1e-6, atol=1e-6)
                if output_attentions and maps is not None:
                    (found,) = outputs.attentions
                    assert_close(found[row, :, :length, :length], maps, rtol=1e-6, atol=1e-6)
                    assert (found[row, :, :, length:][:, :length] == 0).all(), "padding is looked at"


@EACH_FORM
@torch.no_grad()
def test_hidden_states_on_request(form):
    model = build(**FORMS[form])
    inputs, seen = make_inputs(model), []
    for layer in model.dialogue.context.layers:
        layer.register_forward_hook(lambda _, given, output: seen.extend([given[0], output]))
    found = model(**inputs, output_hidden_states=True).hidden_states
    expected = [*seen[:1], *seen[1::2][:-1], *[model.dialogue(**inputs).last_hidden_state][: len(seen)]]
    assert len(found) == (len(seen) and model.config.num_hidden_layers + 1)
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))


# Padding in between, and before tokens; that on either side of utterances: test_models_shared.py
def padding_moved(mask: torch.Tensor, values: torch.Tensor, where: str = "between") -> torch.Tensor:
    """`values` (N, T, ...) of rows with mask (N, T), their padding in front, or behind the first that is real."""
    order = mask.long().clone()
    if where == "between":
        order[:, 0] = -1
    return torch.stack([row[places] for row, places in zip(values, order.argsort(dim=1, stable=True), strict=True)])


@pytest.mark.parametrize("form", ["default", "positions-at-attention", "causal-two-layers-speakers", "words"])
@torch.no_grad()
def test_padding_may_stand_between_utterances(form):
    model = build(**FORMS[form]).double()
    inputs = make_inputs(model, labels=True)
    mask = inputs["utterance_mask"]
    moved = {name: padding_moved(mask, value) for name, value in inputs.items()}
    assert (moved["utterance_mask"] != mask).any()
    expected, found = model(**inputs), model(**moved)
    real = moved["utterance_mask"].bool()
    assert_close(found.logits[real], expected.logits[mask.bool()], rtol=1e-9, atol=1e-9)
    assert_close(found.loss, expected.loss, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("where", ["front", "between"])
@pytest.mark.parametrize("encoder", ["roberta", "words"])
@torch.no_grad()
def test_padding_may_stand_before_and_between_tokens(encoder, where):
    roberta = {**MODEL, "encoder_config": transformers.RobertaConfig(**TINY_BERT, pad_token_id=0)}
    model = build(**(WORDS if encoder == "words" else roberta)).double()
    inputs = make_inputs(model)
    mask, moved = inputs["attention_mask"].flatten(0, 1), dict(inputs)
    for name in ("input_ids", "attention_mask"):
        moved[name] = padding_moved(mask, inputs[name].flatten(0, 1), where).unflatten(0, (3, 7))
    assert (moved["attention_mask"] != inputs["attention_mask"]).any()
    expected, found = (model.dialogue(**one).utterance_embeds for one in (inputs, moved))
    assert_close(found, expected, rtol=1e-9, atol=1e-9)
    assert_close(model(**moved).logits, model(**inputs).logits, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("weights", [None, [0.5, 2, 1.0, 3.0, 0.25]], ids=["plain", "weighted"])
@torch.no_grad()
def test_loss_by_hand(weights):
    model = build(class_weights=weights).double()
    inputs = make_inputs(model, labels=True)
    inputs["labels"][0, 2] = -100  # an utterance without a label that is no padding
    outputs = model(**inputs)
    terms = []
    for row, label in zip(outputs.logits.flatten(0, 1).tolist(), inputs["labels"].flatten().tolist(), strict=True):
        if label != -100:
            weight = 1 if weights is None else weights[label]
            terms.append(-weight * (row[label] - math.log(sum(map(math.exp, row)))))
    assert 0 < len(terms) < 21
    assert outputs.loss.item() == pytest.approx(sum(terms) / len(terms), rel=1e-6)
    for count in (40, torch.tensor(40)):
        assert model(**inputs, num_items_in_batch=count).loss.item() == pytest.approx(sum(terms) / 40, rel=1e-6)


@pytest.mark.parametrize("form", ["default", "model", "words"])
def test_main_input_is_what_the_model_reads(form):
    """The Trainer counts tokens by it."""
    model = build(**FORMS[form])
    assert model.main_input_name == model.dialogue.main_input_name and model.main_input_name in make_inputs(model)


def test_loss_of_a_batch_of_context_alone_is_zero():
    """The Trainer counts the labels itself, and finds none: 0 / 0 would look like a training that diverged."""
    model = build()
    inputs = make_inputs(model, labels=True)
    inputs["labels"].fill_(-100)
    loss = model(**inputs, num_items_in_batch=torch.tensor(0)).loss
    loss.backward()
    assert loss.item() == 0 and all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    own = training_loss({"logits": torch.randn(2, 3, 5)}, inputs["labels"].new_full((2, 3), -100), torch.tensor(0))
    assert own.item() == 0


@pytest.mark.parametrize("form", ["model", "words"])
@torch.no_grad()
def test_encoded_utterances_equal_a_forward_pass_over_tokens(form):
    model = build(**FORMS[form]).double()
    inputs = make_inputs(model)
    expected = model.dialogue(**inputs)
    flat = [inputs[name].flatten(0, 1) for name in ("input_ids", "attention_mask")]
    vectors = model.dialogue.encode_utterances(*flat).unflatten(0, (3, 7))
    assert_close(vectors, expected.utterance_embeds, rtol=1e-9, atol=1e-9)
    assert (vectors[inputs["utterance_mask"] == 0] == 0).all(), "no tokens: the vector is 0"
    given = {"utterance_embeds": vectors, "utterance_mask": inputs["utterance_mask"]}
    assert_close(model(**given).logits, model(**inputs).logits, rtol=1e-9, atol=1e-9)
    # Without a mask every token is one.
    logits = model(**{**inputs, "attention_mask": torch.ones_like(inputs["input_ids"])}).logits
    del inputs["attention_mask"]
    assert_close(model(**inputs).logits, logits, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("form", ["model", "words"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_utterances_are_encoded_in_groups_of_similar_lengths(form, side, monkeypatch):
    monkeypatch.setattr("hf_emotion.modeling.modeling_dialogue_bilstm.TOKENS_PER_CALL", 9)
    model = build(**FORMS[form], freeze_encoder=False).double()
    lengths = torch.tensor([[5, 1, 3, 0], [2, 0, 0, 0], [5, 4, 1, 2]])
    mask = torch.arange(5).expand(3, 4, 5) < lengths[..., None]
    mask = (mask.flip(-1) if side == "left" else mask).long()
    ids = torch.arange(4, 64).reshape(3, 4, 5) % (len(VOCABULARY) - 4) + 4
    ids = ids.where(mask > 0, 0)
    read = []
    hook = model.dialogue.utterance_encoder.register_forward_pre_hook(
        lambda _, args, given: read.append(tuple((given["input_ids"] if given else args[0]).shape)), with_kwargs=True
    )
    inputs = {"input_ids": ids, "attention_mask": mask, "utterance_mask": mask.any(-1).long()}
    found = model.dialogue(**inputs).utterance_embeds
    found.pow(2).sum().backward()
    monkeypatch.setattr("torch.distributed.is_initialized", lambda: True)  # FSDP: as many calls in every process
    assert_close(model.dialogue(**inputs).utterance_embeds, found, rtol=1e-9, atol=1e-9)
    assert read.pop() == (12, 5)
    hook.remove()
    # By length 1 1 2 2 3 4 5 5: no group holds more than 9 tokens, and none the four utterances without tokens.
    assert read == [(4, 2), (2, 4), (1, 5), (1, 5)]
    grads = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    model.zero_grad()
    assert (found[lengths == 0] == 0).all()
    for i, j in lengths.nonzero():
        tokens = ids[i, j][mask[i, j] > 0][None]
        alone = model.dialogue.encode_utterances(tokens, torch.ones_like(tokens))
        assert_close(found[i, j], alone[0], rtol=1e-9, atol=1e-9)
        alone.pow(2).sum().backward()
    assert grads
    for name, gradient in grads.items():
        assert_close(gradient, model.get_parameter(name).grad, rtol=1e-9, atol=1e-9)


def test_frozen_encoder_gets_no_gradients_and_stays_in_eval_mode(tmp_path):
    encoder = BertConfig(**{**TINY_BERT, "hidden_dropout_prob": 0.5})
    built = build(**{**MODEL, "encoder_config": encoder})
    built.save_pretrained(tmp_path)
    for model in (built, DialogueBiLSTMForEmotionRecognition.from_pretrained(tmp_path)):
        frozen = model.dialogue.utterance_encoder
        assert not any(parameter.requires_grad for parameter in frozen.parameters())
        model.train()
        assert model.dialogue.training and model.classifier.training
        assert not any(module.training for module in frozen.modules())
        inputs = make_inputs(model, labels=True)
        vectors = [model.dialogue(**{k: v for k, v in inputs.items() if k != "labels"}) for _ in range(2)]
        assert_close(vectors[0].utterance_embeds, vectors[1].utterance_embeds, rtol=0, atol=0)
        model(**inputs).loss.backward()
        with_gradient = {name for name, p in model.named_parameters() if p.grad is not None}
        assert with_gradient == {name for name, _ in model.named_parameters() if "utterance_encoder" not in name}
        last = frozen.encoder.layer[-1].requires_grad_(True)  # as a user does who trains the last layer
        assert model.train() and model.eval() and model.train() and frozen.training
        assert {p for p in frozen.parameters() if p.requires_grad} == set(last.parameters())
    assert build(**MODEL, freeze_encoder=False).train().dialogue.utterance_encoder.training


@pytest.fixture(scope="module")
def encoders(tmp_path_factory):
    """Folders of plain checkpoints; ELECTRA has embeddings of another size, GPT-2 looks back alone."""
    root = tmp_path_factory.mktemp("encoders")
    kinds = {"bert": TINY_BERT, "electra": {**TINY_BERT, "embedding_size": 12}, "gpt2": TINY_GPT2}
    for name, sizes in kinds.items():
        model = AutoModel.from_config(AutoConfig.for_model(name, **sizes))
        asymmetric_(model, seed=5).save_pretrained(root / name)
    return root


@pytest.mark.parametrize("name", ["bert", "electra", "gpt2"])
@torch.no_grad()
def test_model_over_a_pretrained_encoder(name, encoders):
    """What is the same for label-aware models: test_label_aware.py."""
    fields = {**BY_ID["dialogue"].config, "num_speakers": 2, "freeze_encoder": False}
    model = DialogueBiLSTMForEmotionRecognition.from_encoder_pretrained(encoders / name, **fields).eval()
    config, encoder = model.config, model.base_model.utterance_encoder
    assert config.num_speakers == 2 and config.num_labels == len(LABELS) and config._attn_implementation == "sdpa"
    assert encoder.config is config.encoder_config and all(p.requires_grad for p in model.parameters())
    assert "encoders" not in config.to_json_string()  # the folder that it came from
    stock, inputs = AutoModel.from_pretrained(encoders / name).eval(), make_inputs(model, 2, 3)
    states = stock(inputs["input_ids"][0, 0, None], attention_mask=inputs["attention_mask"][0, 0, None])
    expected = states.last_hidden_state[0, inputs["attention_mask"][0, 0].bool()].mean(dim=0)
    assert_close(model.base_model(**inputs).utterance_embeds[0, 0], expected, rtol=1e-5, atol=1e-5)


def test_model_over_a_pretrained_encoder_freezes_it_and_takes_an_attention(encoders):
    load = partial(DialogueBiLSTMForEmotionRecognition.from_encoder_pretrained, num_labels=7)
    model = load(str(encoders / "bert"), attn_implementation="eager")
    assert model.config._attn_implementation == model.config.encoder_config._attn_implementation == "eager"
    assert model.config.freeze_encoder
    assert not any(p.requires_grad for p in model.dialogue.utterance_encoder.parameters())
    with pytest.raises(ValueError, match="`utterance_encoder`.*'bilstm'"):
        load(encoders / "bert", utterance_encoder="bilstm")
    for loader in (DialogueBiLSTMForEmotionRecognition, DialogueBiLSTMConfig):
        with pytest.raises(ValueError, match="one of 'dialogue-bilstm', got one of 'bert': .*from_encoder_pretrained"):
            loader.from_pretrained(encoders / "bert")


@pytest.mark.parametrize("form", ["model", "words"])
@torch.no_grad()
def test_embeddings_of_tokens_are_those_of_the_utterance_encoder(form):
    model = build(**FORMS[form])
    encoder, inputs = model.dialogue.utterance_encoder, make_inputs(model)
    words = encoder.get_input_embeddings() if form == "model" else encoder.word_embeddings
    assert model.get_input_embeddings() is model.dialogue.get_input_embeddings() is words
    expected, other = model(**inputs).logits, nn.Embedding(*words.weight.shape)
    model.set_input_embeddings(other)
    assert model.dialogue.get_input_embeddings() is other
    assert (model(**inputs).logits - expected).abs().max() > 1e-3


@OLD_CHECKPOINTING_NAMES
def test_model_without_an_encoder_says_that_it_has_no_embeddings_and_nothing_to_checkpoint():
    model = build()
    for part in (model, model.dialogue):
        for call in (part.get_input_embeddings, lambda part=part: part.set_input_embeddings(nn.Embedding(3, 4))):
            with pytest.raises(NotImplementedError, match="_input_embeddings` not auto"):
                call()
        with pytest.raises(ValueError, match="does not support (gradient|activation) checkpointing"):
            part.gradient_checkpointing_enable()


@OLD_CHECKPOINTING_NAMES
def test_lora_in_a_frozen_encoder_is_trained_also_with_gradient_checkpointing():
    modules = {"target_modules": ["query", "value"], "modules_to_save": ["context"]}
    lora = LoraConfig(task_type="TOKEN_CLS", r=2, init_lora_weights=False, **modules)
    plain = build(**MODEL, freeze_encoder=True)
    model = get_peft_model(plain, lora).train()
    encoder, inputs, calls = plain.dialogue.utterance_encoder, make_inputs(plain, labels=True), []
    assert encoder.training
    assert all(p.requires_grad == ("lora_" in name) for name, p in encoder.named_parameters())
    for module in encoder.modules():
        if isinstance(module, GradientCheckpointingLayer):  # whose own hooks stay outside the checkpoint
            next(module.children()).register_forward_pre_hook(lambda *_: calls.append(1))

    def gradients():
        model.zero_grad()
        model(**inputs).loss.backward()
        return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

    results = [gradients()]
    model.gradient_checkpointing_enable()
    results.append(gradients())
    assert len(calls) == 3 * TINY_BERT["num_hidden_layers"]
    inside = [value for name, value in results[0].items() if "utterance_encoder" in name]
    assert inside and all(value.abs().max() > 0 for value in inside)
    assert_close(results[1], results[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("causal", [False, True])
def test_an_attention_of_the_encoder_alone_is_taken(causal):
    """The attention over utterances stays "sdpa"."""
    model = build(attn_implementation="flex_attention", **MODEL, causal=causal)
    assert model.dialogue.utterance_encoder.config._attn_implementation == "flex_attention"
    embeds, mask = torch.randn(2, 4, 16), torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    expected = build(**MODEL, causal=causal)(utterance_embeds=embeds, utterance_mask=mask).logits
    assert_close(model(utterance_embeds=embeds, utterance_mask=mask).logits, expected)


def test_config_takes_the_size_of_its_encoder():
    config = DialogueBiLSTMConfig(utterance_encoder="model", encoder_config=BertConfig(**TINY_BERT).to_dict())
    assert type(config.encoder_config) is BertConfig and config.utterance_size == 16
    opt = transformers.OPTConfig(**TINY_BERT, word_embed_proj_dim=8, ffn_dim=24)
    narrow = build(utterance_encoder="model", encoder_config=opt)  # its last states are narrower than its layers
    assert narrow(torch.tensor([[[5, 6, 7]]]), torch.ones(1, 1, 3)).logits.shape == (1, 1, len(LABELS))


def test_lstm_weights_start_as_torchs_own():
    torch.manual_seed(0)
    model = DialogueBiLSTMForEmotionRecognition(DialogueBiLSTMConfig(hidden_size=36, num_attention_heads=3))
    for name, value in model.named_parameters():
        if "lstm" in name:
            value = value.detach()
            assert 0.95 / 6 < value.abs().max() <= 1 / 6 and value.std() == pytest.approx(1 / 6 / 3**0.5, rel=0.15)


def test_the_mean_of_many_tokens_in_float16():
    states = torch.full((1, 6000, 2), 12.0)
    states[:, 3000:] = 16.0  # the sum is 84,000, and float16 ends at 65,504
    mask = torch.ones(1, 6000)
    mask[:, 4500:] = 0
    assert_close(masked_mean(states.half(), mask).float(), torch.full((1, 2), 40 / 3), atol=0.02, rtol=0)


def test_inputs_that_are_refused():
    vectors, tokens = torch.zeros(2, 3, 10), torch.ones(2, 3, 4, dtype=torch.long)
    plain, speakers, words = build(), build(num_speakers=2), build(**WORDS)
    numbers = torch.zeros(2, 3, dtype=torch.long)
    for model, inputs, message in (
        (plain, {}, "exactly one of `input_ids` and `utterance_embeds`"),
        (words, {"utterance_embeds": vectors, "input_ids": tokens}, "exactly one of `input_ids` and"),
        (plain, {"input_ids": tokens}, "no utterance encoder .* pass `utterance_embeds`"),
        (words, {"input_ids": tokens[0]}, r"`input_ids` must have shape .* got \(3, 4\)"),
        (words, {"input_ids": tokens, "attention_mask": tokens[..., :2]}, r"`attention_mask` .* got \(2, 3, 2\)"),
        (plain, {"utterance_embeds": vectors[0]}, r"`utterance_embeds` must have shape .*, 10\), got \(3, 10\)"),
        (plain, {"utterance_embeds": vectors[..., :9]}, r"`utterance_embeds` must have shape .* got \(2, 3, 9\)"),
        (plain, {"utterance_embeds": vectors, "utterance_mask": numbers[:1]}, r"`utterance_mask` .* got \(1, 3\)"),
        (speakers, {"utterance_embeds": vectors, "speaker_ids": numbers[:, :2]}, r"`speaker_ids` .* got \(2, 2\)"),
        (speakers, {"utterance_embeds": vectors}, "`speaker_ids` are missing and `num_speakers` is 2"),
        (plain, {"utterance_embeds": vectors, "speaker_ids": numbers}, "`speaker_ids` are given and `num_s.*` is 0"),
        (plain, {"utterance_embeds": vectors, "labels": numbers[:, :2]}, r"`labels` .* \(2, 3\), got \(2, 2\)"),
    ):
        with pytest.raises(ValueError, match=message):
            model(**inputs)


def make_pipeline(tokenizer, **config):
    return pipeline("dialogue-emotion", model=build(**{**WORDS, **config}), tokenizer=tokenizer, device="cpu")


@torch.no_grad()
def naive_scores(classify, utterances, speaker_ids=None) -> list[dict[str, float]]:
    """The model's softmax over a dialogue that is encoded by hand, utterance by utterance."""
    model, tokenizer = classify.model, classify.tokenizer
    vectors = []
    for utterance in utterances:
        ids = torch.tensor([tokenizer(utterance)["input_ids"]])
        vectors.append(model.dialogue.encode_utterances(ids, torch.ones_like(ids)))
    extra = {} if speaker_ids is None else {"speaker_ids": torch.tensor([speaker_ids])}
    logits = model(utterance_embeds=torch.stack(vectors, dim=1), **extra).logits[0]
    return [dict(zip(LABELS, row, strict=True)) for row in logits.softmax(dim=-1).tolist()]


def assert_results(results, utterances, speakers, scores) -> None:
    assert [item["utterance"] for item in results] == list(utterances)
    assert [item["speaker"] for item in results] == list(speakers)
    for item, expected in zip(results, scores, strict=True):
        assert list(item) == ["speaker", "utterance", "label", "score", "scores"]
        assert item["scores"] == pytest.approx(expected, rel=1e-4)
        best = max(expected, key=expected.get)
        assert item["label"] == best and item["score"] == item["scores"][best]


@pytest.mark.parametrize("config", [{}, MODEL, {"num_speakers": 2}], ids=["words", "model", "speakers"])
def test_pipeline_gives_the_models_softmax(config, tokenizer):
    classify = make_pipeline(tokenizer, **config)
    pairs = list(zip(SPEAKERS, UTTERANCES, strict=True))
    named = [{"speaker": speaker, "utterance": utterance} for speaker, utterance in pairs]
    texts, unnamed = list(UTTERANCES), [None] * 3
    first = (SPEAKERS, [0, 1, 0])
    for turns, speakers, numbers in ((pairs, *first), (named, *first), (texts, unnamed, [0] * 3)):
        scores = naive_scores(classify, UTTERANCES, numbers if config.get("num_speakers") else None)
        assert_results(classify(turns), UTTERANCES, speakers, scores)


@torch.no_grad()
def test_earlier_turns_stand_before_the_turn(tokenizer, monkeypatch):
    """With their speakers, cut from the left; the vector is the mean over the turn's own tokens."""
    monkeypatch.setattr(tokenizer, "model_max_length", 12)
    alone = {"num_hidden_layers": 0, "num_attention_heads": 0, "positional_encoding": "none"}
    classify = make_pipeline(tokenizer, context_turns=2, **alone)
    model, turns = classify.model, [*zip(SPEAKERS, UTTERANCES, strict=True), (None, "rain"), ("Bob", "sun")]
    tokens = [tokenizer(f"{name}: {text}" if name else text)["input_ids"] for name, text in turns]
    tokens = [ids if len(ids) <= 12 else [*ids[:11], ids[-1]] for ids in tokens]
    scores = []
    for number, own in enumerate(tokens):
        before = [token for ids in tokens[max(0, number - 2) : number] for token in ids[1:]]
        before = before[-(12 - len(own)) :] if len(own) < 12 else []
        ids = torch.tensor([[own[0], *before, *own[1:]]])
        states = model.dialogue.utterance_encoder(ids, torch.ones_like(ids))[0]
        vector = torch.cat([states[:1], states[1 + len(before) :]]).mean(dim=0)
        scores.append(dict(zip(LABELS, model.classifier(vector).softmax(dim=-1).tolist(), strict=True)))
    assert_results(classify(turns), [text for _, text in turns], [name for name, _ in turns], scores)
    with pytest.raises(ValueError, match="`turn_mask` is missing and `context_turns` is 2"):
        model(input_ids=torch.tensor([[[2, 7, 3]]]))


def test_speakers_are_numbered_by_their_first_turn_and_the_last_number_is_shared(tokenizer):
    classify = make_pipeline(tokenizer, num_speakers=2)
    utterances = ["sun", "rain", "a day", "home", "joy"]
    turns = list(zip(["Z", "A", "Z", "M", "A"], utterances, strict=True))
    scores = naive_scores(classify, utterances, [0, 1, 0, 1, 1])
    assert_results(classify(turns), utterances, ["Z", "A", "Z", "M", "A"], scores)


def test_pipeline_gives_the_same_whichever_side_the_tokenizer_pads(tokenizer, tmp_path):
    left = make_tokenizer(tmp_path, padding_side="left")
    expected, found = make_pipeline(tokenizer)(list(UTTERANCES)), make_pipeline(left)(list(UTTERANCES))
    for one, other in zip(found, expected, strict=True):
        assert one["scores"] == pytest.approx(other["scores"], rel=1e-5)


def test_pipeline_refuses(tokenizer):
    classify = make_pipeline(tokenizer)
    for turns, message in (
        *((wrong, "a dialogue must be a list of turns") for wrong in ("I am sad", ("Ann", "I am sad"), [])),
        ([["sun"], []], "a dialogue must have at least one turn"),
        *((["sun", wrong], "turn 2 must be .* got ") for wrong in ("", "  ", ("Ann", None))),
        *(([wrong], "turn 1 must be .* got ") for wrong in (("Ann", "sun", "rain"), {"speaker": "Ann"}, 3)),
    ):
        with pytest.raises(ValueError, match=message):
            classify(turns)
    with pytest.raises(TypeError, match=r"unknown arguments \['top_k'\]"):
        classify(["sun"], top_k=2)
    vectors = pipeline("dialogue-emotion", model=BY_ID["dialogue"].build(), tokenizer=tokenizer, device="cpu")
    with pytest.raises(ValueError, match="no utterance encoder"):
        vectors(["sun"])
