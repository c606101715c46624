# SPDX-License-Identifier: Apache-2.0
"""What the published programs of a model do: these functions become part of a Space's app.py and of an endpoint's handler.py, and import nothing."""


def ask(run, text: str, emotion: str) -> list[dict]:
    """A reply in the chosen emotion."""
    return run((text, emotion))


def choices(run) -> dict[str, list[str]]:
    """What a user chooses besides the text."""
    return {"Emotion": run.model.config.emotions}


def respond(run, inputs, parameters: dict) -> list:
    """
    For a text a list of {"emotion", "generated_text"}, for several texts a list of such lists; `parameters`: `emotions`, names or mixtures
    {name: weight} (default: all of the model), and arguments of `generate`.
    """
    parameters = dict(parameters)
    emotions = parameters.pop("emotions", None) or run.model.config.emotions
    if not isinstance(emotions, list):
        emotions = [emotions]
    texts = [inputs] if isinstance(inputs, str) else inputs
    replies = [[reply for emotion in emotions for reply in run((text, emotion), **parameters)] for text in texts]
    return replies[0] if isinstance(inputs, str) else replies
