# SPDX-License-Identifier: Apache-2.0
"""
A page of `hf-emotion export MODEL --web FOLDER --vendor NODE_MODULES` in headless Chromium: bytes, seconds, memory, and its answers against
Python's over the texts of a corpus. Needs playwright and Chromium.

    python -m benchmarks.browser goemotions FOLDER --dataset goemotions --data-dir DATA --output benchmarks/browser.json
"""

import argparse
import functools
import gzip
import http.server
import json
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from benchmarks.measuring import machine, recorded
from hf_emotion.inference import load_predictor
from hf_emotion.io.files import write_json
from hf_emotion.runtime.onnx import MODEL
from hf_emotion.runtime.ready import for_prediction
from hf_emotion.tasks.loading import load_split


class Quiet(http.server.SimpleHTTPRequestHandler):
    sent = 0

    def log_message(self, *_):
        pass

    def copyfile(self, source, outputfile):
        content = source.read()
        Quiet.sent += len(content)
        outputfile.write(content)


def compared(answers: list, expected: list) -> dict[str, float]:
    """Share of the texts with the same labels, or terms, and how far their scores are from each other."""

    def scores_of(answer: list[dict]) -> dict:
        found: dict = {}
        for one in answer:
            found.setdefault((one["label"], one.get("term")), []).append(one["score"])
        return found

    pairs = [(scores_of(a), scores_of(b)) for a, b in zip(answers, expected, strict=True)]
    counts = [({k: len(v) for k, v in a.items()}, {k: len(v) for k, v in b.items()}) for a, b in pairs]
    distances = [
        abs(x - y) for a, b in pairs for key in a.keys() & b.keys() for x, y in zip(a[key], b[key], strict=False)
    ]
    return {
        "percent_same_labels": 100 * sum(a == b for a, b in counts) / len(answers),
        "largest_difference_of_scores": max(distances),
        "mean_difference_of_scores": sum(distances) / len(distances),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dataset", default="goemotions")
    parser.add_argument("--split", default="test")
    parser.add_argument("--data-dir")
    parser.add_argument("--rows", type=int, help="the first rows alone")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    texts = list(load_split(arguments.dataset, arguments.split, arguments.data_dir)["text"])[: arguments.rows]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=arguments.folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    facts = json.loads((arguments.folder / "model.json").read_text(encoding="utf-8"))
    found = {"storage": facts["storage"], **machine(1), "load": os.getloadavg()[0]}
    found["percent_same_labels_on_validation"] = {name: 100 * share for name, share in facts["agreement"].items()}
    with sync_playwright() as start:
        browser = start.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        found["browser"] = browser.version
        tab = browser.new_page()
        tab.set_default_timeout(1_800_000)
        complaints = []
        tab.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        began = time.perf_counter()
        tab.goto(f"http://127.0.0.1:{server.server_port}/")
        tab.locator("#ask:enabled").wait_for()
        found["seconds_until_ready"] = time.perf_counter() - began
        found["megabytes_loaded"] = Quiet.sent / 1e6
        found["seconds_of_first_answer"] = tab.evaluate(
            "async (text) => { const start = performance.now(); await model.predict([text]); return (performance.now() - start) / 1000 }",
            texts[0],
        )
        began = time.perf_counter()
        answers = tab.evaluate("(texts) => model.predict(texts)", texts)
        found["texts_per_second"] = len(texts) / (time.perf_counter() - began)
        session = tab.context.new_cdp_session(tab)
        found["megabytes_of_page_heap"] = session.send("Runtime.getHeapUsage")["usedSize"] / 1e6
        renderers = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
        pages = [
            int(Path(f"/proc/{one['id']}/statm").read_text().split()[1])
            for one in renderers
            if one["type"] == "renderer"
        ]
        found["megabytes_of_memory"] = sum(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6
        server.shutdown()
        server.server_close()
        tab.reload()
        tab.locator("#ask:enabled").wait_for()
        found["ready_again_without_network"] = True
        found["complaints_of_console"] = [one for one in complaints if "Failed to load resource" not in one]
        browser.close()
    found["texts"] = len(texts)
    with tempfile.TemporaryDirectory() as temporary:  # the page's graph in Python
        same = shutil.copytree(for_prediction(arguments.model), Path(temporary, "same"))
        (same / MODEL).write_bytes(gzip.decompress((arguments.folder / "model.onnx.gz").read_bytes()))
        for name, source in (("python", arguments.model), ("same_graph_in_python", same)):
            found[name] = compared(answers, load_predictor(source)(texts))
    print(json.dumps(found, indent=1))
    if arguments.output:
        write_json(arguments.output, recorded(arguments.output) | {f"{arguments.model}, {arguments.dataset}": found})


if __name__ == "__main__":
    main()
