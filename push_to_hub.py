# SPDX-License-Identifier: Apache-2.0
"""Publish a run folder: `python push_to_hub.py RUN_FOLDER --repo-id NAME`; `--help` lists the options."""

import sys

from hf_emotion.cli import main


if __name__ == "__main__":
    sys.argv.insert(1, "push")
    main()
