# SPDX-License-Identifier: Apache-2.0
"""From a recipe to a model and its tokenizer."""

from typing import Any

from transformers import (
    CONFIG_MAPPING,
)

import hf_emotion.modeling  # noqa: F401 - registers the Auto classes


def model_config_fields(model_type: str | None) -> dict[str, Any] | None:
    """
    The configuration fields that a recipe may set for a model type, and their types; None where the type is the base
    model's own.

    Raises:
        ValueError: a model type without a classifier here.
    """
    if model_type is None:
        return None
    if model_type not in OUR_MODEL_TYPES:
        raise ValueError(
            f"unknown `model_type` {model_type!r}: None (the base model's own) or one of {list(OUR_MODEL_TYPES)}."
        )
    return {name: field.type for name, field in CONFIG_MAPPING[model_type].__dataclass_fields__.items()}


# The model types of recipes, and the kind of corpus that each reads; the base model's own stock classifier reads texts and aspects.
OUR_MODEL_TYPES = {
    "label-aware-bert": "texts",
    "roberta-esa": "texts",
    "cg-bert": "texts with aspects",
    "qacg-bert": "texts with aspects",
    "dialogue-bilstm": "dialogues",
    "gpt2-mod-ln": "replies",
    "bert-mod-ln": "replies",
    "gpt2": "conversations",  # the stock language model
}
