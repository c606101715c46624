# SPDX-License-Identifier: Apache-2.0
"""Answers for a model of hf-emotion on Hugging Face Inference Endpoints, which look for this file and class beside the model."""

from typing import Any

import torch
from transformers import pipeline


# The function of the model's task: `push --handler` writes `Task.respond` in its place.


def respond(run, inputs, parameters: dict) -> Any:
    """Answer to inputs, by the pipeline `run`."""


# The class.


class EndpointHandler:
    """What an endpoint calls."""

    def __init__(self, path: str = ""):
        device = 0 if torch.cuda.is_available() else "cpu"
        self.run = pipeline("PIPELINE", model=path or ".", trust_remote_code=True, device=device)

    def __call__(self, data: dict[str, Any]) -> list:
        """Answer to `{"inputs": ..., "parameters": {...}}`; see `respond`. ValueError, for which an endpoint answers 400: wrong inputs."""
        inputs, parameters = data.get("inputs"), data.get("parameters") or {}
        if not isinstance(inputs, str | list) or not inputs or not isinstance(parameters, dict):
            raise ValueError("`inputs` must be a text, or a list that is not empty, and `parameters` an object.")
        return respond(self.run, inputs, parameters)
