# SPDX-License-Identifier: Apache-2.0
"""Prediction of dialogues: turns and speakers, files with interruptions, the command. test_predictors_shared.py has the rest."""

import json
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, List, Value
from hf_emotion.modeling import DialogueEmotionPipeline
from model_cases import BY_ID, LABELS, make_tokenizer
from toolkit_helpers import MELD_EMOTIONS, cells, dialogues, files_in, invoke, write_csv, write_jsonl, write_rows
from transformers import pipeline

import hf_emotion.serving.bulk as bulk
import hf_emotion.tasks.dialogue_emotion.predictor as dialogue_module
from hf_emotion import DialoguePredictor, summarize
from hf_emotion.inference import load_predictor
from hf_emotion.runtime.checkpoints import model_probabilities
from hf_emotion.serving.bulk import predict_file
from hf_emotion.tasks.dialogue_emotion import streaming
from hf_emotion.tasks.dialogue_emotion.building import encode_dialogues
from hf_emotion.tasks.dialogue_emotion.predictor import speaker_and_utterance


pytest_plugins = ["toolkit_fixtures"]
pytestmark = pytest.mark.usefixtures("single_thread")

# Of 5, 2, 3, 4, 5, 2 and 1 turns: in no order of length; "a day" comes again and again.
TALKS = [
    *([(speaker, text) for speaker, text, _ in turns] for turns in dialogues(MELD_EMOTIONS, 6, 3)),
    [("Cy", "a day")],
]
TALKS[1] = [("Bo", "a day"), ("Ann", "a day")]


@pytest.fixture(scope="module")
def predictor(tokenizer) -> DialoguePredictor:
    """Of a model that tells two speakers apart."""
    return DialoguePredictor(BY_ID["dialogue-model"].build(), tokenizer)


@pytest.fixture(scope="module")
def plain(predictor) -> np.ndarray:
    """(turns of all dialogues, labels)."""
    return predictor.probabilities(TALKS)


@pytest.fixture(scope="module")
def folder(predictor, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dialogue-model") / "model"
    classify = pipeline("dialogue-emotion", model=predictor.model, tokenizer=predictor.tokenizer, device="cpu")
    classify.save_pretrained(folder)
    return folder


class TestPredictor:
    def test_words_whatever_the_side_of_padding(self, tokenizer, tmp_path):
        """Which reads turns of any length."""
        model, left = BY_ID["dialogue-words"].build(), make_tokenizer(tmp_path, padding_side="left")
        talks = [*TALKS, [("Ann", "sun rain " * 100), ("Bo", "joy")]]
        found, expected = (DialoguePredictor(model, own).probabilities(talks) for own in (left, tokenizer))
        np.testing.assert_allclose(found, expected, atol=1e-5)
        alone = DialoguePredictor(model, tokenizer, max_length=100).probabilities(talks[-1:])
        assert np.abs(alone - expected[-2:]).max() > 1e-4

    def test_each_text_is_encoded_once_and_dialogues_go_in_batches(self, predictor, monkeypatch):
        texts, batches = [], []
        encode, forward = predictor.vectors_of, dialogue_module.model_probabilities

        def watched(model, inputs, **options):
            batches.append(inputs["utterance_mask"].sum(axis=1).tolist())
            return forward(model, inputs, **options)

        monkeypatch.setattr(predictor, "vectors_of", lambda *a: texts.extend(a[2]) or encode(*a))
        monkeypatch.setattr(dialogue_module, "model_probabilities", watched)
        monkeypatch.setattr(dialogue_module, "UTTERANCES_PER_BATCH", 10)
        predictor(TALKS)
        assert sorted(texts) == sorted({text for turns in TALKS for _, text in turns})
        assert sorted(sum(batches, [])) == [1, 2, 2, 3, 4, 5, 5] and 1 < len(batches) < 7
        assert all(len(lengths) * max(lengths) <= 10 for lengths in batches)

    def test_forms_of_a_turn(self, predictor):
        expected = predictor([[(None, "a day"), ("Bo", "so happy")]])
        for turns in (
            ["a day", ("Bo", "so happy")],
            [{"utterance": "a day"}, {"speaker": "Bo", "utterance": "so happy", "label": "x"}],
            ({"speaker": None, "utterance": "a day"}, ("Bo", "so happy")),
        ):
            assert predictor([turns]) == expected

    def test_speakers_have_the_names_of_training(self, predictor):
        texts = ["a day", "so happy", "the rain"]
        scores = lambda *names: predictor.probabilities([list(zip(names, texts, strict=True))])  # noqa: E731
        for names in (("Ana", "Bo", "Ana "), ("Zo\xeb", "Bo", "Zoe\u0308"), (1, 2, "1"), (None, "Bo", "")):
            np.testing.assert_array_equal(scores(*names), scores("Ana", "Bo", "Ana"))
        assert np.abs(scores("Ana", "Bo", "Ana") - scores("Ana", "Ana", "Ana")).max() > 1e-3

    @pytest.mark.parametrize("dialogue", [[], "a day", {"utterance": "a day"}, None])
    def test_what_is_no_dialogue(self, predictor, dialogue):
        message = "dialogue 2 of 3 must be a list of turns, at least one; got .*list of such lists"
        with pytest.raises(ValueError, match=message):
            predictor([TALKS[0], dialogue, TALKS[1]])

    @pytest.mark.parametrize("turn", ["", ("Ann", ""), ("Ann", None), {"speaker": "Ann"}, ("a", "b", "c")])
    def test_what_is_no_turn(self, predictor, turn):
        form = r"turn 2 must be \(speaker, utterance\), a dictionary .*an utterance, with a visible character.*; got "
        with pytest.raises(ValueError, match=form):
            predictor([["a day", turn]])

    @pytest.mark.parametrize(
        "turns", [["a day", "so happy"], [{"utterance": "a day"}] * 2, [("Ana", "a day"), ("Ben", "so happy")]]
    )
    def test_one_dialogue_instead_of_a_list(self, predictor, turns):
        with pytest.raises(ValueError, match="Several dialogues are a list of such lists"):
            predictor(turns)

    def test_top_k(self, predictor, monkeypatch):
        rows = np.array([[0.1, 0.4, 0.3, 0.2, 0.0], [0.4, 0.4, 0.2, 0.0, 0.0]])
        monkeypatch.setattr(dialogue_module, "model_probabilities", lambda *arguments, **options: rows[None])
        talk, labels = [[("Ann", "a day"), ("Bo", "so happy")]], predictor.labels
        names = [[item["label"] for item in row] for row in predictor.of_items(talk, 2)[0]]
        assert names == [[labels[1], labels[2]], [labels[0], labels[1]]]
        best, _ = predictor.of_items(talk)
        assert [[item["label"] for item in row] for row in best] == [[labels[1]], [labels[0]]]
        assert [item["score"] for row in best for item in row] == pytest.approx([0.4, 0.4])

    def test_unknown_words_with_one_counted_warning(self, predictor, caplog):
        """Utterances are counted, the same one each time that it comes."""
        strange = "zzz 日本"
        _, unread = predictor.predict([["a day", strange], [strange, "so happy", strange]])
        (message,) = [record.getMessage() for record in caplog.records if "does not know" in record.getMessage()]
        assert message.startswith("3 of 5 utterances have over 30 %")
        assert unread.unknown.tolist() == [0, 1, 1, 0, 1] and not unread.truncated.any()

    def test_a_model_of_vectors(self, tokenizer, tmp_path):
        model = BY_ID["dialogue"].build()
        pipeline("dialogue-emotion", model=model, tokenizer=tokenizer, device="cpu").save_pretrained(tmp_path)
        with pytest.raises(ValueError, match="has no utterance encoder: call it with `utterance_embeds`"):
            load_predictor(tmp_path)

    def test_a_summary_takes_no_text_for_a_dialogue(self, predictor):
        message = "there are no predictions .* or the file that `hf-emotion predict` wrote"
        with pytest.raises(ValueError, match=message):
            summarize(["a day"], predictor)


FLAT = [
    [f"t{number}", speaker, text, str(turn)]
    for number, turns in enumerate(TALKS)
    for turn, (speaker, text) in enumerate(turns)
]  # 22 rows of dialogues with 5, 2, 3, 4, 5, 2 and 1 turns
HEADER = ["dialogue", "speaker", "utterance", "n"]
NESTED = [
    {"id": f"t{number}", "turns": [{"speaker": speaker, "utterance": text} for speaker, text in turns]}
    for number, turns in enumerate(TALKS)
]


def run_file(predictor, source: Path, output: Path, rows_per_part: int = 4, **options) -> dict:
    return predict_file(predictor, source, output, rows_per_part=rows_per_part, progress=False, **options)


def read_rows(path: Path) -> list[dict]:
    if path.suffix == ".parquet":
        return pyarrow.parquet.read_table(path).to_pylist()
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class TestFiles:
    @pytest.mark.parametrize(("ending", "to"), [("jsonl", "parquet"), ("parquet", "jsonl")])
    def test_a_row_for_each_dialogue(self, predictor, plain, tmp_path, monkeypatch, ending, to):
        source, watched = tmp_path / f"in.{ending}", Mock(side_effect=predictor.of_items)
        monkeypatch.setattr(predictor, "of_items", watched)
        write_rows(source, NESTED)
        assert run_file(predictor, source, tmp_path / f"out.{to}", 3) == {"rows": 7, "skipped": 0}
        assert [len(call.args[0]) for call in watched.call_args_list] == [3, 3, 1]
        rows, scores = read_rows(tmp_path / f"out.{to}"), iter(plain)
        assert [{name: row[name] for name in ("id", "turns")} for row in rows] == NESTED
        for row in rows:
            of_turns = [next(scores) for _ in row["turns"]]
            assert row["predicted_labels"] == [predictor.labels[turn.argmax()] for turn in of_turns]
            assert row["predicted_scores"] == pytest.approx([turn.max() for turn in of_turns], abs=1e-5)

    def test_top_k_of_rows_with_turns(self, predictor, tmp_path):
        write_jsonl(tmp_path / "in.jsonl", NESTED)
        message = "`top_k` needs one row for each utterance: rows with `turns` have one label"
        with pytest.raises(ValueError, match=message):
            run_file(predictor, tmp_path / "in.jsonl", tmp_path / "out.jsonl", top_k=2)
        assert sorted(files_in(tmp_path)) == ["in.jsonl"]

    def test_numbers_tell_dialogues_apart(self, predictor, tmp_path):
        texts = ["a day", "so happy", "the rain"]
        for name, ids, talks in (("one", [1, 1, 1], [texts]), ("two", [1, 1, 2], [texts[:2], texts[2:]])):
            rows = [{"dialogue": number, "utterance": text} for number, text in zip(ids, texts, strict=True)]
            run_file(predictor, write_jsonl(tmp_path / f"{name}.jsonl", rows), tmp_path / f"{name}-out.jsonl")
            found = [row["predicted_scores"][0] for row in read_rows(tmp_path / f"{name}-out.jsonl")]
            assert found == pytest.approx(predictor.probabilities(talks).max(axis=1), abs=1e-5)

    def test_what_cannot_be_read(self, predictor, tmp_path, caplog):
        """A value for each turn, in rows with turns a list of them."""
        texts = ["sun " * 60, "zzz 日本", "so happy"]
        rows = [[f"t{number // 2}", "Ann", text, ""] for number, text in enumerate(texts)]
        flat = write_csv(tmp_path / "in.csv", HEADER, rows)
        talks = [[{"utterance": text} for text in texts], [{"utterance": "a day"}], []]
        nested = write_jsonl(tmp_path / "in.jsonl", [{"turns": turns} for turns in talks])
        for to in ("jsonl", "csv"):
            run_file(predictor, flat, tmp_path / f"flat.{to}")
            run_file(predictor, nested, tmp_path / f"nested.{to}", on_bad_rows="skip")
        messages = [record.getMessage() for record in caplog.records if "utterances" in record.getMessage()]
        counted = [*["1 of 3"] * 2, *["1 of 4"] * 2]
        assert [message.partition(" utterances")[0] for message in messages] == counted * 2
        found, lists = (read_rows(tmp_path / f"{name}.jsonl") for name in ("flat", "nested"))
        assert [(row["truncated"], row["unknown"]) for row in found] == [(True, 0), (False, 1), (False, 0)]
        of_turns = [([True, False, False], [0, 1, 0]), ([False], [0]), (None, None)]
        assert [(row["truncated"], row["unknown"]) for row in lists] == of_turns
        found, lists = ((tmp_path / f"{name}.csv").read_text("utf-8").splitlines()[1:] for name in ("flat", "nested"))
        values = ["true,0.0000,", "false,1.0000,", "false,0.0000,"]
        assert [line.split(",", 6)[-1] for line in found] == values
        assert lists[0].endswith(",true|false|false,0.0000|1.0000|0.0000,||")
        assert lists[1].endswith(",false,0.0000,") and lists[2].endswith(",,,")


def test_parts_with_other_columns(predictor, tmp_path, monkeypatch):
    rows = [[row[0], row[1], row[2], row[0]] for row in FLAT]
    source = write_csv(tmp_path / "in.csv", ["dialogue", "speaker", "utterance", "scene"], rows)
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(bulk, "_merge", lambda *arguments: 1 / 0)
        run_file(predictor, source, tmp_path / "out.csv")
    for change in ("dialogue_column", "speaker_column"):
        with pytest.raises(FileExistsError, match="out.csv.parts holds parts of another job"):
            run_file(predictor, source, tmp_path / "out.csv", **{change: "scene"})


ROWS = [dict(zip(HEADER, row, strict=True)) for row in FLAT]
INTERRUPTED = "8: the dialogue 't0' is interrupted by another one: sort the rows by the column 'dialogue'"
NO_TURNS = "2: `turns` must be a list of {'speaker', 'utterance'}, at least one, without empty"


class TestBadFiles:
    @pytest.mark.parametrize(
        ("rows", "message"),
        [
            ([*ROWS[:7], ROWS[0], *ROWS[7:]], INTERRUPTED),
            *(
                (
                    [*ROWS[:3], {**ROWS[3], "dialogue": name}],
                    f"4: the column 'dialogue' must name .*: {name!r} .*skip'",
                )
                for name in (None, "", " ")
            ),
            ([NESTED[0], {"id": "x"}], "2: no column 'turns'"),
            *(
                ([NESTED[0], {"id": "x", "turns": turns}], NO_TURNS)
                for turns in ([], None, ["a day"], [{"speaker": "Ann"}], [{"utterance": "a day"}, {"utterance": " "}])
            ),
        ],
    )
    def test_told_before_anything_is_predicted(self, predictor, tmp_path, monkeypatch, rows, message):
        monkeypatch.setattr(bulk, "predict_rows", None)
        source = write_jsonl(tmp_path / "in.jsonl", rows)
        before = files_in(tmp_path)
        with pytest.raises(ValueError, match=f"in.jsonl, line {message}"):
            run_file(predictor, source, tmp_path / "out.jsonl")
        assert files_in(tmp_path) == before

    @pytest.mark.parametrize("rows_per_part", [1, 4, 100])
    def test_skipped_rows_of_no_dialogue_interrupt_none(self, predictor, plain, tmp_path, rows_per_part):
        rows = [list(row) for row in FLAT[:7]]  # two dialogues, of 5 and 2 turns
        bad = ["", "Ann", "so happy", ""]
        source = write_csv(tmp_path / "in.csv", HEADER, [bad, *rows[:2], bad, bad, *rows[2:], bad])
        counts = run_file(predictor, source, tmp_path / "out.jsonl", rows_per_part, on_bad_rows="skip")
        assert counts == {"rows": 11, "skipped": 4}
        found = [row["predicted_scores"] for row in read_rows(tmp_path / "out.jsonl")]
        assert [number for number, scores in enumerate(found) if scores is None] == [0, 3, 4, 10]
        assert [scores[0] for scores in found if scores] == pytest.approx(plain[:7].max(axis=1), abs=1e-5)

    def test_skipped_rows_with_turns(self, predictor, plain, tmp_path):
        rows = [{"turns": []}, NESTED[0], {"turns": [{"utterance": ""}]}, NESTED[1]]
        source = write_jsonl(tmp_path / "in.jsonl", rows)
        assert run_file(predictor, source, tmp_path / "out.jsonl", on_bad_rows="skip") == {"rows": 4, "skipped": 2}
        found = [row["predicted_scores"] for row in read_rows(tmp_path / "out.jsonl")]
        assert found[0] is None and found[2] is None
        assert found[1] + found[3] == pytest.approx(plain[:7].max(axis=1), abs=1e-5)


class TestCommand:
    def test_turns(self):
        for line, turn in {
            "Ana: hi": ("Ana", "hi"),
            "Dr. Green Tea: x": ("Dr. Green Tea", "x"),
            "Ana: well: no": ("Ana", "well: no"),
            " Ana : x": ("Ana", "x"),
            **{line: (None, line) for line in ("No speaker here", "a b c d: x", "at 10:30", "Ana: ", ": x")},
        }.items():
            assert speaker_and_utterance(line) == turn

    def test_table(self, predictor, folder):
        lines = ["Ann: so happy today", "Bo: the rain", "a day"]
        expected = predictor.probabilities([[("Ann", "so happy today"), ("Bo", "the rain"), (None, "a day")]])
        for arguments, k in (((), 1), (("--top-k", "2"), 2)):
            header, *rows = cells(invoke("predict", folder, *lines, *arguments, terminal=True))
            piped = [line.split("\t") for line in invoke("predict", folder, *lines, *arguments).splitlines()]
            assert piped == rows
            assert header == ["speaker", "utterance", "emotion"]
            assert [row[:2] for row in rows] == [["Ann", "so happy today"], ["Bo", "the rain"], ["", "a day"]]
            for row, scores in zip(rows, expected, strict=True):
                best = sorted(zip(scores, predictor.labels, strict=True), reverse=True)[:k]
                assert row[2] == ", ".join(f"{label} {score:.2f}" for score, label in best)

    def test_file(self, folder, plain, tmp_path):
        rows = [*(row[:3] for row in FLAT), ["z", "", ""]]
        source = write_csv(tmp_path / "in.csv", ["scene", "who", "said"], rows)
        columns = ["--dialogue-column", "scene", "--speaker-column", "who", "--text-column", "said"]
        files = ["--input", source, "--output", tmp_path / "out.jsonl"]
        printed = invoke("predict", folder, *files, *columns, "--on-bad-rows", "skip")
        assert printed == f"23 rows written to {tmp_path / 'out.jsonl'}, 1 without a prediction\n"
        *found, skipped = read_rows(tmp_path / "out.jsonl")
        assert [row["predicted_scores"][0] for row in found] == pytest.approx(plain.max(axis=1), abs=1e-5)
        assert skipped["predicted_labels"] is None


@pytest.fixture
def speakers(tokenizer) -> DialoguePredictor:
    return DialoguePredictor(BY_ID["dialogue-model"].build(), tokenizer)


@pytest.mark.parametrize("names", [("Ann", "Bo", "Ann"), ("Ann", "Bo"), ("user", "user")])
def test_turns_as_lists_are_no_dialogues(speakers, tokenizer, names):
    turns = [[name, "I am so happy"] for name in names]  # as JSON has them
    pipeline = DialogueEmotionPipeline(model=speakers.model, tokenizer=tokenizer)
    for call in (speakers, pipeline):
        with pytest.raises(ValueError, match=r"\(speaker, utterance\).*'utterance'"):
            call(turns)  # each was a dialogue of two utterances, the name the first
    assert [turn["speaker"] for turn in pipeline(list(map(tuple, turns)))] == [*names]


def test_turns_without_a_speaker_are_said(speakers, tokenizer, caplog):
    pipeline = DialogueEmotionPipeline(model=speakers.model, tokenizer=tokenizer)
    for call in (lambda turns: speakers([turns]), pipeline):
        caplog.clear()
        call([("Ann", "I am so happy"), ("Bo", "fear")])
        assert not caplog.records
        for _ in range(1 if call is pipeline else 2):  # of a file that comes in parts it is said once
            call([("Ann", "I am so happy"), "fear", ("", "anger"), (None, "joy"), (" ", "calm")])
        (record,) = caplog.records
        assert "4 of 5" in record.getMessage() and "`num_speakers`" in record.getMessage()


ALONE = {"num_hidden_layers": 0, "num_attention_heads": 0, "positional_encoding": "none"}
STREAMED = {
    "positions": {"causal": True},
    "positions at the attention": {"causal": True, "num_hidden_layers": 2, "positional_encoding_at": "attention"},
    "earlier turns": {"context_turns": 2, **ALONE, "num_speakers": 0},
}


@pytest.fixture
def add_again(monkeypatch):
    """Adds a turn to a stream after a try that ran out of memory, which changes nothing."""

    def fail(*arguments):
        model_probabilities(*arguments)
        raise MemoryError

    def add(stream, turn):
        with monkeypatch.context() as patch, pytest.raises(MemoryError):
            patch.setattr(streaming, "model_probabilities", fail)
            stream.add(turn)
        return stream.add(turn)

    return add


@pytest.mark.parametrize("form", STREAMED)
def test_streamed_turns_are_those_of_the_whole_dialogue(form, tokenizer, add_again):
    predictor = DialoguePredictor(BY_ID["dialogue-model"].build(**STREAMED[form]), tokenizer)
    pipeline = DialogueEmotionPipeline(model=predictor.model, tokenizer=tokenizer)
    for talk in TALKS[:2]:
        stream = predictor.stream()
        found = [add_again(stream, turn) for turn in talk]
        with pytest.raises(ValueError, match="must be"):
            stream.add(" ")  # which changes nothing
        assert [(one["number"], one["changed"]) for one in found] == [(n, {}) for n in range(1, len(talk) + 1)]
        for expected in (predictor([talk])[0], pipeline(talk)):
            for one, other, kept in zip(found, expected, stream.turns, strict=True):
                assert one["scores"] == kept["scores"] == pytest.approx(other["scores"], abs=1e-5)


def test_a_stream_tells_which_earlier_answers_a_turn_changes(speakers, add_again):
    stream = speakers.stream()
    for number, turn in enumerate(TALKS[0], 1):
        answer, (whole,) = add_again(stream, turn), speakers([TALKS[0][:number]])
        assert [turn["scores"] for turn in stream.turns] == [pytest.approx(turn["scores"], abs=1e-5) for turn in whole]
        assert answer["changed"] == ({} if number == 1 else {1: whole[0]["label"]})
        stream.turns[0]["label"] = "another"  # as if it had been


def dialogue_rows(*turns: tuple[str, str]) -> DatasetDict:
    lists = {"utterances": Value("string"), "speakers": Value("string"), "labels": ClassLabel(names=list(LABELS))}
    features = Features(id=Value("string"), **{name: List(kind) for name, kind in lists.items()})
    speakers, utterances = map(list, zip(*turns, strict=True))
    rows = {"id": ["1"], "utterances": [utterances], "speakers": [speakers], "labels": [[0] * len(turns)]}
    return DatasetDict({"train": Dataset.from_dict(rows, features=features)})


def test_what_a_dialogue_model_in_training_does_not_see(speakers, tokenizer, caplog):
    rows = dialogue_rows(("", "I am so happy"), ("", "fear"))
    with pytest.raises(ValueError, match="`model_config.num_speakers`.*speaker_column"):
        encode_dialogues(rows, speakers.model, tokenizer, 16)
    rows = dialogue_rows(("Ann", "sun " * 20), ("Bo", "fear"))
    encode_dialogues(rows, BY_ID["dialogue-words"].build(), tokenizer, 16)
    assert "1 of 2 utterances are longer than 16 tokens" in caplog.text
