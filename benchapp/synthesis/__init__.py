"""Synthetic records and runs of any size, seeded: what later work measures on. Their numbers mean nothing."""
