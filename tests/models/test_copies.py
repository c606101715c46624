# SPDX-License-Identifier: Apache-2.0
"""
The model files: they import what travels with a checkpoint alone; a family is two files, and tested_versions.py. What two families share stands in each of
them, and a mark above the copy says where the original is.
"""

import ast
import re
import sys
from pathlib import Path

import hf_emotion.modeling


MODELING = Path(hf_emotion.modeling.__file__).parent
LINES = {path.stem: path.read_text(encoding="utf-8").splitlines() for path in sorted(MODELING.glob("*.py"))}
TREES = {module: ast.parse("\n".join(lines)) for module, lines in LINES.items()}
# (module, number of the line, the line) of everything that looks like a mark.
MARKS = [
    (module, number, line)
    for module, lines in LINES.items()
    for number, line in enumerate(lines, 1)
    if re.match(r"\W*copied from\b", line, re.I)
]


def parts(module: str) -> dict[int, tuple[str, str]]:
    """Functions, classes and constants at the top of a file: the first line of each (from 1) -> its name, its source with decorators."""
    found = {}
    for node in TREES[module].body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", node)
        name = getattr(target, "name", getattr(target, "id", None))
        if name is not None:
            first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
            found[first] = name, "\n".join(LINES[module][first - 1 : node.end_lineno])
    return found


PARTS = {module: parts(module) for module in LINES}


def test_imports():
    """Standard library, torch, transformers, huggingface_hub, files beside; a model imports its own configuration and the tested versions."""
    allowed = {"torch", "transformers", "huggingface_hub", *sys.stdlib_module_names}
    for module, tree in TREES.items():
        own = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                named = {name.name.partition(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                named = {node.module.partition(".")[0]}
            elif isinstance(node, ast.ImportFrom):
                # `from . import x`, which transformers does not follow, stands in `__init__.py` alone: that does not travel.
                flat = module == "__init__" and node.module is None
                beside = {name.name for name in node.names} if flat else {node.module}
                assert node.level == 1 and beside <= set(LINES), f"{module}.py, line {node.lineno}: not a flat sibling"
                own |= beside
                continue
            else:
                continue
            assert named <= allowed, f"{module}.py, line {node.lineno}: imports {named - allowed}"
        if module.startswith("modeling_"):
            own -= {"tested_versions"}
            assert own == {module.replace("modeling_", "configuration_")}, f"{module}.py imports {own}"


def test_copies_are_as_their_originals():
    assert len(MARKS) > 20
    for module, number, line in MARKS:
        place = f"{module}.py, line {number}: {line}"
        mark = re.fullmatch(r"# Copied from (\w+)\.(\w+)", line)
        assert mark, f"no mark: {place}"
        home, name = mark.groups()
        assert home in LINES and home != module, f"no other file of the folder: {place}"
        of_name = {own: (first, source) for first, (own, source) in PARTS[home].items()}
        first, source = of_name.get(name, (None, None))
        assert source is not None, f"nothing of that name: {place}"
        assert "Copied from" not in LINES[home][first - 2], f"a copy, too: {place}"
        assert PARTS[module].get(number + 1) == (name, source), f"another text: {place}"


def test_equal_functions_and_classes_are_marked_as_copies():
    marked = {(module, number + 1) for module, number, _ in MARKS}
    homes: dict[str, list[str]] = {}
    for module, found in PARTS.items():
        for first, (_, source) in found.items():
            if source.startswith(("def ", "class ", "@")) and (module, first) not in marked:
                homes.setdefault(source, []).append(module)
    assert not {source.splitlines()[0]: modules for source, modules in homes.items() if len(modules) > 1}
