"""Tables of rows, read from files as people have them; every row remembers its file and line.

    file ──▶ blocks ──▶ parse ──▶ Arrow columns with the line of each row   (knowledge, corpora: millions of rows)
                  └──▶ rows ──▶ one row at a time, with its `Place`         (examples, lists, JSON lines)

| file     | holds                                                                               |
|----------|-------------------------------------------------------------------------------------|
| blocks   | files opened (.gz, .zst, standard input) and cut into blocks of whole records        |
| quotes   | where the records of a CSV file end                                                  |
| parse    | blocks of CSV and TSV as Arrow columns (JSON lines: parse_json); Parquet files opened |
| rows     | lines, lists, tables with named columns, JSON (lists: json_lists) and TOML, row by row |
| examples | rows as examples: text, pair and label                                               |
| conll    | sentences of words with tags, one word per line                                      |
| pubtator, brat | texts with mentions and relations beside them, as `documents.MarkedDocument`   |
| values   | checks of values in JSON                                                             |
| skipped  | `Place`, `BadRow`, and `Skipped`, which counts rows that cannot be read              |
"""
