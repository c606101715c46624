# SPDX-License-Identifier: Apache-2.0
"""
The code blocks of README.md and the pages of the book. `bash` and `python` blocks are run; the line `<!-- not run: REASON -->` before one
keeps it from that. A block that starts with `# NAME.yaml`, or that follows the line `<!-- file: NAME -->`, is the content of a file.
"""

import re
import textwrap
from dataclasses import dataclass

from toolkit_helpers import ROOT


RUN = ("bash", "python")
NEVER = ("sh", "shell", "console", "pycon", "python3", "py", "zsh")  # a block under such a name would escape the tests
_BLOCK = re.compile(
    r"(?:^ *<!-- (?P<mark>not run|file): (?P<said>.+?) -->\n\s*?)?"
    r"^(?P<indent> *)(?P<fence>```+|~~~+|:::+) *(?:\{(?:code-block|code)\} *)?(?P<language>[\w-]+)[^\n{}]*\n"
    r"(?P<code>.*?)^(?P=indent)(?P=fence) *$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A fenced block: where it stands, what it says, and why it is not run."""

    document: str
    line: int
    language: str
    code: str
    reason: str | None = None  # why it is not run
    file: str | None = None  # whose content it is

    @property
    def runs(self) -> bool:
        return self.language in RUN and self.file is None


def code_blocks(document: str) -> list[Block]:
    """The fenced blocks with a language of a document, named from the root of the repository."""
    return read_blocks(document, (ROOT / document).read_text(encoding="utf-8"))


def read_blocks(document: str, text: str) -> list[Block]:
    found = []
    for match in _BLOCK.finditer(text):
        code = re.sub(r"\A(?::[\w-]+:.*\n)+\n?", "", textwrap.dedent(match["code"]))  # options of a directive
        name = re.match(r"# (\S+\.ya?ml)\b", code)
        found.append(
            Block(
                document=document,
                line=text.count("\n", 0, match.start("fence")) + 1,
                language=match["language"],
                code=code,
                reason=match["said"] if match["mark"] == "not run" else None,
                file=match["said"] if match["mark"] == "file" else name and name[1],
            )
        )
    return found


DOCUMENTS = ["README.md", *sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/**/*.md"))]
BLOCKS = [block for document in DOCUMENTS for block in code_blocks(document)]
