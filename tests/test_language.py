"""Texts that people read are plain technical English: a list of patterns is kept out of pages, messages and documents.

Every pattern is one that a native editor struck out again and again. A quotation of it in code (`so`) or in a fence is
not read. What a model reads (prompts, tasks, the scripted model's own lines) is left alone: it belongs to the digest
of a setup, or to what an experiment measured. Run the file as a program for the counts of every area.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cases import every

ROOT = Path(__file__).resolve().parent.parent

PATTERNS = {  # what is kept out: what to write in its place
    r"of (which|whom)": "end the sentence, then say how many of them",
    r"(?<!too\sfew\sto\s)(tells?|told|telling)": "shows, reports, says; for two things: distinguishes",
    r"(is|are|was|were) there": "exists, works, is available; or begin with There is",
    r"which \w+ says?": "what the ... says",
    r"(held|holds?|holding|laid) ((it|them|this|that|these|those|[\w']+ \w+) )?against": "compared with",
    r"mend(s|ed|ing)?": "fix, repair",
    r"(is|are|was|were|be) away": "cannot be reached; offline",
    r"(?<!there\s)(is|are|was|were) no (?!longer|more|less|fewer|better|worse|different|reason|evidence|proof)": "is "
    "not a",
    r"(?<!way\s)(lie|lay) (here|there|beside|below|on|at|under|outside|inside|before|behind|above|around)": "is",
    r"(speaks?|spoke|say|says|said) (nothing )?of": "about",
    r"at work": "running",
    r"(go|goes|went|going) on": "continue",
    r"the present": "the current",
    r"anew": "again",
    r"by lot": "at random",
    r"(where(from|of|to|in)|there(in|of)|hereof)": "two plain sentences",
    r"(can|could|cannot) be had": "is available",
    r"as good as": "almost",
    r"(?<!there\s)(is|are|was|were) none(?! or)": "is not one; there is no ...",
    r"so (long|many|much)(?! as)": "the number: at most N",
    r"any more(?=[.,;:)])": "no longer",
    r"(oneself|of one's own)": "yourself, your own",
    r"(is|are|was|were) (waited|looked) for": "say who waits or looks",
    r"(is|are|was|were) said(?! to)": "is shown, is reported",
    r"(stands?|stood|standing)(?! for)": "is, is listed, counts, stays",
    r"(lies|lying)": "is",
    r"(whoever|whatever)": "the person who; any; name it",
    r"meanwhile": "in the meantime; since then",
    r"lately": "recently",
    r"(becomes?|became|comes?|came) of": "where it goes; the result",
    r"(as|like) (it|they) (came|comes?)": "unchanged",
    r"once (it|they|he|that|this|you|the)": "when, after",
    r"(by|with|for|to|from|in|on|at|under|after|against|through|about) (which|whom)": "two sentences; where, that",
    r"beside": "next to, side by side; also",
    r"(shall|upon|hence|thus|hitherto|whereas)": "plain words",
    r"not known": "unknown",
    r"nothing of": "nothing about; no part of",
    r"in all(?=[.;:)]|,(?! some))": "in total",
    r"hangs? (on|from|below|at)": "belongs to, is attached to",
}
STRUCK = {re.compile(rf"\b{pattern}\b".replace(" ", r"\s+"), re.IGNORECASE): said for pattern, said in PATTERNS.items()}

# Python strings that no person reads here: a model does, and its answers were measured with exactly these words.
FOR_MODELS = (
    *(
        "demo/",
        "runner/models/json_reply.py",
        "runner/suites/starter",
        "runner/authoring/",
        "runner/judging/",
        "runner/protocols/",
        "runner/generators/",
    ),
    *("runner/agents/shell", "runner/engine/generator_step.py", "runner/trajectories/compaction.py"),
    *(
        "benchapp/review/codebooks/starters",
        "benchapp/review/suggestions/judg",
        "benchapp/analysis/diagnoses/library_rules.py",
    ),
)
# Migrations say what was. What a verifier of a declared evaluation says is recorded, and rules class failures by it.
LEFT_OUT = ("benchapp/migrations/", "runner/evaluating/")

# Names of code that a reader had to decode: what to name instead.
NAMES = {
    "told": "what it is: message, payload, values, usage, reason",
    "untold": "unknown, uncounted",
    "standing": "not_deleted, current, status, surviving",
    "words_of": "review_access, text_of_error, split_words",
    "outlast": "wait_out",
    "gives_up_in": "seconds_left",
    "is_away": "is_unreachable",
    "Notebook": "TrajectoryBuilder",
}
# Readers of foreign logs, and what goes into a digest or a sandbox as it is.
NAMES_LEFT = ("benchapp/migrations/", "benchapp/imports/logs/", "benchapp/imports/tools/", "runner/generators/outline/")
OLD_NAMES = re.compile(rf"_?({'|'.join(NAMES)})", re.IGNORECASE)

SHOWN = "Cannot see:"  # the docstring of a rule for trials, which the page of suggestions shows

# (file, words found): why they are right as they stand. Nothing else is excused.
EXCUSED = {
    ("benchapp/analysis/lineage/word_overlap.py", "shall"): "one of the common words that a search leaves out",
    ("benchapp/exports/dictionary.py", "in all"): "travels in exported files",
    ("benchapp/review/results/population_shares.py", "anew"): "the method of an interval, a value in exports",
    ("benchapp/review/results/review_exports.py", "with which"): "travels in exported files",
    ("benchapp/review/results/review_exports.py", "beside"): "travels in exported files",
    ("benchapp/stats/metrics/catalogue.py", "in which"): "the meaning of a metric, fixed by saved comparisons",
    ("inspector/pages/review/results/results.py", "told"): "a value in addresses that people kept",
    ("docs/glossary.md", "telling"): "the name that code gives the change a library opens on",
    ("docs/reference/contract.md", "lies"): "quotes a rule as authors are shown it",
    ("docs/reference/diagnostics.md", "lies"): "quotes a rule as authors are shown it",
}


@dataclass(frozen=True, slots=True)
class Passage:
    """Text that a person reads, and where it is."""

    area: str
    path: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Slip:
    passage: Passage
    line: int
    found: str
    better: str

    @property
    def key(self) -> tuple[str, str]:
        """What an excuse names."""
        return self.passage.path, " ".join(self.found.lower().split())

    def __str__(self) -> str:
        return f"{self.passage.path}:{self.line}: {' '.join(self.found.split())!r}; better: {self.better}"


def list_passages() -> Iterator[Passage]:
    yield from read_templates()
    yield from read_scripts()
    yield from read_python()
    yield from read_documents()


def read_templates() -> Iterator[Passage]:
    """What a template shows, without its tags and without the tags of HTML, but with titles and labels."""
    for path in sorted((ROOT / "templates").rglob("*.html")):
        name = path.relative_to(ROOT).as_posix()
        area = "/".join(name.split("/")[:2]) if name.count("/") > 1 else "templates"
        yield Passage(area, name, 1, strip_template(path.read_text()))


def strip_template(text: str) -> str:
    """Its words, each in its line."""
    for hidden in (r"\{%\s*comment.*?endcomment\s*%\}", r"\{#.*?#\}", r"<!--.*?-->"):
        text = re.sub(hidden, _keep_lines, text, flags=re.DOTALL)
    text = re.sub(r"\{%.*?%\}", lambda tag: " ".join(re.findall(r'"([^"]* [^"]*)"', tag[0])), text)
    text = re.sub(r"\{\{.*?\}\}", "{}", text)
    text = re.sub(r'\b(title|aria-label|placeholder|alt)="([^"]*)"', r">\2.<", text)
    return re.sub(r"<[^>]*>", _keep_lines, text)


def read_scripts() -> Iterator[Passage]:
    """The strings of our own scripts that hold a space."""
    for path in sorted((ROOT / "static" / "js").glob("*.js")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for found in re.findall(r'"([^"]*\w [^"]*)"|`([^`]*\w [^`]*)`', line.partition("// ")[0]):
                yield Passage(
                    "static/js", f"static/js/{path.name}", number, re.sub(r"\$\{[^}]*\}", "{}", "".join(found))
                )


def read_python() -> Iterator[Passage]:
    """Every string with a space and a letter, except docstrings that no page shows and patterns of a search."""
    for layer in ("benchapp", "inspector", "runner", "demo"):
        for path in sorted((ROOT / layer).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith((*FOR_MODELS, *LEFT_OUT)):
                parts = name.split("/")
                area = "/".join(parts[: 3 if parts[1] == "pages" else 2]) if len(parts) > 2 else layer
                for line, text in list_strings(ast.parse(path.read_text())):
                    yield Passage(area, name, line, text)


def list_strings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, text); a formatted string as one text, with {} for what is put in."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):  # a docstring
            text = node.value.value
            if isinstance(text, str) and SHOWN in text:
                yield node.lineno, text
            continue
        if isinstance(node, ast.JoinedStr):
            shown = "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield from _keep_prose(node.lineno, shown)
            for part in node.values:
                yield from list_strings(part) if isinstance(part, ast.FormattedValue) else ()
        elif isinstance(node, ast.Constant):
            yield from _keep_prose(node.lineno, node.value) if isinstance(node.value, str) else ()
        else:
            yield from list_strings(node)


def _keep_prose(line: int, text: str) -> Iterator[tuple[int, str]]:
    if re.search(r"[a-z] |[ ][a-z]", text) and not re.search(r"\\[bsdwS(\[.]|\(\?[:P=!<]|\bSELECT\b", text):
        yield line, text


def read_documents() -> Iterator[Passage]:
    """Documents without fences, code and addresses."""
    for path in [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        name = path.relative_to(ROOT).as_posix()
        area = "/".join(name.split("/")[:2]) if name.count("/") > 1 else name
        text = re.sub(r"^```.*?^```", _keep_lines, path.read_text(), flags=re.DOTALL | re.MULTILINE)
        for hidden in (r"`[^`]*`", r"\]\([^)]*\)", r"<[^>]*>", r"“[^”]*”|\"[^\"]*\""):
            text = re.sub(hidden, _keep_lines, text)
        yield Passage(area, name, 1, text)


def _keep_lines(match: re.Match[str]) -> str:
    return "{}" + "\n" * match[0].count("\n")


def find_slips(passages: Iterator[Passage]) -> list[Slip]:
    return [
        Slip(passage, passage.line + passage.text.count("\n", 0, found.start()), found[0], better)
        for passage in passages
        for pattern, better in STRUCK.items()
        for found in pattern.finditer(passage.text)
    ]


@pytest.fixture(scope="module")
def slips() -> dict[str, list[Slip]]:
    passages = list(list_passages())
    found: dict[str, list[Slip]] = {passage.area: [] for passage in passages}
    for slip in find_slips(iter(passages)):
        found[slip.passage.area].append(slip)
    return found


def test_no_text_shows_what_an_editor_struck_out(slips: dict[str, list[Slip]]) -> None:
    assert [str(slip) for found in slips.values() for slip in found if slip.key not in EXCUSED] == []


# Docstrings and comments: how many of the same patterns are left, each right as it is or still to be read. Only ever
# lower.
PROSE_LEFT = {"runner": 22, "benchapp": 6, "inspector": 4, "demo": 0, "skillglass": 0, "tools": 2}


@every(*PROSE_LEFT)
def test_docstrings_and_comments_get_no_more_of_them(layer: str) -> None:
    from tools.prose import find_slips as find_in_prose

    slips = [
        f"{path}:{line}: {found}" for path in (ROOT / layer).rglob("*.py") for line, found, _ in find_in_prose(path)
    ]
    assert len(slips) <= PROSE_LEFT[layer], slips


@every(*PROSE_LEFT, "lab")
def test_no_name_needs_decoding(layer: str) -> None:
    found = []
    for path in (ROOT / layer).rglob("*.py"):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(NAMES_LEFT):
            found += [f"{name}:{line}: {each}" for line, each in list_names(ast.parse(path.read_text()))]
    assert found == [], NAMES


def list_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, name) of every name that is on the list: of variables, arguments, attributes and definitions."""
    for node in ast.walk(tree):
        for field in ("id", "arg", "attr", "name"):
            name = getattr(node, field, None)
            if isinstance(name, str) and OLD_NAMES.fullmatch(name):
                yield getattr(node, "lineno", 0), name


def test_every_excuse_is_needed(slips: dict[str, list[Slip]]) -> None:
    assert set(EXCUSED) <= {slip.key for found in slips.values() for slip in found}


@pytest.mark.parametrize(
    "text",
    [
        "3 groups, of which 2 pass",
        "The time machine\ntells why",
        "Everything is there",
        "the checks stand beside them",
        "it is held against the baseline",
        "the broker is away",
        "a task is no suite",
    ],
)
def test_a_pattern_is_found_across_lines_and_cases(text: str) -> None:
    assert find_slips(iter([Passage("", "", 1, text)]))


@pytest.mark.parametrize("text", ["There is no such run", "There is no longer a queue", "It is no longer there yet"])
def test_plain_words_are_left_alone(text: str) -> None:
    assert find_slips(iter([Passage("", "", 1, text)])) == []


def test_words_of_a_template_are_its_texts_and_its_titles() -> None:
    text = '{% if told %}<p class="told" title="Says so">\n{# told #}No {{ told }}</p>{% badge word "two words" %}'
    words = strip_template(text).replace("{}", " ")
    assert words.split() == ["Says", "so.", "No", "two", "words"]
    assert words.count("\n") == 1


def test_docstrings_and_searches_are_no_prose() -> None:
    source = 'def f():\n    """Why it is told."""\n    x = re.compile(r"told \\bthis")\n    return f"so {told} it is"'
    assert list(list_strings(ast.parse(source))) == [(4, "so {} it is")]


def print_counts() -> None:
    """One line per area: slips and passages; with --all also every slip."""
    passages = list(list_passages())
    found = find_slips(iter(passages))
    counts = Counter(slip.passage.area for slip in found)
    for area in sorted({passage.area for passage in passages}):
        print(f"{counts[area]:>5}  {area}")
    print(f"{len(found):>5}  in all")
    wanted = sys.argv[1:]
    for slip in found if wanted else ():
        if any(slip.passage.path.startswith(each) for each in wanted) or wanted == ["--all"]:
            print(slip)


if __name__ == "__main__":
    print_counts()
