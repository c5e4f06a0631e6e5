"""Results of promptfoo (`promptfoo eval -o results.json`): the same tests against several providers or prompts.

People compare versions of a skill by providers that differ in their working folder. So the label of a provider is a
condition, a test is a task, and a repetition is another sample. Tests without an assertion count as passed there:
here they have no verdict.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

from benchapp.imports.logs.spans import as_text
from benchapp.imports.reading import found_sources as sources
from benchapp.imports.reading.benchmark_rows import name_condition
from benchapp.imports.reading.documents import Document, aware, read_object, read_time
from benchapp.imports.reading.found_trials import FoundRow, graded, of_messages, read_share
from benchapp.imports.reading.skill_history import read_skill
from benchapp.imports.reading.walking import FolderEntry, Root, list_names, tail_of
from runner.base.digests import digest_json
from runner.base.text import clean
from runner.base.types import File, Files, JsonValue, Usage, Verdict
from runner.trajectories.log_records import parse_json

NAME, TITLE = "promptfoo", "promptfoo"
SUFFIXES = frozenset({".json"})
SKILLS = (".claude/skills", ".agents/skills", ".opencode/skills")  # below an agent's working folder
MAX_ASSERTIONS, MAX_NESTING = 500, 4
MAX_TEXT = 4 * 1024 * 1024
_HEAD_BYTES = 64 * 1024
# A model's own name may have colons: `openrouter:maker/model:free`, `ollama:chat:model:8b`.
_BEFORE_MODEL = re.compile(
    r"^[^:]+:(?:(?:chat|completions?|messages|responses|converse|realtime|live|text-generation):)?(?=.)"
)
_MARKS = (b'"testPassCount"', b'"namedScores"')  # of a prompt's totals, which come before the results


def claims_file(root: Root, entry: FolderEntry) -> bool:
    with root.open(entry.path) as stream:
        head = stream.read(_HEAD_BYTES)
    return b'"results"' in head and (b'"evalId"' in head[:200] or all(mark in head for mark in _MARKS))


def is_companion(entries: list[FolderEntry]) -> Callable[[FolderEntry], bool]:
    """The same results in another of promptfoo's formats, written next to these."""
    written = {entry.path.with_suffix("") for entry in entries}
    return lambda entry: entry.path.with_suffix("") in written


def find_files(root: Root, entries: Iterable[FolderEntry]) -> Iterator[sources.FoundExperiment]:
    for entry in entries:
        if (document := read_object(root, entry.path)) is not None:
            found = Evaluation(root, document)
            libraries = list(found.libraries())
            yield sources.FoundExperiment(
                sources.ExperimentSource.of_folder(root, entry.path, format=NAME, title=TITLE),
                trials=tuple(found.trials()),
                libraries=libraries,
                libraries_total=len(libraries),
            )


@dataclass
class Evaluation:
    """What one file has: results of each test for each provider and prompt."""

    root: Root
    document: Document

    def __post_init__(self) -> None:
        self.ident = self.document.text("evalId", 200) or tail_of(self.document.path, 3)
        results = self.document.object("results")
        self.rows = list(results.objects("results"))
        if not self.rows:
            results.report("results", "results of tests", "none")
        self.prompts = len({_name_prompt(row) for row in self.rows})

    def trials(self) -> Iterator[FoundRow]:
        unjudged = 0
        for place, row in enumerate(self.rows):
            unjudged += row.object("gradingResult").raw.get("reason") == "No assertions"
            about: JsonValue = [
                dict(row.raw),
                self._setup(row),
                self.tasks[_identify(row)],
                *(self._mounted(row) or ()),
            ]
            path = f"{self.root.label(self.document.path)}, {row.place}"
            ident = f"{NAME}:{self.ident}/{row.text('id', 200) or place}"
            yield FoundRow(self.root, path, (ident,), (f"{place:09d}",), partial(self._read, row), about)
        if unjudged:
            self.document.report("results", "an assertion in each test", f"{unjudged} without: no verdict, not a pass")

    @cached_property
    def tasks(self) -> dict[str, str]:
        """Return the tests' titles by what identifies them. Tests of one title have a part of that behind it."""
        titles = {_identify(row): _title(row) for row in self.rows}
        same = Counter(titles.values())
        return {ident: title if same[title] == 1 else f"{title} ({ident[:6]})" for ident, title in titles.items()}

    @cached_property
    def setups(self) -> dict[str, dict[str, JsonValue]]:
        """Return what each provider was given, without what may be secret: its folder and its model."""
        given, found = self.document.object("config").raw.get("providers"), dict[str, dict[str, JsonValue]]()
        for raw in given if isinstance(given, list) else ():
            if isinstance(raw, dict):  # others are names only
                provider = Document(self.root, self.document.path, raw, "config.providers")
                texts = {key: provider.object("config").text(key, 200) for key in ("working_dir", "model")}
                found[_name_provider(provider)] = {key: text for key, text in texts.items() if text}
        for row in self.rows:  # an agent reports the models that it called
            setup = found.setdefault(_name_provider(row.object("provider")), {})
            if models := list(row.object("response").object("metadata").object("modelUsage").raw):
                setup.setdefault("model", clean(models[0])[:200] if len(models) == 1 else sources.UNKNOWN)
                setup["is_agent"] = True
        return found

    def _setup(self, row: Document) -> dict[str, JsonValue]:
        return self.setups[_name_provider(row.object("provider"))]

    def run(self, row: Document) -> sources.RunSource:
        provider, setup = row.object("provider"), self._setup(row)
        ident, name = provider.text("id", 200) or sources.UNKNOWN, _name_provider(provider)
        is_agent = not setup.keys().isdisjoint(("working_dir", "is_agent"))  # else its id ends with the model's name
        is_address = "://" in ident
        model = sources.UNKNOWN if is_agent or is_address else _BEFORE_MODEL.sub("", ident)
        sides = (name if name != ident or is_address else "", _name_prompt(row) if self.prompts > 1 else "")
        return sources.RunSource(
            harness=ident if is_agent else NAME,
            agent_model=str(setup.get("model", model)),
            condition=name_condition(", ".join(filter(None, sides))) if any(sides) else sources.UNKNOWN,
            setup={"source": NAME, **setup},
        )

    def _read(self, row: Document) -> sources.TrialSource:
        response, grading = row.object("response"), row.object("gradingResult")
        # A failed assertion is in `error` too; then it has a grading.
        error = (row.text("error") or response.text("error") or "") if not grading.raw else ""
        title, latency = self.tasks[_identify(row)], row.amount("latencyMs")
        return sources.TrialSource(
            run=self.run(row),
            task=sources.TaskSource(NAME, f"{tail_of(self.document.path.parent, 1)}/{title}", title),
            timing=sources.Timing(
                # Answers that promptfoo replays from its cache took no time.
                duration_seconds=None if latency is None or response.raw.get("cached") is True else latency / 1000,
                started_at=aware(read_time(self.document.object("results"), "timestamp")),
            ),
            verdict=_read_verdict(grading),
            config={"vars": row.raw.get("vars"), "provider": row.raw.get("provider"), "test": row.raw.get("testIdx")},
            choices=(sources.SourceChoice((of_messages("response", list(_list_messages(row))),)),),
            exception=sources.ExceptionSource("error", error) if error else None,
            usage=_read_usage(row),
            skills_mounted=self._mounted(row),
        )

    # --- skills -----------------------------------------------------------------------------------------------------

    @cached_property
    def skills(self) -> Mapping[str, Files]:
        """Return the skills of the working folders that were given, as they are now, by the folder's name in the
        configuration."""
        found = dict[str, dict[str, File]]()
        for given in {str(setup.get("working_dir") or "") for setup in self.setups.values()} - {""}:
            above = self.document.path.parent / given
            if ".." not in above.parts and above.is_relative_to(self.root.base) and self.root.is_dir(above):
                found[given] = {}
                for skills in (above / each for each in SKILLS if self.root.is_dir(above / each)):
                    for skill in self.root.listing(skills)[0]:
                        found[given] |= read_skill(self.root, skill, clean(skill.name))
        if folders := [given for given, files in found.items() if files]:
            message = f"{list_names(sorted(folders))}: taken as they are now"
            self.document.report("config.providers", "the skills that the agents had", message)
        return found

    def _mounted(self, row: Document) -> tuple[str, ...] | None:
        files = self.skills.get(str(self._setup(row).get("working_dir")))
        return None if files is None else sources.list_slugs(files)

    def libraries(self) -> Iterator[sources.LibrarySource]:
        path = self.root.label(self.document.path)
        for run, row in {self.run(row).key: (self.run(row), row) for row in self.rows}.values():
            if files := self.skills.get(str(self._setup(row).get("working_dir"))):
                yield sources.LibrarySource(run, sources.EpisodeSource(), NAME, path, files)


def _name_provider(provider: Document) -> str:
    return provider.text("label", 100) or provider.text("id", 200) or sources.UNKNOWN


def _identify(row: Document) -> str:
    """Return what is equal for all results of a test. `testIdx` is not: each repetition has its own."""
    return digest_json([row.object("testCase").raw.get("description"), row.raw.get("vars")])


def _title(row: Document) -> str:
    values = [value for value in row.object("vars").raw.values() if isinstance(value, str) and value.strip()]
    text = row.object("testCase").text("description", 200) or (clean(values[0]) if values else "")
    return text.strip().partition("\n")[0][:200] or f"test {row.raw.get('testIdx', '?')}"


def _name_prompt(row: Document) -> str:
    return (row.object("prompt").text("label", 100) or "").strip().partition("\n")[0][:60]


def _list_checks(result: Document, depth: int = 0) -> Iterator[tuple[str, bool, str]]:
    for part in result.objects("componentResults"):
        if part.raw.get("componentResults") and depth < MAX_NESTING:  # a set of assertions
            yield from _list_checks(part, depth + 1)
        elif isinstance(passed := part.raw.get("pass"), bool):
            asked = part.object("assertion")
            kind = filter(None, (asked.text("type", 100), as_text(asked.raw.get("value"))))
            name = asked.text("metric", 100) or ": ".join(kind) or "assertion"
            yield clean(name)[:500], passed, part.text("reason", 20_000) or ""


def _read_verdict(grading: Document) -> Verdict | None:
    if grading.raw.get("reason") == "No assertions" or not isinstance(passed := grading.raw.get("pass"), bool):
        return None
    checks = list(_list_checks(grading))
    if len(checks) > MAX_ASSERTIONS:
        grading.report("componentResults", f"at most {MAX_ASSERTIONS} assertions", "more; the rest is left out")
    named = grading.object("namedScores")
    scores = {clean(name)[:200]: score for name in named.raw if (score := named.number(name)) is not None}
    reward, reason = read_share(grading, "score"), grading.text("reason") or ""
    return graded(scores, success=passed, reward=reward, checks=checks[:MAX_ASSERTIONS], output=reason)


def _list_messages(row: Document) -> Iterator[dict[str, JsonValue]]:
    """Yield the prompt, the calls of tools that the provider reports with their results, and the output."""
    response, prompt = row.object("response"), row.object("prompt").text("raw", MAX_TEXT) or ""
    messages = parse_json(prompt) if prompt.lstrip().startswith("[") else None
    chat = [each for each in messages if isinstance(each, dict)] if isinstance(messages, list) else []
    yield from chat or [{"role": "user", "content": prompt}]
    for call in response.object("metadata").objects("toolCalls"):
        shown: dict[str, JsonValue] = {key: call.raw.get(key) for key in ("id", "name")}
        yield {"role": "assistant", "content": "", "tool_calls": [{**shown, "arguments": call.raw.get("input")}]}
        failed = call.raw.get("is_error") is True
        yield {"role": "tool", "tool_call_id": shown["id"], "content": call.raw.get("output"), "is_error": failed}
    if (output := response.raw.get("output")) is not None:
        yield {"role": "assistant", "content": clean(as_text(output))[:MAX_TEXT]}


def _read_usage(row: Document) -> Usage:
    """Return tokens and dollars: the models' own counts where an agent reports them. A cost of 0 was not measured."""
    response = row.object("response")
    if response.raw.get("cached") is True:
        return Usage()
    cost = row.amount("cost") or response.amount("cost") or None
    models = response.object("metadata").object("modelUsage")
    if models.raw:
        counts = [models.object(name) for name in models.raw]
        read, written, fresh, output = (
            sum(count.count(key) or 0 for count in counts)
            for key in ("cacheReadInputTokens", "cacheCreationInputTokens", "inputTokens", "outputTokens")
        )
        return Usage(read + written + fresh, read, output, cost)
    tokens = response.object("tokenUsage")
    cached = tokens.object("completionDetails").count("cacheReadInputTokens") or None
    return Usage(tokens.count("prompt"), cached, tokens.count("completion"), cost)
