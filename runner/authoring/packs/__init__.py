"""Prompts of packs instead of ours: the values of their placeholders, and which prompt an occasion gets."""
