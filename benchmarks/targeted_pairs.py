# SPDX-License-Identifier: Apache-2.0
"""
P9: predict all (target, aspect) pairs of the sentences of a corpus: `TargetedPredictor` against one row at a time, and against
batches in the order of the rows, padded to the longest row of the batch. Default: an untrained QACG-BERT and synthetic
sentences with SentiHood's targets and aspects.

    python benchmarks/targeted_pairs.py runs/sentihood_qacg_aux --data-dir DATA --rows 512
"""

import argparse
import tempfile
from collections.abc import Sequence

import numpy as np
import torch
from datasets import ClassLabel, Dataset
from measuring import interleaved, parse, ratio, save
from texts import save_untrained, synthetic_texts

from hf_emotion import load_dataset_for
from hf_emotion.tasks.targeted_sentiment import TASK
from hf_emotion.tasks.targeted_sentiment.predictor import TargetedPredictor
from hf_emotion.tasks.targeted_sentiment.rows import auxiliary_sentence, context_names, replace_targets


TARGETS = ["LOCATION1", "LOCATION2"]
ASPECTS = ["general", "price", "safety", "transit-location"]


def synthetic_rows(count: int) -> Dataset:
    """Sentences that name one target or both, with a row for each pair."""
    rows: dict[str, list] = {name: [] for name in ("text", "target", "aspect", "auxiliary", "context_id")}
    for number, text in enumerate(synthetic_texts(count)):
        named = ([0], [1], [0, 1])[number % 3]
        sentence = replace_targets(" ".join([text, *(TARGETS[target] for target in named)]))
        for target in named:
            for aspect, name in enumerate(ASPECTS):
                values = (sentence, target, aspect, auxiliary_sentence(TARGETS[target], name), target * 4 + aspect)
                for column, value in zip(rows.values(), values, strict=True):
                    column.append(value)
    dataset = Dataset.from_dict(rows).select(range(count))
    return dataset.cast_column("target", ClassLabel(names=TARGETS)).cast_column("aspect", ClassLabel(names=ASPECTS))


def main(argv: Sequence[str] | None = None) -> list[dict]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", nargs="?", help="default: an untrained model over --base-model")
    parser.add_argument("--base-model", default="minilm")
    parser.add_argument("--dataset", default="sentihood")
    parser.add_argument("--data-dir")
    parser.add_argument("--rows", type=int, default=512, help="number of test rows, from the first on")
    parser.add_argument(
        "--batch-size", type=int, default=24, help="size of the batches in row order (default: the paper's)"
    )
    arguments = parse(parser, argv)
    if arguments.checkpoint is None:
        rows, source = synthetic_rows(arguments.rows), "synthetic rows"
        with tempfile.TemporaryDirectory() as folder:
            save_untrained(folder, arguments.base_model, "qacg-bert", TASK.contexts(rows), auxiliary_sentence=True)
            predictor = TargetedPredictor(folder)
    else:
        predictor = TargetedPredictor(arguments.checkpoint)
        rows = load_dataset_for(arguments.dataset, arguments.data_dir)["test"]
        rows = rows.select(range(min(arguments.rows, len(rows))))
        source = f"test rows of {arguments.dataset}"
    _, aspects = context_names(rows)

    def in_order(batch_size: int) -> np.ndarray:
        config, parts = predictor.model.config, []
        for start in range(0, len(rows), batch_size):
            part = rows[start : start + batch_size]
            segments = [part["text"], part["auxiliary"]] if config.auxiliary_sentence else [part["text"]]
            inputs = predictor.tokenizer(*segments, padding=True, return_tensors="pt").to(predictor.model.device)
            if hasattr(config, "num_contexts"):
                inputs["context_ids"] = torch.tensor(part["context_id"], device=predictor.model.device)
            with torch.inference_mode():
                parts.append(predictor.model(**inputs).logits.softmax(-1).cpu().numpy())
        return np.concatenate(parts)

    ways = {
        "one row at a time": (1, 3),
        f"batches of {arguments.batch_size} in row order": (arguments.batch_size, 1.3),
        f"one batch per sentence ({len(aspects)} aspects)": (len(aspects), 1),
    }
    actions = [lambda: predictor.of_rows(rows)]
    actions += [lambda size=size: in_order(size) for size, _ in ways.values()]
    expected = actions[0]()
    for name, action in zip(ways, actions[1:], strict=True):
        np.testing.assert_allclose(action(), expected, atol=1e-4, err_msg=name)
    ours, *others = interleaved(actions, arguments.pairs, warm_up=0)
    results = []
    for (name, (_, at_least)), series in zip(ways.items(), others, strict=True):
        work = f"{len(rows)} {source}: TargetedPredictor against {name}"
        results.append(ratio("P9", work, ours, series, at_least=at_least))
    save(arguments, results)
    return results


if __name__ == "__main__":
    main()
