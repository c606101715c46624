# SPDX-License-Identifier: Apache-2.0
"""Helpers of the toolkit's tests: a tiny base BERT, small recipes and corpora. The fixtures are in toolkit_fixtures.py."""

import contextlib
import csv
import dataclasses
import io
import itertools
import json
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

import datasets
import hf_emotion.modeling
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import torch
import yaml
from datasets import DatasetDict
from matplotlib.figure import Figure
from model_cases import SPECIAL_TOKENS, TINY_BERT, WORDS, asymmetric_
from transformers import BertConfig, BertModel, BertTokenizerFast
from typer.testing import CliRunner

from hf_emotion import load_dataset_for
from hf_emotion.cli import app
from hf_emotion.io.paths import open_file
from hf_emotion.recipes import Recipe, make_recipe
from hf_emotion.run_report import RunReport, SeedRun


TESTS = Path(__file__).parent
ROOT = TESTS.parent  # of the checkout

MAX_LENGTH = 32
FEELINGS = ("anger", "joy", "neutral")
SENTENCES = {  # the words tell the label
    "anger": ("this is anger", "i am not calm", "the anger today", "so sad and not happy"),
    "joy": ("i am so happy", "happy day", "joy of the sun", "this sun is joy"),
    "neutral": ("the day", "this is a day", "a home today", "neutral rain"),
}
QUICK_ARGUMENTS = {"num_train_epochs": 2, "per_device_train_batch_size": 8, "learning_rate": 1e-3}
QUICK_ARGUMENTS |= {"use_cpu": True, "bf16": False, "disable_tqdm": True}

SAVE_FIGURE = Figure.savefig

# Large new weights: the probabilities of rows and of labels lie far apart without much training.
UNTIED = {"initializer_range": 1.0, "tie_head": False}
GUIDED = {"initializer_range": 1.0, "context_initializer_range": 0.5}

# Words that targets and aspects are made of, without which a model could not tell one from another.
ASPECT_WORDS = ("location", "general", "safety", "transit", "anecdotes", "ambience", "service", "dash", "spot", "less")
SENTIHOOD_LABELS = ("none", "positive", "negative")
SENTIHOOD_CUES = {"general": "day", "price": "home", "safety": "fear", "transit-location": "rain"}
SENTIHOOD_PARTS = {"train": (24, 0), "dev": (13, 24), "test": (17, 37)}  # sentences, number of the first
SEMEVAL_PARTS = {"Train": (48, 0), "Test_Gold": (20, 48)}
SEMEVAL_CUES = {"price": "home", "anecdotes": "day", "food": "sun", "ambience": "calm", "service": "rain"}
SEMEVAL_WORDS = {"positive": "happy", "neutral": "neutral", "negative": "sad", "conflict": "nervous"}

# The files of a checkpoint, and what a run folder of a classifier holds beside the checkpoint and the code.
CHECKPOINT = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
REPORTS = {"classification_report.txt", "confusion_matrix.txt", "confusion_matrix.png"}
RESULTS = {
    *REPORTS,
    *("README.md", "metrics.json", "predictions.parquet", "recipe.yaml", "report.html", "train.log"),
    *("per_label_f1.png", "training_curve.png"),
}


def recipe_for(base: Path, arguments: dict | None = None, **changes) -> Recipe:
    """A small run over the quickstart corpus; `arguments` are added to its training arguments."""
    values = {"name": "tiny", "base_model": str(base), "dataset": "quickstart", "model_type": "label-aware-bert"}
    values |= {"model_config": UNTIED, "max_length": MAX_LENGTH, "train_fraction": 0.1, "few_shot": []}
    return make_recipe({**values, "training_arguments": {**QUICK_ARGUMENTS, **(arguments or {})}, **changes})


def targeted_recipe(base: Path, arguments: dict | None = None, **changes) -> Recipe:
    """A small run of targeted sentiment: QACG-BERT with auxiliary sentence over the synthetic SentiHood."""
    values = {"name": "targeted", "dataset": "sentihood", "model_type": "qacg-bert", "max_length": 40}
    values |= {"model_config": {**GUIDED, "auxiliary_sentence": True}, "train_fraction": 1}
    learning = {"num_train_epochs": 4, "learning_rate": 5e-3}
    return recipe_for(base, {**learning, **(arguments or {})}, **{**values, **changes})


def write_csv(path: Path, header: list[str], rows: list[list[str]], delimiter: str = ",") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_file(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=delimiter, lineterminator="\n").writerows([header, *rows])
    return path


def write_values(folder: Path) -> None:
    """Small files of EmoBank, and of two languages of BRIGHTER."""
    texts = ["so happy", "the anger", "a calm day", "sad and happy"] * 2
    files = itertools.product({"a": 1, "b": 3}.items(), ("train", "dev", "test"), ("eng", "deu"))
    for (track, most), part, language in files:
        path = folder / "brighter" / f"track_{track}" / part / f"{language}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [f"{part}{i},{text} {i},{most * (i % 2)},{most * (1 - i % 2)}" for i, text in enumerate(texts)]
        path.write_text("\n".join(["id,text,anger,joy", *rows, ""]), encoding="utf-8")
    places = itertools.product(("train", "dev", "test"), range(3))
    rows = [f"{part}{i},{part},{i + 1}.5,{3 - i},{i + 2},the {part} day {i}" for part, i in places]
    path = folder / "emobank" / "emobank.csv"
    path.parent.mkdir()
    path.write_text("\n".join(["id,split,V,A,D,text", *rows, ""]), encoding="utf-8")


def write_jsonl(path: Path, rows: list[dict]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_file(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return path


def write_xlsx(path: Path, rows: list[list], *changes: tuple[str, str]) -> Path:
    """A workbook; the `changes` (pattern, new) are made to the XML of its sheet and of its table of contents."""
    book = pytest.importorskip("openpyxl").Workbook()
    for row in rows:
        book.active.append(row)
    book.save(content := io.BytesIO())
    with zipfile.ZipFile(content) as read, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as written:
        for name in read.namelist():
            xml = read.read(name).decode()
            for pattern, new in changes:
                xml = re.sub(pattern, new, xml) if name.endswith(("sheet1.xml", "workbook.xml")) else xml
            written.writestr(name, xml)
    return path


def write_rows(path: Path, rows: list[dict], separator: str = ",") -> Path:
    """A file whose ending tells the format; a Parquet file has groups of three rows."""
    if ".jsonl" in path.suffixes:
        return write_jsonl(path, rows)
    if path.suffix == ".parquet":
        path.parent.mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=3)
        return path
    separator = "\t" if path.suffix == ".tsv" else separator
    return write_csv(path, list(rows[0]), [list(row.values()) for row in rows], separator)


def predictions_of(run: Path, split: str) -> list[dict]:
    """The rows of a part that a run stored."""
    rows = pyarrow.parquet.read_table(run / "predictions.parquet").to_pylist()
    return [row for row in rows if row["split"] == split]


def probabilities_of(run: Path, split: str) -> np.ndarray:
    return np.array([row["probabilities"] for row in predictions_of(run, split)])


def feelings_rows(count: int, offset: int = 0, multi_label: bool = True) -> list[list[str]]:
    """Rows of text and labels; of the multi-label ones every fourth has two labels, joined by "|"."""
    rows = []
    for number in range(offset, offset + count):
        label = FEELINGS[number % 3]
        text, labels = f"{SENTENCES[label][number // 3 % 4]} {WORDS[number % len(WORDS)]}", label
        if multi_label and number % 4 == 0:
            other = FEELINGS[(number + 1) % 3]
            text, labels = f"{text} {SENTENCES[other][number % 4]}", f"{label}|{other}"
        rows.append([text, labels])
    return rows


def sentihood_sentences(count: int, offset: int = 0) -> list[dict]:
    """
    Sentences as SentiHood's files have them, of many lengths, about one target or both. Of a target all aspects are praised or
    blamed, or one, or none; some sentences have an opinion on another aspect, some a placeholder that is glued to a word.
    """
    sentences = []
    aspects = list(SENTIHOOD_CUES)
    for number in range(offset, offset + count):
        targets = (["LOCATION1"], ["LOCATION2"], ["LOCATION1", "LOCATION2"])[number % 3]
        opinions, parts = [], []
        for i, target in enumerate(targets):
            kind, aspect = (number + 2 * i) % 5, aspects[(number + i) % 4]
            sentiment = "Positive" if kind in (0, 3) else "Negative"
            said = [f"{target} is so happy", f"{target} is very sad", f"today in{target}"]
            said += [f"the {SENTIHOOD_CUES[aspect]} of {target} is {feeling}" for feeling in ("joy", "sick")]
            parts.append(said[kind])
            opinions += [(target, about, sentiment) for about in ([aspect] if kind > 2 else aspects) if kind != 2]
        if number % 7 == 6:
            opinions.append((targets[0], "nightlife", "Negative"))
        text = f"{' , '.join(parts)}{' today' * (number * 5 % 7)} {WORDS[number % 28]}"
        found = [dict(zip(("target_entity", "aspect", "sentiment"), one, strict=True)) for one in opinions]
        sentences.append({"id": 1000 + number, "text": text, "opinions": found})
    return sentences


def sentihood_gold(part: str) -> list[tuple[str, str, str, str]]:
    """(sentence id, target, aspect, label) of every row of a part, in its order."""
    rows = []
    for sentence in sentihood_sentences(*SENTIHOOD_PARTS[part]):
        opinions = {(o["target_entity"], o["aspect"]): o["sentiment"].lower() for o in sentence["opinions"]}
        targets = [target for target in ("LOCATION1", "LOCATION2") if target in sentence["text"]]
        for pair in itertools.product(targets, SENTIHOOD_CUES):
            rows.append((str(sentence["id"]), *pair, opinions.get(pair, "none")))
    return rows


def write_sentihood(folder: Path, parts: Mapping[str, tuple[int, int]] = SENTIHOOD_PARTS) -> Path:
    """`folder/sentihood/sentihood-{train,dev,test}.json`; returns `folder`."""
    (folder / "sentihood").mkdir(parents=True)
    for part, sizes in parts.items():
        content = json.dumps(sentihood_sentences(*sizes), indent=1)
        (folder / "sentihood" / f"sentihood-{part}.json").write_text(content, encoding="utf-8")
    return folder


def semeval2014_sentences(count: int, offset: int = 0) -> list[tuple[str, str, dict[str, str]]]:
    """(id, text, {aspect: label}); of a sentence all aspects have one label, or one has, or none."""
    sentences = []
    for number in range(offset, offset + count):
        kind, about, labels = number % 6, list(SEMEVAL_CUES), list(SEMEVAL_WORDS)
        label = labels[kind] if kind < 4 else labels[number // 6 % 4]
        if kind < 4:
            text = f"this is {SEMEVAL_WORDS[label]} & not a fear"
        elif kind == 4:
            about = [about[number // 6 % 5]]
            text = f"the {SEMEVAL_CUES[about[0]]} is so {SEMEVAL_WORDS[label]}"
        else:
            about, text = [], "a day"
        text += f"{' today' * (number * 5 % 7)} {WORDS[number % 28]}"
        sentences.append((str(number), text, dict.fromkeys(about, label)))
    return sentences


def write_semeval2014(folder: Path) -> Path:
    """`folder/semeval2014/Restaurants_{Train,Test_Gold}.xml`; returns `folder`."""
    (folder / "semeval2014").mkdir(parents=True)
    for part, sizes in SEMEVAL_PARTS.items():
        lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<sentences>"]
        for number, text, labels in semeval2014_sentences(*sizes):
            found = "".join(f'<aspectCategory category="{a}" polarity="{label}"/>' for a, label in labels.items())
            found = found.replace('"anecdotes"', '"anecdotes/miscellaneous"')
            text = f"<text>{escape(text)}</text><aspectCategories>{found}</aspectCategories>"
            lines.append(f'<sentence id="{number}">{text}</sentence>')
        path = folder / "semeval2014" / f"Restaurants_{part}.xml"
        path.write_text("\n".join([*lines, "</sentences>"]), encoding="utf-8")
    return folder


PLACES_HEADER = ["text", "target", "aspect", "label"]
PLACES_PARTS = {"train": (48, 0), "dev": (20, 48), "test": (16, 68)}  # rows, number of the first


def places_rows(count: int, offset: int = 0) -> list[list[str]]:
    """Rows of text, target (home, sun), aspect (calm, food) and label (bad, good), each context in every fourth row."""
    rows = []
    for number in range(offset, offset + count):
        target, aspect = ("home", "sun")[number % 2], ("calm", "food")[number // 2 % 2]
        good = number // 4 % 3 != 0
        text = f"the {target} is {'so happy' if good else 'not joy'}{' today' * (number * 5 % 7)} {WORDS[number % 28]}"
        rows.append([text, target, aspect, "good" if good else "bad"])
    return rows


def write_places(folder: Path) -> Path:
    """One's own files with targets and aspects: {train,dev,test}.csv in `folder`."""
    for split, sizes in PLACES_PARTS.items():
        write_csv(folder / f"{split}.csv", PLACES_HEADER, places_rows(*sizes))
    return folder


def files_in(folder: Path) -> dict[str, bytes]:
    """Content of every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def seed_run(**fields) -> SeedRun:
    """The entry of a seed with these fields; the others say nothing."""
    empty: dict = {"seed": 1, "train_minutes": 1.0, "resumed": False, "data": "", "epochs": 1.0, "history": []}
    return SeedRun(**{**empty, "best_dev_metric": 0.5, "selected_by": "loss", "best_step": None, **fields})


def run_report(**fields) -> RunReport:
    """A report with these fields; the others say nothing."""
    empty = {one.name: {} for one in dataclasses.fields(RunReport)}
    generator = "mod-ln" in (fields.get("model_type") or "")
    task = "emotional-response" if generator else "emotion-classification"
    empty |= {
        "task": "targeted-sentiment" if fields.get("contexts") else task,
        "name": "a",
        "model_type": None,
        "base_model": None,
        "dataset": "files",
        "train_fraction": 1.0,
    }
    return RunReport(**{**empty, "shots": None, "max_eval_rows": None, "contexts": None, "threshold": 0.3, **fields})


def assert_close(found, expected, abs: float = 1e-5) -> None:
    """Two results in lists and dictionaries: equal names in one order, and scores up to the rounding of batches."""
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        found, expected = list(found.values()), list(expected.values())
    if isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other, abs)
    else:
        assert found == (pytest.approx(expected, abs=abs, nan_ok=True) if isinstance(expected, float) else expected)


def report_of(run: Path) -> dict:
    return json.loads((run / "metrics.json").read_text(encoding="utf-8"))


def save_base_bert(folder: Path, words: Sequence[str] = (), **config) -> Path:
    """A tiny BERT and its tokenizer, which knows every word of the quickstart corpus, and `words`."""
    folder.mkdir(parents=True, exist_ok=True)
    splits = load_dataset_for("quickstart")
    pieces = {piece for split in splits.values() for text in split["text"] for piece in text.lower().split()}
    found = {word for piece in pieces for word in re.findall(r"[a-z]+|[^a-z\s]", piece)}
    labels = splits["train"].features["labels"].feature.names
    vocabulary = list(dict.fromkeys([*SPECIAL_TOKENS, *WORDS, *labels, *sorted(found), *words]))
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    tokenizer = BertTokenizerFast.from_pretrained(folder)
    (folder / "vocab.txt").unlink()
    tokenizer.save_pretrained(folder)
    sizes = {**TINY_BERT, "vocab_size": len(vocabulary), "max_position_embeddings": 40, **config}
    asymmetric_(BertModel(BertConfig(**sizes)), seed=5).save_pretrained(folder)
    return folder


def fit(recipe: Recipe, output: Path, data: Path) -> Path:
    """A run without pictures and with a cache of its own beside it."""
    with torch_threads(1), pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", output.with_name("datasets-cache"))
        leave_out_plots(patch)
        hf_emotion.train(recipe, output, data_dir=data)
    return output


def leave_out_plots(patch: pytest.MonkeyPatch) -> None:
    """Drawing takes longer than training."""
    for name in ("figures.write_plots", "classification.write_reports"):
        patch.setattr(f"hf_emotion.reports.{name}", lambda *arguments: None)


def invoke(*arguments, stdin: str | None = None, terminal: bool = False) -> str:
    """Standard output of a command that ends well, in a pipe; `terminal`: what `predict` prints in a terminal."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hf_emotion.cli.predict.in_terminal", lambda: terminal)
        result = CliRunner().invoke(app, [*map(str, arguments)], input=stdin, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def cells(table: str) -> list[list[str]]:
    """Rows of a printed table, with its header."""
    lines = [line for line in table.splitlines() if line[:1] in ("│", "┃")]
    return [[cell.strip() for cell in re.split("[│┃]", line)[1:-1]] for line in lines]


@contextlib.contextmanager
def torch_threads(count: int):
    """Training and prediction of tiny models is faster in one thread, and its sums are always in one order."""
    threads = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextlib.contextmanager
def drawn_pictures():
    """Figures are drawn, as outside of the tests: see `empty_pictures` in conftest.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", SAVE_FIGURE)
        yield


DIALOGUE_PARTS = {"train": (12, 0), "dev": (4, 12), "test": (4, 16)}  # dialogues, number of the first
DIALOGUE_CUES = {  # the words tell the emotion, whatever a corpus calls it
    "this is neutral": ("neutral", "neu"),
    "i am so happy": ("joy", "joyful", "happiness", "hap", "exc"),
    "the anger": ("anger", "mad", "ang"),
    "so very sad": ("sadness", "sad"),
    "i feel fear": ("fear", "scared"),
    "i am nervous": ("surprise", "xxx"),
    "i feel sick": ("disgust", "fru"),
    "i am calm": ("peaceful",),
    "the sun": ("powerful",),
}
CUE_OF = {emotion: cue for cue, emotions in DIALOGUE_CUES.items() for emotion in emotions}
MELD_EMOTIONS = ("neutral", "joy", "surprise", "anger", "sadness", "disgust", "fear")
EMORYNLP_EMOTIONS = ("neutral", "joyful", "peaceful", "powerful", "scared", "mad", "sad")
DAILY_DIALOG_EMOTIONS = ("neutral", "anger", "disgust", "fear", "happiness", "sadness", "surprise")
IEMOCAP_CODES = ("ang", "hap", "neu", "sad", "exc", "fru", "xxx")


def dialogues(emotions: Sequence[str], count: int, offset: int = 0) -> list[list[tuple[str, str, str]]]:
    """Dialogues of 2 to 5 turns of "Ann" and "Bo": (speaker, utterance, emotion)."""
    endings = ("today", "this day", "at home", "the rain", "today , today")

    def spoken(number: int, turn: int) -> tuple[str, str, str]:
        emotion = emotions[(5 * number + turn) % len(emotions)]
        return ("Ann", "Bo")[turn % 2], f"{CUE_OF[emotion]} {endings[(number + turn) % 5]}", emotion

    numbers = range(offset, offset + count)
    return [[spoken(number, turn) for turn in range(2 + number % 4)] for number in numbers]


def write_meld(folder: Path, parts: Mapping[str, tuple[int, int]] = DIALOGUE_PARTS) -> Path:
    """`folder/meld/{train,dev,test}_sent_emo.csv`, with gaps between the utterances' numbers; returns `folder`."""
    header = "Sr No.,Utterance,Speaker,Emotion,Sentiment,Dialogue_ID,Utterance_ID,Season,Episode".split(",")
    for part, sizes in parts.items():
        rows = [
            ["1", text, speaker, emotion, "neutral", str(number), str(3 * turn), "1", "1"]
            for number, turns in enumerate(dialogues(MELD_EMOTIONS, *sizes))
            for turn, (speaker, text, emotion) in enumerate(turns)
        ]
        write_csv(folder / "meld" / f"{part}_sent_emo.csv", header, rows)
    return folder


def write_emorynlp(folder: Path, parts: Mapping[str, tuple[int, int]] = DIALOGUE_PARTS) -> Path:
    """`folder/emorynlp/emorynlp_{train,dev,test}_final.csv`; returns `folder`."""
    header = ["Utterance", "Speaker", "Emotion", "Scene_ID", "Utterance_ID", "Season", "Episode"]
    for part, sizes in parts.items():
        rows = [
            [text, str([speaker]), emotion.capitalize(), str(number % 3 + 1), str(turn + 1), "1", str(number // 3 + 1)]
            for number, turns in enumerate(dialogues(EMORYNLP_EMOTIONS, *sizes))
            for turn, (speaker, text, emotion) in enumerate(turns)
        ]
        write_csv(folder / "emorynlp" / f"emorynlp_{part}_final.csv", header, rows)
    return folder


def write_daily_dialog(folder: Path, parts: Mapping[str, tuple[int, int]] = DIALOGUE_PARTS) -> Path:
    """`folder/daily_dialog/dialogues_{train,validation,test}.txt` and `dialogues_emotion_*.txt`; returns `folder`."""
    (folder / "daily_dialog").mkdir(parents=True)
    for part, sizes in parts.items():
        split = "validation" if part == "dev" else part
        lines, labels = [], []
        for turns in dialogues(DAILY_DIALOG_EMOTIONS, *sizes):
            lines.append("".join(f"{text} . __eou__ " for _, text, _ in turns).strip() + "\n")
            labels.append("".join(f"{DAILY_DIALOG_EMOTIONS.index(emotion)} " for *_, emotion in turns) + "\n")
        (folder / "daily_dialog" / f"dialogues_{split}.txt").write_text("".join(lines), encoding="utf-8")
        (folder / "daily_dialog" / f"dialogues_emotion_{split}.txt").write_text("".join(labels), encoding="utf-8")
    return folder


def write_iemocap(folder: Path, per_session: int = 4) -> Path:
    """`folder/iemocap/Session{1..5}/dialog/{transcriptions,EmoEvaluation}/*.txt`; returns `folder`."""
    for session in range(1, 6):
        root = folder / "iemocap" / f"Session{session}" / "dialog"
        for name in ("transcriptions", "EmoEvaluation"):
            (root / name).mkdir(parents=True)
        for number, turns in enumerate(dialogues(IEMOCAP_CODES, per_session, session * per_session)):
            dialogue = f"Ses0{session}{'FM'[number % 2]}_impro{number + 1:02}"
            spoken, evaluated = ["M: rain"], ["% [START_TIME - END_TIME] TURN_NAME EMOTION [V, A, D]", ""]
            for turn, (speaker, text, code) in enumerate(turns):
                turn_id = f"{dialogue}_{'F' if speaker == 'Ann' else 'M'}{turn // 2:03}"
                start, end = 5.25 * turn + 6.2901, 5.25 * turn + 8.2357
                spoken.append(f"{turn_id} [{start:08.4f}-{end:08.4f}]: {text}")
                evaluated.append(f"[{start:.4f} - {end:.4f}]\t{turn_id}\t{code}\t[2.5000, 2.5000, 2.5000]")
                evaluated += ["C-E2:\tNeutral;\t()", "A-E3:\tval 3; act 2; dom  2;\t()", ""]
            (root / "transcriptions" / f"{dialogue}.txt").write_text("\n".join([*spoken, ""]), encoding="utf-8")
            (root / "EmoEvaluation" / f"{dialogue}.txt").write_text("\n".join(evaluated), encoding="utf-8")
    return folder


def write_dialogues(folder: Path, parts: Mapping[str, tuple[int, int]] = DIALOGUE_PARTS) -> Path:
    """One's own dialogues, a row per utterance: {train,dev,test}.csv in `folder`; every sixth utterance has no label."""
    for part, sizes in parts.items():
        rows = [
            [f"d{sizes[1] + number}", speaker, text, "" if (5 * number + turn) % 6 == 5 else emotion]
            for number, turns in enumerate(dialogues(FEELINGS, *sizes))
            for turn, (speaker, text, emotion) in enumerate(turns)
        ]
        write_csv(folder / f"{part}.csv", ["dialogue", "speaker", "utterance", "label"], rows)
    return folder


def travelling(*names: str) -> set[str]:
    """The files of modeling/ that a checkpoint needs beside it: these, and whatever they import."""
    folder, found, new = Path(hf_emotion.modeling.__file__).parent, set(), {f"{name}.py" for name in names}
    while new:
        found |= new
        code = "\n".join((folder / name).read_text() for name in new)
        new = {f"{name}.py" for name in re.findall(r"^ *from \.(\w+) import", code, re.M)} - found
    return found


NAME = "somebody/model"

EXAMPLE = 'print(pipeline(model="PATH_OR_REPO", trust_remote_code=True)({text!r}))'


def write_run(folder: Path, name: str = "tiny", code: str = "print('no model')", **metadata) -> Path:
    """The card and the figures of a finished run, in a folder that may hold a checkpoint already."""
    result = {
        "task": {"type": "text-classification"},
        "dataset": {"type": "quickstart", "name": "quickstart", "split": "test"},
        "metrics": [{"type": "f1", "name": "macro_f1", "value": 0.5}],
    }
    index = [{"name": name, "results": [result]}]
    metadata = {"license": "apache-2.0", "tags": ["emotion"], "model-index": index, **metadata}
    text = yaml.safe_dump({key: value for key, value in metadata.items() if value is not None})
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "README.md").write_text(f"---\n{text}---\n\n# {name}\n\n```python\n{code}\n```\n", encoding="utf-8")
    run_report(name=name, base_model=str(folder / "base"), runs=[seed_run(seed=3)]).write(folder)
    return folder


def check_bad_rows(
    load: Callable[..., DatasetDict], path: Path, first: int, bad: Sequence[str], caplog
) -> DatasetDict:
    """
    `load()` refuses the first bad row, `load(on_bad_rows="skip")` drops, counts and lists all; returns what that gives.
    `bad`: patterns, of the lines from `first` on.
    """
    places = [rf"{re.escape(str(path))}, line {line}: .*{message}" for line, message in enumerate(bad, first)]
    with pytest.raises(ValueError, match=f"{places[0]}.*on_bad_rows='skip'"):
        load()
    caplog.clear()
    splits = load(on_bad_rows="skip")
    (said,) = (record.getMessage() for record in caplog.records if "bad rows skipped" in record.getMessage())
    assert said.startswith(f"{len(bad)} bad rows skipped")
    assert [place for place in places if not re.search(place, said)] == []
    return splits
