# SPDX-License-Identifier: Apache-2.0
"""
How well shares of labels fit, by four methods: error, coverage and width of the 95 % interval, with n labelled rows.

    python -m benchmarks.labelled_shares --data-dir DATA --output benchmarks/labelled_shares.json

The rows of a part of a corpus are the table whose shares are asked for: validation parts, and BRIGHTER's English training part, on which
`goemotions` did not train. (The settings of the method were chosen by such draws from the test parts.) The labels are those that the
corpus and `goemotions` both name. Each row lies in one of four groups, drawn once so that a label multiplies the odds of each group by
e^(0.7 z), z normal: their shares differ. In each of 200 draws n rows, equally many of each group, are labelled with the corpus's own
labels, as `hf-emotion sample --by` draws them.

plain: classify and count. model: what `summarize --model` shows. labelled: the labelled rows alone, with Wilson's interval. powered: what
`summarize --labelled` shows, from probabilities; powered_decisions: the same from decisions alone.
"""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from hf_emotion.cli.options import DataDir
from hf_emotion.data.splits import label_names
from hf_emotion.inference import load_predictor
from hf_emotion.io.files import write_json
from hf_emotion.metrics.prediction_powered import PredictionPowered
from hf_emotion.metrics.quantification import Observed, ValidationCounts, estimates, interval
from hf_emotion.reports.summary.counting import validation_counts
from hf_emotion.tasks.loading import load_split
from hf_emotion.tasks.rows import gold_of


MODEL = "goemotions"
CORPORA: dict[str, tuple[str, dict[str, Any]]] = {
    "goemotions": ("validation", {}),
    "everyday": ("validation", {}),
    "brighter": ("train", {"languages": ["eng"]}),
    "emotion6": ("validation", {}),
}
LABELLED, DRAWS, GROUPS, TILT, MOST = (50, 100, 200, 400), 200, 4, 0.7, 0.7
Found = tuple[np.ndarray, np.ndarray, np.ndarray]


def predictions(name: str, data_dir: Path | None) -> dict[str, Any]:
    """Names of the shared labels, gold labels (N, L), and probabilities and decisions (N, C) of the model's C labels."""
    part, options = CORPORA[name]
    predictor, rows = load_predictor(MODEL), load_split(name, part, data_dir, **options)
    names, found = label_names(rows), {"all_labels": predictor.labels}
    found["labels"] = [label for label in predictor.labels if label in names]
    found["gold"] = gold_of(rows).has(len(names))[:, [names.index(label) for label in found["labels"]]]
    found["probabilities"] = predictor.label_probabilities(list(rows["text"]), progress=True)
    return found | {"decisions": predictor.decide(found["probabilities"])}


def wilson(share: np.ndarray, rows: np.ndarray | float) -> Found:
    z = 1.959964
    middle, half = share + z * z / (2 * rows), z * np.sqrt(share * (1 - share) / rows + z * z / (4 * rows**2))
    return share, (middle - half) / (1 + z * z / rows), (middle + half) / (1 + z * z / rows)


def in_groups(gold: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """(N,) the group of each row."""
    odds = np.exp(gold @ generator.normal(0, TILT, (gold.shape[1], GROUPS)))
    chances = (odds / odds.sum(axis=1, keepdims=True)).cumsum(axis=1)
    return (chances[:, :-1] < generator.random((len(gold), 1))).sum(axis=1)


def figures(found: Found, truth: np.ndarray) -> dict[str, np.ndarray]:
    """Of each label (means over groups)."""
    share, low, high = found
    inside = (low <= truth + 1e-9) & (truth <= high + 1e-9)
    each = {"error": abs(share - truth), "coverage": inside, "width": high - low}
    return {name: values.mean(axis=0) for name, values in each.items()}


def over_draws(draws: list[dict[str, np.ndarray]]) -> dict[str, float]:
    """Means over draws and labels; "least": the coverage of the label that is covered least."""
    means = {name: np.mean([draw[name] for draw in draws], axis=0) for name in draws[0]}
    return {name: float(np.mean(values)) for name, values in means.items()} | {"least": float(min(means["coverage"]))}


def measure(kept: dict[str, Any], counts: ValidationCounts) -> dict[str, Any]:
    names, generator = list(kept["all_labels"]), np.random.default_rng(0)
    own, order, columns = (
        [list(where).index(label) for label in of]
        for where, of in ((names, kept["labels"]), (names, counts.labels), (counts.labels, kept["labels"]))
    )
    gold, scores, chosen = kept["gold"].astype(float), kept["probabilities"].astype(float), kept["decisions"]
    groups = in_groups(gold, generator)
    members = [np.flatnonzero(groups == group) for group in range(GROUPS)]
    tables = [np.arange(len(gold)), *members]
    truth = np.array([gold[table].mean(axis=0) for table in tables])

    def observed(table: np.ndarray, labels: list[int], values: np.ndarray) -> Observed:
        p = values[table][:, labels]
        return Observed(len(p), chosen[table][:, labels].sum(axis=0), p.sum(axis=0), (p**2).sum(axis=0))

    def counted(method: str) -> Found:
        seen = (observed(table, order, scores) for table in tables)
        samples = [estimates(one, counts, method, i)[:, columns] for i, one in enumerate(seen)]
        ends = zip(*map(interval, samples), strict=True)
        return tuple(map(np.array, ([one[0] for one in samples], *ends)))

    fixed = {"plain": counted("plain"), "model": counted("probabilistic")}
    result: dict[str, Any] = {}
    for rows in (rows for rows in LABELLED if rows <= MOST * len(gold)):
        found: dict[str, dict[str, list]] = {"whole": {}, "groups": {}}
        for _ in range(DRAWS):
            counts_of = [min(-(-rows // GROUPS), len(member)) for member in members]
            drawn = [generator.choice(m, k, replace=False) for m, k in zip(members, counts_of, strict=True)]
            picked, place = np.concatenate(drawn), np.repeat(np.arange(GROUPS), counts_of)
            weights = np.repeat([len(m) / k for m, k in zip(members, counts_of, strict=True)], counts_of)
            shares = weights / weights.sum()
            alone = np.array([shares @ gold[picked], *(gold[some].mean(axis=0) for some in drawn)])
            sizes = np.array([[1 / (shares @ shares)], *([k] for k in counts_of)])
            methods = {**fixed, "labelled": wilson(alone, sizes)}
            for name, values in (("powered", scores), ("powered_decisions", chosen)):
                seen = [observed(table, own, values) for table in tables]
                power = PredictionPowered(gold[picked], values[picked][:, own].astype(float), weights, place, seen[0])
                both = (power.whole, power.of(seen[1:], place, power.whole))
                ends = ("share", "low", "high")
                methods[name] = tuple(np.vstack([getattr(one, end) for one in both]) for end in ends)
            for name, estimated in methods.items():
                for part, which in (("whole", slice(0, 1)), ("groups", slice(1, None))):
                    cut = tuple(values[which] for values in estimated)
                    found[part].setdefault(name, []).append(figures(cut, truth[which]))
        result[str(rows)] = {part: {name: over_draws(of) for name, of in one.items()} for part, one in found.items()}
    facts = {"rows": len(gold), "labels": len(own), "share": float(truth[0].mean())}
    return facts | {"spread": float(truth[1:].std(axis=0).mean()), "labelled": result}


def main(
    output: Annotated[Path, typer.Option("--output", "-o")] = Path("benchmarks/labelled_shares.json"),
    data_dir: DataDir = None,
) -> None:
    """Measure all corpora."""
    counts = validation_counts(MODEL)
    assert counts is not None
    write_json(output, {name: measure(predictions(name, data_dir), counts) for name in CORPORA})


if __name__ == "__main__":
    typer.run(main)
