# SPDX-License-Identifier: Apache-2.0
"""
Tells texts that are unlike those that a model was trained on. A text is the mean of its tokens' word embeddings, which hold what it is
about, and cost nothing to look up; a logistic regression tells the training texts from packaged everyday sentences in ten languages and
from random letters.
"""

import string
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...runtime.batching import encode_texts


if TYPE_CHECKING:
    from datasets import DatasetDict

    from ...recipes import Recipe
    from ...run_report import SeedRun
    from ..base import Prepared

TOKEN_SCORES = "token_scores.npy"  # beside an exported model
FEWEST, MOST = 40, 2000  # training texts that it needs, and that it looks at
OWN = 0.02  # share of texts like the training texts that it takes for others
EVERYDAY = 1000  # English sentences
FILLER = "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut labore et dolore magna".split()
USEFUL = 0.1  # share of them that it must tell
INVERSE_PENALTY = 10.0  # C of the logistic regression, for vectors of mean length 1


def token_scores(model: Any) -> np.ndarray | None:
    """(vocabulary,) what `are_unlike` adds up, from the word embeddings or the file of an exported model; None of a model that tells nothing."""
    found = getattr(model.config, "unlike", None)
    if found is None:
        return None
    if getattr(model, "takes_arrays", False):
        return np.load(model.folder / TOKEN_SCORES)
    return embeddings_of(model) @ np.array(found["direction"]) - found["threshold"]


def embeddings_of(model: Any) -> np.ndarray:
    """(vocabulary, d) float32."""
    return model.get_input_embeddings().weight.detach().float().cpu().numpy()


def other_texts() -> list[str]:
    """`EVERYDAY` English sentences, as people write them to each other; plain ones in ten languages; filler text; random letters."""
    from ...data.rows import packaged_rows

    everyday = [row["text"] for _, row in packaged_rows("everyday", "train")]
    plain = [row["text"] for _, row in packaged_rows("plain_sentences", "train")]
    letters, generator = list(string.ascii_lowercase), np.random.default_rng(0)
    words = [["".join(generator.choice(letters, generator.integers(2, 9))) for _ in range(4)] for _ in range(50)]
    filler = [FILLER[:number] for number in range(2, len(FILLER) + 1)]
    return [*everyday[:: len(everyday) // EVERYDAY][:EVERYDAY], *plain, *map(" ".join, [*filler, *words])]


def learn(model: Any, tokenizer: Any, gate: Any, max_length: int, texts: Sequence[str]) -> dict[str, Any] | None:
    """
    What the configuration keeps: a `direction` (d,) and a `threshold`, below which the mean of a text's embeddings in that direction is
    unlike the training `texts`. None: they are too few, or too much like everyday sentences.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    own = list(dict.fromkeys(texts))
    own = own[:: -(-len(own) // MOST)]
    if len(own) < FEWEST:
        return None
    embeddings, both = embeddings_of(model), [*own, *other_texts()]
    encoded, _ = encode_texts(tokenizer, [both], max_length, gate, model.config)
    vectors = np.stack([embeddings[ids].mean(axis=0) for ids in encoded["input_ids"]]).astype(np.float64)
    length, is_own = np.linalg.norm(vectors, axis=1).mean(), np.arange(len(both)) < len(own)
    regression = LogisticRegression(C=INVERSE_PENALTY, max_iter=1000, class_weight="balanced")
    scores = cross_val_predict(regression, vectors / length, is_own, method="decision_function")
    threshold = np.quantile(scores[is_own], OWN)
    if (scores[~is_own][:EVERYDAY] < threshold).mean() < USEFUL:
        return None
    regression.fit(vectors / length, is_own)
    direction = [float(f"{value:.4g}") for value in regression.coef_[0] / length]
    return {"direction": direction, "threshold": float(threshold - regression.intercept_[0])}


def telling(prepared: "Prepared", finish: Callable[..., Any]) -> Callable[..., Any]:
    """The `finish` of `finish_classifier`, for a model that learns before from files of one's own what is unlike them."""

    def finished(
        recipe: "Recipe", run: "SeedRun", scores: Any, splits: "DatasetDict", folder: Path, model: Any, save: Any
    ) -> Any:
        from .. import corpus_of

        found = None
        if corpus_of(recipe.dataset).own_files:
            texts = [*splits["train"]["text"], *splits["validation"]["text"]]
            found = learn(model, prepared.tokenizer, prepared.settings.get("gate"), recipe.max_length, texts)
        if found is not None or hasattr(model.config, "unlike"):  # of the base model
            model.config.unlike = found
        return finish(recipe, run, scores, splits, folder, model, save)

    return finished
