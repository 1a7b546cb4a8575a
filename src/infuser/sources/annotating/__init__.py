"""Annotations on disk: what sources found, asked once, kept in checked Arrow files, read back by any number of epochs.

| file         | holds                                                                                |
|--------------|--------------------------------------------------------------------------------------|
| columns      | annotations as Arrow columns, and back                                               |
| files        | Arrow files written whole, mapped from disk, compared with their digest when touched |
| fingerprints | what tells one source from another                                                   |
| cache        | a source whose annotations are cached on disk, keyed by text                         |
| shards       | the texts of an input in pieces, and one piece after another annotated               |
| workers      | pieces annotated by processes of this machine                                        |
| on_spark     | pieces annotated by a Spark cluster                                                  |
| journal      | what is finished, so that a run that was killed goes on                              |
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
