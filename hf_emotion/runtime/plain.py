# SPDX-License-Identifier: Apache-2.0
"""`text_processing` of modeling/ without the package around it, which needs torch and takes longer to import than an answer."""

import importlib.machinery
import importlib.util
import sys
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from ..modeling import text_processing
else:
    _NAME = "hf_emotion.modeling.text_processing"
    if _NAME not in sys.modules:  # the same object that the package gives
        package = importlib.util.find_spec("hf_emotion.modeling")  # found, not run
        spec = importlib.machinery.PathFinder.find_spec(_NAME, list(package.submodule_search_locations))
        sys.modules[_NAME] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[_NAME])
    text_processing = sys.modules[_NAME]

# A warning of what `text_processing` does.
WINDOWS_CHARACTERS = (
    "%d of %d texts hold control characters that are characters of Windows-1252, such as \\x92 for an apostrophe: they are "
    "read as these"
)

__all__ = ["WINDOWS_CHARACTERS", "text_processing"]
