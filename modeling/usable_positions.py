# SPDX-License-Identifier: Apache-2.0
"""How many tokens a text encoder takes."""

# Beside those with "roberta" in their name: encoders whose positions begin after the padding index.
_LIKE_ROBERTA = (
    *("camembert", "data2vec-text", "esm", "ibert", "layoutlmv3", "lilt", "longformer", "luke", "markuplm", "mpnet"),
    "xmod",
)

UNBOUNDED = 1_000_000  # of encoders whose positions are relative and have no end


def usable_positions(config) -> int:
    """
    `max_position_embeddings`; for RoBERTa and its kin less the rows up to the padding index, where their positions begin. Of a model
    over an encoder (`encoder_config`) those of the encoder.
    """
    config = getattr(config, "encoder_config", None) or config
    if (getattr(config, "max_position_embeddings", None) or 0) < 1:
        return UNBOUNDED
    if "roberta" not in config.model_type and config.model_type not in _LIKE_ROBERTA:
        return config.max_position_embeddings
    padding = 1 if config.model_type == "mpnet" else config.pad_token_id  # MPNet's positions begin at 2 in any case
    return config.max_position_embeddings - padding - 1


__all__ = ["usable_positions"]
