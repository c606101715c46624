# SPDX-License-Identifier: Apache-2.0
"""Gives emojis names that a tokenizer without emojis knows: 😭 is read as "loudly crying face" (Unicode's short names, CLDR)."""

from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from .attribution import check_fast


# Unicode's blocks of symbols, hearts, faces, gestures, people, animals, food, places and things.
BLOCKS = (
    (0x203C, 0x203C),
    (0x2600, 0x27BF),
    (0x2B50, 0x2B55),
    (0x1F308, 0x1F3C6),
    (0x1F400, 0x1F4B0),
    (0x1F4E2, 0x1F4EF),
    (0x1F525, 0x1F52B),
    (0x1F550, 0x1F64F),
    (0x1F90C, 0x1F93A),
    (0x1F970, 0x1F97A),
    (0x1F9E0, 0x1F9E1),
    (0x1FA75, 0x1FA77),
    (0x1FAE0, 0x1FAF8),
)
# Skin tones, the sign that asks for a picture, and the genders of "woman facepalming" (🤦, zero-width joiner, ♀).
DROPPED = "\ufe0f|[\U0001f3fb-\U0001f3ff]|\u200d[\u2640\u2642]"


def emoji_names() -> dict[str, str]:
    """Emojis of one character, and their names."""
    import emoji

    names = {}
    for sequence, facts in emoji.EMOJI_DATA.items():
        character = sequence.replace("\ufe0f", "")
        if len(character) == 1 and any(first <= ord(character) <= last for first, last in BLOCKS):
            if facts["status"] == emoji.STATUS["fully_qualified"]:
                names[character] = facts["en"].strip(":").replace("_", " ").replace("-", " ").replace("’", "'")
    return names


def with_emoji_names(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """
    A tokenizer that reads emojis as their names. The names stand in its normalizer, so that they go wherever tokenizer.json goes.
    """
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
