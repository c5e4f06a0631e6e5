"""The filters: their names, meanings, values, and conditions on the record."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field

from benchapp.models.searching import SearchDocument
from benchapp.models.trials import Trial
from runner.base.types import ACQUISITION_ROLES, DEPLOYMENT_ROLES, Phase, Role

MANY = 12  # values of a closed list that a message names


@dataclass(frozen=True, slots=True)
class SearchField:
    """`values`: the closed list of its values, empty where any text is allowed. `how`: the comparisons it knows."""

    name: str
    means: str
    values: tuple[str, ...] = ()
    how: tuple[str, ...] = ("is", "has", "glob")
    example: str = ""
    also: Mapping[str, str] = field(default_factory=dict)  # the words of pages for a value -> the value

    def wants(self) -> str:
        """Return a hint for somebody who wrote the name and no value."""
        if self.values:
            return f"{self.name}: needs a value, one of {', '.join(self.values)}"
        return f"{self.name}: needs a value, as in {self.name}:{self.example} ({self.means})"

    def refuses(self, how: str, text: str) -> str:
        """Return why it does not take this value; empty where it does."""
        if how not in self.how:
            if self.values:
                return self._not_one(text)
            return (
                f"{self.name}: knows {self.name}:{self.example} and {self.name}:{self.example[:3]}*, no other patterns"
            )
        if how == "glob" and self.name == "tool" and (text.count("*") != 1 or not text.endswith("*") or "?" in text):
            return f"tool: takes one * and at the end, as in tool:{self.example[:3]}*"
        return self._not_one(text) if self.values and text.lower() not in self.values else ""

    def settle(self, text: str) -> str:
        """Return the value that was meant: pages have words of their own for some."""
        return self.also.get(text.lower(), text)

    def _not_one(self, text: str) -> str:
        near = difflib.get_close_matches(text.lower(), self.values, n=1)
        hint = f"did you mean {near[0]}? It" if near else "it"
        return f"{self.name}: {text!r} is unknown; {hint} takes {', '.join(self.values[:MANY])}"


_STATUSES = [
    Trial.Status.FAILED,
    Trial.Status.PASSED,
    Trial.Status.UNSCORED,
    Trial.Status.SKIPPED,
    Trial.Status.RUNNING,
]
STATUSES = tuple(status.value for status in _STATUSES)
ROLES = tuple(role.value for role in (*ACQUISITION_ROLES, *DEPLOYMENT_ROLES))
_ROLES_ON_PAGES = {
    "trap": Role.ADVERSARIAL.value,
    **dict.fromkeys(("new context", "new-context"), Role.CONTEXT_SHIFT.value),
}
_CLOSED = ("is",)

_ALL = (
    SearchField("kind", "where it was found", tuple(SearchDocument.Kind.values), _CLOSED),
    SearchField("is", "how its trial ended, or error: a tool's result that is an error", (*STATUSES, "error"), _CLOSED),
    SearchField("phase", "the phase of its trial", tuple(phase.value for phase in Phase), _CLOSED),
    SearchField("role", "the role of its task in the family", ROLES, _CLOSED, also=_ROLES_ON_PAGES),
    SearchField("condition", "the memory condition of its run", example="selfgen-*"),
    SearchField("model", "the agent's model", example="~opus"),
    SearchField("author", "the author's model", example="~opus"),
    SearchField("harness", "the agent program", example="codex"),
    SearchField("experiment", "the name or id of its experiment", example="~demo"),
    SearchField("run", "the id of its run", how=_CLOSED, example="0f3c..."),
    SearchField("task", "the key or title of its task", example="E1-F1-*"),
    SearchField("family", "the key or name of its family", example="E1-F1"),
    SearchField(
        "skill", "skill files and decisions of that skill; steps and checks of trials that read it", example="csv-*"
    ),
    SearchField("mounted", "trials that had this skill", example="csv-*"),
    SearchField("tool", "steps that call that tool", how=("is", "glob"), example="bash"),
    SearchField("path", "the path of a skill file", example="*/SKILL.md"),
    SearchField("by", "who wrote a note", example="ann"),
)
FIELDS: dict[str, SearchField] = {each.name: each for each in _ALL}

# Words that are filters on their own; in quotes they are words.
SHORT: dict[str, tuple[str, str]] = {
    **{status: ("is", status) for status in ("passed", "failed", "unscored", "skipped")}
}
