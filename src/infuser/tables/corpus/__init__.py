"""A corpus on disk, read: files cut into blocks by one process, blocks turned into texts by many.

| file           | holds                                                              |
|----------------|--------------------------------------------------------------------|
| files          | which files there are; a corpus as raw blocks                       |
| cutting        | streams of bytes cut into whole records                             |
| headers        | the names of a table's columns                                      |
| parquet_blocks | blocks of a Parquet file                                            |
| texts          | the texts of a block; what cannot be read is told                   |
| cells          | cells of CSV, TSV and Parquet                                       |
| json_cells     | cells of JSON lines                                                 |
"""
