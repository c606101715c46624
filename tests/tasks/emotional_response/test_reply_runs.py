# SPDX-License-Identifier: Apache-2.0
"""Generators of replies: whole runs of tiny models, their perplexity, their replies, how they are measured, the commands."""

import copy
import itertools
import json
import math
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import toolkit_helpers as kit
import torch
from hf_emotion.modeling.pipeline_emotional_response import emotion_vector
from model_cases import BY_ID, TINY_GPT2, asymmetric_, label_names
from reply_corpora import MOJIS, mojitalk_folder
from safetensors.torch import load_file
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
)

import hf_emotion
from hf_emotion.io.files import finite_or_none
from hf_emotion.metrics.generation import words
from hf_emotion.recipes import Recipe, make_recipe
from hf_emotion.runs.evaluate import evaluate
from hf_emotion.runtime.unread import Unread
from hf_emotion.tasks.emotional_response.building import build_generator, encode_replies, make_reply_collator
from hf_emotion.tasks.emotional_response.evaluating import evaluate_replies, sample_rows
from hf_emotion.tasks.emotional_response.loading import MOJITALK_EMOJIS
from hf_emotion.tasks.language_modeling.building import build_language_model, train_tokenizer


pytest_plugins = ["toolkit_fixtures"]
pytestmark = pytest.mark.usefixtures("single_thread")

EMOTIONS = ["anger", "fear", "joy", "neutral", "😭"]
CUES = dict(zip(EMOTIONS, ("that's so bad", "oh no , run", "yay , so happy 😊", "a day", "i am sad"), strict=True))
ABOUT = ("rain", "sun", "keys", "home", "train", "cat", "dog", "cake")
PARTS = {"train": (50, 0), "dev": (11, 50), "test": (13, 61)}  # rows, number of the first
SPLITS = {"validation": "dev", "test": "test"}
LENGTH = 20  # tokens of a context, a reply, a block
LONG = 3  # the row of dev whose context and reply are longer than that
ARGUMENTS = {
    **kit.QUICK_ARGUMENTS,
    **{"num_train_epochs": 3, "learning_rate": 1e-2, "lr_scheduler_type": "constant"},
    "per_device_eval_batch_size": 4,  # of 11 and 13 rows the last batches are smaller
}
SMALL_GPT2 = {
    **{"vocab_size": 400, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 48},
    **{"embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0},
}
VANILLA = {"modulate_encoder": False, "modulate_decoder": False}


def rows_of(part: str) -> list[tuple[str, str, str]]:
    """(context, reply, emotion): replies of several lengths that start with the words of their emotion; contexts recur."""
    count, first = PARTS[part]
    rows = []
    for i in range(first, first + count):
        emotion, about = EMOTIONS[i * 7 % 5], ABOUT[i // 2 % 8]
        reply = CUES[emotion] + f" , the {about}" * (i % 3)
        rows.append((f"Look at the {about}{' again' * (i // 2 % 3)}", reply, emotion))
    if part == "dev":
        rows[LONG] = ("the sun" + " again" * 30, "the sun" + " again" * 25, rows[LONG][2])
    if part == "test":
        rows[-1] = (rows[-1][0], rows[-1][1] + " zebra zebra", rows[-1][2])
    return rows


@pytest.fixture(scope="session")
def pairs(tmp_path_factory) -> Path:
    """One's own pairs of context and reply."""
    folder = tmp_path_factory.mktemp("pairs")
    for part in PARTS:
        kit.write_csv(folder / f"{part}.csv", ["context", "reply", "emotion"], [list(row) for row in rows_of(part)])
    return folder


@pytest.fixture(scope="session")
def bert(tmp_path_factory) -> Path:
    known = [*" ".join(CUES.values()).replace("'", " ' ").split(), *ABOUT, "look", "at", "again", "zebra"]
    return kit.save_base_bert(tmp_path_factory.mktemp("reply-base") / "tiny-bert", dict.fromkeys(known))


def recipe_of(base: Path | str, arguments: dict | None = None, **changes) -> Recipe:
    """A small run over one's own pairs; `arguments` are added to its training arguments."""
    values = {"name": "tiny", "base_model": str(base), "dataset": "reply_files", "model_type": "gpt2-mod-ln"}
    values |= {"max_length": LENGTH, "training_arguments": {**ARGUMENTS, **(arguments or {})}}
    return make_recipe({**values, **changes})


def lm_recipe(base: Path | str = "scratch", arguments: dict | None = None, **changes) -> Recipe:
    values = {"name": "lm", "model_type": "gpt2", "dataset": "conversations", "model_config": SMALL_GPT2}
    return recipe_of(base, arguments, **{**values, "dataset_options": {"corpora": ["reply_files"]}, **changes})


@pytest.fixture(scope="session")
def lm_run(tmp_path_factory, pairs) -> Path:
    """A finished run folder of a language model with a tokenizer of its own: the base of the generators."""
    return kit.fit(lm_recipe(description="A tiny language model"), tmp_path_factory.mktemp("lm") / "run", pairs)


def generator_run(name: str, epochs: int, base: str = "lm_run", smoothing: float = 0.0, **fields):
    """The fixture of a finished run folder of a generator over what the fixture `base` gives."""

    @pytest.fixture(scope="session", name=f"{name}_run")
    def run(request, tmp_path_factory, pairs) -> Path:
        arguments = {"num_train_epochs": epochs, "label_smoothing_factor": smoothing}
        recipe = recipe_of(request.getfixturevalue(base), arguments, name=name, **fields)
        return kit.fit(recipe, tmp_path_factory.mktemp(name) / "run", pairs)

    return run


mod_run = generator_run("mod", 2)  # modulated norms
token_run = generator_run("token", 8, model_config=VANILLA, emotion_tokens=True)  # a token for each emotion instead
# Without either, on half of the rows, measured on at most 12.
vanilla_run = generator_run("vanilla", 1, smoothing=0.1, model_config=VANILLA, train_fraction=0.5, max_eval_rows=12)
REPLACED = {"model_type": "bert-mod-ln", "model_config": {"modulation": "replace"}}
bert_run = generator_run("bert", 1, "bert", smoothing=0.1, **REPLACED)


@pytest.fixture(params=["mod_run", "token_run", "vanilla_run", "bert_run"])
def run(request) -> Path:
    """Each generator."""
    return request.getfixturevalue(request.param)


def losses_by_hand(folder: Path, rows: list[tuple[str, str, str]], length: int, cut: bool = True) -> list[np.ndarray]:
    """-ln P of each token of each reply, in float64, one row at a time: no padding; the special tokens by their names."""
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).double().eval()
    tokenizer, losses = AutoTokenizer.from_pretrained(folder), []
    if tokenizer.cls_token is not None:  # BERT
        start, end = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
        separator, before = end, [start]
    else:
        start = end = separator = tokenizer.convert_tokens_to_ids("<|endoftext|>")
        before = []
    for context, reply, emotion in rows:
        token = tokenizer.get_vocab().get(f"<emotion {emotion}>")
        first = before if token is None else [*before, token]
        ids, reply_ids = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in (context, reply))
        encoder_ids = [*first, *ids[-(length - len(first) - 1) :], separator]
        reply_ids = [*reply_ids, end][: length if cut else None]
        with torch.no_grad():
            inputs = {"input_ids": [encoder_ids], "decoder_input_ids": [[start, *reply_ids[:-1]]]}
            inputs |= {"emotion_ids": [EMOTIONS.index(emotion)]}
            logits = model(**{name: torch.tensor(value) for name, value in inputs.items()}).logits[0]
        losses.append(-logits.log_softmax(-1)[range(len(reply_ids)), reply_ids].numpy())
    return losses


class TestPerplexity:
    def test_of_generators(self, run):
        """Over all tokens, also the ends of replies that are not cut; no mean over batches or replies."""
        generator, rows = hf_emotion.ReplyGenerator(run), rows_of("test")
        given = losses_by_hand(run, rows, generator.model.config.max_position_embeddings, cut=False)
        for batch_size in (1, 4, 64):
            found = generator.token_losses(*zip(*rows, strict=True), batch_size=batch_size)
            np.testing.assert_allclose(found, np.concatenate(given), rtol=1e-3, atol=1e-5)
        assert len({len(loss) for loss in given}) > 2
        report = kit.report_of(run)
        for split, part in SPLITS.items():
            rows = rows_of(part)
            drawn = np.sort(np.random.default_rng(0).permutation(len(rows))[: report["max_eval_rows"]])
            expected = np.concatenate(losses_by_hand(run, [rows[row] for row in drawn], LENGTH))
            found = report["runs"][0][split]["teacher_forcing"]
            assert found["perplexity"] == pytest.approx(math.exp(expected.mean()), rel=1e-5)
            assert found["tokens"] == len(expected)

    @pytest.mark.parametrize("split", SPLITS)
    def test_of_a_language_model(self, lm_run, split):
        model = AutoModelForCausalLM.from_pretrained(lm_run).double().eval()
        tokenizer, losses = AutoTokenizer.from_pretrained(lm_run), []
        turns = [text for context, reply, _ in rows_of(SPLITS[split]) for text in (context, reply)]
        stream = [token for turn in turns for token in (0, *tokenizer(turn)["input_ids"])] + [0]
        for start in range(0, len(stream) - 1, LENGTH):
            block = torch.tensor(stream[start : start + LENGTH])
            with torch.no_grad():
                logits = model(input_ids=block[None]).logits[0, :-1]
            losses += (-logits.log_softmax(-1)[range(len(block) - 1), block[1:]]).tolist()
        found = kit.report_of(lm_run)["runs"][0][split]["teacher_forcing"]
        assert found["tokens"] == len(losses) > len(stream) * 0.9
        assert found["perplexity"] == pytest.approx(math.exp(np.mean(losses)), rel=1e-5)


class TestEncoding:
    def test_rows(self, lm_run, pairs, caplog):
        """What stands in them, the losses by hand tell."""
        model, tokenizer = build_generator(recipe_of(lm_run, emotion_tokens=True), EMOTIONS)
        rows = hf_emotion.load_dataset_for("reply_files", pairs)["validation"]
        encoded = encode_replies(rows, tokenizer, model.config, LENGTH)
        assert set(encoded.column_names) == {"input_ids", "labels", "emotion_ids", "length"}
        lengths = [len(row["input_ids"]) + len(row["labels"]) for row in encoded]
        assert encoded["length"][:] == lengths and lengths[LONG] == 2 * LENGTH
        assert encoded[LONG]["labels"][-1] != tokenizer.eos_token_id == encoded[0]["labels"][-1]
        assert "1 of 11 pairs have a context or a reply of more than 20 tokens, which is cut" in caplog.text
        for length in (2, 49):
            with pytest.raises(ValueError, match=f"must lie between 3 and the model's 48 positions, got {length}"):
                encode_replies(rows, tokenizer, model.config, length)

    def test_collator(self, lm_run):
        model, _ = build_generator(recipe_of(lm_run), EMOTIONS)
        assert model.config.pad_token_id == model.config.eos_token_id == 0
        first = {"input_ids": [7, 8, 9, 0], "labels": [5, 0], "emotion_ids": 3, "length": 6}
        # The mark may stand in a text.
        second = {"input_ids": [0, 0], "labels": [0, 6, 4, 0], "emotion_ids": 1, "length": 6}
        batch = make_reply_collator(model)([first, second])
        assert {name: value.tolist() for name, value in batch.items()} == {
            "input_ids": [[7, 8, 9, 0], [0, 0, 0, 0]],
            "attention_mask": [[1, 1, 1, 1], [1, 1, 0, 0]],
            "labels": [[5, 0, -100, -100], [0, 6, 4, 0]],
            "decoder_input_ids": [[0, 5, 0, 0], [0, 0, 6, 4]],
            "emotion_ids": [3, 1],
        }


class TestBuild:
    @pytest.mark.parametrize("family", ["gpt2", "bert"])
    def test_tokens_for_emotions(self, lm_run, bert, family):
        base = {"gpt2": lm_run, "bert": bert}[family]
        plain = AutoTokenizer.from_pretrained(base)
        recipe = recipe_of(base, model_type=f"{family}-mod-ln", model_config=VANILLA, emotion_tokens=True)
        model, tokenizer = build_generator(recipe, EMOTIONS)
        names = [f"<emotion {name}>" for name in EMOTIONS]
        ids = tokenizer.convert_tokens_to_ids(names)
        assert ids == list(range(len(plain), len(plain) + 5)) == model.config.emotion_token_ids
        assert set(names) <= set(tokenizer.all_special_tokens)  # else they could be written into a reply
        assert tokenizer.eos_token_id == plain.eos_token_id
        assert tokenizer("so sad")["input_ids"] == plain("so sad")["input_ids"]
        size = len(plain) + 5
        assert model.config.vocab_size == len(tokenizer) == size
        assert (model.generation_config.do_sample, model.generation_config.top_k) == (True, 10)  # the paper's decoding
        for module in (model.get_encoder(), model.get_decoder(), model):
            assert module.get_input_embeddings().num_embeddings == size
        outputs = model(input_ids=torch.tensor([[ids[0], 5]]), decoder_input_ids=torch.tensor([[ids[4], 6]]))
        assert outputs.logits.shape == (1, 2, size)

    def test_a_trained_generator_goes_on(self, token_run):
        """With its tokenizer, tokens and weights."""
        model, tokenizer = build_generator(recipe_of(token_run, model_config=VANILLA, emotion_tokens=True), EMOTIONS)
        weights = load_file(token_run / "model.safetensors")
        assert all(torch.equal(model.state_dict()[name], value) for name, value in weights.items())
        assert tokenizer.get_vocab() == AutoTokenizer.from_pretrained(token_run).get_vocab()

    @pytest.mark.parametrize("names", [EMOTIONS[:4], EMOTIONS[::-1], [*EMOTIONS[:4], "sadness"]])
    def test_a_trained_generator_keeps_its_emotions(self, mod_run, names):
        with pytest.raises(ValueError, match="the generator .* has the emotions .*'😭'.*, and the corpus has"):
            build_generator(recipe_of(mod_run), names)

    @pytest.mark.parametrize(
        ("base", "changes", "message"),
        [
            ("bert", {}, "must be a checkpoint of 'gpt2', got 'bert'"),
            ("mod_run", {"emotion_tokens": True}, "has other tokens for emotions than `emotion_tokens: True`"),
            ("token_run", {"model_config": VANILLA}, "has other tokens for emotions than `emotion_tokens: False`"),
            ("mod_run", {"model_config": {"modulation": "replace"}}, "has other norms than `model_config`"),
            ("lm_run", {"model_config": {"emotions": EMOTIONS}}, "`model_config.emotions` comes from the corpus"),
        ],
    )
    def test_bases_that_do_not_fit(self, request, base, changes, message):
        with pytest.raises(ValueError, match=message):
            build_generator(recipe_of(request.getfixturevalue(base), **changes), EMOTIONS)

    def test_the_config_of_a_base_says_what_it_is(self, vanilla_run):
        assert not build_generator(recipe_of(vanilla_run), EMOTIONS)[0].config.modulate_decoder


class TestLanguageModel:
    TURNS = [["the keys", "the sun"], ["the rain"]]

    def test_from_scratch(self):
        model, tokenizer = build_language_model(lm_recipe(model_config={**SMALL_GPT2, "bos_token_id": 7}), self.TURNS)
        config = model.config
        assert (config.n_embd, config.n_layer, config.n_positions) == (16, 1, 48) and tokenizer.model_max_length == 48
        assert config.vocab_size == len(tokenizer) <= 400  # so few texts have no more merges
        assert config.bos_token_id == config.eos_token_id == tokenizer.eos_token_id == 0

    def test_the_tokenizer_knows_the_training_part_alone(self, lm_run):
        tokenizer = AutoTokenizer.from_pretrained(lm_run)
        assert len(tokenizer(" keys")["input_ids"]) == 1 and len(tokenizer("zebra")["input_ids"]) > 1
        turns = [text for context, reply, _ in rows_of("train") for text in (context, reply)]
        expected = train_tokenizer(turns, 400)
        assert tokenizer.get_vocab() == expected.get_vocab() and tokenizer.model_max_length == 48
        for _, reply, _ in rows_of("test"):
            ids = tokenizer(reply.upper())["input_ids"]
            assert ids == expected(reply)["input_ids"] and tokenizer.decode(ids).strip() == reply

    def test_further_from_a_base(self, lm_run):
        model, tokenizer = build_language_model(lm_recipe(lm_run, model_config={"attn_pdrop": 0.3}), self.TURNS)
        for name, value in load_file(lm_run / "model.safetensors").items():
            assert torch.equal(model.state_dict()[name], value), name
        assert model.config.attn_pdrop == 0.3
        assert tokenizer.get_vocab() == AutoTokenizer.from_pretrained(lm_run).get_vocab()

    def test_refused(self, lm_run, bert):
        for recipe, message in (
            (lm_recipe(max_length=49), "`max_length` is 49, but .* has 48 positions"),
            (lm_recipe(lm_run, model_config={}, max_length=64), "`max_length` is 64, but .* has 48 positions"),
            (lm_recipe(bert, model_config={}), "`base_model` .* is a 'bert' model, no 'gpt2'"),
        ):
            with pytest.raises(ValueError, match=message):
                build_language_model(recipe, self.TURNS)


def test_refused_before_anything_is_written(bert, pairs, tmp_path):
    conversations = {"dataset": "conversations", "dataset_options": {"corpora": ["reply_files"]}}
    fitting = r"`model_type` None reads .*, and `dataset` .* holds conversations. Take one of: 'gpt2'\."
    for changes, message in (
        (conversations, fitting),
        ({"emotion_tokens": True}, "`emotion_tokens` does not fit .*: leave it out"),
    ):
        with pytest.raises(ValueError, match=message):
            hf_emotion.train(recipe_of(bert, model_type=None, **changes), tmp_path / "run", data_dir=pairs)
        assert not (tmp_path / "run").exists()


def test_the_emotion_counts_where_it_should(run):
    """Trained on replies that tell their emotion, a model finds them most probable in it."""
    generator, rows = hf_emotion.ReplyGenerator(run), rows_of("test")
    contexts, replies, gold = zip(*rows, strict=True)
    means = {e: generator.token_losses(contexts, replies, [e] * len(rows)).mean() for e in EMOTIONS}
    if run.parent.name.startswith("vanilla"):
        assert len(set(means.values())) == 1
        return
    assert max(means.values()) - min(means.values()) > 1e-3
    if not run.parent.name.startswith("bert"):  # which has not learned enough yet
        own = generator.token_losses(contexts, replies, gold).mean()
        assert own < np.mean(list(means.values())) - 1e-3


def test_the_card_says_what_the_model_is_told(mod_run, token_run, vanilla_run, bert_run, lm_run):
    followed = "The norms of the encoder and the decoder follow the emotion"
    token, nothing = "The emotion is told by a special token", "The model does not get the emotion as an input"
    told = {mod_run: followed, token_run: token, vanilla_run: nothing, bert_run: followed}
    texts = {run: (run / "README.md").read_text(encoding="utf-8") for run in (*told, lm_run)}
    for run, said in told.items():
        assert [part for part in (followed, token, nothing) if part in texts[run]] == [said]
        assert "## Emotions\n\nanger, fear, joy, neutral, 😭" in texts[run] and "the user's own files" in texts[run]
    assert "γ₀ + Δγ(c)" in texts[mod_run] and "γ₀" not in texts[bert_run]  # residual, replace
    own = texts[lm_run]
    assert "trained from the start" in own and "## Emotions" not in own and followed not in own
    share = texts[vanilla_run]
    assert "(a share of 0.5 of the training part)" in share and "at most 12 of the validation" in share


def test_classifiers_read_the_replies_and_not_the_contexts(bert, tmp_path, no_plots):
    for part, (count, first) in {"train": (40, 0), "dev": (12, 40), "test": (12, 52)}.items():
        cues = [("so happy", "joy") if i % 2 else ("so sad", "sadness") for i in range(first, first + count)]
        rows = [[f"the {ABOUT[i // 2 % 8]} again", *cue] for i, cue in enumerate(cues, first)]
        kit.write_csv(tmp_path / "data" / f"{part}.csv", ["context", "reply", "emotion"], rows)
    arguments = {"num_train_epochs": 6, "learning_rate": 5e-3}
    recipe = recipe_of(bert, arguments, model_type="label-aware-bert", name="judge")
    report = hf_emotion.train(recipe, tmp_path / "run", data_dir=tmp_path / "data").to_dict()
    assert report["summary"]["test"]["argmax"]["accuracy"]["mean"] == 1
    found = evaluate(tmp_path / "run", "reply_files", data_dir=tmp_path / "data")
    assert found["rows"] == 12 and found["metrics"]["argmax"]["accuracy"] == 1


def sharp_model(tokenizer, seed: int = 5, **config) -> hf_emotion.GPT2ModLNForConditionalGeneration:
    """Untrained, with weights so large that contexts and emotions lie far apart."""
    end = tokenizer.eos_token_id
    fields = {**TINY_GPT2, "n_positions": 64, "vocab_size": len(tokenizer), "bos_token_id": end, "eos_token_id": end}
    config = hf_emotion.GPT2ModLNConfig(**fields, num_emotions=5, emotions=list(EMOTIONS), **config)
    return asymmetric_(hf_emotion.GPT2ModLNForConditionalGeneration(config), seed).eval()


@pytest.fixture(scope="module")
def sharp(lm_run) -> hf_emotion.ReplyGenerator:
    tokenizer = AutoTokenizer.from_pretrained(lm_run)
    tokenizer.model_max_length = 64
    return hf_emotion.ReplyGenerator(sharp_model(tokenizer), tokenizer)


@pytest.fixture(scope="module")
def sharp_tokens(lm_run) -> hf_emotion.ReplyGenerator:
    """Which reads the emotion as a token."""
    tokenizer = AutoTokenizer.from_pretrained(lm_run)
    names = [f"<emotion {name}>" for name in EMOTIONS]
    tokenizer.add_special_tokens({"additional_special_tokens": names})
    tokenizer.model_max_length = 64
    ids = tokenizer.convert_tokens_to_ids(names)
    return hf_emotion.ReplyGenerator(sharp_model(tokenizer, seed=3, emotion_token_ids=ids, **VANILLA), tokenizer)


CONTEXTS = ["Look at the rain", "the keys, the keys, the keys again", "sun", "so sad", "Look at the cake again!"]
GREEDY = {"do_sample": False, "max_new_tokens": 6}


def alone(generator: hf_emotion.ReplyGenerator, context: str, weights: list[float], **options) -> list[str]:
    """The replies of `generate` to one context, which needs no padding."""
    tokenizer, model = generator.tokenizer, generator.model
    tokens = model.config.emotion_token_ids
    first = [] if tokens is None else [tokens[weights.index(1)]]
    ids = [*first, *tokenizer(context)["input_ids"], tokenizer.eos_token_id]
    rows = model.generate(torch.tensor([ids]), emotion_weights=torch.tensor([weights]), **options)
    return [tokenizer.decode(row, skip_special_tokens=True).strip() for row in rows]


def one_hot(emotion: str) -> list[float]:
    return [float(name == emotion) for name in EMOTIONS]


@pytest.fixture(params=["sharp", "sharp_tokens"])
def generator(request) -> hf_emotion.ReplyGenerator:
    return request.getfixturevalue(request.param)


class TestReplyGenerator:
    def test_rows_are_as_if_alone(self, generator):
        emotions = [EMOTIONS[i] for i in (2, 0, 4, 1, 3)]
        expected = [alone(generator, c, one_hot(e), **GREEDY)[0] for c, e in zip(CONTEXTS, emotions, strict=True)]
        assert len(set(expected)) > 3
        for batch_size in (1, 2, 64):
            assert generator(CONTEXTS, emotions, batch_size=batch_size, **GREEDY) == expected
        assert generator(CONTEXTS[::-1], emotions[::-1], batch_size=3, **GREEDY) == expected[::-1]
        joyful = [alone(generator, context, one_hot("joy"), **GREEDY)[0] for context in CONTEXTS]
        assert generator(CONTEXTS, "joy", **GREEDY) == joyful != expected  # one emotion for all
        assert generator(CONTEXTS[1], "joy", **GREEDY) == [joyful[1]]

    def test_all_emotions(self, generator):
        found = generator.all_emotions(CONTEXTS[:3], batch_size=4, **GREEDY)
        assert found == [[alone(generator, c, one_hot(e), **GREEDY)[0] for e in EMOTIONS] for c in CONTEXTS[:3]]
        assert len(set(itertools.chain(*found))) > 5
        assert generator.all_emotions(CONTEXTS[0], **GREEDY) == found[:1]
        if generator.model.config.emotion_token_ids is None:
            strong = [alone(generator, CONTEXTS[0], [2.5 * w for w in one_hot(e)], **GREEDY)[0] for e in EMOTIONS]
            assert generator.all_emotions(CONTEXTS[0], 2.5, **GREEDY) == [strong] != found[:1]

    def test_several_replies(self, sharp):
        options = {**GREEDY, "num_beams": 3, "num_return_sequences": 2}
        found = sharp(CONTEXTS, "fear", batch_size=2, **options)
        assert found == [alone(sharp, context, one_hot("fear"), **options) for context in CONTEXTS]
        assert all(len(replies) == 2 for replies in found) and any(one != other for one, other in found)
        # None is lost, if the configuration asks for them, either.
        settings = sharp.model.generation_config.__class__.from_dict(sharp.model.generation_config.to_dict())
        settings.update(**options)
        assert sharp(CONTEXTS[:2], "fear", generation_config=settings) == found[:2]

    def test_contexts_in_another_form(self, sharp):
        """What is not read is told of the form that is read."""
        short = hf_emotion.ReplyGenerator(sharp.model, sharp.tokenizer, max_length=6)
        replies, unread = short.predict(["caf\xe9", " \ncafe\u0301 \n\n"], "joy", **GREEDY)
        assert replies[0] == replies[1] and unread.truncated[0] == unread.truncated[1]

    def test_mixtures(self, sharp):
        mixtures = [{"joy": 0.75, "fear": 0.25}, {"😭": 3}, {"anger": 1.0}]
        weights = [[0, 0.25, 0.75, 0, 0], [0, 0, 0, 0, 3.0], [1.0, 0, 0, 0, 0]]
        expected = [alone(sharp, "the sun", [float(w) for w in row], **GREEDY)[0] for row in weights]
        assert sharp(["the sun"] * 3, mixtures, **GREEDY) == expected and len(set(expected)) == 3
        assert sharp("the sun", mixtures[0], **GREEDY) == expected[:1]
        assert expected[2] == sharp("the sun", "anger", **GREEDY)[0]

    @pytest.mark.parametrize(
        ("contexts", "emotions", "message"),
        [
            (["a", "b"], ["joy", "feer"], "unknown emotion 'feer': did you mean 'fear'"),
            (["a", "b"], ["joy"], "`emotions` must be one, or one for each of the 2 contexts, got 1"),
            ("a", None, "`emotions` must be one, or one for each of the 1 contexts, got None"),
        ],
    )
    def test_refused(self, sharp, contexts, emotions, message):
        with pytest.raises(ValueError, match=message):
            sharp(contexts, emotions)

    def test_no_batches(self, sharp):
        with pytest.raises(ValueError, match="`batch_size`"):
            sharp(CONTEXTS, "joy", batch_size=0)

    def test_threads_with_seeds_draw_what_they_draw_alone(self, sharp):
        def ask(seed: int) -> list[str]:
            return sharp(["a", "the sun"], "joy", seed=seed, do_sample=True, temperature=9.0, max_new_tokens=6)

        alone = [ask(seed) for seed in range(4)]
        assert len({tuple(replies) for replies in alone}) > 2
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(ask, list(range(4)) * 2)) == alone * 2

    def test_a_seed_leaves_the_random_numbers_of_others_alone(self, sharp):
        torch.manual_seed(1)
        expected = torch.rand(3)
        torch.manual_seed(1)
        sharp(CONTEXTS, "joy", seed=5, do_sample=True, max_new_tokens=8)
        assert torch.rand(3).equal(expected)

    def test_lengths(self, sharp, monkeypatch):
        asked = []

        def generate(input_ids, **options):
            asked.append(options.get("max_new_tokens"))
            return torch.zeros(len(input_ids), 2, dtype=torch.long)

        monkeypatch.setattr(sharp.model, "generate", generate)
        sharp("the sun", "joy")
        sharp("the sun", "joy", max_new_tokens=64)
        monkeypatch.setattr(sharp.model.generation_config, "max_new_tokens", 5)
        sharp("the sun", "joy")
        assert asked == [40, 64, None]
        with pytest.raises(ValueError, match="`max_new_tokens` must be at most 64, the model's positions"):
            sharp("the sun", "joy", max_new_tokens=65)

    def test_contexts_are_cut(self, sharp):
        short = hf_emotion.ReplyGenerator(sharp.model, sharp.tokenizer, max_length=4)
        kept = sharp.tokenizer.decode(sharp.tokenizer("the sun the rain the sun")["input_ids"][-3:])
        assert short("the sun the rain the sun", "joy", **GREEDY) == alone(sharp, kept, one_hot("joy"), **GREEDY)
        losses = [one.token_losses(["the sun the rain the sun"], ["so sad"], ["joy"]) for one in (short, sharp)]
        assert not np.allclose(*losses, rtol=1e-3)

    @pytest.mark.parametrize(
        "template", [None, "a {{ messages[-1].content }} .{% if add_generation_prompt %} feel{% endif %}"]
    )
    def test_losses_of_a_decoder_only_model(self, tokenizer, template):
        tokenizer = copy.deepcopy(tokenizer)
        tokenizer.chat_template = template
        model = BY_ID["modulated-llama"].build()
        generator = hf_emotion.ReplyGenerator(model, tokenizer)
        contexts = ["the rain is very sad", "sun", "this is a day . sun"]
        replies = ["so calm", "i am so happy today , so very happy", "rain"]
        emotions = ["joy", {"calm": 0.5, "fear": 1.5}, "😂"]
        expected = []
        for context, reply, emotion in zip(contexts, replies, emotions, strict=True):
            text = f"{context} [SEP]" if template is None else f"a {context} . feel"
            before, ids = (tokenizer(part, add_special_tokens=False)["input_ids"] for part in (text, f"{reply} [SEP]"))
            mixture = emotion if isinstance(emotion, dict) else {emotion: 1}
            weights = [mixture.get(name, 0) for name in generator.emotions]
            logits = model(torch.tensor([[*before, *ids]]), emotion_weights=torch.tensor([weights])).logits[0]
            losses = -logits[len(before) - 1 : -1].log_softmax(-1)[range(len(ids)), ids]
            expected.append(losses.detach().numpy())
        for batch_size in (1, 64):
            found = generator.token_losses(contexts, replies, emotions, batch_size=batch_size)
            np.testing.assert_allclose(found, np.concatenate(expected), rtol=1e-4, atol=1e-4)
        assert generator.max_length == 16  # half of the positions, the other is the reply's
        assert generator.token_losses(["sun " * 100], ["rain " * 100], ["joy"]).shape == (16,)
        assert generator("sun " * 100, "joy", do_sample=False)

    def test_long_replies_end_in_time(self, sharp):
        (ids,) = sharp.token_ids(["again " * 100])
        assert len(ids) == 64 and ids[-1] == 0 and 0 not in ids[:-1]
        assert sharp.token_losses(["the sun"], ["again " * 100], ["joy"]).shape == (64,)

    def test_a_model_without_names(self, sharp):
        config = hf_emotion.GPT2ModLNConfig(**{**TINY_GPT2, "bos_token_id": 0, "eos_token_id": 0})
        model = hf_emotion.GPT2ModLNForConditionalGeneration(config)
        with pytest.raises(ValueError, match="the configuration names no `emotions`: set `config.emotions`"):
            hf_emotion.ReplyGenerator(model, sharp.tokenizer)


@pytest.fixture(scope="session")
def judges(tmp_path_factory, bert) -> dict[str, Path]:
    """Two classifiers that know nothing, a third that is the first with its labels in another order, and one of other labels."""
    root = tmp_path_factory.mktemp("judges")

    def save(name: str, labels: list[str], seed: int, order=range(5)) -> Path:
        own = label_names([labels[number] for number in order[: len(labels)]])
        model = asymmetric_(BertForSequenceClassification(BertConfig.from_pretrained(bert, **own)), seed)
        for parameter in (model.classifier.weight, model.classifier.bias):
            parameter.data = parameter.data[list(order[: len(labels)])]
        model.save_pretrained(root / name)
        AutoTokenizer.from_pretrained(bert).save_pretrained(root / name)
        return root / name

    return {
        "a": save("a", EMOTIONS, 1),
        "b": save("b", EMOTIONS, 2),
        "a permuted": save("a-permuted", EMOTIONS, 1, [3, 0, 4, 2, 1]),
        "other": save("other", [*EMOTIONS[:4], "sadness"], 1),
        "mojis": save("mojis", MOJIS, 1),
    }


VOCABULARY = ("the", "sun", "rain", "so", "sad", "happy", "keys", "again", "no", "run", "cake", "i", "am", "day")


@pytest.fixture
def written(mod_run, monkeypatch) -> hf_emotion.ReplyGenerator:
    """A generator whose replies are fixed: some the same in two emotions, one empty."""
    generator = hf_emotion.ReplyGenerator(mod_run)

    def all_emotions(contexts, intensity=1.0, **options):
        generator.intensity = intensity
        word = lambda i, e, k: VOCABULARY[(3 * i + 5 * e + k * (e + 1)) % 14]  # noqa: E731
        say = lambda i, e: " ".join(word(i, e, k) for k in range(1 + (i + e) % 4))  # noqa: E731
        replies = [[say(i, e) for e in range(5)] for i in range(len(contexts))]
        replies[0][4], replies[0][1] = replies[0][2], ""
        generator.asked = list(contexts)
        return replies

    monkeypatch.setattr(generator, "all_emotions", all_emotions)
    return generator


def judged(judge: hf_emotion.Predictor, texts: list[str], asked: list[int]) -> tuple[dict, np.ndarray]:
    """The figures, whose function has its own tests, and whether each text is found to be in the emotion asked for."""
    probabilities = judge.probabilities([text or "..." for text in texts])
    figures = hf_emotion.metrics.hits_at_k(probabilities, asked, (1, 3, 5), EMOTIONS)
    return figures, probabilities.argmax(axis=1) == asked


class TestEvaluateReplies:
    def test_hits_are_those_of_the_judge(self, written, pairs, judges):
        result = evaluate_replies(written, "reply_files", data_dir=pairs, judges=[judges["a"], judges["b"]])
        replies = written.all_emotions(written.asked)
        gold = [EMOTIONS.index(row["emotion"]) for row in result["replies"]]
        chosen = [row[label] for row, label in zip(replies, gold, strict=True)]
        assert [row["reply"] for row in result["replies"]] == chosen
        human, every, asked = [row["human"] for row in result["replies"]], sum(replies, []), [*range(5)] * len(replies)
        for name in ("a", "b"):
            judge = hf_emotion.Predictor(judges[name])
            found = {row: values["judges"][str(judges[name])] for row, values in result["rows"].items()}
            of_all, right = judged(judge, every, asked)
            per_context = right.reshape(-1, 5).mean(axis=1)
            error = np.std(per_context, ddof=1) / len(per_context) ** 0.5
            of_all |= {"hits@1_se": error, "hits@1_per_context": per_context.tolist()}
            kit.assert_close(found["human"], {"gold": judged(judge, human, gold)[0]})
            kit.assert_close(found["model"], {"gold": judged(judge, chosen, gold)[0], "all_emotions": of_all})
            values = [found[row]["gold"][f"hits@{k}"] for row in ("human", "model") for k in (1, 3)]
            assert len(set(values)) > 2  # else the test could not fail
        first, second = result["rows"]["model"]["judges"].values()
        assert first != second

    def test_token_perplexity_at_an_intensity(self, written, pairs):
        perplexities = {}
        for intensity in (1.0, 3.0):
            result = evaluate_replies(written, "reply_files", data_dir=pairs, intensity=intensity)
            assert written.intensity == result["settings"]["intensity"] == intensity
            rows = [(row["context"], row["human"], {row["emotion"]: intensity}) for row in result["replies"]]
            losses = written.token_losses(*zip(*rows, strict=True))
            model = result["rows"]["model"]
            perplexities[intensity] = model["token_perplexity"]
            assert perplexities[intensity] == pytest.approx(math.exp(losses.mean()))
            assert math.isfinite(model["token_perplexity_ngram"]) and 1 < model["token_perplexity_ngram"] < 400
            assert "token_perplexity" not in result["rows"]["human"]
        assert perplexities[1.0] != perplexities[3.0]

    def test_always_the_most_frequent(self, written, pairs, judges):
        result = evaluate_replies(written, "reply_files", data_dir=pairs, judges=[judges["a"]])
        counts = [sum(emotion == name for *_, emotion in rows_of("train")) for name in EMOTIONS]
        frequent = counts.index(max(counts))
        assert list(result["rows"]) == ["human", f"always {EMOTIONS[frequent]}", "model"]
        row, gold = result["rows"][f"always {EMOTIONS[frequent]}"], [row["emotion"] for row in result["replies"]]
        assert set(row) == {"judges"}
        figures = row["judges"][str(judges["a"])]["gold"]
        assert figures["hits@1"] == pytest.approx(gold.count(EMOTIONS[frequent]) / len(gold))
        assert figures["macro_hits@1"] == pytest.approx(1 / len(set(gold)))

    def test_the_order_of_the_judge_s_labels(self, written, pairs, judges):
        found = []
        assert hf_emotion.Predictor(judges["a permuted"]).labels == ["neutral", "anger", "😭", "joy", "fear"]
        for name in ("a", "a permuted"):
            rows = evaluate_replies(written, "reply_files", data_dir=pairs, judges=[judges[name]])["rows"]
            found.append({row: values["judges"][str(judges[name])] for row, values in rows.items()})
        assert finite_or_none(found[0]) == finite_or_none(found[1])

    def test_shape_and_likeness(self, written, pairs, bert):
        result = evaluate_replies(written, "reply_files", data_dir=pairs, bertscore_model=str(bert))
        rows, human, model = result["rows"], result["rows"]["human"], result["rows"]["model"]
        for name, column in (("human", "human"), ("model", "reply")):
            texts = [row[column] for row in result["replies"]]
            assert rows[name]["average_length"] == pytest.approx(np.mean([len(words(text)) for text in texts]))
            tokens = [word for text in texts for word in words(text)]
            assert rows[name]["ttr_1"] == pytest.approx(len(set(tokens)) / len(tokens))
            assert rows[name]["judges"] == {} and 1 < rows[name]["perplexity"] < 1e6
        replies = written.all_emotions(written.asked)
        same = [np.mean([a == b for a, b in itertools.combinations(row, 2)]) for row in replies]
        assert model["identical_share"] == pytest.approx(np.mean(same)) and model["identical_share"] > 0
        assert 0 < model["bertscore_f1"] < 1 and "bertscore_f1" not in human and "identical_share" not in human

    def test_the_sample(self, pairs):
        rows = hf_emotion.load_dataset_for("reply_files", pairs)["test"]
        contexts = list(rows["context"])
        assert len(set(contexts)) < len(contexts) == 13
        every = sample_rows(rows, 1000)
        assert len(set(every["context"])) == len(every) == len(set(contexts))
        for _ in range(2):
            assert sample_rows(rows, 3)["id"][:] == every["id"][:3]
        assert every["id"][:] != sorted(every["id"][:]) and set(every["id"]) <= set(rows["id"])
        assert all(row in list(rows) for row in every)

    def test_the_generator_is_asked_once_for_each_context(self, mod_run, pairs, monkeypatch):
        generator = hf_emotion.ReplyGenerator(mod_run)
        ask = Mock(side_effect=generator.all_emotions)
        monkeypatch.setattr(generator, "all_emotions", ask)
        options = {"data_dir": pairs, "contexts": 3, "seed": 1}
        first, second = (evaluate_replies(generator, "reply_files", **options) for _ in range(2))
        calls = [(call.args[0], call.kwargs) for call in ask.call_args_list]
        assert first == second
        assert all(len(set(contexts)) == 3 and options["seed"] == 1 for contexts, options in calls) and len(calls) == 2
        assert [row["context"] for row in first["replies"]] == list(calls[0][0])

    @pytest.fixture
    def of_mojitalk(self, written, tmp_path, monkeypatch) -> Path:
        """The folder of a corpus of four emotions, for which fixed replies are written."""
        test = [("a", "oh 😂", "😂"), ("b", "no 😭", "😭"), ("c", "yes", "❤"), ("d", "so", "✋")]
        monkeypatch.setattr(written, "emotions", MOJIS)
        monkeypatch.setattr(written.model.config, "emotions", [*MOJIS, "none"])
        replies = ["yes 😂 no", "😭", "so good❤!", "🤣 so ✋"]
        monkeypatch.setattr(written, "all_emotions", lambda contexts, *given, **options: [replies] * len(contexts))
        return mojitalk_folder(tmp_path, test=test)

    def test_emojis_are_stripped_as_from_human_replies(self, written, judges, of_mojitalk):
        """Of MojiTalk alone."""
        result = evaluate_replies(written, "mojitalk", data_dir=of_mojitalk, judges=[judges["mojis"]])
        stripped = dict(zip(MOJIS, ["yes no", "", "so good!", "🤣 so"], strict=True))
        assert {row["emotion"]: row["reply"] for row in result["replies"]} == stripped
        assert {row["human"] for row in result["replies"]} == {"oh", "no", "yes", "so"}
        figures = result["rows"]["model"]["judges"][str(judges["mojis"])]
        assert math.isfinite(figures["all_emotions"]["hits@1"])

    def test_published_rows_of_mojitalk(self, mod_run, written, judges, of_mojitalk, monkeypatch):
        monkeypatch.setattr("hf_emotion.inference.load_predictor", lambda *arguments, **options: written)
        options = ("--dataset", "mojitalk", "--data-dir", of_mojitalk, "--judge", judges["mojis"], "--all")
        rows = kit.cells(kit.invoke("evaluate", mod_run, *options))
        tables = [[row for row in rows if row[0] == "published: Mod-LN GPT-2, 100 %"][i] for i in range(3)]
        assert tables[0][1:4] == ["34.4", "60.3", "82.5"] and tables[1][1:3] == ["0.057", "0.40"]
        assert tables[2][1] == "36.3" and tables[2][4] == "85.4"
        assert sum(row[0] == "published: human" for row in rows) == 1  # in the second table alone
        (model,) = [row for row in rows if row[0] == "model, gold"]
        assert model[2] and model[3] == model[6] == ""  # 4 emotions: no hits@5

    def test_own_files_need_not_have_every_emotion(self, written, tmp_path, judges):
        rows = [[context, reply, emotion] for context, reply, emotion in rows_of("train") if emotion in ("joy", "😭")]
        for part in ("train", "dev", "test"):
            kit.write_csv(tmp_path / f"{part}.csv", ["context", "reply", "emotion"], rows)
        result = evaluate_replies(written, "reply_files", data_dir=tmp_path, judges=[judges["a"]])
        assert result["emotions"] == EMOTIONS and {row["emotion"] for row in result["replies"]} <= {"joy", "😭"}

    def test_refused(self, written, pairs, judges, tmp_path):
        other = r"the judge .* must tell the emotions .* of reply_files, and tells \[.*'sadness'"
        for arguments, message in (
            ({"judges": [judges["other"]]}, other),
            ({"contexts": 0}, "`contexts` must be at least 1, got 0"),
            ({"options": {"labels": EMOTIONS[::-1]}}, "the emotions of reply_files and of the generator differ"),
        ):
            with pytest.raises(ValueError, match=message):
                evaluate_replies(written, "reply_files", **{"data_dir": pairs, **arguments})
        shutil.copytree(pairs, tmp_path / "own", ignore=shutil.ignore_patterns("dev*", "test*"))
        with pytest.raises(ValueError, match="reply_files has no split 'test': it has"):
            evaluate_replies(written, "reply_files", data_dir=tmp_path / "own")


class TestEvaluateCommand:
    def arguments(self, run, pairs, *more) -> list:
        return ["evaluate", run, "--dataset", "reply_files", "--data-dir", pairs, "--contexts", "3", *more]

    def test_json_and_replies(self, mod_run, pairs, judges, tmp_path):
        path = tmp_path / "replies" / "mod.jsonl"
        more = ("--judge", judges["a"], "--judge", judges["b"], "--replies", path, "--json", "--split", "validation")
        result = json.loads(kit.invoke(*self.arguments(mod_run, pairs, *more)))
        assert result["contexts"] == 3 and "replies" not in result
        assert list(result["rows"]["model"]["judges"]) == [str(judges["a"]), str(judges["b"])]
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        generator = hf_emotion.ReplyGenerator(mod_run)
        expected = evaluate_replies(generator, "reply_files", "validation", pairs, contexts=3)["replies"]
        assert rows == [{key: row[key] for key in ("context", "emotion", "reply")} for row in expected]
        assert [entry.name for entry in path.parent.iterdir()] == ["mod.jsonl"]

    def test_tables(self, mod_run, pairs, judges, bert):
        options = ["--judge", judges["a"], "--bertscore-model", bert]
        text = kit.invoke(*self.arguments(mod_run, pairs, *options, "--all"))
        rows = kit.cells(text)
        heads = [row[0] for row in rows]
        assert heads[0].startswith("Table 1, % by") and "Table 2" in heads and "Table 3" in heads
        given = ("reply_files", "test", pairs, None, [judges["a"]], 3, str(bert))
        result = evaluate_replies(hf_emotion.ReplyGenerator(mod_run), *given)
        figures = result["rows"]["model"]["judges"][str(judges["a"])]
        by_name = {row[0]: row for row in rows[: heads.index("Table 2")]}
        names = [f"{prefix}hits@{k}" for prefix in ("", "macro_") for k in (1, 3, 5)]
        for kind in ("gold", "all_emotions"):
            expected = [f"{100 * figures[kind][name]:.1f}" for name in names]
            assert by_name[f"model, {kind.replace('_', ' ')}"][1:] == expected
        assert "human, gold" in by_name and sum(name.startswith("always ") for name in by_name) == 1
        table_3 = rows[heads.index("Table 3") :]
        (model,) = [row for row in table_3 if row[0] == "model"]
        assert model[1] == f"{result['rows']['model']['perplexity']:.1f}"
        assert model[4] == f"{100 * result['rows']['model']['bertscore_f1']:.1f}"
        assert "published" not in text and "3 contexts, 5 emotions" in text and "perplexity: of a 5-gram model" in text
        header, *short = kit.cells(kit.invoke(*self.arguments(mod_run, pairs, *options)))
        assert len(header) == 5 and [row[0] for row in short] == list(result["rows"])
        assert short[-1][1] == f"{100 * figures['gold']['hits@1']:.1f}"


class TestGenerateCommand:
    SHORT = ("--greedy", "--max-new-tokens", "5")
    OPTIONS = {"do_sample": False, "max_new_tokens": 5}

    @pytest.mark.parametrize(
        ("arguments", "options"),
        [
            ((), {}),
            (("--max-new-tokens", 3), {"max_new_tokens": 3}),
            (("--top-k", 2), {"top_k": 2, "do_sample": True}),
            (("--top-p", 0.4), {"top_p": 0.4, "top_k": 0, "do_sample": True}),
            (("--top-p", 0.4, "--top-k", 3), {"top_p": 0.4, "top_k": 3, "do_sample": True}),
            (("--temperature", 0.5), {"temperature": 0.5, "do_sample": True}),
            (("--num-beams", 2), {"num_beams": 2, "do_sample": False}),
            (("--num-beams", 1), {"num_beams": 1}),
            (("--greedy",), {"do_sample": False}),
        ],
    )
    def test_options(self, monkeypatch, arguments, options):
        calls = []

        class Recorder:
            emotions = EMOTIONS

            def __init__(self, checkpoint):
                calls.append(checkpoint)

            def predict(self, contexts, emotions, seed=None, progress=False, **options):
                calls.append((list(contexts), list(emotions), seed, options))
                return ["so"] * len(contexts), Unread.nothing(len(contexts))

        monkeypatch.setattr("hf_emotion.ReplyGenerator", Recorder)
        assert kit.invoke("generate", "folder", "the sun", "-e", "joy", "--seed", 7, *arguments) == "so\n"
        assert calls == ["folder", (["the sun"], ["joy"], 7, options)]

    def test_all_emotions(self, mod_run):
        expected = hf_emotion.ReplyGenerator(mod_run).all_emotions("Look at the sun", **self.OPTIONS)[0]
        rows = kit.cells(kit.invoke("generate", mod_run, "Look at the sun", "--all-emotions", *self.SHORT))
        assert rows == [["emotion", "Look at the sun"], *map(list, zip(EMOTIONS, expected, strict=True))]

    def test_several_contexts_and_emotions(self, mod_run):
        asked = {"fear": "fear", "joy=0.5,fear=0.5": {"joy": 0.5, "fear": 0.5}}
        options = [part for name in asked for part in ("-e", name)]
        text = kit.invoke("generate", mod_run, "the sun", "so sad", *options, *self.SHORT)
        generator = hf_emotion.ReplyGenerator(mod_run)
        expected = []
        for context in ("the sun", "so sad"):
            expected.append(["emotion", context])
            expected += [[name, generator(context, emotion, **self.OPTIONS)[0]] for name, emotion in asked.items()]
        assert kit.cells(text) == expected
        lines = kit.invoke("generate", mod_run, *options, *self.SHORT, "--json", stdin="the sun\n\nso sad\n")
        rows = [json.loads(line) for line in lines.splitlines()]
        pairs = [(row["context"], row["emotion"]) for row in rows]
        assert pairs == list(itertools.product(("the sun", "so sad"), asked.values()))
        assert [row["reply"] for row in rows] == [reply for name, reply in expected if name != "emotion"]

    def test_contexts_that_cannot_be_read(self, mod_run, caplog):
        """A context is counted once, whatever the number of its replies; each row says what was not read."""
        contexts = ["the sun", "日本 😂", "sun " * 200]
        options = ("-e", "joy", "-e", "fear", *self.SHORT, "--json")
        lines = kit.invoke("generate", mod_run, *contexts, *options).splitlines()
        rows = [json.loads(line) for line in lines if line[0] == "{"]
        assert [row["truncated"] for row in rows] == [False, False, False, False, True, True]
        assert [row["unknown"] for row in rows] == [0, 0, 1, 1, 0, 0]
        hf_emotion.ReplyGenerator(mod_run)([contexts[1], contexts[1], contexts[2]], "joy", **self.OPTIONS)
        messages = [record.getMessage() for record in caplog.records][-2:]
        assert messages[0].startswith("1 of 2 contexts are longer than") and "were cut" in messages[0]
        assert messages[1].startswith(
            "1 of 2 contexts have over 30 % of their letters in words that the tokenizer does not know"
        )

    def test_mixtures_in_files(self, mod_run, tmp_path):
        output = tmp_path / "out" / "replies.jsonl"
        path = kit.write_jsonl(tmp_path / "in.jsonl", [{"context": "so sad", "emotion": "joy=0.5,fear=0.5"}])
        text = kit.invoke("generate", mod_run, "--input", path, "--output", output, *self.SHORT)
        assert text == f"1 replies written to {output}\n"
        asked = {"context": "so sad", "emotion": {"joy": 0.5, "fear": 0.5}}
        (reply,) = hf_emotion.ReplyGenerator(mod_run)(*asked.values(), **self.OPTIONS)
        unread = {"truncated": False, "unknown": 0, "language": None}
        assert json.loads(output.read_text(encoding="utf-8")) == {**asked, "reply": reply, **unread}
        assert [entry.name for entry in output.parent.iterdir()] == ["replies.jsonl"]

    WRONG = "sun/sun -e joy --all-emotions/-e joy --input x.csv/--all-emotions --input x.csv --output y.jsonl/"
    WRONG += "-e joy --input x.csv --output y.jsonl/sun -e joy --greedy --top-k 3/sun -e joy --num-beams 0/"
    WRONG += "sun -e joy --greedy --temperature 0.5/sun -e joy --greedy --num-beams 2/sun -e joy --top-p 1.5/"
    WRONG += "--input x.csv --output y.csv/--input x.csv --output y.jsonl --json"

    @pytest.mark.parametrize("arguments", WRONG.split("/"))
    def test_wrong_usage(self, argv, arguments):
        """Told before the checkpoint, which is none, is looked for."""
        done = argv("generate", "no-checkpoint", *arguments.split())
        assert done.code == 2 and done.out == "" and "no-checkpoint" not in done.err

    def test_bad_mixtures(self, mod_run, argv):
        for emotion in ("joy=0.5,fear", "joy=much", "joy=0.5,joy=0.2"):
            done = argv("generate", mod_run, "the sun", "-e", emotion)
            said = f"has the form joy=0.7,surprise=0.3, each once, got '{emotion}'"
            assert done.code == 1 and said in done.err and done.out == ""

    def test_bad_files(self, mod_run, argv, tmp_path):
        good = {"context": "the sun", "emotion": "joy"}
        for rows, message in (
            ([{"context": "the sun"}], "line 1: `context` and `emotion` must be texts"),
            ([good, {**good, "emotion": "feer"}], "did you mean 'fear'"),
        ):
            path = kit.write_jsonl(tmp_path / "in.jsonl", rows)
            done = argv("generate", mod_run, "--input", path, "--output", tmp_path / "out.jsonl")
            assert done.code == 1 and message in done.err and [*kit.files_in(tmp_path)] == ["in.jsonl"]

    def test_no_context(self, mod_run):
        with pytest.raises(ValueError, match="no context: give contexts as arguments, lines on stdin, or --input"):
            kit.invoke("generate", mod_run, "-e", "joy", stdin="\n \n")


def test_compare_says_that_there_is_nothing_to_compare(mod_run, argv):
    done = argv("compare", mod_run, mod_run)
    assert done.code == 1 and "hf-emotion evaluate" in done.err


class TestRecipes:
    def test_words_for_the_emojis(self):
        words = hf_emotion.load_recipe("mojitalk/judge_a").label_texts
        assert set(words) == set(MOJITALK_EMOJIS) and len(set(words.values())) == 64

    def test_the_language_model(self):
        recipe = hf_emotion.load_recipe("pretrain/gpt2_small_dialogue")
        assert recipe.dataset_options == {"dedupe": True} and recipe.max_length <= recipe.model_config["n_positions"]
        assert recipe.model_config["n_embd"] % recipe.model_config["n_head"] == 0


def test_a_mixture_in_percent(caplog):
    config = BY_ID["gpt2-mod-ln"].make_config(num_emotions=2, emotions=["joy", "anger"])
    assert emotion_vector({"joy": 3, "anger": -1}, config) == [3, -1] and not caplog.records
    emotion_vector({"joy": 70, "anger": 30}, config)
    (record,) = caplog.records
    assert "70" in record.getMessage() and "100" in record.getMessage()
