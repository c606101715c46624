# SPDX-License-Identifier: Apache-2.0
"""Emotions on the norms of any language model: what the suite that all models pass (test_models_shared.py) does not ask."""

import copy
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import torch
import transformers
from accelerate import cpu_offload
from hf_emotion.modeling import EmotionModulatedConfig, EmotionModulatedForCausalLM, EmotionModulatedModel
from hf_emotion.modeling.pipeline_emotional_response import around_context, encode_contexts, pad_contexts, written
from huggingface_hub.errors import StrictDataclassError
from model_cases import EMOTIONS, TINY_DECODER, TINY_GPT2, VOCABULARY, asymmetric_
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from torch.nn import functional as F
from torch.testing import assert_close
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, LlamaConfig, Trainer, TrainingArguments, pipeline
from transformers.dynamic_module_utils import get_class_from_dynamic_module
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES


TOKENS = {name: value for name, value in TINY_DECODER.items() if name.endswith("_token_id")}
TINY = {name: value for name, value in TINY_DECODER.items() if name != "use_cache"}
WITHOUT_HEAD_SIZE = {name: value for name, value in TINY.items() if name != "head_dim"}
LANGUAGE_MODELS = {
    "llama": LlamaConfig(**WITHOUT_HEAD_SIZE),
    "qwen3": transformers.Qwen3Config(**TINY),
    "gemma3": transformers.Gemma3TextConfig(**TINY),
    "gpt2": transformers.GPT2Config(**TINY_GPT2, **TOKENS),
    "olmo2": transformers.Olmo2Config(**WITHOUT_HEAD_SIZE),
    "opt": transformers.OPTConfig(**WITHOUT_HEAD_SIZE, ffn_dim=24, word_embed_proj_dim=16, dropout=0.0),
}
each = pytest.mark.parametrize("name", LANGUAGE_MODELS)
each_kind_of_norm = pytest.mark.parametrize("name", ["llama", "gemma3", "gpt2"])
GREEDY = {"do_sample": False, "min_new_tokens": 6, "max_new_tokens": 6}
LORA = {"task_type": "CAUSAL_LM", "r": 2, "target_modules": "all-linear"}
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'system' %}today {{ m.content }} !{% else %}a {{ m.content }} .{% endif %}{% endfor %}"
    "{% if add_generation_prompt %} feel{% endif %}"
)


@pytest.fixture(scope="module")
def bases(tmp_path_factory) -> dict[str, Path]:
    """A checkpoint of each language model."""
    root = tmp_path_factory.mktemp("bases")
    return {name: save(config, root / name) for name, config in LANGUAGE_MODELS.items()}


def save(config, folder: Path, dtype=torch.float32, seed: int = 0) -> Path:
    """A language model with asymmetric weights."""
    asymmetric_(AutoModelForCausalLM.from_config(config), seed).to(dtype).save_pretrained(folder)
    return folder


def build(folder: Path, trained: bool = True, **fields) -> EmotionModulatedForCausalLM:
    """Over a frozen language model; `trained`: with strong emotions."""
    fields = {"num_emotions": len(EMOTIONS), "emotions": list(EMOTIONS), "modulation_size": 7, **fields}
    torch.manual_seed(1)
    model = EmotionModulatedForCausalLM.from_language_model_pretrained(folder, **fields).eval()
    if trained:
        torch.nn.init.normal_(model.emotion_modulation.output_weight)
    return model


def make_inputs(rows: int = 3) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """`input_ids` and `attention_mask` (rows, 9), padded on the left, and weights of emotions."""
    generator = torch.Generator().manual_seed(2)
    ids = torch.randint(5, len(VOCABULARY), (rows, 9), generator=generator)
    mask = (torch.arange(9) >= torch.tensor([[0], [4], [2]])[:rows]).long()
    return {"input_ids": ids * mask, "attention_mask": mask}, torch.rand(rows, len(EMOTIONS), generator=generator)


@each
def test_starts_as_the_language_model_and_is_it_without_an_emotion(name, bases):
    inputs, weights = make_inputs()
    ids = inputs["input_ids"]
    expected = AutoModelForCausalLM.from_pretrained(bases[name])(ids).logits
    model = build(bases[name], trained=False)
    assert torch.equal(model(ids, emotion_weights=9 * weights).logits, expected)
    torch.nn.init.normal_(model.emotion_modulation.output_weight)
    assert (model(ids, emotion_weights=weights).logits - expected).abs().max() > 0.05
    assert torch.equal(model(ids).logits, expected)
    assert torch.equal(model(ids, emotion_weights=torch.zeros_like(weights)).logits, expected)


def norm_by_hand(module, states: torch.Tensor) -> torch.Tensor:
    if isinstance(module, torch.nn.LayerNorm):
        states = states - states.mean(dim=-1, keepdim=True)
    weight = module.weight + 1 if "Gemma" in type(module).__name__ else module.weight
    eps = next(getattr(module, field) for field in ("variance_epsilon", "eps") if hasattr(module, field))
    normed = states / (states**2).mean(dim=-1, keepdim=True).add(eps).sqrt() * weight
    return normed + module.bias if isinstance(module, torch.nn.LayerNorm) else normed


@each
@pytest.mark.parametrize("shift", [True, False])
def test_modulated_norm_by_hand(name, shift, bases):
    """Those of the layers themselves follow the emotion; the one at the end, and those of queries and keys, do not."""
    model = build(bases[name], shift=shift)
    names, layers = model.config.modulated_norms, model.config.num_hidden_layers
    assert len(names) == (4 if name == "gemma3" else 2)
    seen, followed = {}, 0
    parts = model.language_model.named_modules()
    norms = {path: part for path, part in parts if "norm" in type(part).__name__.lower()}
    for path, norm in norms.items():
        norm.register_forward_hook(lambda _, given, output, path=path: seen.update({path: (given[0], output)}))
    inputs, weights = make_inputs()
    model(inputs["input_ids"], emotion_weights=weights)
    first, second = model.emotion_modulation.input_weight, model.emotion_modulation.output_weight
    for path, (states, output) in seen.items():
        if states.dim() == 2:  # OPT's
            states, output = (values.unflatten(0, (len(weights), -1)) for values in (states, output))
        expected = norm_by_hand(norms[path], states)
        *_, parent, layer, own = ("", "", *path.split("."))
        if parent in ("layers", "h"):
            followed += 1
            slot = int(layer) * len(names) + names.index(own)
            scale = F.silu(weights @ first[slot].T) @ second[slot].T
            expected = expected * (1 + scale[:, None])
            if shift:
                slot += layers * len(names)
                expected = expected + (F.silu(weights @ first[slot].T) @ second[slot].T)[:, None]
        assert_close(output, expected, rtol=1e-4, atol=1e-5)
    assert len(seen) == len(norms) and followed == layers * len(names) < len(norms)
    assert len(first) == followed * (2 if shift else 1)


@pytest.mark.parametrize("code", ["ours", "beside the weights"])
def test_the_trainer_smooths_the_labels_of_the_next_tokens(code, bases, tmp_path, monkeypatch):
    model, (inputs, weights) = build(bases["llama"]), make_inputs()
    if code != "ours":
        model.save_pretrained(tmp_path / "hub")
        monkeypatch.delitem(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, model.config.model_type)
        reference = model.config.auto_map["AutoModelForCausalLM"]
        model = get_class_from_dynamic_module(reference, tmp_path / "hub").from_pretrained(tmp_path / "hub")
        assert type(model) is not EmotionModulatedForCausalLM
    labels = inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100)
    arguments = TrainingArguments(tmp_path, label_smoothing_factor=0.1, use_cpu=True)
    asked = {**inputs, "emotion_weights": weights, "labels": labels}
    loss = Trainer(model, arguments).compute_loss(model, dict(asked))
    predicted, wanted = model(**inputs, emotion_weights=weights).logits[:, :-1].log_softmax(-1), labels[:, 1:]
    counted = wanted != -100
    right = predicted[counted].gather(1, wanted[counted][:, None]).mean()
    assert_close(loss, -0.9 * right - 0.1 * predicted[counted].mean())


def test_ids_weights_and_their_modulation(bases):
    model, (inputs, weights) = build(bases["llama"]), make_inputs()
    ids = torch.tensor([3, 0, 3])
    one_hot, expected = F.one_hot(ids, len(EMOTIONS)).float(), model(**inputs, emotion_weights=weights).logits
    assert torch.equal(model(**inputs, emotion_weights=one_hot).logits, model(**inputs, emotion_ids=ids).logits)
    assert torch.equal(model(**inputs, emotion_modulation=model.modulation(emotion_weights=weights)).logits, expected)
    asked = {"emotion_modulation": model.modulation(emotion_weights=weights), "emotion_ids": ids}
    listed = {"emotion_ids": [3, 0, 3]}
    assert torch.equal(model(**inputs, **listed).logits, model(**inputs, emotion_ids=ids).logits)
    assert torch.equal(
        model.generate(**inputs, **listed, **GREEDY), model.generate(**inputs, emotion_ids=ids, **GREEDY)
    )
    with pytest.raises(ValueError, match="`labels` are for the model with a head"):
        EmotionModulatedModel(model.config)(**inputs, labels=inputs["input_ids"])
    for call in (model, model.generate):  # the other messages: test_mod_ln.py
        with pytest.raises(ValueError, match=r"`emotion_ids` must hold ids .* for 3 rows; got \(\) of torch.int64"):
            call(**inputs, emotion_ids=1)
        with pytest.raises(
            ValueError, match="exactly one of `emotion_ids`, `emotion_weights` and `emotion_modulation`"
        ):
            call(**inputs, **asked)
        with pytest.raises(ValueError, match=r"`emotion_weights` must hold .* for 3 rows; got \(2, 5\)"):
            call(**inputs, emotion_weights=weights[:2])


@each_kind_of_norm
def test_guidance_by_hand(name, bases):
    model, (inputs, weights), scale = build(bases[name]), make_inputs(), 2.5
    asked = {"emotion_weights": weights, "guidance_scale": scale}
    found = model.generate(**inputs, **GREEDY, **asked, output_scores=True, return_dict_in_generate=True)
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    for scores in found.scores:
        both = [model(ids, attention_mask=mask, emotion_weights=given).logits[:, -1] for given in (None, weights)]
        plain, felt = (logits.log_softmax(dim=-1) for logits in both)
        expected = (1 - scale) * plain + scale * felt
        expected[:, TOKENS["eos_token_id"]] = -torch.inf  # `min_new_tokens`
        assert_close(scores, expected, rtol=1e-4, atol=1e-4)
        ids = torch.cat([ids, expected.argmax(dim=-1, keepdim=True)], dim=1)
        mask = torch.cat([mask, torch.ones_like(mask[:, :1])], dim=1)
    assert torch.equal(found.sequences, ids)
    sampled = {"guidance_scale": scale, "num_return_sequences": 2, "do_sample": True, "max_new_tokens": 3}
    sampled = transformers.GenerationConfig(**sampled, pad_token_id=0)
    assert len(model.generate(**inputs, emotion_weights=weights, generation_config=sampled)) == 6
    with pytest.raises(ValueError, match="`num_beams` must be 1 with `guidance_scale`, got 3"):
        model.generate(**inputs, **asked, num_beams=3)


@pytest.mark.parametrize("pad_token_id", [None, 0, 7, 3])  # that of the model, the same, another, that of the end
def test_guidance_without_a_mask_leaves_out_the_padding_that_generate_leaves_out(pad_token_id, bases):
    model, (inputs, weights) = build(bases["llama"]), make_inputs()
    real = inputs["attention_mask"].bool()
    settings = {**GREEDY, "emotion_weights": weights, "guidance_scale": 2.5, "eos_token_id": [3, 4]}
    settings |= {} if pad_token_id is None else {"pad_token_id": pad_token_id}
    ids = inputs["input_ids"].masked_fill(~real, pad_token_id or 0)
    mask = torch.ones_like(ids) if pad_token_id == 3 else ids.ne(pad_token_id or 0).long()
    assert torch.equal(model.generate(ids, **settings), model.generate(ids, attention_mask=mask, **settings))


def test_guidance_of_embeddings_needs_the_ids_of_the_other_prompt(bases):
    model, (inputs, weights) = build(bases["llama"]), make_inputs(1)
    settings = {**GREEDY, "emotion_weights": weights, "guidance_scale": 2.5}
    embeddings = model.get_input_embeddings()(inputs["input_ids"])
    with pytest.raises(ValueError, match="`negative_prompt_ids`"):
        model.generate(inputs_embeds=embeddings, **settings)
    found = model.generate(inputs_embeds=embeddings, negative_prompt_ids=inputs["input_ids"], **settings)
    assert torch.equal(found, model.generate(**inputs, **settings)[:, 9:])


def test_all_emotions_in_one_batch(bases):
    model, (inputs, _) = build(bases["gemma3"]), make_inputs()
    inputs["input_ids"][inputs["attention_mask"] == 0] = 9  # the mask alone tells what is padding
    found = model.generate_all_emotions(**inputs, **GREEDY)
    assert found.shape == (3, len(EMOTIONS), 15)
    for emotion in range(len(EMOTIONS)):
        alone = model.generate(**inputs, emotion_ids=torch.full((3,), emotion), **GREEDY)
        assert torch.equal(found[:, emotion], alone)
    assert len({tuple(row) for row in found[0].tolist()}) > 1, "emotions that differ"


def test_prompts_as_embeddings_an_assistant_and_offloaded_weights_write_the_same(bases):
    model, (inputs, weights) = build(bases["llama"]), make_inputs(1)
    settings = {**GREEDY, "emotion_weights": weights}
    expected = model.generate(**inputs, **settings)
    embeddings = model.get_input_embeddings()(inputs["input_ids"])
    assert torch.equal(model.generate(inputs_embeds=embeddings, **settings), expected[:, 9:])
    draft, stock = build(bases["llama"], shift=False), AutoModelForCausalLM.from_pretrained(bases["llama"])
    # An assistant takes the emotions, too, unless it is a stock model.
    for assisted in ({"assistant_model": draft}, {"assistant_model": stock}, {"prompt_lookup_num_tokens": 2}):
        assert torch.equal(model.generate(**inputs, **settings, **assisted), expected)
    offloaded = cpu_offload(copy.deepcopy(model), execution_device=torch.device("cpu"))
    assert torch.equal(offloaded.generate(**inputs, **settings), expected)


def test_ways_of_generation_that_would_ignore_the_emotion_are_refused(bases):
    model, (inputs, weights) = build(bases["llama"]), make_inputs(1)
    with pytest.raises(ValueError, match="`emotion_ids` must not be given to `generate_batch`.*`generate`"):
        model.generate_batch([[5, 6]], emotion_ids=torch.tensor([1]))
    with pytest.raises(ValueError, match="`assistant_early_exit` must be None, got 1"):
        model.generate(**inputs, **GREEDY, emotion_weights=weights, assistant_early_exit=1)


def test_threads_share_a_model(bases):
    model, (inputs, _) = build(bases["llama"]), make_inputs()
    run = lambda emotion: model(**inputs, emotion_ids=torch.full((3,), emotion)).logits.detach()  # noqa: E731
    expected = [run(emotion) for emotion in range(len(EMOTIONS))]
    with ThreadPoolExecutor(5) as pool:
        for number, logits in enumerate(pool.map(run, [i % len(EMOTIONS) for i in range(50)])):
            assert torch.equal(logits, expected[number % len(EMOTIONS)])


@each_kind_of_norm
@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*deprecated:FutureWarning")
def test_frozen_language_model_gets_no_gradient(name, bases):
    model, (inputs, weights) = build(bases[name]).train(), make_inputs()
    own = {"emotion_modulation.input_weight", "emotion_modulation.output_weight"}
    assert {name for name, parameter in model.named_parameters() if parameter.requires_grad} == own

    def gradients(threads=None):
        model.zero_grad()
        loss = model(**inputs, emotion_weights=weights, labels=inputs["input_ids"]).loss
        threads.submit(loss.backward).result() if threads else loss.backward()
        return {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}

    expected = gradients()
    assert set(expected) == own and all((value != 0).any(dim=(1, 2)).all() for value in expected.values())
    for reentrant in (False, True):
        model.gradient_checkpointing_enable({"use_reentrant": reentrant})
        assert_close(gradients(), expected, rtol=1e-6, atol=1e-7)
        # As on a GPU, where layers are computed again in another thread.
        assert_close(gradients(ThreadPoolExecutor(1)), expected, rtol=1e-6, atol=1e-7)
    assert model.config.base_model_name_or_path == str(bases[name])


@each
def test_modulators_are_saved_alone_and_find_their_language_model(name, bases, tmp_path):
    model, (inputs, weights) = build(bases[name]), make_inputs()
    expected = model(**inputs, emotion_weights=weights).logits
    model.generation_config.update(max_new_tokens=3, do_sample=True, top_k=10)
    for folder in ("first", "again"):
        model.save_pretrained(tmp_path / folder)
        saved = load_file(tmp_path / folder / "model.safetensors")
        assert set(saved) == {"emotion_modulation.input_weight", "emotion_modulation.output_weight"}
        model, info = AutoModelForCausalLM.from_pretrained(tmp_path / folder, output_loading_info=True)
        assert type(model) is EmotionModulatedForCausalLM and not model.training
        assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"]
        assert torch.equal(model(**inputs, emotion_weights=weights).logits, expected)
        assert (model.generation_config.max_new_tokens, model.generation_config.top_k) == (3, 10)
        assert not any(parameter.requires_grad for parameter in model.language_model.parameters())


@pytest.mark.parametrize("generation_config", [True, False])
def test_a_language_model_from_the_trainer_generates_with_a_cache(generation_config, bases, tmp_path):
    """The Trainer sets `use_cache` of a configuration to False."""
    plain = AutoModelForCausalLM.from_pretrained(bases["llama"])
    Trainer(plain, TrainingArguments(tmp_path, use_cpu=True)).save_model(tmp_path / "base")
    assert plain.config.use_cache is False
    if not generation_config:
        (tmp_path / "base" / "generation_config.json").unlink()
    model, (inputs, weights) = build(tmp_path / "base"), make_inputs()
    model.save_pretrained(tmp_path / "run")
    for found in (model, EmotionModulatedForCausalLM.from_pretrained(tmp_path / "run")):
        read = []
        count = lambda _, args, given, read=read: read.append(given["input_ids"].shape[1])  # noqa: E731
        found.get_decoder().register_forward_pre_hook(count, with_kwargs=True)
        found.generate(**inputs, emotion_weights=weights, **GREEDY)
        assert read == [9] + [1] * 5


def test_settings_of_the_language_model_are_loaded_with_the_modulators(bases, tmp_path):
    scaled = {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}
    model, (inputs, weights) = build(bases["llama"], rope_parameters=scaled), make_inputs()
    plain = build(bases["llama"])
    expected = model(**inputs, emotion_weights=weights).logits
    assert (expected - plain(**inputs, emotion_weights=weights).logits).abs().max() > 1e-5
    model.config.eos_token_id, model.config.text_config.attention_dropout = 7, 0.25
    model.save_pretrained(tmp_path)
    for loaded in (
        AutoModelForCausalLM.from_pretrained(tmp_path),
        AutoModelForCausalLM.from_pretrained(tmp_path, base_model_name_or_path=str(bases["llama"])),
    ):
        assert torch.equal(loaded(**inputs, emotion_weights=weights).logits, expected)
        assert (loaded.config.eos_token_id, loaded.language_model.config.attention_dropout) == (7, 0.25)


def test_attention_that_is_asked_for_is_that_of_the_language_model(bases, tmp_path):
    build(bases["llama"]).save_pretrained(tmp_path)
    (inputs, weights), eager = make_inputs(), {"attn_implementation": "eager"}
    for model_class, asked in (
        *((one, eager) for one in (AutoModelForCausalLM, EmotionModulatedForCausalLM)),
        (EmotionModulatedForCausalLM, {"config": AutoConfig.from_pretrained(tmp_path, **eager)}),
    ):
        loaded = model_class.from_pretrained(tmp_path, **asked)
        assert loaded.language_model.config._attn_implementation == "eager"
        assert len(loaded(**inputs, emotion_weights=weights, output_attentions=True).attentions) == 2
    assert AutoModelForCausalLM.from_pretrained(tmp_path).language_model.config._attn_implementation == "sdpa"


def test_weights_on_a_disk_and_arguments_for_the_language_model(bases, tmp_path, monkeypatch):
    model, (inputs, weights) = build(bases["llama"]), make_inputs()
    expected = model(**inputs, emotion_weights=weights).logits
    model.save_pretrained(tmp_path / "run")
    places = dict.fromkeys(("model.embed_tokens", "model.layers.0"), "disk")
    places |= dict.fromkeys(("model.layers.1", "model.norm", "model.rotary_emb", "lm_head"), "cpu")
    for auto_class in (AutoModelForCausalLM, EmotionModulatedForCausalLM):
        loaded = auto_class.from_pretrained(tmp_path / "run", device_map=places, offload_folder=tmp_path / "disk")
        assert loaded.language_model.get_input_embeddings().weight.is_meta
        assert_close(loaded(**inputs, emotion_weights=weights).logits, expected, rtol=1e-6, atol=1e-6)
        assert loaded.hf_device_map["language_model.lm_head"] == "cpu"
        loaded.save_pretrained(tmp_path / "again")
        assert (tmp_path / "again" / "model.safetensors").stat().st_size < 20_000
        loaded.config.forget_base_model()
        loaded.save_pretrained(tmp_path / "whole")
        whole = EmotionModulatedForCausalLM.from_pretrained(tmp_path / "whole")
        assert_close(whole(**inputs, emotion_weights=weights).logits, expected, rtol=1e-6, atol=1e-6)
    asked, found = {"use_kernels": True, "tp_plan": "auto", "max_memory": {"cpu": "1GB"}}, []
    loads = transformers.LlamaForCausalLM.from_pretrained

    def load(*args, **kwargs):
        found.append({name: kwargs.pop(name) for name in asked})
        return loads(*args, **kwargs)

    monkeypatch.setattr(transformers.LlamaForCausalLM, "from_pretrained", load)
    AutoModelForCausalLM.from_pretrained(tmp_path / "run", **asked)
    EmotionModulatedForCausalLM.from_language_model_pretrained(bases["llama"], **asked)
    assert found == [asked, asked]


@pytest.mark.parametrize("name", ["llama", "gemma3"])  # the second ties its embeddings
@pytest.mark.parametrize("change", ["trained", "unfrozen", "frozen again", "no base", "resized", "no modulators"])
def test_language_model_that_may_have_changed_is_saved_too(name, change, bases, tmp_path):
    fields = {"trained": {"freeze_language_model": False}, "no modulators": {"modulated_norms": [], "trained": False}}
    model, (inputs, weights) = build(bases[name], **fields.get(change, {})), make_inputs()
    asymmetric_(model.language_model, seed=5)
    if change == "unfrozen":
        model.language_model.requires_grad_(True)
    elif change == "frozen again":
        model.language_model.get_decoder().layers[-1].requires_grad_(True)
        model.train()(**inputs, emotion_weights=weights, labels=inputs["input_ids"]).loss.backward()
        model.requires_grad_(False).eval()
    elif change == "no base":
        model.config.base_model_name_or_path = None
    elif change == "resized":
        model.resize_token_embeddings(len(VOCABULARY) + 3)
        inputs["input_ids"][:, -1] = len(VOCABULARY) + 2
    expected = model(**inputs, emotion_weights=weights).logits
    model.save_pretrained(tmp_path)
    loaded, info = AutoModelForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"]
    assert loaded.config.base_model_name_or_path is None and loaded.config.base_model_revision is None
    assert_close(loaded(**inputs, emotion_weights=weights).logits, expected, rtol=1e-6, atol=1e-6)


def test_asking_for_the_size_of_the_embeddings_keeps_the_base(bases):
    model = build(bases["llama"])
    model.resize_token_embeddings(len(VOCABULARY))
    assert model.config.base_model_name_or_path == str(bases["llama"])


def test_moved_language_model_is_named_and_can_be_given(bases, tmp_path):
    shutil.copytree(bases["llama"], tmp_path / "base")
    model, (inputs, weights) = build(tmp_path / "base"), make_inputs()
    model.save_pretrained(tmp_path / "run")
    (tmp_path / "base").rename(tmp_path / "moved")
    with pytest.raises(OSError, match="holds modulators for .*base.* Pass `base_model_name_or_path`"):
        AutoModelForCausalLM.from_pretrained(tmp_path / "run")
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "run", base_model_name_or_path=str(tmp_path / "moved"))
    expected = model(**inputs, emotion_weights=weights).logits
    assert torch.equal(loaded(**inputs, emotion_weights=weights).logits, expected)


def test_modulators_go_over_no_other_language_model(bases, tmp_path):
    build(bases["llama"]).save_pretrained(tmp_path / "run")
    for name, value in (("num_hidden_layers", 1), ("num_hidden_layers", 3), ("hidden_size", 24)):
        save(LlamaConfig(**{**WITHOUT_HEAD_SIZE, name: value}), tmp_path / "other")
        message = f"other.* must have the `{name}` .* of the modulators .* got {value}: name another language model"
        with pytest.raises(ValueError, match=message):
            AutoModelForCausalLM.from_pretrained(tmp_path / "run", base_model_name_or_path=str(tmp_path / "other"))
    for fields in ({}, {"freeze_language_model": False}):
        with pytest.raises(ValueError, match="`base_model_name_or_path` must .* got None"):
            EmotionModulatedForCausalLM.from_pretrained(tmp_path / "run", base_model_name_or_path=None, **fields)
    with pytest.raises(StrictDataclassError, match=r"`model.language_model.requires_grad_\(True\)`"):
        EmotionModulatedForCausalLM.from_pretrained(tmp_path / "run", freeze_language_model=False)


def test_modulators_of_other_sizes_start_anew_where_that_is_asked_for(bases, tmp_path):
    model = build(bases["llama"])
    model.save_pretrained(tmp_path)
    load = partial(EmotionModulatedForCausalLM.from_pretrained, tmp_path, num_emotions=3, emotions=None)
    with pytest.raises(RuntimeError, match="input_weight"):
        load()
    loaded, info = load(ignore_mismatched_sizes=True, output_loading_info=True)
    assert (
        info["mismatched_keys"] == {("emotion_modulation.input_weight", (8, 7, 5), (8, 7, 3))}
        and not info["missing_keys"]
    )
    assert torch.equal(loaded.emotion_modulation.output_weight, model.emotion_modulation.output_weight)
    assert loaded.emotion_modulation.input_weight.std() > 0.1


def test_language_model_from_a_folder_in_a_repository_is_saved_too(bases, tmp_path):
    shutil.copytree(bases["llama"], tmp_path / "base" / "inner")
    save(LANGUAGE_MODELS["llama"], tmp_path / "base", seed=5)
    model, (inputs, weights) = build(tmp_path / "base", subfolder="inner"), make_inputs()
    model.save_pretrained(tmp_path / "run")
    loaded = EmotionModulatedForCausalLM.from_pretrained(tmp_path / "run")
    assert_close(loaded(**inputs, emotion_weights=weights).logits, model(**inputs, emotion_weights=weights).logits)


def test_half_precision_computes_what_the_language_model_computes_at_far_positions(tmp_path):
    save(LlamaConfig(**{**WITHOUT_HEAD_SIZE, "max_position_embeddings": 512}), tmp_path / "base", torch.bfloat16)
    stock = AutoModelForCausalLM.from_pretrained(tmp_path / "base", dtype=torch.bfloat16).eval()
    model = build(tmp_path / "base", trained=False, dtype=torch.bfloat16)
    model.save_pretrained(tmp_path / "run")
    ids = torch.randint(5, len(VOCABULARY), (1, 400), generator=torch.Generator().manual_seed(3))
    for found in (model, EmotionModulatedForCausalLM.from_pretrained(tmp_path / "run")):
        assert found.get_decoder().rotary_emb.inv_freq.dtype == torch.float32
        assert torch.equal(found(ids).logits, stock(ids).logits)


def test_all_weights_have_one_precision(tmp_path):
    recorded = LlamaConfig.from_pretrained(save(LANGUAGE_MODELS["llama"], tmp_path / "base", torch.bfloat16))
    made = EmotionModulatedForCausalLM(EmotionModulatedConfig(text_config=recorded, num_emotions=3))
    build(tmp_path / "base").save_pretrained(tmp_path / "run")
    loads = partial(EmotionModulatedForCausalLM.from_pretrained, tmp_path / "run")
    for model, dtype in (
        *((one, torch.float32) for one in (made, loads(dtype="auto"))),  # that of the training
        *((loads(**{name: torch.bfloat16}), torch.bfloat16) for name in ("dtype", "torch_dtype")),
    ):
        assert {parameter.dtype for parameter in model.parameters()} == {dtype}
        assert model(torch.tensor([[5, 6]]), emotion_ids=torch.tensor([0])).logits.dtype == dtype


def test_ids_of_special_tokens_are_by_default_those_of_the_language_model(tmp_path):
    inner = LlamaConfig(**{**WITHOUT_HEAD_SIZE, "eos_token_id": [3, 4]})
    fields = {"text_config": inner, "num_emotions": 3}
    assert (EmotionModulatedConfig(**fields).pad_token_id, EmotionModulatedConfig(**fields).eos_token_id) == (0, 3)
    given = EmotionModulatedConfig(**fields, pad_token_id=7, eos_token_id=[8, 9])
    assigned = EmotionModulatedConfig(**fields)
    assigned.pad_token_id, assigned.eos_token_id = 7, 8  # as the Trainer does
    EmotionModulatedConfig(**fields).save_pretrained(tmp_path)
    loaded = EmotionModulatedConfig.from_pretrained(tmp_path, pad_token_id=7, eos_token_id=[8, 9])
    assigned.save_pretrained(tmp_path)
    for config in (given, assigned, loaded, EmotionModulatedConfig.from_pretrained(tmp_path)):
        assert (config.pad_token_id, config.eos_token_id) == (7, 8)
        assert (config.text_config.pad_token_id, config.text_config.eos_token_id) == (0, [3, 4])
    unpadded = transformers.CodeGenConfig(eos_token_id=8)  # which knows no padding
    without = EmotionModulatedConfig(text_config=unpadded)
    assert (without.pad_token_id, without.eos_token_id) == (8, 8)


def test_adapter_and_modulators_survive_and_merge(bases, tmp_path):
    build(bases["llama"], trained=False).save_pretrained(tmp_path / "start")
    inputs, weights = make_inputs()

    def start():
        return EmotionModulatedForCausalLM.from_pretrained(tmp_path / "start")

    model = get_peft_model(start(), LoraConfig(**LORA, modules_to_save=["emotion_modulation"])).eval()
    for parameter in model.parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter, std=0.3)
    expected = model(**inputs, emotion_weights=weights).logits
    assert (expected - start()(**inputs).logits).abs().max() > 0.05
    model.save_pretrained(tmp_path / "adapter")
    loaded = PeftModel.from_pretrained(start(), tmp_path / "adapter").eval()
    assert_close(loaded(**inputs, emotion_weights=weights).logits, expected, rtol=1e-5, atol=1e-5)
    loaded.merge_and_unload().save_pretrained(tmp_path / "merged")
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    assert merged.config.base_model_name_or_path is None
    assert_close(merged(**inputs, emotion_weights=weights).logits, expected, rtol=1e-4, atol=1e-4)


def test_adapter_that_would_leave_untrained_modulators_is_refused(bases):
    untrained = get_peft_model(build(bases["llama"], trained=False), LoraConfig(**LORA))
    with pytest.raises(ValueError, match=r"name \['emotion_modulation'\] in the `modules_to_save`"):
        untrained.train()
    get_peft_model(build(bases["llama"]), LoraConfig(**LORA)).train()  # trained before


def test_a_few_trained_rows_of_the_language_model_are_saved(tmp_path):
    """Rows that no sample of the weights holds; frozen again before the model is saved."""
    save(LlamaConfig(**{**WITHOUT_HEAD_SIZE, "vocab_size": 2000}), tmp_path / "base")
    model, (inputs, weights) = build(tmp_path / "base").train(), make_inputs()
    inputs["input_ids"][0, 0] = 7
    words = model.get_input_embeddings().requires_grad_(True)
    model.train()
    with torch.no_grad():
        words.weight[7, 3] += 1
    words.requires_grad_(False)
    model.eval().save_pretrained(tmp_path / "run")
    loaded = EmotionModulatedForCausalLM.from_pretrained(tmp_path / "run")
    expected = model(**inputs, emotion_weights=weights).logits
    assert_close(loaded(**inputs, emotion_weights=weights).logits, expected, rtol=1e-6, atol=1e-6)


def test_the_norms_run_their_own_kernels(bases):
    """As `kernelize` does it: a norm gets another `forward`."""
    model, (inputs, weights) = build(bases["llama"]), make_inputs()
    plain, expected = model(**inputs).logits, model(**inputs, emotion_weights=weights).logits
    calls = []
    for module in model.modules():
        if type(module).__name__ == "LlamaRMSNorm":
            own = type(module).forward
            module.forward = lambda states, own=own, module=module: calls.append(1) or own(module, states)
    assert torch.equal(model(**inputs, emotion_weights=weights).logits, expected) and len(calls) == 5
    assert torch.equal(model(**inputs).logits, plain) and (expected - plain).abs().max() > 0.05


def test_norms_of_layers_that_training_drops_need_no_emotion(tmp_path):
    config = copy.deepcopy(LANGUAGE_MODELS["opt"])
    config.layerdrop = 0.99
    model, (inputs, weights) = build(save(config, tmp_path)).train(), make_inputs()
    torch.manual_seed(0)
    model(**inputs, emotion_weights=weights)


@each_kind_of_norm
def test_copies_follow_the_emotion_on_their_own(name, bases):
    model, (inputs, weights) = build(bases[name]), make_inputs()
    expected = model(**inputs, emotion_weights=weights).logits
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        torch.nn.init.zeros_(other.emotion_modulation.output_weight[0])
        assert (other(**inputs, emotion_weights=weights).logits - expected).abs().max() > 1e-4
        assert torch.equal(other(**inputs).logits, model(**inputs).logits)
    assert torch.equal(model(**inputs, emotion_weights=weights).logits, expected)


@each_kind_of_norm
@pytest.mark.parametrize("whole", [False, True])
def test_the_base_model_is_found_by_automodel(name, whole, bases, tmp_path):
    model, (inputs, weights) = build(bases[name]), make_inputs()
    if whole:
        model.config.forget_base_model()
    model.save_pretrained(tmp_path)
    base, report = AutoModel.from_pretrained(tmp_path, output_loading_info=True)
    assert type(base) is EmotionModulatedModel and not report["missing_keys"]
    for emotions in ({}, {"emotion_weights": weights}):
        states = base(**inputs, **emotions).last_hidden_state
        expected = model(**inputs, **emotions, output_hidden_states=True).hidden_states[-1]
        assert_close(states, expected, rtol=1e-6, atol=1e-6)
    base.config.forget_base_model()
    base.save_pretrained(tmp_path / "base")
    again, report = AutoModel.from_pretrained(tmp_path / "base", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    assert torch.equal(again(**inputs, emotion_weights=weights).last_hidden_state, states)
    over = EmotionModulatedModel.from_language_model_pretrained(bases[name], num_emotions=len(EMOTIONS))
    assert not over.can_generate() and over(**inputs, emotion_weights=weights).last_hidden_state.shape == states.shape


@each_kind_of_norm
def test_folded_emotion_is_an_ordinary_checkpoint(name, bases, tmp_path):
    model, (inputs, weights) = build(bases[name], shift=False), make_inputs()
    for number, mixture in enumerate([*torch.eye(len(EMOTIONS))[:2], weights[0] * 2]):
        model.fold(mixture).save_pretrained(tmp_path / str(number))
        plain = AutoModelForCausalLM.from_pretrained(tmp_path / str(number))
        assert not list((tmp_path / str(number)).glob("*.py")) and type(plain).__module__.startswith("transformers.")
        given = {"emotion_weights": mixture.expand(3, -1)}
        ids = inputs["input_ids"]
        assert_close(plain(ids).logits, model(ids, **given).logits, rtol=1e-5, atol=1e-5)
        assert torch.equal(plain.generate(ids[:1], **GREEDY), model.generate(ids[:1], emotion_weights=mixture[None], **GREEDY))  # fmt: skip
    assert (plain(ids).logits - model(ids).logits).abs().max() > 0.05
    for fields, message in (({"shift": True}, "`shift` is True"), ({"modulated_norms": []}, "no norm is modulated")):
        with pytest.raises(ValueError, match=message):
            build(bases[name], trained=False, **fields).fold(weights[0])


def test_what_is_changed_in_a_folded_model_is_not_changed_in_its_source(bases):
    model, (inputs, weights) = build(bases["llama"], shift=False), make_inputs()
    before, expected = model.config.to_dict(), model(**inputs, emotion_weights=weights).logits
    plain = model.fold(weights[0])
    plain.resize_token_embeddings(len(VOCABULARY) + 8)
    plain.set_attn_implementation("eager")
    assert model.config.to_dict() == before and model.config.text_config._attn_implementation == "sdpa"
    assert torch.equal(model(**inputs, emotion_weights=weights).logits, expected)


def test_language_models_that_cannot_take_an_emotion_are_refused(bases, monkeypatch):
    with pytest.raises(ValueError, match="`from_language_model_pretrained`"):
        EmotionModulatedForCausalLM.from_pretrained(bases["llama"])
    for arguments in ({"modulated_norms": ["q_norm"]}, {"modulated_norms": ["post_attention_layernorm", "norm"]}):
        with pytest.raises(ValueError, match="`modulated_norms` must be some of .*input_layernorm"):
            build(bases["qwen3"], **arguments)
    model, (inputs, weights) = build(bases["llama"]), make_inputs()
    layer = model.get_decoder().layers[0]  # the others are reached
    monkeypatch.setattr(layer.input_layernorm, "_forward_hooks", {})
    model(**inputs)
    for call in (model, model.generate):
        with pytest.raises(ValueError, match="reaches 3 of 4 norms: a 'llama' model does not call the others"):
            call(**inputs, emotion_weights=weights)
    assert model.running.modulation is None
    assert torch.equal(model(**inputs).logits, build(bases["llama"])(**inputs).logits)


@pytest.fixture
def chat_tokenizer(tokenizer):
    own = copy.deepcopy(tokenizer)
    own.chat_template = TEMPLATE
    return own


def ids_of(text: str) -> list[int]:
    return [VOCABULARY.index(word) for word in text.split()]


def test_context_in_a_chat_template(chat_tokenizer, tokenizer):
    fields = {"text_config": LANGUAGE_MODELS["llama"], "num_emotions": len(EMOTIONS), "emotions": list(EMOTIONS)}
    plain = EmotionModulatedConfig(**fields)
    told = EmotionModulatedConfig(**fields, emotion_prompt="this is {emotion}")
    text = "the rain is very sad"
    assert encode_contexts(tokenizer, [text], plain) == [[*ids_of(text), plain.eos_token_id]]
    assert encode_contexts(chat_tokenizer, [text], plain) == [ids_of(f"a {text} . feel")]
    for emotion, name in ((0, "joy"), (4, "calm")):
        found = encode_contexts(chat_tokenizer, [text], told, emotion_ids=[emotion])
        assert found == [ids_of(f"today this is {name} ! a {text} . feel")]
        before, after = around_context(chat_tokenizer, told, emotion)
        assert (before, after) == (ids_of(f"today this is {name} ! a"), ids_of(". feel"))
    for limit in (None, 12):  # a cut context keeps what stands around it
        (cut,) = encode_contexts(chat_tokenizer, ["rain " * 100 + "sun " * 8], told, limit, [0])
        assert len(cut) == (limit or 16)  # the other half of the positions is the reply's
        assert cut == [*ids_of("today this is joy ! a"), *ids_of("sun") * (len(cut) - 8), *ids_of(". feel")]
    with pytest.raises(ValueError, match="`emotion_prompt` needs a tokenizer with a chat template"):
        encode_contexts(tokenizer, [text], told, emotion_ids=[0])


@pytest.mark.parametrize("prompt", [None, "this is {emotion}"])
def test_pipeline_answers_what_generate_writes_behind_the_context(prompt, bases, chat_tokenizer):
    model = build(bases["gpt2"], emotion_prompt=prompt)
    reply = pipeline("emotional-response", model=model, tokenizer=chat_tokenizer, device="cpu")
    text = "the rain is very sad"
    found = reply([(text, "joy"), (text, "calm")], **GREEDY)
    assert [row["emotion"] for (row,) in found] == ["joy", "calm"]
    for (row,), emotion in zip(found, (0, 4), strict=True):
        ids = encode_contexts(chat_tokenizer, [text], model.config, emotion_ids=[emotion])
        inputs = pad_contexts(ids, model.config)
        sequences = model.generate(**inputs, emotion_ids=torch.tensor([emotion]), **GREEDY)
        assert sequences[0, : len(ids[0])].tolist() == ids[0]
        new = written(sequences, inputs, model.config)
        assert new.shape == (1, 6)
        assert row["generated_text"] == chat_tokenizer.decode(new[0], skip_special_tokens=True).strip()
