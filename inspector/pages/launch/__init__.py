"""Launching an experiment."""
