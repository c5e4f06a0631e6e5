"""Images, for every sandbox that is made of one: the one for tasks that bring none, and the removal of skills that an
image brings, because no agent may find any but those of its library."""

from __future__ import annotations

import os
import shlex
from pathlib import PurePosixPath

from runner.sandboxes import SKILLS

DEFAULT_BASE = "python:3.12-slim"
WORKSPACE_FOLDER = "/workspace"  # if an image names no working directory


def base_name() -> str:
    return os.environ.get("SKILLGLASS_BASE_IMAGE", "").strip() or DEFAULT_BASE


# Below a home or a working directory: where agent programs look for skills, both ours (runner/agents) and others that
# images are made for.
PLACES = (
    ".agents/skills",
    ".claude/skills",
    ".cline/skills",
    ".codex/skills",
    ".config/agent/skills",
    ".config/agents/skills",
    ".config/goose/skills",
    ".config/opencode/skill",
    ".config/opencode/skills",
    ".copilot/skills",
    ".cursor/skills",
    ".factory/skills",
    ".gemini/skills",
    ".github/skills",
    ".goose/skills",
    ".kimi/skills",
    ".kimi-code/skills",
    ".opencode/skill",
    ".opencode/skills",
    ".openclaw/skills",
    ".openhands/skills",
    ".pi/agent/skills",
    ".qwen/skills",
)
ABSOLUTE = (
    f"/{SKILLS}",
    "/etc/claude-code/.claude/skills",
    "/etc/codex/skills",
    "/runtime/skills",
    "/tmp/hermes/skills",
)
# Shell patterns below a home or a working directory: skills of extensions and plug-ins.
EXTENSIONS = (
    ".claude/plugins/cache/*/*/*/skills",
    ".gemini/extensions/*/skills",
    ".qwen/extensions/*/skills",
)
# Variables that replace a folder below the home: variable -> that folder, "" for the home itself.
VARIABLES = {
    "CLAUDE_CONFIG_DIR": ".claude",
    "CODEX_HOME": ".codex",
    "GEMINI_CLI_HOME": "",
    "KIMI_CODE_HOME": ".kimi-code",
    "KIMI_SHARE_DIR": ".kimi",
    "QWEN_HOME": ".qwen",
    "XDG_CONFIG_HOME": ".config",
}
DEPTH = 8  # levels below the working directory: programs find skills in folders of a repository, too
MAX_NAMED = 200
# Folders stay, with their owner and empty; links are removed. Finds are printed, a line each; the status is not 0 if
# something is left. Only the image's own files exist at this time: the library's volume is empty.
_CLEAR = """left=0
clear() {
  [ -e "$1" ] || [ -L "$1" ] || return 0
  if [ -L "$1" ] || [ ! -d "$1" ]; then echo "$1"; rm -f -- "$1"; { [ ! -e "$1" ] && [ ! -L "$1" ]; } || left=1; return 0; fi
  [ -n "$(ls -A -- "$1")" ] || return 0
  echo "$1"
  for each in "$1"/* "$1"/.[!.]* "$1"/..?*; do
    if [ -e "$each" ] || [ -L "$each" ]; then rm -rf -- "$each"; fi
  done
  [ -z "$(ls -A -- "$1")" ] || left=1
}
clear_home() {
  for place in {places}; do clear "${1%/}/$place"; done
  for place in {extensions}; do clear "$place"; done
}
for home in {homes} "$HOME" /home/*; do clear_home "$home"; done
while IFS=: read -r _ _ _ _ _ home _; do clear_home "$home"; done 2>/dev/null < /etc/passwd
for place in {absolute}; do clear "$place"; done
{variables}
while IFS= read -r place; do [ -z "$place" ] || clear "$place"; done <<EOF
$(find {below} -prune -print 2>/dev/null)
EOF
for skill in {own}; do
  if [ -f "$skill" ]; then clear "${skill%/SKILL.md}"; fi
done
exit $left"""  # noqa: E501
_LINE_BREAK = "! -path '*\n*'"  # a path with one would be read as two


def build_clearing(working_directory: str, more: tuple[str, ...], own: str = "") -> str:
    """The command that removes every skill of the image. `more`: further absolute folders of skills.

    `own`: the folder that the task names for its skills. It may be any folder, so only folders with a SKILL.md are
    emptied, and nothing if the working directory is inside it.
    """
    folder = PurePosixPath(working_directory)
    own = "" if own and folder.is_relative_to(own) else own
    skills = " -o ".join(f"-path {shlex.quote(f'*/{place}')}" for place in PLACES)
    parts = {
        "homes": shlex.join(dict.fromkeys(("/root", "/", str(folder), *map(str, folder.parents)))),
        "places": shlex.join(PLACES),
        "extensions": " ".join(f'"${{1%/}}"/{place}' for place in EXTENSIONS),
        "absolute": shlex.join(dict.fromkeys((*ABSOLUTE, *more))),
        "variables": "\n".join(_clear_variable(name, replaced) for name, replaced in VARIABLES.items()),
        "below": f"{shlex.quote(str(folder))} -xdev -maxdepth {DEPTH} {_LINE_BREAK} \\( {skills} \\)",
        "own": " ".join(f"{shlex.quote(own)}/{place}SKILL.md" for place in ("", "*/", "*/*/")) if own else "",
    }
    command = _CLEAR
    for name, text in parts.items():
        command = command.replace(f"{{{name}}}", text)
    return command


def _clear_variable(name: str, replaced: str) -> str:
    if not replaced:
        return f'[ -z "${name}" ] || clear_home "${name}"'
    places = [place.removeprefix(f"{replaced}/") for place in PLACES if place.startswith(f"{replaced}/")]
    return f'[ -z "${name}" ] || for place in {shlex.join(places)}; do clear "${{{name}%/}}/$place"; done'
