# SPDX-License-Identifier: Apache-2.0
"""
What the results of all tasks have. Each task's `results.py` says what its models answer: predictors return it, files and the command line
show it, and the service takes its schema from it. They are dictionaries, so that they are ready for JSON.
"""

from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from ..runtime.unread import Readable


class Label(TypedDict):
    """A label and its probability in [0, 1], or its value in the range of a regression."""

    label: str
    score: float


__all__ = ["Label", "Readable"]
