"""Does what `manage.py` does, with a scripted model that takes SCRIPTED_SECONDS for a reply, so that trials overlap."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from demo.scripted import Scripted  # noqa: E402
from runner.base.types import ModelReply, ModelRequest  # noqa: E402


class WaitingModel(Scripted):
    def complete(self, request: ModelRequest) -> ModelReply:
        time.sleep(float(os.environ.get("SCRIPTED_SECONDS", "0")))
        return super().complete(request)


if __name__ == "__main__":
    from django.core.management import execute_from_command_line

    from runner.models import MODELS

    MODELS["scripted"] = "lab.waiting_worker:WaitingModel"
    execute_from_command_line(sys.argv)
