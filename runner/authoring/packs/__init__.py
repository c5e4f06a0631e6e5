"""Prompts of packs in the place of ours: what their placeholders stand for, and which prompt an occasion gets."""
