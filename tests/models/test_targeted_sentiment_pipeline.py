# SPDX-License-Identifier: Apache-2.0
"""The pipeline `targeted-sentiment` against the model's own numbers on inputs that are written down by hand."""

import copy
from types import SimpleNamespace

import model_cases
import pytest
import torch
import transformers
from hf_emotion.modeling import CGBertConfig
from hf_emotion.modeling.text_processing import mark_targets, model_inputs, targets_in
from model_cases import ASPECTS, BY_ID, PLACES, SENTIMENTS, TARGETED_TEXTS, TINY_BERT, asymmetric_, make_tokenizer


PER_HEAD = "qacg-per-head-context-gate-bias"  # a model with targets, their texts, and auxiliary sentences

SENTIHOOD = {"targets": ["LOCATION1", "LOCATION2"], "target_texts": ["location - 1", "location - 2"]}
SENTIHOOD["aspects"] = ["general", "price", "safety", "transit-location"]
TEXT = "I am so happy, PLACE2 is not rain but sun! PLACE1"
PLAIN = "i am so happy , [UNK] is not rain [UNK] sun ! [UNK]"  # in the words of the vocabulary
MARKED = "i am so happy , home of anger is not rain [UNK] sun ! home of joy"


def build(name: str, **config):
    """A case's model, or a stock classifier whose config names targets and aspects: what the others are compared with."""
    if name != "stock":
        return BY_ID[name].build(**config)
    names = {"aspects": None, "targets": None, "target_texts": None, "auxiliary_sentence": False, **config}
    config = transformers.BertConfig(**TINY_BERT, **model_cases.SENTIMENT_NAMES, **names)
    return asymmetric_(transformers.BertForSequenceClassification(config)).eval()


def scores_of(model, words: str, auxiliary: str | None, context_id: int | None) -> dict[str, float]:
    """What the model gives for words of the vocabulary and an auxiliary sentence, alone and without padding."""
    first = ["[CLS]", *words.split(), "[SEP]"]
    second = [] if auxiliary is None else [*auxiliary.split(), "[SEP]"]
    inputs = {"input_ids": torch.tensor([[model_cases.VOCABULARY.index(word) for word in first + second]])}
    inputs["token_type_ids"] = torch.tensor([[0] * len(first) + [1] * len(second)])
    if context_id is not None:
        inputs["context_ids"] = torch.tensor([context_id])
    with torch.no_grad():
        return dict(zip(SENTIMENTS, model(**inputs).logits[0].softmax(-1).tolist(), strict=True))


def test_targets_in_separate_characters():
    """As macOS writes names; a model reads the text of the target instead."""
    config = CGBertConfig(num_contexts=1, aspects=["price"], targets=["CAF\u00c91"], target_texts=["location - 1"])
    for text in ("CAF\u00c91 is dear", "CAFE\u03011 is dear"):
        assert targets_in(config, text) == config.targets
        assert model_inputs(config, text, config.targets[0], "price")[0] == "location - 1 is dear"


def sentiment_pipeline(model, tokenizer, **arguments):
    return transformers.pipeline("targeted-sentiment", model=model, tokenizer=tokenizer, device="cpu", **arguments)


def assert_entries(entries: list[dict], expected: list[tuple[str | None, str, dict[str, float]]]) -> None:
    """Every (target, aspect, scores) in this order, with the most probable label."""
    for entry, (target, aspect, scores) in zip(entries, expected, strict=True):
        best = max(scores, key=scores.get)
        assert list(entry["scores"]) == list(SENTIMENTS)
        named = {"aspect": aspect, "label": best} | ({} if target is None else {"target": target})
        numbers = {"score": scores[best], "scores": scores}
        assert entry == named | {key: pytest.approx(value, rel=1e-4, abs=1e-6) for key, value in numbers.items()}


def auxiliaries(targets: list[str]) -> list[str]:
    """The auxiliary sentences of the targets that read like this; the dash is not in the vocabulary."""
    return [f"{target} [UNK] {aspect}" for target in targets for aspect in ASPECTS]


SECONDS = auxiliaries(PLACES["target_texts"])


@pytest.mark.parametrize(
    ("name", "config", "targets", "words", "seconds"),
    [
        ("cg", {}, [None], PLAIN, None),
        ("cg", {"auxiliary_sentence": True}, [None], PLAIN, list(ASPECTS)),
        ("cg-per-head-sigmoid-no-pooler-names", {}, PLACES["targets"], MARKED, SECONDS),
        ("cg-per-head-sigmoid-no-pooler-names", {"auxiliary_sentence": False}, PLACES["targets"], MARKED, None),
        ("qacg", {}, ["sun", "rain"], PLAIN, None),
        ("qacg", {"auxiliary_sentence": True}, ["sun", "rain"], PLAIN, auxiliaries(["sun", "rain"])),
        (PER_HEAD, {}, PLACES["targets"], MARKED, SECONDS),
        ("stock", PLACES, PLACES["targets"], MARKED, None),
        ("stock", {**PLACES, "auxiliary_sentence": True}, PLACES["targets"], MARKED, SECONDS),
        ("stock", {"aspects": list(ASPECTS), "auxiliary_sentence": True}, [None], PLAIN, list(ASPECTS)),
    ],
)
def test_results_are_the_model_s_own_numbers(tokenizer, name, config, targets, words, seconds):
    model = build(name, **config)
    expected = []
    for number, (target, aspect) in enumerate((target, aspect) for target in targets for aspect in ASPECTS):
        second = None if seconds is None else seconds[number]
        expected.append((target, aspect, scores_of(model, words, second, None if name == "stock" else number)))
    if name != "stock" or seconds is not None:
        assert len({tuple(scores.values()) for *_, scores in expected}) == len(expected), "equal scores hide a mix-up"
    assert_entries(sentiment_pipeline(model, tokenizer)(TEXT), expected)


def test_a_pass_for_each_target_answers_for_all_aspects(tokenizer):
    """The target that is asked about and the others have their own words; names within words stay."""
    model, read = build("label-aware-aspects", target_words=["sun", "rain"]), []
    expected = []
    for target, first, second in (("PLACE1", "sun", "rain"), ("PLACE2", "rain", "sun")):
        words = f"i am so happy , {second} is not rain [UNK] sun ! {first}"
        expected += [(target, a, scores_of(model, words, None, number)) for number, a in enumerate(ASPECTS)]
    model.register_forward_pre_hook(lambda _, args, kwargs: read.append(len(kwargs["input_ids"])), with_kwargs=True)
    classify = sentiment_pipeline(model, tokenizer)
    assert_entries(classify(TEXT), expected)
    assert_entries(classify(TEXT, targets=["PLACE2"], aspects=["calm", "joy"]), [expected[5], expected[3]])
    assert read == [2, 1]
    config = SimpleNamespace(label_attention="bilinear", aspects=["price"], targets=["Ann", "Bo"], target_texts=None)
    config.target_words = ["this one", "another one"]
    assert model_inputs(config, "Ann's annual fee, Bob, not Bo", "Bo", "price")[0] == (
        "another one's annual fee, Bob, not this one"
    )


@pytest.fixture
def classify(tokenizer):
    return sentiment_pipeline(build(PER_HEAD), tokenizer)


def pairs_of(entries: list[dict]) -> list[tuple[str | None, str]]:
    return [(entry.get("target"), entry["aspect"]) for entry in entries]


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("PLACE1 is calm", ["PLACE1"]),
        ("xPLACE2y is not", ["PLACE2"]),
        ("PLACE2 is not PLACE1", ["PLACE1", "PLACE2"]),
        ("the home of anger", ["PLACE2"]),
    ],
)
def test_targets_are_found_by_name_and_by_text(classify, text, targets):
    assert pairs_of(classify(text)) == [(target, aspect) for target in targets for aspect in ASPECTS]


def test_given_targets_and_aspects_replace_those_of_the_text_and_the_model(classify, tokenizer):
    entries = classify("PLACE1 sun", targets=PLACES["targets"])
    everything = dict(zip(pairs_of(entries), entries, strict=True))
    assert list(everything) == [(target, aspect) for target in PLACES["targets"] for aspect in ASPECTS]
    for arguments, pairs in (
        ({"targets": ["PLACE2"]}, [("PLACE2", aspect) for aspect in ASPECTS]),
        ({"targets": ["PLACE2", "PLACE1"], "aspects": ["calm"]}, [("PLACE2", "calm"), ("PLACE1", "calm")]),
        ({"aspects": ["calm", "joy"]}, [("PLACE1", "calm"), ("PLACE1", "joy")]),
    ):
        entries = classify("PLACE1 sun", **arguments)
        assert_entries(entries, [(*pair, everything[pair]["scores"]) for pair in pairs])
    classify = sentiment_pipeline(classify.model, tokenizer, targets=["PLACE2"], aspects=["fear"])
    assert pairs_of(classify("sun")) == [("PLACE2", "fear")]
    assert pairs_of(classify("sun", aspects=["joy"])) == [("PLACE2", "joy")]


def test_what_the_pipeline_refuses(classify):
    for text, arguments, message in (
        ("the sun", {}, r"(?s)none of the model's targets \['PLACE1', 'PLACE2'\].*pass `targets`.*'the sun'"),
        ("PLACE1", {"targets": ["PLACE3"]}, r"unknown target 'PLACE3': .* \['PLACE1', 'PLACE2'\]"),
        ("PLACE1", {"aspects": ["price"]}, r"unknown aspect 'price': .* \['joy', 'fear', 'calm'\]"),
        ("PLACE1", {"targets": "PLACE1"}, r"`targets` must be a list of names.*\['PLACE1'\]"),
        ("PLACE1", {"aspects": "joy"}, r"`aspects` must be a list of names.*\['joy'\]"),
        ("PLACE1", {"targets": []}, r"`targets` must be a list of names, at least one; got \[\]"),
        (" \n", {"targets": ["PLACE1"]}, "a text must be a string that is not empty"),
        (["PLACE1", ""], {}, "a text must be a string that is not empty, got ''"),
        (7, {}, "a text must be a string that is not empty, got 7"),
    ):
        with pytest.raises(ValueError, match=message):
            classify(text, **arguments)
    with pytest.raises(TypeError, match=r"\['target'\].*`targets` and `aspects`"):
        classify("PLACE1", target=["PLACE1"])


def test_models_without_targets_take_none_and_models_without_aspects_are_refused(tokenizer):
    classify = sentiment_pipeline(build("cg"), tokenizer)
    assert all("target" not in entry for entry in classify("PLACE1 is so calm"))
    assert pairs_of(classify("so calm", aspects=["fear"])) == [(None, "fear")]
    with pytest.raises(ValueError, match=r"'sun': .*targets are None, aspects \['joy', 'fear', 'calm'\]"):
        classify("sun", targets=["sun"])
    for model in (build("cg", aspects=None, num_contexts=3), build("stock")):
        with pytest.raises(ValueError, match="names no `aspects`"):
            sentiment_pipeline(model, tokenizer)("sun")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("inLOCATION1, not (LOCATION1).", "in location - 1, not (location - 1)."),
        ("LOCATION2 is LOCATION1LOCATION1", "LOCATION2 is location - 1 location - 1"),
        ("location1", "location1"),
    ],
)
def test_targets_are_marked_and_set_off(text, expected):
    marked = mark_targets(text, {"LOCATION1": "location - 1"})
    assert marked == expected
    assert mark_targets(marked, {"LOCATION1": "location - 1"}) == marked
    assert mark_targets(text, {"LOCATION1": "LOCATION1"}) == text


@pytest.mark.parametrize("auxiliary_sentence", [False, True])
def test_what_the_model_reads_for_every_pair(auxiliary_sentence):
    config = CGBertConfig(**SENTIHOOD, auxiliary_sentence=auxiliary_sentence)
    text = "LOCATION2 is dearer thanLOCATION1."
    marked = "location - 2 is dearer than location - 1."
    for number, (target, aspect) in enumerate((t, a) for t in config.targets for a in config.aspects):
        auxiliary = f"location - {target[-1]} - {aspect}" if auxiliary_sentence else None
        assert model_inputs(config, text, target, aspect) == (marked, auxiliary, number)
        assert model_inputs(config, marked, target, aspect) == (marked, auxiliary, number)
    assert targets_in(config, text) == targets_in(config, marked) == ["LOCATION1", "LOCATION2"]
    for arguments, known in (((None, "price"), "LOCATION2"), (("LOCATION1", "joy"), "transit-location")):
        with pytest.raises(ValueError, match=known):
            model_inputs(config, text, *arguments)

    for names, target, aspect, auxiliary in (
        ({"aspects": ["price", "food"]}, None, "food", "food"),
        ({"aspects": ["price"], "targets": ["Soho", "Acton"]}, "Acton", "price", "Acton - price"),
    ):
        config = CGBertConfig(**names, auxiliary_sentence=auxiliary_sentence)
        expected = ("NotActon LOCATION1", auxiliary if auxiliary_sentence else None, 1)
        assert model_inputs(config, "NotActon LOCATION1", target, aspect) == expected


def test_a_target_s_name_may_begin_with_another_s():
    config = CGBertConfig(aspects=["price"], targets=["LOC1", "LOC12"], target_texts=["loc - 1", "loc - 12"])
    assert targets_in(config, "LOC12 is nice") == ["LOC12"]
    assert model_inputs(config, "LOC12 is nice, LOC1 too", "LOC12", "price")[0] == "loc - 12 is nice, loc - 1 too"


def test_a_target_s_text_may_hold_its_name():
    config = CGBertConfig(aspects=["price"], targets=["Soho", "Acton"], target_texts=["Soho in London", "not Soho"])
    marked = "Soho in London or not Soho"
    assert model_inputs(config, "Soho or Acton", "Soho", "price")[0] == marked
    assert model_inputs(config, marked, "Soho", "price")[0] == marked


def count_calls(model) -> list[dict[str, torch.Tensor]]:
    """The arguments of every call of the model from now on."""
    calls = []
    model.register_forward_pre_hook(lambda module, args, kwargs: calls.append(kwargs), with_kwargs=True)
    return calls


def test_long_texts_are_cut_and_auxiliary_sentences_are_not(tokenizer, tmp_path):
    long = "PLACE1 " + "so happy . " * 40
    words = ("home of joy " + "so happy . " * 40).split()
    for auxiliary_sentence in (False, True):
        model = build(PER_HEAD, auxiliary_sentence=auxiliary_sentence)
        shorter = make_tokenizer(tmp_path / str(auxiliary_sentence), model_max_length=20)
        for reader, length in ((tokenizer, TINY_BERT["max_position_embeddings"]), (shorter, 20)):
            assert tokenizer.model_max_length > TINY_BERT["max_position_embeddings"]
            room = length - (2 + 6 if auxiliary_sentence else 2)  # [CLS], [SEP]; home of joy - joy [SEP]
            expected = []
            for a, aspect in enumerate(ASPECTS):
                second = auxiliaries(["home of joy"])[a] if auxiliary_sentence else None
                expected.append(("PLACE1", aspect, scores_of(model, " ".join(words[:room]), second, a)))
            assert_entries(sentiment_pipeline(model, reader)(long), expected)


def test_segments_are_told_though_the_tokenizer_leaves_them_out_by_itself(tokenizer):
    """As GPT-2's does; in training they are asked for."""
    model, own = build("stock", aspects=list(ASPECTS), auxiliary_sentence=True), copy.deepcopy(tokenizer)
    own.model_input_names = ["input_ids", "attention_mask"]
    expected = [(None, aspect, scores_of(model, PLAIN, aspect, None)) for aspect in ASPECTS]
    assert_entries(sentiment_pipeline(model, own)(TEXT), expected)


def test_only_the_text_is_cut_where_the_auxiliary_sentence_is_longer(tokenizer):
    target = "home of joy and " * 4 + "sun"
    model, second = build(PER_HEAD, target_texts=[target, "home"]), auxiliaries([target.replace("and", "[UNK]")])[0]
    assert len(second.split()) == 19
    expected = scores_of(model, " ".join(["calm"] * (32 - 3 - 19)), second, 0)
    entries = sentiment_pipeline(model, tokenizer)("calm " * 15, targets=["PLACE1"], aspects=["joy"])
    assert_entries(entries, [("PLACE1", "joy", expected)])


def test_all_pairs_of_a_text_are_one_call(tokenizer):
    for model in (build(PER_HEAD), build("stock", **PLACES, auxiliary_sentence=True)):
        calls, classify = count_calls(model), sentiment_pipeline(model, tokenizer)
        classify("PLACE1 is so calm, PLACE2 is not")
        assert len(calls) == 1 and len(calls[0]["input_ids"]) == 6
        assert set(calls[0]["token_type_ids"].flatten().tolist()) == {0, 1}
        assert calls[0]["attention_mask"].all(), "the pairs of a text are of about one length"
        classify(["PLACE1", "PLACE2 is PLACE1"])
        assert [len(call["input_ids"]) for call in calls] == [6, 3, 6]


def test_pairs_of_unequal_length_are_padded(tokenizer):
    model, expected = build(PER_HEAD, target_texts=["sun", "home of anger and rain"]), []
    for number, second in enumerate(auxiliaries(["sun", "home of anger [UNK] rain"])):
        target, aspect = PLACES["targets"][number // 3], ASPECTS[number % 3]
        expected.append((target, aspect, scores_of(model, "a sun is sun", second, number)))
    calls = count_calls(model)
    assert_entries(sentiment_pipeline(model, tokenizer)("a PLACE1 is sun", targets=PLACES["targets"]), expected)
    assert len(calls) == 1 and not calls[0]["attention_mask"].all()


def test_one_text_gives_one_list_and_several_a_list_each(classify):
    calls = count_calls(classify.model)
    several = classify(list(TARGETED_TEXTS))
    assert len(calls) == len(TARGETED_TEXTS)
    assert several == [classify(text) for text in TARGETED_TEXTS] == classify(list(TARGETED_TEXTS), batch_size=2)
    assert classify([TARGETED_TEXTS[0]]) == several[:1]


def test_dtype_and_device_stay_those_of_the_model(tokenizer):
    for dtype in (torch.float32, torch.bfloat16):
        model = build(PER_HEAD).to(dtype)
        classify = sentiment_pipeline(model, tokenizer)
        assert classify.model is model and model.dtype == dtype
        for entry in classify(TARGETED_TEXTS[0]):
            assert isinstance(entry["score"], float)
            assert sum(entry["scores"].values()) == pytest.approx(1, abs=1e-5)


def test_a_target_is_a_word():
    for targets, text, found in (
        (["bar", "app", "pool"], "the app's bar-pool", ["bar", "app", "pool"]),
        (["bar", "pool", "sun"], "Two pools and “bar”, not barbarous, nor a carpool on Sunday.", ["bar", "pool"]),
        # A longer target that only begins to match hides no other.
        (["iPhone", "iPhone 1"], "The iPhone 11 is great", ["iPhone"]),
        (["hotel", "hotel bar"], "The hotel barman was rude", ["hotel"]),
        (["hotel", "hotel bar", "bar"], "The hotel bars were loud", ["hotel bar"]),
        # Scripts without blanks, and marks, which belong to the letters before them.
        (["酒店", "水"], "这家酒店很好", ["酒店"]),
        (["ห้อง"], "ห้องน้ำสะอาด", ["ห้อง"]),
        (["राम", "यण"], "रामायण अच्छी है", []),
        (["राम"], "राम अच्छा है", ["राम"]),
        (["cafe", "q"], "the cafe\u0301 is nice, q\u0301", []),
        (["caf\xe9"], "the cafe\u0301s are nice", ["caf\xe9"]),
        (["\u2764"], "\u2764\ufe0f you", ["\u2764"]),  # the mark chooses the picture
    ):
        assert targets_in(SimpleNamespace(targets=targets, target_texts=None), text) == found, text
