# SPDX-License-Identifier: Apache-2.0
"""Which versions of transformers the models were tested with: those that are made of parts of its own models depend on its internals."""

import transformers
from transformers.utils import logging


TESTED = "transformers>=5.18,<5.25"  # as in pyproject.toml
logger = logging.get_logger(__name__)


def warn_if_untested() -> None:
    """Say once that the installed transformers is newer than those that were tested."""
    if _numbers(transformers.__version__) >= _numbers(TESTED.partition("<")[2]):
        tested = f"was tested with {TESTED}, and {transformers.__version__} is installed"
        logger.warning_once(f"The code of this model {tested}: it may compute something else.")


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")[:2]]
