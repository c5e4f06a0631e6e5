"""Logs of Claude Code: sessions, streams, sub-agents, and messages in the same shape that other programs write."""
