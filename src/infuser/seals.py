"""Seals: a folder lists the digests of all its files, so that a damaged, missing or swapped one is noticed and named.

    digests.json   {"files": {"model.safetensors": SHA-256, ...}, "crc32": {"model.safetensors": CRC-32, ...},
                    "sizes": {"model.safetensors": bytes, ...}, "digest": SHA-256 of these lists}

Reading compares sizes and CRC-32, which takes an eighth of the time of SHA-256 on a processor without instructions for
it (decision 0026). Files that were added later are not in the list and not checked, nor is a README.md, which people
edit. A seal protects from damage, not from forgery: who can write the folder can seal it again.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from infuser.errors import CheckpointError
from infuser.files import crc32_of_file, parse_json, sha256_of, sha256_of_file

SEAL = "digests.json"
README = "README.md"


def seal(folder: Path, *, apart: Collection[Path] = ()) -> None:
    """Write the digests of all files in a folder, once everything else is there.

    Folders in `apart` are left out: built knowledge has checksums of its own, compared when it is read.
    """
    paths = sorted(
        path for path in folder.rglob("*") if path.is_file() and path not in (folder / SEAL, folder / README)
    )
    paths = [path for path in paths if not any(path.is_relative_to(one) for one in apart)]
    files = {path.relative_to(folder).as_posix(): sha256_of_file(path) for path in paths}
    lists = {
        "files": files,
        "crc32": {name: crc32_of_file(folder / name) for name in files},
        "sizes": {name: (folder / name).stat().st_size for name in files},
    }
    content = {**lists, "digest": sha256_of(lists)}
    (folder / SEAL).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def check_seal(folder: Path, advice: str, *, thorough: bool = False) -> None:
    """Raise CheckpointError that names the first file which is not as it was when the folder was sealed.

    `thorough` compares SHA-256 instead of CRC-32.
    """
    path = folder / SEAL
    try:
        content: dict[str, Any] = parse_json(path, "it")
        digest = content.pop("digest")
        files, sums = dict(content["files"]), dict(content.get("crc32", {}))  # the first seals had SHA-256 alone
        listed = content if sums else [files, content["sizes"]] if "sizes" in content else files
    except FileNotFoundError as error:
        raise CheckpointError(f"{path} is missing, so damage cannot be noticed. {advice}") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} is damaged ({error!r}). {advice}") from error
    if sha256_of(listed) != digest:
        raise CheckpointError(f"{path} is damaged: its list of files has another digest. {advice}")
    for name, wanted in files.items():
        try:
            if thorough or name not in sums:
                same = sha256_of_file(folder / name) == wanted
            else:
                size = (folder / name).stat().st_size
                same = size == content["sizes"][name] and crc32_of_file(folder / name) == sums[name]
        except OSError as error:
            raise CheckpointError(f"{folder / name} cannot be read ({error.strerror}). {advice}") from error
        if not same:
            raise CheckpointError(f"{folder / name} is damaged: it is not the file that was saved. {advice}")


@contextmanager
def checking_seal(folder: Path, advice: str) -> Iterator[None]:
    """Check a seal while the block reads the folder; damage is named first, whatever the block made of it.

    Files are checked in a thread of their own, beside the reading.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="seal") as pool:
        checked = pool.submit(check_seal, folder, advice)
        try:
            yield
        finally:
            checked.result()


def has_sealed_sizes(folder: Path) -> bool:
    """Return whether all files of a sealed folder are there and as long as they were; reads none of them."""
    try:
        sizes = parse_json(folder / SEAL, "it")["sizes"]
        return all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def check_seal_if_any(folder: Path, advice: str) -> None:
    """Check a folder that may come from elsewhere and have no seal."""
    if (folder / SEAL).exists():
        check_seal(folder, f"{advice} If you changed the file yourself, remove {SEAL}.")
