"""`/jobs/`: what runs, what waits, what needs somebody, and what an operator can do about it."""
