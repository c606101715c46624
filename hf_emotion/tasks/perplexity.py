# SPDX-License-Identifier: Apache-2.0
"""Computes perplexity from the losses of tokens, and measures the model after a training."""

from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

from ..io.files import filling
from .base import Fitted
from .checkpoints import save_model


def padded(rows: list[list[int]], value: int) -> torch.Tensor:
    """Rows of numbers -> (B, L), filled up with `value`."""
    longest = max(map(len, rows))
    return torch.tensor([row + [value] * (longest - len(row)) for row in rows])


def token_losses(logits, labels: torch.Tensor) -> torch.Tensor:
    """
    (B, T, V), (B, T) -> (B, 2): for each row the sum of its tokens' losses and their number. The Trainer's `eval_loss` would
    not do: it is a mean over batches, in which tokens of short replies weigh more, and it has label smoothing if training has.
    """
    logits = logits[0] if isinstance(logits, tuple) else logits
    losses = F.cross_entropy(logits.float().transpose(1, 2), labels, ignore_index=-100, reduction="none")
    return torch.stack([losses.double().sum(dim=1), (labels != -100).sum(dim=1).double()], dim=1)


def shifted_token_losses(logits, labels: torch.Tensor) -> torch.Tensor:
    """`token_losses` for a causal language model, whose logits at a position are for the next token."""
    logits = logits[0] if isinstance(logits, tuple) else logits
    return token_losses(logits[:, :-1], labels[:, 1:])


def perplexity(losses: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """(N, 2) of `token_losses` -> the perplexity per token."""
    loss, tokens = np.asarray(losses).sum(axis=0)
    with np.errstate(over="ignore"):  # a diverged training has infinite perplexity
        return {"perplexity": float(np.exp(loss / tokens)), "tokens": int(tokens)}


def finish(fitted: Fitted, folder: Path | None) -> None:
    """
    Put the perplexities of the validation and the test part into `fitted.run`: per token of the tokenizer, the end of each reply
    included. Write the checkpoint into `folder`.
    """
    trainer, prepared, run = fitted.trainer, fitted.prepared, fitted.run
    run.parameters = prepared.model.num_parameters()
    for split, rows in prepared.held_out.items():
        # Not `evaluate`: after it, early stopping would look for a metric of the validation part.
        measured = trainer.predict(rows, metric_key_prefix=split).metrics
        figures = {name: measured[f"{split}_{name}"] for name in ("perplexity", "tokens")}
        run.record(split, {"teacher_forcing": figures})
    model = trainer.whole_model()
    if folder is not None:
        with filling(folder) as temporary:
            save_model(model, prepared.tokenizer, temporary)
