# SPDX-License-Identifier: Apache-2.0
"""
A task that only the tests know: do two texts fit? With its corpus `matches`. It passes the suite of all tasks (tests/tasks), which
shows that nothing outside `hf_emotion/tasks` knows which tasks there are.
"""

from pathlib import Path

import numpy as np
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value
from scipy.special import softmax
from toolkit_helpers import write_csv

from hf_emotion.data.files import read_rows
from hf_emotion.data.splits import label_names
from hf_emotion.runtime.attribution import Explained, one_text
from hf_emotion.runtime.batching import as_texts
from hf_emotion.runtime.classifying import Encoded, TextRows, encode_rows, encoded_probabilities, row_probabilities
from hf_emotion.runtime.names import METHODS
from hf_emotion.tasks.base import Answer, ClassificationTask, FileColumns, Prepared, Table
from hf_emotion.tasks.cards import MODEL, Card, code
from hf_emotion.tasks.classifier_cards import classifier_card
from hf_emotion.tasks.corpus import Corpus, rows_of
from hf_emotion.tasks.corpus_metrics import single_label
from hf_emotion.tasks.exporting import classifier_exporter, write_classifier
from hf_emotion.tasks.predictor import LabelPredictor
from hf_emotion.tasks.sequence_classification import base_tokenizer, build_classifier, make_collator
from hf_emotion.tasks.text_explaining import Question, read_texts, read_token_map


NAMES = ["no", "yes"]
BETWEEN = " => "
FEELINGS = ("happy", "sad", "calm")


def write_matches(folder: Path) -> None:
    """{train,dev,test}.csv: two texts fit where they name the same feeling."""
    for part, count, first in (("train", 48, 0), ("dev", 24, 48), ("test", 24, 72)):
        pairs = [(FEELINGS[i % 3], FEELINGS[i // 3 % 3], i) for i in range(first, first + count)]
        rows = [[f"i am so {a} today {i}", f"so very {b}", NAMES[a == b]] for a, b, i in pairs]
        write_csv(folder / f"{part}.csv", ["first", "second", "label"], rows)


@rows_of("text-matching")
def load_matches(data_dir: str | Path) -> DatasetDict:
    text = Value("string")
    splits, features = {}, Features(id=text, first=text, second=text, labels=ClassLabel(names=NAMES))
    for split, stem in (("train", "train"), ("validation", "dev"), ("test", "test")):
        found = enumerate(row for _, row in read_rows(Path(data_dir) / f"{stem}.csv"))
        rows = [{**row, "id": f"{stem}/{i}", "labels": NAMES.index(row["label"])} for i, row in found]
        splits[split] = Dataset.from_list([{name: row[name] for name in features} for row in rows], features=features)
    return DatasetDict(splits)


def parts_of(pairs) -> TextRows:
    """ "first => second" -> what a model reads."""
    halves = [pair.partition(BETWEEN) for pair in pairs]
    for number, (_, between, second) in enumerate(halves, 1):
        if not between or not second.strip():
            raise ValueError(f"text {number} must be two texts, FIRST{BETWEEN}SECOND: {pairs[number - 1]!r}")
    return TextRows([first for first, _, _ in halves], [second for _, _, second in halves])


class PairPredictor(LabelPredictor):
    """Whether two texts fit."""

    units = "pairs"

    def __init__(self, checkpoint, tokenizer=None, max_length=None):
        super().__init__(checkpoint, tokenizer, max_length=max_length)
        self.labels = NAMES

    def encode(self, pairs) -> Encoded:
        return encode_rows(self, parts_of(as_texts(pairs)))

    def probabilities(self, pairs, progress=False) -> np.ndarray:
        return encoded_probabilities(self, pairs if isinstance(pairs, Encoded) else self.encode(pairs))

    def present(self, probabilities, top_k=None):
        order = np.argsort(-probabilities, axis=1, kind="stable")[:, : top_k or 1]
        rows = zip(probabilities, order, strict=True)
        return [[{"label": NAMES[i], "score": float(row[i])} for i in best] for row, best in rows]

    def predict_quietly(self, pairs, top_k=None, progress=False):
        return self.of_items(as_texts(pairs), top_k)

    def of_items(self, pairs, top_k=None):
        self.check_top_k(top_k)
        probabilities, unread = row_probabilities(self, parts_of(pairs))
        return self.present(probabilities, top_k), unread

    def of_rows(self, rows, progress=False):
        return row_probabilities(self, TextRows(list(rows["first"]), list(rows["second"])), progress)[0]

    def answer(self, lines, *, stream=False, top_k=None) -> Answer:
        results, unread = self.predict(lines, top_k)
        rows = [{"text": line, "labels": items} for line, items in zip(lines, results, strict=True)]
        cells = [[*row["text"].split(BETWEEN), row["labels"][0]["label"]] for row in rows]
        return Answer(rows, unread, [Table(["first", "second", "fits"], cells)], cells)

    def explain(self, text, merge="sum", method=METHODS[0]) -> Explained:
        first, _, second = one_text(text).partition(BETWEEN)
        questions = [Question(first, auxiliary=second)]
        maps, notes = read_token_map(self, questions, read_texts(self, questions, merge), merge)
        return Explained(text, method, maps, notes)


class TextMatching(ClassificationTask):
    """Do two texts fit?"""

    name = "text-matching"
    reads = "pairs of texts"
    corpora = (Corpus(name="matches", loader=load_matches, terms="CC0 1.0; made up", selection_metric="accuracy"),)
    columns = frozenset({"first", "second"})
    headline = ("accuracy", "macro_f1")
    stock = True
    auto_class = "AutoModelForSequenceClassification"
    predictor_class = "PairPredictor"
    file_columns = FileColumns(text="pair")
    options = frozenset({"top_k"})
    explains = frozenset({"method"})

    def owns(self, config) -> bool:
        return getattr(config, "reads_pairs", False)

    def texts(self, rows):
        return [f"{first}{BETWEEN}{second}" for first, second in zip(rows["first"], rows["second"], strict=True)]

    def prepare(self, recipe, splits, first, part) -> Prepared:
        names, tokenizer = label_names(splits["train"]), base_tokenizer(recipe)
        counts = np.bincount(splits["train"]["labels"]).tolist()
        model = build_classifier(recipe.base_model, None, recipe.model_config, tokenizer, names, False, counts)
        model.config.reads_pairs = True

        def encode(batch: dict) -> dict:
            encoded = tokenizer(batch["first"], batch["second"], truncation=True, max_length=recipe.max_length)
            kept = {name: encoded[name] for name in ("input_ids", "token_type_ids")}
            return {**kept, "length": [len(ids) for ids in encoded["input_ids"]]}

        def measure(logits, labels) -> dict[str, float]:
            return single_label(recipe.dataset, labels, softmax(logits, axis=1), names)

        encoded = splits.map(encode, batched=True, remove_columns=["id", "first", "second"])
        parts = {name: encoded[name] for name in ("train", "validation")}
        collate = make_collator(tokenizer)
        return Prepared(model=model, tokenizer=tokenizer, collate=collate, measure=measure, **parts)

    def card(self, folder, recipe, report, best) -> Card:
        example = f'pipeline("text-classification", model="{MODEL}")({{"text": "so happy", "text_pair": "so sad"}})'
        use = [code(f"from transformers import pipeline\n\nprint({example})")]
        words = {"about": "It tells whether two texts fit.", "reads": "pairs of texts"}
        return classifier_card(recipe, report, best, use=use, **words)

    def predictor(self, model, tokenizer, **options):
        return PairPredictor(model, tokenizer, **options)

    def exporter(self):
        def run(predictor: PairPredictor, pairs, progress: bool) -> np.ndarray:
            return predictor.probabilities(list(pairs))

        def write(predictor: PairPredictor, folder: Path) -> list[Path]:
            return write_classifier(predictor, folder, run, [f"i am happy{BETWEEN}so very sad"] * 3)

        return classifier_exporter(PairPredictor, run, write, of_rows=self.texts)


TASK = TextMatching()
PairPredictor.task = TASK
