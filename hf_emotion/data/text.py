# SPDX-License-Identifier: Apache-2.0
"""Text classification corpora: GoEmotions, the quickstart corpus, and one's own CSV, TSV, JSONL or Parquet files.

Every loader returns a `datasets.DatasetDict` with the columns `id` (string), `text` (string, NFC) and `labels`: a list of
`ClassLabel` for multi-label data, one `ClassLabel` for single-label data.
"""

import csv
import difflib
import json
import logging
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import numpy as np
from datasets import ClassLabel, Dataset, DatasetDict, Features, List, Value, load_dataset

from ..taxonomies import GOEMOTIONS, group_index


logger = logging.getLogger(__name__)

OnBadRows = Literal["error", "skip"]
GOEMOTIONS_HUB_ID = "google-research-datasets/go_emotions"
SPLIT_STEMS = {"train": ["train"], "validation": ["validation", "valid", "val", "dev"], "test": ["test"]}


class _Rows:
    """Collects the valid rows of one split, and does with the others what `on_bad_rows` says."""

    def __init__(self, source: Path | str, on_bad_rows: OnBadRows):
        if on_bad_rows not in ("error", "skip"):
            raise ValueError(f"`on_bad_rows` must be 'error' or 'skip', got {on_bad_rows!r}.")
        self.source, self.skip = source, on_bad_rows == "skip"
        self.rows: list[dict[str, Any]] = []
        self.bad: list[str] = []

    def reject(self, line: int, reason: str) -> None:
        message = f"{self.source}, line {line}: {reason}"
        if not self.skip:
            raise ValueError(f"{message} (mend the row, or drop such rows with on_bad_rows='skip')")
        self.bad.append(message)

    def add(self, line: int, text: Any, labels: Any, row_id: str) -> None:
        if not isinstance(text, str) or not text.strip():
            self.reject(line, f"the text is empty or no string: {text!r}")
        else:
            text = unicodedata.normalize("NFC", text)
            self.rows.append({"id": row_id, "text": text, "labels": labels, "line": line})

    def to_dataset(self, names: Sequence[str], multi_label: bool) -> Dataset:
        if self.bad:
            logger.warning("%d bad rows skipped:\n  %s", len(self.bad), "\n  ".join(self.bad))
        label = ClassLabel(names=list(names))
        features = Features(
            {"id": Value("string"), "text": Value("string"), "labels": List(label) if multi_label else label}
        )
        columns = {name: [row[name] for row in self.rows] for name in features}
        return Dataset.from_dict(columns, features=features)


def load_goemotions(
    data_dir: str | Path | None = None, taxonomy: str = "goemotions", on_bad_rows: OnBadRows = "error"
) -> DatasetDict:
    """
    GoEmotions, the filtered splits of 43,410 / 5,426 / 5,427 comments (CC BY 4.0).

    Args:
        data_dir: folder that holds `goemotions/{train,dev,test}.tsv` (text, comma-separated label ids, comment id; no
            header, no quoting). None: from the Hub, `google-research-datasets/go_emotions`, configuration "simplified".
        taxonomy: "goemotions" (28 labels), "ekman" (6 and neutral) or "sentiment" (3 and neutral).
        on_bad_rows: "error", or "skip" to drop, count and list malformed rows.
    """
    if data_dir is None:
        hub = load_dataset(GOEMOTIONS_HUB_ID, "simplified")
        files = {split: hub[split] for split in SPLIT_STEMS}
    else:
        folder = Path(data_dir) / "goemotions"
        if not folder.is_dir():
            raise FileNotFoundError(
                f"`data_dir` must hold the folder `goemotions` with train.tsv, dev.tsv and test.tsv: {folder} does not "
                "exist. Without `data_dir` (and without HF_EMOTION_DATA) the corpus is loaded from the Hub."
            )
        files = {split: folder / f"{SPLIT_STEMS[split][-1]}.tsv" for split in SPLIT_STEMS}

    groups = group_index(taxonomy, GOEMOTIONS)
    group_of = {label: number for number, members in enumerate(groups.values()) for label in members}
    splits = {}
    for split, source in files.items():
        if isinstance(source, Path):
            rows = _Rows(source, on_bad_rows)
            _read_goemotions_tsv(source, rows)
        else:
            rows = _Rows(f"{GOEMOTIONS_HUB_ID} {split}", on_bad_rows)
            for line, row in enumerate(source, 1):
                rows.add(line, row["text"], row["labels"], row["id"])
        for row in rows.rows:
            row["labels"] = sorted({group_of[label] for label in row["labels"]})
        splits[split] = rows.to_dataset(list(groups), multi_label=True)
    return DatasetDict(splits)


def _read_goemotions_tsv(path: Path, rows: _Rows) -> None:
    # Split at "\n" alone: comments hold other Unicode line separators.
    for number, line in enumerate(path.read_bytes().decode("utf-8").split("\n"), 1):
        fields = line.removesuffix("\r").split("\t")
        if fields == [""]:
            continue
        if len(fields) != 3:
            rows.reject(number, f"expected 3 tab-separated columns (text, label ids, comment id), found {len(fields)}")
            continue
        text, ids, row_id = fields
        try:
            labels = [int(value) for value in ids.split(",")]
        except ValueError:
            rows.reject(number, f"label ids must be integers separated by commas, got {ids!r}")
            continue
        outside = [label for label in labels if not 0 <= label < len(GOEMOTIONS)]
        if outside:
            rows.reject(number, f"label ids must lie in 0..{len(GOEMOTIONS) - 1}, got {outside}")
            continue
        rows.add(number, text, labels, row_id)


def load_quickstart(data_dir: str | Path | None = None) -> DatasetDict:
    """The small English corpus that comes with the package: GoEmotions' 28 labels, written for it, CC0. Needs no `data_dir`."""
    folder = resources.files("hf_emotion.data.quickstart")
    splits = {}
    for split in SPLIT_STEMS:
        rows = _Rows(f"quickstart {split}", "error")
        for line, content in enumerate((folder / f"{split}.jsonl").read_text(encoding="utf-8").splitlines(), 1):
            row = json.loads(content)
            labels = sorted(GOEMOTIONS.index(name) for name in row["labels"])
            rows.add(line, row["text"], labels, f"{split}-{line}")
        splits[split] = rows.to_dataset(GOEMOTIONS, multi_label=True)
    return DatasetDict(splits)


FORMATS = {".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}


def columns_of(path: str | Path) -> list[str]:
    """The columns that a CSV, TSV or Parquet file declares; empty for JSONL, which declares none."""
    path = Path(path)
    kind = FORMATS.get(path.suffix.lower())
    if kind == "csv":
        with path.open(encoding="utf-8-sig", newline="") as file:
            return next(csv.reader(file, delimiter=_delimiter(path)), [])
    if kind == "parquet":
        import pyarrow.parquet

        return pyarrow.parquet.read_schema(path).names
    return []


def _delimiter(path: Path) -> str:
    return "\t" if path.suffix.lower() == ".tsv" else ","


def read_rows(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """
    Stream the rows of a CSV, TSV, JSONL or Parquet file as (line or row number from 1, {column: value}).

    CSV and TSV have a header; their values are strings, never turned into missing values (the label "None" stays).
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    try:
        yield from _read_rows(path)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text ({error}): save it in UTF-8.") from error


def _read_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    kind = FORMATS.get(path.suffix.lower())
    if kind == "csv":
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, delimiter=_delimiter(path), strict=True)
            while True:
                try:
                    row = next(reader)
                except StopIteration:
                    return
                except csv.Error as error:
                    line = reader.reader.line_num  # reader.line_num is still that of the row before
                    raise ValueError(f"{path}, line {line}: malformed CSV: {error}") from error
                if None in row or None in row.values():
                    raise ValueError(
                        f"{path}, line {reader.line_num}: the header has {len(reader.fieldnames)} columns and the row has "
                        f"{'more' if None in row else 'fewer'}; quote values that contain the separator."
                    )
                yield reader.line_num, row
    elif kind == "jsonl":
        with path.open(encoding="utf-8", newline="\n") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    row = json.loads(line)
                except json.JSONDecodeError as error:
                    raise ValueError(f"{path}, line {number}: no valid JSON: {error}") from error
                if not isinstance(row, dict):
                    raise ValueError(
                        f"{path}, line {number}: each line must be a JSON object, got {type(row).__name__}."
                    )
                yield number, row
    elif kind == "parquet":
        import pyarrow.parquet

        number = 0
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=4096):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    else:
        raise ValueError(f"{path}: the file name must end in one of {sorted(FORMATS)}.")


def load_files(
    data_dir: str | Path | None = None,
    text_column: str = "text",
    label_column: str = "label",
    label_columns: Sequence[str] | None = None,
    label_separator: str | None = None,
    labels: Sequence[str] | None = None,
    id_column: str | None = None,
    validation_fraction: float = 0.1,
    on_bad_rows: OnBadRows = "error",
) -> DatasetDict:
    """
    One's own CSV, TSV, JSONL or Parquet files.

    Args:
        data_dir: a folder with `train.*` and, where there are any, `validation.*` (also valid, val, dev) and `test.*`; or
            one file, which is then the training part.
        text_column, label_column, id_column: column names.
        label_columns: instead of `label_column`, one column of 0 and 1 per label (multi-label).
        label_separator: splits the label column, e.g. "," or "|" (multi-label). A list in JSONL or Parquet is multi-label
            without it.
        labels: the label names in their order. None: those that occur, sorted.
        validation_fraction: share of the training rows set aside, at a fixed seed, where there is no validation file.
        on_bad_rows: "error", or "skip" to drop, count and list rows without text or with an unknown label.

    Raises:
        FileNotFoundError, ValueError: no file, no such column, an empty text, an unknown label (with the nearest one).
    """
    for option, value in (("labels", labels), ("label_columns", label_columns)):
        if isinstance(value, str):
            raise ValueError(f"`{option}` must be a list of names, got the string {value!r}: write [{value}].")
    if data_dir is None:
        raise ValueError("`data_dir` must name a folder with train.csv (or .tsv, .jsonl, .parquet), or one such file.")
    files = _split_files(Path(data_dir))
    parsed: dict[str, _Rows] = {}
    multi_label = label_columns is not None or label_separator is not None
    for split, path in files.items():
        parsed[split] = rows = _Rows(path, on_bad_rows)
        for line, row in read_rows(path):
            wanted = [text_column, *(label_columns or [label_column]), *([id_column] if id_column else [])]
            missing = [name for name in wanted if name not in row]
            if missing:
                raise ValueError(
                    f"{path}, line {line}: no column {missing[0]!r}; the columns are {sorted(row)}. Name yours with "
                    "text_column, label_column or label_columns."
                )
            if label_columns is not None:
                flags = {name: str(row[name]).strip() for name in label_columns}
                wrong = {name: flag for name, flag in flags.items() if flag not in ("0", "1", "True", "False")}
                if wrong:
                    rows.reject(line, f"label columns must hold 0 or 1, got {wrong}")
                    continue
                value = [name for name, flag in flags.items() if flag in ("1", "True")]
            else:
                value = row[label_column]
                if label_separator is not None and isinstance(value, str):
                    value = [part.strip() for part in value.split(label_separator) if part.strip()]
                if value is None or value == "":
                    rows.reject(line, f"the column {label_column!r} has no label")
                    continue
                multi_label = multi_label or isinstance(value, list)
                value = [str(item) for item in (value if isinstance(value, list) else [value])]
            rows.add(line, row[text_column], value, str(row[id_column]) if id_column else f"{split}-{line}")
        if not rows.rows:
            raise ValueError(f"{path} has no {'valid ' if rows.bad else ''}rows.")

    names = list(labels) if labels else list(label_columns or [])
    if not names:
        names = sorted({name for rows in parsed.values() for row in rows.rows for name in row["labels"]})
    known = {name: number for number, name in enumerate(names)}
    for rows in parsed.values():
        valid = []
        for row in rows.rows:
            unknown = [name for name in row["labels"] if name not in known]
            if unknown:
                near = difflib.get_close_matches(unknown[0], names, n=1)
                hint = f"; did you mean {near[0]!r}? The labels are" if near else "; the labels are"
                rows.reject(row["line"], f"unknown label {unknown[0]!r}{hint} {names}")
                continue
            ids = sorted({known[name] for name in row["labels"]})
            valid.append({**row, "labels": ids if multi_label else ids[0]})
        rows.rows = valid
    splits = {split: rows.to_dataset(names, multi_label) for split, rows in parsed.items()}
    if "validation" not in splits:
        parts = splits["train"].train_test_split(test_size=validation_fraction, seed=0)
        logger.warning("no validation file: %d training rows set aside for validation", len(parts["test"]))
        splits = {**splits, "train": parts["train"], "validation": parts["test"]}
    return DatasetDict({split: splits[split] for split in SPLIT_STEMS if split in splits})


def _split_files(source: Path) -> dict[str, Path]:
    if source.is_file():
        return {"train": source}
    if not source.is_dir():
        raise FileNotFoundError(f"`data_dir` does not exist: {source}")
    files = {}
    for split, stems in SPLIT_STEMS.items():
        found = [path for stem in stems for path in sorted(source.glob(f"{stem}.*")) if path.suffix.lower() in FORMATS]
        if len(found) > 1:
            raise ValueError(f"more than one file for the split {split!r} in {source}: {[p.name for p in found]}")
        if found:
            files[split] = found[0]
    if "train" not in files:
        raise FileNotFoundError(
            f"no training file in {source}: expected train with one of the endings {sorted(FORMATS)}."
        )
    return files


def label_names(dataset: Dataset) -> list[str]:
    """The label names of a split, in the order of their ids."""
    feature = dataset.features["labels"]
    return list((feature.feature if is_multi_label(dataset) else feature).names)


def is_multi_label(dataset: Dataset) -> bool:
    """Whether `labels` is a list per row."""
    return not isinstance(dataset.features["labels"], ClassLabel)


def label_matrix(dataset: Dataset) -> np.ndarray:
    """Gold labels: (N, C) of 0 and 1, int8, for multi-label data; (N,) class ids, int64, for single-label data."""
    if not is_multi_label(dataset):
        return np.asarray(dataset["labels"], dtype=np.int64)
    return multi_hot(dataset["labels"], len(label_names(dataset)))


def multi_hot(label_ids: Iterable[Sequence[int]], num_labels: int) -> np.ndarray:
    """Lists of label ids -> (N, C) of 0 and 1, int8."""
    label_ids = list(label_ids)
    matrix = np.zeros((len(label_ids), num_labels), dtype=np.int8)
    for row, ids in enumerate(label_ids):
        matrix[row, list(ids)] = 1
    return matrix


def duplicates_between_splits(splits: DatasetDict) -> dict[str, int]:
    """Number of distinct texts that stand in both splits, for each pair of splits ("train & test": 32), and repeated rows within a split."""
    texts = {split: Counter(dataset["text"]) for split, dataset in splits.items()}
    names = list(texts)
    report = {f"repeated in {name}": sum(texts[name].values()) - len(texts[name]) for name in names}
    for i, first in enumerate(names):
        for second in names[i + 1 :]:
            report[f"{first} & {second}"] = len(texts[first].keys() & texts[second].keys())
    return report


def remove_duplicates(splits: DatasetDict) -> DatasetDict:
    """Remove from train every text that stands in validation or test."""
    held_out = {text for split, dataset in splits.items() if split != "train" for text in dataset["text"]}
    keep = [row for row, text in enumerate(splits["train"]["text"]) if text not in held_out]
    return DatasetDict({**splits, "train": splits["train"].select(keep)})
