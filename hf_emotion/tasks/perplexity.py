# SPDX-License-Identifier: Apache-2.0
"""Perplexity from the losses of tokens."""

import numpy as np
import torch
from torch.nn import functional as F


def _padded(rows: list[list[int]], value: int) -> torch.Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [value] * (longest - len(row)) for row in rows])


def _token_losses(logits, labels: torch.Tensor) -> torch.Tensor:
    """
    (B, T, V), (B, T) -> (B, 2): the sum of the tokens' losses of each row and their number. The Trainer's `eval_loss` is a mean
    over batches, which weighs the tokens of short replies more, and is smoothed where training is.
    """
    logits = logits[0] if isinstance(logits, tuple) else logits
    losses = F.cross_entropy(logits.float().transpose(1, 2), labels, ignore_index=-100, reduction="none")
    return torch.stack([losses.double().sum(dim=1), (labels != -100).sum(dim=1).double()], dim=1)


def _perplexity(prediction) -> dict[str, float]:
    loss, tokens = np.asarray(prediction.predictions).sum(axis=0)
    with np.errstate(over="ignore"):  # of a training that diverged it is infinite
        return {"perplexity": float(np.exp(loss / tokens)), "tokens": int(tokens)}
