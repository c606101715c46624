# SPDX-License-Identifier: Apache-2.0
"""
Writes checkpoints as ONNX graphs, and compares the graphs with torch.

Here "model" means what `Exporter.load` returns, a predictor or the like, with the attributes `model` and `tokenizer`; "items" are
what its task predicts: texts, dialogues, contexts. Shapes: N rows, C labels.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

import numpy as np
import torch

from ..runtime.graphs import recording, write_graph
from ..runtime.onnx import MODEL
from ..runtime.plain import text_processing


if TYPE_CHECKING:
    from datasets import Dataset


COMPARED = ("quickstart", "everyday", "review_terms")  # packaged texts for pages in the browser
ALONE = 64  # items that are compared with themselves alone
EXAMPLE = "a day at home"  # a graph must be traced with more than one token


def distinct_texts(rows: "Dataset") -> list[str]:
    return list(dict.fromkeys(rows["text"]))


def filled(lines: Sequence[str]) -> list[str]:
    return [line for line in lines if line]


class Comparison(TypedDict):
    """How far the logits of an exported model are from those of its checkpoint."""

    texts: int
    batch_sizes: list[int]
    lengths: list[int]
    rows: int
    labels: int
    largest_logit: float
    max_logit_difference: float
    other_decisions: int
    max_score_change: NotRequired[float]
    """The largest change of a score between a text by itself and in a batch; not for replies."""


@dataclass(frozen=True, kw_only=True)
class Exporter:
    """
    The functions by which the checkpoints of a task are exported.

    Attributes:
        load: checkpoint -> the model.
        load_exported: folder -> the model with the exported graphs.
        write: (model, folder) -> the paths of the graphs that it writes there; it may also write other files that the
            exported model needs, besides configuration and tokenizer.
        write_browser: as `write`, the graph that the page in the browser runs; None for a task without such a page.
        examples: texts to try there.
        compare: (model, exported model, items) -> their entry in parity.json.
        works: (model, exported model, items) -> two functions without arguments, which do the same work with each model, to
            be timed.
        timed: the number of items for this work; with fewer it is not timed.
        measured: whether `evaluate` can measure an exported model.
        of_rows: rows of the task -> items.
        of_texts: distinct texts -> items.
        of_lines: lines of a file, stripped -> items.
    """

    load: Callable[[Any], Any]
    load_exported: Callable[[Path], Any]
    write: Callable[[Any, Path], list[Path]]
    compare: Callable[[Any, Any, Sequence], Comparison]
    works: Callable[[Any, Any, Sequence], list[Callable[[], Any]]]
    write_browser: Callable[[Any, Path], list[Path]] | None = None
    examples: Sequence[str] = ()
    timed: int = 128
    measured: bool = True
    of_rows: "Callable[[Dataset], list]" = distinct_texts
    of_texts: Callable[[list[str]], list] = list
    of_lines: Callable[[Sequence[str]], list] = filled


def classifier_exporter(
    load: Callable[[Any], Any],
    run: Callable[[Any, Sequence, bool], np.ndarray],
    write: Callable[[Any, Path], list[Path]],
    **fields: Any,
) -> Exporter:
    """
    The exporter for a task whose predictors give logits. `load` takes exported folders, too; `run`, (predictor, items, progress), gives the
    scores of all items, from the predictor's own batches; `fields` are others of `Exporter`.
    """
    return Exporter(
        load=load,
        load_exported=load,
        write=write,
        compare=partial(compare_classifiers, run=run),
        works=lambda predictor, exported, items: [partial(run, one, items, False) for one in (predictor, exported)],
        **fields,
    )


def write_classifier(
    predictor: Any,
    folder: Path,
    run: Callable[[Any, Sequence, bool], Any],
    example: Sequence,
    complete: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]] = dict,
    outputs: Sequence[str] = ("logits",),
) -> list[Path]:
    """
    Write one graph, from the model's inputs to its outputs. It is traced with the items in `example`. `complete` turns the
    predictor's inputs into those of the graph.
    """
    model = predictor.model
    with recording(predictor) as calls:
        run(predictor, example, False)
    inputs, _ = calls[0]

    def graph(inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        results = model(**inputs)
        return tuple(results[name] for name in outputs)

    return [write_graph(folder / MODEL, model, graph, complete(inputs), outputs)]


def compare_classifiers(
    predictor: Any, exported: Any, items: Sequence, run: Callable[[Any, Sequence, bool], np.ndarray]
) -> Comparison:
    """Run the same items through both, each with its own tokenizer: in large batches, then a few one at a time."""
    calls = []
    for one in (predictor, exported):
        with recording(one) as recorded:
            run(one, items, True)
            for item in items[:8]:
                run(one, [item], False)
        calls.append(recorded)
    first = [next(iter(inputs.values())) for inputs, _ in calls[0]]
    # Padding after a dialogue has meaningless logits, but both models give the same.
    together = run(exported, items[:ALONE], False)
    alone = np.concatenate([run(exported, [item], False) for item in items[:ALONE]])
    sizes = (-1, predictor.model.config.num_labels)
    ours, theirs = (torch.cat([logits.reshape(sizes) for _, logits in recorded]) for recorded in calls)
    return {
        "texts": len(items),
        "batch_sizes": least_and_most(tensor.shape[0] for tensor in first),
        "lengths": least_and_most(tensor.shape[1] for tensor in first),
        "rows": len(ours),
        "labels": ours.shape[1],
        "largest_logit": ours.abs().max().item(),
        "max_logit_difference": (ours - theirs).abs().max().item(),
        "other_decisions": int((_decide(predictor, ours) != _decide(predictor, theirs)).any(dim=1).sum()),
        "max_score_change": float(np.abs(together - alone).max()),
    }


def least_and_most(values: Iterable[int]) -> list[int]:
    values = list(values)
    return [min(values), max(values)]


def _decide(predictor: Any, logits: torch.Tensor) -> torch.Tensor:
    """(N, C) logits -> (N, C) bool, or (N, 1) the number of the most probable label."""
    if predictor.multi_label:
        logits = logits / text_processing.temperature_of(predictor.model.config)
        return logits.sigmoid() > torch.from_numpy(predictor.thresholds)
    return logits.argmax(dim=1, keepdim=True)
