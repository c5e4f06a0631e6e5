"""Texts as pages show them: visible, folded, highlighted, compared."""
