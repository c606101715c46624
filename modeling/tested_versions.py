# SPDX-License-Identifier: Apache-2.0
"""Which versions of transformers the models were tested with: those that are made of parts of its own models depend on its internals."""

import transformers
from transformers.utils import logging


OLDEST, NEWEST = "5.17", "5.24"
logger = logging.get_logger(__name__)


def warn_if_untested() -> None:
    """Say once that the installed transformers is newer than those that were tested."""
    if _numbers(transformers.__version__) > _numbers(NEWEST):
        tested = f"was tested with transformers {OLDEST} to {NEWEST}, and {transformers.__version__} is installed"
        logger.warning_once(f"The code of this model {tested}: if they differ, it may compute something else.")


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")[:2]]
