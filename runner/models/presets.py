"""The available presets by name: the bundled ones and the operator's."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from runner.base.errors import NotOnThisMachine, SetupError
from runner.base.types import JsonValue
from runner.base.var_folder import var_folder
from runner.models.preset import SUFFIX, Preset

FILES = Path(__file__).parent / "preset_files"
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,49}")


def read_preset_named(name: str) -> Preset:
    """Read a preset. SetupError names the known ones, or the file, field and expectation if its file is invalid."""
    from runner.models.preset_file import read_preset  # it imports pydantic, which only users of presets should pay for

    files = preset_files()
    if name not in files:
        raise SetupError(f"unknown preset {name!r}; known: {', '.join(sorted(files)) or 'none'}")
    return read_preset(files[name])


def preset_files() -> dict[str, Path]:
    """Name -> file, of the bundled presets and the operator's own.

    SetupError for a name that both have: the choice must not depend on the machine.
    """
    found = {_name(path): path for path in sorted(FILES.glob(f"*{SUFFIX}"))}
    own = own_folder()
    if not own.is_dir():
        if os.environ.get("SKILLGLASS_PRESETS", "").strip():
            raise SetupError(f"SKILLGLASS_PRESETS={str(own)!r}: expected a folder with one .yaml file per preset")
        return found
    for path in sorted(own.glob(f"*{SUFFIX}")):
        if (name := _name(path)) in found:
            raise SetupError(f"{path}: the preset {name!r} exists already, in {found[name]}; choose another name")
        found[name] = path
    return found


def own_folder() -> Path:
    """Return $SKILLGLASS_PRESETS, or the folder `presets` of the installation's data."""
    own = os.environ.get("SKILLGLASS_PRESETS", "").strip()
    return Path(own) if own else var_folder() / "presets"


def store_preset(name: str, values: Mapping[str, JsonValue]) -> Path:
    """Write a preset of the operator. SetupError for invalid values or name, and for a name in use."""
    import yaml

    from runner.models.preset_file import check_preset

    if not NAME.fullmatch(name):
        raise SetupError("expected a preset's name of at most 50 characters, in a-z, 0-9, '.', '_' and '-'")
    path = own_folder() / f"{name}{SUFFIX}"
    if name in (files := preset_files()):
        raise SetupError(f"the preset {name!r} exists already, in {files[name]}; choose another name")
    check_preset(path, values)
    text = yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise SetupError(f"{path}: {error.strerror}") from error
    return path


def list_preset_variables() -> frozenset[str]:
    """List all environment variables that some preset reads a key or a private address from.
    An unreadable file names none: nobody can use it either."""
    from runner.models.preset_file import read_preset

    found: set[str] = set()
    for path in preset_files().values():
        with suppress(SetupError):
            found.update(read_preset(path).variables)
    return frozenset(found)


def may_send_key(variable: str, address: str) -> bool:
    """Does a preset read this key for the same server, or does SKILLGLASS_KEY_VARIABLES list its variable?"""
    from runner.models.preset_file import read_preset

    if variable in {name.strip() for name in os.environ.get("SKILLGLASS_KEY_VARIABLES", "").split(",")}:
        return True
    for path in preset_files().values():
        with suppress(SetupError, NotOnThisMachine):
            preset = read_preset(path)
            place = preset.base_url()
            if place and preset.key_variable == variable and _origin(place) == _origin(address):
                return True
    return False


def _origin(address: str) -> tuple[str, str]:
    parts = urlsplit(address)
    return parts.scheme, parts.netloc.lower()


def _name(path: Path) -> str:
    name = path.name.removesuffix(SUFFIX)
    if not NAME.fullmatch(name):
        raise SetupError(f"{path}: file name: expected a preset's name in a-z, 0-9, '.', '_' and '-', then {SUFFIX}")
    return name
