# SPDX-License-Identifier: Apache-2.0
"""
Figures of each language for runs on BRIGHTER, and what masking is worth.

    python -m benchmarks.brighter languages runs/brighter_laa runs/brighter_intensity --output benchmarks/brighter.json
    python -m benchmarks.brighter masking brighter/laa --data-dir DATA --output benchmarks/brighter_masking.json

`languages` reads the predictions of the best seed. "common": macro-F1 on the test part at the run's thresholds, tuned on the validation rows
of all its languages. "own": at thresholds tuned on the validation rows of the language alone. Both are means over the emotions that were
annotated in the language. Runs of intensities give Pearson's r, the mean over the emotions.
"""

import dataclasses
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow.parquet
import torch
import typer
from datasets import DatasetDict
from safetensors.numpy import load_file, save_file

from benchmarks.measuring import recorded
from benchmarks.study.languages import drawn
from benchmarks.study.languages import plain as right_sentences
from benchmarks.study.transfer import transfer
from hf_emotion import Predictor, metrics
from hf_emotion.data.splits import UNANNOTATED
from hf_emotion.inference import load_predictor
from hf_emotion.io.files import write_json
from hf_emotion.recipes import Recipe
from hf_emotion.reports.finished_runs import Predictions, read_predictions
from hf_emotion.run_report import RunReport
from hf_emotion.runs.train import train
from hf_emotion.runtime.base_models import resolve_base_model
from hf_emotion.runtime.ready import ADAPTER, PLACE, ReadyModel, encoder_file, for_prediction, with_weights
from hf_emotion.tasks.emotion_classification.brighter import UNSEEN
from hf_emotion.tasks.loading import CorpusSplit, load_dataset_for, load_split
from hf_emotion.tasks.rows import gold_of
from hf_emotion.training.recipe_checks import load_recipe


app = typer.Typer(help="Figures of runs on BRIGHTER.")
Output = Annotated[Path, typer.Option("--output", "-o")]
Settings = Annotated[list[str] | None, typer.Option("--set")]
WEIGHTS = "model.safetensors"
PARTS = ("validation", "test")
VALUES = ("pearson", "ccc", "mae")


def of_labels(run: Path, report: RunReport) -> dict[str, Any]:
    dev, test = (read_predictions(run, split, multi_label=True) for split in ("validation", "test"))
    thresholds, found = list((report.best.thresholds or {}).values()), {}
    for code in sorted(set.intersection(*({row.partition(":")[0] for row in part.ids} for part in (dev, test)))):
        (dev_gold, dev_scores), (gold, scores) = (_of_language(part, code) for part in (dev, test))
        own = metrics.tune_thresholds(dev_gold, dev_scores)
        kinds = {"common": thresholds, "own": own, "fixed": [0.5] * len(test.names)}
        figures = {kind: metrics.goemotions(gold, scores, at, test.names)["macro_f1"] for kind, at in kinds.items()}
        found[code] = {"rows": len(gold), "validation_rows": len(dev_gold), **figures}
    return found


def _of_language(part: Predictions, code: str) -> tuple[np.ndarray, np.ndarray]:
    """Gold labels, -1 where nobody annotated one, and probabilities of the rows in a language."""
    rows = [row.startswith(f"{code}:") for row in part.ids]
    return np.where(part.annotated, part.gold, -1)[rows], part.probabilities[rows]


def of_values(run: Path) -> dict[str, Any]:
    table = pyarrow.parquet.read_table(run / "values.parquet", filters=[("split", "=", "test")])
    names, rows, found = json.loads(table.schema.metadata[b"label_names"]), table.to_pandas(), {}
    for code, own in rows.groupby(rows["id"].str.partition(":")[0]):
        figures = metrics.regression(np.stack(own["gold"]), np.stack(own["values"]), names)
        found[code] = {"rows": len(own), **{metric: figures[metric] for metric in VALUES}}
    return found


def _kept(kinds: dict[str, dict]) -> dict[str, dict]:
    """Mean and standard deviation over seeds, all languages in one part."""
    return {kind: {m: each[m] for m in ("macro_f1", *VALUES) if m in each} for kind, each in kinds.items()}


@app.command()
def languages(runs: list[Path], output: Output) -> None:
    """Measure finished runs in each of their languages; entries of other runs stay in the file."""
    found = recorded(output)
    for run in runs:
        report, values = RunReport.read(run), (run / "values.parquet").is_file()
        own = of_values(run) if values else of_labels(run, report)
        measured = VALUES if values else ("common", "own", "fixed")
        if not own:  # Spanish has no public test labels
            measured = ()
        found[run.name] = {
            "base_model": report.base_model,
            "train_rows": report.rows["train"],
            "seeds": len(report.runs),
            "best_dev_metric": report.best.best_dev_metric,
            "over_seeds": {split: _kept(kinds) for split, kinds in report.summary.items()},
            "mean": {metric: float(np.mean([each[metric] for each in own.values()])) for metric in measured},
            "languages": own,
        }
        print(run.name, json.dumps(found[run.name], indent=1))
    write_json(output, found)


@app.command()
def unseen(run: Path, output: Output, data_dir: Path | None = None, rows: int = 1000) -> None:
    """Measure a run on the languages that nobody trained on, at its own thresholds; at most `rows` texts for each."""
    predictor, found = Predictor(run), {}
    for code in UNSEEN:
        part = load_split("brighter", "test", data_dir, languages=[code], labels=predictor.labels)
        part = part.shuffle(seed=0).select(range(min(rows, len(part))))
        scores = predictor.of_rows(part, progress=True)
        figures = metrics.goemotions(gold_of(part).values, scores, predictor.thresholds, predictor.labels)
        found[code] = {"rows": len(part), "macro_f1": figures["macro_f1"], "micro_f1": figures["micro_f1"]}
        print(code, found[code])
    write_json(output, found)


@app.command()
def rounded(name: str, output: Output, data_dir: Path | None = None, set_: Settings = None) -> None:
    """
    Train a recipe with `adapter` over its encoder rounded to 4 bits in blocks of 32, and measure the adapter over these weights and over the
    true ones, at the thresholds that were tuned over the rounded ones.
    """
    recipe = load_recipe(name, set_ or [])
    source = Path(resolve_base_model(recipe.base_model))
    true, (dev, test) = (
        load_file(source / WEIGHTS),
        (CorpusSplit(recipe.dataset, part, data_dir, _own(recipe)) for part in PARTS),
    )
    with tempfile.TemporaryDirectory() as place:
        encoder, run = Path(place) / "encoder", Path(place) / "run"
        shutil.copytree(source, encoder)
        few = {key: rounded_weights(value, 4, 32) for key, value in true.items()}
        (encoder / WEIGHTS).unlink()
        save_file(few, encoder / WEIGHTS, metadata={"format": "pt"})
        train(dataclasses.replace(recipe, base_model=str(encoder)), run, data_dir)
        predictor, found = Predictor(run), {}
        for kind in ("4 bits, as trained", "true weights"):
            found[kind] = {part.split: _at_stored(predictor, part) for part in (dev, test)}
            print(kind, found[kind])
            change_encoder(predictor, few, true)
    write_json(output, {"recipe": name, "settings": set_ or [], "base_model": recipe.base_model, "macro_f1": found})


@app.command()
def rerounded(model: str, output: Output, data_dir: Path | None = None, rows: int = 50) -> None:
    """Measure a ready model over its encoder as it is, and rounded anew in other ways; at most `rows` test texts of each language."""
    predictor, found = Predictor(with_weights(model)), {}
    source = load_file(encoder_file(ReadyModel(PLACE / model).facts["encoder"]["id"], WEIGHTS))
    test = drawn(load_split("brighter", "test", data_dir, labels=predictor.labels), rows)
    gold, before, codes = gold_of(test).values, source, np.array(test["language"])
    first = None
    for kind, bits, block in (
        ("as it is", 0, 0),
        ("8 bits, blocks of 32", 8, 32),
        ("4 bits, blocks of 64", 4, 64),
        ("4 bits, blocks of 24", 4, 24),
    ):
        now = {key: rounded_weights(value, bits, block) for key, value in source.items()} if bits else source
        change_encoder(predictor, before, now)
        before, scores = now, predictor.of_rows(test, progress=True)
        first = scores if first is None else first
        own = [
            metrics.goemotions(gold[here], scores[here], predictor.thresholds, predictor.labels)["macro_f1"]
            for here in (codes == code for code in dict.fromkeys(codes))
        ]
        found[kind] = {"macro_f1": float(np.mean(own)), "probability_moves": float(np.abs(scores - first).mean())}
        print(kind, found[kind])
    write_json(output, {"model": model, "rows": len(test), "rounded": found})


def rounded_weights(values: np.ndarray, bits: int, block: int) -> np.ndarray:
    """A matrix whose blocks of so many neighbours each have a float16 scale and integers of so many bits; vectors stay as they are."""
    if values.ndim < 2 or values.size % block:
        return values
    groups, half = values.reshape(-1, block).astype(np.float32), 2 ** (bits - 1)
    farthest = np.take_along_axis(groups, np.abs(groups).argmax(axis=1)[:, None], axis=1)
    scale = (farthest / -half).astype(np.float16).astype(np.float32)
    codes = np.clip(np.round(groups / np.where(scale == 0, 1, scale)), -half, half - 1)
    return (codes * scale).reshape(values.shape)


def change_encoder(predictor: Predictor, old: Mapping[str, np.ndarray], new: Mapping[str, np.ndarray]) -> None:
    """Put a merged model's adapter over other weights of the encoder: what training added to the old ones stays."""
    state = predictor.model.state_dict()
    for key, value in new.items():
        (own,) = [name for name in state if name == key or name.endswith(f".{key}")] or [None]
        if own is not None and value.ndim > 1:
            state[own] += torch.from_numpy(value - old[key]).to(state[own])


def _own(recipe: Recipe) -> dict[str, Any]:
    """The options of the recipe's corpus that choose what is measured."""
    return {key: value for key, value in recipe.dataset_options.items() if key in ("languages", "labels")}


def _at_stored(predictor: Predictor, part: CorpusSplit) -> float:
    rows = part.load()
    return metrics.goemotions(gold_of(rows).values, predictor.of_rows(rows), predictor.thresholds, predictor.labels)[
        "macro_f1"
    ]


@app.command()
def masking(name: str, output: Output, data_dir: Path | None = None, set_: Settings = None) -> None:
    """Train a recipe with the labels that were not annotated masked, and with them counted as absent; measure both with them masked."""
    recipe = load_recipe(name, set_ or [])
    splits = load_dataset_for(recipe.dataset, data_dir, **recipe.dataset_options)
    absent = DatasetDict({**splits, "train": splits["train"].remove_columns([UNANNOTATED])})
    found = {}
    for kind, rows in (("masked", splits), ("absent", absent)):
        with tempfile.TemporaryDirectory() as folder:
            report = train(recipe, Path(folder) / "run", splits=rows)
        test, names = report.summary["test"], report.best.figures("test")["tuned"]["per_label"]
        found[kind] = {
            "macro_f1": test["tuned"]["macro_f1"]["mean"],
            "fixed_macro_f1": test["fixed"]["macro_f1"]["mean"],
            "per_label": {label: own["f1"] for label, own in names.items()},
        }
        print(kind, found[kind])
    write_json(output, {"base_model": recipe.base_model, "rows": len(splits["train"]), **found})


@app.command()
def rising(run: Path, output: Output) -> None:
    """Predict the intensities of the ten sentences of brighter_rising.json, which were written for it: anger, and joy, that rises."""
    texts = [row["text"] for row in recorded(Path(__file__).with_name("brighter_rising.json"))["sentences"]]
    found = []
    for text, items in zip(texts, Predictor(run)(texts), strict=True):
        found.append({"text": text, **{item["label"]: round(item["score"], 3) for item in items}})
    print(*found, sep="\n")
    write_json(output, {"model": run.name, "sentences": found})


@app.command()
def plain(model: str, output: Output, taxonomy: str | None = None) -> None:
    """How many of the packaged plain sentences of each language a model has right; entries of other models stay in the file."""
    found = recorded(output) | {model: right_sentences(Predictor(model, taxonomy=taxonomy))}
    print(json.dumps(found[model], indent=1))
    write_json(output, found)


@app.command()
def speed(model: str, output: Output) -> None:
    """The size of a packaged ready model and of its encoder in the cache, the first answer of `predict`, and texts per second."""
    files = [*ReadyModel(PLACE / model).folder.iterdir()]
    folder, begin = Path(for_prediction(model)), time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "hf_emotion", "predict", model, "Was für ein Tag!"], check=True, capture_output=True
    )
    first = time.perf_counter() - begin
    predictor, texts = Predictor(model), [*load_split("plain_sentences", "train")["text"]]
    predictor(texts[:50])
    begin = time.perf_counter()
    predictor(texts)
    found = {
        "megabytes": sum(path.stat().st_size for path in files) / 1e6,
        "adapter_megabytes": next(path for path in files if path.name == ADAPTER).stat().st_size / 1e6,
        "cache_megabytes": sum(path.stat().st_size for path in folder.iterdir()) / 1e6,
        "first_answer_seconds": first,
        "texts_per_second": len(texts) / (time.perf_counter() - begin),
    }
    print(found)
    write_json(output, {model: found})


@app.command()
def carries(model: str, output: Output, data_dir: Path | None = None) -> None:
    """How far a model with other labels carries: `transfer` to the five languages that the written sentences have, too."""
    predictor, found = load_predictor(model), {}
    for code in ("eng", "deu", "ptbr", "rus", "esp"):
        part = "validation" if code == "esp" else "test"  # whose labels are not here
        found[code] = transfer(predictor, "brighter", data_dir, part, {"languages": [code]})
        print(code, found[code])
    write_json(output, {model: found})


if __name__ == "__main__":
    app()
