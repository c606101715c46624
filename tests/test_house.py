# SPDX-License-Identifier: Apache-2.0
"""The rooms of hf_emotion: each imports only what lies below it, in functions too."""

import ast
import subprocess
import sys
from pathlib import Path

import hf_emotion
from hf_emotion.tasks import TASKS, corpora


ROOT = Path(hf_emotion.__file__).parent
# From top to bottom. Rooms between two commas do not know each other.
FLOORS = "__main__, cli, publishing, convert serving integrations, runs, reports, training, inference, tasks, data, recipes run_report, runtime, "
FLOORS += "metrics, taxonomies gold, io, modeling configs ready"
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS.split(", ")) for room in rooms.split()}
FILES = [path for path in sorted(ROOT.rglob("*.py")) if path != ROOT / "__init__.py"]
TREES = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in FILES}
NODES = {name: list(ast.walk(tree)) for name, tree in TREES.items()}


def imported(name: str) -> set[str]:
    """What a file imports, at its top or in its functions, with whole names; not what only a type checker reads."""
    package = ("hf_emotion", *Path(name).parts[:-1])
    typing = [node for node in NODES[name] if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]
    unread = {inner for node in typing for part in node.body for inner in ast.walk(part)}
    found = set()
    for node in set(NODES[name]) - unread:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else ()
            base = ".".join(filter(None, (*above, node.module)))
            # `from .. import metrics` names a room, `from .. import __version__` does not.
            found |= {f"{base}.{alias.name}" if base == "hf_emotion" else base for alias in node.names}
    return found


def floors() -> list[list[str]]:
    """The rooms of each floor, from the top."""
    return [rooms.split() for rooms in FLOORS.removeprefix("__main__, ").split(", ")]


def imports_of_rooms() -> dict[str, set[str]]:
    """Room -> the other rooms that it imports."""
    found: dict[str, set[str]] = {}
    for name in NODES:
        room = Path(name).with_suffix("").parts[0]
        others = {(*module.split("."), "")[1] for module in imported(name) if module.startswith("hf_emotion.")}
        found.setdefault(room, set()).update(others & FLOOR_OF.keys() - {room})
    return {room: others for room, others in found.items() if room != "__main__"}


def test_the_map_of_the_rooms_shows_the_imports(monkeypatch):
    """docs/pictures/rooms.py draws it."""
    monkeypatch.syspath_prepend(ROOT.parent / "docs/pictures")
    from rooms import drawn

    shown = (ROOT.parent / "docs/pictures/rooms.svg").read_text(encoding="utf-8")
    assert shown == drawn(floors(), imports_of_rooms()), "python docs/pictures/rooms.py draws it anew"


def test_a_room_imports_only_what_lies_below_it():
    rooms = {name: Path(name).with_suffix("").parts[0] for name in NODES}
    assert set(rooms.values()) == set(FLOOR_OF) - {"modeling", "configs"}, "a room without a floor"
    wrong = set()
    for name, room in rooms.items():
        for module in imported(name):
            first, other = (*module.split("."), "")[:2]
            above = first == "hf_emotion" and other != room and FLOOR_OF.get(other, 99) <= FLOOR_OF[room]
            if above or first in ("benchmarks", "tests"):  # those two stay in the repository
                wrong.add((name, module))
    assert not wrong, "imports of what lies above, beside or outside"


# What only `tasks/` and the recipes may name.
NAMES = {name for task in TASKS for name in (task.name, *task.model_types)} | set(corpora())
# Some are words of the code, too.
NAMES -= {"files", "conversations", "languages", "messages", "dialogues"}
ALLOWED = {
    "recipes.py": {"goemotions", "label-aware"},  # where a recipe names no corpus, or no model
    "taxonomies.py": {"goemotions"},  # the taxonomy of that name
    "metrics/__init__.py": {"goemotions", "sentihood", "semeval2014"},  # the metrics of that name
}


def test_nothing_else_names_a_task_or_asks_for_the_kind_of_a_predictor():
    predictors, wrong = {task.predictor_class for task in TASKS}, {}
    for name in (name for name in NODES if not name.startswith("tasks/")):
        texts = {node.value for node in NODES[name] if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        calls = [node for node in NODES[name] if isinstance(node, ast.Call)]
        kinds = [node for node in calls if getattr(node.func, "id", "") in ("isinstance", "type")]
        asked = {part.id for node in kinds for part in ast.walk(node) if isinstance(part, ast.Name)}
        if found := (texts & NAMES - ALLOWED.get(name, set())) | (asked & predictors):
            wrong[name] = found
    assert not wrong, "a task, a corpus, a model type or a predictor class"


def test_tasks_are_listed_without_heavy_libraries():
    heavy = ["numpy", "datasets", "torch", "transformers", "sklearn", "pyarrow"]
    code = f"import sys, hf_emotion.tasks; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
