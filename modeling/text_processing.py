# SPDX-License-Identifier: Apache-2.0
"""
What the pipelines share with the torch-free runtime: how texts, targets and turns become a model's input, and scores become answers.
Needs neither torch nor transformers; it travels with the pipelines.
"""

import json
import logging
import math
import re
import sys
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeGuard


logger = logging.getLogger(__name__)

# Texts

WINDOWS_CHARACTER = re.compile("[\x80\x82-\x8c\x8e\x91-\x9c\x9e\x9f]")  # those that Windows-1252 has


def is_unicode(text: str) -> bool:
    """Whether a text is valid Unicode: JSON may hold halves of surrogate pairs, which no tokenizer takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_readable(text) -> TypeGuard[str]:
    """Whether `text` is a string with at least one visible character, in valid Unicode."""
    seen = isinstance(text, str) and any(not c.isspace() and unicodedata.category(c) not in ("Cc", "Cf") for c in text)
    return seen and is_unicode(text)


def check_text(text) -> None:
    """ValueError unless `text` is readable, see `is_readable`."""
    if not is_readable(text):
        wanted = "at least one visible character, in valid Unicode"
        raise ValueError(f"a text must be a string that is not empty, got {text!r}: write {wanted}.")


def has_windows_characters(text: str) -> bool:
    """Whether a text holds control characters that come from reading Windows-1252 as another encoding."""
    return WINDOWS_CHARACTER.search(text) is not None


def composed(text: str) -> str:
    """
    A text in composed characters (NFC), as models read it. Control characters from U+0080 to U+009F become the characters that their
    numbers have in Windows-1252, as in HTML.
    """
    if has_windows_characters(text):
        text = WINDOWS_CHARACTER.sub(lambda found: found[0].encode("latin-1").decode("cp1252"), text)
    return unicodedata.normalize("NFC", text)


def normalized(text: str) -> str:
    """A name or a text of a file in the form that it has in training: composed characters, and no white space around."""
    return composed(text).strip()


# Lengths

# Encoders whose positions begin after the padding index, besides those with "roberta" in their name.
_LIKE_ROBERTA = "camembert data2vec-text esm ibert layoutlmv3 lilt longformer luke markuplm mpnet xmod".split()

UNBOUNDED = 1_000_000  # encoders with relative positions, which have no limit


def usable_positions(config) -> int:
    """The most tokens that a model, or its encoder (`encoder_config`), has positions for; RoBERTa's begin behind the padding index."""
    config = getattr(config, "encoder_config", None) or config
    if (getattr(config, "max_position_embeddings", None) or 0) < 1:
        return UNBOUNDED
    if "roberta" not in config.model_type and config.model_type not in _LIKE_ROBERTA:
        return config.max_position_embeddings
    padding = 1 if config.model_type == "mpnet" else config.pad_token_id  # MPNet's positions begin at 2 in any case
    return config.max_position_embeddings - padding - 1


# Windows of long texts

STRATEGIES = ("average", "max")  # how the windows of a text are combined


def window_overlap(
    size: int, stride: int | None, max_windows: int | None, aggregation_strategy: str, multi_label: bool
) -> int:
    """The number of tokens that two windows of `size` tokens share: a quarter, or `stride`. ValueError for arguments that do not fit."""
    if aggregation_strategy not in STRATEGIES:
        raise ValueError(f"`aggregation_strategy` must be one of {list(STRATEGIES)}, got {aggregation_strategy!r}.")
    if aggregation_strategy == "max" and not multi_label:
        raise ValueError("`aggregation_strategy` must be 'average' where a text gets one label, got 'max'.")
    if stride is not None and not 0 <= stride <= size // 2:
        wanted = f"between 0 and {size // 2}, half a window (`max_length` {size})"
        raise ValueError(f"`stride` must lie {wanted}, got {stride}.")
    if max_windows is not None and max_windows < 1:
        raise ValueError(f"`max_windows` must be at least 1, or None to read whole texts, got {max_windows}.")
    return size // 4 if stride is None else stride


def special_borders(tokenizer, encoded, row: int) -> tuple[int, int]:
    """How many special tokens a tokenizer put before and after a text."""
    encodings = getattr(encoded, "encodings", None)
    if not encodings:  # a slow tokenizer, whose mask counts unknown tokens too
        special = tokenizer.build_inputs_with_special_tokens([])
        pairs = zip(special, encoded["input_ids"][row], strict=False)
        before = next((place for place, (one, other) in enumerate(pairs) if one != other), len(special))
        return before, len(special) - before
    mask = encodings[row].special_tokens_mask
    own = [place for place, value in enumerate(mask) if not value]
    return (own[0], len(mask) - 1 - own[-1]) if own else (len(mask), 0)


def window_spans(length: int, size: int, shared: int, most: int | None = None) -> list[tuple[int, int, int, int]]:
    """
    Windows over `length` tokens: (start, end, start and end of the tokens that only this window counts). Neighbours share `shared`
    tokens, the last one maybe more, because it ends with the text. Each counts the half of the shared tokens with more context in it.

    >>> window_spans(10, 6, 2)
    [(0, 6, 0, 5), (4, 10, 5, 10)]
    """
    starts = [0]
    while starts[-1] + size < length and len(starts) != most:
        starts.append(min(starts[-1] + size - shared, length - size))
    borders = [(later + start + size) // 2 for start, later in zip(starts, starts[1:], strict=False)]
    end = min(starts[-1] + size, length)
    return [
        (start, min(start + size, length), first, last)
        for start, first, last in zip(starts, [0, *borders], [*borders, end], strict=True)
    ]


def split_row(
    row: Mapping[str, Sequence], borders: tuple[int, int], size: int, shared: int, most: int | None
) -> tuple[list[dict[str, list]], bool]:
    """
    Split a text into windows. `row`: a value for each token, by the name of an input. `borders`: how many special tokens stand before and
    behind the text; every window gets them. A window has `size` tokens and shares `shared` with the next; there are at most `most`.

    Returns the inputs of each window, with a `pooling_mask` that is 0 at tokens that another window counts, and whether the end was cut.
    """
    before, behind = borders
    end = len(row["input_ids"]) - behind
    size = max(size - before - behind, 1)
    spans = window_spans(end - before, size, min(shared, size // 2), most)
    windows = []
    for start, stop, first, last in spans:
        window = {
            name: [*values[:before], *values[before + start : before + stop], *values[end:]]
            for name, values in row.items()
        }
        counted = [int(first <= place < last) for place in range(start, stop)]
        windows.append({**window, "pooling_mask": [1] * before + counted + [1] * behind})
    return windows, spans[-1][1] < end - before


# From scores to answers. Two rules let a model say "I do not know" or give a set of labels. Each is a threshold of probabilities that was
# chosen on validation rows and is kept as `{"coverage": WANTED, "threshold": T}`: with `abstention` a text whose most probable label is
# below T gets no label; with `prediction_sets` it gets all labels of at least T, whatever their decision thresholds.

RULES = ("abstention", "prediction_sets")
ABSTAINED = "abstained"  # stands where the labels would be


def temperature_of(config) -> float:
    """`config.calibration_temperature`, by which logits are divided (Guo et al. 2017); 1.0 if there is none, ValueError unless it is positive."""
    value = getattr(config, "calibration_temperature", None)
    if value is None:
        return 1.0
    if not _is_number(value) or not 1e-6 <= value <= 1e6:  # what float32 can divide by
        raise ValueError(f"`config.calibration_temperature` must be a positive number (1e-6 to 1e6), got {value!r}.")
    return float(value)


def value_of(logit: float, config) -> float:
    """The value in `config.value_range` that a regression predicts: the logit, or, of an ordinal model, the expected value."""
    low, high = config.value_range
    if config.regression_loss == "mse":
        return min(max(float(logit), low), high)
    steps = (config.ordinal_slope * (logit - low - k - 0.5) for k in range(round(high - low)))
    return float(low + sum(1 / (1 + math.exp(-min(max(step, -60.0), 60.0))) for step in steps))


def check_finite(finite: bool) -> None:
    """ValueError unless all logits are finite: comparisons with NaN are false, so NaN would look like an answer without labels."""
    if not finite:
        raise ValueError("the model computes NaN or infinity: load it in float32 or bfloat16, or train it again.")


def threshold_of(config, rule: str) -> float | None:
    """The threshold of one of the `RULES` in a configuration; None if it has no such rule, ValueError if the rule cannot be followed."""
    given = [name for name in RULES if getattr(config, name, None) is not None]
    if rule not in given:
        return None
    if len(given) > 1:
        raise ValueError("`config` has both `abstention` and `prediction_sets`: set one of them to None.")
    value = getattr(config, rule)
    threshold = value.get("threshold") if isinstance(value, dict) else None
    if not _is_number(threshold) or not 0 <= threshold <= 1:
        raise ValueError(f"`config.{rule}` must hold a `threshold` in [0, 1], got {value!r}.")
    if rule == "abstention" and ABSTAINED in config.id2label.values():
        remedy = "rename it in `config.id2label`, or set `config.abstention` to None"
        raise ValueError(f"`config.abstention`: a label of the model is named {ABSTAINED!r}: {remedy}.")
    return float(threshold)


# Targets and aspects in texts


def targets_in(config, text: str) -> list[str]:
    """
    The model's targets that occur in a text, by name or by the text that the model reads for them. A placeholder, for which
    the model reads another text, is found anywhere; any other name only as a word ("bar", "bars", not "barn").
    """
    found = {name for *_, name in _target_places(config, composed(text))}
    return [name for name in config.targets if name in found]


def _target_places(config, text: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and name of each target in a composed text."""
    texts = _target_texts(config)
    names = {composed(words): name for name, words in texts.items()} | {composed(name): name for name in texts}
    placeholders = {composed(name) for name, words in texts.items() if words != name}
    forms = sorted(names, key=len, reverse=True)
    free = 0  # where the last match ends
    for place in re.finditer(f"(?={'|'.join(map(re.escape, forms))})", text):
        start = place.start()
        # A name that is not a whole word here leaves its place to a shorter one: "iPhone 11" contains "iPhone", but not "iPhone 1".
        for form in forms if start >= free else ():
            end = start + len(form)
            if text.startswith(form, start) and (form in placeholders or _is_word(text, start, end)):
                yield start, end, names[form]
                free = end
                break


def _is_word(text: str, start: int, end: int) -> bool:
    """Whether no letter, digit or mark on a letter touches the match, except a plural ending or in scripts written without blanks."""
    around = (text[:start][-1:], re.sub(r"^e?s(?!\w)", "", text[end : end + 3])[:1])
    return not any((c.isalnum() or unicodedata.category(c) in ("Mn", "Mc")) and c < "\u0e00" for c in around if c)


def _target_texts(config) -> dict[str, str]:
    """{name of a target: the text that the model reads for it}"""
    return dict(zip(config.targets, config.target_texts or config.targets, strict=True))


def model_inputs(config, text: str, target: str | None, aspect: str) -> tuple[str, str | None, int]:
    """
    The model's input for one of its aspects and one of its targets (None if it has none): the text in which each target is replaced by
    its own text, or by `config.target_words`; the auxiliary sentence (None for models without), the context id. ValueError for an
    unknown target or aspect.
    """
    if aspect not in config.aspects:
        raise ValueError(f"unknown aspect {aspect!r}: the model's aspects are {config.aspects}.")
    text, context_id = composed(text), config.aspects.index(aspect)
    auxiliary = auxiliary_sentence(None, aspect)
    check_target(config, target)
    if target is not None:
        texts = _target_texts(config)
        context_id += config.targets.index(target) * len(config.aspects)
        auxiliary = auxiliary_sentence(texts[target], aspect)
        text = mark_targets(text, texts)
        if all_aspects_at_once(config):
            for start, end, name in reversed([*_target_places(config, text)]):
                text = text[:start] + config.target_words[name != target] + text[end:]
    return text, auxiliary if getattr(config, "auxiliary_sentence", False) else None, context_id


def all_aspects_at_once(config) -> bool:
    """Whether the model gives logits (B, A, C), those of all its aspects, for a text and a target."""
    return hasattr(config, "label_attention") and getattr(config, "aspects", None) is not None


def check_target(config, target: str | None) -> None:
    """ValueError for a target that is not one of `config.targets`; None is right only for a model without targets."""
    if target not in (config.targets or [None]):
        raise ValueError(f"unknown target {target!r}: targets are {config.targets}, aspects {config.aspects}.")


def auxiliary_sentence(target_text: str | None, aspect: str) -> str:
    """The second segment that tells a model what is asked: "location - 1 - price", or only the aspect without a target."""
    return aspect if target_text is None else f"{target_text} - {aspect}"


def mark_targets(text: str, texts: dict[str, str]) -> str:
    """
    Replace the names of targets in a text, given {name of a target: the text that the model reads for it}. Names are found anywhere;
    blanks separate the new text from letters and digits ("xLOCATION1y" -> "x location - 1 y").
    """
    # If two begin alike, the longer one is found.
    forms = re.compile("|".join(map(re.escape, sorted({*texts, *texts.values()}, key=len, reverse=True))))

    def mark(match: re.Match) -> str:
        words = texts.get(match[0], match[0])
        if words == match[0]:
            return words
        glued_before = re.match(r"\w", text[: match.start()][-1:])
        # If another name follows, it brings its own blank.
        following = forms.match(text, match.end())
        named = following and texts.get(following[0], following[0]) != following[0]
        glued_after = re.match(r"\w", text[match.end() :]) and not named
        return f"{' ' if glued_before else ''}{words}{' ' if glued_after else ''}"

    return forms.sub(mark, text)


def target_entry(target: str | None, aspect: str, labels: list[str], probabilities: list[float]) -> dict:
    """The result for one target and aspect, from the probability of each label."""
    of = {} if target is None else {"target": target}
    return {**of, "aspect": aspect, **most_probable(labels, probabilities)}


def most_probable(labels: Sequence[str], probabilities: Sequence[float]) -> dict:
    """The most probable label, its probability, and those of all."""
    best = max(range(len(labels)), key=probabilities.__getitem__)
    scores = dict(zip(labels, probabilities, strict=True))
    return {"label": labels[best], "score": probabilities[best], "scores": scores}


# Turns of dialogues


def number_speakers(speakers: Sequence[str | None], limit: int) -> list[int]:
    """Number speakers by their first turn; speakers beyond the model's limit share the last number."""
    numbers: dict[str, int] = {}
    return [min(numbers.setdefault(_name(speaker), len(numbers)), limit - 1) for speaker in speakers]


def _name(speaker) -> str:
    """A speaker's name in the form that the training data has; "" for none."""
    return normalized("" if speaker is None else str(speaker))


def encoder_positions(config) -> int:
    """The most tokens of an utterance that a model takes: its encoder's positions; a BiLSTM over words has no limit."""
    return sys.maxsize if config.encoder_config is None else usable_positions(config.encoder_config)


def read_turn(turn, number: int) -> tuple[str | None, str]:
    """(speaker or None, utterance) of one turn."""
    speaker, utterance = None, turn
    if isinstance(turn, dict):
        speaker, utterance = turn.get("speaker"), turn.get("utterance")
    elif isinstance(turn, tuple) and len(turn) == 2:
        speaker, utterance = turn
    if not is_readable(utterance):
        wanted = "(speaker, utterance), a dictionary with these keys, or an utterance, with a visible character and in valid Unicode"
        raise ValueError(f"turn {number} must be {wanted}; got {turn!r}.")
    return speaker, utterance


def reads_later_turns(config) -> bool:
    """Whether later turns change the emotions that a model gives to earlier ones."""
    return not config.causal and bool(config.num_hidden_layers or config.num_attention_heads)


def turn_windows(turns: Sequence[tuple[str | None, str]], context_turns: int) -> list:
    """For each turn what the utterance encoder reads: the utterance, or with `context_turns` the lines of the earlier turns and its own."""
    if not context_turns:
        return [utterance for _, utterance in turns]
    lines = [f"{speaker}: {utterance}" if speaker else utterance for speaker, utterance in turns]
    return [tuple(lines[max(0, end - context_turns) : end + 1]) for end in range(len(lines))]


def window_tokens(rows: Sequence[Sequence[int]], before: int, max_length: int) -> tuple[list[int], list[int]]:
    """
    `input_ids` and `turn_mask` of a turn behind earlier ones, from the ids of each line, which begin with `before` special tokens. The
    earlier turns are cut from the left to `max_length` tokens; the turn's own are those in its line.

    >>> window_tokens([[101, 7, 8, 102], [101, 9, 102]], 1, 5)
    ([101, 8, 102, 9, 102], [1, 0, 0, 1, 1])
    """
    *earlier, own = map(list, rows)
    context = [token for row in earlier for token in row[before:]]
    context = context[max(0, len(context) - max(0, max_length - len(own))) :]
    mask = [1] * before + [0] * len(context) + [1] * (len(own) - before)
    return own[:before] + context + own[before:], mask


def warn_of_speakers(speakers: Sequence[str | None], limit: int) -> bool:
    """Whether some turns name no speaker; then also warn, for a model that tells speakers apart."""
    unnamed = sum(not _name(speaker) for speaker in speakers)
    if unnamed and len(speakers) > 1:
        what = "%d of %d turns name no speaker, and the model tells %d speakers apart (`num_speakers`): write (speaker, utterance)"
        logger.warning(what, unnamed, len(speakers), limit)
    return unnamed > 0 and len(speakers) > 1


def refuse_turns(dialogues: Sequence) -> None:
    """ValueError for turns written as lists [speaker, utterance], as in JSON: each would be read as a dialogue of two utterances."""
    pairs = [item for item in dialogues if isinstance(item, list) and list(map(type, item)) == [str, str]]
    first = [item[0].strip() for item in pairs]
    names = all(0 < len(text.split()) <= 3 and text[-1] not in ".?!…" for text in first)
    again = len(set(first)) < len(first) or all(text[:1].isupper() for text in first)
    if 1 < len(pairs) == len(dialogues) and names and again:
        remedy = "write the turns as pairs (speaker, utterance), or dialogues of two utterances with {'utterance': ...} for each"
        raise ValueError(f"{pairs[0]!r} and the others look like turns, not dialogues: {remedy}.")


# Terms of aspects: words of a text with tags such as "B-positive" and "I-positive", or "O" outside of terms

OUTSIDE = "O"


def term_tags(labels: Sequence[str]) -> list[str]:
    """The tags of terms with these labels: `OUTSIDE`, and for each label the first word of a term (B-) and the others (I-)."""
    return [OUTSIDE, *(f"{begin}-{label}" for label in labels for begin in "BI")]


def tag_labels(tags: Iterable[str]) -> list[str]:
    """The labels of `term_tags`, in their order; none if these are not such tags."""
    names = list(map(str, tags))
    labels = [name[2:] for name in names if name.startswith("B-")]
    return labels if sorted(names) == sorted(term_tags(labels)) else []


def term_words(text: str) -> list[tuple[int, int]]:
    """(start, end) of the words of a text: runs of letters and digits, and other characters one by one, each with the marks on it."""
    words: list[tuple[int, int]] = []
    last = ""  # what the character before was: "w" in a word, "j" a joiner, which binds the next one, "c" another, "" a blank
    for place, character in enumerate(text):
        if character.isspace():
            last = ""
            continue
        mark = (
            unicodedata.category(character)[0] == "M"
            or "\N{EMOJI MODIFIER FITZPATRICK TYPE-1-2}" <= character <= "\N{EMOJI MODIFIER FITZPATRICK TYPE-6}"
        )
        kind = "j" if character == "\N{ZERO WIDTH JOINER}" else "w" if character.isalnum() or character == "_" else "c"
        if last and (mark or kind == "j" or last == "j" or (kind == "w" and last == "w")):
            words[-1] = (words[-1][0], place + 1)
            last = last if mark else kind
        else:
            words.append((place, place + 1))
            last = kind
    return words


def word_tokens(words: Sequence[tuple[int, int]], offsets: Sequence[Sequence[int]]) -> list[int]:
    """The number of the first token of each word, from the (start, end) of the tokens; -1 for a word that was cut or has none."""
    tokens = [token for token, (start, end) in enumerate(offsets) if end > start]  # special tokens are empty
    found, at = [], 0
    for start, end in words:
        while at < len(tokens) and offsets[tokens[at]][1] <= start:
            at += 1
        found.append(tokens[at] if at < len(tokens) and offsets[tokens[at]][0] < end else -1)
    return found


def words_read(
    words: Sequence[tuple[int, int]], offsets: Sequence[Sequence[int]], mask: Sequence[int] | None = None
) -> list[tuple[int, int]]:
    """
    (word, its first token) for the words of a text that a row of tokens holds; with the `pooling_mask` of a window only those that the
    window counts. Of several windows each word is in one at most.
    """
    spans = [span for span in offsets if span[1] > span[0]]
    if not spans:
        return []
    first = bisect_right(words, spans[0][0], key=lambda word: word[1])
    tokens = word_tokens(words[first : bisect_left(words, spans[-1][1], key=lambda word: word[0])], offsets)
    return [(word, token) for word, token in enumerate(tokens, first) if token >= 0 and (mask is None or mask[token])]


def find_terms(probabilities: Sequence[Sequence[float]], tags: Sequence[str]) -> list[tuple[int, int, str, float]]:
    """
    The terms in a text, from the probability of each tag for each of its words: (first word, word behind the last, label, score). The
    labels are added up to decide whether a word begins a term, continues one or stands outside; then the words of a term decide its label
    together, and the score is the mean of their probabilities to belong to a term with this label.
    """
    labels = tag_labels(tags)
    begins, insides = ([tags.index(f"{begin}-{label}") for label in labels] for begin in "BI")
    outside = tags.index(OUTSIDE)
    spans: list[list[int]] = []
    open_ = False
    for word, row in enumerate(probabilities):
        begin, inside = (sum(row[i] for i in columns) for columns in (begins, insides))
        if row[outside] >= max(begin, inside):
            open_ = False
        elif open_ and inside >= begin:
            spans[-1][1] = word + 1
        else:
            spans.append([word, word + 1])
            open_ = True
    found = []
    for first, last in spans:
        scores = [
            sum(row[i] + row[j] for row in probabilities[first:last]) / (last - first)
            for i, j in zip(begins, insides, strict=True)
        ]
        best = max(range(len(labels)), key=scores.__getitem__)
        found.append((first, last, labels[best], scores[best]))
    return found


_QUOTES = "\"'`´“”„‟‘’‚‛«»‹›″′＂＇〝〞〟"
_BRACKETS = ("()", "[]", "{}", "（）", "［］", "｛｝", "「」", "『』", "【】", "《》", "〈〉", "〔〕")
# Which marks may stand on the other side of a term.
_PARTNERS = dict.fromkeys(_QUOTES, _QUOTES) | {pair[side]: pair[1 - side] for pair in _BRACKETS for side in (0, 1)}


def unquoted(text: str, start: int, end: int) -> tuple[int, int]:
    """
    The place of a term without the quotation marks, brackets and blanks at its edges. A mark whose partner stands within the term stays, as in
    "tea (hot)", and so do an apostrophe behind a word and the sign for inches behind a number, unless a quotation mark stands before the term.
    """
    places = [i for i in range(start, end) if not (text[i].isspace() or text[i] in _PARTNERS)]
    if not places:
        return end, end
    core = range(places[0], places[-1] + 1)

    def is_needed(mark: str) -> bool:
        # An apostrophe in a word is not a partner.
        inner = (i for i in core if text[i] in _PARTNERS.get(mark, ""))
        return any(not (text[i - 1].isalnum() and text[i + 1].isalnum()) for i in inner)

    while start < core.start and not is_needed(text[start]):
        start += 1
    while end > core.stop and not is_needed(text[end - 1]):
        mark, before = text[end - 1], text[end - 2]
        is_sign = (mark in "'’" and before.isalnum()) or (mark in '"″′' and before.isdecimal())
        if is_sign and text[start - 1 : start] not in tuple(_QUOTES):
            break
        end -= 1
    return start, end


def term_entries(
    text: str, words: Sequence[tuple[int, int]], terms: Sequence[tuple[int, int, str, float]]
) -> list[dict]:
    """What `find_terms` found, with the term, `unquoted`, and its place in the text: `text[start:end]`."""
    entries: list[dict] = []
    for first, last, label, score in terms:
        start, end = unquoted(text, words[first][0], words[last - 1][1])
        if start < end:
            entries.append({"term": text[start:end], "start": start, "end": end, "label": label, "score": score})
    return entries


# The TF-IDF gate (Scientific Reports 15, s41598-025-99515-6): which words of a text a model reads, or how strongly

GATE_FILE = "tfidf_gate.json"

# Marks behind a character that choose its picture. By their category they would be parts of words.
_PICTURE_MARKS = {*map(chr, range(0xFE00, 0xFE10)), "\u20e3"}


def find_words(text: str) -> list[tuple[int, int, str]]:
    """
    (start, end, word) of each run of characters between blanks. The word is in lower case, NFC, without punctuation at its edges;
    a run of only punctuation or emojis is a word as it is.
    """
    found = []
    for match in re.finditer(r"\S+", text):
        word = unicodedata.normalize("NFC", match.group().lower())
        inner = [i for i, c in enumerate(word) if unicodedata.category(c)[0] in "LMN" and c not in _PICTURE_MARKS]
        found.append((*match.span(), word[inner[0] : inner[-1] + 1] if inner else word))
    return found


@dataclass(frozen=True)
class TfidfGate:
    """
    Attributes:
        idf: inverse document frequency of each word of the training texts, ln((1 + n) / (1 + df)) + 1 for n texts.
        unseen_idf: inverse document frequency of all other words, df = 0.
        threshold: words whose tf·idf (not normalised) lies below are removed; the article has 3.5.
        min_words: at least this many of a text's best words are kept in any case; the article has 4.
    """

    idf: dict[str, float]
    unseen_idf: float
    threshold: float = 3.5
    min_words: int = 4

    def scores(self, words: Sequence[str]) -> list[float]:
        """tf·idf of each word of one text."""
        counts = Counter(words)
        return [counts[word] * self.idf.get(word, self.unseen_idf) for word in words]

    def filter(self, text: str) -> str:
        """The text without its words of low tf·idf; a text of at most `min_words` words does not change."""
        words = find_words(text)
        if len(words) <= self.min_words:
            return text
        scores = self.scores([word for _, _, word in words])
        best = sorted(range(len(words)), key=lambda i: -scores[i])[: self.min_words]
        kept = {i for i, score in enumerate(scores) if score >= self.threshold}.union(best)
        return " ".join(text[start:end] for i, (start, end, _) in enumerate(words) if i in kept)

    def token_gates(self, text: str, offsets: Sequence[tuple[int, int]]) -> list[float]:
        """
        Factors for the word embeddings, given (start, end) of each token in the text: tf·idf of a token's word, divided by the text's
        largest; 1 for tokens without characters (special tokens).
        """
        words = find_words(text)
        scores = self.scores([word for _, _, word in words])
        largest = max(scores, default=1.0)
        gates, word = [], 0
        for start, end in offsets:
            if start == end or not words:
                gates.append(1.0)
                continue
            while word + 1 < len(words) and words[word][1] <= start:
                word += 1
            gates.append(scores[word] / largest)
        return gates

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n"

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the gate into a checkpoint's folder."""
        (Path(folder) / GATE_FILE).write_text(self.to_json(), encoding="utf-8")


def load_gate(config) -> TfidfGate | None:
    """The gate beside the weights of a model; None for a model without one, OSError if it lacks its gate, ValueError for another file."""
    if getattr(config, "tfidf_gating", "none") == "none":
        return None
    source, path = config.name_or_path, None
    if source and (Path(source) / GATE_FILE).is_file():
        path = Path(source) / GATE_FILE
    elif source:
        from transformers.utils import cached_file  # the gate itself needs no transformers

        revision = getattr(config, "_commit_hash", None)
        path = cached_file(source, GATE_FILE, revision=revision, _raise_exceptions_for_missing_entries=False)
    if path is None:
        place = f"{GATE_FILE} is not beside its weights ({source or 'a model that was not loaded'}): copy it there from the run folder"
        raise OSError(f"`tfidf_gating` is {config.tfidf_gating!r}, and {place}, or pass the gate as `gate`.")
    return _read_gate(Path(path))


def _read_gate(path: Path) -> TfidfGate:
    try:
        gate = TfidfGate(**json.loads(path.read_text(encoding="utf-8")))
        if not all(_is_number(number) and number > 0 for number in (*gate.idf.values(), gate.unseen_idf)):
            raise ValueError("`idf` must map words to finite numbers above 0, and `unseen_idf` must be one")
        if not _is_number(gate.threshold) or type(gate.min_words) is not int or gate.min_words < 0:
            raise ValueError("`threshold` must be a finite number, and `min_words` a whole number from 0")
    except (AttributeError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a TF-IDF gate: {error}. Copy it again from the run folder.") from error
    return gate


def _is_number(value) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
