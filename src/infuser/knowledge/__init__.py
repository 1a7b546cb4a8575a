"""Knowledge: files in, one folder out that is opened in milliseconds. It speaks of entities and names; no torch here.

| file         | holds                                                                               |
|--------------|-------------------------------------------------------------------------------------|
| readers/     | one reader per format: tables, RDF, ConceptNet, WordNet ...; each yields `facts`     |
| facts        | the form in which readers hand over triples and entities                            |
| artifact     | folders written whole, their arrays mapped from disk and checked when first touched |
| gazetteer    | millions of names, found in texts                                                   |
| graph_store  | entities and typed edges; who is near whom                                          |
| candidates   | what a mention may mean, and how probable that is                                   |
"""
