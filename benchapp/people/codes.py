"""Codes that open something: drawn at random, shown once, and kept as a digest alone."""

from __future__ import annotations

import hashlib
import secrets

INVITATION, TOKEN = "sgi_", "sgt_"  # so that a scanner of secrets, and a person, sees what it is
BYTES = 24  # 192 bits: nobody finds one by trying, so a plain digest does


def draw_code(prefix: str) -> str:
    return prefix + secrets.token_urlsafe(BYTES)


def digest_code(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()
