# SPDX-License-Identifier: Apache-2.0
"""Recipes: those of the package, and what is said about wrong ones."""

import math
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from toolkit_helpers import seed_run
from transformers import TrainingArguments

import hf_emotion.runs.train as train_module
from hf_emotion import load_recipe, train
from hf_emotion.recipes import find_recipe, make_recipe, packaged_recipes, read_value, recipe_folder, recipe_name
from hf_emotion.run_report import best_run
from hf_emotion.training.fit import training_arguments
from hf_emotion.training.recipe_checks import check_parts


NAMES = [recipe_name(path) for path in packaged_recipes()]
LABEL_AWARE = {"model_type": "label-aware-bert"}
GUIDED = ("cg-bert", "qacg-bert")


class TestPackaged:
    def test_each_loads_and_survives_yaml(self, tmp_path):
        recipes = [load_recipe(name) for name in NAMES]
        assert len({recipe.name for recipe in recipes}) == len(NAMES)
        for recipe in recipes:
            (tmp_path / "again.yaml").write_text(recipe.to_yaml(), encoding="utf-8")
            assert recipe.description and load_recipe(tmp_path / "again.yaml") == recipe

    def test_another_corpus_has_no_published_figures(self):
        own, ekman = {"taxonomy": "goemotions"}, {"taxonomy": "ekman"}
        kept = {"learning_rate=1e-4": own, "dataset=goemotions": own}
        for override, options in {**kept, "dataset=files": {}, "dataset_options.taxonomy=ekman": ekman}.items():
            recipe = load_recipe("goemotions/laa_cb", [override])
            figures = ({"macro_f1": 0.52}, "LAA + CB") if override in kept else ({}, None)
            assert recipe.dataset_options == options and (recipe.published, recipe.table_row) == figures

    def test_options_of_another_corpus_in_any_order(self):
        overrides = ["dataset_options.text_column=comment", "dataset=files"]
        for order in (overrides, overrides[::-1]):
            assert load_recipe("goemotions/laa_cb", order).dataset_options == {"text_column": "comment"}


class TestStartOfOwnAspects:
    """The paper's start, e^-3, drowns a small encoder; the recipes of the paper keep it."""

    @pytest.mark.parametrize(
        ("model_type", "given", "more"),
        [
            *((name, {"auxiliary_sentence": True}, {"context_initializer_range": 0.01}) for name in GUIDED),
            # In their places: --resume compares the text of the recipe with that of the run.
            *((name, {"initializer_range": 1.0, "context_initializer_range": 0.05}, {}) for name in GUIDED),
            *((name, {}, {}) for name in (None, "label-aware-bert")),
        ],
    )
    def test_own_files(self, model_type, given, more):
        values = {"name": "mine", "dataset": "files", "model_type": model_type, "model_config": dict(given)}
        assert list(check_parts(make_recipe(values)).model_config.items()) == [*given.items(), *more.items()]
        assert values["model_config"] == given

    @pytest.mark.parametrize("name", ["cg_aux", "qacg"])
    def test_a_packaged_recipe_on_own_files(self, name):
        assert "context_initializer_range" not in load_recipe(f"sentihood/{name}").model_config
        assert load_recipe(f"sentihood/{name}", ["dataset=files"]).model_config["context_initializer_range"] == 0.01


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
        message = "no recipe 'goemotions/laa_c': .* Did you mean 'goemotions/laa_c[be]'"
        with pytest.raises(FileNotFoundError, match=message):
            find_recipe("goemotions/laa_c")
        with pytest.raises(FileNotFoundError, match="'quickstart'"):
            find_recipe("zzzzzzzz")


class TestMistakes:
    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({"max_lenght": 5}, "unknown recipe key `max_lenght`. Did you mean 'max_length'"),
            ({"zzzzzz": 5}, r"unknown recipe key `zzzzzz`. The keys are \['abstain', 'adapter', 'base_model'"),
            ({"data_license": "ask me first"}, "a licence must be an SPDX id .*`data_terms`"),
            ({"training_arguments": {"learning_rte": 1}}, "unknown .*Did you mean 'training_arguments.learning_rate'"),
            ({**LABEL_AWARE, "model_config": {"tie_heads": 1}}, "unknown .* Did you mean 'model_config.tie_head'"),
            ({"dataset_options": {"taxonmy": "x"}}, "unknown option 'taxonmy' for 'goemotions': .*mean 'taxonomy'"),
            ({"dataset": "goemotion"}, "unknown dataset 'goemotion': .*'goemotions'"),
            ({"model_type": "label-awre"}, "unknown `model_type` 'label-awre': None .*'label-aware-bert'"),
            # Wrong types
            ({"max_length": "50"}, ".*'max_length' expected int, got str .*'50'"),
            ({"seeds": [1.5]}, ".*'seeds'"),
            ({"dataset_options": None}, ".*'dataset_options' expected a dict"),
            ({"threshold": "half"}, ".*'threshold'"),
            ({**LABEL_AWARE, "model_config": {"tie_head": "yes"}}, ".*tie_head.*'yes'"),
            ({"training_arguments": {"learning_rate": "fast"}}, ".*'training_arguments.learning_rate' expected float"),
            ({"training_arguments": {"num_train_epochs": True}}, ".*'training_arguments.num_train_epochs' expected f"),
            ({"training_arguments": {"bf16": 1}}, ".*'training_arguments.bf16' expected bool"),
            ({"training_arguments": {"gradient_accumulation_steps": 2.5}}, ".*accumulation_steps' expected int"),
        ],
    )
    def test_keys_and_types(self, values, message):
        with pytest.raises(ValueError, match=f"^here: {message}"):
            check_parts(make_recipe({"name": "x", **values}, source="here"), source="here")

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            *(
                ({"seeds": seeds}, f"`seeds` must be different whole numbers from 0 .*got {re.escape(str(seeds))}")
                for seeds in ([], [1, 2, 1], [-1], [2**32])
            ),
            ({"training_arguments": {"learning_rate": math.inf}}, "`training_arguments.learning_rate` .*finite.*inf"),
            ({"training_arguments": {"adam_epsilon": math.nan}}, "`training_arguments.adam_epsilon` .*finite.*nan"),
            *(({"train_fraction": share}, rf"`train_fraction` .* lie in \(0, 1\], got {share}") for share in (0, 1.1)),
            ({"max_eval_rows": 0}, "`max_eval_rows` must be at least 1, got 0"),
            *(({"threshold": limit}, rf"`threshold` must lie in \[0, 1\], got {limit}") for limit in (1.1, -0.1)),
            ({"max_length": 2}, "`max_length` must be at least 3 .*got 2"),
        ],
    )
    def test_ranges(self, values, message):
        with pytest.raises(ValueError, match=message):
            make_recipe({"name": "x", **values})

    @pytest.mark.parametrize("values", [{"train_fraction": 1}, {"threshold": 0}, {"threshold": 1}, {"max_length": 3}])
    def test_ends_of_the_ranges(self, values):
        assert make_recipe({"name": "x", **values})

    @pytest.mark.parametrize(
        ("key", "value"),
        [  # The last three spoil what is measured or saved.
            *((key, "1") for key in ("output_dir", "seed", "data_seed", "hub_token", "resume_from_checkpoint")),
            *((key, True) for key in ("bf16_full_eval", "prediction_loss_only", "batch_eval_metrics")),
        ],
    )
    def test_arguments_that_the_run_sets(self, key, value):
        with pytest.raises(ValueError, match=f"`training_arguments.{key}` is set by the run itself: leave it out"):
            make_recipe({"name": "x", "training_arguments": {key: value}})

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("description: x", ": .*'name'"),
            ("name: mine\nmax_length: long\n", ": .*'max_length'"),
            ("- a\n- b\n", " must hold YAML with `key: value` lines.*list"),
            ("", " must hold YAML with `key: value` lines.*NoneType"),
            ("name: [a\n", " must hold YAML"),
            ("threshold: 0.3\nname: a\nthreshold: 0.9\n", " must hold YAML.*'threshold' is there twice.*line 3"),
            ("training_arguments: {max_steps: 1, max_steps: 9}\n", ".*'max_steps' is there twice"),
            ("name: a\nlabels: &all [joy, *all]\n", ".*references .* are not read"),
        ],
    )
    def test_files_that_are_no_recipe(self, tmp_path, content, message):
        path = tmp_path / "mine.yaml"
        path.write_text(content)
        with pytest.raises(ValueError, match=f"^{re.escape(str(path))}{message}"):
            load_recipe(path)

    @pytest.mark.parametrize(
        ("line", "key", "value"),
        [
            *((f"learning_rate: {text}", "learning_rate", float(text)) for text in ("1e-4", "5.0e-5", "1")),
            *((f"max_steps: {text}", "max_steps", 100) for text in ("1e2", "100.0")),
            ("lr_scheduler_type: cosine", "lr_scheduler_type", "cosine"),
            ("bf16: true", "bf16", True),
        ],
    )
    def test_numbers_in_yaml(self, tmp_path, line, key, value):
        (tmp_path / "mine.yaml").write_text(f"name: mine\ntraining_arguments:\n  {line}\n")
        found = load_recipe(tmp_path / "mine.yaml").training_arguments[key]
        assert found == value and type(found) is type(value)


class TestOverrides:
    def test_fields(self):
        before = load_recipe("quickstart")
        overrides = ["max_length=30", "seeds=[1, 2]", "name=a=b", "max_length=20", "learning_rate=1e-4"]
        recipe = load_recipe("quickstart", [*overrides, "dataset_options.dedupe=true"])
        assert (recipe.max_length, recipe.seeds, recipe.name) == (20, [1, 2], "a=b")  # the last one counts
        assert recipe.training_arguments["learning_rate"] == 1e-4
        assert recipe.training_arguments["weight_decay"] == 0.01  # the others stay
        assert load_recipe("quickstart") == before  # for the next call nothing stays
        overrides = ["model_config.tie_head=false", "training_arguments.max_steps=3"]
        recipe = load_recipe("goemotions/laa_cb", overrides)
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

    def test_no_is_a_word(self, tmp_path):
        """YAML reads it as False."""
        overrides = ["eval_strategy=no", "dataset=files", "dataset_options.label_column=no"]
        recipe = load_recipe("quickstart", overrides)
        assert recipe.training_arguments["eval_strategy"] == recipe.dataset_options["label_column"] == "no"
        (tmp_path / "mine.yaml").write_text("name: mine\ntraining_arguments: {eval_strategy: no}\n")
        assert load_recipe(tmp_path / "mine.yaml").training_arguments["eval_strategy"] == "no"
        with pytest.raises(ValueError, match="`early_stopping_patience` .*`eval_strategy: no` makes none"):
            load_recipe(tmp_path / "mine.yaml", ["early_stopping_patience=2"])

    def test_into_an_absent_field_and_one_that_is_a_word(self, tmp_path):
        (tmp_path / "mine.yaml").write_text("name: mine\ntraining_arguments:\nclass_weights: balanced\n")
        overrides = ["learning_rate=1e-4", "dataset_options.taxonomy=ekman", "class_weights.joy=2"]
        recipe = load_recipe(tmp_path / "mine.yaml", overrides)
        assert recipe.training_arguments == {"learning_rate": 1e-4}
        assert recipe.dataset_options == {"taxonomy": "ekman"} and recipe.class_weights == {"joy": 2}

    @pytest.mark.parametrize(
        ("override", "message"),
        [
            ("learning_rat=1", "unknown recipe key `learning_rat`. Did you mean 'training_arguments.learning_rate'"),
            ("max_length.x=1", "quickstart.yaml --set max_length.x=1: .*'max_length' expected int"),
            ("model_config.a=1", "quickstart.yaml --set model_config.a=1: unknown recipe key `model_config.a`"),
            ("max_length", "an override has the form key=value.*got 'max_length'"),
            ("=3", "unknown recipe key ``"),
            ("name=[a", r"name=\[a"),  # no YAML
        ],
    )
    def test_mistakes(self, override, message):
        with pytest.raises(ValueError, match=message):
            load_recipe("quickstart", [override])


PATIENCE = r"`early_stopping_patience`.*"
BALANCED = {"model_type": "label-aware-bert", "model_config": {"class_balanced_beta": 0.9}}
SMOOTHED = {**BALANCED, "training_arguments": {"label_smoothing_factor": 0.1}}  # which takes the place of the loss


@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param(SMOOTHED, "`label_smoothing_factor`.*class_balanced_beta`", id="two losses"),
        pytest.param(
            {"label_texts": {"joy": "happiness"}}, "`label_texts` needs label attention.*None", id="label_texts"
        ),
        pytest.param({"early_stopping_patience": 0}, f"{PATIENCE}0", id="no patience"),
        pytest.param({"early_stopping_patience": -1}, f"{PATIENCE}-1", id="negative patience"),
    ],
)
def test_fields_that_do_not_fit(values, message):
    with pytest.raises((ValueError, TypeError), match=message):
        check_parts(make_recipe({"name": "tiny", **values}))


def arguments_of(folder="out", **changes):
    own = make_recipe({"name": "tiny", "training_arguments": {"use_cpu": True, "bf16": False, **changes}})
    return training_arguments(TrainingArguments, own, Path(folder), 1, metric_for_best_model="macro_f1")


RANGES = {
    **dict.fromkeys(("num_train_epochs", "gradient_accumulation_steps", "per_device_train_batch_size"), 0),
    **dict.fromkeys(("learning_rate", "weight_decay", "max_grad_norm"), -1.0),
    "per_device_eval_batch_size": 0,
    "label_smoothing_factor": 2.0,
}


@pytest.mark.parametrize("field", RANGES)
def test_training_arguments_out_of_range(field):
    with pytest.raises((ValueError, TypeError), match=f"`training_arguments.{field}`.*{RANGES[field]}"):
        arguments_of(**{field: RANGES[field]})


@pytest.mark.parametrize("own", ["quickstart", {"name": "x"}], ids=["a name", "a dictionary"])
def test_what_is_no_recipe(own):
    with pytest.raises((ValueError, TypeError), match="load_recipe|make_recipe"):
        train(own, Path("run"))


@pytest.mark.parametrize("use_cpu", [True, False])
def test_a_training_on_the_processor_is_none_of_the_gpu(tmp_path, monkeypatch, use_cpu):
    for name, value in {"is_available": True, "is_bf16_supported": True, "get_device_name": "a GPU"}.items():
        monkeypatch.setattr(f"torch.cuda.{name}", lambda value=value: value)
    own = vars(TrainingArguments(tmp_path, use_cpu=True))
    recipe = make_recipe({"name": "tiny", "training_arguments": {"use_cpu": use_cpu}})
    found = training_arguments(lambda **values: SimpleNamespace(**own | values), recipe, tmp_path, 1)
    assert found.bf16 is found.dataloader_pin_memory is not use_cpu
    assert train_module.environment(use_cpu)["device"] == ("CPU" if use_cpu else "a GPU")


@pytest.mark.parametrize("metric", ["macro_f1", "eval_accuracy", "eval_loss", "perplexity", "neutral_to_other"])
def test_the_best_epoch_is_not_the_one_with_the_largest_loss(tmp_path, metric):
    greater = metric in ("macro_f1", "eval_accuracy")
    assert arguments_of(tmp_path, metric_for_best_model=metric).greater_is_better is greater
    assert arguments_of(tmp_path, metric_for_best_model=metric, greater_is_better=greater).greater_is_better is greater
    plateau = arguments_of(tmp_path, metric_for_best_model=metric, lr_scheduler_type="reduce_lr_on_plateau")
    assert plateau.lr_scheduler_kwargs["mode"] == ("max" if greater else "min")
    values = {1: float("nan"), 2: 0.1, 3: 0.2, 4: None}
    runs = [seed_run(seed=seed, selected_by=metric, best_dev_metric=value) for seed, value in values.items()]
    assert best_run(runs).seed == (3 if greater else 2)
    measured = {seed: {"teacher_forcing": {"perplexity": value}} for seed, value in values.items()}
    assert best_run([seed_run(seed=seed, validation=figures) for seed, figures in measured.items()]).seed == 2
