"""What an agent asks of its sandbox: a program mounted in it, a provider to reach, folders for the library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from runner.base.types import Usage
from runner.models.wire.call_slots import Endpoint
from runner.programs import Program

DUMMY_KEY = "key-is-added-by-the-gateway"  # programs and client libraries refuse to start without one


@dataclass(frozen=True, slots=True)
class Provider:
    """The target of a program's model calls. The key stays outside the sandbox: the gateway adds it to each request."""

    base_url: str  # "https://api.anthropic.com"; the program gets the gateway's address instead
    key_variable: str | None  # name of the environment variable that holds the key; None if none is needed
    key_header: str = "authorization"  # "x-api-key", "x-goog-api-key"; "authorization" sends "Bearer <key>"
    # The calls its program makes: "messages", "responses", "chat/completions", "generateContent"; "": any.
    wire: str = ""
    models: frozenset[str] = frozenset()  # allowed ones, by the provider's names; empty: any
    endpoint: Endpoint = Endpoint("the model", "unknown")  # for the queue of calls


@dataclass(frozen=True, slots=True)
class Needs:
    """An agent's requirements on top of the task's. A sandbox that cannot meet them raises SetupError."""

    skill_folders: tuple[str, ...] = ()  # absolute paths that lead to the library too, one writable copy for all
    program: Program | None = None
    provider: Provider | None = None
    before_call: Callable[[], None] | None = None  # called by the gateway before each call, which its exceptions refuse
    after_call: Callable[[Usage], None] | None = None  # called by the gateway with the usage of each call
    counted: bool = False  # does a budget need the usage of each call? Providers that give none are then refused
    price: Callable[[Usage, int], float | None] | None = None  # US dollars of a call's usage and its cache writes
    whole_trial: bool = False  # does the agent leave the whole trial to its sandbox, as Harbor's own agents do?
    image_skills: bool = False  # may the image's own skills stay? For programs other than agents


NOTHING = Needs()
