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

import functools
import glob
import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from hf_emotion.io.files import write_text
from hf_emotion.metrics.significance import mean_std, over_seeds


# Code blocks with a language and inline code only show the mark as an example.
_CODE = r"^ *(?P<fence>```+|~~~+)[a-z].*?^ *(?P=fence) *$|(?P<ticks>`+)(?!`)[^\n]*?[^`\n](?P=ticks)(?!`)"
_NUMBER = r"(?:(?<!\w)[-+−])?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:e[-+]?\d+)?%?"
_WIDE = re.MULTILINE | re.DOTALL
_FIGURE = re.compile(rf"{_CODE}|(?P<number>{_NUMBER}(?: ± {_NUMBER})?)?(?P<mark><!--=(?P<source>.*?)-->)", _WIDE)
_SOURCE = re.compile(
    r"\s*(?P<record>\S+)\s+(?P<path>\S.*?)(?:\s+(?:(?P<form>[+,]*(?:\.\d+)?[defg%])|(?P<mean>mean)(?:\.(?P<digits>\d+)f)?))?\s*",
    re.DOTALL,
)


def renew_figures(documents: Sequence[str | Path], check: bool = False) -> tuple[int, list[str]]:
    """
    Write the numbers of documents, Markdown with marks `<!--= SOURCE -->` or YAML (see `_bound`), anew from their records. Returns how many there
    are, and a line for each that differs. With `check` nothing is changed, nor if there is a fault: ValueError with all of them.

    A source is `RECORD PATH [FORMAT]`. RECORD is a JSON file; with `*` it names several, whose values make a list. PATH is a list of keys, joined by
    points; in a list the key is an index. In the records of benchmarks the key of a row is its `work`. FORMAT is a Python format (default: `.3f`,
    and `,d` for whole numbers), or `mean`: mean ± standard deviation (n-1) of a list; `mean.1f` has one digit.
    """
    read = functools.cache(_read)
    written, differing, wrong, count = {}, [], [], 0
    for file in map(Path, documents):
        said = yaml.safe_load(file.read_text(encoding="utf-8")) if file.suffix == ".yaml" else None
        document = Path(said["document"]) if said else file
        text = document.read_text(encoding="utf-8")
        places, faults = _bound(text, said) if said else _marked(text)
        new, count = text, count + len(places)
        for start, end, source in reversed(places):
            try:
                number = _figure(source, read)
            except ValueError as error:
                faults.append((start, str(error)))
                continue
            if number != (shown := text[start:end]):
                where = f"{document}:{_line(text, start)}"
                differing.append(f"{where}: {shown} should be {number} ({' '.join(source.split())})")
            new = new[:start] + number + new[end:]
        written[document] = new, text
        wrong += [f"{document}:{_line(text, at)}: {what}" + f" ({file})" * bool(said) for at, what in faults]
    if wrong:
        raise ValueError("\n".join(wrong))
    for document, (new, text) in written.items():
        if not check and new != text:
            write_text(document, new)
    return count, differing


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _marked(text: str) -> tuple[list, list]:
    """The numbers of a page with marks, (start, end, source); and faults, (where, what)."""
    places, faults, common = [], [], "{}"
    for match in _FIGURE.finditer(text):
        mark, source = match["mark"], match["source"]
        if mark and source.startswith("="):
            common = source[1:]
        elif mark and not match["number"]:
            must = "must follow a number, without a space between them."
            faults.append((match.start("mark"), f"`{mark}` {must}"))
        elif mark:
            whole = re.match(r"\s*\S+/\S+\.json\s", source)
            places.append((*match.span("number"), source if whole else common.replace("{}", source.strip())))
    return places, faults


def _bound(text: str, said: dict[str, Any]) -> tuple[list, list]:
    """
    The numbers of a document, and faults. Beside `document` the YAML file has `figures`, words with `{}` for each number -> the
    sources; and `constants`, words whose numbers no record has. Each decimal number and percentage of the document must be among them.
    """
    places, faults, known = [], [], []
    for words, sources in said["figures"].items():
        found = list(_matches(words, text))
        if len(found) != 1 or words.count("{}") != len(sources):
            what = f"stands in it {len(found)} times, instead of once, or has not {len(sources)} {{}}."
            faults.append((0, f"`{words}` {what}"))
            continue
        known.append(found[0].span())
        places += [(*found[0].span(i + 1), source) for i, source in enumerate(sources)]
    for words in said["constants"]:
        spans = [match.span() for match in _matches(words, text)]
        faults += [(0, f"`{words}` does not stand in it.")] * (not spans)
        known += spans
    for match in re.finditer(rf"{_CODE}|\]\([^)]*\)|(?P<decimal>\d+\.\d+|\d+ ?%)", text, _WIDE):
        if match["decimal"] and not any(start <= match.start() and match.end() <= end for start, end in known):
            faults.append((match.start(), f"the YAML file does not say where {match['decimal']} comes from."))
    places.sort()
    faults += [(a[0], "it has two sources.") for a, b in itertools.pairwise(places) if b[0] < a[1]]
    return places, faults


def _matches(words: str, text: str) -> Iterator[re.Match]:
    """Where words stand in a document, any white space between them, with a group for each `{}`, a number."""
    parts = (r"\s+".join(map(re.escape, re.split(r"\s+", part))) for part in words.split("{}"))
    return re.finditer(rf"(?<![\w.]){f'({_NUMBER}(?: ± {_NUMBER})?)'.join(parts)}", text)


def _figure(source: str, read: Callable[[str], Any]) -> str:
    match = _SOURCE.fullmatch(source)
    if match is None:
        raise ValueError(f"a figure is written `<!--= RECORD PATH [FORMAT] -->`, got `<!--={source}-->`.")
    record, path, form = match["record"], " ".join(match["path"].split()), match["form"]
    files = sorted(glob.glob(record))
    if not files:
        raise ValueError(f"no record {record}: no file has such a name.")
    found = [_look_up(read(file), path, file) for file in files]
    value = found if "*" in record else found[0]
    if match["mean"]:
        if not isinstance(value, list) or not value or not all(map(_is_number, value)):
            raise ValueError(f"`mean` needs a list of numbers, and {path} in {record} is {_shown(value)}.")
        return mean_std(over_seeds(value), int(match["digits"] or 3))
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


def _read(file: str) -> Any:
    """A record; rows of benchmarks, which stand in lists, also by their `work`, unless two have the same."""
    try:
        content = json.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"the record {file} is not readable JSON: {error}") from error
    if not isinstance(content, dict):
        return content
    measured = [*content.values(), *content.get("works", {}).values()]
    groups = [one["rows"] for one in measured if isinstance(one, dict) and isinstance(one.get("rows"), list)]
    rows = [row for group in groups for row in group if isinstance(row, dict) and "work" in row]
    works = [row["work"] for row in rows]
    return {row["work"]: row for row in rows if works.count(row["work"]) == 1} | content


def _look_up(value: Any, path: str, file: str) -> Any:
    rest = path
    while rest:
        known = {str(i): item for i, item in enumerate(value)} if isinstance(value, list) else value
        if not isinstance(known, dict):
            raise ValueError(f"{file} has no `{path}`: `{path.removesuffix(rest).rstrip('.')}` is {_shown(value)}.")
        # A key may hold points itself: take the longest that fits.
        key = max((key for key in known if f"{rest}.".startswith(f"{key}.")), key=len, default=None)
        if key is None:
            keys = list(known)[:20]
            raise ValueError(f"{file} has no `{path}`: `{rest}` is none of its keys there, such as {keys}.")
        value, rest = known[key], rest[len(key) + 1 :]
    return value
