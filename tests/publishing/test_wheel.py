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
import venv
import zipfile
from pathlib import Path

import pytest
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
        "py.typed",
    ):
        assert f"hf_emotion/{path}" in names


def test_the_package_index_shows_a_description_with_whole_addresses(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name), policy=email.policy.default)
    urls = dict(url.split(", ") for url in metadata.get_all("Project-URL"))
    assert set(urls) == {"Documentation", "Repository"} and metadata["Description-Content-Type"] == "text/markdown"
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)]*)\)", metadata.get_payload())
    assert len(links) > 10
    for picture, address in links:
        start = urls["Repository"] + "/blob/main/"
        if picture:
            start = start.replace("//github.com/", "//raw.githubusercontent.com/").replace("/blob/", "/")
        assert address.startswith(start) and (ROOT / address.removeprefix(start)).exists(), address
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.encode()) <= 6144
    assert not re.search(r"github\.(com|io)/", readme)  # the account is named once, in [project.urls]


def test_installed_outside_the_checkout_it_imports_and_the_command_runs(wheel, tmp_path):
    environment = tmp_path / "venv"
    venv.create(environment, with_pip=False)
    python = environment / "bin" / "python"
    scheme = {"base": str(environment), "platbase": str(environment)}
    site = Path(sysconfig.get_path("purelib", "venv", vars=scheme))
    # torch and the other dependencies, which nobody wants to install again, come from here by a plain path: an editable
    # hf-emotion in the same folder stays invisible, because its .pth file is not read.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    command += ["--force-reinstall", "--disable-pip-version-check", str(wheel)]
    subprocess.run(command, check=True, capture_output=True)

    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    code = (
        "import hf_emotion as h, hf_emotion.modeling, hf_emotion.recipes; h.BertForLabelAwareClassification;"
        "print(h.__file__, h.modeling.__file__, h.recipes.find_recipe('quickstart'));"
        "print(sum(len(d) for d in h.load_dataset_for('quickstart').values()))"
    )
    options = {"cwd": tmp_path, "env": variables, "capture_output": True, "text": True, "check": True}
    *places, rows = subprocess.run([python, "-c", code], **options).stdout.split()
    assert len(places) == 3 and all(place.startswith(str(site)) for place in places), places
    assert rows == "976"
    command = [environment / "bin" / "hf-emotion", "recipes"]
    assert "goemotions/laa_cb" in subprocess.run(command, **options).stdout
