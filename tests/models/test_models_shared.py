# SPDX-License-Identifier: Apache-2.0
"""What every model has to be able to do, whatever its equations. The cases are the rows of `model_cases.CASES`."""

import copy
import dataclasses
import json
import re
import typing
from collections.abc import Collection

import model_cases
import numpy as np
import pytest
import torch
import transformers
from accelerate import infer_auto_device_map
from accelerate.hooks import AlignDevicesHook, add_hook_to_module
from hf_emotion.modeling import common
from hf_emotion.modeling.pipeline_emotional_response import written
from huggingface_hub.errors import StrictDataclassError
from model_cases import (
    BY_ID,
    CASES,
    HUB_CASES,
    NATIVE_ADAPTERS,
    TINY_BERT,
    UNSUPPORTED,
    ModelCase,
    assert_self_contained,
    asymmetric_,
    each_case,
    label_names,
    setting,
    without_labels,
)
from peft import LoraConfig, PeftModel, get_peft_model
from toolkit_helpers import ROOT
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.testing import assert_close
from transformers import AutoConfig, AutoModel, Trainer
from transformers.modeling_layers import GradientCheckpointingLayer

from hf_emotion.training.seeds import EmotionTrainer


# The new names are not in transformers 5.18.
OLD_CHECKPOINTING_NAMES = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*deprecated:FutureWarning")

EACH_FAMILY = each_case("no family")
EACH_IMPLEMENTATION = pytest.mark.parametrize("implementation", ["eager", "sdpa"])
OTHER_LABELS = label_names(["calm", "rage", "fear"])
LABEL_FIELDS = {
    **{"class_counts": [3, 40, 7, 1, 12], "class_weights": [0.5, 2.0, 1.0, 3.0, 1.0]},
    **{"thresholds": [0.65, 0.5, 0.7, 0.6, 0.66], "calibration_temperature": 1.7},
    **{"abstention": {"coverage": 0.9, "threshold": 0.4}, "prediction_sets": None},
}
OF_ALL = ("calibration_temperature", "abstention")  # what no class declares
# No token twice in a reply: made-up weights would repeat one for ever, whatever the emotion. Nor padding, which some prompts have.
VARIED = {"max_new_tokens": 8, "no_repeat_ngram_size": 1, "suppress_tokens": [0]}
SETTINGS = ({}, {"num_beams": 4, "num_return_sequences": 2}, {"cache_implementation": "static", "num_beams": 3})


def without_replies(inputs: dict) -> dict:
    """What a model reads before it writes."""
    return {name: value for name, value in without_labels(inputs).items() if not name.startswith("decoder_")}


def real(case: ModelCase, logits: torch.Tensor, inputs: dict) -> torch.Tensor:
    """The logits that mean something."""
    return logits[inputs[case.mask].bool()] if case.logits_per_position else logits


def along_tokens(case: ModelCase, inputs: dict) -> set[str]:
    """The inputs that have a value for each token."""
    length = inputs[case.mask].shape[1]
    return {name for name, value in inputs.items() if value.dim() > 1 and value.shape[1] == length}


def trained_names(model) -> set[str]:
    return {name for name, parameter in model.named_parameters() if parameter.requires_grad}


def gradients(model, inputs: dict) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The loss, and the gradient of every parameter that has one."""
    model.zero_grad()
    loss = model(**inputs).loss
    loss.backward()
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return loss.detach(), found


def as_double(inputs: dict) -> dict:
    return {name: value.double() if value.is_floating_point() else value for name, value in inputs.items()}


def in_precision(case: ModelCase, inputs: dict) -> dict:
    return as_double(inputs) if case.precision == torch.float64 else inputs


def rows_of(inputs: dict) -> list[dict]:
    return [{name: value[i] for name, value in inputs.items()} for i in range(len(inputs["labels"]))]


@pytest.fixture
def own_process_group():
    """A process group of this process alone; its mesh."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    torch.distributed.destroy_process_group()


def make_trainer(model, folder, trainer_class=Trainer, train_dataset=None, **arguments) -> Trainer:
    arguments = {"report_to": "none", "save_strategy": "no", "disable_tqdm": True, "use_cpu": True, **arguments}
    arguments = transformers.TrainingArguments(output_dir=str(folder), **arguments)
    return trainer_class(model=model, args=arguments, train_dataset=train_dataset)


@each_case(slow=True)
def test_saved_model_loads_with_equal_outputs(case: ModelCase, tmp_path):
    model = case.build()
    inputs = case.make_inputs(3, 9, 1)
    model.save_pretrained(tmp_path)
    loaded, info = case.auto_class.from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"]
    assert type(loaded) is type(model) is case.model_class and not list(tmp_path.glob("*.bin"))
    assert_close(loaded.state_dict(), model.state_dict(), rtol=0, atol=0)
    # Not to the last bit: weights that lie otherwise in memory may be summed in another order.
    expected, outputs = model(**inputs), loaded(**inputs)
    for name in case.head_outputs:
        assert_close(outputs[name], expected[name], rtol=1e-6, atol=1e-6)
    if case.base_class is None:
        return
    base = AutoModel.from_pretrained(tmp_path)
    assert type(base) is type(AutoModel.from_config(case.make_config())) is case.base_class
    expected_base = getattr(model, model.base_model_prefix)(**without_labels(inputs))
    for name, value in zip(case.base_outputs, base(**without_labels(inputs)).to_tuple(), strict=True):
        assert_close(value, expected_base[name], rtol=1e-6, atol=1e-6)
    base.save_pretrained(tmp_path / "base")
    loaded, info = case.model_class.from_pretrained(tmp_path / "base", output_loading_info=True)
    assert not info["unexpected_keys"]
    assert not any(name.startswith(f"{model.base_model_prefix}.") for name in info["missing_keys"])
    assert_close(getattr(loaded, model.base_model_prefix).state_dict(), base.state_dict(), rtol=0, atol=0)


@each_case(slow=True)
def test_saved_folder_holds_the_code_that_its_config_names(case: ModelCase, tmp_path):
    model = case.build()
    if case.base_class is not None:
        getattr(model, model.base_model_prefix).save_pretrained(tmp_path / "base")
        assert_self_contained(tmp_path / "base")
    model.save_pretrained(tmp_path / "head")
    assert_self_contained(tmp_path / "head")
    config = json.loads((tmp_path / "head" / "config.json").read_text(encoding="utf-8"))
    classes = {"AutoConfig": case.config_class, case.auto_class.__name__: case.model_class}
    classes["AutoModel"] = AutoModel._model_mapping[case.config_class]
    targets = {name: f"{cls.__module__.rpartition('.')[2]}.{cls.__name__}" for name, cls in classes.items()}
    assert config["auto_map"] == targets


@each_case(slow=True)
def test_published_files_name_no_folder_that_they_came_from(case: ModelCase, tmp_path):
    case.build().save_pretrained(tmp_path / "here")
    if case.plain_config is not None:
        case.save_plain_checkpoint(tmp_path / "here-plain")
        config = case.config_class.from_pretrained(tmp_path / "here-plain", **case.config)
        case.model_class.from_pretrained(tmp_path / "here-plain", config=config).save_pretrained(tmp_path / "here")
    case.auto_class.from_pretrained(tmp_path / "here").save_pretrained(tmp_path / "published")
    files = list((tmp_path / "published").glob("*.json"))
    assert tmp_path / "published" / "config.json" in files
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert "here" not in text and not re.search(r'"_name_or_path": "[^"]', text), path.name


@each_case("check of architecture", slow=True)
def test_checkpoint_of_another_architecture_is_refused(case: ModelCase, tmp_path):
    ours, stock = case.config_class.model_type, case.plain_config.model_type
    for other in {"bert", "roberta", "mpnet", "distilbert"} - {stock}:
        AutoModel.from_config(AutoConfig.for_model(other, **TINY_BERT)).save_pretrained(tmp_path)
        for part in (case.model_class, case.base_class, case.config_class):
            with pytest.raises(ValueError, match="checkpoint must be one of .*: .* takes? an encoder") as error:
                part.from_pretrained(tmp_path)
            for said in (repr(ours), repr(stock), f"got one of {other!r}"):
                assert said in str(error.value)


@each_case("check of architecture", slow=True)
def test_encoders_of_our_own_models_and_config_without_model_type_are_taken(case: ModelCase, tmp_path):
    for other in CASES:
        if type(other.plain_config) is type(case.plain_config) and other.config_class is not case.config_class:
            other.build(**{case.dropout: 0.0}).save_pretrained(tmp_path / "ours")
            changes = {"num_labels": 3, "ignore_mismatched_sizes": True}
            model = case.model_class.from_pretrained(tmp_path / "ours", config=None, **changes)
            assert model.config.num_labels == 3
            break
    plain = case.save_plain_checkpoint(tmp_path / "plain")
    path = tmp_path / "plain" / "config.json"  # old ones name no model type
    fields = json.loads(path.read_text(encoding="utf-8"))
    del fields["model_type"]
    path.write_text(json.dumps(fields), encoding="utf-8")
    model = case.base_class.from_pretrained(tmp_path / "plain", **case.config)
    assert_close(model.get_input_embeddings().weight, plain["embeddings.word_embeddings.weight"], rtol=0, atol=0)


@each_case("labels", slow=True)
@pytest.mark.parametrize("labels", ["fewer", "a number", "renamed"])
def test_what_belongs_to_old_labels_is_dropped_for_new_ones(case: ModelCase, labels, tmp_path, caplog):
    known = {*OF_ALL, *(field.name for field in dataclasses.fields(case.config_class))}
    stored = {name: value for name, value in LABEL_FIELDS.items() if name in known and value is not None}
    config = case.make_config(**stored)
    case.model_class(config).save_pretrained(tmp_path)
    new = {
        "fewer": {"num_labels": 3, **OTHER_LABELS},
        "a number": {"num_labels": 3},
        "renamed": label_names([f"another {name}" for name in config.id2label.values()]),
    }[labels]
    mismatched = {"ignore_mismatched_sizes": True}
    for loader in (case.model_class, case.auto_class, AutoConfig):
        caplog.clear()
        loaded = loader.from_pretrained(tmp_path, **new, **({} if loader is AutoConfig else mismatched))
        found = getattr(loaded, "config", loaded)
        assert all(getattr(found, name, None) is None for name in LABEL_FIELDS)
        assert found.num_labels == len(new.get("id2label", range(3)))
        assert found.id2label == new.get("id2label", {i: f"LABEL_{i}" for i in range(3)})
        warnings = [record.getMessage() for record in caplog.records if "are dropped" in record.getMessage()]
        assert len(warnings) == 1 and all(f"`{name}`" in warnings[0] for name in stored)
    # The same labels keep everything, and what is given wins.
    caplog.clear()
    same = case.auto_class.from_pretrained(tmp_path, num_labels=5, id2label=config.id2label).config
    assert {name: getattr(same, name) for name in stored} == stored
    assert not [record for record in caplog.records if "are dropped" in record.getMessage()]
    given = {name: [value[0]] * 3 if isinstance(value, list) else value for name, value in stored.items()}
    other = case.auto_class.from_pretrained(tmp_path, num_labels=3, **OTHER_LABELS, **given, **mismatched).config
    assert {name: getattr(other, name) for name in stored} == given
    assert not [record for record in caplog.records if "are dropped" in record.getMessage()]


@each_case("plain checkpoint")
def test_plain_checkpoint_fills_all_but_the_new_weights(case: ModelCase, tmp_path, poisoned_memory):
    assert torch.empty(3).isnan().all() and torch.empty_like(torch.ones(3)).isnan().all()
    torch.manual_seed(0)
    plain = case.save_plain_checkpoint(tmp_path)
    # Ranges of their own, so that no constant of some library can give the expected spread, nor one the other's.
    ranges = {"initializer_range": 0.05, "context_initializer_range": 0.14}
    used = {name: value for name, value in ranges.items() if name in case.starts.values()}
    config = case.config_class.from_pretrained(tmp_path, **case.config, **used)
    model, info = case.model_class.from_pretrained(tmp_path, config=config, output_loading_info=True)
    assert set(info["missing_keys"]) == set(case.starts) and not info["mismatched_keys"]
    assert set(info["unexpected_keys"]) == case.unused_weights
    base = getattr(model, model.base_model_prefix).state_dict()
    for name in plain.keys() - case.unused_weights:
        assert_close(base[name], plain[name], rtol=0, atol=0)
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        assert value.isfinite().all(), name
    parameters = dict(model.named_parameters())
    for name, start in case.starts.items():
        value = parameters[name].detach()
        if start in ranges or isinstance(start, tuple):
            count, std = value.numel(), start[1] if isinstance(start, tuple) else ranges[start]
            # The bounds are four standard errors, wide enough for small layers.
            assert abs(value.mean()) < 4 * std / count**0.5, name
            assert abs(value.std() / std - 1) < 4 / (2 * count) ** 0.5, name
        elif start == "identity":
            assert_close(value, torch.eye(*value.shape))
        else:
            assert_close(value, torch.full_like(value, start))
    fresh = dict(case.model_class(case.make_config()).named_buffers())
    for name, value in model.named_buffers():
        assert_close(value, fresh[name], rtol=0, atol=0)


@each_case("sdpa")
def test_eager_equals_sdpa_also_when_it_is_changed_later(case: ModelCase):
    inputs = case.make_inputs(4, 9, 2)
    results = []
    for built, used in (("eager", "eager"), ("sdpa", "sdpa"), ("sdpa", "eager")):
        model = case.build(attn_implementation=built)
        assert model.config._attn_implementation == built
        model.set_attn_implementation(used)
        results.append((model(**inputs).logits, *gradients(model, inputs)))
    for found in results[1:]:
        assert_close(found, results[0], rtol=1e-4, atol=1e-5)
    maps = model(**inputs, output_attentions=True)[case.attentions]
    assert len(maps) == (case.attention_maps or model.config.num_hidden_layers)


@each_case()
@EACH_IMPLEMENTATION
def test_padding_changes_nothing_wherever_it_stands(case: ModelCase, implementation):
    """Behind the tokens, before them, or on both sides, whatever is there; each row is as if alone."""
    if implementation == "sdpa" and case.id in UNSUPPORTED["sdpa"]:
        pytest.skip(UNSUPPORTED["sdpa"][case.id])
    model = case.build(attn_implementation=implementation).to(case.precision)
    inputs = in_precision(case, case.make_inputs(3, 9, 3))
    exactness = 1e-5 if implementation == "eager" and case.id in model_cases.FLOAT32_SOFTMAX else case.exactness
    outputs, tokens = model(**inputs), along_tokens(case, inputs)
    expected = real(case, outputs.logits, inputs)
    for row, length in enumerate(inputs[case.mask].sum(dim=1).tolist()):
        single = {name: value[row : row + 1] for name, value in without_labels(inputs).items()}
        single = {name: value[:, :length] if name in tokens else value for name, value in single.items()}
        of_batch = outputs.logits[row : row + 1, : length if case.logits_per_position else None]
        assert_close(model(**single).logits, of_batch, rtol=exactness, atol=exactness)
        del single[case.mask]
        assert_close(model(**single).logits, of_batch, rtol=exactness, atol=exactness)
    longer = dict(inputs)
    for name in tokens:
        filler = -100 if name == "labels" else 0
        longer[name] = nn.functional.pad(inputs[name], (0, 0) * (inputs[name].dim() - 2) + (0, 5), value=filler)
    in_front = padding_in_front(case, inputs)
    for given in (noisy(case, longer), in_front if case.id in model_cases.PADDED_BY_ID else noisy(case, in_front)):
        found = model(**given)
        assert_close(real(case, found.logits, given), expected, rtol=exactness, atol=exactness)
        assert_close(found.loss, outputs.loss, rtol=1e-6, atol=0)  # of replies always in float32
    if case.id not in UNSUPPORTED["inputs_embeds"]:
        given["inputs_embeds"] = model.get_input_embeddings()(given.pop("input_ids"))
        assert_close(real(case, model(**given).logits, given), expected, rtol=exactness, atol=exactness)


def noisy(case: ModelCase, inputs: dict) -> dict:
    """Padding holds something: it is not left at the padding id."""
    mask = inputs[case.mask].bool()
    noise, tokens = in_precision(case, case.make_inputs(*mask.shape, 4)), along_tokens(case, inputs)
    return inputs | {
        name: torch.where(mask.reshape(*mask.shape, *[1] * (inputs[name].dim() - 2)), inputs[name], noise[name])
        for name in tokens - {case.mask, "decoder_attention_mask", "labels"}
    }


def padding_in_front(case: ModelCase, inputs: dict) -> dict:
    """The same rows with their padding before them, the second row's on both sides."""
    order = torch.argsort(inputs[case.mask], dim=1, stable=True)
    order[1] = order[1].roll(-1)
    assert inputs[case.mask][1].sum() < order.shape[1]
    return reordered(case, inputs, order)


def reordered(case: ModelCase, inputs: dict, order: torch.Tensor) -> dict:
    """The tokens of each row in another order (batch, length)."""
    moved = dict(inputs)
    for name in along_tokens(case, inputs):
        places = order.reshape(*order.shape, *[1] * (inputs[name].dim() - 2)).expand_as(inputs[name])
        moved[name] = inputs[name].gather(1, places)
    return moved


@each_case()
def test_labels_change_no_logits_and_only_dropout_tells_training_from_evaluation(case: ModelCase):
    model = case.build()
    inputs = case.make_inputs(3, 9, 6)
    logits = model(**without_labels(inputs)).logits
    assert_close(model(**inputs).logits, logits, rtol=0, atol=0)
    assert_close(model.train()(**inputs).logits, logits, rtol=1e-6, atol=1e-6)
    if case.id not in UNSUPPORTED["dropout"]:
        model = case.build(**{case.dropout: 0.5})
        assert_close(model(**inputs).logits, logits, rtol=0, atol=0)
        torch.manual_seed(0)
        model.train()
        assert (model(**inputs).logits - model(**inputs).logits).abs().max() > 0.01


@each_case("inputs_embeds")
def test_ids_and_embeddings_exclude_each_other(case: ModelCase):
    model, inputs = case.build(), case.make_inputs(3, 9, 7)
    embeds = model.get_input_embeddings()(inputs["input_ids"])
    for given in ({**inputs, "inputs_embeds": embeds}, {"attention_mask": inputs["attention_mask"]}):
        with pytest.raises(ValueError, match="`input_ids` and `inputs_embeds`"):
            model(**given)


@each_case("offload", slow=True)
@torch.no_grad()
def test_layers_on_several_devices_give_the_same_values(case: ModelCase, tmp_path):
    """As accelerate spreads them, here over memory and disk. The weights on disk are on the meta device until their module runs."""
    model = case.build()
    model.save_pretrained(tmp_path)
    size = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    memory = {"cpu": size * 9 // 10, "disk": 2 * size}
    device_map = infer_auto_device_map(model, memory, no_split_module_classes=model._no_split_modules)
    loaded = case.auto_class.from_pretrained(tmp_path, device_map=device_map, offload_folder=tmp_path / "disk")
    assert any(parameter.is_meta for parameter in loaded.parameters())
    inputs = case.make_inputs(3, 9, 7)
    found, expected = loaded(**inputs), model(**inputs)
    assert_close((found.logits, found.loss), (expected.logits, expected.loss), rtol=1e-6, atol=1e-6)
    if case.id not in UNSUPPORTED["generation"]:
        given = without_replies(inputs)
        assert torch.equal(loaded.generate(**given), model.generate(**given))


def pieces(module: nn.Module, whole: Collection[str]) -> list[nn.Module]:
    """The modules of these class names, and the leaves that are in none of them."""
    if type(module).__name__ in whole or not list(module.children()):
        return [module]
    return [piece for child in module.children() for piece in pieces(child, whole)]


def spread_over_pretended_devices(model: nn.Module) -> FakeTensorMode:
    """
    Each piece on a device of its own, with accelerate's hooks, which move what a piece is given. In this mode tensors have a device
    and no values, and refuse to meet those of another device.
    """
    mode, places = FakeTensorMode(), {}
    for number, piece in enumerate(pieces(model, model._no_split_modules or ())):
        places |= dict.fromkeys(piece.modules(), f"meta:{number}")
    with mode:
        for module in model.modules():
            for values in (module._parameters, module._buffers):
                for name, value in values.items():
                    if value is not None:
                        moved = mode.from_tensor(value).detach().to(places.get(module, "meta:0"))
                        values[name] = nn.Parameter(moved) if values is module._parameters else moved
        for module, place in {**places, model: "meta:0"}.items():
            hook = AlignDevicesHook(place, io_same_device=module is model, skip_keys=model._skip_keys_device_placement)
            add_hook_to_module(module, hook)
    return mode


@each_case("offload", slow=True)
@pytest.mark.parametrize("maps", [False, True])
@torch.no_grad()
def test_each_piece_may_be_on_a_device_of_its_own(case: ModelCase, maps):
    model = case.build(attn_implementation="eager" if maps else None)
    with spread_over_pretended_devices(model) as mode:
        inputs = {name: mode.from_tensor(value).to("meta:0") for name, value in case.make_inputs(3, 9, 7).items()}
        outputs = model(**inputs, output_attentions=maps)
    assert str(outputs.loss.device) == str(outputs.logits.device) == "meta:0"
    assert not maps or len(outputs[case.attentions]) == (case.attention_maps or model.config.num_hidden_layers)


@pytest.mark.filterwarnings("ignore:FSDP2-wrapped module .* returned a view tensor")
@each_case("offload", slow=True)
def test_sharded_layers_give_the_same_values_and_gradients(case: ModelCase, own_process_group):
    """Each layer is a unit of FSDP: outside its `forward` its weights are shards, which no other tensor combines with."""
    inputs = case.make_inputs(3, 9, 7)
    expected = gradients(case.build(), inputs)
    model = case.build()
    for module in [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]:
        fully_shard(module, mesh=own_process_group)
    loss, found = gradients(fully_shard(model, mesh=own_process_group), inputs)
    assert all(isinstance(parameter, DTensor) for parameter in model.parameters())
    found = {name: gradient.full_tensor() for name, gradient in found.items()}
    assert_close((loss, found), expected, rtol=1e-5, atol=1e-6)


@each_case(slow=True)
def test_return_dict_false_gives_the_same_values_as_a_tuple(case: ModelCase):
    model, by_config = case.build(), case.build(return_dict=False)
    inputs = case.make_inputs(3, 9, 8)
    parts = [(model, by_config, inputs, case.head_outputs)]
    if case.base_class is not None:
        bases = (getattr(one, one.base_model_prefix) for one in (model, by_config))
        parts.append((*bases, without_labels(inputs), case.base_outputs))
    for part, other, arguments, names in parts:
        expected = part(**arguments)
        for values in (part(**arguments, return_dict=False), other(**arguments)):
            assert type(values) is tuple and len(values) == len(names)
            for name, value in zip(names, values, strict=True):
                assert_close(value, expected[name], rtol=0, atol=0)
    assert len(model(**without_labels(inputs), return_dict=False)) == len(case.head_outputs) - 1


@each_case("hidden states")
def test_hidden_states_and_attentions_on_request(case: ModelCase):
    model = case.build(attn_implementation="eager")
    inputs = case.make_inputs(3, 9, 9)
    outputs = model(**inputs, output_hidden_states=True, output_attentions=True)
    layers, heads = model.config.num_hidden_layers, model.config.num_attention_heads
    assert len(outputs.hidden_states) == layers + 1 and len(outputs.attentions) == layers
    assert all(value.shape == (3, 9, model.config.hidden_size) for value in outputs.hidden_states)
    for value in outputs.attentions:
        assert value.shape == (3, heads, 9, 9)
        assert_close(value.sum(dim=-1), torch.ones(3, heads, 9))
    assert_close(outputs.logits, model(**inputs).logits, rtol=0, atol=0)
    if case.base_class is None:
        return
    base = model.base_model(**without_labels(inputs), output_hidden_states=True, output_attentions=True)
    assert set(base) <= {field.name for field in dataclasses.fields(base)}, "an output that no docstring names"
    last = base.last_hidden_state
    if case.hidden_states_end_with_output:
        assert_close(outputs.hidden_states[-1], last, rtol=0, atol=0)
    else:
        assert (outputs.hidden_states[-1] - last).abs().max() > 0.01


@OLD_CHECKPOINTING_NAMES
@each_case("gradient checkpointing", slow=True)
@pytest.mark.parametrize("use_reentrant", [True, False])
def test_gradient_checkpointing_equals_plain(case: ModelCase, use_reentrant):
    inputs = case.make_inputs(4, 9, 10)
    plain = case.build().train()
    checkpointed = copy.deepcopy(plain)
    checkpointed.gradient_checkpointing_enable({"use_reentrant": use_reentrant})
    assert checkpointed.is_gradient_checkpointing
    calls = []
    for module in checkpointed.modules():
        if isinstance(module, GradientCheckpointingLayer):  # whose own hooks stay outside the checkpoint
            next(module.children()).register_forward_pre_hook(lambda *_: calls.append(1))
    expected, results = gradients(plain, inputs), gradients(checkpointed, inputs)
    # Recomputed in the backward pass: otherwise nothing has been checkpointed and the comparison says nothing.
    assert len(calls) == 2 * case.stacks * plain.config.num_hidden_layers
    assert set(results[1]) == {name for name, _ in plain.named_parameters()}, "a parameter without gradient"
    assert_close(results, expected, rtol=1e-5, atol=1e-6)


@each_case(slow=True)
def test_gradient_accumulation_equals_one_large_batch(case: ModelCase, tmp_path):
    rows, results = rows_of(case.make_inputs(8, 7, 11)), [dict(case.build().named_parameters())]
    settings = {"optim": "sgd", "learning_rate": 0.5, "lr_scheduler_type": "constant", "num_train_epochs": 2}
    settings |= {"max_grad_norm": 0.0}  # clipping would hide gradients that are too large
    for batch, accumulation in ((8, 1), (2, 4)):
        settings |= {"per_device_train_batch_size": batch, "gradient_accumulation_steps": accumulation}
        model = case.build()
        trainer = make_trainer(model, tmp_path, train_dataset=rows, train_sampling_strategy="sequential", **settings)
        trainer.train()
        assert trainer.state.global_step == 2
        results.append(dict(model.named_parameters()))
    start, large, accumulated = results
    assert max((large[name] - start[name]).abs().max() for name in start) > 0.01, "training has to change something"
    assert_close(accumulated, large, rtol=0, atol=1e-5)


@each_case()
def test_bfloat16_computes_and_trains_like_float32(case: ModelCase):
    inputs = case.make_inputs(4, 9, 12)
    model = case.build().train()
    expected, _ = gradients(model, inputs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss, found = gradients(model, inputs)
    assert loss.dtype == torch.float32
    assert_close(loss, expected, rtol=0.02, atol=0)
    assert set(found) == trained_names(model)
    for name, value in found.items():
        assert value.dtype == torch.float32 and value.isfinite().all(), name
    logits = model.eval()(**inputs).logits
    model.to(torch.bfloat16)
    outputs = model(**{name: v.bfloat16() if v.is_floating_point() else v for name, v in inputs.items()})
    assert outputs.logits.dtype == torch.bfloat16 and outputs.loss.isfinite()
    assert_close(outputs.logits.float(), logits, rtol=0.1, atol=0.1 * max(1.0, logits.std().item()))


@each_case()
def test_labels_of_32_bits_of_another_device_and_rows_without_a_label(case: ModelCase):
    model, inputs = case.build(), case.make_inputs(3, 9, 6)
    expected = model(**inputs).loss
    labels = inputs["labels"]
    assert_close(model(**{**inputs, "labels": labels.int()}).loss, expected, rtol=0, atol=0)
    if not labels.is_floating_point():
        assert model(**{**inputs, "labels": torch.full_like(labels, -100)}).loss == 0
    # As with a model that is spread over several: "meta" is the other device that every machine has.
    head = model.get_output_embeddings() or model.classifier
    head.register_forward_hook(lambda module, given, output: output.to("meta"))
    assert model(**inputs).loss.is_meta


# Gradients of the other cases: see the tests of bfloat16 and of checkpointing.
@each_case("no family", slow=True, quick=["esa-multi-label-thresholds", "any-modernbert", "dialogue-model"])
def test_overfits_eight_examples(case: ModelCase):
    torch.manual_seed(0)
    model = case.model_class(case.make_config(initializer_range=0.2)).train()
    inputs = case.make_inputs(8, 9, 13)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.0)
    losses = []
    for _ in range(case.overfit_steps):
        optimizer.zero_grad()
        loss = model(**inputs).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0], losses[:: case.overfit_steps // 5]


@each_case(slow=True)
def test_weight_decay_spares_norms_biases_and_what_the_model_names(case: ModelCase, tmp_path):
    model = case.build()
    trainer = make_trainer(model, tmp_path, EmotionTrainer, weight_decay=0.1)
    modules = [(name, module) for name, module in model.named_modules() if "norm" in type(module).__name__.lower()]
    norms = {f"{name}.{part}" for name, module in modules for part, _ in module.named_parameters(recurse=False)}
    names = {name for name, _ in model.named_parameters()}
    spared = norms | case.no_decay | {name for name in names if "bias" in name}
    assert norms and case.no_decay <= names
    # It lists tied weights under both their names.
    assert set(trainer.get_decay_parameter_names(model)) & names == names - spared
    optimizer = trainer.create_optimizer()
    decays = {id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    assert len(decays) == len(trained_names(model))
    for name in trained_names(model):
        parameter = model.get_parameter(name)
        assert decays[id(parameter)] == (0.0 if name in spared else 0.1), name


@each_case(slow=True)
def test_trainer_predicts_logits_only(case: ModelCase, tmp_path):
    model = case.build(output_attentions=True)
    inputs = case.make_inputs(6, 9, 14)
    assert model(**inputs).get(case.attentions) is not None, "maps are asked for in the config"
    trainer = make_trainer(model, tmp_path, per_device_eval_batch_size=4)
    prediction = trainer.predict(rows_of(inputs))
    assert isinstance(prediction.predictions, np.ndarray)
    assert_close(torch.from_numpy(prediction.predictions), model(**inputs).logits.detach(), rtol=1e-5, atol=1e-5)
    assert_close(torch.from_numpy(prediction.label_ids), inputs["labels"])


def test_code_over_internals_of_transformers_says_once_that_a_version_is_untested(monkeypatch, caplog):
    """Where the bounds of the package do not hold: the code beside the weights of a checkpoint."""
    assert f'"{common.TESTED}",' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    following, said = common.TESTED.partition("<")[2], {}
    major, minor = map(int, following.split("."))
    for patch, case_id in enumerate(HUB_CASES):
        caplog.clear()
        for installed in (f"{major}.{minor - 1}.9", f"{following}.{patch}", f"{following}.{patch}"):
            monkeypatch.setattr(transformers, "__version__", installed)
            BY_ID[case_id].build()
        said[BY_ID[case_id].model_class.__name__] = [record.getMessage() for record in caplog.records]
        wanted = f"was tested with {common.TESTED}, and {following}.{patch} is installed"
        assert all(wanted in message for message in said[BY_ID[case_id].model_class.__name__])
    assert {name: len(messages) for name, messages in said.items()} == dict.fromkeys(said, 1) | {
        "LabelAwareForSequenceClassification": 0,  # over encoders, through `AutoModel` alone
        "DialogueBiLSTMForEmotionRecognition": 0,
    }


@OLD_CHECKPOINTING_NAMES
@each_case("peft", slow=True)
def test_lora_attaches_trains_and_loads(case: ModelCase, tmp_path):
    base = case.build()
    inputs = case.make_inputs(4, 9, 15)
    plain_logits = base(**inputs).logits.detach()
    modules = {"target_modules": list(case.lora_targets), "modules_to_save": list(case.peft_modules_to_save)}
    lora = LoraConfig(task_type=case.peft_task, r=2, **modules)
    whole = LoraConfig(task_type=case.peft_task, r=2, target_modules="all-linear")
    assert_close(get_peft_model(case.build(), whole)(**inputs).logits.detach(), plain_logits)
    model = get_peft_model(base, lora)
    assert_close(model(**inputs).logits.detach(), plain_logits)
    trained = trained_names(model)
    for part in (*case.lora_targets, *case.peft_modules_to_save):
        assert any(part in name for name in trained), part
    assert all("lora_" in name or "modules_to_save" in name for name in trained)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.01)
    before = model(**inputs).loss
    before.backward()
    optimizer.step()
    after = model(**inputs)
    assert after.loss < before - 1e-4
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(case.build(), tmp_path).eval()
    assert_close(loaded(**inputs).logits, after.logits, rtol=1e-6, atol=1e-6)


@OLD_CHECKPOINTING_NAMES
@each_case("peft", "labels", slow=True)
@pytest.mark.parametrize("attached", ["alone", pytest.param("natively", marks=NATIVE_ADAPTERS), "second"])
def test_adapter_that_leaves_new_weights_untrained_is_refused(case: ModelCase, attached, tmp_path):
    model, inputs = case.build(), case.make_inputs(4, 9, 15)
    model.save_pretrained(tmp_path)
    plain, new = {"r": 2, "target_modules": list(case.lora_targets)}, [*case.peft_modules_to_save]
    if any(name.endswith("pooler.dense.weight") for name in model.state_dict()):
        new.append("pooler")  # new, too, without a checkpoint
    new.sort()
    if attached == "natively":
        model.add_adapter(LoraConfig(**plain))
    else:
        model = get_peft_model(model, LoraConfig(**plain, modules_to_save=new if attached == "second" else None))
    if attached == "second":
        assert model.train()(**inputs).loss.requires_grad
        model.add_adapter("again", LoraConfig(**plain))
        model.set_adapter("again")
    model.eval()(**inputs)
    with pytest.raises(ValueError, match=re.escape(f"name {new} in the `modules_to_save`")):
        model.train()(**inputs)
    loaded = get_peft_model(case.model_class.from_pretrained(tmp_path), LoraConfig(**plain))  # no weights are new
    assert loaded.train()(**inputs).loss.requires_grad


@OLD_CHECKPOINTING_NAMES
@each_case("peft's defaults", slow=True)
def test_lora_with_pefts_defaults_trains_and_keeps_all_that_is_new(case: ModelCase, tmp_path):
    """New labels over a plain checkpoint: a new start of the new weights must not take the place of the trained ones."""
    case.save_plain_checkpoint(tmp_path / "plain")
    base, inputs = case.start(tmp_path / "plain", 0), case.make_inputs(4, 9, 15)
    new = set(case.starts) or {name for name, _ in base.named_parameters() if "encoder." not in name}
    own = [name for name in case.peft_modules_to_save if name not in ("classifier", "score")] or None
    lora = LoraConfig(task_type=case.peft_task, r=2, target_modules="all-linear", modules_to_save=own)
    model = get_peft_model(base, lora)
    trained = {
        name.removeprefix("base_model.model.").replace(".modules_to_save.default", "").replace(".base_layer", "")
        for name in trained_names(model)
    }
    assert new <= trained, "new weights that are frozen"
    assert all("lora_" in name for name in trained - new)
    start = model(**inputs).logits.detach()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(**inputs).loss.backward()
        optimizer.step()
    expected = model(**inputs).logits.detach()
    assert (expected - start).abs().max() > 0.1
    model.save_pretrained(tmp_path / "adapter")
    loaded = PeftModel.from_pretrained(case.start(tmp_path / "plain", 1), tmp_path / "adapter").eval()
    assert_close(loaded(**inputs).logits, expected, rtol=1e-5, atol=1e-5)
    merged = loaded.merge_and_unload()
    assert_close(merged(**inputs).logits, expected, rtol=1e-4, atol=1e-4)
    merged.save_pretrained(tmp_path / "merged")
    again, info = case.model_class.from_pretrained(tmp_path / "merged", output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"]
    assert_close(again.eval()(**inputs).logits, expected, rtol=1e-4, atol=1e-4)


@each_case("fullgraph compile", slow=True, quick=["esa-multi-label-thresholds"])
def test_compiled_whole_equals_eager_with_few_recompilations(case: ModelCase):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    model = case.build()
    assert model._can_compile_fullgraph or not case.generation, "what transformers reads of models that generate"
    # The backend that calls no C++ compiler: what is tested is the graph, not the code made of it.
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    try:
        with torch.no_grad():
            for length in (6, 8, 11, 15, 23):
                inputs = case.make_inputs(3, length, length)
                expected, outputs = model(**inputs), compiled(**inputs)
                assert_close(outputs.logits, expected.logits, rtol=1e-4, atol=1e-4)
                moved = padding_in_front(case, inputs)
                found = real(case, compiled(**moved).logits, moved)
                assert_close(found, real(case, expected.logits, inputs), rtol=1e-4, atol=1e-4)
                assert_close(outputs.loss, expected.loss, rtol=1e-4, atol=1e-4)
        assert 1 <= torch._dynamo.utils.counters["stats"]["unique_graphs"] <= 3
    finally:
        torch._dynamo.reset()


def generation_inputs(case: ModelCase) -> dict[str, torch.Tensor]:
    """What the model reads before it writes; what writes behind its input is padded on the left."""
    inputs = without_replies(case.make_inputs(3, 9, 18))
    if not case.make_config().is_encoder_decoder:
        inputs = reordered(case, inputs, torch.argsort(inputs[case.mask], dim=1, stable=True))
    return inputs


@pytest.mark.parametrize("settings", SETTINGS, ids=["greedy", "beams-two-replies", "static-cache-beams"])
@each_case("generation")
def test_generation_with_a_cache_equals_one_without(case: ModelCase, settings):
    model = case.build().double()
    inputs = as_double(generation_inputs(case))
    arguments = {**VARIED, "return_dict_in_generate": True, "output_logits": True}
    uncached = {name: value for name, value in settings.items() if name != "cache_implementation"}
    expected = model.generate(**inputs, **arguments, **uncached, use_cache=False)
    outputs = model.generate(**inputs, **arguments, **settings, use_cache=True)
    with pytest.raises(ValueError, match="moods"):
        model.generate(**inputs, moods=torch.zeros(3))
    assert torch.equal(outputs.sequences, expected.sequences)
    assert len({tuple(row) for row in outputs.sequences.tolist()}) > 1, "replies that differ, or this compares nothing"
    assert_close(torch.stack(outputs.logits), torch.stack(expected.logits), rtol=1e-9, atol=1e-9)


@each_case("generation")
def test_every_row_of_a_batch_is_generated_as_if_alone(case: ModelCase):
    model = case.build().double()
    inputs = as_double(generation_inputs(case))
    in_front = {**inputs, **padding_in_front(case, inputs)}
    for settings in ({}, {"num_beams": 3}):
        sequences = model.generate(**inputs, **VARIED, use_cache=True, **settings)
        if model.config.is_encoder_decoder:
            assert torch.equal(model.generate(**in_front, **VARIED, use_cache=True, **settings), sequences)
        replies = written(sequences, inputs, model.config)
        for row, real_tokens in enumerate(inputs[case.mask].bool()):
            single = {name: value[row : row + 1] for name, value in inputs.items()}
            for name in ("input_ids", case.mask):
                single[name] = single[name][:, real_tokens]
            alone = written(model.generate(**single, **VARIED, use_cache=True, **settings), single, model.config)[0]
            assert torch.equal(replies[row, : len(alone)], alone)


@each_case()
def test_config_survives_saving(case: ModelCase, tmp_path):
    config = case.make_config()
    config.save_pretrained(tmp_path)
    loaded = AutoConfig.from_pretrained(tmp_path)
    assert type(loaded) is case.config_class
    for name, value in case.config.items():
        assert setting(getattr(loaded, name)) == setting(value), name
    assert loaded.to_diff_dict() == config.to_diff_dict()
    module = config.auto_map["AutoConfig"].partition(".")[0]
    assert (tmp_path / f"{module}.py").is_file(), "a config saved alone has its code beside it too"


@pytest.mark.parametrize("config_class", dict.fromkeys(case.config_class for case in CASES))
def test_every_field_of_our_own_checks_its_type(config_class):
    parents = [cls for cls in config_class.__mro__ if cls.__module__.startswith("hf_emotion.")]
    types = {name: kind for cls in parents for name, kind in cls.__dict__.get("__annotations__", {}).items()}
    types = {name: kind for name, kind in types.items() if typing.get_origin(kind) is not typing.ClassVar}
    assert len(types) >= 9
    for name, kind in types.items():
        with pytest.raises(StrictDataclassError, match=f"'{name}'"):
            config_class(**{name: 3.5 if kind == str | None else "nonsense"})


@pytest.mark.parametrize(("config_class", "arguments", "message"), model_cases.BAD_CONFIGS)
def test_config_refuses(config_class, arguments, message):
    with pytest.raises(Exception, match=f"(?s){message}") as caught:
        config_class(**arguments)
    assert type(caught.value).__module__.startswith("huggingface_hub") or isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("case_id", "arguments", "message"),
    [
        ("label-aware-pooler-hidden-balanced", {"thresholds": [0.5]}, "`thresholds`"),
        ("label-aware", {"id2label": {0: "sun", 1: "rain"}, "thresholds": [0.5] * 5}, "2 labels, got 5"),
        ("qacg-per-head-context-gate-bias", {"aspects": ["price", "safety"]}, "`num_contexts` is 6"),
        ("qacg-per-head-context-gate-bias", {"gate_heads": "none"}, "'gate_heads'"),
    ],
)
def test_arguments_given_at_loading_are_checked(tmp_path, case_id, arguments, message):
    case = BY_ID[case_id]
    case.build().save_pretrained(tmp_path)
    with pytest.raises(Exception, match=message):
        case.auto_class.from_pretrained(tmp_path, **arguments)


@each_case("token embeddings", slow=True)
@pytest.mark.parametrize("part", ["head", "base"])
def test_token_embeddings_can_be_resized(case: ModelCase, part, tmp_path):
    if part == "base" and case.base_class is None:
        pytest.skip(UNSUPPORTED["base model"][case.id])
    model = case.build() if part == "head" else asymmetric_(case.base_class(case.make_config())).eval()
    inputs, result = without_labels(case.make_inputs(3, 9, 16)), "logits" if part == "head" else case.base_outputs[0]
    expected = model(**inputs)[result]
    size, width = model.get_input_embeddings().weight.shape
    model.resize_token_embeddings(size + 3)
    assert model.config.get_text_config().vocab_size == size + 3
    assert model.get_input_embeddings().weight.shape == (size + 3, width)
    assert_close(model(**inputs)[result][..., : expected.shape[-1]], expected, rtol=1e-6, atol=1e-6)
    for name in {"input_ids", "decoder_input_ids"} & inputs.keys():
        inputs[name][:, 1] = size + 2
    expected = model(**inputs)[result]
    assert expected.isfinite().all()
    model.save_pretrained(tmp_path)
    loaded = (case.auto_class if part == "head" else AutoModel).from_pretrained(tmp_path)
    assert_close(loaded(**inputs)[result], expected, rtol=1e-6, atol=1e-6)


@each_case("check of masks", slow=True)
def test_mask_of_another_shape_is_refused(case: ModelCase):
    model, inputs = case.build(), case.make_inputs(2, 5, 17)
    for shape in ((2, 4), (2, 1, 5), (2, 1, 1, 5)):
        with pytest.raises(ValueError, match=rf"`{case.mask}` must have shape .* got {re.escape(str(shape))}"):
            model(**{**inputs, case.mask: torch.ones(shape, dtype=torch.long)})


@each_case(slow=True)
def test_weights_of_the_cases_are_asymmetric(case: ModelCase):
    """Equal or small ones would hide what is transposed or left out."""
    for name, value in case.build().named_parameters():
        if value.dim() == 2 and value.shape[0] == value.shape[1] and value.numel() > 1:
            assert (value - value.T).abs().max() > 0.1, name
        assert value.abs().min() > 0.01, name
