"""Attention in, triples out: relations between spans, read from what an encoder's heads attend to.

| file          | holds                                                                                      |
|---------------|--------------------------------------------------------------------------------------------|
| examples      | the words of this room: Triple, RelationText                                               |
| readers       | files in: our JSONL, T-REx, DocRED, FewRel, SemEval-2010-8, a reader each                  |
| placing       | where the parts of a triple stand: of all their places, those nearest together             |
| encoders      | which encoder reads, plain or infused, and what tells it from any other                    |
| features      | attention between spans, or their states, pooled by tensor operations for a whole batch    |
| streaming     | features of any number of texts, written to one memory-mapped file                         |
| classifier    | a gate ("is it a relation?") and a classifier ("which?"), on numbers only                  |
| negatives     | triples that are none, to teach the gate                                                   |
| model         | AttentionRelations: encoder, features and classifier in one; fit, predict                  |
| keeping       | a fitted model as files, without pickle                                                    |
| trigger_words | the words that say relations, learned and found                                            |
| candidates    | which triples of a text are worth asking about, bounded                                    |
| finding       | spans from sources, triggers and candidates of many texts                                  |
| negation      | "is not the capital of"                                                                    |
| extracting    | texts without end in, triples out                                                          |
| tuning        | the thresholds with the highest F1 on dev texts                                            |
| matching      | when a found triple is right: strictly, with its label, leniently                          |
| scores        | precision, recall and F1 over documents                                                    |
"""
