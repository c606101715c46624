# SPDX-License-Identifier: Apache-2.0
"""How long a text may be, against encoders that run it."""

import pytest
import torch
from hf_emotion.modeling.text_processing import usable_positions
from model_cases import TINY_BERT
from transformers import AutoConfig, AutoModel


# What reads a text without more (LiLT's boxes and LayoutLMv3's images may be left out), and has a table of positions.
FROM_THE_PADDING_INDEX = (
    *("roberta", "roberta-prelayernorm", "xlm-roberta", "xlm-roberta-xl", "camembert", "xmod", "data2vec-text"),
    *("ibert", "luke", "longformer", "mpnet", "esm", "lilt", "layoutlmv3", "markuplm"),
)
FROM_ZERO = ("bert", "distilbert", "electra", "albert", "deberta-v2", "ernie", "convbert", "mobilebert", "big_bird")
SIZES = {  # what a kind has beside those of BERT
    **{"hidden_size": 24, "embedding_size": 24, "attention_window": 4, "mask_token_id": 4, "visual_embed": False},
    **{"default_language": "en_XX", "coordinate_size": 4, "shape_size": 4, "entity_vocab_size": 8},
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("model_type", "padding"),
    [("roberta", 0), ("bert", 0), *((model_type, 1) for model_type in (*FROM_THE_PADDING_INDEX, *FROM_ZERO))],
)
@torch.no_grad()
def test_a_text_of_that_length_is_read_and_a_longer_one_is_not(model_type, padding):
    known = {name: value for name, value in SIZES.items() if hasattr(AutoConfig.for_model(model_type), name)}
    sizes = {**TINY_BERT, **known, "num_hidden_layers": 1, "pad_token_id": padding}
    config = AutoConfig.for_model(model_type, **sizes)
    model = AutoModel.from_config(config).eval()
    positions = usable_positions(config)
    assert (positions < config.max_position_embeddings) == (model_type in FROM_THE_PADDING_INDEX)
    for length in (1, positions):
        ids = torch.full((1, length), 7)
        assert model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state.shape[:2] == (1, length)
    ids = torch.full((1, positions + 1), 7)
    with pytest.raises((IndexError, RuntimeError, ValueError)):
        model(input_ids=ids, attention_mask=torch.ones_like(ids))
