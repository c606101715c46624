# SPDX-License-Identifier: Apache-2.0
"""
The ready models on plain sentences, and their polarity beside VADER, TextBlob, NRCLex and pysentimiento: right of N by kind; texts per second
of CPU and the most memory of their processes, MiB (Linux). A model of replies is not measured. A model's answer is right if
  goemotions: its first label is one that a sensible reader would accept,
  reviews: each of the six aspects has an accepted sentiment, or none where none is due,
  aspects: each term is found with its sentiment, and nothing else is; a term is found if it shares letters with what the model gives.
The polarity is asked of sentences with one: positive, negative or neutral. Ours is that of the first label, or of all aspects or terms together.

    python -m benchmarks.plain --run before --output benchmarks/plain.json
"""

from pathlib import Path
from typing import Annotated, Any

import pandas
import torch
import typer
import yaml

from benchmarks.measuring import machine, recorded
from benchmarks.peers import FAILED, Side, failing, running, versions
from hf_emotion.inference import load_predictor
from hf_emotion.io.files import write_json
from hf_emotion.runtime.ready import ADAPTER, find_ready
from hf_emotion.taxonomies import SENTIMENT


SENTENCES = yaml.safe_load(Path(__file__).with_name("plain.yaml").read_text(encoding="utf-8"))
POLARITIES = {"positive", "negative", "neutral"}
GROUP = {label: group for group, labels in SENTIMENT.items() for label in labels}

VADER = """
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer
analyzer = SentimentIntensityAnalyzer()
def run():  # its authors' limits
    scores = [analyzer.polarity_scores(text)["compound"] for text in texts]
    return ["positive" if score >= 0.05 else "negative" if score <= -0.05 else "neutral" for score in scores]
"""
TEXTBLOB = """
from textblob import TextBlob
def run():
    scores = [TextBlob(text).sentiment.polarity for text in texts]
    return ["positive" if score > 0 else "negative" if score < 0 else "neutral" for score in scores]
"""
NRCLEX = """
import re
from nrclex import NRCLex
lexicon = NRCLex()
def run():
    found = []
    for text in texts:
        lexicon.load_token_list(re.findall(r"[\\w'’]+", text.lower()))  # its own tokenizer downloads data
        scores = lexicon.raw_emotion_scores
        difference = scores.get("positive", 0) - scores.get("negative", 0)
        found.append("positive" if difference > 0 else "negative" if difference < 0 else "neutral")
    return found
"""
OURS = """
from hf_emotion import Predictor
predict = Predictor("goemotions")
def run():
    predict(texts)
"""
MEASURED = """
import re, time
answers, fastest = run, float("inf")
def run():
    global fastest, loaded
    start = time.process_time()  # other work slows the machine
    found = answers()
    fastest = min(fastest, time.process_time() - start)
    memory = re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]  # getrusage has the parent's, too
    loaded = {"texts_per_cpu_second": len(texts) / fastest, "memory_mib": int(memory) / 1024}
    return found
"""
PYSENTIMIENTO = """
os.environ["HF_HUB_OFFLINE"] = "0"  # it loads its model from the Hub
from pysentimiento import create_analyzer
try:
    analyzer = create_analyzer(task="sentiment", lang="en")
except OSError as error:
    analyzer, why = None, str(error).partition("\\n")[0]
def run():
    if analyzer is None:
        return why
    return [{"POS": "positive", "NEG": "negative", "NEU": "neutral"}[one.output] for one in analyzer.predict(texts)]
"""
PEERS = {
    "VADER": Side("vadersentiment", VADER),
    "TextBlob": Side("textblob", TEXTBLOB),
    "NRCLex": Side("nrclex", NRCLEX),
    "pysentimiento": Side("pysentimiento", PYSENTIMIENTO),
}


def items(answer: str) -> dict[str, set[str]]:
    """The accepted sentiments of each aspect or term of "quality negative/none, service positive"."""
    pairs = (item.rpartition(" ") for item in answer.split(", "))
    return {name: set(accepted.split("/")) for name, _, accepted in pairs}


def is_right(model: str, found: list[dict], answer: str, text: str) -> bool:
    if model == "goemotions":
        return bool(found) and found[0]["label"] in answer.split("/")
    if model == "reviews":
        return all(one["label"] in items(answer).get(one["aspect"], {"none"}) for one in found)
    starts = {term: text.casefold().index(term.casefold()) for term in items(answer)}
    missing = {term for term, accepted in items(answer).items() if accepted != {"any"}}
    for one in found:
        near = {term for term, start in starts.items() if start < one["end"] and one["start"] < start + len(term)}
        fitting = {term for term in near if items(answer)[term] & {one["label"], "any"}}
        if not fitting:
            return False
        missing -= fitting
    return not missing


def expected_polarity(model: str, answer: str) -> set[str]:
    """The accepted polarities; empty for a sentence that has none or several."""
    if model == "goemotions":
        groups = {GROUP[label] for label in answer.split("/")}
        return groups if groups <= POLARITIES else set()
    return set.intersection(POLARITIES, *(one - {"none"} for one in items(answer).values() if one != {"any"}))


def polarity(model: str, found: list[dict]) -> str:
    """One of POLARITIES, or "ambiguous" or "mixed"."""
    first = found[:1] if model == "goemotions" else found
    labels = {GROUP.get(one["label"], one["label"]) for one in first} - {"none"}
    if len(labels) > 1:
        labels -= {"neutral"}
    return "mixed" if len(labels) > 1 else labels.pop() if labels else "neutral"


def measure(model: str, peers: dict[str, dict[str, str]], wrong: bool) -> dict[str, Any]:
    """{"adapter": its digest, "counts": {question: {kind: [right, N]}}}; prints the counts."""
    sentences = [(kind, *one) for kind, of_kind in SENTENCES[model].items() for one in of_kind.items()]
    answers = load_predictor(model)([text for _, text, _ in sentences])
    rows = []
    for (kind, text, answer), found in zip(sentences, answers, strict=True):
        row = {"kind": kind, "right": is_right(model, found, answer, text)}
        given = {model: polarity(model, found), **{name: of_text[text] for name, of_text in peers.items()}}
        expected = expected_polarity(model, answer)
        rows.append(row | {f"polarity, {name}": one in expected if expected else None for name, one in given.items()})
        if wrong and not row["right"]:
            print(f"{text}\n  {answer}; got {found}")
    table = pandas.DataFrame(rows).astype({name: "boolean" for name in rows[0] if name != "kind"})
    table = pandas.concat([table, table.assign(kind="all")]).groupby("kind", sort=False)
    right, asked = table.sum(), table.count()
    print(f"\n{model}\n{(right.astype(str) + ' of ' + asked.astype(str)).to_string()}")
    pairs = {name: {kind: [int(right[name][kind]), int(asked[name][kind])] for kind in right.index} for name in right}
    return {"adapter": find_ready(model).facts["files"][ADAPTER], "counts": pairs}


def main(
    run: Annotated[str, typer.Option(help='name of the counts in the record, "before"')],
    output: Annotated[Path, typer.Option(help="plain.json, whose other runs stay")],
    wrong: Annotated[
        bool, typer.Option("--wrong", help="print what is wrong; not for who writes training texts")
    ] = False,
    threads: int = 2,
) -> None:
    torch.set_num_threads(threads)
    texts = [text for kinds in SENTENCES.values() for of_kind in kinds.values() for text in of_kind]
    peers, speed = {}, {}
    for name, side in {**PEERS, "goemotions": Side("ours", OURS)}.items():
        side = side._replace(setup=side.setup + MEASURED)
        with failing(name), running(side, {"texts": texts}, threads) as answer:
            given = answer()[1]
            if isinstance(given, str):
                raise RuntimeError(given)
            for _ in range(3):
                speed[name] = answer()[2]
            if given:
                peers[name] = dict(zip(texts, given, strict=True))
    tools = {name: FAILED.get(name) or versions(side.environment) for name, side in PEERS.items()}
    print("\n".join(f"{name} is not measured: {why}" for name, why in FAILED.items()))
    models = {model: measure(model, peers, wrong) for model in SENTENCES}
    write_json(
        output,
        {**recorded(output), run: {"machine": machine(threads), "peers": tools, "speed": speed, "models": models}},
    )


if __name__ == "__main__":
    typer.run(main)
