# SPDX-License-Identifier: Apache-2.0
"""A browser for the pages."""

import shutil
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest


@pytest.fixture(scope="module")
def browser() -> Iterator:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    installed = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    with playwright.sync_playwright() as start:
        try:
            found = start.chromium.launch(executable_path=next(filter(None, installed), None), args=["--no-sandbox"])
        except playwright.Error as error:
            pytest.skip(
                f"no Chromium: apt-get install chromium, or playwright install chromium ({error.message[:80]!r})"
            )
        yield found
        found.close()


@pytest.fixture
def visit(browser):
    """
    visit(url): a tab at this address, with `asked`, the addresses that it loaded, and `complaints` of the console. Options are those
    of Playwright's `new_page`.
    """
    tabs = []

    def open_tab(url: str, **options: Any) -> SimpleNamespace:
        tab = browser.new_page(**options)
        tab.set_default_timeout(60_000)  # other work may slow the machine
        tabs.append(tab)
        asked, complaints = [], []
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.goto(url)
        return SimpleNamespace(tab=tab, asked=asked, complaints=complaints)

    yield open_tab
    for tab in tabs:
        tab.close()
