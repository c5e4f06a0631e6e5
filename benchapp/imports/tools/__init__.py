"""Readers of the tools that people evolve skills with."""
