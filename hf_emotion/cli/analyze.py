# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion analyze`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .options import AsJson
from .printing import figure_or_dash, print_json, print_table, quiet, say


if TYPE_CHECKING:
    from ..reports.analyze import Analysis, Background, Pair


def analyze(
    runs: Annotated[list[Path], typer.Argument(help="A run folder, or two over the same rows: baseline and run.")],
    split: Annotated[
        Literal["validation", "test"] | None, typer.Option(help="Default: test, if there is one.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of the corpora; default: $HF_EMOTION_DATA.")] = None,
    abstain: Annotated[
        str | None,
        typer.Option(
            metavar="coverage=X|accuracy=X|off",
            help='Store a rule in config.json: answer this share of the texts, or as many as this accuracy allows; the others get "abstained".',
        ),
    ] = None,
    prediction_sets: Annotated[
        str | None,
        typer.Option(
            metavar="COVERAGE|off",
            help="Store a rule in config.json: give sets of labels that hold all gold labels of this share of the texts.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write confusions, calibration and errors of a run into its report.html; for two runs, the rows that only one gets right."""
    if len(runs) > 2 or (len(runs) == 2 and (abstain or prediction_sets)):
        raise typer.BadParameter("give one run, or two without --abstain and --prediction-sets; `compare` takes more.")
    quiet()
    from ..reports.analyze import analyze as run_one
    from ..reports.analyze import analyze_pair

    if len(runs) == 2:
        pair = analyze_pair(runs[0], runs[1], split, data_dir)
        print_json(pair) if as_json else _print_pair(pair)
        return
    rules = _wanted("--abstain", abstain, True), _wanted("--prediction-sets", prediction_sets, False)
    result = run_one(runs[0], split, data_dir, *rules)
    if as_json:
        print_json(result)
        return
    if "confusions" in result:
        _print_analysis(result)
    for what, why in result["left_out"].items():
        say(f"left out, {what}: {why}")
    say(f"\nreport: {runs[0] / 'report.html'}")


def _wanted(option: str, text: str | None, named: bool) -> Any:
    """The value of an option as `analyze` takes it: "off", a number, or {name: number}."""
    if text is None or text == "off":
        return text
    name, _, number = text.partition("=") if named else ("", "", text)
    try:
        return {name: float(number)} if named else float(number)
    except ValueError:
        raise typer.BadParameter(f"{option} needs a number or off, as its help shows; got {text!r}.") from None


def _print_analysis(result: "Analysis") -> None:
    from ..metrics.significance import mean_std

    of = f"{result['dataset']} {result['split']}"
    pairs = result["confusions"][:10]
    seeds = any(pair["std"] is not None for pair in pairs)  # rows of the best seed, in the order of the mean
    header = [f"{of}: gold", "predicted", "rows"]
    rows = [[pair["gold"], pair["predicted"], str(pair["rows"])] for pair in pairs]
    if seeds:
        header.append("mean ± std over the seeds")
        for row, pair in zip(rows, pairs, strict=True):
            row.append(mean_std({"mean": pair["mean"], "std": pair["std"]}, 1))
    print_table(header, rows)
    print(f"rows with one label right (top 1): {mean_std(result['top1_accuracy'])}")
    if result["rows"]["with several gold labels"]:
        print(f"rows with several labels right (all in the top 3): {mean_std(result['top3_accuracy'])}")
    _print_background([("", result["background"])])
    if calibration := result["calibration"]:
        say(
            f"expected calibration error: {mean_std(calibration['before']['ece_over_seeds'])}, at temperature "
            f"{calibration['temperature']:.3f} {mean_std(calibration['after']['ece_over_seeds'])}"
        )
        if calibration["note"]:
            print(calibration["note"])
    _print_selective(result)


def _print_selective(result: "Analysis") -> None:
    from ..metrics.significance import mean_std

    found = result["selective"]
    print(f"AURC {mean_std(found['aurc'])}, E-AURC {mean_std(found['e_aurc'])} (risk: {found['loss']})")
    for row in found["abstention"] or ():
        say(f"abstention, wanted {row['wanted']:g}: answers {mean_std(row['coverage'])}, risk {mean_std(row['risk'])}")
    for row in found["prediction_sets"] or ():
        say(
            f"prediction sets, wanted {row['wanted']:g}: {mean_std(row['coverage'])}, labels in a set {mean_std(row['size'])}"
        )
    for rule, fields in result.get("kept", {}).items():
        print(f"kept in config.json: {rule} {fields}")


def _print_background(runs: "list[tuple[str, dict[str, dict[str, Background]]]]") -> None:
    for run, background in runs:
        for name, kinds in background.items():
            parts = []
            for kind, label in (("to_other", f"{name} → other"), ("from_other", f"other → {name}")):
                found, share = kinds[kind], kinds[kind]["share"]
                whose = "" if share["std"] is None else "best seed; mean of all "
                percent = figure_or_dash(100 * (share["mean"] or 0), ".1f")
                parts.append(f"{label}: {found['rows']} of {found['of']} ({whose}{percent} %)")
            say(f"{run}{', '.join(parts)}")


def _print_pair(result: "Pair") -> None:
    names = result["second"], result["first"]
    for right, wrong, found in ((*names, result["only_second"]), (*names[::-1], result["only_first"])):
        pairs = [[pair["gold"], pair["predicted"], str(pair["rows"])] for pair in found["pairs"][:10]]
        print(f"right only in {right}: {found['rows']} rows, {found['several_labels']} of them with several labels")
        if pairs:
            print_table(["gold", f"{wrong} predicted", "rows"], pairs)
    test = result["mcnemar"]
    say(
        f"{result['rows']} rows; right in only one run: {test['only_second']} vs {test['only_first']}, McNemar p = "
        f"{test['p_value']:.3g}"
    )
    _print_background([(f"{name}: ", found) for name, found in zip(names[::-1], result["background"], strict=True)])
    for what, why in result["left_out"].items():
        say(f"left out, {what}: {why}")
    say(f"\nreport: {result['page']}")
