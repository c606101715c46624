# SPDX-License-Identifier: Apache-2.0
"""
Every causal language model of transformers, in a tiny size, under emotions that change nothing yet: its logits and its text, or a refusal by
name. A few run always, all of them in `make test-full`.
"""

import copy
from typing import Any

import pytest
import torch
from hf_emotion.modeling import EmotionModulatedConfig, EmotionModulatedForCausalLM
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES


# The kinds with code of their own in `generate`: inputs of another length, no rollback, a cache of another class or none.
QUICK = {"deepseek_v4", "jamba", "llama", "mamba", "minimax", "openai-gpt", "phi3", "rwkv", "trocr", "xlm"}
# Their norms are not modules of their layers, or their layers are not in one list.
LAYERS_NOT_FOUND = """
bert bert-generation big_bird camembert data2vec-text electra ernie git megatron-bert rembert roberta
roberta-prelayernorm roc_bert roformer xlm-roberta xlm-roberta-xl xmod blt cpmant dbrx hrm_text
longcat_flash qwen4_exp_text reformer xlm xlnet
""".split()
# Encoder-decoders, and models that read more than text.
NOT_A_TEXT_DECODER = """
bart bigbird_pegasus blenderbot blenderbot-small marian mbart mvp pegasus plbart prophetnet dots3_note emu3
fuyu gemma3 gemma3n gemma4 gemma4_assistant gemma4_unified gemma4_unified_assistant got_ocr2 llama4 mllama
moss_transcribe_diarize musicgen musicgen_melody qwen3_5 qwen3_5_moe qwen4_exp whisper
""".split()

TINY: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "n_embd", "d_model", "embed_dim", "emb_dim", "dim"), 32),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers", "num_blocks"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("intermediate_size", "n_inner", "ffn_dim", "decoder_ffn_dim", "dff", "dim_ff"), 48),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size"), 48),
    **dict.fromkeys(("ffn_hidden_size", "expert_ffn_hidden_size"), 48),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx"), 128),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "topk_group", "moe_topk", "n_group", "num_key_value_heads"), 2),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank"), 16),
    **dict.fromkeys(("head_dim", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "index_head_dim"), 8),
    **dict.fromkeys(
        ("vocab_size", "n_words", "pronunciation_vocab_size", "shape_vocab_size", "unpadded_vocab_size"), 64
    ),
    **dict.fromkeys(("vocab_size_per_layer_input", "encoder_hash_byte_group_vocab", "audio_vocab_size"), 64),
    **{"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "use_cache": True},
    **{"rotary_dim": 4, "hidden_size_per_layer_input": 8},
}
LATENT = {"num_key_value_heads": 4}
LINEAR: dict[str, Any] = {"num_hidden_layers": 4, "linear_num_key_heads": 2, "linear_num_value_heads": 4}
LINEAR |= {"linear_key_head_dim": 8, "linear_value_head_dim": 8}
MAMBA = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8}
INDEXER = {
    "indexer_n_heads": 2,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 8,
    "indexer_budget": 8,
    "indexer_compress_ratio": 4,
}
DEFAULT_ROPE = {"rope_type": "default", "rope_theta": 10000.0}
LONG_ROPE = {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [4.0] * 4, "rope_theta": 10000.0}
# Beside `TINY`.
OWN: dict[str, dict[str, Any]] = {
    **dict.fromkeys(
        ("axk1", "axk2", "deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe_lite", "glm_moe_dsa"), LATENT
    ),
    **dict.fromkeys(("longcat_flash", "minicpm3", "sarvam_mla", "youtu", "dots3_note_text"), LATENT),
    **dict.fromkeys(("qwen3_5_moe_text", "qwen3_5_text", "qwen3_next"), LINEAR),
    "bailing_hybrid": {**LATENT, "layer_group_size": 2},
    "blt": {
        f"{part}_config": {**TINY, "hidden_size_global": 32} for part in ("patcher", "encoder", "decoder", "global")
    },
    "bamba": {**MAMBA, "attn_layer_indices": [1]},
    "cohere_compass_text": {"rope_parameters": {"full_attention": DEFAULT_ROPE, "sliding_attention": DEFAULT_ROPE}},
    "dbrx": {"attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 10000.0}},
    "dots1": {"n_shared_experts": 1, "n_group": 1, "topk_group": 1},
    "falcon_h1": {**MAMBA, "mamba_d_ssm": 64},
    "gemma3n_text": {"num_hidden_layers": 5, "num_kv_shared_layers": 0},
    "gemma4_assistant": {
        "text_config": {"model_type": "gemma4_text", "hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0}
    },
    "git": {"vision_config": TINY},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "granitemoehybrid": {**MAMBA, "layer_types": ["mamba", "attention"]},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "mamba_dt_rank": 4},
    "kimi_linear": {
        **LATENT,
        "linear_num_heads": 2,
        "linear_head_dim": 8,
        "layer_types": ["linear_attention", "full_attention"],
    },
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "lfm3": {"num_hidden_layers": 4},
    "mamba2": {"head_dim": 16, "n_groups": 2},
    "nemotron_h": {"mamba_num_heads": 4, "mamba_head_dim": 16, "ssm_state_size": 8, "n_groups": 2},
    "phi4_multimodal": {"vision_config": TINY, "audio_config": TINY},
    "phi3": {"original_max_position_embeddings": 8, "rope_parameters": LONG_ROPE},
    "qwen4_exp_text": {**LINEAR, **INDEXER},
    "recurrent_gemma": {"num_hidden_layers": 3},
    "reformer": {"is_decoder": True, "axial_pos_embds": False},
    "xlstm": {"hidden_size": 128, "embedding_dim": 128},
    "xmod": {"languages": ["en_XX"], "default_language": "en_XX"},
    "zamba": {"num_hidden_layers": 3, "layer_types": ["mamba", "hybrid", "hybrid"]},
    "zamba2": {"layer_types": ["mamba", "hybrid"], "hybrid_layer_ids": [1]},
    "zaya": {"num_experts_per_tok": 1},
}
KINDS = sorted(set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES) - {EmotionModulatedConfig.model_type})
PROMPT = {"input_ids": torch.tensor([[5, 6, 7, 8, 9]])}
PADDED = {
    "input_ids": torch.tensor([[5, 6, 7, 8, 9], [0, 0, 11, 12, 13]]),
    "attention_mask": torch.tensor([[1] * 5, [0, 0, 1, 1, 1]]),
}
# The eighth token is behind the border of `phi3`.
GREEDY = {"do_sample": False, "min_new_tokens": 8, "max_new_tokens": 8, "use_cache": True}
WAYS: tuple[dict[str, Any], ...] = (
    PROMPT,
    PADDED,
    {**PROMPT, "num_beams": 2},
    {**PROMPT, "prompt_lookup_num_tokens": 2},
)


def tiny_config(kind: str) -> PreTrainedConfig:
    """A small configuration of this type."""
    config_class, own = CONFIG_MAPPING[kind], OWN.get(kind, {})
    if kind in NOT_A_TEXT_DECODER:
        return config_class(**own)
    fields = {name: value for name, value in TINY.items() if name in config_class.__dataclass_fields__}
    return config_class(**{**fields, **own})


def tiny_model(config: PreTrainedConfig) -> torch.nn.Module:
    """A stock model whose text is no repetition of one token."""
    model = AutoModelForCausalLM.from_config(config).eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            size = 1 if "embed" in name or "wte" in name else parameter[0].numel()
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / size**0.5)
    return model


def written(model, **arguments) -> list[list[int]] | str:
    """The tokens that a model writes, or the beginning of the error that it raises."""
    try:
        return model.generate(**GREEDY | arguments).tolist()
    except Exception as error:
        return repr(error).replace(type(model).__name__, "")[:80]


@pytest.mark.parametrize(
    "kind", [kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS]
)
@torch.no_grad()
def test_logits_and_text_are_those_of_the_language_model_or_it_is_refused(kind):
    torch.manual_seed(0)
    config = tiny_config(kind)
    if kind in NOT_A_TEXT_DECODER:
        with pytest.raises(ValueError, match=f"of type '{kind}', which transformers itself does not have, or which"):
            EmotionModulatedConfig(text_config=config)
        return
    stock, fields = tiny_model(config), {"text_config": config, "num_emotions": 3}
    if kind in LAYERS_NOT_FOUND:
        with pytest.raises(
            ValueError, match=f"of a '{kind}' model, whose layers, or the norms in them, are not found"
        ):
            EmotionModulatedForCausalLM(EmotionModulatedConfig(**fields), stock)
        return
    model = EmotionModulatedForCausalLM(EmotionModulatedConfig(**fields), copy.deepcopy(stock)).eval()
    ids = PROMPT["input_ids"]
    expected = stock(ids).logits
    assert torch.equal(model(ids, emotion_ids=torch.tensor([1])).logits, expected)
    for way in WAYS:
        emotions = torch.arange(1, 1 + len(way["input_ids"]))
        assert written(model, **way, emotion_ids=emotions) == written(stock, **way)
    torch.nn.init.normal_(model.emotion_modulation.output_weight)
    emotion = {"emotion_ids": torch.tensor([1])}
    assert (model(ids, **emotion).logits - expected).abs().max() > 1e-3
    if written(stock, **PROMPT) == written(stock, **PROMPT | {"use_cache": False}):
        assert written(model, **PROMPT, **emotion) == written(model, **PROMPT, **emotion, use_cache=False)
