"""One command, one table: hosts x methods x tasks x seeds, each a cell that is computed once.

settings    a TOML file becomes a `Bench`                 expanding   a sweep or an ablation becomes methods
making      what its entries name, made and checked       data        examples of a task, with knowledge
cells       which cells there are, where results lie      running     one cell from settings to result
schedule    all cells, in one or several processes        memory      how much a cell needed
"""
