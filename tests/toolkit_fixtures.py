# SPDX-License-Identifier: Apache-2.0
"""
Fixtures of the toolkit's tests: tiny base BERTs, small corpora, and finished run folders. Made once per session and never
written to: a test that changes a folder copies it. A module asks for them with `pytest_plugins = ["toolkit_fixtures"]`.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import toolkit_helpers as kit
from transformers.utils import logging as transformers_logging

from benchmarks.study.__main__ import main as study_main
from hf_emotion.cli import main
from hf_emotion.recipes import Recipe
from hf_emotion.runs.train import train
from hf_emotion.training.seeds import EmotionTrainer


def trained(tmp_path_factory, recipe: Recipe, data_dir: Path | None = None) -> Path:
    """The folder of a finished run, `run` in a folder that begins with the name of the recipe."""
    output = tmp_path_factory.mktemp(recipe.name) / "run"
    with kit.torch_threads(1):
        train(recipe, output, data_dir=data_dir)
    return output


def trained_run(base: str, recipe: Callable[..., Recipe], *arguments, data: str | None = None, **fields):
    """The fixture of a finished run over what the fixtures `base` and `data` give."""

    @pytest.fixture(scope="session")
    def run(request, tmp_path_factory) -> Path:
        made = recipe(request.getfixturevalue(base), *arguments, **fields)
        return trained(tmp_path_factory, made, data and request.getfixturevalue(data))

    return run


def write_feelings(folder: Path, parts: dict[str, tuple[int, int]], **options) -> Path:
    for split, sizes in parts.items():
        kit.write_csv(folder / f"{split}.csv", ["text", "label"], kit.feelings_rows(*sizes, **options))
    return folder


@pytest.fixture
def no_plots(monkeypatch):
    kit.leave_out_plots(monkeypatch)


@pytest.fixture(scope="session")
def base_bert(tmp_path_factory) -> Path:
    return kit.save_base_bert(tmp_path_factory.mktemp("base") / "tiny-bert")


@pytest.fixture(scope="session")
def tiny_recipe(base_bert) -> Recipe:
    return kit.recipe_for(base_bert, description="A tiny run")


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory, tiny_recipe) -> Path:
    """A finished run folder: label-aware, GoEmotions' 28 labels, one seed."""
    return trained(tmp_path_factory, tiny_recipe)


# The same with one head for all labels, which labels can be added to.
tied_run = trained_run("base_bert", kit.recipe_for, {"num_train_epochs": 1}, model_config={})

# A finished run folder over the same rows: the stock classifier.
STOCK = {"model_type": None, "model_config": {"initializer_range": 1.0}, "threshold": 0.4, "seeds": [7]}
stock_run = trained_run("base_bert", kit.recipe_for, name="stock", **STOCK)


@pytest.fixture(scope="session")
def feelings(tmp_path_factory) -> Path:
    """A multi-label corpus of CSV files: anger, joy, neutral."""
    parts = {"train": (48, 0), "dev": (16, 48), "test": (16, 64)}
    return write_feelings(tmp_path_factory.mktemp("feelings"), parts)


@pytest.fixture(scope="session")
def single_label(tmp_path_factory) -> Path:
    """The same with one label per row, without a validation file."""
    parts = {"train": (48, 0), "test": (16, 64)}
    return write_feelings(tmp_path_factory.mktemp("single"), parts, multi_label=False)


# A finished run folder of a single-label model.
ONE_LABEL = {"name": "single", "dataset": "files", "train_fraction": 1.0, "threshold": 0.5}
single_run = trained_run("base_bert", kit.recipe_for, data="single_label", **ONE_LABEL)


@pytest.fixture(scope="session")
def aspect_bert(tmp_path_factory) -> Path:
    """A base BERT that also knows the words of targets and aspects."""
    return kit.save_base_bert(tmp_path_factory.mktemp("aspect-base") / "tiny-bert", kit.ASPECT_WORDS)


@pytest.fixture(scope="session")
def corpora(tmp_path_factory) -> Path:
    """A folder with small corpora in the layouts of SentiHood and SemEval-2014."""
    return kit.write_semeval2014(kit.write_sentihood(tmp_path_factory.mktemp("corpora")))


@pytest.fixture(scope="session")
def places(tmp_path_factory) -> Path:
    """One's own CSV files with targets and aspects."""
    return kit.write_places(tmp_path_factory.mktemp("places"))


# A finished run folder of targets and aspects: QACG-BERT with auxiliary sentence over SentiHood.
qacg_run = trained_run("aspect_bert", kit.targeted_recipe, {"num_train_epochs": 6}, data="corpora", name="qacg")

# The same of the stock classifier, which reads target and aspect in words.
PAIRS = {"model_type": None, "model_config": {"initializer_range": 1.0, "auxiliary_sentence": True}}
pair_run = trained_run("aspect_bert", kit.targeted_recipe, data="corpora", name="pair", **PAIRS)

# A finished run folder of aspects alone: CG-BERT without auxiliary sentence over SemEval-2014.
ASPECTS = {"dataset": "semeval2014", "model_type": "cg-bert", "model_config": kit.GUIDED}
cg_run = trained_run("aspect_bert", kit.targeted_recipe, data="corpora", name="cg", **ASPECTS)

# A finished run folder of label-aware attention, which reads all aspects of a target at once, over SentiHood.
AT_ONCE = {"model_type": "label-aware-bert", "model_config": {"initializer_range": 1.0}}
at_once_run = trained_run("aspect_bert", kit.targeted_recipe, data="corpora", name="at_once", **AT_ONCE)

# A finished run folder over one's own CSV files with targets and aspects.
OWN = {"dataset": "aspect_files", "dataset_options": {"target_column": "target"}}
places_run = trained_run("aspect_bert", kit.targeted_recipe, data="places", name="places", **OWN)


@pytest.fixture
def own_verbosity():
    """The commands silence transformers; other tests read its warnings."""
    verbosity = transformers_logging.get_verbosity()
    yield
    transformers_logging.set_verbosity(verbosity)
    transformers_logging.enable_progress_bar()


@pytest.fixture
def single_thread(own_verbosity):
    """For modules whose tests train and predict: `pytestmark = pytest.mark.usefixtures("single_thread")`."""
    with kit.torch_threads(1):
        yield


@pytest.fixture
def argv(monkeypatch, capsys):
    """Run the command line as the console script does: argv("predict", ...) -> exit code, stdout, stderr."""
    return _caller(main, "hf-emotion", monkeypatch, capsys)


@pytest.fixture
def study(monkeypatch, capsys):
    """The same for `python -m benchmarks.study`."""
    return _caller(study_main, "benchmarks.study", monkeypatch, capsys)


def _caller(program: Callable[[], None], name: str, monkeypatch, capsys) -> Callable[..., SimpleNamespace]:
    def call(*arguments) -> SimpleNamespace:
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        capsys.readouterr()
        try:
            program()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        captured = capsys.readouterr()
        return SimpleNamespace(code=code, out=captured.out, err=captured.err)

    return call


@pytest.fixture
def steps(monkeypatch) -> list[int]:
    """Grows by one with every training step."""
    count = []
    step = EmotionTrainer.training_step

    def counted(self, *arguments, **keywords):
        count.append(1)
        return step(self, *arguments, **keywords)

    monkeypatch.setattr(EmotionTrainer, "training_step", counted)
    return count
