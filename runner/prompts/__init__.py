"""Prompt packs: the prompts of papers and of users as folders of text, found by name, checked before a launch.

The project brings layouts only: where each paper's prompts go, their placeholders, and how to recognise them. The
sentences are the papers' and come from the user's own copy (`manage.py read_prompts`).
"""
