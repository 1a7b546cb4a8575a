"""Words and pairs of words of a corpus, counted: what term correlation is computed from.

    corpus ──▶ texts ──▶ tokens ──▶ words ──▶ pairs ──▶ merging ──▶ CorpusCounts

| file         | holds                                                                   |
|--------------|-------------------------------------------------------------------------|
| settings     | `Counting`: which words, and what "seen together" means                  |
| shapes       | the shapes in between: Texts, Encoded, Pairs, CorpusCounts                     |
| corpus       | a corpus on disk cut into blocks                                         |
| texts        | the texts of a block                                                     |
| tokens       | the words of texts as numbers                                            |
| words        | how often each word was seen; the vocabulary                             |
| pairs        | how often two words were seen together                                   |
| merging      | counted pairs added up                                                   |
| plain        | `count_texts`: a corpus in memory                                        |
| run          | `count_corpus`: a corpus on disk, by worker processes, in bounded memory |
| run_pairs    | the pairs of such a corpus: counted in groups, added up in ranges        |
| folder       | what a run has finished, so that one that was killed goes on             |
| on_spark     | `count_on_spark`: a corpus on a cluster                                  |
| spark_corpus | a corpus as Spark reads it                                               |
| build        | `build_correlation`: a corpus becomes a folder                           |
"""

from __future__ import annotations

from infuser.knowledge.counting.plain import count_texts
from infuser.knowledge.counting.settings import Counting
from infuser.knowledge.counting.shapes import CorpusCounts

__all__ = ["CorpusCounts", "Counting", "count_texts"]
