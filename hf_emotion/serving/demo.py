# SPDX-License-Identifier: Apache-2.0
"""
`hf-emotion demo`: a page to try checkpoints in a browser. It loads nothing from other addresses, and nothing that is typed becomes
HTML: results are tables of plain text, heat maps and messages are escaped.
"""

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

from ..inference import load_predictor
from ..runtime.ready import with_weights
from ..tasks.base import Page


os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # set before gradio is imported, so that it sends nothing anywhere

try:
    import gradio as gr
    from starlette.datastructures import MutableHeaders
    from starlette.middleware import Middleware
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("the page needs gradio: pip install 'hf-emotion[demo]'") from error

from ..inference.explain import explain
from ..reports.explain_views import MAP_STYLE, maps_to_html
from .settings import names_of


MAX_CHARACTERS = 5000
MAX_WAITING = 16  # most requests in the queue; the next one is refused
EMOTIONS_CHOSEN = 6
NO_MAP = "none"
# The browser may load only the page's own files. Gradio writes scripts and styles into the page itself.
POLICY = "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; frame-ancestors 'none'"

# The colours that `MAP_STYLE` needs; the purple and orange are those of `explain_views.STYLE`.
COLOURS = """
body { --line: var(--border-color-primary); --soft: var(--body-text-color); --above: 94,60,153; --below: 230,97,1; }
body.dark { --above: 154,120,226; }
"""


def build(checkpoints: Sequence[str | Path]) -> gr.Blocks:
    """
    The page for checkpoints that read the same kind of input; it shows their results side by side.

    Raises:
        OSError, ValueError: as `load_predictor`; checkpoints are of different kinds, or one is named twice.
    """
    predictors = _load(checkpoints)
    pages: dict[str, Page] = {name: predictor.task.page(predictor) for name, predictor in predictors.items()}
    first = next(iter(pages.values()))

    def answer(text: str | None, method: str = NO_MAP, emotions: Sequence[str] = (), seed: float | None = None):
        """A table and a heat map for each checkpoint."""
        try:
            text = _checked(text)
            with _warnings_shown():
                tables = [page.table(text, emotions, None if seed is None else int(seed)) for page in pages.values()]
                maps = [
                    _map(name, predictor, *pages[name].question(text, method, emotions)) if method != NO_MAP else ""
                    for name, predictor in predictors.items()
                ]
        except ValueError as error:
            # The message is shown as HTML, and may quote what was typed.
            raise gr.Error(escape(str(error)), title="Not done", print_exception=False) from error
        return [*({"headers": table.header, "data": table.rows} for table in tables), *maps]

    with gr.Blocks(title="hf-emotion", analytics_enabled=False) as page:
        gr.Markdown("# hf-emotion")
        # The browser allows one character too many, so that a longer text is refused, not silently cut.
        box = gr.Textbox(label=first.box, lines=first.lines, max_length=MAX_CHARACTERS + 1)
        with gr.Row():
            exported = any(getattr(predictor.model, "takes_arrays", False) for predictor in predictors.values())
            method = None if exported else first.method  # such a model has no heat maps
            inputs: list[Any] = [
                box,
                gr.Dropdown([NO_MAP, *first.methods], value=method or NO_MAP, label="Heat map"),
            ]
            if first.emotions is not None:
                emotions = _shared_emotions(pages)
                inputs += [
                    gr.Dropdown(
                        emotions, value=emotions[:EMOTIONS_CHOSEN], multiselect=True, label="Emotions (empty: all)"
                    ),
                    gr.Number(
                        0, label="Seed (empty: new replies each time)", precision=0, minimum=0, maximum=2**32 - 1
                    ),
                ]
        button = gr.Button(first.button, variant="primary")
        outputs: list[list[Any]] = [[], []]
        with gr.Row():
            for name in predictors:
                with gr.Column(min_width=320):
                    outputs[0].append(gr.Dataframe(label=name, datatype="str", interactive=False, wrap=True))
                    outputs[1].append(gr.HTML(css_template=MAP_STYLE, js_on_load=None))
        gr.on(
            [button.click, box.submit],
            answer,
            inputs,
            [*outputs[0], *outputs[1]],
            api_visibility="private",
            concurrency_limit=1,  # one request at a time: it has the machine, and a seed its random numbers, for itself
        )
        gr.Examples([[text] for text in first.examples], box, label="Examples", api_visibility="private")
    return page.queue(max_size=MAX_WAITING, api_open=False)


def serve(checkpoints: Sequence[str | Path], host: str = "127.0.0.1", port: int = 7860) -> None:
    """Serve the page of `build` until interrupted. Its errors are those of `build` and `start`."""
    page = build(checkpoints)
    print(f"{start(page, host, port)} (Ctrl+C ends it)", flush=True)
    page.block_thread()


def start(page: gr.Blocks, host: str, port: int) -> str:
    """Serve a page on `host` from threads in the background and return its address. OSError: the port is not free."""
    try:
        _, url, _ = page.launch(
            server_name=host,
            server_port=port,
            share=False,
            inbrowser=False,
            prevent_thread_lock=True,
            quiet=True,
            ssr_mode=False,
            mcp_server=False,
            pwa=False,
            enable_monitoring=False,
            run_history=False,
            footer_links=[],
            max_file_size=1,  # one byte: nobody needs to send a file
            theme=gr.themes.Default(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"]),
            css=COLOURS,
            app_kwargs={"middleware": [Middleware(_OwnFilesOnly)]},
        )
    except OSError as error:
        raise OSError(
            f"{host}:{port} cannot be served, the port may be in use: choose another with --port."
        ) from error
    return url


class _OwnFilesOnly:
    """Sends `POLICY` with every answer."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        async def send_with_policy(message):
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["Content-Security-Policy"] = POLICY
            await send(message)

        await self.app(scope, receive, send_with_policy)


def _load(checkpoints: Sequence[str | Path]) -> dict[str, Any]:
    """{name on the page: predictor}"""
    names = names_of(checkpoints)
    predictors = {name: load_predictor(with_weights(path)) for name, path in zip(names, checkpoints, strict=True)}
    tasks = {name: predictor.task for name, predictor in predictors.items()}
    if len({task.name for task in tasks.values()}) > 1:
        found = "; ".join(f"{name} is a model for {task.name}" for name, task in tasks.items())
        raise ValueError(f"`checkpoints` must all be models for the same task: {found}. Start a page for each task.")
    return predictors


def _checked(text: str | None) -> str:
    text = (text or "").strip()
    if not text:
        raise ValueError("The text is empty: type one, or choose an example.")
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"The text has more than {MAX_CHARACTERS} characters: shorten it.")
    return text


@contextlib.contextmanager
def _warnings_shown() -> Iterator[None]:
    """Show the library's warnings, such as "a text was cut", as messages on the page, each once."""
    messages: dict[str, None] = {}
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: messages.setdefault(record.getMessage())  # type: ignore[method-assign]  # changes only this handler
    library = logging.getLogger("hf_emotion")
    library.addHandler(handler)
    try:
        yield
    finally:
        library.removeHandler(handler)
    for message in messages:
        gr.Warning(escape(message))


def _map(name: str, predictor: Any, text: Any, arguments: dict[str, Any]) -> str:
    """HTML of the heat maps; if there is none, a message says why, and the predictions are shown all the same."""
    try:
        found = explain(predictor, text, **arguments)
    except (ValueError, ModuleNotFoundError) as error:
        gr.Warning(escape(f"No heat map of {name}: {error}"))
        return ""
    return maps_to_html(replace(found, checkpoint=name))  # the visitor need not know the checkpoint's folder


def _shared_emotions(pages: dict[str, Page]) -> list[str]:
    first, *others = (page.emotions or () for page in pages.values())
    shared = [emotion for emotion in first if all(emotion in other for other in others)]
    if not shared:
        raise ValueError(f"`checkpoints` must share emotions to reply in: {', '.join(pages)} have none in common.")
    return shared
