# SPDX-License-Identifier: Apache-2.0
"""Models that say that they do not know, or give sets of labels: everything that answers reads the rule from config.json."""

import json
import shutil

import numpy as np
import pytest
from toolkit_helpers import files_in, invoke, recipe_for, report_of, torch_threads, write_jsonl
from transformers import AutoConfig, pipeline

from hf_emotion import Predictor, load_dataset_for, metrics
from hf_emotion.gold import Gold
from hf_emotion.reports.analyze import analyze
from hf_emotion.reports.finished_runs import read_predictions
from hf_emotion.runs.train import train
from hf_emotion.serving.bulk import predict_file
from hf_emotion.tasks.selective import measure_rules
from hf_emotion.taxonomies import TAXONOMIES


pytest_plugins = ["toolkit_fixtures"]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Figures take longer than all else of an analysis."""
    monkeypatch.setattr("hf_emotion.reports.analyze._figures", lambda *arguments: {})
    with torch_threads(1):
        yield


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return load_dataset_for("quickstart")["test"]["text"][:24]


@pytest.fixture
def copied(request, tmp_path):
    return lambda name: shutil.copytree(request.getfixturevalue(name), tmp_path / "run")


@pytest.fixture(params=["tiny_run", "single_run"])
def run(request, copied):
    return copied(request.param)


def is_multi_label(run) -> bool:
    return "thresholds" in report_of(run)["runs"][0]


def config_of(run) -> dict:
    return json.loads((run / "config.json").read_text())


def set_config(run, **fields):
    (run / "config.json").write_text(json.dumps(config_of(run) | fields))


def answers_of(path, texts) -> list[list[str]]:
    """What the pipeline of a folder says, by the code beside the weights."""
    return labels_of(pipeline("emotion-classification", model=str(path), trust_remote_code=True)(list(texts)))


def labels_of(results) -> list[list[str]]:
    return [[item["label"] for item in items] for items in results]


class TestAbstention:
    def test_the_threshold_comes_from_dev_and_is_kept(self, run):
        before = config_of(run)
        result = analyze(run, abstain={"coverage": 0.7})
        dev, test = (read_predictions(run, split, is_multi_label(run)) for split in ("validation", "test"))
        kept = config_of(run)["abstention"]
        sure = np.sort(dev.probabilities.max(axis=1))[::-1]
        assert kept == {"coverage": 0.7, "threshold": pytest.approx(sure[int(np.ceil(0.7 * len(sure))) - 1])}
        assert {**config_of(run), "abstention": None} == {**before, "abstention": None}
        assert result["kept"] == {"abstention": kept}
        card = (run / "README.md").read_text()
        share = (test.probabilities.max(axis=1) >= kept["threshold"]).mean()
        assert card.count("## When it is unsure") == 1 and f"answers {share:.1%} of the rows" in card
        assert card.index("## When it is unsure") < card.index("## Training")
        analyze(run, prediction_sets=0.8)  # replaces it
        assert "abstention" not in config_of(run) and config_of(run)["prediction_sets"]["coverage"] == 0.8
        assert "split conformal" in (run / "README.md").read_text()
        analyze(run)  # leaves all as it is
        assert config_of(run)["prediction_sets"]["coverage"] == 0.8
        analyze(run, prediction_sets="off")
        assert config_of(run) == before and "When it is unsure" not in (run / "README.md").read_text()

    def test_all_that_answer_honour_it(self, run, texts, tmp_path):
        plain = Predictor(run)
        scores = plain.probabilities(texts)
        sure = scores.max(axis=1)
        threshold = float(np.sort(sure)[7:9].mean())
        set_config(run, abstention={"coverage": 0.6, "threshold": threshold})
        predictor = Predictor(run)
        answers = zip(labels_of(plain(texts)), sure, strict=True)
        expected = [labels if own >= threshold else ["abstained"] for labels, own in answers]
        assert 0 < expected.count(["abstained"]) < len(texts)
        found = predictor(texts)
        assert labels_of(found) == expected
        refused = [items[0]["score"] for items in found if items[0:1] and items[0]["label"] == "abstained"]
        assert refused == pytest.approx(sure[sure < threshold])
        assert labels_of(predictor(texts, top_k=2)) == labels_of(plain(texts, top_k=2))
        assert answers_of(run, texts) == expected
        rows = write_jsonl(tmp_path / "texts.jsonl", [{"text": text} for text in texts])
        predict_file(predictor, rows, tmp_path / "out.jsonl", progress=False)
        written = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
        assert [row["predicted_labels"] for row in written] == expected
        service = predictor.service()
        request = service.request(inputs=texts)
        answered = service.present(service.compute(service.read(request)[0]), request)
        assert labels_of([one["labels"] for one in answered]) == expected
        assert service.about["abstention"]["threshold"] == threshold
        shown = predictor.service().page.table(texts[int(sure.argmin())], [], None)
        assert [row[0] for row in shown.rows if row[-1]] == ["abstained"]

    def test_evaluate_tells_coverage_and_risk(self, run, single_label):
        kept = analyze(run, abstain={"coverage": 0.6})["kept"]["abstention"]["threshold"]
        corpus = ("quickstart",) if is_multi_label(run) else ("files", "--data-dir", single_label)
        found = json.loads(invoke("evaluate", run, "--dataset", *corpus, "--json"))
        test = read_predictions(run, "test", is_multi_label(run))
        sure = test.probabilities.max(axis=1) >= kept
        assert found["abstention"]["coverage"] == pytest.approx(sure.mean(), abs=0.02)
        if not is_multi_label(run):
            wrong = (test.probabilities.argmax(axis=1) != test.gold.values)[sure].mean()
            assert found["abstention"]["risk"] == pytest.approx(wrong, abs=0.02)
        assert "answered: " in invoke("evaluate", run, "--dataset", *corpus)
        analyze(run, prediction_sets=0.6)
        found = json.loads(invoke("evaluate", run, "--dataset", *corpus, "--json"))["prediction_sets"]
        assert 0 < found["coverage"] <= 1 and found["size"] > 0 and len(found["labels"]) == len(Predictor(run).labels)

    def test_new_labels_drop_it(self, copied):
        run = copied("tied_run")
        analyze(run, abstain={"coverage": 0.5})
        assert Predictor(run).abstention is not None
        more = Predictor(run, add_labels=["hunger"])
        assert more.abstention is None and more.model.config.abstention is None
        assert getattr(AutoConfig.from_pretrained(run, num_labels=3), "abstention", None) is None

    def test_a_training_keeps_it(self, base_bert, single_label, tmp_path):
        fields = {"dataset": "files", "train_fraction": 1.0, "model_type": None, "model_config": {}}
        recipe = recipe_for(base_bert, name="sure", abstain={"coverage": 0.5}, **fields)
        train(recipe, tmp_path / "run", data_dir=single_label)
        first = config_of(tmp_path / "run")["abstention"]
        analyze(tmp_path / "run", abstain={"coverage": 0.5})
        assert config_of(tmp_path / "run")["abstention"] == first
        card = (tmp_path / "run" / "README.md").read_text()
        assert "text-classification` of transformers does not know this rule" in card
        # What goes on from this run without the field does not keep the old threshold.
        train(recipe_for(tmp_path / "run", name="on", **fields), tmp_path / "on", data_dir=single_label)
        assert config_of(tmp_path / "on").get("abstention") is None


class TestSets:
    def test_all_that_answer_give_them(self, run, texts):
        plain = Predictor(run)
        scores = plain.probabilities(texts)
        threshold = float(np.quantile(scores, 0.6))
        set_config(run, prediction_sets={"coverage": 0.9, "threshold": threshold})
        expected = []
        for row in scores:
            order = np.argsort(-row, kind="stable")
            own = [plain.labels[i] for i in order if row[i] >= np.float32(threshold)]
            expected.append(own or ([] if plain.multi_label else [plain.labels[order[0]]]))
        predictor = Predictor(run)
        assert labels_of(predictor(texts)) == expected and len({len(own) for own in expected}) > 1
        assert answers_of(run, texts) == expected
        if plain.multi_label:
            service = predictor.service()
            request = service.request(inputs=texts, thresholds=0.5)  # asks for labels above these
            answered = service.present(service.compute(service.read(request)[0]), request)
            plain.use_thresholds([0.5] * 28)
            assert labels_of([one["labels"] for one in answered]) == labels_of(plain(texts))

    def test_groups_of_a_taxonomy_hold_the_labels_of_the_set(self, copied, texts):
        run = copied("tiny_run")
        median = float(np.median(Predictor(run).probabilities(texts)))
        set_config(run, prediction_sets={"coverage": 0.9, "threshold": median})
        groups = {label: group for group, labels in TAXONOMIES["sentiment"].items() for label in labels}
        fine, coarse = labels_of(Predictor(run)(texts)), labels_of(Predictor(run, taxonomy="sentiment")(texts))
        assert [{groups[label] for label in own} for own in fine] == [set(own) for own in coarse]

    def test_own_groups_and_thresholds_by_name(self, copied, texts, tmp_path):
        run = copied("tiny_run")
        plain = Predictor(run)
        plain.use_thresholds({"joy": 0.0, "anger": 1.0})
        changed = {name for name, now in zip(plain.labels, plain.thresholds, strict=True) if now in (0, 1)}
        assert changed == {"joy", "anger"} and all("joy" in own for own in labels_of(plain(texts)))
        with pytest.raises(ValueError, match="no label 'joyy'. Did you mean 'joy'"):
            plain.use_thresholds({"joyy": 0.5})
        own = Predictor(run, taxonomy={"glad": ["joy", "love"], "any": ["joy", "anger"]})
        own.use_thresholds({name: 0.0 if name == "love" else 1.0 for name in plain.labels})
        assert labels_of(own(texts)) == [["glad"]] * len(texts)
        table = own(texts, all_scores=True).to_frame(wide=True)
        scores = plain.probabilities(texts)[:, [plain.labels.index("joy"), plain.labels.index("love")]]
        assert table["probability_glad"].to_numpy() == pytest.approx(scores.max(axis=1), abs=1e-6)
        assert table["decision_glad"].all() and not table["decision_any"].any()
        (tmp_path / "groups.yaml").write_text("glad: [joy, lov]")
        with pytest.raises(ValueError, match="group 'glad': no label 'lov'. Did you mean 'love'"):
            invoke("predict", run, "hello", "--groups", tmp_path / "groups.yaml")


def test_the_figures_of_an_analysis_are_those_of_the_metrics(copied):
    run = copied("single_run")
    result = analyze(run)["selective"]
    dev, test = (read_predictions(run, split, False) for split in ("validation", "test"))
    wrong = (test.probabilities.argmax(axis=1) != test.gold.values).astype(float)
    curve = metrics.risk_coverage(test.probabilities.max(axis=1), wrong)
    assert result["aurc"]["mean"] == pytest.approx(curve["aurc"])
    assert result["risk_at"]["1"]["mean"] == pytest.approx(wrong.mean())
    (entry,) = (entry for entry in result["prediction_sets"] if entry["wanted"] == 0.8)
    assert entry["threshold"] == metrics.set_threshold(dev.gold.values, dev.probabilities, 0.8)
    sets = test.probabilities >= entry["threshold"]
    sets[np.arange(len(sets)), test.probabilities.argmax(axis=1)] = True
    assert entry["size"]["mean"] == pytest.approx(sets.sum(axis=1).mean())
    assert "E-AURC" in (run / "report.html").read_text()


@pytest.mark.parametrize("rule", ["abstention", "prediction_sets"])
def test_rows_without_a_label_are_not_measured(rule):
    scores, labels = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]), np.array([0, 1, -1])
    measured = [
        measure_rules({rule: {"threshold": 0.3}}, Gold(labels[:rows]), scores[:rows], None, ["a", "b"])
        for rows in (2, 3)
    ]
    assert measured[0] == measured[1]


class TestMistakes:
    def test_values_and_forms(self, copied, argv):
        before = files_in(run := copied("tiny_run"))
        for arguments, message in (
            (["--abstain", "coverage=0"], "`abstain.coverage` must lie in (0, 1], got 0.0"),
            (["--abstain", "risk=0.1"], "takes coverage or accuracy"),
            (["--prediction-sets", "1"], "`prediction_sets` must be a coverage and lie in (0, 1), got 1.0"),
            (["--abstain", "coverage=0.9", "--prediction-sets", "0.9"], "excludes `prediction_sets`"),
            (["--abstain", "accuracy=1.0"], "is not reached on the validation rows"),
            *((["--abstain", form], None) for form in ("0.9", "coverage=much")),
            (["--prediction-sets", "many"], None),
        ):
            result = argv("analyze", run, *arguments)
            assert result.code == (1 if message else 2) and files_in(run) == before
            assert (message or "Usage") in " ".join(result.err.split())

    @pytest.mark.parametrize("wanted", [{"abstain": 0.9}, {"abstain": "coverage=0.9"}, {"prediction_sets": "0.9"}])
    def test_other_types(self, tiny_run, wanted):
        with pytest.raises(ValueError, match=f"`{next(iter(wanted))}` takes a number"):
            analyze(tiny_run, **wanted)

    def test_other_runs(self, copied, tiny_run, argv):
        run = copied("tiny_run")
        (run / "predictions.parquet").unlink()
        assert "predictions.parquet" in argv("analyze", run, "--abstain", "coverage=0.9").err
        assert argv("analyze", run, tiny_run, "--abstain", "off").code == 2
        fields = report_of(run) | {"task": "targeted-sentiment", "dataset": "sentihood", "model_type": "qacg-bert"}
        (run / "metrics.json").write_text(json.dumps(fields))
        with pytest.raises(ValueError, match="is for emotions of texts"):
            analyze(run, abstain={"coverage": 0.9})

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"abstention": 0.5}, "`config.abstention` must hold a `threshold`"),
            ({"prediction_sets": {"coverage": 0.9}}, "`config.prediction_sets` must hold a `threshold`"),
            ({"abstention": {"threshold": 1.5}}, "`threshold` in .0, 1."),
            ({"abstention": {"threshold": 0.5}, "prediction_sets": {"threshold": 0.5}}, "both"),
            (
                {"abstention": {"threshold": 0.5}, "id2label": {"0": "abstained", "1": "b", "2": "c"}},
                "named 'abstained'",
            ),
        ],
    )
    def test_damaged_rules(self, copied, texts, fields, message):
        set_config(run := copied("single_run"), **fields)
        for ask in (Predictor, lambda run: answers_of(run, texts[:1])):
            with pytest.raises(ValueError, match=message):
                ask(run)

    def test_logits_are_no_confidence(self, copied, texts):
        run = copied("single_run")
        set_config(run, abstention={"threshold": 0.5})
        classify = pipeline("emotion-classification", model=str(run), trust_remote_code=True)
        with pytest.raises(ValueError, match="is for softmax scores, got `function_to_apply` 'none'"):
            classify(texts[0], function_to_apply="none")
        assert len(classify(texts[0], function_to_apply="none", top_k=None)) == 3
