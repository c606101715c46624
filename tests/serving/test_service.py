# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion serve` and `predict --url`: answers, refusals, what happens under load and at the end."""

import contextlib
import gzip
import json
import math
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from unittest.mock import Mock

import pytest
import torch
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from model_cases import ASPECTS, BY_ID, EMOTIONS, LABELS
from served import CHECKPOINTS, running, send
from toolkit_helpers import ROOT, assert_close, write_jsonl

from hf_emotion import DialoguePredictor, Predictor, ReplyGenerator, TargetedPredictor
from hf_emotion.inference import load_predictor
from hf_emotion.io.key import read_key
from hf_emotion.runtime import classifying, languages, remote
from hf_emotion.runtime.remote import Client
from hf_emotion.serving import fastest, web
from hf_emotion.serving.service import build
from hf_emotion.serving.settings import Settings
from hf_emotion.serving.web import OPEN, JsonFormatter, Server, listen
from hf_emotion.tasks import TASKS, task_of_pipeline
from hf_emotion.tasks.dialogue_emotion import service as dialogue_service


pytest_plugins = ["served", "toolkit_fixtures"]

EMOTION, JSON = "emotion-classification", {"Content-Type": "application/json"}
TEXTS = ["I am so happy today", "not sad !", "so sad today , not happy", "I am not sad"]
TURNS = [("Ana", "I am so happy today"), ("Ben", "not sad !")]


@pytest.fixture(scope="module")
def service(folders):
    with running([*folders.values(), "goemotions"]) as found:  # the last one is exported
        yield found[0]


def results(address: str, task: str, **body):
    status, found, _ = send(address, f"/v1/{task}", body)
    assert status == 200, found
    return found["results"]


def scores_of(items) -> dict[str, float]:
    return {item["label"]: item["score"] for item in items}


def labels_of(items) -> list[str]:
    return [item["label"] for item in items]


class TestAnswers:
    @pytest.mark.parametrize("name", ["text", "single", "goemotions"])
    def test_emotions(self, service, folders, name):
        predictor = load_predictor(folders.get(name, name))
        found = results(service, EMOTION, model=name, inputs=TEXTS, all_scores=True)
        for row, labels, one in zip(predictor.probabilities(TEXTS), predictor(TEXTS), found, strict=True):
            assert_close(one["scores"], dict(zip(predictor.labels, row.tolist(), strict=True)), 1e-6)
            assert_close(one["labels"], labels, 1e-6)
            assert one["truncated"] is False

    def test_a_text_alone_top_k_and_thresholds(self, service, folders):
        def labels(**more):
            return results(service, EMOTION, model="text", inputs=TEXTS[0], **more)[0]["labels"]

        assert_close(labels(top_k=2), Predictor(folders["text"])(TEXTS[0], top_k=2)[0], 1e-6)
        assert set(labels_of(labels(thresholds=0.0))) == set(LABELS)
        assert labels_of(labels(thresholds=dict.fromkeys(LABELS[1:], 1.0) | {LABELS[0]: 0})) == [LABELS[0]]
        for body in ({"model": "text", "top_k": 1}, {"model": "single"}):
            status, answer, _ = send(service, f"/v1/{EMOTION}", {"inputs": "sad", "thresholds": 0.5, **body})
            assert status == 422 and "`thresholds`" in answer["error"]

    def test_long_texts_are_read_whole_unless_truncate(self, service, folders):
        text = " ".join(TEXTS * 40)
        assert results(service, EMOTION, model="text", inputs=text)[0]["truncated"] is False
        found = []
        for truncate, options in ((False, {}), (True, {"max_windows": 1})):
            predictor = Predictor(folders["text"], **options)
            expected = dict(zip(predictor.labels, predictor.probabilities(text)[0].tolist(), strict=True))
            found.append(scores_of(send(service, "/predict", {"inputs": text, "truncate": truncate})[1]))
            assert found[-1] == pytest.approx(expected, abs=1e-6)
        assert list(found[0].values()) != pytest.approx(list(found[1].values()), abs=1e-4)

    def test_sentiment(self, service, folders):
        for name in ("targeted", "aspects"):
            predictor = TargetedPredictor(folders[name])
            targets = predictor.model.config.targets
            texts = TEXTS if targets is None else [f"{targets[0]} {text}" for text in TEXTS]
            found = results(service, "targeted-sentiment", model=name, inputs=texts, all_scores=True)
            for items, one in zip(predictor(texts), found, strict=True):
                assert [item["aspect"] for item in one["sentiments"]] == list(ASPECTS)
                for expected, item in zip(items, one["sentiments"], strict=True):
                    assert item.get("target") == expected.get("target")
                    assert item["scores"] == pytest.approx(expected["scores"], abs=1e-6)
        target = TargetedPredictor(folders["targeted"]).model.config.targets[1]
        (asked,) = results(service, "targeted-sentiment", model="targeted", inputs="so happy", targets=[target])
        assert {(item["target"], "scores" in item) for item in asked["sentiments"]} == {(target, False)}

    def test_dialogues(self, service, folders):
        dialogues = [TURNS, TURNS[::-1] * 3]
        body = [[{"speaker": name, "utterance": text} for name, text in turns] for turns in dialogues]
        found = results(service, "dialogue-emotion", inputs=body, all_scores=True)
        for expected, one in zip(DialoguePredictor(folders["dialogue"])(dialogues), found, strict=True):
            for turn, answer in zip(expected, one["turns"], strict=True):
                assert answer["scores"] == pytest.approx(turn["scores"], abs=1e-6)
                assert (answer["speaker"], answer["utterance"]) == (turn["speaker"], turn["utterance"])
        assert results(service, "dialogue-emotion", inputs=[["I am so happy today"]])[0]["turns"][0]["speaker"] is None

    def test_turn_by_turn(self, folders, monkeypatch):
        """A session answers as the predictor's stream does; it ends, there are only so many, and replicas have none."""
        from fastapi.testclient import TestClient

        stream, turns = DialoguePredictor(folders["dialogue"]).stream(), TURNS * 2
        client = TestClient(build(Settings(checkpoints=[str(folders["dialogue"])])))
        ask = partial(client.post, "/v1/dialogue-emotion/turn")
        session = {}
        for name, text in turns:
            answer = ask(json={"turn": {"speaker": name, "utterance": text}, "all_scores": True, **session})
            (found,), expected = answer.json()["results"], stream.add((name, text))
            session = {"session": found["session"]}
            assert_close(found.pop("scores"), expected.pop("scores"))
            assert found["number"] == expected["number"] and found["label"] == expected["label"]
            assert found["changed"] == {str(number): label for number, label in expected["changed"].items()}
        assert ask(json={"turn": "", **session}).status_code == 422
        (found,) = ask(json={"turn": "not sad", **session}).json()["results"]
        assert found["number"] == len(turns) + 1 and "scores" not in found
        monkeypatch.setattr(dialogue_service, "MOST_SESSIONS", 1)
        (other,) = ask(json={"turn": "not sad"}).json()["results"]
        with monkeypatch.context() as failing:
            failing.setattr(dialogue_service.DialogueStream, "add_quietly", Mock(side_effect=ValueError("no turn")))
            assert ask(json={"turn": "not sad"}).status_code == 422
        assert ask(json={"turn": "not sad", "session": other["session"]}).status_code == 200  # it kept its place
        gone = ask(json={"turn": "not sad", **session})
        assert gone.status_code == 404 and "without `session`" in gone.json()["error"]
        monkeypatch.setattr(dialogue_service, "SECONDS", 0.0)
        assert ask(json={"turn": "not sad", "session": other["session"]}).status_code == 404
        replica = TestClient(build(Settings(checkpoints=[str(folders["dialogue"])]), replicated=True))
        assert replica.post("/v1/dialogue-emotion/turn", json={"turn": "not sad"}).status_code == 404

    def test_a_turn_counts_once_whatever_fails_beside_it(self, folders):
        """Both wait while the model is busy; one of them has no session."""
        from fastapi.testclient import TestClient

        app = build(Settings(checkpoints=[str(folders["dialogue"])]))
        ask = partial(TestClient(app).post, "/v1/dialogue-emotion/turn")
        (first,) = ask(json={"turn": "not sad"}).json()["results"]
        batching, leave = app.state.models["dialogue"].batching, threading.Event()

        def wait_until(waiting: int) -> None:
            while batching.waiting != waiting:
                time.sleep(0.01)

        batching.submit([leave.wait], call=True)
        wait_until(0)
        with ThreadPoolExecutor() as pool:
            right = pool.submit(ask, json={"turn": "so sad", "session": first["session"]})
            wait_until(1)
            wrong = pool.submit(ask, json={"turn": "so sad", "session": "of nobody"})
            wait_until(2)
            leave.set()
        assert wrong.result().status_code == 404 and right.result().json()["results"][0]["number"] == 2

    @pytest.mark.parametrize("name", ["targeted", "aspects", "terms", "text"])
    def test_every_model_of_texts_is_timed_in_both_number_types(self, folders, monkeypatch, caplog, name):
        monkeypatch.setattr(fastest, "SECONDS", 0.0)
        fastest.fastest([str(folders[name])])
        assert f"{name}: bfloat16 is " in caplog.text

    def test_replies(self, service, folders):
        generator = ReplyGenerator(folders["replies"])
        emotions = [EMOTIONS[1], {EMOTIONS[0]: 0.5, EMOTIONS[2]: 0.5}]
        found = results(service, "emotional-response", inputs=TEXTS[:2], emotions=emotions, do_sample=False)
        pairs = [(text, emotion) for text in TEXTS[:2] for emotion in emotions]
        expected = generator(*zip(*pairs, strict=True), do_sample=False)
        assert [reply["reply"] for one in found for reply in one["replies"]] == expected
        assert [reply["emotion"] for reply in found[0]["replies"]] == emotions
        assert len(results(service, "emotional-response", inputs=TEXTS[0])[0]["replies"]) == len(EMOTIONS)

    def test_beams_draw_only_if_they_are_told_to(self, service, folders):
        generator, settings = ReplyGenerator(folders["replies"]), {"num_beams": 2, "max_new_tokens": 8}
        assert generator.model.generation_config.do_sample
        for asked, alone in (({}, {"do_sample": False}), ({"do_sample": True, "seed": 3},) * 2):
            found = results(service, "emotional-response", inputs=TEXTS, emotions=EMOTIONS[:1], **settings, **asked)
            assert [one["replies"][0]["reply"] for one in found] == generator(TEXTS, EMOTIONS[0], **alone, **settings)

    def test_a_seed_gives_the_same_replies_beside_others(self, service, folders):
        ask = {"inputs": TEXTS, "emotions": [EMOTIONS[0]], "seed": 7, "max_new_tokens": 8}
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _: results(service, "emotional-response", **ask), range(8)))
        expected = ReplyGenerator(folders["replies"])(TEXTS, EMOTIONS[0], seed=7, max_new_tokens=8)
        assert [[one["replies"][0]["reply"] for one in own] for own in found] == [expected] * 8

    def test_many_at_once_get_their_own_answers_in_common_batches(self, folders):
        texts = [" ".join(TEXTS[i % 4].split()[: 1 + i % 5]) + f" {'so ' * (i % 7)}" for i in range(200)]
        expected = Predictor(folders["text"]).probabilities(texts)
        with running([folders["text"]]) as (address, _), ThreadPoolExecutor(32) as pool:
            ask = partial(results, address, EMOTION, all_scores=True)
            found = [own[0] for own in pool.map(lambda text: ask(inputs=text), texts)]
            counters = send(address, "/metrics")[1]
        for row, one in zip(expected, found, strict=True):
            assert list(one["scores"].values()) == pytest.approx(row.tolist(), abs=1e-5)
        batches = float(re.search(r"hf_emotion_batch_inputs_count\S* (\S+)", counters)[1])
        read = float(re.search(r"hf_emotion_batch_inputs_sum\S* (\S+)", counters)[1])
        assert read == 200 and batches < 200


def assert_best(found, folders, times: int) -> None:
    expected = [own[0]["label"] for own in Predictor(folders["text"])(TEXTS, top_k=1)] * times
    assert [one["labels"][0]["label"] for one in found] == expected


class TestOthersRoutes:
    def test_text_embeddings_inference(self, service, folders):
        expected = dict(zip(LABELS, Predictor(folders["text"]).probabilities(TEXTS[0])[0].tolist(), strict=True))
        status, alone, _ = send(service, "/predict", {"inputs": TEXTS[0]})
        assert status == 200 and scores_of(alone) == pytest.approx(expected, abs=1e-6)
        assert labels_of(alone) == sorted(expected, key=expected.get, reverse=True)
        assert send(service, "/predict", {"inputs": [TEXTS[0]]})[1] == alone
        several = send(service, "/predict", {"inputs": [[TEXTS[0]], [TEXTS[1]]]})[1]
        assert scores_of(several[0]) == pytest.approx(expected, abs=1e-6) and len(several) == 2
        raw = send(service, "/predict", {"inputs": TEXTS[0], "raw_scores": True})[1]
        assert {item["label"]: 1 / (1 + math.exp(-item["score"])) for item in raw} == pytest.approx(expected, abs=1e-6)
        for pair in ([TEXTS[0], TEXTS[1]], [[TEXTS[0], TEXTS[1]]]):
            status, answer, _ = send(service, "/predict", {"inputs": pair})
            assert status == 422 and "pairs" in answer["error"]

    def test_what_clients_of_openai_and_text_embeddings_inference_ask_first(self, service, folders):
        listed, names = send(service, "/v1/models")[1], [*folders, "goemotions"]
        assert listed["object"] == "list" and [model["id"] for model in listed["data"]] == names
        for model in listed["data"]:
            assert send(service, f"/v1/models/{model['id']}")[1] == model
            assert (model["object"], type(model["created"]), type(model["owned_by"])) == ("model", int, str)
        assert send(service, "/v1/models/nobody")[0] == 404
        info = send(service, "/info")[1]
        kind = {
            "id2label": {str(i): name for i, name in enumerate(LABELS)},
            "label2id": {n: i for i, n in enumerate(LABELS)},
        }
        assert info["model_id"] == "text" and info["model_type"] == {"classifier": kind}
        assert info["model_dtype"] == "float32" and info["max_client_batch_size"] == 256

    def test_the_inference_client(self, service, folders, monkeypatch):
        import huggingface_hub

        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
        huggingface_hub.close_session()
        try:
            client = huggingface_hub.InferenceClient(model=service)
            best = client.text_classification(TEXTS[0], top_k=2)
            expected = scores_of(Predictor(folders["text"])(TEXTS[0], top_k=2)[0])
            assert {item.label: item.score for item in best} == pytest.approx(expected, abs=1e-6)
            single = huggingface_hub.InferenceClient(model=f"{service}/models/single").text_classification(TEXTS[0])
            assert sum(item.score for item in single) == pytest.approx(1, abs=1e-5)
            softmax = client.text_classification(TEXTS[0], function_to_apply="softmax")
            assert sum(item.score for item in softmax) == pytest.approx(1, abs=1e-5)
        finally:
            huggingface_hub.close_session()
        assert send(service, "/models/replies", {"inputs": "hm"})[0] == 404

    def test_openapi_describes_every_route_and_its_examples_are_right(self, service):
        document = send(service, "/openapi.json")[1]
        for task in TASKS:
            if task.predictor_class is not None:
                route = document["paths"][f"/v1/{task.name}"]["post"]
                assert {"400", "408", "413", "415"} <= route["responses"].keys() and "security" not in route
                body = route["requestBody"]["content"]["application/json"]
                assert send(service, f"/v1/{task.name}", body["examples"]["example"]["value"])[0] == 200
        schemas = document["components"]["schemas"]
        assert set(re.findall(r"#/components/schemas/(\w+)", json.dumps(document))) <= schemas.keys()
        own = [name for name in schemas if "ValidationError" not in name]  # fastapi's
        fields = {f"{name}.{field}": one for name in own for field, one in schemas[name].get("properties", {}).items()}
        assert "TurnResult.truncated" in fields
        assert [name for name, field in fields.items() if "description" not in field] == []


FORM = "application/x-www-form-urlencoded"
FIELDS = st.sampled_from("inputs top_k emotions targets parameters speaker utterance x".split())


class TestRefusals:
    def test_a_field(self, service):
        for task, body, field in (
            *((EMOTION, {"inputs": own}, "inputs") for own in (" ", [], ["so happy", "\ud800"], ["so happy"] * 257)),
            (EMOTION, {}, "inputs"),
            *((EMOTION, {"inputs": "so happy", "thresholds": own}, "thresholds") for own in (1.5, {"hunger": 0.5})),
            *((EMOTION, {"inputs": "so happy", name: 0}, name) for name in ("top_k", "topk")),
            *((EMOTION, {"inputs": "so happy", name: "ekman"}, name) for name in ("taxonomy", "model")),
            ("targeted-sentiment", {"model": "targeted", "inputs": "so happy"}, "inputs"),
            ("targeted-sentiment", {"model": "targeted", "inputs": "so happy", "targets": ["nobody"]}, "nobody"),
            (EMOTION, {"model": "targeted", "inputs": "so"}, "Ask /v1/targeted-sentiment for targeted."),
            ("dialogue-emotion", {"inputs": [[]]}, "inputs"),
            ("dialogue-emotion", {"inputs": [["a"] * 1025]}, "1024"),
            ("emotional-response", {"inputs": "so", "emotions": ["hunger"]}, "hunger"),
            ("emotional-response", {"inputs": "so", "max_new_tokens": 1000}, "max_new_tokens"),
            *(("/predict", {"inputs": own}, "inputs") for own in ([], [["so"], []])),
            ("/predict", {"inputs": [["so"], [" "]]}, "visible"),
            *((path, {"inputs": "so", "topk": 1}, "body.topk: there is no such field") for path in ("/", "/predict")),
            ("/", {"inputs": "so", "parameters": {"topk": 1}}, "body.parameters.topk: there is no such field"),
            *((path, {"inputs": 5}, "body.inputs: write a text or a list of texts") for path in ("/", "/predict")),
            ("/page/table", {"model": "replies", "text": "so", "emotions": EMOTIONS[:1] * 257}, "emotions"),
        ):
            status, answer, _ = send(service, task if task[0] == "/" else f"/v1/{task}", body)
            assert status == 422 and field in json.dumps(answer) and "pairs" not in answer["error"]
            assert answer["error"] and answer["detail"]

    def test_a_large_mistake_gets_a_short_answer(self, service):
        for path, body, seconds, told in (
            ("/predict", {"inputs": [1] * 60_000}, 5, "inputs"),
            ("/v1/emotional-response", {"inputs": "so", "emotions": [1] * 60_000}, 5, "emotions"),
            # A gigabyte of pairs
            ("/v1/emotional-response", {"inputs": ["a"] * 4000, "emotions": [EMOTIONS[0]] * 4000}, 2, "256"),
            (f"/v1/{EMOTION}", {"inputs": "\u200b" * 30_000}, 5, "inputs"),
        ):
            begin = time.monotonic()
            status, answer, _ = send(service, path, body)
            assert status == 422 and len(json.dumps(answer)) < 5000 and time.monotonic() - begin < seconds
            assert told in json.dumps(answer)

    def test_a_path_that_is_not_there(self, service):
        status, answer, _ = send(service, "/v1/summarization", {"inputs": "so happy"})
        routes = ["/v1/summarization", *(f"/v1/{task.name}" for task in TASKS if task.predictor_class)]
        assert status == 404 and all(route in answer["error"] for route in routes)
        status, answer, _ = send(service, "/models/aspects", {"inputs": "so happy"})
        assert status == 404 and "Ask /v1/targeted-sentiment for aspects." in answer["error"]

    def test_bodies_of_other_kinds(self, service):
        for header, value, packed, expected, told in (
            # curl sends the second one
            *(("Type", kind, False, 422, "Content-Type: application/json") for kind in ("text/plain", FORM)),
            *(("Encoding", "gzip", packed, 415, "without the header Content-Encoding") for packed in (True, False)),
        ):
            body = b'{"inputs": ["so happy"]}'
            sent, headers = gzip.compress(body) if packed else body, {f"Content-{header}": value}
            status, answer, _ = send(service, f"/v1/{EMOTION}", sent, "POST", **headers)
            assert status == expected and told in answer["error"]

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4),
        ),
        st.sampled_from([*(f"/v1/{t.name}" for t in TASKS if t.predictor_class), "/predict", "/", "/page/table"]),
    )
    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_no_body_breaks_it(self, service, body, path):
        status, _, _ = send(service, path, json.dumps(body).encode(), "POST")
        assert status in (200, 400, 422)

    def test_the_key(self, folders):
        with running([folders["text"]], api_key="s3cret") as (address, app):
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer s3cre"}):
                status, answer, found = send(address, "/predict", {"inputs": "so happy"}, **headers)
                assert status == 401 and found["WWW-Authenticate"] == "Bearer" and "s3cret" not in json.dumps(answer)
            assert send(address, "/v1/models")[0] == send(address, "/metrics")[0] == 401
            assert [send(address, path)[0] for path in ("/health", "/ready", "/")] == [200] * 3
            key = {"Authorization": "Bearer s3cret"}
            assert send(address, "/predict", {"inputs": "so happy"}, **key)[0] == 200
            paths = send(address, "/openapi.json", **key)[1]["paths"]
            assert paths["/"]["post"]["security"] == paths["/metrics"]["get"]["security"] == [{"key": []}]
            assert "security" not in paths["/ready"]["get"]
            assert "s3cret" not in repr(app.user_middleware) + send(address, "/metrics", **key)[1]

    def test_other_sites_only_where_they_are_named(self, folders):
        asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
        with running([folders["text"]], cors_origins=["https://example.org"], api_key="k") as (address, _):
            status, _, headers = send(address, "/predict", method="OPTIONS", Origin="https://example.org", **asked)
            assert status == 200 and headers["Access-Control-Allow-Origin"] == "https://example.org"
            assert send(address, "/health", Origin="https://a.org")[2].get("Access-Control-Allow-Origin") is None

    @pytest.mark.parametrize("origin", ["https://a.org/", "a.org", "https://A.org", ""])
    def test_an_origin_that_no_page_has(self, origin):
        with pytest.raises(ValueError, match="`cors_origins` must be as browsers send them"):
            Settings(checkpoints=["goemotions"], cors_origins=["https://b.org", "*", origin])


def connect(address: str, sent: bytes = b"") -> socket.socket:
    host, port = address.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=20)
    connection.sendall(sent)
    return connection


def answer_of(connection: socket.socket) -> bytes:
    """What comes until the connection is closed."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(4096):
            found += part
    return found


HEALTH = b"GET /health HTTP/1.1\r\nHost: a\r\n"
POST = b"POST /predict HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"


class TestHttp:
    def test_one_on_which_nothing_is_asked_is_closed(self, service):
        begin = time.monotonic()
        opened = {sent: connect(service, sent) for sent in (b"", HEALTH, HEALTH + b"\r\nGET")}
        for sent, connection in opened.items():
            assert answer_of(connection).count(b"200 OK") == sent.count(b"\r\n\r\n")
        assert time.monotonic() - begin < 15

    def test_a_body_that_does_not_come(self, folders):
        with running([folders["text"]], timeout=0.5) as (address, _):
            found = answer_of(connect(address, POST % (100, b'{"inputs": ')))
            assert b" 408 " in found and b"within 0.5 s" in found

    def test_head(self, service):
        for path in ("/", "/health", "/ready", "/metrics", "/v1/models", "/openapi.json"):
            status, content, headers = send(service, path, method="HEAD")
            assert status == 200 and not content and int(headers["Content-Length"]) > 0

    def test_a_bad_request_tells_why(self, service):
        causes = (
            (b"hello\r\n\r\n", "request line"),
            (b"GET / HTTP/1.1\r\n\r\n", "Host"),
            (POST % (3, b"\xff\xfe\xff"), "UTF-8"),
            (POST % (200_000, b"[" * 200_000), "JSON"),
            (b"GET /predict HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "use POST"),
            (POST % (5, b"hello"), "the body is not JSON: Expecting value (character 1)"),
        )
        opened = [connect(service, sent) for sent, _ in causes]
        for connection, (_, cause) in zip(opened, causes, strict=True):
            found = answer_of(connection)
            assert found[9:12] in (b"400", b"405", b"422")
            assert cause in json.loads(found.partition(b"\r\n\r\n")[2])["error"]

    @pytest.mark.parametrize("chunked", [False, True])
    def test_urllib_hears_that_a_body_is_too_large(self, folders, chunked):
        body = b'{"inputs": "' + b"so " * 2_000_000 + b'"}'
        sent = (body[start : start + 65_536] for start in range(0, len(body), 65_536)) if chunked else body
        with running([folders["text"]], api_key="k", max_body_bytes=1000) as (address, _):
            for key, expected in (("k", 413), ("wrong", 401)):
                headers = {**JSON, "Authorization": f"Bearer {key}"}
                request = urllib.request.Request(f"{address}/predict", sent if key == "k" else body, headers)
                with pytest.raises(urllib.error.HTTPError) as caught:
                    urllib.request.urlopen(request, timeout=30)
                assert caught.value.code == expected and json.load(caught.value)["error"]


class Held:
    def __init__(self, app):
        (model,) = app.state.models.values()
        self.batching, self.started, self.go, self.seen = model.batching, threading.Event(), threading.Event(), []
        inner = self.batching.predictor

        def run(inputs, **options):
            self.seen += inputs
            self.started.set()
            assert self.go.wait(60)
            return inner(inputs, **options)

        self.batching.predictor = run

    def wait_for(self, pool, address: str, *inputs) -> list:
        """Requests: the first keeps the thread busy, the others wait in the queue."""
        asked = [pool.submit(send, address, "/predict", {"inputs": TEXTS[0]})]
        assert self.started.wait(60)
        asked += [pool.submit(send, address, "/predict", {"inputs": own}) for own in inputs]
        while self.batching.waiting < sum(len(own) if isinstance(own, list) else 1 for own in inputs):
            time.sleep(0.01)
        return asked


def begin(address: str, body) -> HTTPConnection:
    connection = HTTPConnection(address.removeprefix("http://"), timeout=60)
    connection.request("POST", "/predict", json.dumps(body), JSON)
    return connection


class TestUnderLoad:
    @pytest.mark.parametrize("limit", ["max_queue_size", "max_connections"])
    def test_when_all_are_busy(self, folders, limit):
        with running([folders["text"]], **{limit: 2}) as (address, app), ThreadPoolExecutor(3) as pool:
            held, full = Held(app), limit == "max_queue_size"
            held.batching._pace = 3.2
            busy = held.wait_for(pool, address, [[text] for text in TEXTS[:2]] if full else TEXTS[1])
            status, answer, headers = send(address, "/predict", {"inputs": TEXTS[3]})
            assert (status, headers["Retry-After"]) == ((429, "7") if full else (503, "1")) and answer["error"]
            assert full or ("connections" in answer["error"] and send(address, "/health")[0] == 200)
            assert not full or 'hf_emotion_queue_inputs{model="text"} 2.0' in send(address, "/metrics")[1]
            held.go.set()
            assert [one.result()[0] for one in busy] == [200, 200]

    def test_a_reload_loses_no_request_and_keeps_a_model_if_the_new_one_is_broken(self, folders, tmp_path):
        shutil.copytree(folders["text"], tmp_path / "mine")
        before, ended, key = Predictor(folders["text"]), threading.Event(), {"Authorization": "Bearer k"}
        model = type(before.model).from_pretrained(folders["text"])
        with torch.no_grad():
            for weights in model.parameters():
                weights.neg_()
        expected = [before.probabilities(TEXTS[0])[0].tolist()]

        def ask(address: str) -> list:
            found = []
            while not ended.is_set():
                found.append(send(address, f"/v1/{EMOTION}", {"inputs": TEXTS[0], "all_scores": True}, **key)[:2])
            return found

        with running([tmp_path / "mine"], api_key="k") as (address, app), ThreadPoolExecutor(9) as pool:
            old = Held(app)
            waits = pool.submit(send, address, f"/v1/{EMOTION}", {"inputs": TEXTS[0]}, **key)
            assert old.started.wait(60)
            model.save_pretrained(tmp_path / "mine")
            expected.append(Predictor(tmp_path / "mine").probabilities(TEXTS[0])[0].tolist())
            asked = [pool.submit(ask, address) for _ in range(4)]
            assert send(address, "/v1/reload", {})[0] == 401
            reload = pool.submit(send, address, "/v1/reload", {}, **key)
            while app.state.models["mine"].batching is old.batching:
                time.sleep(0.01)
            assert not reload.done() and not waits.done()  # the old model still has what it was asked
            old.go.set()
            status, answer, _ = reload.result()
            assert (status, answer["models"][0]["name"], waits.result()[0]) == (200, "mine", 200)
            assert answer["models"][0]["fingerprint"] != before.fingerprint()
            ended.set()
            found = [one for own in asked for one in own.result()]
            assert {status for status, _ in found} == {200}
            given = [list(one["results"][0]["scores"].values()) for _, one in found]
            which = [[row == pytest.approx(own, abs=1e-5) for own in expected] for row in given]
            assert all(map(any, which)) and [False, True] in which
            (tmp_path / "mine" / "config.json").write_text("{")
            status, answer, _ = send(address, "/v1/reload", {}, **key)
            assert status == 409 and "stay" in answer["error"] and "mine" in answer["error"]
            after = send(address, f"/v1/{EMOTION}", {"inputs": TEXTS[0], "all_scores": True}, **key)[1]["results"][0]
            assert list(after["scores"].values()) == pytest.approx(expected[1], abs=1e-5)

    def test_a_client_that_has_gone_costs_nothing(self, folders):
        with running([folders["text"]]) as (address, app), ThreadPoolExecutor(1) as pool:
            held = Held(app)
            (first,) = held.wait_for(pool, address)
            connection = begin(address, {"inputs": TEXTS[1]})
            while held.batching.waiting < 1:
                time.sleep(0.01)
            connection.close()
            time.sleep(0.3)
            held.go.set()
            assert first.result()[0] == send(address, "/predict", {"inputs": TEXTS[2]})[0] == 200
            assert held.seen == [TEXTS[0], TEXTS[2]]

    @pytest.mark.parametrize("requests", [1, 2])
    def test_a_client_that_sends_no_more_gets_its_answers(self, folders, requests):
        with running([folders["text"]]) as (address, app), ThreadPoolExecutor(1) as pool:
            held = Held(app)
            held.wait_for(pool, address)
            body = json.dumps({"inputs": TEXTS[1]}).encode()
            head = f"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\nContent-Type: application/json\r\n\r\n"
            host, port = address.removeprefix("http://").split(":")
            with socket.create_connection((host, int(port)), timeout=20) as client:
                client.sendall((head.encode() + body) * requests)
                client.shutdown(socket.SHUT_WR)
                time.sleep(0.3)
                held.go.set()
                answer = b"".join(iter(lambda: client.recv(2**16), b""))
            assert answer.count(b"HTTP/1.1 200 OK") == requests and answer.count(b'"score"') >= requests

    def test_a_long_text_lets_others_through_and_ends_with_its_client(self, folders, monkeypatch):
        batches, compute = [], classifying.window_logits

        def slowly(model, inputs):
            batches.append(inputs)
            time.sleep(0.05)
            return compute(model, inputs)

        monkeypatch.setattr(classifying, "window_logits", slowly)
        monkeypatch.setattr(classifying, "TOKENS_PER_BATCH", 64)
        with running([folders["text"]], max_windows=10**6, max_tokens=10**6) as (address, _):
            connection = begin(address, {"inputs": " ".join(TEXTS * 300)})
            while not batches:
                time.sleep(0.01)
            assert send(address, "/predict", {"inputs": TEXTS[0]})[0] == 200
            during = len(batches)
            connection.close()
            time.sleep(0.5)
            after = len(batches)
            time.sleep(0.5)
            assert len(batches) == after < during + 20

    @pytest.mark.parametrize("name", ["text", "goemotions"])
    def test_a_text_of_too_many_windows(self, folders, name):
        long, name = " ".join(TEXTS * 40), folders.get(name, name)
        with running([name], max_windows=2) as (address, _):
            for path, text in ((f"/v1/{EMOTION}", long), ("/", long), ("/", " so" * 50_000)):
                status, answer, _ = send(address, path, {"inputs": [TEXTS[0], text]})
                assert status == 422 and answer["detail"][0]["loc"] == ["body", "inputs"]
                assert "text 2 of 2 has " in answer["error"] and "--max-windows" in answer["error"]
            assert send(address, "/predict", {"inputs": long, "truncate": True})[0] == 200
        with running([name], max_windows=2, loading={"max_windows": 3}) as (address, _):
            assert results(address, EMOTION, inputs=long)[0]["truncated"] is True

    @pytest.mark.parametrize(
        ("name", "inputs"),
        [("text", TEXTS), ("aspects", TEXTS), ("dialogue", [[text] for text in TEXTS]), ("replies", TEXTS)],
    )
    def test_a_request_of_too_many_tokens(self, folders, name, inputs):
        many = {"replies": 4 * len(EMOTIONS) * 10 + 20, "aspects": 4 * len(ASPECTS) * 5}.get(name, 20)
        with running([folders[name]], max_tokens=many) as (address, app):
            route = next(iter(app.state.models.values())).route
            more = {"max_new_tokens": 10} if name == "replies" else {}
            status, answer, _ = send(address, route, {"inputs": inputs, **more})
            assert status == 422 and f"{many} tokens at most" in answer["error"]
            assert answer["detail"][0]["loc"] == ["body", "inputs"]
            assert send(address, route, {"inputs": inputs[:1], **more})[0] == 200
            assert len(Client(address).ask(inputs, **more)) == 4  # several requests

    def test_of_two_folders_of_one_name(self, folders, tmp_path):
        places = [tmp_path / parent / "same" for parent in "ab"]
        for place in places:
            place.parent.mkdir()
            place.symlink_to(folders["text"], target_is_directory=True)
        with running(places) as (address, app):
            name = list(app.state.models)[1]
            assert "/" in name and send(address, f"/models/{name}", {"inputs": TEXTS[0]})[0] == 200

    def test_a_heat_map_without_captum_names_the_extra(self, service, monkeypatch):
        monkeypatch.setitem(sys.modules, "captum", None)
        body = {"model": "text", "text": TEXTS[0], "method": "gradient", "emotions": []}
        status, answer, _ = send(service, "/page/heat-map", body)
        assert status == 422 and "hf-emotion[explain]" in json.dumps(answer)

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    def test_health_tells_of_a_thread_that_has_ended(self, folders, monkeypatch):
        with running([folders["text"]]) as (address, app):
            batching = app.state.models["text"].batching
            with monkeypatch.context() as patch:
                patch.setattr(batching, "_next_batch", lambda: 1 / 0)
                send(address, "/predict", {"inputs": TEXTS[0]})
                batching._thread.join(10)
                status, answer, _ = send(address, "/health")
                assert status == 503 and "text" in answer["error"]
            assert send(address, "/predict", {"inputs": TEXTS[0]})[0] == send(address, "/health")[0] == 200

    def test_a_failure_of_the_model_ends_one_request_only(self, folders):
        with running([folders["text"]]) as (address, app):
            (model,) = app.state.models.values()
            inner = model.batching.predictor
            model.batching.predictor = lambda inputs, **more: inner(inputs, **more) if "luck" not in inputs else 1 / 0
            status, answer, _ = send(address, "/predict", {"inputs": "luck"})
            assert status == 500 and "division" not in json.dumps(answer)
            assert send(address, "/predict", {"inputs": TEXTS[1]})[0] == 200

    def test_what_the_log_holds(self, folders, caplog):
        caplog.set_level("INFO", logger="hf_emotion.serve")
        for log, line, text in (("errors", False, False), ("requests", True, False), ("texts", True, True)):
            caplog.clear()
            with running([folders["text"]], log=log) as (address, _):
                send(address, "/models/text", {"inputs": TEXTS[0]})
            assert ("POST /models/text 200" in caplog.text, TEXTS[0] in caplog.text) == (line, text)
        lines = [json.loads(JsonFormatter().format(record)) for record in caplog.records]
        asked = next(line for line in lines if "path" in line)
        assert (asked["method"], asked["path"], asked["status"]) == ("POST", "/models/text", 200)
        assert asked["milliseconds"] > 0 and TEXTS[0] in asked["body"] and asked["level"] == "INFO"

    def test_a_path_that_somebody_made_up_is_logged_and_not_counted(self, folders, caplog):
        caplog.set_level("INFO", logger="hf_emotion.serve")
        with running([folders["text"]], api_key="k", max_body_bytes=9) as (address, _):
            key = {"Authorization": "Bearer k"}
            assert send(address, "/made%0Aup/" + "x" * 5000, {"inputs": "a"})[0] == 401
            assert send(address, "/predict", {"inputs": TEXTS[0]}, **key)[0] == 413
            counters = send(address, "/metrics", **key)[1]
        assert "POST /made%0Aup/xxx" in caplog.text and "x" * 100 not in caplog.text and "made" not in counters
        assert "POST /predict 413" in caplog.text and counters.count('{route="other",status="413"} 1.0') == 2

    def test_a_process_with_few_files_loses_no_request_at_sigterm(self, tmp_path):
        command = f"ulimit -n 100; OMP_NUM_THREADS=1 exec {sys.executable} -m hf_emotion serve goemotions --port 0"
        with (tmp_path / "log").open("w") as log:
            process = subprocess.Popen(["bash", "-c", command], stdout=subprocess.PIPE, stderr=log, text=True)
        found: Counter = Counter()

        def ask() -> None:
            connection = HTTPConnection(address.removeprefix("http://"), timeout=60)
            while process.poll() is None:
                try:
                    connection.request("POST", "/predict", '{"inputs": "so sad"}', JSON)
                    found[connection.getresponse().read()[:9]] += 1
                except ConnectionRefusedError:
                    return
                except OSError as error:
                    found[repr(error)] += 1
                    connection.close()

        with ThreadPoolExecutor(8) as pool:
            try:
                address = process.stdout.readline().split()[0]
                idle = [connect(address) for _ in range(200)]
                assert send(address, "/health")[0] == 200
                for one in idle:
                    one.close()
                assert (tmp_path / "log").stat().st_size < 1000
                for _ in range(8):
                    pool.submit(ask)
                begin = time.monotonic()
                while found.total() < 40 and time.monotonic() - begin < 60:
                    time.sleep(0.05)
                process.send_signal(signal.SIGTERM)
                assert process.wait(30) == 0
            finally:
                process.kill()
        time_of_day = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z "
        *_, last = lines = (tmp_path / "log").read_text().splitlines()
        assert re.fullmatch(time_of_day + "ended", last)
        assert sum(bool(re.fullmatch(time_of_day + r"ending: \d requests in flight", line)) for line in lines) == 1
        # Who connects in the moment in which the socket closes is reset: one client now and then. A server that dropped what it has accepted
        # would reset most of the eight.
        answers = found.pop(b'[{"label"')
        assert answers > 20 and found.total() <= 2, found

    def test_a_signal_ends_it_as_soon_as_the_address_is_told(self, folders, monkeypatch):
        monkeypatch.setattr(web, "print", lambda *told, **how: signal.raise_signal(signal.SIGINT), raising=False)
        monkeypatch.setattr(web, "log_with_time", lambda log_format: None)
        before = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
        try:
            web.run(build(Settings(checkpoints=[str(folders["text"])])), "127.0.0.1", 0, timeout=1)
        finally:
            for number, handler in before:
                signal.signal(number, handler)


def rows_in(text: str) -> list[dict]:
    """Lines of JSON, whose fields may come in any order."""
    return [json.loads(line, object_pairs_hook=lambda pairs: dict(sorted(pairs))) for line in text.splitlines()]


class TestPredictUrl:
    def test_as_without_a_service(self, service, folders, argv):
        dialogue = [f"{who}: {what}" for who, what in TURNS]
        for name, texts in (("text", TEXTS), ("dialogue", dialogue), ("aspects", TEXTS[:2])):
            found = []
            for way in ((folders[name], *texts), (name, *texts, "--url", service)):
                done = argv("predict", *way, "--json")
                assert done.code == 0, done.err
                found.append(rows_in(done.out))
            assert_close(*found)

    @pytest.mark.parametrize("name", ["text", "dialogue"])
    def test_files(self, service, folders, argv, tmp_path, name):
        rows = [{"id": i, "text": TEXTS[i % 4]} for i in range(300)]
        if name == "dialogue":
            speakers = [{"speaker": "", "utterance": TEXTS[0]}, {"speaker": 7, "utterance": TEXTS[1]}]
            rows = [{"id": 1, "turns": speakers}]
        source = write_jsonl(tmp_path / "in.jsonl", rows)
        written = []
        for number, more in enumerate(([folders[name]], [name, "--url", service])):
            output = tmp_path / f"out{number}.jsonl"
            more = [*more, "--top-k", 2] if name == "text" else more
            done = argv("predict", *more, "--input", source, "--output", output)
            assert done.code == 0, done.err
            written.append(rows_in(output.read_text()))
        assert_close(*written)
        assert len(written[0]) == len(rows)

    def test_targets_that_no_text_names(self, service, folders):
        texts = ["so happy", f"{TargetedPredictor(folders['targeted']).model.config.targets[0]} so happy"]
        remote = task_of_pipeline("targeted-sentiment").remote(Client(service, "targeted"))
        (own,) = remote(texts[1:])
        assert [item["target"] for item in own] == [texts[1].split()[0]] * len(own) != []
        found, expected = (one.of_items(texts)[0] for one in (remote, TargetedPredictor(folders["targeted"])))
        assert list(map(labels_of, found)) == list(map(labels_of, expected))

    def test_windows_go_to_the_models_that_have_them(self, folders):
        with running([folders["text"], folders["aspects"]], loading={"max_windows": 1}) as (address, _):
            about = {model["name"]: model for model in send(address, "/v1/models")[1]["models"]}
            assert about["text"]["windows"]["most"] == 1 and "windows" not in about["aspects"]
        with pytest.raises(ValueError, match="`max_windows`"):
            build(Settings(checkpoints=[str(folders["aspects"])], loading={"max_windows": 1}))

    def test_a_busy_service_and_small_bodies(self, folders):
        with running([folders["text"]], max_queue_size=1, max_body_bytes=400, max_inputs=50) as (address, _):
            assert_best(Client(address).ask(TEXTS * 20, top_k=1), folders, 20)

    def test_no_request_is_larger_than_the_service_takes(self, folders, monkeypatch):
        """The refusal of a body that is still being sent may be lost."""
        sizes, original = [], remote.httpx.Client.request

        def noted(*args, content, **kwargs):
            sizes.append(len(content))
            return original(*args, content=content, **kwargs)

        monkeypatch.setattr(remote.httpx.Client, "request", noted)
        with running([folders["text"]], max_body_bytes=2000) as (address, _):
            assert len(Client(address).ask([f"{text} {'so ' * 100}" for text in TEXTS * 5], top_k=1)) == 20
            with pytest.raises(ValueError, match=r": a request may have 2,000 bytes at most, and this one has 3,033"):
                Client(address).ask(["so " * 1000])
        assert 1000 < max(sizes) <= 2000

    @pytest.mark.parametrize(
        ("patience", "options", "texts", "seconds"),
        # Of the latter all of them, two of them and one of them got no answer.
        [(0.2, {}, TEXTS[:1], 0.5), (remote.PATIENCE, {"timeout": 0.2}, TEXTS, 1.5)],
    )
    def test_a_client_waits(self, folders, monkeypatch, patience, options, texts, seconds):
        """As long as the service, whose timeout passes; and a single text for what was not answered in time."""
        monkeypatch.setattr(remote, "PATIENCE", patience)
        with running([folders["text"]], **options) as (address, app), ThreadPoolExecutor(1) as pool:
            held = Held(app)
            asked = pool.submit(Client(address).ask, texts)
            assert held.started.wait(60)
            time.sleep(seconds)
            held.go.set()
            assert len(asked.result(60)) == len(texts)

    def test_a_slow_service_gets_fewer_texts_at_once(self, folders):
        """A batch of more than five texts takes longer than the service's timeout."""
        with running([folders["text"]], timeout=0.5, max_batch_size=1) as (address, app):
            model, sizes = next(iter(app.state.models.values())), []
            compute = model.service.compute

            def slowly(inputs, **options):
                time.sleep(0.1 * len(inputs))
                sizes.append(len(inputs))
                return compute(inputs, **options)

            object.__setattr__(model.service, "compute", slowly)
            assert_best(Client(address).ask(TEXTS * 4, top_k=1), folders, 4)
        assert max(sizes) > 5 > sizes[-1]

    def test_one_text_that_takes_too_long(self, folders, monkeypatch):
        monkeypatch.setattr(remote, "PATIENCE", 0.3)
        with running([folders["text"]], timeout=0.2) as (address, app):
            held = Held(app)
            status, answer, _ = send(address, "/predict", {"inputs": TEXTS[0]})
            assert status == 504 and "0.2 s" in answer["error"]
            with pytest.raises(OSError, match="0.2 s.*--timeout"):
                Client(address).ask(TEXTS[:1])
            held.go.set()

    def test_the_device_and_labels_of_ready_models_are_arguments_of_loading(self, folders, monkeypatch):
        model, asked = folders["text"], []
        monkeypatch.setattr("hf_emotion.serving.service.with_weights", lambda name: asked.append(name) or str(model))
        app = build(Settings(checkpoints=["some"], loading={"device": "cpu", "add_labels": ["calm"]}))
        (served,) = app.state.models.values()
        assert asked == ["some"] and "calm" in served.predictor.labels

    def test_a_key_in_the_environment_is_read_as_one_in_a_file(self, monkeypatch, tmp_path):
        for key in ("s3cret\n", " s3cret"):
            (tmp_path / "key").write_text(key)
            monkeypatch.setenv("HF_EMOTION_API_KEY", key)
            assert read_key() == read_key(tmp_path / "key") == "s3cret"
        for wrong in ("two words", ""):
            monkeypatch.setenv("HF_EMOTION_API_KEY", wrong)
            with pytest.raises(ValueError, match="HF_EMOTION_API_KEY"):
                read_key()
        monkeypatch.delenv("HF_EMOTION_API_KEY")
        assert read_key() is None

    def test_a_job_goes_on_with_the_same_model_alone(self, folders, tmp_path):
        """The limits of a service and its address may change between two calls, the model may not."""
        other = shutil.copytree(folders["text"], tmp_path / "text")
        model = BY_ID[CHECKPOINTS["text"]].build(seed=3)
        model.config.thresholds = [0.5] * len(LABELS)
        model.save_pretrained(other)
        found = []
        for folder, limits in (
            (folders["text"], {}),
            (folders["text"], {"timeout": 500, "max_inputs": 7}),
            (other, {}),
        ):
            with running([folder], **limits) as (address, _):
                found.append(task_of_pipeline(EMOTION).remote(Client(address)).fingerprint())
        assert found[0] == found[1] != found[2]

    def test_another_service(self):
        for answer in (b'{"object": "list", "data": []}', b"[]", b'{"models": []}'):
            with answering(answer) as address, pytest.raises(OSError, match="not as `hf-emotion serve`"):
                Client(address)
        with answering(b"{}") as elsewhere, answering(b"", location=elsewhere) as address:
            with pytest.raises(OSError, match=elsewhere):  # the key goes to no other host
                Client(address, key="s3cret")

    def test_no_message_tells_a_password(self):
        for address in ("http://me:s3cret@127.0.0.1:9", "http://me:s3cret@127.0.0.1:9/?key=s3cret"):
            with pytest.raises(OSError, match="no answer from http://127.0.0.1:9") as error:
                Client(address)
            assert "s3cret" not in str(error.value)

    def test_mistakes(self, service, folders, argv, monkeypatch):
        with running([folders["text"]], api_key="s3cret") as (address, _):
            for model, url, code, said, *more in (
                ("nobody", service, 1, "text"),
                ("text", "localhost:8000", 1, "http://"),
                ("text", "http://127.0.0.1:9", 1, "hf-emotion serve"),
                ("replies", service, 1, "emotional-response"),
                ("text", service, 2, "--max-length", "--max-length", 8),
                ("text", address, 1, "HF_EMOTION_API_KEY"),
            ):
                done = argv("predict", model, "hm", "--url", url, *more)
                assert done.code == code and said in done.err
            monkeypatch.setenv("HF_EMOTION_API_KEY", "s3cret")
            assert argv("predict", "text", TEXTS[0], "--url", address).code == 0


@contextlib.contextmanager
def answering(body: bytes, location: str | None = None):
    """Another service, which gives every request this answer, or sends it on."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(302 if location else 200)
            self.send_header("Location", f"{location}{self.path}")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_example_of_the_documents(monkeypatch):
    """Its request, sent to the ready model, gives the answer that stands there. All is loaded before."""
    page = (ROOT / "docs" / "how_to" / "serve.md").read_text(encoding="utf-8")
    request = json.loads(re.search(r"-d '(\{.*?\})'", page)[1])
    monkeypatch.setattr(languages, "_identifier", None)
    with running(["goemotions"]) as (address, _):
        assert languages._identifier is not None
        found = send(address, f"/v1/{EMOTION}", request)[1]
    assert_close(found, json.loads(re.search(r"```json\n(.*?)```", page, re.DOTALL)[1]), 0.00051)


def test_the_manifest_of_the_documents():
    """A pod answers while Kubernetes still sends it requests, ends before it is killed, and may do nothing but serve."""
    deployment, service = yaml.safe_load_all((ROOT / "docker" / "kubernetes.yaml").read_text(encoding="utf-8"))
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    sleep, seconds = container["lifecycle"]["preStop"]["exec"]["command"]
    assert sleep == "sleep"
    assert pod["terminationGracePeriodSeconds"] > float(seconds) + Settings.timeout + 1 + 3 * Server.GRACE
    assert pod["securityContext"]["runAsNonRoot"] is True
    hardened = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert container["securityContext"] == hardened
    assert {container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "readiness", "liveness")} <= OPEN
    assert service["spec"]["selector"].items() <= deployment["spec"]["template"]["metadata"]["labels"].items()


def test_docker_gets_what_the_dockerfile_copies_and_nothing_else():
    file, ignored = ((ROOT / name).read_text(encoding="utf-8") for name in ("docker/Dockerfile", ".dockerignore"))
    copied = " ".join(re.findall(r"^COPY (?!.*--from)(.+) \S+$", file, re.MULTILINE))
    first, *others = re.findall("^[^#\n].*", ignored, re.MULTILINE)
    assert first == "*" and {line[1:] for line in others if line[0] == "!"} == set(copied.split())


def test_a_response_does_not_wait_until_the_client_acknowledges_its_head():
    with listen("127.0.0.1", 0) as server, socket.create_connection(server.getsockname()):
        with server.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
