"""One paper, one file. A method is a frozen dataclass of settings with two verbs, `attach` and `detach`.

| file          | holds                                                                               |
|---------------|-------------------------------------------------------------------------------------|
| types         | what the words of a mention are: vectors of types and names on its tokens           |
| kam           | maps fused into attention; kam_reader draws them, kam_scores does the arithmetic    |
| kar           | a linker per knowledge base between two blocks, and words that read what it found   |
| ernie         | a stream of entities beside the words                                               |
| text          | the same knowledge written behind the text: the rival of all others                 |
| spectral      | a penalty on the smallest singular values; spectral_watch sees what enters a head   |
| together      | several methods in one host                                                         |
| entity_reader | what kar and ernie share: the knowledge of a batch on its way into the encoder      |
| layers        | what they are built of                                                              |
"""

from infuser.methods.ernie import Ernie
from infuser.methods.kam import Kam
from infuser.methods.kar import Kar
from infuser.methods.text import Text
from infuser.methods.together import Together
from infuser.methods.types import Types

__all__ = ["Ernie", "Kam", "Kar", "Text", "Together", "Types"]
