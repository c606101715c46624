# SPDX-License-Identifier: Apache-2.0
"""Summaries with labelled rows: a model that errs, and tables that people filled in."""

import json

import numpy as np
import pandas as pd
import pytest
from toolkit_helpers import invoke

from hf_emotion import summarize


@pytest.fixture(scope="module")
def world() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """The predictions of 1,000 comments, joy given to twice as many as have it; the truth; and 240 rows, of each shop 60, labelled."""
    generator = np.random.default_rng(0)
    shop = generator.choice(["a", "b", "c", "d"], 1000, p=[0.1, 0.2, 0.3, 0.4])
    share = pd.Series(shop).map({"a": 0.5, "b": 0.2, "c": 0.1, "d": 0.05}).to_numpy()
    joy, fear = generator.random(1000) < share, generator.random(1000) < 0.1
    scores = {"joy": 0.4 * joy + generator.beta(3, 5, 1000) / 1.7, "fear": 0.6 * fear + generator.beta(2, 8, 1000) / 3}
    table = pd.DataFrame({"comment": [f"comment number {i}" for i in range(1000)], "shop": shop})
    table["day"] = (
        pd.Series(pd.date_range("2026-11-02", periods=28))
        .sample(1000, replace=True, random_state=0)
        .dt.date.astype(str)
        .tolist()
    )
    predicted = table.assign(**{f"probability_{name}": own for name, own in scores.items()}, truncated=False)
    predicted = predicted.assign(decision_joy=scores["joy"] > 0.3, decision_fear=scores["fear"] > 0.3)
    truth = table.assign(joy=joy, fear=fear)
    drawn = truth.groupby("shop").sample(60, random_state=0)
    labelled = drawn[["comment", "shop", "day"]].assign(
        row=drawn.index, weight=drawn.shop.map(truth.shop.value_counts()) / 60
    )
    names = ["|".join(["joy"] * j + ["Fear "] * f) or "none" for j, f in zip(drawn.joy, drawn.fear, strict=True)]
    return predicted, truth, labelled.assign(label=names).sample(frac=1, random_state=0)


def test_intervals_hold_the_truth_where_the_plain_count_does_not(world):
    predicted, truth, labelled = world
    found = summarize(predicted, labelled=labelled, by="shop", time="day")
    assert found.method == "prediction-powered" and found.checked["rows"] == 240
    whole, off = {one["label"]: one for one in found.over_groups}, []
    assert abs(whole["joy"]["share"] - truth.joy.mean()) < 0.04 < abs(whole["joy"]["plain"] - truth.joy.mean())
    truth = truth.assign(week=pd.to_datetime(truth.day).dt.to_period("W").dt.start_time.dt.strftime("%Y-%m-%d"))
    for one in [*found.shares, *found.overall, *found.checked["shares"]]:
        own = truth[(truth.shop == (one["group"] or truth.shop)) & (truth.week == (one["period"] or truth.week))]
        assert one["rows"] == len(own) and one["low"] <= one["share"] <= one["high"]
        assert one["borrowed"] == (one["labelled"] < 30)
        off.append(one["low"] <= own[one["label"]].mean() <= one["high"])
    assert np.mean(off) > 0.93
    of_a = {one["label"]: one["share"] for one in found.overall if one["group"] == "a"}
    (apart,) = [one for one in found.differences if (one["first"], one["label"]) == ("a", "joy")]
    rest = truth[truth.shop != "a"].joy.mean()
    assert apart["low"] < of_a["joy"] - rest < apart["high"] and apart["p_holm"] < 0.001
    assert [one["first"] for one in found.clear][0] == "a"
    assert any(note.startswith("* Fewer than 30 labelled rows") for note in found.notes)


def test_quality_by_hand():
    predicted = pd.DataFrame({"probability_joy": [0.9] * 6 + [0.1] * 6, "decision_joy": [True] * 6 + [False] * 6})
    weights = [1] * 9 + [4] * 3
    labelled = pd.DataFrame(
        {"row": range(12), "weight": weights, "label:joy": [1, 1, 1, 1, 0, "?", 0, 0, 0, 0, 1, ""]}
    )
    checked = summarize(predicted, labelled=labelled).checked
    (joy,) = checked["quality"]
    assert checked["rows"] == 10 and checked["left"] == 2
    # of the stratum of weight 1 eight of nine rows are labelled, of that of weight 4 two of three
    one, four = 9 / 8, 4 * 3 / 2
    assert joy["precision"] == pytest.approx(4 / 5) and joy["recall"] == pytest.approx(4 * one / (4 * one + four))
    assert joy["f1"] == pytest.approx(2 * 4 * one / (9 * one + four))
    assert joy["recall_low"] < 0.2 and joy["precision_high"] > 0.97


def test_drawn_rows_that_the_summary_leaves_out_stand_for_nothing():
    """Joy in each of the 100 rows of shop a and in none of the 300 of shop b; 90 rows of a have no time. The model tells nothing."""
    shop = ["a"] * 100 + ["b"] * 300
    frame = pd.DataFrame({"shop": shop, "probability_joy": 0.5, "decision_joy": False})
    frame["day"] = ["2026-11-02"] * 10 + ["soon"] * 90 + ["2026-11-02"] * 300
    drawn = [*range(5), *range(10, 55), *range(100, 150)]
    labelled = pd.DataFrame({"row": drawn, "weight": [2] * 50 + [6] * 50, "label:joy": [1] * 50 + [0] * 50})
    found = summarize(frame, labelled=labelled, time="day", on_bad_rows="skip")
    (joy,) = [one for one in found.checked["shares"] if not one["period"]]
    assert joy["share"] == pytest.approx(10 / 310) and found.checked["left"] == 0


def test_a_table_of_texts_in_another_encoding(world, tmp_path):
    """What `sample` and `label` write is UTF-8 with a byte order mark."""
    predicted, _, labelled = (table.assign(comment="Größe " + table.comment) for table in world)
    predicted.to_csv(tmp_path / "in.csv", index=False, encoding="cp1252")
    labelled[["row", *labelled.columns.drop("row")]].to_csv(tmp_path / "lab.csv", index=False, encoding="utf-8-sig")
    found = summarize(tmp_path / "in.csv", labelled=tmp_path / "lab.csv", encoding="cp1252")
    assert found.shares == summarize(predicted, labelled=labelled).shares


def test_what_does_not_fit_is_refused(world):
    predicted, _, labelled = world
    for wrong, message in (
        (labelled.assign(row=labelled["row"].to_numpy()[::-1]), "texts differ, first in row"),
        (labelled.assign(row=labelled["row"] + 1000), "whole numbers from 0 to 999"),
        (labelled.drop(columns="row"), "`hf-emotion sample` makes"),
        (labelled.assign(label="jy"), "row 1: 'jy' is not a label. Did you mean 'joy'"),
        (labelled.assign(label=""), "no row is labelled"),
        (labelled.assign(weight=0), "above 0"),
        (labelled.drop(columns="label").assign(**{"label:anger": 1}), "no label 'anger'"),
    ):
        with pytest.raises(ValueError, match=message):
            summarize(predicted, labelled=wrong)
    with pytest.raises(ValueError, match="nobody was asked for the labels .'fear'."):
        summarize(predicted, labelled=labelled.drop(columns="label").assign(**{"label:joy": 1}), labels=["fear"])


def test_command_writes_estimates_and_thresholds(world, tmp_path):
    predicted, truth, labelled = world
    predicted.to_csv(tmp_path / "in.csv", index=False)
    labelled.to_csv(tmp_path / "labelled.csv", index=False)
    arguments = ["summarize", tmp_path / "in.csv", "--labelled", tmp_path / "labelled.csv", "--by", "shop"]
    printed = invoke(*arguments, "--write-thresholds", tmp_path / "best.json", "-o", tmp_path / "out.html")
    assert "thresholds of 2 labels" in printed
    written = json.loads((tmp_path / "out.json").read_text())
    assert {one["group"] for one in written["shares"]} == set("abcd")
    assert written["checked"]["widths"]["joy"]["100"] > written["checked"]["widths"]["joy"]["400"]
    assert "240 labelled rows</h2>" in (tmp_path / "out.html").read_text()
    answer = invoke(
        "predict", "goemotions", "I am so happy", "--thresholds", tmp_path / "best.json", "--threshold", "joy=0.999"
    )
    assert "joy" not in answer
    shown = invoke(*arguments)
    assert "The model on the 240 labelled rows" in shown and "prediction-powered" in shown
    assert json.loads((tmp_path / "best.json").read_text())["joy"] > 0.3
