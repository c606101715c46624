# SPDX-License-Identifier: Apache-2.0
"""
What the pages do not say themselves: a line `<!-- generated: KIND [NAME] -->` in a page becomes Markdown made from the program, its
docstrings and its records, each time the book is built.
"""

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util import logging
from written_parts import table


logger = logging.getLogger(__name__)
ROOT = Path(__file__).resolve().parents[2]
MARK = re.compile(r"^<!-- generated: (\S+)(?: (.+?))? -->$", re.MULTILINE)
# Files of the repository that are pages of the book.
PAGES = {
    "README.md": "/index.md",
    "REPRODUCTION.md": "/results/study.md",
    "benchmarks/reproduction/TABLES.md": "/results/study_tables.md",
    "CONTRIBUTING.md": "/contributing.md",
    "benchmarks/RESULTS.md": "/results/speed.md",
}


def public_names(kind: str) -> str:
    """Autodoc of the public names: predictors and functions, models, pipelines, modules."""
    import hf_emotion

    groups: dict[str, list[str]] = {"toolkit": [], "pipelines": [], "models": [], "modules": []}
    for name in sorted(name for name in hf_emotion.__all__ if not name.startswith("_")):
        value = getattr(hf_emotion, name)
        if inspect.ismodule(value):
            groups["modules"].append(f".. automodule:: hf_emotion.{name}\n   :members:\n   :imported-members:")
            continue
        directive = "autofunction" if inspect.isfunction(value) else "autoclass"
        group = "toolkit"
        if directive == "autoclass" and ".modeling" in value.__module__:
            group = "pipelines" if name.endswith("Pipeline") else "models"
        members = (
            "\n   :members:\n   :special-members: __call__"
            if group in ("toolkit", "models") and directive == "autoclass"
            else ""
        )
        if name == "Recipe" or name.endswith("Config"):
            continue  # they have pages of their own
        groups[group].append(f".. {directive}:: hf_emotion.{name}{members}")
    if kind == "models":  # what several of them share
        groups[kind].append(".. autoclass:: hf_emotion.modeling.modeling_label_aware.LabelAwareEncoder\n   :members:")
    return "\n".join(["```{eval-rst}", "\n\n".join(groups[kind]), "```"])


def study_table(name: str) -> str:
    """The first metrics of a table of the study."""
    from benchmarks.study.tables import short_table

    return short_table(name, ROOT / "benchmarks" / "reproduction")


def included(name: str) -> str:
    """A Markdown file of the repository, with links that lead to pages of the book, or else name the file."""
    path = ROOT / name
    text = path.read_text(encoding="utf-8")

    def link(match: re.Match) -> str:
        image, shown, target = match.groups()
        if re.match(r"\w+:|#", target):
            return match[0]
        file, _, anchor = target.partition("#")
        place = (path.parent / file).resolve().relative_to(ROOT).as_posix()
        if image:
            return f"![{shown}](/../{place})"
        page = PAGES.get(place) or (f"/{place.removeprefix('docs/')}" if place.startswith("docs/") else None)
        if page is None:
            return shown if "`" in shown else f"`{place}`" if shown == file else f"{shown} (`{place}`)"
        return f"[{shown}]({page}{'#' * bool(anchor)}{anchor})"

    return re.sub(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)", link, text)


# Script in tests/endurance -> what it does, how large it was, what it found.
FAULTS = {
    "kill_training": (
        "Trainings are killed at random moments and resumed",
        "{kills} kills, {inside_save} of them inside a save",
        "{steps_lost} steps lost, {differences} differences from a training that nobody killed",
    ),
    "bulk": (
        "The prediction of a long file is killed and started again",
        "{rows:,} rows",
        "{lost} rows lost, {double} twice, {different} different",
    ),
    "soak": (
        "Threads share one predictor, and the process forks",
        "{threads} threads, {answers:,} answers",
        "{wrong} wrong, {stuck_threads} threads stuck, {memory_growth_mib} MiB more memory",
    ),
    "service": (
        "Clients of a service send what is malformed or too large, or leave early",
        "{clients} clients, {answers:,} answers",
        "{wrong} wrong, {lost_at_the_end} lost at the end, {memory_growth_mib} MiB more memory",
    ),
    "fuzz": (
        "Broken files, texts and arguments reach every entry point",
        "{cases:,} cases",
        "{crashes} crashes",
    ),
}


def dependability(name: str) -> str:
    """What was tried to break the toolkit, and what was found, from its record."""
    rows, points = [], []
    for command, measured in _record("dependability").items():
        found = measured["found"]
        if entries := found.get("entry points"):
            points = [[point, f"{one['cases']:,}", str(one["crashes"])] for point, one in entries.items()]
            found = {key: sum(one[key] for one in entries.values()) for key in ("cases", "crashes")}
        found = {key: len(value) if isinstance(value, list) else value for key, value in found.items()}
        what, size, result = FAULTS[command.split()[0]]
        if processes := re.search(r"--processes (\d+)", command):
            size += f", {processes[1]} processes"
        verdict = "yes" if measured["passed"] else "**no**"
        rows.append([what, size.format(**found), result.format(**found), verdict])
    parts = [*table(["what we do", "size", "found", "passed"], rows), "", "## Entry points", ""]
    return "\n".join([*parts, *table(["entry point", "cases", "crashes"], points)])


def speed(name: str) -> str:
    """The rows with a goal, from the records of the benchmarks: beside other tools, and beside stock transformers."""
    from benchmarks.measuring import figure

    def cells(row: dict) -> list[str]:
        """Goal and figure, each in one line."""
        shown = figure(row).strip()
        return [
            text.replace(" ", "&nbsp;") for text in (row["target"], f"**{shown}**" if row["met"] is False else shown)
        ]

    groups: dict[str, list[list[str]]] = {}
    for work, run in _record("peers").get("works", {}).items():
        for row in run["rows"]:
            if row["target"]:
                groups.setdefault("Beside other tools", []).append(
                    [f"{work}: {row['work']}", row["peer"], *cells(row)]
                )
    for run in _record("results").values():
        for row in run["rows"]:
            if row["target"] and row["unit"]:  # what has no unit is not a speed
                groups.setdefault(row["topic"].capitalize(), []).append([row["work"], *cells(row)])
    parts = []
    for topic, rows in groups.items():
        header = ["work", *(["other tool"] if len(rows[0]) == 4 else []), "goal", "measured"]
        parts += [f"## {topic}", "", *table(header, rows), ""]
    return "\n".join(parts)


def scale(name: str) -> str:
    """Rates of bulk prediction on the machines on record, and what follows for a million rows and for 100 million a day."""
    rows = []
    for file, kind in {"results": "AMX", "epyc/results": "AVX-512", "avx2/results": "AVX2"}.items():
        measured: dict[str, tuple[int, float]] = {}  # numbers -> texts, seconds; of two rows that with more texts
        for run in _record(file).values():
            for row in run["rows"]:
                if match := re.match(r"(\d+) .*: (Predictor in (\w+) against float32|Predictor against)", row["work"]):
                    both = (
                        {"float32": row["ours"]}
                        if match[3] is None
                        else {"float32": row["peer"], match[3]: row["ours"]}
                    )
                    for dtype, seconds in both.items():
                        measured[dtype] = max(measured.get(dtype, (0, 0.0)), (int(match[1]), seconds))
                    machine = run["machine"]["machine"].partition(" (2 CPUs")[0].replace("(R)", "") + f", {kind}"
        for dtype, (texts, seconds) in measured.items():
            rate = texts / seconds
            shown = [f"{rate:,.0f}", f"{1e6 / rate / 3600:.2f}", f"{1e8 / 86_400 / rate:.1f}"]
            rows.append([machine, dtype, f"{texts:,}", *shown])
    header = [
        "two cores of",
        "numbers",
        "texts measured",
        "texts per second",
        "hours per million",
        "machines for 100 million a day",
    ]
    return "\n".join(table(header, rows))


def _record(name: str) -> dict:
    file = ROOT / "benchmarks" / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


KINDS: dict[str, Callable[[str], str]] = {
    "dependability": dependability,
    "file": included,
    "public-names": public_names,
    "scale": scale,
    "speed": speed,
    "study-table": study_table,
}


def _fill(app: Sphinx, docname: str, source: list[str]) -> None:
    def made(match: re.Match) -> str:
        if match[1] not in KINDS:
            logger.warning("%s: nothing is generated under the name %r: %s", docname, match[1], sorted(KINDS))
            return ""
        return KINDS[match[1]](match[2] or "")

    source[0] = MARK.sub(made, source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", _fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
