# SPDX-License-Identifier: Apache-2.0
"""Publishes a run on the Hugging Face Hub: everything in one commit, or nothing."""

import json
import logging
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath
from typing import Any, NotRequired, TypedDict, TypeVar

from huggingface_hub import CommitInfo, CommitOperationAdd, CommitOperationDelete, HfApi, get_token
from huggingface_hub.errors import HfHubHTTPError, HTTPError
from huggingface_hub.utils import validate_repo_id

from ..io.version import __version__
from ..recipes import check_licence
from .release import MODEL_FILES, PLOTS, check, check_secrets, files_in, matches, stage, write_handler


logger = logging.getLogger(__name__)
T = TypeVar("T")

WAITS = (1, 4, 10)  # seconds before each further attempt when a server fails
LOG_IN = "log in with `hf auth login`, or set HF_TOKEN to a token with write access"


class Pushed(TypedDict):
    """`files`: path in the repository -> bytes; `url` of the commit or pull request; `changed`: whether anything differed."""

    files: dict[str, int]
    url: NotRequired[str]
    commit: NotRequired[str]
    changed: NotRequired[bool]


def push(
    run: str | Path,
    repo_id: str,
    private: bool = False,
    revision: str | None = None,
    create_pr: bool = False,
    tag: str | None = None,
    dry_run: bool = False,
    api: HfApi | None = None,
    trust_remote_code: bool = False,
    handler: bool = False,
    merge: bool = False,
    base_model: str | None = None,
    licence: str | None = None,
    space: bool = False,
    show: Callable[[dict[str, int]], Any] | None = None,
) -> Pushed:
    """
    Publish a finished run, or a folder that `release` built, as a model repository.

    Args:
        run: the folder.
        repo_id: "namespace/name"; a bare name goes to the namespace of the token.
        private: make the repository private when it is new.
        revision: the branch; it is made from main when it is missing.
        create_pr: open a pull request instead of writing to main.
        tag: a new tag for the commit.
        dry_run: check everything and send nothing; only `files` are returned.
        api: the client; default: that of the environment (`HF_ENDPOINT`, `HF_TOKEN`, `hf auth login`).
        trust_remote_code: let the check run code and a card example that are not hf-emotion's.
        handler: also publish `handler.py`, with which Inference Endpoints answer, and `requirements.txt`.
        merge: for a run that holds only what is new over its base model: publish all weights.
        base_model: for such a run over a local folder: the Hub id of the same base model.
        space: publish only the page of `export_web`, as a static Space named `repo_id`; `run` may also be a folder with such a page.
        licence: an SPDX id or a licence name of the Hub; default: the one of the card, or of the recipe beside the run.
        show: called with `files` after all checks and before anything is sent.

    Raises:
        ValueError: the folder cannot be published; the message says what is missing and what to do.
        PermissionError: there is no token, the Hub refuses it (401), or it may not write there (403).
        FileNotFoundError: no such repository, namespace or branch (404).
        ConnectionError: the Hub cannot be reached, or fails at every attempt.

    A push that fails leaves the repository as it was: without a new commit, and without a repository or branch made for it.
    """
    if create_pr and (revision is not None or tag is not None):
        raise ValueError("`create_pr` opens a pull request against main: leave out `revision` and `tag`.")
    if space and (handler or merge or base_model is not None):
        raise ValueError("`space` publishes a page: leave out `handler`, `merge` and `base_model`.")
    validate_repo_id(repo_id)
    if licence is not None:
        check_licence(licence)
    api = api or HfApi(library_name="hf-emotion", library_version=__version__)
    if not dry_run:
        if not (api.token or get_token()):
            raise PermissionError(f"no access token: {LOG_IN}.")
        if "/" not in repo_id:
            repo_id = f"{_retrying(api.whoami, repo_id)['name']}/{repo_id}"
    with tempfile.TemporaryDirectory(prefix="hf-emotion-push-") as temporary:
        folder = Path(temporary) / PurePath(repo_id).name
        if space:
            from .browser import write_space

            write_space(Path(run), folder, repo_id, licence)
            check_secrets(folder)
        else:
            stage(Path(run), folder, repo_id, merge, base_model, licence)
            check([(folder, repo_id)], trust_remote_code)
        if handler:
            write_handler(folder)
        files = {path: (folder / path).stat().st_size for path in files_in(folder)}
        if show is not None:
            show(files)
        if dry_run:
            return {"files": files}
        done, changed = _upload(api, repo_id, folder, private, revision, create_pr, tag, "space" if space else "model")
        return {"files": files, "url": done.pr_url or done.commit_url, "commit": done.oid, "changed": changed}


def _retrying(action: Callable[[], T], repo_id: str, waits: Sequence[float] = WAITS) -> T:
    """Call `action`, again after a failure of the server or the network. Other refusals become errors that say what to do."""
    left = [*waits]
    while True:
        try:
            return action()
        except (HTTPError, RuntimeError, json.JSONDecodeError) as error:
            # The client wraps errors of the upload of a large file.
            cause = error.__cause__ if isinstance(error, RuntimeError) else error
            if not isinstance(cause, (HTTPError, json.JSONDecodeError)):
                raise
            status = getattr(getattr(cause, "response", None), "status_code", None)
            if status is not None and status < 500 and status not in (408, 429):
                raise _refusal(status, cause, repo_id) from error
            if not left:
                answer = f"answered {status}" if status else f"could not be reached ({type(cause).__name__}: {cause})"
                raise ConnectionError(f"the Hub {answer} at every attempt: try again later.") from error
            logger.warning("the Hub failed (%s), next attempt in %s s", status or type(cause).__name__, left[0])
            time.sleep(left.pop(0))


def _refusal(status: int, error: Exception, repo_id: str) -> Exception:
    said = getattr(error, "server_message", None) or str(error)
    if status in (401, 403):
        return PermissionError(f"the token may not write to {repo_id} ({status}): {said}; {LOG_IN}.")
    if status == 404:
        return FileNotFoundError(f"the Hub finds no {repo_id}, or no such branch there ({status}): check both names.")
    return ConnectionError(f"the Hub refused the upload to {repo_id} ({status}): {said}; run the same command again.")


def _upload(
    api: HfApi,
    repo_id: str,
    folder: Path,
    private: bool,
    revision: str | None,
    create_pr: bool,
    tag: str | None,
    repo_type: str,
) -> tuple[CommitInfo, bool]:
    """One commit with all files, and whether it is new. If it fails, a repository or branch that was made for it is removed again."""

    def call(method: Callable[..., T], *arguments: Any, **keywords: Any) -> T:
        return _retrying(lambda: method(*arguments, repo_type=repo_type, **keywords), repo_id)

    undo: list[Callable[[], Any]] = []
    before = None
    stale = (*MODEL_FILES, *PLOTS) if repo_type == "model" else ("vendor/*", "*.gz")
    try:
        if not call(api.repo_exists, repo_id):
            if _create(api, repo_id, private, repo_type):
                undo.append(lambda: api.delete_repo(repo_id, repo_type=repo_type))
        elif private and not call(api.repo_info, repo_id).private:
            raise ValueError(f"{repo_id} exists and is public: make it private on its settings page.")
        if tag is not None and tag in {ref.name for ref in call(api.list_repo_refs, repo_id).tags}:
            raise ValueError(f"{repo_id} has a tag {tag!r} already: choose another.")
        if revision is not None and not call(api.revision_exists, repo_id, revision):
            call(api.create_branch, repo_id, branch=revision, exist_ok=True)
            undo.append(lambda: api.delete_branch(repo_id, branch=revision, repo_type=repo_type))
        before = call(api.repo_info, repo_id, revision=revision).sha

        def commit() -> CommitInfo:
            # Compared again at each attempt: if the last commit arrived and only the answer was lost, nothing differs any more.
            info = api.repo_info(repo_id, revision=revision, repo_type=repo_type)
            operations: list = [CommitOperationAdd(path, folder / path) for path in files_in(folder)]
            published = {operation.path_in_repo for operation in operations}
            operations += [  # otherwise weights in other parts, or a gate that the model no longer has, would be loaded
                CommitOperationDelete(file.rfilename)
                for file in info.siblings or ()
                if file.rfilename not in published and matches(file.rfilename, stale)
            ]
            return api.create_commit(
                repo_id,
                operations,
                commit_message=f"Publish {folder.name} with hf-emotion {__version__}",
                revision=revision,
                create_pr=create_pr,
                repo_type=repo_type,
                parent_commit=info.sha,
            )

        # No new attempt here: if only the answer was lost, a second pull request would open.
        done = _retrying(commit, repo_id, () if create_pr else WAITS)
    except BaseException:
        _undo(api, repo_id, revision, before, undo, repo_type)
        raise
    if tag is not None:
        try:
            call(api.create_tag, repo_id, tag=tag, revision=done.oid, exist_ok=True)
        except OSError as error:
            raise type(error)(f"{repo_id} is published as {done.oid}, but without the tag {tag!r}: {error}") from error
    return done, done.oid != before


def _create(api: HfApi, repo_id: str, private: bool, repo_type: str) -> bool:
    """Make the repository; False if there was one, which the token could not see."""
    try:
        sdk = "static" if repo_type == "space" else None
        _retrying(lambda: api.create_repo(repo_id, private=private, repo_type=repo_type, space_sdk=sdk), repo_id)
    except ConnectionError as error:
        if isinstance(error.__cause__, HfHubHTTPError) and error.__cause__.response.status_code == 409:
            return False
        raise
    return True


def _undo(
    api: HfApi, repo_id: str, revision: str | None, before: str | None, undo: list[Callable[[], Any]], repo_type: str
) -> None:
    """Remove what was made for a commit that failed, unless something was committed to it."""
    try:
        if undo and (before is None or before == api.repo_info(repo_id, revision=revision, repo_type=repo_type).sha):
            for step in reversed(undo):
                step()
    except (HTTPError, OSError) as error:
        logger.warning("%s could not be put back as it was (%s): remove the repository or branch", repo_id, error)
