# SPDX-License-Identifier: Apache-2.0
"""
Goes beyond the paper on GoEmotions: does label-aware attention improve with descriptions instead of label names, with
learning rates that fall from layer to layer, with two stages (neutral or not, then which), or with the mean of other seeds as
teacher?

    python benchmarks/variants.py --data-dir DATA --base-model minilm --train-fraction 0.25 --seeds 2 \
        --set learning_rate=1e-4 --set per_device_train_batch_size=32 --set num_train_epochs=3 --output variants.json

Figures are from the validation part, by which a variant is chosen: macro-F1 at the recipe's threshold, and mean average
precision, which needs no threshold. There is no validation between the epochs: every variant is measured after its last epoch.
"""

import argparse
import dataclasses
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from datasets import ClassLabel, Dataset, Features, List, Value
from sklearn.metrics import average_precision_score
from transformers import TrainingArguments, set_seed

from hf_emotion import (
    Predictor,
    load_dataset_for,
    load_recipe,
    metrics,
)
from hf_emotion.data.splits import label_names, share_of
from hf_emotion.io.files import write_json
from hf_emotion.recipes import Recipe
from hf_emotion.runs.reproduce import encoder_name
from hf_emotion.runtime.base_models import load_base_tokenizer
from hf_emotion.tasks.emotion_classification.building import over_base_model
from hf_emotion.tasks.rows import class_counts, label_matrix
from hf_emotion.tasks.sequence_classification import build_classifier, make_collator, tokenize
from hf_emotion.training.fit import training_arguments
from hf_emotion.training.seeds import EmotionTrainer


RECIPE = "goemotions/laa_ce"
VARIANTS = ["plain", "distilled", "label descriptions", "layer-wise rates", "two stages"]
DECAY = 0.8  # factor of the learning rate from each layer to the one below
DESCRIPTIONS = {
    "admiration": "respect and praise for someone impressive",
    "amusement": "laughing at something funny",
    "anger": "strong displeasure and hostility",
    "annoyance": "mild anger, irritation",
    "approval": "agreeing, a favourable opinion",
    "caring": "kindness and concern for others",
    "confusion": "not understanding, uncertainty",
    "curiosity": "wanting to know or learn",
    "desire": "wanting or wishing for something",
    "disappointment": "sadness because hopes were not met",
    "disapproval": "disagreeing, an unfavourable opinion",
    "disgust": "revulsion at something unpleasant",
    "embarrassment": "awkwardness and shame",
    "excitement": "great enthusiasm and eagerness",
    "fear": "being afraid or worried",
    "gratitude": "thankfulness and appreciation",
    "grief": "sorrow over a death or loss",
    "joy": "pleasure and happiness",
    "love": "strong affection",
    "nervousness": "anxiety and tension",
    "neutral": "no emotion, a plain statement",
    "optimism": "hope and confidence in the future",
    "pride": "satisfaction with an achievement",
    "realization": "becoming aware of something",
    "relief": "relaxing after a worry has passed",
    "remorse": "regret and guilt, an apology",
    "sadness": "unhappiness and sorrow",
    "surprise": "astonishment at the unexpected",
}
Scores = dict[str, np.ndarray]  # probabilities of each part, (N, C)


def fit(
    recipe: Recipe,
    train: Dataset,
    texts: dict[str, list[str]],
    seed: int,
    decay: float = 1.0,
    targets: np.ndarray | None = None,
) -> Scores:
    """
    Train one model and return its probabilities for the texts.

    Args:
        decay: factor of the learning rate from each layer to the one below.
        targets: (N, C) in [0, 1], training targets of the rows instead of their labels.
    """
    set_seed(seed)
    names, tokenizer = label_names(train), load_base_tokenizer(recipe.base_model)
    counts = list(class_counts(train).values())
    model = build_classifier(
        recipe.base_model, recipe.model_type, recipe.model_config, tokenizer, names, True, counts, recipe.label_texts
    )
    encoded = tokenize(train, tokenizer, recipe.max_length, model.config)
    collate = make_collator(tokenizer, len(names), True)
    if targets is not None:
        encoded = encoded.add_column("row", list(range(len(encoded))))
        collate = towards(collate, torch.from_numpy(targets).float())
    with tempfile.TemporaryDirectory() as folder:
        arguments = training_arguments(
            TrainingArguments, recipe, Path(folder), seed,
            eval_strategy="no", save_strategy="no", load_best_model_at_end=False,
        )  # fmt: skip
        trainer = EmotionTrainer(
            model=model, args=arguments, train_dataset=encoded, processing_class=tokenizer, data_collator=collate
        )
        if decay != 1:
            trainer.optimizer = layerwise_optimizer(trainer, decay)
        trainer.train()
        predictor = Predictor(trainer.whole_model(), tokenizer, max_length=recipe.max_length)
    return {part: predictor.probabilities(rows, progress=True) for part, rows in texts.items()}


def towards(collate: Callable[[list[dict]], dict], targets: torch.Tensor) -> Callable[[list[dict]], dict]:
    return lambda rows: {**collate(rows), "labels": targets[[row["row"] for row in rows]]}


def layerwise_optimizer(trainer: EmotionTrainer, decay: float) -> torch.optim.AdamW:
    """AdamW with the full rate for the head; each layer has `decay` times the rate of the layer above, down to the embeddings."""
    arguments, layers = trainer.args, trainer.model.config.num_hidden_layers
    decayed = set(trainer.get_decay_parameter_names(trainer.model))
    groups: dict[tuple[int, bool], list[torch.nn.Parameter]] = {}
    for name, parameter in trainer.model.named_parameters():
        below = 0
        if layer := re.search(r"\.layers?\.(\d+)\.", name):  # of BERT, MPNet, DistilBERT, ModernBERT ...
            below = layers - int(layer[1])
        elif ".embeddings." in name:
            below = layers + 1
        groups.setdefault((below, name in decayed), []).append(parameter)
    return torch.optim.AdamW(
        [
            {
                "params": parameters,
                "lr": arguments.learning_rate * decay**below,
                "weight_decay": arguments.weight_decay if decays else 0.0,
            }
            for (below, decays), parameters in groups.items()
        ],
        betas=(arguments.adam_beta1, arguments.adam_beta2),
        eps=arguments.adam_epsilon,
        fused=True,
    )


def two_stages(recipe: Recipe, train: Dataset, texts: dict[str, list[str]], seed: int) -> Scores:
    """
    Wu, Wang and Liu's future work: one model tells neutral rows from others; a second one, trained only on rows
    with an emotion, tells which. P(label) = P(an emotion) P(label | an emotion).
    """
    names, gold = label_names(train), label_matrix(train)
    neutral = names.index("neutral")
    others = [i for i in range(len(names)) if i != neutral]
    emotional = gold[:, others].any(axis=1)
    first = rows_of(train["text"], ["emotion", "neutral"], np.stack([emotional, gold[:, neutral]], axis=1))
    kept = np.flatnonzero(emotional)
    second = rows_of(train.select(kept)["text"], [names[i] for i in others], gold[kept][:, others])
    gate, which = (fit(recipe, rows, texts, seed) for rows in (first, second))
    result = {}
    for part in texts:
        result[part] = np.empty((len(texts[part]), len(names)), dtype=np.float32)
        result[part][:, others] = gate[part][:, :1] * which[part]
        result[part][:, neutral] = gate[part][:, 1]
    return result


def rows_of(texts: Sequence[str], names: list[str], gold: np.ndarray) -> Dataset:
    labels = [np.flatnonzero(row).tolist() for row in gold]
    features = Features(text=Value("string"), labels=List(ClassLabel(names=names)))
    return Dataset.from_dict({"text": list(texts), "labels": labels}, features=features)


def main(argv: Sequence[str] | None = None) -> list[dict]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", help="folder with the corpora")
    parser.add_argument("--base-model", default="minilm")
    parser.add_argument(
        "--variant",
        action="append",
        choices=VARIANTS,
        help="only these variants; 'distilled' also trains plain models as its teacher",
    )
    parser.add_argument("--train-fraction", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--set", action="append", default=[], help="key=value for the recipe, e.g. bf16=true")
    parser.add_argument("--output", type=Path, help="JSON file for the results")
    arguments = parser.parse_args(argv)
    recipe = over_base_model(load_recipe(RECIPE, [*arguments.set, f"base_model={arguments.base_model}"]))
    splits = load_dataset_for(recipe.dataset, arguments.data_dir, **recipe.dataset_options)
    train = share_of(splits["train"], arguments.train_fraction)
    gold = label_matrix(splits["validation"])
    known = gold.any(axis=0)  # a label without rows has no average precision
    texts = {"train": train["text"], "validation": splits["validation"]["text"]}
    dev = {"validation": texts["validation"]}
    described = dataclasses.replace(recipe, label_texts=DESCRIPTIONS)
    seeds = [recipe.seeds[0] + i for i in range(arguments.seeds)]
    found: list[dict] = []

    def report(variant: str, seed: int, scores: np.ndarray) -> None:
        row = {
            "variant": variant,
            "encoder": encoder_name(arguments.base_model),
            "settings": arguments.set,
            "seed": seed,
            "train_rows": len(train),
            "macro_f1": metrics.macro_f1(gold, scores > recipe.threshold),
            "average_precision": float(average_precision_score(gold[:, known], scores[:, known], average="macro")),
        }
        found.append(row)
        print(f"{variant}, seed {seed}: macro-F1 {row['macro_f1']:.4f}, AP {row['average_precision']:.4f}", flush=True)
        if arguments.output:
            write_json(arguments.output, found)

    variants = arguments.variant or VARIANTS
    plain = {}
    for seed in seeds if {"plain", "distilled"} & set(variants) else []:
        plain[seed] = fit(recipe, train, texts, seed)
        report("plain", seed, plain[seed]["validation"])
    if "distilled" in variants:
        teacher = np.mean([scores["train"] for scores in plain.values()], axis=0)
        mean = np.mean([scores["validation"] for scores in plain.values()], axis=0)
        report("mean of the seeds", seeds[0], mean)
        targets = (label_matrix(train) + teacher) / 2
    for seed in seeds:
        if "distilled" in variants:
            report("distilled", seed, fit(recipe, train, dev, seed, targets=targets)["validation"])
        if "label descriptions" in variants:
            report("label descriptions", seed, fit(described, train, dev, seed)["validation"])
        if "layer-wise rates" in variants:
            report("layer-wise rates", seed, fit(recipe, train, dev, seed, decay=DECAY)["validation"])
        if "two stages" in variants:
            report("two stages", seed, two_stages(recipe, train, dev, seed)["validation"])
    return found


if __name__ == "__main__":
    main()
