# SPDX-License-Identifier: Apache-2.0
"""Pages as browsers read them."""

from html.parser import HTMLParser


class Page(HTMLParser):
    """The tags and attributes of a page, and its text."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_data(self, data):
        self.text += data
