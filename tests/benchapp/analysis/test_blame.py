"""Blame: every line's author, equal to a slow second implementation that keeps an identity for every line."""

from __future__ import annotations

from fractions import Fraction
from hashlib import sha256
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from benchapp.analysis.lineage.line_history import Blame, trace_lines
from benchapp.record.textual_change import match_lines

Library = dict[str, bytes]


def traced(history: list[Library]) -> Blame:
    contents = {sha256(content).hexdigest(): content for library in history for content in library.values()}
    manifests = [{path: sha256(content).hexdigest() for path, content in library.items()} for library in history]
    return trace_lines(manifests, contents)


# --- the second implementation: a table of lengths, an identity per line, nothing shared with the first ---------------


def slow_lines(content: bytes) -> list[bytes]:
    lines, line = [], b""
    for at in range(len(content)):
        char = content[at : at + 1]
        if char == b"\n":
            lines.append(line)
            line = b""
        else:
            line += char
    return [*lines, line] if content and not content.endswith(b"\n") else lines


def slow_pairs(old: list[bytes], new: list[bytes]) -> dict[int, int]:
    """new place -> old place of a longest common subsequence: backward, the new line is left out first."""
    table = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i, before in enumerate(old, 1):
        for j, after in enumerate(new, 1):
            table[i][j] = table[i - 1][j - 1] + 1 if before == after else max(table[i - 1][j], table[i][j - 1])
    pairs = {}
    i, j = len(old), len(new)
    while i > 0 and j > 0:
        if table[i][j - 1] == table[i][j]:
            j -= 1
        elif table[i - 1][j] == table[i][j]:
            i -= 1
        else:
            i, j = i - 1, j - 1
            pairs[j] = i
    return pairs


def slow_alike(old: bytes, new: bytes) -> Fraction:
    if old == new:
        return Fraction(1)
    # Like the first: a file less than half as long as the other is not the same one.
    if 2 * min(len(old), len(new)) < max(len(old), len(new)):
        return Fraction(0)
    left = slow_lines(new)
    common = 0
    for line in slow_lines(old):
        if line in left:
            left.remove(line)
            common += len(line) + 1
    return Fraction(common, max(sum(len(line) + 1 for line in slow_lines(side)) for side in (old, new)))


def slow_sources(before: Library, after: Library) -> dict[str, str]:
    """path -> the path it had before; taken best pair by best pair."""
    sources = {path: path for path in after if path in before}
    gone = [path for path in before if path not in after]
    come = [path for path in after if path not in before]
    while True:
        best = None
        for old in gone:
            for new in come:
                alike = slow_alike(before[old], after[new])
                inside = old.split("/", 1)[1] == new.split("/", 1)[1]
                name = old.split("/")[-1] == new.split("/")[-1]
                rank = (-alike, not inside, not name, old, new)
                if alike >= Fraction(1, 2) and (best is None or rank < best):
                    best = rank
        if best is None:
            return sources
        *_, old, new = best
        sources[new] = old
        gone.remove(old)
        come.remove(new)


def slow_blame(history: list[Library]) -> list[dict[str, list[tuple[int, int]]]]:
    """For each state and file the (identity, state it was written in) of every line."""
    identities = count()
    states: list[dict[str, list[tuple[int, int]]]] = []
    for state, library in enumerate(history):
        before = history[state - 1] if state else {}
        sources = slow_sources(before, library)
        files = {}
        for path, content in library.items():
            lines = [(next(identities), state) for _ in slow_lines(content)]
            if path in sources:
                written = states[-1][sources[path]]
                for new, old in slow_pairs(slow_lines(before[sources[path]]), slow_lines(content)).items():
                    lines[new] = written[old]
            files[path] = lines
        states.append(files)
    return states


# --- random histories -----------------------------------------------------------------------------------------------

LINES = st.sampled_from([b"", b"a", b"b", b"- rule", b"# head", b"a long line of text", b"\xff\r"])
TEXTS = st.builds(
    lambda lines, end: b"\n".join(lines) + end, st.lists(LINES, max_size=9), st.sampled_from([b"", b"\n"])
)
PATHS = st.sampled_from(["a/SKILL.md", "b/SKILL.md", "c/SKILL.md", "a/references/x.md", "b/references/x.md", "a/y.py"])


@st.composite
def histories(draw: st.DrawFn) -> list[Library]:
    """Libraries that are edited, whose files move, and whose skills are renamed, several of it at once."""
    library: Library = draw(st.dictionaries(PATHS, TEXTS, max_size=4))
    history = [library]
    for _ in range(draw(st.integers(0, 6))):
        library = dict(library)
        for _ in range(draw(st.integers(0, 3))):
            act = draw(st.sampled_from(["write", "edit", "edit", "move", "rename", "delete"]))
            path = draw(st.sampled_from(sorted(library))) if library and act != "write" else draw(PATHS)
            if act == "write":
                library[path] = draw(TEXTS)
            elif act == "edit" and path in library:
                lines = slow_lines(library[path])
                at = draw(st.integers(0, len(lines)))
                lines[at : at + draw(st.integers(0, 2))] = draw(st.lists(LINES, max_size=2))
                library[path] = b"\n".join(lines) + draw(st.sampled_from([b"", b"\n"]))
            elif act == "move" and path in library:
                library[draw(PATHS)] = library.pop(path)
            elif act == "rename":
                old, new = path.split("/")[0], draw(st.sampled_from("abcd"))
                library = {
                    f"{new}/{name.split('/', 1)[1]}" if name.startswith(f"{old}/") else name: text
                    for name, text in library.items()
                }
            elif act == "delete":
                library.pop(path, None)
        history.append(library)
    return history


@settings(max_examples=300, deadline=None)
@given(histories())
def test_it_equals_the_slow_one_on_random_histories(history):
    found, slow = traced(history), slow_blame(history)
    last = {}
    for state, files in enumerate(slow):
        assert found.states[state].keys() == files.keys()
        for path, lines in files.items():
            assert found.origins(state, path) == [born for _, born in lines], (state, path)
            last.update(dict.fromkeys((identity for identity, _ in lines), state))
    for state, files in enumerate(slow):
        for path, lines in files.items():
            mine = [found.lines[number].last for number in found.states[state][path]]
            assert mine == [last[identity] for identity, _ in lines], (state, path)


@settings(max_examples=300, deadline=None)
@given(st.lists(LINES, max_size=14), st.lists(LINES, max_size=14))
def test_it_keeps_a_longest_common_subsequence(old, new):
    pairs = slow_pairs(old, new)
    assert match_lines(old, new) == [pairs.get(place) for place in range(len(new))]


# --- what it means, in examples -------------------------------------------------------------------------------------


def test_it_keeps_the_author_of_a_line_through_a_rename_of_its_skill_with_an_edit():
    found = traced(
        [
            {"tidy/SKILL.md": b"name: tidy\nstep one\nstep two\nstep three\n", "tidy/references/a.md": b"x\n"},
            {"clean/SKILL.md": b"name: clean\nstep one\nstep two\nstep three\nfour\n", "clean/references/a.md": b"x\n"},
        ]
    )
    assert found.origins(1, "clean/SKILL.md") == [1, 0, 0, 0, 1]
    assert found.origins(1, "clean/references/a.md") == [0]
    assert found.paths(1, "clean/SKILL.md") == {0: "tidy/SKILL.md", 1: "clean/SKILL.md"}


def test_it_gives_a_line_that_came_back_to_whoever_brought_it_back():
    found = traced([{"a/SKILL.md": b"1\n2\n"}, {"a/SKILL.md": b"1\n"}, {"a/SKILL.md": b"1\n2\n"}])
    assert found.origins(2, "a/SKILL.md") == [0, 2]
    assert [line.last for line in found.lines] == [2, 0, 2]


def test_it_leaves_a_repeated_line_with_its_first_author():
    found = traced([{"a/SKILL.md": b"- rule\n"}, {"a/SKILL.md": b"- rule\n- rule\n"}])
    assert found.origins(1, "a/SKILL.md") == [0, 1]


def test_it_takes_a_file_that_shares_too_little_for_a_new_one():
    found = traced([{"a/SKILL.md": b"1\n2\n3\n"}, {"b/SKILL.md": b"1\n7\n8\n"}])
    assert found.origins(1, "b/SKILL.md") == [1, 1, 1]


def test_it_takes_bounded_time_on_two_long_files():
    old = [b"%d" % (number * 7 % 5000) for number in range(8000)]
    new = [b"%d" % (number * 11 % 5000) for number in range(8000)]
    assert len(match_lines(old, new)) == 8000
    assert match_lines([b"x", *old, *old], [b"x", *new, *new])[:3] == [0, 1, None]  # beyond the cap: as rewritten
