"""Codes that grant access: drawn at random, shown once, and stored only as a digest."""

from __future__ import annotations

import hashlib
import secrets

INVITATION, TOKEN = "sgi_", "sgt_"  # so that people and scanners of secrets recognise them
BYTES = 24  # 192 bits: nobody can guess one, so a plain digest is enough


def draw_code(prefix: str) -> str:
    return prefix + secrets.token_urlsafe(BYTES)


def digest_code(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()
