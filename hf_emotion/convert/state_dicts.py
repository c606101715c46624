# SPDX-License-Identifier: Apache-2.0
"""
Read the state dicts of the authors' classifiers into our models.

For each family a table says which of the authors' tensors each of our parameters is read from. The table and the
shapes of our model tell which tensors are missing, unknown or of another shape.

Shapes: d hidden size, h heads, d_h = d/h, C labels.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from ..modeling import (
    BertForLabelAwareClassification,
    CGBertConfig,
    CGBertForSequenceClassification,
    LabelAwareBertConfig,
    QACGBertConfig,
    QACGBertForSequenceClassification,
)


@dataclass(frozen=True)
class Reading:
    """`shape`: from that of our parameter to that of the authors' tensor; `value`: from their tensor (or tensors) to our parameter."""

    shape: Callable[[tuple[int, ...]], tuple[int, ...]]
    value: Callable[..., torch.Tensor]


SAME = Reading(lambda shape: shape, lambda tensor: tensor)
LEFT = Reading(lambda shape: (shape[0], 2 * shape[1]), lambda tensor: tensor.chunk(2, dim=1)[0])
RIGHT = Reading(lambda shape: (shape[0], 2 * shape[1]), lambda tensor: tensor.chunk(2, dim=1)[1])
ROW = Reading(lambda shape: (1, *shape), lambda tensor: tensor[0])
SUM = Reading(lambda shape: shape, torch.add)
TRANSPOSED = Reading(lambda shape: shape[::-1], torch.t)

# (our parameter, the authors' tensors, how to read them); a parameter without a row has the same name and shape there.
Table = tuple[tuple[str, tuple[str, ...], Reading], ...]

CONTEXT_LAYER = r"bert\.encoder\.layer\.(\d+)\.attention\.self\.guidance"
QUASI_ATTENTION: Table = (
    (r"(.*)\.LayerNorm\.weight", (r"\1.LayerNorm.gamma",), SAME),
    (r"(.*)\.LayerNorm\.bias", (r"\1.LayerNorm.beta",), SAME),
    # W_c = [W_e | W_x] (d, 2d) acts on [E_c ‖ X].
    (rf"{CONTEXT_LAYER}\.context_weight", (r"bert.encoder.context_layer.\1.weight",), LEFT),
    (rf"{CONTEXT_LAYER}\.hidden_weight", (r"bert.encoder.context_layer.\1.weight",), RIGHT),
    (rf"{CONTEXT_LAYER}\.context_bias", (r"bert.encoder.context_layer.\1.bias",), SAME),
    (r"(.*)\.guidance\.query_(weight|bias)", (r"\1.context_for_q.\2",), SAME),
    (r"(.*)\.guidance\.key_(weight|bias)", (r"\1.context_for_k.\2",), SAME),
    (r"(.*)\.guidance\.query_gate_weight", (r"\1.lambda_q_query_layer.weight",), ROW),
    (r"(.*)\.guidance\.query_gate_context_weight", (r"\1.lambda_q_context_layer.weight",), ROW),
    (r"(.*)\.guidance\.query_gate_bias", (r"\1.lambda_q_query_layer.bias", r"\1.lambda_q_context_layer.bias"), SUM),
    (r"(.*)\.guidance\.key_gate_weight", (r"\1.lambda_k_key_layer.weight",), ROW),
    (r"(.*)\.guidance\.key_gate_context_weight", (r"\1.lambda_k_context_layer.weight",), ROW),
    (r"(.*)\.guidance\.key_gate_bias", (r"\1.lambda_k_key_layer.bias", r"\1.lambda_k_context_layer.bias"), SUM),
)
LABEL_AWARE: Table = (
    (r"bert\.score\.label_embeddings", ("label_embds",), SAME),
    (r"bert\.score\.weight", ("W",), TRANSPOSED),  # scores e W Hᵀ
    (r"bert\.(.*)", (r"backbone.\1",), SAME),
    (r"classifier\.out_proj\.(weight|bias)", (r"head.\1",), SAME),  # [h̃ ‖ pooler] in their code as in ours
)

# Tensors that no output depends on: the numbers of the positions, and a pooling that the published code leaves unused.
DEAD = r"(bert|backbone)\.embeddings\.position_ids|bert\.pooler\.attention_gate\..+"
GATE_BIAS = r".*\.lambda_[qk]_\w+_layer\.bias"

SIZES = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
    *("max_position_embeddings", "type_vocab_size", "num_labels"),
)
# Entries of BERT's configuration files that say nothing about these models. The dtype follows the weights.
SILENT_ENTRIES = {
    *("model_type", "architectures", "transformers_version", "torch_dtype", "dtype", "_name_or_path", "use_cache"),
    *("gradient_checkpointing", "full_pooler", "directionality", "pooler_fc_size", "pooler_num_attention_heads"),
    *("pooler_num_fc_layers", "pooler_size_per_head", "pooler_type", "output_attentions"),
}


def quasi_attention_absa(state_dict: Mapping[str, torch.Tensor], config_dict: Mapping[str, Any]) -> PreTrainedModel:
    r"""
    The authors' CG-BERT or QACG-BERT classifier as [`CGBertForSequenceClassification`] or
    [`QACGBertForSequenceClassification`], in eval mode and in the dtype of the state dict.

    The shape of `context_for_q` tells the model: (d_h, d_h) CG-BERT, (d_h, d) QACG-BERT with one context for all heads, (d, d)
    with one for each head. A converted CG-BERT has the sigmoid gates of the published code.

    Args:
        state_dict: left unchanged. The prefix "module.", weight and bias for gamma and beta, and position_ids are tolerated.
        config_dict: the sizes (`SIZES` and `num_contexts`, which `id2label` and `aspects` also tell), any other field of our
            configuration, and `model_type`, "cg-bert" or "qacg-bert", which a model with one attention head needs.

    Raises:
        ValueError: tensors that are missing, unknown, or of another shape; a CG-BERT whose gate biases are not 0; unknown or missing
            configuration entries.
    """
    _check_sizes(config_dict, {"num_labels": "id2label", "num_contexts": "aspects"})
    weights = _with_gamma_and_beta(without_dead(state_dict))
    gate_biases = [name for name in weights if re.fullmatch(GATE_BIAS, name)]
    model_type, context_heads = _variant_of(weights, config_dict)
    model_class: type[PreTrainedModel] = QACGBertForSequenceClassification
    config_class: type[PreTrainedConfig] = QACGBertConfig
    defaults = {"context_heads": context_heads, "gate_bias": bool(gate_biases)}
    if model_type == CGBertConfig.model_type:
        model_class, config_class = CGBertForSequenceClassification, CGBertConfig
        defaults = {"gate_activation": "sigmoid"}
        nonzero = [name for name in gate_biases if weights[name].count_nonzero()]
        if nonzero:
            raise ValueError(f"our CG-BERT has no biases of gates, and those here are not 0: {_some(nonzero)}.")
        weights = {name: tensor for name, tensor in weights.items() if name not in gate_biases}
    config = _make_config(config_class, config_dict, defaults, {"gate_heads": "shared"})
    return _build(model_class, config, weights, QUASI_ATTENTION)


def label_aware_attention(state_dict: Mapping[str, torch.Tensor], config_dict: Mapping[str, Any]) -> PreTrainedModel:
    r"""
    The authors' label-aware classifier as [`BertForLabelAwareClassification`] with the pooler as sentence vector, in eval
    mode and in the dtype of the state dict.

    Ours masks padding in the attention of the labels, which the published code does not.

    Args:
        state_dict: left unchanged. The prefix "module." and position_ids are tolerated.
        config_dict: the sizes (`SIZES`; `id2label` also tells the number of labels) and any other field of our configuration.

    Raises:
        ValueError: tensors that are missing, unknown, or of another shape; unknown or missing configuration entries.
    """
    _check_sizes(config_dict, {"num_labels": "id2label"})
    published = {"label_attention": "bilinear", "tie_head": True, "head_hidden_size": None}
    published |= {"sentence_representation": "pooler"}
    config = _make_config(LabelAwareBertConfig, config_dict, {}, published)
    return _build(BertForLabelAwareClassification, config, without_dead(state_dict), LABEL_AWARE)


def without_prefix(state_dict: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors by their names without "module.", which DataParallel puts before all of them."""
    if not isinstance(state_dict, Mapping) or not all(isinstance(one, torch.Tensor) for one in state_dict.values()):
        raise ValueError("a state dict holds tensors by name, nothing else: pass `state_dict()` itself.")
    wrapped = all(name.startswith("module.") for name in state_dict)
    return {name.removeprefix("module.") if wrapped else name: tensor for name, tensor in state_dict.items()}


def without_dead(state_dict: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors that outputs depend on."""
    tensors = without_prefix(state_dict)
    return {name: tensor for name, tensor in tensors.items() if not re.fullmatch(DEAD, name)}


def _with_gamma_and_beta(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The authors' names of the layer norms, for tensors that were renamed as today's BERT has them."""
    return {
        re.sub(r"LayerNorm\.weight$", "LayerNorm.gamma", re.sub(r"LayerNorm\.bias$", "LayerNorm.beta", name)): tensor
        for name, tensor in weights.items()
    }


def _variant_of(weights: Mapping[str, torch.Tensor], config: Mapping[str, Any]) -> tuple[str, str]:
    """The `model_type` and `context_heads` that a state dict implies."""
    known = [CGBertConfig.model_type, QACGBertConfig.model_type]
    name = "bert.encoder.layer.0.attention.self.context_for_q.weight"
    size, head_size = config["hidden_size"], config["hidden_size"] // config["num_attention_heads"]
    variants = {
        (size, size): (QACGBertConfig.model_type, "per_head"),
        (head_size, size): (QACGBertConfig.model_type, "shared"),
        (head_size, head_size): (CGBertConfig.model_type, "shared"),
    }
    shape = tuple(weights[name].shape) if name in weights else None
    if shape not in variants:
        raise ValueError(f"the state dict is neither CG-BERT nor QACG-BERT: {name} must have one of {[*variants]}.")
    if size != head_size:
        return variants[shape]
    if config.get("model_type") not in known:
        raise ValueError(f"one attention head fits both models: set `model_type` to one of {known}.")
    return config["model_type"], "shared"  # the same as "per_head" with one head


# Configuration


def _check_sizes(config: Mapping[str, Any], implied: Mapping[str, str]) -> None:
    """ValueError for a size that is missing; `implied`: size -> the entry that gives it too."""
    sizes = [*SIZES, *(name for name in implied if name not in SIZES)]
    missing = [name for name in sizes if config.get(name) is None and config.get(implied.get(name, name)) is None]
    if missing:
        raise ValueError(f"the configuration lacks {missing}.")


def _make_config(
    config_class: type[PreTrainedConfig],
    given: Mapping[str, Any],
    defaults: Mapping[str, Any],
    published: Mapping[str, Any],
) -> PreTrainedConfig:
    """`defaults`: what `given` may change; `published`: what it may not, because the published code has nothing else."""
    known = sorted({*SIZES, *(field.name for field in dataclasses.fields(config_class))} - SILENT_ENTRIES)
    fixed = {"position_embedding_type": "absolute", **published}
    values = {**defaults, **published}
    for name, value in given.items():
        if name in fixed:
            if value != fixed[name]:
                raise ValueError(f"`{name}` is {fixed[name]!r} in the authors' checkpoints, got {value!r}.")
        elif name in known:
            values[name] = value
        elif name not in SILENT_ENTRIES:
            raise ValueError(f"unknown configuration key `{name}`: the keys are {known}.")
    id2label = values.get("id2label")
    if id2label is not None:
        values.pop("num_labels", None)
        values["label2id"] = {label: int(i) for i, label in id2label.items()}
    return config_class(**values)


# Weights


def _build(
    model_class: type[PreTrainedModel], config: PreTrainedConfig, weights: Mapping[str, torch.Tensor], table: Table
) -> PreTrainedModel:
    """A model with every parameter read from `weights`; no tensor of `weights` is left over."""
    with torch.device("meta"):
        shapes = {name: tuple(tensor.shape) for name, tensor in model_class(config).state_dict().items()}
    sources = {name: _source_of(name, table) for name in shapes}
    expected = {source: reading.shape(shapes[name]) for name, (names, reading) in sources.items() for source in names}
    _check_weights(weights, expected)
    model = model_class(config).to(next(iter(weights.values())).dtype)
    read = {name: reading.value(*(weights[source] for source in names)) for name, (names, reading) in sources.items()}
    model.load_state_dict(read)
    return model.eval()


def _source_of(name: str, table: Table) -> tuple[tuple[str, ...], Reading]:
    """The authors' tensors behind one of our parameters, and how to read them."""
    for pattern, templates, reading in table:
        if match := re.fullmatch(pattern, name):
            return tuple(match.expand(template) for template in templates), reading
    return (name,), SAME


def _check_weights(weights: Mapping[str, torch.Tensor], expected: Mapping[str, tuple[int, ...]]) -> None:
    shapes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    wrong = [f"it lacks {name}" for name in expected.keys() - shapes.keys()]
    wrong += [f"unknown: {name}" for name in shapes.keys() - expected.keys()]
    wrong += [
        f"{name} has the shape {shapes[name]} instead of {expected[name]}"
        for name in shapes.keys() & expected.keys()
        if shapes[name] != expected[name]
    ]
    if wrong:
        raise ValueError(f"the state dict does not fit the configuration: {_some(sorted(wrong), '; ')}.")


def _some(names: list[str], separator: str = ", ") -> str:
    """The first ten names: a wrong number of layers would give hundreds."""
    return separator.join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
