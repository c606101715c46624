# SPDX-License-Identifier: Apache-2.0
"""The model card of a model of dialogues."""

from ...recipes import Recipe
from ...run_report import RunReport, SeedRun
from ..cards import MODEL, Card, base_names, code, configuration
from ..classifier_cards import classifier_card


def card(recipe: Recipe, report: RunReport, best: SeedRun) -> Card:
    return classifier_card(
        recipe,
        report,
        best,
        about=f"{_about(recipe)} {configuration(recipe)}",
        use=[
            code(
                "from transformers import pipeline\n\n"
                f'classify = pipeline("dialogue-emotion", model="{MODEL}", trust_remote_code=True)\n'
                'print(classify([("Ana", "I lost my keys."), ("Ben", "Again?!")]))'
            ),
            "The pipeline returns for every turn the most probable emotion and the probabilities of all.",
        ],
        pipeline_tag="token-classification",
        reads="dialogues",
        rows="dialogues",
        each=" for each utterance",
    )


def _about(recipe: Recipe) -> str:
    config = recipe.model_config
    words = config.get("utterance_encoder") == "bilstm"
    vector = "a BiLSTM over its words" if words else f"the mean of the last hidden states of `{base_names(recipe)[1]}`"
    layers = []
    if config.get("num_hidden_layers") != 0:
        layers.append("a BiLSTM")
    if config.get("num_attention_heads") != 0:
        layers.append("multi-head self-attention")
    if not layers:
        return f"Each utterance is a vector, {vector}, which is classified by itself, without its dialogue."
    positions = "" if config.get("positional_encoding") == "none" else ", with positional encoding,"
    return (
        f"Each utterance is a vector, {vector}; {' and '.join(layers)} over the utterances of a dialogue{positions} "
        f"give{'s' if len(layers) == 1 else ''} the emotion of each."
    )
