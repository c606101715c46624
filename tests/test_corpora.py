# SPDX-License-Identifier: Apache-2.0
"""The records of the corpora: whole, read by whoever needs them, and the only place that names a corpus."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hf_emotion
from hf_emotion import metrics
from hf_emotion.data import CORPORA, LABELLED, corpus_of, options_of, single_label


SOURCE = Path(hf_emotion.__file__).parent
# The taxonomy of the 28 labels has the corpus' name, and a recipe without `dataset` is one for it.
MORE = {"goemotions": {"taxonomies.py", "recipes.py"}}


@pytest.mark.parametrize("name", CORPORA)
def test_a_record_is_whole(name):
    corpus = corpus_of(name)
    assert corpus.name == name and corpus.terms
    assert "data_dir" not in options_of(name)
    assert corpus.metrics is None or callable(getattr(metrics, corpus.metrics))
    assert bool(corpus.languages) is not corpus.own_files


def test_the_selection_metric_is_one_that_is_measured():
    labels, rng = np.arange(40) % 5, np.random.default_rng(0)
    for name in LABELLED:
        count = {"sentihood": 3}.get(name, 5)
        scores = rng.dirichlet(np.ones(count), size=40)
        names = ["neutral", "b", "c", "d", "e"][:count]
        found = single_label(name, labels % count, scores, names)
        assert isinstance(found[corpus_of(name).selection_metric], float), name


# "files" and "conversations" are words of the code, too.
@pytest.mark.parametrize("name", [name for name in LABELLED if not CORPORA[name].own_files])
def test_a_corpus_is_named_in_two_files_at_most(name):
    """Outside the study: its record and, for a corpus of several kinds, another one that reads it."""
    literal = re.compile(rf"""["']{name}["']""")
    files = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if "study" not in path.relative_to(SOURCE).as_posix() and literal.search(path.read_text(encoding="utf-8"))
    }
    assert len(files - MORE.get(name, set())) <= 2, files


def test_unknown_names_get_the_nearest():
    with pytest.raises(ValueError, match="'goemotion'.*'goemotions'"):
        corpus_of("goemotion")


def test_the_corpora_are_listed_without_heavy_libraries():
    heavy = ["datasets", "torch", "transformers", "sklearn", "scipy", "pandas", "pyarrow"]
    code = f"import sys, hf_emotion.data; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
