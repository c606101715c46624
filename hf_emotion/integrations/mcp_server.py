# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion mcp`: tools for assistants. The types of the answers become the schemas of the tools."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from ..io.files import finite_or_none
from ..reports.summary import Every, summarize
from ..reports.summary.counting import Difference
from ..tasks.aspect_extraction.results import TermsResult
from ..tasks.emotion_classification.results import EmotionResult
from ..tasks.results import Readable
from . import load_text_model


MOST_SHARES = 100  # an assistant reads every one


class TableShare(TypedDict):
    """The share of a label in a group and period, with its 95 % interval; None: not known."""

    group: str
    period: str
    label: str
    rows: int
    share: float | None
    low: float | None
    high: float | None


class TableSummary(TypedDict):
    """What `Summary` says of a table: the largest shares, and how many more there are; the differences that are clear, largest first."""

    rows: int
    skipped: int
    method: str
    shares: list[TableShare]
    more_shares: int
    clear: list[Difference]
    tested: str
    typical: dict[str, dict[str, list[str]]]
    notes: list[str]


@contextmanager
def _told() -> Iterator[None]:
    """The assistant reads what was wrong with its call."""
    try:
        yield
    except (ValueError, OSError) as error:
        raise ToolError(str(error)) from error


def build(checkpoints: Sequence[str], folder: Path) -> MCPServer[Any]:
    """
    The server. ValueError for two models of the same kind.

    Args:
        folder: where tables lie that may be read, at any depth.
    """
    server: MCPServer[Any] = MCPServer("hf-emotion", log_level="WARNING")
    tools: set[bool] = set()
    for checkpoint in checkpoints:
        predictor, finds_terms = load_text_model(checkpoint)
        if finds_terms in tools:
            raise ValueError(f"{checkpoint} does the same as a model before it: name one for emotions, one for terms.")
        tools.add(finds_terms)
        (_add_terms if finds_terms else _add_emotions)(server, predictor, folder.resolve())
    return server


def _add_terms(server: MCPServer[Any], predictor: Any, folder: Path) -> None:
    @server.tool(description="The terms that each text speaks of, and the sentiment towards each.")
    def aspects(texts: list[str]) -> list[TermsResult]:
        with _told():
            results, unread = predictor.predict_quietly(texts)
        each: list[Readable] = unread.each()
        return [{"terms": terms, **own} for terms, own in zip(results, each, strict=True)]


def _add_emotions(server: MCPServer[Any], predictor: Any, folder: Path) -> None:
    about, shown = ", ".join(predictor.labels), TableShare.__annotations__

    @server.tool(description=f"The emotions of each text, or with top_k its k most probable ones, of: {about}.")
    def emotions(texts: list[str], top_k: int | None = None) -> list[EmotionResult]:
        with _told():
            results, unread = predictor.predict_quietly(texts, top_k)
        each: list[Readable] = unread.each()
        return [{"labels": labels, **own} for labels, own in zip(results, each, strict=True)]

    @server.tool(
        description="Shares of emotions in a table (CSV, TSV, JSONL, Parquet, Excel), for each value of the column `by` and each period "
        "(`every`) of the column `time`, with typical texts. Paths are relative to the folder of the server."
    )
    def summarize_table(
        file: str,
        text_column: str | None = None,
        by: str | None = None,
        time: str | None = None,
        every: Every = "week",
    ) -> TableSummary:
        with _told():
            path = (folder / file).resolve()
            if not path.is_relative_to(folder):
                raise ValueError(f"{file} is not in {folder}, which --folder names.")
            found = summarize(path, predictor, by, time, every, text_column=text_column)
        largest: list[Any] = list(found.largest)
        return {
            "rows": found.rows,
            "skipped": found.skipped,
            "method": found.method,
            "shares": finite_or_none([{key: one[key] for key in shown} for one in largest[:MOST_SHARES]]),
            "more_shares": len(largest[MOST_SHARES:]),
            "clear": found.clear[:MOST_SHARES],
            "tested": found.tested,
            "typical": found.typical,
            "notes": found.notes,
        }
