"""Knowledge: files in, one memory-mapped folder out. It deals with entities and names; no torch is imported here.

| place          | holds                                                                                          |
|----------------|------------------------------------------------------------------------------------------------|
| facts          | the Arrow schemas in which readers return triples and entities                                 |
| readers/       | one reader per format: tables, RDF, ConceptNet, WordNet ...; each yields facts                 |
| artifact       | folders of arrays: written whole, mapped from disk, checked when first touched                 |
| arrays         | strings and lists of different lengths in flat arrays and tries                                |
| names/         | millions of names found in texts (gazetteer), stored with labels and ids (store)               |
| graph/         | facts in, a graph out (build); entities, typed edges, neighbours and distances (store)         |
| candidates/    | which entities a mention may mean and how probably (store), and the files that say it (files)  |
| counting/      | words and pairs of words of a corpus, counted on one machine or on Spark                       |
| correlation/   | how strongly words go together (scores), as a folder of ties (build, store)                    |
| vectors/       | entity vectors (store), read from files or trained on triples                                  |
| entity_scores  | the file of one score per entity or relation                                                   |
"""
