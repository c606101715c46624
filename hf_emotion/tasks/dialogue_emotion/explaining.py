# SPDX-License-Identifier: Apache-2.0
"""Shows what a model of dialogues looked at: the utterances that each utterance draws on."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ...modeling.text_processing import read_turn
from ...runtime.attribution import (
    GRADIENT_TITLE,
    GRADIENT_UNIT,
    STEPS,
    Explained,
    HeatMap,
    captum_attr,
    check_names,
    to_numpy,
)
from ...runtime.batching import as_texts
from ...runtime.checkpoints import to_probabilities
from ...runtime.names import METHODS
from ...runtime.plain import text_processing
from ...runtime.torch_models import to_tensors
from ..text_explaining import refuse_labels
from .predictor import DialoguePredictor, pad_dialogues, speaker_and_utterance


def explain(
    predictor: DialoguePredictor,
    text: str | Sequence[Any],
    labels: Sequence[str] | None = None,
    method: str = METHODS[0],
) -> Explained:
    """Rows are the utterances that are classified, columns the utterances that they draw on."""
    model, config = predictor.model, predictor.model.config
    turns = [
        speaker_and_utterance(turn) if isinstance(turn, str) else read_turn(turn, number)
        for number, turn in enumerate([text] if isinstance(text, str) else text, 1)
    ]
    as_texts([utterance for _, utterance in turns])
    if not turns:
        raise ValueError("a dialogue must have at least one turn.")
    if config.context_turns and method != "occlusion":
        raise ValueError("a model with `context_turns` is explained only by occlusion.")
    # With windows also the dialogues without one of the turns.
    fewer = [turns[:i] + turns[i + 1 :] for i in range(len(turns))] if config.context_turns and turns[1:] else []
    encoded = predictor.encode([turns, *fewer])
    predictor.warn_unread(encoded.unread.take(range(len(turns))).counts)

    inputs = to_tensors(pad_dialogues([encoded.vectors[own] for own in encoded.rows], encoded.speaker_ids), model)
    names = ["speaker_ids"] if config.num_speakers else []
    # (1, U, D), and with speakers (1, U)
    embeds, *others = (inputs[name][:1] for name in ("utterance_embeds", *names))

    def forward(embeds, *others):
        return model(utterance_embeds=embeds, **dict(zip(names, others, strict=True))).logits.float()

    with torch.no_grad():
        logits, *without = model(**inputs).logits.float().cpu().numpy()
    probabilities = to_probabilities(logits, False, text_processing.temperature_of(config))  # (U, C)
    notes = []
    if method == "attention":
        refuse_labels(model, labels)
        if not config.num_attention_heads:
            raise ValueError(f"a model without attention heads has none: use {', '.join(METHODS[1:])}.")
        with torch.no_grad():
            outputs = model(utterance_embeds=embeds, output_attentions=True, **dict(zip(names, others, strict=True)))
        values = to_numpy(outputs.attentions[0][0].mean(dim=0))  # (U, U)
        title, unit = "attention between utterances, mean of heads", "share of the attention"
    chosen = check_names("labels", labels, predictor.labels) if labels is not None else None
    rows, scores, found = [], [], []
    lines = [f"{number} {f'{speaker}: ' if speaker else ''}{turn}" for number, (speaker, turn) in enumerate(turns, 1)]
    for turn, line in enumerate(lines):
        for label in [int(probabilities[turn].argmax())] if chosen is None else chosen:
            rows.append(f"{line} → {predictor.labels[label]}")
            scores.append(float(probabilities[turn, label]))
            if method != "attention":
                found.append(_utterance_scores(forward, embeds, tuple(others), (turn, label), method))
                for number, left in enumerate(without):
                    if number != turn:
                        found[-1][number] = logits[turn, label] - left[turn - (turn > number), label]
    if method != "attention":
        values = np.array(found)
        title, unit = {
            "gradient": (f"{GRADIENT_TITLE} of utterances", GRADIENT_UNIT),
            "integrated-gradients": ("integrated gradients of utterances", "logit"),
            "occlusion": ("occlusion: what the logit loses without the utterance", "logit"),
        }[method]
        if method != "gradient":
            notes.append(
                "the vector of an utterance is replaced by 0" + ("; the others are left out" if fewer else "")
            )
    columns = [str(number) for number in range(1, len(turns) + 1)]
    notes.insert(0, "rows: utterances that are classified; columns: utterances that they draw on, by number")
    read = "\n".join(f"{speaker}: {turn}" if speaker else turn for speaker, turn in turns)
    axes = ("utterance → label", "utterance, by number")
    return Explained(read, method, [HeatMap(title, unit, axes, rows, columns, values, scores, "probability")], notes)


def _utterance_scores(
    forward, embeds: torch.Tensor, others: tuple, target: tuple[int, int], method: str
) -> np.ndarray:
    """(U,): how much each utterance contributed to the logit of one label of one turn."""
    captum = captum_attr()
    # cuDNN has no backward of an LSTM in eval mode.
    with torch.backends.cudnn.flags(enabled=False):
        if method == "gradient":
            gradient = captum.Saliency(forward).attribute(
                embeds.requires_grad_(), target=target, abs=False, additional_forward_args=others
            )
            norms = to_numpy(gradient[0].double().square().sum(-1))
            return norms / (norms.max() or 1.0)
        if method == "integrated-gradients":
            attribution = captum.IntegratedGradients(forward).attribute(
                embeds, target=target, additional_forward_args=others, n_steps=STEPS, internal_batch_size=STEPS
            )
            return to_numpy(attribution[0].detach().sum(-1))
        mask = torch.arange(embeds.shape[1], device=embeds.device)[None, :, None].expand_as(embeds)
        with torch.no_grad():
            lost = captum.FeatureAblation(forward).attribute(
                embeds, target=target, additional_forward_args=others, feature_mask=mask
            )
        return to_numpy(lost[0, :, 0])
