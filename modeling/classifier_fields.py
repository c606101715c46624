# SPDX-License-Identifier: Apache-2.0
"""What the configurations of the classifiers share."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from transformers import PreTrainedConfig
from transformers.utils import logging

from .text_processing import RULES


logger = logging.get_logger(__name__)

# Fields with a value for each label, and what was fitted to the logits of all labels.
LABEL_FIELDS = ("class_counts", "class_weights", "thresholds", "calibration_temperature", *RULES)

if TYPE_CHECKING:
    from transformers import PreTrainedConfig as _Config
else:
    _Config = object


class ClassifierFields(_Config):
    """
    A base of configurations of classifiers, to name first: when the labels change, values that belonged to the old ones are
    dropped; a `problem_type` that is not among `problem_types` is refused.
    """

    problem_types: ClassVar[tuple[str | None, ...]] = ("single_label_classification", "multi_label_classification")

    @classmethod
    def from_dict(cls, config_dict: Mapping[str, Any], **kwargs):
        """As in every configuration. `LABEL_FIELDS` for other labels are dropped with a warning, unless new values are given."""
        cls.check_checkpoint(config_dict)
        # Merged here, so that the checks see the arguments of `from_pretrained` and not only the saved fields.
        given = {name: kwargs.pop(name) for name in list(kwargs) if name in (*cls.__dataclass_fields__, *LABEL_FIELDS)}
        config_dict = dict(config_dict)
        if (
            config_dict.get("model_type") != cls.model_type
            and config_dict.get("problem_type") not in cls.problem_types
        ):
            config_dict.pop("problem_type", None)  # that of another head
        old = label_names(config_dict)
        number = kwargs.get("num_labels", config_dict.get("num_labels"))
        if given.get("id2label") is None and number not in (None, len(old)):
            config_dict.pop("id2label", None)
            config_dict.pop("label2id", None)
        if label_names({**config_dict, **given, "num_labels": number}) != old:
            stale = [name for name in LABEL_FIELDS if config_dict.pop(name, None) is not None and name not in given]
            warn_of_dropped(stale)
        return super().from_dict({**config_dict, **given}, **kwargs)

    @classmethod
    def check_checkpoint(cls, config_dict: Mapping[str, Any]) -> None:
        """ValueError if a checkpoint's config.json is for an architecture that the model is not built over."""

    def validate_problem_type(self):
        if self.problem_type not in self.problem_types:
            known = " or ".join(map(repr, self.problem_types))
            raise ValueError(f"`problem_type` of {type(self).__name__} must be {known}, got {self.problem_type!r}.")

    @property
    def num_labels(self) -> int:
        """As in every configuration; another number drops `LABEL_FIELDS` with a warning."""
        return super().num_labels

    @num_labels.setter
    def num_labels(self, number: int):
        old = self.num_labels
        PreTrainedConfig.num_labels.fset(self, number)
        if old not in (None, number):
            stale = [name for name in LABEL_FIELDS if getattr(self, name, None) is not None]
            for name in stale:
                setattr(self, name, None)
            warn_of_dropped(stale)


def label_names(config_dict: Mapping[str, Any]) -> list[str]:
    """The names of the labels in a config.json, which leaves out the names of two unnamed labels."""
    names = config_dict.get("id2label")
    if names is None:
        return [f"LABEL_{i}" for i in range(config_dict.get("num_labels") or 2)]
    return [name for _, name in sorted((int(i), name) for i, name in names.items())]


def warn_of_dropped(fields: list[str]) -> None:
    if fields:
        names = ", ".join(f"`{name}`" for name in fields)
        logger.warning(
            f"The labels are new: {names} of the old ones are dropped. Give the new labels their own, if they need any."
        )


__all__ = ["ClassifierFields", "warn_of_dropped"]
