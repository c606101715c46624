# SPDX-License-Identifier: Apache-2.0
"""
P10: peak memory of `hf-emotion predict --input` on a short and on a long file, each in its own process, with a small model: memory
must not grow with the rows.

    python benchmarks/bulk_memory.py --rows 10000 1000000
"""

import argparse
import csv
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from measuring import parse, peak_memory, result, save
from texts import save_untrained, synthetic_texts
from transformers import BertConfig, BertModel

from hf_emotion.runtime.base_models import load_base_tokenizer


def save_small_base(folder: Path, tokenizer_of: str) -> Path:
    """Save a small BERT with the tokenizer of another model."""
    tokenizer = load_base_tokenizer(tokenizer_of)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=len(tokenizer), **sizes)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def write_texts(path: Path, rows: int) -> Path:
    texts = synthetic_texts(min(rows, 10_000))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text"])
        writer.writerows([row, f"{texts[row % len(texts)]} {row}"] for row in range(rows))
    return path


def main(argv: Sequence[str] | None = None) -> list[dict]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rows", type=int, nargs=2, default=[2000, 50_000], help="rows of the short and of the long file"
    )
    parser.add_argument("--base-model", default="minilm", help="whose tokenizer is used")
    arguments = parse(parser, argv, pairs=1)
    short, long = arguments.rows
    peaks: dict[int, list[float]] = {short: [], long: []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        base = save_small_base(folder / "base", arguments.base_model)
        checkpoint = save_untrained(folder / "checkpoint", str(base), "label-aware-bert")
        files = {rows: write_texts(folder / f"{rows}.csv", rows) for rows in peaks}
        for number in range(arguments.pairs):
            for rows, source in files.items():
                output = folder / f"{rows}-{number}.jsonl"
                command = [sys.executable, "-m", "hf_emotion", "predict", checkpoint, "--input", source]
                peaks[rows].append(peak_memory([*command, "--output", output]))
                with output.open(encoding="utf-8") as lines:
                    assert sum(1 for _ in lines) == rows
                output.unlink()
    more = [b - a for a, b in zip(*peaks.values(), strict=True)]
    work = "peak memory of predict --input,"
    rows = [
        result("P10", f"{work} {short:,} rows", peaks[short], "MiB"),
        result("P10", f"{work} {long:,} rows less {short:,} rows", more, "MiB", at_most=200),
    ]
    save(arguments, rows)
    return rows


if __name__ == "__main__":
    main()
