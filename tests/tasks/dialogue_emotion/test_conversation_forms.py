# SPDX-License-Identifier: Apache-2.0
"""Conversations in the forms that people have: what is read, whose names are masked, and the strips."""

import json

import pytest
from html_page import Page
from model_cases import BY_ID
from toolkit_helpers import invoke
from transformers import pipeline

from hf_emotion import DialoguePredictor, read_conversations
from hf_emotion.data.conversations import as_table
from hf_emotion.serving.bulk import _identity
from hf_emotion.tasks.dialogue_emotion.showing import signs, strips


pytest_plugins = ["toolkit_fixtures"]
pytestmark = pytest.mark.usefixtures("single_thread")

VTT = """WEBVTT

NOTE a note

1
00:00:01.000 --> 00:00:03.000 align:start
<v Ana Souza>I waited two hours
and then</v>

2
00:00:03.000 --> 00:00:05.000
<v Ana Souza>nobody came &amp; I <3 <i>waiting</i>.</v>

00:06.000 --> 00:07.000
<v.loud Ben>Sorry, Ana!</v>
<v Ana Souza>Fine.

00:08.000 --> 00:09.000
[door slams]
"""
SRT = "1\n00:00:01,000 --> 00:00:03,000\n- Where were you?\n- At work.\n\n2\n00:00:04,000 --> 00:00:05,000\n<i>You always\nsay that</i>\n\n"
SRT += "3\n00:00:06,000 --> 00:00:07,000\nand lie.\n\n4\n00:00:08,000 --> 00:00:09,000\n42\n"
ANDROID = """31/12/2023, 23:59 - Messages and calls are end-to-end encrypted. Tap to learn more.
31/12/2023, 23:59 - Ana changed the subject to “Trip: Rome”
31/12/2023, 23:59 - Ana: Happy new year 🎉

with love: me
1/1/2024, 00:01 - Ben: <Media omitted>
1/1/2024, 00:02 - +49 170 1: IMG-1.jpg (file attached)
1/1/2024, 00:02 - +49 170 1: שלום ana <This message was edited>
"""
IOS = "\u200e[31.12.23, 23:59:59] Trip: \u200eMessages and calls are end-to-end encrypted.\n[31.12.23, 23:59:59] ~\u202fAna: Hi: you\n"
CHAT = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": [{"type": "text", "text": "Where is\nit?"}, {"type": "image_url"}]},
    {"role": "assistant", "content": None, "tool_calls": []},
    {"role": "assistant", "content": "Late.", "timestamp": 7},
]
READ = {
    "call.vtt": (
        VTT,
        [
            ("00:00:01.000", "Ana Souza", "I waited two hours and then nobody came & I <3 waiting."),
            ("00:06.000", "Ben", "Sorry, Ana!"),
            ("00:06.000", "Ana Souza", "Fine."),
        ],
    ),
    "names.vtt": (
        "WEBVTT\n\n00:01.000 --> 00:02.000\nAna: Look: it broke\nBen: Oh\n\n00:02.000 --> 00:03.000\nno.\n",
        [("00:01.000", "Ana", "Look: it broke"), ("00:01.000", "Ben", "Oh no.")],
    ),
    "film.srt": (
        SRT,
        [
            *[("00:00:01,000", None, text) for text in ("Where were you?", "At work.")],
            ("00:00:04,000", None, "You always say that and lie."),
            ("00:00:08,000", None, "42"),
        ],
    ),
    "android.txt": (
        ANDROID,
        [
            ("31/12/2023, 23:59", "Ana", "Happy new year 🎉 with love: me"),
            ("1/1/2024, 00:02", "+49 170 1", "שלום ana"),
        ],
    ),
    "ios.txt": (IOS, [("31.12.23, 23:59:59", "Ana", "Hi: you")]),
    "lines.txt": ("Ana: I won!\nBen: No way!\n", [(None, "Ana", "I won!"), (None, "Ben", "No way!")]),
    "chat.json": (json.dumps(CHAT), [(None, "user", "Where is it?"), ("7", "assistant", "Late.")]),
    "table.csv": ("dialogue,speaker,utterance\ntable,Ana,Hi\n", [(None, "Ana", "Hi")]),
}


def write(path, text: str, end: str = "\n"):
    path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", end).encode())
    return path


def spoken(found: list) -> list[tuple]:
    assert [turn["turn"] for turn in found] == [*range(1, len(found) + 1)]
    return [(turn["start"], turn["speaker"], turn["utterance"]) for turn in found]


class TestForms:
    @pytest.mark.parametrize("name", READ)
    @pytest.mark.parametrize("end", ["\n", "\r\n"])
    def test_read(self, tmp_path, name, end):
        text, expected = READ[name]
        ((found, turns),) = read_conversations(write(tmp_path / name, text, end)).items()
        assert found == name.partition(".")[0] and spoken(turns) == expected

    @pytest.mark.parametrize(
        "stamp",
        [
            "12/31/23, 11:59\u202fPM - ",
            "31/12/23 11:59 p. m. - ",
            "[31.12.23, 23:59:59] ",
            "2023-12-31, 23:59 - ",
            "31.12.2023 klo 23.59 - ",
            "31/12/2023 à 23:59 - ",
            "[2023. 12. 31. 오후 11:59:59] ",
            "[23:59, 31/12/2023] ",
            "\u200f٣١\u200f/١٢\u200f/٢٠٢٣، ١١:٥٩ م - ",
        ],
    )
    def test_dates_of_whatsapp(self, tmp_path, stamp):
        (turns,) = read_conversations(write(tmp_path / "a.txt", f"{stamp}Ana: Hi\nyou\n")).values()
        assert [(turn["speaker"], turn["utterance"]) for turn in turns] == [("Ana", "Hi you")]

    @pytest.mark.parametrize(
        ("voice", "name"),
        [
            ("Smith &amp; Co", "Smith & Co"),
            ("1", "1"),
            ("Ana  de Souza ", "Ana de Souza"),
            ("Ana de Souza e Silva", "Ana de Souza e Silva"),
        ],
    )
    def test_voices(self, tmp_path, voice, name):
        cues = "".join(
            f"00:0{n}.000 --> 00:0{n}.900\n<v {voice}>{said}\n\n" for n, said in enumerate(["Hi.", "[laughs]"])
        )
        (turns,) = read_conversations(write(tmp_path / "a.vtt", f"WEBVTT\n\n{cues}")).values()
        assert [(turn["speaker"], turn["utterance"]) for turn in turns] == [(name, "Hi.")]

    def test_several(self, tmp_path, caplog):
        write(tmp_path / "b.json", json.dumps([CHAT, {"messages": CHAT}, CHAT[:1]]))
        write(tmp_path / "b-1.txt", "Ana: Hi\n")
        found = read_conversations(tmp_path)
        assert list(found) == ["b-1", "b-1'", "b-2"] and "'b-3' is left out" in caplog.text

    def test_an_error_names_all_bad_files_of_a_folder(self, tmp_path):
        for name, text in (("a.vtt", "Hi"), ("b.txt", "Ana: Hi\n"), ("c.json", "{")):
            write(tmp_path / name, text)
        with pytest.raises(
            ValueError, match=r"^2 of 3 files cannot be read: .*\n.*a\.vtt has no cues.*\n.*c\.json: no valid"
        ):
            read_conversations(tmp_path)

    @pytest.mark.parametrize(
        ("name", "text", "message"),
        [
            ("a.txt", "\n", "a.txt is empty"),
            ("a.vtt", "WEBVTT\n\nHi\n", "has no cues"),
            ("a.txt", "Sunday 5 May - Ana, hi\n", "begins neither with a date.*one per line.*< .*a.txt"),
            ("a.txt", ANDROID.split("\n")[0], "nobody says anything in .*a.txt"),
            ("a.json", '{"a": 1}', "has no messages: expected"),
            ("a.json", '[{"text": "Hi"}]', "has no messages: .* a table of texts as .jsonl"),
            ("a.json", '{"a":', "no valid JSON"),
            ("a.json", '[{"role": "user", "content": 3}]', "the content of a message must be text"),
            ("a.csv", "dialogue,text\n1,Hi\n", "need the columns 'dialogue' and 'utterance'"),
        ],
    )
    def test_errors(self, tmp_path, name, text, message):
        with pytest.raises(ValueError, match=message):
            read_conversations(write(tmp_path / name, text))


class TestMasks:
    def masked(self, path, text: str):
        ((name, turns),) = read_conversations(write(path, text), mask_speakers=True).items()
        return name, [(turn["speaker"], turn["utterance"]) for turn in turns]

    def test_names_in_turns_and_in_the_name(self, tmp_path):
        text = "Ana de Souza: Will you come, will?\nWill: Anabel, ANA's here. Souza! de\nCustomer: The customer, Will\nAna de Souza: ana de souza\n"
        assert self.masked(tmp_path / "Chat_with_Will.txt", text) == (
            "Chat_with_Speaker 2",
            [
                ("Speaker 1", "Speaker 2 you come, will?"),
                ("Speaker 2", "Anabel, Speaker 1's here. Speaker 1! de"),
                ("Customer", "The customer, Speaker 2"),
                ("Speaker 1", "Speaker 1"),
            ],
        )

    def test_forms_of_characters(self, tmp_path):
        assert self.masked(tmp_path / "a.txt", "Jose\u0301: Hi\nBen: Jos\u00e9!\n")[1][1] == (
            "Speaker 2",
            "Speaker 1!",
        )


def test_strips():
    labels = ["neutral", "surprise", "sadness", "frustration", "fear", "anger"]
    assert "".join(signs(labels)[label][0] for label in labels) == "-USRFA"
    turns = [
        {"speaker": name, "label": label} for name, label in zip("ABA", ["anger", "surprise", "neutral"], strict=True)
    ]
    head, first, second, meaning = strips(turns, labels)
    assert (head, first.text, second.text) == ("turn  1", "A     A -", "B      U")
    assert meaning == "- neutral, U surprise, A anger"
    assert [(start, end) for start, end, _ in first.marks] == [(6, 7), (8, 9)]
    assert len(strips(turns * 30, labels)) == 2 * 3 + 1


def test_commands(tmp_path, tokenizer, monkeypatch):
    """A table, strips and a page; names stay out of all of them."""
    model, calls = tmp_path / "model", tmp_path / "calls"
    predictor = DialoguePredictor(BY_ID["dialogue-model"].build(), tokenizer)
    pipeline("dialogue-emotion", model=predictor.model, tokenizer=tokenizer, device="cpu").save_pretrained(model)
    calls.mkdir()
    write(calls / "one.vtt", VTT.replace("Sorry", "<c>&lt;script&gt;</c>"))
    write(calls / "two.txt", "Zoe: a day\nZoe: the sun\n")
    options = ["--input", str(calls), "--mask-speakers"]
    table, page = tmp_path / "out.csv", tmp_path / "out.html"
    invoke("predict", str(model), *options, "--output", str(table))
    header, first, *rows = table.read_text().splitlines()
    assert header.startswith("dialogue,turn,start,speaker,utterance,predicted_labels,predicted_scores")
    assert first.startswith("one,1,00:00:01.000,Speaker 1,") and len(rows) == 4
    strip = invoke("predict", str(model), *options, "--strip")
    invoke("predict", str(model), *options, "--output", str(page))
    text = page.read_text()
    assert "Speaker 2" in Page(text).text and "<script>" in Page(text).text and "<script" not in text
    for shown in (table.read_text(), str(strip), text):
        assert "Ana" not in shown and "Zoe" not in shown


def test_an_interrupted_job_knows_its_table_again(tmp_path):
    found = read_conversations(write(tmp_path / "a.txt", "Ana: Hi\n"))
    jobs = []
    for _ in range(2):
        with as_table(found) as table:
            jobs.append(_identity(table))
    assert jobs[0] == jobs[1]
