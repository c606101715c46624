# SPDX-License-Identifier: Apache-2.0
"""
Generators of replies: the train step (forward, backward, AdamW) and greedy tokens per second with modulated norms against the
same encoder-decoder with plain ones, and 64 emotions in one batch against 64 calls. One process, runs interleaved, after
warm-up; median and quartiles of the paired ratios.

    python benchmarks/reply_generation.py --size small --pairs 9
"""

import argparse
import platform
import statistics
from collections.abc import Callable

import torch
import transformers
from hf_emotion.modeling import GPT2ModLNConfig, GPT2ModLNForConditionalGeneration
from model_step import seconds


SIZES = {
    "base": {},
    "small": {"n_embd": 384, "n_layer": 6, "n_head": 6, "vocab_size": 30522},
    "tiny": {"n_embd": 192, "n_layer": 3, "n_head": 3, "vocab_size": 6000},
}
NEW_TOKENS = 24


def build(size: str, **fields) -> GPT2ModLNForConditionalGeneration:
    torch.manual_seed(0)
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    return GPT2ModLNForConditionalGeneration(GPT2ModLNConfig(**SIZES[size], **ends, **fields))


def inputs_for(model, batch_size: int, length: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    shape = (batch_size, length)
    return {
        "input_ids": torch.randint(1, model.config.vocab_size, shape, generator=generator),
        "attention_mask": torch.ones(shape, dtype=torch.long),
        "emotion_ids": torch.arange(batch_size) % model.config.num_emotions,
    }


def train_step(model, batch_size: int, length: int) -> Callable[[], None]:
    inputs = inputs_for(model, batch_size, length)
    inputs["labels"] = inputs["input_ids"].flip(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    model.train()

    def run() -> None:
        model(**inputs).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return run


def greedy(model, batch_size: int, length: int) -> Callable[[], None]:
    inputs = inputs_for(model, batch_size, length)
    model.eval()
    return lambda: model.generate(
        **inputs, do_sample=False, max_new_tokens=NEW_TOKENS, min_new_tokens=NEW_TOKENS, use_cache=True
    )


def report(name: str, first: Callable, second: Callable, pairs: int, inverse: bool = False) -> None:
    for action in (first, second) * 2:
        action()
    times = [(seconds(first), seconds(second)) for _ in range(pairs)]
    ratios = [one / two if inverse else two / one for one, two in times]
    low, middle, high = statistics.quantiles(ratios, n=4)
    medians = [statistics.median(column) for column in zip(*times, strict=True)]
    print(f"{name}: {middle:.3f} [{low:.3f}, {high:.3f}], {medians[0]:.3f} s and {medians[1]:.3f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="small", choices=SIZES)
    parser.add_argument("--shape", default="32x32", help="BATCHxLENGTH of the train step and of greedy decoding")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    batch_size, length = (int(part) for part in arguments.shape.split("x"))
    print(
        f"{platform.machine()}, {arguments.threads} threads, torch {torch.__version__}, transformers "
        f"{transformers.__version__}, float32, GPT-2 {arguments.size}, {arguments.shape}, {arguments.pairs} pairs"
    )
    plain = {"modulate_encoder": False, "modulate_decoder": False}
    for modulation in ("residual", "replace"):
        for kind, action, inverse in (("train step, time", train_step, False), ("greedy, tokens/s", greedy, True)):
            models = [build(arguments.size, **plain), build(arguments.size, modulation=modulation)]
            first, second = (action(model, batch_size, length) for model in models)
            report(f"{kind}, {modulation} against plain norms", first, second, arguments.pairs, inverse)
    for name, fields in (("both sides", {}), ("decoder alone", {"modulate_encoder": False})):
        model = build(arguments.size, **fields).eval()
        context = inputs_for(model, 1, length)["input_ids"]
        settings = {"do_sample": False, "max_new_tokens": NEW_TOKENS, "min_new_tokens": NEW_TOKENS}

        def one_by_one(model=model, context=context, settings=settings) -> None:
            for emotion in range(model.config.num_emotions):
                model.generate(input_ids=context, emotion_ids=torch.tensor([emotion]), **settings)

        def together(model=model, context=context, settings=settings) -> None:
            model.generate_all_emotions(context[0], **settings)

        pairs = max(3, arguments.pairs // 3)
        report(f"64 emotions in one batch, speed-up, {name} modulated", one_by_one, together, pairs, inverse=True)


if __name__ == "__main__":
    main()
