# SPDX-License-Identifier: Apache-2.0
"""
One training with SetFit, for benchmarks/few_shot.py. It runs in an environment of its own (`pip install setfit`), imports nothing of
hf-emotion, and prints one line of JSON: probabilities of the test rows, processor seconds of the training, MiB.

    ENVIRONMENT/bin/python benchmarks/few_shot_setfit.py TASK.json
"""

import json
import sys
import time
from pathlib import Path

import setfit
import torch
from datasets import Dataset


torch.set_num_threads(1)
task = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
model = setfit.SetFitModel.from_pretrained(task["model"])
arguments = setfit.TrainingArguments(
    output_dir="checkpoints",
    batch_size=16,
    max_steps=task["steps"],
    seed=task["seed"],
    save_strategy="no",
    report_to="none",
    show_progress_bar=False,
)
start = time.process_time()
setfit.Trainer(model=model, args=arguments, train_dataset=Dataset.from_dict(task["train"])).train()
seconds = time.process_time() - start
status = Path("/proc/self/status").read_text().splitlines()
memory = int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1024
probabilities = model.predict_proba(task["test"]["text"], show_progress_bar=False).tolist()
versions = {"setfit": setfit.__version__, "torch": torch.__version__}
print(json.dumps({"probabilities": probabilities, "seconds": seconds, "memory": memory, "versions": versions}))
