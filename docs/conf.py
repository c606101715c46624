# SPDX-License-Identifier: Apache-2.0
"""Sphinx: `make docs`. Nothing here asks the network."""

import sys
from pathlib import Path

from docutils import nodes


FOLDER = Path(__file__).parent
sys.path[:0] = [str(FOLDER / "_ext"), str(FOLDER.parent)]  # `benchmarks.study` makes tables

import hf_emotion  # noqa: E402


project = "hf-emotion"
author = "The hf-emotion developers"
release = version = hf_emotion.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.intersphinx",
    "sphinx_copybutton",
    "sphinx_design",
    "generated_parts",
    "markdown_docstrings",
    "mathml",
]
exclude_patterns = ["_ext", "pictures", "ready"]

smartquotes = False  # `--option` is no dash

html_theme = "furo"
html_title = f"hf-emotion {release}"
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["book.css"]
html_theme_options = {"navigation_with_keys": True}

myst_enable_extensions = ["amsmath", "attrs_block", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
html_math_renderer = "mathml"

# Names of other libraries link to their documentation where their inventories lie in docs/_inventories (NAME.inv); none is fetched.
SITES = {
    "python": "https://docs.python.org/3/",
    "transformers": "https://huggingface.co/docs/transformers/main/en/",
    "torch": "https://docs.pytorch.org/docs/stable/",
}
intersphinx_mapping = {
    name: (address, str(file))
    for name, address in SITES.items()
    if (file := FOLDER / "_inventories" / f"{name}.inv").is_file()
}

autodoc_inherit_docstrings = False  # methods that only override one of transformers
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

copybutton_prompt_text = r"\$ |>>> "
copybutton_prompt_is_regexp = True


def _mark_drawn_tables(app, page):
    for block in page.findall(nodes.literal_block):
        if "┏" in block.astext():
            block["classes"].append("drawn")  # book.css keeps its lines whole


def setup(app):
    app.connect("doctree-read", _mark_drawn_tables)
