# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion push`."""

from pathlib import Path
from typing import Annotated

import typer

from .options import TrustRemoteCode
from .printing import say


def push(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run, or one that `release` built.")],
    repo_id: Annotated[str, typer.Option(help="NAMESPACE/NAME on the Hub; just NAME: in the token's own namespace.")],
    private: Annotated[bool, typer.Option("--private", help="Make a new repository private.")] = False,
    revision: Annotated[str | None, typer.Option(help="Branch, made from main when it is missing.")] = None,
    create_pr: Annotated[bool, typer.Option("--create-pr", help="Open a pull request against main.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check all, list the files, send nothing.")] = False,
    tag: Annotated[str | None, typer.Option(help="New tag for the commit.")] = None,
    handler: Annotated[bool, typer.Option("--handler", help="Add handler.py for Inference Endpoints.")] = False,
    merge: Annotated[bool, typer.Option("--merge", help="Publish the weights of the base model, too.")] = False,
    base_model: Annotated[str | None, typer.Option(help="Hub id of the base model, if it is a local folder.")] = None,
    licence: Annotated[
        str | None,
        typer.Option(
            "--license", help="Licence of a model of your own data, e.g. CC-BY-4.0; default: its card's or recipe's."
        ),
    ] = None,
    space: Annotated[
        bool, typer.Option("--space", help="Publish a page that runs it in the browser instead, as a static Space.")
    ] = False,
    trust_remote_code: TrustRemoteCode = False,
) -> None:
    """Publish a run on the Hub: model, code, card, metrics and plots, after a check that they load without hf-emotion."""
    from ..publishing.hub import push as run_push

    done = run_push(
        run,
        repo_id,
        private,
        revision,
        create_pr,
        tag,
        dry_run,
        trust_remote_code=trust_remote_code,
        handler=handler,
        merge=merge,
        base_model=base_model,
        licence=licence,
        space=space,
        show=_print_sizes,
    )
    if dry_run:
        print("dry run: nothing was sent")
    elif done["changed"]:
        say(f"published: {done['url']}")
    else:
        say(f"nothing to do: {done['url']} holds these files already")


def _print_sizes(files: dict[str, int]) -> None:
    for path, size in files.items():
        say(f"{size:>14,}  {path}")
    print(f"{sum(files.values()):>14,}  bytes in {len(files)} files")
