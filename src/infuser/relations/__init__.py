"""Attention in, triples out: relations between spans, read from what an encoder's heads attend to.

| file          | holds                                                                                       |
|---------------|---------------------------------------------------------------------------------------------|
| examples      | Triple and RelationText, and what is counted and chosen among them                          |
| readers       | files in: our JSONL, T-REx, DocRED, FewRel, SemEval-2010-8, a reader each                   |
|               |                                                                                             |
| encoders      | the encoder that reads, plain or infused, and its digest                                    |
| features      | attention between spans, or their states, for a batch or streamed to a memory-mapped file   |
| classifier    | a gate ("is it a relation?") and a classifier ("which?"), on numbers only                   |
| negatives     | triples that are no relation, to train the gate                                             |
| model         | AttentionRelations: encoder, features and classifier in one; fit, tune, predict             |
| saving        | a fitted model and its sources as files, without pickle                                     |
|               |                                                                                             |
| trigger_words | the words that say relations, learned and found                                             |
| candidates    | spans from sources, and which triples of a text are candidates, bounded                     |
| negation      | "is not the capital of"                                                                     |
| extraction    | texts without end in, triples out                                                           |
| scores        | when a found triple is right (strict, labelled, lenient); precision, recall and F1          |
| evaluation    | ExtractionTest: scores under any thresholds, the best thresholds, what guessing reaches     |
"""
