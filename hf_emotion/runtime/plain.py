# SPDX-License-Identifier: Apache-2.0
"""
Imports the files of modeling/ that need neither torch nor transformers, without the package, which needs both: an exported model
answers in less time than importing torch takes.
"""

import importlib.machinery
import importlib.util
import sys
from types import ModuleType
from typing import TYPE_CHECKING


def _plain(name: str) -> ModuleType:
    """The module `hf_emotion.modeling.NAME`, the same object that the package gives."""
    full = f"hf_emotion.modeling.{name}"
    if full not in sys.modules:
        package = importlib.util.find_spec("hf_emotion.modeling")  # found, not run
        assert package is not None and package.submodule_search_locations is not None
        spec = importlib.machinery.PathFinder.find_spec(full, list(package.submodule_search_locations))
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[full] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[full]
            raise
    return sys.modules[full]


if TYPE_CHECKING:
    from ..modeling import (
        dialogue_turns,
        readable,
        selective_answers,
        target_texts,
        text_windows,
        tfidf_gate,
        usable_positions,
    )
else:  # the order matters: dialogue_turns imports the first two
    readable, usable_positions, dialogue_turns, selective_answers, target_texts, text_windows, tfidf_gate = map(
        _plain,
        (
            "readable",
            "usable_positions",
            "dialogue_turns",
            "selective_answers",
            "target_texts",
            "text_windows",
            "tfidf_gate",
        ),
    )

__all__ = [
    "dialogue_turns",
    "readable",
    "selective_answers",
    "target_texts",
    "text_windows",
    "tfidf_gate",
    "usable_positions",
]
