# SPDX-License-Identifier: Apache-2.0
"""How many tokens a text encoder takes."""


def usable_positions(config) -> int:
    """
    `max_position_embeddings`; for RoBERTa and its kin less the rows up to the padding index, where their positions begin.
    """
    if any(name in config.model_type for name in ("roberta", "camembert", "mpnet", "longformer")):
        return config.max_position_embeddings - config.pad_token_id - 1
    return config.max_position_embeddings


__all__ = ["usable_positions"]
