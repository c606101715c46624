# SPDX-License-Identifier: Apache-2.0
"""Emotion and aspect-sentiment models as first-class Hugging Face models, and the toolkit around them."""

import importlib
import re
from pathlib import Path
from typing import Any


# The names and their modules. They are imported when first used, so that `import hf_emotion` loads neither torch nor transformers.
_STUB = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_HOMES = {name: home for home, name in re.findall(r"^from (\S+) import (\w+)", _STUB, re.MULTILINE)}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES[name]
    module = importlib.import_module(f".{name}" if home == "." else home, __name__)
    globals()[name] = value = module if home == "." else getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
