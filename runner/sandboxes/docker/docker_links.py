"""Finding and removing links that an agent made in its container."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from runner.base.errors import SandboxError, SandboxRuined
from runner.base.types import File
from runner.sandboxes import LOGS, SOLUTION, TESTS, Sandbox
from runner.sandboxes.links import find_links_into, word_removed_links

# The time is that of the last change, which nothing in the container can set back: links of the image are older than
# the container. The engine remakes the excluded folders whenever the container starts. The list may have 40,000 blocks
# of 512 bytes. That is longer than the part that is read (32,768), so that too many links are not mistaken for a full
# disk.
_LIST = """PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
command -v find > /dev/null || exit 3
ulimit -c 0; ulimit -f 40000
full() {{ [ -n "$(find {into} -size +32768)" ]; }}
list() {{ find / \\( -path /proc -o -path /sys -o -path /dev \\) -prune -o -type l "$@" > {into} 2> /dev/null; }}
list -printf '%C@\\0%p\\0%l\\0' || full || list -exec sh -c '
  for link; do printf "%s\\0%s\\0%s\\0" "$(stat -c %Z -- "$link")" "$link" "$(readlink -- "$link")"; done' sh {{}} + || full || exit 4
"""
_REMOVE = """PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
if [ -s {doomed} ]; then xargs -0 rm -f -- < {doomed} || exit; fi
rm -f {doomed} {found}
"""
_NO_FIND, _INCOMPLETE = 3, 4  # exit codes
_FOUND, _DOOMED = "links", "doomed-links"  # files below logs, for as long as it takes
_SECONDS = 120.0


def remove_links(sandbox: Sandbox, since: float) -> list[str]:
    """See `Sandbox.remove_links`. `since`: the container's first start, in seconds since 1970.

    SandboxRuined if the agent left more links than can be checked, or removed the programs for it; SandboxError if that
    takes too long.
    """
    listing = sandbox.execute(_LIST.format(into=_place(sandbox, _FOUND)), timeout_seconds=_SECONDS)
    if listing.exit_code == _NO_FIND:
        return ["links into the tests were not looked for: the image has no program `find`"]
    if listing.exit_code is None:
        raise SandboxError(f"links cannot be looked for: {listing.output[-500:].strip()}")
    links, made = _list_links(sandbox, since)
    folders = [sandbox.path(folder) for folder in (TESTS, LOGS, SOLUTION)]
    astray = find_links_into(folders, made, links.get)
    if astray:
        sandbox.put(LOGS, {_DOOMED: File(b"".join(os.fsencode(path) + b"\0" for path, _ in astray))})
    places = {"doomed": _place(sandbox, _DOOMED), "found": _place(sandbox, _FOUND)}
    removing = sandbox.execute(_REMOVE.format(**places), timeout_seconds=_SECONDS)
    if removing.exit_code != 0:
        raise SandboxRuined(f"links into the tests cannot be removed: {removing.output[-500:].strip()}")
    notes = (
        ["links into the tests were not looked for everywhere: `find` failed"]
        if listing.exit_code == _INCOMPLETE
        else []
    )
    return notes + word_removed_links(astray)


def _place(sandbox: Sandbox, name: str) -> str:
    return f"{sandbox.path(LOGS)}/{name}"


def _list_links(sandbox: Sandbox, since: float) -> tuple[dict[str, str], list[str]]:
    """(each link's target, the links made since then), from the command's output."""
    tree = sandbox.tree(LOGS, names=frozenset({_FOUND}))
    if tree.left_out or _FOUND not in tree.files:
        raise SandboxRuined(f"links cannot be looked for, there may be too many: {'; '.join(tree.left_out)}")
    fields = iter(tree.files[_FOUND].content.split(b"\0")[:-1])
    links, made = {}, []
    try:
        for time, name, target in zip(fields, fields, fields, strict=True):
            path = os.fsdecode(name)
            links[path] = os.fsdecode(target)
            if not time or float(time) >= since:  # a small image may have no program that prints the time
                made.append(path)
    except ValueError as error:
        raise SandboxRuined(f"links cannot be looked for, `find` was replaced: {error}") from error
    return links, made


def read_start_of_container(container: Mapping[str, Any]) -> float:
    """Seconds since 1970, from the engine's answer about a running container."""
    return datetime.fromisoformat(container["State"]["StartedAt"]).timestamp()
