# SPDX-License-Identifier: Apache-2.0
"""The corpora of texts with aspects."""

from ..corpus import OWN_TERMS, Corpus
from .loading import load_reviews, load_semeval2014, load_sentihood
from .own_files import load_aspect_files


# The metric that selects covers aspect and sentiment.
CORPORA = (
    Corpus(
        name="sentihood",
        loader=load_sentihood,
        terms="no licence stated for the data: research use; Saeidi et al. 2016",
        metrics=("classification", "sentihood"),
        selection_metric="strict_accuracy",
        example="LOCATION1 is safe, but far too expensive.",
    ),
    Corpus(
        name="semeval2014",
        loader=load_semeval2014,
        terms="terms of the organisers of SemEval-2014 task 4; Pontiki et al. 2014",
        metrics=("classification", "semeval2014"),
        selection_metric="accuracy",
        example="The food was great, but we waited an hour for it.",
    ),
    Corpus(
        name="reviews",
        loader=load_reviews,
        terms="CC0 1.0; reviews of twelve kinds of business written for hf-emotion, the test part labelled twice",
        selection_metric="macro_f1",
        example="The room was spotless, but we queued for an hour at the desk.",
        packaged=True,
    ),
    Corpus(name="aspect_files", loader=load_aspect_files, languages=(), terms=OWN_TERMS, own_files=True),
)
