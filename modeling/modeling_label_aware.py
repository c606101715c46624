# SPDX-License-Identifier: Apache-2.0
"""
Label-aware attention (Wu, Wang and Liu: Label-Aware Attention for Fine-Grained Emotion Detection) and its LEAM variant, over any text
encoder of AutoModel and over BERT.

Shapes: B batch, L tokens, d hidden size, C labels, d' label embedding size.
"""

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from typing import Any, Self

import torch
from torch import nn
from torch.nn import functional as F
from transformers import initialization as init
from transformers.activations import ACT2FN
from transformers.models.bert import modeling_bert as bert
from transformers.processing_utils import Unpack
from transformers.utils import ModelOutput, TransformersKwargs, logging
from transformers.utils.generic import can_return_tuple, maybe_autocast

from .common import (
    AdaptedModel,
    build_encoder,
    check_shape,
    class_balanced_weights,
    classification_loss,
    first_real,
    input_shape,
    masked_mean,
    over_encoder,
    positions_from_first_real,
    real_first,
    real_tokens,
    reordered,
    warn_if_untested,
)
from .configuration_label_aware import LabelAwareBertConfig, LabelAwareConfig


logger = logging.get_logger(__name__)


@dataclass
class LabelAwareModelOutput(ModelOutput):
    r"""
    Args:
        label_representations: (B, C, 2d), [h̃_i ‖ s] of each label i; with LEAM (B, d), the one attended vector z.
        last_hidden_state: (B, L, d), the encoder's output H.
        label_attentions: (B, C, L), attention of each label over the tokens; (B, 1, L) with LEAM. A row sums to 1, with 0 at padding.
        label_attention_lse: (B, C) or (B, 1), log-sum-exp of the scores behind each row of `label_attentions`, for [`join_windows`].
        hidden_states, attentions: the encoder's.
    """

    label_representations: torch.FloatTensor | None = None
    last_hidden_state: torch.FloatTensor | None = None
    label_attentions: torch.FloatTensor | None = None
    label_attention_lse: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None


@dataclass
class LabelAwareClassifierOutput(ModelOutput):
    """
    The mean loss, if `labels` are given; logits (B, C), before the sigmoid, or (B, A, C) with aspects, before the softmax; the others as in
    [`LabelAwareModelOutput`], where C then counts label vectors.
    """

    loss: torch.FloatTensor | None = None
    logits: torch.FloatTensor | None = None
    label_attentions: torch.FloatTensor | None = None
    label_attention_lse: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None


def reordered_maps(maps: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """Attention (B, h, L, L) with both token axes reordered. An axis that is not L long stays: not every encoder has maps of all tokens."""
    order = order.to(maps.device)
    for axis, index in ((2, order[:, None, :, None]), (3, order[:, None, None])):
        if maps.shape[axis] == order.shape[1]:
            maps = maps.gather(axis, index.expand_as(maps))
    return maps


# Attention of the labels, and the head. The modules hold their weights themselves: transformers does not initialise a custom module without
# own parameters; PEFT and quantizers replace every nn.Linear; weights that are read outside their module's `forward` cannot be offloaded.


def exact_dtype(states: torch.Tensor) -> torch.dtype:
    """Float32 instead of half precision, which would round attention scores by more than one percent."""
    return torch.promote_types(states.dtype, torch.float32)


class LabelAwarePooling(nn.Module):
    """
    Section 3.2: α^{(i)} = softmax_j(e^{(i)ᵀ} W h_j) over the real tokens, h̃^{(i)} = Σ_j α_j^{(i)} h_j. `label_embeddings` (C, d') are the
    e^{(i)}; `weight` (d, d') is Wᵀ, which acts on the C label vectors and not on the B·L tokens, which are many more.
    """

    def __init__(self, config):
        super().__init__()
        self.label_embeddings = nn.Parameter(torch.empty(len(config.vector_names), config.label_embedding_size))
        self.weight = nn.Parameter(torch.empty(config.hidden_size, config.label_embedding_size))

    def forward(self, hidden_states, token_mask):
        """Hidden states (B, L, d), mask (B, L) or None -> h̃ (B, C, d), α (B, C, L), log-sum-exp of the scores (B, C)."""
        exact = exact_dtype(hidden_states)
        with maybe_autocast(hidden_states.device.type, enabled=False):
            queries = F.linear(self.label_embeddings.to(exact), self.weight.to(exact))  # (C, d)
            scores = F.linear(hidden_states.to(exact), queries)  # (B, L, C)
        if token_mask is not None:
            scores = scores.masked_fill(~token_mask[..., None], torch.finfo(scores.dtype).min)
        attentions = scores.softmax(dim=1, dtype=exact).transpose(1, 2).to(hidden_states.dtype)  # (B, C, L)
        return attentions @ hidden_states, attentions, scores.logsumexp(dim=1)

    @torch.no_grad()
    def append(self, label_embeddings):
        """Append vectors (n, d') of new labels. A longer parameter takes the place of the present one, which an optimizer may still hold."""
        vectors = torch.cat([self.label_embeddings, label_embeddings.to(self.label_embeddings)])
        self.label_embeddings = nn.Parameter(vectors, requires_grad=self.label_embeddings.requires_grad)


class LeamPooling(nn.Module):
    """
    LEAM (Wang et al. 2018), as the paper's appendix compares it: cosine similarity of labels and tokens, one
    convolution over tokens shared by the labels, ReLU, maximum over labels, one scalar, softmax over the real tokens.
    """

    def __init__(self, config):
        super().__init__()
        self.label_embeddings = nn.Parameter(torch.empty(len(config.vector_names), config.label_embedding_size))
        self.weight = nn.Parameter(torch.empty(1, 1, 2 * config.leam_radius + 1))  # width of the convolution
        self.bias = nn.Parameter(torch.empty(1))
        self.scale = nn.Parameter(torch.empty(1))  # Linear(1→1): its bias would cancel in the softmax

    def forward(self, hidden_states, token_mask):
        """Hidden states (B, L, d), mask (B, L) or None -> z (B, d), attention (B, 1, L), log-sum-exp of the scores (B, 1)."""
        batch_size, length, _ = hidden_states.shape
        exact = exact_dtype(hidden_states)
        with maybe_autocast(hidden_states.device.type, enabled=False):
            labels = F.normalize(self.label_embeddings.to(exact), dim=-1)
            similarity = F.linear(F.normalize(hidden_states.to(exact), dim=-1), labels)  # (B, L, C)
            if token_mask is not None:  # the window of the last real token must not see padding
                similarity = similarity * token_mask[..., None]
            similarity = similarity.transpose(1, 2).reshape(-1, 1, length)  # (B·C, 1, L)
            matches = F.conv1d(similarity, self.weight.to(exact), self.bias.to(exact), padding="same")
        matches = F.relu(matches).view(batch_size, -1, length).amax(dim=1)  # (B, L)
        scores = self.scale * matches
        if token_mask is not None:
            scores = scores.masked_fill(~token_mask, torch.finfo(scores.dtype).min)
        attentions = scores.softmax(dim=-1, dtype=exact).to(hidden_states.dtype)[:, None]  # (B, 1, L)
        return (attentions @ hidden_states).squeeze(1), attentions, scores.logsumexp(dim=1, keepdim=True)


class LabelWiseLinear(nn.Module):
    """One linear layer for each label: (B, C, d_in) -> (B, C, d_out). The rows of one label's layer are consecutive."""

    def __init__(self, num_labels: int, in_features: int, out_features: int):
        super().__init__()
        self.out_features = out_features
        self.weight = nn.Parameter(torch.empty(num_labels * out_features, in_features))
        self.bias = nn.Parameter(torch.empty(num_labels * out_features))

    def forward(self, states):
        if self.out_features == 1:  # takes half the time of C products with one column each
            return (states * self.weight).sum(-1, keepdim=True) + self.bias[:, None]
        weight, bias = (parameter.unflatten(0, (-1, self.out_features)) for parameter in (self.weight, self.bias))
        return torch.einsum("bci,coi->bco", states, weight) + bias


class LabelAwareHead(nn.Module):
    """Section 3.3: ŷ^{(i)} = FFN_i([h̃^{(i)} ‖ s]), one FFN for all labels (`tie_head`) or one for each."""

    def __init__(self, config, dropout: float):
        super().__init__()
        linear = nn.Linear if config.tie_head else partial(LabelWiseLinear, len(config.vector_names))
        self.dropout = nn.Dropout(dropout)
        size = 2 * config.hidden_size
        self.dense = None
        if config.head_hidden_size is not None:
            self.dense = linear(size, config.head_hidden_size)
            self.activation = ACT2FN[config.hidden_act]
            size = config.head_hidden_size
        self.out_proj = linear(size, 1)

    def forward(self, label_representations):
        """(B, C, 2d) -> logits (B, C)."""
        hidden = self.dropout(label_representations)
        if self.dense is not None:
            hidden = self.activation(self.dense(hidden))
        return self.out_proj(hidden).squeeze(-1)


def logits_by_aspect(logits: torch.Tensor, config) -> torch.Tensor:
    """
    Logits of the label vectors (B, V) -> (B, A, C) for `config.aspects`: 0 for the label "none", if there is one, less the mean over C, which
    changes no probability, and gives "none" a gradient.
    """
    logits = logits.unflatten(1, (len(config.aspects), -1))
    none = config.none_id
    if none is not None:
        logits = torch.cat([logits[..., :none], torch.zeros_like(logits[..., :1]), logits[..., none:]], dim=-1)
    return logits - logits.mean(dim=-1, keepdim=True)


def join_windows(logits: torch.Tensor, lse: torch.Tensor, document_ids: torch.Tensor, documents: int) -> torch.Tensor:
    """
    Logits (W, C) of windows, and the document of each window (W,) -> logits (documents, C).

    A document's logits are the weighted mean over its windows. The weights are the softmax over these windows of `lse`, their
    `label_attention_lse` (W, C) or (W, 1): the softmax over all tokens is this softmax times that within a window. So with a linear
    head the result is that of one label attention over all tokens. The sentence vectors have the same weights.
    """
    given, logits = logits, logits.to(exact_dtype(logits))
    index = document_ids.to(logits.device, torch.long)[:, None].expand_as(logits)
    lse = lse.to(logits).expand_as(logits)
    largest = lse.new_full((documents, logits.shape[1]), -math.inf).scatter_reduce(0, index, lse, "amax")
    weights = (lse - largest.gather(0, index).detach()).exp()
    empty = torch.zeros_like(largest)
    joined = empty.scatter_add(0, index, weights * logits) / empty.scatter_add(0, index, weights)
    return joined.to(given.dtype)


# What all models share

# With scores of much less spread over the tokens all labels attend alike, with much more each to a single token.
START_SPREAD = 3.0


def texts_of(names: Sequence[str], label_texts: Sequence[str] | Mapping[str, str] | None) -> list[str]:
    """One text per label name: the names themselves, texts in their order, or a mapping from name to text."""
    if label_texts is None:
        return list(names)
    if isinstance(label_texts, Mapping):
        if differing := sorted(set(label_texts) ^ set(names)):
            raise ValueError(f"`label_texts` must have the label names as keys; differing: {differing}.")
        return [label_texts[name] for name in names]
    if isinstance(label_texts, str) or len(label_texts) != len(names):
        raise ValueError(f"`label_texts` needs a list of {len(names)} texts, one for each label; got {label_texts!r}.")
    return list(label_texts)


class LabelAwareBase(AdaptedModel):
    """The models of this file, over any encoder or over BERT, with a head or without: how their new weights start."""

    # Parameters for which 0 has no meaning: weight decay must not pull them there.
    _no_weight_decay_parameters = ("score.label_embeddings", "score.scale")

    @torch.no_grad()
    def _init_weights(self, module):
        super()._init_weights(module)
        module.is_new = True  # called for modules with weights that no checkpoint gave, see `new_modules`
        std = self.config.initializer_range
        if isinstance(module, LabelWiseLinear):
            init.normal_(module.weight, mean=0.0, std=std)
            init.zeros_(module.bias)
        elif isinstance(module, LabelAwarePooling):
            init.normal_(module.label_embeddings, mean=0.0, std=std)
            # With N(0, 0.02) all labels attend alike, and as they share the head all logits start equal: small corpora stay there
            # for epochs. With the identity a label attends to words like its own.
            if self.config.label_attention_init == "identity":
                init.eye_(module.weight)
            else:
                init.normal_(module.weight, mean=0.0, std=std)
        elif isinstance(module, LeamPooling):
            init.normal_(module.label_embeddings, mean=0.0, std=std)
            # A moving average: with N(0, 0.02) the ReLU would often start dead and stay so.
            init.constant_(module.weight, 1 / module.weight.numel())
            init.zeros_(module.bias)
            init.ones_(module.scale)

    @torch.no_grad()
    def init_label_embeddings(
        self, tokenizer: Any, label_texts: Sequence[str] | Mapping[str, str] | None = None
    ) -> Self:
        """
        Start every label vector from the label's name, or from `label_texts`: texts in label order, or a mapping from name to text.

        With `config.label_embedding_init` "words" a vector starts at the mean of the word embeddings of its word pieces, with "contextual"
        at the mean of the encoder's last hidden states over the text, less the mean over all labels. Then a factor, which W takes if its
        start is the "identity", gives a label's scores over the tokens of all texts the standard deviation `START_SPREAD`, on average.

        Raises:
            ValueError: `label_embedding_size` is not the size of the vectors to start from; labels have no names; a text gives no
                word piece; "contextual" texts are all the same.
        """
        config, score = self.config, self.base_model.score
        names, texts = self._names_and_texts(label_texts)
        vectors, states = self._read(tokenizer, texts)
        # A single label has nothing to differ from.
        if config.label_embedding_init == "contextual" and len(vectors) > 1:
            if torch.allclose(vectors, vectors[:1]):
                raise ValueError(f"`label_texts` must differ for the encoder to tell the labels apart, got {texts}.")
            vectors -= vectors.mean(dim=0)
            vectors /= vectors.norm(dim=1).mean()
            scores = vectors @ torch.cat(states).T  # (C, tokens)
            scale = START_SPREAD / scores.std(dim=1).mean()
            if config.label_attention_init == "identity" and config.label_attention == "bilinear":
                # A step of Adam changes every element of W by the learning rate, and a score by up to that times ‖h‖₁‖e‖₁. With
                # vectors as long as wide encoders need, scores move so fast that MPNet collapsed: all tokens got one state.
                nn.init.eye_(score.weight).mul_(scale)
            else:
                vectors *= scale
        score.label_embeddings.copy_(vectors)
        config.label_texts = None if texts == names else texts
        return self

    def _names_and_texts(self, label_texts=None) -> tuple[list[str], list[str]]:
        """The names of the labels, and the texts that their vectors start from; ValueError for labels without either."""
        names = self.config.vector_names
        if label_texts is None and all(name == f"LABEL_{i}" for i, name in enumerate(names)):
            raise ValueError("The labels have no names to start from: set `id2label`, or give `label_texts`.")
        return names, texts_of(names, label_texts)

    def _vectors_beside(self, tokenizer, texts: Sequence[str]) -> torch.Tensor:
        """Vectors (n, d') for labels that are added to the present ones, placed as `init_label_embeddings` would."""
        new, _ = self._read(tokenizer, texts)
        if self.config.label_embedding_init == "words":
            return new
        old, _ = self._read(tokenizer, self._names_and_texts(self.config.label_texts)[1])
        centre = old.mean(dim=0) if len(old) > 1 else torch.zeros_like(old[0])
        # Scaled to the length that trained vectors have by now.
        trained = self.base_model.score.label_embeddings.norm(dim=1).mean()
        return (new - centre) * (trained / (old - centre).norm(dim=1).mean())

    @property
    def label_start_size(self) -> int:
        """The size of the vectors from which label vectors start."""
        contextual = self.config.label_embedding_init == "contextual"
        return self.config.hidden_size if contextual else self.get_input_embeddings().weight.shape[1]

    def _read(self, tokenizer, texts: Sequence[str]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """
        The vector of each text (n, d'), and the vectors (tokens, d') whose mean it is: word embeddings, or the encoder's last hidden
        states, special tokens included.
        """
        start, size = self.config.label_embedding_init, self.label_start_size
        if self.config.label_embedding_size != size:
            found = f"starts labels from vectors of size {size}, and `label_embedding_size` is {self.config.label_embedding_size}"
            raise ValueError(f'`label_embedding_init` "{start}" {found}: set it to {size}.')
        base, words, ids = self.base_model, self.get_input_embeddings().weight, []
        for text in texts:
            # With a space before it: a byte-pair tokenizer has another token for "joy" at the beginning of a text.
            ids += [tokenizer(" " + text.replace("_", " "), add_special_tokens=start == "contextual")["input_ids"]]
            if all(i in {tokenizer.unk_token_id, *tokenizer.all_special_ids} for i in ids[-1]):
                fault = f"The tokenizer has no word piece for the label text {text!r}"
                raise ValueError(f"{fault}: use other words in `label_texts`.")
        if start == "words":
            parts = [words[torch.tensor(row, device=words.device)] for row in ids]
        else:
            modes = [(module, module.training) for module in base.modules()]
            base.eval()
            try:
                rows = [torch.tensor([row], device=base.device) for row in ids]
                parts = [base(row, return_dict=True).last_hidden_state[0] for row in rows]
            finally:
                for module, mode in modes:
                    module.training = mode
        return torch.stack([part.mean(dim=0) for part in parts]), parts


class LabelAwareEncoder(LabelAwareBase):
    """What both base models are: a text encoder with one vector per label that attends to its tokens."""

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.LongTensor | None = None,
        position_ids: torch.LongTensor | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        pooling_mask: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> LabelAwareModelOutput:
        r"""
        Args:
            input_ids, inputs_embeds: (B, L) ids, or (B, L, d) embeddings.
            attention_mask: (B, L), 1 for real tokens, 0 for padding, on either side.
            token_type_ids, position_ids: (B, L), for encoders that read them; token types are ignored by the others.
            pooling_mask: (B, L), 1 for the real tokens that labels may attend to, at least one in each row; default: all. For
                overlapping windows of a long text it is 0 at tokens that another window counts.

        Raises:
            ValueError: both or neither of ids and embeddings; a shape that does not fit; an input that the encoder does not read.
        """
        shape = input_shape(input_ids, inputs_embeds, getattr(self.config, "max_position_embeddings", None))
        token_mask = real_tokens(attention_mask, shape)
        inputs = {"input_ids": input_ids, "inputs_embeds": inputs_embeds}
        inputs |= {"token_type_ids": token_type_ids, "position_ids": position_ids}
        inputs = {name: value for name, value in inputs.items() if value is not None}
        hidden_states, layers, attentions = self._encode(inputs, token_mask, **kwargs)
        states = hidden_states  # (B, L, d)
        if token_mask is not None:
            token_mask = token_mask.to(states.device)
            # With local attention padding may see nothing and become NaN, and NaN times 0 is NaN.
            states = states.masked_fill(~token_mask[..., None], 0.0)
        check_shape("pooling_mask", pooling_mask, shape)
        attended = token_mask
        if pooling_mask is not None:
            attended = pooling_mask.bool() if token_mask is None else token_mask & pooling_mask.to(token_mask)
        representations, label_attentions, lse = self.score(states, attended)
        if self.config.label_attention == "bilinear":
            sentence = (
                self._sentence(states, token_mask)[:, None].to(representations.device).expand_as(representations)
            )
            representations = torch.cat([representations, sentence], dim=-1)  # [h̃ ‖ s], (B, C, 2d)
        return LabelAwareModelOutput(representations, hidden_states, label_attentions, lse, layers, attentions)


# Over any encoder


class LabelAwarePreTrainedModel(LabelAwareBase):
    config: LabelAwareConfig
    base_model_prefix = "model"
    # The encoder itself says whether it supports these.
    _supports_sdpa = _supports_flash_attn = _supports_flex_attn = _supports_attention_backend = True

    @classmethod
    def from_encoder_pretrained(
        cls, encoder: str | PathLike[str], dtype: torch.dtype | str = torch.float32, **arguments: Any
    ) -> Self:
        """
        A new model over a pretrained text encoder, a Hub id or folder that `AutoModel` loads. Weights that the checkpoint lacks are new.
        `dtype` is that of all weights, "auto" the checkpoint's. `arguments`: fields of the model's configuration, for a classifier
        `num_labels` or `id2label` and `label2id`; `attn_implementation`; and what the `from_pretrained` of the encoder takes, as
        `device_map` and `quantization_config`. A model over a quantized encoder is trained and saved as an adapter.

        Raises:
            ValueError: the model encodes no text, or needs its own code; the checkpoint lacks weights. OSError: there is none.
        """
        return over_encoder(cls, encoder, dtype, arguments)


class LabelAwareModel(LabelAwareEncoder, LabelAwarePreTrainedModel):
    """A text encoder with one vector per label that attends to its tokens. Returns a [`LabelAwareModelOutput`]."""

    def __init__(self, config: LabelAwareConfig):
        super().__init__(config)
        self.encoder = build_encoder(config.encoder_config)
        self.score = (LeamPooling if config.label_attention == "leam" else LabelAwarePooling)(config)
        self.supports_gradient_checkpointing = self.encoder.supports_gradient_checkpointing
        self._encoder_takes = frozenset(inspect.signature(self.encoder.forward).parameters)
        self.post_init()

    def get_input_embeddings(self):
        return self.encoder.get_input_embeddings()

    def set_input_embeddings(self, value):
        self.encoder.set_input_embeddings(value)

    def _encode(self, inputs: dict[str, torch.Tensor], token_mask: torch.Tensor | None, **kwargs: Any):
        """Arguments of `forward` by their names, mask (B, L) or None -> the encoder's last hidden states (B, L, d), all of them, attentions."""
        if "token_type_ids" not in self._encoder_takes:  # which another model's tokenizer may give
            inputs.pop("token_type_ids", None)
        for name in inputs.keys() - self._encoder_takes:
            raise ValueError(f"`{name}` is not an input of a {self.encoder.config.model_type!r} model: leave it out.")
        attention_mask = back = None
        if token_mask is not None:
            # Padding moves behind the tokens, where it changes no encoder's positions.
            there, back = real_first(token_mask)
            inputs = {name: reordered(value, there) for name, value in inputs.items()}
            attention_mask = token_mask.gather(1, there).long()
        for name in ("output_attentions", "output_hidden_states"):
            if kwargs.get(name) is None:
                kwargs[name] = getattr(self.config, name)
        if "use_cache" in self._encoder_takes:  # of decoder-only models: nothing comes after the text
            kwargs["use_cache"] = False
        outputs = self.encoder(attention_mask=attention_mask, return_dict=True, **inputs, **kwargs)
        states, layers, attentions = map(outputs.get, ("last_hidden_state", "hidden_states", "attentions"))
        if back is not None:
            states = reordered(states, back)
            # Deep layers of some encoders have fewer tokens.
            layers = layers and tuple(reordered(x, back) if x.shape[1] == back.shape[1] else x for x in layers)
            attentions = attentions and tuple(reordered_maps(maps, back) for maps in attentions)
        return states, layers, attentions

    def _sentence(self, hidden_states: torch.Tensor, token_mask: torch.Tensor | None) -> torch.Tensor:
        """(B, L, d), (B, L) or None -> s (B, d)."""
        if self.config.sentence_representation == "first":
            return first_real(hidden_states, token_mask)
        if token_mask is None:
            token_mask = torch.ones_like(hidden_states[..., 0], dtype=torch.bool)
        if self.config.sentence_representation == "mean":
            return masked_mean(hidden_states, token_mask)
        return first_real(hidden_states.flip(1), token_mask.flip(1))


# Over BERT, whose parts are the model's own


class LabelAwareBertPreTrainedModel(LabelAwareBase, bert.BertPreTrainedModel):
    config: LabelAwareBertConfig
    _no_split_modules = ["BertEmbeddings", "BertLayer"]


class LabelAwareBertModel(LabelAwareEncoder, LabelAwareBertPreTrainedModel, bert.BertModel):
    """BERT with one vector per label that attends to its tokens. Returns a [`LabelAwareModelOutput`]."""

    def __init__(self, config: LabelAwareBertConfig):
        super().__init__(config, add_pooling_layer=config.sentence_representation == "pooler")
        warn_if_untested()
        self.score = (LeamPooling if config.label_attention == "leam" else LabelAwarePooling)(config)
        self.post_init()

    def _encode(self, inputs: dict[str, torch.Tensor], token_mask: torch.Tensor | None, **kwargs: Any):
        """As in [`LabelAwareModel`]."""
        ids = inputs.get("input_ids")
        if ids is not None and not ids.is_meta:
            self.warn_if_padding_and_no_attention_mask(ids, token_mask)
        if token_mask is not None:
            inputs.setdefault("position_ids", positions_from_first_real(token_mask))
        outputs = bert.BertModel.forward(self, attention_mask=token_mask, return_dict=True, **inputs, **kwargs)
        return outputs.last_hidden_state, outputs.hidden_states, outputs.attentions

    def _sentence(self, hidden_states: torch.Tensor, token_mask: torch.Tensor | None) -> torch.Tensor:
        """As in [`LabelAwareModel`]."""
        first = first_real(hidden_states, token_mask)
        return first if self.pooler is None else self.pooler(first[:, None])


class LabelAwareClassifier(LabelAwareBase):
    """Multi-label or single-label classification, or regression, by label-aware attention. Returns a [`LabelAwareClassifierOutput`]."""

    accepts_loss_kwargs = False  # see `classification_loss`
    base_class: type[LabelAwareBase]

    def __init__(self, config):
        super().__init__(config)
        self.num_labels = config.num_labels
        setattr(self, self.base_model_prefix, self.base_class(config))
        dropout = config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout
        if config.label_attention == "leam":
            layer = nn.Linear(config.hidden_size, len(config.vector_names))  # from z (B, d) to the logits (B, C)
            self.classifier = nn.Sequential(nn.Dropout(dropout), layer)
        else:
            self.classifier = LabelAwareHead(config, dropout)
        self.supports_gradient_checkpointing = self.base_model.supports_gradient_checkpointing
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.LongTensor | None = None,
        position_ids: torch.LongTensor | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        pooling_mask: torch.Tensor | None = None,
        document_ids: torch.LongTensor | None = None,
        context_ids: torch.LongTensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> LabelAwareClassifierOutput:
        """
        Args:
            document_ids: (B,), for rows that are windows: the number of each row's document, from 0 without gaps. Logits and
                labels are then per document, see [`join_windows`]. Default: every row is a document.
            context_ids: (B,), for a model of `aspects`: give the logits (B, C) of one aspect of each row, of id modulo A. Default: (B, A, C).
            labels: see [`classification_loss`]. The other arguments: see [`LabelAwareEncoder`].
        """
        inputs = (input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, pooling_mask)
        outputs = self.base_model(*inputs, return_dict=True, **kwargs)
        logits = self.classifier(outputs.label_representations)  # (B, C)
        if document_ids is not None:
            check_shape("document_ids", document_ids, logits.shape[:1])
            documents = document_ids.max().item() + 1  # `int` would fix the number in an exported program
            logits = join_windows(logits, outputs.label_attention_lse, document_ids, documents)
        if self.config.aspects is not None:
            logits = logits_by_aspect(logits, self.config)
            if context_ids is not None:
                rows = torch.arange(len(logits), device=logits.device)
                logits = logits[rows, context_ids.to(logits.device) % logits.shape[1]]
        loss = None if labels is None else classification_loss(logits, labels, self.config)
        seen = (outputs.label_attentions, outputs.label_attention_lse, outputs.hidden_states, outputs.attentions)
        return LabelAwareClassifierOutput(loss, logits, *seen)

    @torch.no_grad()
    def init_head_bias(self, frequencies: Sequence[float]) -> Self:
        """
        Start the head's bias at the log odds of `frequencies`, the share of the training rows that have each label (Lin et al. 2017,
        section 4.1), or of their mean, so that the first steps are not spent on learning that most labels are absent.
        """
        shares = torch.as_tensor(frequencies, dtype=torch.float64)
        count = len(self.config.vector_names)
        if shares.shape != (count,) or not ((shares >= 0) & (shares <= 1)).all():
            wanted = f"{count} shares in [0, 1], one for each label"
            raise ValueError(f"`frequencies` must be {wanted}, got {frequencies}.")
        last = self.classifier[-1] if isinstance(self.classifier, nn.Sequential) else self.classifier.out_proj
        if last.bias.numel() == 1:
            shares = shares.mean()[None]
        last.bias.copy_(shares.clamp(1e-4, 1 - 1e-4).logit())
        return self

    @torch.no_grad()
    def add_labels(
        self, names: Sequence[str], tokenizer: Any, label_texts: Sequence[str] | Mapping[str, str] | None = None
    ) -> Self:
        """
        Add labels after training, by their names, placed among the present labels. `label_texts` are read instead of the `names`: texts
        in their order, or a mapping from name to text. Labels are vectors and share the head, so a new label has a logit at once, and
        the logits of the old labels do not change. The config grows, too: `id2label`, `label2id`, `label_texts`; `thresholds` by their
        mean; `class_counts` by 0, which the class-balanced loss treats as the smallest count. Rules of abstention and prediction sets,
        which were chosen only for the old labels, are dropped.

        Raises:
            ValueError: a name is taken or repeated; the model has aspects, untied heads or LEAM, so that new outputs would be untrained; see
                `init_label_embeddings`.
        """
        config = self.config
        if isinstance(names, str):
            raise ValueError(f"`names` must be a list of names, got the string {names!r}: pass [{names!r}].")
        if config.aspects is not None:
            raise ValueError("A model of aspects takes no new labels: train it on rows that have them.")
        if config.label_attention == "leam" or not config.tie_head:
            raise ValueError("With `label_attention='leam'` or `tie_head=False` a new label needs weights of its own.")
        old_names = [config.id2label[i] for i in range(config.num_labels)]
        taken = sorted(name for i, name in enumerate(names) if name in old_names or name in names[:i])
        if taken:
            raise ValueError(f"Label names must be new and different; taken: {taken}.")
        texts = texts_of(names, label_texts)
        if not names:
            return self
        self.base_model.score.append(self._vectors_beside(tokenizer, texts))
        if config.label_texts is not None or texts != list(names):
            config.label_texts = (config.label_texts or old_names) + texts
        all_names = old_names + list(names)
        config.id2label = dict(enumerate(all_names))
        config.label2id = {name: i for i, name in enumerate(all_names)}
        if config.thresholds is not None:
            config.thresholds = config.thresholds + [sum(config.thresholds) / len(old_names)] * len(names)
        if config.class_counts is not None:
            config.class_counts = config.class_counts + [0] * len(names)
        for rule in ("abstention", "prediction_sets"):
            if getattr(config, rule, None) is not None:
                setattr(config, rule, None)
                logger.warning(f"The labels are new: `{rule}` of the old ones is dropped.")
        config.validate()
        self.num_labels = config.num_labels
        return self


class LabelAwareForSequenceClassification(LabelAwareClassifier, LabelAwarePreTrainedModel):
    """[`LabelAwareModel`] with a head. Returns a [`LabelAwareClassifierOutput`]."""

    base_class = LabelAwareModel


class BertForLabelAwareClassification(LabelAwareClassifier, LabelAwareBertPreTrainedModel):
    """[`LabelAwareBertModel`] with a head. Returns a [`LabelAwareClassifierOutput`]."""

    base_class = LabelAwareBertModel


__all__ = [
    "BertForLabelAwareClassification",
    "LabelAwareBertModel",
    "LabelAwareForSequenceClassification",
    "LabelAwareModel",
    "class_balanced_weights",
    "classification_loss",
]
