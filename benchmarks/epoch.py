# SPDX-License-Identifier: Apache-2.0
"""
P7: one epoch of GoEmotions, end to end (tokenisation, training, evaluation on the validation part, checkpoint), as `hf-emotion
train` runs it: batches hold texts of similar length and are padded to the longest. Against the same with random batches
padded to a fixed length. Without a corpus: 1,024 synthetic texts of the same lengths.

    python benchmarks/epoch.py --data-dir DATA --base-model google-bert/bert-base-cased --pairs 3
"""

import argparse
import dataclasses
import tempfile
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

from datasets import DatasetDict
from measuring import interleaved, parse, ratio, save
from texts import synthetic_emotions

from hf_emotion import load_dataset_for
from hf_emotion.recipes import Recipe
from hf_emotion.tasks import sequence_classification, task_of_rows
from hf_emotion.training.recipe_checks import load_recipe
from hf_emotion.training.seeds import fit_model


def train_epoch(recipe: Recipe, splits: DatasetDict, fixed_length: int | None) -> None:
    """Run our training; with a fixed length the same Trainer gets the batches of the stock example."""
    sampling = "group_by_length" if fixed_length is None else "random"
    arguments = {**recipe.training_arguments, "train_sampling_strategy": sampling}
    recipe = dataclasses.replace(recipe, training_arguments=arguments)

    def pad_to_fixed_length(tokenizer, batch: dict):
        padded = tokenizer.pad(dict(batch), padding="max_length", max_length=fixed_length, return_tensors="np")
        return {name: padded[name] for name in (*batch, "attention_mask")}

    with tempfile.TemporaryDirectory() as folder:
        pad_batch = sequence_classification.pad_rows if fixed_length is None else pad_to_fixed_length
        with mock.patch.object(sequence_classification, "pad_rows", pad_batch):
            fit_model(
                task_of_rows(splits["train"]),
                recipe,
                0,
                Path(folder, "checkpoints"),
                splits,
                False,
                recipe_file=Path(folder, "recipe.yaml"),
            )


def main(argv: Sequence[str] | None = None) -> list[dict]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recipe", default="goemotions/laa_cb_strong")
    parser.add_argument("--base-model", default="minilm")
    parser.add_argument("--data-dir", help="folder with the corpus; default: synthetic texts")
    parser.add_argument(
        "--rows",
        type=int,
        default=1024,
        help="rows of the synthetic training part; an eighth of them is for validation",
    )
    parser.add_argument("--lengths", type=int, nargs="+", default=[128, 50], help="tokens of the fixed padding")
    arguments = parse(parser, argv, pairs=3)
    overrides = ["num_train_epochs=1", "disable_tqdm=true", 'logging_strategy="no"']
    recipe = load_recipe(arguments.recipe, [f"base_model={arguments.base_model}", *overrides])
    # Even the shortest padding cuts no text.
    recipe = dataclasses.replace(recipe, max_length=min(recipe.max_length, *arguments.lengths))
    if arguments.data_dir is None:
        parts = {"train": arguments.rows, "validation": max(1, arguments.rows // 8)}
        splits = DatasetDict(
            {name: synthetic_emotions(rows, number) for number, (name, rows) in enumerate(parts.items())}
        )
        source = f"{arguments.rows} synthetic texts"
    else:
        splits = load_dataset_for(recipe.dataset, arguments.data_dir, **recipe.dataset_options)
        source = f"{len(splits['train'])} texts"
    ways = [None, *arguments.lengths]
    warm_up = DatasetDict({name: rows.select(range(min(64, len(rows)))) for name, rows in splits.items()})
    train_epoch(recipe, warm_up, None)
    ours, *others = interleaved(
        [lambda length=length: train_epoch(recipe, splits, length) for length in ways], arguments.pairs, warm_up=0
    )
    rows = []
    for length, series in zip(arguments.lengths, others, strict=True):
        work = f"an epoch of {source}, {recipe.model_type} over {Path(arguments.base_model).name}, against padding to {length}"
        rows.append(ratio("P7", work, ours, series, at_least={128: 4, 50: 2}.get(length, 1)))
    save(arguments, rows)
    return rows


if __name__ == "__main__":
    main()
