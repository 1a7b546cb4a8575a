"""Sources: text in, annotations out. They speak of characters and load without torch.

| name              | class            | knows                                | ties                               |
| ----------------- | ---------------- | ------------------------------------ | ---------------------------------- |
| entities          | Entities         | a list of names with labels          | the words of one mention           |
| spacy-entities    | SpacyEntities    | a spaCy pipeline                     | the words of one mention           |
| stanza-entities   | StanzaEntities   | a Stanza pipeline                    | the words of one mention           |
| token-classifier  | TokenClassifier  | a transformers checkpoint            | the words of one mention           |
| gliner            | Gliner           | a GLiNER checkpoint                  | the words of one mention           |
| phrases           | Phrases          | a list of phrases, or a chunker      | the words of one phrase            |
| spacy-phrases     | SpacyPhrases     | a spaCy pipeline                     | the words of one chunk or sub-tree |
| stanza-phrases    | StanzaPhrases    | a Stanza pipeline                    | the words of one constituent       |
| bracketed-phrases | BracketedPhrases | a file of parsed sentences           | the words of one constituent       |
| correlation       | Correlation      | a table of word pairs, or a corpus   | words that go together; terms      |
| graph             | Graph            | triples of entities, and their names | mentions of entities that are near |
| candidates        | Candidates       | what a mention may mean              | nothing: it offers a choice        |
| knowledge-base    | KnowledgeBase    | candidates and their vectors         | nothing: it offers a choice        |
| selective         | Selective        | what of another source is worth it   | what that source ties              |
"""

from __future__ import annotations

from infuser.sources.candidates import Candidates
from infuser.sources.correlation import Correlation
from infuser.sources.entities import Entities
from infuser.sources.gliner import Gliner
from infuser.sources.graph import Graph
from infuser.sources.knowledge_base import KnowledgeBase
from infuser.sources.known import Known
from infuser.sources.phrases import Phrases
from infuser.sources.sampling import Sampling
from infuser.sources.selective import Selective
from infuser.sources.spacy_pipelines import SpacyEntities, SpacyPhrases
from infuser.sources.stanza_pipelines import StanzaEntities, StanzaPhrases
from infuser.sources.token_classifiers import TokenClassifier
from infuser.sources.trees import BracketedPhrases

__all__ = [
    "BracketedPhrases",
    "Candidates",
    "Correlation",
    "Entities",
    "Gliner",
    "Graph",
    "KnowledgeBase",
    "Known",
    "Phrases",
    "Sampling",
    "Selective",
    "SpacyEntities",
    "SpacyPhrases",
    "StanzaEntities",
    "StanzaPhrases",
    "TokenClassifier",
]
