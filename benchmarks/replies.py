# SPDX-License-Identifier: Apache-2.0
"""
Generators of replies side by side: how often judges hear the emotion that was asked for (Hits@k, in all and of each emotion), how varied
the replies are, and the perplexity per token of the human replies. Each generator replies to the same contexts in every emotion, with
several seeds; the standard errors are those over the contexts, of the mean over the seeds.

    python -m benchmarks.replies modulated=replies guided=replies lora=RUN prompt control --guided guided=1.5 \
        --judge goemotions=goemotions --judge e5=RUN --output benchmarks/replies.json --replies build/replies

`prompt` is the language model without a training, told the emotion in words. `control` is the same without words, with a vector for each
emotion added to what a layer passes on: the mean hidden state over training replies in the emotion, minus the mean over all of them
(Konen et al. 2024, "Style Vectors for Steering Generative LLMs").
"""

import argparse
import itertools
import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hf_emotion.modeling.pipeline_emotional_response import encode_contexts
from scipy.stats import sem

from benchmarks.measuring import machine, recorded
from hf_emotion import EmotionModulatedForCausalLM, ReplyGenerator, load_dataset_for
from hf_emotion.data.splits import label_names
from hf_emotion.inference import load_predictor
from hf_emotion.io.files import write_json, write_text
from hf_emotion.metrics import reply_metrics
from hf_emotion.runtime.base_models import load_base_tokenizer, resolve_base_model
from hf_emotion.tasks.emotional_response.building import DECODING
from hf_emotion.tasks.emotional_response.evaluating import sample_rows


PROMPT = "Reply to your friend in one or two short sentences. You feel {emotion}: let it be heard."
LAYER, VECTOR_SCALE, VECTOR_ROWS = 14, 4.0, 600  # of control; pairs to find the vectors
SHAPES = ("ttr_1", "ttr_2", "repetition_rate", "average_length")


class SteeredLanguageModel(EmotionModulatedForCausalLM):
    """A language model without modulated norms; the vector of an emotion (E, d) is added behind a layer."""

    def steer(self, vectors: torch.Tensor) -> None:
        self.vectors = vectors
        place = self.get_decoder().layers[LAYER]
        place.register_forward_hook(lambda module, inputs, states: states + self.running.modulation[0].to(states))

    def modulation(self, emotion_ids=None, emotion_weights=None, batch_size=None):
        return (emotion_weights.to(self.vectors) @ self.vectors)[:, None, None]  # (B, 1, 1, d)


@torch.inference_mode()
def control_vectors(generator: ReplyGenerator, rows: Any) -> torch.Tensor:
    """(E, d): for each emotion the mean of what the layer passes on at the tokens of replies in it, minus the mean of these means."""
    sums = torch.zeros(len(generator.emotions), generator.model.config.hidden_size)
    counts = torch.zeros(len(generator.emotions), 1)
    contexts = encode_contexts(generator.tokenizer, rows["context"], generator.model.config)
    for context, reply, label in zip(contexts, generator.token_ids(rows["reply"]), rows["labels"], strict=True):
        ids = torch.tensor([[*context, *reply]])
        outputs = generator.model(ids, attention_mask=torch.ones_like(ids), output_hidden_states=True)
        states = outputs.hidden_states[LAYER + 1]  # the first ones are the embeddings
        sums[label] += states[0, len(context) :].float().mean(dim=0)
        counts[label] += 1
    means = sums / counts
    return means - means.mean(dim=0)


def untrained(name: str, arguments: argparse.Namespace, splits: Any) -> ReplyGenerator:
    """The generator `prompt` or `control`."""
    emotions = label_names(splits["train"])
    fields: dict[str, Any] = {"num_emotions": len(emotions), "emotions": emotions, "modulated_norms": []}
    fields["emotion_prompt"] = PROMPT if name == "prompt" else None
    kind = EmotionModulatedForCausalLM if name == "prompt" else SteeredLanguageModel
    place, dtype = resolve_base_model("smollm2"), getattr(torch, arguments.dtype)
    model = kind.from_language_model_pretrained(place, dtype=dtype, **fields)
    model.generation_config.update(**DECODING)
    generator = ReplyGenerator(model, load_base_tokenizer("smollm2"))
    if name == "control":
        rows = splits["train"].shuffle(seed=0).select(range(min(VECTOR_ROWS, len(splits["train"]))))
        model.steer(VECTOR_SCALE * control_vectors(generator, rows))
    return generator


def measure(name: str, given: str, arguments: argparse.Namespace, judges: dict[str, Any], known: Any) -> dict:
    """The figures of one generator. Replies of an earlier call that is on record (`known`) are judged anew, and its other figures stay."""
    options = {"train_part": "generator"} if arguments.dataset == "empathetic_dialogues" else {}
    splits = load_dataset_for(arguments.dataset, arguments.data_dir, **options)
    emotions = label_names(splits["train"])
    contexts = list(sample_rows(splits[arguments.split], arguments.contexts)["context"])
    file, start = arguments.replies / f"{name}.jsonl", time.monotonic()
    own = (dict(text.split("=") for text in texts) for texts in (arguments.intensity, arguments.guided))
    weight, guidance = (float(values.get(name, 1)) for values in own)
    if known and file.is_file():
        found = dict(known)
    else:
        found = {"intensity": weight, "guidance_scale": guidance}
        generator = ReplyGenerator(given, dtype=arguments.dtype) if given else untrained(name, arguments, splits)
        options = {"batch_size": 120, "progress": True, "temperature": arguments.temperature}
        options |= {"guidance_scale": guidance} if guidance != 1 else {}
        written = []
        for seed in range(arguments.samplings):
            replies = itertools.chain(*generator.all_emotions(contexts, weight, seed=seed, **options))
            asked = itertools.product([seed], contexts, emotions)
            keys = ("seed", "context", "emotion", "reply")
            written += [dict(zip(keys, (*of, reply), strict=True)) for of, reply in zip(asked, replies, strict=True)]
        write_text(file, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in written))
        generator.model.float()
        rows = splits[arguments.split].shuffle(seed=0)
        rows = rows.select(range(min(arguments.perplexity_rows, len(rows))))
        asked = [{emotions[label]: weight} for label in rows["labels"]]
        losses = generator.token_losses(rows["context"], rows["reply"], asked, batch_size=40, progress=True)
        perplexity = math.exp(losses.mean())
        found |= {"perplexity": perplexity, "perplexity_se": perplexity * float(sem(losses))}
        found["seconds"] = time.monotonic() - start
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if row["context"] in contexts]  # it may have more
    asked = np.array([emotions.index(row["emotion"]) for row in rows]).reshape(arguments.samplings, -1)
    texts = np.array([row["reply"] or "..." for row in rows], dtype=object).reshape(asked.shape)
    each = {
        judge: [judged(predictor, list(own), ids, emotions) for own, ids in zip(texts, asked, strict=True)]
        for judge, predictor in judges.items()
    }
    found |= {key: float(np.mean([one[key] for one in next(iter(each.values()))])) for key in SHAPES}
    found["judges"] = {judge: over_samplings(own, len(contexts)) for judge, own in each.items()}
    print(name, {judge: own["hits@1"] for judge, own in found["judges"].items()}, flush=True)
    return found


def judged(judge: Any, replies: Sequence[str], asked: np.ndarray, emotions: list[str]) -> dict[str, Any]:
    """What a judge says of replies, among those of these emotions alone that it knows; `hits`: whether each is heard."""
    names = [emotion for emotion in emotions if emotion in judge.labels]
    rows = [row for row, emotion in enumerate(asked) if emotions[emotion] in names]
    asked = np.array([names.index(emotions[asked[row]]) for row in rows])
    replies = [replies[row] for row in rows]
    probabilities = judge.probabilities(replies)[:, [judge.labels.index(name) for name in names]]
    figures: dict[str, Any] = reply_metrics(replies, replies, asked, probabilities, label_names=names)
    return figures | {"hits": probabilities.argmax(axis=1) == asked}


def over_samplings(each: Sequence[dict[str, Any]], contexts: int) -> dict[str, Any]:
    """The means over samplings, and the standard error of `hits@1` over contexts."""
    by_context = np.mean([one["hits"].reshape(contexts, -1).mean(axis=1) for one in each], axis=0)
    return {
        "hits@1": float(by_context.mean()),
        "hits@1_se": float(sem(by_context)),
        "hits@1_of_samplings": [one["hits@1"] for one in each],
        "hits@3": float(np.mean([one["hits@3"] for one in each])),
        "per_emotion": {
            name: {k: float(np.mean([one["per_emotion"][name][k] for one in each])) for k in ("hits@1", "hits@3")}
            for name in each[0]["per_emotion"]
        },
    }


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("generators", nargs="+", help="NAME=RUN, or prompt, or control")
    parser.add_argument("--judge", action="append", required=True, help="NAME=classifier of the emotion of a reply")
    parser.add_argument("--guided", action="append", default=[], help="NAME=guidance_scale")
    parser.add_argument("--intensity", action="append", default=[], help="NAME=weight of the emotion")
    parser.add_argument("--temperature", type=float, default=0.5, help="of the sampling (default: %(default)s)")
    parser.add_argument("--dataset", default="quickstart_replies")
    parser.add_argument("--data-dir")
    parser.add_argument("--split", default="test")
    parser.add_argument("--contexts", type=int, default=30)
    parser.add_argument("--samplings", type=int, default=3)
    parser.add_argument("--perplexity-rows", type=int, default=512)
    parser.add_argument("--dtype", default="bfloat16", help="dtype of generation (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--replies", type=Path, required=True, help="folder for the replies, NAME.jsonl")
    parser.add_argument("--output", type=Path, required=True, help="JSON file; entries of other names stay")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    judges = {name: load_predictor(place) for name, place in (given.split("=") for given in arguments.judge)}
    record = recorded(arguments.output) or {"systems": {}}
    settings = ("dataset", "split", "contexts", "samplings", "perplexity_rows", "temperature", "dtype")
    record["settings"] = {name: getattr(arguments, name) for name in settings}
    human = load_dataset_for(arguments.dataset, arguments.data_dir)[arguments.split]
    record["human"] = {}
    for judge, predictor in judges.items():
        own = judged(predictor, human["reply"][:], np.array(human["labels"][:]), label_names(human))
        record["human"][judge] = {key: own[key] for key in own if key in ("hits@1", "hits@3", "per_emotion")}
    for given in arguments.generators:
        name, _, folder = given.partition("=")
        record["systems"][name] = measure(name, folder, arguments, judges, record["systems"].get(name))
        record["machine"] = machine(arguments.threads)
        write_json(arguments.output, record)


if __name__ == "__main__":
    main()
