# SPDX-License-Identifier: Apache-2.0
"""Files on this machine and, through fsspec, elsewhere: s3://, gs://, hf://, https://, memory://."""

import gzip
import io
import os
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit


if TYPE_CHECKING:
    import fsspec

MOST_UNPACKED, MOST_RATIO = 100 * 2**20, 100  # see `check_unpacked`


def is_remote(path: str | Path) -> bool:
    """Whether a path is a URL, which fsspec opens."""
    return isinstance(path, str) and "://" in path


def as_path(path: str | Path) -> str | Path:
    """A local path as `Path`; a URL stays a string, which `Path` would spoil."""
    return path if is_remote(path) else Path(path)


def shown(path: str | Path) -> str:
    """A path for messages; a URL is shown without user, password and query, which may hold secrets."""
    if not is_remote(path):
        return str(path)
    parts = urlsplit(str(path))
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def name_of(path: str | Path) -> str:
    """The last part of a path: `in.csv`."""
    if not is_remote(path):
        return Path(path).name
    return PurePosixPath(shown(path).partition("://")[2]).name


def ending(path: str | Path) -> str:
    """The ending in lower case: `.csv`, or `.csv.gz` for a compressed file."""
    name = PurePosixPath(name_of(path).lower())
    return f"{PurePosixPath(name.stem).suffix}.gz" if name.suffix == ".gz" else name.suffix


def filesystem(path: str | Path) -> "tuple[fsspec.AbstractFileSystem, str]":
    """The file system of a path, and the path within it. ModuleNotFoundError if the package for the protocol is not installed."""
    from fsspec.core import url_to_fs
    from fsspec.implementations.local import LocalFileSystem

    if not is_remote(path):  # `url_to_fs` would read "~" and "::" in its name, which `Path` does not
        return LocalFileSystem(), os.path.abspath(path)
    try:
        return url_to_fs(str(path))
    except ImportError as error:
        raise ModuleNotFoundError(f"{shown(path)} needs another package: {error}") from error


def check_file(path: str | Path) -> None:
    """FileNotFoundError if there is no such file."""
    files, inner = filesystem(path)
    if not files.isfile(inner):
        raise FileNotFoundError(f"no such file: {shown(path)}")


def refuse_existing(path: str | Path | None, remedy: str = "remove it") -> None:
    """FileExistsError if the output exists: nothing is overwritten, and it may be the input. None: no output."""
    if path is None:
        return
    files, inner = filesystem(path)
    if files.lexists(inner):
        raise FileExistsError(f"the output {shown(path)} exists: choose another name or {remedy}.")


def check_unpacked(unpacked: int, packed: int) -> None:
    """ValueError if a compressed file of `packed` bytes unpacks to so many that it was made to fill a memory."""
    if unpacked > max(MOST_UNPACKED, MOST_RATIO * packed):
        raise ValueError(
            f"it unpacks to more than {MOST_UNPACKED >> 20} MiB and more than {MOST_RATIO} times its size"
        )


class _Gzip(gzip.GzipFile):
    """A gzip file that is read within `check_unpacked`."""

    def __init__(self, path: str | Path, packed: IO):
        super().__init__(fileobj=packed, mode="rb")
        self.path, self.packed = path, packed
        self.myfileobj = packed  # type: ignore[assignment]  # which is closed together with this one

    def read1(self, size: int = -1) -> bytes:  # text is read by it
        content = super().read1(size)
        try:
            check_unpacked(self.tell(), self.packed.tell())
        except ValueError as error:
            raise ValueError(f"{shown(self.path)} is not read: {error}. If you trust it, unpack it first.") from error
        return content


def open_file(path: str | Path, mode: str = "rb", **options: Any) -> IO:
    """As `open`, for a path or URL; a file whose name ends in `.gz` holds text, which is read and written with gzip."""
    compressed = ending(path).endswith(".gz")
    if compressed and mode != "r":
        return gzip.open(path, f"{mode}t", **options)  # type: ignore[return-value]
    opened: Any = Path(path).open
    if is_remote(path):
        files, inner = filesystem(path)
        opened = partial(files.open, inner)
    if compressed:
        return io.TextIOWrapper(_Gzip(path, opened("rb")), **options)
    return opened(mode, **options)
