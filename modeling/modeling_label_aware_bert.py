# SPDX-License-Identifier: Apache-2.0
"""Label-aware BERT (Wu, Wang and Liu: Label-Aware Attention for Fine-Grained Emotion Detection), and its LEAM variant.

Shapes: B batch, L tokens, d hidden size, C labels, d' label embedding size.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional as F
from transformers import initialization as init
from transformers.activations import ACT2FN
from transformers.masking_utils import create_bidirectional_mask
from transformers.models.bert.modeling_bert import (
    BertEmbeddings,
    BertEncoder,
    BertPooler,
    BertPreTrainedModel,
)
from transformers.processing_utils import Unpack
from transformers.utils import ModelOutput, TransformersKwargs
from transformers.utils.generic import can_return_tuple, merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from .checked_input import check_ids, check_input, warn_of_padding
from .class_balanced_loss import classification_loss
from .configuration_label_aware_bert import LabelAwareBertConfig
from .fitting_checkpoints import OverEncoder
from .padding import additive_mask, first_real, may_begin_with_padding, positions_from_first_real, real_tokens
from .renamed_weights import RenamedWeights


if TYPE_CHECKING:  # never run: `save_pretrained` publishes the files that are imported here beside the weights
    from .pipeline_emotion_classification import EmotionClassificationPipeline  # noqa: F401


@dataclass
class LabelAwareModelOutput(ModelOutput):
    r"""
    Args:
        label_representations (`torch.FloatTensor`): (B, C, 2d), [h̃_i ‖ s] of each label i; with LEAM (B, d), the one
            attended vector z.
        last_hidden_state (`torch.FloatTensor`): (B, L, d), the encoder's output H.
        label_attentions (`torch.FloatTensor`): (B, C, L), attention of each label over the tokens; (B, 1, L) with
            LEAM. Every row sums to 1, padding has exactly 0.
        hidden_states, attentions: as in [`BertModel`].
    """

    label_representations: torch.FloatTensor | None = None
    last_hidden_state: torch.FloatTensor | None = None
    label_attentions: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None


@dataclass
class LabelAwareClassifierOutput(ModelOutput):
    r"""
    Args:
        loss (`torch.FloatTensor`, *optional*): scalar, when `labels` are given.
        logits (`torch.FloatTensor`): (B, C), before the sigmoid.
        label_attentions (`torch.FloatTensor`): (B, C, L), or (B, 1, L) with LEAM.
        hidden_states, attentions: as in [`BertModel`].
    """

    loss: torch.FloatTensor | None = None
    logits: torch.FloatTensor | None = None
    label_attentions: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None


# These hold their weights themselves: transformers initialises no custom module without parameters of its own, PEFT and
# quantizers take every nn.Linear for one, and weights that are read outside their module's `forward` cannot be offloaded.


def exact_dtype(states: torch.Tensor) -> torch.dtype:
    """Float32 for half precision, which would round the scores of an attention by more than one part in a hundred."""
    return torch.promote_types(states.dtype, torch.float32)


class LabelAwarePooling(nn.Module):
    """
    Section 3.2: α^{(i)} = softmax_j(e^{(i)ᵀ} W h_j) over the real tokens, h̃^{(i)} = Σ_j α_j^{(i)} h_j.

    `label_embeddings` (C, d') are the e^{(i)}; `weight` (d, d') is Wᵀ. It acts on the C label vectors and not on the B·L tokens,
    the smaller side by far.
    """

    def __init__(self, config: LabelAwareBertConfig):
        super().__init__()
        self.label_embeddings = nn.Parameter(torch.empty(config.num_labels, config.label_embedding_size))
        self.weight = nn.Parameter(torch.empty(config.hidden_size, config.label_embedding_size))

    def forward(self, hidden_states, token_mask):
        """Hidden states (B, L, d), mask (B, L) or None -> h̃ (B, C, d), α (B, C, L)."""
        exact = exact_dtype(hidden_states)
        queries = F.linear(self.label_embeddings.to(exact), self.weight.to(exact))  # (C, d)
        scores = F.linear(hidden_states.to(exact), queries)  # (B, L, C)
        if token_mask is not None:
            scores = scores.masked_fill(~token_mask[..., None], torch.finfo(scores.dtype).min)
        attentions = scores.softmax(dim=1, dtype=exact).transpose(1, 2)  # (B, C, L)
        attentions = attentions.to(hidden_states.dtype)
        return attentions @ hidden_states, attentions

    @torch.no_grad()
    def append(self, label_embeddings):
        """Further label vectors (n, d'), for labels after the present ones."""
        vectors = torch.cat([self.label_embeddings, label_embeddings])
        self.label_embeddings = nn.Parameter(vectors, requires_grad=self.label_embeddings.requires_grad)


class LeamPooling(nn.Module):
    """
    LEAM (Wang et al. 2018), as the paper's appendix compares it: cosine similarity of labels and tokens, one
    convolution over tokens shared by the labels, ReLU, maximum over labels, one scalar, softmax over the real tokens.
    """

    def __init__(self, config: LabelAwareBertConfig):
        super().__init__()
        self.radius = config.leam_radius
        self.label_embeddings = nn.Parameter(torch.empty(config.num_labels, config.label_embedding_size))
        self.weight = nn.Parameter(torch.empty(1, 1, 2 * config.leam_radius + 1))  # of the convolution
        self.bias = nn.Parameter(torch.empty(1))
        self.scale = nn.Parameter(torch.empty(1))  # Linear(1→1): its bias would cancel in the softmax

    def forward(self, hidden_states, token_mask):
        """Hidden states (B, L, d), mask (B, L) or None -> z (B, d), attention (B, 1, L)."""
        batch_size, length, _ = hidden_states.shape
        exact = exact_dtype(hidden_states)
        labels = F.normalize(self.label_embeddings.to(exact), dim=-1)
        similarity = F.linear(F.normalize(hidden_states.to(exact), dim=-1), labels)  # (B, L, C)
        if token_mask is not None:  # the window of the last real token must not see padding
            similarity = similarity * token_mask[..., None]
        similarity = similarity.transpose(1, 2).reshape(-1, 1, length)  # (B·C, 1, L)
        matches = F.conv1d(similarity, self.weight.to(exact), self.bias.to(exact), padding=self.radius)  # (B·C, 1, L)
        matches = F.relu(matches).view(batch_size, -1, length).amax(dim=1)  # (B, L)
        scores = self.scale * matches
        if token_mask is not None:
            scores = scores.masked_fill(~token_mask, torch.finfo(scores.dtype).min)
        attentions = scores.softmax(dim=-1, dtype=exact).to(hidden_states.dtype)[:, None]  # (B, 1, L)
        return (attentions @ hidden_states).squeeze(1), attentions


class LabelWiseLinear(nn.Module):
    """One linear layer for each label: (B, C, d_in) -> (B, C, d_out). The rows of one label's layer are consecutive."""

    def __init__(self, num_labels: int, in_features: int, out_features: int):
        super().__init__()
        self.out_features = out_features
        self.weight = nn.Parameter(torch.empty(num_labels * out_features, in_features))
        self.bias = nn.Parameter(torch.empty(num_labels * out_features))

    def forward(self, states):
        if self.out_features == 1:  # half the time of C products with one column each
            return (states * self.weight).sum(-1, keepdim=True) + self.bias[:, None]
        weight, bias = (parameter.unflatten(0, (-1, self.out_features)) for parameter in (self.weight, self.bias))
        return torch.einsum("bci,coi->bco", states, weight) + bias


class LabelAwareHead(nn.Module):
    """Section 3.3: ŷ^{(i)} = FFN_i([h̃^{(i)} ‖ s]), one FFN for all labels (`tie_head`) or one for each."""

    def __init__(self, config: LabelAwareBertConfig):
        super().__init__()
        linear = nn.Linear if config.tie_head else partial(LabelWiseLinear, config.num_labels)
        self.dropout = nn.Dropout(
            config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout
        )
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


class LabelAwareBertPreTrainedModel(OverEncoder, RenamedWeights, BertPreTrainedModel):
    config: LabelAwareBertConfig
    config_class = LabelAwareBertConfig
    base_model_prefix = "bert"
    _no_split_modules = ["BertEmbeddings", "BertLayer"]
    # Parameters that weight decay would pull towards the origin although their place there means nothing.
    _no_weight_decay_parameters = ("score.label_embeddings", "score.scale")
    _renamed_weights = {
        "label_embeddings.weight": "score.label_embeddings",
        **{f"label_attention.{name}": f"score.{name}" for name in ("weight", "bias", "scale")},
    }

    @torch.no_grad()
    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, LabelWiseLinear):
            init.normal_(module.weight, mean=0.0, std=self.config.initializer_range)
            init.zeros_(module.bias)
        elif isinstance(module, LabelAwarePooling):
            init.normal_(module.label_embeddings, mean=0.0, std=self.config.initializer_range)
            # The paper does not say. With N(0, 0.02) every label attends alike and, the head being shared, all logits
            # start equal: small corpora stay there for epochs. The identity lets a label's word look for its like.
            init.eye_(module.weight)
        elif isinstance(module, LeamPooling):
            init.normal_(module.label_embeddings, mean=0.0, std=self.config.initializer_range)
            # A moving average: with N(0, 0.02) the ReLU would often start, and stay, dead.
            init.constant_(module.weight, 1 / module.weight.numel())
            init.zeros_(module.bias)
            init.ones_(module.scale)


class LabelAwareBertModel(LabelAwareBertPreTrainedModel):
    """BERT with one vector per label that attends to its tokens. Returns a [`LabelAwareModelOutput`]."""

    def __init__(self, config: LabelAwareBertConfig):
        super().__init__(config)
        self.embeddings = BertEmbeddings(config)
        self.encoder = BertEncoder(config)
        self.pooler = BertPooler(config) if config.sentence_representation == "pooler" else None
        # All that is new here, label vectors included. PEFT trains and saves by itself what is named "score" or "classifier".
        self.score = (LeamPooling if config.label_attention == "leam" else LabelAwarePooling)(config)
        self.post_init()

    def get_input_embeddings(self):
        return self.embeddings.word_embeddings

    def set_input_embeddings(self, value):
        self.embeddings.word_embeddings = value

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.LongTensor | None = None,
        position_ids: torch.LongTensor | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> LabelAwareModelOutput:
        r"""
        Args:
            input_ids, token_type_ids, position_ids, inputs_embeds: as in [`BertModel`]; positions count from the first real token.
            attention_mask: (B, L), 1 for real tokens, 0 for padding, on either side; or of four dimensions, see `real_tokens`.

        Raises:
            ValueError: see `check_input` and `real_tokens`.
        """
        batch_size, length = check_input(self.config, input_ids, inputs_embeds)
        warn_of_padding(self.config, input_ids, attention_mask)
        check_ids("`token_type_ids`", token_type_ids, self.config.type_vocab_size)
        token_mask = real_tokens(attention_mask, batch_size, length)  # (B, L)
        leading = token_mask if may_begin_with_padding(token_mask) else None
        if position_ids is None and leading is not None:
            position_ids = positions_from_first_real(leading)
        embedding_output = self.embeddings(
            input_ids=input_ids,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
        )
        if attention_mask is not None and attention_mask.dim() == 4:
            attention_mask = additive_mask(attention_mask, embedding_output.dtype)
        hidden_states = self.encoder(
            embedding_output,
            attention_mask=create_bidirectional_mask(
                config=self.config, inputs_embeds=embedding_output, attention_mask=attention_mask
            ),
            **kwargs,
        ).last_hidden_state  # (B, L, d)

        representations, label_attentions = self.score(hidden_states, token_mask)
        if self.config.label_attention == "bilinear":
            sentence = first_real(hidden_states, leading)  # (B, d)
            if self.pooler is not None:
                sentence = self.pooler(sentence[:, None])
            sentence = sentence[:, None].expand_as(representations)
            representations = torch.cat([representations, sentence], dim=-1)  # (B, C, 2d)
        return LabelAwareModelOutput(
            label_representations=representations,
            last_hidden_state=hidden_states,
            label_attentions=label_attentions,
        )

    @torch.no_grad()
    def init_label_embeddings(
        self, tokenizer, label_texts: Sequence[str] | Mapping[str, str] | None = None
    ) -> "LabelAwareBertModel":
        r"""
        Start every label vector at the word embedding of the label's name, or at the mean over its word pieces.

        Args:
            tokenizer: the tokenizer of this encoder.
            label_texts: what to read instead of the names in `config.id2label`: a sequence in label order, or a mapping
                from label name to text. The vectors are parameters of their own afterwards, not tied to the words.

        Raises:
            ValueError: `label_embedding_size` is not `hidden_size`; labels without names; a text that gives no word piece.
        """
        names = [self.config.id2label[i] for i in range(self.config.num_labels)]
        if label_texts is None and all(name == f"LABEL_{i}" for i, name in enumerate(names)):
            raise ValueError("The labels have no names to start from: set `id2label` in the config, or `label_texts`.")
        label_texts = _texts_of(names, label_texts)
        self.score.label_embeddings.copy_(self._embed_label_texts(tokenizer, label_texts))
        return self

    def _embed_label_texts(self, tokenizer, texts: Sequence[str]) -> torch.Tensor:
        """Mean word embedding of each text, (len(texts), d)."""
        if self.config.label_embedding_size != self.config.hidden_size:
            raise ValueError(
                f"Word embeddings have size {self.config.hidden_size} and label vectors `label_embedding_size`="
                f"{self.config.label_embedding_size}: leave `label_embedding_size` unset to start labels from words."
            )
        word_embeddings = self.get_input_embeddings().weight
        vectors = []
        for text in texts:
            ids = tokenizer(text.replace("_", " "), add_special_tokens=False)["input_ids"]
            if not ids or all(i == tokenizer.unk_token_id for i in ids):
                raise ValueError(
                    f"The tokenizer has no word piece for the label text {text!r}: describe the label in other words "
                    "with `label_texts`."
                )
            vectors.append(word_embeddings[torch.tensor(ids, device=word_embeddings.device)].mean(dim=0))
        return torch.stack(vectors)


def _texts_of(names: Sequence[str], label_texts: Sequence[str] | Mapping[str, str] | None) -> list[str]:
    """One text per label name: the names themselves, texts in their order, or a mapping from name to text."""
    if label_texts is None:
        return list(names)
    if isinstance(label_texts, Mapping):
        if set(label_texts) != set(names):
            differing = sorted(set(label_texts) ^ set(names))
            raise ValueError(f"`label_texts` must have the label names as keys; differing: {differing}.")
        return [label_texts[name] for name in names]
    if isinstance(label_texts, str) or len(label_texts) != len(names):
        raise ValueError(f"`label_texts` needs a list of {len(names)} texts, one for each label; got {label_texts!r}.")
    return list(label_texts)


class BertForLabelAwareClassification(LabelAwareBertPreTrainedModel):
    """Multi-label (or single-label) classification by label-aware attention. Returns a [`LabelAwareClassifierOutput`]."""

    # The loss is a mean over rows and ignores `num_items_in_batch`: without this, the Trainer would not divide it by the
    # number of accumulation steps.
    accepts_loss_kwargs = False

    def __init__(self, config: LabelAwareBertConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.bert = LabelAwareBertModel(config)
        if config.label_attention == "leam":
            dropout = config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout
            self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(config.hidden_size, config.num_labels))
        else:
            self.classifier = LabelAwareHead(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.LongTensor | None = None,
        position_ids: torch.LongTensor | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> LabelAwareClassifierOutput:
        r"""
        Args:
            labels: (B, C) of 0 and 1 for multi-label, (B,) class ids for single-label classification.

        The other arguments are those of [`LabelAwareBertModel`].
        """
        outputs = self.bert(
            input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            return_dict=True,
            **kwargs,
        )
        logits = self.classifier(outputs.label_representations)  # (B, C)
        loss = None if labels is None else classification_loss(logits, labels, self.config)
        return LabelAwareClassifierOutput(
            loss=loss,
            logits=logits,
            label_attentions=outputs.label_attentions,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )

    def init_label_embeddings(
        self, tokenizer, label_texts: Sequence[str] | Mapping[str, str] | None = None
    ) -> "BertForLabelAwareClassification":
        """See [`LabelAwareBertModel.init_label_embeddings`]."""
        self.bert.init_label_embeddings(tokenizer, label_texts)
        return self

    @torch.no_grad()
    def add_labels(
        self, names: Sequence[str], tokenizer, label_texts: Sequence[str] | Mapping[str, str] | None = None
    ) -> "BertForLabelAwareClassification":
        r"""
        Add labels after training. The head is shared and labels are vectors, so that a new label has a logit at once; the
        logits of the old labels do not change.

        The config is extended with the model: `id2label` and `label2id`; `thresholds` by the mean of the present ones
        where there are any; `class_counts` by 0, rows seen in training, which the class-balanced loss takes for the smallest count.

        Args:
            names: new label names, each different from the present ones.
            tokenizer: the tokenizer of this encoder.
            label_texts: texts to read instead of the names: in the order of `names`, or a mapping from name to text.

        Raises:
            ValueError: a name that is taken or repeated; a model with untied heads or LEAM, whose new outputs would be
                untrained; `label_embedding_size` other than `hidden_size`.
        """
        config = self.config
        if isinstance(names, str):
            raise ValueError(f"`names` must be a list of names, got the string {names!r}: pass [{names!r}].")
        if config.label_attention == "leam" or not config.tie_head:
            raise ValueError(
                "A new label would need trained weights of its own with `label_attention='leam'` or `tie_head=False`; "
                "labels can be added where the head is tied and the attention bilinear."
            )
        old_names = [config.id2label[i] for i in range(config.num_labels)]
        taken = sorted(name for i, name in enumerate(names) if name in old_names or name in names[:i])
        if taken:
            raise ValueError(f"Label names must be new and different; taken: {taken}.")
        label_texts = _texts_of(names, label_texts)
        if not names:
            return self

        self.bert.score.append(self.bert._embed_label_texts(tokenizer, label_texts))
        all_names = old_names + list(names)
        config.id2label = dict(enumerate(all_names))
        config.label2id = {name: i for i, name in enumerate(all_names)}
        if config.thresholds is not None:
            config.thresholds = config.thresholds + [sum(config.thresholds) / len(old_names)] * len(names)
        if config.class_counts is not None:
            config.class_counts = config.class_counts + [0] * len(names)
        config.validate()
        self.num_labels = config.num_labels
        return self


__all__ = [
    "BertForLabelAwareClassification",
    "LabelAwareBertModel",
    "LabelAwareBertPreTrainedModel",
    "LabelAwareClassifierOutput",
    "LabelAwareModelOutput",
]
