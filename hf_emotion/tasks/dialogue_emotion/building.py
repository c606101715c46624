# SPDX-License-Identifier: Apache-2.0
"""Builds dialogue models over an utterance encoder, and encodes dialogues for their training."""

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
from datasets import Dataset, DatasetDict, Features, List, Value
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ...data.splits import label_names, map_rows
from ...modeling import DialogueBiLSTMConfig, DialogueBiLSTMForEmotionRecognition
from ...modeling.text_processing import encoder_positions, number_speakers, turn_windows
from ...recipes import Fields, Recipe
from ...runtime.base_models import base_to_build_on, finding
from ...runtime.languages import languages_of, set_languages
from ...runtime.loading import read_config, read_model
from ...runtime.unread import COLUMNS, Unread, warn_unread
from ..base import MainProcessFirst, Prepared
from ..corpus_metrics import single_label
from ..sequence_classification import base_tokenizer, check_length
from .predictor import Text, encode_turns, pad_dialogues, utterance_vectors


def build_dialogue_model(
    base_model: str, model_config: Fields, tokenizer: PreTrainedTokenizerBase, names: Sequence[str]
) -> DialogueBiLSTMForEmotionRecognition:
    """
    A dialogue model over the pretrained utterance encoder `base_model`, frozen unless `freeze_encoder` is False; with
    `utterance_encoder="bilstm"` over word embeddings of the base model's tokenizer. A trained dialogue model is trained
    further, with a new classifier if its labels differ. ValueError for a base model that does not fit, OSError without it.
    """
    fields = {
        "class_weights": None,  # a trained base model may have those of its own training
        **model_config,
        "id2label": dict(enumerate(names)),
        "label2id": {name: i for i, name in enumerate(names)},
    }
    if fields.get("utterance_encoder") == "vectors":
        raise ValueError("`model_config.utterance_encoder` must be 'model' or 'bilstm': a run reads texts.")
    with finding(base_model):
        with base_to_build_on(base_model) as path:
            base = read_config(path)
            if isinstance(base, DialogueBiLSTMConfig):
                return _trained_on(path, fields)
            if fields.get("utterance_encoder") == "bilstm":
                fields = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, **fields}
                return DialogueBiLSTMForEmotionRecognition(DialogueBiLSTMConfig(**fields))
            return read_model(DialogueBiLSTMForEmotionRecognition, path, method="from_encoder_pretrained", **fields)


def _trained_on(path: str, fields: Fields) -> DialogueBiLSTMForEmotionRecognition:
    """The trained dialogue model at `path` with `fields` in its config, and with a new classifier if they change its labels."""
    trained = read_model(DialogueBiLSTMForEmotionRecognition, path, dtype=torch.float32)
    model = DialogueBiLSTMForEmotionRecognition(read_config(path, DialogueBiLSTMConfig, **fields))
    weights = trained.state_dict()
    if trained.config.id2label != model.config.id2label:
        weights |= {name: new for name, new in model.state_dict().items() if name.startswith("classifier.")}
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise ValueError(
            f"`model_config` asks for other sizes than the trained dialogue model {path!r} has "
            f"({' '.join(str(error).split())}): leave them out, or take its utterance encoder as base model."
        ) from error
    return model


def encode_dialogues(
    splits: DatasetDict,
    model: DialogueBiLSTMForEmotionRecognition,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
) -> tuple[DatasetDict, Callable[[list[dict]], dict[str, torch.Tensor]]]:
    """
    Dialogues as rows for the Trainer, and their collator.

    If the encoder is frozen, the vectors of all utterances are computed once for each corpus and kept in the cache of
    `datasets`, so that an epoch does not run the encoder. Otherwise the collator gives tokens. Columns: `utterances` (numbers of distinct
    texts), `speaker_ids`, `labels`, `length` (utterances).
    """
    config = model.config

    def read(row: dict) -> list[Text]:
        return turn_windows([*zip(row["speakers"], row["utterances"], strict=True)], config.context_turns)

    texts = sorted({text for dataset in splits.values() for row in dataset for text in read(row)})
    number_of = {text: number for number, text in enumerate(texts)}
    if config.num_speakers and not any(speaker for row in splits["train"]["speakers"] for speaker in row):
        raise ValueError(
            f"`model_config.num_speakers` is {config.num_speakers}, and no turn of the training part names a speaker: leave it out, or "
            "name their column with `dataset_options.speaker_column`."
        )

    def encode(row: dict) -> dict:
        return {
            "utterances": [number_of[text] for text in read(row)],
            "speaker_ids": number_speakers(row["speakers"], max(config.num_speakers, 1)),
            "labels": row["labels"],
            "length": len(row["utterances"]),
        }

    features = Features(
        utterances=List(Value("int64")),
        speaker_ids=List(Value("int64")),
        labels=splits["train"].features["labels"],
        length=Value("int64"),
    )
    options = {"features": features, "desc": "numbering utterances"}
    encoded = DatasetDict(
        {split: map_rows(rows, encode, remove_columns=rows.column_names, **options) for split, rows in splits.items()}
    )
    if is_frozen(config):
        vectors, unread = cached_vectors(model, tokenizer, texts, max_length)
        inputs_of = lambda rows: {  # noqa: E731
            name: torch.from_numpy(array)
            for name, array in pad_dialogues([vectors[row["utterances"]] for row in rows]).items()
        }
    else:
        tokens, unread = encode_turns(tokenizer, texts, max_length, config)
        inputs_of = lambda rows: pad_tokens([row["utterances"] for row in rows], tokens, tokenizer)  # noqa: E731

    warn_unread(unread.counts, f"{max_length} tokens", languages_of(config), "utterances")

    def collate(rows: list[dict]) -> dict[str, torch.Tensor]:
        pad = torch.nn.utils.rnn.pad_sequence
        batch = inputs_of(rows)
        labels = pad([torch.tensor(row["labels"]) for row in rows], batch_first=True, padding_value=-100)
        batch["labels"] = labels.where(labels >= 0, -100)
        if config.num_speakers:
            batch["speaker_ids"] = pad([torch.tensor(row["speaker_ids"]) for row in rows], batch_first=True)
        return batch

    return encoded, collate


def pad_tokens(
    dialogues: list[list[int]], columns: dict[str, list], tokenizer: PreTrainedTokenizerBase
) -> dict[str, torch.Tensor]:
    """Numbers of texts and the `columns` of `encode_turns` -> these and `attention_mask` (B, U, L), and `utterance_mask` (B, U)."""
    longest = max(len(columns["input_ids"][text]) for dialogue in dialogues for text in dialogue)
    shape = (len(dialogues), max(map(len, dialogues)), longest)
    batch = {name: torch.zeros(shape, dtype=torch.long) for name in (*columns, "attention_mask")}
    batch["input_ids"].fill_(tokenizer.pad_token_id)
    for i, dialogue in enumerate(dialogues):
        for j, text in enumerate(dialogue):
            for name, values in columns.items():
                batch[name][i, j, : len(values[text])] = torch.tensor(values[text])
            batch["attention_mask"][i, j, : len(columns["input_ids"][text])] = 1
    return {**batch, "utterance_mask": batch["attention_mask"].any(dim=-1).long()}


def is_frozen(config: DialogueBiLSTMConfig) -> bool:
    """Whether training leaves the vectors of utterances unchanged."""
    return config.utterance_encoder == "model" and config.freeze_encoder


def cached_vectors(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[Text],
    max_length: int,
    progress: bool = True,
) -> tuple[np.ndarray, Unread]:
    """As `utterance_vectors` for a frozen encoder, computed once for these texts and this encoder, and kept in the cache of `datasets`."""
    columns = Features(
        vector=List(Value("float32"), length=model.config.utterance_size),
        truncated=Value("bool"),
        unknown=Value("float64"),
        language=Value("string"),
    )
    encoded, _ = encode_turns(tokenizer, texts, max_length, model.config)  # differs where the tokenizers do
    told = [list(columns), languages_of(model.config), model.config.encoder_config.to_dict(), list(texts), encoded]
    digest = hashlib.sha256(json.dumps(told, default=str).encode())
    for name, tensor in sorted(model.dialogue.utterance_encoder.state_dict().items()):
        digest.update(name.encode() + tensor.cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    fingerprint = digest.hexdigest()[:32]
    cache = Path(datasets.config.HF_DATASETS_CACHE) / "hf_emotion" / f"utterance-vectors-{fingerprint}.arrow"
    cache.parent.mkdir(parents=True, exist_ok=True)

    def encode(batch: dict) -> dict:
        vectors, unread = utterance_vectors(model, tokenizer, batch["text"], max_length)
        return {"vector": vectors, **{name: getattr(unread, name) for name in COLUMNS}}

    rows = Dataset.from_dict({"text": list(texts)}).map(
        encode,
        batched=True,
        batch_size=4096,
        remove_columns="text",
        features=columns,
        cache_file_name=str(cache),
        new_fingerprint=fingerprint,
        desc="utterance vectors",
    )
    found = rows.with_format("numpy")[:]
    unread = Unread.nothing(len(texts))._replace(**{name: found[name] for name in COLUMNS})
    return found["vector"].reshape(len(texts), -1), unread


def prepare(recipe: Recipe, splits: DatasetDict, first: MainProcessFirst, *_: Any) -> Prepared:
    names = label_names(splits["train"])
    tokenizer = base_tokenizer(recipe)
    model = build_dialogue_model(recipe.base_model, recipe.model_config, tokenizer, names)
    set_languages(model.config, recipe.languages)
    check_length(recipe, encoder_positions(model.config))
    parts = DatasetDict({split: splits[split] for split in ("train", "validation")})
    with first(desc="utterance vectors"):
        encoded, collate = encode_dialogues(parts, model, tokenizer, recipe.max_length)

    def measure(logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
        logits, labels = logits[labels != -100], labels[labels != -100]  # -100 fills up shorter dialogues
        scores = torch.from_numpy(logits).float().softmax(-1).numpy()
        return single_label(recipe.dataset, labels, scores, names)

    return Prepared(
        model=model,
        tokenizer=tokenizer,
        train=encoded["train"],
        validation=encoded["validation"],
        collate=collate,
        measure=measure,
    )
