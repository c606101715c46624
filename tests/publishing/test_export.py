# SPDX-License-Identifier: Apache-2.0
"""Exported models against torch: the same numbers on texts, sizes and lengths that the export did not see."""

import itertools
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import torch
from hf_emotion.modeling.text_processing import GATE_FILE, TfidfGate
from model_cases import ANY_ENCODER_CASES, BY_ID, EMOTIONS, LABELS, TARGETED_TEXTS, make_tokenizer
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from toolkit_helpers import assert_close, files_in, invoke, run_report, torch_threads, write_csv
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, BertConfig, PreTrainedTokenizerFast
from transformers.utils import logging as transformers_logging

import hf_emotion.publishing.export as export_module
from hf_emotion import DialoguePredictor, OnnxReplyGenerator, Predictor, ReplyGenerator, TargetedPredictor
from hf_emotion.inference import load_predictor
from hf_emotion.publishing.export import export_onnx, read_texts
from hf_emotion.runs.evaluate import evaluate
from hf_emotion.runtime import compact
from hf_emotion.runtime.batching import encode_texts, pad_rows
from hf_emotion.runtime.exported import ExportedTokenizer, write_tokenizer_facts
from hf_emotion.tasks import emotion_classification


pytest_plugins = ["toolkit_fixtures"]

SEEN = ("joy", "so happy this day", "the rain is not calm", "sad home .")  # by the report, and never below
LONG = "this is not a very calm day , I feel nervousness and fear . rain , rain , rain"
TEXTS = ("I am so happy today!", "anger", LONG, "sun . sun . rain", "fear fear the day")
DIALOGUES = (
    [("Ann", "I am so happy today!"), ("Bo", "anger"), ("Ann", "this is not a very calm day"), ("Bo", "rain")],
    [("Bo", "sun . sun . rain")],
    [("Ann", "fear"), ("Ann", "the home is so calm today ! I feel joy"), ("Cy", "sick")],
)
CONTEXTS = ("I am so happy today!", "the rain is very sad . this is anger and fear", "home", "not a calm day")


def save(folder: Path, case_id: str, **config) -> Path:
    """A checkpoint of one layer with its tokenizer."""
    model = BY_ID[case_id].build(**{"num_hidden_layers": 1, **config})
    model.save_pretrained(folder)
    make_tokenizer(folder / "tokenizer", model_max_length=32).save_pretrained(folder)
    shutil.rmtree(folder / "tokenizer")
    return folder


def arrays(inputs: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in inputs.items()}


def exported(checkpoint: Path, **arguments) -> Path:
    output = checkpoint.with_name(f"{checkpoint.name}-onnx")
    with torch_threads(1):
        export_onnx(checkpoint, output, **arguments)
    return output


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("export")


@pytest.fixture(scope="module")
def label_aware(root) -> Path:
    """Multi-label, with thresholds and a language, and what says how its corpus was read."""
    folder = save(root / "label-aware", "label-aware-pooler-hidden-balanced", languages=["en"])
    run_report(dataset_options={"label_separator": "|"}).write(folder)
    return folder


@pytest.fixture(scope="module")
def by_command(label_aware, root) -> tuple[Path, str]:
    (root / "texts.txt").write_text("\n".join([SEEN[0], "", *SEEN[1:]]) + "\n", encoding="utf-8")
    verbosity = transformers_logging.get_verbosity()  # see `own_verbosity`
    with torch_threads(1):
        said = invoke("export", label_aware, "-o", root / "label-aware-onnx", "--texts", root / "texts.txt")
    transformers_logging.set_verbosity(verbosity)
    transformers_logging.enable_progress_bar()
    return root / "label-aware-onnx", said


@pytest.fixture(scope="module")
def label_aware_onnx(by_command) -> Path:
    return by_command[0]


@pytest.fixture(scope="module")
def labelled(root) -> Path:
    pairs = [(row % 5, (row + 2) % 5)[: 1 + row % 2] for row in range(len(TEXTS))]
    rows = [[text, "|".join(LABELS[i] for i in pair)] for text, pair in zip(TEXTS, pairs, strict=True)]
    folder = root / "labelled"
    for split in ("train", "dev", "test"):
        write_csv(folder / f"{split}.csv", ["text", "label"], rows)
    return folder


@pytest.fixture(scope="module")
def dialogue(root) -> Path:
    encoder = BY_ID["dialogue-model"].config["encoder_config"].to_dict() | {"num_hidden_layers": 1}
    return save(root / "dialogue", "dialogue-model", encoder_config=BertConfig(**encoder))


def assert_torchs(found: np.ndarray, checkpoint: Path, texts=TEXTS) -> None:
    """They are the probabilities of torch, computed without a predictor's batches."""
    predictor = load_predictor(checkpoint)
    np.testing.assert_allclose(found, np.concatenate([predictor.probabilities([text]) for text in texts]), atol=1e-5)


class TestClassifiers:
    def test_label_aware(self, label_aware, label_aware_onnx):
        predictor = load_predictor(label_aware_onnx)
        assert type(predictor) is Predictor
        assert predictor.predict(["Das war sehr traurig.", "joy"])[1].language.tolist() == ["de", None]
        found = predictor.probabilities([*TEXTS, *TEXTS[::-1]])
        assert_torchs(found, label_aware, [*TEXTS, *TEXTS[::-1]])
        assert np.ptp(found, axis=0).min() > 0.01  # the texts differ
        expected, found = Predictor(label_aware)(TEXTS), predictor(TEXTS)  # with the thresholds
        assert 0 < sum(map(len, found)) < len(TEXTS) * len(LABELS)
        for one, other in zip(expected, found, strict=True):
            assert [item["label"] for item in one] == [item["label"] for item in other]
        config = json.loads((label_aware_onnx / "config.json").read_text())
        assert not {"auto_map", "custom_pipelines"} & config.keys()  # of code that is not there
        long = [" ".join(TEXTS * 3), TEXTS[1]]  # windows
        folders = (label_aware_onnx, label_aware)
        found, expected = (Predictor(one, max_length=14).probabilities(long) for one in folders)
        np.testing.assert_allclose(found, expected, atol=1e-5)

    @pytest.mark.slow
    @pytest.mark.parametrize("case_id", ANY_ENCODER_CASES)
    def test_any_encoder(self, root, case_id):
        BY_ID[case_id].build().save_pretrained(folder := root / case_id)
        make_tokenizer(folder, model_max_length=32).save_pretrained(folder)
        export_onnx(folder, root / f"{case_id}-onnx", texts=TEXTS)
        assert_torchs(load_predictor(root / f"{case_id}-onnx").probabilities(list(TEXTS)), folder)

    def test_the_graph_names_no_file_of_the_machine(self, label_aware_onnx):
        """Exported folders are published; torch's exporter notes at each node which lines of which files led to it."""
        content = (label_aware_onnx / "model.onnx").read_bytes()
        for folder in (Path(export_module.__file__).parents[1], Path(torch.__file__).parent, Path.home()):
            assert str(folder).encode() not in content
        assert b".py" not in content

    @pytest.mark.slow
    def test_a_gate_that_scales(self, root):
        gated = save(root / "gated", "esa-multi-label-thresholds", tfidf_gating="scale")
        TfidfGate(idf={"happy": 2.5, "rain": 1.2, "the": 1.0}, unseen_idf=3.0).save_pretrained(gated)
        output = exported(gated, texts=SEEN)
        assert (output / GATE_FILE).read_bytes() == (gated / GATE_FILE).read_bytes()
        found = load_predictor(output).probabilities(TEXTS)
        assert_torchs(found, gated)
        plain = load_predictor(gated)
        plain.gate = TfidfGate(idf={}, unseen_idf=1.0)
        assert np.abs(found - plain.probabilities(TEXTS)).max() > 1e-3  # the gate is in it
        ids = torch.tensor([[2, 7, 9, 8, 3], [0, 0, 2, 6, 3]])  # padding in front
        inputs = {"input_ids": ids, "attention_mask": (ids > 0).long(), "token_gates": torch.ones(2, 5)}
        with torch.no_grad():
            expected = plain.model(**inputs).logits
        found = load_predictor(output).model(**arrays(inputs)).logits
        np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-4)

    @pytest.mark.release
    @pytest.mark.parametrize(("case", "rows"), [("qacg-per-head-context-gate-bias", 6), ("label-aware-aspects", 6)])
    def test_targets_and_aspects(self, root, case, rows):
        targeted = save(root / case, case)
        output = exported(targeted, texts=SEEN, quantize="uint8")
        predictor = load_predictor(output)
        assert type(predictor) is TargetedPredictor
        expected, found = TargetedPredictor(targeted)(TARGETED_TEXTS), predictor(TARGETED_TEXTS)
        for ours, theirs in zip(sum(expected, []), sum(found, []), strict=True):
            assert [theirs[name] for name in ("target", "aspect")] == [ours[name] for name in ("target", "aspect")]
            assert theirs["scores"] == pytest.approx(ours["scores"], abs=0.1)
        assert json.loads((output / "parity.json").read_text())["float32"]["rows"] == 2 * rows * len(SEEN)

    @pytest.mark.release
    def test_dialogues_behind_earlier_turns(self, root):
        alone = {"num_hidden_layers": 0, "num_attention_heads": 0, "positional_encoding": "none"}
        folder = save(root / "window", "dialogue-model", context_turns=2, **alone)
        predictor = load_predictor(exported(folder, texts=[[(None, text) for text in SEEN]]))
        expected = load_predictor(folder).probabilities(DIALOGUES)
        np.testing.assert_allclose(predictor.probabilities(DIALOGUES), expected, atol=1e-5)

    @pytest.mark.release
    def test_dialogues(self, dialogue):
        predictor = load_predictor(exported(dialogue, texts=[[(None, text) for text in SEEN], [(None, SEEN[0])]]))
        assert type(predictor) is DialoguePredictor
        torch_predictor = DialoguePredictor(dialogue)
        mask = torch.tensor([[1, 1, 1, 1], [0, 1, 0, 1]])  # padding in front and between
        inputs = {"utterance_embeds": torch.randn(2, 4, 16), "utterance_mask": mask, "speaker_ids": mask * 1}
        with torch.no_grad():
            expected = torch_predictor.model(**inputs).logits[mask.bool()]
        found = predictor.model(**arrays(inputs)).logits[mask.bool().numpy()]
        np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-4)
        ids = torch.tensor([[2, 7, 9, 8, 3], [0, 0, 2, 6, 3]])
        tokens = (ids, (ids > 0).long())
        with torch.no_grad():
            expected = torch_predictor.model.dialogue.encode_utterances(*tokens)
        found = predictor.model.encode_utterances(input_ids=tokens[0].numpy(), attention_mask=tokens[1].numpy())
        np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-4)
        expected = sum((torch_predictor([turns])[0] for turns in DIALOGUES), [])
        for one, other in zip(expected, sum(predictor(DIALOGUES), []), strict=True):
            assert (one["speaker"], one["utterance"]) == (other["speaker"], other["utterance"])
            assert other["scores"] == pytest.approx(one["scores"], abs=1e-5)


class TestFolder:
    def test_command_evaluate_and_predict(self, label_aware, by_command, labelled, argv, own_verbosity):
        output, printed = by_command
        assert "float32" in printed and str(output) in printed.replace("\n", "")
        report = json.loads((output / "parity.json").read_text())
        assert report["float32"]["texts"] == len(SEEN) and report["float32"]["labels"] == 5
        assert 0 <= report["float32"]["max_logit_difference"] < 1e-4
        assert 0 <= report["float32"]["max_score_change"] < 1e-4
        assert "speed" not in report and "times as fast" not in printed  # four texts
        said = argv("predict", output, "what a calm day", "--json", "--top-k", "5")
        assert_close(json.loads(said.out)["labels"], Predictor(label_aware)("what a calm day", top_k=5)[0])
        predictors = [load_predictor(folder) for folder in (label_aware, output)]
        measured = [evaluate(one, "files", data_dir=labelled)["metrics"]["tuned"] for one in predictors]
        figures = [{name: x for name, x in values.items() if isinstance(x, float)} for values in measured]
        assert figures[0] == pytest.approx(figures[1], abs=1e-6) and len(figures[0]) > 5

    @pytest.mark.parametrize("quantize", ["int8", "uint8"])
    def test_weights_of_8_bits(self, label_aware_onnx, root, quantize):
        folder = shutil.copytree(label_aware_onnx, root / f"weights-{quantize}")
        compact.quantize_graph(folder / "model.onnx", quantize)
        tensors = onnx.load(folder / "model.onnx").graph.initializer
        types = {tensor.data_type for tensor in tensors if len(tensor.dims) == 2}
        assert types & {onnx.TensorProto.INT8, onnx.TensorProto.UINT8} == {getattr(onnx.TensorProto, quantize.upper())}
        exact, found = (Predictor(one) for one in (label_aware_onnx, folder))
        together = found.probabilities(TEXTS)
        assert 1e-5 < np.abs(together - exact.probabilities(TEXTS)).max() < 0.05
        alone = np.concatenate([found.probabilities([text]) for text in TEXTS])
        np.testing.assert_allclose(alone, together, rtol=0, atol=1e-4)  # no scale belongs to a batch

    def test_processors_that_saturate(self, monkeypatch, tmp_path):
        monkeypatch.setattr(compact, "Path", lambda path: tmp_path / path.rpartition("/")[2])
        flags = {"flags : sse4_2 avx2": True, "flags : avx2 avx512_vnni": False, "flags : avx2 avx_vnni": False}
        for flag, saturates in {**flags, "Features : asimd": False}.items():
            (tmp_path / "cpuinfo").write_text(flag)
            monkeypatch.setattr(compact.platform, "machine", lambda f=flag: "x86_64" if "flags" in f else "aarch64")
            assert compact.saturates() is saturates, flag

    @pytest.mark.release
    def test_uint8(self, label_aware, label_aware_onnx, labelled, root):
        output = root / "uint8"
        with torch_threads(1):
            options = {"label_separator": "|", "labels": LABELS}
            report = export_onnx(label_aware, output, "uint8", SEEN, "files", "test", labelled, options)
        operators = {node.op_type for node in onnx.load(output / "model.onnx").graph.node}
        assert "MatMulInteger" in operators
        exact, found = (Predictor(folder).probabilities(TEXTS) for folder in (label_aware_onnx, output))
        assert 1e-5 < np.abs(exact - found).max() < 0.1
        assert 1e-4 < report["uint8"]["max_logit_difference"] < 1 and report["float32"]["max_logit_difference"] < 1e-4
        assert "speed" not in report  # four texts
        assert report["uint8"]["max_score_change"] < 1e-4
        found = evaluate(load_predictor(output), "files", data_dir=labelled)["metrics"]["tuned"]["macro_f1"]
        assert report["metrics"]["tuned/macro_f1"]["uint8"] == pytest.approx(found)
        assert load_predictor(output).fingerprint() != load_predictor(label_aware_onnx).fingerprint()

    def test_a_copy_is_the_same_model_and_other_weights_are_another(self, label_aware_onnx, tmp_path):
        copy = shutil.copytree(label_aware_onnx, tmp_path / "copy")
        own = load_predictor(label_aware_onnx).fingerprint()
        assert load_predictor(copy).fingerprint() == own
        (copy / "weights.bin").write_bytes(b"beside the graph")
        assert load_predictor(copy).fingerprint() != own

    @pytest.mark.parametrize(("difference", "logit"), [(2e-4, 0.1), (2e-4, 1.9), (float("nan"), 9.0)])
    def test_what_counts_as_a_difference(self, label_aware, root, monkeypatch, difference, logit):
        found = {"max_logit_difference": difference, "largest_logit": logit}
        own = {"write": lambda *_: [], "load_exported": lambda *_: None, "compare": lambda *_: found}
        exporter = replace(emotion_classification.TASK.exporter(), **own)
        monkeypatch.setattr(emotion_classification.EmotionClassification, "exporter", lambda self: exporter)
        with pytest.raises(ValueError, match="differs from torch"):
            export_onnx(label_aware, root / "differs", texts=["joy"])
        assert not (root / "differs").exists()


def make_bpe_tokenizer() -> PreTrainedTokenizerFast:
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    bpe.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=400, special_tokens=special, show_progress=False))
    bpe.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    names = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=bpe, model_max_length=32, **names)


class TestWithoutTorch:
    @pytest.mark.parametrize(
        ("base", "pairs", "max_length"),
        [("bert", False, 32), ("bert", True, 10), ("roberta", False, 10), ("roberta", True, 32)],
    )
    def test_tokens_are_those_of_transformers(self, base, pairs, max_length, tmp_path):
        tokenizer = make_tokenizer(tmp_path, model_max_length=32) if base == "bert" else make_bpe_tokenizer()
        tokenizer.save_pretrained(tmp_path)
        write_tokenizer_facts(tokenizer, tmp_path)
        texts = [*TEXTS, "Ünïcödé  \u2028 text 🙂!", "joy " * 20]
        segments = [texts, ["calm"] * len(texts)] if pairs else [texts]
        gate = TfidfGate(idf={"joy": 2.0}, unseen_idf=1.0)
        config = SimpleNamespace(tfidf_gating="scale")
        expected, found = (
            encode_texts(one, segments, max_length, None if pairs else gate, config)
            for one in (AutoTokenizer.from_pretrained(tmp_path), ExportedTokenizer(tmp_path))
        )
        assert set(found[0]) == set(expected[0])
        for name in found[0]:
            assert [list(row) for row in found[0][name]] == [list(row) for row in expected[0][name]], name
        assert [values.tolist() for values in found[1]] == [values.tolist() for values in expected[1]]
        assert max_length == 32 or found[1].truncated.any()

    def test_damaged_files(self, label_aware_onnx, tmp_path):
        folder = shutil.copytree(label_aware_onnx, tmp_path / "damaged")
        for name in ("prediction.json", "tokenizer.json", "config.json"):
            whole = (folder / name).read_text()
            (folder / name).write_text(whole[:-20])
            with pytest.raises(ValueError, match=f"{name} .*export the model again"):
                load_predictor(folder)
            (folder / name).write_text(whole)
        (folder / "config.json").write_text("{}")
        with pytest.raises(ValueError, match="config.json names no labels .*export the model again"):
            load_predictor(folder)

    def test_padding(self):
        tokenizer = SimpleNamespace(pad_token_id=7, pad_token_type_id=1, padding_side="left")
        rows = {"input_ids": [[1, 2, 3], [4]], "token_type_ids": [[0, 0, 1], [0]], "token_gates": [[0.5] * 3, [0.25]]}
        padded = pad_rows(tokenizer, {**rows, "context_ids": [2, 0]})
        assert {name: array.tolist() for name, array in padded.items()} == {
            "input_ids": [[1, 2, 3], [7, 7, 4]],
            "token_type_ids": [[0, 0, 1], [1, 1, 0]],
            "token_gates": [[0.5, 0.5, 0.5], [1, 1, 0.25]],
            "attention_mask": [[1, 1, 1], [0, 0, 1]],
            "context_ids": [2, 0],
        }
        assert pad_rows(tokenizer, {"input_ids": [[1], [2, 3]]}, "right")["input_ids"].tolist() == [[1, 7], [2, 3]]
        tokenizer.pad_token_id = None
        with pytest.raises(ValueError, match="no padding token"):
            pad_rows(tokenizer, rows)


class TestErrors:
    def test_missing_packages(self, label_aware, label_aware_onnx, root):
        for package, use, message in (
            *((name, lambda: export_onnx(label_aware, root / "none"), name) for name in ("onnx", "onnxscript")),
            ("onnxruntime", lambda: load_predictor(label_aware_onnx), "needs onnxruntime"),
        ):
            with pytest.MonkeyPatch.context() as patch:
                patch.setitem(sys.modules, package, None)
                with pytest.raises(ModuleNotFoundError, match=rf"{message}: pip install 'hf-emotion\[onnx\]'"):
                    use()

    def test_arguments(self, label_aware, label_aware_onnx, root):
        taken, blank = shutil.copytree(label_aware_onnx, root / "taken"), root / "blank.txt"
        (taken / "model.onnx").write_bytes((taken / "model.onnx").read_bytes()[:1000])
        blank.write_text("\n \n", encoding="utf-8")
        before = files_in(root)
        both = {"texts": ["joy"], "dataset": "quickstart"}
        compared = "`texts` are compared.*leave out `dataset` and `options`"
        for call, error, message in (
            (lambda: export_onnx(label_aware, taken, texts=["joy"]), FileExistsError, "not an empty folder"),
            (lambda: export_onnx(label_aware_onnx, root / "new"), ValueError, "exported already"),
            (lambda: export_onnx(label_aware, root / "new", **both), ValueError, compared),
            (lambda: read_texts(blank, label_aware), ValueError, "holds no text"),
            (lambda: load_predictor(taken), OSError, "cannot be read"),
            (lambda: Predictor(label_aware_onnx, device="cuda"), ValueError, "runs on the CPU as it is"),
            (lambda: TargetedPredictor(label_aware_onnx), ValueError, "use Predictor"),
        ):
            with pytest.raises(error, match=message):
                call()
        assert files_in(root) == before

    def test_a_corpus_that_does_not_fit(self, label_aware, root):
        for part in ("train", "dev", "test"):
            write_csv(root / "aspects" / f"{part}.csv", ["text", "aspect", "label"], [["a day", "food", "good"]])
        with pytest.raises(ValueError, match="unknown label 'good'"):  # it is read with the options of the run
            export_onnx(label_aware, root / "none", dataset="files", data_dir=root / "aspects")
        assert not (root / "none").exists()


@pytest.mark.release
def test_dialogues_in_a_file(dialogue, root):
    path = root / "turns.txt"
    path.write_text("Ann: so happy\nanger\n\n\nBo: the day\n", encoding="utf-8")
    assert read_texts(path, dialogue) == [[("Ann", "so happy"), (None, "anger")], [("Bo", "the day")]]


WITH_GPT_2, WITH_BERT = "gpt2-mod-ln", pytest.param("bert-mod-ln-replace-encoder-mixtures", marks=pytest.mark.slow)


@pytest.fixture(scope="module", params=[WITH_GPT_2, WITH_BERT])
def generator(request, root) -> tuple[Path, Path]:
    """A checkpoint and what was exported from it: with γ and β in the decoder, and in the encoder alone."""
    checkpoint = save(root / request.param, request.param, seed=2)  # whose replies differ
    return checkpoint, exported(checkpoint, texts=SEEN)


def test_greedy_replies_are_torchs(generator):
    checkpoint, output = generator
    model, replies = AutoModelForSeq2SeqLM.from_pretrained(checkpoint), OnnxReplyGenerator(output)
    assert not (output / "model.onnx").exists()
    different, greedy, start = set(), {"do_sample": False, "max_new_tokens": 9}, model.config.context_start_token_id
    for (emotion, name), context in itertools.product(enumerate(EMOTIONS), CONTEXTS):
        ids = [*replies.tokenizer(context, add_special_tokens=False)["input_ids"], 3]
        ids = torch.tensor([ids if start is None else [start, *ids]])
        expected, found = (
            one.generate(ids, emotion_ids=torch.tensor([emotion]), **greedy) for one in (model, replies)
        )
        assert found.tolist() == expected.tolist()
        text = replies.tokenizer.decode(expected[0], skip_special_tokens=True).strip()
        assert replies([(context, name)], **greedy) == [text]
        different.add(tuple(expected[0].tolist()))
    assert len(different) > 4  # neither contexts nor emotions are all the same


def test_generate_reads_an_exported_generator(generator):
    """Its replies, sampled ones too, are those of the checkpoint; what it cannot do it says."""
    common = (*CONTEXTS, "--all-emotions", "--seed", "3", "--max-new-tokens", "5")
    expected, found = (invoke("generate", folder, *common) for folder in generator)
    assert found == expected
    with pytest.raises(ValueError, match="does not take `num_beams`"):
        ReplyGenerator(generator[1])("the day", "joy", num_beams=2)
    with pytest.raises(ValueError, match="only predicts: take the checkpoint"):
        evaluate(generator[1], "mojitalk")


@pytest.mark.slow
class TestReplies:
    def test_sampling(self, generator):
        """Every token is one of the k most probable, and a seed repeats them."""
        _, output = generator
        replies = OnnxReplyGenerator(output)
        batch = {"input_ids": torch.tensor([[7, 9, 3]] * 6), "emotion_ids": torch.arange(6) % 5}
        sources = [torch.Generator().manual_seed(seed) for seed in (0, 0, 1)]
        drawn = [replies.generate(**batch, do_sample=True, top_k=3, generator=source) for source in sources]
        assert drawn[0].tolist() == drawn[1].tolist() != drawn[2].tolist()
        state = replies.start(**batch)
        for position in range(drawn[0].shape[1] - 1):
            best = replies.step(drawn[0][:, position : position + 1], state).topk(3).indices
            for row, token in enumerate(drawn[0][:, position + 1].tolist()):
                assert token in best[row] or token == replies.config.pad_token_id
        greedy = replies.generate(**batch, do_sample=False)
        assert replies.generate(**batch, do_sample=True, top_k=1).tolist() == greedy.tolist()

    def test_settings_of_the_checkpoint(self, generator, root, caplog):
        """Those that `generation_config.json` names are torch's; others are told."""
        checkpoint, output = generator
        settings = {"do_sample": False, "max_new_tokens": 6, "repetition_penalty": 5.0}
        folder = shutil.copytree(output, root / f"{output.name}-settings")
        model = AutoModelForSeq2SeqLM.from_pretrained(checkpoint)
        model.generation_config.update(**settings, num_beams=2)
        model.generation_config.save_pretrained(folder)
        replies = OnnxReplyGenerator(folder)
        assert "num_beams" in caplog.text and "repetition_penalty" not in caplog.text
        batch = {"input_ids": torch.tensor([[7, 9, 3]] * 5), "emotion_ids": torch.arange(5)}
        expected = model.generate(**batch, num_beams=1)
        found = replies.generate(**batch)
        assert found.shape == expected.shape == (5, 7) and found.tolist() == expected.tolist()
        replies.generation_config.update(max_new_tokens=None, max_length=5)  # with the start token
        assert replies.generate(**batch).tolist() == expected[:, :5].tolist()
        greedy = replies.generate(**batch, repetition_penalty=1.0).tolist()
        for sure in ({"temperature": 1e-4}, {"top_p": 1e-6}):
            settings = {"do_sample": True, "top_k": 0, "repetition_penalty": 1.0, **sure}
            assert replies.generate(**batch, **settings).tolist() == greedy

    def test_int8(self, generator, root):
        """Every product with a weight is quantized, also that of the head, which shares its weight with the embeddings."""
        _, output = generator
        folder = shutil.copytree(output, root / f"{output.name}-int8")
        for path in (folder / "encoder.onnx", folder / "decoder.onnx"):
            compact.quantize_graph(path, "uint8")
            graph = onnx.load(path).graph
            weights = {tensor.name for tensor in graph.initializer}
            assert not any(node.input[1] in weights for node in graph.node if node.op_type in ("MatMul", "Gemm"))
        logits = []
        for replies in (OnnxReplyGenerator(output), OnnxReplyGenerator(folder)):
            state = replies.start(torch.tensor([[7, 9, 3], [11, 3, 3]]), emotion_ids=torch.tensor([1, 4]))
            logits.append(replies.step(torch.full((2, 1), replies.config.decoder_start_token_id), state))
        assert 1e-5 < (logits[0] - logits[1]).abs().max() < 0.1 * logits[0].abs().max()
        alone = replies.start(torch.tensor([[7, 9, 3]]), emotion_ids=torch.tensor([1]))
        alone = replies.step(torch.tensor([[replies.config.decoder_start_token_id]]), alone)
        torch.testing.assert_close(alone, logits[1][:1], rtol=0, atol=1e-4)

    def test_wrong_arguments(self, generator):
        replies, ids, joy = OnnxReplyGenerator(generator[1]), torch.tensor([[7, 9, 3]]), torch.tensor([0])
        length = "`max_new_tokens` must lie between 1 and 32, got 33"
        for call, message in (
            (lambda: replies.generate(ids, emotion_ids=joy, max_new_tokens=33), length),
            (lambda: replies.generate(ids), "exactly one of `emotion_ids`"),
            (lambda: replies.generate(ids, emotion_ids=joy, do_sample=True, temperature=0), "temperature.*positive"),
            (lambda: replies([("the day", "joyy")]), "did you mean 'joy'"),
            *(
                (lambda c=c: replies([("the day", "joy"), (c, "joy")]), "text 2 of 2")
                for c in ("\u200b", "\ud800", None)
            ),
        ):
            with pytest.raises(ValueError, match=message):
                call()
