# SPDX-License-Identifier: Apache-2.0
"""Names of methods, and of models, which are checked without asking the Hub. Needs neither torch nor transformers."""

import re
from pathlib import Path


METHODS = ("attention", "gradient", "integrated-gradients", "occlusion")  # of `explain`
RECIPE, CONFIG, METRICS = "recipe.yaml", "config.json", "metrics.json"  # files of a run folder


def check_local(name: str | Path, argument: str) -> None:
    """Refuse a wrong name of a model at once, without asking the Hub; `argument` holds the name, for messages, such as "--base-model"."""
    path = Path(name)
    if path.is_dir() and (path / RECIPE).is_file() and not (path / CONFIG).exists() and not (path / METRICS).exists():
        raise OSError(
            f"{argument} {str(name)!r} is a run that has not ended: it has no {METRICS}. Go on with it: hf-emotion train "
            f"{path / RECIPE} --output {path} --resume (and the --data-dir of before, if any)."
        )
    if not path.exists() and is_path(str(name)):
        raise FileNotFoundError(
            f"{argument} {str(name)!r} cannot be loaded: there is no such folder, and a model of the Hub has the form OWNER/NAME."
        )


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
