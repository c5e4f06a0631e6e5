from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from benchapp.deploy.static_files import collect_if_changed


@pytest.fixture
def sheet(tmp_path: Path, settings: Any) -> Path:
    folder = tmp_path / "static"
    folder.mkdir()
    settings.STATICFILES_DIRS, settings.STATIC_ROOT = [folder], tmp_path / "collected"
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }
    sheet = folder / "ours.css"
    sheet.write_text("a {}")
    return sheet


def test_files_are_collected_again_only_when_one_changed(sheet: Path, tmp_path: Path) -> None:
    assert [collect_if_changed(), collect_if_changed()] == [True, False]
    sheet.write_text("b {}")
    os.utime(sheet, ns=(1, 1))  # same size; also an older time is a change
    assert [collect_if_changed(), collect_if_changed()] == [True, False]
    assert (tmp_path / "collected" / "ours.css").read_text() == "b {}"
    sheet.unlink()
    assert collect_if_changed()
    assert not (tmp_path / "collected" / "ours.css").exists()


def test_a_collection_that_was_cut_short_is_done_again(
    sheet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_short(*_: object, **__: object) -> None:
        (tmp_path / "collected").mkdir()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("benchapp.deploy.static_files.call_command", cut_short)
        with pytest.raises(KeyboardInterrupt):
            collect_if_changed()
    assert collect_if_changed()
