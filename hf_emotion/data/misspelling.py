# SPDX-License-Identifier: Apache-2.0
"""Typing errors. textnoisr changes any character, blanks too, and nlpaug splits "can't" and takes blanks away: neither keeps to words."""

import random
import re


# "[NAME]" is a word that GoEmotions puts for a name; it stays.
_WORD = re.compile(r"\[\w+\]|\w+(?:['’]\w+)*")


def misspell(text: str, share: float, draw: random.Random) -> str:
    """
    A copy of a text in which `share` of the words on average (at most those of three letters or more) have one error: two letters swapped, one
    dropped, doubled or repeated twice, or the apostrophe dropped. The first letter stays, and so does all that lies between words.
    """
    words = list(_WORD.finditer(text))
    long = [word for word in words if len(letters := re.sub("['’]", "", word[0])) >= 3 and letters.isalpha()]
    chosen = draw.sample(long, min(len(long), int(share * len(words) + draw.random())))
    for found in sorted(chosen, key=lambda word: word.start(), reverse=True):
        word, places = found[0], range(1, len(found[0]))
        kinds = [
            [word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in places[:-1]],
            [word[:i] + word[i + 1 :] for i in places],
            *(
                [word[: i + 1] + word[i] * more + word[i + 1 :] for i in places if word[i].isalpha()]
                for more in (1, 2)
            ),
            *([re.sub("['’]", "", word)] for mark in "'’" if mark in word),
        ]
        wrong = draw.choice([kept for kind in kinds if (kept := [one for one in kind if one != word])])
        text = text[: found.start()] + draw.choice(wrong) + text[found.end() :]
    return text
