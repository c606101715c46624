# SPDX-License-Identifier: Apache-2.0
"""Prediction for files of any length: bounded memory, and an interrupted job goes on where it stopped."""

import csv
import hashlib
import itertools
import json
import logging
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow
import pyarrow.parquet
from tqdm.auto import tqdm

from ..data.text import FORMATS, columns_of, read_rows
from ..training.files import replacing, without_nan, write_json
from .dialogue import DialoguePredictor
from .onnx import OnnxClassifier
from .predictor import Predictor


logger = logging.getLogger(__name__)

ROWS_PER_PART = 20_000
LABELS, SCORES = "predicted_labels", "predicted_scores"
CSV_SEPARATOR = "|"


def predict_file(
    predictor: Predictor | DialoguePredictor,
    source: str | Path,
    output: str | Path,
    text_column: str | None = None,
    top_k: int | None = None,
    on_bad_rows: Literal["error", "skip"] = "error",
    rows_per_part: int = ROWS_PER_PART,
    progress: bool = True,
    dialogue_column: str = "dialogue",
    speaker_column: str = "speaker",
) -> dict[str, int]:
    """
    Predict every row of a CSV, TSV, JSONL or Parquet file; the output has its columns and `predicted_labels` and
    `predicted_scores` (lists; in CSV joined by "|").

    A file of dialogues has one row for each utterance, those of a dialogue one after the other; or, in JSONL and Parquet, one
    row for each dialogue with the column `turns`, a list of {"speaker", "utterance"}: its predictions are then one label
    and score for each turn.

    Predictions are kept in parts in the folder `OUTPUT.parts` until the whole is written; the same call after an
    interruption goes on behind the last finished part.

    Args:
        predictor: the model.
        source, output: files; their endings give the formats, which may differ. `output` must not exist.
        text_column: the column with the texts or utterances; default: "text", of dialogues "utterance".
        top_k: the k most probable labels instead of those above their thresholds.
        on_bad_rows: what to do with empty texts: "error" before anything is predicted, or "skip": the row stays in the
            output, without a prediction.
        dialogue_column, speaker_column: of dialogues, the column that tells them apart, and, if there is one, the
            speakers'.

    Returns:
        {"rows", "skipped"}: rows written, and how many of them have no prediction.

    Raises:
        FileExistsError: `output` exists, or a folder of parts that belongs to another job.
        ValueError: malformed rows, no such column, a column that has the name of a prediction, rows of a dialogue with
            another between them.
    """
    source, output = Path(source), Path(output)
    if output.suffix.lower() not in FORMATS:
        raise ValueError(f"`output` must end in one of {sorted(FORMATS)}, got {output.name!r}.")
    if on_bad_rows not in ("error", "skip"):
        raise ValueError(f"`on_bad_rows` must be 'error' or 'skip', got {on_bad_rows!r}.")
    if output.exists():
        raise FileExistsError(f"the output {output} exists: choose another name or remove it.")
    predictor.check_top_k(top_k)
    dialogues = isinstance(predictor, DialoguePredictor)
    columns = _Columns(text_column or ("utterance" if dialogues else "text"))
    if dialogues:
        columns.dialogue, columns.speaker = dialogue_column, speaker_column
        _, first = next(read_rows(source), (0, {}))
        columns.nested = TURNS in first and columns.text not in first
        if columns.nested and top_k is not None:
            raise ValueError(
                "`top_k` needs one row for each utterance: rows with `turns` have one label for each turn."
            )
    total, texts, skipped, layout = _check_rows(source, output, columns, on_bad_rows)

    parts = output.with_name(output.name + ".parts")
    job = {
        "source": {"name": source.name, "bytes": source.stat().st_size, "modified": source.stat().st_mtime_ns},
        "model": _fingerprint(predictor),
        "labels": predictor.labels,
        "columns": asdict(columns),
        "top_k": top_k,
        "on_bad_rows": on_bad_rows,
        "rows_per_part": rows_per_part,
        "max_length": predictor.max_length,
    }
    finished, done = _open_parts(parts, job)
    if done:
        logger.warning("resuming: %d of %d rows are predicted already", done, total)
    rows = (row for _, row in itertools.islice(read_rows(source), done, None))
    truncated = 0
    with tqdm(total=total, initial=done, unit="rows", disable=None if progress else True) as bar:
        for number, part in enumerate(_split_rows(rows, columns, rows_per_part), finished):
            truncated += _write_part(parts / f"{number:06d}.parquet", predictor, part, columns, top_k, bar)
    predictor.warn_truncated(truncated, texts)
    with replacing(output) as temporary:
        _merge(source, parts, temporary, layout)
    shutil.rmtree(parts)
    return {"rows": total, "skipped": skipped}


TURNS = "turns"


@dataclass
class _Columns:
    """Where the texts are. `dialogue` is None where each row stands alone; `nested`: each row holds a dialogue in `turns`."""

    text: str
    dialogue: str | None = None
    speaker: str | None = None
    nested: bool = False

    @property
    def needed(self) -> list[str]:
        return [TURNS] if self.nested else [name for name in (self.text, self.dialogue) if name is not None]

    def dialogue_of(self, row: dict) -> Any:
        """What tells the dialogue of a row from that of the row before; a row that stands alone differs from all."""
        return object() if self.dialogue is None or self.nested else str(row[self.dialogue])

    def usable(self, row: dict) -> bool:
        """Whether there is something to predict."""
        if not self.nested:
            return _usable(row[self.text])
        turns = row[TURNS]
        return (
            isinstance(turns, list)
            and bool(turns)
            and all(isinstance(turn, dict) and _usable(turn.get("utterance")) for turn in turns)
        )


def _split_rows(rows: Iterator[dict], columns: _Columns, rows_per_part: int) -> Iterator[list[dict]]:
    """Parts of at least so many rows; a dialogue is never parted."""
    part: list[dict] = []
    for _, dialogue in itertools.groupby(rows, key=columns.dialogue_of):
        part += dialogue
        if len(part) >= rows_per_part:
            yield part
            part = []
    if part:
        yield part


def _usable(text: Any) -> bool:
    return isinstance(text, str) and bool(text.strip())


@dataclass
class _Layout:
    """What the output must hold: the columns of the input, and their types where they are to be Parquet."""

    columns: list[str]
    schema: pyarrow.Schema | None = None


def _check_rows(source: Path, output: Path, columns: _Columns, on_bad_rows: str) -> tuple[int, int, int, _Layout]:
    """
    Rows, texts in them, rows to skip, and layout. One pass before the first prediction, so that a bad row in the middle
    does not end a long job.
    """
    to = FORMATS[output.suffix.lower()]
    rows = read_rows(source)
    first = next(rows, None)  # also says what is wrong with the file
    rows = itertools.chain([] if first is None else [first], rows)
    layout = _Layout(columns_of(source))
    if to == "parquet" and FORMATS[source.suffix.lower()] == "parquet":
        layout.schema = pyarrow.parquet.read_schema(source)
    infer = to == "parquet" and layout.schema is None
    schemas: list[pyarrow.Schema] = []
    total = texts = skipped = 0
    last, finished = None, set()  # dialogues
    while chunk := list(itertools.islice(rows, ROWS_PER_PART)):
        for line, row in chunk:
            for name in columns.needed:
                if name not in row:
                    raise ValueError(f"{source}, line {line}: no column {name!r}; the columns are {sorted(row)}.")
            for name in (LABELS, SCORES):
                if name in row:
                    raise ValueError(f"{source} has a column {name!r} already: rename it first.")
            usable = columns.usable(row)
            if not usable:
                if on_bad_rows == "error":
                    rule = "the text is empty or no string"
                    if columns.nested:
                        rule = "`turns` must be a list of {'speaker', 'utterance'}, at least one, without empty utterances"
                    raise ValueError(
                        f"{source}, line {line}: {rule}: {row[columns.needed[0]]!r} "
                        "(on_bad_rows='skip' leaves such rows without a prediction)"
                    )
                skipped += 1
            if columns.dialogue is not None and not columns.nested and (dialogue := columns.dialogue_of(row)) != last:
                if hash(dialogue) in finished:
                    raise ValueError(
                        f"{source}, line {line}: the dialogue {dialogue!r} goes on after another one: sort the rows by the "
                        f"column {columns.dialogue!r}."
                    )
                finished.add(hash(dialogue))
                last = dialogue
            new = [name for name in row if name not in layout.columns]
            if to == "csv" and total and (new or len(row) != len(layout.columns)):
                differing = sorted(set(row) ^ set(layout.columns))
                raise ValueError(
                    f"{source}, line {line}: the rows have different columns, which CSV cannot hold ({differing}): write .jsonl."
                )
            layout.columns += new
            total += 1
            texts += (len(row[TURNS]) if usable else 0) if columns.nested else 1
        if infer:
            values = {name: [row.get(name) for _, row in chunk] for name in layout.columns}
            try:
                schemas.append(pyarrow.table(values).schema)
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
    return total, texts, skipped, layout


def _fingerprint(predictor: Predictor | DialoguePredictor) -> str:
    """Tells models apart: configuration, TF-IDF gate, and the sum of every parameter or the files of an exported model."""
    digest = hashlib.sha256(predictor.model.config.to_json_string().encode())
    if getattr(predictor, "gate", None) is not None:
        digest.update(predictor.gate.to_json().encode())
    if isinstance(predictor.model, OnnxClassifier):
        for path in predictor.model.files:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()
    for parameter in predictor.model.parameters():
        digest.update(str(parameter.detach().double().sum().item()).encode())
    return digest.hexdigest()


def _open_parts(parts: Path, job: dict) -> tuple[int, int]:
    """Number of finished parts of this very job, and of the rows in them."""
    manifest = parts / "job.json"
    if manifest.is_file():
        if json.loads(manifest.read_text(encoding="utf-8")) != job:
            raise FileExistsError(
                f"{parts} holds parts of another job (other input, model or options): finish that one or remove the folder."
            )
        paths = sorted(parts.glob("[0-9]*.parquet"))
        number = next((i for i, path in enumerate(paths) if i != int(path.stem)), len(paths))
        return number, sum(pyarrow.parquet.read_metadata(path).num_rows for path in paths[:number])
    parts.mkdir(parents=True, exist_ok=True)
    write_json(manifest, job)
    return 0, 0


def _write_part(
    path: Path,
    predictor: Predictor | DialoguePredictor,
    rows: list[dict],
    columns: _Columns,
    top_k: int | None,
    bar: tqdm,
) -> int:
    """Predict one part and write it; the number of texts that were cut."""
    truncated = 0
    usable = [number for number, row in enumerate(rows) if columns.usable(row)]
    labels: list[list[str] | None] = [None] * len(rows)
    scores: list[list[float] | None] = [None] * len(rows)
    if isinstance(predictor, DialoguePredictor):
        truncated = _predict_dialogues(predictor, rows, usable, columns, top_k, labels, scores)
        bar.update(len(usable))
    else:
        for start in range(0, len(usable), 2048):
            numbers = usable[start : start + 2048]
            probabilities, cut = predictor._label_probabilities([rows[number][columns.text] for number in numbers])
            truncated += cut
            for number, found in zip(numbers, predictor.rank(probabilities, top_k), strict=True):
                labels[number] = [item["label"] for item in found]
                scores[number] = [item["score"] for item in found]
            bar.update(len(numbers))
    bar.update(len(rows) - len(usable))
    table = pyarrow.table({LABELS: labels, SCORES: scores}, schema=PREDICTION_SCHEMA)
    with replacing(path) as temporary:
        pyarrow.parquet.write_table(table, temporary)
    return truncated


def _predict_dialogues(
    predictor: DialoguePredictor,
    rows: list[dict],
    usable: list[int],
    columns: _Columns,
    top_k: int | None,
    labels: list,
    scores: list,
) -> int:
    """Fill in labels and scores of the usable rows; the number of utterances that were cut."""
    if columns.nested:
        turns = [rows[number][TURNS] for number in usable]
        utterances = [[turn["utterance"] for turn in dialogue] for dialogue in turns]
        speakers = [[turn.get("speaker") for turn in dialogue] for dialogue in turns]
    else:
        groups = [list(group) for _, group in itertools.groupby(usable, key=lambda i: columns.dialogue_of(rows[i]))]
        utterances = [[rows[number][columns.text] for number in group] for group in groups]
        speakers = [[rows[number].get(columns.speaker) for number in group] for group in groups]
    probabilities, cut = predictor.probabilities(utterances, speakers)
    found = iter(predictor.rank(probabilities, top_k))
    for position, number in enumerate(usable):
        # A row with turns has one label for each of them.
        items = [next(found)[0] for _ in utterances[position]] if columns.nested else next(found)
        labels[number] = [item["label"] for item in items]
        scores[number] = [item["score"] for item in items]
    return int(cut.sum())


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
