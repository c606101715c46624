# SPDX-License-Identifier: Apache-2.0
"""
P8: `Predictor` against the stock text-classification pipeline in batches of 32, with the same checkpoint and all labels of each text
ranked. Also against itself exported as int8, with the loss of macro-F1 if checkpoint and corpus are given; with --dtype against
itself in half precision. And its operations per second as a share of those of one large matrix product, in float32 and in --dtype.
Default: an untrained label-aware model and synthetic texts as long as GoEmotions'.

    python benchmarks/bulk_prediction.py runs/goemotions_laa_ce --data-dir DATA --rows 20000
"""

import argparse
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from measuring import interleaved, parse, ratio, result, save
from texts import save_untrained, synthetic_texts
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

from hf_emotion import load_dataset_for
from hf_emotion.publishing.export import export_onnx
from hf_emotion.tasks.emotion_classification.predictor import Predictor


MATRIX = 2048


def share_of_peak(dtype: torch.dtype, predict: Callable[[], object], pairs: int) -> list[float]:
    """Operations per second of the predictions (matrix products and attention), to those of a matrix product."""
    with FlopCounterMode(display=False) as counter:
        predict()
    left, right = (torch.randn(MATRIX, MATRIX).to(dtype) for _ in range(2))
    predictions, products = interleaved([predict, lambda: left @ right], pairs, warm_up=1)
    peak = 2 * MATRIX**3
    return [
        counter.get_total_flops() / seconds / (peak / product)
        for seconds, product in zip(predictions, products, strict=True)
    ]


def main(argv: Sequence[str] | None = None) -> list[dict]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", nargs="?", help="default: an untrained model over --base-model")
    parser.add_argument("--base-model", default="minilm")
    parser.add_argument("--dataset", default="goemotions")
    parser.add_argument("--data-dir", help="folder with the corpus; default: synthetic texts")
    parser.add_argument(
        "--rows", type=int, default=2000, help="number of texts; from a corpus the first training rows"
    )
    parser.add_argument("--no-onnx", action="store_true", help="leave the exported model out")
    parser.add_argument("--dtype", choices=["bfloat16", "float16"], help="also measure the predictor in this dtype")
    arguments = parse(parser, argv)
    if arguments.data_dir is None:
        texts, source = synthetic_texts(arguments.rows), "synthetic texts"
    else:
        texts = list(load_dataset_for(arguments.dataset, arguments.data_dir)["train"]["text"])[: arguments.rows]
        source = f"texts of {arguments.dataset}"
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = arguments.checkpoint or save_untrained(
            Path(folder) / "checkpoint", arguments.base_model, "label-aware-bert"
        )
        predictor = Predictor(checkpoint, device="cpu")
        model = AutoModelForSequenceClassification.from_pretrained(checkpoint)
        stock = pipeline("text-classification", model=model, tokenizer=AutoTokenizer.from_pretrained(checkpoint))
        settings = {"batch_size": 32, "top_k": None, "truncation": True, "max_length": predictor.max_length}
        labels = len(predictor.labels)
        _check_equal(predictor(texts[:64], top_k=labels), stock(texts[:64], **settings))
        work = f"{len(texts)} {source}, {model.config.model_type} over {model.config.num_hidden_layers} layers"
        ours, theirs = interleaved(
            [lambda: predictor(texts, top_k=labels), lambda: stock(texts, **settings)], arguments.pairs, warm_up=1
        )
        rows.append(ratio("P8", f"{work}: Predictor against the stock pipeline", ours, theirs, at_least=2))
        peak = f"{work}: operations per second to those of a matrix product"
        shares = share_of_peak(torch.float32, lambda: predictor(texts, top_k=labels), arguments.pairs)
        rows.append(result("P8", f"{peak}, float32", shares, "×", at_least=0.7))
        if arguments.dtype is not None:
            half = Predictor(checkpoint, device="cpu", dtype=arguments.dtype)
            ours, theirs = interleaved(
                [lambda: half(texts, top_k=labels), lambda: predictor(texts, top_k=labels)], arguments.pairs, warm_up=1
            )
            rows.append(
                ratio("P8", f"{work}: Predictor in {arguments.dtype} against float32", ours, theirs, at_least=1)
            )
            shares = share_of_peak(getattr(torch, arguments.dtype), lambda: half(texts, top_k=labels), arguments.pairs)
            rows.append(result("P8", f"{peak}, {arguments.dtype}", shares, "×", at_least=0.7))
        if not arguments.no_onnx:
            has_metric = None not in (arguments.checkpoint, arguments.data_dir)
            corpus = {"dataset": arguments.dataset, "data_dir": arguments.data_dir} if has_metric else {}
            report = export_onnx(
                checkpoint, Path(folder) / "int8", quantize="int8", **(corpus or {"texts": texts[:1000]})
            )
            quantized = Predictor(Path(folder) / "int8")
            fast, slow = interleaved(
                [lambda: quantized(texts, top_k=labels), lambda: predictor(texts, top_k=labels)],
                arguments.pairs,
                warm_up=1,
            )
            rows.append(ratio("P8", f"{work}: ONNX int8 against fp32", fast, slow, at_least=2))
            for name, metric in report.get("metrics", {}).items():
                if name.endswith("/macro_f1"):
                    lost = metric["torch"] - metric["int8"]
                    work = (
                        f"{name} lost with int8 on the test part of {arguments.dataset} (fp32: {metric['torch']:.4f})"
                    )
                    rows.append(result("P8", work, [lost], "points", at_most=0.005))
    save(arguments, rows)
    return rows


def _check_equal(ours: list[list[dict]], theirs: list[list[dict]]) -> None:
    """Check that both give every label the same probability."""
    for one, other in zip(ours, theirs, strict=True):
        expected = {item["label"]: item["score"] for item in other}
        assert len(one) == len(expected)
        np.testing.assert_allclose(
            [item["score"] for item in one], [expected[item["label"]] for item in one], atol=1e-4
        )


if __name__ == "__main__":
    main()
