# SPDX-License-Identifier: Apache-2.0
"""
What the command line does, written down: before and after a change that must change nothing.

    python tests/behaviour_record.py record OLD.json         # in the old tree; minutes of one core
    python tests/behaviour_record.py record NEW.json         # in the new one
    git diff --no-index -U0 OLD.json NEW.json

It trains a tiny run of every family (tests/families.py) and of every corpus and runs the commands on them. It keeps what they print and
write, tensors by their digest, and all help texts; folders, times and versions become placeholders. It knows the command line alone,
and so stays as it is when files of the package move. What commands say of wrong usage is the tests' business.
"""

import argparse
import contextlib
import importlib.metadata
import io
import itertools
import json
import logging
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
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


SMALL = {
    **{"num_train_epochs": 1, "per_device_train_batch_size": 8, "learning_rate": 5e-3, "use_cpu": True},
    **{"disable_tqdm": True, "max_length": 32, "early_stopping_patience": "null"},
}
# Each corpus: the recipe that is trained on it, and what differs from it.
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
TIMES = re.compile(
    r"(?P<before>['\"]?\w*(?:runtime|per_second)['\"]?: ['\"]?)[\d.e+-]+"
    r"|\b\d+(?:\.\d+)?(?= ?(?:s|seconds?|min|minutes?|ms)\b)"
    r"|(?<=per seed: )[\d.]+(?:, [\d.]+)*|(?P<seeds>│ \d+ +│ )\d+\.\d(?= +│)"  # of cards, and of tables: seeds, minutes
    r"|\b[\d.]+(?= times as fast)|(?<=quartiles )[\d.]+ and [\d.]+"
)
SIZES = re.compile(r"^ +[\d,]+(?=  \S)|\b[\d,]+(?= bytes\b)")
DATE = re.compile(r"\b20\d\d-\d\d-\d\d(?:[T ][\d:.]+Z?)?\b")
TIMED_KEYS = re.compile(r"_runtime|per_second|minutes|seconds$|^speed$")


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

    def run(self, line: str, *words: object, stdin: str = "") -> dict[str, Any]:
        """A command, as the console script runs it, and the files that it writes below the working directory."""
        out, err, code = io.StringIO(), io.StringIO(), 0
        argv, before = [*line.split(), *map(str, words)], stamps()
        torch.manual_seed(0)
        with (
            mock.patch.multiple(sys, argv=["hf-emotion", *argv], stdin=io.StringIO(stdin)),
            mock.patch.object(logging.getLogger(), "handlers", []),  # as a process of its own would find them
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                self.main()
            except SystemExit as end:
                code = end.code or 0
        lines = err.getvalue().split("\n")
        said = [line for line in lines if line.strip() and "\r" not in line and "it/s]" not in line]
        if code and "--top-k 0" not in " ".join(argv):
            print(f"{' '.join(argv)} ends with {code}: {said[-1:]}", file=sys.stderr, flush=True)
        written = sorted(path for path, stamp in stamps().items() if before.get(path) != stamp)
        entry = {"exit": code, "stdout": self.output(out.getvalue()), "stderr": [self.text(line) for line in said]}
        entry |= {"files": {path.as_posix(): self.content(path) for path in written}}
        self.values[" ".join([*argv, *(["<"] if stdin else [])])] = entry
        return entry

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

    def content(self, path: Path) -> Any:
        """What is in a file; None where nobody reads it, or where it is source."""
        if path.suffix == ".safetensors":
            tensors = {name: value.numpy() for name, value in sorted(load_file(path).items())}
            return {name: f"{value.shape} {sha256(value).hexdigest()[:16]}" for name, value in tensors.items()}
        if path.suffix == ".parquet":
            table = pyarrow.parquet.read_table(path)
            return {"metadata": str(table.schema.metadata), "rows": table.to_pylist()}
        if path.suffix in (".json", ".jsonl", ".md", ".html", ".yaml", ".txt", ".csv", ".tsv"):
            return self.output(path.read_text(encoding="utf-8"))
        return None


def stamps() -> dict[Path, int]:
    """When the files below the working directory were written."""
    return {path: path.stat().st_mtime_ns for path in Path().rglob("*") if path.is_file()}


def record(only: Sequence[str] = ()) -> dict[str, Any]:
    """The record, {command: what it does}, of all `groups` or of some."""
    with (
        mock.patch.dict(os.environ, COLUMNS="120"),
        torch_threads(1),
        tempfile.TemporaryDirectory(prefix="hf-emotion-record-") as temporary,
        working_in(Path(temporary)),
    ):
        recorder = Recorder(Path.cwd())
        write_bases_and_corpora()
        Path("data/texts.txt").write_text("I am so happy\nthe rain\n", encoding="utf-8")
        Path("recipes").mkdir()
        Path("out").mkdir()
        for name, group in groups().items():
            if not only or name in only:
                start = time.process_time()
                group(recorder.run)
                print(f"{name}: {time.process_time() - start:.0f} s", file=sys.stderr, flush=True)
        return recorder.values


def groups() -> dict[str, Callable[[Callable], Any]]:
    """Each is given `Recorder.run`."""
    return {
        "help": record_help,
        **{name: partial(record_family, name=name) for name in ("language-model", *FAMILIES)},
        "corpora": lambda run: write_named_corpora(),
        **{name: partial(record_corpus, name=name) for name in CORPORA},
        "pairs": record_pairs,
        "exports": record_exports,
        "other": record_other,
    }


def record_help(run: Callable) -> None:
    """The help of the program and of the commands that it lists."""
    for line in run("--help")["stdout"]:
        if found := re.match(r"  ([a-z][\w-]*)  ", line):
            run(f"{found[1]} --help")


def record_family(run: Callable, name: str) -> None:
    """The training, the run folder, and every command that fits the family."""
    recipe, folder = recipe_of(name), f"runs/{name}"
    content = yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True)
    Path("recipes", f"{name}.yaml").write_text(content, encoding="utf-8")
    data = "data/pairs" if name == "language-model" else FAMILIES[name].data
    train = f"train recipes/{name}.yaml -o {folder} --data-dir {data}"
    run(train)
    if name == "language-model":
        return
    family = FAMILIES[name]
    for part in family.parts:
        ask(run, family, f"{folder}/{part}")
    command, _, *words = family.asks[0]
    inputs = list(itertools.takewhile(lambda word: not word.startswith("-"), words))
    generates = command == "generate"
    corpus = f"--dataset {recipe['dataset']} --data-dir {data}{' --contexts 4' * generates}"
    for option, value in recipe.get("dataset_options", {}).items():
        corpus += f" --option {option}={value}"
    run(f"evaluate {folder} {corpus}")
    run(f"evaluate {folder} {corpus} --json")
    run(f"analyze {folder} --json")
    run(f"compare {folder} --json")
    run(f"{train} --resume")
    emotion = " -e joy" * generates
    run(f"explain {folder} -o out/{name}.html{emotion}", inputs[0])
    for method in ("attention", "gradient", "integrated-gradients", "occlusion"):
        if not generates:
            run(f"explain {folder} --format json --method {method}", inputs[0])
    files = f"--input {data}/test.csv --output out/{name}.jsonl"
    if generates:
        run(f"explain {folder} --format json{emotion}", inputs[0])
        run(f"generate {folder} -e joy --seed 3 --max-new-tokens 6", "the cake")
        run(f"generate {folder} {files} --greedy --max-new-tokens 6")
        return
    run(f"predict {folder}", *inputs)
    run(f"predict {folder} --json", stdin="\n".join(inputs) + "\n")
    run(f"predict {folder} --top-k 0", inputs[0])
    run(f"predict {folder} {files}")
    run(f"faithfulness {folder} {corpus} --rows 3 --json")


def ask(run: Callable, family: Family, folder: str) -> None:
    for command, _, *words in family.asks:
        run(f"{command} {folder}", *words)


def overrides(**changes: Any) -> list[str]:
    return [word for name, value in {**SMALL, **changes}.items() for word in ("--set", f"{name}={value}")]


def record_corpus(run: Callable, name: str) -> None:
    """A packaged recipe over a tiny model and corpus: figures and card of the corpus."""
    recipe, changes = CORPORA[name]
    folder, data = f"runs/corpus-{name}", "--data-dir data/named"
    run(f"train {recipe} -o {folder} {data}", *overrides(**{"base_model": "base/bert", **changes}))
    evaluate = f"evaluate {folder} --dataset {name} {data} --json"
    if recipe == CORPORA["mojitalk"][0]:
        evaluate += " --contexts 4"
    if name == "mojitalk":
        labels = "{✋: anger, 😂: joy, ❤: happy, 😭: sad}"
        run(f"train mojitalk/judge_a -o runs/judge {data}", *overrides(base_model="base/bert", label_texts=labels))
        evaluate += " --judge runs/judge --bertscore-model base/bert --intensity 0.5"
        run(f"{evaluate} --replies out/replies.jsonl")
    run(evaluate)
    if name == "goemotions":
        run(f"{evaluate} --taxonomy ekman")
        run(f"predict {folder} --taxonomy ekman --json", "I am so happy", "this is anger")


def record_pairs(run: Callable) -> None:
    """Commands over two runs."""
    for first, second in (("stock", "label-aware"), ("stock-pair", "qacg"), ("dialogue-words", "dialogue-encoder")):
        for command in ("compare", "analyze"):
            run(f"{command} runs/{first} runs/{second}")
            run(f"{command} runs/{first} runs/{second} --json")


def record_exports(run: Callable) -> None:
    for name, family in FAMILIES.items():
        if family.exported:
            run(f"export runs/{name} -o runs/{name}-onnx --json")
            ask(run, family, f"runs/{name}-onnx")
    run("export runs/label-aware -o runs/small-onnx --quantize uint8 --texts data/texts.txt")


def record_other(run: Callable) -> None:
    run("recipes")
    # A published table
    rows = "--recipe sentihood/qacg_aux --recipe sentihood/cg"
    table = f"reproduce sentihood --base-model base/bert -o runs/reproduction --data-dir data/named --seeds 1 {rows}"
    run(table, *overrides())
    run("convert --to-roberta base/bert out/roberta")
    # Publishing: own files are refused, for nobody has named their terms
    for name in ("label-aware", "corpus-goemotions"):
        run(f"push runs/{name} --repo-id somebody/tiny --dry-run")
    published = " ".join(f"runs/corpus-{name}" for name in ("goemotions", "sentihood", "meld", "mojitalk"))
    run(f"release {published} -o out/release --namespace somebody")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["record"])
    parser.add_argument("output", type=Path, help="JSON file")
    parser.add_argument("--only", action="append", default=[], choices=list(groups()), help="may be repeated")
    arguments = parser.parse_args(argv)
    output = arguments.output.resolve()
    values = record(arguments.only)
    output.write_text(json.dumps(values, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(f"{len(values)} commands written to {output}")


if __name__ == "__main__":
    main()
