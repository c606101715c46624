# SPDX-License-Identifier: Apache-2.0
"""Explanations against formulas written by hand, their formats, the command for each family, and faithfulness."""

import dataclasses
import io
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from html_page import Page
from model_cases import BY_ID, TINY_BERT, WORDS, asymmetric_, label_names
from rich.console import Console
from toolkit_helpers import write_csv
from torch import nn
from transformers import BertConfig, BertForSequenceClassification, BertPreTrainedModel, GPT2Config
from transformers import GPT2ForSequenceClassification as Decoder
from transformers.modeling_outputs import SequenceClassifierOutput

from hf_emotion import (
    DialogueBiLSTMConfig,
    DialogueBiLSTMForEmotionRecognition,
    DialoguePredictor,
    Predictor,
    ReplyGenerator,
    TargetedPredictor,
    explain,
    faithfulness,
)
from hf_emotion.reports.explain_views import print_explanation, to_html, write_explanation
from hf_emotion.runtime.attribution import HeatMap
from hf_emotion.runtime.names import METHODS
from hf_emotion.tasks.text_explaining import chosen_labels


pytest_plugins = ["toolkit_fixtures"]
pytestmark = pytest.mark.usefixtures("single_thread")

TEXT = "i feel nervousness, so sick!"
# What the tokenizer makes of it, by hand: [CLS] i feel nervous ##ness , so sick ! [SEP]
WORDS_OF_TEXT = ["i", "feel", "nervousness", ",", "so", "sick", "!"]
WORD_OF = [-1, 0, 1, 2, 2, 3, 4, 5, 6, -1]
PLACES = "this sun is happy, the rain very sad"
TALK = [("Ann", "i am so happy"), ("Bo", "not today"), ("Ann", "the rain is so sad !")]
LABELS = ("anger", "joy", "neutral")


@pytest.fixture
def predictor(tokenizer):
    """Of a case: predictor(id, **config)."""
    kinds = dict.fromkeys(("qacg", "cg", "label-aware-aspects"), TargetedPredictor)
    kinds |= {"gpt2-mod-ln": ReplyGenerator, "bert-mod-ln": ReplyGenerator}

    def make(case: str, **config):
        return kinds.get(case, Predictor)(BY_ID[case].build(seed=2, **config), tokenizer)

    return make


@pytest.fixture
def stock(tokenizer):
    model = BertForSequenceClassification(BertConfig(**TINY_BERT, **label_names(LABELS)))
    return Predictor(asymmetric_(model, seed=4), tokenizer)


def dialogue_model(**config):
    encoder = BertConfig(**TINY_BERT)
    fields = {"hidden_size": 6, "num_attention_heads": 3, "num_speakers": 2, **label_names(LABELS), **config}
    fields |= {"utterance_encoder": "model", "encoder_config": encoder}
    return asymmetric_(DialogueBiLSTMForEmotionRecognition(DialogueBiLSTMConfig(**fields)), seed=3)


def by_word(values: np.ndarray, word_of: list[int] = WORD_OF) -> np.ndarray:
    """Sums over the pieces of each word of the last dimension."""
    result = np.zeros((*values.shape[:-1], max(word_of) + 1))
    for token, word in enumerate(word_of):
        if word >= 0:
            result[..., word] += values[..., token]
    return result


def only_map(*arguments, **options) -> HeatMap:
    (heat,) = explain(*arguments, **options).maps
    return heat


def tokens(tokenizer, text: str = TEXT) -> dict[str, torch.Tensor]:
    return tokenizer(text, return_tensors="pt", return_token_type_ids=False)


@torch.no_grad()
def forward(predictor, text: str = TEXT, **more):
    return predictor.model(**tokens(predictor.tokenizer, text), **more)


def squared_gradients(model, inputs: dict[str, torch.Tensor], label: int) -> np.ndarray:
    """(L,), by autograd: of a logit with respect to what the embedding layer gives."""
    kept = []
    encoder = model.base_model.get_encoder() if hasattr(model.config, "encoder_config") else model.base_model
    handle = encoder.embeddings.register_forward_hook(lambda module, given, output: kept.append(output))
    logit = model(**inputs).logits[0, label]
    handle.remove()
    (gradient,) = torch.autograd.grad(logit, kept)
    return (gradient[0].double() ** 2).sum(-1).numpy()


class TestAttention:
    def test_labels_over_words(self, predictor):
        predictor = predictor("label-aware")
        heat, outputs = only_map(predictor, TEXT, labels=["optimism", "joy"]), forward(predictor)
        assert heat.rows == ["optimism", "joy"] and heat.columns == WORDS_OF_TEXT
        attention = outputs.label_attentions[0].double().numpy()[[3, 0]]
        np.testing.assert_allclose(heat.values, by_word(attention), rtol=1e-5)
        np.testing.assert_allclose(heat.scores, outputs.logits[0, [3, 0]].sigmoid(), rtol=1e-5)

    def test_the_five_most_probable_labels_and_what_is_left_out(self, predictor):
        predictor = predictor("label-aware")
        explanation = explain(predictor, TEXT)
        (heat,) = explanation.maps
        assert heat.rows == [item["label"] for item in predictor(TEXT, top_k=5)[0]]
        left = explanation.notes[1].rpartition(": ")[2].split(", ")
        assert left == [f"{row} {1 - sum(line):.2f}" for row, line in zip(heat.rows, heat.values, strict=True)]
        # Labels that hardly count are left out.
        shown = chosen_labels(None, np.array([0.02, 0.6, 0.2, 0.1, 0.13, 0.3, 0.4, 0.5]), None, 5)
        assert shown == [1, 7, 6, 5, 2] and chosen_labels(None, np.array([0.02, 0.9, 0.17]), None, 5) == [1]

    def test_merging(self, predictor):
        predictor = predictor("label-aware")
        maps = {how: only_map(predictor, TEXT, labels=["joy"], merge=how) for how in ("sum", "max", "none")}
        pieces = maps["none"].values[0]
        assert maps["none"].columns == ["i", "feel", "nervous", "ness", ",", "so", "sick", "!"]
        assert maps["sum"].values[0, 2] == pytest.approx(pieces[2] + pieces[3])
        assert maps["max"].values[0, 2] == max(pieces[2], pieces[3]) < maps["sum"].values[0, 2]
        np.testing.assert_array_equal(maps["max"].values[0, [0, 1, 3, 4, 5, 6]], pieces[[0, 1, 4, 5, 6, 7]])

    @pytest.mark.parametrize("pooling", ["mean", "cls", "cls_mean"])
    def test_esa(self, predictor, pooling):
        predictor = predictor("esa", esa_pooling=pooling)
        attention, scaled = explain(predictor, TEXT).maps
        maps = forward(predictor, output_attentions=True).esa_attentions[0].double().numpy()
        of = {"mean": maps.mean(1), "cls": maps[:, 0], "cls_mean": (maps.mean(1) + maps[:, 0]) / 2}[pooling]
        assert attention.rows == ["mean of heads", "head 0", "head 1"]
        np.testing.assert_allclose(attention.values, by_word(np.concatenate([of.mean(0)[None], of])), rtol=1e-5)
        scale = predictor.model.roberta.emotion_attention.scale.detach().numpy() - 1
        assert scaled.columns == [str(i) for i in sorted(range(16), key=lambda i: -abs(scale[i]))[:10]]
        np.testing.assert_allclose(scaled.values[0], [scale[int(i)] for i in scaled.columns], rtol=1e-5)

    def test_stock(self, stock, tokenizer):
        before = stock.model.config._attn_implementation
        heat = only_map(stock, TEXT)
        assert stock.model.config._attn_implementation == before
        eager = BertForSequenceClassification._from_config(stock.model.config, attn_implementation="eager").eval()
        eager.load_state_dict(stock.model.state_dict())
        last = forward(Predictor(eager, tokenizer), output_attentions=True).attentions[-1][0, :, 0]
        np.testing.assert_allclose(heat.values[0], by_word(last.mean(0).double().numpy()), rtol=1e-5)

    def test_stock_decoder(self, tokenizer):
        """Its classifier reads the last token; the first one sees nothing but itself."""
        sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 40, "pad_token_id": tokenizer.pad_token_id}
        config = GPT2Config(vocab_size=len(tokenizer), **sizes, **label_names(LABELS), attn_implementation="eager")
        predictor = Predictor(asymmetric_(Decoder(config), seed=4).eval(), tokenizer)
        heat = only_map(predictor, TEXT)
        last = forward(predictor, output_attentions=True).attentions[-1][0, :, -1]
        np.testing.assert_allclose(heat.values[0], by_word(last.mean(0).double().numpy()), rtol=1e-5)

    def test_figure_5(self, predictor):
        predictor = predictor("qacg", quasi_alpha=0.8)
        own, alone, quasi, both, gate = explain(predictor, PLACES, layer=1, head=1).maps
        pairs = [(target, aspect) for target in ("sun", "rain") for aspect in ("joy", "fear", "calm")]
        results = predictor(PLACES)[0]
        assert own.rows == [f"{t} {a}: {r['label']}" for (t, a), r in zip(pairs, results, strict=True)]
        np.testing.assert_allclose(own.scores, [result["score"] for result in results], rtol=1e-5)
        word_of = [-1, *range(9), -1]
        assert own.columns == ["this", "sun", "is", "happy", ",", "the", "rain", "very", "sad"]
        for row in range(6):
            outputs = forward(predictor, PLACES, context_ids=torch.tensor([row]), output_attentions=True)
            a = outputs.attentions[1][0, 1].double().numpy()
            lambda_a = outputs.context_gates[1][0, 1].double().numpy()  # (L, 1), by query
            c = predictor.model.config.quasi_alpha * outputs.quasi_attentions[1][0, 1].double().numpy()
            b = lambda_a * c
            expected = by_word(np.stack([a.sum(0), b.sum(0), (a + b).sum(0)]), word_of)
            largest = abs(expected).max()
            expected /= largest
            np.testing.assert_allclose(alone.values[row], by_word(c.sum(0), word_of) / largest, rtol=1e-4)
            found = np.stack([own.values[row], quasi.values[row], both.values[row]])
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(gate.values[row], lambda_a[1:-1, 0], rtol=1e-5)
        assert (quasi.values < 0).any()

    def test_gates_of_cg_bert(self, predictor):
        predictor = predictor("cg")
        attention, query_gate, key_gate = explain(predictor, TEXT, aspects=["calm"]).maps
        outputs = forward(predictor, context_ids=torch.tensor([2]), output_attentions=True)
        gates = outputs.context_gates[0][0, 0].double().numpy()  # (L, 2)
        summed = by_word(outputs.attentions[0][0, 0].sum(0).double().numpy())
        np.testing.assert_allclose(attention.values[0], summed, rtol=1e-5)
        for heat, gate in ((query_gate, gates[:, 0]), (key_gate, gates[:, 1])):
            expected = by_word(gate)
            expected[2] /= 2  # a mean over the pieces
            np.testing.assert_allclose(heat.values[0], expected, rtol=1e-5)

    def test_labels_of_aspects(self, predictor):
        predictor = predictor("label-aware-aspects", target_words=["sun", "rain"])
        text = "PLACE2 is happy"
        heat = only_map(predictor, text, labels=["none", "neutral"], aspects=["fear"])
        found = (
            forward(predictor, "sun is happy").label_attentions[0].double().numpy()
        )  # (12, 5), four for each aspect
        expected = np.stack([found[4:8].mean(0), found[5]])  # negative, neutral, positive, conflict
        np.testing.assert_allclose(heat.values, expected[:, 1:-1], rtol=1e-5)
        assert heat.rows == ["PLACE2 fear: none", "PLACE2 fear: neutral"] and heat.columns == ["sun", "is", "happy"]
        scores = predictor(text)[0][1]["scores"]
        np.testing.assert_allclose(heat.scores, [scores["none"], scores["neutral"]], rtol=1e-5)
        context = {"context_ids": torch.tensor([4])}
        best = only_map(predictor, text, aspects=["fear"], labels=["none"], method="gradient").values[0]
        norms = squared_gradients(predictor.model, {**tokens(predictor.tokenizer, "sun is happy"), **context}, 0)[1:-1]
        np.testing.assert_allclose(best, norms / norms.max(), rtol=1e-4)


class TestGradients:
    @pytest.mark.parametrize("case", ["label-aware", "esa", "any-mpnet"])
    def test_figure_3(self, predictor, tokenizer, case):
        predictor = predictor(case)
        norms = squared_gradients(predictor.model, tokens(tokenizer), 1)
        pieces = only_map(predictor, TEXT, labels=["anger"], method="gradient", merge="none")
        np.testing.assert_allclose(pieces.values[0], norms[1:-1] / norms[1:-1].max(), rtol=1e-4)
        merged = only_map(predictor, TEXT, labels=["anger"], method="gradient")
        np.testing.assert_allclose(merged.values[0], by_word(norms) / by_word(norms).max(), rtol=1e-4)

    def test_figure_3_of_contexts_under_each_other(self, predictor, tokenizer):
        predictor = predictor("qacg")
        heat = only_map(predictor, PLACES, targets=["rain"], aspects=["joy", "calm"], method="gradient")
        for row, context_id in enumerate((3, 5)):
            context = {"context_ids": torch.tensor([context_id])}
            best = int(forward(predictor, PLACES, **context).logits.argmax())
            norms = squared_gradients(predictor.model, {**tokens(tokenizer, PLACES), **context}, best)[1:-1]
            np.testing.assert_allclose(heat.values[row], norms / norms.max(), rtol=1e-4)
        assert abs(heat.values[0] - heat.values[1]).max() > 0.01

    @pytest.mark.parametrize("case", ["label-aware", "qacg", "stock", "any-qwen3"])
    def test_integrated_gradients_are_complete(self, predictor, stock, tokenizer, case):
        predictor = stock if case == "stock" else predictor(case)
        context = {"targets": ["sun"], "aspects": ["fear"]} if case == "qacg" else {}
        label = predictor.labels[2]
        explanation = explain(predictor, PLACES, labels=[label], method="integrated-gradients", **context)
        ids = tokens(tokenizer, PLACES)["input_ids"]
        baseline = ids.clone()
        baseline[0, 1:-1] = tokenizer.mask_token_id
        extra = {"context_ids": torch.tensor([1])} if context else {}
        with torch.no_grad():
            change = predictor.model(ids, **extra).logits[0, 2] - predictor.model(baseline, **extra).logits[0, 2]
        assert abs(change) > 0.05
        assert explanation.maps[0].values.sum() == pytest.approx(float(change), abs=5e-3)
        assert "[MASK]" in explanation.notes[2]

    def test_occlusion(self, predictor, tokenizer):
        predictor = predictor("label-aware")
        heat = only_map(predictor, TEXT, labels=["joy", "neutral"], method="occlusion")
        ids = tokenizer(TEXT, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            whole = predictor.model(ids).logits[0]
            for word in range(7):
                masked = ids.clone()
                masked[0, torch.tensor(WORD_OF) == word] = tokenizer.mask_token_id
                expected = (whole - predictor.model(masked).logits[0])[[0, 4]]
                np.testing.assert_allclose(heat.values[:, word], expected, rtol=1e-4, atol=1e-6)

    def test_the_auxiliary_sentence_stays(self, predictor, tokenizer):
        predictor = predictor("qacg", auxiliary_sentence=True)
        heat = only_map(predictor, "so happy in sun", aspects=["calm"], method="occlusion")
        encoded = tokenizer("so happy in sun", "sun - calm", return_tensors="pt")
        context = torch.tensor([2])
        masked = encoded["input_ids"].clone()
        masked[0, 4] = tokenizer.mask_token_id
        with torch.no_grad():
            logits = predictor.model(**encoded, context_ids=context).logits[0]
            without = predictor.model(**{**encoded, "input_ids": masked}, context_ids=context).logits[0]
        best = int(logits.argmax())
        assert heat.columns == ["so", "happy", "in", "sun"]
        assert heat.values[0, 3] == pytest.approx(float(logits[best] - without[best]), rel=1e-4)


class TestDialogues:
    @pytest.fixture
    def dialogue(self, tokenizer):
        return DialoguePredictor(dialogue_model(), tokenizer)

    @pytest.fixture
    def inputs(self, dialogue, tokenizer):
        """The vectors of `TALK`, one at a time, and its speakers."""
        rows, encode = [tokens(tokenizer, text) for _, text in TALK], dialogue.model.dialogue.encode_utterances
        with torch.no_grad():
            vectors = [encode(**row) for row in rows]
        return {"utterance_embeds": torch.stack(vectors, 1), "speaker_ids": torch.tensor([[0, 1, 0]])}

    def test_attention(self, dialogue, inputs):
        heat = only_map(dialogue, TALK)
        with torch.no_grad():
            attention = dialogue.model(**inputs, output_attentions=True).attentions[0][0]
        np.testing.assert_allclose(heat.values, attention.mean(0), rtol=1e-4)
        labels = [turn["label"] for turn in dialogue([TALK])[0]]
        assert heat.rows[1] == f"2 Bo: not today → {labels[1]}" and heat.columns == ["1", "2", "3"]
        assert only_map(dialogue, [f"{speaker}: {text}" for speaker, text in TALK]).rows == heat.rows

    def test_gradient(self, dialogue, inputs, tokenizer):
        plain = DialoguePredictor(dialogue_model(num_attention_heads=0), tokenizer)
        with pytest.raises(ValueError, match="without attention heads.*use gradient, integrated-gradients, occlusion"):
            explain(plain, TALK)
        heat = only_map(dialogue, TALK, labels=["joy"], method="gradient")
        embeds = inputs["utterance_embeds"].requires_grad_()
        for turn in range(3):
            logits = dialogue.model(utterance_embeds=embeds, speaker_ids=inputs["speaker_ids"]).logits
            (gradient,) = torch.autograd.grad(logits[0, turn, 1], embeds)
            norms = (gradient[0].double() ** 2).sum(-1)
            np.testing.assert_allclose(heat.values[turn], norms / norms.max(), rtol=1e-4)

    def test_integrated_gradients_and_occlusion(self, dialogue, inputs):
        summed = only_map(dialogue, TALK, labels=["joy"], method="integrated-gradients")
        lost = only_map(dialogue, TALK, labels=["joy"], method="occlusion")
        with torch.no_grad():
            whole = dialogue.model(**inputs).logits[0, :, 1]
            zeros = torch.zeros_like(inputs["utterance_embeds"])
            nothing = dialogue.model(**{**inputs, "utterance_embeds": zeros}).logits[0, :, 1]
            np.testing.assert_allclose(summed.values.sum(1), whole - nothing, atol=1e-2)
            inputs["utterance_embeds"][0, 1] = 0
            np.testing.assert_allclose(lost.values[:, 1], whole - dialogue.model(**inputs).logits[0, :, 1], atol=1e-5)

    def test_earlier_turns_in_the_input(self, tokenizer):
        """What a logit loses without an earlier turn; later ones are not read."""
        alone = {"num_hidden_layers": 0, "num_attention_heads": 0, "num_speakers": 0}
        window = DialoguePredictor(dialogue_model(context_turns=2, **alone), tokenizer)
        with pytest.raises(ValueError, match="explained only by occlusion"):
            explain(window, TALK)
        lost = only_map(window, TALK, labels=["joy"], method="occlusion").values
        whole, less = (np.log(window.probabilities([turns], raw=True)) for turns in (TALK, [TALK[0], TALK[2]]))
        # Log-probabilities differ from logits by the same number for all labels.
        assert not np.triu(lost, 1).any() and abs(lost[2, 0]) > 1e-6
        other = only_map(window, TALK, labels=[window.labels[0]], method="occlusion").values
        expected = (whole[2, 1] - less[1, 1]) - (whole[2, 0] - less[1, 0])
        np.testing.assert_allclose(lost[2, 1] - other[2, 1], expected, atol=1e-5)


class TestReplies:
    @pytest.mark.parametrize("case", ["gpt2-mod-ln", "bert-mod-ln"])
    def test_probabilities_of_a_given_reply(self, predictor, tokenizer, case):
        generator = predictor(case)
        reply = "i am sick, nervousness"
        difference, plain = explain(generator, "so sad", emotions=["fear", "😂"], reply=reply).maps
        assert plain.rows == ["fear", "😂"] and plain.columns == ["i", "am", "sick", ",", "nervousness", "(end)"]
        config = generator.model.config
        ids, context = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in (reply, "so sad"))
        target = torch.tensor([[*ids, config.eos_token_id]])
        start = [] if config.context_start_token_id is None else [config.context_start_token_id]
        encoder_ids = torch.tensor([[*start, *context, config.context_separator_token_id]])
        decoder_ids = torch.tensor([[config.decoder_start_token_id, *ids]])
        given = {"input_ids": encoder_ids, "decoder_input_ids": decoder_ids}
        for row, emotion in enumerate((2, 3)):
            with torch.no_grad():
                logits = generator.model(**given, emotion_ids=torch.tensor([emotion])).logits
            by_token = logits.log_softmax(-1)[0].gather(1, target[0][:, None])[:, 0].double().numpy()
            np.testing.assert_allclose(-plain.values[row], by_word(by_token, [0, 1, 2, 3, 4, 4, 5]), rtol=1e-4)
            assert plain.scores[row] == pytest.approx(by_token.sum(), rel=1e-4)
        np.testing.assert_allclose(difference.values, plain.values.mean(0) - plain.values, atol=1e-9)

    def test_generated_in_the_one_emotion_and_compared_with_all(self, predictor):
        generator = predictor("gpt2-mod-ln")
        generator.model.generation_config.update(suppress_tokens=[0, 1, 2, 3, 4])  # special: else it is empty
        explanation = explain(generator, "so sad", emotions=["joy"])
        reply = generator("so sad", "joy", do_sample=False)[0]
        assert f"the reply: {reply}" in explanation.notes
        assert sorted(explanation.maps[0].rows) == sorted(generator.emotions)
        assert explanation.maps[0].scores == sorted(explanation.maps[0].scores, reverse=True)


def test_a_long_text_is_cut_with_a_warning(predictor, caplog):
    heat = only_map(predictor("label-aware"), "so happy " * 30, method="occlusion", labels=["joy"])
    assert "1 of 1 texts are longer than 32 tokens (`max_length`) and were cut" in caplog.text
    assert len(heat.columns) == 30


@pytest.mark.parametrize(
    ("case", "arguments", "message"),
    [
        ("label-aware", {"labels": ["nervousnes"]}, "names out of .*nervousness"),
        ("label-aware", {"emotions": ["joy"]}, "`emotions` cannot be used with a model for emotion-classification"),
        ("label-aware", {"method": "lime"}, "one of attention, gradient, integrated-gradients, occlusion"),
        ("label-aware", {"text": [TEXT, TEXT]}, "one text at a time, got 2"),
        ("leam", {"labels": ["joy"]}, "`labels` do not go with attention"),
        ("esa", {"labels": ["joy"]}, "same for all labels: use gradient, integrated"),
        ("qacg", {"layer": 1, "method": "gradient"}, "`layer` and `head` go with the attention of a CG-BERT"),
        ("qacg", {"aspects": ["fea"]}, "names out of .*fear"),
        ("qacg", {"targets": ["sum"]}, "unknown target 'sum': targets are .*sun"),
        ("qacg", {"layer": 2}, r"`layer` must lie in \[0, 2\), got 2"),
        ("gpt2-mod-ln", {}, "`emotions` must name .*`reply`"),
        ("gpt2-mod-ln", {"emotions": ["joy"], "method": "attention"}, "`method` cannot be used with a model for emot"),
    ],
)
def test_what_does_not_fit(predictor, case, arguments, message):
    with pytest.raises(ValueError, match=message):
        explain(predictor(case), **{"text": PLACES, **arguments})


@pytest.fixture
def corpus(tmp_path) -> Path:
    """Texts of 10 words each, with "joy" at different places, twice."""
    others, rows = [word for word in WORDS if word.isalpha() and word != "joy"], []
    for number in range(12):
        words = [others[(number + 3 * i) % len(others)] for i in range(10)]
        words[number % 5], words[9 - number % 3] = "joy", "joy"
        rows.append([" ".join(words), ("calm", "joy")[number % 2]])
    return write_csv(tmp_path / "rows.csv", ["text", "label"], rows)


class TestFormats:
    @pytest.fixture
    def explanation(self, predictor):
        hostile = "<script>alert('joy')</script> & $a^2$ so sad"
        return explain(predictor("label-aware"), hostile, labels=["joy"], method="occlusion")

    def test_html(self, explanation, tmp_path):
        page = to_html(explanation)
        read = Page(page)
        assert "script" not in read.tags and {"style", "small"} <= set(read.tags)
        assert explanation.text in read.text and not re.search("src=|https?:", page)
        assert page.count('class="word below"') == int((explanation.maps[0].values < 0).sum()) > 0
        write_explanation(explanation, tmp_path / "page.html")
        assert (tmp_path / "page.html").read_text(encoding="utf-8") == page

    def test_json(self, explanation, tmp_path):
        write_explanation(explanation, tmp_path / "a.json")
        found = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
        assert set(found) == {"checkpoint", "model_type", "text", "method", "maps", "notes", "seconds"}
        heat = found["maps"][0]
        assert set(heat) == {"title", "unit", "axes", "rows", "columns", "values", "scores", "score_name"}
        np.testing.assert_array_equal(heat["values"], explanation.maps[0].values)

    def test_terminal_without_colours_has_signs(self, explanation):
        file = io.StringIO()
        print_explanation(explanation, Console(width=100, color_system=None, file=file))
        printed = file.getvalue()
        found = re.findall(r"(\S+):([+-]\d\.\d+)", printed)
        assert [word for word, _ in found] == explanation.maps[0].columns
        np.testing.assert_allclose([float(value) for _, value in found], explanation.maps[0].values[0], atol=0.006)
        assert "[" not in printed.replace("[MASK]", "")  # no markup, no codes of colours

    def test_shares_have_no_signs_and_names_no_escapes(self, explanation):
        names = [f"{name}\x1b[2J" for name in ("heat", "share", "label", "word", "joy", "so", "note")]
        heat = HeatMap(*names[:2], (names[2], names[3]), [names[4]], [names[5], "sad"], np.array([[0.75, 0.25]]))
        shown = dataclasses.replace(explanation, maps=[heat], notes=names[6:])
        print_explanation(shown, Console(width=100, file=(file := io.StringIO())))
        printed = file.getvalue()
        assert "so\\x1b[2J:0.75" in printed and printed.count("\\x1b[2J") == 7 and "\x1b" not in printed


class TestCommand:
    @pytest.fixture
    def folder(self, tmp_path, tokenizer, family) -> Path:
        BY_ID[family].build(seed=2).save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        return tmp_path

    @pytest.mark.parametrize(
        ("family", "arguments", "printed"),
        [
            ("label-aware", [TEXT, "--label", "joy"], "attention of each label"),
            ("qacg", [PLACES, "--target", "sun", "--method", "integrated-gradients"], "sun fear"),
            ("gpt2-mod-ln", ["so sad", "-e", "joy=0.5,fear=0.5", "-e", "😂", "--reply", "sick"], "joy=0.5, fear=0.5"),
        ],
    )
    def test_options(self, argv, folder, arguments, printed):
        result = argv("explain", folder, *arguments)
        assert result.code == 0 and printed in result.out

    @pytest.mark.parametrize("family", ["label-aware"])
    def test_files(self, argv, folder):
        done = argv("explain", folder, TEXT, "-o", folder / "a.html")
        assert done.code == 0 and "written to" in done.out and (folder / "a.html").is_file()
        for wrong in (["--format", "html"], ["-o", "a.txt"]):
            assert argv("explain", folder, TEXT, *wrong).code == 2

    @pytest.mark.parametrize("family", ["label-aware"])
    def test_faithfulness(self, argv, folder, corpus):
        arguments = ["--dataset", "files", "--data-dir", corpus, "--rows", 3, "--method", "attention"]
        done = argv("faithfulness", folder, *arguments)
        assert done.code == 1 and "unknown label 'calm'; the labels are ['joy', " in done.err  # those of the model
        done = argv("faithfulness", folder, *arguments, "--option", "labels=null")
        assert done.code == 0, done.err
        assert "comprehensiveness" in done.out and "random" in done.out and "50%" in done.out


class Cues(BertPreTrainedModel):
    """Whether "joy" is in a text, and how often, decides alone: its logit is that of joy; all other words are nothing."""

    config_class = BertConfig

    def __init__(self, config):
        super().__init__(config)
        self.embeddings = nn.Embedding(config.vocab_size, 2)
        self.post_init()

    def forward(self, input_ids, attention_mask=None, **kwargs):
        joy = (self.embeddings(input_ids)[..., 0] * attention_mask).sum(-1)
        return SequenceClassifierOutput(logits=torch.stack([torch.ones_like(joy), joy], dim=-1))


@pytest.fixture
def cues(tokenizer):
    model = Cues(BertConfig(**TINY_BERT, **label_names(["calm", "joy"])))
    with torch.no_grad():
        model.embeddings.weight.zero_()
        model.embeddings.weight[tokenizer.convert_tokens_to_ids("joy"), 0] = 3.0
    return Predictor(model, tokenizer)


class TestFaithfulness:
    def test_the_right_words_against_chance(self, cues, corpus):
        result = faithfulness(cues, "files", corpus, rows=8, methods=["integrated-gradients", "occlusion"])
        assert result["rows"] == 8 and result["bins"] == [0.01, 0.05, 0.1, 0.2, 0.5]
        # Of 10 words the shares are 1, 1, 1, 2 and 5 words; each "joy" is worth 3, less 1.
        logits = ((5,), (2, 2, 2, -1, -1), (2, 2, 2, 5, 5))
        whole, without, alone = (np.mean([1 / (1 + math.exp(-x)) for x in xs]) for xs in logits)
        for method in ("integrated-gradients", "occlusion"):
            figures = result["methods"][method]
            assert figures["comprehensiveness"] == pytest.approx(whole - without, abs=1e-5)
            assert figures["sufficiency"] == pytest.approx(whole - alone, abs=1e-5)
            assert figures["comprehensiveness_std_error"] == pytest.approx(0, abs=1e-6)
            assert figures["above_random"] == 1.0
        chance = result["methods"]["random"]
        assert 0 < chance["comprehensiveness"] < whole - without and chance["sufficiency"] > whole - alone

    def test_the_seed_alone_decides_and_a_method_that_is_named_twice_counts_once(self, cues, corpus):
        first, again, other = (
            faithfulness(cues, "files", corpus, rows=4, methods=["occlusion"] * times, seed=seed)
            for seed, times in ((1, 1), (1, 2), (2, 1))
        )
        assert first == again != other

    def test_targeted(self, predictor, tmp_path):
        said = (("sun", "joy", "positive"), ("rain", "calm", "negative"), ("sun", "fear", "none"))
        rows = [[PLACES, *own] for own in said]
        path = write_csv(tmp_path / "rows.csv", ["text", "target", "aspect", "label"], rows)
        more = {"rows": 5, "random_rankings": 2, "options": {"target_column": "target"}}
        result = faithfulness(predictor("qacg"), "aspect_files", path, **more)
        assert result["rows"] == 2  # those with an opinion
        places = {"targets": ["sun", "rain"], "target_texts": None}
        other = faithfulness(predictor("label-aware-aspects", **places), "aspect_files", path, **more)
        assert other["rows"] == 2 and np.isfinite(other["methods"]["attention"]["comprehensiveness"])
        assert set(result["methods"]) == {*METHODS, "random"}

    def test_errors(self, predictor, tokenizer, corpus):
        exported = predictor("label-aware")
        exported.model.takes_arrays = True  # what an exported model says of itself
        for given, methods, message in (
            (predictor("gpt2-mod-ln"), METHODS, "models for emotional-response"),
            (predictor("label-aware"), ["oclusion"], "names out of .*occlusion"),
            (predictor("qacg"), METHODS, "and the model reads"),
            (exported, METHODS, "exported"),
        ):
            with pytest.raises(ValueError, match=message):
                faithfulness(given, "files", corpus, methods=methods)
