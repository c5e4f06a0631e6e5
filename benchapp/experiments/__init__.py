"""Experiments of our own: their files, plans and launches, forks and probes. Runs that finished elsewhere come through
`imports`."""
