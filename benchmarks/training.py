# SPDX-License-Identifier: Apache-2.0
"""Train steps of our models against the stock models of transformers with the same encoder. `run_all.py` runs them."""

import copy
import itertools
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import yaml
from hf_emotion.modeling import EmotionModulatedForCausalLM, GPT2ModLNConfig, GPT2ModLNForConditionalGeneration
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification, LlamaConfig

from benchmarks.measuring import beside, interleaved, ratio, result, shares_of_peak


SAID = yaml.safe_load(Path(__file__).with_name("sizes.yaml").read_text(encoding="utf-8"))
SIZES, CLASSIFIERS, OVER = SAID["encoders"], SAID["classifiers"], SAID["others"]


def shape_of(text: str) -> tuple[int, int]:
    """ "8x64" -> 8 texts of 64 tokens."""
    return tuple(map(int, text.split("x")))


def pair(model_type: str, size: str = "base", **more) -> tuple[Any, Any]:
    """Our classifier and the stock one, with random weights."""
    ours = AutoConfig.for_model(model_type, **{**SIZES[size], **CLASSIFIERS[model_type]["fields"], **more})
    shared = {name: getattr(ours, name) for name in (*SIZES[size], "num_labels", "problem_type", *more)}
    stock = AutoConfig.for_model("roberta" if model_type == "roberta-esa" else "bert", **shared)
    torch.manual_seed(0)
    return tuple(AutoModelForSequenceClassification.from_config(config) for config in (ours, stock))


def inputs_for(config, batch_size: int, length: int) -> dict[str, torch.Tensor]:
    """Random rows whose last quarter ends in padding of different lengths."""
    generator = torch.Generator().manual_seed(0)
    lengths = length - torch.arange(batch_size) * (length // 4) // batch_size
    mask = torch.arange(length) < lengths[:, None]
    ids = torch.randint(1000, config.vocab_size, (batch_size, length), generator=generator)
    inputs = {"input_ids": ids.where(mask, config.pad_token_id), "attention_mask": mask.long()}
    if config.problem_type == "multi_label_classification":
        inputs["labels"] = torch.randint(0, 2, (batch_size, config.num_labels), generator=generator).float()
    else:
        inputs["labels"] = torch.randint(0, config.num_labels, (batch_size,), generator=generator)
    if hasattr(config, "num_contexts"):
        inputs["context_ids"] = torch.arange(batch_size) % config.num_contexts
    return inputs


def step_of(model, inputs: dict[str, Any], kind: str = "step") -> Callable[[], None]:
    """What is timed: "forward" without gradients and dropout, "backward" with both passes, "step" with AdamW, too; bf16 on a GPU."""
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-5, fused=True)
    model.train(kind != "forward")
    on_gpu = inputs["input_ids"].is_cuda

    def run() -> None:
        with torch.set_grad_enabled(kind != "forward"), torch.autocast("cuda", torch.bfloat16, enabled=on_gpu):
            loss = model(**inputs).loss
        if kind != "forward":
            loss.backward()
            if kind == "step":
                optimizer.step()
            optimizer.zero_grad(set_to_none=kind == "step")

    return run


def classifiers(
    size: str = "base", kinds: Sequence[str] = ("forward", "backward", "step"), shapes=None, pairs: int = 9
) -> list[dict]:
    """Our classifiers against stock BERT (RoBERTa): seconds of a pass or a step."""
    rows = []
    for model_type, own in CLASSIFIERS.items():
        for shape, kind in itertools.product(shapes or own["shapes"], kinds):
            steps = [step_of(one, inputs_for(one.config, *shape_of(shape)), kind) for one in pair(model_type, size)]
            goal = {"keep_memory": kind != "forward", "at_most": own["at_most"].get(kind)}
            rows.append(beside(own["topic"], f"{kind} of {model_type}, {size}, {shape}", steps, pairs, **goal))
    return rows


def any_encoder(
    encoders=tuple(OVER), size: str = "base", shape: str = "8x64", kinds=("forward", "step"), pairs: int = 7
) -> list[dict]:
    """Label-aware attention over encoders of other architectures, against the stock classifiers of the same encoders."""
    labels = {"num_labels": 28, "problem_type": "multi_label_classification"}
    special = {"vocab_size": 30522, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    rows = []
    for encoder, kind in itertools.product(encoders, kinds):
        fields = {**SIZES[size], **special, **OVER[encoder]}
        inner, stock = (AutoConfig.for_model(encoder, **fields, **more) for more in ({}, labels))
        torch.manual_seed(0)
        ours = AutoConfig.for_model("label-aware", encoder_config=inner, **labels)
        models = [AutoModelForSequenceClassification.from_config(config) for config in (ours, stock)]
        steps = [step_of(model, inputs_for(stock, *shape_of(shape)), kind) for model in models]
        topic, work = (
            "label-aware attention over any encoder",
            f"{kind} of label-aware over {encoder}, {size}, {shape}",
        )
        rows.append(beside(topic, work, steps, pairs, keep_memory=kind != "forward", at_most=1.03))
    return rows


PLAIN = {"modulate_encoder": False, "modulate_decoder": False}
EMOTIONS = 32  # of language models
GREEDY = {"do_sample": False, "max_new_tokens": 24, "min_new_tokens": 24}


def generator(size: dict[str, Any], **fields) -> GPT2ModLNForConditionalGeneration:
    """A GPT-2 encoder-decoder, with modulated norms unless `PLAIN`."""
    torch.manual_seed(0)
    return GPT2ModLNForConditionalGeneration(GPT2ModLNConfig(**size, bos_token_id=0, eos_token_id=0, **fields))


def token_inputs(vocabulary: int, batch_size: int, length: int) -> dict[str, torch.Tensor]:
    ids = torch.randint(3, vocabulary, (batch_size, length), generator=torch.Generator().manual_seed(1))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def greedy(model, inputs: dict[str, torch.Tensor], **more) -> Callable[[], None]:
    return partial(model.eval().generate, **inputs, **more, **GREEDY)


def replies(size: str = "small", shape: str = "32x32", pairs: int = 9) -> list[dict]:
    """GPT-2 encoder-decoders with modulated norms against plain norms, and all emotions in one batch against one call for each."""
    rows, fields, (batch_size, length) = [], SAID["gpt2"][size], shape_of(shape)
    for modulation in ("residual", "replace"):
        models = generator(fields, modulation=modulation), generator(fields, **PLAIN)
        topic, name = "replies with emotions", f"of gpt2-mod-ln ({modulation}), {size}, {shape}"
        inputs = token_inputs(fields["vocab_size"], batch_size, length)
        own = {"emotion_ids": torch.arange(batch_size) % models[0].config.num_emotions}
        labels = inputs["input_ids"].flip(1)
        steps = [step_of(model, {**inputs, **own, "labels": labels}) for model in models]
        rows.append(beside(topic, f"train step {name}", steps, pairs, keep_memory=True, at_most=1.05))
        decoding = [greedy(model, inputs, **own) for model in models]
        rows.append(beside(topic, f"greedy {name}: tokens/s", decoding, pairs, at_least=0.97))
    for name, more in (("both sides modulated", {}), ("decoder modulated", {"modulate_encoder": False})):
        model = generator(fields, **more).eval()
        ids = token_inputs(fields["vocab_size"], 1, length)["input_ids"]
        emotions = torch.arange(model.config.num_emotions).split(1)
        each = [greedy(model, {"input_ids": ids}, emotion_ids=emotion) for emotion in emotions]
        actions = [partial(model.generate_all_emotions, ids[0], **GREEDY), lambda each=each: [one() for one in each]]
        work = f"64 emotions in one batch, gpt2-mod-ln {size}, {name}"
        rows.append(beside("all emotions at once", work, actions, -(-pairs // 3), warm_up=1, at_least=8))
    return rows


def language_model(
    causal_lm: str | None = None,
    size: str = "135m",
    shapes: Sequence[str] = ("1x32", "16x32"),
    train_shape: str = "8x64",
    pairs: int = 7,
) -> list[dict]:
    """A language model whose norms follow an emotion, against the plain one, and against LoRA of about as many parameters, not merged."""
    from peft import LoraConfig, get_peft_model

    def parameters(model) -> int:
        return sum(one.numel() for one in model.parameters() if one.requires_grad)

    def with_lora(rank: int):
        lora = LoraConfig(task_type="CAUSAL_LM", r=rank, target_modules="all-linear")
        return get_peft_model(copy.deepcopy(plain), lora)

    if causal_lm is None:
        plain = AutoModelForCausalLM.from_config(LlamaConfig(**SAID["llama"][size], pad_token_id=2))
        name = f"Llama of the size {size}"
    else:
        plain, name = AutoModelForCausalLM.from_pretrained(causal_lm, dtype=torch.float32), Path(causal_lm).name
    rows, topic = [], "language model with emotions"
    for shift in (False, True):
        torch.manual_seed(0)
        kind_of = EmotionModulatedForCausalLM.config_class
        ours = EmotionModulatedForCausalLM(kind_of(text_config=plain.config, num_emotions=EMOTIONS, shift=shift))
        ours.language_model.load_state_dict(plain.state_dict())
        ours.language_model.requires_grad_(False)
        torch.nn.init.normal_(ours.emotion_modulation.output_weight, std=0.01)
        lora = with_lora(max(1, round(parameters(ours) / parameters(with_lora(1)))))
        kind = f"{name}, {'with' if shift else 'without'} a shift"
        rows.append(result(topic, f"parameters of the modulators, {kind}", [parameters(ours) / 1e6], "million"))
        rows.append(result(topic, f"parameters of LoRA beside them, {kind}", [parameters(lora) / 1e6], "million"))
        for shape in shapes:
            inputs = token_inputs(plain.config.vocab_size, *shape_of(shape))
            emotions = torch.arange(len(inputs["input_ids"])) % EMOTIONS
            actions = [greedy(ours, inputs, emotion_ids=emotions), greedy(plain, inputs), greedy(lora, inputs)]
            modulated, stock, adapted = interleaved(actions, pairs, warm_up=1)
            work = f"greedy tokens/s, {kind}, {shape}, to those of"
            rows.append(ratio(topic, f"{work} the plain model", modulated, stock, at_least=0.97))
            rows.append(ratio(topic, f"{work} LoRA", modulated, adapted, at_least=1))
        inputs = token_inputs(plain.config.vocab_size, *shape_of(train_shape))
        inputs["labels"] = inputs["input_ids"]
        emotions = torch.arange(len(inputs["input_ids"])) % EMOTIONS
        actions = [step_of(ours, {**inputs, "emotion_ids": emotions}), step_of(lora, inputs)]
        work = f"train step, {kind}, {train_shape}, to that of LoRA"
        rows.append(beside(topic, work, actions, pairs, warm_up=1, keep_memory=True, at_most=1.05))
    return rows


def gpu(batch_size: int = 128, length: int = 128, size: str = "base", pairs: int = 9) -> list[dict]:
    """Train steps on a GPU: their operations per second, as a share of a bf16 matrix product's in the same run. Nothing without one."""
    if not torch.cuda.is_available():
        return []
    rows, at_least = [], {"label-aware-bert": 0.45, "qacg-bert": 0.40}
    for model_type in CLASSIFIERS:
        names = (model_type, f"the stock peer of {model_type}")
        for name, model in zip(names, pair(model_type, size), strict=True):
            inputs = {name: value.cuda() for name, value in inputs_for(model.config, batch_size, length).items()}
            with FlopCounterMode(display=False) as counter:
                step_of(model.cuda(), inputs, "backward")()
            step = step_of(torch.compile(model, fullgraph=True), inputs)
            shares = shares_of_peak(step, counter.get_total_flops(), pairs, torch.bfloat16, "cuda", edge=8192)
            work = (
                f"train step of {name}, {size}, {batch_size}x{length}, bf16, compiled, {torch.cuda.get_device_name()}"
            )
            rows.append(result("training on a GPU", work, shares, "×", at_least=at_least.get(name)))
    return rows
