# SPDX-License-Identifier: Apache-2.0
"""
Writes numbers in documents from JSON records. In a page of the book a comment after the number names its source:

    macro-F1 0.538<!--= benchmarks/reproduction/goemotions/laa_ce-minilm-e18770-seed-42.json metrics.validation.fixed.macro_f1 -->

A comment with two equals signs says once what the sources after it have in common; a mark that names no path of a record is put in place of
its `{}`:

    <!--== benchmarks/brighter.json brighter_laa.languages.{} .2f -->
    | Hindi | 0.76<!--=hin.common--> | 0.77<!--=hin.own--> |

REPRODUCTION.md is read as a file, so it has no comments: a YAML file names the words around each of its numbers, see `_bound`.

`python -m benchmarks.study figures FILE...` writes the numbers anew.
"""

import glob
import itertools
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from hf_emotion.io.files import write_text
from hf_emotion.metrics.significance import mean_std, over_seeds


# Code blocks with a language and inline code only show the mark as an example.
_CODE = r"^ *(?P<fence>```+|~~~+)[a-z].*?^ *(?P=fence) *$|(?P<ticks>`+)(?!`)[^\n]*?[^`\n](?P=ticks)(?!`)"
_NUMBER = r"(?:(?<!\w)[-+−])?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:e[-+]?\d+)?%?"
_FIGURE = re.compile(
    rf"{_CODE}|(?P<number>{_NUMBER}(?: ± {_NUMBER})?)?(?P<mark><!--=(?P<source>.*?)-->)", re.MULTILINE | re.DOTALL
)
_SOURCE = re.compile(
    r"\s*(?P<record>\S+)\s+(?P<path>.*?)(?:\s+(?P<form>(?:mean)?[+,]*(?:\.\d+)?[defg%]|mean))?\s*", re.DOTALL
)


def renew_figures(documents: Sequence[str | Path], check: bool = False) -> tuple[int, list[str]]:
    """
    Write the numbers of documents anew from their records. Paths of records count from the current folder.

    A source is `RECORD PATH [FORMAT]`. RECORD is a JSON file; with `*` it names several, whose values make a list.
    PATH is a list of keys, joined by points; in a list the key is an index. In `benchmarks/results.json` the key of a row is
    its `work`. FORMAT is a Python format (default: `.3f`, and `,d` for whole numbers), or `mean`: mean ± standard deviation
    (n-1) of a list; `mean.1f` has one digit.

    `documents` are Markdown files with marks `<!--= SOURCE -->`, and YAML files (see `_bound`). With `check` nothing is changed.

    Returns the number of figures, and a line for each that differs. Raises ValueError with all faults (a mark that does not follow a
    number, words that are not there, an unknown record or key, a value that does not fit its format); then no document is changed.
    """
    records: dict[str, Any] = {}
    written, differing, wrong = {}, [], []
    count = 0
    for given in map(Path, documents):
        document, places, faults = _bound(given) if given.suffix == ".yaml" else _marked(given)
        wrong += faults
        text = document.read_text(encoding="utf-8")
        pieces, end = [], 0
        for place in places:
            count += 1
            try:
                number = _figure(place.source, records)
            except ValueError as error:
                wrong.append(f"{_line(document, text, place.start)}: {error}")
                continue
            shown = text[place.start : place.end]
            if number != shown:
                where = _line(document, text, place.start)
                differing.append(f"{where}: {shown} should be {number} ({' '.join(place.source.split())})")
            pieces += [text[end : place.start], number]
            end = place.end
        written[document] = "".join([*pieces, text[end:]])
    if wrong:
        raise ValueError("\n".join(wrong))
    if not check:
        for document, text in written.items():
            if text != document.read_text(encoding="utf-8"):
                write_text(document, text)
    return count, differing


class _Place(NamedTuple):
    start: int
    end: int
    source: str


def _line(document: Path, text: str, position: int) -> str:
    return f"{document}:{text.count(chr(10), 0, position) + 1}"


def _marked(document: Path) -> tuple[Path, list[_Place], list[str]]:
    """The numbers of a page with marks, and faults."""
    text = document.read_text(encoding="utf-8")
    places, faults, common = [], [], "{}"
    for match in _FIGURE.finditer(text):
        if match["mark"] is None:
            continue
        if match["source"].startswith("="):
            common = match["source"][1:]
        elif match["number"] is None:
            where = _line(document, text, match.start("mark"))
            faults.append(f"{where}: `{match['mark']}` must follow a number, without a space between them.")
        else:
            named = re.match(r"\s*\S+/\S+\.json\s", match["source"])
            source = match["source"] if named else common.replace("{}", match["source"].strip())
            places.append(_Place(*match.span("number"), source))
    return document, places, faults


def _bound(file: Path) -> tuple[Path, list[_Place], list[str]]:
    """
    The document of a YAML file, its numbers, and faults. The file has `document`; `figures`, words with `{}` for each number -> the
    sources; and `constants`, words whose numbers no record has. Each decimal number and percentage of the document must be among them.
    """
    said = yaml.safe_load(file.read_text(encoding="utf-8"))
    document = Path(said["document"])
    text = document.read_text(encoding="utf-8")
    places, faults, known = [], [], []
    for words, sources in said["figures"].items():
        found = list(re.finditer(_words(words), text))
        if len(found) != 1 or len(found[0].groups()) != len(sources):
            faults.append(
                f"{file}: `{words}` stands in {document} {len(found)} times, instead of once, or has not {len(sources)} {{}}."
            )
            continue
        known.append(found[0].span())
        places += [_Place(*found[0].span(i + 1), source) for i, source in enumerate(sources)]
    for words in said["constants"]:
        spans = [match.span() for match in re.finditer(_words(words), text)]
        if not spans:
            faults.append(f"{file}: `{words}` does not stand in {document}.")
        known += spans
    for match in re.finditer(rf"{_CODE}|\]\([^)]*\)|(?P<decimal>\d+\.\d+|\d+ ?%)", text, re.MULTILINE | re.DOTALL):
        if match["decimal"] and not any(start <= match.start() and match.end() <= end for start, end in known):
            faults.append(
                f"{_line(document, text, match.start())}: {file} does not say where {match['decimal']} comes from."
            )
    places.sort()
    twice = [first for first, second in itertools.pairwise(places) if second.start < first.end]
    faults += [f"{_line(document, text, place.start)}: {file} names two sources for it." for place in twice]
    return document, places, faults


def _words(words: str) -> str:
    """Words of a document as an expression: any white space between them, and a group for each `{}`."""
    parts = (r"\s+".join(map(re.escape, re.split(r"\s+", part))) for part in words.split("{}"))
    return rf"(?<![\w.]){f'({_NUMBER}(?: ± {_NUMBER})?)'.join(parts)}"


def _figure(source: str, records: dict[str, Any]) -> str:
    match = _SOURCE.fullmatch(source)
    if match is None or not match["path"]:
        raise ValueError(f"a figure is written `<!--= RECORD PATH [FORMAT] -->`, got `<!--={source}-->`.")
    record, path, form = match["record"], " ".join(match["path"].split()), match["form"]
    files = sorted(glob.glob(record)) if "*" in record else [record]
    if not files:
        raise ValueError(f"no record {record}: no file has such a name.")
    found = [_look_up(_read(file, records), path, file) for file in files]
    value = found if "*" in record else found[0]
    if form is not None and form.startswith("mean"):
        digits = re.fullmatch(r"mean(?:\.(\d+)f)?", form)
        if digits is None:
            raise ValueError(f"the format of a mean is `mean` or `mean.2f`, got `{form}`.")
        if not isinstance(value, list) or not value or not all(map(_is_number, value)):
            raise ValueError(f"`{form}` needs a list of numbers, and {path} in {record} is {_shown(value)}.")
        return mean_std(over_seeds(value), int(digits[1] or 3))
    if not _is_number(value):
        hint = ": use the format `mean`" if isinstance(value, list) else ""
        raise ValueError(f"{path} in {record} is {_shown(value)}, not a number{hint}.")
    try:
        return format(value, form or (",d" if isinstance(value, int) else ".3f"))
    except ValueError as error:
        raise ValueError(f"the format `{form}` does not fit {value} ({path} in {record}): {error}.") from error


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 60 else text[:57] + "..."


def _read(file: str, records: dict[str, Any]) -> Any:
    if file not in records:
        try:
            content = json.loads(Path(file).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ValueError(f"no record {file}.") from None
        except (OSError, ValueError) as error:
            raise ValueError(f"the record {file} is not readable JSON: {error}") from error
        if isinstance(content, dict):
            content = {**_rows_by_work(content), **content}
        records[file] = content
    return records[file]


def _rows_by_work(benchmarks: dict[str, Any]) -> dict[str, Any]:
    """
    The rows of `benchmarks/results.json` by their `work`, because its own keys are long commands. Ambiguous ones are left
    out.
    """
    rows = [
        row
        for measured in benchmarks.values()
        if isinstance(measured, dict) and isinstance(measured.get("rows"), list)
        for row in measured["rows"]
        if isinstance(row, dict) and "work" in row
    ]
    works = [row["work"] for row in rows]
    return {row["work"]: row for row in rows if works.count(row["work"]) == 1}


def _look_up(value: Any, path: str, file: str) -> Any:
    rest = path
    while rest:
        known = {str(i): item for i, item in enumerate(value)} if isinstance(value, list) else value
        if not isinstance(known, dict):
            raise ValueError(f"{file} has no `{path}`: `{path.removesuffix(rest).rstrip('.')}` is {_shown(value)}.")
        # A key may hold points itself: take the longest that fits.
        key = max((key for key in known if f"{rest}.".startswith(f"{key}.")), key=len, default=None)
        if key is None:
            raise ValueError(
                f"{file} has no `{path}`: `{rest}` is none of its keys there, such as {list(known)[:20]}."
            )
        value, rest = known[key], rest[len(key) + 1 :]
    return value
