# SPDX-License-Identifier: Apache-2.0
"""Label sets: GoEmotions' 28 labels (Demszky et al. 2020) and their groupings."""

from collections.abc import Mapping, Sequence
from typing import Literal

from .io.names import did_you_mean


GOEMOTIONS = (
    "admiration amusement anger annoyance approval caring confusion curiosity desire disappointment disapproval disgust "
    "embarrassment excitement fear gratitude grief joy love nervousness optimism pride realization relief remorse sadness "
    "surprise neutral"
).split()

EKMAN = {
    "anger": ["anger", "annoyance", "disapproval"],
    "disgust": ["disgust"],
    "fear": ["fear", "nervousness"],
    "joy": ("joy amusement approval excitement gratitude love optimism relief pride admiration desire caring".split()),
    "sadness": ["sadness", "disappointment", "embarrassment", "grief", "remorse"],
    "surprise": ["surprise", "realization", "confusion", "curiosity"],
    "neutral": ["neutral"],
}

SENTIMENT = {
    "positive": (
        "amusement excitement joy love desire optimism caring pride admiration gratitude relief approval".split()
    ),
    "negative": (
        "fear nervousness remorse embarrassment disappointment sadness grief disgust anger annoyance disapproval".split()
    ),
    "ambiguous": ["realization", "surprise", "curiosity", "confusion"],
    "neutral": ["neutral"],
}

# The negative emotions of these 28, and of corpora of dialogues.
NEGATIVE = {*SENTIMENT["negative"], *"angry disgusted frustrated frustration mad sad scared worry".split()}

# name -> {group: labels}; the finest taxonomy has one label per group
NO_ROLL_UP = "goemotions"  # the taxonomy that leaves the labels as they are
TAXONOMIES: dict[str, dict[str, list[str]]] = {
    NO_ROLL_UP: {label: [label] for label in GOEMOTIONS},
    "ekman": EKMAN,
    "sentiment": SENTIMENT,
}
Taxonomy = Literal["goemotions", "ekman", "sentiment"]


def groups_of(taxonomy: str) -> dict[str, list[str]]:
    """The groups of a taxonomy; ValueError for an unknown one, with the known names."""
    if not isinstance(taxonomy, str) or taxonomy not in TAXONOMIES:
        raise ValueError(f"`taxonomy` must be one of {sorted(TAXONOMIES)}, got {taxonomy!r}.")
    return TAXONOMIES[taxonomy]


def group_index(taxonomy: str | Mapping[str, Sequence[str]], labels: list[str]) -> dict[str, list[int]]:
    """For each group of the taxonomy, a name or groups of one's own, the positions of its labels in `labels`."""
    if not isinstance(taxonomy, str):
        return own_groups(taxonomy, labels)
    groups = groups_of(taxonomy)
    if set(labels) != set(GOEMOTIONS):
        raise ValueError(f"taxonomy {taxonomy!r} groups the 28 GoEmotions labels, and the labels are {labels}.")
    return {group: [labels.index(label) for label in members] for group, members in groups.items()}


def own_groups(groups: Mapping[str, Sequence[str]], labels: list[str]) -> dict[str, list[int]]:
    """For each group the positions of its labels in `labels`; they need not hold all labels, and may share some. ValueError for others."""
    fits = (
        isinstance(groups, Mapping) and groups and all(isinstance(of, list | tuple) and of for of in groups.values())
    )
    if not fits:
        raise ValueError(
            f"groups of labels are written as NAME: [LABEL, LABEL], each with one label or more, got {groups!r}."
        )
    for name, members in groups.items():
        for label in members:
            if label not in labels:
                raise ValueError(
                    f"group {str(name)!r}: no label {label!r}.{did_you_mean(label, labels)} The labels are {labels}."
                )
    return {str(name): [labels.index(label) for label in dict.fromkeys(members)] for name, members in groups.items()}
