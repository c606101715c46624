# SPDX-License-Identifier: Apache-2.0
"""Configuration of the dialogue BiLSTM: BiLSTM, positional encoding and multi-head self-attention over utterances."""

from typing import Any, Literal

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, PreTrainedConfig

from .common import CheckpointFields, check_least, nested_config, set_auto_map


@strict
class DialogueBiLSTMConfig(CheckpointFields, PreTrainedConfig):
    r"""
    Args:
        utterance_encoder: where the vectors of the utterances come from: given as `utterance_embeds` (`"vectors"`, the default); masked
            mean of the last hidden states of a pretrained `"model"`; or a `"bilstm"` over word embeddings (eqs. 1-3 within a sentence).
        encoder_config: configuration of the pretrained utterance encoder, for `"model"`.
        context_turns: how many earlier turns, with their speakers, stand in the utterance encoder's input before the turn itself; 0: none.
            The vector is then the mean over the turn's own tokens (`turn_mask`).
        freeze_encoder: compute no gradients for the pretrained encoder.
        utterance_size: size D of an utterance vector.
        vocab_size, pad_token_id: fields of the word embeddings for `"bilstm"`; their size is `utterance_size`.
        hidden_size: size H of an LSTM state in one direction; the output of a bidirectional layer has 2H.
        num_hidden_layers: number of LSTM layers over the utterances; 0: none (the vectors stay unchanged).
        causal: for live use: later utterances are not read. LSTMs run only forwards, attention has a causal mask.
        num_attention_heads: heads of the self-attention over utterances (eqs. 4-6); 0: no attention.
        attention_residual: add the input of the attention to its output and normalise the sum.
        positional_encoding, positional_encoding_at: eqs. 7 and 8 (`"sinusoidal"`, the default, or `"none"`), added to the utterance
            vectors (`"input"`, the default), or to what the `"attention"` reads.
        num_speakers: size of the embedding of `speaker_ids`, which is added to the utterance vectors; 0: no speakers.
        class_weights: weight of each class in the loss.

    | what the paper leaves open | ours |
    |---|---|
    | biases | of the projections Q, K, V and O and of the classifier; two in each gate of an LSTM, as in torch |
    | residual connection and norm around the attention | both: LayerNorm(X + MultiHead(X)) (`attention_residual`) |
    | where positions are added | before the BiLSTM (`positional_encoding_at`); utterance 1 has position 0 |
    | dropout | `hidden_dropout_prob` before the first LSTM and the classifier, `attention_probs_dropout_prob` of the attention |
    | starts | LSTM U(±1/√H), the other weights N(0, `initializer_range`²), the other biases 0 |
    | class weights in the loss | sum over the labels divided by their number, not by their weights |
    """

    model_type = "dialogue-bilstm"
    remedy = "`from_encoder_pretrained` makes a new model over a text encoder"
    sub_configs = {"encoder_config": AutoConfig}
    keys_to_ignore_at_inference = ["hidden_states", "attentions", "utterance_embeds"]

    utterance_encoder: Literal["vectors", "model", "bilstm"] = "vectors"
    encoder_config: dict[str, Any] | PreTrainedConfig | None = None
    freeze_encoder: bool = True
    context_turns: int = 0
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
            encoder = self.encoder_config = nested_config(self.encoder_config, "encoder_config")
            # OPT's last hidden states have the size of its word embeddings.
            self.utterance_size = getattr(encoder, "word_embed_proj_dim", None) or encoder.hidden_size
        super().__post_init__(**kwargs)
        head = "DialogueBiLSTMForEmotionRecognition"
        set_auto_map(self, "DialogueBiLSTMModel", head, "AutoModelForTokenClassification")

    @property
    def context_size(self) -> int:
        """Size of the vectors that the classifier reads."""
        size = self.hidden_size if self.causal else 2 * self.hidden_size
        return size if self.num_hidden_layers else self.utterance_size

    def get_text_config(self, decoder=None, encoder=None):
        """The configuration that holds the vocabulary: the pretrained encoder's if there is one."""
        return self if self.encoder_config is None else self.encoder_config

    def validate_fields(self):
        kind, encoder = self.utterance_encoder, self.encoder_config
        heads, size = self.num_attention_heads, self.context_size
        if self.problem_type not in (None, "single_label_classification"):
            raise ValueError(f"`problem_type` must be 'single_label_classification', got {self.problem_type!r}.")
        if (kind == "model") != (encoder is not None):
            found = f"utterance_encoder={kind!r} {'without' if encoder is None else 'with'} it"
            raise ValueError(f"`encoder_config` and `utterance_encoder='model'` go together, got {found}.")
        check_least(self, utterance_size=1, hidden_size=1, num_hidden_layers=0, num_attention_heads=0)
        check_least(self, num_speakers=0, context_turns=0)
        if self.context_turns and kind == "vectors":
            raise ValueError("`context_turns` needs an utterance encoder: `utterance_encoder` is 'vectors'.")
        if heads and size % heads:
            raise ValueError(f"`num_attention_heads` ({heads}) must divide the size of what it reads ({size}).")
        if kind == "bilstm" and self.utterance_size % 2:
            raise ValueError(f"`utterance_size` must be even, got {self.utterance_size}: a BiLSTM has two halves.")
        given = self.num_labels if self.class_weights is None else len(self.class_weights)
        if given != self.num_labels:
            raise ValueError(f"`class_weights` needs one value for each of the {self.num_labels} labels, got {given}.")


__all__ = ["DialogueBiLSTMConfig"]
