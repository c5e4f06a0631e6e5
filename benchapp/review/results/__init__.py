"""Results of a queue: the taxonomy, shares with intervals, co-occurrence, saturation, files. Agreement between people
is in `coding`."""
