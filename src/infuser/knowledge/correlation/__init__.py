"""Correlation of words: scores computed from counts, and the table of ties made of them."""
