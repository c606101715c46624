# SPDX-License-Identifier: Apache-2.0
"""Input for benchmarks without a corpus: meaningless texts, as long as GoEmotions', and untrained models."""

import random
from pathlib import Path

import torch

from hf_emotion import load_dataset_for
from hf_emotion.runtime.base_models import load_base_tokenizer
from hf_emotion.tasks.sequence_classification import build_classifier


# Rows of GoEmotions' training part (43,410) with 3, 4, 5, ... tokens, [CLS] and [SEP] among them, in the vocabulary of
# bert-base-uncased; the 18 rows with more than 46 tokens count as 47. The mean is 19.3.
LENGTHS = dict(
    enumerate(
        [
            *(13, 31, 942, 1176, 1559, 1587, 1489, 1538, 1485, 1587, 1678, 1589, 1680, 1635, 1678, 1719, 1605, 1612),
            *(1604, 1576, 1484, 1462, 1336, 1350, 1319, 1219, 1110, 1050, 1079, 1007, 844, 643, 511, 384, 272, 179),
            *(120, 77, 61, 47, 21, 21, 10, 7, 14),
        ],
        start=3,
    )
)
# One token each in that vocabulary.
WORDS = (
    "the a this that my your her his we they you it was is are be have had make made go went see saw think know feel want like "
    "love hate hope fear good bad great sad happy angry sorry thanks day night home work school game team story people friend "
    "mother brother time year week way thing life world so very really just not never always maybe here there now then"
).split()


def synthetic_texts(rows: int, seed: int = 0) -> list[str]:
    """Texts with the lengths of GoEmotions."""
    draw = random.Random(seed)
    lengths = draw.choices(list(LENGTHS), weights=LENGTHS.values(), k=rows)
    return [" ".join(draw.choices(WORDS, k=length - 2)) for length in lengths]


def save_untrained(folder: Path, base_model: str, model_type: str, contexts: dict | None = None, **config) -> Path:
    """Save a checkpoint with a new head, for emotions or (with `contexts`) for targeted sentiment."""
    torch.manual_seed(0)
    tokenizer = load_base_tokenizer(base_model)
    names = ["none", "positive", "negative"]
    if contexts is None:
        names = load_dataset_for("quickstart")["train"].features["labels"].feature.names
    counts = [1] * len(names)
    model = build_classifier(
        base_model, model_type, config, tokenizer, names, contexts is None, counts, contexts=contexts
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
