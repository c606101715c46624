# SPDX-License-Identifier: Apache-2.0
"""Prediction of dialogues: lists of them against the plain model, the pipeline, files with interruptions, the command."""

import json
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import torch
from model_cases import asymmetric_
from test_dialogue_runs import plain_probabilities
from toolkit_helpers import (
    MELD_EMOTIONS,
    cells,
    dialogues,
    files_in,
    invoke,
    save_base_bert,
    write_csv,
    write_jsonl,
)
from transformers import AutoConfig, AutoModelForTokenClassification, AutoTokenizer, pipeline

import hf_emotion.serving.bulk as bulk
import hf_emotion.tasks.dialogue_emotion.predictor as dialogue_module
from hf_emotion import DialogueBiLSTMConfig, DialogueBiLSTMForEmotionRecognition, DialoguePredictor, summarize
from hf_emotion.inference import load_predictor
from hf_emotion.serving.bulk import predict_file
from hf_emotion.tasks.dialogue_emotion.predictor import speaker_and_utterance


pytest_plugins = ["toolkit_fixtures"]
pytestmark = pytest.mark.usefixtures("single_thread")

LABELS = ("anger", "joy", "neutral")
# Of 5, 2, 3, 4, 5, 2 and 1 turns: in no order of length; "a day" comes again and again.
TALKS = [
    *([(speaker, text) for speaker, text, _ in turns] for turns in dialogues(MELD_EMOTIONS, 6, 3)),
    [("Cy", "a day")],
]
TALKS[1] = [("Bo", "a day"), ("Ann", "a day")]


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    return save_base_bert(tmp_path_factory.mktemp("dialogue-base") / "tiny-bert")


def save_model(base: Path, folder: Path, **config) -> Path:
    """A dialogue model with weights far from zero, so that turns and contexts lie far apart, and its tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(base)
    fields = {
        **{"utterance_encoder": "model", "hidden_size": 6, "num_attention_heads": 3},
        **{"id2label": dict(enumerate(LABELS)), "label2id": {name: i for i, name in enumerate(LABELS)}},
        **config,
    }
    if fields["utterance_encoder"] == "model":
        fields["encoder_config"] = AutoConfig.from_pretrained(base)
    model = asymmetric_(DialogueBiLSTMForEmotionRecognition(DialogueBiLSTMConfig(**fields)), seed=6)
    with torch.no_grad():
        model.classifier.bias.copy_(torch.tensor([0.0, 0.0, 1.5]))  # else "neutral" would have hardly any probability
    pipeline("dialogue-emotion", model=model, tokenizer=tokenizer, device="cpu").save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory, base) -> Path:
    return save_model(base, tmp_path_factory.mktemp("dialogue-model") / "model", num_speakers=2)


@pytest.fixture(scope="module")
def words(tmp_path_factory, base) -> Path:
    vocabulary = {"vocab_size": len(AutoTokenizer.from_pretrained(base))}
    words = {"utterance_encoder": "bilstm", "utterance_size": 8, **vocabulary}
    return save_model(base, tmp_path_factory.mktemp("words") / "model", **words)


@pytest.fixture(scope="module")
def predictor(folder) -> DialoguePredictor:
    return DialoguePredictor(folder, device="cpu")


@pytest.fixture(scope="module")
def plain(folder) -> np.ndarray:
    """(turns of all dialogues, labels), one utterance and one dialogue at a time."""
    return plain_probabilities(folder, TALKS)


def scores_of(results: list[list[dict]]) -> np.ndarray:
    return np.array([list(entry["scores"].values()) for entries in results for entry in entries])


class TestPredictor:
    def test_against_the_plain_model_one_dialogue_at_a_time(self, predictor, plain):
        results = predictor(TALKS)
        assert [[(entry["speaker"], entry["utterance"]) for entry in entries] for entries in results] == TALKS
        np.testing.assert_allclose(scores_of(results), plain, atol=1e-5)
        assert plain.std(axis=0).mean() > 0.02  # an order that is lost would show
        assert len(np.unique(plain.argmax(axis=1))) > 1
        for entry, row in zip([entry for entries in results for entry in entries], plain, strict=True):
            assert list(entry["scores"]) == list(LABELS)
            assert entry["label"] == LABELS[row.argmax()]
            assert entry["score"] == entry["scores"][entry["label"]] == max(entry["scores"].values())

    @pytest.mark.parametrize("side", ["right", "left"])
    def test_words_whatever_the_side_of_padding(self, words, side):
        tokenizer = AutoTokenizer.from_pretrained(words, padding_side=side)
        model = AutoModelForTokenClassification.from_pretrained(words)
        found = scores_of(DialoguePredictor(model, tokenizer)(TALKS))
        np.testing.assert_allclose(found, plain_probabilities(words, TALKS), atol=1e-5)

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
        scores = lambda *names: scores_of(predictor([list(zip(names, texts, strict=True))]))  # noqa: E731
        for names in (("Ana", "Bo", "Ana "), ("Zo\xeb", "Bo", "Zoe\u0308"), (1, 2, "1"), (None, "Bo", "")):
            np.testing.assert_array_equal(scores(*names), scores("Ana", "Bo", "Ana"))
        assert np.abs(scores("Ana", "Bo", "Ana") - scores("Ana", "Ana", "Ana")).max() > 1e-3

    def test_which_turns_name_no_speaker(self, folder, caplog):
        talk = lambda *speakers: [(speaker, "a day") for speaker in speakers]  # noqa: E731
        DialoguePredictor(folder, device="cpu")([talk(0, 1, 0)])
        assert "no speaker" not in caplog.text
        DialoguePredictor(folder, device="cpu")([talk(0, None, "", " ")])
        assert "3 of 4 turns name no speaker" in caplog.text

    @pytest.mark.parametrize("dialogue", [[], "a day", {"utterance": "a day"}, None])
    def test_what_is_no_dialogue(self, predictor, dialogue):
        message = "dialogue 2 of 3 must be a list of turns, at least one; got .*list of such lists"
        with pytest.raises(ValueError, match=message):
            predictor([TALKS[0], dialogue, TALKS[1]])

    @pytest.mark.parametrize("turn", ["", ("Ann", ""), ("Ann", None), {"speaker": "Ann"}, ("a", "b", "c")])
    def test_what_is_no_turn(self, predictor, turn):
        message = (
            r"turn 2 must be \(speaker, utterance\), a dictionary .*an utterance, with a visible character.*; got "
        )
        with pytest.raises(ValueError, match=message):
            predictor([["a day", turn]])

    @pytest.mark.parametrize(
        "turns", [["a day", "so happy"], [{"utterance": "a day"}] * 2, [("Ana", "a day"), ("Ben", "so happy")]]
    )
    def test_one_dialogue_instead_of_a_list(self, predictor, turns):
        with pytest.raises(ValueError, match="Several dialogues are a list of such lists"):
            predictor(turns)

    def test_top_k(self, predictor, monkeypatch):
        rows = np.array([[0.2, 0.5, 0.3], [0.4, 0.4, 0.2]])
        monkeypatch.setattr(dialogue_module, "model_probabilities", lambda *arguments, **options: rows[None])
        talk = [[("Ann", "a day"), ("Bo", "so happy")]]
        names = [[item["label"] for item in row] for row in predictor.of_items(talk, 2)[0]]
        assert names == [["joy", "neutral"], ["anger", "joy"]]
        best, _ = predictor.of_items(talk)
        assert [[item["label"] for item in row] for row in best] == [["joy"], ["anger"]]
        assert [item["score"] for row in best for item in row] == pytest.approx([0.5, 0.4])


class TestLongUtterances:
    def test_unknown_words_with_one_counted_warning(self, predictor, caplog):
        """Utterances are counted, the same one each time that it comes."""
        strange = "zzz 日本"
        results, unread = predictor.predict([["a day", strange], [strange, "so happy", strange]])
        messages = [record.getMessage() for record in caplog.records if "does not know" in record.getMessage()]
        assert len(messages) == 1 and messages[0].startswith("3 of 5 utterances hold much")
        assert unread.unknown.tolist() == [0, 1, 1, 0, 1] and not unread.truncated.any()
        assert results == predictor([["a day", strange], [strange, "so happy", strange]])

    def test_a_bilstm_over_words_has_no_limit(self, words, caplog):
        predictor = DialoguePredictor(words, device="cpu")
        long = [("Ann", "sun rain " * 100), ("Bo", "joy")]
        np.testing.assert_allclose(scores_of(predictor([long])), plain_probabilities(words, [long]), atol=1e-5)
        assert caplog.records == []
        predictor = DialoguePredictor(words, device="cpu", max_length=100)
        expected = plain_probabilities(words, [long], max_length=100)
        np.testing.assert_allclose(scores_of(predictor([long])), expected, atol=1e-5)


def test_a_model_of_vectors(base, tmp_path):
    folder = save_model(base, tmp_path / "model", utterance_encoder="vectors")
    with pytest.raises(ValueError, match="has no utterance encoder: call it with `utterance_embeds`"):
        load_predictor(folder)


# Files

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
    def test_a_summary_takes_no_text_for_a_dialogue(self, predictor):
        message = "there are no predictions .* or the file that `hf-emotion predict` wrote"
        with pytest.raises(ValueError, match=message):
            summarize(["a day"], predictor)

    @pytest.mark.parametrize(("ending", "to"), [("jsonl", "parquet"), ("parquet", "jsonl")])
    def test_a_row_for_each_dialogue(self, predictor, plain, tmp_path, monkeypatch, ending, to):
        source, watched = tmp_path / f"in.{ending}", Mock(side_effect=predictor.of_items)
        monkeypatch.setattr(predictor, "of_items", watched)
        if ending == "jsonl":
            write_jsonl(source, NESTED)
        else:
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(NESTED), source)
        assert run_file(predictor, source, tmp_path / f"out.{to}", 3) == {"rows": 7, "skipped": 0}
        assert [len(call.args[0]) for call in watched.call_args_list] == [3, 3, 1]
        rows, scores = read_rows(tmp_path / f"out.{to}"), iter(plain)
        assert [{name: row[name] for name in ("id", "turns")} for row in rows] == NESTED
        for row in rows:
            of_turns = [next(scores) for _ in row["turns"]]
            assert row["predicted_labels"] == [LABELS[turn.argmax()] for turn in of_turns]
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

    @pytest.mark.parametrize("to", ["jsonl", "csv"])
    def test_what_cannot_be_read(self, predictor, tmp_path, caplog, to):
        """A value for each turn, in rows with turns a list of them."""
        texts = ["sun " * 60, "zzz 日本", "so happy"]
        rows = [[f"t{number // 2}", "Ann", text, ""] for number, text in enumerate(texts)]
        run_file(predictor, write_csv(tmp_path / "in.csv", HEADER, rows), tmp_path / f"flat.{to}")
        turns = [
            {"turns": [{"utterance": text} for text in texts]},
            {"turns": [{"utterance": "a day"}]},
            {"turns": []},
        ]
        write_jsonl(tmp_path / "in.jsonl", turns)
        run_file(predictor, tmp_path / "in.jsonl", tmp_path / f"nested.{to}", on_bad_rows="skip")
        messages = [record.getMessage() for record in caplog.records if "utterances" in record.getMessage()]
        assert [message.partition(" utterances")[0] for message in messages] == [*["1 of 3"] * 2, *["1 of 4"] * 2]
        if to == "csv":
            lines = (tmp_path / "flat.csv").read_text(encoding="utf-8").splitlines()
            assert [line.split(",")[-3:] for line in lines[1:]] == [
                ["true", "0.0000", ""], ["false", "1.0000", ""], ["false", "0.0000", ""],
            ]  # fmt: skip
            lines = (tmp_path / "nested.csv").read_text(encoding="utf-8").splitlines()
            assert lines[1].endswith(",true|false|false,0.0000|1.0000|0.0000,||")
            assert lines[2].endswith(",false,0.0000,") and lines[3].endswith(",,,")
            return
        flat, nested = (read_rows(tmp_path / f"{name}.{to}") for name in ("flat", "nested"))
        assert [(row["truncated"], row["unknown"]) for row in flat] == [(True, 0), (False, 1), (False, 0)]
        assert [(row["truncated"], row["unknown"]) for row in nested] == [
            ([True, False, False], [0, 1, 0]), ([False], [0]), (None, None),
        ]  # fmt: skip


def test_an_interrupted_job_over_rows_with_turns_goes_on(predictor, tmp_path, monkeypatch):
    source, original, calls = write_jsonl(tmp_path / "in.jsonl", NESTED), predictor.of_items, []

    def of_items(dialogues, *arguments):
        calls.append(len(dialogues))
        if len(calls) == 2:
            raise ZeroDivisionError
        return original(dialogues, *arguments)

    monkeypatch.setattr(predictor, "of_items", of_items)
    with pytest.raises(ZeroDivisionError):
        run_file(predictor, source, tmp_path / "out.jsonl", 2)
    for name in ("out", "whole"):
        run_file(predictor, source, tmp_path / f"{name}.jsonl", 2)
    assert calls == [2, 2, 2, 2, 1, 2, 2, 2, 1]
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_parts_with_other_columns(predictor, tmp_path, monkeypatch):
    rows = [[row[0], row[1], row[2], row[0]] for row in FLAT]
    source = write_csv(tmp_path / "in.csv", ["dialogue", "speaker", "utterance", "scene"], rows)
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(bulk, "_merge", lambda *arguments: 1 / 0)
        run_file(predictor, source, tmp_path / "out.csv")
    for change in ("dialogue_column", "speaker_column"):
        with pytest.raises(FileExistsError, match="out.csv.parts holds parts of another job"):
            run_file(predictor, source, tmp_path / "out.csv", **{change: "scene"})


class TestBadFiles:
    def check_untouched(self, predictor, monkeypatch, source: Path, message: str, **options) -> None:
        monkeypatch.setattr(bulk, "predict_rows", None)
        before = files_in(source.parent)
        with pytest.raises(ValueError, match=message):
            run_file(predictor, source, source.parent / "out.jsonl", **options)
        assert files_in(source.parent) == before and len(before) == 1

    def test_a_dialogue_that_goes_on_after_another(self, predictor, tmp_path, monkeypatch):
        source = write_csv(tmp_path / "in.csv", HEADER, [*FLAT[:7], ["t0", "Ann", "a day", "9"], *FLAT[7:]])
        message = (
            "in.csv, line 9: the dialogue 't0' is interrupted by another one: sort the rows by the column 'dialogue'"
        )
        self.check_untouched(predictor, monkeypatch, source, message)

    def test_a_row_without_turns(self, predictor, tmp_path, monkeypatch):
        source = write_jsonl(tmp_path / "in.jsonl", [NESTED[0], {"id": "x"}])
        self.check_untouched(predictor, monkeypatch, source, "in.jsonl, line 2: no column 'turns'")

    @pytest.mark.parametrize("name", [None, "", " "])
    def test_a_row_of_no_dialogue(self, predictor, tmp_path, monkeypatch, name):
        rows = [dict(zip(HEADER, row, strict=True)) for row in FLAT[:5]]
        source = write_jsonl(tmp_path / "in.jsonl", [*rows[:3], rows[3] | {"dialogue": name}, rows[4]])
        message = f"in.jsonl, line 4: the column 'dialogue' must name .*: {name!r} .*on_bad_rows='skip'"
        self.check_untouched(predictor, monkeypatch, source, message)

    @pytest.mark.parametrize("rows_per_part", [1, 4, 100])
    def test_skipped_rows_of_no_dialogue_interrupt_none(self, predictor, folder, tmp_path, rows_per_part):
        rows = [list(row) for row in FLAT[:7]]  # two dialogues, of 5 and 2 turns
        bad = ["", "Ann", "so happy", ""]
        source = write_csv(tmp_path / "in.csv", HEADER, [bad, *rows[:2], bad, bad, *rows[2:], bad])
        counts = run_file(predictor, source, tmp_path / "out.jsonl", rows_per_part, on_bad_rows="skip")
        assert counts == {"rows": 11, "skipped": 4}
        found = [row["predicted_scores"] for row in read_rows(tmp_path / "out.jsonl")]
        assert [number for number, scores in enumerate(found) if scores is None] == [0, 3, 4, 10]
        expected = plain_probabilities(folder, TALKS[:2]).max(axis=1)
        assert [scores[0] for scores in found if scores] == pytest.approx(expected, abs=1e-5)

    @pytest.mark.parametrize(
        "turns", [[], None, ["a day"], [{"speaker": "Ann"}], [{"utterance": "a day"}, {"utterance": " "}]]
    )
    def test_turns_that_are_none(self, predictor, tmp_path, monkeypatch, turns):
        source = write_jsonl(tmp_path / "in.jsonl", [NESTED[0], {"id": "x", "turns": turns}])
        message = "in.jsonl, line 2: `turns` must be a list of {'speaker', 'utterance'}, at least one, without empty"
        self.check_untouched(predictor, monkeypatch, source, message)

    def test_skipped_rows_with_turns(self, predictor, plain, tmp_path):
        source = write_jsonl(
            tmp_path / "in.jsonl", [{"turns": []}, NESTED[0], {"turns": [{"utterance": ""}]}, NESTED[1]]
        )
        assert run_file(predictor, source, tmp_path / "out.jsonl", on_bad_rows="skip") == {"rows": 4, "skipped": 2}
        found = [row["predicted_scores"] for row in read_rows(tmp_path / "out.jsonl")]
        assert found[0] is None and found[2] is None
        assert found[1] + found[3] == pytest.approx(plain[:7].max(axis=1), abs=1e-5)


# Commands


class TestCommand:
    @pytest.mark.parametrize(
        ("line", "turn"),
        [
            ("Ana: hi", ("Ana", "hi")),
            ("Dr. Green Tea: x", ("Dr. Green Tea", "x")),
            ("No speaker here", (None, "No speaker here")),
            ("a b c d: x", (None, "a b c d: x")),
            ("Ana: well: no", ("Ana", "well: no")),
            ("at 10:30", (None, "at 10:30")),
            ("Ana: ", (None, "Ana: ")),
            (": x", (None, ": x")),
            (" Ana : x", ("Ana", "x")),
        ],
    )
    def test_turns(self, line, turn):
        assert speaker_and_utterance(line) == turn

    def test_table(self, folder):
        lines = ["Ann: so happy today", "Bo: the rain", "a day"]
        expected = plain_probabilities(folder, [[("Ann", "so happy today"), ("Bo", "the rain"), (None, "a day")]])
        for arguments, k in (((), 1), (("--top-k", "2"), 2)):
            header, *rows = cells(invoke("predict", folder, *lines, *arguments, terminal=True))
            piped = [line.split("\t") for line in invoke("predict", folder, *lines, *arguments).splitlines()]
            assert piped == rows
            assert header == ["speaker", "utterance", "emotion"]
            assert [row[:2] for row in rows] == [["Ann", "so happy today"], ["Bo", "the rain"], ["", "a day"]]
            for row, scores in zip(rows, expected, strict=True):
                best = sorted(range(3), key=lambda i: -scores[i])[:k]
                assert row[2] == ", ".join(f"{LABELS[i]} {scores[i]:.2f}" for i in best)

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
