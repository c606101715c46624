# SPDX-License-Identifier: Apache-2.0
"""Measures a generator of replies as in Tables 1-3 of Liu et al., "Modulating Language Models with Emotions" (2021)."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from datasets import Dataset
from transformers import AutoModel

from ... import metrics
from ...data.splits import check_split, label_names
from ...runtime.attribution import refuse_exported
from ...runtime.base_models import load_base_tokenizer, resolve_base_model
from ...runtime.loading import read_model
from .. import corpus_of, task_of_rows
from ..emotion_classification.predictor import Predictor
from ..loading import load_dataset_for
from ..published import TABLES, Figure
from ..rows import gold_of
from . import TASK
from .predictor import ReplyGenerator


SAMPLE_SEED = 0  # draws the same contexts for every model
KS = (1, 3, 5)  # the k of hits@k, up to the number of emotions
BATCH_SIZE = 256  # replies are short, and a step of `generate` costs about the same for few rows as for many
# A language model's cache of a row is some MB, and its vocabulary large.
LANGUAGE_MODEL_BATCH_SIZE = 32
UNJUDGED = "..."  # a judge reads this instead of an empty reply


class ReplyEvaluation(TypedDict):
    """
    Figures of a generator. `rows` has the entries "human", "always NAME" (the emotion that is most frequent in training) and "model": the
    figures of `hf_emotion.metrics.reply_metrics`, and `judges`: for each judge `all_emotions` (for the model: every emotion equally often) and
    `gold` (in the emotion of the human reply: over rows, `macro_...` over emotions). The model also has `identical_share` over the replies
    to one context, `token_perplexity` of the human replies and, on the same tokens, `token_perplexity_ngram` of a 5-gram model that was
    fitted to the tokens of the training replies. `replies` has `context`, `emotion`, the model's `reply` in the emotion of the human reply,
    and `human`.
    """

    contexts: int
    emotions: list[str]
    settings: dict[str, Any]
    rows: dict[str, metrics.ReplyFigures]
    published: Mapping[str, Mapping[str, Figure]]
    replies: list[dict[str, str]]


def evaluate_replies(
    generator: ReplyGenerator,
    dataset: str,
    split: str = "test",
    data_dir: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    judges: Sequence[str | Path] = (),
    contexts: int = 1000,
    bertscore_model: str | None = None,
    seed: int = 0,
    intensity: float = 1.0,
) -> ReplyEvaluation:
    """
    Measure a generator on a fixed sample of contexts. Its replies in every emotion give `hits@k` and `identical_share`; its
    replies in the emotion of the human reply give all other figures. Replies are sampled with the checkpoint's settings.

    Args:
        generator: the generator.
        dataset, data_dir, options: a corpus of replies, see `load_dataset_for`. For MojiTalk, emojis are removed from the
            replies, as from the human ones.
        judges: classifiers (folders or Hub ids) that tell the emotion of a reply, with the emotions of the corpus as labels.
        contexts: size of the sample; the whole split if that is smaller.
        bertscore_model: encoder for BERTScore (a Hub id, folder or "minilm"), whose last layer is used; None: no BERTScore.
        seed: seed for the sampling of replies.
        intensity: weight of the emotion in the model's replies and in their `token_perplexity`; training uses 1.

    Raises:
        ValueError: the generator is exported; the corpus has no replies or no such split; the emotions differ.
    """
    refuse_exported(generator.model)
    splits = load_dataset_for(dataset, data_dir, **{**generator.loader_options(corpus_of(dataset)), **(options or {})})
    check_split(splits, split, dataset)
    if task_of_rows(splits[split]) is not TASK:
        raise ValueError(f"`dataset` {dataset!r} has no contexts and replies.")
    names = label_names(splits[split])
    if names != generator.emotions:
        raise ValueError(f"the emotions of {dataset} and of the generator differ: {names} and {generator.emotions}.")
    if contexts < 1:
        raise ValueError(f"`contexts` must be at least 1, got {contexts}.")
    loaded = {str(judge): Predictor(judge) for judge in judges}
    for name, judge in loaded.items():
        if sorted(judge.labels) != sorted(names):
            raise ValueError(
                f"the judge {name} must tell the emotions {names} of {dataset}, and tells {judge.labels}."
            )
    encoder = None
    if bertscore_model is not None:
        path = resolve_base_model(bertscore_model)
        encoder = (read_model(AutoModel, path), load_base_tokenizer(bertscore_model))
    rows = sample_rows(splits[split], contexts)
    gold = gold_of(rows).values
    human = list(rows["reply"])
    batch_size = BATCH_SIZE if generator.model.config.is_encoder_decoder else LANGUAGE_MODEL_BATCH_SIZE
    written = generator.all_emotions(rows["context"], intensity, seed=seed, progress=True, batch_size=batch_size)
    if (clean := corpus_of(dataset).clean_reply) is not None:
        written = [[clean(reply, names) for reply in replies] for replies in written]
    chosen = [replies[label] for replies, label in zip(written, gold, strict=True)]
    train_replies = list(splits["train"]["reply"])
    ngram_model = metrics.NgramPerplexity().fit(train_replies)
    token_model = metrics.NgramPerplexity(vocabulary_size=len(generator.tokenizer))
    token_model.fit(_as_words(generator, train_replies))
    frequent = int(gold_of(splits["train"]).counts(len(names)).argmax())

    table: dict[str, metrics.ReplyFigures] = {}
    always = f"always {names[frequent]}"
    for row, replies in (("human", human), ("model", chosen)):
        table[row] = metrics.reply_metrics(
            replies, human, gold, None, ngram_model, encoder if row == "model" else None, progress=True
        )
        table[row]["judges"] = {name: {"gold": _hits(judge, replies, gold, names)} for name, judge in loaded.items()}
    constant = np.zeros((len(gold), len(names)))
    constant[:, frequent] = 1.0
    table[always] = {
        "judges": {name: {"gold": metrics.hits_at_k(constant, gold, _ks(names), names)} for name in loaded}
    }
    flat, asked = [reply for replies in written for reply in replies], np.tile(np.arange(len(names)), len(written))
    for name, judge in loaded.items():
        table["model"]["judges"][name]["all_emotions"] = _hits(judge, flat, asked, names, by_context=True)
    token_losses = generator.token_losses(
        rows["context"], human, [{names[i]: intensity} for i in gold], min(64, batch_size), progress=True
    )
    table["model"] |= {
        "identical_share": metrics.identical_share(written),
        "token_perplexity": math.exp(token_losses.mean()),
        "token_perplexity_ngram": token_model.perplexity(_as_words(generator, human)),
    }
    table_name = corpus_of(dataset).published_table
    settings = generator.model.generation_config.to_diff_dict()
    return {
        "contexts": len(rows),
        "emotions": names,
        "settings": {
            "seed": seed,
            "intensity": intensity,
            "bertscore_model": bertscore_model,
            **{
                key: settings[key]
                for key in ("do_sample", "top_k", "top_p", "temperature", "num_beams")
                if key in settings
            },
        },
        "rows": {row: table[row] for row in ("human", always, "model")},
        "published": {} if table_name is None else dict(TABLES[table_name].published),
        "replies": [
            {"context": context, "emotion": names[label], "reply": reply, "human": reference}
            for context, label, reply, reference in zip(rows["context"], gold, chosen, human, strict=True)
        ],
    }


def sample_rows(dataset: Dataset, contexts: int) -> Dataset:
    """The rows to measure: drawn at a fixed seed, no context twice."""
    seen: set[str] = set()
    rows: list[int] = []
    texts = dataset["context"]
    for row in np.random.default_rng(SAMPLE_SEED).permutation(len(dataset)).tolist():
        if len(rows) < contexts and texts[row] not in seen:
            seen.add(texts[row])
            rows.append(row)
    return dataset.select(rows)


def _hits(
    judge: Predictor, replies: Sequence[str], asked: np.ndarray, names: list[str], by_context: bool = False
) -> metrics.ReplyFigures:
    """Hits@k; `by_context`, for replies in all emotions, adds the standard error of `hits@1` over the contexts."""
    own = judge.probabilities([reply or UNJUDGED for reply in replies], progress=True)
    probabilities = own[:, [judge.labels.index(name) for name in names]]
    result = metrics.hits_at_k(probabilities, asked, _ks(names), names)
    if by_context:
        hits = (probabilities.argmax(axis=1) == asked).reshape(-1, len(names)).mean(axis=1)
        result["hits@1_se"] = float(hits.std(ddof=1) / math.sqrt(len(hits))) if len(hits) > 1 else float("nan")
        result["hits@1_per_context"] = hits.tolist()
    return result


def _ks(names: list[str]) -> list[int]:
    return [k for k in KS if k <= len(names)]


def _as_words(generator: ReplyGenerator, replies: Sequence[str]) -> list[str]:
    """
    Replies written so that `metrics.words.words` splits them into the generator's tokens; the token that ends a reply is left
    out.
    """
    return [" ".join(f"t{token}" for token in ids[:-1]) for ids in generator.token_ids(replies)]
