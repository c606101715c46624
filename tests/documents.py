# SPDX-License-Identifier: Apache-2.0
"""
The code blocks of README.md and of the pages of the book. Before a block may stand `<!-- not run: REASON -->`, or `<!-- file: NAME -->`,
which makes it the content of a file.
"""

import re
import textwrap
from pathlib import Path
from typing import NamedTuple


ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
RUN = ("bash", "python")
ESCAPING = ("sh", "shell", "console", "zsh", "py", "python3", "pycon")  # nobody would run a block under such a name
_BLOCK = re.compile(
    r"(?:^ *<!-- (?P<mark>file|not run): (?P<about>.*?) -->\n\s*?)?"
    r"^(?P<indent> *)(?P<fence>```+|~~~+) *(?:\{(?:code-block|code)\} *)?(?P<language>\w+)[^\n{}]*\n"
    r"(?P<text>.*?)^(?P=indent)(?P=fence) *$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    mark: str  # "file", "not run" or ""
    about: str  # what the mark says: the name of the file, the reason
    language: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    return read_blocks(page.read_text(encoding="utf-8"))


def read_blocks(text: str) -> list[Block]:
    """The fenced blocks with a language."""
    found = []
    for match in _BLOCK.finditer(text):
        code = re.sub(r"\A(?::[\w-]+:.*\n)+\n?", "", textwrap.dedent(match["text"]))  # options of a directive
        line = text.count("\n", 0, match.start("fence")) + 1
        found.append(Block(match["mark"] or "", match["about"] or "", match["language"], code, line))
    return found
