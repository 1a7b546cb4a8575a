"""Infused models inside other libraries: sentence-transformers, spaCy's text classification."""
