"""Entity vectors: read from files or trained on triples, stored as a folder; `infuser.linking` encodes descriptions."""
