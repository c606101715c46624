# SPDX-License-Identifier: Apache-2.0
"""The models under test. A family joins the shared suite by adding rows: cases, bad configurations, named lists."""

import ast
import copy
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from hf_emotion.modeling import CGBertConfig, DialogueBiLSTMConfig, EmotionModulatedConfig, LabelAwareConfig
from packaging.version import Version
from torch import nn
from torch.testing import assert_close
from transformers import (
    AutoConfig,
    AutoModel,
    BertConfig,
    BertTokenizerFast,
    Gemma3TextConfig,
    GPT2Config,
    PreTrainedConfig,
)
from transformers.integrations.peft import MIN_PEFT_VERSION

from hf_emotion import modeling


# `add_adapter` of transformers; PEFT's own `get_peft_model` works with every version.
NATIVE_ADAPTERS = pytest.mark.skipif(
    Version(version("peft")) < Version(MIN_PEFT_VERSION),
    reason=f"transformers {transformers.__version__} adds adapters with peft >= {MIN_PEFT_VERSION}, not {version('peft')}",
)
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = tuple(
    "i am so feel feeling of the a day today this is not very rain sun joy anger nervous opt neutral happy sad calm fear "
    "nostalgia home sick ##ness ##im ##ism ##sick ##s ##ful ! . ,".split()
)
VOCABULARY = (*SPECIAL_TOKENS, *WORDS)
LABELS = ("joy", "anger", "nervousness", "optimism", "neutral")
# Of label names, for tests that compute a label's vector by hand.
WORD_PIECES = {name: (name,) for name in LABELS} | {
    **{"nervousness": ("nervous", "##ness"), "optimism": ("opt", "##im", "##ism")},
    **{"nostalgia": ("nostalgia",), "homesickness": ("home", "##sick", "##ness")},
}
TEXTS = ("I am so happy today!", "anger", "this is not a very calm day, I feel nervousness and fear.", "sun . rain")

SENTIMENTS = ("none", "negative", "neutral", "positive", "conflict")
ASPECTS = ("joy", "fear", "calm")
PLACES: dict[str, Any] = {"aspects": list(ASPECTS), "targets": ["PLACE1", "PLACE2"]}
PLACES |= {"target_texts": ["home of joy", "home of anger"]}
# Each text names a target of every model that has targets.
TARGETED_TEXTS = (
    "I am so happy, PLACE2 is not rain but sun!",
    "this day in PLACE1 is sun, in xPLACE2 it is very sad.",
    "rain . PLACE1 . rain",
)

# No two sizes are equal, so that a mixed-up dimension is an error and not a wrong number.
TINY_SIZES: dict[str, Any] = {
    **{"vocab_size": len(VOCABULARY), "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2},
    **{"intermediate_size": 24, "max_position_embeddings": 32},
}
TINY_BERT = {**TINY_SIZES, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def label_names(names: Sequence[str]) -> dict[str, Any]:
    """The names of the labels as a config takes them."""
    return {"id2label": dict(enumerate(names)), "label2id": {name: i for i, name in enumerate(names)}}


LABEL_NAMES = label_names(LABELS)
SENTIMENT_NAMES = label_names(SENTIMENTS)


Start = float | str | tuple[str, float]
LABEL_AWARE_STARTS: dict[str, Start] = {
    "bert.score.label_embeddings": "initializer_range",
    "bert.score.weight": "identity",
    "classifier.out_proj.weight": "initializer_range",
    "classifier.out_proj.bias": 0.0,
}
LABEL_AWARE_OUTPUTS: dict[str, Any] = {
    "base_outputs": ("label_representations", "last_hidden_state", "label_attentions", "label_attention_lse"),
    "head_outputs": ("loss", "logits", "label_attentions", "label_attention_lse"),
}
POOLER = frozenset({"pooler.dense.weight", "pooler.dense.bias"})
GATES = ("query_gate", "key_gate")
CG_CLASSES = (CGBertConfig, modeling.CGBertForSequenceClassification, modeling.CGBertModel)
QACG_CLASSES = (modeling.QACGBertConfig, modeling.QACGBertForSequenceClassification, modeling.QACGBertModel)
DIALOGUE_SIZE = 10  # of an utterance vector
TINY_DIALOGUE: dict[str, Any] = {
    **{"utterance_size": DIALOGUE_SIZE, "hidden_size": 6, "num_attention_heads": 3},
    **{"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
}
OF_MODEL: dict[str, Any] = {"utterance_encoder": "model", "utterance_size": TINY_BERT["hidden_size"]}
EMOTIONS = ("joy", "anger", "fear", "😂", "calm")
TINY_GPT2: dict[str, Any] = {
    **{"vocab_size": len(VOCABULARY), "n_embd": 16, "n_layer": 2, "n_head": 2, "n_inner": 24, "n_positions": 32},
    **{"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0},
}
CLS, SEP = VOCABULARY.index("[CLS]"), VOCABULARY.index("[SEP]")
GPT2_TOKENS = {"bos_token_id": SEP, "eos_token_id": SEP}  # as in GPT-2: one token starts, ends and pads
BERT_TOKENS = {"decoder_start_token_id": CLS, "context_start_token_id": CLS, "eos_token_id": SEP}
MOD_LN = {"num_emotions": len(EMOTIONS), "emotions": list(EMOTIONS), "use_cache": False}
GREEDY = {"max_new_tokens": 6}  # a new model draws no tokens
MOD_LN_TEXTS = (
    {"context": "I am so happy today!", "emotion": "joy"},
    {"context": "the rain is very sad .", "emotion": "😂"},
    {"context": "the rain is very sad .", "emotion": {"calm": 0.7, "fear": 0.5}},
)
TINY_DECODER: dict[str, Any] = {
    **TINY_SIZES,
    **{"num_key_value_heads": 1, "head_dim": 8, "use_cache": False},
    **{"pad_token_id": 0, "bos_token_id": SEP, "eos_token_id": SEP},
}


@dataclass(frozen=True, kw_only=True)
class ModelCase:
    """One model in one configuration."""

    id: str
    config_class: type[PreTrainedConfig]
    model_class: type[transformers.PreTrainedModel]
    base_class: type[transformers.PreTrainedModel] | None  # None: AutoModel has none
    auto_class: type = transformers.AutoModelForSequenceClassification
    config: dict[str, Any]  # keyword arguments of a tiny configuration, all dropouts 0
    # (batch, length, seed) -> arguments of the head's `forward` with labels; rows differ in length.
    make_inputs: Callable[[int, int, int], dict[str, torch.Tensor]]
    plain_config: PreTrainedConfig | None = (
        None  # of the stock model whose checkpoint initialises this one, if there is one
    )
    # Exactly the parameters that such a checkpoint does not fill, and what they start at: a standard deviation, as the name of the
    # config's field or as ("normal", std), "identity", or a constant.
    starts: dict[str, Start] = field(default_factory=dict)
    unused_weights: frozenset[str] = frozenset()  # of the checkpoint, for which this model has no place
    no_decay: frozenset[str] = frozenset()  # parameters without weight decay, beside norms and biases
    # Modules that LoRA trains in full; PEFT adds "classifier" and "score" without being asked.
    peft_modules_to_save: tuple[str, ...] = ("classifier", "score")
    base_outputs: tuple[str, ...]  # their names, in the order of the tuple
    head_outputs: tuple[str, ...] = ("loss", "logits")  # the head is called with labels
    task: str = "emotion-classification"
    texts: tuple[Any, ...] = TEXTS  # what the pipeline can read
    overfit_steps: int = 60  # of AdamW, in which the loss on 8 rows falls to a tenth
    lora_targets: tuple[str, ...] = ("query", "value")
    mask: str = "attention_mask"  # the input whose zeros mark padding along dimension 1
    logits_per_position: bool = False  # logits and labels have that dimension too; those at padding mean nothing
    dropout: str = "classifier_dropout"  # the field of the configuration with the dropout of the head
    attention_maps: int | None = None  # how many; None: one for each of its `num_hidden_layers`
    hidden_states_end_with_output: bool = True  # the last of the hidden states is the base model's output
    stacks: int = 1  # of `num_hidden_layers` layers
    attentions: str = "attentions"  # the output with attention maps
    generation: dict[str, Any] = field(default_factory=dict)  # settings of `generate` that make it deterministic
    peft_task: str = "SEQ_CLS"
    # In which sides of padding are compared; in float64 the mask of a language model becomes -inf, and NaN.
    precision: torch.dtype = torch.float64

    @property
    def exactness(self) -> float:
        return 1e-9 if self.precision == torch.float64 else 1e-4

    def make_config(self, **overrides) -> PreTrainedConfig:
        return self.config_class(**{**self.config, **overrides})

    def build(self, seed: int = 0, attn_implementation: str | None = None, **overrides) -> Any:
        """The head in eval mode, with asymmetric weights."""
        model = self.auto_class.from_config(self.make_config(**overrides), attn_implementation=attn_implementation)
        if self.generation:
            model.generation_config.update(**self.generation)
        return asymmetric_(model, seed).eval()

    def save_plain_checkpoint(self, folder: Path) -> dict[str, torch.Tensor]:
        """A stock checkpoint in `folder`, of the encoder where that is any; returns its weights."""
        model = asymmetric_(AutoModel.from_config(self.config.get("encoder_config", self.plain_config)), seed=11)
        model.save_pretrained(folder)
        return model.state_dict()

    def start(self, folder: Path, seed: int) -> Any:
        """The head over that checkpoint, in eval mode; what is new starts by the seed."""
        torch.manual_seed(seed)
        if self.plain_config is not None:
            config = self.config_class.from_pretrained(folder, **copy.deepcopy(self.config))
            return self.model_class.from_pretrained(folder, config=config).eval()
        of_encoder = ("encoder_config", "utterance_encoder", "utterance_size")
        fields = {name: value for name, value in self.config.items() if name not in of_encoder}
        return self.model_class.from_encoder_pretrained(folder, **fields).eval()


def is_bias(name: str) -> bool:
    """Also `query_bias`, and the biases of an LSTM, such as `bias_ih_l0`."""
    return "bias" in name.rpartition(".")[2]


@torch.no_grad()
def asymmetric_(model: nn.Module, seed: int = 0) -> nn.Module:
    """
    Fill every parameter with reproducible values that are far from zero and from each other, of a size that keeps
    activations near 1: weights ±[0.5, 1.5]/√fan_in, the vectors of gates too, embeddings ±[0.5, 1.5], biases
    ±[0.1, 0.3], other vectors [0.5, 1.5]. The values of a matrix grow from column to column, so that it differs from its
    transpose as a whole.
    """
    generator = torch.Generator().manual_seed(seed)
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    embeddings |= {id(p) for name, p in model.named_parameters() if name.endswith("label_embeddings")}
    for name, parameter in model.named_parameters():
        values = torch.rand(parameter.shape, generator=generator, dtype=torch.float64) + 0.5
        signs = torch.randint(0, 2, parameter.shape, generator=generator, dtype=torch.float64) * 2 - 1
        if is_bias(name):
            values = 0.2 * values * signs
        elif parameter.dim() > 1 or "gate" in name:
            columns = parameter.shape[-1]
            tilt = torch.linspace(0.6, 1.4, columns, dtype=torch.float64) if columns > 1 else 1.0
            fan_in = 1 if id(parameter) in embeddings else torch.atleast_2d(parameter)[0].numel()
            values = values * signs * tilt / fan_in**0.5
        parameter.copy_(values)
    return model


def make_tokenizer(folder: Path, words: Sequence[str] = VOCABULARY, **arguments) -> BertTokenizerFast:
    """A WordPiece tokenizer over `words`, built from a vocabulary file in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
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
    inputs = {"input_ids": input_ids * attention_mask, "token_type_ids": token_type_ids * attention_mask}
    return {**inputs, "attention_mask": attention_mask}


def classifier_inputs(batch: int, length: int, seed: int, multi_label: bool = True) -> dict[str, torch.Tensor]:
    """Encoder inputs and labels: (batch, C) of 0.0 and 1.0, or (batch,) class ids."""
    generator = torch.Generator().manual_seed(seed + 1000)
    if multi_label:
        labels = torch.randint(0, 2, (batch, len(LABELS)), generator=generator).float()
    else:
        labels = torch.randint(0, len(LABELS), (batch,), generator=generator)
    return {**encoder_inputs(batch, length, seed), "labels": labels}


def targeted_inputs(batch: int, length: int, seed: int, num_contexts: int) -> dict[str, torch.Tensor]:
    """Encoder inputs, `context_ids` (batch,) and labels (batch,), class ids."""
    generator = torch.Generator().manual_seed(seed + 2000)
    context_ids = torch.randint(num_contexts, (batch,), generator=generator)
    labels = torch.randint(len(SENTIMENTS), (batch,), generator=generator)
    return {**encoder_inputs(batch, length, seed), "context_ids": context_ids, "labels": labels}


def dialogue_inputs(batch: int, length: int, seed: int, utterances: str = "vectors", num_speakers: int = 0) -> dict:
    """
    `utterance_embeds` (batch, length, 10), or `input_ids` and `attention_mask` (batch, length, 4); `utterance_mask` and
    labels (batch, length), -100 at padding. Row 0 is full, the others are shorter.
    """
    generator = torch.Generator().manual_seed(seed + 3000)
    lengths = torch.tensor([max(2, length - 2 * (row % 3)) for row in range(batch)])
    mask = (torch.arange(length) < lengths[:, None]).long()
    inputs = {"utterance_mask": mask}
    if utterances == "vectors":
        inputs["utterance_embeds"] = torch.randn(batch, length, DIALOGUE_SIZE, generator=generator) * mask[..., None]
    else:
        shape = (batch, length, 4)
        input_ids = torch.randint(len(SPECIAL_TOKENS), len(VOCABULARY), shape, generator=generator)
        tokens = torch.randint(1, 5, (batch, length), generator=generator) * mask  # padding has none
        attention_mask = (torch.arange(4) < tokens[..., None]).long()
        inputs |= {"input_ids": input_ids * attention_mask, "attention_mask": attention_mask}
    if num_speakers:
        inputs["speaker_ids"] = torch.randint(num_speakers, (batch, length), generator=generator) * mask
    labels = torch.randint(len(LABELS), (batch, length), generator=generator)
    return {**inputs, "labels": labels.masked_fill(mask == 0, -100)}


def aspect_inputs(batch: int, length: int, seed: int) -> dict[str, torch.Tensor]:
    """Encoder inputs, and labels (batch, aspects), class ids."""
    generator = torch.Generator().manual_seed(seed + 2500)
    labels = torch.randint(len(SENTIMENTS), (batch, len(ASPECTS)), generator=generator)
    return {**encoder_inputs(batch, length, seed), "labels": labels}


def label_aware_case(id: str, starts: dict[str, Start], multi_label: bool = True, **config) -> ModelCase:
    return ModelCase(
        id=id,
        config_class=modeling.LabelAwareBertConfig,
        model_class=modeling.BertForLabelAwareClassification,
        base_class=modeling.LabelAwareBertModel,
        config={**TINY_BERT, **LABEL_NAMES, **config},
        make_inputs=partial(classifier_inputs, multi_label=multi_label),
        plain_config=BertConfig(**TINY_BERT),
        starts=starts,
        unused_weights=frozenset() if config.get("sentence_representation") == "pooler" else POOLER,
        no_decay=frozenset({"bert.score.label_embeddings", "bert.score.scale"} & set(starts)),
        **LABEL_AWARE_OUTPUTS,
    )


def text_inputs(batch: int, length: int, seed: int, multi_label: bool = True) -> dict[str, torch.Tensor]:
    """Those of `classifier_inputs` without token types, which some encoders do not read."""
    inputs = classifier_inputs(batch, length, seed, multi_label)
    del inputs["token_type_ids"]
    return inputs


def any_encoder_case(id: str, encoder, targets=("query", "value"), multi_label: bool = True, **config) -> ModelCase:
    return ModelCase(
        id=id,
        config_class=LabelAwareConfig,
        model_class=modeling.LabelAwareForSequenceClassification,
        base_class=modeling.LabelAwareModel,
        config={"encoder_config": encoder, "classifier_dropout": 0.0, **LABEL_NAMES, **config},
        make_inputs=partial(text_inputs, multi_label=multi_label),
        no_decay=frozenset({"model.score.label_embeddings"}),
        lora_targets=targets,
        **LABEL_AWARE_OUTPUTS,
    )


def context_starts(config: dict[str, Any]) -> dict[str, Start]:
    """The new weights of a context-guided model and how they start."""
    starts: dict[str, Start] = {"classifier.weight": "initializer_range", "classifier.bias": 0.0}
    starts["bert.context_embeddings.weight"] = "context_initializer_range"
    for layer in range(TINY_BERT["num_hidden_layers"]):
        guidance = f"bert.encoder.layer.{layer}.attention.self.guidance"
        for name in ("context", "hidden", "query", "key", *GATES, "query_gate_context", "key_gate_context"):
            starts[f"{guidance}.{name}_weight"] = "context_initializer_range"
        for name in ("context", "query", "key", *(GATES if config.get("gate_bias") else ())):
            starts[f"{guidance}.{name}_bias"] = 0.0
    return starts


def context_guided_case(id: str, classes: tuple[type, type, type], **config) -> ModelCase:
    config_class, model_class, base_class = classes
    starts, num_contexts = context_starts(config), len(ASPECTS) * len(config.get("targets", [None]))
    return ModelCase(
        id=id,
        config_class=config_class,
        model_class=model_class,
        base_class=base_class,
        config={**TINY_BERT, **SENTIMENT_NAMES, "aspects": list(ASPECTS), **config},
        make_inputs=partial(targeted_inputs, num_contexts=num_contexts),
        plain_config=BertConfig(**TINY_BERT),
        starts=starts,
        unused_weights=frozenset() if config.get("use_pooler", True) else POOLER,
        no_decay=frozenset(
            name for name in starts if any(part in name for part in ("context_embeddings.weight", *GATES))
        ),
        base_outputs=("last_hidden_state", "pooler_output"),
        peft_modules_to_save=("classifier", "context_embeddings", "guidance"),
        task="targeted-sentiment",
        texts=TARGETED_TEXTS,
    )


def esa_case(id: str, multi_label: bool = False, **config) -> ModelCase:
    # The ids of the vocabulary above are BERT's: its padding is 0 and not RoBERTa's 1.
    tiny = {**TINY_BERT, "pad_token_id": 0, "type_vocab_size": 2}
    starts: dict[str, Start] = {"roberta.emotion_attention.scale": 1.0}
    if config.get("esa_position_embedding", "learned") == "learned":
        starts["roberta.emotion_attention.position_embeddings"] = ("normal", 0.02)
    projections = ["query", "key", "value"] + (["out_proj"] if config.get("esa_output_projection", True) else [])
    layers = [f"roberta.emotion_attention.{name}" for name in projections]
    head = ["classifier.1"] + (["classifier.4"] if config.get("head_hidden_size") else [])
    for name in (*layers, *head):
        starts[f"{name}.weight"] = "initializer_range"
        if name in head or config.get("esa_bias", True):
            starts[f"{name}.bias"] = 0.0
    return ModelCase(
        id=id,
        config_class=modeling.RobertaESAConfig,
        model_class=modeling.RobertaWithESAForSequenceClassification,
        base_class=modeling.RobertaWithESA,
        config={**tiny, **LABEL_NAMES, "classifier_dropout": 0.0, **config},
        make_inputs=partial(classifier_inputs, multi_label=multi_label),
        plain_config=transformers.RobertaConfig(**tiny),
        starts=starts,
        unused_weights=POOLER,
        no_decay=frozenset(
            {"roberta.emotion_attention.scale", "roberta.emotion_attention.position_embeddings"} & set(starts)
        ),
        peft_modules_to_save=("classifier", "emotion_attention"),
        base_outputs=("pooled_output", "last_hidden_state"),
        hidden_states_end_with_output=False,  # they are the encoder's
    )


def dialogue_case(id: str, stacks: int = 1, **config) -> ModelCase:
    utterances, speakers = config.get("utterance_encoder", "vectors"), config.get("num_speakers", 0)
    return ModelCase(
        id=id,
        config_class=DialogueBiLSTMConfig,
        model_class=modeling.DialogueBiLSTMForEmotionRecognition,
        base_class=modeling.DialogueBiLSTMModel,
        auto_class=transformers.AutoModelForTokenClassification,
        config={**TINY_DIALOGUE, **LABEL_NAMES, **config},
        make_inputs=partial(dialogue_inputs, utterances=utterances, num_speakers=speakers),
        base_outputs=("last_hidden_state", "utterance_embeds"),
        task="dialogue-emotion",
        overfit_steps=150,
        mask="utterance_mask",
        logits_per_position=True,
        dropout="hidden_dropout_prob",
        attention_maps=1,
        stacks=stacks,
        peft_task="TOKEN_CLS",
        peft_modules_to_save=("classifier", "context"),
    )


def reply_inputs(batch: int, length: int, seed: int, mixtures: bool = False) -> dict[str, torch.Tensor]:
    """
    Context, `decoder_input_ids` with their mask, labels, -100 at padding, all (batch, length), and the emotions: ids
    (batch,) or weights (batch, E). Row 0 is full, the others are shorter.
    """
    generator = torch.Generator().manual_seed(seed + 4000)
    inputs = encoder_inputs(batch, length, seed)
    del inputs["token_type_ids"]
    mask = inputs["attention_mask"]
    decoder_input_ids = torch.randint(len(SPECIAL_TOKENS), len(VOCABULARY), (batch, length), generator=generator)
    labels = torch.randint(len(SPECIAL_TOKENS), len(VOCABULARY), (batch, length), generator=generator)
    inputs |= {"decoder_input_ids": decoder_input_ids * mask, "decoder_attention_mask": mask.clone()}
    if mixtures:
        inputs["emotion_weights"] = torch.rand(batch, len(EMOTIONS), generator=generator)
    else:
        inputs["emotion_ids"] = torch.randint(len(EMOTIONS), (batch,), generator=generator)
    return {**inputs, "labels": labels.masked_fill(mask == 0, -100)}


def modulators_of(model: nn.Module) -> frozenset[str]:
    """The names of the modulators' weights."""
    parts = ("scale_in", "scale_out", "shift_in", "shift_bias", "shift_out")
    norms = [name for name, module in model.named_modules() if isinstance(module, modeling.ModulatedLayerNorm)]
    places = [name.split(".", maxsplit=2) for name in norms]
    return frozenset(f"{a}.{b}.modulation.{c.replace('.', '_')}_{part}" for a, b, c in places for part in parts)


def mod_ln_case(id: str, family: str, mixtures: bool = False, **config) -> ModelCase:
    gpt2 = family == "gpt2"
    name = "GPT2ModLN" if gpt2 else "BertModLN"
    kinds = [getattr(modeling, f"{name}{kind}") for kind in ("Config", "ForConditionalGeneration", "Model")]
    config_class, model_class, base_class = kinds
    config = {**(TINY_GPT2 | GPT2_TOKENS if gpt2 else TINY_BERT | BERT_TOKENS), **MOD_LN, **config}
    return ModelCase(
        id=id,
        config_class=config_class,
        model_class=model_class,
        base_class=base_class,
        auto_class=transformers.AutoModelForSeq2SeqLM,
        config=config,
        make_inputs=partial(reply_inputs, mixtures=mixtures),
        no_decay=modulators_of(model_class(config_class(**config))),
        peft_modules_to_save=("modulation",),
        base_outputs=("last_hidden_state", "encoder_last_hidden_state"),
        head_outputs=("loss", "logits", "encoder_last_hidden_state"),
        task="emotional-response",
        texts=MOD_LN_TEXTS,
        overfit_steps=120,
        lora_targets=("c_attn", "q_attn") if gpt2 else ("query", "value"),
        logits_per_position=True,
        dropout="resid_pdrop" if gpt2 else "hidden_dropout_prob",
        stacks=2,
        attentions="decoder_attentions",
        generation=GREEDY,
        peft_task="SEQ_2_SEQ_LM",
    )


def continuation_inputs(batch: int, length: int, seed: int, mixtures: bool = False) -> dict[str, torch.Tensor]:
    """
    `input_ids` and `attention_mask` (batch, length), labels, -100 at padding and at the first token, which nothing predicts, and
    the emotions: ids (batch,) or weights (batch, E). Row 0 is full, the others are shorter.
    """
    inputs = reply_inputs(batch, length, seed, mixtures)
    labels = inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100)
    labels[:, 0] = -100
    return {**{name: value for name, value in inputs.items() if not name.startswith("decoder_")}, "labels": labels}


def modulated_case(id: str, text_config, targets=("q_proj", "v_proj"), mixtures: bool = False, **config) -> ModelCase:
    """All of it is trained, as the suite asks; the frozen language model: see test_emotion_modulated.py."""
    shared = {"text_config": text_config, "freeze_language_model": False, "modulation_size": 7}
    return ModelCase(
        id=id,
        config_class=EmotionModulatedConfig,
        model_class=modeling.EmotionModulatedForCausalLM,
        base_class=None,
        auto_class=transformers.AutoModelForCausalLM,
        config={**shared, "num_emotions": len(EMOTIONS), "emotions": list(EMOTIONS), **config},
        make_inputs=partial(continuation_inputs, mixtures=mixtures),
        peft_modules_to_save=("emotion_modulation",),
        base_outputs=(),
        task="emotional-response",
        texts=MOD_LN_TEXTS,
        overfit_steps=120,
        lora_targets=targets,
        logits_per_position=True,
        generation=GREEDY,
        peft_task="CAUSAL_LM",
        precision=torch.float32,
    )


def tiny(model_type: str, **own) -> PreTrainedConfig:
    return AutoConfig.for_model(model_type, **TINY_BERT, **own)


THRESHOLDS = [0.65, 0.5, 0.7, 0.6, 0.66]  # some labels of `TEXTS` pass, some do not
BALANCED: dict[str, Any] = {"class_balanced_beta": 0.9, "class_counts": [3, 40, 7, 1, 12]}
WITHOUT_CACHE = {**GPT2_TOKENS, "use_cache": False}
MIXED: dict[str, Any] = {"mixtures": True, "modulation": "replace"}
CASES: tuple[ModelCase, ...] = (
    label_aware_case("label-aware", LABEL_AWARE_STARTS),
    label_aware_case(
        "label-aware-pooler-hidden-balanced",
        {**LABEL_AWARE_STARTS, "classifier.dense.weight": "initializer_range", "classifier.dense.bias": 0.0},
        sentence_representation="pooler",
        head_hidden_size=12,
        class_balanced_normalize=True,
        thresholds=THRESHOLDS,
        **BALANCED,
    ),
    label_aware_case("label-aware-untied", LABEL_AWARE_STARTS, tie_head=False),
    label_aware_case(
        "leam",
        {
            **{"bert.score.label_embeddings": "initializer_range", "classifier.1.weight": "initializer_range"},
            **{"bert.score.weight": 1 / 5, "bert.score.bias": 0.0, "bert.score.scale": 1.0, "classifier.1.bias": 0.0},
        },
        label_attention="leam",
        leam_radius=2,
    ),
    label_aware_case(
        "label-aware-single-label",
        LABEL_AWARE_STARTS,
        multi_label=False,
        problem_type="single_label_classification",
        **BALANCED,
    ),
    replace(
        label_aware_case(
            "label-aware-aspects",
            LABEL_AWARE_STARTS,
            **{**SENTIMENT_NAMES, "problem_type": "single_label_classification", "aspects": list(ASPECTS), **PLACES},
        ),
        make_inputs=aspect_inputs,
        task="targeted-sentiment",
        texts=TARGETED_TEXTS,
    ),
    any_encoder_case(
        "any-modernbert",
        transformers.ModernBertConfig(
            **TINY_SIZES,
            **{"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3},
            **{"local_attention": 8, "global_attn_every_n_layers": 2},
        ),
        ("Wqkv", "Wo"),
        thresholds=THRESHOLDS,
        head_hidden_size=12,
    ),
    any_encoder_case("any-xlm-roberta", tiny("xlm-roberta", pad_token_id=0), label_embedding_init="contextual"),
    any_encoder_case(
        "any-deberta",
        tiny("deberta-v2", relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8),
        ("query_proj", "value_proj"),
        sentence_representation="first",
        tie_head=False,
    ),
    any_encoder_case("any-mpnet", tiny("mpnet"), ("q", "v"), label_attention_init="normal"),
    any_encoder_case(
        "any-distilbert",
        tiny("distilbert", hidden_dim=24, dropout=0.0, attention_dropout=0.0),
        ("q_lin", "v_lin"),
        multi_label=False,
        problem_type="single_label_classification",
    ),
    any_encoder_case("any-electra", tiny("electra", embedding_size=8), head_bias_init="prior", label_embedding_size=8),
    any_encoder_case(
        "any-qwen3",
        transformers.Qwen3Config(**TINY_SIZES, num_key_value_heads=1, head_dim=8, pad_token_id=0),
        ("q_proj", "v_proj"),
        sentence_representation="last",
    ),
    context_guided_case("cg", CG_CLASSES),
    context_guided_case(
        "cg-per-head-sigmoid-no-pooler-names",
        CG_CLASSES,
        gate_heads="per_head",
        gate_activation="sigmoid",
        use_pooler=False,
        auxiliary_sentence=True,
        **PLACES,
    ),
    context_guided_case("qacg", QACG_CLASSES, targets=["sun", "rain"]),
    context_guided_case(
        "qacg-per-head-context-gate-bias",
        QACG_CLASSES,
        context_heads="per_head",
        gate_bias=True,
        auxiliary_sentence=True,
        **PLACES,
    ),
    context_guided_case(
        "qacg-neg-l1-per-head-gates-scaled",
        QACG_CLASSES,
        quasi_similarity="neg_l1",
        gate_heads="per_head",
        **{"quasi_alpha": 0.7, "quasi_beta": 1.3, "quasi_gamma": 0.6},
    ),
    esa_case("esa"),
    esa_case(
        "esa-one-head-plain-sinusoidal-cls-mean-hidden",
        esa_num_attention_heads=1,
        esa_bias=False,
        esa_output_projection=False,
        esa_position_embedding="sinusoidal",
        esa_pooling="cls_mean",
        head_hidden_size=12,
    ),
    esa_case(
        "esa-multi-label-thresholds",
        multi_label=True,
        problem_type="multi_label_classification",
        esa_position_embedding="none",
        esa_pooling="cls",
        thresholds=THRESHOLDS,
        **BALANCED,
    ),
    dialogue_case("dialogue"),
    dialogue_case(
        "dialogue-causal-speakers-two-layers",
        causal=True,
        num_speakers=3,
        num_hidden_layers=2,
        positional_encoding_at="attention",
        class_weights=[0.5, 2.0, 1.0, 3.0, 1.0],
    ),
    dialogue_case("dialogue-model", **OF_MODEL, encoder_config=tiny("bert"), num_speakers=2),
    dialogue_case(
        "dialogue-model-trained",
        **OF_MODEL,
        encoder_config=tiny("roberta", pad_token_id=0),
        freeze_encoder=False,
        stacks=TINY_BERT["num_hidden_layers"],  # over one layer of the dialogue
    ),
    dialogue_case("dialogue-words", utterance_encoder="bilstm", vocab_size=len(VOCABULARY)),
    mod_ln_case("gpt2-mod-ln", "gpt2"),
    mod_ln_case(
        "gpt2-mod-ln-replace-some-norms-mixtures",
        "gpt2",
        **MIXED,
        modulate_encoder=False,
        modulated_norms=["ln_1", "ln_2"],
    ),
    mod_ln_case("bert-mod-ln", "bert"),
    mod_ln_case("bert-mod-ln-replace-encoder-mixtures", "bert", **MIXED, modulate_decoder=False),
    modulated_case("modulated-llama", transformers.LlamaConfig(**TINY_DECODER)),
    modulated_case(
        "modulated-qwen3-mixtures-some-norms",
        transformers.Qwen3Config(**TINY_DECODER),
        mixtures=True,
        shift=False,
        modulated_norms=["post_attention_layernorm"],
    ),
    modulated_case("modulated-gemma3-mixtures", Gemma3TextConfig(**TINY_DECODER, sliding_window=8), mixtures=True),
    modulated_case("modulated-gpt2", GPT2Config(**TINY_GPT2, **WITHOUT_CACHE), ("c_attn",), shift=False),
)
BY_ID = {case.id: case for case in CASES}
# One of each family is published on a Hub and tuned from there: its thresholds, counts and names must survive.
HUB_CASES = (
    "label-aware-pooler-hidden-balanced",
    "any-modernbert",
    "cg-per-head-sigmoid-no-pooler-names",
    "qacg-per-head-context-gate-bias",
    "esa-multi-label-thresholds",
    "dialogue-model",
    "gpt2-mod-ln-replace-some-norms-mixtures",
    "bert-mod-ln",
    "modulated-llama",
)

# (arguments, what the message says), for each rule of each `validate_*` method.
Rows = tuple[tuple[dict[str, Any], str], ...]
BAD_CLASSIFIER_CONFIGS: Rows = (  # of emotions
    ({"problem_type": "regression"}, "regression needs `value_range`, .* got None"),
    ({"is_decoder": True}, "`is_decoder`"),
    ({"add_cross_attention": True}, "`add_cross_attention`"),
    ({"head_hidden_size": 0}, "`head_hidden_size` must be at least 1, got 0"),
    ({"num_labels": 3, "class_counts": [1, 2]}, "`class_counts` needs .* 3 labels, got 2"),
    ({"num_labels": 3, "thresholds": [0.5] * 4}, "`thresholds` needs .* 3 labels, got 4"),
    ({"class_counts": [5, -1]}, "`class_counts` must not be negative"),
    ({"thresholds": [0.5, 1.1]}, r"`thresholds` .*\[0, 1\], got \[0.5, 1.1\]"),
    ({"thresholds": [-0.1, 0.5]}, r"`thresholds` .*\[0, 1\]"),
    ({"class_balanced_beta": 1.0}, r"`class_balanced_beta` .*\[0, 1\), got 1.0"),
    ({"class_balanced_beta": -0.1}, r"`class_balanced_beta` .*\[0, 1\), got -0.1"),
)
BAD_LEAM_CONFIGS: Rows = (
    ({"label_attention": "leam", "label_embedding_size": 8}, "`label_embedding_size` must equal .* got 8"),
    ({"label_attention": "leam", "tie_head": False}, "`tie_head` must stay at its default: LEAM"),
    ({"label_attention": "leam", "head_hidden_size": 4}, "`head_hidden_size` must stay at its default: LEAM"),
    ({"label_embedding_size": 0}, "`label_embedding_size` must be at least 1, got 0"),
    ({"leam_radius": -1}, "`leam_radius` must be at least 0, got -1"),
    ({"num_labels": 3, "label_texts": ["glad", "cross"]}, "`label_texts` needs .* 3 labels, got 2"),
)
NOT_OF_LEAM = "`sentence_representation` must stay at its default: LEAM"
ONE_SENTIMENT = {"aspects": ["price"], "problem_type": "single_label_classification"}
BAD_ASPECT_CONFIGS: Rows = (
    ({"aspects": ["price"], "problem_type": "multi_label_classification"}, "`problem_type` .* with `aspects`"),
    ({**ONE_SENTIMENT, "target_words": ["this"]}, r"`target_words` needs two texts, got \['this'\]"),
    ({**ONE_SENTIMENT, "aspects": ["price", "price"]}, "`aspects` must be different names"),
)
BAD_LABEL_AWARE_CONFIGS: Rows = (
    *BAD_ASPECT_CONFIGS,
    *(*BAD_CLASSIFIER_CONFIGS, *BAD_LEAM_CONFIGS),
    ({"label_attention": "leam", "sentence_representation": "pooler"}, NOT_OF_LEAM),
)
BAD_ANY_ENCODER_CONFIGS: Rows = (
    *(row for row in BAD_CLASSIFIER_CONFIGS if not row[0].keys() & {"is_decoder", "add_cross_attention"}),
    *BAD_LEAM_CONFIGS,
    ({"label_attention": "leam", "sentence_representation": "last"}, NOT_OF_LEAM),
    ({"sentence_representation": "cls"}, "'sentence_representation'"),
    # Those of `nested_config`, of which other files have a copy.
    ({"encoder_config": {"model_type": "nobert"}}, "`encoder_config` .* 'nobert', which"),
    ({"encoder_config": {"model_type": "t5"}}, "`encoder_config` .* an encoder-decoder"),
    ({"encoder_config": {"model_type": "gemma3"}}, "`encoder_config` .* 'gemma3'.* more than text"),
    ({"encoder_config": {"model_type": "cg-bert"}}, "`encoder_config` .*does not have"),
)
ONE_LABEL: Rows = (
    ({"problem_type": "regression", "num_labels": 1}, "`problem_type` .* got 'regression'"),
    ({"problem_type": "multi_label_classification"}, "'single_label_classification', got 'multi_label_c"),
)
TWO_PLACES = {"aspects": ["price"], "targets": ["LOCATION1", "LOCATION2"]}
BAD_CG_CONFIGS: Rows = (
    *(*ONE_LABEL, *(({name: True}, f"`{name}`") for name in ("is_decoder", "add_cross_attention"))),
    ({"num_contexts": 0}, "`num_contexts` must be at least 1, got 0"),
    ({"targets": ["LOCATION1"]}, "`targets` need `aspects`"),
    ({**TWO_PLACES, "num_contexts": 3}, "`num_contexts` is 3, .* 2 targets × 1 aspects"),
    ({"aspects": []}, "`aspects`|0 aspects"),
    ({"aspects": ["price"], "targets": []}, r"`targets` must be different names, .* got \[\]"),
    ({"aspects": ["price", "price"]}, r"`aspects` must be different names, .* got \['price', 'price'\]"),
    ({"aspects": ["price"], "targets": ["LOCATION1", "LOCATION1"]}, "`targets` must be different names"),
    ({**TWO_PLACES, "target_texts": ["1"]}, r"`target_texts` needs one text .* each of .*LOCATION2.* got \['1'\]"),
    ({"aspects": ["price"], "target_texts": ["one"]}, "`target_texts` needs one text for each"),
    ({"context_initializer_range": -0.1}, "`context_initializer_range` must be at least 0, got -0.1"),
)
BAD_ESA_CONFIGS: Rows = (
    *BAD_CLASSIFIER_CONFIGS,
    ({"esa_num_attention_heads": 0}, r"`esa_num_attention_heads` must divide `hidden_size` \(768\), got 0"),
    ({"esa_num_attention_heads": 5}, r"`esa_num_attention_heads` must divide `hidden_size` \(768\), got 5"),
)
BAD_DIALOGUE_CONFIGS: Rows = (
    *ONE_LABEL,
    ({"utterance_encoder": "model"}, "`encoder_config` and .* got utterance_encoder='model' without"),
    ({"utterance_encoder": "model", "encoder_config": {}}, "`encoder_config` .* None, which"),
    ({"utterance_encoder": "model", "encoder_config": {"model_type": "cg-bert"}}, "`encoder_config` .*does not have"),
    ({"encoder_config": {"model_type": "bert"}}, "`encoder_config` and .* got utterance_encoder='vectors' with "),
    *(({name: 0}, f"`{name}` must be at least 1, got 0") for name in ("utterance_size", "hidden_size")),
    ({"num_hidden_layers": -1}, "`num_hidden_layers` must be at least 0, got -1"),
    ({"num_attention_heads": -2}, "`num_attention_heads` must be at least 0, got -2"),
    ({"num_speakers": -1}, "`num_speakers` must be at least 0, got -1"),
    ({"num_attention_heads": 3}, r"`num_attention_heads` \(3\) must divide .* \(256\)"),
    ({"hidden_size": 6, "causal": True}, r"`num_attention_heads` \(4\) must divide .* \(6\)"),
    ({"num_hidden_layers": 0, "utterance_size": 30}, r"`num_attention_heads` \(4\) must divide .* \(30\)"),
    ({"utterance_encoder": "bilstm", "utterance_size": 9}, "`utterance_size` must be even, got 9"),
    ({"num_labels": 3, "class_weights": [1.0, 2]}, "`class_weights` needs .* 3 labels, got 2"),
)
BAD_MODULATIONS: Rows = (
    ({"num_emotions": 0}, "`num_emotions` must be at least 1, got 0"),
    ({"emotions": ["joy", "anger"]}, r"`emotions` must be \d\d .`num_emotions`. different .*, .*got .*joy"),
    ({"num_emotions": 2, "emotions": ["joy", "joy"]}, r"`emotions` must be 2 .* different .* got \['joy', 'joy'\]"),
    ({"modulation_initializer_range": -0.1}, "`modulation_initializer_range` must be at least 0, got -0.1"),
)
BAD_MOD_LN_CONFIGS: Rows = (
    *BAD_MODULATIONS,
    ({"num_emotions": 2, "emotion_token_ids": [5]}, "`emotion_token_ids` must be 2 .* different"),
    ({"num_emotions": 2, "emotion_token_ids": [5, 5]}, "`emotion_token_ids` must be 2 .* different"),
    ({"num_emotions": 1, "emotion_token_ids": [60000]}, "`emotion_token_ids` must be a token id in .* got 60000"),
    ({"modulated_norms": ["ln_3"]}, r"`modulated_norms` must be some of .*, got \['ln_3'\]"),
    ({"modulated_norms": []}, "`modulated_norms` is empty: .* `modulate_encoder` and `modulate_decoder`"),
    ({"vocab_size": 40}, r"`\w+_token_id` must be a token id in \[0, 40\), got \d+: pass the tokenizer's"),
    ({"context_separator_token_id": -1}, r"`context_separator_token_id` must be a token id in .* got -1"),
    ({"context_start_token_id": 60000}, r"`context_start_token_id` must be a token id in .* got 60000"),
)
BAD_MODULATED_CONFIGS: Rows = (
    *BAD_MODULATIONS,
    ({"modulation_size": 0}, "`modulation_size` must be at least 1, got 0"),
    ({"emotion_prompt": "You feel joy."}, "`emotion_prompt` must hold {emotion}.* got 'You feel joy.'"),
    ({"base_model_name_or_path": "a/b", "freeze_language_model": False}, "`base_model_name_or_path` .* got 'a/b'"),
    ({"text_config": {"model_type": "emotion-modulated"}}, "`text_config` .*does not have"),
)
BAD_CONFIGS = tuple(
    (config_class, arguments, message)
    for config_class, rows in (
        (modeling.LabelAwareBertConfig, BAD_LABEL_AWARE_CONFIGS),
        (LabelAwareConfig, BAD_ANY_ENCODER_CONFIGS),
        (CGBertConfig, BAD_CG_CONFIGS),
        (modeling.QACGBertConfig, (*ONE_LABEL, ({"num_contexts": 0}, "`num_contexts` must be at least 1, got 0"))),
        (modeling.RobertaESAConfig, BAD_ESA_CONFIGS),
        (DialogueBiLSTMConfig, BAD_DIALOGUE_CONFIGS),
        (modeling.GPT2ModLNConfig, BAD_MOD_LN_CONFIGS),
        (modeling.BertModLNConfig, BAD_MOD_LN_CONFIGS),
        (EmotionModulatedConfig, BAD_MODULATED_CONFIGS),
    )
    for arguments, message in rows
)


def of(*config_classes: type) -> tuple[str, ...]:
    return tuple(case.id for case in CASES if case.config_class in config_classes)


ANY_ENCODER_CASES, DIALOGUE_CASES = of(LabelAwareConfig), of(DialogueBiLSTMConfig)
MODULATED_CASES = of(EmotionModulatedConfig)
MOD_LN_CASES = of(modeling.GPT2ModLNConfig, modeling.BertModLNConfig)
WITH_ENCODER = [id for id in DIALOGUE_CASES if BY_ID[id].config.get("utterance_encoder") == "model"]
NO_ENCODER = dict.fromkeys(set(DIALOGUE_CASES) - set(WITH_ENCODER), "no pretrained encoder: all of it is trained")
NO_STOCK_MODEL = "no stock model has its weights"
WRAPS = dict.fromkeys((*MOD_LN_CASES, *MODULATED_CASES), "refuses plain checkpoints: see their own files")
# Their eager attention takes the softmax in float32, whatever the precision; more tokens change the order of its sum.
FLOAT32_SOFTMAX = ("any-modernbert", "any-qwen3")
# Their encoder counts positions by the ids that are not padding.
PADDED_BY_ID = of(modeling.RobertaESAConfig)
# What a model does not support -> {id: reason}.
UNSUPPORTED: dict[str, dict[str, str]] = {
    "base model": {case.id: "AutoModel has none" for case in CASES if case.base_class is None},
    "dropout": dict.fromkeys(MODULATED_CASES, "has none beside the language model's"),
    "check of masks": dict.fromkeys(MODULATED_CASES, "`generate` hands over masks of other shapes"),
    "fullgraph compile": dict.fromkeys(DIALOGUE_CASES, "TorchDynamo traces no torch.nn.LSTM"),
    "gradient checkpointing": {
        **{id: "no Transformer that is trained" for id in DIALOGUE_CASES if id != "dialogue-model-trained"},
        "any-mpnet": "MPNet of transformers has none",
    },
    "sdpa": dict.fromkeys(("any-deberta", "any-mpnet"), "the encoder has its own attention alone"),
    "peft": NO_ENCODER,
    "peft's defaults": {
        **NO_ENCODER,
        **dict.fromkeys(MOD_LN_CASES, "PEFT saves no further modules for SEQ_2_SEQ_LM"),
        **dict.fromkeys(MODULATED_CASES, f"{NO_STOCK_MODEL}: see test_emotion_modulated.py"),
    },
    "check of architecture": {
        **dict.fromkeys(DIALOGUE_CASES, f"{NO_STOCK_MODEL}: see test_dialogue_bilstm.py"),
        **dict.fromkeys(ANY_ENCODER_CASES, "fits every architecture: see test_label_aware.py"),
        **WRAPS,
    },
    "labels": dict.fromkeys((*MOD_LN_CASES, *MODULATED_CASES), "has no labels"),
    "inputs_embeds": dict.fromkeys(DIALOGUE_CASES, "takes `utterance_embeds`, which are something else"),
    "hidden states": {
        **dict.fromkeys(DIALOGUE_CASES, "of another number and size: see test_dialogue_bilstm.py"),
        **dict.fromkeys(MOD_LN_CASES, "has those of two sides: see test_mod_ln.py"),
    },
    "token embeddings": {id: "reads none" for id in DIALOGUE_CASES if "utterance_encoder" not in BY_ID[id].config},
    "plain checkpoint": {**dict.fromkeys((*DIALOGUE_CASES, *ANY_ENCODER_CASES), NO_STOCK_MODEL), **WRAPS},
    "offload": {"any-deberta": "DeBERTa of transformers reads the weights of its relative positions itself"},
    "generation": {case.id: "classifies" for case in CASES if not case.generation},
    "no family": {id: "as its family" for id in BY_ID if id not in HUB_CASES},
}
assert len(BY_ID) == len(CASES) and all(set(ids) <= set(BY_ID) for ids in UNSUPPORTED.values())


def each_case(*needed: str, slow: bool = False, quick: Sequence[str] = HUB_CASES) -> pytest.MarkDecorator:
    """
    Run a test for every case that supports what is needed. Where a case takes long, or tells no more than another of its family
    (`slow`), `make test` runs those of `quick` alone, by default one of each family.
    """
    rows = [
        pytest.param(case, id=case.id, marks=[pytest.mark.slow] if slow and case.id not in quick else [])
        for case in CASES
        if not any(case.id in UNSUPPORTED[name] for name in needed)
    ]
    assert rows, "every case is unsupported"
    return pytest.mark.parametrize("case", rows)


def leaves(results) -> list[str | float | None]:
    """Every name and every number in the results of a pipeline, in their order."""
    if results is None or isinstance(results, (str, float)):
        return [results]
    parts = [part for item in results.items() for part in item] if isinstance(results, dict) else results
    return [leaf for part in parts for leaf in leaves(part)]


def without_labels(inputs: dict) -> dict:
    return {name: value for name, value in inputs.items() if name != "labels"}


def assert_self_contained(folder: Path) -> None:
    """Every class that config.json names lies in `folder`, and everything that those files import."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    targets = list(config["auto_map"].values())
    for target in targets:
        assert "--" not in target
        assert (folder / f"{target.partition('.')[0]}.py").is_file(), target
    for path in folder.glob("*.py"):
        source = path.read_text(encoding="utf-8")
        assert source == (Path(modeling.__file__).parent / path.name).read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and node.level:
                assert (folder / f"{node.module}.py").is_file(), f"{path.name} imports {node.module}"


def assert_near(found: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal but for the order of sums."""
    assert_close(found, expected, rtol=1e-6, atol=1e-6 * max(1.0, expected.abs().max().item()))


def setting(value):
    """The value; of a configuration within a configuration its type and what differs from its defaults."""
    if not isinstance(value, PreTrainedConfig):
        return value
    ignored = ("transformers_version", "dtype", "_name_or_path")
    return type(value), {name: one for name, one in value.to_diff_dict().items() if name not in ignored}
