# SPDX-License-Identifier: Apache-2.0
"""Checks the rows of one split one by one, and finds the files that they come from."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ..io.files import sha256_of
from ..io.lazily import datasets
from ..runtime.plain import WINDOWS_CHARACTERS, text_processing


logger = logging.getLogger(__name__)

OnBadRows = Literal["error", "skip"]
Row: TypeAlias = dict[str, Any]  # the values of a row by their columns

MOST_LEVELS = 100  # in JSON: what reads a row must write it, too, and each level takes some of Python's stack
DOWNLOAD_REMEDY = "download it elsewhere and name its folder with `data_dir` or HF_EMOTION_DATA."


class BadRow(ValueError):
    """Why a row is rejected."""


class Rows:
    """Collects the valid rows of a split; others raise an error, or with `on_bad_rows="skip"` are listed."""

    def __init__(self, source: Path | str, on_bad_rows: OnBadRows):
        self.source, self.skip = source, on_bad_rows == "skip"
        self.rows: list[Row] = []
        self.bad: list[str] = []
        self.mended = 0  # texts with characters of Windows-1252

    def reject(self, line: int, reason: str) -> None:
        message = f"{self.source}, line {line}: {reason}"
        if not self.skip:
            raise ValueError(f"{message} (correct the row, or drop such rows: on_bad_rows='skip')")
        self.bad.append(message)

    def add(self, line: int, text: Any, labels: Any, row_id: str, **columns: Any) -> None:
        if not text_processing.is_readable(text):
            self.reject(line, f"the text is empty or no string: {text!r}")
        else:
            self.mended += text_processing.has_windows_characters(text)
            text = text_processing.composed(text)
            self.rows.append({"id": row_id, "text": text, **columns, "labels": labels, "line": line})

    def finish(self) -> None:
        """Warn of rows that were skipped or mended; ValueError if none is left."""
        if not self.rows:
            raise ValueError(
                f"{self.source} has no valid rows: {self.bad[0]}" if self.bad else f"{self.source} has no rows."
            )
        if self.bad:
            logger.warning("%d bad rows skipped:\n  %s", len(self.bad), "\n  ".join(self.bad))
        if self.mended:
            logger.warning(f"%s: {WINDOWS_CHARACTERS}", self.source, self.mended, len(self.rows))

    def to_dataset(
        self, names: Sequence[str], multi_label: bool = False, columns: Mapping[str, Any] | None = None
    ) -> datasets.Dataset:
        """The dataset with the columns `id`, `text`, the ones in `columns` ({name: feature}), and `labels`."""
        label, text = datasets.ClassLabel(names=list(names)), datasets.Value("string")
        return self.with_features(
            {"id": text, "text": text, **(columns or {}), "labels": datasets.List(label) if multi_label else label}
        )

    def with_features(self, features: Mapping[str, Any]) -> datasets.Dataset:
        """The dataset with these columns."""
        self.finish()
        values = {name: [row[name] for row in self.rows] for name in features}
        return datasets.Dataset.from_dict(values, features=datasets.Features(features))


def decode(content: bytes, source: Path | str) -> str:
    """The text of UTF-8 bytes, with or without a byte order mark."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{source}, line {line} is not UTF-8 text: save the file in UTF-8.") from error


def parse_json(text: str, half_characters: bool = False) -> Any:
    """The value of a JSON text; BadRow if it is not JSON, or holds lone surrogates and `half_characters` is not set."""
    try:
        value = json.loads(text, object_pairs_hook=_with_each_key_once)
        if not half_characters and "\\ud" in text.lower():
            json.dumps(value, ensure_ascii=False).encode()
        if text.count("[") + text.count("{") > MOST_LEVELS and _is_deeper(value, MOST_LEVELS):
            raise ValueError(f"lists and objects are nested on more than {MOST_LEVELS} levels")
    except (ValueError, RecursionError) as error:
        raise BadRow(f"no valid JSON: {error}") from error
    return value


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether more lists and objects than `levels` stand in one another."""
    items = value.values() if isinstance(value, dict) else value
    return isinstance(value, dict | list) and (levels == 0 or any(_is_deeper(item, levels - 1) for item in items))


def _with_each_key_once(pairs: list[tuple[str, Any]]) -> Row:
    """An object of JSON; ValueError for a key that stands in it twice: Python would take the last one."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError(f"a key occurs more than once, {[name for name, _ in pairs]}")
    return dict(pairs)


def packaged_rows(corpus: str, split: str) -> Iterator[tuple[int, Row]]:
    """The lines of one part of a packaged corpus, with their numbers."""
    file = resources.files(f"hf_emotion.data.{corpus}") / f"{split}.jsonl"
    for line, content in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        yield line, json.loads(content)


def local_files(data_dir: str | Path, corpus: str, names: Sequence[str]) -> list[Path]:
    """The files of a corpus in its folder in `data_dir`; FileNotFoundError if one is missing."""
    folder = Path(data_dir) / corpus
    paths = [folder / name for name in names]
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(
                f"{path} does not exist: `data_dir` must hold the folder `{corpus}` with {', '.join(names)}. Without `data_dir` (and "
                "without HF_EMOTION_DATA) the files are downloaded."
            )
    return paths


def download(address: str, sha256: str | None = None) -> Path:
    """Download a file whose address never changes its content, or take it from the cache; OSError if that fails."""
    from aiohttp import ClientError

    try:
        # Without an ETag the cached file is used offline too.
        path = Path(
            datasets.DownloadManager(download_config=datasets.DownloadConfig(use_etag=False)).download(address)
        )
    except (OSError, ClientError) as error:
        raise OSError(f"cannot download {address} ({type(error).__name__}: {error}): {DOWNLOAD_REMEDY}") from error
    if sha256 is not None and sha256_of(path) != sha256:
        raise OSError(
            f"{address} was not downloaded whole or is another file, by its SHA-256: delete {path}, or {DOWNLOAD_REMEDY}"
        )
    return path
