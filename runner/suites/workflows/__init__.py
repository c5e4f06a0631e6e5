"""Workflows of tasks: the steps that a task asks for, drawn by people, checked, compared, kept in a file."""
