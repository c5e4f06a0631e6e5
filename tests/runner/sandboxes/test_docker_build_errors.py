"""Which failed builds are tried again, by what Docker's two builders and programs in a build really say."""

from __future__ import annotations

from runner.base.errors import ImageError, SandboxError
from runner.sandboxes.docker.docker_builds import build_error
from tests.cases import every

RUN_FAILED = 'failed to solve: process "/bin/sh -c make" did not complete successfully: exit code: '
CLASSIC_FAILED = "The command '/bin/sh -c make' returned a non-zero code: "


@every(
    "dockerfile parse error line 2: unknown instruction: RUUN",
    "failed to solve: dockerfile parse error on line 2: unknown instruction: RUUN (did you mean RUN?)",
    "COPY failed: file not found in build context or excluded by .dockerignore: stat missing.txt: file does not exist",
    "COPY failed: no source files were specified",
    'failed to solve: failed to compute cache key: failed to calculate checksum of ref 0e::ab: "/missing.txt": not found',  # noqa: E501
    "failed to solve: no build stage in current context",
    "the Dockerfile (Dockerfile) cannot be empty",
    'failed to solve: cannot copy from stage "b", it needs to be defined before current stage "a"',
    "pull access denied for nosuch/image, repository does not exist or may require 'docker login'",
    "manifest for python:3.99 not found: manifest unknown: manifest unknown",
    "failed to solve: python:3.99: failed to resolve source metadata for docker.io/library/python:3.99: "
    "docker.io/library/python:3.99: not found",
    f"{RUN_FAILED}2",
    f"{CLASSIC_FAILED}127",
    # From BuildKit of engine 26, for Dockerfiles with these faults:
    "failed to solve: unterminated heredoc",
    "failed to solve: file with no instructions",
    "failed to solve: dockerfile line greater than max allowed size of 65535",
    "failed to solve: invalid escape token 'x' does not match ` or \\",
    'failed to solve: failed to process "${B": unsupported modifier (\ufffd) in substitution',
    'failed to solve: failed to process "y z=\\"": unexpected end of statement while looking for matching double-quote',
    "failed to solve: ENV must have two arguments",
    'failed to solve: Syntax error - can\'t find = in "be". Must be of the form: name=value',
    "failed to solve: base name ($BASE) should not be blank",
    'failed to solve: failed to parse platform a/b/c/d: "a/b/c/d": cannot parse platform specifier: invalid argument',
    "failed to solve: invalid stage index 3",
    'failed to solve: unsupported mount type "foo"',
    "failed to solve: unexpected key 'foo' in 'foo=/x' (did you mean from?)",
    'failed to solve: invalid mount target "/"',
    "failed to solve: Invalid containerPort: abc",
    "failed to solve: invalid signal: FOO",
    "failed to solve: invalid checksum digest length",
    "failed to solve: source can't be a URL for COPY",
    "failed to solve: secret tok: not found",
    "failed to solve: unset ssh forward key default",
    "failed to solve: lstat /var/lib/docker/tmp/buildkit-mount149/no such: no such file or directory",
    "failed to solve: mkdir /var/lib/docker/overlay2/lsi05/merged/etc/passwd: not a directory",
    "failed to solve: cannot copy to non-directory: /var/lib/docker/overlay2/ejhr/merged/etc/passwd",
    'failed to solve: process "/bin/sh -c echo connection timed out" did not complete successfully: unable to find user '  # noqa: E501
    "nosuch: no matching entries in passwd file",
)
def test_what_the_same_files_would_meet_again_is_their_fault(said: str) -> None:
    found = build_error("its image cannot be built", said, "make: *** No rule to make target 'all'.  Stop.\n")
    assert isinstance(found, ImageError)
    assert (str(found), found.log[:4]) == ("its image cannot be built", "make")


@every(
    'Get "https://registry.example/v2/": dial tcp: lookup registry.example on 10.0.0.53:53: no such host',
    "failed to solve: python:3: failed to resolve source metadata for docker.io/library/python:3: failed to do request: "  # noqa: E501
    'Head "https://registry.example/v2/": net/http: TLS handshake timeout',
    "failed to compute cache key: failed to copy: write /var/lib/docker/tmp/x: no space left on device",
    "toomanyrequests: You have reached your pull rate limit",
    "error committing 4kz: database is locked",
    f"{RUN_FAILED}137",
    f"{CLASSIC_FAILED}137",
)
def test_what_may_do_better_later_is_the_machines(said: str) -> None:
    assert isinstance(build_error("its image cannot be built", said), SandboxError)


@every(
    "Err:1 http://deb.example bookworm InRelease\n  Temporary failure resolving 'deb.example'\nE: Unable to locate "
    "package x",
    "pip._vendor.urllib3 ... NewConnectionError: Failed to establish a new connection: [Errno 101]\nERROR: No matching",
    "npm error code ECONNRESET\nnpm error network aborted",
    "curl: (6) Could not resolve host: files.example",
    "curl: (22) The requested URL returned error: 503",
    "tar: write error: No space left on device",
    "error: RPC failed; curl 56 ... \nfatal: early EOF",
)
def test_a_command_whose_end_speaks_of_network_or_disk_is_tried_again(log: str) -> None:
    assert isinstance(build_error("x", f"{RUN_FAILED}1", log), SandboxError)


def test_a_command_that_only_names_a_timeout_is_no_reason_to_try_again() -> None:
    command = "timeout 60 make && curl --on-error 'connection refused'"
    log = f'#8 [2/3] RUN {command}\n#8 0.3 make: no rule\n#8 ERROR: process "{command}"\n   2 | >>> RUN {command}\n'
    said = f'failed to solve: process "/bin/sh -c {command}" did not complete successfully: exit code: 2'
    assert isinstance(build_error("x", said, log), ImageError)


def test_a_timeout_long_before_the_command_that_failed_is_no_reason_to_try_again() -> None:
    log = "Connection timed out, retrying\n" + "compiling\n" * 2_000 + "error: expected ';'\n"
    assert isinstance(build_error("x", f"{RUN_FAILED}1", log), ImageError)
