# SPDX-License-Identifier: Apache-2.0
"""
Trains a classifier of texts on few rows. A recipe names the methods, and the validation part chooses among them:

- "linear": the encoder stays as it is; a linear head over its sentence vectors is solved for.
- "contrastive": first sentence vectors of the same label are pulled together and others apart (the idea of SetFit, Tunstall et al. 2022);
  then as "linear".
- "label-vectors": the encoder stays as it is; label vectors, which start from the labels' words, and the head are trained.
- "fine-tuning": all weights are trained.

The first two are label attention whose heads look only at the sentence vector. The trained checkpoint is of the same class for all.
"""

import dataclasses
import logging
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from sklearn.linear_model import LogisticRegression
from torch.nn import functional as F

from ...gold import Gold
from ...recipes import Fields, Recipe
from .. import corpus_of
from ..base import Prepared
from ..rows import gold_of


logger = logging.getLogger(__name__)

METHODS = ("linear", "contrastive", "label-vectors", "fine-tuning")
OWN_FILES = ["linear", "fine-tuning"]  # of a recipe on your own files that names none
ARGUMENTS: dict[str, Fields] = {  # of the methods that the Trainer trains; those of the recipe come first
    "label-vectors": {"learning_rate": 1e-3, "num_train_epochs": 15, "per_device_train_batch_size": 16},
    "fine-tuning": {"learning_rate": 1e-4, "per_device_train_batch_size": 16},
}
FEWEST_EPOCHS, MOST_EPOCHS, MOST_ROWS = 3, 10, 16_000  # of fine-tuning, epochs times rows
# Fields of a recipe that train other weights, or set a loss, a sampling or a head; the methods have their own.
UNFIT = (
    *("adapter", "max_windows", "class_weights", "positive_weights", "soft_labels", "teachers"),
    *("inverse_frequency_sampling", "training_arguments.label_smoothing_factor"),
    *("model_config.class_balanced_beta", "model_config.head_hidden_size"),
)
INVERSE_PENALTY = 10.0  # C of the logistic regression, for sentence vectors of mean length 1
STEPS = 20  # of the contrastive training, whatever the number of rows
ROWS = 48  # of a step; all pairs of them are compared
CONTRASTIVE_RATE = 1e-4


def check_few_shot(recipe: Recipe, model_types: tuple[str, ...]) -> None:
    """ValueError for methods that do not exist, and for fields that do not go with them."""
    methods = recipe.few_shot or []
    unknown = [method for method in methods if method not in METHODS]
    if unknown or len(set(methods)) != len(methods):
        raise ValueError(f"`few_shot` must be different ones of {list(METHODS)}, got {methods}.")
    if not methods:
        return
    if recipe.model_type not in model_types:
        raise ValueError(f"`few_shot` trains label attention: set `model_type` to {model_types[-1]!r}.")
    if problem := _unfit(recipe):
        raise ValueError(problem)


def methods_of(recipe: Recipe, train: Dataset, model_types: tuple[str, ...]) -> list[str]:
    """
    The recipe's methods; if it names none, `OWN_FILES` for label attention and texts of your own files that they fit.
    """
    if recipe.few_shot is not None:
        return recipe.few_shot
    fits = recipe.model_type in model_types and corpus_of(recipe.dataset).own_files and _unfit(recipe) is None
    return OWN_FILES if fits and not (gold := gold_of(train)).regression and gold.complete else []


def _unfit(recipe: Recipe) -> str | None:
    """What does not go with the methods; None: nothing."""
    fields = dataclasses.asdict(recipe)
    fields |= {f"model_config.{name}": value for name, value in recipe.model_config.items()}
    fields |= {f"training_arguments.{name}": value for name, value in recipe.training_arguments.items()}
    for field in UNFIT:
        if fields.get(field):
            return f"`{field}` does not go with `few_shot`: leave one of the two out."
    if recipe.model_config.get("label_attention", "bilinear") != "bilinear":
        return "`few_shot` needs bilinear attention: leave `model_config.label_attention` out."
    return None


def arguments_of(method: str, rows: int) -> Fields:
    """The Trainer's arguments for a method and a number of training rows."""
    own = ARGUMENTS.get(method, {})
    if method == "fine-tuning":
        own = own | {"num_train_epochs": max(FEWEST_EPOCHS, min(MOST_EPOCHS, MOST_ROWS // rows))}
    return own


def for_method(recipe: Recipe) -> Recipe:
    """The recipe, with a head for each label if the recipe's method keeps the encoder as it is when it trains the head."""
    if recipe.few_shot in (None, [], ["fine-tuning"]):
        return recipe
    return dataclasses.replace(recipe, model_config=recipe.model_config | {"tie_head": False})


def begin(method: str, prepared: Prepared, use_cpu: bool = False) -> None:
    """
    Do what a method does before the Trainer starts. Weights that it will not train get `requires_grad=False`; if those are all
    weights, the model is finished.
    """
    model = prepared.model
    place = torch.device("cuda" if torch.cuda.is_available() and not use_cpu else "cpu")
    model.to(place)
    if method == "contrastive":
        _contrast(prepared)
    if method in ("linear", "contrastive"):
        _solve_head(prepared)
    model.to("cpu")
    for name, parameter in model.named_parameters():
        if method == "fine-tuning" or (method == "label-vectors" and not _is_encoder(name)):
            continue
        parameter.requires_grad = False


def _is_encoder(name: str) -> bool:
    return not name.startswith("classifier.") and ".score." not in name


def _sentences(prepared: Prepared, rows: Dataset, numbers: list[int]) -> torch.Tensor:
    """Sentence vectors (n, d) of some rows."""
    model: Any = prepared.model
    batch = {name: value.to(model.device) for name, value in prepared.collate([rows[i] for i in numbers]).items()}
    del batch["labels"]
    return model.base_model(**batch).label_representations[:, 0, model.config.hidden_size :]


def _batches(rows: Dataset, numbers: Any, size: int = 16) -> list[list[int]]:
    """Row numbers in batches of similar length, which saves padding."""
    lengths = rows["length"][:]
    numbers = sorted(map(int, numbers), key=lambda i: lengths[i])
    return [numbers[start : start + size] for start in range(0, len(numbers), size)]


def _hot(prepared: Prepared) -> np.ndarray:
    """(N, C + 1) of 0 and 1: the labels of the training rows, and whether a row has none."""
    found = Gold(np.asarray(prepared.train["labels"][:])).has(prepared.model.config.num_labels)
    return np.column_stack([found, ~found.any(axis=1)])


def _contrast(prepared: Prepared) -> None:
    """
    Train the encoder so that the cosine of two sentence vectors becomes the share of labels that their rows have in common: 1 for the
    same label, 0 for different ones. A step compares all pairs of its rows; pairs with and without a common label count for one half
    each.
    """
    model, rows, hot = prepared.model, prepared.train, _hot(prepared)
    generator = np.random.default_rng(torch.initial_seed())
    occurring = np.flatnonzero(hot.any(axis=0))
    labels_of_step = min(len(occurring), ROWS // 2)
    encoder = [parameter for name, parameter in model.named_parameters() if _is_encoder(name)]
    optimizer = torch.optim.AdamW(encoder, lr=CONTRASTIVE_RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, CONTRASTIVE_RATE, total_steps=STEPS, pct_start=0.1)
    model.train()
    for _ in range(STEPS):
        drawn: set[int] = set()
        for label in generator.choice(occurring, labels_of_step, replace=False):
            own = np.flatnonzero(hot[:, label])
            drawn |= set(generator.choice(own, min(ROWS // labels_of_step, len(own)), replace=False).tolist())
        batches = _batches(rows, drawn)
        vectors = F.normalize(torch.cat([_sentences(prepared, rows, batch) for batch in batches]), dim=-1)
        labels = torch.from_numpy(hot[[i for batch in batches for i in batch]]).to(vectors)
        common = labels @ labels.T
        target = common / (labels.sum(1)[:, None] + labels.sum(1) - common)
        first, second = torch.triu_indices(len(labels), len(labels), offset=1, device=vectors.device)
        errors, same = (vectors @ vectors.T - target)[first, second] ** 2, target[first, second] > 0
        loss = torch.stack([errors[part].mean() for part in (same, ~same) if part.any()]).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(encoder, 1.0)
        optimizer.step()
        schedule.step()
    optimizer.zero_grad()


@torch.no_grad()
def _solve_head(prepared: Prepared) -> None:
    """Set the heads to the logistic regression over the training rows' sentence vectors, which ignores the attended words."""
    model: Any = prepared.model.eval()
    batches = _batches(prepared.train, range(len(prepared.train)), size=64)
    vectors = torch.cat([_sentences(prepared, prepared.train, batch) for batch in batches]).double().cpu().numpy()
    hot = _hot(prepared)[[i for batch in batches for i in batch], :-1]
    length = np.linalg.norm(vectors, axis=1).mean()
    weights, biases = np.zeros((hot.shape[1], vectors.shape[1])), np.full(hot.shape[1], -10.0)
    regression = LogisticRegression(C=INVERSE_PENALTY, max_iter=1000)
    if model.config.problem_type == "single_label_classification":
        regression.fit(vectors / length, hot.argmax(axis=1))
        labels = regression.classes_
        if len(labels) == 2:  # scikit-learn gives only the second label; the first has the logit 0
            biases[labels[0]], labels = 0.0, labels[1:]
        weights[labels], biases[labels] = regression.coef_, regression.intercept_
    else:
        for label, own in enumerate(hot.T):
            if own.any() and not own.all():
                regression.fit(vectors / length, own)
                weights[label], biases[label] = regression.coef_[0], regression.intercept_[0]
            elif own.any():
                biases[label] = 10.0
    head = model.classifier.out_proj
    head.weight.zero_()
    head.weight[:, model.config.hidden_size :] = torch.from_numpy(weights / length)
    head.bias.copy_(torch.from_numpy(biases))
