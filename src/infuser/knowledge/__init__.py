"""Knowledge: files in, one folder out that is opened in milliseconds. It speaks of entities and names; no torch here.

| file              | holds                                                                               |
|-------------------|-------------------------------------------------------------------------------------|
| facts             | the form in which readers hand over triples and entities                            |
| readers/          | one reader per format: tables, RDF, ConceptNet, WordNet ...; each yields facts      |
| artifact          | folders written whole, their arrays mapped from disk and checked when first touched |
|                   |                                                                                     |
| gazetteer         | millions of names, found in texts                                                   |
| name_store        | such names with labels and ids, as a folder                                         |
|                   |                                                                                     |
| graph_build       | facts in, a graph out; entity_table and adjacency lay out its arrays                |
| graph_store       | a graph as a folder: entities, typed edges, who is near whom                        |
| distances         | who is near whom: landmarks settle most pairs, search the rest                      |
| graph_info        | what is in a graph; looking_up finds an entity by id or name                        |
|                   |                                                                                     |
| candidates        | what a mention may mean, and how probable that is, as a folder                      |
| candidate_rule    | when a stretch of text is a mention                                                 |
| candidate_files   | counts, names, tagged texts; candidate_imports: the files of KnowBERT and ERNIE     |
|                   |                                                                                     |
| entity_vectors    | vectors of entities as a folder, read row by row                                    |
| vector_files      | such vectors read from files                                                        |
| vector_training   | the same trained on triples with PyKEEN                                             |
| vector_encoding   | the same encoded from what is said about entities; descriptions gathers that        |
"""
