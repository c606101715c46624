# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.study figures`: numbers in documents, written from records."""

import json
import re

import pytest
from toolkit_helpers import ROOT

from benchmarks.study.figures import renew_figures


pytest_plugins = ["toolkit_fixtures"]

DOCUMENTS = ["benchmarks/readme.yaml", "benchmarks/reproduction/figures.yaml", *sorted(ROOT.glob("docs/**/*.md"))]
BENCHMARKS = {
    "a.py --size 8x64": {"rows": [{"work": "step of cg, base", "median": 1.1192}, {"work": "twice", "median": 1.0}]},
    "b.py": {"rows": [{"work": "twice", "median": 2.0}]},
}


@pytest.fixture(autouse=True)
def records(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed, f1 in ((42, 0.5), (43, 0.6)):
        record = {"test": {"macro.f1": f1, "f1": 0.1, "rows": 5427, "name": "laa"}, "seeds": [f1, 1 - f1]}
        (tmp_path / f"laa-seed-{seed}.json").write_text(json.dumps(record))
    (tmp_path / "results.json").write_text(json.dumps(BENCHMARKS))
    (tmp_path / "broken.json").write_text("{")


def test_numbers_are_written_from_the_records(tmp_path, study):
    document = tmp_path / "PAGE.md"
    document.write_text("`1<!--= RECORD PATH -->`\n```text\n1<!--= RECORD PATH -->\n```\n")
    assert renew_figures([document]) == (0, [])
    figures = {  # before and behind the mark, what is written
        ("F1 .4", "laa-seed-42.json test.macro.f1"): "F1 0.500",
        ("1,234", "laa-seed-42.json test.rows"): "5,427",
        ("| 9 %, 7.1%", "laa-seed-43.json seeds.1 .1%"): "| 9 %, 40.0%",
        ("1-2", "laa-seed-42.json seeds.0\n.1f"): "1-0.5",
        ("in 2020, 0", "laa-seed-*.json seeds.0 mean"): "in 2020, 0.550 ± 0.071",
        ("**0.1 ± 0.2", "laa-seed-42.json seeds mean.1f"): "**0.5 ± 0.0",
        ("2", "results.json step of cg, base.median .2f"): "1.12",
        ("3", "results.json a.py --size 8x64.rows.0.median .2f"): "1.12",
        ("<!--== laa-seed-*.json {} mean -->4", "test.macro.f1"): "<!--== laa-seed-*.json {} mean -->0.550 ± 0.071",
        ("5", "./laa-seed-43.json test.rows"): "5,427",
    }
    text, renewed = (
        "\n".join(f"{number}<!--= {source} -->" for number, source in pairs)
        for pairs in (figures, [(new, source) for (_, source), new in figures.items()])
    )
    document.write_text(text)
    assert study("figures", document, "--check").code == 1 and document.read_text() == text
    assert " changed" in study("figures", document).out
    assert document.read_text() == renewed
    assert "0 differ" in study("figures", document, "--check").out


def test_errors_name_the_line_and_change_nothing(tmp_path):
    for mark, message in (
        ("1 <!--= laa-seed-42.json seeds.0 -->", "must follow a number"),
        ("1<!--= nothing-*.json seeds.0 -->", r"no record nothing-\*.json"),
        ("1<!--= broken.json seeds.0 -->", "not readable JSON"),
        ("1<!--= laa-seed-42.json test.f2 -->", r"`f2` is none of its keys there, such as \['macro.f1', 'f1'"),
        ("1<!--= laa-seed-42.json seeds.0.mean -->", "`seeds.0` is 0.5"),
        ("1<!--= laa-seed-42.json seeds -->", "use the format `mean`"),
        ("1<!--= laa-seed-42.json test.name -->", '"laa", not a number'),
        ("1<!--= laa-seed-42.json test.f1 mean -->", "needs a list of numbers"),
        ("1<!--= laa-seed-42.json test.f1 d -->", "`d` does not fit 0.1"),
        ("1<!--= results.json twice.median -->", "`twice.median` is none"),
        ("1<!--= laa-seed-42.json -->", "RECORD PATH"),
    ):
        written = {"first.md": "0<!--= laa-seed-42.json seeds.0 -->"}
        written["second.md"] = f"{written['first.md']}\n\n{mark}\n"
        for name, text in written.items():
            (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match=f"second.md:3: .*{message}"):
            renew_figures(written)
        assert {name: (tmp_path / name).read_text() for name in written} == written


def test_a_file_of_sources_leaves_the_document_without_marks(tmp_path, study):
    document, sources = tmp_path / "SUMMARY.md", tmp_path / "figures.yaml"
    text = "F1 is 0.1 over\ntwo seeds, 7 rows,\nat 0.3. See [0.9](0.9.md) and `0.8`.\n"
    document.write_text(text)
    figures = {"F1 is {} over two": ["laa-seed-*.json seeds.0 mean"], "seeds, {} rows": ["laa-seed-42.json test.rows"]}
    said = {"document": "SUMMARY.md", "figures": figures, "constants": ["at 0.3", "[0.9]"]}
    sources.write_text(json.dumps(said))
    assert study("figures", sources, "--check").code == 1 and document.read_text() == text
    assert "2 figures, 2 changed" in study("figures", sources).out
    assert document.read_text() == text.replace("0.1", "0.550 ± 0.071").replace("7 rows", "5,427 rows")
    assert "2 figures, 0 differ" in study("figures", sources, "--check").out
    for changes, message in (
        ({"constants": ["[0.9]"]}, r"SUMMARY.md:3: .*does not say where 0\.3 comes from"),
        ({"constants": [*said["constants"], "at 0.4"]}, "`at 0.4` does not stand in"),
        ({"figures": {**figures, "{} columns": ["laa-seed-42.json test.rows"]}}, "`{} columns` stands in .* 0 times"),
        ({"figures": {**figures, "seeds, {} rows": []}}, "has not 0 {}"),
        ({"figures": {**figures, "{} over two": ["laa-seed-42.json test.f1"]}}, "SUMMARY.md:1: .* two sources"),
    ):
        before = document.read_text()
        sources.write_text(json.dumps({**said, **changes}))
        with pytest.raises(ValueError, match=message):
            renew_figures([sources])
        assert document.read_text() == before


def test_the_figures_of_the_documents_are_those_of_the_committed_records(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert renew_figures(DOCUMENTS, check=True)[1] == []
    sources = re.findall(
        r"<!--==? *(\S+/\S+\.json)", "".join((ROOT / name).read_text(encoding="utf-8") for name in DOCUMENTS)
    )
    places = ("benchmarks/", "hf_emotion/ready/", "hf_emotion/tasks/published.json")
    assert all(source.startswith(places) for source in sources)
    assert (ROOT / "REPRODUCTION.md").stat().st_size <= 12_000


def test_the_reference_says_what_the_program_says(monkeypatch):
    """In a checkout it is read as it is committed."""
    monkeypatch.syspath_prepend(ROOT / "docs/_ext")
    from written_parts import KINDS, PAGES, PART, renewed

    texts = {page.name: page.read_text(encoding="utf-8") for page in PAGES}
    assert [name for name, text in texts.items() if renewed(text) != text] == [], "python docs/_ext/written_parts.py"
    assert sorted(kind for text in texts.values() for kind in PART.findall(text)) == sorted(KINDS)
