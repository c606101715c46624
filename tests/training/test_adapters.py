# SPDX-License-Identifier: Apache-2.0
"""LoRA adapters in recipes."""

import shutil
import tomllib

import numpy as np
import pytest
import torch
from model_cases import BY_ID, TINY_GPT2
from safetensors.torch import load_file
from toolkit_helpers import ROOT, files_in, recipe_for, write_csv
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer, GPT2Config

from hf_emotion import train
from hf_emotion.training.adapters import start_from, with_adapter
from hf_emotion.training.seeds import EmotionTrainer


peft = pytest.importorskip("peft")
pytest_plugins = ["toolkit_fixtures"]
pytestmark = pytest.mark.usefixtures("no_plots", "single_thread")
TEXTS = [("so happy today", "positive"), ("so sad", "negative"), ("happy sun", "positive"), ("a sad day", "negative")]


def weights(run):
    return load_file(run / "model.safetensors")


def adapter_recipe(base, adapter, arguments=None, **changes):
    arguments = {"max_steps": 4, **(arguments or {})}
    return recipe_for(base, arguments, adapter=adapter, **{"max_eval_rows": 20, **changes})


def check_adapter(base, run):
    """By PEFT alone, over its base, it gives the model beside it, which is returned."""
    merged = AutoModelForSequenceClassification.from_pretrained(run)
    adapted = type(merged).from_pretrained(base, config=AutoConfig.from_pretrained(run / "adapter"))
    adapted = peft.PeftModel.from_pretrained(adapted, run / "adapter")
    rows = AutoTokenizer.from_pretrained(run)(["so happy today", "no way"], return_tensors="pt", padding=True)
    with torch.inference_mode():
        assert torch.allclose(adapted.eval()(**rows).logits, merged(**rows).logits, atol=1e-5)
    return merged


def test_the_base_stays_and_the_rest_is_trained(base_bert, tmp_path):
    train(adapter_recipe(base_bert, {"r": 2}), tmp_path / "run")
    own, base = check_adapter(base_bert, tmp_path / "run").state_dict(), load_file(base_bert / "model.safetensors")
    word_embeddings = next(value for name, value in base.items() if name.endswith("word_embeddings.weight"))
    assert torch.equal(own["bert.embeddings.word_embeddings.weight"], word_embeddings)
    name = "encoder.layer.0.output.dense.weight"
    change = own[f"bert.{name}"] - next(value for key, value in base.items() if key.endswith(name))
    assert torch.linalg.matrix_rank(change, atol=1e-6) == 2


def test_resume_ends_as_an_uninterrupted_run(base_bert, tmp_path, monkeypatch):
    every_two = {f"{what}_strategy": "steps" for what in ("eval", "save")} | {"eval_steps": 2, "save_steps": 2}
    recipe, save = adapter_recipe(base_bert, {"r": 2}, every_two), EmotionTrainer._save_checkpoint
    train(recipe, tmp_path / "whole")

    def save_and_stop(*arguments):
        save(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(EmotionTrainer, "_save_checkpoint", save_and_stop)
        train(recipe, tmp_path / "run")
    train(recipe, tmp_path / "run", resume=True)
    for name, value in weights(tmp_path / "whole").items():
        assert torch.equal(value, weights(tmp_path / "run")[name]), name


def test_it_starts_from_the_best_approximation_of_a_training(base_bert, tmp_path):
    recipe = recipe_for(base_bert, {"max_steps": 6, "learning_rate": 1e-2})
    train(recipe, tmp_path / "full")
    adapter = {"start_from": str(tmp_path / "full"), "r": 3, "lora_alpha": 6, "bias": "all"}
    adapter |= {"target_modules": ["dense", "word_embeddings"], "modules_to_save": ["LayerNorm"]}
    train(adapter_recipe(base_bert, adapter, {"learning_rate": 0.0}), tmp_path / "run")
    full, own = weights(tmp_path / "full"), weights(tmp_path / "run")
    base = load_file(base_bert / "model.safetensors")
    for name, value in full.items():
        start = next((tensor for key, tensor in base.items() if name.endswith(key.removeprefix("bert."))), None)
        if start is None or "LayerNorm" in name or name.endswith("bias"):
            assert torch.allclose(own[name], value, atol=1e-6), name
        elif name.endswith(("dense.weight", "word_embeddings.weight")):
            left, values, right = np.linalg.svd((value - start).double().numpy(), full_matrices=False)
            best = start.double().numpy() + (left[:, :3] * values[:3]) @ right[:3]
            np.testing.assert_allclose(own[name].numpy(), best, atol=1e-5, err_msg=name)
        else:
            assert torch.equal(own[name], start), name


def test_a_start_of_full_rank_is_the_training_whose_layers_hold_inputs_first():
    """As GPT-2's do."""
    config = GPT2Config(**TINY_GPT2, num_labels=2)
    model, trained = (AutoModelForSequenceClassification.from_config(config) for _ in range(2))
    full, auto_class = trained.state_dict(), "AutoModelForSequenceClassification"
    adapted = with_adapter(model, {"r": config.hidden_size}, auto_class)
    start_from(adapted, full, "run")
    merged = adapted.merge_and_unload().state_dict()
    layers = [name for name in merged if name.endswith("weight") and ".c_" in name]
    assert len(layers) == 4 * config.num_hidden_layers
    for name in layers:
        assert torch.allclose(merged[name], full[name], atol=1e-5), name


def test_what_does_not_fit_is_refused(base_bert, tiny_run, tmp_path):
    config, other = AutoConfig.from_pretrained(tiny_run), shutil.copytree(tiny_run, tmp_path / "other")
    config.intermediate_size += 1
    AutoModelForSequenceClassification.from_config(config).save_pretrained(other)
    refused = [({"rank": 2}, "adapter.rank"), ({"r": 0}, "adapter"), ({"target_modules": ["no"]}, "no")]
    for adapter, words in (*refused, ({"start_from": str(other)}, "start_from")):
        with pytest.raises(ValueError, match=words):
            train(adapter_recipe(base_bert, adapter), tmp_path / "run")
        assert not (tmp_path / "run").exists()
    lora = peft.LoraConfig(r=2, target_modules=["dense"])
    peft.get_peft_model(AutoModelForSequenceClassification.from_pretrained(other), lora).save_pretrained(other)
    with pytest.raises(ValueError, match="adapter beside its weights: merge it"):
        train(recipe_for(other, {"max_steps": 4}), tmp_path / "run")


def test_an_older_peft_is_refused_with_the_versions_that_fit(base_bert, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.20.0")
    with pytest.raises(ImportError, match=r"peft>=0.21.2 .* found peft==0.20.0") as caught:
        train(adapter_recipe(base_bert, {"r": 2}), tmp_path / "run")
    (bounds,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["peft"]
    assert bounds.partition(",")[0] in str(caught.value)


def test_each_model_of_a_run_has_its_adapter(base_bert, tmp_path):
    for part in ("train", "dev", "test"):
        rows = [[text, aspect, label] for aspect in ("food", "room") for text, label in TEXTS]
        write_csv(tmp_path / "data" / f"{part}.csv", ["text", "aspect", "label"], rows)
    options = {"dataset": "aspect_files", "dataset_options": {}, "train_fraction": 1}
    stock = {"model_type": None, "model_config": {}, "one_model_per_context": True}
    recipe = adapter_recipe(base_bert, {"r": 2}, {"max_steps": 1, "learning_rate": 0.1}, **options, **stock)
    train(recipe, tmp_path / "contexts", data_dir=tmp_path / "data")
    for aspect in ("food", "room"):
        check_adapter(base_bert, tmp_path / "contexts" / aspect)


@pytest.mark.parametrize("id", ["qacg", "esa", "dialogue-model-trained"])
def test_an_adapter_trains_the_new_parts_beside_those_that_a_recipe_names(id):
    case = BY_ID[id]
    model = with_adapter(case.build(), {"r": 2, "modules_to_save": ["LayerNorm"]}, case.auto_class.__name__).train()
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    for part in ("LayerNorm", *case.peft_modules_to_save):
        assert any(f".{part}." in name for name in trained), part


def test_the_adapter_of_the_best_seed(base_bert, tmp_path):
    recipe = adapter_recipe(base_bert, {"r": 2}, {"max_steps": 1}, seeds=[3, 8])
    report = train(recipe, tmp_path / "run").to_dict()
    best = max(report["runs"], key=lambda run: run["best_dev_metric"])["seed"]
    assert files_in(tmp_path / "run" / "adapter") == files_in(tmp_path / "run" / f"seed-{best}" / "adapter")
    # Again over the files of a process that was killed at the end.
    (tmp_path / "run" / "metrics.json").unlink()
    train(recipe, tmp_path / "run", resume=True)
    assert files_in(tmp_path / "run" / "adapter") == files_in(tmp_path / "run" / f"seed-{best}" / "adapter")
