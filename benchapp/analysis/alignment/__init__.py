"""Two trajectories of one task side by side: which steps belong together, and where the two part."""
