"""Logs of agent programs and evaluation tools."""
