"""Prompt packs: the prompts of papers and of users as folders of text, found by name, checked before a launch.

What comes along is layouts: which prompt of which paper goes where, its placeholders, and how to know it again. The
sentences are the papers' and come from the user's own copy (`manage.py read_prompts`).
"""
