# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion reproduce`: the recipes of a table over seeds, beside the published figures."""

import pytest
from toolkit_helpers import cells, report_of, run_report, seed_run

from hf_emotion.runs import reproduce as module
from hf_emotion.runs.reproduce import reproduce
from hf_emotion.tasks.published import TABLES
from hf_emotion.training.recipe_checks import load_recipe


pytest_plugins = ["toolkit_fixtures"]


@pytest.mark.parametrize("content", TABLES.values(), ids=list(TABLES))
def test_recipes_columns_and_encoders_are_those_of_published_rows(content):
    for recipe in map(load_recipe, content.recipes):
        figures = content.published.get(recipe.table_row or "", {})
        for metric, value in recipe.published.items():
            printed = figures[metric]
            assert (printed[0] if isinstance(printed, tuple) else printed) == pytest.approx(value), recipe.name
    columns = {metric for _, metric in content.columns}
    assert all(columns & set(figures) for figures in content.published.values())
    assert set(content.encoders) <= set(content.published)


# What rows differ in, and the fields of the model that words in their names stand for.
OF_THE_ROW = "name description table_row published base_model model_type model_config".split()
OF_THE_ROW += ["one_model_per_context", "emotion_tokens"]
WORDS = {"cb": "class_balanced_beta", "tfidf": "tfidf_gating", "sigmoid": "gate_activation", "neg": "quasi_similarity"}
WORDS |= {"aux": "auxiliary_sentence", "pair": "auxiliary_sentence", "vanilla": "modulate_decoder"}
WORDS["token"] = "modulate_decoder"


@pytest.mark.parametrize(
    ("table", "base_model", "max_length", "epochs", "batch_size", "learning_rate"),
    [
        ("goemotions", "google-bert/bert-base-cased", 50, 4, 16, 5e-5),
        ("esa", "FacebookAI/roberta-base", 128, 10, 16, 1e-5),
        *((name, "google-bert/bert-base-uncased", 128, 25, 24, 2e-5) for name in ("sentihood", "semeval2014")),
    ],
)
def test_settings_are_those_of_the_papers(table, base_model, max_length, epochs, batch_size, learning_rate):
    recipe = load_recipe(TABLES[table].recipes[0])
    arguments = recipe.training_arguments
    assert (recipe.base_model, recipe.max_length, recipe.threshold) == (base_model, max_length, 0.3)
    assert (arguments["num_train_epochs"], arguments["per_device_train_batch_size"]) == (epochs, batch_size)
    assert (arguments["learning_rate"], arguments["weight_decay"]) == (learning_rate, 0.01)
    assert (recipe.seeds, recipe.train_fraction, recipe.early_stopping_patience) == ([42], 1, None)


@pytest.mark.parametrize("content", TABLES.values(), ids=list(TABLES))
def test_recipes_of_a_table_differ_in_the_model_alone(content):
    recipes = {name: vars(load_recipe(name)) for name in content.recipes}
    first, models = recipes[content.recipes[0]], []
    for name, recipe in recipes.items():
        corpus, row = name.split("/")
        assert recipe["name"] == f"{corpus}_{row}" and recipe["dataset"] == corpus
        if row in ("window", "label_aware"):  # in settings of their own
            continue
        assert {key for key in recipe if recipe[key] != first[key]} <= set(OF_THE_ROW)
        assert recipe["base_model"] == first["base_model"] or row == "bert_mod_ln"
        assert recipe["one_model_per_context"] is (row == "bert_single")
        assert recipe["emotion_tokens"] is (row == "gpt2_emotion_token")
        expected = {WORDS[word] for word in row.split("_") if word in WORDS}
        assert set(recipe["model_config"]) & set(WORDS.values()) == expected
        none = {key for key, value in recipe["model_config"].items() if key.startswith("num_") and value == 0}
        assert ("num_hidden_layers" in none) is (row == "utterance")
        assert ("num_attention_heads" in none) is (row in ("utterance", "bilstm"))
        models.append([recipe[key] for key in OF_THE_ROW[4:]])
    assert all(models.count(model) == 1 for model in models)


@pytest.fixture
def trained(monkeypatch):
    """Recipes that were trained, instead of training them."""
    found = []

    def train(recipe, output, data_dir=None, resume=False):
        found.append((recipe, output, data_dir, resume))
        output.mkdir(parents=True, exist_ok=True)
        (seed,) = recipe.seeds
        figures = {"fixed": {"macro_f1": 0.50 + (seed - 42) * 0.03}, "tuned": {"macro_f1": 0.6}}
        return run_report(runs=[seed_run(seed=seed, test=figures)])

    monkeypatch.setattr(module, "train", train)
    return found


def test_every_recipe_and_seed(tmp_path, trained):
    names = ["goemotions/laa_ce", "goemotions/laa_cb"]
    settings = {"base_model": "minilm", "overrides": ["learning_rate=1e-4"], "data_dir": "corpora"}
    found = reproduce("goemotions", seeds=2, recipes=names, output=tmp_path, **settings)
    expected = [(f"goemotions_laa_{loss}", [seed]) for loss in ("ce", "cb") for seed in (42, 43)]
    assert [(recipe.name, recipe.seeds) for recipe, *_ in trained] == expected
    for recipe, output, data_dir, resume in trained:
        assert recipe.base_model == "minilm" and recipe.training_arguments["learning_rate"] == 1e-4
        assert output.parent == tmp_path / "goemotions" and data_dir == "corpora" and not resume
    assert len({output for _, output, *_ in trained}) == 4
    assert found.header[:5] == ["row", "encoder", "seeds", "macro_f1 (threshold 0.3)", "macro_f1 (tuned thresholds)"]
    rows = {row[0]: row[1:] for row in found.rows}
    # 0.03 / √2
    assert rows["goemotions/laa_ce"] == ["minilm", "2", "0.515 ± 0.021", "0.600 ± 0.000", "-", "-", "-"]
    assert rows["*published: LAA + CE*"] == ["BERT-base cased, 10 seeds", "", "0.510 ± 0.010", "", "", "", ""]
    assert "goemotions/leam_ce" not in rows
    # What has begun goes on from there.
    reproduce("goemotions", seeds=3, recipes=names[:1], output=tmp_path, **settings)
    assert [resume for *_, resume in trained[4:]] == [True, True, False]


def test_from_the_command_line(tmp_path, trained, argv):
    options = ["--recipe", "goemotions/laa_ce", "--seeds", 1, "--train-fraction", "0.00002", "-o", tmp_path]
    done = argv("reproduce", "goemotions", *options, "--set", "learning_rate=1e-4")
    ((recipe, *_),) = trained
    assert recipe.train_fraction == 2e-5 and recipe.training_arguments["learning_rate"] == 1e-4
    expected = ["goemotions/laa_ce", "google-bert/bert-base-cased", "1", "0.500", "0.600"]
    assert expected in [row[:5] for row in cells(done.out)] and "labels, not over seeds. Ours" in done.out


def test_finished_runs_are_kept(tmp_path, base_bert, no_plots):
    settings = ["dataset=quickstart", "max_steps=2", "use_cpu=true", "bf16=false", "max_length=16"]
    options = {"seeds": 1, "recipes": ["goemotions/baseline"], "output": tmp_path, "base_model": str(base_bert)}
    first = reproduce("goemotions", overrides=settings, **options)
    (run,) = (tmp_path / "goemotions").iterdir()
    report = report_of(run)
    assert run.name == "baseline-seed-42"
    again = reproduce("goemotions", overrides=settings, **options)
    assert again == first and report_of(run) == report
    (row,) = [row for row in first.rows if row[0] == "goemotions/baseline"]
    assert row[3] == f"{report['runs'][0]['test']['fixed']['macro_f1']:.3f}"
    with pytest.raises(ValueError, match="is not the recipe of this command.* another --output"):
        reproduce("goemotions", overrides=[*settings, "learning_rate=0.5"], **options)


def test_errors(tmp_path, trained):
    wrong = {"mean 'goemotions/laa_ce'": {"recipes": ["laa_ce"]}, "key `rat`": {"overrides": ["rat=1"]}}
    for message, changes in {**wrong, "unknown `table` 'meldd'.* mean 'meld'": {"table": "meldd"}}.items():
        with pytest.raises(ValueError, match=message):
            reproduce(**{"table": "goemotions", **changes})
    assert not trained
