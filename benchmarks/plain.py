# SPDX-License-Identifier: Apache-2.0
"""
The ready models on plain sentences, and their polarity beside VADER, TextBlob, NRCLex and pysentimiento: right of N by kind; texts per second
of CPU and the most memory of their processes, MiB (Linux). A model of replies is not measured. A model's answer is right if
  goemotions: its first label is one that a sensible reader would accept,
  reviews: each of the six aspects has an accepted sentiment, or none where none is due,
  aspects: each term is found with its sentiment, and nothing else is; a term is found if it shares letters with what the model gives.
The polarity is asked of sentences with one: positive, negative or neutral. Ours is that of the first label, or of all aspects or terms together.

    python -m benchmarks.plain sentences --run before --output benchmarks/plain.json
    python -m benchmarks.plain typos --data-dir DATA --output benchmarks/typos.json
    python -m benchmarks.plain speed goemotions reviews aspects languages replies --output benchmarks/ready_speed.json
"""

import random
import statistics
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import pandas
import torch
import typer
import yaml
from datasets import Dataset

from benchmarks.measuring import machine, put
from benchmarks.peers import FAILED, SAID, Side, failing, running, versions
from hf_emotion.cli.options import DataDir
from hf_emotion.data.misspelling import misspell_row
from hf_emotion.inference import load_predictor
from hf_emotion.runtime.ready import ADAPTER, find_ready
from hf_emotion.tasks.loading import CorpusSplit
from hf_emotion.taxonomies import SENTIMENT


SENTENCES = yaml.safe_load(Path(__file__).with_name("plain.yaml").read_text(encoding="utf-8"))
TEXTS = [text for kinds in SENTENCES.values() for of_kind in kinds.values() for text in of_kind]
POLARITIES = {"positive", "negative", "neutral"}
GROUP = {label: group for group, labels in SENTIMENT.items() for label in labels}

TESTED = {  # the test part, decision rule and figure of each model
    "goemotions": ("goemotions", "tuned", "macro_f1"),
    "reviews": ("reviews", "argmax", "macro_f1"),
    "aspects": ("review_terms", "argmax", "pair_f1"),
}
TOOLS = {name: Side(**side) for name, side in SAID["polarity"].items()}
MEASURED = SAID["scripts"]["measured"]  # put behind what defines `run()`
app = typer.Typer(help="Ready models on plain sentences.")
Output = Annotated[Path, typer.Option(help="JSON file; its other entries stay")]


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


@app.command()
def sentences(
    run: Annotated[str, typer.Option(help='name of the counts in the record, "before"')],
    output: Output,
    wrong: Annotated[
        bool, typer.Option("--wrong", help="show what is wrong; not for who writes training texts")
    ] = False,
    threads: int = 2,
) -> None:
    """Count the right answers of ready models and of other tools."""
    torch.set_num_threads(threads)
    peers, rates, tools = {}, {}, {}
    for name, side in TOOLS.items():
        with failing(name), running(side._replace(setup=[side.setup, MEASURED]), {"texts": TEXTS}, threads) as answer:
            given = answer()[1]
            if isinstance(given, str):
                raise RuntimeError(given)
            rates[name] = [answer()[2] for _ in range(3)][-1]
            if given:
                peers[name] = dict(zip(TEXTS, given, strict=True))
        if name not in SENTENCES:
            tools[name] = FAILED.get(name) or versions(side.environment)
    print("\n".join(f"{name} is not measured: {why}" for name, why in FAILED.items()))
    models = {model: measure(model, peers, wrong) for model in SENTENCES}
    put(output, run, {"machine": machine(threads), "peers": tools, "speed": rates, "models": models})


@dataclass(frozen=True)
class Misspelt(CorpusSplit):
    """With an error in a tenth of the words; rows with the same text have the same ones."""

    seed: int = 0

    def load(self) -> Dataset:
        return super().load().map(self._misspelt, load_from_cache_file=False)

    def _misspelt(self, row: dict[str, Any]) -> dict[str, Any]:
        return misspell_row(row, 0.1, random.Random(f"{self.seed} {row['text']}"))


@app.command()
def typos(output: Output, data_dir: DataDir = None) -> None:
    """Each model on its test part, in hundredths: clean, and the mean over three draws with a tenth of the words misspelt."""
    for model, (corpus, rule, metric) in TESTED.items():
        predictor, of = load_predictor(model), partial(Misspelt, corpus, data_dir=data_dir)
        splits = [CorpusSplit(corpus, data_dir=data_dir), *(of(seed=seed) for seed in range(3))]
        clean, *wrong = (100 * predictor.evaluate(one)["metrics"][rule][metric] for one in splits)
        lost, facts = clean - statistics.fmean(wrong), {"machine": machine(torch.get_num_threads())}
        put(output, model, {"corpus": corpus, "metric": metric, "clean": clean, "lost": lost} | facts)


@app.command()
def speed(names: list[str], output: Output) -> None:
    """
    The megabytes of ready models, and the texts that each labels per second of CPU on one thread, of four times the fastest; of `dialogues` turns,
    ten in a dialogue; not of `replies`.
    """
    for name in names:
        megabytes = (find_ready(name).folder / ADAPTER).stat().st_size / 1e6
        found = {"adapter_megabytes": megabytes, "machine": machine(1)}
        if name != "replies":
            side = Side([SAID["scripts"]["ready"], MEASURED], {"name": name})
            with running(side, {"texts": TEXTS}, 1) as answer:
                found |= [answer()[2] for _ in range(4)][-1]
        put(output, name, found)


if __name__ == "__main__":
    app()
