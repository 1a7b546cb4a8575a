"""Finds out whether knowledge helps, where, and what it changed inside.

| file       | holds                                                                                       |
|------------|---------------------------------------------------------------------------------------------|
| diagnose   | `diagnose(runs)`: lets all models answer and puts the answers together                      |
| runs       | which runs belong together; trains the baselines, placebos and sizes that are missing       |
| data       | the test examples, how frequent their entities are, the metric                              |
| effects    | what each source does, which examples flip, and what wrong entities do                      |
| corruption | wrong entities, made on purpose                                                             |
| buckets    | scores by how frequent entities are                                                         |
| directions | which ones of the weights fine-tuning turned, and how many the features use                 |
| result     | `Diagnosis`: the numbers and the sentence about them                                        |
"""
