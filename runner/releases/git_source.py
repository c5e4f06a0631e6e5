"""A release from a git repository: the files of one commit, byte for byte as they are recorded there."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from runner.base.errors import SetupError

SECONDS = 6 * 3600.0
ERROR_CHARS = 1_000
SLOW = ("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=120")  # a server that stopped sending ends the fetch
# No line ends, keywords or encodings are changed on the way, whatever the release's own attributes say.
AS_RECORDED = "* -text -ident -working-tree-encoding\n"


def fill_from_git(tree: Path, url: str, commit: str, tell: Callable[[str], None]) -> None:
    """The folder `tree` with the files of the commit, and without git's own. SetupError with git's words when that fails.

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
        tell(f"this commit alone cannot be fetched ({str(error).splitlines()[-1]}); fetching the whole history")
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
    """Is the folder a clone, or what a server has of one?"""
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
        said = done.stderr.decode(errors="replace").strip()[-ERROR_CHARS:]
        raise SetupError(f"git ended with exit code {done.returncode}: {said}")
    return done.stdout.decode(errors="replace")
