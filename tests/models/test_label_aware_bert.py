# SPDX-License-Identifier: Apache-2.0
"""Label-aware BERT against its formulas, computed a second time row by row, and what only this family can do."""

import copy
import math

import pytest
import torch
from hf_emotion.modeling import class_balanced_weights, classification_loss
from model_cases import BY_ID, LABELS, TEXTS, TINY_BERT, VOCABULARY, WORD_PIECES, classifier_inputs, encoder_inputs
from model_equations import masked_inputs, naive_label_aware
from torch.nn import functional as F
from torch.testing import assert_close
from transformers import AutoModelForSequenceClassification, BertConfig, BertModel, pipeline


GOEMOTIONS_EXTREMES = [77, 14219]  # training rows of the rarest and of the most frequent label
BALANCED = BY_ID["label-aware-pooler-hidden-balanced"]  # with thresholds and counts
build, make_config = BY_ID["label-aware"].build, BY_ID["label-aware"].make_config
UNTIED, HIDDEN, NARROW = {"tie_head": False}, {"head_hidden_size": 7}, {"label_embedding_size": 10}
POOLER = {"sentence_representation": "pooler"}
ALL = {**UNTIED, **HIDDEN, **NARROW, **POOLER}
FORMS = [{}, UNTIED | NARROW, HIDDEN | POOLER, ALL, POOLER | NARROW, HIDDEN | UNTIED]


# The formulas once more. Everything below is float64 and shares no code with the models.
def stock_hidden_states(model, inputs: dict) -> torch.Tensor:
    """H of transformers' own BERT with the model's weights, (B, L, d). Positions count from the first real token."""
    bert = BertModel(BertConfig(**TINY_BERT), add_pooling_layer=False).double().eval()
    names = set(bert.state_dict())
    bert.load_state_dict({name: value for name, value in model.bert.state_dict().items() if name in names})
    first = inputs["attention_mask"].argmax(dim=1, keepdim=True)
    position_ids = (torch.arange(inputs["input_ids"].shape[1]) - first).clamp(min=0)
    with torch.no_grad():
        return bert(**{"position_ids": position_ids, **inputs}).last_hidden_state


def naive_bilinear(model, hidden: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """-> logits, representations, attentions of all rows."""
    config, w, rows = model.config, model.state_dict(), []
    for h, real in zip(hidden, mask.bool(), strict=True):
        sentence = h[real][0]
        if config.sentence_representation == "pooler":
            sentence = (w["bert.pooler.dense.weight"] @ sentence + w["bert.pooler.dense.bias"]).tanh()
        logits, joined, found = naive_label_aware(w, "bert", config, h[real], sentence)
        attention = torch.zeros(config.num_labels, len(h)).double()
        attention[:, real] = found
        rows.append((logits, joined, attention))
    return tuple(torch.stack(values) for values in zip(*rows, strict=True))


def naive_leam(model, hidden: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Cosine, convolution over real tokens, ReLU, maximum over labels, scalar, softmax -> logits, z, attention."""
    radius, w, rows = model.config.leam_radius, model.state_dict(), []
    for h, real in zip(hidden, mask.bool(), strict=True):
        cosine = F.cosine_similarity(w["bert.score.label_embeddings"][:, None], h[None], dim=-1) * real  # (C, L)
        windows = F.pad(cosine, (radius, radius)).unfold(1, 2 * radius + 1, 1)
        matches = (windows @ w["bert.score.weight"][0, 0] + w["bert.score.bias"][0]).relu()
        attention = torch.zeros(1, len(h)).double()
        attention[0, real] = (w["bert.score.scale"][0] * matches.max(dim=0).values[real]).softmax(dim=0)
        vector = attention[0] @ h
        rows.append((w["classifier.1.weight"] @ vector + w["classifier.1.bias"], vector, attention))
    return tuple(torch.stack(values) for values in zip(*rows, strict=True))


@torch.no_grad()
def assert_equals_formula(model, naive) -> None:
    model, inputs = model.double(), masked_inputs()
    mask = inputs["attention_mask"]
    logits, representations, attentions = naive(model, stock_hidden_states(model, inputs), mask)
    base, head = model.bert(**inputs), model(**inputs)
    tolerance = {"rtol": 1e-9, "atol": 1e-9}
    assert_close(base.label_representations, representations, **tolerance)
    for outputs in (base, head):
        assert_close(outputs.label_attentions, attentions, **tolerance)
        assert not outputs.label_attentions.masked_select(mask[:, None] == 0).any()
    assert_close(head.logits, logits, **tolerance)


@torch.no_grad()
def test_position_ids_can_be_given():
    model, inputs = build().double(), encoder_inputs(3, 9, seed=22)
    inputs["position_ids"] = torch.randperm(9, generator=torch.Generator().manual_seed(1))[None].expand(3, -1)
    found = model(**inputs, output_hidden_states=True).hidden_states[-1]
    assert_close(found, stock_hidden_states(model, inputs), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("config", FORMS)
def test_label_aware_equals_the_formulas(config):
    model, size = build(**config), config.get("label_embedding_size", TINY_BERT["hidden_size"])
    assert model.config.label_embedding_size == size
    assert model.bert.score.label_embeddings.shape == (len(LABELS), size)
    assert_equals_formula(model, naive_bilinear)


@pytest.mark.parametrize("radius", [0, 2, 5])
def test_leam_equals_the_formulas(radius):
    assert_equals_formula(build(label_attention="leam", leam_radius=radius), naive_leam)


@pytest.mark.parametrize("label_attention", ["bilinear", "leam"])
@pytest.mark.parametrize(("classifier_dropout", "expected"), [(None, 0.2), (0.3, 0.3), (0.0, 0.0)])
def test_dropout_probability_of_the_head(label_attention, classifier_dropout, expected):
    model = build(label_attention=label_attention, hidden_dropout_prob=0.2, classifier_dropout=classifier_dropout)
    dropouts = [module.p for module in model.classifier.modules() if isinstance(module, torch.nn.Dropout)]
    assert dropouts == [expected]


def test_new_labels_of_a_class_balanced_model_ask_for_their_counts(tmp_path):
    BALANCED.build().save_pretrained(tmp_path)
    new = {"num_labels": 3, "ignore_mismatched_sizes": True}
    inputs, labels = encoder_inputs(2, 5, seed=0), torch.ones(2, 3)
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path, **new)
    assert model(**inputs).logits.shape == (2, 3)
    with pytest.raises(ValueError, match="`class_balanced_beta` is set: the config needs `class_counts`"):
        model(**inputs, labels=labels)
    for arguments in ({"class_counts": [3, 1, 2]}, {"class_balanced_beta": None}):
        model = AutoModelForSequenceClassification.from_pretrained(tmp_path, **new, **arguments)
        assert model(**inputs, labels=labels).loss.isfinite()


def naive_weights(counts: list[int], beta: float) -> torch.Tensor:
    return torch.tensor([(1 - beta) / (1 - beta**n) for n in counts], dtype=torch.float64)


@pytest.mark.parametrize("beta", [0.0, 0.5, 0.9999])
def test_class_balanced_weights_equal_the_formula(beta):
    counts = [1, 2, 10, *GOEMOTIONS_EXTREMES]
    weights = class_balanced_weights(counts, beta)
    assert weights.dtype == torch.float32
    assert_close(weights, naive_weights(counts, beta).float(), rtol=1e-6, atol=0)
    normalized = class_balanced_weights(counts, beta, normalize=True)
    assert normalized.mean().item() == pytest.approx(1, abs=1e-6)
    assert_close(normalized / normalized[0], weights / weights[0], rtol=1e-5, atol=0)


def test_a_class_without_rows_weighs_as_much_as_the_one_with_the_fewest():
    for beta in (0.0, 0.9, 0.999):
        weights = class_balanced_weights([200, 0, 350, 0], beta)
        assert_close(weights, class_balanced_weights([200, 200, 350, 200], beta), rtol=0, atol=0)
        assert weights.max() == weights[0]
        assert_close(class_balanced_weights([0, 0], beta), torch.ones(2))
    normalized = class_balanced_weights([200, 350, 0], 0.999, normalize=True)
    assert normalized.mean().item() == pytest.approx(1) and normalized.max() < 1.3  # as a single row it had 2.99 of 3


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("label_attention", ["bilinear", "leam"])
@torch.no_grad()
def test_label_attention_of_half_precision_is_that_of_its_numbers(label_attention, autocast):
    """Scores of some size, rounded to bfloat16, would move the attention by more than one part in a hundred."""
    model = build(label_attention=label_attention)
    (model.bert.score.scale if label_attention == "leam" else model.bert.score.label_embeddings).mul_(9)
    if not autocast:
        model.bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        outputs = model.bert(**masked_inputs())
    exact = copy.deepcopy(model.bert.score).double()
    mask = masked_inputs()["attention_mask"].bool()
    _, expected, _ = exact(outputs.last_hidden_state.double(), mask)
    assert expected.max() > 0.6  # or there is little to round
    assert outputs.label_attentions.dtype == outputs.last_hidden_state.dtype
    # Half a step of bfloat16 below 1, and some.
    assert_close(outputs.label_attentions.double(), expected, rtol=0, atol=2.5e-3)


def naive_loss(logits: torch.Tensor, labels: torch.Tensor, config) -> float:
    weights = torch.ones(logits.shape[1]).double()
    if config.class_balanced_beta is not None:
        weights = naive_weights(config.class_counts, config.class_balanced_beta)
        if config.class_balanced_normalize:
            weights = weights / weights.mean()
    if config.problem_type == "multi_label_classification":
        p = 1 / (1 + (-logits.double()).exp())
        return -(weights * (labels * p.log() + (1 - labels) * (1 - p).log())).mean().item()
    chosen = logits.double().softmax(dim=1)[torch.arange(len(labels)), labels]
    return -(weights[labels] * chosen.log()).mean().item()


@pytest.mark.parametrize("problem_type", ["multi_label_classification", "single_label_classification"])
@pytest.mark.parametrize("fields", ["", "class_counts", "class_counts beta", "class_counts beta normalize"])
def test_loss_equals_the_formula(problem_type, fields):
    values = {"class_counts": [3, 40, 7, 1, 12], "beta": 0.9, "normalize": True}
    balance = {name if "counts" in name else f"class_balanced_{name}": values[name] for name in fields.split()}
    model = build(problem_type=problem_type, **balance)
    inputs = classifier_inputs(6, 9, seed=4, multi_label=problem_type.startswith("multi"))
    labels, outputs = inputs["labels"], model(**inputs)
    expected = naive_loss(outputs.logits.detach(), labels, model.config)
    assert outputs.loss.item() == pytest.approx(expected, rel=1e-5)
    # Data sets hold 0 and 1 as integers too.
    assert_close(classification_loss(outputs.logits, labels.long(), model.config), outputs.loss)


def test_loss_refuses_labels_of_another_shape():
    for problem_type, expected, shapes in (
        ("multi_label_classification", (6, 5), [(6,), (6, 4), (5, 6)]),
        ("single_label_classification", (6,), [(6, 5), (6, 1), (5,)]),
    ):
        config = make_config(problem_type=problem_type)
        for shape in shapes:
            with pytest.raises(ValueError, match="`labels` must be") as caught:
                classification_loss(torch.zeros(6, 5), torch.zeros(shape, dtype=torch.long), config)
            assert f"shape {expected} for" in str(caught.value) and f"got {shape} of" in str(caught.value)


def test_a_regression_of_one_label_takes_a_value_for_each_row():
    config = make_config(problem_type="regression", value_range=[0, 9], num_labels=1, id2label=None, label2id=None)
    logits, values = torch.tensor([[1.0], [4.0], [2.0]]), torch.tensor([3.0, torch.nan, 1.5])
    assert classification_loss(logits, values, config).item() == pytest.approx((2**2 + 0.5**2) / 2)
    with pytest.raises(ValueError, match=r"`labels` must be values of shape \(3, 1\)"):
        classification_loss(logits, values[:2], config)


def mean_of_pieces(model, pieces) -> torch.Tensor:
    words = model.get_input_embeddings().weight.detach()
    return sum(words[VOCABULARY.index(piece)] for piece in pieces) / len(pieces)


def label_vectors(model) -> torch.Tensor:
    return model.bert.score.label_embeddings.detach().clone()


def test_label_vectors_start_at_the_names(tokenizer):
    model = build()
    words = model.get_input_embeddings().weight.detach().clone()
    assert model.init_label_embeddings(tokenizer) is model
    expected = torch.stack([mean_of_pieces(model, WORD_PIECES[name]) for name in LABELS])
    assert_close(label_vectors(model), expected)
    # Parameters of their own: changing them leaves the words as they were.
    assert model.bert.score.label_embeddings.requires_grad
    with torch.no_grad():
        model.bert.score.label_embeddings += 1
    assert_close(model.get_input_embeddings().weight, words, rtol=0, atol=0)


def test_label_vectors_start_at_given_texts(tokenizer):
    texts = {"neutral": "calm rain", "joy": "happy_day", "anger": "sad", "nervousness": "fear", "optimism": "sun"}
    pieces = [("happy", "day"), ("sad",), ("fear",), ("sun",), ("calm", "rain")]
    expected = torch.stack([mean_of_pieces(build(), row) for row in pieces])
    for given in (texts, [texts[name] for name in LABELS]):
        assert_close(label_vectors(build().init_label_embeddings(tokenizer, given)), expected)


def test_label_vectors_are_left_alone_where_texts_are_wrong(tokenizer):
    model = build()
    before = label_vectors(model)
    texts = dict(zip(LABELS, LABELS, strict=True))
    for label_texts, message in (
        ({**{name: texts[name] for name in LABELS[1:]}, "fear": "fear"}, r"keys; differing: \['fear', 'joy'\]"),
        ("aaaaa", "`label_texts`"),
        (["joy", "anger"], "`label_texts` needs a list of 5 texts.* got .*joy"),
        (["joy", "anger", "fear", "sun", "xylophone"], "no word piece for the label text 'xylophone'"),
        (["joy", "anger", "fear", "sun", ""], "no word piece for the label text ''"),
    ):
        with pytest.raises(ValueError, match=message):
            model.init_label_embeddings(tokenizer, label_texts)
    assert_close(label_vectors(model), before, rtol=0, atol=0)


def test_label_vectors_cannot_start_at_placeholder_names_or_another_size(tokenizer):
    nameless = build(num_labels=3, id2label=None, label2id=None)
    with pytest.raises(ValueError, match="`id2label`.*`label_texts`"):
        nameless.init_label_embeddings(tokenizer)
    nameless.init_label_embeddings(tokenizer, ["joy", "sad", "calm"])
    assert_close(label_vectors(nameless)[1], mean_of_pieces(nameless, ["sad"]))
    with pytest.raises(ValueError, match="`label_embedding_size` is 10"):
        build(label_embedding_size=10).init_label_embeddings(tokenizer)


def test_added_labels_leave_old_logits_alone_and_score_like_labels_set_by_hand(tokenizer):
    model, inputs = BALANCED.build().double(), encoder_inputs(4, 9, seed=30)
    old, old_vectors = model(**inputs), label_vectors(model)
    by_hand = torch.stack([mean_of_pieces(model, WORD_PIECES[name]) for name in ("nostalgia", "homesickness")])
    assert model.add_labels(["nostalgia", "homesickness"], tokenizer) is model
    new = model(**inputs)
    assert new.logits.shape == (4, 7) and model.num_labels == 7
    # 1e-12 and not 0: a product with a wider matrix may be rounded otherwise in its last bit.
    assert_close(new.logits[:, :5], old.logits, rtol=0, atol=1e-12)
    assert_close(new.label_attentions[:, :5], old.label_attentions, rtol=0, atol=1e-12)

    wider = AutoModelForSequenceClassification.from_config(copy.deepcopy(model.config)).double().eval()
    vectors = torch.cat([old_vectors, by_hand])
    wider.load_state_dict({**model.state_dict(), "bert.score.label_embeddings": vectors})
    assert_close(new.logits, wider(**inputs).logits, rtol=1e-6, atol=1e-6)


def test_added_labels_extend_the_config_as_a_whole_and_survive_saving(tokenizer, tmp_path):
    model = BALANCED.build()
    thresholds, counts = list(model.config.thresholds), list(model.config.class_counts)
    model.add_labels(["nostalgia", "homesickness"], tokenizer, label_texts=["nostalgia", "sad home"])
    assert_close(label_vectors(model)[6], mean_of_pieces(model, ["sad", "home"]))
    inputs, names = encoder_inputs(4, 9, seed=31), [*LABELS, "nostalgia", "homesickness"]
    model.save_pretrained(tmp_path)
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    for config in (model.config, loaded.config):
        assert config.num_labels == 7 and config.id2label == dict(enumerate(names))
        assert config.label2id == {name: i for i, name in enumerate(names)}
        assert config.thresholds[:5] == thresholds
        assert config.thresholds[5:] == pytest.approx([sum(thresholds) / 5] * 2)
        assert config.class_counts == [*counts, 0, 0]
    assert loaded.num_labels == 7
    assert_close(loaded(**inputs).logits, model(**inputs).logits, rtol=1e-6, atol=1e-6)
    model.add_labels(["calm"], tokenizer)  # and once more
    assert model.config.num_labels == len(model.config.thresholds) == len(model.config.class_counts) == 8


def test_added_labels_can_be_trained(tokenizer):
    model = build().add_labels(["nostalgia"], tokenizer)
    assert model.config.thresholds is None and model.config.class_counts is None
    model(**encoder_inputs(4, 9, seed=32), labels=torch.ones(4, 6)).loss.backward()
    assert model.bert.score.label_embeddings.grad[5].abs().max() > 0
    frozen = build()
    frozen.requires_grad_(False)
    assert not frozen.add_labels(["nostalgia"], tokenizer).bert.score.label_embeddings.requires_grad
    half = build().to(torch.bfloat16).add_labels(["nostalgia"], tokenizer)
    assert half.bert.score.label_embeddings.dtype == torch.bfloat16
    assert build().add_labels([], tokenizer).config.num_labels == 5
    model = build().add_labels(["nostalgia"], tokenizer, label_texts={"nostalgia": "home"})
    assert_close(label_vectors(model)[5], mean_of_pieces(model, ["home"]))


@pytest.mark.parametrize(
    ("config", "names", "message"),
    [
        ({}, "nostalgia", r"`names` must be a list.*\['nostalgia'\]"),
        ({}, ["joy"], r"taken: \['joy'\]"),
        ({}, ["nostalgia", "nostalgia"], r"taken: \['nostalgia'\]"),
        ({}, ["xylophone"], "no word piece for the label text 'xylophone'"),
        ({"label_attention": "leam"}, ["nostalgia"], "label_attention='leam'"),
        ({"tie_head": False}, ["nostalgia"], "tie_head=False"),
        ({"label_embedding_size": 10}, ["nostalgia"], "`label_embedding_size` is 10"),
    ],
)
def test_labels_that_cannot_be_added_change_nothing(tokenizer, config, names, message):
    model = build(**config, thresholds=[0.5] * 5, class_counts=[2] * 5)
    before, vectors = model.config.to_dict(), label_vectors(model)
    with pytest.raises(ValueError, match=message):
        model.add_labels(names, tokenizer)
    with pytest.raises(
        ValueError, match="`label_texts` needs a list of 1 texts|label_attention|tie_head|label_embedding_size"
    ):
        model.add_labels(["calm"], tokenizer, label_texts=["a", "b"])
    assert model.config.to_dict() == before
    assert_close(label_vectors(model), vectors, rtol=0, atol=0)


def scores_of(model, tokenizer, text: str) -> dict[str, float]:
    """What the model itself gives for one text."""
    encoded = tokenizer(text, return_tensors="pt", truncation=True, max_length=TINY_BERT["max_position_embeddings"])
    with torch.no_grad():
        logits = model(**encoded).logits[0]
    if model.config.problem_type == "single_label_classification":
        return dict(zip(LABELS, logits.softmax(-1).tolist(), strict=True))
    return dict(zip(LABELS, logits.sigmoid().tolist(), strict=True))


def as_pairs(items: list[dict]) -> dict[str, float]:
    assert [item["score"] for item in items] == sorted((item["score"] for item in items), reverse=True)
    return {item["label"]: item["score"] for item in items}


def emotion_pipeline(model, tokenizer, **options):
    return pipeline("emotion-classification", model=model, tokenizer=tokenizer, device="cpu", **options)


def test_emotion_pipeline_applies_each_label_s_own_threshold(tokenizer):
    model, numbers = BALANCED.build(), set()
    limits = dict(zip(LABELS, model.config.thresholds, strict=True))
    for text, items in zip(TEXTS, emotion_pipeline(model, tokenizer)(list(TEXTS)), strict=True):
        scores = scores_of(model, tokenizer, text)
        expected = {name: score for name, score in scores.items() if score > limits[name]}
        assert as_pairs(items) == pytest.approx(expected, rel=1e-5)
        numbers.add(len(expected))
    assert numbers - {0, 5}, "thresholds that separate nothing test nothing"


def test_emotion_pipeline_compares_strictly(tokenizer):
    model = build(thresholds=[0.0] * 5)
    classify = emotion_pipeline(model, tokenizer)
    scores = as_pairs(classify(TEXTS[0]))
    assert set(scores) == set(LABELS)
    for name, score in scores.items():
        model.config.thresholds = [0.0] * 5
        model.config.thresholds[LABELS.index(name)] = score
        assert set(as_pairs(classify(TEXTS[0]))) == set(LABELS) - {name}
        assert name not in as_pairs(classify(TEXTS[0], threshold=score))
        model.config.thresholds[LABELS.index(name)] = math.nextafter(score, 0)
        assert set(as_pairs(classify(TEXTS[0]))) == set(LABELS)


def test_emotion_pipeline_without_stored_thresholds_uses_a_half(tokenizer):
    model = build()
    logits = [math.log(s / (1 - s)) for s in scores_of(model, tokenizer, TEXTS[0]).values()]
    with torch.no_grad():  # scores on both sides of it
        model.classifier.out_proj.bias -= torch.tensor(logits).median()
    expected = {name for name, score in scores_of(model, tokenizer, TEXTS[0]).items() if score > 0.5}
    assert 0 < len(expected) < 5
    assert set(as_pairs(emotion_pipeline(model, tokenizer)(TEXTS[0]))) == expected


def test_emotion_pipeline_arguments(tokenizer):
    model, text = BALANCED.build(), TEXTS[0]
    classify, scores = emotion_pipeline(model, tokenizer), scores_of(model, tokenizer, text)
    ranked = sorted(scores, key=scores.get, reverse=True)
    middle = sorted(scores.values())[2]
    for options, kept in (
        *(({"threshold": threshold}, kept) for threshold, kept in ((0.0, 5), (middle + 1e-4, 2), (1.0, 0))),
        *(({"top_k": top_k}, top_k) for top_k in (1, 3)),
    ):
        assert [item["label"] for item in classify(text, **options)] == ranked[:kept]
    assert as_pairs(classify(text, top_k=None)) == pytest.approx(scores, rel=1e-5)
    assert classify(text, top_k=2) == classify(list(TEXTS), top_k=2)[0]
    every = emotion_pipeline(model, tokenizer, top_k=None)
    assert len(every(text)) == 5 and every([text], threshold=1.0) == [[]]
    for threshold in (-0.1, 1.1):
        with pytest.raises(ValueError, match=r"`threshold` .* \[0, 1\]"):
            classify(text, threshold=threshold)


def test_emotion_pipeline_cuts_long_texts_and_batches(tokenizer):
    model, long = build(thresholds=[0.0] * 5), "happy day . " * 40
    classify = emotion_pipeline(model, tokenizer)
    shorter = classify(long, max_length=5, truncation=True)
    assert as_pairs(shorter) == pytest.approx(scores_of(model, tokenizer, "happy day ."), rel=1e-5)
    for one, many in zip(classify([*TEXTS, long]), classify([*TEXTS, long], batch_size=3), strict=True):
        assert as_pairs(many) == pytest.approx(as_pairs(one), rel=1e-5)


def test_emotion_pipeline_gives_the_most_probable_of_single_labels(tokenizer):
    model = BY_ID["label-aware-single-label"].build()
    classify = emotion_pipeline(model, tokenizer)
    for text, items in zip(TEXTS, classify(list(TEXTS)), strict=True):
        scores = scores_of(model, tokenizer, text)
        best = max(scores, key=scores.get)
        assert as_pairs(items) == pytest.approx({best: scores[best]}, rel=1e-5)


def test_each_aspect_has_a_softmax_of_its_own(tokenizer):
    """Over its sentiments and "none", whose logit is 0: the equations, the loss of what is asked about, one aspect by its context, the names."""
    case = BY_ID["label-aware-aspects"]
    model, inputs = case.build().double(), case.make_inputs(3, 9, 5)
    labels = inputs.pop("labels")
    labels[2, 1] = -100
    outputs, losses = model(**inputs, labels=labels), []
    states = stock_hidden_states(model, inputs)
    for row, real in enumerate(inputs["attention_mask"].bool()):
        h = states[row][real]
        naive, *_ = naive_label_aware(model.state_dict(), "bert", model.config, h, h[0])
        for aspect in range(3):
            own = torch.cat([torch.zeros(1), naive[4 * aspect : 4 * aspect + 4]])  # "none" is the first label
            assert_close(outputs.logits[row, aspect].softmax(-1), own.exp() / own.exp().sum(), rtol=1e-9, atol=1e-9)
            if labels[row, aspect] != -100:
                losses.append(own.exp().sum().log() - own[labels[row, aspect]])
    assert_close(outputs.loss, torch.stack(losses).mean(), rtol=1e-9, atol=1e-9)
    one = model(**inputs, context_ids=torch.tensor([0, 4, 2])).logits  # of two targets with three aspects
    assert_close(one, outputs.logits[[0, 1, 2], [0, 1, 2]])
    assert model.config.vector_names[3:5] == ["joy conflict", "fear negative"]
    names = model.config.vector_names
    started = model.init_label_embeddings(tokenizer, [name.split()[0] for name in names]).bert.score.label_embeddings
    words = model.get_input_embeddings().weight
    assert_close(started[4], words[tokenizer.convert_tokens_to_ids("fear")])
    with pytest.raises(ValueError, match="takes no new labels"):
        model.add_labels(["rage"], tokenizer)
