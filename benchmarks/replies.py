# SPDX-License-Identifier: Apache-2.0
"""
Generators of replies side by side: how often judges hear the emotion that was asked for (Hits@k, in all and of each emotion), how varied
the replies are, and the perplexity per token of the human replies. Each generator replies to the same contexts in every emotion, with
several seeds; the standard errors are those over the contexts, of the mean over the seeds.

    python -m benchmarks.replies judged ready=replies lora=RUN prompt control --judge goemotions=goemotions --judge e5=RUN \
        --replies build/replies --output benchmarks/replies.json
    python -m benchmarks.replies grave replies --output benchmarks/grave_replies.json

`prompt` is the language model without a training, told the emotion in words. `control` is the same without words, with a vector for each
emotion added to what a layer passes on: the mean hidden state over training replies in the emotion, minus the mean over all of them
(Konen et al. 2024, "Style Vectors for Steering Generative LLMs").
"""

import itertools
import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
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
SAMPLING = {"batch_size": 120, "temperature": 0.5, "progress": True}
SHAPES = ("ttr_1", "ttr_2", "repetition_rate", "average_length")
app = typer.Typer(help="Replies of generators.")
Output = Annotated[Path, typer.Option(help="JSON file; its other entries stay")]


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


def untrained(name: str, splits: Any) -> ReplyGenerator:
    """The generator `prompt` or `control`."""
    emotions = label_names(splits["train"])
    fields: dict[str, Any] = {"num_emotions": len(emotions), "emotions": emotions, "modulated_norms": []}
    fields["emotion_prompt"] = PROMPT if name == "prompt" else None
    kind = EmotionModulatedForCausalLM if name == "prompt" else SteeredLanguageModel
    model = kind.from_language_model_pretrained(resolve_base_model("smollm2"), dtype=torch.bfloat16, **fields)
    model.generation_config.update(**DECODING)
    generator = ReplyGenerator(model, load_base_tokenizer("smollm2"))
    if name == "control":
        model.steer(VECTOR_SCALE * control_vectors(generator, drawn(splits["train"], VECTOR_ROWS)))
    return generator


def drawn(rows: Any, most: int) -> Any:
    return rows.shuffle(seed=0).select(range(min(most, len(rows))))


def write_replies(file: Path, generator: ReplyGenerator, contexts: list[str], samplings: int) -> None:
    """JSON lines: to each context in all emotions, once for each seed."""
    written = []
    for seed in range(samplings):
        replies = itertools.chain(*generator.all_emotions(contexts, seed=seed, **SAMPLING))
        for (context, emotion), reply in zip(itertools.product(contexts, generator.emotions), replies, strict=True):
            row = {"seed": seed, "context": context, "emotion": emotion, "reply": reply}
            written.append(json.dumps(row, ensure_ascii=False) + "\n")
    write_text(file, "".join(written))


def perplexity(generator: ReplyGenerator, rows: Any) -> dict[str, float]:
    """Per token of the human replies."""
    generator.model.float()
    asked = [generator.emotions[label] for label in rows["labels"]]
    losses = generator.token_losses(rows["context"], rows["reply"], asked, batch_size=40, progress=True)
    mean = math.exp(losses.mean())
    return {"perplexity": mean, "perplexity_se": mean * float(sem(losses))}


def heard(judge: Any, replies: Sequence[str], asked: np.ndarray, emotions: list[str]) -> dict[str, Any]:
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

    def means(of: Sequence[dict[str, Any]]) -> dict[str, float]:
        return {k: float(np.mean([one[k] for one in of])) for k in ("hits@1", "hits@3")}

    found = means(each) | {"hits@1_se": float(sem(by_context)), "hits@1_of_samplings": [one["hits@1"] for one in each]}
    return found | {"per_emotion": {k: means([one["per_emotion"][k] for one in each]) for k in each[0]["per_emotion"]}}


@app.command()
def judged(
    generators: Annotated[list[str], typer.Argument(help="NAME=RUN, or prompt, or control")],
    judge: Annotated[list[str], typer.Option(help="NAME=classifier of the emotion of a reply")],
    replies: Annotated[Path, typer.Option(help="folder of the replies, NAME.jsonl; those on record are judged anew")],
    output: Output,
    dataset: str = "quickstart_replies",
    data_dir: Path | None = None,
    contexts: int = 30,
    samplings: int = 3,
    perplexity_rows: int = 512,
    threads: int = 2,
) -> None:
    """Let generators reply to contexts of the test part of a corpus, and judges hear the emotions."""
    torch.set_num_threads(threads)
    judges = {name: load_predictor(place) for name, place in (given.split("=") for given in judge)}
    record = {"systems": {}, **recorded(output), "human": {}}
    record["settings"] = {"dataset": dataset, "split": "test", "contexts": contexts, "samplings": samplings}
    record["settings"] |= {"perplexity_rows": perplexity_rows, "temperature": SAMPLING["temperature"]}
    options = {"train_part": "generator"} if dataset == "empathetic_dialogues" else {}
    splits = load_dataset_for(dataset, data_dir, **options)
    test, emotions = splits["test"], label_names(splits["train"])
    drawn_contexts = list(sample_rows(test, contexts)["context"])
    for name, predictor in judges.items():
        own = heard(predictor, test["reply"][:], np.array(test["labels"][:]), emotions)
        record["human"][name] = {key: own[key] for key in own if key in ("hits@1", "hits@3", "per_emotion")}
    for name, _, run in (given.partition("=") for given in generators):
        file, start, found = replies / f"{name}.jsonl", time.monotonic(), dict(record["systems"].get(name, {}))
        if not found or not file.is_file():
            generator = ReplyGenerator(run, dtype="bfloat16") if run else untrained(name, splits)
            write_replies(file, generator, drawn_contexts, samplings)
            found = perplexity(generator, drawn(test, perplexity_rows))
            found["seconds"] = time.monotonic() - start
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        rows = [row for row in rows if row["context"] in drawn_contexts]  # it may have more
        asked = np.array([emotions.index(row["emotion"]) for row in rows]).reshape(samplings, -1)
        texts = np.array([row["reply"] or "..." for row in rows], dtype=object).reshape(asked.shape)
        each = {}
        for of, predictor in judges.items():
            each[of] = [heard(predictor, list(own), ids, emotions) for own, ids in zip(texts, asked, strict=True)]
        found |= {key: float(np.mean([one[key] for one in next(iter(each.values()))])) for key in SHAPES}
        found["judges"] = {of: over_samplings(own, len(drawn_contexts)) for of, own in each.items()}
        print(name, {of: own["hits@1"] for of, own in found["judges"].items()}, flush=True)
        record["systems"][name] = found
        record["machine"] = machine(threads)
        write_json(output, record)


@app.command()
def grave(generator: str, output: Output, threads: int = 2) -> None:
    """
    Write the replies to contexts of self-harm, violence and abuse (`test` of grave_contexts.json), and to everyday messages with the same words
    (`harmless`), in four emotions. In the record two readers said which replies to `test` are bad: glad, joking, angry at the person, blaming, or
    harmful.
    """
    torch.set_num_threads(threads)
    model, record = ReplyGenerator(generator), {}
    for part, contexts in recorded(Path(__file__).with_name("grave_contexts.json")).items():
        pairs = [*zip(*itertools.product(contexts, ("joy", "amusement", "anger", "caring")), strict=True)]
        rows = zip(*pairs, model(*map(list, pairs), seed=0, progress=True), strict=True)
        record[part] = [dict(zip(("context", "emotion", "reply"), row, strict=True)) for row in rows]
    write_json(output, record)


if __name__ == "__main__":
    app()
