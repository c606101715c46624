# SPDX-License-Identifier: Apache-2.0
"""What every predictor does, whatever its task: batches, lengths, wrong models, and files of any format with interruptions."""

import functools
import gzip
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from model_cases import BY_ID, LABEL_NAMES, WORDS
from toolkit_helpers import assert_close, files_in, write_rows
from transformers import pipeline

import hf_emotion.serving.bulk as bulk
from hf_emotion import DialoguePredictor, Predictor, ReplyGenerator, TargetedPredictor
from hf_emotion.data.files import read_rows
from hf_emotion.inference import load_predictor
from hf_emotion.runtime import batching
from hf_emotion.serving.bulk import predict_file


pytest_plugins = ["toolkit_fixtures"]
pytestmark = pytest.mark.usefixtures("single_thread")

TEXTS = [f"{' '.join(WORDS[i : i + 1 + 5 * i % 9])} sun{' rain' * (i % 3 == 0)} today" for i in range(14)]
TALKS = [[("AB"[turn % 2], text) for turn, text in enumerate(TEXTS[n : 2 * n])] for n in (5, 2, 3, 1, 4, 2)]


@dataclass(frozen=True, eq=False)
class Case:
    model: str
    predictor: type
    items: list  # of unequal lengths, in no order of length
    changes: dict[str, Any]
    options: dict[str, Any]  # with which the predictor cuts what is too long
    limit: int | None = 32  # the model's positions; None: it has no limit

    def item(self, words: list[str]):
        text = " ".join(words)
        return [("A", text)] if self.predictor is DialoguePredictor else text

    def ask(self, predictor, items) -> np.ndarray:
        if self.predictor is ReplyGenerator:
            return predictor.token_losses(items, ["so happy", "a day"] * (len(items) // 2), ["joy"] * len(items))
        return predictor.probabilities(items)


SINGLE = {"problem_type": "single_label_classification", **LABEL_NAMES}
LIMITS = [0.22, 0.22, 0.24, 0.2, 0.235]
CASES = {
    "emotions": Case("label-aware", Predictor, TEXTS, {"thresholds": LIMITS, **LABEL_NAMES}, {"max_windows": 1}),
    "one-emotion": Case("label-aware-single-label", Predictor, TEXTS, SINGLE, {"max_windows": 1}),
    "targets": Case("qacg", TargetedPredictor, TEXTS, {}, {}),
    "aspects": Case("cg", TargetedPredictor, TEXTS, {}, {}),
    "dialogues": Case("dialogue-model", DialoguePredictor, TALKS, {}, {}),
    "dialogues-of-words": Case("dialogue-words", DialoguePredictor, TALKS, {}, {}, None),
    "replies": Case("gpt2-mod-ln", ReplyGenerator, TEXTS, {}, {}),
}
CLASSES = (Predictor, TargetedPredictor, DialoguePredictor, ReplyGenerator)
of_cases = lambda *names: pytest.mark.parametrize("case", [CASES[name] for name in names], ids=names)  # noqa: E731
each_case = of_cases(*CASES)
LABELLED = [name for name in CASES if name != "replies"]


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory, tokenizer):
    root = tmp_path_factory.mktemp("predictors")

    @functools.cache
    def folder(case: Case) -> Path:
        model = BY_ID[case.model].build(**case.changes)
        pipeline(BY_ID[case.model].task, model=model, tokenizer=tokenizer).save_pretrained(root / case.model)
        return root / case.model

    return folder


@pytest.fixture(scope="module")
def predictor_of(folder_of):
    return functools.cache(lambda case, **options: case.predictor(folder_of(case), device="cpu", **options))


@pytest.fixture
def predictor(case, predictor_of):
    return predictor_of(case)


@of_cases(*LABELLED)
def test_whatever_the_batches(case, predictor, monkeypatch):
    expected = np.concatenate([predictor.probabilities([item]) for item in case.items])
    assert expected.std(axis=0).mean() > 0.01  # an order that is lost would show
    places = ("runtime.classifying", "tasks.dialogue_emotion.predictor")
    padded = Mock(wraps=batching.pad_rows)
    monkeypatch.setattr(f"hf_emotion.{places[case.predictor is DialoguePredictor]}.pad_rows", padded)
    for tokens, chunk, turns in ((1, 4096, 1), (60, 3, 7), (90, 4096, 1024)):
        for place in places:
            monkeypatch.setattr(f"hf_emotion.{place}.TOKENS_PER_BATCH", tokens)
        monkeypatch.setattr("hf_emotion.runtime.batching.CHUNK", chunk)
        monkeypatch.setattr("hf_emotion.tasks.dialogue_emotion.predictor.UTTERANCES_PER_BATCH", turns)
        padded.reset_mock()
        found = predictor.probabilities(case.items)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, atol=1e-5)
        sizes = [[len(ids) for ids in call.args[1]["input_ids"]] for call in padded.call_args_list]
        assert all(len(lengths) == 1 or max(lengths) * len(lengths) <= tokens for lengths in sizes)
    # What is read together is neither one item nor one pair of text and target alone.
    assert case.limit is None or 1 < len(sizes) < sum(map(len, sizes)) / 2


@of_cases(*LABELLED)
def test_the_pipeline_gives_the_same(case, predictor, folder_of):
    classify = pipeline(BY_ID[case.model].task, str(folder_of(case)), trust_remote_code=True, device="cpu")
    options = {"top_k": len(predictor.labels)} if case.predictor is Predictor else {}
    items = [*case.items, case.item(["sun", "rain", "today"] * 20)]  # the last one is longer than what is read at once
    expected = predictor(items, **options)
    assert len(expected) > 0
    for batch_size in (1, 3):
        assert_close(classify(items, batch_size=batch_size, **options), expected)


@each_case
def test_a_model_object(case, predictor, tokenizer):
    model = BY_ID[case.model].build(**case.changes).train()
    other = case.predictor(model, tokenizer)
    assert not model.training
    np.testing.assert_allclose(case.ask(other, case.items), case.ask(predictor, case.items), atol=1e-5)
    with pytest.raises(ValueError, match="pass `tokenizer` together with a model object"):
        case.predictor(model)


@each_case
def test_half_precision(case, predictor, folder_of):
    half = case.predictor(folder_of(case), device="cpu", dtype="bfloat16")
    assert {parameter.dtype for parameter in half.model.parameters()} == {torch.bfloat16}
    found, exact = (case.ask(one, case.items) for one in (half, predictor))
    assert 1e-5 < np.abs(found - exact).mean() < 0.05 * max(1, exact.mean())  # another precision, the same model


@each_case
def test_no_items_and_a_generator_of_items(case, predictor):
    if case.predictor is ReplyGenerator:
        assert predictor([], "joy") == predictor.all_emotions([]) == [] == predictor.token_losses([], [], []).tolist()
        return
    assert predictor([]) == [] and predictor.probabilities([]).shape == (0, len(predictor.labels))
    results, unread = predictor.predict([])
    assert results == [] and unread.truncated.shape == unread.unknown.shape == (0,)
    expected = predictor.probabilities(case.items)
    np.testing.assert_allclose(predictor.probabilities(item for item in case.items), expected, atol=1e-6)


@each_case
def test_lengths_that_cannot_be(case, folder_of):
    for length in (2, 0, -1, *([] if case.limit is None else [case.limit + 1])):
        message = "must be a whole number .*got {length}" if case.limit is None else "between 3 and the .*'s {limit}"
        with pytest.raises(ValueError, match=message.format(length=length, limit=case.limit)):
            case.predictor(folder_of(case), device="cpu", max_length=length)


@of_cases(*LABELLED)
def test_what_is_too_long_is_cut_and_counted_once(case, predictor_of, caplog, monkeypatch):
    """Its end, as the texts of the training were."""
    monkeypatch.setattr("hf_emotion.runtime.batching.CHUNK", 2)  # counted over all chunks
    predictor = predictor_of(case, max_length=12, **case.options)
    words = ["sun", "so", "happy", "rain", "today"] * 4
    kept, less, whole = (case.item(words[:count]) for count in (10, 9, 20))  # [CLS], ten words, [SEP]
    scores = [predictor.probabilities([item]) for item in (kept, less, whole)]
    np.testing.assert_allclose(scores[2], scores[0], atol=1e-6)
    assert np.abs(scores[2] - scores[1]).max() > 1e-4
    caplog.clear()
    _, unread = predictor.predict([kept, whole, case.item(["zzz", "sun", "日本"]), less, whole])
    assert unread.truncated.tolist() == [False, True, False, False, True]
    assert unread.unknown.tolist() == [0, 0, pytest.approx(0.5, abs=0.2), 0, 0]
    cut, unknown = [record.getMessage() for record in caplog.records]
    assert cut.startswith("2 of 5 ") and "longer than 12 tokens" in cut and unknown.startswith("1 of 5 ")


@each_case
def test_the_predictor_of_another_task(case, folder_of, predictor):
    assert type(load_predictor(folder_of(case))) is case.predictor
    for other in set(CLASSES) - {case.predictor}:
        for given in ((folder_of(case),), (predictor.model, predictor.tokenizer)):
            with pytest.raises(ValueError, match=f"use {case.predictor.__name__}") as caught:
                other(*given)
            said = str(caught.value)
            assert f"reads {predictor.task.reads}: " in said and "\n" not in said
    if case.predictor is not Predictor:
        with pytest.raises(ValueError, match=f"`taxonomy` 'ekman' .* a model for {predictor.task.name}"):
            load_predictor(folder_of(case), taxonomy="ekman")


@each_case
@pytest.mark.parametrize("text", ["", "  \n", None, 3])
def test_nothing_to_read(case, predictor, text):
    items = [case.items[0], [("A", text)] if case.predictor is DialoguePredictor else text]
    with pytest.raises(ValueError, match="turn 1 must" if case.predictor is DialoguePredictor else "text 2 of 2 is "):
        predictor(items, "joy") if case.predictor is ReplyGenerator else predictor(items)


FORMATS = [("csv", "jsonl", 1), ("tsv", "parquet", 6), ("jsonl", "csv", 4), ("parquet", "tsv", 100)]
ENDINGS = [("emotions", ending) for ending in ("csv", "jsonl", "parquet", "csv.gz")] + [("dialogues", "jsonl")]
FILES = ["emotions", "targets", "dialogues"]  # a number of labels, none, one for each of several rows


def rows_of(case: Case) -> list[dict[str, str]]:
    if case.predictor is DialoguePredictor:
        turns = [(number, n, *turn) for number, item in enumerate(case.items) for n, turn in enumerate(item)]
        return [{"dialogue": f"t{t}", "speaker": who, "utterance": text, "n": f"{t}-{n}"} for t, n, who, text in turns]
    return [{"text": text, "n": f'{number}, "x"\n'} for number, text in enumerate(case.items)]


def read(path: Path) -> list[dict]:
    rows = [row for _, row in read_rows(path)]
    for row in rows if path.suffix in (".csv", ".tsv") else ():
        row["predicted_labels"] = [label for label in row["predicted_labels"].split("|") if label]
        row["predicted_scores"] = [float(score) for score in row["predicted_scores"].split("|") if score]
    return rows


def check(case: Case, predictor, path: Path, given: list[dict], **options) -> None:
    expected, _ = predictor.of_items(case.items, *options.values())
    found = read(path)
    names = ["predicted_labels", "predicted_scores", "truncated", "unknown", "predicted_language"]
    assert [list(row) for row in found] == [[*given[0], *names]] * len(expected)
    for row, items, own in zip(found, expected, given, strict=True):
        assert {name: row[name] for name in own} == own
        assert row["predicted_labels"] == [item["label"] for item in items]
        assert row["predicted_scores"] == pytest.approx([item["score"] for item in items], abs=1e-4)
    assert any(row["predicted_labels"] for row in found)


def run(predictor, source: Path, output: Path, rows_per_part: int = 4, **options) -> dict:
    return predict_file(predictor, source, output, rows_per_part=rows_per_part, progress=False, **options)


@pytest.fixture
def asked(predictor, monkeypatch) -> SimpleNamespace:
    """The items that the model was asked for, call by call, and after how many calls it fails."""
    state = SimpleNamespace(calls=[], fail_at=None)
    original = predictor.of_items

    def watched(items, *arguments):
        if state.fail_at is not None and len(state.calls) >= state.fail_at:
            raise KeyboardInterrupt
        state.calls.append(list(items))
        return original(items, *arguments)

    monkeypatch.setattr(predictor, "of_items", watched)
    return state


@of_cases(*FILES)
@pytest.mark.parametrize(("source", "to", "rows_per_part"), FORMATS)
def test_formats_whatever_the_parts(case, predictor, asked, source, to, rows_per_part, tmp_path):
    given = rows_of(case)
    path = write_rows(tmp_path / f"in.{source}", given)
    before = path.read_bytes()
    assert run(predictor, path, tmp_path / f"out.{to}", rows_per_part) == {"rows": len(given), "skipped": 0}
    calls = list(asked.calls)
    assert [item for call in calls for item in call] == case.items  # no dialogue stands in two parts
    assert len(calls) == {1: len(case.items), 100: 1}.get(rows_per_part, len(calls))
    check(case, predictor, tmp_path / f"out.{to}", given)
    assert sorted(files_in(tmp_path)) == [path.name, f"out.{to}"] and path.read_bytes() == before


@of_cases("emotions", "dialogues")
def test_top_k(case, predictor, predictor_of, tmp_path):
    given = rows_of(case)
    run(predictor, write_rows(tmp_path / "in.csv", given), tmp_path / "out.jsonl", top_k=2)
    check(case, predictor, tmp_path / "out.jsonl", given, top_k=2)
    assert {len(row["predicted_labels"]) for row in read(tmp_path / "out.jsonl")} == {2}
    for top_k in (0, -1):
        with pytest.raises(ValueError, match="`top_k` must be a whole number of at least 1"):
            run(predictor, tmp_path / "in.csv", tmp_path / "other.jsonl", top_k=top_k)
    assert sorted(files_in(tmp_path)) == ["in.csv", "out.jsonl"]
    for name in ("targets", "aspects"):
        with pytest.raises(ValueError, match="`top_k` is for emotions"):
            predictor_of(CASES[name]).of_items(["the sun"], top_k=2)


@pytest.mark.parametrize("case, ending", [(CASES[name], end) for name, end in ENDINGS], ids=map("-".join, ENDINGS))
def test_an_interrupted_job_goes_on_behind_its_last_part(case, predictor, asked, tmp_path, ending, caplog):
    given = rows_of(case)
    source, whole, output = (
        write_rows(tmp_path / "in.csv", given),
        tmp_path / f"whole.{ending}",
        tmp_path / f"out.{ending}",
    )
    run(predictor, source, whole)
    asked.calls.clear()
    asked.fail_at = 2
    with pytest.raises(KeyboardInterrupt):
        run(predictor, source, output)
    assert not output.exists()
    assert sorted(files_in(tmp_path / f"{output.name}.parts")) == ["000000.parquet", "000001.parquet", "job.json"]
    asked.fail_at = None
    assert run(predictor, source, output) == {"rows": len(given), "skipped": 0}
    assert [item for call in asked.calls for item in call] == case.items  # each once
    assert f"of {len(given)} rows are predicted already" in caplog.text
    first, second = (path.read_bytes() for path in (output, whole))
    assert gzip.decompress(first) == gzip.decompress(second) if ending.endswith("gz") else first == second
    assert sorted(files_in(tmp_path)) == sorted(["in.csv", whole.name, output.name])


def stop_before_the_parts_are_joined(*arguments, **options) -> None:
    with pytest.MonkeyPatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(bulk, "_merge", lambda *arguments: 1 / 0)
        run(*arguments, **options)


@of_cases("emotions", "dialogues")
def test_a_gap_is_filled(case, predictor, asked, tmp_path):
    """Also if a job ended while its parts were joined, or with rows that are skipped."""
    given = [dict(row) for row in rows_of(case)]
    column = "utterance" if case.predictor is DialoguePredictor else "text"
    for number in (1, 5, 6):
        given[number][column] = " "
    source = write_rows(tmp_path / "in.csv", given)
    run(predictor, source, tmp_path / "whole.csv", 2, on_bad_rows="skip")
    stop_before_the_parts_are_joined(predictor, source, tmp_path / "out.csv", 2, on_bad_rows="skip")
    (tmp_path / "out.csv.parts" / "000001.parquet").unlink()
    asked.calls.clear()
    assert run(predictor, source, tmp_path / "out.csv", 2, on_bad_rows="skip") == {"rows": len(given), "skipped": 3}
    assert len(asked.calls) == 1
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


@of_cases("emotions", "dialogues")
def test_parts_of_another_job(case, predictor_of, folder_of, tmp_path):
    predictor, source, output = (
        predictor_of(case),
        write_rows(tmp_path / "in.csv", rows_of(case)),
        tmp_path / "out.csv",
    )
    stop_before_the_parts_are_joined(predictor, source, output)
    before, content, kept = files_in(tmp_path / "out.csv.parts"), source.read_text("utf-8"), tmp_path / "kept.csv"
    tuned, shorter = case.predictor(folder_of(case), device="cpu"), predictor_of(case, max_length=20)
    with torch.no_grad():
        next(own for name, own in tuned.model.named_parameters() if "classifier" in name).add_(1e-3)
    others = [(predictor, {"top_k": 2}), (predictor, {"rows_per_part": 2}), (tuned, {}), (shorter, {})]
    for other, options in (*others, (predictor, {})):
        if (other, options) == (predictor, {}):  # the same model over another source
            source.rename(kept)
            source.write_text(content.replace("today", "not"), encoding="utf-8")
        with pytest.raises(FileExistsError, match="out.csv.parts holds parts of another job"):
            run(other, source, output, **options)
    assert files_in(tmp_path / "out.csv.parts") == before and not output.exists()
    kept.replace(source)  # the same model from another process goes on
    assert run(case.predictor(folder_of(case), device="cpu"), source, output)["rows"] == len(rows_of(case))


@of_cases(*FILES)
@pytest.mark.parametrize(("ending", "text"), [("csv", "  "), ("jsonl", None), ("parquet", "")])
def test_rows_without_a_text(case, predictor_of, tmp_path, monkeypatch, ending, text):
    """Told before anything is predicted; skipped, they keep their places, and are no part of what they stand in."""
    predictor, given = predictor_of(case), [dict(row) for row in rows_of(case)]
    column = "utterance" if case.predictor is DialoguePredictor else "text"
    bad = [0, 4, 5]
    for number in bad:
        given[number][column] = text
    source, output = write_rows(tmp_path / f"in.{ending}", given), tmp_path / "out.jsonl"
    with monkeypatch.context() as patch:
        patch.setattr(predictor, "of_items", None)
        message = rf"in\.{ending}, line {'(2|3)' if ending == 'csv' else 1}: the text is empty or no string.*'skip'"
        with pytest.raises(ValueError, match=message):
            run(predictor, source, output)
    assert sorted(files_in(tmp_path)) == [source.name]
    assert run(predictor, source, output, on_bad_rows="skip") == {"rows": len(given), "skipped": 3}
    found = read(output)
    for name in ("predicted_labels", "predicted_scores"):
        assert [number for number, row in enumerate(found) if row[name] is None] == bad
    kept = [row for number, row in enumerate(given) if number not in bad]
    run(predictor, write_rows(tmp_path / "kept.jsonl", kept), tmp_path / "kept-out.jsonl")
    rows = lambda given: [[row[n] for n in ("n", "predicted_labels", "predicted_scores")] for row in given]  # noqa: E731
    answered = [row for row in found if row["predicted_labels"] is not None]
    assert_close(rows(answered), rows(read(tmp_path / "kept-out.jsonl")))


@of_cases(*FILES)
def test_columns_that_are_not_there(case, predictor, tmp_path, monkeypatch):
    monkeypatch.setattr(predictor, "of_items", None)
    source = write_rows(tmp_path / "in.csv", rows_of(case))
    more = ("dialogue_column", "speaker_column") if case.predictor is DialoguePredictor else ()
    for column in ("text_column", *more):
        with pytest.raises(ValueError, match="no column 'nix'"):
            run(predictor, source, tmp_path / "out.csv", **{column: "nix"})
    assert sorted(files_in(tmp_path)) == ["in.csv"]
