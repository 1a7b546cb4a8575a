"""A Hugging Face hub in memory: it answers the requests of the real huggingface_hub, below HTTP."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch

import httpx2 as httpx
import huggingface_hub
import pytest

ENDPOINT = "https://hub.test"
REPO = "somebody/knows"
TOKEN = "hf_test"


@dataclass
class FakeHub:
    """Repositories as files by name; every commit has an id made of its files."""

    repos: dict[str, dict[str, bytes]] = field(default_factory=dict)
    private: dict[str, bool] = field(default_factory=dict)
    branches: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    """Method and path of every request."""
    unreachable: bool = False
    refuse: str = ""
    """Requests of which the path is like this pattern are refused, as without the right token."""

    def sha(self, repo: str) -> str:
        content = sorted((name, hashlib.sha256(data).hexdigest()) for name, data in self.repos[repo].items())
        return hashlib.sha1(json.dumps(content).encode()).hexdigest()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        self.asked.append(f"{request.method} {path}")
        if self.unreachable:
            raise httpx.ConnectError("no route to host")
        if self.refuse and fnmatch(path, self.refuse):
            return httpx.Response(403, json={"error": "Forbidden: this token may not write"})
        if path == "/api/repos/create":
            given = json.loads(request.read())
            assert request.headers["authorization"] == f"Bearer {TOKEN}"
            repo = f"{given['organization']}/{given['name']}"
            self.repos.setdefault(repo, {})
            self.private[repo] = given.get("private") or given.get("visibility") == "private"
            return httpx.Response(200, json={"url": f"{ENDPOINT}/{repo}", "name": repo})
        if path == "/api/validate-yaml":
            known = ("license: apache-2.0", "license: unknown", "license: mit")
            bad = not any(one in json.loads(request.read())["content"] for one in known)
            errors = [{"message": '"license" must be one of apache-2.0, mit, ...'}] if bad else []
            return httpx.Response(400 if bad else 200, json={"errors": errors, "warnings": []})
        if path.startswith("/api/models/"):
            return self._api(path.removeprefix("/api/models/"), request)
        if "/resolve/" in path:
            return self._file(path.strip("/"), request)
        return httpx.Response(404, json={"error": "there is no such page"})

    def _api(self, path: str, request: httpx.Request) -> httpx.Response:
        repo, asked = "/".join(path.split("/")[:2]), path.split("/")[2:]
        if repo not in self.repos:
            return httpx.Response(404, headers={"X-Error-Code": "RepoNotFound"}, json={"error": "no such repository"})
        files = self.repos[repo]
        if asked[:1] == ["tree"]:
            listed = [{"type": "file", "path": name, "size": len(data), "oid": "0"} for name, data in files.items()]
            return httpx.Response(200, json=listed)
        if asked[:1] == ["preupload"]:
            given = json.loads(request.read())["files"]
            modes = [{"path": one["path"], "uploadMode": "regular", "shouldIgnore": False} for one in given]
            return httpx.Response(200, json={"files": modes})
        if asked[:1] == ["branch"]:
            self.branches.append(asked[1])
            return httpx.Response(200, json={})
        if asked[:1] == ["commit"]:
            for line in request.read().splitlines():
                entry = json.loads(line)
                value = entry["value"]
                if entry["key"] == "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                elif entry["key"] == "deletedFile":
                    del files[value["path"]]
            return httpx.Response(
                200, json={"commitUrl": f"{ENDPOINT}/{repo}/commit/{self.sha(repo)}", "commitOid": self.sha(repo)}
            )
        siblings = [{"rfilename": name} for name in files]
        return httpx.Response(200, json={"id": repo, "sha": self.sha(repo), "siblings": siblings})

    def _file(self, path: str, request: httpx.Request) -> httpx.Response:
        repo, _, rest = path.partition("/resolve/")
        _, _, name = rest.partition("/")
        if repo not in self.repos:
            return httpx.Response(404, headers={"X-Error-Code": "RepoNotFound"}, json={"error": "no such repository"})
        if name not in self.repos[repo]:
            return httpx.Response(404, headers={"X-Error-Code": "EntryNotFound"}, json={"error": "no such file"})
        data = self.repos[repo][name]
        headers = {"ETag": f'"{hashlib.sha1(data).hexdigest()}"', "X-Repo-Commit": self.sha(repo)}
        if request.method == "HEAD":
            return httpx.Response(200, headers={**headers, "Content-Length": str(len(data))})
        return httpx.Response(200, headers=headers, content=data)


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    """Let huggingface_hub talk to a hub in memory for a while."""
    made = FakeHub()
    huggingface_hub.set_client_factory(lambda: httpx.Client(transport=httpx.MockTransport(made)))
    try:
        yield made
    finally:
        huggingface_hub.set_client_factory(httpx.Client)
