# SPDX-License-Identifier: Apache-2.0
"""A ready model for several languages, from a run on BRIGHTER over a small encoder to its answers."""

import json
import random

import numpy as np
import pytest
from toolkit_helpers import invoke, recipe_for, save_base_bert, write_csv

from benchmarks.study import languages
from benchmarks.study import ready as packing
from hf_emotion import Predictor
from hf_emotion.runs.train import train
from hf_emotion.runtime import ready
from hf_emotion.tasks.emotion_classification import brighter


pytest_plugins = ["toolkit_fixtures"]
pytestmark = pytest.mark.usefixtures("single_thread")

NAMES = ["anger", "disgust", "fear", "joy", "sadness", "surprise"]
GERMAN, ENGLISH = (
    "ich bin heute wirklich sehr {} und weiß nicht warum",
    "today I am really very {} and do not know why",
)


@pytest.fixture
def packed(tmp_path, monkeypatch):
    pytest.importorskip("peft")
    places = [("a", part, code) for part in ("train", "dev", "test") for code in ("deu", "eng")]
    places += [("c", part, code) for part in ("dev", "test") for code in ("ind", "jav", "xho", "zul")]
    draw = random.Random(0)
    for track, part, code in places:
        rows = []
        for number in range(60):
            given = draw.randrange(len(NAMES))
            text = (GERMAN if code == "deu" else ENGLISH).format(NAMES[given])
            rows.append([f"{part}{number}", f"{text} {part} {number}", *[int(given == i) for i in range(len(NAMES))]])
        write_csv(tmp_path / f"data/brighter/track_{track}/{part}/{code}.csv", ["id", "text", *NAMES], rows)
    save_base_bert(tmp_path / "encoders" / "e5", words=GERMAN.split())
    monkeypatch.setenv(ready.OWN_ENCODERS, str(tmp_path / "encoders"))
    monkeypatch.setenv("HF_EMOTION_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(ready, "PLACE", tmp_path / "ready")
    monkeypatch.setattr(packing, "LARGEST_TOKENIZER", 0)
    for module in (brighter, languages):
        monkeypatch.setattr(module, "TRAINED", ["deu", "eng"])
    adapter = {
        "r": 2,
        "layers_to_transform": [1],
        "layers_pattern": "layer",
        "target_modules": ["query", "dense"],
        "bias": "lora_only",
    }
    recipe = recipe_for(
        "e5",
        {"max_steps": 4, "eval_strategy": "no", "save_strategy": "no"},
        **{
            "dataset": "brighter",
            "dataset_options": {"languages": ["deu", "eng"]},
            "adapter": adapter,
            "train_fraction": 1,
        },
    )
    train(recipe, tmp_path / "run", data_dir=tmp_path / "data")
    return packing.pack(
        tmp_path / "run", tmp_path / "ready" / "many", "Emotions.", "CC0", "## What it is for\n\nTests."
    )


def test_it_answers_as_its_run_with_thresholds_of_the_language(packed, tmp_path):
    figures = packing.measure_ready(packed, tmp_path / "data", rows=40)
    assert figures["languages"].keys() == {"deu", "eng"} and figures["unseen"].keys() == {"ind", "jav", "xho", "zul"}
    assert all(each["rows"] == 40 for each in figures["languages"].values())
    assert figures["languages"]["deu"]["validation_rows"] == 40 and figures["languages"]["deu"]["detected"] > 0.9
    assert not (packed.folder / "tokenizer.json").exists()  # the encoder has it
    texts = [GERMAN.format("joy"), ENGLISH.format("fear"), "so joy"]
    light, run = Predictor("many"), Predictor(tmp_path / "run", device="cpu")
    assert light.model.takes_arrays and light.thresholds_by_language.keys() == {"de", "en"}
    expected = run.probabilities(texts)
    assert np.abs(light.probabilities(texts) - expected).max() < 2e-3  # the adapter is in float16
    assert np.abs(Predictor("many", device="cpu").probabilities(texts) - expected).max() < 2e-3
    config = json.loads((packed.folder / "config.json").read_text())
    assert np.allclose(light.thresholds_of(texts)[0], config["thresholds_by_language"]["de"])
    assert np.allclose(light.thresholds_of(texts)[2], config["thresholds"])
    assert ready.reading_more() == ", such as the ready model `many` (de, en)"
    assert "many" in invoke("ready") and "| deu | 40 |" in (packed.folder / "README.md").read_text()
