# SPDX-License-Identifier: Apache-2.0
"""Modulated layer norms, the encoder-decoders that have them, and their pipeline. What every model can do is tested elsewhere."""

import ast
import math
import re
from functools import partial

import model_cases
import pytest
import torch
import transformers
from hf_emotion.modeling import GPT2ModLNForConditionalGeneration, ModulatedLayerNorm, Modulators
from hf_emotion.modeling.pipeline_emotional_response import emotion_ids_of, encode_contexts
from model_cases import CLS, EMOTIONS, SEP, TINY_BERT, VOCABULARY, asymmetric_, make_tokenizer, reply_inputs
from peft import LoraConfig, PeftModel, get_peft_model
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from hf_emotion import modeling


# Not the default epsilon of a norm.
GPT2_SIZES = {**model_cases.TINY_GPT2, **model_cases.GPT2_TOKENS, "layer_norm_epsilon": 1e-3}
BERT_SIZES = {**TINY_BERT, **model_cases.BERT_TOKENS}
FAMILIES = {
    "gpt2": (modeling.GPT2ModLNConfig, GPT2ModLNForConditionalGeneration, GPT2_SIZES),
    "bert": (modeling.BertModLNConfig, modeling.BertModLNForConditionalGeneration, BERT_SIZES),
}
EACH_FAMILY = pytest.mark.parametrize("family", list(FAMILIES))
EACH_MODULATION = pytest.mark.parametrize("modulation", ["residual", "replace"])
E = len(EMOTIONS)
UNMODULATED = {"modulate_encoder": False, "modulate_decoder": False}
FORMS = [{}, {"modulation": "replace"}, {"modulate_encoder": False}, UNMODULATED, {"modulated_norms": 1}]
FORMS += [{"modulate_decoder": False, "modulation": "replace"}]
PLAIN = {
    "gpt2": lambda: transformers.GPT2Model(transformers.GPT2Config(**GPT2_SIZES)),
    "gpt2-head": lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT2_SIZES)),
    "bert": lambda: transformers.BertModel(transformers.BertConfig(**TINY_BERT)),
    "bert-head": lambda: transformers.BertForMaskedLM(transformers.BertConfig(**TINY_BERT)),
}
LORA_TARGETS = {"gpt2": ["c_attn", "q_attn"], "bert": ["query", "value"]}
OLD_CHECKPOINTING_NAMES = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*deprecated:FutureWarning")
# As if they were added for the emotions.
TOKENS = [VOCABULARY.index(word) for word in ("home", "rain", "sun", "joy", "calm")]


def build(family: str, seed: int = 0, **config):
    """A tiny model in float64 and eval mode, with asymmetric weights."""
    config_class, model_class, sizes = FAMILIES[family]
    model = model_class(config_class(**{**sizes, "num_emotions": E, "emotions": list(EMOTIONS), **config}))
    return asymmetric_(model, seed).double().eval()


def tokens(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(5, len(VOCABULARY), shape, generator=torch.Generator().manual_seed(seed))


def modulator(modulators: Modulators, index: int) -> dict[str, torch.Tensor]:
    return {part: modulators.of(part)[index] for part in modulators.parts}


@EACH_MODULATION
def test_modulators_start_as_a_plain_norm_that_training_can_leave(modulation):
    modulators = Modulators(["norm"], 8, 5, modulation)
    weights = torch.tensor([[0.0, 1, 0, 0, 0], [0.2, 0.3, 0, 0.4, 0.1], [0, 0, 0, 0, 1.0]])
    found, start = modulators(weights), torch.tensor([float(modulation == "replace"), 0.0])
    assert_close(found, start[:, None, None].expand_as(found))
    (found * torch.randn(3, 2, 1, 8)).sum().backward()
    m = modulator(modulators, 0)
    for part in ("scale_out", "shift_out"):
        assert m[part].grad[:, 1:].abs().max() > 1e-3
    spread = torch.cat([m["scale_in"][1:], m["shift_in"][1:]]).std()
    assert 0.1 < spread < 0.3


# The models, against stock ones whose norms hold what the formulas give
def stock(family: str, side: str, head: bool = False):
    """Stock GPT-2 or BERT with the tiny sizes, as an encoder, or as a decoder with cross-attention; in float64."""
    decoder = side == "decoder"
    if family == "gpt2":
        model_class = transformers.GPT2LMHeadModel if head else transformers.GPT2Model
        return model_class(transformers.GPT2Config(**GPT2_SIZES, add_cross_attention=decoder)).double().eval()
    config = transformers.BertConfig(**TINY_BERT, is_decoder=decoder, add_cross_attention=decoder)
    model = transformers.BertLMHeadModel(config) if head else transformers.BertModel(config, add_pooling_layer=False)
    return model.double().eval()


def copy_side(family: str, model, side: str, target, weights: torch.Tensor | None) -> None:
    """One side of ours into a stock model. Modulated norms get the γ and β of the emotion weights (E,)."""
    source = model.get_submodule(f"model.{side}")
    state, modulated = {}, -1
    for name, module in source.named_modules():
        if isinstance(module, Modulators):
            continue
        stock_name = f"encoder.{name}" if family == "bert" and name.startswith("layer.") else name
        state |= {f"{stock_name}.{part}": value for part, value in module.named_parameters(recurse=False)}
        if isinstance(module, ModulatedLayerNorm):
            modulated += 1
            m = modulator(source.modulation, modulated)
            gamma = m["scale_out"] @ F.silu(m["scale_in"] @ weights)
            beta = m["shift_out"] @ F.silu(m["shift_in"] @ weights + m["shift_bias"])
            for part, value in (("weight", gamma), ("bias", beta)):
                state[f"{stock_name}.{part}"] = value + state.get(f"{stock_name}.{part}", 0)  # which replace has not
    missing, unexpected = target.load_state_dict(state, strict=False)
    assert not unexpected and all("position_ids" in name or "token_type_ids" in name for name in missing)


@torch.no_grad()
def stock_logits(family: str, model, inputs: dict, weights: torch.Tensor | None) -> torch.Tensor:
    """The logits of a batch whose rows all have one emotion, by stock models."""
    encoder, decoder = stock(family, "encoder"), stock(family, "decoder", head=True)
    copy_side(family, model, "encoder", encoder, weights)
    copy_side(family, model, "decoder", decoder.transformer if family == "gpt2" else decoder.bert, weights)
    if family == "bert":
        decoder.cls.load_state_dict(model.cls.state_dict())
    decoder.tie_weights()
    states = encoder(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).last_hidden_state
    context = {"encoder_hidden_states": states, "encoder_attention_mask": inputs["attention_mask"]}
    ids, mask = inputs["decoder_input_ids"], inputs["decoder_attention_mask"]
    return decoder(input_ids=ids, attention_mask=mask, **context).logits


def two_lengths() -> dict[str, torch.Tensor]:
    """Contexts of 7 tokens at most, replies of 5, each with lengths of its own."""
    inputs = reply_inputs(3, 7, 1)
    inputs["decoder_input_ids"], inputs["labels"] = tokens(3, 5, seed=1), tokens(3, 5, seed=2)
    inputs["decoder_attention_mask"] = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [1, 1, 0, 0, 0]])
    inputs["labels"] = inputs["labels"].masked_fill(inputs["decoder_attention_mask"] == 0, -100)
    return inputs


@EACH_FAMILY
@pytest.mark.parametrize("config", FORMS, ids=str)
def test_model_equals_stock_models_with_the_norms_of_each_emotion(family, config):
    if "modulated_norms" in config:
        config = {"modulated_norms": ["ln_cross_attn" if family == "gpt2" else "crossattention"]}
    model = build(family, **config)
    modulated = [name.split(".") for name, module in model.named_modules() if isinstance(module, ModulatedLayerNorm)]
    assert {parts[4] if len(parts) > 4 else parts[-1] for parts in modulated} <= set(model.config.modulated_norms)
    inputs = two_lengths()
    real = inputs["decoder_attention_mask"].bool()
    emotions = torch.eye(E).double()
    mixture = torch.tensor([0.7, 0.0, 0.3, 0.0, 0.6]).double()
    given = torch.stack([emotions[3], mixture, emotions[1]])
    del inputs["emotion_ids"]
    logits = model(**inputs, emotion_weights=given).logits
    different = set()
    for row, weights in enumerate(given):
        expected = stock_logits(family, model, inputs, weights)
        assert_close(logits[row][real[row]], expected[row][real[row]], rtol=1e-10, atol=1e-10)
        different.add(round(expected[0, 0, 0].item(), 9))
    assert len(different) == (1 if config.get("modulate_decoder") is config.get("modulate_encoder") is False else 3)


@EACH_FAMILY
def test_model_without_modulation_needs_and_heeds_no_emotion(family):
    model = build(family, **UNMODULATED)
    assert not any(isinstance(module, (ModulatedLayerNorm, Modulators)) for module in model.modules())
    inputs = two_lengths()
    logits = model(**inputs).logits
    del inputs["emotion_ids"]
    assert torch.equal(model(**inputs).logits, logits)
    assert len(model.generate(inputs["input_ids"], do_sample=False, max_new_tokens=3)) == 3
    with pytest.raises(ValueError, match="no norm of the model is modulated"):
        model.generate_all_emotions(inputs["input_ids"])


@EACH_FAMILY
@pytest.mark.parametrize("settings", [{}, {"cache_implementation": "static"}], ids=str)
def test_begun_replies_padded_on_the_left(family, settings):
    model = build(family)
    start = model.config.decoder_start_token_id
    inputs = {name: two_lengths()[name] for name in ("input_ids", "attention_mask", "emotion_ids")}
    # Token 0, which pads here, stands before some replies in the batch and is then forbidden, but not before a reply alone.
    arguments = {**settings, "do_sample": False, "max_new_tokens": 5}
    arguments |= {"no_repeat_ngram_size": 1, "suppress_tokens": [0]}
    # It begins with the start token, or `generate` puts one in front.
    begun = torch.tensor([[start, start, 8, 9], [start, 0, start, 8], [start, 0, 0, start]])
    mask = torch.tensor([[0, 1, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1]])
    replies = model.generate(**inputs, decoder_input_ids=begun, decoder_attention_mask=mask, **arguments)[:, 4:]
    for row in range(3):
        single = {name: value[row : row + 1] for name, value in inputs.items()}
        prefix = begun[row : row + 1, 1 + row :]
        # The same tokens are forbidden, or the replies would differ for that reason.
        alone = model.generate(**single, decoder_input_ids=prefix, **arguments)[0, prefix.shape[1] :]
        assert replies[row, : len(alone)].tolist() == alone.tolist()
        assert (replies[row, len(alone) :] == model.config.pad_token_id).all()


@EACH_FAMILY
def test_loss_is_the_unshifted_cross_entropy_of_the_labels(family):
    model = build(family)
    inputs = two_lengths()
    labels, config = inputs["labels"], model.config
    eos, pad, start = config.eos_token_id, config.pad_token_id, config.decoder_start_token_id
    assert (eos == pad == start) is (family == "gpt2")
    labels[0, 2], labels[1, 4], labels[2, 1] = eos, eos, eos  # every reply ends with a token that may also pad
    del inputs["decoder_input_ids"], inputs["decoder_attention_mask"]
    outputs = model(**inputs)
    read = model.prepare_decoder_input_ids_from_labels(labels)
    assert read[0].tolist() == [start, *labels[0, :2].tolist(), eos, pad]
    expected = 0.0
    for row, length in enumerate((3, 5, 2)):
        shown = torch.tensor([[start, *labels[row, : length - 1].tolist()]])
        single = {name: inputs[name][row : row + 1] for name in ("input_ids", "attention_mask", "emotion_ids")}
        logits = model(**single, decoder_input_ids=shown).logits[0]
        for position in range(length):
            exponentials = logits[position].exp()
            expected -= math.log(exponentials[labels[row, position]] / exponentials.sum())
    assert_close(outputs.loss.item(), expected / 10, rtol=1e-6, atol=1e-6)
    assert_close(model(**inputs, num_items_in_batch=40).loss, outputs.loss / 4)
    assert model(**{**inputs, "labels": torch.full_like(labels, -100)}).loss == 0


@EACH_FAMILY
def test_hidden_states_and_attentions_of_both_sides(family):
    model = build(family)
    model.set_attn_implementation("eager")
    inputs = two_lengths()
    outputs = model(**inputs, output_hidden_states=True, output_attentions=True)
    assert len(outputs.encoder_hidden_states) == len(outputs.decoder_hidden_states) == 3
    # Of states that the caller has, as a tuple, comes the same.
    given = {name: value for name, value in inputs.items() if name != "input_ids"}
    again = model(**given, encoder_outputs=(outputs.encoder_last_hidden_state,)).logits
    assert_close(again, outputs.logits, rtol=1e-12, atol=1e-12)
    assert_close(outputs.encoder_hidden_states[-1], outputs.encoder_last_hidden_state)
    assert [value.shape for value in outputs.encoder_attentions] == [(3, 2, 7, 7)] * 2
    assert [value.shape for value in outputs.decoder_attentions] == [(3, 2, 5, 5)] * 2
    assert [value.shape for value in outputs.cross_attentions] == [(3, 2, 5, 7)] * 2
    for value in outputs.cross_attentions:
        assert value.masked_select((inputs["attention_mask"] == 0)[:, None, None]).abs().max() == 0
    assert (outputs.decoder_attentions[0].triu(1) == 0).all()
    one_way = (outputs.encoder_attentions[0].triu(1) == 0).all()
    assert one_way if family == "gpt2" else not one_way


@EACH_FAMILY
def test_norms_are_modulated_once_for_a_generation(family):
    model = build(family)
    calls = []
    for side in (model.get_encoder(), model.get_decoder()):
        side.modulation.register_forward_hook(lambda module, given, _: calls.append(len(given[0])))
    asked = {"emotion_ids": torch.tensor([0, 3, 1]), "do_sample": False, "max_new_tokens": 6}
    for settings in ({}, {"num_beams": 2, "num_return_sequences": 2}):
        calls.clear()
        model.generate(tokens(3, 6), **asked, **settings)
        assert calls == [3, 3], "once for each side, before rows are repeated for beams"


@EACH_FAMILY
@pytest.mark.parametrize("modulate_encoder", [True, False])
def test_all_emotions_at_once_equal_one_after_the_other(family, modulate_encoder):
    model = build(family, seed=2, modulate_encoder=modulate_encoder)
    ids, mask, begun = tokens(2, 7), torch.tensor([[1] * 7, [1] * 5 + [0] * 2]), tokens(2, 4, seed=1)
    settings = {"do_sample": False, "min_new_tokens": 6, "max_new_tokens": 6, "no_repeat_ngram_size": 1}
    begin = {"decoder_input_ids": begun, "decoder_attention_mask": torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1]])}
    encoded = []
    model.get_encoder().register_forward_hook(lambda module, given, output: encoded.append(len(output[0])))
    for own in ({}, begin):
        encoded.clear()
        together = model.generate_all_emotions(ids, mask, **own, **settings)
        assert together.shape[:2] == (2, E) and encoded == [2 * E if modulate_encoder else 2]
        for emotion in range(E):
            asked = {"attention_mask": mask, "emotion_ids": torch.tensor([emotion, emotion])}
            assert torch.equal(together[:, emotion], model.generate(ids, **asked, **own, **settings))
        assert len({tuple(row) for row in together[0].tolist()}) > 1
        one = {name: value[1] for name, value in own.items()}
        assert torch.equal(model.generate_all_emotions(ids[1], mask[1], **one, **settings), together[1])
    settings |= {"num_return_sequences": 2, "num_beams": 2}
    several = model.generate_all_emotions(ids, mask, **settings)
    asked = {"attention_mask": mask, "emotion_ids": torch.tensor([1, 1])}
    assert torch.equal(several[:, 1].flatten(0, 1), model.generate(ids, **asked, **settings))


@EACH_FAMILY
@pytest.mark.parametrize("config", [{"layers": 3}, {"modulate_decoder": False}], ids=["more-layers", "other-norms"])
def test_an_assistant_drafts_with_norms_of_its_own(family, config):
    model = build(family)
    if "layers" in config:
        config = {"n_layer" if family == "gpt2" else "num_hidden_layers": 3}
    assistant = build(family, seed=0, **config)
    asked = {"inputs": tokens(1, 6), "emotion_ids": torch.tensor([2]), "do_sample": False, "max_new_tokens": 8}
    expected = model.generate(**asked)
    given = []
    decoder = assistant.get_decoder()
    if decoder.is_modulated:
        decoder.modulation.register_forward_hook(lambda module, inputs, _: given.append(inputs[0]))
    assert torch.equal(model.generate(**asked, assistant_model=assistant), expected)
    assert bool(given) is decoder.is_modulated
    assert all(c.tolist() == [[0, 0, 1, 0, 0]] for c in given)


@EACH_FAMILY
def test_guidance_is_refused_before_anything_runs(family):
    """It subtracts a run without an emotion or a prompt, which these models do not have."""
    model = build(family)
    asked = {"inputs": tokens(1, 4), "emotion_ids": torch.tensor([1]), "do_sample": False, "max_new_tokens": 3}
    assert torch.equal(model.generate(**asked, guidance_scale=1.0), model.generate(**asked))  # which is none
    model.get_encoder().register_forward_hook(lambda *_: pytest.fail("the encoder ran"))
    config = transformers.GenerationConfig(guidance_scale=1.5, decoder_start_token_id=3, max_new_tokens=3)
    negative = {"negative_prompt_ids": tokens(1, 4), "negative_prompt_attention_mask": torch.ones(1, 4)}
    for name, value in (("guidance_scale", 0), ("generation_config", config), *negative.items()):
        refused = name.replace("generation_config", "guidance_scale")
        with pytest.raises(ValueError, match=rf"`{refused}` .*without an emotion.*`emotion_weights`"):
            model.generate(**asked, **{name: value})
    with pytest.raises(ValueError, match="`guidance_scale` "):
        model.generate(asked["inputs"], config, emotion_ids=asked["emotion_ids"])
    model.generation_config.guidance_scale = 3.0
    with pytest.raises(ValueError, match="`guidance_scale` .*got 3.0"):
        model.generate(**asked)


@EACH_FAMILY
@pytest.mark.filterwarnings("ignore:.*past_key_values.*deprecated:FutureWarning")
def test_a_cache_is_read_and_returned_under_any_name(family):
    """transformers 5.24 calls `cache` what 5.23 calls `past_key_values`."""
    model, inputs = build(family), {"input_ids": tokens(2, 6), "emotion_ids": torch.tensor([1, 2])}
    reply = tokens(2, 5, seed=1)
    expected = model(**inputs, decoder_input_ids=reply, use_cache=False).logits
    for name in ("past_key_values", "cache"):
        cache = transformers.EncoderDecoderCache(transformers.DynamicCache(), transformers.DynamicCache())
        for step in range(5):
            outputs = model(**inputs, decoder_input_ids=reply[:, step : step + 1], use_cache=True, **{name: cache})
            assert_close(outputs.logits[:, 0], expected[:, step])
            assert outputs[1] is cache  # behind the logits
    cache = transformers.EncoderDecoderCache(transformers.DynamicCache(), transformers.DynamicCache())
    model.generate(**inputs, past_key_values=cache, do_sample=False, max_new_tokens=4, min_new_tokens=4)
    assert cache.get_seq_length() == 4
    model.gradient_checkpointing_enable()
    with pytest.raises(ValueError, match="no cache with gradient checkpointing"):
        model.train()(**inputs, decoder_input_ids=reply[:, :1], cache=cache)


@pytest.mark.slow
@EACH_FAMILY
def test_generation_over_a_static_cache_compiles_whole(family):
    model = build(family).float()
    asked = {"inputs": tokens(2, 6), "attention_mask": torch.ones(2, 6).long(), "emotion_ids": torch.tensor([1, 2])}
    asked |= {"cache_implementation": "static", "do_sample": False, "max_new_tokens": 4}
    expected = model.generate(**asked)
    torch._dynamo.reset()
    try:
        model.forward = torch.compile(model.forward, fullgraph=True, backend="aot_eager")
        assert torch.equal(model.generate(**asked), expected)
    finally:
        torch._dynamo.reset()


def new_parameters(model: nn.Module, modulation: str, head: bool) -> set[str]:
    """Exactly what a wrapped checkpoint, with a head or without, has no weights for."""

    def is_new(name: str) -> bool:
        if ".modulation." in name and "cross" not in name:
            return modulation == "residual" or not name.endswith("_out")  # which hold the γ and β of the checkpoint
        return "cross" in name or (name.startswith("cls.") and not head and name != "cls.predictions.decoder.weight")

    return {name for name in model.state_dict() if is_new(name)}


def wrap(name: str, folder, **arguments):
    """(plain model, wrapped model, report), both in float64."""
    plain = asymmetric_(PLAIN[name](), seed=11).double().eval()
    plain.save_pretrained(folder)
    return plain, *over(folder, name.partition("-")[0], output_loading_info=True, **arguments)


def over(folder, family: str, **arguments):
    """A checkpoint that is wrapped, in eval mode; with `output_loading_info` the report, too."""
    fields = {"num_emotions": E, **({} if family == "gpt2" else model_cases.BERT_TOKENS), **arguments}
    return FAMILIES[family][1].from_encoder_decoder_pretrained(folder, **fields)


@EACH_MODULATION
@pytest.mark.parametrize("name", list(PLAIN))
def test_wrapped_checkpoint_equals_the_original(name, modulation, tmp_path, poisoned_memory):
    torch.manual_seed(0)
    family = name.partition("-")[0]
    plain, wrapped, report = wrap(name, tmp_path, modulation=modulation)
    assert set(report["missing_keys"]) == new_parameters(wrapped, modulation, "head" in name)
    assert not report["unexpected_keys"] and not report["mismatched_keys"]
    assert all(parameter.isfinite().all() for parameter in (*wrapped.parameters(), *wrapped.buffers()))
    assert wrapped.dtype == torch.float64
    inputs = two_lengths()
    ids, mask, outputs, body = inputs["input_ids"], inputs["attention_mask"], wrapped(**inputs), plain.base_model
    expected, real = body(input_ids=ids, attention_mask=mask).last_hidden_state, mask.bool()
    assert_close(outputs.encoder_last_hidden_state[real], expected[real], rtol=1e-12, atol=1e-12)

    # The decoder: a stock one with the same cross-attention; for GPT-2 also the original, once that says nothing.
    reference = stock(family, "decoder")
    missing, _ = reference.load_state_dict(body.state_dict(), strict=False)
    assert all("cross" in key for key in missing)
    prefix = "encoder." if family == "bert" else ""
    cross = {f"{prefix}{key}": value for key, value in wrapped.get_decoder().state_dict().items() if "cross" in key}
    if modulation == "replace":  # the new norm in between starts as a plain one
        new = [key for key in reference.state_dict() if "cross" in key and ("ln_" in key or "LayerNorm" in key)]
        cross |= {key: torch.full_like(reference.state_dict()[key], float(key.endswith("weight"))) for key in new}
    reference.load_state_dict(cross, strict=False)
    reply, states, decoder = inputs["decoder_input_ids"], outputs.encoder_last_hidden_state, wrapped.get_decoder()
    emotions = {"emotion_ids": inputs["emotion_ids"]}
    found = decoder(reply, None, states, mask, **emotions).last_hidden_state
    expected = reference(reply, encoder_hidden_states=states, encoder_attention_mask=mask).last_hidden_state
    assert_close(found, expected, rtol=1e-11, atol=1e-11)
    if family == "gpt2":
        for block in decoder.h:
            nn.init.zeros_(block.crossattention.c_proj.weight)
            nn.init.zeros_(block.crossattention.c_proj.bias)
        found = decoder(reply, None, states, mask, **emotions).last_hidden_state
        assert_close(found, body(reply).last_hidden_state, rtol=1e-12, atol=1e-12)
    if name == "bert-head":
        assert_close(wrapped.cls.state_dict(), plain.cls.state_dict())


@EACH_FAMILY
def test_wrapped_sides_share_no_memory(family, tmp_path):
    _, wrapped, _ = wrap(family, tmp_path)
    places = [p.untyped_storage().data_ptr() for p in wrapped.parameters()]
    assert len(set(places)) == len(places)
    assert wrapped.get_output_embeddings().weight is wrapped.get_decoder().get_input_embeddings().weight


@EACH_FAMILY
def test_wrapping_takes_fields_tokens_and_dtype(family, tmp_path):
    asymmetric_(PLAIN[family]()).save_pretrained(tmp_path)
    roles = {"bos_token": "[CLS]", "eos_token": "[SEP]"} if family == "gpt2" else {}
    dropout = "resid_pdrop" if family == "gpt2" else "hidden_dropout_prob"
    fields = {"num_emotions": E, "emotions": list(EMOTIONS), "modulate_encoder": False, dropout: 0.3}
    model = FAMILIES[family][1].from_encoder_decoder_pretrained(
        tmp_path,
        tokenizer=make_tokenizer(tmp_path / "tokenizer", **roles),
        dtype=torch.bfloat16,
        attn_implementation="eager",
        **fields,
    )
    config = model.config
    assert model.dtype == torch.bfloat16 and config._attn_implementation == "eager"
    assert {name: getattr(config, name) for name in fields} == fields
    assert config.context_separator_token_id == (VOCABULARY.index("[UNK]") if family == "gpt2" else SEP)
    for found in (config, model.generation_config):
        assert (found.decoder_start_token_id, found.eos_token_id) == (CLS, SEP)


@EACH_FAMILY
def test_a_checkpoint_from_the_trainer_is_generated_from_with_a_cache(family, tmp_path):
    """The Trainer sets `use_cache` of a configuration to False."""
    plain = PLAIN[f"{family}-head"]()
    trainer = transformers.Seq2SeqTrainer(plain, transformers.Seq2SeqTrainingArguments(tmp_path, use_cpu=True))
    trainer.save_model(tmp_path / "base")
    assert plain.config.use_cache is False
    model = over(tmp_path / "base", family).eval()
    model.save_pretrained(tmp_path / "run")
    for found in (model, FAMILIES[family][1].from_pretrained(tmp_path / "run")):
        read = []
        count = lambda _, args, given, read=read: read.append(given["input_ids"].shape[1])  # noqa: E731
        found.get_decoder().register_forward_pre_hook(count, with_kwargs=True)
        found.generate(torch.tensor([[5, 6, 7]]), emotion_ids=torch.tensor([1]), min_new_tokens=4, max_new_tokens=4)
        assert read == [1] * 4


@EACH_FAMILY
def test_plain_and_other_checkpoints_are_refused(family, tmp_path):
    model_class = FAMILIES[family][1]
    other = "bert" if family == "gpt2" else "gpt2"
    for name in (family, other):
        asymmetric_(PLAIN[name]()).save_pretrained(tmp_path / name)
    build(family).save_pretrained(tmp_path / "ours")
    message = f"'{family}-mod-ln', got one of '{family}': .* is wrapped by `from_encoder"
    with pytest.raises(ValueError, match=message):
        model_class.from_pretrained(tmp_path / family)
    with pytest.raises(ValueError, match=f"a checkpoint of '{family}', got '{other}'"):
        model_class.from_encoder_decoder_pretrained(tmp_path / other)
    with pytest.raises(ValueError, match="load it with `from_pretrained`"):
        model_class.from_encoder_decoder_pretrained(tmp_path / "ours")


def test_a_quantization_that_would_leave_gpt2_as_it_is_is_refused():
    config = build("gpt2").config
    config.quantization_config = {"quant_method": "torchao"}  # as `from_pretrained` sets it
    with pytest.raises(ValueError, match="`quantization_config` must not be torchao's.*`Conv1D`"):
        GPT2ModLNForConditionalGeneration(config)


@pytest.mark.parametrize("name", ["gpt2", "gpt2-head", "bert-head"])
def test_an_untied_head_starts_at_that_of_the_checkpoint(name, tmp_path):
    plain, wrapped, report = wrap(name, tmp_path / "tied", tie_word_embeddings=False)
    head, embeddings = wrapped.get_output_embeddings().weight, wrapped.get_decoder().get_input_embeddings().weight
    assert head is not embeddings and torch.equal(head, plain.get_input_embeddings().weight)
    assert set(report["missing_keys"]) == new_parameters(wrapped, "residual", "head" in name)
    if name == "gpt2-head":  # which may have an untied one itself
        config = transformers.GPT2Config(**GPT2_SIZES, tie_word_embeddings=False)
        plain = asymmetric_(transformers.GPT2LMHeadModel(config))
        plain.save_pretrained(tmp_path)
        wrapped = over(tmp_path, "gpt2", tie_word_embeddings=False)
        assert torch.equal(wrapped.lm_head.weight, plain.lm_head.weight)
        assert torch.equal(wrapped.get_decoder().wte.weight, plain.transformer.wte.weight)


@EACH_FAMILY
def test_emotions_and_inputs_are_checked(family):
    model, ids = build(family), tokens(2, 4)
    emotions, weights = {"emotion_ids": torch.tensor([1, 2])}, [[1.0] * E] * 2
    narrow = model(ids, decoder_input_ids=ids, emotion_ids=torch.tensor([1, 2]).int()).logits
    assert torch.equal(narrow, model(ids, decoder_input_ids=ids, **emotions).logits)
    for given, message in (
        ({}, rf"exactly one of `emotion_ids`.* in \[0, {E}\).* got neither"),
        ({"ids": [1, 2], "weights": weights}, "exactly one of `emotion_ids`.* got both"),
        ({"ids": [1.0, 2.0]}, "`emotion_ids` must hold ids .* got .* torch.float32"),
        ({"ids": [1]}, r"`emotion_ids` must hold ids .* for 2 rows; got \(1,\)"),
        ({"weights": [[1.0] * 3] * 2}, rf"`emotion_weights` .* \(batch_size, {E}\), .* got \(2, 3\)"),
        ({"weights": [1.0] * E}, rf"`emotion_weights` .* got \({E},\)"),
    ):
        asked = {f"emotion_{name}": torch.tensor(value) for name, value in given.items()}
        for call in (partial(model, decoder_input_ids=ids), model.generate):
            with pytest.raises(ValueError, match=message):
                call(ids, **asked)
    modulation = model.get_decoder().modulation(torch.eye(E).double()[:1])
    for given, message in (
        ({}, "exactly one of `input_ids` and `inputs_embeds`"),
        ({"decoder_input_ids": ids, "labels": ids[:, :3]}, r"`labels` must have shape \(2, 4\), got \(2, 3\)"),
        ({"decoder_input_ids": ids, "decoder_modulation": modulation}, "emotions for each of the 2 rows, got 1"),
    ):
        with pytest.raises(ValueError, match=message):
            model(ids, **emotions, **given)


@pytest.mark.filterwarnings("ignore:Input and output embeddings are no longer tied")
@EACH_FAMILY
@pytest.mark.parametrize("tie_word_embeddings", [True, False])
def test_resized_and_merged_models_are_saved_with_their_heads(family, tie_word_embeddings, tmp_path):
    inputs = two_lengths()
    resized = build(family, tie_word_embeddings=tie_word_embeddings)
    resized.resize_token_embeddings(len(VOCABULARY) + 3)
    model = build(family, tie_word_embeddings=tie_word_embeddings)
    plain = model(**inputs).logits
    merged = get_peft_model(model, lora(family, init_lora_weights=False)).merge_and_unload()
    assert (merged(**inputs).logits - plain).abs().max() > 1e-3
    for changed in (resized, merged):
        expected = changed(**inputs).logits
        changed.save_pretrained(tmp_path)
        loaded, report = type(changed).from_pretrained(tmp_path, output_loading_info=True)
        assert not report["missing_keys"] and loaded.config.tie_word_embeddings is tie_word_embeddings
        assert_close(loaded(**inputs).logits, expected, rtol=1e-12, atol=1e-12)


def lora(family: str, **arguments) -> LoraConfig:
    return LoraConfig(task_type="SEQ_2_SEQ_LM", r=2, target_modules=LORA_TARGETS[family], **arguments)


def refused_modules(model, adapter: LoraConfig) -> list[str]:
    """The `modules_to_save` that the model asks for where a training begins."""
    with pytest.raises(ValueError, match="load the model again") as caught:
        get_peft_model(model, adapter).train()
    return ast.literal_eval(re.search(r"name (\[.*?\]) in", str(caught.value))[1])


@OLD_CHECKPOINTING_NAMES
@pytest.mark.parametrize(
    ("name", "modulation"),
    [
        *(("gpt2-head", "residual"), ("bert", "replace")),
        *(pytest.param(name, "replace", marks=pytest.mark.slow) for name in ("gpt2", "gpt2-head", "bert-head")),
        *(pytest.param(name, "residual", marks=pytest.mark.slow) for name in ("gpt2", "bert", "bert-head")),
    ],
)
def test_lora_over_new_weights_says_the_line_that_trains_and_saves_them(name, modulation, tmp_path):
    family = name.partition("-")[0]

    def fresh(seed: int):
        torch.manual_seed(seed)
        return wrap(name, tmp_path / "plain", modulation=modulation)[1:]

    model, report = fresh(0)
    modules = refused_modules(model, lora(family))
    model = get_peft_model(fresh(0)[0], lora(family, modules_to_save=modules))
    before = {key: p.detach().clone() for key, p in model.named_parameters() if p.requires_grad}
    # All that is new is trained, but for the bias of a new head, which starts at zero for everybody.
    trained = {key.removeprefix("base_model.model.").replace(".modules_to_save.default", "") for key in before}
    assert set(report["missing_keys"]) - trained <= {"cls.predictions.bias", "cls.predictions.decoder.bias"}
    inputs = two_lengths()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.02)
    losses = []
    for _ in range(6):
        optimizer.zero_grad()
        losses.append(model(**inputs).loss)
        losses[-1].backward()
        optimizer.step()
    assert losses[-1] < 0.9 * losses[0]
    parameters = dict(model.named_parameters())
    still = [key for key, value in before.items() if torch.equal(parameters[key], value)]
    assert not [key for key in still if "scale_" in key or "shift_" in key or "crossattention" in key]
    expected = model.eval()(**inputs).logits
    model.save_pretrained(tmp_path / "adapter")
    loaded = PeftModel.from_pretrained(fresh(1)[0], tmp_path / "adapter").eval()
    assert_close(loaded(**inputs).logits, expected, rtol=1e-6, atol=1e-6)  # adapters are saved as they are: in float32


@EACH_FAMILY
def test_lora_over_a_model_that_was_never_trained_or_for_new_emotions_is_refused(family, tmp_path):
    """Its cross-attention lies in the folder, but no reply depends on the emotion, and none would."""
    wrapped = wrap(f"{family}-head", tmp_path / "plain")[1]
    assert not wrapped.config._name_or_path and not wrapped.name_or_path  # not where the encoder lay
    wrapped.save_pretrained(tmp_path / "saved")
    load = FAMILIES[family][1].from_pretrained
    assert refused_modules(load(tmp_path / "saved"), lora(family, modules_to_save=["wte"])) == ["modulation"]
    get_peft_model(load(tmp_path / "saved"), lora(family, modules_to_save=["modulation"])).train()
    build(family).save_pretrained(tmp_path / "trained")
    get_peft_model(load(tmp_path / "trained"), lora(family)).train()
    model = load(tmp_path / "trained", num_emotions=7, emotions=None, ignore_mismatched_sizes=True)
    assert refused_modules(model, lora(family)) == ["modulation"]


@EACH_FAMILY
def test_lora_over_a_model_without_modulation_needs_its_new_attention_alone(family, tmp_path):
    model = wrap(f"{family}-head", tmp_path / "plain", **UNMODULATED)[1]
    model.save_pretrained(tmp_path / "saved")
    modules = {"gpt2": ["crossattention", "ln_cross_attn"], "bert": ["crossattention"]}[family]
    assert refused_modules(model, lora(family)) == modules
    get_peft_model(FAMILIES[family][1].from_pretrained(tmp_path / "saved"), lora(family)).train()


def pipe(tokenizer, **config):
    model = model_cases.BY_ID["bert-mod-ln"].build(**config)
    return transformers.pipeline("emotional-response", model=model, tokenizer=tokenizer, device="cpu")


@pytest.fixture
def respond(tokenizer):
    return pipe(tokenizer)


@EACH_FAMILY
def test_context_ends_with_the_separator(family, tokenizer):
    config, start = build(family).config, [CLS] if family == "bert" else []
    texts = ["I am happy", "rain"]
    words = [[VOCABULARY.index(word) for word in text.lower().split()] for text in texts]
    assert encode_contexts(tokenizer, texts, config) == [[*start, *ids, SEP] for ids in words]
    letters = lambda texts, **_: {"input_ids": [list(map(ord, text)) for text in texts]}  # noqa: E731
    # In the form that they have in training.
    assert encode_contexts(letters, [" cafe\u0301\n"], config) == encode_contexts(letters, ["caf\xe9"], config)
    long = encode_contexts(tokenizer, ["rain " * 100 + "sun"], config)[0]  # the end is what the reply answers
    assert len(long) == config.max_position_embeddings
    assert long[: len(start)] == start and long[-2:] == [VOCABULARY.index("sun"), SEP]


@EACH_FAMILY
def test_token_of_the_emotion_stands_before_the_text(family, tokenizer):
    config, start = build(family, emotion_token_ids=TOKENS).config, [CLS] if family == "bert" else []
    day = VOCABULARY.index("day")
    found = encode_contexts(tokenizer, ["day", "day day"], config, emotion_ids=[3, 0])
    assert found == [[*start, TOKENS[3], day, SEP], [*start, TOKENS[0], day, day, SEP]]
    (cut,) = encode_contexts(tokenizer, ["day " * 50], config, 6, [4])
    assert cut == [*start, TOKENS[4], *[day] * (4 - len(start)), SEP]
    with pytest.raises(ValueError, match="`max_length` must leave room for the text, got 2"):
        encode_contexts(tokenizer, ["day"], config, 2, [4])
    for ids in (None, [], [1, 2]):
        with pytest.raises(ValueError, match="`emotion_ids` must have one id for each"):
            encode_contexts(tokenizer, ["day"], config, emotion_ids=ids)
    plain = build(family).config
    assert encode_contexts(tokenizer, ["day"], plain, emotion_ids=[3]) == encode_contexts(tokenizer, ["day"], plain)


def test_which_emotion_a_token_is_read_for():
    plain, config = build("gpt2").config, build("gpt2", emotion_token_ids=TOKENS).config
    assert emotion_ids_of([[0, 1, 0, 0, 0]], plain) is None and emotion_ids_of([[0.5, 0.5, 0, 0, 0]], plain) is None
    assert emotion_ids_of([[0, 1.0, 0, 0, 0], [0, 0, 0, 0, 1]], config) == [1, 4]
    for weights in ([0, 0, 0, 0, 0], [0, 2, 0, 0, 0], [0.5, 0.5, 0, 0, 0], [1, 1, 0, 0, 0], [1, -0.5, 0, 0, 0]):
        with pytest.raises(ValueError, match="takes one emotion of weight 1, neither mixtures nor intensities"):
            emotion_ids_of([[1, 0, 0, 0, 0], weights], config)


@EACH_FAMILY
def test_training_keeps_no_cache(family):
    """Not without labels either, which the Trainer takes out where it smooths them."""
    model = build(family, use_cache=True)
    inputs = {"input_ids": tokens(2, 4), "decoder_input_ids": tokens(2, 3), "emotion_ids": torch.tensor([1, 2])}
    assert model(**inputs).past_key_values is not None
    assert model(**inputs, labels=tokens(2, 3)).past_key_values is None
    model.train()
    assert model(**inputs).past_key_values is None
    assert model(**inputs, use_cache=True).past_key_values is not None


def test_pipeline_tells_the_emotion_by_its_token(tokenizer):
    respond, found = pipe(tokenizer, **UNMODULATED, emotion_token_ids=TOKENS), []
    for number, emotion in enumerate(EMOTIONS):
        ids = encode_contexts(tokenizer, ["this is rain"], respond.model.config, emotion_ids=[number])
        replies = respond.model.generate(torch.tensor(ids), emotion_ids=torch.tensor([number]))
        found.append(tokenizer.decode(replies[0], skip_special_tokens=True).strip())
        assert respond(("this is rain", emotion))[0]["generated_text"] == found[-1]
    assert len(set(found)) > 1
    with pytest.raises(ValueError, match="neither mixtures nor intensities"):
        respond(("this is rain", {"joy": 0.5, "fear": 0.5}))


def test_pipeline_gives_replies_in_the_emotion(respond, tokenizer):
    model = respond.model
    context, ids = "I am so happy today!", encode_contexts(tokenizer, ["I am so happy today!"], model.config)
    for emotion, weights in (
        ("anger", [0, 1, 0, 0, 0]),
        ("😂", [0, 0, 0, 1, 0]),
        ({"joy": 0.7, "fear": 0.3}, [0.7, 0, 0.3, 0, 0]),
        ({"joy": 2}, [2, 0, 0, 0, 0]),
    ):
        replies = model.generate(torch.tensor(ids), emotion_weights=torch.tensor([weights]).float())
        text = tokenizer.decode(replies[0], skip_special_tokens=True).strip()
        expected = [{"emotion": emotion, "generated_text": text}]
        assert respond((context, emotion)) == expected
        assert respond({"context": context, "emotion": emotion}) == expected
    several = respond([(context, "joy"), ("rain", "fear")], num_beams=3, num_return_sequences=2)
    assert [[reply["emotion"] for reply in replies] for replies in several] == [["joy"] * 2, ["fear"] * 2]
    inputs = [(context, "joy"), ("rain", "fear")]
    assert respond(inputs, batch_size=2) == respond(inputs)


def test_pipeline_limits_the_length_where_nothing_else_does(respond, monkeypatch):
    found = []

    def generate(**arguments):
        found.append(arguments.get("max_new_tokens"))
        return torch.tensor([[2, 5, 3]])

    monkeypatch.setattr(respond.model, "generate", generate)
    respond(("rain", "joy"), max_new_tokens=7)
    respond.model.generation_config.max_new_tokens = None
    respond(("rain", "joy"), max_length=9)
    respond(("rain", "joy"))
    assert found == [7, None, 40]


def test_pipeline_refuses(respond):
    for given, message in (
        (("rain", "joyy"), "unknown emotion 'joyy': did you mean 'joy'"),
        (("rain", {"joy": 0.5, "surprise": 0.5}), "unknown emotion 'surprise': did you mean .*The model knows 5"),
        *((("rain", {"joy": w}), f"weight of 'joy' must be a finite .*, got {w!r}") for w in ("1", True, math.nan)),
        *((("rain", wrong), "an emotion must be a name, or a mixture") for wrong in ({}, 3, None)),
        *((wrong, "must be .context, emotion.") for wrong in ("rain", ("rain",), ("", "joy"), {"context": "a"})),
    ):
        with pytest.raises(ValueError, match=message):
            respond(given)
    respond.model.config.emotions = None
    with pytest.raises(ValueError, match="names no `emotions`"):
        respond(("rain", "joy"))
