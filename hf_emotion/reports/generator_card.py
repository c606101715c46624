# SPDX-License-Identifier: Apache-2.0
"""The model card of a generator of replies or a language model, from the run's own numbers."""

import json
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCardData

from ..io.files import write_text
from ..metrics.significance import mean_std
from ..recipes import SCRATCH, Recipe
from ..tasks import corpus_of
from ..tasks.language_modeling.loading import DEFAULT_CORPORA
from .card import (
    MODEL,
    _citation,
    _inline,
    _nonzero,
    base_names,
    languages_of,
    plain,
    spread,
    time_and_machine,
)


MODULATED = {
    "residual": "x̂ = (γ₀ + Δγ(c)) · (x − μ)/√(var + ε) + β₀ + Δβ(c), with the checkpoint's own γ₀ and β₀",
    "replace": "x̂ = γ(c) · (x − μ)/√(var + ε) + β(c)",
}


def write_generator_card(folder: Path, recipe: Recipe, report: dict[str, Any], best: dict[str, Any]) -> None:
    """
    Write README.md: metadata for the Hub (with a model index), perplexities with seeds, data and limits.

    Args:
        folder: the run folder.
        recipe: what was run.
        report: content of metrics.json.
        best: the seed whose weights lie in the folder.
    """
    replies = recipe.model_type != "gpt2"
    corpora = [recipe.dataset] if replies else recipe.dataset_options.get("corpora", DEFAULT_CORPORA)
    base_id, base = base_names(recipe)
    split = "test" if "test" in report["summary"] else "validation"
    figures = report["summary"][split]["teacher_forcing"]
    metadata = ModelCardData(
        model_name=recipe.name,
        license="apache-2.0",
        language=languages_of(map(corpus_of, corpora)),
        library_name="transformers",
        pipeline_tag="text-generation",
        base_model=base_id,
        datasets=[corpus_of(name).hub_id for name in corpora if corpus_of(name).hub_id] or None,
        tags=["emotion", "hf-emotion", "dialogue", recipe.model_type],
        metrics=["perplexity"],
        eval_results=[
            EvalResult(
                task_type="text-generation",
                dataset_type=corpus_of(corpora[0]).hub_id or recipe.dataset,
                dataset_name=recipe.dataset,
                dataset_split=split,
                metric_type="perplexity",
                metric_name="perplexity per token of the human replies" if replies else "perplexity per token",
                metric_value=round(figures["perplexity"]["mean"], 4),
            )
        ],
    )
    lines = ["| split | perplexity per token |", "|---|---:|"]
    lines += [
        f"| {name} | {mean_std(kinds['teacher_forcing']['perplexity'])} |" for name, kinds in report["summary"].items()
    ]
    lines.append(
        f"\n{spread(report)} The tokens are those of the model's own tokenizer: compare no perplexities across tokenizers."
    )
    terms = "; ".join(f"{name} ({corpus_of(name).terms})" for name in corpora)
    text = "\n\n".join(
        part
        for part in (
            f"---\n{metadata.to_yaml()}\n---",
            f"# {plain(recipe.name)}",
            f"{plain(recipe.description or recipe.name)}.",
            _about(recipe, base),
            _usage(recipe, list(report["class_counts"])),
            "## Results\n\n" + "\n".join(lines),
            f"## Training\n\nCorpora: {terms}. Options: {_inline(recipe.dataset_options) or 'none'}. Rows: "
            + ", ".join(f"{split} {rows:,}" for split, rows in report["rows"].items())
            + (f" (a share of {recipe.train_fraction} of the training part)" if recipe.train_fraction < 1 else "")
            + f". Rows that stand in two splits or twice in one: {_nonzero(report['duplicates'])}.\n\n"
            + f"Parameters: {best['parameters']:,}. Seeds: {', '.join(str(run['seed']) for run in report['runs'])}; the weights "
            + f"are those of seed {best['seed']}, the epoch with the lowest perplexity on the development split. At most "
            + f"{recipe.max_length} tokens for each {'context and reply' if replies else 'block'}. Training arguments: "
            + f"{_inline(recipe.training_arguments)}. Minutes of training per seed: "
            + f"{time_and_machine(report)}.",
            f"## Emotions\n\n{', '.join(map(plain, report['class_counts']))}" if replies else "",
            "## Limits\n\nThe model writes what people wrote in the corpora above, with their profanity, their prejudices and "
            "their mistakes, and it states things that are not true. It understands no one: do not let it counsel people, and "
            "do not present its replies as those of a person.",
            _citation(recipe),
        )
        if part
    )
    write_text(folder / "README.md", text + "\n")


def _about(recipe: Recipe, base: str) -> str:
    config = _inline(recipe.model_config) or "default"
    if recipe.model_type == "gpt2":
        start = "trained from the start" if base == SCRATCH else f"trained further from `{base}`"
        return f"A stock causal language model of transformers, {start}. `<|endoftext|>` stands between turns. Configuration: {config}."
    fields: dict[str, Any] = {
        "modulate_encoder": True,
        "modulate_decoder": True,
        "modulation": "residual",
        **recipe.model_config,
    }
    sides = [side for side in ("encoder", "decoder") if fields[f"modulate_{side}"]]
    told = "No part of the model is told the emotion."
    if sides:
        told = (
            f"The norms of the {' and the '.join(sides)} follow the emotion c: {MODULATED[fields['modulation']]}, where the "
            "modulations are W₂ SiLU(W₁ c), with a bias in that of β (eqs. 1-3)."
        )
    if recipe.emotion_tokens:
        told = "The emotion is told by a special token in front of the context." + (f" {told}" if sides else "")
    return f"An encoder-decoder, both sides of which started as `{base}`; cross-attention is new. {told} Configuration: {config}."


def _usage(recipe: Recipe, emotions: list[str]) -> str:
    if recipe.model_type == "gpt2":
        return (
            f'## Use\n\n```python\nfrom transformers import pipeline\n\nwrite = pipeline("text-generation", model="{MODEL}")\n'
            'print(write("<|endoftext|>how are you ?<|endoftext|>", max_new_tokens=20))\n```'
        )
    return (
        "## Use\n\n```python\nfrom transformers import pipeline\n\n"
        f'reply = pipeline("emotional-response", model="{MODEL}", trust_remote_code=True)\n'
        f'print(reply(("I lost my keys again.", {json.dumps(emotions[0], ensure_ascii=False)})))\n```\n\n'
        "The pipeline returns a list of replies; an emotion may also be a mixture, {name: weight}."
    )
