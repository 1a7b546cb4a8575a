"""Encoder in, scores out."""
