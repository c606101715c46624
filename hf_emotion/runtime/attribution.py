# SPDX-License-Identifier: Apache-2.0
"""
What the explanations of all tasks share: heat maps, words and their tokens, attention, and the scores of words by gradients,
integrated gradients and occlusion.

Shapes: L tokens, C labels.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..io.extras import require
from .batching import as_texts


Merge = Literal["sum", "max", "none"]
# Steps of the integral, by Gauss-Legendre quadrature. The remaining gap is part of the result.
STEPS = 64
TOKENS_AT_ONCE = 4096

GRADIENT_TITLE = "gradient sensitivity"
GRADIENT_UNIT = "squared norm of the gradient, divided by the largest of the row"


@dataclass(frozen=True)
class HeatMap:
    """
    Numbers with names for the colours of a page.

    Attributes:
        title, unit: what it shows, and the unit.
        axes: what the rows and the columns are, such as ("label", "word").
        rows, columns: their names.
        values: (rows, columns) float64.
        scores, score_name: one number for each row, such as the probability of its label, and what it is; None if there is none.
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
        """The largest magnitude, which scales the colours; 1 if all values are 0."""
        return float(np.abs(self.values).max(initial=0.0)) or 1.0

    @property
    def signed(self) -> bool:
        """Whether some value is negative."""
        return bool((self.values < 0).any())


@dataclass(frozen=True)
class Explained:
    """
    How a task explains a text.

    Attributes:
        text: what the model read; for dialogues the turns, one per line.
        method: one of `hf_emotion.tasks.base.METHODS`, "likelihood" for generators.
        maps: the heat maps.
        notes: how to read them: what was merged, left out, replaced.
    """

    text: str
    method: str
    maps: list[HeatMap]
    notes: list[str]


@dataclass(frozen=True)
class Explanation(Explained):
    """What was explained, its model type, and the computing time without loading, and what its task adds."""

    checkpoint: str
    model_type: str
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, as JSON takes them."""
        maps = [{**vars(heat), "values": heat.values.tolist()} for heat in self.maps]
        return {**asdict(self), "maps": maps}


@dataclass(frozen=True)
class Reading:
    """
    One text as a model reads it: the model's arguments, (1, L) each, or (W, L) for a text in W windows; its words; and for each token the
    number of its word, -1 for special tokens and for the second segment.
    """

    inputs: dict[str, torch.Tensor]
    words: list[str]
    word_of: np.ndarray

    def merged(self, values: np.ndarray, merge: str) -> np.ndarray:
        """Merge pieces to words, (..., L) -> (..., words): "sum", "mean", or "max", the largest magnitude with its sign."""
        result = np.empty((*values.shape[:-1], len(self.words)))
        for word in range(len(self.words)):
            pieces = values[..., self.word_of == word]
            if merge == "max":
                result[..., word] = np.take_along_axis(pieces, np.abs(pieces).argmax(-1, keepdims=True), -1)[..., 0]
            else:
                result[..., word] = pieces.mean(-1) if merge == "mean" else pieces.sum(-1)
        return result

    def elsewhere(self, values: np.ndarray) -> np.ndarray:
        """(..., L) -> (...): the sum over the tokens that are in no word of the text."""
        return values[..., self.word_of < 0].sum(-1)


def one_text(text: str | Sequence[str]) -> str:
    """The text itself, or the only text of a list; ValueError for several."""
    texts = as_texts(text)
    if len(texts) != 1:
        raise ValueError(f"the model explains one text at a time, got {len(texts)}.")
    return texts[0]


def refuse_exported(model: Any) -> None:
    """ValueError for an exported model."""
    if getattr(model, "takes_arrays", False):
        raise ValueError("an exported model only predicts: take the checkpoint that it was exported from.")


def check_names(argument: str, names: Sequence[str], known: Sequence[str]) -> list[int]:
    """The index of each name; ValueError for an unknown one."""
    if isinstance(names, str) or not names or not set(names) <= set(known):
        raise ValueError(f"`{argument}` must be a list of names out of {list(known)}, got {names!r}.")
    return [list(known).index(name) for name in names]


def check_fast(tokenizer: PreTrainedTokenizerBase) -> None:
    """ValueError unless the tokenizer tells which characters a token stands for."""
    if not tokenizer.is_fast:
        raise ValueError(
            f"{type(tokenizer).__name__} does not tell which characters a token stands for: use a fast tokenizer."
        )


def words_of(text: str, tokens, merge: str) -> tuple[list[str], np.ndarray]:
    """The words (or pieces) of the first segment, from the output of a fast tokenizer; and for each token the number of its word."""
    spans: list[list[int]] = []
    word_of = np.full(len(tokens["input_ids"]), -1)
    last = None
    for token, (sequence, word) in enumerate(zip(tokens.sequence_ids(0), tokens.word_ids(0), strict=True)):
        if sequence != 0 or word is None:
            continue
        start, end = tokens["offset_mapping"][token]
        # An emoji that is read as its name gives several words in the same place.
        if (word != last or merge == "none") and [start, end] != (spans[-1] if spans else None):
            spans.append([start, end])
        spans[-1][1] = end
        word_of[token], last = len(spans) - 1, word
    return [text[start:end].strip() for start, end in spans], word_of


def merge_note(merge: str, method: str) -> str:
    """A note that says how the pieces of a word are merged."""
    if merge == "none":
        return "word pieces are shown on their own"
    if method == "occlusion":
        return "whole words are masked at once"
    return f"word pieces are merged to words: {'their sum' if merge == 'sum' else 'the one of the largest magnitude'}"


def column_axis(merge: str) -> str:
    """The name of the columns' axis."""
    return "word piece" if merge == "none" else "word"


def attribute_words(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    reading: Reading,
    label: int | tuple[int, int],
    method: str,
    merge: Merge = "sum",
) -> tuple[np.ndarray, float]:
    """
    Scores (words,) float64 for the logit of a label (where each token has logits: of a token and a label), and how far integrated gradients are from
    completeness (else 0).
    """
    captum = captum_attr()
    names = [name for name in reading.inputs if name != "input_ids"]
    ids, others = reading.inputs["input_ids"], tuple(reading.inputs[name] for name in names)

    def forward(input_ids, *others):
        return model(input_ids=input_ids, **dict(zip(names, others, strict=True))).logits.float()

    neutral = neutral_token(tokenizer)
    at_once = max(1, TOKENS_AT_ONCE // ids.shape[1])
    of_text = torch.from_numpy(reading.word_of >= 0).to(ids.device)[None]
    baseline = torch.where(of_text, neutral, ids)
    if method == "occlusion":
        # The last feature is all that is not part of the text; its baseline is itself.
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


def captum_attr() -> Any:
    """The module `captum.attr`, whose first import takes seconds; ModuleNotFoundError where captum is not installed."""
    require("captum", "an explanation by another method than attention", "explain")
    import captum.attr

    return captum.attr


def _embeddings(model: PreTrainedModel) -> torch.nn.Module:
    """The module that turns token ids into the encoder's input."""
    nested = getattr(model.config, "encoder_config", None) is not None
    encoder = model.base_model.get_encoder() if nested else model.base_model
    return getattr(encoder, "embeddings", None) or encoder.get_input_embeddings()


def neutral_token(tokenizer: PreTrainedTokenizerBase) -> int:
    """The id of the token that replaces a word: the mask, else the unknown or the padding token. Positions do not change."""
    tokens = (tokenizer.mask_token_id, tokenizer.unk_token_id, tokenizer.pad_token_id)
    return next(token for token in tokens if token is not None)


@torch.no_grad()
def outputs_with_attention(model: PreTrainedModel, reading: Reading) -> Any:
    """The model's outputs for a text, with attentions, which fused kernels do not return."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        return model(**reading.inputs, output_attentions=True)
    finally:
        model.set_attn_implementation(before)


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """float64, on the CPU."""
    return tensor.double().cpu().numpy()
