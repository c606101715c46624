# SPDX-License-Identifier: Apache-2.0
"""Turns a finished run with an adapter into the files of a ready model."""

import dataclasses
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from hf_emotion.io.files import creating, refuse_taken, sha256_of, write_json, write_text
from hf_emotion.run_report import RunReport
from hf_emotion.runtime.exported import write_exported_config, write_tokenizer_facts
from hf_emotion.runtime.loading import auto_class_of, read_config, read_tokenizer
from hf_emotion.runtime.onnx import MODEL
from hf_emotion.runtime.ready import (
    ADAPTER,
    ADAPTER_CONFIG,
    CARD,
    FACTS,
    GRAPH,
    HUB_IDS,
    WEIGHTS,
    ReadyModel,
    encoder_file,
)
from hf_emotion.tasks import task_of
from hf_emotion.training.adapters import FOLDER


ENCODER_FILES = ("model.safetensors",)
LARGEST_IN_GRAPH = 1024  # bytes; larger constants are stored beside the graph


def pack(
    run: str | Path,
    output: str | Path,
    description: str,
    terms: str,
    notes: str,
    intensity: float = 1.0,
    generation: Mapping[str, Any] = {},
) -> ReadyModel:
    """
    Write the files of a ready model: the adapter in float16, of a classifier the graph without weights, and the facts about both.

    Args:
        run: a run folder that a recipe with `adapter` wrote, over one of `HUB_IDS`; OSError or ValueError for another.
        output: a new or empty folder (else FileExistsError); its name becomes the model's.
        description, terms: one line each.
        notes: Markdown for the card, below what the run's card says.
        intensity: of a generator with modulated norms, the weight of an emotion in the run that is a weight of 1 in the ready model.
        generation: settings of `generate` that replace the run's.
    """
    run, output = Path(run), Path(output)
    refuse_taken(output)
    adapter = run / FOLDER
    if not (adapter / ADAPTER).is_file():
        raise OSError(f"{run} has no adapter: train it from a recipe with `adapter`.")
    adapter_config = json.loads((adapter / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    encoder = adapter_config["base_model_name_or_path"]
    if encoder not in HUB_IDS.values():
        raise ValueError(f"{run} is an adapter over {encoder!r}; ready models need one of {list(HUB_IDS.values())}.")
    report = RunReport.read(run)
    config = read_config(run)
    task = task_of(config)
    with creating(output) as folder:
        weights = load_file(adapter / ADAPTER)
        for name in weights:
            if name.endswith("emotion_modulation.input_weight"):  # W₁, so that (intensity W₁) c = W₁ (intensity c)
                weights[name] *= intensity
        half = {name: value.astype(np.float16) for name, value in weights.items()}
        save_file(half, folder / ADAPTER, metadata={"format": "pt"})
        write_json(folder / ADAPTER_CONFIG, adapter_config)
        config.name_or_path = ""  # a folder of this machine
        copied = ["tokenizer_config.json"]
        if generates := "generation_config.json" in os.listdir(run):
            copied += ["config.json", "generation_config.json", "chat_template.jinja"]
        else:
            write_exported_config(config, folder)
            write_tokenizer_facts(read_tokenizer(run), folder)
        for name in copied:
            write_text(folder / name, (run / name).read_text(encoding="utf-8"))
        pieces = json.loads((run / "tokenizer.json").read_text(encoding="utf-8"))
        in_one_line = json.dumps(pieces, ensure_ascii=False, separators=(",", ":"))
        write_text(folder / "tokenizer.json", in_one_line)
        if generates:
            settings = json.loads((run / "generation_config.json").read_text(encoding="utf-8"))
            write_json(folder / "generation_config.json", {**settings, **generation})
        card = (run / CARD).read_text(encoding="utf-8").replace(f"# {report.name}\n", f"# {output.name}\n")
        write_text(folder / CARD, f"{card.rstrip()}\n\n{notes.strip()}\n")
        dataclasses.replace(report, name=output.name).write(folder)
        facts: dict[str, Any] = {
            "description": description,
            "task": task.name,
            "auto_class": auto_class_of(config, task.auto_class),
            "model_type": config.model_type,
            "encoder": {
                "id": encoder,
                # A language model from a GGUF file is never the Hub's to the byte.
                "files": {
                    name: None if generates else sha256_of(encoder_file(encoder, name)) for name in ENCODER_FILES
                },
            },
            "prefix": "language_model." if generates else _prefix(half),
            "labels": config.emotions if generates else [config.id2label[i] for i in range(config.num_labels)],
            "terms": terms,
            "files": {},
            "weights": [],
        }
        write_json(folder / FACTS, facts)
        if not generates:
            facts["weights"] = _write_graph(task, ReadyModel(folder), run)
        facts["files"] = {name: sha256_of(folder / name) for name in sorted(os.listdir(folder)) if name != FACTS}
        write_json(folder / FACTS, facts)
    return ReadyModel(output)


def _prefix(names: Iterable[str]) -> str:
    """The prefix of the encoder's parameters in the model, from the names of the adapter's parameters."""
    name = next(name for name in names if ".encoder.layer." in name)
    return name.removeprefix("base_model.model.").partition("encoder.layer.")[0]


def _write_graph(task: Any, model: ReadyModel, run: Path) -> list[tuple[str, bool]]:
    """Write the graph without its weights. Returns the parameters that they are, in order, each with whether it is transposed."""
    import onnx
    import torch
    from onnx import external_data_helper, numpy_helper

    exporter = task.exporter()
    predictor = exporter.load(run)
    weights = model.weights()
    own = predictor.model.state_dict()
    missing = sorted(own.keys() - weights.keys())
    if missing:
        raise ValueError(f"neither the encoder nor the adapter has {missing}: name them in `adapter.modules_to_save`.")
    weights = {name: weights[name] for name in own}
    predictor.model.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    predictor.model.float().cpu().eval()
    exporter.write(predictor, model.folder)
    graph = onnx.load(model.folder / MODEL)
    by_bytes: dict[bytes, tuple[str, bool]] = {}
    for name, value in weights.items():
        if value.ndim == 2:
            by_bytes[np.ascontiguousarray(value.T).tobytes()] = (name, True)
    for name, value in weights.items():  # a square matrix fits both ways: not transposed
        by_bytes[value.tobytes()] = (name, False)
    found, offset = [], 0
    for tensor in graph.graph.initializer:
        value = numpy_helper.to_array(tensor)
        content = value.tobytes()
        if len(content) <= LARGEST_IN_GRAPH or value.dtype != np.float32:
            continue
        if content not in by_bytes:
            raise ValueError(
                f"the graph has a constant {tensor.name} of {len(content)} bytes that is not a parameter."
            )
        found.append(by_bytes[content])
        external_data_helper.set_external_data(tensor, WEIGHTS, offset, len(content))
        tensor.ClearField("raw_data")
        offset += len(content)
    (model.folder / GRAPH).write_bytes(graph.SerializeToString())
    (model.folder / MODEL).unlink()
    return found
