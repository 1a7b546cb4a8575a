from __future__ import annotations

from pathlib import Path

import pytest

from infuser.tasks.crossner import CrossNer

REAL = Path(__file__).parents[3] / "shared" / "data" / "ner" / "CrossNER"


def test_parts_are_the_files_of_a_domain(tmp_path: Path) -> None:
    for split, city in (("train", "Bern"), ("dev", "Basel"), ("test", "Sion")):
        (tmp_path / f"{split}.txt").write_text(f"in\tO\n{city}\tB-location\n")
    task = CrossNer(str(tmp_path))
    assert [task.read(split)[0]["text"] for split in ("train", "dev", "test")] == ["in Bern", "in Basel", "in Sion"]
    assert task.dev_beside("test") == task.read("dev") and task.types == ("location",)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("domain", "n_texts", "n_types"), [("politics", [200, 541, 651], 9), ("science", [200, 450, 543], 17)]
)
def test_domains_are_read_whole(domain: str, n_texts: list[int], n_types: int) -> None:
    if not REAL.is_dir():
        pytest.skip(f"no data at {REAL}")
    task = CrossNer(str(REAL / domain))
    assert [len(task.read(split)) for split in ("train", "dev", "test")] == n_texts
    assert len(task.types) == n_types
