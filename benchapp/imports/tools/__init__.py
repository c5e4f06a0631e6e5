"""Readers for the tools that people evolve skills with."""
