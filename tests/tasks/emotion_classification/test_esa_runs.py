# SPDX-License-Identifier: Apache-2.0
"""Whole runs of RoBERTa with emotion-specific attention and of gated models: what they keep, and that every path applies the gate."""

import json
import logging
import math
import shutil
import string
from collections import Counter
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pyarrow.parquet
import pytest
import toolkit_helpers as kit
import torch
from datasets import DatasetDict
from hf_emotion.modeling import EmotionClassificationPipeline
from hf_emotion.modeling.text_processing import TfidfGate, load_gate
from model_cases import TINY_BERT, asymmetric_
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, AutoTokenizer, pipeline

import hf_emotion.serving.bulk as bulk_module
import hf_emotion.tasks.sequence_classification as building
from hf_emotion import Predictor, load_dataset_for, train
from hf_emotion.convert import bert_to_roberta
from hf_emotion.serving.bulk import predict_file
from hf_emotion.tasks.sequence_classification import build_classifier


pytest_plugins = ["toolkit_fixtures"]
pytestmark = pytest.mark.usefixtures("single_thread")

EMOTIONS = ("sadness", "joy", "love", "anger", "fear", "surprise")
CUES = dict(zip(EMOTIONS, ("sad", "joy", "happy", "anger", "fear", "nervous"), strict=True))
TRAIN_COUNTS = dict(zip(EMOTIONS, (9, 12, 4, 6, 5, 3), strict=True))
ENDINGS = ("today", "this day", "calm rain", "the sun", "very neutral", "of rain", "a day, so calm")
SHAPES = ("I feel so {cue} and {cue} {end}", "{cue}: {end}", "the {end} is not {cue}, i am {cue} {end}!")
SHAPES += ("this is so so {cue}, so very {cue} {end}", "i am {cue}")
LONG = "I feel so happy and " + "the sun is not calm, " * 12 + "so very happy"  # longer than the model reads


def rows(counts: dict[str, int], offset: int) -> list[tuple[str, str]]:
    """(text, emotion), which its cue tells; texts of few and of many words."""
    found = []
    for label, count in counts.items():
        for number in range(offset, offset + count):
            text = SHAPES[number % 5].format(cue=CUES[label], end=ENDINGS[number % 7])
            found.append((f"{text} {ENDINGS[(number + 3) % 7]}" if number % 2 else text, label))
    return found


# Unequal classes, texts that training and the other parts share, words that it lacks.
TRAIN, SICK = rows(TRAIN_COUNTS, 0), "so sick, the home is not sad"
PARTS = {
    "train": TRAIN,
    "val": [*rows(dict.fromkeys(EMOTIONS, 3), 20), TRAIN[1], ("the opt is so joy and very nostalgia", "joy")],
    "test": [*rows(dict.fromkeys(EMOTIONS, 3), 30), TRAIN[10], (SICK, "sadness"), (LONG, "love")],
}
HELD_OUT = [text for name in ("val", "test") for text, _ in PARTS[name]]
TRAINING = [text for text, _ in TRAIN if text not in HELD_OUT]


def hand_idf(texts: list[str]) -> dict[str, float]:
    distinct = [{word.lower().strip(string.punctuation) or word for word in text.split()} for text in set(texts)]
    counts = Counter(word for words in distinct for word in words)
    return {word: math.log((1 + len(distinct)) / (1 + df)) + 1 for word, df in counts.items()}


# That of the training texts; what it does with a text is tested in tests/models/test_tfidf_gate.py.
GATE = TfidfGate(hand_idf(TRAINING), math.log(1 + len(set(TRAINING))) + 1)


@pytest.fixture(scope="session")
def emotion6(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("emotion6-data")
    (folder / "emotion6").mkdir()
    for name, content in PARTS.items():
        text = "".join(f"{text};{label}\n" for text, label in content)
        (folder / "emotion6" / f"{name}.txt").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def base_roberta(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("base-roberta")
    kit.save_base_bert(folder / "tiny-bert")
    bert_to_roberta(folder / "tiny-bert", folder / "tiny-roberta")
    return folder / "tiny-roberta"


def esa_recipe(base: Path, arguments: dict | None = None, **changes):
    config = {"initializer_range": 0.3, **changes.pop("model_config", {})}
    values = {"name": "esa", "dataset": "emotion6", "model_type": "roberta-esa", "train_fraction": 1}
    values |= {"dataset_options": {"dedupe": True, "oversample": True}}
    learning = {"num_train_epochs": 3, "learning_rate": 3e-3, **(arguments or {})}
    return kit.recipe_for(base, learning, **{**values, **changes}, model_config=config)


KINDS = {
    "roberta_tfidf": {"model_type": None, "model_config": {"tfidf_gating": "filter"}},
    "esa_tfidf": {"model_config": {"tfidf_gating": "filter"}},
    "esa_scale": {"model_config": {"tfidf_gating": "scale"}},
}


@pytest.fixture(scope="session")
def gated_runs(tmp_path_factory, base_roberta, emotion6) -> dict[str, Path]:
    """Finished run folders: a stock model and ESA whose texts are filtered, and ESA whose embeddings are scaled."""
    folder = tmp_path_factory.mktemp("gated")
    with kit.torch_threads(1):
        for name, changes in KINDS.items():
            recipe = esa_recipe(base_roberta, {"num_train_epochs": 4}, name=name, **changes)
            train(recipe, folder / name, data_dir=emotion6)
    return {name: folder / name for name in KINDS}


@pytest.fixture(params=KINDS)
def run(request, gated_runs) -> Path:
    return gated_runs[request.param]


def gate_in(run: Path) -> dict:
    return json.loads((run / "tfidf_gate.json").read_text(encoding="utf-8"))


def test_what_a_run_folder_holds(run):
    config, gate, card = AutoConfig.from_pretrained(run), gate_in(run), (run / "README.md").read_text(encoding="utf-8")
    assert list(config.id2label.values()) == list(EMOTIONS) and config.problem_type == "single_label_classification"
    gating = KINDS[run.name]["model_config"]["tfidf_gating"]
    assert config.tfidf_gating == gating
    # The gate is fitted on training texts alone.
    assert len(TRAINING) < len(TRAIN)
    assert gate["idf"] == pytest.approx(hand_idf(TRAINING), abs=1e-6)
    assert gate["unseen_idf"] == pytest.approx(math.log(1 + len(set(TRAINING))) + 1)
    assert not {"nostalgia", "opt", "home", "sick"} & gate["idf"].keys()
    assert (gate["threshold"], gate["min_words"]) == (3.5, 4)
    filtered = "Words of low tf·idf are removed before tokenisation (`tfidf_gate.json`)."
    scaled = "Word embeddings are scaled by tf·idf (`tfidf_gate.json`)."
    assert [filtered in card, scaled in card] == [gating == "filter", gating == "scale"]
    if run.name == "roberta_tfidf":
        assert config.architectures == ["RobertaForSequenceClassification"]
        assert "The stock sequence classifier of transformers over `tiny-roberta`" in card
    else:
        assert config.architectures == ["RobertaWithESAForSequenceClassification"]
        assert config.class_counts == [11] * 6 and config.thresholds is None
        assert "Emotion-specific attention over the last hidden state of RoBERTa" in card
        assert f"`tfidf_gating={gating}`" in card


class TestOnePath:
    def test_predictions_of_the_run_are_those_of_the_predictor_and_of_a_path_by_hand(self, run, caplog):
        stored = pyarrow.parquet.read_table(run / "predictions.parquet").to_pydict()
        assert stored["split"] == ["validation"] * 20 + ["test"] * 21
        found = Predictor(run, device="cpu", max_length=kit.MAX_LENGTH).probabilities(HELD_OUT)
        np.testing.assert_allclose(found, np.array(stored["probabilities"]), atol=1e-5)
        model, tokenizer = AutoModelForSequenceClassification.from_pretrained(run), AutoTokenizer.from_pretrained(run)
        given = HELD_OUT if run.name == "esa_scale" else list(map(GATE.filter, HELD_OUT))
        whole = np.array([len(tokenizer(text)["input_ids"]) <= kit.MAX_LENGTH for text in given])
        assert sum(whole) >= 40  # the other is read in windows
        by_hand, options = [], {"return_tensors": "pt", "truncation": True, "max_length": kit.MAX_LENGTH}
        for text, read in zip(HELD_OUT, given, strict=True):
            inputs = tokenizer(read, return_offsets_mapping=True, **options)
            offsets = inputs.pop("offset_mapping")[0].tolist()
            if run.name == "esa_scale":
                inputs["token_gates"] = torch.tensor([GATE.token_gates(text, offsets)])
            with torch.no_grad():
                by_hand.append((model(**inputs).logits[0] / model.config.calibration_temperature).softmax(-1).numpy())
        np.testing.assert_allclose(found[whole], np.stack(by_hand)[whole], atol=1e-5)
        with caplog.at_level(logging.WARNING):
            Predictor(run, device="cpu", max_length=kit.MAX_LENGTH, max_windows=1).probabilities(HELD_OUT)
        # Words are removed before tokens are counted.
        assert ("1 of 41 texts are longer than 32 tokens" in caplog.text) == (not whole.all())
        # The gate matters, and rows differ: an order that is lost would show.
        model.config.tfidf_gating = "none"
        assert (
            np.abs(found - Predictor(model, tokenizer, max_length=kit.MAX_LENGTH).probabilities(HELD_OUT)).max() > 0.02
        )
        assert found.std(axis=0).min() > 0.01

    @pytest.mark.parametrize("name", ["roberta_tfidf", "esa_scale"])
    def test_training_sees_what_prediction_sees(self, base_roberta, emotion6, monkeypatch, tmp_path, no_plots, name):
        monkeypatch.setattr(building, "pad_rows", watched := Mock(wraps=building.pad_rows))
        train(esa_recipe(base_roberta, {"num_train_epochs": 1}, **KINDS[name]), tmp_path / "run", data_dir=emotion6)
        tokenizer, scale = AutoTokenizer.from_pretrained(base_roberta), name == "esa_scale"
        expected = {}
        for text in {*TRAINING, *(text for text, _ in PARTS["val"])}:
            encoded = tokenizer(text if scale else GATE.filter(text), return_offsets_mapping=True)
            gates = GATE.token_gates(text, encoded["offset_mapping"])
            expected[tuple(encoded["input_ids"])] = pytest.approx(gates, abs=1e-5) if scale else []
        seen = [row for call in watched.call_args_list for row in zip(*call.args[1].values(), strict=True)]
        found = {tuple(ids): gates[0] if gates else [] for ids, *gates in seen}
        assert found.keys() == expected.keys()
        for ids, gates in found.items():
            assert gates == expected[ids]

    @pytest.mark.parametrize("name", ["esa_tfidf", "esa_scale"])
    def test_pipeline(self, gated_runs, name):
        run, texts = gated_runs[name], HELD_OUT
        classify = pipeline(model=str(run), trust_remote_code=True, device="cpu")
        expected = Predictor(run, device="cpu")(texts, top_k=6)
        for batch_size in (1, 7):
            kit.assert_close(classify(texts, batch_size=batch_size, top_k=None), expected)
        kit.assert_close(classify(texts[:5], batch_size=3), [items[:1] for items in expected[:5]])

    def test_a_pipeline_of_objects_takes_the_gate(self, gated_runs):
        model = AutoModelForSequenceClassification.from_pretrained(gated_runs["esa_tfidf"])
        tokenizer = AutoTokenizer.from_pretrained(gated_runs["esa_tfidf"])
        gate = TfidfGate({}, 1.0, threshold=0.0)  # keeps everything
        classify = EmotionClassificationPipeline(model=model, tokenizer=tokenizer, gate=gate, device="cpu")
        gated = EmotionClassificationPipeline(model=model, tokenizer=tokenizer, device="cpu")
        for own, read in ((classify, SICK), (gated, GATE.filter(SICK))):
            assert next(own.preprocess(SICK))["input_ids"][0].tolist() == tokenizer(read)["input_ids"]
        predictor = Predictor(model, tokenizer, gate=gate)
        assert predictor(SICK, top_k=1)[0][0]["score"] == pytest.approx(classify(SICK)[0]["score"], abs=1e-5)
        with pytest.raises(ValueError, match="takes texts as strings"):
            classify({"text": SICK, "text_pair": SICK})

    def test_a_saved_pipeline_has_its_gate(self, gated_runs, tmp_path):
        run = gated_runs["roberta_tfidf"]
        with pytest.raises(ValueError, match="trust_remote_code"):  # the stock one does not answer without the gate
            pipeline("text-classification", str(run), device="cpu")
        classify = pipeline("text-classification", str(run), trust_remote_code=True, device="cpu")
        classify.save_pretrained(tmp_path)
        assert gate_in(tmp_path) == gate_in(run)
        again = pipeline("emotion-classification", str(tmp_path), trust_remote_code=True, device="cpu")
        assert again(LONG) == classify(LONG)

    def test_another_gate_is_another_job(self, gated_runs, tmp_path, monkeypatch):
        source, output = kit.write_csv(tmp_path / "in.csv", ["text"], [[LONG]]), tmp_path / "out.csv"
        run = gated_runs["esa_tfidf"]
        with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
            patch.setattr(bulk_module, "_merge", lambda *arguments: 1 / 0)
            predict_file(Predictor(run, device="cpu"), source, output, progress=False)
        copy = shutil.copytree(run, tmp_path / "copy")
        other = gate_in(run) | {"threshold": 0.5, "idf": dict.fromkeys(gate_in(run)["idf"], 1.0)}
        (copy / "tfidf_gate.json").write_text(json.dumps(other))
        changed = Predictor(copy, device="cpu")
        changed.model.config.name_or_path = str(run)  # all else about the two is equal
        with pytest.raises(FileExistsError, match="parts of another job"):
            predict_file(changed, source, output, progress=False)
        done = predict_file(Predictor(run, device="cpu"), source, output, progress=False)
        assert done == {"rows": 1, "skipped": 0}

    def test_a_missing_gate(self, run, tmp_path):
        folder = shutil.copytree(run, tmp_path / "copy", ignore=shutil.ignore_patterns("tfidf_gate.json"))
        with pytest.raises(OSError, match=f"tfidf_gate.json is not beside its weights.*{folder}"):
            Predictor(folder, device="cpu")
        gate = load_gate(AutoModelForSequenceClassification.from_pretrained(run).config)
        found = Predictor(folder, device="cpu", gate=gate)(LONG)[0][0]["score"]
        assert found == pytest.approx(Predictor(run, device="cpu")(LONG)[0][0]["score"], abs=1e-6)


class TestOtherRuns:
    def test_several_seeds(self, base_roberta, emotion6, tmp_path, no_plots):
        recipe = esa_recipe(base_roberta, {"num_train_epochs": 1}, seeds=[1, 2], **KINDS["esa_tfidf"])
        train(recipe, tmp_path / "run", data_dir=emotion6)
        gates = {path.parent.name: path.read_bytes() for path in (tmp_path / "run").rglob("tfidf_gate.json")}
        assert set(gates) == {"run", "seed-1", "seed-2"} and len(set(gates.values())) == 1

    def test_given_splits_are_used_and_left_alone(self, base_roberta, emotion6, tmp_path, no_plots):
        splits = load_dataset_for("emotion6", emotion6).remove_columns("id")
        given = DatasetDict({"train": splits["train"].select(range(24)), "validation": splits["test"]})
        before = {split: (dataset, dataset[:]) for split, dataset in given.items()}
        recipe = esa_recipe(base_roberta, {"num_train_epochs": 1}, train_fraction=0.5, **KINDS["esa_tfidf"])
        report = train(recipe, tmp_path / "run", data_dir=tmp_path / "nowhere", splits=given).to_dict()
        assert list(given) == ["train", "validation"]
        for split, (dataset, content) in before.items():
            assert given[split] is dataset and dataset[:] == content
        assert report["rows"] == {"train": 12, "validation": 21}
        stored = pyarrow.parquet.read_table(tmp_path / "run" / "predictions.parquet").to_pydict()
        assert stored["split"] == ["validation"] * 21 and stored["id"] == [f"validation-{i + 1}" for i in range(21)]
        drawn = splits["train"].select(range(24)).shuffle(seed=0).select(range(12))["text"]
        assert gate_in(tmp_path / "run")["idf"] == pytest.approx(hand_idf(list(drawn)), abs=1e-6)


@pytest.mark.parametrize("saved", [AutoModel, AutoModelForSequenceClassification])
@pytest.mark.parametrize("kin", ["xlm-roberta", "camembert"])
def test_the_encoder_of_robertas_kin_is_taken(kin, saved, base_roberta, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(base_roberta)
    sizes = {"vocab_size": len(tokenizer), "max_position_embeddings": 42, "type_vocab_size": 1, "num_labels": 4}
    config = AutoConfig.for_model(kin, **{**TINY_BERT, **sizes, "pad_token_id": 1})
    trained = asymmetric_(saved.from_config(config), seed=4)
    trained.save_pretrained(tmp_path)
    model = build_classifier(str(tmp_path), "roberta-esa", {}, tokenizer, ["a", "b"], False, [1, 1])
    expected, found = trained.base_model.state_dict(), model.roberta.state_dict()
    parts = [name for name in expected if not name.startswith("pooler")]
    assert len(parts) > 20 and all(torch.equal(found[name], expected[name]) for name in parts)


class TestRefused:
    @pytest.mark.parametrize("gating", ["scale", True])
    def test_stock_models_filter_or_do_not(self, base_roberta, emotion6, tmp_path, gating):
        recipe = esa_recipe(base_roberta, model_type=None, model_config={"tfidf_gating": gating})
        with pytest.raises(ValueError, match=r"`model_config.tfidf_gating` must be one of \['none', 'filter'\]"):
            train(recipe, tmp_path / "run", data_dir=emotion6)
        assert not (tmp_path / "run" / "recipe.yaml").exists()

    def test_texts_with_aspects_are_not_filtered(self, aspect_bert, corpora, tmp_path):
        """Words that are removed could be the targets."""
        config = {"auxiliary_sentence": True, "tfidf_gating": "filter"}
        recipe = kit.targeted_recipe(aspect_bert, model_type=None, model_config=config)
        with pytest.raises(ValueError, match=r"`model_config.tfidf_gating` must be one of \['none'\], got 'filter'"):
            train(recipe, tmp_path / "run", data_dir=corpora)
        assert not list(tmp_path.rglob("checkpoint-*"))

    def test_a_base_of_another_architecture(self, base_bert, emotion6, tmp_path):
        message = "`base_model` .*'roberta-esa'.*'xlm-roberta'.*got one of 'bert': LabelAwareForSequence"
        with pytest.raises(ValueError, match=message):
            train(esa_recipe(base_bert), tmp_path / "run", data_dir=emotion6)


def test_splits_made_after_oversampling_share_rows(base_roberta, emotion6, tmp_path, study, no_plots):
    """`python -m benchmarks.study leakage` in its smallest form."""
    settings = ["max_steps=2", "use_cpu=true", "bf16=false", "per_device_train_batch_size=4", "max_length=16"]
    settings += [f"base_model={base_roberta}", "seeds=[42]"]
    options = ["--output", tmp_path / "leaky", "--data-dir", emotion6]
    options += [part for setting in settings for part in ("--set", setting)]
    done = study("leakage", "emotion6/esa", *options)
    found = json.loads((tmp_path / "leaky" / "leakage.json").read_text(encoding="utf-8"))
    corpus = load_dataset_for("emotion6", emotion6)
    largest = Counter(label for part in corpus.values() for label in part["labels"]).most_common(1)[0][1]
    assert found["test_rows"] == 6 * largest // 10  # of classes that are all as large as the largest
    assert found["recipe"] == "emotion6_esa" and found["encoder"] == base_roberta.name and len(found["minutes"]) == 1
    assert 0.3 < found["in_train"] <= 1 and 0 <= found["accuracy"]["mean"] <= 1
    assert f"{found['in_train']:.1%} of {found['test_rows']} test rows stand in train" in done.out
