"""Candidate entities of mentions with their prior probabilities."""
