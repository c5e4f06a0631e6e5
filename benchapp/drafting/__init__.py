"""Drafts of tasks in the record: asking a model step by step, edits of people, and turning a draft into a suite."""
