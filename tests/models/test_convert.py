# SPDX-License-Identifier: Apache-2.0
"""The authors' checkpoints: against their equations, computed a second time from the authors' tensors alone."""

import json
import pickle
import re
from pathlib import Path

import pytest
import torch
from authors_weights import ABSA_SIZES, CONTEXTS, GATES, HIDDEN, LABELS, LAYERS, SIZES, absa_weights, save_reference
from authors_weights import label_aware_weights as label_weights
from hf_emotion.modeling import CGBertForSequenceClassification, QACGBertForSequenceClassification
from model_equations import MAPS, naive_model
from torch.testing import assert_close
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertConfig, BertModel, BertTokenizerFast

from hf_emotion import modeling
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
CLASSES = {"cg": CGBertForSequenceClassification, "qacg": QACGBertForSequenceClassification}
ROLES = {"q": "query", "k": "key"}
CONTEXT_IDS = torch.tensor([5, 0, 3, 1])
NEAR = {"rtol": 1e-9, "atol": 1e-9}
SELF = "bert.encoder.layer.1.attention.self"
FIRST, GATE = "bert.encoder.layer.0.attention.self.context_for_q.weight", f"{SELF}.lambda_q_context_layer.bias"
# Tensors and settings that change, or are missing: None.
ABSA_MISFITS = (
    ({"bert.pooler.dense.bias": None}, r"it lacks bert\.pooler\.dense\.bias\.$"),
    ({FIRST: None}, "neither CG-BERT nor QACG-BERT: .*context_for_q"),
    ({"classifier.bias": None, "classifier.a": torch.ones(1)}, r"lacks classifier\.bias; .* classifier\.a"),
    ({"module.classifier.bias": torch.ones(7)}, r"unknown: module\.classifier\.bias\.$"),
    ({"classifier.weight": torch.ones(8, 12)}, r"classifier\.weight has the shape \(8, 12\) instead of \(7, 12\)"),
    ({"classifier.bias": [1.0] * 7}, "a state dict holds tensors by name"),
    ({"num_contexts": None, "hidden_size": None}, r"the configuration lacks \['hidden_size', 'num_contexts'\]"),
    ({"gate_activations": "tanh"}, "unknown configuration key `gate_activations`: the .* are .*'gate_activation'"),
    ({"gate_heads": "per_head"}, "`gate_heads` is 'shared' in the authors' checkpoints, got 'per_head'"),
    ({"position_embedding_type": "relative_key"}, "`position_embedding_type` is 'absolute' in the authors'"),
    ({"context_heads": "per_head"}, r"context_for_k\.weight has the shape \(4, 12\) instead of \(12, 12\)"),
    ({"gate_bias": True}, r"it lacks .*lambda_q_query_layer\.bias"),
    ({"use_pooler": False}, r"unknown: bert\.pooler\.dense\.bias; unknown: bert\.pooler\.dense\.weight"),
    ({"num_hidden_layers": 4}, r"(it lacks \S+; ){9}it lacks \S+ and \d+ more\.$"),
    ({"num_hidden_layers": 1}, r"(unknown: \S+; ){9}unknown: \S+ and \d+ more\.$"),
)
LABEL_AWARE_MISFITS = (
    ({"W": None}, r"it lacks W\.$"),
    ({"bert.extra": torch.ones(1)}, r"unknown: bert\.extra\.$"),
    ({"W": torch.ones(12, 5)}, r"W has the shape \(12, 5\) instead of \(12, 12\)"),
    ({"num_labels": 5}, r"label_embds has the shape \(7, 12\) instead of \(5, 12\)"),
    ({"num_contexts": 6}, "unknown configuration key `num_contexts`"),
    ({"tie_head": False}, "`tie_head` is True in the authors' checkpoints"),
    ({"label_attention": "leam"}, "`label_attention` is 'bilinear' in the authors' checkpoints"),
)
FAMILIES = {
    "label-aware": (label_weights(torch.float32), SIZES, label_aware_attention),
    "cg": (absa_weights("cg", dtype=torch.float32), ABSA_SIZES, quasi_attention_absa),
    "qacg": (absa_weights("per_head", True, dtype=torch.float32), ABSA_SIZES, quasi_attention_absa),
}
VOCABULARY = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "hello", "world", "##s")


def make_inputs(seed: int = 0) -> dict[str, torch.Tensor]:
    """Rows of 9, 7, 5 and 9 real tokens, padded on the right."""
    generator = torch.Generator().manual_seed(seed)
    mask = (torch.arange(9) < torch.tensor([9, 7, 5, 9])[:, None]).long()
    return {
        "input_ids": torch.randint(1, 31, (4, 9), generator=generator) * mask,
        "token_type_ids": torch.randint(0, 5, (4, 9), generator=generator) * mask,
        "attention_mask": mask,
    }


def in_our_names(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The authors' tensors as `naive_model` takes them."""
    ours: dict[str, torch.Tensor] = {}
    for name, value in weights.items():
        name = name.replace("gamma", "weight").replace("beta", "bias")
        if match := re.fullmatch(r"bert\.encoder\.context_layer\.(\d)\.(\w+)", name):  # W_c [E_c ‖ X]
            guidance = f"bert.encoder.layer.{match[1]}.attention.self.guidance"
            ours[f"{guidance}.context_{match[2]}"] = value[..., :HIDDEN]
            if match[2] == "weight":
                ours[f"{guidance}.hidden_weight"] = value[:, HIDDEN:]
        elif match := re.fullmatch(r"(.*self)\.context_for_(q|k)\.(\w+)", name):
            ours[f"{match[1]}.guidance.{ROLES[match[2]]}_{match[3]}"] = value
        elif match := re.fullmatch(r"(.*self)\.lambda_(q|k)_(\w+)_layer\.(\w+)", name):
            gate = f"{match[1]}.guidance.{ROLES[match[2]]}_gate"
            if match[4] == "bias":  # of both terms
                ours[f"{gate}_bias"] = ours.get(f"{gate}_bias", 0) + value
            else:
                ours[f"{gate}_context_weight" if match[3] == "context" else f"{gate}_weight"] = value[0]
        else:
            ours[name] = value
    return ours


@EACH_ABSA
@torch.no_grad()
def test_context_models_equal_the_equations(case):
    kind, gate_bias, extra = ABSA_CASES[case]
    weights, inputs = absa_weights(kind, gate_bias), {**make_inputs(), "context_ids": CONTEXT_IDS}
    model, family = quasi_attention_absa(weights, {**ABSA_SIZES, **extra}), "cg" if kind == "cg" else "qacg"
    assert type(model) is CLASSES[family] and not model.training and model.dtype == torch.float64
    assert model.config.problem_type == "single_label_classification" and model.config.num_contexts == CONTEXTS
    heads = {} if kind == "cg" else {"context_heads": kind}
    fields = {"layer_norm_eps": 1e-12, "gate_activation": "sigmoid", **heads, **extra}
    config = CLASSES[family].config_class(**ABSA_SIZES, **fields)
    ours = in_our_names(weights)
    words = ours["bert.embeddings.word_embeddings.weight"][inputs["input_ids"]]
    logits, states, maps, _ = naive_model(family, ours, config, words, inputs)
    outputs = model(**inputs, output_attentions=True, output_hidden_states=True)
    for found in (outputs, model(**inputs)):
        assert_close(found.logits, logits, **NEAR)
    assert_close(list(outputs.hidden_states), states, **NEAR)
    for number, name in enumerate(MAPS[family]):
        assert_close(list(outputs[name]), [layer[number] for layer in maps], **NEAR)


@torch.no_grad()
def test_label_aware_attention_equals_the_equations():
    weights, inputs = label_weights(), make_inputs()
    model = label_aware_attention(weights, SIZES)
    assert type(model) is modeling.BertForLabelAwareClassification and not model.training
    assert model.dtype == torch.float64 and model.config.problem_type == "multi_label_classification"
    bert = BertModel(BertConfig(**SIZES)).double().eval()
    bert.load_state_dict({name[9:]: value for name, value in weights.items() if name.startswith("backbone.")})
    expected, outputs = bert(**inputs), model(**inputs)
    for row, length in enumerate(inputs["attention_mask"].sum(dim=1).tolist()):
        states = expected.last_hidden_state[row, :length]
        attention = torch.softmax(weights["label_embds"] @ weights["W"] @ states.T, dim=-1)  # e W Hᵀ
        sentence = expected.pooler_output[row].expand(LABELS, HIDDEN)
        joined = torch.cat([attention @ states, sentence], dim=1)
        assert_close(outputs.logits[row], joined @ weights["head.weight"][0] + weights["head.bias"], **NEAR)
        assert_close(outputs.label_attentions[row, :, :length], attention, **NEAR)


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

    plain = label_weights()
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
    names = [f"bert.encoder.layer.{i}.attention.self.{gate}.bias" for i in range(LAYERS) for gate in GATES]
    biases = {name: torch.zeros(1).double() for name in names}
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
    assert_close(per_head(**inputs).logits, model(**inputs).logits, **NEAR)


def test_the_configuration_may_name_labels_targets_and_aspects_and_hold_what_files_of_bert_hold():
    names = [f"label {i}" for i in range(LABELS)]
    settings = dict(SIZES, id2label={str(i): name for i, name in enumerate(names)})  # as JSON has it
    del settings["num_labels"]
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


@pytest.mark.parametrize(
    ("convert", "weights", "settings", "changes", "message"),
    [
        *((quasi_attention_absa, absa_weights("shared"), ABSA_SIZES, *row) for row in ABSA_MISFITS),
        *((label_aware_attention, label_weights(), SIZES, *row) for row in LABEL_AWARE_MISFITS),
        # Biases of gates come all together.
        (
            quasi_attention_absa,
            absa_weights("per_head", True),
            ABSA_SIZES,
            {GATE: None},
            re.escape(f"it lacks {GATE}."),
        ),
    ],
)
def test_what_does_not_fit_is_named(convert, weights, settings, changes, message):
    tensors = {name: value for name, value in changes.items() if "." in name or name in weights}
    given = {**weights, **tensors}, {**settings, **{k: v for k, v in changes.items() if k not in tensors}}
    with pytest.raises(ValueError, match=message):
        convert(*({name: value for name, value in part.items() if value is not None} for part in given))


def absa_reference(folder: Path, **changes) -> Path:
    return save_reference(folder / "best_checkpoint.bin", absa_weights("shared"), {**ABSA_SIZES, **changes})


@pytest.mark.parametrize("file", ["label-aware.pt", "cg.pth", "qacg.bin", "qacg.safetensors"])
def test_a_converted_file_loads_like_any_checkpoint(file, tmp_path):
    family = file.partition(".")[0]
    weights, sizes, convert = FAMILIES[family]
    if family == "qacg":  # as DataParallel names them
        weights = {f"module.{name}": tensor for name, tensor in weights.items()}
    # The authors' files say nothing of labels and contexts.
    settings = {name: value for name, value in sizes.items() if name not in ("num_labels", "num_contexts")}
    reference = save_reference(tmp_path / "theirs" / file, weights, settings, "bert_config.json")
    report = convert_checkpoint(reference, tmp_path / "ours")
    expected = convert(weights, sizes)
    dead = [name for name in weights if "attention_gate" in name]
    assert report.model_class == type(expected).__name__ and not report.tokenizer
    assert sorted(report.ignored) == sorted(name.removeprefix("module.") for name in dead)
    assert report.read == len(weights) - len(dead)

    assert not list((tmp_path / "ours").glob(".*"))
    loaded, info = AutoModelForSequenceClassification.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"]
    assert_same_model(loaded, expected)
    assert loaded.dtype == torch.float32
    inputs = {**make_inputs(), **({} if family == "label-aware" else {"context_ids": CONTEXT_IDS})}
    assert_close(loaded(**inputs).logits, expected(**inputs).logits, rtol=1e-6, atol=1e-6)
    assert (tmp_path / "ours" / f"{loaded.config.auto_map['AutoModel'].partition('.')[0]}.py").is_file()


def test_the_configuration_file_and_its_entries_can_be_given(tmp_path):
    reference = save_reference(tmp_path / "model.bin", absa_weights("cg"), {"vocab_size": 5})
    other = tmp_path / "other.json"
    other.write_text(json.dumps({**ABSA_SIZES, "gate_activation": "sigmoid"}), encoding="utf-8")
    names = {i: f"label {i}" for i in range(LABELS)}
    convert_checkpoint(reference, tmp_path / "ours", other, gate_activation="tanh", id2label=names)
    config = AutoModelForSequenceClassification.from_pretrained(tmp_path / "ours").config
    assert (config.gate_activation, config.vocab_size, config.id2label) == ("tanh", 31, names)


def test_old_and_new_files_of_a_state_dict_of_parameters_are_read(tmp_path):
    weights = {name: torch.nn.Parameter(tensor) for name, tensor in label_weights().items()}
    (tmp_path / "config.json").write_text(json.dumps(SIZES), encoding="utf-8")
    torch.save(weights, tmp_path / "model.pt", _use_new_zipfile_serialization=False)
    convert_checkpoint(tmp_path / "model.pt", tmp_path / "ours")
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path / "ours")
    assert_same_model(loaded, label_aware_attention(weights, SIZES))


@pytest.mark.parametrize("kind", ["vocab.txt", "tokenizer.json", "tokenizer_config.json"])
def test_the_tokenizer_beside_the_reference_comes_along(kind, tmp_path):
    cased, reference = kind != "vocab.txt", absa_reference(tmp_path / "theirs")
    folder = reference.parent
    (folder / "vocab.txt").write_text("\n".join([*VOCABULARY, *(["Hello"] if cased else [])]) + "\n")
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


MALICIOUS = Malicious(Path("broken-in"))
CODE, TENSORS = "more than tensors.*could run code", "a state dict holds tensors by name"
WORDS = "\n".join([*VOCABULARY, *(f"w{i}" for i in range(31))])
# Name -> what is saved, or written as it is; other files beside it; what the message says.
REFUSED = {
    "malicious": ({**absa_weights("shared"), "classifier.bias": MALICIOUS}, {}, CODE),
    "plain-pickle": (pickle.dumps({"label_embds": MALICIOUS}, protocol=2), {}, CODE),
    "model": (torch.nn.Linear(2, 2), {}, r"more than tensors.*save only the model's `state_dict\(\)`"),
    "missing": (None, {}, "model.bin"),
    "tensor": (torch.ones(2), {}, TENSORS),
    "nested": ({"model": {}}, {}, TENSORS),
    "family": ({"a": torch.ones(2)}, {}, "belongs to no known family"),
    "json": (absa_weights("shared"), {"config.json": "{"}, "config.json must hold a JSON object"),
    "json-list": (absa_weights("shared"), {"config.json": "[1]"}, "must hold a JSON object"),
    "no-sizes": (absa_weights("shared"), {"config.json": "{}"}, "the configuration lacks .*'vocab_size'"),
    "vocabulary": (absa_weights("shared"), {"vocab.txt": WORDS}, "has 40 words, the model only 31"),
}


@pytest.mark.parametrize(("weights", "files", "message"), REFUSED.values(), ids=REFUSED)
@pytest.mark.filterwarnings("ignore:Detected pickle protocol:UserWarning")
def test_nothing_is_written_when_a_file_is_refused(weights, files, message, tmp_path, monkeypatch):
    reference = tmp_path / "theirs" / "model.bin"
    reference.parent.mkdir()
    if isinstance(weights, bytes):
        reference.write_bytes(weights)
    elif weights is not None:
        torch.save(weights, reference)
    for name, content in {"config.json": json.dumps(ABSA_SIZES), **files}.items():
        (reference.parent / name).write_text(content, encoding="utf-8")
    monkeypatch.chdir(tmp_path)  # where the malicious ones write
    with pytest.raises(OSError if weights is None else ValueError, match=message):
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
