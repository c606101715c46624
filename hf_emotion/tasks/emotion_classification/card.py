# SPDX-License-Identifier: Apache-2.0
"""The model card of a classifier of texts."""

from ...recipes import Recipe
from ...run_report import RunReport, SeedRun
from ..cards import MODEL, Card, base_names, code, configuration, plain, table
from ..classifier_cards import classifier_card


LEAM = "One attention over the tokens for all labels, from the cosine similarity of label vectors and hidden states (LEAM)."
ABOUT = {
    "label-aware-bert": "Each label i has a vector e_i that attends to the tokens H of BERT, α_i = softmax(e_i W Hᵀ); its logit is "
    "FFN([α_i H ‖ h_CLS]), with one FFN for all labels.",
    "label-aware": "Each label i has a vector e_i that attends to the hidden states H of the encoder, α_i = softmax(e_i W Hᵀ); its "
    "logit is FFN([α_i H ‖ s]), with one FFN for all labels, and s the sentence.",
    "roberta-esa": "Emotion-specific attention over the last hidden state of RoBERTa: Z = attention(E + P), Z_final = Z ⊙ S + P, "
    "with positions P and a scale S that are learned; the mean over the tokens is classified.",
}
BALANCED = (
    " The loss of label c has the weight (1−β)/(1−βⁿ), with the n rows of the training part that have the label."
)
GATES = {
    "none": "",
    "filter": " Words of low tf·idf are removed before tokenisation (`tfidf_gate.json`).",
    "scale": " Word embeddings are scaled by tf·idf (`tfidf_gate.json`).",
}


def card(recipe: Recipe, report: RunReport, best: SeedRun) -> Card:
    values = "values" in report.summary[report.measured_split]
    use = _use(recipe, best.multi_label, values)
    found = classifier_card(recipe, report, best, about=_about(recipe), use=use)
    if values:
        found.sections[f"Each value on {report.measured_split}"] = [_per_value(best, report.measured_split)]
    return found


def _per_value(best: SeedRun, split: str) -> str:
    """A table with the figures of each value, of the seed whose weights are kept."""
    header = ["value", "Pearson's r", "CCC", "mean absolute error", "rows"]
    rows = []
    for name, own in best.per_value(split).items():
        rows.append([plain(name), f"{own['pearson']:.3f}", f"{own['ccc']:.3f}", f"{own['mae']:.3f}", str(own["rows"])])
    return table(header, rows)


def _gating(recipe: Recipe) -> str:
    return recipe.model_config.get("tfidf_gating", "none")


def _about(recipe: Recipe) -> str:
    base, gate = base_names(recipe)[1], GATES[_gating(recipe)]
    if recipe.model_type is None:
        return f"The stock sequence classifier of transformers over `{base}`.{gate}"
    leam = recipe.model_config.get("label_attention") == "leam"
    balanced = BALANCED if recipe.model_config.get("class_balanced_beta") is not None else ""
    about = LEAM if leam else ABOUT[recipe.model_type]
    return f"{about}{balanced}{gate} Encoder: `{base}`. {configuration(recipe)}"


def _use(recipe: Recipe, multi_label: bool, values: bool) -> list[str]:
    call = 'print(classify("Thank you so much, this made my day!"))'
    if recipe.model_type is None and _gating(recipe) == "none" and not values:
        pipeline = f'pipeline("text-classification", model="{MODEL}")'
        return [code(f"from transformers import pipeline\n\nclassify = {pipeline}\n{call}")]
    pipeline = f'pipeline("emotion-classification", model="{MODEL}", trust_remote_code=True)'
    found = "the labels whose probability passes their thresholds" if multi_label else "the most probable label"
    found = "a value for each name" if values else found
    return [
        code(f"from transformers import pipeline\n\nclassify = {pipeline}\n{call}"),
        f"The pipeline returns {found}.",
    ]
