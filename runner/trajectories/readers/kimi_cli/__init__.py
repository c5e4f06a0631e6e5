"""Logs of Kimi CLI and of Kimi Code, which followed it."""
