# SPDX-License-Identifier: Apache-2.0
"""A Space that shows a model of most tasks: this function becomes part of its app.py, and imports nothing."""


def choices(run) -> dict[str, list[str]]:
    """What a user chooses besides the text: nothing."""
    return {}
