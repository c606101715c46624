# SPDX-License-Identifier: Apache-2.0
"""
Fixtures of the toolkit's tests: a tiny base BERT, small corpora, and finished run folders. Made once per session and never
written to: a test that changes a folder copies it. A module asks for them with `pytest_plugins = ["toolkit_fixtures"]`.
"""

import contextlib
import csv
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from model_cases import SPECIAL_TOKENS, TINY_BERT, WORDS, asymmetric_
from transformers import BertConfig, BertModel, BertTokenizerFast

from hf_emotion.data import load_dataset_for
from hf_emotion.recipes import Recipe, make_recipe
from hf_emotion.training.run import train


MAX_LENGTH = 32
FEELINGS = ("anger", "joy", "neutral")
SENTENCES = {  # the words tell the label
    "anger": ("this is anger", "i am not calm", "the anger today", "so sad and not happy"),
    "joy": ("i am so happy", "happy day", "joy of the sun", "this sun is joy"),
    "neutral": ("the day", "this is a day", "a home today", "neutral rain"),
}
QUICK_ARGUMENTS = {
    "num_train_epochs": 2,
    "per_device_train_batch_size": 16,
    "learning_rate": 1e-2,
    "use_cpu": True,
    "bf16": False,
    "disable_tqdm": True,
}


def recipe_for(base: Path, arguments: dict | None = None, **changes) -> Recipe:
    """A small run over the quickstart corpus; `arguments` are added to its training arguments."""
    values = {
        "name": "tiny",
        "base_model": str(base),
        "dataset": "quickstart",
        "model_type": "label-aware-bert",
        "max_length": MAX_LENGTH,
        "train_fraction": 0.1,
    }
    return make_recipe({**values, "training_arguments": {**QUICK_ARGUMENTS, **(arguments or {})}, **changes})


def write_csv(path: Path, header: list[str], rows: list[list[str]], delimiter: str = ",") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=delimiter, lineterminator="\n").writerows([header, *rows])
    return path


def write_jsonl(path: Path, rows: list[dict]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def feelings_rows(count: int, offset: int = 0, multi_label: bool = True) -> list[list[str]]:
    """Rows of text and labels; of the multi-label ones every fourth has two labels, joined by "|"."""
    rows = []
    for number in range(offset, offset + count):
        label = FEELINGS[number % 3]
        text, labels = f"{SENTENCES[label][number // 3 % 4]} {WORDS[number % len(WORDS)]}", label
        if multi_label and number % 4 == 0:
            other = FEELINGS[(number + 1) % 3]
            text, labels = f"{text} {SENTENCES[other][number % 4]}", f"{label}|{other}"
        rows.append([text, labels])
    return rows


def files_in(folder: Path) -> dict[str, bytes]:
    """Content of every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def report_of(run: Path) -> dict:
    return json.loads((run / "metrics.json").read_text(encoding="utf-8"))


def save_base_bert(folder: Path, **config) -> Path:
    """A tiny BERT and its tokenizer, which knows every word of the quickstart corpus."""
    folder.mkdir(parents=True, exist_ok=True)
    splits = load_dataset_for("quickstart")
    pieces = {piece for split in splits.values() for text in split["text"] for piece in text.lower().split()}
    words = {word for piece in pieces for word in re.findall(r"[a-z]+|[^a-z\s]", piece)}
    labels = splits["train"].features["labels"].feature.names
    vocabulary = list(dict.fromkeys([*SPECIAL_TOKENS, *WORDS, *labels, *sorted(words)]))
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    tokenizer = BertTokenizerFast.from_pretrained(folder)
    (folder / "vocab.txt").unlink()
    tokenizer.save_pretrained(folder)
    sizes = {**TINY_BERT, "vocab_size": len(vocabulary), "max_position_embeddings": 40, **config}
    asymmetric_(BertModel(BertConfig(**sizes)), seed=5).save_pretrained(folder)
    return folder


@contextlib.contextmanager
def one_thread():
    """Training and prediction of tiny models is faster in one thread, and its sums are always in one order."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def base_bert(tmp_path_factory) -> Path:
    return save_base_bert(tmp_path_factory.mktemp("base") / "tiny-bert")


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory, base_bert) -> Path:
    """A finished run folder: label-aware, GoEmotions' 28 labels, one seed."""
    output = tmp_path_factory.mktemp("tiny") / "run"
    with one_thread():
        train(recipe_for(base_bert, threshold=0.04, description="A tiny run"), output)
    return output


@pytest.fixture(scope="session")
def stock_run(tmp_path_factory, base_bert) -> Path:
    """A finished run folder over the same rows: the stock classifier."""
    output = tmp_path_factory.mktemp("stock") / "run"
    with one_thread():
        train(recipe_for(base_bert, name="stock", model_type=None, threshold=0.04, seeds=[7]), output)
    return output


@pytest.fixture(scope="session")
def feelings(tmp_path_factory) -> Path:
    """A multi-label corpus of CSV files: anger, joy, neutral."""
    folder = tmp_path_factory.mktemp("feelings")
    for split, count, offset in (("train", 48, 0), ("dev", 16, 48), ("test", 16, 64)):
        write_csv(folder / f"{split}.csv", ["text", "label"], feelings_rows(count, offset))
    return folder


@pytest.fixture(scope="session")
def single_label(tmp_path_factory) -> Path:
    """The same with one label per row, without a validation file."""
    folder = tmp_path_factory.mktemp("single")
    for split, count, offset in (("train", 48, 0), ("test", 16, 64)):
        write_csv(folder / f"{split}.csv", ["text", "label"], feelings_rows(count, offset, multi_label=False))
    return folder


@pytest.fixture(scope="session")
def single_run(tmp_path_factory, base_bert, single_label) -> Path:
    """A finished run folder of a single-label model."""
    output = tmp_path_factory.mktemp("single-run") / "run"
    recipe = recipe_for(base_bert, name="single", dataset="files", train_fraction=1.0)
    with one_thread():
        train(recipe, output, data_dir=single_label)
    return output


@pytest.fixture
def argv(monkeypatch, capsys):
    """Run the command line as the console script does: argv("predict", ...) -> exit code, stdout, stderr."""
    import sys

    from hf_emotion.cli import main

    def call(*arguments) -> SimpleNamespace:
        monkeypatch.setattr(sys, "argv", ["hf-emotion", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        captured = capsys.readouterr()
        return SimpleNamespace(code=code, out=captured.out, err=captured.err)

    return call
