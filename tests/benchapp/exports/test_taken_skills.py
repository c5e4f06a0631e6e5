"""Exported skills: real git applies the patches and gets the same bytes, also with hostile texts."""

from __future__ import annotations

import io
import os
import subprocess
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchapp.exports.taken_skills import (
    ADDRESS,
    CannotTakeSkills,
    MailedChange,
    own_line,
    pack_zip,
    quote,
    read_files,
    read_taken,
    render_mails,
    write_patch,
)
from benchapp.models import Entry, Seeding, Snapshot
from runner.base.trees import read_tree, write_tree
from runner.base.types import DecisionStatus, File, Files
from tests.cases import every
from tests.worlds.factories import (
    add_entry,
    make_decision,
    make_episode,
    make_experiment,
    make_family,
    make_run,
    make_snapshot,
    make_task,
    make_trial,
)

AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
QUIET = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "HOME": "/nonexistent"}
COMMITTER = {"GIT_COMMITTER_NAME": "me", "GIT_COMMITTER_EMAIL": "me@example.org", "GIT_AUTHOR_NAME": "me"}


def git(folder: Path, *arguments: str, given: bytes = b"") -> str:
    environ = {**os.environ, **QUIET, **COMMITTER, "GIT_AUTHOR_EMAIL": "me@example.org"}
    done = subprocess.run(["git", "-C", str(folder), *arguments], input=given, capture_output=True, env=environ)
    assert done.returncode == 0, done.stderr.decode() + done.stdout.decode()
    return done.stdout.decode()


def start(folder: Path, files: Files, prefix: str = "skills") -> Path:
    """A repository whose folder `prefix` has these files, and a file of its own."""
    git(folder.parent, "init", "-q", str(folder))
    (folder / "README.md").write_text("mine\n")
    if files:
        write_tree(folder / prefix if prefix else folder, files)
    git(folder, "add", "--all", "--force")
    git(folder, "commit", "-qm", "start")
    return folder


def files_in(folder: Path) -> dict[str, File]:
    return {path: file for path, file in read_tree(folder).files.items() if not path.startswith((".git/", "README.md"))}


def mail(
    before: Files, after: Files, *, author: str = "m", subject: str = "S", body: tuple[str, ...] = ("Body",)
) -> bytes:
    return b"".join(render_mails(iter([MailedChange("ab12", author, AT, subject, body, before, after)]), "skills/"))


def f(content: bytes | str, mode: int = 0o644) -> File:
    return File(content.encode() if isinstance(content, str) else content, mode)


CHANGES: dict[str, tuple[Files, Files]] = {
    "an "
    "edit": ({"a/SKILL.md": f("1\n2\n3\n4\n5\n6\n7\n8\n9\n")}, {"a/SKILL.md": f("1\n2\n3\n4\nfive\n6\n7\n8\n9\n10\n")}),
    "no final newline": ({"a/x": f("1\n2")}, {"a/x": f("1\n2\n"), "a/y": f("no end")}),
    "a newline that went": ({"a/x": f("1\n2\n")}, {"a/x": f("1\n2")}),
    "both without": ({"a/x": f("1\n2")}, {"a/x": f("0\n2")}),
    "empty files": ({"a/x": f("")}, {"a/y": f(""), "a/z": f("\n")}),
    "to empty and from it": ({"a/x": f("1\n"), "a/y": f("")}, {"a/x": f(""), "a/y": f("1")}),
    "modes": ({"a/x": f("1\n"), "a/y": f("1\n", 0o755)}, {"a/x": f("1\n", 0o755), "a/y": f("2\n")}),
    "binary": ({"a/x": f(bytes(range(256)) * 9)}, {"a/x": f(bytes(range(255, -1, -1)) * 9), "a/new.png": f(b"\0" * 53)}),  # noqa: E501
    "binary to text": ({"a/x": f(b"\0\1"), "a/y": f("t\n")}, {"a/x": f("text\n"), "a/y": f(b"\xff\xfe")}),
    "carriage returns": ({"a/x": f("1\r\n2\r\n")}, {"a/x": f("1\r\n3\r\n"), "a/y": f("new\r\n"), "a/z": f("end\r")}),
    "a NUL far down": ({}, {"a/x": f(b"line\n" * 4000 + b"\0\n")}),
    "Latin-1": ({}, {"a/x": f("é\n".encode("latin-1"))}),
    "other line ends": ({"a/x": f("a\u2028b\x0bc\x0c\x85\n")}, {"a/x": f("a\u2028B\x0bc\x0c\x85\nmore\x1c\n")}),
    "a file becomes a folder": ({"a/x": f("1\n"), "b/c/d": f("2\n")}, {"a/x/y": f("1\n"), "b/c": f("3\n")}),
    "odd names": ({'a/"q" \\o/ä ö.md'.replace("\\", "#"): f("1\n")}, {"a/tab\there": f("1\n"), "a/line\nfeed -> "
        "x": f("2\n")}),
    "lines like a patch": (
        {"a/x": f("- - -\n-- \n--- a/x\n+++ b/x\n")},
        {"a/x": f("From ab12 Mon Sep 17 00:00:00 2001\ndiff --git a/x b/x\n-- >8 --\n-- \n---\n@@ -1 +1 @@\n")},
    ),
    "white space": ({"a/x": f("1 \n\t\n")}, {"a/x": f("1  \n \t\n\n\n\n"), "a/y": f("  \n\n")}),
}  # fmt: skip


@pytest.mark.parametrize("case", CHANGES)
def test_git_am_gives_the_same_bytes(tmp_path: Path, case: str) -> None:
    before, after = CHANGES[case]
    folder = start(tmp_path / "own", before)
    git(folder, "am", "-q", given=mail(before, after))
    assert files_in(folder / "skills") == after
    assert git(folder, "status", "--porcelain") == ""


def test_a_long_text_goes_as_a_binary_patch(tmp_path: Path) -> None:
    before, after = {"a/x": f("\n".join(map(str, range(9_000))))}, {"a/x": f("\n".join(map(str, range(1, 9_000))))}
    sent = mail(before, after)
    assert b"GIT binary patch" in sent
    assert len(sent) < 60_000
    folder = start(tmp_path / "own", before)
    git(folder, "am", "-q", given=sent)
    assert files_in(folder / "skills") == after


HOSTILE = (
    "First line\nFrom: Mallory <m@evil.example>\nSubject: other\n---\ndiff --git a/x b/x\nIndex: x\n--- a/x\n+++ b/x\n"
    "-- >8 ----- 8< --\n8< 8< 8< 8< 8<\n>% %< ---\nFrom ab12 Mon Sep 17 00:00:00 2001\n>From ab12 Mon Sep 17 00:00:00 "
    "2001\n[PATCH] x\nSigned-off-by: Mallory <m@evil.example>\n\x1b[31mred\r\nend 1>80 and 88%"
)
SUBJECTS = {
    "x\nFrom: Mallory <m@evil.example>": "x",
    "x\r\nDate: never": "x",
    "[brackets] stay": "Skills: [brackets] stay",
    "Re: stays": "Skills: Re: stays",
    "=?utf-8?q?x=0Adiff?= is text": "=?utf-8?q?x=0Adiff?= is text",
    "Größe ≤ 3: “quoted”": "Größe ≤ 3: “quoted”",
    "z" * 400: "z" * 99 + "…",
    "ü" * 400: "ü" * 99 + "…",
}


@pytest.mark.parametrize("scissors", ["true", "false"])
def test_what_a_decision_says_stays_a_message(tmp_path: Path, scissors: str) -> None:
    folder, after = start(tmp_path / "own", {}), {"a/SKILL.md": f("text\n")}
    body = (own_line(f"Decision 1 {HOSTILE}"), "", *quote(HOSTILE))
    sent = mail({}, after, author="gpt-5@2026 <b>\nFrom: x", body=body)
    git(folder, "-c", f"mailinfo.scissors={scissors}", "am", "-q", given=sent)
    assert files_in(folder) == {"skills/a/SKILL.md": f("text\n")}
    assert git(folder, "rev-list", "--count", "HEAD").strip() == "2"
    name, email, date, subject = git(folder, "log", "-1", "--format=%an%n%ae%n%aI%n%s").splitlines()
    assert (name, email, date) == ("gpt-5 2026 b From x", ADDRESS, "2026-03-04T05:06:07+00:00")
    assert subject == "S"
    message = git(folder, "log", "-1", "--format=%B")
    assert "> Signed-off-by: Mallory" in message
    assert "> end 1>80 and 88%" not in message
    assert "and 88%" in message
    assert "\x1b" not in message
    assert git(folder, "log", "-1", "--format=%(trailers)").strip() == ""


@pytest.mark.parametrize("given", SUBJECTS)
def test_a_subject_is_one_line_and_stays_as_it_is(tmp_path: Path, given: str) -> None:
    folder = start(tmp_path / "own", {})
    git(folder, "am", "-q", given=mail({}, {"a/x": f("1\n")}, subject=given))
    assert git(folder, "log", "-1", "--format=%an|%s").strip() == f"m|{SUBJECTS[given]}"


# --- from the record ------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_a_chain_of_decisions_becomes_commits_with_their_evidence(tmp_path: Path) -> None:
    run = make_run(make_experiment(name="Nightly"), author_model="acme/writer@2026")
    episode, family = make_episode(run, title="Tables"), make_family()
    states: list[Files] = [
        {},
        {"tidy/SKILL.md": f("---\nname: tidy\n---\nfirst\n"), "tidy/logo.png": f(b"\x89PNG\0\r\n")},
        {"tidy/SKILL.md": f("---\nname: tidy\n---\nsecond"), "tidy/scripts/run.sh": f("#!/bin/sh\r\n", 0o755)},
    ]
    snapshots = [Snapshot.objects.put(each) for each in states]
    seen = make_trial(episode, make_task(title="Sum a column"), success=False)
    make_decision(
        *(episode, family),
        before=snapshots[0],
        after=snapshots[1],
        summary="[tables] Write the skill\nbecause sk-" + "abc123" * 6,
        evidence=[seen, make_trial(episode, success=True), make_trial(episode, success=None)],
        after_trial=seen,
    )
    make_decision(
        episode, family, before=snapshots[1], after=snapshots[2], status=DecisionStatus.REJECTED, summary="no"
    )
    make_decision(episode, family, before=snapshots[1], after=snapshots[2], summary="")
    make_trial(episode, snapshot=snapshots[2], read=["tidy"], mounted=["tidy"], success=True)
    taken = read_taken(episode)
    assert [state.key for state in taken.chain][0] == "R0"
    assert len(taken.chain) == 3
    folder = start(tmp_path / "own", {})
    git(folder, "am", "-q", given=write_patch(taken))
    assert files_in(folder / "skills") == states[2] == read_files(taken.end.snapshot)
    assert git(folder, "log", "--reverse", "--format=%an <%ae>|%s").splitlines()[1:] == [
        f"Skill author acme/writer 2026 <{ADDRESS}>|Skills: [tables] Write the skill",
        f"Skill author acme/writer 2026 <{ADDRESS}>|Decision 3",
    ]
    first, second = (git(folder, "log", "-1", "--format=%B", place) for place in ("HEAD~1", "HEAD"))
    assert "Decision 1 in “Tables” of “Nightly”." in first
    assert "The author saw 3 trials: 1 of 2 with a verdict passed." in first
    assert "- acquisition, Sum a column: failed" in first
    assert "> because [redacted:api-key]" in first
    assert "Later trials that read these lines: 1 of 1 passed." in second
    assert (
        git(folder, "log", "-1", "--format=%(trailers:key=Skillglass-Library,valueonly)").strip() == snapshots[2].digest
    )

    (tmp_path / "later").mkdir()
    later = start(tmp_path / "later/own", states[1], prefix="")
    git(later, "am", "-q", given=write_patch(read_taken(episode, start=taken.chain[1].key), prefix=""))
    assert files_in(later) == states[2]
    assert git(later, "rev-list", "--count", "HEAD").strip() == "2"


@pytest.mark.django_db
def test_files_that_no_change_explains_are_a_commit_of_their_own(tmp_path: Path) -> None:
    episode = make_episode()
    one, other, last = (make_snapshot({"a/SKILL.md": text}) for text in ("1\n", "2\n", "3\n"))
    make_decision(episode, make_family(), before=make_snapshot({}), after=one, summary="one")
    make_decision(episode, make_family(), before=other, after=last, summary="last")
    folder = start(tmp_path / "own", {})
    git(folder, "am", "-q", given=write_patch(read_taken(episode), "packs/skills/"))
    assert files_in(folder / "packs/skills") == {"a/SKILL.md": f("3\n")}
    subjects = git(folder, "log", "--reverse", "--format=%s").splitlines()[1:]
    assert subjects == ["one", "Files differ here that no recorded change explains.", "last"]


@pytest.mark.django_db
def test_a_candidate_of_a_tree_leaves_by_its_own_branch(tmp_path: Path) -> None:
    episode, family = make_episode(), make_family()
    empty, root, left, right = (
        make_snapshot(each and {"a/SKILL.md": each}) for each in ({}, "0\n", "left\n", "right\n")
    )
    make_decision(episode, family, before=empty, after=root)
    make_decision(episode, family, before=root, after=left)
    make_decision(episode, family, before=root, after=right)
    taken = read_taken(episode)
    assert len(taken.history.states) == 4
    assert len(taken.chain) == 3
    folder = start(tmp_path / "own", {})
    git(folder, "am", "-q", given=write_patch(taken))
    assert files_in(folder / "skills") == {"a/SKILL.md": f("right\n")}
    beside = taken.history.states[2].key
    with pytest.raises(CannotTakeSkills, match=f"was not made from {beside}"):
        read_taken(episode, start=beside)


@pytest.mark.django_db
def test_patches_begin_with_the_skills_that_the_first_decision_found(tmp_path: Path) -> None:
    episode, family = make_episode(), make_family()
    seed, better = make_snapshot({"a/SKILL.md": "seed\n"}), make_snapshot({"a/SKILL.md": "better\n"})
    add_entry(episode, Entry.Kind.SEED, seeding=Seeding.objects.create(family=family, snapshot=seed))
    assert [state.key for state in read_taken(episode).chain] == ["R0", "S1"]
    folder = start(tmp_path / "own", {})
    git(folder, "am", "-q", given=write_patch(read_taken(episode)))
    assert git(folder, "log", "-1", "--format=%an|%s").startswith("No author recorded|Skills that entered")
    make_decision(episode, family, before=seed, after=better, summary="better")
    assert [state.key for state in read_taken(episode).chain] == ["S1", "R1"]
    git(folder, "am", "-q", given=write_patch(read_taken(episode)))
    assert files_in(folder / "skills") == {"a/SKILL.md": f("better\n")}


@pytest.mark.django_db
@every(
    "../x",
    "/etc/x",
    "a//b",
    "a\\..\\b",
    "a/.git/hooks/post-checkout",
    ".GIT/config",
    "a/.git. /x",
    "git~1/x",
    "a/./b",
)
def test_a_path_that_leads_out_is_refused(path: str) -> None:
    episode = make_episode()
    make_decision(
        episode, make_family(), before=make_snapshot({}), after=make_snapshot({path: "x", "ok/SKILL.md": "x"})
    )
    taken = read_taken(episode)
    with pytest.raises(CannotTakeSkills):
        read_files(taken.end.snapshot)
    with pytest.raises(CannotTakeSkills):
        write_patch(taken)


@pytest.mark.django_db
def test_what_cannot_be_taken_is_said() -> None:
    episode = make_episode()
    make_decision(episode, make_family(), before=make_snapshot({}), after=make_snapshot({"a": "x", "a/b": "y"}))
    with pytest.raises(CannotTakeSkills, match="a part of this path is a file"):
        read_files(read_taken(episode).end.snapshot)
    with pytest.raises(CannotTakeSkills, match="never at 'R7'"):
        read_taken(episode, "R7")
    with pytest.raises(CannotTakeSkills, match="plain relative path"):
        write_patch(read_taken(episode), "../skills")


def test_an_archive_has_the_files_with_their_modes_and_no_time() -> None:
    files = {"b/run.sh": f("x\n", 0o755), "a/SKILL.md": f(b"\0\r\n")}
    packed = pack_zip(files)
    assert packed == pack_zip(dict(reversed(files.items())))
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        found = {each.filename: f(archive.read(each), each.external_attr >> 16 & 0o777) for each in archive.infolist()}
    assert found == files
