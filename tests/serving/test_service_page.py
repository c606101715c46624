# SPDX-License-Identifier: Apache-2.0
"""The page of `hf-emotion serve` in a browser, what it shows of each kind of model, and the command that opens it."""

import json
import re
import shlex
import subprocess
from functools import cache
from types import SimpleNamespace

import pytest
import torch
from model_cases import ASPECTS, EMOTIONS, LABELS
from served import TEXT, running, send
from transformers import AutoModelForSequenceClassification

from hf_emotion import DialoguePredictor, ReplyGenerator, TargetedPredictor
from hf_emotion.inference import load_predictor
from hf_emotion.serving.web import PAGE, POLICY, listen


pytest_plugins = ["served", "toolkit_fixtures"]
pytestmark = pytest.mark.usefixtures("single_thread")

SHOWN = ("text", "aspects", "dialogue", "replies")
HOSTILE = "<script>window.hacked=1</script><img src=x onerror=window.hacked=1>"
KEY = "kept-to-itself"


@pytest.fixture(scope="module")
def url(folders):
    with running([folders[name] for name in SHOWN]) as (address, _):
        yield address


@pytest.fixture
def page(url, visit):
    """page("dialogue"): the page, with this model chosen. What it asks stays with the service, and the console is quiet."""
    opened = []

    def choose(name: str, **options) -> SimpleNamespace:
        seen = visit(url, **options)
        opened.append(seen)
        seen.tab.get_by_label("Model").select_option(name)
        return seen.tab

    yield choose
    for seen in opened:
        assert [address for address in seen.asked if not address.startswith((url, "data:"))] == []
        # The browser itself complains of a status such as 422.
        assert [one for one in seen.complaints if not one.startswith("Failed to load resource")] == []
        kept = seen.tab.evaluate("[typeof window.hacked, localStorage.length, sessionStorage.length]")
        assert kept == ["undefined", 0, 0]


def ask(tab, text: str) -> list[list[str]]:
    tab.locator("#text").fill(text)
    with tab.expect_response("**/page/table"):
        tab.locator("#text").press("Control+Enter")
    tab.locator("[aria-busy=false] tbody tr").first.wait_for()
    return [[cell.inner_text() for cell in row.locator("th, td").all()] for row in tab.locator("tbody tr").all()]


def look(tab, method: str) -> None:
    tab.get_by_label("Method").select_option(method)
    tab.get_by_role("button", name="Heat map").click()
    tab.locator("[aria-busy=false] article, [aria-busy=false] [role=alert]:not([hidden])").first.wait_for()
    assert not tab.get_by_role("alert").is_visible(), tab.get_by_role("alert").inner_text()


def colours(locator, of: str = "backgroundColor") -> list[tuple[float, ...]]:
    """Red, green, blue and opacity."""
    found = locator.evaluate_all(f"(all) => all.map((one) => getComputedStyle(one).{of})")
    values = [[float(value) for value in re.findall(r"[\d.]+", colour)] for colour in found]
    return [(*value, 1.0) if len(value) == 3 else tuple(value) for value in values]


def command(tab, **variables: str) -> list[str]:
    """What a shell makes of the command on the page."""
    script = 'curl() { printf "%s\\0" "$@"; }\n' + tab.locator("#curl").inner_text()
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, env=variables)
    assert done.stderr == ""
    return done.stdout.split("\0")[:-1]


def test_bars_and_what_is_predicted(page, url):
    tab = page("text")
    expected = send(url, "/page/table", {"model": "text", "text": TEXT})[1]["rows"]
    assert ask(tab, TEXT) == expected and {row[3] for row in expected} == {"", "✓"}
    for row, (_, probability, threshold, predicted) in zip(tab.locator("tbody tr").all(), expected, strict=True):
        bar, fill, tick = (row.locator(part).bounding_box() for part in (".bar", ".fill", ".tick"))
        assert fill["width"] / bar["width"] == pytest.approx(float(probability), abs=0.02)
        assert (tick["x"] + 1 - bar["x"]) / bar["width"] == pytest.approx(float(threshold), abs=0.02)
        weight = row.locator("th").evaluate("(cell) => getComputedStyle(cell).fontWeight")
        assert weight == ("700" if predicted else "400")
    assert tab.locator("#status").inner_text() == f"Predicted: {', '.join([row[0] for row in expected if row[3]])}"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_heat_map(page, url, scheme):
    tab = page("text", color_scheme=scheme)
    ask(tab, TEXT)
    look(tab, "occlusion")
    (heat,) = send(url, "/page/heat-map", {"model": "text", "text": TEXT, "method": "occlusion"})[1]["maps"]
    words = tab.locator("#maps .word")
    values = [value for row in heat["values"] for value in row]
    largest = max(map(abs, values))
    assert min(values) < 0 < max(values)
    ink, paper = colours(tab.locator("body"), "color")[0], colours(tab.locator("body"))[0]
    shown = zip(words.all(), values, heat["columns"] * len(heat["rows"]), colours(words), strict=True)
    for word, value, name, (*colour, opacity) in shown:
        assert word.evaluate("(one) => one.firstChild.data") == name
        assert float(word.get_attribute("title")) == pytest.approx(value, abs=0.0051)  # two digits
        assert opacity == pytest.approx(0.6 * abs(value) / largest, abs=0.01)
        if value:
            assert (colour[2] > colour[0]) == (value > 0)  # purple above 0, orange below
        seen = [opacity * one + (1 - opacity) * behind for one, behind in zip(colour, paper[:3], strict=True)]
        assert contrast(ink[:3], seen) > 4.5
    assert (brightness(paper[:3]) < 0.1) == (scheme == "dark")
    assert not words.locator("small").first.is_visible()
    tab.get_by_label("numbers").check()
    assert words.locator("small").first.inner_text() == words.first.get_attribute("title")


def brightness(colour) -> float:
    """As the Web Content Accessibility Guidelines have it."""
    parts = [part / 255 for part in colour]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other) -> float:
    dark, light = sorted((brightness(one), brightness(other)))
    return (light + 0.05) / (dark + 0.05)


def test_other_kinds_of_answers(page):
    tab = page("dialogue")
    tab.locator("#examples button").first.click()
    turns = tab.locator("#text").input_value().splitlines()
    rows = ask(tab, tab.locator("#text").input_value())
    assert [f"{row[0]}: {row[3]}" for row in rows] == turns
    tab.get_by_label("Model").select_option("aspects")
    assert not tab.locator("#results").is_visible()  # they were another model's
    assert [row[0] for row in ask(tab, TEXT)] == list(ASPECTS)
    tab.get_by_label("Model").select_option("replies")
    for chosen in ([EMOTIONS[1], EMOTIONS[0]], []):
        for emotion in EMOTIONS:
            tab.get_by_label(emotion, exact=True).set_checked(emotion in chosen)
        rows = ask(tab, TEXT)
        assert [row[0] for row in rows] == [emotion for emotion in EMOTIONS if emotion in chosen or not chosen]
        assert ask(tab, TEXT) == rows  # the same seed
    assert json.loads(command(tab)[-1]) == {"model": "replies", "inputs": TEXT, "seed": 0}
    tab.get_by_label("fear", exact=True).check()  # in which this model says something
    ask(tab, TEXT)
    look(tab, "likelihood")


@pytest.mark.filterwarnings("ignore:1 of 1")
def test_what_comes_from_outside_is_text(page):
    tab = page("dialogue")
    rows = ask(tab, f"<b>Ann</b>: {HOSTILE}\nBo: **no**")
    assert [(row[0], row[3]) for row in rows] == [("<b>Ann</b>", HOSTILE), ("Bo", "**no**")]
    look(tab, "occlusion")
    assert HOSTILE in tab.locator("#maps").inner_text() and HOSTILE in tab.locator("#curl").inner_text()
    text = dict.fromkeys(("title", "unit", "score_name"), HOSTILE)
    names = {"axes": [HOSTILE] * 2, "rows": [HOSTILE], "columns": [HOSTILE], "values": [[0]], "scores": [0.5]}
    maps = [{**text, **names}]
    tab.route("**/page/heat-map", lambda route: route.fulfill(json={"maps": maps, "notes": [HOSTILE]}))
    look(tab, "occlusion")
    assert tab.locator("#maps").inner_text().count(HOSTILE) == 8
    assert tab.locator("#results script, #results img").count() == 0


def test_the_policy_lets_no_other_script_run(url, visit):
    seen = visit(url)
    script = "Object.assign(document.createElement('script'), {textContent: 'hacked = 1'})"
    seen.tab.evaluate(f"document.body.append({script})")
    assert seen.tab.evaluate("typeof hacked") == "undefined"
    assert any("Content Security Policy" in complaint for complaint in seen.complaints)
    assert send(url, "/")[2]["Content-Security-Policy"] == POLICY and "unsafe" not in POLICY


@pytest.mark.parametrize(
    "text", ["it's 'so' good", "a \"b\" $HOME `id` $(id) \\ \\n !! %d\nsecond 'line'\t;", "'", "naïve 😀 'ß'"]
)
def test_the_command_is_quoted(page, url, text):
    tab = page("text")
    ask(tab, text)
    arguments = command(tab, HOME="wrong")
    assert arguments == shlex.split(tab.locator("#curl").inner_text().replace("\\\n", " "))[1:]
    assert arguments[:-1] == [f"{url}/v1/emotion-classification", "-H", "Content-Type: application/json", "-d"]
    body = json.loads(arguments[-1])
    assert body == {"model": "text", "inputs": text}
    assert send(url, "/v1/emotion-classification", body)[1]["model"] == "text"


def test_copying(page, url):
    tab = page("text")
    ask(tab, "it's")
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=url)
    tab.get_by_role("button", name="Copy").click()
    tab.get_by_text("It is copied.").wait_for()
    assert tab.evaluate("navigator.clipboard.readText()") == tab.locator("#curl").inner_text()


def test_a_key(folders, visit):
    with running([folders["text"]], api_key=KEY) as (address, _):
        tab = visit(address).tab
        field = tab.get_by_label("Key of the service")
        for value, message in (("wrong", "The key is wrong."), (KEY, None)):
            field.wait_for()
            assert field.get_attribute("type") == "password" and not tab.locator("#question").is_visible()
            field.fill(value)
            field.press("Enter")
            tab.get_by_text(message).wait_for() if message else tab.locator("#question").wait_for()
        assert not field.is_visible() and field.input_value() == ""
        assert ask(tab, TEXT)
        assert "-H" in command(tab, KEY="mine") and "Authorization: Bearer mine" in command(tab, KEY="mine")
        assert KEY not in tab.content()
        assert tab.evaluate("[document.cookie, localStorage.length, sessionStorage.length]") == ["", 0, 0]
        tab.reload()
        field.wait_for()


def test_what_goes_wrong_is_told(page):
    tab = page("text")
    problem = tab.get_by_role("alert")
    tab.locator("#text").fill(" \n")
    tab.locator("#ask").click()
    assert problem.inner_text() == "The text is empty: type one, or choose an example."
    tab.locator("#text").fill(TEXT)
    broken = {"status": 502, "body": "<h1>Bad gateway</h1>"}
    for answer, told in (
        ({"status": 422, "json": {"error": HOSTILE}}, HOSTILE),
        (broken, "The service answered with status 502."),
        (None, "The service did not answer"),
    ):
        tab.route("**/page/table", lambda route: route.fulfill(**answer) if answer else route.abort())  # noqa: B023
        tab.locator("#ask").click()
        problem.filter(has_text=told).wait_for()
        tab.unroute_all()
    ask(tab, TEXT)
    assert not problem.is_visible()


def test_an_answer_that_comes_too_late_is_not_shown(page):
    tab = page("text")
    waiting = []
    tab.route("**/page/table", lambda route: waiting.append(route))
    tab.locator("#text").fill(TEXT)
    with tab.expect_request("**/page/table"):
        tab.locator("#ask").click()
    tab.get_by_label("Model").select_option("aspects")
    waiting[0].continue_()
    tab.wait_for_timeout(300)
    assert not tab.locator("#results").is_visible() and tab.locator("#status").inner_text() == ""
    assert not tab.get_by_role("alert").is_visible()


def test_on_a_phone_and_with_the_keyboard(page):
    tab = page("text", viewport={"width": 360, "height": 740}, color_scheme="dark")
    for name in SHOWN:
        tab.get_by_label("Model").select_option(name)
        tab.locator("#examples button").first.click()
        ask(tab, tab.locator("#text").input_value())
        if name != "replies":  # these have few words
            look(tab, "occlusion")
        assert tab.evaluate("document.documentElement.scrollWidth") <= 360
        unnamed = "(all) => all.filter((one) => one.offsetParent && !one.labels.length).map((one) => one.id)"
        assert tab.locator("input, select, textarea").evaluate_all(unnamed) == []


def test_the_page_needs_nothing_from_elsewhere():
    assert re.findall(r'(?:src|href)="(?!data:|openapi\.json")', PAGE) == []
    words = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|localStorage|sessionStorage|cookie"
    assert not re.search(words, PAGE)


@pytest.fixture(scope="module")
def page_of(folders):
    """page_of("text"): the page of this checkpoint, in Python."""

    @cache
    def build(name: str):
        predictor = load_predictor(folders[name])
        return predictor.service().page

    return build


class TestTables:
    @pytest.fixture
    def table(self, page_of):
        return lambda name, text=TEXT, emotions=(), seed=None: page_of(name).table(text, emotions, seed)

    def test_every_label_with_its_threshold(self, table, folders, tokenizer, monkeypatch):
        model = AutoModelForSequenceClassification.from_pretrained(folders["text"])
        with torch.no_grad():
            scores = model(**tokenizer(TEXT, return_tensors="pt")).logits[0].sigmoid().tolist()
        ordered = sorted(zip(scores, LABELS, model.config.thresholds, strict=True), reverse=True)
        expected = [[name, f"{p:.3f}", f"{limit:.3f}", "✓" if p > limit else ""] for p, name, limit in ordered]
        assert {row[0] for row in expected if row[-1]} == set(LABELS[1::2])
        assert table("text").header == ["label", "probability", "threshold", "predicted"]
        assert table("text").rows == expected
        monkeypatch.setattr("hf_emotion.tasks.emotion_classification.showing.LABELS_SHOWN", 1)
        assert table("text").rows == [row for i, row in enumerate(expected) if i < 1 or row[-1] == "✓"]

    def test_one_label(self, table):
        found = table("single")
        assert found.header == ["label", "probability", "predicted"]
        assert [row[-1] for row in found.rows] == ["✓", "", "", "", ""]
        assert sum(float(row[1]) for row in found.rows) == pytest.approx(1, abs=0.005)

    def test_a_row_for_each_target_and_aspect(self, table, folders):
        text = "PLACE2 is so sad , PLACE1 is joy"
        found, (expected,) = table("targeted", text), TargetedPredictor(folders["targeted"])(text)
        assert found.header == ["target", "aspect", "label", "probability"]
        assert [row[:2] for row in found.rows] == [[t, a] for t in ("PLACE1", "PLACE2") for a in ASPECTS]
        assert [row[2:] for row in found.rows] == [[item["label"], f"{item['score']:.3f}"] for item in expected]
        assert table("aspects").header == ["aspect", "label", "probability"]
        assert [row[0] for row in table("aspects").rows] == list(ASPECTS)
        with pytest.raises(ValueError, match="none of the model's targets .*PLACE1.*PLACE2"):
            table("targeted", "the rain is sad")

    def test_turns(self, table, folders):
        found = table("dialogue", "Ann: i am so happy\n\n  \nno day\nBo B: the rain")
        turns = [("Ann", "i am so happy"), (None, "no day"), ("Bo B", "the rain")]
        answers = zip(turns, DialoguePredictor(folders["dialogue"])([turns])[0], strict=True)
        assert found.header == ["speaker", "emotion", "probability", "utterance"]
        assert found.rows == [[who or "", one["label"], f"{one['score']:.3f}", said] for (who, said), one in answers]
        assert len(table("dialogue", "a day\n" * 100).rows) == 100
        with pytest.raises(ValueError, match="101 turns, more than 100: shorten it"):
            table("dialogue", "a day\n" * 101)

    def test_replies_side_by_side(self, table, folders):
        generator, chosen = ReplyGenerator(folders["replies"]), ["😂", "joy"]
        found = table("replies", TEXT, chosen, 3)
        replies = generator([TEXT, TEXT], chosen, seed=3)
        assert found.header == ["emotion", "reply"] and found.rows == [
            list(p) for p in zip(chosen, replies, strict=True)
        ]
        assert any(table("replies", TEXT, chosen, seed) != found for seed in range(4, 12))
        every = zip(EMOTIONS, generator.all_emotions(TEXT, seed=3)[0], strict=True)
        assert table("replies", TEXT, [], 3).rows == list(map(list, every))


@pytest.mark.filterwarnings("ignore:.*were cut")
@pytest.mark.parametrize("name", ["text", "targeted", "aspects", "dialogue", "replies"])
def test_every_example_works(page_of, name):
    assert len(page_of(name).examples) >= 2
    assert all(page_of(name).table(text, (), None).rows for text in page_of(name).examples)


def test_the_page_opens_in_the_browser(argv, folders, monkeypatch):
    served, opened = [], []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("hf_emotion.serving.web.run", lambda *arguments: served.append(arguments))
    assert argv("demo", folders["text"], folders["replies"]).err == ""
    with listen("127.0.0.1", 0) as taken:
        chosen = taken.getsockname()[1]
    assert argv("demo", folders["text"], "--no-browser", "--port", chosen).err == ""
    (app, host, port, *_, show), (_, _, given, *_, nothing) = served
    assert list(app.state.models) == ["text", "replies"] and (host, port, given) == ("127.0.0.1", 0, chosen)
    assert show == opened.append and nothing is None


@pytest.mark.parametrize("command", [["demo"], ["serve", "--dtype", "fastest"]])
def test_a_taken_port_is_told_before_the_models_are_loaded(argv, folders, monkeypatch, command):
    monkeypatch.setattr("hf_emotion.serving.service.build", lambda settings: pytest.fail("it loads them"))
    monkeypatch.setattr("hf_emotion.serving.fastest.fastest", lambda checkpoints: pytest.fail("it loads them"))
    with listen("127.0.0.1", 0) as taken:
        done = argv(*command, folders["text"], "--port", taken.getsockname()[1])
    assert done.code == 1 and done.err.endswith("(Address already in use): choose another --port or --host.\n")


def test_wrong_usage(argv, folders, tmp_path):
    for arguments, said in (([folders["text"]] * 2, "each once"), ([tmp_path / "nothing"], "nothing")):
        done = argv("demo", *arguments)
        assert done.code == 1 and said in done.err
    assert argv("demo").code == 2 and argv("demo", folders["text"], "--host", "0.0.0.0").code == 2
