# SPDX-License-Identifier: Apache-2.0
"""
A case of every task for the suite that all tasks pass (tests/tasks/test_tasks_shared.py): a tiny corpus, a recipe, and what is asked.
A new task adds a row here.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import dummy_task
from families import ABOUT, ARGUMENTS, CONTEXTS, FAMILIES, PARTS, SIZES, TARGETED_TEXTS, TEXTS, TURNS, recipe_of
from model_cases import asymmetric_
from toolkit_helpers import write_csv
from transformers import BertTokenizerFast, LlamaConfig, LlamaForCausalLM


@dataclass(frozen=True)
class TaskCase:
    """
    Attributes:
        id: of the test.
        task: the name of the task.
        recipe: fields of the recipe.
        data: the folder of its files, of those that `families` writes.
        lines: what a command is asked; empty for a task without answers.
        command: which one answers.
        options: of that command.
        key: where an answer stands in a line of JSON.
        file: (columns, rows) to predict: the lines, as a file has them.
        bad: a row of that file that cannot be predicted.
        explain: further options of `explain`; None: the task explains nothing.
        evaluate: further options of `evaluate`; None: the task measures nothing.
        exported: whether the suite exports it (tests/publishing/test_export.py does so with the families of models).
        whole: whether a run holds all weights; one that needs its base model is published with that.
        code: the files of modeling/ that a checkpoint needs beside it, without those that they import.
        write: makes `data` where families do not.
    """

    id: str
    task: str
    recipe: dict[str, Any]
    data: str
    lines: tuple[str, ...] = ()
    command: str = "predict"
    options: tuple[str, ...] = ()
    key: str = "labels"
    file: tuple[list[str], list[list[str]]] | None = None
    bad: list[str] = field(default_factory=list)
    explain: tuple[str, ...] | None = ()
    evaluate: tuple[str, ...] | None = ()
    exported: bool = False
    whole: bool = True
    code: tuple[str, ...] = ()
    write: Callable[[Path], Any] = lambda folder: None

    def write_file(self, path: Path, bad: bool = False) -> Path:
        header, rows = self.file
        return write_csv(path, header, [*rows, *([self.bad] if bad else [])])


def write_language_model(_: Path) -> None:
    """`base/llama` in the working directory, with the tokenizer of `base/bert` and a chat template."""
    tokenizer = BertTokenizerFast.from_pretrained("base/bert")
    tokenizer.chat_template = "a {{ messages[-1].content }} .{% if add_generation_prompt %} feel{% endif %}"
    end = tokenizer.sep_token_id
    tokens = {"bos_token_id": end, "eos_token_id": end, "pad_token_id": tokenizer.pad_token_id}
    config = LlamaConfig(**SIZES, **tokens, vocab_size=len(tokenizer), max_position_embeddings=64)
    asymmetric_(LlamaForCausalLM(config), seed=5).save_pretrained("base/llama")
    tokenizer.save_pretrained("base/llama")


SENTIMENTS = {"happy": "positive", "bad": "negative", "neutral": "neutral"}


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
    options=("--greedy", "--max-new-tokens", "5", "-e", "joy"),
    key="reply",
    file=(["context", "emotion"], [[context, "joy"] for context in CONTEXTS]),
    bad=["", "joy"],
    explain=("-e", "joy"),
    evaluate=("--contexts", "3"),
    code=("configuration_mod_ln", "modeling_mod_ln", "pipeline_emotional_response"),
)


LINES = tuple(utterance if speaker is None else f"{speaker}: {utterance}" for speaker, utterance in TURNS)

TASK_CASES = [
    TaskCase(
        id="emotion-classification",
        task="emotion-classification",
        recipe=recipe_of("label-aware"),
        data=FAMILIES["label-aware"].data,
        lines=TEXTS[:4],
        file=(["number", "text"], [[str(number), text] for number, text in enumerate(TEXTS[:4])]),
        bad=["9", " "],
        code=("configuration_label_aware", "modeling_label_aware", "pipeline_emotion_classification"),
    ),
    TaskCase(
        id="targeted-sentiment",
        task="targeted-sentiment",
        recipe={**recipe_of("qacg"), "training_arguments": {**ARGUMENTS, "learning_rate": 5e-2}},
        data=FAMILIES["qacg"].data,
        lines=TARGETED_TEXTS,
        key="sentiments",
        file=(["number", "text"], [[str(number), text] for number, text in enumerate(TARGETED_TEXTS)]),
        bad=["9", " "],
        code=("configuration_cg_bert", "modeling_cg_bert", "pipeline_targeted_sentiment"),
    ),
    TaskCase(
        id="aspect-extraction",
        task="aspect-extraction",
        recipe={
            **recipe_of("stock"),
            **{"name": "aspect-extraction", "dataset": "term_files", "dataset_options": {}},
            "training_arguments": {**recipe_of("stock")["training_arguments"], "num_train_epochs": 20},
        },
        data="data/terms",
        lines=("the cat is happy today", "the rain is bad today , the cake is happy today"),
        key="terms",
        file=(["text"], [["the cat is happy today"], ["the rain is bad today , the cake is happy today"]]),
        bad=[" "],
        exported=True,
        code=("pipeline_aspect_extraction",),
        write=write_terms,
    ),
    TaskCase(
        id="dialogue-emotion",
        task="dialogue-emotion",
        recipe=recipe_of("dialogue-encoder"),
        data=FAMILIES["dialogue-encoder"].data,
        lines=LINES,
        key="label",
        file=(["dialogue", "speaker", "utterance"], [["1", speaker or "", utterance] for speaker, utterance in TURNS]),
        bad=["2", "Ann", ""],
        code=("configuration_dialogue_bilstm", "modeling_dialogue_bilstm", "pipeline_dialogue_emotion"),
    ),
    REPLIES,
    replace(
        REPLIES,
        id="emotional-response-decoder-only",
        recipe={
            **REPLIES.recipe,
            **{
                "name": "llama-modulated",
                "model_type": "emotion-modulated",
                "base_model": "base/llama",
                "model_config": {},
            },
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
        explain=None,
        evaluate=None,
    ),
    TaskCase(
        id="dummy",
        task="text-matching",
        recipe={
            **recipe_of("stock"),
            "name": "dummy",
            "dataset": "matches",
            "dataset_options": {},
        },
        data="data/matches",
        lines=("i am so happy today => so very happy", "i am so sad today => so very calm"),
        file=(["pair"], [["i am so happy today => so very happy"], ["i am so sad today => so very calm"]]),
        bad=[" "],
        exported=True,
        write=dummy_task.write_matches,
    ),
]
