# SPDX-License-Identifier: Apache-2.0
"""What the handler of an Inference Endpoint answers: this function becomes part of handler.py, and imports nothing."""


def respond(run, inputs, parameters: dict) -> list:
    """For a text a list of {"label", "score"}, for several texts a list of such lists; `parameters`: `top_k` and others of the pipeline."""
    if (
        run.task == "text-classification"
    ):  # that of transformers, which fails at long texts; ours reads them in windows
        parameters = {"truncation": True, **parameters}
    return run(inputs, **parameters)
