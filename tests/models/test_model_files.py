# SPDX-License-Identifier: Apache-2.0
"""The model files: they import what travels with a checkpoint alone. A family is two files; what families share stands once, in common.py."""

import ast
import sys
from pathlib import Path

import hf_emotion.modeling


FILES = sorted(Path(hf_emotion.modeling.__file__).parent.glob("*.py"))
LINES = {path.stem: path.read_text(encoding="utf-8").splitlines() for path in FILES}
TREES = {module: ast.parse("\n".join(lines)) for module, lines in LINES.items()}


def test_imports():
    """Standard library, torch, transformers, huggingface_hub, files beside; a model imports its own configuration and common.py."""
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
            assert own - {"common"} == {module.replace("modeling_", "configuration_")}, f"{module}.py imports {own}"


def test_no_function_or_class_stands_in_two_files():
    homes: dict[str, list[str]] = {}
    for module, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                homes.setdefault(ast.dump(node), []).append(f"{module}.{node.name}")
    assert not [places for places in homes.values() if len(places) > 1]
