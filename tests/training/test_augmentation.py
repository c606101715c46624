# SPDX-License-Identifier: Apache-2.0
"""Typing errors in training texts."""

import pytest
import torch
from toolkit_helpers import recipe_for

from hf_emotion import load_dataset_for, train
from hf_emotion.recipes import make_recipe
from hf_emotion.runtime.plain import text_processing
from hf_emotion.tasks.misspelling import copies_for_epochs
from hf_emotion.training.trainer import EmotionTrainer


pytest_plugins = ["toolkit_fixtures"]
pytestmark = pytest.mark.usefixtures("no_plots", "single_thread")
OFTEN = {"misspelt_texts": 0.5, "misspelt_words": 0.5}


def marked(row: dict, names: list[str]) -> list[tuple[str, str]]:
    """The terms of a row and their labels."""
    scores = [[float(number == tag) for number in range(len(names))] for tag in row["labels"]]
    found = text_processing.find_terms(scores, names)
    return [
        (row["text"][row["words"][first][0] : row["words"][last - 1][1]], label) for first, last, label, _ in found
    ]


def test_terms_keep_their_places_and_other_columns_stay():
    rows = load_dataset_for("review_terms")["validation"].select(range(150))
    recipe = make_recipe({"name": "x", "augmentation": OFTEN, "training_arguments": {"num_train_epochs": 1.5}})
    torch.manual_seed(3)
    copies, again = copies_for_epochs(recipe, rows), copies_for_epochs(recipe, rows)
    assert copies.to_list() == again.to_list() and copies.features == rows.features and len(copies) == 300
    assert copies["id"][:150] == copies["id"][150:] == rows["id"][:]
    assert copies["text"][:150] != copies["text"][150:]
    names, clean = rows.features["labels"].feature.names, [*rows, *rows]
    changed = [new for new, old in zip(copies, clean, strict=True) if new["text"] != old["text"]]
    assert 0.35 < len(changed) / 300 < 0.65
    moved = 0
    for new, old in zip(copies, clean, strict=True):
        found, given = marked(new, names), marked(old, names)
        assert new["words"] == [list(word) for word in text_processing.term_words(new["text"])]
        assert [label for _, label in found] == [label for _, label in given]
        for (term, _), (right, _) in zip(found, given, strict=True):
            assert len(term.split()) == len(right.split()) and set(term.lower()) - set(right.lower()) <= set(
                "qwertyuiopasdfghjklzxcvbnm"
            )
            moved += term != right
    assert moved > 20


def test_each_epoch_reads_other_errors(base_bert, feelings, tmp_path, monkeypatch):
    epochs: dict[int, list[list[int]]] = {}
    step = EmotionTrainer.training_step

    def noted(self, model, inputs, *rest, **options):
        rows = inputs["input_ids"].tolist()
        epochs.setdefault(int(self.state.epoch), []).extend([token for token in row if token] for row in rows)
        return step(self, model, inputs, *rest, **options)

    monkeypatch.setattr(EmotionTrainer, "training_step", noted)
    values = {"name": "x", "dataset": "files", "dataset_options": {"label_separator": "|"}, "train_fraction": 1}
    found = []
    for run in ("one", "two"):
        epochs.clear()
        recipe = recipe_for(base_bert, {"num_train_epochs": 2}, augmentation=OFTEN, **values)
        train(recipe, tmp_path / run, data_dir=feelings)
        found.append([sorted(epochs[epoch]) for epoch in (0, 1)])
    assert found[0] == found[1] and len(found[0][0]) == len(found[0][1])
    assert len(found[0]) == len(epochs) and found[0][0] != found[0][1]


@pytest.mark.parametrize("values", [{"misspelt_texts": 0.3}, {"misspelt_texts": 0.3, "misspelt_words": 1.5}])
def test_wrong_shares(values):
    with pytest.raises(ValueError, match="misspelt_words"):
        make_recipe({"name": "x", "augmentation": values})
