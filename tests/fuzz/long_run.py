"""Damages files for as long as you like, and keeps what breaks a reader in tests/data/fuzz.

python tests/fuzz/long_run.py --seconds 600                 every reader, ten minutes each
python tests/fuzz/long_run.py --seconds 60 csv rdf-nt       some of them
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.damage import damaged, fault_of
from fuzz.readers import DATA, READERS, prepare


def run(name: str, seconds: float, seed: int) -> tuple[int, dict[str, int]]:
    """Return how many files a reader was given, and how often each fault came up."""
    reader, chance, n = READERS[name], random.Random(f"{name} {seed}"), 0
    faults: dict[str, int] = {}
    samples = [reader.sample, *(path.read_bytes() for path in sorted((DATA / "fuzz" / name).glob("*")))]
    with tempfile.TemporaryDirectory() as place:
        path = prepare(reader, Path(place) / "folder")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            content = damaged(chance.choice([samples[0], *samples]), chance)
            path.write_bytes(content)
            n += 1
            if fault := fault_of(reader, path):
                kind = fault[:50]
                faults[kind] = faults.get(kind, 0) + 1
                if faults[kind] == 1:
                    kept = DATA / "fuzz" / name / hashlib.sha256(content).hexdigest()[:12]
                    kept.parent.mkdir(parents=True, exist_ok=True)
                    kept.write_bytes(content)
                    print(f"  {name}: {fault[:400]}\n    {kept}", flush=True)
    return n, faults


def main() -> None:
    """Run every reader that is named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    total = 0
    for name in given.names or READERS:
        n, faults = run(name, given.seconds, given.seed)
        total += sum(faults.values())
        print(f"{name}: {n:,} files, {sum(faults.values()):,} faults of {len(faults)} kinds", flush=True)
    sys.exit(1 if total else 0)


if __name__ == "__main__":
    main()
