# SPDX-License-Identifier: Apache-2.0
"""A Space that shows a model of targeted sentiment: these functions become part of its app.py, and import nothing."""


def ask(run, text: str) -> list[dict]:
    """The sentiment towards every aspect of every target that the text names."""
    return run(text)
