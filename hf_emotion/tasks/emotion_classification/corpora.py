# SPDX-License-Identifier: Apache-2.0
"""The corpora of texts."""

from ..corpus import OWN_TERMS, Corpus
from .loading import (
    EMOTION6_HUB_ID,
    EVERYDAY,
    GOEMOTIONS_HUB_ID,
    LANGUAGES,
    TWEET_EMOJI_HUB_ID,
    load_emotion6,
    load_everyday,
    load_goemotions,
    load_languages,
    load_messages,
    load_quickstart,
    load_tweet_emoji,
)
from .own_files import load_files


CORPORA = (
    Corpus(
        name="goemotions",
        loader=load_goemotions,
        hub_id=GOEMOTIONS_HUB_ID,
        terms="CC BY 4.0; Reddit comments, Demszky et al. 2020",
        added={"everyday_copies": EVERYDAY},
    ),
    Corpus(
        name="emotion6",
        loader=load_emotion6,
        hub_id=EMOTION6_HUB_ID,
        terms="for education and research only; Saravia et al. 2018",
        selection_metric="accuracy",
    ),
    Corpus(
        name="tweet_emoji",
        loader=load_tweet_emoji,
        hub_id=TWEET_EMOJI_HUB_ID,
        terms="the original terms and those of Twitter: research use; Barbieri et al. 2018",
        example="What a view from up here!",
    ),
    Corpus(
        name="quickstart",
        loader=load_quickstart,
        terms="CC0 1.0; sentences written for hf-emotion",
        packaged=True,
    ),
    Corpus(
        name="everyday",
        loader=load_everyday,
        terms="CC0 1.0; everyday sentences written for hf-emotion, the test part labelled twice",
        packaged=True,
    ),
    Corpus(
        name="messages",
        loader=load_messages,
        terms="CC0 1.0; messages written for hf-emotion, labelled twice, a test part alone",
        packaged=True,
    ),
    Corpus(
        name="languages",
        loader=load_languages,
        languages=LANGUAGES,
        terms="CC0 1.0; sentences in six languages written for hf-emotion by a language model, a test part alone",
        packaged=True,
    ),
    Corpus(
        name="files",
        loader=load_files,
        languages=(),
        terms=OWN_TERMS,
        own_files=True,
    ),
)
