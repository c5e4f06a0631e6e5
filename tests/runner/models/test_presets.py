"""Preset files: the ones that come along, one's own, and what is refused in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.agents import AGENTS, Limits
from runner.base.errors import SetupError
from runner.engine.setup import describe_setup, setup_digest
from runner.models import make_model
from runner.models.litellm.client import TIMEOUT_SECONDS, LiteLLM
from runner.models.litellm.litellm_package import load_litellm
from runner.models.preset_file import OPTIONS, looks_like_a_key
from runner.models.presets import FILES, list_preset_variables, may_send_key, preset_files, read_preset_named
from runner.suites import load_suite
from tests.cases import every
from tests.providers.model_names import KEYS, MODELS

GOOD = """\
provider: vllm
agent_model: qwen3-coder
host_model: openai/qwen3-coder
api_base_variable: MODELS_AT
key_variable: MODELS_PASS
options: {temperature: 0.7, top_p: 0.8}
prices: {input: 0.5, output: 2, cached: 0.05}
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SKILLGLASS_PRESETS", str(tmp_path))
    return tmp_path


def test_it_reads_every_preset_that_comes_along() -> None:
    presets = {name: read_preset_named(name) for name in preset_files()}
    assert {"claude-opus-4.6", "gpt-5.3-codex", "gemini-3-flash", "kimi-k2.5"} <= presets.keys()
    assert {preset.harness for preset in presets.values()} == {
        "claude-code", "codex", "gemini-cli", "kimi-code", "qwen-code", "shell",
    }  # fmt: skip
    assert {preset.harness for preset in presets.values()} <= AGENTS.keys()
    assert {name for name, preset in presets.items() if preset.key_variable is None} == {"small-smollm2-135m"}
    assert all(make_model(name).preset == preset for name, preset in presets.items())


def test_one_of_ones_own_stands_beside_them(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (own / "house.yaml").write_text(GOOD)
    preset = read_preset_named("house")
    assert (preset.harness, preset.options["top_p"], preset.variables) == ("shell", 0.8, ("MODELS_AT", "MODELS_PASS"))
    assert {"MODELS_PASS", "ANTHROPIC_API_KEY"} <= list_preset_variables()
    monkeypatch.delenv("MODELS_AT", raising=False)
    with pytest.raises(SetupError, match="MODELS_AT is not set"):
        preset.base_url()
    monkeypatch.setenv("MODELS_AT", "http://127.0.0.1:1/v1")
    assert preset.base_url() == "http://127.0.0.1:1/v1"


def test_an_unknown_name_is_told_with_the_known_ones() -> None:
    with pytest.raises(SetupError, match=r"unknown preset 'gpt-9'; known: claude-haiku-4.5, "):
        make_model("gpt-9")


def test_a_name_that_is_there_already_is_an_error_that_names_both_files(own: Path) -> None:
    (own / "gpt-5.4.yaml").write_text(GOOD)
    with pytest.raises(SetupError) as caught:
        read_preset_named("gemini-2.5-pro")
    assert str(own / "gpt-5.4.yaml") in str(caught.value)
    assert str(FILES / "gpt-5.4.yaml") in str(caught.value)


KEY = "sk-proj-4fT9xQ2LmZ8vB1nC"


@every(
    ("provider: vllm\n", "", "provider: Field required"),
    ("agent_model: qwen3-coder", "agent_modle: qwen3-coder", "agent_modle: Extra inputs"),
    ("MODELS_PASS", KEY, "key_variable: Value error, expected the NAME"),
    ("MODELS_PASS", "lower_case", "key_variable: Value error, expected the NAME"),
    ("openai/qwen3-coder", KEY, "host_model: Value error, looks like a key"),
    ("temperature: 0.7", f"extra_body: {{auth: {KEY}}}", "looks like a key"),
    ("temperature: 0.7", "messages: []", "options: unknown messages; known: "),
    ("api_base_variable: MODELS_AT", "api_base: ftp://a", "api_base: Value error, expected an address"),
    ("api_base_variable: MODELS_AT", "api_base: https://me:word@a/v1", "api_base: Value error, expected an address"),
    ("provider: vllm", "provider: vllm\napi_base: http://a/v1", "give api_base or api_base_variable"),
    ("input: 0.5", "input: -1", "prices.input: Input should be greater"),
    ("provider: vllm", "provider: [", "not YAML"),
    ("provider: vllm", "provider: 2026-02-30", "not YAML (ValueError)"),
    ("provider: vllm", f"agent_environment: {{{KEY}: A}}\nprovider: vllm", "agent_environment.a name"),
)
def test_a_file_that_is_not_as_it_should_be_is_refused_by_file_and_field(
    before: str, after: str, told: str, own: Path
) -> None:
    assert before in GOOD
    (own / "house.yaml").write_text(GOOD.replace(before, after))
    with pytest.raises(SetupError) as caught:
        read_preset_named("house")
    assert str(caught.value).startswith(f"{own / 'house.yaml'}: ")
    assert told in str(caught.value)
    assert KEY not in str(caught.value)


@every(*KEYS, "Bearer abcdefgh1", "-----BEGIN PRIVATE KEY-----")
def test_it_knows_a_key_by_its_looks(text: str) -> None:
    assert looks_like_a_key(f"value {text}")
    assert looks_like_a_key(text)


@every(*MODELS)
def test_a_models_name_is_no_key(name: str, own: Path) -> None:
    assert not looks_like_a_key(name)
    (own / "house.yaml").write_text(GOOD.replace("openai/qwen3-coder", name))
    assert make_model("house").preset.host_model == name  # type: ignore[union-attr]
    assert make_model(f"litellm/{name}").name == f"litellm/{name}"


def test_a_model_with_an_address_in_its_name_is_refused(own: Path) -> None:
    (own / "house.yaml").write_text(GOOD.replace("openai/qwen3-coder", "huggingface/https://models.example.org"))
    with pytest.raises(SetupError, match="host_model: Value error, expected a model's name without an address"):
        read_preset_named("house")


def test_every_parameter_of_a_call_can_be_an_option(own: Path) -> None:
    """But what is the runner's to say, and what is no parameter of a model's."""
    known = set(load_litellm().constants.DEFAULT_CHAT_COMPLETION_PARAM_VALUES)
    ours = "model messages tools stream stream_options n functions function_call max_retries drop_params audio"
    ours += " custom_llm_provider include_server_side_tool_invocations"
    assert known - OPTIONS == set(ours.split())
    (own / "house.yaml").write_text(GOOD.replace("temperature: 0.7", "temperature: null, logit_bias: {'5': -100}"))
    assert read_preset_named("house").options["temperature"] is None


def test_the_setup_covers_what_the_file_says_and_nothing_the_variables_hold(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def digest(text: str) -> str:
        (own / "house.yaml").write_text(text)
        setup = describe_setup(
            load_suite("starter"), protocol="skillevolbench", agent="shell", agent_model="house", author_model="house",
            sandbox="local", feedback="process", profile="paper", answers=1, samples=1, limits=Limits(),
        )  # fmt: skip
        assert "the-value" not in str(setup)
        assert ("written" in str(setup)) == (
            "written" in text
        )  # setups from before there was such a price keep their digest
        return setup_digest(setup)

    monkeypatch.setenv("MODELS_PASS", "the-value-of-the-key-1")
    first = digest(GOOD)
    monkeypatch.setenv("MODELS_PASS", "the-value-of-the-key-2")
    assert digest(GOOD) == first
    assert digest(GOOD.replace("0.8", "0.95")) != first
    assert digest(GOOD.replace("cached: 0.05", "cached: 0.05, written: 0.6")) != first


def test_limits_of_a_model_are_stated_in_its_file(own: Path) -> None:
    (own / "house.yaml").write_text(GOOD + "timeout_seconds: 600\nmax_tokens: 4096\ncontext_window: 32768\n")
    model = make_model("house")
    assert isinstance(model, LiteLLM)
    assert (model.timeout_seconds, model.context_window) == (600, 32_768)
    (own / "house.yaml").write_text(GOOD)
    model = make_model("house")
    assert isinstance(model, LiteLLM)
    assert (model.timeout_seconds, model.context_window) == (TIMEOUT_SECONDS, None)


def test_the_window_of_a_known_model_is_the_lists() -> None:
    assert LiteLLM("litellm/openai/gpt-4.1-mini").context_window == 1_047_576
    assert LiteLLM("litellm/openai/nobody-knows-it").context_window is None
    assert make_model("claude-opus-4.6").context_window == 1_000_000  # type: ignore[attr-defined]


@pytest.mark.parametrize("line", ["timeout_seconds: 0", "timeout_seconds: .nan", "max_tokens: 0", "context_window: -1"])
def test_a_limit_that_makes_no_sense_is_refused(own: Path, line: str) -> None:
    (own / "house.yaml").write_text(f"{GOOD}{line}\n")
    with pytest.raises(SetupError, match=line.partition(":")[0]):
        read_preset_named("house")


def test_the_setup_covers_a_models_limits_and_not_the_patience_with_its_provider(own: Path) -> None:
    def digest(more: str = "") -> str:
        (own / "house.yaml").write_text(GOOD + more)
        return read_preset_named("house").digest

    assert digest("timeout_seconds: 600\n") == digest()
    assert digest("max_tokens: 4096\n") != digest()
    assert digest("context_window: 32768\n") != digest()


def test_a_preset_without_an_address_pairs_its_key_with_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plain.yaml").write_text(
        "provider: openai\nagent_model: gpt-4.1-mini\nhost_model: openai/gpt-4.1-mini\nkey_variable: PLAIN_KEY\n"
    )
    monkeypatch.setenv("SKILLGLASS_PRESETS", str(tmp_path))
    assert read_preset_named("plain").base_url() is None
    assert not may_send_key("PLAIN_KEY", "evil.example/v1")
