# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion summarize`."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .options import AsJson, checked
from .printing import print_json, print_table, visible


if TYPE_CHECKING:
    from ..reports.summarize import Summary

SHOWN = 30


def summarize(
    file: Annotated[str, typer.Argument(help="CSV, TSV, JSONL, Parquet or Excel: texts, or what `predict` wrote.")],
    model: Annotated[
        str | None,
        typer.Option(
            help="Run folder, Hub id or ready model: predicts a file of texts; its errors on validation rows correct the shares."
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(help="Column of the groups: product, speaker. Repeatable: their values together are the group."),
    ] = None,
    time: Annotated[str | None, typer.Option(help="Column of the times, in ISO 8601 unless --time-format.")] = None,
    every: Annotated[
        Literal["hour", "day", "week", "month", "quarter", "year"], typer.Option(help="Period of --time.")
    ] = "week",
    time_format: Annotated[str | None, typer.Option(help="Form of the times, such as %d/%m/%Y.")] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(help="A label to show; repeatable. Default: all. Of aspects and terms also `negative`."),
    ] = None,
    reference: Annotated[
        str | None, typer.Option(help="An earlier file of the same form: what has drifted since, and new words.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Page to write, .html; beside it a .csv and a .json of the same name."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an output that exists.")] = False,
    text_column: Annotated[str | None, typer.Option(help="Column of the texts; default: text or utterance.")] = None,
    texts: Annotated[int, typer.Option(min=0, help="Typical texts of each group and label; 0: none.")] = 3,
    prefix: Annotated[str, typer.Option(help="--prefix of the prediction.")] = "",
    encoding: Annotated[
        str | None, typer.Option(help="Encoding of text files, such as cp1252; default: UTF-8.")
    ] = None,
    separator: Annotated[str | None, typer.Option(help="CSV separator. Default: detected from the header.")] = None,
    on_bad_rows: Annotated[
        Literal["error", "skip"], typer.Option(help="Rows without a text or with a time that cannot be read.")
    ] = "error",
    as_json: AsJson = False,
) -> None:
    """
    Count labels over many texts, per group and over time: shares with 95 % intervals, corrected for the model's errors, differences with a
    test, typical texts, and drift against a reference.
    """
    from ..io.extras import require
    from ..io.files import write_json, write_text
    from ..io.paths import refuse_existing
    from ..reports.summarize import summarize as run
    from ..reports.summary_rows import has_predictions

    if model is not None:
        checked(model)
    page, table, values = beside = [(output or Path("page")).with_suffix(kind) for kind in (".html", ".csv", ".json")]
    if output is not None:
        if output.suffix != ".html":
            raise typer.BadParameter(f"--output names a page, NAME.html, got {output}.")
        require("matplotlib", "the page of a summary", "plots")
        read = [Path(source).resolve() for source in (file, reference) if source is not None]
        if taken := [path for path in beside if path.resolve() in read]:
            raise typer.BadParameter(
                f"beside the page {page}, {table.name} and {values.name} are written, and {taken[0]} is read: give the page another name, such as "
                f"{page.with_stem(page.stem + '_page')}."
            )
        for path in beside * (not overwrite):
            refuse_existing(path, "--overwrite")
    options: dict[str, Any] = {"text_column": text_column, "on_bad_rows": on_bad_rows, "prefix": prefix}
    saved: dict[str, Any] = {"encoding": encoding, "separator": separator}
    with tempfile.TemporaryDirectory() as place:
        sources: list[str | None] = []
        needed = [*(by or ()), *([] if time is None else [time])]  # else a long prediction would be in vain
        for name, source, columns in (("texts", file, needed), ("reference", reference, ())):
            if source is not None and not has_predictions(source, prefix, columns, **saved):
                if model is None:
                    raise ValueError(
                        f"{source} has no predictions: name the model that predicts its texts, --model goemotions, or the separator of "
                        "a CSV that has some (--separator)."
                    )
                # beside the page, so that an interrupted prediction goes on
                kept = Path(place) / f"{name}.parquet" if output is None else output.with_suffix(f".{name}.parquet")
                _predict(model, source, kept, overwrite=overwrite, **saved, **options)
                beside, source = [*beside, kept], str(kept)
            sources.append(source)
        groups = tuple(dict.fromkeys(by)) if by else None
        arguments = (sources[0], model, groups, time, every, label, sources[1], texts)
        summary = run(*arguments, time_format=time_format, **saved, **options)
    if output is not None:
        write_text(table, summary.to_frame().to_csv(index=False, lineterminator="\r\n"))
        write_json(values, summary.to_dict())
        write_text(page, summary.to_html())
    if as_json:
        print_json(summary.to_dict())
        return
    if output is not None:
        print(f"{summary.rows} texts: {', '.join(map(str, beside))}")
    else:
        _show(summary)
    for note in summary.notes:
        print(f"note: {visible(note)}")


def _predict(model: str, source: str, output: Path, **options: Any) -> None:
    """Predict a file of texts, into wide columns where the model has them."""
    from ..inference import load_predictor
    from ..runtime.ready import for_prediction
    from ..serving.bulk import predict_file
    from .printing import quiet

    quiet()
    predictor: Any = load_predictor(for_prediction(model))
    layout: Any = "wide" if hasattr(predictor, "wide_labels") else "joined"
    predict_file(predictor, source, output, layout=layout, as_texts=True, **options)


def _show(summary: "Summary") -> None:
    """The largest shares, over all periods first, and the clear differences."""
    plain, by = ["plain"] * summary.corrected, [("group", summary.by)] if summary.by else []
    tables = [(summary.largest, [*by, ("period", summary.every)] if summary.time else by)]
    if summary.time:
        tables.insert(0, (summary.together, by))
    for shares, names in tables:
        cells = [
            [
                *(one["label"], *(one[key] for key, _ in names), summary.shown(one["share"])),
                *(summary.interval(one), *(summary.shown(one[name]) for name in plain)),
                *map(str, summary.counts(one)),
            ]
            for one in shares[:SHOWN]
        ]
        heads = [summary.measure, "95 % interval", *plain, *summary.counted.values()]
        print_table(["label", *(str(name) for _, name in names), *heads], cells)
        if len(cells) < len(shares):
            print(f"the first {SHOWN} of {len(shares)}; --output report.html or --json gives all")
    if summary.complaints:
        print("The most complained about come first.")
    for one in summary.clear[:8]:
        size = f"{summary.shown(one['difference'], '+')} against {one['second']}"
        print(
            visible(f"{one['label']}: {one['first']} {size} [{summary.interval(one, '+')}], p = {one['p_holm']:.2g}")
        )
    if summary.differences:
        print(f"tested: {summary.tested}" + ("" if summary.clear else f" {summary.nothing_clear}"))
