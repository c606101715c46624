# SPDX-License-Identifier: Apache-2.0
"""
Texts that ready models label per second of CPU, one thread: the sentences of plain.yaml; for `dialogues` turns, ten in a dialogue. Of three
times the fastest, after one to warm up. `replies` writes instead, so only its size is taken: megabytes of the adapter. What the record holds of
other models stays in it.

    python -m benchmarks.ready_speed goemotions reviews aspects languages replies
"""

import sys
from pathlib import Path

import yaml

from benchmarks.measuring import machine, recorded
from benchmarks.peers import Side, running
from benchmarks.plain import MEASURED
from hf_emotion.io.files import write_json
from hf_emotion.runtime.ready import ADAPTER, find_ready


HERE = Path(__file__).parent
RECORD = HERE / "ready_speed.json"
OURS = """
from hf_emotion.inference import load_predictor
predict = load_predictor(name)
given = [[("A", text) for text in texts[i : i + 10]] for i in range(0, len(texts), 10)] if name == "dialogues" else texts
def run():
    predict(given)
"""

if __name__ == "__main__":
    sentences = yaml.safe_load((HERE / "plain.yaml").read_text(encoding="utf-8"))
    texts = [text for kinds in sentences.values() for of_kind in kinds.values() for text in of_kind]
    for name in sys.argv[1:]:
        measured = {
            "adapter_megabytes": (find_ready(name).folder / ADAPTER).stat().st_size / 1e6,
            "machine": machine(1),
        }
        if name != "replies":
            with running(Side("ours", OURS + MEASURED, {"name": name}), {"texts": texts}, 1) as answer:
                measured |= [answer()[2] for _ in range(4)][-1]
        print(name, measured, flush=True)
        write_json(RECORD, {**recorded(RECORD), name: measured})
