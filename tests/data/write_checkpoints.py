# SPDX-License-Identifier: Apache-2.0
"""
Tiny run folders of all families with their predictions, as the present tree writes them: what later versions must load.

    python tests/data/write_checkpoints.py tests/data/checkpoints-VERSION

The folder must be new. Each release writes its own, once; what is there is never written again. See tests/families.py for the runs.
"""

import argparse
import io
import json
import os
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path


HOME = tempfile.TemporaryDirectory(prefix="hf-emotion-home-")
os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HOME": HOME.name}
TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

import torch  # noqa: E402
from families import CONTEXTS, EMOTIONS, FAMILIES, train_family, working_in, write_bases_and_corpora  # noqa: E402
from toolkit_helpers import invoke  # noqa: E402


CHECKPOINT = (
    *("config.json", "generation_config.json", "model.safetensors", "tfidf_gate.json", "recipe.yaml", "run.json"),
    *("tokenizer.json", "tokenizer_config.json"),
)
RUN = (*CHECKPOINT, "metrics.json", "predictions.parquet", "README.md")
# These keep what a finished run has beside its checkpoint, but the pictures and the report; of the others the checkpoint will do.
WHOLE_RUNS = ("qacg", "gpt2-mod-ln", "seeds", "contexts")
EXPORTED = ("label-aware", "dialogue-encoder", "bert-mod-ln")
# Variants that would cost more room than they show.
LEFT_OUT = ("label-aware-hidden-pooler", "gpt2-emotion-tokens", "stock-filter")
CODE = "code.tar.xz"
GREEDY = {"do_sample": False, "max_new_tokens": 8}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="new folder")
    output = parser.parse_args().output.resolve()
    output.mkdir(parents=True)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="hf-emotion-checkpoints-") as temporary, working_in(Path(temporary)):
        write_bases_and_corpora()
        train_family("language-model")
        for name, family in FAMILIES.items():
            if name in LEFT_OUT:
                continue
            train_family(name)
            expected = {part: expectations(f"runs/{name}/{part}", family) for part in family.parts}
            for part in family.parts:
                expected[part]["code"] = sorted(path.name for path in Path("runs", name, part).glob("*.py"))
            keep(Path("runs", name), output / name, RUN if name in WHOLE_RUNS else CHECKPOINT, Path("code"))
            write(output / name / "expected.json", expected)
            if name in EXPORTED:
                exported = f"{name}-onnx"
                invoke("export", f"runs/{name}", "--output", f"runs/{exported}")
                strip_traces(Path("runs", exported))
                generates = "forward" in expected["."]
                expected = exported_generator(exported) if generates else {"asks": asked(f"runs/{exported}", family)}
                shutil.copytree(Path("runs", exported), output / exported)
                write(output / exported / "expected.json", {".": expected})
            print(name, flush=True)
        with tarfile.open(output / CODE, "w:xz") as archive:
            for path in sorted(Path("code").iterdir()):
                content = path.read_bytes()
                entry = tarfile.TarInfo(path.name)  # without dates and owners
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    size = sum(path.stat().st_size for path in output.rglob("*") if path.is_file())
    print(f"{size:,} bytes in {output}")


def asked(folder: str, family) -> list[dict]:
    """Each command, and the JSON lines that it prints."""
    results = []
    for ask in family.asks:
        lines = invoke(*(folder if word == "FOLDER" else word for word in ask)).splitlines()
        results.append({"command": list(ask), "lines": [json.loads(line) for line in lines]})
    return results


def expectations(folder: str, family) -> dict:
    from transformers import pipeline

    task, inputs, options = family.pipeline
    results = pipeline(task, model=folder, device="cpu", trust_remote_code=True)(inputs, **options)
    expected = {
        "asks": asked(folder, family),
        "pipeline": {"task": task, "inputs": inputs, "options": options, "results": results},
    }
    if task == "emotional-response":
        expected["forward"] = forward(folder)
    return expected


def forward(folder: str) -> dict:
    """The loss of replies, which says more of the weights than what is generated."""
    from transformers import AutoModelForSeq2SeqLM

    inputs = {
        "input_ids": [[7, 8, 9, 10], [11, 12, 13, 0]],
        "attention_mask": [[1, 1, 1, 1], [1, 1, 1, 0]],
        "emotion_ids": [1, 2],
        "decoder_input_ids": [[2, 14, 15], [2, 17, 18]],
        "labels": [[14, 15, 16], [17, 18, -100]],
    }
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    with torch.no_grad():
        loss = model(**{name: torch.tensor(values) for name, values in inputs.items()}).loss.item()
    return {"inputs": inputs, "loss": loss}


def exported_generator(name: str) -> dict:
    """Greedy replies of an exported generator, which no command reads."""
    from hf_emotion import OnnxReplyGenerator

    inputs = [[context, emotion] for context in CONTEXTS for emotion in EMOTIONS]
    replies = OnnxReplyGenerator(f"runs/{name}")([tuple(pair) for pair in inputs], **GREEDY)
    return {"replies": {"inputs": inputs, "options": GREEDY, "results": replies}}


def strip_traces(folder: Path) -> None:
    """The graphs without the notes of torch's exporter, which name folders of this machine at every node."""
    import onnx

    def strip(item) -> None:
        for field, value in item.ListFields():
            if field.name in ("metadata_props", "doc_string"):
                item.ClearField(field.name)
            elif field.type == field.TYPE_MESSAGE:
                for part in value if field.is_repeated else [value]:
                    strip(part)

    for path in folder.glob("*.onnx"):
        model = onnx.load(path)
        strip(model)
        path.write_bytes(model.SerializeToString())


def keep(run: Path, folder: Path, names: tuple[str, ...], code: Path) -> None:
    """Copy the named files of a run and of the folders in it; the model files, the same for all, into `code`."""
    code.mkdir(exist_ok=True)
    for path in sorted(run.rglob("*")):
        if path.name in names:
            target = folder / path.relative_to(run)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        elif path.suffix == ".py":
            shutil.copyfile(path, code / path.name)


def write(path: Path, value: dict) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
