# SPDX-License-Identifier: Apache-2.0
"""
Figures of each language for runs on BRIGHTER.

    python -m benchmarks.brighter languages runs/brighter_laa runs/brighter_intensity --output benchmarks/brighter.json

`languages` reads the predictions of the best seed. "common": macro-F1 on the test part at the run's thresholds, tuned on the validation rows
of all its languages. "own": at thresholds tuned on the validation rows of the language alone. Both are means over the emotions that were
annotated in the language. Runs of intensities give Pearson's r, the mean over the emotions.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow.parquet
import typer

from benchmarks.measuring import put, seconds
from benchmarks.study.languages import plain as right_sentences
from hf_emotion import Predictor, metrics
from hf_emotion.reports.finished_runs import Predictions, read_predictions
from hf_emotion.run_report import RunReport
from hf_emotion.runtime.ready import ADAPTER, PLACE, ReadyModel, for_prediction
from hf_emotion.tasks.loading import load_split


app = typer.Typer(help="Figures of runs on BRIGHTER.")
Output = Annotated[Path, typer.Option("--output", "-o", help="JSON file; its other entries stay")]
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
    """Measure finished runs in each of their languages."""
    for run in runs:
        report, values = RunReport.read(run), (run / "values.parquet").is_file()
        own = of_values(run) if values else of_labels(run, report)
        # Spanish has no public test labels.
        measured = () if not own else VALUES if values else ("common", "own", "fixed")
        found = {"base_model": report.base_model, "train_rows": report.rows["train"], "seeds": len(report.runs)}
        found["best_dev_metric"] = report.best.best_dev_metric
        found["over_seeds"] = {split: _kept(kinds) for split, kinds in report.summary.items()}
        found["mean"] = {metric: float(np.mean([each[metric] for each in own.values()])) for metric in measured}
        put(output, run.name, found | {"languages": own})


@app.command()
def plain(model: str, output: Output, taxonomy: str | None = None) -> None:
    """How many of the packaged plain sentences of each language a model has right."""
    put(output, model, right_sentences(Predictor(model, taxonomy=taxonomy)))


@app.command()
def speed(model: str, output: Output) -> None:
    """The size of a packaged ready model and of its encoder in the cache, the first answer of `predict`, and texts per second."""
    files, cached = (
        {path.name: path.stat().st_size / 1e6 for path in folder.iterdir()}
        for folder in (ReadyModel(PLACE / model).folder, Path(for_prediction(model)))
    )
    command = [sys.executable, "-m", "hf_emotion", "predict", model, "Was für ein Tag!"]
    first = seconds(lambda: subprocess.run(command, check=True, capture_output=True))
    predictor, texts = Predictor(model), [*load_split("plain_sentences", "train")["text"]]
    predictor(texts[:50])
    found = {"megabytes": sum(files.values()), "adapter_megabytes": files[ADAPTER]}
    found |= {"cache_megabytes": sum(cached.values()), "first_answer_seconds": first}
    put(output, model, found | {"texts_per_second": len(texts) / seconds(lambda: predictor(texts))})


if __name__ == "__main__":
    app()
