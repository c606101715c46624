# SPDX-License-Identifier: Apache-2.0
"""Writes files so that none is ever half-written: under a temporary name in the same folder, then renamed."""

import csv
import hashlib
import json
import math
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from .paths import ending


LOCK = ".lock"  # while a process works in a folder


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; it takes the place of `path` when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # The ending is kept: libraries choose the format by it.
    handle, name = tempfile.mkstemp(prefix=".partial-", suffix=ending(path), dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def filling(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder; its files move into `folder` when the block ends without an error."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=".partial-", dir=folder))
    try:
        yield temporary
        _open_to_others(temporary)
        for path in sorted(temporary.iterdir()):
            os.replace(path, folder / path.name)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _open_to_others(folder: Path) -> None:
    """Give new files the usual rights: safetensors lets only the owner read its files."""
    for path in folder.rglob("*.safetensors"):
        path.chmod(0o666 & ~_umask())


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sampled_sha256_of(path: Path) -> str:
    """The SHA-256 of the beginning of a file, of its end and of pieces between them. A small file is read whole."""
    digest, length = hashlib.sha256(), path.stat().st_size
    pieces, size = 64, 4096
    with path.open("rb") as file:
        for piece in range(pieces):
            if length > pieces * size:
                file.seek((length - size) * piece // (pieces - 1))
            digest.update(file.read(size))
    return digest.hexdigest()


def is_taken(folder: Path) -> bool:
    """Whether `folder` cannot be a new folder: it holds something, is a file, or is a link to what does not exist."""
    return os.path.lexists(folder) and (not folder.is_dir() or any(path.name != LOCK for path in folder.iterdir()))


def refuse_taken(folder: Path) -> None:
    """FileExistsError unless `folder` is new or empty."""
    if is_taken(folder):
        raise FileExistsError(f"{folder} exists and is not an empty folder: give another one.")


@contextmanager
def creating(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder; it becomes `folder`, new or empty so far, when the block ends without an error."""
    # What exists may be the working directory, a link or a mounted disk: no other folder can take its place.
    if folder.exists():
        with filling(folder) as temporary:
            yield temporary
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=".partial-", dir=folder.parent))
    try:
        yield temporary
        _open_to_others(temporary)
        temporary.chmod(0o777 & ~_umask())
        os.replace(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def locking(folder: Path, taken: str) -> Iterator[None]:
    """Hold the lock of a folder. FileExistsError with the message `taken`: another process has it."""
    from filelock import FileLock, Timeout  # an import that most commands need not wait for

    lock = FileLock(folder / LOCK, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise FileExistsError(taken) from error
    try:
        yield
    finally:
        with suppress(OSError):  # Windows removes no open file, but there `release` does
            (folder / LOCK).unlink()
        lock.release()


def write_text(path: Path, text: str) -> None:
    """Write a text file, never half of it; line ends stay as they are."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="")


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Iterable[Any]], separator: str = ",") -> None:
    """Write a CSV for spreadsheets; the byte order mark tells them that it is UTF-8, as emojis need."""
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file, delimiter=separator)  # its "\r\n" makes it quote a lone carriage return, too
        writer.writerow(columns)
        writer.writerows(rows)


def as_text(cell: str) -> str:
    """The cell, written so that no spreadsheet takes it for a formula."""
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file, never half of it; NaN and infinities become null."""
    write_text(path, json.dumps(finite_or_none(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_object(path: Path, remedy: str) -> dict[str, Any]:
    """The object in a JSON file; ValueError, which ends in the remedy, if there is none."""
    try:
        return {**json.loads(path.read_text(encoding="utf-8"))}
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} must hold a JSON object ({error}): {remedy}.") from error


def finite_or_none(value: Any) -> Any:
    """The value with None for NaN and infinities, at any depth: JSON has neither."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: finite_or_none(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite_or_none(item) for item in value]
    return value


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
