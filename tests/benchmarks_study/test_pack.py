# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.study ready`: a finished run becomes a ready model."""

pytest_plugins = ["toolkit_fixtures"]


def test_notes_of_a_ready_model_that_lack_something(study, single_run, tmp_path):
    for said in ("description: Emotions.", "- a list"):
        (tmp_path / "notes.yaml").write_text(said)
        done = study("ready", single_run, "--output", tmp_path / "new", "--notes", tmp_path / "notes.yaml")
        assert done.code == 1 and "notes.yaml" in done.err and "'terms'" in done.err
    assert not (tmp_path / "new").exists()
