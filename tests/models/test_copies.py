# SPDX-License-Identifier: Apache-2.0
"""A family is two files: what two families share stands in each of them, and a mark above the copy says where the original is."""

import ast
import re
from pathlib import Path

import hf_emotion.modeling
import pytest


MODELING = Path(hf_emotion.modeling.__file__).parent
LINES = {path.stem: path.read_text(encoding="utf-8").splitlines() for path in sorted(MODELING.glob("*.py"))}


def parts(module: str) -> dict[int, tuple[str, str]]:
    """Functions, classes and constants at the top of a file: the first line of each (from 1) -> its name, its source with decorators."""
    found = {}
    for node in ast.parse("\n".join(LINES[module])).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", node)
        name = getattr(target, "name", getattr(target, "id", None))
        if name is not None:
            first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
            found[first] = name, "\n".join(LINES[module][first - 1 : node.end_lineno])
    return found


PARTS = {module: parts(module) for module in LINES}
# (module, number of the line, the line) of everything that looks like a mark.
MARKS = [
    (module, number, line)
    for module, lines in LINES.items()
    for number, line in enumerate(lines, 1)
    if re.match(r"\W*copied from\b", line, re.I)
]


def test_there_are_copies():
    assert len(MARKS) > 20


@pytest.mark.parametrize(("module", "number", "line"), MARKS, ids=[f"{m}-{n}" for m, n, _ in MARKS])
def test_a_copy_is_as_its_original(module, number, line):
    mark = re.fullmatch(r"# Copied from (\w+)\.(\w+)", line)
    assert mark, f"no mark: {line}"
    home, name = mark.groups()
    assert home in LINES and home != module, f"{home}.py is no other file of the folder"
    assert number + 1 in PARTS[module], "nothing stands directly below the mark"
    of_name = {own: (first, source) for first, (own, source) in PARTS[home].items()}
    assert name in of_name, f"{home}.py has no {name}"
    first, source = of_name[name]
    assert "Copied from" not in LINES[home][first - 2], f"{home}.{name} is a copy, too"
    assert PARTS[module][number + 1] == (name, source)


def test_equal_functions_and_classes_are_marked_as_copies():
    marked = {(module, number + 1) for module, number, _ in MARKS}
    homes: dict[str, list[str]] = {}
    for module, found in PARTS.items():
        for first, (_, source) in found.items():
            if source.startswith(("def ", "class ", "@")) and (module, first) not in marked:
                homes.setdefault(source, []).append(module)
    assert not {source.splitlines()[0]: modules for source, modules in homes.items() if len(modules) > 1}


@pytest.mark.parametrize("module", [module for module in LINES if module.startswith("modeling_")])
def test_a_family_is_two_files(module):
    """A model imports its own configuration, and nothing else of ours."""
    tree = ast.parse("\n".join(LINES[module]))
    own = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level}
    assert own == {module.replace("modeling_", "configuration_")}
