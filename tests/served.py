# SPDX-License-Identifier: Apache-2.0
"""The service in a thread, a checkpoint of each kind for it, and a browser. A module asks for them with `pytest_plugins = ["served"]`."""

import json
import shutil
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hf_emotion.modeling import text_processing
from model_cases import BY_ID, asymmetric_
from toolkit_helpers import torch_threads
from transformers import BertConfig, BertForTokenClassification

from hf_emotion.serving.service import build
from hf_emotion.serving.settings import Settings
from hf_emotion.serving.web import Server


TEXT = "I am so happy today , not sad !"
CHECKPOINTS = {"text": "label-aware-pooler-hidden-balanced", "single": "label-aware-single-label"}  # folder: case
CHECKPOINTS |= {"targeted": "qacg-per-head-context-gate-bias", "aspects": "cg"}
CHECKPOINTS |= {"dialogue": "dialogue-model", "replies": "gpt2-mod-ln"}


@pytest.fixture(scope="session")
def folders(tmp_path_factory, tokenizer) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("served")
    for name, case in CHECKPOINTS.items():
        model = BY_ID[case].build(seed=2)
        if name == "text":  # every other label of TEXT passes its threshold
            with torch.no_grad():
                scores = model(**tokenizer(TEXT, return_tensors="pt")).logits[0].sigmoid().tolist()
            model.config.thresholds = [score + (0.05, -0.05)[i % 2] for i, score in enumerate(scores)]
        if name == "replies":  # samples, as trained generators do, and writes words
            model.generation_config.update(do_sample=True, top_k=10, suppress_tokens=[0, 1, 2, 3, 4])
        model.save_pretrained(root / name)
        tokenizer.save_pretrained(root / name)
    tags = dict(enumerate(text_processing.term_tags(["positive", "negative"])))
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    labels = {"id2label": tags, "label2id": {tag: i for i, tag in tags.items()}}
    config = BertConfig(vocab_size=len(tokenizer), **labels, **sizes)
    asymmetric_(BertForTokenClassification(config), seed=3).save_pretrained(root / "terms")
    tokenizer.save_pretrained(root / "terms")
    return {name: root / name for name in (*CHECKPOINTS, "terms")}


@contextmanager
def running(checkpoints: Sequence[Any], max_connections: int = 1000, **options: Any) -> Iterator[tuple[str, Any]]:
    """The service of some checkpoints: its address, and the application. It closes idle connections after a second."""
    with torch_threads(1):
        app = build(Settings(checkpoints=[str(checkpoint) for checkpoint in checkpoints], **options))
    listening = socket.create_server(("127.0.0.1", 0))
    server = Server(app, 30, max_connections)
    server.GRACE, server.IDLE = 0.1, 1.0
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", app
    finally:
        server.should_exit = True
        thread.join()


def send(address: str, path: str, body=None, method: str | None = None, **headers):
    """(status, what the JSON says or the text, headers)"""
    connection = HTTPConnection(address.removeprefix("http://"), timeout=60)
    content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    method = method or ("GET" if body is None else "POST")
    connection.request(method, path, content, {"Content-Type": "application/json", **headers})
    answer = connection.getresponse()
    text = answer.read().decode()
    kind = answer.headers.get("Content-Type", "")
    connection.close()
    return answer.status, json.loads(text) if text and kind.startswith("application/json") else text, answer.headers


@pytest.fixture(scope="module")
def browser() -> Iterator:
    missing = "playwright is not installed: pip install playwright"
    playwright = pytest.importorskip("playwright.sync_api", reason=missing)
    installed = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    with playwright.sync_playwright() as start:
        try:
            found = start.chromium.launch(executable_path=next(filter(None, installed), None), args=["--no-sandbox"])
        except playwright.Error as error:
            install = "apt-get install chromium, or playwright install chromium"
            pytest.skip(f"no Chromium: {install} ({error.message[:80]!r})")
        yield found
        found.close()


@pytest.fixture
def visit(browser):
    """visit(url): a tab, with `asked`, the addresses that it loaded, and `complaints` of the console. Options: `new_page`'s."""
    tabs = []

    def open_tab(url: str, **options: Any) -> SimpleNamespace:
        tab = browser.new_page(**options)
        tab.set_default_timeout(60_000)  # other work may slow the machine
        tabs.append(tab)
        asked, complaints = [], []
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.goto(url)
        return SimpleNamespace(tab=tab, asked=asked, complaints=complaints)

    yield open_tab
    for tab in tabs:
        tab.close()
