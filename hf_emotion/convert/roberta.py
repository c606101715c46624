# SPDX-License-Identifier: Apache-2.0
"""Convert a BERT encoder to RoBERTa's architecture; it computes the same."""

from pathlib import Path

import torch
from transformers import AutoModel, BertModel, RobertaConfig, RobertaModel

from ..io.files import filling, refuse_taken
from ..runtime.base_models import load_base_tokenizer, resolve_base_model
from ..runtime.loading import read_model


SHARED_FIELDS = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act"),
    *("hidden_dropout_prob", "attention_probs_dropout_prob", "type_vocab_size", "initializer_range", "layer_norm_eps"),
    "pad_token_id",
)


def bert_to_roberta(checkpoint: str | Path, output: str | Path | None = None) -> RobertaModel:
    """
    Put the weights of a BERT encoder into a `RobertaModel` that gives the same hidden states.

    RoBERTa counts positions from the padding index on, so the position embeddings move down by `pad_token_id` + 1 rows. The
    embeddings of token types are kept whole: text pairs work too.

    Args:
        checkpoint: a local folder, a Hub id, or "minilm" (extra `offline`), of BERT architecture.
        output: a new or empty folder for the model and its tokenizer.

    Raises:
        ValueError: another architecture, or a BERT without padding token.
        OSError: no such checkpoint; `output` is not empty.
    """
    if output is not None:
        refuse_taken(Path(output))
    bert = read_model(AutoModel, resolve_base_model(str(checkpoint)), dtype=torch.float32)
    pad = bert.config.pad_token_id
    if not isinstance(bert, BertModel) or bert.config.model_type != "bert" or bert.config.is_decoder or pad is None:
        raise ValueError(f"{checkpoint} must be a BERT encoder with a padding token.")
    fields = {name: getattr(bert.config, name) for name in SHARED_FIELDS}
    tokenizer = None if output is None else load_base_tokenizer(str(checkpoint))
    if tokenizer is not None:
        fields |= {"bos_token_id": tokenizer.cls_token_id, "eos_token_id": tokenizer.sep_token_id}
    shift = pad + 1
    config = RobertaConfig(max_position_embeddings=bert.config.max_position_embeddings + shift, **fields)
    model = RobertaModel(config, add_pooling_layer=bert.pooler is not None).eval()
    state_dict = {name: tensor for name, tensor in bert.state_dict().items() if not name.endswith("_ids")}
    positions = "embeddings.position_embeddings.weight"
    state_dict[positions] = torch.nn.functional.pad(state_dict[positions], (0, 0, shift, 0))
    model.load_state_dict(state_dict)
    if output is not None and tokenizer is not None:
        with filling(Path(output)) as folder:
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
    return model
