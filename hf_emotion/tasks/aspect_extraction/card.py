# SPDX-License-Identifier: Apache-2.0
"""The model card of a model of terms."""

from ...recipes import Recipe
from ...run_report import RunReport, SeedRun
from ...runtime.plain import text_processing
from .. import corpus_of
from ..cards import MODEL, Card, base_names, code, plain
from ..classifier_cards import INDEXED, TERMS_SHOWN, classifier_card


def card(recipe: Recipe, report: RunReport, best: SeedRun) -> Card:
    labels = text_processing.tag_labels(report.class_counts)
    return classifier_card(
        recipe,
        report,
        best,
        about=f"The stock token classifier of transformers over `{base_names(recipe)[1]}`: every word gets a tag that says whether it begins or "
        f"continues a term, and the sentiment towards it ({', '.join(map(plain, labels))}).",
        use=[
            code(
                "from transformers import pipeline\n\n"
                f'find = pipeline("aspect-extraction", model="{MODEL}", trust_remote_code=True)\n'
                f'print(find("{corpus_of(recipe.dataset).example or "TEXT"}"))'
            ),
            "The pipeline returns for each term its words, its place in the text (`text[start:end]`), its label and the probability of that. The "
            "pipeline `token-classification` of transformers reads the model without code of ours, and gives the tags.",
            "pair_f1 counts terms whose borders and label are right, term_f1 those whose borders are; polarity_accuracy is the share of the gold "
            "terms whose label is right. The other figures are those of the tags of words.",
        ],
        tag="aspect-based-sentiment-analysis",
        pipeline_tag="token-classification",
        indexed=dict.fromkeys(INDEXED, TERMS_SHOWN),
        gives="terms",
        rows="texts",
        limit=" It finds terms that a text names, and no aspect that it only implies (“too expensive”).",
    )
