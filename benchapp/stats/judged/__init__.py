"""What judging models said of skills and attempts, as numbers: rows of a pass, and columns beside the trials of a run."""
