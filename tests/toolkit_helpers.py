# SPDX-License-Identifier: Apache-2.0
"""Helpers of the toolkit's tests: a tiny base BERT, small recipes and corpora. The fixtures are in toolkit_fixtures.py."""

import contextlib
import csv
import json
import re
from pathlib import Path

import torch
from model_cases import SPECIAL_TOKENS, TINY_BERT, WORDS, asymmetric_
from transformers import BertConfig, BertModel, BertTokenizerFast

from hf_emotion.data import load_dataset_for
from hf_emotion.recipes import Recipe, make_recipe


MAX_LENGTH = 32
FEELINGS = ("anger", "joy", "neutral")
SENTENCES = {  # the words tell the label
    "anger": ("this is anger", "i am not calm", "the anger today", "so sad and not happy"),
    "joy": ("i am so happy", "happy day", "joy of the sun", "this sun is joy"),
    "neutral": ("the day", "this is a day", "a home today", "neutral rain"),
}
QUICK_ARGUMENTS = {
    "num_train_epochs": 2,
    "per_device_train_batch_size": 8,
    "learning_rate": 1e-3,
    "use_cpu": True,
    "bf16": False,
    "disable_tqdm": True,
}


# Large new weights: the probabilities of rows and of labels lie far apart without much training.
UNTIED = {"initializer_range": 1.0, "tie_head": False}


def recipe_for(base: Path, arguments: dict | None = None, **changes) -> Recipe:
    """A small run over the quickstart corpus; `arguments` are added to its training arguments."""
    values = {
        "name": "tiny",
        "base_model": str(base),
        "dataset": "quickstart",
        "model_type": "label-aware-bert",
        "model_config": UNTIED,
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
