# SPDX-License-Identifier: Apache-2.0
"""`make quickstart`, and every block of the README and of the pages that are no how-to guides: see `pages.py`."""

import csv
import json
import re
import shlex
import shutil
from collections import Counter

import pytest
from documents import ESCAPING, PAGES, ROOT, blocks, read_blocks
from pages import ALONE, QUICKSTART, cases, check_page, run, run_command
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from hf_emotion.taxonomies import GOEMOTIONS


pytest_plugins = ["pages"]
# The first test of a process waits for trainings, which other work on the machine slows.
pytestmark = [pytest.mark.book, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def real_folder(tmp_path_factory):
    """A user's folder after `make quickstart` as it is, with MiniLM."""
    folder = tmp_path_factory.mktemp("real")
    shutil.copytree(ROOT / "examples", folder / "examples")
    (folder / "quickstart.txt").write_text("\n".join(run(command, folder) for command in QUICKSTART))
    return folder


def tickets(part: str) -> tuple[list[str], list[str]]:
    with (ROOT / "examples/tickets" / f"{part}.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [row["text"] for row in rows], [row["label"] for row in rows]


@pytest.mark.parametrize("used", ["folder", pytest.param("real_folder", marks=pytest.mark.slow)])
def test_the_quickstart_answers_before_and_after(request, used):
    folder_of_user = request.getfixturevalue(used)
    output = (folder_of_user / "quickstart.txt").read_text()
    assert "accuracy" in output
    sentences = QUICKSTART[-1][3:]
    lines = [line.split("\t") for line in output.splitlines() if "\t" in line]
    assert [text for text, _ in lines] == sentences * 2 and len(sentences) == 5
    labels = [found.split()[0] for _, found in lines]
    assert set(labels[:5]) <= {*GOEMOTIONS, "-"} and set(labels[5:]) <= set(tickets("train")[1])
    if used == "real_folder":
        assert labels[5:] == ["billing", "access", "fault", "delivery", "cancellation"]
    text, found = lines[5]  # the last step loads it with transformers alone, and agrees
    said = run(ALONE, folder_of_user)
    assert text in ALONE and said.splitlines() == [
        f"LabelAwareForSequenceClassification, loaded by transformers without hf-emotion: {text} {found}"
    ]
    assert {path.name for path in (folder_of_user / "runs/tickets").iterdir()} >= {
        *("config.json", "model.safetensors", "tokenizer.json", "metrics.json", "predictions.parquet", "recipe.yaml"),
        *("README.md", "report.html", "modeling_label_aware.py"),
    }


@pytest.mark.slow
def test_the_quickstart_model_beats_tfidf_and_logistic_regression(real_folder):
    """And examples/tickets/README.md says by how much; it also has the figure of the most frequent label."""
    (texts, gold), (test_texts, test_gold) = tickets("train"), tickets("test")
    best = 0.0
    for kind in ({"ngram_range": (1, 2)}, {"analyzer": "char_wb", "ngram_range": (2, 5)}):
        for strength in (1, 10, 100):  # the best on test: an advantage that ours does not have
            classifier = LogisticRegression(C=strength, max_iter=2000)
            plain = make_pipeline(TfidfVectorizer(sublinear_tf=True, **kind), classifier)
            best = max(best, plain.fit(texts, gold).score(test_texts, test_gold))
    found = json.loads((real_folder / "runs/tickets/metrics.json").read_text())["summary"]["test"]["argmax"]
    said = (ROOT / "examples/tickets/README.md").read_text(encoding="utf-8")
    figures = [float(number) for number in re.findall(r"0\.\d{3}", said)]
    ours = [found[name]["mean"] for name in ("accuracy", "macro_f1")]
    assert figures == pytest.approx([*ours, best, test_gold.count("billing") / len(test_gold)], abs=0.02)
    assert found["accuracy"]["mean"] > best + 0.1


def test_the_parts_of_the_tickets_share_no_text_with_each_other_or_with_a_ready_model():
    texts = {part: tickets(part)[0] for part in ("train", "validation", "test")}
    assert {part: len(rows) for part, rows in texts.items()} == {"train": 300, "validation": 60, "test": 120}
    for part in texts:
        assert set(Counter(tickets(part)[1]).values()) == {len(texts[part]) // 5}
    plain = [" ".join(re.findall(r"\w+", text.lower())) for rows in texts.values() for text in rows]
    assert len(set(plain)) == 480
    packaged = (path.read_text(encoding="utf-8") for path in (ROOT / "hf_emotion/data").rglob("*.jsonl"))
    known = " | ".join(" ".join(re.findall(r"\w+", text.lower())) for text in packaged)
    assert [text for text in plain if len(text.split()) > 3 and text in known] == []


def test_every_command_of_the_table_answers_at_once(page_folder, folder):
    """The README's table, but for the service, which does not end."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.findall(r"^\|.*\| `(hf-emotion .*)` \|$", text, re.MULTILINE)
    assert len(found) == 10 and found[-1] == "hf-emotion serve goemotions"
    for command in found[:-1]:
        assert run_command(shlex.split(command), page_folder).strip(), command
    assert (page_folder / "runs" / "mine" / "model.safetensors").is_file() and (page_folder / "report.html").is_file()


@pytest.mark.parametrize("page", cases(how_to=False))
def test_every_block_of_a_page_runs(page, page_folder, folder, caplog):
    check_page(page, page_folder, folder, caplog)


def test_no_block_escapes():
    """A block that is not run says why."""
    found = [(page.name, block) for page in PAGES for block in blocks(page)]
    assert [(name, block.line) for name, block in found if block.language in ESCAPING] == []
    assert [name for name, block in found if block.mark == "not run" and len(block.about) <= 10] == []


def test_how_blocks_are_read():
    text = (
        "```bash\nls\n```\n<!-- not run: needs a GPU -->\n\n```{code-block} python\n:emphasize-lines: 1\n\nx = 1\n```\n"
        "````{tab-set}\n  ```yaml\n  a: 1\n  ```\n````\n<!-- file: rows.csv -->\n```text\na,b\n```\n```\nout\n```\n"
    )
    assert read_blocks(text) == [
        ("", "", "bash", "ls\n", 1),
        ("not run", "needs a GPU", "python", "x = 1\n", 6),
        ("", "", "yaml", "a: 1\n", 12),
        ("file", "rows.csv", "text", "a,b\n", 17),
    ]
