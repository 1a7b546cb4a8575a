"""A knowledge graph: built from triples, stored as a folder, with neighbours and distances."""
