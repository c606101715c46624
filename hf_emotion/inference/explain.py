# SPDX-License-Identifier: Apache-2.0
"""What a checkpoint looked at: attention, gradients, integrated gradients and occlusion, as heat maps over words."""

import contextlib
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from transformers import PreTrainedModel

from ..modeling.dialogue_turns import number_speakers, read_turn
from ..modeling.pipeline_emotional_response import emotion_ids_of, emotion_vector
from ..modeling.target_texts import model_inputs
from ..runtime.batching import as_texts, encode_texts, pad_rows
from ..runtime.torch_models import to_tensors
from ..runtime.unread import Unread
from ..tasks.dialogue_emotion.predictor import DialoguePredictor, speaker_and_utterance, utterance_vectors
from ..tasks.emotion_classification.predictor import Predictor
from ..tasks.emotional_response.predictor import Emotion, ReplyGenerator, unread_contexts
from ..tasks.targeted_sentiment.predictor import TargetedPredictor
from . import load_predictor


logger = logging.getLogger(__name__)

METHODS = ("attention", "gradient", "integrated-gradients", "occlusion")
Merge = Literal["sum", "max", "none"]
LABELS_SHOWN = 5
DIMENSIONS_SHOWN = 10
# Of the integral, by Gauss-Legendre quadrature. The gap that is left is part of the result.
STEPS = 64
TOKENS_AT_ONCE = 4096

GRADIENT_TITLE = "gradient sensitivity"
GRADIENT_UNIT = "squared norm of the gradient, divided by the largest of the row"


@dataclass(frozen=True)
class HeatMap:
    """
    Attributes:
        title: what it shows.
        unit: of the values.
        axes: what rows and columns are: ("label", "word").
        rows: the name of each row.
        columns: the name of each column: words, pieces, or numbers of utterances or dimensions.
        values: (rows, columns) float64.
        scores: one number for each row, such as the probability of its label; None where there is none.
        score_name: what these are.
    """

    title: str
    unit: str
    axes: tuple[str, str]
    rows: list[str]
    columns: list[str]
    values: np.ndarray
    scores: list[float] | None = None
    score_name: str | None = None

    @property
    def largest(self) -> float:
        """The largest magnitude, which colours are scaled by; 1 where all is 0."""
        return float(np.abs(self.values).max(initial=0.0)) or 1.0

    @property
    def signed(self) -> bool:
        """Whether some value is negative."""
        return bool((self.values < 0).any())


@dataclass(frozen=True)
class Explanation:
    """
    Attributes:
        checkpoint: what was explained.
        model_type: of its configuration.
        text: what the model read; of dialogues the turns, one a line.
        method: one of `METHODS`, "likelihood" for generators.
        maps: the heat maps.
        notes: how to read them: what was merged, left out, replaced.
        seconds: computing time without loading.
    """

    checkpoint: str
    model_type: str
    text: str
    method: str
    maps: list[HeatMap]
    notes: list[str]
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, as JSON takes them."""
        maps = [{**vars(heat), "values": heat.values.tolist()} for heat in self.maps]
        return {**asdict(self), "maps": maps}


@dataclass(frozen=True)
class Reading:
    """
    One text as a model reads it.

    Attributes:
        inputs: the model's arguments, (1, L) each.
        words: of the text, in its order.
        word_of: (L,), the number of each token's word; -1 for special tokens and for the second segment.
    """

    inputs: dict[str, torch.Tensor]
    words: list[str]
    word_of: np.ndarray

    def merged(self, values: np.ndarray, merge: str) -> np.ndarray:
        """(..., L) -> (..., words): "sum", "mean", or "max", the piece of the largest magnitude with its sign."""
        result = np.empty((*values.shape[:-1], len(self.words)))
        for word in range(len(self.words)):
            own = values[..., self.word_of == word]
            if merge == "max":
                result[..., word] = np.take_along_axis(own, np.abs(own).argmax(-1, keepdims=True), -1)[..., 0]
            else:
                result[..., word] = own.mean(-1) if merge == "mean" else own.sum(-1)
        return result

    def elsewhere(self, values: np.ndarray) -> np.ndarray:
        """(..., L) -> (...): the sum over what is no word of the text."""
        return values[..., self.word_of < 0].sum(-1)


def explain(
    checkpoint: str | Path | Predictor | DialoguePredictor | ReplyGenerator,
    text: str | Sequence[Any],
    labels: Sequence[str] | None = None,
    targets: Sequence[str] | None = None,
    aspects: Sequence[str] | None = None,
    emotions: Sequence[Emotion] | None = None,
    reply: str | None = None,
    method: str | None = None,
    merge: Merge = "sum",
    layer: int | None = None,
    head: int | None = None,
    max_length: int | None = None,
) -> Explanation:
    """
    What a checkpoint looked at when it read a text.

    Methods, over the words of the text, or the utterances of a dialogue:

    - "attention" (default): label-aware BERT: of each label over the words. RoBERTa with ESA: the weight of each word in the
      pooled sentence, and the dimensions whose scale S lies farthest from 1. CG-BERT and QACG-BERT: of `layer` and `head`,
      summed over the queries and, for QACG-BERT, divided by the largest magnitude of a context (figure 5 of the paper), and
      the gates. Dialogues: of each utterance over the others, mean over heads. Others: of the first token in the last layer.
    - "gradient": of a label's logit with respect to the embedding output, squared norm per token, divided by the sentence's
      maximum (figure 3 of the paper of QACG-BERT).
    - "integrated-gradients" (Sundararajan et al. 2017) of the logit, from the text with every token masked.
    - "occlusion": what the logit loses when a word is masked.

    A generator has none of these: ln P of each word of a reply under each emotion, as its difference from the mean over the
    emotions, and as −ln P.

    Args:
        checkpoint: run folder, Hub id, or a predictor that is loaded already.
        text: a text; a context; or the turns of a dialogue, (speaker, utterance) or "SPEAKER: UTTERANCE".
        labels: names of labels. Default: the 5 most probable; of targeted sentiment and of dialogues the predicted one.
        targets, aspects: of targeted sentiment. Default: the targets in the text, all aspects.
        emotions: of generators, names or mixtures; the reply is generated in the first. Fewer than two: it is compared with all
            emotions of the model.
        reply: of generators, a reply that is given instead of generated.
        method: see above.
        merge: the pieces of a word: "sum" or "max" (the piece of the largest magnitude); "none" shows the pieces.
        layer, head: of CG-BERT and QACG-BERT, counted from 0, which is the default.
        max_length: tokens per text, at most the model's positions; default: as many as in training. Longer texts are cut, with a warning.

    Raises:
        OSError: no such checkpoint.
        ModuleNotFoundError: a method that needs captum, where that is not installed.
        ValueError: an unknown name (with the nearest ones); an argument or method that does not fit the model.
    """
    predictor = load_predictor(checkpoint, max_length=max_length) if isinstance(checkpoint, str | Path) else checkpoint
    if not isinstance(predictor.model, PreTrainedModel):
        raise ValueError(
            "an exported model shows neither attention nor gradients: explain the checkpoint that it was exported from."
        )
    if merge not in ("sum", "max", "none"):
        raise ValueError(f"`merge` must be 'sum', 'max' or 'none', got {merge!r}.")
    if method is not None and method not in METHODS:
        raise ValueError(f"`method` must be one of {', '.join(METHODS)}, got {method!r}.")
    given = {
        name
        for name, value in (
            *(("labels", labels), ("targets", targets), ("aspects", aspects), ("emotions", emotions)),
            *(("reply", reply), ("method", method), ("layer", layer), ("head", head)),
        )
        if value is not None
    }
    if method in METHODS[1:]:
        _captum()  # the first import takes seconds
    begin = time.perf_counter()
    if isinstance(predictor, ReplyGenerator):
        _refuse(given - {"emotions", "reply"}, "a generator of replies", "likelihoods of tokens under `emotions`")
        method = "likelihood"
        text, maps, notes = _explain_reply(predictor, _one_text(text), list(emotions or []), reply, merge)
    elif isinstance(predictor, DialoguePredictor):
        _refuse(given - {"labels", "method"}, "a model of dialogues", "`labels`")
        method = method or METHODS[0]
        text, maps, notes = _explain_dialogue(predictor, text, labels, method)
    else:
        targeted = isinstance(predictor, TargetedPredictor)
        fitting = {"labels", "method", "layer", "head", *(("targets", "aspects") if targeted else ())}
        kind = "a model of targeted sentiment" if targeted else "a classifier of texts"
        _refuse(given - fitting, kind, ", ".join(f"`{name}`" for name in sorted(fitting - {"method"})))
        method = method or METHODS[0]
        if {"layer", "head"} & given and (method != "attention" or not _is_guided(predictor.model)):
            raise ValueError("`layer` and `head` go with the attention of a CG-BERT or QACG-BERT: leave them out.")
        text = _one_text(text)
        contexts = _contexts(predictor, text, targets, aspects)
        maps, notes = _explain_text(predictor, contexts, labels, method, merge, layer or 0, head or 0)
    name = checkpoint if isinstance(checkpoint, str | Path) else predictor.model.config._name_or_path
    seconds = time.perf_counter() - begin
    return Explanation(str(name), predictor.model.config.model_type, text, method, maps, notes, seconds)


def _refuse(names: set[str], kind: str, takes: str) -> None:
    if names:
        found = ", ".join(f"`{name}`" for name in sorted(names))
        raise ValueError(f"{found} cannot be used with {kind}, which takes {takes}: leave it out.")


def _one_text(text: str | Sequence[str]) -> str:
    texts = as_texts(text)
    if len(texts) != 1:
        raise ValueError(
            f"the model explains one text at a time, got {len(texts)}: several are the turns of a dialogue."
        )
    return texts[0]


def check_names(argument: str, names: Sequence[str], known: Sequence[str]) -> list[int]:
    """The place of each name; ValueError with the nearest names for an unknown one."""
    if isinstance(names, str) or not names:
        raise ValueError(f"`{argument}` must be a list of names, at least one; got {names!r}.")
    for name in names:
        if name not in known:
            near = get_close_matches(str(name), known, n=3, cutoff=0.4)
            hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
            few = ", ".join(map(str, known[:30])) + (", ..." if len(known) > 30 else "")
            raise ValueError(f"`{argument}` has the unknown name {name!r}: {hint}The model knows {few}.")
    return [list(known).index(name) for name in names]


# Classifiers of texts


@dataclass(frozen=True)
class Context:
    """What a model is asked about a text: for targeted sentiment a target and an aspect, else nothing."""

    name: str | None
    text: str
    auxiliary: str | None = None
    context_id: int | None = None


def _contexts(
    predictor: Predictor, text: str, targets: Sequence[str] | None, aspects: Sequence[str] | None
) -> list[Context]:
    config = predictor.model.config
    if not isinstance(predictor, TargetedPredictor):
        return [Context(None, text)]
    if aspects is not None:
        check_names("aspects", aspects, config.aspects)
    if targets is not None:
        if config.targets is None:
            raise ValueError(
                f"`targets` are given, but the model has only the aspects {config.aspects}: leave them out."
            )
        check_names("targets", targets, config.targets)
    elif config.targets is not None:
        targets = predictor.targets_in(text)
    asked: Sequence[str | None] = targets or [None]
    return [targeted_context(config, text, target, aspect) for target in asked for aspect in aspects or config.aspects]


def targeted_context(config, text: str, target: str | None, aspect: str) -> Context:
    """The context of a target's aspect."""
    text, auxiliary, context_id = model_inputs(config, text, target, aspect)
    return Context(
        aspect if target is None else f"{target} {aspect}",
        text,
        auxiliary,
        context_id if hasattr(config, "num_contexts") else None,
    )


def read_text(predictor: Predictor, context: Context, merge: Merge = "sum") -> tuple[Reading, Unread]:
    """A text as the model reads it, and what it cannot read of it."""
    tokenizer, config = predictor.tokenizer, predictor.model.config
    if not tokenizer.is_fast:
        raise ValueError(
            f"{type(tokenizer).__name__} does not tell which characters a token stands for: use a fast tokenizer."
        )
    segments = [[context.text]] if context.auxiliary is None else [[context.text], [context.auxiliary]]
    encoded, unread = encode_texts(tokenizer, segments, predictor.max_length, predictor.gate, config)
    if context.context_id is not None:
        encoded["context_ids"] = [context.context_id]
    text = context.text
    if predictor.gate is not None and config.tfidf_gating == "filter":
        text = predictor.gate.filter(text)
    tokens = tokenizer(
        text,
        context.auxiliary,
        truncation="only_first",
        max_length=predictor.max_length,
        return_offsets_mapping=True,
    )
    words, word_of = _words(text, tokens, merge)
    if not words:
        raise ValueError(f"the tokenizer finds no word in {context.text!r}.")
    inputs = to_tensors(pad_rows(tokenizer, encoded), predictor.model)
    return Reading(inputs, words, word_of), unread


def _words(text: str, tokens, merge: str) -> tuple[list[str], np.ndarray]:
    """Words, or pieces, of the first segment of what a fast tokenizer gives, and the number of each token's."""
    spans: list[list[int]] = []
    word_of = np.full(len(tokens["input_ids"]), -1)
    last = None
    for token, (sequence, word) in enumerate(zip(tokens.sequence_ids(0), tokens.word_ids(0), strict=True)):
        if sequence != 0 or word is None:
            continue
        start, end = tokens["offset_mapping"][token]
        if word != last or merge == "none":
            spans.append([start, end])
        spans[-1][1] = end
        word_of[token], last = len(spans) - 1, word
    return [text[start:end].strip() for start, end in spans], word_of


def _explain_text(
    predictor: Predictor,
    contexts: list[Context],
    labels: Sequence[str] | None,
    method: str,
    merge: Merge,
    layer: int,
    head: int,
) -> tuple[list[HeatMap], list[str]]:
    readings, unread = zip(*(read_text(predictor, context, merge) for context in contexts), strict=True)
    predictor.warn_unread(*np.max([each.counts for each in unread], axis=0))
    # A longer auxiliary sentence leaves less room for the text: what all contexts have is shown.
    words = min((reading.words for reading in readings), key=len)
    notes = [_merge_note(merge, method)]
    left_out = "special tokens" + (" and the auxiliary sentence" if contexts[0].auxiliary is not None else "")
    if method == "attention":
        if labels is not None and not _is_label_aware(predictor.model):
            raise ValueError(
                f"`labels` cannot be used with the attention of a {predictor.model.config.model_type!r} model, which is the same "
                f"for all labels: leave it out, or use {_list(METHODS[1:])}."
            )
        if _is_guided(predictor.model):
            maps = _guided_maps(predictor, contexts, readings, merge, layer, head)
            return _trimmed(maps, words), [*notes, f"left out: {left_out}"]
        maps, elsewhere = _attention_maps(predictor, contexts, readings, labels, merge)
        held = ", ".join(f"{name} {share:.2f}" for name, share in elsewhere)
        return _trimmed(maps, words), [*notes, f"left out: {left_out}, which hold this share of the attention: {held}"]

    rows, scores, values, gaps = [], [], [], []
    for context, reading in zip(contexts, readings, strict=True):
        probabilities = _probabilities(predictor, reading)
        for label in _chosen(predictor, probabilities, labels):
            attribution, gap = word_scores(predictor, reading, label, method, merge)
            rows.append(": ".join(part for part in (context.name, _label_names(predictor)[label]) if part))
            scores.append(float(probabilities[label]))
            values.append(attribution[: len(words)])
            gaps.append(gap)
    title, unit = {
        "gradient": (GRADIENT_TITLE, GRADIENT_UNIT),
        "integrated-gradients": ("integrated gradients", "logit"),
        "occlusion": ("occlusion: what the logit loses without the word", "logit"),
    }[method]
    notes.append(f"left out: {left_out}")
    if method != "gradient":
        notes.append(f"tokens are replaced by {predictor.tokenizer.convert_ids_to_tokens(_neutral_token(predictor))}")
    if method == "integrated-gradients":
        notes.append(f"{STEPS} steps; sums differ from the difference of the logits by at most {max(gaps):.2g}")
    axes = (_row_axis(predictor), _column_axis(merge))
    return [HeatMap(title, unit, axes, rows, words, np.array(values), scores, "probability")], notes


def _merge_note(merge: str, method: str) -> str:
    if merge == "none":
        return "word pieces are shown on their own"
    if method == "occlusion":
        return "whole words are masked at once"
    return f"word pieces are merged to words: {'their sum' if merge == 'sum' else 'the one of the largest magnitude'}"


def _row_axis(predictor: Predictor) -> str:
    return "context: label" if isinstance(predictor, TargetedPredictor) else "label"


def _column_axis(merge: str) -> str:
    return "word piece" if merge == "none" else "word"


def _list(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else names[0]


def _trimmed(maps: list[HeatMap], words: list[str]) -> list[HeatMap]:
    """The maps over words without the last words that some context has no room for."""
    return [
        heat
        if len(heat.columns) <= len(words) or heat.columns[: len(words)] != words
        else HeatMap(**{**vars(heat), "columns": words, "values": heat.values[:, : len(words)]})
        for heat in maps
    ]


def _label_names(predictor: Predictor | DialoguePredictor) -> list[str]:
    """The model's own, whatever taxonomy rolls them up."""
    config = predictor.model.config
    return [config.id2label[i] for i in range(config.num_labels)]


@torch.no_grad()
def _probabilities(predictor: Predictor, reading: Reading) -> np.ndarray:
    """(C,), of the model's own labels."""
    logits = predictor.model(**reading.inputs).logits[0].float()
    return (logits.sigmoid() if predictor.multi_label else logits.softmax(dim=-1)).cpu().numpy()


def _chosen(predictor: Predictor, probabilities: np.ndarray, labels: Sequence[str] | None) -> list[int]:
    if labels is not None:
        return check_names("labels", labels, _label_names(predictor))
    most = 1 if isinstance(predictor, TargetedPredictor) else LABELS_SHOWN
    return [int(label) for label in np.argsort(-probabilities, kind="stable")[:most]]


def word_scores(
    predictor: Predictor, reading: Reading, label: int, method: str, merge: Merge = "sum"
) -> tuple[np.ndarray, float]:
    """
    Of one label, (words,) float64, and the gap of the completeness of integrated gradients (0 for other methods).

    "attention" is here one row for any model: of the label (label-aware BERT), the pooled one (ESA), of the first token in the
    last layer, mean over heads (others; QACG-BERT: of the combined attention).
    """
    if method == "attention":
        rows = _attention_rows(predictor.model, reading)
        return reading.merged(rows[label if len(rows) == predictor.model.config.num_labels else 0], merge), 0.0
    model = predictor.model
    captum = _captum()
    names = [name for name in reading.inputs if name != "input_ids"]
    ids, others = reading.inputs["input_ids"], tuple(reading.inputs[name] for name in names)

    def forward(input_ids, *others):
        return model(input_ids=input_ids, **dict(zip(names, others, strict=True))).logits.float()

    at_once = max(1, TOKENS_AT_ONCE // ids.shape[1])
    of_text = torch.from_numpy(reading.word_of >= 0).to(ids.device)[None]
    baseline = torch.where(of_text, _neutral_token(predictor), ids)
    if method == "occlusion":
        # The last feature is what is not of the text; its baseline is itself.
        mask = np.where(reading.word_of < 0, len(reading.words), reading.word_of)
        with torch.no_grad():
            lost = captum.FeatureAblation(forward).attribute(
                ids,
                baselines=baseline,
                target=label,
                additional_forward_args=others,
                feature_mask=torch.from_numpy(mask).to(ids.device)[None],
                perturbations_per_eval=at_once,
            )
        first = [int(np.argmax(reading.word_of == word)) for word in range(len(reading.words))]
        return lost[0, first].double().cpu().numpy(), 0.0
    embeddings = _embeddings(model)
    if method == "gradient":
        gradient = captum.LayerGradientXActivation(forward, embeddings, multiply_by_inputs=False).attribute(
            ids, target=label, additional_forward_args=others
        )
        norms = reading.merged(gradient[0].double().square().sum(-1).cpu().numpy(), merge)
        return norms / (norms.max() or 1.0), 0.0
    attribution, gap = captum.LayerIntegratedGradients(forward, embeddings).attribute(
        ids,
        baselines=baseline,
        target=label,
        additional_forward_args=others,
        n_steps=STEPS,
        internal_batch_size=at_once,
        return_convergence_delta=True,
    )
    return reading.merged(attribution[0].detach().double().sum(-1).cpu().numpy(), merge), float(gap.abs().max())


def _captum():
    try:
        import captum.attr
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "gradient, integrated-gradients and occlusion need captum: pip install 'hf-emotion[explain]'; attention does not."
        ) from error
    return captum.attr


def _embeddings(model) -> torch.nn.Module:
    embeddings = getattr(model.base_model, "embeddings", None)
    if embeddings is None:
        raise ValueError(
            f"gradient and integrated-gradients do not fit a {model.config.model_type!r} model, which has no `embeddings`: use "
            "occlusion."
        )
    return embeddings


def _neutral_token(predictor: Predictor) -> int:
    """What stands for nothing: the mask; positions stay as they are."""
    tokenizer = predictor.tokenizer
    for token in (tokenizer.mask_token_id, tokenizer.unk_token_id, tokenizer.pad_token_id):
        if token is not None:
            return token
    raise ValueError("the tokenizer has no token that stands for nothing: give it a mask, unknown or padding token.")


# Attention


def _is_label_aware(model) -> bool:
    return hasattr(model.config, "label_attention")


def _is_guided(model) -> bool:
    return hasattr(model.config, "num_contexts")


@contextlib.contextmanager
def _explicit_attention(model) -> Iterator[None]:
    """Fused kernels return no attention."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(before)


@torch.no_grad()
def _outputs(model, reading: Reading):
    with _explicit_attention(model):
        return model(**reading.inputs, output_attentions=True)


def _numpy(tensor: torch.Tensor) -> np.ndarray:
    return tensor.double().cpu().numpy()


def _attention_heads(model, reading: Reading) -> np.ndarray:
    """(heads, L): the attention that the sentence vector is made by, each row summing to 1 (not of QACG-BERT)."""
    outputs = _outputs(model, reading)
    if outputs.get("esa_attentions") is not None:
        attention = outputs.esa_attentions[0]  # (h, L, L)
        # Pooling is linear: a word weighs in the mean what it weighs in the mean of the queries.
        pooled = {"cls": attention[:, 0], "mean": attention.mean(dim=1)}
        pooled["cls_mean"] = (pooled["cls"] + pooled["mean"]) / 2
        return _numpy(pooled[model.config.esa_pooling])
    layers = outputs.get("combined_attentions") or outputs.get("attentions")
    if not layers:
        raise ValueError(
            f"attention does not fit a {model.config.model_type!r} model, which returns none: use {_list(METHODS[1:])}."
        )
    return _numpy(layers[-1][0, :, 0])


def _attention_rows(model, reading: Reading) -> np.ndarray:
    """(C, L) of a label-aware model, else one row (1, L)."""
    if _is_label_aware(model):
        with torch.no_grad():
            return _numpy(model(**reading.inputs).label_attentions[0])
    return _attention_heads(model, reading).mean(axis=0, keepdims=True)


def _attention_maps(
    predictor: Predictor,
    contexts: list[Context],
    readings: Sequence[Reading],
    labels: Sequence[str] | None,
    merge: Merge,
) -> tuple[list[HeatMap], list[tuple[str, float]]]:
    """Of models without context, and the attention of each row that falls outside the words."""
    model, config = predictor.model, predictor.model.config
    words = min((reading.words for reading in readings), key=len)
    rows: list[str] = []
    values, elsewhere = [], []
    scores: list[float] | None = None
    further = []
    axes = (_row_axis(predictor), _column_axis(merge))
    if _is_label_aware(model):
        reading = readings[0]
        found = _attention_rows(model, reading)
        probabilities = _probabilities(predictor, reading)
        chosen = _chosen(predictor, probabilities, labels)
        title = "attention of each label"
        if len(found) == 1 and config.label_attention == "leam":
            title, rows = "attention, one for all labels", ["all labels"]
        else:
            rows, found = [_label_names(predictor)[label] for label in chosen], found[chosen]
            scores = [float(probabilities[label]) for label in chosen]
        values, elsewhere = [reading.merged(found, merge)], list(reading.elsewhere(found))
    else:
        axes = ("context: head" if contexts[0].name else "head", axes[1])
        esa = hasattr(config, "esa_pooling")
        title = "emotion-specific attention, pooled" if esa else "attention of the first token in the last layer"
        for context, reading in zip(contexts, readings, strict=True):
            found = _attention_heads(model, reading)
            names = ["mean of heads"]
            if len(contexts) == 1:
                found = np.concatenate([found.mean(axis=0, keepdims=True), found])
                names += [f"head {number}" for number in range(len(found) - 1)]
            else:
                found = found.mean(axis=0, keepdims=True)
            rows += [": ".join(part for part in (context.name, name) if part) for name in names]
            values.append(reading.merged(found, merge)[:, : len(words)])
            elsewhere += list(reading.elsewhere(found))
        if esa:
            further.append(_scaled_dimensions(model))
    score_name = "probability" if scores else None
    heat = HeatMap(title, "share of the attention", axes, rows, words, np.concatenate(values), scores, score_name)
    return [heat, *further], [(name, float(share)) for name, share in zip(rows, elsewhere, strict=True)]


def _scaled_dimensions(model) -> HeatMap:
    """Of the scaling vector S, which starts at 1, what lies farthest from 1."""
    scale = _numpy(model.base_model.score.scale.detach()) - 1
    strongest = np.argsort(-np.abs(scale), kind="stable")[:DIMENSIONS_SHOWN]
    return HeatMap(
        f"the {len(strongest)} of {len(scale)} dimensions that are scaled most",
        "S − 1: above 0 amplified, below 0 dampened",
        ("vector", "dimension"),
        ["S − 1"],
        [str(dimension) for dimension in strongest],
        scale[strongest][None],
    )


def _guided_maps(
    predictor: Predictor, contexts: list[Context], readings: Sequence[Reading], merge: Merge, layer: int, head: int
) -> list[HeatMap]:
    """
    Of CG-BERT and QACG-BERT, one row for each context. Attention is summed over the queries, so that a column tells what a
    word gives to all; gates belong to queries and are averaged over the pieces of a word.
    """
    model, config = predictor.model, predictor.model.config
    for name, value, count in (("layer", layer, config.num_hidden_layers), ("head", head, config.num_attention_heads)):
        if not 0 <= value < count:
            raise ValueError(f"`{name}` must lie in [0, {count}), got {value}.")
    quasi = config.model_type == "qacg-bert"
    names = ("A_self", "A_quasi", "λ_A·A_quasi", "A_self + λ_A·A_quasi") if quasi else ("attention",)
    gates = ("λ_A",) if quasi else ("λ_Q", "λ_K")
    words = min((reading.words for reading in readings), key=len)
    values: dict[str, list[np.ndarray]] = {name: [] for name in (*names, *gates)}
    rows, scores = [], []
    for context, reading in zip(contexts, readings, strict=True):
        outputs = _outputs(model, reading)
        probabilities = _probabilities(predictor, reading)
        best = int(probabilities.argmax())
        rows.append(f"{context.name}: {_label_names(predictor)[best]}")
        scores.append(float(probabilities[best]))
        attention = _numpy(outputs.attentions[layer][0, head].sum(dim=0))  # (L,)
        sums = [attention]
        if quasi:
            combined = _numpy(outputs.combined_attentions[layer][0, head].sum(dim=0))
            alone = config.quasi_alpha * _numpy(outputs.quasi_attentions[layer][0, head].sum(dim=0))
            sums += [alone, combined - attention, combined]
        merged = reading.merged(np.stack(sums), merge)
        if quasi:  # by one number, so that the last is still the sum of what it adds
            merged /= np.abs(merged[[0, 2, 3]]).max() or 1.0
        found = _numpy(outputs.context_gates[layer][0, head])  # (L, 1), or (L, 2) of CG-BERT
        for name, row in zip((*names, *gates), (*merged, *reading.merged(found.T, "mean")), strict=True):
            values[name].append(row[: len(words)])
    where = f"layer {layer}, head {head}"
    maps = []
    for name, found in values.items():
        unit = "attention, summed over the queries"
        if name in gates:
            unit = (
                "gate of the word as query, mean over its pieces"
                if name != "λ_K"
                else "gate of the word as key, mean over its pieces"
            )
        elif quasi:
            unit += ", divided by the largest magnitude in the context of A_self, λ_A·A_quasi and their sum"
        axes = (_row_axis(predictor), _column_axis(merge))
        maps.append(HeatMap(f"{name}, {where}", unit, axes, rows, words, np.array(found), scores, "probability"))
    return maps


# Dialogues


def _explain_dialogue(
    predictor: DialoguePredictor, text: str | Sequence[Any], labels: Sequence[str] | None, method: str
) -> tuple[str, list[HeatMap], list[str]]:
    """Rows are the utterances that are classified, columns those that they draw on."""
    model, config = predictor.model, predictor.model.config
    turns = [
        speaker_and_utterance(turn) if isinstance(turn, str) else read_turn(turn, number)
        for number, turn in enumerate([text] if isinstance(text, str) else text, 1)
    ]
    as_texts([utterance for _, utterance in turns])
    if not turns:
        raise ValueError("a dialogue must have at least one turn.")
    vectors, unread = utterance_vectors(model, predictor.tokenizer, [turn for _, turn in turns], predictor.max_length)
    predictor.warn_unread(*unread.counts)
    embeds = torch.from_numpy(vectors).to(model.device, model.dtype)[None]  # (1, U, D)
    names, others = [], []
    if config.num_speakers:
        names = ["speaker_ids"]
        ids = number_speakers([speaker for speaker, _ in turns], config.num_speakers)
        others = [torch.tensor([ids], device=model.device)]

    def forward(embeds, *others):
        return model(utterance_embeds=embeds, **dict(zip(names, others, strict=True))).logits.float()

    with torch.no_grad():
        probabilities = forward(embeds, *others)[0].softmax(dim=-1).cpu().numpy()  # (U, C)
    notes = []
    if method == "attention":
        _refuse({"labels"} if labels is not None else set(), "attention", "no labels, being the same for all of them")
        if not config.num_attention_heads:
            raise ValueError(f"attention does not fit a model with `num_attention_heads=0`: use {_list(METHODS[1:])}.")
        with torch.no_grad():
            outputs = model(utterance_embeds=embeds, output_attentions=True, **dict(zip(names, others, strict=True)))
        values = _numpy(outputs.attentions[0][0].mean(dim=0))  # (U, U)
        title, unit = "attention between utterances, mean of heads", "share of the attention"
    chosen = check_names("labels", labels, _label_names(predictor)) if labels is not None else None
    rows, scores, found = [], [], []
    lines = [f"{number} {f'{speaker}: ' if speaker else ''}{turn}" for number, (speaker, turn) in enumerate(turns, 1)]
    for turn, line in enumerate(lines):
        for label in [int(probabilities[turn].argmax())] if chosen is None else chosen:
            rows.append(f"{line} → {_label_names(predictor)[label]}")
            scores.append(float(probabilities[turn, label]))
            if method != "attention":
                found.append(_utterance_scores(forward, embeds, tuple(others), (turn, label), method))
    if method != "attention":
        values = np.array(found)
        title, unit = {
            "gradient": (f"{GRADIENT_TITLE} of utterances", GRADIENT_UNIT),
            "integrated-gradients": ("integrated gradients of utterances", "logit"),
            "occlusion": ("occlusion: what the logit loses without the utterance", "logit"),
        }[method]
        if method != "gradient":
            notes.append("the vector of an utterance is replaced by 0")
    columns = [str(number) for number in range(1, len(turns) + 1)]
    notes.insert(0, "rows: utterances that are classified; columns: utterances that they draw on, by number")
    read = "\n".join(f"{speaker}: {turn}" if speaker else turn for speaker, turn in turns)
    axes = ("utterance → label", "utterance, by number")
    return read, [HeatMap(title, unit, axes, rows, columns, values, scores, "probability")], notes


def _utterance_scores(
    forward, embeds: torch.Tensor, others: tuple, target: tuple[int, int], method: str
) -> np.ndarray:
    """(U,), of the logit of one label of one turn."""
    captum = _captum()
    # cuDNN has no backward of an LSTM in eval mode.
    with torch.backends.cudnn.flags(enabled=False):
        if method == "gradient":
            gradient = captum.Saliency(forward).attribute(
                embeds.requires_grad_(), target=target, abs=False, additional_forward_args=others
            )
            norms = _numpy(gradient[0].double().square().sum(-1))
            return norms / (norms.max() or 1.0)
        if method == "integrated-gradients":
            attribution = captum.IntegratedGradients(forward).attribute(
                embeds, target=target, additional_forward_args=others, n_steps=STEPS, internal_batch_size=STEPS
            )
            return _numpy(attribution[0].detach().sum(-1))
        mask = torch.arange(embeds.shape[1], device=embeds.device)[None, :, None].expand_as(embeds)
        with torch.no_grad():
            lost = captum.FeatureAblation(forward).attribute(
                embeds, target=target, additional_forward_args=others, feature_mask=mask
            )
        return _numpy(lost[0, :, 0])


# Generators


def _explain_reply(
    generator: ReplyGenerator, context: str, emotions: list[Emotion], reply: str | None, merge: Merge
) -> tuple[str, list[HeatMap], list[str]]:
    """ln P of the words of a reply under emotions, less their mean, and −ln P."""
    tokenizer, config = generator.tokenizer, generator.model.config
    notes = []
    weights = [emotion_vector(emotion, config) for emotion in emotions]
    emotion_ids_of(weights[:1], config)  # refuses mixtures where the model reads a token
    if reply is None:
        if not emotions:
            raise ValueError("`emotions` must name one, which the reply is generated in, or `reply` must be given.")
        reply = generator(context, emotions[0], do_sample=False, num_beams=1)[0]
        notes.append(f"the reply was generated in {_emotion_name(emotions[0])}, the most probable token each time")
        if not reply:
            raise ValueError(f"the model's reply in {_emotion_name(emotions[0])} is empty: give one as `reply`.")
    elif not reply.strip():
        raise ValueError(f"`reply` must be a text that is not empty, got {reply!r}.")
    else:
        unread_contexts(tokenizer, config, [context], generator.max_length)
    asked = emotions if len(emotions) > 1 else list(generator.emotions)
    if not tokenizer.is_fast:
        raise ValueError(
            f"{type(tokenizer).__name__} does not tell which characters a token stands for: use a fast tokenizer."
        )
    ids = generator.token_ids([reply])[0]
    tokens = tokenizer(
        reply,
        add_special_tokens=False,
        truncation=True,
        max_length=config.max_position_embeddings - 1,
        return_offsets_mapping=True,
    )
    if len(tokenizer(reply, add_special_tokens=False, verbose=False)["input_ids"]) > len(tokens["input_ids"]):
        logger.warning("the reply is longer than %d tokens and was cut", config.max_position_embeddings - 1)
    words, word_of = _words(reply, tokens, merge)
    reading = Reading({}, [*words, "(end)"], np.append(word_of, len(words)))
    losses = generator.token_losses([context] * len(asked), [reply] * len(asked), asked)
    by_token = -losses.reshape(len(asked), len(ids)).astype(np.float64)
    totals = by_token.sum(axis=1)
    order = np.argsort(-totals, kind="stable") if len(emotions) < 2 else np.arange(len(asked))
    values = reading.merged(by_token[order], merge)
    rows, scores = [_emotion_name(asked[row]) for row in order], totals[order].tolist()
    shared = (("emotion", _column_axis(merge)), rows, reading.words)
    notes.append(f"the reply: {reply}")
    notes.append(f"{_merge_note(merge, 'likelihood')}; (end) is the token that ends the reply")
    maps = [
        HeatMap(
            f"ln P of each word, less its mean over the {len(rows)} emotions",
            "difference of ln P, nats",
            *shared,
            values - values.mean(axis=0),
            scores,
            "ln P of the reply",
        ),
        HeatMap("−ln P of each word under each emotion", "−ln P, nats", *shared, -values, scores, "ln P of the reply"),
    ]
    return context, maps, notes


def _emotion_name(emotion: Emotion) -> str:
    if isinstance(emotion, Mapping):
        return ", ".join(f"{name}={weight:g}" for name, weight in emotion.items())
    return emotion
