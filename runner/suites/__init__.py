"""Readers of task folders, and the starter suite that ships with the project."""
