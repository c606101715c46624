# SPDX-License-Identifier: Apache-2.0
"""Imports the library `datasets` when it is first used: listing the corpora need not wait a second for it."""

import importlib
from typing import TYPE_CHECKING, Any


class _Lazy:
    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


if TYPE_CHECKING:
    import datasets
else:
    datasets = _Lazy("datasets")

__all__ = ["datasets"]
