# SPDX-License-Identifier: Apache-2.0
"""The model card of a run, from the run's own numbers."""

import html
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData

from .. import __version__
from ..io.files import write_text
from ..metrics import LOWER_IS_BETTER
from ..metrics.significance import mean_std
from ..recipes import SCRATCH, Recipe
from ..tasks import corpora, corpus_of
from ..tasks.base import Corpus


MODEL = "PATH_OR_REPO"  # how a card calls its model until it is published
KINDS = {"fixed": "threshold {threshold}", "tuned": "thresholds tuned on dev", "argmax": "argmax"}
SHOWN = (
    "strict_accuracy",
    "aspect_macro_f1",
    "aspect_auc",
    "sentiment_accuracy",
    "sentiment_auc",
    "precision",
    "recall",
    "f1",
    "accuracy_2way",
    "accuracy_3way",
    "accuracy_4way",
    "accuracy",
    "macro_f1",
    "micro_f1",
    "weighted_f1",
    "micro_f1_without_neutral",
    "macro_f1_without_neutral",
    "weighted_f1_without_neutral",
    "macro_precision",
    "macro_recall",
    "macro_average_precision",
)
INDEXED = {  # in the metadata for the Hub
    **dict.fromkeys(("fixed", "tuned"), ("macro_f1", "micro_f1")),
    "argmax": ("accuracy", "macro_f1", "weighted_f1", "micro_f1_without_neutral"),
}
CORPUS_SHOWN = SHOWN[:12]  # the published metrics of the aspect corpora, and accuracy


def write_card(folder: Path, recipe: Recipe, report: dict[str, Any], best: dict[str, Any]) -> None:
    """
    Write README.md: metadata for the Hub (with a model index), results with seeds, thresholds, data and limits.

    Args:
        folder: the run folder.
        recipe: what was run.
        report: content of metrics.json.
        best: the seed whose weights lie in the folder.
    """
    corpus = corpus_of(recipe.dataset)
    hub_id, terms = corpus.hub_id, corpus.terms
    targeted = report["contexts"] is not None
    dialogue = recipe.model_type == "dialogue-bilstm"
    base_id, base = base_names(recipe)
    split = "test" if "test" in report["summary"] else "validation"
    metadata = ModelCardData(
        model_name=recipe.name,
        license="apache-2.0",
        language=languages_of([corpus]),
        library_name="transformers",
        pipeline_tag="token-classification" if dialogue else "text-classification",
        base_model=base_id,
        datasets=[hub_id] if hub_id else None,
        tags=[
            "aspect-based-sentiment-analysis" if targeted else "emotion",
            "hf-emotion",
            *([recipe.model_type] if recipe.model_type else []),
        ],
        metrics=["f1"],
        eval_results=[
            EvalResult(
                task_type="text-classification",  # also of the turns of a dialogue
                dataset_type=hub_id or recipe.dataset,
                dataset_name=recipe.dataset,
                dataset_split=split,
                metric_type="f1" if "f1" in metric else metric,
                metric_name=f"{metric} ({KINDS[kind].format(threshold=recipe.threshold)})",
                metric_value=round(values["mean"], 4),
            )
            for kind, metrics in report["summary"][split].items()
            for metric, values in metrics.items()
            if metric in (CORPUS_SHOWN if targeted else INDEXED[kind])
            if values["mean"] is not None and values["mean"] == values["mean"]  # undefined figures are no results
        ],
    )
    labels = list(report["class_counts"])
    text = "\n\n".join(
        part
        for part in (
            f"---\n{metadata.to_yaml()}\n---",
            f"# {plain(recipe.name)}",
            f"{plain(recipe.description or recipe.name)}.",
            _about(recipe, base),
            _usage(recipe, report["contexts"], "thresholds" in best, _first_context(folder, best["seed"])),
            "## Results\n\n" + _results(report, recipe),
            _thresholds(best),
            f"## Training\n\nCorpus: {recipe.dataset} ({terms}), options {recipe.dataset_options or 'none'}, "
            + ("dialogues " if dialogue else "rows ")
            + ", ".join(f"{split} {rows:,}" for split, rows in report["rows"].items())
            + (f" (a share of {recipe.train_fraction} of the training part)" if recipe.train_fraction < 1 else "")
            + f". Texts that stand in two splits or twice in one: {_nonzero(report['duplicates'])}.\n\n"
            + f"Encoder: {base}. Seeds: {', '.join(str(run['seed']) for run in report['runs'])}; the weights are those of "
            + f"seed {best['seed']}, the epoch that was best on the development split. Texts are cut to {recipe.max_length} "
            + f"tokens{' for each utterance' if dialogue else ''}. Training arguments: {_inline(recipe.training_arguments)}. Minutes of training per seed: "
            + f"{time_and_machine(report)}.",
            f"## Labels\n\n{', '.join(map(plain, labels))}" + _contexts(report["contexts"]),
            f"## Limits and ethical notes\n\nThe model gives the {'sentiments' if targeted else 'emotions'} that annotators read "
            f"in short {'' if metadata.language is None else 'English '}{'dialogues' if dialogue else 'texts'} of this corpus; "
            "it does not know what a writer felt. Rare labels have few test rows, and their scores are uncertain. Texts carry "
            "the biases of their platform and of their annotators, who mark the language of some groups as angry or rude more "
            "often than that of others: look at the errors on texts of your own before use. Do not use the model to judge "
            "persons, to decide about work, credit, insurance, health or law, or to watch people who do not know of it."
            + (" It knows the aspects above and no others." if targeted else ""),
            _citation(recipe),
        )
        if part
    )
    write_text(folder / "README.md", text + "\n")


def languages_of(corpora: Iterable[Corpus]) -> str | list[str] | None:
    """The languages of a model trained on these corpora, as the metadata of a card has them; None where one does not tell."""
    found = [corpus.languages for corpus in corpora]
    if not all(found):
        return None
    codes = sorted({code for languages in found for code in languages})
    return codes[0] if len(codes) == 1 else codes


def plain(name: str) -> str:
    """A name from a corpus or a recipe as text of a card: no HTML, no new column or line."""
    return " ".join(html.escape(name, quote=False).replace("|", "\\|").split())


def base_names(recipe: Recipe) -> tuple[str | None, str]:
    """The base model on the Hub, None where it is no such model, and the name that it is called by."""
    base = {"minilm": "sentence-transformers/all-MiniLM-L6-v2"}.get(recipe.base_model, recipe.base_model)
    if Path(base).is_absolute() or Path(base).exists():  # a path on one's own disk means nothing to others
        return None, Path(base).name
    return (None if base == SCRATCH else base), base


def time_and_machine(report: dict[str, Any]) -> str:
    minutes = ", ".join(f"{run['train_minutes']:.1f}" for run in report["runs"])
    machine = report["environment"]
    return (
        f"{minutes} ({machine['device']}, {machine['threads']} threads, Python {machine['python']}, torch {machine['torch']}, "
        f"transformers {machine['transformers']})"
    )


def spread(report: dict[str, Any]) -> str:
    seeds = len(report["runs"])
    return "One seed: no spread is known." if seeds == 1 else f"Mean ± standard deviation over {seeds} seeds."


ABOUT = {
    "label-aware-bert": "Each label i has a vector e_i that attends to the tokens H of BERT, α_i = softmax(e_i W Hᵀ); its logit is "
    "FFN([α_i H ‖ h_CLS]), with one FFN for all labels.",
    "leam": "One attention over the tokens for all labels, from the cosine similarity of label vectors and hidden states (LEAM).",
    "cg-bert": "A context, the target and the aspect, guides the queries and keys of every layer: q̂ = (1−λ_Q) q + λ_Q ĉ_Q, and k̂ "
    "likewise; ĉ_Q is a projection of C = W_c [E_c ‖ X] + b + E_c, with the context's vector E_c and the layer's input X, and "
    "λ_Q = g(v_q·q + v_c·ĉ_Q).",
    "roberta-esa": "Emotion-specific attention over the last hidden state of RoBERTa: Z = attention(E + P), Z_final = Z ⊙ S + P, "
    "with positions P and a scale S that are learned; the mean over the tokens is classified.",
    "qacg-bert": "A context, the target and the aspect, adds a quasi-attention that can subtract to the attention of every "
    "layer: Â = softmax(q kᵀ/√d_h) + λ_A σ(c_Q c_Kᵀ/√d_h), with λ_A = 1 − (λ_Q + λ_K) in [−1, 1]; c_Q and c_K are projections of "
    "C = W_c [E_c ‖ X] + b + E_c, with the context's vector E_c and the layer's input X.",
}
BALANCED = (
    " The loss of label c has the weight (1−β)/(1−βⁿ), with the n rows of the training part that have the label."
)


GATES = {
    "none": "",
    "filter": " Words of low tf·idf are removed before tokenisation (`tfidf_gate.json`).",
    "scale": " Word embeddings are scaled by tf·idf (`tfidf_gate.json`).",
}


def _about(recipe: Recipe, base: str) -> str:
    pairs = " It reads pairs: the text, and target and aspect in words." if _reads_pairs(recipe) else ""
    if recipe.model_type is None:
        each = ", one for each target and aspect" if recipe.one_model_per_context else ""
        gate = GATES[recipe.model_config.get("tfidf_gating", "none")]
        return f"The stock sequence classifier of transformers over `{base}`{each}.{pairs}{gate}"
    if recipe.model_type == "dialogue-bilstm":
        return (
            f"{_dialogue_about(recipe.model_config, base)} Configuration: {_inline(recipe.model_config) or 'default'}."
        )
    leam = recipe.model_config.get("label_attention") == "leam"
    balanced = BALANCED if recipe.model_config.get("class_balanced_beta") is not None else ""
    about = (
        ABOUT["leam" if leam else recipe.model_type]
        + balanced
        + GATES[recipe.model_config.get("tfidf_gating", "none")]
    )
    return f"{about}{pairs} Encoder: `{base}`. Configuration: {_inline(recipe.model_config) or 'default'}."


def _dialogue_about(config: dict[str, Any], base: str) -> str:
    words = config.get("utterance_encoder") == "bilstm"
    vector = "a BiLSTM over its words" if words else f"the mean of the last hidden states of `{base}`"
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


def _reads_pairs(recipe: Recipe) -> bool:
    return bool(recipe.model_config.get("auxiliary_sentence"))


def _usage(recipe: Recipe, contexts: dict[str, Any] | None, multi_label: bool, first_context: str | None) -> str:
    gated = recipe.model_type is None and recipe.model_config.get("tfidf_gating", "none") != "none"
    task, trust, call = "emotion-classification", ", trust_remote_code=True", '"Thank you so much, this made my day!"'
    returned = "the labels whose probability passes their thresholds." if multi_label else "the most probable label."
    text = corpus_of(recipe.dataset).example or "TEXT"
    if first_context is not None:
        return (
            "## Use\n\nOne model for each target and aspect, each in a folder of its own.\n\n```python\n"
            "from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline\n\n"
            f'place = {{"pretrained_model_name_or_path": "{MODEL}", "subfolder": "{first_context}"}}\n'
            "model = AutoModelForSequenceClassification.from_pretrained(**place)\n"
            'classify = pipeline("text-classification", model=model, tokenizer=AutoTokenizer.from_pretrained(**place))\n'
            f'print(classify("{text}"))\n```'
        )
    if contexts is not None:
        task = "targeted-sentiment"
        call = f'"{text}", targets={contexts["targets"][:1]}' if contexts["targets"] else f'"{text}"'
        returned = "for every target in the text and every aspect the label with its probability."
    elif recipe.model_type is None and not gated:
        task, trust, returned = "text-classification", "", ""
    elif recipe.model_type == "dialogue-bilstm":
        task, call = "dialogue-emotion", '[("Ana", "I lost my keys."), ("Ben", "Again?!")]'
        returned = "for every turn the most probable emotion and the probabilities of all."
    return (
        "## Use\n\n```python\nfrom transformers import pipeline\n\n"
        f'classify = pipeline("{task}", model="{MODEL}"{trust})\n'
        f"print(classify({call}))\n```" + (f"\n\nThe pipeline returns {returned}" if returned else "")
    )


def _first_context(folder: Path, seed: int) -> str | None:
    """Of a run with one model for each context the name of the first one's folder."""
    found = sorted([*folder.glob("*/run.json"), *folder.glob(f"seed-{seed}/*/run.json")])
    return found[0].parent.name if found else None


def _contexts(contexts: dict[str, Any] | None) -> str:
    if contexts is None:
        return ""
    targets = f"\n\nTargets: {', '.join(map(plain, contexts['targets']))}" if contexts["targets"] else ""
    return f"\n\nAspects: {', '.join(map(plain, contexts['aspects']))}{targets}"


def _results(report: dict[str, Any], recipe: Recipe) -> str:
    lines = ["| split | decision | " + " | ".join(_shown(report)) + " |", "|---|---|" + "---:|" * len(_shown(report))]
    for split, kinds in report["summary"].items():
        for kind, metrics in kinds.items():
            cells = [mean_std(metrics.get(name)) for name in _shown(report)]
            lines.append(f"| {split} | {KINDS[kind].format(threshold=recipe.threshold)} | {' | '.join(cells)} |")
    if report["published"]:
        printed = ", ".join(f"{name} {value}" for name, value in report["published"].items())
        lines.append(
            f"\nThe paper printed for its row “{recipe.table_row}”, with its own encoder and split: {printed}."
        )
    lines.append(f"\n{spread(report)}")
    return "\n".join(lines)


def _shown(report: dict[str, Any]) -> list[str]:
    present = next(iter(next(iter(report["summary"].values())).values()))
    return [name for name in SHOWN if name in present]


def _thresholds(best: dict[str, Any]) -> str:
    if "thresholds" not in best:
        return ""
    split = "test" if "test" in best else "validation"
    lines = [
        f"## Thresholds and {split} scores per label",
        "",
        "| label | threshold | precision | recall | F1 | rows |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, values in best[split]["tuned"]["per_label"].items():
        numbers = [best["thresholds"][name], values["precision"], values["recall"], values["f1"]]
        lines.append(f"| {plain(name)} | {' | '.join(f'{number:.3f}' for number in numbers)} | {values['support']} |")
    return "\n".join(lines)


def _citation(recipe: Recipe) -> str:
    paper = f"The model: {recipe.paper}.\n\n" if recipe.paper else ""
    return (
        f"## Citation\n\n{paper}The software: The hf-emotion developers: hf-emotion {__version__}, Apache License 2.0."
    )


def _nonzero(duplicates: dict[str, int]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in duplicates.items() if count) or "none"


def _inline(values: dict[str, Any]) -> str:
    return ", ".join(f"`{key}={value}`" for key, value in values.items())


def best_run(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The seed that was best on the development split, whose weights stand for the run; of generators by perplexity."""
    if "teacher_forcing" in runs[0].get("validation", {}):
        return min(runs, key=lambda run: run["validation"]["teacher_forcing"]["perplexity"])
    sign = -1 if str(runs[0].get("selected_by")).endswith(LOWER_IS_BETTER) else 1
    return max(runs, key=lambda run: sign * (run["best_dev_metric"] or 0))


def write_collection_card(folder: Path, names: list[str], namespace: str | None) -> None:
    """Write README.md of a folder with the published folders `names`: a table of their models, from their cards."""
    lines = ["| model | corpus | results on its test part |", "|---|---|---|"]
    terms, known = {}, corpora()
    for name in names:
        data = ModelCard.load(folder / name / "README.md").data
        corpus = data.eval_results[0].dataset_name
        terms[corpus] = known[corpus].terms if corpus in known else "see the cards"
        results = ", ".join(f"{result.metric_name} {result.metric_value}" for result in data.eval_results)
        link = f"[{name}](https://huggingface.co/{namespace}/{name})" if namespace else name
        lines.append(f"| {link} | {corpus} | {results} |")
    sources = "\n".join(f"- {corpus}: {text}" for corpus, text in terms.items())
    text = f"# Models of hf-emotion\n\n{chr(10).join(lines)}\n\n## Training data\n\n{sources}\n\n"
    write_text(
        folder / "README.md",
        f"{text}The models are under the Apache License 2.0. Each card says how its model was trained, its figures over the "
        "seeds, and its limits.\n",
    )
