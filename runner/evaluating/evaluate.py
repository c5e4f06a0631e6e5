"""One declared evaluation, from the workspace that the agent left to its verdict (SkillGenBench, section 3.4). A
program is run once per case, an artifact compared once.

The submission is hostile: it may crash, hang, flood its output, or leave a link, a pipe or a huge file instead of the
expected one. All of that is its result. Output is bounded before it is read.

A check's name is its stage and its subject: "run: NAME", "precheck: NAME", "compare: NAME", "judge: NAME". A stage
that was not reached is skipped. The message of a failed check begins with a marker:

| name       | marker                                        | what it points to                             |
|------------|-----------------------------------------------|-----------------------------------------------|
| run:       | exit, time, ended, ruined                     | runtime or dependency (stderr's end follows)  |
| precheck:  | missing, outside, link, special, unreadable   | asset or artifact: there is no usable file    |
| precheck:  | size, format, resolution, duration            | asset or artifact: the file is of another kind|
| precheck:  | columns, rows, schema                         | interface or schema                           |
| compare:   | numeric; "table, numbers"; "json, numbers"    | number or formula: only numbers are off       |
| compare:   | exact, text, table, json, pixels              | state or rule: the content is another         |
| judge:     | score                                         | state or rule, in a model's opinion           |
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from runner.base.errors import SandboxRuined, VerifierError
from runner.base.text import cut, storable
from runner.base.types import Check, CheckGroup, CheckStatus, Dimension, File, Files, Verdict
from runner.evaluating.comparisons.comparison import Comparator, OutputComparison, PrecheckFailed, decode_text
from runner.evaluating.declaration import Artifact, Case, Evaluation, Execution, JudgeQuestion, Precheck
from runner.evaluating.judged_artifact import LEAST, MOST, Asked, Opinion, ask_judge
from runner.sandboxes import LOGS, TESTS, WORKSPACE, Completed, Sandbox

MAX_SAID = 2_000  # characters of its stderr in a message
MANAGING_SECONDS = 60.0  # for our own commands between two runs
_FOLDER = "verifier"  # below logs

# Standard output is kept up to the size that can count; the rest is dropped. The exit code is returned separately.
# Standard error is the command's own output as the sandbox caps it.
_RUN = """mkdir -p {folder} || exit 125
exec 4> {folder}/stdout || exit 125
status=$( {{ {{ sh -c {command} < {stdin} 3>&- 4>&-; echo $? >&3; }} | {{ head -c {most} >&4; cat > /dev/null; }}; }} 3>&1 )
exit "$status"
"""  # noqa: E501
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

    problem: str | None  # begins with a marker of this module's table
    errors: str  # the end of its standard error
    seconds: float
    exit_code: int | None


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


RUN, PRECHECK, COMPARE, JUDGE = "run", "precheck", "compare", "judge"
NOT_REACHED = "not reached: an earlier stage failed"


@dataclass(slots=True)
class EvaluationOutcome:
    """One case, or the artifact. It grows stage by stage. `comparison` is None if it was not reached or nothing is
    compared, `opinion` without a judge or a readable answer."""

    name: str
    group: CheckGroup
    checks: list[Check] = field(default_factory=list)
    stopped: bool = False  # an earlier stage failed; later ones are skipped
    comparison: OutputComparison | None = None
    opinion: Opinion | None = None
    output: str = ""  # for the verdict's output
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Did all stages before a judge pass?"""
        return not self.stopped and (self.comparison is None or self.comparison.passed)

    @property
    def score(self) -> float:
        return self.comparison.score if self.comparison else 0.0

    def add(self, stage: str, status: CheckStatus, message: str = "", seconds: float | None = None) -> None:
        self.checks.append(Check(self.group, f"{stage}: {self.name}", status, message, seconds))

    def note_run(self, ran: Ran) -> None:
        self.stopped, self.seconds = ran.problem is not None, ran.seconds
        ended = ran.problem or f"exit code {ran.exit_code}"
        self.output = f"{self.name}: {ended}, {ran.seconds:.1f} s\n{ran.errors}".strip()
        if ran.problem:
            self.add(RUN, CheckStatus.FAILED, f"{ran.problem}\n{ran.errors}".strip(), ran.seconds)
        else:
            self.add(RUN, CheckStatus.PASSED, seconds=ran.seconds)

    def compare(
        self, take: Callable[[], bytes], expected: bytes | None, comparator: Comparator | None, precheck: Precheck
    ) -> bytes:
        """Take the output, pre-check it, then compare it if there is an expectation. Return the output."""
        content, comparison = b"", None
        try:
            content = take()
            precheck.require(content)
            if comparator is not None and expected is not None:
                comparison = comparator.compare(content, expected)
        except PrecheckFailed as problem:
            self.stopped = True
            self.add(PRECHECK, CheckStatus.FAILED, str(problem))
            if comparator is not None:
                self.add(COMPARE, CheckStatus.SKIPPED, NOT_REACHED)
            return content
        if precheck.is_declared:
            self.add(PRECHECK, CheckStatus.PASSED)
        if comparator is not None and comparison is not None:
            self.comparison = comparison
            among = ", numbers" if comparison.numbers_only and comparator.kind != "numeric" else ""
            message = f"{comparator.kind}{among}: {comparison.message}" if comparison.message else ""
            self.add(COMPARE, CheckStatus.PASSED if comparison.passed else CheckStatus.FAILED, message)
        return content


NO_JUDGE = "no judge model was given; what only a judge can tell is unknown"


MAX_OUTPUT_CHARS = 100_000
PRECHECK_DIMENSION, COMPARISON_DIMENSION, JUDGE_DIMENSION = "pre-check", "comparison", "judge"


def _judge_cases(outcomes: Sequence[EvaluationOutcome], digest: str) -> Verdict:
    """reward and outcome: the share of cases that passed. overall: the mean of what the comparisons score."""
    share = _mean([float(each.passed) for each in outcomes])
    score = _mean([each.score for each in outcomes])
    return Verdict(
        source=Execution.source,
        success=all(each.passed for each in outcomes),
        reward=share,
        outcome=share,
        overall=score,
        checks=tuple(check for each in outcomes for check in each.checks),
        dimensions=(
            Dimension(PRECHECK_DIMENSION, _mean([float(each.comparison is not None) for each in outcomes])),
            Dimension(COMPARISON_DIMENSION, score),
        ),
        output=cut("\n\n".join(each.output for each in outcomes), MAX_OUTPUT_CHARS),
        verifier_digest=digest,
        duration_seconds=sum(each.seconds for each in outcomes),
    )


def of_ruin(evaluation: Evaluation, reason: str, digest: str) -> Verdict:
    """Nothing can run in the sandbox any longer: the submission's fault, and another try would score the same."""
    check = Check(CheckGroup.TEST, f"{RUN}: sandbox", CheckStatus.FAILED, f"ruined: {reason}")
    return Verdict(
        source=evaluation.source,
        success=False,
        reward=0.0,
        outcome=0.0,
        overall=0.0,
        checks=(check,),
        output=reason,
        verifier_digest=digest,
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def evaluate(
    evaluation: Evaluation, sandbox: Sandbox, *, tests: Files, instruction: str, digest: str, ask: Asked | None
) -> Verdict:
    """Evaluate after the agent's processes ended and its files in tests and logs were removed. `digest`: of the tests.

    A fault of the submission is its result. A failing sandbox or judge raises InfrastructureError and scores nothing.
    """
    try:
        if isinstance(evaluation, Artifact):
            return _evaluate_artifact(evaluation, sandbox, tests, instruction, digest, ask)
        # In file order, in one workspace.
        cases = enumerate(evaluation.cases, start=1)
        outcomes = [_run_case(evaluation, case, Submission(sandbox, number), tests) for number, case in cases]
    except SandboxRuined as error:
        return of_ruin(evaluation, str(error), digest)
    return _judge_cases(outcomes, digest)


def _run_case(evaluation: Execution, case: Case, submission: Submission, tests: Files) -> EvaluationOutcome:
    """Inputs are put in right before their case, expected outputs never."""
    outcome, most = EvaluationOutcome(case.name, case.group), evaluation.precheck.max_bytes
    if case.output is not None:
        submission.remove(case.output)
    submission.sandbox.put(WORKSPACE, {place: tests[path] for place, path in case.files.items()})
    ran = submission.run(
        " ".join((evaluation.command, *map(shlex.quote, case.args))),
        stdin=case.stdin.read(tests),
        seconds=case.timeout_seconds,
        max_bytes=most,
        exit_code=case.exit_code,
    )
    outcome.note_run(ran)

    def take() -> bytes:
        return submission.stdout(most) if case.output is None else submission.take(case.output, most)

    if outcome.stopped:
        outcome.add(COMPARE, CheckStatus.SKIPPED, NOT_REACHED)
    else:
        outcome.compare(take, case.expected.read(tests), case.comparator, evaluation.precheck)
    return outcome


def _evaluate_artifact(
    evaluation: Artifact, sandbox: Sandbox, tests: Files, instruction: str, digest: str, ask: Asked | None
) -> Verdict:
    """If a judge was wanted and unavailable, a passed comparison is not a success but unknown."""
    outcome, content = EvaluationOutcome(evaluation.path, evaluation.group), b""
    submission, precheck = Submission(sandbox), evaluation.precheck
    expected = None if evaluation.expected is None else evaluation.expected.read(tests)
    if evaluation.command:
        submission.remove(evaluation.path)
        seconds = evaluation.timeout_seconds
        outcome.note_run(submission.run(evaluation.command, seconds=seconds, max_bytes=precheck.max_bytes))

    def take() -> bytes:
        found = submission.take(evaluation.path, precheck.max_bytes)
        if evaluation.judge is not None:
            decode_text(found)  # a judge reads text
        return found

    if outcome.stopped:
        for stage in (PRECHECK,) if evaluation.comparator is None else (PRECHECK, COMPARE):
            outcome.add(stage, CheckStatus.SKIPPED, NOT_REACHED)
    else:
        content = outcome.compare(take, expected, evaluation.comparator, precheck)
    success: bool | None = outcome.passed
    if evaluation.judge is not None:
        approved = _ask_judge(evaluation.judge, outcome, instruction, content, expected, ask)
        success = outcome.passed and approved
    reward = None if success is None else _score_artifact(outcome, evaluation.judge)
    dimensions = [Dimension(PRECHECK_DIMENSION, float(not outcome.stopped))]
    if outcome.comparison is not None:
        dimensions.append(Dimension(COMPARISON_DIMENSION, outcome.score))
    if outcome.opinion is not None:
        dimensions.append(Dimension(JUDGE_DIMENSION, outcome.opinion.score, float(MOST), reason=outcome.opinion.reason))
    return Verdict(
        source=Artifact.source,
        success=success,
        reward=reward,
        outcome=None if success is None else float(success),
        overall=reward,
        checks=tuple(outcome.checks),
        dimensions=tuple(dimensions),
        output=cut(outcome.output, MAX_OUTPUT_CHARS),
        verifier_digest=digest,
        duration_seconds=outcome.seconds,
    )


def _ask_judge(
    question: JudgeQuestion,
    outcome: EvaluationOutcome,
    instruction: str,
    content: bytes,
    reference: bytes | None,
    ask: Asked | None,
) -> bool | None:
    """Ask a model about an artifact that passed the pre-check. None: its answer is unknown."""
    if outcome.stopped or ask is None:
        outcome.add(JUDGE, CheckStatus.SKIPPED, NOT_REACHED if outcome.stopped else NO_JUDGE)
        return False if outcome.stopped else None
    outcome.opinion, problem = ask_judge(question, instruction, content, reference, ask)
    if outcome.opinion is None:
        outcome.add(JUDGE, CheckStatus.ERROR, problem)
        return None
    score, passed = outcome.opinion.score, outcome.opinion.score >= question.threshold
    message = f"score: {score} of 5, at least {question.threshold} passes: {outcome.opinion.reason}"
    outcome.add(JUDGE, CheckStatus.PASSED if passed else CheckStatus.FAILED, message)
    return passed


def _score_artifact(outcome: EvaluationOutcome, question: JudgeQuestion | None) -> float:
    """The mean of 1 for what passed and its share for what did not. 0 if the artifact cannot be compared."""
    if outcome.stopped:
        return 0.0
    parts = [] if outcome.comparison is None else [1.0 if outcome.comparison.passed else outcome.score]
    if question is not None and outcome.opinion is not None:
        score = outcome.opinion.score
        parts.append(1.0 if score >= question.threshold else (score - LEAST) / (MOST - LEAST))
    return _mean(parts)
