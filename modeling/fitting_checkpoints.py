# SPDX-License-Identifier: Apache-2.0
"""Refuses checkpoints that do not fit a model: transformers would leave the encoder at random values, with only a report."""

from collections.abc import Mapping, Sequence
from typing import Any

from transformers import PreTrainedConfig

from .adapter_checks import TrainsNewWeights


# Arguments of `from_pretrained` that say where a file comes from.
HUB_ARGUMENTS = ("cache_dir", "force_download", "local_files_only", "proxies", "revision", "subfolder", "token")

# Model types whose checkpoints have an encoder with the architecture and weight names of BERT, or of RoBERTa.
BERT_TYPES = ("bert", "label-aware-bert", "cg-bert", "qacg-bert")
ROBERTA_TYPES = ("roberta", "xlm-roberta", "camembert", "roberta-esa")


def refuse_other_checkpoints(config_dict: Mapping[str, Any], fitting: Sequence[str], remedy: str = "") -> None:
    """ValueError if a config.json names a model type that is not among `fitting`. `remedy`: what to do instead."""
    found = config_dict.get("model_type", fitting[0])
    if found not in fitting:
        known = " or ".join(f'"{name}"' for name in fitting)
        raise ValueError(f'the checkpoint must be one of {known}, got one of "{found}"{remedy and ": "}{remedy}.')


def refuse_other_encoders(config_dict: Mapping[str, Any], fitting: Sequence[str]) -> None:
    """As `refuse_other_checkpoints`, for classifiers; the error says which class fits."""
    remedy = "AutoModelForSequenceClassification takes an encoder of any kind"
    for model, types in (
        ("BertForLabelAwareClassification", BERT_TYPES),
        ("RobertaWithESAForSequenceClassification", ROBERTA_TYPES),
    ):
        if config_dict.get("model_type") in types:
            remedy = f"{model} fits it"
    refuse_other_checkpoints(config_dict, fitting, remedy)


class OverEncoder(TrainsNewWeights):
    """
    A base of models over a pretrained encoder, to name first: it checks the checkpoint itself even if a fitting `config` is
    given, and notes the weights that the checkpoint lacks.
    """

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path, *args, config=None, output_loading_info: bool = False, **kwargs
    ):
        """
        As in every model of transformers.

        Raises:
            ValueError: the checkpoint has another architecture.
        """
        if isinstance(config, PreTrainedConfig) and pretrained_model_name_or_path is not None:
            hub = {name: kwargs[name] for name in HUB_ARGUMENTS if name in kwargs}
            try:
                config_dict, _ = cls.config_class.get_config_dict(pretrained_model_name_or_path, **hub)
            except OSError:  # weights without a config.json
                config_dict = {}
            cls.config_class.check_checkpoint(config_dict)
        model, info = super().from_pretrained(
            pretrained_model_name_or_path, *args, config=config, output_loading_info=True, **kwargs
        )
        model._new_weights = frozenset(info["missing_keys"]) | {name for name, *_ in info["mismatched_keys"]}
        return (model, info) if output_loading_info else model


__all__ = [
    "BERT_TYPES",
    "HUB_ARGUMENTS",
    "ROBERTA_TYPES",
    "OverEncoder",
    "refuse_other_checkpoints",
    "refuse_other_encoders",
]
