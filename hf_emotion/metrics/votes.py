# SPDX-License-Identifier: Apache-2.0
"""Measures probabilities against the votes of annotators, and how far the annotators agree."""

from collections.abc import Sequence

import numpy as np

from .checks import check_probabilities, check_shape, check_sums
from .numbers import mean


def against_votes(votes: np.ndarray, probabilities: np.ndarray, multi_label: bool) -> dict[str, float]:
    """
    How close probabilities (N, C) are to the shares (N, C) of the annotators.

    Soft F1 reads both as degrees of membership in a fuzzy set: a label's soft true positives are Σ min(p, v) over the rows, and its
    F1 is 2 Σ min(p, v) / (Σ p + Σ v) (Kurniawan et al. 2026, Computational Linguistics 52(1), 10.1162/coli.a.578). For single-label data
    the micro average is 1 − the mean total variation distance. Cross-entropy is at least the entropy of the votes.

    Returns:
        `soft_macro_f1` (mean over all labels; 0 for a label without votes and probability), `soft_micro_f1`, `cross_entropy` and
        `vote_entropy` in nats: for single-label data −Σ v log p, mean over the rows; for multi-label data −v log p − (1−v) log(1−p),
        mean over rows and labels. A probability counts as at least 1e-7.
    """
    votes, probabilities = np.asarray(votes, dtype=np.float64), np.asarray(probabilities, dtype=np.float64)
    check_shape("probabilities", probabilities, votes.shape)
    check_probabilities(probabilities)
    check_probabilities(votes, "votes")
    if not multi_label:
        check_sums("votes", votes)
    common, predicted, voted = (part.sum(axis=0) for part in (np.minimum(votes, probabilities), probabilities, votes))
    total = predicted.sum() + voted.sum()
    return {
        "soft_macro_f1": mean(2 * common / np.maximum(predicted + voted, 1e-12)) if len(votes) else float("nan"),
        "soft_micro_f1": float(2 * common.sum() / total) if total else float("nan"),
        "cross_entropy": mean(_cross_entropies(votes, probabilities, multi_label)),
        "vote_entropy": mean(_cross_entropies(votes, votes, multi_label)),
    }


def _cross_entropies(votes: np.ndarray, probabilities: np.ndarray, multi_label: bool) -> np.ndarray:
    """(N,) for rows with one label, else (N, C)."""
    terms = -votes * np.log(np.maximum(probabilities, 1e-7))
    if not multi_label:
        return terms.sum(axis=1)
    return terms - (1 - votes) * np.log(np.maximum(1 - probabilities, 1e-7))


def krippendorff_alpha(counts: np.ndarray) -> float:
    """
    Krippendorff's alpha for nominal values (Krippendorff 2019, Content Analysis, chapter 12): 1 − observed / expected disagreement, of
    `counts` (units, values): how many annotators gave the unit the value. Only units with at least two annotators count; NaN if none has, or if
    all gave the same value.
    """
    counts = np.asarray(counts, dtype=np.float64)
    counts = counts[counts.sum(axis=1) >= 2]
    annotators, values = counts.sum(axis=1), counts.sum(axis=0)
    total = values.sum()
    expected = total**2 - (values**2).sum()
    if not expected:  # also without units
        return float("nan")
    observed = ((annotators**2 - (counts**2).sum(axis=1)) / (annotators - 1)).sum()
    return float(1 - (total - 1) * observed / expected)


def agreement(votes: np.ndarray, annotators: np.ndarray, label_names: Sequence[str], multi_label: bool) -> dict:
    """
    What votes (N, C), shares of annotators, and their number of each row, (N,), 0 where it is not known, say about the annotators.

    Returns:
        `annotators`: their mean number, NaN if it is not known for all rows; `unanimous`: share of the rows without dissent;
        `alpha`: [`krippendorff_alpha`], NaN if a number is not known; for multi-label data the mean over `per_label`, the alpha
        of "has it" and "has it not" for each label, without the labels where it is NaN.
    """
    votes, annotators = np.asarray(votes, dtype=np.float64), np.asarray(annotators)
    known = len(annotators) > 0 and bool((annotators > 0).all())
    dissent = (votes > 1e-6) & (votes < 1 - 1e-6)
    result: dict = {
        "annotators": float(annotators.mean()) if known else float("nan"),
        "unanimous": mean(np.asarray(~dissent.any(axis=1))),
        "alpha": float("nan"),
    }
    counts = np.rint(votes * annotators[:, None])
    if not multi_label:
        return result | ({"alpha": krippendorff_alpha(counts)} if known else {})
    per_label = [
        krippendorff_alpha(np.stack([has, annotators - has], axis=1)) if known else float("nan") for has in counts.T
    ]
    defined = [alpha for alpha in per_label if alpha == alpha]
    result["alpha"] = mean(np.array(defined))
    return result | {"per_label": dict(zip(label_names, per_label, strict=True))}
