# SPDX-License-Identifier: Apache-2.0
"""
`hf-emotion demo`: a page to try checkpoints in a browser. It asks no other address for anything, and nothing that is typed
becomes HTML: results are tables of plain text, heat maps and messages are escaped.
"""

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedModel

from ..inference import load_predictor
from ..modeling.target_texts import targets_in
from ..tasks.dialogue_emotion.predictor import DialoguePredictor, speaker_and_utterance
from ..tasks.emotion_classification.predictor import Predictor
from ..tasks.emotional_response.predictor import ReplyGenerator
from ..tasks.targeted_sentiment.predictor import TargetedPredictor


os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # before gradio is imported: nothing is sent anywhere

try:
    import gradio as gr
    from starlette.datastructures import MutableHeaders
    from starlette.middleware import Middleware
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("the page needs gradio: pip install 'hf-emotion[demo]'") from error

from ..inference.explain import METHODS, explain
from ..reports.explain_views import MAP_STYLE, maps_to_html


AnyPredictor = Predictor | DialoguePredictor | ReplyGenerator

MAX_CHARACTERS = 5000
MAX_TURNS = 100
MAX_WAITING = 16  # requests in the queue; the next one is told that it is full
LABELS_SHOWN = 10  # more where more pass their thresholds
EMOTIONS_CHOSEN = 6
NO_MAP = "none"
# What the browser may load: the page's own files. Gradio writes scripts and styles into the page itself.
POLICY = "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; frame-ancestors 'none'"

# What `MAP_STYLE` asks for; its purple and orange are those of `explain_views.STYLE`.
COLOURS = """
body { --line: var(--border-color-primary); --soft: var(--body-text-color); --above: 94,60,153; --below: 230,97,1; }
body.dark { --above: 154,120,226; }
"""

READS = {
    Predictor: "texts",
    TargetedPredictor: "texts that have targets or aspects",
    DialoguePredictor: "dialogues",
    ReplyGenerator: "contexts to reply to",
}
BOX = {
    Predictor: "Text",
    TargetedPredictor: "Text",
    DialoguePredictor: "Dialogue, a line per turn: SPEAKER: UTTERANCE",
    ReplyGenerator: "Context",
}
EXAMPLES = {
    Predictor: [
        "Thank you so much for waiting with me, that was really kind!",
        "The bus left while I was still buying the ticket.",
        "Wait, they moved the wedding to a Tuesday? Why?",
        "I keep rereading her last letter.",
    ],
    DialoguePredictor: [
        "Ana: I got the job!\nBen: No way! Congratulations!\nAna: It starts on Monday, and I still have to tell my boss.",
        "Kim: Where is my bike?\nLou: I lent it to Max.\nKim: Without asking me?\nLou: Sorry. I thought you were away.",
    ],
    ReplyGenerator: [
        "i lost my keys again",
        "we finally moved into our new flat",
        "my exam is tomorrow and i have not slept",
    ],
}


def build(checkpoints: Sequence[str | Path]) -> gr.Blocks:
    """
    The page for checkpoints that read the same kind of input, their results side by side.

    Raises:
        OSError, ValueError: as `load_predictor`; checkpoints of different kinds, or one that is named twice.
    """
    predictors = _load(checkpoints)
    first = next(iter(predictors.values()))
    replies = isinstance(first, ReplyGenerator)

    def answer(text: str | None, method: str = NO_MAP, emotions: Sequence[str] = (), seed: float | None = None):
        """A table and a heat map for each checkpoint."""
        try:
            text = _checked(text)
            with _warnings_shown():
                tables = [_table(predictor, text, emotions, seed) for predictor in predictors.values()]
                maps = [_map(name, predictor, text, method, emotions) for name, predictor in predictors.items()]
        except ValueError as error:
            # The message is shown as HTML, and may quote what was typed.
            raise gr.Error(escape(str(error)), title="Not done", print_exception=False) from error
        return [*tables, *maps]

    with gr.Blocks(title="hf-emotion", analytics_enabled=False) as page:
        gr.Markdown("# hf-emotion")
        # The browser takes one character too many: a longer text is refused, not cut without a word.
        lines = 4 if isinstance(first, DialoguePredictor) else 2
        box = gr.Textbox(label=BOX[type(first)], lines=lines, max_length=MAX_CHARACTERS + 1)
        with gr.Row():
            inputs: list[Any] = [box, _method_choice(predictors)]
            if replies:
                emotions = _shared_emotions(predictors)
                inputs += [
                    gr.Dropdown(
                        emotions, value=emotions[:EMOTIONS_CHOSEN], multiselect=True, label="Emotions (empty: all)"
                    ),
                    gr.Number(
                        0, label="Seed (empty: new replies each time)", precision=0, minimum=0, maximum=2**32 - 1
                    ),
                ]
        button = gr.Button("Reply" if replies else "Predict", variant="primary")
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
            concurrency_limit=1,  # the models have the machine for themselves, and a seed its random numbers
        )
        gr.Examples(_examples(first), box, label="Examples", api_visibility="private")
    return page.queue(max_size=MAX_WAITING, api_open=False)


def serve(checkpoints: Sequence[str | Path], host: str = "127.0.0.1", port: int = 7860) -> None:
    """Serve the page of `build` until interrupted. Raises what `build` and `start` raise."""
    page = build(checkpoints)
    print(f"{start(page, host, port)} (Ctrl+C ends it)", flush=True)
    page.block_thread()


def start(page: gr.Blocks, host: str, port: int) -> str:
    """Serve a page from threads in the background, never beyond `host`; its address. OSError: the port is not free."""
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
            max_file_size=1,  # byte: nobody has a file to send
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


def _load(checkpoints: Sequence[str | Path]) -> dict[str, AnyPredictor]:
    """{name on the page: predictor}"""
    given = [str(checkpoint) for checkpoint in checkpoints]
    if not given or len(set(given)) < len(given):
        raise ValueError(f"`checkpoints` must name at least one checkpoint, and each once; got {given}.")
    names = [Path(name).resolve().name for name in given]
    if len(set(names)) < len(names):
        names = given
    predictors = {name: load_predictor(path) for name, path in zip(names, given, strict=True)}
    reads = {name: READS[type(predictor)] for name, predictor in predictors.items()}
    if len(set(reads.values())) > 1:
        found = "; ".join(f"{name} reads {what}" for name, what in reads.items())
        raise ValueError(f"`checkpoints` must all read the same kind of input: {found}. Start a page for each kind.")
    return predictors


def _checked(text: str | None) -> str:
    text = (text or "").strip()
    if not text:
        raise ValueError("The text is empty: type one, or choose an example.")
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"The text has more than {MAX_CHARACTERS} characters: shorten it.")
    return text


def _turns(text: str) -> list[tuple[str | None, str]]:
    turns = [speaker_and_utterance(line) for line in text.splitlines() if line.strip()]
    if len(turns) > MAX_TURNS:
        raise ValueError(f"The dialogue has {len(turns)} turns, more than {MAX_TURNS}: shorten it.")
    return turns


@contextlib.contextmanager
def _warnings_shown() -> Iterator[None]:
    """What the library warns of, such as a text that was cut, becomes a message on the page, once."""
    messages: dict[str, None] = {}
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: messages.setdefault(record.getMessage())  # type: ignore[method-assign]  # of this one handler
    library = logging.getLogger("hf_emotion")
    library.addHandler(handler)
    try:
        yield
    finally:
        library.removeHandler(handler)
    for message in messages:
        gr.Warning(escape(message))


def _table(predictor: AnyPredictor, text: str, emotions: Sequence[str], seed: float | None) -> dict[str, list]:
    """Names of columns, and rows: labels, aspects of targets, turns, or replies."""
    if isinstance(predictor, ReplyGenerator):
        options: dict[str, Any] = {"seed": None if seed is None else int(seed)}
        if emotions:
            replies = predictor([text] * len(emotions), list(emotions), **options)
        else:
            emotions, (replies,) = predictor.emotions, predictor.all_emotions(text, **options)
        return {"headers": ["emotion", "reply"], "data": [list(row) for row in zip(emotions, replies, strict=True)]}
    if isinstance(predictor, DialoguePredictor):
        rows = [
            [item["speaker"] or "", item["label"], f"{item['score']:.3f}", item["utterance"]]
            for item in predictor([_turns(text)])[0]
        ]
        return {"headers": ["speaker", "emotion", "probability", "utterance"], "data": rows}
    if isinstance(predictor, TargetedPredictor):
        config = predictor.model.config
        if config.targets is not None and not targets_in(config, text):
            raise ValueError(
                f"The text names none of the model's targets, {', '.join(config.targets)}: write one of them where the text "
                "speaks of it."
            )
        items = predictor(text)[0]
        names = [name for name in ("target", "aspect", "label") if name in items[0]]
        rows = [[*(item[name] for name in names), f"{item['score']:.3f}"] for item in items]
        return {"headers": [*names, "probability"], "data": rows}
    probabilities = predictor.label_probabilities(text)
    chosen, (scores,) = predictor.decide(probabilities)[0], probabilities
    rows = []
    for rank, label in enumerate(np.argsort(-scores, kind="stable")):
        if rank < LABELS_SHOWN or chosen[label]:
            threshold = [f"{predictor.thresholds[label]:.3f}"] if predictor.multi_label else []
            rows.append([predictor.labels[label], f"{scores[label]:.3f}", *threshold, "✓" if chosen[label] else ""])
    threshold = ["threshold"] if predictor.multi_label else []
    return {"headers": ["label", "probability", *threshold, "predicted"], "data": rows}


def _map(name: str, predictor: AnyPredictor, text: str, method: str, emotions: Sequence[str]) -> str:
    """HTML of the heat maps; where there is none, a message says why, and the predictions stand."""
    if method == NO_MAP:
        return ""
    try:
        if isinstance(predictor, ReplyGenerator):
            found = explain(predictor, text, emotions=list(emotions) or predictor.emotions[:1])
        elif isinstance(predictor, DialoguePredictor):
            found = explain(predictor, _turns(text), method=method)
        else:
            found = explain(predictor, text, method=method)
    except (ValueError, ModuleNotFoundError) as error:
        gr.Warning(escape(f"No heat map of {name}: {error}"))
        return ""
    return maps_to_html(replace(found, checkpoint=name))  # where the checkpoint lies is nobody's business


def _method_choice(predictors: dict[str, AnyPredictor]) -> gr.Dropdown:
    models = [predictor.model for predictor in predictors.values()]
    methods, first = [*METHODS], METHODS[0]
    if isinstance(next(iter(predictors.values())), ReplyGenerator):
        methods, first = ["likelihood"], NO_MAP
    elif not all(isinstance(model, PreTrainedModel) for model in models):
        first = NO_MAP  # exported models have no maps
    elif getattr(models[0].config, "num_attention_heads", None) == 0:  # of dialogues, without attention
        first = "occlusion"
    return gr.Dropdown([NO_MAP, *methods], value=first, label="Heat map")


def _shared_emotions(predictors: dict[str, Any]) -> list[str]:
    first, *others = predictors.values()
    shared = [emotion for emotion in first.emotions if all(emotion in other.emotions for other in others)]
    if not shared:
        raise ValueError(
            f"`checkpoints` must share emotions to reply in: {', '.join(predictors)} have none in common."
        )
    return shared


def _examples(predictor: AnyPredictor) -> list[list[str]]:
    if not isinstance(predictor, TargetedPredictor):
        return [[text] for text in EXAMPLES[type(predictor)]]
    targets = predictor.model.config.targets
    if targets is None:
        return [["Lovely food, but we waited an hour for the bill."], ["The staff were kind, the music was too loud."]]
    first, last = targets[0], targets[-1]
    return [
        [f"{first} is cheap, but I would not walk there at night."],
        [f"{first} is lively and close to the station, {last} is quiet and far from everything."],
    ]
