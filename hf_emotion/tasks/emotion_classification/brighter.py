# SPDX-License-Identifier: Apache-2.0
"""Loads BRIGHTER: emotions and their intensities in texts in many languages."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from ...data.files import SPLIT_STEMS
from ...data.rows import BadRow, decode, packaged_rows
from ...data.splits import UNANNOTATED
from ...data.targets import COLUMN as TARGETS
from ...data.targets import to_dataset
from ...io.lazily import datasets
from ..corpus import rows_of
from ..corpus_files import CorpusRows, csv_rows


BRIGHTER_HUB_ID = "brighter-dataset/BRIGHTER-emotion-categories"
INTENSITIES_HUB_ID = "brighter-dataset/BRIGHTER-emotion-intensities"
EMOTIONS = ("anger", "disgust", "fear", "joy", "sadness", "surprise")
TRAINED = (
    "afr amh arq ary chn deu eng esp hau hin ibo kin mar orm pcm ptbr ptmz ron rus som sun swa swe tat tir ukr vmw yor"
).split()
UNSEEN = ("ind", "jav", "xho", "zul")  # without training rows
DETECTED = {  # code -> the ISO 639-1 code that `runtime.languages` finds; the others cannot be found
    **{"afr": "af", "amh": "am", "arq": "ar", "ary": "ar", "chn": "zh", "deu": "de", "eng": "en", "esp": "es"},
    **{"hin": "hi", "kin": "rw"},
    **{"mar": "mr", "ptbr": "pt", "ptmz": "pt", "ron": "ro", "rus": "ru", "swa": "sw", "swe": "sv", "ukr": "uk"},
}
WITH_INTENSITIES = "amh arq chn deu eng esp hau ptbr ron rus ukr".split()
# Of the corpus `plain_sentences`.
PlainLanguage = Literal["chn", "deu", "eng", "esp", "fra", "ita", "jpn", "pol", "ptbr", "rus"]
PARTS = dict(zip(SPLIT_STEMS, ("train", "dev", "test"), strict=True))


@rows_of("emotion-classification")
def load_brighter(
    data_dir: str | Path | None = None,
    languages: Sequence[str] | None = None,
    track: Literal["labels", "intensities"] = "labels",
    labels: Sequence[str] | None = None,
    rows_per_language: int | None = None,
    plain_copies: int = 0,
) -> datasets.DatasetDict:
    """
    BRIGHTER (Muhammad et al. 2025; SemEval-2025 task 11), texts in up to 32 languages, labelled by speakers (CC BY 4.0). Labels that were
    not annotated in a language, such as disgust in English, are missing there, and not absent.

    Args:
        data_dir: folder that holds `brighter/track_{a,b,c}/{train,dev,test}/LANGUAGE.csv`. None: from the Hub,
            `brighter-dataset/BRIGHTER-emotion-categories` and `-intensities`.
        languages: their codes, e.g. ["deu", "ptbr"]; None: all with training rows. Indonesian, Javanese, Xhosa and Zulu (ind, jav, xho,
            zul) have only a validation and a test part.
        track: "labels": which of six emotions a text shows, several for each. "intensities": how strongly, 0 to 3, in 11 languages.
        labels: the emotions in their order; None: those that were annotated in one of the languages.
        rows_per_language: the most training rows of a language, drawn at a fixed seed; None: all.
        plain_copies: how many copies of the training sentences of the packaged corpus plain_sentences to add to the training part: BRIGHTER has
            few texts without any emotion that are no messages. Labels alone.
    """
    intensities = track == "intensities"
    known = WITH_INTENSITIES if intensities else [*TRAINED, *UNSEEN]
    for option, named, allowed in (
        ("track", [track], ["labels", "intensities"]),
        ("languages", languages or [], known),
        ("labels", labels or [], EMOTIONS),
    ):
        if isinstance(named, str) or not set(named) <= set(allowed) or len(set(named)) < len(named):
            raise ValueError(f"`{option}` must be of {list(allowed)}, each once at most; got {named!r}.")
    if plain_copies < 0 or (intensities and plain_copies):
        raise ValueError(f"`plain_copies` must be 0 or more, and 0 with intensities; got {plain_copies}.")
    chosen = list(languages or (known if intensities else TRAINED))
    parts: dict[str, CorpusRows] = {}
    for split in SPLIT_STEMS:
        for language in chosen:
            with CorpusRows(f"BRIGHTER {language} {split}") as rows:
                found = _file(rows, data_dir, language, split, intensities)
                for rows.line, row in found:
                    cells = {name: row.get(name) for name in EMOTIONS}
                    values = {name: int(cell) for name, cell in cells.items() if cell not in (None, "")}
                    if not values or not all(0 <= value <= (3 if intensities else 1) for value in values.values()):
                        raise BadRow(f"emotions must be {'0 to 3' if intensities else '0 or 1'}, got {cells}")
                    rows.add(rows.line, row["text"], [], f"{language}:{row['id']}", values=values, language=language)
            if split == "train" and rows_per_language is not None and len(rows.rows) > rows_per_language:
                rows.rows = random.Random(0).sample(rows.rows, rows_per_language)
            if rows.rows:
                parts.setdefault(split, CorpusRows(f"BRIGHTER {split}")).rows.extend(rows.rows)
    for copy in range(1, plain_copies + 1):
        parts["train"].rows.extend(_plain("train", f"plain-{copy}").rows)
    annotated = {name for part in parts.values() for row in part.rows for name in row["values"]}
    names = list(labels or [name for name in EMOTIONS if name in annotated])
    return datasets.DatasetDict({split: _dataset(part, names, intensities) for split, part in parts.items()})


@rows_of("emotion-classification")
def load_plain_sentences(
    data_dir: str | Path | None = None, language: PlainLanguage | None = None
) -> datasets.DatasetDict:
    """
    The packaged plain sentences in ten languages, CC0: each shows one of BRIGHTER's six emotions, or none. A training part, mostly of
    sentences without emotion, and a test part of 21 sentences in each language, three for each emotion and for none. Needs no `data_dir`.

    Args:
        language: its code in BRIGHTER, such as "deu"; "fra", "ita", "jpn" and "pol" are not in BRIGHTER. None: all ten.
    """
    parts = {split: _plain(split, split, language) for split in ("train", "test")}
    return datasets.DatasetDict({split: _dataset(part, EMOTIONS, False) for split, part in parts.items()})


def _plain(split: str, prefix: str, language: str | None = None) -> CorpusRows:
    """A part of the packaged plain sentences, all of it or in one language; a row's id is `prefix` and the line."""
    rows = CorpusRows(f"plain_sentences {split}")
    for line, row in packaged_rows("plain_sentences", split):
        if language in (None, row["language"]):
            values = {name: int(name in row["labels"]) for name in EMOTIONS}
            rows.add(line, row["text"], [], f"{prefix}-{line}", values=values, language=row["language"])
    return rows


def _file(
    rows: CorpusRows, data_dir: str | Path | None, language: str, split: str, intensities: bool
) -> Iterable[tuple[int, dict]]:
    """The lines and rows of a part in one language, none if there is no such part."""
    if data_dir is None:
        hub = datasets.load_dataset(INTENSITIES_HUB_ID if intensities else BRIGHTER_HUB_ID, language)
        return enumerate(hub[PARTS[split]], 1) if PARTS[split] in hub else []
    folder = Path(data_dir) / "brighter"
    track = "track_b" if intensities else "track_c" if language in UNSEEN else "track_a"
    path = folder / track / PARTS[split] / f"{language}.csv"
    if not path.is_file():
        if not any((folder / track / part / path.name).is_file() for part in PARTS.values()):
            raise FileNotFoundError(
                f"{path} does not exist: `data_dir` must hold the folder `brighter` with track_a, track_b and track_c. Without "
                "`data_dir` (and without HF_EMOTION_DATA) the corpus comes from the Hub."
            )
        return []
    rows.source = path
    found = [(rows.line, row) for row in csv_rows(rows, decode(path.read_bytes(), path))]
    if split == "test" and found and not any(found[0][1].get(name) for name in EMOTIONS):
        # The labels of English are only in track C, under other ids.
        path = folder / "track_c" / "test" / path.name
        labelled = {row["text"]: row for row in csv_rows(rows, decode(path.read_bytes(), path))}
        found = [(line, {**labelled[row["text"]], "id": row["id"]}) for line, row in found]
    return found


def _dataset(rows: CorpusRows, names: Sequence[str], intensities: bool) -> datasets.Dataset:
    """The rows as `load_dataset_for` has them, with their `language`."""
    features: dict[str, Any] = {"language": datasets.Value("string")}
    for row in rows.rows:
        row[TARGETS] = {name: row["values"].get(name) for name in names}
        row["labels"] = [number for number, name in enumerate(names) if row["values"].get(name)]
        row[UNANNOTATED] = [number for number, name in enumerate(names) if name not in row["values"]]
    if intensities:
        return to_dataset(rows, features)
    if any(row[UNANNOTATED] for row in rows.rows):
        features[UNANNOTATED] = datasets.List(datasets.Value("int64"))
    return rows.to_dataset(names, multi_label=True, columns=features)
