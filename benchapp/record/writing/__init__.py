"""Writes rows of the record: one module for each family of rows, whoever asks (recorder, imports, forks, synthesis)."""
