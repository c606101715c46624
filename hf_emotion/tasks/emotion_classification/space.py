# SPDX-License-Identifier: Apache-2.0
"""A Space that shows a model of texts: these functions become part of its app.py, and import nothing."""


def ask(run, text: str) -> list[dict]:
    """The ten most probable labels."""
    return run(text, top_k=10, truncation=True)
