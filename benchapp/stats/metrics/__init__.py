"""Metrics for every run: each with its formula, unit and what it counts, over facts read once. `catalogue` lists all of
them."""
