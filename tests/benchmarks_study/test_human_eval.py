# SPDX-License-Identifier: Apache-2.0
"""Rating sheets out, simulated ratings in: blinding, escaping, and statistics with known answers."""

import csv
import json
import math
import random
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from toolkit_helpers import cells, write_jsonl

from benchmarks.study.human_eval import COLUMNS, ITEMS, READABILITY, analyze_ratings, export_sheets, read_replies


pytest_plugins = ["toolkit_fixtures"]

CONTEXTS = ["what a day", "my cat\nis <b>sick</b> & sad", "=1+1", 'see you, "soon"']
EMOTIONS = ["😂", "😢", "🎶", "joy"]
SOURCES = {
    "zebra-net": ["lol same", "<script>alert('x')</script>", "two lines\nof text", "-5 degrees"],
    "qqq-human": ["haha yes", "oh no , poor cat", "@you", "bye"],
    "xenon": ["i am so happy", "so sad", "so so", "ok , good"],
}


def export(folder: Path, raters: int = 2, seed: int = 0) -> Path:
    export_sheets(SOURCES, CONTEXTS, EMOTIONS, folder, raters, seed)
    return folder


def read_csv(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file))


def write_rows(path: Path, rows: list[list[str]], delimiter: str = ",") -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)


def key_of(folder: Path) -> dict[str, tuple[str, int]]:
    header, *rows = read_csv(folder / "key.csv")
    assert header == ["id", "source", "row"]
    return {number: (source, int(row) - 1) for number, source, row in rows}


def rate(folder: Path, rating) -> dict[tuple[int, str], list[list[int]]]:
    """Fill all sheets in: rating(rater, source, row) -> 6 ratings. Returns {(rater, source): rows of ratings}."""
    key, given = key_of(folder), {}
    for rater, path in enumerate(sorted((folder / "sheets").glob("*.csv"))):
        header, *rows = read_csv(path)
        for cells_ in rows:
            source, row = key[cells_[0]]
            values = rating(rater, source, row)
            cells_[4:] = map(str, values)
            given.setdefault((rater, source), []).append(list(values))
        write_rows(path, [header, *rows])
    return given


def opinions(means: dict[str, float], seed: int = 0, spread: float = 0.7):
    """Ratings around the mean of the source, with some liking of each rater."""
    draw = random.Random(seed)
    liking = [draw.gauss(0, 0.5) for _ in range(100)]

    def rating(rater, source, row):
        return [min(7, max(1, round(draw.gauss(means[source] + liking[rater], spread)))) for _ in ITEMS]

    return rating


class TestExport:
    def test_sheets_are_whole(self, tmp_path):
        paths = export_sheets(SOURCES, CONTEXTS, EMOTIONS, tmp_path / "new", raters=3, seed=1)
        assert [path.name for path in paths] == ["rater-01.csv", "rater-02.csv", "rater-03.csv"]
        key = key_of(tmp_path / "new")
        assert sorted(key.values()) == sorted((source, row) for source in SOURCES for row in range(4))
        orders = []
        for path in paths:
            header, *rows = read_csv(path)
            assert header == list(COLUMNS)
            assert all("1 = worst to 7 = best" in name for name in header[4:])
            orders.append([row[0] for row in rows])
            assert sorted(orders[-1]) == sorted(key)
            for number, context, emotion, reply, *ratings in rows:
                source, row = key[number]
                assert emotion == EMOTIONS[row] and ratings == [""] * 6
                assert context == ("'=1+1" if row == 2 else CONTEXTS[row])  # no formula for a spreadsheet
                assert reply == ("'" if SOURCES[source][row][0] in "-@" else "") + SOURCES[source][row]
        assert len({tuple(order) for order in orders}) == 3

    def test_no_source_can_be_told(self, tmp_path):
        folder = export(tmp_path, raters=3)
        names = [path.name for path in folder.iterdir()]
        assert sorted(names) == ["key.csv", "sheets"]
        for path in (folder / "sheets").iterdir():
            content = path.read_text(encoding="utf-8")
            assert not any(source in content or source in path.name for source in SOURCES)
        # Nor from the ids: none of the orders of the sources is that of the ids.
        sources = [source for _, (source, _) in sorted(key_of(folder).items())]
        assert sum(first == second for first, second in zip(sources, sources[1:], strict=False)) < 9

    def test_html_escapes_everything(self, tmp_path):
        folder = export(tmp_path)
        for path in (folder / "sheets").glob("*.html"):
            page = path.read_text(encoding="utf-8")
            assert "<script" not in page and "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;" in page
            assert "<b>" not in page and "&lt;b&gt;sick&lt;/b&gt; &amp; sad" in page
            assert "&quot;soon&quot;" in page
            assert "1 = worst to 7 = best" in page
            assert all(question in page for question in ITEMS.values())
            assert page.count("<section>") == 12 and page.count('class="box"') == 12 * 6 * 7
            assert "http:" not in page and "https:" not in page and "src=" not in page.replace("style-src", "")
            # The form has the order of the sheet.
            order = [row[0] for row in read_csv(path.with_suffix(".csv"))[1:]]
            assert [part.split("<")[0] for part in page.split("<h2>")[1:]] == order

    def test_the_seed_decides_and_old_sheets_stay(self, tmp_path):
        folders = [export(tmp_path / name, seed=seed) for name, seed in (("a", 3), ("b", 3), ("c", 4))]
        files = [{path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.*")} for folder in folders]
        assert files[0] == files[1] and files[0].keys() == files[2].keys()
        assert all(files[0][name] != files[2][name] for name in files[0])
        with pytest.raises(FileExistsError, match="new or an empty folder"):
            export(folders[0], seed=9)
        assert (folders[0] / "key.csv").read_bytes() == files[0][Path("key.csv")]

    def test_errors_leave_nothing_behind(self, tmp_path):
        four = ["a"] * 4
        for sources, contexts, raters, message in (
            ({"human": four}, CONTEXTS, 1, "at least two sources"),
            ({"human": four, " ": four}, CONTEXTS, 1, "must have a name"),
            ({"human": four, "model": four[:3]}, CONTEXTS, 1, "one row per context, 4, got 3 for 'model'"),
            (SOURCES, [], 1, "at least one context"),
            (SOURCES, CONTEXTS, 0, "`raters` must be at least 1, got 0"),
            (SOURCES, ["a", "b" * 2**17, "c", "d"], 1, "'contexts' may have at most .* row 2 has 131072"),
        ):
            with pytest.raises(ValueError, match=message):
                export_sheets(sources, contexts, EMOTIONS, tmp_path / "new", raters, 0)
            assert not (tmp_path / "new").exists()


class TestReadReplies:
    def rows(self, *replies):
        return [{"context": f"c{i}", "emotion": "joy", "reply": reply} for i, reply in enumerate(replies)]

    def test_files_become_sources(self, tmp_path):
        one, two = (
            write_jsonl(tmp_path / f"{name}.jsonl", self.rows(f"{name}-a", f"{name}-b")) for name in ("one", "two")
        )
        two.write_bytes(b"\xef\xbb\xbf" + two.read_bytes())
        sources = {"one": ["one-a", "one-b"], "two": ["two-a", "two-b"]}
        assert read_replies([one, two]) == (sources, ["c0", "c1"], ["joy", "joy"])

    def test_errors(self, tmp_path):
        one, two = write_jsonl(tmp_path / "one.jsonl", self.rows("a", "b")), tmp_path / "two.jsonl"
        for rows, message in (
            ([{"context": "c0", "emotion": "joy"}], "two.jsonl, line 1: must be an object with the strings context"),
            ([{"context": "c0", "emotion": "fear", "reply": "a"}], "line 1: context and emotion must equal those"),
            (self.rows("a"), "has 1 replies and .*one.jsonl has 2"),
            (self.rows("a", "a", "a"), "line 3: context and emotion"),
        ):
            with pytest.raises(ValueError, match=message):
                read_replies([one, write_jsonl(two, rows)])
        two.write_text("\n{no json\n")
        with pytest.raises(ValueError, match="two.jsonl, line 2: no JSON"):
            read_replies([two])
        with pytest.raises(ValueError, match="two files are called 'one'"):
            read_replies([one, write_jsonl(tmp_path / "more" / "one.jsonl", self.rows("a", "b"))])


def plain_anova(means: list[list[float]]) -> tuple[float, float]:
    """F and p of (raters, sources): sums of squares one by one."""
    raters, sources = len(means), len(means[0])
    grand = sum(map(sum, means)) / (raters * sources)
    of_source = [sum(row[s] for row in means) / raters for s in range(sources)]
    of_rater = [sum(row) / sources for row in means]
    between = rest = 0.0
    for s in range(sources):
        between += raters * (of_source[s] - grand) ** 2
        for r in range(raters):
            rest += (means[r][s] - of_source[s] - of_rater[r] + grand) ** 2
    f = (between / (sources - 1)) / (rest / ((sources - 1) * (raters - 1)))
    return f, float(stats.f.sf(f, sources - 1, (sources - 1) * (raters - 1)))


class TestAnalyze:
    @pytest.fixture(scope="class")
    def rated(self, tmp_path_factory):
        folder = export(tmp_path_factory.mktemp("rated"), raters=12)
        given = rate(folder, opinions({"zebra-net": 3.0, "qqq-human": 5.0, "xenon": 5.0}))
        return given, analyze_ratings(folder)

    def test_means_and_errors(self, rated):
        given, result = rated
        assert (result["raters"], result["replies"]) == (12, 12)
        for source in SOURCES:
            for column, item in enumerate([*ITEMS, "readability"]):
                by_rater = []
                for rater in range(12):
                    rows = given[rater, source]
                    values = [sum(row[1:]) / 5 if item == "readability" else row[column] for row in rows]
                    by_rater.append(sum(values) / len(values))
                mean = sum(by_rater) / 12
                error = math.sqrt(sum((value - mean) ** 2 for value in by_rater) / 11) / math.sqrt(12)
                assert result["sources"][source][item] == {"mean": pytest.approx(mean), "se": pytest.approx(error)}

    def test_anova_and_post_hoc(self, rated):
        given, result = rated
        for measure, part in (("emotion_control", slice(0, 1)), ("readability", slice(1, 6))):
            means = [
                [float(np.mean([row[part] for row in given[rater, source]])) for source in sorted(SOURCES)]
                for rater in range(12)
            ]
            f, p_value = plain_anova(means)
            assert result["anova"][measure] == {
                **{"f": pytest.approx(f), "df_sources": 2, "df_error": 22, "p_value": pytest.approx(p_value)}
            }
            tests = [row for row in result["post_hoc"] if row["measure"] == measure]
            assert [(row["first"], row["second"]) for row in tests] == list(combinations(sorted(SOURCES), 2))
            for row, (a, b) in zip(tests, combinations(range(3), 2), strict=True):
                differences = [mean[a] - mean[b] for mean in means]
                mean = sum(differences) / 12
                deviation = math.sqrt(sum((value - mean) ** 2 for value in differences) / 11)
                t = mean / (deviation / math.sqrt(12))
                assert row["difference"] == pytest.approx(mean) and row["t"] == pytest.approx(t)
                assert row["p_value"] == pytest.approx(2 * stats.t.sf(abs(t), 11)) and row["df"] == 11
            # Holm: the smallest times 3, the next times 2, the largest times 1; never falling, never above 1.
            least = 0.0
            for rank, row in enumerate(sorted(tests, key=lambda row: row["p_value"])):
                least = max(least, min(1.0, row["p_value"] * (3 - rank)))
                assert row["p_value_holm"] == pytest.approx(least)

    def test_undefined_is_nan(self, tmp_path):
        folder = export(tmp_path / "one", raters=1)
        rate(folder, opinions(dict.fromkeys(SOURCES, 4.0)))
        result = analyze_ratings(folder)
        assert math.isnan(result["anova"]["readability"]["f"]) and math.isnan(
            result["sources"]["xenon"]["clear"]["se"]
        )
        assert all(math.isnan(row["p_value_holm"]) for row in result["post_hoc"])
        folder = export(tmp_path / "same", raters=3)
        rate(folder, lambda rater, source, row: [4] * 6)
        result = analyze_ratings(folder)
        assert math.isnan(result["cronbach_alpha"]) and math.isnan(result["anova"]["emotion_control"]["p_value"])
        assert result["sources"]["xenon"]["clear"] == {"mean": 4.0, "se": 0.0}

    def test_sheets_from_spreadsheets_and_one_that_did_not_come_back(self, tmp_path):
        folder = export(tmp_path, raters=3)
        rate(folder, opinions(dict.fromkeys(SOURCES, 4.0)))
        (folder / "sheets" / "rater-03.csv").unlink()
        before = analyze_ratings(folder)
        assert before["raters"] == 2
        for path, delimiter in zip(sorted((folder / "sheets").glob("*.csv")), ";\t", strict=True):
            write_rows(path, [*read_csv(path), [""] * len(COLUMNS)], delimiter)
        assert json.dumps(analyze_ratings(folder)) == json.dumps(before)

    def test_bad_sheets(self, tmp_path):
        texts = {name: ["x"] * 4 for name in SOURCES}  # no line ends within cells
        export_sheets(texts, ["c"] * 4, EMOTIONS, tmp_path, 2, 0)
        rate(tmp_path, opinions(dict.fromkeys(SOURCES, 4.0)))
        path = tmp_path / "sheets" / "rater-02.csv"
        whole = read_csv(path)
        for row, column, value, message in (
            (3, 4, "8", "line 4: emotion_control of r.* from 1 .* to 7 .*, got '8': mend"),
            (5, 8, " ", "line 6: coherent of r.*, got '': ask the rater"),
            (1, 0, "r99", "line 2: the id 'r99' is not in key.csv"),
            (2, 0, whole[1][0], "line 3: the id 'r.*' occurs twice"),
            (0, 5, "clear", "line 1: the columns must be id, context"),
            (4, None, None, "all 12 replies must be rated, 1 are missing, first r"),
        ):
            rows = [list(cells_) for cells_ in whole]
            if column is None:
                rows.pop(row)
            else:
                rows[row][column] = value
            write_rows(path, rows)
            with pytest.raises(ValueError, match=f"rater-02.csv.*{message}"):
                analyze_ratings(tmp_path)


def test_commands(tmp_path, study):
    names, paths = ("context", "emotion", "reply"), []
    for source, replies in SOURCES.items():
        rows = [dict(zip(names, row, strict=True)) for row in zip(CONTEXTS, EMOTIONS, replies, strict=True)]
        paths.append(write_jsonl(tmp_path / f"{source}.jsonl", rows))
    folder = tmp_path / "out"
    printed = study("human-eval", "export", *paths, "--output", folder, "--raters", 5, "--seed", 2).out
    assert "5 sheets written" in printed and "key.csv" in printed
    assert (folder / "key.csv").read_bytes() == (export(tmp_path / "same", 5, 2) / "key.csv").read_bytes()
    rate(folder, opinions({"zebra-net": 3.0, "qqq-human": 5.0, "xenon": 5.0}))
    result = json.loads(study("human-eval", "analyze", folder, "--json").out)
    assert result == analyze_ratings(folder)
    printed = study("human-eval", "analyze", folder).out
    header, *rows = cells(printed)
    assert header == ["source", "emotion_control", *READABILITY, "readability"]
    clear, alpha = result["sources"]["xenon"]["clear"], result["cronbach_alpha"]
    assert next(row for row in rows if row[0] == "xenon")[6] == f"{clear['mean']:.2f} ({clear['se']:.2f})"
    assert "1 = worst, 7 = best" in printed and f"alpha of the readability items: {alpha:.2f}" in printed
    assert f"ANOVA of readability: F(2, 8) = {result['anova']['readability']['f']:.2f}" in printed
