# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion fold`."""

from pathlib import Path
from typing import Annotated

import typer

from .options import checked
from .printing import quiet, say
from .reading import emotion_or_mixture


def fold(
    checkpoint: Annotated[str, typer.Argument(help="Run folder or Hub id with modulated norms.", callback=checked)],
    emotion: Annotated[str, typer.Option("--emotion", "-e", help="Name, emoji, or a mixture: joy=0.7,surprise=0.3.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="New or empty folder.")],
    intensity: Annotated[float, typer.Option(help="Weight of the emotion; above 1 it is exaggerated.")] = 1.0,
) -> None:
    """Write one emotion of a language model as an ordinary checkpoint, which every server of language models runs."""
    quiet()
    from .. import fold as fold_emotion

    report = fold_emotion(checkpoint, emotion_or_mixture(emotion), output, intensity)
    say(
        f"folded to {output}: a {report['model_type']} checkpoint in float32. Its logits differ by at most "
        f"{report['max_logit_difference']:.2g} from those of {checkpoint}, which reach {report['largest_logit']:.0f}, over "
        f"{report['tokens']} tokens."
    )
