# SPDX-License-Identifier: Apache-2.0
"""Loads conversations without labels from several corpora, to train a language model of dialogue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ...io.lazily import datasets
from ..corpus import Corpus, rows_of
from ..dialogue_emotion.loading import load_daily_dialog, load_emorynlp, load_meld
from ..emotional_response.loading import load_empathetic_conversations, load_mojitalk, load_reply_files


CONVERSATION_LOADERS: dict[str, Callable[..., datasets.DatasetDict]] = {
    "daily_dialog": load_daily_dialog,
    "empathetic_dialogues": load_empathetic_conversations,
    "meld": load_meld,
    "emorynlp": load_emorynlp,
    "mojitalk": load_mojitalk,
    "reply_files": load_reply_files,
}


DEFAULT_CORPORA = tuple(name for name in CONVERSATION_LOADERS if name != "reply_files")


@rows_of("language-modeling")
def load_conversations(
    data_dir: str | Path | None = None, corpora: Sequence[str] = DEFAULT_CORPORA
) -> datasets.DatasetDict:
    """
    Load the conversations of several corpora, one corpus after the other; each conversation keeps its split.

    Columns: `id` (the corpus, "/" and its id there) and `turns` (a list of strings). In MojiTalk a post and its reply are a
    conversation; its training part is the one for generators.

    Args:
        data_dir: see the loaders of the corpora.
        corpora: some of `CONVERSATION_LOADERS`; "reply_files" are your own pairs.
    """
    unknown = [name for name in corpora if name not in CONVERSATION_LOADERS]
    if isinstance(corpora, str) or unknown or not corpora:
        raise ValueError(f"`corpora` must be a list of some of {list(CONVERSATION_LOADERS)}, got {corpora!r}.")
    parts: dict[str, list[datasets.Dataset]] = {"train": [], "validation": [], "test": []}
    for name in corpora:
        for split, rows in CONVERSATION_LOADERS[name](data_dir).items():
            parts[split].append(_conversations(name, rows))
    return datasets.DatasetDict({split: datasets.concatenate_datasets(rows) for split, rows in parts.items() if rows})


def _conversations(corpus: str, rows: datasets.Dataset) -> datasets.Dataset:
    if "turns" in rows.column_names:
        turns = rows["turns"]
    elif "utterances" in rows.column_names:
        turns = rows["utterances"]
    else:
        turns = [[context, reply] for context, reply in zip(rows["context"], rows["reply"], strict=True)]
    text = datasets.Value("string")
    features = datasets.Features({"id": text, "turns": datasets.List(text)})
    return datasets.Dataset.from_dict(
        {"id": [f"{corpus}/{row}" for row in rows["id"]], "turns": turns}, features=features
    )


CORPORA = (
    Corpus(
        name="conversations",
        loader=load_conversations,
        terms="the terms of the corpora that its option `corpora` names",
    ),
)
