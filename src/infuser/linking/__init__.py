"""Texts in, entities out: examples, training, inference and scores of linkers.

| file                | holds                                                                                    |
|---------------------|------------------------------------------------------------------------------------------|
| examples            | texts whose links are known, and the examples that a linker learns from                  |
| readers             | such texts from files: our own JSON lines, ELEVANT, AIDA, KnowBERT's AIDA                |
| texts               | texts, documents and labels from files                                                   |
| self_supervision    | examples from texts without labels: names that mean one thing only                       |
| masking             | examples of joint training: masked words and entities, next sentences                    |
| windows             | long texts in pieces that cut no mention                                                 |
| description_vectors | entity vectors from descriptions                                                         |
|                     |                                                                                          |
| objective           | the losses of a linker: in the whole model, or alone on states that are read once        |
| training            | the stages of training                                                                   |
|                     |                                                                                          |
| mentions            | Mention: a stretch of text, its entity, score and candidates                             |
| inference           | find_mentions: texts of any length and number, linked                                    |
| scores, evaluation  | strict scores, and those of linkers that read no text                                    |
| spacy_component     | a linker inside a spaCy pipeline                                                         |
| spacy_base          | what it shares with the component of taggers in tasks/ner_component.py                   |
"""
