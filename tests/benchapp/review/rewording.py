"""Change a code's name or meaning alone. The form on a page gives both at once."""

from __future__ import annotations

from dataclasses import replace

from benchapp.models import Code, User
from benchapp.review.codebooks.codes import Wording, reword


def rename(code: Code, name: str, user: User | None) -> Code:
    """Give the same thing another name: labels follow automatically."""
    return reword(code, replace(Wording.of(code), name=name), user)


def redefine(code: Code, user: User | None, *, definition: str, include: str, exclude: str) -> Code:
    """Change what the code means: its labels must be looked at again."""
    return reword(code, Wording(code.name, definition, include, exclude), user)
