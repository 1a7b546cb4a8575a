"""What knowledge changed and what an encoder knows: explain, diagnose, probe, select."""
