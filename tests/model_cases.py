# SPDX-License-Identifier: Apache-2.0
"""The models under test. A family joins the shared suite by adding rows: cases, bad configurations, named lists."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hf_emotion.modeling import BertForLabelAwareClassification, LabelAwareBertConfig, LabelAwareBertModel
from torch import nn
from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    BertModel,
    BertTokenizerFast,
    PreTrainedConfig,
    PreTrainedModel,
)


SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = (
    *(
        "i",
        "am",
        "so",
        "feel",
        "feeling",
        "of",
        "the",
        "a",
        "day",
        "today",
        "this",
        "is",
        "not",
        "very",
        "rain",
        "sun",
    ),
    *("joy", "anger", "nervous", "opt", "neutral", "happy", "sad", "calm", "fear", "nostalgia", "home", "sick"),
    *("##ness", "##im", "##ism", "##sick", "##s", "##ful", "!", ".", ","),
)
VOCABULARY = (*SPECIAL_TOKENS, *WORDS)
LABELS = ("joy", "anger", "nervousness", "optimism", "neutral")
WORD_PIECES = {  # of the label names, for tests that compute a label's vector by hand
    "joy": ("joy",),
    "anger": ("anger",),
    "nervousness": ("nervous", "##ness"),
    "optimism": ("opt", "##im", "##ism"),
    "neutral": ("neutral",),
    "nostalgia": ("nostalgia",),
    "homesickness": ("home", "##sick", "##ness"),
}
TEXTS = (
    "I am so happy today!",
    "anger",
    "this is not a very calm day, I feel nervousness and fear.",
    "sun . sun . rain",
)

# No two sizes are equal, so that a mixed-up dimension is an error and not a wrong number.
TINY_BERT: dict[str, Any] = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 32,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
LABEL_NAMES: dict[str, Any] = {
    "id2label": dict(enumerate(LABELS)),
    "label2id": {name: i for i, name in enumerate(LABELS)},
}


@dataclass(frozen=True)
class ModelCase:
    """
    One model in one configuration.

    Attributes:
        id: readable name, also the test id.
        config_class, model_class, base_class, auto_class: configuration, head, base model, Auto class of the head.
        config: keyword arguments of a tiny configuration, all dropouts 0.
        make_inputs: (batch, length, seed) -> arguments of the head's `forward` with labels; rows differ in length.
        plain_class, plain_config: stock model whose checkpoint initialises this one.
        new_weights: exactly the parameters of the head that such a checkpoint does not fill.
        starts: what each of them holds after loading: "normal" (standard deviation `initializer_range`), "identity"
            or a constant.
        unused_weights: parameters of the checkpoint that this model has no place for.
        no_decay: parameters without weight decay, beside norms and biases.
        peft_modules_to_save: modules that LoRA trains in full.
        base_outputs: names of the base model's outputs, in the order of its tuple.
        head_outputs: likewise of the head, called with labels.
        overfit_steps: steps of AdamW in which the loss on 8 rows falls to a tenth.
    """

    id: str
    config_class: type[PreTrainedConfig]
    model_class: type[PreTrainedModel]
    base_class: type[PreTrainedModel]
    auto_class: type
    config: dict[str, Any]
    make_inputs: Callable[[int, int, int], dict[str, torch.Tensor]]
    plain_class: type[PreTrainedModel]
    plain_config: PreTrainedConfig
    new_weights: frozenset[str]
    starts: dict[str, float | str]
    unused_weights: frozenset[str]
    no_decay: frozenset[str]
    peft_modules_to_save: tuple[str, ...]
    base_outputs: tuple[str, ...]
    head_outputs: tuple[str, ...]
    overfit_steps: int = 60
    lora_targets: tuple[str, ...] = field(default=("query", "value"))

    def make_config(self, **overrides) -> PreTrainedConfig:
        return self.config_class(**{**self.config, **overrides})

    def build(self, seed: int = 0, attn_implementation: str | None = None, **overrides) -> PreTrainedModel:
        """The head in eval mode, with asymmetric weights."""
        model = self.auto_class.from_config(self.make_config(**overrides), attn_implementation=attn_implementation)
        return asymmetric_(model, seed).eval()

    def save_plain_checkpoint(self, folder: Path) -> dict[str, torch.Tensor]:
        """A stock checkpoint in `folder`; returns its weights."""
        model = asymmetric_(self.plain_class(self.plain_config), seed=11)
        model.save_pretrained(folder)
        return model.state_dict()


@torch.no_grad()
def asymmetric_(model: nn.Module, seed: int = 0) -> nn.Module:
    """
    Fill every parameter with reproducible values that are far from zero and from each other, of a size that keeps
    activations near 1: weights ±[0.5, 1.5]/√fan_in, embeddings ±[0.5, 1.5], biases ±[0.1, 0.3], other vectors
    [0.5, 1.5]. The values of a matrix grow from column to column, so that it differs from its transpose as a whole.
    """
    generator = torch.Generator().manual_seed(seed)
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    for name, parameter in model.named_parameters():
        values = torch.rand(parameter.shape, generator=generator, dtype=torch.float64) + 0.5
        signs = torch.randint(0, 2, parameter.shape, generator=generator, dtype=torch.float64) * 2 - 1
        if name.endswith("bias"):
            values = 0.2 * values * signs
        elif parameter.dim() > 1:
            tilt = (
                torch.linspace(0.6, 1.4, parameter.shape[-1], dtype=torch.float64) if parameter.shape[-1] > 1 else 1.0
            )
            fan_in = 1 if id(parameter) in embeddings else parameter[0].numel()
            values = values * signs * tilt / fan_in**0.5
        parameter.copy_(values)
    return model


def make_tokenizer(folder: Path, **arguments) -> BertTokenizerFast:
    """A WordPiece tokenizer over `VOCABULARY`, built from a vocabulary file in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    return BertTokenizerFast.from_pretrained(folder, **arguments)


def encoder_inputs(batch: int, length: int, seed: int) -> dict[str, torch.Tensor]:
    """`input_ids`, `token_type_ids` and `attention_mask` (batch, length); row 0 is full, the others are shorter."""
    generator = torch.Generator().manual_seed(seed)
    shape = (batch, length)
    input_ids = torch.randint(len(SPECIAL_TOKENS), len(VOCABULARY), shape, generator=generator)
    token_type_ids = torch.randint(0, 2, shape, generator=generator)
    lengths = torch.tensor([max(2, length - 2 * (row % 3)) for row in range(batch)])
    attention_mask = (torch.arange(length) < lengths[:, None]).long()
    input_ids[:, 0] = VOCABULARY.index("[CLS]")
    return {
        "input_ids": input_ids * attention_mask,
        "token_type_ids": token_type_ids * attention_mask,
        "attention_mask": attention_mask,
    }


def classifier_inputs(batch: int, length: int, seed: int, multi_label: bool = True) -> dict[str, torch.Tensor]:
    """Encoder inputs and labels: (batch, C) of 0.0 and 1.0, or (batch,) class ids."""
    generator = torch.Generator().manual_seed(seed + 1000)
    if multi_label:
        labels = torch.randint(0, 2, (batch, len(LABELS)), generator=generator).float()
    else:
        labels = torch.randint(0, len(LABELS), (batch,), generator=generator)
    return {**encoder_inputs(batch, length, seed), "labels": labels}


LABEL_AWARE_STARTS: dict[str, float | str] = {
    "bert.label_embeddings.weight": "normal",
    "bert.label_attention.weight": "identity",
    "classifier.out_proj.weight": "normal",
    "classifier.out_proj.bias": 0.0,
}


def label_aware_case(id: str, starts: dict[str, float | str], multi_label: bool = True, **config) -> ModelCase:
    pooler = config.get("sentence_representation") == "pooler"
    return ModelCase(
        id=id,
        config_class=LabelAwareBertConfig,
        model_class=BertForLabelAwareClassification,
        base_class=LabelAwareBertModel,
        auto_class=AutoModelForSequenceClassification,
        config={**TINY_BERT, **LABEL_NAMES, **config},
        make_inputs=partial(classifier_inputs, multi_label=multi_label),
        plain_class=BertModel,
        plain_config=BertConfig(**TINY_BERT),
        new_weights=frozenset(starts),
        starts=starts,
        unused_weights=frozenset() if pooler else frozenset({"pooler.dense.weight", "pooler.dense.bias"}),
        no_decay=frozenset({"bert.label_embeddings.weight", "bert.label_attention.scale"} & set(starts)),
        peft_modules_to_save=("classifier", "label_embeddings"),
        base_outputs=("label_representations", "last_hidden_state", "label_attentions"),
        head_outputs=("loss", "logits", "label_attentions"),
    )


CASES: tuple[ModelCase, ...] = (
    label_aware_case("label-aware", LABEL_AWARE_STARTS),
    label_aware_case(
        "label-aware-pooler-hidden-balanced",
        {**LABEL_AWARE_STARTS, "classifier.dense.weight": "normal", "classifier.dense.bias": 0.0},
        sentence_representation="pooler",
        head_hidden_size=12,
        class_balanced_beta=0.9,
        class_balanced_normalize=True,
        class_counts=[3, 40, 7, 1, 12],
        thresholds=[0.65, 0.5, 0.7, 0.6, 0.66],  # some labels of `TEXTS` pass, some do not
    ),
    label_aware_case("label-aware-untied", LABEL_AWARE_STARTS, tie_head=False),
    label_aware_case(
        "leam",
        {
            "bert.label_embeddings.weight": "normal",
            "bert.label_attention.weight": 1 / 5,
            "bert.label_attention.bias": 0.0,
            "bert.label_attention.scale": 1.0,
            "classifier.1.weight": "normal",
            "classifier.1.bias": 0.0,
        },
        label_attention="leam",
        leam_radius=2,
    ),
    label_aware_case(
        "label-aware-single-label",
        LABEL_AWARE_STARTS,
        multi_label=False,
        problem_type="single_label_classification",
        class_balanced_beta=0.9,
        class_counts=[3, 40, 7, 1, 12],
    ),
)
BY_ID = {case.id: case for case in CASES}

# (arguments, what the message says): wrong types, then each rule of each `validate_*` method.
BAD_LABEL_AWARE_CONFIGS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"label_attention": "dot"}, "'label_attention'"),
    ({"label_embedding_size": "16"}, "'label_embedding_size'"),
    ({"leam_radius": 1.5}, "'leam_radius'"),
    ({"tie_head": "yes"}, "'tie_head'"),
    ({"head_hidden_size": 3.5}, "'head_hidden_size'"),
    ({"sentence_representation": "mean"}, "'sentence_representation'"),
    ({"class_balanced_beta": "0.9"}, "'class_balanced_beta'"),
    ({"class_balanced_normalize": "no"}, "'class_balanced_normalize'"),
    ({"class_counts": [1.5, 2]}, "'class_counts'"),
    ({"thresholds": ["0.5", "0.5"]}, "'thresholds'"),
    ({"hidden_size": "16"}, "'hidden_size'"),
    ({"is_decoder": True}, "`is_decoder`"),
    ({"add_cross_attention": True}, "`add_cross_attention`"),
    ({"label_embedding_size": 0}, "`label_embedding_size` must be at least 1, got 0"),
    ({"head_hidden_size": 0}, "`head_hidden_size` must be at least 1, got 0"),
    ({"leam_radius": -1}, "`leam_radius` must not be negative, got -1"),
    (
        {"label_attention": "leam", "label_embedding_size": 8},
        "`label_embedding_size` must equal `hidden_size`.* got 8",
    ),
    ({"label_attention": "leam", "tie_head": False}, "LEAM .*`tie_head`"),
    ({"label_attention": "leam", "head_hidden_size": 4}, "LEAM .*`head_hidden_size`"),
    ({"label_attention": "leam", "sentence_representation": "pooler"}, "LEAM .*`sentence_representation`"),
    ({"num_labels": 3, "class_counts": [1, 2]}, "`class_counts` needs .* 3 labels, got 2"),
    ({"num_labels": 3, "thresholds": [0.5] * 4}, "`thresholds` needs .* 3 labels, got 4"),
    ({"class_counts": [5, -1]}, "`class_counts` must not be negative"),
    ({"thresholds": [0.5, 1.1]}, r"`thresholds` .*\[0, 1\], got \[0.5, 1.1\]"),
    ({"thresholds": [-0.1, 0.5]}, r"`thresholds` .*\[0, 1\]"),
    ({"class_balanced_beta": 1.0}, r"`class_balanced_beta` .*\[0, 1\), got 1.0"),
    ({"class_balanced_beta": -0.1}, r"`class_balanced_beta` .*\[0, 1\), got -0.1"),
)
BAD_CONFIGS: tuple[tuple[type[PreTrainedConfig], dict[str, Any], str], ...] = tuple(
    (LabelAwareBertConfig, arguments, message) for arguments, message in BAD_LABEL_AWARE_CONFIGS
)

# What a model does not support: {id: reason}. Each list skips visibly, with its reason.
NO_FULLGRAPH_COMPILE: dict[str, str] = {}
NO_GRADIENT_CHECKPOINTING: dict[str, str] = {}
NO_SDPA: dict[str, str] = {}
NO_PEFT: dict[str, str] = {}
NO_INPUTS_EMBEDS: dict[str, str] = {}
UNSUPPORTED = (NO_FULLGRAPH_COMPILE, NO_GRADIENT_CHECKPOINTING, NO_SDPA, NO_PEFT, NO_INPUTS_EMBEDS)


def each_case(unsupported: dict[str, str] | None = None) -> pytest.MarkDecorator:
    """Run a test for every case. Those named in `unsupported` are skipped with the reason given there."""
    rows = []
    for case in CASES:
        marks = []
        if case.id in (unsupported or {}):
            marks.append(pytest.mark.skipif(True, reason=unsupported[case.id]))
        rows.append(pytest.param(case, id=case.id, marks=marks))
    return pytest.mark.parametrize("case", rows)
