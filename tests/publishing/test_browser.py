# SPDX-License-Identifier: Apache-2.0
"""The page that runs a model in the browser: what Python writes, and, where Chromium and the npm packages are, its answers."""

import base64
import functools
import gzip
import hashlib
import http.server
import json
import os
import random
import re
import shutil
import threading
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from datasets import Dataset
from onnx import TensorProto, helper, numpy_helper
from served import TEXT
from toolkit_helpers import ROOT, files_in, invoke, torch_threads

from hf_emotion import Predictor
from hf_emotion.data.rows import packaged_rows
from hf_emotion.inference import load_predictor
from hf_emotion.publishing import browser as browser_module
from hf_emotion.publishing.browser import FACTS, RUNTIMES, export_web
from hf_emotion.runtime.compact import Storage, compact_graph
from hf_emotion.runtime.languages import foreign_languages
from hf_emotion.tasks import exporting
from hf_emotion.tasks.corpus import mark


pytest_plugins = ["served", "toolkit_fixtures"]

MODULES = Path(os.environ.get("HF_EMOTION_NODE_MODULES", ROOT / "node_modules"))
HOSTILE = "<script>window.hacked=1</script><img src=x onerror=window.hacked=1>"
LONG = "I am so happy today , not sad ! rain . " * 40
ODD = (
    *("naïve \x92 ΣΑΣ Σ", "𠀀𠀁 a𡿿b", "e\u0301\u0327 ﬁ", "a\ufeffb\u200dc", "😀🤷🏽‍♀️ so", "👩‍👩‍👧 home"),
    *("日本 語", "[MASK] [unk]", "don't_stop 5€ x²", "\tI\n am  so", "a" * 120, "İstanbul ǅ", "שלום", "हिन्दी"),
    "\U000e0001 joy",
)


def stored(folder: Path, storage: Storage) -> tuple[dict[str, np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """The weights of a graph with every kind of weight, and its outputs before and after."""
    random_numbers = np.random.default_rng(0)
    weights = {
        "table": random_numbers.normal(size=(700, 128)).astype(np.float32),
        "matrix": random_numbers.normal(size=(128, 600)).astype(np.float32),
        "odd": random_numbers.normal(size=(600, 110)).astype(np.float32),  # 600 is no multiple of a block
    }
    weights["table"][3] = 0
    nodes = [helper.make_node("Gather", ["table", "ids"], [name], name=name) for name in ("rows", "again")]
    nodes += [helper.make_node("MatMul", ["eye", "matrix"], ["first"])]
    nodes += [helper.make_node("Gemm", ["wide", "odd"], ["second"])]
    inputs = [helper.make_tensor_value_info("ids", TensorProto.INT64, [None])]
    inputs += [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, None]) for name in ("eye", "wide")]
    names = ("rows", "again", "first", "second")
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(w, n) for n, w in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, folder / "before.onnx")
    compact_graph(folder / "before.onnx", folder / "after.onnx", storage)
    feeds = {"ids": np.arange(700), "eye": np.eye(128, dtype=np.float32), "wide": np.eye(600, dtype=np.float32)}
    sessions = [onnxruntime.InferenceSession(folder / f"{name}.onnx") for name in ("before", "after")]
    return weights, *(session.run(None, feeds) for session in sessions)


@pytest.mark.parametrize("storage", [Storage("8", 8, 8), Storage("11", 10, 11)])
def test_stored_weights_are_at_most_half_a_step_away(tmp_path, storage):
    weights, _, after = stored(tmp_path, storage)
    columns = {"matrix": (weights["matrix"].reshape(2, 64, 600), 1), "odd": (weights["odd"][None], 1)}
    for name, found in zip(("table", "table", "matrix", "odd"), after, strict=True):
        bits = storage.embeddings if name == "table" else storage.matrices
        blocks, axis = columns.get(name, (weights["table"], 1))
        step = np.abs(blocks).max(axis=axis, keepdims=True) / (2 ** (bits - 1) - 1)
        difference = np.abs(found.reshape(blocks.shape) - blocks)
        assert (difference <= 0.5001 * step + 1e-7).all() and difference.max() > 0.3 * step.min()
    sizes = [(tmp_path / f"{name}.onnx").stat().st_size for name in ("before", "after")]
    assert sizes[1] < sizes[0] * (0.3 if storage.matrices == 8 else 0.55)


def test_float16_is_rounded_alone(tmp_path):
    _, before, after = stored(tmp_path, Storage("float16", 16, 16))
    for one, other in zip(before, after, strict=True):
        assert np.array_equal(one.astype(np.float16).astype(np.float32), other)


@pytest.fixture(scope="module", autouse=True)
def traced_once(tmp_path_factory):
    """Tracing takes seconds, and most tests export the same model."""
    root, write = tmp_path_factory.mktemp("graphs"), exporting.write_graph

    def once(path: Path, model, graph, inputs, outputs) -> Path:
        kept = root / f"{Path(model.name_or_path).name}-{len(outputs)}.onnx"
        return shutil.copyfile(kept if kept.exists() else write(kept, model, graph, inputs, outputs), path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exporting, "write_graph", once)
        yield


@pytest.fixture(scope="module")
def page(folders, tmp_path_factory):
    """page("text"): the written folder, with the npm packages in it."""
    written = {}

    def write(name: str) -> Path:
        if not (MODULES / "onnxruntime-web").is_dir():
            install = "npm install onnxruntime-web@1.30.0 @huggingface/tokenizers@0.2.0"
            pytest.skip(f"no npm packages: `{install}`, and name node_modules with HF_EMOTION_NODE_MODULES")
        if name not in written:
            written[name] = tmp_path_factory.mktemp("page") / name
            with torch_threads(1):
                export_web(folders[name], written[name], MODULES, texts=[TEXT])
        return written[name]

    return write


def test_what_is_written(folders, tmp_path, monkeypatch):
    agreed = iter([["joy"], ["anger"], ["joy"]])  # of torch, of int8, of int11
    monkeypatch.setattr(browser_module, "_decisions", lambda model, texts: next(agreed))
    output = tmp_path / "page"
    with torch_threads(1):
        done = export_web(folders["text"], output, texts=[TEXT])
    assert done["agreement"] == {"int8": 0.0, "int11": 1.0} and done["storage"] == "int11"
    facts, config = json.loads((output / FACTS).read_text()), Predictor(folders["text"]).model.config
    assert facts["thresholds"] == pytest.approx(config.thresholds) and facts["labels"] == [*config.id2label.values()]
    for entry in facts["files"].values():
        content = (output / entry["name"]).read_bytes()
        assert len(content) == entry["bytes"]
        plain = gzip.decompress(content) if entry["name"].endswith(".gz") else content
        assert entry["integrity"] == "sha384-" + base64.b64encode(hashlib.sha384(plain).digest()).decode()
    for role, entry in facts["runtimes"]["wasm"].items():
        assert re.fullmatch(r"https://cdn\.jsdelivr\.net/npm/\S+@\d+\.\d+\.\d+/dist/\S+", entry["url"])
        assert entry["integrity"] == RUNTIMES["wasm"][role]["integrity"]
    html = (output / "index.html").read_text(encoding="utf-8")
    policy = dict(part.split(" ", 1) for part in re.search('Policy" content="(.*?)"', html)[1].split("; "))
    assert policy["default-src"] == "'none'" and "unsafe-inline" not in html
    assert "unsafe-eval'" not in str(policy).replace("wasm-unsafe-eval'", "")
    packages = ("onnxruntime-web@1.30.0", "@huggingface/tokenizers@0.2.0")
    places = {f"https://cdn.jsdelivr.net/npm/{package}/dist/" for package in packages}
    assert set(policy["connect-src"].split()) == {"'self'", *places}
    for kind in ("script", "style"):
        for one in re.findall(f"<{kind}>(.*?)</{kind}>", html, re.S):
            assert base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() in policy[f"{kind}-src"]
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|localStorage|cookie|eval\(", html)


def test_what_a_page_from_a_disk_reads_comes_with_the_packages(folders, tmp_path, monkeypatch):
    path = next(iter(RUNTIMES["wasm"].values()))["path"]
    vendored = {path: ("vendor/a.js.gz", gzip.compress(b"program"))}
    monkeypatch.setattr(browser_module, "_vendored", lambda modules: vendored)
    output, texts = tmp_path / "page", write_texts(tmp_path)
    with torch_threads(1):
        printed = invoke(
            "export", folders["text"], "--web", output, "--vendor", tmp_path, "--texts", texts, "--escape-formulas"
        )
    assert json.loads((output / FACTS).read_text())["escape_formulas"] is True
    assert f"open {output / 'index.html'}" in printed and "file/: " in printed and "http.server" not in printed
    for name in ("model.onnx.gz", "tokenizer.json", FACTS, "vendor/a.js.gz"):
        script = (output / "file" / f"{name}.js").read_text()
        assert base64.b64decode(re.search("'(.*)'", script)[1]) == (output / name).read_bytes()


def test_a_static_space(folders, tmp_path):
    output = tmp_path / "page"
    with torch_threads(1):
        printed = invoke("export", folders["text"], "--web", output, "--texts", write_texts(tmp_path))
    assert f"python -m http.server -d {output}\n" in printed and not (output / "file").exists()
    lines = invoke("push", output, "--repo-id", "me/page", "--space", "--license", "CC0-1.0", "--dry-run")
    names = {line.split()[-1] for line in lines.splitlines() if line[:1] == " "} - {"files"}
    assert names == {*files_in(output), "README.md"}
    browser_module.write_space(output, tmp_path / "space", "me/page", "CC0-1.0")
    header = (tmp_path / "space" / "README.md").read_text().split("---\n")[1]
    assert 'sdk: "static"' in header and 'license: "cc0-1.0"' in header and 'title: "page"' in header


def write_texts(folder: Path) -> Path:
    (folder / "texts.txt").write_text(f"{TEXT}\nrain\n", encoding="utf-8")
    return folder / "texts.txt"


def test_what_gets_no_page(folders, tmp_path, monkeypatch):
    columns = {"utterances": [["a"]], "speakers": [["b"]], "labels": [[0]]}
    rows = mark(Dataset.from_dict(columns), "dialogue-emotion")
    monkeypatch.setattr(browser_module, "load_split", lambda *_, **options: rows)
    for model, options, told in (
        *((model, {"texts": [TEXT]}, "this model reads") for model in ("dialogue", "targeted")),
        ("text", {"texts": [TEXT], "dataset": "quickstart"}, "`texts` or on a `dataset`"),
        ("text", {"options": {"seed": 1}}, "`texts` or on a `dataset`"),
        ("text", {"dataset": "meld"}, "name a corpus of texts"),
    ):
        with pytest.raises(ValueError, match=told):
            export_web(folders[model], tmp_path / "page", **options)
        assert not (tmp_path / "page").exists()


def test_another_version_of_a_program_is_refused(folders, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"npm install .*@\d"):
        export_web(folders["text"], tmp_path / "page", vendor=tmp_path)
    for program in (one for runtime in RUNTIMES.values() for one in runtime.values()):
        source = tmp_path / re.sub(r"@[\d.]+/", "/", program["path"])
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text("changed")
    with pytest.raises(ValueError, match="another version, or changed"):
        export_web(folders["text"], tmp_path / "page", vendor=tmp_path)


class _Handler(http.server.SimpleHTTPRequestHandler):
    broken = ""  # of this file half arrives

    def log_message(self, *_):
        pass

    def copyfile(self, source, outputfile):
        content = source.read()
        outputfile.write(content[: len(content) // 2] if self.broken and self.broken in self.path else content)


@pytest.fixture
def serve():
    """serve(folder): the address of a plain static server; `serve.stop()` ends it."""
    servers = []

    def start(folder: Path) -> str:
        handler = functools.partial(_Handler, directory=folder)
        servers.append(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler))
        threading.Thread(target=servers[-1].serve_forever, args=(0.01,), daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}/"

    def stop() -> None:
        while servers:
            servers[-1].shutdown()
            servers.pop().server_close()

    start.stop = stop
    yield start
    stop()


def ready(visit, url: str, **options):
    seen = visit(url, **options)
    seen.tab.locator("#ask:enabled").wait_for()
    return seen


def predict(tab, texts, **options):
    return tab.evaluate("([texts, options]) => model.predict(texts, options)", [list(texts), options])


@pytest.mark.parametrize("name", ["text", "single"])
def test_the_same_answers_as_python(page, serve, visit, folders, name):
    seen = ready(visit, serve(page(name)))
    texts = [TEXT, "anger", LONG, *ODD[:-1], " ".join(random.Random(0).choices(LONG.split(), k=200))]
    predictor = Predictor(folders[name])
    for one, other in zip(predict(seen.tab, texts), predictor(texts), strict=True):
        assert [label["label"] for label in one] == [label["label"] for label in other]
        assert [label["score"] for label in one] == pytest.approx([label["score"] for label in other], abs=1e-3)
    probabilities = predictor.probabilities(texts)
    for details, row in zip(predict(seen.tab, texts, details=True), probabilities, strict=True):
        assert [*details["scores"].values()] == pytest.approx(row.tolist(), abs=1e-3)
        for values in details["attention"].values():
            assert len(values) == len(details["words"]) and 0 < sum(values) < 1  # the rest is on special tokens
    book = (LONG * 200)[:200_000]
    (one,), (other,) = predict(seen.tab, [book]), predictor([book])
    assert [label["score"] for label in one] == pytest.approx([label["score"] for label in other], abs=1e-3)
    assert predict(seen.tab, ["", "\ud800", TEXT], onBad="skip")[:2] == [None, None]
    told = seen.tab.evaluate("model.predict(['a', ' ']).catch((error) => error.message)")
    assert told.startswith("text 2 of 2 is empty")
    assert seen.complaints == []


def test_the_same_terms_as_python(page, serve, visit, folders):
    seen = ready(visit, serve(page("terms")))
    texts = [TEXT, LONG, *ODD[:-1]]
    for text, one, other in zip(texts, predict(seen.tab, texts), load_predictor(folders["terms"])(texts), strict=True):
        assert [(term["term"], term["label"]) for term in one] == [(term["term"], term["label"]) for term in other]
        assert [term["score"] for term in one] == pytest.approx([term["score"] for term in other], abs=1e-3)
        places = [(len(text[: term["start"]].encode("utf-16-le")) // 2, term["term"]) for term in other]
        assert [(term["start"], term["term"]) for term in one] == places


def test_from_a_disk_and_what_is_typed_is_text(page, visit):
    seen = ready(visit, (page("text") / "index.html").as_uri())
    seen.tab.locator("#text").fill(HOSTILE)
    seen.tab.locator("#text").press("Control+Enter")
    seen.tab.locator("#answer").wait_for()
    assert HOSTILE in seen.tab.locator("#shown").inner_text()
    assert seen.tab.evaluate("typeof window.hacked") == "undefined" and seen.complaints == []
    assert [address for address in seen.asked if not address.startswith(("file:", "blob:", "data:"))] == []


def test_again_without_a_network(page, serve, visit):
    seen = ready(visit, serve(page("text")))
    threads = "crossOriginIsolated || navigator.hardwareConcurrency === 1"  # the host sends no headers for that
    assert seen.tab.evaluate(threads) and predict(seen.tab, [TEXT])
    seen.tab.evaluate("navigator.serviceWorker.ready")
    serve.stop()
    seen.tab.reload()
    seen.tab.locator("#ask:enabled").wait_for()
    assert seen.tab.evaluate(threads) and predict(seen.tab, [TEXT])


@pytest.mark.parametrize("escaped", [False, True])
def test_a_column_of_texts(page, serve, visit, tmp_path, escaped):
    folder = shutil.copytree(page("text"), tmp_path / "page")
    facts = json.loads((folder / FACTS).read_text())
    (folder / FACTS).write_text(json.dumps(facts | {"escape_formulas": escaped}))
    tab = ready(visit, serve(folder), viewport={"width": 390, "height": 800}).tab
    tab.locator("#lines").check()
    tab.locator("#text").fill(f'{TEXT}\n\n=1, "rain"\n')
    tab.locator("#ask").click()
    tab.locator("#answers").wait_for()
    assert tab.locator("#answers tbody tr").count() == 3
    with tab.expect_download() as download:
        tab.get_by_role("button", name="Download CSV").click()
    lines = Path(download.value.path()).read_text(encoding="utf-8").splitlines()
    assert len(lines) == 4 and lines[2].startswith(",,,")
    assert lines[3].startswith('"\'=1, ""rain"""' if escaped else '"=1, ""rain"""')
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    tab.locator("#answers tbody button").first.click()
    tab.locator("#answer").wait_for()


def test_the_page_says_what_the_model_cannot_read(page, serve, visit, folders, tmp_path):
    page("text")  # skips without the npm packages
    model = shutil.copytree(folders["text"], tmp_path / "text")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"languages": ["en"]}))
    with torch_threads(1):
        export_web(model, tmp_path / "page", MODULES, texts=[TEXT])
    tab = ready(visit, serve(tmp_path / "page")).tab
    texts = [
        "Ich bin stinksauer, niemand geht ans Telefon.",
        "今日はとても悲しい一日だった。",
        "it was not a good day for them",
        "I am happy, I am on call on Monday",
        "xkcd qwfp zxcv brst ghjk lmnp",
    ]
    found = tab.evaluate("(texts) => model.unread(texts)", texts)
    assert [one["language"] for one in found] == ["de", "ja", None, None, None]
    # As Python: a list of frequent words agreed on 0.85.
    rows = [row["text"] for part in ("languages", "plain_sentences") for _, row in packaged_rows(part, "test")]
    own = [one["language"] for one in tab.evaluate("(texts) => model.unread(texts)", rows)]
    assert np.mean(np.array(own, object) == foreign_languages(rows, ["en"])) > 0.92
    expected = Predictor(folders["text"]).encode(texts).unread.unknown.tolist()
    assert [one["unknown"] for one in found] == pytest.approx(expected, abs=1e-4)
    tab.locator("#text").fill(texts[0])
    tab.locator("#ask").click()
    tab.locator("#answer").wait_for()
    assert "The text is probably in German, and the model reads English" in tab.locator("#notes").inner_text()


def test_prediction_sets_show_the_threshold_that_decides(page, serve, visit, tmp_path):
    folder = tmp_path / "page"
    shutil.copytree(page("single"), folder)
    facts = json.loads((folder / FACTS).read_text())
    (folder / FACTS).write_text(json.dumps(facts | {"prediction_sets": 0.07}))
    tab = ready(visit, serve(folder)).tab
    tab.locator("#text").fill(TEXT)
    tab.locator("#ask").click()
    tab.locator("#answer").wait_for()
    assert set(tab.locator("#table tbody tr td:last-child").all_inner_texts()) == {"0.07"}
    chosen = [label["label"] for label in predict(tab, [TEXT])[0]]
    assert [f"{label} ✓" for label in chosen] == tab.locator("#table .predicted th").all_inner_texts()


def test_a_signal_that_was_aborted_before(page, serve, visit):
    tab = ready(visit, serve(page("text"))).tab
    told = "model.predict(['a'], { signal: AbortSignal.abort() }).catch((error) => error.name)"
    assert tab.evaluate(told) == "AbortError"


def test_what_breaks_is_told(page, serve, visit, tmp_path, monkeypatch):
    folder = tmp_path / "page"
    shutil.copytree(page("text"), folder)
    facts = json.loads((folder / FACTS).read_text())
    graph = (folder / "model.onnx.gz").read_bytes()
    for change, told in (("format", "format 99"), ("content", "damaged or of another export"), ("half", "try again")):
        (folder / FACTS).write_text(json.dumps(facts | ({"format": 99} if change == "format" else {})))
        (folder / "model.onnx.gz").write_bytes(gzip.compress(b"other") if change == "content" else graph)
        if change == "half":
            monkeypatch.setattr(_Handler, "broken", "model.onnx.gz")
        tab = visit(serve(folder)).tab
        problem = tab.get_by_role("alert")
        problem.filter(has_text=told).wait_for()
    monkeypatch.setattr(_Handler, "broken", "")
    tab.get_by_role("button", name="Load again").click()
    tab.locator("#ask:enabled").wait_for()
    assert not problem.is_visible()
