# SPDX-License-Identifier: Apache-2.0
"""The corpora of texts."""

from ..base import OWN_TERMS, Corpus, later


GOEMOTIONS_HUB_ID = "google-research-datasets/go_emotions"
EMOTION6_HUB_ID = "dair-ai/emotion"
TWEET_EMOJI_HUB_ID = "cardiffnlp/tweet_eval"
EVERYDAY = ("quickstart", "everyday")  # packaged sentences that a training on GoEmotions may add
LANGUAGES = ("en", "de", "es", "fr", "pt", "ru")  # codes of the languages in the corpus `languages`

CORPORA = (
    Corpus(
        name="goemotions",
        loader=later(__package__, "loading.load_goemotions"),
        hub_id=GOEMOTIONS_HUB_ID,
        terms="CC BY 4.0; Reddit comments, Demszky et al. 2020",
        added={"everyday_copies": EVERYDAY},
    ),
    Corpus(
        name="emotion6",
        loader=later(__package__, "loading.load_emotion6"),
        hub_id=EMOTION6_HUB_ID,
        terms="for education and research only; Saravia et al. 2018",
        selection_metric="accuracy",
    ),
    Corpus(
        name="tweet_emoji",
        loader=later(__package__, "loading.load_tweet_emoji"),
        hub_id=TWEET_EMOJI_HUB_ID,
        terms="the original terms and those of Twitter: research use; Barbieri et al. 2018",
        example="What a view from up here!",
    ),
    Corpus(
        name="quickstart",
        loader=later(__package__, "loading.load_quickstart"),
        terms="CC0 1.0; sentences written for hf-emotion",
        packaged=True,
    ),
    Corpus(
        name="everyday",
        loader=later(__package__, "loading.load_everyday"),
        terms="CC0 1.0; everyday sentences written for hf-emotion, the test part labelled twice",
        packaged=True,
    ),
    Corpus(
        name="messages",
        loader=later(__package__, "loading.load_messages"),
        terms="CC0 1.0; messages written for hf-emotion, labelled twice, a test part alone",
        packaged=True,
    ),
    Corpus(
        name="languages",
        loader=later(__package__, "loading.load_languages"),
        languages=LANGUAGES,
        terms="CC0 1.0; sentences in six languages written for hf-emotion by a language model, a test part alone",
        packaged=True,
    ),
    # With a column of aspects its rows belong to targeted sentiment.
    Corpus(
        name="files",
        loader=later(__package__, "own_files.load_files"),
        languages=(),
        terms=OWN_TERMS,
        own_files=True,
    ),
)
