# SPDX-License-Identifier: Apache-2.0
"""Dialogues: whole runs of tiny models, the vectors that are computed once, the figures of a run, its card, the recipes."""

import json
import shutil
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import datasets
import numpy as np
import pyarrow.parquet
import pytest
import torch
from safetensors.torch import load_file, save_file
from toolkit_helpers import (
    FEELINGS,
    MELD_EMOTIONS,
    QUICK_ARGUMENTS,
    assert_close,
    dialogues,
    files_in,
    fit,
    report_of,
    save_base_bert,
    torch_threads,
    write_dialogues,
    write_meld,
)
from transformers import AutoModel, AutoModelForTokenClassification, AutoTokenizer, BertModel

import hf_emotion.tasks.dialogue_emotion.building as building
from hf_emotion import (
    BertForLabelAwareClassification,
    DialogueBiLSTMForEmotionRecognition,
    DialogueBiLSTMModel,
    LabelAwareBertConfig,
    load_recipe,
    train,
)
from hf_emotion.inference import load_predictor
from hf_emotion.recipes import Recipe
from hf_emotion.runs.evaluate import evaluate
from hf_emotion.tasks.dialogue_emotion.building import (
    build_dialogue_model,
    cached_vectors,
    encode_dialogues,
    pad_tokens,
)


pytest_plugins = ["toolkit_fixtures"]
KINDS = ("utterance", "bilstm", "bilstm_attention", "bilstm_attention_pe")  # the recipes of MELD
TRAINED = (KINDS[0], KINDS[-1])
# The first dialogues of the parts for evaluation are of 3, 4, 5, 2 and of 5, 2, 3 turns: in no order of length.
PARTS = {"train": (16, 0), "dev": (6, 17), "test": (7, 23)}
SPLITS = {"validation": "dev", "test": "test"}
# No dropout, and new weights so large that utterances lie far apart before any training.
WIDE = {"hidden_size": 6, "num_attention_heads": 3, "initializer_range": 1.0, "hidden_dropout_prob": 0.0}
FOUR = {"anger": "angry", "joy": "happy", "neutral": "neutral", "sadness": "sad"}


@pytest.fixture(autouse=True)
def settings(own_verbosity, monkeypatch, tmp_path):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets-cache")
    with torch_threads(1):
        yield


@pytest.fixture(scope="session")
def base(tmp_path_factory) -> Path:
    return save_base_bert(tmp_path_factory.mktemp("dialogue-base") / "tiny-bert")


@pytest.fixture(scope="session")
def meld(tmp_path_factory) -> Path:
    return write_meld(tmp_path_factory.mktemp("meld"), PARTS)


@pytest.fixture(scope="session")
def own_files(tmp_path_factory) -> Path:
    """One's own dialogues, in which every sixth utterance has no label."""
    return write_dialogues(tmp_path_factory.mktemp("own-dialogues"), PARTS)


def dialogue_recipe(base: Path, arguments: dict | None = None, recipe: str = "meld/utterance", **changes) -> Recipe:
    """A packaged recipe over a tiny encoder and few rows; `arguments` are added to its training arguments."""
    arguments = {
        **QUICK_ARGUMENTS,
        **{"num_train_epochs": 3, "learning_rate": 1e-2, "warmup_steps": 0},
        **{"per_device_train_batch_size": 4, "per_device_eval_batch_size": 4},
        **(arguments or {}),
    }
    values = {"base_model": str(base), "max_length": 16, **changes}
    overrides = [f"{key}={json.dumps(value)}" for key, value in values.items()]
    return load_recipe(recipe, [*overrides, *(f"{key}={json.dumps(value)}" for key, value in arguments.items())])


@pytest.fixture(scope="session")
def runs(tmp_path_factory, base, meld) -> dict[str, Path]:
    """Finished run folders over MELD: an utterance alone, and all that a dialogue gives."""
    root = tmp_path_factory.mktemp("dialogue-runs")
    return {kind: fit(dialogue_recipe(base, recipe=f"meld/{kind}"), root / kind, meld) for kind in TRAINED}


@pytest.fixture(scope="session")
def full_run(runs) -> Path:
    return runs["bilstm_attention_pe"]


@pytest.fixture(scope="session")
def own_run(tmp_path_factory, base, own_files) -> Path:
    """A finished run folder over one's own dialogues, with two speakers and some utterances without a label."""
    config = {**WIDE, "num_speakers": 2}
    recipe = dialogue_recipe(base, dataset="dialogue_files", name="own", model_config=config)
    return fit(recipe, tmp_path_factory.mktemp("own-run") / "run", own_files)


def plain_probabilities(folder: Path, conversations: list[list[tuple]], max_length: int | None = None) -> np.ndarray:
    """
    Probabilities of every turn of dialogues of (speaker, utterance, ...), one utterance and then one dialogue at a time: no
    padding, and of a pretrained encoder the mean of its hidden states by hand.
    """
    model = AutoModelForTokenClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    rows = []
    with torch.no_grad():
        for conversation in conversations:
            vectors = []
            for _, text, *_ in conversation:
                inputs = tokenizer(text, return_tensors="pt", truncation=max_length is not None, max_length=max_length)
                ids, mask = inputs["input_ids"], inputs["attention_mask"]
                if model.config.utterance_encoder == "model":
                    hidden = model.dialogue.utterance_encoder(input_ids=ids, attention_mask=mask).last_hidden_state
                    vectors.append(hidden[0].mean(dim=0))
                else:
                    vectors.append(model.dialogue.encode_utterances(ids, mask)[0])
            inputs = {"utterance_embeds": torch.stack(vectors)[None]}
            if model.config.num_speakers:
                inputs["speaker_ids"] = torch.tensor([speaker_numbers([s for s, *_ in conversation], model.config)])
            logits = model(**inputs).logits[0] / (getattr(model.config, "calibration_temperature", None) or 1.0)
            rows += logits.softmax(-1).tolist()
    return np.array(rows)


def speaker_numbers(speakers: list, config) -> list[int]:
    """By the first turn within the dialogue; those too many share the last number."""
    order = []
    for speaker in speakers:
        if speaker not in order:
            order.append(speaker)
    return [min(order.index(speaker), config.num_speakers - 1) for speaker in speakers]


def rows_of(run: Path, split: str) -> list[dict]:
    rows = pyarrow.parquet.read_table(run / "predictions.parquet").to_pylist()
    return [row for row in rows if row["split"] == split]


def probabilities_of(run: Path, split: str) -> np.ndarray:
    return np.array([row["probabilities"] for row in rows_of(run, split)])


def meld_part(split: str) -> list[list[tuple[str, str, str]]]:
    return dialogues(MELD_EMOTIONS, *PARTS[SPLITS.get(split, split)])


def own_part(split: str) -> list[tuple[str, list[tuple[str, str, str | None]]]]:
    """(id, dialogue) of `write_dialogues`, with None where it writes no label."""
    count, first = PARTS[SPLITS.get(split, split)]
    return [
        (
            f"d{first + number}",
            [(s, text, None if (5 * number + i) % 6 == 5 else label) for i, (s, text, label) in enumerate(turns)],
        )
        for number, turns in enumerate(dialogues(FEELINGS, count, first))
    ]


def base_weights(base: Path) -> dict[str, torch.Tensor]:
    """Those of the base model that stand in a dialogue model: all but the pooler, which nothing would read."""
    weights = load_file(base / "model.safetensors")
    return {name: value for name, value in weights.items() if not name.startswith("pooler.")}


def encoder_weights(run: Path) -> dict[str, torch.Tensor]:
    prefix = "dialogue.utterance_encoder."
    weights = load_file(run / "model.safetensors")
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}


# Runs


class TestRunFolder:
    @pytest.mark.parametrize("kind", TRAINED)
    def test_the_checkpoint(self, runs, kind):
        model = AutoModelForTokenClassification.from_pretrained(runs[kind])
        assert type(model) is DialogueBiLSTMForEmotionRecognition
        config = model.config
        assert config.utterance_encoder == "model" and config.encoder_config.model_type == "bert"
        assert config.freeze_encoder is True and config.utterance_size == config.encoder_config.hidden_size == 16
        assert [config.id2label[i] for i in range(7)] == list(MELD_EMOTIONS)
        assert len(model.dialogue.score.layers) == (kind != "utterance")
        assert (model.dialogue.score.attention is not None) == ("attention" in kind)
        assert config.positional_encoding == ("sinusoidal" if kind.endswith("_pe") else "none")

    @pytest.mark.parametrize("kind", TRAINED)
    def test_the_frozen_encoder_stays_as_it_was(self, runs, base, kind):
        expected, found = base_weights(base), encoder_weights(runs[kind])
        assert found.keys() == expected.keys() and len(expected) > 20
        assert all(torch.equal(found[name], value) for name, value in expected.items())

    @pytest.mark.parametrize("kind", TRAINED)
    def test_probabilities_are_those_of_a_plain_forward(self, runs, kind):
        for split in SPLITS:
            rows, conversations = rows_of(runs[kind], split), meld_part(split)
            ids = [f"{n}/{i + 1}" for n, turns in enumerate(conversations) for i in range(len(turns))]
            assert [row["id"] for row in rows] == ids
            assert [row["labels"] for row in rows] == [[emotion] for turns in conversations for *_, emotion in turns]
            found = probabilities_of(runs[kind], split)
            np.testing.assert_allclose(found, plain_probabilities(runs[kind], conversations), atol=1e-5)
            assert found.std(axis=0).mean() > 1e-4  # an order that is lost would show

    def test_an_utterance_alone_does_not_see_the_others(self, runs):
        turns = meld_part("test")[0]
        for kind, run in runs.items():
            together = plain_probabilities(run, [turns])
            alone = np.concatenate([plain_probabilities(run, [[turn]]) for turn in turns])
            assert np.allclose(together, alone, atol=1e-5) == (kind == "utterance")


class TestUnlabelled:
    """One's own dialogues, in which every sixth utterance has no label."""

    def test_they_are_context_all_the_same(self, own_run):
        for split in SPLITS:
            conversations = [conversation for _, conversation in own_part(split)]
            labelled = [label is not None for conversation in conversations for *_, label in conversation]
            expected = plain_probabilities(own_run, conversations)[labelled]
            np.testing.assert_allclose(probabilities_of(own_run, split), expected, atol=1e-5)

    def test_evaluate_a_file_that_lacks_a_label(self, own_run, tmp_path):
        (tmp_path / "train.csv").write_text("dialogue,utterance,label\n1,so happy,joy\n1,the day,\n2,a day,joy\n")
        found = evaluate(load_predictor(own_run), "dialogue_files", "train", tmp_path)
        assert found["labels"] == list(FEELINGS) and found["rows"] == 1  # the other dialogue is set aside


class TestSpeakers:
    def test_in_training(self, base):
        splits = one_split([["a day", "the sun", "rain", "home", "a day"]], [["Cy", "Ann", "Cy", "Bo", "Ann"]])
        for limit, expected in ((3, [0, 1, 0, 2, 1]), (2, [0, 1, 0, 1, 1]), (1, [0, 0, 0, 0, 0])):
            model, tokenizer = tiny_model(base, num_speakers=limit)
            encoded, collate = encode_dialogues(splits, model, tokenizer, 16)
            assert collate([encoded["train"][0]])["speaker_ids"].tolist() == [expected]


class TestOtherForms:
    def test_words(self, base, meld, tmp_path, monkeypatch):
        """They are learned from the training part."""
        config, starts, build = {**WIDE, "utterance_encoder": "bilstm", "utterance_size": 8}, [], build_dialogue_model

        def watched(*arguments):
            model = build(*arguments)
            starts.append(model.dialogue.utterance_encoder.word_embeddings.weight.detach().clone())
            return model

        monkeypatch.setattr(building, "build_dialogue_model", watched)
        run = fit(dialogue_recipe(base, {"num_train_epochs": 1}, model_config=config), tmp_path / "run", meld)
        model = AutoModelForTokenClassification.from_pretrained(run)
        tokenizer = AutoTokenizer.from_pretrained(base)
        assert model.config.utterance_encoder == "bilstm" and model.config.encoder_config is None
        assert model.config.vocab_size == len(tokenizer) == len(AutoTokenizer.from_pretrained(run))
        assert model.config.pad_token_id == tokenizer.pad_token_id
        words = model.dialogue.utterance_encoder.word_embeddings.weight
        assert words.shape == (len(tokenizer), 8) and (words - starts[0]).abs().max() > 1e-3
        np.testing.assert_allclose(
            probabilities_of(run, "test"), plain_probabilities(run, meld_part("test")), atol=1e-5
        )

    def test_a_trained_encoder(self, base, meld, tmp_path):
        config = {**WIDE, "freeze_encoder": False}
        arguments = {"learning_rate": 1e-3, "num_train_epochs": 2}
        run = fit(dialogue_recipe(base, arguments, model_config=config), tmp_path / "run", meld)
        expected = base_weights(base)
        found = encoder_weights(run)
        assert found.keys() == expected.keys()
        moved = {name for name in found if (found[name] - expected[name]).abs().max() > 1e-5}
        assert moved >= {name for name in found if "query.weight" in name or "word_embeddings" in name}
        for split in SPLITS:
            plain = plain_probabilities(run, meld_part(split))
            np.testing.assert_allclose(probabilities_of(run, split), plain, atol=1e-5)
        assert not (tmp_path / "datasets-cache" / "hf_emotion").exists()  # nothing to keep

    def test_a_trained_dialogue_model_is_trained_on(self, base, tmp_path):
        """With other labels all of it but the classifier; its words are not taken for an utterance encoder."""
        trained, tokenizer = tiny_model(base, utterance_encoder="model")
        trained.config.calibration_temperature = 2.0
        trained.config.class_weights = [1.0] * trained.config.num_labels
        trained.save_pretrained(tmp_path)
        weights = trained.state_dict()
        for names, kept in ((["a", "b", "c"], True), (["c", "b", "a"], False), (["x", "y"], False)):
            torch.manual_seed(5)
            model = build_dialogue_model(str(tmp_path), {}, tokenizer, names)
            assert model.config.class_weights is None  # those of the first training are not of this one
            assert list(model.config.id2label.values()) == names
            assert type(model.dialogue.utterance_encoder) is type(trained.dialogue.utterance_encoder)
            same = {
                name: torch.equal(value, weights[name])
                for name, value in model.state_dict().items()
                if value.shape == weights[name].shape
            }
            assert all(same[name] for name in same if name.startswith("dialogue."))
            assert same.get("classifier.weight", False) is kept
        for other in ({"hidden_size": WIDE["hidden_size"] * 2}, {"num_hidden_layers": 3}, {"num_attention_heads": 0}):
            with pytest.raises(
                ValueError, match="`model_config` asks for other sizes than the trained dialogue model"
            ):
                build_dialogue_model(str(tmp_path), other, tokenizer, ["x", "y"])

    def test_a_trained_classifier_gives_its_encoder(self, base, tmp_path):
        config = LabelAwareBertConfig.from_pretrained(base, num_labels=4, thresholds=[0.1] * 4)
        classifier = BertForLabelAwareClassification(config)
        classifier.save_pretrained(tmp_path)
        model = build_dialogue_model(str(tmp_path), {}, AutoTokenizer.from_pretrained(base), ["x", "y"])
        encoder = model.dialogue.utterance_encoder
        assert type(encoder) is BertModel and not hasattr(model.config.encoder_config, "thresholds")
        expected = classifier.bert.encoder.state_dict()
        assert all(torch.equal(value, expected[name]) for name, value in encoder.encoder.state_dict().items())

    def test_vectors_are_refused(self, base, meld, tmp_path):
        recipe = dialogue_recipe(base, model_config={"utterance_encoder": "vectors"})
        with pytest.raises(
            ValueError, match="`model_config.utterance_encoder` must be 'model' or 'bilstm'.*reads texts"
        ):
            train(recipe, tmp_path / "run", data_dir=meld)
        assert files_in(tmp_path) == {}

    def test_an_encoder_that_was_saved_in_half_precision(self, base, tmp_path):
        AutoModel.from_pretrained(base).half().save_pretrained(tmp_path)
        model = build_dialogue_model(str(tmp_path), dict(WIDE), AutoTokenizer.from_pretrained(base), ["a", "b"])
        assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}

    def test_gradient_accumulation_is_one_large_batch(self, base, own_files, tmp_path, no_plots):
        found = []
        for batch, accumulation in ((16, 1), (2, 8)):
            arguments = {
                **{"num_train_epochs": 2, "per_device_train_batch_size": batch, "optim": "sgd", "weight_decay": 0.0},
                **{"gradient_accumulation_steps": accumulation, "learning_rate": 0.1, "max_grad_norm": 0.0},
                **{"lr_scheduler_type": "constant", "load_best_model_at_end": False, "logging_steps": 1},
            }
            config = {**WIDE, "attention_probs_dropout_prob": 0.0}
            recipe = dialogue_recipe(base, arguments, dataset="dialogue_files", model_config=config)
            report = train(recipe, tmp_path / f"run-{batch}", data_dir=own_files).to_dict()
            losses = [entry["loss"] for entry in report["runs"][0]["history"] if "loss" in entry]
            found.append((load_file(tmp_path / f"run-{batch}" / "model.safetensors"), losses))
        (large, large_losses), (small, small_losses) = found
        assert len(large_losses) == 2 and small_losses == pytest.approx(large_losses, rel=1e-3)
        torch.testing.assert_close(small, large, rtol=1e-3, atol=1e-5)


class TestCorpora:
    def test_four_classes(self, base, meld, tmp_path):
        recipe = dialogue_recipe(base, dataset_options={"four_classes": True})
        run = fit(recipe, tmp_path / "run", meld)
        report = report_of(run)
        names = sorted(FOUR.values())
        counts = Counter(FOUR.get(emotion) for turns in meld_part("train") for *_, emotion in turns)
        assert report["class_counts"] == {name: counts[name] for name in names}
        gold = [
            (f"{number}/{i}", [FOUR[emotion]])
            for number, turns in enumerate(meld_part("test"))
            for i, (*_, emotion) in enumerate(turns, 1)
            if emotion in FOUR
        ]
        assert [(row["id"], row["labels"]) for row in rows_of(run, "test")] == gold
        found = evaluate(load_predictor(run), "meld", data_dir=meld)  # finds out by itself
        assert found["labels"] == names
        expected = report["runs"][0]["test"]["argmax"]
        assert_close(found["metrics"]["argmax"], expected, abs=1e-6)


# What the model is given


def one_split(
    utterances: list[list[str]], speakers: list[list[str]] | None = None, labels=None, names=("a", "b", "c")
) -> datasets.DatasetDict:
    values = {
        "id": [str(number) for number in range(len(utterances))],
        "utterances": utterances,
        "speakers": speakers or [["Ann"] * len(turns) for turns in utterances],
        "labels": labels or [[0] * len(turns) for turns in utterances],
    }
    names = datasets.ClassLabel(names=list(names))
    text = datasets.List(datasets.Value("string"))
    features = {"id": datasets.Value("string"), "utterances": text, "speakers": text, "labels": datasets.List(names)}
    return datasets.DatasetDict(train=datasets.Dataset.from_dict(values, features=datasets.Features(features)))


def tiny_model(base: Path, **config):
    tokenizer = AutoTokenizer.from_pretrained(base)
    torch.manual_seed(1)
    config = {**WIDE, "attention_probs_dropout_prob": 0.0, **config}
    return build_dialogue_model(str(base), config, tokenizer, ["a", "b", "c"]), tokenizer


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
        encode = DialogueBiLSTMModel.encode_utterances

        def watched(self, input_ids, attention_mask):
            calls.append(len(input_ids))
            return encode(self, input_ids, attention_mask)

        monkeypatch.setattr(DialogueBiLSTMModel, "encode_utterances", watched)
        return calls

    def test_each_utterance_alone(self, base):
        model, tokenizer = tiny_model(base)
        texts = ["a day", "so very sad and sick of this " * 4, "joy", "the rain , the rain"]
        for _ in range(2):  # computed, and from the cache
            vectors, cut = cached_vectors(model, tokenizer, texts, 12)
            assert vectors.shape == (4, 16) and vectors.dtype == np.float32
            assert cut.truncated.tolist() == [False, True, False, False] and cut.truncated.dtype == bool
        for text, vector in zip(texts, vectors, strict=True):
            np.testing.assert_allclose(vector, vector_of(model, tokenizer, text, 12), atol=1e-5)

    def test_once_for_texts_encoder_and_length(self, base, calls):
        model, tokenizer = tiny_model(base)
        texts = ["a day", "so very sad and sick of this", "joy"]
        first, _ = cached_vectors(model, tokenizer, texts, 12)
        assert sum(calls) == 3
        calls.clear()
        # What lies behind the encoder is no matter.
        other, tokenizer = tiny_model(base, causal=True, num_hidden_layers=2)
        assert np.array_equal(cached_vectors(other, tokenizer, texts, 12)[0], first) and calls == []

    @pytest.mark.parametrize("change", ["texts", "order", "split", "length", "weight", "config", "vocabulary"])
    def test_again_when_something_differs(self, base, calls, change):
        model, tokenizer = tiny_model(base)
        texts, length = ["a day", "so very sad and sick of this", "joy"], 12
        first, _ = cached_vectors(model, tokenizer, texts, length)
        calls.clear()
        if change == "texts":
            texts = [*texts[:2], "joy !"]
        elif change == "order":
            texts = texts[::-1]
        elif change == "split":
            texts = ["a", " day" + texts[1], texts[2]]  # the same letters one after the other
        elif change == "length":
            length = 5
        elif change == "weight":
            with torch.no_grad():
                model.dialogue.utterance_encoder.encoder.layer[1].output.dense.bias[3] += 0.5
        elif change == "config":
            model.config.encoder_config.layer_norm_eps = 1e-2
            for module in model.dialogue.utterance_encoder.modules():
                if isinstance(module, torch.nn.LayerNorm):
                    module.eps = 1e-2
        else:
            vocabulary = json.loads(tokenizer.backend_tokenizer.to_str())
            ids = vocabulary["model"]["vocab"]
            ids["joy"], ids["rain"] = ids["rain"], ids["joy"]
            tokenizer._tokenizer = type(tokenizer.backend_tokenizer).from_str(json.dumps(vocabulary))
        found, _ = cached_vectors(model, tokenizer, texts, length)
        assert sum(calls) == len(texts)
        assert found.shape != first.shape or np.abs(found - first).max() > 1e-4

    def test_not_again_where_the_pooler_is_new(self, base, tmp_path, calls):
        """Nothing reads it. Of equal texts of two parts one is encoded."""
        shutil.copytree(base, tmp_path / "base")
        kept = {n: value for n, value in load_file(base / "model.safetensors").items() if "pooler" not in n}
        save_file(kept, tmp_path / "base" / "model.safetensors", metadata={"format": "pt"})
        splits = one_split(CONVERSATIONS)
        for seed, count in ((5, len({text for turns in CONVERSATIONS for text in turns})), (6, 0)):
            torch.manual_seed(seed)
            tokenizer = AutoTokenizer.from_pretrained(base)
            model = build_dialogue_model(str(tmp_path / "base"), dict(WIDE), tokenizer, ["a", "b", "c"])
            encode_dialogues(splits, model, tokenizer, 16)
            assert sum(calls) == count
            calls.clear()

    def test_dropout_of_the_encoder_is_off(self, base):
        """A model is in training mode when it comes from its builder."""
        model, tokenizer = tiny_model(base)
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.5
        model.train()
        model.dialogue.utterance_encoder.train()
        found, _ = cached_vectors(model, tokenizer, ["a day", "joy"], 12)
        clean, _ = tiny_model(base)
        for text, vector in zip(["a day", "joy"], found, strict=True):
            np.testing.assert_allclose(vector, vector_of(clean, tokenizer, text), atol=1e-5)


class TestCollator:
    def test_vectors(self, base):
        model, tokenizer = tiny_model(base, num_speakers=2)
        speakers = [["Bo", "Ann", "Bo"], ["Cy"], ["Bo", "Bo", "Ann", "Cy", "Ann"]]
        splits = one_split(CONVERSATIONS, speakers, GIVEN_LABELS)
        encoded, collate = encode_dialogues(splits, model, tokenizer, 16)
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
    def test_tokens(self, base, config):
        model, tokenizer = tiny_model(base, **config)
        splits = one_split(CONVERSATIONS, labels=GIVEN_LABELS)
        encoded, collate = encode_dialogues(splits, model, tokenizer, 7)
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

    def test_the_padding_is_the_tokenizer_s(self):
        batch = pad_tokens([[[7, 8], [9]], [[5, 6, 4]]], SimpleNamespace(pad_token_id=3))
        assert batch["input_ids"].tolist() == [[[7, 8, 3], [9, 3, 3]], [[5, 6, 4], [3, 3, 3]]]
        assert batch["attention_mask"].tolist() == [[[1, 1, 0], [1, 0, 0]], [[1, 1, 1], [0, 0, 0]]]
        assert batch["utterance_mask"].tolist() == [[1, 1], [1, 0]]

    @pytest.mark.parametrize("speakers", [0, 2])
    def test_vectors_and_tokens_give_one_loss(self, base, speakers):
        model, tokenizer = tiny_model(base, num_speakers=speakers)
        names = [["Bo", "Ann", "Bo"], ["Cy"], ["Bo", "Bo", "Ann", "Cy", "Ann"]]
        splits = one_split(CONVERSATIONS, names, GIVEN_LABELS)
        losses, gradients = [], []
        for frozen in (True, False):
            model.config.freeze_encoder = frozen
            encoded, collate = encode_dialogues(splits, model, tokenizer, 16)
            batch = collate([encoded["train"][number] for number in range(3)])
            assert ("input_ids" in batch) != frozen
            model.config.freeze_encoder = True
            model.train()
            model.zero_grad()
            loss = model(**batch).loss
            loss.backward()
            losses.append(loss.item())
            gradients.append({name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})
        assert losses[0] == pytest.approx(losses[1], abs=1e-5)
        assert not any("utterance_encoder" in name for name in gradients[0])
        torch.testing.assert_close(*gradients, atol=1e-5, rtol=1e-3)


# Card and recipes


class TestCard:
    def test_text(self, runs, full_run):
        text = (full_run / "README.md").read_text(encoding="utf-8")
        assert "Each utterance is a vector" in text and "multi-head self-attention" in text
        assert "GPL-3.0 repository, dialogue of a television series" in text
        assert "cut to 16 tokens for each utterance" in text and "English dialogues of this corpus" in text
        alone = (runs["utterance"] / "README.md").read_text(encoding="utf-8")
        about = alone.split("# meld_utterance\n\n")[1].split("## Use")[0]
        assert "BiLSTM" not in about and "self-attention" not in about


class TestRecipes:
    CONFIGS = {
        "utterance": {"num_hidden_layers": 0, "num_attention_heads": 0, "positional_encoding": "none"},
        "bilstm": {"num_attention_heads": 0, "positional_encoding": "none"},
        "bilstm_attention": {"positional_encoding": "none"},
        "bilstm_attention_pe": {},
    }

    @pytest.mark.parametrize("corpus", ["meld", "emorynlp", "daily_dialog", "iemocap"])
    def test_values(self, corpus):
        """The recipes of a corpus differ in the model alone."""
        first, same = load_recipe("meld/utterance"), ("training_arguments", "seeds", "early_stopping_patience")
        for kind in KINDS if corpus != "iemocap" else KINDS[-1:]:
            recipe = load_recipe(f"{corpus}/{kind}")
            assert recipe.name == f"{corpus}_{kind}" and recipe.dataset == corpus
            assert recipe.model_type == "dialogue-bilstm" and recipe.model_config == self.CONFIGS[kind]
            assert recipe.dataset_options == ({"dedupe": True} if corpus == "daily_dialog" else {})
            assert recipe.base_model == "sentence-transformers/all-MiniLM-L6-v2" and recipe.max_length == 128
            assert all(getattr(recipe, name) == getattr(first, name) for name in same)
            published = {"accuracy": 0.73, "macro_f1": 0.72, "weighted_f1": 0.72} if corpus == "iemocap" else {}
            assert recipe.published == published
