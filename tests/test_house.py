# SPDX-License-Identifier: Apache-2.0
"""The rooms of hf_emotion: each imports only what lies below it, in functions too."""

import ast
from pathlib import Path

import pytest

import hf_emotion


ROOT = Path(hf_emotion.__file__).parent
# From top to bottom. Rooms in one line do not know each other.
FLOORS = (
    ("__main__",),
    ("cli",),
    ("publishing", "study"),
    ("convert", "serving"),
    ("runs",),
    ("reports",),
    ("training",),
    ("inference",),
    ("data",),
    ("recipes",),
    ("runtime",),
    ("metrics",),
    ("taxonomies",),
    ("io",),
    ("modeling", "configs"),
)
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}


def room_of(module: str) -> str | None:
    """ "hf_emotion.runtime.onnx" -> "runtime"; None for the package itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else None


def imported(path: Path) -> set[str]:
    """The modules of hf_emotion that a file imports, at its top or in its functions; not what only a type checker reads."""
    module = ".".join(("hf_emotion", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            node.body = []
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*parts, *([node.module] if node.module else [])])
            # `from .. import metrics` names a room, `from .. import __version__` does not.
            found |= {f"{base}.{alias.name}" if base == "hf_emotion" else base for alias in node.names}
    return {name for name in found if name.split(".")[0] == "hf_emotion"}


FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_room_imports_only_what_lies_below_it(path):
    room = path.relative_to(ROOT).with_suffix("").parts[0]
    above = {
        name
        for name in imported(path)
        if (other := room_of(name)) in FLOOR_OF and other != room and FLOOR_OF[other] <= FLOOR_OF[room]
    }
    assert not above, f"{room} lies below {sorted(above)} or beside it"


def test_every_room_has_its_floor():
    rooms = {path.relative_to(ROOT).with_suffix("").parts[0] for path in FILES}
    assert rooms == set(FLOOR_OF) - {"modeling", "configs"}
