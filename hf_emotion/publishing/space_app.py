# SPDX-License-Identifier: Apache-2.0
"""A Gradio Space for a model of hf-emotion. Results are shown as plain text: nothing that is typed becomes HTML."""

from html import escape

import gradio as gr
from transformers import pipeline


MODEL = "PATH_OR_REPO"
MAX_CHARACTERS = 5000

run = pipeline("PIPELINE", model=MODEL, trust_remote_code=True)

# The functions of the model's task; `push --space` replaces them by `Task.ask` and `Task.choices`.


def ask(run, text: str, *chosen: str) -> list[dict]:
    raise NotImplementedError


def choices(run) -> dict[str, list[str]]:
    raise NotImplementedError


# The page.


def table(text: str, *chosen: str) -> dict[str, list]:
    """The model's answer: names of columns, and a row for each label, aspect, turn or reply."""
    text = (text or "").strip()[:MAX_CHARACTERS]
    if not text:
        return {"headers": [], "data": []}
    try:
        found = ask(run, text, *chosen)
    except ValueError as error:  # such as a text that names no target
        # The message is shown as HTML, and may quote what was typed.
        raise gr.Error(escape(str(error)), print_exception=False) from error
    known = ("speaker", "utterance", "target", "aspect", "label", "score", "generated_text")
    names = [name for name in known if name in found[0]]
    rows = [[f"{item[name]:.3f}" if name == "score" else str(item[name] or "") for name in names] for item in found]
    return {"headers": names, "data": rows}


def build() -> gr.Blocks:
    with gr.Blocks(title=MODEL) as page:
        gr.Markdown(f"# {MODEL.rpartition('/')[2]}")
        inputs = [gr.Textbox(label="Text; for a dialogue one line per turn", lines=3, max_length=MAX_CHARACTERS)]
        inputs += [gr.Dropdown(choices=names, label=label) for label, names in choices(run).items()]
        button = gr.Button("Run", variant="primary")
        button.click(table, inputs, gr.Dataframe(label="Result", datatype="str", interactive=False))
    return page


if __name__ == "__main__":
    build().launch()
