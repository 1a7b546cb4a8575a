from __future__ import annotations

import json
import re
import zlib
from pathlib import Path

import pytest

from infuser.errors import CheckpointError
from infuser.files import sha256_of
from infuser.seals import SEAL, check_seal, check_seal_if_any, checking_seal, seal

ADVICE = "Save it again."


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    folder = tmp_path / "sealed"
    (folder / "inside").mkdir(parents=True)
    (folder / "one.json").write_text("{}")
    (folder / "inside" / "two.bin").write_bytes(bytes(1000))
    seal(folder)
    return folder


def test_an_untouched_folder_passes_and_later_files_do_not_count(sealed: Path) -> None:
    check_seal(sealed, ADVICE)
    (sealed / "README.md").write_text("added later")
    check_seal(sealed, ADVICE)


def test_every_flipped_bit_is_noticed_and_its_file_named(sealed: Path) -> None:
    for name in ("one.json", "inside/two.bin", SEAL):
        path = sealed / name
        content = path.read_bytes()
        for place in range(0, len(content), max(1, len(content) // 50)):
            changed = bytearray(content)
            changed[place] ^= 1
            path.write_bytes(changed)
            if name == SEAL and _means_the_same(content, changed):
                continue  # white space between two values
            with pytest.raises(CheckpointError, match=rf"{re.escape(str(sealed))}.* {ADVICE}"):
                check_seal(sealed, ADVICE)
        path.write_bytes(content)
    check_seal(sealed, ADVICE)


def _means_the_same(one: bytes, other: bytes) -> bool:
    try:
        return bool(json.loads(one) == json.loads(other))
    except ValueError:
        return False


def test_a_missing_a_short_and_a_swapped_file_are_named(sealed: Path) -> None:
    path = sealed / "inside" / "two.bin"
    path.write_bytes(bytes(999))
    with pytest.raises(CheckpointError, match=r"two\.bin is damaged: it is not the file that was saved"):
        check_seal(sealed, ADVICE)
    (sealed / "one.json").replace(path)
    with pytest.raises(CheckpointError, match=r"two\.bin is damaged"):
        check_seal(sealed, ADVICE)
    path.unlink()
    with pytest.raises(CheckpointError, match=r"two\.bin cannot be read \(No such file"):
        check_seal(sealed, ADVICE)


def test_a_missing_seal_is_an_error_unless_there_may_be_none(sealed: Path) -> None:
    (sealed / SEAL).unlink()
    with pytest.raises(CheckpointError, match=r"digests\.json is missing"):
        check_seal(sealed, ADVICE)
    check_seal_if_any(sealed, ADVICE)
    (sealed / SEAL).write_text("[" * 100_000)
    with pytest.raises(CheckpointError, match=r"is damaged .* remove digests\.json"):
        check_seal_if_any(sealed, ADVICE)


def test_damage_is_named_before_what_a_reader_makes_of_it(sealed: Path) -> None:
    with checking_seal(sealed, ADVICE):
        pass
    with pytest.raises(ZeroDivisionError), checking_seal(sealed, ADVICE):
        raise ZeroDivisionError
    (sealed / "one.json").write_text("{ }")
    with pytest.raises(CheckpointError, match=r"one\.json is damaged"), checking_seal(sealed, ADVICE):
        raise ZeroDivisionError


def test_a_thorough_check_compares_more_than_sums(sealed: Path) -> None:
    path = sealed / "inside" / "two.bin"
    path.write_bytes(with_the_same_crc32(path.read_bytes()))
    check_seal(sealed, ADVICE)
    with pytest.raises(CheckpointError, match=r"two\.bin is damaged"):
        check_seal(sealed, ADVICE, thorough=True)


def with_the_same_crc32(content: bytes) -> bytes:
    """Return other bytes of the same length and sum: the generator polynomial's 33 bits, flipped, change nothing."""
    changed = bytearray(content)
    for place in [0, *(32 - power for power in (26, 23, 22, 16, 12, 11, 10, 8, 7, 5, 4, 2, 1, 0))]:
        changed[100 + place // 8] ^= 1 << place % 8
    assert zlib.crc32(changed) == zlib.crc32(content) and changed != content
    return bytes(changed)


def test_seals_from_before_there_were_sums_are_checked_by_sha256(sealed: Path) -> None:
    content = json.loads((sealed / SEAL).read_text())
    old = {name: content[name] for name in ("files", "sizes")}
    (sealed / SEAL).write_text(json.dumps({**old, "digest": sha256_of(list(old.values()))}))
    check_seal(sealed, ADVICE)
    (sealed / "one.json").write_text("[]")
    with pytest.raises(CheckpointError, match=r"one\.json is damaged"):
        check_seal(sealed, ADVICE)
