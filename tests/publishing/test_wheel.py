# SPDX-License-Identifier: Apache-2.0
"""The wheel, installed into an empty environment outside the checkout."""

import email
import email.policy
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from documents import blocks
from toolkit_helpers import ROOT


pytestmark = pytest.mark.release


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    # A copy of the tracked files, so that building leaves nothing in the checkout.
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        (source / name).write_bytes((ROOT / name).read_bytes())
    for folder in ("hf_emotion", "modeling", "configs"):
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    out = tmp_path_factory.mktemp("wheel")
    # Without isolation: setuptools is here, and no test needs the network.
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    (path,) = out.glob("*.whl")
    return path


def test_the_wheel_holds_everything_and_no_foreign_top_level(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert tops == {"hf_emotion", next(top for top in tops if top.endswith(".dist-info"))}
    for path in (
        *(f"modeling/{p.name}" for p in (ROOT / "modeling").glob("*.py")),
        *(f"configs/{p.relative_to(ROOT / 'configs')}" for p in (ROOT / "configs").rglob("*.yaml")),
        *(str(p.relative_to(ROOT / "hf_emotion")) for p in (ROOT / "hf_emotion" / "data").rglob("*.jsonl")),
        *(str(p.relative_to(ROOT / "hf_emotion")) for p in (ROOT / "hf_emotion").rglob("*.py")),
        *(f"reports/templates/{name}.html" for name in ("page", "tables", "report", "errors", "pair")),
        "serving/page.html",
        "tasks/published.json",
        *("py.typed", "__init__.pyi"),
    ):
        assert f"hf_emotion/{path}" in names


def test_the_package_index_shows_a_description_with_whole_addresses(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name), policy=email.policy.default)
    urls = dict(url.split(", ") for url in metadata.get_all("Project-URL"))
    assert set(urls) == {"Documentation", "Repository"} and metadata["Description-Content-Type"] == "text/markdown"
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)]*)\)", metadata.get_payload())
    links += re.findall(r'(\bsrc(?:set)?)="([^"]*)"', metadata.get_payload())
    assert len(links) > 10
    for picture, address in links:
        start = urls["Repository"] + "/blob/main/"
        if picture:
            start = start.replace("//github.com/", "//raw.githubusercontent.com/").replace("/blob/", "/")
        assert address.startswith(start) and (ROOT / address.removeprefix(start).partition("#")[0]).exists(), address
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.encode()) <= 6144
    assert not re.search(r"github\.(com|io)/", readme)  # the account is named once, in [project.urls]


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    environment = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(environment, with_pip=False)
    python = environment / "bin" / "python"
    scheme = {"base": str(environment), "platbase": str(environment)}
    site = Path(sysconfig.get_path("purelib", "venv", vars=scheme))
    # torch and the other dependencies, which nobody wants to install again, come from here by a plain path: an editable
    # hf-emotion in the same folder stays invisible, because its .pth file is not read.
    (site / "dependencies.pth").write_text(f"{Path(pytest.__file__).parents[1]}\n")
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    command += ["--force-reinstall", "--disable-pip-version-check", str(wheel)]
    subprocess.run(command, check=True, capture_output=True)
    return environment


def test_installed_outside_the_checkout_it_imports_and_the_command_runs(environment, tmp_path):
    python = environment / "bin" / "python"
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    code = (
        "import hf_emotion as h, hf_emotion.modeling, hf_emotion.recipes; h.BertForLabelAwareClassification;"
        "print(h.__file__, h.modeling.__file__, h.recipes.find_recipe('quickstart'));"
        "print(sum(len(d) for d in h.load_dataset_for('quickstart').values()))"
    )
    options = {"cwd": tmp_path, "env": variables, "capture_output": True, "text": True, "check": True}
    *places, rows = subprocess.run([python, "-c", code], **options).stdout.split()
    assert len(places) == 3 and all(place.startswith(str(environment)) for place in places), places
    assert rows == "976"
    command = [environment / "bin" / "hf-emotion", "recipes"]
    assert "goemotions/laa_cb" in subprocess.run(command, **options).stdout


TYPED = """
from concurrent.futures import Future
from typing import Any, assert_type

from hf_emotion import AspectPredictor, BatchingPredictor, DialogueBiLSTMForEmotionRecognition, DialoguePredictor
from hf_emotion import EmotionModulatedForCausalLM, LabelAwareForSequenceClassification, Predictor, TargetedPredictor
from hf_emotion.runtime.remote import Client
from hf_emotion.tasks.emotion_classification.remote import RemotePredictor
from hf_emotion.tasks.results import Label

predict = Predictor("x")
assert_type(predict(["x"])[0][0]["score"], float)
assert_type(predict(["x", None], on_bad="skip")[0], list[Label] | None)
assert_type(predict(["x"], all_scores=True)[0]["language"], str | None)
assert_type(AspectPredictor("x")("x")[0][0]["start"], int)
assert_type(TargetedPredictor("x")("x")[0][0]["aspect"], str)
assert_type(DialoguePredictor("x")([["x"]])[0][0]["speaker"], str | None)
batching = BatchingPredictor(predict)
assert_type(batching(["x"])[0], list[Label])
assert_type(batching.submit(["x"], top_k=3), Future[list[list[Label]]])
assert_type(RemotePredictor(Client("x")).predict(["x"])[0][0], list[Label])
model = LabelAwareForSequenceClassification.from_encoder_pretrained("x", num_labels=3)
assert_type(model.train(), LabelAwareForSequenceClassification)
DialogueBiLSTMForEmotionRecognition.from_encoder_pretrained("x", num_labels=3)
EmotionModulatedForCausalLM.from_language_model_pretrained("x", num_emotions=3)
predict(["x"])[0][0]["lable"]  # wrong
predict(["x"], all_scores=True)[0]["scorse"]  # wrong
batching.submit(["x"]).result()[0][0]["lable"]  # wrong
"""


def test_what_readme_and_get_started_show_has_strict_types(environment, tmp_path):
    pages = ROOT / "README.md", ROOT / "docs" / "get_started.md"
    found = [block for page in pages for block in blocks(page) if block.language == "python"]
    texts = {f"example_{number}.py": block.text for number, block in enumerate(found)} | {"typed.py": TYPED}
    assert len(texts) > 4
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    # Their types are not followed, as in the check of the checkout.
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]["overrides"][0]
    lines = [f"[mypy-{module}]\nfollow_imports = {settings['follow_imports']}" for module in settings["module"]]
    (tmp_path / "mypy.ini").write_text(
        "\n".join(["[mypy]", "follow_imports_for_stubs = true", *lines]), encoding="utf-8"
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "mypy.ini", "--hide-error-context"]
    command += ["--python-executable", str(environment / "bin" / "python"), *texts]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    wrong = {number for number, line in enumerate(TYPED.splitlines(), 1) if line.endswith("# wrong")}
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert {int(line.split(":")[1]) for line in errors if "typed.py" in line and "typeddict-item" in line} == wrong, (
        errors
    )
    assert len(errors) == len(wrong), errors
