# SPDX-License-Identifier: Apache-2.0
"""What the published programs of a model do: these functions become part of a Space's app.py and of an endpoint's handler.py, and import nothing."""


def ask(run, text: str) -> list[dict]:
    """The ten most probable labels."""
    return run(text, top_k=10, truncation=True)


def respond(run, inputs, parameters: dict) -> list:
    """For a text a list of {"label", "score"}, for several texts a list of such lists; `parameters`: `top_k` and others of the pipeline."""
    if (
        run.task == "text-classification"
    ):  # that of transformers, which fails at long texts; ours reads them in windows
        parameters = {"truncation": True, **parameters}
    return run(inputs, **parameters)
