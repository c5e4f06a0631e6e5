"""A run: its grid, its skills, its judgements."""
