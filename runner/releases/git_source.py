"""A release from a git repository: the files of one commit, byte for byte as they are recorded there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from runner.base.errors import SetupError

SECONDS = 6 * 3600.0
# Output of git or Git LFS -> its meaning. Their own text is never shown: it has addresses, and help for other tasks.
MEANINGS = (
    (r"no space left", "the disk is full"),
    (
        r"smudge|git-lfs|\blfs\b",
        "Git LFS could not download a large file; try again, or set GIT_LFS_SKIP_SMUDGE=1 to fetch without large files",
    ),
    (r"resolve host|name or service", "the server's name is unknown: check the address and the network"),
    (r"authentication|could not read username|permission denied|\b40[13]\b", "the server asks for a login"),
    (r"not found|does not exist|not appear to be a git repository|\b404\b", "there is no such repository"),
    (r"not our ref|unadvertised object|remote ref", "the server does not give single commits"),
    (r"connect|timed out|unable to access|hung up|early eof|operation too slow", "the server cannot be reached"),
)
SLOW = ("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=120")  # a server that stopped sending ends the fetch
# No line ends, keywords or encodings are changed, even if the release's own attributes say so.
AS_RECORDED = "* -text -ident -working-tree-encoding\n"


def fill_from_git(tree: Path, url: str, commit: str, tell: Callable[[str], None]) -> None:
    """Fill the folder `tree` with the files of the commit, without git's own. SetupError if that fails.

    Asks for this commit alone. A server that does not give single commits is asked for all branches and tags.
    """
    store = tree.with_name("git")
    for folder in (store, tree):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    _git("init", "--quiet", "--bare", "--template=", str(store))
    here = (f"--git-dir={store}", *SLOW)
    _git(*here, "config", "remote.origin.url", url)  # where Git LFS, if it is installed, asks for large files
    try:
        _git(*here, "fetch", "--quiet", "--no-tags", "--depth=1", "--", url, commit)
    except SetupError as error:
        tell(f"this commit alone cannot be fetched ({error}); fetching the whole history")
        refs = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
        _git(*here, "fetch", "--quiet", "--no-tags", "--", url, *refs)
    if not _has_commit(store, commit):
        raise SetupError(f"{url} has no commit {commit}")
    (store / "info").mkdir(exist_ok=True)
    (store / "info" / "attributes").write_text(AS_RECORDED)
    out = ("-c", "core.autocrlf=false", "-c", "core.symlinks=true", "-c", "core.hooksPath=/dev/null")
    _git(f"--git-dir={store}", f"--work-tree={tree}", *out, "checkout", "--quiet", "--force", "--detach", commit)
    shutil.rmtree(store)


def is_repository(path: Path) -> bool:
    """Is the folder a clone, or a bare repository?"""
    return (path / ".git").exists() or ((path / "HEAD").is_file() and (path / "objects").is_dir())


def _has_commit(store: Path, commit: str) -> bool:
    try:
        return _git(f"--git-dir={store}", "rev-parse", "--verify", f"{commit}^{{commit}}").strip() == commit
    except SetupError:
        return False


def _git(*words: str) -> str:
    try:
        done = subprocess.run(
            ["git", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
        )
    except FileNotFoundError as error:
        raise SetupError("git is not installed; it fetches this release") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"git: {type(error).__name__}: {error}") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").lower()
        unknown = "it gave no reason that is known here"
        meaning = next((meaning for pattern, meaning in MEANINGS if re.search(pattern, said)), unknown)
        raise SetupError(f"git ended with exit code {done.returncode}: {meaning}")
    return done.stdout.decode(errors="replace")
