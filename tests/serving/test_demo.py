# SPDX-License-Identifier: Apache-2.0
"""What the page of the service shows of each kind of model, and the command that opens it."""

from functools import cache

import pytest
import torch
from model_cases import ASPECTS, EMOTIONS, LABELS
from served import TEXT
from toolkit_helpers import torch_threads
from transformers import AutoModelForSequenceClassification

from hf_emotion import DialoguePredictor, ReplyGenerator, TargetedPredictor
from hf_emotion.inference import load_predictor


pytest_plugins = ["served", "toolkit_fixtures"]


@pytest.fixture(autouse=True)
def settings(own_verbosity):
    with torch_threads(1):
        yield


@pytest.fixture(scope="module")
def page(folders):
    """page("text"): what is shown of this checkpoint."""

    @cache
    def build(name: str):
        predictor = load_predictor(folders[name])
        return predictor.task.service(predictor).page

    return build


def ask(page, text: str, emotions=(), seed: int | None = None):
    return page.table(text, emotions, seed)


class TestTexts:
    def test_every_label_with_its_threshold(self, page, folders, tokenizer):
        model = AutoModelForSequenceClassification.from_pretrained(folders["text"])
        with torch.no_grad():
            scores = model(**tokenizer(TEXT, return_tensors="pt")).logits[0].sigmoid().tolist()
        ordered = sorted(zip(scores, LABELS, model.config.thresholds, strict=True), reverse=True)
        expected = [[name, f"{p:.3f}", f"{limit:.3f}", "✓" if p > limit else ""] for p, name, limit in ordered]
        assert {row[0] for row in expected if row[-1]} == set(LABELS[1::2])
        table = ask(page("text"), TEXT)
        assert table.header == ["label", "probability", "threshold", "predicted"] and table.rows == expected

    def test_a_label_that_is_predicted_is_never_left_out(self, page, monkeypatch):
        every = ask(page("text"), TEXT).rows
        monkeypatch.setattr("hf_emotion.tasks.emotion_classification.page.LABELS_SHOWN", 1)
        assert ask(page("text"), TEXT).rows == [row for i, row in enumerate(every) if i < 1 or row[-1] == "✓"]

    def test_one_label(self, page):
        table = ask(page("single"), TEXT)
        assert table.header == ["label", "probability", "predicted"]
        assert [row[-1] for row in table.rows] == ["✓", "", "", "", ""]
        assert sum(float(row[1]) for row in table.rows) == pytest.approx(1, abs=0.005)


class TestTargets:
    def test_a_row_for_each_target_and_aspect(self, page, folders):
        text = "PLACE2 is so sad , PLACE1 is joy"
        table = ask(page("targeted"), text)
        assert table.header == ["target", "aspect", "label", "probability"]
        assert [row[:2] for row in table.rows] == [[t, a] for t in ("PLACE1", "PLACE2") for a in ASPECTS]
        (found,) = TargetedPredictor(folders["targeted"])(text)
        assert [row[2:] for row in table.rows] == [[item["label"], f"{item['score']:.3f}"] for item in found]

    def test_aspects_alone(self, page):
        table = ask(page("aspects"), TEXT)
        assert table.header == ["aspect", "label", "probability"]
        assert [row[0] for row in table.rows] == list(ASPECTS)

    def test_a_text_without_target(self, page):
        with pytest.raises(ValueError, match="none of the model's targets .*PLACE1.*PLACE2"):
            ask(page("targeted"), "the rain is sad")


class TestDialogues:
    def test_turns(self, page, folders):
        table = ask(page("dialogue"), "Ann: i am so happy\n\n  \nno day\nBo B: the rain")
        turns = [("Ann", "i am so happy"), (None, "no day"), ("Bo B", "the rain")]
        (found,) = DialoguePredictor(folders["dialogue"])([turns])
        assert table.header == ["speaker", "emotion", "probability", "utterance"]
        assert table.rows == [
            [speaker or "", item["label"], f"{item['score']:.3f}", utterance]
            for (speaker, utterance), item in zip(turns, found, strict=True)
        ]

    def test_limit(self, page):
        assert len(ask(page("dialogue"), "a day\n" * 100).rows) == 100
        with pytest.raises(ValueError, match="101 turns, more than 100: shorten it"):
            ask(page("dialogue"), "a day\n" * 101)


class TestReplies:
    def test_chosen_emotions_side_by_side(self, page, folders):
        generator = ReplyGenerator(folders["replies"])
        table = ask(page("replies"), TEXT, ["😂", "joy"], 3)
        assert table.header == ["emotion", "reply"]
        replies = generator([TEXT, TEXT], ["😂", "joy"], seed=3)
        assert table.rows == [["😂", replies[0]], ["joy", replies[1]]]
        assert any(ask(page("replies"), TEXT, ["😂", "joy"], seed) != table for seed in range(4, 12))

    def test_all_emotions(self, page, folders):
        replies = ReplyGenerator(folders["replies"]).all_emotions(TEXT, seed=3)[0]
        assert ask(page("replies"), TEXT, [], 3).rows == [list(pair) for pair in zip(EMOTIONS, replies, strict=True)]


@pytest.mark.filterwarnings("ignore:.*were cut")
@pytest.mark.parametrize("name", ["text", "targeted", "aspects", "dialogue", "replies"])
def test_every_example_works(page, name):
    assert len(page(name).examples) >= 2
    for text in page(name).examples:
        assert ask(page(name), text).rows


def test_the_page_opens_in_the_browser(argv, folders, monkeypatch):
    served, opened = [], []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("hf_emotion.serving.web.run", lambda *arguments: served.append(arguments))
    assert argv("demo", folders["text"], folders["replies"]).err == ""
    assert argv("demo", folders["text"], "--no-browser", "--port", 8000).err == ""
    (app, host, port, *_, show), (_, _, given, *_, nothing) = served
    assert list(app.state.models) == ["text", "replies"] and (host, port, given) == ("127.0.0.1", 0, 8000)
    assert show == opened.append and nothing is None


def test_wrong_usage(argv, folders, tmp_path):
    done = argv("demo", folders["text"], folders["text"])
    assert done.code == 1 and "each once" in done.err
    done = argv("demo", tmp_path / "nothing")
    assert done.code == 1 and "nothing" in done.err
    assert argv("demo").code == 2 and argv("demo", folders["text"], "--host", "0.0.0.0").code == 2
