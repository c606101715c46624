# SPDX-License-Identifier: Apache-2.0
"""
Classifiers beside a language model that is asked in words: macro-F1, seconds per 1,000 texts and memory on the same test rows.

    python benchmarks/against_language_model.py emotion6 zero-shot --model SMOLLM2 --data-dir DATA --output FILE
    python benchmarks/against_language_model.py emotion6 few-shot --model SMOLLM2 --data-dir DATA --output FILE
    python benchmarks/against_language_model.py emotion6 classifier --model RUN --name NAME --data-dir DATA --output FILE

The language model scores each label by the logarithm of its probability as the answer. On the validation part the better of two scores is
chosen: that one, or the same minus the score without a text (contextual calibration, Zhao et al. 2021). Several labels of a row come from
thresholds that are tuned on the validation part, as for our models. Few-shot prompts have training rows, drawn at `--seed`, as questions
and answers. One call measures one system, so that its memory is its own.
"""

import argparse
import json
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring import machine, recorded
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

from hf_emotion import load_dataset_for, metrics
from hf_emotion.data.splits import label_names
from hf_emotion.inference import load_predictor
from hf_emotion.io.files import write_json
from hf_emotion.tasks.rows import label_matrix


QUESTIONS = {
    "emotion6": "Which emotion does the message show?",
    "goemotions": "Which emotion does the comment show?",
    "sentihood": "What does the sentence say about the place and the aspect?",
}
HERE = "@@"  # where the text stands in a prompt


def rows_of(dataset: Any, count: int, group: int = 1) -> Any:
    """A fixed sample of `count` rows, in whole groups."""
    numbers = np.random.default_rng(0).permutation(len(dataset) // group)[: count // group]
    return dataset.select([row * group + i for row in sorted(numbers.tolist()) for i in range(group)])


def texts_of(rows: Any) -> list[str]:
    """What is asked about; for aspects the sentence and the question that the models get, too."""
    if "auxiliary" not in rows.column_names:
        return list(rows["text"])
    return [f"{text}\nAbout: {asked}" for text, asked in zip(rows["text"], rows["auxiliary"], strict=True)]


class Asked:
    """A language model that is asked for a label."""

    def __init__(self, folder: str, question: str, names: Sequence[str], examples: Sequence[tuple[str, str]]):
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        asked = f"{question} Answer with one of: {', '.join(names)}.\n"
        messages = []
        for text, label in examples:
            messages += [{"role": "user", "content": f"{asked}{text}"}, {"role": "assistant", "content": label}]
        messages.append({"role": "user", "content": f"{asked}{HERE}"})
        prompt = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        before, self.after = prompt.rsplit(HERE, 1)
        self.answers = [self.ids(name) for name in names]
        self.cache = DynamicCache(config=self.model.config)
        with torch.inference_mode():  # the beginning is the same for all texts: it is read once
            start = self.model(torch.tensor([self.ids(before)]), past_key_values=self.cache, logits_to_keep=1)
        self.length = start.past_key_values.get_seq_length()

    def ids(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    @torch.inference_mode()
    def scores(self, text: str) -> np.ndarray:
        """
        ln P of each label (C,). The labels stand one after the other behind the prompt in one forward pass; a mask hides them from each
        other, and each has the positions right behind the prompt.
        """
        prompt = self.ids(text)[:96] + self.ids(self.after)
        flat = [token for answer in self.answers for token in answer]
        owner = np.repeat(np.arange(len(self.answers)), [len(answer) for answer in self.answers])
        place = np.concatenate([np.arange(len(answer)) for answer in self.answers])
        size, before = len(prompt), self.length
        total = size + len(flat)
        visible = np.zeros((total, before + total), dtype=bool)
        visible[:, :before] = True
        visible[:size, before : before + size] = np.tri(size, dtype=bool)
        visible[size:, before : before + size] = True
        visible[size:, before + size :] = (owner[:, None] == owner) & (place[:, None] >= place)
        positions = np.concatenate([np.arange(size), size + place]) + before
        logits = self.model(
            torch.tensor([prompt + flat]),
            attention_mask=torch.from_numpy(visible)[None, None],
            position_ids=torch.from_numpy(positions)[None],
            past_key_values=self.cache,
            logits_to_keep=len(flat) + 1,
        ).logits[0]
        self.cache.crop(-total)
        spoken = logits.log_softmax(-1)
        # The first token of each label follows the prompt, the others follow their own label.
        from_where = np.where(place == 0, 0, np.arange(len(flat)))
        each = spoken[from_where, flat].double().numpy()
        return np.bincount(owner, weights=each)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    splits = load_dataset_for(arguments.dataset, arguments.data_dir)
    group = 4 if arguments.dataset == "sentihood" else 1
    test = rows_of(splits["test"], arguments.rows, group)
    dev = rows_of(splits["validation"], arguments.dev_rows, group)
    names, several = label_names(test), label_matrix(test).ndim == 2
    found: dict[str, Any] = {"model": arguments.label or Path(arguments.model).name, "rows": len(test)}
    if arguments.system == "classifier":
        predictor = load_predictor(arguments.model)
        assert list(predictor.labels) == names, (predictor.labels, names)
        predictor.of_rows(test.select(range(group)))
        start = time.perf_counter()
        probabilities = predictor.of_rows(test)
        found["seconds_per_1000"] = (time.perf_counter() - start) / len(test) * 1000
        decisions = predictor.decide(probabilities) if several else None
    else:
        generator = np.random.default_rng(arguments.seed)
        examples = []
        if arguments.system == "few-shot":
            train, gold = splits["train"], splits["train"]["labels"]
            first = np.array([row[0] for row in gold] if several else gold)
            labels = generator.permutation(len(names))[: arguments.examples] if len(names) > 3 else range(len(names))
            drawn = [int(generator.choice(np.flatnonzero(first == label))) for label in labels]
            examples = list(zip(texts_of(train.select(drawn)), [names[label] for label in labels], strict=True))
        asked = Asked(arguments.model, QUESTIONS[arguments.dataset], names, examples)
        nothing = asked.scores("N/A")
        start = time.perf_counter()
        raw = {"test": np.array([asked.scores(text) for text in texts_of(test)])}
        found["seconds_per_1000"] = (time.perf_counter() - start) / len(test) * 1000
        raw["dev"] = np.array([asked.scores(text) for text in texts_of(dev)])

        def shares(part: str, calibrated: bool) -> np.ndarray:
            return torch.from_numpy(raw[part] - nothing * calibrated).softmax(-1).numpy()

        gold_dev = label_matrix(dev)
        tries = {}
        for calibrated in (False, True):
            found_dev = shares("dev", calibrated)
            own = metrics.tune_thresholds(gold_dev, found_dev) if several else None
            chosen = found_dev > np.asarray(own) if several else None
            tries[calibrated] = (measured(gold_dev, found_dev, names, chosen)["macro_f1"], own)
        best = max(tries, key=lambda key: tries[key][0])
        found |= {
            "calibrated": best,
            "dev_macro_f1": tries[best][0],
            "examples": len(examples),
            "seed": arguments.seed,
        }
        probabilities = shares("test", best)
        decisions = probabilities > np.asarray(tries[best][1]) if several else None
    gold = label_matrix(test)
    figures = measured(gold, probabilities, names, decisions)
    found |= {name: figures[name] for name in ("macro_f1", "accuracy") if name in figures}
    if group > 1:
        found["strict_accuracy"] = metrics.sentihood(gold, probabilities)["strict_accuracy"]
    found["memory_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        2**20 if sys.platform == "darwin" else 2**10
    )
    return found


def measured(gold: np.ndarray, probabilities: np.ndarray, names: list[str], decisions: np.ndarray | None) -> dict:
    """The figures of a run: of the most probable label, or of (N, C) bool decisions."""
    if decisions is None:
        return metrics.classification(gold, probabilities, names)
    return metrics.goemotions(gold, probabilities, label_names=names, decisions=decisions)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", choices=QUESTIONS)
    parser.add_argument("system", choices=("zero-shot", "few-shot", "classifier"))
    parser.add_argument("--model", required=True, help="folder of the language model, or checkpoint of the classifier")
    parser.add_argument("--label", help="what to call the model in the record (default: the name of its folder)")
    parser.add_argument("--name", help="name of the entry (default: the system and the seed)")
    parser.add_argument("--data-dir")
    parser.add_argument("--rows", type=int, default=400, help="test rows (default: %(default)s)")
    parser.add_argument("--dev-rows", type=int, default=400)
    parser.add_argument("--examples", type=int, default=8, help="questions and answers of a few-shot prompt")
    parser.add_argument("--seed", type=int, default=0, help="draws the examples")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, required=True, help="JSON file; other entries stay")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    entry = measure(arguments)
    record = recorded(arguments.output)
    name = arguments.name or arguments.system + (f"-{arguments.seed}" if arguments.system == "few-shot" else "")
    record.setdefault(arguments.dataset, {})[name] = {**entry, "machine": machine(arguments.threads)}
    write_json(arguments.output, record)
    print(arguments.dataset, name, json.dumps(entry))


if __name__ == "__main__":
    main()
