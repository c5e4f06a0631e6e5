"""What the answers in a queue add up to: the taxonomy, shares with intervals, co-occurrence, saturation, files.
Agreement between people is in `coding`."""
