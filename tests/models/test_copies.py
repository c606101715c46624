# SPDX-License-Identifier: Apache-2.0
"""What two families share stands in each of them as a copy, which says where the original is."""

import ast
import re
from pathlib import Path

import hf_emotion.modeling
import pytest


MODELING = Path(hf_emotion.modeling.__file__).parent
COPIES = [
    (path.name, *found)
    for path in sorted(MODELING.glob("*.py"))
    for found in re.findall(r"^# Copied from (\w+)\.(\w+)$", path.read_text(encoding="utf-8"), re.M)
]


def source(file: str, name: str) -> str:
    """The source of a function, a class or a constant at the top of a file."""
    text = (MODELING / file).read_text(encoding="utf-8")
    for node in ast.parse(text).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else node
        if name in (getattr(target, "name", None), getattr(target, "id", None)):
            return ast.get_source_segment(text, node)
    raise AssertionError(f"{file} has no {name}")


def test_there_are_copies():
    assert len(COPIES) > 20


@pytest.mark.parametrize(("file", "module", "name"), COPIES)
def test_a_copy_is_as_its_original(file, module, name):
    assert source(file, name) == source(f"{module}.py", name)


@pytest.mark.parametrize("path", sorted(MODELING.glob("modeling_*.py")), ids=lambda path: path.name)
def test_a_family_is_two_files(path):
    """A model imports its own configuration, and nothing else of ours."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    own = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level}
    assert own == {path.stem.replace("modeling_", "configuration_")}
