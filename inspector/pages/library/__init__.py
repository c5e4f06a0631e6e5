"""A run's library: time machine, blame, findings, author calls, probes."""
