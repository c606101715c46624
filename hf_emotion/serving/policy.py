# SPDX-License-Identifier: Apache-2.0
"""What browsers may do with our pages. Needs no web framework."""

import re
from base64 import b64encode
from hashlib import sha256


def policy(page: str) -> str:
    """What a browser may do with a page: run its own script and style, which their hashes tell, and ask its own service."""

    def hashes(tag: str) -> str:
        parts = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        return " ".join(f"'sha256-{b64encode(sha256(part.encode()).digest()).decode()}'" for part in parts)

    return (
        f"default-src 'none'; script-src {hashes('script')}; style-src {hashes('style')}; img-src data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
