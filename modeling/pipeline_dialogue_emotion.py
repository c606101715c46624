# SPDX-License-Identifier: Apache-2.0
"""Pipeline `dialogue-emotion`: a dialogue to the emotion of each of its turns."""

import logging
import sys
from collections.abc import Sequence

import torch
from transformers import Pipeline

from .checked_input import check_finite, is_readable
from .usable_positions import usable_positions


logger = logging.getLogger(__name__)


def number_speakers(speakers: Sequence[str | None], limit: int) -> list[int]:
    """Speakers numbered by their first turn; those beyond the model's number share the last one."""
    numbers: dict[str | None, int] = {}
    return [min(numbers.setdefault(speaker, len(numbers)), limit - 1) for speaker in speakers]


class DialogueEmotionPipeline(Pipeline):
    r"""
    For a dialogue, a list of turns, (for each of several dialogues) a list of `{"speaker", "utterance", "label", "score",
    "scores"}`, one entry for each turn: the most probable emotion, its probability, and the probabilities of all emotions.

    A turn is a pair (speaker, utterance), a dictionary with these keys, or an utterance alone. Utterances are cut as in
    training (the tokenizer's `model_max_length`), at most to the encoder's positions. Dialogues run one by one, whatever
    `batch_size` says.
    """

    _load_processor = False
    _load_image_processor = False
    _load_feature_extractor = False
    _load_tokenizer = True

    def _sanitize_parameters(self, **kwargs):
        if kwargs:
            raise TypeError(f"unknown arguments {sorted(kwargs)}: the pipeline takes none beside the dialogues.")
        return {}, {}, {}

    def __call__(self, inputs, batch_size=None, **kwargs):
        # A dialogue is a list itself: only a list of lists holds several.
        if not isinstance(inputs, list) or not inputs:
            raise ValueError(f"a dialogue must be a list of turns, at least one; got {inputs!r}.")
        several = all(isinstance(item, list) for item in inputs)
        if several:
            refuse_turns(inputs)
        results = super().__call__(inputs if several else [inputs], batch_size=1, **kwargs)
        return results if several else results[0]

    def preprocess(self, inputs):
        turns = [read_turn(turn, number) for number, turn in enumerate(inputs, 1)]
        if not turns:
            raise ValueError("a dialogue must have at least one turn.")
        config = self.model.config
        limit = min(self.tokenizer.model_max_length, encoder_positions(config))
        encoded = self.tokenizer(
            [utterance for _, utterance in turns],
            # A tokenizer that knows no limit names a number too large to be given back to it.
            **({"truncation": True, "max_length": limit} if limit <= 10**9 else {}),
            padding=True,
            return_token_type_ids=False,
            return_tensors="pt",
        )
        inputs = {name: encoded[name][None] for name in ("input_ids", "attention_mask")}  # (1, U, L)
        if config.num_speakers:
            warn_of_speakers([speaker for speaker, _ in turns], config.num_speakers)
            inputs["speaker_ids"] = torch.tensor(
                [number_speakers([speaker for speaker, _ in turns], config.num_speakers)]
            )
        return {"turns": turns, "inputs": inputs}

    def _forward(self, model_inputs):
        return {"turns": model_inputs["turns"], "logits": self.model(**model_inputs["inputs"]).logits[0]}

    def postprocess(self, model_outputs):
        check_finite(model_outputs["logits"])
        names = [self.model.config.id2label[i] for i in range(self.model.config.num_labels)]
        results = []
        for (speaker, utterance), row in zip(
            model_outputs["turns"], model_outputs["logits"].float().softmax(dim=-1).tolist(), strict=True
        ):
            best = max(range(len(row)), key=row.__getitem__)
            entry = {"speaker": speaker, "utterance": utterance, "label": names[best], "score": row[best]}
            results.append({**entry, "scores": dict(zip(names, row, strict=True))})
        return results


def warn_of_speakers(speakers: Sequence[str | None], limit: int) -> bool:
    """Whether a model that tells speakers apart is not told who speaks, which is said."""
    unnamed = sum(not speaker for speaker in speakers)
    if unnamed and len(speakers) > 1:
        logger.warning(
            "%d of %d turns name no speaker and count as one person's, and the model tells %d speakers apart (`num_speakers`): write "
            "(speaker, utterance)",
            *(unnamed, len(speakers), limit),
        )
    return unnamed > 0 and len(speakers) > 1


def refuse_turns(dialogues: Sequence) -> None:
    """ValueError for turns as JSON has them, lists of speaker and utterance, which would be dialogues of two utterances each."""
    pairs = [item for item in dialogues if isinstance(item, list) and list(map(type, item)) == [str, str]]
    first = [item[0].strip() for item in pairs]
    names = all(0 < len(text.split()) <= 3 and text[-1] not in ".?!…" for text in first)
    again = len(set(first)) < len(first) or all(text[:1].isupper() for text in first)
    if 1 < len(pairs) == len(dialogues) and names and again:
        raise ValueError(
            f"{pairs[0]!r} and the others look like turns of one dialogue, and a list of lists holds several dialogues: write the turns as "
            "pairs (speaker, utterance). For dialogues of two utterances write {'utterance': ...} for each."
        )


def encoder_positions(config) -> int:
    """Tokens of an utterance that a model takes: the positions of its encoder; a BiLSTM over words has no limit."""
    return sys.maxsize if config.encoder_config is None else usable_positions(config.encoder_config)


def read_turn(turn, number: int) -> tuple[str | None, str]:
    """(speaker or None, utterance) of one turn."""
    speaker, utterance = None, turn
    if isinstance(turn, dict):
        speaker, utterance = turn.get("speaker"), turn.get("utterance")
    elif isinstance(turn, tuple) and len(turn) == 2:
        speaker, utterance = turn
    if not is_readable(utterance):
        raise ValueError(
            f"turn {number} must be (speaker, utterance), a dictionary with these keys, or an utterance, which is a string "
            f"that is not empty and holds no halves of characters; got {turn!r}."
        )
    return speaker, utterance


__all__ = [
    "DialogueEmotionPipeline",
    "encoder_positions",
    "number_speakers",
    "read_turn",
    "refuse_turns",
    "warn_of_speakers",
]
