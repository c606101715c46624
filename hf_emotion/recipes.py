# SPDX-License-Identifier: Apache-2.0
"""Recipes: each describes one run, mostly a row of a published table. One YAML file in `configs/` = one `Recipe` = one command."""

import contextlib
import copy
import dataclasses
import math
import re
import typing
from collections.abc import Collection, Iterable, Mapping
from importlib import resources
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

import yaml
from huggingface_hub.dataclasses import strict, type_validator
from huggingface_hub.errors import StrictDataclassError

from .io.names import did_you_mean


Fields: TypeAlias = dict[str, Any]  # keys and values of a YAML file
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
        data_license: for your own files: an SPDX id or a licence name of the Hub, for the model card; None: not chosen.
        data_terms: for your own files: their terms of use in plain words, for the card.
        model_type: "label-aware-bert", "label-aware" (over any text encoder; all aspects in one pass), "roberta-esa", "cg-bert", "qacg-bert",
            "dialogue-bilstm"; "gpt2-mod-ln" or "bert-mod-ln" for replies; "gpt2", a language model, for conversations; or None for
            the base model's own stock `AutoModelForSequenceClassification`. Classifiers read the replies of a corpus of
            replies as texts. A recipe file on `files` that does not name it has "label-aware".
        model_config: fields of the model's configuration that differ from their default. "cg-bert" and "qacg-bert" on your own
            files get `context_initializer_range` 0.01 where it is not given.
        max_length: tokens per text (context, reply), special tokens included; longer texts are cut.
        max_windows: emotions of texts, models with label attention: maximum number of windows of `max_length` tokens in which a
            longer text is trained on; one attention joins them. None: cut. The trained model reads whole texts either way.
        emoji_names: classifiers of texts and aspects: the tokenizer reads emojis as their names, "loudly crying face"; many vocabularies
            have no emojis.
        languages: classifiers: ISO 639-1 codes of the languages that the model reads, e.g. ["en"], and of close relatives that it is not to
            warn of. They are kept in the model: it then says which texts are probably in another language. Empty: no such check.
        training_arguments: fields of `transformers.TrainingArguments`.
        early_stopping_patience: evaluations without improvement on the validation part before training stops; None: never.
        seeds: one run for each.
        train_fraction: share of the training rows to use, drawn at a fixed seed.
        shots: emotions of texts: number of training rows of each label, and of validation rows, drawn at the run's seed; a label with
            fewer rows gives all it has. Rows with several labels count for each. None: all rows.
        few_shot: emotions of texts: methods for few rows; the validation part chooses one (a later one must be better by a
            standard error): "linear" (frozen encoder), "contrastive" (the encoder learns which rows share labels), "label-vectors"
            (frozen encoder), "fine-tuning". Empty: an ordinary training. None: linear and fine-tuning for label attention on your own
            files (`files`) where every label was annotated and no field is set that does not go with them (a loss, a sampling, an
            adapter, windows); else an ordinary training.
        max_eval_rows: maximum number of rows (dialogues, pairs) of the validation and of the test part to measure, drawn
            at a fixed seed; None: all. Targeted sentiment: the aspects of a text and target stay together.
        inverse_frequency_sampling: draw training rows with replacement, each with a probability inverse to the number of
            rows of its class (single-label data).
        class_weights: classifiers: "balanced", or {label: weight} (labels left out weigh 1): how much each label counts in the loss.
            For single-label rows, each row's loss is weighted by its label; for rows with several labels, both terms of a label.
            "balanced" is scikit-learn's: inverse to the number of rows with the label.
        positive_weights: rows with several labels: "balanced", or {label: weight}: how much more a row with the label counts than one
            without it. "balanced" is the number of rows without the label over the number with it.
        soft_labels: train on the shares of the annotators' votes instead of the labels; the corpus needs votes (the option
            `votes` of its loader).
        teachers: emotions of texts, rows with several labels: run folders of trained models with the same labels. The training takes the
            mean of their probabilities for its rows, half and half with the labels, as soft labels (Hinton et al. 2015). Packaged
            sentences keep their own labels.
        one_model_per_context: targeted sentiment: one model for each target and aspect, each on its own rows.
        emotion_tokens: replies: put a special token for the emotion in front of the context.
        adapter: fields of `peft.LoraConfig`, e.g. {"r": 16}: train a LoRA adapter and the new parts; the base model's own
            weights stay as they are. The checkpoint is the merged model; the adapter is next to it
            in `adapter/`.
            {"start_from": RUN} starts it from what a training of all weights of the same model changed.
        label_texts: words that a label's vector starts from, for labels whose names are not words ({"\N{BROKEN HEART}":
            "heartbreak"}).
        threshold: the fixed decision threshold that is reported with the tuned ones.
        abstain: emotions of texts: {"coverage": 0.9}: the model says "abstained" where it is least sure, with a threshold from the
            validation part that answers 90 % of its rows; or {"accuracy": 0.95}: that answers as many as it can while 95 % of the answers are right.
        prediction_sets: emotions of texts: a coverage, e.g. 0.9: the model gives sets of labels that hold all gold labels of a text
            with this probability (split conformal, from the validation part).
        paper, table_row, published: the paper, the row of its table and the printed scores, for the comparison.
    """

    name: str
    description: str = ""
    base_model: str = "google-bert/bert-base-cased"
    dataset: str = "goemotions"
    dataset_options: Fields = dataclasses.field(default_factory=dict)
    data_license: str | None = None
    data_terms: str | None = None
    model_type: str | None = None
    model_config: Fields = dataclasses.field(default_factory=dict)
    max_length: int = 50
    max_windows: int | None = None
    emoji_names: bool = False
    languages: list[str] = dataclasses.field(default_factory=list)
    training_arguments: Fields = dataclasses.field(default_factory=dict)
    early_stopping_patience: int | None = None
    seeds: list[int] = dataclasses.field(default_factory=lambda: [42])
    train_fraction: float | int = 1.0
    shots: int | None = None
    few_shot: list[str] | None = None
    max_eval_rows: int | None = None
    inverse_frequency_sampling: bool = False
    class_weights: str | dict[str, float | int] | None = None
    positive_weights: str | dict[str, float | int] | None = None
    soft_labels: bool = False
    teachers: list[str] = dataclasses.field(default_factory=list)
    one_model_per_context: bool = False
    emotion_tokens: bool = False
    adapter: Fields = dataclasses.field(default_factory=dict)
    label_texts: dict[str, str] = dataclasses.field(default_factory=dict)
    threshold: float | int = 0.3
    abstain: dict[str, float | int] = dataclasses.field(default_factory=dict)
    prediction_sets: float | None = None
    paper: str | None = None
    table_row: str | None = None
    published: dict[str, float | int] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        types = {field.name: field.type for field in dataclasses.fields(_training_arguments_class())}
        for key, value in self.training_arguments.items():
            if key in RESERVED_ARGUMENTS:
                raise ValueError(f"`training_arguments.{key}` is set by the run itself: leave it out.")
            check_key(key, list(types), "training_arguments.")
            if value is False and key in ("eval_strategy", "logging_strategy", "save_strategy"):
                value = "no"  # YAML reads the word as False
            self.training_arguments[key] = _typed(f"training_arguments.{key}", value, types[key])

    def validate_ranges(self):
        check_name(self.name, "`name`")
        if self.data_license is not None:
            check_licence(self.data_license)
        values = dataclasses.asdict(self) | {f"training_arguments.{k}": v for k, v in self.training_arguments.items()}
        if self.training_arguments.get("max_steps", 0) > 0:
            values.pop("training_arguments.num_train_epochs", None)
        for key, value in values.items():
            if value is not None:
                check_range(key, value)
        check_answers(self.abstain, self.prediction_sets)
        if self.early_stopping_patience is not None and self.training_arguments.get("eval_strategy") == "no":
            raise ValueError(
                "`early_stopping_patience` counts evaluations, and `eval_strategy: no` makes none: leave one out."
            )
        smoothing = ["label_smoothing_factor"] if self.training_arguments.get("label_smoothing_factor") else []
        losses = [name for name in (*WEIGHTS, "soft_labels", "teachers") if getattr(self, name)]
        of_model = [f"model_config.{name}" for name in MODEL_LOSSES if self.model_config.get(name) is not None]
        pairs = [*combinations([group[0] for group in (smoothing, losses, of_model) if group], 2)]
        if self.soft_labels and self.teachers:
            pairs.append(("soft_labels", "teachers"))
        for first, second in pairs:
            raise ValueError(f"`{first}` and `{second}` each set the loss of the training: leave one of the two out.")

    def to_yaml(self) -> str:
        """The recipe as YAML, every field included."""
        return yaml.safe_dump(dataclasses.asdict(self), sort_keys=False, allow_unicode=True)


def check_answers(abstain: dict[str, float | int], prediction_sets: float | None) -> None:
    """ValueError unless these fields of a recipe are in range, and at most one of them is given."""
    if len(abstain) + (prediction_sets is not None) > 1 or not set(abstain) <= {"coverage", "accuracy"}:
        raise ValueError(f"`abstain` takes coverage or accuracy, and excludes `prediction_sets`; got {abstain}.")
    for name, value in abstain.items():
        check_range(f"abstain.{name}", value)
    if prediction_sets is not None:
        check_range("prediction_sets", prediction_sets)


def check_range(key: str, value: Any) -> None:
    """ValueError for a value of a recipe's field that is out of its range, see `RANGES`."""
    rule, holds = RANGES.get(key, ("be finite", lambda value: not isinstance(value, float) or math.isfinite(value)))
    if not holds(value):
        raise ValueError(f"`{key}` must {rule}, got {value!r}.")


def _weigh(weights: str | dict[str, float | int]) -> bool:
    if isinstance(weights, str):
        return weights == "balanced"
    return all(0 < weight < math.inf for weight in weights.values())


# Only those training arguments whose wrong values the Trainer would accept silently, or fail on with an unrelated error.
_AT_LEAST_1 = ("be at least 1", lambda value: value >= 1)
_NOT_NEGATIVE = ("be finite, 0 or more", lambda value: 0 <= value < math.inf)
_SHARE = ("lie in (0, 1]", lambda value: 0 < value <= 1)
_WEIGHTS = ("be 'balanced', or a weight for each label, above 0 and finite", _weigh)
RANGES: dict[str, tuple[str, typing.Callable[[Any], bool]]] = {
    "seeds": (
        "be different whole numbers from 0 to 2**32 - 1, at least one",
        lambda seeds: seeds and len(set(seeds)) == len(seeds) and 0 <= min(seeds) and max(seeds) < 2**32,
    ),
    "train_fraction": _SHARE,
    "shots": _AT_LEAST_1,
    "max_eval_rows": _AT_LEAST_1,
    "max_windows": _AT_LEAST_1,
    "max_length": ("be at least 3 (two special tokens and a word)", lambda value: value >= 3),
    "early_stopping_patience": _AT_LEAST_1,
    "threshold": ("lie in [0, 1]", lambda value: 0 <= value <= 1),
    "class_weights": _WEIGHTS,
    "positive_weights": _WEIGHTS,
    "abstain.coverage": _SHARE,
    "abstain.accuracy": _SHARE,
    "prediction_sets": ("be a coverage and lie in (0, 1)", lambda value: 0 < value < 1),
    "training_arguments.num_train_epochs": ("be finite, more than 0", lambda value: 0 < value < math.inf),
    "training_arguments.per_device_train_batch_size": _AT_LEAST_1,
    "training_arguments.per_device_eval_batch_size": _AT_LEAST_1,
    "training_arguments.gradient_accumulation_steps": _AT_LEAST_1,
    "training_arguments.learning_rate": _NOT_NEGATIVE,
    "training_arguments.weight_decay": _NOT_NEGATIVE,
    "training_arguments.max_grad_norm": _NOT_NEGATIVE,
    "training_arguments.label_smoothing_factor": ("be 0 or more and below 1", lambda value: 0 <= value < 1),
}
MODEL_LOSSES = ("class_balanced_beta", "class_weights")  # fields of a model's configuration that set its loss

# What the run sets itself: figures need all rows and whole numbers, and a token would be saved with the recipe.
RESERVED_ARGUMENTS = frozenset(
    "output_dir seed data_seed resume_from_checkpoint remove_unused_columns push_to_hub hub_token bf16_full_eval fp16_full_eval "
    "prediction_loss_only batch_eval_metrics label_names".split()
)


def check_name(name: Any, what: str) -> None:
    """ValueError unless the name of a run can be the name of a folder, and cannot point to a folder elsewhere."""
    if not isinstance(name, str) or not name.strip(" .") or re.search(r"[/\\\x00-\x1f\x7f]", name) or len(name) > 200:
        raise ValueError(
            f"{what} becomes the name of a folder, of at most 200 characters without slashes; got {name!r}."
        )


def _training_arguments_class():
    from transformers import TrainingArguments

    return TrainingArguments


def check_key(key: str, known: Iterable[str], prefix: str = "") -> None:
    """ValueError with the nearest known key unless the key is known. A mapping gives the keys in full."""
    known = known if isinstance(known, Mapping) else {name: prefix + name for name in known}
    if key not in known:
        hint = did_you_mean(key, known) or f" The keys are {sorted(known)}."
        raise ValueError(f"unknown recipe key `{prefix}{key}`.{hint}")


def _typed(key: str, value: Any, hint: Any) -> Any:
    """A training argument of the right type. YAML reads 1e-4 (no point) as a string; it is taken as a number."""
    kinds = set(typing.get_args(hint) or (hint,))
    if isinstance(value, str) and kinds & {float, int} and str not in kinds:
        with contextlib.suppress(ValueError):
            value = float(value)
    if float in kinds and type(value) is int:
        value = float(value)
    elif int in kinds and type(value) is float and value.is_integer() and float not in kinds:
        value = int(value)
    type_validator(key, value, hint)
    return value


def recipe_folder() -> Path:
    """The folder of the recipes that come with the package."""
    return Path(str(resources.files("hf_emotion.configs")))


def check_licence(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.+-]*", name):
        raise ValueError(
            f"a licence must be an SPDX id or a licence name of the Hub, got {name!r}: write other terms into `data_terms` of the recipe."
        )


def find_recipe(name: str | Path) -> Path:
    """The file of a recipe, from its path or the name of a packaged one, also with the leading `configs/` and the `.yaml`."""
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


def read_recipe(name: str | Path, overrides: Collection[str] = ()) -> Recipe:
    """
    Read a recipe and check it against the schema; `hf_emotion.load_recipe` checks its corpus and model, too.

    Args:
        name: a path, or the name of a packaged recipe.
        overrides: "key=value" with a YAML value; nested keys have points ("dataset_options.taxonomy=ekman"); a field of
            TrainingArguments needs no prefix ("learning_rate=1e-4"). Another `dataset` drops the recipe's dataset options;
            other data or other options drop its published figures.
    """
    path = find_recipe(name)
    values = read_yaml_file(path)
    if values.get("dataset") == "files":
        values.setdefault("model_type", "label-aware")  # `null` is the stock model
    corpus = copy.deepcopy((values.get("dataset"), values.get("dataset_options")))
    # The corpus first, so that the options that come with it are not dropped.
    for override in sorted(overrides, key=lambda text: not text.startswith("dataset=")):
        apply_override(values, override)
        if values.get("dataset") != corpus[0] and override.startswith("dataset="):
            values.pop("dataset_options", None)
    if (values.get("dataset"), values.get("dataset_options")) != corpus:
        values |= {"table_row": None, "published": {}}
    return make_recipe(values, source_of(path, overrides))


def source_of(path: Path, overrides: Collection[str]) -> str:
    """What errors of a recipe name: its file, and what changes it."""
    return " ".join([str(path), *(f"--set {override}" for override in overrides)])


def make_recipe(values: Fields, source: str = "recipe") -> Recipe:
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
    """Refuses a key that a mapping has twice (YAML libraries take the last one), and references, which may grow without measure."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        seen = set()
        for key in [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]:
            if (key.tag, key.value) in seen:
                raise ValueError(f"the key {key.value!r} is there twice, again in line {key.start_mark.line + 1}")
            seen.add((key.tag, key.value))
        return super().construct_mapping(node, deep)

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise ValueError("references (`*name`) are not read: write the values themselves")
        return super().compose_node(parent, index)


def read_yaml(text: str) -> Any:
    """The value of a YAML text; ValueError if it is not YAML, has a key twice, or has references."""
    try:
        return _EachKeyOnce(text).get_single_data()
    # Besides its own errors the library passes on errors of the values: a month 13, brackets nested too deep.
    except (yaml.YAMLError, ValueError, RecursionError, LookupError, AttributeError, TypeError) as error:
        raise ValueError(f"{type(error).__name__}: {' '.join(str(error).split())}") from error


def read_yaml_file(path: Path) -> Fields:
    """The `key: value` lines of a YAML file; ValueError, which names it, if it holds something else."""
    try:
        return {**read_yaml(path.read_text(encoding="utf-8"))}
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} must hold YAML with `key: value` lines: {error}") from error


def read_value(text: str) -> Any:
    """
    The value of a `key=value`, read as YAML. It is the text itself if that is not YAML or empty as YAML (`|`, `,`, `#text`),
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


def apply_override(values: Fields, override: str) -> None:
    """Set one "key=value" in the fields of a recipe."""
    try:
        key, text = override.split("=", 1)
        value = read_value(text)
    except ValueError as error:
        raise ValueError(
            f"an override has the form key=value, with a YAML value, got {override!r}: {error}"
        ) from error
    set_field(values, key, value)


def set_field(values: Fields, key: str, value: Any) -> None:
    """Set one field, or one in a field ("model_config.pooling"), in the fields of a recipe."""
    names = [field.name for field in dataclasses.fields(Recipe)]
    arguments = {
        field.name: f"training_arguments.{field.name}" for field in dataclasses.fields(_training_arguments_class())
    }
    if key not in names and key in arguments:
        key = arguments[key]
    head, _, rest = key.partition(".")
    check_key(head, arguments | {name: name for name in names})
    if not rest:
        values[key] = value
    else:
        values[head] = {**(values[head] if isinstance(values.get(head), dict) else {}), rest: value}
