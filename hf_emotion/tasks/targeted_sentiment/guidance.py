# SPDX-License-Identifier: Apache-2.0
"""
Measures what contexts do inside a trained CG-BERT or QACG-BERT: the observations of section 4.6 (figure 4), as numbers.
Counts rows of a split whose label is not "none", all layers and heads, real tokens only.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm.auto import tqdm

from ...data.splits import label_names
from ...modeling.text_processing import model_inputs
from ...run_report import RunReport
from ..loading import load_split
from .loading import context_names, is_none
from .predictor import TargetedPredictor


BINS = 50  # bins of a histogram


def of_run(report: RunReport, run: Path, split: str, data_dir: str | Path | None) -> dict[str, Any]:
    """`describe`, with a histogram for each NAME."""
    rows, values = collect(run, report.dataset, data_dir, split, options=report.dataset_options)
    return describe(rows, values) | {"histograms": {name: histogram(layers) for name, layers in values.items()}}


def collect(
    checkpoint: str | Path,
    dataset: str,
    data_dir: str | Path | None = None,
    split: str = "test",
    rows: int = 200,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
) -> tuple[int, dict[str, list[np.ndarray]]]:
    """
    The number of rows with an opinion in a random sample (the paper's figure 4 has 200), and NAME -> for each layer all values in them, flat.
    NAME is `query_gate` and `key_gate` (λ_Q, λ_K) for CG-BERT; `context_gate` (λ_A), `attention` (A_self), `quasi_attention` (A_quasi) and
    `combined_attention` (Â) for QACG-BERT.
    """
    predictor = TargetedPredictor(checkpoint)
    config = predictor.model.config
    if not hasattr(config, "num_contexts"):
        raise ValueError(f"{checkpoint} has no gates: it is neither a CG-BERT nor a QACG-BERT.")
    data = load_split(dataset, split, data_dir, **(options or {}))
    labels, (targets, aspects) = label_names(data), context_names(data)
    opinions = np.flatnonzero([not is_none(labels[i]) for i in data["labels"]])
    if not len(opinions):
        raise ValueError(f"{dataset} {split} has no row with an opinion.")
    chosen = np.sort(np.random.default_rng(seed).permutation(opinions)[:rows])
    values: dict[str, list[list[torch.Tensor]]] = {}  # name -> layer -> one tensor per row
    for row in tqdm(data.select(chosen), unit="rows", disable=None):
        target = None if targets is None else targets[row["target"]]
        text, auxiliary, context_id = model_inputs(config, row["text"], target, aspects[row["aspect"]])
        segments = [[text]] if auxiliary is None else [[text], [auxiliary]]
        inputs = predictor.tokenizer(
            *segments, truncation="only_first", max_length=predictor.max_length, return_tensors="pt"
        )
        context_ids = torch.tensor([context_id], device=predictor.model.device)
        with torch.inference_mode():
            outputs = predictor.model(
                **inputs.to(predictor.model.device), context_ids=context_ids, output_attentions=True
            )
        if "quasi_attentions" in outputs:
            found = {
                "context_gate": outputs.context_gates,
                "attention": outputs.attentions,
                "quasi_attention": outputs.quasi_attentions,
                "combined_attention": outputs.combined_attentions,
            }
        else:
            found = {
                name: [gate[..., i] for gate in outputs.context_gates]
                for i, name in enumerate(["query_gate", "key_gate"])
            }
        for name, layers in found.items():
            by_layer = values.setdefault(name, [[] for _ in layers])
            for kept, layer in zip(by_layer, layers, strict=True):
                kept.append(layer.flatten().float().cpu())
    return len(chosen), {name: [torch.cat(parts).numpy() for parts in by_layer] for name, by_layer in values.items()}


def describe(rows: int, values: dict[str, list[np.ndarray]]) -> dict[str, Any]:
    """
    Summarise what `collect` returns.

    Returns:
        {"rows": n, NAME: {"mean", "std", "negative": share below 0, "quartiles": [.25, .5, .75]}} for each NAME of `collect`;
        `quasi_attention` also has "between_0.25_and_0.5", the share between these bounds. `by_layer`: the mean and the share
        below 0 of each gate in each layer.
    """
    result: dict[str, Any] = {"rows": rows, "by_layer": {}}
    for name, layers in values.items():
        result[name] = _describe(np.concatenate(layers))
        if name.endswith("gate"):
            result["by_layer"][name] = [{part: _describe(x)[part] for part in ("mean", "negative")} for x in layers]
    if "quasi_attention" in values:
        quasi = np.concatenate(values["quasi_attention"])
        result["quasi_attention"]["between_0.25_and_0.5"] = float(((quasi >= 0.25) & (quasi <= 0.5)).mean())
    return result


def histogram(layers: list[np.ndarray]) -> dict[str, list]:
    """The values of all layers in 50 bins: `edges` (51) and `counts` (50). If the values have both signs, 0 is an edge."""
    values = np.concatenate(layers)
    low, high = float(values.min()), float(values.max())
    edges = np.linspace(low, high if high > low else low + 1, BINS + 1)
    if low < 0 < high:  # moved, so that no bar holds both signs
        edges -= edges[1:-1][np.abs(edges[1:-1]).argmin()]
        edges[0], edges[-1] = min(edges[0], low), max(edges[-1], high)
    return {"edges": edges.tolist(), "counts": np.histogram(values, edges)[0].tolist()}


def _describe(array: np.ndarray) -> dict[str, Any]:
    return {
        "mean": float(array.mean(dtype=np.float64)),
        "std": float(array.std(dtype=np.float64)),
        "negative": float((array < 0).mean()),
        "quartiles": [float(value) for value in np.quantile(array, [0.25, 0.5, 0.75])],
    }
