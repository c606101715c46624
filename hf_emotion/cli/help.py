# SPDX-License-Identifier: Apache-2.0
"""How the help is laid out: commands in groups, examples, and types of options as users write them."""

import re
from typing import Any

from typer.core import TyperCommand, TyperGroup


EXAMPLES = (
    'hf-emotion predict goemotions "I got the job!"',
    "hf-emotion summarize reviews.csv --model goemotions --by product -o report.html",
    "hf-emotion train recipe.yaml --data-dir FOLDER",
)


def help_record(parameter: Any, context: Any) -> tuple[str, str] | None:
    """The name and the help of an argument or option: what may be repeated has the type of one value, `<list[Path]>` is `<path>`."""
    record = parameter.get_help_record(context)
    if record is None:
        return None
    name, text = record
    name = re.sub(r"<list\[(.*?)\]>", r"<\1>", name).replace("<Path>", "<path>")
    return re.sub(r"<(int|float) range>", r"<\1>", name), text


def _write_parameters(command: Any, context: Any, formatter: Any) -> None:
    for kind, title in (("argument", "Arguments"), ("option", "Options")):
        found = [parameter for parameter in command.get_params(context) if parameter.param_type_name == kind]
        if records := [record for one in found if (record := help_record(one, context)) is not None]:
            with formatter.section(title):
                formatter.write_dl(records)


class Command(TyperCommand):
    def invoke(self, ctx: Any) -> Any:
        """Run the command; each kind of warning about texts comes once."""
        from ..runtime.unread import said_once

        with said_once():
            return super().invoke(ctx)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_parameters(self, ctx, formatter)


class Group(TyperGroup):
    """The program: its commands stand in groups, those of `rich_help_panel`, before the options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        width = max(map(len, self.commands))
        for name, command in self.commands.items():
            title = getattr(command, "rich_help_panel", "")
            groups.setdefault(title, []).append((name.ljust(width), command.short_help or ""))
        for title, rows in groups.items():
            with formatter.section(title):
                formatter.write_dl(rows)
        with formatter.section("Examples"):
            for example in EXAMPLES:
                formatter.write(f"{'':{formatter.current_indent}}{example}\n")
        _write_parameters(self, ctx, formatter)
        if address := book_address():
            formatter.write(f"\nThe book: {address}\n")


def book_address() -> str | None:
    """The address of the documentation in `[project.urls]`, as the installed package has it; None as long as OWNER stands for the account."""
    from importlib import metadata

    try:
        urls = metadata.metadata("hf-emotion").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        return None
    address = dict(url.split(", ", 1) for url in urls).get("Documentation", "OWNER")
    return None if "OWNER" in address else address
