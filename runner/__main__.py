"""`python -m runner`: run one episode of a suite into a folder, or print a folder's content. Needs no web, no database.

A history is printed with one line per entry, in columns: sequence, what happened, phase, task, role; then what the
agent could read (skills @ round) or was shown (retrieved trials), and how it ended; for the author: mode, answer,
status, the round after it, the evidence and skills it was shown.

Exit status: 0 done, 1 the episode stopped before its end, 2 the arguments or the setup are wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_args

from runner import protocols
from runner.agents import Limits
from runner.base.errors import RunnerError, SetupError
from runner.base.suite import Suite
from runner.base.trees import slugs
from runner.base.types import Decision, Files, TrialSlot
from runner.engine.engine import run_episode
from runner.engine.recorders import JsonLinesRecorder
from runner.engine.setup import describe_setup, setup_digest
from runner.engine.toolbox import toolbox_for
from runner.protocols.conditions import conditions_of, find_condition
from runner.protocols.history import EpisodeState, family_skills, fold
from runner.protocols.instruction import Notice
from runner.protocols.plan import EpisodePlan
from runner.protocols.prompt_choice import describe_prompts
from runner.protocols.recorder import Decided, Entry, Frozen, History, Refused, Seeded, Skipped, TrialDone
from runner.protocols.registry import OFFERED
from runner.suites.starter_suite import load_starter

RECORD = "episode.jsonl"
Library = Callable[[str], Files]
OUTCOMES = {True: "passed", False: "failed", None: "no verdict"}


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    options.agent_model, options.author_model, options.judge_model = (
        None if name == "none" else name for name in (options.agent_model, options.author_model, options.judge_model)
    )
    try:
        suite = load_starter()
        plan = _plan(options, suite)
        return _run(options.out, plan, suite) if options.verb == "run" else _print(options.out, plan)
    except SetupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except RunnerError as error:
        print(f"stopped: {type(error).__name__}: {error}; the same command continues from here", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m runner", description="Run an episode of the starter suite.")
    parser.add_argument("verb", choices=["run", "history"], help="run or continue an episode, or print its record")
    parser.add_argument("--protocol", default="skillevolbench", choices=list(OFFERED))
    parser.add_argument("--condition", required=True, metavar="NAME", help=_conditions())
    parser.add_argument(
        "--environment", required=True, metavar="KEY", help="what the episode is about: E1, or under skillflow E1-LS1"
    )
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help=f"holds {RECORD}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--agent", default="shell")
    parser.add_argument("--agent-model", default="scripted/apprentice", metavar="NAME", help="or none")
    parser.add_argument("--author-model", default="scripted/apprentice", metavar="NAME", help="or none")
    parser.add_argument("--judge-model", default="none", metavar="NAME", help="for artifacts that ask for a judge")
    parser.add_argument("--sandbox", default="local")
    parser.add_argument("--feedback", default="process", choices=["none", "binary", "rich", "process"])
    parser.add_argument("--profile", default="paper", choices=["paper", "as-released", "strict"])
    parser.add_argument(
        "--notice", choices=get_args(Notice), help="what the agent reads about its library; by default as published"
    )
    parser.add_argument("--answers", type=int, default=1, help="how often the author may answer one occasion")
    parser.add_argument("--samples", type=int, default=1, help="repetitions of deployment and replay trials")
    parser.add_argument("--placebo-replay", action="store_true", help="replay also where nothing was learned")
    parser.add_argument("--max-turns", type=int, default=Limits().max_turns)
    parser.add_argument("--max-total-tokens", type=int, help="of an attempt; without it no limit")
    return parser


def _conditions() -> str:
    names = (f"{protocol}: {', '.join(conditions_of(protocol))}" for protocol in OFFERED)
    return "; ".join(names)


def _plan(options: argparse.Namespace, suite: Suite) -> EpisodePlan:
    limits = Limits(max_turns=options.max_turns, max_total_tokens=options.max_total_tokens)
    notice: Notice = options.notice or protocols.published_notice(options.protocol)
    setup = describe_setup(
        suite,
        protocol=options.protocol,
        agent=options.agent,
        agent_model=options.agent_model,
        author_model=options.author_model,
        sandbox=options.sandbox,
        feedback=options.feedback,
        profile=options.profile,
        answers=options.answers,
        samples=options.samples,
        limits=limits,
        judge_model=options.judge_model,
        prompts=describe_prompts(find_condition(options.condition, options.protocol), options.protocol),
        notice=notice,
    )
    return EpisodePlan(
        episode=f"{options.environment}/{options.condition}/seed-{options.seed}",
        environment=protocols.find_unit(options.protocol, suite, options.environment),
        condition=find_condition(options.condition, options.protocol),
        run_seed=options.seed,
        setup_digest=setup_digest(setup),
        agent=options.agent,
        agent_model=options.agent_model,
        author_model=options.author_model,
        judge_model=options.judge_model,
        sandbox=options.sandbox,
        protocol=options.protocol,
        feedback=options.feedback,
        profile=options.profile,
        notice=notice,
        answers=options.answers,
        samples=options.samples,
        placebo_replay=options.placebo_replay,
        limits=limits,
    )


def _run(out: Path, plan: EpisodePlan, suite: Suite) -> int:
    toolbox = toolbox_for(plan, suite)
    out.mkdir(parents=True, exist_ok=True)
    recorder = JsonLinesRecorder(out / RECORD, plan)
    try:
        recorder.end_interrupted()
        run_episode(plan, recorder, toolbox)
        print(_text(recorder, plan), end="")
    finally:
        recorder.close()
    return 0


def _print(out: Path, plan: EpisodePlan) -> int:
    if not (out / RECORD).is_file():
        raise SetupError(f"{out / RECORD}: no such file (expected the record of an episode)")
    recorder = JsonLinesRecorder(out / RECORD, plan)
    try:
        print(_text(recorder, plan), end="")
    finally:
        recorder.close()
    return 0


def _text(recorder: JsonLinesRecorder, plan: EpisodePlan) -> str:
    return chronicle(plan, recorder.history(), recorder.library, tuple(recorder.decisions))


def chronicle(plan: EpisodePlan, history: History, library: Library, decisions: tuple[Decision, ...]) -> str:
    """`decisions` holds the full decision of every Decided entry, in order. Ends with a line break."""
    remaining = iter(decisions)
    lines = [f"# {plan.condition.name}, {plan.environment.key}, seed {plan.run_seed}"]
    for index, entry in enumerate(history):
        before = history[:index]
        if isinstance(entry.event, Decided):
            line = _render_decision(entry.event, next(remaining), before, library)
        else:
            line = _other(entry, fold(before), plan, library)
        lines.append(f"{entry.sequence:>3}  {line}".rstrip())
    return "\n".join(lines) + "\n"


def _other(entry: Entry, state: EpisodeState, plan: EpisodePlan, library: Library) -> str:
    match entry.event:
        case TrialDone() as event:
            return _trial(event, state, plan, library)
        case Seeded() as event:
            return f"seed    {event.family:<11}  library {_join_names(slugs(library(event.snapshot)))}"
        case Frozen() as event:
            return f"freeze  {'':<11}  library {_join_names(slugs(library(event.snapshot)))} @ round {state.rounds}"
        case Refused() as event:
            return f"refuse  {event.slot or '':<11}  {_join_names(event.paths)}: {event.reason}"
        case Skipped() as event:
            return f"skip    {event.slot}  {event.reason}"
        case _:
            raise TypeError(f"not an entry of its own kind: {entry.event!r}")


def _trial(event: TrialDone, state: EpisodeState, plan: EpisodePlan, library: Library) -> str:
    slot = event.slot
    sample = f" sample {slot.sample}" if slot.sample else ""
    reads = "no library"
    if plan.condition.has_library:
        reads = f"may read {_join_names(slugs(library(event.snapshot)))} @ round {state.rounds}"
    elif plan.condition.retrieval_k:
        reads = f"shown {_tasks(event.retrieved)}"
    return (
        f"trial   {slot.phase:<11}  {slot.task}{sample}  {event.role or 'no role':<13}  "
        f"{OUTCOMES[event.success]:<10}  {reads}"
    )


def _render_decision(event: Decided, decision: Decision, before: History, library: Library) -> str:
    shown = family_skills(before, library).get(event.family, ())
    when = f"after {event.after_trial.task}" if event.after_trial else f"before {event.family}"
    rules = sorted({finding.rule for finding in decision.findings if finding.severity == "error"})
    broke = f" ({', '.join(rules)})" if rules else ""
    return (
        f"author  {event.mode:<11}  {when}  answer {event.answer}  {event.status}{broke} -> round {event.round}  "
        f"saw {_tasks(tuple(evidence.slot for evidence in decision.evidence))}; skills {_join_names(shown)}"
    )


def _tasks(slots: tuple[TrialSlot, ...]) -> str:
    return ", ".join(slot.task for slot in slots) or "nothing"


def _join_names(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "nothing"


if __name__ == "__main__":
    sys.exit(main())
