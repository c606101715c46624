# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion recipes`."""

import shutil
from typing import Annotated

import typer

from .printing import in_terminal


def recipes(
    word: Annotated[
        str | None, typer.Argument(help="A recipe to show, or a word to search for: a task, a corpus, a paper.")
    ] = None,
) -> None:
    """List the packaged recipes by task, or show one: a start for your own."""
    import yaml

    from ..io.names import did_you_mean
    from ..recipes import packaged_recipes, recipe_name
    from ..tasks import TASKS, task_of_type

    texts = {recipe_name(path): path.read_text(encoding="utf-8") for path in packaged_recipes()}
    if word in texts:
        print(texts[word], end="")
        return
    lines: dict[str, list[tuple[str, str]]] = {task.name: [] for task in TASKS}
    for name, text in texts.items():
        values = yaml.safe_load(text)
        model_type = values.get("model_type")
        task = next(task for task in TASKS if values["dataset"] in [corpus.name for corpus in task.corpora])
        if model_type not in (None, *task.model_types):
            task = task_of_type(model_type) or task
        if word is None or word.lower() in f"{name}\n{task.name}\n{text}".lower():
            lines[task.name].append((name, values["description"]))
    if not any(lines.values()):
        raise ValueError(f"no recipe has {word!r} in its name, task or text.{did_you_mean(word, list(texts))}")
    most = shutil.get_terminal_size().columns if in_terminal() else 1000
    for title, rows in lines.items():
        if not rows:
            continue
        print(title)
        width = max(len(name) for name, _ in rows)
        for name, description in rows:
            line = f"  {name:{width}}  {description}"
            print(line if len(line) <= most else f"{line[: most - 1]}…")
