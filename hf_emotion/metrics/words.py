# SPDX-License-Identifier: Apache-2.0
"""The words of a text, as the metrics of replies count them."""

import re


ENDINGS = ("t", "s", "m", "d", "re", "ve", "ll")
_WORD = re.compile(rf"<\w+>|['’]\s?(?:{'|'.join(ENDINGS)})\b|\w+|([^\w\s])\1*")


def words(text: str) -> list[str]:
    """
    The lower-case words of a text: runs of letters, digits and underscores; the ending of a contraction with its apostrophe;
    placeholders; runs of one other character. "don't", "don 't" (MojiTalk) and "don ' t" (BERT's tokenizer) all give the same.

    >>> words("I don't know, don ' t ask <dgt> times!!")
    ['i', 'don', "'t", 'know', ',', 'don', "'t", 'ask', '<dgt>', 'times', '!!']
    """
    return [
        "'" + match[0][1:].strip() if match[0][0] in "'’" and len(match[0]) > 1 and match[1] is None else match[0]
        for match in _WORD.finditer(text.lower())
    ]
