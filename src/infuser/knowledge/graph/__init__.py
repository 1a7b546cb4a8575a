"""A knowledge graph: built from triples, stored as a folder, asked for neighbours and distances."""
