# SPDX-License-Identifier: Apache-2.0
"""
Train step of a dialogue model whose encoder is trained: the encoder reads utterances of similar lengths together, against all
utterances of the batch padded to the longest one in one call. Default: synthetic dialogues.

    python benchmarks/dialogue_step.py --dataset meld --data-dir DATA
"""

import argparse
import random
from collections.abc import Sequence

import torch
from hf_emotion.modeling import DialogueBiLSTMForEmotionRecognition
from measuring import interleaved, parse, ratio, save
from texts import synthetic_texts

from hf_emotion import load_dataset_for
from hf_emotion.runtime.base_models import load_base_tokenizer, resolve_base_model
from hf_emotion.tasks.dialogue_emotion.building import pad_tokens


def synthetic_dialogues(count: int, seed: int = 0) -> list[list[str]]:
    """Dialogues of 1 to 20 turns, as long as GoEmotions' texts."""
    draw = random.Random(seed)
    texts = iter(synthetic_texts(20 * count, seed))
    return [[next(texts) for _ in range(draw.randint(1, 20))] for _ in range(count)]


def main(argv: Sequence[str] | None = None) -> list[dict]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base-model", default="minilm")
    parser.add_argument("--dataset", help="a corpus of dialogues, instead of synthetic ones")
    parser.add_argument("--data-dir")
    parser.add_argument("--batch-size", type=int, default=8, help="dialogues of a step")
    parser.add_argument("--batches", type=int, default=8, help="steps of a measurement")
    arguments = parse(parser, argv)
    count = arguments.batch_size * arguments.batches
    if arguments.dataset is None:
        dialogues, source = synthetic_dialogues(count), "synthetic dialogues"
    else:
        rows = load_dataset_for(arguments.dataset, arguments.data_dir)["train"]["utterances"]
        dialogues, source = random.Random(0).sample(list(rows), count), f"dialogues of {arguments.dataset}"
    dialogues.sort(key=len)  # a training groups dialogues by their number of turns, too
    tokenizer = load_base_tokenizer(arguments.base_model)
    batches = []
    for start in range(0, count, arguments.batch_size):
        part = dialogues[start : start + arguments.batch_size]
        batch = pad_tokens(
            [tokenizer(turns, truncation=True, max_length=128)["input_ids"] for turns in part], tokenizer
        )
        batches.append({**batch, "labels": torch.where(batch["utterance_mask"] > 0, 0, -100)})
    torch.manual_seed(0)
    model = DialogueBiLSTMForEmotionRecognition.from_encoder_pretrained(
        resolve_base_model(arguments.base_model), num_labels=7, freeze_encoder=False
    ).train()

    def steps(encode):
        def run():
            model.dialogue._encode_real_utterances = encode
            for batch in batches:
                model(**batch).loss.backward()
                model.zero_grad()

        return run

    by_length, padded = model.dialogue._encode_real_utterances, model.dialogue.encode_utterances
    ours, whole = interleaved([steps(by_length), steps(padded)], arguments.pairs, warm_up=1, keep_memory=True)
    work = f"{arguments.batches} steps of {arguments.batch_size} {source}, trained encoder: by length against padded in one call"
    rows = [ratio("dialogues", work, ours, whole, at_least=1)]
    save(arguments, rows)
    return rows


if __name__ == "__main__":
    main()
