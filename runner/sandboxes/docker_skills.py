"""Skills that an image brings: taken away before the library comes, so that an agent has no others than its library's."""

from __future__ import annotations

import shlex

from runner.sandboxes import SKILLS

# Below a home or a working directory: where agent programs look for skills, ours (runner/agents) and others that images
# are made for.
PLACES = (
    ".agents/skills",
    ".claude/skills",
    ".codex/skills",
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
    ".openhands/skills",
    ".qwen/skills",
)
ABSOLUTE = (f"/{SKILLS}", "/etc/claude-code/.claude/skills", "/etc/codex/skills")
MAX_TOLD = 50
# A folder stays, with its owner and empty; a link goes. What was found is printed, a line each; the status is not 0
# where something is left. Nothing but the image's own files is there yet: the library's volume is empty.
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
}
for home in {homes} "$HOME" /home/*; do clear_home "$home"; done
while IFS=: read -r _ _ _ _ _ home _; do clear_home "$home"; done 2>/dev/null < /etc/passwd
for place in {absolute}; do clear "$place"; done
exit $left"""


def clearing(working_directory: str, more: tuple[str, ...]) -> str:
    """The command that takes away every skill of the image; `more` are further absolute folders of skills."""
    homes = dict.fromkeys(("/root", "/", working_directory))
    absolute = dict.fromkeys((*ABSOLUTE, *more))
    return (
        _CLEAR.replace("{homes}", shlex.join(homes))
        .replace("{places}", shlex.join(PLACES))
        .replace("{absolute}", shlex.join(absolute))
    )
