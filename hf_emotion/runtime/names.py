# SPDX-License-Identifier: Apache-2.0
"""Checks the name of a model without asking the Hub. Needs neither torch nor transformers."""

import re
from pathlib import Path

from ..io.names import did_you_mean


RECIPE, CONFIG, METRICS = "recipe.yaml", "config.json", "metrics.json"


def check_local(name: str | Path, argument: str) -> None:
    """
    Refuse a wrong name of a checkpoint or base model at once; asking the Hub would take half a minute and more.

    Args:
        name: a local folder or a Hub id.
        argument: the argument that holds the name, for messages, such as "--base-model".

    Raises:
        FileNotFoundError: the path is no folder, or the name is nearly that of a ready model; the message says what is near it.
        OSError: the folder of a run that has not ended.
    """
    path = Path(name)
    if path.is_dir():
        if (path / RECIPE).is_file() and not (path / CONFIG).exists() and not (path / METRICS).exists():
            done = sorted(found.parent.relative_to(path).as_posix() for found in path.glob(f"*/{CONFIG}"))
            raise OSError(
                f"{argument} {str(name)!r} is a run that has not ended, so it is no model yet: it has no {METRICS}. Go on with it: "
                f"hf-emotion train {path / RECIPE} --output {path} --resume (and the --data-dir of before, if any)."
                + (f" Its folders {done} are models." if done else "")
            )
    elif path.exists():
        return
    elif is_path(str(name)):
        beside = [str(found) for found in path.parent.iterdir() if found.is_dir()] if path.parent.is_dir() else []
        raise FileNotFoundError(
            f"{argument} {str(name)!r} cannot be loaded: there is no such folder, and a model of the Hub has the form OWNER/NAME."
            + did_you_mean(path, beside)
        )
    elif hint := _near_ready(str(name)):
        raise FileNotFoundError(f"{argument} {str(name)!r}: there is no such model.{hint}")


def _near_ready(name: str) -> str:
    """A guess which ready model is meant; none for the name of one, and for OWNER/NAME, which is a model of the Hub."""
    from .ready import find_ready, ready_models

    if "/" in name or find_ready(name) is not None:
        return ""
    return did_you_mean(name, [model.name for model in ready_models()], cutoff=0.8)


def is_path(name: str) -> bool:
    """Whether a name can only be a path: its form is not OWNER/NAME, or its folder holds runs."""
    parent = Path(name).parent
    return (
        re.match(r"[./~\\]|[A-Za-z]:[/\\]|runs/", name) is not None
        or "\\" in name
        or name.endswith("/")
        or name.count("/") > 1
        or (parent != Path() and any(parent.glob(f"*/{RECIPE}")))
    )
