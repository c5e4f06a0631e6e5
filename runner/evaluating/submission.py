"""Runs the submission in the sandbox the agent left, and takes out its output.

The submission is hostile: it may crash, hang, flood its output, or leave a link, a pipe or a huge file instead of the
expected one. All of that is its result. Output is bounded before it is read.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from runner.base.errors import VerifierError
from runner.base.text import cut, storable
from runner.base.types import File
from runner.evaluating.comparisons.comparison import PrecheckFailed
from runner.sandboxes import LOGS, TESTS, Completed, Sandbox

MAX_SAID = 2_000  # characters of its stderr in a message
MANAGING_SECONDS = 60.0  # for our own commands between two runs
_FOLDER = "verifier"  # below logs

# Standard output is kept up to the size that can count; the rest is dropped. The exit code is returned separately.
# Standard error is the command's own output as the sandbox caps it.
_RUN = """mkdir -p {folder} || exit 125
exec 4> {folder}/stdout || exit 125
status=$( {{ {{ sh -c {command} < {stdin} 3>&- 4>&-; echo $? >&3; }} | {{ head -c {most} >&4; cat > /dev/null; }}; }} 3>&1 )
exit "$status"
"""
# Nothing is read or removed through a link that leads out of the workspace.
_PLACE = """top=$(pwd -P); [ "$top" = / ] && top=
folder=$(cd -P -- {folder} 2>/dev/null && pwd -P) || {{ echo missing; exit 0; }}
case "$folder/" in "$top"/*) ;; *) echo outside; exit 0;; esac
"""
_TAKE = (
    _PLACE
    + """if [ -L {place} ]; then echo link
elif [ ! -e {place} ]; then echo missing
elif [ ! -f {place} ]; then echo special
elif mkdir -p {into} && head -c {most} < {place} > {into}/output; then echo taken
else echo unreadable; fi
"""
)
_REMOVE = _PLACE + "rm -rf {place}"
_WHY = {
    "missing": "there is no {}",
    "outside": "{} lies outside the workspace, behind a link",
    "link": "{} is a link, expected a plain file",
    "special": "{} is a folder or a special file, expected a plain file",
    "unreadable": "{} cannot be read",
}


@dataclass(frozen=True, slots=True)
class Ran:
    """`problem` is None if the program ended by itself with the expected exit code."""

    problem: str | None  # begins with a marker of `runner.evaluating.outcome`
    said: str  # the end of its standard error
    seconds: float
    exit_code: int | None

    @property
    def check_message(self) -> str:
        return f"{self.problem}\n{self.said}".strip() if self.problem else ""


@dataclass(frozen=True, slots=True)
class Submission:
    """The workspace as the agent left it. `number` separates the files of one run from those of others."""

    sandbox: Sandbox
    number: int = 0

    def run(self, command: str, *, stdin: bytes = b"", seconds: float, max_bytes: int, exit_code: int = 0) -> Ran:
        """Run the command to its end; none of its processes survive. Keep max_bytes + 1 of its standard output."""
        self.sandbox.put(TESTS, {f"{self.number}/stdin": File(stdin)})
        script = _RUN.format(
            folder=shlex.quote(self._logs),
            stdin=shlex.quote(f"{self.sandbox.path(TESTS)}/{self.number}/stdin"),
            command=shlex.quote(command),
            most=max_bytes + 1,
        )
        done = self.sandbox.execute(script, timeout_seconds=seconds)
        self.sandbox.end_processes()
        return Ran(_problem(done, exit_code), _end(done.output), done.duration_seconds, done.exit_code)

    def stdout(self, max_bytes: int) -> bytes:
        """Return the output of the last run. PrecheckFailed if it is too large or the submission removed it."""
        return self._pull("stdout", "its standard output", max_bytes)

    def take(self, path: str, max_bytes: int) -> bytes:
        """Return a file of the workspace. PrecheckFailed if it is not a regular file inside it."""
        answer = self._run_script(_TAKE, path, into=shlex.quote(self._logs), most=max_bytes + 1)
        if answer != "taken":
            raise PrecheckFailed(answer, _WHY[answer].format(path))
        return self._pull("output", path, max_bytes)

    def remove(self, path: str) -> None:
        """Remove anything at the path, so that a file found there later comes from the run."""
        self._run_script(_REMOVE, path)

    @property
    def _logs(self) -> str:
        return f"{self.sandbox.path(LOGS)}/{_FOLDER}/{self.number}"

    def _run_script(self, script: str, path: str, **places: object) -> str:
        """Run one of our scripts on a path and return the last line of its output."""
        place, folder = f"./{path}", f"./{path}".rpartition("/")[0]
        text = script.format(place=shlex.quote(place), folder=shlex.quote(folder), **places)
        done = self.sandbox.execute(text, timeout_seconds=MANAGING_SECONDS)
        if done.timed_out:
            raise VerifierError(f"{path}: cannot be looked at within {MANAGING_SECONDS:g} seconds")
        answer = done.output.strip().rpartition("\n")[2].strip()
        return answer if answer in (*_WHY, "taken") else "unreadable"

    def _pull(self, name: str, what: str, max_bytes: int) -> bytes:
        # Of this run alone: all runs together may exceed what a sandbox returns whole.
        file = self.sandbox.tree(LOGS, f"{_FOLDER}/{self.number}").files.get(name)
        if file is None:
            raise PrecheckFailed("missing", f"{what} cannot be taken out of the sandbox")
        if len(file.content) > max_bytes:
            raise PrecheckFailed("size", f"{what} has more than {max_bytes:,} bytes")
        return file.content


def _problem(done: Completed, expected: int) -> str | None:
    if done.timed_out:
        return f"time: it was ended after {done.duration_seconds:.1f} seconds"
    if done.exit_code is None:
        return "ended: it brought the sandbox down"
    if done.exit_code != expected:
        return f"exit: it ended with exit code {done.exit_code}, expected {expected}"
    return None


def _end(output: str) -> str:
    """The last lines, where an interpreter reports the error."""
    text = re.sub(r"\n{3,}", "\n\n", storable(output)).strip()
    return text if len(text) <= MAX_SAID else "[...]" + cut(text[-MAX_SAID:])
