"""Logs of Codex: event streams and rollouts."""
