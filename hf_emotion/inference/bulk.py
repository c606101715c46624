# SPDX-License-Identifier: Apache-2.0
"""Prediction for files of any length: bounded memory, and an interrupted job goes on where it stopped."""

import csv
import hashlib
import itertools
import json
import logging
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow
import pyarrow.parquet
from tqdm.auto import tqdm

from ..data.text import FORMATS, columns_of, read_rows
from ..training.files import replacing, without_nan, write_json
from .predictor import Predictor


logger = logging.getLogger(__name__)

ROWS_PER_PART = 20_000
LABELS, SCORES = "predicted_labels", "predicted_scores"
CSV_SEPARATOR = "|"


def predict_file(
    predictor: Predictor,
    source: str | Path,
    output: str | Path,
    text_column: str = "text",
    top_k: int | None = None,
    on_bad_rows: Literal["error", "skip"] = "error",
    rows_per_part: int = ROWS_PER_PART,
    progress: bool = True,
) -> dict[str, int]:
    """
    Predict every row of a CSV, TSV, JSONL or Parquet file; the output has its columns and `predicted_labels` and
    `predicted_scores` (lists; in CSV joined by "|").

    Predictions are kept in parts in the folder `OUTPUT.parts` until the whole is written; the same call after an
    interruption goes on behind the last finished part.

    Args:
        predictor: the model.
        source, output: files; their endings give the formats, which may differ. `output` must not exist.
        text_column: the column with the texts.
        top_k: the k most probable labels instead of those above their thresholds.
        on_bad_rows: what to do with empty texts: "error" before anything is predicted, or "skip": the row stays in the
            output, without a prediction.

    Returns:
        {"rows", "skipped"}: rows written, and how many of them have no prediction.

    Raises:
        FileExistsError: `output` exists, or a folder of parts that belongs to another job.
        ValueError: malformed rows, no such column, a column that has the name of a prediction.
    """
    source, output = Path(source), Path(output)
    if output.suffix.lower() not in FORMATS:
        raise ValueError(f"`output` must end in one of {sorted(FORMATS)}, got {output.name!r}.")
    if on_bad_rows not in ("error", "skip"):
        raise ValueError(f"`on_bad_rows` must be 'error' or 'skip', got {on_bad_rows!r}.")
    if output.exists():
        raise FileExistsError(f"the output {output} exists: choose another name or remove it.")
    total, skipped, layout = _check_rows(source, output, text_column, on_bad_rows)

    parts = output.with_name(output.name + ".parts")
    job = {
        "source": {"name": source.name, "bytes": source.stat().st_size, "modified": source.stat().st_mtime_ns},
        "model": _fingerprint(predictor),
        "labels": predictor.labels,
        "text_column": text_column,
        "top_k": top_k,
        "on_bad_rows": on_bad_rows,
        "rows_per_part": rows_per_part,
        "max_length": predictor.max_length,
    }
    predictor.check_top_k(top_k)
    done = _open_parts(parts, job)
    if done:
        logger.warning("resuming: %d of %d rows are predicted already", min(done * rows_per_part, total), total)
    rows = itertools.islice(read_rows(source), done * rows_per_part, None)
    truncated = 0
    with tqdm(total=total, initial=min(done * rows_per_part, total), unit="rows", disable=not progress) as bar:
        for number in itertools.count(done):
            texts = [row[text_column] for _, row in itertools.islice(rows, rows_per_part)]
            if not texts:
                break
            truncated += _write_part(parts / f"{number:06d}.parquet", predictor, texts, top_k, bar)
    predictor.warn_truncated(truncated, total)
    with replacing(output) as temporary:
        _merge(source, parts, temporary, layout)
    shutil.rmtree(parts)
    return {"rows": total, "skipped": skipped}


def _usable(text: Any) -> bool:
    return isinstance(text, str) and bool(text.strip())


@dataclass
class _Layout:
    """What the output must hold: the columns of the input, and their types where they are to be Parquet."""

    columns: list[str]
    schema: pyarrow.Schema | None = None


def _check_rows(source: Path, output: Path, text_column: str, on_bad_rows: str) -> tuple[int, int, _Layout]:
    """One pass before the first prediction, so that a bad row in the middle does not end a long job."""
    to = FORMATS[output.suffix.lower()]
    rows = read_rows(source)
    first = next(rows, None)  # also says what is wrong with the file
    rows = itertools.chain([] if first is None else [first], rows)
    layout = _Layout(columns_of(source))
    if to == "parquet" and FORMATS[source.suffix.lower()] == "parquet":
        layout.schema = pyarrow.parquet.read_schema(source)
    infer = to == "parquet" and layout.schema is None
    schemas: list[pyarrow.Schema] = []
    total = skipped = 0
    while chunk := list(itertools.islice(rows, ROWS_PER_PART)):
        for line, row in chunk:
            if text_column not in row:
                raise ValueError(f"{source}, line {line}: no column {text_column!r}; the columns are {sorted(row)}.")
            for name in (LABELS, SCORES):
                if name in row:
                    raise ValueError(f"{source} has a column {name!r} already: rename it first.")
            if not _usable(row[text_column]):
                if on_bad_rows == "error":
                    raise ValueError(
                        f"{source}, line {line}: the text is empty or no string: {row[text_column]!r} "
                        "(on_bad_rows='skip' leaves such rows without a prediction)"
                    )
                skipped += 1
            new = [name for name in row if name not in layout.columns]
            if to == "csv" and total and (new or len(row) != len(layout.columns)):
                differing = sorted(set(row) ^ set(layout.columns))
                raise ValueError(
                    f"{source}, line {line}: the rows have different columns, which CSV cannot hold ({differing}): write .jsonl."
                )
            layout.columns += new
            total += 1
        if infer:
            columns = {name: [row.get(name) for _, row in chunk] for name in layout.columns}
            try:
                schemas.append(pyarrow.table(columns).schema)
                pyarrow.unify_schemas(schemas, promote_options="permissive")
            except pyarrow.ArrowException as error:
                raise ValueError(
                    f"{source}: a column changes its type within the file, which Parquet cannot hold ({error}): write .jsonl."
                ) from error
    if infer:
        layout.schema = pyarrow.unify_schemas(schemas, promote_options="permissive") if schemas else pyarrow.schema({})
        for name in layout.columns:
            if name not in layout.schema.names:  # a CSV file without rows
                layout.schema = layout.schema.append(pyarrow.field(name, pyarrow.string()))
    return total, skipped, layout


def _fingerprint(predictor: Predictor) -> str:
    """Tells models apart: configuration and the sum of every parameter."""
    digest = hashlib.sha256(predictor.model.config.to_json_string().encode())
    for parameter in predictor.model.parameters():
        digest.update(str(parameter.detach().double().sum().item()).encode())
    return digest.hexdigest()


def _open_parts(parts: Path, job: dict) -> int:
    """Number of finished parts of this very job."""
    manifest = parts / "job.json"
    if manifest.is_file():
        if json.loads(manifest.read_text(encoding="utf-8")) != job:
            raise FileExistsError(
                f"{parts} holds parts of another job (other input, model or options): finish that one or remove the folder."
            )
        numbers = sorted(int(path.stem) for path in parts.glob("[0-9]*.parquet"))
        return next((i for i, number in enumerate(numbers) if i != number), len(numbers))
    parts.mkdir(parents=True, exist_ok=True)
    write_json(manifest, job)
    return 0


def _write_part(path: Path, predictor: Predictor, texts: list, top_k: int | None, bar: tqdm) -> int:
    """Predict one part and write it; the number of texts that were cut."""
    truncated = 0
    usable = [row for row, text in enumerate(texts) if _usable(text)]
    labels: list[list[str] | None] = [None] * len(texts)
    scores: list[list[float] | None] = [None] * len(texts)
    for start in range(0, len(usable), 2048):
        rows = usable[start : start + 2048]
        probabilities, cut = predictor._label_probabilities([texts[row] for row in rows])
        truncated += cut
        for row, found in zip(rows, predictor.rank(probabilities, top_k), strict=True):
            labels[row] = [item["label"] for item in found]
            scores[row] = [item["score"] for item in found]
        bar.update(len(rows))
    bar.update(len(texts) - len(usable))
    table = pyarrow.table({LABELS: labels, SCORES: scores}, schema=PREDICTION_SCHEMA)
    with replacing(path) as temporary:
        pyarrow.parquet.write_table(table, temporary)
    return truncated


PREDICTION_SCHEMA = pyarrow.schema({LABELS: pyarrow.list_(pyarrow.string()), SCORES: pyarrow.list_(pyarrow.float32())})


def _predictions(parts: Path) -> Iterator[tuple[list[str] | None, list[float] | None]]:
    for path in sorted(parts.glob("[0-9]*.parquet")):
        columns = pyarrow.parquet.read_table(path).to_pydict()
        yield from zip(columns[LABELS], columns[SCORES], strict=True)


def _merge(source: Path, parts: Path, target: Path, layout: _Layout) -> None:
    rows = (
        {**row, LABELS: labels, SCORES: scores}
        for (_, row), (labels, scores) in zip(read_rows(source), _predictions(parts), strict=True)
    )
    kind = FORMATS[target.suffix.lower()]
    if kind == "jsonl":
        with target.open("w", encoding="utf-8", newline="\n") as file:
            for row in rows:
                file.write(json.dumps(without_nan(row), ensure_ascii=False, default=str, allow_nan=False) + "\n")
    elif kind == "csv":
        # "\r\n", as RFC 4180 has it: with "\n" the csv module would leave a lone carriage return unquoted.
        with target.open("w", encoding="utf-8", newline="") as file:
            delimiter = "\t" if target.suffix.lower() == ".tsv" else ","
            writer = csv.DictWriter(file, [*layout.columns, LABELS, SCORES], delimiter=delimiter)
            writer.writeheader()
            for row in rows:
                for name, form in ((LABELS, str), (SCORES, "{:.4f}".format)):
                    row[name] = "" if row[name] is None else CSV_SEPARATOR.join(form(value) for value in row[name])
                writer.writerow(row)
    else:
        schema = layout.schema
        for field in PREDICTION_SCHEMA:
            schema = schema.append(field)
        with pyarrow.parquet.ParquetWriter(target, schema) as writer:
            while chunk := list(itertools.islice(rows, ROWS_PER_PART)):
                columns = {name: [row.get(name) for row in chunk] for name in schema.names}
                writer.write_table(pyarrow.table(columns, schema=schema))
