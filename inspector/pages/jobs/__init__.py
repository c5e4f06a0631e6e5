"""Jobs: what runs, what waits, what an operator can do."""
