# SPDX-License-Identifier: Apache-2.0
"""Checkpoint -> ONNX graphs that onnxruntime runs, measured against torch before anything is written."""

import collections
import copy
import importlib.metadata
import importlib.util
import itertools
import logging
import os
import platform
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import torch
from torch import nn
from tqdm.auto import tqdm
from transformers import DynamicCache, EncoderDecoderCache

from ..inference import load_predictor
from ..io.files import (
    creating,
    is_taken,
    write_json,
    write_text,
)
from ..modeling.pipeline_emotional_response import encode_contexts, pad_contexts
from ..runs.evaluate import evaluate
from ..runtime.exported import write_tokenizer_facts
from ..runtime.loading import read_config
from ..runtime.onnx import DECODER, ENCODER, MODEL, is_exported
from ..tasks import packaged_corpus, task_of
from ..tasks.checkpoints import load_any
from ..tasks.dialogue_emotion.predictor import DialoguePredictor, speaker_and_utterance
from ..tasks.emotion_classification.predictor import Predictor
from ..tasks.emotional_response.onnx_replies import OnnxReplyGenerator
from ..tasks.loading import load_split
from ..tasks.targeted_sentiment.predictor import TargetedPredictor


TOLERANCE = 1e-4  # of logits in float32, or, where logits are larger than 1, of the largest
MOST_TEXTS = 1000  # of a corpus
REPORT = "parity.json"
NEW_TOKENS = 16  # of each reply that is compared
TIMED_TEXTS, TIMED_PAIRS = 128, 7

logger = logging.getLogger(__name__)

Turns = Sequence[tuple[str | None, str]]


def export_onnx(
    checkpoint: str | Path,
    output: str | Path,
    quantize: Literal["int8", "uint8"] | None = None,
    texts: Sequence[str] | Sequence[Turns] | None = None,
    dataset: str | None = None,
    split: str = "test",
    data_dir: str | Path | None = None,
    options: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """
    Write a classifier or a reply generator as ONNX, with dynamic batch and length, and all that its predictor needs:
    configuration with labels, thresholds and aspects, tokenizer, TF-IDF gate. `load_predictor` reads the folder, of a generator
    `OnnxReplyGenerator`.

    The logits of texts are compared with torch's, in batches of many sizes and lengths; nothing is written where one differs
    by more than 1e-4 in float32, of logits larger than 1 by more than 1e-4 of the largest.

    Args:
        checkpoint: a local folder or a Hub id.
        output: a new or empty folder.
        quantize: the weights of matrix products as 8-bit integers, one scale for each channel, and their inputs quantized at
            run time. "int8" is the fast one on processors that multiply 8-bit integers (x86 with VNNI, ARM); on others its
            sums saturate, which costs accuracy. "uint8" is right, and slower, on all.
        texts: what is compared; for a model of dialogues lists of (speaker or None, utterance), for a generator contexts.
            Default: those of `dataset` (the first 1,000 texts), or else the test part of the quickstart corpus.
        dataset, split, data_dir, options: a corpus, see `load_split`; with `quantize` the metrics on it are reported before
            and after.

    Returns:
        the content of `parity.json`: "float32" and the value of `quantize`, each with what was compared, the largest absolute
        difference of a logit, and how many decisions (of a generator: greedy replies) differ; "speed", how many times as fast
        as torch; "metrics" with `quantize` and a corpus.

    Raises:
        ModuleNotFoundError: the extra `onnx` is not installed.
        FileExistsError: `output` is not empty.
        OSError, ValueError: what loading the checkpoint raises; a corpus that does not fit; a model that cannot be exported; no text;
            logits that differ.
    """
    missing = [name for name in ("onnx", "onnxscript", "onnxruntime") if importlib.util.find_spec(name) is None]
    if missing:
        raise ModuleNotFoundError(f"export needs {', '.join(missing)}: pip install 'hf-emotion[onnx]'")
    if quantize not in (None, "int8", "uint8"):
        raise ValueError(f"`quantize` must be None, 'int8' or 'uint8', got {quantize!r}.")
    output = Path(output)
    if is_taken(output):
        raise FileExistsError(f"{output} exists and is no empty folder: give another one.")
    if is_exported(checkpoint) or (Path(checkpoint) / DECODER).is_file():
        raise ValueError(f"{checkpoint} is exported already: export the checkpoint that it was made from.")
    if texts is not None and not texts:
        raise ValueError("`texts` is empty: give at least one text to compare the exported model with.")
    generator = task_of(read_config(checkpoint)).name == "emotional-response"
    if generator and quantize is not None and dataset is not None:
        logger.warning(
            "replies have no metric here: %s is compared with torch by logits and greedy replies alone", quantize
        )
    model: Any = _TorchReplies(checkpoint) if generator else load_predictor(checkpoint)
    model.model.float().cpu().eval()
    if texts is None:
        texts = _corpus_texts(model, dataset, split, data_dir, options)
    compare: Callable[..., dict[str, Any]] = _compare_replies if generator else _compare
    with creating(output) as folder:
        graphs = _export_generator(model.model, folder) if generator else _export_classifier(model, folder)
        _write_rest(model, folder)
        exported = _load(folder, generator)
        report = {
            "model_type": model.model.config.model_type,
            "versions": {name: _version(name) for name in ("torch", "transformers", "onnx", "onnxruntime")},
            "float32": compare(model, exported, texts),
        }
        largest = report["float32"]["max_logit_difference"]
        allowed = TOLERANCE * max(1.0, report["float32"]["largest_logit"])
        if not largest <= allowed:  # nor NaN
            raise ValueError(
                f"the exported model differs from torch: logits by up to {largest:.3g}, allowed are {allowed:.3g}. Nothing was "
                "written. Other versions of torch and onnxruntime may do better."
            )
        if quantize is not None:
            if quantize == "int8" and _saturates():
                logger.warning(
                    'this processor does not multiply 8-bit integers: the sums of "int8" saturate here. The figures below are of '
                    'it; `quantize` "uint8" is right on every processor.'
                )
            for path in graphs:
                _quantize(path, quantize)
            exported = _load(folder, generator)
            report[quantize] = compare(model, exported, texts)
            if dataset is not None and not generator:
                before, after = (
                    _figures(evaluate(one, dataset, split, data_dir, options=options)["metrics"])
                    for one in (model, exported)
                )
                report["metrics"] = {name: {"torch": before[name], quantize: after[name]} for name in before}
        report["speed"] = _speed(model, exported, texts)
        write_json(folder / REPORT, report)
    return report


def read_texts(path: Path, checkpoint: str | Path) -> list:
    """
    Texts of a file, one a line, for `export_onnx`. For a model of dialogues a line is a turn, "SPEAKER: UTTERANCE" or the
    utterance alone, and an empty line stands between two dialogues.

    Raises:
        OSError: no such file.
        ValueError: no text in it.
    """
    lines = [line.strip() for line in path.read_text(encoding="utf-8").split("\n")]
    if not any(lines):
        raise ValueError(f"{path} holds no text: write one a line.")
    if task_of(read_config(checkpoint)).name != "dialogue-emotion":
        return [line for line in lines if line]
    groups = itertools.groupby(lines, key=bool)
    return [[speaker_and_utterance(line) for line in group] for filled, group in groups if filled]


def _version(name: str) -> str:
    return importlib.metadata.version(name)


def _figures(results: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """{"decision/metric": value} of an evaluation, without the values of single labels."""
    return {
        f"{decision}/{name}": value
        for decision, values in results.items()
        for name, value in values.items()
        if isinstance(value, float)
    }


def _load(folder: Path, generator: bool):
    return OnnxReplyGenerator(folder) if generator else load_predictor(folder)


def _write_rest(model, folder: Path) -> None:
    config = copy.deepcopy(model.model.config)
    for name in ("auto_map", "custom_pipelines"):  # of the code for the weights that are not here
        if hasattr(config, name):
            delattr(config, name)
    # Whole, with the defaults: prediction reads it without the class that knows them.
    write_text(folder / "config.json", config.to_json_string(use_diff=False))
    model.tokenizer.save_pretrained(folder)
    write_tokenizer_facts(model.tokenizer, folder)
    if getattr(model, "gate", None) is not None:
        model.gate.save_pretrained(folder)
    if isinstance(model, _TorchReplies):
        model.model.generation_config.save_pretrained(folder)


# What is compared


def _corpus_texts(model, dataset: str | None, split: str, data_dir, options: dict[str, Any] | None) -> list:
    rows = load_split(dataset or packaged_corpus(), split, data_dir if dataset else None, **(options or {}))
    dialogues = isinstance(model, DialoguePredictor)
    if dataset is not None:
        kinds = {
            "contexts and replies": ("reply" in rows.column_names, isinstance(model, _TorchReplies)),
            "dialogues": ("utterances" in rows.column_names, dialogues),
            "texts with aspects": ("aspect" in rows.column_names, isinstance(model, TargetedPredictor)),
        }
        for kind, (in_corpus, in_model) in kinds.items():
            if in_corpus != in_model:
                raise ValueError(
                    f"`dataset` {dataset!r} holds {'' if in_corpus else 'no '}{kind}, and the model reads "
                    f"{'' if in_model else 'none'}{'such' if in_model else ''}: give one that fits, or `texts`."
                )
        if dialogues:
            pairs = zip(rows["speakers"], rows["utterances"], strict=True)
            return [list(zip(*pair, strict=True)) for pair in list(pairs)[:MOST_TEXTS]]
    column = "context" if "context" in rows.column_names else "text"
    found = list(dict.fromkeys(rows[column]))[:MOST_TEXTS]
    if not dialogues:
        return found
    # One after the other as dialogues of 1, 2, ... 12 turns, and again.
    texts = iter(found)
    made: list[Turns] = []
    while turns := [(("A", "B")[i % 2], text) for i, text in zip(range(len(made) % 12 + 1), texts, strict=False)]:
        made.append(turns)
    return made


class _Recorder:
    """Takes the place of a model in its predictor and keeps inputs and logits of every call."""

    def __init__(self, model):
        self.model, self.calls = model, []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def __call__(self, **inputs):
        outputs = self.model(**inputs)
        tensors = {name: torch.as_tensor(value) for name, value in inputs.items()}
        self.calls.append((tensors, torch.as_tensor(outputs.logits)))
        return outputs


@contextmanager
def _recording(predictor) -> Iterator[list[tuple[dict[str, torch.Tensor], torch.Tensor]]]:
    recorder = _Recorder(predictor.model)
    predictor.model = recorder
    try:
        yield recorder.calls
    finally:
        predictor.model = recorder.model


def _predict(predictor: Predictor | DialoguePredictor, texts: Sequence, progress: bool = False) -> None:
    """All texts in the predictor's own batches; of targeted sentiment every target and aspect of every text."""
    if isinstance(predictor, DialoguePredictor):
        predictor.probabilities(texts, progress)
    elif isinstance(predictor, TargetedPredictor):
        predictor.probabilities(list(texts), predictor.model.config.targets, progress)
    else:
        predictor.label_probabilities(list(texts), progress)


def _compare(predictor, exported, texts: Sequence) -> dict[str, Any]:
    """The same texts through both, each from the tokens on: in large batches, then a few one at a time."""
    calls = []
    for one in (predictor, exported):
        with _recording(one) as recorded:
            _predict(one, texts, progress=True)
            for text in texts[:8]:
                _predict(one, [text])
        calls.append(recorded)
    first = [next(iter(inputs.values())) for inputs, _ in calls[0]]
    # Padding behind dialogues has logits without meaning, but the same ones in both.
    sizes = (-1, predictor.model.config.num_labels)
    ours, theirs = (torch.cat([logits.reshape(sizes) for _, logits in recorded]) for recorded in calls)
    return {
        "texts": len(texts),
        "batch_sizes": _range(tensor.shape[0] for tensor in first),
        "lengths": _range(tensor.shape[1] for tensor in first),
        "rows": len(ours),
        "labels": ours.shape[1],
        "largest_logit": ours.abs().max().item(),
        "max_logit_difference": (ours - theirs).abs().max().item(),
        "other_decisions": int((_decide(predictor, ours) != _decide(predictor, theirs)).any(dim=1).sum()),
    }


def _range(values) -> list[int]:
    values = list(values)
    return [min(values), max(values)]


def _decide(predictor, logits: torch.Tensor) -> torch.Tensor:
    """(N, C) logits -> (N, C) bool, or (N, 1) the most probable label."""
    if getattr(predictor, "multi_label", False):
        return logits.sigmoid() > torch.from_numpy(predictor.thresholds)
    return logits.argmax(dim=1, keepdim=True)


def _speed(model, exported, texts: Sequence) -> dict[str, Any]:
    """Time of torch / time of the exported model, alternating in one process with the same number of threads."""
    some = list(texts[:TIMED_TEXTS])
    if isinstance(model, _TorchReplies):
        some = some[:8]
        works = [
            lambda one=one: one.generate(**_reply_batch(model, some), **GREEDY) for one in (model.model, exported)
        ]
    else:
        works = [lambda one=one: _predict(one, some) for one in (model, exported)]
    for work in works:
        work()
    ratios = []
    for _ in range(TIMED_PAIRS):
        torch_seconds, onnx_seconds = (_seconds(work) for work in works)
        ratios.append(torch_seconds / onnx_seconds)
    low, median, high = statistics.quantiles(ratios, n=4)
    return {
        "texts": len(some),
        "threads": torch.get_num_threads(),
        "machine": platform.processor() or platform.machine(),
        "times_as_fast_as_torch": median,
        "quartiles": [low, high],
    }


def _seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


# Graphs


class _Named(nn.Module):
    """A function of named tensors as a module of positional ones, which torch.export names as it is told."""

    def __init__(self, owner: nn.Module, names: Sequence[str], function: Callable[[dict[str, torch.Tensor]], Any]):
        super().__init__()
        self.owner, self.names, self.function = owner, list(names), function

    def forward(self, *tensors):
        return self.function(dict(zip(self.names, tensors, strict=True)))


def _write_graph(
    path: Path,
    owner: nn.Module,
    function: Callable[[dict[str, torch.Tensor]], Any],
    example: Mapping[str, torch.Tensor],
    outputs: Sequence[str],
    dynamic: Callable[[str], tuple[int, ...]] = lambda name: (0, 1),
) -> Path:
    """
    Args:
        owner: the model whose parameters `function` uses.
        function: inputs by their names -> output or outputs.
        example: inputs, of more than one row and token.
        dynamic: name of an input -> its dimensions that may have any size.
    """
    from onnx_ir.passes.common import ClearMetadataAndDocStringPass

    example = {name: tensor.clone() for name, tensor in example.items()}  # of inference mode no graph can be made
    shapes = tuple(
        {i: torch.export.Dim.DYNAMIC for i in dynamic(name) if i < tensor.dim()} for name, tensor in example.items()
    )
    with _quiet(), torch.no_grad(), mock.patch.object(nn.LSTM, "forward", _lstm_forward):
        program = torch.export.export(
            _Named(owner, list(example), function),
            tuple(example.values()),
            dynamic_shapes=(shapes,),
            strict=False,
        )
        exported = torch.onnx.export(
            program,
            dynamo=True,
            input_names=list(example),
            output_names=list(outputs),
            verbose=False,
            custom_translation_table={
                torch.ops.aten._cdist_forward.default: _l1_distances,
                torch.ops.hf_emotion.lstm.default: _lstm_node,
            },
        )
        # Notes of which lines of which files on this machine led to each node: nobody's business, and most of a small file.
        ClearMetadataAndDocStringPass()(exported.model)
        exported.save(path)
    return path


# torch.export would write an LSTM out step by step, for one length. Ours are of one layer, `batch_first`, without states.
torch.library.define(
    "hf_emotion::lstm", "(Tensor states, Tensor input_weight, Tensor hidden_weight, Tensor bias) -> Tensor"
)


@torch.library.register_fake("hf_emotion::lstm")
def _(states, input_weight, hidden_weight, bias):
    return states.new_empty(*states.shape[:2], hidden_weight.shape[-1])


def _lstm_forward(module: nn.LSTM, states: torch.Tensor) -> tuple[torch.Tensor, None]:
    """(B, T, I) -> (B, T, H): torch has the gates in the order i, f, c, o, ONNX in the order i, o, f, c."""

    def ordered(weight: torch.Tensor) -> torch.Tensor:
        i, f, c, o = weight.chunk(4)
        return torch.cat([i, o, f, c])

    bias = torch.cat([ordered(module.bias_ih_l0), ordered(module.bias_hh_l0)])
    weights = (ordered(module.weight_ih_l0)[None], ordered(module.weight_hh_l0)[None], bias[None])
    return torch.ops.hf_emotion.lstm(states, *weights), None


def _lstm_node(states, input_weight, hidden_weight, bias):
    from onnxscript import opset18 as op

    turned = op.Transpose(states, perm=[1, 0, 2])
    output, _, _ = op.LSTM(turned, input_weight, hidden_weight, bias, hidden_size=hidden_weight.shape[-1])
    return op.Transpose(op.Squeeze(output, [1]), perm=[1, 0, 2])  # of (T, 1, B, H)


def _l1_distances(first, second, p, compute_mode=None):
    """`torch.cdist(p=1)`, which the exporter does not know: (N, L, d), (N, M, d) -> (N, L, M)."""
    from onnxscript import opset18 as op

    differences = op.Sub(op.Unsqueeze(first, [-2]), op.Unsqueeze(second, [-3]))
    return op.ReduceSum(op.Abs(differences), [-1], keepdims=0)


@contextmanager
def _quiet() -> Iterator[None]:
    """Of the exporters: which of their options this machine lacks, and what of torch they will have to change."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


def _export_classifier(predictor: Predictor | DialoguePredictor, folder: Path) -> list[Path]:
    model = predictor.model
    words = "a day at home"
    with _recording(predictor) as calls:
        _predict(
            predictor, [[("A", words), ("B", words)]] * 3 if isinstance(predictor, DialoguePredictor) else [words] * 3
        )
    example = calls[0][0]
    graphs = [_write_graph(folder / MODEL, model, lambda inputs: model(**inputs).logits, example, ["logits"])]
    if isinstance(predictor, DialoguePredictor):
        tokens = predictor.tokenizer([words] * 3, return_tensors="pt", return_token_type_ids=False)
        example = {name: tokens[name] for name in ("input_ids", "attention_mask")}
        encode = model.dialogue.encode_utterances
        graphs.append(_write_graph(folder / ENCODER, model, lambda inputs: encode(**inputs), example, ["vectors"]))
    return graphs


def _saturates() -> bool:
    """Whether this is an x86 processor without VNNI, as far as Linux tells."""
    flags = Path("/proc/cpuinfo")
    return platform.machine() == "x86_64" and flags.is_file() and "_vnni" not in flags.read_text()


def _quantize(path: Path, quantize: Literal["int8", "uint8"]) -> None:
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    temporary = path.with_name("quantized.onnx")
    model = onnx.load(path)
    graph = model.graph
    del graph.value_info[:]  # the exporter's notes of shapes, some of them wrong where it has transposed weights
    weights = {tensor.name: tensor for tensor in graph.initializer}
    uses = collections.Counter(name for node in graph.node for name in node.input)
    vectors = []  # which cannot be quantized
    for node in graph.node:
        if node.op_type not in ("MatMul", "Gemm") or node.input[1] not in weights:
            continue
        weight = weights[node.input[1]]
        if uses[weight.name] > 1:  # the quantizer would turn it round for the other nodes too
            weight = graph.initializer.add()
            weight.CopyFrom(weights[node.input[1]])
            weight.name = node.input[1] = f"{weight.name}.of.{node.name}"
        if len(weight.dims) < 2:
            vectors.append(node.name)
    with _quiet():
        quantize_dynamic(
            model,
            temporary,
            op_types_to_quantize=["MatMul", "Gemm"],
            nodes_to_exclude=vectors,
            per_channel=True,
            # Not `reduce_range`: of GoEmotions with MiniLM 7 bits cost .04 of macro-F1, as the saturation does without VNNI.
            weight_type={"int8": QuantType.QInt8, "uint8": QuantType.QUInt8}[quantize],
        )
    os.replace(temporary, path)


# Generators

GREEDY: dict[str, Any] = {"do_sample": False, "max_new_tokens": NEW_TOKENS}


class _TorchReplies:
    """A generator and its tokenizer."""

    def __init__(self, checkpoint: str | Path):
        self.model, self.tokenizer = load_any(checkpoint)


def _export_generator(model, folder: Path) -> list[Path]:
    """
    The encoder's graph ends with what the reply needs of the context and the emotion once: keys and values of the
    cross-attention, γ and β of the decoder's norms. The decoder's reads one token and the cache.
    """
    config, encoder, decoder = model.config, model.get_encoder(), model.get_decoder()
    layers = range(config.num_hidden_layers)
    cross, past, present = (
        [f"{name}_{part}_{i}" for i in layers for part in ("key", "value")] for name in ("cross", "past", "present")
    )
    modulation = ["modulation"] if decoder.is_modulated else []

    def encode(inputs):
        weights = inputs.get("emotion_weights")
        states = encoder(
            input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], emotion_weights=weights
        ).last_hidden_state
        scales = [decoder.modulation(weights)] if modulation else []
        cache = EncoderDecoderCache(DynamicCache(config=config), DynamicCache(config=config))
        # One step of the decoder fills the cache; what else it computes is not in the graph.
        decoder(
            input_ids=inputs["input_ids"][:, :1],
            encoder_hidden_states=states,
            encoder_attention_mask=inputs["attention_mask"],
            modulation=scales[0] if scales else None,
            past_key_values=cache,
            use_cache=True,
        )
        return (*scales, *_tensors(cache.cross_attention_cache))

    def decode(inputs):
        caches = [
            DynamicCache([(inputs[names[2 * i]], inputs[names[2 * i + 1]]) for i in layers]) for names in (past, cross)
        ]
        cache, mask = EncoderDecoderCache(*caches), inputs["encoder_attention_mask"]
        hidden_states = decoder(
            input_ids=inputs["input_ids"],
            encoder_hidden_states=mask[..., None].to(decoder.dtype),  # its keys and values are in the cache
            encoder_attention_mask=mask,
            modulation=inputs.get("modulation"),
            past_key_values=cache,
            use_cache=True,
        ).last_hidden_state
        return (model._logits(hidden_states[:, -1]), *_tensors(cache.self_attention_cache))

    contexts = {"input_ids": torch.ones(2, 5, dtype=torch.long), "attention_mask": torch.ones(2, 5, dtype=torch.long)}
    if encoder.is_modulated or decoder.is_modulated:
        contexts["emotion_weights"] = torch.ones(2, config.num_emotions)
    graphs = [
        _write_graph(
            folder / ENCODER,
            model,
            encode,
            contexts,
            [*modulation, *cross],
            lambda name: (0,) if name == "emotion_weights" else (0, 1),
        )
    ]
    with torch.no_grad():
        given = dict(zip([*modulation, *cross], encode(contexts), strict=True))
    tokens = {
        "input_ids": torch.ones(2, 1, dtype=torch.long),
        "encoder_attention_mask": contexts["attention_mask"],
        **given,
        **{name: given[other][:, :, :3] for name, other in zip(past, cross, strict=True)},
    }
    sizes = {"input_ids": (0,), "modulation": (0,), "encoder_attention_mask": (0, 1)}
    graphs.append(
        _write_graph(
            folder / DECODER, model, decode, tokens, ["logits", *present], lambda name: sizes.get(name, (0, 2))
        )
    )
    return graphs


def _tensors(cache: DynamicCache) -> list[torch.Tensor]:
    return [tensor for layer in cache.layers for tensor in (layer.keys, layer.values)]


def _reply_batch(model: _TorchReplies, contexts: Sequence[str], first_emotion: int = 0) -> dict[str, torch.Tensor]:
    """Contexts as the encoder reads them, the emotions of the model one after the other."""
    config = model.model.config
    emotions = torch.arange(first_emotion, first_emotion + len(contexts)) % config.num_emotions
    inputs = pad_contexts(encode_contexts(model.tokenizer, contexts, config, emotion_ids=emotions.tolist()), config)
    if model.model.get_encoder().is_modulated or model.model.get_decoder().is_modulated:
        inputs["emotion_ids"] = emotions
    return inputs


def _replies(model: _TorchReplies, sequences: torch.Tensor) -> list[list[int]]:
    """Without padding, of which another reply of the batch may need less."""
    pad = model.model.config.pad_token_id
    return [[token for token in row[1:] if token != pad] for row in sequences.tolist()]


def _compare_replies(model: _TorchReplies, exported: OnnxReplyGenerator, contexts: Sequence[str]) -> dict[str, Any]:
    """Greedy replies of both in batches of 1, 2, ... 32, and the logits of each token of torch's replies."""
    shapes: list[torch.Size] = []
    start, magnitudes, largest, tokens, others = 0, [], [], 0, 0
    with tqdm(total=len(contexts), unit="contexts", disable=None) as bar:
        while start < len(contexts):
            batch = _reply_batch(model, contexts[start : start + len(shapes) % 32 + 1], start)
            shapes.append(batch["input_ids"].shape)
            start += len(batch["input_ids"])
            ours = model.model.generate(**batch, **GREEDY, output_logits=True, return_dict_in_generate=True)
            theirs = exported.generate(**batch, **GREEDY)
            same = zip(_replies(model, ours.sequences), _replies(model, theirs), strict=True)
            others += sum(one != other for one, other in same)
            state = exported.start(**batch)
            for position, logits in enumerate(ours.logits):
                difference = (exported.step(ours.sequences[:, position : position + 1], state) - logits).abs()
                magnitudes.append(logits.abs().max())
                largest.append(difference.max())
                tokens += len(logits)
            bar.update(len(ours.sequences))
    return {
        "texts": len(contexts),
        "batch_sizes": _range(shape[0] for shape in shapes),
        "lengths": _range(shape[1] for shape in shapes),
        "rows": tokens,
        "labels": model.model.config.vocab_size,
        "largest_logit": torch.stack(magnitudes).max().item(),
        "max_logit_difference": torch.stack(largest).max().item(),
        "other_decisions": others,
    }


__all__ = ["export_onnx", "read_texts"]
