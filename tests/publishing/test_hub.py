# SPDX-License-Identifier: Apache-2.0
"""Publishing over real HTTP, to a Hub on localhost: what arrives, what is refused, and what others load from it."""

import base64
import json
import re
import runpy
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from unittest import mock

import huggingface_hub
import pytest
import yaml
from hub_server import HubServer
from huggingface_hub import HfApi, ModelCard
from model_cases import BY_ID, HUB_CASES
from safetensors.torch import load_file, save_file
from toolkit_helpers import CHECKPOINT, EXAMPLE, NAME, ROOT, files_in, invoke, seed_run, write_run
from transformers import BertConfig, BertForSequenceClassification, pipeline

import hf_emotion.publishing.hub as hub_module
from hf_emotion.publishing.hub import push
from hf_emotion.publishing.release import SUMS, check, release, stage, write_handler
from hf_emotion.run_report import RunReport
from hf_emotion.tasks import corpora
from hf_emotion.tasks.corpus import OWN_TERMS


pytest_plugins = ["toolkit_fixtures"]

FILES = {
    "config.json": '{"model_type": "x", "auto_map": {"AutoConfig": "configuration_x.X", "AutoModel": "modeling_x.X"}}',
    "modeling_x.py": "from .configuration_x import X\nfrom .helpers import y\n",
    **{"configuration_x.py": "class X: ...\n", "helpers.py": "y = 1\n"},
    **{"tokenizer.json": "{}", "model.safetensors": "weights"},
}
PUBLISHED = {*FILES, "README.md", "metrics.json"}
ARRIVED = PUBLISHED | {".gitattributes"}
IN_BASE64 = re.compile(rb'"(?:sample|content)": ?"([A-Za-z0-9+/=]*)"')  # samples and contents of files
SECRET = "5ecret-that-nobody-may-see"
FOLDERS = ("file:///tmp/data", "corpus:/tmp/data", "</tmp/data>", "C:\\Users\\me\\corpus")


def write_checkpoint(folder: Path) -> Path:
    """Files that are named as those of a model with code beside it, and load nowhere."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in FILES.items():
        (folder / name).write_text(content)
    return folder


@pytest.fixture
def run(tmp_path) -> Path:
    return write_run(write_checkpoint(tmp_path / "run"))


@pytest.fixture
def hub():
    with HubServer() as server:
        yield server


@pytest.fixture
def online(monkeypatch):
    """The client may speak to localhost; it finds no token."""
    for name, value in {"HF_HUB_OFFLINE": False, "HF_HUB_DISABLE_XET": True, "HF_TOKEN_PATH": "/nonexistent"}.items():
        monkeypatch.setattr(huggingface_hub.constants, name, value)
    monkeypatch.delenv("HF_TOKEN", raising=False)


@pytest.fixture
def unchecked(monkeypatch):
    """The checkpoints of `write_checkpoint` load nowhere."""
    monkeypatch.setattr(hub_module, "check", lambda *_: None)


@pytest.fixture
def published(hub, api, run):
    """The repository of a run that is published; its folder holds other weights since."""
    push(run, NAME, api=api)
    (run / "model.safetensors").write_bytes(b"other weights")
    return hub.repository(NAME)


@pytest.fixture
def waits(monkeypatch) -> list[float]:
    """The seconds that were waited before other attempts, which take no time."""
    found = []
    monkeypatch.setattr(time, "sleep", found.append)
    return found


@pytest.fixture
def api(hub, online, unchecked) -> HfApi:
    return HfApi(endpoint=hub.url, token=hub.writer)


def test_files_that_arrive(hub, api, run):
    write_run(run, code='load("PATH_OR_REPO")')
    done = push(run, NAME, api=api)
    files = hub.repository(NAME).files()
    assert set(files) == ARRIVED
    assert f'load("{NAME}")' in files["README.md"].decode() and b"PATH_OR_REPO" not in files["README.md"]
    assert "PATH_OR_REPO" in (run / "README.md").read_text()
    for name in FILES:
        assert files[name] == (run / name).read_bytes(), name
    assert done["files"] == {name: len(files[name]) for name in PUBLISHED}
    assert done["changed"] and done["commit"] == hub.repository(NAME).branches["main"]
    assert done["url"] == f"{hub.url}/{NAME}/commit/{done['commit']}"
    assert len(hub.repository(NAME).commits) == 2  # the initial one, and one for all files
    assert json.loads(files["metrics.json"])["base_model"] == "base"  # without the folder it lies in
    replace(RunReport.read(run), base_model="clients/acme/secret_encoder").write(run)
    push(run, NAME, api=api)
    assert json.loads(hub.repository(NAME).files()["metrics.json"])["base_model"] == "secret_encoder"
    assert not hub.repository(NAME).private
    assert [method for method, *_ in hub.received].count("PUT") == 1  # the weights are there already


def test_a_page_arrives_as_a_static_space(hub, api, tmp_path):
    page, options = tmp_path / "page", {"api": api, "space": True, "licence": "CC0-1.0"}
    (page / "file").mkdir(parents=True)
    for name in ("index.html", "model.json", "model.onnx.gz", "old.gz", "file/model.json.js"):
        (page / name).write_text(name)
    push(page, NAME, **options)
    (page / "old.gz").unlink()
    assert push(page, NAME, **options)["changed"] and not push(page, NAME, **options)["changed"]
    files = hub.repository(NAME).files()
    assert set(files) == {".gitattributes", "README.md", "index.html", "model.json", "model.onnx.gz"}
    assert hub.repository(NAME).sdk == "static" and b'sdk: "static"' in files["README.md"]


def test_nothing_else_leaves_the_machine(hub, online, unchecked, run, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", hub.writer)
    monkeypatch.setenv("OTHER_SECRET", SECRET)
    planted = (
        ".env optimizer.pt scheduler.pt training_args.bin trainer_state.json rng_state.pth run.log predictions.parquet "
        "recipe.yaml report.html analysis/errors.html analysis/analysis.json train.jsonl model.safetensors.bak notes.py "
        "pytorch_model.bin checkpoints/checkpoint-7/model.safetensors seed-3/model.safetensors seed-3/config.json .git/config"
    ).split()
    for name in planted:
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text(f"{SECRET} {hub.writer}")
    push(run, NAME, api=HfApi(endpoint=hub.url))
    assert set(hub.repository(NAME).files()) == ARRIVED
    # Neither in a body or an address, nor in what the bodies hold in base64; the token in the header that is its place.
    decoded = [base64.b64decode(value) for *_, body in hub.received for value in IN_BASE64.findall(body)]
    assert len(decoded) >= len(PUBLISHED)
    sent = b"\0".join([*decoded, *(f"{path} ".encode() + body for _, path, body in hub.received)])
    for word in (SECRET, hub.writer, *planted, str(run)):
        assert word.encode() not in sent, word
    for headers in hub.headers:
        assert {name for name, value in headers.items() if hub.writer in value} <= {"authorization"}
        assert SECRET not in str(headers)
    assert b"class X" in sent  # it would have been seen


def test_a_dry_run_lists_the_files_and_sends_nothing(run, monkeypatch, unchecked):
    monkeypatch.setattr(HfApi, "__getattribute__", lambda self, name: pytest.fail(f"the client was asked for {name}"))
    before = {path: (run / path).stat() for path in files_in(run)}
    lines = invoke("push", run, "--repo-id", NAME, "--dry-run").splitlines()
    listed = {line.split()[1]: int(line.split()[0].replace(",", "")) for line in lines[:-2]}
    assert set(listed) == PUBLISHED and listed["model.safetensors"] == 7
    assert lines[-2].split() == [f"{sum(listed.values()):,}", "bytes", "in", "8", "files"]
    assert lines[-1] == "dry run: nothing was sent"
    assert {path: (run / path).stat() for path in files_in(run)} == before


def test_files_of_an_older_model_go(hub, api, run):
    shards = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json")
    weights = (run / "model.safetensors").rename(run / "kept.bak")
    for name in (old := (*shards, "tfidf_gate.json")):
        (run / name).write_text("{}")
    push(run, NAME, api=api)
    api.upload_file(path_or_fileobj=b"mine", path_in_repo="NOTES.md", repo_id=NAME)
    assert set(old) < set(hub.repository(NAME).files())
    for name in old:
        (run / name).unlink()
    weights.rename(run / "model.safetensors")
    push(run, NAME, api=api)
    assert set(hub.repository(NAME).files()) == ARRIVED | {"NOTES.md"} and len(hub.repository(NAME).commits) == 4
    again = push(run, NAME, api=api)
    assert not again["changed"] and again["commit"] == hub.repository(NAME).branches["main"]


def test_branch_tag_private_and_pull_request(hub, api, run):
    push(run, "model", private=True, tag="v1", api=api)  # in the namespace of the token
    assert list(hub.repositories) == [NAME]
    repository = hub.repository(NAME)
    assert repository.private and repository.tags["v1"] == repository.branches["main"]
    main = repository.branches["main"]
    (run / "model.safetensors").write_bytes(b"other weights")
    done = push(run, NAME, revision="next", tag="v2", api=api)
    assert repository.branches == {"main": main, "next": done["commit"]} and repository.tags["v2"] == done["commit"]
    assert repository.files("next")["model.safetensors"] == b"other weights"
    done = push(run, NAME, create_pr=True, api=api)
    assert done["url"] == f"{hub.url}/{NAME}/discussions/1"
    assert repository.pull_requests == {"refs/pr/1": done["commit"]} and repository.branches["main"] == main
    assert repository.files("refs/pr/1")["model.safetensors"] == b"other weights"


def refused(run: Path, api: HfApi, *arguments, **options) -> str:
    with pytest.raises((OSError, ValueError)) as caught:
        push(run, *arguments, api=api, **options)
    assert api.token is None or api.token not in str(caught.value)
    return f"{type(caught.value).__name__}: {caught.value}"


def test_no_token_or_a_wrong_one(hub, api, run, waits):
    said = "PermissionError: no access token: log in with `hf auth login`, or set HF_TOKEN"
    assert said in refused(run, HfApi(endpoint=hub.url), NAME) and hub.received == []
    message = refused(run, HfApi(endpoint=hub.url, token="hf_wrong"), NAME)
    assert message.startswith(f"PermissionError: the token may not write to {NAME} (401)") and "auth login" in message
    assert hub.repositories == {} and waits == []


@pytest.mark.parametrize("there", [False, True])
def test_no_permission(hub, api, run, waits, there, request):
    repository = request.getfixturevalue("published") if there else None
    message = refused(run, HfApi(endpoint=hub.url, token=hub.reader), NAME)
    assert message.startswith(f"PermissionError: the token may not write to {NAME} (403)")
    assert len(hub.repositories) == there and waits == []
    assert not there or repository.files()["model.safetensors"] == b"weights"


def test_a_repository_that_goes_away_meanwhile(hub, api, run, published, waits):
    hub.fail("POST", "/preupload/", 404)
    message = refused(run, api, NAME)
    assert message.startswith(f"FileNotFoundError: the Hub finds no {NAME}") and "(404)" in message and waits == []


def test_a_commit_of_somebody_else_meanwhile(api, run, published, monkeypatch):
    original = HfApi.preupload_lfs_files

    def with_another(self, repo_id, additions, **options):
        files = published.commits[published.branches["main"]]
        published.branches["main"] = published.add("of somebody else", dict(files))
        return original(self, repo_id, additions, **options)

    monkeypatch.setattr(HfApi, "preupload_lfs_files", with_another)
    assert "refused the upload to somebody/model (412)" in refused(run, api, NAME)
    assert published.files()["model.safetensors"] == b"weights"


def test_a_tag_that_is_refused_after_the_commit(hub, api, run):
    hub.fail("POST", "/tag/", 400)
    said = refused(run, api, NAME, tag="v1")
    commit = hub.repository(NAME).branches["main"]
    assert "is published as " + commit in said and "'v1'" in said and hub.repository(NAME).tags == {}


def test_what_would_change_others_is_refused(hub, api, run):
    done = push(run, NAME, tag="v1", api=api)
    (run / "model.safetensors").write_bytes(b"other weights")
    for options, said in (
        ({"tag": "v1"}, "has a tag 'v1' already"),
        ({"private": True}, "exists and is public"),
        *(({"create_pr": True, name: "v2"}, "leave out `revision` and `tag`") for name in ("revision", "tag")),
    ):
        assert said in refused(run, api, NAME, **options)
    assert hub.repository(NAME).branches == {"main": done["commit"]}


STEPS = [("POST", f"/{path}") for path in ("repos/create", "validate-yaml", "branch/", "preupload/", "objects/batch")]
STEPS += [("PUT", "/storage/"), ("POST", "/commit/"), ("POST", "/tag/")]


@pytest.mark.parametrize(("status", "after"), [(None, False), (500, True)], ids=["closed", "answer-lost"])
@pytest.mark.parametrize(("method", "path"), STEPS, ids=[path.strip("/") for _, path in STEPS])
def test_a_failure_and_then_success(hub, api, run, waits, method, path, status, after):
    hub.fail(method, path, status, after=after)
    done = push(run, NAME, revision="next", tag="v1", api=api)
    repository = hub.repository(NAME)
    assert set(repository.files("next")) == ARRIVED
    assert sorted(repository.messages.values()) == ["Publish model with hf-emotion 0.1.0", "initial commit"]
    assert repository.tags == {"v1": done["commit"]} and repository.branches["next"] == done["commit"]
    assert hub.faults[0].times == 0 and len(waits) == 1


@pytest.mark.parametrize(("method", "path"), STEPS[:-1], ids=[path.strip("/") for _, path in STEPS[:-1]])
def test_a_lasting_failure_leaves_nothing_behind(hub, api, run, waits, method, path):
    status = None if path == "/storage/" else 503
    hub.fail(method, path, status, times=1000)
    assert refused(run, api, NAME, revision="next").startswith("ConnectionError: the Hub ")
    assert hub.repositories == {}
    assert 3 <= len(waits) < 40 and waits[0] >= 1 and max(waits) > waits[0]
    hub.faults.clear()
    before = push(run, NAME, api=api)["commit"]
    (run / "model.safetensors").write_bytes(b"other weights")
    hub.fail(method, path, status, times=1000)
    if path != "/repos/create":
        refused(run, api, NAME, revision="next")
        assert hub.repository(NAME).branches == {"main": before} and len(hub.repository(NAME).commits) == 2


def test_a_pull_request_is_not_opened_twice(hub, api, run, published, waits):
    hub.fail("POST", "/commit/", 500, after=True)
    assert "answered 500" in refused(run, api, NAME, create_pr=True)
    assert len(published.pull_requests) == 1 and waits == []


def test_an_interrupted_upload(hub, api, run):
    with mock.patch.object(huggingface_hub.lfs, "_upload_single_part", side_effect=KeyboardInterrupt):
        with pytest.raises(KeyboardInterrupt):
            push(run, NAME, api=api)
    assert hub.repositories == {}
    push(run, NAME, api=api)
    assert set(hub.repository(NAME).files()) == ARRIVED


def test_a_repository_that_the_token_does_not_see_is_not_removed(hub, api, run, published, waits, monkeypatch):
    monkeypatch.setattr(api, "repo_exists", lambda name, repo_type: False)
    hub.fail("POST", "/commit/", 503, times=1000)
    refused(run, api, NAME)
    assert published.files()["model.safetensors"] == b"weights"


def test_no_server(hub, api, run, waits):
    message = refused(run, HfApi(endpoint="http://127.0.0.1:9", token=hub.writer), NAME)
    assert message.startswith("ConnectionError: the Hub could not be reached (ConnectError") and len(waits) == 3


@pytest.mark.parametrize(
    ("name", "message"),
    [
        *(("metrics.json", "is not a finished run folder: it has no metrics.json"), ("README.md", "README.md")),
        ("config.json", "holds no model: it has no config.json"),
        ("helpers.py", "lacks its code: config.json names helpers.py, which must"),
    ],
)
def test_runs_that_lack_something(hub, api, run, name, message):
    (run / name).unlink()
    assert message in refused(run, api, NAME) and hub.received == []


@pytest.mark.parametrize(
    ("metadata", "text", "message"),
    [
        ({"license": None}, "", "no `license`"),
        ({"model-index": None}, "", "no results"),
        (None, "", "no example"),
        ({}, OWN_TERMS, "name their terms here"),
        *(({}, text, "README.md holds an access token") for text in (f"by hf_{'a1' * 17}", "'an-oauth-token'")),
        *(({}, text, "README.md names a folder of this machine") for text in FOLDERS),
    ],
)
def test_cards_that_are_refused(tmp_path, monkeypatch, metadata, text, message):
    monkeypatch.setenv("HF_TOKEN", "an-oauth-token")
    folder = write_run(write_checkpoint(tmp_path / "run"), code=f"# {text}", **metadata or {})
    if metadata is None:
        (folder / "README.md").write_text((folder / "README.md").read_text().replace("```python", "```"))
    stage(folder, tmp_path / "staged", NAME)
    with pytest.raises(ValueError, match=message):
        check([(tmp_path / "staged", NAME)])


def test_a_licence_that_is_given(tmp_path):
    folder = write_run(write_checkpoint(tmp_path / "run"), code=f"# {OWN_TERMS}", license=None)
    stage(folder, tmp_path / "staged", NAME, licence="CC-BY-4.0")
    card = ModelCard.load(tmp_path / "staged" / "README.md")
    assert card.data.license == "cc-by-4.0" and OWN_TERMS not in card.text and "licence CC-BY-4.0" in card.text
    with pytest.raises(ValueError, match="a licence must be .*got 'my own'"):
        push(folder, NAME, dry_run=True, licence="my own")


def test_the_recipe_beside_the_run_is_read_again(tmp_path):
    folder = write_run(write_checkpoint(tmp_path / "run"), code=f"# {OWN_TERMS}", license=None)
    fields = {"name": "tiny", "base_model": "minilm", "dataset": "files", "data_terms": "ask us | first"}
    (folder / "recipe.yaml").write_text(yaml.safe_dump(fields))
    stage(folder, tmp_path / "staged", NAME)
    card = ModelCard.load(tmp_path / "staged" / "README.md")
    assert (card.data.license, card.data.license_name) == ("other", "terms-of-the-training-data")
    assert OWN_TERMS not in card.text and "ask us \\| first" in card.text


def test_the_files_are_shown_before_they_are_sent(api, run, monkeypatch):
    shown = []
    monkeypatch.setattr(hub_module, "_upload", lambda *arguments: 1 / ("model.safetensors" not in shown[0]))
    with pytest.raises(ZeroDivisionError):
        push(run, NAME, api=api, show=shown.append)


def test_every_corpus_of_the_package_names_its_terms():
    unnamed = {name for name, corpus in corpora().items() if corpus.terms == OWN_TERMS}
    assert unnamed == {"files", "aspect_files", "term_files", "dialogue_files", "reply_files"}


@pytest.fixture(scope="module")
def released(tmp_path_factory, tokenizer) -> Path:
    """A model of every family, and one for each of two contexts, released: checked in one process without hf-emotion."""
    root = tmp_path_factory.mktemp("release")
    for case_id in HUB_CASES:
        case = BY_ID[case_id]
        classify = pipeline(case.task, model=case.build(), tokenizer=tokenizer, device="cpu")
        classify.save_pretrained(root / "runs" / case_id)
        example = f"from transformers import pipeline\n{EXAMPLE.format(text=list(case.texts))}"
        write_run(root / "runs" / case_id, case_id, example)
    example = (
        "from transformers import pipeline, AutoModelForSequenceClassification, AutoTokenizer\n"
        'place = {"pretrained_model_name_or_path": "PATH_OR_REPO", "subfolder": "calm"}\n'
        "model = AutoModelForSequenceClassification.from_pretrained(**place)\n"
        'print(pipeline("text-classification", model=model, tokenizer=AutoTokenizer.from_pretrained(**place))("joy"))'
    )
    contexts = write_run(root / "runs" / "contexts", "contexts", example)
    runs = [seed_run(seed=3, best_dev_metric=0.5), seed_run(seed=8, best_dev_metric=0.4)]  # losses
    replace(RunReport.read(contexts), runs=runs).write(contexts)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    for seed, name in ((3, "calm"), (8, "calm"), (8, "price")):
        stock = BertForSequenceClassification(BertConfig(vocab_size=len(tokenizer), num_labels=seed, **sizes))
        stock.save_pretrained(contexts / f"seed-{seed}" / name)
        tokenizer.save_pretrained(contexts / f"seed-{seed}" / name)
        (contexts / f"seed-{seed}" / name / "optimizer.pt").write_text("x")
    shown = invoke("release", *sorted((root / "runs").iterdir()), "--output", root / "out", "--namespace", "somebody")
    contexts = root / "out" / "contexts"
    assert f"{contexts}: {len(files_in(contexts))} files" in shown
    return root / "out"


@pytest.mark.release
def test_release(released):
    names = {*HUB_CASES, "contexts"}
    assert {path.name for path in released.iterdir()} == {*names, "README.md", SUMS}
    done = subprocess.run(["sha256sum", "--check", "--strict", SUMS], cwd=released, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) == len(files_in(released)) - 1
    card = (released / "README.md").read_text()
    for name in names:
        assert f"| [{name}](https://huggingface.co/somebody/{name}) | quickstart | macro_f1 0.5 |" in card
        assert ModelCard.load(released / name / "README.md").data.license == "apache-2.0"
    assert "- quickstart: CC0 1.0" in card


@pytest.mark.release
def test_release_of_one_model_per_context(released):
    own = {f"{name}/{file}" for name in ("calm", "price") for file in CHECKPOINT}
    assert set(files_in(released / "contexts")) == {"README.md", "metrics.json"} | own
    assert len(json.loads((released / "contexts" / "calm" / "config.json").read_text())["id2label"]) == 8


@pytest.mark.release
def test_release_refuses(released, run, tmp_path):
    with pytest.raises(FileExistsError, match="is not an empty folder"):
        release([run], released)
    with pytest.raises(ValueError, match="two runs are called 'tiny'"):
        release([run, run], tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("change", ["import", "weights", "example"])
def test_models_that_do_not_load_elsewhere(released, tmp_path, change):
    case_id = "esa-multi-label-thresholds"
    folder = shutil.copytree(released / case_id, tmp_path / "model")
    code, card = next(folder.glob("modeling_*.py")), folder / "README.md"
    if change == "weights":
        message = "config.json and the weights do not agree about classifier."
        weights = load_file(folder / "model.safetensors").items()
        weights = {name: value for name, value in weights if not name.startswith("classifier.")}
        save_file(weights, folder / "model.safetensors", {"format": "pt"})
    elif change == "import":
        message = "the code beside the weights imports hf_emotion, which others do not have"
        code.write_text(f"import hf_emotion\n{code.read_text()}")
    else:
        message = "NameError: name 'pipelin' is not defined"
        card.write_text(card.read_text().replace("print(pipeline", "print(pipelin"))
    with pytest.raises(ValueError, match="where hf-emotion is not installed") as caught:
        check([(folder, f"somebody/{case_id}")], trust_remote_code=True)
    assert message in str(caught.value)


def test_the_program_in_the_root(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["push_to_hub.py", "--help"])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(ROOT / "push_to_hub.py"), run_name="__main__")
    shown = capsys.readouterr().out
    assert not end.value.code and all(f"--{name}" in shown for name in ("repo-id", "revision", "create-pr", "dry-run"))


def test_push_of_the_command_line(hub, online, unchecked, run, monkeypatch, argv):
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", hub.url)
    monkeypatch.setenv("HF_TOKEN", hub.writer)
    result = argv("push", run, "--repo-id", NAME)
    assert result.code == 0, result.err
    assert result.out.splitlines()[-1].startswith("published: ") and "        7  model.safetensors" in result.out
    assert "holds these files already" in argv("push", run, "--repo-id", NAME).out


def test_a_handler_is_pushed_beside_the_model(hub, api, run):
    handler = {"handler.py", "requirements.txt"}
    assert set(push(run, NAME, handler=True, dry_run=True)["files"]) == PUBLISHED | handler
    push(run, NAME, handler=True, api=api)
    files = hub.repository(NAME).files()
    assert handler < set(files) and b'pipeline("text-classification"' in files["handler.py"]
    (run / "config.json").rename(run / "other.json")
    with pytest.raises(ValueError, match="leave out --handler"):
        write_handler(run)
