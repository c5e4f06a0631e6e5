"""Writing and reading the record: the recorder, trajectories, redaction, digests, work in slices, and the log of human
acts. Beneath every other room: it imports none of them, only models."""
