# SPDX-License-Identifier: Apache-2.0
"""Rows drawn to be labelled, the tables that people fill in, the page where they do, and two people's tables merged."""

import csv
import http.client
import json
import os
import threading
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

import openpyxl
import pytest
from toolkit_helpers import invoke
from typer.testing import CliRunner

from hf_emotion.cli import app
from hf_emotion.serving.label_page import LabelServer
from hf_emotion.serving.labelling import Table, labels_of_model
from hf_emotion.serving.sampling import draw


pytest_plugins = ["served", "toolkit_fixtures"]

HOSTILE = "<script>window.hacked=1</script><img src=x onerror=window.hacked=1>"
LABELS = ["anger", "annoyance", "joy", "neutral"]


def write(path: Path, rows: list[dict]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def read(path: Path) -> list[dict]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def predicted(shops: str = "n" * 30 + "s" * 10 + "w" * 2, **more: str) -> list[dict]:
    decisions = {
        f"{kind}_{name}": "0.3" if kind == "probability" else "false"
        for kind in ("probability", "decision")
        for name in LABELS
    }
    rest = {"truncated": "false", "unknown": "0.0", "predicted_language": ""}
    return [{"comment": f"text {i}", "shop": shop, **decisions, **rest, **more} for i, shop in enumerate(shops)]


def fails(*arguments) -> tuple[int, str]:
    done = CliRunner().invoke(app, [*map(str, arguments)])
    return done.exit_code, str(done.exception) + done.output


class TestSample:
    def test_equally_from_each_group(self, tmp_path):
        source = write(tmp_path / "predicted.csv", [*predicted(), *predicted("n", truncated="", decision_joy="")])
        said = invoke("sample", source, "-n", 12, "--by", "shop", "-o", tmp_path / "to_label.csv")
        assert (
            "12 of 42 rows" in said
            and "1 more have no prediction" in said
            and "n 5 of 30, s 5 of 10, w 2 of 2" in said
        )
        rows = read(tmp_path / "to_label.csv")
        assert list(rows[0]) == ["comment", "shop", "row", "weight", "label", "choices"]
        assert Counter(row["shop"] for row in rows) == {"n": 5, "s": 5, "w": 2}
        assert all(row["comment"] == f"text {row['row']}" and row["choices"] == "|".join(LABELS) for row in rows)
        assert {row["shop"]: float(row["weight"]) for row in rows} == {"n": 6, "s": 2, "w": 1}
        numbers = [int(row["row"]) for row in rows]
        assert numbers != sorted(numbers)  # whoever stops early has labelled a random part
        for seed, same in ((0, True), (1, False)):
            other = tmp_path / f"{seed}.csv"
            invoke("sample", source, "-n", 12, "--by", "shop", "--seed", seed, "-o", other)
            assert (read(other) == rows) is same

    def test_every_row_is_as_likely(self):
        """Also where groups turn up late, and with few rows in memory."""
        found: Counter = Counter()
        for seed in range(300):
            rows = ((number, {"group": "ab"[number >= 80]}) for number in range(120))
            groups, sizes = draw(rows, 8, lambda row: row["group"], seed)
            assert sizes == {"a": 80, "b": 40} and [len(groups[name]) for name in "ab"] == [4, 4]
            found.update(number for drawn in groups.values() for _, number, _ in drawn)
        for group, expected in ((range(80), 300 * 4 / 80), (range(80, 120), 300 * 4 / 40)):
            assert sum((found[number] - expected) ** 2 / expected for number in group) < 1.6 * len(group)

    def test_forms(self, tmp_path):
        """Joined predictions of an own prefix and of aspects, Excel, a column for each label, and a table of texts."""
        joined = [
            {"text": "=1+1", "m_predicted_labels": cell, "m_predicted_scores": "", "m_truncated": "false"}
            for cell in ("joy|anger", "")
        ]
        invoke("sample", write(tmp_path / "in.csv", joined), "--prefix", "m_", "-o", tmp_path / "out.xlsx")
        header, *rows = openpyxl.load_workbook(tmp_path / "out.xlsx").active.iter_rows(values_only=True)
        assert (
            header == ("text", "row", "weight", "label", "choices")
            and rows[0][0] == "=1+1"
            and rows[0][4] == "anger|joy"
        )
        pairs = [
            {"text": "a", "decision_price": word, "truncated": "false"} for word in ("negative", "none", "positive")
        ]
        invoke(
            "sample",
            write(tmp_path / "in.csv", pairs),
            "--show-predictions",
            "--escape-formulas",
            "-o",
            tmp_path / "pairs.csv",
        )
        assert {row["choices"] for row in read(tmp_path / "pairs.csv")} == {"price/negative|price/positive"}
        assert {row["decision_price"] for row in read(tmp_path / "pairs.csv")} == {"negative", "none", "positive"}
        plain = write(tmp_path / "in.csv", [{"text": "a", "unknown": "kept"}])
        invoke("sample", plain, "--labels", "joy, anger", "-o", tmp_path / "each.csv")
        assert read(tmp_path / "each.csv") == [
            {"text": "a", "unknown": "kept", "row": "0", "weight": "1.0", "label:joy": "", "label:anger": ""}
        ]

    def test_wrong_input(self, tmp_path):
        source, output = write(tmp_path / "in.csv", predicted()), tmp_path / "out.csv"
        for arguments, code, message in (
            ([source, "--by", "shopp"], 1, "no column 'shopp'"),
            ([source, "--by", "comment", "-n", 9], 1, "more groups"),
            ([source, "--labels", "a|b"], 1, "no label can be called 'a|b'"),
            ([write(tmp_path / "row.csv", [{"text": "a", "row": 1}])], 1, "has a column 'row' already"),
            ([tmp_path / "none.csv"], 1, "no such file"),
        ):
            exit_code, said = fails("sample", *arguments, "-o", output)
            assert (exit_code, message in said, output.exists()) == (code, True, False), said
        long = write(tmp_path / "long.csv", [{"text": "a" * 40_000}])
        assert "out.xlsx: a sheet of Excel holds" in fails("sample", long, "-o", tmp_path / "out.xlsx")[1]
        assert fails("sample", source, "-o", source)[0] == 2
        assert fails("sample", source, "-o", tmp_path / "out.parquet")[0] == 2


def to_label(folder: Path, name: str = "to_label.csv", labels: tuple[str, ...] = (), rows: int = 4) -> Path:
    """A table of `sample`."""
    table = predicted("n" * rows)
    options = ["--labels", ",".join(labels)] if labels else []
    invoke("sample", write(folder / "in.csv", table), *options, "-o", folder / name, "--overwrite")
    return folder / name


@contextmanager
def serving(path: Path, several: bool = True, column: str = "comment"):
    server = LabelServer(Table.read(path), column, several)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ask(server: LabelServer, method: str, path: str, body: str | None = None, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    connection.request(method, path, body, headers)
    reply = connection.getresponse()
    found = reply.status, reply.read().decode()
    connection.close()
    return found


class TestTable:
    @pytest.mark.parametrize("name", ["to_label.csv", "to_label.tsv", "to_label.xlsx"])
    def test_an_answer_is_in_the_file_at_once(self, tmp_path, name):
        path = to_label(tmp_path, name)
        if path.suffix == ".xlsx":
            book = openpyxl.load_workbook(path)
            book.create_sheet("notes")["A1"] = "mine"
            book.save(path)
        table = Table.read(path)
        answers = [["joy", "anger"], [], "?", None]
        for number, answer in enumerate(answers):
            table.save(number, answer)
            again = Table.read(path)
            assert again.answers == [*answers[: number + 1], *[None] * (3 - number)]
            assert [row["comment"] for row in again.rows] == [row["comment"] for row in table.rows]
        table.save(0, None)
        assert Table.read(path).answers[0] is None
        if path.suffix == ".xlsx":
            assert openpyxl.load_workbook(path)["notes"]["A1"].value == "mine"

    def test_what_spreadsheets_make_of_it(self, tmp_path):
        path = to_label(tmp_path)
        rows = read(path)
        for row, cell in zip(rows, (" Joy | ANGER", "None", "?", ""), strict=True):
            row["label"] = cell
        text = "\r\n".join(";".join(row) for row in [[*rows[0]], *(row.values() for row in rows)])
        path.write_bytes(text.replace("text 0", "größe").encode("cp1252"))
        for _ in range(2):  # then it is in UTF-8
            table = Table.read(path, encoding="cp1252", needed=["comment"])
            assert table.answers == [["joy", "anger"], [], "?", None]
            assert "größe" in [row["comment"] for row in table.rows]
            table.save(3, None)
        path = to_label(tmp_path, labels=("joy", "anger"))
        write(
            path,
            [
                row | {"label:joy": "WAHR", "label:anger": cell}
                for row, cell in zip(read(path), ("0", "1.0", "", "?"), strict=True)
            ],
        )
        assert Table.read(path).answers == [["joy"], ["joy", "anger"], None, "?"]

    def test_wrong_input(self, tmp_path):
        path = to_label(tmp_path)
        table = Table.read(path)
        for row in (rows := read(path)):
            row["label"] = "angr"
        write(path, rows)
        os.utime(path, (1, 1))
        with pytest.raises(ValueError, match="another program has changed"):
            table.save(0, ["joy"])
        assert read(path) == rows and table.answers[0] is None
        assert "line 2: 'angr' is not a label. Did you mean 'anger'?" in fails("label", path, "--no-browser")[1]
        own = write(tmp_path / "own.csv", [{"text": "a", "label": ""}])
        assert "names no labels" in fails("label", own)[1]
        assert (
            "no column 'label'" in fails("label", write(tmp_path / "own.csv", [{"text": "a"}]), "--labels", "joy")[1]
        )
        own.write_text("text,label\n")
        assert "own.csv has no rows" in fails("label", own, "--labels", "joy")[1]
        assert fails("label", path, path)[0] == 2 and fails("label", path, "--merge")[0] == 2
        assert "--labels" in fails("label", path, "--model", "aspects")[1]

    def test_labels_of_models(self):
        names, several = labels_of_model("goemotions")
        assert len(names) == 28 and names[-1] == "neutral" and several
        names, several = labels_of_model("reviews")
        assert "price/negative" in names and "price/none" not in names and several


class TestMerging:
    def test_two_people(self, tmp_path):
        """The answers that agree; and alpha by hand: of two people, 1 - (2n - 1) * D / (2 * a * b) for each label, with D rows that differ."""
        first, second = (to_label(tmp_path, f"{name}.csv") for name in ("ann", "ben"))
        numbers = [int(row["row"]) for row in read(first)]
        answers = {
            "ann": (["joy"], ["joy", "anger"], ["neutral"], "?"),
            "ben": (["joy"], ["anger"], ["neutral"], ["joy"]),
        }
        for path in (first, second):
            table = Table.read(path)
            for number, answer in enumerate(answers[path.stem]):
                table.save(number, answer)
        write(second, sorted(read(second), key=lambda row: row["row"]))  # sorted in a spreadsheet
        said = invoke("label", "--merge", first, second, "-o", tmp_path / "both.csv")
        rows = {int(row["row"]): row for row in read(tmp_path / "both.csv")}
        assert [rows[number]["label"] for number in numbers] == ["joy", "", "neutral", "joy"]
        assert rows[numbers[1]]["answer:ann"] == "joy|anger" and rows[numbers[3]]["answer:ann"] == "?"
        joy = 1 - 5 * 1 / (3 * 3)  # three rows that both labelled; joy was said three times
        assert f"alpha {(1 + joy + 1) / 3:.2f}" in said and "67% of 3 texts" in said and "1 differ" in said
        assert Table.read(tmp_path / "both.csv").answers[:2] == [["joy"], None]

    def test_tables_of_different_texts(self, tmp_path):
        first = to_label(tmp_path, "a.csv")
        other = write(tmp_path / "b.csv", [row | {"comment": "another"} for row in read(first)])
        code, said = fails("label", "--merge", first, other, "-o", tmp_path / "both.csv")
        assert code == 1 and "is another text in b.csv" in said and not (tmp_path / "both.csv").exists()

    def test_label_studio(self, tmp_path):
        """Its documented formats: tasks to import, a labelling configuration, and the JSON export of two annotators."""
        table = to_label(tmp_path)
        invoke("sample", tmp_path / "in.csv", "--text-column", "comment", "-o", tmp_path / "tasks.json")
        tasks = json.loads((tmp_path / "tasks.json").read_text("utf-8"))
        view = ElementTree.parse(tmp_path / "tasks.xml").getroot()
        assert view.find("Text").get("value") == "$comment" and view.find("Choices").get("toName") == "text"
        assert [one.get("value") for one in view.find("Choices")] == [*sorted(LABELS), "?"]

        def annotation(person, *names: str, **more) -> dict:
            value = {"type": "choices", "from_name": "label", "to_name": "text", "value": {"choices": [*names]}}
            return {"completed_by": person, "result": [value], **more}

        given = [("joy", "joy"), ("joy", "anger"), ("?", "?")]
        for task, (one, other) in zip(tasks, given, strict=False):
            task["annotations"] = [annotation(7, one), annotation({"id": 8, "email": "b@c.de"}, other)]
        tasks[3]["annotations"] = [annotation(7, "joy", was_cancelled=True)]
        (tmp_path / "export.json").write_text(json.dumps(tasks), encoding="utf-8")
        said = invoke("label", "--merge", tmp_path / "export.json", "-o", tmp_path / "both.csv")
        rows = read(tmp_path / "both.csv")
        assert [row["label"] for row in rows] == ["joy", "", "?", ""] and rows[1]["answer:export-b@c.de"] == "anger"
        assert [row["row"] for row in rows] == [row["row"] for row in read(table)] and "alpha" in said
        (tmp_path / "export.json").write_text('[{"comment": "a", "label": "joy"}]', encoding="utf-8")
        assert "not JSON-MIN" in fails("label", "--merge", tmp_path / "export.json", "-o", tmp_path / "c.csv")[1]


class TestPage:
    def test_refused(self, tmp_path):
        path = to_label(tmp_path)
        before = path.read_bytes()
        with serving(path) as server:
            own, answer = server.place, json.dumps({"row": 0, "answer": ["joy"]})
            for status, method, where, body, headers in (
                (403, "GET", own, None, {"Host": f"evil.example:{server.server_port}"}),
                (403, "POST", own + "answer", answer, {"Origin": "http://evil.example"}),
                (403, "POST", own + "answer", answer, {"Origin": "null"}),
                (404, "GET", "/", None, {}),
                (404, "GET", own + "../../etc/passwd", None, {}),
                (404, "POST", "/answer", answer, {}),
                (413, "POST", own + "answer", "x" * 2**17, {}),
                *((422, "POST", own + "answer", json.dumps(wrong), {}) for wrong in (
                    [], {"row": -1, "answer": ["joy"]}, {"row": 9, "answer": ["joy"]}, {"row": True, "answer": ["joy"]},
                    {"row": 0, "answer": ["=1"]}, {"row": 0, "answer": [["joy"]]}, {"row": 0, "answer": {}}, {"row": 0, "answer": ["joy", "joy"]},
                )),
            ):  # fmt: skip
                found = ask(server, method, where, body, **headers)
                assert found[0] == status, (where, body, found)
            assert path.read_bytes() == before
            assert ask(server, "POST", own + "answer", answer, Origin=server.url[: -len(own)])[0] == 200
        assert read(path)[0]["label"] == "joy"

    def test_several_labels_by_keyboard(self, tmp_path, visit):
        path = to_label(tmp_path, rows=5)
        rows = read(path)
        rows[0]["comment"] = HOSTILE
        rows[4] |= {"label": "joy", "answer:ann": HOSTILE}
        write(path, [row | {"answer:ann": row.get("answer:ann", "joy")} for row in rows])
        labels = lambda: [row["label"] for row in read(path)]  # noqa: E731
        with serving(path) as server:
            seen = visit(server.url)
            tab, text = seen.tab, seen.tab.locator("#text")
            shown = lambda number: text.filter(has_text=rows[number]["comment"]).wait_for()  # noqa: E731
            shown(0)
            assert (
                "1 of 5" in tab.locator("#count").inner_text()
                and tab.get_by_role("button", name="anger").get_attribute("aria-pressed") == "false"
            )
            tab.keyboard.press("1")
            assert tab.get_by_role("button", name="anger").get_attribute("aria-pressed") == "true"
            tab.keyboard.type("jo")
            tab.keyboard.press("Enter")
            assert labels()[0] == ""  # not before it is confirmed
            tab.keyboard.press("Enter")
            shown(1)
            assert labels()[0] == "anger|joy"
            tab.keyboard.press("Enter")
            assert "Choose a label" in tab.get_by_role("alert").inner_text() and labels()[1] == ""
            tab.keyboard.press("Escape")
            assert not tab.get_by_role("alert").is_visible()
            tab.keyboard.press("0")
            shown(2)
            tab.keyboard.press("?")
            shown(3)
            assert labels() == ["anger|joy", "neutral", "?", "", "joy"]
            tab.keyboard.press("Control+z")
            shown(2)
            assert labels()[2] == ""
            tab.reload()  # an ended session goes on
            shown(2)
            tab.keyboard.type("an")
            tab.keyboard.press("2")  # of those that begin so
            tab.get_by_role("button", name="next").click()
            shown(3)
            tab.get_by_role("button", name="cannot tell").click()
            text.filter(has_text="All texts are labelled").wait_for()
            assert labels() == ["anger|joy", "neutral", "annoyance", "?", "joy"]
            assert seen.complaints == [] and all(
                one.startswith(server.url) or one.startswith("data:") for one in seen.asked
            )
            assert tab.evaluate("[typeof window.hacked, localStorage.length]") == ["undefined", 0]

    def test_one_label_on_a_phone(self, tmp_path, visit):
        """A tap answers; and what cannot be saved is said, and stays on the page."""
        path = to_label(tmp_path)
        with serving(path, several=False) as server:
            phone = {"viewport": {"width": 360, "height": 640}, "has_touch": True, "is_mobile": True}
            tab = visit(server.url, color_scheme="dark", **phone).tab
            first = tab.locator("#text").inner_text()
            tab.get_by_role("button", name="joy").tap()
            tab.get_by_text("Saved: joy.").wait_for()
            assert read(path)[0]["label"] == "joy" and tab.locator("#text").inner_text() != first
            assert tab.evaluate("document.documentElement.scrollWidth") <= 360
            assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(23, 23, 27)"
            os.utime(path, (1, 1))
            second = tab.locator("#text").inner_text()
            tab.get_by_role("button", name="joy").tap()
            tab.get_by_text("Not saved: another program has changed to_label.csv").wait_for()
            assert tab.locator("#text").inner_text() == second and "1 of 4" in tab.locator("#count").inner_text()
