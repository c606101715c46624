# SPDX-License-Identifier: Apache-2.0
"""`datasets` and `numpy`, imported when they are first used: help texts and lists of corpora need not wait for them."""

import importlib
from typing import TYPE_CHECKING, Any


class _Lazy:
    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


if TYPE_CHECKING:
    import datasets
    import numpy
else:
    datasets, numpy = _Lazy("datasets"), _Lazy("numpy")

__all__ = ["datasets", "numpy"]
