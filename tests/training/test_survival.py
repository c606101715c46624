# SPDX-License-Identifier: Apache-2.0
"""Trainings that are told to end, killed, out of disk or memory, or diverge: what is left, and what a resume makes of it."""

import contextlib
import json
import os
import re
import shutil
import signal
from functools import partial
from pathlib import Path

import pytest
import torch
import transformers
from endurance import kill_training
from endurance.fork_server import ForkServer
from endurance.kill_training import differences, make_training
from toolkit_helpers import files_in, fit, recipe_for, report_of, torch_threads
from transformers import TrainingArguments

import hf_emotion.runs.train as run_module
from hf_emotion import load_recipe, train
from hf_emotion.training import survive
from hf_emotion.training.progress import EvaluationLines
from hf_emotion.training.seeds import EmotionTrainer, SeedTraining
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


def test_a_training_that_collapses(tmp_path, caplog):
    for losses, said in (
        ([0.18, 0.17, 0.14, 0.12, 0.11, 0.11, 0.16, 0.16, 0.15, 0.15, 0.15, 0.15], True),
        ([0.18, 0.17, 0.14, 0.12, 0.11, 0.16, 0.10, 0.09, 0.09, 0.09, 0.08, 0.09], False),  # a spike that passes
        ([0.18, 0.17, 0.16, 0.17, 0.18, 0.17, 0.18, 0.17, 0.16, 0.17, 0.18, 0.17], False),  # nothing was learnt
        ([0.18, 0.11, 0.16], False),
    ):
        lines = EvaluationLines(tmp_path / "train.log", {})
        history = [{"loss": loss, "step": step} for step, loss in enumerate(losses, 1)]
        at = {"epoch": 1.0, "global_step": len(losses), "max_steps": 20, "num_train_epochs": 2}
        state = transformers.TrainerState(**at, log_history=history)
        arguments = TrainingArguments(tmp_path, metric_for_best_model="loss", use_cpu=True)
        for _ in range(2):
            lines.on_evaluate(arguments, state, transformers.TrainerControl(), metrics={"eval_loss": 0.2})
        assert caplog.text.count("learning_rate") == said
        caplog.clear()


def test_how_far_a_training_is(tmp_path, capsys):
    """In epochs, and never 0 of them; in steps where their number ends the training."""
    for steps, epoch, said in (
        (-1, 0.004, "epoch 0.004 of 2: "),
        (-1, 1.5, "epoch 1.5 of 2: "),
        (5, 0.004, "step 3 of 5: "),
    ):
        arguments = TrainingArguments(tmp_path, metric_for_best_model="loss", use_cpu=True, max_steps=steps)
        state = transformers.TrainerState(epoch=epoch, global_step=3, max_steps=5, num_train_epochs=2)
        lines = EvaluationLines(tmp_path / "train.log", {})
        lines.on_evaluate(arguments, state, transformers.TrainerControl(), metrics={"eval_loss": 0.2})
        assert capsys.readouterr().err.startswith(said)


def stop(*arguments) -> None:
    raise InterruptedError


def test_a_checkpoint_goes_not_on_with_other_rows(single_run, single_label, tmp_path, no_plots, monkeypatch):
    data = shutil.copytree(single_label, tmp_path / "data")
    job = partial(train, load_recipe(single_run / "recipe.yaml"), tmp_path / "run", data_dir=data)
    with monkeypatch.context() as patch, pytest.raises(InterruptedError):
        save = EmotionTrainer._save_checkpoint
        patch.setattr(EmotionTrainer, "_save_checkpoint", lambda *arguments: stop(save(*arguments)))
        job()
    rows = (data / "train.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    (data / "train.csv").write_text("".join(rows[:-3]), encoding="utf-8")
    with pytest.raises(ValueError, match="--resume.*other rows"):
        job(resume=True)
    (data / "train.csv").write_text("".join(rows), encoding="utf-8")
    assert job(resume=True).runs[0].resumed


def test_many_seeds_are_counted(single_label, base_bert, tmp_path, caplog, monkeypatch):
    """`--seeds 42` is 42 runs, and not the seed 42."""
    recipe = recipe_for(base_bert, dataset="files", train_fraction=1.0, seeds=list(range(42, 84)))
    monkeypatch.setattr(SeedTraining, "run", stop)
    with pytest.raises(InterruptedError):
        train(recipe, tmp_path / "run", data_dir=single_label)
    assert "seed 42, 1 of 42" in caplog.text


def test_two_runs_in_one_folder(single_run, single_label, tmp_path, no_plots, monkeypatch):
    output = tmp_path / "run"
    job = partial(train, load_recipe(single_run / "recipe.yaml"), output, data_dir=single_label)

    def meanwhile(*arguments):  # another process gives the same command
        for resume in (False, True):
            with pytest.raises(FileExistsError, match=re.escape(f"another process trains in {output}")):
                job(resume=resume)
        stop()

    with monkeypatch.context() as patch, pytest.raises(InterruptedError):
        patch.setattr(SeedTraining, "run", meanwhile)
        job()
    assert not output.exists()
    job()
    job(resume=True)
