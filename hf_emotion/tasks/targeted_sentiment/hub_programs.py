# SPDX-License-Identifier: Apache-2.0
"""What the published programs of a model do: these functions become part of a Space's app.py and of an endpoint's handler.py, and import nothing."""


def ask(run, text: str) -> list[dict]:
    """The sentiment towards every aspect of every target that the text names."""
    return run(text)


def respond(run, inputs, parameters: dict) -> list:
    """For a text a list with an entry for each target and aspect, for several texts a list of such lists; `parameters`: `targets`, `aspects`."""
    return run(inputs, **parameters)
