# SPDX-License-Identifier: Apache-2.0
"""The rooms of hf_emotion: each imports only what lies below it, in functions too."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import hf_emotion
from hf_emotion.tasks import TASKS, corpora


ROOT = Path(hf_emotion.__file__).parent
# From top to bottom. Rooms in one line do not know each other.
FLOORS = (
    ("__main__",),
    ("cli",),
    ("publishing",),
    ("convert", "serving"),
    ("runs",),
    ("reports",),
    ("training",),
    ("inference",),
    ("tasks",),
    ("data",),
    ("recipes", "run_report"),
    ("runtime",),
    ("metrics",),
    ("taxonomies",),
    ("io",),
    ("modeling", "configs", "ready"),
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


def test_nothing_imports_what_stays_in_the_repository():
    for path in FILES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        named = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
        named += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level]
        assert not {name.split(".")[0] for name in named} & {"benchmarks", "tests"}, path


def test_every_room_has_its_floor():
    rooms = {path.relative_to(ROOT).with_suffix("").parts[0] for path in FILES}
    assert rooms == set(FLOOR_OF) - {"modeling", "configs"}


# What only `tasks/` and the recipes may name.
NAMES = {name for task in TASKS for name in (task.name, *task.model_types)} | set(corpora())
# "files" and "conversations" are words of the code, too.
NAMES -= {"files", "conversations", "languages"}
ALLOWED = {
    "recipes.py": {"goemotions"},  # the corpus of a recipe that names none
    "taxonomies.py": {"goemotions"},  # the taxonomy of that name
    "metrics/__init__.py": {"goemotions", "sentihood", "semeval2014"},  # the metrics of that name
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_nothing_else_names_a_task_a_corpus_or_a_model_type(path):
    name = path.relative_to(ROOT).as_posix()
    if name.split("/")[0] == "tasks":
        return
    literals = {
        node.value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert literals & NAMES <= ALLOWED.get(name, set())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_nothing_else_asks_for_the_kind_of_a_predictor(path):
    name = path.relative_to(ROOT).as_posix()
    if name.split("/")[0] == "tasks":
        return
    predictors = {task.predictor_class for task in TASKS}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "type"):
            asked = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
            assert not asked & predictors, f"line {node.lineno}"


def test_tasks_are_listed_without_heavy_libraries():
    heavy = ["numpy", "datasets", "torch", "transformers", "sklearn", "pyarrow"]
    code = f"import sys, hf_emotion.tasks; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
