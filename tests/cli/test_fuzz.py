# SPDX-License-Identifier: Apache-2.0
"""
A few cases of `tests/fuzzing.py` at every entry point, always the same ones; `HYPOTHESIS_PROFILE=endurance` runs thousands, and so
does `python -m tests.endurance.fuzz`. Below them what they found, one test each.
"""

import csv
import gzip
import json
import os
import re

import hypothesis
import pytest
import torch
from fuzzing import entry_points
from hf_emotion.modeling.text_processing import GATE_FILE, TfidfGate, load_gate
from model_cases import BY_ID
from toolkit_helpers import torch_threads

from hf_emotion.data.files import columns_of, read_rows
from hf_emotion.tasks import corpus_of
from hf_emotion.training.recipe_checks import load_recipe


pytest_plugins = ["toolkit_fixtures"]

hypothesis.settings.register_profile("small", max_examples=12, derandomize=True)
hypothesis.settings.register_profile("endurance", max_examples=5000)
PROFILE = hypothesis.settings.get_profile(os.environ.get("HYPOTHESIS_PROFILE", "small"))
FREE = {"deadline": None, "database": None, "suppress_health_check": list(hypothesis.HealthCheck)}
POINTS = ("read_rows", "own files", "corpora", "dataset options", "recipes", "gate", "models", "predictors")
POINTS += ("checkpoints", "command line")


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    with torch_threads(1):
        yield entry_points(tmp_path_factory.mktemp("fuzz"), exported=False)


@pytest.mark.timeout(0 if PROFILE.max_examples > 100 else 300)
@pytest.mark.parametrize("name", POINTS)
def test_a_valid_result_or_a_clear_error(points, name, tmp_path, own_verbosity):
    point = points[name]

    @hypothesis.settings(PROFILE, phases=[hypothesis.Phase.generate], **FREE)
    @hypothesis.given(point.cases)
    def throw(case):
        problem = point.problem(case, tmp_path)
        assert problem is None, problem

    throw()


def test_files_that_cannot_be_read(tmp_path):
    for name, content, message in (
        ("x.jsonl", b'{"text": "\\ud83d"}\n', "line 1: no valid JSON"),  # half an emoji
        ("x.jsonl", b"[" * 100_000, "line 1: no valid JSON: maximum recursion"),
        ("x.jsonl", b'{"a": ' + b"9" * 5000 + b"}", "line 1: no valid JSON: Exceeds the limit"),
        *(
            ("x.jsonl", content, "line 1: no valid JSON.*each line must hold one object, and end in a newline")
            for content in (b'{\n"text": "a"\n}', b'{"text": "a"}\r{"text": "b"}\r')
        ),
        ("x.parquet", b"PAR1 no parquet PAR1", "Parquet"),
        ("x.csv", b'text\n"' + b"a" * 2**24 + b'!"\n', "line 2: .*a quote that is not closed"),
        ("x.jsonl", b'{"a": ' + b"[" * 100 + b"]" * 100 + b"}", "line 1: no valid JSON: .* on more than 100 levels"),
        ("x.jsonl", b'{"text": "a"}\n' * 999 + b"\xff\n", "line 1000 is not UTF-8 text: save .*--encoding cp1252"),
        ("x.csv.gz", gzip.compress(b"text\ncaf\xe9\n"), "line 2 is not UTF-8 text"),
        ("x.csv", "text\na\n".encode("utf-16"), "line 1 is not UTF-8 text: .*--encoding utf-16"),
        ("x.csv", gzip.compress(b"text\na\n", mtime=0), "line 1 is not UTF-8 text.*the ending of its format"),
        ("x.xlsx", b"text\nhello\n", "cannot be read"),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        for read in (
            lambda path: list(read_rows(path)),
            *([columns_of] if "line 1 is" in message or message == "Parquet" else []),
        ):
            with pytest.raises(ValueError, match=f"{path}.*{message}") as caught:
                read(path)
            assert type(caught.value) is ValueError


def test_empty_lines_before_the_header(tmp_path):
    (tmp_path / "x.csv").write_text("\n\ntext,n\n\nsun,1\n")
    assert list(read_rows(tmp_path / "x.csv", ["text"])) == [(5, {"text": "sun", "n": "1"})]
    assert columns_of(tmp_path / "x.csv") == ["text", "n"]


def test_a_megabyte_in_a_cell(tmp_path):
    (tmp_path / "x.jsonl").write_text(json.dumps({"text": "😀" * 2**20}))
    (tmp_path / "x.csv").write_text("text,n\n" + "😀" * 2**20 + ",1\n")
    for name in ("x.jsonl", "x.csv"):
        assert [len(row["text"]) for _, row in read_rows(tmp_path / name)] == [2**20]
    assert csv.field_size_limit() == 131072  # which other programs count on


def test_thousands_of_columns(tmp_path):
    """With a wrong separator the header is one cell of many characters."""
    names = ["text", *(f"the column with the number {i}" for i in range(6500))]
    for separator in ",;":
        (tmp_path / "x.csv").write_text("\n".join([separator.join(names), separator.join(["sun"] * len(names))]))
        assert list(read_rows(tmp_path / "x.csv", ["text"])) == [(2, dict.fromkeys(names, "sun"))]


def test_a_gzip_bomb(tmp_path):
    path = tmp_path / "x.csv.gz"
    with gzip.open(path, "wb") as file:
        file.write(b"text\n")
        for _ in range(101):
            file.write(b"a" * 2**20)
    with pytest.raises(ValueError, match=f"{path} is not read: it unpacks to more than 100 MiB"):
        list(read_rows(path))


def test_options_of_another_type():
    for name, options, message in (
        ("files", {"text_column": 5}, "'text_column' for the dataset 'files' must be str, got 5"),
        ("files", {"labels": [1]}, r"must be Sequence\[str\] \| None, got \[1\]"),
        ("files", {"validation_fraction": True}, r"must be float \| int, got True"),
        ("meld", {"four_classes": 1}, "must be bool, got 1"),
        ("files", {"on_bad_rows": 1}, r"must be Literal\['error', 'skip'\], got 1"),
        (["files"], {}, r"unknown dataset \['files'\]"),
    ):
        with pytest.raises(ValueError, match=message):
            corpus_of(name).check(options)


def test_recipes_that_are_no_yaml(tmp_path):
    path = tmp_path / "recipe.yaml"
    for content, message in (
        (b"\xff", "'utf-8' codec can't decode"),
        (b"[" * 500, "must hold YAML .*RecursionError"),
        (b"name: !!bool x", "must hold YAML .*KeyError"),
        (b"name: !!python/object:os.system x", "could not determine a constructor"),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"{path}.*{message}"):
            load_recipe(path)


def test_values_of_overrides():
    for value in ("2024-13-45", "*a"):  # no YAML, and so words
        with pytest.raises(ValueError, match=f"'max_length' expected int, got str .value: '{re.escape(value)}'"):
            load_recipe("quickstart", [f"max_length={value}"])
        assert load_recipe("quickstart", [f"name={value}"]).name == value
    for value in ("[" * 500, "{a: "):  # begins as a list
        with pytest.raises(ValueError, match="form key=value, with a YAML value, got 'max_length="):
            load_recipe("quickstart", [f"max_length={value}"])


FINITE = "`idf` must map words to finite numbers above 0"


def test_gates_that_are_none(tmp_path):
    for content, message in (
        ("[" * 100_000, "maximum recursion"),
        ("[]", "must be a mapping"),
        ('{"idf": {}}', "unseen_idf"),
        ('{"idf": [], "unseen_idf": 1}', "values"),
        *((f'{{"idf": {{"a": {value}}}, "unseen_idf": 1}}', FINITE) for value in ("0", "NaN")),
        ('{"idf": {}, "unseen_idf": true}', FINITE),
        ('{"idf": {}, "unseen_idf": 1, "threshold": null}', "`threshold` must be a finite number"),
        ('{"idf": {}, "unseen_idf": 1, "min_words": -1}', "`min_words` a whole number from 0"),
    ):
        (tmp_path / GATE_FILE).write_text(content)
        config = BY_ID["esa-multi-label-thresholds"].make_config(tfidf_gating="filter")
        config.name_or_path = str(tmp_path)
        with pytest.raises(ValueError, match=f"{tmp_path / GATE_FILE} is not a TF-IDF gate: .*{message}"):
            load_gate(config)
        TfidfGate({"a": 1}, 2.0).save_pretrained(tmp_path)  # whole numbers are numbers
        assert load_gate(config).idf == {"a": 1}


TEXT_MODELS = "label-aware-pooler-hidden-balanced qacg-per-head-context-gate-bias cg esa-multi-label-thresholds"


@pytest.mark.parametrize("case_id", TEXT_MODELS.split())
def test_inputs_of_another_shape(case_id):
    model, inputs = BY_ID[case_id].build(), BY_ID[case_id].make_inputs(2, 5, 0)
    inputs.pop("labels", None)
    none = {name: value[:0] for name, value in inputs.items()}
    deep = {**inputs, "input_ids": torch.ones(2, 5, 1, dtype=torch.long), "attention_mask": None}
    for wrong, message in ((none, "must have a row, and from 1 to"), (deep, "must have 2 dimensions")):
        with torch.no_grad(), pytest.raises(ValueError, match=message):
            model(**wrong)
