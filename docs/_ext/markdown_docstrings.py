# SPDX-License-Identifier: Apache-2.0
"""
Docstrings have Markdown inside: `code`, [`Name`], tables and fenced code. Autodoc reads reStructuredText, so this turns them into it
before napoleon finds the sections (`Args:`, `Returns:`).
"""

import re

from sphinx.application import Sphinx


CODE = re.compile(r"(``.+?``|\[`[^`\n]+`\]|`[^`\n]+`)")
TABLE = re.compile(r"^\s*\|.*\|\s*$")


def to_restructured_text(lines: list[str]) -> list[str]:
    """The lines of a docstring, in reStructuredText."""
    found: list[str] = []
    position = 0
    while position < len(lines):
        line = lines[position]
        if TABLE.match(line):
            end = position
            while end < len(lines) and TABLE.match(lines[end]):
                end += 1
            found += _table(lines[position:end])
            position = end
            continue
        if fence := re.match(r"(\s*)```(\w*)\s*$", line):
            end = next(i for i in range(position + 1, len(lines)) if lines[i].strip() == "```")
            body = [f"    {inner}" if inner else "" for inner in lines[position + 1 : end]]
            found += ["", f"{fence[1]}.. code-block:: {fence[2] or 'text'}", "", *body, ""]
            position = end + 1
            continue
        if re.match(r"\s*- ", line) and found and found[-1].strip() and not re.match(r"\s*- |\s*$", found[-1]):
            if _indent(found[-1]) <= _indent(line) and not found[-1].rstrip().endswith("-"):
                found.append("")
        if call := re.fullmatch(r"(\s*)(Call arguments.*):", line):
            found += [f"{call[1]}{_inline(call[2])}:", "", f"{call[1]}Args:"]
        else:
            found.append(_inline(line.replace("*optional*", "optional")))
        position += 1
    return found


def _inline(line: str) -> str:
    parts = CODE.split(line)
    # Odd ones are code. The others may hold what reStructuredText takes for a mark.
    for number, part in enumerate(parts):
        if number % 2:
            code = (part[1:-1] if part.startswith("[") else part).strip("`")
            after = parts[number + 1][:1]
            parts[number] = f"``{code}``" + ("\\" if after.isalnum() else "")
        else:
            part = re.sub(r"\[([^]]+)\]\((https?://[^)]+)\)", r"`\1 <\2>`__", part)
            parts[number] = re.sub(r"(?<![*\w\\])(\*{1,2})(?=\w)|(?<=\w)(_)(?=\W|$)|(\|)", lambda m: "\\" + m[0], part)
    return "".join(parts)


def _table(lines: list[str]) -> list[str]:
    """A Markdown table as a list-table."""
    indent = " " * _indent(lines[0])
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))] for line in lines]
    rows = [row for row in rows if not all(re.fullmatch(r":?-+:?", cell) for cell in row)]
    text = ["", f"{indent}.. list-table::", f"{indent}   :header-rows: 1", ""]
    for row in rows:
        text += [f"{indent}   {'*' if not i else ' '} - {_inline(cell)}" for i, cell in enumerate(row)]
    return [*text, ""]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _convert(app, what, name, obj, options, lines):
    lines[:] = to_restructured_text(lines)


def _short_signature(app, what, name, obj, options, signature, returned):
    """Configurations take every field of their encoder: their docstrings list ours."""
    if what == "class" and hasattr(obj, "model_type"):
        return "(**kwargs)", None
    return None


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", _convert, priority=100)  # napoleon has 500
    app.connect("autodoc-process-signature", _short_signature)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
