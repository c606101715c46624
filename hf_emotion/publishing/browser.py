# SPDX-License-Identifier: Apache-2.0
"""Writes a page that runs a model in the browser: static files, which need no server of their own and send nothing anywhere."""

import base64
import gzip
import hashlib
import html
import json
import re
import shutil
import tempfile
from collections.abc import Sequence
from importlib import resources
from pathlib import Path, PurePath
from typing import Any, TypedDict

import numpy as np
from huggingface_hub import ModelCard

from ..io.files import creating, write_text
from ..runtime.classifying import label_names
from ..runtime.compact import Storage, compact_graph
from ..runtime.languages import ENGLISH, identifier, languages_of
from ..runtime.loading import read_config
from ..runtime.onnx import MODEL
from ..runtime.plain import text_processing
from ..runtime.unread import MULTILINGUAL
from ..tasks import task_of, task_of_rows
from ..tasks.exporting import COMPARED, Exporter, distinct_texts
from ..tasks.loading import load_split, options_for
from .export import exportable, write_settings


FORMAT = 1  # of model.json; emotion.js reads no other
FACTS = "model.json"
PAGE = resources.files(__package__) / "browser_page"
ON_DISK = "file"  # the folder for pages opened from a disk
STORAGES = (Storage("int8", 8, 8), Storage("int11", 10, 11), Storage("float16", 16, 16))
AGREEMENT = 0.995  # share of texts that must get the same labels
MOST_TEXTS = 2000
# The page has so many of py3langid's n-grams. With fewer the probabilities are flatter: SHARPER makes up for it.
NGRAMS, STEP, SHARPER = 12_000, 0.5, 2.0

CDN = "https://cdn.jsdelivr.net/npm/"
# The pinned programs that a page needs without and with WebGPU: role -> path below the CDN, bytes, SHA-384.
RUNTIMES: dict[str, dict[str, dict[str, Any]]] = json.loads((PAGE / "programs.json").read_text(encoding="utf-8"))


class Exported(TypedDict):
    """`storage` of the weights; `agreement`: for each one tried, the share of the texts with the same labels; `files`: their bytes."""

    storage: str
    agreement: dict[str, float]
    texts: int
    files: dict[str, int]


def export_web(
    checkpoint: str | Path,
    output: str | Path,
    vendor: str | Path | None = None,
    texts: Sequence[str] | None = None,
    dataset: str | None = None,
    data_dir: str | Path | None = None,
    options: dict[str, Any] | None = None,
    escape_formulas: bool = False,
) -> Exported:
    """
    Write a folder with a page that answers in the browser, for emotions of texts and for aspects. `emotion.js` there is for other pages.

    The weights are stored in the fewest bytes (int8, int11, float16) with which 99.5 % of the texts get the same labels, or terms, as
    from torch.

    Args:
        checkpoint: a ready model's name, a local folder or a Hub id.
        output: a new or empty folder.
        vendor: the `node_modules` folder to copy onnxruntime-web and @huggingface/tokenizers from; default: the page loads them from a CDN. With
            them the folder `file` holds all content once more, for a page opened from a disk (file://).
        texts: what to compare on. Default: the first 2,000 texts of the validation part of `dataset`, else packaged texts.
        escape_formulas: in the CSV that the page gives, write an apostrophe before each cell that a spreadsheet would take for a formula.

    Raises:
        ModuleNotFoundError: the extra `onnx` is not installed.
        FileExistsError: `output` is not empty.
        OSError, ValueError: the checkpoint cannot be loaded, or has no page; a vendored file is missing or has another hash.
    """
    name, checkpoint = PurePath(str(checkpoint).rstrip("/")).name, exportable(checkpoint, output)
    if (texts is not None and dataset is not None) or (dataset is None and options):
        raise ValueError("compare on `texts` or on a `dataset`; `options` are those of the `dataset`.")
    programs = {} if vendor is None else _vendored(Path(vendor))
    task = task_of(read_config(checkpoint))
    exporter = task.exporter()
    if exporter.write_browser is None:
        raise ValueError(f"a page in the browser is for emotions and aspects of texts: this model reads {task.reads}.")
    model = exporter.load(checkpoint)
    model.model.float().cpu().eval()
    if not model.tokenizer.is_fast:
        raise ValueError(f"{type(model.tokenizer).__name__} has no tokenizer.json, which the page needs.")
    if texts is None:
        texts = _texts(dataset, data_dir, options_for(model, dataset, options) if dataset else None)
    with creating(Path(output)) as folder, tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        exporter.write_browser(model, work)
        write_settings(model, work)
        storage, agreement = _compact(exporter, model, work, texts)
        files = {"graph": ("model.onnx.gz", _packed((work / MODEL).read_bytes()))}
        files["tokenizer"] = ("tokenizer.json", (work / "tokenizer.json").read_bytes())
        if languages_of(model.model.config):
            table = json.dumps(_language_table()).encode()
            files["languages"] = ("languages.json.gz", _packed(table))
        facts = _facts(model, task.name) | {
            "examples": list(exporter.examples),
            "storage": storage,
            "agreement": agreement,
            "escape_formulas": escape_formulas,
        }
        facts["files"] = {role: _entry(*file) for role, file in files.items()}
        facts["runtimes"] = {
            kind: {role: _program(one, programs) for role, one in runtime.items()}
            for kind, runtime in RUNTIMES.items()
        }
        for path, content in [*files.values(), (FACTS, json.dumps(facts).encode()), *programs.values()]:
            _write(folder / path, content)
            if programs:
                script = f"(globalThis.hfEmotionFiles ??= {{}})[{json.dumps(path)}] = '{base64.b64encode(content).decode()}';\n"
                _write(folder / ON_DISK / f"{path}.js", script.encode())
        _write_page(folder, name, vendor is not None)
        sizes = {path.relative_to(folder).as_posix(): path.stat().st_size for path in sorted(folder.rglob("*.*"))}
    return {"storage": storage, "agreement": agreement, "texts": len(texts), "files": sizes}


def write_space(source: Path, folder: Path, repo_id: str, licence: str | None) -> None:
    """Write a static Space: the page of a run or checkpoint, or a folder that `export_web` wrote, with the README that the Hub reads."""
    if (source / FACTS).is_file() and (source / "index.html").is_file():
        shutil.copytree(source, folder, ignore=shutil.ignore_patterns(ON_DISK, ".*"))
    else:
        export_web(str(source), folder)
    if licence is None and (source / "README.md").is_file():
        licence = ModelCard.load(source / "README.md", ignore_metadata_errors=True).data.license
    fields = {
        "title": PurePath(repo_id).name,
        "sdk": "static",
        "app_file": "index.html",
        **({"license": licence.lower()} if licence else {}),
        # With these headers the page may use several threads.
        "custom_headers": {
            "cross-origin-embedder-policy": "require-corp",
            "cross-origin-opener-policy": "same-origin",
            "cross-origin-resource-policy": "cross-origin",
        },
    }
    text = "The model runs in the page, and your text never leaves your browser. Made with `hf-emotion export --web`."
    # JSON is YAML, too.
    header = "\n".join(f"{name}: {json.dumps(value)}" for name, value in fields.items())
    write_text(folder / "README.md", f"---\n{header}\n---\n\n# {fields['title']}\n\n{text}\n")


def _texts(dataset: str | None, data_dir: Any, options: dict[str, Any] | None) -> list[str]:
    if dataset is not None:
        rows = load_split(dataset, "validation", data_dir, **(options or {}))
        if "text" not in rows.column_names:
            raise ValueError(f"{dataset!r} holds {task_of_rows(rows).reads}: name a corpus of texts.")
        return distinct_texts(rows)[:MOST_TEXTS]
    parts = [(name, part) for name in COMPARED for part in ("validation", "test")]
    return list(dict.fromkeys(text for name, part in parts for text in load_split(name, part, None)["text"]))


def _compact(exporter: Exporter, model: Any, work: Path, texts: Sequence[str]) -> tuple[str, dict[str, float]]:
    """Store the graph in `work` in the fewest bytes that change the labels of few enough texts."""
    expected, agreement = _decisions(model, texts), {}
    original = (work / MODEL).rename(work / "float32.onnx")
    for storage in STORAGES:
        compact_graph(original, work / MODEL, storage)
        found = _decisions(exporter.load_exported(work), texts)
        agreement[storage.name] = sum(a == b for a, b in zip(expected, found, strict=True)) / len(texts)
        if agreement[storage.name] >= AGREEMENT:
            return storage.name, agreement
    raise ValueError(f"the graph gives other labels than torch ({agreement}): try other versions of onnxruntime.")


def _decisions(model: Any, texts: Sequence[str]) -> list[set]:
    """What a model says of each text, without the scores."""
    answers = model(list(texts), progress=True)
    return [{tuple(value for key, value in item.items() if key != "score") for item in answer} for answer in answers]


def _facts(model: Any, task: str) -> dict[str, Any]:
    """What emotion.js must know of a predictor."""
    config, tokenizer = model.model.config, model.tokenizer
    tags = label_names(config)
    labels, languages = text_processing.tag_labels(tags) or tags, languages_of(config)
    facts = {"format": FORMAT, "task": task, "labels": labels, "tags": tags}
    facts |= {
        "languages": languages,
        "english": sorted(ENGLISH),
        "multi_label": model.multi_label,
        "max_length": model.max_length,
    }
    thresholds = getattr(model, "thresholds", None)
    facts["thresholds"] = [] if thresholds is None else [float(value) for value in thresholds]
    facts["temperature"] = text_processing.temperature_of(config)
    facts |= {rule: text_processing.threshold_of(config, rule) for rule in text_processing.RULES}
    facts["fragments"] = len(tokenizer) < MULTILINGUAL
    facts |= {"padding_side": tokenizer.padding_side, "pad_token_id": tokenizer.pad_token_id}
    # The JavaScript tokenizer reads little more than tokenizer.json.
    known = ("additional_special_tokens", "do_lowercase_and_remove_accent", "eos_token", "remove_space")
    settings = {name: tokenizer.init_kwargs[name] for name in known if name in tokenizer.init_kwargs}
    return facts | {"tokenizer_config": json.loads(json.dumps(settings, default=str))}


def _language_table() -> dict[str, Any]:
    """The n-grams of bytes by which py3langid best tells languages apart: for each a character per language, the weight in steps from "O"."""
    found = identifier()
    weights = np.asarray(found.nb_ptc, np.float32)  # log of the probability of an n-gram, a column per language
    shares = np.exp(weights)
    best = np.argsort(-(shares * np.log(shares / shares.mean(1, keepdims=True))).sum(1))[:NGRAMS]
    steps = (weights[best] - weights[best].mean(1, keepdims=True)) / STEP
    rows = np.clip(np.round(steps), -47, 47).astype(int) + ord("O")
    # A state of its automaton stands for a text: that of the state from which it is first met, and a byte.
    moves, row_of = np.asarray(found.tk_nextmove).reshape(-1, 256), np.asarray(found.tk_row)
    grams, level, unseen = {0: ""}, [0], np.arange(len(row_of)) > 0
    while level:
        after = moves[row_of[level]]
        origins, characters = np.nonzero(unseen[after])
        states = after[origins, characters].tolist()
        for state, origin, character in zip(states, origins.tolist(), characters.tolist(), strict=True):
            grams[state] = grams[level[origin]] + chr(character)
        unseen[states] = False
        level = states
    of_feature: dict[int, str] = {}
    for state, gram in grams.items():
        of_feature.setdefault(found.tk_output[state], gram)
    texts = [of_feature[number] for number in best]
    return {
        "codes": found.nb_classes,
        "prior": (np.asarray(found.nb_pc, np.float64) * SHARPER).round(3).tolist(),
        "step": STEP * SHARPER,
        "longest": max(map(len, texts)),
        "grams": {text: "".join(map(chr, row)) for text, row in zip(texts, rows, strict=True)},
    }


def _entry(name: str, content: bytes) -> dict[str, Any]:
    """A file as emotion.js looks for it. The hash is of the unpacked content: some servers unpack .gz files."""
    unpacked = gzip.decompress(content) if name.endswith(".gz") else content
    return {"name": name, "bytes": len(content), "integrity": _hash("sha384", unpacked)}


def _packed(content: bytes) -> bytes:
    return gzip.compress(content, 9, mtime=0)


def _hash(kind: str, content: bytes) -> str:
    return f"{kind}-{base64.b64encode(hashlib.new(kind, content).digest()).decode()}"


def _program(program: dict[str, Any], vendored: dict[str, tuple[str, bytes]]) -> dict[str, Any]:
    path = program["path"]
    return _entry(*vendored[path]) if path in vendored else {**program, "name": PurePath(path).name, "url": CDN + path}


def _vendored(modules: Path) -> dict[str, tuple[str, bytes]]:
    """Path below the CDN -> (path in the folder, packed content) of the programs in a `node_modules` folder."""
    found = {}
    for program in (program for runtime in RUNTIMES.values() for program in runtime.values()):
        path = program["path"]
        source, wanted = modules / re.sub(r"@[\d.]+/", "/", path), f"`npm install {path.partition('/dist/')[0]}`"
        if not source.is_file():
            raise FileNotFoundError(f"{source} is missing: {wanted}, and name its node_modules folder.")
        if _hash("sha384", source.read_bytes()) != program["integrity"]:
            raise ValueError(f"{source} is of another version, or changed: {wanted}.")
        found[path] = (f"vendor/{source.name}.gz", _packed(source.read_bytes()))
    return found


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _write_page(folder: Path, title: str, vendored: bool) -> None:
    """Write the programs of the page. Scripts and styles stand in `index.html`, and its policy names their hashes."""
    for name in ("emotion.js", "emotion.d.ts", "sw.js"):
        _write(folder / name, (PAGE / name).read_bytes())
    emotion = re.sub(r"^export ", "", (PAGE / "emotion.js").read_text(encoding="utf-8"), flags=re.M)
    page = (PAGE / "index.html").read_text(encoding="utf-8")
    page = page.replace("@TITLE@", html.escape(title)).replace("@EMOTION@", emotion)
    hashes = {
        tag: " ".join(f"'{_hash('sha256', one.encode())}'" for one in re.findall(f"<{tag}>(.*?)</{tag}>", page, re.S))
        for tag in ("script", "style")
    }
    folders = {one["path"].rpartition("/")[0] for runtime in RUNTIMES.values() for one in runtime.values()}
    sources = "" if vendored else "".join(f" {CDN}{one}/" for one in sorted(folders))
    policy = (
        f"default-src 'none'; script-src 'self' blob: 'wasm-unsafe-eval' {hashes['script']}; style-src {hashes['style']}; "
        f"connect-src 'self'{sources}; worker-src 'self' blob:; img-src data:; base-uri 'none'; form-action 'none'"
    )
    _write(folder / "index.html", page.replace("@POLICY@", policy).encode())
