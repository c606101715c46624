# SPDX-License-Identifier: Apache-2.0
"""The rows of one split, checked one by one."""

import logging
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from datasets import ClassLabel, Dataset, Features, List, Value


logger = logging.getLogger(__name__)

OnBadRows = Literal["error", "skip"]


class Rows:
    """
    Collects the valid rows of one split, and does with the others what `on_bad_rows` says.

    Args:
        source: file or corpus, for messages.
        on_bad_rows: "error", or "skip" to drop, count and list bad rows.
        unit: what the numbers count, for messages: "line", "sentence".
    """

    def __init__(self, source: Path | str, on_bad_rows: OnBadRows, unit: str = "line"):
        if on_bad_rows not in ("error", "skip"):
            raise ValueError(f"`on_bad_rows` must be 'error' or 'skip', got {on_bad_rows!r}.")
        self.source, self.skip, self.unit = source, on_bad_rows == "skip", unit
        self.rows: list[dict[str, Any]] = []
        self.bad: list[str] = []

    def reject(self, line: int | str, reason: str) -> None:
        message = f"{self.source}, {self.unit} {line}: {reason}"
        if not self.skip:
            raise ValueError(f"{message} (mend the row, or drop such rows with on_bad_rows='skip')")
        self.bad.append(message)

    def add(self, line: int | str, text: Any, labels: Any, row_id: str, **columns: Any) -> None:
        if not isinstance(text, str) or not text.strip():
            self.reject(line, f"the text is empty or no string: {text!r}")
        else:
            text = unicodedata.normalize("NFC", text)
            self.rows.append({"id": row_id, "text": text, **columns, "labels": labels, "line": line})

    def to_dataset(
        self, names: Sequence[str], multi_label: bool = False, columns: Mapping[str, Any] | None = None
    ) -> Dataset:
        """The dataset with the columns `id`, `text`, those of `columns` ({name: feature}), and `labels`."""
        if self.bad:
            logger.warning("%d bad rows skipped:\n  %s", len(self.bad), "\n  ".join(self.bad))
        label = ClassLabel(names=list(names))
        features = Features(
            {
                "id": Value("string"),
                "text": Value("string"),
                **(columns or {}),
                "labels": List(label) if multi_label else label,
            }
        )
        values = {name: [row[name] for row in self.rows] for name in features}
        return Dataset.from_dict(values, features=features)
