"""Texts in, entities out: what a linker learns from, what it says, and how right it is."""
