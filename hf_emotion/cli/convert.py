# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion convert`."""

from pathlib import Path
from typing import Annotated

import typer

from .printing import quiet, say
from .reading import read_options


def convert(
    reference: Annotated[str, typer.Argument(help="The authors' state dict; with --to-roberta a BERT model.")],
    output: Annotated[Path, typer.Argument(help="New or empty folder.")],
    config: Annotated[
        Path | None, typer.Option(help="JSON with the sizes; default: the one next to REFERENCE.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A field of the configuration; repeatable.")
    ] = None,
    to_roberta: Annotated[bool, typer.Option("--to-roberta", help="Put a BERT encoder into a RoBERTa one.")] = False,
) -> None:
    """Convert a checkpoint of the authors' code (label-aware, CG-BERT, QACG-BERT) for AutoModel; or BERT to RoBERTa."""
    quiet()
    from ..convert import bert_to_roberta, convert_checkpoint

    if to_roberta:
        if config is not None or set_:
            raise typer.BadParameter("--to-roberta takes everything from the model: leave out --config and --set.")
        bert_to_roberta(reference, output)
        say(f"RobertaModel written to {output}, with the tokenizer of {reference}")
        return
    done = convert_checkpoint(reference, output, config, **read_options(set_, "--set"))
    ignored = f", {len(done.ignored)} left out because no output depends on them" if done.ignored else ""
    say(f"{done.model_class} written to {output}: {done.read} tensors read{ignored}")
    if not done.tokenizer:
        print(
            "the checkpoint came without a tokenizer: save the one it was trained with into the folder before `predict`"
        )
