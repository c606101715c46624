# SPDX-License-Identifier: Apache-2.0
"""Texts in languages that a model does not read: which are found, and that every way to predict tells of them."""

import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from runtime_sentences import FOREIGN
from served import running
from toolkit_helpers import invoke, recipe_for, torch_threads, write_csv
from transformers import BertConfig, XmodConfig

from hf_emotion import Predictor, TargetedPredictor, load_dataset_for, load_recipe, train
from hf_emotion.runtime import languages
from hf_emotion.runtime.languages import check_languages, foreign_languages, languages_of, set_languages
from hf_emotion.runtime.remote import Client
from hf_emotion.serving.bulk import predict_file
from hf_emotion.tasks.emotion_classification.remote import RemotePredictor


pytest_plugins = ["toolkit_fixtures"]

ENGLISH = "I never thought that this would make me so happy."


def is_foreign(texts) -> np.ndarray:
    return foreign_languages(list(texts), ["en"]).astype(bool)


class TestDetection:
    def test_of_each_language(self):
        for language, text in FOREIGN.items():
            assert foreign_languages([text, ENGLISH], ["en"]).tolist() == [language, None]
            assert foreign_languages([text, ENGLISH], [language]).tolist() == [None, "en"], language
            assert foreign_languages([text, ENGLISH], ["en", language]).tolist() == [None, None], language

    def test_texts_that_say_too_little(self):
        short = ["Das war traurig.", "Это Омск", "日本語です", "", "... !!! 😂😂😂😂😂😂😂😂😂😂😂😂"]
        texts = [*short, "1 2 3 4 5 6 7 8 9 10", "xkcd qwfp zxcv brst ghjk lmnp"]
        assert foreign_languages(texts, ["en"]).tolist() == [None] * 7

    def test_no_languages_and_no_texts(self, monkeypatch):
        monkeypatch.setattr(languages, "identifier", None)  # nobody asks
        assert foreign_languages([FOREIGN["de"]] * 2, []).tolist() == [None, None]
        assert foreign_languages([], ["en"]).shape == (0,)

    def test_rows_of_the_same_text_and_the_beginning_of_a_long_one(self, monkeypatch):
        asked = []
        real = languages.identifier()
        watched = SimpleNamespace(classify=lambda text: asked.append(len(text)) or real.classify(text))
        monkeypatch.setattr(languages, "identifier", lambda: watched)
        found = foreign_languages([FOREIGN["de"], FOREIGN["fi"] * 1000, FOREIGN["de"]], ["en"])
        assert found.tolist() == ["de", "fi", "de"]
        assert sorted(asked) == [len(FOREIGN["de"]), languages.CHARACTERS]

    def test_everyday_sentences(self):
        texts = [text for part in load_dataset_for("everyday").values() for text in part["text"]]
        assert len(texts) > 500 and is_foreign(texts).mean() < 0.01

    def test_the_corpus_of_languages(self):
        for language in ("de", "es", "fr", "pt", "ru"):
            rows = load_dataset_for("languages", language=language)["test"]["text"]
            long = [text for text in rows if len(text.split()) >= 4]
            assert len(long) > 75
            assert np.mean(foreign_languages(long, ["en"]) == language) > 0.9
            assert foreign_languages(long, [language]).astype(bool).mean() < 0.03
        assert not is_foreign(load_dataset_for("languages", language="en")["test"]["text"]).any()

    def test_ordinary_english_does_not_load_the_library(self):
        code = (
            "import sys; from hf_emotion.runtime.languages import foreign_languages\n"
            f"foreign_languages([{ENGLISH!r}, 'Thanks a lot!', 'hahaha'], ['en'])\n"
            "print([name for name in ('py3langid', 'torch', 'transformers') if name in sys.modules])\n"
            f"foreign_languages([{FOREIGN['de']!r}], ['en'])\n"
            "print([name for name in ('py3langid', 'torch', 'transformers') if name in sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.split("\n")[:2] == ["[]", "['py3langid']"]


class TestLanguagesOfAModel:
    def test_codes(self):
        check_languages([])
        check_languages(["en", "de", "pt"])
        for code in ("jp", "english", "EN", "zxx"):
            with pytest.raises(
                ValueError, match=f"`languages` takes ISO 639-1 codes, .* got '{code}': known are af, "
            ):
                check_languages(["en", code])

    def test_a_recipe(self, tmp_path):
        assert load_recipe("ready/goemotions").languages == load_recipe("ready/reviews").languages == ["en"]
        assert load_recipe("quickstart").languages == []
        assert load_recipe("quickstart", ["languages=[en, de]"]).languages == ["en", "de"]
        with pytest.raises(ValueError, match="quickstart.yaml: `languages` takes ISO 639-1 codes"):
            load_recipe("quickstart", ["languages=[jp]"])

    def test_a_task_that_has_none(self, tmp_path):
        recipe = load_recipe("quickstart_replies", ["languages=[en]"])
        with pytest.raises(ValueError, match="`languages` does not fit a training of emotional-response"):
            train(recipe, tmp_path / "run")

    def test_kept_in_a_configuration(self):
        config = BertConfig()
        set_languages(config, [])
        assert languages_of(config) == [] and not hasattr(config, "languages")
        set_languages(config, ["en"])
        assert languages_of(BertConfig.from_dict(config.to_dict())) == ["en"]
        set_languages(config, [])  # trained further
        assert languages_of(config) == []

    def test_a_model_with_a_field_of_that_name(self):
        config = XmodConfig(languages=("en_XX", "de_DE"))
        assert languages_of(config) == []
        set_languages(config, ["en"])
        assert config.languages == ("en_XX", "de_DE")


TEXTS = [ENGLISH, FOREIGN["de"], "so happy", FOREIGN["fi"]]
FOUND = [None, "de", None, "fi"]


def check_message(caplog, counts: str) -> None:
    (message,) = [message for message in caplog.messages if "model's languages" in message]
    assert message.startswith(f"{counts} are probably not in the model's languages (en): the results for them mean")


class TestPredictions:
    def test_of_a_trained_model(self, base_bert, tmp_path, caplog):
        """In the training, and then for texts, files, lines of stdin and behind a service."""
        for part in ("train", "dev", "test"):
            rows = [[text, "joy"] for text in TEXTS] + [[f"so sad {i}", "sadness"] for i in range(20)]
            write_csv(tmp_path / f"{part}.csv", ["text", "label"], rows)
        changes, run = {"dataset": "files", "train_fraction": 1, "languages": ["en"]}, tmp_path / "run"
        with torch_threads(1):
            train(recipe_for(base_bert, {"max_steps": 1}, **changes), run, data_dir=tmp_path)
        check_message(caplog, "2 of 24 texts")  # once for all parts
        predictor = Predictor(run, device="cpu")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("hf_emotion.runtime.batching.CHUNK", 3)
            caplog.clear()
            assert predictor.predict(TEXTS * 2)[1].language.tolist() == FOUND * 2
            check_message(caplog, "4 of 8 texts")
        caplog.clear()
        write_csv(tmp_path / "in.csv", ["text"], [[text] for text in [*TEXTS, ""]])
        output = tmp_path / "out.csv"
        predict_file(predictor, tmp_path / "in.csv", output, on_bad_rows="skip", rows_per_part=2, progress=False)
        check_message(caplog, "2 of 5 texts")
        found = [line.rpartition(",")[2] or None for line in output.read_text().splitlines()[1:]]
        assert found == [*FOUND, None]
        for stdin in (None, "\n".join(TEXTS) + "\n"):
            printed = invoke("predict", run, *(TEXTS if stdin is None else ()), "--json", stdin=stdin)
            rows = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
            assert [row["language"] for row in rows] == FOUND
            assert list(rows[0]) == ["text", "labels", "truncated", "unknown", "language"]
        caplog.clear()
        with running([run]) as (address, app):
            _, unread = RemotePredictor(Client(address)).predict(TEXTS)
            schema = app.openapi()["components"]["schemas"]["EmotionResult"]
        assert unread.language.tolist() == FOUND
        check_message(caplog, "2 of 4 texts")
        assert "language" in schema["required"]

    def test_aspects(self, qacg_run, caplog):
        predictor = TargetedPredictor(qacg_run, device="cpu")
        predictor.model.config.languages = ["en"]
        texts = ["LOCATION1 is a place that you have to like", f"LOCATION1 LOCATION2, {FOREIGN['de']}"]
        assert predictor.predict(texts)[1].language.tolist() == [None, "de"]
        check_message(caplog, "1 of 2 texts")
