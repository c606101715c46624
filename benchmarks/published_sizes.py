# SPDX-License-Identifier: Apache-2.0
"""
Checks that the packaged recipes run at their published sizes, 20 steps each from random initialisation. Batch size, schedule,
lengths and training rows come from the recipe; validation and test part are cut to a few rows. A run passes if it ends with
finite weights and its run folder predicts (a generator: replies).

    python benchmarks/published_sizes.py --data-dir DATA --output benchmarks/published_sizes.json

Recipes whose base model is MiniLM are left out, because they are trained in full (REPRODUCTION.md).
"""

import argparse
import copy
import dataclasses
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from datasets import Dataset, DatasetDict
from measuring import machine, recorded
from transformers import (
    AlbertConfig,
    AutoModel,
    BertConfig,
    DistilBertConfig,
    GPT2Config,
    PreTrainedConfig,
    RobertaConfig,
    set_seed,
)

from hf_emotion import ReplyGenerator, load_dataset_for
from hf_emotion.convert import bert_to_roberta
from hf_emotion.inference import load_predictor
from hf_emotion.io.files import write_json
from hf_emotion.recipes import Recipe, packaged_recipes, recipe_name
from hf_emotion.runs.train import train
from hf_emotion.runtime.base_models import load_base_tokenizer
from hf_emotion.tasks.language_modeling.building import train_tokenizer
from hf_emotion.training.recipe_checks import load_recipe


# Sizes as on the Hub. The tokenizers are MiniLM's (the one of bert-base-uncased) and, for GPT-2, one that is trained here.
SIZES: dict[str, PreTrainedConfig] = {
    "google-bert/bert-base-cased": BertConfig(vocab_size=28996),
    "google-bert/bert-base-uncased": BertConfig(),
    "google-bert/bert-large-uncased": BertConfig(
        hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096
    ),
    "FacebookAI/roberta-base": RobertaConfig(
        vocab_size=50265, max_position_embeddings=514, type_vocab_size=1, layer_norm_eps=1e-5
    ),
    "albert/albert-base-v2": AlbertConfig(
        vocab_size=30000, hidden_size=768, num_attention_heads=12, intermediate_size=3072
    ),
    "distilbert/distilbert-base-uncased": DistilBertConfig(),
    "openai-community/gpt2": GPT2Config(),
    "openai-community/gpt2-medium": GPT2Config(n_embd=1024, n_layer=24, n_head=16),
}
# The recipes of the generators start from base sizes; these are the paper's sizes (Liu et al. 2021, footnote 1).
ALSO = [
    ("mojitalk/bert_mod_ln", "google-bert/bert-large-uncased"),
    ("mojitalk/gpt2_mod_ln", "openai-community/gpt2-medium"),
]


def make_base(name: str, train_part: Dataset, folder: Path) -> None:
    """A model of the published size with random weights, and a tokenizer whose ids fit; for GPT-2 one trained on these replies."""
    config = copy.deepcopy(SIZES[name])
    if config.model_type == "gpt2":
        tokenizer = train_tokenizer(train_part["reply"], config.vocab_size)
        config.bos_token_id = config.eos_token_id = tokenizer.eos_token_id
    elif config.model_type == "roberta":
        bert_to_roberta("minilm", folder)
        tokenizer = load_base_tokenizer(str(folder))
    else:
        tokenizer = load_base_tokenizer("minilm")
    config.vocab_size = max(config.vocab_size, len(tokenizer))
    if config.model_type != "gpt2":
        config.pad_token_id = tokenizer.pad_token_id
    set_seed(0)
    AutoModel.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def cut(splits: DatasetDict, rows: int) -> DatasetDict:
    """Keep the whole training part, and only the first rows of the other parts."""
    short = {name: part.select(range(min(rows, len(part)))) for name, part in splits.items() if name != "train"}
    return DatasetDict({"train": splits["train"], **short})


def check(recipe: Recipe, splits: DatasetDict, folder: Path) -> float:
    """Train, read the run folder and predict a row with it; returns the minutes of the training."""
    report = train(recipe, folder, splits=splits)
    if not recipe.one_model_per_context:  # the models are not kept
        row, predictor = splits["test"][0], load_predictor(folder)
        if isinstance(predictor, ReplyGenerator):
            emotion = splits["test"].features["labels"].names[row["labels"]]
            predictor([row["context"]], emotion, max_new_tokens=5)
        else:
            predictor([row["text"]])
    return report.runs[0].train_minutes


def main(argv: Sequence[str] | None = None) -> list[dict]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", action="append", help="only these, e.g. goemotions/baseline")
    parser.add_argument("--size", action="append", help="only these base models, e.g. google-bert/bert-large-uncased")
    parser.add_argument("--data-dir", help="folder with the corpora")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument(
        "--rows",
        type=int,
        default=200,
        help="rows of the validation and of the test part, a multiple of 20: aspects come in groups of 4 or 5 (default: %(default)s)",
    )
    parser.add_argument("--set", action="append", default=[], help="key=value for every recipe, e.g. bf16=true")
    parser.add_argument("--output", type=Path, help="JSON file for the results; it keeps the results of other recipes")
    arguments = parser.parse_args(argv)
    recipes = {recipe_name(path): load_recipe(path) for path in packaged_recipes()}
    runs = [(name, recipe.base_model) for name, recipe in recipes.items() if recipe.base_model in SIZES] + ALSO
    runs = [(name, base) for name, base in runs if arguments.recipe is None or name in arguments.recipe]
    runs = [(name, base) for name, base in runs if arguments.size is None or base in arguments.size]
    kept = {(row["recipe"], row["size of"]): row for row in recorded(arguments.output)}
    for name, base in runs:
        steps = f"max_steps={arguments.steps}"
        recipe = load_recipe(name, [*arguments.set, steps, "logging_steps=1", 'report_to="none"'])
        splits = cut(load_dataset_for(recipe.dataset, arguments.data_dir, **recipe.dataset_options), arguments.rows)
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            make_base(base, splits["train"], folder / "base")
            recipe = dataclasses.replace(recipe, base_model=str(folder / "base"))
            minutes = check(recipe, splits, folder / "run")
        row = {
            "recipe": name,
            "size of": base,
            "steps": arguments.steps,
            "batch": recipe.training_arguments["per_device_train_batch_size"],
            "seconds": round(60 * minutes, 1),
            "set": arguments.set,
            **machine(torch.get_num_threads()),
        }
        print(f"{name}, {base}: {row['seconds']} s", flush=True)
        kept[name, base] = row
        if arguments.output:
            write_json(arguments.output, list(kept.values()))
    return list(kept.values())


if __name__ == "__main__":
    main()
