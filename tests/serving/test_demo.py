# SPDX-License-Identifier: Apache-2.0
"""The page of `hf-emotion demo`: what is behind it, how it is served, and, where there is a browser, how it behaves in one."""

import gc
import html
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import warnings
from pathlib import Path
from types import ModuleType

import pytest
import torch
from model_cases import ASPECTS, BY_ID, EMOTIONS, LABELS
from toolkit_helpers import one_thread
from transformers import AutoModelForSequenceClassification

from hf_emotion import DialoguePredictor, ReplyGenerator, TargetedPredictor
from hf_emotion.publishing.export import export_onnx
from hf_emotion.publishing.release import write_space
from hf_emotion.tasks.emotional_response.page import EXAMPLES


pytest_plugins = ["toolkit_fixtures", "browser_fixtures"]

HOSTILE = "<script>window.hacked=1</script><img src=x onerror=window.hacked=1> ${window.hacked=1} {{value}}"
TEXT = "I am so happy today , not sad !"
CHECKPOINTS = {  # folder: case
    "text": "label-aware-pooler-hidden-balanced",
    "esa": "esa-multi-label-thresholds",
    "single": "label-aware-single-label",
    "targeted": "qacg-per-head-context-gate-bias",
    "aspects": "cg",
    "dialogue": "dialogue-model",
    "replies": "gpt2-mod-ln",
    "other_replies": "gpt2-mod-ln",
}


@pytest.fixture(autouse=True)
def settings(own_verbosity):
    with one_thread():
        yield


@pytest.fixture(scope="module")
def folders(tmp_path_factory, tokenizer) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("checkpoints")
    for name, case in CHECKPOINTS.items():
        changes = {"emotions": ["fear", "envy", "joy", "awe", "shame"]} if name == "other_replies" else {}
        model = BY_ID[case].build(seed=2, **changes)
        if name == "text":  # every other label passes its threshold
            with torch.no_grad():
                scores = model(**tokenizer(TEXT, return_tensors="pt")).logits[0].sigmoid().tolist()
            model.config.thresholds = [score + (0.05, -0.05)[i % 2] for i, score in enumerate(scores)]
        if name == "replies":  # samples, as trained generators do
            model.generation_config.update(
                do_sample=True, top_k=10, suppress_tokens=[0, 1, 2, 3, 4]
            )  # all write words
        model.save_pretrained(root / name)
        tokenizer.save_pretrained(root / name)
    return {name: root / name for name in CHECKPOINTS}


def test_without_gradio(argv, folders, monkeypatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    monkeypatch.delitem(sys.modules, "hf_emotion.serving.demo", raising=False)
    done = argv("demo", folders["text"])
    assert done.code == 1 and done.err == "error: the page needs gradio: pip install 'hf-emotion[demo]'\n"


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    pytest.importorskip("gradio", reason="gradio is not installed: pip install 'hf-emotion[demo]'")
    import hf_emotion.serving.demo

    return hf_emotion.serving.demo


@pytest.fixture(scope="module")
def page(demo, folders):
    """page("text", "esa"): the page of these checkpoints."""
    made = {}

    def build(*names: str):
        if names not in made:
            made[names] = demo.build([folders[name] for name in names])
        return made[names]

    return build


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left_behind():
    """Gradio leaves event loops open; the warnings of the garbage collector would reach tests that allow none."""
    yield
    gc.collect()


def ask(page, *inputs):
    """What a click on the button computes."""
    return page.fns[0].fn(*inputs)


def refused(demo, page, *inputs) -> str:
    with pytest.raises(demo.gr.Error) as error:
        ask(page, *inputs)
    return error.value.message


class TestTexts:
    def test_every_label_with_its_threshold(self, page, folders, tokenizer):
        model = AutoModelForSequenceClassification.from_pretrained(folders["text"])
        with torch.no_grad():
            scores = model(**tokenizer(TEXT, return_tensors="pt")).logits[0].sigmoid().tolist()
        expected = [
            [label, f"{score:.3f}", f"{threshold:.3f}", "✓" if score > threshold else ""]
            for score, label, threshold in sorted(
                zip(scores, LABELS, model.config.thresholds, strict=True), reverse=True
            )
        ]
        assert {row[0] for row in expected if row[-1]} == set(LABELS[1::2])
        table, heat = ask(page("text"), TEXT)
        assert table == {"headers": ["label", "probability", "threshold", "predicted"], "data": expected}
        assert heat == ""

    def test_a_label_that_is_predicted_is_never_left_out(self, page, monkeypatch):
        every = ask(page("text"), TEXT)[0]["data"]
        monkeypatch.setattr("hf_emotion.tasks.emotion_classification.page.LABELS_SHOWN", 1)
        assert ask(page("text"), TEXT)[0]["data"] == [row for i, row in enumerate(every) if i < 1 or row[-1] == "✓"]

    def test_one_label(self, page):
        table = ask(page("single"), TEXT)[0]
        assert table["headers"] == ["label", "probability", "predicted"]
        assert [row[-1] for row in table["data"]] == ["✓", "", "", "", ""]
        assert sum(float(row[1]) for row in table["data"]) == pytest.approx(1, abs=0.005)

    def test_checkpoints_side_by_side(self, page):
        both = page("text", "esa")
        assert ask(both, TEXT)[:2] == [ask(page("text"), TEXT)[0], ask(page("esa"), TEXT)[0]]
        labels = [block.label for block in both.blocks.values() if type(block).__name__ == "Dataframe"]
        assert labels == ["text", "esa"]

    @pytest.mark.slow
    def test_exported_checkpoints(self, demo, page, folders, tmp_path):
        pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'hf-emotion[onnx]'")
        pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install 'hf-emotion[onnx]'")
        export_onnx(folders["text"], tmp_path / "onnx", texts=[TEXT, "a day"])
        exported = demo.build([tmp_path / "onnx"])
        assert ask(exported, TEXT)[0] == ask(page("text"), TEXT)[0]
        assert choices(exported)["value"] == "none"
        with pytest.warns(UserWarning, match="No heat map of onnx: an exported model"):
            assert ask(exported, TEXT, "attention")[1] == ""

    def test_a_long_text_is_read_whole(self, page):
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            *_, shown = ask(page("text"), "day " * 50, "attention")
        assert str(shown).count("day") >= 50


class TestTargets:
    def test_a_row_for_each_target_and_aspect(self, page, folders):
        text = "PLACE2 is so sad , PLACE1 is joy"
        table = ask(page("targeted"), text)[0]
        assert table["headers"] == ["target", "aspect", "label", "probability"]
        assert [row[:2] for row in table["data"]] == [[t, a] for t in ("PLACE1", "PLACE2") for a in ASPECTS]
        (found,) = TargetedPredictor(folders["targeted"])(text)
        assert [row[2:] for row in table["data"]] == [[item["label"], f"{item['score']:.3f}"] for item in found]

    def test_aspects_alone(self, page):
        table = ask(page("aspects"), TEXT)[0]
        assert table["headers"] == ["aspect", "label", "probability"]
        assert [row[0] for row in table["data"]] == list(ASPECTS)

    def test_a_text_without_target(self, demo, page):
        message = refused(demo, page("targeted"), "the rain is sad")
        assert "PLACE1, PLACE2" in message and "write one of them" in message


class TestDialogues:
    def test_turns(self, page, folders):
        table, _ = ask(page("dialogue"), "Ann: i am so happy\n\n  \nno day\nBo B: the rain")
        turns = [("Ann", "i am so happy"), (None, "no day"), ("Bo B", "the rain")]
        (found,) = DialoguePredictor(folders["dialogue"])([turns])
        assert table["headers"] == ["speaker", "emotion", "probability", "utterance"]
        assert table["data"] == [
            [speaker or "", item["label"], f"{item['score']:.3f}", utterance]
            for (speaker, utterance), item in zip(turns, found, strict=True)
        ]

    def test_limit(self, demo, page):
        assert len(ask(page("dialogue"), "a day\n" * 100)[0]["data"]) == 100
        assert "101 turns, more than 100: shorten it" in refused(demo, page("dialogue"), "a day\n" * 101)


class TestReplies:
    def test_chosen_emotions_side_by_side(self, page, folders):
        generator = ReplyGenerator(folders["replies"])
        table, _ = ask(page("replies"), TEXT, "none", ["😂", "joy"], 3)
        assert table["headers"] == ["emotion", "reply"]
        replies = generator([TEXT, TEXT], ["😂", "joy"], seed=3)
        assert table["data"] == [["😂", replies[0]], ["joy", replies[1]]]
        assert any(ask(page("replies"), TEXT, "none", ["😂", "joy"], seed)[0] != table for seed in range(4, 12))

    def test_all_emotions(self, page, folders):
        table, _ = ask(page("replies"), TEXT, "none", [], 3)
        assert table["data"] == [
            [emotion, reply]
            for emotion, reply in zip(
                EMOTIONS, ReplyGenerator(folders["replies"]).all_emotions(TEXT, seed=3)[0], strict=True
            )
        ]

    def test_several_generators_offer_what_all_know(self, page):
        (choice,) = (
            block for block in page("replies", "other_replies").blocks.values() if block_label(block, "Emotions")
        )
        assert [name for name, _ in choice.choices] == ["joy", "fear"] and choice.value == ["joy", "fear"]


def block_label(block, start: str) -> bool:
    return str(getattr(block, "label", "")).startswith(start)


def choices(page) -> dict:
    """The configuration of the heat maps' choice."""
    (found,) = (block for block in page.blocks.values() if block_label(block, "Heat map"))
    return {"value": found.value, "choices": [name for name, _ in found.choices]}


class TestHeatMaps:
    @pytest.mark.parametrize(
        ("name", "text", "method", "seen"),
        [
            ("text", HOSTILE, "attention", "hacked"),
            ("targeted", f"PLACE1 {HOSTILE}", "occlusion", "hacked"),
            ("dialogue", f"<i>A</i>: {HOSTILE}", "attention", f"<i>A</i>: {HOSTILE}"),
        ],
    )
    @pytest.mark.filterwarnings("ignore:1 of 1")
    def test_what_was_typed_is_text(self, page, folders, name, text, method, seen):
        heat = ask(page(name), text, method)[1]
        assert seen in html.unescape(re.sub("<[^<>]*>", "", heat))
        assert str(folders[name]) not in heat  # paths of the server are not shown
        assert set(re.findall("<([a-z0-9]+)", heat)) <= {
            "h2",
            "p",
            "dl",
            "dt",
            "dd",
            "span",
            "small",
            "footer",
            "ul",
            "li",
        }

    def test_likelihoods_of_a_reply(self, page, folders):
        generator = ReplyGenerator(folders["replies"])
        greedy = dict(zip(EMOTIONS, generator.all_emotions(TEXT, do_sample=False)[0], strict=True))
        first = next(emotion for emotion, reply in greedy.items() if reply)  # an empty one has no words
        heat = ask(page("replies"), TEXT, "likelihood", [first, "calm"], 0)[1]
        assert "ln P" in heat and html.escape(greedy[first]) in heat

    def test_predictions_stand_where_there_is_no_map(self, page, monkeypatch):
        monkeypatch.setitem(sys.modules, "captum", None)
        monkeypatch.setitem(sys.modules, "captum.attr", None)
        with pytest.warns(UserWarning, match="No heat map of text: .*captum"):
            table, heat = ask(page("text"), TEXT, "integrated-gradients")
        assert table == ask(page("text"), TEXT)[0] and heat == ""

    def test_choices(self, page):
        methods = ["none", "attention", "gradient", "integrated-gradients", "occlusion"]
        assert choices(page("text")) == {"value": "attention", "choices": methods}
        assert choices(page("replies")) == {"value": "none", "choices": ["none", "likelihood"]}


class TestPage:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "The text is empty: type one, or choose an example."),
            (" \n\t", "The text is empty"),
            (None, "The text is empty"),
            ("a" * 5001, "The text has more than 5000 characters: shorten it."),
        ],
    )
    def test_bad_texts(self, demo, page, text, message):
        assert message in refused(demo, page("text"), text)

    def test_messages_are_escaped(self, demo, page, monkeypatch):
        def fail(*arguments):
            raise ValueError(f"not {HOSTILE}")

        monkeypatch.setattr(demo, "_checked", fail)
        message = refused(demo, page("text"), TEXT)
        assert "<" not in message and html.unescape(message) == f"not {HOSTILE}"

    @pytest.mark.filterwarnings("ignore:.*were cut")
    @pytest.mark.parametrize("name", ["text", "targeted", "aspects", "dialogue", "replies"])
    def test_every_example_works(self, page, name):
        (examples,) = (block for block in page(name).blocks.values() if type(block).__name__ == "Dataset")
        assert len(examples.samples) >= 2
        for (text,) in examples.samples:
            assert ask(page(name), text)[0]["data"]

    def test_limits(self, demo, page):
        config = page("text").get_config_file()
        (box,) = (part["props"] for part in config["components"] if part["type"] == "textbox")
        assert box["max_length"] == 5001  # one too many is refused, with a message
        assert page("text")._queue.max_size == 16
        click = config["dependencies"][0]
        assert click["queue"] and click["api_visibility"] == "private" and page("text").fns[0].concurrency_limit == 1
        assert all(part["api_visibility"] == "private" for part in config["dependencies"])
        assert config["analytics_enabled"] is False
        tables = [part["props"] for part in config["components"] if part["type"] == "dataframe"]
        assert [(table["datatype"], table["interactive"]) for table in tables] == [("str", False)]

    def test_checkpoints_that_do_not_go_together(self, argv, demo, folders):
        done = argv("demo", folders["text"], folders["replies"])
        assert done.code == 1
        assert done.err.startswith(
            "error: `checkpoints` must all be models for the same task: text is a model for emotion-classification; replies "
        )
        done = argv("demo", folders["text"], folders["text"])
        assert done.code == 1 and "each once" in done.err
        done = argv("demo", folders["text"], folders["text"].parent / "nothing")
        assert done.code == 1 and "nothing" in done.err

    def test_generators_without_a_common_emotion(self, demo, folders, tmp_path, tokenizer):
        BY_ID["gpt2-mod-ln"].build(emotions=list("abcde")).save_pretrained(tmp_path / "none")
        tokenizer.save_pretrained(tmp_path / "none")
        with pytest.raises(ValueError, match="replies, none have none in common"):
            demo.build([folders["replies"], tmp_path / "none"])

    def test_equal_names_are_told_apart(self, demo, folders, tmp_path):
        shutil.copytree(folders["text"], tmp_path / "text")
        found = demo.build([folders["text"], tmp_path / "text"]).blocks.values()
        labels = [block.label for block in found if type(block).__name__ == "Dataframe"]
        assert labels == [str(folders["text"]), str(tmp_path / "text")]


@pytest.fixture(scope="module")
def served(demo, page):
    """served("text"): the address that serves this page."""
    running = {}

    def serve(*names: str) -> str:
        if names not in running:
            running[names] = demo.start(page(*names), "127.0.0.1", free_port())
        return running[names]

    yield serve
    for names in running:
        page(*names).close(verbose=False)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class TestServing:
    def test_command(self, argv, demo, monkeypatch, folders):
        asked = []
        monkeypatch.setattr(demo, "serve", lambda *arguments: asked.append(arguments))
        assert argv("demo", folders["text"]).err == ""
        done = argv("demo", "a", "b", "--host", "0.0.0.0", "--port", 8000)
        assert asked == [([str(folders["text"])], "127.0.0.1", 7860), (["a", "b"], "0.0.0.0", 8000)]
        assert done.err == "warning: whoever reaches 0.0.0.0:8000 can use the page, there is no login\n"
        assert argv("demo", "a", "--port", 0).code == 2 and argv("demo").code == 2

    def test_only_this_machine_and_only_own_files(self, demo, page, served):
        url = served("text")
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", url)
        assert page("text").share is False and page("text").share_url is None
        with urllib.request.urlopen(url) as answer:
            policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'self' ") and "http" not in policy and "*" not in policy

    def test_no_uploads(self, served):
        body = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.txt"\r\n\r\nmore than a byte\r\n--x--\r\n'
        request = urllib.request.Request(
            f"{served('text')}gradio_api/upload", body, {"Content-Type": "multipart/form-data; boundary=x"}
        )
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(request)
        assert error.value.code == 413

    def test_a_port_in_use(self, demo, page, served):
        port = int(served("text").rstrip("/").rpartition(":")[2])
        with pytest.raises(OSError, match=rf"127.0.0.1:{port} cannot be served.* choose another with --port"):
            demo.start(page("single"), "127.0.0.1", port)


def click(tab, text: str) -> None:
    tab.locator("textarea").first.fill(text)
    tab.locator("button.primary").click()


def cells(tab) -> list[list[str]]:
    """Of the first table, once it is there."""
    tab.get_by_test_id("cell-0-0").first.wait_for()
    rows: dict[str, list[str]] = {}
    for cell in tab.locator(".virtual-body").first.locator("[data-testid^=cell-]").all():
        rows.setdefault(cell.get_attribute("data-testid").split("-")[1], []).append(cell.inner_text().strip())
    return list(rows.values())


def wait_for_toast(tab, text: str) -> None:
    """There may be others, such as that the tokenizer does not know a text."""
    tab.locator(".toast-body", has_text=text).first.wait_for()


class TestInBrowser:
    def test_type_click_and_see(self, page, served, visit):
        url = served("text", "esa")
        seen = visit(url)
        click(seen.tab, TEXT)
        assert cells(seen.tab) == ask(page("text", "esa"), TEXT)[0]["data"]
        seen.tab.locator("dt").first.wait_for()
        assert "happy" in seen.tab.locator("dd").first.inner_text()
        colours = "(words) => words.map((word) => getComputedStyle(word).backgroundColor)"
        assert len(set(seen.tab.locator("dd .word").evaluate_all(colours))) > 2  # shades, not one for all or none
        click(seen.tab, f"so happy {HOSTILE[:40]}")
        seen.tab.locator("dd", has_text="script").first.wait_for()
        assert seen.tab.evaluate("typeof window.hacked") == "undefined"
        click(seen.tab, "")
        wait_for_toast(seen.tab, "The text is empty: type one, or choose an example.")
        assert [address for address in seen.asked if not address.startswith((url, "data:", "blob:"))] == []
        assert seen.complaints == []

    @pytest.mark.slow
    def test_hostile_turns_are_shown_as_text(self, served, visit):
        seen = visit(served("dialogue"))
        click(seen.tab, f"<b>Ann</b>: {HOSTILE}\nBo: **no** [day](http://a.b)")
        rows = cells(seen.tab)
        assert [row[0] for row in rows] == ["<b>Ann</b>", "Bo"]
        assert [row[3] for row in rows] == [HOSTILE, "**no** [day](http://a.b)"]
        heat = seen.tab.locator("dt").first
        heat.wait_for()
        assert f"<b>Ann</b>: {HOSTILE}" in heat.inner_text()
        wait_for_toast(seen.tab, "were cut")
        assert seen.tab.locator("img[src=x]").count() == 0
        assert seen.tab.evaluate("typeof window.hacked") == "undefined"

    @pytest.mark.slow
    def test_an_example_and_replies(self, served, visit):
        seen = visit(served("replies"))
        seen.tab.get_by_text(EXAMPLES[0]).click()
        seen.tab.wait_for_function("document.querySelector('textarea').value.length > 0")
        seen.tab.locator("button.primary").click()
        assert [row[0] for row in cells(seen.tab)] == list(EMOTIONS)


@pytest.mark.slow
@pytest.mark.timeout(900)  # the program imports torch and gradio on its own, which other work on the machine slows
def test_the_app_of_a_space(demo, folders, tmp_path, visit):
    """It runs as its own program, with the real gradio and the code beside the weights."""
    write_space(tmp_path / "space", str(folders["targeted"]), folders["targeted"])
    port = free_port()
    variables = {
        "GRADIO_SERVER_PORT": str(port),
        "GRADIO_ANALYTICS_ENABLED": "False",
        "HF_MODULES_CACHE": str(tmp_path),
    }
    with (tmp_path / "log").open("w") as log:
        command = [sys.executable, "-P", "app.py"]
        program = subprocess.Popen(
            command, cwd=tmp_path / "space", env={**os.environ, **variables}, stdout=log, stderr=log
        )
    try:
        url, end = f"http://127.0.0.1:{port}/", time.monotonic() + 600
        while time.monotonic() < end and program.poll() is None:
            try:
                urllib.request.urlopen(url).close()
                break
            except OSError:
                time.sleep(0.5)
        assert program.poll() is None, (tmp_path / "log").read_text()[-4000:]
        seen = visit(url)
        click(seen.tab, f"PLACE1 is happy {HOSTILE}")
        assert [row[:2] for row in cells(seen.tab)] == [["PLACE1", aspect] for aspect in ASPECTS]
        click(seen.tab, f"<b>nowhere</b> {HOSTILE}")
        wait_for_toast(seen.tab, f"<b>nowhere</b> {HOSTILE}")
        assert seen.tab.evaluate("typeof window.hacked") == "undefined"
    finally:
        program.kill()
        program.wait()
