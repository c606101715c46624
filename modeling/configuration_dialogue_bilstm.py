# SPDX-License-Identifier: Apache-2.0
"""Configuration of the dialogue BiLSTM: BiLSTM, positional encoding and multi-head self-attention over utterances."""

from typing import Any, Literal

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, PreTrainedConfig

from .classifier_fields import ClassifierFields
from .fitting_checkpoints import refuse_other_checkpoints
from .nested_encoder import nested_config, output_size


@strict
class DialogueBiLSTMConfig(ClassifierFields, PreTrainedConfig):
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
    problem_types = (None, "single_label_classification")

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
            self.encoder_config = nested_config(self.encoder_config)
        if self.utterance_encoder == "model" and self.encoder_config is not None:
            self.utterance_size = output_size(self.encoder_config)
        super().__post_init__(**kwargs)
        # The code lies beside the weights. Set here and not read from a loaded config, whose entries carry the name of
        # the repository they came from and would tie a fine-tuned copy to it.
        self.auto_map = {
            "AutoConfig": "configuration_dialogue_bilstm.DialogueBiLSTMConfig",
            "AutoModel": "modeling_dialogue_bilstm.DialogueBiLSTMModel",
            "AutoModelForTokenClassification": "modeling_dialogue_bilstm.DialogueBiLSTMForEmotionRecognition",
        }
        self.custom_pipelines = {
            "dialogue-emotion": {
                "impl": "pipeline_dialogue_emotion.DialogueEmotionPipeline",
                "pt": ["AutoModelForTokenClassification"],
            }
        }

    @property
    def context_size(self) -> int:
        """Size of the vectors that the classifier reads."""
        if self.num_hidden_layers == 0:
            return self.utterance_size
        return self.hidden_size if self.causal else 2 * self.hidden_size

    @classmethod
    def check_checkpoint(cls, config_dict):
        refuse_other_checkpoints(
            config_dict, [cls.model_type], "`from_encoder_pretrained` makes a new model over a text encoder"
        )

    def get_text_config(self, decoder=None, encoder=None):
        """The configuration that holds the vocabulary: the pretrained encoder's if there is one."""
        return self if self.encoder_config is None else self.encoder_config

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
