# SPDX-License-Identifier: Apache-2.0
"""
What somebody without hf-emotion sees: run in a fresh interpreter as `python remote_code_process.py JOBS.json`.

Loads the checkpoints that JOBS.json names with the code beside their weights, while `import hf_emotion` fails, and
writes the outputs beside them. See `fresh_process` in models/test_remote_code.py.
"""

import importlib
import json
import runpy
import sys
from pathlib import Path


class LibraryIsMissing:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in ("hf_emotion", "modeling"):
            raise ImportError(f"{name} is blocked in this process")
        return None


def main(jobs_file: str) -> None:
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
    from transformers import AutoConfig, AutoModel, AutoTokenizer, pipeline

    torch.set_num_threads(1)
    jobs = json.loads(Path(jobs_file).read_text(encoding="utf-8"))
    report: dict = {"classes": {}, "pipelines": {}, "handlers": {}}
    try:
        importlib.import_module("hf_emotion")
    except ImportError:
        report["library_is_missing"] = True

    # {"folder", "auto_class", "base": whether AutoModel has a model}; the inputs lie in inputs.safetensors.
    for job in jobs["load"]:
        folder = Path(job["folder"])
        inputs = load_file(folder / "inputs.safetensors")
        without_labels = {name: value for name, value in inputs.items() if name != "labels"}
        config = AutoConfig.from_pretrained(folder, trust_remote_code=True)
        models = {"base": AutoModel.from_pretrained(folder, trust_remote_code=True)} if job["base"] else {}
        models["head"] = getattr(transformers, job["auto_class"]).from_pretrained(folder, trust_remote_code=True)
        with torch.no_grad():
            outputs = {part: model(**(inputs if part == "head" else without_labels)) for part, model in models.items()}
        tensors = {
            f"{part}.{name}": value.contiguous()
            for part, output in outputs.items()
            for name, value in output.items()
            if isinstance(value, torch.Tensor)
        }
        save_file(tensors, folder / "outputs.safetensors")
        kinds = map(type, (config, *models.values()))
        report["classes"][folder.name] = [f"{kind.__module__}.{kind.__name__}" for kind in kinds]

    for job in jobs["pipelines"]:  # {"folder": ..., "texts": [...]}
        classify = pipeline(model=job["folder"], device="cpu", trust_remote_code=True)
        report["pipelines"][Path(job["folder"]).name] = {
            "class": type(classify).__name__,
            "task": classify.task,
            "results": classify(job["texts"]),
        }

    for job in jobs["handlers"]:  # {"folder": ..., "asked": [...]}
        handler = runpy.run_path(str(Path(job["folder"], "handler.py")))["EndpointHandler"](job["folder"])
        answers = report["handlers"][Path(job["folder"]).name] = []
        for data in job["asked"]:
            try:
                answers.append(handler(data))
            except ValueError as error:
                answers.append({"error": str(error)})

    for job in jobs["fine_tune"]:  # {"repository": ..., "auto_class": ..., "cache_dir": ..., "save_to": ...}
        cache = {"cache_dir": job["cache_dir"], "local_files_only": True}
        folder = Path(job["save_to"])
        inputs = load_file(folder / "inputs.safetensors")
        auto_class = getattr(transformers, job["auto_class"])
        model = auto_class.from_pretrained(job["repository"], trust_remote_code=True, **cache)
        model(**inputs).loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter -= 0.1 * parameter.grad
        model.save_pretrained(folder)
        AutoTokenizer.from_pretrained(job["repository"], **cache).save_pretrained(folder)
        with torch.no_grad():
            save_file({"logits": model(**inputs).logits}, folder / "expected.safetensors")

    report["imported"] = sorted(name for name in sys.modules if name.partition(".")[0] in ("hf_emotion", "modeling"))
    Path(jobs_file).with_suffix(".report.json").write_text(json.dumps(report), encoding="utf-8")


if __name__ == "__main__":
    sys.meta_path.insert(0, LibraryIsMissing)
    main(sys.argv[1])
