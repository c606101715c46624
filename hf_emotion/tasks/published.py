# SPDX-License-Identifier: Apache-2.0
"""
The figures that the papers printed: every row of their tables, as fractions; (mean, std) where they give a standard
deviation.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from .emotional_response.published import MOJITALK_PUBLISHED


Figure = float | tuple[float, float]


@dataclass(frozen=True)
class PublishedTable:
    """
    A published table and the recipes that run it.

    Attributes:
        title: the paper, the measured quantity and the data.
        recipes: names of the recipes, in the order of the rows.
        columns: metrics to show, (thresholds, metric) as in `metrics.json`.
        published: row of the paper -> metric -> figure. A recipe's row is its `table_row`.
        encoders: row of the paper -> the pretrained model that it trained, and what else makes its figures differ from ours. Rows that
            trained none are left out.
    """

    title: str
    recipes: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    published: Mapping[str, Mapping[str, Figure]] = field(default_factory=dict)
    encoders: Mapping[str, str] = field(default_factory=dict)


def _of(corpus: str, recipes: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{corpus}/{name}" for name in recipes)


def _rows(names: tuple[str, ...], rows: dict[str, tuple]) -> dict[str, dict[str, Figure]]:
    """Figures in percent (None if the paper has none) -> fractions by metric."""

    def fraction(value):
        return tuple(round(part / 100, 6) for part in value) if isinstance(value, tuple) else round(value / 100, 6)

    return {
        row: {name: fraction(value) for name, value in zip(names, values, strict=True) if value is not None}
        for row, values in rows.items()
    }


_SENTIHOOD = ("strict_accuracy", "aspect_macro_f1", "aspect_auc", "sentiment_accuracy", "sentiment_auc")
_SEMEVAL = ("precision", "recall", "f1", "accuracy_2way", "accuracy_3way", "accuracy_4way")
_ASPECT_RECIPES = ("bert_single", "bert_pair", "cg", "cg_aux", "qacg", "qacg_aux", "cg_sigmoid", "qacg_neg_l1")
_ASPECT_ENCODERS = {
    **dict.fromkeys(("BERT-single (Sun et al. 2019)", "BERT-pair (Sun et al. 2019)"), "BERT-base uncased"),
    **{
        f"{name}{way}": "BERT-base uncased, 25 epochs"
        for name in ("CG-BERT", "QACG-BERT")
        for way in ("", " (auxiliary sentences)")
    },
}
_DIALOGUE_RECIPES = ("utterance", "bilstm", "bilstm_attention", "bilstm_attention_pe")
_DIALOGUE_COLUMNS = tuple(
    ("argmax", name) for name in ("accuracy", "macro_f1", "weighted_f1", "micro_f1_without_neutral")
)

TABLES = {
    "goemotions": PublishedTable(
        "Label-aware attention (Wu, Wang and Liu), Tables 1 and 4: GoEmotions, macro-F1 over 28 labels at threshold 0.3. The paper's ± of "
        "the baseline is the spread over its labels, not over seeds",
        _of("goemotions", ("baseline", "laa_ce", "laa_cb", "laa_cb_strong", "leam_ce")),
        (
            ("fixed", "macro_f1"),
            ("tuned", "macro_f1"),
            ("fixed", "micro_f1"),
            ("fixed", "neutral_to_other"),
            ("fixed", "other_to_neutral"),
        ),
        {
            "Baseline (Demszky et al. 2020)": {"macro_f1": (0.46, 0.19)},
            "LAA + CB": {"macro_f1": (0.52, 0.01)},
            "LAA + CE": {"macro_f1": (0.51, 0.01)},
            "LEAM + CE": {"macro_f1": (0.50, 0.01)},
        },
        {
            "Baseline (Demszky et al. 2020)": "BERT-base cased",
            **dict.fromkeys(("LAA + CB", "LAA + CE", "LEAM + CE"), "BERT-base cased, 10 seeds"),
        },
    ),
    "esa": PublishedTable(
        "RoBERTa with emotion-specific attention and TF-IDF gating (Alqarni et al. 2025), ablation: six emotions, official split",
        _of("emotion6", ("roberta", "esa", "roberta_tfidf", "esa_tfidf", "esa_tfidf_scale")),
        (("argmax", "accuracy"), ("argmax", "macro_f1"), ("argmax", "weighted_f1")),
        {
            "RoBERTa + ESA": {"accuracy": 0.9835},
            "RoBERTa + ESA + TF-IDF gating": {"accuracy": 0.9677, "weighted_f1": 0.97},
        },
        dict.fromkeys(
            ("RoBERTa + ESA", "RoBERTa + ESA + TF-IDF gating"), "RoBERTa-base, presumably split after oversampling"
        ),
    ),
    "meld": PublishedTable(
        "Emotion in dialogue, MELD (no published figures)",
        _of("meld", _DIALOGUE_RECIPES),
        _DIALOGUE_COLUMNS,
    ),
    "emorynlp": PublishedTable(
        "Emotion in dialogue, EmoryNLP (no published figures)",
        _of("emorynlp", _DIALOGUE_RECIPES),
        _DIALOGUE_COLUMNS,
    ),
    "daily_dialog": PublishedTable(
        "Emotion in dialogue, DailyDialog (no published figures)",
        _of("daily_dialog", _DIALOGUE_RECIPES),
        _DIALOGUE_COLUMNS,
    ),
    "dialogue": PublishedTable(
        "BiLSTM with positional encoding and multi-head self-attention, classification report: four classes of IEMOCAP",
        _of("iemocap", ("bilstm_attention_pe",)),
        (("argmax", "accuracy"), ("argmax", "macro_f1"), ("argmax", "weighted_f1")),
        {
            "Classification report, 554 utterances of an unnamed corpus": {
                "accuracy": 0.73,
                "macro_f1": 0.72,
                "weighted_f1": 0.72,
            }
        },
        {"Classification report, 554 utterances of an unnamed corpus": "split not stated"},
    ),
    "mod-ln": PublishedTable(
        "Modulating language models with emotions (Liu et al. 2021), Tables 1-3: MojiTalk (the paper: 597,000 pairs, DeepMoji as judge). Chance at Hits@1 is 0.016",
        _of(
            "mojitalk",
            ("gpt2_vanilla", "gpt2_emotion_token", "gpt2_mod_ln", "gpt2_mod_ln_residual", "bert_mod_ln"),
        ),
        (
            *(("replies", f"hits@{k}") for k in (1, 3, 5)),
            ("replies", "hits@1 of judge 2"),
            *(
                ("replies", name)
                for name in ("ttr_1", "ttr_2", "average_length", "stop_words", "perplexity", "bertscore_f1")
            ),
            ("teacher_forcing", "perplexity"),
        ),
        MOJITALK_PUBLISHED,
        {
            **dict.fromkeys(("Mod-LN BERT, 10 %", "Mod-LN BERT, 100 %"), "BERT-large uncased"),
            **dict.fromkeys(("Mod-LN GPT-2, 10 %", "Mod-LN GPT-2, 100 %"), "GPT-2 medium"),
        },
    ),
    "sentihood": PublishedTable(
        "Context-guided and quasi-attention BERT (Wu and Ong 2021), Table 1: SentiHood",
        _of("sentihood", _ASPECT_RECIPES),
        tuple(("argmax", name) for name in _SENTIHOOD),
        _rows(
            _SENTIHOOD,
            {
                "LR (Saeidi et al. 2016)": (None, 39.3, 92.4, 87.5, 90.5),
                "LSTM-Final (Saeidi et al. 2016)": (None, 68.9, 89.8, 82.0, 85.4),
                "LSTM-Loc (Saeidi et al. 2016)": (None, 69.3, 89.7, 81.9, 83.9),
                "SenticLSTM (Ma et al. 2018)": (67.4, 78.2, None, 89.3, None),
                "Dmu-Entnet (Liu et al. 2018)": (73.5, 78.5, 94.4, 91.0, 94.8),
                "BERT-single (Sun et al. 2019)": (73.7, 81.0, 96.4, 85.5, 84.2),
                "BERT-pair (Sun et al. 2019)": (79.8, 87.9, 97.5, 93.6, 97.0),
                "CG-BERT": ((79.7, 0.3), (87.1, 0.2), (97.5, 0.2), (93.7, 0.2), (97.2, 0.2)),
                "CG-BERT (auxiliary sentences)": ((80.1, 0.2), (88.1, 0.1), (97.6, 0.1), (93.1, 0.3), (97.0, 0.2)),
                "QACG-BERT": ((79.9, 0.4), (88.6, 0.2), (97.3, 0.2), (93.8, 0.2), (97.8, 0.2)),
                "QACG-BERT (auxiliary sentences)": ((80.9, 0.3), (89.7, 0.2), (97.8, 0.2), (93.7, 0.3), (97.1, 0.2)),
            },
        ),
        _ASPECT_ENCODERS,
    ),
    "semeval2014": PublishedTable(
        "Context-guided and quasi-attention BERT (Wu and Ong 2021), Table 2: SemEval-2014 Task 4, restaurants",
        _of("semeval2014", _ASPECT_RECIPES),
        tuple(("argmax", name) for name in _SEMEVAL),
        _rows(
            _SEMEVAL,
            {
                "XRCE (Brun et al. 2014)": (83.23, 81.37, 82.29, None, None, 78.1),
                "NRC-Canada (Kiritchenko et al. 2014)": (91.04, 86.24, 88.58, None, None, 82.9),
                "BERT-single (Sun et al. 2019)": (92.78, 89.07, 90.89, 93.3, 86.9, 83.7),
                "BERT-pair (Sun et al. 2019)": (93.57, 90.83, 92.18, 95.6, 89.9, 85.9),
                "CG-BERT": ((93.02, 0.27), (90.00, 0.33), 91.49, (94.3, 0.3), (89.9, 0.2), (85.6, 0.4)),
                "CG-BERT (auxiliary sentences)": (
                    *((93.12, 0.37), (90.17, 0.23), 91.62),
                    *((94.7, 0.3), (90.1, 0.4), (85.7, 0.5)),
                ),
                "QACG-BERT": ((94.38, 0.31), (90.97, 0.28), 92.64, (95.6, 0.4), (90.1, 0.3), (86.8, 0.8)),
                "QACG-BERT (auxiliary sentences)": (
                    *((94.27, 0.39), (90.12, 0.34), 92.14),
                    *((95.8, 0.3), (90.4, 0.5), (86.9, 0.7)),
                ),
            },
        ),
        _ASPECT_ENCODERS,
    ),
}
