"""Workflows that people draw of tasks: two alone, then both compared, then one settled."""
