# SPDX-License-Identifier: Apache-2.0
"""The authors' checkpoints: against their equations, computed a second time from the authors' tensors alone."""

import json
import pickle
import re
from pathlib import Path

import pytest
import torch
from authors_weights import (
    ABSA_SIZES,
    CONTEXTS,
    GATES,
    HIDDEN,
    LABELS,
    LAYERS,
    SIZES,
    absa_weights,
    label_aware_weights,
    save_reference,
)
from hf_emotion.modeling import (
    BertForLabelAwareClassification,
    CGBertConfig,
    CGBertForSequenceClassification,
    QACGBertConfig,
    QACGBertForSequenceClassification,
)
from model_equations import MAPS, naive_model
from torch.testing import assert_close
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertModel,
    BertTokenizerFast,
)

from hf_emotion.convert import convert_checkpoint, label_aware_attention, quasi_attention_absa


# id -> kind of context_for_*, gate biases, what the configuration says beside the sizes
ABSA_CASES = {
    "cg-sigmoid": ("cg", False, {}),
    "cg-tanh": ("cg", False, {"gate_activation": "tanh"}),
    "qacg-shared": ("shared", False, {}),
    "qacg-per-head-biases": ("per_head", True, {}),
    "qacg-shared-factors": ("shared", True, {"quasi_alpha": 0.7, "quasi_beta": 1.2, "quasi_gamma": 0.4}),
}
EACH_ABSA = pytest.mark.parametrize("case", ABSA_CASES)
CLASSES = {
    "cg": (CGBertConfig, CGBertForSequenceClassification),
    "qacg": (QACGBertConfig, QACGBertForSequenceClassification),
}
ROLES = {"q": "query", "k": "key"}


def make_inputs(seed: int = 0) -> dict[str, torch.Tensor]:
    """Rows of 9, 7, 5 and 9 real tokens, padded on the right."""
    generator = torch.Generator().manual_seed(seed)
    mask = (torch.arange(9) < torch.tensor([9, 7, 5, 9])[:, None]).long()
    return {
        "input_ids": torch.randint(1, 31, (4, 9), generator=generator) * mask,
        "token_type_ids": torch.randint(0, 5, (4, 9), generator=generator) * mask,
        "attention_mask": mask,
    }


CONTEXT_IDS = torch.tensor([5, 0, 3, 1])


def in_our_names(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The authors' tensors as `naive_model` takes them."""
    ours: dict[str, torch.Tensor] = {}
    for name, value in weights.items():
        name = name.replace("gamma", "weight").replace("beta", "bias").replace("context_embeddings", "score")
        if match := re.fullmatch(r"bert\.encoder\.context_layer\.(\d)\.(\w+)", name):  # W_c [E_c ‖ X]
            score = f"bert.encoder.layer.{match[1]}.attention.self.score"
            parts = (
                {"context": value[:, :HIDDEN], "hidden": value[:, HIDDEN:]} if value.dim() > 1 else {"context": value}
            )
            ours |= {f"{score}.{part}_{match[2]}": tensor for part, tensor in parts.items()}
        elif match := re.fullmatch(r"(.*self)\.context_for_(q|k)\.(\w+)", name):
            ours[f"{match[1]}.score.{ROLES[match[2]]}_{match[3]}"] = value
        elif match := re.fullmatch(r"(.*self)\.lambda_(q|k)_(\w+)_layer\.(\w+)", name):
            gate = f"{match[1]}.score.{ROLES[match[2]]}_gate"
            if match[4] == "bias":  # of both terms
                ours[f"{gate}_bias"] = ours.get(f"{gate}_bias", 0) + value
            else:
                ours[f"{gate}_context_weight" if match[3] == "context" else f"{gate}_weight"] = value[0]
        else:
            ours[name] = value
    return ours


def assert_near(found, expected) -> None:
    assert_close(found, expected, rtol=1e-9, atol=1e-9)


@EACH_ABSA
@torch.no_grad()
def test_context_models_equal_the_equations(case):
    kind, gate_bias, extra = ABSA_CASES[case]
    weights, inputs = absa_weights(kind, gate_bias), {**make_inputs(), "context_ids": CONTEXT_IDS}
    model, family = quasi_attention_absa(weights, {**ABSA_SIZES, **extra}), "cg" if kind == "cg" else "qacg"
    config_class, model_class = CLASSES[family]
    assert type(model) is model_class and not model.training and model.dtype == torch.float64
    assert model.config.problem_type == "single_label_classification" and model.config.num_contexts == CONTEXTS
    heads = {} if kind == "cg" else {"context_heads": kind}
    config = config_class(**{**ABSA_SIZES, "layer_norm_eps": 1e-12, "gate_activation": "sigmoid", **heads, **extra})
    ours = in_our_names(weights)
    words = ours["bert.embeddings.word_embeddings.weight"][inputs["input_ids"]]
    logits, states, maps, _ = naive_model(family, ours, config, words, inputs)
    outputs = model(**inputs, output_attentions=True, output_hidden_states=True)
    for found in (outputs, model(**inputs)):
        assert_near(found.logits, logits)
    assert_near(list(outputs.hidden_states), states)
    for number, name in enumerate(MAPS[family]):
        assert_near(list(outputs[name]), [layer[number] for layer in maps])


@torch.no_grad()
def test_label_aware_attention_equals_the_equations():
    weights, inputs = label_aware_weights(), make_inputs()
    model = label_aware_attention(weights, SIZES)
    assert type(model) is BertForLabelAwareClassification and not model.training and model.dtype == torch.float64
    assert model.config.sentence_representation == "pooler"
    assert model.config.problem_type == "multi_label_classification"
    bert = BertModel(BertConfig(**SIZES)).double().eval()
    bert.load_state_dict({name[9:]: value for name, value in weights.items() if name.startswith("backbone.")})
    expected, outputs = bert(**inputs), model(**inputs)
    for row, length in enumerate(inputs["attention_mask"].sum(dim=1).tolist()):
        states = expected.last_hidden_state[row, :length]
        attention = torch.softmax(weights["label_embds"] @ weights["W"] @ states.T, dim=-1)  # e W Hᵀ
        sentence = expected.pooler_output[row].expand(LABELS, HIDDEN)
        joined = torch.cat([attention @ states, sentence], dim=1)
        assert_near(outputs.logits[row], joined @ weights["head.weight"][0] + weights["head.bias"])
        assert_near(outputs.label_attentions[row, :, :length], attention)
        assert not outputs.label_attentions[row, :, length:].any()


SELF = "bert.encoder.layer.1.attention.self"


# What is tolerated


def assert_same_model(found, expected) -> None:
    assert type(found) is type(expected)
    assert_close(found.state_dict(), expected.state_dict(), rtol=0, atol=0)


def test_prefix_position_ids_and_todays_names_of_norms_change_nothing():
    plain = absa_weights("shared", gate_bias=True)
    expected = quasi_attention_absa(plain, ABSA_SIZES)
    renamed = {name.replace("gamma", "weight").replace("beta", "bias"): tensor for name, tensor in plain.items()}
    positions = {"bert.embeddings.position_ids": torch.arange(17)[None]}
    without_dead = {name: tensor for name, tensor in plain.items() if "attention_gate" not in name}
    wrapped = {f"module.{name}": tensor for name, tensor in renamed.items()}
    for variant in (renamed, {**plain, **positions}, without_dead, wrapped):
        assert_same_model(quasi_attention_absa(variant, ABSA_SIZES), expected)

    plain = label_aware_weights()
    positions = {**plain, "backbone.embeddings.position_ids": torch.arange(17)[None]}
    wrapped = {f"module.{name}": tensor for name, tensor in positions.items()}
    assert_same_model(label_aware_attention(wrapped, SIZES), label_aware_attention(plain, SIZES))


def test_the_state_dict_is_left_unchanged_and_not_shared():
    weights = absa_weights("cg")
    before = {name: tensor.clone() for name, tensor in weights.items()}
    model = quasi_attention_absa(weights, ABSA_SIZES)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert list(weights) == list(before)
    assert_close(weights, before, rtol=0, atol=0)


def test_a_context_guided_bert_may_have_gate_biases_of_0():
    weights = absa_weights("cg")
    expected = quasi_attention_absa(weights, ABSA_SIZES)
    biases = {
        f"bert.encoder.layer.{i}.attention.self.{gate}.bias": torch.zeros(1).double()
        for i in range(LAYERS)
        for gate in GATES
    }
    assert_same_model(quasi_attention_absa({**weights, **biases}, ABSA_SIZES), expected)
    name = f"{SELF}.lambda_k_key_layer.bias"
    with pytest.raises(ValueError, match=rf"our CG-BERT has no biases.* not 0: {re.escape(name)}\."):
        quasi_attention_absa({**weights, **biases, name: torch.ones(1).double()}, ABSA_SIZES)


def test_with_one_head_the_configuration_says_which_model_it_is():
    sizes = {**ABSA_SIZES, "num_attention_heads": 1}
    weights = absa_weights("per_head")
    for number, name in enumerate(weights):
        if "lambda_" in name:  # d_h is d
            weights[name] = torch.linspace(-1, 1, HIDDEN, dtype=torch.float64)[None] / (number % 7 + 2)
    for extra in ({}, {"model_type": "bert"}):
        with pytest.raises(ValueError, match="set `model_type` .* one of .'cg-bert', 'qacg-bert'"):
            quasi_attention_absa(weights, {**sizes, **extra})
    assert type(quasi_attention_absa(weights, {**sizes, "model_type": "cg-bert"})) is CGBertForSequenceClassification
    model = quasi_attention_absa(weights, {**sizes, "model_type": "qacg-bert"})
    assert type(model) is QACGBertForSequenceClassification and model.config.context_heads == "shared"
    per_head = quasi_attention_absa(weights, {**sizes, "model_type": "qacg-bert", "context_heads": "per_head"})
    assert per_head.config.context_heads == "per_head"
    inputs = {**make_inputs(), "context_ids": CONTEXT_IDS}
    assert_close(per_head(**inputs).logits, model(**inputs).logits, rtol=1e-9, atol=1e-9)


def test_the_configuration_may_name_labels_targets_and_aspects_and_hold_what_files_of_bert_hold():
    names = [f"label {i}" for i in range(LABELS)]
    settings = {name: value for name, value in ABSA_SIZES.items() if name not in ("num_labels", "num_contexts")}
    settings |= {"id2label": {str(i): name for i, name in enumerate(names)}}  # as JSON has it
    settings |= {"label2id": {"LABEL_0": 0, "LABEL_1": 1}}  # left over from another file
    settings |= {"targets": ["LOC1", "LOC2", "LOC3"], "aspects": ["price", "safety"], "hidden_dropout_prob": 0.3}
    settings |= {"attention_probs_dropout_prob": 0.2, "initializer_range": 0.01, "hidden_act": "gelu"}
    settings |= {"full_pooler": False, "model_type": "bert"}
    settings |= {"architectures": ["BertForMaskedLM"], "torch_dtype": "float16", "dtype": "float16", "use_cache": True}
    settings |= {"position_embedding_type": "absolute", "pooler_type": "first_token_transform"}
    settings |= {"transformers_version": "2.0.0", "gradient_checkpointing": False}
    model = quasi_attention_absa(absa_weights("shared", dtype=torch.float32), settings)
    config = model.config
    assert config.id2label == dict(enumerate(names)) and config.label2id == {name: i for i, name in enumerate(names)}
    assert (config.num_contexts, config.hidden_dropout_prob) == (CONTEXTS, 0.3)
    assert model.dtype == torch.float32 and not hasattr(config, "full_pooler")


# What is refused


def changed(weights: dict[str, torch.Tensor], **changes) -> dict[str, torch.Tensor]:
    """Tensors by their names with "__" for "."; None removes one."""
    changes = {name.replace("__", "."): tensor for name, tensor in changes.items()}
    return {name: tensor for name, tensor in {**weights, **changes}.items() if tensor is not None}


def does_not_fit(convert, weights, settings, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        convert(weights, {name: value for name, value in settings.items() if value is not None})


def test_state_dicts_that_do_not_fit_name_the_tensors():
    context = "bert__encoder__layer__0__attention__self__context_for_q__weight"
    for changes, message in (
        ({"bert__pooler__dense__bias": None}, r"it lacks bert\.pooler\.dense\.bias\.$"),
        ({context: None}, "neither CG-BERT nor QACG-BERT: .*context_for_q"),
        (
            {"classifier__bias": None, "classifier__scale": torch.ones(1)},
            r"lacks classifier\.bias; .* classifier\.scale",
        ),
        ({"module__classifier__bias": torch.ones(7)}, r"unknown: module\.classifier\.bias\.$"),
        (
            {"classifier__weight": torch.ones(8, 12)},
            r"classifier\.weight has the shape \(8, 12\) instead of \(7, 12\)",
        ),
        ({"classifier__bias": [1.0] * 7}, "a state dict holds tensors by name"),
    ):
        does_not_fit(quasi_attention_absa, changed(absa_weights("shared"), **changes), ABSA_SIZES, message)
    for changes, message in (
        ({"W": None}, r"it lacks W\.$"),
        ({"bert__extra": torch.ones(1)}, r"unknown: bert\.extra\.$"),
        ({"W": torch.ones(12, 5)}, r"W has the shape \(12, 5\) instead of \(12, 12\)"),
    ):
        does_not_fit(label_aware_attention, changed(label_aware_weights(), **changes), SIZES, message)
    name = f"{SELF}.lambda_q_context_layer.bias"  # biases of gates come all together
    weights = changed(absa_weights("per_head", gate_bias=True), **{name: None})
    does_not_fit(quasi_attention_absa, weights, ABSA_SIZES, rf"it lacks {re.escape(name)}\.$")


def test_configurations_that_do_not_fit():
    for changes, message in (
        ({"num_contexts": None, "hidden_size": None}, r"the configuration lacks \['hidden_size', 'num_contexts'\]"),
        (
            {"gate_activations": "tanh"},
            "unknown configuration key `gate_activations`: the keys are .*'gate_activation'",
        ),
        ({"gate_heads": "per_head"}, "`gate_heads` is 'shared' in the authors' checkpoints, got 'per_head'"),
        ({"position_embedding_type": "relative_key"}, "`position_embedding_type` is 'absolute' in the authors'"),
        ({"context_heads": "per_head"}, r"context_for_k\.weight has the shape \(4, 12\) instead of \(12, 12\)"),
        ({"gate_bias": True}, r"it lacks .*lambda_q_query_layer\.bias"),
        ({"use_pooler": False}, r"unknown: bert\.pooler\.dense\.bias; unknown: bert\.pooler\.dense\.weight"),
        ({"num_hidden_layers": 4}, r"(it lacks \S+; ){9}it lacks \S+ and \d+ more\.$"),
        ({"num_hidden_layers": 1}, r"(unknown: \S+; ){9}unknown: \S+ and \d+ more\.$"),
    ):
        does_not_fit(quasi_attention_absa, absa_weights("shared"), ABSA_SIZES | changes, message)
    for changes, message in (
        ({"num_labels": 5}, r"label_embds has the shape \(7, 12\) instead of \(5, 12\)"),
        ({"num_contexts": 6}, "unknown configuration key `num_contexts`"),
        ({"tie_head": False}, "`tie_head` is True in the authors' checkpoints"),
        ({"label_attention": "leam"}, "`label_attention` is 'bilinear' in the authors' checkpoints"),
    ):
        does_not_fit(label_aware_attention, label_aware_weights(), SIZES | changes, message)


# Files

FAMILIES = {
    "label-aware": (label_aware_weights, SIZES, label_aware_attention),
    "cg": (lambda dtype=torch.float64: absa_weights("cg", dtype=dtype), ABSA_SIZES, quasi_attention_absa),
    "qacg": (
        lambda dtype=torch.float64: absa_weights("per_head", True, dtype=dtype),
        ABSA_SIZES,
        quasi_attention_absa,
    ),
}
VOCABULARY = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "hello", "world", "##s")


def absa_reference(folder: Path, **changes) -> Path:
    return save_reference(folder / "best_checkpoint.bin", absa_weights("shared"), {**ABSA_SIZES, **changes})


@pytest.mark.parametrize(
    ("family", "suffix"), [("label-aware", ".pt"), ("cg", ".pth"), ("qacg", ".bin"), ("qacg", ".safetensors")]
)
def test_a_converted_file_loads_like_any_checkpoint(family, suffix, tmp_path):
    make, sizes, convert = FAMILIES[family]
    weights = make(torch.float32)
    if family == "qacg":  # as DataParallel names them
        weights = {f"module.{name}": tensor for name, tensor in weights.items()}
    # The authors' files say nothing of labels and contexts.
    settings = {name: value for name, value in sizes.items() if name not in ("num_labels", "num_contexts")}
    reference = save_reference(tmp_path / "theirs" / f"model{suffix}", weights, settings, "bert_config.json")
    report = convert_checkpoint(reference, tmp_path / "ours")
    expected = convert(weights, sizes)
    dead = [name for name in weights if "attention_gate" in name]
    assert report.model_class == type(expected).__name__ and not report.tokenizer
    assert sorted(report.ignored) == sorted(name.removeprefix("module.") for name in dead)
    assert report.read == len(weights) - len(dead)

    names = {path.name for path in (tmp_path / "ours").iterdir()}
    assert {"config.json", "model.safetensors"} <= names and not any(name.startswith(".") for name in names)
    loaded, info = AutoModelForSequenceClassification.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"]
    assert_same_model(loaded, expected)
    assert loaded.dtype == torch.float32
    inputs = {**make_inputs(), **({} if family == "label-aware" else {"context_ids": CONTEXT_IDS})}
    assert_close(loaded(**inputs).logits, expected(**inputs).logits, rtol=1e-6, atol=1e-6)
    config = json.loads((tmp_path / "ours" / "config.json").read_text(encoding="utf-8"))
    for target in config["auto_map"].values():
        assert f"{target.partition('.')[0]}.py" in names
    AutoModel.from_pretrained(tmp_path / "ours")


def test_the_configuration_file_and_its_entries_can_be_given(tmp_path):
    reference = save_reference(tmp_path / "model.bin", absa_weights("cg"), {"vocab_size": 5})
    other = tmp_path / "other.json"
    other.write_text(json.dumps({**ABSA_SIZES, "gate_activation": "sigmoid"}), encoding="utf-8")
    names = {i: f"label {i}" for i in range(LABELS)}
    convert_checkpoint(reference, tmp_path / "ours", other, gate_activation="tanh", id2label=names)
    config = AutoModelForSequenceClassification.from_pretrained(tmp_path / "ours").config
    assert (config.gate_activation, config.vocab_size, config.id2label) == ("tanh", 31, names)


def test_old_and_new_files_of_a_state_dict_of_parameters_are_read(tmp_path):
    weights = {name: torch.nn.Parameter(tensor) for name, tensor in label_aware_weights().items()}
    (tmp_path / "config.json").write_text(json.dumps(SIZES), encoding="utf-8")
    torch.save(weights, tmp_path / "model.pt", _use_new_zipfile_serialization=False)
    convert_checkpoint(tmp_path / "model.pt", tmp_path / "ours")
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path / "ours")
    assert_same_model(loaded, label_aware_attention(weights, SIZES))


@pytest.mark.parametrize("kind", ["vocab.txt", "tokenizer.json", "tokenizer_config.json"])
def test_the_tokenizer_beside_the_reference_comes_along(kind, tmp_path):
    cased = kind != "vocab.txt"
    reference = absa_reference(tmp_path / "theirs")
    folder = reference.parent
    vocabulary = [*VOCABULARY, *(["Hello"] if cased else [])]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    if kind != "vocab.txt":
        BertTokenizerFast.from_pretrained(folder, do_lower_case=not cased, model_max_length=8).save_pretrained(folder)
        (folder / "vocab.txt").unlink()
    if kind == "tokenizer.json":
        (folder / "tokenizer_config.json").unlink()
    assert convert_checkpoint(reference, tmp_path / "ours").tokenizer
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "ours")
    assert tokenizer.tokenize("Hello worlds") == ["Hello" if cased else "hello", "world", "##s"]
    assert tokenizer.model_max_length == (8 if kind == "tokenizer_config.json" else 17)


class Malicious:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def writing(name: str, content: bytes):
    def write(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return write


def saving(weights):
    def write(folder: Path) -> Path:
        torch.save(weights, folder / "model.bin")
        return folder / "model.bin"

    return write


def with_config(content: str):
    def write(folder: Path) -> Path:
        (folder / "config.json").write_text(content, encoding="utf-8")
        return saving(absa_weights("shared"))(folder)

    return write


def with_vocabulary(size: int):
    def write(folder: Path) -> Path:
        (folder / "vocab.txt").write_text("\n".join([*VOCABULARY, *(f"w{i}" for i in range(size - 9))]) + "\n")
        return saving(absa_weights("shared"))(folder)

    return write


MALICIOUS = Malicious(Path("broken-in"))
PICKLE = pickle.dumps({"label_embds": MALICIOUS}, protocol=2)
CODE, TENSORS = "more than tensors.*could run code", "a state dict holds tensors by name"
REFUSED = {
    "malicious": (saving({**absa_weights("shared"), "classifier.bias": MALICIOUS}), ValueError, CODE),
    "plain-pickle": (writing("model.pt", PICKLE), ValueError, CODE),
    "model": (saving(torch.nn.Linear(2, 2)), ValueError, r"more than tensors.*save the model's `state_dict\(\)`"),
    "missing": (lambda folder: folder / "no.bin", OSError, "no.bin"),
    "tensor": (saving(torch.ones(2)), ValueError, TENSORS),
    "nested": (saving({"model": {}}), ValueError, TENSORS),
    "family": (saving({"a": torch.ones(2)}), ValueError, "belongs to no known family"),
    "json": (with_config("{"), ValueError, "config.json must hold a JSON object"),
    "json-list": (with_config("[1]"), ValueError, "must hold a JSON object"),
    "no-sizes": (with_config("{}"), ValueError, "the configuration lacks .*'vocab_size'"),
    "vocabulary": (with_vocabulary(40), ValueError, "has 40 words, the model only 31"),
}


@pytest.mark.parametrize(("write", "error", "message"), REFUSED.values(), ids=REFUSED)
@pytest.mark.filterwarnings("ignore:Detected pickle protocol:UserWarning")
def test_nothing_is_written_when_a_file_is_refused(write, error, message, tmp_path, monkeypatch):
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(ABSA_SIZES), encoding="utf-8")
    reference = write(folder)
    monkeypatch.chdir(tmp_path)  # where the malicious ones write
    with pytest.raises(error, match=message):
        convert_checkpoint(reference, tmp_path / "ours")
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]


def test_a_configuration_is_needed(tmp_path):
    reference = save_reference(tmp_path / "model.bin", absa_weights("shared"), None)
    with pytest.raises(FileNotFoundError, match=r"config\.json"):
        convert_checkpoint(reference, tmp_path / "ours")
    with pytest.raises(FileNotFoundError, match=r"nowhere\.json"):
        convert_checkpoint(reference, tmp_path / "ours", config=tmp_path / "nowhere.json")
    assert not (tmp_path / "ours").exists()


def test_an_output_with_files_is_refused_and_left_alone(tmp_path):
    reference = absa_reference(tmp_path / "theirs")
    output = tmp_path / "ours"
    output.mkdir()
    convert_checkpoint(reference, output)  # an empty folder will do
    before = {path.name: path.read_bytes() for path in output.iterdir()}
    for taken in (output, reference):
        with pytest.raises(FileExistsError, match="exists and is not an empty folder"):
            convert_checkpoint(reference, taken)
    assert {path.name: path.read_bytes() for path in output.iterdir()} == before


def test_an_interrupted_save_leaves_no_files(tmp_path, monkeypatch):
    def fail(self, folder, **arguments):
        (Path(folder) / "config.json").write_text("{}", encoding="utf-8")
        raise OSError("No space left on device")

    reference = absa_reference(tmp_path / "theirs")
    monkeypatch.setattr(QACGBertForSequenceClassification, "save_pretrained", fail)
    with pytest.raises(OSError, match="No space left"):
        convert_checkpoint(reference, tmp_path / "ours")
    assert not list((tmp_path / "ours").iterdir())
