# SPDX-License-Identifier: Apache-2.0
"""What the handler of an Inference Endpoint answers: this function becomes part of handler.py, and imports nothing."""


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
