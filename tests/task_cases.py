# SPDX-License-Identifier: Apache-2.0
"""
A case of every task for the suite that all tasks pass (tests/tasks/test_tasks_shared.py): a tiny corpus, a recipe, and what is asked.
A new task adds a row here.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dummy_task
from families import ABOUT, ARGUMENTS, CONTEXTS, FAMILIES, PARTS, SIZES, TARGETED_TEXTS, TEXTS, TURNS, recipe_of
from model_cases import asymmetric_
from toolkit_helpers import write_csv
from transformers import BertTokenizerFast, LlamaConfig, LlamaForCausalLM


SENTIMENTS = {"happy": "positive", "bad": "negative", "neutral": "neutral"}


@dataclass(frozen=True, eq=False)
class TaskCase:
    id: str
    task: str
    recipe: dict[str, Any]
    data: str  # the folder of its files, of those that `families` writes
    lines: tuple[str, ...] = ()  # what a command is asked; empty for a task without answers
    command: str = "predict"  # which one answers
    options: tuple[str, ...] = ()  # of that command
    beside: tuple[str, ...] = ()  # options beside a typed text, also of `explain`; a file has them in its columns
    key: str = "labels"  # where an answer stands in a line of JSON
    columns: tuple[str, ...] = ("text",)  # those of a file to predict
    rows: tuple[tuple[str, ...], ...] = ()  # the lines, as that file has them; by default as they are
    bad: tuple[str, ...] = (" ",)  # a row of that file that cannot be predicted
    evaluate: tuple[str, ...] = ()  # further options of `evaluate`
    whole: bool = True  # whether a run holds all weights; one that needs its base model is published with that
    code: tuple[
        str, ...
    ] = ()  # the files of modeling/ that a checkpoint needs beside it, without those that they import
    write: Callable[[Path], Any] = lambda folder: None  # makes `data` where families do not

    def write_file(self, path: Path, bad: bool = False) -> Path:
        rows = self.rows or tuple((line,) for line in self.lines)
        return write_csv(path, list(self.columns), [*rows, self.bad] if bad else list(rows))


def write_language_model(_: Path) -> None:
    """`base/llama` in the working directory, with the tokenizer of `base/bert` and a chat template."""
    tokenizer = BertTokenizerFast.from_pretrained("base/bert")
    tokenizer.chat_template = "a {{ messages[-1].content }} .{% if add_generation_prompt %} feel{% endif %}"
    end = tokenizer.sep_token_id
    tokens = {"bos_token_id": end, "eos_token_id": end, "pad_token_id": tokenizer.pad_token_id}
    config = LlamaConfig(**SIZES, **tokens, vocab_size=len(tokenizer), max_position_embeddings=64)
    asymmetric_(LlamaForCausalLM(config), seed=5).save_pretrained("base/llama")
    tokenizer.save_pretrained("base/llama")


def write_terms(folder: Path) -> None:
    """Files with a term a row; two terms a text, whose sentiment is told by the word behind each."""
    cues = list(SENTIMENTS)
    for part, (count, first) in PARTS.items():
        rows = []
        for number in range(first, first + count):
            found = [(ABOUT[(number * step) % len(ABOUT)], cues[number // step % 3]) for step in (1, 5)]
            text = " , ".join(f"the {term} is {cue} today" for term, cue in found) + f" {number % 7 * '.'}".rstrip()
            rows += [[text, term, SENTIMENTS[cue]] for term, cue in found]
        write_csv(folder / f"{part}.csv", ["text", "term", "label"], rows)


REPLIES = TaskCase(
    id="emotional-response",
    task="emotional-response",
    recipe={**recipe_of("bert-mod-ln"), "training_arguments": recipe_of("label-aware")["training_arguments"]},
    data=FAMILIES["bert-mod-ln"].data,
    lines=CONTEXTS,
    command="generate",
    options=("--greedy", "--max-new-tokens", "5"),
    beside=("-e", "joy"),
    key="reply",
    columns=("context", "emotion"),
    rows=tuple((context, "joy") for context in CONTEXTS),
    bad=("", "joy"),
    evaluate=("--contexts", "3"),
    code=("configuration_mod_ln", "modeling_mod_ln", "pipeline_emotional_response"),
)


TASK_CASES = [
    TaskCase(
        id="emotion-classification",
        task="emotion-classification",
        recipe={**recipe_of("label-aware"), "few_shot": []},
        data=FAMILIES["label-aware"].data,
        lines=TEXTS[:4],
        code=("configuration_label_aware", "modeling_label_aware", "pipeline_emotion_classification"),
    ),
    TaskCase(
        id="targeted-sentiment",
        task="targeted-sentiment",
        recipe={**recipe_of("qacg"), "training_arguments": {**ARGUMENTS, "learning_rate": 5e-2}},
        data=FAMILIES["qacg"].data,
        lines=TARGETED_TEXTS,
        key="sentiments",
        code=("configuration_cg_bert", "modeling_cg_bert", "pipeline_targeted_sentiment"),
    ),
    TaskCase(
        id="aspect-extraction",
        task="aspect-extraction",
        recipe={
            **{**recipe_of("stock"), "name": "aspect-extraction", "dataset": "term_files", "dataset_options": {}},
            "training_arguments": {**recipe_of("stock")["training_arguments"], "num_train_epochs": 20},
        },
        data="data/terms",
        lines=("the cat is happy today", "the rain is bad today , the cake is happy today"),
        key="terms",
        code=("pipeline_aspect_extraction",),
        write=write_terms,
    ),
    TaskCase(
        id="dialogue-emotion",
        task="dialogue-emotion",
        recipe=recipe_of("dialogue-encoder"),
        data=FAMILIES["dialogue-encoder"].data,
        lines=tuple(utterance if speaker is None else f"{speaker}: {utterance}" for speaker, utterance in TURNS),
        key="label",
        columns=("dialogue", "speaker", "utterance"),
        rows=tuple(("1", speaker or "", utterance) for speaker, utterance in TURNS),
        bad=("2", "Ann", ""),
        code=("configuration_dialogue_bilstm", "modeling_dialogue_bilstm", "pipeline_dialogue_emotion"),
    ),
    REPLIES,
    replace(
        REPLIES,
        id="emotional-response-decoder-only",
        recipe={
            **{**REPLIES.recipe, "name": "llama-modulated", "model_type": "emotion-modulated"},
            **{"base_model": "base/llama", "model_config": {}},
        },
        whole=False,
        code=("configuration_emotion_modulated", "modeling_emotion_modulated", "pipeline_emotional_response"),
        write=write_language_model,
    ),
    TaskCase(
        id="language-modeling",
        task="language-modeling",
        recipe={**recipe_of("language-model"), "training_arguments": recipe_of("label-aware")["training_arguments"]},
        data=FAMILIES["bert-mod-ln"].data,
    ),
    TaskCase(
        id="dummy",
        task="text-matching",
        recipe={**recipe_of("stock"), "name": "dummy", "dataset": "matches", "dataset_options": {}},
        data="data/matches",
        lines=("i am so happy today => so very happy", "i am so sad today => so very calm"),
        columns=("pair",),
        write=dummy_task.write_matches,
    ),
]
