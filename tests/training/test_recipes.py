# SPDX-License-Identifier: Apache-2.0
"""Recipes: those of the package, and what is said about wrong ones."""

import dataclasses
import math
import re

import pytest
import yaml

from hf_emotion import Recipe, load_recipe
from hf_emotion.recipes import find_recipe, make_recipe, packaged_recipes, read_value, recipe_folder, recipe_name
from hf_emotion.training.recipe_checks import check_parts


NAMES = [recipe_name(path) for path in packaged_recipes()]
LAA_CE = {  # the paper's setting (section 4.2), and what GoEmotions' authors do
    "name": "goemotions_laa_ce",
    "base_model": "google-bert/bert-base-cased",
    "dataset": "goemotions",
    "dataset_options": {"taxonomy": "goemotions"},
    "model_type": "label-aware-bert",
    "model_config": {"label_attention": "bilinear", "head_bias_init": "zeros"},
    "max_length": 50,
    "threshold": 0.3,
    "table_row": "LAA + CE",
    "published": {"macro_f1": 0.51},
    "training_arguments": {
        "num_train_epochs": 4.0,
        "per_device_train_batch_size": 16,
        "learning_rate": 5e-5,
        "warmup_steps": 0.1,
        "lr_scheduler_type": "linear",
        "weight_decay": 0.01,
        "adam_epsilon": 1e-6,
        "max_grad_norm": 1.0,
    },
}
# What the rows of a table differ in.
OF_THE_ROW = {"name", "description", "table_row", "published", "model_type", "model_config"}
CONTEXT_GUIDED = {  # "Experiments": the paper's setting, for both corpora
    "base_model": "google-bert/bert-base-uncased",
    "paper": "Wu and Ong: Context-Guided BERT for Targeted Aspect-Based Sentiment Analysis",
    "dataset_options": {},
    "max_length": 128,
    "seeds": [42],
    "train_fraction": 1.0,
    "early_stopping_patience": None,
    "inverse_frequency_sampling": False,
    "training_arguments": {
        "num_train_epochs": 25.0,
        "per_device_train_batch_size": 24,
        "learning_rate": 2e-5,
        "warmup_steps": 0.1,
        "lr_scheduler_type": "linear",
        "weight_decay": 0.01,
    },
}
ROWS = ("bert_single", "bert_pair", "cg", "cg_aux", "qacg", "qacg_aux", "cg_sigmoid", "qacg_large_init", "qacg_neg_l1")


class TestPackaged:
    def test_they_are_found(self):
        goemotions = {"laa_ce", "laa_cb", "laa_cb_strong", "leam_ce", "baseline"}
        assert {"quickstart", *(f"goemotions/{name}" for name in goemotions)} <= set(NAMES)

    @pytest.mark.parametrize("name", NAMES)
    def test_each_loads_and_survives_yaml(self, name, tmp_path):
        recipe = load_recipe(name)
        assert recipe.name and recipe.description
        (tmp_path / "again.yaml").write_text(recipe.to_yaml(), encoding="utf-8")
        assert load_recipe(tmp_path / "again.yaml") == recipe
        assert set(yaml.safe_load(recipe.to_yaml())) == {field.name for field in dataclasses.fields(Recipe)}

    def test_names_differ(self):
        assert len({load_recipe(name).name for name in NAMES}) == len(NAMES)

    def test_label_aware_attention(self):
        recipe = dataclasses.asdict(load_recipe("goemotions/laa_ce"))
        assert {key: recipe[key] for key in LAA_CE} == LAA_CE
        assert recipe["seeds"] == [42] and recipe["train_fraction"] == 1.0
        assert recipe["early_stopping_patience"] is None

    @pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("goemotions/")])
    def test_rows_of_one_table_differ_in_what_the_row_says(self, name):
        first, other = (dataclasses.asdict(load_recipe(one)) for one in ("goemotions/laa_ce", name))
        assert {key for key in other if other[key] != first[key]} <= OF_THE_ROW
        assert bool(other["published"]) is (other["table_row"] is not None)
        balanced = "class_balanced_beta" in other["model_config"]
        assert balanced is ("_cb" in name) and ("leam" in name) is (
            other["model_config"].get("label_attention") == "leam"
        )

    @pytest.mark.parametrize("corpus", ["sentihood", "semeval2014"])
    def test_targeted_sentiment(self, corpus):
        terms = {f"{corpus}/terms", f"{corpus}/term_pairs"}
        assert {name for name in NAMES if name.startswith(corpus)} - terms == {f"{corpus}/{name}" for name in ROWS}
        for name in ROWS:
            recipe = dataclasses.asdict(load_recipe(f"{corpus}/{name}"))
            assert {key: recipe[key] for key in CONTEXT_GUIDED} == CONTEXT_GUIDED
            assert recipe["name"] == f"{corpus}_{name}" and recipe["dataset"] == corpus
            assert recipe["model_type"] == {"cg": "cg-bert", "qacg": "qacg-bert"}.get(name.partition("_")[0])
            assert recipe["one_model_per_context"] is (name == "bert_single")
            auxiliary = recipe["model_config"].get("auxiliary_sentence", False)
            assert auxiliary is (name.endswith("_aux") or name == "bert_pair")
            assert bool(recipe["published"]) is (recipe["table_row"] is not None) is (name in ROWS[:6])

    def test_another_corpus_has_no_published_figures(self):
        assert load_recipe("goemotions/laa_cb", ["learning_rate=1e-4"]).published == {"macro_f1": 0.52}
        options = {"taxonomy": "goemotions"}
        for override, expected in (
            ("dataset=files", {}),
            ("dataset=goemotions", options),
            ("dataset_options.taxonomy=ekman", {"taxonomy": "ekman"}),
        ):
            recipe = load_recipe("goemotions/laa_cb", [override])
            assert recipe.dataset_options == expected
            assert (recipe.published, recipe.table_row) == (
                ({"macro_f1": 0.52}, "LAA + CB") if expected == options else ({}, None)
            )

    def test_options_of_another_corpus_in_any_order(self):
        overrides = ["dataset_options.text_column=comment", "dataset=files"]
        for order in (overrides, overrides[::-1]):
            assert load_recipe("goemotions/laa_cb", order).dataset_options == {"text_column": "comment"}

    def test_quickstart(self):
        recipe = load_recipe("quickstart")
        assert (recipe.base_model, recipe.dataset, recipe.model_type) == ("minilm", "quickstart", "label-aware-bert")
        assert recipe.published == {}


class TestStartOfOwnAspects:
    """The paper's start, e^-3, drowns a small encoder; the recipes of the paper keep it."""

    @pytest.mark.parametrize("model_type", ["cg-bert", "qacg-bert"])
    def test_own_files(self, model_type, tmp_path):
        values = {"name": "mine", "dataset": "files", "model_type": model_type}
        given = {"auxiliary_sentence": True}
        recipe = check_parts(make_recipe({**values, "model_config": given}))
        assert recipe.model_config == {"auxiliary_sentence": True, "context_initializer_range": 0.01}
        assert given == {"auxiliary_sentence": True}
        (tmp_path / "again.yaml").write_text(recipe.to_yaml(), encoding="utf-8")
        assert load_recipe(tmp_path / "again.yaml") == recipe
        own = check_parts(make_recipe({**values, "model_config": {"context_initializer_range": 0.05}}))
        assert own.model_config == {"context_initializer_range": 0.05}

    @pytest.mark.parametrize("name", ["cg_aux", "qacg"])
    def test_a_packaged_recipe_on_own_files(self, name):
        assert "context_initializer_range" not in load_recipe(f"sentihood/{name}").model_config
        assert load_recipe(f"sentihood/{name}", ["dataset=files"]).model_config["context_initializer_range"] == 0.01

    def test_other_models(self):
        for model_type in (None, "label-aware-bert"):
            recipe = make_recipe({"name": "mine", "dataset": "files", "model_type": model_type})
            assert check_parts(recipe).model_config == {}


class TestFinding:
    @pytest.mark.parametrize("name", ["goemotions/laa_cb", "configs/goemotions/laa_cb.yaml", "goemotions/laa_cb.yaml"])
    def test_by_name(self, name, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert find_recipe(name) == recipe_folder() / "goemotions" / "laa_cb.yaml"

    @pytest.mark.parametrize("name", ["mine.yaml", "quickstart"])  # a file goes before the package
    def test_by_path(self, name, tmp_path, monkeypatch):
        (tmp_path / name).write_text("name: mine\n")
        assert load_recipe(tmp_path / name).name == "mine"
        monkeypatch.chdir(tmp_path)
        assert load_recipe(name).name == "mine"

    def test_unknown(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(
            FileNotFoundError, match="no recipe 'goemotions/laa_c': .* Did you mean 'goemotions/laa_c[be]'"
        ):
            find_recipe("goemotions/laa_c")
        with pytest.raises(FileNotFoundError, match="'quickstart'"):
            find_recipe("zzzzzzzz")


class TestMistakes:
    LABEL_AWARE = {"model_type": "label-aware-bert"}

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({"max_lenght": 5}, "unknown recipe key `max_lenght`. Did you mean 'max_length'"),
            ({"zzzzzz": 5}, r"unknown recipe key `zzzzzz`. The keys are \['abstain', 'adapter', 'base_model'"),
            ({"data_license": "ask me first"}, "a licence must be an SPDX id .*`data_terms`"),
            (
                {"training_arguments": {"learning_rte": 1}},
                "unknown recipe key `training_arguments.learning_rte`. Did you mean 'training_arguments.learning_rate'",
            ),
            (
                {**LABEL_AWARE, "model_config": {"tie_heads": True}},
                "unknown recipe key `model_config.tie_heads`. Did you mean 'model_config.tie_head'",
            ),
            (
                {"dataset_options": {"taxonmy": "ekman"}},
                "unknown option 'taxonmy' for 'goemotions': .* Did you mean 'taxonomy'",
            ),
            ({"dataset": "goemotion"}, "unknown dataset 'goemotion': .*'goemotions'"),
            ({"model_type": "label-awre"}, "unknown `model_type` 'label-awre': None .*'label-aware-bert'"),
            # Wrong types
            ({"max_length": "50"}, ".*'max_length' expected int, got str .*'50'"),
            ({"name": 3}, ".*'name' expected str, got int"),
            *(({"seeds": value}, ".*'seeds'") for value in (42, [1.5])),
            *(({name: None}, f".*'{name}' expected a dict") for name in ("training_arguments", "dataset_options")),
            ({"model_type": 3}, ".*'model_type'"),
            ({"early_stopping_patience": 1.5}, ".*'early_stopping_patience'"),
            ({"threshold": "half"}, ".*'threshold'"),
            ({"published": {"macro_f1": "0.5"}}, ".*'published'"),
            ({**LABEL_AWARE, "model_config": {"tie_head": "yes"}}, ".*tie_head.*'yes'"),
            *(
                ({"training_arguments": {name: value}}, f".*'training_arguments.{name}' expected {kind}")
                for name, kind, value in (
                    *(("learning_rate", "float", "fast"), ("num_train_epochs", "float", True)),
                    *(("gradient_accumulation_steps", "int", 2.5), ("bf16", "bool", "yes"), ("bf16", "bool", 1)),
                )
            ),
        ],
    )
    def test_keys_and_types(self, values, message):
        with pytest.raises(ValueError, match=f"^here: {message}"):
            check_parts(make_recipe({"name": "x", **values}, source="here"), source="here")

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({"seeds": []}, r"`seeds` .*at least one, got \[\]"),
            ({"seeds": [1, 2, 1]}, r"`seeds` must be different .*\[1, 2, 1\]"),
            ({"seeds": [-1]}, r"`seeds` must be .* from 0 to .*got \[-1\]"),
            ({"seeds": [2**32]}, "`seeds` must be .* from 0 to .*4294967296"),
            (
                {"training_arguments": {"learning_rate": math.inf}},
                "`training_arguments.learning_rate` .*finite.*got inf",
            ),
            (
                {"training_arguments": {"adam_epsilon": math.nan}},
                "`training_arguments.adam_epsilon` .*finite.*got nan",
            ),
            ({"train_fraction": 0}, r"`train_fraction` must lie in \(0, 1\], got 0"),
            ({"max_eval_rows": 0}, "`max_eval_rows` must be at least 1, got 0"),
            ({"train_fraction": 1.1}, r"`train_fraction` .* got 1.1"),
            ({"threshold": 1.1}, r"`threshold` must lie in \[0, 1\], got 1.1"),
            ({"threshold": -0.1}, "`threshold` .* got -0.1"),
            ({"max_length": 2}, "`max_length` must be at least 3 .*got 2"),
            (
                {"early_stopping_patience": 2, "training_arguments": {"eval_strategy": "no"}},
                "`early_stopping_patience` .*`eval_strategy`",
            ),
        ],
    )
    def test_ranges(self, values, message):
        with pytest.raises(ValueError, match=message):
            make_recipe({"name": "x", **values})

    @pytest.mark.parametrize("values", [{"train_fraction": 1}, {"threshold": 0}, {"threshold": 1}, {"max_length": 3}])
    def test_ends_of_the_ranges(self, values):
        assert make_recipe({"name": "x", **values})

    @pytest.mark.parametrize(
        "key",
        [
            *("output_dir", "seed", "data_seed", "resume_from_checkpoint"),
            # They spoil what is measured or saved.
            *("bf16_full_eval", "fp16_full_eval", "prediction_loss_only", "batch_eval_metrics"),
        ],
    )
    def test_arguments_that_the_run_sets(self, key):
        with pytest.raises(ValueError, match=f"`training_arguments.{key}` is set by the run itself: leave it out"):
            make_recipe({"name": "x", "training_arguments": {key: True if "_eval" in key or "_only" in key else "1"}})

    def test_no_name(self):
        with pytest.raises(ValueError, match="here: .*'name'"):
            make_recipe({"description": "x"}, source="here")

    def test_errors_name_the_file(self, tmp_path):
        (tmp_path / "mine.yaml").write_text("name: mine\nmax_length: long\n")
        with pytest.raises(ValueError, match=f"^{re.escape(str(tmp_path / 'mine.yaml'))}: .*'max_length'"):
            load_recipe(tmp_path / "mine.yaml")

    def test_files_that_are_no_recipe(self, tmp_path):
        path = tmp_path / "mine.yaml"
        for content, message in (
            ("- a\n- b\n", "mine.yaml must hold YAML with `key: value` lines.*list"),
            ("", "mine.yaml must hold YAML with `key: value` lines.*NoneType"),
            ("name: [a\n", "mine.yaml must hold YAML"),
            (
                "threshold: 0.3\nname: a\nthreshold: 0.9\n",
                "mine.yaml must hold YAML.*'threshold' is there twice.*line 3",
            ),
            ("training_arguments: {max_steps: 1, max_steps: 9}\n", "'max_steps' is there twice"),
            ("name: a\nlabels: &all [joy, *all]\n", "references .* are not read"),
        ):
            path.write_text(content)
            with pytest.raises(ValueError, match=message):
                load_recipe(path)


class TestNumbersInYaml:
    @pytest.mark.parametrize(
        ("line", "key", "value"),
        [
            ("learning_rate: 1e-4", "learning_rate", 1e-4),  # a string for YAML
            ("learning_rate: 5.0e-5", "learning_rate", 5e-5),
            ("learning_rate: 1", "learning_rate", 1.0),
            ("max_steps: 1e2", "max_steps", 100),
            ("max_steps: 20.0", "max_steps", 20),
            ("num_train_epochs: 3", "num_train_epochs", 3.0),
            ("lr_scheduler_type: cosine", "lr_scheduler_type", "cosine"),
            ("bf16: true", "bf16", True),
        ],
    )
    def test_training_arguments(self, tmp_path, line, key, value):
        (tmp_path / "mine.yaml").write_text(f"name: mine\ntraining_arguments:\n  {line}\n")
        found = load_recipe(tmp_path / "mine.yaml").training_arguments[key]
        assert found == value and type(found) is type(value)


class TestOverrides:
    def test_fields(self):
        recipe = load_recipe(
            "quickstart", ["max_length=30", "seeds=[1, 2]", "name=a=b", "max_length=20", "learning_rate=1e-4"]
        )
        assert (recipe.max_length, recipe.seeds, recipe.name) == (20, [1, 2], "a=b")  # the last one counts
        assert recipe.training_arguments["learning_rate"] == 1e-4
        assert recipe.training_arguments["weight_decay"] == 0.01  # the others stay

    def test_nested(self):
        recipe = load_recipe(
            "goemotions/laa_cb",
            ["dataset_options.taxonomy=ekman", "model_config.tie_head=false", "training_arguments.max_steps=3"],
        )
        assert recipe.dataset_options == {"taxonomy": "ekman"}
        own = {"label_attention": "bilinear", "head_bias_init": "zeros", "class_balanced_beta": 0.95}
        assert recipe.model_config == {**own, "tie_head": False}
        assert recipe.training_arguments["max_steps"] == 3

    @pytest.mark.parametrize(
        ("text", "value"),
        [
            *((text, text) for text in ("|", ",", "#text", "no", "On", "-", ":", "?", "&", "\t", "> ", "a: b: c")),
            *((text, None) for text in ("", "null", "~")),
            *(("true", True), ("False", False), ("''", ""), ("'|'", "|"), ("1", 1), ("[a, 2]", ["a", 2]), ("{}", {})),
        ],
    )
    def test_values(self, text, value):
        found = read_value(text)
        assert found == value and type(found) is type(value)

    def test_no_as_a_word(self):
        overrides = ["eval_strategy=no", "dataset=files", "dataset_options.label_column=no"]
        recipe = load_recipe("quickstart", overrides)
        assert recipe.training_arguments["eval_strategy"] == recipe.dataset_options["label_column"] == "no"

    def test_no_in_a_file(self, tmp_path):
        """YAML reads the word as False."""
        (tmp_path / "mine.yaml").write_text(
            "name: mine\nbase_model: x\ndataset: quickstart\ntraining_arguments: {eval_strategy: no}\n"
        )
        assert load_recipe(tmp_path / "mine.yaml").training_arguments["eval_strategy"] == "no"
        (tmp_path / "mine.yaml").write_text((tmp_path / "mine.yaml").read_text() + "early_stopping_patience: 2\n")
        with pytest.raises(ValueError, match="`eval_strategy` is no"):
            load_recipe(tmp_path / "mine.yaml")

    def test_nothing_stays_for_the_next_call(self):
        before = load_recipe("quickstart")
        load_recipe("quickstart", ["learning_rate=1e-4", "dataset_options.dedupe=true"])
        assert load_recipe("quickstart") == before

    def test_into_an_absent_field(self, tmp_path):
        (tmp_path / "mine.yaml").write_text("name: mine\ntraining_arguments:\n")
        recipe = load_recipe(tmp_path / "mine.yaml", ["learning_rate=1e-4", "dataset_options.taxonomy=ekman"])
        assert recipe.training_arguments == {"learning_rate": 1e-4}
        assert recipe.dataset_options == {"taxonomy": "ekman"}

    @pytest.mark.parametrize(
        ("override", "message"),
        [
            ("learning_rat=1", "unknown recipe key `learning_rat`. Did you mean 'training_arguments.learning_rate'"),
            ("model_config.tie_haed=1", "Did you mean 'model_config.tie_head'"),
            ("max_length.x=1", "'max_length' expected int"),
            ("max_length", "an override has the form key=value.*got 'max_length'"),
            ("=3", "unknown recipe key ``"),
            ("seed=3", "`training_arguments.seed` is set by the run itself"),
            ("name=[a", r"name=\[a"),  # no YAML
        ],
    )
    def test_mistakes(self, override, message):
        with pytest.raises(ValueError, match=message):
            load_recipe("quickstart", [override])


def test_a_given_start_of_context_weights_keeps_its_place():
    """--resume compares the text of the recipe with that of the run, which another version may have written."""
    given = {"initializer_range": 1.0, "context_initializer_range": 0.5}
    recipe = make_recipe({"name": "own", "dataset": "files", "model_type": "cg-bert", "model_config": given})
    assert list(recipe.model_config.items()) == list(given.items())
