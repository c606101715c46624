# SPDX-License-Identifier: Apache-2.0
"""Packages that only some installations have."""

import importlib.util


def require(package: str, what: str, extra: str) -> None:
    """ModuleNotFoundError, which says how to install it, unless there is a package that `what` needs."""
    if importlib.util.find_spec(package) is None:
        raise ModuleNotFoundError(f"{what} needs {package}: pip install 'hf-emotion[{extra}]'")
