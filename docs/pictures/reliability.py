# SPDX-License-Identifier: Apache-2.0
"""
Are the probabilities of the ready model what they say? python docs/pictures/reliability.py

Each of the 28 labels of each text in the test part of the packaged corpus `everyday` is one decision; a label counts if both
readers gave it.
"""

import json
from importlib.resources import files

import numpy as np
from style import INK, OURS, plt, save

from hf_emotion import Predictor
from hf_emotion.metrics.calibration import reliability


if __name__ == "__main__":
    predict = Predictor("goemotions")
    lines = files("hf_emotion.data.everyday").joinpath("test.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    gold = np.array(
        [[label in row["first"] and label in row["second"] for label in predict.labels] for row in rows], dtype=int
    )
    probabilities = np.zeros(gold.shape)
    for number, items in enumerate(predict([row["text"] for row in rows], top_k=len(predict.labels))):
        for item in items:
            probabilities[number, predict.labels.index(item["label"])] = item["score"]
    result = reliability(gold, probabilities, bins=10)
    bins = [one for one in result["bins"] if one["count"]]
    figure, (axes, counts) = plt.subplots(2, 1, figsize=(5.4, 5.4), height_ratios=[3, 1], sharex=True)
    axes.plot([0, 1], [0, 1], color=INK, linestyle="--", label="what it should be")
    axes.plot(
        [one["confidence"] for one in bins],
        [one["accuracy"] for one in bins],
        color=OURS,
        marker="o",
        label="goemotions",
    )
    axes.set(
        ylabel="share of labels that are right",
        title=f"{len(rows)} texts, {gold.size:,} labels; expected calibration error {result['ece']:.3f}",
    )
    axes.set_title(axes.get_title(), fontsize=11)
    axes.grid()
    axes.legend(loc="upper left")
    counts.bar([one["upper"] - 0.05 for one in bins], [one["count"] for one in bins], width=0.09, color=OURS)
    counts.set(xlabel="probability that the model gives", ylabel="labels", yscale="log", xlim=(0, 1))
    save(figure, "reliability")
