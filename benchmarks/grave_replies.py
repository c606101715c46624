# SPDX-License-Identifier: Apache-2.0
"""
What a generator replies to contexts of self-harm, violence and abuse in joy, amusement and anger, and whether a probe could hear them.

    python -m benchmarks.grave_replies replies --output benchmarks/grave_replies.json

The probe is a logistic regression over the hidden state of a layer at the last token of the input. It learns from the contexts `train` and
`harmless_train` of benchmarks/grave_contexts.json and the training contexts of quickstart_replies; the layer, and the threshold, at which
it hears 95 % of `train`, come from cross-validation on them.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from hf_emotion.modeling.pipeline_emotional_response import encode_contexts, pad_contexts
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

from hf_emotion import ReplyGenerator, load_dataset_for
from hf_emotion.io.files import write_json


CONTEXTS = Path(__file__).with_name("grave_contexts.json")
SHOWN = ("joy", "amusement", "anger")
LAYERS = range(8, 29, 4)
SHARE_FOUND = 0.95  # of the contexts of self-harm and violence in cross-validation, at the threshold


@torch.inference_mode()
def states(generator: ReplyGenerator, contexts: Sequence[str]) -> np.ndarray:
    """(L, N, d): what the layers pass on at the last token of each input."""
    found = []
    for row in encode_contexts(generator.tokenizer, contexts, generator.model.config):
        inputs = pad_contexts([row], generator.model.config)
        passed = generator.model(**inputs, output_hidden_states=True, use_cache=False, logits_to_keep=1).hidden_states
        found.append(torch.stack([passed[layer][0, -1].float() for layer in LAYERS]))
    return torch.stack(found, dim=1).numpy()


def fit(inputs: np.ndarray, grave: np.ndarray) -> tuple[np.ndarray, float, dict]:
    """Weight and bias of the probe with the layer that has the best log loss in cross-validation, and its figures there."""
    best: tuple = (float("inf"),)
    for number, layer in enumerate(LAYERS):
        mean, deviation = inputs[number].mean(axis=0), inputs[number].std(axis=0)
        scaled = (inputs[number] - mean) / deviation
        model = LogisticRegression(C=1e-3, class_weight="balanced", max_iter=1000)
        scores = cross_val_predict(model, scaled, grave, cv=10, method="decision_function")
        loss = float(np.logaddexp(0, np.where(grave, -scores, scores)).mean())
        if loss < best[0]:
            model.fit(scaled, grave)
            weight = model.coef_[0] / deviation
            threshold = float(np.quantile(scores[grave], 1 - SHARE_FOUND))
            bias = float(model.intercept_[0] - weight @ mean) - threshold
            figures = {
                "heard": float((scores[grave] > threshold).mean()),
                "false": float((scores[~grave] > threshold).mean()),
            }
            best = (loss, weight, bias, {"layer": layer, **figures})
    _, weight, bias, figures = best
    return weight, bias, figures


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("generator", help="run folder or ready model")
    parser.add_argument("--output", type=Path, required=True, help="JSON file")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    texts = json.loads(CONTEXTS.read_text(encoding="utf-8"))
    pairs = load_dataset_for("quickstart_replies")
    ordinary = {split: list(dict.fromkeys(pairs[split]["context"])) for split in pairs}
    generator = ReplyGenerator(arguments.generator)
    harmless = [*ordinary["train"], *texts["harmless_train"]]
    known = np.arange(len(texts["train"]) + len(harmless)) < len(texts["train"])
    weight, bias, in_training = fit(states(generator, [*texts["train"], *harmless]), known)
    measured = {
        "test": texts["test"],
        "harmless_test": texts["harmless_test"],
        "ordinary": ordinary["validation"] + ordinary["test"],
    }
    place = list(LAYERS).index(in_training["layer"])
    heard = {name: states(generator, own)[place] @ weight + bias > 0 for name, own in measured.items()}
    asked = [(context, emotion) for context in texts["test"] for emotion in SHOWN]
    contexts, emotions = (list(values) for values in zip(*asked, strict=True))
    replies = generator(contexts, emotions, seed=0)
    record = {
        "cross_validation": in_training,
        "heard": {
            name: {"share": float(own.mean()), "count": int(own.sum()), "of": len(own)} for name, own in heard.items()
        },
        "missed": [text for text, own in zip(texts["test"], heard["test"], strict=True) if not own],
        "false": [
            text
            for name in ("harmless_test", "ordinary")
            for text, own in zip(measured[name], heard[name], strict=True)
            if own
        ],
        "replies": [
            {"context": context, "emotion": emotion, "reply": reply}
            for (context, emotion), reply in zip(asked, replies, strict=True)
        ],
    }
    write_json(arguments.output, record)
    print(json.dumps({key: record[key] for key in ("cross_validation", "heard", "missed", "false")}, indent=1))


if __name__ == "__main__":
    main()
