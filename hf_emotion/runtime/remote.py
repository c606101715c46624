# SPDX-License-Identifier: Apache-2.0
"""A model behind a service (`hf-emotion serve`), asked over HTTP. Needs neither torch nor transformers."""

import hashlib
import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import httpx2 as httpx

from ..io.key import KEY, read_key
from ..io.paths import shown
from ..io.progress import progress_bar
from .sharing import TOO_MANY_TOKENS
from .unread import Counts, Unread, warn_unread


Result: TypeAlias = dict[str, Any]  # the answer for one input; its task says what it holds

AT_ONCE = 64  # inputs of a request
CONNECTIONS = 4  # requests at the same time: the service reads them together
BUSY = (429, 503)  # HTTP statuses of a service that is asked again
PATIENCE = 60.0  # seconds during which a busy service is asked again
OF_THE_SERVICE = ("timeout", "max_inputs", "max_body_bytes", "max_windows", "max_tokens", "page")
SPARE = 10.0  # seconds for the way to the service and back
NOT_OURS = "{} answers, but not as `hf-emotion serve` does: check --url."


class Client:
    """Asks one model of a service; `about` is what the service says of it: `name`, `task`, `route`, `max_length` and what its task adds."""

    def __init__(self, url: str, model: str | None = None, key: str | None = None):
        """`url`: "http://HOST:PORT"; `model`: a name there, None: the first one; `key`: the key of the service, None: $HF_EMOTION_API_KEY."""
        self.url = url.rstrip("/")
        self.shown = shown(self.url)  # for messages: an address may hold a password
        key = read_key() if key is None else key
        # It follows no redirects: the key would go to another host.
        self._http = httpx.Client(headers={"Authorization": f"Bearer {key}"} if key else {})
        self._at_once, self._timeout = AT_ONCE, PATIENCE
        try:
            models = {entry["name"]: entry for entry in self._send("/v1/models", None)["models"]}
            model = next(iter(models)) if model is None else model
        except (KeyError, TypeError, StopIteration) as error:
            raise OSError(NOT_OURS.format(self.shown)) from error
        if model not in models:
            raise ValueError(f"{self.shown} has no model {model!r}: it has {', '.join(models)}.")
        self.about: dict[str, Any] = models[model]
        self._timeout = self.about["timeout"] + SPARE  # it says itself when it gives up

    @property
    def identity(self) -> dict[str, Any]:
        """What the service says of the model, but its limits and its page: they may change while a file is predicted."""
        return {name: value for name, value in self.about.items() if name not in OF_THE_SERVICE}

    def ask(self, inputs: Sequence[Any], progress: bool = False, **fields: Any) -> list[Result]:
        """The result of each input; `fields`: other fields of the request. Raises OSError, and ValueError for what it refuses."""
        size = min(self._at_once, self.about["max_inputs"])
        parts = [list(inputs[start : start + size]) for start in range(0, len(inputs), size)]
        results: list[Result] = []
        with ThreadPoolExecutor(CONNECTIONS) as pool, progress_bar(progress, total=len(inputs), unit="texts") as bar:
            for part, found in zip(parts, pool.map(lambda part: self._ask_part(part, fields), parts), strict=True):
                results += found
                bar.update(len(part))
        return results

    def _ask_part(self, inputs: list[Any], fields: dict[str, Any]) -> list[Result]:
        """The results of inputs; as many requests as the service's limits of size and time ask for."""
        if len(inputs) <= self._at_once:
            given = {name: value for name, value in fields.items() if value is not None}
            body = {"model": self.about["name"], "inputs": inputs, **given}
            # A single text waits for a service that is still busy with what it did not answer in time.
            busy = BUSY if len(inputs) > 1 else (*BUSY, 504)
            try:
                return self._send(self.about["route"], body, busy)["results"]
            except (_TooSlow, _TooMuch):
                if len(inputs) == 1:
                    raise
            self._at_once = min(self._at_once, len(inputs) // 2)
        middle = len(inputs) // 2
        return [*self._ask_part(inputs[:middle], fields), *self._ask_part(inputs[middle:], fields)]

    def _send(self, route: str, body: Any, busy: Sequence[int] = BUSY) -> Any:
        """The answer of a route, asked again while the service is `busy`, which are HTTP statuses."""
        data = b"" if body is None else json.dumps(body).encode()
        if data and len(data) > (most := self.about["max_body_bytes"]):
            # The service would close the connection before it has read all, and its refusal could be lost.
            raise _TooMuch(f"{self.shown}: a request may have {most:,} bytes at most, and this one has {len(data):,}")
        end, pause = time.monotonic() + PATIENCE, 0.05
        while True:
            try:
                answer = self._http.request(
                    "POST" if data else "GET",
                    self.url + route,
                    content=data,
                    headers={"Content-Type": "application/json"},
                    timeout=self._timeout,
                )
                if answer.is_success:
                    return answer.json()
                if answer.status_code not in busy or time.monotonic() > end:
                    raise _failure(self.shown, answer)
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                # A service that has answered before may be starting again; otherwise there is none.
                if not hasattr(self, "about") or time.monotonic() > end:
                    raise OSError(
                        f"no answer from {self.shown} ({str(error) or type(error).__name__}): is the service running? hf-emotion serve "
                        "MODEL starts one."
                    ) from error
            except (json.JSONDecodeError, UnicodeDecodeError) as error:
                raise OSError(NOT_OURS.format(self.shown)) from error
            time.sleep(pause)
            pause = min(2 * pause, 2.0)


class Remote:
    """What makes a predictor ask a service: a base class before its own, whose subclass has `predict_quietly` and `of_items`."""

    units: str
    identity: Any
    wide_labels: Any = None  # only where a subclass asks for columns of labels

    def __init__(self, client: Client):
        self.client = client
        self.labels: list[str] = client.about["labels"]
        self.max_length: int = client.about["max_length"]
        self.identity = client.identity

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.client.shown!r}: {self.client.about['name']})"

    def fingerprint(self) -> str:
        """A hash of what tells the model behind the service from others."""
        return hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode()).hexdigest()

    def warn_unread(self, counts: Counts) -> None:
        warn_unread(counts, "what the service reads", self.client.about["languages"], self.units, self)


class _TooMuch(ValueError):
    """More than the service takes at once."""


class _TooSlow(OSError):
    """The service did not answer in time."""


def _failure(url: str, response: httpx.Response) -> Exception:
    """The exception for an answer that tells an error."""
    answer = {}
    try:
        answer = response.json()
        message = answer["error"]
    except (ValueError, KeyError, TypeError):
        message = response.reason_phrase
    if (status := response.status_code) == 401:
        return OSError(f"{url}: {message}. Set {KEY} to the key of the service, or in Python give Client `key=`.")
    if status == 404:
        return OSError(NOT_OURS.format(url))
    if response.is_redirect:
        return OSError(f"{url} sends requests on to {response.headers['Location']}: give that address with --url.")
    if status == 504:
        return _TooSlow(
            f"{url}: {message}. It is too busy or too slow: ask later, or start it with a longer --timeout."
        )
    kinds: dict[int, type[Exception]] = {413: _TooMuch, 422: ValueError}
    if status == 422 and any(field.get("type") == TOO_MANY_TOKENS for field in answer.get("detail", ())):
        return _TooMuch(f"{url}: {message}")
    return kinds.get(status, OSError)(f"{url}: {message}")


def unread_of(results: Sequence[Result]) -> Unread:
    """What the models could not read of the texts of results."""
    unread = Unread.nothing(len(results))
    for name, values in unread._asdict().items():
        values[:] = [result.get(name) for result in results]
    return unread
