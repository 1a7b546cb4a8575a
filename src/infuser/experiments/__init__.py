"""The only room where arms are trained: one cell, a comparison, a grid.

| file          | holds                                                                          |
|---------------|--------------------------------------------------------------------------------|
| arm           | `Host` and `Arm`: which encoder is trained, and with which knowledge            |
| data          | `Data`: train, dev and test; `Annotator`: what sources find in them             |
| placebo       | the same links, shuffled between texts                                         |
| cell          | `Cell`: host x arm x task x seed, and `run_cell` from settings to result        |
| run_folder    | `RunFolder` of one training, `Results` of many cells                            |
| run           | `run`: many cells, by one process or several                                   |
| train         | `TrainJob`, `TrainedRun`: one training as `infuser train` does it               |
| settings      | the settings file of a bench                                                   |
| variations    | sweeps and ablations                                                           |
| grid          | a bench as cells, and what its entries name                                    |
| summary       | the table of a bench: means, intervals, differences (`bench_table`, `published`)|
| sweeps        | sweeps and ablations read from that table                                       |
| linkers       | trainings of linkers in run folders                                            |
| submission    | answers as GLUE's server takes them                                            |
| memory        | peak memory                                                                    |
"""
