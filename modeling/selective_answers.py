# SPDX-License-Identifier: Apache-2.0
"""
What turns the logits of classifiers into answers, from the configuration. This file imports nothing.

`calibration_temperature`: logits are divided by it, so that probabilities agree with frequencies. Two rules let a model say "I do not
know" or give a set of labels. Each is a threshold of probabilities that was chosen on validation rows and is kept as
`{"coverage": WANTED, "threshold": T}`:

`abstention`: the model gives no label to a text whose confidence, the largest probability of a label, is below T.
`prediction_sets`: it gives all labels whose probability is at least T, whatever their decision thresholds.
"""

RULES = ("abstention", "prediction_sets")
ABSTAINED = "abstained"  # stands where the labels would be


def temperature_of(config) -> float:
    """
    `config.calibration_temperature`, by which logits are divided before the sigmoid or the softmax (Guo et al. 2017); 1.0 if the
    configuration has none.

    Raises:
        ValueError: it is not a positive number.
    """
    value = getattr(config, "calibration_temperature", None)
    if value is None:
        return 1.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise ValueError(f"`config.calibration_temperature` must be a positive number or None, got {value!r}.")
    return float(value)


def threshold_of(config, rule: str) -> float | None:
    """
    The threshold of one of the `RULES` in a configuration; None if it has no such rule.

    Raises:
        ValueError: the rule is malformed; both rules are there; a label has the name that an abstention gives.
    """
    given = [name for name in RULES if getattr(config, name, None) is not None]
    if rule not in given:
        return None
    if len(given) > 1:
        raise ValueError(
            "`config` has both `abstention` and `prediction_sets`, and a text gets one answer: set one of them to None."
        )
    value = getattr(config, rule)
    threshold = value.get("threshold") if isinstance(value, dict) else None
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
        raise ValueError(
            f"`config.{rule}` must hold a `threshold` in [0, 1], as in {{'coverage': 0.9, 'threshold': 0.6}}, got {value!r}."
        )
    if rule == "abstention" and ABSTAINED in config.id2label.values():
        raise ValueError(
            f"`config.abstention`: a label of the model is named {ABSTAINED!r}, which here stands for no answer: rename it in "
            "`config.id2label`, or set `config.abstention` to None."
        )
    return float(threshold)


__all__ = ["ABSTAINED", "RULES", "temperature_of", "threshold_of"]
