# SPDX-License-Identifier: Apache-2.0
"""What the predictors of all tasks have. Needs neither torch nor transformers if the model is exported."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from ..runtime.batching import check_max_length, check_top_k
from ..runtime.classifying import label_names
from ..runtime.languages import languages_of
from ..runtime.plain import text_processing
from ..runtime.unread import Counts, Unread, warn_unread
from .checkpoints import load_for


if TYPE_CHECKING:
    import numpy as np
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

    from ..runtime.attribution import Explained, Merge, Reading
    from .base import Answer, Task
    from .corpus import Corpus
    from .loading import CorpusSplit
    from .results import Scored
    from .service import Service
    from .text_explaining import Question


class AnyPredictor:
    """
    A model that answers.

    Attributes:
        task: the task of the model.
        model: a model of transformers, or an exported one.
        tokenizer: the tokenizer of the model.
        max_length: the maximum number of tokens read at once.
        gate: the TF-IDF gate of a model that has one.
        token_scores: of a model that tells texts unlike its training texts: see `are_unlike`.
    """

    task: ClassVar[Task]
    model: Any
    tokenizer: Any
    max_length: int
    gate: text_processing.TfidfGate | None = None
    token_scores: np.ndarray | None = None

    def __init__(
        self,
        checkpoint: Any,
        tokenizer: PreTrainedTokenizerBase | None = None,
        device: Any = None,
        max_length: int | None = None,
        dtype: str | None = None,
    ):
        """See `Predictor`."""
        self.model, self.tokenizer = load_for(self.task, checkpoint, tokenizer, device, dtype)
        self.model.eval()
        self.max_length = check_max_length(max_length, *self._lengths())

    def _lengths(self) -> tuple[int, str, int | None]:
        """The most tokens that the model reads, whose limit that is, and how many it reads by default."""
        return text_processing.usable_positions(self.model.config), "model", self.tokenizer.model_max_length

    def predict(self, *args: Any, **options: Any) -> tuple[list[Any], Unread]:
        """The results, and what the model could not read of each input."""
        raise NotImplementedError

    def loader_options(self, corpus: Corpus) -> Mapping[str, Any]:
        """Options that the loader of the corpus gets unless they are given."""
        return {}

    def evaluate(self, of: CorpusSplit, **settings: Any) -> Mapping[str, Any]:
        """Figures on a split of a corpus."""
        raise NotImplementedError

    def explain(self, text: str | Sequence[Any], merge: Merge, **options: Any) -> Explained:
        """Why the model answers so, with the given ones of the arguments `Task.explains`."""
        return self.task.file("explaining", "explained").explain(self, text, merge, **options)

    def service(self) -> Service:
        """How `serve` answers with the model."""
        return self.task.file("service", "served").service(self)

    def fingerprint(self) -> str:
        """What tells the model from others: a hash of its configuration, its gate, and the sum of every parameter or the exported files."""
        digest = hashlib.sha256(self.model.config.to_json_string().encode())
        if self.gate is not None:
            digest.update(self.gate.to_json().encode())
        if getattr(self.model, "takes_arrays", False):  # exported
            for path in sorted(self.model.folder.iterdir()):
                if path.suffix in (".onnx", ".data", ".bin"):  # graphs, and weights that lie beside them
                    with path.open("rb") as file:
                        digest.update(hashlib.file_digest(file, "sha256").digest())
            return digest.hexdigest()
        for parameter in self.model.parameters():
            digest.update(str(parameter.detach().double().sum().item()).encode())
        return digest.hexdigest()


Item = TypeVar("Item")  # the result of a text, or of a dialogue


class LabelPredictor(AnyPredictor, Generic[Item]):
    """
    A model that chooses among C labels. An item is what a model reads: a text or a dialogue. Its units are what gets labels: the text
    itself, its targets and aspects, or its turns. N counts units.

    Attributes:
        labels: C names.
        multi_label: whether a unit may have several labels.
        regression: whether a unit has values and no labels.
        thresholds: C thresholds that `use_thresholds` changes; None: it has none.
        units: the name of what it reads.
        tells_unlike: whether it tells texts unlike its training texts.
    """

    labels: list[str]
    multi_label = False
    regression = False
    thresholds: np.ndarray | None = None
    units = "texts"
    tells_unlike = False
    check_top_k = staticmethod(check_top_k)

    def __init__(self, checkpoint: Any, *arguments: Any, **options: Any):
        """See `Predictor`."""
        super().__init__(checkpoint, *arguments, **options)
        self.labels = label_names(self.model.config)

    def __repr__(self) -> str:
        name, several = self.model.config.name_or_path, "several" if self.multi_label else "one"
        about = f"{len(self.task.labels(self.labels))} labels, {several} at once; max_length={self.max_length}"
        return f"{type(self).__name__}({name!r}: {about})"

    def predict(self, *args: Any, **options: Any) -> tuple[list[Item], Unread]:
        """The results of a call, with its arguments, and what the model cannot read of each unit."""
        results, unread = self.predict_quietly(*args, **options)
        self.warn_unread(unread.counts)
        return results, unread

    def predict_quietly(self, *args: Any, **options: Any) -> tuple[list[Item], Unread]:
        """As `predict`, without warnings."""
        raise NotImplementedError

    def answer(self, lines: list[str], *, stream: bool = False, **options: Any) -> Answer:
        """
        What `predict` shows for these lines, with the given ones of the arguments `Task.options`. With `stream` more lines will follow: the
        layout does not depend on their number, and no warning is given; items that are grouped have no `stream`.
        """
        return self.task.file("showing").answer(self, lines, stream=stream, **options)

    def encode(self, items: Any, /) -> Any:
        """The items as the model reads them."""
        raise NotImplementedError

    def probabilities(self, items: Any, /) -> np.ndarray:
        """(N, C) float32 for items, or for what `encode` returned; those of the package take `raw`: without the temperature."""
        raise NotImplementedError

    def present(self, probabilities: np.ndarray, *args: Any, **kwargs: Any) -> list[Item]:
        """The results from probabilities."""
        raise NotImplementedError

    def of_rows(self, rows: Dataset, progress: bool = False) -> np.ndarray:
        """(N, C) float32 for the rows of a corpus."""
        raise NotImplementedError

    def of_items(self, items: Sequence[Any], /, top_k: int | None = None) -> tuple[list[Any], Unread]:
        """The results for the items of a file, at most `top_k` for each unit, without warnings."""
        return self.scored_items(items, top_k)[:2]

    @property
    def wide_labels(self) -> list[str] | None:
        """What `scored_items` has a column for; None: files have no such columns."""
        return None

    def scored_items(self, items: Sequence[Any], /, top_k: int | None = None) -> tuple[list[Any], Unread, Scored]:
        """As `of_items`, and for each unit the probabilities and decisions of the `wide_labels`."""
        raise self.task.cannot("asked for columns of labels")

    def evaluate(self, of: CorpusSplit, **settings: Any) -> Mapping[str, Any]:
        """Figures of a model that gives each unit one label."""
        from .classifier_evaluating import evaluate_single

        return evaluate_single(self, of)

    def row_questions(self, rows: Dataset) -> list[Question]:
        """A `Question` for each row whose words `faithfulness` may rank, where the task `ranks_words`."""
        return self.task.file("explaining").row_questions(self, rows)

    def word_scores(self, reading: Reading, label: int, method: str) -> np.ndarray:
        """(words,) scores for such a question."""
        return self.task.file("explaining").word_scores(self, reading, label, method)

    def warn_unread(self, counts: Counts) -> None:
        """Warn, with these counts, of what the model cannot read in full."""
        warn_unread(counts, self.limit, languages_of(self.model.config), self.units, self)

    @property
    def limit(self) -> str:
        """The longest item that is read whole, for messages."""
        return f"{self.max_length} tokens (`max_length`)"
