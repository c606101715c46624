# SPDX-License-Identifier: Apache-2.0
"""Predicts on several machines: `Predictor` is an actor of Ray Data, which reads, schedules, retries and spills."""

import itertools
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pyarrow
import pyarrow.csv
import pyarrow.json
import torch

from ..data.files import columns_of, default_separator, find_separator, format_of
from ..io.extras import require
from ..io.paths import as_path, check_file, filesystem, refuse_existing, shown
from ..runtime.unread import Counts
from ..tasks.predictor import LabelPredictor
from . import bulk, file_rows


ROWS_PER_BLOCK = 4096
ERROR = "_error"  # the only column of a block with a bad row: Ray does not pass on what an actor raises


def predict_with_ray(
    predictor: LabelPredictor,
    source: str | Path,
    output: str | Path,
    text_column: str | None = None,
    top_k: int | None = None,
    on_bad_rows: Literal["error", "skip"] = "error",
    workers: int | None = None,
    separator: str | None = None,
    escape_formulas: bool = False,
) -> bulk.Written:
    """
    As `bulk.predict_file`, on the Ray cluster that RAY_ADDRESS names, or on one that is started on this machine. The rows come
    back in order and this process writes them. Ray repeats lost work, but if this process ends, the job must start again.

    Args:
        source: a file or URL that every machine of the cluster can read. For dialogues: one row per dialogue, with `turns`.
        workers: copies of the model; default: one for each GPU of the cluster, else for each CPU.

    Raises:
        FileExistsError, FileNotFoundError, ValueError: as `predict_file`; a bad row is found when it is read.
        ModuleNotFoundError: Ray is not installed.
    """
    require("ray", "`--engine ray`", "ray")
    import ray.data

    source, output = as_path(source), as_path(output)
    bulk.check_call(predictor, output, top_k, on_bad_rows)
    check_file(source)
    if format_of(source) == "xlsx":
        raise ValueError(f"Ray reads no Excel files: save {shown(source)} as CSV, or leave out `--engine ray`.")
    refuse_existing(output)
    nested = bulk.file_columns(predictor).grouped
    if nested and (top_k is not None or text_column is not None):
        raise ValueError("Ray reads dialogues as rows with `turns`: leave out `top_k` and `text_column`.")
    columns = file_rows.Columns(text_column or bulk.file_columns(predictor).text, nested=nested)
    columns.separator = find_separator(source, columns.needed, separator)

    if not ray.is_initialized():
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would report the use to its makers
        ray.init(log_to_driver=False, logging_level=logging.ERROR)
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    context = ray.data.DataContext.get_current().copy()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False
    resources = ray.cluster_resources()
    cpus, gpus = resources["CPU"], int(resources.get("GPU", 0))
    workers = workers or gpus or int(cpus)
    with ray.data.DataContext.current(context):
        model = ray.put(predictor)  # kept by this process, so that a restarted actor finds it
        rows = _read(ray.data, source, columns.separator).repartition(target_num_rows_per_block=ROWS_PER_BLOCK)
        blocks = rows.map_batches(
            _Worker,
            fn_constructor_args=([model], columns, top_k, on_bad_rows, shown(source)),
            batch_size=None,
            batch_format="pyarrow",
            concurrency=workers,
            # One CPU is left for reading; otherwise actors would wait for rows for ever.
            num_cpus=min(1.0, max(cpus - 1, 0.5) / workers),
            num_gpus=1 if gpus else 0,
        ).iter_batches(batch_size=None, batch_format="pyarrow")
        counts: bulk.Written = {"rows": 0, "skipped": 0}
        added = bulk.added_columns(predictor, False, False, "", nested)
        unread = _write(iter(blocks), source, output, counts, columns, added, escape_formulas)
    predictor.warn_unread(unread)
    return counts


class _Worker:
    """Ray calls this with a block of rows; each actor makes one."""

    def __init__(self, held: list, columns: file_rows.Columns, top_k: int | None, on_bad_rows: str, source: str):
        import ray

        predictor = ray.get(held[0])
        model = getattr(predictor, "model", None)
        # An exported one, and one behind a service, are no modules.
        if torch.cuda.is_available() and isinstance(model, torch.nn.Module):
            model.to("cuda")
        self.predictor, self.columns, self.top_k = predictor, columns, top_k
        self.on_bad_rows, self.source = on_bad_rows, source

    def __call__(self, block: pyarrow.Table) -> pyarrow.Table:
        names = [name for name in block.column_names if name in (*self.columns.needed, *file_rows.PREDICTED)]
        rows = block.select(names).to_pylist()
        try:
            for row in rows:
                file_rows.check_columns(row, self.columns, self.source, self.source)
                if self.on_bad_rows == "error" and not self.columns.usable(row):
                    raise file_rows.bad_row(row, self.columns, self.source)
        except ValueError as error:
            return pyarrow.table({ERROR: [str(error)]})
        predicted = bulk.predict_rows(self.predictor, rows, self.columns, self.top_k)
        for name in predicted.column_names:
            block = block.append_column(predicted.schema.field(name), predicted[name])
        return block


def _read(data: Any, source: str | Path, separator: str | None) -> Any:
    """A dataset of the rows of a file; the values of CSV stay strings."""
    fs, inner = filesystem(source)
    kind = format_of(source)
    if kind == "parquet":
        return data.read_parquet(inner, filesystem=fs, file_extensions=None)
    if kind == "jsonl":
        # With `lines` Ray takes pandas' reader, which turns "1" into 1. Without a schema Arrow's would turn some strings into times.
        options = pyarrow.json.ParseOptions(explicit_schema=_strings_of(source))
        return data.read_json(inner, filesystem=fs, file_extensions=None, parse_options=options)
    strings = dict.fromkeys(columns_of(source, separator), pyarrow.string())
    return data.read_csv(
        inner,
        filesystem=fs,
        parse_options=pyarrow.csv.ParseOptions(
            delimiter=separator or default_separator(source), newlines_in_values=True
        ),
        convert_options=pyarrow.csv.ConvertOptions(column_types=strings, strings_can_be_null=False),
    )


def _strings_of(source: str | Path, rows: int = 1000) -> pyarrow.Schema:
    """The columns of a JSONL file that hold strings in its first rows."""
    first = [row for _, row in itertools.islice(file_rows.any_rows(source), rows)]
    types: dict[str, set[type]] = {}
    for row in first:
        for name, value in row.items():
            if value is not None:
                types.setdefault(name, set()).add(type(value))
    return pyarrow.schema([(name, pyarrow.string()) for name, found in types.items() if found == {str}])


def _checked(block: pyarrow.Table) -> pyarrow.Table:
    """The block; ValueError if it reports a bad row."""
    if ERROR in block.column_names:
        raise ValueError(block[ERROR][0].as_py())
    return block


def _write(
    blocks: Iterator[pyarrow.Table],
    source: str | Path,
    output: str | Path,
    counts: bulk.Written,
    columns: file_rows.Columns,
    added: file_rows.Added,
    escaped: bool,
) -> Counts:
    """Write the rows and count them; see `file_rows.unread_counts`."""
    blocks = map(_checked, blocks)
    first = next(blocks, None)
    own = pyarrow.schema([]) if first is None else first.drop_columns(added.names).schema
    layout = file_rows.Layout(own.names or columns_of(source, columns.separator), own, added, escaped=escaped)
    if file_rows.same_ending(source, output):
        layout.separator = columns.separator
    found = []

    def rows() -> Iterator[dict]:
        for block in itertools.chain([] if first is None else [first], blocks):
            found.append(file_rows.unread_counts(block, added.unlike))
            for row in block.to_pylist():
                counts["rows"] += file_rows.finds(row) if added.places else 1
                counts["skipped"] += row[file_rows.LABELS] is None
                yield row

    with file_rows.writing(output) as temporary:
        file_rows.write_rows(rows(), temporary, layout)
    return Counts.added(found)
