"""Where data go, in a clone and of an installed program."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.base import var_folder


def test_a_clone_keeps_data_beside_manage_py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SKILLGLASS_VAR", raising=False)
    assert not var_folder.IS_INSTALLED
    assert var_folder.var_folder() == Path(__file__).resolve().parents[3] / "var"


def test_an_installed_program_keeps_data_in_the_users_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(var_folder, "IS_INSTALLED", True)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SKILLGLASS_VAR", " ")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert var_folder.var_folder() == tmp_path / ".local" / "share" / "skillglass"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert var_folder.var_folder() == tmp_path / "data" / "skillglass"
    monkeypatch.setenv("SKILLGLASS_VAR", str(tmp_path / "told"))
    assert var_folder.var_folder() == tmp_path / "told"
