# SPDX-License-Identifier: Apache-2.0
"""
Everything about the package is in pyproject.toml, but for its description: README.md, whose links and pictures get the address of the
repository, because the package index shows it elsewhere.
"""

import re
import tomllib
from pathlib import Path

from setuptools import setup


HERE = Path(__file__).parent


def description() -> str:
    """README.md with whole addresses."""
    project = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    files = f"{project['urls']['Repository']}/blob/main/"
    pictures = files.replace("//github.com/", "//raw.githubusercontent.com/").replace("/blob/", "/")

    def whole(match: re.Match) -> str:
        return f"{match['picture']}[{match['text']}]({pictures if match['picture'] else files}{match['path']})"

    link = r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?P<path>(?!\w+:|#)[^)\s]+)\)"
    text = re.sub(link, whole, (HERE / "README.md").read_text(encoding="utf-8"))
    return re.sub(r'(?<=\bsrc=")|(?<=\bsrcset=")', pictures, text)


setup(long_description=description(), long_description_content_type="text/markdown")
