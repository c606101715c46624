# SPDX-License-Identifier: Apache-2.0
"""
Finds rows whose labels are probably wrong: each row is judged by a classifier that was fitted without it, and cleanlab ranks the rows
by what that classifier thinks of their labels (confident learning, Northcutt, Jiang and Chuang 2021).
"""

import itertools
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch
from datasets import Dataset
from torch.nn.functional import normalize

from ..data.splits import label_names
from ..gold import Gold
from ..io.extras import require
from ..io.files import as_text, creating, refuse_taken, write_csv, write_text
from ..io.progress import progress_bar
from ..run_report import RunReport
from ..runtime.base_models import load_base_tokenizer, read_encoder, resolve_base_model
from ..runtime.batching import CHUNK, TOKENS_PER_BATCH, pad_rows, token_budget_batches
from ..runtime.names import METRICS
from ..runtime.onnx import is_exported
from ..runtime.plain import text_processing
from ..runtime.ready import ReadyModel, find_ready
from ..runtime.torch_models import to_tensors
from ..tasks import corpora, corpus_of, task_of_rows
from ..tasks.loading import load_split
from .html_report import render


MAX_LENGTH = 256  # tokens; the rest of a longer text is not read
STRENGTH = 10.0  # C of the logistic regressions, chosen on planted errors
ON_PAGE = 500  # rows
COLUMNS = ("id", "text", "given", "suggested", "score", "self_confidence", "flagged")
CSV, PAGE = "label_errors.csv", "label_errors.html"


class SuspiciousRow(TypedDict):
    """
    A row, its label names and those that seem right; `score`: cleanlab's, in [0, 1], low is suspicious; `self_confidence`: the probability
    of the given label (in a row with several labels, of the least sure decision).
    """

    id: str
    text: str
    given: list[str]
    suggested: list[str]
    score: float
    self_confidence: float
    flagged: bool


class LabelErrors(TypedDict):
    """
    `accuracy`: share of the rows whose most probable label is given. `pairs`: in how many "rows" labels are "given" and others "suggested", the
    names joined by a comma. `pairs` and `found` begin with the most frequent or suspicious.
    """

    dataset: str
    split: str
    encoder: str
    folds: int
    rows: int
    flagged: int
    accuracy: float
    pairs: list[dict[str, Any]]
    found: list[SuspiciousRow]
    seconds: float


def check_labels(
    checkpoint: str | Path,
    dataset: str,
    data_dir: str | Path | None = None,
    split: str = "train",
    folds: int = 5,
    output: str | Path | None = None,
    options: dict[str, Any] | None = None,
    progress: bool = False,
) -> LabelErrors:
    """
    Find the rows of a corpus whose labels are probably wrong.

    Two logistic regressions, one over TF-IDF and one over the frozen encoder's vectors, are fitted once for each fold, without the
    rows of that fold. The mean of their probabilities says how probable the labels of these rows are. Equal texts stay in one
    fold. A model that was trained on the rows has learned their errors by heart; so if the checkpoint was trained on the same
    corpus, the encoder is the one that its training started from.

    Args:
        checkpoint: run folder, ready model, encoder ("minilm") or Hub id.
        dataset, data_dir, split, options: see `load_split`; for your own files, all training rows are checked.
        folds: number of parts; each is judged by a classifier trained on the others.
        output: new folder for `label_errors.csv`, which holds every row, and `label_errors.html`; None: no files.

    Raises:
        ModuleNotFoundError: cleanlab is not installed.
        FileExistsError: `output` exists.
        ValueError: rows without labels or texts, or with aspects; a label with fewer different texts than `folds`.
    """
    require("cleanlab", "check-labels", "cleanlab")
    output = None if output is None else Path(output)
    if output is not None:
        refuse_taken(output)
    start = time.perf_counter()
    encoder = honest_encoder(str(checkpoint), dataset)
    if is_exported(resolve_base_model(encoder)):
        raise ValueError(
            f"{encoder} is exported: name the run that it was exported from, or an encoder, such as minilm."
        )
    tokenizer, model = load_base_tokenizer(encoder), read_encoder(encoder)
    options = dict(options or {})
    if corpus_of(dataset).own_files and split == "train" and "validation_fraction" in corpus_of(dataset).options:
        options.setdefault("validation_fraction", 0.0)
    ids, texts, gold, names = _units(load_split(dataset, split, data_dir, **options), dataset)
    parts = fold_numbers(texts, gold, names, folds)
    limit = min(MAX_LENGTH, text_processing.usable_positions(model.config))
    vectors = mean_vectors(texts, tokenizer, model, limit, progress)
    probabilities = out_of_fold([vectors, tfidf(texts)], gold, parts, progress)
    scores, confidence, suggested = rank(gold, probabilities)
    best = probabilities.argmax(axis=1)
    right = gold.has(len(names))[np.arange(len(gold)), best]
    rows = list(_rows(ids, texts, gold, names, scores, confidence, suggested))
    found = [row for row in rows if row["flagged"]]
    pairs = Counter((", ".join(row["given"]), ", ".join(row["suggested"])) for row in found)
    result: LabelErrors = {
        "dataset": dataset,
        "split": split,
        "encoder": encoder,
        "folds": folds,
        "rows": len(rows),
        "flagged": len(found),
        "accuracy": float(right.mean()),
        "pairs": [{"given": pair[0], "suggested": pair[1], "rows": count} for pair, count in pairs.most_common()],
        "found": found,
        "seconds": time.perf_counter() - start,
    }
    if output is not None:
        with creating(output) as temporary:
            write_csv(temporary / CSV, COLUMNS, (_cells(row) for row in rows))
            title = f"{dataset} {split}: labels to check"
            page = render("label_errors.html", title=title, result=result, rows=found[:ON_PAGE])
            write_text(temporary / PAGE, page)
    return result


def honest_encoder(checkpoint: str, dataset: str) -> str:
    """The checkpoint, or what its training (or an earlier one in the chain) started from, if that was on the corpus, or on own files."""
    chain, honest = [checkpoint], checkpoint
    while (report := _report_of(chain[-1])) is not None and report.base_model and report.base_model not in chain:
        chain.append(report.base_model)
        if dataset in _trained_on(report):
            honest = chain[-1]
    return honest


def _report_of(checkpoint: str) -> RunReport | None:
    """The report of the training of a run or a ready model; None for any other checkpoint."""
    ready = find_ready(checkpoint)
    folder = ready.folder if isinstance(ready, ReadyModel) else ready or Path(checkpoint)
    return RunReport.read(folder) if (folder / METRICS).is_file() else None


def _trained_on(report: RunReport) -> set[str]:
    """The corpora of a training: its own, and those that its options add."""
    corpus, options = corpora().get(report.dataset), report.dataset_options
    added = corpus.added.items() if corpus is not None else ()
    return {report.dataset, *(name for option, names in added if options.get(option) for name in names)}


@torch.inference_mode()
def mean_vectors(texts: Sequence[str], tokenizer, model, max_length: int, progress: bool = True) -> np.ndarray:
    """(N, d) float32: means over the tokens of an encoder's last hidden states, of length 1; equal texts are read once."""
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    distinct = list(numbers)
    options = {"truncation": True, "max_length": max_length, "return_attention_mask": False, "verbose": False}
    width = getattr(model.config, "word_embed_proj_dim", None) or model.config.hidden_size
    output = np.empty((len(distinct), width), np.float32)
    with progress_bar(progress, len(distinct), "texts") as bar:
        for start in range(0, len(distinct), CHUNK):
            chunk = distinct[start : start + CHUNK]
            ids = tokenizer(chunk, return_token_type_ids=False, **options)["input_ids"]
            for rows in token_budget_batches([len(row) for row in ids], TOKENS_PER_BATCH):
                inputs = to_tensors(pad_rows(tokenizer, {"input_ids": [ids[row] for row in rows]}), model)
                states = model(**inputs).last_hidden_state
                mask = inputs["attention_mask"][..., None].to(states.dtype)
                means = normalize((states * mask).sum(1) / mask.sum(1), dim=-1)
                output[start + np.array(rows)] = means.numpy()
                bar.update(len(rows))
    return output[[numbers[text] for text in texts]]


def tfidf(texts: list[str]) -> Any:
    """(N, words) sparse float32: words and pairs of words in at least two texts, sublinear tf, rows of length 1."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(
        ngram_range=(1, 2), min_df=min(2, len(set(texts))), sublinear_tf=True, token_pattern=r"\S+", dtype=np.float32
    ).fit_transform(texts)


def _units(rows: Dataset, dataset: str) -> tuple[list[str], list[str], Gold, list[str]]:
    """Ids, texts and gold labels of the labelled units, and the names of the labels that occur."""
    task = task_of_rows(rows)
    gold = task.gold(rows) if task.labelled and task.contexts(rows) is None else None
    if gold is None or gold.regression or np.unique(gold.values).size < 2:
        raise ValueError(f"{dataset} has no labels of whole texts to check, at least two.")
    ids, texts = task.units(rows)
    if not gold.complete:
        raise ValueError(
            f"{dataset} has labels that were not annotated in every row: check a part that has all of them."
        )
    names, kept = label_names(rows), np.flatnonzero(gold.labelled)
    used = np.flatnonzero(gold.counts(len(names)))
    own = Gold(np.searchsorted(used, gold.values[kept])) if gold.single_label else gold[:, used]
    return [ids[i] for i in kept], [texts[i] for i in kept], own, [names[label] for label in used]


def fold_numbers(texts: list[str], gold: Gold, names: list[str], folds: int) -> np.ndarray:
    """(N,) fold of each row, stratified, at a fixed seed; equal texts stay together. ValueError: a label with fewer texts than `folds`."""
    from sklearn.model_selection import StratifiedKFold

    # As objects: numpy would give every text the width of the longest.
    plain = np.array([" ".join(text.casefold().split()) for text in texts], dtype=object)
    _, first, places = np.unique(plain, return_index=True, return_inverse=True)
    has = gold.has(len(names))
    for number, name in enumerate(names):
        count = len(np.unique(places[has[:, number]]))
        if count < folds:
            raise ValueError(
                f"the label {name!r} has too few different texts, {count}, for {folds} folds: give fewer."
            )
    rarest = np.where(has, has.sum(axis=0), len(gold) + 1).argmin(axis=1)
    label = np.where(has.any(axis=1), rarest, len(names))  # one more class: rows without label
    result = np.empty(len(first), np.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a class that is rarer than the folds
        splitter = StratifiedKFold(folds, shuffle=True, random_state=0)
        for number, (_, part) in enumerate(splitter.split(first, label[first])):
            result[part] = number
    return result[places]


def out_of_fold(features: Sequence[Any], gold: Gold, parts: np.ndarray, progress: bool = False) -> np.ndarray:
    """(N, C) float64: probabilities by classifiers that were fitted to the other folds, the mean over one for each of `features`."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    folds = int(parts.max()) + 1
    labels = gold.values
    result = np.zeros((len(gold), int(labels.max()) + 1 if gold.single_label else labels.shape[1]))
    with progress_bar(progress, folds * len(features), "fits") as bar, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a label that all rows of the other folds lack
        for part, matrix in itertools.product(range(folds), features):
            inside = parts == part
            model: Any = LogisticRegression(C=STRENGTH, max_iter=1000)
            if gold.multi_label:  # one for each label
                model = OneVsRestClassifier(model)
            model.fit(matrix[~inside], labels[~inside])
            result[np.ix_(inside, model.classes_)] += model.predict_proba(matrix[inside]) / len(features)
            bar.update()
    return result


def rank(gold: Gold, probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """
    What cleanlab says of the labels.

    Args:
        gold: of N rows.
        probabilities: (N, C), out of fold.

    Returns:
        (N,) scores in [0, 1], low is suspicious; (N,) self-confidence, the probability of the given label (with several: the
        least of the decisions); (N, C) bool, the suggested labels: those of the row itself unless it is flagged.
    """
    given = gold.has(probabilities.shape[1])
    if gold.single_label:
        from cleanlab.filter import find_label_issues
        from cleanlab.rank import get_label_quality_scores

        flagged = find_label_issues(gold.values, probabilities, n_jobs=1)
        suggested = np.where(flagged[:, None], gold.decided(probabilities, None), given)
        return get_label_quality_scores(gold.values, probabilities), probabilities[given], suggested
    from cleanlab.multilabel_classification import get_label_quality_scores
    from cleanlab.multilabel_classification.filter import find_multilabel_issues_per_class

    labels = [np.flatnonzero(row).tolist() for row in given]
    wrong = find_multilabel_issues_per_class(labels, probabilities, n_jobs=1)
    suggested = given ^ wrong
    empty = np.flatnonzero(given.any(axis=1) & ~suggested.any(axis=1))  # all given labels are wrong
    others = np.where(given[empty], -1.0, probabilities[empty])
    suggested[empty, others.argmax(axis=1)] = True
    scores = get_label_quality_scores(labels, probabilities, method="confidence_weighted_entropy")
    return scores, np.where(given, probabilities, 1 - probabilities).min(axis=1), suggested


def _rows(ids, texts, gold, names, scores, confidence, suggested) -> Iterator[SuspiciousRow]:
    """The rows as records, the most suspicious first: flagged ones before others, then by score."""
    given = gold.has(len(names))
    flagged = (given != suggested).any(axis=1)
    for row in np.lexsort((scores, ~flagged)):
        yield {
            "id": ids[row],
            "text": texts[row],
            "given": [names[label] for label in np.flatnonzero(given[row])],
            "suggested": [names[label] for label in np.flatnonzero(suggested[row])],
            "score": float(scores[row]),
            "self_confidence": float(confidence[row]),
            "flagged": bool(flagged[row]),
        }


def _cells(row: SuspiciousRow) -> list[str]:
    numbers = [f"{value:.6f}" for value in (row["score"], row["self_confidence"])]
    labels = ["|".join(names) for names in (row["given"], row["suggested"])]
    return [as_text(cell) for cell in (row["id"], row["text"], *labels)] + [*numbers, str(int(row["flagged"]))]
