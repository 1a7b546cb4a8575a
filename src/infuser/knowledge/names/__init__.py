"""Lists of names: stored as a folder and found in texts."""
