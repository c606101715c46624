# SPDX-License-Identifier: Apache-2.0
"""The corpora of texts with terms."""

from ..corpus import OWN_TERMS, Corpus
from .loading import load_review_terms, load_semeval2014_terms
from .own_files import load_term_files


CORPORA = (
    Corpus(
        name="semeval2014_terms",
        loader=load_semeval2014_terms,
        selection_metric="pair_f1",
        terms="terms of the organisers of SemEval-2014 task 4; Pontiki et al. 2014",
        example="The pizza was cold but our waiter was lovely.",
    ),
    Corpus(
        name="review_terms",
        loader=load_review_terms,
        selection_metric="pair_f1",
        terms="CC0 1.0; texts of the corpus reviews with terms marked for hf-emotion, the test part twice",
        example="The pizza was cold but our waiter was lovely.",
        packaged=True,
    ),
    Corpus(
        name="term_files",
        loader=load_term_files,
        languages=(),
        terms=OWN_TERMS,
        selection_metric="pair_f1",
        own_files=True,
    ),
)
