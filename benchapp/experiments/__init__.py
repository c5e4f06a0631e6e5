"""Experiments of our own: their files, plans and launches, forks and probes. Runs that were finished elsewhere come in
through `imports`."""
