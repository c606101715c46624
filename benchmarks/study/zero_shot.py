# SPDX-License-Identifier: Apache-2.0
"""Measures how well a label can be added by its name alone.

    python -m benchmarks.study zero-shot RUN --data-dir DATA --output zero_shot.json

For each label in turn: the encoder of a trained label-aware model is frozen; label vectors, bilinear map and head are trained anew
without that label and without the rows that have it. Then `add_labels` adds it by name. Its scores on test are measured by
AUROC, and by F1 at thresholds chosen on the texts of the validation part, without their labels. The encoder has seen the
label in its own training: this measures label vectors and head, not the encoder. Two controls: the cosine of text and label
name, and another label's name instead of its own.
"""

import copy
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hf_emotion.modeling.modeling_label_aware import with_sentence
from sklearn.metrics import f1_score, roc_auc_score
from torch.nn import functional as F
from tqdm.auto import tqdm
from transformers import PreTrainedModel

from hf_emotion.data.splits import check_split, label_names
from hf_emotion.metrics.multi_label import tune_thresholds
from hf_emotion.reports.label_errors import load_encoder, mean_vectors
from hf_emotion.runtime.batching import token_budget_batches
from hf_emotion.runtime.ready import with_weights
from hf_emotion.tasks.emotion_classification.added_labels import (
    check_takes_labels,
    development_texts,
    threshold_by_rate,
)
from hf_emotion.tasks.emotion_classification.predictor import Predictor
from hf_emotion.tasks.loading import load_dataset_for
from hf_emotion.tasks.rows import label_matrix


BY_NAME, SHUFFLED = "added_by_name", "shuffled_name"
KINDS = (BY_NAME, SHUFFLED, "cosine", "trained")


class FrozenStates:
    """The encoder's states of N texts, computed once, in batches of texts of similar length; float16."""

    def __init__(self, model: PreTrainedModel, tokenizer, texts: list[str], max_length: int):
        ids = tokenizer(texts, truncation=True, max_length=max_length)["input_ids"]
        self.rows = token_budget_batches([len(row) for row in ids], 2048)
        self.batches = []
        for rows in tqdm(self.rows, desc="encoding", unit="batches", disable=None):
            batch = tokenizer.pad({"input_ids": [ids[row] for row in rows]}, return_tensors="pt").to(model.device)
            with torch.no_grad():
                outputs = model.base_model(**batch)
            states = outputs.last_hidden_state
            # each label's representation ends with s
            sentence = outputs.label_representations[:, 0, states.shape[-1] :]
            mask = batch["attention_mask"].bool()
            self.batches.append((states.half().cpu(), sentence.half().cpu(), mask.cpu()))

    def __iter__(self) -> Iterator[tuple[list[int], tuple[torch.Tensor, torch.Tensor, torch.Tensor]]]:
        """(row numbers, (states (b, L, d), sentences (b, d), mask (b, L))) per batch, float32 and bool."""
        for rows, (states, sentence, mask) in zip(self.rows, self.batches, strict=True):
            yield rows, (states.float(), sentence.float(), mask)


def logits_of(
    model: PreTrainedModel, states: torch.Tensor, sentence: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Run the model above its encoder: states (b, L, d), sentences (b, d), mask (b, L) -> (b, C)."""
    attended, *_ = model.base_model.score(states, mask)  # (b, C, d)
    return model.classifier(with_sentence(attended, sentence))


def train_head(model, states: FrozenStates, gold: torch.Tensor, keep: np.ndarray, epochs: int, seed: int) -> None:
    """Train everything above the encoder on the rows of `keep`, with binary cross-entropy."""
    parameters = [*model.base_model.score.parameters(), *model.classifier.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, total_iters=epochs * len(states.rows))
    batches = list(zip(states.rows, states.batches, strict=True))
    generator = np.random.default_rng(seed)
    model.train()
    for _ in range(epochs):
        for number in generator.permutation(len(batches)):
            rows, (hidden, sentence, mask) = batches[number]
            chosen = torch.from_numpy(keep[rows])
            if not chosen.any():
                continue
            logits = logits_of(model, hidden[chosen].float(), sentence[chosen].float(), mask[chosen])
            loss = F.binary_cross_entropy_with_logits(logits, gold[rows][chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    model.eval()


@torch.no_grad()
def probabilities(model, states: FrozenStates) -> np.ndarray:
    """(N, C) float32."""
    scores = np.empty((sum(map(len, states.rows)), model.config.num_labels), dtype=np.float32)
    for rows, inputs in states:
        scores[rows] = logits_of(model, *inputs).sigmoid().numpy()
    return scores


def name_cosines(
    encoder: str, parts: Mapping[str, list[str]], names: list[str], max_length: int
) -> dict[str, np.ndarray]:
    """Cosine of the mean-pooled vectors of texts and label names, (N, C) for each part."""
    tokenizer, model = load_encoder(encoder)
    of_names = mean_vectors(names, tokenizer, model, max_length)
    return {part: mean_vectors(texts, tokenizer, model, max_length) @ of_names.T for part, texts in parts.items()}


def fresh_head(trained: PreTrainedModel, tokenizer, names: list[str], seed: int):
    """The trained encoder (shared, frozen) under a new head for the labels `names`."""
    config = copy.deepcopy(trained.config)
    config.id2label, config.label2id = dict(enumerate(names)), {name: i for i, name in enumerate(names)}
    config.class_counts = config.thresholds = config.class_balanced_beta = None
    torch.manual_seed(seed)
    model = type(trained)(config)
    for name, module in trained.base_model.named_children():
        if name != "score":
            setattr(model.base_model, name, module)
    return model.init_label_embeddings(tokenizer)


def thresholds_of(
    scores: Mapping[str, np.ndarray], known: Mapping[str, np.ndarray], tuned: list[float]
) -> dict[str, float]:
    """
    The threshold of a new label by each rule: "rate" and "packaged" (`threshold_by_rate` on the validation part, and on the
    packaged texts as `Predictor` does), "mean" (of the known labels' thresholds), "half" (0.5).

    Args:
        scores, known: "validation" and "packaged" -> scores of the new label (N,), probabilities of the known ones (N, C).
        tuned: C thresholds of the known labels.
    """
    return {
        "rate": threshold_by_rate(known["validation"], tuned, scores["validation"]),
        "packaged": threshold_by_rate(known["packaged"], tuned, scores["packaged"]),
        "mean": statistics.fmean(tuned),
        "half": 0.5,
    }


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
    Leave out each label in turn, add it by name, measure AUROC and F1 on test.

    Args:
        run: folder of a trained model with `add_labels`.
        dataset, data_dir: see `load_dataset_for`.
        base_encoder: encoder of the cosine control.
        epochs: number of epochs for the head.
        train_fraction: share of the training rows for the heads; the first rows after a shuffle at the seed.
        seed: seed for the head's initialisation, the batch order, and the shuffled names.

    Returns:
        {"labels": {name: {"added_by_name", "shuffled_name", "cosine", "trained", "f1", "rows", "wrong_name"}}, "over_labels":
        {kind: {"mean", "std"}, "f1": {kind: {rule: mean}}}, ...}. Figures lie in [0, 1]. The first four are AUROC; "trained"
        is the trained model's own score for the label. "f1" holds F1 for each kind and rule, see `thresholds_of`; for
        "trained" the rule "tuned" is its own threshold.
    """
    predictor = Predictor(with_weights(run), max_length=max_length)
    trained, tokenizer = predictor.model, predictor.tokenizer
    check_takes_labels(trained, tokenizer)
    for parameter in trained.parameters():
        parameter.requires_grad_(False)
    splits = load_dataset_for(dataset, data_dir)
    check_split(splits, "train", dataset)
    rows = round(train_fraction * len(splits["train"]))
    if not 0 < rows <= len(splits["train"]):
        raise ValueError(f"`train_fraction` must lie in (0, 1], got {train_fraction}.")
    splits["train"] = splits["train"].shuffle(seed=seed).select(range(rows))
    names = label_names(splits["train"])
    gold = {split: label_matrix(splits[split]) for split in ("train", "validation", "test")}
    texts = {split: list(splits[split]["text"]) for split in gold} | {"packaged": development_texts()}
    read = {part: texts[part] for part in ("validation", "packaged", "test")}
    cosines = name_cosines(base_encoder, read, names, max_length)
    columns = [predictor.labels.index(name) for name in names]
    own, own_thresholds = predictor.probabilities(texts["test"])[:, columns], predictor.thresholds[columns]
    states = {part: FrozenStates(trained, tokenizer, texts[part], max_length) for part in texts}
    # A cyclic shift of a random order: no label keeps its own name.
    order = np.random.default_rng(seed).permutation(len(names))
    wrong = {names[a]: names[b] for a, b in zip(order, np.roll(order, 1), strict=True)}

    results = {}
    for column, name in enumerate(tqdm(names, desc="labels", unit="labels", disable=None)):
        others = [i for i in range(len(names)) if i != column]
        model = fresh_head(trained, tokenizer, [names[i] for i in others], seed)
        keep = gold["train"][:, column] == 0
        train_head(model, states["train"], torch.from_numpy(gold["train"][:, others]).float(), keep, epochs, seed)
        model.add_labels([BY_NAME, SHUFFLED], tokenizer, label_texts=[name, wrong[name]])
        found = {part: probabilities(model, states[part]) for part in read}
        known = {part: scores[:, :-2] for part, scores in found.items()}
        tuned = tune_thresholds(gold["validation"][:, others], known["validation"])
        target = gold["test"][:, column]
        result: dict[str, Any] = {"f1": {}, "rows": int(target.sum()), "wrong_name": wrong[name]}
        for kind, of_kind in (
            (BY_NAME, {part: scores[:, -2] for part, scores in found.items()}),
            (SHUFFLED, {part: scores[:, -1] for part, scores in found.items()}),
            ("cosine", {part: scores[:, column] for part, scores in cosines.items()}),
        ):
            result[kind] = float(roc_auc_score(target, of_kind["test"]))
            at = thresholds_of(of_kind, known, tuned)
            if kind == "cosine":  # no probability
                at = {rule: at[rule] for rule in ("rate", "packaged")}
            result["f1"][kind] = {rule: _f1(target, of_kind["test"], threshold) for rule, threshold in at.items()}
        result["trained"] = float(roc_auc_score(target, own[:, column]))
        result["f1"]["trained"] = {"tuned": _f1(target, own[:, column], own_thresholds[column])}
        results[name] = result
    summary: dict[str, Any] = {
        kind: {"mean": statistics.fmean(values), "std": statistics.stdev(values)}
        for kind in KINDS
        for values in [[row[kind] for row in results.values()]]
    }
    summary["f1"] = {
        kind: {rule: statistics.fmean(row["f1"][kind][rule] for row in results.values()) for rule in rules}
        for kind, rules in next(iter(results.values()))["f1"].items()
    }
    better = sum(row[BY_NAME] > row["cosine"] for row in results.values())
    return {
        "labels": results,
        "over_labels": summary,
        "labels_better_than_cosine": better,
        "train_rows": rows,
        "epochs": epochs,
        "seed": seed,
    }


def _f1(target: np.ndarray, scores: np.ndarray, threshold: float) -> float:
    return float(f1_score(target, scores > threshold, zero_division=0))
