"""Skill libraries read from a release's folder, without a database: patterns, lint, diagnostics, leaks, and the paper's numbers."""
