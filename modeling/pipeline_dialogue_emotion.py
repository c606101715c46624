# SPDX-License-Identifier: Apache-2.0
"""Pipeline `dialogue-emotion`: from a dialogue to the emotion of each of its turns."""

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForTokenClassification, Pipeline

from .common import TextPipeline
from .text_processing import (
    check_finite,
    encoder_positions,
    most_probable,
    number_speakers,
    read_turn,
    refuse_turns,
    special_borders,
    temperature_of,
    turn_windows,
    warn_of_speakers,
    window_tokens,
)


class DialogueEmotionPipeline(TextPipeline, Pipeline):
    r"""
    Returns for a dialogue (a list of turns), or for each of several, a list of `{"speaker", "utterance", "label", "score",
    "scores"}`, one entry for each turn: the most probable emotion, its probability, and the probabilities of all emotions.

    A turn is a pair (speaker, utterance), a dictionary with these keys, or just an utterance. Utterances are cut as in
    training (the tokenizer's `model_max_length`), at most to the encoder's positions. Dialogues run one by one;
    `batch_size` has no effect.
    """

    task_name, model_classes = "dialogue-emotion", (AutoModelForTokenClassification,)

    def _sanitize_parameters(self, **kwargs):
        if kwargs:
            raise TypeError(f"unknown arguments {sorted(kwargs)}: the pipeline takes only the dialogues.")
        return {}, {}, {}

    def __call__(self, inputs, batch_size=None, **kwargs):
        # A dialogue is itself a list: only a list of lists holds several.
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
        limit, size = min(self.tokenizer.model_max_length, encoder_positions(config)), config.context_turns
        encoded = self.tokenizer(
            [text[-1] if size else text for text in turn_windows(turns, size)],
            # A tokenizer without a limit has a number here that is too large to pass back to it.
            **({"truncation": True, "max_length": limit} if limit <= 10**9 else {}),
            return_token_type_ids=False,
        )
        rows = encoded["input_ids"]
        if size:
            before = special_borders(self.tokenizer, encoded, 0)[0]
            windows = [rows[max(0, end - size) : end + 1] for end in range(len(rows))]
            rows, masks = zip(*(window_tokens(window, before, limit) for window in windows), strict=True)

        def padded(rows, filling=0):  # (1, U, L)
            return pad_sequence([*map(torch.tensor, rows)], batch_first=True, padding_value=filling)[None]

        inputs = {"input_ids": padded(rows, self.tokenizer.pad_token_id or 0)}
        inputs["attention_mask"] = padded([[1] * len(row) for row in rows])
        if size:
            inputs["turn_mask"] = padded(masks)
        if config.num_speakers:
            speakers = [speaker for speaker, _ in turns]
            warn_of_speakers(speakers, config.num_speakers)
            inputs["speaker_ids"] = torch.tensor([number_speakers(speakers, config.num_speakers)])
        return {"turns": turns, "inputs": inputs}

    def _forward(self, model_inputs):
        logits = self.model(**model_inputs["inputs"], return_dict=True).logits[0]
        return {"turns": model_inputs["turns"], "logits": logits}

    def postprocess(self, model_outputs):
        check_finite(bool(model_outputs["logits"].isfinite().all()))
        names = [self.model.config.id2label[i] for i in range(self.model.config.num_labels)]
        probabilities = (model_outputs["logits"].float() / temperature_of(self.model.config)).softmax(dim=-1)
        rows = zip(model_outputs["turns"], probabilities.tolist(), strict=True)
        return [{"speaker": turn[0], "utterance": turn[1], **most_probable(names, row)} for turn, row in rows]


__all__ = ["DialogueEmotionPipeline"]
