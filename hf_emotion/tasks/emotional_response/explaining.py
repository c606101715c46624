# SPDX-License-Identifier: Apache-2.0
"""Shows how emotions change a reply: the probability of its words under each emotion."""

import logging
from collections.abc import Mapping, Sequence

import numpy as np

from ...modeling.pipeline_emotional_response import emotion_ids_of, emotion_vector, text_positions
from ...runtime.attribution import (
    Explained,
    HeatMap,
    Merge,
    Reading,
    check_fast,
    column_axis,
    merge_note,
    one_text,
    words_of,
)
from .predictor import Emotion, ReplyGenerator, unread_contexts


logger = logging.getLogger(__name__)


def explain(
    generator: ReplyGenerator,
    text: str | Sequence[str],
    merge: Merge,
    emotions: Sequence[Emotion] = (),
    reply: str | None = None,
) -> Explained:
    """ln P of the words of a reply under each emotion, less the mean over the emotions; and −ln P."""
    context, emotions = one_text(text), list(emotions)
    tokenizer, config = generator.tokenizer, generator.model.config
    notes = []
    weights = [emotion_vector(emotion, config) for emotion in emotions]
    emotion_ids_of(weights[:1], config)  # refuses mixtures if the model reads the emotion as a token
    if reply is None:
        if not emotions:
            raise ValueError("`emotions` must name the one to generate the reply in, or `reply` must be given.")
        reply = generator(context, emotions[0], do_sample=False, num_beams=1)[0]
        notes.append(f"the reply was generated in {_emotion_name(emotions[0])}, the most probable token each time")
        if not reply:
            raise ValueError(f"the model's reply in {_emotion_name(emotions[0])} is empty: give one as `reply`.")
    elif not reply.strip():
        raise ValueError(f"`reply` must be a text that is not empty, got {reply!r}.")
    else:
        unread_contexts(tokenizer, config, [context], generator.max_length)
    asked = emotions if len(emotions) > 1 else list(generator.emotions)
    check_fast(tokenizer)
    ids = generator.token_ids([reply])[0]
    tokens = tokenizer(
        reply,
        add_special_tokens=False,
        truncation=True,
        max_length=text_positions(config) - 1,
        return_offsets_mapping=True,
    )
    if len(tokenizer(reply, add_special_tokens=False, verbose=False)["input_ids"]) > len(tokens["input_ids"]):
        logger.warning("the reply is longer than %d tokens and was cut", text_positions(config) - 1)
    words, word_of = words_of(reply, tokens, merge)
    reading = Reading({}, [*words, "(end)"], np.append(word_of, len(words)))
    losses = generator.token_losses([context] * len(asked), [reply] * len(asked), asked)
    by_token = -losses.reshape(len(asked), len(ids)).astype(np.float64)
    totals = by_token.sum(axis=1)
    order = np.argsort(-totals, kind="stable") if len(emotions) < 2 else np.arange(len(asked))
    values = reading.merged(by_token[order], merge)
    rows, scores = [_emotion_name(asked[row]) for row in order], totals[order].tolist()
    shared = (("emotion", column_axis(merge)), rows, reading.words)
    notes.append(f"the reply: {reply}")
    notes.append(f"{merge_note(merge, 'likelihood')}; (end) is the token that ends the reply")
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
    return Explained(context, "likelihood", maps, notes)


def _emotion_name(emotion: Emotion) -> str:
    if isinstance(emotion, Mapping):
        return ", ".join(f"{name}={weight:g}" for name, weight in emotion.items())
    return emotion
