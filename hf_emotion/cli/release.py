# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion release`."""

from pathlib import Path
from typing import Annotated

import typer

from .options import TrustRemoteCode
from .printing import say


def release(
    runs: Annotated[list[Path], typer.Argument(help="Folders of finished runs.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="New or empty folder.")],
    namespace: Annotated[str | None, typer.Option(help="Account on the Hub that will hold the models.")] = None,
    trust_remote_code: TrustRemoteCode = False,
) -> None:
    """Build the folders to publish from finished runs, checked, with a card of the collection and SHA-256 sums."""
    from ..publishing.release import SUMS
    from ..publishing.release import release as run_release

    for name, files in run_release(runs, output, namespace, trust_remote_code).items():
        say(f"{output / name}: {len(files)} files, {sum(files.values()):,} bytes")
    say(f"check with: cd {output} && sha256sum --check {SUMS}")
