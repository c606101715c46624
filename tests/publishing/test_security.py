# SPDX-License-Identifier: Apache-2.0
"""
Nothing hostile gets in, and nothing gets out that nobody meant to send: pickles, code beside the weights, names and links that
lead elsewhere, names that would be programs or HTML.
"""

import ast
import contextlib
import json
import os
import pickle
import re
import shutil
from functools import cache
from pathlib import Path

import pytest
import torch
from model_cases import BY_ID
from safetensors.torch import load_file, save_file
from toolkit_helpers import NAME, ROOT, files_in, recipe_for, run_report, seed_run, write_run
from transformers import AutoModel, BertConfig

from hf_emotion import DialoguePredictor, Predictor, ReplyGenerator
from hf_emotion.convert import bert_to_roberta
from hf_emotion.inference import load_predictor
from hf_emotion.publishing.export import export_onnx
from hf_emotion.publishing.hub import push
from hf_emotion.publishing.release import SECRETS as RULES
from hf_emotion.publishing.release import check, release, stage
from hf_emotion.recipes import make_recipe
from hf_emotion.reports.card import write_card
from hf_emotion.runtime.loading import read_config, read_model, read_tokenizer
from hf_emotion.serving.service import build as build_service
from hf_emotion.serving.settings import Settings
from hf_emotion.tasks.cards import plain
from hf_emotion.tasks.sequence_classification import build_classifier


pytest_plugins = ["toolkit_fixtures"]
pytestmark = pytest.mark.usefixtures("single_thread")

PIPELINE, TRUST = "from transformers import pipeline", "trust_remote_code=True)"
CASE = "label-aware-pooler-hidden-balanced"


@pytest.fixture
def proof(tmp_path, monkeypatch) -> Path:
    """The file that exists if a payload was run; nobody is there to say yes to a question."""
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("somebody is asked whether code may run"))
    return tmp_path / "payload-was-run"


@pytest.fixture
def checkpoint(tmp_path, tokenizer) -> Path:
    BY_ID[CASE].build().save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


class Payload:
    def __init__(self, proof: Path):
        self.proof = proof

    def __reduce__(self):
        return os.mkdir, (str(self.proof),)


def payload(proof: Path) -> str:
    return f"import os\nos.mkdir({str(proof)!r})\n"


def edit_json(path: Path, **changes) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@cache
def calls_in(path: Path) -> list[tuple[str, ast.Call]]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [(ast.unparse(node.func), node) for node in ast.walk(tree) if isinstance(node, ast.Call)]


OURS = [path for folder in ("hf_emotion", "modeling", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
PROGRAMS = [path for path in OURS if path.relative_to(ROOT).parts[:2] != ("hf_emotion", "modeling")]


def test_no_pickle_and_no_eval():
    """`torch.load` only of tensors; the one `exec` runs the example of a card that was checked before."""
    assert len(PROGRAMS) > 60
    forbidden = set("eval exec pickle.load pickle.loads joblib.load yaml.load yaml.unsafe_load os.system".split())
    found = set()
    for path in PROGRAMS:
        for name, call in calls_in(path):
            arguments = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
            assert name not in ("torch.load",) or arguments["weights_only"] == "True", path
            assert {arguments.get(name, "False") for name in ("allow_pickle", "shell")} == {"False"}, path
            if name in forbidden:
                found.add((path.name, name))
    assert found == {("load_check.py", "exec")}


def test_every_checkpoint_is_read_in_one_place():
    """`loading.py` passes `trust_remote_code=False` and `use_safetensors=True`; `load_check.py` runs code that was checked."""
    own = [path for path in PROGRAMS if path.relative_to(ROOT).parts[0] == "hf_emotion"]
    found = {(path.name, name) for path in own for name, _ in calls_in(path) if name.endswith(".from_pretrained")}
    assert {name for name, _ in found} == {"loading.py", "load_check.py", "onnx_replies.py", "__init__.py"}
    # These classes of transformers know neither code beside the files nor pickles.
    others = {call.partition(".")[0] for name, call in found if name in ("onnx_replies.py", "__init__.py")}
    assert others == {"GenerationConfig", "BertTokenizerFast"}


def loaders(checkpoint: Path, tmp_path: Path):
    return {
        "predictor": lambda: Predictor(checkpoint),
        "load_predictor": lambda: load_predictor(checkpoint),
        "dialogues": lambda: DialoguePredictor(checkpoint),
        "replies": lambda: ReplyGenerator(checkpoint),
        "export": lambda: export_onnx(checkpoint, tmp_path / "onnx", texts=["joy"]),
        "service": lambda: build_service(Settings(checkpoints=[str(checkpoint)])),
        "base model": lambda: build_classifier(str(checkpoint), None, {}, None, ["a", "b"], True, [1, 1]),
        "to roberta": lambda: bert_to_roberta(checkpoint, tmp_path / "roberta"),
        "encoder": lambda: read_model(AutoModel, checkpoint),
    }


def test_a_pickle_is_refused_and_not_run(checkpoint, proof, tmp_path, argv):
    (checkpoint / "model.safetensors").unlink()
    torch.save({"x": Payload(proof)}, checkpoint / "pytorch_model.bin")
    message = "has no model.safetensors, and pytorch_model.bin is not read, because a pickle can run"
    for load in loaders(checkpoint, tmp_path).values():
        with pytest.raises(OSError, match=message):
            load()
    index = {"metadata": {}, "weight_map": {"classifier.weight": "pytorch_model.bin"}}
    (checkpoint / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    with pytest.raises(OSError, match=message):
        Predictor(checkpoint)
    done = argv("predict", checkpoint, "joy")
    assert done.code == 1 and "a pickle can run code" in done.err and done.err.count("\n") == 1
    assert not proof.exists() and not (tmp_path / "onnx").exists() and not (tmp_path / "roberta").exists()
    pickle.loads(pickle.dumps(Payload(proof)))
    assert proof.exists()  # the payload works


@pytest.mark.parametrize("name", ["model.safetensors", "model.safetensors.index.json"])
def test_a_pickle_in_disguise(checkpoint, proof, name):
    (checkpoint / "model.safetensors").unlink()
    torch.save({"classifier.weight": Payload(proof)}, checkpoint / "evil.bin")
    index = json.dumps({"metadata": {}, "weight_map": {"classifier.weight": "evil.bin"}}).encode()
    (checkpoint / name).write_bytes(index if "index" in name else pickle.dumps(Payload(proof)))
    with pytest.raises((OSError, ValueError), match=f"{checkpoint}"):
        Predictor(checkpoint)
    assert not proof.exists()


def test_hostile_code_beside_a_known_model_is_not_run(checkpoint, proof, argv):
    """Our own classes are registered: the files beside the weights are for those who do not have hf-emotion."""
    expected = Predictor(checkpoint).probabilities(["so happy"])
    for path in checkpoint.glob("*.py"):
        path.write_text(payload(proof))
    (checkpoint / "custom_generate").mkdir()
    (checkpoint / "custom_generate" / "generate.py").write_text(payload(proof))
    assert (Predictor(checkpoint).probabilities(["so happy"]) == expected).all()
    done = argv("predict", checkpoint, "joy")
    assert done.code == 0, done.err
    build_service(Settings(checkpoints=[str(checkpoint)]))
    assert not proof.exists()


@pytest.mark.parametrize("place", ["beside", "elsewhere", "beside a known type"])
def test_a_model_of_its_own_code_is_refused(checkpoint, proof, tmp_path, place):
    other = tmp_path / "other"
    other.mkdir()
    for folder in (checkpoint, other):
        (folder / "modeling_evil.py").write_text(payload(proof))
    code = f"{other}--modeling_evil.X" if place == "elsewhere" else "modeling_evil.X"
    names = dict.fromkeys(("AutoConfig", "AutoModelForSequenceClassification"), code)
    known = place == "beside a known type"  # the weights are those of another model
    edit_json(checkpoint / "config.json", model_type="bert" if known else "evil", auto_map=names)
    message = "lacks" if known else "hf-emotion runs no such code.* yourself with `trust_remote_code=True`"
    found = loaders(checkpoint, tmp_path)
    for name in ("predictor",) if known else ("predictor", "export", "service", "base model"):
        with pytest.raises(ValueError, match=message):
            found[name]()
    assert not proof.exists()


@pytest.mark.parametrize("known", [True, False])
def test_a_tokenizer_of_its_own_code(checkpoint, proof, known):
    (checkpoint / "tokenization_evil.py").write_text(payload(proof))
    changes = {"auto_map": {"AutoTokenizer": ["tokenization_evil.X"] * 2}}
    changes |= {} if known else {"tokenizer_class": "EvilTokenizer"}
    edit_json(checkpoint / "tokenizer_config.json", **changes)
    try:
        read_tokenizer(checkpoint)
    except ValueError as error:
        assert str(checkpoint) in str(error)
    assert not proof.exists()


def test_an_attention_that_would_be_downloaded(tmp_path):
    BertConfig(attn_implementation="somebody/kernel").save_pretrained(tmp_path)
    edit_json(tmp_path / "config.json", attn_implementation="somebody/kernel", _attn_implementation="somebody/kernel")
    try:
        assert "/" not in str(read_config(tmp_path)._attn_implementation)
    except ValueError as error:
        assert "asks for the attention 'somebody/kernel'" in str(error)


@pytest.fixture
def run(checkpoint) -> Path:
    return write_run(checkpoint, code=f'{PIPELINE}\nprint(pipeline(model="PATH_OR_REPO")("joy"))')


@pytest.mark.release
def test_other_code_is_not_run_unless_trusted(run, proof, tmp_path, argv):
    code = next(path for path in sorted(run.glob("modeling_*.py")))
    code.write_text(payload(proof) + code.read_text())
    message = rf"{code.name} is not the file that this version of hf-emotion ships.*--trust-remote-code"
    with pytest.raises(ValueError, match=message):
        release([run], tmp_path / "released")
    assert not any(path for path in (tmp_path / "released").rglob("*") if path.is_file())
    done = argv("push", run, "--repo-id", NAME, "--dry-run")
    assert done.code == 1 and "--trust-remote-code" in done.err
    assert not proof.exists()
    folder = tmp_path / "staged"
    stage(run, folder, NAME)
    with pytest.raises(ValueError, match="where hf-emotion is not installed"):  # of the example, which lacks the trust
        check([(folder, NAME)], trust_remote_code=True)
    assert proof.exists()


@pytest.mark.parametrize(
    "code",
    [
        *("import os\nos.mkdir(PROOF)", "exec('import os; os.mkdir(PROOF)')", "@print\ndef f(): ...", "def"),
        *(f"{PIPELINE} as x\nx.__globals__['os'].mkdir(PROOF)", f"{PIPELINE}\npipeline(model='evil/repo', {TRUST}"),
        f"from transformers import AutoModel\nAutoModel.from_pretrained('evil/folder', {TRUST}",
        f"{PIPELINE}\nplace = {{'model': '..'}}\npipeline(**place, {TRUST}",
        *("print([x for x in ().__class__.__base__.__subclasses__()])", "print((lambda: 1)())"),
    ],
)
def test_the_example_of_a_card_is_not_run_unless_it_is_as_ours(run, proof, tmp_path, code):
    path = run / "README.md"
    path.write_text(path.read_text().replace("```python\n", f"```python\n{code.replace('PROOF', repr(proof.name))}\n"))
    folder = tmp_path / "staged"
    stage(run, folder, NAME)
    with pytest.raises((ValueError, SyntaxError), match="the example of the card of staged, README.md|invalid syntax"):
        check([(folder, NAME)])
    assert not proof.exists()


@pytest.mark.parametrize("entry", ["../outside.X", "/etc/outside.X", "..X", "a/b--outside.X", 5, None, [], "x"])
def test_code_elsewhere_is_not_published(run, tmp_path, entry):
    (tmp_path / "outside.py").write_text("secret = 1\n")
    for place, entries in {"auto_map": {"AutoModel": entry}, "custom_pipelines": {"task": {"impl": entry}}}.items():
        edit_json(run / "config.json", **{"auto_map": {}, "custom_pipelines": {}, place: entries})
        refused = pytest.raises(ValueError, match="lacks its code")
        with contextlib.nullcontext() if entry in (None, []) and place == "auto_map" else refused:
            stage(run, tmp_path / "staged" / place, NAME)
        assert not list((tmp_path / "staged").rglob("*outside*"))


@pytest.mark.parametrize("name", ["README.md", "metrics.json", "config.json", "model.safetensors"])
def test_links_to_elsewhere_are_not_followed(run, tmp_path, name):
    shutil.move(run / name, tmp_path / "secret")
    (run / name).symlink_to(tmp_path / "secret")
    for publish in (lambda: push(run, NAME, dry_run=True), lambda: release([run], tmp_path / "released")):
        with pytest.raises(ValueError, match=f"{name} is a link to a file outside the run folder: put the file"):
            publish()
    assert not (tmp_path / "released").exists() or not files_in(tmp_path / "released")


def test_a_link_inside_is_the_file_and_a_hard_link_is_reported(run, tmp_path, caplog):
    shutil.move(run / "tokenizer.json", run / "other")
    (run / "tokenizer.json").symlink_to("other")
    shutil.move(run / "tokenizer_config.json", tmp_path / "elsewhere")
    (run / "tokenizer_config.json").hardlink_to(tmp_path / "elsewhere")
    stage(run, tmp_path / "staged", NAME)
    assert (tmp_path / "staged" / "tokenizer.json").read_bytes() == (run / "other").read_bytes()
    (line,) = [record.getMessage() for record in caplog.records]
    assert "hard links" in line and "look at tokenizer_config.json" in line


SECRETS = {  # in two parts, so that no scanner takes this file for a leak
    "an access token of Hugging Face": "api_org_" + "aB1" * 10,
    "an access key of AWS": "AKIA" + "Z2" * 8,
    "a token of GitHub or GitLab": "ghp_" + "aB1" * 12,
    "a key of OpenAI or Anthropic": "sk-proj-" + "aB1-" * 8,
    "a key of Google": "AIza" + "aB1-_" * 7,
    "a token of Slack": "xoxb-" + "123-" * 6 + "aB1",
    "a private key": "-----BEGIN OPENSSH " + "PRIVATE KEY-----",
    "a signed token .JWT.": ".".join(["eyJ" + "hbGciOiJIUzI1"] * 2) + "." + "aB1" * 9,
    "a password in a URL": "https://me:" + "hunter2@example.org/data",
    "an Authorization header": "Authorization: Bearer " + "aB1" * 8,
    "a key or a password": "WANDB_API_KEY=" + "0a1b2c3d" * 5,
}


def test_secrets_are_not_published(run, tmp_path):
    text = (run / "README.md").read_text()
    for number, (what, secret) in enumerate(SECRETS.items()):
        (run / "README.md").write_text(f"{text}\nMade with {secret}\n")
        stage(run, folder := tmp_path / f"staged-{number}", NAME)
        with pytest.raises(ValueError, match=rf"README.md holds {what} in line \d+: remove it") as caught:
            check([(folder, NAME)])
        assert secret not in str(caught.value)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "training_curve.png"])
def test_secrets_in_other_files(run, tmp_path, name):
    secret = SECRETS["a key or a password"]
    if name == "config.json":
        edit_json(run / name, wandb={"api_key": secret.partition("=")[2]})
    elif name == "model.safetensors":
        save_file(load_file(run / name), run / name, {"format": "pt", "command": f"{secret} train"})
    else:
        (run / name).write_bytes(b"\x89PNG" + secret.encode())
    stage(run, tmp_path / "staged", NAME)
    with pytest.raises(ValueError, match=rf"{name} holds a key or a password"):
        check([(tmp_path / "staged", NAME)])


def test_what_is_no_secret():
    for text in (
        *("sk-learn-is-no-key-of-openai", "token = tokenizer.eos_token", 'api_key=os.environ["X"]', "HF_TOKEN=..."),
        *("https://example.org:8080/a@b", "access_token: null, 12345678", "bearer of bad news in 2024", "hf_emotion"),
    ):
        assert not [what for what, rule in RULES.items() if re.search(rule, text)], text


def test_folders_that_are_links(run, tmp_path):
    shutil.copytree(run, tmp_path / "outside")
    (run / "config.json").unlink()
    (run / "calm").symlink_to(tmp_path / "outside", target_is_directory=True)
    with pytest.raises(ValueError, match="is a link to a file outside"):
        stage(run, tmp_path / "staged", NAME)


def test_names_of_runs_stay_in_their_folder(run, tmp_path):
    for name in ("../evil", "..", ".", "", "a/b", "a\\b", "a\0b", "a\nb", 7, None, "x" * 201):
        edit_json(run / "metrics.json", name=name)
        with pytest.raises(ValueError, match="`name` in .*metrics.json becomes the name of a folder"):
            release([run], tmp_path / "out" / "released")
        assert not (tmp_path / "out").exists() and not (tmp_path / "evil").exists()
        with pytest.raises(ValueError, match="name"):
            make_recipe({"name": name})


def test_seeds_of_runs_stay_in_their_folder(run, tmp_path):
    (run / "config.json").unlink()
    for number, seed in enumerate(("../../other", None, [])):
        edit_json(run / "metrics.json", runs=[vars(seed_run(seed=seed)) for _ in range(2)])
        with pytest.raises(ValueError, match="`seed` must be"):
            stage(run, tmp_path / f"staged-{number}", NAME)


def test_names_of_repositories(run):
    for repo_id in ("../x", "a/b/c", 'x"); import os #', ""):
        with pytest.raises(ValueError, match="[Rr]epo"):
            push(run, repo_id, dry_run=True)


def test_the_task_of_a_handler_is_no_program(run, monkeypatch):
    monkeypatch.setattr("hf_emotion.publishing.hub.check", lambda *_: None)
    config = json.loads((run / "config.json").read_text())
    task = 'x", model=MODEL); __import__("os").system("true") #'
    edit_json(run / "config.json", custom_pipelines={task: {"impl": config["auto_map"]["AutoModel"], "pt": []}})
    with pytest.raises(ValueError, match="config.json names the pipeline"):
        push(run, NAME, dry_run=True, handler=True)


@pytest.mark.parametrize("name", ["metrics.json", "config.json"])
def test_damaged_files_of_a_run(run, tmp_path, name):
    for number, content in enumerate((b"{", b"[]", b"\xff", b"[" * 100_000)):
        (run / name).write_bytes(content)
        with pytest.raises(ValueError, match=rf"{name} (is not valid JSON|must hold a JSON object)"):
            stage(run, tmp_path / f"staged-{number}", NAME)


def test_names_in_a_card_are_text(tmp_path):
    hostile = "<script>alert(1)</script>|x\n# y\x1b[2J"
    assert plain(hostile) == "&lt;script&gt;alert(1)&lt;/script&gt;\\|x # y\\x1b[2J"
    assert plain("joy & fear 😂") == "joy &amp; fear 😂"
    scores = dict.fromkeys(("f1", "precision", "recall", "support"), 1)
    best = seed_run(thresholds={hostile: 0.5}, test={"tuned": {"per_label": {hostile: scores}}})
    fields = {"summary": {"test": {"tuned": {"macro_f1": {"mean": 0.5, "std": None}}}}, "class_counts": {hostile: 1}}
    fields["contexts"] = dict.fromkeys(("aspects", "targets", "target_texts"), [hostile])
    fields["environment"] = dict.fromkeys(("device", "threads", "python", "torch", "transformers"), "5")
    report = run_report(model_type="cg-bert", rows={"train": 1}, runs=[best], **fields)
    recipe = recipe_for(tmp_path, dataset="files", description=hostile, model_type="cg-bert", model_config={})
    write_card(tmp_path, recipe, report, best)
    card = (tmp_path / "README.md").read_text()
    body = card.split("\n---\n", 1)[1].replace(repr([hostile]), "")
    assert "<script" not in body and "&lt;script&gt;" in body and "\n# y" not in body
    assert "\x1b" not in card
