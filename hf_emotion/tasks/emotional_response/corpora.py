# SPDX-License-Identifier: Apache-2.0
"""The corpora of contexts and replies."""

from ..corpus import OWN_TERMS, Corpus
from .emojis import strip_emojis
from .loading import load_daily_dialog_replies, load_empathetic_replies, load_mojitalk, load_quickstart_replies
from .own_files import load_reply_files
from .published import MOJITALK_PUBLISHED


CORPORA = (
    Corpus(
        name="mojitalk",
        loader=load_mojitalk,
        terms="no licence stated for the tweets, terms of Twitter: research use; Zhou and Wang 2018",
        clean_reply=strip_emojis,
        published=MOJITALK_PUBLISHED,
    ),
    Corpus(
        name="daily_dialog_replies",
        loader=load_daily_dialog_replies,
        terms="CC BY-NC-SA 4.0; Li et al. 2017",
    ),
    Corpus(
        name="empathetic_dialogues",
        loader=load_empathetic_replies,
        hub_id="facebook/empathetic_dialogues",
        terms="CC BY-NC 4.0; Rashkin et al. 2019",
    ),
    Corpus(
        name="quickstart_replies",
        loader=load_quickstart_replies,
        terms="CC0 1.0; replies in twelve emotions written for hf-emotion by a language model",
        packaged=True,
    ),
    Corpus(
        name="reply_files",
        loader=load_reply_files,
        languages=(),
        terms=OWN_TERMS,
        own_files=True,
    ),
)
