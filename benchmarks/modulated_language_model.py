# SPDX-License-Identifier: Apache-2.0
"""
P17: greedy tokens per second of a language model whose norms follow an emotion, against the plain one and against the one with LoRA of
about as many parameters, not merged; and the train step (forward, backward, AdamW) of the modulators alone against that of LoRA alone.

    python benchmarks/modulated_language_model.py --base-model FOLDER
"""

import argparse
import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from hf_emotion.modeling import EmotionModulatedForCausalLM
from measuring import interleaved, parse, ratio, result, save
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, LlamaConfig


NEW_TOKENS = 24
EMOTIONS = 32
# A Llama of the size of SmolLM2-135M, and one for the tests.
SIZES: dict[str, dict[str, Any]] = {
    "135m": {
        "vocab_size": 49152,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "tie_word_embeddings": True,
    },
    "tiny": {
        "vocab_size": 300,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
    },
}


def over(plain, base_model: str | None, **fields) -> EmotionModulatedForCausalLM:
    """A modulated model over a copy of `plain`, with modulators that do something."""
    torch.manual_seed(0)
    if base_model is not None:
        model = EmotionModulatedForCausalLM.from_language_model_pretrained(base_model, num_emotions=EMOTIONS, **fields)
    else:
        config = EmotionModulatedForCausalLM.config_class(text_config=plain.config, num_emotions=EMOTIONS, **fields)
        model = EmotionModulatedForCausalLM(config)
        model.language_model.load_state_dict(plain.state_dict())
    torch.nn.init.normal_(model.emotion_modulation.output_weight, std=0.01)
    return model


def trained(model) -> int:
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def with_lora(plain, parameters: int):
    """LoRA on all linear layers, of the rank whose number of parameters is nearest."""
    one = trained(
        get_peft_model(copy.deepcopy(plain), LoraConfig(task_type="CAUSAL_LM", r=1, target_modules="all-linear"))
    )
    rank = max(1, round(parameters / one))
    return get_peft_model(copy.deepcopy(plain), LoraConfig(task_type="CAUSAL_LM", r=rank, target_modules="all-linear"))


def inputs_for(vocabulary: int, batch_size: int, length: int) -> dict[str, torch.Tensor]:
    ids = torch.randint(3, vocabulary, (batch_size, length), generator=torch.Generator().manual_seed(1))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def greedy(model, inputs: dict[str, torch.Tensor], **more) -> Callable[[], None]:
    settings = {"do_sample": False, "max_new_tokens": NEW_TOKENS, "min_new_tokens": NEW_TOKENS}
    model.eval()
    return lambda: model.generate(**inputs, **more, **settings)


def train_step(model, inputs: dict[str, torch.Tensor], **more) -> Callable[[], None]:
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-5, fused=True)
    model.train()

    def run() -> None:
        model(**inputs, **more, labels=inputs["input_ids"]).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return run


def main(argv: Sequence[str] | None = None) -> list[dict]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base-model", help="folder of a decoder-only model; default: a random Llama of --size")
    parser.add_argument("--size", default="135m", choices=SIZES)
    parser.add_argument("--shape", action="append", help="BATCHxLENGTH of greedy decoding (default: 1x32 and 16x32)")
    parser.add_argument("--train-shape", default="8x64", help="BATCHxLENGTH of the train step")
    arguments = parse(parser, argv, pairs=7)
    base = arguments.base_model
    ends = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}
    if base is None:
        plain = AutoModelForCausalLM.from_config(LlamaConfig(**SIZES[arguments.size], **ends))
    else:
        plain = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    name = f"Llama of the size {arguments.size}" if base is None else "the given language model"
    rows = []
    for shift in (False, True):
        ours = over(plain, base, shift=shift)
        lora = with_lora(plain, trained(ours))
        kind = f"{name}, {'with' if shift else 'without'} a shift"
        rows.append(result("P17", f"parameters of the modulators, {kind}", [trained(ours) / 1e6], "million"))
        rows.append(result("P17", f"parameters of LoRA beside them, {kind}", [trained(lora) / 1e6], "million"))
        for shape in arguments.shape or ["1x32", "16x32"]:
            batch_size, length = (int(part) for part in shape.split("x"))
            inputs = inputs_for(plain.config.vocab_size, batch_size, length)
            emotions = {"emotion_ids": torch.arange(batch_size) % EMOTIONS}
            actions = [greedy(ours, inputs, **emotions), greedy(plain, inputs), greedy(lora, inputs)]
            modulated, stock, adapted = interleaved(actions, arguments.pairs, warm_up=1)
            work = f"greedy tokens/s, {kind}, {shape}, to"
            rows.append(ratio("P17", f"{work} those of the plain model", modulated, stock, at_least=0.97))
            rows.append(ratio("P17", f"{work} those of LoRA", modulated, adapted, at_least=1))
        batch_size, length = (int(part) for part in arguments.train_shape.split("x"))
        inputs = inputs_for(plain.config.vocab_size, batch_size, length)
        emotions = {"emotion_ids": torch.arange(batch_size) % EMOTIONS}
        actions = [train_step(ours, inputs, **emotions), train_step(lora, inputs)]
        modulated, adapted = interleaved(actions, arguments.pairs, warm_up=1, keep_memory=True)
        rows.append(
            ratio(
                "P17",
                f"train step, {kind}, {arguments.train_shape}, to that of LoRA",
                modulated,
                adapted,
                at_most=1.05,
            )
        )
    save(arguments, rows)
    return rows


if __name__ == "__main__":
    main()
