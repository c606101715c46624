# SPDX-License-Identifier: Apache-2.0
"""Emotion of every utterance of a dialogue: BiLSTM, positional encoding and multi-head self-attention over utterances.

Shapes: B dialogues, U utterances, L tokens, D utterance vector, H LSTM state, S = 2H (H if causal), C labels.
"""

from dataclasses import dataclass
from os import PathLike
from typing import Any, Self

import torch
from torch import nn
from torch.nn import functional as F
from transformers import initialization as init
from transformers.modeling_outputs import TokenClassifierOutput
from transformers.modeling_utils import EmbeddingAccessMixin
from transformers.processing_utils import Unpack
from transformers.utils import ModelOutput, TransformersKwargs
from transformers.utils.generic import can_return_tuple, merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .common import (
    AdaptedModel,
    build_encoder,
    check_shape,
    masked_mean,
    over_encoder,
    real_first,
    real_positions,
    reordered,
    sinusoidal_encoding,
    token_loss,
)
from .configuration_dialogue_bilstm import DialogueBiLSTMConfig


# Tokens that the utterance encoder reads in one call on the processor: enough that its products are at full speed.
TOKENS_PER_CALL = 1024


@dataclass
class DialogueBiLSTMModelOutput(ModelOutput):
    r"""
    Args:
        last_hidden_state: (B, U, S), the classifier's input.
        utterance_embeds: (B, U, D), the vectors of the utterances, given or encoded.
        hidden_states: with `output_hidden_states`, (B, U, ·) before the first layer and behind each, in the end `last_hidden_state`.
        attentions: with `output_attentions`, attention between utterances, one tensor (B, heads, U, U); padding has 0.
    """

    last_hidden_state: torch.FloatTensor | None = None
    utterance_embeds: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None


def run_lstm(lstm: nn.LSTM, states: torch.Tensor) -> torch.Tensor:
    """(B, T, input_size) -> (B, T, H). Switches off bfloat16 autocast on a CPU, where torch cannot train it without AVX-512."""
    if states.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
        with torch.autocast("cpu", enabled=False):
            return lstm(states.to(lstm.weight_ih_l0.dtype))[0]
    return lstm(states)[0]


class BiLSTM(nn.Module):
    """Eqs. 1-3 over padded rows. Each direction reads the real states first, by gather: packed sequences could not be exported."""

    def __init__(self, input_size: int, hidden_size: int, causal: bool):
        super().__init__()
        self.forward_lstm = nn.LSTM(input_size, hidden_size, batch_first=True)
        self.backward_lstm = None if causal else nn.LSTM(input_size, hidden_size, batch_first=True)

    def forward(self, states, mask, past=None):
        """(B, T, input_size), (B, T) -> (B, T, 2H), or (B, T, H) if causal."""
        if past is not None:
            output, past[self] = self.forward_lstm(states, past.get(self))
            return output
        there, back = real_first(mask)
        output = self.run(self.forward_lstm, states, there, back)
        if self.backward_lstm is None:
            return output
        real = mask != 0
        back = torch.where(real, real.sum(dim=-1, keepdim=True) - 1 - back, back)
        places = torch.arange(back.shape[1], device=back.device).expand_as(back)
        there = torch.zeros_like(back).scatter(1, back, places)
        return torch.cat([output, self.run(self.backward_lstm, states, there, back)], dim=-1)

    @staticmethod
    def run(lstm, states, there, back):
        """The outputs of an LSTM that reads in step t the state at `there[row, t]`, so the state at (row, t) in step `back[row, t]`."""
        read = run_lstm(lstm, reordered(states, there))
        # Gathered with time first, as in memory: in half precision products in another layout would be rounded differently.
        read, order = read.transpose(0, 1), back.T[..., None]
        return read.gather(0, order.expand_as(read)).transpose(0, 1)


class WordBiLSTM(nn.Module, EmbeddingAccessMixin):
    """Reads the words of an utterance: embeddings, BiLSTM."""

    _input_embed_layer = "word_embeddings"

    def __init__(self, config: DialogueBiLSTMConfig):
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.utterance_size, padding_idx=config.pad_token_id)
        self.lstm = BiLSTM(config.utterance_size, config.utterance_size // 2, causal=False)

    def forward(self, input_ids, attention_mask):
        """Ids and mask (N, L) -> states (N, L, D)."""
        return self.lstm(self.word_embeddings(input_ids), attention_mask)


# What follows holds its weights itself: for token classification PEFT would attach LoRA to each nn.Linear, even in modules that it trains
# and saves whole, and could not load it again.
PROJECTIONS = ("query", "key", "value", "out_proj")


class MultiHead(nn.Module):
    """Eqs. 4-6: multi-head self-attention over utterances, with residual connection and LayerNorm; "eager", or else "sdpa"."""

    def __init__(self, config: DialogueBiLSTMConfig):
        super().__init__()
        self.config, size = config, config.context_size
        self.head_size = size // config.num_attention_heads
        for name in PROJECTIONS:
            self.register_parameter(f"{name}_weight", nn.Parameter(torch.empty(size, size)))
            self.register_parameter(f"{name}_bias", nn.Parameter(torch.empty(size)))
        self.LayerNorm = nn.LayerNorm(size, eps=config.layer_norm_eps) if config.attention_residual else None

    def project(self, name: str, states):
        return F.linear(states, getattr(self, f"{name}_weight"), getattr(self, f"{name}_bias"))

    def forward(self, states, mask, output_attentions=None, past=None, **kwargs):
        """(B, U, S), additive mask (B, 1, 1 or U, U) -> (B, U, S), attention (B, heads, U, U) or None."""
        shape = (*states.shape[:-1], -1, self.head_size)
        query, key, value = (self.project(name, states).view(shape).transpose(1, 2) for name in PROJECTIONS[:3])
        if past is not None:
            if self in past:
                key, value = (torch.cat(pair, dim=2) for pair in zip(past[self], (key, value), strict=True))
            past[self] = key, value
        scaling, dropout = self.head_size**-0.5, self.config.attention_probs_dropout_prob if self.training else 0.0
        wanted = output_attentions or self.config.output_attentions
        if wanted or self.config._attn_implementation == "eager":
            scores = query @ key.transpose(2, 3) * scaling + mask
            exact = torch.promote_types(query.dtype, torch.float32)
            attention = F.dropout(scores.softmax(dim=-1, dtype=exact).to(query.dtype), p=dropout)
            output = attention @ value
        else:
            attention, output = None, F.scaled_dot_product_attention(query, key, value, mask, dropout, scale=scaling)
        output = self.project("out_proj", output.transpose(1, 2).reshape(states.shape))
        return (output if self.LayerNorm is None else self.LayerNorm(states + output)), attention


class UtteranceClassifier(nn.Module):
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
        self.config, size = config, config.utterance_size
        self.speaker_embeddings = nn.Embedding(config.num_speakers, size) if config.num_speakers else None
        sizes = [size, *[config.context_size] * config.num_hidden_layers][: config.num_hidden_layers]
        self.layers = nn.ModuleList(BiLSTM(size, config.hidden_size, config.causal) for size in sizes)
        self.attention = MultiHead(config) if config.num_attention_heads else None
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def at_positions(self, place: str, states, utterance_mask, start: int):
        """States (B, U, ·) with the positional encoding (eqs. 7 and 8), if this is the place for it."""
        if self.config.positional_encoding == "none" or self.config.positional_encoding_at != place:
            return states
        positions = start + real_positions(utterance_mask).to(states.device)  # (B, U)
        return states + sinusoidal_encoding(start + states.shape[1], states.shape[2], like=states)[positions]

    def forward(self, utterance_embeds, utterance_mask, speaker_ids, past=None, **kwargs):
        """(B, U, D), (B, U), (B, U) or None -> (B, U, S)."""
        states, start = utterance_embeds, 0
        if past is not None:
            start, past[self] = past.get(self, 0), past.get(self, 0) + states.shape[1]
        if self.speaker_embeddings is not None:
            states = states + self.speaker_embeddings(speaker_ids).to(states.device)
        states = self.dropout(self.at_positions("input", states, utterance_mask, start))
        for layer in self.layers:
            states = layer(states, utterance_mask, past)  # (B, U, S)
        if self.attention is None:
            return states
        states = self.at_positions("attention", states, utterance_mask, start)
        seen = utterance_mask.to(states.device)[:, None, None] != 0  # (B, 1, 1, U)
        if self.config.causal:
            seen = seen & torch.ones(2 * seen.shape[-1:], dtype=torch.bool, device=seen.device).tril()
        mask = torch.zeros_like(seen, dtype=states.dtype).masked_fill(~seen, torch.finfo(states.dtype).min)
        return self.attention(states, mask, past=past, **kwargs)[0]


class DialogueBiLSTMPreTrainedModel(AdaptedModel):
    config: DialogueBiLSTMConfig
    base_model_prefix = "dialogue"
    main_input_name = "utterance_embeds"  # of models over vectors
    _no_split_modules = ["BiLSTM", "MultiHead"]
    _supports_sdpa = True
    _supports_flash_attn = True  # the utterance encoder itself says whether it supports these two
    _supports_flex_attn = True
    _supports_attention_backend = True
    _can_record_outputs = {"hidden_states": OutputRecorder(BiLSTM, layer_name="layers"), "attentions": MultiHead}

    def __init__(self, config: DialogueBiLSTMConfig):
        super().__init__(config)
        if config.utterance_encoder != "vectors":
            self.main_input_name = "input_ids"

    @torch.no_grad()
    def _init_weights(self, module):
        super()._init_weights(module)
        module.is_new = True
        if isinstance(module, nn.LSTM):  # repeats torch's own start, which is lost on the meta device
            for parameter in module.parameters():
                init.uniform_(parameter, -(module.hidden_size**-0.5), module.hidden_size**-0.5)
        elif isinstance(module, MultiHead | UtteranceClassifier):
            for name, parameter in module.named_parameters(recurse=False):
                if name.endswith("bias"):
                    init.zeros_(parameter)
                else:
                    init.normal_(parameter, std=self.config.initializer_range)

    @classmethod
    def from_pretrained(cls, *args: Any, **kwargs: Any) -> Any:
        """As in every model of transformers."""
        loaded = super().from_pretrained(*args, **kwargs)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        model.base_model.freeze_encoder()  # loaded weights require gradients
        return loaded

    @classmethod
    def from_encoder_pretrained(
        cls, encoder: str | PathLike[str], dtype: torch.dtype | str = torch.float32, **arguments: Any
    ) -> Self:
        """A new model over a pretrained encoder of utterances, as [`LabelAwarePreTrainedModel.from_encoder_pretrained`]."""
        if arguments.setdefault("utterance_encoder", "model") != "model":
            raise ValueError(f"`utterance_encoder` must be 'model', got {arguments['utterance_encoder']!r}.")
        model = over_encoder(cls, encoder, dtype, arguments)
        model.base_model.freeze_encoder()
        return model


class DialogueBiLSTMModel(DialogueBiLSTMPreTrainedModel):
    """Utterances of a dialogue in the context of the others. Returns a [`DialogueBiLSTMModelOutput`]."""

    def __init__(self, config: DialogueBiLSTMConfig):
        super().__init__(config)
        self.utterance_encoder: Any = None
        if config.utterance_encoder == "model":
            self.utterance_encoder = build_encoder(config.encoder_config)
        elif config.utterance_encoder == "bilstm":
            self.utterance_encoder = WordBiLSTM(config)
        self.context = DialogueContext(config)
        self.supports_gradient_checkpointing = getattr(
            self.utterance_encoder, "supports_gradient_checkpointing", False
        )
        self.post_init()
        self.freeze_encoder()

    def freeze_encoder(self) -> None:
        """Freezes a pretrained encoder if the configuration says so. Adapters in it are trained."""
        encoder = self.utterance_encoder
        if self.config.utterance_encoder == "model" and self.config.freeze_encoder:
            if not any(type(module).__module__.startswith("peft.") for module in encoder.modules()):
                encoder.requires_grad_(False)
            self.train(self.training)

    def train(self, mode: bool = True) -> Self:
        """As in torch, but a frozen encoder has no dropout: its vectors can be computed once."""
        super().train(mode)
        if self.config.utterance_encoder == "model":
            self.utterance_encoder.train(mode and any(p.requires_grad for p in self.utterance_encoder.parameters()))
        return self

    def get_encoder(self):
        return self.utterance_encoder

    def get_input_embeddings(self):
        owner = super() if self.utterance_encoder is None else self.utterance_encoder
        return owner.get_input_embeddings()

    def set_input_embeddings(self, value):
        owner = super() if self.utterance_encoder is None else self.utterance_encoder
        owner.set_input_embeddings(value)

    def _encode(
        self, input_ids: torch.LongTensor, attention_mask: torch.Tensor, turn_mask: torch.Tensor
    ) -> torch.FloatTensor:
        """As `encode_utterances`, with padding behind the tokens."""
        if self.utterance_encoder is None:
            raise ValueError("the model has no utterance encoder ('vectors'): pass `utterance_embeds`.")
        if self.config.utterance_encoder == "bilstm":
            states = self.utterance_encoder(input_ids, attention_mask)
        else:
            outputs = self.utterance_encoder(input_ids=input_ids, attention_mask=attention_mask, return_dict=True)
            states = outputs.last_hidden_state
        return masked_mean(states, turn_mask)

    def encode_utterances(
        self, input_ids: torch.LongTensor, attention_mask: torch.Tensor, turn_mask: torch.Tensor | None = None
    ) -> torch.FloatTensor:
        """Ids and masks (N, L) -> vectors (N, D) of N utterances; 0 for a row without real tokens. `turn_mask`: with `context_turns`."""
        order = real_first(attention_mask)[0]  # behind the tokens padding changes no encoder's positions
        arrays = (input_ids, attention_mask, attention_mask if turn_mask is None else turn_mask)
        return self._encode(*(array.gather(1, order) for array in arrays))

    def _encode_real_utterances(
        self, input_ids: torch.LongTensor, attention_mask: torch.Tensor, turn_mask: torch.Tensor
    ) -> torch.FloatTensor:
        """As `encode_utterances`, but the encoder reads no row without tokens, and rows of similar lengths together."""
        order = real_first(attention_mask)[0]
        arrays = tuple(array.gather(1, order) for array in (input_ids, attention_mask, turn_mask))
        lengths = (attention_mask != 0).sum(dim=-1)
        rows = lengths.argsort(stable=True)
        rows = rows[lengths[rows] > 0]
        if not len(rows):
            return self._encode(*arrays)
        sizes = [0]  # of groups of at most `TOKENS_PER_CALL` tokens, padding included
        for length in lengths[rows].tolist():
            if sizes[-1] and (sizes[-1] + 1) * length > TOKENS_PER_CALL:
                sizes.append(0)
            sizes[-1] += 1
        vectors = []
        for group in rows.split(sizes):
            longest = int(lengths[group[-1]])
            vectors.append(self._encode(*(array[group, :longest] for array in arrays)))
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
        turn_mask: torch.Tensor | None = None,
        past: dict | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> DialogueBiLSTMModelOutput:
        r"""
        Args:
            input_ids, attention_mask: (B, U, L), the tokens of the utterances and which of them are real.
            utterance_embeds: (B, U, D), the utterances as vectors, instead of `input_ids`.
            utterance_mask: (B, U), 1 for real utterances, 0 for padding, which may be anywhere. Default: all are real.
            speaker_ids: (B, U) in [0, `num_speakers`), the number of the speaker within the dialogue.
            turn_mask: (B, U, L), with `context_turns`: 1 for the turn's own tokens, 0 for those of earlier turns and padding.
            past: for one new utterance, (1, 1, ·), of a dialogue: a dictionary, at first empty, that keeps what the model read of it before. Only for
                models that read no later utterances.

        Raises:
            ValueError: both or neither of ids and embeddings; no `speaker_ids` for `num_speakers`; a shape that does not fit.
        """
        if (input_ids is None) == (utterance_embeds is None):
            raise ValueError("Pass exactly one of `input_ids` and `utterance_embeds`.")
        by_tokens = input_ids is not None
        given: Any = input_ids if by_tokens else utterance_embeds
        shape, size = given.shape[:2], given.shape[-1] if by_tokens else self.config.utterance_size
        name, last = ("input_ids", "tokens") if by_tokens else ("utterance_embeds", size)
        if given.dim() != 3 or given.shape[-1] != size:
            raise ValueError(f"`{name}` must have shape (dialogues, utterances, {last}), got {tuple(given.shape)}.")
        if not torch.compiler.is_compiling() and not all(shape):
            raise ValueError(f"there must be at least one dialogue and one utterance, got {tuple(shape)}.")
        check_shape("utterance_mask", utterance_mask, shape)
        check_shape("speaker_ids", speaker_ids, shape)
        if by_tokens:
            check_shape("attention_mask", attention_mask, given.shape)
            check_shape("turn_mask", turn_mask, given.shape)
        if (speaker_ids is None) != (self.config.num_speakers == 0):
            found = "missing" if speaker_ids is None else "given"
            raise ValueError(f"`speaker_ids` are {found} and `num_speakers` is {self.config.num_speakers}.")
        if by_tokens and (turn_mask is None) != (self.config.context_turns == 0):
            found = "missing" if turn_mask is None else "given"
            raise ValueError(f"`turn_mask` is {found} and `context_turns` is {self.config.context_turns}.")
        later = not self.config.causal and (self.config.num_hidden_layers or self.config.num_attention_heads)
        if past is not None and (shape != (1, 1) or later):
            raise ValueError(f"`past` needs `causal`, and one new utterance of one dialogue, got {tuple(shape)}.")
        utterance_mask = given.new_ones(shape, dtype=torch.long) if utterance_mask is None else utterance_mask
        if by_tokens:
            attention_mask = torch.ones_like(given) if attention_mask is None else attention_mask
            # On a GPU it would wait for the lengths. FSDP needs as many calls of the encoder in every process.
            several_processes = torch.distributed.is_available() and torch.distributed.is_initialized()
            whole = given.device.type != "cpu" or torch.compiler.is_compiling() or several_processes
            encode = self.encode_utterances if whole else self._encode_real_utterances
            arrays = (given, attention_mask, attention_mask if turn_mask is None else turn_mask)
            vectors = encode(*(array.flatten(0, 1) for array in arrays))
            utterance_embeds = vectors.unflatten(0, shape)  # (B, U, D)
        states = self.context(utterance_embeds, utterance_mask, speaker_ids, past, **kwargs)
        return DialogueBiLSTMModelOutput(last_hidden_state=states, utterance_embeds=utterance_embeds)


class DialogueBiLSTMForEmotionRecognition(DialogueBiLSTMPreTrainedModel):
    """The emotion of every utterance: logits (B, U, C) before the softmax. Returns a [`TokenClassifierOutput`]."""

    def __init__(self, config: DialogueBiLSTMConfig):
        super().__init__(config)
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
        turn_mask: torch.Tensor | None = None,
        past: dict | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> TokenClassifierOutput:
        r"""
        Args:
            labels: (B, U) class ids; -100 for no label. The other arguments: see [`DialogueBiLSTMModel`].
            num_items_in_batch: the loss is divided by it; default: the number of labels in this batch.
        """
        given = (input_ids, attention_mask, utterance_embeds, utterance_mask, speaker_ids)
        outputs = self.dialogue(*given, turn_mask, past, return_dict=True, **kwargs)
        logits, loss = self.classifier(self.dropout(outputs.last_hidden_state)), None
        if labels is not None:
            weights: Any = self.config.class_weights
            weights = None if weights is None else torch.tensor(weights, dtype=logits.dtype, device=logits.device)
            loss = token_loss(logits, labels, num_items_in_batch, weights)
        return TokenClassifierOutput(loss, logits, outputs.hidden_states, outputs.attentions)


__all__ = ["DialogueBiLSTMForEmotionRecognition", "DialogueBiLSTMModel"]
