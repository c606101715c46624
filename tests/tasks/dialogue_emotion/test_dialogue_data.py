# SPDX-License-Identifier: Apache-2.0
"""Dialogue emotion: MELD, EmoryNLP, DailyDialog, IEMOCAP and one's own dialogues."""

import hashlib
import json
import logging
import re
import shutil
import zipfile
from functools import partial
from pathlib import Path

import pytest
import toolkit_helpers as kit
from datasets import ClassLabel, Dataset, DatasetDict, List, Value

import hf_emotion.tasks.dialogue_emotion.loading as loading
from hf_emotion import load_dataset_for
from hf_emotion.data.rows import packaged_rows
from hf_emotion.tasks import task_of_rows
from hf_emotion.tasks.dialogue_emotion.loading import load_dialogue_files


FOUR = ["angry", "happy", "neutral", "sad"]
SPLITS = {"train": "train", "validation": "dev", "test": "test"}


def names_of(dataset: Dataset) -> list[str]:
    return dataset.features["labels"].feature.names


def named(dataset: Dataset, row: int) -> list[str | None]:
    """The names of the labels of a dialogue; None without a label."""
    return [None if label == -1 else names_of(dataset)[label] for label in dataset[row]["labels"]]


def turns_of(dataset: Dataset, row: int) -> list[tuple]:
    """(speaker, utterance, name of the label) of each turn of a dialogue."""
    values = dataset[row]
    return list(zip(values["speakers"], values["utterances"], named(dataset, row), strict=True))


def check_columns(dataset: Dataset, names: list[str]) -> None:
    text = List(Value("string"))
    assert dataset.column_names == ["id", "utterances", "speakers", "labels"]
    names_ = List(ClassLabel(names=names))
    assert dict(dataset.features) == {"id": Value("string"), "utterances": text, "speakers": text, "labels": names_}
    assert task_of_rows(dataset).name == "dialogue-emotion"
    assert len(set(dataset["id"])) == len(dataset)
    for row in dataset:
        assert len(row["utterances"]) == len(row["speakers"]) == len(row["labels"]) > 0


def written(corpus: str, root: Path) -> Path:
    return getattr(kit, f"write_{corpus}")(root)


def read(corpus: str, root: Path, **options) -> DatasetDict:
    return getattr(loading, f"load_{corpus}")(root, **options)


def train_of(corpus: str, root: Path, file: str, header: str, rows: list[list[str]]) -> Dataset:
    """The training part of a corpus whose training file has these rows."""
    kit.write_csv(written(corpus, root) / corpus / file, header.split(","), rows)
    return read(corpus, root)["train"]


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("corpus", ["meld", "emorynlp", "daily_dialog"])
def test_dialogues(corpus, split, tmp_path):
    names = getattr(kit, f"{corpus.upper()}_EMOTIONS")
    dataset = read(corpus, written(corpus, tmp_path))[split]
    check_columns(dataset, list(names))
    expected = kit.dialogues(names, *kit.DIALOGUE_PARTS[SPLITS[split]])
    if corpus == "daily_dialog":  # without names, in tokens
        for turns in expected:
            turns[:] = [("AB"[i % 2], f"{t.replace(' ,', ',')}.", label) for i, (_, t, label) in enumerate(turns)]
    first = {"meld": 0, "daily_dialog": 1}.get(corpus)
    assert first is None or dataset["id"][:] == [str(number) for number in range(first, first + len(expected))]
    assert [turns_of(dataset, row) for row in range(len(dataset))] == expected


@pytest.mark.parametrize("corpus", ["meld", "emorynlp", "daily_dialog"])
def test_four_classes_keep_the_other_utterances(corpus, tmp_path):
    of = {"joy": "happy", "joyful": "happy", "happiness": "happy", "anger": "angry", "mad": "angry", "sadness": "sad"}
    of |= {"sad": "sad", "neutral": "neutral"}
    written(corpus, tmp_path)
    splits, others = read(corpus, tmp_path, four_classes=True), read(corpus, tmp_path)
    for dataset, plain in zip(splits.values(), others.values(), strict=True):
        check_columns(dataset, FOUR)
        for row in range(len(plain)):
            expected = [(speaker, text, of.get(label)) for speaker, text, label in turns_of(plain, row)]
            assert turns_of(dataset, row) == expected


class TestMeld:
    FILE = ("train_sent_emo.csv", "Utterance,Speaker,Emotion,Dialogue_ID,Utterance_ID")

    def test_utterances_are_ordered_by_their_numbers(self, tmp_path):
        numbers = [(4, 10, "c"), (7, 1, "z"), (4, 0, "a"), (7, 0, "y"), (4, 9, "b")]
        rows = [[text, "Ann", "joy", str(dialogue), str(turn)] for dialogue, turn, text in numbers]
        train = train_of("meld", tmp_path, *self.FILE, rows)
        assert train["id"][:] == ["4", "7"]
        assert train["utterances"][:] == [["a", "b", "c"], ["y", "z"]]  # as numbers: 9 is before 10

    def test_texts_and_speakers(self, tmp_path):
        rows = [["  cafe\u0301,\nit’s ", " Jose\u0301 ", " Joy", "0", "0"], ["None", "Ann", "joy", "0", "1"]]
        turns = [("Jos\xe9", "caf\xe9,\nit’s", "joy"), ("Ann", "None", "joy")]
        assert turns_of(train_of("meld", tmp_path, *self.FILE, rows), 0) == turns


class TestEmoryNLP:
    FILE = ("emorynlp_train_final.csv", "Utterance,Speaker,Emotion,Scene_ID,Utterance_ID,Season,Episode")

    def test_a_dialogue_is_season_episode_and_scene(self, tmp_path):
        keys = [(1, 2, 3), (1, 3, 2), (2, 1, 3), (1, 2, 3), (12, 3, 1), (1, 23, 1)]
        rows = [
            [f"utterance {i}", "['Ann']", "Sad", str(scene), str(20 - i), str(season), str(episode)]
            for i, (season, episode, scene) in enumerate(keys)
        ]
        train = train_of("emorynlp", tmp_path, *self.FILE, rows)
        assert train["id"][:] == ["1-2-3", "1-3-2", "2-1-3", "12-3-1", "1-23-1"]
        assert train["utterances"][0] == ["utterance 3", "utterance 0"]  # by the number of the utterance

    def test_speakers_are_lists(self, tmp_path):
        speakers = ["['Ann Lee']", "['Ann Lee', 'Bo', \"O'Hara\"]", '["Ann\'s aunt"]']
        rows = [["a", speaker, "Mad", "1", str(turn), "1", "1"] for turn, speaker in enumerate(speakers)]
        train = train_of("emorynlp", tmp_path, *self.FILE, rows)
        assert train["speakers"][0] == ["Ann Lee", "Ann Lee & Bo & O'Hara", "Ann's aunt"]


def daily_dialog_train(root: Path, lines: str, labels: str) -> Dataset:
    folder = kit.write_daily_dialog(root) / "daily_dialog"
    (folder / "dialogues_train.txt").write_bytes(lines.encode())
    (folder / "dialogues_emotion_train.txt").write_bytes(labels.encode())
    return loading.load_daily_dialog(root)["train"]


class TestDailyDialog:
    def test_lines(self, tmp_path):
        lines = "a\u2028b , c __eou__ d\x0be __eou__\r\nf __eou__"  # other line separators; no last line break
        train = daily_dialog_train(tmp_path, lines, "0 6 \r\n4")
        assert turns_of(train, 0) == [("A", "a\u2028b, c", "neutral"), ("B", "d\x0be", "surprise")]
        assert turns_of(train, 1) == [("A", "f", "happiness")]

    def test_the_known_fault_is_left_out_with_one_warning(self, tmp_path, caplog):
        fault = "u __eou__ " * 12 + "\n"
        lines, labels = "a __eou__\n" * 7851 + fault + "z __eou__\n", "0\n" * 7851 + "0 " * 11 + "\n" + "1\n"
        with caplog.at_level(logging.WARNING):
            train = daily_dialog_train(tmp_path, lines, labels)
        assert len(train) == 7852 and train["id"][-2:] == ["7851", "7853"]
        assert turns_of(train, 7851) == [("A", "z", "anger")]
        (record,) = caplog.records
        assert "dialogues_train.txt, line 7852: 12 utterances and 11 labels, a known fault" in record.getMessage()


class TestDetokenize:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (" Well , you know , Max . ", "Well, you know, Max."),
            ("Really ? Yes ! No ; maybe : Wait ... what .. ? !", "Really? Yes! No; maybe: Wait... what..?!"),
            ("we don ’ t , they don ' t , you don’t", "we don't, they don't, you don't"),
            ("I ’ m sure he ’ s in , we ’ ll see", "I'm sure he's in, we'll see"),
            ("if they ’ re where I ’ d go and we ’ ve been", "if they're where I'd go and we've been"),
            ("I ’ Ve seen Ms O ’ Hara at six o ’ clock , Ma ’ am", "I've seen Ms O'Hara at six o'clock, Ma'am"),
            ("( she sits ) here [ softly ] , 5 % off at 3 : 30 .", "(she sits) here [softly], 5% off at 3:30."),
            # Quotation marks, plurals and what no blanks set apart stay as they are.
            ('he says " come in " .', 'he says " come in ".'),
            ("the song ' Blue Day ' is old", "the song ' Blue Day ' is old"),
            ("the ‘ Blue Day ’ tour", "the ' Blue Day ' tour"),
            ("the girls ' team", "the girls ' team"),
            ("a ' D ' in maths", "a ' D ' in maths"),
            ("the ' sun ' and ' the ' day", "the ' sun ' and ' the ' day"),
            ("Don't worry, it's 3:30 (a.m.) and 2.5% off [now]!", "Don't worry, it's 3:30 (a.m.) and 2.5% off [now]!"),
            ("it costs .5 or $ 5,000 in .NET", "it costs .5 or $ 5,000 in .NET"),
            ("hello :) and ;-) or :( bye", "hello :) and ;-) or :( bye"),
            ("rock 'n' roll, 'twas fun", "rock 'n' roll, 'twas fun"),
            ("chapter 3: 12 ways", "chapter 3: 12 ways"),
            ("", ""),
        ],
    )
    def test_texts(self, text, expected):
        assert loading.detokenize(text) == expected
        assert loading.detokenize(expected) == expected


def iemocap_folder(root: Path, spoken: bytes, evaluated: str, dialogue: str = "Ses05F_impro01") -> Path:
    """A folder in which a dialogue has this content."""
    folder = kit.write_iemocap(root) / "iemocap" / f"Session{dialogue[4]}" / "dialog"
    (folder / "transcriptions" / f"{dialogue}.txt").write_bytes(spoken)
    (folder / "EmoEvaluation" / f"{dialogue}.txt").write_text(evaluated, encoding="utf-8")
    return root


def evaluation(turn: str, code: str) -> str:
    return f"[1.0000 - 2.0000]\t{turn}\t{code}\t[2.5000, 2.5000, 2.5000]\n"


class TestIemocap:
    def test_dialogues_labels_and_speakers(self, tmp_path):
        splits = loading.load_iemocap(kit.write_iemocap(tmp_path))
        classes = {"ang": "angry", "hap": "happy", "exc": "happy", "neu": "neutral", "sad": "sad"}
        seen = set()
        for split, dataset in splits.items():
            check_columns(dataset, FOUR)
            for row, dialogue_id in enumerate(dataset["id"]):
                session, number = int(dialogue_id[4]), int(dialogue_id[-2:]) - 1
                (turns,) = kit.dialogues(kit.IEMOCAP_CODES, 1, 4 * session + number)
                who = {"Ann": f"Ses0{session}F", "Bo": f"Ses0{session}M"}
                assert turns_of(dataset, row) == [(who[name], text, classes.get(code)) for name, text, code in turns]
                seen.update(code for *_, code in turns)
                assert (split == "test") == (session == 5)
        assert seen == set(kit.IEMOCAP_CODES)

    def test_splits(self, tmp_path):
        folder = kit.write_iemocap(tmp_path, per_session=5)
        splits = loading.load_iemocap(folder)
        assert [len(splits[split]) for split in ("train", "validation", "test")] == [18, 2, 5]
        train, validation = set(splits["train"]["id"]), set(splits["validation"]["id"])
        assert not train & validation and {name[4] for name in train | validation} == set("1234")
        assert splits["train"]["id"][:] == sorted(train)
        assert loading.load_iemocap(folder)["validation"]["id"][:] == splits["validation"]["id"][:]

    def test_the_folder_itself(self, tmp_path):
        folder = kit.write_iemocap(tmp_path)
        expected, found = loading.load_iemocap(folder), loading.load_iemocap(folder / "iemocap")
        assert all(expected[split][:] == found[split][:] for split in expected)

    def test_lines(self, tmp_path):
        spoken = (
            "Ses05F_impro01_M000 [010.5000-012.0000]: third: [LAUGHTER] yes\n"
            "Ses05F_impro01_F000 [009.2500-010.0000]: second\n"  # 9 is before 10, also as the time of a later line
            "M: over her words\n\n"
            "Ses05F_impro01_MXX0 [013.0000-014.0000]: [LAUGHTER]\n"
            "Ses05F_impro01_F001 [001.0000-002.0000]: first\r\n"
            "some remark\n"
        )
        evaluated = (
            "% [START_TIME - END_TIME] TURN_NAME EMOTION [V, A, D]\n\n"
            + evaluation("Ses05F_impro01_F000", "exc")
            + "C-E2:\tAnger;\t()\nC-F1:\tSadness;\t(sad)\n"
            + evaluation("Ses05F_impro01_M000", "fru")
            + evaluation("Ses05F_impro01_F001", "ang")
        )
        test = loading.load_iemocap(iemocap_folder(tmp_path, spoken.encode(), evaluated))["test"]
        assert turns_of(test, test["id"][:].index("Ses05F_impro01")) == [
            ("Ses05F", "first", "angry"),
            ("Ses05F", "second", "happy"),
            ("Ses05M", "third: [LAUGHTER] yes", None),
            ("Ses05M", "[LAUGHTER]", None),  # nobody evaluated it
        ]

    def test_scripted_dialogues_have_longer_names(self, tmp_path):
        turn, dialogue = "Ses02M_script01_1b_F010", "Ses02M_script01_1b"
        spoken = f"{turn} [001.0000-002.0000]: so\n".encode()
        splits = loading.load_iemocap(iemocap_folder(tmp_path, spoken, evaluation(turn, "sad"), dialogue))
        (dataset,) = (dataset for dataset in splits.values() if dialogue in dataset["id"][:])
        assert turns_of(dataset, dataset["id"][:].index(dialogue)) == [("Ses02F", "so", "sad")]

    def test_files_of_macos_are_passed_over(self, tmp_path):
        folder = kit.write_iemocap(tmp_path)
        expected = loading.load_iemocap(folder)["test"][:]
        for path in folder.glob("iemocap/Session5/dialog/*"):
            (path / "._Ses05F_impro01.txt").write_bytes(b"\x00\x05\x16\xff")
        assert loading.load_iemocap(folder)["test"][:] == expected

    def test_other_encodings(self, tmp_path):
        folder = iemocap_folder(tmp_path, b"Ses05F_impro01_F000 [001.0000-002.0000]: caf\xe9\n", "")
        assert loading.load_iemocap(folder)["test"][0]["utterances"] == ["caf\xe9"]

    def test_missing_parts(self, tmp_path):
        for folder in (None, tmp_path):
            with pytest.raises(FileNotFoundError, match="must hold the folder `iemocap`.*Session1.*sail.usc.edu"):
                loading.load_iemocap(folder)


OWN_HEADER = ["dialogue", "speaker", "utterance", "label"]
OWN = [
    ["x", "Ann", "the first", "joy"],
    ["y", "Cy", "other", "anger"],
    ["x", "Bo", " the second ", ""],
    ["x", "Ann", "cafe\u0301", "calm"],
    ["y", "", "last", "  "],
]


def as_turns(rows: list[list[str]]) -> list[dict]:
    """The same rows, a row per dialogue."""
    found: dict[str, list] = {}
    for dialogue, speaker, utterance, label in rows:
        turn = {"speaker": speaker, "utterance": utterance, "label": label.strip() or None}
        found.setdefault(dialogue, []).append(turn)
    return [{"id": dialogue, "turns": turns} for dialogue, turns in found.items()]


def write_own(path: Path, rows: list[list[str]], layout: str) -> Path:
    objects = as_turns(rows) if "turns" in layout else [dict(zip(OWN_HEADER, row, strict=True)) for row in rows]
    return kit.write_rows(path.with_suffix(f".{layout.split()[-1]}"), objects)


LAYOUTS = ["csv", "jsonl", "turns jsonl", "turns parquet"]


class TestOwnDialogues:
    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_layouts(self, tmp_path, layout):
        for split in ("train", "valid", "test"):
            write_own(tmp_path / split, [[f"{split}-{row[0]}", *row[1:]] for row in OWN], layout)
        splits = load_dialogue_files(tmp_path)
        assert list(splits) == ["train", "validation", "test"]
        for name, dataset in zip(("train", "valid", "test"), splits.values(), strict=True):
            check_columns(dataset, ["anger", "calm", "joy"])
            assert dataset["id"][:] == [f"{name}-x", f"{name}-y"]
            first = [("Ann", "the first", "joy"), ("Bo", "the second", None), ("Ann", "caf\xe9", "calm")]
            second = [("Cy", "other", "anger"), ("", "last", None)]
            assert [turns_of(dataset, row) for row in (0, 1)] == [first, second]

    def test_a_dialogue_without_labels_is_not_set_aside(self, tmp_path):
        """An epoch cannot be chosen by it."""
        turns = (("Ann", "joy"), ("Bo", "calm"))
        rows = [[f"d{i}", who, f"turn {i}", label if i < 2 else ""] for i in range(20) for who, label in turns]
        kit.write_csv(tmp_path / "a.csv", OWN_HEADER, rows)
        splits = load_dialogue_files(tmp_path / "a.csv", validation_fraction=0.05)
        assert set(splits["validation"]["id"]) <= {"d0", "d1"} and len(splits["validation"]) == 1

    @pytest.mark.parametrize("layout", ["csv", "turns"])
    def test_other_names_of_columns(self, tmp_path, layout):
        options = {"utterance_column": "text", "speaker_column": "who", "label_column": "feeling"}
        if layout == "csv":
            kit.write_csv(tmp_path / "train.csv", ["scene", "who", "text", "feeling"], OWN)
            options["dialogue_column"] = "scene"
        else:
            text = json.dumps(as_turns(OWN)).replace('"utterance"', '"text"').replace('"speaker"', '"who"')
            kit.write_jsonl(tmp_path / "train.jsonl", json.loads(text.replace('"label"', '"feeling"')))
        splits = load_dialogue_files(tmp_path, validation_fraction=0.5, **options)
        turns = {splits[split]["id"][0]: turns_of(splits[split], 0) for split in ("train", "validation")}
        assert turns["x"][0] == ("Ann", "the first", "joy") and len(turns["x"]) == 3
        assert turns["y"][0] == ("Cy", "other", "anger")

    def test_ids_are_made_up_where_there_are_none(self, tmp_path):
        kit.write_jsonl(tmp_path / "train.jsonl", [{"turns": row["turns"]} for row in as_turns(OWN)])
        kit.write_jsonl(tmp_path / "dev.jsonl", as_turns(OWN))
        assert load_dialogue_files(tmp_path)["train"]["id"][:] == ["train-1", "train-2"]

    @pytest.mark.parametrize("layout", ["turns jsonl", "turns parquet"])
    def test_a_label_in_turns_that_no_training_row_has(self, tmp_path, layout):
        write_own(tmp_path / "train", OWN, "csv")  # each file has its own layout
        path = write_own(tmp_path / "dev", [*OWN, ["z", "Ann", "a", "joy"], ["z", "Cy", "more", "JOY"]], layout)
        message = rf"{re.escape(str(path))}, line 3: turn 2: unknown label 'JOY': no training"
        with pytest.raises(ValueError, match=message):
            load_dialogue_files(tmp_path)
        splits = load_dialogue_files(tmp_path, on_bad_rows="skip")
        assert splits["validation"]["id"][:] == ["x", "y"]  # the whole dialogue is dropped

    @pytest.mark.parametrize(
        ("split", "layout"), [("train", "csv"), ("dev", "turns jsonl"), ("test", "turns parquet")]
    )
    def test_a_part_without_any_label(self, tmp_path, split, layout):
        """Such as a file whose turns call it otherwise."""
        for part in ("train", "dev", "test"):
            rows = OWN if part != split else [[*row[:3], ""] for row in OWN]
            write_own(tmp_path / part, rows, layout)
        with pytest.raises(ValueError, match=rf"{split}\.\w+: no utterance has a label; name their column"):
            load_dialogue_files(tmp_path)

    def test_bad_utterances(self, tmp_path, caplog):
        bad = [
            (["x", "Ann", " ", "joy"], "the utterance in 'utterance' is empty or no string: ' '"),
            ([" ", "Ann", "a", "joy"], "'dialogue' must hold one name or number, got ' '"),
            (["x", "Ann", "a", "jolly"], r"unknown label 'jolly'; the labels are \['joy', 'ang.* Did you mean 'joy'"),
            (["x", "Ann", "a", "qqq"], "unknown label 'qqq'; the labels are"),
        ]
        rows = [["x", "Ann", "two\nlines", "joy"], *(row for row, _ in bad), *OWN]
        path = write_own(tmp_path / "train", rows, "csv")
        write_own(tmp_path / "dev", OWN, "csv")
        load, said = partial(load_dialogue_files, tmp_path, labels=["joy", "anger", "calm"]), [m for _, m in bad]
        splits = kit.check_bad_rows(load, path, 4, said, caplog)
        assert [len(labels) for labels in splits["train"]["labels"]] == [4, 2]

    def test_bad_dialogues(self, tmp_path, caplog):
        turn = {"speaker": "Ann", "utterance": "a", "label": "joy"}
        bad = [
            ({"id": "b"}, "the column 'turns' must hold a list of turns, at least one, got None"),
            ({"turns": "a"}, "the column 'turns' must hold a list of turns, at least one, got 'a'"),
            ({"turns": []}, r".* at least one, got \[\]"),
            ({"turns": [turn, "a"]}, "turn 2 must be an object, got str"),
            ({"turns": [turn, {"label": "joy"}]}, "turn 2: the utterance in 'utterance' is empty .*: None"),
            ({"turns": [{**turn, "label": ["joy"]}]}, "turn 1: 'label' must hold one name or number"),
            ({"turns": [{**turn, "speaker": ["Ann"]}]}, "turn 1: 'speaker' must hold one name"),
            ({"turns": [turn, {**turn, "label": "joi"}]}, "turn 2: unknown label 'joi'; .* Did you mean 'joy'"),
            ({"id": "x", "turns": [turn]}, "a dialogue before it has the id 'x' too"),
            ({"id": ["x"], "turns": [turn]}, r"'id' must hold one name or number, got \['x'\]"),
        ]
        first, second = as_turns(OWN)
        path = kit.write_jsonl(tmp_path / "train.jsonl", [first, *(row for row, _ in bad), second])
        write_own(tmp_path / "dev", OWN, "csv")
        load, said = partial(load_dialogue_files, tmp_path, labels=["joy", "anger", "calm"]), [m for _, m in bad]
        splits = kit.check_bad_rows(load, path, 2, said, caplog)
        assert splits["train"]["id"][:] == ["x", "y"]  # whole dialogues are dropped


def test_the_packaged_dialogues():
    """A turn that two readers read differently has no label; no training dialogue shares five words in a row with a test dialogue."""
    splits = load_dataset_for("dialogues")
    runs = {}
    for split, rows in splits.items():
        texts = [re.findall(r"\w+(?:['’]\w+)*", text.lower()) for turns in rows["utterances"] for text in turns]
        runs[split] = {tuple(words[i : i + 5]) for words in texts for i in range(len(words) - 4)}
        assert all(4 <= len(turns) <= 14 for turns in rows["utterances"])
        assert any(any(needed) for needed in rows["needs_context"])
    assert not runs["test"] & (runs["train"] | runs["validation"])
    names = splits["test"].features["labels"].feature.names
    read = [turn for _, row in packaged_rows("dialogues", "test") for turn in row["turns"]]
    expected = [names.index(turn["first"]) if turn["first"] == turn["second"] else -1 for turn in read]
    assert [label for labels in splits["test"]["labels"] for label in labels] == expected


class TestDownload:
    @pytest.fixture
    def folder(self, tmp_path, monkeypatch) -> Path:
        """`data/{train,validation,test}.zip` of a written corpus, whose sums are the right ones; downloads come from there."""
        folder, sums, self.asked = kit.write_daily_dialog(tmp_path), {}, []
        (folder / "data").mkdir()
        for split in SPLITS:
            names = (f"dialogues_{split}.txt", f"dialogues_emotion_{split}.txt")
            contents = {name: (folder / "daily_dialog" / name).read_bytes() for name in names}
            sums[split] = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
            with zipfile.ZipFile(folder / "data" / f"{split}.zip", "w") as archive:
                archive.writestr(f"__MACOSX/{split}/._dialogues_{split}.txt", b"\x00")
                archive.writestr(f"old/dialogues_{split}.txt", b"another file of this name")
                for name, content in contents.items():
                    archive.writestr(f"{split}/{name}", content)

        def download(address: str) -> Path:
            self.asked.append(address)  # in the cache files have names without ending
            return shutil.copyfile(folder / "data" / address.rpartition("/")[2], folder / str(len(self.asked)))

        monkeypatch.setattr(loading, "DAILY_DIALOG_FILES", sums)
        monkeypatch.setattr(loading, "download", download)
        return folder

    def test_daily_dialog(self, folder):
        expected, found = loading.load_daily_dialog(folder), loading.load_daily_dialog()
        assert all(expected[split][:] == found[split][:] for split in SPLITS)
        base = "https://raw.githubusercontent.com/TaWeiYeh/Emotional-Dialogue/e21dabcc3888782a3f2b7122b4556fe834e95f32"
        assert self.asked == [f"{base}/data/{split}.zip" for split in SPLITS]

    @pytest.mark.parametrize("member", ["dialogues_test.txt", None])
    def test_another_or_cut_archive(self, folder, member):
        path = folder / "data" / "test.zip"
        path.write_bytes(path.read_bytes()[:100])
        if member:
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr(member, b"a __eou__\n")
        message = "test.zip was not downloaded whole .*no dialogues_test.txt with the SHA-256 .*HF_EMOTION_DATA"
        with pytest.raises(OSError, match=message):
            loading.load_daily_dialog()
