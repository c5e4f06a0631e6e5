"""Two trajectories of one task compared: which steps belong together, and where the two diverge."""
