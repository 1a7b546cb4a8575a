"""Annotations on disk: each text is annotated once, stored in checked Arrow files and read back in every epoch.

| file         | holds                                                                                |
|--------------|--------------------------------------------------------------------------------------|
| columns      | annotations as Arrow columns, and back                                               |
| files        | Arrow files written whole, mapped from disk, compared with their digest when touched |
| fingerprints | digests of sources: the same for sources that annotate in the same way               |
| cache        | a source whose annotations are cached on disk, keyed by text                         |
| shards       | the texts of an input in pieces, and one piece after another annotated               |
| on_spark     | pieces annotated by a Spark cluster                                                  |
| folder       | the folder of a run: what is finished, so that a killed run can be resumed           |
| run          | `annotate`: all of the above in one pass                                             |
| reading      | `Annotated`: the folder that `annotate` wrote, as training examples                  |
| frequencies  | in how many texts each entity is mentioned                                           |
"""

from __future__ import annotations

from infuser.sources.annotating.cache import CachedSource, default_cache, with_cache
from infuser.sources.annotating.fingerprints import fingerprint
from infuser.sources.annotating.frequencies import Frequencies
from infuser.sources.annotating.reading import Annotated, read_annotations, read_frequencies
from infuser.sources.annotating.run import annotate

__all__ = [
    "Annotated",
    "CachedSource",
    "Frequencies",
    "annotate",
    "default_cache",
    "fingerprint",
    "read_annotations",
    "read_frequencies",
    "with_cache",
]
