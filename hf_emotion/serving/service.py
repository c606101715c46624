# SPDX-License-Identifier: Apache-2.0
"""
`hf-emotion serve`: models behind HTTP.

What a request asks for is read and presented in the event loop; what the model computes runs in one thread for each model, which takes all
requests that wait together (`BatchingPredictor`).
"""

import asyncio
import json
import math
import queue
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager
from functools import cached_property
from itertools import islice
from operator import attrgetter
from typing import Annotated, Any, Literal


try:
    from fastapi import Body, FastAPI, Request
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import HTMLResponse, Response
    from starlette.exceptions import HTTPException
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("the service needs fastapi: pip install 'hf-emotion[serve]'") from error
from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, create_model

from ..inference import open_checkpoint
from ..io.version import __version__
from ..runtime.languages import identifier, languages_of
from ..runtime.ready import with_weights
from ..runtime.sharing import TOO_MANY_TOKENS, Limits, TooManyTokens, limited
from ..tasks.results import Doc, Label
from ..tasks.service import Name, NoSession, Scoring, Service, Text, Texts, check_texts
from .settings import Settings, names_of
from .threads import BatchingPredictor
from .web import OPEN, PAGE, Counters, Guard, problem


MOST_SHOWN = 500  # characters of what a message quotes
OF_EVERY_MODEL = {"device", "dtype"}  # arguments of `open_checkpoint`


class Model:
    """A loaded model, and the thread that computes with it."""

    def __init__(self, name: str, checkpoint: str, settings: Settings, counters: Counters):
        """Raises what `load_predictor` raises; ValueError for a model that is not served."""
        self.name = name
        loading = settings.loading
        self.task, predictor_with = open_checkpoint(
            with_weights(checkpoint) if loading.get("add_labels") else checkpoint,
            **{key: loading[key] for key in OF_EVERY_MODEL & loading.keys()},
        )
        takes = {"max_length"} | self.task.predictor_options
        self.predictor = predictor_with(**{key: value for key, value in loading.items() if key in takes})
        if languages_of(self.predictor.model.config):
            identifier()  # else the first text that needs it would wait for a second
        self.route = f"/v1/{self.task.name}"
        self.service: Service = self.predictor.service()
        self.page = self.service.page
        self.settings = settings
        cut_at = loading.get("max_windows", 0) if "max_windows" in takes else 0
        self.max_tokens = max(settings.max_tokens, cut_at * self.predictor.max_length)
        self.exported = bool(getattr(self.predictor.model, "takes_arrays", False))
        self.batching = BatchingPredictor(
            counters.batches(name, self._run),
            settings.max_batch_size,
            settings.batch_wait_timeout,
            settings.max_queue_size,
        )
        self.since = int(time.time())

    def _run(self, inputs: list[Any], call: Any = None, **options: Any) -> Sequence[Any]:
        """What the thread does: the model's work for inputs, or functions that need the model for themselves."""
        with limited(Limits(self.settings.max_windows, self.max_tokens)):
            return [function() for function in inputs] if call else self.service.compute(inputs, **options)

    @cached_property
    def fingerprint(self) -> str:
        """Computed when somebody asks for it, because it reads all weights."""
        return self.predictor.fingerprint()

    def as_openai(self) -> dict[str, Any]:
        return {"id": self.name, "object": "model", "created": self.since, "owned_by": "hf-emotion"}

    def about(self) -> dict[str, Any]:
        """What `/v1/models` says."""
        return {
            "name": self.name,
            "task": self.task.name,
            "route": self.route,
            "engine": "onnxruntime" if self.exported else "torch",
            "max_length": self.predictor.max_length,
            "languages": languages_of(self.predictor.model.config),
            "max_inputs": self.settings.max_inputs,
            "max_body_bytes": self.settings.max_body_bytes,
            "max_windows": self.settings.max_windows,
            "max_tokens": self.max_tokens,
            "timeout": self.settings.timeout,
            "fingerprint": self.fingerprint,
            **self.service.about,
            "page": {
                "box": self.page.box,
                "lines": self.page.lines,
                "button": self.page.button,
                "examples": list(self.page.examples),
                "emotions": None if self.page.emotions is None else list(self.page.emotions),
                "methods": [] if self.exported else list(self.page.methods),
                "method": None if self.exported else self.page.method,
            },
        }


class PageRequest(BaseModel):
    """What the page asks for."""

    model_config = ConfigDict(extra="forbid")

    model: Name
    text: Text
    emotions: Annotated[list[Name], Field(fail_fast=True)] = []
    seed: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    method: Name | None = Field(None, description="For `/page/heat-map`: how to find what the model looked at.")


# By their types, so that an error is of the one that was meant.
_list_or_text = Discriminator(lambda given: "list" if isinstance(given, list) else "text")
OneText = Annotated[Text, Tag("text")]
OneOrPair = Annotated[OneText | Annotated[list[Text], Field(min_length=1, fail_fast=True), Tag("list")], _list_or_text]


class TextEmbeddingsRequest(BaseModel):
    """A request as text-embeddings-inference takes it."""

    model_config = ConfigDict(extra="forbid")

    inputs: Annotated[
        OneText | Annotated[list[OneOrPair], Field(min_length=1, fail_fast=True), Tag("list")],
        _list_or_text,
        BeforeValidator(check_texts),
    ] = Field(description='A text, or a batch of texts: [["a text"], ["another one"]].')
    raw_scores: bool = Field(False, description="Logits instead of probabilities.")
    truncate: bool | None = Field(None, description="Cut long texts. Default: they are read whole, in windows.")
    # "right" is understood too; in the schema one spelling, because generated clients make a name of each
    truncation_direction: Annotated[
        Literal["Right"],
        BeforeValidator(lambda side: "Right" if side == "right" else side),
        Doc("Which end of a long text is cut."),
    ] = "Right"


class InferenceParameters(BaseModel):
    """Parameters of the Inference API."""

    model_config = ConfigDict(extra="forbid")

    top_k: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="The k most probable labels. Default: all."
    )
    function_to_apply: Literal["sigmoid", "softmax", "none"] | None = Field(
        default=None, description="What makes scores of logits. Default: what fits the model."
    )


class InferenceRequest(BaseModel):
    """A request as the Inference API takes it."""

    model_config = ConfigDict(extra="forbid")

    inputs: Annotated[Texts, Doc("A text, or a list of texts.")]
    parameters: Annotated[InferenceParameters, Doc("What the answer holds.")] = InferenceParameters()


Scores = list[Label]


def build(settings: Settings, replicated: bool = False) -> FastAPI:
    """
    The service, an ASGI application; `app.state.models` holds the models by name, and a reload replaces them there. One of several replicas
    has no reload: a request reaches only one of them. OSError, ValueError: as `load_predictor`.
    """
    counters = Counters()
    models = {
        name: Model(name, checkpoint, settings, counters)
        for name, checkpoint in zip(names_of(settings.checkpoints), settings.checkpoints, strict=True)
    }
    for name in models:
        counters.queue.labels(name).set_function(lambda name=name: models[name].batching.waiting)  # type: ignore[misc]
    for name in settings.loading.keys() - OF_EVERY_MODEL - {"max_length"}:
        if not any(name in model.task.predictor_options for model in models.values()):
            tasks = ", ".join(dict.fromkeys(model.task.name for model in models.values()))
            raise ValueError(f"`{name}` does not go with models for {tasks}: leave it out.")

    @asynccontextmanager
    async def lifespan(app: FastAPI):
        yield
        app.state.ready = False
        for model in models.values():
            await asyncio.to_thread(model.batching.close)

    app = FastAPI(
        title="hf-emotion",
        version=__version__,
        description="Emotions of texts and dialogues, replies in an emotion, and sentiment towards aspects.",
        docs_url=None,  # that page loads scripts from another site; ours is at /
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.ready, app.state.models = True, models
    _answer_errors(app)
    _routes_of_the_process(app, models, counters)
    _routes_of_tasks(app, models, settings, counters, replicated)
    _routes_of_others(app, models, settings)
    _routes_of_the_page(app, models, settings)
    if settings.api_key is not None:
        if not replicated:
            _route_of_reload(app, models, settings, counters)
        _describe_key(app)
    app.add_middleware(Guard, settings=settings, counters=counters)
    if settings.cors_origins:
        from fastapi.middleware.cors import CORSMiddleware

        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.cors_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )
    return app


def _describe_key(app: FastAPI) -> None:
    """Say in the OpenAPI document which routes need the key."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        document = made()
        document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                if method != "get" or path not in OPEN:
                    operation["security"] = [{"key": []}]
        return document

    app.openapi = openapi  # type: ignore[method-assign]


class Problem(BaseModel):
    """An error: what is wrong, where, and what to do."""

    error: Annotated[str, Doc("What is wrong, and what to do.")]
    detail: Annotated[list[dict[str, Any]], Doc("The place of each wrong field, and what is wrong with it.")] = []


PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "The request or its text cannot be read"},
    401: {"model": Problem, "description": "No key, or a wrong one"},
    408: {"model": Problem, "description": "The body did not come in time"},
    413: {"model": Problem, "description": "The body is too large"},
    415: {"model": Problem, "description": "The body is compressed"},
    422: {"model": Problem, "description": "The body is not JSON, or a field is wrong"},
    429: {"model": Problem, "description": "Too many requests wait: try again later"},
    503: {"model": Problem, "description": "The service is ending, or all connections are busy"},
    504: {"model": Problem, "description": "No answer in time"},
}
NO_MODEL: dict[str, Any] = {"model": Problem, "description": "No such model"}


def wrong(field: str, message: str, **more: str) -> Response:
    """Status 422 for a field of the body."""
    return problem(422, message, [{"loc": ["body", field], "msg": message, **more}])


def no_such_model(models: dict[str, "Model"], name: str, all_models: dict[str, "Model"]) -> Response:
    return wrong("model", f"`model` must be one of {', '.join(models)}, got {name!r}.{elsewhere(name, all_models)}")


def elsewhere(name: str, models: dict[str, "Model"]) -> str:
    """Where to ask for a model that another route has, for messages."""
    return f" Ask {models[name].route} for {name}." if name in models else ""


def _said(one: Any) -> str:
    """What an error of pydantic or fastapi says."""
    if one["type"] == "json_invalid":
        return f"the body is not JSON: {one['ctx']['error']} (character {one['loc'][-1] + 1})"
    # Pydantic says "Extra inputs are not permitted", which readers would take for `inputs`.
    return "there is no such field" if one["type"] == "extra_forbidden" else one["msg"][:MOST_SHOWN]


def _answer_errors(app: FastAPI) -> None:
    @app.exception_handler(RequestValidationError)
    async def wrong_field(request: Request, error: RequestValidationError) -> Response:
        # Without the input itself, which may be long and is known to who sent it.
        detail = [{"loc": list(one["loc"]), "msg": _said(one), "type": one["type"]} for one in error.errors()[:20]]
        first = detail[0]
        message = first["msg"]
        if first["type"] != "json_invalid":
            message = f"{'.'.join(map(str, first['loc']))}: {message}"
        if first["loc"] == ["body"] and "json" not in request.headers.get("content-type", ""):
            message = f"{message}: send JSON, with the header Content-Type: application/json"
        return problem(422, message, detail)

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        if error.status_code == 400 and (cause := error.__cause__) is not None:  # fastapi's, for what is not even text
            what = f"{type(cause).__name__}: {str(cause)[:MOST_SHOWN]}"
            return problem(400, f"the body cannot be read as JSON in UTF-8 ({what})")
        if error.status_code == 404:
            routes = ", ".join(app.openapi()["paths"])
            return problem(404, f"there is no {request.url.path[:MOST_SHOWN]}, but {routes}; see /openapi.json.")
        if error.status_code == 405 and error.headers:
            message = f"{request.method} is not allowed here: use {error.headers['Allow']}."
            return problem(405, message, headers=error.headers)
        return problem(error.status_code, str(error.detail), headers=error.headers)

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        return problem(500, "the service failed; its log says why")


def _routes_of_the_process(app: FastAPI, models: dict[str, Model], counters: Counters) -> None:
    @app.get(
        "/health", tags=["process"], summary="Whether the process and its models live", responses={503: PROBLEMS[503]}
    )
    async def health() -> Any:
        if dead := [name for name, model in models.items() if not model.batching.alive]:
            return problem(503, f"the worker thread of {', '.join(dead)} stopped; the next request restarts it")
        return {"status": "ok"}

    @app.get("/ready", tags=["process"], summary="Whether requests are welcome", responses={503: PROBLEMS[503]})
    async def ready() -> Any:
        return {"status": "ready"} if app.state.ready else problem(503, "the service is ending")

    @app.get(
        "/metrics",
        tags=["process"],
        summary="Counters for Prometheus",
        response_class=Response,
        responses={401: PROBLEMS[401]},
    )
    async def metrics() -> Response:
        return Response(counters.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get(
        "/v1/models",
        tags=["models"],
        summary="The models and what they answer; `object` and `data` as OpenAI",
        responses={401: PROBLEMS[401]},
    )
    def list_models() -> dict[str, Any]:
        listed = list(models.values())
        return {
            "object": "list",
            "data": [model.as_openai() for model in listed],
            "models": [model.about() for model in listed],
        }

    @app.get(
        "/v1/models/{name:path}",
        tags=["models"],
        summary="A model, as OpenAI",
        response_model=dict[str, Any],
        responses={401: PROBLEMS[401], 404: NO_MODEL},
    )
    async def one_model(name: str) -> Any:
        if name not in models:
            return problem(404, f"there is no model {name!r} here, but {', '.join(models)}.")
        return models[name].as_openai()


def _route_of_reload(app: FastAPI, models: dict[str, Model], settings: Settings, counters: Counters) -> None:
    turn = asyncio.Lock()

    @app.post(
        "/v1/reload",
        tags=["process"],
        summary="Load all models anew, while the old ones answer",
        response_model=dict[str, list[dict[str, str]]],
        responses={401: PROBLEMS[401], 409: {"model": Problem, "description": "A model cannot be loaded"}},
    )
    async def reload() -> Any:
        async with turn:
            loaded: dict[str, Model] = {}
            try:
                for name, checkpoint in zip(models, settings.checkpoints, strict=True):
                    loaded[name] = await asyncio.to_thread(Model, name, checkpoint, settings, counters)
                    if loaded[name].route != models[name].route:
                        raise ValueError(f"it is a model for {loaded[name].task.name} now: start the service anew")
            except Exception as error:  # whatever is wrong with the files, the old models go on
                return problem(409, f"all models stay as they were. {name}: {str(error)[:MOST_SHOWN]}")
            # A route takes a model and hands it its inputs in one turn of the event loop, so that none meets a closed one.
            old = list(models.values())
            models.update(loaded)
            for model in old:
                await asyncio.to_thread(model.batching.close)  # once it has answered what waits
        return {
            "models": [
                {"name": name, "fingerprint": await asyncio.to_thread(lambda model=model: model.fingerprint)}  # type: ignore[misc]
                for name, model in loaded.items()
            ]
        }


def _routes_of_tasks(
    app: FastAPI, models: dict[str, Model], settings: Settings, counters: Counters, replicated: bool
) -> None:
    for route in dict.fromkeys(model.route for model in models.values()):
        model = next(model for model in models.values() if model.route == route)
        for path, service_of in ((route, attrgetter("service")), (f"{route}/turn", attrgetter("service.streaming"))):
            first = service_of(model)
            if first is None or (replicated and path != route):  # the next turn may reach another replica
                continue
            fields: dict[str, Any] = {
                "model": (Annotated[str, Doc("The model's name.")], ...),
                "results": (Annotated[list[first.result], Doc("In the order of the inputs.")], ...),  # type: ignore[name-defined]
            }
            name = first.result.__name__.replace("Result", "Response")
            answer = create_model(name, __doc__="The model that answered, and a result for each input.", **fields)
            summary = (first.request.__doc__ or "").strip()
            missing = {} if path == route else {404: {"model": Problem, "description": "No such session"}}
            described: dict[str, Any] = {"response_model": answer, "responses": PROBLEMS | missing}
            app.post(path, tags=["models"], summary=summary, **described)(
                _asking(route, first, service_of, settings, counters, models)
            )


def _asking(
    route: str,
    first: Service,
    service_of: Callable[[Model], Service],
    settings: Settings,
    counters: Counters,
    all_models: dict[str, Model],
) -> Callable[..., Any]:
    """The function behind the route of a task."""

    async def ask(request: Request, body: Any) -> Response:
        models = {name: model for name, model in all_models.items() if model.route == route}
        name = body.model or next(iter(models))
        if name not in models:
            return no_such_model(models, name, all_models)
        service = service_of(models[name])

        def present(found: Sequence[Any]) -> dict[str, Any]:
            results = service.present(found, body)
            counters.truncated.labels(name).inc(service.cut(results))
            return {"model": name, "results": results}

        return await _computed(request, models[name], settings, lambda: service.read(body), present)

    example: Any = {"example": {"value": first.example}}
    ask.__annotations__["body"] = Annotated[first.request, Body(openapi_examples=example)]
    return ask


async def _computed(
    request: Request,
    model: Model,
    settings: Settings,
    read: Callable[[], tuple[Iterable[Any], dict[str, Any]]],
    present: Callable[[Sequence[Any]], Any],
) -> Response:
    """The answer to a request, as soon as the model's thread has computed it; nothing more is computed for a client that has gone."""
    try:
        items, options = read()
        if "call" in options:  # functions share no batch: they would be called again because another one failed
            options["call"] = object()
        inputs = list(islice(items, settings.max_inputs + 1))  # there may be millions: contexts times emotions
        if len(inputs) > settings.max_inputs:
            raise ValueError(f"`inputs` may hold {settings.max_inputs} at most, got more: send several requests.")
        future = model.batching.submit(inputs, settings.timeout, **options)
    except (ValueError, TypeError) as error:
        return wrong("inputs", str(error))
    except queue.Full as error:
        # what waits longer than its timeout leaves the queue
        seconds = math.ceil(min(max(model.batching.seconds_waiting, 1), settings.timeout))
        return problem(429, str(error), headers={"Retry-After": str(seconds)})
    except RuntimeError:
        return problem(503, "the service is ending")
    late = problem(504, f"no answer within {settings.timeout:g} s")
    waiting, gone = asyncio.wrap_future(future), asyncio.ensure_future(request.receive())
    waiting.add_done_callback(lambda done: done.cancelled() or done.exception())  # which nobody may ask for any more
    try:
        await asyncio.wait((waiting, gone), timeout=settings.timeout, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            future.cancel()
            return late  # nobody reads it where the client has gone
        found = waiting.result()
    except TooManyTokens as error:
        return wrong("inputs", str(error), type=TOO_MANY_TOKENS)
    except NoSession as error:
        return problem(404, str(error))
    except (ValueError, TypeError, ModuleNotFoundError) as error:  # captum is an extra
        return wrong("inputs", str(error))
    except TimeoutError:
        return late
    except (CancelledError, asyncio.CancelledError):
        future.cancel()  # Ray cancels what nobody waits for
        return problem(503, "the service is ending")
    finally:
        gone.cancel()
    return Response(
        json.dumps(present(found), ensure_ascii=False, separators=(",", ":")), media_type="application/json"
    )


def _routes_of_others(app: FastAPI, models: dict[str, Model], settings: Settings) -> None:
    """The routes of text-embeddings-inference and of the Inference API, for models that give texts labels."""

    def scored() -> dict[str, tuple[Model, Scoring]]:
        return {name: (one, one.service.scoring) for name, one in models.items() if one.service.scoring is not None}

    if not scored():
        return
    first = next(iter(scored()))
    described: dict[str, Any] = {"tags": ["as others have it"], "responses": PROBLEMS}

    @app.get(
        "/info",
        tags=described["tags"],
        summary="The model behind `/predict`, as text-embeddings-inference",
        responses={401: PROBLEMS[401]},
    )
    async def info() -> dict[str, Any]:
        model = models[first]
        labels = dict(enumerate(model.service.about["labels"]))
        return {
            "model_id": first,
            "model_sha": None,
            "model_dtype": str(getattr(model.predictor.model, "dtype", "float32")).removeprefix("torch."),
            "model_type": {"classifier": {"id2label": labels, "label2id": {name: i for i, name in labels.items()}}},
            "max_concurrent_requests": settings.max_queue_size,
            "max_input_length": model.predictor.max_length,
            "max_batch_tokens": model.max_tokens,
            "max_batch_requests": settings.max_batch_size,
            "max_client_batch_size": settings.max_inputs,
            "auto_truncate": False,
            "tokenization_workers": 1,
            "version": __version__,
        }

    @app.post("/predict", summary="As text-embeddings-inference", response_model=Scores | list[Scores], **described)
    async def predict(request: Request, body: TextEmbeddingsRequest) -> Response:
        model, scoring = scored()[first]
        batch = isinstance(body.inputs, list) and isinstance(body.inputs[0], list)
        items = body.inputs if isinstance(body.inputs, list) else [body.inputs]
        texts = [one[0] if isinstance(one, list) and len(one) == 1 else one for one in items]
        single = [text for text in texts if isinstance(text, str)]
        if len(single) < len(texts) or (len(texts) > 1 and not batch):
            message = 'the model reads single texts and no pairs: write a batch as [["a text"], ["another one"]].'
            return wrong("inputs", message)

        def present(found: Sequence[Any]) -> Any:
            scores = [scoring.scores(one, "none" if body.raw_scores else None) for one in found]
            return scores if batch else scores[0]

        return await _computed(request, model, settings, lambda: scoring.read(single, bool(body.truncate)), present)

    async def classify(request: Request, body: InferenceRequest, name: str) -> Response:
        model, scoring = scored()[name]
        asked = body.parameters

        def present(found: Sequence[Any]) -> Any:
            return [scoring.scores(one, asked.function_to_apply)[: asked.top_k] for one in found]

        return await _computed(request, model, settings, lambda: scoring.read(body.inputs, False), present)

    @app.post("/", summary="As the Inference API", response_model=list[Scores], **described)
    async def root(request: Request, body: InferenceRequest) -> Response:
        return await classify(request, body, first)

    described |= {"responses": {404: NO_MODEL, **PROBLEMS}}

    @app.post(
        "/models/{name:path}", summary="As the Inference API, for a model", response_model=list[Scores], **described
    )
    async def of_model(name: str, request: Request, body: InferenceRequest) -> Response:
        if name not in (own := scored()):
            message = f"there is no model {name!r} for texts here, but {', '.join(own)}.{elsewhere(name, models)}"
            return problem(404, message)
        return await classify(request, body, name)


def _routes_of_the_page(app: FastAPI, models: dict[str, Model], settings: Settings) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> HTMLResponse:
        return HTMLResponse(PAGE)

    async def of_page(request: Request, body: PageRequest, work: Callable[[Model], dict[str, Any]]) -> Response:
        if body.model not in models:
            return no_such_model(models, body.model, {})
        if len(body.emotions) > settings.max_inputs:
            return wrong("emotions", f"`emotions` may be {settings.max_inputs} at most, got {len(body.emotions)}.")
        model = models[body.model]
        return await _computed(
            request, model, settings, lambda: ([lambda: work(model)], {"call": True}), lambda found: found[0]
        )

    @app.post("/page/table", include_in_schema=False)
    async def table(request: Request, body: PageRequest) -> Response:
        def work(model: Model) -> dict[str, Any]:
            found = model.page.table(body.text, body.emotions, body.seed)
            asked = {"model": model.name, **model.service.from_page(body.text, body.emotions, body.seed)}
            request = {"route": model.route, "body": asked}
            return {"header": found.header, "rows": found.rows, "unread": found.unread, "request": request}

        return await of_page(request, body, work)

    @app.post("/page/heat-map", include_in_schema=False)
    async def heat_map(request: Request, body: PageRequest) -> Response:
        def work(model: Model) -> dict[str, Any]:
            method = body.method or model.page.method
            if model.exported or method is None:
                raise ValueError(f"{model.name} has no heat map: it is exported, or a model for {model.task.name}.")
            from ..inference.explain import explain  # it needs torch

            text, arguments = model.page.read(body.text), model.page.arguments(method, body.emotions)
            found = explain(model.predictor, text, **arguments).to_dict()
            return {"maps": found["maps"], "notes": found["notes"]}

        return await of_page(request, body, work)
