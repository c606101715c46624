# SPDX-License-Identifier: Apache-2.0
"""
What is thrown at each entry point, and what may come back: a valid result, or an error of the plain kinds with a message; no
other exception, no traceback on the command line, nothing half-written.

`tests/cli/test_fuzz.py` runs a few cases of each, `python -m tests.endurance.fuzz` thousands.
"""

import csv
import io
import itertools
import json
import math
import os
import shutil
import string
import sys
import traceback
import typing
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
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
from pytest import MonkeyPatch

from hf_emotion import DialoguePredictor, Predictor, ReplyGenerator, TargetedPredictor, load_dataset_for
from hf_emotion.cli import app, main
from hf_emotion.data.files import read_rows
from hf_emotion.inference import load_predictor
from hf_emotion.recipes import Recipe, recipe_folder
from hf_emotion.tasks import corpora, corpus_of
from hf_emotion.tasks.emotional_response.onnx_replies import OnnxReplyGenerator
from hf_emotion.training.recipe_checks import load_recipe


# No subclasses: a bare UnicodeDecodeError or ArrowInvalid names no file and no remedy.
CLEAR = (ValueError, OSError, FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, ImportError)
CLEAR += (ModuleNotFoundError, PermissionError)


@dataclass(frozen=True)
class EntryPoint:
    cases: st.SearchStrategy
    run: Callable[[Any, Path], None]  # given a case and a folder for its files: nothing, or an exception
    named: Sequence[str] = ()  # what every message must hold one of, beside the folder: a path or an argument

    def problem(self, case: Any, folder: Path) -> str | None:
        """What is wrong with what came back; None if all is well."""
        try:
            self.run(case, folder)
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


TEXTS = (
    *("", " ", "\n", "a", "0", "joy", "so happy today", "anger|joy", "None", "nan", "a\x00b", "\x1b[31mred", "\r\n"),
    *("\u202egnp.exe", "مرحبا بالعالم", "שלום", "e\u0301\u0302\u0303" * 20, "\ufeffjoy", "\ud800", "\udc80x", "😀"),
    *("\u2028", "😀" * 300, "👩‍👩‍👧‍👦" * 50, "a" * 5000, "a b " * 2000, "\u0000" * 50, "\uffff", "<script>"),
    *("[SEP] [PAD]", "../../etc/passwd", "$(id)", "{{7*7}}", "%s%n", "'; --", '"', ",", "\t", "1e400", "-1"),
    *("9" * 5000, "\u3000", "\u200b"),
)
texts = st.sampled_from(TEXTS) | st.text(max_size=30) | st.text(string.ascii_lowercase + " ,'.", max_size=30)
long_texts = st.sampled_from(("x" * 2**20, "a day " * 170_000, "😀" * 10_000, "\u202e" * 5000, "\u0301" * 5000))
sizes = st.integers(-3, 70) | st.sampled_from([2**31, 2**63, -(2**64), 10**400])
numbers = sizes | st.floats() | st.booleans() | st.none()
values = st.recursive(
    numbers | texts, lambda item: st.lists(item, max_size=3) | st.dictionaries(texts, item, max_size=3)
)
places = st.floats(0, 1, allow_nan=False)
lengths = st.integers(0, 6) | st.integers(-200, 40) | st.just(10**9)
edits = st.lists(st.tuples(places, lengths, st.binary(max_size=6)), min_size=1, max_size=4)


def edited(content: bytes, changes: list[tuple[float, int, bytes]]) -> bytes:
    """A file of which some bytes are replaced, missing, cut off or there twice."""
    for place, length, new in changes:
        start = int(place * len(content))
        content = content[:start] + new + content[max(0, start + length) :]
    return content


def dumps(value: Any) -> bytes:
    return json.dumps(value).encode()


def contents(valid: Sequence[bytes], *others: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Changed files, JSON, anything, and what else is given."""
    changed = st.builds(edited, st.sampled_from(valid), edits)
    return st.one_of(changed, values.map(dumps), st.binary(max_size=200), *others)


COLUMNS = "text label labels id context reply emotion dialogue utterance speaker turns aspect".split()
row_values = texts | values | st.sampled_from(["joy", "anger", "calm"])
turns = st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(("utterance", "speaker", "label"), row_values)))
rows_of = [
    st.fixed_dictionaries({"text": texts, "label": st.sampled_from(["joy", "anger"])}, optional={"id": row_values}),
    st.dictionaries(st.sampled_from(COLUMNS), row_values, max_size=6),
    st.fixed_dictionaries({"context": texts, "reply": texts, "emotion": row_values}),
    st.fixed_dictionaries({"dialogue": row_values, "utterance": texts, "label": row_values}),
    st.fixed_dictionaries({"turns": turns | values}, optional={"id": row_values}),
    st.fixed_dictionaries({"text": texts, "label": row_values, "aspect": row_values, "target": row_values}),
]


def as_table(rows: list[dict], ending: str) -> bytes:
    if ending == ".parquet":  # unless no table can hold them
        with suppress(pyarrow.ArrowException, UnicodeError, OverflowError, TypeError, ValueError):
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), file := io.BytesIO())
            return file.getvalue()
    if ending not in (".csv", ".tsv", ".txt"):
        return b"\n".join(map(dumps, rows))
    columns = dict.fromkeys(itertools.chain.from_iterable(rows))
    writer = csv.DictWriter(text := io.StringIO(), columns, delimiter="\t" if ending == ".tsv" else ",")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode("utf-8", "replace")


@st.composite
def table_files(draw) -> tuple[str, bytes]:
    """(ending, content)"""
    ending = draw(st.sampled_from((".csv", ".tsv", ".txt", ".jsonl", ".ndjson", ".parquet")))
    rows = draw(st.lists(draw(st.sampled_from(rows_of)), max_size=8)) * draw(st.integers(1, 8))  # enough to be split
    content = as_table(rows, ending)
    return ending, draw(contents([content], *[st.just(content)] * 4))


OPTIONS = sorted({"data_dir", "dedupe", *(option for corpus in corpora().values() for option in corpus.options)})
option_values = st.sampled_from([*"label text aspect target emotion skip error , | ekman".split(), 0.1, 0.5, True, 3])
option_values |= st.lists(st.sampled_from(["joy", "anger", "calm", ""]), max_size=4) | values


@st.composite
def own_files(draw):
    name = draw(st.sampled_from(["files", "aspect_files", "dialogue_files", "reply_files"]))
    known = st.sampled_from([*corpus_of(name).options, "dedupe", "oversample"])
    options = st.dictionaries(known, option_values, max_size=3)
    skips = st.sampled_from([{}, {"on_bad_rows": "skip"}])
    splits = draw(st.sampled_from(["train", "train test", "train dev test", "train val dev", "x"])).split()
    return name, {split: draw(table_files()) for split in splits}, draw(options) | draw(skips)


def run_read_rows(case, folder: Path) -> None:
    ending, content = case
    (folder / f"rows{ending}").write_bytes(content)
    for number, row in read_rows(folder / f"rows{ending}"):
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


FEW = {"train": (8, 0), "dev": (2, 8), "test": (2, 10)}
TALK = '{"conv_id": "c1", "emotion": "joyful", "turns": [["speaker", "so happy"], ["listener", "me too"]]}\n'
LINES = (
    ("goemotions", "train.tsv dev.tsv test.tsv", "so happy\t17\tid1\nthe anger\t2,3\tid2\n"),
    ("emotion6", "train.txt val.txt test.txt", "so happy;joy\nthe rain;sadness\n"),
    ("mojitalk", "train.ori dev.ori test.ori", "😂 what a day\n😭 the rain\n" * 40),
    ("mojitalk", "train.rep dev.rep test.rep", "so funny 😂\nso sad\n" * 40),
    ("empathetic_dialogues", "train.jsonl valid.jsonl test.jsonl", TALK),
)


def write_corpora(folder: Path) -> Path:
    """Small files of every corpus."""
    helpers.write_sentihood(folder, {"train": (4, 0), "dev": (2, 4), "test": (2, 6)})
    for write in (helpers.write_meld, helpers.write_emorynlp, helpers.write_daily_dialog):
        write(folder, FEW)
    helpers.write_semeval2014(folder)
    helpers.write_iemocap(folder, 2)
    helpers.write_values(folder)
    for corpus, names, content in LINES:
        (folder / corpus).mkdir(exist_ok=True)
        for name in names.split():
            (folder / corpus / name).write_text(content, encoding="utf-8")
    return folder


# corpus: its folder
_NAMES = "goemotions emotion6 emobank sentihood semeval2014 meld emorynlp daily_dialog iemocap mojitalk empathetic_dialogues"
CORPORA = {name: name for name in _NAMES.split()} | {"daily_dialog_replies": "daily_dialog", "conversations": "meld"}


def corpora_point(prepared: Path) -> EntryPoint:
    files = {
        (name, path): path.read_bytes()
        for name, folder in CORPORA.items()
        for path in sorted((prepared / folder).rglob("*"))
        if path.is_file()
    }
    lines = st.lists(texts, max_size=4).map(lambda lines: "\n".join(lines).encode("utf-8", "replace"))
    corpora = st.sampled_from(list(CORPORA))  # each as often, however many files it has
    keys = corpora.flatmap(lambda name: st.sampled_from([key for key in files if key[0] == name]))
    cases = keys.flatmap(lambda key: st.tuples(st.just(key), contents([files[key]], lines)))

    def run(case, folder: Path) -> None:
        (name, path), content = case
        path.write_bytes(content)
        try:
            options = {"corpora": ["meld"]} if name == "conversations" else {}
            check_corpus(load_dataset_for(name, prepared, **options))
        finally:
            path.write_bytes(files[name, path])

    return EntryPoint(cases, run, (str(prepared),))


KEYS = list(Recipe.__dataclass_fields__)
recipe_values = (
    st.sampled_from(["label-aware-bert", "goemotions", "files", [1, 2], {"learning_rate": 1e-4}, 0.5]) | values
)
parts = st.sampled_from(["x", "", "a.b", "taxonomy", "num_train_epochs", "tie_head"])
keys = st.sampled_from([*KEYS, "learning_rate", "learning_rte", "output_dir"]) | texts
keys |= st.builds("{}.{}".format, st.sampled_from(KEYS), parts)


def recipe_point() -> EntryPoint:
    packaged = [path.read_bytes() for path in sorted(recipe_folder().rglob("*.yaml"))]
    hostile = [b"name: x", b"*a", b"&a [*a]", b"!!python/object:os.system x", b"? : ?", b"- ", b"{", b"[" * 500]
    fields = st.dictionaries(keys, recipe_values, max_size=5).map(dumps)
    recipes = contents(packaged, fields, st.lists(st.sampled_from(hostile)).map(b"\n".join))
    assigned = st.builds("{}={}".format, keys, recipe_values.map(json.dumps) | texts)

    def run(case, folder: Path) -> None:
        content, given = case
        path = folder / "recipe.yaml"
        path.write_bytes(content)
        written = load_recipe(path, given).to_yaml()
        path.write_text(written, encoding="utf-8")
        assert load_recipe(path).to_yaml() == written  # as text: NaN differs from itself

    overrides = st.lists(assigned | texts, max_size=3)
    return EntryPoint(st.tuples(recipes, overrides), run, ("override", "recipe", "`"))


def gate_point() -> EntryPoint:
    gates = st.fixed_dictionaries(
        {"idf": st.dictionaries(texts, numbers, max_size=3) | values, "unseen_idf": numbers},
        optional={"threshold": numbers, "min_words": numbers, "more": values},
    )

    def run(case, folder: Path) -> None:
        content, text = case
        (folder / GATE_FILE).write_bytes(content)
        gate = load_gate(mock.Mock(tfidf_gating="scale", name_or_path=str(folder), _commit_hash=None))
        assert isinstance(gate.filter(text), str)
        gates = gate.token_gates(text, [(0, 0), *((i, i + 1) for i in range(min(len(text), 50)))])
        assert all(math.isfinite(value) for value in gates)

    files = contents([TfidfGate({"joy": 2.5, "day": 1.0}, 3.0).to_json().encode()], gates.map(dumps))
    return EntryPoint(st.tuples(files, texts | long_texts), run)


PREDICTORS = {
    "label-aware-pooler-hidden-balanced": Predictor,
    "qacg-per-head-context-gate-bias": TargetedPredictor,
    "dialogue-model": DialoguePredictor,
    "bert-mod-ln": ReplyGenerator,
    "esa-multi-label-thresholds": Predictor,
    "cg": TargetedPredictor,
}
MODELS = [*PREDICTORS, "gpt2-mod-ln"]
ID_INPUTS = ("input_ids", "token_type_ids", "context_ids", "speaker_ids", "emotion_ids", "decoder_input_ids")


def models_point() -> EntryPoint:
    choices = {
        **{"model": MODELS, "padded": ("as it is", "all", "one row", "none"), "which": ID_INPUTS, "batch": range(4)},
        **{"length": [0, 1, 2, 7, 19, 20, 31, 32, 33, 40, 41, 512, 513], "embeds": [None, math.nan, math.inf, 0.0]},
        **{"ids": [None, None, -1, 0, 10**6, 2**62, -(2**62)], "labels": [False, True], "seed": range(1000)},
    }
    cases = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in choices.items()})
    built = {name: BY_ID[name].build() for name in MODELS}

    @torch.no_grad()
    def run(case, folder: Path) -> None:
        model_case, model = BY_ID[case["model"]], built[case["model"]]
        rows, columns = (torch.arange(case[name]) for name in ("batch", "length"))
        inputs = {name: value[rows % len(value)] for name, value in model_case.make_inputs(3, 7, case["seed"]).items()}
        for name, value in inputs.items():  # as many rows and tokens as asked for, by repetition
            inputs[name] = value[:, columns % 7] if value.dim() > 1 and value.shape[1] == 7 else value
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
            inputs["inputs_embeds"] = torch.full((*inputs.pop("input_ids").shape, size), case["embeds"])
        try:
            outputs = model(**inputs)
        except (IndexError, RuntimeError):  # torch's: a model looks at no values of ids, and counts no positions
            if case["ids"] in (None, 0) and case["length"] <= text_processing.usable_positions(model.config):
                raise
            return
        assert outputs.logits.shape[0] == next(iter(inputs.values())).shape[0]
        fine = case["embeds"] in (None, 0.0) and case["padded"] not in ("all", "one row")
        assert not fine or bool(outputs.logits.isfinite().all())

    return EntryPoint(cases, run)


def ask(predictor: Any, given: Any, top_k: int | None = None, targets: Any = None, emotion: Any = None) -> list:
    if isinstance(predictor, Predictor):
        return predictor(given, top_k=top_k)
    if isinstance(predictor, TargetedPredictor):
        return predictor(given, targets=targets)
    if isinstance(predictor, DialoguePredictor):
        return predictor(given)
    return predictor(given, emotion, do_sample=False, max_new_tokens=2)


def predictors_point(tokenizer) -> EntryPoint:
    predictors = [predictor_class(BY_ID[case].build(), tokenizer) for case, predictor_class in PREDICTORS.items()]
    several = st.lists(st.one_of(texts, texts, texts, texts, values), max_size=4)
    cases = st.tuples(
        st.sampled_from(range(len(predictors))),
        several | st.tuples(long_texts).map(list) | texts,
        st.none() | st.integers(-1, 9),
        st.none() | st.lists(st.sampled_from(["PLACE1", "PLACE2", "x"]), max_size=2),
        values | st.sampled_from(["joy", "😂", "x", {"joy": 0.5, "fear": 0.5}]),
    )

    def run(case, folder: Path) -> None:
        number, given, *options = case
        found, many = predictors[number], isinstance(given, list)
        if isinstance(found, ReplyGenerator):  # long ones take long
            given = [text[:100] if isinstance(text, str) else text for text in given] if many else given[:99]
        if isinstance(found, DialoguePredictor) and many and given:
            given = [given]
        results = ask(found, given, *options)
        assert len(results) == (len(given) if many else 1) or (given == "" and isinstance(found, DialoguePredictor))
        if isinstance(found, Predictor):
            assert all(0 <= item["score"] <= 1 for scores in results for item in scores)

    return EntryPoint(cases, run)


@st.composite
def json_edits(draw, content: bytes) -> bytes:
    """A JSON object with some of its entries changed."""
    loaded = json.loads(content)
    fields = st.sampled_from([*loaded, "auto_map", "_attn_implementation", "dtype", "vocab_size", "num_labels"])
    for _ in range(draw(st.integers(1, 2))):
        key = draw(fields | texts)
        if draw(st.booleans()):
            loaded.pop(key, None)
        else:
            loaded[key] = draw(values.filter(_small))
    return dumps(loaded)


def _small(value: Any) -> bool:
    """No number of layers or sizes that would only fill the memory."""
    return not isinstance(value, int | float) or isinstance(value, bool) or not 100 < abs(value) < 10**15


def folder_point(valid: dict[str, dict[str, bytes]]) -> EntryPoint:
    """Folders of files, of which one is changed, replaced or missing: they are loaded, and predict."""

    @st.composite
    def cases(draw):
        kind = draw(st.sampled_from(list(valid)))
        known = (".json", ".safetensors", ".onnx", ".data")
        name = draw(st.sampled_from([file for file in valid[kind] if file.endswith(known)]))
        content = valid[kind][name]
        others = [st.none(), st.just(content * 2), places.map(lambda place: content[: int(place * len(content))])]
        if name.endswith(".json"):
            others += [json_edits(content)] * 2
        if name.endswith(".safetensors"):
            end = 8 + int.from_bytes(content[:8], "little")
            headers = json_edits(content[8:end])
            others += [headers.map(lambda header: len(header).to_bytes(8, "little") + header + content[end:])]
        return kind, name, draw(contents([content], *others))

    def run(case, folder: Path) -> None:
        kind, changed, content = case
        place = fresh(folder / "checkpoint")
        for name, written in (valid[kind] | {changed: content}).items():
            if written is not None:
                (place / name).write_bytes(written)
        if (place / "decoder.onnx").is_file():
            OnnxReplyGenerator(place)([("so happy", "joy")], do_sample=False, max_new_tokens=2)
            return
        found, given = load_predictor(place), ["so happy"]
        targets = found.model.config.targets if isinstance(found, TargetedPredictor) else None
        emotion = found.emotions[0] if isinstance(found, ReplyGenerator) else None
        ask(found, [given] if isinstance(found, DialoguePredictor) else given, 1, targets and targets[:1], emotion)

    return EntryPoint(cases(), run)


def saved(folder: Path, case: str, root: Path) -> dict[str, bytes]:
    model = BY_ID[case].build()
    model.save_pretrained(folder)
    make_tokenizer(root / "tokenizer", model_max_length=32).save_pretrained(folder)
    if getattr(model.config, "tfidf_gating", "none") != "none":
        TfidfGate({"joy": 2.5}, 3.0).save_pretrained(folder)
    paths = [path for path in sorted(folder.iterdir()) if path.suffix in (".json", ".safetensors")]
    return {path.name: path.read_bytes() for path in paths}


def exported_point(root: Path) -> EntryPoint:
    from hf_emotion.publishing.export import export_onnx

    valid = {}
    for case in ("label-aware-pooler-hidden-balanced", "bert-mod-ln"):
        saved(root / f"{case}-torch", case, root)
        export_onnx(root / f"{case}-torch", root / case, texts=["so happy", "a day"])
        valid[case] = {path.name: path.read_bytes() for path in sorted((root / case).iterdir()) if path.is_file()}
    return folder_point(valid)


STOPPED = "runs.train.train runs.sweep.train publishing.export.export_onnx publishing.hub._upload cli.demo.serve_here".split()
STOPPED += ["reports.faithfulness.faithfulness", "reports.label_errors.out_of_fold"]


def cli_point(root: Path) -> EntryPoint:
    """Any arguments of any command. What takes long or leaves the machine is replaced by an error of the plain kind."""
    trained = [str(root / name) for name in ("model", "targeted", "dialogue", "replies")]
    for folder, case in zip(trained, PREDICTORS, strict=False):
        saved(Path(folder), case, root)
    helpers.save_base_bert(root / "base")
    helpers.write_dialogues(root / "dialogues", FEW)
    (root / "texts.csv").write_text("text,label\nso happy,joy\nthe anger,anger\n" * 5, encoding="utf-8")
    (root / "bad.csv").write_bytes(b"text\n\xff\n")
    (root / "rows.jsonl").write_text('{"context": "so happy", "emotion": "joy"}\n{"text": "x"}\n', encoding="utf-8")
    (root / "recipe.yaml").write_text(f"name: x\nbase_model: {root / 'base'}\ndataset: quickstart\n", encoding="utf-8")
    (root / "damaged.yaml").write_text("name: [", encoding="utf-8")
    (root / "empty").mkdir()
    there = "base empty texts.csv bad.csv rows.jsonl recipe.yaml damaged.yaml nothing dialogues model/config.json model/model.safetensors"
    paths = st.sampled_from([*trained, *(str(root / name) for name in there.split())])
    # What a terminal can pass: no NUL; bytes that are not UTF-8 as lone surrogates.
    arguments = texts.map(lambda text: text.replace("\0", "")[:2000])
    others = "-1 0 1 3 nan 1e999 joy joy=0.7,fear=0.3 key=value key=[ = - -- quickstart files goemotions sentihood x.html x.png x.json"
    words = arguments | paths | st.sampled_from([*others.split(), "minilm-no", "attention"])
    outputs = st.sampled_from("out.csv out.jsonl out.html out.json out/deep/x out".split())
    few = ("0", "1", "2", "3", "4", "x", "", "-1", "1.5")
    likely_of = {
        **dict.fromkeys(("checkpoint", "checkpoints"), st.sampled_from(trained) | paths | words),
        **dict.fromkeys(("output", "replies"), outputs | paths),
        # Large ones take long.
        **dict.fromkeys("seeds contexts max_new_tokens num_beams top_k".split(), st.sampled_from(few)),
        "recipe": st.sampled_from([str(root / "recipe.yaml"), "quickstart", "goemotions/laa_cb"]) | words,
    }

    def value_of(parameter: Any) -> st.SearchStrategy[str]:
        annotation = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
        choices = [choice for choice in typing.get_args(annotation) if isinstance(choice, str)]
        return st.sampled_from(choices) | words if choices else likely_of.get(parameter.name, words)

    commands = {name: command.params for name, command in typer.main.get_command(app).commands.items()}

    @st.composite
    def cases(draw):
        name = draw(st.sampled_from(list(commands)))
        line = [name]
        for parameter in commands[name]:
            wanted = parameter.required or draw(st.integers(0, 9)) == 0
            if not wanted or draw(st.integers(0, 19)) == 0:
                continue
            value = [draw(value_of(parameter))]
            if parameter.opts[0].startswith("-"):
                line += [draw(st.sampled_from(parameter.opts))] + ([] if parameter.is_flag else value)
            else:
                line += value * draw(st.integers(1, 2)) if parameter.nargs == -1 else value
        if draw(st.integers(0, 14)) == 0:
            line.insert(draw(st.integers(0, len(line))), draw(words))
        return line, draw(st.just("") | arguments)

    def run(case, folder: Path) -> None:
        line, stdin = case
        stopped = mock.Mock(side_effect=ValueError("`stopped`: the fuzz test goes no further"))
        err, code = io.StringIO(), 0
        with MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()), redirect_stderr(err):
            for target in STOPPED:
                patch.setattr(f"hf_emotion.{target}", stopped)
            for room in ("release", "hub"):
                patch.setattr(f"hf_emotion.publishing.{room}.check", lambda *_: None)
            patch.setattr(sys, "argv", ["hf-emotion", *line])
            patch.setattr(sys, "stdin", io.StringIO(stdin))
            patch.chdir(fresh(folder / "work"))
            try:
                main()
            except SystemExit as end:
                code = end.code or 0
        said = err.getvalue()
        assert code in (0, 1, 2), (code, said)
        assert "Traceback" not in said and "shows where)" not in said, said[-500:]
        assert code == 0 or len(said) > 10, f"exit code {code} without a message"
        assert not list((folder / "work").rglob("*.partial-*")), "half-written"

    return EntryPoint(cases(), run)


def entry_points(root: Path, exported: bool = True) -> dict[str, EntryPoint]:
    """All of them, with their valid files below `root`; without `exported` none that needs onnxruntime."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    options = st.dictionaries(st.sampled_from(OPTIONS) | texts, option_values, max_size=3)
    datasets = st.tuples(st.sampled_from(list(corpora())) | values, options)
    points = {
        "read_rows": EntryPoint(table_files(), run_read_rows),
        "own files": EntryPoint(own_files(), run_own_files, ("`", "option", "oversample")),
        "corpora": corpora_point(write_corpora(root / "corpora")),
        "dataset options": EntryPoint(
            datasets, lambda case, folder: corpus_of(case[0]).check(case[1]), ("dataset", "option")
        ),
        "recipes": recipe_point(),
        "gate": gate_point(),
        "models": models_point(),
        "predictors": predictors_point(make_tokenizer(root / "words", model_max_length=32)),
        "checkpoints": folder_point({case: saved(root / "checkpoints" / case, case, root) for case in PREDICTORS}),
        "command line": cli_point(root / "cli"),
    }
    if exported:
        points["exported folders"] = exported_point(root / "exported")
    return points
