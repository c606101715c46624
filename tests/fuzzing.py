# SPDX-License-Identifier: Apache-2.0
"""
What is thrown at each entry point, and what may come back: a valid result, or an error of the plain kinds with a message; no
other exception, no traceback on the command line, nothing half-written.

`tests/cli/test_fuzz.py` runs a few cases of each, `python -m tests.endurance.fuzz` thousands.
"""

import contextlib
import io
import json
import math
import os
import shutil
import string
import sys
import traceback
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow
import pyarrow.parquet
import toolkit_helpers as helpers
import torch
import typer
from hf_emotion.modeling import text_processing
from hf_emotion.modeling.text_processing import GATE_FILE, TfidfGate, load_gate
from hypothesis import strategies as st
from model_cases import BY_ID, make_tokenizer

from hf_emotion import DialoguePredictor, Predictor, ReplyGenerator, TargetedPredictor, load_dataset_for
from hf_emotion.cli import app, main
from hf_emotion.data.files import read_rows
from hf_emotion.inference import load_predictor
from hf_emotion.recipes import Recipe, recipe_folder
from hf_emotion.tasks import corpora, corpus_of
from hf_emotion.tasks.emotional_response.onnx_replies import OnnxReplyGenerator
from hf_emotion.tasks.loading import check_dataset
from hf_emotion.training.recipe_checks import load_recipe


# No subclasses: a bare UnicodeDecodeError or ArrowInvalid names no file and no remedy.
CLEAR = (ValueError, OSError, FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, ImportError)
CLEAR += (ModuleNotFoundError, PermissionError)

Problem = str | None


@dataclass(frozen=True)
class EntryPoint:
    """
    Attributes:
        cases: what is drawn.
        run: (case, folder for its files) -> nothing, or an exception.
        named: what every message must hold one of, given the folder: a path or an argument.
    """

    cases: st.SearchStrategy
    run: Callable[[Any, Path], None]
    named: Sequence[str] = ()

    def problem(self, case: Any, folder: Path) -> Problem:
        """What is wrong with what came back; None if all is well."""
        try:
            self.run(case, folder)
        except AssertionError as error:
            return f"AssertionError: {error}"
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(where.filename).name}:{where.lineno}"
            if type(error) not in CLEAR:
                return f"{type(error).__name__} at {place}: {str(error)[:200]}"
            if len(str(error)) < 15:
                return f"no message at {place}: {error!r}"
            if self.named and not any(name in str(error) for name in (str(folder), *self.named)):
                return f"the message names neither file nor argument at {place}: {error}"
        return None


# What texts, values and files are made of

TEXTS = (
    *("", " ", "\n", "a", "0", "joy", "so happy today", "anger|joy", "None", "nan", "a\x00b", "\x1b[31mred", "\r\n"),
    *("\u202egnp.exe", "مرحبا بالعالم", "שלום", "e\u0301\u0302\u0303" * 20, "\ufeffjoy", "\ud800", "\udc80x", "😀"),
    *("\u2028", "😀" * 300, "👩‍👩‍👧‍👦" * 50, "a" * 5000, "a b " * 2000, "\u0000" * 50, "\uffff", "<script>"),
    *("[SEP] [PAD]", "../../etc/passwd", "$(id)", "{{7*7}}", "%s%n", "'; --", '"', ",", "\t", "1e400", "-1"),
    *("9" * 5000, "\u3000", "\u200b"),
)
texts = st.one_of(
    st.sampled_from(TEXTS), st.text(max_size=30), st.text(alphabet=string.ascii_lowercase + " ,'.", max_size=30)
)
long_texts = st.sampled_from(("x" * 2**20, "a day " * 170_000, "😀" * 10_000, "\u202e" * 5000, "\u0301" * 5000))
numbers = st.one_of(
    st.integers(-3, 70), st.sampled_from([2**31, 2**63, -(2**64), 10**400]), st.floats(), st.booleans(), st.none()
)
values = st.recursive(
    st.one_of(numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)
places = st.floats(0, 1, allow_nan=False)
edits = st.lists(
    st.tuples(st.sampled_from("flip insert delete cut double swap".split()), places, places, st.binary(max_size=6)),
    min_size=1,
    max_size=4,
)


def edited(content: bytes, changes: list) -> bytes:
    """A file with some of its bytes changed."""
    for kind, first, second, new in changes:
        a, b = sorted((int(first * len(content)), int(second * len(content))))
        if kind == "flip" and a < len(content):
            content = content[:a] + bytes([content[a] ^ (1 + len(new))]) + content[a + 1 :]
        elif kind == "insert":
            content = content[:a] + new + content[a:]
        elif kind == "delete":
            content = content[:a] + content[min(b, a + 40) :]
        elif kind == "cut":
            content = content[:a]
        elif kind == "double":
            content = content[:b] + content[a : min(b, a + 200)] + content[b:]
        elif kind == "swap":
            content = content[:a] + content[b : b + 20] + content[a:]
    return content


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True)


COLUMNS = "text label labels id context reply emotion dialogue utterance speaker turns aspect".split()
row_values = st.one_of(texts, st.sampled_from(["joy", "anger", "calm"]), values)
turns = st.lists(
    st.fixed_dictionaries({}, optional={"utterance": row_values, "speaker": row_values, "label": row_values})
)
two_labels = st.sampled_from(["joy", "anger"])
rows_of = {
    "plain": st.fixed_dictionaries({"text": texts, "label": two_labels}, optional={"id": row_values}),
    "wild": st.dictionaries(st.sampled_from(COLUMNS), row_values, max_size=6),
    "reply": st.fixed_dictionaries({"context": texts, "reply": texts, "emotion": row_values}),
    "dialogue": st.fixed_dictionaries({"dialogue": row_values, "utterance": texts, "label": row_values}),
    "turns": st.fixed_dictionaries({"turns": st.one_of(turns, values)}, optional={"id": row_values}),
    "aspect": st.fixed_dictionaries({"text": texts, "label": row_values, "aspect": row_values, "target": row_values}),
}


def as_csv(rows: list[dict], separator: str) -> bytes:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines = [separator.join(columns)]
    for row in rows:
        cells = (str(row.get(name, "")) for name in columns)
        lines.append(separator.join(f'"{cell}"' if separator in cell or '"' in cell else cell for cell in cells))
    return "\n".join(lines).encode("utf-8", "replace")


def as_jsonl(rows: list[dict]) -> bytes:
    return "\n".join(dumps(row) for row in rows).encode()


def as_parquet(rows: list[dict]) -> bytes:
    try:
        file = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), file)
        return file.getvalue()
    except (pyarrow.ArrowException, UnicodeError, OverflowError, TypeError, ValueError):  # no table can hold them
        return as_jsonl(rows)


FORMATS = {".csv": partial(as_csv, separator=","), ".tsv": partial(as_csv, separator="\t"), ".parquet": as_parquet}
FORMATS |= {".txt": FORMATS[".csv"], ".jsonl": as_jsonl, ".ndjson": as_jsonl}


@st.composite
def table_files(draw) -> tuple[str, bytes]:
    """(ending, content)"""
    ending = draw(st.sampled_from(list(FORMATS)))
    kind = draw(st.sampled_from(list(rows_of)))
    rows = draw(st.lists(rows_of[kind], max_size=8))
    if draw(st.integers(0, 3)) and rows:  # enough of them to be split
        rows = rows * draw(st.integers(1, 8))
    content = FORMATS[ending](rows)
    how = draw(st.integers(0, 9))
    if how == 0:
        return ending, draw(st.binary(max_size=200))
    return ending, edited(content, draw(edits)) if how < 5 else content


OPTIONS = sorted({"data_dir", *(option for corpus in corpora().values() for option in corpus.options)})
option_values = st.one_of(
    st.sampled_from([*"label text aspect target emotion skip error , | ekman".split(), 0.1, 0.5, True, 3]),
    st.lists(st.sampled_from(["joy", "anger", "calm", "joy", ""]), max_size=4),
    values,
)


@st.composite
def own_files(draw):
    name = draw(st.sampled_from(["files", "aspect_files", "dialogue_files", "reply_files"]))
    known = corpus_of(name).options
    chosen = draw(st.lists(st.sampled_from([*known, "dedupe", "oversample"]), max_size=3, unique=True))
    if draw(st.booleans()):
        chosen += ["on_bad_rows"]
    options = {option: "skip" if option == "on_bad_rows" else draw(option_values) for option in chosen}
    splits = draw(st.sampled_from(["train", "train test", "train dev test", "train val dev", "x"])).split()
    return name, {split: draw(table_files()) for split in splits}, options


def run_read_rows(case, folder: Path) -> None:
    ending, content = case
    path = folder / f"rows{ending}"
    path.write_bytes(content)
    for number, row in read_rows(path):
        assert isinstance(number, int) and isinstance(row, dict)


def run_own_files(case, folder: Path) -> None:
    name, files, options = case
    data = fresh(folder / "data")
    for split, (ending, content) in files.items():
        (data / f"{split}{ending}").write_bytes(content)
    check_corpus(load_dataset_for(name, data, **options))


def check_corpus(splits) -> None:
    """A corpus that loads is one: rows in every split, labels within the names."""
    assert {"train", "validation"} <= set(splits)
    for dataset in splits.values():
        for row in dataset.select(range(min(3, len(dataset)))):
            assert row["id"] is not None and ("labels" in row or "turns" in row)


def fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


# Corpora in their own layouts, with changed bytes

TALK = [["speaker", "so happy"], ["listener", "me too"]]
FEW = {"train": (8, 0), "dev": (2, 8), "test": (2, 10)}


def write_corpora(folder: Path) -> Path:
    """Small files of every corpus."""
    helpers.write_sentihood(folder, {"train": (4, 0), "dev": (2, 4), "test": (2, 6)})
    for write in (helpers.write_meld, helpers.write_emorynlp, helpers.write_daily_dialog):
        write(folder, FEW)
    helpers.write_semeval2014(folder)
    helpers.write_iemocap(folder, 2)
    helpers.write_values(folder)
    contents = {
        "goemotions/{}.tsv": "so happy\t17\tid1\nthe anger\t2,3\tid2\n",
        "emotion6/{}.txt": "so happy;joy\nthe rain;sadness\n",
        "mojitalk/{}.ori": "😂 what a day\n😭 the rain\n" * 40,
        "mojitalk/{}.rep": "so funny 😂\nso sad\n" * 40,
        "empathetic_dialogues/{}.jsonl": dumps({"conv_id": "c1", "emotion": "joyful", "turns": TALK}),
    }
    stems = {"emotion6": ("train", "val", "test"), "empathetic_dialogues": ("train", "valid", "test")}
    for name, content in contents.items():
        corpus = name.split("/")[0]
        for stem in stems.get(corpus, ("train", "dev", "test")):
            path = folder / name.format(stem)
            path.parent.mkdir(exist_ok=True)
            path.write_text("".join(f"{line}\n" for line in content.splitlines()), encoding="utf-8")
    return folder


_NAMES = "goemotions emotion6 emobank sentihood semeval2014 meld emorynlp daily_dialog iemocap mojitalk empathetic_dialogues"
# corpus: its folder
CORPORA = {name: name for name in _NAMES.split()} | {"daily_dialog_replies": "daily_dialog", "conversations": "meld"}


def corpora_point(prepared: Path) -> EntryPoint:
    files = {
        name: sorted(path.relative_to(prepared) for path in (prepared / folder).rglob("*") if path.is_file())
        for name, folder in CORPORA.items()
    }
    others = st.one_of(
        st.binary(max_size=100),
        st.lists(texts, max_size=4).map(lambda lines: "\n".join(lines).encode("utf-8", "replace")),
        values.map(lambda value: dumps(value).encode()),
    )
    cases = st.sampled_from(list(CORPORA)).flatmap(
        lambda name: st.tuples(st.just(name), st.sampled_from(files[name]), st.one_of(edits, others))
    )

    def run(case, folder: Path) -> None:
        name, file, change = case
        path = prepared / file
        content = path.read_bytes()
        path.write_bytes(change if isinstance(change, bytes) else edited(content, change))
        try:
            options = {"corpora": ["meld"]} if name == "conversations" else {}
            check_corpus(load_dataset_for(name, prepared, **options))
        finally:
            path.write_bytes(content)

    return EntryPoint(cases, run, (str(prepared),))


# Recipes

KEYS = list(Recipe.__dataclass_fields__)
OTHER_KEYS = "learning_rate learning_rte output_dir dataset_options.taxonomy model_config.tie_head"
recipe_values = st.one_of(
    values,
    st.sampled_from(["label-aware-bert", "goemotions", "files", "roberta-esa", [1, 2], {"learning_rate": 1e-4}, 0.5]),
)
keys = st.one_of(
    st.sampled_from([*KEYS, *OTHER_KEYS.split()]),
    st.sampled_from([f"{head}.{tail}" for head in KEYS for tail in ("x", "", "a.b", "taxonomy", "num_train_epochs")]),
    texts,
)


def recipe_point() -> EntryPoint:
    packaged = [path.read_text(encoding="utf-8") for path in sorted(recipe_folder().rglob("*.yaml"))]
    hostile = ["name: x", "*a", "&a [*a]", "!!python/object:os.system x", "? : ?", "- ", "{", "[" * 500]
    fields = st.dictionaries(st.one_of(st.sampled_from(KEYS), texts), recipe_values, max_size=5)
    contents = st.one_of(
        st.tuples(st.sampled_from(packaged), edits).map(lambda pair: edited(pair[0].encode(), pair[1])),
        fields.map(dumps).map(str.encode),
        st.binary(max_size=100),
        st.lists(st.sampled_from(hostile)).map("\n".join).map(str.encode),
    )
    overrides = st.lists(
        st.one_of(
            st.tuples(keys, recipe_values).map(lambda pair: f"{pair[0]}={dumps(pair[1])}"),
            st.tuples(keys, texts).map("=".join),
            texts,
        ),
        max_size=3,
    )

    def run(case, folder: Path) -> None:
        content, given = case
        path = folder / "recipe.yaml"
        path.write_bytes(content)
        recipe = load_recipe(path, given)
        again = folder / "again.yaml"
        again.write_text(recipe.to_yaml(), encoding="utf-8")
        assert recipe.to_yaml() == load_recipe(again).to_yaml()  # NaN differs from itself

    return EntryPoint(st.tuples(contents, overrides), run, ("override", "recipe", "`"))


# Gates


def gate_point() -> EntryPoint:
    valid = TfidfGate({"joy": 2.5, "day": 1.0}, 3.0)
    gates = st.fixed_dictionaries(
        {"idf": st.one_of(st.dictionaries(texts, numbers, max_size=3), values), "unseen_idf": numbers},
        optional={"threshold": numbers, "min_words": numbers, "more": values},
    )
    contents = st.one_of(
        gates.map(dumps).map(str.encode),
        values.map(dumps).map(str.encode),
        st.binary(max_size=60),
        edits.map(lambda changes: edited(valid.to_json().encode(), changes)),
    )

    def run(case, folder: Path) -> None:
        content, text = case
        (folder / GATE_FILE).write_bytes(content)
        gate = load_gate(mock.Mock(tfidf_gating="scale", _name_or_path=str(folder), _commit_hash=None))
        assert isinstance(gate.filter(text), str)
        gates = gate.token_gates(text, [(0, 0), *((i, i + 1) for i in range(min(len(text), 50)))])
        assert all(math.isfinite(value) for value in gates)

    return EntryPoint(st.tuples(contents, st.one_of(texts, long_texts)), run)


# Models

MODELS = (
    *("label-aware-pooler-hidden-balanced", "qacg-per-head-context-gate-bias", "cg", "esa-multi-label-thresholds"),
    *("dialogue-model", "gpt2-mod-ln", "bert-mod-ln"),
)
ID_INPUTS = ("input_ids", "token_type_ids", "context_ids", "speaker_ids", "emotion_ids", "decoder_input_ids")


def models_point() -> EntryPoint:
    fields = {"model": MODELS, "padded": ("as it is", "all", "one row", "none"), "which": ID_INPUTS}
    fields |= {"length": [0, 1, 2, 7, 19, 20, 31, 32, 33, 40, 41, 512, 513], "embeds": [None, "nan", "inf", "zero"]}
    fields |= {"ids": [None, None, -1, 0, 10**6, 2**62, -(2**62)], "batch": range(4), "labels": [False, True]}
    cases = st.fixed_dictionaries(
        {"seed": st.integers(0, 1000), **{name: st.sampled_from(choices) for name, choices in fields.items()}}
    )
    built = {name: BY_ID[name].build() for name in MODELS}

    @torch.no_grad()
    def run(case, folder: Path) -> None:
        model_case, model = BY_ID[case["model"]], built[case["model"]]
        inputs = model_case.make_inputs(3, 7, case["seed"])
        inputs = {name: _resized(value, case["batch"], case["length"]) for name, value in inputs.items()}
        if not case["labels"]:
            inputs.pop("labels", None)
        mask = model_case.mask
        if case["padded"] == "none":
            inputs.pop(mask, None)
        elif mask in inputs and case["padded"] != "as it is":
            inputs[mask][slice(None) if case["padded"] == "all" else slice(1)] = 0
        if case["ids"] is not None and case["which"] in inputs and inputs[case["which"]].numel():
            inputs[case["which"]].view(-1)[-1] = case["ids"]
        if case["embeds"] is not None and "input_ids" in inputs and inputs["input_ids"].dim() == 2:
            size = model.get_input_embeddings().weight.shape[1]
            value = {"nan": math.nan, "inf": math.inf, "zero": 0.0}[case["embeds"]]
            inputs["inputs_embeds"] = torch.full((*inputs.pop("input_ids").shape, size), value)
        try:
            outputs = model(**inputs)
        except (IndexError, RuntimeError):  # torch's: a model looks at no values of ids, and counts no positions
            if case["ids"] in (None, 0) and case["length"] <= text_processing.usable_positions(model.config):
                raise
            return
        rows = next(iter(inputs.values())).shape[0]
        assert outputs.logits.shape[0] == rows
        fine = case["embeds"] in (None, "zero") and case["padded"] not in ("all", "one row")
        assert not fine or bool(outputs.logits.isfinite().all())

    return EntryPoint(cases, run)


def _resized(value: torch.Tensor, batch: int, length: int) -> torch.Tensor:
    """As many rows and tokens as asked for, by repetition."""
    rows = value[[row % len(value) for row in range(batch)]]
    if value.dim() > 1 and value.shape[1] == 7:
        rows = rows[:, [column % 7 for column in range(length)]]
    return rows.clone()


# Predictors


def predictors_point(tokenizer) -> EntryPoint:
    def predictor(predictor_class, case):
        return predictor_class(BY_ID[case].build(), tokenizer)

    of = {
        "texts": predictor(Predictor, "label-aware-pooler-hidden-balanced"),
        "esa": predictor(Predictor, "esa-multi-label-thresholds"),
        "targets": predictor(TargetedPredictor, "qacg-per-head-context-gate-bias"),
        "aspects": predictor(TargetedPredictor, "cg"),
        "dialogues": predictor(DialoguePredictor, "dialogue-model"),
        "replies": predictor(ReplyGenerator, "bert-mod-ln"),
    }
    odd = st.one_of(texts, values)
    several, one_long = st.lists(st.one_of(texts, texts, texts, odd), max_size=4), st.tuples(long_texts).map(list)
    cases = st.tuples(
        st.sampled_from(list(of)),
        st.one_of(several, one_long, texts),
        st.one_of(st.none(), st.integers(-1, 9)),
        st.one_of(st.none(), st.lists(st.sampled_from(["PLACE1", "PLACE2", "x"]), max_size=2)),
        st.one_of(st.sampled_from(["joy", "😂", "x", {"joy": 0.5, "fear": 0.5}]), values),
    )

    def run(case, folder: Path) -> None:
        kind, given, top_k, targets, emotion = case
        found = of[kind]
        if kind in ("texts", "esa"):
            results = found(given, top_k=top_k)
        elif kind in ("targets", "aspects"):
            results = found(given, targets=targets)
        elif kind == "replies":
            cut = [text[:100] if isinstance(text, str) else text for text in given]
            results = found(cut if isinstance(given, list) else given[:99], emotion, do_sample=False, max_new_tokens=2)
        else:
            given = [given] if isinstance(given, list) and given else given
            results = found(given)
            if given == "":
                return
        assert len(results) == (1 if isinstance(given, str) else len(given))
        for scores in results if kind in ("texts", "esa") else ():
            assert all(0 <= item["score"] <= 1 for item in scores)

    return EntryPoint(cases, run)


# Checkpoints and exported folders


def json_edits(draw, content: bytes, fields: Sequence[str]) -> bytes:
    """A JSON object with some of its entries changed."""
    loaded = json.loads(content)
    for _ in range(draw(st.integers(1, 2))):
        key = draw(st.one_of(st.sampled_from([*loaded, *fields]), texts))
        if draw(st.booleans()):
            loaded.pop(key, None)
        else:
            loaded[key] = draw(values.filter(_small))
    return dumps(loaded).encode()


def _small(value: Any) -> bool:
    """No number of layers or sizes that would only fill the memory."""
    return not isinstance(value, int | float) or isinstance(value, bool) or not 100 < abs(value) < 10**15


def folder_point(
    valid: dict[str, dict[str, bytes]], use: Callable[[Path], None], names: Sequence[str] | None = None
) -> EntryPoint:
    """Folders of files, of which one is changed, cut, replaced or missing."""

    @st.composite
    def cases(draw):
        kind = draw(st.sampled_from(list(valid)))
        name = draw(st.sampled_from([file for file in valid[kind] if names is None or file.endswith(tuple(names))]))
        content = valid[kind][name]
        how = draw(st.sampled_from(["bytes", "json", "cut", "other", "gone", "header"]))
        if how == "json" and name.endswith(".json"):
            fields = ("auto_map", "_attn_implementation", "dtype", "vocab_size", "num_labels")
            return kind, name, json_edits(draw, content, fields)
        if how == "cut":
            return kind, name, content[: int(draw(places) * len(content))]
        if how == "header" and name.endswith(".safetensors"):
            length = int.from_bytes(content[:8], "little")
            header = json_edits(draw, content[8 : 8 + length], ())
            return kind, name, len(header).to_bytes(8, "little") + header + content[8 + length :]
        if how == "other":
            others = (st.binary(max_size=50), values.map(dumps).map(str.encode), st.just(content * 2))
            return kind, name, draw(st.one_of(others))
        if how == "gone":
            return kind, name, None
        return kind, name, edited(content, draw(edits))

    def run(case, folder: Path) -> None:
        kind, name, content = case
        place = fresh(folder / "checkpoint")
        for file, whole in valid[kind].items():
            if file != name:
                (place / file).write_bytes(whole)
        if content is not None:
            (place / name).write_bytes(content)
        use(place)

    return EntryPoint(cases(), run)


def use_checkpoint(folder: Path) -> None:
    """Load and predict."""
    found = load_predictor(folder)
    if isinstance(found, ReplyGenerator):
        found(["so happy"], found.emotions[0], do_sample=False, max_new_tokens=2)
    elif isinstance(found, TargetedPredictor):
        config = found.model.config
        found(["so happy"], targets=config.targets[:1] if config.targets else None)
    elif isinstance(found, DialoguePredictor):
        found([["so happy", "me too"]])
    else:
        found(["so happy"], top_k=1)


def use_exported(folder: Path) -> None:
    if (folder / "decoder.onnx").is_file():
        OnnxReplyGenerator(folder)([("so happy", "joy")], do_sample=False, max_new_tokens=2)
    else:
        use_checkpoint(folder)


def saved(folder: Path, case: str, root: Path) -> dict[str, bytes]:
    model = BY_ID[case].build()
    model.save_pretrained(folder)
    make_tokenizer(root / "tokenizer", model_max_length=32).save_pretrained(folder)
    if getattr(model.config, "tfidf_gating", "none") != "none":
        TfidfGate({"joy": 2.5}, 3.0).save_pretrained(folder)
    paths = [path for path in sorted(folder.iterdir()) if path.suffix in (".json", ".safetensors")]
    return {path.name: path.read_bytes() for path in paths}


CHECKPOINTS = (
    *("label-aware-pooler-hidden-balanced", "esa-multi-label-thresholds", "qacg-per-head-context-gate-bias", "cg"),
    *("dialogue-model", "bert-mod-ln"),
)


def checkpoints_point(root: Path) -> EntryPoint:
    return folder_point({case: saved(root / case, case, root) for case in CHECKPOINTS}, use_checkpoint)


def exported_point(root: Path) -> EntryPoint:
    from hf_emotion.publishing.export import export_onnx

    valid = {}
    for case in ("label-aware-pooler-hidden-balanced", "bert-mod-ln"):
        saved(root / f"{case}-torch", case, root)
        export_onnx(root / f"{case}-torch", root / case, texts=["so happy", "a day"])
        valid[case] = {path.name: path.read_bytes() for path in sorted((root / case).iterdir()) if path.is_file()}
    return folder_point(valid, use_exported, (".onnx", ".json", ".data"))


# The command line


def cli_point(root: Path) -> EntryPoint:
    """
    Any arguments of any command. What takes long or leaves the machine is replaced by an error of the plain kind: training, the
    export, faithfulness, the classifiers of check-labels, serving, the upload and its check.
    """
    for name, case in zip(
        ("model", "targeted", "dialogue", "replies"), (*CHECKPOINTS[:3:2], *CHECKPOINTS[4:]), strict=True
    ):
        saved(root / name, case, root)
    helpers.save_base_bert(root / "base")
    helpers.write_dialogues(root / "dialogues", FEW)
    (root / "texts.csv").write_text("text,label\nso happy,joy\nthe anger,anger\n" * 5, encoding="utf-8")
    (root / "bad.csv").write_bytes(b"text\n\xff\n")
    (root / "rows.jsonl").write_text('{"context": "so happy", "emotion": "joy"}\n{"text": "x"}\n', encoding="utf-8")
    (root / "recipe.yaml").write_text(f"name: x\nbase_model: {root / 'base'}\ndataset: quickstart\n", encoding="utf-8")
    (root / "damaged.yaml").write_text("name: [", encoding="utf-8")
    (root / "empty").mkdir()
    there = "model targeted dialogue replies base empty texts.csv bad.csv rows.jsonl recipe.yaml damaged.yaml nothing dialogues"
    there += " model/config.json model/model.safetensors"
    paths = st.sampled_from([str(root / name) for name in there.split()])
    # What a terminal can pass: no NUL; bytes that are not UTF-8 as lone surrogates.
    arguments = texts.map(lambda text: text.replace("\0", "")[:2000])
    words = st.one_of(
        arguments,
        paths,
        st.sampled_from("-1 0 1 3 nan 1e999 joy joy=0.7,fear=0.3 key=value key=[ = - --".split()),
        st.sampled_from("quickstart files goemotions sentihood x.html x.png x.json minilm-no attention".split()),
    )
    commands = {name: command.params for name, command in typer.main.get_command(app).commands.items()}

    @st.composite
    def cases(draw):
        name = draw(st.sampled_from(list(commands)))
        line = [name]
        for parameter in commands[name]:
            wanted = parameter.required or draw(st.integers(0, 9)) == 0
            if not wanted or draw(st.integers(0, 19)) == 0:
                continue
            value = [draw(_value_of(parameter, words, paths, root))]
            if parameter.opts[0].startswith("-"):
                line += [draw(st.sampled_from(parameter.opts))] + ([] if parameter.is_flag else value)
            else:
                line += value * draw(st.integers(1, 2)) if parameter.nargs == -1 else value
        if draw(st.integers(0, 14)) == 0:
            line.insert(draw(st.integers(0, len(line))), draw(words))
        return line, draw(st.one_of(st.just(""), arguments))

    def run(case, folder: Path) -> None:
        line, stdin = case
        stopped = mock.Mock(side_effect=ValueError("`stopped`: the fuzz test goes no further"))
        targets = "runs.train.train runs.sweep.train publishing.export.export_onnx publishing.hub._upload cli.demo.serve_here"
        targets += " reports.faithfulness.faithfulness reports.label_errors.out_of_fold"
        err, code = io.StringIO(), 0
        replaced = dict.fromkeys(targets.split(), stopped)
        replaced |= dict.fromkeys(("publishing.release.check", "publishing.hub.check"), lambda *_: None)
        with contextlib.ExitStack() as stack:
            for target, other in replaced.items():
                stack.enter_context(mock.patch(f"hf_emotion.{target}", other))
            stack.enter_context(mock.patch.multiple(sys, argv=["hf-emotion", *line], stdin=io.StringIO(stdin)))
            stack.enter_context(contextlib.chdir(fresh(folder / "work")))
            stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            stack.enter_context(contextlib.redirect_stderr(err))
            try:
                main()
            except SystemExit as end:
                code = end.code or 0
        said = err.getvalue()
        assert code in (0, 1, 2), (code, said)
        assert "Traceback" not in said and "shows where)" not in said, said[-500:]
        assert code == 0 or len(said) > 10, f"exit code {code} without a message"
        left = [path for path in (folder / "work").rglob("*") if ".partial-" in path.name]
        assert not left, f"half-written: {left}"

    return EntryPoint(cases(), run)


def _value_of(parameter: Any, words, paths, root: Path) -> st.SearchStrategy[str]:
    annotation = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    if choices := [choice for choice in typing.get_args(annotation) if isinstance(choice, str)]:
        return st.one_of(st.sampled_from(choices), words)
    if parameter.name in ("checkpoint", "checkpoints"):
        likely = st.sampled_from([str(root / name) for name in ("model", "targeted", "dialogue", "replies")])
        return st.one_of(likely, likely, paths, words)
    if parameter.name == "recipe":
        return st.one_of(st.sampled_from([str(root / "recipe.yaml"), "quickstart", "goemotions/laa_cb"]), words)
    if parameter.name in ("seeds", "contexts", "max_new_tokens", "num_beams", "top_k"):
        return st.one_of(st.integers(-1, 4).map(str), st.sampled_from(["x", "", "1.5"]))
    if parameter.name in ("output", "replies"):
        return st.one_of(st.sampled_from(["out.csv", "out.jsonl", "out.html", "out.json", "out/deep/x", "out"]), paths)
    return words


def check_options_point() -> EntryPoint:
    cases = st.tuples(
        st.one_of(st.sampled_from(list(corpora())), values),
        st.dictionaries(st.one_of(st.sampled_from([*OPTIONS, "dedupe"]), texts), option_values, max_size=3),
    )
    return EntryPoint(cases, lambda case, folder: check_dataset(*case), ("dataset", "option"))


def entry_points(root: Path, exported: bool = True) -> dict[str, EntryPoint]:
    """All of them, with their valid files below `root`; without `exported` none that needs onnxruntime."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    tokenizer = make_tokenizer(root / "words", model_max_length=32)
    points = {
        "read_rows": EntryPoint(table_files(), run_read_rows),
        "own files": EntryPoint(own_files(), run_own_files, ("`", "option", "oversample")),
        "corpora": corpora_point(write_corpora(root / "corpora")),
        "dataset options": check_options_point(),
        "recipes": recipe_point(),
        "gate": gate_point(),
        "models": models_point(),
        "predictors": predictors_point(tokenizer),
        "checkpoints": checkpoints_point(root / "checkpoints"),
        "command line": cli_point(root / "cli"),
    }
    if exported:
        points["exported folders"] = exported_point(root / "exported")
    return points
