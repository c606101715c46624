# SPDX-License-Identifier: Apache-2.0
"""Every block of the how-to guides: see `pages.py`."""

import pytest
from pages import cases, check_page


pytest_plugins = ["pages"]
pytestmark = [pytest.mark.book, pytest.mark.timeout(900)]


@pytest.mark.parametrize("page", cases(how_to=True))
def test_every_block_of_a_page_runs(page, page_folder, folder, caplog):
    check_page(page, page_folder, folder, caplog)
