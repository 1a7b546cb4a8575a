"""Sources: text in, annotations out. They speak of characters and load without torch.

| registered name | class       | knows                                   | ties                                     |
|-----------------|-------------|-----------------------------------------|------------------------------------------|
| entities        | Entities    | a list of names with labels             | the words of one mention                 |
| phrases         | Phrases     | a list of phrases, or a chunker         | the words of one phrase                  |
| correlation     | Correlation | a table of word pairs, or a corpus      | words that go together, terms beside them|
| graph           | Graph       | triples of entities, and their names    | mentions of entities that are adjacent   |
"""

from __future__ import annotations

from infuser.sources.correlation import Correlation
from infuser.sources.entities import Entities
from infuser.sources.graph import Graph
from infuser.sources.phrases import Phrases

__all__ = ["Correlation", "Entities", "Graph", "Phrases"]
