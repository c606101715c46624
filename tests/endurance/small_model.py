# SPDX-License-Identifier: Apache-2.0
"""A classifier so small that a million texts take minutes on one core, and texts for it."""

import argparse
import itertools
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from hf_emotion.modeling import BertForLabelAwareClassification, LabelAwareBertConfig
from transformers import BertTokenizerFast

from hf_emotion import Predictor


LABELS = ("anger", "fear", "joy", "sadness", "neutral")
WORDS = (
    "the a this my your we they you it is was have made go saw think know feel want like love hate hope fear good bad great sad "
    "happy angry sorry thanks day night home work school team story people friend mother time year way thing life world so"
).split()
MAX_LENGTH = 32  # tokens; some texts are longer


def options_of(argv: Sequence[str] | None, **defaults: int | float) -> dict[str, Any]:
    """The options of a script: {name: default} -> {name: value}."""
    parser = argparse.ArgumentParser()
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    return vars(parser.parse_args(argv))


def end(found: dict[str, Any], failed: Any) -> NoReturn:
    """Print what a script found, and end with exit code 1 if it failed."""
    print(json.dumps(found))
    sys.exit(bool(failed))


def save_small_classifier(folder: Path, hidden_size: int = 16, **options) -> Path:
    """A label-aware BERT with drawn weights, and its tokenizer; other options of its configuration."""
    folder.mkdir(parents=True)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *dict.fromkeys(WORDS)]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    BertTokenizerFast.from_pretrained(folder).save_pretrained(folder)
    torch.manual_seed(0)
    config = LabelAwareBertConfig(
        **{"vocab_size": len(vocabulary), "hidden_size": hidden_size, "intermediate_size": 16},
        **{"num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": MAX_LENGTH},
        **{"initializer_range": 1.0, "tie_head": False, "id2label": dict(enumerate(LABELS))},
        **{"label2id": {name: number for number, name in enumerate(LABELS)}, **options},
    )
    BertForLabelAwareClassification(config).save_pretrained(folder)
    return folder


def draw_texts(predictor: Predictor, count: int, seed: int = 0) -> list[str]:
    """
    Different texts of 1 to 12 words, every fiftieth far too long; none has a probability so near a threshold or another that
    rounding, which depends on the batch, could change its labels.
    """
    draw = random.Random(seed)
    lengths = (MAX_LENGTH * 2 if number % 50 == 49 else draw.randint(1, 12) for number in itertools.count())
    texts: dict[str, None] = {}
    while len(texts) < count:
        drawn = [" ".join(draw.choices(WORDS, k=length)) for length in itertools.islice(lengths, count)]
        values = np.sort(np.pad(predictor.label_probabilities(drawn), ((0, 0), (0, 1)), constant_values=0.5), axis=1)
        clear = np.diff(values, axis=1).min(axis=1) > 1e-4
        texts |= dict.fromkeys(text for text, is_clear in zip(drawn, clear, strict=True) if is_clear)
    return list(texts)[:count]
