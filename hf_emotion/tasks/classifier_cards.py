# SPDX-License-Identifier: Apache-2.0
"""The text that the cards of classifiers share."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..metrics.significance import mean_std
from ..recipes import Recipe
from ..run_report import RunReport, SeedRun, decision_title
from ..runtime.plain import text_processing
from . import corpus_of
from .cards import (
    Card,
    Figure,
    base_names,
    chose_an_epoch,
    languages_of,
    plain,
    spread,
    table,
    terms_of,
    training,
)
from .corpus_metrics import AGAINST_VOTES
from .held_out import one_answer_line
from .selective import LOSSES


# The published metrics of the aspect corpora, and accuracy.
CORPUS_SHOWN = (
    *("strict_accuracy", "aspect_macro_f1", "aspect_auc", "sentiment_accuracy", "sentiment_auc"),
    *("precision", "recall", "f1", "accuracy_2way", "accuracy_3way", "accuracy_4way", "accuracy"),
)
TERMS_SHOWN = ("pair_f1", "term_f1", "polarity_accuracy")
SHOWN = (
    *TERMS_SHOWN,
    *CORPUS_SHOWN,
    *("macro_f1", "micro_f1", "weighted_f1"),
    *("micro_f1_without_neutral", "macro_f1_without_neutral", "weighted_f1_without_neutral"),
    *("macro_precision", "macro_recall", "macro_average_precision", "pearson", "ccc", "mae"),
    *AGAINST_VOTES,
)
UNSURE = "When it is unsure"  # title of a section
INDEXED = {  # for the Hub's index
    **dict.fromkeys(("fixed", "tuned"), ("macro_f1", "micro_f1")),
    "argmax": ("accuracy", "macro_f1", "weighted_f1", "micro_f1_without_neutral"),
    "values": ("pearson", "mae"),
}


def classifier_card(
    recipe: Recipe,
    report: RunReport,
    best: SeedRun,
    *,
    about: str,
    use: Sequence[str],
    tag: str = "emotion",
    pipeline_tag: str = "text-classification",
    indexed: Mapping[str, Sequence[str]] = INDEXED,
    reads: str = "texts",
    gives: str = "emotions",
    rows: str = "rows",
    each: str = "",
    contexts: Sequence[str] = (),
    limit: str = "",
) -> Card:
    """
    The card of a classifier. `best` is the seed whose weights lie in the folder; `about`, `use` and `contexts` (after the labels) are
    paragraphs; `indexed` are the metrics for the Hub, for each kind of decision; `rows` is what the numbers of the corpus count; `each` is
    what is cut to `max_length`, if it is not the text.
    """
    corpus = corpus_of(recipe.dataset)
    split = report.measured_split
    english = "" if languages_of([corpus]) is None else "English "
    sections = {
        "Use": use,
        "Results": [
            *_results(recipe, report),
            *([one_answer_line(best.one_answer)] if best.one_answer is not None else []),
        ],
        **_thresholds(best, split),
        **answers((best.answers or {}).get(split, {}), split, best.multi_label, recipe.model_type is None),
        "Training": training(
            recipe,
            report,
            best,
            data=f"Corpus: {recipe.dataset} ({terms_of(recipe, corpus)}), options {recipe.dataset_options or 'none'}, {rows}",
            repeated="Texts",
            start=f"Encoder: {base_names(recipe)[1]}",
            chosen=_chosen(best),
            cut=f"Texts are cut to {recipe.max_length} tokens{each}",
        ),
        "Labels": [", ".join(map(plain, report.class_counts)), *contexts],
        "Limits and ethical notes": [
            f"The model gives the {gives} that annotators read in short {english}{reads} of this corpus; it does not know what a "
            "writer felt. Rare labels have few test rows, and their scores are uncertain. Texts carry the biases of their platform "
            "and of their annotators, who mark the language of some groups as angry or rude more often than that of others: look "
            "at the errors on texts of your own before use. Do not use the model to judge persons, to decide about work, credit, "
            f"insurance, health or law, or to watch people who do not know of it.{limit}"
        ],
    }
    return Card(
        pipeline_tag=pipeline_tag,
        tags=[tag, "hf-emotion", *([recipe.model_type] if recipe.model_type else [])],
        metrics=["pearsonr"] if "values" in report.summary[split] else ["f1"],
        corpora=[recipe.dataset],
        task_type="text-classification",  # includes the turns of a dialogue
        figures=[
            Figure(
                "f1" if "f1" in metric else metric,
                f"{metric} ({decision_title(kind, recipe.threshold)})",
                values["mean"],
            )
            for kind, metrics in report.summary[split].items()
            for metric, values in metrics.items()
            if metric in indexed[kind]
            if values["mean"] is not None and values["mean"] == values["mean"]  # undefined figures are not results
        ],
        about=about,
        sections=sections,
    )


def _chosen(best: SeedRun) -> str | None:
    """What the validation part chose."""
    if best.few_shot is not None and len(best.few_shot["tried"]) > 1:
        return (
            f"the method for few rows ({best.few_shot['chosen']} of {', '.join(best.few_shot['tried'])}) that was best"
        )
    return "the epoch that was best" if chose_an_epoch(best) else None


def _results(recipe: Recipe, report: RunReport) -> list[str]:
    present = next(iter(next(iter(report.summary.values())).values()))
    shown = [name for name in SHOWN if name in present]
    rows = [
        [split, title, *(mean_std(metrics.get(name)) for name in shown)]
        for split in report.summary
        for title, metrics in report.decisions(split).items()
    ]
    blocks = [table(["split", "decision", *shown], rows, names=2)]
    if report.published:
        printed = ", ".join(f"{name} {value}" for name, value in report.published.items())
        row = f" for its row “{recipe.table_row}”" if recipe.table_row else ""
        blocks.append(f"The paper printed{row}, with its own encoder and split: {printed}.")
    return [*blocks, spread(report)]


def _thresholds(best: SeedRun, split: str) -> dict[str, list[str]]:
    """The section on thresholds, if labels have any."""
    if not best.multi_label:
        return {}
    thresholds: dict[str, float] = best.thresholds or {}
    rows = []
    for name, values in best.per_label(split, "tuned").items():
        numbers = [thresholds[name], values["precision"], values["recall"], values["f1"]]
        rows.append([plain(name), *(f"{number:.3f}" for number in numbers), str(values["support"])])
    header = ["label", "threshold", "precision", "recall", "F1", "rows"]
    tuned = "The thresholds were tuned on the validation part."
    return {f"Thresholds and {split} scores per label": [tuned, table(header, rows)]}


def answers(
    measured: Mapping[str, Mapping[str, Any]], split: str, multi_label: bool, stock: bool
) -> dict[str, list[str]]:
    """
    The section on abstention and prediction sets, if the model has a rule for one. `measured`: see `measure_rules`; `stock`: whether the
    pipeline of transformers runs the model, which knows no such rule.
    """
    paragraphs = []
    for rule, found in measured.items():
        wanted, threshold = found["wanted"], f"{found['wanted']['threshold']:.4f}"
        if rule == "abstention":
            name = "coverage" if "coverage" in wanted else "accuracy"
            paragraphs.append(
                f"Instead of its labels the model gives `{text_processing.ABSTAINED}` to a text whose largest probability is below {threshold}. This "
                f"threshold was chosen on the validation part for "
                f"{name} {wanted[name]:g}. On {split} the model answers {found['coverage']:.1%} of the rows; their risk "
                f"({LOSSES[multi_label]}) is {found['risk']:.4f}."
            )
        else:
            paragraphs.append(
                f"The model gives sets: all labels with a probability of at least {threshold}. This threshold was chosen on the "
                f"validation part so that a set holds all gold labels of a text with probability {wanted['coverage']:g} (split "
                f"conformal), over texts like those of the corpus, and not for each label or for other texts. On {split} "
                f"{found['coverage']:.1%} of the sets hold them; a set has {found['size']:.2f} labels on average."
            )
    if paragraphs and stock:
        paragraphs.append(
            "The pipeline `text-classification` of transformers does not know this rule; `hf-emotion predict` and `hf_emotion.Predictor` "
            "keep it, and so does the pipeline `emotion-classification` after `import hf_emotion.modeling`."
        )
    return {UNSURE: paragraphs} if paragraphs else {}
