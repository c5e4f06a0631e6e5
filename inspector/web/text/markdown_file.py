"""Markdown files from templates; text from outside cannot become HTML in them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from django.template.loader import render_to_string


def render_markdown(template: str, context: Mapping[str, object]) -> str:
    """Render the template, escaped as HTML. Only "<" and ">" stay escaped: other characters are harmless, and easier to read as they are."""
    text: str = render_to_string(template, dict(context))
    for escaped, plain in (("&#x27;", "'"), ("&quot;", '"'), ("&amp;", "&")):
        text = text.replace(escaped, plain)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"
