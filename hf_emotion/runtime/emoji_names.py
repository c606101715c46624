# SPDX-License-Identifier: Apache-2.0
"""Gives emojis names that a tokenizer without emojis knows: 😭 is read as "loudly crying face" (Unicode's short names, CLDR)."""

import re

from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from .attribution import check_fast


# Unicode's blocks of symbols, hearts, faces, gestures, people, animals, food, places and things.
SYMBOLS = re.compile(
    "[\u203c\u2600-\u27bf\u2b50-\u2b55\U0001f308-\U0001f3c6\U0001f400-\U0001f4b0\U0001f4e2-\U0001f4ef"
    "\U0001f525-\U0001f52b\U0001f550-\U0001f64f\U0001f90c-\U0001f93a\U0001f970-\U0001f97a\U0001f9e0-\U0001f9e1\U0001fa75-\U0001fa77\U0001fae0-\U0001faf8]"
)
# Skin tones, the sign that asks for a picture, and the genders of "woman facepalming" (🤦, zero-width joiner, ♀).
DROPPED = "\ufe0f|[\U0001f3fb-\U0001f3ff]|\u200d[\u2640\u2642]"


def emoji_names() -> dict[str, str]:
    """Emojis of one character, and their names."""
    import emoji

    names = {}
    for sequence, facts in emoji.EMOJI_DATA.items():
        character = sequence.replace("\ufe0f", "")
        if SYMBOLS.fullmatch(character):
            if facts["status"] == emoji.STATUS["fully_qualified"]:
                names[character] = facts["en"].strip(":").replace("_", " ").replace("-", " ").replace("’", "'")
    return names


def with_emoji_names(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """A tokenizer that reads emojis as their names, which stand in its normalizer and so in tokenizer.json."""
    from tokenizers import Regex, Tokenizer, normalizers

    check_fast(tokenizer)
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.no_padding()  # some files pad to a fixed length
    backend.no_truncation()
    first = [normalizers.Replace(Regex(DROPPED), "")]
    first += [normalizers.Replace(character, f" {name} ") for character, name in emoji_names().items()]
    backend.normalizer = normalizers.Sequence([*first, *([backend.normalizer] if backend.normalizer else [])])
    # The classes of single models, BertTokenizer and others, build a normalizer of their own when they are loaded.
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        **tokenizer.special_tokens_map,
        model_max_length=tokenizer.model_max_length,
        model_input_names=tokenizer.model_input_names,
        padding_side=tokenizer.padding_side,
        truncation_side=tokenizer.truncation_side,
    )
