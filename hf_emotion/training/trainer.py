# SPDX-License-Identifier: Apache-2.0
"""The Trainer of every task. The order of training rows is the same in every process, after every resume, and for every number of processes."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from accelerate.data_loader import DataLoaderShard
from torch.distributed.fsdp import FSDPModule
from torch.utils.data import BatchSampler, DataLoader, Sampler, SequentialSampler, WeightedRandomSampler
from transformers import EvalPrediction, PreTrainedModel, Trainer
from transformers.trainer_pt_utils import LengthGroupedSampler

from ..data.votes import COLUMN as VOTES
from .adapters import is_adapted
from .survive import diverged


class EpochOrder(Sampler[int]):
    """The order that `sampler` draws; it depends only on the seed and the number of the epoch."""

    def __init__(self, sampler: Sampler[int], seed: int):
        self.sampler, self.seed, self.epoch = sampler, seed, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.sampler)

    def __iter__(self) -> Iterator[int]:
        # The factor keeps epoch 1 of a seed apart from epoch 0 of the next seed.
        self.sampler.generator = torch.Generator().manual_seed(1_000_003 * self.seed + self.epoch)
        return iter(self.sampler)


class SharedBatches(BatchSampler):
    """
    One process's share of each batch, `batch_size` rows. Together the processes see the batches of a single process with
    `num_processes` times the `batch_size`. A short last batch is shared as evenly as possible; if it has fewer rows than there are
    processes, rows are repeated until each process has one.
    """

    def __init__(
        self, sampler: Sampler[int], batch_size: int, drop_last: bool, num_processes: int = 1, process_index: int = 0
    ):
        super().__init__(sampler, batch_size * num_processes, drop_last)
        self.num_processes, self.process_index = num_processes, process_index

    def __iter__(self) -> Iterator[list[int]]:
        for batch in super().__iter__():
            rows = max(len(batch), self.num_processes)
            start, end = (rows * i // self.num_processes for i in (self.process_index, self.process_index + 1))
            yield [batch[i % len(batch)] for i in range(start, end)]


def items_in(labels: torch.Tensor) -> torch.Tensor:
    """How many labels a batch has: class ids that are not -100, or floats that are not NaN, which stands for what was not annotated."""
    return (~labels.isnan() if labels.is_floating_point() else labels != -100).sum()


def _marked(batch: dict) -> dict:
    """A batch for the Trainer's count of items: it leaves out labels that are -100, and knows no NaN."""
    labels = batch.get("labels")
    if labels is None or not labels.is_floating_point():
        return batch
    return {"labels": labels.isnan().long() * -100}


class EmotionTrainer(Trainer):
    """
    A Trainer whose steps depend only on the seed and the batch size. The stock LengthGroupedSampler draws from the global random state: a
    run that resumes within an epoch gets other batches, and processes under dropout get orders that do not fit together. It fills the last
    batch with rows of the first. And the Trainer averages the losses of processes and of accumulated batches over batches, not over their
    labels.

    It also spares parameters that the model names from weight decay (the stock rule spares only norms and biases), evaluates in
    the order of the rows, hands the votes of a batch to the loss and, if asked for, samples by inverse class frequency.
    """

    inverse_frequency_sampling = False

    def get_train_dataloader(self) -> DataLoader:
        args, processes = self.args, self.args.world_size
        if args.train_sampling_strategy == "batch_rebalance":  # this strategy itself orders rows over all processes
            return super().get_train_dataloader()
        sampler = self._get_train_sampler(self.train_dataset)
        if isinstance(sampler, LengthGroupedSampler):
            sampler.batch_size *= processes
        if hasattr(sampler, "generator"):
            sampler = EpochOrder(sampler, args.seed)
        return DataLoaderShard(
            self.train_dataset,
            device=self.accelerator.device,
            batch_sampler=SharedBatches(
                sampler, self._train_batch_size, args.dataloader_drop_last, processes, args.process_index
            ),
            collate_fn=self.data_collator,
            num_workers=args.dataloader_num_workers,
            pin_memory=args.dataloader_pin_memory,
            persistent_workers=args.dataloader_persistent_workers,
            prefetch_factor=args.dataloader_prefetch_factor,
        )

    def whole_model(self) -> PreTrainedModel:
        """The trained model, with its adapter merged. Under FSDP all processes must call this, and only the first gets it."""
        model = self.accelerator.unwrap_model(self.model)
        if is_adapted(model):
            return model.merge_and_unload()
        if not self.is_fsdp_enabled:
            return model
        weights = self.accelerator.get_state_dict(self.model)
        if not self.is_world_process_zero():
            return model
        kinds = [kind for kind in type(model).__mro__ if issubclass(kind, PreTrainedModel)]
        whole = next(kind for kind in kinds if not issubclass(kind, FSDPModule))(model.config)
        whole.load_state_dict(weights)
        return whole.to(self.accelerator.device)

    def get_batch_samples(self, epoch_iterator, num_batches, device):
        batches, items = super().get_batch_samples(epoch_iterator, num_batches, device)
        if items is None:
            own = torch.as_tensor(sum(items_in(batch["labels"]) for batch in batches), device=device)
            self._items_of_step = self.accelerator.gather(own.reshape(1)).sum()
        return batches, items

    def _get_num_items_in_batch(self, batch_samples, device):
        return super()._get_num_items_in_batch([_marked(batch) for batch in batch_samples], device)

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        items = items_in(inputs["labels"])
        votes, loss = inputs.pop(VOTES, None), self.compute_loss_func
        if votes is not None:
            self.compute_loss_func = partial(loss, votes=votes)
        try:
            result = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        finally:
            self.compute_loss_func = loss
        if self.model_accepts_loss_kwargs or loss is not None or not model.training:
            return result
        # The loss is a mean over these labels, and will be averaged over accumulated batches and over processes.
        averaged = self.current_gradient_accumulation_steps * self.accelerator.num_processes
        share = items * averaged / self._items_of_step.clamp(min=1)
        return (result[0] * share, result[1]) if return_outputs else result * share

    def get_decay_parameter_names(self, model) -> list[str]:
        spared = getattr(model, "_no_weight_decay_parameters", ())
        return [name for name in super().get_decay_parameter_names(model) if not any(part in name for part in spared)]

    def get_eval_dataloader(self, eval_dataset=None):
        with self._all_rows():
            return super().get_eval_dataloader(eval_dataset)

    def get_test_dataloader(self, test_dataset):
        with self._all_rows():
            return super().get_test_dataloader(test_dataset)

    @contextmanager
    def _all_rows(self) -> Iterator[None]:
        """Also if `dataloader_drop_last` says that a training takes only whole batches."""
        drop_last, self.args.dataloader_drop_last = self.args.dataloader_drop_last, False
        try:
            yield
        finally:
            self.args.dataloader_drop_last = drop_last

    def evaluation_loop(self, *args, **kwargs):
        """FloatingPointError, while the model trains, for predictions that are not finite: the metrics would hide them, or stop elsewhere."""
        measure = self.compute_metrics
        if measure is None or self.lr_scheduler is None:  # nothing is measured, or nothing was trained
            return super().evaluation_loop(*args, **kwargs)

        def finite(prediction: EvalPrediction) -> dict[str, float]:
            values = np.asarray(prediction.predictions)
            if np.issubdtype(values.dtype, np.floating) and not np.isfinite(values).all():
                raise diverged(self, float("nan"))
            return measure(prediction)

        try:
            self.compute_metrics = finite
            return super().evaluation_loop(*args, **kwargs)
        finally:
            self.compute_metrics = measure

    def _get_eval_sampler(self, eval_dataset):
        return SequentialSampler(eval_dataset)

    def _get_train_sampler(self, train_dataset=None):
        if not self.inverse_frequency_sampling:
            return super()._get_train_sampler(train_dataset)
        labels = np.asarray((self.train_dataset if train_dataset is None else train_dataset)["labels"])
        weights = 1 / np.bincount(labels)[labels]
        return WeightedRandomSampler(torch.from_numpy(weights), len(labels))
