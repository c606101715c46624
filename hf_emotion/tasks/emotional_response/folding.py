# SPDX-License-Identifier: Apache-2.0
"""Writes a language model under one emotion as an ordinary checkpoint."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import ModelCard, ModelCardData
from transformers import AutoModelForCausalLM, PreTrainedModel

from ...io.files import creating, refuse_taken, write_text
from ...modeling import EmotionModulatedForCausalLM
from ...modeling.pipeline_emotional_response import (
    emotion_ids_of,
    emotion_vector,
    encode_contexts,
    pad_contexts,
)
from ...runtime.base_models import hub_id
from ...runtime.loading import read_model
from ..cards import MODEL, code, plain
from .predictor import Emotion, ReplyGenerator
from .showing import EXAMPLES


TOLERANCE = 1e-4  # largest difference of logits; for logits above 1, relative to the largest


def fold(checkpoint: str | Path, emotion: Emotion, output: str | Path, intensity: float = 1.0) -> dict[str, Any]:
    """
    Write a language model with modulated norms, under one emotion, as a checkpoint of the language model's own class: plain
    transformers and every server of language models run it. With it go tokenizer, chat template, settings of `generate` and a card.

    The written checkpoint is loaded again, and its logits over a few prompts are compared with the model's.

    Args:
        checkpoint: a run folder, local folder or Hub id of a model without a shift.
        emotion: a name (emoji) of the model or a mixture {name: weight}.
        output: a new or empty folder.
        intensity: weight of the emotion; training uses 1, a larger weight exaggerates.

    Returns:
        "model_type" of what was written, "emotion", "intensity", "tokens" (number that were compared), "largest_logit" and
        "max_logit_difference".

    Raises:
        FileExistsError: `output` is not empty.
        OSError: no such checkpoint, or its language model is not found.
        ValueError: a model of another kind or with a shift; an unknown emotion; the logits differ by more than 1e-4, or, where
            logits are larger than 1, by more than 1e-4 of the largest. Nothing is written then.
    """
    output = Path(output)
    refuse_taken(output)
    generator = ReplyGenerator(checkpoint, device="cpu", dtype="float32")
    model, tokenizer = generator.model, generator.tokenizer
    if not isinstance(model, EmotionModulatedForCausalLM):
        raise ValueError(f"{checkpoint} is an encoder-decoder, which is not folded: take a language model.")
    weights = [intensity * weight for weight in emotion_vector(emotion, model.config)]
    ids, prompt = emotion_ids_of([weights], model.config), model.config.emotion_prompt
    told = None if ids is None or prompt is None else prompt.format(emotion=generator.emotions[ids[0]])
    try:
        folded = model.fold(torch.tensor(weights))
    except ValueError as error:
        raise ValueError(f"{checkpoint}: {error} In a recipe: `model_config: {{shift: false}}`.") from error
    with creating(output) as folder:
        folded.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        report = {
            "model_type": folded.config.model_type,
            "emotion": emotion,
            "intensity": intensity,
            **_compare(generator, read_model(AutoModelForCausalLM, folder).eval(), weights),
        }
        largest, allowed = report["max_logit_difference"], TOLERANCE * max(1.0, report["largest_logit"])
        if not largest <= allowed:  # also refuses NaN
            raise ValueError(
                f"the folded model differs from {checkpoint}: logits by up to {largest:.3g}, allowed are {allowed:.3g}. Nothing was "
                "written. The norms of this architecture may compute something else than weight · x̂: please report it."
            )
        write_text(folder / "README.md", _card(checkpoint, model, output.name, emotion, intensity, told))
    return report


@torch.inference_mode()
def _compare(generator: ReplyGenerator, folded: PreTrainedModel, weights: list[float]) -> dict[str, Any]:
    """Logits of both models at every token of a few prompts."""
    config = generator.model.config
    rows = encode_contexts(
        generator.tokenizer, EXAMPLES, config, generator.max_length, emotion_ids_of([weights] * len(EXAMPLES), config)
    )
    tokens, magnitude, difference = 0, [], []
    for row in rows:
        inputs = pad_contexts([row], config)
        ours = generator.model(**inputs, emotion_weights=torch.tensor([weights])).logits
        theirs = folded(**inputs).logits
        tokens += len(row)
        magnitude.append(ours.abs().max())
        difference.append((ours - theirs).abs().max())
    return {
        "tokens": tokens,
        "largest_logit": torch.stack(magnitude).max().item(),
        "max_logit_difference": torch.stack(difference).max().item(),
    }


def _card(
    checkpoint: str | Path, model: PreTrainedModel, name: str, emotion: Emotion, intensity: float, told: str | None
) -> str:
    """The card: what the model is and how it is called; data, training and limits are those of the run's own card."""
    config = model.config
    base = hub_id(config.base_model_name_or_path)
    of = emotion if isinstance(emotion, str) else ", ".join(f"{key} {weight:g}" for key, weight in emotion.items())
    run, sections = _own_card(checkpoint)
    kept = {key: run.get(key) for key in ("license", "license_name", "language", "datasets")} if run else {}
    data = ModelCardData(
        **{key: value for key, value in kept.items() if value is not None},
        library_name="transformers",
        pipeline_tag="text-generation",
        base_model=base or (run.get("base_model") if run else None),
        tags=["emotion", "hf-emotion", "dialogue"],
    )
    messages = [{"role": "system", "content": told}] if told else []
    messages.append({"role": "user", "content": "I lost my keys again."})
    example = (
        f"messages = {json.dumps(messages, ensure_ascii=False)}\n"
        f'reply = pipeline("text-generation", model="{MODEL}")\n'
        "print(reply(messages, max_new_tokens=40))"
    )
    kind = config.text_config.model_type
    source = f"`{base}`" if base else f"A {kind} model"
    what = (
        f"{source} that replies in one emotion: {plain(of)}{f' with the intensity {intensity:g}' if intensity != 1 else ''}. The "
        f"norms of `{plain(Path(checkpoint).name)}`, a model of hf-emotion, follow the emotion; here the scale of this one is "
        f"multiplied into their weights. It is an ordinary {kind} checkpoint and needs no further code."
    )
    blocks = [f"---\n{data.to_yaml()}\n---", f"# {plain(name)}", what]
    blocks += ["## Use", code(f"from transformers import pipeline\n\n{example}")]
    if told:
        blocks.append("The emotion is also told in words, by the system message.")
    blocks += [f"## {title}\n\n{sections[title]}" for title in KEPT if title in sections]
    return "\n\n".join(blocks) + "\n"


KEPT = ("Training", "Limits", "Citation")


def _own_card(checkpoint: str | Path) -> tuple[Mapping[str, Any] | None, dict[str, str]]:
    """The metadata of the card of a run, and its sections; nothing if there is no card."""
    try:
        card = ModelCard.load(Path(checkpoint) / "README.md" if Path(checkpoint).is_dir() else str(checkpoint))
    except (OSError, ValueError):
        return None, {}
    parts = re.split(r"^## (.+)\n", card.text, flags=re.M)
    return card.data.to_dict(), {title: text.strip() for title, text in zip(parts[1::2], parts[2::2], strict=True)}
