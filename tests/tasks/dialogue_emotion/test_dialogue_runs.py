# SPDX-License-Identifier: Apache-2.0
"""Dialogues: whole runs of tiny models, the vectors that are computed once, the figures of a run, its card, the recipes."""

import json
import shutil
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import toolkit_helpers as kit
import torch
from datasets import ClassLabel, Dataset, DatasetDict, Features, List, Value
from datasets import config as datasets_config
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoModelForTokenClassification, AutoTokenizer, BertModel

import hf_emotion
import hf_emotion.tasks.dialogue_emotion.building as building
from hf_emotion.inference import load_predictor
from hf_emotion.recipes import Recipe
from hf_emotion.runs.evaluate import evaluate
from hf_emotion.tasks.loading import load_split


pytest_plugins = ["toolkit_fixtures"]
# The recipes of MELD.
TRAINED = ("utterance", "bilstm_attention_pe")
# The first dialogues of the parts for evaluation are of 3, 4, 5, 2 and of 5, 2, 3 turns: in no order of length.
PARTS = {"train": (16, 0), "dev": (6, 17), "test": (7, 23)}
# No dropout, and new weights so large that utterances lie far apart before any training.
WIDE = {"hidden_size": 6, "num_attention_heads": 3, "initializer_range": 1.0, "hidden_dropout_prob": 0.0}
FOUR = {"anger": "angry", "joy": "happy", "neutral": "neutral", "sadness": "sad"}


@pytest.fixture(autouse=True)
def settings(own_verbosity, monkeypatch, tmp_path):
    monkeypatch.setattr(datasets_config, "HF_DATASETS_CACHE", tmp_path / "datasets-cache")
    with kit.torch_threads(1):
        yield


@pytest.fixture(scope="session")
def meld(tmp_path_factory) -> Path:
    return kit.write_meld(tmp_path_factory.mktemp("meld"), PARTS)


@pytest.fixture(scope="session")
def own_files(tmp_path_factory) -> Path:
    """One's own dialogues, in which every sixth utterance has no label."""
    return kit.write_dialogues(tmp_path_factory.mktemp("own-dialogues"), PARTS)


def dialogue_recipe(base: Path, arguments: dict | None = None, recipe: str = "meld/utterance", **changes) -> Recipe:
    """A packaged recipe over a tiny encoder and few rows; `arguments` are added to its training arguments."""
    values = {"base_model": str(base), "max_length": 16, **changes, **kit.QUICK_ARGUMENTS}
    values |= {"num_train_epochs": 3, "learning_rate": 1e-2, "warmup_steps": 0}
    values |= {"per_device_train_batch_size": 4, "per_device_eval_batch_size": 4, **(arguments or {})}
    return hf_emotion.load_recipe(recipe, [f"{key}={json.dumps(value)}" for key, value in values.items()])


@pytest.fixture(scope="session")
def runs(tmp_path_factory, base_bert, meld) -> dict[str, Path]:
    """Finished run folders over MELD: an utterance alone, and all that a dialogue gives."""
    root = tmp_path_factory.mktemp("dialogue-runs")
    return {kind: kit.fit(dialogue_recipe(base_bert, recipe=f"meld/{kind}"), root / kind, meld) for kind in TRAINED}


@pytest.fixture(scope="session")
def own_run(tmp_path_factory, base_bert, own_files) -> Path:
    """A finished run folder over one's own dialogues, with two speakers and some utterances without a label."""
    config = {**WIDE, "num_speakers": 2}
    recipe = dialogue_recipe(base_bert, dataset="dialogue_files", name="own", model_config=config)
    return kit.fit(recipe, tmp_path_factory.mktemp("own-run") / "run", own_files)


def meld_part(part: str) -> list[list[tuple[str, str, str]]]:
    return kit.dialogues(kit.MELD_EMOTIONS, *PARTS[part])


def check_predictions(run: Path, *corpus) -> None:
    """
    The stored probabilities are the predictor's, with the turns without a label as context. test_predictors_shared.py compares a
    predictor with the pipeline, test_dialogue_bilstm.py that with the model.
    """
    predictor = load_predictor(run)
    for split in ("validation", "test"):
        rows, found = load_split(corpus[0], split, corpus[1]), kit.probabilities_of(run, split)
        talks = [list(zip(row["speakers"], row["utterances"], strict=True)) for row in rows]
        expected = predictor.probabilities(talks)
        np.testing.assert_allclose(found, expected[predictor.task.gold(rows).labelled], atol=1e-5)
        assert found.std(axis=0).mean() > 1e-4  # an order that is lost would show


def base_weights(base: Path) -> dict[str, torch.Tensor]:
    """Those of the base model that stand in a dialogue model: all but the pooler, which nothing would read."""
    weights = load_file(base / "model.safetensors")
    return {name: value for name, value in weights.items() if not name.startswith("pooler.")}


def encoder_weights(run: Path) -> dict[str, torch.Tensor]:
    prefix = "dialogue.utterance_encoder."
    weights = load_file(run / "model.safetensors")
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}


@pytest.mark.parametrize("kind", TRAINED)
def test_a_run_of_a_packaged_recipe(runs, base_bert, meld, kind):
    config = AutoModelForTokenClassification.from_pretrained(runs[kind]).config
    values = {"utterance_encoder": "model", "freeze_encoder": True, "utterance_size": 16}
    values |= hf_emotion.load_recipe(f"meld/{kind}").model_config
    assert values.items() <= config.to_dict().items() and config.encoder_config.model_type == "bert"
    expected, found = base_weights(base_bert), encoder_weights(runs[kind])
    assert found.keys() == expected.keys() and len(expected) > 20
    assert all(torch.equal(found[name], value) for name, value in expected.items())  # the encoder is frozen
    check_predictions(runs[kind], "meld", meld)


def test_utterances_without_a_label(own_run, own_files, tmp_path):
    check_predictions(own_run, "dialogue_files", own_files)
    (tmp_path / "train.csv").write_text("dialogue,utterance,label\n1,so happy,joy\n1,the day,\n2,a day,joy\n")
    found = evaluate(load_predictor(own_run), "dialogue_files", "train", tmp_path)
    assert found["labels"] == list(kit.FEELINGS) and found["rows"] == 1  # the other dialogue is set aside


class TestOtherForms:
    def test_words(self, base_bert, meld, tmp_path):
        config = {**WIDE, "utterance_encoder": "bilstm", "utterance_size": 8}
        run = kit.fit(dialogue_recipe(base_bert, {"num_train_epochs": 1}, model_config=config), tmp_path / "run", meld)
        model = AutoModelForTokenClassification.from_pretrained(run)
        tokenizer = AutoTokenizer.from_pretrained(base_bert)
        assert model.config.utterance_encoder == "bilstm" and model.config.encoder_config is None
        assert model.config.vocab_size == len(tokenizer) == len(AutoTokenizer.from_pretrained(run))
        assert model.config.pad_token_id == tokenizer.pad_token_id
        assert model.dialogue.utterance_encoder.word_embeddings.weight.shape == (len(tokenizer), 8)
        check_predictions(run, "meld", meld)

    def test_a_trained_encoder(self, base_bert, meld, tmp_path):
        config = {**WIDE, "freeze_encoder": False}
        arguments = {"learning_rate": 1e-3, "num_train_epochs": 2}
        run = kit.fit(dialogue_recipe(base_bert, arguments, model_config=config), tmp_path / "run", meld)
        expected, found = base_weights(base_bert), encoder_weights(run)
        assert found.keys() == expected.keys()
        moved = {name for name in found if (found[name] - expected[name]).abs().max() > 1e-5}
        assert moved >= {name for name in found if "query.weight" in name or "word_embeddings" in name}
        check_predictions(run, "meld", meld)
        assert not (tmp_path / "datasets-cache" / "hf_emotion").exists()  # nothing to keep

    def test_a_trained_dialogue_model_is_trained_on(self, base_bert, tmp_path):
        """With other labels all of it but the classifier; its words are not taken for an utterance encoder."""
        trained, tokenizer = tiny_model(base_bert, utterance_encoder="model")
        trained.config.calibration_temperature = 2.0
        trained.config.class_weights = [1.0] * trained.config.num_labels
        trained.save_pretrained(tmp_path)
        weights = trained.state_dict()
        for names, kept in ((["a", "b", "c"], True), (["c", "b", "a"], False), (["x", "y"], False)):
            torch.manual_seed(5)
            model = building.build_dialogue_model(str(tmp_path), {}, tokenizer, names)
            assert model.config.class_weights is None  # those of the first training are not of this one
            assert list(model.config.id2label.values()) == names
            assert type(model.dialogue.utterance_encoder) is type(trained.dialogue.utterance_encoder)
            same = {name for name, value in model.state_dict().items() if torch.equal(value, weights[name])}
            assert same >= {name for name in weights if name.startswith("dialogue.")}
            assert ("classifier.weight" in same) is kept
        message = "`model_config` asks for other sizes than the trained dialogue model"
        for other in ({"hidden_size": WIDE["hidden_size"] * 2}, {"num_hidden_layers": 3}, {"num_attention_heads": 0}):
            with pytest.raises(ValueError, match=message):
                building.build_dialogue_model(str(tmp_path), other, tokenizer, ["x", "y"])

    def test_a_trained_classifier_gives_its_encoder(self, base_bert, tmp_path):
        config = hf_emotion.LabelAwareBertConfig.from_pretrained(base_bert, num_labels=4, thresholds=[0.1] * 4)
        classifier = hf_emotion.BertForLabelAwareClassification(config)
        classifier.save_pretrained(tmp_path)
        model = building.build_dialogue_model(str(tmp_path), {}, AutoTokenizer.from_pretrained(base_bert), ["x", "y"])
        encoder = model.dialogue.utterance_encoder
        assert type(encoder) is BertModel and not hasattr(model.config.encoder_config, "thresholds")
        expected = classifier.bert.encoder.state_dict()
        assert all(torch.equal(value, expected[name]) for name, value in encoder.encoder.state_dict().items())

    def test_vectors_are_refused(self, base_bert, meld, tmp_path):
        recipe = dialogue_recipe(base_bert, model_config={"utterance_encoder": "vectors"})
        message = "`model_config.utterance_encoder` must be 'model' or 'bilstm'.*reads texts"
        with pytest.raises(ValueError, match=message):
            hf_emotion.train(recipe, tmp_path / "run", data_dir=meld)
        assert kit.files_in(tmp_path) == {}

    def test_an_encoder_that_was_saved_in_half_precision(self, base_bert, tmp_path):
        AutoModel.from_pretrained(base_bert).half().save_pretrained(tmp_path)
        tokenizer = AutoTokenizer.from_pretrained(base_bert)
        model = building.build_dialogue_model(str(tmp_path), dict(WIDE), tokenizer, ["a", "b"])
        assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_four_classes(base_bert, meld, tmp_path):
    run = kit.fit(dialogue_recipe(base_bert, dataset_options={"four_classes": True}), tmp_path / "run", meld)
    report, names = kit.report_of(run), sorted(FOUR.values())
    counts = Counter(FOUR.get(emotion) for turns in meld_part("train") for *_, emotion in turns)
    assert report["class_counts"] == {name: counts[name] for name in names}
    gold = [[FOUR[emotion]] for turns in meld_part("test") for *_, emotion in turns if emotion in FOUR]
    assert [row["labels"] for row in kit.predictions_of(run, "test")] == gold
    found = evaluate(load_predictor(run), "meld", data_dir=meld)  # finds out by itself
    assert found["labels"] == names
    kit.assert_close(found["metrics"]["argmax"], report["runs"][0]["test"]["argmax"], abs=1e-6)


def one_split(utterances: list[list[str]], speakers: list[list[str]] | None = None, labels=None) -> DatasetDict:
    values = {"id": [str(number) for number in range(len(utterances))], "utterances": utterances}
    values["speakers"] = speakers or [["Ann"] * len(turns) for turns in utterances]
    values["labels"] = labels or [[0] * len(turns) for turns in utterances]
    kinds = {"utterances": Value("string"), "speakers": Value("string"), "labels": ClassLabel(names=["a", "b", "c"])}
    features = Features(id=Value("string"), **{name: List(kind) for name, kind in kinds.items()})
    return DatasetDict(train=Dataset.from_dict(values, features=features))


def tiny_model(base: Path, **config):
    tokenizer = AutoTokenizer.from_pretrained(base)
    torch.manual_seed(1)
    config = {**WIDE, "attention_probs_dropout_prob": 0.0, **config}
    return building.build_dialogue_model(str(base), config, tokenizer, ["a", "b", "c"]), tokenizer


def vector_of(model, tokenizer, text: str, length: int | None = None) -> torch.Tensor:
    """Of one utterance alone, by the model itself."""
    inputs = tokenizer(text, return_tensors="pt", truncation=length is not None, max_length=length)
    with torch.no_grad():
        return model.dialogue.encode_utterances(inputs["input_ids"], inputs["attention_mask"])[0]


CONVERSATIONS = [
    ["so happy today", "a day", "the rain , the rain , the rain"],
    ["i am calm"],
    ["a day", "so very sad and sick of this", "joy", "home", "a day"],
]
GIVEN_LABELS = [[0, -1, 2], [1], [-1, 2, 1, 0, -1]]


class TestVectors:
    @pytest.fixture
    def calls(self, monkeypatch) -> list[int]:
        """How many utterances `encode_utterances` was asked for in each call."""
        calls = []
        encode = hf_emotion.DialogueBiLSTMModel.encode_utterances

        def watched(self, input_ids, attention_mask):
            calls.append(len(input_ids))
            return encode(self, input_ids, attention_mask)

        monkeypatch.setattr(hf_emotion.DialogueBiLSTMModel, "encode_utterances", watched)
        return calls

    def test_each_utterance_alone(self, base_bert):
        model, tokenizer = tiny_model(base_bert)
        texts = ["a day", "so very sad and sick of this " * 4, "joy", "the rain , the rain"]
        for _ in range(2):  # computed, and from the cache
            vectors, cut = building.cached_vectors(model, tokenizer, texts, 12)
            assert vectors.shape == (4, 16) and vectors.dtype == np.float32
            assert cut.truncated.tolist() == [False, True, False, False] and cut.truncated.dtype == bool
        for text, vector in zip(texts, vectors, strict=True):
            np.testing.assert_allclose(vector, vector_of(model, tokenizer, text, 12), atol=1e-5)

    def test_once_for_texts_encoder_and_length(self, base_bert, calls):
        model, tokenizer = tiny_model(base_bert)
        texts = ["a day", "so very sad and sick of this", "joy"]
        first, _ = building.cached_vectors(model, tokenizer, texts, 12)
        assert sum(calls) == 3
        calls.clear()
        # What lies behind the encoder is no matter.
        other, tokenizer = tiny_model(base_bert, causal=True, num_hidden_layers=2)
        assert np.array_equal(building.cached_vectors(other, tokenizer, texts, 12)[0], first) and calls == []

    @pytest.mark.parametrize("change", ["texts", "order", "split", "length", "weight", "config", "vocabulary"])
    def test_again_when_something_differs(self, base_bert, calls, change):
        model, tokenizer = tiny_model(base_bert)
        texts = ["a day", "so very sad and sick of this", "joy"]
        first, _ = building.cached_vectors(model, tokenizer, texts, 12)
        calls.clear()
        split = ["a", " day" + texts[1], texts[2]]  # the same letters one after the other
        others = {"texts": [*texts[:2], "joy !"], "order": texts[::-1], "split": split}
        if change == "weight":
            model.dialogue.utterance_encoder.encoder.layer[1].output.dense.bias.data[3] += 0.5
        elif change == "config":
            model.config.encoder_config.layer_norm_eps = 1e-2
            for module in model.dialogue.utterance_encoder.modules():
                if isinstance(module, torch.nn.LayerNorm):
                    module.eps = 1e-2
        elif change == "vocabulary":
            vocabulary = json.loads(tokenizer.backend_tokenizer.to_str())
            ids = vocabulary["model"]["vocab"]
            ids["joy"], ids["rain"] = ids["rain"], ids["joy"]
            tokenizer._tokenizer = type(tokenizer.backend_tokenizer).from_str(json.dumps(vocabulary))
        length = 5 if change == "length" else 12
        found, _ = building.cached_vectors(model, tokenizer, others.get(change, texts), length)
        assert sum(calls) == len(texts)
        assert found.shape != first.shape or np.abs(found - first).max() > 1e-4

    def test_not_again_where_the_pooler_is_new(self, base_bert, tmp_path, calls):
        """Nothing reads it. Of equal texts of two parts one is encoded."""
        shutil.copytree(base_bert, tmp_path / "base")
        kept = {n: value for n, value in load_file(base_bert / "model.safetensors").items() if "pooler" not in n}
        save_file(kept, tmp_path / "base" / "model.safetensors", metadata={"format": "pt"})
        splits = one_split(CONVERSATIONS)
        for seed, count in ((5, len(set(sum(CONVERSATIONS, [])))), (6, 0)):
            torch.manual_seed(seed)
            tokenizer = AutoTokenizer.from_pretrained(base_bert)
            model = building.build_dialogue_model(str(tmp_path / "base"), dict(WIDE), tokenizer, ["a", "b", "c"])
            building.encode_dialogues(splits, model, tokenizer, 16)
            assert sum(calls) == count
            calls.clear()

    def test_dropout_of_the_encoder_is_off(self, base_bert):
        """A model is in training mode when it comes from its builder."""
        model, tokenizer = tiny_model(base_bert)
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.5
        model.train()
        model.dialogue.utterance_encoder.train()
        found, _ = building.cached_vectors(model, tokenizer, ["a day", "joy"], 12)
        clean, _ = tiny_model(base_bert)
        for text, vector in zip(["a day", "joy"], found, strict=True):
            np.testing.assert_allclose(vector, vector_of(clean, tokenizer, text), atol=1e-5)


class TestCollator:
    def test_vectors(self, base_bert):
        model, tokenizer = tiny_model(base_bert, num_speakers=2)
        speakers = [["Bo", "Ann", "Bo"], ["Cy"], ["Bo", "Bo", "Ann", "Cy", "Ann"]]
        splits = one_split(CONVERSATIONS, speakers, GIVEN_LABELS)
        encoded, collate = building.encode_dialogues(splits, model, tokenizer, 16)
        assert encoded["train"]["length"][:] == [3, 1, 5]
        batch = collate([encoded["train"][number] for number in (1, 2, 0)])
        assert set(batch) == {"utterance_embeds", "utterance_mask", "labels", "speaker_ids"}
        # An utterance without a label and padding alike: -100, which the loss leaves out.
        assert batch["labels"].tolist() == [[1, *[-100] * 4], [-100, 2, 1, 0, -100], [0, -100, 2, -100, -100]]
        assert batch["utterance_mask"].tolist() == [[1, 0, 0, 0, 0], [1] * 5, [1, 1, 1, 0, 0]]
        assert batch["speaker_ids"].tolist() == [[0] * 5, [0, 0, 1, 1, 1], [0, 1, 0, 0, 0]]
        assert batch["utterance_embeds"].shape == (3, 5, 16) and batch["utterance_embeds"].dtype == torch.float32
        for row, number in enumerate((1, 2, 0)):
            for turn, text in enumerate(CONVERSATIONS[number]):
                expected = vector_of(model, tokenizer, text)
                torch.testing.assert_close(batch["utterance_embeds"][row, turn], expected, atol=1e-5, rtol=0)

    @pytest.mark.parametrize(
        "config",
        [{"freeze_encoder": False}, {"utterance_encoder": "bilstm", "utterance_size": 8}],
        ids=["model", "words"],
    )
    def test_tokens(self, base_bert, config):
        model, tokenizer = tiny_model(base_bert, **config)
        splits = one_split(CONVERSATIONS, labels=GIVEN_LABELS)
        encoded, collate = building.encode_dialogues(splits, model, tokenizer, 7)
        batch = collate([encoded["train"][number] for number in (0, 1)])
        assert set(batch) == {"input_ids", "attention_mask", "utterance_mask", "labels"}
        assert batch["labels"].tolist() == [[0, -100, 2], [1, -100, -100]]
        assert batch["utterance_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]
        assert batch["input_ids"].shape == batch["attention_mask"].shape == (2, 3, 7)
        for row in (0, 1):
            for turn in range(3):
                ids = tokenizer(CONVERSATIONS[row][turn])["input_ids"] if turn < len(CONVERSATIONS[row]) else []
                ids = ids if len(ids) <= 7 else [*ids[:6], tokenizer.sep_token_id]
                padding = 7 - len(ids)
                assert batch["input_ids"][row, turn].tolist() == ids + [tokenizer.pad_token_id] * padding
                assert batch["attention_mask"][row, turn].tolist() == [1] * len(ids) + [0] * padding

    def test_earlier_turns(self, base_bert):
        """As tokens for an encoder that is trained, and in the vectors of a frozen one."""
        first, second = "so happy today", "a day"
        splits = one_split([[first, second]])
        model, tokenizer = tiny_model(base_bert, freeze_encoder=False, context_turns=1)
        encoded, collate = building.encode_dialogues(splits, model, tokenizer, 32)
        batch = collate([encoded["train"][0]])
        before, own = (tokenizer(f"Ann: {text}")["input_ids"] for text in (first, second))
        window = [*before, *own[1:]]
        assert batch["input_ids"][0, 1].tolist() == window
        assert batch["turn_mask"][0, 1].tolist() == [1] + [0] * (len(before) - 1) + [1] * (len(own) - 1)
        assert batch["turn_mask"][0, 0].tolist() == batch["attention_mask"][0, 0].tolist()
        frozen, _ = tiny_model(base_bert, context_turns=1)
        encoded, collate = building.encode_dialogues(splits, frozen, tokenizer, 32)
        with torch.no_grad():
            tokens = [batch[name][0] for name in ("input_ids", "attention_mask", "turn_mask")]
            vectors = frozen.dialogue.encode_utterances(*tokens)
        found = collate([encoded["train"][0]])["utterance_embeds"][0]
        torch.testing.assert_close(found, vectors, atol=1e-5, rtol=0)

    def test_the_padding_is_the_tokenizer_s(self):
        batch = building.pad_tokens(
            [[0, 1], [2]], {"input_ids": [[7, 8], [9], [5, 6, 4]]}, SimpleNamespace(pad_token_id=3)
        )
        assert batch["input_ids"].tolist() == [[[7, 8, 3], [9, 3, 3]], [[5, 6, 4], [3, 3, 3]]]
        assert batch["attention_mask"].tolist() == [[[1, 1, 0], [1, 0, 0]], [[1, 1, 1], [0, 0, 0]]]
        assert batch["utterance_mask"].tolist() == [[1, 1], [1, 0]]


def test_the_card(runs):
    alone, text = ((runs[kind] / "README.md").read_text(encoding="utf-8") for kind in TRAINED)
    assert "Each utterance is a vector" in text and "multi-head self-attention" in text
    assert "GPL-3.0 repository, dialogue of a television series" in text
    assert "cut to 16 tokens for each utterance" in text and "English dialogues of this corpus" in text
    about = alone.split("# meld_utterance\n\n")[1].split("## Use")[0]
    assert "BiLSTM" not in about and "self-attention" not in about
