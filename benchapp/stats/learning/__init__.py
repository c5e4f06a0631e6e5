"""What learning did: library sizes, reuse of skills, replay, what followed a reading."""
