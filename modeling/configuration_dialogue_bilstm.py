# SPDX-License-Identifier: Apache-2.0
"""Configuration of the dialogue BiLSTM: BiLSTM, positional encoding and multi-head self-attention over utterances."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from huggingface_hub.dataclasses import strict
from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig
from transformers.utils import logging


logger = logging.get_logger(__name__)

# Copied from configuration_label_aware.LABEL_FIELDS
LABEL_FIELDS = (
    "class_counts",
    "class_weights",
    "thresholds",
    "calibration_temperature",
    "abstention",
    "prediction_sets",
)


# Copied from configuration_label_aware.merged
def merged(
    config_class, config_dict: Mapping[str, Any], kwargs: dict[str, Any], fitting: Sequence[str], remedy: str
) -> dict[str, Any]:
    """
    A checkpoint's config.json with the fields among the arguments of `from_pretrained`, so that the checks of the class see both.
    If the arguments change the labels, values for the old labels are left out.

    Raises:
        ValueError: the checkpoint's model type is not one of `fitting`: transformers would leave its weights at random values.
    """
    saved, found = dict(config_dict), config_dict.get("model_type", config_class.model_type)
    if found not in fitting:
        raise ValueError(
            f"the checkpoint must be one of {' or '.join(map(repr, fitting))}, got one of {found!r}: {remedy}."
        )
    if found != config_class.model_type:
        saved.pop("problem_type", None)  # that of another head
    known = (*config_class.__dataclass_fields__, *LABEL_FIELDS)
    given = {name: kwargs.pop(name) for name in list(kwargs) if name in known}
    names = saved.get("id2label") or {i: f"LABEL_{i}" for i in range(saved.get("num_labels") or 2)}
    new = given.get("id2label") or names
    if kwargs.get("num_labels", len(new)) != len(new):
        new = {}
        saved = {name: value for name, value in saved.items() if name not in ("id2label", "label2id")}
    if {int(i): name for i, name in new.items()} != {int(i): name for i, name in names.items()}:
        stale = [name for name in LABEL_FIELDS if saved.pop(name, None) is not None and name not in given]
        if stale:
            logger.warning(
                f"The labels are new: {', '.join(f'`{name}`' for name in stale)} of the old ones are dropped."
            )
    return {**saved, **given}


# Copied from configuration_label_aware.nested_config
def nested_config(config: Mapping[str, Any] | PreTrainedConfig, field: str) -> PreTrainedConfig:
    """
    The configuration of a text model as a part of another configuration, in its field `field`.

    Raises:
        ValueError: transformers itself does not have the model type, or it is an encoder-decoder or reads more than text.
    """
    # A copy, because a running model's configuration would lose its attention implementation here. It does not name the source of
    # the weights, which may be a local folder.
    values = config if isinstance(config, Mapping) else config.to_dict()
    values = {name: value for name, value in values.items() if name != "_name_or_path"}
    kind = values.get("model_type")
    nested = AutoConfig.for_model(**values) if kind in CONFIG_MAPPING else None
    if nested is None or not type(nested).__module__.startswith("transformers."):
        raise ValueError(
            f"`{field}` has the model type {kind!r}, which transformers does not have: take one that it has."
        )
    if nested.is_encoder_decoder:
        raise ValueError(f"`{field}` is of a {kind!r} model, an encoder-decoder: take a model of one stack.")
    text = nested.get_text_config()
    if text is not nested:
        raise ValueError(
            f"`{field}` is of a {kind!r} model, which reads more than text: take one that reads text alone, such as {text.model_type!r}."
        )
    return nested


@strict
class DialogueBiLSTMConfig(PreTrainedConfig):
    r"""
    Args:
        utterance_encoder (`"vectors"`, `"model"` or `"bilstm"`, defaults to `"vectors"`):
            Where the vectors of the utterances come from: given as `utterance_embeds`; masked mean of the last hidden states
            of a pretrained model (`encoder_config`); or a BiLSTM over word embeddings (eqs. 1-3 within a sentence).
        encoder_config (`PreTrainedConfig` or `dict`, *optional*):
            Configuration of the pretrained utterance encoder, for `utterance_encoder="model"`.
        freeze_encoder (`bool`, defaults to `True`):
            Compute no gradients for the pretrained encoder.
        utterance_size (`int`, defaults to 384):
            Size D of an utterance vector.
        vocab_size, pad_token_id:
            Fields of the word embeddings for `utterance_encoder="bilstm"`; their size is `utterance_size`.
        hidden_size (`int`, defaults to 128):
            Size H of an LSTM state in one direction; the output of a bidirectional layer has 2H.
        num_hidden_layers (`int`, defaults to 1):
            Number of LSTM layers over the utterances; 0: none (the vectors stay unchanged).
        causal (`bool`, defaults to `False`):
            For live use: later utterances are not read. LSTMs run only forwards, attention has a causal mask.
        num_attention_heads (`int`, defaults to 4):
            Heads of the self-attention over utterances (eqs. 4-6); 0: no attention.
        attention_residual (`bool`, defaults to `True`):
            Add the input of the attention to its output and normalise the sum.
        positional_encoding (`"sinusoidal"` or `"none"`, defaults to `"sinusoidal"`), positional_encoding_at (`"input"` or
            `"attention"`, defaults to `"input"`):
            Eqs. 7 and 8, added to the utterance vectors, or to what the attention reads.
        num_speakers (`int`, defaults to 0):
            Size of the embedding of `speaker_ids`, which is added to the utterance vectors; 0: no speakers.
        class_weights (`list[float]`, *optional*):
            Weight of each class in the loss.

    | what the paper leaves open | ours |
    |---|---|
    | biases | of the projections Q, K, V and O and of the classifier; two in each gate of an LSTM, as in torch |
    | residual connection and norm around the attention | both: LayerNorm(X + MultiHead(X)) (`attention_residual`) |
    | where positions are added | before the BiLSTM (`positional_encoding_at`); utterance 1 has position 0 |
    | dropout | `hidden_dropout_prob` before the first LSTM and the classifier, `attention_probs_dropout_prob` of the attention |
    | starts | LSTM U(±1/√H), the other weights N(0, `initializer_range`²), the other biases 0 |
    | sizes | `hidden_size`, `num_hidden_layers` and `num_attention_heads` above |
    | class weights in the loss | sum over the labels divided by their number, not by their weights |
    """

    model_type = "dialogue-bilstm"
    sub_configs = {"encoder_config": AutoConfig}
    keys_to_ignore_at_inference = ["hidden_states", "attentions", "utterance_embeds"]

    utterance_encoder: Literal["vectors", "model", "bilstm"] = "vectors"
    encoder_config: dict[str, Any] | PreTrainedConfig | None = None
    freeze_encoder: bool = True
    utterance_size: int = 384
    vocab_size: int = 30522
    pad_token_id: int | None = 0
    hidden_size: int = 128
    num_hidden_layers: int = 1
    causal: bool = False
    num_attention_heads: int = 4
    attention_residual: bool = True
    positional_encoding: Literal["sinusoidal", "none"] = "sinusoidal"
    positional_encoding_at: Literal["input", "attention"] = "input"
    num_speakers: int = 0
    hidden_dropout_prob: float | int = 0.3
    attention_probs_dropout_prob: float | int = 0.1
    layer_norm_eps: float = 1e-5
    initializer_range: float = 0.02
    class_weights: list[float | int] | None = None

    def __post_init__(self, **kwargs):
        if self.encoder_config is not None:
            self.encoder_config = nested_config(self.encoder_config, "encoder_config")
        if self.utterance_encoder == "model" and self.encoder_config is not None:
            # OPT's last hidden states have the size of its word embeddings.
            own = getattr(self.encoder_config, "word_embed_proj_dim", None)
            self.utterance_size = own or self.encoder_config.hidden_size
        super().__post_init__(**kwargs)
        # The code lies beside the weights. Set here and not read from a loaded config, whose entries carry the name of
        # the repository they came from and would tie a fine-tuned copy to it.
        self.auto_map = {
            "AutoConfig": "configuration_dialogue_bilstm.DialogueBiLSTMConfig",
            "AutoModel": "modeling_dialogue_bilstm.DialogueBiLSTMModel",
            "AutoModelForTokenClassification": "modeling_dialogue_bilstm.DialogueBiLSTMForEmotionRecognition",
        }

    @property
    def context_size(self) -> int:
        """Size of the vectors that the classifier reads."""
        if self.num_hidden_layers == 0:
            return self.utterance_size
        return self.hidden_size if self.causal else 2 * self.hidden_size

    @classmethod
    def from_dict(cls, config_dict, **kwargs):
        remedy = "`from_encoder_pretrained` makes a new model over a text encoder"
        return super().from_dict(merged(cls, config_dict, kwargs, [cls.model_type], remedy), **kwargs)

    def get_text_config(self, decoder=None, encoder=None):
        """The configuration that holds the vocabulary: the pretrained encoder's if there is one."""
        return self if self.encoder_config is None else self.encoder_config

    def validate_problem_type(self):
        if self.problem_type not in (None, "single_label_classification"):
            raise ValueError(f"`problem_type` must be 'single_label_classification', got {self.problem_type!r}.")

    def validate_encoder(self):
        if (self.utterance_encoder == "model") != (self.encoder_config is not None):
            raise ValueError(
                "`encoder_config` and `utterance_encoder='model'` go together: got utterance_encoder="
                f"{self.utterance_encoder!r} {'without' if self.encoder_config is None else 'with'} `encoder_config`."
            )

    def validate_sizes(self):
        for name in ("utterance_size", "hidden_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 1, got {getattr(self, name)}.")
        for name in ("num_hidden_layers", "num_attention_heads", "num_speakers"):
            if getattr(self, name) < 0:
                raise ValueError(f"`{name}` must not be negative, got {getattr(self, name)}.")
        if self.num_attention_heads and self.context_size % self.num_attention_heads:
            raise ValueError(
                f"`num_attention_heads` ({self.num_attention_heads}) must divide the size of the vectors that the "
                f"attention reads ({self.context_size})."
            )
        if self.utterance_encoder == "bilstm" and self.utterance_size % 2:
            raise ValueError(
                f"a BiLSTM over words gives two halves: `utterance_size` must be even, got {self.utterance_size}."
            )
        if self.class_weights is not None and len(self.class_weights) != self.num_labels:
            raise ValueError(
                f"`class_weights` needs one value for each of the {self.num_labels} labels, got {len(self.class_weights)}."
            )


__all__ = ["DialogueBiLSTMConfig"]
