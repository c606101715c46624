# SPDX-License-Identifier: Apache-2.0
"""What the model families share: it travels with every checkpoint."""

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import torch
import transformers
from torch import nn
from torch.nn import functional as F
from transformers import CONFIG_MAPPING, MODEL_MAPPING, AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel
from transformers.utils import logging


logger = logging.get_logger(__name__)

TESTED = "transformers>=5.18,<5.25"  # as in pyproject.toml


def warn_if_untested() -> None:
    """Say once that the installed transformers is newer than those that were tested."""
    if _numbers(transformers.__version__) >= _numbers(TESTED.partition("<")[2]):
        tested = f"was tested with {TESTED}, and {transformers.__version__} is installed"
        logger.warning_once(f"The code of this model {tested}: it may compute something else.")


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")[:2]]


def set_auto_map(config: Any, model: str, head: str, auto_class: str = "AutoModelForSequenceClassification") -> None:
    """
    Name the classes that travel with the weights. They are not read from a loaded configuration, whose entries name the repository they
    came from and would tie a fine-tuned copy to it.
    """
    own = type(config).__module__.rpartition(".")[2]
    code = own.replace("configuration_", "modeling_")
    config.auto_map = {"AutoConfig": f"{own}.{type(config).__name__}", "AutoModel": f"{code}.{model}"}
    config.auto_map[auto_class] = f"{code}.{head}"


# Values that belong to the labels of a checkpoint.
LABEL_FIELDS = (
    *("class_counts", "class_weights", "thresholds", "label_texts"),
    *("calibration_temperature", "abstention", "prediction_sets", "value_range"),
)

BERT_TYPES = ("bert", "label-aware-bert", "cg-bert", "qacg-bert")


class CheckpointFields:
    """A base of all configurations, to name first: which checkpoints they read."""

    # Of every subclass, so no field of a configuration. None: the model type alone, and not another with weights of the same names.
    fitting: ClassVar[tuple[str, ...] | None] = None
    remedy: ClassVar[str]  # what to do with a checkpoint of another type

    @classmethod
    def from_dict(cls, config_dict, **kwargs):
        """
        As in every configuration, and the fields among the arguments of `from_pretrained` go first, so that the checks see both. If they
        change the labels, values for the old labels are left out. ValueError for a model type that does not fit: transformers would
        leave its weights at random values.
        """
        fitting = cls.fitting or (cls.model_type,)
        saved, found = dict(config_dict), config_dict.get("model_type", cls.model_type)
        if found not in fitting:
            wanted = " or ".join(map(repr, fitting))
            raise ValueError(f"the checkpoint must be one of {wanted}, got one of {found!r}: {cls.remedy}.")
        if found != cls.model_type:
            saved.pop("problem_type", None)  # that of another head
        known = (*cls.__dataclass_fields__, *LABEL_FIELDS)
        given = {name: kwargs.pop(name) for name in list(kwargs) if name in known}
        names = saved.get("id2label") or {i: f"LABEL_{i}" for i in range(saved.get("num_labels") or 2)}
        new = given.get("id2label") or names
        if kwargs.get("num_labels", len(new)) != len(new):
            new = {}
            saved = {name: value for name, value in saved.items() if name not in ("id2label", "label2id")}
        if {int(i): name for i, name in new.items()} != {int(i): name for i, name in names.items()}:
            stale = [f"`{name}`" for name in LABEL_FIELDS if saved.pop(name, None) is not None and name not in given]
            if stale:
                logger.warning(f"The labels are new: {', '.join(stale)} of the old ones are dropped.")
        return super().from_dict({**saved, **given}, **kwargs)


def check_least(config, **least: float) -> None:
    """ValueError for a field of a configuration that is smaller than its value here."""
    for name, value in least.items():
        given = getattr(config, name)
        if given is not None and given < value:
            raise ValueError(f"`{name}` must be at least {value}, got {given}.")


class EncoderFields(CheckpointFields):
    """A base of configurations that are those of BERT or RoBERTa and more."""

    remedy = "LabelAwareForSequenceClassification takes an encoder of any kind"

    def validate_encoder_only(self):
        if self.is_decoder or self.add_cross_attention:
            wanted = "`is_decoder` and `add_cross_attention` must be False"
            raise ValueError(f"a {self.model_type!r} model is an encoder: {wanted}.")


@dataclass(kw_only=True)
class ClassifierFields:
    r"""
    Args:
        class_balanced_beta: β of the class-balanced loss ([`class_balanced_weights`]), in [0, 1). `None`: no re-weighting.
        class_balanced_normalize: rescale the weights to mean 1, so that β changes the balance and not the learning rate.
        class_counts: number of training rows of each label; needed by the class-balanced loss.
        thresholds: decision threshold of each label: a label is predicted if its probability is greater.
        value_range: the lowest and the highest value of the data that a regression learnt.
        regression_loss: `"mse"` (default): squared errors; `"ordinal"`: cumulative logits, for whole numbers ([`regression_losses`]).
        ordinal_slope: slope of the cumulative logits.
    """

    class_balanced_beta: float | int | None = None
    class_balanced_normalize: bool = False
    class_counts: list[int] | None = None
    thresholds: list[float | int] | None = None
    value_range: list[float | int] | None = None
    regression_loss: Literal["mse", "ordinal"] = "mse"
    ordinal_slope: float | int = 3.0

    def validate_labels(self):
        kinds = ("single_label_classification", "multi_label_classification", "regression")
        if self.problem_type not in kinds:
            raise ValueError(f"`problem_type` must be one of {kinds}, got {self.problem_type!r}.")
        if self.problem_type == "regression":
            ends = list(self.value_range or [])
            if len(ends) != 2 or not -math.inf < ends[0] < ends[1] < math.inf:
                wanted = "the lowest and the highest value of the data"
                raise ValueError(f"regression needs `value_range`, {wanted}, got {self.value_range}.")
            if self.regression_loss == "ordinal" and any(end % 1 for end in ends):
                wanted = "whole numbers in `value_range`"
                raise ValueError(f'`regression_loss` "ordinal" needs {wanted}, got {self.value_range}.')
        for name in ("class_counts", "thresholds"):
            self.check_count(name, self.num_labels)
        if self.class_counts is not None and min(self.class_counts) < 0:
            raise ValueError(f"`class_counts` must not be negative, got {self.class_counts}.")
        if self.thresholds is not None and not all(0 <= value <= 1 for value in self.thresholds):
            raise ValueError(f"`thresholds` are probabilities and must lie in [0, 1], got {self.thresholds}.")
        if self.class_balanced_beta is not None and not 0 <= self.class_balanced_beta < 1:
            raise ValueError(f"`class_balanced_beta` must lie in [0, 1), got {self.class_balanced_beta}.")

    def check_count(self, name: str, count: int) -> None:
        values = getattr(self, name)
        if values is not None and len(values) != count:
            wanted = f"one value for each of the {count} labels"
            raise ValueError(f"`{name}` needs {wanted}, got {len(values)}; or pass `{name}=None`.")


@dataclass(kw_only=True)
class ContextFields:
    r"""
    Args:
        aspects: names of the aspects, e.g. `["price", "safety"]`.
        targets: names of the targets, as a text writes them. None: the context is only the aspect.
        target_texts: the text that the model reads for each target, in its text and in the auxiliary sentence; defaults to the names.
    """

    aspects: list[str] | None = None
    targets: list[str] | None = None
    target_texts: list[str] | None = None

    def validate_contexts(self):
        for name in ("aspects", "targets", "target_texts"):
            values = getattr(self, name)
            if values is not None and (not values or len(set(values)) != len(values)):
                raise ValueError(f"`{name}` must be different names, at least one, or None; got {values}.")
        if self.targets is not None and self.aspects is None:
            raise ValueError("`targets` need `aspects`: a context is a target and an aspect.")
        if self.target_texts is not None and len(self.target_texts) != len(self.targets or []):
            raise ValueError(f"`target_texts` needs one text for each of {self.targets}, got {self.target_texts}.")


def nested_config(config: Mapping[str, Any] | PreTrainedConfig, field: str) -> PreTrainedConfig:
    """A copy of the configuration `field` of a model over text; ValueError for one that transformers itself does not have, or another."""
    # Not the object itself: a running model's configuration would lose its attention implementation here. The copy does not name the
    # source of the weights, which may be a local folder.
    values = dict(config if isinstance(config, Mapping) else config.to_dict(), _name_or_path="")
    kind = values.get("model_type")
    nested: Any = AutoConfig.for_model(**values) if kind in CONFIG_MAPPING else None
    own = nested is not None and type(nested).__module__.startswith("transformers.")
    if not own or nested.is_encoder_decoder or nested.get_text_config() is not nested:
        fault = "transformers itself does not have, or which is an encoder-decoder or reads more than text"
        raise ValueError(f"`{field}` is of type {kind!r}, which {fault}.")
    return nested


def input_shape(input_ids, inputs_embeds, positions: int | None = None) -> tuple[int, int]:
    """(B, L) of ids (B, L) or embeddings (B, L, d). Raises ValueError unless exactly one is given, the batch is not empty, and L ≤ `positions`."""
    if (input_ids is None) == (inputs_embeds is None):
        raise ValueError("Pass exactly one of `input_ids` and `inputs_embeds`.")
    name, given, axes = ("input_ids", input_ids, 2) if inputs_embeds is None else ("inputs_embeds", inputs_embeds, 3)
    shape = given.shape
    if len(shape) == axes and (torch.compiler.is_compiling() or all(shape) and shape[1] <= (positions or shape[1])):
        return shape[0], shape[1]
    wanted = f"{axes} dimensions, and must have a row, and from 1 to {positions or 'any number of'} tokens"
    raise ValueError(f"`{name}` must have {wanted}; got {tuple(shape)}.")


def check_shape(name: str, given: torch.Tensor | None, shape: tuple[int, ...]) -> None:
    """ValueError for an input of another shape; None has any."""
    if given is not None and given.shape != shape:
        raise ValueError(f"`{name}` must have shape {tuple(shape)}, got {tuple(given.shape)}.")


def real_tokens(attention_mask: torch.Tensor | None, shape: tuple[int, int]) -> torch.Tensor | None:
    """Which tokens are real, (B, L) bool, or None without a mask; ValueError for one of another shape."""
    check_shape("attention_mask", attention_mask, shape)
    return None if attention_mask is None else attention_mask.bool()


def real_first(mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Orders (B, L) to gather by: `states.gather(1, there)` has padding behind the real tokens, which keep their order; `back` undoes it."""
    real = mask != 0
    back = torch.where(real, real.cumsum(dim=-1), real.sum(dim=-1, keepdim=True) + (~real).cumsum(dim=-1)) - 1
    places = torch.arange(back.shape[1], device=back.device).expand_as(back)
    return torch.zeros_like(back).scatter(1, back, places), back


def first_real(states: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """(B, L, d), (B, L) or None -> (B, d): the state of the first real token; that at place 0 if a row has none."""
    if mask is None:
        return states[:, 0]
    first = (mask != 0).int().argmax(dim=-1).to(states.device)  # argmax takes the first of equal values
    return states.gather(1, first[:, None, None].expand(-1, 1, states.shape[-1]))[:, 0]


def masked_mean(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """(N, L, D), (N, L) -> (N, D), the mean over real tokens; 0 for a row without any."""
    weights = mask.to(states)[:, None]  # (N, 1, L)
    if states.dtype == torch.float16:  # which could not hold the sum over thousands of tokens
        return ((weights / weights.sum(dim=-1, keepdim=True).clamp(min=1)) @ states).squeeze(1)
    return (weights @ states).squeeze(1) / weights.sum(dim=-1).clamp(min=1)


def positions_from_first_real(mask: torch.Tensor) -> torch.Tensor:
    """(B, L), 0 at padding -> (B, L) int64: places counted from the first real token; 0 before it."""
    first = (mask != 0).int().argmax(dim=-1, keepdim=True)
    return (torch.arange(mask.shape[1], device=mask.device) - first).clamp(min=0)


def reordered(states: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """(B, L) or (B, L, d), `order` (B, L) -> the same shape: place t gets what was at `order[:, t]`. A single row is broadcast."""
    states, order = states.expand(order.shape[0], *states.shape[1:]), order.to(states.device)
    return states.gather(1, order if states.dim() == 2 else order[..., None].expand_as(states))


def class_balanced_weights(class_counts: list[int], beta: float, normalize: bool = False) -> torch.Tensor:
    """
    The inverse of the effective number of samples (Cui et al. 2019), w_c = (1−β) / (1−β^{n_c}) with β in [0, 1), float32 (C,). A class
    without rows, for which the formula has no value, weighs as much as the one with the fewest. `normalize`: divide by the mean.
    """
    fewest = min([count for count in class_counts if count > 0] or [1])
    counts = torch.tensor([count or fewest for count in class_counts], dtype=torch.float64)
    weights = (1 - beta) / (1 - torch.pow(torch.tensor(beta, dtype=torch.float64), counts))
    return (weights / weights.mean() if normalize else weights).float()


def regression_losses(logits: torch.Tensor, values: torch.Tensor, config) -> torch.Tensor:
    """
    The loss (B, C) of each value y, for `config.regression_loss`. "mse": (v − y)², v the logit. "ordinal": cumulative logits (McCullagh
    1980), P(y > t) = σ(a (v − t)), with the cut points t halfway between the whole numbers of `value_range` and a = `ordinal_slope`: the
    mean of the binary cross-entropies of all t.
    """
    if config.regression_loss == "mse":
        return (logits - values) ** 2
    cuts = torch.arange(*config.value_range, device=logits.device) + 0.5  # (K,)
    above = (values[..., None] > cuts).to(logits)
    steps = config.ordinal_slope * (logits[..., None] - cuts)  # (B, C, K)
    return F.binary_cross_entropy_with_logits(steps, above, reduction="none").mean(dim=-1)


def classification_loss(logits: torch.Tensor, labels: torch.Tensor, config) -> torch.Tensor:
    """
    The loss that `config.problem_type` asks for, weighted by [`class_balanced_weights`] if `config.class_balanced_beta` is set. Models with
    it say `accepts_loss_kwargs = False`: without that the Trainer would not divide a mean over rows by the number of accumulation steps.

    `"multi_label_classification"` takes labels (B, C) of 0 and 1, NaN for a label that was not annotated: binary cross-entropy, the weight
    of a class on both of its terms, mean over the annotated ones of B×C. `"single_label_classification"` takes class ids (B,), or (B, A) for
    logits (B, A, C), -100 for what has no label: cross-entropy times the weight of the gold class, mean over the labelled. `"regression"` takes
    values (B, C), or (B,) of a single label, NaN for one that was not annotated: the mean of [`regression_losses`] over the others.
    """
    regression = config.problem_type == "regression"
    multi_label = regression or config.problem_type == "multi_label_classification"
    shape = tuple(logits.shape if multi_label else logits.shape[:-1])
    if regression and shape[1] == 1 and labels.shape == shape[:1]:
        labels = labels[:, None]
    if tuple(labels.shape) != shape or (labels.is_floating_point() and not multi_label):
        kinds = "values" if regression else "0 and 1" if multi_label else "class ids, whole numbers"
        wanted = f"{kinds} of shape {shape} for {config.problem_type!r}"
        raise ValueError(f"`labels` must be {wanted}, got {tuple(labels.shape)} of {labels.dtype}.")
    if regression:
        logits = logits.float()
    labels = labels.to(logits.device, logits.dtype if multi_label else torch.long)
    weights = None
    if getattr(config, "class_balanced_beta", None) is not None:
        if config.class_counts is None:
            raise ValueError("`class_balanced_beta` is set: the config needs `class_counts`, rows per training label.")
        balance = (config.class_counts, config.class_balanced_beta, config.class_balanced_normalize)
        weights = class_balanced_weights(*balance).to(logits)
    if multi_label:
        annotated = ~labels.isnan()
        labels = labels.masked_fill(~annotated, 0.0)  # the gradient of a NaN would be NaN, even times 0
        if regression:
            losses = regression_losses(logits, labels, config)
        else:
            losses = F.binary_cross_entropy_with_logits(logits, labels, weight=weights, reduction="none")
        return losses.masked_fill(~annotated, 0.0).sum() / annotated.sum().clamp(min=1)
    labels = labels.flatten()
    losses = F.cross_entropy(logits.flatten(0, -2), labels, reduction="none")  # 0 without a label
    if weights is not None:
        losses = losses * weights[labels.clamp(min=0)]
    return losses.sum() / (labels != -100).sum().clamp(min=1)


def token_loss(
    logits: torch.Tensor, labels: torch.Tensor, count: torch.Tensor | int | None, weights: torch.Tensor | None = None
) -> torch.Tensor:
    """
    Cross-entropy of logits (B, T, C) and class ids (B, T), -100 for no label: the sum over the labels, divided by `count`, or by their
    number; ValueError for labels of another shape.
    """
    check_shape("labels", labels, logits.shape[:2])
    labels = labels.to(logits.device, torch.long)
    total = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), weight=weights, reduction="sum")
    if count is None:
        count = (labels != -100).sum()
    # Batches without a label have none to divide by.
    return total / torch.as_tensor(count, device=total.device).clamp(min=1)


class TextPipeline:
    """
    A base of all pipelines, to name before that of transformers. It notes task and Auto classes as the registry of transformers does: so a
    pipeline of code from the Hub saves its code, too.
    """

    task_name: str
    model_classes: tuple[Any, ...]
    _registered_impl: dict[str, dict[str, Any]]
    _load_processor = _load_image_processor = _load_feature_extractor = False
    _load_tokenizer = True

    def __init_subclass__(cls) -> None:
        if "task_name" in vars(cls):
            cls._registered_impl = {cls.task_name: {"impl": cls, "pt": cls.model_classes, "type": "text"}}

    def replace_stock(self) -> None:
        """Be saved under the names of the stock pipelines, too, which keeps these from the model."""
        names = (self.task_name, "text-classification", "sentiment-analysis")
        self._registered_impl = dict.fromkeys(names, self._registered_impl[self.task_name])


# What a pretrained checkpoint may lack. PEFT trains modules of the first two names without being asked.
NEW_MODULES = {
    *("score", "classifier", "pooler", "context", "context_embeddings", "guidance", "emotion_attention"),
    *("emotion_modulation", "modulation", "ln_cross_attn", "crossattention", "transform"),
}


def new_modules(model: nn.Module) -> dict[str, list[nn.Module]]:
    """Modules that no checkpoint gave (`is_new`), by the one of `NEW_MODULES` that they are or lie in."""
    found: dict[str, list[nn.Module]] = {}
    for path, module in model.named_modules():
        if "original_module" not in path and getattr(module, "is_new", False):
            for name in NEW_MODULES.intersection(path.split(".")):
                found.setdefault(name, []).append(module)
    return found


class AdaptedModel(PreTrainedModel):
    """A base of all families. PEFT calls nothing of a model that gets an adapter, so that the check stands where a training begins."""

    def train(self, mode: bool = True) -> Self:
        """As in torch; ValueError if PEFT freezes `new_modules`. It does not save them: each loading starts them again."""
        if mode and getattr(self, "peft_config", None) and any(p.requires_grad for p in self.parameters()):
            lacking = [
                name
                for name, modules in new_modules(self).items()
                if not all(p.requires_grad for module in modules for p in module.parameters(recurse=False))
            ]
            if lacking:
                fault = "the adapter neither trains nor saves new weights of the model"
                before = "load the model again (if these weights are trained by now, save it before)"
                wanted = f"name {sorted(lacking)} in the `modules_to_save` of the adapter's configuration"
                raise ValueError(f"{fault}: {before}, and {wanted}.")
        return super().train(mode)


def without_pooler(config: PreTrainedConfig) -> dict[str, bool]:
    """The argument that leaves out a text encoder's pooler, if it may have one: nothing here would read or train it."""
    classes = MODEL_MAPPING.get(type(config), ())  # none: `AutoModel` refuses it
    classes = classes if isinstance(classes, list | tuple) else [classes]
    has_pooler = all("add_pooling_layer" in inspect.signature(cls.__init__).parameters for cls in classes)
    return {"add_pooling_layer": False} if has_pooler else {}


# Types that have the arguments of a text encoder, and need other inputs or give other states.
UNFIT = ("blip_2_qformer", "bros", "dpr", "higgs_audio_v2", "lxmert", "reformer", "vilt", "vits")


def build_encoder(config: PreTrainedConfig) -> PreTrainedModel:
    """A text encoder without loaded weights; ValueError for a model that is none."""
    # The dtype of the whole model, not the one that the configuration of the encoder's checkpoint records.
    encoder = AutoModel.from_config(config, dtype=torch.get_default_dtype(), **without_pooler(config))
    reads_text = encoder.main_input_name == "input_ids" and encoder.config.model_type not in UNFIT
    if not reads_text or "attention_mask" not in inspect.signature(encoder.forward).parameters:
        fault = "does not turn `input_ids` with an `attention_mask` into states (B, L, `hidden_size`)"
        kind = encoder.config.model_type
        raise ValueError(f"`encoder_config` is of a {kind!r} model, which {fault}: take another encoder.")
    if not encoder._no_split_modules:  # transformers does not say what must be on one device: all of it
        encoder._no_split_modules = {type(encoder).__name__}
    return encoder


def over_encoder(cls: Any, encoder: Any, dtype: torch.dtype | str, arguments: dict[str, Any]) -> Any:
    """A new model of the class `cls` over a pretrained text encoder, see `from_encoder_pretrained`."""
    names = {*cls.config_class.__dataclass_fields__, "num_labels"}
    fields = {name: arguments.pop(name) for name in list(arguments) if name in names}
    attention = {name: arguments.pop(name) for name in ["attn_implementation"] if name in arguments}
    arguments["trust_remote_code"] = False
    nested_config(PreTrainedConfig.get_config_dict(encoder, **arguments)[0], "encoder_config")  # which may refuse it
    saved = AutoConfig.from_pretrained(encoder, **arguments)
    config = cls.config_class(encoder_config=saved, **fields)
    with torch.device("meta"):  # an encoder that does not fit is refused before its weights are loaded
        build_encoder(config.encoder_config)
    # Loaded before the model is made, which gets its dtype: `to` would also round rotary frequencies, which stay in float32.
    pooler = without_pooler(config.encoder_config)
    arguments |= {"dtype": dtype, "output_loading_info": True}
    loaded, found = AutoModel.from_pretrained(encoder, **pooler, **attention, **arguments)
    if lacking := sorted(found["missing_keys"]):
        raise ValueError(f"{str(encoder)!r} lacks weights of its {saved.model_type!r} model: {lacking[:3]}.")
    model = cls._from_config(config, dtype=loaded.dtype, **attention)
    # The loaded encoder itself: it may be quantized, or on several devices.
    path = next(path for path, part in model.named_modules() if part is model.base_model.get_encoder())
    model.set_submodule(path, nn.Identity())
    model.to(None if loaded.device.type == "meta" else loaded.device).set_submodule(path, loaded)  # "meta": offloaded
    model.config.encoder_config, loaded.config._name_or_path = loaded.config, ""
    for name, value in vars(loaded).items():  # what the Trainer and PEFT look for
        if "quantiz" in name or name.startswith("is_loaded_in_"):
            setattr(model, name, value)
    if places := getattr(loaded, "hf_device_map", None):
        model.hf_device_map = {f"{path}.{part}".rstrip("."): place for part, place in places.items()}
    return model.train(model.training)


def real_positions(mask: torch.Tensor) -> torch.Tensor:
    """(B, L), 0 at padding -> (B, L) int64: the position of each real token among those of its row, wherever padding stands."""
    return ((mask != 0).cumsum(dim=-1) - 1).clamp(min=0)


def sinusoidal_encoding(length: int, size: int, *, like: torch.Tensor) -> torch.Tensor:
    """(length, size): PE(pos, 2i) = sin(pos / 10000^(2i/size)), PE(pos, 2i+1) the cosine (Vaswani et al. 2017), in float32, then as `like`."""
    positions = torch.arange(length, device=like.device, dtype=torch.float32)
    even = torch.arange(0, size, 2, device=like.device, dtype=torch.float32)
    angles = positions[:, None] * torch.pow(10000.0, -even / size)  # (length, ⌈size/2⌉)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :size].to(like.dtype)


def check_emotions(config, emotion_ids, emotion_weights, batch_size: int | None) -> torch.Tensor:
    """The weights c (B, E): one-hot for ids, or the given weights, any mixture. `batch_size` None: any number of rows."""
    wanted = f"ids (batch_size,) in [0, {config.num_emotions}), or weights (batch_size, {config.num_emotions})"
    if (emotion_ids is None) == (emotion_weights is None):
        found = "neither" if emotion_ids is None else "both"
        raise ValueError(f"Pass exactly one of `emotion_ids` and `emotion_weights`, {wanted}; got {found}.")
    name, sizes = ("emotion_ids", []) if emotion_weights is None else ("emotion_weights", [config.num_emotions])
    given = torch.as_tensor(emotion_ids if emotion_weights is None else emotion_weights)
    rows = len(given) if batch_size is None and given.dim() else batch_size
    whole = not given.is_floating_point() and given.dtype != torch.bool
    if list(given.shape) != [rows, *sizes] or not (sizes or whole):
        found = f"{tuple(given.shape)} of {given.dtype}"
        raise ValueError(f"`{name}` must hold {wanted}, for {rows} rows; got {found}.")
    return given if sizes else F.one_hot(given.long(), config.num_emotions)


class EmotionGenerationMixin(transformers.GenerationMixin):
    """What models that reply in an emotion share."""

    def setting(self, generation_config: Any, arguments: Mapping[str, Any], name: str, default: Any = None) -> Any:
        """A setting of `generate`: among the arguments of the call, in its configuration, or in the model's."""
        found = [arguments.get(name)]
        found += [getattr(config, name, None) for config in (generation_config, self.generation_config)]
        return next((value for value in found if value is not None), default)

    def generate_all_emotions(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None, **kwargs: Any
    ) -> torch.Tensor:
        """
        Replies to contexts in every emotion, in one batch: (L,) or (B, L) -> (E, T) or (B, E, T), or with R > 1 replies (.., E, R, T).
        Contexts of a decoder-only model are padded on the left, and come back with the replies.
        """
        emotions, contexts = self.config.num_emotions, len(torch.atleast_2d(input_ids))
        kwargs |= {"input_ids": input_ids, "attention_mask": attention_mask}
        for name in ("input_ids", "attention_mask", "decoder_input_ids", "decoder_attention_mask"):
            if kwargs.get(name) is not None:
                kwargs[name] = torch.atleast_2d(kwargs[name]).repeat_interleave(emotions, dim=0)
        outputs = self.generate(emotion_ids=torch.arange(emotions, device=input_ids.device).repeat(contexts), **kwargs)
        sequences = outputs if isinstance(outputs, torch.Tensor) else outputs.sequences  # (B·E·R, T)
        replies = len(sequences) // (contexts * emotions)
        sizes = (*input_ids.shape[:-1], emotions, *([replies] if replies > 1 else []))
        return sequences.view(*sizes, sequences.shape[-1])
