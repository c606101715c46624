# SPDX-License-Identifier: Apache-2.0
"""Thresholds for each language of a ready model that was trained on BRIGHTER, and its figures by language."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from datasets import Dataset, concatenate_datasets

from hf_emotion import metrics
from hf_emotion.io.files import write_json
from hf_emotion.runtime.languages import languages_in
from hf_emotion.tasks.cards import table as markdown_table
from hf_emotion.tasks.emotion_classification import TASK
from hf_emotion.tasks.emotion_classification.brighter import DETECTED, TRAINED, UNSEEN
from hf_emotion.tasks.emotion_classification.predictor import Predictor
from hf_emotion.tasks.loading import load_split
from hf_emotion.tasks.rows import at_most, gold_of


LEAST = 10  # texts with an emotion in a language's validation rows; with fewer the common threshold serves
KINDS = ("common", "own", "found")
CARDS = yaml.safe_load(Path(__file__).with_name("cards.yaml").read_text(encoding="utf-8"))


def drawn(rows: Dataset, most: int | None) -> Dataset:
    """At most so many rows of each language, drawn at a fixed seed."""
    codes = np.array(rows["language"])
    parts = [rows.select(np.flatnonzero(codes == code)) for code in dict.fromkeys(codes)]
    return concatenate_datasets([at_most(TASK, part, most) for part in parts])


def tuned(gold: np.ndarray, scores: np.ndarray, common: Iterable[float]) -> list[float]:
    """The thresholds of these rows, the common one for an emotion that is too rare in them."""
    own, enough = metrics.tune_thresholds(gold, scores), (gold > 0).sum(axis=0) >= LEAST
    return [one if many else other for one, many, other in zip(own, enough, common, strict=True)]


def with_language_thresholds(
    folder: Path, data_dir: Path | None, most: int | None
) -> tuple[dict[str, Any], metrics.ValidationCounts]:
    """
    Tune thresholds on the validation rows of all languages, and on those of each language that can be found, and put them into the
    config.json of an exported model. Returns of each language the number of its rows and its own thresholds, for `measure`, and the errors at
    the common thresholds.
    """
    predictor = Predictor(folder)
    rows = drawn(load_split("brighter", "validation", data_dir, labels=predictor.labels), most)
    gold, scores, codes = gold_of(rows).values, predictor.of_rows(rows, progress=True), np.array(rows["language"])
    common = metrics.tune_thresholds(gold, scores)
    of_code = np.array([DETECTED.get(code, "") for code in codes])
    by_language = {code: of_code == code for code in sorted(set(DETECTED.values()))}
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    own_of = {code: tuned(gold[own], scores[own], common) for code, own in by_language.items() if own.any()}
    config |= {"thresholds": common, "thresholds_by_language": own_of}
    write_json(folder / "config.json", config)
    rows_of = {code: codes == code for code in TRAINED}
    alone = {code: (int(here.sum()), tuned(gold[here], scores[here], common)) for code, here in rows_of.items()}
    return alone, metrics.ValidationCounts.of(gold, scores, predictor.labels, common)


def measure(folder: Path, own: dict[str, Any], data_dir: Path | None, most: int | None) -> dict[str, Any]:
    """
    Macro-F1 over the annotated emotions on test rows of each language, at the common thresholds, at those of the language alone ("own") and as
    the model answers, at those of the language that is found in each text ("found"); and the plain sentences that it has right.
    """
    predictor = Predictor(folder)
    rows = drawn(load_split("brighter", "test", data_dir, labels=predictor.labels), most)
    found = {"languages": _by_language(predictor, rows, own), "unseen": {}}
    for code in UNSEEN:
        part = load_split("brighter", "test", data_dir, languages=[code], labels=predictor.labels)
        found["unseen"] |= _by_language(predictor, drawn(part, most), {})
    found["mean"] = {kind: float(np.mean([each[kind] for each in found["languages"].values()])) for kind in KINDS}
    found["plain"] = plain(predictor)
    found["corpora"] = {"brighter": {"test": {"macro_f1": found["mean"]["found"]}}}
    return found


def _by_language(predictor: Predictor, rows: Dataset, own: dict[str, Any]) -> dict[str, Any]:
    gold, scores, codes = gold_of(rows).values, predictor.of_rows(rows, progress=True), np.array(rows["language"])
    thresholds = predictor.thresholds_of(rows["text"])
    detected = np.array([code or "" for code in languages_in(rows["text"])])
    found = {}
    for code in dict.fromkeys(codes):
        here = codes == code
        validation_rows, alone = own.get(code, (0, predictor.thresholds))
        of_kind = {"common": predictor.thresholds, "own": np.asarray(alone), "found": thresholds[here]}
        figures = {}
        for kind, at in of_kind.items():
            chosen = metrics.goemotions(gold[here], scores[here], 0.5, predictor.labels, scores[here] > at)
            figures[kind] = chosen["macro_f1"]
        right = float((detected[here] == DETECTED.get(code, "")).mean())
        found[code] = {"rows": int(here.sum()), "validation_rows": validation_rows, "detected": right, **figures}
    return found


def plain(predictor: Predictor) -> dict[str, Any]:
    """Of the packaged plain sentences of each language: how many there are, and how many get exactly their emotion, or none if they show none."""
    rows = load_split("plain_sentences", "test")
    found: dict[str, dict[str, int]] = {}
    answers = predictor(rows["text"])
    names = rows.features["labels"].feature.names
    for code, labels, answer in zip(rows["language"], rows["labels"], answers, strict=True):
        each = found.setdefault(code, {"sentences": 0, "right": 0, "among": 0, "neutral": 0, "neutral_right": 0})
        gold, given = {names[label] for label in labels}, {item["label"] for item in answer} - {"neutral"}
        each["sentences"] += 1
        each["right"] += gold == given
        each["among"] += gold <= given if gold else not given
        each["neutral"] += not gold
        each["neutral_right"] += not gold and not given
    return found


def card(figures: dict[str, Any]) -> str:
    """What the card says of the figures of `measure`."""
    languages = [*figures["languages"].items(), *figures["unseen"].items()]
    rows = [[code, str(each["rows"]), *(f"{each[kind]:.3f}" for kind in KINDS)] for code, each in languages]
    rows.append(["mean of the 26", "", *(f"{figures['mean'][kind]:.3f}" for kind in KINDS)])
    counts = ("sentences", "right", "among")
    plain = [[code, *(str(each[key]) for key in counts)] for code, each in figures["plain"].items()]
    tables = {"languages": markdown_table(["language", "rows", *KINDS], rows)}
    tables["plain"] = markdown_table(["language", "sentences", "exactly", "among others"], plain)
    return CARDS["languages"].format(**tables)
