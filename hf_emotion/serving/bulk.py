# SPDX-License-Identifier: Apache-2.0
"""Predicts files of any length, in bounded memory and with many processes; an interrupted job goes on where it stopped."""

import codecs
import itertools
import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np
import pyarrow
import pyarrow.parquet
import torch
import torch.distributed

from ..data.files import FORMATS, MalformedRow, find_separator
from ..io.files import locking, sampled_sha256_of
from ..io.names import listed
from ..io.paths import as_path, ending, filesystem, is_remote, name_of, refuse_existing, shown
from ..io.progress import progress_bar
from ..runtime.unread import Counts
from ..tasks.base import FileColumns
from ..tasks.predicted_columns import UNLIKE, UNREAD, Added
from ..tasks.predictor import AnyPredictor, LabelPredictor
from .file_rows import (
    TURNS,
    Columns,
    Layout,
    check_labels,
    check_rows,
    finds,
    split_rows,
    unread_counts,
    write_rows,
    writing,
)


if TYPE_CHECKING:
    from accelerate import PartialState

logger = logging.getLogger(__name__)

# what a caller may change at a predictor, and answers depend on
RULES = ("windows", "thresholds", "abstention", "prediction_sets")
# what a server says of a file's version: for http:// fsspec's key of a file never changes
VERSIONS = ("ETag", "Content-MD5", "Digest", "Last-Modified")
ROWS_PER_PART = 4096  # the most rows that a process loses when it is interrupted


class Written(TypedDict):
    """Rows written (for terms one for each find), and how many of them have no prediction."""

    rows: int
    skipped: int


def predict_file(
    predictor: LabelPredictor,
    source: str | Path,
    output: str | Path,
    text_column: str | None = None,
    top_k: int | None = None,
    on_bad_rows: Literal["error", "skip"] = "error",
    rows_per_part: int = ROWS_PER_PART,
    progress: bool = True,
    dialogue_column: str = "dialogue",
    speaker_column: str = "speaker",
    separator: str | None = None,
    state: "PartialState | None" = None,
    escape_formulas: bool = False,
    layout: Literal["joined", "wide"] = "joined",
    all_scores: bool = False,
    prefix: str = "",
    encoding: str | None = None,
    overwrite: bool = False,
    as_texts: bool = False,
) -> Written:
    """
    Predict every row of a CSV, TSV, JSONL, Parquet or Excel file; the output has its columns, `predicted_labels` and
    `predicted_scores` (lists; in CSV joined by "|"), `truncated`, `unknown` and `predicted_language`; see `hf_emotion.runtime.unread`.
    For terms it has a row for each term, with `source_row` (the text's row in the source, from 1), `predicted_terms`, `predicted_starts` and
    `predicted_ends`, too.

    A file of dialogues has one row per utterance, and the utterances of a dialogue follow one another; or, in JSONL and
    Parquet, one row per dialogue with the column `turns`, a list of {"speaker", "utterance"}: each new column then has a list.

    Predictions are kept in parts in the folder `OUTPUT.parts` until the output is written. After an interruption the same
    call predicts only the missing parts, with any number of processes.

    Args:
        predictor: the model.
        source, output: files, or URLs that fsspec opens; their endings give the formats.
        text_column: the column with the texts or utterances; default: "text" ("utterance" for dialogues).
        top_k: the k most probable labels instead of those above their thresholds.
        on_bad_rows: "error": a malformed row, or one without a valid text or dialogue, ends the job before anything is predicted. "skip": it
            stays in the output without a prediction, and is counted in the log.
        dialogue_column, speaker_column: for dialogues, the column that tells them apart, and the column of the speakers, if there is one.
        separator: that of a CSV source; default: detected from the header. An output with the source's ending gets the same.
        escape_formulas: in CSV write an apostrophe before each cell that a spreadsheet would take for a formula (it begins with = + - @).
        layout: "joined": cells with the chosen labels and their scores. "wide": for each label (for each aspect) the columns
            `probability_LABEL` and `decision_LABEL` (true or false; the aspect's label), which any table program counts and filters;
            for each name of a regression the column `value_NAME`.
        all_scores: add the column `all_scores`, an object with the probability of every label; wide files have them anyway.
        prefix: stands before the names of the new columns.
        encoding: encoding of the source, such as "cp1252"; default: UTF-8. The output is UTF-8.
        overwrite: replace an `output` that exists, once the new one is whole.
        as_texts: into Parquet write the columns of a source that is not Parquet as texts: else columns of mixed types are an error.
        state: Accelerate's state, if several processes make the same call: they share the parts, in the same folder.

    Raises:
        FileExistsError: `output` exists or is a link to what does not, without `overwrite`, or its folder of parts belongs to another job.
        FileNotFoundError: no such source.
        ModuleNotFoundError: the package for a URL's protocol is not installed.
        ValueError: malformed rows, no such column, a column with the name of a prediction, an interrupted dialogue.
    """
    source, output = as_path(source), as_path(output)
    check_call(predictor, output, top_k, on_bad_rows, layout == "wide", encoding)
    parts = _Parts(output)
    of_task = file_columns(predictor)
    columns = Columns(text_column or of_task.text, encoding=encoding)
    form = Layout(escaped=escape_formulas, as_texts=as_texts)

    def start() -> _Plan:
        """Plan the job; called once, by the first process."""
        if parts.fs.isdir(filesystem(output)[1]):
            raise IsADirectoryError(f"the output {shown(output)} is a folder: name a file.")
        exists = parts.fs.lexists(filesystem(output)[1])
        if exists and not overwrite and not parts.fs.exists(parts.manifest):
            refuse_existing(output, "--overwrite")
        if of_task.grouped:
            columns.dialogue, columns.speaker = dialogue_column, speaker_column
        columns.separator = find_separator(source, columns.needed, separator, encoding)
        if of_task.grouped:
            rows = columns.rows(source)
            first = next((row for _, row in rows if not isinstance(row, MalformedRow)), {})
            if speaker_column not in {"speaker", *first}:
                raise ValueError(f"{shown(source)}: no column {speaker_column!r}, only {listed(first)}: name yours.")
            columns.nested = TURNS in first and columns.text not in first
            if columns.nested and top_k is not None:
                raise ValueError("`top_k` needs one row for each utterance: rows with `turns` have one label a turn.")
        form.added = added_columns(predictor, layout == "wide", all_scores, prefix, columns.nested)
        counts = check_rows(source, output, columns, on_bad_rows, form)
        job = {
            "source": _identity(source),
            "model": predictor.fingerprint(),
            "labels": predictor.labels,
            "columns": asdict(columns),
            "predicted": form.added.names,
            "top_k": top_k,
            "on_bad_rows": on_bad_rows,
            "rows_per_part": rows_per_part,
            "max_length": predictor.max_length,
            "rules": [repr(np.asarray(getattr(predictor, name, None)).tolist()) for name in RULES],
        }
        finished = parts.open(job)
        done = sum(finished.values())
        # The last run may have ended between writing the output and removing the parts.
        # If the joined rows are still next to the parts, the output is somebody else's.
        complete = (
            exists
            and not overwrite
            and done == counts["rows"]
            and not parts.fs.exists(f"{parts.root}/joined{ending(output)}")
        )
        if exists and not complete and not overwrite:
            refuse_existing(output, "--overwrite")
        if done and not complete:
            logger.warning("resuming: %d of %d rows are predicted already", done, counts["rows"])
        if counts["skipped"]:
            logger.warning(
                "%d of %d rows are malformed or have no valid text and stay without a prediction; the first: line %d",
                *(counts["skipped"], counts["rows"], counts["first_skipped"]),
            )
        return _Plan(counts["rows"], counts["skipped"], set(finished), done, columns, form.added, complete)

    # Whatever ends this call frees the folder: a notebook keeps the last error, and with it all that its frames hold.
    with parts.locked:
        group = None
        if state is not None and state.num_processes > 1:
            state.wait_for_everyone()
            # A process may wait for days for another one. If one dies, its connection closes, which ends the others.
            group = torch.distributed.new_group(backend="gloo", timeout=timedelta(days=30))
        plan = _by_first(group, start)
        processes, mine = (1, 0) if state is None else (state.num_processes, state.process_index)
        if not plan.complete:
            missing = itertools.count()
            rows = (row for _, row in plan.columns.rows(source))
            remaining = -(-(plan.rows - plan.done) // processes)
            with progress_bar(progress and mine == 0, remaining, "rows") as bar:
                for number, part in enumerate(split_rows(rows, plan.columns, rows_per_part)):
                    if number in plan.finished or next(missing) % processes != mine:
                        continue
                    table = predict_rows(predictor, part, plan.columns, top_k, bar.update, plan.added)
                    with writing(f"{parts.folder}/{number:06d}.parquet") as temporary:
                        pyarrow.parquet.write_table(table, temporary)
        if group is not None:
            torch.distributed.barrier(group)

        def finish() -> int:
            predictor.warn_unread(parts.unread_counts(plan.added.unlike))
            if not plan.complete:
                parts.check_source(source)
                parts.join(source, output, plan.columns, form, overwrite)
            written = sum(map(finds, parts.predictions())) if of_task.places else plan.rows
            parts.remove()
            return written

        return {"rows": _by_first(group, finish), "skipped": plan.skipped}


@dataclass(frozen=True)
class _Plan:
    """What the first process tells the others; `complete`: the last run ended between writing the output and removing the parts."""

    rows: int
    skipped: int
    finished: set[int]
    done: int
    columns: Columns
    added: Added
    complete: bool


def file_columns(predictor: AnyPredictor) -> FileColumns:
    """How a predictor's task reads files; ValueError if it reads none here."""
    columns = predictor.task.file_columns
    if columns is None:
        raise ValueError(f"a model for {predictor.task.name} predicts no labels for a file: use its own command.")
    return columns


def check_call(
    predictor: LabelPredictor,
    output: str | Path,
    top_k: int | None,
    on_bad_rows: str,
    wide: bool = False,
    encoding: str | None = None,
) -> None:
    """ValueError for arguments that no job takes."""
    if ending(output) not in FORMATS:
        raise ValueError(f"`output` must end in one of {sorted(FORMATS)}, got {name_of(output)!r}.")
    if on_bad_rows not in ("error", "skip"):
        raise ValueError(f"`on_bad_rows` must be 'error' or 'skip', got {on_bad_rows!r}.")
    check_labels(predictor, output, wide)
    predictor.check_top_k(top_k)
    try:
        codecs.lookup(encoding or "utf-8")
    except LookupError as error:
        message = f"`encoding` {encoding!r} is unknown: utf-8, cp1252 and latin-1 are the usual ones."
        raise ValueError(message) from error


def added_columns(predictor: LabelPredictor, wide: bool, all_scores: bool, prefix: str, nested: bool) -> Added:
    """The columns that this predictor adds; ValueError where it cannot add them."""
    places = file_columns(predictor).places
    if not wide and not all_scores:
        return Added(prefix, nested=nested, places=places, unlike=predictor.tells_unlike)
    if nested or predictor.wide_labels is None:
        why = "a service does not give them"
        if nested or places:
            why = "each term has a row" if places else "a dialogue in one row has no columns for its turns"
        raise ValueError(f"wide columns and all scores need the model here and one text in each row ({why}).")
    names = tuple(predictor.wide_labels)
    if not wide:
        return Added(prefix, scores=names, unlike=predictor.tells_unlike)
    values = getattr(predictor, "regression", False)
    decision = None if values else "bool" if names == tuple(predictor.labels) else "string"
    return Added(prefix, wide=names, decision=decision, unlike=predictor.tells_unlike)


def _by_first(group: "torch.distributed.ProcessGroup | None", action: Callable[[], Any]) -> Any:
    """Run `action` in the first process and return its result in all; if it fails, all fail."""
    if group is None:
        return action()
    sent: list[Any] = [None, None]
    failure = None
    if torch.distributed.get_rank() == 0:
        try:
            sent[0] = action()
        except Exception as error:
            failure, sent[1] = error, str(error) or type(error).__name__
    torch.distributed.broadcast_object_list(sent, group=group)
    if sent[1] is not None:
        raise failure or RuntimeError(f"the first process failed: {sent[1]}")
    return sent[0]


class _Parts:
    """The folder with the predictions of a job, `OUTPUT.parts`: NUMBER.parquet, and job.json, which describes the job."""

    def __init__(self, output: str | Path):
        self.folder = f"{output}.parts"
        self.fs, self.root = filesystem(self.folder)
        self.manifest = f"{self.root}/job.json"
        self.locked = ExitStack()

    def open(self, job: dict) -> dict[int, int]:
        """The number of rows in every finished part of this job; empty for a new job."""
        self.fs.invalidate_cache()
        if not self.fs.exists(self.manifest):
            others = self.fs.ls(self.root, detail=False) if self.fs.exists(self.root) else []
            if not all("/.partial-" in path for path in others):
                raise FileExistsError(f"{shown(self.folder)} holds other files than parts of a job: move them away.")
            with writing(f"{self.folder}/job.json") as temporary:
                temporary.write_text(json.dumps(job, indent=2), encoding="utf-8")
            self._lock()
            return {}
        if json.loads(self.fs.cat_file(self.manifest)) != job:
            raise FileExistsError(f"{shown(self.folder)} holds parts of another job: finish it or remove the folder.")
        self._lock()
        finished = {}
        for number, path in self._paths().items():
            try:
                with self.fs.open(path) as file:
                    finished[number] = pyarrow.parquet.read_metadata(file).num_rows
            except pyarrow.ArrowInvalid:
                logger.warning("%s is damaged and is predicted again", path)
        return finished

    def _lock(self) -> None:
        """Keep other jobs out until this call or this process ends: it may outlive its launcher."""
        if is_remote(self.folder):
            return
        taken = f"another process works on {self.folder}: wait until it has finished, or end it."
        self.locked.enter_context(locking(Path(self.folder), taken))

    def _paths(self) -> dict[int, str]:
        self.fs.invalidate_cache()
        names = {path.rpartition("/")[2].removesuffix(".parquet"): path for path in self.fs.ls(self.root, False)}
        return {int(name): names[name] for name in sorted(filter(str.isdecimal, names), key=int)}

    def predictions(self) -> Iterator[dict[str, Any]]:
        for path in self._paths().values():
            with self.fs.open(path) as file:
                columns = pyarrow.parquet.read_table(file).to_pydict()
            for values in zip(*columns.values(), strict=True):
                yield dict(zip(columns, values, strict=True))

    def unread_counts(self, unlike: bool) -> Counts:
        """The counts of all parts, see the function `unread_counts`."""
        counts = []
        for path in self._paths().values():
            with self.fs.open(path) as file:
                table = pyarrow.parquet.read_table(file, columns=[*UNREAD, *[UNLIKE] * unlike])
                counts.append(unread_counts(table, unlike))
        return Counts.added(counts)

    def check_source(self, source: str | Path) -> None:
        """ValueError if the source is no longer the file that the job began with: its rows would get the predictions of others."""
        if json.loads(self.fs.cat_file(self.manifest))["source"] != _identity(source):
            raise ValueError(
                f"{shown(source)} changed while it was predicted: remove {shown(self.folder)}, start again."
            )

    def join(
        self, source: str | Path, output: str | Path, columns: Columns, layout: Layout, overwrite: bool = False
    ) -> None:
        """Join the parts and write the output; FileExistsError if it must not be replaced and another program has written there."""

        def merge(target: Path) -> None:
            try:
                _merge(source, columns, self, target, layout)
            finally:  # it may have been replaced since the first of its rows was read
                self.check_source(source)

        if is_remote(output):
            with writing(output) as temporary:
                merge(temporary)
            return
        # Written in the folder of parts, so that a killed process leaves nothing elsewhere.
        temporary = Path(self.folder) / f"joined{ending(output)}"
        merge(temporary)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())  # on disk before the parts are removed
        if os.path.lexists(output) and not overwrite:
            raise FileExistsError(f"{output} appeared meanwhile: move it away and run the same command again.")
        os.replace(temporary, output)

    def remove(self) -> None:
        self.locked.close()
        self.fs.rm(self.root, recursive=True)


def _identity(source: str | Path) -> dict[str, Any]:
    """What identifies a source; it changes with the file, unless a large one keeps size and time and changes between the pieces."""
    if is_remote(source):
        fs, inner = filesystem(source)
        found = fs.info(inner)
        versions = {name: str(found[name]) for name in VERSIONS if name in found}
        return {"name": name_of(source), "bytes": found.get("size"), "modified": fs.ukey(inner), **versions}
    path = Path(source)
    status, pieces = path.stat(), sampled_sha256_of(path)
    return {"name": name_of(source), "bytes": status.st_size, "modified": status.st_mtime_ns, "pieces": pieces}


def predict_rows(
    predictor: LabelPredictor,
    rows: list[dict],
    columns: Columns,
    top_k: int | None,
    advance: Callable[[int], Any] = lambda rows: None,
    added: Added | None = None,
) -> pyarrow.Table:
    """The columns that are `added` to some rows (default: joined cells), null for rows without a valid text."""
    grouped = file_columns(predictor).grouped
    added = added or added_columns(predictor, False, False, "", columns.nested)
    names = added.schema.names
    all_scores = added.wide is not None or added.scores is not None
    usable = [number for number, row in enumerate(rows) if columns.usable(row)]
    values: list[tuple] = [(None,) * len(names)] * len(rows)
    for numbers in [usable] if grouped else [usable[start : start + 1024] for start in range(0, len(usable), 1024)]:
        items: list = [rows[number].get(columns.text) for number in numbers]
        if columns.nested:
            items = [[(turn.get("speaker"), turn["utterance"]) for turn in rows[number][TURNS]] for number in numbers]
        elif grouped:
            dialogues = itertools.groupby(numbers, key=lambda number: columns.dialogue_of(rows[number]))
            items = [[(rows[i].get(columns.speaker), rows[i][columns.text]) for i in group] for _, group in dialogues]
        scores: Iterator[list] = itertools.repeat([])
        decisions = scores
        if all_scores:
            answers, unread, found = predictor.scored_items(items, top_k)
            scores, decisions = (iter(values.tolist()) for values in found)
        else:
            answers, unread = predictor.of_items(items, top_k)
        each = zip(answers, *(column.tolist() for column in unread[: len(UNREAD) + added.unlike]), strict=True)
        for position, number in enumerate(numbers):
            if columns.nested:  # one label for each turn
                turns, *more = map(list, zip(*itertools.islice(each, len(items[position])), strict=True))
                labels = [label for (label,) in turns]
            else:
                labels, *more = next(each)
            own, decided = next(scores), next(decisions)
            if added.wide is not None:
                values[number] = (*own, *(decided if added.decision else ()), *more)
                continue
            joined = [one["label"] for one in labels], [one["score"] for one in labels]
            every = () if added.scores is None else (dict(zip(added.scores, own, strict=True)),)
            places = [[one[name] for one in labels] for name in ("term", "start", "end") if added.places]
            values[number] = (*joined, *every, *more, *places)
        advance(len(numbers))
    advance(len(rows) - len(usable))
    by_column = zip(*values, strict=True) if values else [[]] * len(names)
    return pyarrow.table(dict(zip(names, map(list, by_column), strict=True)), schema=added.schema)


def _merge(source: str | Path, columns: Columns, parts: _Parts, target: Path, layout: Layout) -> None:
    added = (dict(zip(layout.added.names, one.values(), strict=True)) for one in parts.predictions())
    write_rows(({**row, **new} for (_, row), new in zip(columns.rows(source), added, strict=True)), target, layout)
