"""Whose fault is a failed build? The task's, where the same files fail again; the machine's, where another try may not."""

from __future__ import annotations

import re

from runner.base.errors import ImageError, SandboxError

MAX_TAIL_CHARS = 8_000  # of the log, in which a failed command tells why

# What a network, a registry or a disk says that does better later.
_PASSING = re.compile(
    r"dial tcp|no such host|timed out|(?:i/o|read|connect|connection|gateway|request) ?timeout|tls handshake|connection (?:was )?(?:refused|reset|aborted)"
    r"|temporary failure|could not resolve|name resolution|unreachable|unexpected eof|early eof|broken pipe"
    r"|no space left|disk quota|too many requests|toomanyrequests|service unavailable|bad gateway|internal server error"
    r"|hash sum mismatch|failed to fetch|unable to connect|connection error|network error|failed to establish"
    r"|etimedout|econnreset|econnrefused|enotfound|eai_again|\b(?:error|http|status)[ :]+(?:429|50[0-4])\b",
    re.IGNORECASE,
)
# What a builder says of a Dockerfile, its context or the images it names.
_DESCRIBED = re.compile(
    r"dockerfile parse error|unknown instruction|no build stage in current context|cannot be empty"
    r"|(?:copy|add) failed|no source files were specified|failed to compute cache key|failed to calculate checksum"
    r"|not found in build context|excluded by \.dockerignore|cannot copy from stage|invalid from flag|circular dependency"
    r"|requires (?:exactly|at least)|unknown flag|only supported (?:with|if)|the --\w+ (?:option|flag) requires"
    r"|is not allowed|invalid reference format|pull access denied|repository does not exist|manifest (?:for .* )?(?:unknown|not found)"
    r"|failed to resolve source metadata.*: not found|no match(?:ing)? (?:for platform|manifest)"
    r"|unterminated heredoc|file with no instructions|greater than max allowed size|invalid escape token"
    r'|failed to process "|unsupported modifier|must have two arguments|must be of the form|should not be blank'
    r"|cannot parse platform|invalid stage index|unsupported mount type|unexpected key '|invalid mount target"
    r"|invalid containerport|invalid signal|invalid checksum|source can't be a url|secret \S+: not found|unset ssh forward key"
    r"|buildkit-mount\d+/.*: no such file|: not a directory|cannot copy to non-directory"
    r"|unable to find (?:user|group)|no matching entries in (?:passwd|group) file",
    re.IGNORECASE | re.DOTALL,
)
_STEP_ENDED = re.compile(r"(?:returned a non-zero code|did not complete successfully: exit code): (\d+)", re.IGNORECASE)
_COMMAND = re.compile(r'process ".*" did not complete successfully', re.DOTALL)  # it may name what a network says
_KILLED = 137
# Lines in which a builder repeats the Dockerfile: a command may name a timeout and fail for another reason.
_REPEATED = re.compile(
    r"^(?:#\d+ (?:\[|ERROR)| *\d+ \| | > \[|Step \d+/\d+ :|The command '|ERROR: failed to solve).*", re.MULTILINE
)


def build_error(message: str, said: str, log: str = "") -> ImageError | SandboxError:
    """The error to raise, with `message` and `log`. `said` is the builder's own last word.

    A command of the Dockerfile that failed is the task's fault, unless it was killed or its end speaks of the network
    or the disk. What nobody here knows is the machine's: it is tried again.
    """
    if ended := _STEP_ENDED.search(said):
        passing = int(ended[1]) == _KILLED or _PASSING.search(_REPEATED.sub("", log[-MAX_TAIL_CHARS:]))
        return (SandboxError if passing else ImageError)(message, log)
    said = _COMMAND.sub("", said)
    described = _DESCRIBED.search(said) and not _PASSING.search(said)
    return (ImageError if described else SandboxError)(message, log)
