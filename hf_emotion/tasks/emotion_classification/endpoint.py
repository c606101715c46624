# SPDX-License-Identifier: Apache-2.0
"""An Inference Endpoint with a model of texts: this function becomes part of its handler.py, and imports nothing."""


def respond(run, inputs, parameters: dict) -> list:
    """For a text a list of {"label", "score"}, for several texts a list of such lists; `parameters`: `top_k` and others of the pipeline."""
    return run(inputs, **{"truncation": True, **parameters})
