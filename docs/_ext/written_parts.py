# SPDX-License-Identifier: Apache-2.0
"""
Parts of the reference that are made from the program and committed, so that they can be read in a checkout: what stands between
`<!-- written: KIND -->` and `<!-- end -->` in docs/reference.

    python docs/_ext/written_parts.py    # writes them anew
"""

import ast
import dataclasses
import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path

import typer


ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "reference").glob("*.md"))
PART = re.compile(r"(?<=^<!-- written: )(?P<kind>\S+) -->\n.*?(?=^<!-- end -->$)", re.MULTILINE | re.DOTALL)


def renewed(page: str) -> str:
    """A page with its parts as they should be."""
    return PART.sub(lambda match: f"{match['kind']} -->\n\n{KINDS[match['kind']]().rstrip()}\n\n", page)


def commands() -> str:
    """Every command: help, arguments, options, defaults."""
    from hf_emotion.cli import app

    root = typer.main.get_command(app)
    context = root.context_class(root, info_name="hf-emotion")
    parts = [_escaped(root.help or ""), "", *_parameters(root, context)]
    for name in root.list_commands(context):
        command = root.get_command(context, name)
        inner = command.context_class(command, info_name=name, parent=context)
        usage = " ".join(["hf-emotion", name, *command.collect_usage_pieces(inner)])
        parts += [
            f"## {name}",
            "",
            "```text",
            usage,
            "```",
            "",
            _escaped(_paragraphs(command.help)),
            "",
        ]
        parts += _parameters(command, inner)
    return "\n".join(parts)


def _parameters(command, context) -> list[str]:
    from hf_emotion.cli.help import help_record

    rows = []
    for parameter in command.get_params(context):
        record = help_record(parameter, context)
        if record is None or parameter.name == "help":
            continue
        names, text = record
        # "Help. [default: 32; x>=1]": what stands in the brackets has a column of its own.
        match = re.fullmatch(
            r"(.*?)\s*(?:\[((?:default: |required|env var: |x[<>]|\d+<=?x)[^\n]*)\])?", text, re.DOTALL
        )
        values = [f"`{value.removeprefix('default: ')}`" for value in (match[2] or "").split("; ") if value]
        rows.append([f"`{names}`", _escaped(match[1]), ", ".join(values).replace("`required`", "required")])
    return [*table(["argument or option", "", "default"], rows), ""] if rows else []


def recipe_fields() -> str:
    """The fields of a recipe: name, type, default, meaning."""
    from hf_emotion.recipes import Recipe

    _, _, attributes = inspect.getdoc(Recipe).partition("Attributes:\n")
    meaning = {}
    for names, text in re.findall(r"^ {4}(\w+(?:, \w+)*): (.*(?:\n {8}.*)*)", attributes, flags=re.MULTILINE):
        for one in names.split(", "):
            meaning[one] = " ".join(text.split())
    rows = []
    for field in dataclasses.fields(Recipe):
        default = "required" if field.default is dataclasses.MISSING else f"`{json.dumps(field.default)}`"
        if field.default_factory is not dataclasses.MISSING:
            default = f"`{json.dumps(field.default_factory())}`"
        kind = field.type if isinstance(field.type, str) else inspect.formatannotation(field.type)
        kind = kind.replace("typing.", "")
        if field.name not in meaning:
            raise ValueError(f"the docstring of Recipe says nothing about `{field.name}`")
        rows.append([f"`{field.name}`", f"`{kind}`", default, _escaped(meaning.get(field.name, ""))])
    return "\n".join(table(["field", "type", "default", "meaning"], rows))


def packaged_recipes() -> str:
    """The recipes that come with the package."""
    from hf_emotion.recipes import packaged_recipes, read_yaml, recipe_name

    rows = []
    for path in packaged_recipes():
        values = read_yaml(path.read_text(encoding="utf-8"))
        cells = [
            values.get("dataset", "goemotions"),
            values.get("model_type") or "stock",
            values.get("description", ""),
        ]
        rows.append([f"`{recipe_name(path)}`", *map(_escaped, cells)])
    return "\n".join(table(["recipe", "corpus", "model", "description"], rows))


def configurations() -> str:
    """The fields of each configuration, from its docstring; nothing is imported for that."""
    parts = []
    folder = ROOT / "modeling"
    for path in (folder / "common.py", *sorted(folder.glob("configuration_*.py"))):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            named = isinstance(node, ast.ClassDef) and node.name.endswith(("Config", "Fields"))
            if named and (text := ast.get_docstring(node)):
                parts += [f"## {node.name}", "", _listed(text), ""]
    return "\n".join(parts)


def _listed(docstring: str) -> str:
    """Markdown of a docstring: its `Args` as a list."""
    docstring = re.sub(r"\[(`\w+`)\]", r"\1", docstring)
    before, _, rest = docstring.partition("Args:\n")
    found = re.match(r"(?:(?: {4}.*)?\n)*(?: {4}.*)?", rest)
    fields = re.findall(r"^ {4}(\w+(?:, \w+)*): (.*(?:\n {8}.*)*)", found[0], flags=re.MULTILINE)
    lines = [
        f"- **{', '.join(f'`{name}`' for name in names.split(', '))}**: {' '.join(text.split())}"
        for names, text in fields
    ]
    return "\n\n".join(filter(None, [before.strip(), "\n".join(lines), rest[found.end() :].strip()]))


KINDS: dict[str, Callable[[], str]] = {
    "commands": commands,
    "configurations": configurations,
    "packaged-recipes": packaged_recipes,
    "recipe-fields": recipe_fields,
}


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    rows = [[" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in [header, *rows]]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return [lines[0], "|" + "---|" * len(header), *lines[1:]]


def _paragraphs(text: str | None) -> str:
    return inspect.cleandoc(text or "")


def _escaped(text: str) -> str:
    """Help texts are plain: no Markdown but `code`."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(part if i % 2 else re.sub(r"([*_$<>\[\]{}])", r"\\\1", part) for i, part in enumerate(parts))


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(renewed(page.read_text(encoding="utf-8")), encoding="utf-8")
