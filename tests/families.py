# SPDX-License-Identifier: Apache-2.0
"""
A tiny run of every family of models, trained by the command line: the record of behaviour is made of
them. All texts are invented. Everything goes by relative paths, so that no folder of the machine gets into a run.
"""

import contextlib
import dataclasses
from pathlib import Path
from typing import Any

import toolkit_helpers as helpers
from model_cases import SPECIAL_TOKENS, WORDS, asymmetric_, make_tokenizer
from toolkit_helpers import ASPECT_WORDS, FEELINGS, PLACES_HEADER, feelings_rows, invoke, places_rows, write_csv
from transformers import BertConfig, BertModel


REPLY_WORDS = "look at again keys cat cake oh no yay good bad so ##y # ? ' - it".split()
VOCABULARY = tuple(dict.fromkeys([*SPECIAL_TOKENS, *WORDS, *FEELINGS, *ASPECT_WORDS, *REPLY_WORDS]))
SIZES = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 12}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
ARGUMENTS = {
    **{"num_train_epochs": 3, "per_device_train_batch_size": 8, "learning_rate": 5e-3},
    **{"lr_scheduler_type": "constant", "use_cpu": True, "bf16": False, "disable_tqdm": True},
}
# Until replies differ from emotion to emotion.
LONGER = {
    **ARGUMENTS,
    **{"max_steps": 240, "learning_rate": 2e-2, "logging_steps": 120},
    **{"eval_strategy": "steps", "eval_steps": 120, "save_strategy": "steps", "save_steps": 120},
}
EMOTIONS = ("anger", "joy", "neutral", "😭")
CUES = dict(zip(EMOTIONS, ("oh no , so bad", "yay , so happy", "a day", "i am sad"), strict=True))
MOJIS = dict(zip(EMOTIONS, "✋😂❤😭", strict=True))
ABOUT = ("rain", "sun", "keys", "home", "cat", "cake")

TEXTS = (
    "I am so happy today!",
    "this is anger, not joy.",
    "the day is neutral rain and a home",
    "so sad, so very sad and not calm",
    "zebra",
)
TARGETED_TEXTS = ("the home is so happy today", "the sun is not joy, the home is bad rain", "sun, home. sun")
TURNS = (
    ("Ann", "i am so happy today"),
    ("Bo", "the anger at home"),
    ("Ann", "this is neutral"),
    (None, "look at the rain again"),
    ("Cleo", "so very sad"),
)
CONTEXTS = ("Look at the rain again", "the cake")


@dataclasses.dataclass(frozen=True)
class Family:
    data: str  # the folder of its corpus
    recipe: dict[str, Any]  # what differs from the recipe that all share
    asks: tuple[tuple[str, ...], ...]  # commands that predict; FOLDER stands for the checkpoint
    pipeline: tuple[str, list, dict[str, Any]]  # task, inputs and arguments of the call of its pipeline
    parts: tuple[str, ...] = (".",)  # the folders of a run that hold a checkpoint
    base: str = "base/bert"  # the folder of its base model
    exported: bool = False  # to ONNX, too


def family(data: str, asks: Any, pipeline: Any, changes: dict[str, Any], **recipe: Any) -> Family:
    own = {name: changes.pop(name) for name in ("parts", "base", "exported") if name in changes}
    return Family(data, {**recipe, **changes}, asks, pipeline, **own)


def classifier(data: str = "feelings", task: str = "emotion-classification", **changes: Any) -> Family:
    options = {"dataset_options": {"label_separator": "|"}} if data == "feelings" else {}
    asks = (("predict", "FOLDER", *TEXTS, "--json"), ("predict", "FOLDER", *TEXTS, "--json", "--top-k", "3"))
    pipeline = (task, list(TEXTS), {"top_k": None})
    return family(f"data/{data}", asks, pipeline, changes, dataset="files", **options)


def targeted(target: bool = True, **changes: Any) -> Family:
    asks: tuple = (("predict", "FOLDER", *TARGETED_TEXTS, "--json"),)
    if target:
        asks += (("predict", "FOLDER", "a day", "--target", "sun", "--json"),)
    recipe = {"dataset": "aspect_files", "dataset_options": {"target_column": "target"} if target else {}}
    pipeline = ("targeted-sentiment", list(TARGETED_TEXTS), {})
    return family(f"data/{'places' if target else 'aspects'}", asks, pipeline, changes, **recipe)


def dialogue(**changes: Any) -> Family:
    lines = [utterance if speaker is None else f"{speaker}: {utterance}" for speaker, utterance in TURNS]
    turns = [{"speaker": speaker, "utterance": utterance} for speaker, utterance in TURNS]
    recipe = {"dataset": "dialogue_files", "model_type": "dialogue-bilstm"}
    recipe["training_arguments"] = {**ARGUMENTS, "num_train_epochs": 6, "learning_rate": 1e-2}
    asks = (("predict", "FOLDER", *lines, "--json"),)
    return family("data/dialogues", asks, ("dialogue-emotion", turns, {}), changes, **recipe)


def generator(**changes: Any) -> Family:
    length = ("--max-new-tokens", "8")
    asks = (
        ("generate", "FOLDER", *CONTEXTS, "--all-emotions", "--greedy", "--json", *length),
        ("generate", "FOLDER", *CONTEXTS, "-e", "joy", "--num-beams", "3", "--json", *length),
    )
    if not changes.get("emotion_tokens"):
        asks += (("generate", "FOLDER", CONTEXTS[0], "-e", "joy=0.7,anger=1.5", "--greedy", "--json", *length),)
    inputs = [{"context": context, "emotion": emotion} for context in CONTEXTS for emotion in EMOTIONS]
    pipeline = ("emotional-response", inputs, {"do_sample": False, "max_new_tokens": 8})
    recipe = {"dataset": "reply_files", "max_length": 20, "training_arguments": LONGER}
    return family("data/pairs", asks, pipeline, changes, **recipe)


WIDE = {"initializer_range": 1.0}
GUIDED = {**WIDE, "context_initializer_range": 0.5}
DIALOGUE = {"initializer_range": 0.5, "hidden_size": 6, "num_attention_heads": 3, "hidden_dropout_prob": 0.0}
NARROWER = {"initializer_range": 0.3}
SCALED = {**NARROWER, "tfidf_gating": "scale"}
GPT2 = {"model_type": "gpt2-mod-ln", "base": "runs/language-model"}
ESA = {"model_type": "roberta-esa", "base": "base/roberta", "data": "single"}
LABEL_AWARE = {"model_type": "label-aware-bert"}

FAMILIES: dict[str, Family] = {
    "label-aware": classifier(**LABEL_AWARE, model_config=WIDE, exported=True),
    "label-aware-untied-hidden": classifier(
        **LABEL_AWARE,
        model_config={**WIDE, "tie_head": False, "head_hidden_size": 6, "class_balanced_beta": 0.9},
    ),
    "label-aware-hidden-pooler": classifier(
        **LABEL_AWARE,
        model_config={**WIDE, "head_hidden_size": 6, "sentence_representation": "pooler", "label_embedding_size": 5},
    ),
    "leam": classifier(**LABEL_AWARE, model_config={**WIDE, "label_attention": "leam"}),
    "esa-filter": classifier(**ESA, model_config={**NARROWER, "tfidf_gating": "filter"}, exported=True),
    "esa-scale": classifier(**ESA, model_config={**SCALED, "esa_pooling": "cls_mean", "head_hidden_size": 6}),
    "dialogue-words": dialogue(model_config={**DIALOGUE, "utterance_encoder": "bilstm", "utterance_size": 8, "num_speakers": 2}),
    "dialogue-encoder": dialogue(model_config={**DIALOGUE, "causal": True}, exported=True),
    "cg": targeted(target=False, model_type="cg-bert", model_config=GUIDED),
    "qacg": targeted(model_type="qacg-bert", model_config={**GUIDED, "auxiliary_sentence": True}, exported=True),
    "qacg-per-head": targeted(model_type="qacg-bert", model_config={**GUIDED, "context_heads": "per_head", "gate_bias": True}),
    "label-aware-places": targeted(**LABEL_AWARE, model_config=WIDE, exported=True),
    "gpt2-mod-ln": generator(**GPT2),
    "gpt2-emotion-tokens": generator(**GPT2, model_config={"modulate_encoder": False, "modulate_decoder": False}, emotion_tokens=True),
    "bert-mod-ln": generator(model_type="bert-mod-ln", model_config={"modulation": "replace"}, exported=True),
    "stock": classifier(task="text-classification", model_config=WIDE),
    "stock-filter": classifier("single", model_config={**WIDE, "tfidf_gating": "filter"}),
    "stock-pair": targeted(model_config={**WIDE, "auxiliary_sentence": True}),
    "seeds": classifier("single", **LABEL_AWARE, model_config=WIDE, seeds=[7, 8], parts=(".", "seed-7", "seed-8")),
    "contexts": targeted(target=False, model_config=WIDE, one_model_per_context=True, parts=("calm", "food")),
}  # fmt: skip
LANGUAGE_MODEL = {
    **{"dataset": "conversations", "dataset_options": {"corpora": ["reply_files"]}, "max_length": 20},
    **{"model_type": "gpt2", "base_model": "scratch", "training_arguments": LONGER},
    "model_config": {
        **{"vocab_size": 270, "n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 48},
        **{"embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0},
    },
}
PARTS = {"train": (48, 0), "dev": (12, 48), "test": (16, 60)}  # rows, number of the first


def write_bases_and_corpora() -> None:
    """`base/` and `data/` in the working directory."""
    bert = Path("base/bert")
    make_tokenizer(bert, VOCABULARY).save_pretrained(bert)
    (bert / "vocab.txt").unlink()
    config = BertConfig(**SIZES, **NO_DROPOUT, vocab_size=len(VOCABULARY), max_position_embeddings=40)
    asymmetric_(BertModel(config), seed=5).save_pretrained(bert)
    invoke("convert", "--to-roberta", bert, "base/roberta")
    for part, (count, first) in PARTS.items():
        write_csv(Path("data/feelings", f"{part}.csv"), ["text", "label"], feelings_rows(count, first))
        single = feelings_rows(count, first, multi_label=False)
        write_csv(Path("data/single", f"{part}.csv"), ["text", "label"], single)
        for name in ("places", "aspects"):
            write_csv(Path("data", name, f"{part}.csv"), PLACES_HEADER, places_rows(count, first))
        write_csv(Path("data/pairs", f"{part}.csv"), ["context", "reply", "emotion"], reply_rows(count, first))
    helpers.write_dialogues(Path("data/dialogues"))


def write_named_corpora() -> None:
    """`data/named` in the working directory: a few rows of every corpus with a name, in its layout; `base/words` knows their labels."""
    helpers.save_base_bert(Path("base/words"), **SIZES)
    folder = Path("data/named")
    for corpus in ("sentihood", "semeval2014", "meld", "emorynlp", "daily_dialog", "iemocap"):
        getattr(helpers, f"write_{corpus}")(folder)
    names = ("sadness", "joy", "love", "anger", "fear", "surprise")
    cues = ("so sad", "joy", "happy", "anger", "fear", "nervous")
    for part, (count, first) in PARTS.items():
        rows = range(first, first + count)
        # 27 is neutral; every fifth row has two labels.
        labels = [f"{number % 28},{(number + 9) % 28}" if number % 5 == 0 else f"{number % 28}" for number in rows]
        text = "".join(
            f"{WORDS[number % 28]} {WORDS[number * 3 % 28]} today\t{label}\tid{number}\n"
            for number, label in zip(rows, labels, strict=True)
        )
        _write(folder / "goemotions" / f"{part}.tsv", text)
        text = "".join(f"i am {cues[number % 6]} {WORDS[number % 28]};{names[number % 6]}\n" for number in rows)
        _write(folder / "emotion6" / f"{'val' if part == 'dev' else part}.txt", text)
        if part != "train":  # so that judges and generator share the dev part
            replies = list(enumerate(reply_rows(count * 4, first * 4), first * 4))
            text = "".join(f"{MOJIS[emotion]} {context} {n}\n" for n, (context, _, emotion) in replies)
            _write(folder / "mojitalk" / f"{part}.ori", text)
            _write(folder / "mojitalk" / f"{part}.rep", "".join(f"{reply}\n" for _, (_, reply, _) in replies))
        conversations = []
        for number in rows:
            about, other = ABOUT[number % 6], ABOUT[number // 6 % 6]
            turns = [("speaker", f"the {about} {number}"), ("listener", f"oh no , {other}")]
            emotion = ("proud", "sad", "joyful")[number % 3]
            values = {"conv_id": f"hit:{number}_conv:{number}", "emotion": emotion, "situation": "the rain"}
            conversations.append({**values, "turns": turns})
        stem = "valid" if part == "dev" else part
        helpers.write_jsonl(folder / "empathetic_dialogues" / f"{stem}.jsonl", conversations)
    _write(folder / "mojitalk" / "emojis64.txt", "".join(f"{emoji}\t{name}\n" for name, emoji in MOJIS.items()))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def reply_rows(count: int, offset: int = 0) -> list[list[str]]:
    """Rows of context, reply and emotion, which the reply's first words tell."""
    rows = []
    for number in range(offset, offset + count):
        emotion, about = EMOTIONS[number % 4], ABOUT[number // 4 % 6]
        context = f"Look at the {about}{' again' * (number // 4 % 3)}"
        rows.append([context, CUES[emotion] + f" , the {about}" * (number % 3), emotion])
    return rows


def recipe_of(name: str) -> dict[str, Any]:
    """The fields of a family's recipe."""
    shared = {"name": name, "max_length": 32, "threshold": 0.4, "seeds": [7], "training_arguments": ARGUMENTS}
    if name == "language-model":
        return {**shared, **LANGUAGE_MODEL}
    family = FAMILIES[name]
    return {**shared, "description": f"A tiny run: {name}", "base_model": family.base, **family.recipe}


@contextlib.contextmanager
def working_in(folder: Path):
    """Relative paths start from `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.chdir(folder):
        yield
