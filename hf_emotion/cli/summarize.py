# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion summarize`."""

import hashlib
import json
import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .options import AsJson, Encoding, EscapeFormulas, Groups, Overwrite, Prefix, Separator, TextColumn, checked
from .printing import print_json, print_table, say
from .reading import read_groups, refuse_columns


if TYPE_CHECKING:
    from ..reports.summary import Summary

SHOWN = 30


def summarize(
    file: Annotated[
        str,
        typer.Argument(
            help="CSV, TSV, JSONL, Parquet or Excel: texts, or what `predict` wrote. Or conversations, as `predict` reads them: file or folder."
        ),
    ],
    model: Annotated[
        str | None,
        typer.Option(
            help="Run folder, Hub id or ready model. It predicts a file of texts; its validation errors correct the shares."
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Column of the groups: product, speaker. Repeatable: each combination of values is a group."
        ),
    ] = None,
    time: Annotated[
        str | None, typer.Option(help="Column of the times, in ISO 8601, or as --time-format says.")
    ] = None,
    every: Annotated[
        Literal["hour", "day", "week", "month", "quarter", "year"], typer.Option(help="Period of --time.")
    ] = "week",
    time_format: Annotated[str | None, typer.Option(help="Format of the times, such as %d/%m/%Y.")] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(help="A label to show; repeatable. Default: all. For aspects and terms also `negative`."),
    ] = None,
    groups: Groups = None,
    language: Annotated[
        str | None, typer.Option(help="ISO 639-1 code, such as en: leave out texts in other languages.")
    ] = None,
    mask_speakers: Annotated[bool, typer.Option("--mask-speakers", help="Conversations: as in `predict`.")] = False,
    reference: Annotated[
        str | None, typer.Option(help="An earlier file of the same form: show what has drifted since, and new words.")
    ] = None,
    labelled: Annotated[
        str | None,
        typer.Option(
            help="Rows that `sample` drew and you labelled: they make the shares right for your texts, whatever the model."
        ),
    ] = None,
    write_thresholds: Annotated[
        Path | None,
        typer.Option(help="With --labelled: thresholds tuned on these rows, JSON for `predict --thresholds`."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Page to write, .html; a .csv and a .json of the same name go with it."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    charts: Annotated[
        Path | None,
        typer.Option(
            file_okay=False, metavar="FOLDER", help="Folder to write the charts into, as PNG or SVG (--chart-format)."
        ),
    ] = None,
    chart_format: Annotated[Literal["png", "svg"], typer.Option(help="Format of --charts.")] = "png",
    overwrite: Overwrite = False,
    text_column: TextColumn = None,
    texts: Annotated[
        int | None,
        typer.Option(min=0, help="Typical texts per group and label; with --label, per label. Default: 3; 0: none."),
    ] = None,
    prefix: Prefix = "",
    encoding: Encoding = None,
    separator: Separator = None,
    on_bad_rows: Annotated[
        Literal["error", "skip"], typer.Option(help="What to do with rows without a text or a readable time.")
    ] = "error",
    escape_formulas: EscapeFormulas = False,
    as_json: AsJson = False,
) -> None:
    """
    Count labels over many texts, per group and over time: shares with 95 % intervals, tested differences, typical texts, and drift against
    a reference. Rows that you labelled (or else the model's validation errors) correct the shares.
    """
    from ..data.conversations import COLUMNS, are_conversations, as_table, read_conversations
    from ..io.extras import require
    from ..io.paths import name_of, shown
    from ..reports.summary import summarize as run
    from ..reports.summary.reading import has_predictions

    if model is not None:
        checked(model)
    given = [Path(source).resolve() for source in (file, reference, labelled) if source is not None]
    if write_thresholds is not None:
        if labelled is None:
            raise typer.BadParameter("--write-thresholds needs labelled rows: --labelled to_label.csv.")
        _check_free([write_thresholds], write_thresholds, given, overwrite)
    beside: list[Path] = []
    if output is not None or charts is not None:
        require("matplotlib", "a page or a chart of a summary", "plots")
    if output is not None:
        if output.suffix != ".html":
            raise typer.BadParameter(f"--output names a page, NAME.html, got {output}.")
        beside = [output.with_suffix(kind) for kind in (".html", ".csv", ".json")]
        _check_free(beside, output, given, overwrite)
    options: dict[str, Any] = {"text_column": text_column, "on_bad_rows": on_bad_rows, "prefix": prefix}
    saved: dict[str, Any] = {"encoding": encoding, "separator": separator}
    predicted: dict[Path, Path] = {}  # where predictions lie, and what they become with the page
    with ExitStack() as opened:
        place = opened.enter_context(tempfile.TemporaryDirectory())
        sources: list[str | None] = []
        needed = [*(by or ()), *([] if time is None else [time])]  # else a long prediction would be in vain
        for name, source, columns in (("texts", file, needed), ("reference", reference, ())):
            if source is not None and are_conversations(source):
                refuse_columns(source, text_column=text_column, separator=separator)
                talks = read_conversations(source, mask_speakers, encoding)
                source, options["text_column"] = opened.enter_context(as_table(talks)), COLUMNS[-1]
                saved["encoding"] = None
            elif source is not None and mask_speakers:
                raise typer.BadParameter("--mask-speakers is for conversations; tables: `predict --mask-speakers`.")
            if source is not None and not has_predictions(source, prefix, columns, **saved):
                if model is None:
                    raise ValueError(
                        f"{shown(source)} has no predictions: name the model that predicts its texts, --model goemotions, or the separator of "
                        "a CSV that has some (--separator)."
                    )
                if output is None:
                    source = str(_predict(model, source, Path(place) / name, **saved, **options))
                else:
                    kept = output.with_suffix(f".{name}.parquet")
                    _check_free([kept], output, given, overwrite)
                    # beside the page, so that an interrupted prediction goes on
                    part = _predict(model, source, output.with_name(f".partial-{kept.stem}"), **saved, **options)
                    predicted[part], source = kept, str(part)
            sources.append(source)
        of_rows = tuple(dict.fromkeys(by)) if by else None
        options |= {**saved, "time_format": time_format, "title": title, "language": language, "labelled": labelled}
        options["groups"] = None if groups is None else read_groups(groups)
        count = 3 if texts is None else texts
        summary = run(sources[0], model, of_rows, time, every, label, sources[1], count, **options)
        summary.source = None if mask_speakers else name_of(file)  # which may name somebody
    if write_thresholds is not None:
        _write_thresholds(summary, write_thresholds)
    if output is not None:
        _write(summary, beside, predicted, escape_formulas)
    if charts is not None:
        from ..reports.summary.page import write_charts

        drawn = write_charts(summary, charts, chart_format)
        if not as_json:
            say(f"{len(drawn)} charts: {charts}")
    if as_json:
        print_json(summary.to_dict())
        return
    if output is not None:
        say(f"{summary.rows} texts: {', '.join(map(str, [*beside, *predicted.values()]))}")
    else:
        _show(summary)
    for label_name, found in summary.sharpest.items() if output is None and texts else ():
        say(f"{label_name}, the surest texts:")
        for one in found:
            say(f"- {one['text'][:300]}" + f" ({one['about']})" * bool(one["about"]))
    for note in summary.notes:
        say(f"note: {note}")


def _check_free(paths: list[Path], page: Path, read: list[Path], overwrite: bool) -> None:
    """An error if one of these files is read, or must not be replaced."""
    from ..io.paths import refuse_existing

    for path in paths:
        if path.resolve() in read:
            raise typer.BadParameter(
                f"{path} is an input, and the page {page} would replace it: give the page another name, such as "
                f"{page.with_stem(page.stem + '_page')}."
            )
        if path.is_dir() or not overwrite:
            refuse_existing(path, "--overwrite" if not path.is_dir() else "move the folder")


def _predict(model: str, source: str, output: Path, **options: Any) -> Path:
    """
    Predict a file of texts, into wide columns where the model has them; the file with the predictions. Its name, which begins as `output`,
    tells its source, model and options: what an interrupted command has predicted serves the next one.
    """
    from ..inference import load_predictor
    from ..io.paths import as_path, filesystem
    from ..runtime.ready import for_prediction
    from ..serving.bulk import predict_file
    from .printing import quiet

    quiet()
    predictor: Any = load_predictor(for_prediction(model))
    layout: Any = "joined" if predictor.wide_labels is None else "wide"
    files, inner = filesystem(as_path(source))
    job = [files.ukey(inner), predictor.fingerprint(), options]
    key = hashlib.sha256(json.dumps(job).encode()).hexdigest()[:16]
    output = output.with_name(f"{output.name}-{key}.parquet")
    if not output.exists() or Path(f"{output}.parts").exists():
        predict_file(predictor, source, output, layout=layout, as_texts=True, **options)
    return output


def _write(summary: "Summary", outputs: list[Path], predicted: dict[Path, Path], escaped: bool) -> None:
    """Write page, CSV and JSON, and give the predictions their name, once all are made: either all of them appear, or none."""
    from ..io.files import as_text, replacing, write_csv, write_json, write_text

    def cell(value: Any) -> Any:
        return as_text(value) if escaped and isinstance(value, str) else "" if value != value else value

    with ExitStack() as made:
        page, table, values = (made.enter_context(replacing(path)) for path in outputs)
        write_csv(table, list(summary.shares[0]), [map(cell, one.values()) for one in summary.shares])
        write_json(values, summary.to_dict())
        write_text(page, summary.to_html())
        for part, kept in predicted.items():
            os.replace(part, kept)


def _write_thresholds(summary: "Summary", path: Path) -> None:
    from ..io.files import write_json

    thresholds = summary.checked and summary.checked["thresholds"]
    if not thresholds:
        raise ValueError(
            "thresholds are tuned on probabilities (predict with --columns wide), for labels that at least 5 labelled rows have."
        )
    write_json(path, thresholds)
    say(f"thresholds of {len(thresholds)} labels, the others keep the model's: {path}")


def _show(summary: "Summary") -> None:
    """The largest shares, over all periods first, and the clear differences."""
    plain, by = ["plain"] * summary.corrected, [("group", summary.by)] if summary.by else []
    tables: list[tuple[Any, Any]] = [(summary.largest, [*by, ("period", summary.every)] if summary.time else by)]
    if summary.time:
        tables.insert(0, (summary.together, by))
    if summary.checked and by:
        tables.insert(0, (summary.over_groups, []))
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
    if summary.checked:
        print(f"The model on the {summary.checked['rows']} labelled rows:")
        print_table(["label", "with it", "precision", "recall", "F1"], summary.quality()[:SHOWN])
    if summary.complaints:
        print("The most complained about come first.")
    if summary.drift:
        _show_drift(summary)
    if summary.endings:
        print("Dialogues that end worse than they began, and better:")
        print_table(["speaker", "worse", "95 % interval", "better", "95 % interval", "dialogues"], summary.ended)
        if worst := summary.endings["worst"]:
            say("worst: " + ", ".join(f"{name} ({change:+.2f})" for name, change in worst))
    for sentence in [*summary.changed[:8], *summary.apart[:8]]:
        say(sentence)
    if summary.changes_tested:
        say(f"changes: {summary.changes_tested}" + ("" if summary.changes else " There is none at 5 %."))
    if summary.differences:
        say(f"tested: {summary.tested}" + ("" if summary.clear else f" {summary.nothing_clear}"))


def _show_drift(summary: "Summary") -> None:
    """Each label then and now, the largest difference first."""
    from ..reports.summary.wording import bare_p

    drift: Any = summary.drift
    shares = drift["shares"]
    print(
        f"Against the {drift['reference_rows']:,} texts of the reference{', plain counts' * (summary.method != 'mean')}:"
    )
    cells = [
        [
            *(one["label"], summary.shown(one["before"]), summary.shown(one["share"])),
            *(summary.shown(one["difference"], "+"), summary.interval(one, "+"), bare_p(one["p_holm"])),
            f"{drift['stability'][one['label']]:.3f}",
        ]
        for one in shares[:SHOWN]
    ]
    print_table(["label", "reference", "now", "difference", "95 % interval", "p (Holm)", "stability index"], cells)
