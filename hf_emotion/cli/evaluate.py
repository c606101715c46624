# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion evaluate`."""

from pathlib import Path
from typing import Annotated

import typer

from ..io.names import given
from ..io.paths import refuse_existing
from ..tasks import labelled_corpora
from .options import (
    Aggregation,
    AllFigures,
    AsJson,
    Checkpoint,
    DataDir,
    Dtype,
    LoaderOption,
    MaxLength,
    MaxWindows,
    Split,
    Stride,
    Taxonomy,
    named,
)
from .printing import print_json, quiet, show, write_jsonl
from .reading import read_options


LABELLED = labelled_corpora()


def evaluate(
    checkpoint: Checkpoint,
    dataset: Annotated[
        str | None,
        typer.Option(
            help=f"{', '.join(LABELLED[:-1])} or {LABELLED[-1]}; default: the corpus of the run, or your own files if --data-dir is a file."
        ),
    ] = None,
    split: Split = "test",
    data_dir: DataDir = None,
    taxonomy: Taxonomy = None,
    option: LoaderOption = None,
    threshold: Annotated[
        float | None, typer.Option(min=0, max=1, help="Models of several labels: a fixed threshold; default: 0.3.")
    ] = None,
    max_length: MaxLength = None,
    stride: Stride = None,
    max_windows: MaxWindows = None,
    aggregation: Aggregation = None,
    dtype: Dtype = None,
    judge: Annotated[list[str] | None, typer.Option(help="Generators: classifier of the replies; repeatable.")] = None,
    contexts: Annotated[int | None, typer.Option(min=1, help="Generators: size of the sample; default: 1000.")] = None,
    bertscore_model: Annotated[str | None, typer.Option(help="Generators: encoder for BERTScore, or minilm.")] = None,
    replies: Annotated[Path | None, typer.Option(help="Generators: JSONL file to write the replies to.")] = None,
    intensity: Annotated[float | None, typer.Option(help="Generators: weight of the emotion; default: 1.")] = None,
    all_figures: AllFigures = False,
    as_json: AsJson = False,
) -> None:
    """Measure a checkpoint on a part of a corpus, or on your own files."""
    quiet()
    from ..inference import load_predictor
    from ..runs.evaluate import corpus_for
    from ..runs.evaluate import evaluate as run

    refuse_existing(replies)
    predictor = load_predictor(
        checkpoint, taxonomy, max_length, None, dtype, stride, max_windows, aggregation_strategy=aggregation
    )
    settings = given(
        threshold=threshold, judges=judge, bertscore_model=bertscore_model, intensity=intensity, contexts=contexts
    )
    # `run` itself refuses a threshold, and names its value.
    unfit = [name for name in settings if name not in ("threshold", *predictor.task.settings)]
    if replies is not None and predictor.task.selects_labels:
        unfit.append("replies")
    if unfit:
        raise typer.BadParameter(f"{named(unfit)} does not go with a model for {predictor.task.name}: leave it out.")
    dataset = dataset or corpus_for(predictor, data_dir)
    result = run(predictor, dataset, split, data_dir, read_options(option), **settings)
    if replies is not None:
        rows = result["replies"]
        write_jsonl(replies, [{key: row[key] for key in ("context", "emotion", "reply")} for row in rows])
    if as_json:
        print_json({key: value for key, value in result.items() if key != "replies"})
    else:
        show(predictor.task.figures(result, dataset, split, all_figures))
