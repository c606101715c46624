# SPDX-License-Identifier: Apache-2.0
"""What tells one model from another. Needs neither torch nor transformers."""

import hashlib
import json

from ..tasks.predictor import AnyPredictor


def fingerprint(predictor: AnyPredictor) -> str:
    """A hash of the configuration, the TF-IDF gate, and the sum of every parameter or the files of an exported model."""
    if predictor.identity is not None:  # behind a service
        return hashlib.sha256(json.dumps(predictor.identity, sort_keys=True).encode()).hexdigest()
    digest = hashlib.sha256(predictor.model.config.to_json_string().encode())
    if predictor.gate is not None:
        digest.update(predictor.gate.to_json().encode())
    if getattr(predictor.model, "takes_arrays", False):  # exported
        for path in sorted(predictor.model.folder.iterdir()):
            if path.suffix in (".onnx", ".data", ".bin"):  # graphs, and weights that lie beside them
                with path.open("rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()
    for parameter in predictor.model.parameters():
        digest.update(str(parameter.detach().double().sum().item()).encode())
    return digest.hexdigest()
