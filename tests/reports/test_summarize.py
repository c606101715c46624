# SPDX-License-Identifier: Apache-2.0
"""Summaries of predictions: counts by hand, groups, time, drift, wrong input, and the page."""

import json
from unittest.mock import MagicMock

import numpy as np
import pandas as pd
import pytest
from html_page import Page
from huggingface_hub.errors import RemoteEntryNotFoundError
from scipy.stats import beta
from toolkit_helpers import ROOT, drawn_pictures, invoke, write_jsonl
from typer.testing import CliRunner

from hf_emotion import summarize
from hf_emotion.cli import app
from hf_emotion.metrics.quantification import ValidationCounts
from hf_emotion.reports.summary import Summary, counting


def wide(joy: list[float], fear: list[float], **columns) -> pd.DataFrame:
    scores = {"probability_joy": joy, "probability_fear": fear}
    decisions = {name.replace("probability", "decision"): np.array(values) > 0.5 for name, values in scores.items()}
    return pd.DataFrame({**columns, **scores, **decisions})


def joined(labels: list, **columns) -> pd.DataFrame:
    return pd.DataFrame({"predicted_labels": labels, "truncated": "false", **columns})


@pytest.fixture
def counts(monkeypatch) -> ValidationCounts:
    """A model that finds joy in 3 of 4 rows with it and in 1 of 6 without it; it always finds fear."""
    gold = np.array([[1, 0]] * 4 + [[0, 1]] * 6)
    probabilities = np.array([[0.9, 0.2]] * 3 + [[0.1, 0.2]] + [[0.7, 0.8]] + [[0.3, 0.8]] * 5)
    found = ValidationCounts.of(gold, probabilities, ["joy", "fear"], [0.5, 0.5])
    monkeypatch.setattr(counting, "validation_counts", lambda model: None if model is None else found)
    return found


FRAME = wide([0.9] * 40 + [0.2] * 60, [0.8] * 50 + [0.2] * 50, text=[f"text {i}" for i in range(100)])
FRAME.insert(1, "who", ["a"] * 50 + ["b"] * 50)


class TestShares:
    def test_counted_and_corrected(self, counts):
        found = summarize(FRAME, "model").to_frame().set_index("label")
        assert found.loc["joy", ["rows", "chosen", "plain"]].tolist() == [100, 40, 0.4]
        assert found.loc["joy", "adjusted"] == pytest.approx(0.4)  # (0.4 - 1/6) / (3/4 - 1/6)
        mean = 0.4 * 0.9 + 0.6 * 0.2
        without, having = (0.7 + 5 * 0.3) / 6, (3 * 0.9 + 0.1) / 4
        assert found.loc["joy", "share"] == found.loc["joy", "probabilistic"]
        assert found.loc["joy", "share"] == pytest.approx((mean - without) / (having - without))
        assert found.loc["fear", "adjusted"] == pytest.approx(0.5)

    def test_says_what_a_correction_assumes(self, counts):
        """With the figures of the record."""
        record = json.loads((ROOT / "benchmarks/labelled_shares.json").read_text())["everyday"]["labelled"]["100"][
            "whole"
        ]
        (note,) = [note for note in summarize(FRAME, "model").notes if "assumes" in note]
        off = [f"{record[method]['error']:.3f}" for method in ("model", "plain")]
        assert off[0] > off[1] and f"off by {off[0]}, the plain one by {off[1]}" in note
        (plain,) = [note for note in summarize(FRAME).notes if note.startswith("The shares are plain")]
        assert all("hf-emotion sample" in one and "--labelled" in one for one in (note, plain))

    def test_all_forms_of_a_file_say_the_same(self, counts, tmp_path):
        decisions = zip(FRAME.decision_joy, FRAME.decision_fear, strict=True)
        lists = [["joy"] * joy + ["fear"] * fear for joy, fear in decisions]
        listed = joined(lists)
        FRAME.to_csv(tmp_path / "wide.csv", index=False)
        FRAME.to_parquet(tmp_path / "wide.parquet")
        listed.assign(predicted_labels=["|".join(own) for own in lists]).to_csv(tmp_path / "joined.csv", index=False)
        listed.to_parquet(tmp_path / "lists.parquet")
        listed.to_json(tmp_path / "lists.jsonl", orient="records", lines=True)
        for path in tmp_path.iterdir():
            found = summarize(path, "model")
            chosen = {one["label"]: (one["chosen"], round(one["adjusted"], 6)) for one in found.shares}
            assert found.rows == 100 and chosen == {"joy": (40, 0.4), "fear": (50, 0.5)}, path

    def test_rows_without_a_prediction_do_not_count(self):
        values = {"predicted_labels": ["joy", None, ""], "truncated": ["false", "", "false"]}
        found = summarize(pd.DataFrame({**values, "predicted_language": ["es", None, ""]}))
        assert (found.rows, found.skipped, found.shares[0]["plain"]) == (2, 1, 0.5)
        assert "texts left out: 1, the first in row 2, because they have no prediction." in found.notes
        assert "1 of 2 texts are probably in a language that the model does not read (es)" in " ".join(found.notes)

    def test_aspects_become_labels_with_their_sentiment(self):
        frame = pd.DataFrame({"decision_food": ["positive", "none", "negative"], "probability_food": [0.9, 0.8, 0.7]})
        found = {one["label"]: one["chosen"] for one in summarize(frame).shares}
        assert found == {"food/positive": 1, "food/negative": 1}

    def test_decisions_alone(self):
        found = summarize(FRAME[["decision_joy", "decision_fear"]])
        assert {one["label"]: one["chosen"] for one in found.shares} == {"joy": 40, "fear": 50} and not found.typical

    @pytest.mark.parametrize("both", [("WAHR", "FALSCH"), (1, 0), ("1.0", "0.0"), ("Oui", "Non"), (True, False)])
    @pytest.mark.parametrize("kind", [object, "category"])
    def test_decisions_as_others_write_them(self, counts, both, kind):
        spelled = FRAME.astype({"decision_joy": object, "decision_fear": object})
        spelled = spelled.replace({"decision_joy": dict(zip((True, False), both, strict=True))})
        spelled["decision_fear"] = [both[not one] for one in FRAME.decision_fear]
        spelled.loc[100] = None  # a row without a prediction
        found = summarize(spelled.astype({"decision_joy": kind, "decision_fear": kind}), "model")
        assert found.shares == summarize(FRAME, "model").shares and found.skipped == 1

    def test_nullable_decisions(self, counts, tmp_path):
        frame = FRAME.reindex(range(101)).convert_dtypes()
        assert str(frame.decision_joy.dtype) == "boolean"
        frame.to_parquet(tmp_path / "in.parquet")
        for data in (frame, tmp_path / "in.parquet"):
            assert summarize(data, "model").shares == summarize(FRAME, "model").shares

    def test_labels_may_hold_separators(self, tmp_path):
        lists = [["joy|mixed"], ["joy|mixed", "fear;x"], ["fear;x"], []]
        joined(lists).to_parquet(tmp_path / "in.parquet")
        joined(lists).to_json(tmp_path / "in.jsonl", orient="records", lines=True)
        wide([0.9, 0.9, 0.1, 0.1], [0.1, 0.9, 0.9, 0.1], truncated=[False] * 4).rename(
            columns=lambda name: name.replace("joy", "joy|mixed|more|yet").replace("fear", "fear;x;y;z")
        ).to_csv(tmp_path / "in.csv", index=False)
        for data in (joined(lists), *sorted(tmp_path.iterdir())):
            found = {one["label"].partition("|more")[0].removesuffix(";y;z"): one for one in summarize(data).shares}
            assert {name: one["chosen"] for name, one in found.items()} == {"joy|mixed": 2, "fear;x": 2}

    def test_a_table_that_a_spreadsheet_saved_again(self, counts, tmp_path):
        german = {True: "WAHR", False: "FALSCH"}
        saved = FRAME.assign(größe="ä, ö; ü", truncated="FALSCH")
        saved = saved.assign(**{name: saved[name].map(german) for name in ("decision_joy", "decision_fear")})
        saved.to_csv(tmp_path / "in.csv", sep=";", decimal=",", encoding="cp1252", index=False)
        expected = summarize(FRAME, "model", by=["ä, ö; ü"] * 100).shares
        assert summarize(tmp_path / "in.csv", "model", by="größe", encoding="cp1252").shares == expected
        FRAME.to_csv(tmp_path / "other.csv", sep="^", index=False)
        arguments = ["summarize", tmp_path / "other.csv", "--separator", "^", "--model", "model", "--json"]
        (tmp_path / "model").mkdir()
        assert json.loads(invoke(*arguments))["shares"] == summarize(FRAME, "model").to_dict()["shares"]
        done = CliRunner().invoke(app, [*map(str, arguments[:2])])
        assert "--separator" in str(done.exception)
        with pytest.raises(ValueError, match="'joy' is not a number in row 2: 'x'"):
            summarize(FRAME.astype({"probability_joy": object}).assign(probability_joy=["0.5", "x"] * 50))

    def test_a_table_whose_columns_would_shift(self, tmp_path):
        path = tmp_path / "in.csv"
        header = "text,predicted_labels,predicted_scores,truncated\n"
        for rows, message in (
            ("good, fine,joy,0.9,False\n", "in.csv cannot be read .*more values.*: .*quote values"),
            (f"fine,joy,0.9,False\n{header}fine,joy,0.9,False\n", "in.csv: row 2 is the header once more"),
        ):
            path.write_text(header + rows)
            with pytest.raises(ValueError, match=message):
                summarize(path)
        path.write_text(f"{header}fine,joy,0.9,False,\n")  # as a program ends its lines with a comma
        assert [one["label"] for one in summarize(path).largest] == ["joy"]

    def test_terms_are_counted_with_their_sentiment(self):
        frame = joined(["positive", "negative", "positive", ""], predicted_terms=["Pizza", "pizza", "staff", ""])
        found = summarize(frame.assign(source_row=[1, 2, 2, 3], predicted_scores=[0.6, 0.7, 0.9, None]))
        counted = [(one["label"], one["chosen"]) for one in found.largest]  # the surer one of two comes first
        assert counted == [("pizza/negative", 1), ("staff/positive", 1), ("pizza/positive", 1)]
        assert (found.rows, found.skipped) == (3, 0)  # a text without a term counts, too

    def test_a_term_counts_once_for_each_text(self):
        """One customer who says it 400 times is one; two files that were joined have two texts of a number."""
        rows = [*[(1, "slow, slow", "service", "a")] * 400, (1, "slow, slow", "tea", "a"), (2, "slow", "service", "b")]
        rows += [(3, "hm", "", "b"), (1, "of another file", "service", "b")]
        number, text, terms, who = zip(*rows, strict=True)
        frame = joined(["negative" if term else "" for term in terms], predicted_terms=terms)
        frame = frame.assign(source_row=number, text=text, who=who).sample(frac=1, random_state=0)
        found = summarize(frame, by="who")
        counted = {(one["label"], one["group"]): (one["chosen"], one["rows"]) for one in found.shares}
        service, tea = "service/negative", "tea/negative"
        assert counted == {(service, "a"): (1, 1), (service, "b"): (2, 3), (tea, "a"): (1, 1), (tea, "b"): (0, 3)}
        assert found.rows == 4 and "4 texts" in found.to_html()
        with pytest.raises(ValueError, match="no column 'source_row'"):
            summarize(frame.drop(columns="source_row"))
        with pytest.raises(ValueError, match="no text has a label"):
            summarize(frame[frame["text"] == "hm"])

    def test_terms_that_name_nothing(self):
        """A price, and a comment in a language that the model does not read."""
        frame = joined(
            ["negative"] * 3, predicted_terms=["5 €", "staff", "Personal"], source_row=[1, 2, 3], text=["a", "b", "c"]
        )
        found = summarize(frame.assign(predicted_language=["", "", "de"]))
        assert (found.labels, found.rows) == (["staff/negative"], 2)
        assert any(note.startswith("texts left out: 1,") for note in found.notes)

    def test_own_groups_and_one_language(self, tmp_path):
        german = "Das ist wirklich eine Unverschämtheit, ich bin sehr wütend auf diesen Laden."
        table = wide(
            [0.9, 0.8, 0.1, 0.9], [0.9, 0.1, 0.1, 0.1], text=["I am here", "So it is", "We went home today", german]
        )
        table.to_csv(tmp_path / "in.csv", index=False)
        (tmp_path / "groups.yaml").write_text("strong: [joy, fear]\ncalm: [fear]\n")
        arguments = [
            "summarize",
            tmp_path / "in.csv",
            "--groups",
            tmp_path / "groups.yaml",
            "--language",
            "en",
            "--json",
        ]
        found = json.loads(invoke(*arguments))
        assert {one["label"]: (one["chosen"], one["rows"]) for one in found["shares"]} == {
            "strong": (2, 3),
            "calm": (1, 3),
        }
        assert any(note.startswith("texts left out: 1 of 4,") for note in found["notes"])
        with pytest.raises(ValueError, match="group 'a': no label 'joyy'. Did you mean 'joy'"):
            summarize(table, groups={"a": ["joyy"]})

    def test_complaints_come_first(self):
        food = ["positive", "positive", "positive", "negative"]
        frame = pd.DataFrame({"decision_food": food, "decision_room": ["negative", "negative", "none", "none"]})
        ordered = [one["label"] for one in summarize(frame).largest]
        assert ordered == ["room/negative", "food/negative", "food/positive"]
        assert summarize(frame, labels=["negative"]).labels == ["food/negative", "room/negative"]
        assert "most complained about" in summarize(frame).to_html()

    def test_means_of_values(self):
        drawn = np.random.default_rng(0).normal(1.5, 0.5, 200)
        frame = pd.DataFrame({"value_joy": drawn, "truncated": False, "who": ["a"] * 100 + ["b"] * 100})
        frame.loc[frame["who"] == "a", "value_joy"] += 1
        found = summarize(frame, by="who")
        rows = found.to_frame().set_index("group")
        for name, values in frame.groupby("who")["value_joy"]:
            error = values.std() / 10
            assert rows.loc[name, "mean"] == pytest.approx(values.mean())
            expected = values.mean() + np.array([-1.98, 1.98]) * error
            np.testing.assert_allclose(rows.loc[name, ["low", "high"]].astype(float), expected, atol=0.02)
        (one,) = found.differences
        assert abs(one["difference"]) > 0.8 and one["p_holm"] < 1e-10 and "z-test" in found.tested
        assert "mean value" in found.to_html() and "%" not in found.shown(one["low"])
        alone = summarize(frame.head(1)).shares[0]
        assert alone["low"] != alone["low"]  # one row says nothing of the deviation
        for among in ({"by": ["alone"] + ["others"] * 199}, {"reference": frame.head(1)}):
            found = summarize(frame, **among)
            (one,) = found.differences or found.drift["shares"]
            assert one["difference"] != 0 and one["p_holm"] == 1 and not found.clear and found.to_html()

    def test_scores_of_joined_files_are_read(self, counts):
        scores = ['{"joy": 0.9, "fear": 0.1}', '{"joy": 0.3, "fear": 0.2}']
        found = summarize(joined(["joy", ""], all_scores=scores), "model")
        assert found.method == "probabilistic" and found.labels == ["joy", "fear"]


class TestGroupsAndTime:
    def test_differences_by_hand(self, counts):
        found = summarize(FRAME, "model", by="who")
        joy, fear = sorted(found.differences, key=lambda one: one["p_value"], reverse=True)
        assert (joy["label"], fear["label"]) == ("joy", "fear")
        assert (joy["first"], joy["second"]) in (("a", "b"), ("b", "a"))
        # Fisher's exact test of 40 of 50 against 0 of 50: both tails of the hypergeometric distribution
        assert joy["p_value"] < 1e-15 and joy["p_holm"] / joy["p_value"] == pytest.approx(1)
        assert fear["p_holm"] / fear["p_value"] == pytest.approx(2)  # the smaller one of two
        assert "Fisher" in found.tested and "tests: 2" in found.tested
        sign = 1 if joy["first"] == "a" else -1
        assert sign * joy["low"] > 0 or sign * joy["high"] > 0

    def test_holm_never_decreases(self, counts):
        frame = FRAME.assign(who=np.tile(["a", "b", "c", "d"], 25))
        ordered = sorted(summarize(frame, "model", by="who").differences, key=lambda one: one["p_value"])
        adjusted = [one["p_holm"] for one in ordered]
        assert adjusted == sorted(adjusted) and max(adjusted) <= 1

    def test_each_group_stands_against_all_others(self, counts):
        frame = FRAME.assign(who=["a"] * 40 + ["b"] * 30 + ["c"] * 30)
        found = summarize(frame, "model", by="who", labels=["joy"])
        assert [(one["first"], one["second"]) for one in found.differences] == [(g, "all others") for g in "abc"]

    def test_periods(self):
        # Sunday, Monday, Sunday, Monday
        days = ["2026-11-01", "2026-11-02T09:00", "2026-11-08 23:59", "2026-11-09T00:00:00+00:00"]
        frame = wide([0.9, 0.9, 0.2, 0.2], [0.1] * 4, day=days)
        found, weeks = summarize(frame, time="day", labels=["joy"]), ["2026-10-26", "2026-11-02", "2026-11-09"]
        counted = {one["period"]: (one["rows"], one["chosen"]) for one in found.shares}
        assert counted == dict(zip(weeks, ((1, 1), (2, 1), (1, 0)), strict=True))
        assert [(one["first"], one["second"]) for one in found.differences] == [*zip(weeks[1:], weeks, strict=False)]
        (month,) = summarize(frame, time="day", every="month", labels=["joy"]).shares
        assert month["period"] == "2026-11-01"

    def test_shares_over_all_periods_come_first(self):
        days = ["2026-11-02"] * 40 + ["2026-11-09"] * 60
        found = summarize(FRAME, by="who", time=days, labels=["joy"])
        assert [(one["group"], one["rows"], one["chosen"]) for one in found.overall] == [("a", 50, 40), ("b", 50, 0)]
        ordered = [(one["group"], one["period"]) for one in found.largest]
        assert ordered == [("a", "2026-11-02"), ("a", "2026-11-09"), ("b", "2026-11-09")]
        assert "1 of 3 pairs of group and week have fewer than 30 texts" in " ".join(found.notes)
        page = found.to_html()
        assert page.index("Shares over all periods") < page.index("All shares")
        assert not (found := summarize(FRAME, by="who")).overall
        with drawn_pictures():
            assert ">a</text>" in found.to_html()

    def test_a_jump_of_one_group_leads(self, tmp_path):
        """13 % of anger in each week of four regions; in the West 35 % from week 9 on."""
        weeks, regions = np.repeat(np.arange(12), 160), np.tile(["North", "South", "East", "West"], 480)
        chosen = np.random.default_rng(0).random(1920) < np.where((regions == "West") & (weeks > 7), 0.35, 0.13)
        days = (pd.Timestamp("2026-08-31") + pd.to_timedelta(weeks * 7, "D")).strftime("%Y-%m-%d")
        table = joined(np.where(chosen, "anger", ""), region=regions, day=days)
        found = summarize(table, by="region", time="day")
        (one,) = found.changes
        assert (one["group"], one["start"], one["lasts"], one["rows"]) == ("West", "2026-10-26", True, 160)
        west = pd.Series(chosen)[regions == "West"]
        late = weeks[regions == "West"] > 7
        assert one["share"] == pytest.approx(west[late].mean()) and one["before"] == pytest.approx(west[~late].mean())
        assert 0.1 < one["low"] < one["difference"] < one["high"] and f"looks: {4 * 21}" in found.changes_tested
        sentence = f"West: anger {100 * one['share']:.0f} % since 26 October 2026, {100 * one['before']:.0f} % before (p < 0.001)"
        table.to_csv(tmp_path / "in.csv", index=False)
        printed = invoke("summarize", tmp_path / "in.csv", "--by", "region", "--time", "day")
        assert found.changed == [sentence] and sentence in printed

    @pytest.mark.parametrize("noise", [0, 0.3])
    def test_weeks_that_scatter_are_no_change(self, noise):
        """Per week and region another share, as the weather has it (standard deviation of the log odds)."""
        generator, alarms = np.random.default_rng(1), 0
        for _ in range(20):
            weeks, regions = np.repeat(np.arange(10), 200), np.tile(list("abcd"), 500)
            odds = 0.25 * np.exp(generator.normal(0, noise, (10, 4)))[weeks, np.tile(np.arange(4), 500)]
            days = (pd.Timestamp("2026-01-05") + pd.to_timedelta(weeks * 7, "D")).strftime("%Y-%m-%d")
            labels = np.where(generator.random(2000) < odds / (1 + odds), "anger", "")
            alarms += bool(summarize(joined(labels), by=list(regions), time=list(days)).changes)
        assert alarms <= 2

    def test_few_weeks_of_two_regions_know_their_scatter_badly(self):
        """Student's t with 7 degrees of freedom, and not the normal distribution, which calls 150 of 500 a change."""
        found, weeks = {"a": [80, 110, 95, 105, 150], "b": [90, 120, 100, 95, 115]}, range(5)
        rows = [(name, week, i < own[week]) for name, own in found.items() for week in weeks for i in range(500)]
        regions, week, anger = map(np.array, zip(*rows, strict=True))
        days = (pd.Timestamp("2026-01-05") + pd.to_timedelta(week * 7, "D")).strftime("%Y-%m-%d")
        assert not summarize(joined(np.where(anger, "anger", "")), by=list(regions), time=list(days)).changes

    def test_values_for_each_row(self):
        found = summarize(FRAME, by=["x"] * 30 + [None] * 70, labels=["joy"])
        assert {one["group"]: one["rows"] for one in found.shares} == {"x": 30, "(none)": 70}
        mixed = summarize(joined(["joy"] * 5), by=[1, True, 1.5, "1", None])  # Python calls 1 and True equal
        assert {one["group"]: one["rows"] for one in mixed.shares} == {"1": 2, "True": 1, "1.5": 1, "(none)": 1}
        with pytest.raises(ValueError, match="one value for each of the 100 rows, got 2; `by` takes several columns"):
            summarize(FRAME, by=["who", "text"])

    def test_columns_together_are_a_group(self, tmp_path):
        shops, ways = ["a", "a", "b", "b", "a /", "a"], ["web", "phone", "web", None, "b", "/ b"]
        frame = joined(["joy"] * 6, shop=shops, way=ways)
        expected = dict.fromkeys(("a / web", "a / phone", "b / web", "b / (none)", '"a /" / b', 'a / "/ b"'), 1)
        found = summarize(frame, by=("shop", "way"))
        assert found.by == "shop / way" and {one["group"]: one["rows"] for one in found.shares} == expected
        frame.to_csv(tmp_path / "in.csv", index=False)
        arguments = ["summarize", tmp_path / "in.csv", "--by", "shop", "--by", "way", "--by", "shop"]
        assert json.loads(invoke(*arguments, "--json"))["shares"] == found.to_dict()["shares"]

    @pytest.mark.parametrize("form", ["jsonl", "parquet", "frame", "list"])
    def test_numbers_of_19_digits_are_not_rounded(self, tmp_path, form):
        ids = [1234567890123456788] * 4 + [1234567890123456789] * 4 + [None]
        frame = joined([["joy"]] * 9, user=pd.array(ids, "Int64"))
        path = tmp_path / f"in.{form}"
        if form == "jsonl":
            lines = [{"predicted_labels": ["joy"], "truncated": False, "user": one} for one in ids]
            path.write_text("\n".join(map(json.dumps, lines)))
        elif form == "parquet":
            frame.astype({"user": object}).to_parquet(path)
        data = frame if form in ("frame", "list") else path
        found = summarize(data, by=ids if form == "list" else "user")
        assert {one["group"]: one["rows"] for one in found.shares} == {str(ids[0]): 4, str(ids[4]): 4, "(none)": 1}

    def test_numbers_that_lost_digits_are_no_groups(self, tmp_path):
        frame = joined(["joy"] * 3, user=[1234567890123456788, 1234567890123456789, None], shop=[7, 8, None])
        with pytest.raises(ValueError, match=r"'user' holds 1.2345678901234568e\+18: .* became equal"):
            summarize(frame, by="user")
        assert {one["group"] for one in summarize(frame, by="shop").shares} == {"7", "8", "(none)"}
        frame.assign(user="1,23457E+18").to_csv(tmp_path / "excel.csv", index=False)
        with pytest.raises(ValueError, match=r"'user' holds 1,23457E\+18"):
            summarize(tmp_path / "excel.csv", by="user")

    @pytest.mark.parametrize(
        ("time", "form"),
        [
            ("2026-11-02T00:30:00+01:00", None),
            ("2026-11-02 23:30-05", None),
            ("20261102T003000.5+0100", None),
            ("2026-11-02 23:30:00 UTC", None),
            (pd.Timestamp("2026-11-02 00:30", tz="Asia/Tokyo"), None),
            (20261102, None),
            (20261102.0, None),
            ("02.11.2026 00:30 +0100", "%d.%m.%Y %H:%M %z"),
        ],
    )
    def test_a_time_belongs_to_the_date_that_it_names(self, time, form):
        options = {"time": "day", "every": "day", "time_format": form, "on_bad_rows": "skip"}
        found = summarize(joined(["joy"] * 2, day=[time, None]), **options)
        assert [(one["period"], one["rows"]) for one in found.shares] == [("2026-11-02", 1)] and found.skipped == 1
        for word in ("now", "today"):
            with pytest.raises(ValueError, match=f"1 of 1 times cannot be read, first in row 1: '{word}'"):
                summarize(joined(["joy"], day=word), time="day", time_format=form)

    def test_typical_texts_are_the_surest_ones(self):
        frame = wide([0.6, 0.95, 0.7, 0.1], [0.1] * 4, text=["one", "two", "three", "four"])
        assert summarize(frame, texts=2).typical == {"": {"joy": ["two", "three"]}}
        assert summarize(frame, texts=0).typical == {}
        unread = frame.assign(predicted_language=[None, "es", None, None], unknown=[0.7, 0, 0.8, 0])
        found = summarize(unread, labels=["joy"])
        assert found.typical == {"": {"joy": ["one"]}} and [one["text"] for one in found.sharpest["joy"]] == ["one"]


class TestDrift:
    def test_index_by_hand(self):
        then, now = (joined(["joy"] * share + [""] * (100 - share)) for share in (10, 50))
        a, b = 50.5 / 101, 10.5 / 101
        expected = (a - b) * np.log(a / b) + ((1 - a) - (1 - b)) * np.log((1 - a) / (1 - b))
        assert summarize(now, reference=then).drift["stability"]["joy"] == pytest.approx(expected)
        assert summarize(now, reference=now).drift["stability"]["joy"] == 0

    def test_shares_then_and_now(self, tmp_path):
        """20 of 100 and 5 of 100: the interval of Newcombe (1998), method 10, from Wilson's two."""
        then = joined(["joy"] * 5 + [""] * 45 + ["fear"] * 50)
        now = joined(["joy"] * 20 + [""] * 28 + ["fear"] * 52)
        joy, fear = summarize(now, reference=then).drift["shares"]
        assert (joy["label"], joy["before"], joy["share"], fear["label"]) == ("joy", 0.05, 0.2, "fear")

        def wilson(k: int) -> list[float]:
            p, z, n = k / 100, 1.959964, 100
            return [
                (p + z * z / 2 / n + s * z * np.sqrt(p * (1 - p) / n + (z / 2 / n) ** 2)) / (1 + z * z / n)
                for s in (-1, 1)
            ]

        (a, b), (c, d) = wilson(20), wilson(5)
        assert joy["low"] == pytest.approx(0.15 - np.hypot(0.2 - a, d - 0.05), abs=1e-6)
        assert joy["high"] == pytest.approx(0.15 + np.hypot(b - 0.2, 0.05 - c), abs=1e-6)
        assert joy["p_holm"] == pytest.approx(2 * joy["p_value"]) and fear["p_value"] > 0.5
        for name, table in (("now", now), ("then", then)):
            table.to_csv(tmp_path / f"{name}.csv", index=False)
        printed = invoke("summarize", tmp_path / "now.csv", "--reference", tmp_path / "then.csv")
        assert "5.0%" in printed and "+15.0%" in printed and "stability" in printed

    def test_means_of_few_texts(self):
        """Welch's t: 4.303 standard errors of 0.1 with two degrees of freedom, and not 1.96."""
        then = pd.DataFrame({"value_joy": [0.5] * 100, "truncated": False})
        now = pd.DataFrame({"value_joy": 0.6 + 0.1 * np.sqrt(3) * np.array([-1, 0, 1]), "truncated": False})
        (joy,) = summarize(now, reference=then).drift["shares"]
        assert [joy["low"], joy["high"]] == pytest.approx([0.1 - 0.4303, 0.1 + 0.4303], abs=1e-4)
        assert joy["p_value"] == pytest.approx(0.4226, abs=1e-4)

    def test_new_words(self):
        old = FRAME.assign(text="the train is late")
        new = FRAME.assign(text=["the strike begins"] * 30 + ["the train is late"] * 70)
        found = {word["word"]: word for word in summarize(new, reference=old).drift["words"]}
        assert set(found) == {"strike", "begins"}
        assert (found["strike"]["texts"], found["strike"]["before"]) == (30, 0)

    def test_chance_makes_no_new_words(self):
        """600 words drawn alike; and how far a stability index of so few texts goes by chance."""
        generator, words, alarms, above = (
            np.random.default_rng(0),
            [f"w{'xyz'[i % 3]}{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(600)],
            0,
            [],
        )
        for _ in range(20):
            now, then = (
                wide(
                    generator.random(150).tolist(),
                    generator.random(150).tolist(),
                    text=[" ".join(generator.choice(words, 20)) for _ in range(150)],
                )
                for _ in range(2)
            )
            found = summarize(now, reference=then)
            alarms += bool(found.drift["words"])
            above += [value > 0.23 for value in found.drift["stability"].values()]
        assert alarms <= 2 and np.mean(above) < 0.1
        assert any("5 % of the stability indices are above 0.23" in note for note in found.notes)


UNREAD = r"100 of 100 times cannot be read, first in row 1: 'a'\. Write 2026-11-27 .*--time-format"


class TestWrongInput:
    def test_says_what_is_wrong(self):
        many = pd.DataFrame({"predicted_labels": ["joy"] * 20_001, "id": np.arange(20_001).astype(str)})
        for data, options, message in (
            (FRAME, {"time": "who"}, UNREAD),
            (FRAME, {"by": "nobody"}, r"no column 'nobody'; the columns are \['text', 'who'\]"),
            (FRAME, {"every": "fortnight"}, "`every` must be one of"),
            (FRAME, {"labels": ["joyy"]}, "no label.* Did you mean 'joy'"),
            (many, {"by": "id"}, "20,001 groups and periods"),
            (["a text"], {}, r"no predictions .* only the columns \['text'\]: give the `model`"),
            (joined(["valence|arousal"] * 3), {}, "values of a regression.*--columns wide"),
        ):
            with pytest.raises(ValueError, match=message):
                summarize(data, **options)

    def test_a_label_that_is_named_twice_counts_once(self):
        found = summarize(FRAME, by="who", labels=["joy", "fear", "joy"])
        assert found.labels == ["joy", "fear"] and len(found.differences) == 2 and "tests: 2" in found.tested

    def test_day_and_month_are_never_guessed(self):
        frame = FRAME.assign(day="03/04/2026")
        with pytest.raises(ValueError, match="cannot be read"):
            summarize(frame, time="day")
        found = summarize(frame, time="day", time_format="%d/%m/%Y", every="day", labels=["joy"])
        assert found.shares[0]["period"] == "2026-04-03"

    def test_rows_without_a_time_may_be_left_out(self):
        found = summarize(FRAME.assign(day=["2026-11-02"] * 99 + ["soon"]), time="day", on_bad_rows="skip")
        assert (found.rows, found.skipped) == (99, 1)

    def test_labels_of_another_model(self, counts):
        frame = FRAME.rename(columns=lambda name: name.replace("fear", "rage"))
        message = r"of another model than m: only in them \['rage'\], only in the model \['fear'\]"
        with pytest.raises(ValueError, match=message):
            summarize(frame, "m")

    def test_a_model_of_the_hub_without_figures(self, monkeypatch):
        def download(model: str, name: str) -> str:
            assert (model, name) == ("somebody/model", "metrics.json")
            raise RemoteEntryNotFoundError("404", response=MagicMock())

        monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
        found = summarize(FRAME, "somebody/model")
        assert found.method == "plain" and "somebody/model keeps no errors" in found.notes[0]

    def test_other_thresholds_leave_the_adjusted_count_out(self, counts):
        found = summarize(FRAME.assign(decision_joy=FRAME.probability_joy > 0.1), "model")
        assert found.method == "probabilistic" and "adjusted" not in found.shares[0]
        assert "in another way than the model's own" in " ".join(found.notes)

    def test_a_group_of_one_row(self, counts):
        found = summarize(FRAME.assign(who=["a"] + ["b"] * 99), "model", by="who", labels=["joy"])
        (one,) = [share for share in found.shares if share["group"] == "a"]
        assert one["rows"] == 1 and one["high"] - one["low"] > 0.5 and "fewer than 30" in found.nothing_clear
        assert any("fewer than 30 texts" in note for note in found.notes)


class TestPageAndCommand:
    NASTY = "<script>alert(1)</script>&\"'"

    def test_what_comes_from_the_data_is_escaped(self, counts):
        frame = FRAME.assign(text=self.NASTY, who=[self.NASTY] * 50 + ["$b$"] * 50).rename(columns={"who": "<b>who"})
        for options in ({}, {"by": "<b>who"}, {"by": "<b>who", "time": ["2026-11-02", "2026-11-09"] * 50}):
            page = summarize(frame, "model", **options).to_html()
            tags = Page(page).tags
            assert "script" not in tags and tags.count("svg") == (1 if not options else 2)
            assert "&lt;script&gt;alert" in page
            assert 'role="img"' in page

    def test_nothing_from_the_data_reaches_the_terminal_or_a_spreadsheet(self, counts, tmp_path):
        bell = "\x1b]0;owned\x07"
        frame = FRAME.rename(columns=lambda name: name.replace("joy", f"joy{bell}"))
        frame.assign(who=[f"=1{bell}"] * 50 + ["-2"] * 50).to_csv(tmp_path / "in.csv", index=False)
        output = tmp_path / f"out{bell}.html"
        arguments = ["summarize", tmp_path / "in.csv", "--by", "who"]
        for more in ((), ("--output", output), ("--output", output, "--overwrite", "--escape-formulas")):
            printed = invoke(*arguments, *more)
            assert "\\x1b]0;owned\\x07" in printed and not {"\x1b", "\x07"} & set(printed)
            if more:
                groups = pd.read_csv(output.with_suffix(".csv"))["group"].astype(str)
                assert set(groups) == {
                    f"{quote}{one}" for one in (f"=1{bell}", "-2") for quote in ["'" * len(more[3:])]
                }

    def test_a_group_named_like_a_colour_keeps_its_name(self):
        """The page replaces a colour of the drawings by that of its text."""
        with drawn_pictures():
            page = summarize(FRAME.replace({"who": {"a": "#010203", "b": "'sans-serif'"}}), by="who").to_html()
        assert ">#010203</text>" in page and ">'sans-serif'</text>" in page
        assert page.count("#010203") == Page(page).text.count("#010203") and "fill: currentColor" in page

    def test_writes_page_csv_and_json(self, counts, tmp_path):
        FRAME.to_csv(tmp_path / "in.csv", index=False)
        arguments = ["summarize", str(tmp_path / "in.csv"), "--by", "who", "--output", str(tmp_path / "out.html")]
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
        table = pd.read_csv(tmp_path / "out.csv")
        values = json.loads((tmp_path / "out.json").read_text())
        assert table["plain"].tolist() == pytest.approx([one["plain"] for one in values["shares"]])
        assert len(table) == 4 and "<h2>Share (plain)</h2>" in (tmp_path / "out.html").read_text()
        assert isinstance(CliRunner().invoke(app, arguments).exception, FileExistsError)
        assert CliRunner().invoke(app, [*arguments, "--overwrite"]).exit_code == 0
        arguments[-1] = str(tmp_path / "in.html")  # its table would replace the file that is read
        done = CliRunner().invoke(app, [*arguments, "--overwrite"])
        assert done.exit_code == 2 and "in_page.html" in done.output

    def test_the_address_of_a_table_may_hold_a_key(self, tmp_path):
        import fsspec

        address = "memory://in.csv?key=s3cret"
        for table, code in ((FRAME, 0), (FRAME[["text"]], 1)):
            with fsspec.open(address, "w") as file:
                file.write(table.to_csv(index=False))
            done = CliRunner().invoke(app, ["summarize", address, "-o", str(tmp_path / "out.html")])
            assert done.exit_code == code and "s3cret" not in f"{done.output} {done.exception}"
        assert "100 texts of in.csv." in Page((tmp_path / "out.html").read_text()).text
        assert not [path for path in tmp_path.iterdir() if "s3cret" in path.read_text()]

    def test_charts_need_matplotlib(self, tmp_path, monkeypatch):
        """Which is told before anything is predicted."""
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        done = CliRunner().invoke(app, ["summarize", str(tmp_path / "no.csv"), "--charts", str(tmp_path / "charts")])
        assert "hf-emotion[plots]" in str(done.exception)

    def test_a_group_with_a_carriage_return(self, tmp_path):
        """Unquoted it ends a line of the CSV."""
        FRAME.replace("a", "one\rtwo").to_csv(tmp_path / "in.csv", index=False, lineterminator="\r\n")
        invoke("summarize", tmp_path / "in.csv", "--by", "who", "--output", tmp_path / "out.html")
        assert set(pd.read_csv(tmp_path / "out.csv")["group"]) == {"one\rtwo", "b"}

    def test_columns_of_mixed_types(self, tmp_path):
        """Parquet, in which the predictions are kept meanwhile, has one type for each column."""
        rows = [{"text": "I love it", "shop": 1, "n": [2]}, {"text": "so sad", "shop": "A", "n": "x"}, {"text": "ok"}]
        source = write_jsonl(tmp_path / "in.jsonl", rows)
        found = json.loads(invoke("summarize", source, "--model", "goemotions", "--by", "shop", "--json"))
        assert {one["group"] for one in found["shares"]} == {"1", "A", "(none)"}

    def test_all_files_are_there_or_none(self, counts, tmp_path, monkeypatch):
        """A full disk while the page is drawn; what was predicted by then serves the same command."""
        pd.DataFrame({"text": ["a"]}).to_csv(tmp_path / "in.csv", index=False)
        calls = []

        def predict_file(predictor, source, output, **options):
            calls.append(source)
            FRAME.to_parquet(output)

        monkeypatch.setattr("hf_emotion.serving.bulk.predict_file", predict_file)
        model = MagicMock(wide_labels=None, **{"fingerprint.return_value": "of it"})
        monkeypatch.setattr("hf_emotion.inference.load_predictor", lambda place: model)
        drawn = Summary.to_html
        monkeypatch.setattr(Summary, "to_html", lambda summary: (_ for _ in ()).throw(OSError(28, "full")))
        (tmp_path / "model").mkdir()
        arguments = ["summarize", tmp_path / "in.csv", "--model", tmp_path / "model", "-o", tmp_path / "out.html"]
        done = CliRunner().invoke(app, [*map(str, arguments)])
        assert done.exit_code == 1 and not [path for path in tmp_path.iterdir() if path.name.startswith("out")]
        monkeypatch.setattr(Summary, "to_html", drawn)
        invoke(*arguments)
        names = {"in.csv", "model", *(f"out.{kind}" for kind in ("html", "csv", "json", "texts.parquet"))}
        assert {path.name for path in tmp_path.iterdir()} == names and len(calls) == 1
        pd.DataFrame({"text": ["another"]}).to_csv(tmp_path / "in.csv", index=False)
        invoke(*arguments, "--overwrite")
        assert len(calls) == 2

    def test_a_page_for_a_manager(self, tmp_path):
        days = ["2026-11-02", "2026-11-08"] * 25 + ["2026-11-09", "2026-11-15"] * 25
        FRAME.assign(day=days).to_csv(tmp_path / "in.csv", index=False)
        arguments = ["summarize", tmp_path / "in.csv", "--by", "who", "--time", "day", "--title", "Our <shops>"]
        more = ["-o", tmp_path / "out.html", "--charts", tmp_path / "charts", "--texts", "2", "--label", "joy"]
        invoke(*arguments, *more)
        text = Page((tmp_path / "out.html").read_text()).text
        assert "Our <shops>" in text and "100 texts of in.csv, 2 November 2026 to 15 November 2026 by week" in text
        assert "joy: b 80.0 points less than a" in text and "p < 0.001" in text
        assert "--" not in text[text.index("In short") :].replace(
            "summarize --labelled", ""
        )  # the command that a note names
        assert sorted(path.name for path in (tmp_path / "charts").iterdir()) == ["01_joy.png"]
        assert "text 0 (a, 2026-11-02)" in text and "text 1 (" in text and "text 2 (" not in text
        assert "- text 0 (a, 2026-11-02)" in invoke(*arguments, "--texts", "1", "--label", "joy")

    def test_shows_shares_and_what_was_tested(self, counts, tmp_path):
        FRAME.to_csv(tmp_path / "in.csv", index=False)
        done = invoke("summarize", tmp_path / "in.csv", "--by", "who", "--label", "joy")
        for part in ("80.0%", "with it", "tested: Fisher", "note: The shares are plain counts"):
            assert part in done
        assert json.loads(invoke("summarize", tmp_path / "in.csv", "--json"))["rows"] == 100


class TestEndings:
    def frame(self) -> pd.DataFrame:
        """Three calls: the customer's fear goes from 0.1 to 0.9, from 0.9 to 0.1, and stays; the fourth has one turn of the customer."""
        fears = {"up": [0.1, 0.5, 0.5, 0.5, 0.5, 0.9], "down": [0.9, 0.5, 0.1], "same": [0.5, 0.55], "one": [0.9]}
        turns = [(name, "Customer", fear) for name, own in fears.items() for fear in own]
        turns.insert(3, ("up", "Agent", 0.3))  # in the middle
        names, speakers, fear = zip(*turns, strict=True)
        columns = {"dialogue": names, "speaker": speakers, "utterance": [f"text {i}" for i in range(len(turns))]}
        return wide([1 - one for one in fear], list(fear), **columns)

    def test_counted_by_hand(self):
        found = summarize(self.frame())
        every, row = found.endings["rows"]
        ends = [beta.ppf(end, 1 + 0.5, 2 + 0.5) for end in (0.025, 0.975)]  # Jeffreys: 1 of 3
        assert (every["speaker"], row["speaker"], row["dialogues"]) == ("(all turns)", "Customer", 3)
        assert [row[name] for name in ("worse", "worse_low", "worse_high")] == pytest.approx([1 / 3, *ends])
        assert row["better"] == pytest.approx(1 / 3)
        # A third of seven turns is two: (0.5 + 0.9) / 2 - (0.1 + 0.5) / 2.
        assert found.endings["worst"] == [("up", pytest.approx(0.4))]
        notes = " ".join(found.notes)
        assert "There are only 3 such dialogues" in notes and "In 2 of 3 dialogues" in notes and "(fear)" in notes
        long = self.frame().query("dialogue == 'up'")
        assert "a third is one turn" not in " ".join(summarize(long).notes)
        page = found.to_html()
        assert "Dialogues that end worse than they began" in page and "33.3%" in page

    def test_says_that_turns_are_alike(self):
        alike = "Turns of a dialogue are alike"
        assert alike in " ".join(summarize(self.frame()).notes)
        assert alike not in " ".join(summarize(self.frame().drop_duplicates("dialogue")).notes)

    def test_turns_without_a_dialogue_are_none(self):
        loose = self.frame().query("dialogue == 'up'").assign(dialogue=None)
        expected = summarize(self.frame()).endings
        assert summarize(pd.concat([self.frame(), loose])).endings == expected
        assert summarize(loose).endings is None

    def test_not_for_texts_or_labels_alone(self):
        assert summarize(FRAME).endings is None
        assert summarize(joined(["fear"], dialogue=["a"], speaker=["b"])).endings is None
        one_turn_each = self.frame().drop_duplicates("dialogue")
        assert summarize(one_turn_each).endings is None
