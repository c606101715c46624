# SPDX-License-Identifier: Apache-2.0
"""Publish a run folder: `python push_to_hub.py RUN_FOLDER --repo-id NAME`; `--help` lists the options."""

from hf_emotion.publishing.hub import main


if __name__ == "__main__":
    main()
