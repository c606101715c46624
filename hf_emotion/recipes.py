# SPDX-License-Identifier: Apache-2.0
"""Recipes: each describes one run, mostly a row of a published table. One YAML file in `configs/` = one `Recipe` = one command."""

import copy
import dataclasses
import math
import re
import typing
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub.dataclasses import strict
from huggingface_hub.errors import StrictDataclassError

from .io.names import did_you_mean


WEIGHTS = ("class_weights", "positive_weights")  # fields with weights of labels
SCRATCH = "scratch"  # the base model of a language model with a tokenizer and weights of its own


@strict
@dataclasses.dataclass(kw_only=True)
class Recipe:
    """
    Everything that describes a training run.

    Attributes:
        name: name of the run.
        description: one line.
        base_model: Hub id or local folder of the encoder, or of a trained model to go on from, or "minilm" (the `offline`
            extra); for a language model also "scratch".
        dataset: a name that `hf_emotion.load_dataset_for` knows.
        dataset_options: arguments of its loader, e.g. {"taxonomy": "ekman"}.
        data_license: for one's own files: an SPDX id or a licence name of the Hub, for the model card; None: nobody chose one.
        data_terms: for one's own files: their terms of use in plain words, for the card.
        model_type: "label-aware-bert", "label-aware" (over any text encoder), "roberta-esa", "cg-bert", "qacg-bert",
            "dialogue-bilstm"; "gpt2-mod-ln" or "bert-mod-ln" for replies; "gpt2", a language model, for conversations; or None for
            the base model's own stock `AutoModelForSequenceClassification`. Classifiers read the replies of a corpus of
            replies as texts.
        model_config: fields of the model's configuration that differ from their default. "cg-bert" and "qacg-bert" on one's own
            files get `context_initializer_range` 0.01 where it is not given.
        max_length: tokens per text (context, reply), special tokens included; longer texts are cut.
        max_windows: emotions of texts, models with label attention: maximum number of windows of `max_length` tokens in which a
            longer text is trained on; one attention joins them. None: cut. The trained model reads whole texts either way.
        emoji_names: classifiers of texts and aspects: the tokenizer reads emojis as their names, "loudly crying face"; many vocabularies
            have no emojis.
        languages: classifiers: ISO 639-1 codes of the languages that the model reads, e.g. ["en"], and of close relatives that it is not to
            warn of. They are kept in the model: it then says which texts are probably in another language. Empty: nobody asks.
        training_arguments: fields of `transformers.TrainingArguments`.
        early_stopping_patience: evaluations without improvement on the validation part before training stops; None: never.
        seeds: one run for each.
        train_fraction: share of the training rows to use, drawn at a fixed seed.
        shots: emotions of texts: number of training rows of each label, and of validation rows, drawn at the run's seed; a label with
            fewer rows gives all it has. Rows with several labels count for each. None: all rows.
        few_shot: emotions of texts: methods for few rows, of which the validation part chooses one: "linear" (frozen encoder),
            "contrastive" (the encoder learns which rows share labels), "label-vectors" (frozen encoder), "fine-tuning". Empty: an
            ordinary training.
        max_eval_rows: maximum number of rows (dialogues, pairs) to measure of the validation part, and of the test part; drawn
            at a fixed seed; None: all. Targeted sentiment: the aspects of a text and target stay together.
        inverse_frequency_sampling: draw training rows with replacement, each with a probability inverse to the number of
            rows of its class (single-label data).
        class_weights: classifiers: "balanced", or {label: weight} (labels left out weigh 1): how much each label counts in the loss.
            Of rows with one label the loss of a row is weighted by its label; of rows with several, both terms of a label.
            "balanced" is scikit-learn's: inverse to the number of rows with the label.
        positive_weights: rows with several labels: "balanced", or {label: weight}: how much more a row that has the label counts than
            one that has not. "balanced" is the number of rows without the label over the number with it.
        soft_labels: train on the shares of the annotators' votes, in the place of the labels; the corpus needs votes (the option
            `votes` of its loader).
        teachers: emotions of texts, rows with several labels: run folders of trained models with the same labels. The training takes the
            mean of their probabilities for its rows, half and half with the labels, as soft labels (Hinton et al. 2015).
        one_model_per_context: targeted sentiment: one model for each target and aspect, each on its own rows.
        emotion_tokens: replies: put a special token for the emotion in front of the context.
        adapter: fields of `peft.LoraConfig`, e.g. {"r": 16}: a LoRA adapter and what is new over the base model are trained,
            and the base model's own weights stay as they are. The checkpoint is the merged model; the adapter lies beside it
            in `adapter/`.
            {"start_from": RUN} starts it from what a training of all weights of the same model changed.
        label_texts: words that a label's vector starts from, for labels whose names are no words ({"\N{BROKEN HEART}":
            "heartbreak"}).
        threshold: the fixed decision threshold that is reported beside the tuned ones.
        abstain: emotions of texts: {"coverage": 0.9}: the model says "abstained" where it is least sure, with a threshold from the
            validation part that answers 90 % of its rows; or {"accuracy": 0.95}: that answers as many as are right so often there.
        prediction_sets: emotions of texts: a coverage, e.g. 0.9: the model gives sets of labels that hold all gold labels of a text
            with this probability (split conformal, from the validation part).
        paper, table_row, published: the paper, the row of its table and the printed scores, for the comparison.
    """

    name: str
    description: str = ""
    base_model: str = "google-bert/bert-base-cased"
    dataset: str = "goemotions"
    dataset_options: dict[str, Any] = dataclasses.field(default_factory=dict)
    data_license: str | None = None
    data_terms: str | None = None
    model_type: str | None = None
    model_config: dict[str, Any] = dataclasses.field(default_factory=dict)
    max_length: int = 50
    max_windows: int | None = None
    emoji_names: bool = False
    languages: list[str] = dataclasses.field(default_factory=list)
    training_arguments: dict[str, Any] = dataclasses.field(default_factory=dict)
    early_stopping_patience: int | None = None
    seeds: list[int] = dataclasses.field(default_factory=lambda: [42])
    train_fraction: float | int = 1.0
    shots: int | None = None
    few_shot: list[str] = dataclasses.field(default_factory=list)
    max_eval_rows: int | None = None
    inverse_frequency_sampling: bool = False
    class_weights: str | dict[str, float | int] | None = None
    positive_weights: str | dict[str, float | int] | None = None
    soft_labels: bool = False
    teachers: list[str] = dataclasses.field(default_factory=list)
    one_model_per_context: bool = False
    emotion_tokens: bool = False
    adapter: dict[str, Any] = dataclasses.field(default_factory=dict)
    label_texts: dict[str, str] = dataclasses.field(default_factory=dict)
    threshold: float | int = 0.3
    abstain: dict[str, float | int] = dataclasses.field(default_factory=dict)
    prediction_sets: float | None = None
    paper: str | None = None
    table_row: str | None = None
    published: dict[str, float | int] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        known = {field.name: field for field in dataclasses.fields(_training_arguments_class())}
        types = {name: field.type for name, field in known.items()}
        for key, value in self.training_arguments.items():
            if key in RESERVED_ARGUMENTS:
                raise ValueError(f"`training_arguments.{key}` is set by the run itself: {RESERVED_ARGUMENTS[key]}.")
            check_key(key, types, "training_arguments.")
            if value is False and key in ("eval_strategy", "logging_strategy", "save_strategy"):
                value = "no"  # YAML reads the word as False
            self.training_arguments[key] = value = _as_number(key, value, types[key])
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"`training_arguments.{key}` must be a finite number, got {value}.")
            rule, in_range = ARGUMENT_RANGES.get(key, (None, None))
            if choices := known[key].metadata.get("choices"):
                rule, in_range = f"one of {list(choices)}", choices.__contains__
            by_steps = key == "num_train_epochs" and self.training_arguments.get("max_steps", 0) > 0
            if rule is not None and value is not None and not by_steps and not in_range(value):
                raise ValueError(f"`training_arguments.{key}` must be {rule}, got {value}.")

    def validate_ranges(self):
        check_name(self.name, "`name`")
        if self.data_license is not None:
            check_licence(self.data_license, "`data_license`", "write other terms into `data_terms`")
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"`seeds` must be different whole numbers, at least one; got {self.seeds}.")
        if not all(0 <= seed < 2**32 for seed in self.seeds):
            raise ValueError(f"`seeds` must lie between 0 and 2**32 - 1, got {self.seeds}.")
        if not 0 < self.train_fraction <= 1:
            raise ValueError(f"`train_fraction` must lie in (0, 1], got {self.train_fraction}.")
        if self.shots is not None and self.shots < 1:
            raise ValueError(f"`shots` must be at least 1, or null for all rows, got {self.shots}.")
        if self.max_eval_rows is not None and self.max_eval_rows < 1:
            raise ValueError(f"`max_eval_rows` must be at least 1, or null for all rows, got {self.max_eval_rows}.")
        if not 0 <= self.threshold <= 1:
            raise ValueError(f"`threshold` must lie in [0, 1], got {self.threshold}.")
        check_answers(self.abstain, self.prediction_sets)
        if self.early_stopping_patience is not None and self.early_stopping_patience < 1:
            raise ValueError(
                f"`early_stopping_patience` must be at least 1, or null to never stop early, got {self.early_stopping_patience}."
            )
        if self.early_stopping_patience is not None and self.training_arguments.get("eval_strategy") == "no":
            raise ValueError(
                f"`early_stopping_patience` {self.early_stopping_patience} counts evaluations, and `eval_strategy` is no: set "
                "`eval_strategy` to epoch or steps, or leave `early_stopping_patience` out."
            )
        for name in ("class_balanced_beta", "class_weights"):
            if self.training_arguments.get("label_smoothing_factor") and self.model_config.get(name):
                raise ValueError(
                    f"`label_smoothing_factor` replaces the model's loss, the one that uses `{name}`: leave one of the two out."
                )
        for name in WEIGHTS:
            check_weights(name, getattr(self, name))
        if self.soft_labels and self.teachers:
            raise ValueError("`soft_labels` and `teachers` each say what to train on: leave one of the two out.")
        own_loss = [name for name in (*WEIGHTS, "soft_labels", "teachers") if getattr(self, name)]
        if own_loss and self.training_arguments.get("label_smoothing_factor"):
            raise ValueError(
                f"`label_smoothing_factor` and `{own_loss[0]}` each replace the model's loss: leave one of the two out."
            )
        for name in ("class_balanced_beta", "class_weights"):
            if own_loss and self.model_config.get(name) is not None:
                raise ValueError(
                    f"`{own_loss[0]}` takes the place of the model's own loss, the one that uses `model_config.{name}`: leave one of the "
                    "two out."
                )
        if self.max_windows is not None and self.max_windows < 1:
            raise ValueError(f"`max_windows` must be at least 1, or null to cut long texts, got {self.max_windows}.")
        if self.max_length < 3:
            raise ValueError(
                f"`max_length` must be at least 3 (two special tokens and a word), got {self.max_length}."
            )

    def to_yaml(self) -> str:
        """The recipe as YAML, every field included."""
        return yaml.safe_dump(dataclasses.asdict(self), sort_keys=False, allow_unicode=True)


def check_answers(abstain: dict[str, float | int], prediction_sets: float | None) -> None:
    """ValueError unless these fields of a recipe are in range, and at most one of them is given."""
    if abstain and prediction_sets is not None:
        raise ValueError(
            "`abstain` and `prediction_sets` exclude each other, because a text gets one answer: leave one out."
        )
    if abstain:
        if len(abstain) != 1 or not set(abstain) <= {"coverage", "accuracy"}:
            raise ValueError(f"`abstain` takes one of coverage and accuracy, as in coverage=0.9; got {abstain}.")
        ((name, value),) = abstain.items()
        if not 0 < value <= 1:
            raise ValueError(f"`abstain.{name}` must lie in (0, 1], got {value}.")
    if prediction_sets is not None and not 0 < prediction_sets < 1:
        raise ValueError(f"`prediction_sets` is a coverage and must lie in (0, 1), got {prediction_sets}.")


# The Trainer would accept other values silently, or fail with an unrelated error.
ARGUMENT_RANGES = {
    "num_train_epochs": ("more than 0", lambda value: value > 0),
    "per_device_train_batch_size": ("at least 1", lambda value: value >= 1),
    "per_device_eval_batch_size": ("at least 1", lambda value: value >= 1),
    "gradient_accumulation_steps": ("at least 1", lambda value: value >= 1),
    "learning_rate": ("0 or more", lambda value: value >= 0),
    "weight_decay": ("0 or more", lambda value: value >= 0),
    "max_grad_norm": ("0 (no clipping) or more", lambda value: value >= 0),
    "label_smoothing_factor": ("0 or more and below 1", lambda value: 0 <= value < 1),
}

RESERVED_ARGUMENTS = {
    "output_dir": "use --output",
    "seed": "use `seeds`",
    "data_seed": "use `seeds`",
    "resume_from_checkpoint": "use --resume",
    "remove_unused_columns": "the columns are chosen by the run",
    "push_to_hub": "publish a finished run instead",
    "bf16_full_eval": "the model would be saved in these numbers; use `evaluate --dtype bfloat16`",
    "fp16_full_eval": "the model would be saved in these numbers; use `evaluate --dtype float16`",
    "prediction_loss_only": "a run needs all its figures",
    "batch_eval_metrics": "figures are computed over all rows",
    "label_names": "the task names them",
}


MOST_VALUES = 100_000  # in one YAML text


def check_weights(field: str, weights: str | dict[str, float | int] | None) -> None:
    """ValueError unless weights of labels are "balanced", or positive and finite."""
    if isinstance(weights, str) and weights != "balanced":
        raise ValueError(
            f"`{field}` must be 'balanced', or a weight for each label like {{joy: 2.0}}, got {weights!r}."
        )
    for label, weight in weights.items() if isinstance(weights, dict) else ():
        if not 0 < weight < math.inf:
            raise ValueError(
                f"`{field}.{label}` must be above 0 and finite, got {weight}: leave rows out to have a label not count at all."
            )


def check_name(name: Any, what: str) -> None:
    """ValueError unless the name of a run can be the name of a folder, and cannot point to a folder elsewhere."""
    if not isinstance(name, str) or not name.strip(" .") or re.search(r"[/\\\x00-\x1f\x7f]", name) or len(name) > 200:
        raise ValueError(
            f"{what} becomes the name of a folder; it must be a text of at most 200 characters without slashes and control characters, "
            f"and not only points; got {name!r}."
        )


def _training_arguments_class():
    from transformers import TrainingArguments

    return TrainingArguments


def check_key(key: str, known: Iterable[str], prefix: str = "") -> None:
    """ValueError with the nearest known key unless the key is known."""
    known = list(known)
    if key not in known:
        hint = did_you_mean(key, {name: prefix + name for name in known}) or f" The keys are {sorted(known)}."
        raise ValueError(f"unknown recipe key `{prefix}{key}`.{hint}")


def _as_number(key: str, value: Any, hint: Any) -> Any:
    """Check a training argument whose type is a plain one. YAML reads 1e-4 (no point) as a string; it is taken as a number."""
    hints = typing.get_args(hint) or (hint,)
    kinds = {kind for kind in hints if isinstance(kind, type)}
    if isinstance(value, str) and kinds & {float, int} and str not in kinds:
        try:
            value = float(value)
        except ValueError:
            pass
    if float in kinds and type(value) is int:
        return float(value)
    if int in kinds and type(value) is float and value.is_integer() and float not in kinds:
        return int(value)
    plain = len(kinds) == len(hints) and kinds <= {int, float, bool, str, type(None)}  # not `list[str]`
    if plain and type(value) not in kinds:
        names = " or ".join(sorted(kind.__name__ for kind in kinds))
        raise ValueError(f"`training_arguments.{key}` must be {names}, got {value!r}.")
    return value


def recipe_folder() -> Path:
    """The folder of the recipes that come with the package."""
    return Path(str(resources.files("hf_emotion.configs")))


def check_licence(name: str, argument: str, remedy: str) -> None:
    """ValueError unless a licence has the form of an id."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.+-]*", name):
        raise ValueError(
            f"{argument} must be an SPDX id or a licence name of the Hub, like CC-BY-4.0, got {name!r}: {remedy}."
        )


def find_recipe(name: str | Path) -> Path:
    """
    The file of a recipe, from its path or from the name of a packaged one ("goemotions/laa_cb", also with the leading
    `configs/` and the `.yaml`).

    Raises:
        FileNotFoundError: with the nearest known name.
    """
    path = Path(name)
    if path.is_file():
        return path
    short = str(name).removeprefix("configs/").removesuffix(".yaml")
    packaged = recipe_folder() / f"{short}.yaml"
    if packaged.is_file():
        return packaged
    known = [recipe_name(path) for path in packaged_recipes()]
    hint = did_you_mean(short, known) or f" The names are {known}."
    raise FileNotFoundError(f"no recipe {str(name)!r}: neither a file nor a recipe of the package.{hint}")


def packaged_recipes() -> list[Path]:
    """The recipes of the package."""
    return sorted(path for path in recipe_folder().rglob("*.yaml") if path.parent.name != "accelerate")


def recipe_name(path: Path) -> str:
    """The name under which `find_recipe` finds a packaged recipe."""
    return path.relative_to(recipe_folder()).with_suffix("").as_posix()


def read_recipe(name: str | Path, overrides: Iterable[str] = ()) -> Recipe:
    """
    Read a recipe and check it against the schema; `hf_emotion.load_recipe` checks its corpus and model, too.

    Args:
        name: a path, or the name of a packaged recipe.
        overrides: "key=value" with a YAML value; nested keys have points ("dataset_options.taxonomy=ekman"); a field of
            TrainingArguments needs no prefix ("learning_rate=1e-4"). Another `dataset` drops the recipe's dataset options;
            other data or other options drop its published figures.

    Raises:
        ValueError: an unknown or mistyped key, with the nearest valid one; a value of the wrong type.
    """
    if isinstance(overrides, str):
        raise ValueError(f"`overrides` must be a list, got the string {overrides!r}: write [{overrides!r}].")
    path = find_recipe(name)
    values = read_yaml_file(path)
    corpus = copy.deepcopy((values.get("dataset"), values.get("dataset_options")))
    # The corpus first, so that the options that come with it are not dropped.
    for override in sorted(overrides, key=lambda text: not text.startswith("dataset=")):
        apply_override(values, override)
        if values.get("dataset") != corpus[0] and override.startswith("dataset="):
            values.pop("dataset_options", None)
    if (values.get("dataset"), values.get("dataset_options")) != corpus:
        values |= {"table_row": None, "published": {}}
    return make_recipe(values, source=str(path))


def make_recipe(values: dict[str, Any], source: str = "recipe") -> Recipe:
    """A checked `Recipe` from its fields; errors name the source."""
    fields = [field.name for field in dataclasses.fields(Recipe)]
    try:
        for key in values:
            check_key(key, fields)
        return Recipe(**values)
    except (StrictDataclassError, TypeError, ValueError) as error:
        cause = error.__cause__ if isinstance(error, StrictDataclassError) and error.__cause__ else error
        raise ValueError(f"{source}: {cause}") from error


class _EachKeyOnce(yaml.SafeLoader):
    """Refuses a key that a mapping has twice, of which YAML libraries take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        seen = set()
        for key in [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]:
            if (key.tag, key.value) in seen:
                raise ValueError(f"the key {key.value!r} is there twice, again in line {key.start_mark.line + 1}")
            seen.add((key.tag, key.value))
        return super().construct_mapping(node, deep)


def read_yaml(text: str) -> Any:
    """The value of a YAML text; ValueError if it is not YAML, has a key twice, or has references that grow without measure."""
    try:
        value = _EachKeyOnce(text).get_single_data()
        waiting, count = [value], 0
        while waiting:  # a reference (*name) may stand in itself, or in many others
            count += 1
            if count > MOST_VALUES:
                raise ValueError(f"more than {MOST_VALUES} values, counting what `*` refers to: write fewer")
            item = waiting.pop()
            waiting += item.values() if isinstance(item, dict) else item if isinstance(item, (list, set)) else ()
        return value
    # Besides its own errors the library passes on errors of the values: a month 13, brackets nested too deep.
    except (yaml.YAMLError, ValueError, RecursionError, LookupError, AttributeError, TypeError) as error:
        raise ValueError(f"{type(error).__name__}: {' '.join(str(error).split())}") from error


def read_yaml_file(path: Path) -> dict[str, Any]:
    """The `key: value` lines of a YAML file; ValueError, which names it, if it holds something else."""
    try:
        values = read_yaml(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not valid YAML: {error}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold `key: value` lines, got {type(values).__name__}.")
    return values


def read_value(text: str) -> Any:
    """
    The value of a `key=value`, read as YAML. It is the text itself if that is no YAML or empty as YAML (`|`, `,`, `#text`),
    and for yes, no, on and off, which are words here (`eval_strategy=no`).
    """
    bare = text.strip()
    try:
        value = read_yaml(text)
    except ValueError:
        if bare[:1] in ("[", "{", "'", '"'):  # a bracket or quote that is not closed
            raise
        return text
    nothing = value in (None, "", [None], {None: None}) and bare.lower() not in ("null", "~", "''", '""')
    word = isinstance(value, bool) and bare.lower() not in ("true", "false")
    return text if text and (nothing or word) else value


def apply_override(values: dict[str, Any], override: str) -> None:
    """Set one "key=value" in the fields of a recipe."""
    key, separator, text = override.partition("=")
    if not separator or not key:
        raise ValueError(f"an override has the form key=value, got {override!r}.")
    try:
        value = read_value(text)
    except ValueError as error:
        raise ValueError(f"the override {override!r} has no valid YAML value: {error}") from error
    set_field(values, key, value)


def set_field(values: dict[str, Any], key: str, value: Any) -> None:
    """Set one field, or one in a field ("model_config.pooling"), in the fields of a recipe."""
    fields = [field.name for field in dataclasses.fields(Recipe)]
    nested = (
        "dataset_options",
        "model_config",
        "training_arguments",
        "adapter",
        "label_texts",
        "abstain",
        "published",
        *WEIGHTS,
    )
    head, _, rest = key.partition(".")
    if rest:
        if head not in nested:
            raise ValueError(f"unknown recipe key `{key}`: only {', '.join(nested)} have keys inside.")
        values[head] = {**(values[head] if isinstance(values.get(head), dict) else {}), rest: value}
    elif key not in fields and key in (
        arguments := {field.name for field in dataclasses.fields(_training_arguments_class())}
    ):
        values["training_arguments"] = {**(values.get("training_arguments") or {}), key: value}
    elif key not in fields:
        known = {name: f"training_arguments.{name}" for name in arguments}
        known |= {name: f"dataset_options.{name}" for name in ("taxonomy", "dedupe", "label_separator")}
        hint = did_you_mean(key, known | dict(zip(fields, fields, strict=True))) or f" The keys are {fields}."
        raise ValueError(f"unknown recipe key `{key}`.{hint}")
    else:
        values[key] = value
