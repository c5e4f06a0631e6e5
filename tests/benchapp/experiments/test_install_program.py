"""manage.py install_program."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from runner.programs import names, pin_of


def test_it_lists_the_pinned_programs() -> None:
    out = io.StringIO()
    call_command("install_program", stdout=out)
    assert out.getvalue().splitlines() == [f"{name} {pin_of(name).version}" for name in names()]


def test_it_tells_the_known_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLGLASS_PROGRAMS", str(tmp_path / "programs"))
    with pytest.raises(CommandError, match="unknown program 'vim'; known: claude-code"):
        call_command("install_program", "vim")


def test_it_says_where_an_installed_program_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLGLASS_PROGRAMS", str(tmp_path))
    starter = tmp_path / pin_of("codex").installation / "bin" / "codex"
    starter.parent.mkdir(parents=True)
    starter.touch()
    out = io.StringIO()
    call_command("install_program", "codex", stdout=out)
    assert out.getvalue() == f"codex {pin_of('codex').version}: {starter.parents[1]}\n"
