"""The package litellm as we use it: quiet, without a look at the network, and without packages that we do not need."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from runner.base.types import TOO_LONG
from runner.models.wire.error_wording import iterate_causes

WINDOW_FILLED = "model_context_window_exceeded"  # Anthropic's stop_reason of a reply that filled the window
_MCP_GATEWAY = "litellm.responses.mcp.litellm_proxy_mcp_handler"


def load_litellm() -> ModuleType:
    """Return the module. Importing it takes seconds, so the first call loads it. ImportError if it is not installed."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # it would fetch a price list
    module = importlib.import_module("litellm")
    litellm: Any = module
    litellm.suppress_debug_info = True  # it prints advice to standard output
    litellm.telemetry = False
    logging.getLogger("LiteLLM").setLevel(logging.WARNING)
    reasons: Any = importlib.import_module("litellm.litellm_core_utils.core_helpers")
    reasons._FINISH_REASON_MAP.setdefault(WINDOW_FILLED, TOO_LONG)  # it would say "stop"
    _do_without_mcp()
    importlib.import_module("runner.models.wire.bounded").install(litellm)  # httpx takes a while to import
    return module


def find_missing_module(error: BaseException) -> str | None:
    """Return the message about a missing package ("No module named 'boto3'"), if an error comes from one.

    litellm reports a missing package as a lost connection, with the ImportError behind it.
    """
    return next((str(cause) for cause in iterate_causes(error) if isinstance(cause, ImportError)), None)


class _NoGateway:
    """Replaces litellm's gateway to MCP servers, which none of our tools uses."""

    @staticmethod
    def should_use_litellm_mcp_gateway(tools: object = None) -> bool:
        return False


def _do_without_mcp() -> None:
    """From the source of litellm 1.106.2: `responses()` imports its MCP gateway before it asks whether one is wanted.

    That import needs the package `mcp`. All models that are reached through the Responses API pass there.
    """
    if _MCP_GATEWAY in sys.modules or find_spec("mcp") is not None:
        return
    stand_in: Any = ModuleType(_MCP_GATEWAY)
    stand_in.LiteLLM_Proxy_MCP_Handler = _NoGateway
    sys.modules[_MCP_GATEWAY] = stand_in
