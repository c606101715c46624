# SPDX-License-Identifier: Apache-2.0
"""Reads configuration and tokenizer of an exported model, without transformers and without torch."""

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

from ..io.files import read_object, write_text


# what tokenizer.json does not say; only with a fast tokenizer
TOKENIZER_FACTS = "prediction.json"
AGAIN = "export the model again"  # what to do with damaged files
FACTS = ("model_max_length", "padding_side", "pad_token_id", "pad_token_type_id", "unk_token_id")


class Kind(Protocol):
    """What a task says about loading: the class of transformers that loads its checkpoints, and the class of exported models."""

    @property
    def auto_class(self) -> str: ...

    def exported(self, folder: Path) -> Any: ...


def is_light(folder: Path) -> bool:
    """Whether an exported model can be read without transformers."""
    return (folder / TOKENIZER_FACTS).is_file() and (folder / "tokenizer.json").is_file()


class ExportedConfig(SimpleNamespace):
    """The fields of a model's configuration, nested ones too, as attributes."""

    def to_json_string(self) -> str:
        """As in transformers, without the place it was read from."""
        places = ("name_or_path", "_name_or_path")
        return json.dumps(
            self,
            default=lambda own: {name: value for name, value in vars(own).items() if name not in places},
            sort_keys=True,
        )


def read_exported_config(folder: Path) -> Any:
    """The configuration of an exported model; one of transformers if the folder has no fast tokenizer."""
    if not is_light(folder):
        from .loading import read_config

        return read_config(folder)
    fields = read_object(folder / "config.json", AGAIN)
    try:
        fields["id2label"] = {int(number): name for number, name in fields["id2label"].items()}
    except (KeyError, AttributeError, ValueError) as error:
        raise ValueError(f"{folder / 'config.json'} names no labels (`id2label`): {AGAIN}.") from error
    encoder = fields.get("encoder_config")
    fields["encoder_config"] = None if encoder is None else ExportedConfig(**encoder)
    return ExportedConfig(**{**fields, "num_labels": len(fields["id2label"]), "name_or_path": str(folder)})


class _Encoded(dict):
    """{name: N lists}, and in `encodings` where the words are, as in transformers' BatchEncoding."""

    encodings: list


class ExportedTokenizer:
    """The tokenizer in an exported folder, called with batches of texts like one of transformers; its attributes are `FACTS`."""

    is_fast = True

    def __init__(self, folder: Path):
        from tokenizers import Tokenizer

        facts = read_object(folder / TOKENIZER_FACTS, AGAIN)
        try:
            for name in FACTS:
                setattr(self, name, facts[name])
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # the library raises plain Exceptions
            raise ValueError(
                f"{folder / 'tokenizer.json'} or {TOKENIZER_FACTS} is damaged ({error}): {AGAIN}."
            ) from error
        self._tokenizer.no_padding()

    def __len__(self) -> int:
        """Number of tokens that it knows, added ones included."""
        return self._tokenizer.get_vocab_size()

    def __call__(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        return_offsets_mapping: bool = False,
        return_token_type_ids: bool = False,
        truncation: str | None = None,
        max_length: int | None = None,
        **_: Any,  # other arguments of the predictors ask for what this tokenizer does anyway
    ) -> dict[str, list]:
        """N texts, or pairs of them -> `input_ids`, and `token_type_ids` and `offset_mapping` if asked for: N lists each."""
        if truncation is None:
            self._tokenizer.no_truncation()
        else:
            self._tokenizer.enable_truncation(max_length, strategy=truncation)
        rows = self._tokenizer.encode_batch(list(texts) if pairs is None else list(zip(texts, pairs, strict=True)))
        encoded = _Encoded(input_ids=[row.ids for row in rows])
        encoded.encodings = rows
        if return_token_type_ids:
            encoded["token_type_ids"] = [row.type_ids for row in rows]
        if return_offsets_mapping:
            encoded["offset_mapping"] = [row.offsets for row in rows]
        return encoded


def write_exported_config(config: Any, folder: Path) -> None:
    """Write a configuration with all defaults, because prediction reads it without the class that knows them, and without `auto_map`."""
    config = copy.deepcopy(config)
    for name in ("auto_map", "custom_pipelines"):
        if hasattr(config, name):
            delattr(config, name)
    write_text(folder / "config.json", config.to_json_string(use_diff=False))


def write_tokenizer_facts(tokenizer, folder: Path) -> None:
    """Write what `ExportedTokenizer` needs in addition to tokenizer.json; nothing if the tokenizer has no such file."""
    if not tokenizer.is_fast:
        return
    facts = {name: getattr(tokenizer, name) for name in FACTS}
    (folder / TOKENIZER_FACTS).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
