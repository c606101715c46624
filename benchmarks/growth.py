# SPDX-License-Identifier: Apache-2.0
"""
Measures how cost grows with labels, length, batch, layers, emotions and rows: seconds of our model and of the stock peer,
with a PNG for each sweep.

    python benchmarks/growth.py --size minilm --sweep labels --sweep length
"""

import argparse
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib
import torch
from hf_emotion.modeling import GPT2ModLNConfig, GPT2ModLNForConditionalGeneration
from measuring import interleaved, parse, ratio, save
from model_step import SIZES, inputs_for, step_of
from reply_generation import PLAIN, train_step
from texts import save_untrained, synthetic_texts
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer, BertConfig, pipeline

from hf_emotion.tasks.emotion_classification.predictor import Predictor


matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import LogLocator, NullLocator


Sides = dict[str, Callable[[], object]]  # name -> the function to time; the last one is the stock peer


def classifiers(model_type: str, size: str, batch_size: int = 8, length: int = 64, **fields) -> Sides:
    """Train steps of one of our classifiers and of BERT."""
    extra = {"num_contexts": 8} if model_type == "qacg-bert" else {}
    problem = "multi_label_classification" if model_type == "label-aware-bert" else "single_label_classification"
    shared = {**SIZES[size], "num_labels": 3, "problem_type": problem, "max_position_embeddings": 512, **fields}
    configs = {model_type: AutoConfig.for_model(model_type, **shared, **extra), "stock BERT": BertConfig(**shared)}
    sides = {}
    for name, config in configs.items():
        torch.manual_seed(0)
        model = AutoModelForSequenceClassification.from_config(config)
        sides[name] = step_of(model, inputs_for(config, batch_size, length), "step")
    return sides


def generators(size: str, emotions: int) -> Sides:
    sizes = SIZES[size] or {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}
    names = {"hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head"}
    fields = {theirs: sizes[ours] for ours, theirs in names.items()}
    sides = {}
    for name, plain in (("gpt2-mod-ln", {}), ("plain norms", PLAIN)):
        torch.manual_seed(0)
        config = GPT2ModLNConfig(
            **fields, vocab_size=30522, num_emotions=emotions, bos_token_id=0, eos_token_id=0, **plain
        )
        sides[name] = train_step(GPT2ModLNForConditionalGeneration(config), 8, 32)
    return sides


def bulk(checkpoint: Path, rows: int) -> Sides:
    texts = synthetic_texts(rows)
    predictor = Predictor(checkpoint, device="cpu")
    model, tokenizer = (
        AutoModelForSequenceClassification.from_pretrained(checkpoint),
        AutoTokenizer.from_pretrained(checkpoint),
    )
    stock = pipeline("text-classification", model=model, tokenizer=tokenizer)
    labels = len(predictor.labels)
    return {
        "Predictor": lambda: predictor(texts, top_k=labels),
        "stock pipeline": lambda: stock(texts, batch_size=32, top_k=None),
    }


def sweeps(size: str, checkpoint: Path) -> dict[str, tuple[str, list[int], list[int], Callable[[int], Sides]]]:
    """Name -> label of the axis, values, values for a quick look, function from a value to the functions to time."""
    return {
        "labels": (
            "labels (train step, 8 texts of 64 tokens)",
            [28, 100, 300, 1000],
            [28, 100],
            lambda n: classifiers("label-aware-bert", size, num_labels=n),
        ),
        "length": (
            "tokens per text (train step, 8 texts)",
            [32, 64, 128, 256, 512],
            [16, 32],
            lambda n: classifiers("qacg-bert", size, length=n),
        ),
        "batch": (
            "texts per batch (train step, 64 tokens each)",
            [1, 2, 4, 8, 16, 32],
            [1, 2],
            lambda n: classifiers("qacg-bert", size, batch_size=n),
        ),
        "layers": (
            "layers (train step, 8 texts of 64 tokens)",
            [1, 2, 4, 8, 12],
            [1, 2],
            lambda n: classifiers("qacg-bert", size, num_hidden_layers=n),
        ),
        "emotions": (
            "emotions (train step, 8 contexts and replies of 32 tokens)",
            [1, 8, 64, 512],
            [1, 8],
            lambda n: generators(size, n),
        ),
        "rows": (
            "texts (prediction, lengths of GoEmotions)",
            [125, 250, 500, 1000, 2000, 4000],
            [8, 16],
            lambda n: bulk(checkpoint, n),
        ),
    }


def draw(path: Path, label: str, values: list[int], series: dict[str, list[float]]) -> None:
    """
    Plot seconds against the size on logarithmic axes: a straight line of slope 1 is linear growth. If times hardly change, their
    axis is linear and starts at 0.
    """
    figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
    for (name, times), (colour, marker, line) in zip(
        series.items(), (("#0072B2", "o", "-"), ("#D55E00", "s", "--")), strict=True
    ):
        axes.plot(values, times, color=colour, marker=marker, linestyle=line, label=name)
    axes.set(xlabel=label, ylabel="time (s)", xscale="log")
    axes.set_xticks(values, [str(value) for value in values])
    axes.minorticks_off()
    times = [time for one in series.values() for time in one]
    if max(times) < 4 * min(times):
        axes.set_ylim(0, 1.1 * max(times))
    else:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_locator(NullLocator())
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main(argv: Sequence[str] | None = None) -> list[dict]:
    names = list(sweeps("tiny", Path()))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sweep", action="append", choices=names, help="default: all")
    parser.add_argument("--size", default="minilm", choices=SIZES)
    parser.add_argument("--base-model", default="minilm", help="checkpoint for the sweep over rows")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent, help="for growth-SWEEP.png")
    parser.add_argument("--quick", action="store_true", help="measure only two small values of each sweep")
    arguments = parse(parser, argv, pairs=5)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder)
        if "rows" in (arguments.sweep or names):
            save_untrained(checkpoint, arguments.base_model, "label-aware-bert")
        for name in arguments.sweep or names:
            label, values, quick, sides_at = sweeps(arguments.size, checkpoint)[name]
            values = quick if arguments.quick else values
            series: dict[str, list[float]] = {}
            for value in values:
                sides = sides_at(value)
                ours, stock = interleaved(list(sides.values()), arguments.pairs, keep_memory=name != "rows")
                rows.append(ratio("growth", f"{name} {value}: {' against '.join(sides)}", ours, stock))
                for side, median in zip(sides, (rows[-1]["ours"], rows[-1]["peer"]), strict=True):
                    series.setdefault(side, []).append(median)
            draw(arguments.folder / f"growth-{name}.png", label, values, series)
    save(arguments, rows)
    return rows


if __name__ == "__main__":
    main()
