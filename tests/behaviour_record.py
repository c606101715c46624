# SPDX-License-Identifier: Apache-2.0
"""
What the command line does, written down: before and after a change that must change nothing.

    python tests/behaviour_record.py record OLD.json         # in the old tree; minutes of one core
    python tests/behaviour_record.py record NEW.json         # in the new one
    python tests/behaviour_record.py diff OLD.json NEW.json [--reasons FILE.yaml]

`record` trains a tiny run of every family (tests/families.py) and of every corpus and runs the commands on them. It keeps what they
print and write, tensors by their digest, and all help texts; folders, times and versions become placeholders. `diff` lists what differs
and ends with exit code 1 where the file of reasons, {pattern of the place: reason}, has none. It knows the command line alone, and so
stays as it is when files of the package move. What commands say of wrong usage is the tests' business.
"""

import argparse
import contextlib
import difflib
import fnmatch
import hashlib
import importlib.metadata
import io
import json
import logging
import os
import platform
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock


if __name__ == "__main__":
    HOME = tempfile.TemporaryDirectory(prefix="hf-emotion-home-")
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HOME": HOME.name}
    os.environ.pop("HF_EMOTION_DATA", None)
    sys.path.insert(0, str(Path(__file__).parent))

import pyarrow.parquet
import torch
import yaml
from families import FAMILIES, Family, recipe_of, working_in, write_bases_and_corpora, write_named_corpora
from safetensors.torch import load_file
from toolkit_helpers import torch_threads


WIDTH = 120
EXPLAIN = ("attention", "gradient", "integrated-gradients", "occlusion")
# Each corpus: the recipe that is trained on it, and what differs from it.
SMALL = {
    **{"num_train_epochs": 1, "per_device_train_batch_size": 8, "learning_rate": 5e-3, "use_cpu": True},
    **{"disable_tqdm": True, "max_length": 32, "early_stopping_patience": "null"},
}
CORPORA: dict[str, tuple[str, dict[str, Any]]] = {
    "goemotions": ("goemotions/laa_cb", {"base_model": "base/words"}),
    "emotion6": ("emotion6/esa_tfidf", {"base_model": "base/roberta"}),
    "sentihood": ("sentihood/qacg_aux", {}),
    "semeval2014": ("semeval2014/cg", {}),
    "meld": ("meld/bilstm_attention_pe", {}),
    "emorynlp": ("emorynlp/utterance", {}),
    "daily_dialog": ("daily_dialog/bilstm", {}),
    "iemocap": ("iemocap/bilstm_attention_pe", {}),
    "mojitalk": ("mojitalk/bert_mod_ln", {}),  # with a judge
    "daily_dialog_replies": ("mojitalk/bert_mod_ln", {"dataset": "daily_dialog_replies"}),
    "empathetic_dialogues": ("mojitalk/bert_mod_ln", {"dataset": "empathetic_dialogues"}),
    "quickstart": ("quickstart", {"base_model": "base/words", "train_fraction": 0.1}),
}
JUDGE = ("mojitalk/judge_a", {"label_texts": "{✋: anger, 😂: joy, ❤: happy, 😭: sad}"})
TIMES = re.compile(
    r"(?P<before>['\"]?\w*(?:runtime|per_second)['\"]?: ['\"]?)[\d.e+-]+"
    r"|\b\d+(?:\.\d+)?(?= ?(?:s|seconds?|min|minutes?|ms)\b)"
    r"|(?<=per seed: )[\d.]+(?:, [\d.]+)*|(?P<seeds>│ \d+ +│ )\d+\.\d(?= +│)"  # of cards, and of tables: seeds, minutes
    r"|\b[\d.]+(?= times as fast)|(?<=quartiles )[\d.]+ and [\d.]+"
)
SIZES = re.compile(r"^ +[\d,]+(?=  \S)|\b[\d,]+(?= bytes\b)")
DATE = re.compile(r"\b20\d\d-\d\d-\d\d(?:[T ][\d:.]+Z?)?\b")
TIMED_KEYS = re.compile(r"_runtime|per_second|minutes|seconds$|^speed$")


# Recording


class Recorder:
    def __init__(self, folder: Path):
        self.folder = folder
        self.values: dict[str, Any] = {}
        # The entry point of the package: wherever the command line lives.
        [entry] = importlib.metadata.entry_points(group="console_scripts", name="hf-emotion")
        self.main: Callable[[], None] = entry.load()
        names = ("torch", "transformers", "huggingface_hub", "onnx", "onnxruntime", "hf-emotion")
        self.versions = {importlib.metadata.version(name): name for name in names}
        self.versions[platform.python_version()] = "Python"

    def run(self, key: str, *arguments: object, stdin: str = "", reads: Path | None = None) -> None:
        """A command, as the console script runs it; `reads` is a file that it writes."""
        out, err = io.StringIO(), io.StringIO()
        words = [str(argument) for argument in arguments]
        with as_process(["hf-emotion", *words], stdin, out, err):
            try:
                self.main()
                code = 0
            except SystemExit as end:
                code = end.code or 0
        entry = {"command": " ".join(words), "exit": code, "stdout": self.output(out.getvalue())}
        lines = err.getvalue().split("\n")
        said = [line for line in lines if line.strip() and "\r" not in line and "it/s]" not in line]
        entry["stderr"] = [self.text(line) for line in said]
        if code and not key.endswith("top 0"):
            print(f"{key} ends with {code}: {said[-1:]}", file=sys.stderr, flush=True)
        if reads is not None:
            entry["written"] = self.output(reads.read_text(encoding="utf-8")) if reads.is_file() else None
        self.values[key] = entry

    def output(self, text: str) -> Any:
        """JSON, a list of JSON lines, or a list of lines."""
        with contextlib.suppress(ValueError):
            return self.json(json.loads(text))
        with contextlib.suppress(ValueError):
            return [self.json(json.loads(line)) for line in text.splitlines()]
        return [self.text(line) for line in text.splitlines()]

    def text(self, text: str) -> str:
        text = text.replace(str(self.folder), "FOLDER").replace(tempfile.gettempdir(), "TEMP")
        text = re.sub(r"(TEMP/[\w-]*?)[\w]{8}\b", r"\1RANDOM", text)
        for version, name in self.versions.items():
            text = text.replace(version, f"VERSION-OF-{name}")
        text = SIZES.sub("SIZE", DATE.sub("DATE", text))
        text = re.sub(r"data:image/[^\"' )]+", "PICTURE", text)
        return TIMES.sub(lambda match: f"{match['before'] or match['seeds'] or ''}TIME", text)

    def json(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: "TIME" if TIMED_KEYS.search(key) else self.json(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.json(item) for item in value]
        return self.text(value) if isinstance(value, str) else value

    def files(self, key: str, folder: Path) -> None:
        """The files below a folder: their names, and what is in those that can be read. The model files are source: names alone."""
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        self.values[f"{key}/files"] = [path.relative_to(folder).as_posix() for path in paths]
        for path in paths:
            content = self.content(path)
            if content is not None:
                self.values[f"{key}/{path.relative_to(folder).as_posix()}"] = content

    def content(self, path: Path) -> Any:
        if path.suffix == ".safetensors":
            digest = lambda tensor: hashlib.sha256(tensor.contiguous().numpy().tobytes()).hexdigest()[:16]  # noqa: E731
            tensors = sorted(load_file(path).items())
            return {name: f"{tuple(tensor.shape)} {digest(tensor)}" for name, tensor in tensors}
        if path.suffix == ".parquet":
            table = pyarrow.parquet.read_table(path)
            return {"metadata": str(table.schema.metadata), "rows": table.to_pylist()}
        if path.suffix in (".json", ".jsonl"):
            return self.output(path.read_text(encoding="utf-8"))
        if path.suffix in (".md", ".html", ".yaml", ".txt", ".csv", ".tsv"):
            return [self.text(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return None


@contextlib.contextmanager
def as_process(argv: list[str], stdin: str, out: io.StringIO, err: io.StringIO) -> Iterator[None]:
    """`sys` and the root logger as a process of its own would find them."""
    root, old = logging.getLogger(), (sys.argv, sys.stdin, logging.getLogger().handlers[:])
    sys.argv, sys.stdin = argv, io.StringIO(stdin)
    root.handlers.clear()
    torch.manual_seed(0)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            yield
    finally:
        sys.argv, sys.stdin, root.handlers[:] = old


def record(only: Sequence[str] = ()) -> dict[str, Any]:
    """
    The record; of some groups alone, if their names are given: "help", a family, a corpus, "pairs", "exports", "other".
    """
    with (
        mock.patch.dict(os.environ, COLUMNS=str(WIDTH)),
        torch_threads(1),
        tempfile.TemporaryDirectory(prefix="hf-emotion-record-") as temporary,
        working_in(Path(temporary)),
    ):
        recorder = Recorder(Path.cwd())
        write_bases_and_corpora()
        for name, group in groups().items():
            if not only or name in only:
                start = time.process_time()
                group(recorder)
                print(f"{name}: {time.process_time() - start:.0f} s", file=sys.stderr, flush=True)
        return recorder.values


def groups() -> dict[str, Callable[[Recorder], None]]:
    return {
        "help": record_help,
        **{name: partial(record_family, name=name) for name in ("language-model", *FAMILIES)},
        "corpora": lambda recorder: write_named_corpora(),
        **{name: partial(record_corpus, name=name) for name in CORPORA},
        "pairs": record_pairs,
        "exports": record_exports,
        "other": record_other,
    }


def record_help(recorder: Recorder, *command: str) -> None:
    """The help of a command, or of the program and of the commands that it lists."""
    key = "/".join(("help", *command))
    recorder.run(key, *command, "--help")
    for line in [] if command else recorder.values[key]["stdout"]:
        if found := re.match(r"  ([a-z][\w-]*)  ", line):
            record_help(recorder, found[1])


def corpus_of(family: Family) -> list[str]:
    options = family.recipe.get("dataset_options", {}).items()
    named = [word for option, value in options for word in ("--option", f"{option}={value}")]
    return ["--dataset", family.recipe["dataset"], "--data-dir", family.data, *named]


def record_family(recorder: Recorder, name: str) -> None:
    """The training, the run folder, and every command that fits the family."""
    write_recipe(name)
    run, data = f"runs/{name}", "data/pairs" if name == "language-model" else FAMILIES[name].data
    recorder.run(f"{name}/train", "train", f"recipes/{name}.yaml", "-o", run, "--data-dir", data)
    recorder.files(f"{name}/run", Path(run))
    if name == "language-model":
        return
    family = FAMILIES[name]
    for part in family.parts:
        for number, ask in enumerate(family.asks):
            words = (f"{run}/{part}" if word == "FOLDER" else word for word in ask)
            recorder.run(f"{name}/{part}/ask {number}", *words)
    inputs, corpus, generates = texts_of(family), corpus_of(family), family.asks[0][0] == "generate"
    few, emotion = (("--contexts", "4"), ("-e", "joy")) if generates else ((), ())
    output, page = Path(f"out/{name}.jsonl"), Path(f"out/{name}.html")
    output.parent.mkdir(exist_ok=True)
    recorder.run(f"{name}/evaluate", "evaluate", run, *corpus, *few)
    recorder.run(f"{name}/evaluate json", "evaluate", run, *corpus, "--json", *few)
    recorder.run(f"{name}/analyze json", "analyze", run, "--json")
    recorder.run(f"{name}/compare json", "compare", run, "--json")
    recorder.run(f"{name}/train resumed", "train", f"recipes/{name}.yaml", "-o", run, "--data-dir", data, "--resume")
    recorder.run(f"{name}/explain page", "explain", run, inputs[0], "-o", page, *emotion)
    recorder.values[f"{name}/explain page/file"] = recorder.content(page) if page.is_file() else None
    for method in EXPLAIN[: 1 if generates else None]:
        more = () if generates else ("--method", method)
        recorder.run(f"{name}/explain {method}", "explain", run, inputs[0], "--format", "json", *more, *emotion)
    file = "data/dialogues/test.csv" if family.data.endswith("dialogues") else f"{family.data}/test.csv"
    files = ("--input", file, "--output", output)
    if generates:
        sampled = ("-e", "joy", "--seed", "3", "--max-new-tokens", "6")
        recorder.run(f"{name}/generate sampled", "generate", run, "the cake", *sampled)
        given = ("generate", run, *files, "--greedy", "--max-new-tokens", "6")
        recorder.run(f"{name}/generate file", *given, reads=output)
        return
    recorder.run(f"{name}/predict table", "predict", run, *inputs)
    recorder.run(f"{name}/predict stdin", "predict", run, "--json", stdin="\n".join(inputs) + "\n")
    recorder.run(f"{name}/predict top 0", "predict", run, inputs[0], "--top-k", "0")
    recorder.run(f"{name}/predict file", "predict", run, *files, reads=output)
    recorder.run(f"{name}/faithfulness", "faithfulness", run, *corpus, "--rows", "3", "--json")


def texts_of(family: Family) -> list[str]:
    """The texts of the family's first command."""
    words = family.asks[0][2:]
    return list(words[: next(i for i, word in enumerate(words) if word.startswith("-"))])


def write_recipe(name: str) -> None:
    path = Path("recipes", f"{name}.yaml")
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(recipe_of(name), sort_keys=False, allow_unicode=True), encoding="utf-8")


def overrides(changes: dict[str, Any]) -> list[str]:
    values = {"base_model": "base/bert", **SMALL, **changes}
    values = {name: value for name, value in values.items() if value is not None}
    return [word for name, value in values.items() for word in ("--set", f"{name}={value}")]


def record_corpus(recorder: Recorder, name: str) -> None:
    """A packaged recipe over a tiny model and corpus: figures and card of the corpus."""
    recipe, changes = CORPORA[name]
    run = f"runs/corpus-{name}"
    recorder.run(f"corpus {name}/train", "train", recipe, "-o", run, "--data-dir", "data/named", *overrides(changes))
    recorder.files(f"corpus {name}/run", Path(run))
    words = ["evaluate", run, "--dataset", name, "--data-dir", "data/named", "--json"]
    if recipe == CORPORA["mojitalk"][0]:
        words += ["--contexts", "4"]
    if name == "mojitalk":
        judge, replies = "runs/judge", Path("out/replies.jsonl")
        replies.parent.mkdir(exist_ok=True)
        recorder.run("judge/train", "train", JUDGE[0], "-o", judge, "--data-dir", "data/named", *overrides(JUDGE[1]))
        recorder.files("judge/run", Path(judge))
        words += ["--judge", judge, "--bertscore-model", "base/bert", "--intensity", "0.5"]
        recorder.run(f"corpus {name}/evaluate replies", *words, "--replies", str(replies), reads=replies)
    recorder.run(f"corpus {name}/evaluate", *words)
    if name == "goemotions":
        recorder.run(f"corpus {name}/evaluate ekman", *words, "--taxonomy", "ekman")
        asked = ("predict", run, "I am so happy", "this is anger", "--taxonomy", "ekman", "--json")
        recorder.run(f"corpus {name}/ekman", *asked)


def record_pairs(recorder: Recorder) -> None:
    """Commands over two runs."""
    for first, second in (("stock", "label-aware"), ("stock-pair", "qacg"), ("dialogue-words", "dialogue-encoder")):
        if Path(f"runs/{first}").is_dir() and Path(f"runs/{second}").is_dir():
            for command in ("compare", "analyze"):
                key, runs = f"pair {first}, {second}/{command}", (f"runs/{first}", f"runs/{second}")
                recorder.run(key, command, *runs)
                recorder.run(f"{key} json", command, *runs, "--json")


def record_exports(recorder: Recorder) -> None:
    for name, family in FAMILIES.items():
        if family.exported and Path(f"runs/{name}").is_dir():
            folder = f"runs/{name}-onnx"
            recorder.run(f"export {name}/export", "export", f"runs/{name}", "-o", folder, "--json")
            recorder.files(f"export {name}/folder", Path(folder))
            for number, ask in enumerate(family.asks):
                recorder.run(f"export {name}/ask {number}", *(folder if word == "FOLDER" else word for word in ask))
    if Path("runs/label-aware").is_dir():
        Path("data/texts.txt").write_text("I am so happy\nthe rain\n", encoding="utf-8")
        small = ("-o", "runs/small-onnx", "--quantize", "uint8", "--texts", "data/texts.txt")
        recorder.run("export quantized/export", "export", "runs/label-aware", *small)
        recorder.files("export quantized/folder", Path("runs/small-onnx"))


def record_other(recorder: Recorder) -> None:
    recorder.run("recipes", "recipes")
    # A published table
    places = ("-o", "runs/reproduction", "--data-dir", "data/named", "--seeds", "1")
    small = [word for name, value in SMALL.items() for word in ("--set", f"{name}={value}")]
    rows = ("--recipe", "sentihood/qacg_aux", "--recipe", "sentihood/cg")
    recorder.run("reproduce/train", "reproduce", "sentihood", "--base-model", "base/bert", *places, *rows, *small)
    recorder.run("convert/to RoBERTa", "convert", "--to-roberta", "base/bert", "out/roberta")
    recorder.files("convert/RoBERTa", Path("out/roberta"))
    # Publishing: own files are refused, for nobody has named their terms
    for name in ("label-aware", "corpus-goemotions"):
        recorder.run(f"push/{name}", "push", f"runs/{name}", "--repo-id", "somebody/tiny", "--dry-run")
    published = [f"runs/corpus-{name}" for name in ("goemotions", "sentihood", "meld", "mojitalk")]
    recorder.run("release", "release", *published, "-o", "out/release", "--namespace", "somebody")
    for path in sorted(Path("out/release").rglob("*.md")):
        recorder.values[f"release/{path.relative_to('out/release')}"] = recorder.content(path)


# Comparing


def differences(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """(where, what) of every leaf that differs."""
    if type(old) is not type(new):
        yield path, f"{shown(old)} → {shown(new)}"
    elif isinstance(old, dict):
        for key in sorted({*old, *new}):
            if key not in new:
                yield f"{path}/{key}", f"gone: {shown(old[key])}"
            elif key not in old:
                yield f"{path}/{key}", f"new: {shown(new[key])}"
            else:
                yield from differences(old[key], new[key], f"{path}/{key}")
    elif isinstance(old, list) and all(isinstance(item, str) for item in [*old, *new]):
        lines = list(difflib.unified_diff(old, new, lineterm="", n=0))[2:]
        if lines:
            yield path, "\n    ".join(["", *(line for line in lines if not line.startswith("@@"))])
    elif isinstance(old, list) and len(old) == len(new):
        for number, pair in enumerate(zip(old, new, strict=True)):
            yield from differences(*pair, f"{path}/{number}")
    elif old != new and not (old != old and new != new):
        yield path, f"{shown(old)} → {shown(new)}"


def shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}…"


def diff(old: dict[str, Any], new: dict[str, Any], reasons: dict[str, str]) -> int:
    """Print what differs, and return how many things differ without a reason."""
    keys, by_reason, unexplained, equal = sorted({*old, *new}), Counter(), set(), 0
    for key in keys:
        pair = ({key: record[key]} if key in record else {} for record in (old, new))
        found = list(differences(*pair))
        equal += not found
        for where, what in found:
            where = where.removeprefix("/")
            reason = next((why for pattern, why in reasons.items() if fnmatch.fnmatchcase(where, pattern)), None)
            if reason is None:
                unexplained.add(key)
                print(f"{where}: {what}")
            else:
                by_reason[reason] += 1
    print(f"\n{len(keys)} things compared, {equal} equal, {len(unexplained)} different without a reason")
    for reason, places in by_reason.items():
        print(f"expected, {reason}: {places} places")
    return len(unexplained)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="write a record of this tree")
    recording.add_argument("output", type=Path, help="JSON file")
    recording.add_argument("--only", action="append", default=[], choices=list(groups()), help="may be repeated")
    comparing = commands.add_parser("diff", help="list what differs between two records")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    comparing.add_argument("--reasons", type=Path, help="expected differences, pattern: reason")
    arguments = parser.parse_args(argv)
    if arguments.command == "record":
        output = arguments.output.resolve()
        values = record(arguments.only)
        output.write_text(json.dumps(values, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        print(f"{len(values)} things written to {output}")
        return
    old, new = (json.loads(path.read_text(encoding="utf-8")) for path in (arguments.old, arguments.new))
    reasons = yaml.safe_load(arguments.reasons.read_text(encoding="utf-8")) if arguments.reasons else {}
    sys.exit(1 if diff(old, new, reasons) else 0)


if __name__ == "__main__":
    main()
