# SPDX-License-Identifier: Apache-2.0
"""What the handler of an Inference Endpoint answers: this function becomes part of handler.py, and imports nothing."""


def respond(run, inputs, parameters: dict) -> list:
    """
    For a dialogue, a list of turns, a list with an entry for each turn; for a list of dialogues a list of such lists. A turn is an utterance
    or {"speaker": ..., "utterance": ...}; a single text is a dialogue of one turn.
    """
    return run([inputs] if isinstance(inputs, str) else inputs, **parameters)
