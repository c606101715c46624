# SPDX-License-Identifier: Apache-2.0
"""
A page of `hf-emotion export MODEL --web FOLDER --vendor NODE_MODULES` in headless Chromium: bytes, seconds, memory, and its answers against
Python's over the texts of a corpus. Needs playwright and Chromium.

    python -m benchmarks.browser goemotions FOLDER --dataset goemotions --data-dir DATA --output benchmarks/browser.json
"""

import functools
import gzip
import http.server
import os
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Annotated, Any

import psutil
import typer
from playwright.sync_api import sync_playwright

from benchmarks.measuring import machine, put, recorded, seconds


class Handler(http.server.SimpleHTTPRequestHandler):
    sent = 0
    packed: tuple[str, ...] = ()  # endings of files to compress

    def log_message(self, *_):
        pass

    def do_GET(self):
        file = Path(self.translate_path(self.path))
        file = file / "index.html" if file.is_dir() else file
        content = file.read_bytes() if file.is_file() else b""
        self.send_response(200 if file.is_file() else 404)
        if file.suffix in Handler.packed:
            content = gzip.compress(content)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Type", self.guess_type(file))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        Handler.sent += len(content)


def opened(playwright: Any, folder: str | Path) -> tuple[http.server.HTTPServer, Any, str]:
    """A server of the files in a folder, a tab of headless Chromium, and the server's address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    tab = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"]).new_page()
    tab.set_default_timeout(1_800_000)
    return server, tab, f"http://127.0.0.1:{server.server_port}/"


def compared(answers: list, expected: list) -> dict[str, float]:
    """Share of the texts with the same labels, or terms, and how far their scores are from each other."""

    def scores_of(answer: list[dict]) -> dict:
        found: dict = {}
        for one in answer:
            found.setdefault((one["label"], one.get("term")), []).append(one["score"])
        return found

    same, distances = 0, []
    for both in zip(answers, expected, strict=True):
        a, b = map(scores_of, both)
        same += a.keys() == b.keys() and all(len(a[key]) == len(b[key]) for key in a)
        pairs = (pair for key in a.keys() & b.keys() for pair in zip(a[key], b[key], strict=False))
        distances += [abs(x - y) for x, y in pairs]
    return {
        "percent_same_labels": 100 * same / len(answers),
        "largest_difference_of_scores": max(distances),
        "mean_difference_of_scores": sum(distances) / len(distances),
    }


def main(
    model: str,
    folder: Path,
    dataset: str = "goemotions",
    data_dir: Path | None = None,
    rows: Annotated[int | None, typer.Option(help="the first ones of the test part")] = None,
    output: Path | None = None,
) -> None:
    """Measure a page. (The peers' browser has no more of ours than the server above.)"""
    from hf_emotion.inference import load_predictor
    from hf_emotion.runtime.onnx import MODEL
    from hf_emotion.runtime.ready import for_prediction
    from hf_emotion.tasks.loading import load_split

    texts = list(load_split(dataset, "test", data_dir)["text"])[:rows]
    facts = recorded(folder / "model.json")
    found = {"texts": len(texts), "storage": facts["storage"], **machine(1), "load": os.getloadavg()[0]}
    found["percent_same_labels_on_validation"] = {name: 100 * share for name, share in facts["agreement"].items()}
    with sync_playwright() as start:
        server, tab, address = opened(start, folder)
        browser, complaints, answers = tab.context.browser, [], []
        tab.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        ready, predict = tab.locator("#ask:enabled").wait_for, "(texts) => model.predict(texts)"
        found["browser"] = browser.version
        found["seconds_until_ready"] = seconds(lambda: (tab.goto(address), ready()))
        found["megabytes_loaded"] = Handler.sent / 1e6
        found["seconds_of_first_answer"] = seconds(lambda: tab.evaluate(predict, texts[:1]))
        all_texts = seconds(lambda: answers.extend(tab.evaluate(predict, texts)))
        found["texts_per_second"] = len(texts) / all_texts
        heap = tab.context.new_cdp_session(tab).send("Runtime.getHeapUsage")
        found["megabytes_of_page_heap"] = heap["usedSize"] / 1e6
        processes = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
        renderers = (psutil.Process(one["id"]) for one in processes if one["type"] == "renderer")
        found["megabytes_of_memory"] = sum(one.memory_info().rss for one in renderers) / 1e6
        server.shutdown()
        server.server_close()
        tab.reload()
        ready()
        found["ready_again_without_network"] = True
        found["complaints_of_console"] = [one for one in complaints if "Failed to load resource" not in one]
        browser.close()
    with tempfile.TemporaryDirectory() as temporary:  # the page's graph in Python
        same = shutil.copytree(for_prediction(model), Path(temporary, "same"))
        (same / MODEL).write_bytes(gzip.decompress((folder / "model.onnx.gz").read_bytes()))
        for name, source in (("python", model), ("same_graph_in_python", same)):
            found[name] = compared(answers, load_predictor(source)(texts))
    put(output, f"{model}, {dataset}", found)


if __name__ == "__main__":
    typer.run(main)
