"""What a queue found: the taxonomy, shares with intervals, exports."""
