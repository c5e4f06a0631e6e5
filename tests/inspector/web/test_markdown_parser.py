"""Threads that read their first link at the same time: mdurl's tables are full before there is a second thread."""

from __future__ import annotations

import subprocess
import sys

FIRST_LINKS = """
import sys
from mdurl import _decode, _encode
from inspector.web.text.markdown import make_parser
parser = make_parser(html=False)
full = set(_encode.encode_cache), set(_decode.decode_cache)
parser.render("[a](<https://a/ b>) <https://a/%42> <a@b.c> ![a](b)")
sys.exit(full != (set(_encode.encode_cache), set(_decode.decode_cache)) or not all(full))
"""


def test_no_link_fills_a_table_later() -> None:
    subprocess.run([sys.executable, "-c", FIRST_LINKS], check=True)
