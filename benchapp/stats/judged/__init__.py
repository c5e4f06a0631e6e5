"""Judging models' scores of skills and attempts as numbers: rows of a pass, and columns of a run's trials."""
