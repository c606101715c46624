# SPDX-License-Identifier: Apache-2.0
"""Terms: words and tags of a text, own files, figures, and the predictor with the ways that lead to it."""

import os
import random

import numpy as np
import pandas as pd
import pytest
import torch
from hf_emotion.modeling import text_processing as tp
from model_cases import TINY_BERT, asymmetric_
from served import running
from tokenizers import Tokenizer, models, pre_tokenizers
from toolkit_helpers import assert_close, cells, invoke, targeted_recipe, write_csv, write_jsonl
from transformers import AutoTokenizer, BertConfig, BertForTokenClassification, PreTrainedTokenizerFast, pipeline

from hf_emotion import AspectPredictor, evaluate, explain, load_dataset_for, train
from hf_emotion.runtime.remote import Client
from hf_emotion.tasks.aspect_extraction import TASK, grouping
from hf_emotion.tasks.aspect_extraction.evaluating import term_figures
from hf_emotion.tasks.checkpoints import save_model


pytest_plugins = ["toolkit_fixtures"]
LABELS = ["positive", "negative", "neutral"]
TAGS = tp.term_tags(LABELS)
TEXTS = [
    "The pizza was cold but our waiter was lovely.",
    "the sun, the sun and the sun again",
    "so happy 🍕🍕 and 👩\u200d🍳 👍🏽 today!",
    "cafe\u0301 x\u0302y is na\u00efve \u0939\u093f\u0928\u094d\u0926\u0940",
    " \t a day \u00a0 at home\n",
    "wait-staff's ‘menu’ (fish&chips)",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, base_bert):
    """A checkpoint with random weights so large that it finds many terms."""
    tokenizer = AutoTokenizer.from_pretrained(base_bert, model_max_length=24)
    names = {"id2label": dict(enumerate(TAGS)), "label2id": {t: i for i, t in enumerate(TAGS)}}
    config = BertConfig.from_pretrained(base_bert, **names)
    model = asymmetric_(BertForTokenClassification(config), seed=3).eval()
    with torch.no_grad():
        model.classifier.weight.mul_(8)
    model.config.calibration_temperature = 2.0
    place = tmp_path_factory.mktemp("terms") / "run"
    save_model(model, tokenizer, place)
    return place


@pytest.fixture(scope="module")
def predictor(folder):
    return AspectPredictor(folder)


def test_words_are_runs_of_letters_with_their_marks():
    found = [[text[start:end] for start, end in tp.term_words(text)] for text in TEXTS[2:]]
    assert found == [
        ["so", "happy", "🍕", "🍕", "and", "👩\u200d🍳", "👍🏽", "today", "!"],
        ["cafe\u0301", "x\u0302y", "is", "na\u00efve", "\u0939\u093f\u0928\u094d\u0926\u0940"],
        ["a", "day", "at", "home"],
        ["wait", "-", "staff", "'", "s", "‘", "menu", "’", "(", "fish", "&", "chips", ")"],
    ]


def test_the_words_of_a_term_decide_its_label_together():
    row = lambda **own: [own.get(tag.replace("-", "_"), 0.0) for tag in TAGS]  # noqa: E731
    rows = [
        row(B_negative=0.5, B_positive=0.4, O=0.1),
        row(I_positive=0.8, I_negative=0.2),
        row(O=0.45, B_positive=0.3, B_neutral=0.25),  # begins one only if the labels are added up
        row(O=0.9, I_positive=0.1),
        row(I_negative=0.6, O=0.4),  # nothing is open to be continued
        row(B_negative=1.0),
    ]
    found = [f"{first}-{last} {label} {score:.3f}" for first, last, label, score in tp.find_terms(rows, TAGS)]
    assert found == ["0-2 positive 0.600", "2-3 positive 0.300", "4-5 negative 0.600", "5-6 negative 1.000"]


@pytest.mark.parametrize(
    ("text", "found", "term"),
    [
        ("The “pizza” was cold.", "“pizza”", "pizza"),
        ("Die „Pizza“ war kalt.", "„Pizza“", "Pizza"),
        ("La « pizza » est froide.", "« pizza »", "pizza"),
        ("the ((pizza)) here", "((pizza))", "pizza"),
        ("「ピザ」は", "「ピザ」", "ピザ"),
        ('the "Roy\'s Classics" are', '"Roy\'s Classics"', "Roy's Classics"),
        ("the “pizza (large)” was", "“pizza (large)”", "pizza (large)"),
        ('my "Windows 7" pc', 'Windows 7"', "Windows 7"),
        ('a 17" screen', '17"', '17"'),
        ("our maitre d' was", "maitre d'", "maitre d'"),
        ("the 'gourmet' food", "'gourmet' food", "'gourmet' food"),
        ("“Deluxe” and “Basic” rooms", "“Deluxe” and “Basic”", "“Deluxe” and “Basic”"),
        ("she said “ ” again", "“ ”", None),
    ],
)
def test_quotation_marks_and_brackets_around_a_term_are_none_of_it(text, found, term):
    words, place = tp.term_words(text), text.index(found)
    inside = [i for i, (start, _) in enumerate(words) if place <= start < place + len(found)]
    terms = tp.term_entries(text, words, [(inside[0], inside[-1] + 1, "positive", 0.5)])
    assert (
        [text[one["start"] : one["end"]] for one in terms]
        == [one["term"] for one in terms]
        == ([term] if term else [])
    )


def conlleval(tags: list[str]) -> set[tuple[int, int, str]]:
    """The chunks of BIO tags, as conlleval and seqeval read them."""
    chunks, start, kind = set(), None, None
    for place, tag in enumerate([*tags, "O"]):
        ends = tag == "O" or tag[0] == "B" or tag[2:] != kind
        if start is not None and ends:
            chunks.add((start, place, kind))
            start = None
        if tag != "O" and start is None:
            start, kind = place, tag[2:]
    return chunks


def test_figures_equal_those_of_strict_chunks():
    draw = random.Random(1)

    def sequence(words: int) -> list[str]:
        tags: list[str] = []
        for _ in range(words):
            inside = tags and tags[-1] != "O" and draw.random() < 0.5
            tags.append(f"I-{tags[-1][2:]}" if inside else draw.choice(["O", *(f"B-{label}" for label in LABELS)]))
        return tags

    gold, found = ([sequence(12) for _ in range(40)] for _ in range(2))
    ids = [np.array([TAGS.index(tag) for tag in tags]) for tags in gold]
    scores = [np.eye(len(TAGS))[[TAGS.index(tag) for tag in tags]] for tags in found]
    figures = term_figures(ids, scores, TAGS)
    for name, part in (("pair", slice(3)), ("term", slice(2))):
        chunks = lambda all_tags: {(row, *c[part]) for row, tags in enumerate(all_tags) for c in conlleval(tags)}  # noqa: B023, E731
        true, ours = chunks(gold), chunks(found)
        precision, recall = len(true & ours) / len(ours), len(true & ours) / len(true)
        expected = {"precision": precision, "recall": recall, "f1": 2 * precision * recall / (precision + recall)}
        assert {measure: figures[f"{name}_{measure}"] for measure in expected} == pytest.approx(expected)
    assert 0 < figures["pair_f1"] < figures["term_f1"] < 1


def test_polarity_is_asked_at_the_gold_places():
    """Of a gold term that is not found, too: what its words say most among the labels."""
    scores = np.zeros((2, len(TAGS)))
    scores[:, 0] = 0.9
    scores[0, TAGS.index("B-neutral")], scores[1, TAGS.index("I-negative")] = 0.04, 0.06
    gold = [np.array([TAGS.index("B-negative"), TAGS.index("I-negative")])]
    figures = term_figures(gold, [scores], TAGS)
    assert figures["polarity_accuracy"] == 1 and figures["term_recall"] == 0


SUN = {"start": 4, "end": 7, "label": "a"}
RAIN = "text,term,label\nthe rain,rain,b\n"
FOOD = {"start": 2, "end": 12, "term": "cafe\u0301 food", "label": "negative"}
ROWS = [
    {"text": "the sun, the sun is joy", "terms": [{"start": 13, "end": 16, "label": "positive"}]},
    {"text": "☕ cafe\u0301 food is bad", "terms": [FOOD]},
    {"text": "a day", "terms": []},
]


def write(folder, name: str, content: str):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(content, encoding="utf-8")
    return folder


def load(folder, **options):
    return load_dataset_for("term_files", folder, **{"validation_fraction": 0.0, **options})


class TestOwnFiles:
    def test_all_forms_of_own_files_give_the_same_rows(self, tmp_path):
        text = ROWS[0]["text"]
        write_jsonl(tmp_path / "spans" / "train.jsonl", ROWS)
        rows = f'text,term,label,start\n"{text}",sun,positive,13\n☕ cafe\u0301 food is bad,cafe\u0301 food,negative,2\na day,,,\n'
        tokens = "the O|sun O|, O|the O|sun B-positive|is O|joy O||☕ O|cafe\u0301 B-negative|food I-negative|is O|bad O||a O|day O|"
        conll = write(tmp_path / "conll", "train.conll", tokens.replace("|", "\n"))
        first = load(tmp_path / "spans", labels=LABELS)["train"]
        second = load(write(tmp_path / "rows", "train.csv", rows), labels=LABELS, start_column="start")["train"]
        third = load(conll, labels=LABELS)["train"]
        assert first["labels"] == second["labels"] == third["labels"] and first["text"] == second["text"]
        names = first.features["labels"].feature.names
        assert names == TAGS
        found = []
        for row in first:
            places = zip(row["words"], row["labels"], strict=True)
            found += [(row["text"][slice(*place)], names[tag]) for place, tag in places if tag]
        assert found == [("sun", "B-positive"), ("cafe\u0301", "B-negative"), ("food", "I-negative")]
        # Without a start the second row of a term means its second place.
        again = f'text,term,label\n"{text}",sun,neutral\n"{text}",sun,positive\n'
        (row,) = load(write(tmp_path / "again", "train.csv", again), labels=LABELS)["train"]
        assert [names[tag] for tag in row["labels"]] == ["O", "B-neutral", "O", "O", "B-positive", "O", "O"]

    def test_bad_spans_are_named_with_their_line(self, tmp_path):
        for terms, message in (
            ([{**SUN, "start": 0}, SUN], "'sun' \\(4 to 7\\) overlaps"),
            ([{**SUN, "end": 99}], "must lie in the text \\(0 to 14\\), got start 4, end 99"),
            ([{**SUN, "end": 4}], "must lie in the text"),
            ([{**SUN, "start": "4"}], "must lie in the text"),
            ([{**SUN, "start": 3, "end": 4}], "blank"),
            ([{**SUN, "term": "rain"}], "has 'sun', and not the term 'rain'"),
            ([{"start": 4, "label": "a"}], "start, end and label"),
            ("sun", "must be a list"),
        ):
            write_jsonl(tmp_path / "train.jsonl", [{"text": "the sun is joy", "terms": own} for own in ([SUN], terms)])
            with pytest.raises(ValueError, match=f"train.jsonl, line 2: .*{message}"):
                load(tmp_path)
            assert len(load(tmp_path, on_bad_rows="skip")["train"]) == 1

    def test_labels_that_look_alike_are_named(self, tmp_path, caplog):
        rows = "text,term,label\nthe sun is joy,sun,Good\na day,day,good \nrain,rain,good\n"
        data = load(write(tmp_path, "train.csv", rows))["train"]
        assert data.features["labels"].feature.names == tp.term_tags(["Good", "good"])
        assert "differ only in case" in caplog.text and "'Good' and 'good'" in caplog.text

    def test_the_parts_may_have_different_forms_and_know_the_same_labels(self, tmp_path):
        write(tmp_path, "train.conll", "the O\nsun B-a\n\na O\nday B-b\n")
        data = load(write(tmp_path, "test.csv", "text,term,label\nthe rain,rain,b\n"))
        assert [rows["text"][:] for rows in data.values()] == [["the sun", "a day"], ["the rain"]]

    def test_files_that_are_refused(self, tmp_path):
        for files, options, message in (
            ({}, {"labels": ["a", "c"]}, r"test.csv, line 2: unknown label 'b'; the labels are \['a', 'c'\]"),
            ({}, {"labels": "ab"}, "`labels` must be a list of names, got the string 'ab'"),
            ({}, {"labels": ["good", "good"]}, "`labels` must be different names"),
            ({"train.csv": RAIN}, {}, "more than one file for the split 'train'"),
            ({"test.csv": f"{RAIN}the sun,rain,b\n"}, {}, "line 3: the term 'rain' is not at that place"),
            ({"train.conll": "the O\nsun B-a\n\nthe sun\n"}, {}, "line 4: a line must be a token and its tag"),
        ):
            folder = tmp_path / str(len(os.listdir(tmp_path)))
            for name, content in ({"train.conll": "the O\nsun B-a\n", "test.csv": RAIN} | files).items():
                write(folder, name, content)
            with pytest.raises(ValueError, match=message):
                load(folder, **options)


class TestPredictor:
    def test_a_term_is_what_stands_in_its_place(self, predictor):
        draw = random.Random(2)
        parts = [*" ".join(TEXTS).split(), "🍕", "\u0301", "\u200d", "\u0085", "zebra" * 9]

        drawn = lambda: "".join(draw.choice(parts) + draw.choice(["", " ", "  "]) for _ in range(draw.randint(1, 60)))  # noqa: E731
        texts = [text for text in (*TEXTS, *(drawn() for _ in range(60))) if tp.is_readable(text)]
        results, unread = predictor.predict(texts)
        lengths = [len(ids) for ids in predictor.tokenizer(texts)["input_ids"]]
        assert max(lengths) > 24 > min(lengths) and not unread.truncated.any()
        terms = [(text, term) for text, own in zip(texts, results, strict=True) for term in own]
        assert len(terms) > 100 and {term["label"] for _, term in terms} == set(LABELS)
        for text, term in terms:
            assert text[term["start"] : term["end"]] == term["term"] and term["term"].strip() == term["term"] != ""
            assert 0 < term["score"] <= 1
        for own in results:
            assert all(one["end"] <= other["start"] for one, other in zip(own, own[1:], strict=False))
        # One text alone gets the same answer, and so does the pipeline.
        pipe = pipeline("aspect-extraction", model=predictor.model, tokenizer=predictor.tokenizer)
        names = ("start", "end", "label", "score")
        for text, own in zip(texts[:24], results, strict=False):
            for found in (predictor(text)[0], pipe(text)):
                assert_close(*([[term[name] for name in names] for term in terms] for terms in (found, own)))

    def test_a_frame_has_a_row_for_each_term(self, predictor):
        series = pd.Series(TEXTS, index=list("abcdef"))
        found = predictor(series)
        found.insert(0, [])  # a text without terms has no row
        found.index = pd.Index(["z", *series.index])
        terms = [(key, term["term"]) for key, own in zip(found.index, found, strict=True) for term in own]
        assert len(terms) > len(TEXTS) and list(found.to_frame()["term"].items()) == terms

    def test_a_long_text_is_read_to_its_end(self, predictor):
        """Each word has the probabilities of one window alone: here the last one, of 22 words and two special tokens."""
        text = "the sun is joy. the rain was sad, " * 3_000 + "my home is joy"
        (terms,), unread = predictor.predict(text)
        assert unread.truncated.tolist() == [False]
        words, raw = tp.term_words(text), predictor.probabilities([text], raw=True)
        assert [len(ids) for ids in predictor.tokenizer([text[words[-22][0] :]])["input_ids"]] == [24]
        alone = predictor.probabilities([text[words[-22][0] :]], raw=True)
        np.testing.assert_allclose(raw[-8:], alone[-8:], atol=1e-5)
        np.testing.assert_allclose(raw[:12], predictor.probabilities([text[: words[22][0]]], raw=True)[:12], atol=1e-5)
        assert all(text[term["start"] : term["end"]] == term["term"] for term in terms) and terms[-1]["end"] > 90_000
        assert not (raw == np.eye(len(TAGS))[0]).all(axis=1).any()  # no word is left out

    def test_the_checkpoint(self, folder, predictor):
        raw, calibrated = predictor.probabilities(TEXTS[:2], raw=True), predictor.probabilities(TEXTS[:2])
        powers = np.sqrt(np.float64(raw))  # of the temperature 2
        np.testing.assert_allclose(calibrated, powers / powers.sum(axis=1, keepdims=True), atol=1e-5)
        assert repr(predictor) == f"AspectPredictor({str(folder)!r}: 3 labels, one at once; max_length=24)"
        # Transformers alone reads the model, too.
        assert {item["entity"] for item in pipeline("token-classification", model=str(folder))(TEXTS[0])} <= set(TAGS)

    def test_an_empty_text_and_other_models_are_refused(self, predictor, tiny_run):
        with pytest.raises(ValueError, match="text 2 of 2 is empty"):
            predictor(["a day", " "])
        with pytest.raises(ValueError, match="`top_k` is for emotions"):
            predictor.of_items(["a day"], top_k=2)
        with pytest.raises(ValueError, match="model for emotion-classification"):
            AspectPredictor(tiny_run)

    def test_gradients_are_those_of_the_term_that_is_asked_for(self, predictor):
        terms = [term["term"] for term in predictor(TEXTS[0])[0]]
        assert terms
        found = explain(predictor, TEXTS[0], targets=terms[:1], method="occlusion")
        assert [row.split(":")[0] for row in found.maps[0].rows] == terms[:1]
        for heat in explain(predictor, TEXTS[0]).maps:
            assert len(heat.rows) == len(terms) and np.isfinite(heat.values).all() and heat.values.max() == 1
        with pytest.raises(ValueError, match="targets"):
            explain(predictor, TEXTS[0], targets=["nothing"])

    def test_a_text_in_decomposed_characters_is_explained_as_it_is_read(self):
        """Pieces of bytes: another form of a character has another number of tokens."""
        special = ["<unk>", "<pad>", "<mask>"]
        pieces = [*special, *sorted(pre_tokenizers.ByteLevel.alphabet())]
        bpe = Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, [], unk_token="<unk>"))
        bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        bpe.add_special_tokens(special)
        names = {"unk_token": "<unk>", "pad_token": "<pad>", "mask_token": "<mask>"}
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, model_max_length=30, **names)
        config = BertConfig(**{**TINY_BERT, "vocab_size": len(tokenizer), "id2label": dict(enumerate(TAGS))})
        model = asymmetric_(BertForTokenClassification(config), seed=3).eval()
        with torch.no_grad():
            model.classifier.bias[TAGS.index("B-positive")] = 9
        text = "cafe\u0301 cafe\u0301 sun"
        (heat,) = explain(AspectPredictor(model, tokenizer), text, method="occlusion").maps
        assert heat.rows == ["cafe\u0301: positive", "cafe\u0301: positive", "sun: positive"]
        assert heat.columns == ["cafe", "\u0301", "cafe", "\u0301", "sun"]  # the tokenizer's own words

        def logit(*left_out: int) -> float:
            ids = tokenizer(text, return_tensors="pt")["input_ids"]
            ids[0, list(left_out)] = tokenizer.mask_token_id
            with torch.inference_mode():
                return model(ids).logits[0, 14, TAGS.index("B-positive")].item()

        # Of six bytes for the first word and seven for the second one, which begins with its blank, two are the accent.
        assert heat.values[2, 2] == pytest.approx(logit() - logit(6, 7, 8, 9, 10), abs=1e-4)

    def test_groups_are_named_by_their_most_frequent_term(self, monkeypatch):
        monkeypatch.setattr(
            grouping, "_clusters", lambda terms: [int(term not in ("staff", "waiter")) for term in terms]
        )
        make = lambda *pairs: [{"term": term, "label": label} for term, label in pairs]  # noqa: E731
        results = [
            make(("waiter", "negative"), ("Staff", "positive")),
            make(("staff", "positive"), ("soup", "negative")),
        ]
        table = grouping.group_terms(results)
        assert table.header == ["group", "terms", "positive", "negative", "its terms"]
        assert table.rows == [["staff", "3", "2", "1", "staff, waiter"], ["soup", "1", "0", "1", "soup"]]
        assert [[term["group"] for term in terms] for terms in results] == [["staff", "staff"], ["staff", "soup"]]

    def test_several_texts_get_a_line_each_and_one_a_table(self, folder, predictor):
        texts = ["the sun\tis joy", "a day at home"]
        shown = lambda terms: ", ".join("{term} {label} {score:.3f} {start}-{end}".format(**term) for term in terms)  # noqa: E731
        expected = [f"{text}\t{shown(terms) or '-'}" for text, terms in zip(texts, predictor(texts), strict=True)]
        lines = invoke("predict", folder, *texts, terminal=True).splitlines()
        assert lines == expected
        assert invoke("predict", folder, stdin="\n".join(texts), terminal=True).splitlines() == lines
        piped = [line.replace("sun\t", "sun ") for line in lines]
        assert invoke("predict", folder, *texts).splitlines() == piped
        assert invoke("predict", folder, texts[0]).splitlines() == piped[:1]
        one = invoke("predict", folder, texts[0], terminal=True)
        assert one.splitlines()[0] == texts[0] and len(cells(one)) == 1 + len(predictor(texts[0])[0]) > 1

    def test_the_service_gives_what_the_predictor_gives(self, folder, predictor):
        expected = predictor(TEXTS)
        with running([folder]) as (url, _):
            client = Client(url)
            assert client.about["labels"] == LABELS
            found, unread = TASK.remote(client).predict_quietly(TEXTS)
        for own, other in zip(found, expected, strict=True):
            for names in ("term", "start", "end", "label"):
                assert [term[names] for term in own] == [term[names] for term in other]
        assert not unread.truncated.any()

    def test_a_model_of_pairs_may_decide_the_sentiment(self, folder, predictor, base_bert, tmp_path, no_plots):
        cues = (("joy", "positive"), ("sad", "negative"), ("neutral", "neutral"))
        rows = [
            [f"the {term} is {cue}", "term", label] for term in ("sun", "day", "home", "rain") for cue, label in cues
        ]
        write_csv(tmp_path / "data" / "train.csv", ["text", "aspect", "label"], rows * 3)
        fields = {"model_type": None, "model_config": {"auxiliary_sentence": True}, "max_length": 24}
        recipe = targeted_recipe(base_bert, {"max_steps": 2}, name="pair", dataset="aspect_files", **fields)
        train(recipe, tmp_path / "pair", data_dir=tmp_path / "data")
        two = AspectPredictor(folder, sentiment_model=tmp_path / "pair")
        assert two.fingerprint() != predictor.fingerprint()  # another job of `predict_file`
        for text, ours, theirs in zip(TEXTS, predictor(TEXTS), two(TEXTS), strict=True):
            assert [(one["start"], one["end"]) for one in ours] == [(one["start"], one["end"]) for one in theirs]
            for term in theirs:
                encoded = two.sentiments.tokenizer(text, term["term"], return_tensors="pt")
                logits = two.sentiments.model(**encoded).logits[0] / tp.temperature_of(two.sentiments.model.config)
                assert term["score"] == pytest.approx(logits.softmax(0).max().item(), abs=1e-4)
        with pytest.raises(ValueError, match="a `sentiment_model` gives none"):
            evaluate(two, "term_files", data_dir=tmp_path / "data")
        with pytest.raises(ValueError, match="is a model for aspect-extraction"):
            AspectPredictor(folder, sentiment_model=folder)
