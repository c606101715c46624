# SPDX-License-Identifier: Apache-2.0
"""
What the command line does, written down: before and after a change that must change nothing.

    python tests/behaviour_record.py record OLD.json         # in the old tree; about six minutes of one core
    python tests/behaviour_record.py record NEW.json         # in the new one
    python tests/behaviour_record.py diff OLD.json NEW.json

`record` trains a tiny run of every family (tests/families.py) and of every corpus and runs every command on them. It keeps what the
commands print, their exit codes, the files of the run folders, the text of the text files, tensors of weights by their digest, and all
help texts; folders, times and versions become placeholders. `diff` lists what differs, with the reason if there is one in
tests/behaviour_reasons.yaml, and ends with exit code 1 where there is none.

The script knows the command line alone, and so stays as it is when files of the package move.
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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any


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


REASONS = Path(__file__).with_name("behaviour_reasons.yaml")
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
        said = [
            line for line in err.getvalue().split("\n") if line.strip() and "\r" not in line and "it/s]" not in line
        ]
        entry["stderr"] = [self.text(line) for line in said]
        if code and words[0] == "train" and not key.endswith(("again", "resumed", "unknown recipe", "unknown key")):
            print(f"{key} failed: {said}", file=sys.stderr, flush=True)
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
            return {
                name: f"{tuple(tensor.shape)} {hashlib.sha256(tensor.contiguous().numpy().tobytes()).hexdigest()[:16]}"
                for name, tensor in sorted(load_file(path).items())
            }
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
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    columns = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(WIDTH)
    try:
        with tempfile.TemporaryDirectory(prefix="hf-emotion-record-") as temporary, working_in(Path(temporary)):
            recorder = Recorder(Path.cwd())
            write_bases_and_corpora()
            for name, group in groups().items():
                if not only or name in only:
                    start = time.process_time()
                    group(recorder)
                    print(f"{name}: {time.process_time() - start:.0f} s", file=sys.stderr, flush=True)
            return recorder.values
    finally:
        torch.set_num_threads(threads)
        os.environ.pop("COLUMNS")
        if columns is not None:
            os.environ["COLUMNS"] = columns


def groups() -> dict[str, Callable[[Recorder], None]]:
    def family(name: str) -> Callable[[Recorder], None]:
        return lambda recorder: record_family(recorder, name)

    def corpus(name: str) -> Callable[[Recorder], None]:
        return lambda recorder: record_corpus(recorder, name)

    return {
        "help": record_help,
        **{name: family(name) for name in ("language-model", *FAMILIES)},
        "corpora": lambda recorder: write_named_corpora(),
        **{name: corpus(name) for name in CORPORA},
        "pairs": record_pairs,
        "exports": record_exports,
        "other": record_other,
    }


def record_help(recorder: Recorder, *command: str) -> None:
    """The help of a command and, found in it, of the commands below."""
    key = "/".join(("help", *command))
    recorder.run(key, *command, "--help")
    lines = recorder.values[key]["stdout"]
    if "Commands:" in lines:
        listed = lines[lines.index("Commands:") + 1 :]
        for line in listed:
            if found := re.match(r"  ([a-z][\w-]*)(?:  |$)", line):
                record_help(recorder, *command, found[1])


def record_family(recorder: Recorder, name: str) -> None:
    """The training, the run folder, and every command on it: those that do not fit the family too, for their messages."""
    write_recipe(name)
    run = f"runs/{name}"
    if name == "language-model":
        recorder.run(f"{name}/train", "train", f"recipes/{name}.yaml", "-o", run, "--data-dir", "data/pairs")
        recorder.files(f"{name}/run", Path(run))
        return
    family, key = FAMILIES[name], name
    recorder.run(f"{key}/train", "train", f"recipes/{name}.yaml", "-o", run, "--data-dir", family.data)
    recorder.files(f"{key}/run", Path(run))
    for part in family.parts:
        for number, ask in enumerate(family.asks):
            words = [f"{run}/{part}" if word == "FOLDER" else word for word in ask]
            recorder.run(f"{key}/{part}/ask {number}", *words)
    inputs = texts_of(family)
    plain = Path(f"out/{name}.jsonl")
    plain.parent.mkdir(exist_ok=True)
    file = "data/dialogues/test.csv" if family.data.endswith("dialogues") else f"{family.data}/test.csv"
    corpus = ["--dataset", family.recipe["dataset"], "--data-dir", family.data]
    for option, value in family.recipe.get("dataset_options", {}).items():
        corpus += ["--option", f"{option}={value}"]
    generates = family.asks[0][0] == "generate"
    commands: dict[str, tuple] = {
        "predict table": ("predict", run, *inputs),
        "predict one": ("predict", run, inputs[0]),
        "predict taxonomy": ("predict", run, inputs[0], "--taxonomy", "ekman"),
        "predict top 0": ("predict", run, inputs[0], "--top-k", "0"),
        "predict empty": ("predict", run, ""),
        "predict target": ("predict", run, inputs[0], "--target", "nowhere"),
        "predict shorter": ("predict", run, *inputs, "--max-length", "6", "--json"),
        "predict nothing": ("predict", run),
        "generate unknown": ("generate", run, "the cake", "-e", "nobody"),
        "generate sampled": ("generate", run, "the cake", "-e", "joy", "--seed", "3", "--max-new-tokens", "6"),
        "evaluate": ("evaluate", run, *corpus, *(("--contexts", "4") if generates else ())),
        "evaluate json": ("evaluate", run, *corpus, "--json", *(("--contexts", "4") if generates else ())),
        "evaluate unknown": ("evaluate", run, "--dataset", "nothing"),
        "explain table": ("explain", run, inputs[0], *(("-e", "joy") if generates else ())),
        "explain label": ("explain", run, inputs[0], "--label", "nobody"),
        "analyze": ("analyze", run),
        "analyze json": ("analyze", run, "--json"),
        "compare": ("compare", run),
        "compare json": ("compare", run, "--json"),
        "train again": ("train", f"recipes/{name}.yaml", "-o", run),
        "train resumed": ("train", f"recipes/{name}.yaml", "-o", run, "--data-dir", family.data, "--resume"),
    }
    for what, words in commands.items():
        recorder.run(f"{key}/{what}", *words)
    recorder.run(f"{key}/predict stdin", "predict", run, "--json", stdin="\n".join(inputs) + "\n")
    recorder.run(f"{key}/predict file", "predict", run, "--input", file, "--output", plain, reads=plain)
    if generates:
        replies = Path(f"out/{name}-replies.jsonl")
        given = ("generate", run, "--input", file, "--output", replies, "--greedy", "--max-new-tokens", "6")
        recorder.run(f"{key}/generate file", *given, reads=replies)
    for method in EXPLAIN:
        words = ("explain", run, inputs[0], "--method", method, "--format", "json")
        recorder.run(f"{key}/explain {method}", *words, *(("-e", "joy", "-e", "anger") if generates else ()))
    page = Path(f"out/{name}.html")
    recorder.run(f"{key}/explain page", "explain", run, inputs[0], "-o", page, *(("-e", "joy") if generates else ()))
    if page.is_file():
        recorder.values[f"{key}/explain page/file"] = recorder.content(page)
    if not generates:
        recorder.run(f"{key}/faithfulness", "faithfulness", run, *corpus, "--rows", "3", "--json")


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
        table = [word for word in words if word != "--json"]
        recorder.run(f"corpus {name}/evaluate table", *table, "--replies", str(replies), reads=replies)
    recorder.run(f"corpus {name}/evaluate", *words)
    for part in ("train", "validation"):
        recorder.run(f"corpus {name}/evaluate {part}", *words, "--split", part)
    if name == "goemotions":
        for taxonomy in ("ekman", "sentiment"):
            asked = ("predict", run, "I am so happy", "this is anger", "--taxonomy", taxonomy, "--json")
            recorder.run(f"corpus {name}/{taxonomy}", *asked)
            recorder.run(f"corpus {name}/evaluate {taxonomy}", *words, "--taxonomy", taxonomy)
    recorder.run(f"corpus {name}/analyze", "analyze", run, "--data-dir", "data/named", "--json")
    recorder.run(f"corpus {name}/compare", "compare", run)


def record_pairs(recorder: Recorder) -> None:
    """Commands over two runs."""
    for first, second in (("stock", "label-aware"), ("stock-pair", "qacg"), ("dialogue-words", "dialogue-encoder")):
        if Path(f"runs/{first}").is_dir() and Path(f"runs/{second}").is_dir():
            key, runs = f"pair {first}, {second}", (f"runs/{first}", f"runs/{second}")
            for command in ("compare", "analyze"):
                recorder.run(f"{key}/{command}", command, *runs)
                recorder.run(f"{key}/{command} json", command, *runs, "--json")


def record_exports(recorder: Recorder) -> None:
    for name, family in FAMILIES.items():
        if not family.exported or not Path(f"runs/{name}").is_dir():
            continue
        folder = f"runs/{name}-onnx"
        recorder.run(f"export {name}/export", "export", f"runs/{name}", "-o", folder, "--json")
        recorder.files(f"export {name}/folder", Path(folder))
        for number, ask in enumerate(family.asks):
            recorder.run(f"export {name}/ask {number}", *(folder if word == "FOLDER" else word for word in ask))
        corpus = ["--dataset", family.recipe["dataset"], "--data-dir", family.data]
        for option, value in family.recipe.get("dataset_options", {}).items():
            corpus += ["--option", f"{option}={value}"]
        recorder.run(f"export {name}/evaluate", "evaluate", folder, *corpus, "--json")
    if Path("runs/label-aware").is_dir():
        Path("data/texts.txt").write_text("I am so happy\nthe rain\n", encoding="utf-8")
        small = ("-o", "runs/small-onnx", "--quantize", "uint8", "--texts", "data/texts.txt")
        recorder.run("export quantized/export", "export", "runs/label-aware", *small)
        recorder.files("export quantized/folder", Path("runs/small-onnx"))


def record_other(recorder: Recorder) -> None:
    recorder.run("recipes", "recipes")
    recorder.run("unknown command", "nothing")
    recorder.run("unknown recipe", "train", "no/recipe")
    recorder.run("unknown key", "train", "quickstart", "--set", "learning_rat=1")
    recorder.run("unknown table", "reproduce", "nothing")
    # A published table
    places = ("-o", "runs/reproduction", "--data-dir", "data/named", "--seeds", "1")
    small = [word for name, value in SMALL.items() for word in ("--set", f"{name}={value}")]
    rows = ("--recipe", "sentihood/qacg_aux", "--recipe", "sentihood/cg")
    recorder.run("reproduce/train", "reproduce", "sentihood", "--base-model", "base/bert", *places, *rows, *small)
    # The authors' checkpoints
    weights = load_file("base/bert/model.safetensors")
    torch.save(weights, "base/weights.bin")
    words = ("base/weights.bin", "out/converted", "--config", "base/bert/config.json")
    recorder.run("convert/of another model", "convert", *words)
    recorder.run("convert/to RoBERTa", "convert", "--to-roberta", "base/bert", "out/roberta")
    recorder.files("convert/RoBERTa", Path("out/roberta"))
    # Publishing: own files are refused, for nobody has named their terms
    for name in ("label-aware", "corpus-goemotions"):
        recorder.run(f"push/{name}", "push", f"runs/{name}", "--repo-id", "somebody/tiny", "--dry-run")
    recorder.run("push/no run", "push", "base/bert", "--repo-id", "somebody/tiny", "--dry-run")
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


def diff(old: dict[str, Any], new: dict[str, Any], reasons: dict[str, str], show: bool = True) -> int:
    """Print what differs, and return how many things differ without a reason."""
    keys = sorted({*old, *new})
    by_reason: dict[str, list[str]] = {}
    equal, unexplained = 0, []
    for key in keys:
        found = list(differences({key: old[key]} if key in old else {}, {key: new[key]} if key in new else {}))
        if not found:
            equal += 1
            continue
        left = []
        for where, what in found:
            where = where.removeprefix("/")
            reason = next((why for pattern, why in reasons.items() if fnmatch.fnmatchcase(where, pattern)), None)
            if reason is None:
                left.append((where, what))
            else:
                by_reason.setdefault(reason, []).append(where)
        if left:
            unexplained.append((key, left))
    if show:
        for _, left in unexplained:
            for where, what in left:
                print(f"{where}: {what}")
        print(f"\n{len(keys)} things compared, {equal} equal, {len(unexplained)} different without a reason")
        for reason, places in by_reason.items():
            print(
                f"expected, {reason}: {len(places)} places in {len({place.partition('/')[0] for place in places})} groups"
            )
    return len(unexplained)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="write a record of this tree")
    recording.add_argument("output", type=Path, help="JSON file")
    recording.add_argument(
        "--only", action="append", default=[], choices=list(groups()), help="only this group; may be repeated"
    )
    comparing = commands.add_parser("diff", help="list what differs between two records")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    comparing.add_argument("--reasons", type=Path, default=REASONS, help="expected differences, pattern: reason")
    arguments = parser.parse_args(argv)
    if arguments.command == "record":
        output = arguments.output.resolve()
        values = record(arguments.only)
        output.write_text(json.dumps(values, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        print(f"{len(values)} things written to {output}")
        return
    old, new = (json.loads(path.read_text(encoding="utf-8")) for path in (arguments.old, arguments.new))
    reasons = yaml.safe_load(arguments.reasons.read_text(encoding="utf-8")) or {}
    sys.exit(1 if diff(old, new, reasons) else 0)


if __name__ == "__main__":
    main()
