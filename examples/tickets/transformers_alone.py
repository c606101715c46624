# SPDX-License-Identifier: Apache-2.0
"""Asks a trained model with transformers and torch alone: python transformers_alone.py FOLDER TEXT"""

import sys

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils.logging import disable_progress_bar


disable_progress_bar()
folder, text = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
model = AutoModelForSequenceClassification.from_pretrained(folder, trust_remote_code=True)
with torch.inference_mode():
    logits = model(**tokenizer(text, return_tensors="pt")).logits[0] / model.config.calibration_temperature
score, label = logits.softmax(-1).max(-1)
assert "hf_emotion" not in sys.modules
print(
    f"{type(model).__name__}, loaded by transformers without hf-emotion: {text} {model.config.id2label[int(label)]} {score:.3f}"
)
