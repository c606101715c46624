# SPDX-License-Identifier: Apache-2.0
"""Equations as MathML, which browsers draw by themselves: MathJax would come from the network whenever a page is read."""

import re

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml, unichar2tex
from sphinx.application import Sphinx
from sphinx.util import logging


logger = logging.getLogger(__name__)


def _visit(tag: str, as_block: bool):
    def visit(self, node):
        code = re.sub(r"(\\(?:begin|end)\{)(?:align|equation|gather)\*?\}", r"\1aligned}", node.astext())
        code = code.translate(unichar2tex.uni2tex_table)
        try:
            drawn = latex2mathml.tex2mathml(code, as_block=as_block)
        except MathError as error:
            logger.warning("no MathML for %r: %s", node.astext(), error, location=node)
            drawn = self.encode(node.astext())
        self.body.append(self.starttag(node, tag, "", CLASS="math notranslate") + drawn + f"</{tag}>")
        raise nodes.SkipNode

    return visit


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (_visit("span", False), None), (_visit("div", True), None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
