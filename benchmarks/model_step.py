# SPDX-License-Identifier: Apache-2.0
"""
P1-P4: our classifiers against the stock BERT (RoBERTa) classifier with the same encoder: forward pass ("forward"), forward and
backward ("backward"), train step with AdamW ("step"), and the peak memory of a process that trains ("memory", without the
imports). Trainings keep freed memory, as those of `hf-emotion train` do, unless --default-memory. With --naive also the published
formulas without short cuts (naive.py) against stock.

    python benchmarks/model_step.py --model qacg-bert --size base --shape 8x64 --shape 4x128 --naive
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence

import hf_emotion.modeling  # noqa: F401 - registers the Auto classes
import torch
from measuring import interleaved, parse, peak_memory, ratio, save
from naive import naive
from transformers import AutoConfig, AutoModelForSequenceClassification, BertConfig, RobertaConfig


SIZES = {
    "base": {},
    "minilm": {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536},
    "tiny": {
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 128,
        "vocab_size": 2000,
    },
}
EXTRA = {
    "label-aware-bert": {"num_labels": 28},
    "roberta-esa": {"num_labels": 6},
    "qacg-bert": {"num_labels": 3, "num_contexts": 8},
    "cg-bert": {"num_labels": 3, "num_contexts": 8},
}
QUESTIONS = dict(zip(EXTRA, ("P1", "P2", "P3", "P4"), strict=True))
SHAPES = {"label-aware-bert": ["32x32"], "roberta-esa": ["16x64"]}  # 8x64 and 4x128 elsewhere
KINDS = ("forward", "backward", "step", "memory")
AT_MOST = {
    "label-aware-bert": {"step": 1.03, "memory": 1.03},
    "roberta-esa": {"step": 1.08},
    "qacg-bert": {"forward": 1.13, "backward": 1.16, "memory": 1.12},
    "cg-bert": {"forward": 1.12, "backward": 1.12, "memory": 1.12},
}


def build(side: str, model_type: str, size: str, options: dict):
    """The model of a side, "stock", "ours" or "naive"."""
    config = AutoConfig.for_model(model_type, **SIZES[size], **EXTRA[model_type], **options)
    if side == "stock":
        stock_class = RobertaConfig if model_type == "roberta-esa" else BertConfig
        shared = {name: getattr(config, name) for name in SIZES[size]}
        config = stock_class(**shared, num_labels=config.num_labels, problem_type=config.problem_type)
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_config(config)
    return naive(model) if side == "naive" else model


def inputs_for(config, batch_size: int, length: int) -> dict[str, torch.Tensor]:
    """Random rows whose last quarter ends in padding of different lengths."""
    generator = torch.Generator().manual_seed(0)
    lengths = length - torch.arange(batch_size) * (length // 4) // batch_size
    mask = (torch.arange(length) < lengths[:, None]).long()
    inputs = {
        "input_ids": torch.randint(1000, config.vocab_size, (batch_size, length), generator=generator).where(
            mask.bool(), config.pad_token_id
        ),
        "attention_mask": mask,
    }
    if config.problem_type == "multi_label_classification":
        inputs["labels"] = torch.randint(0, 2, (batch_size, config.num_labels), generator=generator).float()
    else:
        inputs["labels"] = torch.randint(0, config.num_labels, (batch_size,), generator=generator)
    if hasattr(config, "num_contexts"):
        inputs["context_ids"] = torch.arange(batch_size) % config.num_contexts
    return inputs


def step_of(model, inputs, kind: str) -> Callable[[], None]:
    """The function to time; "forward" runs without gradients and dropout."""
    if kind == "forward":
        model.eval()

        def forward() -> None:
            with torch.no_grad():
                model(**inputs)

        return forward
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    model.train()

    def train() -> None:
        model(**inputs).loss.backward()
        if kind == "step":
            optimizer.step()
        optimizer.zero_grad(set_to_none=kind == "step")

    return train


def measure(
    model_type: str, shape: str, kind: str, sides: Sequence[str], arguments: argparse.Namespace
) -> dict[str, list[float]]:
    """The seconds of each side, one value per pair; for "memory" one value in MiB."""
    size, options = arguments.size, arguments.options
    if kind == "memory":
        command = [sys.executable, __file__, "--model", model_type, "--size", size, "--shape", shape]
        command += ["--options", json.dumps(options), "--threads", str(torch.get_num_threads()), "--trainer"]
        imports = peak_memory([*command, "imports"])
        return {side: [peak_memory([*command, side]) - imports] for side in sides}
    models = [build(side, model_type, size, options) for side in sides]
    if arguments.compile:
        for model in models:
            model.compile()
    sizes = [int(part) for part in shape.split("x")]
    actions = [step_of(model, inputs_for(model.config, *sizes), kind) for model in models]
    keep_memory = kind != "forward" and not arguments.default_memory
    seconds = interleaved(actions, arguments.pairs, keep_memory=keep_memory)
    return dict(zip(sides, seconds, strict=True))


def main(argv: Sequence[str] | None = None) -> list[dict]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", action="append", choices=EXTRA, help="default: all")
    parser.add_argument("--size", default="base", choices=SIZES)
    parser.add_argument("--shape", action="append", help="BATCHxLENGTH; default: the shapes of the targets")
    parser.add_argument("--kind", action="append", choices=KINDS, help="default: all")
    parser.add_argument("--options", type=json.loads, default={}, help="JSON: fields of our configuration")
    parser.add_argument("--naive", action="store_true", help="also measure naive.py")
    parser.add_argument("--default-memory", action="store_true", help="give freed memory back, as a plain script does")
    parser.add_argument("--compile", action="store_true", help="both sides through torch.compile")
    # "memory" starts this: a process that trains one side and prints nothing.
    parser.add_argument("--trainer", choices=["imports", "stock", "ours", "naive"], help=argparse.SUPPRESS)
    arguments = parse(parser, argv, pairs=9)
    if arguments.trainer is not None:
        if arguments.trainer != "imports":
            model = build(arguments.trainer, arguments.model[0], arguments.size, arguments.options)
            step = step_of(model, inputs_for(model.config, *map(int, arguments.shape[0].split("x"))), "step")
            for _ in range(3):
                step()
        return []
    rows = []
    for model_type in arguments.model or EXTRA:
        question = QUESTIONS[model_type]
        has_naive = arguments.naive and model_type != "roberta-esa"
        for shape in arguments.shape or SHAPES.get(model_type, ["8x64", "4x128"]):
            for kind in arguments.kind or KINDS:
                sides = ["stock", "ours"] + ["naive"] * has_naive
                measured = measure(model_type, shape, kind, sides, arguments)
                name = f"{kind} of {model_type}, {arguments.size}, {shape}"
                if arguments.compile:
                    name += ", both compiled"
                if arguments.default_memory:
                    name += ", freed memory given back"
                if arguments.options:
                    name += f", {', '.join(f'{field}={value}' for field, value in arguments.options.items())}"
                unit = "MiB" if kind == "memory" else "s"
                limit = None if arguments.options or arguments.default_memory else AT_MOST[model_type].get(kind)
                rows.append(ratio(question, name, measured["ours"], measured["stock"], at_most=limit, unit=unit))
                if has_naive:
                    name = f"{name}: the formulas as they stand"
                    rows.append(ratio(question, name, measured["naive"], measured["stock"], unit=unit))
    save(arguments, rows)
    return rows


if __name__ == "__main__":
    main()
