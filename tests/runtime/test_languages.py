# SPDX-License-Identifier: Apache-2.0
"""Texts in languages that a model does not read: which are found, and that every way to predict tells of them."""

import json
import shutil
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from served import running, send
from toolkit_helpers import invoke, recipe_for, torch_threads, write_csv
from transformers import BertConfig, XmodConfig

from hf_emotion import Predictor, TargetedPredictor, load_dataset_for, load_recipe, train
from hf_emotion.runtime import languages
from hf_emotion.runtime.languages import check_languages, foreign_languages, languages_of, set_languages
from hf_emotion.runtime.remote import Client
from hf_emotion.runtime.unread import Counts
from hf_emotion.serving.bulk import predict_file
from hf_emotion.tasks.emotion_classification import predictor as predictor_module
from hf_emotion.tasks.emotion_classification.remote import RemotePredictor


pytest_plugins = ["toolkit_fixtures"]

ENGLISH = "I never thought that this would make me so happy."
# Of our own; most hold words that English has, too: "in", "is", "to", "we", "on".
FOREIGN = {
    "af": "Ek is so bly dat jy gekom het.",
    "da": "Det er for sent at gøre noget nu.",
    "de": "Das war sehr traurig.",
    "fi": "Olen niin surullinen tänään, en jaksa enää.",
    "id": "Saya sangat senang kamu datang hari ini.",
    "it": "I miei amici non sono venuti alla festa.",
    "ja": "今日はとても悲しい一日だった。",
    "nl": "We zijn in de stad en het is heel druk.",
    "pl": "I co ja mam z tym teraz zrobić?",
    "ro": "Nu pot să cred că ai venit azi.",
    "ru": "Это было очень грустно, мой друг.",
    "sv": "Han sa att han inte ville komma.",
    "zh": "我今天非常难过而且很孤单啊",
}

TEXTS = [ENGLISH, FOREIGN["de"], "so happy", FOREIGN["fi"]]
FOUND = [None, "de", None, "fi"]


def foreign_share(texts, language: str = "en") -> float:
    return foreign_languages(list(texts), [language]).astype(bool).mean()


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

    def test_what_is_asked(self, monkeypatch):
        """Once for rows of the same text, and the beginning of a long one."""
        asked, real = [], languages.identifier()
        watched = SimpleNamespace(classify=lambda text: asked.append(len(text)) or real.classify(text))
        monkeypatch.setattr(languages, "identifier", lambda: watched)
        found = foreign_languages([FOREIGN["de"], FOREIGN["fi"] * 1000, FOREIGN["de"]], ["en"])
        assert found.tolist() == ["de", "fi", "de"]
        assert sorted(asked) == [len(FOREIGN["de"]), languages.CHARACTERS]
        monkeypatch.setattr(languages, "identifier", None)  # without languages or texts nothing
        assert foreign_languages([FOREIGN["de"]] * 2, []).tolist() == [None, None]
        assert foreign_languages([], ["en"]).shape == (0,)

    def test_everyday_sentences_and_the_corpus_of_languages(self):
        texts = [text for part in load_dataset_for("everyday").values() for text in part["text"]]
        assert len(texts) > 500 and foreign_share(texts) < 0.01
        for language in ("de", "es", "fr", "pt", "ru"):
            rows = load_dataset_for("languages", language=language)["test"]["text"]
            long = [text for text in rows if len(text.split()) >= 4]
            assert len(long) > 75
            assert np.mean(foreign_languages(long, ["en"]) == language) > 0.9
            assert foreign_share(long, language) < 0.03
        assert foreign_share(load_dataset_for("languages", language="en")["test"]["text"]) == 0

    def test_ordinary_english_does_not_load_the_library(self):
        code = (
            "import sys; from hf_emotion.runtime.languages import foreign_languages\n"
            f"for texts in ([{ENGLISH!r}, 'Thanks a lot!', 'hahaha'], [{FOREIGN['de']!r}]):\n"
            "    foreign_languages(texts, ['en'])\n"
            "    print([name for name in ('py3langid', 'torch', 'transformers') if name in sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.split("\n")[:2] == ["[]", "['py3langid']"]


class TestLanguagesOfAModel:
    def test_of_recipes(self, tmp_path):
        check_languages([])
        check_languages(["en", "de", "pt"])
        for code in ("jp", "english", "EN", "zxx"):
            message = f"`languages` takes ISO 639-1 codes, .* got '{code}': known are af, "
            with pytest.raises(ValueError, match=message):
                check_languages(["en", code])
        assert load_recipe("ready/goemotions").languages == load_recipe("ready/reviews").languages == ["en"]
        with pytest.raises(ValueError, match="quickstart.yaml .*: `languages` takes ISO 639-1 codes"):
            load_recipe("quickstart", ["languages=[jp]"])
        # A task that has none.
        with pytest.raises(ValueError, match="`languages` does not fit a training of emotional-response"):
            train(load_recipe("quickstart_replies", ["languages=[en]"]), tmp_path / "run")

    def test_kept_in_a_configuration(self):
        config = BertConfig()
        set_languages(config, [])
        assert languages_of(config) == [] and not hasattr(config, "languages")
        set_languages(config, ["en"])
        assert languages_of(BertConfig.from_dict(config.to_dict())) == ["en"]
        set_languages(config, [])  # trained further
        assert languages_of(config) == []
        config = XmodConfig(languages=("en_XX", "de_DE"))  # a field of that name for something else
        assert languages_of(config) == []
        set_languages(config, ["en"])
        assert config.languages == ("en_XX", "de_DE")


def check_message(caplog, counts: str) -> None:
    (message,) = [message for message in caplog.messages if "model's languages" in message]
    assert message.startswith(f"{counts} are probably not in the model's languages (en): the results for them mean")


class TestPredictions:
    def test_of_a_trained_model(self, base_bert, tmp_path, caplog):
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
        output, rows = tmp_path / "out.csv", [[text] for text in [*TEXTS, ""]]
        source = write_csv(tmp_path / "in.csv", ["text"], rows)
        predict_file(predictor, source, output, on_bad_rows="skip", rows_per_part=2, progress=False)
        check_message(caplog, "2 of 5 texts")
        found = [line.rpartition(",")[2] or None for line in output.read_text().splitlines()[1:]]
        assert found == [*FOUND, None]
        for given, stdin in ((TEXTS, None), ((), "\n".join(TEXTS) + "\n")):
            printed = map(json.loads, invoke("predict", run, *given, "--json", stdin=stdin).splitlines())
            assert [row["language"] for row in printed] == FOUND
        caplog.clear()
        for text in TEXTS * 2:
            predictor(text)
        check_message(caplog, "1 of 1 texts")
        caplog.clear()
        with running([run]) as (address, app):
            _, page, _ = send(address, "/page/table", {"model": run.name, "text": FOREIGN["de"]})
            assert [one["language"] for one in page["unread"]] == ["de"]
            remote = RemotePredictor(Client(address))
            found, expected = (one(TEXTS[0], all_scores=True) for one in (remote, predictor))
            assert found[0]["scores"] == pytest.approx(expected[0]["scores"], abs=1e-5)
            assert remote([TEXTS[0], None], 1, on_bad="skip")[1] is None and len(remote(TEXTS, 1).to_frame()) == 4
            caplog.clear()
            _, unread = remote.predict(TEXTS)
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

    def test_a_warning_names_a_ready_model_that_reads_more(self, caplog, monkeypatch):
        monkeypatch.setattr(predictor_module, "reading_more", lambda: ", such as the ready model `many` (de, fi)")
        config = SimpleNamespace(languages=["en"])
        bare = SimpleNamespace(model=SimpleNamespace(config=config), limit="64 tokens")
        Predictor.warn_unread(bare, Counts(foreign=1, total=2))
        (message,) = caplog.messages
        assert message.endswith("use a model that reads their language, such as the ready model `many` (de, fi)")


def test_each_language_has_its_own_thresholds(tied_run, tmp_path):
    """By the language that is found; short texts and other languages have the common ones. Everywhere, unless thresholds are named."""
    run, config = shutil.copytree(tied_run, tmp_path / "run"), json.loads((tied_run / "config.json").read_text())
    count = len(config["id2label"])
    config |= {
        "thresholds": [1.0] * count,
        "thresholds_by_language": {"de": [0.0] * count, "sv": [0.0, *[1.0] * (count - 1)]},
    }
    (run / "config.json").write_text(json.dumps(config))
    texts, given = [ENGLISH, FOREIGN["de"], FOREIGN["sv"], "Das war traurig.", FOREIGN["fi"]], [0, count, 1, 0, 0]
    predictor = Predictor(run, device="cpu")
    assert [len(labels) for labels in predictor(texts)] == given
    with running([run]) as (address, _):
        remote = RemotePredictor(Client(address))
        assert [len(labels) for labels in remote.predict(texts)[0]] == given
    more = Predictor(run, device="cpu", add_labels=["hunger"])
    assert more.thresholds_of(texts)[:, :count].sum(axis=1).tolist() == [count, 0, count - 1, count, count]
    predictor.use_thresholds([0.0] * count)
    assert [len(labels) for labels in predictor(texts)] == [count] * 5
    config["thresholds_by_language"]["de"] = [0.5]
    (run / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=f"`config.thresholds_by_language` of 'de' must be {count} probabilities"):
        Predictor(run, device="cpu")
