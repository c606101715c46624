# SPDX-License-Identifier: Apache-2.0
from .predictor import Predictor


__all__ = ["Predictor"]
