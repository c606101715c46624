# SPDX-License-Identifier: Apache-2.0
"""
Chooses which files of a run are published, and checks them.

A folder to publish holds only files with known names, and its card names the repository. It is checked in a process that cannot
import hf-emotion.
"""

import ast
import builtins
import inspect
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from fnmatch import fnmatch
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from huggingface_hub import ModelCard
from huggingface_hub.utils import validate_repo_id

import hf_emotion.modeling

from ..io.files import filling, read_object, refuse_taken, sha256_of, write_json, write_text
from ..modeling.common import TESTED
from ..recipes import check_name, make_recipe, read_yaml
from ..reports.card import licence_fields, write_collection_card
from ..run_report import RunReport
from ..runtime.base_models import hub_id
from ..runtime.names import CONFIG, METRICS, RECIPE
from ..tasks import task_of_pipeline
from ..tasks.cards import MODEL, named_terms
from ..tasks.corpus import OWN_TERMS
from .without_base import complete, place_bases, with_base


logger = logging.getLogger(__name__)

_read_json = partial(read_object, remedy="take the file of the finished run")

# Only these files leave the machine, and the code that config.json names: no logs, training arguments, optimizers, predictions or
# recipes (which name local folders).
TOKENIZER_FILES = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("chat_template.jinja", "vocab.txt", "vocab.json", "merges.txt", "spiece.model", "sentencepiece.bpe.model"),
)
WEIGHT_FILES = ("model.safetensors", "model-*-of-*.safetensors", "model.safetensors.index.json")
MODEL_FILES = ("config.json", "generation_config.json", "tfidf_gate.json", *WEIGHT_FILES, *TOKENIZER_FILES)
PLOTS = ("training_curve.png", "per_label_f1.png", "confusion_matrix.png")
RUN_FILES = ("README.md", METRICS, *PLOTS)

SUMS = "SHA256SUMS"
SHIPPED = Path(hf_emotion.modeling.__file__).parent  # the code that is saved beside the weights
PYTHON = re.compile(r"^```python\n(.*?)^```", re.M | re.S)


def release(
    runs: Iterable[str | Path], output: str | Path, namespace: str | None = None, trust_remote_code: bool = False
) -> dict[str, dict[str, int]]:
    """
    Build the folders to publish from finished runs, check them, and write a card of the collection (`README.md`) and `SHA256SUMS`.

    Args:
        runs: the run folders; each published folder is named after its run.
        output: new or empty folder.
        namespace: the account that will hold the repositories; the cards name it.
        trust_remote_code: let the check run code beside the weights and card examples that hf-emotion did not write.

    Returns:
        name -> {path in the folder: bytes}.
    """
    output = Path(output)
    refuse_taken(output)
    sources: dict[str, Path] = {}
    for run in map(Path, runs):
        name = _report_of(run).name
        if namespace is not None:
            validate_repo_id(f"{namespace}/{name}")
        if name in sources:
            raise ValueError(f"two runs are called {name!r}, {sources[name]} and {run}: leave one out.")
        sources[name] = run
    repositories = {name: f"{namespace}/{name}" if namespace else MODEL for name in sources}
    with filling(output) as temporary:
        for name, run in sources.items():
            stage(run, temporary / name, repositories[name])
        check([(temporary / name, repository) for name, repository in repositories.items()], trust_remote_code)
        write_collection_card(temporary, list(repositories), namespace)
        sums = [f"{sha256_of(temporary / path)}  {path}\n" for path in files_in(temporary)]
        write_text(temporary / SUMS, "".join(sums))
        return {
            name: {path: (temporary / name / path).stat().st_size for path in files_in(temporary / name)}
            for name in sources
        }


def files_in(folder: Path) -> list[str]:
    """Paths of all files below a folder, relative to it."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


# What is published


def stage(
    run: Path,
    folder: Path,
    repo_id: str,
    merge: bool = False,
    base_model: str | None = None,
    licence: str | None = None,
) -> None:
    """Copy the files of a run to publish into a new folder; its card calls the model `repo_id`. More: see `push`."""
    report = _report_of(run)
    folder.mkdir(parents=True)
    copied = []

    def copy(name: str | Path, target: Path) -> None:
        copied.append(_inside(run, name))
        shutil.copyfile(copied[-1], target)

    for name in RUN_FILES:
        if (run / name).is_file():
            copy(name, folder / name)
    for name, source in _models(run, report).items():
        (folder / name).mkdir(exist_ok=True)
        for file in _model_files(source):
            copy(source.relative_to(run) / file, folder / name / file)
        complete(folder / name, WEIGHT_FILES, merge, base_model)
    if linked := ", ".join(path.name for path in copied if path.stat().st_nlink > 1):
        logger.warning("hard links may be files from elsewhere: look at %s of %s before you publish them", linked, run)
    published = _without_folders(report.to_dict())
    published["base_model"] = hub_id(report.base_model) or PurePath(report.base_model or "").name or None
    write_json(folder / METRICS, published)
    text = _inside(run, "README.md").read_text(encoding="utf-8").replace(MODEL, repo_id)
    write_text(folder / "README.md", with_base(_with_licence(text, run, licence), folder))


def _with_licence(card: str, run: Path, licence: str | None) -> str:
    """The card with the given licence; if it names none, or only the terms of the corpus, with what the recipe beside the run says now."""
    changed, terms = ModelCard(card), None
    if licence is None:
        if changed.data.license not in (None, "other") or not (run / RECIPE).is_file():
            return card
        recipe = make_recipe(read_yaml(_inside(run, RECIPE).read_text(encoding="utf-8")), str(run / RECIPE))
        licence, terms = recipe.data_license, recipe.data_terms
    fields = licence_fields(licence, terms)
    if not fields:
        return card
    changed.data.license, changed.data.license_name = fields["license"], fields.get("license_name")
    return str(changed).replace(OWN_TERMS, named_terms(licence, terms))


def _inside(run: Path, name: str | Path) -> Path:
    """The path of a file in a run; ValueError for a link to a file outside, which nobody meant to publish."""
    if not (run / name).resolve().is_relative_to(run.resolve()):
        raise ValueError(f"{run / name} is a link to a file outside the run folder: put the file itself there.")
    return run / name


def _report_of(run: Path) -> RunReport:
    _inside(run, METRICS)
    report = RunReport.read(run)
    check_name(report.name, f"`name` in {run / METRICS}")
    return report


def _models(run: Path, report: RunReport) -> dict[str, Path]:
    """Folder in the repository -> checkpoint of the best seed: one at the top, or one for each target and aspect."""
    if (run / "config.json").is_file():
        return {".": run}
    source = run / f"seed-{report.best.seed}" if len(report.runs) > 1 else run
    models = {config.parent.name: config.parent for config in sorted(source.glob("*/config.json"))}
    if not models:
        raise ValueError(f"{run} holds no model: it has no config.json.")
    return models


def _model_files(folder: Path) -> list[str]:
    names = [path.name for path in folder.iterdir() if path.is_file()]
    return [*(name for name in names if matches(name, MODEL_FILES)), *_code_files(folder)]


def matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def _code_files(folder: Path) -> list[str]:
    """The files with the classes that config.json names, and the files beside them that they import."""
    waiting, found = [entry.rpartition(".")[0] for entry in _code_entries(_read_json(folder / "config.json"))], []
    while waiting:
        name = f"{waiting.pop()}.py"
        if name in found:
            continue
        # A module in this folder: no path, no other repository ("--").
        if not re.fullmatch(r"[A-Za-z_]\w*\.py", name) or not (folder / name).is_file():
            raise ValueError(f"{folder} lacks its code: config.json names {name}, which must lie beside it.")
        found.append(name)
        tree = ast.parse((folder / name).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
                waiting.append(node.module)
    return found


def _code_entries(value: Any) -> list[str]:
    """The names "module.Class" in the entries `auto_map` and `impl` (for pipelines) of a configuration, at any depth."""
    if isinstance(value, list):
        return [entry for item in value for entry in _code_entries(item)]
    if not isinstance(value, dict):
        return []
    found = []
    for key, item in value.items():
        if key == "auto_map" and isinstance(item, dict):
            named = [part for entry in item.values() for part in (entry if isinstance(entry, list) else [entry])]
            found += [str(entry) for entry in named if entry is not None]
        elif key == "impl":
            found.append(str(item))
        else:
            found += _code_entries(item)
    return found


def _without_folders(value: Any) -> Any:
    """The value with every local path reduced to its last part, at any depth."""
    if isinstance(value, dict):
        return {key: _without_folders(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_folders(item) for item in value]
    if isinstance(value, str) and PurePath(value).is_absolute() and len(PurePath(value).parts) > 2:
        return PurePath(value).name
    return value


# What is refused


def check(folders: Iterable[tuple[Path, str]], trust_remote_code: bool = False) -> None:
    """Refuse a folder with an incomplete card, a token, a local path or foreign code, or that does not load without hf-emotion."""
    folders = list(folders)
    for folder, model in folders:
        _check_card(folder)
        check_secrets(folder)
        if not trust_remote_code:  # the next check runs the code and the example of the card
            _check_code(folder)
            _check_example(folder, model)
    with tempfile.TemporaryDirectory(prefix="hf-emotion-check-") as home:
        # No network, no token, and a cache with nothing but the base models that folders name: the folder must suffice.
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
        environment |= {"HF_HOME": home, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        place_bases([folder for folder, _ in folders], Path(home) / "hub")
        jobs = json.dumps([[str(folder.resolve()), name] for folder, name in folders])
        command = [sys.executable, "-P", str(Path(__file__).with_name("load_check.py")), jobs]
        done = subprocess.run(command, cwd=home, env=environment, capture_output=True, encoding="utf-8")
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise ValueError(f"the model or the example of its card fails where hf-emotion is not installed: {reason}")


def _check_card(folder: Path) -> None:
    card = ModelCard.load(folder / "README.md")
    problems = {
        "no `license` in its metadata (your own data: --license, or in the recipe `data_license` or `data_terms`)": not card.data.license,
        "no results (`model-index`) in its metadata": not card.data.eval_results,
        f"“{OWN_TERMS}”, in place of the terms of the training data": OWN_TERMS in card.text,
        "no example (```python)": "```python" not in card.text,
    }
    for problem, found in problems.items():
        if found:
            raise ValueError(
                f"the model card of {folder.name}, README.md, has {problem}: correct it in the run folder."
            )


TRUST = "if you have read and trust it, `--trust-remote-code` lets the check run it"


def _check_code(folder: Path) -> None:
    """ValueError unless every program in the folder is byte for byte one that hf-emotion ships, and none else is named."""
    for path in sorted(folder.rglob("*.py")):
        shipped = SHIPPED / path.name
        if not shipped.is_file() or shipped.read_bytes() != path.read_bytes():
            name = path.relative_to(folder)
            raise ValueError(
                f"{name} is not the file that this version of hf-emotion ships: save the model again, or {TRUST}."
            )
    for path in sorted(folder.rglob("tokenizer_config.json")):
        if entries := _code_entries(_read_json(path)):
            raise ValueError(f"{path.relative_to(folder)} names code for the tokenizer, {entries[0]!r}; {TRUST}.")


def _check_example(folder: Path, model: str) -> None:
    """ValueError unless the card's examples only load this model by the pipelines and Auto classes of transformers, and print."""
    for code in PYTHON.findall((folder / "README.md").read_text(encoding="utf-8")):
        for node in ast.walk(ast.parse(code)):
            if not isinstance(node, HARMLESS) or not _is_harmless(node, model):
                what = ast.unparse(node) if isinstance(node, ast.expr | ast.stmt) else type(node).__name__
                raise ValueError(
                    f"the example of the card of {folder.name}, README.md, does more than load this model and print what it returns: "
                    f"{what[:100]!r}; {TRUST}."
                )


HARMLESS = (
    *(ast.Module, ast.ImportFrom, ast.alias, ast.Assign, ast.Expr, ast.expr_context),
    *(ast.Call, ast.keyword, ast.Name, ast.Attribute, ast.Constant, ast.Tuple, ast.List, ast.Dict),
)


def _is_harmless(node: ast.AST, model: str) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module == "transformers" and all(
            (alias.name == "pipeline" or alias.name.startswith("Auto")) and alias.asname is None
            for alias in node.names
        )
    if isinstance(node, ast.Name):
        return node.id == "print" or not hasattr(builtins, node.id)
    if isinstance(node, ast.Attribute):
        return node.attr == "from_pretrained" and isinstance(node.value, ast.Name) and node.value.id.startswith("Auto")
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Name) and not target.id.startswith("Auto") for target in node.targets)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):  # no other folder or repository
        return node.value == model or not re.search(r"[/\\]|--|^\.", node.value)
    return True


VALUE = r"(?=\S*\d)[\w+/=.~-]"  # what stands for a secret: no name and no word
SECRETS = {  # what is found: how it looks
    "an access token of Hugging Face": r"\b(?:hf|api_org)_[A-Za-z0-9]{20,}",
    "an access key of AWS": r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "a token of GitHub or GitLab": r"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_\w{22}|glpat-[\w-]{20})",
    "a key of OpenAI or Anthropic": r"\bsk-(?=[\w-]*\d)(?=[\w-]*[A-Z])[\w-]{20,}",
    "a key of Google": r"\bAIza[\w-]{35}",
    "a token of Slack": r"\bxox[abeoprs]-[\w-]{10,}|hooks\.slack\.com/services/\w+/\w+/\w+",
    "a private key": r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY",
    "a signed token (JWT)": r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.",
    "a password in a URL": r"\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@\"'<>()]+:[^\s/@\"'<>()]+@\w",
    "an Authorization header": rf"(?i)\bbearer {VALUE}{{20,}}",
    "a key or a password": rf"(?i)(?:api_?key|secret(?:_?access)?(?:_?key)?|(?:access|auth)_?token|password|passwd)[\"']?\s*[:=]\s*[\"']?{VALUE}{{8,}}",  # noqa: E501
}
MOST_NOTES = 100_000_000  # bytes before the weights; safetensors reads no more
# After "//" and a host, or in "</tag>" and "../", a slash begins no path of this machine.
LOCAL_PATH = re.compile(r"(?:(?<![\w/.~-])|(?<=file://))/([\w.-]+)/[\w.+-]|\b[A-Za-z]:\\+Users\\")
WITHOUT_PATHS = ("README.md", METRICS, CONFIG, "generation_config.json", "tokenizer_config.json")


def check_secrets(folder: Path) -> None:
    tokens = [os.environ[name] for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN") if os.environ.get(name)]
    for path in files_in(folder):
        text = _text_of(folder / path)
        found = [(text.find(token), "an access token") for token in tokens]
        found += [(match.start(), what) for what, rule in SECRETS.items() if (match := re.search(rule, text))]
        for place, what in found:
            if place >= 0:  # the message does not repeat it
                line = text.count("\n", 0, place) + 1
                raise ValueError(f"{path} holds {what} in line {line}: remove it, and revoke it.")
        if PurePath(path).name not in WITHOUT_PATHS:
            continue  # vocabularies and programs have slashes of their own
        for match in LOCAL_PATH.finditer(text):
            if match[1] is None or Path("/", match[1]).is_dir():  # it begins like the paths of this machine
                raise ValueError(f"{path} names a folder of this machine, {match[0]}...: remove it.")


def _text_of(path: Path) -> str:
    """The text of a file; for weights the names and notes at the beginning."""
    if path.suffix != ".safetensors":
        return path.read_text("utf-8", "replace")
    with path.open("rb") as file:
        return file.read(min(int.from_bytes(file.read(8), "little"), MOST_NOTES)).decode(errors="replace")


# The handler of an Inference Endpoint


def write_handler(model: Path) -> None:
    """Write the handler of an Inference Endpoint beside a model, and what it needs."""
    if not (model / "config.json").is_file():
        raise ValueError("an endpoint has one model, and this run has more: leave out --handler.")
    names = _read_json(model / "config.json").get("custom_pipelines") or {}
    stock = ("text-classification", "sentiment-analysis")  # a model that they must not read names them, too
    name = next((name for name in names if name not in stock), "text-classification")
    if not re.fullmatch("[a-z0-9-]+", name):  # it becomes part of a program
        raise ValueError(f"config.json names the pipeline {name!r}: take the file of the finished run.")
    respond = task_of_pipeline(name).respond()
    program = Path(__file__).with_name("endpoint_handler.py").read_text(encoding="utf-8").replace("PIPELINE", name)
    before, _, rest = program.partition("# The function of the model's task")
    _, _, after = rest.partition("# The class.\n")
    write_text(model / "handler.py", f"{before}\n{inspect.getsource(respond)}\n\n{after.lstrip()}")
    write_text(model / "requirements.txt", f"{TESTED}\n")
