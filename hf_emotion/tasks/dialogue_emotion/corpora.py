# SPDX-License-Identifier: Apache-2.0
"""The corpora of dialogues."""

from ..corpus import OWN_TERMS, Corpus
from .loading import load_daily_dialog, load_emorynlp, load_iemocap, load_meld
from .own_files import load_dialogue_files


_SERIES = "GPL-3.0 repository, dialogue of a television series"

CORPORA = (
    Corpus(
        name="meld",
        loader=load_meld,
        terms=f"{_SERIES}; Poria et al. 2019",
        metrics=("dialogue",),
        selection_metric="weighted_f1",
    ),
    Corpus(
        name="emorynlp",
        loader=load_emorynlp,
        terms=f"{_SERIES}; Zahiri and Choi 2018",
        metrics=("dialogue",),
        selection_metric="weighted_f1",
    ),
    Corpus(
        name="daily_dialog",
        loader=load_daily_dialog,
        terms="CC BY-NC-SA 4.0; Li et al. 2017",
        metrics=("dialogue",),
        selection_metric="micro_f1_without_neutral",
    ),
    Corpus(
        name="iemocap",
        loader=load_iemocap,
        terms="licence of USC SAIL, not redistributable; Busso et al. 2008",
        metrics=("dialogue",),
    ),
    Corpus(
        name="dialogue_files",
        loader=load_dialogue_files,
        languages=(),
        terms=OWN_TERMS,
        metrics=("dialogue",),
        own_files=True,
    ),
)
