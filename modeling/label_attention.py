# SPDX-License-Identifier: Apache-2.0
"""
Label-aware attention over the hidden states of any encoder (Wu, Wang and Liu: Label-Aware Attention for Fine-Grained Emotion
Detection), and its LEAM variant: what [`BertForLabelAwareClassification`] and [`LabelAwareForSequenceClassification`] share.

Shapes: B batch, L tokens, d hidden size, C labels, d' label embedding size.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional as F
from transformers import initialization as init
from transformers.activations import ACT2FN
from transformers.processing_utils import Unpack
from transformers.utils import ModelOutput, TransformersKwargs
from transformers.utils.generic import can_return_tuple, maybe_autocast

from .checked_input import can_look
from .class_balanced_loss import classification_loss
from .classifier_fields import warn_of_dropped
from .text_processing import RULES


if TYPE_CHECKING:
    from transformers import PreTrainedModel as _Model
else:
    _Model = object


@dataclass
class LabelAwareModelOutput(ModelOutput):
    r"""
    Args:
        label_representations (`torch.FloatTensor`): (B, C, 2d), [h̃_i ‖ s] of each label i; with LEAM (B, d), the one
            attended vector z.
        last_hidden_state (`torch.FloatTensor`): (B, L, d), the encoder's output H.
        label_attentions (`torch.FloatTensor`): (B, C, L), attention of each label over the tokens; (B, 1, L) with
            LEAM. Every row sums to 1, padding has exactly 0.
        label_attention_lse (`torch.FloatTensor`): (B, C), or (B, 1) with LEAM: log-sum-exp of the scores behind each row
            of `label_attentions`. It joins the windows of a long text, see [`join_windows`].
        hidden_states, attentions: as in [`BertModel`].
    """

    label_representations: torch.FloatTensor | None = None
    last_hidden_state: torch.FloatTensor | None = None
    label_attentions: torch.FloatTensor | None = None
    label_attention_lse: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None


@dataclass
class LabelAwareClassifierOutput(ModelOutput):
    r"""
    Args:
        loss (`torch.FloatTensor`, *optional*): scalar, when `labels` are given.
        logits (`torch.FloatTensor`): (B, C), before the sigmoid.
        label_attentions, label_attention_lse, hidden_states, attentions: as in [`LabelAwareModelOutput`].
    """

    loss: torch.FloatTensor | None = None
    logits: torch.FloatTensor | None = None
    label_attentions: torch.FloatTensor | None = None
    label_attention_lse: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None


START_SPREAD = 3.0  # with this spread a label prefers some tokens, but does not attend to a single one

# These modules hold their weights themselves, for three reasons: transformers does not initialise a custom module without own
# parameters; PEFT and quantizers replace every nn.Linear; weights that are read outside their module's `forward` cannot be offloaded.


def exact_dtype(states: torch.Tensor) -> torch.dtype:
    """Float32 instead of half precision, which would round attention scores by more than one percent."""
    return torch.promote_types(states.dtype, torch.float32)


class LabelAwarePooling(nn.Module):
    """
    Section 3.2: α^{(i)} = softmax_j(e^{(i)ᵀ} W h_j) over the real tokens, h̃^{(i)} = Σ_j α_j^{(i)} h_j.

    `label_embeddings` (C, d') are the e^{(i)}; `weight` (d, d') is Wᵀ. It acts on the C label vectors and not on the
    B·L tokens, which are many more.
    """

    def __init__(self, config):
        super().__init__()
        self.label_embeddings = nn.Parameter(torch.empty(config.num_labels, config.label_embedding_size))
        self.weight = nn.Parameter(torch.empty(config.hidden_size, config.label_embedding_size))

    def forward(self, hidden_states, token_mask):
        """Hidden states (B, L, d), mask (B, L) or None -> h̃ (B, C, d), α (B, C, L), log-sum-exp of the scores (B, C)."""
        exact = exact_dtype(hidden_states)
        with maybe_autocast(hidden_states.device.type, enabled=False):
            queries = F.linear(self.label_embeddings.to(exact), self.weight.to(exact))  # (C, d)
            scores = F.linear(hidden_states.to(exact), queries)  # (B, L, C)
        if token_mask is not None:
            scores = scores.masked_fill(~token_mask[..., None], torch.finfo(scores.dtype).min)
        attentions = scores.softmax(dim=1, dtype=exact).transpose(1, 2)  # (B, C, L)
        attentions = attentions.to(hidden_states.dtype)
        return attentions @ hidden_states, attentions, scores.logsumexp(dim=1)

    @torch.no_grad()
    def append(self, label_embeddings):
        """Append label vectors (n, d') for new labels."""
        vectors = torch.cat([self.label_embeddings, label_embeddings])
        self.label_embeddings = nn.Parameter(vectors, requires_grad=self.label_embeddings.requires_grad)


class LeamPooling(nn.Module):
    """
    LEAM (Wang et al. 2018), as the paper's appendix compares it: cosine similarity of labels and tokens, one
    convolution over tokens shared by the labels, ReLU, maximum over labels, one scalar, softmax over the real tokens.
    """

    def __init__(self, config):
        super().__init__()
        self.radius = config.leam_radius
        self.label_embeddings = nn.Parameter(torch.empty(config.num_labels, config.label_embedding_size))
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
            matches = F.conv1d(similarity, self.weight.to(exact), self.bias.to(exact), padding=self.radius)
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


def dropout_of(config) -> float:
    """The dropout rate on the head's input."""
    return config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout


class LabelAwareHead(nn.Module):
    """Section 3.3: ŷ^{(i)} = FFN_i([h̃^{(i)} ‖ s]), one FFN for all labels (`tie_head`) or one for each."""

    def __init__(self, config):
        super().__init__()
        linear = nn.Linear if config.tie_head else partial(LabelWiseLinear, config.num_labels)
        self.dropout = nn.Dropout(dropout_of(config))
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


def pooled_tokens(
    token_mask: torch.Tensor | None, pooling_mask: torch.Tensor | None, shape: tuple[int, int]
) -> torch.Tensor | None:
    """The real tokens that labels may attend to, (B, L) bool, or None for all; ValueError for a mask of another shape."""
    if pooling_mask is None:
        return token_mask
    if tuple(pooling_mask.shape) != tuple(shape):
        raise ValueError(f"`pooling_mask` must have shape {tuple(shape)}, got {tuple(pooling_mask.shape)}.")
    return pooling_mask.bool() if token_mask is None else token_mask & pooling_mask.to(token_mask)


def label_pooling(config) -> nn.Module:
    """The attention that the configuration asks for."""
    return (LeamPooling if config.label_attention == "leam" else LabelAwarePooling)(config)


def label_classifier(config) -> nn.Module:
    """The head that the configuration asks for."""
    if config.label_attention == "leam":
        return nn.Sequential(nn.Dropout(dropout_of(config)), nn.Linear(config.hidden_size, config.num_labels))
    return LabelAwareHead(config)


def with_sentence(attended: torch.Tensor, sentence: torch.Tensor) -> torch.Tensor:
    """h̃ (B, C, d) and s (B, d) -> [h̃ ‖ s] (B, C, 2d)."""
    return torch.cat([attended, sentence[:, None].to(attended.device).expand_as(attended)], dim=-1)


class LabelAwareWeights(_Model):
    """A base of base models and heads, to name first: how the weights of this file start, and which of them must not decay."""

    # Parameters for which 0 has no meaning: weight decay must not pull them there.
    _no_weight_decay_parameters = ("score.label_embeddings", "score.scale")

    @torch.no_grad()
    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, LabelWiseLinear):
            init.normal_(module.weight, mean=0.0, std=self.config.initializer_range)
            init.zeros_(module.bias)
        elif isinstance(module, LabelAwarePooling):
            init.normal_(module.label_embeddings, mean=0.0, std=self.config.initializer_range)
            # The paper does not say. With N(0, 0.02) all labels attend alike, and as they share the head all logits start
            # equal: small corpora stay there for epochs. With the identity a label attends to words like its own.
            if self.config.label_attention_init == "identity":
                init.eye_(module.weight)
            else:
                init.normal_(module.weight, mean=0.0, std=self.config.initializer_range)
        elif isinstance(module, LeamPooling):
            init.normal_(module.label_embeddings, mean=0.0, std=self.config.initializer_range)
            # A moving average: with N(0, 0.02) the ReLU would often start dead and stay so.
            init.constant_(module.weight, 1 / module.weight.numel())
            init.zeros_(module.bias)
            init.ones_(module.scale)


def join_windows(logits: torch.Tensor, lse: torch.Tensor, document_ids: torch.Tensor, documents: int) -> torch.Tensor:
    r"""
    Join the logits of windows to logits of documents: for each label Σ_w a_w logits_w, where a is the softmax of `lse` over the
    windows w of a document. With a linear head this equals one label attention over the tokens of all windows, because the softmax
    over all tokens is the softmax over windows times the softmax within a window; s is joined with the same weights.

    Args:
        logits (`torch.FloatTensor`): (W, C), for W windows.
        lse (`torch.FloatTensor`): (W, C) or (W, 1), their `label_attention_lse`.
        document_ids (`torch.LongTensor`): (W,), the document of each window, in [0, documents).

    Returns:
        (documents, C).
    """
    given, logits = logits, logits.to(exact_dtype(logits))
    index = document_ids.to(logits.device, torch.long)[:, None].expand_as(logits)
    lse = lse.to(logits).expand_as(logits)
    largest = lse.new_full((documents, logits.shape[1]), -math.inf).scatter_reduce(0, index, lse, "amax")
    weights = (lse - largest.gather(0, index).detach()).exp()
    empty = torch.zeros_like(largest)
    joined = empty.scatter_add(0, index, weights * logits) / empty.scatter_add(0, index, weights)
    return joined.to(given.dtype)


def check_documents(document_ids: torch.Tensor, rows: int) -> None:
    """ValueError unless the ids number the documents of `rows` windows from 0 without gaps."""
    found = document_ids.unique() if can_look(document_ids) else None
    if document_ids.shape != (rows,) or (found is not None and found.tolist() != list(range(len(found)))):
        raise ValueError(
            f"`document_ids` must number the documents of the {rows} rows from 0 without gaps, got {document_ids.tolist()[:10]}."
        )


class LabelVectors(_Model):
    """A base of base models with label attention, to name first: the start of the label vectors."""

    @torch.no_grad()
    def init_label_embeddings(self, tokenizer, label_texts: Sequence[str] | Mapping[str, str] | None = None):
        r"""
        Start every label vector from the label's name, as `config.label_embedding_init` says: at the name's word embedding, or the
        mean over its word pieces ("words"), or at the mean of the encoder's last hidden states over the name ("contextual").
        The latter are centred, so that only the differences between labels remain. Their scale is the same for every encoder: a
        label's scores over the tokens of all names have the standard deviation `START_SPREAD`. With `label_attention_init`
        "identity" the vectors have length 1 on average and W is a multiple of the identity; otherwise W stays as it is.

        Args:
            tokenizer: the tokenizer of this encoder.
            label_texts: texts to read instead of the names in `config.id2label`: a sequence in label order, or a mapping
                from label name to text. Afterwards the vectors are their own parameters, not tied to the words.

        Raises:
            ValueError: `label_embedding_size` is not the size of the vectors to start from; labels have no names; a text
                gives no word piece.
        """
        names = [self.config.id2label[i] for i in range(self.config.num_labels)]
        if label_texts is None and all(name == f"LABEL_{i}" for i, name in enumerate(names)):
            raise ValueError("The labels have no names to start from: set `id2label` in the config, or `label_texts`.")
        texts = texts_of(names, label_texts)
        self._check_start()
        if self.config.label_embedding_init == "words":
            vectors = self._words_of(tokenizer, texts)
        else:
            states = self._states_of(tokenizer, texts)
            vectors = torch.stack([state.mean(dim=0) for state in states])
            if len(vectors) > 1:  # a single label has nothing to differ from
                vectors -= vectors.mean(dim=0)
                vectors /= vectors.norm(dim=1).mean().clamp(min=1e-6)
                scores = vectors @ torch.cat(states).T  # (C, tokens)
                scale = START_SPREAD / scores.std(dim=1).mean().clamp(min=1e-6)
                if self.config.label_attention_init == "identity" and self.config.label_attention == "bilinear":
                    # A step of Adam changes every element of W by the learning rate, and a score by up to that times ‖h‖₁‖e‖₁. With
                    # vectors as long as wide encoders need, scores move so fast that MPNet collapsed: all tokens got one state.
                    nn.init.eye_(self.score.weight).mul_(scale)
                else:
                    vectors *= scale
        self.score.label_embeddings.copy_(vectors)
        return self

    def embed_new_labels(self, tokenizer, old_texts: Sequence[str], new_texts: Sequence[str]) -> torch.Tensor:
        """
        Vectors (n, d') for labels that are added to those of `old_texts`, placed among them as `init_label_embeddings`
        would.
        """
        self._check_start()
        if self.config.label_embedding_init == "words":
            return self._words_of(tokenizer, new_texts)
        old, new = (
            torch.stack([state.mean(dim=0) for state in self._states_of(tokenizer, texts)])
            for texts in (old_texts, new_texts)
        )
        centre = old.mean(dim=0) if len(old) > 1 else torch.zeros_like(old[0])
        # Scaled to the length that trained vectors have by now.
        length = self.score.label_embeddings.norm(dim=1).mean() / (old - centre).norm(dim=1).mean().clamp(min=1e-6)
        return (new - centre) * length

    @property
    def label_start_size(self) -> int:
        """The size of the vectors from which label vectors start."""
        if self.config.label_embedding_init == "contextual":
            return self.config.hidden_size
        return self.get_input_embeddings().weight.shape[1]

    def _check_start(self) -> None:
        start, size = self.config.label_embedding_init, self.label_start_size
        if self.config.label_embedding_size != size:
            raise ValueError(
                f'`label_embedding_init` "{start}" starts labels from vectors of size {size}, and `label_embedding_size` is '
                f"{self.config.label_embedding_size}: set it to {size}"
                + (', or take "contextual".' if start == "words" and self.config.hidden_size != size else ".")
            )

    def _words_of(self, tokenizer, texts: Sequence[str]) -> torch.Tensor:
        """The mean word embedding of each text, (len(texts), d')."""
        words = self.get_input_embeddings().weight
        ids = [label_ids(tokenizer, text, special_tokens=False) for text in texts]
        return torch.stack([words[torch.tensor(row, device=words.device)].mean(dim=0) for row in ids])

    def _states_of(self, tokenizer, texts: Sequence[str]) -> list[torch.Tensor]:
        """The last hidden states of each text, (L, d), special tokens included."""
        training = self.training
        self.eval()
        ids = [torch.tensor([label_ids(tokenizer, text, special_tokens=True)], device=self.device) for text in texts]
        states = [self(row, return_dict=True).last_hidden_state[0] for row in ids]
        self.train(training)
        return states


def label_ids(tokenizer, text: str, special_tokens: bool) -> list[int]:
    """The ids of a label's text; ValueError if the tokenizer knows no part of it."""
    # With a space before it: a byte-pair tokenizer has another token for "joy" at the beginning of a text.
    ids = tokenizer(" " + text.replace("_", " "), add_special_tokens=special_tokens)["input_ids"]
    if all(i in {tokenizer.unk_token_id, *tokenizer.all_special_ids} for i in ids):
        raise ValueError(
            f"The tokenizer has no word piece for the label text {text!r}: describe the label in other words "
            "with `label_texts`."
        )
    return ids


def texts_of(names: Sequence[str], label_texts: Sequence[str] | Mapping[str, str] | None) -> list[str]:
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


class LabelAwareClassifier(_Model):
    """A base of heads over label attention, to name first: logits, adding labels by name, and the start of the head's bias."""

    # The loss is a mean over rows and ignores `num_items_in_batch`. Without this the Trainer would not divide it by the number of
    # accumulation steps.
    accepts_loss_kwargs = False

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
        labels: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> LabelAwareClassifierOutput:
        r"""
        Args:
            document_ids: (B,), for rows that are windows: the number of each row's document, from 0 without gaps. Logits and
                labels are then per document, see [`join_windows`]. Default: every row is a document.
            labels: (B, C) of 0 and 1 for multi-label, (B,) class ids for single-label classification.

        For the other arguments see the base model.
        """
        self._check_training()
        outputs = self.base_model(
            input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            pooling_mask=pooling_mask,
            return_dict=True,
            **kwargs,
        )
        logits = self.classifier(outputs.label_representations)  # (B, C)
        if document_ids is not None:
            check_documents(document_ids, len(logits))
            documents = document_ids.max().item() + 1  # `int` would fix the number in an exported program
            logits = join_windows(logits, outputs.label_attention_lse, document_ids, documents)
        loss = None if labels is None else classification_loss(logits, labels, self.config)
        return LabelAwareClassifierOutput(
            loss=loss,
            logits=logits,
            label_attentions=outputs.label_attentions,
            label_attention_lse=outputs.label_attention_lse,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )

    def init_label_embeddings(self, tokenizer, label_texts: Sequence[str] | Mapping[str, str] | None = None):
        """See [`LabelVectors.init_label_embeddings`]."""
        self.base_model.init_label_embeddings(tokenizer, label_texts)
        return self

    @property
    def label_start_size(self) -> int:
        """See [`LabelVectors.label_start_size`]."""
        return self.base_model.label_start_size

    @torch.no_grad()
    def init_head_bias(self, frequencies: Sequence[float]):
        r"""
        Start the bias of the head at the log odds of the labels' frequencies (Lin et al. 2017, section 4.1), so that the
        first steps are not spent on learning that most labels are absent. A head shared by all labels starts at the log odds
        of their mean.

        Args:
            frequencies: the share of the training rows that have each label, C values in [0, 1].

        Raises:
            ValueError: the number of values is wrong, or a value lies outside [0, 1].
        """
        shares = torch.as_tensor(frequencies, dtype=torch.float64)
        if shares.shape != (self.config.num_labels,) or not ((shares >= 0) & (shares <= 1)).all():
            raise ValueError(
                f"`frequencies` must be {self.config.num_labels} shares in [0, 1], one for each label, got {frequencies}."
            )
        last = self.classifier[-1] if isinstance(self.classifier, nn.Sequential) else self.classifier.out_proj
        if last.bias.numel() == 1:
            shares = shares.mean()[None]
        last.bias.copy_(shares.clamp(1e-4, 1 - 1e-4).logit())
        return self

    @torch.no_grad()
    def add_labels(
        self, names: Sequence[str], tokenizer, label_texts: Sequence[str] | Mapping[str, str] | None = None
    ):
        r"""
        Add labels after training, by their names, placed among the present labels. Labels are vectors and share the head, so a new
        label has a logit at once; the logits of the old labels do not change.

        The config is extended too: `id2label` and `label2id`; `thresholds`, if there are any, by their mean; `class_counts`
        by 0, which the class-balanced loss treats as the smallest count.

        Args:
            names: new label names, each different from the present ones.
            tokenizer: the tokenizer of this encoder.
            label_texts: texts to read instead of the names: in the order of `names`, or a mapping from name to text.

        Raises:
            ValueError: a name is taken or repeated; the model has untied heads or LEAM, so that new outputs would be
                untrained; see [`LabelVectors.init_label_embeddings`].
        """
        config = self.config
        if isinstance(names, str):
            raise ValueError(f"`names` must be a list of names, got the string {names!r}: pass [{names!r}].")
        if config.label_attention == "leam" or not config.tie_head:
            raise ValueError(
                "With `label_attention='leam'` or `tie_head=False` a new label would need its own trained weights; "
                "labels can be added if the head is tied and the attention bilinear."
            )
        old_names = [config.id2label[i] for i in range(config.num_labels)]
        taken = sorted(name for i, name in enumerate(names) if name in old_names or name in names[:i])
        if taken:
            raise ValueError(f"Label names must be new and different; taken: {taken}.")
        label_texts = texts_of(names, label_texts)
        if not names:
            return self

        base = self.base_model
        base.score.append(base.embed_new_labels(tokenizer, old_names, label_texts))
        all_names = old_names + list(names)
        config.id2label = dict(enumerate(all_names))
        config.label2id = {name: i for i, name in enumerate(all_names)}
        if config.thresholds is not None:
            config.thresholds = config.thresholds + [sum(config.thresholds) / len(old_names)] * len(names)
        if config.class_counts is not None:
            config.class_counts = config.class_counts + [0] * len(names)
        # Their thresholds are for probabilities of the old labels alone.
        stale = [rule for rule in RULES if getattr(config, rule, None) is not None]
        for rule in stale:
            setattr(config, rule, None)
        warn_of_dropped(stale)
        config.validate()
        self.num_labels = config.num_labels
        return self


__all__ = [
    "LabelAwareClassifier",
    "LabelAwareClassifierOutput",
    "LabelAwareHead",
    "LabelAwareModelOutput",
    "LabelAwarePooling",
    "LabelAwareWeights",
    "LabelVectors",
    "LabelWiseLinear",
    "LeamPooling",
    "join_windows",
    "label_classifier",
    "label_pooling",
    "pooled_tokens",
    "with_sentence",
]
