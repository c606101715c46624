# SPDX-License-Identifier: Apache-2.0
"""Tells how many tokens a text encoder takes."""

# Encoders whose positions begin after the padding index, besides those with "roberta" in their name.
_LIKE_ROBERTA = (
    *("camembert", "data2vec-text", "esm", "ibert", "layoutlmv3", "lilt", "longformer", "luke", "markuplm", "mpnet"),
    "xmod",
)

UNBOUNDED = 1_000_000  # encoders with relative positions, which have no limit


def usable_positions(config) -> int:
    """
    `max_position_embeddings`; for RoBERTa and similar encoders without the rows up to the padding index. For a model over an
    encoder (`encoder_config`) the encoder's.
    """
    config = getattr(config, "encoder_config", None) or config
    if (getattr(config, "max_position_embeddings", None) or 0) < 1:
        return UNBOUNDED
    if "roberta" not in config.model_type and config.model_type not in _LIKE_ROBERTA:
        return config.max_position_embeddings
    padding = 1 if config.model_type == "mpnet" else config.pad_token_id  # MPNet's positions begin at 2 in any case
    return config.max_position_embeddings - padding - 1


__all__ = ["usable_positions"]
