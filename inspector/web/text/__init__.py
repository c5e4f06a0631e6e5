"""Texts and numbers as pages write them: formats, made visible, folded, highlighted, compared, as Markdown, as
steps."""
