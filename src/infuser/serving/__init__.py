"""A model behind an HTTP server: texts in, answers out, and knowledge that is exchanged while it runs.

| file      | holds                                                                                            |
|-----------|--------------------------------------------------------------------------------------------------|
| model     | what can be served: ServedModel, and models by name                                              |
| infused   | an infused model, or a plain checkpoint, as a served model                                       |
| exported  | an exported model as a served model, without torch                                               |
| knowledge | the sources in use and those that take their place; folders kept as they were when opened        |
| requests  | what clients ask, read from a request's body                                                     |
| limits    | sizes, times and lengths of queues                                                               |
| batching  | requests become batches; the one thread that uses the model                                      |
| service   | the model and the knowledge that one process answers with, and how it changes them               |
| app       | the addresses                                                                                    |
| schemas   | the fields of all answers, as JSON schemas                                                       |
| openapi   | what the addresses take and give, as an OpenAPI document and as a page                           |
| metrics   | counters that worker processes share, written for Prometheus                                     |
| channel   | questions and answers between two processes                                                      |
| worker    | one worker process                                                                               |
| server    | the server in a thread, and the parent that starts workers, replaces dead ones, and stops them   |

The parent opens the sources alone; workers load the model. Knowledge is exchanged in two steps: each worker opens what
is new beside what it has, and only when all could do so, all of them switch.
"""
