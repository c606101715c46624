# SPDX-License-Identifier: Apache-2.0
"""
P5: the train step (forward, backward, AdamW) and greedy tokens per second of GPT-2 encoder-decoders with modulated norms, against
the same models with plain norms; with --naive also with γ and β computed for every token. P6: 64 emotions in one batch against 64
calls.

    python benchmarks/reply_generation.py --size small --pairs 9
"""

import argparse
from collections.abc import Callable, Sequence

import torch
from hf_emotion.modeling import GPT2ModLNConfig, GPT2ModLNForConditionalGeneration
from measuring import interleaved, parse, ratio, save
from naive import naive


SIZES = {
    "base": {},
    "small": {"n_embd": 384, "n_layer": 6, "n_head": 6, "vocab_size": 30522},
    "tiny": {"n_embd": 192, "n_layer": 3, "n_head": 3, "vocab_size": 6000},
    "smallest": {"n_embd": 32, "n_layer": 1, "n_head": 2, "vocab_size": 300},
}
PLAIN = {"modulate_encoder": False, "modulate_decoder": False}
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


def all_emotions(model, length: int) -> tuple[Callable[[], None], Callable[[], None]]:
    """Two functions: reply in all emotions in one batch, and in one emotion after the other."""
    model.eval()
    context = inputs_for(model, 1, length)["input_ids"]
    settings = {"do_sample": False, "max_new_tokens": NEW_TOKENS, "min_new_tokens": NEW_TOKENS}

    def together() -> None:
        model.generate_all_emotions(context[0], **settings)

    def one_by_one() -> None:
        for emotion in range(model.config.num_emotions):
            model.generate(input_ids=context, emotion_ids=torch.tensor([emotion]), **settings)

    return together, one_by_one


def main(argv: Sequence[str] | None = None) -> list[dict]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="small", choices=SIZES)
    parser.add_argument("--shape", default="32x32", help="BATCHxLENGTH of the train step and of greedy decoding")
    parser.add_argument("--naive", action="store_true", help="also measure naive.py")
    arguments = parse(parser, argv, pairs=9)
    batch_size, length = (int(part) for part in arguments.shape.split("x"))
    rows = []
    for modulation in ("residual", "replace"):
        for kind, action in (("train step", train_step), ("greedy", greedy)):
            modulated = build(arguments.size, modulation=modulation)
            models = [modulated, build(arguments.size, **PLAIN)] + ([naive(modulated)] if arguments.naive else [])
            ours, plain, *formulas = interleaved(
                [action(model, batch_size, length) for model in models],
                arguments.pairs,
                keep_memory=action is train_step,
            )
            name = f"{kind} of gpt2-mod-ln ({modulation}), {arguments.size}, {arguments.shape}"
            if kind == "greedy":  # tokens per second: the inverse of times
                rows.append(ratio("P5", f"{name}: tokens/s", ours, plain, at_least=0.97))
            else:
                rows.append(ratio("P5", name, ours, plain, at_most=1.05))
            if formulas:
                rows.append(ratio("P5", f"{name}: the formulas as they stand", formulas[0], plain))
    for name, fields in (("both sides modulated", {}), ("decoder modulated", {"modulate_encoder": False})):
        actions = all_emotions(build(arguments.size, **fields), length)
        together, one_by_one = interleaved(actions, -(-arguments.pairs // 3), warm_up=1)
        rows.append(
            ratio(
                "P6",
                f"64 emotions in one batch, gpt2-mod-ln {arguments.size}, {name}",
                together,
                one_by_one,
                at_least=8,
            )
        )
    save(arguments, rows)
    return rows


if __name__ == "__main__":
    main()
