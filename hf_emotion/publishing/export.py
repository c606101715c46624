# SPDX-License-Identifier: Apache-2.0
"""Exports a checkpoint as ONNX graphs for onnxruntime, and compares them with torch before anything is written."""

import importlib.metadata
import logging
import platform
import statistics
import timeit
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

import torch

from ..data.rows import decode
from ..io.extras import require
from ..io.files import creating, refuse_taken, write_json
from ..runs.evaluate import evaluate
from ..runtime.compact import quantize_graph, saturates
from ..runtime.exported import write_exported_config, write_tokenizer_facts
from ..runtime.loading import read_config
from ..runtime.onnx import is_exported
from ..runtime.ready import with_weights
from ..tasks import packaged_corpus, task_of, task_of_rows
from ..tasks.base import Task
from ..tasks.exporting import Comparison, Exporter, distinct_texts
from ..tasks.loading import load_split, options_for, trained_on


TOLERANCE = 1e-4  # largest difference of float32 logits; for logits above 1, relative to the largest
MOST_ITEMS = 1000  # items of a corpus to compare
REPORT = "parity.json"
TIMED_PAIRS = 7

logger = logging.getLogger(__name__)


class Speed(TypedDict):
    texts: int
    threads: int
    machine: str
    times_as_fast_as_torch: float
    quartiles: list[float]


class Parity(TypedDict, total=False):
    """The content of `parity.json`: what was compared for each number type; with `quantize` and a corpus also figures before and after."""

    model_type: str
    dataset: str | None
    dataset_options: dict
    versions: dict[str, str]
    float32: Comparison
    int8: Comparison
    uint8: Comparison
    metrics: dict[str, dict[str, float]]
    speed: Speed  # only if there are enough texts


def export_onnx(
    checkpoint: str | Path,
    output: str | Path,
    quantize: Literal["int8", "uint8"] | None = None,
    texts: Sequence[Any] | None = None,
    dataset: str | None = None,
    split: str = "test",
    data_dir: str | Path | None = None,
    options: dict[str, Any] | None = None,
) -> Parity:
    """
    Write a classifier or a reply generator as ONNX, with dynamic batch and length, and all that its predictor needs:
    configuration with labels, thresholds and aspects, tokenizer, TF-IDF gate. `load_predictor` reads the folder.

    The logits of texts are compared with torch's, in batches of many sizes and lengths. Nothing is written if a float32
    logit differs by more than 1e-4, or, where logits are larger than 1, by more than 1e-4 of the largest.

    Args:
        checkpoint: a local folder or a Hub id.
        output: a new or empty folder.
        quantize: store the weights of matrix products as 8-bit integers, one scale for each channel, and quantize their inputs
            at run time, one scale for each token. "int8" is fast on processors that multiply 8-bit integers (x86 with VNNI, ARM); on
            others its sums saturate, which costs accuracy. "uint8" is slower and accurate on all.
        texts: the texts to compare with; for a model of dialogues lists of (speaker or None, utterance), for a generator
            contexts. Default: the first 1,000 texts of `dataset`, or else the test part of the quickstart corpus.
        dataset, split, data_dir, options: a corpus, see `load_split`; with `quantize` the metrics on it are reported before
            and after.

    Raises:
        ModuleNotFoundError: the extra `onnx` is not installed.
        FileExistsError: `output` is not empty.
        OSError, ValueError: the checkpoint cannot be loaded; the corpus does not fit; the model cannot be exported; the logits differ.
    """
    output, checkpoint = Path(output), exportable(checkpoint, output)
    if texts is not None and quantize is None and (dataset is not None or options):
        raise ValueError("`texts` are compared, only `quantize` measures: leave out `dataset` and `options`.")
    task = task_of(read_config(checkpoint))
    exporter = task.exporter()
    if not exporter.measured and quantize is not None and dataset is not None:
        logger.warning("%s have no metric here: %s is compared only by logits and replies", task.reads, quantize)
    model = exporter.load(checkpoint)
    model.model.float().cpu().eval()
    corpus, of_run = trained_on(model) or (None, {})
    if dataset is not None:
        options = options_for(model, dataset, options)
    if texts is None:
        texts = _items(task, exporter, dataset, split, data_dir, options)
    with creating(output) as folder:
        graphs = exporter.write(model, folder)
        write_settings(model, folder)
        exported = exporter.load_exported(folder)
        report: Parity = {
            "model_type": model.model.config.model_type,
            "dataset": corpus,
            "dataset_options": of_run,
            "versions": {
                name: importlib.metadata.version(name) for name in ("torch", "transformers", "onnx", "onnxruntime")
            },
            "float32": exporter.compare(model, exported, texts),
        }
        largest = report["float32"]["max_logit_difference"]
        allowed = TOLERANCE * max(1.0, report["float32"]["largest_logit"])
        if not largest <= allowed:  # also refuses NaN
            raise ValueError(
                f"the exported model differs from torch: logits by up to {largest:.3g}, allowed are {allowed:.3g}. Try other versions of onnxruntime."
            )
        if quantize is not None:
            if quantize == "int8" and saturates():
                logger.warning(
                    'on this processor the sums of "int8" saturate, which costs accuracy; `quantize` "uint8" is accurate on every processor'
                )
            for path in graphs:
                quantize_graph(path, quantize)
            exported = exporter.load_exported(folder)
            report[quantize] = exporter.compare(model, exported, texts)
            if (change := report[quantize].get("max_score_change", 0.0)) > TOLERANCE:
                logger.warning(
                    "on this processor the other texts of a batch change the scores of a text by up to %.2g", change
                )
            if dataset is not None and exporter.measured:
                before, after = (
                    _figures(evaluate(one, dataset, split, data_dir, options=options)["metrics"])
                    for one in (model, exported)
                )
                report["metrics"] = {name: {"torch": before[name], quantize: after[name]} for name in before}
        if len(texts) >= exporter.timed:
            report["speed"] = _speed(exporter, model, exported, texts[: exporter.timed])
        write_json(folder / REPORT, report)
    return report


def exportable(checkpoint: str | Path, output: str | Path) -> str | Path:
    """The checkpoint; for a ready model its folder. Its errors are those of `export_onnx`: a missing extra, a taken output, an export."""
    for package in ("onnx", "onnxscript", "onnxruntime"):
        require(package, "export", "onnx")
    refuse_taken(Path(output))
    checkpoint = with_weights(checkpoint)
    if is_exported(checkpoint):
        raise ValueError(f"{checkpoint} is exported already: export the checkpoint that it was made from.")
    return checkpoint


def write_settings(model: Any, folder: Path) -> None:
    """Write configuration and tokenizer beside the graphs of a model, which `Exporter.load` returned."""
    write_exported_config(model.model.config, folder)
    model.tokenizer.save_pretrained(folder)
    write_tokenizer_facts(model.tokenizer, folder)


def read_texts(path: Path, checkpoint: str | Path) -> list:
    """The texts of a file, one per line. For dialogues a line is a turn, "SPEAKER: UTTERANCE", and an empty line ends a dialogue."""
    lines = [line.strip() for line in decode(path.read_bytes(), path).split("\n")]
    if not any(lines):
        raise ValueError(f"{path} holds no text: write one per line.")
    return task_of(read_config(with_weights(checkpoint))).exporter().of_lines(lines)


def _items(
    task: Task, exporter: Exporter, dataset: str | None, split: str, data_dir: Any, options: dict[str, Any] | None
) -> list:
    """The items of a corpus (default: the packaged one) to compare with."""
    if dataset is None:
        texts = distinct_texts(load_split(packaged_corpus(), split, None, **(options or {})))
        return exporter.of_texts(texts[:MOST_ITEMS])
    rows = load_split(dataset, split, data_dir, **(options or {}))
    if (other := task_of_rows(rows)) is not task:
        raise ValueError(f"{dataset!r} holds {other.reads}, and the model reads {task.reads}: name one that fits.")
    return exporter.of_rows(rows)[:MOST_ITEMS]


def _figures(results: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """{"decision/metric": value} of an evaluation, without the values of single labels."""
    return {
        f"{decision}/{name}": value
        for decision, values in results.items()
        for name, value in values.items()
        if isinstance(value, float)
    }


def _speed(exporter: Exporter, model: Any, exported: Any, items: Sequence) -> Speed:
    """Time of torch / time of the exported model, alternating in one process with the same number of threads."""
    works = exporter.works(model, exported, items)
    for work in works:
        work()
    ratios = []
    for _ in range(TIMED_PAIRS):
        torch_seconds, onnx_seconds = (timeit.timeit(work, number=1) for work in works)
        ratios.append(torch_seconds / onnx_seconds)
    low, median, high = statistics.quantiles(ratios, n=4)
    return {
        "texts": len(items),
        "threads": torch.get_num_threads(),
        "machine": platform.processor() or platform.machine(),
        "times_as_fast_as_torch": median,
        "quartiles": [low, high],
    }
