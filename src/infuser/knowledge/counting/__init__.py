"""Words and pairs of words of a corpus, counted: what term correlation is computed from.

    corpus ──▶ texts ──▶ tokens ──▶ words ──▶ pairs ──▶ CorpusCounts

| file         | holds                                                                   |
|--------------|-------------------------------------------------------------------------|
| settings     | `Counting`: which words, and what "seen together" means                  |
| shapes       | the shapes in between: Texts, Encoded, Pairs, CorpusCounts                     |
| corpus       | a corpus on disk cut into blocks                                         |
| texts        | the texts of a block                                                     |
| tokens       | the words of texts as numbers                                            |
| words        | how often each word was seen; the vocabulary                             |
| pairs        | how often two words were seen together, counted and added up             |
| run          | `count_texts`: a corpus in memory; `count_corpus`: one on disk           |
| run_pairs    | the pairs of such a corpus: counted in groups, added up in ranges        |
| folder       | what a run has finished, so that one that was killed goes on             |
| on_spark     | `count_on_spark`: a corpus on a cluster                                  |
| spark_corpus | a corpus as Spark reads it                                               |
| build        | `build_correlation`: a corpus becomes a folder                           |
"""

from __future__ import annotations

from infuser.knowledge.counting.run import count_texts
from infuser.knowledge.counting.settings import Counting
from infuser.knowledge.counting.shapes import CorpusCounts

__all__ = ["CorpusCounts", "Counting", "count_texts"]
