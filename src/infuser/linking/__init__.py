"""Texts in, entities out: what a linker learns from, what it says, and how right it is.

| file              | holds                                                                           |
|-------------------|---------------------------------------------------------------------------------|
| examples          | texts whose links are known, and what a linker learns from them                 |
| readers           | such texts from files: our own JSON lines, ELEVANT; aida: AIDA, KnowBERT's too  |
| self_supervision  | the same from texts without labels: names that mean one thing only              |
| wordnet_examples  | the same from WordNet's glosses; wordnet_forms: what its senses are called      |
| windows           | long texts in pieces that cut no mention                                        |
|                   |                                                                                 |
| objective         | the losses of a linker                                                          |
| frozen            | stage 1 from states that are read once                                          |
| masking, joint    | examples of stage 2: masked words and entities, next sentences                  |
| training          | the stages                                                                      |
| denoising         | dEA: guess entities, for Ernie                                                  |
|                   |                                                                                 |
| mentions          | what a linker says about a text                                                 |
| linking           | texts of any length and number, linked                                          |
| scores, baselines | how right that is, strictly, and what one gets without reading                  |
| fact_questions    | a fact as a question, one end masked; fact_recall: how often it is answered     |
| spacy_component   | a linker inside a spaCy pipeline                                                |
"""
