# SPDX-License-Identifier: Apache-2.0
"""What a corpus is, and which task its rows are of."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..io.names import did_you_mean


COMMON = {"dedupe": bool, "oversample": bool, "misspelt": float | int}  # options that every corpus has


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """
    A corpus.

    Attributes:
        name: its name in recipes and commands.
        loader: (data_dir, **options) -> `datasets.DatasetDict`.
        hub_id: the data set on the Hub; None if it is not on the Hub.
        languages: codes of its languages; empty if they are not known.
        terms: licence (first) or terms of use, and who published it.
        metrics: the functions of `hf_emotion.metrics` that measure single-label predictions. Each takes (gold, probabilities,
            label names) or (gold, probabilities), and adds its figures to those before it.
        selection_metric: the metric on the validation part that chooses the epoch.
        example: a text for the model card; None: a placeholder.
        packaged: whether it comes with hf-emotion and needs no `data_dir`.
        own_files: whether it holds the user's own data, read from the files in `data_dir`.
        clean_reply: (reply, label names) -> the part of a generated reply that is measured.
        published_table: the table in `tasks.published` with figures of generated replies.
        added: option of the loader -> the corpora whose training rows it adds.
    """

    name: str
    loader: Callable[..., Any]
    hub_id: str | None = None
    languages: tuple[str, ...] = ("en",)
    terms: str
    metrics: tuple[str, ...] = ("classification",)
    selection_metric: str = "macro_f1"
    example: str | None = None
    packaged: bool = False
    own_files: bool = False
    clean_reply: Callable[[str, Sequence[str]], str] | None = None
    published_table: str | None = None
    added: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def is_free(self) -> bool:
        """Whether its terms leave the licence of a model open, as CC0 and CC BY do."""
        return self.terms.startswith(("CC0 ", "CC BY 4.0"))

    @property
    def options(self) -> list[str]:
        """The options that its loader takes, besides `data_dir`."""
        return [option for option in inspect.signature(self.loader).parameters if option != "data_dir"]

    def check(self, options: Mapping[str, Any]) -> None:
        """ValueError unless its loader takes the options, or every corpus does."""
        from huggingface_hub.dataclasses import type_validator

        known = [*self.options, *COMMON]
        for option, value in options.items():
            if option not in known:
                raise ValueError(
                    f"unknown option {option!r} for {self.name!r}: the options are {known}.{did_you_mean(option, known)}"
                )
            parameters = inspect.signature(self.loader, eval_str=True).parameters
            hint = parameters[option].annotation if option in parameters else COMMON[option]
            try:
                type_validator(option, value, hint)
            except TypeError as error:
                what = inspect.formatannotation(hint).replace("collections.abc.", "")
                raise ValueError(
                    f"the option {option!r} for the dataset {self.name!r} must be {what}, got {value!r}."
                ) from error


def mark(rows: Any, task: str) -> Any:
    """Rows just made, marked with the name of their task: every selection and copy of them keeps it."""
    rows.info.config_name = task
    return rows


def rows_of(task: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A loader whose rows are of this task, unless it marks them itself."""

    def decorate(loader: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(loader)
        def load(*arguments: Any, **options: Any) -> Any:
            splits = loader(*arguments, **options)
            for rows in splits.values():
                if rows.info.config_name is None:
                    mark(rows, task)
            return splits

        return load

    return decorate


OWN_TERMS = "the user's own files: name their terms here before publishing (`data_license`, `data_terms` in a recipe)"
