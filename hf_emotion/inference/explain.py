# SPDX-License-Identifier: Apache-2.0
"""Shows what a checkpoint looked at: attention, gradients, integrated gradients and occlusion, as heat maps over words."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..io.names import given
from ..runtime.attribution import Explanation, Merge, captum_attr, refuse_exported
from ..runtime.names import METHODS
from ..runtime.ready import with_weights
from . import load_predictor


def explain(
    checkpoint: str | Path | Any,
    text: str | Sequence[Any],
    labels: Sequence[str] | None = None,
    targets: Sequence[str] | None = None,
    aspects: Sequence[str] | None = None,
    emotions: Sequence[str | Mapping[str, float]] | None = None,
    reply: str | None = None,
    method: str | None = None,
    merge: Merge = "sum",
    layer: int | None = None,
    head: int | None = None,
    max_length: int | None = None,
) -> Explanation:
    """
    Show what a checkpoint looked at when it read a text.

    Methods, over the words of the text, or the utterances of a dialogue:

    - "attention" (default): label-aware BERT: each label's attention over the words. RoBERTa with ESA: the weight of each word, and the
      dimensions whose scale S lies farthest from 1. CG-BERT and QACG-BERT: the attention of `layer` and `head`, summed over the queries
      (figure 5 of the paper), and the gates. Dialogues: each utterance's attention over the others, mean over heads. Other models: the
      attention of the first token in the last layer.
    - "gradient": the gradient of a label's logit with respect to the embedding output, squared norm per token, divided by the
      sentence's maximum (figure 3 of the paper of QACG-BERT).
    - "integrated-gradients" (Sundararajan et al. 2017): gradients of the logit, integrated from the text with every token masked.
    - "occlusion": how much the logit falls when a word is masked.

    Generators show instead ln P of each word of a reply under each emotion, as its difference from the mean over the emotions, and as −ln P.

    Args:
        checkpoint: run folder, Hub id, or a predictor that is loaded already.
        text: a text; a context; or the turns of a dialogue, (speaker, utterance) or "SPEAKER: UTTERANCE".
        labels: names of labels. Default: the most probable ones, at most 5; for targeted sentiment and dialogues the predicted one.
        targets, aspects: for targeted sentiment. Default: the targets in the text, all aspects.
        emotions: for generators, names or mixtures; the reply is generated in the first one and compared under all of them; fewer
            than two: under all emotions of the model.
        reply: for generators, a reply to explain instead of generating one.
        method: see above.
        merge: how to combine the scores of a word's pieces: "sum" or "max" (the piece of the largest magnitude); "none" shows each
            piece.
        layer, head: for CG-BERT and QACG-BERT, counted from 0, which is the default.
        max_length: tokens that are read at once; default: as many as in training; a loaded predictor has its own.

    Raises:
        OSError: no such checkpoint.
        ModuleNotFoundError: the method needs captum, which is not installed.
        ValueError: an unknown name; an argument or method that does not fit the model.
    """
    predictor: Any = checkpoint
    if isinstance(checkpoint, str | Path):
        predictor = load_predictor(with_weights(checkpoint), max_length=max_length)
    task, model = predictor.task, predictor.model
    if not task.explains:
        raise ValueError(f"models for {task.name} cannot be explained.")
    refuse_exported(model)
    if method is not None and method not in METHODS:
        raise ValueError(f"`method` must be one of {', '.join(METHODS)}, got {method!r}.")
    options = given(
        labels=labels,
        targets=targets,
        aspects=aspects,
        emotions=emotions,
        reply=reply,
        method=method,
        layer=layer,
        head=head,
    )
    if unfit := sorted(options.keys() - task.explains):
        names = ", ".join(f"`{name}`" for name in unfit)
        raise ValueError(f"{names} cannot be used with a model for {task.name}: leave it out.")
    if method in METHODS[1:]:
        captum_attr()  # the first import takes seconds
    begin = time.perf_counter()
    explained = predictor.explain(text, merge=merge, **options)
    seconds = time.perf_counter() - begin
    name = str(checkpoint) if isinstance(checkpoint, str | Path) else model.config.name_or_path
    return Explanation(**vars(explained), checkpoint=name, model_type=model.config.model_type, seconds=seconds)
