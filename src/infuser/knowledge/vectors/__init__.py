"""Entity vectors: read from files, trained on triples or encoded from descriptions; stored as a folder."""
