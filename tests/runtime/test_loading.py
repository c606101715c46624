# SPDX-License-Identifier: Apache-2.0
"""Damaged checkpoints that the libraries load without a word."""

import json
import shutil

import pytest

from hf_emotion.runtime.exported import ExportedTokenizer, write_tokenizer_facts
from hf_emotion.runtime.loading import read_tokenizer


pytest_plugins = ["toolkit_fixtures"]


@pytest.mark.parametrize("value", [{}, "50", [20]])
def test_a_length_that_is_no_number_is_named(base_bert, tmp_path, value):
    folder = shutil.copytree(base_bert, tmp_path / "base")
    write_tokenizer_facts(read_tokenizer(folder), folder)
    for name, read in (("tokenizer_config.json", read_tokenizer), ("prediction.json", ExportedTokenizer)):
        read(folder)
        path = folder / name
        fields = json.loads(path.read_text(encoding="utf-8")) | {"model_max_length": value}
        path.write_text(json.dumps(fields), encoding="utf-8")
        with pytest.raises(ValueError, match="model_max_length") as error:
            read(folder)
        assert repr(value) in str(error.value) and str(folder) in str(error.value)
        shutil.copyfile(base_bert / "tokenizer_config.json", folder / "tokenizer_config.json")
