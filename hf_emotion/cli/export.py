# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion export`."""

import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer

from .options import Checkpoint, DataDir, LoaderOption, Split
from .printing import print_json, print_table, quiet, say
from .reading import read_options


def export(
    checkpoint: Checkpoint,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="New folder; default: CHECKPOINT-onnx.")
    ] = None,
    quantize: Annotated[
        Literal["int8", "uint8"] | None,
        typer.Option(
            help="8-bit weights. int8 is for processors with VNNI and for ARM; uint8 is slower, but accurate on all."
        ),
    ] = None,
    web: Annotated[
        Path | None, typer.Option(help="Instead, write a page that runs the model in the browser: a new folder.")
    ] = None,
    vendor: Annotated[
        Path | None,
        typer.Option(help="With --web: a node_modules folder to copy the npm packages from, in place of a CDN."),
    ] = None,
    escape_formulas: Annotated[
        bool,
        typer.Option(
            "--escape-formulas", help="With --web: put an apostrophe before cells of its CSV that look like formulas."
        ),
    ] = False,
    texts: Annotated[
        Path | None,
        typer.Option(
            help="Texts to compare with torch, one per line; an empty line ends a dialogue. Default: those of a corpus."
        ),
    ] = None,
    dataset: Annotated[str | None, typer.Option(help="Corpus to compare on; with --quantize also to measure.")] = None,
    split: Split = "test",
    data_dir: DataDir = None,
    option: LoaderOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Write a model as ONNX, compared with torch. `predict` and `evaluate` read the folder; for a reply model, `generate` does."""
    quiet()
    from ..publishing.export import export_onnx, read_texts

    own_texts = None if texts is None else read_texts(texts, checkpoint)
    if web is not None:
        if output is not None or quantize is not None or split != "test":
            raise typer.BadParameter("--web does not go with --output, --quantize or --split.")
        from ..publishing.browser import export_web

        done = export_web(
            checkpoint,
            web,
            vendor,
            own_texts,
            dataset,
            data_dir,
            read_options(option),
            escape_formulas=escape_formulas,
        )
        if as_json:
            print_json(done)
            return
        rows = [[name, f"{100 * share:.2f} %"] for name, share in done["agreement"].items()]
        print_table(["weights", f"same labels ({done['texts']} texts)"], rows)
        on_disk = sum(count for name, count in done["files"].items() if name.startswith("file/"))
        size = sum(done["files"].values()) - on_disk
        say(f"{done['storage']}: {size / 1e6:.1f} MB for a web server")
        if vendor is None:
            say(f"\npython -m http.server -d {shlex.quote(str(web))}")
        else:
            say(
                f"file/: {on_disk / 1e6:.1f} MB more, only for opening the page from a disk\n\nopen {web / 'index.html'}"
            )
        return
    if vendor is not None or escape_formulas:
        raise typer.BadParameter("--vendor and --escape-formulas go with --web.")
    name = checkpoint.rstrip("/") if Path(checkpoint).is_dir() else checkpoint.split("/")[-1]
    output = output or Path(f"{name}-onnx")
    report = export_onnx(checkpoint, output, quantize, own_texts, dataset, split, data_dir, read_options(option))
    if as_json:
        print_json(report)
        return
    rows = [
        [kind, *(str(values[name]) for name in ("texts", "rows", "labels")), f"{values['max_logit_difference']:.2g}"]
        + [
            str(values["other_decisions"]),
            f"{values['max_score_change']:.2g}" if "max_score_change" in values else "—",
        ]
        for kind, values in ((kind, report[kind]) for kind in ("float32", quantize) if kind in report)
    ]
    header = [
        "weights",
        "texts",
        "rows",
        "logits per row",
        "largest difference",
        "other decisions",
        "change by neighbours",
    ]
    print_table(header, rows)
    if quantize is not None and "metrics" in report:
        rows = [
            [name, f"{values['torch']:.4f}", f"{values[quantize]:.4f}", f"{values[quantize] - values['torch']:+.4f}"]
            for name, values in report["metrics"].items()
        ]
        print_table([f"{dataset} {split}", "torch", quantize, "change"], rows)
    if speed := report.get("speed"):
        low, high = speed["quartiles"]
        print(
            f"{speed['times_as_fast_as_torch']:.2f} times as fast as torch (quartiles {low:.2f} and {high:.2f}), "
            f"threads: {speed['threads']}"
        )
    else:
        print("speed: not measured, too few texts")
    say(f"\nexported to {output}")
