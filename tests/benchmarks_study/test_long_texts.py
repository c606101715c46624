# SPDX-License-Identifier: Apache-2.0
"""Documents of several rows, read in different ways."""

import json

import numpy as np

from benchmarks.study.long_texts import FEWEST, MOST, WAYS, documents
from hf_emotion import load_dataset_for


pytest_plugins = ["toolkit_fixtures"]


def test_documents_are_made_of_rows_and_have_their_labels():
    rows = load_dataset_for("quickstart")["test"]
    texts, gold = documents(rows, 12, seed=3)
    again, _ = documents(rows, 12, seed=3)
    assert texts == again and len(set(texts)) == 12 and gold.shape == (12, 28)
    of_text = dict(zip(rows["text"], rows["labels"], strict=True))
    for text, labels in zip(texts, gold, strict=True):
        found = {row: text.index(row) for row in of_text if row in text}
        # Each row stands in its document once; a text within another one is told by where it begins.
        assert FEWEST <= len(found) <= MOST + 3
        assert set(np.flatnonzero(labels)) <= {label for row in found for label in of_text[row]}


def test_ways_of_reading(tiny_run, tmp_path, study):
    output = tmp_path / "long.json"
    shown = study("long-texts", tiny_run, "--dataset", "quickstart", "--documents", 6, "--output", output).out
    result = json.loads(output.read_text())
    assert list(result["ways"]) == [way for way in WAYS if way in result["ways"]] and "cut" in shown
    ways = result["ways"]
    assert ways["windows"]["truncated"] == 0 and ways["cut"]["truncated"] == 1
    assert result["tokens"][0] > 32 and all(0 <= found["macro_average_precision"] <= 1 for found in ways.values())
    assert ways["windows"]["macro_average_precision"] != ways["cut"]["macro_average_precision"]
