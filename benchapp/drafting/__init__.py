"""Drafts of tasks in the record: asking a model step by step, edits of people, and the way into a suite."""
