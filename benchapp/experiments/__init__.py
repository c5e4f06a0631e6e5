"""Experiments: their files, cells, plans and launches, forks and probes."""
