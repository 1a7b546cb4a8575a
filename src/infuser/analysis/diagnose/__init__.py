"""The numbers of a diagnosis: where knowledge helps, where it hurts, and what it changed inside."""
