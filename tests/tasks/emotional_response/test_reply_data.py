# SPDX-License-Identifier: Apache-2.0
"""Corpora of replies with an emotion: MojiTalk, DailyDialog, EmpatheticDialogues and one's own pairs."""

import collections
import io
import itertools
import logging
import re
import tarfile
from functools import partial
from pathlib import Path

import pytest
import reply_corpora as given
import toolkit_helpers as kit
from datasets import ClassLabel, Dataset, DatasetDict, Features, List, Value
from reply_corpora import FIST, HEART, JOY, MOJIS, NO, OWN, OWN_PAIRS, POSTS, SOB

import hf_emotion.tasks.emotional_response.loading as loading
from hf_emotion import load_dataset_for
from hf_emotion.tasks import task_of_rows
from hf_emotion.tasks.corpus import mark
from hf_emotion.tasks.emotional_response import TASK
from hf_emotion.tasks.emotional_response.emojis import strip_emojis
from hf_emotion.tasks.emotional_response.loading import load_reply_files
from hf_emotion.tasks.rows import duplicates_between_splits, remove_duplicates


ZWJ, VS16, VS15 = "\u200d", "\ufe0f", "\ufe0e"
TONES = [chr(number) for number in range(0x1F3FB, 0x1F400)]


def names_of(dataset: Dataset) -> list[str]:
    return dataset.features["labels"].names


def pairs(dataset: Dataset) -> list[tuple[str, str, str]]:
    """(context, reply, name of the label) of each row."""
    columns = zip(dataset["context"], dataset["reply"], dataset["labels"], strict=True)
    names = names_of(dataset)
    return [(context, reply, names[label]) for context, reply, label in columns]


def check_columns(dataset: Dataset, names: list[str]) -> None:
    text = Value("string")
    assert dict(dataset.features) == {"id": text, "context": text, "reply": text, "labels": ClassLabel(names=names)}
    assert dataset.column_names == ["id", "context", "reply", "labels"]
    assert task_of_rows(dataset).name == "emotional-response"
    assert len(set(dataset["id"])) == len(dataset) > 0
    for row in dataset:
        assert row["context"] == row["context"].strip() != "" and row["reply"] == row["reply"].strip() != ""


def logged(caplog, part: str) -> str:
    (message,) = [r.getMessage() for r in caplog.records if part in r.getMessage()]
    return message


class TestStripEmojis:
    def test_each_of_the_64_in_all_its_forms(self):
        assert len(set(loading.MOJITALK_EMOJIS)) == len(loading.MOJITALK_EMOJIS) == 64
        assert all(len(emoji) == 1 for emoji in loading.MOJITALK_EMOJIS)
        for emoji, more in itertools.product(loading.MOJITALK_EMOJIS, ("", VS16, VS15, *TONES, TONES[0] + VS16)):
            form = emoji + more
            assert strip_emojis(f"one {form} two {form}", loading.MOJITALK_EMOJIS) == "one two", ascii(form)
            assert strip_emojis(form * 3, loading.MOJITALK_EMOJIS) == "", ascii(form)

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (f"{JOY} so good {JOY}{JOY} yes {JOY} {SOB}", "so good yes"),
            (f"good{JOY}bad{JOY}!", "good bad!"),
            (f"a\t{JOY}\n{SOB} (good{JOY}) {JOY}!", "a (good) !"),
            ("a  b\tc", "a  b\tc"),  # blanks that stand by no emoji
            (" a ", "a"),
            ("", ""),
            # A man's and a woman's variant, with and without tone and selector.
            (f"{NO}{ZWJ}♂{VS16} stop {NO}{TONES[2]}{ZWJ}♀ stop", "stop stop"),
            # What no emoji follows is no joined emoji, nor are two of the list.
            (f"ha {JOY}{ZWJ}{SOB} ha {JOY}{ZWJ} ha {JOY}{ZWJ}", "ha ha ha"),
        ],
    )
    def test_stripped(self, text, expected):
        assert strip_emojis(text, loading.MOJITALK_EMOJIS) == expected

    OTHERS = f"🤣 ♡ ☹{VS16} 🤷{TONES[3]} 🤷{TONES[3]}{ZWJ}♀{VS16} ✊{TONES[0]} {HEART}{VS16}{ZWJ}🔥 {HEART}{ZWJ}🩹"
    OTHERS += f" 👩{ZWJ}{HEART}{VS16}{ZWJ}👨 👩{TONES[1]}{ZWJ}{HEART}{VS16}{ZWJ}👨{TONES[4]} 🇺🇸 1{VS16}\u20e3 100 :)"

    @pytest.mark.parametrize("other", [*OTHERS.split(), "€ 5 – “yes”…"], ids=ascii)
    def test_other_emojis_stay_whole(self, other):
        assert strip_emojis(other, loading.MOJITALK_EMOJIS) == other
        assert strip_emojis(f"{JOY}{other}{JOY} {other}", loading.MOJITALK_EMOJIS) == f"{other} {other}"

    def test_only_those_given(self):
        assert strip_emojis(f"a {JOY} b {SOB}", [SOB]) == f"a {JOY} b"
        assert strip_emojis(f"a {HEART} b {HEART}{VS16}", [HEART + VS16]) == "a b"
        assert strip_emojis("a 🇺🇸 b 🇺 c", ["🇺", "🇺🇸"]) == "a b c"
        assert strip_emojis("a * b . c", ["*"]) == "a b . c"  # no pattern

    @pytest.mark.parametrize("emojis", [[], [JOY, ""], [VS16]])
    def test_no_emoji(self, emojis):
        with pytest.raises(ValueError, match="`emojis` must be at least one, none of them empty"):
            strip_emojis("a", emojis)


class TestMojitalk:
    # Told by sha256sum, the first and the last hash of each part: a part must never change once runs are published.
    KNOWN = {
        **{"generator": ("post 242", "post 149"), "judge_a": ("post 11", "post 306")},
        **{"judge_b": ("post 132", "post 128"), "validation": ("post 151", "post 185")},
    }

    def test_known_parts(self):
        for part, contexts in self.KNOWN.items():
            assert [loading.mojitalk_part(context) for context in contexts] == [part] * 2

    @pytest.mark.parametrize("train_part", ["generator", "judge_a", "judge_b"])
    def test_dev_is_divided_by_hash(self, tmp_path, train_part):
        splits = loading.load_mojitalk(given.mojitalk_folder(tmp_path), train_part=train_part)
        assert list(splits) == ["train", "validation", "test"]
        for split, part in {"train": train_part, "validation": "validation"}.items():
            check_columns(splits[split], MOJIS)
            rows = {f"dev-{i}": row for i, row in enumerate(POSTS, 1) if given.part_of(row[0]) == part}
            assert dict(zip(splits[split]["id"], pairs(splits[split]), strict=True)) == rows
        assert pairs(splits["test"]) == [("a test post", "a test reply", HEART)]
        assert splits["test"]["id"][:] == ["test-1"]

    def test_the_part_does_not_depend_on_the_other_rows_or_the_form(self, tmp_path):
        rows = [(f"  {post} ".replace("\xe9", "e\u0301"), reply, emoji) for post, reply, emoji in POSTS[::-1]]
        first = loading.load_mojitalk(given.mojitalk_folder(tmp_path / "a"))["train"]
        second = loading.load_mojitalk(given.mojitalk_folder(tmp_path / "b", dev=rows))["train"]
        assert sorted(pairs(first)) == sorted(pairs(second))
        assert all(loading.mojitalk_part(context) == "generator" for context in second["context"])

    def test_the_published_training_part(self, tmp_path):
        train = [("x", "a", JOY), ("y", "b", FIST)]
        folder = given.mojitalk_folder(tmp_path, train=train)
        splits = loading.load_mojitalk(folder)
        assert pairs(splits["train"]) == train and splits["train"]["id"][:] == ["train-1", "train-2"]
        assert pairs(splits["validation"]) == POSTS
        assert pairs(splits["test"]) == [("a test post", "a test reply", HEART)]
        without = given.mojitalk_folder(tmp_path / "without")
        for part in ("judge_a", "judge_b"):  # as if it were not there
            judge, other = (loading.load_mojitalk(path, train_part=part) for path in (folder, without))
            assert {split: pairs(judge[split]) for split in judge} == {split: pairs(other[split]) for split in other}

    def test_replies_are_stripped_contexts_are_not(self, tmp_path, caplog):
        test = [
            (f"so {JOY} {FIST}", f"yes {JOY}{VS16} no {FIST}{TONES[2]} 🤣", SOB),
            ("b", f"{JOY} {SOB}{SOB}", JOY),
            ("c", f"{FIST}{TONES[0]}", FIST),
            ("d", "👍", FIST),  # none of these four
        ]
        with caplog.at_level(logging.WARNING):
            splits = loading.load_mojitalk(given.mojitalk_folder(tmp_path, test=test))
        assert pairs(splits["test"]) == [(f"so {JOY} {FIST}", "yes no 🤣", SOB), ("d", "👍", FIST)]
        assert splits["test"]["id"][:] == ["test-1", "test-4"]
        assert logged(caplog, "nothing but emojis").endswith("nothing but emojis: dev 0, test 2")
        assert len(caplog.records) == 1

    def test_labels_with_selector_and_tone(self, tmp_path):
        test = [("a", "b", HEART + VS16), ("c", "d", FIST + TONES[1])]
        folder = given.mojitalk_folder(tmp_path, test=test)
        path = folder / "mojitalk" / "emojis64.txt"
        path.write_text(path.read_text(encoding="utf-8").replace(HEART, HEART + VS16), encoding="utf-8")
        test = loading.load_mojitalk(folder)["test"]
        assert pairs(test) == [("a", "b", HEART), ("c", "d", FIST)] and names_of(test) == MOJIS

    def test_without_its_list_the_emojis_are_the_64(self, tmp_path):
        folder = given.mojitalk_folder(tmp_path, test=[("a", "b 🔫", "💯")])
        (folder / "mojitalk" / "emojis64.txt").unlink()
        test = loading.load_mojitalk(folder)["test"]
        check_columns(test, loading.MOJITALK_EMOJIS)
        assert pairs(test) == [("a", "b", "💯")]

    def test_lines(self, tmp_path):
        folder = given.mojitalk_folder(tmp_path)
        (folder / "mojitalk" / "test.ori").write_bytes(f"{JOY} a\u2028b\r\n{SOB} c\x0bd".encode())
        (folder / "mojitalk" / "test.rep").write_bytes("e\x85f\r\ng".encode())
        # A row does not end at \x85, which is then read as the character of Windows-1252.
        rows = [("a\u2028b", "e\N{HORIZONTAL ELLIPSIS}f", JOY), ("c\x0bd", "g", SOB)]
        assert pairs(loading.load_mojitalk(folder)["test"]) == rows

    def test_a_part_without_rows(self, tmp_path):
        rows = [row for row in POSTS if given.part_of(row[0]) != "judge_b"]
        folder = given.mojitalk_folder(tmp_path, dev=rows)
        loading.load_mojitalk(folder, train_part="judge_a")
        with pytest.raises(ValueError, match=rf"dev.ori: none of {len(rows)} rows falls to 'judge_b'"):
            loading.load_mojitalk(folder, train_part="judge_b")

    def test_nothing_is_downloaded(self, monkeypatch):
        monkeypatch.delenv("HF_EMOTION_DATA", raising=False)
        told = "`data_dir` .or HF_EMOTION_DATA.*no licence is stated .*//github.com/zlinao/Variational-Transformer"
        with pytest.raises(FileNotFoundError, match=told):
            load_dataset_for("mojitalk")


def dialogue_dataset(*turns: list[tuple[str, int]]) -> Dataset:
    """Dialogues d0, d1, ... of (utterance, label)."""
    columns = {"id": [f"d{i}" for i in range(len(turns))], "speakers": [["A"] * len(dialogue) for dialogue in turns]}
    for name, place in (("utterances", 0), ("labels", 1)):
        columns[name] = [[turn[place] for turn in dialogue] for dialogue in turns]
    kinds = dict.fromkeys(("speakers", "utterances"), Value("string")) | {
        "labels": ClassLabel(names=["neutral", "joy"])
    }
    features = Features(id=Value("string"), **{name: List(kind) for name, kind in kinds.items()})
    return Dataset.from_dict(columns, features=features)


class TestDialogueReplies:
    FIVE = [("a", 0), ("b", 1), ("c", 0), ("d", 1), ("e", 0)]

    def test_contexts(self):
        for context_turns, contexts in (
            (1, ["a", "b", "c", "d"]),
            (3, ["a", "a b", "a b c", "b c d"]),
            (9, ["a", "a b", "a b c", "a b c d"]),
        ):
            dataset = mark(loading.dialogue_replies(dialogue_dataset(self.FIVE), context_turns), "emotional-response")
            check_columns(dataset, ["neutral", "joy"])
            labels = ["joy", "neutral", "joy", "neutral"]
            assert pairs(dataset) == list(zip(contexts, "bcde", labels, strict=True))
            assert dataset["id"][:] == ["d0-2", "d0-3", "d0-4", "d0-5"]

    def test_turns_without_label_are_no_replies_but_context(self):
        turns = [[("a", 1), ("b", -1), ("c", 1)], [("f", -1), ("g", 0)], [("h", 1)]]
        dataset = loading.dialogue_replies(dialogue_dataset(*turns))
        assert pairs(dataset) == [("a b", "c", "joy"), ("f", "g", "neutral")]
        assert dataset["id"][:] == ["d0-3", "d1-2"]

    @pytest.mark.parametrize("context_turns", [0, -1])
    def test_wrong_number_of_turns(self, context_turns):
        with pytest.raises(ValueError, match=f"`context_turns` must be at least 1, got {context_turns}"):
            loading.dialogue_replies(dialogue_dataset(self.FIVE), context_turns)


@pytest.mark.parametrize("split, part", [("train", "train"), ("validation", "dev"), ("test", "test")])
def test_daily_dialog_replies(tmp_path, split, part):
    dataset = loading.load_daily_dialog_replies(kit.write_daily_dialog(tmp_path), context_turns=2)[split]
    check_columns(dataset, list(kit.DAILY_DIALOG_EMOTIONS))
    expected = []
    for number, turns in enumerate(kit.dialogues(kit.DAILY_DIALOG_EMOTIONS, *kit.DIALOGUE_PARTS[part]), 1):
        texts = [text.replace(" ,", ",") + "." for _, text, _ in turns]  # detokenized
        for turn in range(1, len(turns)):
            pair = (" ".join(texts[:turn][-2:]), texts[turn], turns[turn][2])
            expected.append((f"{number}-{turn + 1}", pair))
    assert list(zip(dataset["id"], pairs(dataset), strict=True)) == expected


class TestEmpatheticDialogues:
    NAMES = (  # 32, alphabetical
        "afraid angry annoyed anticipating anxious apprehensive ashamed caring confident content devastated "
        "disappointed disgusted embarrassed excited faithful furious grateful guilty hopeful impressed jealous joyful "
        "lonely nostalgic prepared proud sad sentimental surprised terrified trusting"
    ).split()
    LINES = [given.release_row(number, text) for number, text in enumerate("abcdef", 1)]

    def train(self, folder: Path, rows: list, **options) -> Dataset:
        return loading.load_empathetic_replies(given.empathetic_folder(folder, train=rows), **options)["train"]

    @pytest.mark.parametrize("kind", ["jsonl", "csv"])
    @pytest.mark.parametrize(
        ("context_turns", "contexts"),
        [(1, ["a", "c", "e"]), (3, ["a", "a b c", "c d e"]), (4, ["a", "a b c", "b c d e"])],
    )
    def test_replies_of_the_listener(self, tmp_path, kind, context_turns, contexts):
        rows = self.LINES if kind == "csv" else [given.conversation(texts=list("abcdef"))]
        train = self.train(tmp_path, rows, context_turns=context_turns)
        check_columns(train, self.NAMES)
        assert pairs(train) == list(zip(contexts, "bdf", ["proud"] * 3, strict=True))
        assert train["id"][:] == ["hit:0_conv:1-2", "hit:0_conv:1-4", "hit:0_conv:1-6"]

    @pytest.mark.parametrize("kind", ["jsonl", "csv"])
    def test_commas(self, tmp_path, kind):
        texts = ["well_comma_ yes", 'say "no"_comma_ then_comma_ 3_comma_000']
        rows = [given.conversation(texts=texts)]
        if kind == "csv":  # quotes mean nothing, and a ninth column is not ours
            rows = [given.release_row(1, texts[0]), given.release_row(2, texts[1], more=",other_comma_ texts|more")]
        train = self.train(tmp_path, rows)
        assert pairs(train) == [("well, yes", 'say "no", then, 3,000', "proud")]

    def test_turns_of_the_release_are_ordered_by_their_numbers(self, tmp_path):
        other = [given.release_row(n, f"o{n}", "sad", "hit:1_conv:2") for n in (2, 10, 9, 1)]
        rows = [self.LINES[3], *other[:2], *self.LINES[:3], *other[2:]]
        train = self.train(tmp_path, rows, context_turns=9)
        expected = [("a", "b", "proud"), ("a b c", "d", "proud"), ("o1", "o2", "sad"), ("o1 o2 o9", "o10", "sad")]
        assert pairs(train) == expected

    def test_actors_count_and_not_the_position(self, tmp_path):
        turns = [["listener", "a"], ["speaker", "b"], ["speaker", "c"], ["listener", "d"]]
        single = given.conversation("hit:9_conv:9", texts=["alone"])
        train = self.train(tmp_path, [given.conversation(turns=turns), single])
        assert pairs(train) == [("a b c", "d", "proud")]  # nothing comes before the first turn

    def test_download(self, tmp_path, monkeypatch):
        path, asked = tmp_path / "download", []  # the cache gives it no ending
        with tarfile.open(path, "w:gz") as file:
            for name in ("train", "valid", "test"):
                rows = [given.release_row(1, f"said in {name}"), given.release_row(2, "b")]
                content = "".join(f"{line}\n" for line in [given.RELEASE_HEADER, *rows]).encode()
                member = tarfile.TarInfo(f"empatheticdialogues/{name}.csv")
                member.size = len(content)
                file.addfile(member, io.BytesIO(content))
        monkeypatch.setattr(loading, "download", lambda *arguments: asked.append(arguments) or path)
        splits = loading.load_empathetic_replies()
        assert [pairs(splits[split])[0][0] for split in splits] == ["said in train", "said in valid", "said in test"]
        ((address, sha256),) = asked
        assert address == "https://dl.fbaipublicfiles.com/parlai/empatheticdialogues/empatheticdialogues.tar.gz"
        assert re.fullmatch("[0-9a-f]{64}", sha256)


class TestReplyFiles:
    def test_columns_and_labels(self, tmp_path):
        rows = [dict(zip("qae", row.values(), strict=True)) | {"key": f"k{i}"} for i, row in enumerate(OWN)]
        for stem in ("train", "valid"):
            kit.write_rows(tmp_path / f"{stem}.csv", rows)
        options = {"context_column": "q", "reply_column": "a", "label_column": "e", "id_column": "key"}
        train = load_reply_files(tmp_path, **options, labels=["sadness", "fear", "joy"])["train"]
        check_columns(train, ["sadness", "fear", "joy"])
        assert pairs(train) == OWN_PAIRS and train["id"][:] == ["k0", "k1", "k2"]

    def test_bad_rows(self, tmp_path, caplog):
        name = "'emotion' must hold one name or number, got "
        bad = [
            *(({"context": value}, f"the context is empty or no string: {value!r}") for value in (" ", None)),
            ({"reply": ""}, "the reply is empty or no string: ''"),
            ({"reply": ["b"]}, r"the reply is empty or no string: \['b'\]"),
            ({"emotion": "joyy"}, r"unknown label 'joyy'; the labels are \['joy', 'sadness'\]\. Did you mean 'joy'\?"),
            *(({"emotion": value}, name + re.escape(repr(value))) for value in (" ", None, ["joy"])),
            ({"id": "1"}, "a row before it has the id '1' too"),
            ({"id": None}, "'id' must hold one name or number, got None"),
        ]
        changed = [{**OWN[0], "id": f"bad {i}", **change} for i, (change, _) in enumerate(bad)]
        rows = [{**OWN[0], "id": "1"}, *changed, {**OWN[1], "id": "2"}]
        path, _ = (
            kit.write_rows(tmp_path / f"{stem}.jsonl", own) for stem, own in (("train", rows), ("dev", rows[:1]))
        )
        load = partial(load_reply_files, tmp_path, labels=["joy", "sadness"], id_column="id")
        train = kit.check_bad_rows(load, path, 2, [message for _, message in bad], caplog)["train"]
        assert pairs(train) == OWN_PAIRS[:2] and train["id"][:] == ["1", "2"]


class TestQuickstartReplies:
    @pytest.fixture(scope="class")
    def splits(self):
        return load_dataset_for("quickstart_replies")

    def test_counts(self, splits):
        for split, fewest, most in (("train", 358, 391), ("validation", 27, 29), ("test", 30, 30)):
            check_columns(splits[split], loading.QUICKSTART_EMOTIONS)
            counts = collections.Counter(splits[split]["labels"])
            assert sorted(counts) == list(range(12)) and (min(counts.values()), max(counts.values())) == (fewest, most)
            assert splits[split]["id"][0] == f"{split}-1"

    def test_a_context_stands_in_one_split_with_an_emotion_once(self, splits):
        rows = [(row["context"], row["labels"]) for dataset in splits.values() for row in dataset]
        replies = {reply.lower() for dataset in splits.values() for reply in dataset["reply"]}
        assert len(rows) == len(set(rows)) == len(replies) == 5225
        assert [len(set(splits[split]["context"])) for split in ("train", "validation", "test")] == [414, 29, 30]
        assert set(collections.Counter(context for context, _ in rows).values()) == {8, 9, 10, 11, 12}

    def test_no_context_nearly_equals_one_of_another_split(self, splits):
        contexts = {
            split: {text: set(re.findall("[a-z']+", text.lower())) for text in dataset["context"]}
            for split, dataset in splits.items()
        }
        for one, other in itertools.combinations(contexts.values(), 2):
            for (text, words), found in itertools.product(one.items(), other.values()):
                assert len(words & found) < 0.5 * len(words | found), text


class TestWiring:
    def test_an_unknown_option(self, tmp_path):
        with pytest.raises(ValueError, match="unknown option 'context_turn'.*Did you mean 'context_turns'"):
            load_dataset_for("empathetic_dialogues", tmp_path, context_turn=2)

    def splits(self) -> DatasetDict:
        def rows(*pairs: tuple[str, str]) -> Dataset:
            contexts, replies = map(list, zip(*pairs, strict=True))
            ids, labels = [str(i) for i in range(len(pairs))], [0] * len(pairs)
            columns = {"id": ids, "context": contexts, "reply": replies, "labels": labels}
            return mark(Dataset.from_dict(columns), "emotional-response")

        train = [("a", "1"), ("b", "2"), ("c", "3"), ("c", "4"), ("d", "5"), ("d", "5"), ("e\nf", "g")]
        validation, test = [("c", "9"), ("b", "2")], [("d", "5"), ("e", "f\ng"), ("1", "a")]
        return DatasetDict(train=rows(*train), validation=rows(*validation), test=rows(*test))

    def test_duplicates_are_pairs(self):
        splits = self.splits()
        assert task_of_rows(splits["validation"]).texts(splits["validation"]) == ["c\n9", "b\n2"]
        report = duplicates_between_splits(TASK, DatasetDict({name: splits[name] for name in ("train", "validation")}))
        assert report == {"repeated in train": 1, "repeated in validation": 0, "train & validation": 1}

    def test_dedupe_removes_pairs_with_a_known_context(self, tmp_path):
        left = remove_duplicates(TASK, self.splits())
        # Of "a" the context is nowhere, as reply it does not count; nor is "e" that of "e\nf".
        assert left["train"]["context"][:] == ["a", "e\nf"]
        assert (len(left["validation"]), len(left["test"])) == (2, 3)
        test = [(POSTS[0][0], "another reply", JOY), ("new", "reply", SOB)]
        folder = given.mojitalk_folder(tmp_path, test=test, train=[*POSTS[:3], ("own", "own", JOY)], dev=[POSTS[1]])
        splits = load_dataset_for("mojitalk", folder, dedupe=True)
        assert pairs(splits["train"]) == [POSTS[2], ("own", "own", JOY)]
