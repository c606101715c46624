# SPDX-License-Identifier: Apache-2.0
"""A Hub on localhost: the HTTP endpoints that huggingface_hub speaks to write models, without xet, and their refusals."""

import base64
import hashlib
import json
import os
import re
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatch
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit


LARGE = 10 * 2**20  # bytes from which a file must not be committed as a regular one
LFS_NAMES = ("*.safetensors", "*.bin", "*.model", "*.parquet", "*.zip")
ATTRIBUTES = "".join(f"{name} filter=lfs diff=lfs merge=lfs -text\n" for name in LFS_NAMES).encode()


@dataclass(frozen=True)
class Blob:
    content: bytes
    lfs: bool

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @property
    def git_oid(self) -> str:
        """As git names the content; of a large file that of its pointer."""
        content = self.content
        if self.lfs:
            pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {len(content)}\n"
            content = pointer.encode()
        return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@dataclass
class Repository:
    private: bool
    sdk: str | None = None  # of a Space
    commits: dict[str, dict[str, Blob]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    pull_requests: dict[str, str] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict)

    def __post_init__(self):
        self.branches["main"] = self.add("initial commit", {".gitattributes": Blob(ATTRIBUTES, lfs=False)})

    def add(self, message: str, files: dict[str, Blob]) -> str:
        sha = secrets.token_hex(20)
        self.commits[sha], self.messages[sha] = files, message
        return sha

    def find(self, revision: str) -> str | None:
        refs = {**self.pull_requests, **self.tags, **self.branches}
        return revision if revision in self.commits else refs.get(revision)

    def files(self, revision: str = "main") -> dict[str, bytes]:
        return {path: blob.content for path, blob in self.commits[self.find(revision)].items()}


class Refusal(Exception):
    def __init__(self, status: int, message: str, code: str | None = None, **body):
        self.status, self.message, self.code, self.body = status, message, code, body


@dataclass
class Fault:
    """Requests of `method` whose path matches `path` fail, `times` of them: after their effect, or without one."""

    method: str
    path: str
    status: int | None  # None: the connection is closed
    times: int
    after: bool


class HubServer:
    """A server in a thread of its own, which keeps all that it received, and can be told to fail; a context manager."""

    def __init__(self):
        # Not readable as tokens, and new every time: what looks for them in what was received cannot find them by chance.
        self.writer, self.reader = (f"hf_{secrets.token_hex(17)}" for _ in range(2))
        self.tokens = {self.writer: ("somebody", True), self.reader: ("somebody", False)}  # user, may it write?
        self.repositories: dict[str, Repository] = {}  # by "namespace/name"
        self.stored: dict[str, bytes] = {}  # large files by their SHA-256, whether committed or not
        self.received: list[tuple[str, str, bytes]] = []  # method, path, body
        self.headers: list[dict[str, str]] = []
        self.faults: list[Fault] = []
        self.lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # the body would wait 40 ms for the acknowledgement of the headers

            def answer(self):
                server.handle(self)

            do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = answer

            def log_message(self, *arguments):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"

    def __enter__(self) -> "HubServer":
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *exception) -> None:
        self.http.shutdown()
        self.http.server_close()

    def fail(self, method: str, path: str, status: int | None, times: int = 1, after: bool = False) -> None:
        self.faults.append(Fault(method, path, status, times, after))

    def repository(self, name: str) -> Repository:
        return self.repositories[name]

    def handle(self, request: BaseHTTPRequestHandler) -> None:
        body = self._read(request)
        if body is None:
            request.close_connection = True
            return
        target = urlsplit(request.path)
        with self.lock:
            self.received.append((request.command, request.path, body))
            self.headers.append({name.lower(): value for name, value in request.headers.items()})
            faults = [one for one in self.faults if one.times and one.method == request.command]
            fault = next((one for one in faults if re.search(one.path, target.path)), None)
            try:
                if fault is None or fault.after:
                    method = "GET" if request.command == "HEAD" else request.command
                    status, headers, content = self.route(method, target, request.headers, body)
                if fault is not None:
                    fault.times -= 1
                    raise Refusal(fault.status or 0, "the server failed")
            except Refusal as refusal:
                if refusal.status == 0:
                    request.close_connection = True
                    return
                status, content = refusal.status, json.dumps({"error": refusal.message, **refusal.body}).encode()
                headers = {"Content-Type": "application/json", "X-Error-Message": refusal.message}
                if refusal.code:
                    headers["X-Error-Code"] = refusal.code
        request.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            request.send_header(name, value)
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(content)

    def _read(self, request: BaseHTTPRequestHandler) -> bytes | None:
        """The body; None if the client left before it was whole."""
        if "chunked" in request.headers.get("Transfer-Encoding", ""):
            parts = []
            while size := int(request.rfile.readline().strip() or b"0", 16):
                parts.append(request.rfile.read(size))
                request.rfile.readline()
            request.rfile.readline()
            return b"".join(parts)
        length = int(request.headers.get("Content-Length", 0))
        body = request.rfile.read(length)
        return body if len(body) == length else None

    def route(self, method: str, target, headers, body: bytes) -> tuple[int, dict[str, str], bytes]:
        query = {name: values[0] for name, values in parse_qs(target.query).items()}
        for pattern, verb, endpoint in self.ENDPOINTS:
            match = re.fullmatch(pattern, target.path)
            if match and verb == method:
                parts = {name: unquote(value) for name, value in match.groupdict(default="").items()}
                result = endpoint(self, headers, query, body, **parts)
                if isinstance(result, tuple):
                    return result
                return 200, {"Content-Type": "application/json"}, json.dumps(result).encode()
        raise Refusal(404, f"no such endpoint: {method} {target.path}")

    def user(self, headers, needed: bool = False) -> tuple[str | None, bool]:
        token = headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in self.tokens and (token or needed):
            raise Refusal(401, "Invalid username or password.")
        return self.tokens.get(token, (None, False))

    def open(self, headers, name: str, write: bool = False) -> Repository:
        user, may_write = self.user(headers)
        repository = self.repositories.get(name)
        namespace = name.partition("/")[0]
        if repository is None or (repository.private and user != namespace):
            raise Refusal(401 if user is None else 404, "Repository not found", "RepoNotFound")
        if write and (user != namespace or not may_write):
            raise Refusal(403, f"You don't have the required permissions to write to {name}")
        return repository

    def commit_of(self, repository: Repository, revision: str) -> str:
        sha = repository.find(revision or "main")
        if sha is None:
            raise Refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return sha

    def whoami(self, headers, query, body):
        user, _ = self.user(headers, needed=True)
        return {"type": "user", "name": user, "orgs": [], "auth": {"type": "access_token"}}

    def create(self, headers, query, body):
        values = json.loads(body)
        user, may_write = self.user(headers, needed=True)
        namespace = values.get("organization") or user
        if namespace != user or not may_write:
            raise Refusal(403, f"You don't have the rights to create a model under the namespace {namespace!r}")
        name = f"{namespace}/{values['name']}"
        sdk = values.get("sdk")
        answer = {"url": f"{self.url}/{'spaces/' if sdk else ''}{name}", "name": name, "id": name}
        if name in self.repositories:
            raise Refusal(409, "You already created this model repo", **answer)
        private = values.get("visibility") == "private" or values.get("private") is True
        self.repositories[name] = Repository(private, sdk)
        return answer

    def delete(self, headers, query, body):
        values = json.loads(body)
        name = f"{values.get('organization') or self.user(headers)[0]}/{values['name']}"
        self.open(headers, name, write=True)
        del self.repositories[name]
        return {}

    def validate_yaml(self, headers, query, body):
        return {"errors": [], "warnings": []}

    def preupload(self, headers, query, body, name, revision):
        repository = self.open(headers, name, write="create_pr" not in query)
        files = repository.commits[self.commit_of(repository, revision)]
        answer = []
        for file in json.loads(body)["files"]:
            known = files.get(file["path"])
            oid = known and (known.sha256 if known.lfs else known.git_oid)
            named = any(fnmatch(os.path.basename(file["path"]), pattern) for pattern in LFS_NAMES)
            mode = "lfs" if file["size"] > (0 if named else LARGE) else "regular"
            answer.append({"path": file["path"], "uploadMode": mode, "shouldIgnore": False, "oid": oid})
        return {"files": answer}

    def lfs_batch(self, headers, query, body, name):
        values = json.loads(body)
        self.open(headers, name, write="ref" in values)
        objects = []
        for item in values["objects"]:
            entry = {"oid": item["oid"], "size": item["size"]}
            if item["oid"] not in self.stored:
                entry["actions"] = {"upload": {"href": f"{self.url}/storage/{item['oid']}"}}
            objects.append(entry)
        return {"transfer": "basic", "objects": objects}

    def store(self, headers, query, body, oid):
        self.stored[oid] = body
        return 200, {"ETag": f'"{hashlib.md5(body).hexdigest()}"'}, b""

    def commit(self, headers, query, body, name, revision):
        create_pr = query.get("create_pr") == "1"
        self.user(headers, needed=True)
        repository = self.open(headers, name, write=not create_pr)
        parent = self.commit_of(repository, revision)
        if not create_pr and revision not in repository.branches and revision not in repository.pull_requests:
            raise Refusal(400, "commits go to branches")
        lines = [json.loads(line) for line in body.splitlines()]
        if lines[0]["value"].get("parentCommit", parent) != parent:
            raise Refusal(412, "A commit has happened since. Please refresh and try again.")
        files = dict(repository.commits[parent])
        for line in lines[1:]:
            value, path = line["value"], line["value"]["path"]
            if any(part in ("", ".", "..", ".git") for part in path.split("/")):
                raise Refusal(400, f"Invalid path: {path}")
            if line["key"] == "deletedFile":
                if path not in files:
                    raise Refusal(404, f"A file with this name doesn't exist: {path}", "EntryNotFound")
                del files[path]
            else:
                lfs = line["key"] == "lfsFile"
                files[path] = Blob(self.stored[value["oid"]] if lfs else base64.b64decode(value["content"]), lfs)
        sha = repository.add(lines[0]["value"]["summary"], files)
        answer = {"success": True, "commitOid": sha, "commitUrl": f"{self.url}/{name}/commit/{sha}", "hookOutput": ""}
        if create_pr:
            number = len(repository.pull_requests) + 1
            repository.pull_requests[f"refs/pr/{number}"] = sha
            return {**answer, "pullRequestUrl": f"{self.url}/{name}/discussions/{number}"}
        refs = repository.branches if revision in repository.branches else repository.pull_requests
        refs[revision] = sha
        return answer

    def create_branch(self, headers, query, body, name, branch):
        repository = self.open(headers, name, write=True)
        if branch in repository.branches:
            raise Refusal(409, f"Reference already exists: {branch}")
        start = json.loads(body or b"{}").get("startingPoint", "main")
        repository.branches[branch] = self.commit_of(repository, start)
        return {}

    def delete_branch(self, headers, query, body, name, branch):
        repository = self.open(headers, name, write=True)
        if branch == "main" or branch not in repository.branches:
            raise Refusal(403, f"cannot delete {branch}")
        del repository.branches[branch]
        return {}

    def create_tag(self, headers, query, body, name, revision):
        repository = self.open(headers, name, write=True)
        tag = json.loads(body)["tag"]
        if tag in repository.tags:
            raise Refusal(409, f"Tag reference exists already: {tag}")
        repository.tags[tag] = self.commit_of(repository, revision)
        return {}

    def refs(self, headers, query, body, name):
        repository = self.open(headers, name)
        shown = {"branches": repository.branches, "tags": repository.tags, "converts": {}}
        if "include_prs" in query:
            shown["pullRequests"] = repository.pull_requests
        return {
            title: [{"name": ref, "ref": f"refs/{title}/{ref}", "targetCommit": sha} for ref, sha in refs.items()]
            for title, refs in shown.items()
        }

    def info(self, headers, query, body, name, revision=""):
        repository = self.open(headers, name)
        sha = self.commit_of(repository, revision)
        zero = dict.fromkeys(("downloads", "likes"), 0) | dict.fromkeys(("disabled", "gated"), False)
        siblings = [{"rfilename": path} for path in sorted(repository.commits[sha])]
        named = {"id": name, "modelId": name, "sha": sha, "private": repository.private}
        return {**named, **zero, "tags": [], "siblings": siblings}

    _API = r"/api/(?:models|spaces)/(?P<name>[^/]+/[^/]+)"
    ENDPOINTS: tuple[tuple[str, str, Callable], ...] = (
        (r"/api/whoami-v2", "GET", whoami),
        (r"/api/repos/create", "POST", create),
        (r"/api/repos/delete", "DELETE", delete),
        (r"/api/validate-yaml", "POST", validate_yaml),
        (_API + r"/preupload/(?P<revision>[^/]+)", "POST", preupload),
        (_API + r"/commit/(?P<revision>[^/]+)", "POST", commit),
        (_API + r"/branch/(?P<branch>[^/]+)", "POST", create_branch),
        (_API + r"/branch/(?P<branch>[^/]+)", "DELETE", delete_branch),
        (_API + r"/tag/(?P<revision>[^/]+)", "POST", create_tag),
        (_API + r"/refs", "GET", refs),
        (_API + r"/revision/(?P<revision>[^/]+)", "GET", info),
        (_API, "GET", info),
        (r"/(?:spaces/)?(?P<name>[^/]+/[^/]+)\.git/info/lfs/objects/batch", "POST", lfs_batch),
        (r"/storage/(?P<oid>\w+)", "PUT", store),
    )
