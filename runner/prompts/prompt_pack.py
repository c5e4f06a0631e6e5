"""A pack: a folder with `pack.yaml` and a text file for each message, checked as a whole before anything is sent.

A message's text marks inserted values as `{{name}}`. `pack.yaml` maps names that are not ours to values, and lists
marks in double braces to keep verbatim.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runner.base.digests import digest_json
from runner.base.errors import SetupError, SuiteError
from runner.base.var_folder import MANAGE, var_folder
from runner.prompts.roles import JUDGE, NAME, OWN, PAPER, VALUES, Asked
from runner.suites.documents import read_text, read_yaml

PACK_FILE = "pack.yaml"
FORMAT: Literal["skillglass-prompts/1"] = "skillglass-prompts/1"
MARK = re.compile(r"\{\{ *([A-Za-z_][A-Za-z0-9_-]{0,60}) *\}\}")
JUDGED_BY = "skilllearnbench"
MAX_MESSAGE_CHARS = 200_000


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PackMessage(_Part):
    """`text` is read from `file`. `values`: names in the text -> our values. `literal`: marks that stay unchanged.

    `answers_once`: only for a model that answers once, without a shell; not sent to an author that is an agent.
    """

    role: Literal["system", "user"]
    answers_once: bool = False
    file: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,80}\.txt$")
    values: dict[str, str] = Field(default_factory=dict, max_length=60)
    literal: tuple[str, ...] = Field(default=(), max_length=60)
    text: str = Field(default="", exclude=True)

    def fill(self, values: Mapping[str, str]) -> str:
        """Replace each name by its value. Names inside a value are not replaced.

        A value of several lines gets lines of its own, even if the print has joined lines: its fences stay fences.
        """

        def put(mark: re.Match[str]) -> str:
            if mark[1] in self.literal:
                return mark[0]
            value = values[self.value_of(mark[1])]
            if "\n" not in value:
                return value
            before, after = self.text[: mark.start()][-1:], self.text[mark.end() :][:1]
            return "\n" * (before not in ("", "\n")) + value + "\n" * (after not in ("", "\n"))

        return MARK.sub(put, self.text)

    def value_of(self, name: str) -> str:
        return self.values.get(name, name)

    @property
    def names(self) -> frozenset[str]:
        """The values that the text needs."""
        return frozenset(self.value_of(mark[1]) for mark in MARK.finditer(self.text) if mark[1] not in self.literal)


class PackPrompt(_Part):
    """The prompt of one role on one occasion. `condition`: only for this one. `answer`: the requested form."""

    role: str
    occasion: str
    condition: str = ""
    answer: Literal["json", "text"] = "json"
    messages: tuple[PackMessage, ...] = Field(min_length=1, max_length=4)

    @property
    def asked(self) -> Asked:
        return Asked(self.role, self.occasion)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(name for message in self.messages for name in message.names)

    def fill(self, values: Mapping[str, str]) -> tuple[Mapping[str, str], ...]:
        """Messages in the OpenAI chat format."""
        return tuple({"role": each.role, "content": each.fill(values)} for each in self.messages)

    def instruct(self, values: Mapping[str, str]) -> str:
        """The same as one text, for an agent."""
        return "\n".join(each.fill(values) for each in self.messages if not each.answers_once)


class PromptPack(_Part):
    """A pack as it is on disk now."""

    format: Literal["skillglass-prompts/1"] = FORMAT
    name: str = Field(pattern=f"^{NAME.pattern}$")
    source: str = Field(default="", max_length=1_000)
    prompts: tuple[PackPrompt, ...] = Field(min_length=1, max_length=60)

    @property
    def digest(self) -> str:
        """Digest everything that is sent, and when; not where it was read from."""
        prompts = [each.model_dump(mode="json") for each in self.prompts]
        return digest_json([FORMAT, prompts, {each.file: each.text for each in self.messages}])

    @property
    def messages(self) -> Iterator[PackMessage]:
        return (message for prompt in self.prompts for message in prompt.messages)

    def find(self, asked: Asked, condition: str) -> PackPrompt | None:
        """Prefer the condition's own prompt to one for every condition."""
        found = [each for each in self.prompts if each.asked == asked and each.condition in ("", condition)]
        return max(found, key=lambda each: each.condition != "", default=None)


def packs_folder() -> Path:
    """The folder `prompts` of the installation's data."""
    return var_folder() / "prompts"


def list_packs() -> list[str]:
    return sorted(path.parent.name for path in packs_folder().glob(f"*/{PACK_FILE}"))


def find_pack(name: str) -> PromptPack:
    """Raises SetupError with the known packs, or the file, place and expectation of an invalid one."""
    if not NAME.fullmatch(name) or not (packs_folder() / name / PACK_FILE).is_file():
        known = ", ".join(list_packs()) or "none"
        raise SetupError(f"unknown prompt pack {name!r:.80}; known: {known}; {MANAGE} read_prompts takes one in")
    return read_pack(packs_folder() / name)


def find_judge_pack(name: str) -> PromptPack:
    """A pack with prompts for a judge. "paper" is that of the one paper that prints such prompts."""
    pack = find_pack(JUDGED_BY if name == PAPER else name)
    if not any(each.role == JUDGE for each in pack.prompts):
        raise SetupError(f"the prompt pack {pack.name} has no prompt for a judge")
    return pack


def read_pack(folder: Path) -> PromptPack:
    """Raises SuiteError with the file, the place and the expectation."""
    path = folder / PACK_FILE
    try:
        pack = PromptPack.model_validate(read_yaml(path))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise SuiteError(str(path), ".".join(map(str, first["loc"])) or "file", "", first["msg"]) from None
    if pack.name in (OWN, PAPER):
        raise SuiteError(str(path), "name", f"another name than {OWN} and {PAPER}", f"found {pack.name!r}")
    filled = pack.model_copy(
        update={"prompts": tuple(_with_texts(folder, place, each) for place, each in enumerate(pack.prompts))}
    )
    _check_unique(path, filled)
    return filled


def _with_texts(folder: Path, place: int, prompt: PackPrompt) -> PackPrompt:
    known = VALUES.get(prompt.asked)
    if known is None:
        expected = "one of " + "; ".join(map(str, VALUES))
        raise SuiteError(str(folder / PACK_FILE), f"prompts.{place}", expected, f"found {prompt.asked!s:.100}")
    messages = tuple(_read_message(folder, place, each, known) for each in prompt.messages)
    return prompt.model_copy(update={"messages": messages})


def _read_message(folder: Path, place: int, message: PackMessage, known: Mapping[str, str]) -> PackMessage:
    path = folder / message.file
    text = read_text(path)
    if len(text) > MAX_MESSAGE_CHARS:
        raise SuiteError(str(path), "size", f"at most {MAX_MESSAGE_CHARS:,} characters", f"{len(text):,}")
    message = message.model_copy(update={"text": text})
    names = {mark[1] for mark in MARK.finditer(text)}
    if missing := sorted((message.values.keys() | set(message.literal)) - names):
        raise SuiteError(str(path), "text", f"the placeholder {{{{{missing[0]}}}}} that {PACK_FILE} names", "not there")
    for mark in MARK.finditer(text):
        if mark[1] in message.literal or message.value_of(mark[1]) in known:
            continue
        line = text.count("\n", 0, mark.start())
        column = mark.start() - text.rfind("\n", 0, mark.start())
        expected = f"one of {', '.join(known)}, or a name that `values` or `literal` of {PACK_FILE} has"
        what = f"{mark[0]} has no value for prompts.{place}"
        raise SuiteError(str(path), f"line {line + 1}, column {column}", expected, what)
    return message


def _check_unique(path: Path, pack: PromptPack) -> None:
    seen: set[tuple[Asked, str]] = set()
    for place, each in enumerate(pack.prompts):
        if (each.asked, each.condition) in seen:
            raise SuiteError(str(path), f"prompts.{place}", "each once", f"{each.asked} exists already")
        seen.add((each.asked, each.condition))
