# SPDX-License-Identifier: Apache-2.0
"""
The rooms of hf_emotion and what each imports, from the floors and the imports that tests/test_house.py reads: python docs/pictures/rooms.py

An import that follows from others is left out: cli imports io, too, but so does serving, which cli imports.
"""

import sys
from pathlib import Path

from architectures import LINE, Drawing


WIDTH, STEP, BOX = 860, 54, (122, 30)
# How far from the left a room stands, so that few lines run behind other rooms.
PLACES = {
    **{"cli": 0.5, "publishing": 0.12, "convert": 0.88, "serving": 0.64, "integrations": 0.38, "runs": 0.12},
    **{"reports": 0.38, "training": 0.12, "inference": 0.6, "tasks": 0.45, "data": 0.84, "recipes": 0.64},
    **{"run_report": 0.34, "runtime": 0.84, "metrics": 0.28, "taxonomies": 0.12, "gold": 0.42, "io": 0.62},
    **{"modeling": 0.84, "configs": 0.12, "ready": 0.38},
}


def needed(imports: dict[str, set[str]]) -> list[tuple[str, str]]:
    """The imports, without those that follow from others."""

    def below(room: str) -> set[str]:
        return set().union(*({other} | below(other) for other in imports.get(room, ())))

    pairs = ((room, other) for room in imports for other in imports[room])
    return sorted((a, b) for a, b in pairs if not any(b in below(other) for other in imports[a]))


def drawn(floors: list[list[str]], imports: dict[str, set[str]]) -> str:
    """SVG. `floors`: the rooms of each, from the top."""
    legend = {"new": "toolkit", "out": "travels to the Hub", "given": "recipes and weights, no code"}
    drawing = Drawing("The rooms of hf_emotion, and which imports which", WIDTH, STEP * len(floors) + 30, legend)
    at = {room: (round(PLACES[room] * WIDTH), 26 + STEP * row) for row, rooms in enumerate(floors) for room in rooms}
    for one, other in needed(imports):
        (x, y), (to_x, to_y) = at[one], at[other]
        y, to_y = y + BOX[1] // 2, to_y - BOX[1] // 2
        drawing.parts.append(
            f'<path d="M{x} {y}C{x} {y + 26} {to_x} {to_y - 30} {to_x} {to_y}" fill="none" stroke="{LINE}" stroke-width="1.5" '
            'marker-end="url(#tip)"/>'
        )
    for room, (x, y) in at.items():
        kind = {"modeling": "out", "configs": "given", "ready": "given"}.get(room, "new")
        drawing.box(x - BOX[0] // 2, y - BOX[1] // 2, *BOX, kind, room)
    return drawing.svg()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
    from test_house import floors, imports_of_rooms

    Path(__file__).with_suffix(".svg").write_text(drawn(floors(), imports_of_rooms()), encoding="utf-8")
