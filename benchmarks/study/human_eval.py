# SPDX-License-Identifier: Apache-2.0
"""
Human evaluation of emotional replies (Liu et al., "Modulating Language Models with Emotions", 2021, section 4.4): blinded
rating sheets out, ratings in.

Every rater rates the replies of every source to every context, so that sources are compared within raters. (In the paper each
of 120 raters got five replies.) For the emotion the paper's text says that 1 is best, its Table 4 that 7 is: here 7 is best
for every item, and the sheets say so.
"""

import csv
import html
import json
import math
import random
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from hf_emotion.io.files import as_text, filling, is_taken, write_csv


LOWEST, HIGHEST = 1, 7
EMOTION = "emotion_control"
# The five readability items, adapted by the paper from Graefe et al. 2018.
READABILITY = ("well_written", "concise", "comprehensive", "coherent", "clear")
ITEMS = {EMOTION: "How well does the emotion conveyed in the reply agree with the given emotion?"} | {
    item: f"How {item.replace('_', '-')} is the reply?" for item in READABILITY
}
MEASURES = (EMOTION, "readability")
SCALE = f"{LOWEST} = worst to {HIGHEST} = best"
SHOWN = ("context", "emotion", "reply")
COLUMNS = ("id", *SHOWN, *(f"{item} ({SCALE})" for item in ITEMS))
KEY_COLUMNS = ("id", "source", "row")
KEY, SHEETS = "key.csv", "sheets"


def read_replies(paths: Sequence[str | Path]) -> tuple[dict[str, list[str]], list[str], list[str]]:
    """
    Read replies from JSONL files, one per source, named after the file: {"context": ..., "emotion": ..., "reply": ...}.

    Returns:
        {source: replies}, contexts, emotions.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a line is not such an object; contexts or emotions of the files differ; two files have the same name.
    """
    replies_by_source: dict[str, list[str]] = {}
    asked: list[tuple[str, str]] = []
    for path in map(Path, paths):
        if not path.is_file():
            raise FileNotFoundError(f"{path} does not exist: give one JSONL file of replies per source.")
        if path.stem in replies_by_source:
            raise ValueError(f"two files are called {path.stem!r}, the name of the source: rename one.")
        rows: list[dict[str, str]] = []
        for number, line in enumerate(path.read_text(encoding="utf-8-sig").split("\n"), start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"{path}, line {number}: no JSON ({error}).") from None
            if not isinstance(row, dict) or not all(isinstance(row.get(name), str) for name in SHOWN):
                raise ValueError(f"{path}, line {number}: must be an object with the strings {', '.join(SHOWN)}.")
            if replies_by_source and asked[len(rows) : len(rows) + 1] != [(row["context"], row["emotion"])]:
                raise ValueError(
                    f"{path}, line {number}: context and emotion must equal those of the same row in {paths[0]}: every source "
                    "replies to the same contexts."
                )
            rows.append(row)
        if replies_by_source and len(rows) != len(asked):
            raise ValueError(
                f"{path} has {len(rows)} replies and {paths[0]} has {len(asked)}: they must be the same rows."
            )
        if not replies_by_source:
            asked = [(row["context"], row["emotion"]) for row in rows]
        replies_by_source[path.stem] = [row["reply"] for row in rows]
    return replies_by_source, [context for context, _ in asked], [emotion for _, emotion in asked]


def export_sheets(
    replies_by_source: dict[str, list[str]],
    contexts: Sequence[str],
    emotions: Sequence[str],
    folder: str | Path,
    raters: int,
    seed: int,
) -> list[Path]:
    """
    Write blinded rating sheets.

    Args:
        replies_by_source: {source: N replies}; at least two sources, the human replies among them.
        contexts: N contexts.
        emotions: N emotions as the raters will read them, emoji or word.
        folder: new or empty. `key.csv` tells the source of each id: keep it from the raters. `sheets` holds for each
            rater `rater-NN.csv`, to fill in, and `rater-NN.html`, the same to print.
        raters: number of raters; each reads the replies in another order.
        seed: seed for the ids and the orders.

    Returns:
        paths of the CSV sheets.

    Raises:
        ValueError: fewer than two sources, one rater or one context; numbers of rows that differ; a source without a name; a text
            that is too long for a cell.
        FileExistsError: the folder is not empty.
    """
    folder = Path(folder)
    if len(replies_by_source) < 2:
        raise ValueError(
            f"`replies_by_source` must hold at least two sources to compare, got {list(replies_by_source)}: add the human replies."
        )
    if not all(source.strip() for source in replies_by_source):
        raise ValueError(f"every source in `replies_by_source` must have a name, got {list(replies_by_source)}.")
    if raters < 1:
        raise ValueError(f"`raters` must be at least 1, got {raters}.")
    if not len(contexts):
        raise ValueError("`contexts` must hold at least one context, got none.")
    for name, values in {"emotions": emotions, **replies_by_source}.items():
        if len(values) != len(contexts):
            raise ValueError(f"there must be one row per context, {len(contexts)}, got {len(values)} for {name!r}.")
    limit = csv.field_size_limit() - 1  # `as_text` may add a character
    for name, values in {"contexts": contexts, "emotions": emotions, **replies_by_source}.items():
        for row, text in enumerate(values, start=1):
            if len(text) > limit:
                raise ValueError(
                    f"a text in {name!r} may have at most {limit} characters, the most that a CSV cell can be read with; row {row} "
                    f"has {len(text)}: shorten it, or leave the row out."
                )
    if is_taken(folder):
        raise FileExistsError(f"{folder} must be a new or an empty folder: its key would not fit the new sheets.")

    shuffle = random.Random(seed)
    responses = [(source, row) for source in replies_by_source for row in range(len(contexts))]
    shuffle.shuffle(responses)
    width = len(str(len(responses)))
    rows = [
        (f"r{number:0{width}}", contexts[row], emotions[row], replies_by_source[source][row])
        for number, (source, row) in enumerate(responses, start=1)
    ]
    names = [f"rater-{number:0{max(2, len(str(raters)))}}" for number in range(1, raters + 1)]
    with filling(folder) as temporary:
        key = [(row[0], source, str(number + 1)) for row, (source, number) in zip(rows, responses, strict=True)]
        write_csv(temporary / KEY, KEY_COLUMNS, key)
        (temporary / SHEETS).mkdir()
        for name in names:
            shuffle.shuffle(rows)
            cells = [(number, *map(as_text, shown), *([""] * len(ITEMS))) for number, *shown in rows]
            write_csv(temporary / SHEETS / f"{name}.csv", COLUMNS, cells)
            (temporary / SHEETS / f"{name}.html").write_text(_form(name, rows), encoding="utf-8")
    return [folder / SHEETS / f"{name}.csv" for name in names]


def analyze_ratings(folder: str | Path) -> dict[str, Any]:
    """
    Compute the figures of section 4.4 and Table 4 from the filled-in sheets in a folder of `export_sheets`.

    Delete the sheet of a rater who did not return it. Readability is the mean of its five items.

    Returns:
        `raters`, `replies`: their numbers (replies of all sources).
        `sources`: {source: {item or "readability": {"mean", "se"}}}: mean over all ratings, and the standard error of the
            mean over raters (of each rater's mean).
        `cronbach_alpha`: for the five readability items, over all ratings: k/(k-1) · (1 - Σ var(item) / var(sum)).
        `anova`: {"emotion_control" or "readability": {"f", "df_sources", "df_error", "p_value"}}: one-way repeated measures
            over sources, raters as subjects, on the raters' means; no correction for lack of sphericity.
        `post_hoc`: for each of the two measures and each pair of sources {"measure", "first", "second", "difference" (first
            - second), "t", "df", "p_value", "p_value_holm"}: paired t-tests over raters, Holm's correction within the measure.
        NaN where a figure is undefined: with one rater, or without variance.

    Raises:
        FileNotFoundError: no key, no sheets.
        ValueError: a sheet with a missing or repeated row, or a rating that is missing or not in 1..7; names file and line.
    """
    folder = Path(folder)
    key = _read_key(folder / KEY)
    paths = sorted((folder / SHEETS).glob("*.csv"))
    if not paths:
        raise FileNotFoundError(f"{folder / SHEETS} holds no sheets (*.csv): put the returned ones there.")
    sources = sorted({source for source, _ in key.values()})
    ids = {source: [number for number, (named, _) in key.items() if named == source] for source in sources}
    sheets = [_read_sheet(path, key) for path in paths]
    # (raters, sources, rows, items)
    ratings = np.array(
        [[[sheet[number] for number in ids[source]] for source in sources] for sheet in sheets], dtype=float
    )

    readability = ratings[..., 1:].mean(axis=-1)
    values = {item: ratings[..., column] for column, item in enumerate(ITEMS)} | {"readability": readability}
    by_rater = {name: value.mean(axis=2) for name, value in values.items()}  # (raters, sources)
    result: dict[str, Any] = {
        "raters": len(paths),
        "replies": len(key),
        "sources": {
            source: {
                name: {"mean": float(means[:, column].mean()), "se": _standard_error(means[:, column])}
                for name, means in by_rater.items()
            }
            for column, source in enumerate(sources)
        },
        "cronbach_alpha": cronbach_alpha(ratings[..., 1:].reshape(-1, len(READABILITY))),
        "anova": {},
        "post_hoc": [],
    }
    for measure in MEASURES:
        result["anova"][measure] = _anova(by_rater[measure])
        result["post_hoc"] += [{"measure": measure, **row} for row in _post_hoc(by_rater[measure], sources)]
    return result


def cronbach_alpha(ratings: np.ndarray) -> float:
    """Cronbach's alpha of (N, items) ratings, k/(k-1) · (1 - Σ var(item) / var(sum)); NaN without variance."""
    items = ratings.shape[1]
    if len(ratings) < 2 or items < 2 or (variance := ratings.sum(axis=1).var(ddof=1)) == 0:
        return float("nan")
    return float(items / (items - 1) * (1 - ratings.var(axis=0, ddof=1).sum() / variance))


def _standard_error(means: np.ndarray) -> float:
    return float(means.std(ddof=1) / math.sqrt(len(means))) if len(means) > 1 else float("nan")


def _anova(means: np.ndarray) -> dict[str, float]:
    """One-way repeated-measures ANOVA over the columns of (raters, sources)."""
    raters, sources = means.shape
    result = {
        "f": float("nan"),
        "df_sources": sources - 1,
        "df_error": (sources - 1) * (raters - 1),
        "p_value": float("nan"),
    }
    # The residual, after the effects of raters and sources are removed.
    rest = means - means.mean(axis=1, keepdims=True) - means.mean(axis=0) + means.mean()
    if raters < 2 or np.allclose(rest, 0):
        return result
    import pandas
    from statsmodels.stats.anova import AnovaRM

    rows = [(rater, source, means[rater, source]) for rater in range(raters) for source in range(sources)]
    data = pandas.DataFrame(rows, columns=["rater", "source", "rating"])
    table = AnovaRM(data, depvar="rating", subject="rater", within=["source"]).fit().anova_table
    return result | {"f": float(table["F Value"].iloc[0]), "p_value": float(table["Pr > F"].iloc[0])}


def _post_hoc(means: np.ndarray, sources: Sequence[str]) -> list[dict[str, Any]]:
    """Paired t-tests of all pairs of columns of (raters, sources)."""
    from scipy.stats import ttest_rel
    from statsmodels.stats.multitest import multipletests

    rows: list[dict[str, Any]] = []
    for first, second in combinations(range(len(sources)), 2):
        difference = means[:, first] - means[:, second]
        t = p_value = float("nan")
        if len(difference) > 1 and not np.allclose(difference, difference[0]):
            test = ttest_rel(means[:, first], means[:, second])
            t, p_value = float(test.statistic), float(test.pvalue)
        rows.append(
            {
                "first": sources[first],
                "second": sources[second],
                "difference": float(difference.mean()),
                "t": t,
                "df": len(difference) - 1,
                "p_value": p_value,
                "p_value_holm": float("nan"),
            }
        )
    tested = [row for row in rows if not math.isnan(row["p_value"])]
    if tested:
        corrected = multipletests([row["p_value"] for row in tested], method="holm")[1]
        for row, value in zip(tested, corrected, strict=True):
            row["p_value_holm"] = float(value)
    return rows


def _read_key(path: Path) -> dict[str, tuple[str, str]]:
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: name the folder that `export` wrote, with its key.")
    key: dict[str, tuple[str, str]] = {}
    for line, row in _read_csv(path, KEY_COLUMNS):
        number, source, context = row
        if number in key or not source:
            raise ValueError(f"{path}, line {line}: every id must occur once, with its source, got {row}.")
        key[number] = (source, context)
    rows = {source: sorted(row for named, row in key.values() if named == source) for source, _ in key.values()}
    if len(rows) < 2 or len({tuple(numbers) for numbers in rows.values()}) != 1:
        raise ValueError(
            f"{path} must hold the same rows for each of at least two sources, got "
            f"{ {source: len(numbers) for source, numbers in rows.items()} }: it is not the file that `export` wrote."
        )
    return key


def _read_sheet(path: Path, key: dict[str, tuple[str, str]]) -> dict[str, list[int]]:
    """{id: ratings in the order of ITEMS}."""
    ratings: dict[str, list[int]] = {}
    for line, row in _read_csv(path, COLUMNS):
        number = row[0].strip()
        if number not in key:
            raise ValueError(
                f"{path}, line {line}: the id {number!r} is not in {KEY}: was the sheet exported with this key?"
            )
        if number in ratings:
            raise ValueError(f"{path}, line {line}: the id {number!r} occurs twice: remove one row.")
        ratings[number] = []
        for item, value in zip(ITEMS, row[1 + len(SHOWN) :], strict=True):
            value = value.strip()
            if value not in {str(rating) for rating in range(LOWEST, HIGHEST + 1)}:
                raise ValueError(
                    f"{path}, line {line}: {item} of {number} must be a whole number from {LOWEST} (worst) to {HIGHEST} (best), "
                    f"got {value!r}: " + ("mend it." if value else "ask the rater, or remove the whole sheet.")
                )
            ratings[number].append(int(value))
    if missing := key.keys() - ratings.keys():
        raise ValueError(
            f"{path}: all {len(key)} replies must be rated, {len(missing)} are missing, first {min(missing)}: ask the rater, or "
            "remove the whole sheet."
        )
    return ratings


def _read_csv(path: Path, columns: Sequence[str]) -> list[tuple[int, list[str]]]:
    """(last line, cells) of each row. Spreadsheets may have replaced the commas by semicolons or tabs."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        header = file.readline()
        file.seek(0)
        delimiter = next((mark for mark in ";\t" if header.strip('"').startswith(("id" + mark, 'id"' + mark))), ",")
        reader = csv.reader(file, delimiter=delimiter)
        rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    if not rows or [name.strip() for name in rows[0][1]] != list(columns):
        raise ValueError(
            f"{path}, line 1: the columns must be {', '.join(columns)}, got {', '.join(rows[0][1]) if rows else 'none'}."
        )
    for line, row in rows[1:]:
        if len(row) != len(columns):
            raise ValueError(f"{path}, line {line}: a row must have {len(columns)} cells, got {len(row)}.")
    return rows[1:]


_STYLE = """\
body { font: 11pt/1.4 sans-serif; margin: 2em auto; max-width: 48em; color: #000; background: #fff }
section { border: 1px solid #000; padding: .6em 1em; margin: 1em 0; break-inside: avoid }
dt { font-weight: bold } dd { margin: 0 0 .4em 1em; white-space: pre-wrap; overflow-wrap: anywhere }
td { padding: .1em .5em } td.box { border: 1px solid #000; text-align: center; min-width: 1.4em }"""


def _form(name: str, rows: Sequence[tuple[str, str, str, str]]) -> str:
    """A printable page without scripts; nothing is loaded from elsewhere."""
    questions = html.escape(SCALE)
    boxes = "".join(f'<td class="box">{rating}</td>' for rating in range(LOWEST, HIGHEST + 1))
    scale = "".join(f"<tr><td>{html.escape(question)}</td>{boxes}</tr>" for question in ITEMS.values())
    sections = []
    for number, *shown in rows:
        texts = "".join(
            f"<dt>{title.capitalize()}</dt><dd>{html.escape(text)}</dd>"
            for title, text in zip(SHOWN, shown, strict=True)
        )
        sections.append(f"<section><h2>{html.escape(number)}</h2><dl>{texts}</dl><table>{scale}</table></section>")
    return "\n".join(
        [
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            f"<title>{html.escape(name)}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{html.escape(name)}</h1>",
            "<p>Each box shows what somebody wrote (context), an emotion, and a reply that should express this emotion. Please rate "
            f"every reply: one number in each row, <strong>{questions}</strong>. Several replies belong to the same context; rate "
            "each on its own. Return the numbers in the CSV sheet of the same name.</p>",
            *sections,
            "</body></html>\n",
        ]
    )
