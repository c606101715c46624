# SPDX-License-Identifier: Apache-2.0
"""
P16: label-aware attention over an encoder of any architecture, against the stock classifier of the same encoder: forward pass and
train step with AdamW, with random weights.

    python benchmarks/wrapper_step.py --encoder mpnet --encoder deberta-v2 --shape 8x64
"""

import argparse
from collections.abc import Sequence

import hf_emotion.modeling  # noqa: F401 - registers the Auto classes
import torch
from measuring import interleaved, parse, ratio, save
from model_step import inputs_for, step_of
from transformers import AutoConfig, AutoModelForSequenceClassification


ENCODERS = ("mpnet", "xlm-roberta", "modernbert", "deberta-v2")
SIZES = {
    "base": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
    "tiny": {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128},
}
SHARED = {"vocab_size": 30522, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
OTHERS = {
    "deberta-v2": {
        "relative_attention": True,
        "pos_att_type": ["p2c", "c2p"],
        "position_buckets": 256,
        "type_vocab_size": 0,
    },
    "modernbert": {"cls_token_id": 0, "sep_token_id": 2},
}
LABELS = {"num_labels": 28, "problem_type": "multi_label_classification"}
AT_MOST = 1.03


def build(side: str, encoder: str, size: str) -> torch.nn.Module:
    """The classifier of a side, "stock" or "ours"."""
    fields = {**SIZES[size], **SHARED, **OTHERS.get(encoder, {})}
    torch.manual_seed(0)
    if side == "stock":
        return AutoModelForSequenceClassification.from_config(AutoConfig.for_model(encoder, **fields, **LABELS))
    config = AutoConfig.for_model("label-aware", encoder_config=AutoConfig.for_model(encoder, **fields), **LABELS)
    return AutoModelForSequenceClassification.from_config(config)


def main(argv: Sequence[str] | None = None) -> list[dict]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", action="append", choices=ENCODERS, help="default: all")
    parser.add_argument("--size", default="base", choices=SIZES)
    parser.add_argument("--shape", default="8x64", help="BATCHxLENGTH")
    parser.add_argument("--kind", action="append", choices=["forward", "step"], help="default: both")
    arguments = parse(parser, argv, pairs=7)
    batch_size, length = map(int, arguments.shape.split("x"))
    rows = []
    for encoder in arguments.encoder or ENCODERS:
        for kind in arguments.kind or ("forward", "step"):
            models = [build(side, encoder, arguments.size) for side in ("stock", "ours")]
            inputs = inputs_for(models[0].config, batch_size, length)
            stock, ours = interleaved(
                [step_of(model, inputs, kind) for model in models], arguments.pairs, keep_memory=kind != "forward"
            )
            name = f"{kind} of label-aware over {encoder}, {arguments.size}, {arguments.shape}"
            rows.append(ratio("P16", name, ours, stock, at_most=AT_MOST))
    save(arguments, rows)
    return rows


if __name__ == "__main__":
    main()
