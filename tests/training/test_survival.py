# SPDX-License-Identifier: Apache-2.0
"""Trainings that are told to end, killed, out of disk or memory, or diverge: what is left, and what a resume makes of it."""

import contextlib
import json
import os
import shutil
import signal
from functools import partial
from pathlib import Path

import pytest
import torch
from endurance import kill_training
from endurance.fork_server import ForkServer
from endurance.kill_training import differences, make_training
from toolkit_helpers import files_in, fit, report_of, torch_threads

import hf_emotion.runs.train as run_module
from hf_emotion import load_recipe, train
from hf_emotion.training import survive
from hf_emotion.training.seeds import EmotionTrainer
from hf_emotion.training.survive import defect, last_whole_checkpoint


pytest_plugins = ["toolkit_fixtures"]
pytestmark = pytest.mark.usefixtures("single_thread")

EPOCH, LAST = 12, 36  # steps


@pytest.fixture(scope="module")
def training(tmp_path_factory) -> Path:
    """A folder with base model, corpus and recipe.yaml: evaluated and saved at the end of an epoch, logged at other steps."""
    folder = tmp_path_factory.mktemp("training")
    make_training(folder, eval_strategy="epoch", save_strategy="epoch", logging_steps=5, save_total_limit=2)
    return folder


def run(training: Path, output: Path, *overrides: str, resume: bool = False) -> Path:
    train(load_recipe(training / "recipe.yaml", overrides), output, data_dir=training / "data", resume=resume)
    return output


@pytest.fixture(scope="module")
def reference(training, tmp_path_factory) -> Path:
    """The run folder of a training that nothing interrupted."""
    output = tmp_path_factory.mktemp("reference") / "run"
    return fit(load_recipe(training / "recipe.yaml"), output, training / "data")


@contextlib.contextmanager
def terminated_at(step: int, method: str = "training_step"):
    """The process gets SIGTERM before that method is called in that step."""
    original = getattr(EmotionTrainer, method)

    def ending(self, *arguments, **keywords):
        if self.state.global_step + (method == "training_step") == step:
            os.kill(os.getpid(), signal.SIGTERM)
        return original(self, *arguments, **keywords)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EmotionTrainer, method, ending)
        yield


@pytest.fixture(scope="module")
def ended_at_17(training, tmp_path_factory) -> Path:
    """A run folder with the checkpoints of steps 12, its best, and 17, at which it got SIGTERM."""
    output = tmp_path_factory.mktemp("ended") / "run"
    with torch_threads(1), terminated_at(17), pytest.raises(SystemExit) as end:
        run(training, output)
    assert end.value.code == 143
    assert sorted(path.name for path in (output / "checkpoints").iterdir()) == ["checkpoint-12", "checkpoint-17"]
    return output


def change_attributes(checkpoint: Path, **attributes) -> None:
    state = json.loads((checkpoint / "trainer_state.json").read_text())
    state["stateful_callbacks"]["Survival"]["attributes"] |= attributes
    (checkpoint / "trainer_state.json").write_text(json.dumps(state))


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_killed(monkeypatch, capsys):
    """The smallest form of `python -m tests.endurance.kill_training`."""
    monkeypatch.setattr(kill_training, "ForkServer", partial(ForkServer, plots=False))
    with pytest.raises(SystemExit) as end:
        kill_training.main(["--kills", "3", "--seed", "1"])
    summary = json.loads(capsys.readouterr().out)
    assert not end.value.code and summary["equal"] and summary["steps_lost"] == 0
    assert summary["kills"] == 3 and summary["inside_save"] >= 1 and summary["set_aside"] >= 1


class TestTerminated:
    @pytest.mark.parametrize("step", [7, pytest.param(EPOCH, marks=pytest.mark.slow), LAST])
    def test_it_ends_like_another(self, step, training, reference, tmp_path, no_plots, capsys):
        output = tmp_path / "run"
        before = signal.getsignal(signal.SIGTERM)
        with terminated_at(step), pytest.raises(SystemExit) as end:
            run(training, output)
        assert end.value.code == 143 and signal.getsignal(signal.SIGTERM) is before
        said = capsys.readouterr().err
        assert f"saved step {step} of {LAST} in {output}/checkpoints/checkpoint-{step}" in said and "--resume" in said
        assert not (output / "metrics.json").exists()
        assert differences(run(training, output, resume=True), reference) == []

    def test_within_a_later_epoch(self, ended_at_17, training, reference, tmp_path, no_plots):
        output = shutil.copytree(ended_at_17, tmp_path / "run")  # elsewhere: the best checkpoint is found there
        change_attributes(output / "checkpoints" / "checkpoint-17", seconds=3600)
        assert differences(run(training, output, resume=True), reference) == []
        assert 60 < report_of(output)["runs"][0]["train_minutes"] < 70  # those before the interruption count

    def test_patience_goes_on(self, training, tmp_path, no_plots):
        """Without learning nothing gets better after the first epoch: three epochs with a patience of 2, and not four."""
        overrides = ("learning_rate=0.0", "early_stopping_patience=2", "num_train_epochs=5")
        with terminated_at(2 * EPOCH, "_save_checkpoint"), pytest.raises(SystemExit):
            run(training, tmp_path / "run", *overrides)
        run(training, tmp_path / "run", *overrides, resume=True)
        assert report_of(tmp_path / "run")["runs"][0]["epochs"] == 3


def test_interrupted_while_the_run_folder_is_written(training, reference, tmp_path, no_plots, monkeypatch):
    """No step is done again, and nothing half-written is left."""
    output = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(run_module, "_finish", lambda *arguments: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(training, output)
    (output / ".partial-killed").mkdir()  # what SIGKILL leaves
    (output / ".partial-killed" / "model.safetensors").write_bytes(b"half")
    monkeypatch.setattr(EmotionTrainer, "training_step", None)
    assert differences(run(training, output, resume=True), reference) == []


class TestWhole:
    @pytest.fixture
    def checkpoints(self, ended_at_17, tmp_path) -> Path:
        return shutil.copytree(ended_at_17 / "checkpoints", tmp_path / "checkpoints")

    def test_the_newest(self, checkpoints):
        before = files_in(checkpoints / "checkpoint-12")
        assert last_whole_checkpoint(checkpoints) == checkpoints / "checkpoint-17"
        state = json.loads((checkpoints / "checkpoint-17" / "trainer_state.json").read_text())
        assert state["best_model_checkpoint"] == str(checkpoints / "checkpoint-12")  # not where it was trained
        assert files_in(checkpoints / "checkpoint-12") == before

    @pytest.mark.parametrize(
        ("name", "how"),
        [
            *(("model.safetensors", how) for how in ("missing", "empty", "cut off", "half")),
            *(("optimizer.pt", how) for how in ("missing", "cut off")),
            *(("scheduler.pt", "half"), ("rng_state.pth", "missing"), ("rng_state.pth", "empty")),
            *(("trainer_state.json", how) for how in ("missing", "cut off")),
        ],
    )
    def test_half_written(self, name, how, checkpoints, caplog):
        newest = checkpoints / "checkpoint-17"
        size = (newest / name).stat().st_size
        if how == "missing":
            (newest / name).unlink()
        else:
            os.truncate(newest / name, {"empty": 0, "cut off": size - 3, "half": size // 2}[how])
        left = files_in(newest)
        assert last_whole_checkpoint(checkpoints) == checkpoints / "checkpoint-12"
        aside = checkpoints / "half-written-checkpoint-17"
        assert files_in(aside) == left and not newest.exists()  # set aside, not deleted
        said = (str(newest), aside.name, name.split(".")[0].replace("model", ""))
        assert all(part in caplog.text for part in said)
        shutil.copytree(aside, newest)
        assert last_whole_checkpoint(checkpoints) == checkpoints / "checkpoint-12"
        assert (checkpoints / "half-written-checkpoint-17-2").is_dir()

    def test_without_its_best(self, checkpoints, caplog):
        (checkpoints / "checkpoint-12" / "model.safetensors").unlink()
        assert last_whole_checkpoint(checkpoints) is last_whole_checkpoint(checkpoints / "nothing") is None
        assert "best checkpoint checkpoint-12 is missing" in caplog.text

    def test_the_random_states_of_all_processes(self, checkpoints):
        newest = checkpoints / "checkpoint-17"
        change_attributes(newest, processes=2)
        (newest / "rng_state.pth").rename(newest / "rng_state_0.pth")
        assert defect(newest) == "it has no rng_state_1.pth"
        shutil.copyfile(newest / "rng_state_0.pth", newest / "rng_state_1.pth")
        assert defect(newest) is None

    def test_one_is_always_there(self, training, tmp_path, no_plots, monkeypatch):
        """Also with `save_total_limit=1`, at every moment at which the Trainer deletes one."""
        checkpoints, deleted = tmp_path / "run" / "checkpoints", []
        remove = shutil.rmtree

        def watched(path, *arguments, **keywords):
            if Path(path).parent == checkpoints:
                deleted.append(Path(path).name)
                rest = [other for other in checkpoints.glob("checkpoint-*") if other.name not in deleted]
                assert any(defect(other) is None for other in rest)
            remove(path, *arguments, **keywords)

        monkeypatch.setattr(shutil, "rmtree", watched)
        run(training, tmp_path / "run", "save_total_limit=1", "load_best_model_at_end=false", "learning_rate=0.0")
        assert deleted == ["checkpoint-24", "checkpoint-36"]  # 12 is the best one; 36 is deleted at the end


class TestErrors:
    @pytest.fixture
    def failed(self, training, tmp_path, no_plots, argv):
        """failed(*options): what the command says that trains in `run`."""

        def call(*options) -> str:
            files = ("--data-dir", training / "data", "--output", tmp_path / "run")
            done = argv("train", training / "recipe.yaml", *files, *options)
            assert done.code == 1 and "Traceback" not in done.err and "--debug" not in done.err
            return done.err

        return call

    def test_disk_full(self, training, reference, tmp_path, no_plots, monkeypatch):
        output = tmp_path / "run"
        original = EmotionTrainer._save_optimizer_and_scheduler

        def full(self, folder):
            if self.state.global_step == 2 * EPOCH:
                Path(folder, "optimizer.pt").symlink_to("/dev/full")
            original(self, folder)

        with monkeypatch.context() as patch:
            patch.setattr(EmotionTrainer, "_save_optimizer_and_scheduler", full)
            with pytest.raises(OSError, match=r"run cannot be written, the disk is full.*Make room.*--resume"):
                run(training, output)
        assert defect(output / "checkpoints" / "checkpoint-12") is None
        assert differences(run(training, output, resume=True), reference) == []

    def test_diverged(self, failed, tmp_path, monkeypatch):
        """The loss becomes NaN in the second epoch."""
        original = EmotionTrainer.compute_loss

        def diverging(self, *arguments, **keywords):
            loss = original(self, *arguments, **keywords)
            return loss * float("nan") if self.model.training and self.state.global_step == 15 else loss

        monkeypatch.setattr(EmotionTrainer, "compute_loss", diverging)
        said = failed()
        for part in ("diverged: loss nan at step 16", "learning rate 0.0011", "`learning_rate` 0.002"):
            assert part in said
        assert defect(tmp_path / "run" / "checkpoints" / "checkpoint-12") is None

    @pytest.mark.parametrize("steps", [1, 2])  # the first evaluation comes after the first step, or after it diverged
    def test_a_learning_rate_far_too_large(self, steps, failed):
        said = failed("--set", "learning_rate=1e30", "--set", f"max_steps={steps}")
        assert "the training diverged" in said and "a smaller one" in said

    def test_weights_that_are_not_finite_are_not_saved(self, training, tmp_path, monkeypatch):
        original = EmotionTrainer.training_step

        def poisoned(self, model, *arguments):
            if self.state.global_step == EPOCH - 1:
                next(self.model.parameters()).register_hook(lambda gradient: gradient * float("inf"))
            return original(self, model, *arguments)

        monkeypatch.setattr(EmotionTrainer, "training_step", poisoned)
        with pytest.raises(FloatingPointError, match="at step 12"):
            run(training, tmp_path / "run")

    @pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory. Tried to allocate"), MemoryError()])
    def test_out_of_memory(self, error, ended_at_17, failed, tmp_path, monkeypatch):
        def fail(*arguments):
            raise error

        monkeypatch.setattr(EmotionTrainer, "training_step", fail)
        shutil.copytree(ended_at_17, tmp_path / "run")
        said = failed("--resume")
        for part in ("out of memory", "per_device_train_batch_size", "gradient_accumulation_steps", "--resume"):
            assert part in said
        other = RuntimeError("others stay as they are")
        with pytest.raises(RuntimeError) as found, survive.explained(tmp_path):
            raise other
        assert found.value is other
