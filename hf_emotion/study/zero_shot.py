# SPDX-License-Identifier: Apache-2.0
"""How well can a label be added by its name alone?

    hf-emotion study zero-shot RUN --data-dir DATA --output zero_shot.json

For each label in turn: with the encoder of a trained label-aware model frozen, the label vectors, the bilinear map and the
head are trained anew without that label and without the rows that have it; then `add_labels` adds it by name, and its
logits are measured on test by AUROC. The encoder has seen the label in its own training: this measures label vectors and
head, not the encoder. Two controls: the cosine of text and label name, and another label's name in place of its own.
"""

import copy
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from sklearn.metrics import roc_auc_score
from torch.nn import functional as F
from tqdm.auto import tqdm
from transformers import AutoModel

from ..data.splits import check_split, label_names
from ..modeling import BertForLabelAwareClassification
from ..runtime.base_models import resolve_base_model
from ..runtime.batching import token_budget_batches
from ..runtime.loading import read_model, read_tokenizer
from ..tasks.emotion_classification.predictor import Predictor
from ..tasks.loading import load_dataset_for
from ..tasks.rows import label_matrix
from .baselines import mean_vectors


class FrozenStates:
    """The last hidden states of a split, computed once, in batches of rows of like length; float16."""

    def __init__(self, model: BertForLabelAwareClassification, tokenizer, dataset: Dataset, max_length: int):
        ids = tokenizer(list(dataset["text"]), truncation=True, max_length=max_length)["input_ids"]
        self.rows = token_budget_batches([len(row) for row in ids], 2048)
        self.batches = []
        for rows in tqdm(self.rows, desc="encoding", unit="batches", disable=None):
            batch = tokenizer.pad({"input_ids": [ids[row] for row in rows]}, return_tensors="pt").to(model.device)
            with torch.no_grad():
                states = model.bert(**batch).last_hidden_state.half()
            self.batches.append((states.cpu(), batch["attention_mask"].bool().cpu()))

    def __iter__(self) -> Iterator[tuple[list[int], torch.Tensor, torch.Tensor]]:
        """(row numbers, states (b, L, d) float32, mask (b, L)) per batch."""
        for rows, (states, mask) in zip(self.rows, self.batches, strict=True):
            yield rows, states.float(), mask


def logits_of(model: BertForLabelAwareClassification, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The model above its encoder: (b, L, d) -> (b, C)."""
    attended, _ = model.bert.score(states, mask)  # (b, C, d)
    sentence = states[:, 0] if model.bert.pooler is None else model.bert.pooler(states)
    return model.classifier(torch.cat([attended, sentence[:, None].expand_as(attended)], dim=-1))


def train_head(model, states: FrozenStates, gold: torch.Tensor, keep: np.ndarray, epochs: int, seed: int) -> None:
    """Train everything above the encoder on the rows of `keep`, with binary cross-entropy."""
    parameters = [*model.bert.score.parameters(), *model.classifier.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, total_iters=epochs * len(states.rows))
    batches = list(zip(states.rows, states.batches, strict=True))
    generator = np.random.default_rng(seed)
    model.train()
    for _ in range(epochs):
        for number in generator.permutation(len(batches)):
            rows, (hidden, mask) = batches[number]
            chosen = torch.from_numpy(keep[rows])
            if not chosen.any():
                continue
            logits = logits_of(model, hidden[chosen].float(), mask[chosen])
            loss = F.binary_cross_entropy_with_logits(logits, gold[rows][chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    model.eval()


@torch.no_grad()
def last_label_logits(model, states: FrozenStates, total: int) -> np.ndarray:
    """Logits of the label that was added last, (N,)."""
    scores = np.empty(total, dtype=np.float32)
    for rows, hidden, mask in states:
        scores[rows] = logits_of(model, hidden, mask)[:, -1].numpy()
    return scores


def name_cosines(encoder: str, texts: list[str], names: list[str], max_length: int) -> np.ndarray:
    """Cosine of the mean-pooled vectors of texts and label names, (N, C)."""
    tokenizer = read_tokenizer(encoder)
    model = read_model(AutoModel, encoder, dtype=torch.float32).eval()
    of_texts, of_names = (mean_vectors(items, tokenizer, model, max_length) for items in (texts, names))
    return of_texts @ of_names.T


def fresh_head(trained: BertForLabelAwareClassification, tokenizer, names: list[str], seed: int):
    """The trained encoder (shared, frozen) under a new head for the labels `names`."""
    config = copy.deepcopy(trained.config)
    config.id2label, config.label2id = dict(enumerate(names)), {name: i for i, name in enumerate(names)}
    config.class_counts = config.thresholds = config.class_balanced_beta = None
    torch.manual_seed(seed)
    model = BertForLabelAwareClassification(config)
    model.bert.embeddings, model.bert.encoder, model.bert.pooler = (
        trained.bert.embeddings,
        trained.bert.encoder,
        trained.bert.pooler,
    )
    return model.init_label_embeddings(tokenizer)


def zero_shot(
    run: str | Path,
    data_dir: str | Path | None = None,
    dataset: str = "goemotions",
    base_encoder: str = "minilm",
    epochs: int = 2,
    seed: int = 0,
    max_length: int = 50,
    train_fraction: float = 1.0,
) -> dict[str, Any]:
    """
    Leave out each label in turn, add it by name, measure AUROC on test.

    Args:
        run: folder of a trained bilinear label-aware model.
        dataset, data_dir: see `load_dataset_for`.
        base_encoder: encoder of the cosine control.
        epochs: of the head.
        train_fraction: share of the training rows for the heads, the first after a shuffle at the seed.
        seed: of the head's initialisation, of the batch order, and of the shuffled names.

    Returns:
        {"labels": {name: {"added_by_name", "shuffled_name", "cosine", "trained", "rows"}}, "mean": ...}; AUROC in [0, 1];
        "trained" is the trained model's own score for the label.
    """
    predictor = Predictor(run, max_length=max_length)
    trained, tokenizer = predictor.model, predictor.tokenizer
    config = trained.config
    if not (
        isinstance(trained, BertForLabelAwareClassification)
        and config.label_attention == "bilinear"
        and config.tie_head
    ):
        raise ValueError(
            f"{run} is no label-aware model with bilinear attention and a tied head, the only kind that labels can be added to."
        )
    for parameter in trained.parameters():
        parameter.requires_grad_(False)
    splits = load_dataset_for(dataset, data_dir)
    check_split(splits, "train", dataset)
    rows = round(train_fraction * len(splits["train"]))
    if not 0 < rows <= len(splits["train"]):
        raise ValueError(f"`train_fraction` must lie in (0, 1], got {train_fraction}.")
    splits["train"] = splits["train"].shuffle(seed=seed).select(range(rows))
    names = label_names(splits["train"])
    gold = {split: label_matrix(splits[split]) for split in ("train", "test")}
    cosines = name_cosines(resolve_base_model(base_encoder), list(splits["test"]["text"]), names, max_length)
    own = predictor.probabilities(splits["test"]["text"])[:, [predictor.labels.index(name) for name in names]]
    states = {split: FrozenStates(trained, tokenizer, splits[split], max_length) for split in ("train", "test")}
    # A cyclic shift of a random order: no label keeps its own name.
    order = np.random.default_rng(seed).permutation(len(names))
    wrong = {names[a]: names[b] for a, b in zip(order, np.roll(order, 1), strict=True)}

    results = {}
    for column, name in enumerate(tqdm(names, desc="labels", unit="labels", disable=None)):
        others = [i for i in range(len(names)) if i != column]
        model = fresh_head(trained, tokenizer, [names[i] for i in others], seed)
        keep = gold["train"][:, column] == 0
        train_head(model, states["train"], torch.from_numpy(gold["train"][:, others]).float(), keep, epochs, seed)
        target = gold["test"][:, column]
        scores = {}
        for kind, text in (("added_by_name", name), ("shuffled_name", wrong[name])):
            extended = copy.deepcopy(model)
            extended.add_labels([name], tokenizer, label_texts=[text])
            scores[kind] = float(roc_auc_score(target, last_label_logits(extended, states["test"], len(target))))
        results[name] = scores | {
            "cosine": float(roc_auc_score(target, cosines[:, column])),
            "trained": float(roc_auc_score(target, own[:, column])),
            "rows": int(target.sum()),
            "wrong_name": wrong[name],
        }
    kinds = ("added_by_name", "shuffled_name", "cosine", "trained")
    summary = {
        kind: {"mean": statistics.fmean(values), "std": statistics.stdev(values)}
        for kind in kinds
        for values in [[row[kind] for row in results.values()]]
    }
    better = sum(row["added_by_name"] > row["cosine"] for row in results.values())
    return {
        "labels": results,
        "over_labels": summary,
        "labels_better_than_cosine": better,
        "train_rows": rows,
        "epochs": epochs,
        "seed": seed,
    }
