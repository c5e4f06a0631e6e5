"""Secrets go, everything else stays."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchapp.record.redaction import (
    _PAIR,
    HINTS,
    LONG,
    Redactor,
    _names_a_secret,
    is_secret_name,
    list_hints,
    list_hints_inside,
    redact_text,
    redact_value,
)
from runner.base.text import clean
from runner.base.types import Observation, Source, Step, ToolCall
from tests.cases import every
from tests.providers.model_names import MODELS

SECRETS = {
    "api-key": ["sk-ant-api03-Ab1" + "x" * 40, "sk-proj-" + "a1B2" * 10, "sk-" + "0123456789abcdef" * 2],
    "github-token": ["ghp_" + "a1" * 18, "github_pat_" + "11AB" * 12],
    "aws-key": ["AKIAIOSFODNN7EXAMPLE"],
    "google-key": ["AIza" + "Sy_0-" * 7],
    "slack-token": ["xoxb-123456789012-abcdefghij"],
    "huggingface-token": ["hf_" + "aB3" * 11],
    "jwt": ["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"],
    "private-key": [
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7v\n+abc/==\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN OPENSSH PRIVATE KEY-----\\nb3BlbnNzaC1rZXktdjEAAAAA\\n-----END OPENSSH PRIVATE KEY-----",
    ],
}


@every(*[(kind, secret) for kind, items in SECRETS.items() for secret in items])
def test_it_takes_out_what_looks_like_a_secret(kind, secret):
    found = redact_text(f'export X="{secret}"; echo ok')
    assert f"[redacted:{kind}]" in found
    assert secret not in found
    assert found.endswith('"; echo ok')


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Authorization: Bearer abcDEF123456789012345", "Authorization: Bearer [redacted:bearer]"),
        ("git clone https://me:p4ssw0rd@git.example.org/x", "git clone https://[redacted:userinfo]@git.example.org/x"),
        ("OPENAI_API_KEY=abcdef1234567890 run", "OPENAI_API_KEY=[redacted:assignment] run"),
    ],
)
def test_it_leaves_what_stands_around_a_secret(text, expected):
    assert redact_text(text) == expected


@every(
    "task-0123456789abcdef0123 and risk-assessment-2026-report-final",
    "the bearer of bad news walked 12 miles",
    "sk-learn pipelines; class sk-container",
    "OPENAI_API_KEY=$OPENAI_API_KEY ANTHROPIC_API_KEY=${KEY}",
    "https://example.org:8080/a@b and user@example.org",
    "eyJ is how base64 of a JSON object begins",
    "PRIMARY KEY=id, MAX_TOKEN=4096",
    "",
)
def test_it_leaves_ordinary_text_alone(text):
    assert redact_text(text) == text


@every(
    "api_key", "apiKey", "OPENAI_API_KEY", "X-Api-Key", "AWS_SECRET_ACCESS_KEY", "password", "Authorization", "hf_token"
)
def test_it_knows_the_names_of_secrets(name):
    assert is_secret_name(name)


@every(
    *("n_input_tokens", "max_tokens", "input_cost_per_token", "model_api_key_name", "key_point", "tokens", "key"),
    *("token_count", "pad_token", "author", "SSH_PUBLIC_KEY"),
)
def test_it_leaves_the_names_of_other_things(name):
    assert not is_secret_name(name)


def test_it_redacts_a_config_by_name_and_keeps_templates_and_counts():
    config = {
        "agent": {"env": {"OPENAI_API_KEY": "plainsecretvalue", "HOME": "/root"}, "api_key": "${OPENAI_API_KEY}"},
        "n_input_tokens": 5,
        "headers": [{"Authorization": "Basic dXNlcjpwYXNz"}],
        "password": 1234,
        "token": None,
    }
    assert redact_value(config) == {
        "agent": {"env": {"OPENAI_API_KEY": "[redacted:named]", "HOME": "/root"}, "api_key": "${OPENAI_API_KEY}"},
        "n_input_tokens": 5,
        "headers": [{"Authorization": "[redacted:named]"}],
        "password": "[redacted:named]",
        "token": None,
    }


def test_it_redacts_the_raw_text_of_a_json_file_like_its_values():
    inner = json.dumps({"password": "hunter2", "user": "me"})
    text = json.dumps({"arguments": {"api_key": "abc", "n_tokens": "5"}, "text": inner, "token": "${TOKEN}"})
    found = Redactor().document(text)
    assert json.loads(found) == {
        "arguments": {"api_key": "[redacted:named]", "n_tokens": "5"},
        "text": json.dumps({"password": "[redacted:named]", "user": "me"}),
        "token": "${TOKEN}",
    }
    assert Redactor().document(found) == found


def test_it_finds_a_configured_value_again_in_every_text_of_a_step():
    redactor = Redactor.knowing({"env": {"DB_PASSWORD": "correct horse battery"}})
    step = Step(
        1,
        Source.AGENT,
        "I use correct horse battery",
        reasoning="correct horse battery?",
        tool_calls=(
            ToolCall("1", "shell", {"command": "psql -W 'correct horse battery'"}, {"raw": "correct horse battery"}),
        ),
        observations=(Observation("denied: correct horse battery", "1", extra={"x": ["correct horse battery"]}),),
        extra={"note": {"correct horse battery": 1}},
    )
    found = redactor.step(step)
    assert "correct horse" not in repr(found)
    assert redactor.counts == {"configured": 7}
    assert redactor.step(found) is found


TEXTS = st.lists(
    st.sampled_from(
        [secret for items in SECRETS.values() for secret in items] + ["correct horse battery", "sk-", "task-1", " "]
    )
    | st.text(max_size=5),
    max_size=4,
).map("".join)
VALUES = st.recursive(
    st.none() | st.integers() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "api_key", "tokens", "OPENAI_API_KEY"]) | TEXTS, inner, max_size=3)
    ),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.text(max_size=3), VALUES, max_size=3)
STEPS = st.builds(
    lambda message, reasoning, name, arguments, content, extra: Step(
        1,
        Source.AGENT,
        message,
        reasoning=reasoning,
        tool_calls=(ToolCall("1", name, arguments, extra),),
        observations=(Observation(content, None, extra=extra), Observation(message, reasoning)),
        extra=extra,
    ),
    TEXTS,
    st.none() | TEXTS,
    TEXTS,
    OBJECTS,
    TEXTS,
    st.none() | OBJECTS,
)


@every(*MODELS)
def test_a_models_name_is_no_secret(name):
    texts = [name, f"litellm/{name}", f"model: {name}", f"KIMI_MODEL_NAME={name}", f"--model={name} --seed 1"]
    assert [redact_text(text) for text in texts] == texts
    config = {
        "model": name,
        "agent_model": name,
        "host_model": name,
        "tokenizer": name,
        "raw": f'{{"model": "{name}"}}',
    }
    assert redact_value(config) == config


@given(STEPS)
def test_a_step_is_passed_over_only_where_nothing_is_to_be_redacted(step):
    known, part_by_part = Redactor(("correct horse battery",)), Redactor(("correct horse battery",))
    found = known.step(step)
    assert found.message == part_by_part.text(step.message)
    assert found.reasoning == (None if step.reasoning is None else part_by_part.text(step.reasoning))
    call, before = found.tool_calls[0], step.tool_calls[0]
    assert call.name == part_by_part.text(before.name)
    assert call.arguments == part_by_part.value(before.arguments)
    for after, whole in zip(found.observations, step.observations, strict=True):
        assert after.content == part_by_part.text(whole.content)
        assert after.extra == (None if whole.extra is None else part_by_part.value(whole.extra))
    assert found.extra == (None if step.extra is None else part_by_part.value(step.extra))


@given(
    st.lists(
        st.sampled_from(['"', '\\"', ":", " ", "api_key", "TOKEN", "name", "x" * 12, ",", "\\", "-", "Keys", "é"]),
        max_size=14,
    )
)
def test_a_raw_document_is_passed_over_only_where_no_pair_is_to_be_redacted(parts):
    text = "".join(parts)
    named = any(is_secret_name(match["name"]) for match in _PAIR.finditer(text))
    assert _names_a_secret(text) or not named


@given(
    st.lists(
        st.sampled_from(
            [secret for items in SECRETS.values() for secret in items] + ["x = 1", " ", "\n", "key:", "a/b"]
        )
    )
)
def test_it_changes_nothing_the_second_time(parts):
    once = redact_text(" ".join(parts))
    assert redact_text(once) == once
    assert redact_text(" ".join(parts)) == once


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_it_keeps_the_shape_of_any_json_value(value):
    json.dumps(redact_value(value))
    assert redact_value(redact_value(value)) == redact_value(value)


@every(*[hint for hint, _ in HINTS])
def test_a_hint_is_found_in_a_long_text_as_in_a_short_one(hint):
    filling = "Éa line of text_with KEY, tok-en: [0]\n" * (LONG // 30)
    found = [each for each, _ in list_hints(f"{filling}{hint}{filling}")]
    assert hint in found
    assert len(list_hints(hint)) == len(HINTS)


SPELT = [
    *(hint for hint, _ in HINTS),
    "sk-",
    "\\",
    "\\u0073",
    "\\/",
    "\\n",
    "\x1b[0m",
    "\\u001b[1m",
    "\\u00e9",
    "\\t",
    "A",
    ":",
    "é",
    "\r",
]


@given(st.lists(st.sampled_from([*SPELT, *(letter for letter in "sk-eyJhf_xo:/")])))
def test_no_hint_in_a_text_of_a_document_is_passed_over(parts):
    document = '{"message": "' + "".join(parts) + "x" * LONG + '"}'
    try:
        text = json.loads(document, strict=False)["message"]
    except ValueError:
        return
    inside = list_hints_inside(document, list_hints(document))
    assert inside is None or {hint for hint, _ in HINTS if hint in clean(text)} <= {hint for hint, _ in inside}


@every(*[items[0] for kind, items in SECRETS.items() if kind != "private-key"])
@every(1, 2)
def test_a_secret_in_numbered_letters_is_found_in_a_raw_document(depth, secret):
    document = json.dumps({"message": f"the key is {secret} here", "OPENAI_API_KEY": "correct horse"})
    if depth == 2:
        document = json.dumps(document)
    numbered = document
    for text in (secret, "horse"):
        numbered = numbered.replace(text, "".join("\\" * depth + f"u{ord(letter):04x}" for letter in text))
    assert secret not in numbered
    assert Redactor().document(numbered) == Redactor().document(document)


def test_the_rest_of_a_secret_behind_a_numbered_letter_goes_too():
    secret = SECRETS["api-key"][0]
    document = json.dumps({"message": f"{secret[:30]}\\u0078{secret[31:]}"}).replace("\\\\u", "\\u")
    assert Redactor().document(document) == Redactor().document(json.dumps({"message": secret}))


def test_an_assignment_as_gson_writes_it_is_found_in_a_raw_document():
    found = Redactor().document(r'{"message": "OPENAI_API_KEY\u003dabcdef1234567890 run \u003c"}')
    assert found == '{"message": "OPENAI_API_KEY=[redacted:assignment] run <"}'


def test_numbered_letters_without_a_secret_stay_as_they_are():
    text = '{"message": "a pattern: \\\\u0061, an accent: \\u00e9, a letter: \\u0062", "token": "[redacted:named]"}'
    assert Redactor().document(text) == text


def test_names_are_seen_by_their_ends_alone():
    names = ["api_key", "X-Api-Key", "DB_PASSWORD_", "authToken", "GITLAB_PAT", "cookie", "credentials", "pwd", "auth"]
    assert all(_names_a_secret(f'{{"{name}": "x"}}') for name in names)
    assert all(_names_a_secret(f'"{{\\"{name}\\": \\"x\\"}}"') for name in names)


@given(st.text(alphabet="ghp_sk-eyJA=TOKENé", min_size=LONG // 8))
def test_no_hint_in_a_text_is_passed_over(text):
    text = text * 8
    listed = {hint for hint, _ in list_hints(text)}
    assert {hint for hint, _ in HINTS if hint in text} <= listed


def test_a_key_without_an_end_goes_up_to_the_next_one():
    keys = ["-----BEGIN PRIVATE KEY-----\n" + letter * 40 for letter in "ABC"]
    found = redact_text("\n".join([*keys, "-----END PRIVATE KEY-----", "after"]))
    assert not any(letter * 16 in found for letter in "ABC")
    assert found.endswith("\nafter")


@every("x-", "-", "", "a eyJ-", "eyJhbGciOiJIUzI1NiJ9-")
def test_a_token_is_found_behind_other_words(before):
    token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"
    found = redact_text(f"{before}{token} after")
    assert "eyJzdWIi" not in found
    assert found.endswith("[redacted:jwt] after")
