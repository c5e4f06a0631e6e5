"""The image of tasks that bring none, for every sandbox that is made of images."""

from __future__ import annotations

import os

DEFAULT_BASE = "python:3.12-slim"
WORKSPACE_FOLDER = "/workspace"  # if an image names no working directory


def base_name() -> str:
    return os.environ.get("SKILLGLASS_BASE_IMAGE", "").strip() or DEFAULT_BASE
