# SPDX-License-Identifier: Apache-2.0
"""Text classification corpora: GoEmotions, the six emotions, the quickstart corpus, and one's own CSV, TSV, JSONL or Parquet files.

Every loader returns a `datasets.DatasetDict` with the columns `id` (string), `text` (string, NFC) and `labels`: a list of
`ClassLabel` for multi-label data, one `ClassLabel` for single-label data.
"""

from __future__ import annotations

import csv
import html
import itertools
import json
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from ..io.paths import (
    as_path,
    ending,
    is_file,
    open_file,
    shown,
)
from ..taxonomies import GOEMOTIONS, group_index
from .aspect import add_none_rows, none_label, split_by_text, to_aspect_dataset
from .corpus import OWN_TERMS, Corpus
from .lazily import datasets
from .own_files import check_different, check_label_column, draw_units, known_names
from .rows import (
    BadRow,
    OnBadRows,
    Rows,
    decode,
    local_files,
    parse_json,
)


logger = logging.getLogger(__name__)

GOEMOTIONS_HUB_ID = "google-research-datasets/go_emotions"
EMOTION6_HUB_ID = "dair-ai/emotion"
EMOTION6 = ["sadness", "joy", "love", "anger", "fear", "surprise"]  # in the order of the Hub's ids
SPLIT_STEMS = {"train": ["train"], "validation": ["validation", "valid", "val", "dev"], "test": ["test"]}


def load_goemotions(
    data_dir: str | Path | None = None, taxonomy: str = "goemotions", on_bad_rows: OnBadRows = "error"
) -> datasets.DatasetDict:
    """
    GoEmotions, the filtered splits of 43,410 / 5,426 / 5,427 comments (CC BY 4.0).

    Args:
        data_dir: folder that holds `goemotions/{train,dev,test}.tsv` (text, comma-separated label ids, comment id; no
            header, no quoting). None: from the Hub, `google-research-datasets/go_emotions`, configuration "simplified".
        taxonomy: "goemotions" (28 labels), "ekman" (6 and neutral) or "sentiment" (3 and neutral).
        on_bad_rows: "error", or "skip" to drop, count and list malformed rows.
    """
    if data_dir is None:
        hub = datasets.load_dataset(GOEMOTIONS_HUB_ID, "simplified")
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
            rows = Rows(source, on_bad_rows)
            _read_goemotions_tsv(source, rows)
        else:
            rows = Rows(f"{GOEMOTIONS_HUB_ID} {split}", on_bad_rows)
            for line, row in enumerate(source, 1):
                rows.add(line, row["text"], row["labels"], row["id"])
        for row in rows.rows:
            row["labels"] = sorted({group_of[label] for label in row["labels"]})
        splits[split] = rows.to_dataset(list(groups), multi_label=True)
    return datasets.DatasetDict(splits)


def _read_goemotions_tsv(path: Path, rows: Rows) -> None:
    # Split at "\n" alone: comments hold other Unicode line separators.
    for number, line in enumerate(decode(path.read_bytes(), path).split("\n"), 1):
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


def load_emotion6(data_dir: str | Path | None = None, on_bad_rows: OnBadRows = "error") -> datasets.DatasetDict:
    """
    The six emotions of Saravia et al. 2018 (also known as dair-ai/emotion), 16,000 / 2,000 / 2,000 messages, one label each
    (for education and research only).

    Args:
        data_dir: folder that holds `emotion6/{train,val,test}.txt` (text;label). None: from the Hub, `dair-ai/emotion`,
            configuration "split".
        on_bad_rows: "error", or "skip" to drop, count and list malformed rows.
    """
    splits = {}
    if data_dir is None:
        hub = datasets.load_dataset(EMOTION6_HUB_ID, "split")
        for split in SPLIT_STEMS:
            rows = Rows(f"{EMOTION6_HUB_ID} {split}", on_bad_rows)
            for line, row in enumerate(hub[split], 1):
                rows.add(line, row["text"], row["label"], f"{split}-{line}")
            splits[split] = rows.to_dataset(EMOTION6)
        return datasets.DatasetDict(splits)
    folder = Path(data_dir) / "emotion6"
    for split, name in (("train", "train.txt"), ("validation", "val.txt"), ("test", "test.txt")):
        path = folder / name
        if not path.is_file():
            raise FileNotFoundError(
                f"`data_dir` must hold the folder `emotion6` with train.txt, val.txt and test.txt: {path} does not exist. "
                "Without `data_dir` (and without HF_EMOTION_DATA) the corpus is loaded from the Hub."
            )
        rows = Rows(path, on_bad_rows)
        for line, content in enumerate(decode(path.read_bytes(), path).split("\n"), 1):
            if not content.strip():
                continue
            text, separator, label = content.rstrip("\r").rpartition(";")
            if not separator:
                rows.reject(line, f"expected text;label, got {content!r}")
            elif label not in EMOTION6:
                rows.reject(line, f"unknown label {label!r}; the labels are {EMOTION6}")
            else:
                rows.add(line, text, EMOTION6.index(label), f"{split}-{line}")
        splits[split] = rows.to_dataset(EMOTION6)
    return datasets.DatasetDict(splits)


TWEET_EMOJI_HUB_ID = "cardiffnlp/tweet_eval"
# In the order of the ids, the Hub's and those of mapping.txt; the words are what a label's vector can start from.
TWEET_EMOJIS = (
    "red_heart heart_eyes tears_of_joy two_hearts fire smiling_face sunglasses sparkles blue_heart blowing_a_kiss camera "
    "united_states sun purple_heart winking hundred_points beaming christmas_tree camera_with_flash winking_with_tongue"
).split()


def load_tweet_emoji(data_dir: str | Path | None = None, on_bad_rows: OnBadRows = "error") -> datasets.DatasetDict:
    """
    TweetEval's emoji prediction (Barbieri et al. 2018 and 2020), 45,000 / 5,000 / 50,000 tweets, each with the one emoji that
    was taken out of it. HTML entities are resolved, and what is left of a removed emoji (U+FE0F) goes.

    Args:
        data_dir: folder that holds `tweeteval/emoji/{train,val,test}_{text,labels}.txt`, a tweet and an id per line. None: from
            the Hub, `cardiffnlp/tweet_eval`, configuration "emoji".
        on_bad_rows: "error", or "skip" to drop, count and list malformed rows.
    """
    hub = datasets.load_dataset(TWEET_EMOJI_HUB_ID, "emoji") if data_dir is None else {}
    splits = {}
    for split, stem in (("train", "train"), ("validation", "val"), ("test", "test")):
        if data_dir is None:
            source: Path | str = f"{TWEET_EMOJI_HUB_ID} {split}"
            texts, ids = hub[split]["text"], hub[split]["label"]
        else:
            source, labels = local_files(data_dir, "tweeteval/emoji", [f"{stem}_text.txt", f"{stem}_labels.txt"])
            texts, ids = (decode(path.read_bytes(), path).removesuffix("\n").split("\n") for path in (source, labels))
            if len(texts) != len(ids):
                raise ValueError(f"{source} has {len(texts)} lines and {labels} {len(ids)}: copy both files anew.")
        rows = Rows(source, on_bad_rows)
        for line, (text, label) in enumerate(zip(texts, map(str, ids), strict=True), 1):
            if label.strip().isdecimal() and int(label) < len(TWEET_EMOJIS):
                text = html.unescape(text).replace("\ufe0f", "").strip()
                rows.add(line, text, int(label), f"{split}-{line}")
            else:
                rows.reject(line, f"a label must be an id in 0..{len(TWEET_EMOJIS) - 1}, got {label!r}")
        splits[split] = rows.to_dataset(TWEET_EMOJIS)
    return datasets.DatasetDict(splits)


def load_quickstart(data_dir: str | Path | None = None) -> datasets.DatasetDict:
    """The small English corpus that comes with the package: GoEmotions' 28 labels, written for it, CC0. Needs no `data_dir`."""
    folder = resources.files("hf_emotion.data.quickstart")
    splits = {}
    for split in SPLIT_STEMS:
        rows = Rows(f"quickstart {split}", "error")
        for line, content in enumerate((folder / f"{split}.jsonl").read_text(encoding="utf-8").splitlines(), 1):
            row = json.loads(content)
            labels = sorted(GOEMOTIONS.index(name) for name in row["labels"])
            rows.add(line, row["text"], labels, f"{split}-{line}")
        splits[split] = rows.to_dataset(GOEMOTIONS, multi_label=True)
    return datasets.DatasetDict(splits)


FORMATS = {".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}


def columns_of(path: str | Path) -> list[str]:
    """The columns that a CSV, TSV or Parquet file declares; empty for JSONL, which declares none."""
    kind = FORMATS.get(ending(path))
    with _reading(shown(path)):
        if kind == "csv":
            with open_file(path, "r", encoding="utf-8-sig", newline="") as file:
                return _named_columns(next(csv.reader(file, delimiter=_delimiter(path)), []), shown(path))
        if kind == "parquet":
            import pyarrow.parquet

            with open_file(path) as file:
                return pyarrow.parquet.read_schema(file).names
    return []


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """What the readers of the formats raise, as an error that names the file."""
    import pyarrow

    try:
        yield
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text ({error}): save it in UTF-8.") from error
    except csv.Error as error:
        raise ValueError(f"{path}: malformed CSV: {error}") from error
    except (pyarrow.ArrowException, OSError) as error:
        if not isinstance(error, pyarrow.ArrowException) and error.errno is not None:  # of the file system
            raise
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} is no whole Parquet file, or one that cannot be read: {reason}.") from error


def _delimiter(path: str | Path) -> str:
    return "\t" if ending(path) == ".tsv" else ","


def _named_columns(header: Sequence[str], path: str) -> list[str]:
    """The columns of a header without the nameless ones at its end, which spreadsheets leave; ValueError for a name that is repeated."""
    names = list(header)
    while names and not names[-1].strip():
        names.pop()
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{path}: the header names the column {name!r} {names.count(name)} times: rename one.")
    return names


class MalformedRow(dict):
    """What could be read of a line that is no JSON object, or of a row with more or fewer values than the header."""

    def __init__(self, values: Mapping[str, Any], reason: str):
        super().__init__(values)
        self.reason = reason


def read_rows(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """
    Stream the rows of a CSV, TSV, JSONL or Parquet file, or of a URL that fsspec opens, as (line or row number from 1,
    {column: value}).

    CSV and TSV have a header; their values are strings, never turned into missing values (the label "None" stays). Halves of
    characters, which JSON can escape and no text holds, are an error.

    Raises:
        FileNotFoundError, ValueError: no file, or a malformed row.
    """
    for number, row in all_rows(path):
        if isinstance(row, MalformedRow):
            raise ValueError(f"{shown(as_path(path))}, line {number}: {row.reason}")
        yield number, row


def all_rows(path: str | Path, half_characters: bool = False) -> Iterator[tuple[int, dict[str, Any]]]:
    """
    As `read_rows`, with a `MalformedRow` where that has an error, but for files where no row's end can be told (quotes, encoding);
    `half_characters` lets halves of characters through.
    """
    path = as_path(path)
    if not is_file(path):
        raise FileNotFoundError(f"no such file: {shown(path)}")
    with _reading(shown(path)):
        yield from _read_rows(path, shown(path), half_characters)


def valid_rows(path: str | Path, rows: Rows) -> Iterator[tuple[int, dict[str, Any]]]:
    """As `read_rows`; `rows` rejects the malformed ones."""
    for number, row in all_rows(path):
        if isinstance(row, MalformedRow):
            rows.reject(number, row.reason)
        else:
            yield number, row


def _read_rows(source: str | Path, path: str, half_characters: bool) -> Iterator[tuple[int, dict[str, Any]]]:
    """`path`: the source's name in messages."""
    kind = FORMATS.get(ending(source))
    if kind == "csv":
        with open_file(source, "r", encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, delimiter=_delimiter(source), strict=True)
            columns: list[str] = []
            unnamed = None
            while True:
                try:
                    if unnamed is None:
                        header = reader.fieldnames or []
                        reader.fieldnames = columns = _named_columns(header, path)
                        unnamed = len(header) - len(columns)
                    row = next(reader)
                except StopIteration:
                    return
                except csv.Error as error:
                    line = reader.reader.line_num  # reader.line_num is still that of the row before
                    hint = ""
                    if "field limit" in str(error):
                        hint = " (a quote that is never closed? Texts that are longer need JSONL or Parquet)"
                    raise ValueError(f"{path}, line {line}: malformed CSV: {error}{hint}") from error
                if len(row.get(None, [])) <= unnamed and not any(map(str.strip, row.get(None, []))):
                    row.pop(None, None)
                if None in row or None in row.values():
                    row = MalformedRow(
                        {column: value or "" for column, value in row.items() if column is not None},
                        f"the header has {len(columns)} columns and the row has "
                        f"{'more' if None in row else 'fewer'}; quote values that contain the separator.",
                    )
                elif len(row) > 1 and list(row) == list(row.values()):
                    row = MalformedRow(row, "the line is the header once more: leave it out when files are joined.")
                yield reader.line_num, row
    elif kind == "jsonl":
        with open_file(source, "r", encoding="utf-8-sig", newline="\n") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    row = parse_json(line, half_characters)
                except BadRow as error:
                    row = MalformedRow({}, str(error))
                if not isinstance(row, dict):
                    row = MalformedRow({}, f"each line must be a JSON object, got {type(row).__name__}.")
                yield number, row
    elif kind == "parquet":
        import pyarrow.parquet

        number = 0
        with open_file(source) as opened, pyarrow.parquet.ParquetFile(opened) as file:
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
    aspect_column: str | None = None,
    target_column: str | None = None,
    aspects: Sequence[str] | None = None,
    targets: Sequence[str] | None = None,
    fill_none: bool = False,
) -> datasets.DatasetDict:
    """
    One's own CSV, TSV, JSONL or Parquet files.

    With `aspect_column` a row asks about one aspect (of one target) of its text and has one label; the result has the columns
    of `hf_emotion.data.aspect`. A pair of target and aspect without a row is not asked about, unless `fill_none` adds one.

    Args:
        data_dir: a folder with `train.*` and, where there are any, `validation.*` (also valid, val, dev) and `test.*`; or
            one file, which is then the training part.
        text_column, label_column, id_column: column names.
        label_columns: instead of `label_column`, one column of 0 and 1 per label (multi-label).
        label_separator: splits the label column, e.g. "," or "|" (multi-label). A list in JSONL or Parquet is multi-label
            without it.
        labels: the label names in their order. None: those of the training part, sorted.
        validation_fraction: share of the training rows (with `aspect_column`: of the distinct training texts, with all their
            rows) set aside, at a fixed seed, where there is no validation file; 0: none. A row that alone has its label (or
            target and aspect) stays in training.
        on_bad_rows: "error", or "skip" to drop, count and list rows without text or with an unknown label.
        aspect_column, target_column: columns with the name of the aspect and of the target; where there is a target, the
            placeholders LOCATION1 and LOCATION2 in a text are replaced as `replace_targets` says.
        aspects, targets: their names in their order. None: those of the training part, sorted.
        fill_none: with `aspect_column`: in every part, each text (and target) that has a row gets one with the label "none" (in
            the spelling of the corpus) for every aspect that no row of it names. For files that list only the aspects that a
            text names; a model of these alone would find an opinion on every aspect of every text.

    Raises:
        FileNotFoundError, ValueError: no file, no such column, an empty text, an unknown label, aspect or target (with the
            nearest one), options that exclude each other.
    """
    lists = {"labels": labels, "label_columns": label_columns, "aspects": aspects, "targets": targets}
    for option, value in lists.items():
        if isinstance(value, str):
            raise ValueError(f"`{option}` must be a list of names, got the string {value!r}: write [{value}].")
    if label_separator == "":
        raise ValueError(
            "`label_separator` must not be empty: name what stands between the labels, e.g. '|', or leave it out for one "
            "label a row."
        )
    if label_columns is not None:
        check_different("label_columns", label_columns)
    columns = {"text_column": text_column, "aspect_column": aspect_column, "target_column": target_column}
    columns |= {"label_column": label_column} if label_columns is None else {}
    for option, other in itertools.combinations(columns, 2):
        if columns[option] is not None and columns[option] == columns[other]:
            raise ValueError(f"`{option}` and `{other}` name the same column, {columns[option]!r}: give each its own.")
    _check_aspect_options(aspect_column, target_column, aspects, targets, fill_none, label_columns, label_separator)
    given = {"aspect": aspects} if aspect_column else {}
    given |= {"target": targets} if target_column else {}
    both = ("aspect", aspect_column), ("target", target_column)
    context_columns = {name: column for name, column in both if column}
    if data_dir is None:
        raise ValueError("`data_dir` must name a folder with train.csv (or .tsv, .jsonl, .parquet), or one such file.")
    files = _split_files(Path(data_dir))
    parsed: dict[str, Rows] = {}
    multi_label = label_columns is not None or label_separator is not None
    for split, path in files.items():
        parsed[split] = rows = Rows(path, on_bad_rows)
        for line, row in valid_rows(path, rows):
            wanted = [text_column, *(label_columns or [label_column]), id_column, aspect_column, target_column]
            missing = [name for name in wanted if name is not None and name not in row]
            if missing:
                options = (
                    "label_column, aspect_column or target_column"
                    if aspect_column
                    else "label_column or label_columns"
                )
                raise ValueError(
                    f"{path}, line {line}: no column {missing[0]!r}; the columns are {sorted(row)}. Name yours with "
                    f"text_column, {options}."
                )
            if label_columns is not None:
                flags = {name: str(row[name]).strip() for name in label_columns}
                no_flags = {name: flag for name, flag in flags.items() if flag not in ("0", "1", "True", "False")}
                if no_flags:
                    rows.reject(line, f"label columns must hold 0 or 1, got {no_flags}")
                    continue
                value = [name for name, flag in flags.items() if flag in ("1", "True")]
            else:
                value = row[label_column]
                if label_separator is not None and isinstance(value, str):
                    value = value.split(label_separator)
                if not isinstance(value, list) and not _label_name(value):
                    rows.reject(line, f"the column {label_column!r} has no label")
                    continue
                if aspect_column is not None and isinstance(value, list):
                    rows.reject(line, f"with `aspect_column` each row has one label, got {value}")
                    continue
                if isinstance(value, list) and split != "train" and not multi_label:
                    rows.reject(line, f"each row has one label, as in the training part, got {value}")
                    continue
                multi_label = multi_label or isinstance(value, list)
                value = [
                    name for item in (value if isinstance(value, list) else [value]) if (name := _label_name(item))
                ]
            context = {name: row[context_columns[name]] for name in given}
            wrong = [
                name
                for name, content in context.items()
                if not isinstance(content, str | int) or not str(content).strip()
            ]
            if wrong:
                column = context_columns[wrong[0]]
                rows.reject(line, f"the column {column!r} must name one {wrong[0]}, got {context[wrong[0]]!r}")
                continue
            context = {name: str(content).strip() for name, content in context.items()}
            row_id = str(row[id_column]) if id_column else f"{split}-{line}"
            rows.add(line, row[text_column], value, row_id, **context)

    names = {name: known_names(parsed, name, context) for name, context in given.items()}
    if fill_none:
        found = none_label(labels or {name for row in parsed["train"].rows for name in row["labels"]})
        if labels and found is None:
            raise ValueError(f"`fill_none` needs the label 'none' among `labels`, got {list(labels)}: add it.")
        for rows in parsed.values():
            add_none_rows(rows, names["aspect"], found or "none")
    names["labels"] = known_names(parsed, "labels", labels or label_columns)
    if not labels and not label_columns:
        check_label_column(parsed["train"], names["labels"], text_column, label_column)
    for path, rows in zip(files.values(), parsed.values(), strict=True):
        if not rows.rows:
            raise ValueError(f"{path} has no valid rows: {rows.bad[0]}" if rows.bad else f"{path} has no rows.")
        if not names["labels"]:
            raise ValueError(
                f"{path}: no row has a label; name the column of the labels with label_column or label_columns."
            )
        if not any(row["labels"] for row in rows.rows):
            logger.warning("%s: none of its %d rows has a label", path, len(rows.rows))
    known = {name: number for number, name in enumerate(names["labels"])}
    splits = {}
    for split, rows in parsed.items():
        for row in rows.rows:
            ids = sorted({known[name] for name in row["labels"]})
            row["labels"] = ids if multi_label else ids[0]
        if aspect_column is not None:
            splits[split] = to_aspect_dataset(rows, names["labels"], names["aspect"], names.get("target"))
        else:
            splits[split] = rows.to_dataset(names["labels"], multi_label)
    if "validation" not in splits and validation_fraction != 0:
        if aspect_column is not None:
            train, validation = split_by_text(splits["train"], validation_fraction)
        else:
            total = len(splits["train"])
            if not 0 < validation_fraction < 1 or math.ceil(validation_fraction * total) == total:
                raise ValueError(
                    "`validation_fraction` must lie between 0 and 1 and leave rows in both parts, got "
                    f"{validation_fraction} of {total} rows; or add a validation file."
                )
            rest, drawn = draw_units(splits["train"], range(total), math.ceil(validation_fraction * total))
            train, validation = splits["train"].select(rest), splits["train"].select(drawn)
        logger.warning("no validation file: %d training rows set aside for validation", len(validation))
        splits = {**splits, "train": train, "validation": validation}
    return datasets.DatasetDict({split: splits[split] for split in SPLIT_STEMS if split in splits})


def _label_name(value: Any) -> str:
    """A label as text, "" for none (also NaN). Whole numbers are one label in every form: a column with gaps holds 1.0 for 1."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


def _check_aspect_options(
    aspect_column, target_column, aspects, targets, fill_none, label_columns, label_separator
) -> None:
    if aspect_column is None:
        given = {
            "target_column": target_column,
            "aspects": aspects,
            "targets": targets,
            "fill_none": fill_none or None,
        }
        for option, value in given.items():
            if value is not None:
                raise ValueError(f"`{option}` needs `aspect_column`, the column with the aspect of each row.")
    else:
        for option, value in (("label_columns", label_columns), ("label_separator", label_separator)):
            if value is not None:
                raise ValueError(f"with `aspect_column` each row has one label: leave out `{option}`.")
        if targets is not None and target_column is None:
            raise ValueError("`targets` needs `target_column`, the column with the target of each row.")


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


CORPORA = (
    Corpus(
        name="goemotions",
        loader=load_goemotions,
        hub_id=GOEMOTIONS_HUB_ID,
        terms="CC BY 4.0; Reddit comments, Demszky et al. 2020",
    ),
    Corpus(
        name="emotion6",
        loader=load_emotion6,
        hub_id=EMOTION6_HUB_ID,
        terms="for education and research only; Saravia et al. 2018",
        selection_metric="accuracy",
    ),
    Corpus(
        name="tweet_emoji",
        loader=load_tweet_emoji,
        hub_id=TWEET_EMOJI_HUB_ID,
        terms="the original terms and those of Twitter: research use; Barbieri et al. 2018",
        example="What a view from up here!",
    ),
    Corpus(
        name="quickstart",
        loader=load_quickstart,
        terms="CC0 1.0; sentences written for hf-emotion",
        packaged=True,
    ),
    Corpus(name="files", loader=load_files, languages=(), terms=OWN_TERMS, own_files=True),
)
