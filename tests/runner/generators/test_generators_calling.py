"""Generators that call a model, in a container: through the gateway to a provider on this machine,
and to nothing else."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from runner.base.errors import AccountRefused, BudgetSpent, KeyRefused, ModelUnavailable
from runner.base.types import CompactionKind, Decision, DecisionStatus, ModelReply, Phase, TrialSlot, Usage
from runner.engine.engine import advance
from runner.engine.recorders import ListRecorder
from runner.engine.toolbox import Toolbox, toolbox_for
from runner.protocols.plan import AuthorSampling, EpisodePlan
from runner.trajectories.atif_values import write_bounded
from tests.docker_images import base_image, image_with
from tests.providers.chat_provider import Provider
from tests.runner.small_episode import ticking_clock
from tests.worlds.corpora import AGNOSTIC, CONDITIONED, COUNTED, PRACTICE, handbook_suite, plan_for

pytestmark = [pytest.mark.docker, pytest.mark.slow]

EXAMPLES = Path(__file__).parents[3] / "examples" / "generators"
KEY = "sk-of-the-operator-0123456789"
SKILL = "---\nname: averages\ndescription: How averages are taken. Use it for tables.\n---\n\n# Averages\n\n1. Skip blanks.\n"  # noqa: E501
USAGE = {"prompt_tokens": 900, "completion_tokens": 120, "prompt_tokens_details": {"cached_tokens": 100}}
COST = (800 * 3.0 + 100 * 0.3 + 120 * 15.0) / 1_000_000


@pytest.fixture
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """Stands for the provider of preset `here`, whose model is called small-1."""
    server = Provider()
    presets = tmp_path / "presets"
    presets.mkdir()
    (presets / "here.yaml").write_text(
        f"provider: here\nagent_model: small-1\nhost_model: openai/small-1\napi_base: {server.url}\n"
        "key_variable: HERE_API_KEY\nprices: {input: 3.0, output: 15.0, cached: 0.3}\n"
    )
    monkeypatch.setenv("SKILLGLASS_PRESETS", str(presets))
    monkeypatch.setenv("HERE_API_KEY", KEY)
    monkeypatch.setenv("SKILLGLASS_GENERATORS", str(EXAMPLES))
    monkeypatch.setenv("SKILLGLASS_BASE_IMAGE", base_image())
    monkeypatch.setenv("SKILLGLASS_SANDBOXES", str(tmp_path / "boxes"))
    yield server
    server.close()


def own(root: Path, monkeypatch: pytest.MonkeyPatch, program: str, **fields: Any) -> str:
    """A generator of one Python file; returns the author model that stands for it."""
    folder = root / "generators" / "own"
    folder.mkdir(parents=True)
    values = {"name": "own", "version": "1", "command": ["python3", "program/run.py"], "timeout_seconds": 120}
    values |= {"model": "chat/completions", **fields}
    (folder / "generator.toml").write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items()))
    (folder / "run.py").write_text(program)
    monkeypatch.setenv("SKILLGLASS_GENERATORS", str(root / "generators"))
    return "generator/own+here"


def plan_of(condition: str = "plug-in", protocol: str = CONDITIONED, **changes: Any) -> EpisodePlan:
    """Of an episode of its own: containers are named after it, and other files' tests use the same engine."""
    values = {"author_model": "generator/one-call+here", "sandbox": "docker", "answers": 1, **changes}
    values.setdefault("episode", f"calling-{condition}")
    return plan_for(condition, protocol, **values)


def play(plan: EpisodePlan, toolbox: Toolbox | None = None) -> ListRecorder:
    """Until its first decision."""
    recorder = ListRecorder(plan, ticking_clock())
    while not recorder.decisions:
        advance(plan, recorder, toolbox or toolbox_for(plan, handbook_suite()))
    return recorder


def outcome(recorder: ListRecorder) -> tuple[Decision, ModelReply]:
    (decision,) = recorder.decisions
    reply = recorder.reply(str(decision.call))
    assert reply is not None
    return decision, reply


def refusals(decision: Decision) -> list[str]:
    return [finding.message for finding in decision.findings if finding.rule == "model-gateway"]


@pytest.mark.parametrize("protocol", [CONDITIONED, AGNOSTIC])
def test_the_example_writes_a_skill_from_one_call_and_its_tokens_are_billed(provider: Provider, protocol: str) -> None:
    provider.says(SKILL, usage=USAGE)
    recorder = play(plan_of(protocol=protocol))
    decision, reply = outcome(recorder)
    assert decision.status is DecisionStatus.APPLIED, decision.error or decision.findings
    assert set(recorder.library(decision.after)) == {"averages/SKILL.md"}
    assert "Its model answered 1 calls." in decision.summary
    assert refusals(decision) == []
    assert reply.usage == Usage(900, 100, 120, pytest.approx(COST))
    (call,) = recorder.calls
    assert (call.purpose, call.model) == ("generator", "generator/one-call+here")
    (asked,) = provider.asked
    assert (asked["model"], asked["temperature"], asked["max_tokens"]) == ("small-1", 0.2, 16_384)
    prompt = asked["messages"][1]["content"]
    assert "## input/corpus/rules/averages.md" in prompt
    assert ("## input/task.md" in prompt) == (protocol == CONDITIONED)
    assert "## input/trajectories" not in prompt
    assert provider.keys == [f"Bearer {KEY}"]


@pytest.mark.parametrize(("protocol", "tried"), [(CONDITIONED, COUNTED[0]), (AGNOSTIC, PRACTICE)])
def test_one_that_learns_from_trials_finds_them_without_their_verdicts(
    provider: Provider, protocol: str, tried: str
) -> None:
    provider.says(SKILL, usage=USAGE)
    recorder = play(plan_of("plug-in-trajectories", protocol))
    decision, _ = outcome(recorder)
    assert decision.status is DecisionStatus.APPLIED, decision.error or decision.findings
    slot = TrialSlot(Phase.ACQUISITION, tried)
    assert [shown.slot for shown in decision.evidence] == [slot]
    text = recorder.compaction(slot, CompactionKind.RICH).text
    prompt = provider.asked[0]["messages"][1]["content"]
    assert f"## input/trajectories/1.md\n\n{text}" in prompt
    assert "reward" not in text.lower()
    told = str(recorder.calls[-1].request.messages[1]["content"])
    assert f"- input/trajectories/1.md: trial {slot}, {len(text):,} characters; also as ATIF" in told


# Writes the name and digest of each trial that it finds, and who speaks in each document.
READER = r"""
import hashlib, json, pathlib
trials = sorted(pathlib.Path("input/trajectories").glob("*"))
found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in trials}
said = [json.loads(path.read_text()) for path in trials if path.suffix == ".json"]
found["said"] = [[document["schema_version"], *(step["source"] for step in document["steps"])] for document in said]
place = pathlib.Path("output/skills/reader")
place.mkdir(parents=True)
head = "---\nname: reader\ndescription: What was found. Use it for nothing.\n---\n\n"
(place / "SKILL.md").write_text(head + json.dumps(found) + "\n")
"""


@pytest.mark.parametrize("protocol", [CONDITIONED, AGNOSTIC])
def test_one_that_learns_from_trials_finds_each_as_an_atif_document(
    provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    author = own(tmp_path, monkeypatch, READER)
    recorder = play(plan_of("plug-in-trajectories", protocol, author_model=author))
    found = report_of(recorder)
    (shown,) = outcome(recorder)[0].evidence
    document = write_bounded(recorder.trajectories(shown.slot))
    assert found["1.json"] == sha256(document).hexdigest()
    assert {"1.json", "1.md", "said"} == set(found)
    assert found["said"][0][:3] == ["ATIF-v1.8", "system", "user"]
    assert b"reward" not in document.lower()
    assert set(report_of(play(plan_of(protocol=protocol, author_model=author)))) == {"said"}  # plug-in: no trials


def report_of(recorder: ListRecorder) -> dict[str, Any]:
    decision, _ = outcome(recorder)
    assert decision.status is DecisionStatus.APPLIED, decision.error or decision.findings
    text = recorder.library(decision.after)["reader/SKILL.md"].content.decode()
    return dict(json.loads(text.rpartition("---\n")[2]))


MADE = f"## FILE: averages/SKILL.md\n````markdown\n{SKILL}````\n\n## FILE: averages/references/blanks.md\n````\nSkip.\n````\n"  # noqa: E501
FOUND = json.dumps([{"name": "averages", "description": "How averages are taken."}])


@pytest.mark.parametrize("condition", ["plug-in", "plug-in-trajectories"])
def test_skillnet_itself_writes_skills_through_the_gateway(
    provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, condition: str
) -> None:
    """The package as it is published; what answers it is a script, in the form that it asks a model for."""
    folder = shutil.copytree(EXAMPLES / "skillnet", tmp_path / "generators" / "skillnet")
    (package,) = re.findall(r"pip install .*(skillnet-ai==\S+)", (folder / "Dockerfile").read_text())
    told = (folder / "generator.toml").read_text()
    (folder / "generator.toml").write_text(re.sub('image = ".*"', f'image = "{image_with(package)}"', told))
    monkeypatch.setenv("SKILLGLASS_GENERATORS", str(tmp_path / "generators"))
    learns = condition == "plug-in-trajectories"
    for text in (FOUND, MADE) if learns else (MADE,):
        provider.says(text, usage=USAGE)
    recorder = play(plan_of(condition, author_model="generator/skillnet+here"))
    decision, reply = outcome(recorder)
    assert decision.status is DecisionStatus.APPLIED, decision.error or decision.findings
    files = recorder.library(decision.after)
    assert set(files) == {"averages/SKILL.md", "averages/references/blanks.md"}
    assert b"- `references/blanks.md`" in files["averages/SKILL.md"].content  # the adapter's part
    assert len(provider.asked) == 1 + learns
    asked = provider.asked[0]["messages"][1]["content"]
    assert "# input/corpus/rules/averages.md" in asked
    assert ("# input/trajectories/1.md" in asked) == learns
    assert {asked["model"] for asked in provider.asked} == {"small-1"}
    assert reply.usage.output_tokens == 120 * (1 + learns)


def test_it_is_told_how_authors_are_sampled(provider: Provider) -> None:
    provider.says(SKILL, usage=USAGE)
    play(plan_of(author_sampling=AuthorSampling(temperature=0.0)))
    assert provider.asked[0]["temperature"] == 0.0


# Tries whatever it should not get, in the order of REFUSED below, and writes what came of it.
HOSTILE = r"""
import json, os, pathlib, socket, urllib.error, urllib.request
BASE = os.environ["OPENAI_BASE_URL"]
request = json.load(open("input/request.json"))
name = request["model"]["name"]
def ask(body, path="/chat/completions", method="POST"):
    body = {"model": name, "messages": [{"role": "user", "content": "hi"}], **body}
    call = urllib.request.Request(BASE + path, json.dumps(body).encode(), {"Content-Type": "application/json"}, method=method)
    try:
        return urllib.request.urlopen(call, timeout=60).status
    except urllib.error.HTTPError as error:
        return error.code
met = {
    "another model": ask({"model": "large-9"}),
    "search": ask({"web_search_options": {"search_context_size": "high"}}),
    "mcp": ask({"tools": [{"type": "mcp", "server_url": "https://evil.example"}]}),
    "a link": ask({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://evil.example/x"}}]}]}),
    "many answers": ask({"n": 8}),
    "no number": ask({"max_tokens": "all"}),
    "another call": ask({"input": "x"}, "/embeddings"),
    "files": ask({}, "/files"),
    "another format": ask({"input": "x"}, "/responses"),
    "a proxy": None,
    "more tokens": ask({"max_tokens": 1_000_000}),
    "both names": ask({"max_tokens": 50, "max_completion_tokens": 900_000}),
    "its own tools": ask({"tools": [{"type": "function", "function": {"name": "look", "parameters": {}}}]}),
}
host, port = BASE.split("/")[2].split(":")
with socket.create_connection((host, int(port)), timeout=20) as line:
    line.sendall(b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n")
    met["a proxy"] = int(line.recv(100).split()[1])
reached = []
for address in (("1.1.1.1", 53), ("172.17.0.1", 22), (host, 2375), (host, 22)):
    try:
        socket.create_connection(address, timeout=2).close()
        reached.append(str(address))
    except OSError:
        pass
place = pathlib.Path("output/skills/seeker")
place.mkdir(parents=True)
met["reached"] = reached
met["environment"] = dict(os.environ)
(place / "SKILL.md").write_text("---\nname: seeker\ndescription: What was met. Use it for nothing.\n---\n\n" + json.dumps(met) + "\n")
"""  # noqa: E501
REFUSED = {
    "another model": 400,
    "search": 400,
    "mcp": 400,
    "a link": 400,
    "many answers": 400,
    "no number": 400,
    "another call": 404,
    "files": 404,
    "another format": 404,
    "a proxy": 405,
}


def test_a_hostile_one_gets_its_model_alone_and_what_it_tried_is_told(
    provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.says("hello", usage=USAGE)
    recorder = play(plan_of(author_model=own(tmp_path, monkeypatch, HOSTILE)))
    decision, reply = outcome(recorder)
    assert decision.status is DecisionStatus.APPLIED, decision.error or decision.findings
    text = recorder.library(decision.after)["seeker/SKILL.md"].content.decode()
    met = json.loads(text.rpartition("---\n")[2])
    assert {name: met[name] for name in REFUSED} == REFUSED
    assert {met["more tokens"], met["both names"], met["its own tools"]} == {200}
    assert met["reached"] == []
    assert KEY not in text
    assert provider.url not in text
    # Three calls reached the provider, all of them of the one model, none longer than what was left.
    assert [asked["model"] for asked in provider.asked] == ["small-1"] * 3
    assert [asked["max_tokens"] for asked in provider.asked] == [16_384, 50, 16_384 - 240]
    assert provider.asked[1]["max_completion_tokens"] == 16_384 - 120
    assert reply.usage.output_tokens == 360
    told = "\n".join(refusals(decision))
    for what in (
        "1 request was refused: another model than this attempt's was asked for; expected small-1",
        "web_search_options: the task has no network",
        "tool of type 'mcp'",
        "https://evil.example/x",
        "several answers at once",
        "`max_tokens`: expected a whole number",
        "2 requests were refused: only model calls are forwarded",
        "asked by chat/completions, not by responses",
        "only GET and POST are forwarded",
        "2 calls asked for longer answers than was left of the generation budget",
    ):
        assert what in told
    assert all(finding.severity == "warning" for finding in decision.findings if finding.rule == "model-gateway")


# Asks until it is refused, four at a time.
GREEDY = r"""
import concurrent.futures, json, os, pathlib, urllib.error, urllib.request
name = json.load(open("input/request.json"))["model"]["name"]
def ask(_):
    body = {"model": name, "messages": [{"role": "user", "content": "hi"}]}
    call = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        return urllib.request.urlopen(call, timeout=60).status
    except urllib.error.HTTPError as error:
        return error.code
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    print(sorted(pool.map(ask, range(8))))
"""  # noqa: E501


def test_a_greedy_one_gets_no_more_than_its_budget_however_many_it_asks_at_once(
    provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.says("hello", usage=USAGE)
    recorder = play(plan_of("plug-in@300", author_model=own(tmp_path, monkeypatch, GREEDY)))
    decision, reply = outcome(recorder)
    assert decision.status is DecisionStatus.FAILED  # it left no file
    assert "[200, 200, 200, 400, 400, 400, 400, 400]" in reply.text
    assert [asked["max_tokens"] for asked in provider.asked] == [300, 180, 60]
    assert refusals(decision) == ["5 requests were refused: the attempt's model calls are used up"]
    assert reply.usage.output_tokens == 360  # of a provider that does not keep to a call's limit


def test_an_answer_that_tells_no_length_counts_as_long_as_it_could_be(
    provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.says("hello")
    recorder = play(plan_of("plug-in@300", author_model=own(tmp_path, monkeypatch, GREEDY)))
    decision, reply = outcome(recorder)
    assert len(provider.asked) == 1
    assert reply.usage == Usage()  # unknown, and not zero


def test_what_earlier_answers_wrote_is_taken_off_the_budget_of_the_next(
    provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.says("no frontmatter", usage=USAGE)
    plan = plan_of("plug-in@300", answers=4)
    recorder = ListRecorder(plan, ticking_clock())
    advance(plan, recorder, toolbox_for(plan, handbook_suite()))
    assert [asked["max_tokens"] for asked in provider.asked] == [300, 180, 60]
    assert recorder.decisions[-1].error == "the generation budget is spent: no answer was asked for"


class Bills(ListRecorder):
    """Keeps what a call under way was billed."""

    billed: tuple[Usage, ...] = ()

    def bill_call(self, key: str, usage: Usage, price_table: str) -> None:
        self.billed = (*self.billed, usage)


def test_a_spent_budget_ends_the_run_of_the_program_and_what_it_used_is_billed(
    provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.says("hello", usage=USAGE)
    plan = plan_of(author_model=own(tmp_path, monkeypatch, GREEDY))
    recorder = Bills(plan, ticking_clock())

    def spend(_: Usage) -> None:
        if len(recorder.billed) >= 2:
            raise BudgetSpent("all of it")

    with pytest.raises(BudgetSpent):
        advance(plan, recorder, replace(toolbox_for(plan, handbook_suite()), budget=spend, has_budget=True))
    assert [usage.output_tokens for usage in recorder.billed] == [120, 240]
    assert len(provider.asked) == 2
    assert recorder.decisions == []


# Swallows whatever its model says.
STUBBORN = GREEDY.replace("print(sorted(", "print(list(") + (
    "place = pathlib.Path('output/skills/stubborn')\nplace.mkdir(parents=True)\n"
    f"(place / 'SKILL.md').write_text({SKILL.replace('averages', 'stubborn', 1)!r})\n"
)


@pytest.mark.parametrize(
    ("status", "error"), [(503, ModelUnavailable), (429, ModelUnavailable), (401, KeyRefused), (402, AccountRefused)]
)
def test_a_provider_that_is_away_is_no_answer_of_a_program_that_goes_on_without_it(
    provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, error: type[Exception]
) -> None:
    provider.fails(status)
    plan = plan_of(author_model=own(tmp_path, monkeypatch, STUBBORN))
    recorder = ListRecorder(plan, ticking_clock())
    with pytest.raises(error):
        advance(plan, recorder, toolbox_for(plan, handbook_suite()))
    assert recorder.decisions == []


def test_the_worker_keeps_its_own_variables(
    provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    program = STUBBORN + (
        "(place / 'SKILL.md').write_text((place / 'SKILL.md').read_text() + '\\n' + json.dumps(dict(os.environ)))\n"
    )
    provider.says("hello", usage=USAGE)
    decision, _ = outcome(recorder := play(plan_of(author_model=own(tmp_path, monkeypatch, program))))
    text = recorder.library(decision.after)["stubborn/SKILL.md"].content.decode()
    found = json.loads(text.rpartition("\n")[2])
    assert found["OPENAI_API_KEY"] == "key-is-added-by-the-gateway"
    assert not any(KEY in value for value in found.values())
    assert "HERE_API_KEY" not in found
    assert os.environ["OPENAI_API_KEY"] == KEY
