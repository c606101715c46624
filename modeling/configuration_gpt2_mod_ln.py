# SPDX-License-Identifier: Apache-2.0
"""Configuration of the GPT-2 encoder-decoder with modulated layer norms."""

from typing import Literal

from huggingface_hub.dataclasses import strict
from transformers import GPT2Config

from .emotion_fields import set_emotion_defaults, validate_emotion_fields
from .fitting_checkpoints import refuse_other_checkpoints


@strict
class GPT2ModLNConfig(GPT2Config):
    r"""
    Everything of [`GPT2Config`], for both sides, and:

    Args:
        num_emotions (`int`, defaults to 64):
            Number E of emotions.
        emotions (`list[str]`, *optional*):
            Their names, or emojis.
        modulation (`"residual"` or `"replace"`, defaults to `"residual"`):
            Scale and shift of a norm: its own plus the emotion's, or (eq. 1) only the emotion's.
        modulate_encoder, modulate_decoder (`bool`, default to `True`):
            The sides whose norms follow the emotion.
        modulated_norms (`list[str]`, *optional*, defaults to `["ln_1", "ln_cross_attn", "ln_2", "ln_f"]`):
            The norms that follow the emotion.
        modulation_initializer_range (`float`, defaults to 0.2):
            Standard deviation of the matrices W₁ at the start.
        decoder_start_token_id (`int`, *optional*, defaults to `bos_token_id`):
            The token that every reply starts with.
        context_separator_token_id (`int`, *optional*, defaults to `eos_token_id`):
            The token that every context ends with: [UNK], which is GPT-2's end of text.
        context_start_token_id (`int`, *optional*):
            The token that every context starts with, if any.
        emotion_token_ids (`list[int]`, *optional*):
            A token for each emotion, put in front of the context: so a model without modulated norms learns the emotion.

    `pad_token_id` defaults to `eos_token_id`.

    | what the paper leaves open, and where ours differs | ours |
    |---|---|
    | what has its own pair of MLPs (the index of eqs. 1-3 is the layer) | each norm |
    | divisor (σ + ε in eq. 1) | √(var + ε), so that pretrained weights mean the same |
    | where the bias b stands (β in eq. 3, γ in the text) | in β; there is no other bias |
    | starts | W₁ N(0, `modulation_initializer_range`²), W₂ and b 0; in `"replace"` one hidden unit gives the start of γ and β |
    | norms that are modulated | all of both sides |
    | what cross-attention reads | all states of the encoder; its weights are new, N(0, `initializer_range`²) |
    | head | tied to the decoder's word embeddings |
    """

    model_type = "gpt2-mod-ln"
    base_model_type = "gpt2"  # the model type of checkpoints that can be wrapped
    norm_names = ("ln_1", "ln_cross_attn", "ln_2", "ln_f")
    keys_to_ignore_at_inference = [
        "past_key_values",
        "decoder_hidden_states",
        "decoder_attentions",
        "cross_attentions",
        "encoder_last_hidden_state",
        "encoder_hidden_states",
        "encoder_attentions",
    ]

    num_emotions: int = 64
    emotions: list[str] | None = None
    modulation: Literal["residual", "replace"] = "residual"
    modulate_encoder: bool = True
    modulate_decoder: bool = True
    modulated_norms: list[str] | None = None
    modulation_initializer_range: float | int = 0.2
    decoder_start_token_id: int | None = None
    context_separator_token_id: int | None = None
    context_start_token_id: int | None = None
    emotion_token_ids: list[int] | None = None
    is_encoder_decoder: bool = True

    def __post_init__(self, **kwargs):
        set_emotion_defaults(self)
        super().__post_init__(**kwargs)
        # The code lies beside the weights. Set here and not read from a loaded config, whose entries carry the name of
        # the repository they came from and would tie a fine-tuned copy to it.
        self.auto_map = {
            "AutoConfig": "configuration_gpt2_mod_ln.GPT2ModLNConfig",
            "AutoModel": "modeling_gpt2_mod_ln.GPT2ModLNModel",
            "AutoModelForSeq2SeqLM": "modeling_gpt2_mod_ln.GPT2ModLNForConditionalGeneration",
        }
        self.custom_pipelines = {
            "emotional-response": {
                "impl": "pipeline_emotional_response.EmotionalResponsePipeline",
                "pt": ["AutoModelForSeq2SeqLM"],
            }
        }

    @classmethod
    def from_dict(cls, config_dict, **kwargs):
        remedy = ""
        if config_dict.get("model_type") == cls.base_model_type:
            remedy = (
                "wrap it with `from_encoder_decoder_pretrained`, a method of the ...ForConditionalGeneration class"
            )
        refuse_other_checkpoints(config_dict, [cls.model_type], remedy)
        # Merged here, so that the checks see the arguments of `from_pretrained` and not only the saved fields.
        given = {name: kwargs.pop(name) for name in list(kwargs) if name in cls.__dataclass_fields__}
        return super().from_dict({**config_dict, **given}, **kwargs)

    @staticmethod
    def token_ids(tokenizer) -> dict[str, int | None]:
        """The special tokens of a tokenizer, as fields of this configuration."""
        eos = tokenizer.eos_token_id
        start = eos if tokenizer.bos_token_id is None else tokenizer.bos_token_id
        return {
            "bos_token_id": start,
            "eos_token_id": eos,
            "pad_token_id": eos if tokenizer.pad_token_id is None else tokenizer.pad_token_id,
            "decoder_start_token_id": start,
            "context_separator_token_id": eos if tokenizer.unk_token_id is None else tokenizer.unk_token_id,
        }

    def validate_emotions(self):
        validate_emotion_fields(self)


__all__ = ["GPT2ModLNConfig"]
