# SPDX-License-Identifier: Apache-2.0
"""Emotion of every utterance of a dialogue: BiLSTM, positional encoding and multi-head self-attention over utterances.

Shapes: B dialogues, U utterances, L tokens, D utterance vector, H LSTM state, S = 2H (H if causal), C labels.
"""

import copy
import inspect
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F
from transformers import MODEL_MAPPING, AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.masking_utils import create_bidirectional_mask, create_causal_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.processing_utils import Unpack
from transformers.utils import ModelOutput, TransformersKwargs
from transformers.utils.generic import can_return_tuple, merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from .configuration_dialogue_bilstm import DialogueBiLSTMConfig, nested_config


# Tokens that the utterance encoder reads in one call on the processor: enough that its products are at full speed.
TOKENS_PER_CALL = 1024


@dataclass
class DialogueBiLSTMModelOutput(ModelOutput):
    r"""
    Args:
        last_hidden_state (`torch.FloatTensor`): (B, U, S), the classifier's input.
        utterance_embeds (`torch.FloatTensor`): (B, U, D), the vectors of the utterances, given or encoded.
        attentions: with `output_attentions`, attention between utterances, one tensor (B, heads, U, U); padding has 0.
    """

    last_hidden_state: torch.FloatTensor | None = None
    utterance_embeds: torch.FloatTensor | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None


@dataclass
class DialogueEmotionOutput(ModelOutput):
    r"""
    Args:
        loss (`torch.FloatTensor`, *optional*): scalar, when `labels` are given.
        logits (`torch.FloatTensor`): (B, U, C), before the softmax.
        attentions: as in [`DialogueBiLSTMModelOutput`].
    """

    loss: torch.FloatTensor | None = None
    logits: torch.FloatTensor | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None


# Order


# Copied from modeling_roberta_esa.real_positions
def real_positions(mask: torch.Tensor) -> torch.Tensor:
    """(B, L), 0 at padding -> (B, L) int64: the position of each real token among those of its row, wherever padding stands."""
    return ((mask != 0).cumsum(dim=-1) - 1).clamp(min=0)


# Copied from modeling_roberta_esa.sinusoidal_encoding
def sinusoidal_encoding(length: int, size: int, *, like: torch.Tensor) -> torch.Tensor:
    """
    PE(pos, 2i) = sin(pos / 10000^(2i/size)), PE(pos, 2i+1) the cosine (Vaswani et al. 2017): (length, size), computed in float32,
    then given the dtype and device of `like`.
    """
    positions = torch.arange(length, device=like.device, dtype=torch.float32)
    even = torch.arange(0, size, 2, device=like.device, dtype=torch.float32)
    angles = positions[:, None] * torch.pow(10000.0, -even / size)  # (length, ⌈size/2⌉)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :size].to(like.dtype)


# Copied from modeling_label_aware.real_first
def real_first(mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Orders that move padding behind the real tokens and back, (B, L) each: `states.gather(1, there)` has the real tokens first, and
    `.gather(1, back)` of that is `states` again. Tokens keep their order.
    """
    real = mask != 0
    back = torch.where(real, real.cumsum(dim=-1), real.sum(dim=-1, keepdim=True) + (~real).cumsum(dim=-1)) - 1
    places = torch.arange(back.shape[1], device=back.device).expand_as(back)
    return torch.zeros_like(back).scatter(1, back, places), back


# Copied from modeling_label_aware.reordered
def reordered(states: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """
    States (B, L) or (B, L, d), order (B, L) -> states of the same shape: place t gets what was at `order[:, t]`. States of one row
    stand for all rows.
    """
    states, order = states.expand(order.shape[0], *states.shape[1:]), order.to(states.device)
    return states.gather(1, order if states.dim() == 2 else order[..., None].expand_as(states))


# Copied from modeling_label_aware.masked_mean
def masked_mean(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """(N, L, D), (N, L) -> (N, D), the mean over real tokens; 0 for a row without any."""
    weights = mask.to(states)[:, None]  # (N, 1, L)
    if states.dtype == torch.float16:  # which could not hold the sum over thousands of tokens
        return ((weights / weights.sum(dim=-1, keepdim=True).clamp(min=1)) @ states).squeeze(1)
    return (weights @ states).squeeze(1) / weights.sum(dim=-1).clamp(min=1)


# Layers


def run_lstm(lstm: nn.LSTM, states: torch.Tensor) -> torch.Tensor:
    """(B, T, input_size) -> (B, T, H). Switches off bfloat16 autocast on a CPU, where torch cannot train it without AVX-512."""
    if states.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
        with torch.autocast("cpu", enabled=False):
            return lstm(states.to(lstm.weight_ih_l0.dtype))[0]
    return lstm(states)[0]


class BiLSTM(nn.Module):
    """
    Eqs. 1-3 over padded rows. Each direction reads the real states first, the backward direction from the last on. Rows are
    reordered by gather, so that neither direction sees padding; packed sequences could not be exported.
    """

    def __init__(self, input_size: int, hidden_size: int, causal: bool):
        super().__init__()
        self.forward_lstm = nn.LSTM(input_size, hidden_size, batch_first=True)
        self.backward_lstm = None if causal else nn.LSTM(input_size, hidden_size, batch_first=True)

    def forward(self, states, mask):
        """(B, T, input_size), (B, T) -> (B, T, 2H), or (B, T, H) if causal."""
        there, back = real_first(mask)
        output = self.run(self.forward_lstm, states, there, back)
        if self.backward_lstm is None:
            return output
        real = mask != 0
        back = torch.where(real, real.sum(dim=-1, keepdim=True) - 1 - back, back)
        there = torch.zeros_like(back).scatter(
            1, back, torch.arange(back.shape[1], device=back.device).expand_as(back)
        )
        return torch.cat([output, self.run(self.backward_lstm, states, there, back)], dim=-1)

    @staticmethod
    def run(lstm, states, there, back):
        """The outputs of an LSTM that reads in step t the state at `there[row, t]`, so the state at (row, t) in step `back[row, t]`."""
        read = run_lstm(lstm, reordered(states, there))
        # Gathered with time first, as in memory: in half precision products in another layout would be rounded differently.
        read, order = read.transpose(0, 1), back.T[..., None]
        return read.gather(0, order.expand_as(read)).transpose(0, 1)


class WordBiLSTM(nn.Module):
    """Encodes an utterance from its words: embeddings, BiLSTM, mean over the real tokens."""

    def __init__(self, config: DialogueBiLSTMConfig):
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.utterance_size, padding_idx=config.pad_token_id)
        self.lstm = BiLSTM(config.utterance_size, config.utterance_size // 2, causal=False)

    def forward(self, input_ids, attention_mask):
        """Ids and mask (N, L) -> vectors (N, D)."""
        return masked_mean(self.lstm(self.word_embeddings(input_ids), attention_mask), attention_mask)


def eager_attention_forward(module, query, key, value, attention_mask, scaling, dropout=0.0, **kwargs):
    weights = query @ key.transpose(2, 3) * scaling
    if attention_mask is not None:
        weights = weights + attention_mask
    # At least float32, and no less than the model's own type.
    weights = weights.softmax(dim=-1, dtype=torch.promote_types(query.dtype, torch.float32)).to(query.dtype)
    weights = F.dropout(weights, p=dropout, training=module.training)
    return (weights @ value).transpose(1, 2).contiguous(), weights


def of_own_attention(config: DialogueBiLSTMConfig) -> DialogueBiLSTMConfig:
    """The configuration of the attention over utterances: "sdpa" where the utterance encoder has flash or flex attention."""
    name = config._attn_implementation
    if "flash" not in name and "flex" not in name:
        return config
    own = copy.copy(config)
    own._attn_implementation_internal = "sdpa"  # the attribute without "internal" is also the encoder's
    return own


PROJECTIONS = ("query", "key", "value", "out_proj")  # names of the attention's projections

# Attention and classifier hold their weights themselves: for token classification PEFT would attach LoRA to each nn.Linear, even
# in modules that it trains and saves whole, and could not load it again.


class DialogueAttention(nn.Module):
    """Eqs. 4-6: multi-head self-attention over utterances, with residual connection and LayerNorm."""

    def __init__(self, config: DialogueBiLSTMConfig):
        super().__init__()
        self.config = config
        size = config.context_size
        self.head_size = size // config.num_attention_heads
        self.scaling = self.head_size**-0.5
        self.is_causal = config.causal
        self.dropout = config.attention_probs_dropout_prob
        for name in PROJECTIONS:
            self.register_parameter(f"{name}_weight", nn.Parameter(torch.empty(size, size)))
            self.register_parameter(f"{name}_bias", nn.Parameter(torch.empty(size)))
        self.LayerNorm = nn.LayerNorm(size, eps=config.layer_norm_eps) if config.attention_residual else None

    def project(self, name: str, states):
        """(B, U, S) -> (B, U, S)."""
        return F.linear(states, getattr(self, f"{name}_weight"), getattr(self, f"{name}_bias"))

    def additive_mask(self, mask, states):
        """The mask of any attention implementation, turned into one to add to the scores; None if everything is visible."""
        if mask is None and self.is_causal:
            mask = torch.ones(2 * states.shape[1:2], dtype=torch.bool, device=states.device).tril()  # (U, U)
        if mask is None or mask.dtype != torch.bool:
            return mask
        return torch.zeros_like(mask, dtype=states.dtype).masked_fill(~mask, torch.finfo(states.dtype).min)

    def forward(self, states, attention_mask, **kwargs):
        """(B, U, S) -> (B, U, S), attention (B, heads, U, U) or None."""
        shape = (*states.shape[:-1], -1, self.head_size)
        query, key, value = (self.project(name, states).view(shape).transpose(1, 2) for name in PROJECTIONS[:3])
        implementation = of_own_attention(self.config)._attn_implementation
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(implementation, eager_attention_forward)
        if kwargs.pop("output_attentions", None) or self.config.output_attentions:
            attend, attention_mask = eager_attention_forward, self.additive_mask(attention_mask, states)
        output, attention = attend(
            self,
            query,
            key,
            value,
            attention_mask,
            dropout=self.dropout if self.training else 0.0,
            scaling=self.scaling,
            **kwargs,
        )
        output = self.project("out_proj", output.reshape(states.shape))
        return (output if self.LayerNorm is None else self.LayerNorm(states + output)), attention


class UtteranceClassifier(nn.Module):
    """A linear layer: (B, U, S) -> (B, U, C)."""

    def __init__(self, config: DialogueBiLSTMConfig):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.num_labels, config.context_size))
        self.bias = nn.Parameter(torch.empty(config.num_labels))

    def forward(self, states):
        return F.linear(states, self.weight, self.bias)


class DialogueContext(nn.Module):
    """Utterances in the context of the others: speakers, positions, BiLSTM layers, attention."""

    def __init__(self, config: DialogueBiLSTMConfig):
        super().__init__()
        self.config = config
        size = config.utterance_size
        self.speaker_embeddings = nn.Embedding(config.num_speakers, size) if config.num_speakers else None
        sizes = [size, *[config.context_size] * config.num_hidden_layers][: config.num_hidden_layers]
        self.layers = nn.ModuleList(BiLSTM(size, config.hidden_size, config.causal) for size in sizes)
        self.attention = DialogueAttention(config) if config.num_attention_heads else None
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, utterance_embeds, utterance_mask, speaker_ids, **kwargs):
        """(B, U, D), (B, U), (B, U) or None -> (B, U, S)."""
        states = utterance_embeds
        if speaker_ids is not None:
            states = states + self.speaker_embeddings(speaker_ids).to(states.device)
        encoded_at = None if self.config.positional_encoding == "none" else self.config.positional_encoding_at
        positions = real_positions(utterance_mask)  # (B, U)
        if encoded_at == "input":
            states = states + sinusoidal_encoding(*states.shape[1:], like=states)[positions.to(states.device)]
        states = self.dropout(states)
        for layer in self.layers:
            states = layer(states, utterance_mask)  # (B, U, S)
        if self.attention is None:
            return states
        if encoded_at == "attention":
            states = states + sinusoidal_encoding(*states.shape[1:], like=states)[positions.to(states.device)]
        config = of_own_attention(self.config)
        if config.causal:
            mask = create_causal_mask(config, states, utterance_mask, past_key_values=None)
        else:
            mask = create_bidirectional_mask(config, states, utterance_mask)
        return self.attention(states, mask, **kwargs)[0]


# Models

# Copied from modeling_label_aware.NEW_MODULES
NEW_MODULES = ("score", "classifier", "pooler")


# Copied from modeling_label_aware.refuse_untrained
def refuse_untrained(model: nn.Module) -> None:
    """
    ValueError if PEFT trains adapters and leaves weights of `NEW_MODULES` as they started, at random: `_init_weights` marks modules
    whose weights came from no checkpoint (`is_new`).
    """
    if not getattr(model, "peft_config", None) or not any(p.requires_grad for p in model.parameters()):
        return
    lacking = set()
    for name, module in model.named_modules():
        parts = [part for part in name.split(".") if part in NEW_MODULES]
        if parts and getattr(module, "is_new", False) and "original_module" not in name:
            if not all(parameter.requires_grad for parameter in module.parameters(recurse=False)):
                lacking.add(parts[0])
    if lacking:
        raise ValueError(
            f"the adapter neither trains nor saves new weights of the model: load the model anew, and name {sorted(lacking)} in the "
            "`modules_to_save` of the adapter's configuration."
        )


# Copied from modeling_label_aware.without_pooler
def without_pooler(config: PreTrainedConfig) -> dict[str, bool]:
    """The argument that leaves out a text encoder's pooler, if it may have one: nothing here would read or train it."""
    classes = MODEL_MAPPING[type(config)]
    classes = classes if isinstance(classes, list | tuple) else [classes]
    has_pooler = all("add_pooling_layer" in inspect.signature(cls.__init__).parameters for cls in classes)
    return {"add_pooling_layer": False} if has_pooler else {}


# Copied from modeling_label_aware.build_encoder
def build_encoder(config: PreTrainedConfig) -> PreTrainedModel:
    """A text encoder without loaded weights; ValueError if it reads no token ids, or takes no `attention_mask`."""
    # The dtype of the whole model, not the one that the configuration of the encoder's checkpoint records.
    encoder = AutoModel.from_config(config, dtype=torch.get_default_dtype(), **without_pooler(config))
    if encoder.main_input_name != "input_ids" or "attention_mask" not in inspect.signature(encoder.forward).parameters:
        raise ValueError(
            f"`encoder_config` is of a {encoder.config.model_type!r} model, which does not read `input_ids` with an `attention_mask`: "
            "take a text encoder that does."
        )
    if not encoder._no_split_modules:  # transformers does not say what must be on one device: all of it
        encoder._no_split_modules = {type(encoder).__name__}
    return encoder


# Copied from modeling_label_aware.over_encoder
def over_encoder(cls, encoder, dtype: torch.dtype | str, arguments: dict):
    """A new model of the class `cls` over a pretrained text encoder, see `from_encoder_pretrained`."""
    names = {*cls.config_class.__dataclass_fields__, "num_labels"}
    fields = {name: arguments.pop(name) for name in list(arguments) if name in names}
    attention = {name: arguments.pop(name) for name in ["attn_implementation"] if name in arguments}
    arguments["trust_remote_code"] = False
    nested_config(PreTrainedConfig.get_config_dict(encoder, **arguments)[0], "encoder_config")  # which may refuse it
    saved = AutoConfig.from_pretrained(encoder, **arguments)
    config = cls.config_class(encoder_config=saved, **fields)
    with torch.device("meta"):  # an encoder that does not fit is refused before its weights are loaded
        build_encoder(config.encoder_config)
    # Loaded before the model is made, which gets its dtype: `to` would also round rotary frequencies, which stay in float32.
    pooler = without_pooler(config.encoder_config)
    loaded, found = AutoModel.from_pretrained(encoder, dtype=dtype, output_loading_info=True, **pooler, **arguments)
    if found["missing_keys"]:
        raise ValueError(
            f"{str(encoder)!r} lacks weights of its {saved.model_type!r} model: {sorted(found['missing_keys'])[:3]}."
        )
    model = cls._from_config(config, dtype=loaded.dtype, **attention)
    model.base_model.get_encoder().load_state_dict(loaded.state_dict())
    return model


class DialogueBiLSTMPreTrainedModel(PreTrainedModel):
    config: DialogueBiLSTMConfig
    config_class = DialogueBiLSTMConfig
    base_model_prefix = "dialogue"
    main_input_name = "utterance_embeds"  # of models over vectors
    _no_split_modules = ["BiLSTM", "DialogueAttention"]
    _supports_sdpa = True
    _supports_flash_attn = True  # the utterance encoder itself says whether it supports these two
    _supports_flex_attn = True
    _supports_attention_backend = True
    _can_record_outputs = {"attentions": DialogueAttention}

    def __init__(self, config: DialogueBiLSTMConfig):
        super().__init__(config)
        if config.utterance_encoder != "vectors":
            self.main_input_name = "input_ids"

    @torch.no_grad()
    def _init_weights(self, module):
        super()._init_weights(module)
        module.is_new = True
        if isinstance(module, nn.LSTM):  # repeats torch's own start, which is lost on the meta device
            bound = module.hidden_size**-0.5
            for parameter in module.parameters():
                init.uniform_(parameter, -bound, bound)
        elif isinstance(module, DialogueAttention | UtteranceClassifier):
            for name, parameter in module.named_parameters(recurse=False):
                if name.endswith("bias"):
                    init.zeros_(parameter)
                else:
                    init.normal_(parameter, mean=0.0, std=self.config.initializer_range)

    def freeze_encoder(self):
        """Switch off gradients for the pretrained encoder, if the configuration says so."""
        if self.config.utterance_encoder == "model" and self.config.freeze_encoder:
            self.base_model.utterance_encoder.requires_grad_(False)

    # Overridden because weights need gradients again once they are loaded, and nothing is called after that.
    @classmethod
    def from_pretrained(cls, *args, **kwargs):
        loaded = super().from_pretrained(*args, **kwargs)
        (loaded[0] if isinstance(loaded, tuple) else loaded).freeze_encoder()
        return loaded

    @classmethod
    def from_encoder_pretrained(cls, encoder, dtype: torch.dtype | str = torch.float32, **arguments):
        """
        Make a new model over a pretrained encoder of utterances, as [`LabelAwarePreTrainedModel.from_encoder_pretrained`] does over one
        of texts.
        """
        if arguments.setdefault("utterance_encoder", "model") != "model":
            raise ValueError(
                f"`utterance_encoder` must be 'model' over a pretrained encoder, got {arguments['utterance_encoder']!r}."
            )
        return over_encoder(cls, encoder, dtype, arguments)

    def train(self, mode: bool = True):
        if mode:
            refuse_untrained(self)
        return super().train(mode)


class DialogueBiLSTMModel(DialogueBiLSTMPreTrainedModel):
    """Utterances of a dialogue in the context of the others. Returns a [`DialogueBiLSTMModelOutput`]."""

    def __init__(self, config: DialogueBiLSTMConfig):
        super().__init__(config)
        self.utterance_encoder = None
        if config.utterance_encoder == "model":
            self.utterance_encoder = build_encoder(config.encoder_config)
        elif config.utterance_encoder == "bilstm":
            self.utterance_encoder = WordBiLSTM(config)
        self.score = DialogueContext(config)
        self.supports_gradient_checkpointing = getattr(
            self.utterance_encoder, "supports_gradient_checkpointing", False
        )
        self.post_init()
        self.freeze_encoder()

    def train(self, mode: bool = True):
        super().train(mode)
        # A frozen encoder has no dropout: its vectors can be computed once. One with adapters (LoRA) is trained.
        if self.utterance_encoder is not None and self.config.utterance_encoder == "model":
            self.utterance_encoder.train(mode and any(p.requires_grad for p in self.utterance_encoder.parameters()))
        return self

    def get_encoder(self):
        return self.utterance_encoder

    def get_input_embeddings(self):
        if self.config.utterance_encoder == "model":
            return self.utterance_encoder.get_input_embeddings()
        return self._words().word_embeddings

    def set_input_embeddings(self, value):
        if self.config.utterance_encoder == "model":
            self.utterance_encoder.set_input_embeddings(value)
        else:
            self._words().word_embeddings = value

    def _words(self) -> WordBiLSTM:
        if self.utterance_encoder is None:
            raise NotImplementedError(
                "the model has no token embeddings: `utterance_encoder` is 'vectors', and 'model' and 'bilstm' read tokens."
            )
        return self.utterance_encoder

    def encode_utterances(self, input_ids: torch.LongTensor, attention_mask: torch.Tensor) -> torch.FloatTensor:
        """Ids and mask (N, L) -> vectors (N, D) of N utterances; 0 for a row without real tokens."""
        if self.utterance_encoder is None:
            raise ValueError(
                "the model has no utterance encoder (`utterance_encoder='vectors'`): pass `utterance_embeds` instead of "
                "`input_ids`."
            )
        if not torch.compiler.is_compiling() and not len(input_ids):
            raise ValueError("there must be at least one dialogue and one utterance, got none.")
        # Padding moves behind the tokens, where it changes no encoder's positions.
        order = real_first(attention_mask)[0]
        input_ids, attention_mask = input_ids.gather(1, order), attention_mask.gather(1, order)
        if self.config.utterance_encoder == "bilstm":
            return self.utterance_encoder(input_ids, attention_mask)
        outputs = self.utterance_encoder(input_ids=input_ids, attention_mask=attention_mask, return_dict=True)
        return masked_mean(outputs.last_hidden_state, attention_mask)

    def _encode_real_utterances(self, input_ids: torch.LongTensor, attention_mask: torch.Tensor) -> torch.FloatTensor:
        """As `encode_utterances`, but the encoder reads no row without tokens, and rows of similar lengths together."""
        order = real_first(attention_mask)[0]
        input_ids, attention_mask = input_ids.gather(1, order), attention_mask.gather(1, order)
        lengths = (attention_mask != 0).sum(dim=-1)
        rows = lengths.argsort(stable=True)
        rows = rows[lengths[rows] > 0]
        if not len(rows):
            return self.encode_utterances(input_ids, attention_mask)
        vectors = []
        for group in rows.split(groups_of_similar_lengths(lengths[rows].tolist())):
            longest = int(lengths[group[-1]])
            vectors.append(self.encode_utterances(input_ids[group, :longest], attention_mask[group, :longest]))
        found = torch.cat(vectors)
        return found.new_zeros(len(input_ids), found.shape[1]).index_copy(0, rows.to(found.device), found)

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        utterance_embeds: torch.FloatTensor | None = None,
        utterance_mask: torch.Tensor | None = None,
        speaker_ids: torch.LongTensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> DialogueBiLSTMModelOutput:
        r"""
        Args:
            input_ids, attention_mask: (B, U, L), the tokens of the utterances and which of them are real.
            utterance_embeds: (B, U, D), the utterances as vectors, instead of `input_ids`.
            utterance_mask: (B, U), 1 for real utterances, 0 for padding, which may be anywhere. Default: all are real.
            speaker_ids: (B, U) in [0, `num_speakers`), the number of the speaker within the dialogue.

        Raises:
            ValueError: both or neither of `input_ids` and `utterance_embeds`; shapes that do not agree; `speaker_ids` without
                `num_speakers`, or the other way round.
        """
        if (input_ids is None) == (utterance_embeds is None):
            raise ValueError("Pass exactly one of `input_ids` and `utterance_embeds`.")
        if utterance_embeds is None:
            assert input_ids is not None  # one of the two is given
            if input_ids.dim() != 3:
                raise ValueError(
                    f"`input_ids` must have shape (dialogues, utterances, tokens), got {tuple(input_ids.shape)}."
                )
            if attention_mask is None:
                attention_mask = torch.ones_like(input_ids)
            elif attention_mask.shape != input_ids.shape:
                raise ValueError(
                    f"`attention_mask` must have the shape {tuple(input_ids.shape)} of `input_ids`, got {tuple(attention_mask.shape)}."
                )
            # On a GPU it would wait for the lengths. FSDP needs as many calls of the encoder in every process.
            several_processes = torch.distributed.is_available() and torch.distributed.is_initialized()
            on_cpu = attention_mask.device.type == "cpu" and not torch.compiler.is_compiling()
            by_length = on_cpu and not several_processes
            encode = self._encode_real_utterances if by_length else self.encode_utterances
            flat = encode(input_ids.flatten(0, 1), attention_mask.flatten(0, 1))
            utterance_embeds = flat.unflatten(0, input_ids.shape[:2])  # (B, U, D)
        elif utterance_embeds.dim() != 3 or utterance_embeds.shape[-1] != self.config.utterance_size:
            raise ValueError(
                f"`utterance_embeds` must have shape (dialogues, utterances, {self.config.utterance_size}), got "
                f"{tuple(utterance_embeds.shape)}."
            )
        shape = utterance_embeds.shape[:2]
        for name, value in (("utterance_mask", utterance_mask), ("speaker_ids", speaker_ids)):
            if value is not None and value.shape != shape:
                raise ValueError(f"`{name}` must have shape {tuple(shape)}, got {tuple(value.shape)}.")
        if (speaker_ids is None) != (self.config.num_speakers == 0):
            raise ValueError(
                f"`speaker_ids` {'are missing' if speaker_ids is None else 'are given'} and `num_speakers` is "
                f"{self.config.num_speakers}: a model with speakers needs them, one without takes none."
            )
        if utterance_mask is None:
            utterance_mask = torch.ones(shape, dtype=torch.long, device=utterance_embeds.device)

        if not torch.compiler.is_compiling() and not all(shape):
            raise ValueError(f"there must be at least one dialogue and one utterance, got {tuple(shape)}.")
        states = self.score(utterance_embeds, utterance_mask, speaker_ids, **kwargs)
        return DialogueBiLSTMModelOutput(last_hidden_state=states, utterance_embeds=utterance_embeds)


def groups_of_similar_lengths(lengths: list[int]) -> list[int]:
    """Ascending lengths -> the sizes of consecutive groups of at most `TOKENS_PER_CALL` tokens, padding included."""
    sizes = [0]
    for length in lengths:
        if sizes[-1] and (sizes[-1] + 1) * length > TOKENS_PER_CALL:
            sizes.append(0)
        sizes[-1] += 1
    return sizes


class DialogueBiLSTMForEmotionRecognition(DialogueBiLSTMPreTrainedModel):
    """The emotion of every utterance. Returns a [`DialogueEmotionOutput`]."""

    def __init__(self, config: DialogueBiLSTMConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.dialogue = DialogueBiLSTMModel(config)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.classifier = UtteranceClassifier(config)
        self.supports_gradient_checkpointing = self.dialogue.supports_gradient_checkpointing
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        utterance_embeds: torch.FloatTensor | None = None,
        utterance_mask: torch.Tensor | None = None,
        speaker_ids: torch.LongTensor | None = None,
        labels: torch.LongTensor | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> DialogueEmotionOutput:
        r"""
        Args:
            labels: (B, U) class ids; -100 for no label.
            num_items_in_batch: number of labels over all accumulation steps, by which the loss is divided; default: the
                labels of this batch.

        For the other arguments see [`DialogueBiLSTMModel`].
        """
        outputs = self.dialogue(
            input_ids=input_ids,
            attention_mask=attention_mask,
            utterance_embeds=utterance_embeds,
            utterance_mask=utterance_mask,
            speaker_ids=speaker_ids,
            return_dict=True,
            **kwargs,
        )
        logits = self.classifier(self.dropout(outputs.last_hidden_state))  # (B, U, C)
        loss = None
        if labels is not None:
            if labels.shape != logits.shape[:2]:
                raise ValueError(f"`labels` must have shape {tuple(logits.shape[:2])}, got {tuple(labels.shape)}.")
            labels = labels.to(logits.device, torch.long)
            weights = self.config.class_weights
            if weights is not None:
                weights = torch.tensor(weights, dtype=logits.dtype, device=logits.device)
            total = F.cross_entropy(
                logits.flatten(0, 1),
                labels.flatten(),
                weight=weights,
                ignore_index=-100,
                reduction="sum",
            )
            if num_items_in_batch is None:
                num_items_in_batch = (labels != -100).sum()
            # Batches of dialogues without a label have none to divide by.
            loss = total / torch.as_tensor(num_items_in_batch, device=total.device).clamp(min=1)
        return DialogueEmotionOutput(loss=loss, logits=logits, attentions=outputs.attentions)


__all__ = ["DialogueBiLSTMForEmotionRecognition", "DialogueBiLSTMModel"]
