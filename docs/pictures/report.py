# SPDX-License-Identifier: Apache-2.0
"""The top of the page that `hf-emotion summarize` writes, light and dark: python docs/pictures/report.py. Needs playwright and Chromium."""

import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright


HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
COMMANDS = (
    "hf-emotion predict goemotions --input comments.csv --text-column comment --columns wide -o labels.csv",
    "hf-emotion summarize labels.csv --by shop --label anger --label gratitude -o report.html",
)
SIZE = {"width": 860, "height": 560}


def draw(page: Path) -> None:
    """Write report_light.png and report_dark.png."""
    with sync_playwright() as start:
        browser = start.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            tab = browser.new_page(viewport=SIZE, color_scheme=scheme, device_scale_factor=1.5)
            tab.goto(page.as_uri())
            tab.screenshot(path=HERE / f"report_{scheme}.png")
        browser.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(EXAMPLES / "comments.csv", folder)
        for command in COMMANDS:
            program, *arguments = shlex.split(command)
            subprocess.run([Path(sys.executable).with_name(program), *arguments], cwd=folder, check=True)
        draw(Path(folder) / "report.html")
