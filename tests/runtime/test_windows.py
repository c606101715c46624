# SPDX-License-Identifier: Apache-2.0
"""Texts that are longer than a model reads at once."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from hf_emotion.modeling import EmotionClassificationPipeline
from hf_emotion.modeling.text_processing import window_spans
from toolkit_helpers import invoke, recipe_for, write_csv

from hf_emotion import Predictor, train
from hf_emotion.inference.explain import explain
from hf_emotion.runtime.windows import join_windows
from hf_emotion.serving.bulk import predict_file


pytest_plugins = ["toolkit_fixtures"]

LONG = " ".join(f"i am so {word} today , the rain is {word} ." for word in ("happy", "sad", "calm", "joy", "anger"))
SHORT = "the day is happy"


@pytest.mark.parametrize("size", (2, 3, 5, 8))
@pytest.mark.parametrize("most", [None, 1, 3])
def test_every_token_counts_once_and_in_the_window_that_sees_more_around_it(size, most):
    for length in range(1, 30):
        for shared in range(size // 2 + 1):
            spans = window_spans(length, size, shared, most)
            assert all(b - a == min(size, length) and a <= first < last <= b for a, b, first, last in spans)
            counted = [place for _, _, first, last in spans for place in range(first, last)]
            assert counted == list(range(spans[-1][1]))
            if most is None or len(spans) < most:
                assert spans[-1][1] == length
            for (_, stop, _, last), (start, _, first, _) in zip(spans, spans[1:], strict=False):
                assert last == first and stop - start >= shared and abs((stop - last) - (first - start)) <= 1


def test_joined_logits_are_those_of_one_softmax_over_all_tokens():
    generator = np.random.default_rng(0)
    documents, sizes = np.array([0, 0, 1, 2, 2, 2]), [3, 5, 2, 4, 1, 6]
    scores, values = ([generator.normal(size=(size, 3)) * scale for size in sizes] for scale in (30, 1))
    weights = [np.exp(s - s.max(0)) for s in scores]
    windows = [(w / w.sum(0) * v).sum(0) for w, v in zip(weights, values, strict=True)]
    lse = np.stack([s.max(0) + np.log(w.sum(0)) for s, w in zip(scores, weights, strict=True)])
    joined = join_windows(np.stack(windows), lse, documents, 3)
    for document in range(3):
        rows = np.flatnonzero(documents == document)
        s, v = np.concatenate([scores[row] for row in rows]), np.concatenate([values[row] for row in rows])
        weights = np.exp(s - s.max(0))
        np.testing.assert_allclose(joined[document], (weights * v).sum(0) / weights.sum(0), rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def predictor(tiny_run) -> Predictor:
    return Predictor(tiny_run, device="cpu", max_length=14)


@torch.no_grad()
def whole_attention(predictor: Predictor, text: str) -> np.ndarray:
    """(C,) probabilities, by hand: the hidden states of all windows side by side, one attention over them."""
    model, windows = predictor.model, predictor.encode([text, SHORT]).inputs
    states, sentences = [], []
    for ids, pooled in list(zip(windows["input_ids"], windows["pooling_mask"], strict=True))[:-1]:
        hidden = model.bert(torch.tensor([ids])).last_hidden_state[0]
        states.append(hidden[torch.tensor(pooled).bool()])
        sentences.append(hidden[:1].expand_as(states[-1]))
    hidden, sentence = torch.cat(states), torch.cat(sentences)
    attention = (hidden @ (model.bert.score.label_embeddings @ model.bert.score.weight.T).T).softmax(0).T
    joined = torch.cat([attention @ hidden, attention @ sentence], dim=-1)
    return (model.classifier(joined[None])[0] / model.config.calibration_temperature).sigmoid().numpy()


def test_a_document_is_read_whole_by_one_attention(predictor, tiny_run):
    found = predictor.probabilities([LONG, SHORT, LONG])
    np.testing.assert_allclose(found[0], whole_attention(predictor, LONG), rtol=0, atol=2e-6)
    np.testing.assert_allclose(found[2], found[0], rtol=0, atol=1e-6)
    np.testing.assert_allclose(found[1], predictor.probabilities([SHORT])[0], rtol=0, atol=1e-6)
    # The map of an explanation spans the document.
    (heat,) = explain(tiny_run, LONG, max_length=14, labels=["joy", "anger"]).maps
    assert heat.columns == LONG.split()
    expected = found[0][[predictor.labels.index(name) for name in heat.rows]]
    np.testing.assert_allclose(heat.scores, expected, atol=1e-5)
    assert (heat.values.sum(1) <= 1 + 1e-6).all() and (heat.values[:, -5:].sum(1) > 0).all()
    # Each token of the text counts once, special tokens in each window.
    windows, whole = predictor.encode([LONG]).inputs, predictor.tokenizer(LONG)["input_ids"]
    counted = []
    for ids, mask in zip(windows["input_ids"], windows["pooling_mask"], strict=True):
        assert len(ids) == 14 and ids[0] == whole[0] and ids[-1] == whole[-1]
        counted += [token for token, kept in zip(ids[1:-1], mask[1:-1], strict=True) if kept]
    assert counted == whole[1:-1]


def test_a_model_without_label_attention_gives_the_mean_over_its_windows(stock_run):
    predictor = Predictor(stock_run, device="cpu", max_length=14, stride=0)
    windows = predictor.encode([LONG]).inputs
    with torch.no_grad():
        logits = torch.cat([predictor.model(torch.tensor([ids])).logits for ids in windows["input_ids"]])
    counted = torch.tensor(windows["pooling_mask"]).sum(1, keepdim=True)
    mean = (logits * counted).sum(0) / counted.sum()
    expected = (mean / predictor.model.config.calibration_temperature).sigmoid()
    np.testing.assert_allclose(predictor.probabilities([LONG])[0], expected.numpy(), rtol=0, atol=2e-6)


def test_max_windows_bounds_what_is_read_and_what_is_cut_is_counted(predictor, tiny_run, caplog):
    model = predictor.model, predictor.tokenizer
    once = Predictor(*model, max_length=14, max_windows=1)
    assert len(once.encode([LONG]).inputs["input_ids"]) == 1
    twice = Predictor(*model, max_length=14, max_windows=2, stride=3)
    _, unread = twice.predict([LONG, SHORT])
    assert unread.truncated.tolist() == [True, False]
    assert "1 of 2 texts are longer than 2 windows of 14 tokens (`max_windows`) and were cut" in caplog.text
    caplog.clear()
    _, unread = predictor.predict([LONG, SHORT])
    assert not unread.truncated.any() and not caplog.messages
    for name, value, rule in (("stride", 8, "between 0 and 7"), ("max_windows", 0, "at least 1")):
        with pytest.raises(ValueError, match=f"`{name}` .* {rule}"):
            Predictor(*model, max_length=14, **{name: value})


def test_the_maximum_finds_what_any_window_holds(predictor):
    whole = Predictor(predictor.model, predictor.tokenizer, max_length=14, stride=0, aggregation_strategy="max")
    windows = whole.encode([LONG]).inputs
    with torch.no_grad():
        pairs = zip(windows["input_ids"], windows["pooling_mask"], strict=True)
        logits = [whole.model(torch.tensor([ids]), pooling_mask=torch.tensor([mask])).logits for ids, mask in pairs]
    alone = (torch.cat(logits) / whole.model.config.calibration_temperature).sigmoid()
    np.testing.assert_allclose(whole.probabilities([LONG, SHORT])[0], alone.amax(0).numpy(), rtol=0, atol=1e-6)
    classify = EmotionClassificationPipeline(model=predictor.model, tokenizer=predictor.tokenizer)
    items = classify(LONG, top_k=None, max_length=14, stride=0, aggregation_strategy="max")
    best = np.sort(alone.amax(0).numpy())[::-1]
    np.testing.assert_allclose([item["score"] for item in items], best, rtol=0, atol=1e-6)


def test_files_and_commands_read_the_same(predictor, tiny_run, tmp_path):
    known = []
    for strategy in ("average", "max"):
        options = ("--max-length", 8, "--aggregation-strategy", strategy, "--json")
        shown = invoke("evaluate", tiny_run, "--dataset", "quickstart", *options)
        known.append(json.loads(shown[shown.index("{") :])["metrics"]["fixed"]["macro_average_precision"])
    assert known[0] != known[1]
    write_csv(tmp_path / "in.csv", ["text"], [[LONG], [SHORT]])
    predict_file(predictor, tmp_path / "in.csv", tmp_path / "out.jsonl", top_k=3, progress=False)
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["truncated"] for row in rows] == [False, False]
    output = invoke("predict", tiny_run, LONG, SHORT, "--json", "--top-k", 3, "--max-length", 14)
    printed = [json.loads(line)["labels"] for line in output.splitlines() if line.startswith("{")]
    for row, labels, scores in zip(rows, printed, predictor.probabilities([LONG, SHORT]), strict=True):
        for found in (row["predicted_scores"], [item["score"] for item in labels]):
            np.testing.assert_allclose(found, np.sort(scores)[:-4:-1], rtol=0, atol=1e-4)


@pytest.mark.parametrize("batch_size", [1, 3])
def test_the_pipeline_reads_whole_texts(predictor, batch_size):
    classify = EmotionClassificationPipeline(model=predictor.model, tokenizer=predictor.tokenizer)
    texts = [SHORT, LONG, SHORT]
    found = classify(texts, top_k=None, max_length=14, batch_size=batch_size)
    expected = predictor.probabilities(texts)
    for row, items in enumerate(found):
        scores = {item["label"]: item["score"] for item in items}
        np.testing.assert_allclose([scores[name] for name in predictor.labels], expected[row], rtol=0, atol=1e-5)
    labels, scores = ([item[name] for item in found[1]] for name in ("label", "score"))
    assert [item["label"] for item in classify(LONG, top_k=3, max_length=14)] == labels[:3]
    padded = classify(LONG, top_k=None, max_length=14, padding="max_length")  # no window may hold any
    assert [item["label"] for item in padded] == labels
    assert [item["score"] for item in padded] == pytest.approx(scores, abs=1e-6)
    assert classify(LONG, top_k=None, max_length=14, max_windows=1) != found[1]


def test_a_training_reads_whole_texts(base_bert, tmp_path, caplog):
    """What tells the label stands behind the first window alone."""
    words, before = ("joy", "anger"), "the rain of the day . "
    rows = [[f"{before * (2 + number % 3)}{word}", word] for number in range(24) for word in words]
    for part in ("train", "dev", "test"):
        write_csv(tmp_path / f"{part}.csv", ["text", "label"], rows)
    fields = {"dataset": "files", "train_fraction": 1, "seeds": [7], "max_length": 12, "max_windows": 4}
    recipe = recipe_for(base_bert, {"num_train_epochs": 6, "learning_rate": 1e-2}, **fields)
    train(recipe, tmp_path / "run", data_dir=tmp_path)
    assert not any("were cut" in message for message in caplog.messages)
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())["runs"][0]
    assert metrics["history"][-1]["eval_accuracy"] == metrics["test"]["argmax"]["accuracy"] == 1.0
    cut = Predictor(tmp_path / "run", max_windows=1)
    assert np.ptp(cut.probabilities([row[0] for row in rows[:2]]), axis=0).max() < 1e-6
    with pytest.raises(ValueError, match="`max_windows` needs label attention; `model_type` None"):
        train(dataclasses.replace(recipe, model_type=None, name="stock"), tmp_path / "stock", data_dir=tmp_path)
