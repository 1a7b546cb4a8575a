"""Tables of rows, read from files as people have them; every row remembers its file and line."""
